"""`latentfit predict` with a saved `PairMatrix`: probabilities of the pairs of a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from latentfit import load
from latentfit.cli.main import main

MODEL = str(Path(__file__).parents[1] / "system" / "models" / "PairMatrix-0.1.0.tacit")


def test_pairs_of_a_file_get_their_probabilities(tmp_path, capsys):
    file = tmp_path / "new.csv"
    file.write_text("word,context\nword03,word01\nword02,nobody\n")
    assert main(["predict", str(file), "--model", MODEL, "--out", str(tmp_path / "out"), "--json", "--quiet"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["n_rows"] == 2
    assert summary["n_unknown"] == 1
    got = pd.read_csv(tmp_path / "out" / "predictions.csv")
    assert list(got.columns) == ["row", "column", "probability", "lift"]
    B = load(MODEL).reconstruct()
    assert np.isclose(got["probability"][0], B.probability("word03", "word01"))
    assert np.isclose(got["lift"][0], B.lift(["word03"], ["word01"])[0, 0])
    assert np.isnan(got["probability"][1])


def test_a_file_without_pairs_gets_one_sentence(tmp_path, capsys):
    file = tmp_path / "odd.csv"
    file.write_text("weight,height\n1,2\n")
    assert main(["predict", str(file), "--model", MODEL, "--out", str(tmp_path / "out")]) == 3
    assert "has no column for the row item" in capsys.readouterr().err
