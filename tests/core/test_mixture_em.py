"""E- and M-steps of mixtures of tables, and their pseudo-rows, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.em import EMResult
from latentfit.core.errors import DataError
from latentfit.core.mixture import em as table_prior
from latentfit.core.mixture.em import (
    Prior,
    TableSteps,
    entropy_of,
    maximise_tables,
    permuted,
)
from latentfit.core.table.table import Column, Table
from latentfit.engine.memory import Sums


def table_of(codes, weight=None, size=2):
    codes = np.asarray(codes, np.uint8)
    return Table(codes, tuple(Column(n, np.arange(size)) for n in range(codes.shape[1])), weight)


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
