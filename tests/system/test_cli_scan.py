"""topics, hmm and communities on several files, folders and patterns: the results of one file read whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from latentfit.cli.main import main
from latentfit.core.model_file import read_model

pytestmark = pytest.mark.filterwarnings("ignore")


def in_two(folder, name, lines, head=()):
    """The lines in one file, and in two that a folder holds."""
    stem, _, ending = name.partition(".")
    whole, parts = folder / name, folder / stem
    parts.mkdir()
    whole.write_text("\n".join([*head, *lines]) + "\n")
    half = len(lines) // 2
    for at, some in enumerate((lines[:half], lines[half:])):
        (parts / f"{at}.{ending}").write_text("\n".join([*head, *some]) + "\n")
    return str(whole), str(parts)


def same(command, whole, parts, out, files, *options, ways=("folder", "pattern", "stream")):
    """One file in memory, then its halves as a folder and as a pattern, and the file in batches."""
    assert main([command, whole, *options, "--engine", "memory", "--out", str(out / "memory"), "--quiet"]) == 0
    given = {"folder": [parts], "pattern": [f"{parts}/*"], "stream": [whole, "--engine", "stream"]}
    given["files"] = [*sorted(map(str, Path(parts).iterdir())), "--engine", "memory"]
    for name in ways:
        assert main([command, *given[name], *options, "--out", str(out / name), "--quiet"]) == 0
        for file in files:
            assert (out / name / file).read_text() == (out / "memory" / file).read_text(), (name, file)
        mine, theirs = (read_model(out / one / "model.latent").arrays for one in (name, "memory"))
        assert {key: value.tobytes() for key, value in mine.items()} == {
            key: value.tobytes() for key, value in theirs.items()
        }
    return json.loads((out / ways[0] / "summary.json").read_text())


def test_documents(tmp_path):
    files = ["topics.csv", "documents.csv"]
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 30)
    texts = [" ".join(rng.choice(list("abcde" if one else "vwxyz"), 8)) for one in kind]
    whole, parts = in_two(tmp_path, "texts.txt", texts)
    summary = same("topics", whole, parts, tmp_path / "out-t", files, "--topics", "2", ways=("pattern",))
    assert summary["n_rows"] == 30
    assert main(["topics", parts, "--topics", "1", "--out", str(tmp_path / "out-f"), "--quiet"]) == 0
    assert json.loads((tmp_path / "out-f" / "summary.json").read_text())["n_rows"] == 2  # of a folder a file is one
    rows = [f"{at},{word},1" for at, text in enumerate(texts) for word in text.split()]
    whole, parts = in_two(tmp_path, "long.csv", rows, ["document,word,count"])
    same("topics", whole, parts, tmp_path / "out-l", files, "--topics", "2", ways=("pattern", "stream", "files"))


def test_sequences(tmp_path):
    rng = np.random.default_rng(1)
    state = (np.cumsum(rng.random(900) < 0.1) % 2) * 2 + rng.integers(0, 2, 900)
    words = np.array(list("acgN"), object)[state]
    rows = [f"s{at // 300},{word}" for at, word in enumerate(words)]
    whole, parts = in_two(tmp_path, "steps.csv", rows, ["sequence,symbol"])
    options = ("--states", "2", "--gap", "N")
    same("hmm", whole, parts, tmp_path / "out-s", ["states.csv", "parameters.csv"], *options, ways=("stream", "files"))
    whole, parts = in_two(tmp_path, "lines.txt", ["".join(words[at : at + 90]) for at in range(0, 900, 90)])
    same("hmm", whole, parts, tmp_path / "out-l", ["states.csv", "parameters.csv"], "--letters", *options)


def test_edges(tmp_path, capsys):
    rng = np.random.default_rng(2)
    ends = rng.integers(0, 20, (160, 2)) + 20 * rng.integers(0, 2, 160)[:, None]
    for name, join, head in (("web.txt", " ", []), ("friends.csv", ",", ["source,target"])):
        rows = [join.join(map(str, pair)) for pair in ends.tolist()]
        whole, parts = in_two(tmp_path, name, rows, head)
        same("communities", whole, parts, tmp_path / f"out-{name}", ["communities.csv"], "--blocks", "2")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    assert main(["communities", str(tmp_path / "empty.txt"), "--out", str(tmp_path / "e"), "--quiet"]) == 3
    assert "has no line with two words; give one edge per line" in capsys.readouterr().err


def test_what_does_not_go_together_is_said(tmp_path, capsys):
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 2\n")
    (tmp_path / "b.txt").write_text("one two\n")
    (tmp_path / "c.csv").write_text("sequence,symbol\n1,a\n1,b\n")
    a, b, c = (str(tmp_path / name) for name in ("a.mtx", "b.txt", "c.csv"))
    for arguments, sentence in (
        (["topics", a, b], "is a Matrix Market file, and only one is read; give it alone"),
        (["topics", b, b, "--words", b], "has words of its own; leave it"),
        (["hmm", b, c], "scan files of one kind"),
        (["hmm", c, c, "--letters"], "--letters is for text files"),
        (["communities", str(tmp_path / "*.none")], "no file matches"),
    ):
        assert main([*arguments, "--out", str(tmp_path / "out"), "--quiet"]) in (3, 4)
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
