"""Unobserved co-occurrences of two workers from three observed ones, through two designated workers.

Paper     Ibrahim & Fu (2022), "Crowdsourcing via annotator co-occurrence imputation and provable symmetric
          nonnegative matrix factorization", section 3.1, equations (6)–(8), Theorem 1, Remark 1
Needs     labels independent given the class; confusion matrices and D of rank K; for block (m, n) two workers
          ℓ and r such that the pairs (m, r), (n, ℓ) and (ℓ, r) have labelled common tasks, S of them at the fewest,
          S = Ω(K² γ² log(1/δ) / ϱ⁴)
Promises  with probability 1 − δ an error O(K² γ³ √log(1/δ) / (ϱ² √S)) in Frobenius norm (Theorem 1): ϱ the least
          singular value of an observed block, γ the largest condition number of a worker
Differs   among all admissible (ℓ, r) the one with the largest min(S_mr, S_nℓ, S_ℓr) is taken (the paper
          leaves the choice open, and reports fewer blocks reached); pairs (ℓ, r) whose block can be inverted
          come first, the rest use a truncated pseudo-inverse; diagonal blocks are symmetrised; imputed blocks
          are projected on the probability simplex, where the true ones lie: that only brings them nearer
          (project=False: as (8) gives them); imputed blocks do not serve to impute others
Objective none: equation (8) is exact for exact co-occurrences

Symbols   paper          here         shape        meaning
          R_mn           R            (P, K, K)    P(worker m says a, worker n says b), observed pairs m < n
          |S_mn|         S            (M, M)       tasks both labelled
          Ω              observed     (M, M)       whether S > 0
          U_m U_ℓ⁻¹      R_mr R_ℓr⁺   (K, K)       carries worker ℓ's column space to worker m's, (7)
          ℓ, r           left, right  (blocks,)    the designated workers
          X              X            (M K, M K)   all blocks, equation (6)
          U              U            (M K, K)     X ≈ U Uᵀ, section 3.3
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.simplex import project_to_simplex

Bools = NDArray[np.bool_]
Ints = NDArray[np.signedinteger]

LEAST_RATIO = 0.1
"""Singular values of R_ℓr below this fraction of the largest are not inverted: the inverse may enlarge the noise
of a co-occurrence tenfold, not more."""

DENSE_SPECTRUM = 2_000
"""Up to this size the leading eigenvectors come from a dense solver; beyond, from Lanczos steps."""

BYTES_PER_BLOCK = 80
"""Working memory per block (m, n): counts, two max-min products, their choices, lists of blocks to impute."""

OBSERVED_ARRAYS = 4
"""Arrays of the size of the observed blocks held besides X: themselves, their singular vectors, their inverses."""

BLOCKS_AT_ONCE = 1 << 16
"""How many blocks are computed together: a few MB of small matrices."""


@dataclass(frozen=True)
class Imputed:
    """All co-occurrences that were observed or could be reached; blocks that could not are zero."""

    X: Floats  # (M K, M K), symmetric, equation (6)
    known: Bools  # (M, M) observed or imputed
    missing_before: float  # proportion of blocks, diagonal included
    missing_after: float


def impute_designated(
    pairs: PairCounts, *, memory: int | None = None, project: bool = True, least_ratio: float = LEAST_RATIO
) -> Imputed:
    """Equation (6) with every block that (7)–(8) can reach; refuses when it would not fit `memory` bytes.

    `least_ratio` near zero inverts every block as it is: right for exact co-occurrences, noise for estimates.
    """
    X = stack_observed(pairs, memory=memory)
    m, n, sizes = pairs.observed
    n_workers, K = pairs.n_columns, _block_size(pairs)
    S, at = np.zeros((n_workers, n_workers), np.int64), np.full((n_workers, n_workers), -1)
    S[m, n] = S[n, m] = sizes
    at[m, n] = at[n, m] = np.arange(len(m))
    inverse, sound = _pseudo_inverses(pairs.frequencies(), least_ratio)
    middle = np.zeros_like(S)
    middle[m, n] = middle[n, m] = np.where(sound, sizes, 0)
    known = S > 0
    upper, lower = np.triu(~known).nonzero()
    left, right, reached = choose_designated(S, middle, upper, lower)
    later = ~reached
    left[later], right[later], reached[later] = choose_designated(S, S, upper[later], lower[later])
    upper, lower, left, right = upper[reached], lower[reached], left[reached], right[reached]
    blocks = X.reshape(n_workers, K, n_workers, K)
    for begin in range(0, len(upper), BLOCKS_AT_ONCE):
        chunk = slice(begin, begin + BLOCKS_AT_ONCE)
        R = _carry(blocks, inverse, at, upper[chunk], lower[chunk], left[chunk], right[chunk])
        _write(blocks, to_joint(R) if project else R, upper[chunk], lower[chunk])
    before = 1 - known.mean()
    known[upper, lower] = known[lower, upper] = True
    return Imputed(X, known, float(before), float(1 - known.mean()))


def stack_observed(pairs: PairCounts, *, memory: int | None = None) -> Floats:
    """Equation (6) with zeros for unobserved blocks, the diagonal ones among them: X without imputation."""
    K, n_workers = _block_size(pairs), pairs.n_columns
    m, n, _ = pairs.observed
    need = 8 * K**2 * (n_workers**2 + OBSERVED_ARRAYS * len(m)) + BYTES_PER_BLOCK * n_workers**2
    if memory is not None and need > memory:
        raise DataError(
            f"the co-occurrences of {n_workers:,} workers with {K} classes take {need / 1e9:.3g} GB, "
            f"{memory / 1e9:.3g} GB are allowed; use method='auto', which never forms them, or raise the "
            "memory limit (--memory)"
        )
    blocks = np.zeros((n_workers, K, n_workers, K))
    _write(blocks, pairs.frequencies(), m, n)  # equation (3)
    return blocks.reshape(n_workers * K, n_workers * K)


def reachable(observed: Bools) -> Bools:
    """Blocks (M, M) that are observed or follow by (7)–(8): m–r, r–ℓ and ℓ–n are observed for some ℓ, r.

    Nobody need have been designated (Remark 1).
    """
    links = np.array(observed, np.float32)
    np.fill_diagonal(links, 0)  # a worker's co-occurrence with itself is never observed
    paths = ((links @ links > 0).astype(np.float32) @ links) > 0
    return np.asarray(paths | (links > 0))


def choose_designated(S: Ints, middle: Ints, m: Ints, n: Ints) -> tuple[Ints, Ints, Bools]:
    """For blocks (m, n) the ℓ and r of the largest min(S_mr, S_nℓ, middle_ℓr), and whether any exist.

    Among equals the first ℓ, and for it the r with the largest min(S_mr, middle_ℓr), again the first.
    """
    through, via = _max_min(S, middle)  # [m, ℓ]: the best r from m to ℓ
    best, end = _max_min(S, np.ascontiguousarray(through.T))  # [n, m]: the best ℓ from n
    left = end[n, m]
    return left, via[m, left], best[n, m] > 0


def _max_min(A: Ints, B: Ints) -> tuple[Ints, Ints]:
    """max over k of min(A[i, k], B[k, j]), and the first k that attains it; zeros of A are skipped."""
    best, where = np.zeros((len(A), B.shape[1]), np.int64), np.zeros((len(A), B.shape[1]), np.intp)
    for i in range(len(A)):
        through = np.flatnonzero(A[i])
        if len(through):
            narrowest = np.minimum(A[i, through, None], B[through])
            first = narrowest.argmax(axis=0)
            where[i] = through[first]
            best[i] = np.take_along_axis(narrowest, first[None], axis=0)[0]
    return best, where


def _pseudo_inverses(R: Floats, least_ratio: float) -> tuple[Floats, Bools]:
    """R⁺ of every observed block with small singular values cut off, and whether none was."""
    left, values, right = np.linalg.svd(R)
    inverted = values >= least_ratio * values[:, :1]
    scale = np.divide(1.0, values, out=np.zeros_like(values), where=inverted)
    inverse = (right.transpose(0, 2, 1) * scale[:, None]) @ left.transpose(0, 2, 1)
    return inverse, np.asarray(inverted.all(axis=1))


def _carry(blocks: Floats, inverse: Floats, at: Ints, m: Ints, n: Ints, left: Ints, right: Ints) -> Floats:
    """R_mn = U_m U_ℓ⁻¹ R_nℓᵀ = R_mr R_ℓr⁺ R_nℓᵀ of the named blocks, (7)–(8)."""
    middle = inverse[at[left, right]]  # of the stored pair, which has the smaller worker first
    middle = np.where((left < right)[:, None, None], middle, middle.transpose(0, 2, 1))
    R = blocks[m, :, right, :] @ middle @ blocks[n, :, left, :].transpose(0, 2, 1)
    return np.where((m == n)[:, None, None], (R + R.transpose(0, 2, 1)) / 2, R)


def _write(blocks: Floats, R: Floats, m: Ints, n: Ints) -> None:
    blocks[m, :, n, :] = R
    blocks[n, :, m, :] = R.transpose(0, 2, 1)


def to_joint(R: Floats) -> Floats:
    """The nearest joint distribution to each block (blocks, K, K)."""
    return project_to_simplex(R.reshape(len(R), -1)).reshape(R.shape)


def square_root(X: Floats, n_classes: int) -> Floats:
    """U (M K, K), the best X ≈ U Uᵀ of rank K; the entry of the largest size in each column is positive."""
    size = len(X)
    if size <= DENSE_SPECTRUM:
        values, vectors = eigh(X, subset_by_index=[size - n_classes, size - 1])
    else:
        values, vectors = eigsh(X, k=n_classes, which="LA", v0=np.full(size, size**-0.5))
    order = np.argsort(-values, kind="stable")
    U = vectors[:, order] * np.sqrt(np.maximum(values[order], 0))
    largest = np.take_along_axis(U, np.abs(U).argmax(axis=0)[None], axis=0)
    return np.asarray(U * np.where(largest < 0, -1.0, 1.0))


def _block_size(pairs: PairCounts) -> int:
    return int(pairs.column_offsets[1] - pairs.column_offsets[0])
