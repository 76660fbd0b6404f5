"""Initial topics: two topics by triples, any number from word pairs, and the choice among initialisations."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core import spectral
from latentfit.core.errors import NotIdentifiableError
from latentfit.core.spectral import ScaledSVD
from latentfit.topics.data.documents import Documents
from latentfit.topics.init import (
    BLEND,
    LEAST_WEIGHT,
    TwoTopics,
    first_topics,
    topics_by_triples,
    two_topics,
    weight_from_anchors,
    weight_from_triples,
    word_spectrum,
)
from latentfit.topics.moments import WordPairs, pair_counts


def documents_of(counts):
    matrix = sp.csr_array(np.asarray(counts, float))
    return Documents(matrix, np.arange(matrix.shape[0]), np.arange(matrix.shape[1]))


def some_counts(seed=0, shape=(30, 8)):
    return np.random.default_rng(seed).poisson(0.8, shape)


# ------------------------------------------------------------------ the spectrum


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_large_and_small_vocabularies_have_the_same_spectrum(monkeypatch, rank):
    pairs = WordPairs.of(documents_of(some_counts()))
    whole = word_spectrum(pairs, rank, regularise=0.5)
    monkeypatch.setattr(spectral, "DENSE_BELOW", 2)
    parts = word_spectrum(pairs, rank, regularise=0.5)
    np.testing.assert_allclose(parts.values, whole.values, atol=1e-10)
    np.testing.assert_allclose(parts.left, whole.left, atol=1e-8)
    assert (np.diff(whole.values) <= 0).all()


def test_arpack_is_asked_only_for_large_vocabularies_and_few_vectors(monkeypatch):
    asked = []
    real = spectral.eigsh
    monkeypatch.setattr(spectral, "eigsh", lambda *args, **kwargs: asked.append(1) or real(*args, **kwargs))
    monkeypatch.setattr(spectral, "DENSE_BELOW", 8)
    word_spectrum(WordPairs.of(documents_of(some_counts(0, (30, 7)))), 2)
    word_spectrum(WordPairs.of(documents_of(some_counts())), 7)
    assert not asked
    word_spectrum(WordPairs.of(documents_of(some_counts())), 6)
    assert asked


@pytest.mark.parametrize("regularise", [0.25, 1.0, 3.0])
def test_the_scale_is_the_marginal_and_a_multiple_of_its_mean(regularise):
    counts = some_counts(1)
    pairs = WordPairs.of(documents_of(counts))
    found = word_spectrum(pairs, 2, regularise=regularise)
    long_ = counts[counts.sum(axis=1) > 1].sum(axis=0)
    rho = long_ / long_.sum()
    np.testing.assert_allclose(found.row_marginal, rho)
    np.testing.assert_allclose(found.row_scale, rho + regularise / 8)
    C = np.zeros((8, 8))
    for row in counts:
        tokens = np.repeat(np.arange(8), row)
        for i, j in permutations(range(len(tokens)), 2):
            C[tokens[i], tokens[j]] += 1 / (len(tokens) - 1)
    E = (C / C.sum() - np.outer(rho, rho)) / np.sqrt(np.outer(found.row_scale, found.row_scale))
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(E)[::-1][:2], atol=1e-12)
    assert found.symmetric
    assert found.centred


def test_no_vectors_and_no_pairs_leave_the_marginal():
    found = word_spectrum(WordPairs.of(documents_of(some_counts())), 0)
    assert found.left.shape == (8, 0)
    single = word_spectrum(WordPairs.of(documents_of(np.eye(4))), 2)  # documents of one word: no pair
    np.testing.assert_allclose(single.row_marginal, 0.25)
    assert single.values.tolist() == [0.0, 0.0]
    assert not single.left.any()
    np.testing.assert_allclose(first_topics(single, 3), 0.25)


def test_as_many_vectors_as_words_are_refused():
    pairs = WordPairs.of(documents_of(some_counts()))
    assert word_spectrum(pairs, 7).left.shape == (8, 7)
    for rank in (8, -1):
        with pytest.raises(NotIdentifiableError, match=f"{rank + 1} topics are asked of 8 words"):
            word_spectrum(pairs, rank)


# ------------------------------------------------------------------ first topics


def spectrum_of_lifts(marginal, lifts, values):
    """A spectrum whose embedding is `lifts`: points are lifts · √values."""
    scale = np.ones(len(marginal))
    left = lifts * marginal[:, None]
    return ScaledSVD(np.asarray(values), left, left, marginal, marginal, scale, scale, True, True)


def test_pure_words_are_the_anchors_of_the_initial_topics():
    marginal = np.array([0.2, 0.1, 0.3, 0.2, 0.2])
    inside = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
    corners = np.array([[2.0, 0.0], [-1.0, 1.0], [-1.0, -2.0]])
    values = np.array([0.25, 0.04])
    found = first_topics(spectrum_of_lifts(marginal, (inside @ corners) / np.sqrt(values), values), 3)
    joint = inside * marginal[:, None]
    want = 0.9 * joint / joint.sum(axis=0) + 0.1 * marginal[:, None]
    assert pytest.approx(0.1) == BLEND
    order = np.abs(found[:, :, None] - want[:, None]).sum(axis=0).argmin(axis=0)
    np.testing.assert_allclose(found[:, order], want, atol=1e-9)


def test_fewer_vectors_than_the_spectrum_has_and_one_topic():
    marginal = np.array([0.3, 0.3, 0.4])
    lifts = np.array([[1.0, 5.0], [-1.0, 7.0], [0.0, -9.0]])
    spectrum = spectrum_of_lifts(marginal, lifts, [1.0, 1.0])
    found = first_topics(spectrum, 2)
    want = 0.9 * np.array([[0.6, 0.0], [0.0, 0.6], [0.4, 0.4]]) + 0.1 * marginal[:, None]
    np.testing.assert_allclose(found[:, np.argsort(-found[0])], want, atol=1e-9)
    np.testing.assert_allclose(first_topics(spectrum, 1)[:, 0], marginal)


def test_noise_below_zero_in_the_spectrum_says_nothing():
    """A negative value is noise: its vector is not used, and the topic without a corner is the marginal."""
    marginal = np.array([0.3, 0.3, 0.4])
    lifts = np.array([[1.0, 5.0], [-1.0, 7.0], [0.0, -9.0]])
    found = first_topics(spectrum_of_lifts(marginal, lifts, [1.0, -0.5]), 3)
    assert found.shape == (3, 3)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    assert np.abs(found - marginal[:, None]).max(axis=0).min() < 1e-9


# ------------------------------------------------------------------ two topics


def test_the_weight_of_triples_is_that_of_the_skewness_over_tokens():
    """Literal: means over ordered pairs and triples of different tokens, documents by their length."""
    counts = some_counts(3, (12, 4))
    counts[0] = [2, 0, 0, 0]  # two tokens: no triple
    counts[1] = [3, 0, 0, 0]  # three: the shortest that has one
    counts[2:6, 0] += 4  # some documents are alike
    lift = np.array([1.5, -0.3, 0.1, -0.9])
    rows = [np.repeat(np.arange(4), row) for row in counts if row.sum() >= 3]
    n = sum(map(len, rows))
    v = lift - sum(lift[token] for row in rows for token in row) / n
    second = sum(len(row) / n * np.mean([v[i] * v[j] for i, j in permutations(row, 2)]) for row in rows)
    third = sum(len(row) / n * np.mean([v[i] * v[j] * v[k] for i, j, k in permutations(row, 3)]) for row in rows)
    found = weight_from_triples(sp.csr_array(counts), lift)
    assert second > 0
    skewness = third / second**1.5
    # (π_q − π_p)/√(π_p π_q) = skewness
    assert (1 - 2 * found) / np.sqrt(found * (1 - found)) == pytest.approx(skewness)


@pytest.mark.parametrize("weight", [0.2, 0.5, 0.85])
def test_one_topic_documents_give_their_weight(weight):
    """Pure documents of two topics with their own words: p words score √(q/p), q words −√(p/q)."""
    p = round(100 * weight)
    counts = np.zeros((100, 2))
    counts[:p, 0], counts[p:, 1] = 3, 3
    odds = np.sqrt((1 - weight) / weight)
    assert weight_from_triples(sp.csr_array(counts), np.array([odds, -1 / odds])) == pytest.approx(weight)
    assert weight_from_triples(sp.csr_array(counts), 7 * np.array([odds, -1 / odds]) + 3) == pytest.approx(weight)


def test_no_weight_without_triples_or_without_spread():
    assert weight_from_triples(sp.csr_array(np.array([[1.0, 1.0], [2.0, 0.0]])), np.array([1.0, -1.0])) is None
    assert weight_from_triples(sp.csr_array(np.array([[3.0, 3.0]])), np.array([1.0, 1.0])) is None
    repelled = np.tile([2.0, 2.0], (5, 1))  # words of a document are unlike: pairs show no spread
    assert weight_from_triples(sp.csr_array(repelled), np.array([1.0, -1.0])) is None


def test_weights_stay_off_zero_and_one():
    assert weight_from_anchors(-1.0, 3.0) == pytest.approx(0.25)
    assert weight_from_anchors(-1e-9, 3.0) == LEAST_WEIGHT
    assert weight_from_anchors(-3.0, 1e-9) == 1 - LEAST_WEIGHT
    assert weight_from_anchors(0.0, 0.0) == LEAST_WEIGHT
    rare = np.zeros((1000, 2))
    rare[:1, 0], rare[1:, 1] = 3, 3
    assert weight_from_triples(sp.csr_array(rare), np.array([1.0, -1.0])) == LEAST_WEIGHT


def test_topics_of_a_weight_are_cut_at_zero_and_sum_to_one():
    rho, delta = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.1, -0.2])
    found = two_topics(rho, delta, 0.2)
    p = rho + 2.0 * delta  # √(.8/.2) = 2
    q = rho - 0.5 * delta
    np.testing.assert_allclose(found.topics[0], np.maximum(p, 0) / np.maximum(p, 0).sum())
    np.testing.assert_allclose(found.topics[1], q / q.sum())
    np.testing.assert_allclose(found.weights, [0.2, 0.8])


def test_topics_by_triples_have_the_weights_that_triples_ask_for():
    weight, rho = 0.3, np.array([0.3, 0.7])
    counts = np.zeros((10, 2))
    counts[:3, 0], counts[3:, 1] = 4, 4
    odds = np.sqrt((1 - weight) / weight)
    lift = np.array([odds, -1 / odds])
    for value in (1.0, 0.25):
        spectrum = spectrum_of_lifts(rho, lift[:, None] / np.sqrt(value), [value])
        found = topics_by_triples(sp.csr_array(counts), spectrum)
        np.testing.assert_allclose(found, 0.9 * np.eye(2) + 0.1 * rho[:, None])
    assert topics_by_triples(sp.csr_array(counts), spectrum_of_lifts(rho, lift[:, None], [-1.0])) is None
    assert topics_by_triples(sp.csr_array(np.eye(2)), spectrum) is None


# ------------------------------------------------------------------ word pairs


def test_documents_of_two_words_are_the_shortest_with_a_pair():
    pairs = WordPairs.of(documents_of([[1, 0, 0], [1, 1, 0], [0, 1, 2]]))
    assert pairs.scale.tolist() == [0.0, 1.0, 0.5]
    assert pairs.diagonal.tolist() == [1.0, 1.5, 1.0]
    np.testing.assert_allclose(pairs.row_sums, [1.0, 2.0, 2.0])
    assert pairs.total == pytest.approx(5.0)
    vectors = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 1.0]])
    want = [[0.0, 0.0], [2 * 1 * 3, 2 * 2 * -1], [(2 * 2 * 3 * 0.5 + 2 * 0.25) / 2, (2 * 2 * -1 + 2 * 1) / 2]]
    np.testing.assert_allclose(pairs.forms(vectors), want)


def test_pairs_of_weighted_counts_are_never_negative_and_never_stored_as_zero():
    found = pair_counts(documents_of([[0.5, 2.0, 0.0], [0.0, 3.0, 1.0]]))
    assert found.matrix.dtype == np.float64
    np.testing.assert_allclose(found.matrix.toarray(), [[0, 1, 0], [1, 4 + 9 - 5, 3], [0, 3, 0]])
    assert (found.matrix.data != 0).all()
    whole = pair_counts(documents_of([[1.0, 1.0], [0.0, 1.0]]))
    assert whole.matrix.dtype == np.int64
    assert whole.matrix.nnz == 2
    assert whole.matrix.has_sorted_indices
    assert whole.symmetric


@pytest.mark.parametrize("kind", [TwoTopics, WordPairs])
def test_answers_cannot_be_changed(kind):
    one = object.__new__(kind)
    with pytest.raises(FrozenInstanceError):
        setattr(one, fields(kind)[0].name, 0)


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
