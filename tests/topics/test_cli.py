"""`latentfit topics` and `latentfit predict` with its model: every kind of file, columns, summary, sentences."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow.csv as pc
import pytest
from scipy.io import mmwrite

from latentfit.cli.main import main
from latentfit.simulate import topic_documents

SUMMARY = {"command", "version", "n_rows", "n_components", "log_likelihood", "converged", "n_iter", "seconds",
           "verdict", "reasons"}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("topics")
    counts = topic_documents(200, 50, 2, length=30, random_state=0).counts
    dense = counts.toarray()
    dense[0] += 1  # every word occurs
    lines = [" ".join(f"w{n:02d}" for n in np.repeat(np.arange(50), row)) for row in dense]
    (folder / "docs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with gzip.open(folder / "docs.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    rows = [f"{d + 1},w{w:02d},{dense[d, w]}" for d, w in zip(*dense.nonzero(), strict=True)]
    (folder / "docs.csv").write_text("document,word,count\n" + "\n".join(rows) + "\n", encoding="utf-8")
    mmwrite(folder / "docs.mtx", counts.__class__(dense))
    (folder / "words.txt").write_text("\n".join(f"w{n:02d}" for n in range(50)) + "\n", encoding="utf-8")
    return folder


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize("name", ["docs.txt", "docs.txt.gz", "docs.csv", "docs.mtx"])
def test_every_kind_of_file_gives_the_same(files, tmp_path, name, capsys):
    more = ["--words", files / "words.txt"] if name.endswith("mtx") else []
    assert run("topics", files / name, "--topics", 2, "--out", tmp_path, "--json", *more) == 0
    summary = json.loads(capsys.readouterr().out)
    assert set(summary) >= SUMMARY
    assert (summary["n_rows"], summary["n_components"], summary["verdict"]) == (200, 2, "ok")
    topics, documents = (pc.read_csv(tmp_path / f"{stem}.csv").to_pydict() for stem in ("topics", "documents"))
    assert list(topics) == ["topic", "word", "probability", "rank"]
    assert list(documents) == ["document", "topic", "proportion"]
    assert len(topics["word"]) == 100
    assert topics["rank"][:50] == list(range(1, 51))
    assert (np.diff(topics["probability"][:50]) <= 0).all()
    assert sum(topics["probability"][:50]) == pytest.approx(1)
    assert documents["document"][:4] == [1, 1, 2, 2]
    assert summary["top_words"][0][0] == topics["word"][0]
    np.testing.assert_allclose(np.add.reduceat(documents["proportion"], range(0, 400, 2)), 1.0)


def test_predict_gives_the_fitted_proportions(files, tmp_path, capsys):
    assert run("topics", files / "docs.txt", "--topics", 2, "--out", tmp_path / "fit", "--quiet") == 0
    model = tmp_path / "fit" / "model.latent"
    assert run("predict", files / "docs.csv", "--model", model, "--out", tmp_path / "new", "--quiet") == 0
    fitted, found = (pc.read_csv(tmp_path / name / "documents.csv") for name in ("fit", "new"))
    assert fitted.equals(found)
    assert run("predict", files / "docs.mtx", "--model", model, "--out", tmp_path / "matrix", "--quiet") == 0
    assert pc.read_csv(tmp_path / "matrix" / "documents.csv").equals(fitted)
    (tmp_path / "odd.txt").write_text("w01 w01 other\n\nunknown\n", encoding="utf-8")
    assert run("predict", tmp_path / "odd.txt", "--model", model, "--out", tmp_path / "odd") == 0
    assert "2 words were not in the fit" in " ".join(capsys.readouterr().err.split())
    odd = pc.read_csv(tmp_path / "odd" / "documents.csv").to_pydict()
    assert odd["document"] == [1, 1, 2, 2, 3, 3]
    assert odd["proportion"][2:4] == odd["proportion"][4:6]


def test_initialisations_can_be_given(files, tmp_path):
    assert run("topics", files / "docs.txt", "--topics", 2, "--out", tmp_path / "one", "--quiet") == 0
    for start in ("topics.csv", "model.latent"):
        out = tmp_path / start
        assert run("topics", files / "docs.csv", "--init", tmp_path / "one" / start, "--out", out, "--quiet") == 0
        assert json.loads((out / "summary.json").read_text())["n_components"] == 2


def test_strict_and_stdout(files, tmp_path, capsys):
    (tmp_path / "noise.txt").write_text("\n".join(["a b c d e f"] * 60) + "\n", encoding="utf-8")
    arguments = ["topics", tmp_path / "noise.txt", "--topics", 2, "--out", "-", "--quiet"]
    assert run(*arguments, "--strict") == 1
    assert capsys.readouterr().out.startswith("topic,word,probability,rank\n")
    assert run(*arguments) == 0


@pytest.mark.parametrize(
    ("name", "content", "code", "sentence"),
    [
        ("empty.txt", b"\n \n", 3, "holds no word; write one document per line"),
        ("odd.txt", b"caf\xff noir\n", 3, "line 1: byte 0xff at position 4 is not UTF-8"),
        ("broken.mtx", b"%%MatrixMarket matrix\n3 x\n", 3, "cannot be read as Matrix Market"),
        ("cut.txt.gz", gzip.compress(b"many words here\n" * 500, mtime=0)[:40], 3, "ends in the middle of its gzip"),
        ("none.csv", b"document,count\n1,2\n", 3, "has the columns ['document', 'count']; give document, word"),
        ("minus.csv", b"document,word,count\n1,a,-2\n", 3, "Negative values in data passed as counts"),
    ],
)
def test_broken_files_get_one_sentence(tmp_path, capsys, name, content, code, sentence):
    (tmp_path / name).write_bytes(content)
    assert run("topics", tmp_path / name, "--out", tmp_path / "out", "--quiet") == code
    said = capsys.readouterr().err
    assert said.startswith("latentfit: ")
    assert sentence in said


def test_words_must_fit_the_matrix(files, tmp_path, capsys):
    (tmp_path / "few.txt").write_text("a\nb\n", encoding="utf-8")
    assert run("topics", files / "docs.mtx", "--words", tmp_path / "few.txt", "--out", tmp_path / "out") == 3
    assert "names 2 words, and the documents have 50" in capsys.readouterr().err
    assert run("topics", files / "docs.txt.gone", "--out", tmp_path / "out") == 4
