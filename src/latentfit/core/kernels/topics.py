"""Checked wrappers of the topic kernels: documents as lists of (word, count) in, shares and sums out."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import WIDEST, Floats, _check, _padded, _pointer, _run


class WordLists(NamedTuple):
    """Document d owns ``words[offsets[d]:offsets[d + 1]]`` and their counts; the same cells once more by word."""

    offsets: NDArray[np.int64]  # (D + 1,)
    words: NDArray[np.int32]  # (cells,)
    counts: Floats  # (cells,)
    word_offsets: NDArray[np.int64]  # (M + 1,)
    documents: NDArray[np.int32]  # (cells,) of each word, in order
    cells: NDArray[np.int64]  # (cells,) where that cell stands in `words`

    @property
    def n_documents(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_words(self) -> int:
        return len(self.word_offsets) - 1


class TopicSums(NamedTuple):
    """One pass at given shares and topics: what an M-step needs."""

    log_likelihood: Floats  # (D,)
    documents: Floats  # (D, K) expected counts
    words: Floats  # (M, K) expected counts


def _width(n_topics: int) -> int:
    if not 1 <= n_topics <= WIDEST:
        raise ValueError(f"{n_topics} topics asked for; give a number from 1 to {WIDEST}")
    return -(-n_topics // 4) * 4


def _head(lists: WordLists) -> list[Any]:
    _check(lists.offsets, np.int64, (None,), "offsets")
    _check(lists.words, np.int32, (None,), "words")
    _check(lists.counts, np.float64, lists.words.shape, "counts")
    size = ctypes.c_int64(lists.n_documents)
    return [_pointer(lists.offsets), _pointer(lists.words), _pointer(lists.counts), size]


def topic_proportions(
    lists: WordLists, topics: Floats, prior: Floats, start: Floats, *, most: int, settled: float, threads: int = 1
) -> Floats:
    """Shares (D, K) after up to `most` EM steps from `start` with topics (M, K) held; a document stops at `settled`.

    The largest change of a share in a step is what must fall below `settled`. `prior` (K,) are pseudo-counts.
    """
    width, n_topics = _shapes(lists, topics, start)
    proportions = _own(start, width)
    _documents(lists, _padded(topics, width), proportions, prior, most, settled, threads)
    return np.ascontiguousarray(proportions[:, :n_topics])


def topic_sums(
    lists: WordLists, topics: Floats, proportions: Floats, *, words: bool = True, threads: int = 1
) -> TopicSums:
    """Log-likelihoods and expected counts at shares (D, K) and topics (M, K); ``words=False`` leaves theirs out."""
    return topic_pass(lists, topics, None, proportions, most=0, words=words, threads=threads)[1]


def topic_pass(
    lists: WordLists,
    topics: Floats,
    prior: Floats | None,
    start: Floats,
    *,
    most: int,
    words: bool = True,
    threads: int = 1,
) -> tuple[Floats, TopicSums]:
    """Shares (D, K) after `most` EM steps, as `topic_proportions`, and the sums at them."""
    width, n_topics = _shapes(lists, topics, start)
    wide, proportions = _padded(topics, width), _own(start, width)
    ratios, expected = np.empty(len(lists.words)), np.empty((lists.n_documents, width))
    log_likelihood = np.empty(lists.n_documents)
    _documents(lists, wide, proportions, prior, most, 0.0, threads, (ratios, expected, log_likelihood))
    by_word = np.zeros((lists.n_words if words else 0, width))
    if words:
        _check(lists.word_offsets, np.int64, (None,), "word_offsets")
        _check(lists.documents, np.int32, lists.words.shape, "documents")
        _check(lists.cells, np.int64, lists.words.shape, "cells")
        head = [_pointer(lists.word_offsets), _pointer(lists.documents), _pointer(lists.cells)]
        held = [_pointer(ratios), _pointer(proportions), ctypes.c_int64(lists.n_documents), _pointer(wide)]
        tail = [ctypes.c_int(width), ctypes.c_int(max(threads, 1)), _pointer(by_word)]
        _run("topic_words", [*head, ctypes.c_int64(lists.n_words), *held, *tail])
    found = np.ascontiguousarray(proportions[:, :n_topics])
    return found, TopicSums(log_likelihood, np.ascontiguousarray(expected[:, :n_topics]), by_word[:, :n_topics])


def _shapes(lists: WordLists, topics: Floats, proportions: Floats) -> tuple[int, int]:
    n_topics = topics.shape[1]
    _check(topics, np.float64, (lists.n_words, n_topics), "topics")
    _check(proportions, np.float64, (lists.n_documents, n_topics), "shares")
    return _width(n_topics), n_topics


def _own(start: Floats, width: int) -> Floats:
    """Shares in rows of `width` that a kernel may write to."""
    proportions = _padded(start, width)
    return proportions.copy() if proportions is start else proportions


def _documents(
    lists: WordLists,
    wide: Floats,
    proportions: Floats,
    prior: Floats | None,
    most: int,
    settled: float,
    threads: int,
    out: tuple[Floats | None, Floats | None, Floats | None] = (None, None, None),
) -> None:
    width = wide.shape[1]
    padded = np.zeros(width) if prior is None else _padded(prior, width)
    _check(padded, np.float64, (width,), "prior")
    model = [_pointer(wide), ctypes.c_int64(lists.n_words), _pointer(padded), ctypes.c_double(float(padded.sum()))]
    how = [ctypes.c_int(width), ctypes.c_int(most), ctypes.c_double(settled), ctypes.c_int(max(threads, 1))]
    _run("topic_documents", [*_head(lists), *model, *how, _pointer(proportions), *map(_pointer, out)])
