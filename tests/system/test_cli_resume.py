"""A fit that was killed goes on from its checkpoint and ends with the same bytes; nothing is ever half written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import latentfit
from latentfit import BernoulliMixture, DawidSkene, LatentClass
from latentfit.cli.main import main
from latentfit.core import checkpoint as module
from latentfit.core.errors import DataError
from latentfit.core.mixture.model import table_key
from latentfit.core.model_file import read_model
from tests.fits import stopping

KILLS = int(os.environ.get("LATENTFIT_KILLS", "3"))
"""Moments at which the fit is killed; the full run has 20."""
RUN = """
import time
import latentfit.core.checkpoint as checkpoint, latentfit.tables.estimator.latent_class as latent_class
checkpoint.EVERY = checkpoint.SPARING = 0.0
latent_class.SAMPLE_ROWS = 2_000  # so that the climb over all rows is left to do
write = checkpoint.CheckpointFile.write
def writing(self, *what):
    write(self, *what)
    time.sleep(0.2)  # a pass over a long table takes its time
checkpoint.CheckpointFile.write = writing
from latentfit.cli.main import run
run()
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows that are nearly all different, and classes that overlap: EM needs many passes."""
    rng = np.random.default_rng(0)
    n_rows = 150_000
    hidden = rng.integers(0, 4, n_rows)
    columns = {
        f"c{n}": np.where(rng.random(n_rows) < 0.3, (hidden + n) % 4, rng.integers(0, 4, n_rows)).astype(np.int8)
        for n in range(14)
    }
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def command(rows, out, *more):
    options = ["--components", "4", "--engine", "stream", "--cache", str(out.parent / "cache"), "--quiet"]
    return [sys.executable, "-c", RUN, "table", str(rows), *options, "--out", str(out), *more]


@pytest.mark.slow
def test_killed_fits_go_on_to_the_same_bytes(rows, tmp_path):
    begin = time.monotonic()
    subprocess.run(command(rows, tmp_path / "whole"), check=True, timeout=300)
    took = time.monotonic() - begin
    whole = (tmp_path / "whole" / "model.latent").read_bytes()
    rng = np.random.default_rng(1)
    went_on = 0
    for at, moment in enumerate(rng.uniform(0.0, 1.0, KILLS)):
        out, kept = tmp_path / f"out{at}", tmp_path / f"kept{at}.latent"
        process = subprocess.Popen(command(rows, out, "--checkpoint", str(kept)))
        if at % 2:  # any moment of the run
            time.sleep(moment * took)
        else:  # some moment of the climb, which begins sooner or later on a busy machine
            while not kept.exists() and process.poll() is None:
                time.sleep(0.002)
            time.sleep(moment * 0.5)
        process.kill()
        process.wait()
        if kept.exists():
            read_model(kept)  # whole, whenever the kill came
            went_on += 1
        subprocess.run(command(rows, out, "--checkpoint", str(kept), "--resume"), check=True, timeout=300)
        assert (out / "model.latent").read_bytes() == whole
        assert not kept.exists()
    assert went_on


def test_going_on_is_going_through(monkeypatch, tmp_path):
    """Stopped in the middle by an error of the callback; the rest of the climb is the climb."""
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr("latentfit.tables.estimator.latent_class.SAMPLE_ROWS", 500)
    rng = np.random.default_rng(2)
    hidden = rng.integers(0, 3, 3_000)
    X = np.where(rng.random((3_000, 9)) < 0.5, hidden[:, None], rng.integers(0, 3, (3_000, 9)))
    whole = LatentClass(3).fit(X)
    path = tmp_path / "kept.latent"
    with pytest.raises(KeyboardInterrupt):
        stopping(LatentClass, lambda step: step.n_iter >= 5 and path.exists())(3).fit(X, checkpoint=path)
    again = LatentClass(3).fit(X, checkpoint=path, resume=True)
    assert again._mixture.table.tobytes() == whole._mixture.table.tobytes()
    assert (again.objective_, again.n_iter_) == (whole.objective_, whole.n_iter_)
    assert again.objective_path_.tolist() == whole.objective_path_.tolist()
    assert not path.exists()


@pytest.mark.parametrize("n_columns", [3, 40])  # equal rows are grouped, or not
@pytest.mark.parametrize("weighted", [False, True])
def test_every_engine_takes_the_same_rows_for_the_same(n_columns, weighted):
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, (70_000, n_columns)).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight = rng.choice([0.5, 1.0, 2.0], len(X)) if weighted else None
    memory, stream = (table_key(LatentClass(engine=kind)._read_rows(X, weight)) for kind in ("memory", "stream"))
    assert memory == stream
    other = np.column_stack([X[:, :-1], rng.permutation(X[:, -1])])
    assert table_key(LatentClass(engine="stream")._read_rows(other, weight)) != stream


def test_another_fit_s_checkpoint_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr("latentfit.tables.estimator.latent_class.SAMPLE_ROWS", 500)
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (2_000, 14))  # no two rows are equal
    path = tmp_path / "kept.latent"
    monkeypatch.setattr(module.CheckpointFile, "done", lambda self: None)
    LatentClass(3, max_iter=20, tol=0).fit(X, checkpoint=path)
    assert path.exists()
    with pytest.raises(DataError, match="a fit of other settings"):
        LatentClass(2, max_iter=20, tol=0).fit(X, checkpoint=path, resume=True)
    with pytest.raises(DataError, match="a fit of other data"):
        LatentClass(3, max_iter=20, tol=0).fit(X[1:], checkpoint=path, resume=True)
    shuffled = np.column_stack([X[:, :-1], rng.permutation(X[:, -1])])  # every word as often as before
    with pytest.raises(DataError, match="a fit of other data"):
        LatentClass(3, max_iter=20, tol=0).fit(shuffled, checkpoint=path, resume=True)
    whole = LatentClass(3).fit(X)
    whole.save(path)
    with pytest.raises(DataError, match="holds a LatentClass, not a checkpoint"):
        LatentClass(3).fit(X, checkpoint=path, resume=True)


def test_labels_swapped_between_tasks_are_other_data(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(module.CheckpointFile, "done", lambda self: None)
    rng = np.random.default_rng(5)
    votes = rng.integers(0, 3, (300, 5)).astype(float)
    path = tmp_path / "kept.latent"
    DawidSkene(max_iter=20, tol=0).fit(votes, checkpoint=path)
    assert path.exists()
    swapped = np.column_stack([votes[:, :-1], rng.permutation(votes[:, -1])])  # everyone gave every label as often
    with pytest.raises(DataError, match="a fit of other data"):
        DawidSkene(max_iter=20, tol=0).fit(swapped, checkpoint=path, resume=True)
    DawidSkene(max_iter=20, tol=0).fit(votes, checkpoint=path, resume=True)


def test_a_full_disk_and_a_vanished_file_get_one_sentence_and_leave_nothing(rows, tmp_path):
    def cramped():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, "table", str(rows), "--components", "2", "--engine", "stream",
         "--out", str(tmp_path / "out")],
        preexec_fn=cramped, capture_output=True, text=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert len(done.stderr.strip().splitlines()) == 1
    assert "the coded rows do not fit into" in done.stderr
    assert not list(tmp_path.iterdir())
    gone = tmp_path / "gone.csv"
    gone.write_text("a,b,c\n1,2,1\n2,1,2\n")
    scan = latentfit.scan(gone)
    gone.unlink()
    with pytest.raises(FileNotFoundError, match="does not exist; check the path"):
        LatentClass(2).fit(scan)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_clusters_go_on_too(monkeypatch, tmp_path):
    """Stopped in the last climb: number, path and columns set aside come from the file, nothing is walked again."""
    monkeypatch.setattr(module, "EVERY", 0.0)
    rng = np.random.default_rng(5)
    hidden = rng.integers(0, 3, 1_500)
    bits = rng.random((1_500, 10)) < np.where((hidden[:, None] + np.arange(10)) % 3 == 0, 0.75, 0.25)
    X = np.c_[bits, np.where(rng.random(1_500) < 0.99, bits[:, 0], ~bits[:, 0])]  # a near-copy, set aside
    whole = BernoulliMixture(tol=1e-9).fit(X)
    path = tmp_path / "kept.latent"
    with pytest.raises(KeyboardInterrupt):
        stopping(BernoulliMixture, lambda step: path.exists())(tol=1e-9).fit(X, checkpoint=path)
    with monkeypatch.context() as patch:
        patch.setattr(BernoulliMixture, "_walk", None)
        again = BernoulliMixture(tol=1e-9).fit(X, checkpoint=path, resume=True)
    assert again.copies_.num_rows == 1
    for name in ("frequencies_", "weights_", "labels_", "objective_path_"):
        assert getattr(again, name).tobytes() == getattr(whole, name).tobytes(), name
    assert str(again.path_.to_pydict()) == str(whole.path_.to_pydict())
    assert again.report_.notes == whole.report_.notes
    assert not path.exists()
    assert main(["cluster", "x.csv", "--resume"]) == 2


def test_a_fitted_model_as_the_start_is_kept_too(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "EVERY", 0.0)
    monkeypatch.setattr(module.CheckpointFile, "done", lambda self: None)
    rng = np.random.default_rng(6)
    X = rng.integers(0, 3, (2_000, 8))
    path, old = tmp_path / "kept.latent", LatentClass(2, max_iter=2, tol=0).fit(X[:500])
    whole = LatentClass(init=old, max_iter=12, tol=0).fit(X, checkpoint=path)
    again = LatentClass(init=old, max_iter=12, tol=0).fit(X, checkpoint=path, resume=True)
    assert again._mixture.table.tobytes() == whole._mixture.table.tobytes()
    other = LatentClass(2, max_iter=3, tol=0).fit(X[:500])
    with pytest.raises(DataError, match="a fit of other settings"):
        LatentClass(init=other, max_iter=12, tol=0).fit(X, checkpoint=path, resume=True)
