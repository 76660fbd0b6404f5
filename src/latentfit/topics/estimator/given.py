"""Topics that a user brings to start from: an array, a frame or a fitted model → first topics over these words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.frames import as_frame, column, find_column
from latentfit.core.kernels import Floats
from latentfit.core.names import Names, encode, match, to_arrow
from latentfit.core.numbers import as_numbers
from latentfit.topics.data.documents import Documents
from latentfit.topics.em.steps import word_shares

BLEND = 0.05
"""Share of the words' marginal in given topics: EM cannot lift a probability from zero."""


def given_topics(init: Any, documents: Documents) -> Floats:
    """First topics (M, K); words that the given ones lack get their share of the corpus."""
    if hasattr(init, "topics_") and hasattr(init, "words_"):
        return _blended(_by_word(init.topics_, init.words_, documents), documents)
    frame = as_frame(init)
    if frame is None:
        topics = _array(init)
        if topics.shape[1] != documents.n_words:
            raise DataError(
                f"init has {topics.shape[1]} words and the documents {documents.n_words}; give one column per word, "
                "or a frame with the columns topic, word and probability"
            )
        return _blended(topics, documents)
    names = [str(name) for name in frame.columns]
    roles = {role: find_column(names, role, (role,), None) for role in ("topic", "word", "probability")}
    if None in roles.values():
        raise DataError(f"init is a frame with the columns {names}; give topic, word and probability")
    rows, topic_names = encode(column(frame, roles["topic"]), "topic")
    cols, words = encode(column(frame, roles["word"]), "word")
    _check_named({"topic": rows, "word": cols})
    topics = np.zeros((len(topic_names), len(words)))
    advice = "give probabilities of words"
    chances = as_numbers(to_arrow(column(frame, roles["probability"]), "probability"), "init's probability", advice)
    np.add.at(topics, (rows, cols), chances)
    return _blended(_by_word(_array(topics), words, documents), documents)


def _check_named(codes: Mapping[str, NDArray[np.int32]]) -> None:
    """Refuse a row without a topic or a word: its probability belongs to nothing, and code -1 is the last name."""
    for role, coded in codes.items():
        gaps = np.flatnonzero(coded < 0)
        if len(gaps):
            raise DataError(f"init has no {role} in row {gaps[0] + 1}; fill it in, or leave such rows out")


def _array(init: Any) -> Floats:
    try:
        topics = np.array(init, np.float64)
    except (TypeError, ValueError):
        kind = type(init).__name__
        raise DataError(f"init is a {kind}; give topics (topic, word), a frame or a fitted model") from None
    if topics.ndim != 2 or not topics.size:
        raise DataError(f"init has shape {topics.shape}; give topics (topic, word)")
    if not np.isfinite(topics).all() or (topics < 0).any() or (topics.sum(axis=1) <= 0).any():
        raise DataError("init holds a negative or infinite number, or a topic of zeros; give probabilities of words")
    return topics


def _by_word(topics: Floats, words: Names, documents: Documents) -> Floats:
    """Topics over the documents' words, matched by name."""
    place = match(documents.words, words, "word")
    found = np.where(place >= 0, topics[:, place], 0.0)
    if not (found.sum(axis=1) > 0).all():
        raise DataError("a topic of init has none of the documents' words; name words alike, or leave the topic out")
    return found


def _blended(topics: Floats, documents: Documents) -> Floats:
    shares = topics / topics.sum(axis=1, keepdims=True)
    return np.ascontiguousarray((1 - BLEND) * shares.T + BLEND * word_shares(documents)[:, None])
