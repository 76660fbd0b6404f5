"""Tables and crowds: the number of classes, the steps, pseudo-rows and the exponent of a consensus, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.core.em import EMResult
from latentfit.core.errors import DataError
from latentfit.core.mixture import em as table_prior
from latentfit.core.mixture.em import (
    Prior,
    TableSteps,
    count_parameters,
    entropy_of,
    gain_by_chance,
    maximise_tables,
    permuted,
)
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table
from latentfit.engine.memory import Sums
from latentfit.labels import em as crowd
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
        both = fold.shown.present.astype(int) + fold.hidden.present
        assert both.max() == 1
        assert fold.shown.row_weight.sum() == 300
        assert fold.shown.row_weight @ both.sum(axis=1) == (codes < 2).sum()
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


def test_table_steps_by_hand():
    offsets = np.array([0, 2, 4], np.int32)
    sums = Sums(-9.0, np.array([3.0, 1.0]), np.array([[1.0, 0.5], [2.0, 0.5], [2.0, 0.25], [1.0, 0.75]]))
    prior = Prior(np.full((4, 2), 0.5), np.array([1.0, 2.0]))
    found = maximise_tables(sums, prior, offsets)
    assert found.weights.tolist() == pytest.approx([4 / 7, 3 / 7])
    np.testing.assert_allclose(found.table[:2, 0], [1.5 / 4, 2.5 / 4])
    np.testing.assert_allclose(found.table[2:, 1], [0.75 / 2, 1.25 / 2])
    tied = maximise_tables(sums, prior, offsets, np.array([False, False, True, True]))
    np.testing.assert_allclose(tied.table[2:], [[3.25 / 6] * 2, [2.75 / 6] * 2])
    np.testing.assert_allclose(tied.table[:2], found.table[:2])
    steps = TableSteps(None, prior, offsets, 4)
    want = -9 + 0.5 * np.log(found.table).sum() + np.log(found.weights[0]) + 2 * np.log(found.weights[1])
    assert steps.objective(found, sums) == pytest.approx(want)
    only_weights = TableSteps(None, Prior(np.zeros((4, 2)), np.array([1.0, 2.0])), offsets, 4)
    assert only_weights.objective(found, sums) == pytest.approx(-9 + np.log(found.weights) @ [1.0, 2.0])
    only_cells = TableSteps(None, Prior(np.full((4, 2), 0.5), np.zeros(2)), offsets, 4)
    assert only_cells.objective(found, sums) == pytest.approx(-9 + 0.5 * np.log(found.table).sum())
    complete = sums.totals @ np.log(found.weights) + (sums.table * np.log(found.table)).sum()
    assert entropy_of(found, Sums(-7.0, sums.totals, sums.table)) == pytest.approx(-7 - complete)
    assert entropy_of(found, Sums(-90.0, sums.totals, sums.table)) == 0.0
    turned = permuted(EMResult(found, sums, 0.0, 0.0, 1, True, []), np.array([1, 0]))
    assert turned.sums.totals.tolist() == [1.0, 3.0]
    np.testing.assert_array_equal(turned.sums.table, sums.table[:, ::-1])


def test_pseudo_rows_have_the_marginals_of_their_columns():
    table = table_of([[0, 1], [1, 255], [1, 1], [1, 0]], np.array([1.0, 2.0, 1.0, 4.0]))
    steps = table_prior.table_steps(table, 3, 2.0, 1)
    np.testing.assert_allclose(steps.prior.table, np.outer(2 * np.array([1 / 8, 7 / 8, 4 / 6, 2 / 6]), np.ones(3)))
    assert steps.prior.weights.tolist() == [2.0] * 3
    assert steps.n_cells == 14
    plain = table_prior.plain_steps(table, 3)
    assert not plain.prior.table.any()
    assert plain.n_cells == 14
    assert table_prior.pseudo_rows("auto") == 1.0
    assert table_prior.pseudo_rows(0) == 0.0
    for wrong in (-0.1, "some", float("nan")):
        with pytest.raises(DataError, match="smoothing must be 'auto' or a finite number >= 0"):
            table_prior.pseudo_rows(wrong)


@pytest.mark.parametrize(("limit", "jobs", "want"), [(11, None, None), (12, None, 1), (11, 2, 2), (12, 2, 2)])
def test_a_small_pass_runs_on_one_thread_unless_n_jobs_is_given(monkeypatch, limit, jobs, want):
    heard = []
    monkeypatch.setattr(table_prior, "SMALL_PASS", limit)
    monkeypatch.setattr(table_prior, "engine_for", lambda table, engine, n_jobs: heard.append(n_jobs))
    table_prior.table_steps(table_of([[0, 1], [1, 0]]), 3, 1.0, jobs)
    assert heard == [want]


def test_the_crowd_is_pooled_over_workers_and_even_where_nothing_was_seen():
    table = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 0.0]])  # two workers, given by true
    pooled = crowd.pooled_confusion(Sums(0.0, np.zeros(2), table), 2)
    np.testing.assert_allclose(pooled, [[5 / 8, 0.5], [3 / 8, 0.5]])
    labels = SimpleNamespace(n_classes=2, n_workers=2)
    prior = crowd.crowd_prior(labels, pooled, 3.0)
    np.testing.assert_allclose(prior.table, np.vstack([3 * pooled, 3 * pooled]))
    assert prior.weights.tolist() == [1.0, 1.0]
    assert crowd.crowd_prior(labels, pooled, 0.0).weights.tolist() == [0.0, 0.0]


def test_the_best_exponent_predicts_best_and_is_never_above_one():
    rng = np.random.default_rng(0)
    logs = 6 * rng.normal(size=(400, 2))
    cool = np.exp(0.3 * logs)
    truth = rng.random(400) < (cool / cool.sum(axis=1, keepdims=True))[:, 1]
    probability = np.where(truth[:, None], [0.1, 0.9], [0.9, 0.1])
    found = crowd._best_beta(logs, probability)[0]

    def loss(beta):
        membership = np.exp(beta * (logs - logs.max(axis=1, keepdims=True)))
        return -np.log((membership * probability).sum(axis=1) / membership.sum(axis=1)).sum()

    grid = np.exp(np.linspace(np.log(0.02), 0, 801))
    best = grid[np.argmin([loss(beta) for beta in grid])]
    assert 0.1 < best < 0.9
    assert np.log(found) == pytest.approx(np.log(best), abs=0.02)
    assert crowd._best_beta(0.1 * logs, probability)[0] == 1.0
    assert crowd._best_beta(100 * logs, 1 - probability)[0] == pytest.approx(crowd.TUNING.least_beta, rel=0.02)


def test_margins_are_leads_over_the_next_class():
    assert crowd.margins(np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])).tolist() == pytest.approx([0.2, 0.3])
    assert crowd.margins(np.ones((2, 1))).tolist() == [1.0, 1.0]
    mixture = Mixture(np.array([0.25, 0.75]), np.array([[0.5, 0.1], [0.5, 0.9]]), np.array([0, 2], np.int32))
    tempered = crowd.tempered(mixture, 0.5)
    np.testing.assert_allclose(tempered.weights, np.sqrt(mixture.weights))
    np.testing.assert_allclose(tempered.table, np.sqrt(mixture.table))
