"""Checks, the verdict that follows from them, and the report of a fit."""

from __future__ import annotations

import pytest

from latentfit.core.verdict import (
    Check,
    Examiner,
    Expectation,
    FitReport,
    checks_are_skipped,
    skipped_checks,
    unchecked,
)


@pytest.mark.parametrize(("number", "passed"), [(9.9, False), (10, True)])
def test_ten_rows_are_asked_for(number, passed):
    examiner = Examiner()
    assert examiner.check_size(number, "rows") == passed
    assert examiner.check_converged(passed) == passed
    outcome = examiner.conclude()
    assert outcome.verdict == ("ok" if passed else "caution")
    assert [check.passed for check in outcome.checks] == [passed, passed]
    assert len(outcome.reasons) == (0 if passed else 2)


def test_the_worst_failed_check_is_the_verdict_and_comes_first():
    examiner = Examiner()
    examiner.check("few", "Few", False, "few rows", value=3, limit=10)
    examiner.check("rank", "Rank", False, "no rank", level="not identifiable")
    examiner.check("fine", "Fine", True, "never said", level="not identifiable")
    outcome = examiner.conclude()
    assert (outcome.verdict, outcome.reasons) == ("not identifiable", ["no rank", "few rows"])
    assert outcome.checks[2].reason == ""


def test_ok_is_a_statement_about_checks():
    checks = [Check("a", "A", True), Check("b", "B", True)]
    report = FitReport("ok", [], {}, [], {}, checks, Expectation("error", 0.1, sentence="The model expects 10 %."))
    assert "No problem found by 2 checks." in str(report)
    assert "The model expects 10 %." in str(report)
    assert "The model expects 10 %." in report._repr_html_()


def test_skipped_checks_are_no_verdict_of_ok():
    with skipped_checks():
        assert checks_are_skipped()
    assert not checks_are_skipped()
    assert unchecked().verdict == "caution"
    assert "--no-checks" in unchecked().reasons[0]


def test_a_report_has_words_and_html():
    report = FitReport("caution", ["a < b"], {}, ["a note"], {"EM": 1.23456, "start": 0.5})
    said = "verdict: caution. Use this result with caution."
    assert str(report) == f"{said}\n  - a < b\nnote: a note\nseconds: EM 1.235, start 0.500"
    html = report._repr_html_()
    assert "#9a6700" in html
    assert "a &lt; b" in html
    assert "EM 1.235, start 0.500" in html
