"""Is there any structure in pair counts, and of which rank? A cross-fitted test for every rank.

Rank r means: whatever functions of row and column items are taken, the matrix of their expected products has rank at
most r. So functions f₁, f₂, … are learned on one half of the counts (its leading scaled vectors), and on the other
half the products G = E[Φ(I) Φ'(J)ᵀ] of Φ = (1, f₁, …, f_r) are measured. Rank ≤ r makes the Schur complement of the
last entry zero, t = G_aa − G_aΦ G_ΦΦ⁻¹ G_Φa, a mean over independent pairs to first order: t over its standard error
is standard normal, whatever the functions are and however badly they were learned. Both halves serve in turn. For r =
1 this is the correlation of f₁(I) and f'₁(J) over pairs: rank 1 is independence.

Power: with λ the leading scaled value of B (‖Δ/√ρ‖² at rank 2), n pairs in a half, M × M' items, the learned vectors
point at the truth with squared cosine 1 − 1/g, g = λ² n/√(MM') (twice that when B is symmetric), if g > 1, and not at
all below (Baik, Ben Arous & Péché 2005): t grows like √N λ (1 − 1/g). That is for even marginals. For others the same
holds with what regularised scaling sees: v_i = ρ_i/(ρ_i + ρ̄), M = 4 Σ v_i² and λ = 2 Σ Δ_i²/(ρ_i + ρ̄).

Paper     the question of rank 1 or 2 is that of Huang, Kakade, Kong & Valiant 2018, Theorem 5.1, which says when it
          has no answer; Baik, Ben Arous & Péché 2005 for the power
Needs     independent pairs, or nearly: halves are drawn pair by pair
Promises  level to first order, whatever the learned functions are; power as above (`./dev reproduce pairs:testing`)
Differs   the paper has no test; this one is for every rank

Symbols   paper   here        shape       meaning
          ρ, Δ    marginal, separation
          —       G           (r+1, r+1)  products of functions over pairs
          —       t           —           Schur complement; over its standard error a `statistic`
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from latentfit.core.counts import Counts
from latentfit.core.kernels import Floats
from latentfit.core.spectral import ScaledSVD, scaled_svd
from latentfit.pairs.data import split_counts
from latentfit.pairs.init import Factored

MOST_COMPONENTS = 12
"""Largest number of components looked for."""
LEVEL = 0.01
"""Level of each test along the path of ranks."""
LEARNED_TOL = 1e-6
"""Precision of vectors that only propose functions: the test is exact whatever they are."""


@dataclass(frozen=True)
class Products:
    """Functions (1, f₁, f₂, …) learned on one half, their mean products G over the pairs of the other."""

    G: Floats
    left: Floats
    right: Floats
    values: Floats  # the scaled values of f₁, f₂, …


@dataclass(frozen=True)
class StructureTest:
    """Tests of rank ≤ 1, ≤ 2, …: statistics (standard normal under their hypothesis) and one-sided p-values."""

    statistics: list[float]
    p_values: list[float]
    level: float
    chosen: int  # the first rank that is not rejected
    agreement: list[float]  # of the halves' first 1, 2, … vectors: the least cosine between the spaces they span
    products: tuple[Products, ...] = ()  # of each half's functions on the other half

    def explained(self, factored: Factored, *, symmetric: bool) -> float | None:
        """Proportion of the dependence seen on the other half, E f(I)f'(J) less its product of means, that a fit
        explains.

        Summed over as many functions as the fit has separations; None where nothing was seen. A right fit has about
        one, whatever the functions are; one that missed the structure about zero.
        """
        number = factored.separation.shape[1]
        seen = fitted = 0.0
        for products in self.products:
            G = (products.left.T @ factored.left) @ (factored.right.T @ products.right)
            G = (G + G.T) / 2 if symmetric else G
            for at in range(1, min(number, len(products.values)) + 1):
                sign = float(np.sign(products.values[at - 1]))
                seen += sign * float(products.G[at, at] - products.G[at, 0] * products.G[0, at])
                fitted += sign * float(G[at, at] - G[at, 0] * G[0, at])
        return fitted / seen if seen > 0 else None

    @property
    def p_value(self) -> float:
        """Of rank 1: no structure."""
        return self.p_values[0]


def structure_test(
    counts: Counts, *, symmetric: bool, most: int = MOST_COMPONENTS, level: float = LEVEL, seed: int = 0,
    tol: float = LEARNED_TOL, halves: list[Counts] | None = None,
) -> StructureTest:  # fmt: skip
    """Test rank ≤ 1, ≤ 2, … up to the first that stands, at most `most` − 1 of them."""
    halves = split_counts(counts, 2, seed) if halves is None else halves
    most = min(most, min(counts.shape))
    if most < 2 or any(half.matrix.nnz < 2 for half in halves):
        return StructureTest([0.0], [1.0], level, 1, [0.0])
    learned = [scaled_svd(half.matrix, most - 1, symmetric=symmetric, centred=True, tol=tol) for half in halves]
    statistics: list[float] = []
    chosen = most
    moments = [
        _products(other, *_functions(decomposed), symmetric)
        for decomposed, other in zip(learned, reversed(halves), strict=True)
    ]
    for rank in range(1, most):
        values = [
            _schur_statistic(*part, decomposed.values, other, rank)
            for part, decomposed, other in zip(moments, learned, reversed(halves), strict=True)
        ]
        statistics.append(float(sum(values) / np.sqrt(2)))
        if ndtr(-statistics[-1]) > level:
            chosen = rank
            break
    cosines = learned[0].left.T @ learned[1].left
    agreement = [float(np.linalg.svd(cosines[:r, :r], compute_uv=False)[-1]) for r in range(1, len(statistics) + 1)]
    products = tuple(Products(*part, decomposed.values) for part, decomposed in zip(moments, learned, strict=True))
    return StructureTest(statistics, [float(ndtr(-value)) for value in statistics], level, chosen, agreement, products)


def structure_power(
    n_pairs: float, shape: tuple[float, float], value: float, *, symmetric: bool, level: float = 0.05
) -> float:
    """Probability that the test of rank 1 rejects, when B's leading scaled value is `value` (see the module's top)."""
    gain = detection_gain(n_pairs / 2, shape, value, symmetric=symmetric)
    drift = np.sqrt(n_pairs) * value * max(1 - 1 / gain, 0.0) if gain > 0 else 0.0
    return float(ndtr(drift - ndtri(1 - level)))


def detection_gain(n_pairs: float, shape: tuple[float, float], value: float, *, symmetric: bool) -> float:
    """λ² n/√(MM'), twice that when symmetric: no spectral method sees the structure below one."""
    return float((2 if symmetric else 1) * value**2 * n_pairs / np.sqrt(shape[0] * shape[1]))


def detectable_value(n_pairs: float, shape: tuple[float, float], *, symmetric: bool) -> float:
    """The leading scaled value at which `detection_gain` is one."""
    return float(np.sqrt(np.sqrt(shape[0] * shape[1]) / max((2 if symmetric else 1) * n_pairs, 1e-300)))


def effective_values(factored: Factored) -> Floats:
    """(K−1,) what regularised scaling sees of each separation, 2 Σ Δ²/(ρ + ρ̄); Σ Δ²/ρ for even marginals."""
    sizes = [
        2 * (part**2 / (mass + mass.mean())[:, None]).sum(axis=0)
        for part, mass in (
            (factored.separation, factored.marginal),
            (factored.column_separation, factored.column_marginal),
        )
    ]
    return np.asarray(np.sqrt(sizes[0] * sizes[1]))


def _functions(decomposed: ScaledSVD) -> tuple[Floats, Floats]:
    """Columns 1, f₁, f₂, … of row and of column items, bounded: f = u / √(regularised marginal)."""
    parts = []
    for vectors, scale in ((decomposed.left, decomposed.row_scale), (decomposed.right, decomposed.column_scale)):
        parts.append(np.column_stack([np.ones(len(vectors)), vectors / np.sqrt(scale)[:, None]]))
    return parts[0], parts[1]


def _products(counts: Counts, left: Floats, right: Floats, symmetric: bool) -> tuple[Floats, Floats, Floats]:
    """G = Φᵀ (C/N) Φ', and the functions themselves."""
    product = left.T @ (counts.matrix.astype(np.float64) @ right) / counts.total
    return ((product + product.T) / 2 if symmetric else product), left, right


def _schur_statistic(G: Floats, left: Floats, right: Floats, values: Floats, counts: Counts, rank: int) -> float:
    inner = G[:rank, :rank]
    try:
        to_row = np.linalg.solve(inner.T, G[rank, :rank])
        to_column = np.linalg.solve(inner, G[:rank, rank])
    except np.linalg.LinAlgError:
        return 0.0
    t = float(G[rank, rank] - G[rank, :rank] @ to_column)
    alpha = left[:, rank] - left[:, :rank] @ to_row
    beta = right[:, rank] - right[:, :rank] @ to_column
    square = float(alpha**2 @ (counts.matrix.astype(np.float64) @ beta**2)) / counts.total
    variance = (square - t**2) / max(counts.n_pairs, 1.0)
    return t * float(np.sign(values[rank - 1])) / np.sqrt(variance) if variance > 0 else 0.0
