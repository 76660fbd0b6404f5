"""One regularised, marginal-scaled truncated SVD of pair counts: the initialisation of pairs, topics, hmm and
communities.

Paper     Huang, Kakade, Kong & Valiant 2018, "Recovering Structured Probability Matrices", step 3(a)i of Algorithm 1
          (rescaling by the marginals) and Appendix E's second baseline; regularised as in Le, Levina & Vershynin 2015
Needs     counts (rows, columns) of pairs drawn from B = D W Dᵀ; a number of counts some multiple of the items
Promises  D's column space from N of order M log M (Section 2). With N of order M nothing is proved without the bins of
          Theorem 2.1; in the simulations of `pairs:linear` its error is that of N/M, whatever M
Differs   one decomposition of the whole matrix instead of one per bin of marginals. What the bins are for, rare items
          next to frequent ones, is done by `regularise`: ρ + regularise · mean(ρ) in place of ρ under the roots. On
          every simulated model it is at least as good as the two phases (docs/guide/pairs.md)

Symbols   paper   here             shape      meaning
          B_N/N   matrix / total   (M, M')    frequencies of pairs
          ρ̂       row_marginal     (M,)       (6)
          E       operator         (M, M')    D_r^{-1/2} (B_N/N − ρ̂ρ̂ᵀ) D_c^{-1/2}, D = ρ̂ + regularise · mean
          u       left, right      (M, k)     its leading vectors, the largest value first
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator, eigsh, svds

from latentfit.core.errors import NotIdentifiableError
from latentfit.core.kernels import Floats
from latentfit.core.kernels.pair_rows import PairRows, pair_product
from latentfit.core.mixture.spa import successive_projection
from latentfit.core.simplex import simplex_least_squares
from latentfit.engine.limits import one_blas_thread

PRECISE = 1e-10
"""Relative residual at which a vector is found: parameters are then right to 1e-9, in two thirds of the products."""
DENSE_BELOW = 200
"""Smaller matrices are decomposed whole: ARPACK needs rank + 1 < size, and gains nothing there."""


@dataclass(frozen=True)
class ScaledSVD:
    """Leading values (largest magnitude first; negative ones possible in the symmetric case) and vectors."""

    values: Floats  # (k,)
    left: Floats  # (M, k)
    right: Floats  # (M', k); the same object as `left` in the symmetric case
    row_marginal: Floats  # (M,) ρ̂, not regularised
    column_marginal: Floats  # (M',)
    row_scale: Floats  # (M,) what was put under the root
    column_scale: Floats  # (M',)
    centred: bool
    symmetric: bool

    def embedding(self) -> tuple[Floats, Floats]:
        """Rows x_i = Δ_i / ρ_i of every item, (M, k) and (M', k): B_ij ≈ ρ_i ρ_j (1 + Σ_s values_s x_is y_js).

        Δ̂ = D^{1/2} u as in step 3(a)iii; an item without counts gets x = 0.
        """
        parts = []
        for vectors, scale, marginal in (
            (self.left, self.row_scale, self.row_marginal),
            (self.right, self.column_scale, self.column_marginal),
        ):
            safe = np.where(marginal > 0, marginal, 1.0)
            parts.append(vectors * (np.where(marginal > 0, np.sqrt(scale) / safe, 0.0))[:, None])
        return parts[0], parts[1]


def scaled_svd(
    matrix: sp.csr_array,
    rank: int,
    *,
    regularise: float = 1.0,
    symmetric: bool | None = None,
    centred: bool = False,
    tol: float = PRECISE,
    kernel_rows: tuple[PairRows, PairRows] | None = None,
    threads: int = 1,
) -> ScaledSVD:
    """The `rank` leading singular vectors of the scaled frequencies; eigenvectors by magnitude when symmetric.

    `centred` takes ρ_r ρ_cᵀ off first, so that what comes back is structure alone. With ``symmetric=True`` counts of
    ordered pairs (i, j) of a symmetric B serve as (C + Cᵀ)/2 without that matrix being made; None asks the matrix.
    `kernel_rows` are the rows and columns as the kernels read them, where they are at hand (`Counts.rows`, `.columns`).
    ``regularise=0`` is Appendix E's √marginal scaling, ``regularise=inf`` its plain truncated SVD (Claim E.1).
    """
    if symmetric is None:
        symmetric = matrix.shape[0] == matrix.shape[1] and _equals_transpose(matrix)
    total = float(matrix.data.sum())
    if not total > 0:
        raise NotIdentifiableError("there is no pair at all to count; give at least one")
    rows = np.asarray(matrix.sum(axis=1), np.float64).reshape(-1) / total  # (6)
    cols = np.asarray(matrix.sum(axis=0), np.float64).reshape(-1) / total
    if symmetric:
        rows = cols = (rows + cols) / 2
    row_scale, column_scale = (_regularised(part, regularise) for part in (rows, cols))
    if rank > min(matrix.shape) - int(centred):
        raise NotIdentifiableError(
            f"rank {rank + int(centred)} is asked of counts of {matrix.shape[0]} × {matrix.shape[1]} items; "
            f"ask for at most {min(matrix.shape)}"
        )
    # 1/root of a scale that is zero (regularise=0 and no counts) is zero: the item is left out.
    left_root, right_root = (_inverse_root(scale) for scale in (row_scale, column_scale))
    if kernel_rows is None:
        own = PairRows.of(matrix)
        kernel_rows = own, PairRows.of(sp.csr_array(matrix.T))
    operator = _operator(*kernel_rows, (rows, cols) if centred else None, total, threads)
    operator = _diagonal(left_root / total) @ operator @ _diagonal(right_root)
    with one_blas_thread():
        if symmetric:
            values, left = leading_eigenpairs(0.5 * (operator + operator.T), rank, tol=tol)
            left = right = np.ascontiguousarray(left * peak_signs(left))
        else:
            values, left, right = leading_singular(operator, rank, tol=tol)
            signs = peak_signs(left)
            left, right = np.ascontiguousarray(left * signs), np.ascontiguousarray(right * signs)
    return ScaledSVD(values, left, right, rows, cols, row_scale, column_scale, centred, bool(symmetric))


def _operator(
    own: PairRows, turned: PairRows, marginals: tuple[Floats, Floats] | None, total: float, threads: int
) -> LinearOperator:
    """Products with the counts C, or with C − total · ρρ'ᵀ where marginals are given."""
    counts = LinearOperator(
        (own.n_rows, own.n_columns), dtype=np.float64,
        matvec=lambda vector: pair_product(own, np.ascontiguousarray(vector.reshape(-1)), threads=threads),
        rmatvec=lambda vector: pair_product(turned, np.ascontiguousarray(vector.reshape(-1)), threads=threads),
    )  # fmt: skip
    return counts if marginals is None else less_product(counts, total * marginals[0], marginals[1])


def _diagonal(entries: Floats) -> LinearOperator:
    return aslinearoperator(sp.diags_array(entries))


def less_product(matrix: Any, left: Floats, right: Floats) -> LinearOperator:
    """matrix − left rightᵀ of vectors, as an operator: the difference is never formed."""
    return aslinearoperator(matrix) - aslinearoperator(left[:, None]) @ aslinearoperator(right[None])


def _regularised(marginal: Floats, amount: float) -> Floats:
    """ρ + amount · mean(ρ); an infinite amount leaves the mean alone, which is no scaling at all."""
    mean = float(marginal.mean())
    return np.full_like(marginal, mean) if np.isinf(amount) else marginal + amount * mean


def leading_eigenpairs(
    matrix: Any, number: int, *, which: Literal["LM", "LA", "SA"] = "LM", tol: float = 0.0
) -> tuple[Floats, Floats]:
    """Eigenvalues (number,) and eigenvectors (n, number) of a symmetric sparse matrix or operator.

    In order of magnitude (`which` is "LM"), from the largest ("LA") or from the smallest ("SA").
    """
    size = matrix.shape[0]
    if size < DENSE_BELOW or number >= size - 1:
        full = matrix @ np.eye(size)
        values, vectors = np.linalg.eigh((full + full.T) / 2)
    else:
        values, vectors = eigsh(matrix, k=number, which=which, v0=start_vector(size), tol=tol)
    order = np.argsort({"LM": -np.abs(values), "LA": -values, "SA": values}[which], kind="stable")[:number]
    return values[order], vectors[:, order]


def leading_singular(matrix: Any, number: int, *, tol: float = 0.0) -> tuple[Floats, Floats, Floats]:
    """Largest singular values (number,) of a sparse matrix or operator, left and right vectors as columns."""
    size = min(matrix.shape)
    if size < DENSE_BELOW or number >= size - 1:
        left, values, right = np.linalg.svd(matrix @ np.eye(matrix.shape[1]), full_matrices=False)
    else:
        left, values, right = svds(matrix, k=number, v0=start_vector(size), tol=tol)
    order = np.argsort(-values, kind="stable")[:number]
    return values[order], left[:, order], right[order].T


def start_vector(size: int) -> Floats:
    """The same vector for the same size, always: spectra do not depend on anything drawn."""
    return np.random.default_rng(0).uniform(0.5, 1.5, size) * np.where(np.arange(size) % 3, 1.0, -1.0)


def peak_signs(vectors: Floats, digits: int = 12) -> Floats:
    """The signs (k,) that make the largest entry of each vector (M, k) positive, of equals (to `digits`) the first."""
    peaks = np.argmax(np.round(np.abs(vectors), digits), axis=0)
    return np.where(vectors[peaks, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)


def _inverse_root(scale: Floats) -> Floats:
    return np.where(scale > 0, 1 / np.sqrt(np.where(scale > 0, scale, 1.0)), 0.0)


def _equals_transpose(matrix: sp.csr_array) -> bool:
    difference = matrix - matrix.T
    return not difference.nnz or not np.any(difference.data)


def effective_items(marginal: Floats) -> float:
    """4 Σ (ρ_i/(ρ_i + ρ̄))²: the number of items that noise comes from; M for even marginals, fewer for others."""
    return float(4 * ((marginal / (marginal + marginal.mean())) ** 2).sum())


# -----------------------------------------------------------------------------
# Hidden causes as the anchors (vertices) of the scaled embedding: weighted centres, successive projections,
# memberships.
#
# Paper     the step from (ρ, Δ) to D and W of (1) that Huang et al. 2018 leave to anchors (Corollary 1.3), for any K;
#           anchors by successive projections (Gillis & Vavasis 2014), on centres; Arora et al. 2012 take single words
# Needs     for every cause a group of items nearly its own (anchors); K at most the rank of the counts
# Promises  with exact moments and one pure group per cause, D and W exactly
# Differs   a rare word's point is mostly noise, and the most extreme points are rare words: `CENTRES` · K weighted
#           k-means centres stand for the items, and centres that hold almost no counts are left out
#
# Symbols   paper   here          shape      meaning
#           —       points        (M, K−1)   x_i √|values|: B_ij = ρ_i ρ_j (1 + Σ_s sign_s points_is points_js)
#           —       anchors       (K, K−1)   the points of the pure items
#           —       memberships   (M, K)     P(cause | item): points = memberships · anchors
#           D       dictionary    (M, K)     P(item | cause) = ρ_i memberships_ik / weights_k; columns sum to one
#           W       mixing        (K, K)     P(cause of row, cause of column)

CENTRES = 8
"""Centres per cause: enough to have one near every anchor, few enough that each averages its items' noise away."""
LEFT_OUT = 0.02
"""Proportion of all counts whose centres, the lightest, cannot be anchors."""


@dataclass(frozen=True)
class Vertices:
    """Anchors, and what they make of the items of one side."""

    anchors: Floats  # (K, K−1)
    memberships: Floats  # (M, K)
    dictionary: Floats  # (M, K)
    weights: Floats  # (K,)


@dataclass(frozen=True)
class PairModel:
    """B = left · mixing · rightᵀ (1); columns of `left` and `right` and all of `mixing` sum to one."""

    left: Floats  # (M, K)
    right: Floats  # (M', K); the same object in the symmetric case
    mixing: Floats  # (K, K)

    @property
    def symmetric(self) -> bool:
        return self.left is self.right


def pair_model(decomposed: ScaledSVD) -> PairModel:
    """D and W of a centred decomposition with K − 1 vectors."""
    rows, columns = decomposed.embedding()
    root = np.sqrt(np.abs(decomposed.values))
    left = find_vertices(rows * root, decomposed.row_marginal)
    if decomposed.symmetric:
        signs = np.sign(decomposed.values)
        mixing = np.outer(left.weights, left.weights) * (1 + (left.anchors * signs) @ left.anchors.T)
        mixing = (mixing + mixing.T) / 2
        return PairModel(left.dictionary, left.dictionary, _distribution(mixing))
    right = find_vertices(columns * root, decomposed.column_marginal)
    mixing = np.outer(left.weights, right.weights) * (1 + left.anchors @ right.anchors.T)
    return PairModel(left.dictionary, right.dictionary, _distribution(mixing))


def find_vertices(points: Floats, mass: Floats) -> Vertices:
    """Anchors of points (M, K − 1) with masses (M,), and every item's memberships."""
    n_causes = points.shape[1] + 1
    if n_causes == 1:
        ones = np.ones((len(mass), 1))
        return Vertices(np.empty((1, 0)), ones, (mass / mass.sum())[:, None], np.ones(1))
    centres = weighted_centres(points, mass, CENTRES * n_causes)
    lifted = np.column_stack([np.ones(len(centres)), centres])
    chosen = successive_projection(lifted.T, n_causes)
    if len(chosen) < n_causes:  # fewer distinct centres than causes: the farthest items fill the places
        lifted_items = np.column_stack([np.ones(len(points)), points])
        anchors = points[successive_projection(lifted_items.T, n_causes)]
        anchors = np.vstack([anchors, np.repeat(points[:1], n_causes - len(anchors), axis=0)])
    else:
        anchors = centres[chosen]
    return memberships_at(points, mass, anchors)


def memberships_at(points: Floats, mass: Floats, anchors: Floats) -> Vertices:
    """What given anchors make of the items: the nearest point of their simplex."""
    gram, product = anchors @ anchors.T, points @ anchors.T
    proportions = simplex_least_squares(gram, product)
    joint = proportions * mass[:, None]
    weights = joint.sum(axis=0) / joint.sum()
    dictionary = joint / np.where(weights > 0, joint.sum(axis=0), 1.0)
    dictionary[:, weights == 0] = (mass / mass.sum())[:, None]
    return Vertices(anchors, proportions, dictionary, weights)


def weighted_centres(points: Floats, mass: Floats, number: int) -> Floats:
    """Centres of weighted k-means that together hold all but the lightest `LEFT_OUT` of the mass."""
    from sklearn.cluster import KMeans  # scikit-learn takes its time to import

    used = np.flatnonzero(mass > 0)
    order = used[np.lexsort((*np.round(points[used], 9).T, -mass[used]))]  # by content, not by place
    number = min(number, len(np.unique(np.round(points[order], 9), axis=0)))
    clustering = KMeans(number, n_init=1, max_iter=50, random_state=0).fit(points[order], sample_weight=mass[order])
    held = np.bincount(clustering.labels_, weights=mass[order], minlength=number)
    heaviest = np.argsort(-held, kind="stable")
    used_centres = heaviest[: int(np.searchsorted(np.cumsum(held[heaviest]), (1 - LEFT_OUT) * held.sum())) + 1]
    return np.asarray(clustering.cluster_centers_[np.sort(used_centres)], np.float64)


def _distribution(mixing: Floats) -> Floats:
    """Nonnegative, sums to one: noise may put a rare pair of causes below zero."""
    cut = np.maximum(mixing, 0.0)
    return np.asarray(cut / cut.sum())
