"""Minimax conditional entropy against a literal reference: objective, gradients and steps label by label."""

from __future__ import annotations

import math

import numpy as np
import pytest

from latentfit.labels.data import Labels, from_wide
from latentfit.labels.init.minimax_entropy import (
    _odds,
    _seen,
    ascend,
    factor_minimax_entropy,
    gradient,
    sides,
    update_labels,
)
from latentfit.labels.moments import vote_proportions
from tests.labels.label_matrices import coded


def crowd(seed: int, n_tasks: int, n_workers: int, n_classes: int, share: float = 0.6) -> tuple:
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_tasks)
    right = rng.random((n_tasks, n_workers)) < rng.uniform(0.5, 0.95, n_workers)
    given = np.where(right, truth[:, None], rng.integers(n_classes, size=(n_tasks, n_workers))).astype(float)
    given[rng.random(given.shape) >= share] = np.nan
    return coded(given, n_classes), truth


class LiteralReference:
    """The model of the paper over a list of (task, worker, label)."""

    def __init__(self, labels: Labels, gamma: float) -> None:
        self.cells = list(zip(labels.task_of().tolist(), labels.workers.tolist(), labels.given.tolist(), strict=True))
        self.K, self.n, self.M = labels.n_classes, labels.n_rows, labels.n_workers
        a_worker = len(self.cells) / len({w for _, w, _ in self.cells})
        a_task = len(self.cells) / len({i for i, _, _ in self.cells})
        self.alpha = gamma * self.K**2
        self.beta = self.alpha * a_worker / a_task

    def P(self, sigma: np.ndarray, tau: np.ndarray, w: int, i: int, v: int, c: int) -> float:
        Z = sum(math.exp(sigma[w, v, k] + tau[i, v, k]) for k in range(self.K))
        return math.exp(sigma[w, v, c] + tau[i, v, c]) / Z

    def objective(self, sigma: np.ndarray, tau: np.ndarray, Q: np.ndarray) -> float:
        total = 0.0
        for i, w, x in self.cells:
            for v in range(self.K):
                total += Q[i, v] * math.log(self.P(sigma, tau, w, i, v, x))
        for i in range(self.n):
            for v in range(self.K):
                total -= Q[i, v] * math.log(Q[i, v]) if Q[i, v] > 0 else 0.0
        ridge = self.alpha / 2 * sum(t * t for t in sigma.flat) + self.beta / 2 * sum(t * t for t in tau.flat)
        return total - ridge

    def gradients(self, sigma: np.ndarray, tau: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_sigma, by_tau = -self.alpha * sigma, -self.beta * tau
        for i, w, x in self.cells:
            for v in range(self.K):
                for c in range(self.K):
                    excess = Q[i, v] * ((x == c) - self.P(sigma, tau, w, i, v, c))
                    by_sigma[w, v, c] += excess
                    by_tau[i, v, c] += excess
        return by_sigma, by_tau

    def bounds(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_sigma, by_tau = np.full((self.M, self.K, 1), self.alpha), np.full((self.n, self.K, 1), self.beta)
        for i, w, _ in self.cells:
            for v in range(self.K):
                by_sigma[w, v] += Q[i, v] / 2
                by_tau[i, v] += Q[i, v] / 2
        return by_sigma, by_tau

    def labels(self, sigma: np.ndarray, tau: np.ndarray) -> np.ndarray:
        Q = np.ones((self.n, self.K))
        for i, w, x in self.cells:
            for v in range(self.K):
                Q[i, v] *= self.P(sigma, tau, w, i, v, x)
        return Q / Q.sum(axis=1, keepdims=True)

    def run(self, rounds: int, n_steps: int) -> np.ndarray:
        Q = np.zeros((self.n, self.K))
        for i, _, x in self.cells:
            Q[i, x] += 1
        Q[Q.sum(axis=1) == 0] = 1
        Q /= Q.sum(axis=1, keepdims=True)
        sigma, tau = np.zeros((self.M, self.K, self.K)), np.zeros((self.n, self.K, self.K))
        for _ in range(rounds):
            for _ in range(n_steps):
                sigma = sigma + self.gradients(sigma, tau, Q)[0] / self.bounds(Q)[0]
            for _ in range(n_steps):
                tau = tau + self.gradients(sigma, tau, Q)[1] / self.bounds(Q)[1]
            Q = self.labels(sigma, tau)
        return Q


@pytest.mark.parametrize("seed", range(4))
def test_gradients_and_labels_are_the_papers(seed: int) -> None:
    labels, _ = crowd(seed, 8, 5, 2 + seed % 2)
    rng, K = np.random.default_rng(seed), labels.n_classes
    sigma, tau = rng.normal(size=(labels.n_workers, K, K)), rng.normal(size=(labels.n_rows, K, K))
    Q = rng.dirichlet(np.ones(K), labels.n_rows)
    workers, tasks = sides(labels, 0.3)
    reference, q = LiteralReference(labels, 0.3), Q[tasks.at]
    by_sigma, by_tau = reference.gradients(sigma, tau, Q)
    seen = _seen(workers, q, labels.given)
    np.testing.assert_allclose(gradient(sigma, workers, _odds(tau)[tasks.at], q, seen), by_sigma, atol=1e-10)
    seen = _seen(tasks, q, labels.given)
    np.testing.assert_allclose(gradient(tau, tasks, _odds(sigma)[workers.at], q, seen), by_tau, atol=1e-10)
    new = update_labels(labels, workers, tasks, sigma, tau)
    np.testing.assert_allclose(new, reference.labels(sigma, tau), atol=1e-10)


@pytest.mark.parametrize("seed", range(2))
def test_a_run_of_minimax_entropy_equals_the_literal_reference(seed: int) -> None:
    labels, _ = crowd(seed, 7, 4, 2 + seed)
    ours = factor_minimax_entropy(labels, max_iter=3, tol=0, n_steps=2)
    np.testing.assert_allclose(ours, LiteralReference(labels, 0.25).run(3, 2), atol=1e-10)


def test_every_step_raises_the_objective() -> None:
    labels, _ = crowd(5, 60, 12, 3)
    workers, tasks = sides(labels, 0.25)
    sigma, tau, Q = np.zeros((12, 3, 3)), np.zeros((60, 3, 3)), vote_proportions(labels)
    reference = LiteralReference(labels, 0.25)
    path = [reference.objective(sigma, tau, Q)]
    for _ in range(15):
        sigma = ascend(sigma, workers, _odds(tau)[tasks.at], Q[tasks.at], labels.given, 1)
        path.append(reference.objective(sigma, tau, Q))
        tau = ascend(tau, tasks, _odds(sigma)[workers.at], Q[tasks.at], labels.given, 1)
        path.append(reference.objective(sigma, tau, Q))
        Q = update_labels(labels, workers, tasks, sigma, tau)
        path.append(reference.objective(sigma, tau, Q))
    assert np.diff(path).min() > -1e-9 * abs(path[0])


def test_minimax_entropy_recovers_a_good_crowd() -> None:
    labels, truth = crowd(3, 300, 25, 3)
    posterior = factor_minimax_entropy(labels)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-12)
    assert (posterior.argmax(axis=1) != truth).mean() < 0.05


def test_minimax_entropy_answers_on_sparse_and_empty_labels() -> None:
    nan = np.nan
    for given in ([[0, nan], [nan, nan], [nan, 2]], [[nan, nan]], [[0, 0], [0, 0]]):
        labels = coded(np.array(given, float), 3)
        posterior = factor_minimax_entropy(labels)
        np.testing.assert_allclose(posterior.sum(axis=1), 1)
        np.testing.assert_allclose(posterior[np.isnan(np.array(given, float)).all(axis=1)], 1 / 3)
    np.testing.assert_array_equal(factor_minimax_entropy(from_wide(np.zeros((3, 2)))), np.ones((3, 1)))


def test_opposed_extremes_stay_finite() -> None:
    labels, _ = crowd(0, 4, 3, 2, share=1.0)
    workers, tasks = sides(labels, 0.25)
    sigma, tau = np.zeros((3, 2, 2)), np.zeros((4, 2, 2))
    sigma[:, :, 0], tau[:, :, 1] = 5_000, 9_000
    assert np.isfinite(update_labels(labels, workers, tasks, sigma, tau)).all()
