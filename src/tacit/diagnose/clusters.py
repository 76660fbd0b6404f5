"""Can the clusters of yes/no rows be trusted? The verdict, with the numbers behind it.

`not identifiable` when too few columns vary to tell K clusters apart. `caution` when fewer than 2⌈log₂ K⌉ + 1 do, which
are known to be enough, when a cluster rests on few rows, when its purity test flags it, when too many of its rows may
belong elsewhere, when the numbers of clusters that evidence and usefulness ask for lie far apart, or when EM was cut
short.

Paper     Allman, Matias & Rhodes 2009 (generic identifiability)
Needs     fitted clusters, their purity certificates and path
Promises  what the certificates promise (`diagnose/purity.py`)
Differs   they prove that so many columns are enough for almost all parameters; fewer are doubted, not refused

Symbols   here      shape     meaning
          table     (n, L)    without columns set aside
          mixture             the fitted clusters
"""

from __future__ import annotations

import numpy as np

from tacit.data.table import Table
from tacit.diagnose.cluster_theorems import has_room, least_columns, separable_delta
from tacit.diagnose.purity import PurityTable
from tacit.diagnose.report import Examination, Examiner
from tacit.engine.mixture import Mixture
from tacit.refine.choose_clusters import PathNumbers

LEAST_ROWS = 30.0
"""Rows a cluster should have: with fewer a frequency of one half is known to no better than ± 18 points."""
IMPURE = 0.2
"""Share of a cluster's rows that may belong elsewhere before it is said."""


def examine_clusters(
    table: Table, mixture: Mixture, numbers: PathNumbers, purity: PurityTable, *, n_varying: int, converged: bool,
    n_rows: float | None = None,
) -> Examination:  # fmt: skip
    """Diagnose clusters fitted to `n_rows` rows: the table's, unless it is a sample. No columns that were set aside."""
    examiner = Examiner()
    n_rows = table.total_weight if n_rows is None else n_rows
    K, rows = mixture.n_classes, mixture.weights * n_rows
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
    }
    examiner.doubt_few(n_rows, "rows")
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
    small = np.flatnonzero(rows < LEAST_ROWS)
    if K > 1 and len(small):
        examiner.doubt(
            "caution",
            f"Cluster {small[-1]} rests on about {rows[small[-1]]:.0f} rows, fewer than {LEAST_ROWS:.0f}; ask for "
            "fewer clusters or bring more rows.",
        )
    _examine_purity(examiner, purity)
    if numbers.differ:
        examiner.doubt(
            "caution",
            f"The evidence asks for {numbers.chosen['statistical']} clusters, the first large steps end at "
            f"{numbers.chosen['practical']}: clusters of this table are not quite pure, and no number is right.",
        )
    examiner.doubt_stopped(converged)
    return examiner.conclude()


def _examine_purity(examiner: Examiner, purity: PurityTable) -> None:
    for k in np.flatnonzero(purity.flagged)[:3].tolist():
        pair = " and ".join(repr(name) for name in purity.suspect_pair[k])
        named = f" (look at {pair})" if pair else ""
        examiner.doubt(
            "caution",
            f"The columns of cluster {k} depend on one another{named}: it is not pure; ask for more clusters.",
        )
    mixed = np.flatnonzero(np.asarray(purity.impurity) > IMPURE)
    if len(mixed):
        worst = int(mixed[np.argmax(np.asarray(purity.impurity)[mixed])])
        examiner.doubt(
            "caution",
            f"About {purity.impurity[worst]:.0%} of the rows in cluster {worst} may belong to another one: the "
            "clusters overlap, and rows near their borders cannot be told apart.",
        )
