"""`latentfit report`, and which commands write a page: with the model, with data, when asked not to."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys

import pytest

from latentfit.cli.main import main
from tests.report.worlds import COMMANDS, INPUTS, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


def charts(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="content">(.*?)</script>', text, flags=re.S).group(1))["charts"]


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "plan"])
def test_a_page_made_later(command, folder, tmp_path, capsys):
    """From the model alone, and with the data again; how it was made is told from summary.json."""
    out = run(command, folder)
    fresh = (out / "report.html").read_text(encoding="utf-8")
    assert main(["report", str(out / "model.latent"), "--out", str(tmp_path)]) == 0
    summary = json.loads((out / "summary.json").read_text())
    said = f"verdict: {summary['verdict']}. {summary['headline']}\nwrote {tmp_path / 'report.html'}"
    assert capsys.readouterr().err.strip() == said
    alone = (tmp_path / "report.html").read_text(encoding="utf-8")
    told = re.compile(r"<h2>Provenance</h2><dl.*?</dl>", re.S)
    assert told.search(alone).group() == told.search(fresh).group()
    assert "Quantities behind the verdict." in alone
    data = str(INPUTS[command](folder)[0])
    more = ["--id", "sample"] if command == "admixture" else []
    assert main(["report", str(out / "model.latent"), data, "--quiet", *more]) == 0
    assert (out / "report.html").stat().st_size < 2_000_000
    assert charts(out / "report.html")


def test_labels_later_tell_the_same_of_tasks(folder):
    """The page of model and data has the pictures of the page that the fit wrote."""
    out = run("labels", folder)
    fresh = charts(out / "report.html")
    assert main(["report", str(out / "model.latent"), str(folder / "votes.csv"), "--quiet"]) == 0
    again = charts(out / "report.html")
    assert len(again) == len(fresh)
    assert again[0]["data"] == fresh[0]["data"]


def test_without_a_summary_and_beside_a_foreign_one(folder, tmp_path):
    out = run("table", folder)
    shutil.copy(out / "model.latent", tmp_path)
    assert main(["report", str(tmp_path / "model.latent"), "--quiet"]) == 0
    assert "Command" not in (tmp_path / "report.html").read_text(encoding="utf-8")
    (tmp_path / "summary.json").write_text(json.dumps({"log_likelihood": 1.0, "command": "latentfit else"}))
    assert main(["report", str(tmp_path / "model.latent"), "--quiet"]) == 0
    assert "latentfit else" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_no_report(folder, tmp_path, capsys):
    for command in ("labels", "table"):
        out = tmp_path / command
        arguments = [str(part) for part in INPUTS[command](folder)]
        assert main([command, *arguments, "--no-report", "--quiet", "--out", str(out)]) == 0
        assert not (out / "report.html").exists()
        assert main([command, *arguments, "--quiet", "--out", "-"]) == 0
        assert "<html" not in capsys.readouterr().out
    assert not list(tmp_path.rglob("report.html"))


def test_to_stdout_and_from_stdin(folder, tmp_path, capsys, monkeypatch):
    out = run("labels", folder)
    assert main(["report", str(out / "model.latent"), "--out", "-", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
    stream = io.TextIOWrapper(io.BytesIO((folder / "votes.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert main(["labels", "-", "--out", str(tmp_path), "--quiet"]) == 0
    assert "standard input, not hashed" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("table", ["--components", "2"]),
        ("cluster", []),
        ("factors", ["--components", "2"]),
        ("admixture", ["--id", "sample", "--populations", "2"]),
    ],
)
def test_what_is_streamed_has_a_page_too(command, options, folder, tmp_path):
    path = str(INPUTS[command](folder)[0])
    assert main([command, path, *options, "--engine", "stream", "--out", str(tmp_path), "--quiet"]) == 0
    assert charts(tmp_path / "report.html")


def test_streamed_labels_tell_the_same(folder, tmp_path):
    """Whether labels lie in memory or are read part by part, the page shows the same."""
    path = str(INPUTS["labels"](folder)[0])
    for engine in ("memory", "stream"):
        assert main(["labels", path, "--engine", engine, "--out", str(tmp_path / engine), "--quiet"]) == 0
    assert charts(tmp_path / "stream" / "report.html") == charts(tmp_path / "memory" / "report.html")


def test_labels_start_without_scikit_learn(folder, tmp_path):
    """The page and the model file of a crowd cost no import that the fit avoids."""
    INPUTS["labels"](folder)
    code = (
        "import sys; from latentfit.cli.main import main; "
        f"main(['labels', {str(folder / 'votes.csv')!r}, '--out', {str(tmp_path)!r}, '--quiet']); "
        "from latentfit.core.model_file import read_model; from latentfit.labels.estimator import "
        "crowd_state, restore_crowd; "
        f"file = read_model({str(tmp_path / 'model.latent')!r}); "
        "arrays, metadata = crowd_state(restore_crowd(file.arrays, file.metadata)); "
        "assert arrays.keys() == file.arrays.keys() and metadata.items() <= file.metadata.items(); "
        "print(sorted({'sklearn', 'pandas', 'narwhals', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert (tmp_path / "report.html").exists()


def test_data_that_do_not_fit(folder, tmp_path, capsys):
    out = run("factors", folder)
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    assert main(["report", str(out / "model.latent"), str(path), "--quiet"]) == 3
    assert "has no column" in capsys.readouterr().err
