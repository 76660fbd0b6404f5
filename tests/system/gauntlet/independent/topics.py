"""Collections of documents as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from latentfit import TopicModel
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator
Drawn = tuple[Any, np.ndarray | None]
"""The documents, and the true topics (topic, word) where there are such."""


def fit(draw: Callable[[Generator], Drawn], n_topics: int | None, seed: int) -> TopicModel:
    """Draw documents and fit topics with default settings."""
    rng = np.random.default_rng([seed, *draw.__name__.encode()])
    return TopicModel(n_topics).fit(draw(rng)[0])


def zipf(n_words: int) -> np.ndarray:
    """Word frequencies of ordinary text without its hundred most frequent words."""
    weights = 1.0 / (np.arange(n_words) + 20)
    return weights / weights.sum()


def topics(rng: Generator, n_topics: int, n_words: int, concentration: float = 0.15) -> np.ndarray:
    """Topics over a Zipf vocabulary; most words belong mainly to one or two topics."""
    favour = rng.dirichlet(np.full(n_topics, concentration), n_words).T
    made = favour * rng.permutation(zipf(n_words))
    return made / made.sum(axis=1, keepdims=True)


def lengths(rng: Generator, n: int, median: float, spread: float = 0.4) -> np.ndarray:
    """Numbers of tokens, log-normal."""
    return np.maximum(3, rng.lognormal(np.log(median), spread, n)).astype(int)


def documents(rng: Generator, proportions: np.ndarray, words: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Counts of documents with these proportions of topics."""
    chances = proportions @ words
    return rng.multinomial(sizes, chances / chances.sum(axis=1, keepdims=True))


def as_texts(rng: Generator, counts: np.ndarray, names: Sequence[str]) -> list[str]:
    """Texts with the words in random order."""
    return [" ".join(rng.permutation(np.repeat(names, row))) for row in counts]


# ---------------------------------------------------------------- sound


def newsroom(rng: Generator) -> Drawn:
    """600 news items of about 90 words, five desks."""
    words = topics(rng, 5, 600)
    return sp.csr_matrix(documents(rng, rng.dirichlet(np.full(5, 0.1), 600), words, lengths(rng, 600, 90))), words


def unknown_number(rng: Generator) -> Drawn:
    """500 abstracts of about 80 words, four fields, the number not given."""
    words = topics(rng, 4, 400, 0.08)
    return sp.csr_matrix(documents(rng, rng.dirichlet(np.full(4, 0.1), 500), words, lengths(rng, 500, 80))), words


def titles(rng: Generator) -> Drawn:
    """4,000 titles of about nine words, one of four fields each."""
    words = topics(rng, 4, 300, 0.1)
    fields = np.eye(4)[rng.choice(4, 4000, p=[0.35, 0.3, 0.2, 0.15])]
    return sp.csr_matrix(documents(rng, fields, words, lengths(rng, 4000, 9, 0.3))), words


def uneven_topics(rng: Generator) -> Drawn:
    """A long frame of document, word and count; topics of 45, 30, 15 and 10 per cent."""
    words = topics(rng, 4, 500)
    proportions = rng.dirichlet(0.5 * np.array([0.45, 0.3, 0.15, 0.1]), 700)
    counts = documents(rng, proportions, words, lengths(rng, 700, 80))
    document, word = np.nonzero(counts)
    frame = pd.DataFrame({
        "document": [f"doc-{d:04d}" for d in document],
        "word": [f"w{w}" for w in word],
        "count": counts[document, word],
    })  # fmt: skip
    return frame.sample(frac=1, random_state=int(rng.integers(1000))), words


def tickets(rng: Generator) -> Drawn:
    """800 support tickets as text, three subjects, a quarter of the tokens words that all of them use."""
    words = topics(rng, 3, 300, 0.1)
    words[:, :20] = 0
    words *= 0.75 / words.sum(axis=1, keepdims=True)
    words[:, :20] = 0.25 / 20
    counts = documents(rng, rng.dirichlet(np.full(3, 0.1), 800), words, lengths(rng, 800, 50, 0.6))
    return as_texts(rng, counts, [f"word{w}" for w in range(300)]), words


def reports(rng: Generator) -> Drawn:
    """300 reports of very uneven length, three themes in most of them."""
    words = topics(rng, 3, 500, 0.1)
    proportions = rng.dirichlet(np.full(3, 0.4), 300)
    return sp.csr_matrix(documents(rng, proportions, words, lengths(rng, 300, 250, 0.8))), words


# ---------------------------------------------------------------- unsound


def one_subject(rng: Generator) -> Drawn:
    """All documents draw from the same words, and five topics are asked for."""
    return sp.csr_matrix(rng.multinomial(lengths(rng, 500, 80), zipf(400))), None


def one_document(rng: Generator) -> Drawn:
    """One document, two hundred times."""
    return np.repeat(rng.multinomial(150, zipf(300))[None], 200, axis=0), None


def copied(rng: Generator) -> Drawn:
    """Twenty-five news items, each syndicated twenty times."""
    words = topics(rng, 4, 400)
    items = documents(rng, rng.dirichlet(np.full(4, 0.1), 25), words, lengths(rng, 25, 60))
    return sp.csr_matrix(np.repeat(items, 20, axis=0)[rng.permutation(500)]), words


FUNCTION_WORDS = ("the", "of", "to", "and", "in", "a", "is", "that", "it", "was", "for", "on", "with", "as", "at")


def raw_text(rng: Generator) -> Drawn:
    """Nothing removed: function words are 85 per cent of the tokens of every document."""
    words = topics(rng, 4, 400)
    common = rng.dirichlet(np.full(15, 2.0), 500)
    subject = rng.dirichlet(np.full(4, 0.5), 500) @ words
    chances = np.hstack([0.85 * common, 0.15 * subject])
    names = [*FUNCTION_WORDS, *(f"word{w}" for w in range(400))]
    return as_texts(rng, rng.multinomial(lengths(rng, 500, 100), chances), names), words


def twelve_reviews(rng: Generator) -> Drawn:
    """Twelve short reviews, four topics asked for."""
    words = topics(rng, 4, 200)
    return documents(rng, rng.dirichlet(np.full(4, 0.3), 12), words, lengths(rng, 12, 40)), words


def too_many(rng: Generator) -> Drawn:
    """Three subjects, twenty topics asked for."""
    words = topics(rng, 3, 300)
    return sp.csr_matrix(documents(rng, rng.dirichlet(np.full(3, 0.1), 400), words, lengths(rng, 400, 60))), words


def two_codings(rng: Generator) -> Drawn:
    """The second half of the file writes all its words in another alphabet: four topics become eight."""
    words = topics(rng, 4, 250)
    counts = documents(rng, rng.dirichlet(np.full(4, 0.1), 500), words, lengths(rng, 500, 70))
    texts = as_texts(rng, counts, [f"word{w}" for w in range(250)])
    return texts[:250] + [text.upper() for text in texts[250:]], None


def bursty(rng: Generator) -> Drawn:
    """One subject, but a document repeats its own words; five topics asked for."""
    own = rng.dirichlet(30 * zipf(400) + 1e-4, 300)
    return sp.csr_matrix(rng.multinomial(lengths(rng, 300, 80), own)), None


def same_mixture(rng: Generator) -> Drawn:
    """All documents mix the same six topics almost alike."""
    words = topics(rng, 6, 500, 0.5)
    return sp.csr_matrix(documents(rng, rng.dirichlet(np.full(6, 30.0), 250), words, lengths(rng, 250, 60))), words


def id_column(rng: Generator) -> Drawn:
    """The number of the document was left in the matrix as if it were a word."""
    words = topics(rng, 3, 300)
    counts = documents(rng, rng.dirichlet(np.full(3, 0.1), 400), words, lengths(rng, 400, 60))
    return np.column_stack([np.arange(1, 401), counts]), None


def one_word_each(rng: Generator) -> Drawn:
    """Search queries of one word."""
    words = topics(rng, 3, 200)
    return sp.csr_matrix(documents(rng, np.eye(3)[rng.choice(3, 3000)], words, np.ones(3000, dtype=int))), words


# ---------------------------------------------------------------- real documents

FOLDER = data_folder()


@cache
def news() -> tuple[list[str], np.ndarray]:
    """News items of the BBC, prepared, and their desks."""
    assert FOLDER is not None
    parts = []
    for part in ("docs", "labels"):
        with gzip.open(FOLDER / "pairs" / f"bbc_news.{part}.txt.gz", "rt") as file:
            parts.append(file.read().splitlines())
    return parts[0], np.array(parts[1])


def real_news(rng: Generator) -> Drawn:
    """500 news items of five desks."""
    texts = news()[0]
    return [texts[i] for i in rng.choice(len(texts), 500, replace=False)], None


def shuffled_news(rng: Generator) -> Drawn:
    """200 of them, all words thrown together and dealt out again."""
    texts = real_news(rng)[0][:200]
    sizes = np.cumsum([len(text.split()) for text in texts])
    dealt = rng.permutation(" ".join(texts).split())
    return [" ".join(part) for part in np.split(dealt, sizes[:-1])], None


NONE = "no structure|structure|one topic|nothing|noise|chance|fewer|not support|independen|found"
SAME = "duplic|identical|repeat|copies|same document|one document"
UNSTABLE = "stab|agree|seed|half|halves|resampl|differ|reproduc"
FEW = "few|small|short|too little|more documents|documents"

SCENARIOS: list[Scenario] = [
    # Long enough documents, mostly of one topic.
    Scenario("600 news items, five desks", partial(fit, newsroom, 5)),
    # Clearly separated fields.
    Scenario("500 abstracts, number not given", partial(fit, unknown_number, None)),
    # Short, but many, and each of one field.
    Scenario("4,000 titles", partial(fit, titles, 4)),
    # The smallest topic still has some 6,000 tokens.
    Scenario("a long frame, uneven topics", partial(fit, uneven_topics, 4)),
    # A quarter of common words does not hide subjects.
    Scenario("800 support tickets", partial(fit, tickets, 3)),
    # Mixed documents, but 75,000 tokens and three themes.
    Scenario("300 reports of uneven length", partial(fit, reports, 3)),
    # Five names for the same words.
    Scenario(
        "one subject, five topics asked for",
        partial(fit, one_subject, 5),
        WARNED,
        f"{NONE}|{UNSTABLE}",
    ),
    # One observation.
    Scenario("one document 200 times", partial(fit, one_document, 3), WARNED, f"{SAME}|{NONE}"),
    # Twenty-five observations, not five hundred.
    Scenario("25 items syndicated 20 times", partial(fit, copied, 4), WARNED, SAME),
    # Every topic reads "the of to and".
    Scenario(
        "function words left in",
        partial(fit, raw_text, 4),
        WARNED,
        "share|same words|top words|most frequent|stop|common|function words|overlap",
    ),
    # Five hundred tokens for eight hundred numbers.
    Scenario(
        "twelve reviews",
        partial(fit, twelve_reviews, 4),
        WARNED,
        f"{FEW}|{UNSTABLE}",
    ),
    # Seventeen of the topics are splinters.
    Scenario(
        "three subjects, twenty topics asked for",
        partial(fit, too_many, 20),
        WARNED,
        f"fewer|number of topics|too many|empty|small|overlap|same words|directions|{UNSTABLE}|{NONE}",
    ),
    # Topics are alphabets: no word of one half occurs in the other.
    Scenario(
        "two alphabets",
        partial(fit, two_codings, 4),
        WARNED,
        "disjoint|connect|separate|no word|vocabular|common word|share no|halves|half|case|parts|more topics|languages",
    ),
    # Repetition inside a document is not a topic.
    Scenario(
        "one subject, bursty words",
        partial(fit, bursty, 5),
        WARNED,
        f"burst|repeat|fit|{NONE}|{UNSTABLE}",
    ),
    # Documents that differ by nothing do not tell topics apart.
    Scenario(
        "every document the same mixture",
        partial(fit, same_mixture, 6),
        WARNED,
        f"identif|weak|{NONE}|{UNSTABLE}",
    ),
    # The number of the document outweighs its words.
    Scenario(
        "the document's number as a word",
        partial(fit, id_column, 3),
        WARNED,
        "identifier|id column|number|one word|single word|domina|column|increas|count|share|top words",
    ),
    # Without two words in a document nothing connects words.
    Scenario(
        "queries of one word",
        partial(fit, one_word_each, 3),
        WARNED,
        f"one word|one token|single|pair|two|identif|{FEW}|{NONE}",
    ),
]

if FOLDER is not None and (FOLDER / "pairs" / "bbc_news.docs.txt.gz").is_file():
    SCENARIOS += [
        # Five desks of a newspaper; the topics are the desks.
        Scenario("BBC news, five desks", partial(fit, real_news, 5)),
        # Nothing is left that a document could be about.
        Scenario(
            "BBC news, words shuffled",
            partial(fit, shuffled_news, 5),
            WARNED,
            f"{NONE}|{UNSTABLE}",
        ),
    ]
