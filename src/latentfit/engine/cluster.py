"""The engine for what one machine cannot hold: parts of coded rows on the workers of a dask cluster, the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from latentfit.core import kernels
from latentfit.core.kernels import PART_ROWS, Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.memory import MemoryEngine, Sums, add_parts
from latentfit.engine.workers import Spans

Part = tuple[float, Floats, Floats]


class ClusterEngine(MemoryEngine):
    """Passes over a coded file on the workers of a cluster; rows are written from here."""

    def __init__(self, rows: Any, engine: str, n_jobs: int | None = None) -> None:
        """`rows` are coded rows in a file that workers can open: a `StoredTable`, `StoredLabels`."""
        super().__init__(rows, n_jobs)
        parts = [(begin, min(begin + PART_ROWS, rows.n_rows)) for begin in range(0, rows.n_rows, PART_ROWS)]
        self.spans = Spans(engine, parts, _load, replace(rows, lease=None))

    def sums(self, params: Mixture) -> Sums:
        log_weights, log_table = params.log_weights(), self.rows_.spread(params.log_table())
        found = self.spans.answers(_span_sums, log_weights=log_weights, log_table=log_table)
        log_likelihood, totals, table = add_parts(part for span in found for part in span)
        return Sums(log_likelihood, totals, self.rows_.gather(table))


Loaded = list[tuple[kernels.Cells, Floats | None]]
"""Cells of some parts and the weights of their rows."""


def _load(span: list[tuple[int, int]], rows: Any) -> Loaded:
    """On a worker: the cells of some parts, copied out of the buffer that the next part may fill again."""
    parts: Loaded = []
    for begin, end in span:
        cells = rows.cells(begin, end)
        if isinstance(cells, kernels.DenseCodes):
            cells = replace(cells, codes=cells.codes.copy())
        parts.append((cells, rows.weights(begin, end)))
    return parts


def _span_sums(parts: Loaded, log_weights: Floats, log_table: Floats) -> list[Part]:
    """On a worker: one sum per part."""
    return [
        kernels.mixture_sums(cells, log_weights, log_table, row_weight=weight, threads=1) for cells, weight in parts
    ]
