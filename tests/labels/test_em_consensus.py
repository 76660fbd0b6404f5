"""Pooled crowds, the exponent of a consensus and margins, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.core.mixture.parameters import Mixture
from latentfit.engine.memory import Sums
from latentfit.labels import em as crowd


def test_the_crowd_is_pooled_over_workers_and_even_where_nothing_was_seen():
    table = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0], [2.0, 0.0]])  # two workers, given by true
    pooled = crowd.pooled_confusion(Sums(0.0, np.zeros(2), table), 2)
    np.testing.assert_allclose(pooled, [[5 / 8, 0.5], [3 / 8, 0.5]])
    labels = SimpleNamespace(n_classes=2, n_workers=2)
    prior = crowd.crowd_prior(labels, pooled, 3.0)
    np.testing.assert_allclose(prior.table, np.vstack([3 * pooled, 3 * pooled]))
    assert prior.weights.tolist() == [1.0, 1.0]
    assert crowd.crowd_prior(labels, pooled, 0.0).weights.tolist() == [0.0, 0.0]


def test_the_best_exponent_predicts_best_and_is_never_above_one():
    rng = np.random.default_rng(0)
    logs = 6 * rng.normal(size=(400, 2))
    cool = np.exp(0.3 * logs)
    truth = rng.random(400) < (cool / cool.sum(axis=1, keepdims=True))[:, 1]
    probability = np.where(truth[:, None], [0.1, 0.9], [0.9, 0.1])
    found = crowd._best_beta(logs, probability)[0]

    def loss(beta):
        membership = np.exp(beta * (logs - logs.max(axis=1, keepdims=True)))
        return -np.log((membership * probability).sum(axis=1) / membership.sum(axis=1)).sum()

    grid = np.exp(np.linspace(np.log(0.02), 0, 801))
    best = grid[np.argmin([loss(beta) for beta in grid])]
    assert 0.1 < best < 0.9
    assert np.log(found) == pytest.approx(np.log(best), abs=0.02)
    assert crowd._best_beta(0.1 * logs, probability)[0] == 1.0
    assert crowd._best_beta(100 * logs, 1 - probability)[0] == pytest.approx(crowd.TUNING.least_beta, rel=0.02)


def test_margins_are_leads_over_the_next_class():
    assert crowd.margins(np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])).tolist() == pytest.approx([0.2, 0.3])
    assert crowd.margins(np.ones((2, 1))).tolist() == [1.0, 1.0]
    mixture = Mixture(np.array([0.25, 0.75]), np.array([[0.5, 0.1], [0.5, 0.9]]), np.array([0, 2], np.int32))
    tempered = crowd.tempered(mixture, 0.5)
    np.testing.assert_allclose(tempered.weights, np.sqrt(mixture.weights))
    np.testing.assert_allclose(tempered.table, np.sqrt(mixture.table))
