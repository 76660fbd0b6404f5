"""The topic kernels beside a NumPy twin written from the model alone; the same bits on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core.kernels.topics import topic_proportions, topic_sums
from latentfit.topics.data.documents import Documents


def world(K, seed=0, documents=60, words=40):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.6, (documents, words)).astype(float)
    counts[3] = 0.0  # a document without words
    counts[:, 5] = 0.0  # a word without documents
    made = Documents(sp.csr_array(counts), np.arange(documents), np.arange(words))
    topics = rng.dirichlet(np.full(words, 0.5), K).T
    return counts, made, np.ascontiguousarray(topics), rng.dirichlet(np.ones(K), documents)


def twin_step(counts, topics, proportions, prior):
    """One EM step of the shares, topics held."""
    p = proportions @ topics.T
    expected = proportions * ((counts / p) @ topics) + prior
    return expected / expected.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("K", [1, 2, 4, 5, 11, 17, 20, 33])
def test_sums_equal_the_twin(K):
    counts, made, topics, proportions = world(K, seed=K)
    found = topic_sums(made.lists, topics, proportions)
    p = proportions @ topics.T
    ratio = counts / p
    np.testing.assert_allclose(found.log_likelihood, (counts * np.log(p)).sum(axis=1), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.documents, proportions * (ratio @ topics), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.words, topics * (ratio.T @ proportions), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("K", [1, 3, 8, 21])
def test_proportions_equal_the_reference(K):
    counts, made, topics, proportions = world(K, seed=K)
    prior = np.full(K, 0.2)
    found = topic_proportions(made.lists, topics, prior, proportions, most=7, settled=0.0)
    expected = proportions
    for _ in range(7):
        expected = twin_step(counts, topics, expected, prior)
    used = counts.sum(axis=1) > 0
    np.testing.assert_allclose(found[used], expected[used], rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(found[~used], proportions[~used])


def test_proportions_stop_when_converged():
    counts, made, topics, proportions = world(3)
    prior = np.full(3, 0.1)
    found = topic_proportions(made.lists, topics, prior, proportions, most=100_000, settled=1e-12)
    used = counts.sum(axis=1) > 0
    np.testing.assert_allclose(twin_step(counts, topics, found, prior)[used], found[used], atol=1e-11)


@pytest.mark.parametrize("K", [3, 24])
def test_threads_do_not_change_a_bit(K):
    rng = np.random.default_rng(1)
    counts = np.where(rng.random((3000, 400)) < 0.05, rng.integers(1, 5, (3000, 400)), 0)
    made = Documents(sp.csr_array(counts, dtype=np.float64), np.arange(3000), np.arange(400))
    topics = np.ascontiguousarray(rng.dirichlet(np.full(400, 0.2), K).T)
    start, prior = np.full((3000, K), 1 / K), np.full(K, 0.1)
    first = None
    for threads in (1, 2, 3, 8):
        proportions = topic_proportions(made.lists, topics, prior, start, most=5, settled=0.0, threads=threads)
        sums = topic_sums(made.lists, topics, proportions, threads=threads)
        bits = [proportions.tobytes(), *(part.tobytes() for part in sums)]
        first = first or bits
        assert bits == first


def test_a_document_is_the_same_alone():
    _, made, topics, proportions = world(5)
    prior = np.full(5, 0.3)
    together = topic_proportions(made.lists, topics, prior, proportions, most=50, settled=1e-9)
    for at in (0, 7, 59):
        alone = made.take(np.array([at]))
        one = topic_proportions(alone.lists, topics, prior, proportions[at : at + 1].copy(), most=50, settled=1e-9)
        np.testing.assert_array_equal(one[0], together[at])


def test_wrong_arrays_are_named():
    _, made, topics, proportions = world(3)
    with pytest.raises(TypeError, match="topics: want contiguous float64"):
        topic_sums(made.lists, topics[:-1], proportions)
    with pytest.raises(TypeError, match="shares"):
        topic_sums(made.lists, topics, proportions[:, ::-1])
    with pytest.raises(ValueError, match="2000 topics asked for; give a number from 1 to 1024"):
        topic_sums(made.lists, np.ones((40, 2000)), np.ones((60, 2000)))
