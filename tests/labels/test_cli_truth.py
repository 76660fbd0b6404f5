"""`latentfit labels` with known answers: actual error against the stated one, known answers held fixed in the fit."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from latentfit.cli.main import main

N_TASKS = 300


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Votes of ten workers, their truth, and answers to other questions under the same names."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=N_TASKS)
    right = rng.random((N_TASKS, 10)) < rng.uniform(0.65, 0.9, 10)
    said = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, (N_TASKS, 10))) % 3)
    tasks, workers = np.repeat(np.arange(N_TASKS), 10), np.tile(np.arange(10), N_TASKS)
    pd.DataFrame({"task": tasks, "worker": workers, "label": said.ravel()}).to_csv(tmp_path / "votes.csv", index=False)
    other = rng.permutation(truth)
    for name, answers in {"truth": truth, "other": other, "gold": truth[:60], "wrong_gold": other[:60]}.items():
        frame = pd.DataFrame({"task": np.arange(len(answers)), "label": answers})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def summary_of(folder, *arguments):
    assert main(["labels", "votes.csv", *arguments, "--out", "out", "--quiet"]) == 0
    return json.loads((folder / "out" / "summary.json").read_text())


def checks_of(summary):
    return {check["name"]: check for check in summary["checks"]}


def test_the_actual_error_is_compared_with_the_stated_one(files):
    summary = summary_of(files, "--truth", "truth.csv")
    expected = summary["expected"]
    assert expected["low"] <= summary["error_rate"] <= expected["high"]
    assert summary["verdict"] == "ok"
    assert checks_of(summary)["actual_error"]["value"] == summary["error_rate"]
    assert sum(one["n_tasks"] for one in summary["reliability"]) == N_TASKS
    right = sum(one["n_tasks"] * one["actual"] for one in summary["reliability"])
    assert right / N_TASKS == pytest.approx(1 - summary["error_rate"])
    stated = sum(one["n_tasks"] * one["stated"] for one in summary["reliability"])
    assert stated / N_TASKS == pytest.approx(1 - expected["value"])
    page = (files / "out" / "report.html").read_text()
    assert "Reliability curve" in page
    assert "Stated against actual" in page


def test_an_error_outside_the_stated_interval_is_never_ok(files):
    summary = summary_of(files, "--truth", "other.csv")
    assert summary["error_rate"] > summary["expected"]["high"]
    assert summary["verdict"] == "caution"
    assert any("outside the stated interval" in reason for reason in summary["reasons"])
    assert main(["labels", "votes.csv", "--truth", "other.csv", "--out", "out", "--quiet", "--strict"]) == 1
    assert "outside the stated interval" in (files / "out" / "report.html").read_text()


def test_without_truth_nothing_is_compared(files):
    summary = summary_of(files)
    assert "actual_error" not in checks_of(summary)
    assert "Reliability curve" not in (files / "out" / "report.html").read_text()
    assert "80% interval" in summary["expected"]["sentence"]


@pytest.mark.parametrize(("gold", "passed"), [("gold.csv", True), ("wrong_gold.csv", False)])
def test_known_answers_are_held_against_the_labels(files, gold, passed):
    summary = summary_of(files, "--gold", gold)
    assert checks_of(summary)["known_answers"]["passed"] == passed
    assert "of 60 known answers the labels alone get" in summary["expected"]["sentence"]
    assert (summary["verdict"] == "ok") == passed


def test_skipped_checks_are_said_to_be_skipped(files):
    summary = summary_of(files, "--no-checks", "--truth", "truth.csv")
    assert summary["verdict"] == "caution"
    assert summary["expected"] is None
    assert [check["name"] for check in summary["checks"]] == ["checks_made"]
    assert summary["error_rate"] < 0.2
