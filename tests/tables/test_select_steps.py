"""The steps of the choice of the number of classes, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.core.mixture.em import (
    count_parameters,
    gain_by_chance,
)
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table
from latentfit.tables import select as choose_classes


def table_of(codes, weight=None, size=2):
    codes = np.asarray(codes, np.uint8)
    return Table(codes, tuple(Column(n, np.arange(size)) for n in range(codes.shape[1])), weight)


def walked(monkeypatch, values, rows=1000.0):
    """The number of classes chosen when the i-th candidate has the criterion `values[i]`, and what was looked at."""
    seen = []

    def fit_at(table, number):
        seen.append(number)
        return SimpleNamespace(log_likelihood=0.0)

    monkeypatch.setattr(choose_classes, "bic", lambda table, number, value: values[len(seen) - 1])
    table = table_of([[0, 1], [1, 0]], np.array([rows / 2, rows / 2]))
    found = choose_classes.choose_classes(table, fit_at, None, "bic")
    assert found.curve["n_components"] == seen
    return found.n_components, len(seen)


def test_classes_are_walked_until_two_in_a_row_are_worse(monkeypatch):
    assert walked(monkeypatch, [-9, -8, -8.5, -8.2, -1]) == (2, 4)
    assert walked(monkeypatch, [-9, -8, -8.5, -7, -7.5, -8, -1]) == (4, 6)
    assert walked(monkeypatch, [-9, -9.5, -9.6, -1]) == (1, 3)
    assert walked(monkeypatch, [-9, -9.5, -9, -9.5, -9.7, -1])[0] == 1  # of equals the smaller


def test_no_more_classes_than_half_the_rows(monkeypatch):
    rising = list(range(20))
    assert walked(monkeypatch, rising, rows=9.0) == (4, 4)
    assert walked(monkeypatch, rising, rows=10.0) == (5, 5)
    assert walked(monkeypatch, rising, rows=1.0) == (1, 1)


def test_half_of_minus_bic():
    table = table_of([[0, 1], [1, 0]], np.array([30.0, 20.0]), size=3)
    # two classes: one weight, and two free categories of two columns each
    assert count_parameters(table.column_offsets, 2) == 1 + 2 * 2 * 2
    assert choose_classes.bic(table, 2, -80.0) == pytest.approx(-80 - 0.5 * np.log(50) * 9)
    one = table_of([[0, 1]], np.array([1.0]))
    assert choose_classes.bic(one, 1, -3.0) == pytest.approx(-3 - 0.5 * np.log(2) * 2)


def test_hidden_cells_are_predicted_from_the_others_of_their_rows():
    offsets = np.array([0, 2, 4, 6], np.int32)
    at_one = np.array([[0.2, 0.9], [0.3, 0.6], [0.5, 0.1]])
    table = np.empty((6, 2))
    table[1::2], table[::2] = at_one, 1 - at_one
    mixture = Mixture(np.array([0.4, 0.6]), table, offsets)
    shown = table_of([[0, 255, 1], [255, 1, 255]], np.array([2.0, 3.0]))
    hidden = table_of([[255, 1, 255], [1, 255, 0]], np.array([2.0, 3.0]))
    row = np.array([0.4 * 0.8 * 0.5, 0.6 * 0.1 * 0.1])
    row /= row.sum()
    other = np.array([0.4 * 0.3, 0.6 * 0.6])
    other /= other.sum()
    want = [np.log(row @ at_one[1]), np.log(other @ at_one[0]) + np.log(other @ (1 - at_one[2]))]
    fold = choose_classes.Fold(shown, hidden, np.array([0, 1, 1, 0, 1]))
    found = choose_classes.hidden_scores(fold, mixture)
    assert found.tolist() == pytest.approx([want[0], want[1], want[1], want[0], want[1]])
    nothing = choose_classes.Fold(shown, table_of([[255, 255, 255]] * 2), np.array([0, 1]))
    assert choose_classes.hidden_scores(nothing, mixture).tolist() == [0.0, 0.0]


def test_cells_are_dealt_by_hashes_and_each_is_hidden_once():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (300, 6)).astype(np.uint8)
    codes[rng.random((300, 6)) < 0.1] = 255
    rows, _, folds = choose_classes.cell_folds(table_of(codes))
    assert len(folds) == choose_classes.SEARCH.folds
    hidden = 0
    for fold in folds:
        both = fold.visible.present.astype(int) + fold.hidden.present
        assert both.max() == 1
        assert fold.visible.row_weight.sum() == 300
        assert fold.visible.row_weight @ both.sum(axis=1) == (codes < 2).sum()
        assert fold.hidden.present.sum(axis=1).max() <= 2  # six cells in five folds
        hidden += fold.hidden.row_weight @ fold.hidden.present.sum(axis=1)
        assert len(fold.at) == len(rows.weight) == 300
    assert hidden == (codes < 2).sum()


def test_large_tables_fit_as_many_folds_as_hide_enough_cells(monkeypatch):
    table = table_of(np.random.default_rng(0).integers(0, 2, (300, 6)))  # 1,800 cells, 360 a fold
    for enough, wanted in ((1, 1), (360, 1), (361, 2), (10**6, 5)):
        monkeypatch.setattr(choose_classes, "SEARCH", replace(choose_classes.SEARCH, enough_cells=enough))
        assert len(choose_classes.cell_folds(table)[2]) == wanted


def test_of_numbers_that_are_shown_the_smallest_within_one_standard_error_of_the_best():
    def within(totals, errors, shown, numbers=(1, 2, 3, 4)):
        return choose_classes.smallest_within(list(numbers), totals, errors, shown)

    assert within([0.0, 9.0, 10.0, 9.5], [5.0, 1.0, 0.0, 1.0], [True] * 4) == 1
    assert within([0.0, 9.0, 10.0, 9.5], [5.0, 0.9, 0.0, 1.0], [True] * 4) == 2
    assert within([0.0, 9.0, 10.0, 9.5], [5.0, 1.0, 0.0, 1.0], [True, False, True, True]) == 2
    assert within([0.0, 9.0, 10.0, 9.5], [5.0, 0.0, 0.0, 1.0], [True, True, False, False]) == 1
    # a hundredth of the gain is near enough, from eight classes on
    assert within([0.0, 9.9, 9.91, 10.0], [0.0] * 4, [True] * 4, (1, 6, 8, 10)) == 2
    assert within([0.0, 9.9, 9.89, 10.0], [0.0] * 4, [True] * 4, (1, 6, 8, 10)) == 3
    differences, weight = np.array([1.0, 3.0, 5.0]), np.array([1.0, 1.0, 2.0])
    # the mean is 3.5: 2.5², .5² and (2 · 1.5)²
    assert choose_classes.standard_error(differences, weight) == pytest.approx(np.sqrt(6.25 + 0.25 + 9))
    assert choose_classes.standard_error(differences, 7 * weight) == pytest.approx(7 * np.sqrt(15.5))


def test_a_number_of_classes_counts_when_it_gains_more_than_chance_over_all_smaller_ones():
    records = choose_classes.Records(table_of([[0, 1, 0], [1, 0, 1]], np.array([50.0, 50.0])))
    probability = gain_by_chance(records.counts, records.column_offsets, 2)
    assert probability == pytest.approx(4 + 3 * 4 ** (1 / 3))
    assert records.add(1, -100.0)
    assert records.add(2, -100.0 + 1.01 * probability)
    assert not records.add(3, -100.0 + 2.0 * probability)  # less than one more chance above two classes
    assert records.add(5, -100.0 + 4.02 * probability)
    assert not records.add(6, -100.0 + 5.01 * probability)
    assert records.shown == [True, True, False, True, False]
