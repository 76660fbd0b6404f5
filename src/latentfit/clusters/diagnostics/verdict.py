"""Can the clusters of yes/no rows be trusted? The verdict, with the numbers behind it.

`not identifiable` when too few columns vary to tell K clusters apart. `caution` when fewer than 2⌈log₂ K⌉ + 1 do, which
are known to be enough, when a cluster rests on few rows, when its purity test flags it, when too many of its rows may
belong elsewhere, when the numbers of clusters that evidence and usefulness ask for lie far apart, when the path ended
at its limit, when columns depend on another one inside clusters or many were set aside as near-duplicates, when rows of
zeros alone are missing that should be there, or when EM was cut short.

Paper     Allman, Matias & Rhodes 2009 (generic identifiability)
Needs     fitted clusters, their purity certificates and path
Promises  what the certificates promise (`clusters/diagnostics/purity.py`)
Differs   they prove that so many columns are enough for almost all parameters; fewer give a caution, not an error

Symbols   here      shape     meaning
          table     (n, L)    without columns set aside
          mixture             the fitted clusters
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.clusters.diagnostics.purity import PurityTable
from latentfit.clusters.em import BlankRows, TruncatedSteps, recorded_weights, unseen_fraction
from latentfit.clusters.select.criteria import PathNumbers, size_penalty, statistical_penalty
from latentfit.clusters.select.path import varying_columns
from latentfit.clusters.theory import has_room, least_columns, separable_delta
from latentfit.core.em import em
from latentfit.core.mixture.em import plain_steps
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.table.table import Table
from latentfit.core.verdict import Examination, Examiner
from latentfit.engine.memory import MemoryEngine


@dataclass(frozen=True)
class CheckSettings:
    """Limits of the checks, each with its reason."""

    min_rows: float = 30.0  # of a cluster: with fewer a frequency of one half is known to no better than ± 18 points
    impure: float = 0.2  # proportion of a cluster's rows that may belong elsewhere before it is reported
    many_aside: float = 0.1  # proportion of the columns that may be near-duplicates before it is reported
    min_two_ones: float = 10.0  # rows with two 1s that tell the number of unrecorded rows of zeros, to about a third
    min_zeros: float = 10.0  # rows of zeros expected before their absence is reported: chance once in 22,000 tables
    one_class_iter: int = 200  # EM iterations of the fit with one cluster to which rows of zeros are unknown


SETTINGS = CheckSettings()


@dataclass(frozen=True)
class Screening:
    """What was decided before the fit: pairs are (column, the one it depends on, correlation)."""

    duplicates: tuple[tuple[str, str, float], ...] = ()
    dependent: tuple[tuple[str, str, float], ...] = ()  # correlation inside clusters; the number knows the first not
    both: tuple[tuple[str, str, float], ...] = ()  # the same, and both took part in choosing the number
    reached: int = 0  # the limit of the path, where the number that was chosen is it; else 0
    limit: int = 0  # the limit of the path; 0: unknown, or the rows allowed no more


def examine_clusters(
    table: Table, mixture: Mixture, numbers: PathNumbers, purity: PurityTable, *, n_varying: int, converged: bool,
    n_rows: float | None = None, screening: Screening = Screening(), truncated: bool = False,
) -> Examination:  # fmt: skip
    """Diagnose clusters fitted to `n_rows` rows: the table's, unless it is a sample.

    `table` and `mixture` come without columns set aside; `truncated` as in the fit.
    """
    examiner = Examiner()
    n_rows = table.total_weight if n_rows is None else n_rows
    K, rows = mixture.n_classes, (recorded_weights(mixture) if truncated else mixture.weights) * n_rows
    frequencies = mixture.table[1::2].T
    examiner.quantities |= {
        "n_rows": n_rows,
        "n_columns": table.n_columns,
        "n_varying_columns": n_varying,
        "columns_needed": least_columns(K),
        "rows_per_cluster": rows.tolist(),
        "chosen": dict(numbers.chosen),
        "largest_gap_of_nearest_clusters": separable_delta(frequencies, 1) if K > 1 else None,
        "flagged_clusters": np.flatnonzero(purity.flagged).tolist(),
        "impurity": np.asarray(purity.impurity).tolist(),
        "near_duplicates": [list(pair) for pair in screening.duplicates],
        "local_dependence": [list(pair) for pair in screening.dependent + screening.both],
        "limit_reached": screening.reached > 0,
    }
    examiner.check_size(n_rows, "rows")
    if K > 1 and not has_room(n_varying, K):
        examiner.doubt(
            "not identifiable",
            f"{n_varying} columns vary, too few to tell {K} clusters apart ({least_columns(K)} are enough); add "
            "columns or ask for fewer clusters.",
        )
    elif K > 1 and n_varying < least_columns(K):
        examiner.doubt(
            "caution",
            f"{n_varying} columns vary, and only from {least_columns(K)} on {K} clusters are known to have one answer; "
            "add columns or ask for fewer clusters.",
        )
    small = np.flatnonzero(rows < SETTINGS.min_rows)
    if K > 1 and len(small):
        examiner.doubt(
            "caution",
            f"Cluster {small[-1]} rests on about {rows[small[-1]]:.0f} rows, fewer than {SETTINGS.min_rows:.0f}; ask "
            "for fewer clusters or bring more rows.",
        )
    _examine_purity(examiner, purity, screening)
    if numbers.differ:
        examiner.doubt(
            "caution",
            f"The evidence asks for {numbers.asked_for(screening.limit)} clusters, the first large steps end at "
            f"{numbers.chosen['practical']}: clusters of this table are not quite pure, and no number is right.",
        )
    if screening.reached:
        examiner.doubt(
            "caution",
            f"The search limit ({screening.reached}) was reached; raise max_components to look for more clusters.",
        )
    _examine_screening(examiner, screening, table.n_columns + len(screening.duplicates))
    if truncated:
        _examine_unseen(examiner, table, n_rows)
    else:
        _examine_zeros(examiner, table, mixture)
    examiner.check_converged(converged)
    return examiner.conclude()


def _examine_screening(examiner: Examiner, screening: Screening, n_columns: int) -> None:
    """Columns that were set aside, or left out of the choice of the number."""
    aside = len(screening.duplicates)
    if aside > max(SETTINGS.many_aside * n_columns, 1):
        examiner.doubt(
            "caution",
            f"{aside} of {n_columns} columns were set aside as near-duplicates of others, and the clusters rest on the "
            "rest; look at copies_, or give screen=False.",
        )
    for column, source, correlation in screening.dependent[:3]:
        examiner.doubt(
            "caution",
            f"{column!r} and {source!r} depend on each other inside the clusters (correlation {correlation:.2f}): the "
            f"number of clusters was chosen without {column!r}; give screen=False to count it.",
        )
    for column, source, correlation in screening.both[:1]:
        examiner.doubt(
            "caution",
            f"Two clusters differ in {column!r} and {source!r} alone, or nearly so (correlation {correlation:.2f}): "
            "they may be one cluster in which these two depend on each other; add columns or ask for fewer clusters.",
        )


def _examine_zeros(examiner: Examiner, table: Table, mixture: Mixture) -> None:
    """No row is all 0, and that such rows were never recorded explains the table better than its clusters do."""
    blank = ~(table.codes == 1).any(axis=1)
    alone = Mixture(np.ones(1), normalise_tables(table.singles()[:, None], table.column_offsets), table.column_offsets)
    expected = table.total_weight * _zero_probability(alone)
    if (table.present[blank].all(axis=1)).any() or expected <= SETTINGS.min_zeros:
        return
    steps = TruncatedSteps(plain_steps(table, 1), BlankRows.of(table))
    one = em(steps, alone, max_iter=SETTINGS.one_class_iter, tol=1e-7, accelerate=True)
    penalty = (mixture.n_classes - 1) * statistical_penalty(int(varying_columns(table).sum()))
    penalty += size_penalty(mixture.weights)
    examiner.quantities["zero_rows_expected"] = expected
    by_clusters = table.total_weight * _zero_probability(mixture)
    fitted = MemoryEngine(table, 1).sums(mixture).log_likelihood
    if by_clusters > SETTINGS.min_zeros or one.log_likelihood > fitted - penalty:
        examiner.doubt(
            "caution",
            f"No row is all 0, and independent columns would give {expected:.0f} such rows: if they were not recorded, "
            "columns seem to avoid one another and clusters are invented; fit with truncated=True (--truncated).",
        )


def _examine_unseen(examiner: Examiner, table: Table, n_rows: float) -> None:
    """Rows with two 1s tell how many rows were never recorded: m of them to about one part in √m."""
    twice = float(table.each_weight() @ ((table.codes == 1).sum(axis=1) >= 2)) * n_rows / table.total_weight
    examiner.quantities["rows_with_two_ones"] = twice
    if twice < SETTINGS.min_two_ones:
        examiner.doubt(
            "caution",
            f"{twice:.0f} of {n_rows:.0f} rows have two 1s or more, and they alone tell how many rows of zeros were "
            "never recorded: weights_, frequencies_ and n_unseen_ may be far off; give truncated=False or add columns.",
        )


def _zero_probability(mixture: Mixture) -> float:
    proportion = unseen_fraction(mixture)
    return proportion / (1 + proportion)


def _examine_purity(examiner: Examiner, purity: PurityTable, screening: Screening) -> None:
    known = [{column, source} for column, source, _ in screening.dependent + screening.both]
    for k in np.flatnonzero(purity.flagged)[:3].tolist():
        if {str(name) for name in purity.suspect_pair[k]} in known:
            continue  # said of the pair itself, and more clusters are no remedy
        pair = " and ".join(repr(name) for name in purity.suspect_pair[k])
        named = f" (look at {pair})" if pair else ""
        examiner.doubt(
            "caution",
            f"The columns of cluster {k} depend on one another{named}: it is not pure; ask for more clusters.",
        )
    mixed = np.flatnonzero(np.asarray(purity.impurity) > SETTINGS.impure)
    if len(mixed):
        worst = int(mixed[np.argmax(np.asarray(purity.impurity)[mixed])])
        examiner.doubt(
            "caution",
            f"About {purity.impurity[worst]:.0%} of the rows in cluster {worst} may belong to another one: the "
            "clusters overlap, and rows near their borders cannot be told apart.",
        )
