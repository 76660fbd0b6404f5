"""The workers of a dask cluster: parts of a file that each of them loads and keeps, and what they answer in a pass.

Workers load their spans of parts from the shared file by themselves; a pass sends the parameters (some kilobytes) to
every span and gets one answer per part back, never per span, so that parts are added in the order of all engines: the
same bits on any number of workers. A span that a dead worker held is loaded, and made, again by another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Any

from latentfit import __version__
from latentfit.core.errors import DataError
from latentfit.engine.memory import resolve_jobs

SPANS_PER_WORKER = 2
"""Calls a worker gets in a pass: enough to share the work when one is slow, few enough to cost nothing."""


class Spans:
    """Neighbouring parts of a file, some to each call of a worker."""

    def __init__(self, engine: str, parts: Sequence[Any], load: Callable[..., Any], rows: Any, **given: Any) -> None:
        """`load(span, rows=…, **given)` runs on a worker; `rows` lie in a file that all workers can open."""
        self.path, self.client = rows.path, connect(engine.partition("=")[2] or None)
        workers = max(len(self.client.scheduler_info(n_workers=-1)["workers"]), 1)
        each = max(-(-len(parts) // (SPANS_PER_WORKER * workers)), 1)
        self.parts = [list(parts[at : at + each]) for at in range(0, len(parts), each)]
        self.loaded = self.client.map(load, self.parts, rows=rows, pure=False, **given)

    def made(self, make: Callable[..., Any], /, **given: Any) -> Spans:
        """What `make(loaded, **given)` makes of every span, kept where the span is."""
        new = copy(self)
        new.loaded = self.client.map(make, self.loaded, pure=False, retries=3, **given)
        return new

    def answers(self, work: Callable[..., Any], /, *shares: Sequence[Any], **given: Any) -> list[Any]:
        """What `work(loaded, *share, **given)` says of every span, in order; what a worker cannot do is a sentence."""
        from distributed import KilledWorker

        try:
            found: list[Any] = self.client.gather(
                self.client.map(work, self.loaded, *shares, pure=False, retries=3, **given)
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
