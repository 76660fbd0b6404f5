"""The item-response model: its likelihood by hand, its slopes, and whether BIC tells one trait from two."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.mixture.item_response import (
    SETTINGS,
    ItemResponse,
    ItemResponseSteps,
    fit_item_response,
    initial_traits,
    logistic_regressions,
    trait_grid,
)
from latentfit.core.table.table import Column, Table
from latentfit.engine.memory import MemoryEngine


def table_of(codes, sizes) -> Table:
    columns = tuple(Column(f"c{n}", np.arange(size)) for n, size in enumerate(sizes))
    return Table(np.ascontiguousarray(codes, np.uint8), columns)


def yes_no_answers(rng, n, slopes):
    trait = rng.normal(size=n)
    return trait[:, None] * slopes + rng.logistic(size=(n, len(slopes))) > 0


def steps_of(table, n_dimensions=1) -> ItemResponseSteps:
    return ItemResponseSteps(MemoryEngine(table, 1), table, *trait_grid(n_dimensions))


def test_the_log_likelihood_is_the_integral_over_the_trait_missing_cells_left_out():
    rng = np.random.default_rng(0)
    table = table_of(rng.integers(3, size=(40, 4)), (2, 2, 2, 2))  # code 2: missing
    params = ItemResponse(np.array([[0.0], [1.2]] * 4), np.array([0.0, -0.4] * 4))
    steps = steps_of(table)
    trait = np.linspace(-8, 8, 4001)
    density = np.exp(-0.5 * trait**2)
    density /= density.sum()
    yes = 1 / (1 + np.exp(-(1.2 * trait - 0.4)))
    by_hand = 0.0
    for row in table.codes:
        cells = [yes if code else 1 - yes for code in row if code < 2]
        by_hand += np.log((np.prod(cells, axis=0) * density).sum() if cells else 1.0)
    assert steps.log_likelihood(steps.e_step(params)) == pytest.approx(by_hand, abs=1e-2)


def test_the_objective_never_falls_with_categories_of_several_sizes():
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(size, size=300) for size in (2, 3, 5, 3, 2)])
    table = table_of(codes, (2, 3, 5, 3, 2))
    for n_dimensions in (1, 2):
        steps = steps_of(table, n_dimensions)
        params, path = initial_traits(table, n_dimensions), []
        for _ in range(15):
            sums = steps.e_step(params)
            path.append(steps.objective(params, sums))
            params = steps.m_step(sums)
        assert (np.diff(path) > -1e-8).all()


def test_slopes_of_simulated_items_are_found():
    slopes = np.array([0.6, 1.0, 1.4, 1.8, 2.2, -1.5])
    fit = fit_item_response(table_of(yes_no_answers(np.random.default_rng(2), 20_000, slopes), (2,) * 6))
    found = fit.params.slopes[1::2, 0]
    assert fit.converged
    assert fit.n_parameters == 12
    np.testing.assert_allclose(found * np.sign(found[0]), slopes, atol=0.15)


def test_regressions_reach_the_maximum_where_the_gradient_vanishes():
    rng = np.random.default_rng(3)
    design = np.column_stack([np.ones(9), np.linspace(-2, 2, 9)])
    counts = rng.gamma(2.0, size=(4, 3, 9))
    at = np.zeros((4, 2, 2))
    for _ in range(20):
        at = logistic_regressions(counts, design, at)
    logits = np.concatenate([np.zeros((4, 1, 9)), at @ design.T], axis=1)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    precision = np.array([SETTINGS.intercept_precision, SETTINGS.slope_precision])
    gradient = (counts - counts.sum(axis=1, keepdims=True) * p)[:, 1:] @ design - precision * at
    np.testing.assert_allclose(gradient, 0, atol=1e-8)


def test_two_traits_beat_one_where_there_are_two_by_bic():
    rng = np.random.default_rng(4)
    left, right = (yes_no_answers(rng, 1_000, np.full(6, 2.0)) for _ in range(2))
    two = table_of(np.column_stack([left, right]), (2,) * 12)
    assert fit_item_response(two, 2).bic < fit_item_response(two).bic - 20
    one = table_of(yes_no_answers(rng, 1_000, np.full(12, 2.0)), (2,) * 12)
    assert fit_item_response(one).bic < fit_item_response(one, 2).bic


def test_a_column_that_never_varies_and_one_with_a_single_category_do_no_harm():
    rng = np.random.default_rng(5)
    codes = np.column_stack([rng.integers(2, size=(50, 3)), np.zeros(50, int)])
    fit = fit_item_response(table_of(codes, (2, 2, 2, 1)))
    assert np.isfinite(fit.bic)
    assert fit.n_parameters == 6
    codes[:, 0] = 1
    assert np.isfinite(fit_item_response(table_of(codes, (2, 2, 2, 1))).bic)
