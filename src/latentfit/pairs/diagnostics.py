"""Can a probability matrix from sparse pair counts be trusted? The verdict, with the numbers behind it.

`not identifiable` when the test of rank 1 finds no structure: whatever separation was fitted is noise, and with so few
pairs per item nothing weaker than `detectable_value` could have been seen. `caution` when the fit itself explains less
than half of the dependence that functions learned on one half of the counts show on the other
(`StructureTest.explained`); when no structure was found and rank 1 fitted; when fewer components are supported than
were asked for, or more are there; when structure lies barely above the threshold; when pairs per item are so few
that B is mostly unknown; when order matters and B was made symmetric, or counts are weights, or EM was cut short.

Paper     Huang, Kakade, Kong & Valiant 2018: N/M (5), ‖Δ̂‖₁ of Assumption 1 (3), mass and number per bin (8), the bound
          on spillover (18) of Lemma 3.4, good bins (Definition 4.3 with S_k (28) and the constants of Lemma 4.5), the
          condition of the anchor matrix (25), Definition 4.1
Needs     a fitted `Factored`, the counts behind it, the tests of every rank (`pair_structure`)
Promises  the paper's quantities at the fitted ρ̂ and Δ̂. Its constants are not known, so that findings rest on tests and
          on thresholds that were measured
Differs   bins begin at ε₀/M, as in `pairs/init.py`; 𝒜 holds all items with Δ̂ > 0, not those of some bins; S_k
          sums over a whole bin: which items spilled into it from another cannot be seen

Symbols   paper      here              shape      meaning
          ρ̂, Δ̂       marginal, delta   (M,)
          d₀         ratio             —          N/M
          W_k, M_k   mass, number      (levels,)  of a bin
          S_k        separation        (levels,)  Σ |Δ̂| of a bin
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from latentfit.core.counts import Counts
from latentfit.core.kernels import Floats
from latentfit.core.spectral import ScaledSVD, effective_items, scaled_svd
from latentfit.core.verdict import Examination, Examiner
from latentfit.pairs.data import split_counts
from latentfit.pairs.init import Bins, Factored, marginal_bins
from latentfit.pairs.moments import LOPSIDED, Symmetry


@dataclass(frozen=True)
class Thresholds:
    """Values at which a check reports."""

    seen: float = 0.01  # a test of rank r whose p-value lies above it does not support one component more
    more: float = 0.001  # a test of rank K below it says that there are more than K components
    # Cosine between the halves' vectors below which all counts together still leave a third of the direction to
    # noise: a half has the squared cosine 1 − 1/g with the truth, all counts 1 − 1/(2g), and halves have 1 − 1/g with
    # one another.
    agree: float = 0.3
    # Proportion of the dependence seen on half of the counts that a fit must explain: fits that found the structure
    # have .75 to 1.2 on the simulated models, those that missed it 0 to .1.
    explained: float = 0.5
    # Pairs per item below which B's ℓ₁ error (at most 2) is above .75 on every simulated model without empirical
    # Bayes.
    few_pairs: float = 2.0
    # ℓ₁ error of B times √(N/M) for the scaled SVD on Example 1 from N/M = 5 on: Theorem 2.2's constant, measured.
    error_scale: float = 1.06
    # Condition of the anchor matrix (25) beyond which signs of Δ̂ do not split the items into two kinds.
    large_condition: float = 20.0


THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class PairEvidence:
    """What the verdict is made from."""

    counts: Counts
    factored: Factored
    symmetric: bool
    symmetry: Symmetry | None
    converged: bool
    test: StructureTest | None  # that chose the number; None: it was given
    epsilon: float
    bin_width: float
    tau: float
    method: str = "auto"

    @property
    def n_components(self) -> int:
        return int(self.factored.separation.shape[1]) + 1

    @property
    def used_shape(self) -> tuple[int, int]:
        """Items with counts."""
        counts = self.counts
        if self.symmetric:
            used = int(np.count_nonzero(counts.row_sums + counts.column_sums))
            return (used, used)
        return int(np.count_nonzero(counts.row_sums)), int(np.count_nonzero(counts.column_sums))


def examine_pairs(evidence: PairEvidence) -> Examination:
    """Diagnose a fitted pair matrix; N/M is `pairs_per_item` (5)."""
    examiner = Examiner()
    counts, shape = evidence.counts, evidence.used_shape
    ratio = counts.n_pairs / np.sqrt(shape[0] * shape[1])
    examiner.quantities |= {
        "n_pairs": counts.n_pairs,
        "n_items": shape[0],
        "pairs_per_item": float(ratio),
        "expected_error": float(min(THRESHOLDS.error_scale / np.sqrt(ratio), 2.0)),
        "components": evidence.n_components,
        "values": evidence.factored.values.tolist(),
    }
    _examine_paper(examiner, evidence, float(ratio))
    _examine_structure(examiner, evidence, float(ratio))
    if ratio < THRESHOLDS.few_pairs:
        examiner.doubt(
            "caution",
            f"There are {ratio:.1f} pairs per item: expect about half of B's probability to lie in the wrong place; "
            "count more pairs, or leave rare items out.",
        )
    if evidence.symmetric and evidence.symmetry is not None and not evidence.symmetry.holds:
        largest = max(evidence.symmetry.by_pair, evidence.symmetry.by_item)
        examiner.doubt(
            "caution",
            f"The order of pairs matters ({largest:.1f} standard deviations beyond chance, {LOPSIDED:.0f} allowed), "
            "and B was made symmetric; use symmetric=False.",
        )
    if not counts.whole:
        examiner.doubt(
            "caution",
            "The counts are not whole: they were taken as weights, and the tests behind this verdict assume that their "
            "sum is a number of observations; give counts.",
        )
    examiner.check_converged(evidence.converged, "The fit", "B")
    return examiner.conclude()


# -------------------------------------------------------------- structure


def _other_ways(evidence: PairEvidence) -> str:
    """What may still be tried: none of it was done already."""
    ways = ["use method='auto'"] if evidence.method != "auto" else []
    ways += ["set symmetric=False"] if evidence.symmetric else []
    return ", ".join([*ways, "try another n_components, or count more pairs"])


def _examine_structure(examiner: Examiner, evidence: PairEvidence, ratio: float) -> None:
    counts, number = evidence.counts, evidence.n_components
    test = evidence.test
    if test is None:
        test = structure_test(counts, symmetric=evidence.symmetric, most=max(number + 1, 2), level=THRESHOLDS.seen)
    values = effective_values(evidence.factored)
    strongest, weakest = (float(values.max()), float(values.min())) if len(values) else (0.0, 0.0)
    shape = (effective_items(evidence.factored.marginal), effective_items(evidence.factored.column_marginal))
    least = detectable_value(counts.n_pairs / 2, shape, symmetric=evidence.symmetric)
    gain = detection_gain(counts.n_pairs, shape, weakest, symmetric=evidence.symmetric)
    agreement = test.agreement[number - 2] if 1 < number <= len(test.agreement) + 1 else 0.0
    explained = test.explained(evidence.factored, symmetric=evidence.symmetric) if len(values) else None
    examiner.quantities |= {
        "structure_p_values": test.p_values,
        "structure_p_value": test.p_value,
        "supported_components": test.chosen,
        "power": structure_power(counts.n_pairs, shape, strongest, symmetric=evidence.symmetric),
        "detectable_value": least,
        "detection_gain": gain if len(values) else None,
        "agreement_of_halves": agreement if len(values) else None,
        "explained_structure": explained,
    }
    if number > 1 and test.p_values[0] > THRESHOLDS.seen:
        examiner.doubt(
            "not identifiable",
            f"No structure is seen (p-value {test.p_value:.2g} of rank 1): the separation is noise. With {ratio:.1f} "
            f"pairs per item only a leading value above {least:.2f} of at most 1 shows; count more pairs.",
        )
        return
    if number == 1 and evidence.test is not None and test.p_values[0] > THRESHOLDS.seen:  # chosen, not asked for
        examiner.doubt(
            "caution",
            f"No structure found: pairs look independent (p-value {test.p_value:.2g} of rank 1), and with {ratio:.1f} "
            f"pairs per item only a leading value above {least:.2f} of at most 1 would show; count more pairs.",
        )
        return
    if explained is not None and explained < THRESHOLDS.explained:
        examiner.doubt(
            "caution",
            f"The fit explains {max(explained, 0.0):.0%} of the dependence that one half of the counts shows on the "
            f"other; {_other_ways(evidence)}.",
        )
    supported = next(
        (rank for rank, p in enumerate(test.p_values, start=1) if p > THRESHOLDS.seen), len(test.p_values) + 1
    )
    if number > 1 and supported < number:
        examiner.doubt(
            "caution",
            f"The counts support {supported} components (p-value {test.p_values[supported - 1]:.2g} of no more), and "
            f"{number} were fitted: the others are noise; use n_components={supported}.",
        )
        return
    if len(test.p_values) >= number and test.p_values[number - 1] < THRESHOLDS.more:
        examiner.doubt(
            "caution",
            f"There is more structure than {number} component{'s' if number > 1 else ''} (p-value "
            f"{test.p_values[number - 1]:.2g}); n_components=None chooses the number.",
        )
    elif evidence.test is not None and number == MOST_COMPONENTS < min(counts.shape):
        examiner.doubt(
            "caution",
            f"{number} components are all that are looked for, and each of them was seen: there may be more; set "
            "n_components to a larger number to keep more of the structure.",
        )
    if len(values) and agreement < THRESHOLDS.agree:
        examiner.doubt(
            "caution",
            f"Halves of the counts agree little on the weakest component (cosine {agreement:.2f}; gain {gain:.1f} over "
            f"the threshold of {ratio:.1f} pairs per item): much of its direction is noise; count more pairs.",
        )


# ---------------------------------------------------- the paper's numbers


def _examine_paper(examiner: Examiner, evidence: PairEvidence, ratio: float) -> None:
    """At rank 2 the ‖Δ‖₁ of Assumption 1 (3), bins, spillover, good bins, the anchor matrix; `ratio` is N/M."""
    if evidence.n_components != 2:
        return
    delta, marginal = evidence.factored.separation[:, 0], evidence.factored.marginal
    size = float(np.abs(delta).sum())
    bins = marginal_bins(marginal, evidence.counts.n_pairs, evidence.epsilon, evidence.bin_width, evidence.tau)
    condition = anchor_condition(delta, marginal)
    examiner.quantities |= {
        "separation_l1": size,
        "bins": bin_rows(bins, delta, ratio, evidence.bin_width, evidence.tau),
        "anchor_condition": condition,
    }
    if condition > THRESHOLDS.large_condition:
        examiner.doubt(
            "caution",
            f"The two kinds of items barely differ (condition {condition:.0f} of the anchor matrix, ‖Δ‖₁ {size:.3f}); "
            "Phase II's guarantee, and any split into kinds, multiplies the noise by that.",
        )


def anchor_condition(delta: Floats, marginal: Floats) -> float:
    """Condition of [ρ_𝒜, Δ_𝒜; 1 − ρ_𝒜, −Δ_𝒜] (25), 𝒜 the items with Δ > 0: an anchor partition (Definition 4.1)?"""
    chosen = delta > 0
    mass, part = float(marginal[chosen].sum()), float(delta[chosen].sum())
    matrix = np.array([[mass, part], [1 - mass, -part]])
    return float(np.linalg.cond(matrix)) if abs(np.linalg.det(matrix)) > 1e-300 else float("inf")


def bin_rows(bins: Bins, delta: Floats, ratio: float, width: float, tau: float) -> list[dict[str, float | bool | None]]:
    """One row per bin: its ends (in 1/M), mass, number, the spillover bound (18) of Lemma 3.4, good or not.

    A good bin (Definition 4.3) has mass and, for it, separation (28) above the constants of Lemma 4.5.
    """
    ends = [0.0, *bins.edges.tolist(), None]
    separation = np.bincount(bins.level, weights=np.abs(delta), minlength=bins.n_levels)  # S_k (28)
    constant = float(np.abs(delta).sum()) / 24  # C₁ = C₂ of Lemma 4.5
    rows: list[dict[str, float | bool | None]] = []
    for level in range(bins.n_levels):
        upper, mass = ends[level + 1], float(bins.mass[level])
        inverse = 0.0 if upper is None else 1 / upper  # e^{−k}
        enough = mass >= constant * min(inverse, 1.0) and mass > 0
        rows.append(
            {
                "from": ends[level],
                "to": upper,
                "mass": mass,
                "items": int(bins.number[level]),
                "spillover_bound": None if upper is None else float(2 * np.exp(-(width**tau) * upper * ratio / 2)),
                "good": bool(enough and separation[level] / (2 * mass) >= constant),
            }
        )
    return rows


# -----------------------------------------------------------------------------
# Is there any structure in pair counts, and of which rank? A cross-fitted test for every rank.
#
# Rank r means: whatever functions of row and column items are taken, the matrix of their expected products has rank at
# most r. So functions f₁, f₂, … are learned on one half of the counts (its leading scaled vectors), and on the other
# half the products G = E[Φ(I) Φ'(J)ᵀ] of Φ = (1, f₁, …, f_r) are measured. Rank ≤ r makes the Schur complement of the
# last entry zero, t = G_aa − G_aΦ G_ΦΦ⁻¹ G_Φa, a mean over independent pairs to first order: t over its standard error
# is standard normal, whatever the functions are and however badly they were learned. Both halves serve in turn. For r =
# 1 this is the correlation of f₁(I) and f'₁(J) over pairs: rank 1 is independence.
#
# Power: with λ the leading scaled value of B (‖Δ/√ρ‖² at rank 2), n pairs in a half, M × M' items, the learned vectors
# point at the truth with squared cosine 1 − 1/g, g = λ² n/√(MM') (twice that when B is symmetric), if g > 1, and not at
# all below (Baik, Ben Arous & Péché 2005): t grows like √N λ (1 − 1/g). That is for even marginals. For others the same
# holds with what regularised scaling sees: v_i = ρ_i/(ρ_i + ρ̄), M = 4 Σ v_i² and λ = 2 Σ Δ_i²/(ρ_i + ρ̄).
#
# Paper     the question of rank 1 or 2 is that of Huang, Kakade, Kong & Valiant 2018, Theorem 5.1, which says when it
#           has no answer; Baik, Ben Arous & Péché 2005 for the power
# Needs     independent pairs, or nearly: halves are drawn pair by pair
# Promises  level to first order, whatever the learned functions are; power as above (`./dev reproduce pairs:testing`)
# Differs   the paper has no test; this one is for every rank
#
# Symbols   paper   here        shape       meaning
#           ρ, Δ    marginal, separation
#           —       G           (r+1, r+1)  products of functions over pairs
#           —       t           —           Schur complement; over its standard error a `statistic`

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
    counts: Counts, *, symmetric: bool, most: int = MOST_COMPONENTS, level: float = LEVEL, seed: int = 0
) -> StructureTest:
    """Test rank ≤ 1, ≤ 2, … up to the first that stands, at most `most` − 1 of them."""
    halves = split_counts(counts, 2, seed)
    most = min(most, min(counts.shape))
    if most < 2 or any(half.matrix.nnz < 2 for half in halves):
        return StructureTest([0.0], [1.0], level, 1, [0.0])
    learned = [scaled_svd(half.matrix, most - 1, symmetric=symmetric, centred=True, tol=LEARNED_TOL) for half in halves]
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
