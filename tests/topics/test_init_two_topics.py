"""Corollary 1.3: exact moments give the parameters; pairs alone leave the weights open."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.topics.init import two_topics, weight_from_anchors, weight_from_triples


def model(weight, seed=0, M=20):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(M, 0.5), 2)
    p[0], q[1] = 0.0, 0.0  # anchors
    p, q = p / p.sum(), q / q.sum()
    rho = weight * p + (1 - weight) * q
    return p, q, rho, np.sqrt(weight * (1 - weight)) * (p - q)


@pytest.mark.parametrize("weight", [0.1, 0.35, 0.5, 0.8])
def test_exact_moments_give_the_topics(weight):
    p, q, rho, delta = model(weight)
    lift = delta / rho
    assert weight_from_anchors(lift.min(), lift.max()) == pytest.approx(weight, abs=1e-12)
    found = two_topics(rho, delta, weight)
    np.testing.assert_allclose(found.topics, [p, q], atol=1e-12)
    np.testing.assert_allclose(found.weights, [weight, 1 - weight])


def test_every_weight_fits_the_pairs():
    """What the user is told: another weight gives other topics with the same pairs."""
    rho = np.full(6, 1 / 6)
    delta = np.array([0.04, 0.04, 0.04, -0.04, -0.04, -0.04])
    for weight in (0.3, 0.5, 0.6):
        found = two_topics(rho, delta, weight)
        pairs = (found.topics.T * found.weights) @ found.topics
        np.testing.assert_allclose(pairs, np.outer(rho, rho) + np.outer(delta, delta), atol=1e-12)


def test_triples_are_those_of_different_tokens():
    """The closed form equals a walk over all ordered triples."""
    rng = np.random.default_rng(1)
    counts = rng.poisson(0.7, (30, 7))
    lift = rng.normal(size=7)
    long_ = counts[counts.sum(axis=1) >= 3]
    v = lift - (long_ @ lift).sum() / long_.sum()
    second = third = total = 0.0
    for row in counts:
        tokens = np.repeat(np.arange(7), row)
        if len(tokens) < 3:
            continue
        total += len(tokens)
        pairs = [v[i] * v[j] for i, j in permutations(tokens, 2)]
        triples = [v[i] * v[j] * v[k] for i, j, k in permutations(tokens, 3)]
        second += len(tokens) * np.mean(pairs)
        third += len(tokens) * np.mean(triples)
    skewness = third / total / (second / total) ** 1.5 if second > 0 else None
    found = weight_from_triples(sp.csr_array(counts), lift)
    if skewness is None:
        assert found is None
    else:
        assert found == pytest.approx(np.clip(0.5 * (1 - skewness / np.sqrt(4 + skewness**2)), 0.01, 0.99), abs=1e-9)


@pytest.mark.parametrize("weight", [0.25, 0.5, 0.7])
def test_triples_find_the_weight(weight):
    p, q, rho, delta = model(weight, seed=2)
    rng = np.random.default_rng(3)
    kind = rng.random(40_000) < weight
    words = np.where(kind[:, None], rng.choice(20, (40_000, 3), p=p), rng.choice(20, (40_000, 3), p=q))
    rows = np.repeat(np.arange(40_000), 3)
    counts = sp.csr_array(sp.coo_array((np.ones(120_000), (rows, words.reshape(-1))), shape=(40_000, 20)))
    assert weight_from_triples(counts, delta / rho) == pytest.approx(weight, abs=0.02)
    assert weight_from_triples(counts[:0], delta / rho) is None
