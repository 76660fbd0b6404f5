"""Can the classes of this table be trusted? The verdict on latent classes, with the numbers behind it.

`not identifiable` when the table fits a whole family of answers: fewer than three columns that depend on one
another, more parameters than the joint has cells, classes that are one class twice. `caution` when the answer rests
on something thin: classes with few rows, a class whose gain is what chance alone gives, columns that still depend on
one another inside the classes, classes that the halves of the table do not agree on, EM cut short.

Tests of dependence compare Pearson's statistic with its exact mean and variance over permutations (Dawson 1954), so
rare categories do no harm. Splitting a class that needs no split still gains about d + 3 d^⅓ nats, d its parameters
(docs/models/tables.md): a class must gain more. Cost is linear in the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import gamma

from tacit.data.sampling import row_hashes
from tacit.data.table import Table
from tacit.diagnose import table_theorems as theorems
from tacit.diagnose.report import Examination, Examiner
from tacit.engine.memory import MemoryEngine, posterior_of
from tacit.engine.mixture import Floats, Mixture
from tacit.factor.assign import match_classes
from tacit.factor.table_pool import pair_frequencies
from tacit.moments.pairs import count_table_pairs
from tacit.refine.em import em
from tacit.refine.table_prior import SMOOTHING, table_steps

Refit = Callable[[Table, int], Mixture]

LEAST_ROWS = 50.0
"""Rows a class should have: with fewer a share of one half is known to no better than ± 14 points."""
ROWS_PER_CATEGORY = 10.0
"""Rows a class should have for every (effective) category of its widest column."""
SAME = 0.02
"""Mean total variation between the profiles of two classes below which they are one class twice."""
CHANCE = 1e-3
"""Level at which a column counts as dependent on others, divided by the number of columns."""
DEPENDENT = 0.2
"""Corrected Cramér's V of two columns given the classes above which independence within classes fails."""
AGREEMENT = 0.7
"""Share of the rows that models of the two halves should put in the same class."""
REFIT_WORK = 50_000_000
"""Rows · columns · classes up to which the halves are refitted."""
MERGE_PASSES = 30
"""EM passes after two classes are merged."""


def examine_table(table: Table, mixture: Mixture, *, converged: bool, refit: Refit | None = None) -> Examination:
    """Diagnose a fitted table; `refit` fits so many classes to a table, for the halves."""
    examiner = Examiner()
    counts = np.asarray(count_table_pairs(table).gram.todense(), np.float64)
    _examine_sizes(examiner, table, mixture)
    informative = _examine_columns(examiner, table, mixture, counts)
    _examine_count(examiner, table, mixture, informative)
    _examine_classes(examiner, table, mixture)
    _examine_residuals(examiner, table, mixture, counts)
    if refit is not None and mixture.n_classes > 1:
        _examine_halves(examiner, table, mixture, refit)
    _add_theorems(examiner, table, mixture)
    if not converged:
        examiner.doubt("caution", "EM stopped before it stood still, so the figures may still move; raise max_iter.")
    return examiner.conclude()


def _examine_sizes(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    rows = mixture.weights * table.total_weight
    singles = table.singles()
    share = singles / np.repeat(np.maximum(np.add.reduceat(singles, table.first[:-1]), 1e-300), np.diff(table.first))
    entropy = -np.add.reduceat(share * np.log(np.maximum(share, 1e-300)), table.first[:-1])
    needed = max(LEAST_ROWS, ROWS_PER_CATEGORY * float(np.exp(entropy.max())))
    parameters = mixture.n_classes * (1 + int(table.first[-1]) - table.n_columns) - 1
    examiner.quantities |= {
        "n_rows": table.total_weight,
        "n_columns": table.n_columns,
        "share_missing": 1 - table.n_cells / max(table.total_weight * table.n_columns, 1),
        "rows_per_class": rows.tolist(),
        "rows_needed_per_class": needed,
        "cells_per_parameter": table.n_cells / max(parameters, 1),
    }
    small = np.flatnonzero(rows < needed)
    if mixture.n_classes > 1 and len(small):
        worst = int(small[np.argmin(rows[small])])
        examiner.doubt(
            "caution",
            f"Class {worst} rests on about {rows[worst]:.0f} rows, fewer than the {needed:.0f} its profile needs; ask "
            "for fewer classes or bring more rows.",
        )


def _examine_columns(examiner: Examiner, table: Table, mixture: Mixture, counts: Floats) -> NDArray[np.bool_]:
    """Which columns depend on any other; classes need three of them."""
    chance = dependence_chances(counts, table.first)
    informative = chance < CHANCE / max(table.n_columns, 1)
    names = [table.columns[n].name for n in np.flatnonzero(~informative)]
    examiner.quantities |= {"uninformative_columns": names, "dependence_p_values": chance.tolist()}
    if mixture.n_classes > 1 and informative.sum() < 3:
        examiner.doubt(
            "not identifiable",
            f"{int(informative.sum())} of {table.n_columns} columns depend on any other, and {mixture.n_classes} "
            "classes need at least three such columns; add columns or rows, or ask for one class.",
        )
    return np.asarray(informative)


def _examine_count(examiner: Examiner, table: Table, mixture: Mixture, informative: NDArray[np.bool_]) -> None:
    """Kruskal's count (Allman, Matias & Rhodes 2009): three groups of columns with Σ min(r, F) ≥ 2F + 2."""
    F, sizes = mixture.n_classes, np.diff(table.first)
    reached = kruskal_count(sizes[informative], F)
    examiner.quantities |= {"kruskal_count": reached, "kruskal_needed": 2 * F + 2}
    if F < 2 or reached >= 2 * F + 2:
        return
    free = float(np.log(sizes).sum())
    beyond = np.log(F * (1 + int((sizes - 1).sum()))) > free
    examiner.doubt(
        "not identifiable" if beyond else "caution",
        f"The {int(informative.sum())} columns that depend on one another carry too few categories to determine {F} "
        f"classes (Kruskal's count is {reached}, {2 * F + 2} are needed); ask for fewer classes or add columns.",
    )


def _examine_classes(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    """Duplicate classes, and whether the least needed class gains more than chance gives."""
    gaps = profile_gaps(mixture)
    examiner.quantities["closest_classes"] = float(gaps.min()) if gaps.size else None
    if not gaps.size:
        return
    if gaps.min() < SAME:
        examiner.doubt(
            "not identifiable",
            f"Two classes have the same profile (they differ by {gaps.min():.3f} on average); ask for fewer classes.",
        )
    gain = least_gain(table, mixture)
    d = 1 + int(table.first[-1]) - table.n_columns
    by_chance = d + 3 * d ** (1 / 3)
    examiner.quantities |= {"least_gain": gain, "gain_by_chance": by_chance}
    if gain < by_chance:
        examiner.doubt(
            "caution",
            f"Two classes can be merged for {gain:.1f} nats, and {by_chance:.1f} are gained by chance alone: the data "
            f"do not show {mixture.n_classes} classes; ask for fewer.",
        )


def _examine_residuals(examiner: Examiner, table: Table, mixture: Mixture, counts: Floats) -> None:
    """Columns that depend on one another although the class is known."""
    values = residual_dependence(counts, mixture)
    worst = float(values.max()) if values.size else 0.0
    examiner.quantities["residual_dependence"] = worst
    if worst > DEPENDENT:
        at = np.unravel_index(int(np.argmax(values)), values.shape)
        left, right = (table.columns[int(n)].name for n in at)
        examiner.doubt(
            "caution",
            f"Columns {left!r} and {right!r} depend on each other beyond what the classes explain (V = {worst:.2f}); "
            "leave one of them out, or ask for more classes.",
        )


def _examine_halves(examiner: Examiner, table: Table, mixture: Mixture, refit: Refit) -> None:
    examiner.quantities["split_half_agreement"] = None
    if table.n_samples * table.n_columns * mixture.n_classes > REFIT_WORK:
        return
    agreement = split_half_agreement(table, mixture.n_classes, refit)
    examiner.quantities["split_half_agreement"] = agreement
    if agreement < AGREEMENT:
        examiner.doubt(
            "caution",
            f"Models of the two halves of the table put only {agreement:.0%} of the rows in the same class; ask for "
            "fewer classes or bring more rows.",
        )


def _add_theorems(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    n_rows = table.total_weight
    observed = 1 - examiner.quantities["share_missing"]
    found: dict[str, Any] = {
        "proposition_1": theorems.noise_bound(n_rows, observed),
        "theorem_1": None,
        "theorem_2": theorems.theorem_2(mixture, n_rows, observed),
    }
    if table.n_columns > 1:
        frequencies = pair_frequencies(count_table_pairs(table).dense(), table.first)
        found["theorem_1"] = theorems.theorem_1(mixture, frequencies, n_rows, observed)
    examiner.quantities |= found


# ------------------------------------------------------------------ quantities


def profile_gaps(mixture: Mixture) -> Floats:
    """Mean total variation between the profiles of every two classes."""
    left, right = np.triu_indices(mixture.n_classes, 1)
    apart = np.abs(mixture.table[:, left] - mixture.table[:, right]).sum(axis=0) / 2
    return np.asarray(apart / max(mixture.n_columns, 1))


def pearson(block: Floats) -> tuple[float, float, float]:
    """Pearson's statistic of a pair table, and its mean and variance over permutations (Dawson 1954)."""
    block = block[block.sum(axis=1) > 0][:, block.sum(axis=0) > 0]
    n, (R, C) = float(block.sum()), block.shape
    if n < 4 or min(R, C) < 2:
        return 0.0, 0.0, 0.0
    rows, columns = block.sum(axis=1), block.sum(axis=0)
    expected = np.outer(rows, columns) / n
    v = [(k - 1) * (n - k) / (n - 1) for k in (R, C)]
    w = [(n * (1 / m).sum() - k**2) / (n - 2) for m, k in ((rows, R), (columns, C))]
    variance = 2 * n / (n - 3) * (v[0] - w[0]) * (v[1] - w[1]) + n**2 / (n - 1) * w[0] * w[1]
    return float((np.square(block - expected) / expected).sum()), n * (R - 1) * (C - 1) / (n - 1), float(variance)


def dependence_chances(counts: Floats, first: NDArray[np.int32]) -> Floats:
    """Per column, the chance of so much dependence on the others if there were none (N,): the smaller of the chance
    of the sum over its partners and of the largest partner, each doubled for looking twice."""
    N = len(first) - 1
    found = np.zeros((3, N, N))
    for i in range(N):
        for j in range(i + 1, N):
            found[:, i, j] = found[:, j, i] = pearson(counts[first[i] : first[i + 1], first[j] : first[j + 1]])
    total = _chance(*found.sum(axis=2))
    single = _chance(*found).min(axis=1, initial=1.0) * max(N - 1, 1)
    return np.asarray(np.minimum(2 * np.minimum(total, single), 1.0))


def _chance(value: Floats, mean: Floats, variance: Floats) -> Floats:
    """Upper tail of the gamma distribution with this mean and variance."""
    live = (mean > 0) & (variance > 0)
    mean, variance = np.where(live, mean, 1.0), np.where(live, variance, 1.0)
    return np.where(live, gamma.sf(value, mean**2 / variance, scale=variance / mean), 1.0)


def kruskal_count(sizes: NDArray[np.int32], n_classes: int) -> int:
    """The largest Σ min(r_g, F) found over three groups of columns, r_g the product of their sizes."""
    states = {(1, 1, 1)}
    for size in sorted((int(s) for s in sizes), reverse=True):
        grown = set()
        for state in states:
            for g in range(3):
                new = list(state)
                new[g] = min(new[g] * size, n_classes)
                grown.add(tuple(sorted(new)))
        states = set(sorted(grown, key=sum)[-2_000:])  # type: ignore[arg-type]
        if any(sum(state) >= 2 * n_classes + 2 for state in states):
            break
    return max(sum(state) for state in states)


def least_gain(table: Table, mixture: Mixture) -> float:
    """Nats lost when the two classes nearest each other become one and EM settles: what the last class gains."""
    F = mixture.n_classes
    engine = MemoryEngine(table, 1)
    full = engine.sums(mixture).log_likelihood
    apart = theorems.divergences(mixture) * mixture.weights[:, None]
    cost = apart + apart.T + np.where(np.eye(F, dtype=bool), np.inf, 0.0)
    pairs = {tuple(sorted((f, int(np.argmin(cost[f]))))) for f in range(F)}
    merged = [_merge(mixture, f, g) for f, g in sorted(pairs)]
    best = max(merged, key=lambda m: engine.sums(m).log_likelihood)
    steps = table_steps(table, F - 1, SMOOTHING, 1)
    return full - em(steps, best, max_iter=MERGE_PASSES, tol=1e-7, accelerate=True).log_likelihood


def _merge(mixture: Mixture, f: int, g: int) -> Mixture:
    weight = mixture.weights[[f, g]] + 1e-12
    table = mixture.table.copy()
    table[:, f] = table[:, [f, g]] @ (weight / weight.sum())
    weights = mixture.weights.copy()
    weights[f] += weights[g]
    return Mixture(np.delete(weights, g), np.ascontiguousarray(np.delete(table, g, axis=1)), mixture.first)


def residual_dependence(counts: Floats, mixture: Mixture) -> Floats:
    """Corrected Cramér's V (N, N) between the counts of every pair and what the mixture expects of them."""
    first, N = mixture.first, mixture.n_columns
    joint = (mixture.table * mixture.weights) @ mixture.table.T
    out = np.zeros((N, N))
    for i in range(N):
        for j in range(i + 1, N):
            block = counts[first[i] : first[i + 1], first[j] : first[j + 1]]
            n, R, C = block.sum(), *block.shape
            if n < 1 or min(R, C) < 2:
                continue
            expected = n * joint[first[i] : first[i + 1], first[j] : first[j + 1]]
            value = (np.square(block - expected) / np.maximum(expected, 0.5)).sum() - (R - 1) * (C - 1)
            out[i, j] = np.sqrt(max(value, 0.0) / n / (min(R, C) - 1))
    return out


def split_half_agreement(table: Table, n_classes: int, refit: Refit, *, seed: int = 0) -> float:
    """Share of the rows that the models of two halves, chosen by hash, put in the same class."""
    rows = table if table.pattern_of is None else replace(
        table, codes=table.codes[table.pattern_of], row_weight=None, pattern_of=None
    )  # fmt: skip
    chosen = row_hashes(rows, seed) < np.uint64(2**63)
    of = np.arange(table.n_rows) if table.pattern_of is None else table.pattern_of
    both = np.bincount(of, minlength=table.n_rows)
    part = np.bincount(of, chosen, minlength=table.n_rows) / np.maximum(both, 1)
    weight = np.ones(table.n_rows) if table.row_weight is None else table.row_weight
    assigned = []
    for share in (part, 1 - part):
        keep = np.flatnonzero(share > 0)
        if not len(keep):
            return 0.0
        half = replace(table.take(keep), row_weight=np.ascontiguousarray((weight * share)[keep]))
        assigned.append(posterior_of(MemoryEngine(table, 1), refit(half, n_classes))[0])
    hard = [np.eye(p.shape[1])[p.argmax(axis=1)] for p in assigned]
    crossed = hard[0].T @ (hard[1] * weight[:, None])
    order = match_classes(crossed)
    return float(crossed[np.arange(n_classes), order].sum() / weight.sum())
