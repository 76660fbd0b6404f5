"""Rows read from files part by part: the same codes, the same samples and the same bits as in memory."""

from __future__ import annotations

import gc
import gzip
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import latentfit
import latentfit.tables.estimator.latent_class as latent_class
from latentfit import BernoulliMixture, LatentClass
from latentfit.core.errors import DataError, FileFormatError
from latentfit.core.estimator import model_state
from latentfit.core.mixture.init import random_init
from latentfit.core.table import table as table_module
from latentfit.core.table.input import LearnCategories, read_table
from latentfit.core.table.replicates import sample_rows
from latentfit.core.table.stored import code_frame, code_scan
from latentfit.engine.memory import MemoryEngine
from latentfit.io.read import read_columns
from latentfit.io.write import write_columns


def survey(n_rows: int, seed: int = 0, n_columns: int = 8) -> pa.Table:
    """Rows of three classes: words, whole numbers, truth values, decimals, with gaps."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n_rows)
    columns = {}
    for n in range(n_columns):
        codes = np.where(rng.random(n_rows) < 0.7, hidden, rng.integers(0, 3, n_rows))
        words = np.array(["yes, often", "no", "päivää"], object)[codes] if n % 2 else codes * 7
        columns[f"q{n}"] = pa.array(words.tolist(), mask=rng.random(n_rows) < 0.1)
    columns["price"] = pa.array(np.round(rng.normal(hidden, 1.0), 2))
    return pa.table(columns)


@pytest.fixture
def ungrouped(monkeypatch):
    """Small tables are treated as long ones: equal rows stay apart, files are really streamed."""
    monkeypatch.setattr(table_module, "ALWAYS_GROUP", 0)
    monkeypatch.setattr(table_module, "GROUP_AT", 0.0)


@pytest.fixture
def files(tmp_path):
    """The same rows in three files of each format."""
    rows = survey(900)
    for at in range(3):
        part = rows.slice(300 * at, 300)
        for name in ("csv", "jsonl", "parquet"):
            write_columns(part, tmp_path / f"part{at}.{name}", format=name)
        (tmp_path / f"part{at}.csv.gz").write_bytes(gzip.compress((tmp_path / f"part{at}.csv").read_bytes()))
        pa_csv.write_csv(part, tmp_path / f"part{at}.tsv", pa_csv.WriteOptions(delimiter="\t"))
    write_columns(rows, tmp_path / "whole.csv", format="csv")
    return tmp_path


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "jsonl", "parquet"])
def test_codes_and_words_are_those_of_memory(files, ending, ungrouped):
    stored = code_scan(latentfit.scan(files / f"part*.{ending}"), LearnCategories(4))
    table = read_table(read_columns(files / "whole.csv"), bins=4)
    assert [column.name for column in stored.columns] == [column.name for column in table.columns]
    for mine, theirs in zip(stored.columns, table.columns, strict=True):
        assert mine.categories.tolist() == theirs.categories.tolist()
    assert np.array_equal(np.concatenate([block.codes for block in stored.blocks()]), table.codes)
    assert np.array_equal(stored.singles(), table.singles())
    assert stored.n_cells == table.n_cells


def test_sums_and_samples_are_those_of_memory(files, ungrouped):
    stored = code_scan(latentfit.scan(files / "whole.csv"), LearnCategories(4))
    table = read_table(read_columns(files / "whole.csv"), bins=4)
    mixture = random_init(table, 3, np.random.default_rng(0))
    mine, theirs = MemoryEngine(stored, 1).sums(mixture), MemoryEngine(table, 2).sums(mixture)
    assert mine.log_likelihood == theirs.log_likelihood
    assert np.array_equal(mine.table, theirs.table)
    for most in (100, 899, 2_000):
        assert np.array_equal(sample_rows(stored, most, 5).codes, sample_rows(table, most, 5).codes)


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("number", [3, None])
def test_every_engine_gives_the_same_bits(files, grouped, number, request):
    if not grouped:
        request.getfixturevalue("ungrouped")
    rows = read_columns(files / "whole.csv").drop_columns(["price"])
    scan = latentfit.scan(files / "part*.csv", columns=rows.column_names)
    fits = [
        LatentClass(number, n_jobs=2).fit(rows),
        LatentClass(number, engine="stream", n_jobs=1).fit(rows),
        LatentClass(number).fit(scan),
    ]
    arrays, metadata = model_state(fits[0])
    for other in fits[1:]:
        theirs, facts = model_state(other)
        assert {name: value.tobytes() for name, value in theirs.items()} == {
            name: value.tobytes() for name, value in arrays.items()
        }
        assert facts["verdict"] == metadata["verdict"]
        assert other.categories_[1].tolist() == fits[0].categories_[1].tolist()


EVIDENCE = {
    "fit_indices": LatentClass.fit_indices,
    "bootstrap": LatentClass.bootstrap,
    "ratio_test": LatentClass.ratio_test,
    "compare": lambda model: model.compare(survey(300).drop_columns(["price"]), [1]),
}


@pytest.mark.parametrize("question", EVIDENCE)
def test_evidence_asks_for_rows_in_memory(question, ungrouped):
    rows = survey(300).drop_columns(["price"])
    model = LatentClass(2, engine="stream", max_iter=2, tol=0).fit(rows)
    with pytest.raises(DataError, match=r"ratio_test need the rows in memory; give engine='memory'"):
        EVIDENCE[question](model)
    assert model.fit_indices(rows)["n_rows"] == 300


def test_long_files_cross_blocks_and_parts(tmp_path, monkeypatch, ungrouped):
    """Three parts of blocks, in files whose ends fall nowhere in particular, with a column of many words."""
    rng = np.random.default_rng(1)
    n_rows = 2 * 16 * 65_536 + 70_001
    columns = {f"c{n}": rng.integers(0, 5, n_rows).astype(np.int8) for n in range(4)}
    columns["wide"] = rng.integers(0, 300, n_rows).astype(np.int16)
    rows = pa.table(columns)
    pq.write_table(rows.slice(0, 1_000_003), tmp_path / "a.parquet")
    pq.write_table(rows.slice(1_000_003), tmp_path / "b.parquet", row_group_size=123_457)
    monkeypatch.setattr("latentfit.core.table.input.MAX_NUMBERS", 1_000)
    stored = code_scan(latentfit.scan(tmp_path), LearnCategories())
    table = read_table(rows)
    assert not stored.grouped
    assert table.unique_index is None
    mixture = random_init(table, 2, np.random.default_rng(0))
    mine, theirs = MemoryEngine(stored, 2).sums(mixture), MemoryEngine(table, 1).sums(mixture)
    assert mine.log_likelihood == theirs.log_likelihood
    assert np.array_equal(mine.table, theirs.table)


def test_a_cache_is_used_again_and_damage_is_coded_anew(files, ungrouped, monkeypatch):
    cache = files / "cache"
    scan = latentfit.scan(files / "part*.csv", cache=cache)
    first = code_scan(scan, LearnCategories(4))
    (path,) = cache.iterdir()
    written = path.stat().st_mtime_ns
    again = code_scan(scan, LearnCategories(4))
    assert path.stat().st_mtime_ns == written
    assert again.columns[0].categories.tolist() == first.columns[0].categories.tolist()
    codes = [np.concatenate([block.codes for block in one.blocks()]) for one in (first, again)]
    assert np.array_equal(*codes)
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)
    mended = code_scan(scan, LearnCategories(4))
    assert np.array_equal(np.concatenate([block.codes for block in mended.blocks()]), codes[0])
    with open(files / "part0.csv", "a") as more:
        more.write("\n".join((files / "part1.csv").read_text().splitlines()[1:3]) + "\n")
    assert code_scan(scan, LearnCategories(4)).n_rows == 902
    assert len(list(cache.iterdir())) == 2


def test_without_a_cache_nothing_stays(files, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = set(tmp_path.iterdir())
    stored = code_frame(survey(50).drop_columns(["price"]), LearnCategories())
    assert set(tmp_path.iterdir()) != before
    del stored
    gc.collect()
    assert set(tmp_path.iterdir()) == before
    with pytest.raises(DataError, match="distinct numbers"):
        code_frame(survey(500), LearnCategories())
    gc.collect()
    assert set(tmp_path.iterdir()) == before


def test_bad_files_get_one_sentence(files):
    (files / "bad.csv").write_text("q0,q1\n1,2\n3\n")
    with pytest.raises(FileFormatError, match=r"bad\.csv, line 3: expected 2 fields, found 1"):
        LatentClass(2).fit(latentfit.scan(files / "bad.csv"))
    with pytest.raises(FileNotFoundError, match="no file matches"):
        latentfit.scan(files / "*.nothing")
    (files / "other").mkdir()
    (files / "other" / "a.csv").write_text("x,y\n1,2\n")
    (files / "other" / "b.csv").write_text("x,z\n1,2\n")
    with pytest.raises(DataError, match=r"b\.csv lacks the column 'y', unlike .*a\.csv"):
        LatentClass(2).fit(latentfit.scan(files / "other"))
    (files / "empty").mkdir()
    with pytest.raises(DataError, match="holds no file that can be read"):
        latentfit.scan(files / "empty")
    (files / "ids.csv").write_text("id,x\n" + "".join(f"n{at},{at % 2}\n" for at in range(20_000)))
    with pytest.raises(DataError, match=r"column 'id' holds more than 10,000 distinct values; it looks like an id"):
        LatentClass(2).fit(latentfit.scan(files / "ids.csv"))
    with pytest.raises(DataError, match="row weights of files are a column of theirs; give its name as sample_weight"):
        LatentClass(2).fit(latentfit.scan(files / "part0.csv"), sample_weight=np.ones(300))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_may_be_many_where_words_are_ids(tmp_path, ending):
    """Decimals of a CSV file are words while they are read; they are cut as those of memory, or refused as numbers."""
    rng = np.random.default_rng(0)
    rows = pa.table({"x": rng.permutation(12_000) / 64, "y": rng.integers(0, 3, 12_000)})
    write_columns(rows, tmp_path / f"rows.{ending}", format=ending)
    stored = code_scan(latentfit.scan(tmp_path / f"rows.{ending}"), LearnCategories(5))
    assert stored.columns[0].categories.tolist() == read_table(rows, bins=5).columns[0].categories.tolist()
    many = pa.table({"x": rng.permutation(70_000) / 64, "a b": [f"w{n}" for n in range(70_000)]})
    write_columns(many, tmp_path / f"many.{ending}", format=ending)
    files = str(tmp_path / f"many.{ending}")
    with pytest.raises(DataError, match=r"'x' holds more than 65,534 distinct numbers; round .* \(--drop x; --id, if"):
        code_scan(latentfit.scan(files, columns=["x"]), LearnCategories(5))
    with pytest.raises(DataError, match=r"10,000 distinct values; .* id: leave it out \(--drop 'a b'; --id"):
        code_scan(latentfit.scan(files, columns=["a b"]), LearnCategories(5))


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_clusters_of_every_engine_have_the_same_bits(tmp_path, grouped, request, monkeypatch):
    """With a column that copies another, so that one is set aside, and fewer rows looked at than there are."""
    if not grouped:
        request.getfixturevalue("ungrouped")
        monkeypatch.setattr("latentfit.clusters.estimator.SAMPLED_ROWS", 1_000)
    rng = np.random.default_rng(4)
    hidden = rng.integers(0, 3, 2_000)
    centres = rng.random((3, 12)) < 0.5
    bits = np.where(rng.random((2_000, 12)) < 0.85, centres[hidden], ~centres[hidden])
    bits = np.c_[bits, np.where(rng.random(2_000) < 0.99, bits[:, 0], ~bits[:, 0])]
    words = np.array(["no", "yes"], object)[bits.astype(int)]
    rows = pa.table({f"b{n}": pa.array(words[:, n], mask=rng.random(2_000) < 0.03) for n in range(13)})
    write_columns(rows.slice(0, 1_100), tmp_path / "a.csv", format="csv")
    write_columns(rows.slice(1_100), tmp_path / "b.csv", format="csv")
    fits = [
        BernoulliMixture(n_jobs=2).fit(rows),
        BernoulliMixture(engine="stream", n_jobs=1).fit(rows),
        BernoulliMixture().fit(latentfit.scan(tmp_path)),
        BernoulliMixture(engine="memory").fit(latentfit.scan(tmp_path)),
    ]
    assert fits[0].copies_.num_rows >= 1
    for other in fits[1:]:
        for name in ("weights_", "frequencies_", "labels_"):
            assert getattr(other, name).tobytes() == getattr(fits[0], name).tobytes(), name
        assert other.report_.verdict == fits[0].report_.verdict
        assert other.intervals().equals(fits[0].intervals())


def test_what_is_no_yes_or_no_is_refused(tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\nyes,no\nmaybe,no\n")
    with pytest.raises(DataError, match=r"column 'a' holds 'maybe' beside 'yes', which means yes; recode"):
        BernoulliMixture(2).fit(latentfit.scan(tmp_path / "bad.csv"))


def weighted(n_rows=900, *, whole):
    """Yes/no rows with weights, some of them zero, in two files, and the same rows in memory."""
    rng = np.random.default_rng(9)
    hidden = rng.integers(0, 3, n_rows)
    bits = rng.random((n_rows, 9)) < np.where((hidden[:, None] + np.arange(9)) % 3 == 0, 0.8, 0.2)
    rows = pa.table({f"b{n}": pa.array(bits[:, n].astype(int), mask=rng.random(n_rows) < 0.05) for n in range(9)})
    weight = rng.integers(0, 4, n_rows).astype(float)
    return rows, weight if whole else np.where(rng.random(n_rows) < 0.1, 0.0, rng.random(n_rows))


@pytest.fixture(params=["frequency", "sampling"])
def weights(request, tmp_path):
    rows, weight = weighted(whole=request.param == "frequency")
    whole = rows.append_column("how many", pa.array(weight))
    write_columns(whole.slice(0, 500), tmp_path / "a.csv", format="csv")
    write_columns(whole.slice(500), tmp_path / "b.csv", format="csv")
    return rows, weight, latentfit.scan(tmp_path), request.param


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_weights_of_files_give_the_bits_of_memory(weights, grouped, request, monkeypatch):
    if not grouped:
        request.getfixturevalue("ungrouped")
        monkeypatch.setattr("latentfit.tables.estimator.latent_class.SAMPLE_ROWS", 200)
        monkeypatch.setattr(latent_class, "SEARCH", replace(latent_class.SEARCH, examined_rows=500))
        monkeypatch.setattr("latentfit.clusters.estimator.SAMPLED_ROWS", 300)
        monkeypatch.setattr(table_module, "BLOCK_ROWS", 64)
        monkeypatch.setattr("latentfit.core.table.stored.BLOCK_ROWS", 64)
    rows, weight, scan, kind = weights
    fits = [
        LatentClass(3, weight_type=kind, n_jobs=2).fit(rows, sample_weight=weight),
        LatentClass(3, weight_type=kind, engine="stream").fit(rows, sample_weight=weight),
        LatentClass(3, weight_type=kind).fit(scan, sample_weight="how many"),
        LatentClass(3, weight_type=kind, engine="memory").fit(scan, sample_weight="how many"),
    ]
    for other in fits[1:]:
        assert other._mixture.table.tobytes() == fits[0]._mixture.table.tobytes()
        assert other.objective_ == fits[0].objective_
        assert other._table.total_weight == fits[0]._table.total_weight
        assert other._table.n_cells == fits[0]._table.n_cells
        assert other.report_.verdict == fits[0].report_.verdict
        assert other.report_.notes == fits[0].report_.notes
    if not grouped:  # what was sampled is said
        started, *weighed, looked = fits[0].report_.notes
        assert len(weighed) == (kind == "sampling")
        assert started.endswith("made from a sample of 200 rows")
        assert looked == f"the verdict looked at 500 of {int((weight > 0).sum())} rows"
    mine = BernoulliMixture(3, weight_type=kind).fit(scan, sample_weight="how many")
    theirs = BernoulliMixture(3, weight_type=kind).fit(rows, None, weight)
    for name in ("weights_", "frequencies_", "labels_"):
        assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes(), name
    assert len(mine.labels_) == 900  # also rows without weight
    assert mine.intervals().equals(theirs.intervals())


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_bins_of_weighted_files_are_those_of_memory(weights, tmp_path):
    rows, weight, _, kind = weights
    rows = rows.append_column("x", pa.array(np.round(np.random.default_rng(4).normal(size=900), 2)))
    (tmp_path / "binned").mkdir()
    for at in (0, 1, 2):
        part = rows.append_column("how many", pa.array(weight)).slice(300 * at, 300)
        write_columns(part, tmp_path / "binned" / f"{at}.csv", format="csv")
    mine = code_scan(latentfit.scan(tmp_path / "binned"), LearnCategories(5), "how many", kind).columns[-1]
    theirs = read_table(rows, bins=5, sample_weight=weight, weight_type=kind).columns[-1]
    assert mine.categories.tolist() == theirs.categories.tolist()
    assert (mine.edges.tobytes(), mine.centres.tobytes()) == (theirs.edges.tobytes(), theirs.centres.tobytes())


def test_spa_from_weighted_pairs_of_files(weights, ungrouped):
    rows, weight, scan, kind = weights
    mine = LatentClass(3, init="spa", weight_type=kind, max_iter=3, tol=0).fit(scan, sample_weight="how many")
    theirs = LatentClass(3, init="spa", weight_type=kind, max_iter=3, tol=0).fit(rows, sample_weight=weight)
    assert mine._mixture.table.tobytes() == theirs._mixture.table.tobytes()


def test_workers_count_rows_with_their_weights(weights, ungrouped):
    """What a worker of a cluster does, in this process."""
    from latentfit.engine.dask import _load, _span_sums

    _, _, scan, kind = weights
    stored = code_scan(scan, LearnCategories(), "how many", kind)
    mixture = random_init(next(stored.blocks()), 2, np.random.default_rng(0))
    parts = _load([(0, stored.n_rows)], stored)
    ((_, totals, _),) = _span_sums(parts, mixture.log_weights(), stored.spread(mixture.log_table()))
    assert totals.tobytes() == MemoryEngine(stored, 1).sums(mixture).totals.tobytes()


def test_a_cache_keeps_weights_and_without_carries_them(weights, ungrouped, tmp_path):
    rows, weight, scan, kind = weights
    scan = latentfit.scan(scan.paths, cache=tmp_path / "cache", columns=rows.column_names)
    first, again = (code_scan(scan, LearnCategories(), "how many", kind) for _ in range(2))
    assert first.absent == again.absent == int((weight == 0).sum()) > 0
    weighed = read_table(rows, sample_weight=weight, weight_type=kind, group=False)
    assert kind == "sampling" or np.array_equal(weighed.row_weight, weight[weight > 0])
    gone = np.zeros(9, bool)
    gone[:3] = True
    for table in (first, again, first.without(gone)):
        assert np.array_equal(table.weights(0, table.n_rows), weighed.row_weight)
        assert table.scale == weighed.scale
    assert first.singles().tobytes() == weighed.singles().tobytes()
    assert code_scan(scan, LearnCategories()).n_rows == 900  # without weights it is another table
    assert len(list((tmp_path / "cache").iterdir())) == 2


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (["1", ""], "the weights column 'w' has a missing value in row 2; give every row a number"),
        (["1", "many"], "the weights column 'w' holds 'many' in row 2, no number; give every row a number"),
        (["1", "-2"], "row 2 has the weight -2, which is negative or not finite"),
        (["0", "0"], "all row weights are zero"),
    ],
)
def test_weights_that_count_nothing_are_refused(tmp_path, cells, sentence):
    (tmp_path / "a.csv").write_text("x,w\n" + "".join(f"a,{cell}\n" for cell in cells))
    with pytest.raises(DataError, match=sentence):
        LatentClass(1).fit(latentfit.scan(tmp_path), sample_weight="w")


def test_a_file_whose_rows_all_weigh_nothing_joins_others(tmp_path):
    (tmp_path / "a.csv").write_text("q,r,w\n" + "x,u,1\ny,v,2\n" * 20)
    (tmp_path / "b.csv").write_text("q,r,w\n" + "x,v,0\ny,u,0\n" * 20)
    models = [
        LatentClass(2).fit(latentfit.scan(tmp_path / "a.csv", columns=["q", "r"])).partial_fit(scan, sample_weight="w")
        for scan in (latentfit.scan(tmp_path / "a.csv"), latentfit.scan(tmp_path))
    ]
    assert models[0]._mixture.table.tobytes() == models[1]._mixture.table.tobytes()
    with pytest.raises(DataError, match="all row weights are zero"):
        models[0].partial_fit(latentfit.scan(tmp_path / "b.csv"), sample_weight="w")


@pytest.mark.parametrize("named", [True, False])
def test_new_rows_of_files_join_as_those_of_memory(weights, named):
    """partial_fit, init= and answers for files: what frames get."""
    rows, weight, scan, kind = weights
    both = {"sample_weight": "how many"} if named else {}
    given = {"sample_weight": weight} if named else {}
    if not named:
        scan = latentfit.scan(scan.paths, columns=rows.column_names)
    old = rows.slice(0, 300)
    model = LatentClass(3, weight_type=kind)
    fits = [clone(model).fit(old).partial_fit(one, **more) for one, more in ((scan, both), (rows, given))]
    assert fits[0]._mixture.table.tobytes() == fits[1]._mixture.table.tobytes()
    start = clone(model).fit(old)
    fits = [LatentClass(init=start, weight_type=kind).fit(one, **more) for one, more in ((scan, both), (rows, given))]
    assert fits[0]._mixture.table.tobytes() == fits[1]._mixture.table.tobytes()
    if not named:
        assert np.array_equal(fits[0].predict_proba(scan), fits[0].predict_proba(rows))
