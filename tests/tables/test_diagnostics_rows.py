"""Repeated, removed and named rows; codes for questions not asked; columns that measure the same thing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from latentfit import LatentClass
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table, group_rows
from latentfit.core.verdict import Examiner
from latentfit.tables.diagnostics import verdict as tables
from latentfit.tables.diagnostics.classes import Refits
from latentfit.tables.diagnostics.item_response import Trait
from latentfit.tables.diagnostics.local_dependence import ClassPath, Rival, best_rival, class_path, join_columns
from latentfit.tables.diagnostics.pairs import determined_categories
from latentfit.tables.diagnostics.rows import AbsentRow, RepeatedRows, most_absent_row, repeated_rows, rows_per_category


def failed(report):
    return {check.name for check in report.checks if not check.passed}


def two_classes(seed, n=600, n_items=8, low=0.2):
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(n, 1))
    return pd.DataFrame((rng.random((n, n_items)) < np.where(kind, 1 - low, low)).astype(int)).add_prefix("q")


def table_of(codes, sizes=None):
    codes = np.asarray(codes, np.uint8)
    sizes = [2] * codes.shape[1] if sizes is None else sizes
    return Table(codes, tuple(Column(f"c{n}", np.arange(s)) for n, s in enumerate(sizes)))


def even(n_items, yes=(0.8, 0.2)):
    offsets = np.arange(0, 2 * n_items + 1, 2).astype(np.int32)
    return Mixture(np.array([0.5, 0.5]), np.array([[1 - p for p in yes], list(yes)] * n_items), offsets)


@pytest.mark.parametrize("seed", range(2))
def test_a_file_appended_to_itself_is_noticed(seed):
    frame = two_classes(seed)
    assert failed(LatentClass(2).fit(frame).report_) == set()
    assert "duplicated_rows" in failed(LatentClass(2).fit(pd.concat([frame, frame])).report_)


def test_rare_rows_that_repeat_are_counted():
    rng = np.random.default_rng(0)
    codes = (rng.random((200, 16)) < np.where(rng.integers(2, size=(200, 1)), 0.8, 0.2)).astype(np.uint8)
    once, twice = (repeated_rows(group_rows(table_of(c)), even(16)) for c in (codes, np.vstack([codes, codes[:60]])))
    assert once.divisor == twice.divisor == 1
    assert once.excess < 0.05 < twice.excess
    assert twice.n_repeated - once.n_repeated > 30


@pytest.mark.parametrize(
    ("found", "passed"),
    [
        (RepeatedRows(1, 200, 11, 1.0), True),  # one in twenty beyond those expected
        (RepeatedRows(1, 200, 12, 1.0), False),
        (RepeatedRows(1, 20, 9, 0.0), True),  # too few to say
        (RepeatedRows(2, 0, 0, 0.0), False),
    ],
)
def test_one_in_twenty_rare_rows_may_repeat_another(found, passed, monkeypatch):
    monkeypatch.setattr(tables, "repeated_rows", lambda table, mixture: found)
    examiner = Examiner()
    tables._examine_rows(examiner, table_of(np.random.default_rng(0).integers(2, size=(50, 4))), even(4))
    assert next(check for check in examiner.checks if check.name == "duplicated_rows").passed == passed


def test_rows_that_were_removed_are_missed():
    frame = two_classes(0, 3000, 6, 0.1)
    assert failed(LatentClass(2).fit(frame).report_) == set()
    found = LatentClass(2).fit(frame[frame.any(axis=1)]).report_
    assert "absent_rows" in failed(found)
    assert any("q0=0, q1=0" in reason and "removed" in reason for reason in found.reasons)


def test_what_is_expected_of_a_frequent_row_are_its_neighbours_or_the_model():
    codes = np.repeat(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]), [0, 30, 60, 90, 100], axis=0)
    found = most_absent_row(table_of(codes), even(3, (0.999, 0.001)))
    assert (found.codes, found.observed) == ([0, 0, 0], 0)
    assert found.expected == pytest.approx(max((30 + 60 + 90) / 3, 280 * (0.5 * 0.999**3 + 0.5 * 0.001**3)))
    with_gaps = codes.copy()
    with_gaps[0, :] = 255
    assert most_absent_row(table_of(with_gaps), even(3)) is None


@pytest.mark.parametrize(("observed", "passed"), [(5.0, False), (6.0, True)])
def test_a_twentieth_of_the_rows_expected_is_enough(observed, passed, monkeypatch):
    monkeypatch.setattr(tables, "most_absent_row", lambda table, mixture: AbsentRow([0, 0, 1, -1], 100.0, observed))
    examiner = Examiner()
    tables._examine_rows(examiner, table_of(np.random.default_rng(0).integers(2, size=(50, 4))), even(4))
    assert next(check for check in examiner.checks if check.name == "absent_rows").passed == passed


@pytest.mark.parametrize(("n_names", "passed"), [(100, True), (101, False)])
def test_a_column_needs_three_rows_per_category(n_names, passed):
    codes = np.column_stack([np.arange(300) % n_names, np.arange(300) % 2, np.arange(300) % 3])
    table = table_of(codes, [n_names, 2, 3])
    assert rows_per_category(table)[0] == pytest.approx(300 / n_names)
    assert np.isinf(rows_per_category(table)[1:]).all()
    sizes = [n_names, 2, 3]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    mixture = Mixture(np.ones(1), np.concatenate([np.full((s, 1), 1 / s) for s in sizes]), offsets)
    examiner = Examiner()
    tables._examine_rows(examiner, table, mixture)
    assert next(check for check in examiner.checks if check.name == "identifier_columns").passed == passed


def test_codes_for_questions_not_asked_are_found_in_counts():
    """Column 1 (three categories) has its last one just where column 0 has its first."""
    codes = np.array([[0, 2, 0]] * 30 + [[0, 2, 1]] * 30 + [[1, 0, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]] * 35)
    gram = np.zeros((7, 7))
    offsets = np.array([0, 2, 5, 7], np.int32)
    for row in codes:
        cells = offsets[:-1] + row
        gram[np.ix_(cells, cells)] += 1
    found = determined_categories(gram, offsets, 50, 0.01)
    assert [(one.cell, one.column, one.n_rows) for one in found] == [(4, 0, 60)]
    assert determined_categories(gram, offsets, 61, 0.01) == []  # too few rows
    gram[0, 4] -= 1  # one exception of 60 is more than 1 %
    gram[0, 3] += 1
    gram[4, 0], gram[3, 0] = gram[0, 4], gram[0, 3]
    assert determined_categories(gram, offsets, 50, 0.01) == []
    assert len(determined_categories(gram, offsets, 50, 0.02)) == 1


@pytest.mark.parametrize("code", [9, None])
def test_a_code_for_not_asked_is_a_category_and_an_empty_cell_is_none(code):
    frame = two_classes(1, 1200).astype(object)
    frame.loc[frame["q0"] == 0, ["q1", "q2"]] = code
    report = LatentClass(2).fit(frame).report_
    assert ("not_asked_codes" in failed(report)) == (code == 9)
    if code == 9:
        assert report.quantities["determined_categories"] == ["q1=9", "q2=9"]
        assert any("--missing 9" in reason for reason in report.reasons)
        frame["q3"] = frame["q3"].map({0: 9, 1: 1})  # an answer of another column: --missing 9 would lose it
        reasons = LatentClass(2).fit(frame).report_.reasons
        assert any("empty in the file" in reason for reason in reasons)
        assert not any("--missing 9" in reason for reason in reasons)
    else:
        assert report.verdict == "ok", report.reasons


def test_joined_columns_have_the_same_likelihood_before_they_are_refined():
    from latentfit.engine.memory import MemoryEngine, posterior_of

    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(2, size=50), rng.integers(3, size=50), rng.integers(2, size=50)])
    codes[:5, :2] = 255
    table = table_of(codes, [2, 3, 2])
    offsets = np.array([0, 2, 5, 7], np.int32)
    mixture = Mixture(
        np.array([0.6, 0.4]), np.concatenate([rng.dirichlet(np.ones(s), 2).T for s in (2, 3, 2)]), offsets
    )
    joined, same = join_columns(table, mixture, 0, 1)
    assert [column.size for column in joined.columns] == [2, 6]
    both = [posterior_of(MemoryEngine(t, 1), m)[1] for t, m in ((table, mixture), (joined, same))]
    np.testing.assert_allclose(both[0], both[1])


@pytest.mark.parametrize("proportion", [0.0, 0.7])
def test_two_columns_that_measure_the_same_thing_are_a_better_explanation_than_classes(proportion):
    frame = two_classes(2, 1000)
    same = np.random.default_rng(3).random(1000) < proportion
    frame.loc[same, "q1"] = frame.loc[same, "q0"]
    model = LatentClass(3 if proportion else 2).fit(frame)
    rival = best_rival(class_path(model._rows_seen(), model._mixture))
    if proportion:
        assert rival.pairs[0] == (0, 1)
        assert rival.n_classes == 2
        assert rival.bic_difference < -50
        assert "local_dependence" in failed(model.report_)
    else:
        assert rival is None or rival.bic_difference > 0
        assert failed(model.report_) == set()


def rivals_examined(monkeypatch, trait, rival, more=0.0):
    monkeypatch.setattr(tables, "class_path", lambda table, mixture: ClassPath(table, [mixture], [0.0]))
    monkeypatch.setattr(tables, "best_trait", lambda *args: Trait(1, trait, 1.0))
    monkeypatch.setattr(tables, "best_rival", lambda path: rival)
    examiner = Examiner()
    tables._examine_rivals(examiner, table_of(np.zeros((5, 4))), even(4), more)
    return [check.name for check in examiner.failed]


def test_another_model_needs_very_strong_evidence(monkeypatch):
    """Ten units of BIC (Kass & Raftery 1995)."""
    assert rivals_examined(monkeypatch, -10.0, Rival([(0, 1)], 1, -10.0)) == []
    assert rivals_examined(monkeypatch, -10.1, None) == ["continuous_trait"]
    assert rivals_examined(monkeypatch, 0.0, Rival([(0, 1)], 1, -10.1)) == ["local_dependence"]
    assert rivals_examined(monkeypatch, 0.0, Rival([(0, 1)], 2, -50.0), more=-60.0) == []  # one class more explains it
    assert rivals_examined(monkeypatch, 0.0, Rival([(0, 1)], 2, -50.0), more=-40.0) == ["local_dependence"]


@pytest.mark.parametrize(
    ("refits", "names"),
    [
        (Refits(0.7, 0.0, 10.0, 10.0, 100.0), []),
        (Refits(0.69, 2.9, 10.0, 10.0, 100.0), ["seed_agreement"]),
        (Refits(0.69, 3.0, 10.0, 10.0, 100.0), []),  # the other optimum is worse: what it says does not matter
        (Refits(0.9, -1.0, 10.1, 10.0, 100.0), ["more_classes"]),
    ],
)
def test_refits_agree_and_show_no_class_more(refits, names, monkeypatch):
    monkeypatch.setattr(tables, "compare_refits", lambda table, mixture: refits)
    examiner = Examiner()
    tables._examine_refits(examiner, None, even(4))
    assert [check.name for check in examiner.failed] == names


@pytest.mark.parametrize(
    ("n_classes", "tried", "names"),
    [(2, [1, 2, 3], []), (1, [1, 2, 3], ["structure_found"]), (2, [1, 2], []), (64, [1, 2, 48, 64], ["search_limit"])],
)
def test_a_chosen_number_lies_between_one_and_the_end_of_the_search(n_classes, tried, names):
    examiner = Examiner()
    mixture = Mixture(np.full(n_classes, 1 / n_classes), np.full((4, n_classes), 0.5), np.array([0, 2, 4], np.int32))
    tables._examine_selection(examiner, mixture, {"n_components": tried})
    assert [check.name for check in examiner.failed] == names


def test_the_expected_misclassification_is_that_of_the_posteriors():
    model = LatentClass(2).fit(frame := two_classes(0))
    report = model.report_
    assert report.expected.value == pytest.approx(1 - model.predict_proba(frame).max(axis=1).mean(), abs=1e-9)
    assert LatentClass(1).fit(frame).report_.expected.value == 0


def test_every_reason_of_a_failed_check_names_an_action():
    rng = np.random.default_rng(0)
    frame = two_classes(0, 80).assign(name=[f"n{k}" for k in range(80)])
    report = LatentClass(4).fit(frame.mask(rng.random(frame.shape) < 0.3)).report_
    assert len(report.reasons) > 2
    assert all("--" in reason or "bring" in reason or "remove" in reason for reason in report.reasons)
