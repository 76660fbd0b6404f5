"""Pseudo-counts of topics, chosen on documents left out, before EM begins: the objective stays one function.

`HELD_OUT` of the documents are left out. Topics are fitted to the others from the same first topics under each number
of pseudo-counts per word; of every document left out half of the tokens give its shares, the other half is predicted
(document completion). Then the pseudo-counts per topic are chosen the same way with the best topics held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit.data.documents import Documents
from tacit.kernels import Floats
from tacit.kernels.topics import topic_sums
from tacit.refine.em import em
from tacit.refine.topic_starts import begin
from tacit.refine.topics import TopicParams, TopicPrior, TopicSteps, shares_of

OF_SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0)
OF_WORDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0, 10.0)
"""Pseudo-counts that are tried, from `DEFAULT` up or down: per topic of a document, per word of a topic on average."""
DEFAULT = (0.1, 0.2)
"""Where too few documents can be left out."""
HELD_OUT, FEWEST = 0.2, 50
"""Share of the documents left out; below so many documents nothing is chosen."""
MOST_TOKENS = 150_000
"""A larger corpus is thinned to about so many tokens for the choice."""
PASSES = 12


@dataclass(frozen=True)
class PriorChoice:
    """Pseudo-counts per topic and per word, and what each one tried predicted (nats per token)."""

    shares: float
    words: float
    scores: dict[str, float]


def left_out(documents: Documents, seed: int) -> tuple[Documents, Documents]:
    """Documents to fit and documents to predict, told apart by what they say."""
    order = np.argsort(documents.hashes(seed), kind="stable")
    if documents.total > MOST_TOKENS:
        order = order[: max(int(len(order) * MOST_TOKENS / documents.total), FEWEST)]
    size = round(HELD_OUT * len(order))
    return documents.take(np.sort(order[size:])), documents.take(np.sort(order[:size]))


def completion(
    documents: Documents, topics: Floats, a: Floats, seed: int, n_jobs: int | None = None
) -> tuple[Floats, float]:
    """Log-likelihood (D,) of half of every document's tokens given the other half, and how many were predicted."""
    return completed(documents.split(0.5, seed), topics, a, n_jobs)


def completed(
    halves: tuple[Documents, Documents], topics: Floats, a: Floats, n_jobs: int | None = None
) -> tuple[Floats, float]:
    """The same for documents that are halved already: the second half given the first."""
    given, hidden = halves
    shares, _ = shares_of(given, topics, a, n_jobs)
    return topic_sums(hidden.lists, topics, shares, words=False).log_likelihood, hidden.total


def choose_prior(documents: Documents, topics: Floats, seed: int, n_jobs: int | None = None) -> PriorChoice:
    """Pseudo-counts for topics that start from `topics` (M, K)."""
    n_topics = topics.shape[1]
    if documents.n_documents < FEWEST:
        return PriorChoice(*DEFAULT, {})
    fitted, other = left_out(documents, seed)
    halves = other.split(0.5, seed)
    scores: dict[str, float] = {}
    fits: dict[float, TopicParams] = {}
    # where a climb begins does not depend on how many pseudo-counts a word gets
    first = begin(TopicSteps.of(fitted, TopicPrior.of(fitted, n_topics, *DEFAULT), n_jobs), topics)

    def with_words(words: float) -> float:
        steps = TopicSteps.of(fitted, TopicPrior.of(fitted, n_topics, DEFAULT[0], words), n_jobs)
        fits[words] = em(steps, first, max_iter=PASSES, tol=1e-4, accelerate=True).params
        scores[f"words {words:g}"] = _mean(halves, fits[words].topics, DEFAULT[0], n_jobs)
        return scores[f"words {words:g}"]

    words = best_near(OF_WORDS, DEFAULT[1], with_words)

    def with_shares(shares: float) -> float:
        scores[f"shares {shares:g}"] = _mean(halves, fits[words].topics, shares, n_jobs)
        return scores[f"shares {shares:g}"]

    return PriorChoice(best_near(OF_SHARES, DEFAULT[0], with_shares), words, scores)


def best_near(grid: Sequence[float], start: float, score: Callable[[float], float]) -> float:
    """The best of a grid by climbing from `start`: up while it gains, else down."""
    at = grid.index(start)
    best, chosen = score(start), start
    for way in (1, -1):
        place = at + way
        while 0 <= place < len(grid):
            value = score(grid[place])
            if value <= best:
                break
            best, chosen = value, grid[place]
            place += way
        if chosen != start:
            break
    return chosen


def _mean(halves: tuple[Documents, Documents], topics: Floats, a: float, n_jobs: int | None) -> float:
    values, tokens = completed(halves, topics, np.full(topics.shape[1], a), n_jobs)
    return float(values.sum() / max(tokens, 1.0))
