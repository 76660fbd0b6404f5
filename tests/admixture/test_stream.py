"""Genotypes read from files in blocks of SNPs, or lying on workers: the same bits as in memory."""

from __future__ import annotations

import gc
import tracemalloc
import warnings

import numpy as np
import pyarrow as pa
import pytest

import latentfit
from latentfit import Admixture
from latentfit.admixture.data import genotypes as genotypes_module
from latentfit.admixture.data import passes as passes_module
from latentfit.admixture.data.genotypes import Genotypes, read_genotypes
from latentfit.admixture.data.passes import SnpPasses
from latentfit.admixture.data.stored import store_bed, store_genotypes, store_scan
from latentfit.core import checkpoint as checkpoint_module
from latentfit.core.errors import DataError, FileFormatError
from latentfit.io.write import write_columns
from tests.fits import after, bits, stopping


def panel(n_people: int = 102, n_snps: int = 700, seed: int = 0) -> np.ndarray:
    """Calls (person, SNP) of two populations with gaps, some SNPs with one allele only."""
    rng = np.random.default_rng(seed)
    frequencies = rng.uniform(0.02, 0.98, (2, n_snps))
    proportions = rng.dirichlet([0.4, 0.4], n_people)
    calls = rng.binomial(2, proportions @ frequencies).astype(np.float64)
    calls[rng.random(calls.shape) < 0.03] = np.nan
    calls[:, ::200] = 0
    return calls


def frame(calls: np.ndarray) -> pa.Table:
    columns = {f"rs{n}": pa.array(calls[:, n].tolist(), pa.float64(), from_pandas=True) for n in range(calls.shape[1])}
    return pa.table({name: column.cast(pa.int8()) for name, column in columns.items()})


@pytest.fixture
def small_blocks(monkeypatch):
    """Parts of 512 SNPs, read in pieces of 256: small panels have several."""
    monkeypatch.setattr(passes_module, "PART_SNPS", 512)
    monkeypatch.setattr(genotypes_module, "BLOCK", 256)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_stored_calls_are_those_of_memory(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(genotypes_module, "BLOCK", 100)
    rows = frame(panel(30, 350))
    names = pa.array([f"p{n}" for n in range(30)])
    for at in range(3):
        part = rows.slice(10 * at, 10).add_column(0, "sample", names.slice(10 * at, 10))
        write_columns(part, tmp_path / f"{at}.{ending}", format=ending)
    scan = latentfit.scan(tmp_path / f"*.{ending}", cache=tmp_path / "cache")
    stored, here = store_scan(scan, "sample"), read_genotypes(rows, samples=names)
    for found in (stored, store_scan(scan, "sample")):  # the second time from the cache
        assert np.array_equal(found.loaded().calls, here.calls)
        assert found.samples.tolist() == here.samples.tolist()
        assert found.snps.tolist() == here.snps.tolist()
    assert len(list((tmp_path / "cache").iterdir())) == 1
    order = np.random.default_rng(0).permutation(350)[:270]
    people = np.arange(30)[::-1]
    assert np.array_equal(stored.take(order, people).loaded().calls, here.take(order, people).calls)
    assert np.array_equal(stored.counts, here.counts)
    assert [one.tolist() for one in stored.order_by_content()] == [one.tolist() for one in here.order_by_content()]


def test_pieces_of_a_pass_add_up_to_the_same_bits(small_blocks):
    genotypes = Genotypes(*_random_calls(1_700, 37))
    rng = np.random.default_rng(1)
    proportions, frequencies = rng.dirichlet([1, 1, 1], 37), rng.uniform(0.1, 0.9, (1_700, 3))
    here, there = SnpPasses(genotypes, 2), SnpPasses(store_genotypes(genotypes), 1)
    mine, theirs = here.step(proportions, frequencies, 1e-7), there.step(proportions, frequencies, 1e-7)
    assert mine[0] == theirs[0]
    assert np.array_equal(mine[1], theirs[1])
    for squares in (False, True):
        for one, other in zip(
            here.curvature(proportions, frequencies, squares=squares),
            there.curvature(proportions, frequencies, squares=squares),
            strict=True,
        ):
            assert np.array_equal(one, other)


def _random_calls(n_snps, n_people):
    calls = np.random.default_rng(5).integers(0, 4, (n_snps, n_people), dtype=np.uint8)
    return calls, np.arange(n_people), np.arange(n_snps)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "settings",
    [
        {"n_populations": 2, "min_maf": 0.1, "max_iter": 14},
        {"max_iter": 3},
        {"n_populations": 3, "refine": False},
        {"n_populations": 2, "init": "tensor", "max_iter": 6},
    ],
)
def test_every_engine_gives_the_same_bits(tmp_path, small_blocks, settings, monkeypatch):
    monkeypatch.setattr("latentfit.admixture.estimator.MOST_TRIED", 2)
    rows = frame(panel())
    for at in range(2):
        write_columns(rows.slice(60 * at, 60), tmp_path / f"{at}.parquet", format="parquet")
    scan = latentfit.scan(tmp_path / "*.parquet")
    fits = [
        Admixture(**settings, n_jobs=2).fit(rows),
        Admixture(**settings, engine="stream", n_jobs=1).fit(rows),
        Admixture(**settings).fit(scan),
        Admixture(**settings, engine="memory").fit(scan),
    ]
    for other in fits[1:]:
        assert bits(other) == bits(fits[0])
        assert other.report_.quantities == fits[0].report_.quantities
        assert other.snps_.tolist() == fits[0].snps_.tolist()


def test_blocks_are_counted_in_bytes():
    budget = genotypes_module.BLOCK_BYTES
    for n_people in (1, 100, 1_000, 8_192, 100_000, 500_000, 3_000_000):
        for each in (1, 2, 9, 10, 42):
            size = genotypes_module.snps_at_once(n_people, each)
            assert size <= 4096
            assert size & (size - 1) == 0
            assert size * n_people * each <= budget
            assert size == 4096 or 2 * size * n_people * each > budget
    assert genotypes_module.snps_at_once(10**9, 10) == 1  # at least one
    assert genotypes_module.snps_at_once(5_000, 9) == 4096  # panels of a few thousand people keep their blocks


def test_many_people_take_no_more_memory_than_a_block_and_every_engine_the_same_bits(monkeypatch):
    X = panel(300, 900)
    settings = {"n_populations": 2, "max_iter": 4, "tol": 1e-5, "n_jobs": 1}
    monkeypatch.setattr(genotypes_module, "BLOCK_BYTES", 300 * 10 * 40)  # 32 SNPs where a call takes ten bytes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = Admixture(**settings).fit(X), Admixture(**settings, engine="stream").fit(X)
    assert bits(there) == bits(here)
    genotypes = read_genotypes(np.tile(X, (40, 1)))
    genotypes.counts  # noqa: B018
    tracemalloc.start()
    genotypes.order_by_content()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * genotypes.calls.size / 4  # all calls as doubles would be four times that


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_workers", [1, 2])
def test_workers_give_the_same_bits(small_blocks, n_workers):
    distributed = pytest.importorskip("distributed", reason="dask is not installed: pip install 'latentfit[cluster]'")
    from latentfit.engine.dask import _client

    rows = frame(panel())
    here = Admixture(2, max_iter=3, min_maf=0.05).fit(rows)
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=n_workers, **options) as cluster:
        there = Admixture(2, max_iter=3, min_maf=0.05, engine=f"dask={cluster.scheduler_address}").fit(rows)
        assert there.report_.quantities == here.report_.quantities
        _client.cache_clear()
    assert bits(there) == bits(here)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("moment", [1, 4])
def test_a_resumed_fit_gives_the_same_bits_as_an_uninterrupted_one(tmp_path, monkeypatch, moment):
    monkeypatch.setattr(checkpoint_module, "EVERY", 0.0)
    monkeypatch.setattr("latentfit.admixture.estimator.MOST_TRIED", 2)
    X, path = panel(n_snps=300), tmp_path / "kept.latent"
    settings = {"n_populations": 2 if moment == 1 else None, "max_iter": 30, "tol": 0}
    whole = Admixture(**settings).fit(X)
    with pytest.raises(KeyboardInterrupt):
        stopping(Admixture, after(moment))(**settings).fit(X, checkpoint=path)
    assert path.exists()
    monkeypatch.setattr(Admixture, "_choose", None)  # what was decided is not decided again
    again = Admixture(**settings, engine="stream").fit(X, checkpoint=path, resume=True)
    assert bits(again) == bits(whole)
    assert (again.n_iter_, again.objective_, again.converged_) == (whole.n_iter_, whole.objective_, whole.converged_)
    assert again._notes == whole._notes
    assert not path.exists()


def test_a_plink_set_is_decoded_block_by_block(tmp_path, monkeypatch):
    bed_reader = pytest.importorskip(
        "bed_reader", reason="bed-reader is not installed: pip install 'latentfit[genetics]'"
    )
    monkeypatch.setattr(genotypes_module, "BLOCK", 64)
    calls = panel(21, 150)
    bed = tmp_path / "panel.bed"
    bed_reader.to_bed(bed, calls)
    here = genotypes_module.read_bed(bed)
    stored = store_bed(bed, str(tmp_path / "cache"))
    assert np.array_equal(stored.loaded().calls, here.calls)
    assert stored.alleles.tolist() == here.alleles.tolist()
    assert store_bed(bed, str(tmp_path / "cache")).snps.tolist() == here.snps.tolist()
    bed.write_bytes(bed.read_bytes()[:-3])
    with pytest.raises(FileFormatError, match="is truncated"):
        store_bed(bed)


def test_bad_files_get_one_sentence_and_nothing_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines = ["a,b", *(f"{at % 3},{(at * 2) % 3}" for at in range(20))]
    for cell, said in (("7", "SNP 'b' holds 7.0 in row 12"), ("red", "SNP 'b' holds 'red' in row 12, no number")):
        (tmp_path / "bad.csv").write_text("\n".join([*lines[:12], f"1,{cell}", *lines[13:]]) + "\n")
        with pytest.raises(DataError, match=said):
            Admixture(1).fit(latentfit.scan(tmp_path / "bad.csv"))
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]
    X = panel(60, 300)
    monkeypatch.setattr(checkpoint_module, "EVERY", 0.0)
    monkeypatch.setattr(checkpoint_module.CheckpointFile, "done", lambda self: None)
    settings = {"refine": True, "max_iter": 14, "tol": 0}
    Admixture(2, **settings).fit(X, checkpoint=tmp_path / "kept.latent")
    with pytest.raises(DataError, match="a fit of other data"):
        Admixture(2, **settings).fit(X[1:], checkpoint=tmp_path / "kept.latent", resume=True)
