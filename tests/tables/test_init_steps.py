"""The inner steps of coupled tensor decomposition, and results that cannot be changed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from latentfit.clusters.moments import MaximalTotalCorrelation
from latentfit.core.mixture.init import (
    RowView,
    Sample,
)
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.simplex import project_to_simplex
from latentfit.pairs.moments import Symmetry
from latentfit.tables import init as ctd
from latentfit.tables.init import CtdFactors


def test_points_go_onto_the_nearest_of_the_simplex():
    points = np.array([[0.5, 2.0, -1.0], [0.5, 0.0, -1.0], [0.3, -1.0, -1.0]])
    np.testing.assert_allclose(
        project_to_simplex(points.T).T, [[0.5 - 0.1, 1.0, 1 / 3], [0.5 - 0.1, 0.0, 1 / 3], [0.3 - 0.1, 0.0, 1 / 3]]
    )


def test_inner_steps_never_leave_an_initial_point_for_something_worse(monkeypatch):
    G, V = np.diag([2.0, 1.0]), np.array([[1.0, 0.2], [0.1, 0.9]])
    init = np.array([[0.5, 0.5], [0.5, 0.5]])
    found = ctd.coupled_least_squares(G, V, init)
    grid = np.linspace(0, 1, 2001)
    for row in range(2):
        values = [G[row, row] * (a**2 + (1 - a) ** 2) - 2 * (a * V[row, 0] + (1 - a) * V[row, 1]) for a in grid]
        assert found[row, 0] == pytest.approx(grid[int(np.argmin(values))], abs=1e-3)
    np.testing.assert_array_equal(ctd.coupled_least_squares(np.zeros((2, 2)), V, init), init)
    monkeypatch.setattr(ctd, "_value", lambda gram, target, point: 0.0 if point is init else 1.0)
    assert ctd.coupled_least_squares(G, V, init) is init


def test_inner_steps_are_those_of_the_accelerated_gradient(monkeypatch):
    """Beck & Teboulle: t ← (1 + √(1 + 4t²))/2, ahead by (t − 1)/t' of the step; no projection where nothing is cut."""
    monkeypatch.setattr(ctd, "SEARCH", replace(ctd.SEARCH, inner_steps=4))
    G, V, x = np.diag([4.0, 1.0]), np.array([[1.0], [0.5]]), np.array([[0.0], [0.0]])
    monkeypatch.setattr(ctd, "project_to_simplex", lambda point: point)
    found = ctd.coupled_least_squares(G, V, x)
    point, ahead, t = x, x, 1.0
    for _ in range(4):
        new = ahead - (G @ ahead - V) / 4.0
        if ((ahead - new) * (new - point)).sum() > 0:
            t = 1.0
        later = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead, point, t = new + (t - 1) / later * (new - point), new, later
    np.testing.assert_allclose(found, point)


@pytest.mark.parametrize("kind", [RowView, Sample, CtdFactors, PairCounts, Symmetry, MaximalTotalCorrelation])
def test_answers_cannot_be_changed(kind):
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(kind), fields(kind)[0].name, 0)
