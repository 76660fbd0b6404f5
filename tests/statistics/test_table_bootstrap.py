"""Bootstrap intervals of profiles cover 93–97 %, and the ratio test rejects a true number of classes rarely."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.data.table import Column, Table
from tacit.diagnose.bootstrap import align_classes, bootstrap_mixture, draw_table, ratio_test
from tacit.engine.mixture import Mixture
from tacit.refine.em import em
from tacit.refine.table_prior import table_steps


def world(seed, F, n, N):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, N)
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tables = np.concatenate([rng.dirichlet(np.ones(s), size=F).T for s in sizes])
    mixture = Mixture(rng.dirichlet(np.full(F, 10.0)), tables, first)
    columns = tuple(Column(f"c{i}", np.arange(s)) for i, s in enumerate(sizes))
    table = draw_table(Table(np.zeros((n, N), np.uint8), columns), mixture, rng)
    fitted = em(table_steps(table, F, 0.0, 1), mixture, max_iter=1000, tol=1e-9, accelerate=True).params
    return mixture, align_classes(fitted, mixture), table


def coverage(n_tables):
    inside = []
    for seed in range(n_tables):
        truth, fitted, table = world(seed, 2, 1000, 8)
        found = bootstrap_mixture(table, fitted, n_draws=60, random_state=seed)
        inside.append(((found.table_low <= truth.table) & (truth.table <= found.table_high)).ravel())
    return float(np.concatenate(inside).mean())


def test_errors_have_the_right_size():
    _, fitted, table = world(0, 2, 1000, 8)
    found = bootstrap_mixture(table, fitted, n_draws=40)
    assert found.table_se.shape == fitted.table.shape
    assert 0.005 < np.median(found.table_se) < 0.05
    assert (found.table_low <= fitted.table + 1e-12).all()
    assert (found.table_high >= fitted.table - 1e-12).all()


def test_the_ratio_test_stops_early_and_finds_a_class():
    found = []
    for seed in range(1, 5):  # one in twenty true nulls is rejected (seed 1 is), so no single table may decide
        _, fitted, table = world(seed, 2, 500, 7)
        found.append(ratio_test(table, fitted, n_draws=19, alpha=0.2))
    assert sum(test.p_value > 0.05 for test in found) >= 3
    assert min(test.n_draws for test in found) < 19
    _, wide, table = world(2, 3, 800, 7)
    assert ratio_test(table, wide.permuted(np.array([0, 1])), n_draws=19).p_value == pytest.approx(0.05)


@pytest.mark.slow
def test_intervals_cover():
    assert 0.93 <= coverage(40) <= 0.97


@pytest.mark.slow
def test_size_of_the_ratio_test():
    p_values = []
    for seed in range(100, 130):
        _, fitted, table = world(seed, 2, 400, 6)
        p_values.append(ratio_test(table, fitted, random_state=seed).p_value)
    assert np.mean(np.array(p_values) <= 0.05) <= 0.17
