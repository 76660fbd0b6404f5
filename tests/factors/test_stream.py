"""Real rows read from files block by block, or lying on workers: the same samples and the same bits as in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import latentfit
from latentfit import BinaryFactors
from latentfit.core import checkpoint as checkpoint_module
from latentfit.core.errors import DataError
from latentfit.core.matrix import read_matrix, store_matrix, store_scan
from latentfit.core.model_file import read_model
from latentfit.core.tensor.whitened import second_moments, spectrum, third_moment
from latentfit.engine import passes as passes_module
from latentfit.engine.passes import RowPasses
from latentfit.factors.em import steps
from latentfit.io.write import write_columns
from latentfit.simulate import binary_factors
from tests.fits import bits, stopping


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 256 rows and parts of 4 blocks: small data has several parts."""
    monkeypatch.setattr(passes_module, "BLOCK_ROWS", 256)
    monkeypatch.setattr(passes_module, "PART_ROWS", 4 * 256)


def frame(n_rows: int, sigma: float = 0.5, d: int = 3) -> pa.Table:
    """Rows of a few switches, and a feature that never changes."""
    X = binary_factors(n_rows, m=7, d=d, sigma=sigma, random_state=2).X
    columns = {f"f{n}": X[:, n] for n in range(7)}
    return pa.table({**columns, "same": np.full(n_rows, 2.5)})


def write_parts(rows: pa.Table, folder, ending: str = "csv") -> None:
    for at, begin in enumerate(range(0, rows.num_rows, 1_100)):
        write_columns(rows.slice(begin, 1_100), folder / f"part{at}.{ending}", format=ending)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_stored_rows_are_those_of_memory(tmp_path, ending):
    rows = frame(2_500)
    write_parts(rows, tmp_path, ending)
    stored, matrix = store_scan(latentfit.scan(tmp_path)), read_matrix(rows)
    assert stored.names == matrix.names
    assert np.array_equal(stored.loaded().values, matrix.values)
    assert np.array_equal(stored.varies, matrix.varies)
    assert np.array_equal(stored.first, matrix.first)
    kept = matrix.varies
    some = stored.take_features(kept)
    assert np.array_equal(some.values_of(700, 1_300), matrix.take_features(kept).values[700:1_300])


def test_passes_and_samples_are_those_of_memory(small_blocks):
    X = np.round(binary_factors(2_345, m=4, d=2, sigma=0.1, random_state=0).X, 1)  # with many equal rows
    matrix = read_matrix(X)
    here, there = RowPasses(matrix, seed=3), RowPasses(store_matrix(matrix), seed=3)
    assert np.array_equal(spectrum(here).values, spectrum(there).values)
    assert np.array_equal(third_moment(here), third_moment(there))
    for most in (1, 100, 2_344, 2_345, 5_000):
        mine, theirs = here.sample(most), there.sample(most)
        assert np.array_equal(mine[0], theirs[0])
        assert np.array_equal(mine[1], theirs[1])
        assert len(mine[0]) <= most
    hashes = here.hashes
    assert np.array_equal(here.sample(100)[0], X[hashes < np.sort(hashes)[100]])


def test_one_block_is_the_sum_of_its_slices_in_order():
    """Up to a block of rows, sums are those of the slices of 8,192 rows in order."""
    X = np.random.default_rng(0).standard_normal((20_000, 5))
    total = np.zeros((5, 5))
    for begin in range(0, 20_000, 8_192):
        total += X[begin : begin + 8_192].T @ X[begin : begin + 8_192]
    assert np.array_equal(second_moments(X).product, total)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("sigma", "settings"),
    [
        (0.5, {}),
        (1.0, {"n_components": 3}),
        (0.0, {}),
        (0.4, {"n_components": 3, "search": "independent"}),
        (0.05, {"n_components": 3, "refine": None}),
    ],
)
def test_every_engine_gives_the_same_bits(tmp_path, small_blocks, sigma, settings):
    rows = frame(2_300, sigma)
    write_parts(rows, tmp_path)
    fits = [
        BinaryFactors(**settings, n_jobs=2).fit(rows),
        BinaryFactors(**settings, engine="stream", n_jobs=1).fit(rows),
        BinaryFactors(**settings).fit(latentfit.scan(tmp_path / "*.csv", cache=tmp_path / "cache")),
        BinaryFactors(**settings, engine="memory").fit(latentfit.scan(tmp_path / "*.csv", cache=tmp_path / "cache")),
    ]
    for other in fits[1:]:
        assert bits(other) == bits(fits[0])
        assert other.report_.verdict == fits[0].report_.verdict
        assert other.report_.quantities == fits[0].report_.quantities
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.filterwarnings("ignore")
def test_states_near_a_centre_stream_too(small_blocks, monkeypatch):
    monkeypatch.setattr(steps, "SETTINGS", replace(steps.SETTINGS, all_states=2, split_states=2))
    rows = frame(1_500, 0.3)
    here = BinaryFactors(3, max_iter=15, tol=0).fit(rows)
    assert any("Hamming" in note for note in here._notes)
    assert bits(BinaryFactors(3, max_iter=15, tol=0, engine="stream").fit(rows)) == bits(here)


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_workers", [1, 2])
def test_workers_give_the_same_bits(tmp_path, small_blocks, n_workers):
    distributed = pytest.importorskip("distributed", reason="dask is not installed: pip install 'latentfit[cluster]'")
    from latentfit.engine.dask import _client

    rows = frame(4_000)
    pq.write_table(rows, tmp_path / "rows.parquet")
    here = BinaryFactors(3, max_iter=20, tol=0).fit(rows)
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=n_workers, **options) as cluster:
        engine = f"dask={cluster.scheduler_address}"
        there = BinaryFactors(3, max_iter=20, tol=0, engine=engine).fit(latentfit.scan(tmp_path / "rows.parquet"))
        assert there.report_.quantities == here.report_.quantities
        _client.cache_clear()
    assert bits(there) == bits(here)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("climb", [1, 2, 3])
def test_a_resumed_fit_gives_the_same_bits_as_an_uninterrupted_one(tmp_path, monkeypatch, climb):
    """Stopped in the plane, beyond it, or in the second climb with a baseline; the rest of the climb is the climb."""
    monkeypatch.setattr(checkpoint_module, "EVERY", 0.0)
    monkeypatch.setattr(checkpoint_module, "SPARING", 0.0)  # the second climb is short: none of it may pass unwritten
    data = binary_factors(1_500, m=8, d=3, sigma=1.0, random_state=2)
    X, path = data.X + 3.0, tmp_path / "kept.latent"  # the constant is a switch that is always on
    settings = {"search": "newton", "max_iter": 400, "tol": 1e-7}
    whole = BinaryFactors(4, **settings).fit(X)
    seen: list[int] = []  # first steps of climbs

    def in_the_midst(step):
        seen.extend([1] if step.n_iter == 1 else [])
        return len(seen) == climb and step.n_iter > 1

    with pytest.raises(KeyboardInterrupt):
        stopping(BinaryFactors, in_the_midst)(4, **settings).fit(X, checkpoint=path)
    assert (read_model(path).metadata["first"] is not None) == (climb == 3)
    again = BinaryFactors(4, engine="stream", **settings).fit(X, checkpoint=path, resume=True)
    assert bits(again) == bits(whole)
    assert (again.n_iter_, again.objective_, again.converged_) == (whole.n_iter_, whole.objective_, whole.converged_)
    assert not path.exists()


@pytest.mark.filterwarnings("ignore")
def test_another_fit_s_checkpoint_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_module, "EVERY", 0.0)
    monkeypatch.setattr(checkpoint_module.CheckpointFile, "done", lambda self: None)
    X, path = binary_factors(500, m=6, d=2, sigma=0.5, random_state=1).X, tmp_path / "kept.latent"
    BinaryFactors(2, max_iter=5, tol=0).fit(X, checkpoint=path)
    with pytest.raises(DataError, match="a fit of other settings"):
        BinaryFactors(2, max_iter=6, tol=0).fit(X, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="a fit of other data"):
        BinaryFactors(2, max_iter=5, tol=0).fit(X[1:], checkpoint=path, resume=True)


def test_bad_files_get_one_sentence(tmp_path):
    lines = ["a,b"] + [f"{at}.5,{at % 7}" for at in range(40)]
    for name, cell, said in [
        ("gap", "", r"feature 'b' holds a missing value \(NaN\) in row 21; give engine='memory'"),
        ("inf", "inf", "feature 'b' holds inf in row 21; leave these rows out"),
        ("word", "red", "feature 'b' holds 'red' in row 21, no number"),
        ("huge", "1e200", r"the largest value is 1e\+200"),
    ]:
        bad = [*lines[:21], f"1.5,{cell}", *lines[22:]]
        (tmp_path / f"{name}.csv").write_text("\n".join(bad) + "\n")
        with pytest.raises(DataError, match=said):
            BinaryFactors(1).fit(latentfit.scan(tmp_path / f"{name}.csv"))
    (tmp_path / "good.csv").write_text("\n".join(lines) + "\n")
    for settings, said in (({"split": True}, "split=True"), ({"refine": "wls"}, "refine='wls'")):
        with pytest.raises(DataError, match=f"{said} needs the rows in memory"):
            BinaryFactors(1, **settings).fit(latentfit.scan(tmp_path / "good.csv"))
