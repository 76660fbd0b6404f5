"""Can the classes of this table be trusted? The verdict on latent classes, with the numbers behind it."""

from __future__ import annotations

import numpy as np

from tacit.data.table import Table
from tacit.diagnose.report import Examination, Examiner
from tacit.engine.mixture import Floats, Mixture

LEAST_ROWS = 5.0
"""Rows a class should have for every category of its widest column."""
SAME = 0.02
"""Mean total variation between the profiles of two classes below which they are one class twice."""


def examine_table(table: Table, mixture: Mixture, *, converged: bool) -> Examination:
    """Diagnose a fitted table."""
    examiner = Examiner()
    rows = mixture.weights * table.total_weight
    gaps = profile_gaps(mixture)
    examiner.quantities |= {
        "n_rows": table.total_weight,
        "n_columns": table.n_columns,
        "share_missing": 1 - table.n_cells / max(table.total_weight * table.n_columns, 1),
        "rows_per_class": rows.tolist(),
        "closest_classes": float(gaps.min()) if gaps.size else None,
    }
    if mixture.n_classes > 1 and table.n_columns < 3:
        examiner.doubt(
            "not identifiable",
            f"{table.n_columns} columns cannot determine {mixture.n_classes} classes: at least three columns that "
            "depend on the class are needed; add columns or ask for one class.",
        )
    small = np.flatnonzero(rows < LEAST_ROWS * max(np.diff(table.first).max(), 1))
    if mixture.n_classes > 1 and len(small):
        examiner.doubt(
            "caution",
            f"Class {int(small[0])} rests on about {rows[small[0]]:.0f} rows, too few for its profile; ask for "
            "fewer classes or bring more rows.",
        )
    if gaps.size and gaps.min() < SAME:
        examiner.doubt(
            "not identifiable",
            f"Two classes have the same profile (they differ by {gaps.min():.3f} on average); ask for fewer classes.",
        )
    if not converged:
        examiner.doubt("caution", "EM stopped before it stood still, so the figures may still move; raise max_iter.")
    return examiner.conclude()


def profile_gaps(mixture: Mixture) -> Floats:
    """Mean total variation between the profiles of every two classes."""
    left, right = np.triu_indices(mixture.n_classes, 1)
    apart = np.abs(mixture.table[:, left] - mixture.table[:, right]).sum(axis=0) / 2
    return np.asarray(apart / max(mixture.n_columns, 1))
