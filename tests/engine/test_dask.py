"""A cluster's workers, killed or not: the same bits as in this process."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import latentfit
from latentfit import LatentClass
from latentfit.core.errors import DataError
from latentfit.core.table.stored import StoredTable
from latentfit.engine.dask import _client

distributed = pytest.importorskip("distributed", reason="dask is not installed: pip install 'latentfit[cluster]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("cluster"),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """More than a part of rows that are nearly all different."""
    rng = np.random.default_rng(0)
    n_rows = 1_150_000
    hidden = rng.integers(0, 3, n_rows)
    columns = {f"c{n}": np.where(rng.random(n_rows) < 0.6, hidden, rng.integers(0, 5, n_rows)) for n in range(16)}
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table({name: values.astype(np.int8) for name, values in columns.items()}), path)
    return path


@pytest.fixture(scope="module")
def here(rows):
    model = LatentClass(3, max_iter=4, tol=0).fit(latentfit.scan(rows))
    assert isinstance(model._table, StoredTable)
    return model


def same(mine, theirs):
    return mine._mixture.table.tobytes() == theirs._mixture.table.tobytes() and mine.objective_ == theirs.objective_


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bits(rows, here, n_workers):
    with distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster:
        there = LatentClass(3, max_iter=4, tol=0, engine=f"dask={cluster.scheduler_address}").fit(latentfit.scan(rows))
        _client.cache_clear()
    assert same(there, here)


def test_a_worker_that_dies_changes_nothing(rows, here):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        pids = [worker.pid for worker in cluster.workers.values()]

        def kill():
            time.sleep(1.5)
            os.kill(pids[0], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        model = LatentClass(3, max_iter=25, tol=0, engine=f"dask={cluster.scheduler_address}")
        killer.start()
        model.fit(latentfit.scan(rows))
        killer.join()
        _client.cache_clear()
    assert same(model, LatentClass(3, max_iter=25, tol=0).fit(latentfit.scan(rows)))


def test_nobody_at_an_address_is_said(rows):
    with pytest.raises(DataError, match=r"no dask scheduler answers at tcp://127.0.0.1:9"):
        LatentClass(3, engine="dask=tcp://127.0.0.1:9").fit(latentfit.scan(rows))
