"""CNMF-SPA: a latent class model from pairwise marginals by successive projections.

Paper     Ibrahim & Fu 2021, "Recovering Joint PMF from Pairwise Marginals", Algorithm 1, Theorem 1; successive
          projections of Gillis & Vavasis 2014
Needs     columns split in two halves such that, on the second, every class has a category nearly its own
          (separability, Definition 1); F at most the number of cells of either half
Promises  (4): the error of each factor of S₁ is O(κ²(W) √F ζ), ζ from the sampling noise and the lack of separability
Differs   the split is a choice the paper leaves open: the naive one (first M columns), or several balanced random
          ones scored by the likelihood of the pair counts; `denoise` keeps the F leading directions, weighted by
          mass, and evens them out once before projecting (both help on real tables, docs/guide/tables.md). λ comes
          from nonnegative least squares on the F × F Gram matrix, without the |rows| · |columns| matrix of the
          Khatri–Rao pseudo-inverse: the same minimiser where that is nonnegative, then brought to sum one; H is solved
          against the factors of S₁ after lines 5–8 brought them to sum one (line 9 takes them before)

Symbols   paper   here     shape         meaning
          X̃       virtual  (L, K)        stacked pair frequencies, rows of S₁, columns of S₂ (3)
          W       left     (L, F)        stacked factors of S₁
          H       right    (K, F)        stacked factors of S₂
          Λ       anchors  (F,)          columns of X̃ chosen by SPA
          λ       weights  (F,)          class weights
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture, normalise_tables

Ints = NDArray[np.intp]


def successive_projection(points: Floats, n_anchors: int) -> Ints:
    """Indices of `n_anchors` columns: the longest, then the longest of what is orthogonal to those chosen."""
    rest = points.copy()
    chosen: list[int] = []
    for _ in range(n_anchors):
        lengths = np.einsum("ij,ij->j", rest, rest)
        lengths[chosen] = -1.0
        best = int(np.argmax(lengths))
        if lengths[best] <= 1e-14 * max(float(np.einsum("ij,ij->j", points, points).max()), 1e-300):
            break
        chosen.append(best)
        direction = rest[:, best] / np.sqrt(lengths[best])
        rest = rest - np.outer(direction, direction @ rest)
    return np.array(chosen, np.intp)


def denoised(normalised: Floats, mass: Floats, rank: int) -> Floats:
    """The columns in the F leading directions (weighted by mass), evened out once."""
    u, s, _ = np.linalg.svd(normalised * np.sqrt(mass), full_matrices=False)
    rank = min(rank, int((s > s[0] * 1e-10).sum())) if len(s) else 0
    if rank == 0:
        return normalised
    low = u[:, :rank].T @ normalised
    first = successive_projection(low, rank)
    if len(first) < rank:
        return low
    scale, turn = np.linalg.eigh(low[:, first] @ low[:, first].T)
    evened = turn @ np.diag(1 / np.sqrt(np.maximum(scale, 1e-12 * scale[-1]))) @ turn.T
    return np.asarray(evened @ low)


def factor_spa(
    frequencies: Floats,
    offsets: NDArray[np.int32],
    n_components: int,
    split: NDArray[np.bool_],
    *,
    denoise: bool = True,
    exact: bool = True,
) -> Mixture:
    """Algorithm 1 on a matrix of pair frequencies (C, C); `split` (N,) marks the columns of S₁.

    X̃ (3) is cut out of them and its columns brought to sum one (11) before the projections.

    With ``exact=False`` the nonnegative least squares of H are plain least squares cut at zero: for an initialisation
    among others, at a tenth of the time. Fewer than `n_components` classes come back when X̃ has no more independent
    columns.
    """
    sizes = np.diff(offsets)
    cells = np.repeat(split, sizes)
    virtual = frequencies[np.ix_(cells, ~cells)]  # (3)
    mass = virtual.sum(axis=0)
    used = np.flatnonzero(mass > 0)
    normalised = virtual[:, used] / mass[used]  # columns sum to one (11)
    points = denoised(normalised, mass[used], n_components) if denoise else normalised
    anchors = used[successive_projection(points, min(n_components, *virtual.shape))]  # line 4
    left_first, right_first = _offsets(sizes[split]), _offsets(sizes[~split])
    left = normalise_tables(virtual[:, anchors], left_first)  # lines 5–8
    solved = np.stack([nnls(left, column)[0] for column in virtual.T]) if exact else _cut_least_squares(left, virtual)
    right = normalise_tables(solved, right_first)  # lines 9–13
    gram = (left.T @ left) * (right.T @ right)
    target = np.einsum("lf,lk,kf->f", left, virtual, right)
    weights = _nonnegative_weights(gram, target)  # line 16
    table = np.empty((int(offsets[-1]), len(anchors)))
    table[cells], table[~cells] = left, right
    return Mixture(weights / weights.sum(), table, offsets)


def naive_split(n_columns: int, n_left: int) -> NDArray[np.bool_]:
    """S₁ = the first M columns, as in the paper."""
    return np.arange(n_columns) < n_left


def balanced_split(sizes: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.bool_]:
    """A random split whose halves hold about equally many cells."""
    split = np.zeros(len(sizes), bool)
    half = 0
    for n in rng.permutation(len(sizes)):
        if 2 * half < sizes.sum() - sizes[n] or not split.any():
            split[n] = True
            half += int(sizes[n])
    if split.all():
        split[int(rng.integers(len(sizes)))] = False
    return split


def pair_log_likelihood(counts: Floats, mixture: Mixture) -> float:
    """Log-likelihood of the pair counts (C, C) of different columns under a mixture: what splits are compared by."""
    offsets = mixture.column_offsets
    column_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    stated = np.maximum((mixture.table * mixture.weights) @ mixture.table.T, PROBABILITY_FLOOR)
    return float((counts * np.log(stated) * (column_of[:, None] < column_of)).sum())


def _cut_least_squares(left: Floats, virtual: Floats) -> Floats:
    return np.asarray(np.maximum(np.linalg.lstsq(left, virtual, rcond=None)[0].T, 0.0))


def _offsets(sizes: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def _nonnegative_weights(gram: Floats, target: Floats) -> Floats:
    """argmin over λ ≥ 0 of λᵀGλ − 2 tᵀλ, through a square root of G."""
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300)))
    weights, _ = nnls(root[:, None] * vectors.T, (vectors.T @ target) / root)
    return weights if weights.sum() > 0 else np.ones(len(target))
