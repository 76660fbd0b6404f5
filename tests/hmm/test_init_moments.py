"""Exact moments of a hidden Markov model give the model back: Corollary 1.5 for two states, slices for any number."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core.assign import match_classes
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.fit import spectral_inits
from latentfit.hmm.em.steps import Chain
from latentfit.hmm.init import TwoStateMoments, diagonalise, solve_two_states, two_state_chain
from latentfit.simulate import hidden_markov


def model(seed, K, M):
    rng = np.random.default_rng(seed)
    transitions = 0.5 * np.eye(K) + 0.5 * rng.dirichlet(np.ones(K), K)
    chain = Chain(np.full(K, 1 / K), transitions, rng.dirichlet(np.full(M, 0.4), K))
    return chain, chain.stationary()


@pytest.mark.parametrize("seed", range(5))
def test_two_states_from_exact_moments(seed):
    chain, pi = model(seed, 2, 30)
    rho = pi @ chain.emissions
    rng = np.random.default_rng(seed)
    joint = chain.emissions.T @ np.diag(pi) @ chain.transitions @ chain.emissions  # B
    feature = (chain.emissions[0] - chain.emissions[1]) / rho * rng.uniform(0.5, 2)  # Δ/ρ, of any length and sign
    feature -= rho @ feature
    far = chain.emissions.T @ np.diag(pi) @ chain.transitions @ chain.transitions @ chain.emissions
    means = chain.emissions @ feature
    third = sum(
        pi[i] * means[i] * chain.transitions[i, j] * means[j] * chain.transitions[j, k] * means[k]
        for i in range(2) for j in range(2) for k in range(2)
    )  # fmt: skip
    company = (joint @ feature + joint.T @ feature) / (2 * rho)
    moments = TwoStateMoments(feature @ joint @ feature, feature @ far @ feature, third, company)
    found = solve_two_states(rho, moments)
    order = match_classes(-np.abs(chain.emissions[:, None] - found.emissions[None]).sum(axis=2))
    found = found.permuted(order)
    np.testing.assert_allclose(found.emissions, chain.emissions, atol=1e-8)
    np.testing.assert_allclose(found.transitions, chain.transitions, atol=1e-8)
    np.testing.assert_allclose(found.start, pi, atol=1e-8)


@pytest.mark.parametrize("K", [2, 3, 5, 8])
def test_slices_from_exact_moments(K):
    chain, pi = model(K, K, 40)
    rng = np.random.default_rng(K)
    before, after = (np.hstack([np.ones((40, 1)), rng.standard_normal((40, K - 1))]) for _ in range(2))
    back = (chain.transitions * pi[:, None]).T / pi[:, None]  # P(state before | state)
    omega = back @ chain.emissions @ before  # features before and after, given the state in the middle
    zeta = chain.transitions @ chain.emissions @ after
    slices = np.einsum("k,kg,ki,kj->gij", pi, chain.emissions, omega, zeta)
    found = diagonalise(slices.sum(axis=0), slices, rng)
    assert found is not None
    order = match_classes(-np.abs(omega[:, None] - found[0][None]).sum(axis=2))
    np.testing.assert_allclose(found[0][order], omega, atol=1e-8)
    np.testing.assert_allclose(found[1][order], zeta, atol=1e-8)


def test_few_trigrams_are_enough_for_two_states():
    """A hundredth of the trigrams moves the transitions by little, and the emissions by less."""
    made = hidden_markov(100_000, n_states=2, n_symbols=100, overlap=0.1, random_state=3)
    some = np.sort(np.random.default_rng(0).choice(99_998, 5000, replace=False))
    whole, few = two_state_chain(made.sequences), two_state_chain(made.sequences, trigrams=some)
    for found in (whole, few):
        apart = np.abs(made.chain.emissions[:, None] - found.emissions[None]).sum(axis=2)
        order = match_classes(-apart)
        assert apart[[0, 1], order].max() < 0.25
        assert np.abs(found.permuted(order).transitions - made.chain.transitions).max() < 0.1


def test_no_structure_gives_no_initialisation():
    empty = Sequences(np.array([0, 1], np.int32), np.array([0, 1, 2]), np.arange(2), np.arange(2))
    assert two_state_chain(empty) is None
    assert sp.issparse(empty.pairs())
    assert empty.pairs().sum() == 0
    assert diagonalise(np.zeros((3, 3)), np.zeros((4, 3, 3)), np.random.default_rng(0)) is None


@pytest.mark.parametrize("K", [2, 3, 5])
def test_initialisations_are_models(K):
    made = hidden_markov(20_000, n_states=K, n_symbols=60, random_state=K)
    for _, chain in spectral_inits(made.sequences, K, np.random.default_rng(0)):
        for part in (chain.start, chain.transitions, chain.emissions):
            assert (part >= 0).all()
            np.testing.assert_allclose(part.sum(axis=-1), 1.0)
