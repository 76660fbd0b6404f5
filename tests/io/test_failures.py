"""A full disk, a vanished file, a damaged cache, a worker without the package: one sentence, and nothing is lost."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import latentfit
from latentfit import LatentClass
from latentfit.cli.main import main
from latentfit.core.errors import DataError, FileFormatError
from latentfit.core.mixture.init import random_init
from latentfit.core.table import stored as stored_table
from latentfit.core.table import table
from latentfit.core.table.input import LearnCategories
from latentfit.core.table.stored import code_scan
from latentfit.engine import dask as workers
from latentfit.engine.memory import MemoryEngine
from latentfit.io.write import atomic_path, write_columns

RUN = "from latentfit.cli.main import run; run()"


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(0)
    rows = pa.table({f"q{n}": rng.integers(0, 3, 2_000) for n in range(6)})
    write_columns(rows, tmp_path / "survey.csv", format="csv")
    return tmp_path / "survey.csv"


def no_room(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_coding(survey, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    monkeypatch.setattr(stored_table, "write_raw", no_room)
    for cache in (None, tmp_path / "coded"):
        with pytest.raises(OSError, match=r"the coded rows do not fit into .*: no space left on device; free some"):
            LatentClass(2).fit(latentfit.scan(survey, cache=cache))
    monkeypatch.undo()
    monkeypatch.setattr("latentfit.core.table.table.Packing.pack", no_room)  # while the flat file is written
    with pytest.raises(OSError, match=r"cannot be written: no space left on device; free some space"):
        LatentClass(2).fit(latentfit.scan(survey, cache=tmp_path / "coded"))
    assert not list((tmp_path / "own").iterdir())
    assert not list((tmp_path / "coded").iterdir())


def test_a_full_disk_while_results_are_written(survey, tmp_path):
    """The old results stay, and no part of the new ones."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "classes.csv").write_text("old\n")

    def cramped():
        resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))

    for engine in ("memory", "stream"):
        done = subprocess.run(
            [sys.executable, "-c", RUN, "table", str(survey), "--components", "2", "--engine", engine, "--quiet",
             "--out", str(out), "--cache", str(tmp_path / "coded")],
            preexec_fn=cramped if engine == "memory" else None, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if engine == "memory":
            assert done.returncode == 4
            assert done.stderr.strip().endswith(
                "classes.csv cannot be written: file too large; free some space, or choose another place; an "
                "existing file is unchanged"
            )
            assert len(done.stderr.strip().splitlines()) == 1
            assert [path.name for path in out.iterdir()] == ["classes.csv"]
            assert (out / "classes.csv").read_text() == "old\n"
    assert done.returncode == 0
    assert len((out / "classes.csv").read_text().splitlines()) == 2_001


def test_whatever_is_written_meets_a_full_disk_alike(tmp_path):
    (tmp_path / "a.txt").write_text("old")

    def write():
        with atomic_path(tmp_path / "a.txt") as part:
            part.write_text("half")
            no_room()

    with pytest.raises(OSError, match=r"a\.txt cannot be written: no space left on device"):
        write()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_file_that_vanishes_after_coding(survey, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "classes.csv").write_text("old\n")
    fit = LatentClass.fit

    def fit_and_lose(self, *arguments, **options):
        fitted = fit(self, *arguments, **options)
        survey.unlink()
        return fitted

    monkeypatch.setattr(LatentClass, "fit", fit_and_lose)
    code = main(["table", str(survey), "--components", "2", "--engine", "stream", "--quiet", "--out", str(out)])
    assert code == 4
    assert capsys.readouterr().err == f"latentfit: the file {survey} does not exist; check the path\n"
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("classes.csv", "old\n")]


@pytest.mark.parametrize("damage", ["cut", "bit", "head", "empty", "other"])
def test_a_damaged_cache_is_coded_again(survey, tmp_path, damage):
    scan = latentfit.scan(survey, cache=tmp_path / "coded")
    first = code_scan(scan, LearnCategories())
    codes = np.concatenate([block.codes for block in first.blocks()])
    (path,) = (tmp_path / "coded").iterdir()
    whole = path.read_bytes()
    changed = {
        "cut": whole[:-100], "bit": whole[:-1] + bytes([whole[-1] ^ 1]), "empty": b"", "other": b"x" * len(whole),
        "head": whole[:8] + (2**62).to_bytes(8, "little") + whole[16:],
    }  # fmt: skip
    path.write_bytes(changed[damage])
    again = code_scan(scan, LearnCategories())
    assert np.array_equal(np.concatenate([block.codes for block in again.blocks()]), codes)
    assert path.read_bytes() == whole


def test_coded_rows_that_are_cut_during_a_fit(survey, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "ALWAYS_GROUP", 0)
    monkeypatch.setattr(table, "GROUP_AT", 0.0)
    stored = code_scan(latentfit.scan(survey, cache=tmp_path / "coded"), LearnCategories())
    mixture = random_init(next(stored.blocks()), 2, np.random.default_rng(0))
    os.truncate(stored.path, stored.path.stat().st_size - 1)
    with pytest.raises(FileFormatError, match=r"the coded rows in .*\.codes end early; code the data again"):
        MemoryEngine(stored, 1).sums(mixture)


class Workers:
    """A client whose workers answer like this."""

    def __init__(self, answer):
        self.answer = answer

    def run(self, ask, on_error):
        assert on_error == "return"
        return self.answer

    def map(self, *asked, **given):
        return asked

    def gather(self, asked):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_workers_without_the_package_or_of_another_version():
    gone = pytest.importorskip("distributed").comm.CommClosedError("closed")
    with pytest.raises(
        DataError, match=r"a worker cannot run latentfit \(ModuleNotFoundError: No module named 'latentfit'\)"
    ):
        workers._check_workers(Workers({"tcp://a:1": ModuleNotFoundError("No module named 'latentfit'")}))
    with pytest.raises(
        DataError, match=r"the worker tcp://b:1 has latentfit 0.0.1, this is .*; install the same there"
    ):
        workers._check_workers(Workers({"tcp://a:1": latentfit.__version__, "tcp://b:1": "0.0.1"}))
    workers._check_workers(
        Workers({"tcp://a:1": latentfit.__version__, "tcp://b:1": gone})
    )  # one that died says nothing


def test_what_a_worker_cannot_do_later_is_said_too(survey, tmp_path):
    killed = pytest.importorskip("distributed").KilledWorker
    stored = code_scan(latentfit.scan(survey, cache=tmp_path / "coded"), LearnCategories())
    spans = object.__new__(workers.Spans)
    spans.path, spans.loaded = stored.path, []
    for error, sentence in (
        (FileNotFoundError(2, "No such file"), r"a worker does not see the coded rows at .*\.codes; give a folder"),
        (ImportError("no latentfit"), r"a worker cannot run latentfit \(ImportError: no latentfit\)"),
        (killed("part", SimpleNamespace(address="tcp://a:1"), 3), "workers died again and again over the same rows"),
    ):
        spans.client = Workers(error)
        with pytest.raises(DataError, match=sentence):
            spans.answers(len)
