"""Confusion matrices from pair co-occurrences by successive projection, one annotator at a time.

Each annotator's observed co-occurrences stand side by side, ``Z_m = [R_mj]_j = A_m H_mᵀ``. Scaled to sum to
one, the columns of Z_m are convex combinations of the columns of A_m, so the columns of A_m are the vertices
of the cloud, and greedy projection picks them: K times the longest column, then its direction removed.

Paper     Ibrahim, Fu, Kargas & Huang, "Crowdsourcing via pairwise co-occurrences: identifiability and
          algorithms", NeurIPS 2019: Algorithm 1 (MultiSPA)
Needs     separability: for each m and class k some co-labelling annotator j has a label l that is given to
          class k only (a class specialist); A_m of rank K; diagonally dominant A_m, to name the classes
Promises  exact moments give exact A_m; with noise the error is O(κ(A_m)² ε), the stability of successive
          projection, where ε bounds the error of a scaled column and falls like S^-1/2 for S co-labels
Differs   the columns of A_m are put in label order by an optimal assignment (released code: the largest
          entry of each row, which may use a column twice); D comes from one non-negative least squares over
          all pairs, R_mj = A_m D A_jᵀ (released code: uniform); as in the released code Z_m holds only
          blocks of rank K, but an annotator whom that leaves without K independent columns falls back on
          all their blocks (released code: left out), and who has none even then stays neutral: in every
          class they answer as they answer overall, so they do not vote

Symbols   paper     here      shape       meaning
          K, M      n_classes, n_workers
          R_mj      R         (P, K, K)   P(m says k, j says l) of the observed pairs m < j
          Z_m, Z̄_m  columns   (C, K)      scaled columns of all annotators, one per row; `owner` is m
          A_m       A         (M, K, K)   P(m says k | class f), axes (m, k, f)
          D         weights   (K,)        P(class f)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from latentfit.core.assign import match_classes
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, stack_confusions
from latentfit.labels.init.symnmf import INIT_FLOOR

Indices = NDArray[np.intp]

RANK_TOLERANCE = 1e-8
"""Ratio of singular values, or squared length of a projected column, that counts as zero: well above the
rounding of frequencies, well below what one label changes in any block of less than 10⁷ co-labels."""


def factor_multispa(pairs: PairCounts, n_classes: int) -> Mixture:
    """The Dawid–Skene model whose class k is label k, one projection per annotator (Algorithm 1)."""
    check_labels_are_classes(pairs.column_offsets, n_classes)
    left, right, _ = pairs.observed
    R = pairs.frequencies()
    columns, owner = scaled_columns(R, left, right, has_full_rank(R))
    vertices, determined = successive_projection(columns, owner, pairs.n_columns)
    columns, owner = scaled_columns(R, left, right, ~(determined[left] & determined[right]))
    others, rescued = successive_projection(columns, owner, pairs.n_columns)
    A = neutral_confusions(pairs)
    A[rescued] = in_label_order(others[rescued])
    A[determined] = in_label_order(vertices[determined])
    return floored_mixture(prior(R, left, right, A, determined | rescued), A)


def check_labels_are_classes(offsets: NDArray[np.int32], n_classes: int) -> None:
    """Every column must have one category per class: class k is label k."""
    sizes = np.diff(offsets)
    if (sizes != n_classes).any():
        n_labels = int(sizes[sizes != n_classes][0])
        raise DataError(
            f"n_classes must equal the number of labels, {n_labels}, got {n_classes}; "
            "confusion matrices need as many classes as labels"
        )


def scaled_columns(R: Floats, left: Indices, right: Indices, use: NDArray[np.bool_]) -> tuple[Floats, Indices]:
    """Z̄ from the pairs in `use`: columns (C, K) that sum to one, and whose they are, sorted by (m, j)."""
    left, right, R = left[use], right[use], R[use]
    m, j = np.r_[left, right], np.r_[right, left]
    blocks = np.concatenate([R.transpose(0, 2, 1), R])  # their rows are the columns of R_mj, and of R_jm
    order = np.lexsort((j, m))
    columns, owner = blocks[order].reshape(-1, R.shape[1]), np.repeat(m[order], R.shape[1])
    mass = columns.sum(axis=1)
    seen = mass > 0  # a label that j never gave on tasks of m
    return columns[seen] / mass[seen, None], owner[seen]  # Z̄_m(:, q) = Z_m(:, q) / ‖Z_m(:, q)‖₁


def has_full_rank(blocks: Floats) -> NDArray[np.bool_]:
    """Which of (P, K, K) are invertible; by their smallest singular value."""
    values = np.linalg.svd(blocks, compute_uv=False)
    return np.asarray(values[:, -1] > RANK_TOLERANCE * values[:, 0])


def successive_projection(columns: Floats, owner: Indices, n_workers: int) -> tuple[Floats, NDArray[np.bool_]]:
    """SPA on every annotator's cloud at once: vertices (M, K, K), and who has K independent ones."""
    size = columns.shape[1]
    vertices = np.zeros((n_workers, size, size))
    determined = np.zeros(n_workers, bool)
    if not len(columns):
        return vertices, determined
    workers, first_columns, which = np.unique(owner, return_index=True, return_inverse=True)
    residual, independent = columns.copy(), np.ones(len(workers), bool)
    for k in range(size):
        lengths = (residual**2).sum(axis=1)
        longest = np.maximum.reduceat(lengths, first_columns)
        ties = np.flatnonzero(lengths == longest[which])
        chosen = ties[np.unique(which[ties], return_index=True)[1]]  # q̂_k = argmax_q ‖r_q‖², first of equals
        independent &= longest > RANK_TOLERANCE
        vertices[workers, :, k] = columns[chosen]  # Â_m(:, k) = Z̄_m(:, q̂_k)
        direction = residual[chosen] / np.sqrt(np.maximum(longest, RANK_TOLERANCE))[:, None]
        along = (residual * direction[which]).sum(axis=1)
        residual -= along[:, None] * direction[which]  # r_q ← (I − uuᵀ) r_q
    determined[workers] = independent
    return vertices, determined


def in_label_order(A: Floats) -> Floats:
    """Each annotator's own permutation: the order of columns with the largest diagonal."""
    orders = [match_classes(matrix) for matrix in A]
    if not orders:
        return A
    return np.asarray(np.take_along_axis(A, np.array(orders)[:, None, :], axis=2))


def neutral_confusions(pairs: PairCounts) -> Floats:
    """Confusion matrices (M, K, K) that ignore the class: all columns are how the annotator answers."""
    counts = pairs.singles.reshape(pairs.n_columns, -1) + 1.0
    proportions = counts / counts.sum(axis=1, keepdims=True)
    return np.repeat(proportions[:, :, None], proportions.shape[1], axis=2)


def prior(R: Floats, left: Indices, right: Indices, A: Floats, determined: NDArray[np.bool_]) -> Floats:
    """Class weights: least squares of vec R_mj = (A_j ⊙ A_m) λ over pairs whose two matrices are determined, λ ≥ 0."""
    known = determined[left] & determined[right]
    n_classes = A.shape[2]
    if not known.any():
        return np.full(n_classes, 1 / n_classes)
    left, right = left[known], right[known]
    inner = np.einsum("mkf,mkg->mfg", A, A)
    gram = np.einsum("pfg,pfg->fg", inner[left], inner[right])
    rhs = np.einsum("pkf,pkl,plf->f", A[left], R[known], A[right], optimize=True)
    root = np.linalg.cholesky(gram + RANK_TOLERANCE**2 * np.trace(gram) * np.eye(n_classes))
    weights = nnls(root.T, np.linalg.solve(root, rhs))[0]  # ‖Lᵀλ − L⁻¹b‖² is the same least squares
    return np.asarray(weights / weights.sum()) if weights.sum() > 0 else np.full(n_classes, 1 / n_classes)


def floored_mixture(weights: Floats, A: Floats) -> Mixture:
    """The mixture of confusion matrices A (m, k, f), fit for EM: no probability below the floor."""
    weights, A = np.maximum(weights, INIT_FLOOR), np.maximum(A, INIT_FLOOR)
    return stack_confusions(weights / weights.sum(), (A / A.sum(axis=1, keepdims=True)).transpose(0, 2, 1))
