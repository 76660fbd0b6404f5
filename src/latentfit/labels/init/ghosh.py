"""True binary labels from the leading singular vector of the rating matrix.

Paper     Ghosh, Kale & McAfee (2011), "Who moderates the moderators? Crowdsourcing abuse detection in
          user-generated content", ACM EC: the spectral algorithm for one-coin raters
Needs     two classes; raters who err alike on both classes; the crowd right more often than wrong; about
          equally many tasks of either class (a class in the majority is itself a leading direction)
Promises  with every rater on every task and n → ∞ the proportion of wrong signs goes to zero like the noise
          over the gap of the two leading singular values
Differs   unrated cells are zeros (the paper: every cell is rated, or rated with equal probability); the sign
          comes from the votes (the paper: from one rater known to be good); the eigenvector is taken on the
          raters' side, which is smaller, and carried over to the tasks
Objective max ‖Uᵀx‖ over ‖x‖ = 1; the answer is sign(x)

Symbols   paper  here   shape   meaning
          U      A      (n, M)  ratings +1 / −1, 0 where a rater gave no label
          x      score  (n,)    leading left singular vector, up to scale
          –      v      (M,)    leading right singular vector: score = A v
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.labels.data import Labels

DENSE_SPECTRUM = 1_000
"""Up to this size all eigenvectors are computed, which takes well under a second and cannot fail to converge;
beyond it the leading one is found by Lanczos steps from a fixed vector."""

NO_EVIDENCE = 1e-12
"""A score below this fraction of the sum of its absolute terms is rounding: the task stays undecided."""


def factor_ghosh(labels: Labels) -> Floats:
    """Soft labels (n, 2) from the leading singular vector; a DataError for more than two classes."""
    A = binary_ratings(labels, "GhoshSVD")
    if labels.n_classes < 2 or labels.n_labels == 0:
        return np.full((labels.n_rows, labels.n_classes), 1 / labels.n_classes)
    v = leading_eigenvector(aslinearoperator(A.T) @ aslinearoperator(A), labels.n_workers)
    return side_with_votes(A, v)


def binary_ratings(labels: Labels, method: str) -> sp.csr_array:
    """The ratings (n, M) of a two-class problem: +1 for the second class, −1 for the first."""
    if labels.n_classes > 2:
        raise DataError(
            f"{method} is defined for two classes, these labels have {labels.n_classes}; "
            "use method='auto', or merge the classes into two"
        )
    return threshold_ratings(labels, 0)


def threshold_ratings(labels: Labels, level: int) -> sp.csr_array:
    """Ratings (n, M): +1 where the given class is above `level`, −1 where it is not, 0 where no label."""
    signs = np.where(labels.given > level, 1.0, -1.0)
    return sp.csr_array((signs, labels.workers, labels.offsets), shape=(labels.n_rows, labels.n_workers))


def leading_eigenvector(operator: LinearOperator, size: int) -> Floats:
    """Unit eigenvector of the largest eigenvalue of a symmetric operator; its largest entry is positive."""
    if size <= DENSE_SPECTRUM:
        dense = np.asarray(operator @ np.eye(size))
        vector = np.linalg.eigh((dense + dense.T) / 2)[1][:, -1]
    else:
        v0 = np.full(size, size**-0.5)
        vector = eigsh(operator, k=1, which="LA", v0=v0)[1][:, 0]
    return np.asarray(vector * np.sign(vector[np.argmax(np.abs(vector))]))


def side_with_votes(A: sp.csr_array, weights: Floats) -> Floats:
    """Soft labels (n, 2) of weighted votes, the overall sign such that they agree with the plain votes."""
    score = A @ weights
    if score @ A.sum(axis=1) < 0:
        score = -score
    return soft_binary(score, abs(A) @ np.abs(weights))


def soft_binary(score: Floats, size: Floats) -> Floats:
    """The proportion of the weight on each side, (n, 2): (1 ± score / size) / 2; without weight both get half."""
    decided = np.abs(score) > NO_EVIDENCE * size
    lean = np.divide(score, size, out=np.zeros_like(score), where=decided)
    return np.column_stack([(1 - lean) / 2, (1 + lean) / 2])
