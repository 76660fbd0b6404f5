"""Mixture fractions against literal twins: sums over cells, one sample and one feature at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls

from latentfit.fractions.diagnostics import standard_errors
from latentfit.fractions.em import FractionSteps, Parts, fit_parts, initial_profiles
from latentfit.fractions.init import UnitValues, extreme_samples, fractions_of, profiles_of, random_profiles
from latentfit.fractions.select import choose_parts

HEAVY = 1e4


def mixed(seed=0, n=14, m=30, K=3, noise=0.02, missing=0.0, alpha=0.5):
    rng = np.random.default_rng(seed)
    W, H = rng.dirichlet(np.full(K, alpha), n), rng.beta(0.5, 0.5, (K, m))
    X = np.clip(W @ H + noise * rng.normal(size=(n, m)), 0, 1)
    return np.where(rng.random(X.shape) < missing, np.nan, X), W, H


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_fractions_of_known_profiles(missing):
    """Σ w = 1 as a row of great weight in non-negative least squares."""
    X, _, H = mixed(1, missing=missing)
    found = fractions_of(UnitValues.of(X), H)
    for i, x in enumerate(X):
        there = ~np.isnan(x)
        twin = nnls(np.vstack([H[:, there].T, HEAVY * np.ones(len(H))]), np.append(x[there], HEAVY))[0]
        np.testing.assert_allclose(found[i], twin, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_profiles_of_known_fractions(missing):
    X, W, _ = mixed(2, missing=missing)
    found = profiles_of(UnitValues.of(X).transposed, W)
    for j in range(X.shape[1]):
        there = ~np.isnan(X[:, j])
        twin = lsq_linear(W[there], X[there, j], (0, 1), method="bvls", tol=1e-14).x
        np.testing.assert_allclose(found[:, j], twin, atol=1e-8)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_one_step_and_its_objective(missing):
    X, _, _ = mixed(3, missing=missing)
    data = UnitValues.of(X)
    steps = FractionSteps.of(data)
    H = random_profiles(steps.turned, 3, np.random.default_rng(0))
    sums = steps.e_step(Parts(H, np.full((len(X), 3), 1 / 3)))
    np.testing.assert_allclose(sums.fractions, fractions_of(data, H), atol=1e-9)
    squares = [(X[i, j] - sums.fractions[i] @ H[:, j]) ** 2 for i, j in np.argwhere(~np.isnan(X))]
    assert sums.residual == pytest.approx(sum(squares), rel=1e-10)
    N = len(squares)
    assert steps.n_cells == N
    variance = sum(squares) / N
    normal = sum(-0.5 * np.log(2 * np.pi * variance) - square / (2 * variance) for square in squares)
    assert steps.log_likelihood(sums) == pytest.approx(normal, rel=1e-10)
    again = steps.m_step(sums)
    np.testing.assert_allclose(again.profiles, profiles_of(steps.turned, sums.fractions), atol=1e-9)


def test_the_objective_path_never_falls_whatever_the_initialisation():
    for seed in range(6):
        X, _, _ = mixed(seed, missing=0.1 * (seed % 2), noise=0.1)
        steps = FractionSteps.of(UnitValues.of(X))
        starts = list(initial_profiles(steps, 3, 1, np.random.default_rng(seed), init="random"))
        path = fit_parts(steps, starts, max_iter=60, tol=0).refined.path
        assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()


def test_pure_samples_and_pure_features_are_recovered_exactly():
    """No noise, every part alone in a sample, features that are 0 and 1 in every pattern: only one answer exists."""
    rng = np.random.default_rng(0)
    K = 3
    W = np.vstack([np.eye(K), rng.dirichlet(np.ones(K), 12)])
    H = np.hstack([np.eye(K), 1 - np.eye(K), rng.random((K, 20))])
    steps = FractionSteps.of(UnitValues.of(W @ H))
    starts = list(initial_profiles(steps, K, 4, rng))
    found = fit_parts(steps, starts, max_iter=2_000, tol=0).refined.sums
    order = [int(found.profiles[:, k].argmax()) for k in range(K)]
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(found.fractions[:, order], W, atol=1e-4)


def test_extreme_samples_are_the_pure_ones():
    rng = np.random.default_rng(1)
    H = rng.random((3, 50))
    W = np.vstack([rng.dirichlet(np.full(3, 4.0), 30), np.eye(3)])
    found = extreme_samples(UnitValues.of(W @ H), 3)
    assert all(np.abs(found - row).max(axis=1).min() < 1e-12 for row in H[:2])  # the third has no length left to show


@pytest.mark.parametrize(("n", "m", "K", "noise"), [(20, 120, 3, 0.03), (30, 60, 1, 0.05), (25, 100, 2, 0.08)])
def test_the_number_of_parts_is_found(n, m, K, noise):
    for seed in range(3):
        X, _, _ = mixed(seed + 10, n, m, K, noise, alpha=1.0)
        assert choose_parts(UnitValues.of(X), 6, np.random.default_rng(seed)).chosen == K


def test_stated_errors_are_those_of_repeats():
    """Interior fractions, so that no bound is in the way: spread over repeats against the stated standard error."""
    rng = np.random.default_rng(5)
    H, w, sigma = rng.uniform(0.1, 0.9, (3, 80)), np.array([0.3, 0.3, 0.4]), 0.05
    X = w @ H + sigma * rng.normal(size=(4_000, 80))
    found = fractions_of(UnitValues(X, None), H)
    np.testing.assert_allclose(found.std(axis=0), standard_errors(UnitValues(X, None), H, sigma), rtol=0.05)
