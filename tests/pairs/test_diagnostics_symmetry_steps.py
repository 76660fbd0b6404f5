"""Whether the order of pairs matters, pair by pair and item by item."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.counts import read_counts
from latentfit.pairs import moments as pair_symmetry
from latentfit.pairs.moments import Symmetry, examine_symmetry


def literal_symmetry(C):
    square = variance = 0.0
    for i in range(len(C)):
        for j in range(i):
            n = C[i, j] + C[j, i]
            if n > 1:
                square += (C[i, j] - C[j, i]) ** 2 / n - 1
                variance += 2 - 2 / n
    by_pair = square / np.sqrt(variance) if variance else 0.0
    square = variance = 0.0
    for i in range(len(C)):
        n = C[i].sum() + C[:, i].sum() - 2 * C[i, i]
        if n > 1:
            square += (C[i].sum() - C[:, i].sum()) ** 2 / n - 1
            variance += 2 - 2 / n
    return by_pair, square / np.sqrt(variance) if variance else 0.0


@pytest.mark.parametrize("seed", range(4))
def test_symmetry_is_judged_pair_by_pair_and_item_by_item(seed):
    C = np.random.default_rng(seed).poisson([0.4, 1.0, 3.0, 1.0][seed], (9, 9))
    found = examine_symmetry(read_counts(C))
    by_pair, by_item = literal_symmetry(C)
    assert found.by_pair == pytest.approx(by_pair)
    assert found.by_item == pytest.approx(by_item)


def test_of_very_many_pairs_those_of_some_items_are_looked_at(monkeypatch):
    C = np.random.default_rng(5).poisson(1.5, (10, 10))
    counts = read_counts(C)
    monkeypatch.setattr(pair_symmetry, "ENOUGH", counts.matrix.nnz)  # half of what there is
    chosen = pair_symmetry._some_items(counts)
    assert len(chosen) == 5
    assert (np.diff(chosen) > 0).all()
    square = variance = 0.0
    for i in range(10):
        for j in range(i):
            n = C[i, j] + C[j, i]
            if n > 1 and (i in chosen or j in chosen):
                square += (C[i, j] - C[j, i]) ** 2 / n - 1
                variance += 2 - 2 / n
    assert examine_symmetry(counts).by_pair == pytest.approx(square / np.sqrt(variance))
    monkeypatch.setattr(pair_symmetry, "ENOUGH", 2 * counts.matrix.nnz)
    assert len(pair_symmetry._some_items(counts)) == 10
    monkeypatch.setattr(pair_symmetry, "ENOUGH", 0)
    assert len(pair_symmetry._some_items(counts)) == 1


def test_order_matters_beyond_four_standard_deviations():
    assert Symmetry(3.9, 3.9).holds
    assert not Symmetry(4.1, 0.0).holds
    assert not Symmetry(0.0, 4.0).holds
    once = examine_symmetry(read_counts(np.array([[5, 1], [0, 5]])))  # one pair seen once: nothing to say
    assert (once.by_pair, once.by_item) == (0.0, 0.0)
    both = examine_symmetry(read_counts(np.array([[0, 9], [9, 0]])))
    assert (both.by_pair, both.by_item) == (0.0, 0.0)
