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
    assert summary["verdict"] == "trusted"
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


def test_main_table_on_stdout(table, capsys):
    assert main(["factors", str(table), "--id", "sample", "--out", "-", "--json", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("sample,switch,probability,on")
