"""Classes are matched in one place: square or not, by the largest total."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from latentfit.core.assign import match_classes, mean_distance


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (5, 5), (1, 2), (2, 3), (3, 6)])
def test_the_matching_has_the_largest_total(shape):
    rng = np.random.default_rng(sum(shape))
    for _ in range(20):
        likeness = rng.random(shape)
        order = match_classes(likeness)
        best = max(permutations(range(shape[1]), shape[0]), key=lambda one: likeness[range(shape[0]), one].sum())
        assert order.tolist() == list(best)


def test_the_distance_does_not_see_the_order():
    proportions = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    assert mean_distance(proportions, proportions[:, [2, 0, 3, 1]]) == 0
    assert mean_distance(proportions, 1 - proportions) > 0
