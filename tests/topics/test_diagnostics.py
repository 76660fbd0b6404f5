"""The number of topics, verdicts and recovery on simulated documents.

A few inputs run here; ``LATENTFIT_VERDICTS=200`` runs the full count on each side, ``LATENTFIT_NUMBERS=20`` so many
per K.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

from latentfit import TopicModel
from latentfit.simulate import topic_documents
from latentfit.topics.data.input import read_documents
from latentfit.topics.select import choose_topics
from tests.system.verdict_counts import COUNT, assert_doubted
from tests.topics.simulated_documents import HOPELESS, hopeless, sound

NUMBERS = int(os.environ.get("LATENTFIT_NUMBERS", "1"))


def fitted(world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TopicModel(world.n_topics).fit(world.counts)


@pytest.mark.slow
def test_documents_without_an_answer_are_not_trusted():
    assert_doubted(hopeless, lambda world: fitted(world).report_, len(HOPELESS))


@pytest.mark.slow
def test_sound_documents_are_trusted_and_their_topics_found():
    wrong, far = [], []
    count = COUNT or 8
    for seed in range(count):
        world = sound(seed)
        model = fitted(world)
        if model.report_.verdict != "ok":
            wrong.append((seed, model.report_.reasons))
        apart = 0.5 * np.abs(model.topics_[:, None] - world.topics).sum(axis=2)
        if apart.min(axis=1).max() > 0.2 or len(set(apart.argmin(axis=1))) < len(apart):
            far.append(seed)
    assert len(wrong) <= 0.01 * count, wrong
    assert len(far) <= 0.05 * count, far


@pytest.mark.parametrize(
    ("kind", "words"),
    [(0, "No structure found"), (1, "No structure found"), (2, "follows chance"), (3, "two words"), (4, "three words")],
)
def test_the_case_is_named(kind, words):
    report = fitted(hopeless(kind)).report_
    assert any(words in reason for reason in report.reasons), report.reasons


def test_the_number_is_found():
    """At least three quarters of K = 1 … 10 right, one topic split in at most one of twenty."""
    found = {}
    for K in range(1, 11):
        draws = [topic_documents(800, 400, K, length=60, random_state=100 * K + n) for n in range(NUMBERS)]
        found[K] = [choose_topics(read_documents(made.counts), 0).chosen for made in draws]
    right = np.mean([np.mean(np.array(chosen) == K) for K, chosen in found.items()])
    assert right >= 0.75, found
    ones = [topic_documents(300, 200, 1, length=40, random_state=n) for n in range(20 * NUMBERS)]
    split = [choose_topics(read_documents(made.counts), 0).chosen > 1 for made in ones]
    assert np.mean(split) <= 0.05


def test_quantities_are_there():
    report = fitted(sound(0)).report_
    assert {"tokens_per_word", "directions", "topics_shown", "nearest_topics", "pure_word_probability",
            "pure_documents", "half_sample_distances", "smallest_topic_tokens"} <= set(report.quantities)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_four_documents_unlike_the_others_do_not_hide_the_topics_of_the_others(seed):
    """Their direction comes first, and two documents in a half cannot stand out; that ended the search at one topic."""
    documents = topic_documents(400, 300, 4, length=40, spread=1.0, random_state=seed).counts.toarray()
    few = np.random.default_rng(seed).multinomial(40, np.full(5, 0.2), size=4)
    counts = np.block([[documents, np.zeros((400, 5))], [np.zeros((4, 300)), few]])
    found = choose_topics(read_documents(counts), 0)
    assert found.directions[0] < 2.5 < found.directions[1]
    assert found.chosen >= 4
    report = TopicModel(4).fit(counts).report_
    assert report.verdict == "caution"
    assert any("there are topics" in reason for reason in report.reasons)
