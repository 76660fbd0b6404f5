"""Documents as users bring them: articles, titles, baskets, raw text, form letters, copies, tf-idf."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit import TopicModel
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Floats = NDArray[np.float64]
DOUBTFUL = ("caution",)
UNKNOWN = ("not identifiable",)
DATA = data_folder()


def topics_of(
    rng: np.random.Generator, n_topics: int, n_words: int, *, zipf: float = 0.7, common: float = 0.2
) -> Floats:
    """Topics (topic, word): words of its own, of which each topic has its part, and a fifth of words of all."""
    popularity = (1.0 + rng.permutation(n_words)) ** -zipf
    owner = rng.integers(n_topics, size=n_words)
    owner[:n_topics] = np.arange(n_topics)
    own = np.where(owner == np.arange(n_topics)[:, None], popularity, 0.0) * rng.gamma(1.0, size=(n_topics, n_words))
    own /= own.sum(axis=1, keepdims=True)
    return (1 - common) * own + common * popularity / popularity.sum()


def documents_of(rng: np.random.Generator, topics: Floats, proportions: Floats, lengths: Any) -> NDArray[np.int64]:
    """Counts (document, word)."""
    return np.array([rng.multinomial(n, p / p.sum()) for n, p in zip(lengths, proportions @ topics, strict=True)])


def mixed(rng: np.random.Generator, n_documents: int, weights: Any, sharpness: float = 0.6) -> Floats:
    weights = np.asarray(weights, float)
    return rng.dirichlet(sharpness * weights / weights.mean() * 0.5, n_documents)


def lengths_of(rng: np.random.Generator, n_documents: int, mean: float) -> NDArray[np.int64]:
    """Log-normal lengths: some documents are several times as long as others."""
    return np.maximum(rng.lognormal(np.log(mean) - 0.125, 0.5, n_documents), 3).astype(int)


def words(n_words: int) -> list[str]:
    return [f"word{w}" for w in range(n_words)]


def as_text(counts: NDArray[np.int64]) -> list[str]:
    return [" ".join(f"word{w}" for w in np.repeat(np.arange(len(row)), row)) for row in counts]


# ---------------------------------------------------------------- sound


def articles(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 4, 400)
    return TopicModel().fit(documents_of(rng, topics, mixed(rng, 500, np.ones(4)), lengths_of(rng, 500, 60)))


def uneven_topics_of_texts(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 300)
    return TopicModel(3).fit(as_text(documents_of(rng, topics, mixed(rng, 400, [4, 2, 1]), lengths_of(rng, 400, 50))))


def titles_with_one_subject(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 200)
    subject = np.eye(3)[rng.choice(3, 1500, p=[0.5, 0.3, 0.2])]
    return TopicModel(3).fit(sp.csr_array(documents_of(rng, topics, subject, rng.integers(5, 12, 1500))))


def few_long_reports(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 300)
    return TopicModel(3).fit(documents_of(rng, topics, mixed(rng, 150, np.ones(3)), lengths_of(rng, 150, 400)))


def baskets(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 5, 120, zipf=0.4, common=0.1)
    return TopicModel().fit(documents_of(rng, topics, mixed(rng, 1500, np.ones(5), 0.3), rng.poisson(15, 1500) + 2))


def a_table_of_documents_and_words(seed: int) -> TopicModel:
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 2, 250)
    counts = documents_of(rng, topics, mixed(rng, 400, [2, 1]), lengths_of(rng, 400, 40))
    document, word = np.nonzero(counts)
    table = {"document": [f"d{d}" for d in document], "word": [f"w{w}" for w in word], "count": counts[document, word]}
    return TopicModel(2).fit(pa.table(table))


def documents_of_which_some_are_empty(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 300)
    counts = documents_of(rng, topics, mixed(rng, 500, np.ones(3)), lengths_of(rng, 500, 50))
    counts[rng.random(500) < 0.05] = 0
    return TopicModel(3).fit(counts)


# -------------------------------------------------------------- unsound


def shuffled(rng: np.random.Generator, n_documents: int = 400, n_words: int = 300) -> NDArray[np.int64]:
    """Every word drawn from the same distribution: texts whose words were shuffled over all documents."""
    law = topics_of(rng, 1, n_words)
    return documents_of(rng, law, np.ones((n_documents, 1)), lengths_of(rng, n_documents, 50))


def shuffled_text(seed: int) -> TopicModel:
    return TopicModel().fit(shuffled(np.random.default_rng(seed)))


def five_topics_of_shuffled_text(seed: int) -> TopicModel:
    return TopicModel(5).fit(shuffled(np.random.default_rng(seed)))


def raw_text_with_stop_words(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 5, 400)
    stop = rng.dirichlet(np.full(30, 1.0))
    proportions, lengths = mixed(rng, 500, np.ones(5)), lengths_of(rng, 500, 120)
    about = documents_of(rng, topics, proportions, np.maximum(lengths // 2, 1))
    # authors differ in their function words
    style = np.array([rng.multinomial(n, rng.dirichlet(60 * stop + 1e-3)) for n in lengths // 2])
    return TopicModel(5).fit(np.hstack([style, about]))


def one_document_two_hundred_times(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    return TopicModel().fit(np.repeat(shuffled(rng, 1), 200, axis=0))


def ten_documents_fifty_times(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 200)
    counts = documents_of(rng, topics, mixed(rng, 10, np.ones(3)), np.full(10, 50))
    return TopicModel().fit(np.repeat(counts, 50, axis=0))


def half_of_the_documents_twice(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 300)
    counts = documents_of(rng, topics, mixed(rng, 300, np.ones(3)), lengths_of(rng, 300, 50))
    return TopicModel(3).fit(np.concatenate([counts, counts[:150]]))


def twelve_reviews(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 200)
    return TopicModel().fit(documents_of(rng, topics, mixed(rng, 12, np.ones(3)), np.full(12, 60)))


def tf_idf(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 200)
    counts = documents_of(rng, topics, mixed(rng, 300, np.ones(3)), lengths_of(rng, 300, 50))
    weights = counts * np.log(len(counts) / np.maximum((counts > 0).sum(axis=0), 1))
    return TopicModel(3).fit(weights / np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-9))


def twelve_topics_of_three(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 300)
    return TopicModel(12).fit(documents_of(rng, topics, mixed(rng, 400, np.ones(3)), lengths_of(rng, 400, 50)))


def one_topic_of_four(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 4, 300)
    return TopicModel(1).fit(documents_of(rng, topics, mixed(rng, 400, np.ones(4)), lengths_of(rng, 400, 50)))


def documents_of_two_words(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 2, 150)
    return TopicModel(2).fit(documents_of(rng, topics, mixed(rng, 4000, np.ones(2)), np.full(4000, 2)))


def two_languages(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 250)
    counts = documents_of(rng, topics, mixed(rng, 500, np.ones(3)), lengths_of(rng, 500, 50))
    empty = np.zeros((250, 250), int)
    return TopicModel(6).fit(np.block([[counts[:250], empty], [empty, counts[250:]]]))


def form_letters(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    law = topics_of(rng, 1, 600)
    letters = documents_of(rng, law, np.ones((20, 1)), np.full(20, 60))
    counts = letters[rng.integers(20, size=400)]  # each with five words filled in
    return TopicModel().fit(counts + documents_of(rng, law, np.ones((400, 1)), np.full(400, 5)))


def every_count_five_times(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 300)
    return TopicModel(3).fit(5 * documents_of(rng, topics, mixed(rng, 400, np.ones(3)), lengths_of(rng, 400, 40)))


def proportions_that_hardly_vary(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    topics = topics_of(rng, 3, 300, common=0.5)
    return TopicModel(3).fit(documents_of(rng, topics, rng.dirichlet(np.full(3, 40.0), 600), lengths_of(rng, 600, 60)))


@cache
def real_documents(name: str) -> list[str]:
    assert DATA is not None
    with gzip.open(DATA / "pairs" / f"{name}.docs.txt.gz", "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def bbc_news(seed: int) -> TopicModel:
    """Four fifths of 2,225 articles of five desks, stop words removed."""
    rng = np.random.default_rng(seed)
    texts = real_documents("bbc_news")
    return TopicModel(5).fit([text for text in texts if rng.random() < 0.8])


def shuffled_bbc_news(seed: int) -> TopicModel:
    rng = np.random.default_rng(seed)
    texts = [text.split()[:60] for text in real_documents("bbc_news")[:600]]
    tokens = rng.permutation([word for text in texts for word in text])
    ends = np.cumsum([len(text) for text in texts])[:-1]
    return TopicModel().fit([" ".join(part) for part in np.split(tokens, ends)])


def _named(make: Callable[[int], TopicModel]) -> str:
    return make.__name__.replace("_", " ")


SOUND = [articles, uneven_topics_of_texts, titles_with_one_subject, few_long_reports, baskets,
         a_table_of_documents_and_words, documents_of_which_some_are_empty]  # fmt: skip
UNSOUND = [
    (shuffled_text, DOUBTFUL, "no structure"),
    (five_topics_of_shuffled_text, UNKNOWN, "no structure"),
    (raw_text_with_stop_words, WARNED, "stop words"),
    (one_document_two_hundred_times, WARNED, "duplicate"),
    (ten_documents_fifty_times, WARNED, "duplicate"),
    (half_of_the_documents_twice, DOUBTFUL, "duplicate"),
    (twelve_reviews, WARNED, "too few|no structure"),
    (tf_idf, WARNED, "whole"),
    (twelve_topics_of_three, DOUBTFUL, "topics are shown|ask for"),
    (one_topic_of_four, DOUBTFUL, "topics"),
    (documents_of_two_words, WARNED, "three words"),
    (two_languages, DOUBTFUL, "share no word|no word in common"),
    (form_letters, WARNED, "duplicate|near-duplicate|structure"),
    (every_count_five_times, DOUBTFUL, "multiple"),
    (proportions_that_hardly_vary, WARNED, "topic|structure"),
]
SCENARIOS = [Scenario(_named(make), make) for make in SOUND]
SCENARIOS += [Scenario(_named(make), make, expected, reason) for make, expected, reason in UNSOUND]
if DATA is not None:
    SCENARIOS += [
        Scenario("bbc news", bbc_news),
        Scenario("shuffled bbc news", shuffled_bbc_news, DOUBTFUL, "no structure"),
    ]
