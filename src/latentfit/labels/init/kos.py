"""True labels by message passing between tasks and raters, or by its limit, a centred singular vector.

Paper     Karger, Oh & Shah (2011), "Iterative learning for reliable crowdsourcing systems", NeurIPS,
          Algorithm 1 (messages); the same (2013), "Efficient crowdsourcing for multi-class labeling",
          SIGMETRICS (K − 1 thresholds, the centred singular vector of each)
Needs     raters assigned at random, about equally many labels per task and per rater; ordered classes when K > 2
          (a threshold separates the classes below it from those above)
Promises  error falling exponentially in labels per task × crowd quality, of optimal order
Differs   messages are rescaled every round, which no sign sees; tasks that no evidence reaches stay uniform;
          soft labels: the proportion of weight on the winning side of a threshold, and for K > 2 the smallest
          proportion among the thresholds that led to the answer
Objective max ‖Bᵀu‖ over ‖u‖ = 1 per threshold; the answer is the first class whose threshold says "not above"

Symbols   paper    here     shape      meaning
          A⁽ᵏ⁾     A        (n, M)     +1 where the label is above threshold k, −1 where not, 0 where no label
          x_{i→j}  to_rater (labels,)  message of a task to a rater
          y_{j→i}  to_task  (labels,)  message of a rater to a task: how reliable, as seen from elsewhere
          B        A, mean  –          A − 1 meanᵀ, never formed
          u, v     score, v (n,), (M,) leading singular vectors
          k_max    max_iter –          rounds
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from latentfit.core.kernels import Floats
from latentfit.labels.data import Labels
from latentfit.labels.init.ghosh import leading_eigenvector, soft_binary, threshold_ratings

Inference = Literal["singular", "messages"]


def factor_kos(
    labels: Labels, *, rng: np.random.Generator, max_iter: int = 20, inference: Inference = "singular"
) -> Floats:
    """Soft labels (n, K); `rng` and `max_iter` serve the messages, the singular vector needs neither."""
    n_classes = labels.n_classes
    if n_classes < 2 or labels.n_labels == 0:
        return np.full((labels.n_rows, n_classes), 1 / n_classes)
    first_messages = rng.normal(1.0, 1.0, labels.n_labels)  # Algorithm 1: y⁽⁰⁾ ~ N(1, 1)
    above = np.empty((labels.n_rows, n_classes - 1))
    for level in range(n_classes - 1):
        A = threshold_ratings(labels, level)
        score, size = by_singular_vector(A) if inference == "singular" else by_messages(A, first_messages, max_iter)
        above[:, level] = soft_binary(score, size)[:, 1]
    posterior = combine_thresholds(above)
    posterior[np.diff(labels.offsets) == 0] = 1 / n_classes
    return posterior


def by_messages(A: sp.csr_array, first_messages: Floats, max_iter: int) -> tuple[Floats, Floats]:
    """The score of every task after `max_iter` rounds, and the sum of the sizes it is made of."""
    task = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    rater, sign = A.indices, A.data
    to_task = first_messages
    for _ in range(max_iter - 1):
        to_rater = _all_but_own(sign * to_task, task, A.shape[0])
        to_task = _all_but_own(sign * to_rater, rater, A.shape[1])
        to_task = to_task / max(np.abs(to_task).max(), np.finfo(float).tiny)
    votes = sp.csr_array((sign * to_task, A.indices, A.indptr), shape=A.shape)
    return votes.sum(axis=1), abs(votes).sum(axis=1)


def _all_but_own(incoming: Floats, node: NDArray[np.integer], n_nodes: int) -> Floats:
    """On every edge, the sum of what its node received on all its other edges."""
    return np.asarray(np.bincount(node, incoming, n_nodes)[node] - incoming)


def by_singular_vector(A: sp.csr_array) -> tuple[Floats, Floats]:
    """The score u of every task by B = A − 1 meanᵀ, and the sum of the sizes it is made of."""
    n_tasks, n_raters = A.shape
    mean = A.sum(axis=0) / n_tasks

    def gram(x: Floats) -> Floats:  # BᵀB x
        return np.asarray(A.T @ (A @ x) - n_tasks * np.outer(mean, mean @ x).reshape(x.shape))

    operator = LinearOperator((n_raters, n_raters), matvec=gram, matmat=gram, dtype=np.float64)
    v = leading_eigenvector(operator, n_raters)
    if (v[v >= 0] ** 2).sum() < 0.5:  # most weight on raters who are right
        v = -v
    return A @ v - mean @ v, abs(A) @ np.abs(v) + abs(mean @ v)


def combine_thresholds(above: Floats) -> Floats:
    """Soft labels (n, K) from P(above threshold) (n, K − 1): the first threshold not passed is the answer."""
    n_rows, n_levels = above.shape
    stopped = above < 0.5
    answer = np.where(stopped.any(axis=1), stopped.argmax(axis=1), n_levels)
    level = np.arange(n_levels)
    passed = np.where(level < answer[:, None], above, 1.0).min(axis=1)
    stop = np.where(level == answer[:, None], 1 - above, 1.0).min(axis=1)
    confidence = np.minimum(passed, stop)
    posterior = np.repeat(((1 - confidence) / n_levels)[:, None], n_levels + 1, axis=1)
    posterior[np.arange(n_rows), answer] = confidence
    return posterior
