"""Hidden switches: exact moments give exact vectors, sampled ones the paper's rates and the number of switches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from latentfit import BinaryFactors
from latentfit.core.tensor.binary import find_candidates, weights_of
from latentfit.core.tensor.whitened import Spectrum, count_switches, noise_variance, spectrum, whiten
from latentfit.factors.em.least_squares import oracle
from latentfit.factors.em.states import states
from latentfit.factors.em.steps import initial_params, refine_switches
from latentfit.factors.simulate import draw_switches, draw_weights
from latentfit.simulate import binary_factors


def error(W, found):
    apart = ((W[:, None] - found[None]) ** 2).sum(axis=-1)
    return float(apart[linear_sum_assignment(apart)].sum() / W.size)


@pytest.mark.parametrize("seed", range(20))
def test_exact_moments_give_exact_vectors(seed):
    """Population moments of a random P(h), noise and all: the true vectors are among the candidates to 1e-8."""
    rng = np.random.default_rng(seed)
    d, m, sigma = 2 + seed % 4, 12, 0.5
    P, S, W = rng.dirichlet(np.full(2**d, 2.0)), states(d), draw_weights(d, 12, rng)
    means = S @ W
    mean = P @ means
    M = (means * P[:, None]).T @ means + sigma**2 * np.eye(m)
    values, vectors = np.linalg.eigh(M)
    seen = Spectrum(10**9, m, mean, values[::-1].copy(), vectors[:, ::-1].copy())
    assert noise_variance(seen.values, 10**9, m, d) == pytest.approx(sigma**2, rel=1e-6)
    whitening = whiten(seen, d, sigma**2)
    Z = means @ whitening.K
    T = np.einsum("h,hi,hj,hk->ijk", P, Z, Z, Z)  # 𝓜_σ(K, K, K): the noise's share is gone
    pairs = find_candidates(T, whitening.mean, 10**9, "auto", rng)
    truth = np.linalg.lstsq(whitening.K, np.linalg.pinv(W), rcond=None)[0].T
    nearest = np.linalg.norm(pairs.y[None] - truth[:, None], axis=2)
    assert nearest.min(axis=1).max() < 1e-8
    share = (pairs.y[nearest.argmin(axis=1)] ** 2).sum(axis=1)
    np.testing.assert_allclose(share, P @ S, atol=1e-8)  # 1/λ² = P(on), Lemma 1
    np.testing.assert_allclose(weights_of(pairs.y[nearest.argmin(axis=1)], whitening), W, atol=1e-7)


@pytest.mark.slow
def test_error_falls_like_one_over_n():
    sizes, errors = [2_000, 8_000, 32_000], []
    for n in sizes:
        found = []
        for seed in range(6):
            data = binary_factors(n, 20, 4, 0.4, seed)
            found.append(error(data.W, BinaryFactors(4).fit(data.X).components_))
        errors.append(np.median(found))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -1.25 < slope < -0.75  # squared error


@pytest.mark.slow
def test_em_is_near_the_oracle_and_at_the_optimum():
    ratios, reached = [], []
    for seed in range(12):
        data = binary_factors(6_000, 30, 6, 0.4, seed)
        model = BinaryFactors(6).fit(data.X)
        truth = refine_switches(data.X, initial_params(data.W, data.h.mean(axis=0), 0.16))
        reached.append(model.log_likelihood_ > truth.log_likelihood - 1)
        ratios.append(error(data.W, model.components_) / error(data.W, oracle(data.X, data.h)))
    assert np.median(ratios) < 1.1
    assert all(reached)


@pytest.mark.parametrize("sigma", [0.4, 1.0])
def test_number_of_switches_is_found(sigma):
    found = []
    for seed in range(20):
        data = binary_factors(10_000, 30, 6, sigma, seed)
        seen = spectrum(data.X)
        count = count_switches(seen.values, seen.n, seen.m)
        found.append(count.d)
        if count.d == 6:
            assert np.sqrt(count.sigma2) == pytest.approx(sigma, rel=0.02)
    assert np.mean(np.array(found) == 6) >= 0.95


def test_pure_noise_has_one_switch_and_a_caution():
    X = np.random.default_rng(0).standard_normal((2000, 10))
    model = BinaryFactors().fit(X)
    assert model.n_components_ == 1
    assert model.report_.verdict != "ok"


def test_simulation_is_section_5_1():
    data = binary_factors(50_000, 30, 6, 0.4, 0)
    np.testing.assert_allclose(np.linalg.norm(data.W, axis=0), 1.0)
    assert np.std(data.X - data.h @ data.W) == pytest.approx(0.4, rel=0.01)
    on = draw_switches(20_000, 40, np.random.default_rng(1)).mean(axis=0)
    assert 0.05 < on.min() < on.max() < 0.5
