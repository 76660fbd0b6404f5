"""Which engine runs the passes: said by the user, or by where the rows are."""

from __future__ import annotations

from tacit.data.stored_table import AnyTable, StoredTable
from tacit.engine.memory import MemoryEngine


def engine_for(table: AnyTable, engine: str, n_jobs: int | None) -> MemoryEngine:
    """Rows in memory stay there; rows in a file are read part by part, or lie on the workers of a cluster.

    `engine` is a setting of an estimator: ``"dask"`` starts a cluster on this machine, ``"dask=tcp://host:port"`` (or
    ``"dask=scheduler.json"``) uses an existing one. Small or grouped tables are in memory whatever it says.
    """
    if isinstance(table, StoredTable) and engine.startswith("dask"):
        from tacit.engine.cluster import ClusterEngine

        return ClusterEngine(table, engine.partition("=")[2] or None, n_jobs)
    return MemoryEngine(table, n_jobs)
