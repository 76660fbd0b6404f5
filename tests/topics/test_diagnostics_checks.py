"""Where each check of documents and topics reports: both sides of every limit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import poisson

from latentfit import TopicModel
from latentfit.core.verdict import VERDICTS, Examiner
from latentfit.simulate import topic_documents
from latentfit.topics.data.documents import Documents
from latentfit.topics.diagnostics import duplicates
from latentfit.topics.diagnostics import verdict as topics
from latentfit.topics.em import TopicParams


def documents_of(counts):
    matrix = sp.csr_array(np.asarray(counts, float))
    return Documents(matrix, np.arange(matrix.shape[0]), np.array([f"w{w}" for w in range(matrix.shape[1])]))


def check_of(found, name):
    return next(check for check in found.checks if check.name == name)


def multinomials(seed, topics_, proportions, length):
    rng = np.random.default_rng(seed)
    return np.array([rng.multinomial(length, p) for p in proportions @ topics_])


# ----------------------------------------------------------- the documents


@pytest.mark.parametrize(("factor", "passed"), [(1, True), (3, False)])
def test_counts_with_a_common_divisor_were_written_more_than_once(factor, passed):
    counts = factor * np.random.default_rng(0).integers(0, 4, (20, 8))
    examiner = Examiner()
    topics._examine_counts(examiner, documents_of(counts), documents_of(counts))
    check = check_of(examiner, "common_divisor")
    assert (check.passed, check.value) == (passed, factor)
    assert passed or "Every count is a multiple of 3" in check.reason


def test_a_few_counts_may_share_a_divisor():
    examiner = Examiner()
    topics._examine_counts(examiner, documents_of([[2, 4], [4, 0]]), documents_of([[2, 4], [4, 0]]))
    assert check_of(examiner, "common_divisor").p_value == pytest.approx(1 / 8)
    assert check_of(examiner, "common_divisor").passed


@pytest.mark.parametrize(("tokens", "passed"), [(39, True), (41, False)])
def test_no_word_is_two_fifths_of_all_tokens(tokens, passed):
    counts = np.full((1, 25), (100 - tokens) / 24)
    counts[0, 3] = tokens
    examiner = Examiner()
    topics._examine_columns(examiner, documents_of(counts))
    check = check_of(examiner, "one_word")
    assert check.value == pytest.approx(tokens / 100)
    assert check.passed == passed
    assert passed or "Word 'w3' is 41% of all tokens" in check.reason
    small = Examiner()
    topics._examine_columns(small, documents_of(counts[:, :10]))  # of ten words one may be most
    assert "one_word" not in {check.name for check in small.checks}


def test_numbers_of_documents_are_no_word():
    rng = np.random.default_rng(0)
    words = rng.poisson(2.0, (60, 30))
    frequent = rng.poisson(300.0, 60)  # many different counts, but not the numbers of a range
    for column, passed in ((np.arange(1, 61), False), (rng.permutation(60) + 500, False), (frequent, True)):
        examiner = Examiner()
        topics._examine_columns(examiner, documents_of(np.column_stack([column, words])))
        assert check_of(examiner, "identifiers").passed == passed
    assert topics.identifier_words(documents_of(np.column_stack([np.arange(1, 30), words[:29]]))) == []  # too few
    spread = np.sort(rng.choice(np.arange(1000, 9000), 60, replace=False))  # word counts of novels
    assert topics.identifier_words(documents_of(np.column_stack([spread, words]))) == []


# ----------------------------------------------------------- near-duplicates


def test_the_words_that_independent_documents_share_by_their_sum():
    mean = np.array([[0.3, 2.0, 5.0], [1.0, 0.0, 0.5]])
    n = np.arange(60)
    least = np.minimum.outer(n, n)
    by_hand = []
    for row in mean:
        moments = [[(least**k * np.outer(p, p)).sum() for k in (1, 2)] for p in (poisson.pmf(n, mu) for mu in row)]
        by_hand.append((sum(one for one, _ in moments), np.sqrt(sum(two - one**2 for one, two in moments))))
    expected, error = duplicates._expected_shared(mean)
    np.testing.assert_allclose(expected, [one for one, _ in by_hand], rtol=1e-9)
    np.testing.assert_allclose(error, [two for _, two in by_hand], rtol=1e-9)


def test_shared_words_by_hand_and_candidates_share_minima():
    documents = documents_of([[2, 1, 0, 4], [1, 1, 3, 4], [0, 0, 0, 1]])
    one, other = np.array([0, 0]), np.array([1, 2])
    np.testing.assert_allclose(duplicates._shared(documents, one, other), [6, 1])
    rng = np.random.default_rng(0)
    texts = rng.poisson(0.2, (30, 300))
    texts[20:] = texts[:10]
    pairs = set(zip(*duplicates._candidates(duplicates._minima(documents_of(texts), 16)), strict=True))
    assert {(at, at + 20) for at in range(10)} <= pairs


@pytest.mark.parametrize(("copies", "passed"), [(0, True), (30, True), (80, False)])
def test_form_letters_are_near_duplicates(copies, passed):
    rng = np.random.default_rng(1)
    law = np.full((1, 500), 1 / 500)
    counts = multinomials(2, law, np.ones((200, 1)), 60)
    counts[:copies] = counts[copies // 20]  # the same letter, a few words filled in
    counts[:copies] += rng.multinomial(5, law[0], copies) if copies else 0
    proportion, looked_at = duplicates.near_duplicate_proportion(documents_of(counts), law, np.ones((200, 1)))
    assert looked_at == 200
    assert proportion == pytest.approx(copies / 200, abs=0.02)
    examiner = Examiner()
    topics._examine_near_duplicates(examiner, documents_of(counts), law, np.ones((200, 1)))
    assert check_of(examiner, "near_duplicates").passed == passed


def test_documents_over_few_words_are_alike_without_being_copies():
    law = np.array([[0.6, 0.2, 0.1, 0.05, 0.05]])
    counts = multinomials(3, law, np.ones((100, 1)), 60)
    proportion, _ = duplicates.near_duplicate_proportion(documents_of(counts), law, np.ones((100, 1)))
    assert proportion == 0


def test_of_many_documents_those_with_the_smallest_hash_keep_copies_together(monkeypatch):
    monkeypatch.setattr(duplicates, "NEAR_DUPLICATES", duplicates.NearDuplicateSettings(most_documents=60))
    law = np.full((1, 500), 1 / 500)
    counts = multinomials(4, law, np.ones((150, 1)), 60)
    counts = np.concatenate([counts, counts + np.eye(500, dtype=int)[:150]])  # each twice, one word more
    proportion, looked_at = duplicates.near_duplicate_proportion(documents_of(counts), law, np.ones((300, 1)))
    assert looked_at == 60
    assert proportion > 0.8


# --------------------------------------------------------------- structure


def test_words_that_documents_repeat_are_no_topics():
    rng = np.random.default_rng(0)
    law = 1 / np.arange(1, 201)
    bursts = np.array([rng.multinomial(80, rng.dirichlet(30 * law / law.sum() + 1e-4)) for _ in range(300)])
    sound = topic_documents(300, 200, 3, length=80, random_state=0).counts
    for counts, low, high in ((bursts, -3.0, 2.5), (sound, 5.0, np.inf)):
        score = topics.different_words_score(documents_of(sp.csr_array(counts).toarray()), 0)
        assert low < score < high
    report = TopicModel(5).fit(bursts).report_
    assert not check_of(report, "different_words").passed
    assert "words that a document repeats" in check_of(report, "different_words").reason
    assert topics.different_words_score(documents_of(bursts[:19]), 0) is None


def test_groups_without_a_common_word_are_named_when_each_has_several_topics():
    counts = np.kron(np.eye(2, dtype=int), np.full((10, 4), 3))
    for own, passed in (
        (np.kron(np.eye(2), np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])), False),
        (np.kron(np.eye(2), np.full((1, 4), 0.25)), True),  # one topic each: nothing else is to be expected
    ):
        examiner = Examiner()
        topics._examine_vocabularies(examiner, documents_of(counts), own)
        check = check_of(examiner, "common_vocabulary")
        assert (check.passed, check.value) == (passed, 0.5)
    joined = counts.copy()
    joined[0, 7] = 1
    examiner = Examiner()
    topics._examine_vocabularies(examiner, documents_of(joined), np.kron(np.eye(2), np.eye(4)[:2]))
    assert check_of(examiner, "common_vocabulary").passed


# --------------------------------------------------------------- stability


@pytest.mark.parametrize(
    ("gain", "moved", "passed"),
    [(0.0, 0.6, False), (-9e-5, 0.51, False), (-2e-4, 0.9, True), (0.01, 0.5, True)],
)
def test_another_seed_must_not_give_other_topics_as_good(gain, moved, passed, monkeypatch):
    monkeypatch.setattr(topics, "other_seed", lambda *args: (gain, np.array([0.1, moved])))
    examiner = Examiner()
    topics._examine_seeds(examiner, None, None, (1.0, 1.0), 0, 1)
    check = check_of(examiner, "seeds_agree")
    assert check.passed == passed
    assert passed or f"another topic 1: {moved:.0%}" in check.reason


def test_the_other_seed_starts_from_scratch_and_arrives_at_the_same_topics():
    world = topic_documents(400, 150, 3, length=60, random_state=1)
    fitted = TopicModel(3).fit(world.counts)
    parameters = TopicParams(fitted.topics_.T, fitted.proportions_)
    prior = (float(fitted.pseudo_shares_[0]), fitted.pseudo_words_)
    gain, apart = topics.other_seed(fitted._documents, parameters, prior, 0)
    assert abs(gain) < 1e-3
    assert apart.max() < 0.05


def test_of_many_tokens_a_sample_of_documents_is_taken(monkeypatch):
    world = topic_documents(400, 150, 3, length=60, random_state=1)
    fitted = TopicModel(3).fit(world.counts)
    monkeypatch.setattr(topics, "THRESHOLDS", topics.Thresholds(seed_tokens=6_000))
    prior = (float(fitted.pseudo_shares_[0]), fitted.pseudo_words_)
    gain, apart = topics.other_seed(fitted._documents, TopicParams(fitted.topics_.T, fitted.proportions_), prior, 0)
    assert abs(gain) < 0.05
    assert apart.max() < 0.3


def test_the_expected_error_of_topics_is_the_actual_one():
    ratios = []
    for seed in range(4):
        world = topic_documents(600, 200, 4, length=50, random_state=seed)
        fitted = TopicModel(4).fit(world.counts)
        apart = topics.distances(fitted.topics_, world.topics).min(axis=1)
        ratios.append(fitted.report_.expected.value / float(apart @ fitted.weights_))
    assert min(ratios) > 0.5
    assert max(ratios) < 2


def test_one_document_gives_no_half():
    report = TopicModel(1).fit(np.repeat([[3, 2, 1, 4]], 12, axis=0)).report_
    assert report.expected.value == 1
    assert "no half" in report.expected.sentence


# ------------------------------------------------------------- every check


def test_every_check_has_a_name_a_title_and_a_failure_a_number_and_something_to_do():
    rng = np.random.default_rng(0)
    one_law = rng.multinomial(40, rng.dirichlet(np.full(100, 0.5)), 200)
    world = topic_documents(300, 200, 3, length=40, random_state=0).counts.toarray()
    given = [(4, one_law), (None, one_law), (9, world), (1, world), (3, 5.0 * world), (3, 0.3 * world),
             (3, np.tile(world[:20], (9, 1)))]  # fmt: skip
    fits = [TopicModel(number).fit(counts) for number, counts in given]
    failed = []
    for fitted in fits:
        checks = fitted.report_.checks
        assert len({check.name for check in checks}) == len(checks)
        assert all(check.title and check.level in VERDICTS[1:] for check in checks)
        assert fitted.report_.expected is not None
        failed += [check for check in checks if not check.passed]
    assert len({check.name for check in failed}) >= 7
    for check in failed:
        assert any(letter.isdigit() for letter in check.reason) or check.name == "converged", check
        assert any(f"{verb} " in check.reason for verb in
                   ("ask", "bring", "leave", "give", "divide", "keep", "write", "raise")), check  # fmt: skip
        assert check.reason.endswith("."), check
