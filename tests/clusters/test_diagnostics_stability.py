"""Clusters that come back in halves of the rows, and other optima."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import BernoulliMixture
from latentfit.clusters.data import read_binary
from latentfit.clusters.diagnostics.stability import (
    SETTINGS,
    better_optimum,
    compare_halves,
    jaccard_indices,
    rows_to_refit,
)
from latentfit.core.mixture.parameters import Mixture


def two_clusters(rng, n=600, columns=12):
    often = np.where(np.arange(columns) % 2, [[0.8], [0.2]], [[0.2], [0.8]])
    return (rng.random((n, columns)) < often[rng.integers(2, size=n)]).astype(int)


def fitted(rows, K, **settings):
    model = BernoulliMixture(K, n_jobs=1, screen=False, **settings).fit(rows)
    return model._table, model._mixture


def test_jaccard_indices_by_hand():
    label, other = np.array([0, 0, 0, 1, 1, 2]), np.array([1, 1, 0, 0, 0, 2])
    assert jaccard_indices(label, other, np.ones(6), 3) == pytest.approx([2 / 3, 2 / 3, 1])
    assert jaccard_indices(label, other, np.array([1, 1, 2, 1, 1, 1.0]), 3) == pytest.approx([1 / 2, 1 / 2, 1])


def test_clusters_that_are_there_come_back_and_halves_of_noise_do_not():
    rng = np.random.default_rng(0)
    table, mixture = fitted(two_clusters(rng), 2)
    assert compare_halves(table, mixture, smoothing=1.0, limit=0.5).jaccard.min() > 0.9
    table, mixture = fitted((rng.random((600, 12)) < 0.5).astype(int), 4)
    assert compare_halves(table, mixture, smoothing=1.0, limit=0.5).jaccard.min() < 0.5


def test_halves_do_not_depend_on_the_order_of_rows_and_columns():
    rng = np.random.default_rng(1)
    rows = two_clusters(rng, n=300)
    names = [f"c{n:02d}" for n in range(12)]
    mixed, turned = rng.permutation(300), rng.permutation(12)
    mixture = fitted(rows, 2)[1]
    import pandas as pd

    ours = read_binary(pd.DataFrame(rows, columns=names))
    theirs = read_binary(pd.DataFrame(rows, columns=names).iloc[mixed, turned])
    cells = np.stack([2 * turned, 2 * turned + 1], axis=1).reshape(-1)
    other = Mixture(mixture.weights, np.ascontiguousarray(mixture.table[cells]), mixture.column_offsets)
    one = compare_halves(ours, mixture, smoothing=1.0, limit=0.5)
    two = compare_halves(theirs, other, smoothing=1.0, limit=0.5)
    np.testing.assert_allclose(one.jaccard, two.jaccard, atol=1e-9)


def test_a_handful_of_rows_has_no_halves():
    table, mixture = fitted(np.eye(4, dtype=int)[[0, 1, 2]], 2)
    assert compare_halves(table, mixture, smoothing=1.0, limit=0.5) is None


def test_a_better_optimum_is_found_above_a_bad_fit_and_not_above_a_good_one():
    rng = np.random.default_rng(2)
    often = np.repeat(np.eye(3) * 0.7 + 0.15, 5, axis=1)
    rows = (rng.random((900, 15)) < often[rng.integers(3, size=900)]).astype(int)
    table, mixture = fitted(rows, 3)
    assert abs(better_optimum(table, mixture, smoothing=1.0)) < 0.1
    # two of the three clusters are one, and the third is there twice
    joined = mixture.table[:, 1:].mean(axis=1)
    stuck = np.column_stack([mixture.table[:, 0], mixture.table[:, 0], joined])
    weights = np.array([mixture.weights[0] / 2, mixture.weights[0] / 2, 1 - mixture.weights[0]])
    bad = Mixture(weights, np.ascontiguousarray(stuck), mixture.column_offsets)
    assert better_optimum(table, bad, smoothing=1.0) > 20


def test_long_tables_are_refitted_by_a_sample():
    rng = np.random.default_rng(3)
    table = read_binary(rng.integers(2, size=(SETTINGS.max_rows + 5_000, 15)))
    assert rows_to_refit(table, 2, 0).total_weight == SETTINGS.max_rows
    assert rows_to_refit(read_binary(rng.integers(2, size=(50, 15))), 2, 0).total_weight == 50
