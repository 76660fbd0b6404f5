"""`tacit reproduce joint`: every key runs briefly, and CNMF-SPA-EM reaches what the paper prints."""

from __future__ import annotations

import numpy as np
import pyarrow.csv as pc
import pytest

from tacit.cli.main import main
from tacit.reproduce import keys_of
from tacit.reproduce.joint_methods import relative_error
from tacit.reproduce.joint_paper import TABLE1
from tacit.reproduce.joint_synthetic import TRUTH_EM, draw_table, draw_truth, solutions
from tacit.reproduce.table import find_data


@pytest.mark.slow
@pytest.mark.parametrize("key", keys_of("joint"))
def test_every_key_runs_briefly(key, tmp_path, capsys):
    if key != "joint:table1" and find_data() is None:
        pytest.skip("the tables are not here: set TACIT_DATA to the folder that holds tables/")
    assert main(["reproduce", key, "--quick", "--repeats", "1", "--out", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(key)
    rows = pc.read_csv(tmp_path / "results.csv").to_pylist()
    assert any(row["ours"] is not None for row in rows)
    assert all(row["note"] for row in rows if row["ours"] is None)


def test_missing_data_skips_rows_by_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    for key in ("joint:table2", "joint:table3", "joint:table4"):
        assert main(["reproduce", key, "--quick", "--out", str(tmp_path / "out")]) == 0
        assert "skipped: no " in capsys.readouterr().out


@pytest.mark.slow
def test_spa_em_is_at_the_paper_and_at_em_from_the_truth():
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth = draw_truth(rng)
        table = draw_table(truth, 10_000, rng)
        errors = {key[:2]: relative_error(key[2], truth) for key in solutions(table, truth, seed)}
        found.append((errors["CNMF-SPA-EM", "as published"], errors[TRUTH_EM, ""]))
    ours, best = np.mean(found, axis=0)
    assert ours <= TABLE1["MRE"]["CNMF-SPA-EM"][1]
    assert ours <= 1.03 * best
