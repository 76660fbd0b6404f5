"""Several starts of topics, one answer: spectral and a few random ones, halved by their objective."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.data.documents import Documents
from tacit.data.sampling import scramble
from tacit.kernels.topics import topic_shares
from tacit.refine.em import Step
from tacit.refine.starts import Entrant, Raced, halve
from tacit.refine.topics import TopicParams, TopicStatistics, TopicSteps, word_shares

Floats = NDArray[np.float64]

ROUNDS = (6, 12, 20)
"""Passes of the rounds: after each the better half stays."""
LIFTED = 1e-3
"""Share of the prior's law of words in every start: EM cannot lift a probability from zero."""
FIRST_STEPS = 10
"""Steps of the shares before the first pass."""


def random_topics(documents: Documents, n_topics: int, seed: int) -> Floats:
    """Topics (M, K) of shares drawn evenly from the simplex, from what documents say: permutations carry them along."""
    keys = documents.hashes(seed)
    draws = np.column_stack([scramble(keys, seed + 1 + k) for k in range(n_topics)])
    shares = -np.log(((draws >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
    shares /= shares.sum(axis=1, keepdims=True)
    topics = documents.matrix.T @ shares + word_shares(documents)[:, None]
    return np.ascontiguousarray(topics / topics.sum(axis=0))


def begin(steps: TopicSteps, topics: Floats) -> TopicParams:
    """Topics with the shares that a few steps give them."""
    n_topics = topics.shape[1]
    even = np.full((steps.lists.n_documents, n_topics), 1 / n_topics)
    b = steps.prior.b
    topics = np.ascontiguousarray((1 - LIFTED) * topics + LIFTED * (b / b.sum())[:, None])
    shares = topic_shares(
        steps.lists, topics, steps.prior.a, even, most=FIRST_STEPS, settled=0.0, threads=steps.threads
    )
    return TopicParams(topics, shares)


def climb(
    steps: TopicSteps,
    starts: dict[str, Floats],
    *,
    max_iter: int,
    tol: float,
    callback: Callable[[Step], None] | None = None,
) -> Raced[TopicParams, TopicStatistics]:
    """The best climb from named first topics (M, K)."""
    entrants = [Entrant(name, steps, begin(steps, topics)) for name, topics in starts.items()]
    rounds = ROUNDS[: max(int(np.ceil(np.log2(max(len(entrants), 1)))), 1)]
    return halve(entrants, rounds=rounds, max_iter=max_iter, tol=tol, accelerate=True, callback=callback)
