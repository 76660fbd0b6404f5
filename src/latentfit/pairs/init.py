"""Pair counts: the factored form of a probability matrix, and the two phases of the paper that estimate it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.counts import Counts
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.spectral import PairModel, leading_eigenpairs, leading_singular, less_product, peak_signs
from latentfit.pairs.data import split_counts

# -----------------------------------------------------------------------------
# A probability matrix in factored form, and the one identifiable decomposition B = ρρ'ᵀ + Σ_s sign_s Δ_s Δ'_sᵀ.
#
# Paper     Huang, Kakade, Kong & Valiant 2018, (2) and (4): Cov(B) = B − ρρᵀ has one rank-1 decomposition at rank 2;
#           here for any K
# Needs     factors whose products are nonnegative
# Promises  `Factored` is nonnegative and sums to one, entry by entry, without the matrix being made
# Differs   for K > 2 the Δ_s are the orthogonal ones (weighted by 1/ρ), largest first
#
# Symbols   paper   here                    shape       meaning
#           ρ       marginal                (M,), (M',)
#           Δ       separation              (M, K−1), (M', K−1)

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Factored:
    """B_ij = marginal_i column_marginal_j + Σ_s signs_s separation_is column_separation_js, never below zero.

    (4), with ρ and Δ of (2) for any number of separations.
    """

    marginal: Floats  # (M,)
    column_marginal: Floats  # (M',)
    separation: Floats  # (M, K−1)
    column_separation: Floats  # (M', K−1)
    signs: Floats  # (K−1,)

    @property
    def left(self) -> Floats:
        """(M, K): what `right` is multiplied by."""
        return np.column_stack([self.marginal, self.separation * self.signs])

    @property
    def right(self) -> Floats:
        return np.column_stack([self.column_marginal, self.column_separation])

    @property
    def values(self) -> Floats:
        """(K−1,) size of each separation, Σ_i Δ_is²/ρ_i: the eigenvalues of the scaled matrix in the symmetric case."""
        safe = np.where(self.marginal > 0, self.marginal, 1.0)
        return np.asarray((self.separation**2 / safe[:, None]).sum(axis=0))


def rank_two(marginals: tuple[Floats, Floats], lifts: tuple[Floats, Floats], sign: float) -> Factored:
    """The decomposition (4) of B ∝ ρ_i ρ'_j (1 + sign x_i y_j): its own marginals, its own separations (2).

    With u = ρ, v = ρx, w = ρ', t = ρ'y, m = Σv, n = Σt, T = 1 + sign·m·n: B = (u wᵀ + sign v tᵀ)/T has the row sums
    (u + sign·n·v)/T, and what is left of them is sign (v − m u)(t − n w)ᵀ/T².
    """
    (u, w), (x, y) = marginals, lifts
    v, t = u * x, w * y
    m, n = float(v.sum()), float(t.sum())
    total = 1 + sign * m * n
    left, right = (v - m * u) / total, (t - n * w) / total
    rows, columns = np.maximum(u + sign * n * v, 0.0) / total, np.maximum(w + sign * m * t, 0.0) / total
    same = u is w and x is y
    if same:
        return _ordered(Factored(rows, rows, left[:, None], left[:, None], np.array([sign])))
    sizes = [float((part**2 / np.where(mass > 0, mass, 1.0)).sum()) for part, mass in ((left, rows), (right, columns))]
    if min(sizes) > 0:  # Δ and Δ' are known up to a factor: made equally large
        ratio = (sizes[1] / sizes[0]) ** 0.25
        left, right = left * ratio, right / ratio
    return _ordered(Factored(rows, columns, left[:, None], right[:, None], np.array([sign])))


def decompose(model: PairModel) -> Factored:
    """The same for B = D_L W D_Rᵀ of any rank: orthogonal separations of W's covariance, seen through D/√ρ."""
    rows, columns = model.left @ model.mixing.sum(axis=1), model.right @ model.mixing.sum(axis=0)
    covariance = model.mixing - np.outer(model.mixing.sum(axis=1), model.mixing.sum(axis=0))
    rank = len(model.mixing) - 1
    roots = [np.sqrt(np.where(part > 0, part, 1.0)) for part in (rows, columns)]
    left_basis, left_core = np.linalg.qr(model.left / roots[0][:, None])
    if model.symmetric:
        inner = left_core @ covariance @ left_core.T
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        order = np.argsort(-np.abs(values), kind="stable")[:rank]
        separation = left_basis @ vectors[:, order] * np.sqrt(np.abs(values[order])) * roots[0][:, None]
        return _ordered(Factored(rows, rows, separation, separation, np.where(values[order] < 0, -1.0, 1.0)))
    right_basis, right_core = np.linalg.qr(model.right / roots[1][:, None])
    u, values, vt = np.linalg.svd(left_core @ covariance @ right_core.T)
    size = np.sqrt(values[:rank])
    left = left_basis @ u[:, :rank] * size * roots[0][:, None]
    right = right_basis @ vt[:rank].T * size * roots[1][:, None]
    return _ordered(Factored(rows, columns, left, right, np.ones(rank)))


def independent(rows: Floats, columns: Floats) -> Factored:
    """Rank 1: B = ρρ'ᵀ."""
    return Factored(rows, columns, np.zeros((len(rows), 0)), np.zeros((len(columns), 0)), np.zeros(0))


def _ordered(factored: Factored) -> Factored:
    """Every separation's largest entry made positive (of equals the first)."""
    if not factored.separation.size:
        return factored
    turn = peak_signs(factored.separation, 15)
    left = factored.separation * turn
    right = left if factored.column_separation is factored.separation else factored.column_separation * turn
    return Factored(factored.marginal, factored.column_marginal, left, right, factored.signs)


# -----------------------------------------------------------------------------
# The two phases of the paper: bins of marginals, one truncated SVD per bin, stitched; then the anchor partition.
#
# Paper     Huang, Kakade, Kong & Valiant 2018, "Recovering Structured Probability Matrices", Algorithm 1 (Phase I),
#           Algorithm 2 (Phase II), Theorems 1.1, 2.1 and 2.2; bins (8), rescaling (16), regularisation (22), stitching
#           Claim 3.8, anchor matrix (25)
# Needs     pairs drawn from a rank-2 matrix with ‖Δ‖₁ of order one (Assumption 1); N/M at least 1/ε₀⁴ for Phase I
# Promises  Phase I: ℓ₁ error below ε₀ with N of order M; Phase II: O(√(M/N))
# Differs   slips mended: (a) bins begin at ε₀/M, not at 1/M: both versions in the paper leave [ε₀/M, 1/M) uncovered;
#           below 1/M a bin must hold the mass ε₀; (b) counts are divided by N before ρ̂ρ̂ᵀ is taken off (steps 3(a)i,
#           3(b)i); (c) stitching compares with the + part of the chosen bin k*, as in Claim 3.8, not with each bin's
#           own; (d) [b, a]⁻¹ where Algorithm 2 prints [a, b]⁻¹, the sums again over N; (e) the covariance of the 2 × 2
#           matrix can be negative or nearly zero by chance: then Phase I's answer stays (`MOST_CONDITION`). A symmetric
#           B may also be ρρᵀ − ΔΔᵀ, items that avoid their like (w_L = −w_R in Cov(W)): Phase I is run for both signs,
#           and the sign whose longest segment is longer is that of the answer. Both sides: where w_L ≠ w_R rows and
#           columns are binned apart; heaviest bins meet heaviest, the others meet by their number, signs are flipped
#           together. A bin without such a partner (sides of different sizes, a partner too light) is regressed on the
#           longest segment of the other side, (B/N − ρρ'ᵀ) D⁻¹Δ' / Δ'ᵀD⁻¹Δ', which needs no sign. A row of a block is
#           too heavy (22) for the mass of the other side's bin, and N is the sum of the matrix: twice the pairs
#           where all were counted both ways. `split` draws three batches as the proofs want; without it all steps see
#           all counts, which is 1.7–4 times better at N/M = 5–20. `rounds` > 1 repeats Phase II with the signs it found
#
# Symbols   paper        here            shape    meaning
#           ρ̂, Δ̂         marginal, delta (M,)     of rows, of columns
#           ε₀, τ        epsilon, tau             as in (8), (9)
#           Î_k          bins            (M,)     level of each item: 0 the lightest, last the heaviest
#           d_k^max      most_sum        —        N W_k ρ̄_k of every level, (14)
#           𝒜            anchors         (M,)     items with Δ̂ > 0 in bins that show separation
#           a, b         —               (2,)     separation and marginal of the two superwords

Levels = NDArray[np.intp]

EPSILON = 0.05
"""ε₀: .02 to .1 serve alike on the simulated models; smaller leaves more to the bins, larger sets more items to 0."""
BIN_WIDTH = math.e
"""Ratio of a bin's ends, e in the paper."""
TAU = 1.0
"""(9); with τ = 0 the regularisation takes rows away that belong, and harms."""
MOST_CONDITION = 10.0
"""Condition of the anchor matrix (25) beyond which Phase II would multiply noise."""


@dataclass(frozen=True)
class Bins:
    """Items by their marginal: edges in units of 1/M, level 0 below ε₀ and the last one above log M."""

    edges: Floats  # (levels − 1,) rising: ε₀, …, log M
    level: Levels  # (M,)
    mass: Floats  # (levels,) Ŵ_k
    number: Levels  # (levels,) M_k
    skipped: NDArray[np.bool_]  # (levels,) too light to be used
    most_sum: Floats  # (levels,) d_k^max (14)

    @property
    def n_levels(self) -> int:
        return len(self.mass)


@dataclass(frozen=True)
class SideEstimate:
    """What one side (rows or columns) got."""

    marginal: Floats
    delta: Floats
    bins: Bins
    removed: int  # rows or columns that regularisation (22) set to zero


@dataclass(frozen=True)
class Phases:
    """Both sides after Phase I and after Phase II, and the condition of the anchor matrix (25)."""

    first: tuple[SideEstimate, SideEstimate]
    marginal: tuple[Floats, Floats]
    delta: tuple[Floats, Floats]
    condition: float
    anchored: bool  # Phase II was used
    symmetric: bool  # rows and columns are one
    sign: float = 1.0  # B = ρρᵀ + sign · ΔΔᵀ


def pair_phases(
    counts: Counts,
    *,
    symmetric: bool,
    epsilon: float = EPSILON,
    bin_width: float = BIN_WIDTH,
    tau: float = TAU,
    split: bool = False,
    rounds: int = 1,
    seed: int = 0,
) -> Phases:
    """Algorithms 1 and 2, with `tau` of (9); Theorems 1.1, 2.1 and 2.2 bound the error. `rounds=0` is Phase I alone."""
    one, two, three = split_counts(counts, 3, seed) if split else (counts, counts, counts)
    if not min(one.total, two.total, three.total) > 0:
        raise DataError(f"one of the three batches got none of {counts.n_pairs:g} pairs; use split=False")
    marginals = _marginals(one, symmetric)  # Algorithm 1, step 1, (6)
    binned = [marginal_bins(part, one.total, epsilon, bin_width, tau) for part in marginals]  # step 2
    first, sign = _phase_one(two, marginals, binned, symmetric), 1.0
    if symmetric:
        other = _phase_one(two, marginals, binned, symmetric, -1.0)
        first, sign = (other, -1.0) if _longest(other[0]) > _longest(first[0]) else (first, 1.0)
    marginal = (first[0].marginal, first[1].marginal)
    delta = (first[0].delta, first[1].delta)
    condition, anchored = np.inf, False
    for turn in range(rounds):
        chosen = [_anchors(side, part, two.total, turn) for side, part in zip(first, delta, strict=True)]
        refined = _phase_two(three, chosen, symmetric, sign)
        condition = refined[2]
        if not condition < MOST_CONDITION:
            break
        marginal, delta, anchored = refined[0], refined[1], True
    return Phases(first, marginal, delta, float(condition), anchored, symmetric, sign)


def _longest(side: SideEstimate) -> float:
    """Length of the longest segment of Δ̂."""
    return float(np.bincount(side.bins.level, weights=side.delta**2).max())


# ------------------------------------------------------------------- bins


def marginal_bins(marginal: Floats, total: float, epsilon: float, width: float, tau: float) -> Bins:
    """Step 2: levels (8) by the empirical marginal; [ε₀/M, log M/M) in steps of `width`.

    With their mass (10) and expected largest row sum (14). The lightest is set to zero (Claim 3.7).
    """
    size = len(marginal)
    top = max(np.log(size), epsilon * width)
    edges = [epsilon]
    while edges[-1] * width < top:
        edges.append(edges[-1] * width)
    edges.append(top)
    level = np.searchsorted(edges, marginal * size * (1 + 1e-12), side="right").astype(np.intp)
    upper = np.array([*edges, np.inf])  # e^k of each level, in units of 1/M
    mass = np.asarray(np.bincount(level, weights=marginal, minlength=len(upper)), np.float64)
    number = np.bincount(level, minlength=len(upper))
    least = epsilon * np.minimum(1.0, 1 / upper)  # ε₀ e^{−k}; ε₀ below 1/M
    least[-1] = epsilon  # the heaviest bin: step 3(a)
    skipped = mass < least
    skipped[0] = True  # step 3(c)
    heaviest = float(marginal.max()) * size
    typical = np.where(np.isfinite(upper), upper * width**tau, heaviest) / size  # ρ̄_k
    return Bins(np.array(edges), level, mass, number, skipped, total * mass * typical)  # (14)


# ---------------------------------------------------------------- Phase I


def _phase_one(
    counts: Counts, marginals: list[Floats], binned: list[Bins], symmetric: bool, sign: float = 1.0
) -> tuple[SideEstimate, SideEstimate]:
    """Algorithm 1, steps 3 and 4: one truncated SVD per level, its heavy rows set to zero (22), stitched."""
    matrix = counts.matrix
    deltas = [np.zeros(len(part)) for part in marginals]
    blocks: list[tuple[list[NDArray[np.intp]], list[Floats]]] = []
    removed = [0, 0]
    partner_levels = _partners(binned)
    for levels in partner_levels:
        at = [np.flatnonzero(part.level == level) for part, level in zip(binned, levels, strict=True)]
        block = sp.csr_array(matrix[at[0]][:, at[1]]).astype(np.float64)
        heaviest = [level == part.n_levels - 1 for part, level in zip(binned, levels, strict=True)]
        keep = [_kept(block, binned, levels, side) | heaviest[side] for side in (0, 1)]
        keep = [keep[0] & keep[1]] * 2 if symmetric else keep
        removed = [old + int((~used).sum()) for old, used in zip(removed, keep, strict=True)]
        if not all(part.all() for part in keep):
            block = sp.csr_array(sp.diags_array(keep[0] * 1.0) @ block @ sp.diags_array(keep[1] * 1.0))
        parts = [marginal[where] for marginal, where in zip(marginals, at, strict=True)]
        # (16)
        scales = [np.sqrt(part) if top else np.ones(len(part)) for part, top in zip(parts, heaviest, strict=True)]
        vectors = _signed(_leading(sp.csr_array(block / counts.total), parts, scales, symmetric, sign))
        blocks.append((at, [scale * vector for scale, vector in zip(scales, vectors, strict=True)]))  # 3(a)iii
    if blocks:
        _stitch(matrix, blocks, deltas, symmetric, sign)  # step 3(d)
        longest = [
            max(partner_levels, key=lambda met: _segment(deltas[side], binned[side], met[side])) for side in (0, 1)
        ]
        used = [{levels[side] for levels in partner_levels} for side in (0, 1)]
        for side in (0, 1):
            for level in np.flatnonzero(~binned[side].skipped).tolist():
                if level not in used[side]:
                    levels = (level, longest[1][1]) if side == 0 else (longest[0][0], level)
                    removed[side] += _regress(counts, marginals, binned, levels, side, deltas)
    if symmetric:
        deltas[1] = deltas[0]
    sides = [SideEstimate(*parts) for parts in zip(marginals, deltas, binned, removed, strict=True)]
    return sides[0], sides[1]


def _partners(binned: list[Bins]) -> list[tuple[int, int]]:
    """Levels of rows and columns whose blocks are decomposed: those of one number, and the heaviest of both sides.

    Where none of these can be used the level with most mass of either side.
    """
    tops = [part.n_levels - 1 for part in binned]
    pairs = [(level, level) for level in range(1, min(tops))] + [(tops[0], tops[1])]
    usable = [pair for pair in pairs if not any(part.skipped[at] for part, at in zip(binned, pair, strict=True))]
    if usable or any(part.skipped.all() for part in binned):
        return usable
    rows, columns = (int(np.where(part.skipped, 0.0, part.mass).argmax()) for part in binned)
    return [(rows, columns)]


def _kept(block: sp.csr_array, binned: list[Bins], levels: tuple[int, int], side: int) -> NDArray[np.bool_]:
    """Rows (side 0) or columns of a block that are not too heavy (22), d_max by the mass of the other side's level."""
    own, other = binned[side], binned[1 - side]
    most = own.most_sum[levels[side]] * (other.mass[levels[1 - side]] / own.mass[levels[side]])
    return np.asarray(np.asarray(block.sum(axis=1 - side)).reshape(-1) <= 2 * most)


def _segment(delta: Floats, bins: Bins, level: int) -> float:
    return float(np.linalg.norm(delta[bins.level == level]))


def _regress(
    counts: Counts, marginals: list[Floats], binned: list[Bins], levels: tuple[int, int], side: int,
    deltas: list[Floats],
) -> int:  # fmt: skip
    """Δ̂ of a level of one side from its block with one of the other side whose Δ̂ is known; how many are too heavy."""
    at = [np.flatnonzero(part.level == level) for part, level in zip(binned, levels, strict=True)]
    block = sp.csr_array(counts.matrix[at[0]][:, at[1]]).astype(np.float64)
    keep = _kept(block, binned, levels, side) | (levels[side] == binned[side].n_levels - 1)
    block = sp.csr_array(block.T) if side else block
    own, known = marginals[side][at[side]], deltas[1 - side][at[1 - side]]
    mass = marginals[1 - side][at[1 - side]]
    weighted = known / mass
    size = float(known @ weighted)
    if size > 0:
        slopes = (block @ weighted / counts.total - own * float(mass @ weighted)) / size
        deltas[side][at[side]] = np.where(keep, slopes, 0.0)
    return int((~keep).sum())


def _leading(
    block: sp.csr_array, parts: list[Floats], scales: list[Floats], symmetric: bool, sign: float = 1.0
) -> tuple[Floats, Floats]:
    """u, u' with u u'ᵀ the rank-1 truncated SVD of D^{-1/2} (block − ρ̂ρ̂ᵀ) D^{-1/2}, both of the same length.

    The heaviest level has D = ρ̂ (Lemma 3.3, (16)), the others D = I. A symmetric block gives its largest eigenvalue of
    that sign, zero if it has none.
    """
    inverse = [np.where(scale > 0, 1 / np.where(scale > 0, scale, 1.0), 0.0) for scale in scales]
    scaled = sp.csr_array(sp.diags_array(inverse[0]) @ block @ sp.diags_array(inverse[1]))
    offs = [part * turn for part, turn in zip(parts, inverse, strict=True)]
    centred = less_product(scaled, *offs)
    if symmetric:
        values, vectors = leading_eigenpairs((sign / 2) * (centred + centred.T), 1, which="LA")
        left = np.sqrt(max(float(values[0]), 0.0)) * vectors[:, 0]
        return left, left
    values, left, right = leading_singular(centred, 1)
    return np.sqrt(values[0]) * left[:, 0], np.sqrt(values[0]) * right[:, 0]


def _signed(vectors: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The first vector's largest entry made positive: the anchor set is the + side, and must not be drawn."""
    sign = float(peak_signs(vectors[0][:, None])[0])
    return sign * vectors[0], sign * vectors[1]


def _stitch(
    matrix: sp.csr_array,
    blocks: list[tuple[list[NDArray[np.intp]], list[Floats]]],
    deltas: list[Floats],
    symmetric: bool,
    sign: float = 1.0,
) -> None:
    """Claim 3.8: a level is turned so that its + items go with those of the level with the longest vector.

    Where like avoid their like (`sign` −1) they are those that go with them less.
    """
    longest = int(np.argmax([np.linalg.norm(vectors[0]) for _, vectors in blocks]))  # k*
    at, vectors = blocks[longest]
    plus = np.zeros(matrix.shape[0])
    plus[at[0][vectors[0] > 0]] = 1.0
    turned = sp.csr_array(matrix.T)
    together, everything = turned @ plus, np.asarray(matrix.sum(axis=0)).reshape(-1)
    if symmetric:
        together = together + matrix @ plus
        everything = everything + np.asarray(matrix.sum(axis=1)).reshape(-1)
    for number, (at, vectors) in enumerate(blocks):
        proportions = []
        for part in (vectors[1] > 0, vectors[1] <= 0):
            all_mass = float(everything[at[1][part]].sum())
            proportions.append(float(together[at[1][part]].sum()) / all_mass if all_mass > 0 else 0.0)
        turn = 1.0 if number == longest or sign * proportions[0] > sign * proportions[1] else -1.0
        for side in (0, 1):
            deltas[side][at[side]] = turn * vectors[side]


# --------------------------------------------------------------- Phase II


def _anchors(side: SideEstimate, delta: Floats, total: float, turn: int) -> NDArray[np.bool_]:
    """Algorithm 2, step 1; later rounds take all signs."""
    if turn:
        return np.asarray(delta > 0)
    lengths = np.sqrt(np.bincount(side.bins.level, weights=delta**2, minlength=side.bins.n_levels))
    shows = lengths > np.sqrt(np.sqrt(np.maximum(side.bins.most_sum, 0.0)) / total)
    shows[0] = False
    return np.asarray((delta > 0) & shows[side.bins.level])


def _phase_two(
    counts: Counts, chosen: list[NDArray[np.bool_]], symmetric: bool, sign: float = 1.0
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats], float]:
    """Algorithm 2, steps 2 and 3: the anchor matrix, every item by a 2 × 2 system (Lemma 4.6); the third is (25)."""
    matrix, total = counts.matrix, counts.total
    groups = [np.column_stack([part, ~part]).astype(np.float64) for part in chosen]
    by_column = (matrix.T @ groups[0]).T / total  # Σ_{i ∈ 𝒜} [B_N]_{i, ·}, (2, M')
    by_row = (matrix @ groups[1]).T / total
    if symmetric:
        by_column = by_row = (by_column + by_row) / 2
    anchor = groups[0].T @ by_row.T  # B_𝒜
    if symmetric:
        anchor = (anchor + anchor.T) / 2
    sums = [by_row.sum(axis=0) @ groups[0], by_column.sum(axis=0) @ groups[1]]  # b of rows, of columns
    covariance = sign * float(anchor[0, 0] - sums[0][0] * sums[1][0])  # B_𝒜 − bbᵀ = ± covariance · [1, −1; −1, 1]
    if covariance <= 0:
        return (sums[0], sums[1]), (sums[0], sums[1]), np.inf
    a = np.sqrt(covariance) * np.array([1.0, -1.0])
    systems = [np.column_stack([part, sign * a]) for part in sums]  # [b, a]
    condition = max(float(np.linalg.cond(system)) for system in systems)
    if not condition < MOST_CONDITION:
        return (sums[0], sums[1]), (sums[0], sums[1]), condition
    columns = np.linalg.solve(systems[0], by_column)  # rows of anchors speak of columns
    rows = columns if symmetric else np.linalg.solve(systems[1], by_row)
    return (rows[0], columns[0]), (rows[1], columns[1]), condition


def _marginals(counts: Counts, symmetric: bool) -> list[Floats]:
    """ρ̂ of rows and of columns (Lemma 3.1, (6))."""
    rows, columns = counts.row_sums / counts.total, counts.column_sums / counts.total
    if symmetric:
        both = (rows + columns) / 2
        return [both, both]
    return [rows, columns]
