"""Simulated crowds are what they say they are."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.errors import DataError
from latentfit.simulate import choose_workers, crowd, hidden_markov, specialist_crowd


@pytest.mark.parametrize("kind", ["skilled", "one-coin", "guessing", "mixed"])
def test_labels_follow_the_confusion_matrices(kind):
    prior = np.array([0.5, 0.3, 0.2])
    data = crowd(40_000, 20, 3, labels_per_task=5, kind=kind, prior=prior, random_state=0)
    worker, given = data.labels["worker"].to_numpy(), data.labels["label"].to_numpy()
    truth = data.answers[data.labels["task"].to_numpy()]
    seen = np.zeros((20, 3, 3))
    np.add.at(seen, (worker, truth, given), 1)
    n = seen.sum(axis=2, keepdims=True)
    spread = np.sqrt(data.confusion * (1 - data.confusion) / n)
    assert (np.abs(seen / n - data.confusion) <= 5 * spread + 1e-12).all()
    assert np.abs(np.bincount(data.answers) / 40_000 - prior).max() < 0.015
    assert np.allclose(data.confusion.sum(axis=2), 1)


@pytest.mark.parametrize(("n_workers", "each"), [(6, 6), (30, 5), (500, 4)])
def test_the_workers_of_a_task_are_different(n_workers, each):
    chosen = choose_workers(3_000, n_workers, each, 0.7, np.random.default_rng(0))
    assert (np.diff(chosen, axis=1) > 0).all()
    assert chosen.min() >= 0
    assert chosen.max() < n_workers
    counts = np.bincount(chosen.ravel(), minlength=n_workers)
    assert each == n_workers or counts[0] > 2 * counts[-1]  # the first are the busiest


def test_both_ways_of_choosing_workers_draw_alike(monkeypatch):
    proportions = []
    for few in (0, 1_000):  # always by redrawing, always by keys
        monkeypatch.setattr("latentfit.labels.simulate.FEW_WORKERS", few)
        chosen = choose_workers(60_000, 8, 3, 1.0, np.random.default_rng(1))
        proportions.append(np.bincount(chosen.ravel(), minlength=8) / 60_000)
    np.testing.assert_allclose(*proportions, atol=0.015)


def test_a_fractional_number_of_labels_per_task_holds_on_average():
    data = crowd(10_000, 12, 2, labels_per_task=2.5, random_state=0).coded()
    per_task = np.diff(data.offsets)
    assert set(per_task.tolist()) == {2, 3}
    assert abs(per_task.mean() - 2.5) < 0.02


def test_the_same_seed_draws_the_same_crowd():
    first, again = (crowd(50, 6, 3, labels_per_task=3, random_state=4) for _ in range(2))
    assert first.labels.equals(again.labels)
    assert not first.labels.equals(crowd(50, 6, 3, labels_per_task=3, random_state=5).labels)


@pytest.mark.parametrize("prior", ["uniform", "dirichlet"])
def test_a_specialist_crowd_has_one_specialist(prior):
    data = specialist_crowd(2_000, prior=prior, random_state=0)
    off = np.linalg.norm(data.confusion.transpose(0, 2, 1) - np.eye(3), axis=2)  # ‖A_m(k,:) − e_k‖
    assert (off.max(axis=1) <= 0.1).sum() == 1
    assert abs(data.labels.num_rows / (2_000 * 25) - 0.3) < 0.01
    assert np.allclose(data.prior, 1 / 3) == (prior == "uniform")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"labels_per_task": 9}, "labels_per_task must be between 0 and n_workers=4, got 9"),
        ({"labels_per_task": 2, "prior": np.ones(3)}, "prior must hold"),
        ({"labels_per_task": 2, "confusion": np.ones((4, 2, 2))}, "confusion must have shape"),
        ({"labels_per_task": 2, "kind": "lazy"}, "kind must be .*, got 'lazy'"),
    ],
)
def test_impossible_crowds_are_refused(settings, words):
    with pytest.raises(DataError, match=words):
        crowd(10, 4, 2, **settings)


def test_empty_crowds_are_refused():
    with pytest.raises(DataError, match="at least one of each"):
        crowd(0, 4, 2)


@pytest.mark.parametrize(
    "settings",
    [{"n_sequences": 0}, {"n_sequences": 11}, {"n_states": 0}, {"overlap": 2.0}, {"stay": -0.1}, {"concentration": 0}],
)
def test_impossible_chains_are_refused(settings):
    """An overlap of two would make negative probabilities."""
    with pytest.raises(DataError, match="overlap and stay from 0 to 1"):
        hidden_markov(10, **settings)
