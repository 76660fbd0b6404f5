"""Where doubts about hidden states, topics and clusters begin: made-up fits on both sides of each limit."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from latentfit.clusters.diagnostics import verdict as clusters
from latentfit.clusters.diagnostics.purity import PurityTable
from latentfit.clusters.select.criteria import PathNumbers
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.spectral import scaled_svd
from latentfit.core.table.table import Column, Table
from latentfit.core.verdict import Examiner
from latentfit.hmm import diagnostics as hmm
from latentfit.hmm.data import read_sequences
from latentfit.hmm.em.fit import cut
from latentfit.hmm.em.steps import Chain, ChainPrior
from latentfit.hmm.select import HalvesComparison
from latentfit.topics.data.documents import Documents
from latentfit.topics.diagnostics import verdict as topics
from latentfit.topics.select import TopicNumber


def told(found, words):
    reasons = [check.reason for check in found.failed] if isinstance(found, Examiner) else found.reasons
    return any(words in reason for reason in reasons)


# -------------------------------------------------------------- hidden states


def letters(seed, n_sequences=30, length=8, size=5, sticky=0.0):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n_sequences):
        state = rng.integers(size)
        row = []
        for _ in range(length):
            state = state if rng.random() < sticky else rng.integers(size)
            row.append(int(state))
        out.append(row)
    return out


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("size", "asked", "used"), [(7, 1, 1), (7, 2, 2), (7, 4, 4), (7, 5, 4), (3, 4, 2)])
def test_dependence_is_measured_along_directions_of_the_other_half(size, asked, used, symmetric):
    data = read_sequences(letters(0, size=size, sticky=0.4))
    learn, test = (data.slices(data.offsets[part:-1:2], data.offsets[part + 1 :: 2]).pairs() for part in (0, 1))
    found = scaled_svd(learn, used, centred=True, symmetric=symmetric, tol=1e-4)
    C = test.toarray()
    n = C.sum()
    score = weight = 0.0
    for k in range(used):
        f = found.left[:, k] / np.sqrt(found.row_scale)
        g = found.right[:, k] / np.sqrt(found.column_scale)
        f = [float(x) for x in f - sum(C[i].sum() / n * f[i] for i in range(size))]
        g = [float(x) for x in g - sum(C[:, j].sum() / n * g[j] for j in range(size))]
        var_f = sum(C[i].sum() / n * f[i] ** 2 for i in range(size))
        var_g = sum(C[:, j].sum() / n * g[j] ** 2 for j in range(size))
        z = sum(C[i, j] * f[i] * g[j] for i in range(size) for j in range(size)) / sqrt(n * var_f * var_g)
        score += found.values[k] * z
        weight += found.values[k] ** 2
    assert hmm._test_along(learn, test, asked, symmetric) == pytest.approx(score / sqrt(weight), rel=1e-9)


def test_both_halves_take_their_turn():
    data = read_sequences(letters(1, sticky=0.3))
    split = cut(data, 0, proportion=0.5)
    one, other = split.learn.pairs(), split.held.pairs()
    found = hmm.neighbour_test(data, 2)
    scores = []
    for symmetric, factor in ((True, 6), (False, 4)):
        both = hmm._test_along(one, other, 2, symmetric) + hmm._test_along(other, one, 2, symmetric)
        counts = data.counts() / data.counts().sum()
        alike = min(1.0, factor * 2 / sum(4 * (p / (p + 1 / 5)) ** 2 for p in counts))
        scores.append(both / sqrt(2 * (1 + alike)))
    assert found.z == pytest.approx(max(scores))
    assert found.p_value == pytest.approx(2 * norm.sf(max(scores)))
    assert hmm.neighbour_test(data) == hmm.neighbour_test(data, 1)
    assert hmm.neighbour_test(read_sequences([["a", "b", "a"]])) == (0, 1, False)  # nothing in the second half
    assert hmm.neighbour_test(read_sequences([["a", "a", "a"]] * 9)) == (0, 1, True)  # one symbol


@pytest.mark.parametrize(
    ("N", "K", "level"),
    [(9, 2, "not identifiable"), (10, 2, "caution"), (49, 2, "caution"), (50, 2, None)],
)
def test_one_observation_a_symbol_is_the_least_and_five_are_enough(N, K, level):
    examiner = Examiner()
    hmm._examine_size(examiner, N, 10)
    assert [check.level for check in examiner.failed] == ([level] if level else [])
    assert told(examiner, f"{N / 10:.1f} each") == (level == "caution")


@pytest.mark.parametrize(
    ("p_value", "smallest", "length"), [(1e-3, 0.05, 3), (1.1e-3, 0.05, 3), (0, 0.049, 3), (0, 0.05, 2)]
)
def test_structure_rank_and_three_steps(p_value, smallest, length):
    examiner = Examiner()
    data = read_sequences([["a", "b", "a"][:length]] * 4)
    hmm._examine_structure(examiner, data, smallest, hmm.NeighbourTest(3.0, p_value))
    assert told(examiner, "look independent") == (p_value > 1e-3)
    assert told(examiner, "nearly of lower rank") == (smallest < 0.05)
    assert told(examiner, "No sequence has three steps") == (length < 3)


def test_states_left_twenty_times_and_a_tenth_apart_are_known():
    transitions = np.array([[0.9, 0.1, 0.0], [0.1, 0.65, 0.25], [0.0, 0.25, 0.75]])
    emissions = np.array([[0.5, 0.5, 0.0], [0.45, 0.5, 0.05], [0.0, 0.0, 1.0]])
    chain = Chain(np.full(3, 1 / 3), transitions, emissions)
    weights = np.array([0.5, 0.25, 0.25])
    for N, seldom in ((399, True), (401, False)):  # state 0 is left N · .5 · .1 times
        examiner = Examiner()
        hmm._examine_states(examiner, chain, weights, N)
        assert told(examiner, "State 0 was left about 20 times") == seldom
        assert examiner.quantities["times_left"] == pytest.approx([0.05 * N, 0.0875 * N, 0.0625 * N])
        assert examiner.quantities["nearest_emissions"] == pytest.approx(0.1)
    for shift, alike in ((0.049, True), (0.051, False)):
        moved = emissions.copy()
        moved[1] = [0.5 - shift, 0.5, shift]
        examiner = Examiner()
        hmm._examine_states(examiner, replace(chain, emissions=moved), weights, 1000)
        assert told(examiner, "States 0 and 1 show the same symbols") == alike


@pytest.mark.parametrize(("gain", "doubted"), [(0.3, True), (0.31, False)])
def test_the_last_state_gains_more_than_three_standard_errors(gain, doubted):
    examiner = Examiner()
    hmm._examine_last_state(examiner, HalvesComparison(gain, 0.1, (), 2), 3, 1000)
    assert told(examiner, "3 states gain") == told(examiner, "--states 2") == doubted
    assert examiner.quantities == {"last_state_gain": gain, "last_state_error": 0.1}


def test_one_state_is_asked_about_dependence_alone(monkeypatch):
    one = Chain(np.ones(1), np.ones((1, 1)), np.full((1, 5), 0.2))
    prior = ChainPrior(np.full(5, 0.2), np.full(5, 0.2), 0.7, 0.1)
    for p_value, doubted in ((0.9e-3, True), (1e-3, False)):
        monkeypatch.setattr(hmm, "neighbour_test", lambda data, n, p=p_value: hmm.NeighbourTest(float(n), p))
        data = read_sequences(letters(2))
        found = hmm.examine_chain(data, one, prior, np.ones(1), converged=True, path=None)
        assert told(found, "Neighbouring symbols depend") == doubted
        assert found.verdict == ("caution" if doubted else "ok")
        expected = {
            "n_observed": 240, "n_symbols": 5, "observations_per_symbol": 48.0, "structure_z": 1.0,
            "structure_p_value": p_value, "smallest_singular_value": 1.0, "smoothing": 0.7,
            "entropy_rate_known": doubted,
        }  # fmt: skip
        assert {name: found.quantities[name] for name in expected} == expected
    path = SimpleNamespace(held_out=[1.0], at_limit=False, chosen=1, limit=20)
    found = hmm.examine_chain(data, one, prior, np.ones(1), converged=False, path=path)
    assert told(found, "Baum–Welch stopped")
    assert told(found, "No structure found")
    assert found.quantities["held_out"] == [1.0]


def test_the_entropy_rate_needs_as_many_observations_as_symbols(monkeypatch):
    monkeypatch.setattr(hmm, "neighbour_test", lambda data, n: hmm.NeighbourTest(9.0, 0.0))
    one = Chain(np.ones(1), np.ones((1, 1)), np.full((1, 6), 1 / 6))
    prior = ChainPrior(np.full(6, 1 / 6), np.full(6, 1 / 6), 0.7, 0.1)
    for gap, known in (([], True), ([None], False)):
        data = read_sequences([["a", "b", "c", "d", "e", "f"]])
        data = replace(data, codes=np.where(np.arange(6) < len(gap), -1, data.codes).astype(np.int32))
        found = hmm.examine_chain(data, one, prior, np.ones(1), converged=True, path=None)
        assert found.quantities["entropy_rate_known"] == known


def test_one_direction_fewer_than_states_is_looked_along(monkeypatch):
    seen = []
    monkeypatch.setattr(hmm, "neighbour_test", lambda data, n: seen.append(n) or hmm.NeighbourTest(9.0, 0.0))
    monkeypatch.setattr(hmm, "compare_halves", lambda *args, **kwargs: HalvesComparison(1.0, 0.1, ()))
    monkeypatch.setattr(hmm, "_examine_stability", lambda *args: [])
    prior = ChainPrior(np.full(5, 0.2), np.full(5, 0.2), 0.7, 0.1)
    for K in (1, 2, 4):
        chain = Chain(np.full(K, 1 / K), np.eye(K) * 0.4 + 0.6 / K, np.eye(5)[:K] * 0.8 + 0.04)
        found = hmm.examine_chain(
            read_sequences(letters(3)), chain, prior, np.full(K, 1 / K), converged=True, path=None
        )
        assert ("times_left" in found.quantities) == ("last_state_gain" in found.quantities) == (K > 1)
    assert seen == [1, 1, 3]


# --------------------------------------------------------------------- topics


def documents_of(counts):
    counts = sp.csr_array(np.asarray(counts, float))
    return Documents(counts, np.arange(counts.shape[0]), np.arange(counts.shape[1]))


def shown(counts, K, directions):
    examiner = Examiner()
    documents = documents_of(counts)
    examiner.quantities |= {"tokens_per_word": 3.0, "documents_of_three": int((documents.lengths >= 3).sum())}
    enough = topics._examine_structure(examiner, documents, K, TopicNumber(K, directions), 0)
    return examiner, enough


@pytest.mark.parametrize(
    ("K", "directions", "level", "enough"),
    [
        (1, [9.0], "caution", False),
        (1, [2.4], "caution", False),
        (2, [2.4], "not identifiable", False),
        (2, [2.5], None, True),
        (3, [9.0, 2.4], "caution", True),
        (3, [9.0, 2.5], None, True),
        (2, [9.0, 9.0], None, True),
        (2, [], "not identifiable", False),
    ],
)
def test_directions_beyond_chance_are_one_fewer_than_topics(K, directions, level, enough):
    examiner, asked = shown([[2, 1, 0], [0, 1, 2]], K, directions)
    assert asked == enough
    assert [check.level for check in examiner.failed] == ([level] if level else [])
    assert examiner.quantities["directions"] == directions


def test_documents_of_two_and_of_three_words():
    examiner, enough = shown([[1, 0], [0, 1]], 2, [9.0])
    assert told(examiner, "No document has two words")
    assert not enough
    examiner, enough = shown([[1, 1], [0, 1]], 2, [9.0])
    assert told(examiner, "No document has three words")
    assert enough
    assert not told(shown([[1, 2], [0, 1]], 2, [9.0])[0], "No document has")


def test_topics_that_share_nine_tenths_are_one_and_thirty_tokens_make_one():
    documents = documents_of([[40, 30, 30]])
    three = np.array([[0.5, 0.5, 0.0], [0.39, 0.5, 0.11], [0.0, 0.1, 0.9]])
    weights = np.array([0.4, 0.3, 0.3])
    examiner = Examiner()
    topics._examine_lists(examiner, documents, three, weights)
    assert not examiner.failed  # more than a tenth apart, thirty tokens
    expected = {"nearest_topics": 0.11, "smallest_topic_tokens": 30.0, "shared_top_words": 1.0}  # of three words
    expected["top_words_everywhere"] = 0
    assert examiner.quantities == pytest.approx(expected)
    three[1] = [0.41, 0.5, 0.09]
    topics._examine_lists(examiner, documents, three, np.array([0.41, 0.3, 0.29]))
    assert told(examiner, "Topics 0 and 1 share 91% of their words'")
    assert told(examiner, "Topic 2 has only 29 tokens")


def anchored(words, pure, share=0.8):
    """Topic 1 has `words` of its probability on words of its own and `pure` documents."""
    own = np.array([[0.5, 0.5, 0.0], [0.5 - words / 2, 0.5 - words / 2, words]])
    counts = np.ones((8, 3))
    counts[7] = 0
    proportions = np.tile([1.0, 0.0], (8, 1))
    proportions[8 - pure - 1 :] = [1 - share, share]  # one of them without words
    examiner = Examiner()
    topics._examine_anchors(examiner, documents_of(counts), own, proportions, np.array([0.5, 0.5]))
    return examiner


@pytest.mark.parametrize(
    ("words", "pure", "open_"), [(0.019, 2, True), (0.02, 2, False), (0.019, 3, False), (0.0, 0, True)]
)
def test_three_documents_or_two_hundredths_of_words_anchor_a_topic(words, pure, open_):
    examiner = anchored(words, pure)
    assert told(examiner, "Topic 1 has neither words nor documents") == open_
    assert examiner.quantities["pure_documents"] == [7 - pure, pure]
    assert examiner.quantities["pure_word_probability"] == pytest.approx([0, words])
    assert told(anchored(words, pure, share=0.79), "Topic 1 has neither") == (words < 0.02)


def test_a_word_is_pure_when_nine_tenths_of_it_are_one_topics():
    for size, pure in ((0.1, 0.9), (0.12, 0.0)):
        own = np.array([[0.9, 0.1], [size, 1 - size]])
        examiner = Examiner()
        topics._examine_anchors(
            examiner, documents_of([[1, 1]] * 4), own, np.eye(2)[[0, 0, 1, 1]], np.array([0.5, 0.5])
        )
        assert examiner.quantities["pure_word_probability"][0] == pytest.approx(pure)


@pytest.mark.parametrize(("apart", "doubted"), [(0.5, False), (0.51, True)])
def test_half_of_a_topics_words_may_move_between_halves(apart, doubted, monkeypatch):
    monkeypatch.setattr(topics, "half_sample_distances", lambda *args: np.array([0.1, apart]))
    documents, own = documents_of([[1, 1], [1, 1]]), np.full((2, 2), 0.5)
    for checked in (True, False):
        examiner = Examiner()
        topics._examine_halves(examiner, documents, own, np.array([0.75, 0.25]), (1.0, 1.0), 0, 1, checked=checked)
        words = f"Topic 1 is unstable under resampling: fitted anew to half of the documents, {apart:.0%}"
        assert told(examiner, words) == (doubted and checked)
        assert examiner.expected.value == pytest.approx(0.75 * 0.1 + 0.25 * apart)
        assert f"(topic 1: {1 - apart:.0%})" in examiner.expected.sentence


def test_distance_to_the_halves_is_the_mean_of_both_after_matching(monkeypatch):
    own = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]])
    fits = [
        np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.3, 0.1, 0.1]]),
        np.array([[0.6, 0.2, 0.2, 0.0], [0.2, 0.2, 0.3, 0.3]]),
    ]
    left = list(fits)

    def best_em_run(steps, starts, **kwargs):
        params = SimpleNamespace(topics=left.pop().T)
        return SimpleNamespace(refined=SimpleNamespace(params=params))

    monkeypatch.setattr(topics, "best_em_run", best_em_run)
    documents = documents_of(np.random.default_rng(0).integers(1, 5, (12, 4)))
    found = topics.half_sample_distances(documents, own, (0.1, 0.1), 0, 1)
    assert not left
    np.testing.assert_allclose(found, [(0.1 + 0.1) / 2, (0.0 + 0.1) / 2])


def test_total_variation_between_topics():
    one, other = np.array([[0.5, 0.5, 0.0]]), np.array([[0.0, 0.5, 0.5], [0.5, 0.25, 0.25]])
    np.testing.assert_allclose(topics.distances(one, other), [[0.5, 0.25]])


def test_topics_numbers_and_notes(monkeypatch):
    monkeypatch.setattr(topics, "half_sample_distances", lambda *args: np.zeros(len(args[1])))
    monkeypatch.setattr(topics, "other_seed", lambda *args: (-0.1, np.zeros(2)))
    counts = np.zeros((11, 4))
    turn = 7 * np.arange(5)
    counts[:5, 0], counts[:5, 1], counts[5:10, 2], counts[5:10, 3] = 30 + turn, 30 - turn, 60 - turn, turn
    own = np.array([[0.5, 0.5, 0, 0], [0, 0, 1.0, 0]])
    proportions = np.eye(2)[[0] * 5 + [1] * 6]

    def examined(counts, number, K=2):
        return topics.examine_topics(
            documents_of(counts), own[:K], proportions[: len(counts), :K], np.full(K, 1 / K), prior=(0.1, 0.1),
            number=number, converged=True, seed=0, n_jobs=1,
        )  # fmt: skip

    found = examined(counts, TopicNumber(2, [9.0]))
    assert found.verdict == "ok"
    expected = {
        "n_documents": 11, "n_words": 4, "n_tokens": 600.0, "tokens_per_word": 150.0, "empty_documents": 1,
        "documents_of_three": 10, "topics_shown": 2, "half_sample_distances": [0.0, 0.0],
        "note": "documents without words got the mean proportions",
    }  # fmt: skip
    assert {name: found.quantities[name] for name in expected} == expected
    assert "note" not in examined(counts[:10], TopicNumber(2, [9.0])).quantities
    assert "half_sample_distances" not in examined(counts, TopicNumber(2, [1.0])).quantities
    assert "nearest_topics" not in examined(counts, TopicNumber(1, [1.0]), K=1).quantities
    asked = []
    monkeypatch.setattr(topics, "direction_scores", lambda documents, most, seed: asked.append(most) or [9.0])
    for K in (1, 2):
        examined(counts, None, K)
    assert asked == [2, 2]


def test_nothing_found_is_said_where_the_number_was_chosen():
    few = [[2, 1, 0], [0, 1, 2]]
    assert told(shown(few, 1, [2.4])[0], "No structure found: the first direction of the word pairs stands 2.4")
    assert told(shown(few, 1, [])[0], "No structure found: 2 documents with words are too few to show any")
    examiner = Examiner()
    examiner.quantities |= {"tokens_per_word": 3.0, "documents_of_three": 2}
    topics._examine_structure(examiner, documents_of(few), 1, None, 0)  # one topic was asked for
    assert not examiner.failed


def test_copies_and_weights_are_said():
    rng = np.random.default_rng(0)
    distinct = rng.integers(0, 4, (30, 8)) + 1
    for counts, copies in ((distinct, 0), (np.repeat(distinct, 5, axis=0), 120), (np.tile([[2, 2, 2]], (9, 1)), 8)):
        documents = documents_of(counts)
        assert documents.duplicates.sum() == copies
        examiner = Examiner()
        topics._examine_counts(examiner, documents, documents.distinct())
        assert told(examiner, f"{copies} of the {len(counts)} documents ({copies / len(counts):.0%}, limit 25%)") == (
            copies > 0
        )
    short = documents_of(np.eye(3)[[0, 0, 1, 1, 2]])  # documents of a word are alike by chance
    assert not short.duplicates.any()
    assert short.distinct() is short
    examiner = Examiner()
    topics._examine_counts(examiner, documents_of(distinct * 0.3), documents_of(distinct * 0.3))
    assert told(examiner, "of the counts are not whole numbers (tf-idf?")


def test_words_that_all_topics_list_are_said():
    K, M = 4, 60
    apart = np.full((K, M), 1e-4)
    for k in range(K):
        apart[k, 10 * k : 10 * k + 10] = 1.0
    alike = apart.copy()
    alike[:, 50:55] = 9.0
    documents = documents_of(np.full((1, M), 100.0))
    for made, doubted in ((apart, False), (alike, True)):
        examiner = Examiner()
        topics._examine_lists(examiner, documents, made / made.sum(axis=1, keepdims=True), np.full(K, 1 / K))
        assert told(examiner, "Topics share most of their top words ('50', '51', '52' …)") == doubted
        assert examiner.quantities["shared_top_words"] == (0.5 if doubted else 0.0)
        assert examiner.quantities["top_words_everywhere"] == (5 if doubted else 0)
    for common, doubted in ((2, False), (3, True)):  # fewer than half of the words, but on every list: the, of, and
        some, examiner = apart.copy(), Examiner()
        some[:, 50 : 50 + common] = 9.0
        topics._examine_lists(examiner, documents, some / some.sum(axis=1, keepdims=True), np.full(K, 1 / K))
        assert told(examiner, "Topics share many of their top words ('50', '51', '52' …)") == doubted


# ------------------------------------------------------------------- clusters


def examined_clusters(K=2, n_varying=8, rows=None, flagged=(), impurity=None, chosen=None, converged=True):
    rows = [100.0] * K if rows is None else rows
    total = sum(rows)
    columns = tuple(Column(f"c{n}", np.arange(2)) for n in range(8))
    table = Table(np.zeros((2, 8), np.uint8), columns, row_weight=np.full(2, total / 2))
    p = np.random.default_rng(0).uniform(0.1, 0.9, (K, 8))
    cells = np.empty((16, K))
    cells[1::2], cells[::2] = p.T, 1 - p.T
    mixture = Mixture(np.array(rows) / total, cells, np.arange(0, 17, 2, dtype=np.int32))
    is_flagged = np.isin(np.arange(K), flagged)
    empty = np.zeros((K, 2))
    purity = PurityTable(
        empty, empty, empty, np.where(is_flagged, 1e-4, 1.0), is_flagged,
        np.full(K, 0.05) if impurity is None else np.array(impurity), np.full(K, np.nan),
        tuple(("a", "b") if on else () for on in is_flagged), ((),) * K,
    )  # fmt: skip
    chosen = (K, K) if chosen is None else chosen
    numbers = PathNumbers({}, {"statistical": chosen[0], "practical": chosen[1]})
    return clusters.examine_clusters(table, mixture, numbers, purity, n_varying=n_varying, converged=converged), p


@pytest.mark.parametrize(
    ("K", "n_varying", "level"),
    [
        (2, 2, "not identifiable"), (2, 3, None), (3, 4, "not identifiable"), (3, 5, None), (5, 5, "caution"),
        (5, 6, "caution"), (5, 7, None), (1, 0, "caution"),
    ],
)  # fmt: skip
def test_columns_that_vary_tell_so_many_clusters_apart(K, n_varying, level):
    found, _ = examined_clusters(K, n_varying)
    assert found.verdict == (level or "ok")
    assert found.quantities["n_varying_columns"] == n_varying


def test_numbers_of_clusters():
    found, p = examined_clusters(3, rows=[50.0, 30.0, 40.0], flagged=[1])
    gaps = [np.abs(p[k] - p[l]).max() for k, l in ((0, 1), (0, 2), (1, 2))]
    expected = {
        "n_rows": 120.0, "n_columns": 8, "columns_needed": 5, "chosen": {"statistical": 3, "practical": 3},
        "largest_gap_of_nearest_clusters": min(gaps), "flagged_clusters": [1],
    }  # fmt: skip
    for name, value in expected.items():
        assert found.quantities[name] == pytest.approx(value), name
    assert found.quantities["rows_per_cluster"] == pytest.approx([50, 30, 40])
    assert examined_clusters(1)[0].quantities["largest_gap_of_nearest_clusters"] is None


def test_a_cluster_has_thirty_rows():
    assert not told(examined_clusters(rows=[30.0, 66.0])[0], "rests on")
    assert told(examined_clusters(rows=[29.0, 67.0])[0], "Cluster 0 rests on about 29 rows, fewer than 30")
    assert not told(examined_clusters(1, rows=[29.0])[0], "rests on")
    assert told(examined_clusters(1, rows=[9.0])[0], "9 rows are too few")


def test_an_impure_cluster_is_named_and_the_worst_overlap():
    found, _ = examined_clusters(5, 8, flagged=[0, 2, 3, 4])
    assert told(found, "The columns of cluster 0 depend on one another (look at 'a' and 'b')")
    assert examined_clusters(impurity=[0.2, 0.1])[0].verdict == "ok"
    assert told(examined_clusters(3, impurity=[0.21, 0.3, np.nan])[0], "About 30% of the rows in cluster 1")


def test_numbers_that_lie_far_apart_and_short_climbs_are_told():
    assert examined_clusters(3, chosen=(5, 3))[0].verdict == "ok"
    assert told(examined_clusters(3, chosen=(6, 3))[0], "asks for 6 clusters, more than 2 beyond the 3 fitted")
    assert told(examined_clusters(3, chosen=(2, 2))[0], "The evidence shows 2 clusters, and 3 were fitted")
    assert examined_clusters(converged=False)[0].verdict == "caution"
