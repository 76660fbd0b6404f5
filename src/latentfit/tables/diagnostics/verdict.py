"""Can the classes of this table be relied on? The verdict on latent classes, with the numbers behind it.

`not identifiable` when the table fits a whole family of answers: fewer than three columns that depend on one
another, too few categories for so many classes, columns in parts that no row shows together, classes that are one
class twice. `caution` when the answer rests on something thin (classes with few rows, a class whose gain is what chance
alone gives, halves or seeds that disagree, EM cut short), when another explanation is at least as good (a
continuous trait, two columns that measure the same thing, a code for "not asked", repeated rows), or when no structure
was found. The rules and how often they err: docs/guide/tables/verdict.md.

The joint-distribution paper's theorems are reported, never judged by: their constants ask for more than any table has.
Cost is bounded: what is not linear in the rows works on rows and columns chosen by hash, and says on how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
from latentfit.core.verdict import Examination, Examiner, Expectation, FitReport
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.tables import theory as theorems
from latentfit.tables.diagnostics.classes import (
    can_rank,
    class_distances,
    compare_halves,
    compare_refits,
    generic_rank,
    jacobian_rank,
    kruskal_count,
    least_gain,
    n_free,
)
from latentfit.tables.diagnostics.item_response import best_trait
from latentfit.tables.diagnostics.local_dependence import best_rival, class_path
from latentfit.tables.diagnostics.pairs import (
    CellPairs,
    connected_parts,
    count_evidence,
    dependence_p_values,
    determined_categories,
    expected_pairs,
    one_to_one,
    residual_dependence,
)
from latentfit.tables.diagnostics.rows import most_absent_row, repeated_rows, rows_per_category


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
    # Nats below the fit within which another optimum explains the rows nearly as well: odds of 20 to 1.
    near_optimum: float = 3.0
    # BIC by which another model must be better: very strong evidence on the scale of Kass & Raftery (1995).
    strong_evidence: float = 10.0
    exceptions: float = 0.01  # Proportion of the rows that may break the rule of a code for "not asked".
    repeated: float = 0.05  # Proportion of the rare rows that may repeat another one, beyond what the model expects.
    absent: float = 0.05  # Proportion of its expected number below which a row is lacking, and
    absent_level: float = 1e-4  # the probability of so few.
    rows_per_category_of_id: float = 3.0  # Rows per category below which a column names rows.


THRESHOLDS = Thresholds()

NUMBER_CHECKS = frozenset({
    "structure_found", "informative_columns", "co_observed_columns", "identifiable_parameters", "distinct_classes",
    "class_gain", "more_classes", "continuous_trait", "local_dependence", "search_limit", "not_asked_codes",
    "identifier_columns",
})  # fmt: skip
"""Checks whose failure means that the data do not show the number of classes that was fitted."""


def number_is_shown(report: FitReport) -> bool:
    """Whether no check rejects the number of classes."""
    return not any(check.name in NUMBER_CHECKS and not check.passed for check in report.checks)


def examine_table(
    table: Table, mixture: Mixture, *, converged: bool, replication: Replication | None = None,
    selection: Mapping[str, Any] | None = None,
) -> Examination:  # fmt: skip
    """Diagnose a fitted table; `selection` is the curve behind the number of classes, if it was chosen."""
    examiner = Examiner()
    several = mixture.n_classes > 1
    with one_blas_thread():
        examiner.check_size(table.total_weight, "rows")
        needed = _examine_sizes(examiner, table, mixture)
        _examine_rows(examiner, table, mixture)
        evidence = count_evidence(table, mixture.n_classes)
        examiner.quantities |= {"pairs_columns": len(evidence.columns), "pairs_rows": evidence.n_rows}
        counted = len(evidence.columns) >= min(3, table.n_columns)
        if counted or several:
            n_cells = int(table.column_offsets[-1])
            examiner.check(
                "countable_pairs", "Pairs of columns can be counted", counted,
                f"The columns have too many categories ({n_cells}) for their pairs to be looked at, so nothing is "
                "known of dependence inside the classes; merge rare categories, or leave columns out (--drop).",
                value=len(evidence.columns), limit=min(3, table.n_columns),
            )  # fmt: skip
        if counted:
            informative = _examine_columns(examiner, table, mixture, evidence)
            _examine_co_observation(examiner, mixture, evidence, informative)
            _examine_count(examiner, mixture, evidence.columns[informative])
            _examine_residuals(examiner, table, mixture, evidence)
            if several:
                _examine_equal(examiner, table, evidence)
            _examine_codes(examiner, table, evidence)
        if several:
            _examine_classes(examiner, table, mixture)
            _examine_halves(examiner, table, mixture, needed)
        more_classes = _examine_refits(examiner, table, mixture)
        if several:
            _examine_rivals(examiner, table, mixture, more_classes)
        _add_theorems(examiner, table, mixture, evidence)
        examiner.expected = expected_misclassification(table, mixture)
    if replication is not None and several:
        _examine_replication(examiner, replication)
    if selection is not None:
        _examine_selection(examiner, mixture, selection)
    examiner.check_converged(converged)
    return examiner.conclude()


def unexamined(n_rows: float) -> Examination:
    """The verdict on a fit whose rows are not at hand: nothing was looked at, and it says so."""
    examiner = Examiner()
    examiner.quantities["n_rows"] = n_rows
    examiner.check(
        "rows_at_hand", "All rows could be examined", False,
        f"No check has seen all of the {n_rows:.0f} rows, since the earlier ones are not kept; fit all rows at once "
        "for a verdict.",
    )  # fmt: skip
    return examiner.conclude()


def expected_misclassification(table: Table, mixture: Mixture) -> Expectation:
    """What the model expects: the mean of one minus the largest posterior."""
    uncertainty = 1 - posterior_of(MemoryEngine(table, 1), mixture)[0].max(axis=1)
    value = float(np.average(uncertainty, weights=table.each_weight()))
    if mixture.n_classes == 1:
        return Expectation("misclassified rows", 0.0, sentence="With one class no row can be in the wrong one.")
    return Expectation(
        "misclassified rows", value,
        sentence=f"If the model holds, {value:.1%} of the rows are expected to be in the wrong class.",
    )  # fmt: skip


def _examine_replication(examiner: Examiner, replication: Replication) -> None:
    """Whether initialisations agree on where the best objective is."""
    second = next((value for value in replication.objectives if value < replication.objectives[0] - REACHED), None)
    below = None if second is None else replication.objectives[0] - second
    examiner.quantities |= {
        "n_init": replication.n_init,
        "n_final_runs": replication.n_final,
        "n_reached_best": replication.n_reached,
        "next_best_below": below,
    }
    examiner.check(
        "replicated_optimum", "Several EM runs reached the best log-likelihood",
        not (replication.alone and below is not None),
        f"Only one of {replication.n_final} EM runs carried to the end reached the best log-likelihood (2 are needed), "
        f"and the next one ended {below or 0.0:.2f} nats below: it may be a local optimum; raise n_init (--n-init), or "
        "ask for fewer classes (--components).",
        value=replication.n_reached, limit=2 if replication.n_final > 1 else 1,
    )  # fmt: skip


def _examine_selection(examiner: Examiner, mixture: Mixture, selection: Mapping[str, Any]) -> None:
    """A number of classes that was chosen: is it more than one, and is it short of the end of the search?"""
    F, tried = mixture.n_classes, max(selection["n_components"])
    examiner.check(
        "structure_found", "Classes were found", F > 1,
        "No structure was found: one class predicts hidden cells as well as two (2 are needed at least), so the columns"
        " may be independent, or there are too few rows to see more; bring more rows or columns, or ask for a number "
        "of classes (--components).",
        value=F, limit=2,
    )  # fmt: skip
    examiner.check(
        "search_limit", "The best number of classes lies inside the range searched", tried > F or tried <= 2,
        f"The number of classes chosen, {F}, is the largest that was tried, so that more might fit better still; the "
        "table may have no distinct classes: ask for a number of your own (--components), or use the fit for "
        "prediction and imputation only.",
        value=F, limit=tried,
    )  # fmt: skip


def _examine_sizes(examiner: Examiner, table: Table, mixture: Mixture) -> float:
    """Rows every class and every column of it rests on; returns the rows per class needed."""
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
    examiner.check(
        "rows_with_three_cells", "Rows that show three columns", informative_rows >= 1 or table.n_columns <= 2,
        f"{informative_rows:.0f} rows show three columns, and classes need rows that do (at least 1); fill some "
        "missing values, or leave columns out (--drop).",
        value=informative_rows, limit=1, level="not identifiable",
    )  # fmt: skip
    worst = int(np.argmin(rows))
    enough = examiner.check(
        "rows_per_class", "Rows of the smallest class", rows[worst] >= needed,
        f"Class {worst} rests on about {rows[worst]:.0f} rows, fewer than the {needed:.0f} its profile needs; ask "
        "for fewer classes (--components) or bring more rows.",
        value=rows[worst], limit=needed,
    )  # fmt: skip
    if enough:
        examiner.check(
            "cells_per_class", "Columns that show the smallest class often enough",
            thin.mean() <= THRESHOLDS.thin_columns,
            f"{int(thin.sum())} of {table.n_columns} columns (at most {THRESHOLDS.thin_columns:.0%}) have so many "
            "missing values that the smallest class shows them too seldom for a profile; ask for fewer classes "
            "(--components), or leave them out (--drop).",
            value=thin.mean(), limit=THRESHOLDS.thin_columns,
        )  # fmt: skip
    return needed


def rows_needed(counts: Floats, seen: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Rows a class should have for each column (N,): ten per effective category, e to the entropy."""
    proportion = counts / np.repeat(np.maximum(seen, 1e-300), np.diff(offsets))
    entropy = -np.add.reduceat(proportion * np.log(np.maximum(proportion, 1e-300)), offsets[:-1])
    return np.asarray(np.maximum(THRESHOLDS.min_rows, THRESHOLDS.rows_per_category * np.exp(entropy)))


def _examine_rows(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    """Rows that were repeated or removed, and columns that name rows."""
    per_category = rows_per_category(table)
    worst = int(np.argmin(per_category))
    least = float(per_category[worst])
    examiner.check(
        "identifier_columns", "Rows per category of the column with most categories",
        least >= THRESHOLDS.rows_per_category_of_id,
        f"Column {table.columns[worst].name!r} has a category for every {least:.1f} rows (at least "
        f"{THRESHOLDS.rows_per_category_of_id:.0f} are needed): it looks like an id that names rows, and says nothing "
        "about classes; name it with --id, or leave it out (--drop).",
        value=least if np.isfinite(least) else None, limit=THRESHOLDS.rows_per_category_of_id,
    )  # fmt: skip
    found = repeated_rows(table, mixture)
    examiner.quantities |= {
        "rare_rows": found.n_rare, "rare_rows_repeated": found.n_repeated, "rare_rows_repeated_expected": found.expected
    }  # fmt: skip
    if found.divisor > 1:
        what = f"Every different row occurs {found.divisor} times or a multiple of that (1 is the limit)"
    else:
        what = (
            f"{found.n_repeated} of {found.n_rare} rows that the model expects less than once repeat another row, "
            f"{found.excess:.0%} more than expected (limit {THRESHOLDS.repeated:.0%})"
        )
    many = found.n_repeated >= THRESHOLDS.min_other and found.excess > THRESHOLDS.repeated
    examiner.check(
        "duplicated_rows", "Repeated rows", found.divisor == 1 and not many,
        f"{what}: rows seem to be duplicated, and count as evidence that they are not; remove the duplicates, or give "
        "weights that count people (--weights).",
        value=found.divisor if found.divisor > 1 else found.excess,
        limit=1 if found.divisor > 1 else THRESHOLDS.repeated,
    )  # fmt: skip
    absent = most_absent_row(table, mixture)
    if absent is not None:
        lacking = absent.observed <= THRESHOLDS.absent * absent.expected and absent.p_value < THRESHOLDS.absent_level
        named = [
            f"{column.name}={column.categories[code]}"
            for column, code in zip(table.columns, absent.codes, strict=True)
            if code >= 0
        ]
        names, more = ", ".join(named[:4]), "" if len(named) <= 4 else ", …"
        examiner.check(
            "absent_rows", "The most probable rows occur", not lacking,
            f"The row {names}{more} occurs {absent.observed:.0f} times where {absent.expected:.0f} are expected "
            f"(limit {THRESHOLDS.absent:.0%} of them): such rows seem to have been removed, which biases every "
            "proportion and can make classes; add the rows that were left out.",
            value=absent.observed / absent.expected, limit=THRESHOLDS.absent, p_value=absent.p_value,
        )  # fmt: skip


def _examine_columns(examiner: Examiner, table: Table, mixture: Mixture, evidence: CellPairs) -> NDArray[np.bool_]:
    """Which of the columns looked at depend on any other; classes need three of them."""
    probability = dependence_p_values(evidence.counts, evidence.column_offsets)
    informative = probability < THRESHOLDS.dependence_level / max(len(probability), 1)
    examiner.quantities |= {
        "uninformative_columns": [table.columns[n].name for n in evidence.columns[~informative]],
        "dependence_p_values": probability.tolist(),
    }
    if mixture.n_classes > 1:
        examiner.check(
            "informative_columns", "Columns that depend on any other", informative.sum() >= 3,
            f"{int(informative.sum())} of {len(informative)} columns depend on any other, and {mixture.n_classes} "
            "classes need at least three such columns; add columns or rows, or ask for one class (--components 1).",
            value=informative.sum(), limit=3, level="not identifiable",
        )  # fmt: skip
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
    if mixture.n_classes > 1:
        examiner.check(
            "co_observed_columns", "Columns are observed together", n_parts <= 1,
            f"The columns fall into {n_parts} parts (1 is needed) that fewer than {THRESHOLDS.min_rows:.0f} rows show "
            "together, so nothing tells which class of one is which of another; add rows that show both, or fit the "
            "parts alone (--columns).",
            value=n_parts, limit=1, level="not identifiable",
        )  # fmt: skip


def _examine_count(examiner: Examiner, mixture: Mixture, columns: NDArray[np.intp]) -> None:
    """Identifiability of so many classes from the columns that depend on one another.

    Kruskal's count (Allman, Matias & Rhodes 2009), three groups of columns with Σ min(r, F) ≥ 2F + 2, is enough; short
    of it the rank of the Jacobian decides, generically and at the fit.
    """
    F, sizes = mixture.n_classes, np.diff(mixture.column_offsets)[columns]
    reached = kruskal_count(sizes, F)
    examiner.quantities |= {"kruskal_count": reached, "kruskal_needed": 2 * F + 2}
    if F < 2:
        return
    name, title = "identifiable_parameters", "Categories and parameters"
    remedy = "ask for fewer classes (--components) or add columns."
    short = (
        f"The {len(sizes)} columns that depend on one another carry too few categories to determine {F} "
        f"classes (Kruskal's count is {reached}, {2 * F + 2} are needed); {remedy}"
    )
    if reached < 2 * F + 2 and np.log(F * (1 + int((sizes - 1).sum()))) > float(np.log(sizes).sum()):
        examiner.check(name, title, False, short, value=reached, limit=2 * F + 2, level="not identifiable")
        return
    if reached < 2 * F + 2 and can_rank(sizes.tolist(), F):
        free = n_free(sizes.tolist(), F)
        profiles = [mixture.table[mixture.column_offsets[n] : mixture.column_offsets[n + 1]].T for n in columns]
        ranks = generic_rank(sizes.tolist(), F), jacobian_rank(mixture.weights, profiles)
        examiner.quantities |= {"free_parameters": free, "generic_rank": ranks[0], "rank_at_the_fit": ranks[1]}
        if min(ranks) < free:
            everywhere = "" if ranks[0] < free else " at this fit"
            examiner.check(
                name, title, False,
                f"The Jacobian of the model has rank {min(ranks)}{everywhere}, but there are {free} free parameters: "
                f"other profiles fit the table equally well; ask for fewer than {F} classes (--components) or add "
                "columns.",
                value=min(ranks), limit=free, level="not identifiable" if ranks[0] < free else "caution",
            )  # fmt: skip
            return
    examiner.check(name, title, reached >= 2 * F + 2, short, value=reached, limit=2 * F + 2)


def _examine_residuals(examiner: Examiner, table: Table, mixture: Mixture, evidence: CellPairs) -> None:
    """Columns that depend on one another although the class is known: by much, and not by chance."""
    N = len(evidence.columns)
    level = THRESHOLDS.dependence_level / max(N * (N - 1) / 2, 1)
    values = residual_dependence(evidence.counts, expected_pairs(evidence, mixture), evidence.column_offsets, level)
    worst = float(values.max(initial=0.0))
    examiner.quantities["residual_dependence"] = worst
    at = np.unravel_index(int(np.argmax(np.triu(values))), values.shape) if N > 1 else (0, 0)
    left, right = (table.columns[int(evidence.columns[n])].name for n in at)
    examiner.check(
        "residual_dependence", "Dependence of two columns inside the classes (Cramér's V)",
        worst <= THRESHOLDS.dependent,
        f"Columns {left!r} and {right!r} depend on each other beyond what the classes explain (V = {worst:.2f}, limit "
        f"{THRESHOLDS.dependent:g}), so columns are not independent inside the classes; leave one of them out "
        "(--drop), or ask for more classes (--components).",
        value=worst, limit=THRESHOLDS.dependent,
    )  # fmt: skip


def _examine_equal(examiner: Examiner, table: Table, evidence: CellPairs) -> None:
    """Columns that repeat another one: classes along their categories explain them, and nothing is left to be seen."""
    pairs = np.argwhere(
        np.triu(one_to_one(evidence.counts, evidence.column_offsets, THRESHOLDS.min_rows, THRESHOLDS.min_other))
    )
    names = [[str(table.columns[int(evidence.columns[n])].name) for n in pair] for pair in pairs]
    examiner.quantities["equal_columns"] = names
    first = names[0] if names else ["", ""]
    examiner.check(
        "equal_columns", "Pairs of columns that say the same", not names,
        f"Columns {first[0]!r} and {first[1]!r} say the same in every row ({len(names)} such pairs, 0 are allowed), so "
        "that classes may be no more than their categories; leave one of them out (--drop).",
        value=len(names), limit=0,
    )  # fmt: skip


def _examine_codes(examiner: Examiner, table: Table, evidence: CellPairs) -> None:
    """Categories that another column decides: codes for questions that were not asked."""
    offsets = evidence.column_offsets
    found = determined_categories(evidence.counts, offsets, THRESHOLDS.min_rows, THRESHOLDS.exceptions)
    cells = sorted({one.cell for one in found})
    named = [
        (table.columns[int(evidence.columns[n])], cell - int(offsets[n]))
        for cell in cells
        for n in [int(np.searchsorted(offsets, cell, side="right")) - 1]
    ]
    examiner.quantities["determined_categories"] = [
        f"{column.name}={column.categories[code]}" for column, code in named
    ]
    reason = ""
    if found:
        column, code = named[0]
        other = table.columns[int(evidence.columns[found[0].column])].name
        value, with_codes = str(column.categories[code]), {id(one) for one, _ in named}
        elsewhere = any(value in map(str, one.categories) for one in table.columns if id(one) not in with_codes)
        # --missing works on every column: an answer of another column must not be lost
        suggestion = (
            "leave these cells empty in the file" if elsewhere else f"declare it as missing (--missing {value})"
        )
        reason = (
            f"Category {str(column.categories[code])!r} of column {column.name!r} is decided by column {other!r} in "
            f"{1 - THRESHOLDS.exceptions:.0%} or more of the rows ({found[0].n_rows:.0f} rows have it; {len(cells)} "
            "such categories, 0 are allowed): a code for a question that was not asked counts as an answer and makes "
            f"classes of its own; {suggestion}, or leave the column out (--drop)."
        )
    examiner.check(
        "not_asked_codes", "Categories that another column decides", not found, reason, value=len(cells), limit=0
    )


def _examine_classes(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    """Duplicate classes, and whether the least needed class gains more than chance gives."""
    closest = float(class_distances(mixture).min())
    examiner.check(
        "distinct_classes", "Largest difference between the two most similar classes", closest >= THRESHOLDS.same,
        f"Two classes have the same profile (no column tells them apart by more than {closest:.3f}, {THRESHOLDS.same} "
        "is needed), so they may be one; ask for fewer classes (--components).",
        value=closest, limit=THRESHOLDS.same, level="not identifiable",
    )  # fmt: skip
    gain = least_gain(table, mixture)
    examiner.quantities |= {
        "closest_classes": closest,
        "least_gain": gain.nats,
        "gain_by_chance": gain.by_chance,
        "gain_rows": gain.n_rows,
    }
    examiner.check(
        "class_gain", "Log-likelihood gained by the least needed class", gain.significant,
        f"Merging the two closest classes costs {max(gain.nats, 0.0):.1f} log-likelihood units on {gain.n_rows:.0f} "
        f"rows, and a spurious class gains about {gain.by_chance:.1f} by chance: the data do not show "
        f"{mixture.n_classes} classes; ask for fewer (--components).",
        value=gain.nats, limit=gain.by_chance,
    )  # fmt: skip


def _examine_halves(examiner: Examiner, table: Table, mixture: Mixture, needed: float) -> None:
    halves = compare_halves(table, mixture.n_classes, THRESHOLDS.agreement)
    sampled = halves.n_rows < (1 - 1e-6) * table.total_weight  # proportions of weights are rounded
    judged = not sampled or mixture.weights.min() * halves.n_rows / 2 >= needed  # else the sample is to blame
    examiner.quantities |= {
        "split_half_agreement": halves.agreement if judged else None,
        "split_half_rows": halves.n_rows,
    }
    if judged:
        examiner.check(
            "split_half_agreement", "Rows that models of two halves put in the same class",
            halves.agreement >= THRESHOLDS.agreement,
            f"Models of two halves of {halves.n_rows:.0f} rows put only {halves.agreement:.0%} of the rows in the same "
            f"class (limit {THRESHOLDS.agreement:.0%}), so other rows would give other classes; ask for fewer classes "
            "(--components) or bring more rows.",
            value=halves.agreement, limit=THRESHOLDS.agreement,
        )  # fmt: skip


def _examine_rivals(examiner: Examiner, table: Table, mixture: Mixture, more_classes: float) -> None:
    """Models that explain the rows without these classes: a continuous trait, columns that measure the same thing.

    `more_classes` is the BIC of one class more less that of the fit.
    """
    strong = THRESHOLDS.strong_evidence
    path = class_path(table, mixture)
    trait = best_trait(path.rows, path.mixtures[0], path.best)
    examiner.quantities |= {
        "trait_dimensions": trait.n_dimensions, "trait_bic_difference": trait.bic_difference,
        "ordered_classes": trait.ordered,
    }  # fmt: skip
    what = "One continuous trait explains" if trait.n_dimensions == 1 else "Two continuous traits explain"
    ordered = ""
    if trait.n_dimensions == 1 and trait.ordered == 1:
        ordered = "The classes are ordered on every item: one continuous trait would give the same profiles. "
    examiner.check(
        "continuous_trait", "BIC of an item-response model less that of the classes", trait.bic_difference >= -strong,
        f"{ordered}{what} the table better than {mixture.n_classes} classes (an item-response model has a BIC lower by "
        f"{-trait.bic_difference:.0f}, limit {strong:.0f}), so the classes may be steps of a scale and no groups; read "
        "them as levels, or use the fit for prediction and imputation only.",
        value=trait.bic_difference, limit=-strong,
    )  # fmt: skip
    rival = best_rival(path)
    difference = 0.0 if rival is None else rival.bic_difference
    if rival is not None and rival.n_classes == mixture.n_classes and more_classes < difference:
        difference = 0.0  # one class more explains the dependence better than the two columns do
    examiner.quantities["local_dependence_bic_difference"] = None if rival is None else difference
    names = [(table.columns[left].name, table.columns[right].name) for left, right in (rival.pairs if rival else [])]
    pairs = " and ".join(f"{left!r} with {right!r}" for left, right in names)
    n_classes = mixture.n_classes if rival is None else rival.n_classes
    classes = "1 class" if n_classes == 1 else f"{n_classes} classes"
    examiner.check(
        "local_dependence", "BIC of a model in which two columns depend on each other directly, less that of the fit",
        difference >= -strong,
        f"Columns measure the same thing ({pairs}): {classes} in which they depend on each other directly explain the "
        f"table better than {mixture.n_classes} classes (BIC lower by {-difference:.0f}, limit {strong:.0f}), so "
        "classes may be made by that dependence alone; leave one of them out (--drop).",
        value=difference, limit=-strong,
    )  # fmt: skip


def _examine_refits(examiner: Examiner, table: Table, mixture: Mixture) -> float:
    """Fits of the same rows from another seed, and with one class more; returns the BIC of that less the fit's."""
    found = compare_refits(table, mixture)
    examiner.quantities |= {
        "seed_agreement": found.agreement, "seed_shortfall": found.shortfall, "next_class_gain": found.gain,
        "next_class_by_chance": found.by_chance, "refit_rows": found.n_rows,
    }  # fmt: skip
    if mixture.n_classes > 1:
        near = found.shortfall < THRESHOLDS.near_optimum
        side = "above" if found.shortfall < 0 else "below"
        examiner.check(
            "seed_agreement", "Rows that a fit from another seed puts in the same class",
            found.agreement >= THRESHOLDS.agreement or not near,
            f"A fit from another seed puts only {found.agreement:.0%} of the rows in the same class (limit "
            f"{THRESHOLDS.agreement:.0%}), and its log-likelihood is {abs(found.shortfall):.1f} units {side}: "
            "different classes explain the table equally well; raise n_init (--n-init), or ask for fewer classes "
            "(--components).",
            value=found.agreement, limit=THRESHOLDS.agreement,
        )  # fmt: skip
    examiner.check(
        "more_classes", "Log-likelihood gained by one class more", found.gain <= found.by_chance,
        f"One class more gains {found.gain:.1f} log-likelihood units on {found.n_rows:.0f} rows, and a spurious class "
        f"gains about {found.by_chance:.1f} by chance: there are more classes than {mixture.n_classes}, or columns "
        "depend on each other inside the classes, so that structure is left unexplained; ask for more (--components "
        f"{mixture.n_classes + 1}), or read the classes as a summary.",
        value=found.gain, limit=found.by_chance,
    )  # fmt: skip
    d = count_parameters(mixture.column_offsets, mixture.n_classes + 1) - count_parameters(
        mixture.column_offsets, mixture.n_classes
    )
    return -2 * found.gain + d * float(np.log(max(found.n_rows, 2.0)))


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
