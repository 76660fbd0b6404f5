"""The workers of a dask cluster: parts of a file that each of them loads and holds, and their part of an iteration.

Workers load their spans of parts from the shared file by themselves; an iteration sends the parameters (kilobytes)
to every span and gets one result per part back, never per span, so that parts are added in the order of all engines:
the same bits on any number of workers. A span of a dead worker is loaded and computed again by another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

from numpy.typing import NDArray

from latentfit import __version__
from latentfit.core import kernels
from latentfit.core.errors import DataError
from latentfit.core.kernels import PART_ROWS, Floats
from latentfit.core.matrix import StoredMatrix
from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, Sums, add_parts, resolve_jobs
from latentfit.engine.passes import Found, LeastRows, RowPasses, View, Words, Work, add_found, worked

SPANS_PER_WORKER = 2
"""Calls per worker and iteration: enough to balance a slow worker, few enough to cost nothing."""


class Spans:
    """Adjacent parts of a file, several per call of a worker."""

    def __init__(self, engine: str, parts: Sequence[Any], load: Callable[..., Any], rows: Any, **given: Any) -> None:
        """`load(span, rows=…, **given)` runs on a worker; `rows` are in a file that all workers can open."""
        self.path, self.client = rows.path, connect(engine.partition("=")[2] or None)
        workers = max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)
        each = max(-(-len(parts) // (SPANS_PER_WORKER * workers)), 1)
        self.parts = [list(parts[at : at + each]) for at in range(0, len(parts), each)]
        self.loaded = self.client.map(load, self.parts, rows=rows, pure=False, **given)

    def made(self, make: Callable[..., Any], /, **given: Any) -> Spans:
        """The result of `make(loaded, **given)` of every span, held by the worker of the span."""
        new = copy(self)
        new.loaded = self.client.map(make, self.loaded, pure=False, retries=3, **given)
        return new

    def answers(self, work: Callable[..., Any], /, *proportions: Sequence[Any], **given: Any) -> list[Any]:
        """The result of `work(loaded, *share, **given)` of every span, in order; failures of workers become errors."""
        from distributed import KilledWorker

        try:
            found: list[Any] = self.client.gather(
                self.client.map(work, self.loaded, *proportions, pure=False, retries=3, **given)
            )
            return found
        except FileNotFoundError:
            raise DataError(
                f"a worker does not see the coded rows at {self.path}; give a folder that all of them share as cache "
                "(cache=, --cache)"
            ) from None
        except ImportError as error:  # it came after the others were looked at
            raise _cannot_run(error) from None
        except KilledWorker as error:
            raise DataError(
                f"workers died again and again over the same rows ({str(error)[:200]}); give them more memory, or more "
                "of them"
            ) from None


def connect(address: str | None) -> Any:
    """A client of the cluster at an address or in a scheduler file; None starts one on this machine, once."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise DataError(
            "engine='dask' needs dask.distributed; install it with pip install 'latentfit[cluster]'"
        ) from None
    client = _client(address)
    if client.status != "running":
        _client.cache_clear()
        client = _client(address)
    return client


@cache
def _client(address: str | None) -> Any:
    from distributed import Client, LocalCluster

    if address is None:
        cores = resolve_jobs(None)
        cluster = LocalCluster(n_workers=cores, threads_per_worker=1, dashboard_address=None)  # type: ignore[no-untyped-call]
        client = Client(cluster)  # type: ignore[no-untyped-call]
    else:
        try:
            where = {"scheduler_file": address} if os.path.isfile(address) else {"address": address}
            client = Client(**where, timeout="10s")  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError, ValueError) as error:
            raise DataError(f"no dask scheduler answers at {address} ({error}); check the address") from None
    _check_workers(client)
    return client


def _check_workers(client: Any) -> None:
    """Every worker must have this version: other code would give other bits."""
    from distributed.comm.core import CommClosedError

    for worker, version in client.run(_version, on_error="return").items():
        if isinstance(version, CommClosedError):
            continue  # it died while it was asked; others take its parts
        if isinstance(version, Exception):
            raise _cannot_run(version)
        if version != __version__:
            raise DataError(
                f"the worker {worker} has latentfit {version}, this is {__version__}; install the same there"
            )


def _cannot_run(error: Exception) -> DataError:
    reason = f"{type(error).__name__}: {error}"[:200]
    return DataError(f"a worker cannot run latentfit ({reason}); install latentfit {__version__} on every worker")


def _version() -> str:
    from latentfit import __version__
    from latentfit.core.kernels import _library

    _library()
    return __version__


# -----------------------------------------------------------------------------
# The engine for what one machine cannot hold: parts of coded rows on the workers of a dask cluster, the same bits.

Part = tuple[float, Floats, Floats]


class ClusterEngine(MemoryEngine):
    """Passes over a coded file on the workers of a cluster; rows are written from here."""

    def __init__(self, rows: Any, engine: str, n_jobs: int | None = None) -> None:
        """`rows` are coded rows in a file that workers can open: a `StoredTable`, `StoredLabels`."""
        super().__init__(rows, n_jobs)
        parts = [(begin, min(begin + PART_ROWS, rows.n_rows)) for begin in range(0, rows.n_rows, PART_ROWS)]
        self.spans = Spans(engine, parts, _load, replace(rows, handle=None))

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


# -----------------------------------------------------------------------------
# Passes over blocks of real rows that lie on the workers of a dask cluster: the same bits as `engine/passes.py`.
#
# What is made of rows (`mapped`) stays on the workers too; what a function keeps per row travels with the call.

Span = list[list[Floats]]
"""Parts, each a list of blocks."""


class ClusterPasses(RowPasses):
    """Passes on the workers of a cluster."""

    def __init__(self, rows: StoredMatrix, seed: int, engine: str) -> None:
        super().__init__(rows, seed)
        self.width = rows.n_features
        begins, sizes = range(0, rows.n_rows, self.part_rows), (self.block_rows, self.part_rows)
        self.spans = Spans(engine, begins, _cluster_passes_load, replace(rows, handle=None), sizes=sizes)

    @property
    def n_features(self) -> int:
        return self.width

    def sums(self, work: Work, *args: Any, auxiliary: NDArray[Any] | None = None) -> Found:
        proportions = [
            None if auxiliary is None else auxiliary[span[0] : span[-1] + self.part_rows] for span in self.spans.parts
        ]
        found = self.spans.answers(_cluster_passes_span_sums, proportions, work=work, args=args)
        return add_found(part for span in found for part in span)

    def mapped(self, view: View, *args: Any) -> ClusterPasses:
        new = copy(self)
        new.spans = self.spans.made(_span_mapped, view=view, args=args)
        new.width = view(self.rows.values_of(0, 1), *args).shape[1]
        return new

    def sample(self, most: int, view: View | None = None, *args: Any) -> tuple[Floats, Words]:
        least = LeastRows(most, self.n_rows)
        for rows, hashes in self.spans.answers(_span_sample, most=most, seed=self.seed, view=view, args=args):
            least.add(hashes, rows)
        return least.found()


def _cluster_passes_load(begins: list[int], rows: StoredMatrix, sizes: tuple[int, int]) -> Span:
    """On a worker: the blocks of some parts."""
    block, part = sizes
    ends = [min(begin + part, rows.n_rows) for begin in begins]
    return [
        [rows.values_of(at, min(at + block, end)) for at in range(begin, end, block)]
        for begin, end in zip(begins, ends, strict=True)
    ]


def _cluster_passes_span_sums(
    span: Span, proportion: NDArray[Any] | None, work: Work, args: tuple[Any, ...]
) -> list[Found]:
    """On a worker: one sum per part."""
    out, at = [], 0
    with one_blas_thread():
        for part in span:
            found = []
            for block in part:
                auxiliary = None if proportion is None else proportion[at : at + len(block)]
                found.append(worked(block, work, args, auxiliary))
                at += len(block)
            out.append(add_found(found))
    return out


def _span_mapped(span: Span, view: View, args: tuple[Any, ...]) -> Span:
    """On a worker: the transformed rows."""
    with one_blas_thread():
        return [[view(block, *args) for block in part] for part in span]


def _span_sample(span: Span, most: int, seed: int, view: View | None, args: tuple[Any, ...]) -> tuple[Floats, Words]:
    """On a worker: the span's rows with the smallest hashes, one more than asked for."""
    blocks = [block for part in span for block in part]
    least = LeastRows(most, sum(map(len, blocks)))
    with one_blas_thread():
        for block in blocks:
            least.look(block, None, seed, view, args)
    return least.held()
