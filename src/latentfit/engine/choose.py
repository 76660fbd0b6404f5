"""Which engine runs the passes: said by the user, or by where the rows are."""

from __future__ import annotations

from latentfit.engine.memory import CodedRows, MemoryEngine


def engine_for(rows: CodedRows, engine: str, n_jobs: int | None) -> MemoryEngine:
    """Rows in memory stay there; rows in a file are read part by part, or lie on the workers of a cluster.

    `engine` is a setting of an estimator: ``"dask"`` starts a cluster on this machine, ``"dask=tcp://host:port"`` (or
    ``"dask=scheduler.json"``) uses an existing one. Small or grouped tables are in memory whatever it says.
    """
    if engine.startswith("dask") and hasattr(rows, "lease"):  # coded rows in a file
        from latentfit.engine.cluster import ClusterEngine

        return ClusterEngine(rows, engine, n_jobs)
    return MemoryEngine(rows, n_jobs)
