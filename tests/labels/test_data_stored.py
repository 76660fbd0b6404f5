"""Labels read from files part by part: the same codes, names, samples and bits as in memory, on every engine."""

from __future__ import annotations

import gc
import gzip
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import latentfit
from latentfit import DawidSkene
from latentfit.core import checkpoint as checkpoints
from latentfit.core.errors import DataError, DataWarning, NotIdentifiableError
from latentfit.core.estimator import model_state
from latentfit.engine.flat_file import letters_of, word_hashes
from latentfit.engine.memory import MemoryEngine
from latentfit.io.read import read_columns
from latentfit.io.write import write_columns
from latentfit.labels import em
from latentfit.labels.data import stored
from latentfit.labels.data.input import read_labels
from latentfit.labels.data.stored import StoredLabels, code_labels, sample_tasks, store_labels
from latentfit.labels.diagnostics import structure
from latentfit.labels.init import vote_mixture
from latentfit.labels.moments import vote_statistics
from tests.fits import after, bits, stopping


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """A few hundred tasks already fill several chunks, ranges, blocks and parts."""
    monkeypatch.setattr("latentfit.labels.data.stored.CHUNK_ROWS", 150)
    monkeypatch.setattr(stored, "RANGE_ROWS", 260)
    monkeypatch.setattr(stored, "PARTITIONS", 7)
    for module in ("latentfit.labels.data", "latentfit.labels.data.stored"):
        monkeypatch.setattr(f"{module}.BLOCK_ROWS", 64)
    for module in ("latentfit.engine.memory", "latentfit.engine.dask"):
        monkeypatch.setattr(f"{module}.PART_ROWS", 128)


def votes(n_tasks: int = 400, seed: int = 0, *, words: bool = True) -> pa.Table:
    """Four labels a task in no order, some of them gaps or empty, some given twice."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), 4)
    truth = rng.integers(0, 3, n_tasks)
    worker = rng.integers(0, 25, len(task))
    said = np.where(rng.random(len(task)) < 0.3 + 0.6 * (worker / 25), truth[task], rng.integers(0, 3, len(task)))
    label = np.array(["päivää", "dog, big", "cat"], object)[said]
    label[rng.random(len(task)) < 0.05] = ""
    label[rng.random(len(task)) < 0.05] = None
    label[task == 7] = None  # a task that nobody really labelled
    order = rng.permutation(len(task))
    names = [f"Aufgabe {n}, é" for n in task[order]] if words else task[order] * 3
    return pa.table({"item": names, "rater": worker[order], "answer": label[order].tolist()})


@pytest.fixture
def files(tmp_path):
    """The same labels in three files of each format, the last of which repeats some of the first."""
    rows = votes()
    for at, (begin, size) in enumerate(((0, 700), (700, 500), (1_200, 400))):
        part = rows.slice(begin, size)
        for name in ("csv", "jsonl", "parquet"):
            write_columns(part, tmp_path / f"part{at}.{name}", format=name)
        (tmp_path / f"part{at}.csv.gz").write_bytes(gzip.compress((tmp_path / f"part{at}.csv").read_bytes()))
    write_columns(rows, tmp_path / "whole.csv", format="csv")
    return tmp_path


def same_labels(stored: StoredLabels, labels) -> None:
    assert (stored.n_rows, stored.n_labels) == (labels.n_rows, labels.n_labels)
    loaded = stored.loaded()
    for name in ("offsets", "workers", "given"):
        assert np.array_equal(getattr(loaded, name), getattr(labels, name)), name
    for name in ("task_names", "worker_names", "class_names"):
        mine, theirs = getattr(loaded, name), getattr(labels, name)
        assert mine.tolist() == theirs.tolist(), name
        assert mine.dtype.kind == theirs.dtype.kind, name
    assert stored.identity() == labels.identity()
    assert stored.names_of(0, stored.n_rows).equals(labels.names_of(0, labels.n_rows))


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet"])
def test_codes_and_names_are_those_of_memory(files, ending):
    same_labels(code_labels(latentfit.scan(files / f"part*.{ending}")), read_labels(read_columns(files / "whole.csv")))


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
@pytest.mark.parametrize(
    "names",
    [
        pa.array([7, 5, 7, 2**40, 5]),
        pa.array([7.0, 5.0, 7.0, 1e6, 5.0]),
        pa.array([0.5, 1.0, 0.5, -0.0, 1.0]),
        pa.array(["1", "01", "1", "x" * 300, ""]),
        pa.array([2**63 + 5, 5, 2**63 + 5, 1, 5], pa.uint64()),
        pa.array(["b", "a", "b", "c", "a"]).dictionary_encode(),
    ],
)
def test_tasks_may_be_named_by_anything(tmp_path, names):
    rows = pa.table({"task": names, "worker": ["v", "w", "w", "v", "v"], "label": [1, 0, 1, 0, 0]})
    pq.write_table(rows, tmp_path / "a.parquet")
    same_labels(code_labels(latentfit.scan(tmp_path)), read_labels(rows))


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_a_column_may_play_two_roles(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,c\n1,x,p\n1,y,p\n2,x,q\n2,y,q\n")
    roles = {"task": "a", "worker": "a", "label": "c"}
    rows = read_columns(tmp_path / "a.csv")
    same_labels(code_labels(latentfit.scan(tmp_path), columns=roles), read_labels(rows, columns=roles))


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_a_column_without_a_name_can_be_a_task(tmp_path):
    (tmp_path / "a.csv").write_text(",who,says\n1,x,p\n1,y,p\n2,x,q\n2,y,q\n")
    roles = {"task": "", "worker": "who", "label": "says"}
    rows = read_columns(tmp_path / "a.csv")
    same_labels(code_labels(latentfit.scan(tmp_path), columns=roles), read_labels(rows, columns=roles))
    assert read_labels(rows, columns=roles).task_names.tolist() == [1, 2]


def test_numbers_and_their_spelling_are_one_name_and_a_column_of_numbers_stays_one(tmp_path):
    (tmp_path / "a.csv").write_text("task,worker,label\n10,1,0\n9,2,1\n")
    (tmp_path / "b.csv").write_text("task,worker,label\n9,1,1\n10,2,0\n")
    assert code_labels(latentfit.scan(tmp_path)).loaded().task_names.tolist() == [10, 9]
    (tmp_path / "b.csv").write_text("task,worker,label\n9,1,1\nten,2,0\n")
    assert code_labels(latentfit.scan(tmp_path)).loaded().task_names.tolist() == ["10", "9", "ten"]


def test_repeated_labels_all_count_and_warn_every_time(tmp_path):
    lines = [f"t{n},{w},{(n * w) % 2}" for n in range(90) for w in range(3)]
    (tmp_path / "a.csv").write_text("task,worker,label\n" + "\n".join([*lines, "t5,1,1", "t5,1,0", "t80,2,1"]) + "\n")
    with pytest.warns(DataWarning, match=r"3 labels repeat a \(task, worker\) pair, for example task 't5' by worker 1"):
        memory = read_labels(read_columns(tmp_path / "a.csv"))
    scan = latentfit.scan(tmp_path / "a.csv", cache=tmp_path / "cache")
    for _ in range(2):
        with pytest.warns(DataWarning, match=r"3 labels repeat .* 't5' by worker 1, and each counts"):
            same_labels(code_labels(scan), memory)


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_statistics_samples_and_searches_of_stored_labels_equal_those_in_memory(files):
    stored, labels = code_labels(latentfit.scan(files / "whole.csv")), read_labels(read_columns(files / "whole.csv"))
    mixture = vote_mixture(labels)
    assert vote_statistics(stored).table.tobytes() == vote_statistics(labels).table.tobytes()
    mine, theirs = MemoryEngine(stored, 1).sums(mixture), MemoryEngine(labels, 2).sums(mixture)
    assert (mine.log_likelihood, mine.table.tobytes()) == (theirs.log_likelihood, theirs.table.tobytes())
    for most in (50, 399, 1_000):
        one, other = sample_tasks(stored, most, 3), sample_tasks(labels, most, 3)
        assert one.n_rows == min(most, 400)
        assert np.array_equal(one.cell_of(), other.cell_of())
    asked = ["Aufgabe 399, é", "nothing", "Aufgabe 0, é", None]
    assert stored.find(asked, "task").tolist() == labels.find(asked, "task").tolist()


def test_hash_of_a_text_does_not_depend_on_the_other_texts():
    words = pa.array(["", "a", "b", "aa", "é", "a", "task 12", "x" * 5_000])
    hashes = word_hashes(*letters_of(words))
    assert hashes[1] == hashes[5]
    assert len(set(hashes.tolist())) == 7
    for at in range(len(words)):
        assert word_hashes(*letters_of(words.slice(at, 1)))[0] == hashes[at]


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
@pytest.mark.parametrize("settings", [{}, {"method": "majority"}, {"method": "majority-em", "smoothing": 0.0}])
@pytest.mark.parametrize("gold", [None, {"Aufgabe 3, é": "cat", "Aufgabe 90, é": "emu", "Aufgabe 7, é": "cat"}])
def test_every_engine_gives_the_same_bits_and_results(files, settings, gold, monkeypatch):
    monkeypatch.setattr("latentfit.labels.init.MOMENT_TASKS", 200)
    monkeypatch.setattr(em, "TUNING", replace(em.TUNING, calibration_tasks=150))
    monkeypatch.setattr(structure, "TUNING", replace(structure.TUNING, test_work=3_000))
    rows = read_columns(files / "whole.csv")
    fits = [
        DawidSkene(n_jobs=2, **settings).fit(rows, gold=gold),
        DawidSkene(n_jobs=1, engine="stream", **settings).fit(rows, gold=gold),
        DawidSkene(n_jobs=2, **settings).fit(latentfit.scan(files / "part*.parquet"), gold=gold),
        DawidSkene(engine="memory", **settings).fit(latentfit.scan(files / "part*.jsonl"), gold=gold),
    ]
    arrays, facts = model_state(fits[0])
    if not settings:
        assert any("sweeps over 200 of 400 tasks" in note for note in facts["notes"])
    for other in fits[1:]:
        theirs, their_facts = model_state(other)
        assert {name: value.tobytes() for name, value in theirs.items()} == {
            name: value.tobytes() for name, value in arrays.items()
        }
        assert {**their_facts, "parameters": None} == {**facts, "parameters": None}
        assert other.report_.quantities == fits[0].report_.quantities
        assert other.probabilities_.tobytes() == fits[0].probabilities_.tobytes()
        assert other.labels_.tolist() == fits[0].labels_.tolist()
        assert other.tasks_.equals(fits[0].tasks_)
        assert other.workers_.equals(fits[0].workers_)


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_a_matrix_can_be_streamed_and_answers_need_no_room(tmp_path):
    rng = np.random.default_rng(2)
    matrix = np.where(rng.random((300, 6)) < 0.7, (np.arange(300) % 2)[:, None], rng.integers(0, 2, (300, 6)))
    here, there = DawidSkene().fit(matrix), DawidSkene(engine="stream").fit(matrix)
    assert "probabilities_" in vars(here)
    assert "probabilities_" not in vars(there)
    assert np.array_equal(there.labels_, here.labels_)
    assert np.array_equal(there.predict(matrix), here.predict(matrix))
    there.save(tmp_path / "m.latent")
    again = latentfit.load(tmp_path / "m.latent")
    assert not hasattr(again, "labels_")
    same_labels(store_labels(read_labels(matrix)), read_labels(matrix))


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_a_cache_is_used_again_and_damage_is_coded_anew(files):
    scan = latentfit.scan(files / "part*.csv", cache=files / "cache")
    first = code_labels(scan)
    (path,) = (files / "cache").iterdir()
    written = path.stat().st_mtime_ns
    assert code_labels(scan).identity() == first.identity()
    assert path.stat().st_mtime_ns == written
    assert code_labels(scan, abstain=("cat",)).n_classes == 2
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)
    assert code_labels(scan).names_of(0, 400).equals(first.names_of(0, 400))
    assert path.stat().st_mtime_ns != written


def test_without_a_cache_nothing_stays(files, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = code_labels(latentfit.scan(files / "part*.csv"))
    assert len(list(folder.iterdir())) == 1
    del stored
    gc.collect()
    assert not list(folder.iterdir())
    (files / "bad.csv").write_text("task,worker,label\n1,a,x\n,b,x\n")
    with pytest.raises(DataError, match="row 2 has no task; every label needs one"):
        code_labels(latentfit.scan(files / "bad.csv"))
    assert not list(folder.iterdir())


def test_bad_labels_get_one_sentence(tmp_path):
    def fit(text: str, **settings):
        (tmp_path / "a.csv").write_text(text)
        return DawidSkene(**settings).fit(latentfit.scan(tmp_path / "a.csv"))

    with pytest.raises(DataError, match=r"no column for the worker among \['task', 'wer', 'label'\].*columns="):
        fit("task,wer,label\n1,2,3\n")
    with pytest.raises(DataError, match="row 2 has no worker"):
        fit("task,worker,label\n1,2,3\n1,,3\n")
    with pytest.raises(DataError, match="none of the 2 tasks has a label"):
        fit("task,worker,label\n1,2,\n2,3,\n")
    with pytest.raises(NotIdentifiableError, match="all labels come from 1 worker"):
        fit("task,worker,label\n1,2,1\n2,2,0\n")
    with pytest.raises(DataError, match="a name of 10,001 characters"):
        fit(f"task,worker,label\n{'x' * 10_001},2,1\n2,2,0\n")
    with pytest.raises(DataError, match="method='robust' needs all labels in memory; give engine='memory'"):
        fit("task,worker,label\n1,2,1\n1,3,0\n1,4,0\n", method="robust")
    with pytest.raises(DataError, match="the gold answers name task '9', which has no label"):
        DawidSkene().fit(latentfit.scan(tmp_path / "a.csv"), gold={"9": 1})
    most_labels = stored.MOST_LABELS
    assert most_labels > 1_000
    text = "".join(f"1,{n % 3},id{n}\n" for n in range(most_labels + 1))
    with pytest.raises(DataError, match="the labels take more than 65,534 different values"):
        fit("task,worker,label\n" + text)


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
@pytest.mark.parametrize("stop_at", [1, 4, 9])
def test_a_stopped_fit_goes_on_to_the_same_bits(files, tmp_path, monkeypatch, stop_at):
    """Stopped while the first or the second start climbs, on one engine, and ended on another."""
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SPARING", 0.0)
    rows, path = read_columns(files / "whole.csv"), tmp_path / "kept.latent"
    settings = {"tol": 0.0, "max_iter": 6}
    whole = DawidSkene(**settings).fit(rows)
    with pytest.raises(KeyboardInterrupt):
        stopping(DawidSkene, after(stop_at))(**settings).fit(latentfit.scan(files / "part*.csv"), checkpoint=path)
    assert path.exists()
    again = DawidSkene(**settings).fit(rows, checkpoint=path, resume=True)
    assert not path.exists()
    assert bits(again) == bits(whole)
    assert (again.n_iter_, again.objective_) == (whole.n_iter_, whole.objective_)
    assert again.report_.notes == whole.report_.notes


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
def test_another_fit_s_checkpoint_is_refused(files, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SPARING", 0.0)
    monkeypatch.setattr(checkpoints.CheckpointFile, "done", lambda self: None)
    rows, path = read_columns(files / "whole.csv"), tmp_path / "kept.latent"
    DawidSkene(tol=0.0, max_iter=3).fit(rows, checkpoint=path)
    with pytest.raises(DataError, match="a fit of other settings"):
        DawidSkene(tol=0.0, max_iter=3, smoothing=2.0).fit(rows, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="a fit of other data"):
        DawidSkene(tol=0.0, max_iter=3).fit(rows.slice(1), checkpoint=path, resume=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_bits(files, n_workers):
    distributed = pytest.importorskip("distributed", reason="dask is not installed: pip install 'latentfit[cluster]'")
    from latentfit.engine.dask import _client

    gold = {"Aufgabe 3, é": "cat"}
    here = DawidSkene().fit(read_columns(files / "whole.csv"), gold=gold)
    with distributed.LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster:
        engine = f"dask={cluster.scheduler_address}"
        there = DawidSkene(engine=engine).fit(latentfit.scan(files / "part*.csv"), gold=gold)
        _client.cache_clear()
    assert bits(there) == bits(here)
    assert there.tasks_.equals(here.tasks_)
