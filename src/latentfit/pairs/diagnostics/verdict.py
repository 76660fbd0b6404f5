"""The verdict on a fitted pair matrix: every check with its value and limit, and the expected error of B.

Paper     Huang, Kakade, Kong & Valiant 2018: N/M (5), ‖Δ̂‖₁ of Assumption 1 (3), mass and number per bin (8), the bound
          on spillover (18) of Lemma 3.4, good bins (Definition 4.3 with S_k (28) and the constants of Lemma 4.5), the
          condition of the anchor matrix (25), Definition 4.1
Needs     a fitted `Factored`, the counts behind it, the tests of every rank (`pairs/diagnostics/rank_test.py`)
Promises  the paper's quantities at the fitted ρ̂ and Δ̂. Its constants are not known, so that findings rest on tests and
          on limits that were measured
Differs   bins begin at ε₀/M, as in `pairs/init.py`; 𝒜 holds all items with Δ̂ > 0, not those of some bins; S_k
          sums over a whole bin: which items spilled into it from another cannot be seen

Symbols   paper      here              shape      meaning
          ρ̂, Δ̂       marginal, delta   (M,)
          d₀         ratio             —          N/M
          W_k, M_k   mass, number      (levels,)  of a bin
          S_k        separation        (levels,)  Σ |Δ̂| of a bin
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import poisson

from latentfit.core.counts import Counts
from latentfit.core.kernels import Floats
from latentfit.core.spectral import effective_items
from latentfit.core.verdict import Examination, Examiner, Expectation
from latentfit.pairs.data import split_counts
from latentfit.pairs.diagnostics.rank_test import (
    LEARNED_TOL,
    MOST_COMPONENTS,
    StructureTest,
    detectable_value,
    detection_gain,
    effective_values,
    structure_power,
    structure_test,
)
from latentfit.pairs.init import Bins, Factored, marginal_bins
from latentfit.pairs.moments import LOPSIDED, Symmetry


@dataclass(frozen=True)
class Thresholds:
    """Limits of the checks."""

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
    # Proportion of pairs that repeat another one beyond what the fit explains, and its standard errors: one pair in
    # twenty, written twice, already makes halves of the counts dependent. Sound counts stay within two errors.
    repeats: float = 0.05
    repeat_errors: float = 5.0
    # Proportion of a fit's dependence (its χ²) that one pair of items may carry; of few cells each carries much.
    one_pair: float = 0.25
    cells_per_proportion: float = 10.0
    # Pairs of an item with itself: proportion of all pairs that are missing or too many, and p-value. Where they are
    # missing, a model of low rank needs further components to make holes in the diagonal.
    self_pairs: float = 0.005
    self_pairs_p: float = 1e-6
    divisor_p: float = 1e-6  # probability that all counts have a common divisor by chance


THRESHOLDS = Thresholds()

Indices = NDArray[np.intp]

MANY_PAIRS = 20_000
"""Stored pairs up to which both halves of the counts are fitted anew, and functions are learned precisely."""
COARSE_TOL = 1e-2
"""Precision of the learned functions of more pairs: directions of noise, which nobody needs precisely, cost most."""
REFIT_ROWS = 200
"""Rows of B, drawn in proportion to their probability, on which two fits are compared."""


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
    refit: Callable[[Counts], Factored] | None = None  # the same fit to other counts, for the expected error

    @property
    def n_components(self) -> int:
        return int(self.factored.separation.shape[1]) + 1

    @cached_property
    def halves(self) -> list[Counts]:
        """Two random halves of the counts, for tests and fits."""
        return split_counts(self.counts, 2, 0)

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
    ratio = float(counts.n_pairs / np.sqrt(shape[0] * shape[1]))
    examiner.quantities |= {
        "n_pairs": counts.n_pairs,
        "n_items": shape[0],
        "pairs_per_item": ratio,
        "expected_error": float(min(THRESHOLDS.error_scale / np.sqrt(ratio), 2.0)),
        "components": evidence.n_components,
        "values": evidence.factored.values.tolist(),
    }
    examiner.check_size(counts.n_pairs, "pairs")
    examiner.check(
        "pairs_per_item", "Pairs per item", ratio >= THRESHOLDS.few_pairs,
        f"There are {ratio:.1f} pairs per item, fewer than {THRESHOLDS.few_pairs:g}, so that about half of B's "
        "probability lies in the wrong place; count more pairs, or leave rare items out.",
        value=ratio, limit=THRESHOLDS.few_pairs,
    )  # fmt: skip
    _examine_counting(examiner, evidence)
    if _examine_structure(examiner, evidence, ratio):
        _examine_components(examiner, evidence, ratio)
    _examine_cells(examiner, evidence)
    _examine_paper(examiner, evidence, ratio)
    examiner.check_converged(evidence.converged, "The fit", "B")
    examiner.expected = _expected(evidence)
    return examiner.conclude()


def _expected(evidence: PairEvidence) -> Expectation:
    """How much of B's probability is expected in the wrong place.

    A fit to half of the counts has twice the variance, and it lies as far from the fit to all of them as that lies from
    the truth.
    """
    if evidence.refit is None or evidence.counts.matrix.nnz < 2:
        value = min(THRESHOLDS.error_scale / np.sqrt(max(evidence.counts.n_pairs, 1) / evidence.used_shape[0]), 2.0) / 2
        return Expectation(
            "error of the probabilities", float(value),
            sentence=f"About {value:.0%} of the probability of pairs is expected in the wrong place, by the number of "
            "pairs per item.",
        )  # fmt: skip
    halves = [half for half in evidence.halves if half.matrix.nnz][
        : 2 if evidence.counts.matrix.nnz <= MANY_PAIRS else 1
    ]
    value = float(np.mean([moved_probability(evidence.factored, evidence.refit(half)) for half in halves]))
    return Expectation(
        "error of the probabilities", value,
        sentence=f"Fitted anew to half of the pairs, {value:.0%} of B's probability moves to other pairs; as much is "
        "expected in the wrong place.",
    )  # fmt: skip


def moved_probability(one: Factored, other: Factored, most_rows: int = REFIT_ROWS) -> float:
    """Total variation between two fits; of many rows some are compared, drawn in proportion to their probability."""
    rows, weights = np.arange(len(one.marginal)), np.ones(len(one.marginal))
    if len(rows) > most_rows:
        size = (one.marginal + other.marginal) / 2
        order = np.argsort(size, kind="stable")
        places = (np.arange(most_rows) + 0.5) / most_rows * size.sum()
        rows = order[np.searchsorted(np.cumsum(size[order]), places).clip(0, len(order) - 1)]
        weights = 1 / (most_rows * size[rows])
    total = 0.0
    for first in range(0, len(rows), 50):
        part = rows[first : first + 50]
        B, C = (np.maximum(fit.left[part] @ fit.right.T, 0.0) for fit in (one, other))
        total += float(np.abs(B - C).sum(axis=1) @ weights[first : first + 50])
    return min(total / 2, 1.0)


# ------------------------------------------------------------- the counts


def _examine_counting(examiner: Examiner, evidence: PairEvidence) -> None:
    """Are the counts numbers of independent observations, and does their order matter?"""
    counts = evidence.counts
    examiner.check(
        "whole_counts", "Counts are whole numbers", counts.whole,
        "The counts are not whole numbers: they were taken as weights, and the tests behind this verdict take their "
        "sum as the number of observations; give counts.",
    )  # fmt: skip
    if counts.whole and counts.matrix.nnz:
        divisor = int(np.gcd.reduce(counts.matrix.data))
        probability = float(divisor ** -float(min(counts.matrix.nnz, 100))) if divisor > 1 else 1.0
        examiner.check(
            "common_divisor", "Counts without a common divisor", probability > THRESHOLDS.divisor_p,
            f"Every count is a multiple of {divisor}, where 1 is expected: pairs look as if each had been written "
            f"{divisor} times, or rounded, so that there is less evidence than their number says; divide the counts by "
            f"{divisor}, or leave the repeated lines out.",
            value=divisor, limit=1, p_value=probability,
        )  # fmt: skip
    if evidence.symmetric and evidence.symmetry is not None:
        largest = max(evidence.symmetry.by_pair, evidence.symmetry.by_item)
        examiner.check(
            "order_of_pairs", "Order of pairs does not matter", evidence.symmetry.holds,
            f"The order of pairs matters ({largest:.1f} standard deviations beyond chance, limit {LOPSIDED:.0f}), and "
            "B was made symmetric, so that it is wrong in both orders; use symmetric=False.",
            value=largest, limit=LOPSIDED,
        )  # fmt: skip
    proportion = proportion_in_cycles(counts) if counts.same_items and not evidence.symmetric else None
    if proportion is not None:
        examiner.check(
            "order_of_items", "Items that pairs lead back to", proportion > 0,
            f"All pairs follow one order of the items ({proportion:.0%} of the items are led back to; more than 0 % "
            "must be), as where the smaller of two ids is always written first; such a triangle has no low rank. Use "
            "symmetric=True if the order within a pair means nothing.",
            value=proportion, limit=0,
        )  # fmt: skip


def proportion_in_cycles(counts: Counts) -> float | None:
    """Proportion of the items to which a chain of pairs leads back; None where too few pairs could show it.

    Half of the items must stand on both sides, and pairs be twice as many as items: random pairs then have cycles.
    """
    both = int(np.count_nonzero((counts.row_sums > 0) & (counts.column_sums > 0)))
    used = int(np.count_nonzero((counts.row_sums > 0) | (counts.column_sums > 0)))
    if used < 2 or 2 * both < used or counts.n_pairs < 2 * used:
        return None
    _, labels = connected_components(counts.matrix, directed=True, connection="strong")
    sizes = np.bincount(labels)
    return float(sizes[sizes > 1].sum()) / used


# -------------------------------------------------------------- structure


def _other_ways(evidence: PairEvidence) -> str:
    """What may still be tried: none of it was done already."""
    ways = ["use method='auto'"] if evidence.method != "auto" else []
    ways += ["set symmetric=False"] if evidence.symmetric else []
    return ", ".join([*ways, "try another n_components, or count more pairs"])


def _examine_structure(examiner: Examiner, evidence: PairEvidence, ratio: float) -> bool:
    """Are pairs dependent, and does the fit hold that dependence? False where nothing was found."""
    counts, number = evidence.counts, evidence.n_components
    test = _test_of(evidence)
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
    limit = THRESHOLDS.seen
    unseen = f"with {ratio:.1f} pairs per item only a leading value above {least:.2f} (at most 1) can be seen"
    if number == 1:
        if evidence.test is not None:  # chosen, not asked for
            examiner.check(
                "structure_found", "Pairs are dependent", test.p_value <= limit,
                f"No structure found: pairs look independent (p-value {test.p_value:.2g} of rank 1, limit {limit:g}), "
                f"and {unseen}; count more pairs.",
                value=test.p_value, limit=limit, p_value=test.p_value,
            )  # fmt: skip
        return test.p_value <= limit or evidence.test is None
    found = examiner.check(
        "structure_found", "Pairs are dependent", test.p_value <= limit,
        f"No structure found: pairs look independent (p-value {test.p_value:.2g} of rank 1, limit {limit:g}), so that "
        f"the fitted separation is noise; {unseen}. Count more pairs, or set n_components=1.",
        value=test.p_value, limit=limit, p_value=test.p_value, level="not identifiable",
    )  # fmt: skip
    if found and explained is not None:
        examiner.check(
            "fit_explains", "Dependence on unseen pairs that the fit explains", explained >= THRESHOLDS.explained,
            f"The fit explains {max(explained, 0.0):.0%} of the dependence that one half of the counts shows on the "
            f"other, less than {THRESHOLDS.explained:.0%}, so that B misses the structure; {_other_ways(evidence)}.",
            value=explained, limit=THRESHOLDS.explained,
        )  # fmt: skip
    return found


def _test_of(evidence: PairEvidence) -> StructureTest:
    """The test that chose the rank, or one of the ranks up to the fitted one."""
    if evidence.test is not None:
        return evidence.test
    return structure_test(
        evidence.counts, symmetric=evidence.symmetric, most=max(evidence.n_components + 1, 2), level=THRESHOLDS.seen,
        tol=LEARNED_TOL if evidence.counts.matrix.nnz <= MANY_PAIRS else COARSE_TOL, halves=evidence.halves,
    )  # fmt: skip


def _examine_components(examiner: Examiner, evidence: PairEvidence, ratio: float) -> None:
    """Are there as many components as were fitted, and does each have a direction?"""
    number, p_values = evidence.n_components, examiner.quantities["structure_p_values"]
    supported = next((rank for rank, p in enumerate(p_values, start=1) if p > THRESHOLDS.seen), len(p_values) + 1)
    if number > 1:
        p_value = p_values[supported - 1] if supported <= len(p_values) else 0.0
        enough = examiner.check(
            "components_supported", "Fitted components that the counts support", supported >= number,
            f"The counts support {supported} components (p-value {p_value:.2g} of no more, limit {THRESHOLDS.seen:g}), "
            f"and {number} were fitted, so that the others are noise; use n_components={supported}.",
            value=supported, limit=number, p_value=p_value,
        )  # fmt: skip
        if not enough:
            return
    if len(p_values) >= number:
        p_value = p_values[number - 1]
        examiner.check(
            "components_missed", "No further component", p_value >= THRESHOLDS.more,
            f"There is more structure than {number} component{'s' if number > 1 else ''} (p-value {p_value:.2g}, limit "
            f"{THRESHOLDS.more:g}), which B leaves out; n_components=None chooses the number.",
            value=p_value, limit=THRESHOLDS.more, p_value=p_value,
        )  # fmt: skip
    if evidence.test is not None:
        most = min(MOST_COMPONENTS, *evidence.counts.shape)
        examiner.check(
            "search_limit", "Search for the number of components ended below its limit",
            number < MOST_COMPONENTS or most == min(evidence.counts.shape),
            f"{number} components are the limit of the search, and each of them was seen, so there may be more; set "
            f"n_components to a number above {MOST_COMPONENTS} to keep more of the structure.",
            value=number, limit=MOST_COMPONENTS,
        )  # fmt: skip
    agreement, gain = examiner.quantities["agreement_of_halves"], examiner.quantities["detection_gain"]
    if agreement is not None:
        examiner.check(
            "halves_agree", "Agreement of halves on the weakest component", agreement >= THRESHOLDS.agree,
            f"Halves of the counts agree little on the weakest component (cosine {agreement:.2f}, limit "
            f"{THRESHOLDS.agree:g}; gain {gain:.1f} over the threshold of {ratio:.1f} pairs per item), so that much of "
            "its direction is noise; count more pairs, or use a smaller n_components.",
            value=agreement, limit=THRESHOLDS.agree,
        )  # fmt: skip


# ----------------------------------------------- cells that the fit misses


def _examine_cells(examiner: Examiner, evidence: PairEvidence) -> None:
    """Pairs that repeat, one pair that makes the structure, pairs of an item with itself."""
    counts, factored = evidence.counts, evidence.factored
    if counts.matrix.nnz == 0:
        return
    cells = counts.matrix.tocoo()
    rows, columns, times = cells.row.astype(np.intp), cells.col.astype(np.intp), cells.data.astype(np.float64)
    left, right, total = factored.left, factored.right, counts.total
    apart = rows != columns if counts.same_items else np.ones(len(rows), bool)
    if counts.whole:
        _examine_repeats(examiner, evidence, rows[apart], columns[apart], times[apart])
    if evidence.n_components > 1:
        proportion, row, column = strongest_pair(factored, rows, columns, symmetric=evidence.symmetric)
        limit = max(THRESHOLDS.one_pair, THRESHOLDS.cells_per_proportion / counts.matrix.nnz)
        names = f"{str(counts.row_names[row])!r} and {str(counts.column_names[column])!r}"
        examiner.check(
            "strongest_pair", "Dependence that the strongest pair carries", proportion <= limit,
            f"One pair, {names}, carries {proportion:.0%} of the fitted dependence, more than {limit:.0%}: the "
            "components describe this pair and not kinds of items; see whether it was counted too often, and fit "
            "without it.",
            value=proportion, limit=limit,
        )  # fmt: skip
    if counts.same_items:
        expected = total * float(np.maximum(np.einsum("mk,mk->m", left, right), 0.0).sum())
        seen = float(counts.matrix.diagonal().sum())
        tail = poisson.cdf(seen, expected) if seen < expected else poisson.sf(seen - 1, expected)
        p_value = min(2 * float(tail), 1.0)
        apart_from_it = abs(seen - expected) / total
        way = "leave" if seen < expected else "count"
        examiner.check(
            "self_pairs", "Pairs of an item with itself, beside what the fit expects",
            apart_from_it <= THRESHOLDS.self_pairs or p_value >= THRESHOLDS.self_pairs_p,
            f"{seen:,.0f} pairs join an item with itself, where the fit expects {expected:,.0f} (they differ by "
            f"{apart_from_it:.1%} of all pairs, limit {THRESHOLDS.self_pairs:.1%}): a model of few components cannot "
            f"{way} them {'out' if way == 'leave' else 'so often'}, and makes further components of them. "
            + ("Count such pairs, too, or do not interpret the weaker components." if way == "leave" else
               "Remove them from the counts where they are an artefact, or use another n_components."),
            value=apart_from_it, limit=THRESHOLDS.self_pairs, p_value=p_value,
        )  # fmt: skip


def _examine_repeats(
    examiner: Examiner, evidence: PairEvidence, rows: Indices, columns: Indices, times: Floats
) -> None:
    """Do pairs occur again more often than independent draws from the fit? Σ c (c − 1) has the mean N² Σ B²."""
    counts, factored = evidence.counts, evidence.factored
    left, right, total = factored.left, factored.right, counts.total
    squares = float(((left.T @ left) * (right.T @ right)).sum())
    if counts.same_items:
        squares -= float((np.einsum("mk,mk->m", left, right) ** 2).sum())
    expected = total**2 * max(squares, 0.0)
    fitted = total * np.maximum(np.einsum("nk,nk->n", left[rows], right[columns]), 0.0)
    # variance of the sum over Poisson cells, Σ (2 μ² + 4 μ³), the cubes from the cells that were seen
    variance = (2 * expected + 4 * float((fitted**2) @ times)) * (2 if counts.symmetric else 1)
    surplus = float((times * (times - 1)).sum()) - expected
    proportion = surplus / (2 * max(total, 1.0))
    errors = surplus / np.sqrt(max(variance, 1.0))
    examiner.quantities |= {"repeated_pairs": proportion, "repeated_pairs_errors": float(errors)}
    examiner.check(
        "repeated_pairs", "Pairs repeated beyond what the fit explains",
        proportion <= THRESHOLDS.repeats or errors <= THRESHOLDS.repeat_errors,
        f"{min(proportion, 1.0):.0%} of the pairs repeat another one beyond what the fit explains ({errors:.0f} "
        f"standard errors; limits {THRESHOLDS.repeats:.0%} and {THRESHOLDS.repeat_errors:.0f}): the fit misses "
        "structure, or lines are copied or come in runs, and then tests and errors are too sure; use "
        "n_components=None, leave repeated lines out, or count each source once.",
        value=proportion, limit=THRESHOLDS.repeats,
    )  # fmt: skip


def strongest_pair(factored: Factored, rows: Indices, columns: Indices, *, symmetric: bool) -> tuple[float, int, int]:
    """Largest share of the fit's χ², Σ (B − ρρ')²/ρρ', that one of the pairs carries (both its orders), and which."""
    scaled = [
        part / np.sqrt(np.where(mass > 0, mass, 1.0))[:, None]
        for part, mass in (
            (factored.separation, factored.marginal),
            (factored.column_separation * factored.signs, factored.column_marginal),
        )
    ]
    whole = float(((scaled[0].T @ scaled[0]) * (scaled[1].T @ scaled[1])).sum())
    cells = np.einsum("ns,ns->n", scaled[0][rows], scaled[1][columns]) ** 2
    if symmetric:
        cells[rows != columns] *= 2
    at = int(cells.argmax())
    return (float(cells[at]) / whole if whole > 0 else 0.0), int(rows[at]), int(columns[at])


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
    examiner.check(
        "kinds_differ", "Condition of the anchor matrix", condition <= THRESHOLDS.large_condition,
        f"The two kinds of items barely differ (condition {condition:.3g} of the anchor matrix, limit "
        f"{THRESHOLDS.large_condition:g}; ‖Δ‖₁ {size:.3f}): any split into kinds multiplies the noise by that; use B "
        "and the embedding, not the kinds, or count more pairs.",
        value=condition, limit=THRESHOLDS.large_condition,
    )  # fmt: skip


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
