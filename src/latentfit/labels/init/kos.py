"""True labels by the centred singular vector of each threshold, the limit of messages between tasks and raters.

Paper     Karger, Oh & Shah (2011), "Iterative learning for reliable crowdsourcing systems", NeurIPS,
          Algorithm 1 (the messages); the same (2013), "Efficient crowdsourcing for multi-class labeling",
          SIGMETRICS (K − 1 thresholds, the centred singular vector of each)
Needs     raters assigned at random, about equally many labels per task and per rater; ordered classes when K > 2
          (a threshold separates the classes below it from those above)
Promises  error falling exponentially in labels per task × crowd quality, of optimal order
Differs   the singular vector, to which the messages converge, in place of some rounds of them; tasks that no evidence
          reaches stay uniform; soft labels: the proportion of weight on the winning side of a threshold, and for
          K > 2 the smallest proportion among the thresholds that led to the answer
Objective max ‖Bᵀu‖ over ‖u‖ = 1 per threshold; the answer is the first class whose threshold says "not above"

Symbols   paper    here     shape      meaning
          A⁽ᵏ⁾     A        (n, M)     +1 where the label is above threshold k, −1 where not, 0 where no label
          B        A, mean  –          A − 1 meanᵀ, never formed
          u, v     score, v (n,), (M,) leading singular vectors
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from latentfit.core.kernels import Floats
from latentfit.labels.data import Labels
from latentfit.labels.init.ghosh import leading_eigenvector, soft_binary, threshold_ratings


def factor_kos(labels: Labels) -> Floats:
    """Soft labels (n, K)."""
    n_classes = labels.n_classes
    if n_classes < 2 or labels.n_labels == 0:
        return np.full((labels.n_rows, n_classes), 1 / n_classes)
    above = np.empty((labels.n_rows, n_classes - 1))
    for level in range(n_classes - 1):
        above[:, level] = soft_binary(*by_singular_vector(threshold_ratings(labels, level)))[:, 1]
    posterior = combine_thresholds(above)
    posterior[np.diff(labels.offsets) == 0] = 1 / n_classes
    return posterior


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
