"""`latentfit factors`: files, exit codes, and a saved model on new rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from latentfit.cli.main import main
from latentfit.simulate import binary_factors


@pytest.fixture
def table(tmp_path):
    data = binary_factors(2000, m=10, d=3, sigma=0.15, random_state=1)
    frame = pd.DataFrame(data.X, columns=[f"g{n}" for n in range(10)])
    frame.insert(0, "sample", [f"s{n}" for n in range(2000)])
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    return path


def test_writes_switches_weights_model_and_summary(table, tmp_path):
    out = tmp_path / "out"
    assert main(["factors", str(table), "--id", "sample", "--out", str(out), "--strict", "--quiet"]) == 0
    switches = pd.read_csv(out / "switches.csv")
    assert switches.columns.tolist() == ["sample", "switch", "probability", "on"]
    assert len(switches) == 6000
    assert set(switches["on"]) == {0, 1}
    weights = pd.read_csv(out / "weights.csv")
    assert weights.columns.tolist() == ["switch", "feature", "weight"]
    assert len(weights) == 30
    summary = json.loads((out / "summary.json").read_text())
    assert summary["n_components"] == 3
    assert summary["verdict"] == "ok"
    assert summary["noise"] == pytest.approx(0.15, abs=0.01)
    again = tmp_path / "again"
    model = str(out / "model.latent")
    assert main(["predict", str(table), "--id", "sample", "--model", model, "--out", str(again), "--quiet"]) == 0
    np.testing.assert_allclose(pd.read_csv(again / "switches.csv")["probability"], switches["probability"], atol=1e-12)


def test_options_and_errors(table, tmp_path, capsys):
    out = str(tmp_path / "out")
    arguments = ["factors", str(table), "--id", "sample", "--out", out, "--quiet"]
    assert main([*arguments, "--components", "2", "--refine", "none", "--search", "newton"]) == 0
    assert main([*arguments, "--components", "2", "--strict"]) == 1  # a third switch is in the eigenvalues
    assert main(["factors", str(table), "--out", out]) == 3
    assert "give --id sample" in capsys.readouterr().err
    assert main([*arguments, "--components", "40"]) == 2
    assert main(["factors", str(tmp_path / "none.csv"), "--out", out]) == 4
    model = str(tmp_path / "out" / "model.latent")
    assert main(["predict", str(table), "--model", model, "--target", "g0", "--out", out]) == 3
    assert "leave --target out" in capsys.readouterr().err
    short = tmp_path / "short.csv"
    pd.read_csv(table).drop(columns="g3").to_csv(short, index=False)
    assert main(["predict", str(short), "--model", model, "--out", out]) == 3
    assert "no column 'g3'" in capsys.readouterr().err


def write_csv(path, values, names="abcdef", **options):
    pd.DataFrame(values, columns=list(names)).to_csv(path, index=False, **options)
    return str(path)


@pytest.fixture
def incomplete():
    X = binary_factors(600, m=6, d=2, sigma=0.1, random_state=1).X
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    return X


@pytest.mark.parametrize("word", ["NA", "?", "-"])
def test_words_for_missing_values_are_answered_with_the_option(incomplete, word, tmp_path, capsys):
    path = write_csv(tmp_path / "rows.csv", incomplete, na_rep=word)
    assert main(["factors", path, "--out", str(tmp_path / "out"), "--quiet"]) == 3
    said = capsys.readouterr().err
    assert "leave the cell empty, or give --missing" in said
    assert main(["factors", path, "--missing", word, "--out", str(tmp_path / "out"), "--quiet"]) == 0


def test_a_column_without_values_can_be_saved_and_used(incomplete, tmp_path):
    incomplete[:, 2] = np.nan
    path, out = write_csv(tmp_path / "rows.csv", incomplete), tmp_path / "out"
    assert main(["factors", path, "--out", str(out), "--quiet"]) == 0
    again = str(tmp_path / "again")
    assert main(["predict", path, "--model", str(out / "model.latent"), "--out", again, "--quiet"]) == 0


def test_several_incomplete_files_are_read_with_the_engine_memory(incomplete, tmp_path, capsys):
    write_csv(tmp_path / "1.csv", incomplete[:300])
    write_csv(tmp_path / "2.csv", incomplete[300:])
    arguments = ["factors", str(tmp_path / "*.csv"), "--out", str(tmp_path / "out"), "--quiet"]
    assert main([*arguments, "--engine", "stream"]) == 3
    assert "--engine memory" in capsys.readouterr().err
    assert main([*arguments, "--engine", "memory"]) == 0


def test_main_table_on_stdout(table, capsys):
    assert main(["factors", str(table), "--id", "sample", "--out", "-", "--json", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("sample,switch,probability,on")
