"""Word pairs counted token by token, and the spectrum of the matrix they make."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core.errors import NotIdentifiableError
from latentfit.topics.data.documents import Documents
from latentfit.topics.init import first_topics, word_spectrum
from latentfit.topics.moments import WordPairs, pair_counts
from latentfit.topics.simulate import topic_documents


def documents_of(counts):
    matrix = sp.csr_array(np.asarray(counts, float))
    return Documents(matrix, np.arange(matrix.shape[0]), np.arange(matrix.shape[1]))


def twin(counts, weighted):
    """Every ordered pair of different tokens of a document, one by one."""
    total = np.zeros((counts.shape[1],) * 2)
    for row in counts.astype(int):
        tokens = np.repeat(np.arange(len(row)), row)
        for i, j in permutations(range(len(tokens)), 2):
            total[tokens[i], tokens[j]] += 1 / (len(tokens) - 1) if weighted else 1
    return total


@pytest.fixture
def counts():
    rng = np.random.default_rng(0)
    made = rng.poisson(0.5, (25, 8))
    made[0], made[1] = 0, 0
    made[1, 2] = 1  # one token: no pair
    made[2, 3] = 4  # the same word again and again
    return made


def test_pair_counts_are_exact(counts):
    found = pair_counts(documents_of(counts))
    assert found.matrix.dtype == np.int64
    assert found.symmetric
    np.testing.assert_array_equal(found.matrix.toarray(), twin(counts, False))


def test_products_and_forms_are_those_of_the_matrix(counts):
    pairs, C = WordPairs.of(documents_of(counts)), twin(counts, True)
    V = np.random.default_rng(1).normal(size=(8, 3))
    np.testing.assert_allclose(pairs.product(V), C @ V, atol=1e-12)
    np.testing.assert_allclose(pairs.product(V[:, 0]), C @ V[:, 0], atol=1e-12)
    np.testing.assert_allclose(pairs.forms(V).sum(axis=0), np.diag(V.T @ C @ V), atol=1e-11)
    long_ = counts[counts.sum(axis=1) > 1]
    np.testing.assert_allclose(pairs.row_sums, long_.sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("size", [40, 260])  # decomposed whole, and by ARPACK
def test_spectrum_is_that_of_the_scaled_matrix(size):
    made = topic_documents(120, size, 3, length=20, random_state=0)
    pairs = WordPairs.of(documents_of(made.counts.toarray()))
    C = pairs.product(np.eye(size)) / pairs.total
    rho = C.sum(axis=1)
    root = 1 / np.sqrt(rho + rho.mean())
    values, vectors = np.linalg.eigh(root[:, None] * (C - np.outer(rho, rho)) * root)
    found = word_spectrum(pairs, 2)
    np.testing.assert_allclose(found.values, values[::-1][:2], atol=1e-10)
    np.testing.assert_allclose(np.abs(found.left.T @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-7)
    assert (found.left[np.abs(found.left).argmax(axis=0), range(2)] > 0).all()


def test_exact_pairs_of_pure_groups_give_the_topics():
    """Anchor words for every topic, frequencies without noise: the corners are the topics."""
    rng = np.random.default_rng(3)
    K, M = 3, 30
    topics = rng.dirichlet(np.full(M, 0.3), K)
    topics[:, :9] = np.kron(np.eye(K), np.full(3, 1 / 6))
    topics /= topics.sum(axis=1, keepdims=True)
    proportions = rng.dirichlet(np.full(K, 0.3), 40)
    # documents so long that their pairs are their expectation
    pairs = WordPairs.of(documents_of(1e7 * proportions @ topics))
    found = first_topics(word_spectrum(pairs, K - 1, regularise=0.0), K)
    exact = 0.9 * topics.T + 0.1 * pairs.row_sums[:, None] / pairs.total
    apart = np.abs(found[:, :, None] - exact[:, None, :]).sum(axis=0)
    assert sorted(apart.argmin(axis=1)) == [0, 1, 2]
    assert apart.min(axis=1).max() < 1e-4


def test_more_topics_than_words_are_refused():
    pairs = WordPairs.of(documents_of(np.ones((5, 3))))
    with pytest.raises(NotIdentifiableError, match="4 topics are asked of 3 words"):
        word_spectrum(pairs, 3)
