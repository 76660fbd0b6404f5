"""`latentfit communities` and `latentfit predict` with its model: files, forms of edges, sentences, exit codes."""

from __future__ import annotations

import gzip
import io
import json
import sys

import numpy as np
import pyarrow.csv as pc
import pytest

from latentfit.cli.main import main
from latentfit.simulate import block_graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    made = block_graph(200, 3, 12.0, strength=5.0, random_state=0)
    at = made.matrix.tocoo()
    pairs = [(f"n{i}", f"n{j}") for i, j in zip(at.row, at.col, strict=True) if i < j]
    (folder / "edges.csv").write_text("source,target,weight\n" + "".join(f"{a},{b},2\n" for a, b in pairs))
    (folder / "odd.csv").write_text("who,whom\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    lines = "".join(f"{a}\t{b}\n" for a, b in pairs)
    (folder / "edges.txt.gz").write_bytes(gzip.compress(b"# edges\n" + lines.encode()))
    (folder / "lines.edgelist").write_text(lines)
    return folder


def blocks(path):
    table = pc.read_csv(path).to_pydict()
    assert list(table) == ["node", "block", "probability"]
    return dict(zip(table["node"], table["block"], strict=True))


def test_files_and_summary(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["communities", str(folder / "edges.csv"), "--out", str(out), "--json", "--strict"]) == 0
    summary = json.loads((out / "summary.json").read_text())
    said = capsys.readouterr()
    assert json.loads(said.out) == summary
    assert {"command", "version", "n_rows", "n_components", "log_likelihood", "converged", "n_iter", "seconds",
            "verdict", "reasons"} <= set(summary)  # fmt: skip
    assert summary["n_components"] == 3
    assert summary["n_rows"] == sum(summary["sizes"])
    assert np.array(summary["connectivity"]).shape == (3, 3)
    assert "3 blocks" in said.err
    assert "verdict: ok" in said.err
    assert (out / "model.latent").exists()
    found = blocks(out / "communities.csv")
    assert len(found) == summary["n_rows"]


def test_every_form_of_edges_gives_the_same(folder, tmp_path):
    found = []
    for name in ("edges.csv", "odd.csv", "edges.txt.gz", "lines.edgelist"):
        assert main(["communities", str(folder / name), "--blocks", "3", "--out", str(tmp_path / name), "--quiet"]) == 0
        found.append(blocks(tmp_path / name / "communities.csv"))
    assert found[0] == found[1] == found[2] == found[3]
    named = ["--source", "who", "--target", "whom", "--degree-corrected", "yes", "--threads", "1"]
    assert main(["communities", str(folder / "odd.csv"), *named, "--out", str(tmp_path / "named"), "--quiet"]) == 0
    assert blocks(tmp_path / "named" / "communities.csv") == found[0]


def test_standard_input_and_output(folder, monkeypatch, capsys):
    stream = io.TextIOWrapper(io.BytesIO((folder / "edges.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    assert main(["communities", "-", "--blocks", "3", "--out", "-", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("node,block,probability\n")


def test_predict_known_and_new_nodes(folder, tmp_path):
    out = tmp_path / "fit"
    assert main(["communities", str(folder / "edges.csv"), "--out", str(out), "--quiet"]) == 0
    known = blocks(out / "communities.csv")
    mates = [node for node, block in known.items() if block == 1][:3]
    (tmp_path / "new.csv").write_text("source,target,weight\n" + "".join(f"newcomer,{mate},2\n" for mate in mates))
    arguments = ["predict", str(tmp_path / "new.csv"), "--model", str(out / "model.latent")]
    assert main([*arguments, "--out", str(tmp_path / "p"), "--quiet"]) == 0
    found = blocks(tmp_path / "p" / "communities.csv")
    assert found["newcomer"] == 1
    assert {node: found[node] for node in mates} == {node: known[node] for node in mates}


def test_no_communities_is_said(tmp_path, capsys):
    at = block_graph(300, 1, 4.0, random_state=1).matrix.tocoo()
    path = tmp_path / "chance.txt"
    path.write_text("".join(f"{i} {j}\n" for i, j in zip(at.row, at.col, strict=True)))
    assert main(["communities", str(path), "--blocks", "2", "--out", str(tmp_path / "two"), "--strict"]) == 1
    said = capsys.readouterr().err
    assert "not identifiable" in said
    assert "no communities" in said
    assert main(["communities", str(path), "--out", str(tmp_path / "free"), "--quiet"]) == 0
    summary = json.loads((tmp_path / "free" / "summary.json").read_text())
    assert (summary["n_components"], summary["verdict"]) == (1, "caution")


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("a b c d\n", "4 words", 3),
        ("a b -1\n", "weight -1", 3),
        ("a a\n", "no edge between two", 3),
    ],
)
def test_bad_edges(text, words, code, tmp_path, capsys):
    path = tmp_path / "edges.txt"
    path.write_text(text)
    assert main(["communities", str(path), "--out", str(tmp_path / "out")]) == code
    assert words in capsys.readouterr().err


def test_missing_file_and_too_many_blocks(tmp_path, capsys):
    assert main(["communities", str(tmp_path / "none.txt"), "--out", str(tmp_path / "out")]) == 4
    path = tmp_path / "edges.txt"
    path.write_text("a b\nb c\n")
    assert main(["communities", str(path), "--blocks", "9", "--out", str(tmp_path / "out")]) == 3
    assert "n_blocks must be an int from 1 to 3" in capsys.readouterr().err
