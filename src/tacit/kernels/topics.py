"""Checked wrappers of the topic kernels: documents as lists of (word, count) in, shares and sums out."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.kernels import WIDEST, Floats, _check, _padded, _pointer, _run


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


def topic_shares(
    lists: WordLists, topics: Floats, prior: Floats, start: Floats, *, most: int, settled: float, threads: int = 1
) -> Floats:
    """Shares (D, K) after up to `most` EM steps from `start` with topics (M, K) held; a document stops at `settled`.

    The largest change of a share in a step is what must fall below `settled`. `prior` (K,) are pseudo-counts.
    """
    n_topics = len(prior)
    _check(topics, np.float64, (lists.n_words, n_topics), "topics")
    _check(start, np.float64, (lists.n_documents, n_topics), "start")
    width = _width(n_topics)
    wide, shares, padded = _padded(topics, width, 0.0), _padded(start, width, 0.0), _padded(prior, width, 0.0)
    shares = shares.copy() if shares is start else shares
    tail = [_pointer(wide), _pointer(padded), ctypes.c_double(float(prior.sum())), ctypes.c_int(width)]
    more = [ctypes.c_int(most), ctypes.c_double(settled), ctypes.c_int(max(threads, 1)), _pointer(shares)]
    _run("topic_shares", [*_head(lists), *tail, *more])
    return np.ascontiguousarray(shares[:, :n_topics])


def topic_sums(lists: WordLists, topics: Floats, shares: Floats, *, words: bool = True, threads: int = 1) -> TopicSums:
    """Log-likelihoods and expected counts at shares (D, K) and topics (M, K); ``words=False`` leaves theirs out."""
    n_topics = topics.shape[1]
    _check(topics, np.float64, (lists.n_words, n_topics), "topics")
    _check(shares, np.float64, (lists.n_documents, n_topics), "shares")
    width = _width(n_topics)
    wide, held = _padded(topics, width, 0.0), _padded(shares, width, 0.0)
    ratios, expected = np.empty(len(lists.words)), np.empty((lists.n_documents, width))
    log_likelihood = np.empty(lists.n_documents)
    jobs = ctypes.c_int(max(threads, 1))
    out = [_pointer(ratios), _pointer(expected), _pointer(log_likelihood)]
    _run("topic_ratios", [*_head(lists), _pointer(wide), ctypes.c_int(width), _pointer(held), jobs, *out])
    by_word = np.zeros((lists.n_words if words else 0, width))
    if words:
        _check(lists.word_offsets, np.int64, (None,), "word_offsets")
        _check(lists.documents, np.int32, lists.words.shape, "documents")
        _check(lists.cells, np.int64, lists.words.shape, "cells")
        head = [_pointer(lists.word_offsets), _pointer(lists.documents), _pointer(lists.cells)]
        middle = [ctypes.c_int64(lists.n_words), _pointer(ratios), _pointer(held), _pointer(wide)]
        _run("topic_words", [*head, *middle, ctypes.c_int(width), jobs, _pointer(by_word)])
    return TopicSums(log_likelihood, np.ascontiguousarray(expected[:, :n_topics]), by_word[:, :n_topics])
