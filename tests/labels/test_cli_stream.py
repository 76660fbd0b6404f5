"""`latentfit labels` on files that are read part by part: the files of memory, byte for byte; stops, full disks,
limits."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latentfit.cli.main import main
from latentfit.core.model_file import read_model
from latentfit.io.write import write_columns

KILLS = int(os.environ.get("LATENTFIT_KILLS", "2"))
"""Moments at which the fit is killed; the full run has 20."""
RUN = (
    "import latentfit.core.checkpoint as c; c.EVERY = c.SPARING = 0.0\n"
    "import latentfit.labels.data as l, latentfit.labels.data.stored as s; l.BLOCK_ROWS = s.BLOCK_ROWS = 4096\n"
    "from latentfit.cli.main import run; run()"
)


def crowd(n_tasks: int, seed: int = 0) -> tuple[pa.Table, pa.Table]:
    """Four labels a task, in no order; and the truth of some tasks."""
    rng = np.random.default_rng(seed)
    task, truth = np.repeat(np.arange(n_tasks), 4), rng.integers(0, 3, n_tasks)
    worker = (np.tile(np.arange(4), n_tasks) * 7 + rng.integers(0, 40, n_tasks)[task]) % 40
    said = np.where(rng.random(len(task)) < 0.4 + worker / 80, truth[task], rng.integers(0, 3, len(task)))
    order = rng.permutation(len(task))
    words = np.array(["yes, surely", "no", "perhaps"], object)
    names = [f"task {n}" for n in task[order]]
    labels = pa.table({"task": names, "worker": worker[order], "label": words[said[order]].tolist()})
    known = rng.choice(n_tasks, n_tasks // 5, replace=False)
    return labels, pa.table({"task": [f"task {n}" for n in known], "label": words[truth[known]].tolist()})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Labels in two files of a folder and in one beside it, in blocks of 64 tasks."""
    for module in ("latentfit.labels.data", "latentfit.labels.data.stored"):
        monkeypatch.setattr(f"{module}.BLOCK_ROWS", 64)
    monkeypatch.setattr("latentfit.labels.data.stored.RANGE_ROWS", 200)
    labels, truth = crowd(300)
    (tmp_path / "history").mkdir()
    pq.write_table(labels.slice(0, 500), tmp_path / "history" / "a.parquet")
    pq.write_table(labels.slice(500), tmp_path / "history" / "b.parquet")
    write_columns(labels, tmp_path / "whole.csv", format="csv")
    write_columns(truth, tmp_path / "truth.csv", format="csv")
    return tmp_path


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_streamed_files_give_the_files_of_memory(folder, format_):
    more = ["--truth", str(folder / "truth.csv"), "--quiet", "--no-report", "--format", format_]
    known = ["--gold", str(folder / "truth.csv")] if format_ == "csv" else []
    runs = {
        "memory": [str(folder / "whole.csv")],
        "stream": [str(folder / "whole.csv"), "--engine", "stream", "--threads", "1"],
        "several": [str(folder / "history")],
        "loaded": [str(folder / "history" / "*.parquet"), "--engine", "memory"],
    }
    for name, arguments in runs.items():
        assert main(["labels", *arguments, *more, *known, "--out", str(folder / name)]) == 0
    here = folder / "memory"
    facts = json.loads((here / "summary.json").read_text())
    for name in ("stream", "several", "loaded"):
        there = folder / name
        for file in ("consensus", "workers", "confusion"):
            assert (there / f"{file}.{format_}").read_bytes() == (here / f"{file}.{format_}").read_bytes(), (name, file)
        mine, theirs = read_model(there / "model.latent").arrays, read_model(here / "model.latent").arrays
        assert {key: array.tobytes() for key, array in mine.items()} == {k: a.tobytes() for k, a in theirs.items()}
        summary = json.loads((there / "summary.json").read_text())
        for key in ("n_rows", "n_labels", "log_likelihood", "verdict", "reasons", "error_rate", "majority_error_rate"):
            assert summary[key] == facts[key], (name, key)


def test_stdout_the_page_and_wrong_uses(folder, capsys):
    history = str(folder / "history")
    assert main(["labels", history, "--out", "-", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "task,label,probability,n_labels,margin"
    assert main(["labels", history, "--out", str(folder / "out"), "--quiet"]) == 0
    page = (folder / "out" / "report.html").read_text()
    assert "Consensus on 300 tasks" in page
    assert main(["labels", history, "--resume"]) == 2
    assert "--resume needs --checkpoint FILE" in capsys.readouterr().err
    assert main(["labels", history, "--engine", "sream"]) == 2
    assert main(["labels", history, "--engine", "stream", "--method", "robust", "--out", str(folder / "no")]) == 3
    assert "method='robust' needs all labels in memory" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_fits_go_on_to_the_same_bytes(tmp_path):
    labels, _ = crowd(30_000, seed=1)
    pq.write_table(labels, tmp_path / "labels.parquet")

    def command(out, *more):
        options = ["--engine", "stream", "--cache", str(tmp_path / "cache"), "--no-report", "--quiet"]
        called = [sys.executable, "-c", RUN, "labels", str(tmp_path / "labels.parquet")]
        return [*called, *options, "--out", str(out), *more]

    subprocess.run(command(tmp_path / "whole"), check=True, timeout=300)
    begin = time.monotonic()
    subprocess.run(command(tmp_path / "whole"), check=True, timeout=300)
    took = time.monotonic() - begin
    whole = (tmp_path / "whole" / "model.latent").read_bytes()
    for at, moment in enumerate(np.random.default_rng(1).uniform(0.2, 1.0, KILLS) * took):
        out, kept = tmp_path / f"out{at}", tmp_path / f"kept{at}.latent"
        process = subprocess.Popen(command(out, "--checkpoint", str(kept)))
        time.sleep(moment)
        process.kill()
        process.wait()
        if kept.exists():
            read_model(kept)  # whole, whenever the kill came
        subprocess.run(command(out, "--checkpoint", str(kept), "--resume"), check=True, timeout=300)
        assert (out / "model.latent").read_bytes() == whole
        assert not kept.exists()


def test_a_full_disk_and_a_vanished_file_get_one_sentence_and_leave_nothing(tmp_path):
    labels, _ = crowd(5_000)
    pq.write_table(labels, tmp_path / "labels.parquet")
    (tmp_path / "cache").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", RUN, "labels", str(tmp_path / "labels.parquet"), "--engine", "stream",
         "--out", str(tmp_path / "out")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
        capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert len(done.stderr.strip().splitlines()) == 1
    assert "the coded rows do not fit into" in done.stderr
    assert not list((tmp_path / "cache").iterdir())
    assert not (tmp_path / "out").exists()
    done = subprocess.run(
        [sys.executable, "-c", RUN, "labels", str(tmp_path / "nothing" / "*.parquet"), "--out", str(tmp_path / "out")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 4
    assert "no file matches" in done.stderr


def test_repeated_answers_and_scores_stream_to_the_files_of_memory(folder, capsys):
    labels, _ = crowd(300)
    rng = np.random.default_rng(1)
    score = [f"{value:.2f}" for value in rng.random(labels.num_rows)]
    twice = pa.concat_tables([labels, labels.slice(0, 300)])
    scores = labels.set_column(2, "score", pa.array(score)).rename_columns(["id", "model", "score"])
    write_columns(twice, folder / "twice.csv", format="csv")
    write_columns(scores, folder / "scores.csv", format="csv")
    for file, more in (("twice.csv", []), ("scores.csv", ["--bins", "3"])):
        for engine in ("memory", "stream"):
            out = str(folder / f"{file}-{engine}")
            assert main(["labels", str(folder / file), "--engine", engine, "--no-report", "--out", out, *more]) == 0
            assert file != "twice.csv" or "300 labels repeat a (task, worker) pair" in capsys.readouterr().err
        for name in ("consensus", "workers", "confusion"):
            mine, theirs = (folder / f"{file}-{engine}" / f"{name}.csv" for engine in ("memory", "stream"))
            assert mine.read_bytes() == theirs.read_bytes()
    assert main(["labels", str(folder / "scores.csv"), "--out", str(folder / "refused")]) == 3
    assert "look like scores, not classes; give bins=5 (--bins 5)" in " ".join(capsys.readouterr().err.split())
    model, out = str(folder / "scores.csv-stream" / "model.latent"), str(folder / "predicted")
    assert main(["predict", str(folder / "scores.csv"), "--model", model, "--out", out, "--quiet"]) == 0
    first = (folder / "predicted" / "predictions.csv").read_text().splitlines()[1].split(",")[1]
    assert first == (folder / "scores.csv-memory" / "consensus.csv").read_text().splitlines()[1].split(",")[1]


def test_a_wide_file_with_ids_and_text_is_read_and_the_label_minus_one_is_kept_when_asked(tmp_path, capsys):
    rng = np.random.default_rng(0)
    truth = rng.integers(-1, 2, 200)
    said = np.where(rng.random((200, 4)) < 0.85, truth[:, None], rng.integers(-1, 2, (200, 4)))
    lines = [f"x{n},text number {n}," + ",".join(map(str, row)) for n, row in enumerate(said.tolist())]
    path = tmp_path / "wide.csv"
    path.write_text("key,text,a,b,c,d\n" + "\n".join(lines) + "\n")
    more = ["--no-report", "--out", str(tmp_path / "o")]
    assert main(["labels", str(path), "--task", "key", "--abstain", "", *more]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "every value of column 'text' is different" in told
    rows = [line.split(",") for line in (tmp_path / "o" / "consensus.csv").read_text().splitlines()[1:]]
    assert [row[0] for row in rows] == [f"x{n}" for n in range(200)]
    assert np.mean([int(row[1]) == answer for row, answer in zip(rows, truth, strict=True)]) > 0.85
    assert main(["labels", str(path), *more]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "every value of column 'key' is different, so it is taken as the task" in told
    assert f"-1 stands in {(said == -1).sum()} cells" in told


def test_missing_value_codes_apply_to_labels_and_not_to_names(tmp_path):
    votes = "".join(f"{n},{who},{99 if (n + who) % 7 == 0 else n % 2}\n" for n in range(120) for who in range(4))
    (tmp_path / "votes.csv").write_text("task,worker,label\n" + votes)
    (tmp_path / "truth.csv").write_text("task,label\n" + "".join(f"{n},{n % 2}\n" for n in range(120)))
    for engine in ("memory", "stream"):
        more = ["--missing", "99", "--truth", str(tmp_path / "truth.csv"), "--engine", engine, "--quiet"]
        assert main(["labels", str(tmp_path / "votes.csv"), *more, "--out", str(tmp_path / engine)]) == 0
        facts = json.loads((tmp_path / engine / "summary.json").read_text())
        assert (facts["n_rows"], facts["n_components"], facts["n_truth"]) == (120, 2, 120)
    assert (tmp_path / "memory" / "consensus.csv").read_bytes() == (tmp_path / "stream" / "consensus.csv").read_bytes()
