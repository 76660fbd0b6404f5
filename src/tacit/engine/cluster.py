"""The engine for what one machine cannot hold: parts of a coded file on the workers of a dask cluster.

Workers load their spans of parts from the shared file by themselves and keep them; a pass sends the parameters (some
kilobytes) to every span and gets one sum per part back, never per span, so that parts are added in the order of all
engines: the same bits on any number of workers. A span that a dead worker held is loaded again by another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from tacit import __version__, kernels
from tacit.engine.memory import PART_ROWS, MemoryEngine, Sums, add_parts, resolve_jobs
from tacit.engine.mixture import Floats, Mixture
from tacit.errors import DataError

SPANS_PER_WORKER = 2
"""Calls a worker gets in a pass: enough to share the work when one is slow, few enough to cost nothing."""

Part = tuple[float, Floats, Floats]


class ClusterEngine(MemoryEngine):
    """Passes over a coded file on the workers of a cluster; rows are written from here."""

    def __init__(self, rows: Any, address: str | None, n_jobs: int | None = None) -> None:
        """`rows` are coded rows in a file that workers can open: a `StoredTable`, `StoredLabels`."""
        super().__init__(rows, n_jobs)
        self.client = connect(address)
        parts = [(begin, min(begin + PART_ROWS, rows.n_rows)) for begin in range(0, rows.n_rows, PART_ROWS)]
        workers = max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)
        per_span = -(-len(parts) // (SPANS_PER_WORKER * workers))
        spans = [parts[at : at + per_span] for at in range(0, len(parts), per_span)]
        self.loaded = self.client.map(_load, spans, rows=replace(rows, lease=None), pure=False)

    def sums(self, params: Mixture) -> Sums:
        log_weights, log_table = params.log_weights(), self.rows_.spread(params.log_table())
        asked = self.client.map(
            _span_sums, self.loaded, log_weights=log_weights, log_table=log_table, pure=False, retries=3
        )
        parts: Iterator[Part] = (part for span in self._gathered(asked) for part in span)
        log_likelihood, totals, table = add_parts(parts)
        return Sums(log_likelihood, totals, self.rows_.gather(table))

    def _gathered(self, asked: list[Any]) -> list[list[Part]]:
        """What the workers found; what one of them cannot do is said in a sentence."""
        from distributed import KilledWorker

        try:
            found: list[list[Part]] = self.client.gather(asked)
            return found
        except FileNotFoundError:
            path = self.rows_.path  # type: ignore[attr-defined]
            raise DataError(
                f"a worker does not see the coded rows at {path}; give a folder that all of them share as cache "
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
        raise DataError("engine='dask' needs dask.distributed; install it with pip install 'tacit[cluster]'") from None
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
    try:
        versions = client.run(_version)
    except Exception as error:
        raise _cannot_run(error) from None
    for worker, version in versions.items():
        if version != __version__:
            raise DataError(f"the worker {worker} has tacit {version}, this is {__version__}; install the same there")


def _cannot_run(error: Exception) -> DataError:
    reason = f"{type(error).__name__}: {error}"[:200]
    return DataError(f"a worker cannot run tacit ({reason}); install tacit {__version__} on every worker")


def _version() -> str:
    from tacit import __version__
    from tacit.kernels import _library

    _library()
    return __version__


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
