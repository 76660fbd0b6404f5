"""The engine of this process: coded rows in memory, or read from a file, in parts of 16 blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from latentfit.core import kernels
from latentfit.core.errors import DataError
from latentfit.core.kernels import PART_ROWS, Cells, Floats
from latentfit.core.mixture.parameters import Mixture

Sink = Callable[[int, Floats, Floats], None]
"""Called with the index of the first row of a part, its posterior and its log-likelihood."""


class CodedRows(Protocol):
    """Interface of data to an engine: its size, its cells in a range of rows, their weights.

    `cells` may index another table than the parameters': `spread` makes that table, `gather` maps its statistics back.
    """

    @property
    def n_rows(self) -> int: ...
    def cells(self, begin: int, end: int) -> Cells: ...
    def weights(self, begin: int, end: int) -> Floats | None: ...
    def spread(self, log_table: Floats) -> Floats: ...
    def gather(self, sums: Floats) -> Floats: ...


@dataclass(frozen=True)
class Sums:
    """Sufficient statistics of one E-step: all that an M-step needs."""

    log_likelihood: float
    totals: Floats  # (F,)
    table: Floats  # (C, F)


def resolve_jobs(n_jobs: int | None) -> int:
    """Threads to use: None is one per core this process may use, -1 likewise, -2 one less, …"""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if n_jobs == 0:
        raise DataError("n_jobs must be a nonzero int or None, got 0")
    return n_jobs if n_jobs > 0 else max(cores + 1 + n_jobs, 1)


class MemoryEngine:
    """Runs E-steps in this process, over rows in memory or in a file."""

    def __init__(self, rows: CodedRows, n_jobs: int | None = None) -> None:
        self.rows_ = rows
        self.threads = resolve_jobs(n_jobs)

    @property
    def n_rows(self) -> int:
        return self.rows_.n_rows

    def sums(self, params: Mixture) -> Sums:
        """Sufficient statistics; blocks and parts are added in order, with the same bits on every engine."""
        log_weights, log_table = params.log_weights(), self.rows_.spread(params.log_table())
        begins = range(0, max(self.n_rows, 1), PART_ROWS)
        log_likelihood, totals, table = add_parts(self._part(begin, log_weights, log_table) for begin in begins)
        return Sums(log_likelihood, totals, self.rows_.gather(table))

    def _part(self, begin: int, log_weights: Floats, log_table: Floats) -> tuple[float, Floats, Floats]:
        end = min(begin + PART_ROWS, self.n_rows)
        cells, weight = self.rows_.cells(begin, end), self.rows_.weights(begin, end)
        return kernels.mixture_sums(cells, log_weights, log_table, row_weight=weight, threads=self.threads)

    def rows(self, params: Mixture, sink: Sink) -> None:
        """Call `sink` with the posterior (rows, F) and log-likelihood (rows,) of each part, in order."""
        log_weights, log_table = params.log_weights(), self.rows_.spread(params.log_table())
        for begin in range(0, self.n_rows, PART_ROWS):
            cells = self.rows_.cells(begin, min(begin + PART_ROWS, self.n_rows))
            sink(begin, *kernels.mixture_rows(cells, log_weights, log_table, threads=self.threads))


def add_parts(parts: Iterable[tuple[float, Floats, Floats]]) -> tuple[float, Floats, Floats]:
    """Sufficient statistics of parts, added in order."""
    ordered = iter(parts)
    log_likelihood, totals, table = next(ordered)
    for part in ordered:
        log_likelihood += part[0]
        totals = totals + part[1]
        table = table + part[2]
    return log_likelihood, totals, table


def posterior_of(engine: MemoryEngine, params: Mixture) -> tuple[Floats, Floats]:
    """Posterior (n, F) and log-likelihood (n,) of all rows as two arrays."""
    posterior, log_likelihood = np.empty((engine.n_rows, params.n_classes)), np.empty(engine.n_rows)

    def store(begin: int, part: Floats, part_log_likelihood: Floats) -> None:
        posterior[begin : begin + len(part)] = part
        log_likelihood[begin : begin + len(part)] = part_log_likelihood

    engine.rows(params, store)
    return posterior, log_likelihood


# -----------------------------------------------------------------------------
# The engine: chosen by the user, or by where the rows are.


def engine_for(rows: CodedRows, engine: str, n_jobs: int | None) -> MemoryEngine:
    """The engine for rows in memory, rows read from a file part by part, or rows on the workers of a cluster.

    `engine` is a setting of an estimator: ``"dask"`` starts a cluster on this machine, ``"dask=tcp://host:port"`` (or
    ``"dask=scheduler.json"``) uses an existing one. Small or grouped tables are always in memory.
    """
    if engine.startswith("dask") and hasattr(rows, "handle"):  # coded rows in a file
        from latentfit.engine.dask import ClusterEngine

        return ClusterEngine(rows, engine, n_jobs)
    return MemoryEngine(rows, n_jobs)
