"""`latentfit cluster` as a user meets it: files, options, rules for odd input, sentences."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from latentfit import load
from latentfit.cli.main import main
from latentfit.io.write import write_columns

ALWAYS = {"command", "version", "n_rows", "n_components", "log_likelihood", "converged", "n_iter", "seconds"}
CRITERIA = ["statistical", "aic", "aic3", "bic", "sabic", "icl"]


def made(seed=0, n=240, columns=10):
    """Two clusters that most columns tell apart, in yes and no, with missing values; and which row is of which."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, n)
    high = rng.random(columns) < 0.5
    probability = np.where(hidden[:, None] == high[None, :], 0.85, 0.15)
    said = rng.random((n, columns)) < probability
    gap = rng.random((n, columns)) < 0.08
    words = {f"s{c}": [None if g else ("no", "Yes")[int(v)] for v, g in zip(said[:, c], gap[:, c], strict=True)]
             for c in range(columns)}  # fmt: skip
    return {"patient": [f"p{i}" for i in range(n)], **words}, hidden


@pytest.fixture
def symptoms(tmp_path):
    columns, hidden = made()
    columns["weight"] = np.where(np.arange(len(hidden)) % 2, 1.5, 0.5)
    path = tmp_path / "symptoms.csv"
    write_columns(pa.table(columns), path, format="csv")
    return path, hidden


def fit(path, out, *more):
    arguments = ["cluster", str(path), "--id", "patient", "--weights", "weight", "--threads", "1"]
    return main([*arguments, "--out", str(out), *more])


def agreement(found, hidden):
    same = float(np.mean(np.asarray(found) == hidden))
    return max(same, 1 - same)


def test_cluster_writes_everything(symptoms, tmp_path, capsys):
    path, hidden = symptoms
    out = tmp_path / "out"
    assert fit(path, out, "--json") == 0
    said = capsys.readouterr()
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(said.out) == summary
    assert ALWAYS | {"verdict", "reasons", "n_columns", "weights", "chosen"} <= set(summary)
    assert (summary["n_rows"], summary["n_components"], summary["n_columns"]) == (240, 2, 10)
    assert set(summary["chosen"]) == {*CRITERIA, "practical"}
    assert sum(summary["weights"]) == pytest.approx(1)
    clusters = pc.read_csv(out / "clusters.csv")
    assert clusters.column_names == ["patient", "cluster", "probability"]
    assert clusters["patient"].to_pylist() == [f"p{i}" for i in range(240)]
    assert agreement(clusters["cluster"].to_pylist(), hidden) > 0.93
    assert min(clusters["probability"].to_pylist()) >= 0.5
    frequencies = pc.read_csv(out / "frequencies.csv").to_pydict()
    assert list(frequencies) == ["cluster", "column", "probability", "low", "high"]
    assert len(frequencies["cluster"]) == 20
    low, middle, high = (np.array(frequencies[name]) for name in ("low", "probability", "high"))
    assert (low <= middle).all()
    assert (middle <= high).all()
    purity = pc.read_csv(out / "purity.csv")
    assert {"cluster", "pair", "pair_z", "pair_null_quantile", "eigenvalue", "p_value", "flagged", "impurity"} <= set(
        purity.column_names
    )
    assert purity.column_names[-3:] == ["certified_impurity", "suspect_pair", "suspect_columns"]
    assert purity.num_rows == 2
    path_file = pc.read_csv(out / "path.csv")
    assert path_file.column_names == ["n_components", "log_likelihood", "step", "entropy", *CRITERIA, "informative"]
    assert path_file["n_components"].to_pylist() == list(range(1, path_file.num_rows + 1))
    assert {p.name for p in out.iterdir()} == {
        "clusters.csv", "frequencies.csv", "model.latent", "path.csv", "purity.csv", "report.html",
            "summary.json",
    }  # fmt: skip
    for words in ("2 clusters", "verdict", "furthest from the rest", "wrote"):
        assert words in said.err


def test_the_number_may_be_given_or_chosen_by_another_rule(symptoms, tmp_path):
    path, _ = symptoms
    assert fit(path, tmp_path / "three", "--components", "3", "--quiet") == 0
    assert json.loads((tmp_path / "three" / "summary.json").read_text())["n_components"] == 3
    assert set(pc.read_csv(tmp_path / "three" / "frequencies.csv")["cluster"].to_pylist()) == {0, 1, 2}
    assert fit(path, tmp_path / "stat", "--select", "statistical", "--quiet") == 0
    summary = json.loads((tmp_path / "stat" / "summary.json").read_text())
    assert summary["n_components"] == summary["chosen"]["statistical"]
    assert fit(path, tmp_path / "x", "--select", "guess") == 2
    assert fit(path, tmp_path / "x", "--components", "0", "--quiet") == 2


def test_numbers_are_cut(tmp_path, capsys):
    columns, hidden = made(1)
    rng = np.random.default_rng(0)
    counts = {name: [None if v is None else (int(rng.integers(1, 9)) if v == "Yes" else 0) for v in cells]
              for name, cells in columns.items() if name != "patient"}  # fmt: skip
    path = tmp_path / "counts.csv"
    write_columns(pa.table(counts), path, format="csv")
    assert main(["cluster", str(path), "--out", str(tmp_path / "no"), "--quiet"]) == 3
    assert "binarize= (--binarize) to cut numbers at a threshold" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
    assert main(["cluster", str(path), "--binarize", "0", "--out", str(tmp_path / "cut"), "--quiet"]) == 0
    clusters = pc.read_csv(tmp_path / "cut" / "clusters.csv")
    assert clusters.column_names == ["row", "cluster", "probability"]
    assert clusters["row"].to_pylist()[:3] == [1, 2, 3]
    assert agreement(clusters["cluster"].to_pylist(), hidden) > 0.93


def test_near_duplicates_are_listed(tmp_path, capsys):
    columns, _ = made(2, n=400, columns=14)
    columns["again"] = columns["s3"]
    path = tmp_path / "t.csv"
    write_columns(pa.table(columns), path, format="csv")
    out = tmp_path / "out"
    assert main(["cluster", str(path), "--id", "patient", "--out", str(out)]) == 0
    copies = pc.read_csv(out / "copies.csv")
    assert copies.column_names == ["column", "copies", "correlation"]
    assert {copies["column"][0].as_py(), copies["copies"][0].as_py()} == {"again", "s3"}
    assert copies.num_rows == 1
    assert "copies.csv" in capsys.readouterr().err
    assert "again" in pc.read_csv(out / "frequencies.csv")["column"].to_pylist()
    assert json.loads((out / "summary.json").read_text())["n_columns"] == 15


def test_strict_tells_programs(symptoms, tmp_path):
    path, _ = symptoms
    verdict = fit(path, tmp_path / "two", "--strict", "--quiet")
    summary = json.loads((tmp_path / "two" / "summary.json").read_text())
    assert verdict == (0 if summary["verdict"] == "ok" else 1)
    narrow = tmp_path / "narrow.csv"
    rng = np.random.default_rng(0)
    columns = {"a": rng.integers(0, 2, 80), "b": rng.integers(0, 2, 80)}
    write_columns(pa.table(columns), narrow, format="csv")
    arguments = ["cluster", str(narrow), "--components", "2", "--out", str(tmp_path / "n"), "--quiet"]
    assert main(arguments) == 0
    assert main([*arguments, "--strict"]) == 1
    summary = json.loads((tmp_path / "n" / "summary.json").read_text())
    assert summary["verdict"] == "not identifiable"
    assert any("2 columns vary, too few to tell 2 clusters apart" in reason for reason in summary["reasons"])


def test_a_saved_model_puts_new_rows_into_clusters(symptoms, tmp_path, capsys):
    path, _ = symptoms
    assert fit(path, tmp_path / "out", "--quiet") == 0
    model = str(tmp_path / "out" / "model.latent")
    arguments = ["predict", str(path), "--model", model, "--id", "patient"]
    assert main([*arguments, "--out", str(tmp_path / "p")]) == 0
    assert "240 rows: their class predicted" in capsys.readouterr().err
    predicted = pc.read_csv(tmp_path / "p" / "predictions.csv")
    clusters = pc.read_csv(tmp_path / "out" / "clusters.csv")
    assert predicted.column_names == ["patient", "value", "probability"]
    assert predicted["value"].equals(clusters["cluster"])
    assert np.allclose(predicted["probability"].to_numpy(), clusters["probability"].to_numpy())
    assert main([*arguments, "--target", "s0", "--out", str(tmp_path / "t")]) == 3
    assert "holds a BernoulliMixture, which predicts clusters; leave --target out" in capsys.readouterr().err
    again = load(model)
    assert again.n_components_ == 2
    assert again.purity_.num_rows == 2
    lacking = tmp_path / "lacking.csv"
    lacking.write_text("patient,s0\np1,yes\n")
    assert main(["predict", str(lacking), "--model", model, "--out", str(tmp_path / "l")]) == 3
    assert "the file has no column 's1'" in capsys.readouterr().err


def test_stdout_has_the_clusters_and_nothing_else(symptoms, tmp_path, capsys, monkeypatch):
    path, _ = symptoms
    monkeypatch.chdir(tmp_path)
    assert fit(path, "-", "--components", "2") == 0
    said = capsys.readouterr()
    clusters = pc.read_csv(io.BytesIO(said.out.encode()))
    assert clusters.column_names == ["patient", "cluster", "probability"]
    assert clusters.num_rows == 240
    assert "verdict" in said.err
    assert [p.name for p in tmp_path.iterdir()] == ["symptoms.csv"]


def test_other_formats_and_an_id_with_a_taken_name(tmp_path):
    columns, _ = made(3)
    table = pa.table({"cluster" if name == "patient" else name: cells for name, cells in columns.items()})
    path = tmp_path / "t.parquet"
    write_columns(table, path, format="parquet")
    arguments = ["cluster", str(path), "--id", "cluster", "--components", "2", "--format", "jsonl", "--quiet"]
    assert main([*arguments, "--out", str(tmp_path / "o")]) == 0
    first = json.loads((tmp_path / "o" / "clusters.jsonl").read_text().splitlines()[0])
    assert first["row"] == "p0"
    assert first["cluster"] in (0, 1)


BAD = {
    "column 'b' holds 'maybe' in row 2": "a,b\nyes,no\nno,maybe\n",
    "column 'a' holds 2 in row 3": "a,b\n1,0\n0,1\n2,0\n",
    "none of the 2 columns holds a value": "a,b\n,\n,\n",
    "no rows": "a,b\n",
    "line 3": "a,b\n1,0\n1\n",
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_tables_get_one_sentence(sentence, tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text(BAD[sentence])
    assert main(["cluster", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 3
    said = capsys.readouterr().err.strip()
    assert sentence in said.replace("'2'", "2")
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_files_that_are_streamed_give_what_memory_gives(tmp_path):
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, 500)
    rows = np.where(rng.random((500, 8)) < 0.85, hidden[:, None], 1 - hidden[:, None])
    lines = [",".join("abcdefgh"), *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "whole.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "1.csv").write_text("\n".join(lines[:200]) + "\n")
    (tmp_path / "parts" / "2.csv").write_text("\n".join([lines[0], *lines[200:]]) + "\n")
    assert main(["cluster", str(tmp_path / "whole.csv"), "--quiet", "--out", str(tmp_path / "memory")]) == 0
    assert main(["cluster", str(tmp_path / "parts"), "--quiet", "--out", str(tmp_path / "stream")]) == 0
    for name in ("clusters.csv", "frequencies.csv", "purity.csv", "path.csv"):
        assert (tmp_path / "stream" / name).read_text() == (tmp_path / "memory" / name).read_text()


def test_every_column_can_be_kept(tmp_path):
    columns, _ = made(2, n=400, columns=14)
    columns["again"] = columns["s3"]
    path = tmp_path / "t.csv"
    write_columns(pa.table(columns), path, format="csv")
    out = tmp_path / "out"
    assert main(["cluster", str(path), "--id", "patient", "--out", str(out), "--no-screen", "--components", "2"]) == 0
    assert not (out / "copies.csv").exists()
    assert len(load(out / "model.latent").profiles_) == 15


def test_rows_of_zeros_that_are_never_recorded(tmp_path, capsys):
    rows = np.random.default_rng(0).random((3_000, 12)) < 0.12
    path = tmp_path / "baskets.csv"
    there = rows[rows.any(axis=1)].astype(int)
    write_columns(pa.table({f"d{n}": there[:, n] for n in range(12)}), path, format="csv")
    assert main(["cluster", str(path), "--out", str(tmp_path / "as it is")]) == 0
    assert "(--truncated)" in capsys.readouterr().err
    assert main(["cluster", str(path), "--out", str(tmp_path / "out"), "--truncated"]) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["n_components"] == 1
    assert [check["name"] for check in summary["checks"] if not check["passed"]] == ["structure"]
    assert summary["n_unseen"] == pytest.approx((~rows.any(axis=1)).sum(), rel=0.15)


def test_the_search_limit_is_said_and_can_be_raised(symptoms, tmp_path, capsys):
    path, _ = symptoms
    assert fit(path, tmp_path / "one", "--max-components", "1") == 0
    assert "The search limit (1) was reached" in capsys.readouterr().err
    assert fit(path, tmp_path / "two", "--max-components", "6") == 0
    assert "search limit" not in capsys.readouterr().err
