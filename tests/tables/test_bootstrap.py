"""Bootstrap intervals cover 93–97 %, and the ratio test rejects a true number of classes once in twenty times.

`python tests/tables/test_bootstrap.py coverage 220 [first seed]` and `… ratio 200` print the full figures
(minutes); CI looks at fewer tables.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from latentfit.core.assign import align_classes
from latentfit.core.em import em
from latentfit.core.errors import DataError
from latentfit.core.mixture.bootstrap import bootstrap_mixture, draw_table, ratio_test
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.table.table import Column, Table
from latentfit.engine.limits import one_blas_thread

REGIONS = (0.0, 0.02, 0.1, 0.3, 0.7, 0.9, 0.98, 1.0)
"""True probabilities are looked at by region: intervals fail first near 0 and 1."""


@dataclass(frozen=True)
class World:
    truth: Mixture
    fitted: Mixture  # from the truth: what an interval is about is noise, not a bad initialisation
    table: Table


def world(rng, F, n, sizes, missing=0.0, never=0.0, smoothing=0.0):
    """A table of profiles uniform on the simplex, with its fit at the true number of classes.

    A category `never` shows in a class with so much probability, unless it is the column's last one there.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tables = np.concatenate([rng.dirichlet(np.ones(s), size=F).T for s in sizes])
    if never:
        zero = rng.random(tables.shape) < never
        zero[offsets[1:] - 1] = False
        tables = normalise_tables(np.where(zero, 0.0, tables), offsets)
    truth = Mixture(rng.dirichlet(np.full(F, 10.0)), tables, offsets)
    codes = np.zeros((n, len(sizes)), np.uint8)
    codes[rng.random(codes.shape) < missing] = 255
    columns = tuple(Column(f"c{i}", np.arange(s)) for i, s in enumerate(sizes))
    table = draw_table(Table(codes, columns), truth, rng)
    init = replace(truth, table=normalise_tables(truth.table + 1e-4, offsets))
    fitted = em(table_steps(table, F, smoothing, 1), init, max_iter=2000, tol=1e-9, accelerate=True).params
    return World(truth, align_classes(fitted, truth), table)


def varied(seed, smoothing):
    """F 2–4, 7–12 columns of 2–4 categories, 500–4000 rows, up to 30 % missing values; a quarter of the cells are 0."""
    rng = np.random.default_rng([seed, 7])
    F, N = int(rng.integers(2, 5)), int(rng.integers(7, 13))
    n, missing = int(rng.choice([500, 1000, 2000, 4000])), float(rng.choice([0, 0.1, 0.3]))
    return world(rng, F, n, rng.integers(2, 5, N), missing, 0.25, smoothing)


def covered(seeds, smoothing, n_draws=100):
    """Whether each profile cell, and each class weight, lies in its interval; and the true profile cells."""
    cells, weights, truths = [], [], []
    for seed in seeds:
        made = varied(seed, smoothing)
        truth = made.truth
        found = bootstrap_mixture(made.table, made.fitted, n_draws=n_draws, smoothing=smoothing, random_state=seed)
        cells.append(((found.table_low <= truth.table) & (truth.table <= found.table_high)).ravel())
        weights.append((found.weights_low <= truth.weights) & (truth.weights <= found.weights_high))
        truths.append(truth.table.ravel())
    return np.concatenate(cells), np.concatenate(weights), np.concatenate(truths)


def test_errors_have_the_right_size():
    made = world(np.random.default_rng(0), 2, 1000, [2, 3, 2, 4, 3, 2, 3, 2])
    found = bootstrap_mixture(made.table, made.fitted, n_draws=40)
    assert found.table_se.shape == made.fitted.table.shape
    assert 0.005 < np.median(found.table_se) < 0.05
    assert (found.table_low <= made.fitted.table + 1e-12).all()
    assert (found.table_high >= made.fitted.table - 1e-12).all()
    assert (found.weights_low < made.fitted.weights).all()
    assert (found.weights_high > made.fitted.weights).all()


def test_a_single_class_weighs_one():
    made = world(np.random.default_rng(1), 1, 200, [2, 3, 2])
    found = bootstrap_mixture(made.table, made.fitted, n_draws=5)
    assert [found.weights_low.tolist(), found.weights_high.tolist()] == [[1.0], [1.0]]
    assert np.isfinite([found.table_low, found.table_high]).all()


def test_rows_that_are_all_alike_have_intervals():
    columns = tuple(Column(n, np.arange(2)) for n in range(3))
    alike = Mixture(np.full(2, 0.5), np.tile([[0.9], [0.1]], (3, 2)), np.array([0, 2, 4, 6], np.int32))
    found = bootstrap_mixture(Table(np.zeros((30, 3), np.uint8), columns), alike, n_draws=3, smoothing=1.0)
    assert np.isfinite([found.weights_low, found.weights_high]).all()
    assert (found.table_low <= found.table_high).all()


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_what_a_class_always_shows_may_be_certain_and_what_it_never_shows_impossible(smoothing):
    """The pseudo-counts of a fit hold an estimate off the ends; the interval reaches them all the same."""
    codes = np.repeat(np.array([[0, 0, 0, 0], [1, 1, 1, 1]], np.uint8), 200, axis=0)
    codes[:200:4, 0] = 1  # one column of the first class varies
    table = Table(codes, tuple(Column(f"c{n}", np.arange(2)) for n in range(4)))
    init = Mixture(np.full(2, 0.5), np.tile([[0.8, 0.2], [0.2, 0.8]], (4, 1)), table.column_offsets)
    fitted = em(table_steps(table, 2, smoothing, 1), init, max_iter=500, tol=1e-12, accelerate=True).params
    found = bootstrap_mixture(table, fitted, n_draws=5, smoothing=smoothing)
    sure = np.ones((8, 2), bool)
    sure[:2, 0] = False
    assert (found.table_high[sure & (fitted.table > 0.5)] == 1).all()
    assert (found.table_low[sure & (fitted.table < 0.5)] == 0).all()
    assert (found.table_high[~sure] < 1).all()
    assert (found.table_low[~sure] > 0).all()


def test_draws_without_spread_and_levels_that_are_none_are_refused():
    made = world(np.random.default_rng(1), 1, 50, [2, 2, 2])
    with pytest.raises(DataError, match="n_draws must be an int >= 2, got 1"):
        bootstrap_mixture(made.table, made.fitted, n_draws=1)
    with pytest.raises(DataError, match="level must be a number between 0 and 1"):
        bootstrap_mixture(made.table, made.fitted, level=95)


@pytest.mark.slow
@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_intervals_cover(smoothing):
    cells, weights, truths = covered(range(8), smoothing, n_draws=50)
    inner = (truths > 0) & (truths < 1)
    assert 0.92 <= cells[inner].mean() <= 0.98  # eight tables: the full figure is 93–97 %
    assert cells[~inner].mean() >= 0.93  # pseudo-counts hold estimates off the ends, intervals reach them
    assert weights.mean() >= 0.85


# -------------------------------------------------------------- the ratio test


def null(seed):
    """A table with as many classes as its fit has."""
    rng = np.random.default_rng([seed, 8])
    F, n, missing = int(rng.integers(1, 4)), int(rng.choice([200, 400, 800])), float(rng.choice([0, 0.2]))
    return world(rng, F, n, rng.choice((2, 3, 4), 7), missing)


def too_few(seed, n, N):
    """A table of three classes, fitted with two."""
    rng = np.random.default_rng([seed, 9])
    made = world(rng, 3, n, rng.choice((2, 3, 4), N))
    init = made.truth.permuted(np.array([0, 1]))
    init = Mixture(init.weights / init.weights.sum(), init.table, init.column_offsets)
    steps = table_steps(made.table, 2, 0.0, 1)
    return em(steps, init, max_iter=1000, tol=1e-8, accelerate=True).params, made.table


def rejected(tests):
    """Proportion of p-values at or below 5 %, and the draws they took; 39 give the same size as 99 for less."""
    found = [ratio_test(table, fitted, n_draws=39, random_state=seed) for seed, (fitted, table) in tests]
    return float(np.mean([one.p_value <= 0.05 for one in found])), float(np.mean([one.n_draws for one in found]))


def test_the_ratio_test_stops_early_on_a_true_number_of_classes():
    made = [null(seed) for seed in range(6)]
    found = [ratio_test(one.table, one.fitted, random_state=seed) for seed, one in enumerate(made)]
    assert sum(test.p_value > 0.05 for test in found) >= 5
    assert np.median([test.n_draws for test in found]) <= 25


def test_the_ratio_test_finds_a_class():
    fitted, table = too_few(0, 800, 7)
    assert ratio_test(table, fitted, n_draws=19).p_value == pytest.approx(0.05)


def print_coverage(number, begin):
    for smoothing in (0.0, 1.0):
        cells, weights, truths = covered(range(begin, begin + number), smoothing)
        print(f"smoothing {smoothing:g}: weights {weights.mean():.3f} of {len(weights)}")
        print(f"    profiles {cells.mean():.3f} of {len(cells)} cells")
        for end in (0, 1):
            print(f"    truly {end}: {cells[truths == end].mean():.3f} of {(truths == end).sum()}")
        for low, high in pairwise(REGIONS):
            inside = (truths >= low) & (truths < high) & (truths > 0)
            print(f"    true probability {low:.2f}–{high:.2f}: {cells[inside].mean():.3f} of {inside.sum()}")


def print_ratio(number, begin):
    made = ((seed, null(seed)) for seed in range(begin, begin + number))
    print("size {:.3f}, mean draws {:.0f}".format(*rejected((seed, (one.fitted, one.table)) for seed, one in made)))
    for n, N in ((60, 6), (120, 6), (240, 6)):
        few = ((seed, too_few(seed, n, N)) for seed in range(begin, begin + max(number // 10, 1)))
        print(f"{n} rows, {N} columns, 3 classes against 2:", "power {:.2f}, mean draws {:.0f}".format(*rejected(few)))


if __name__ == "__main__":
    clock, begin = time.perf_counter(), int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with one_blas_thread():
        {"coverage": print_coverage, "ratio": print_ratio}[sys.argv[1]](int(sys.argv[2]), begin)
    print(f"{time.perf_counter() - clock:.0f} s")
