"""Smoothing of latent class tables: pseudo-counts per column and class, shaped like the column's marginal.

Without it the likelihood of rows not yet seen collapses when there are many classes (a category never met in a class
gets probability zero); one pseudo-row per class costs next to nothing elsewhere. Evidence: docs/models/tables.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import Prior, TableSteps
from latentfit.core.mixture.row_init import shares_of
from latentfit.core.numbers import is_amount
from latentfit.core.table.stored import AnyTable
from latentfit.core.table.table import Table
from latentfit.engine.choose import engine_for
from latentfit.engine.memory import MemoryEngine

SMOOTHING = 1.0
"""Pseudo-rows per class under ``smoothing="auto"``."""

SMALL_PASS = 2_000_000
"""Rows × columns × classes up to which a pass runs on one thread: waking a second costs more than it saves."""


def pseudo_rows(smoothing: Any) -> float:
    """Pseudo-rows per class that a `smoothing` asks for."""
    if isinstance(smoothing, str) and smoothing == "auto":
        return SMOOTHING
    if not is_amount(smoothing):
        raise DataError(f"smoothing={smoothing!r} is no number of pseudo-rows; give 'auto', or 0 or more")
    return float(smoothing)


def table_prior(counts: Floats, first: NDArray[np.int32], n_components: int, smoothing: float) -> Prior:
    """`smoothing` pseudo-rows per class with the marginals of the cell counts, and as many per class weight."""
    return shaped_prior(shares_of(counts, first), n_components, smoothing)


def shaped_prior(marginals: Floats, n_components: int, smoothing: float) -> Prior:
    """The same from marginals (C,) that were kept."""
    shape = np.repeat(smoothing * marginals[:, None], n_components, axis=1)
    return Prior(shape, np.full(n_components, smoothing))


def table_steps(
    table: AnyTable,
    n_components: int,
    smoothing: float,
    n_jobs: int | None,
    engine: str = "auto",
    tied: NDArray[np.bool_] | None = None,
    rooted: bool = False,
) -> TableSteps:
    """EM steps over a table; cells that are `tied` (C,) have one probability for all classes, `rooted` as there."""
    counts = table.singles()
    prior = table_prior(counts, table.first, n_components, smoothing)
    if table.n_rows * table.n_columns * n_components <= SMALL_PASS and n_jobs is None:
        n_jobs = 1
    n_cells = max(round(float(counts.sum())), 1)
    return TableSteps(engine_for(table, engine, n_jobs), prior, table.first, n_cells, tied, rooted)


def plain_steps(table: Table, n_classes: int, n_jobs: int | None = 1) -> TableSteps:
    """EM steps of plain maximum likelihood, for fits whose log-likelihoods are compared.

    What `table_steps` gives with no smoothing, without counting the marginals that shape it: a path asks many times.
    """
    none = Prior(np.zeros((int(table.first[-1]), n_classes)), np.zeros(n_classes))
    return TableSteps(MemoryEngine(table, n_jobs), none, table.first, max(round(table.n_cells), 1))
