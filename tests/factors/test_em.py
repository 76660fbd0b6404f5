"""The fast code of hidden switches beside its literal twin."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.matrix import Matrix
from latentfit.core.tensor.binary import find_candidates, score, spectral_init
from latentfit.core.tensor.eigenpairs import describe, levenberg_marquardt, merge, newton, shifted_power, sphere
from latentfit.core.tensor.whitened import project, second_moments, spectrum, whiten, whitened_tensor
from latentfit.factors.em.least_squares import alternating_least_squares, oracle, weighted_least_squares
from latentfit.factors.em.states import (
    constants,
    pair_moments,
    posterior_all,
    posterior_near,
    posterior_split,
    split_table,
    states,
)
from latentfit.factors.em.steps import SwitchParams, SwitchSteps, correlate, initial_params, posterior
from latentfit.factors.init import factor_independent
from latentfit.simulate import binary_factors
from reproduction.switches_methods import random_switches
from tests.factors import reference as twin


def matched(W, found):
    """Largest difference after the best match of rows."""
    from scipy.optimize import linear_sum_assignment

    apart = ((W[:, None] - found[None]) ** 2).sum(axis=-1)
    left, right = linear_sum_assignment(apart)
    return np.abs(W[left] - found[right]).max()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_whitened_tensor_equals_the_dense_one(seed, sigma):
    data = binary_factors(300, m=6, d=3, sigma=sigma, random_state=seed)
    K, T = twin.whitened(data.X, 3, sigma)
    seen = spectrum(data.X)
    whitening = whiten(seen, 3, sigma**2)
    np.testing.assert_allclose(whitening.K, K, atol=1e-9)
    np.testing.assert_allclose(whitened_tensor(data.X, whitening), T, atol=1e-9)


def test_moments_of_two_sets_add_up():
    X = binary_factors(500, m=5, d=2, random_state=1).X
    first, second, every = second_moments(X[:200]), second_moments(X[200:]), second_moments(X)
    assert first.n + second.n == every.n
    np.testing.assert_allclose(first.total + second.total, every.total, rtol=1e-12)
    np.testing.assert_allclose(first.product + second.product, every.product, rtol=1e-12)


def test_spectrum_of_few_rows_equals_that_of_features():
    X = binary_factors(20, m=40, d=3, random_state=2).X
    few = spectrum(X)
    values, vectors = np.linalg.eigh(X.T @ X / 20)
    np.testing.assert_allclose(few.values, values[::-1][:20], atol=1e-10)
    for at in range(3):
        assert abs(few.vectors[:, at] @ vectors[:, ::-1][:, at]) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_eigenpairs_are_eigenpairs(d):
    rng = np.random.default_rng(d)
    T = rng.standard_normal((d, d, d))
    T = sum(T.transpose(turn) for turn in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))) / 6
    y, found = newton(T, sphere(60, d, rng))
    assert found.mean() > 0.5
    y = y[found]
    np.testing.assert_allclose(np.einsum("ijk,sj,sk->si", T, y, y), y, atol=1e-7 * np.abs(y).max())
    up = shifted_power(T, sphere(20, d, rng), 1)
    value = np.einsum("ijk,si,sj,sk->s", T, up, up, up)
    np.testing.assert_allclose(np.einsum("ijk,sj,sk->si", T, up, up), value[:, None] * up, atol=1e-5)
    if d > 1:
        assert set(describe(T, up / value[:, None]).definite[value > 0].tolist()) == {-1}  # maxima


def test_stability_is_that_of_the_projected_jacobian():
    """J_p from numerical derivatives of g (3), (4)."""
    rng = np.random.default_rng(0)
    T = rng.standard_normal((4, 4, 4))
    T = sum(T.transpose(turn) for turn in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))) / 6
    y, found = newton(T, sphere(30, 4, rng))
    for point, pair in zip(y[found][:5], range(5), strict=True):
        length = np.linalg.norm(point)
        u, value = point / length, 1 / length

        def g(v):
            return np.einsum("ijk,j,k->i", T, v, v) - np.einsum("ijk,i,j,k->", T, v, v, v) * v

        J = np.stack([(g(u + 1e-6 * e) - g(u - 1e-6 * e)) / 2e-6 for e in np.eye(4)], axis=1)
        L = np.linalg.svd(u[None])[2][1:].T
        sizes = np.abs(np.linalg.eigvals(L.T @ J @ L))
        told = describe(T, point[None])
        assert told.smallest[0] == pytest.approx(sizes.min() / value, rel=1e-4), pair
        assert told.condition[0] == pytest.approx(sizes.max() / sizes.min(), rel=1e-4)


def test_levenberg_marquardt_ends_where_the_residual_is_least():
    data = binary_factors(4000, m=8, d=4, sigma=0.2, random_state=5)
    whitening = whiten(spectrum(data.X), 4, 0.04)
    T = whitened_tensor(data.X, whitening)
    y = levenberg_marquardt(T, 0.6 * sphere(50, 4, np.random.default_rng(0)))
    F = np.einsum("ijk,sj,sk->si", T, y, y) - y
    J = 2 * np.einsum("ijk,sk->sij", T, y) - np.eye(4)
    assert np.abs(np.einsum("sij,sj->si", J, F)).max() < 1e-6  # the gradient of ‖F‖²/2


def test_merge_keeps_one_of_each():
    y = np.array([[1.0, 0], [1.0004, 0], [0, 1], [0, 1.0], [0, 1.0001]])
    assert merge(y, np.array([0.2, 0.1, 0.0, 0.3, 0.0])).tolist() == [2, 4, 1]  # two pairs close together stay two


def test_scores_equal_the_reference_implementation():
    data = binary_factors(400, m=6, d=3, sigma=0.4, random_state=3)
    whitening = whiten(spectrum(data.X), 3, 0.16)
    Z = project(data.X, whitening.K)
    rng = np.random.default_rng(0)
    y = 0.6 * sphere(7, 3, rng)
    spread = 0.4 * np.linalg.norm(y @ whitening.K.T, axis=1)
    expected = [twin.ks_score(Z @ v, 1 / np.linalg.norm(v), s) for v, s in zip(y, spread, strict=True)]
    np.testing.assert_allclose(score(Z, y, spread, "ks"), expected, atol=1e-12)
    rounded = [np.mean([min(t**2, (t - 1) ** 2) for t in Z @ v]) for v in y]
    np.testing.assert_allclose(score(Z, y, spread, "rounding"), rounded, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_algorithms_equal_the_reference_implementation(seed):
    for sigma in (0.0, 0.2):
        data = binary_factors(3000, m=7, d=3, sigma=sigma, random_state=seed)
        start = spectral_init(data.X, 3, sigma=sigma, search="newton", rng=0)
        K, T = twin.whitened(data.X, 3, sigma)
        rng = np.random.default_rng(1)
        pairs = find_candidates(T, data.X.mean(axis=0) @ K, 3000, "newton", rng)
        as_pairs = [(y / np.linalg.norm(y), 1 / np.linalg.norm(y)) for y in pairs.y]
        if sigma == 0:
            W = twin.algorithm_2(data.X, as_pairs, K)
        else:
            W = twin.algorithm_1(data.X, as_pairs, K, sigma, 3 / np.sqrt(3000))
        if len(W) == 3:  # Newton may have missed a vector: then the paper has no answer either
            assert matched(W, start.W) < 1e-6


def random_params(d, q, seed, sigma2=0.3):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(2**d))
    return SwitchParams(rng.standard_normal((d, q)), np.log(P), sigma2), rng


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_sums_over_states_equal_the_reference_implementation(d):
    params, rng = random_params(d, 6, d)
    X = rng.standard_normal((9, 6)) * 2
    logs = np.array([twin.state_weights(x, params.W, params.log_prior, params.sigma2) for x in X])
    top = logs.max(axis=1, keepdims=True)
    P = np.exp(logs - top)
    expected = (P / P.sum(axis=1, keepdims=True)) @ states(d)
    mean, log_likelihood = posterior(X, params)
    np.testing.assert_allclose(mean, expected, atol=1e-10)
    np.testing.assert_allclose(log_likelihood, np.log(P.sum(axis=1)) + top[:, 0], atol=1e-9)


@pytest.mark.parametrize("d", [2, 3, 4, 6])
def test_three_ways_to_sum_states_agree(d):
    params, rng = random_params(d, d, 10 + d)
    G = params.W @ params.W.T
    beta = correlate(rng.standard_normal((300, d)) * 2, params)
    all_ = posterior_all(beta, constants(G, params.sigma2, params.log_prior))
    split = posterior_split(beta, split_table(G, params.sigma2, params.log_prior))
    near = posterior_near(beta, G, params.sigma2, params.log_prior, np.zeros(300, np.int64), d)  # every state is near
    for other in (split, near):
        np.testing.assert_allclose(other.log_sum, all_.log_sum, atol=1e-10)
        np.testing.assert_allclose(other.mean, all_.mean, atol=1e-10)
        np.testing.assert_allclose(other.state_counts, all_.state_counts, atol=1e-9)
    both = states(d).T @ (all_.state_counts[:, None] * states(d))
    np.testing.assert_allclose(pair_moments(all_.state_counts, d), both, atol=1e-9)


def test_near_states_hold_nearly_everything_when_noise_is_low():
    data = binary_factors(500, m=20, d=8, sigma=0.2, random_state=1)
    params = initial_params(data.W, data.h.mean(axis=0), 0.04)
    beta = correlate(data.X, params)
    G = data.W @ data.W.T
    near = posterior_near(beta, G, 0.04, params.log_prior, np.zeros(500, np.int64), 2)
    full = posterior_all(beta, constants(G, 0.04, params.log_prior))
    np.testing.assert_allclose(near.log_sum, full.log_sum, atol=1e-3)
    assert (near.log_sum <= full.log_sum + 1e-9).all()


def test_m_step_is_the_maximum():
    """No small change of any parameter raises the expected complete log-likelihood."""
    params, rng = random_params(3, 4, 7)
    X = rng.standard_normal((200, 4))
    steps = SwitchSteps(X, float((X**2).sum()), 4, "all")
    sums = steps.e_step(params)
    best = steps.m_step(sums)
    both = pair_moments(sums.state_counts, 3)

    def expected(W, sigma2):
        misfit = steps.squares - 2 * (W * sums.cross).sum() + (W @ W.T * both).sum()
        return -misfit / (2 * sigma2) - 400 * np.log(sigma2)

    top = expected(best.W, best.sigma2)
    for _ in range(50):
        assert expected(best.W + 1e-3 * rng.standard_normal((3, 4)), best.sigma2) <= top
    assert expected(best.W, best.sigma2 * 1.01) <= top
    assert expected(best.W, best.sigma2 * 0.99) <= top


def test_weighted_least_squares_equals_the_reference_implementation():
    data = binary_factors(60, m=5, d=3, sigma=0.5, random_state=4)
    start = data.W + 0.1
    expected = twin.weighted_least_squares(data.X, start, 0.5)
    np.testing.assert_allclose(weighted_least_squares(data.X, start, 0.5), expected, atol=1e-9)


def test_alternating_least_squares_converges_at_the_truth_and_oracle_is_least_squares():
    data = binary_factors(800, m=10, d=3, sigma=0.0, random_state=6)
    W, h, *_ = alternating_least_squares(data.X, data.h)
    np.testing.assert_allclose(W, data.W, atol=1e-8)
    assert np.array_equal(h, data.h)
    np.testing.assert_allclose(oracle(data.X, data.h), np.linalg.lstsq(data.h, data.X, rcond=None)[0], atol=1e-8)
    some = random_switches(50, 3, np.random.default_rng(0))
    assert set(np.unique(some)) == {0.0, 1.0}


def test_independent_switches_come_back_whatever_their_signs():
    rng = np.random.default_rng(0)
    p = np.array([0.1, 0.25, 0.7, 0.85])
    W = rng.standard_normal((4, 12))
    h = (rng.random((200_000, 4)) < p).astype(float)
    found = factor_independent(h @ W + 0.1 * rng.standard_normal((len(h), 12)), 4, 0.01, rng=rng)
    assert matched(W, found.W) < 0.05
    np.testing.assert_allclose(np.sort(found.probability), p, atol=0.01)


def test_hashes_follow_rows_and_ignore_the_order_of_features():
    X = binary_factors(50, m=4, d=2, random_state=0).X
    X[7] = X[3]
    hashes = Matrix(X, (0, 1, 2, 3)).hashes(0)
    assert len(np.unique(hashes)) == 50
    assert np.array_equal(np.sort(Matrix(X[::-1].copy(), (0, 1, 2, 3)).hashes(0)), np.sort(hashes))
    assert np.array_equal(Matrix(X[:, ::-1].copy(), (0, 1, 2, 3)).hashes(0), hashes)
