"""The simulated answer to the clustering theorem, and the parameters of a clustering with their intervals."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from latentfit.clusters import theory as theorems
from latentfit.core.errors import DataError
from reproduction.clusters_theory import SimulatedModel, parameters_of, separated_mixture, simulated_correctness
from tests.clusters.test_moments import binary_table


def test_the_simulated_mixture_is_drawn_and_classified_by_its_likeliest_class():
    rng = np.random.default_rng(0)
    model = SimulatedModel(np.array([0.5, 0.3, 0.2]), rng.uniform(0.1, 0.9, (3, 5)))
    table, truth = model.draw(4000, rng)
    np.testing.assert_allclose(np.bincount(truth) / 4000, model.weights, atol=0.03)
    for k in range(3):
        np.testing.assert_allclose(table.codes[truth == k].mean(axis=0), model.P[k], atol=0.06)
    found = model.oracle(table)
    for row, label in zip(table.codes[:50], found[:50], strict=True):
        joint = [w * np.prod(np.where(row == 1, p, 1 - p)) for w, p in zip(model.weights, model.P, strict=True)]
        assert label == int(np.argmax(joint))


def test_informative_columns_hold_half_of_the_classes_high():
    rng = np.random.default_rng(0)
    model = separated_mixture(6, 5, 0.1, 0.4, rng)
    np.testing.assert_allclose(model.weights, [0.6, 0.1, 0.1, 0.1, 0.1])
    assert sorted(np.unique(model.P.round(9)).tolist()) == [0.3, 0.7]
    assert ((model.P > 0.5).sum(axis=0) == 2).all()
    some = separated_mixture(30, 2, 0.5, 0.4, rng, separable=4)
    assert (some.P == 0.5).all(axis=0).tolist() == [False] * 4 + [True] * 26  # no more columns than asked for


def test_as_many_clusters_as_alpha_allows_may_be_found():
    def by_cell(n):
        return lambda table: table.codes[:, 0] + (np.arange(table.n_rows) % n) * 2

    settings = {"n": 40, "L": 8, "K": 2, "delta": 1.0, "epsilon": 0.0, "repeats": 3}
    for alpha, parts, correct in ((0.5, 1, 1), (0.5, 2, 0), (0.25, 2, 1), (0.26, 2, 1), (0.34, 2, 0)):
        found = simulated_correctness(by_cell(parts), alpha=alpha, rng=np.random.default_rng(0), **settings)
        assert found.correct == correct, (alpha, ceil(1 / alpha))
        assert (found.oracle, found.separable, found.repeats) == (1, 8, 3)


def test_simulated_mixtures_are_as_separable_as_asked():
    rng = np.random.default_rng(0)
    for K, separable, L in ((2, 7, 7), (3, 5, 40), (5, 6, 60)):
        model = separated_mixture(L, K, 1 / (K + 1), 0.4, rng, separable=separable)
        assert theorems.separable_columns(model.P, 0.4 - 1e-9) >= separable
        assert theorems.separable_columns(model.P, 0.41) == 0
        assert model.weights.sum() == pytest.approx(1)
        assert model.weights.min() == pytest.approx(1 / (K + 1))
    with pytest.raises(DataError, match="did not separate 4 classes in 5 columns"):
        separated_mixture(6, 4, 0.25, 0.4, rng, separable=5)
    with pytest.raises(DataError, match="do not fit into 1"):
        separated_mixture(6, 4, 0.3, 0.4, rng)
    assert separated_mixture(5, 1, 1.0, 0.4, rng, separable=2).P.shape == (1, 5)


def test_the_simulated_proportion_counts_correct_clusterings():
    def split_by_sum(table):
        return (table.codes.mean(axis=1) > 0.5).astype(int)

    def alone(table):
        return np.arange(table.n_rows)

    settings = {"n": 60, "L": 12, "K": 2, "alpha": 0.4, "delta": 0.9, "epsilon": 0.1}
    found = simulated_correctness(alone, **settings, rng=np.random.default_rng(0), repeats=20)
    assert found.correct == 0  # pure, but more than ⌈1/α⌉ clusters
    assert found.oracle == 1
    assert found.separable == 12
    again = simulated_correctness(split_by_sum, **settings, rng=np.random.default_rng(0), repeats=20)
    assert again.oracle == found.oracle


def test_parameters_of_a_clustering_by_hand():
    table = binary_table([[0, 1], [1, None], [1, 0], [0, None]], [1, 3, 2, 2])
    found = parameters_of(table, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found.weights, [0.5, 0.5])
    np.testing.assert_allclose(found.frequencies, [[0.75, 1], [0.5, 0]])
    assert (found.low < found.frequencies + 1e-12).all()
    assert (found.high > found.frequencies - 1e-12).all()
    wider = parameters_of(table, np.array([0, 0, 1, 1]), epsilon=0.1)
    assert wider.low[1, 0] == pytest.approx(found.low[1, 0] - 0.1)
    assert wider.high.max() <= 1
    unseen = parameters_of(binary_table([[0, None], [1, 1]]), np.array([0, 1]))
    assert np.isnan(unseen.frequencies[0, 1])
    assert np.isnan(unseen.low[0, 1])


def test_a_class_may_lose_a_selected_part_of_its_rows_to_a_pure_cluster():
    """Half of a class of 160 says yes; 80 yes-rows stand in a cluster of 880, which is .1-pure all the same."""
    rows = [[1]] * 80 + [[0]] * 80 + [[1]] * 400 + [[0]] * 400
    labels = np.array([1] * 80 + [0] * 80 + [1] * 800)
    found = parameters_of(binary_table(rows), labels, epsilon=80 / 880 + 1e-9)
    assert found.frequencies[0, 0] == 0
    assert found.low[0, 0] <= 0.5 <= found.high[0, 0]
    assert found.weights_low[0] <= 160 / 960 <= found.weights_high[0]
    assert found.low[1, 0] <= 0.5 <= found.high[1, 0]


def test_intervals_of_a_clustering_cover_the_truth():
    model = SimulatedModel(np.array([0.6, 0.4]), np.array([[0.2, 0.5, 0.7, 0.4], [0.6, 0.3, 0.35, 0.8]]))
    held = []
    for seed in range(400):
        table, truth = model.draw(300, np.random.default_rng(seed))
        found = parameters_of(table, truth)
        held += ((found.low <= model.P) & (found.high >= model.P)).ravel().tolist()
        held += ((found.weights_low <= model.weights) & (model.weights <= found.weights_high)).tolist()
    assert 0.93 <= np.mean(held) <= 0.97
