"""Frequencies and weights of a clustering: by hand, and how often their intervals hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.clusters.diagnostics.intervals import parameters_of
from latentfit.clusters.theory import SimulatedModel
from tests.clusters.test_moments import binary_table


def test_by_hand():
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
    assert found.low[0, 0] <= 0.5 <= found.high[0, 0]  # before: [0, .136]
    assert found.weights_low[0] <= 160 / 960 <= found.weights_high[0]
    assert found.low[1, 0] <= 0.5 <= found.high[1, 0]


def test_intervals_cover():
    model = SimulatedModel(np.array([0.6, 0.4]), np.array([[0.2, 0.5, 0.7, 0.4], [0.6, 0.3, 0.35, 0.8]]))
    held = []
    for seed in range(400):
        table, truth = model.draw(300, np.random.default_rng(seed))
        found = parameters_of(table, truth)
        held += ((found.low <= model.P) & (found.high >= model.P)).ravel().tolist()
        held += ((found.weights_low <= model.weights) & (model.weights <= found.weights_high)).tolist()
    assert 0.93 <= np.mean(held) <= 0.97
