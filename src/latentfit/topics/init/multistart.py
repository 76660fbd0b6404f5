"""Multi-start of topics: spectral and a few random initialisations, successive halving by their objective."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from latentfit.core.em import Step, em
from latentfit.core.kernels import Floats
from latentfit.core.multistart import Candidate, Raced, halve
from latentfit.core.pair_em import PairSteps
from latentfit.core.sampling import scramble
from latentfit.core.spectral import PairModel
from latentfit.topics.data.documents import Documents
from latentfit.topics.em import LIFTED, TopicParams, TopicStatistics, TopicSteps, begin, word_frequencies
from latentfit.topics.moments import pair_counts

ROUNDS = (6, 12, 20)
"""EM iterations of the rounds of successive halving."""
CHEAP_PAIRS, PAIR_ITERATIONS, PAIR_SMOOTHING = 12.0, 10, 1.0
"""Pairs per cell up to which EM runs on word pairs first; its iterations; its pseudo-counts per topic."""


def random_topics(documents: Documents, n_topics: int, seed: int) -> Floats:
    """Topics (M, K) of proportions drawn evenly from the simplex, from what documents say: permutations carry them
    along."""
    keys = documents.hashes(seed)
    draws = np.column_stack([scramble(keys, seed + 1 + k) for k in range(n_topics)])
    proportions = -np.log(((draws >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
    proportions /= proportions.sum(axis=1, keepdims=True)
    topics = documents.matrix.T @ proportions + word_frequencies(documents)[:, None]
    return np.ascontiguousarray(topics / topics.sum(axis=0))


def polished_by_pairs(documents: Documents, topics: Floats, threads: int = 1) -> Floats:
    """Initial topics after a few EM iterations on word pairs, where documents are so short that pairs are cheap.

    Short documents hold most of what they tell in their pairs; long ones have more pairs than cells, and the passes
    over the documents themselves do better (docs/guide/topics.md).
    """
    words = np.diff(documents.matrix.indptr).astype(np.float64)
    if topics.shape[1] < 2 or (words**2).sum() > CHEAP_PAIRS * words.sum():
        return topics
    counts = pair_counts(documents)
    if not counts.matrix.nnz:
        return topics
    n_topics = topics.shape[1]
    steps = PairSteps(counts, symmetric=True, smoothing=PAIR_SMOOTHING, threads=threads)
    frequencies = word_frequencies(documents)[:, None]
    first = np.ascontiguousarray((1 - LIFTED) * topics + LIFTED * frequencies)
    mixing = 0.9 * np.eye(n_topics) / n_topics + 0.1 / n_topics**2
    refined = em(steps, PairModel(first, first, mixing), max_iter=PAIR_ITERATIONS, tol=1e-6).params.left
    return np.ascontiguousarray((1 - LIFTED) * refined + LIFTED * frequencies)


def best_em_run(
    steps: TopicSteps,
    starts: dict[str, Floats],
    *,
    max_iter: int,
    tol: float,
    callback: Callable[[Step], None] | None = None,
) -> Raced[TopicParams, TopicStatistics]:
    """The best EM run from named initial topics (M, K)."""
    candidates = [Candidate(name, steps, begin(steps, topics)) for name, topics in starts.items()]
    rounds = ROUNDS[: max(int(np.ceil(np.log2(max(len(candidates), 1)))), 1)]
    return halve(candidates, rounds=rounds, max_iter=max_iter, tol=tol, accelerate=True, callback=callback)
