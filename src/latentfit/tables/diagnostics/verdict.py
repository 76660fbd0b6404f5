"""Can the classes of this table be trusted? The verdict on latent classes, with the numbers behind it.

`not identifiable` when the table fits a whole family of answers: fewer than three columns that depend on one
another, too few categories for so many classes, columns in parts that no row shows together, classes that are one
class twice. `caution` when the answer rests on something thin: classes with few rows, a class whose gain is what
chance alone gives, columns that still depend on one another inside the classes, classes that the halves of the table
do not agree on, EM cut short. The rules and how often they err: docs/guide/tables/verdict.md.

The joint-distribution paper's theorems are reported, never judged by: their constants ask for more than any table has.
Cost is bounded: what is not linear in the rows works on rows and columns chosen by hash, and says on how many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import count_parameters
from latentfit.core.mixture.init import MAX_CELLS as SPA_CELLS
from latentfit.core.mixture.init import pair_frequencies
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.mixture.spa import factor_spa
from latentfit.core.multistart import REACHED, Replication
from latentfit.core.table.table import Table
from latentfit.core.verdict import Examination, Examiner
from latentfit.engine.limits import one_blas_thread
from latentfit.tables import theory as theorems
from latentfit.tables.diagnostics.classes import (
    can_rank,
    class_distances,
    compare_halves,
    generic_rank,
    jacobian_rank,
    kruskal_count,
    least_gain,
    n_free,
)
from latentfit.tables.diagnostics.pairs import (
    CellPairs,
    connected_parts,
    count_evidence,
    dependence_p_values,
    expected_pairs,
    one_to_one,
    residual_dependence,
)


@dataclass(frozen=True)
class Thresholds:
    """From where on a number is a reason for caution."""

    # Rows a class should have: with fewer a proportion of one half is known to no better than ± 14 points. Also the
    # rows that must show two columns together before they count as co-observed.
    min_rows: float = 50.0
    # Rows that do not have the most frequent answer, from which on two columns are the same by more than chance.
    min_other: float = 10.0
    rows_per_category: float = 10.0  # Rows a class should have for every (effective) category of a column.
    thin_columns: float = 0.25  # Proportion of the columns that may show a class less often than that.
    # Total variation, in the column where they differ most, below which two classes are one class twice.
    same: float = 0.05
    # Level at which columns count as dependent, divided by the number of columns (or of pairs) looked at.
    dependence_level: float = 1e-3
    # Corrected Cramér's V of two columns given the classes above which independence within classes fails.
    dependent: float = 0.2
    agreement: float = 0.7  # Proportion of the rows that models of the two halves should put in the same class.


THRESHOLDS = Thresholds()


def examine_table(
    table: Table, mixture: Mixture, *, converged: bool, replication: Replication | None = None
) -> Examination:
    """Diagnose a fitted table."""
    examiner = Examiner()
    with one_blas_thread():
        needed = _examine_sizes(examiner, table, mixture)
        examiner.check_size(table.total_weight, "rows")
        evidence = count_evidence(table, mixture.n_classes)
        examiner.quantities |= {"pairs_columns": len(evidence.columns), "pairs_rows": evidence.n_rows}
        if len(evidence.columns) >= min(3, table.n_columns):
            informative = _examine_columns(examiner, table, mixture, evidence)
            _examine_co_observation(examiner, mixture, evidence, informative)
            _examine_count(examiner, mixture, evidence.columns[informative])
            _examine_residuals(examiner, table, mixture, evidence)
            if mixture.n_classes > 1:
                _examine_equal(examiner, table, evidence)
        elif mixture.n_classes > 1:
            n_cells = int(table.column_offsets[-1])
            examiner.doubt(
                "caution",
                f"The columns have too many categories ({n_cells}) for their pairs to be looked at; merge rare "
                "categories.",
            )
        if mixture.n_classes > 1:
            _examine_classes(examiner, table, mixture)
            _examine_halves(examiner, table, mixture, needed)
        _add_theorems(examiner, table, mixture, evidence)
    if replication is not None and mixture.n_classes > 1:
        _examine_replication(examiner, replication)
    examiner.check_converged(converged)
    return examiner.conclude()


def unexamined(n_rows: float) -> Examination:
    """The verdict on a fit whose rows are not at hand: nothing was looked at, and it says so."""
    examiner = Examiner()
    examiner.quantities["n_rows"] = n_rows
    examiner.doubt(
        "caution",
        f"No check has seen all of the {n_rows:.0f} rows, since the earlier ones are not kept; fit all rows at once "
        "for a verdict.",
    )
    return examiner.conclude()


def _examine_replication(examiner: Examiner, replication: Replication) -> None:
    """Whether initialisations agree on where the best objective is."""
    second = next((value for value in replication.objectives if value < replication.objectives[0] - REACHED), None)
    examiner.quantities |= {
        "n_init": replication.n_init,
        "n_final_runs": replication.n_final,
        "n_reached_best": replication.n_reached,
        "next_best_below": None if second is None else replication.objectives[0] - second,
    }
    if replication.alone and second is not None:
        examiner.doubt(
            "caution",
            f"Only one of {replication.n_final} EM runs carried to the end reached the best log-likelihood, and the "
            f"next one ended {replication.objectives[0] - second:.2f} nats below: it may be a local optimum; raise "
            "n_init, or ask for fewer classes.",
        )


def _examine_sizes(examiner: Examiner, table: Table, mixture: Mixture) -> float:
    """Rows every class and every column of it rests on; returns the rows per class needs."""
    shown = table.present.sum(axis=1) >= min(3, table.n_columns)  # fewer cells say nothing of the class's joint
    informative_rows = float(shown.sum() if table.row_weight is None else shown @ table.row_weight)
    rows = mixture.weights * informative_rows
    counts = table.singles()
    seen = np.add.reduceat(counts, table.column_offsets[:-1])
    needs = rows_needed(counts, seen, table.column_offsets)
    needed = float(needs.max(initial=THRESHOLDS.min_rows))
    thin = (seen > 0) & (mixture.weights.min() * seen < needs)
    examiner.quantities |= {
        "n_rows": table.total_weight,
        "n_columns": table.n_columns,
        "share_missing": 1 - table.n_cells / max(table.total_weight * table.n_columns, 1),
        "rows_with_three_cells": informative_rows,
        "rows_per_class": rows.tolist(),
        "rows_needed_per_class": needed,
        "thin_columns": [table.columns[n].name for n in np.flatnonzero(thin)],
        "cells_per_parameter": table.n_cells / max(count_parameters(table.column_offsets, mixture.n_classes), 1),
    }
    if mixture.n_classes < 2:
        return needed
    if informative_rows < 1 and table.n_columns > 2:
        examiner.doubt(
            "not identifiable",
            "No row shows three columns, and classes need rows that do; fill some missing values.",
        )
    worst = int(np.argmin(rows))
    if rows[worst] < needed:
        examiner.doubt(
            "caution",
            f"Class {worst} rests on about {rows[worst]:.0f} rows, fewer than the {needed:.0f} its profile needs; ask "
            "for fewer classes or bring more rows.",
        )
    elif thin.mean() > THRESHOLDS.thin_columns:
        examiner.doubt(
            "caution",
            f"{int(thin.sum())} of {table.n_columns} columns have so many missing values that the smallest class shows "
            "them too seldom for a profile; ask for fewer classes, or leave them out.",
        )
    return needed


def rows_needed(counts: Floats, seen: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Rows a class should have for each column (N,): ten per effective category, e to the entropy."""
    proportion = counts / np.repeat(np.maximum(seen, 1e-300), np.diff(offsets))
    entropy = -np.add.reduceat(proportion * np.log(np.maximum(proportion, 1e-300)), offsets[:-1])
    return np.asarray(np.maximum(THRESHOLDS.min_rows, THRESHOLDS.rows_per_category * np.exp(entropy)))


def _examine_columns(examiner: Examiner, table: Table, mixture: Mixture, evidence: CellPairs) -> NDArray[np.bool_]:
    """Which of the columns looked at depend on any other; classes need three of them."""
    probability = dependence_p_values(evidence.counts, evidence.column_offsets)
    informative = probability < THRESHOLDS.dependence_level / max(len(probability), 1)
    examiner.quantities |= {
        "uninformative_columns": [table.columns[n].name for n in evidence.columns[~informative]],
        "dependence_p_values": probability.tolist(),
    }
    if mixture.n_classes > 1 and informative.sum() < 3:
        examiner.doubt(
            "not identifiable",
            f"{int(informative.sum())} of {len(informative)} columns depend on any other, and {mixture.n_classes} "
            "classes need at least three such columns; add columns or rows, or ask for one class.",
        )
    return np.asarray(informative)


def _examine_co_observation(
    examiner: Examiner, mixture: Mixture, evidence: CellPairs, informative: NDArray[np.bool_]
) -> None:
    """Columns in parts that no rows show together: nothing says which class of one part is which of the other."""
    co_observed = evidence.co_observed[np.ix_(informative, informative)]
    apart = co_observed < THRESHOLDS.min_rows
    n_parts = int(connected_parts(co_observed, THRESHOLDS.min_rows).max(initial=-1)) + 1
    examiner.quantities |= {
        "parts_of_columns": n_parts,
        "share_of_pairs_not_met": float(apart.mean()) if apart.size else None,
    }
    if mixture.n_classes > 1 and n_parts > 1:
        examiner.doubt(
            "not identifiable",
            f"The columns fall into {n_parts} parts that fewer than {THRESHOLDS.min_rows:.0f} rows show together, so "
            "nothing tells which class of one is which of another; add rows that show both, or fit the parts alone.",
        )


def _examine_count(examiner: Examiner, mixture: Mixture, columns: NDArray[np.intp]) -> None:
    """Identifiability of so many classes from the columns that depend on one another.

    Kruskal's count (Allman, Matias & Rhodes 2009), three groups of columns with Σ min(r, F) ≥ 2F + 2, is enough; short
    of it the rank of the Jacobian decides, generically and at the fit.
    """
    F, sizes = mixture.n_classes, np.diff(mixture.column_offsets)[columns]
    reached = kruskal_count(sizes, F)
    examiner.quantities |= {"kruskal_count": reached, "kruskal_needed": 2 * F + 2}
    if F < 2 or reached >= 2 * F + 2:
        return
    short = (
        f"The {len(sizes)} columns that depend on one another carry too few categories to determine {F} "
        f"classes (Kruskal's count is {reached}, {2 * F + 2} are needed"
    )
    if np.log(F * (1 + int((sizes - 1).sum()))) > float(np.log(sizes).sum()):
        examiner.doubt("not identifiable", f"{short}); ask for fewer classes or add columns.")
        return
    if can_rank(sizes.tolist(), F):
        free = n_free(sizes.tolist(), F)
        profiles = [mixture.table[mixture.column_offsets[n] : mixture.column_offsets[n + 1]].T for n in columns]
        ranks = generic_rank(sizes.tolist(), F), jacobian_rank(mixture.weights, profiles)
        examiner.quantities |= {"free_parameters": free, "generic_rank": ranks[0], "rank_at_the_fit": ranks[1]}
        if min(ranks) < free:
            everywhere = "" if ranks[0] < free else " at this fit"
            examiner.doubt(
                "not identifiable" if ranks[0] < free else "caution",
                f"The Jacobian of the model has rank {min(ranks)}{everywhere}, but there are {free} free parameters: "
                f"other profiles fit the table equally well; ask for fewer than {F} classes or add columns.",
            )
            return
    examiner.doubt("caution", f"{short}); ask for fewer classes or add columns.")


def _examine_residuals(examiner: Examiner, table: Table, mixture: Mixture, evidence: CellPairs) -> None:
    """Columns that depend on one another although the class is known: by much, and not by chance."""
    N = len(evidence.columns)
    level = THRESHOLDS.dependence_level / max(N * (N - 1) / 2, 1)
    values = residual_dependence(evidence.counts, expected_pairs(evidence, mixture), evidence.column_offsets, level)
    worst = float(values.max(initial=0.0))
    examiner.quantities["residual_dependence"] = worst
    if worst > THRESHOLDS.dependent:
        at = np.unravel_index(int(np.argmax(np.triu(values))), values.shape)  # in the order of the columns
        left, right = (table.columns[int(evidence.columns[n])].name for n in at)
        examiner.doubt(
            "caution",
            f"Columns {left!r} and {right!r} depend on each other beyond what the classes explain (V = {worst:.2f}); "
            "leave one of them out, or ask for more classes.",
        )


def _examine_equal(examiner: Examiner, table: Table, evidence: CellPairs) -> None:
    """Columns that repeat another one: classes along their categories explain them, and nothing is left to be seen."""
    pairs = np.argwhere(
        np.triu(one_to_one(evidence.counts, evidence.column_offsets, THRESHOLDS.min_rows, THRESHOLDS.min_other))
    )
    names = [[str(table.columns[int(evidence.columns[n])].name) for n in pair] for pair in pairs]
    examiner.quantities["equal_columns"] = names
    if names:
        examiner.doubt(
            "caution",
            f"Columns {names[0][0]!r} and {names[0][1]!r} say the same in every row, so that classes may be no more "
            "than their categories; leave one of them out.",
        )


def _examine_classes(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    """Duplicate classes, and whether the least needed class gains more than chance gives."""
    closest = float(class_distances(mixture).min())
    if closest < THRESHOLDS.same:
        examiner.doubt(
            "not identifiable",
            f"Two classes have the same profile (no column tells them apart by more than {closest:.3f}); ask for fewer "
            "classes.",
        )
    gain = least_gain(table, mixture)
    examiner.quantities |= {
        "closest_classes": closest,
        "least_gain": gain.nats,
        "gain_by_chance": gain.by_chance,
        "gain_rows": gain.n_rows,
    }
    if not gain.significant:
        examiner.doubt(
            "caution",
            f"Two classes can be merged for {max(gain.nats, 0.0):.1f} nats on {gain.n_rows:.0f} rows, and "
            f"{gain.by_chance:.1f} are gained by chance alone: the data do not show {mixture.n_classes} classes; ask "
            "for fewer.",
        )


def _examine_halves(examiner: Examiner, table: Table, mixture: Mixture, needed: float) -> None:
    halves = compare_halves(table, mixture.n_classes, THRESHOLDS.agreement)
    sampled = halves.n_rows < (1 - 1e-6) * table.total_weight  # proportions of weights are rounded
    judged = not sampled or mixture.weights.min() * halves.n_rows / 2 >= needed  # else the sample is to blame
    examiner.quantities |= {
        "split_half_agreement": halves.agreement if judged else None,
        "split_half_rows": halves.n_rows,
    }
    if judged and halves.agreement < THRESHOLDS.agreement:
        examiner.doubt(
            "caution",
            f"Models of two halves of {halves.n_rows:.0f} rows put only {halves.agreement:.0%} of the rows in the same "
            "class; ask for fewer classes or bring more rows.",
        )


def _add_theorems(examiner: Examiner, table: Table, mixture: Mixture, evidence: CellPairs) -> None:
    """What the theorems say; Theorem 2 is asked about the initialisation of the paper, CNMF-SPA, whichever EM used.

    Columns may have different proportions of missing values, and bounds must hold for all of them: p is that of the
    pair, or column, that is seen least.
    """
    n_rows, F = table.total_weight, mixture.n_classes
    rarest = float(np.add.reduceat(table.singles(), table.column_offsets[:-1]).min()) / max(n_rows, 1e-300)
    proportions = theorems.pair_observation_rates(evidence.co_observed, evidence.n_rows)
    apart = ~np.eye(len(evidence.columns), dtype=bool)
    examiner.quantities |= {
        "proposition_1": theorems.noise_bound(n_rows, float(proportions[apart].min(initial=1.0))),
        "theorem_1": None,
        "theorem_2": theorems.theorem_2(mixture, n_rows, rarest),
        "start": None,
    }
    if len(evidence.columns) < 2:
        return
    part, split = _restricted(mixture, evidence), theorems.widest_split(np.diff(evidence.column_offsets), F)
    frequencies = pair_frequencies(evidence.counts, evidence.column_offsets)
    seldom = float(proportions[np.ix_(split, ~split)].min())  # the pairs that CNMF-SPA is made from
    examiner.quantities["theorem_1"] = theorems.theorem_1(part, frequencies, n_rows, seldom)
    if F > 1 and evidence.column_offsets[-1] <= SPA_CELLS:
        cells = np.repeat(split, np.diff(evidence.column_offsets))
        if frequencies[np.ix_(cells, ~cells)].any():
            init = factor_spa(frequencies, evidence.column_offsets, F, split, exact=False)
            basin = theorems.theorem_2(part, n_rows, rarest)
            examiner.quantities["start"] = theorems.init_in_basin(init, part, basin)


def _restricted(mixture: Mixture, evidence: CellPairs) -> Mixture:
    """The mixture of the columns whose pairs were counted."""
    if len(evidence.columns) == mixture.n_columns:
        return mixture
    ranges = [np.arange(mixture.column_offsets[n], mixture.column_offsets[n + 1]) for n in evidence.columns]
    return Mixture(mixture.weights, mixture.table[np.concatenate(ranges)], evidence.column_offsets)
