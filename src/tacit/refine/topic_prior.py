"""Pseudo-counts of topics, chosen on documents left out, before EM begins: the objective stays one function.

`HELD_OUT` of the documents are left out. Topics are fitted to the others from the same first topics under each number
of pseudo-counts per word; of every document left out half of the tokens give its shares, the other half is predicted
(document completion). Then the pseudo-counts per topic are chosen the same way with the best topics held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.documents import Documents
from tacit.kernels.topics import topic_sums
from tacit.refine.em import em
from tacit.refine.topic_starts import begin
from tacit.refine.topics import TopicPrior, TopicSteps, shares_of

Floats = NDArray[np.float64]

OF_SHARES = (0.03, 0.1, 0.3, 1.0)
OF_WORDS = (0.05, 0.2, 0.6, 1.5)
"""Pseudo-counts that are tried: per topic of a document, and per word of a topic on average."""
DEFAULT = (0.1, 0.2)
"""Where too few documents can be left out."""
HELD_OUT, FEWEST = 0.2, 50
"""Share of the documents left out; below so many documents nothing is chosen."""
MOST_TOKENS = 500_000
"""A larger corpus is thinned to about so many tokens for the choice."""
PASSES = 20


@dataclass(frozen=True)
class PriorChoice:
    """Pseudo-counts per topic and per word, and what each one tried predicted (nats per token)."""

    shares: float
    words: float
    scores: dict[str, float]


def left_out(documents: Documents, seed: int, share: float = HELD_OUT) -> tuple[Documents, Documents]:
    """Documents to fit and documents to predict, told apart by what they say."""
    order = np.argsort(documents.hashes(seed), kind="stable")
    if documents.total > MOST_TOKENS:
        order = order[: max(int(len(order) * MOST_TOKENS / documents.total), FEWEST)]
    size = int(round(share * len(order)))
    return documents.take(np.sort(order[size:])), documents.take(np.sort(order[:size]))


def completion(documents: Documents, topics: Floats, a: Floats, seed: int, n_jobs: int | None = None) -> Floats:
    """Log-likelihood (D,) of half of every document's tokens given the other half."""
    given, hidden = documents.split(0.5, seed, apart=False)
    shares, _ = shares_of(given, topics, a, n_jobs)
    return topic_sums(hidden.lists, topics, shares, words=False).log_likelihood


def choose_prior(documents: Documents, topics: Floats, seed: int, n_jobs: int | None = None) -> PriorChoice:
    """Pseudo-counts for topics that start from `topics` (M, K)."""
    n_topics = topics.shape[1]
    if documents.n_documents < FEWEST:
        return PriorChoice(*DEFAULT, {})
    fitted, other = left_out(documents, seed)
    scores: dict[str, float] = {}
    best, found = -np.inf, (DEFAULT[1], topics)
    for words in OF_WORDS:
        steps = TopicSteps.of(fitted, TopicPrior.of(fitted, n_topics, DEFAULT[0], words), n_jobs)
        tried = em(steps, begin(steps, topics), max_iter=PASSES, tol=1e-4, accelerate=True).params.topics
        scores[f"words {words:g}"] = score = _mean(other, tried, DEFAULT[0], seed, n_jobs)
        if score <= best:  # one hump: past its top nothing better comes
            break
        best, found = score, (words, tried)
    best, shares = -np.inf, DEFAULT[0]
    for candidate in OF_SHARES:
        scores[f"shares {candidate:g}"] = score = _mean(other, found[1], candidate, seed, n_jobs)
        if score <= best:
            break
        best, shares = score, candidate
    return PriorChoice(shares, found[0], scores)


def _mean(other: Documents, topics: Floats, a: float, seed: int, n_jobs: int | None) -> float:
    values = completion(other, topics, np.full(topics.shape[1], a), seed, n_jobs)
    return float(values.sum() / max(other.total, 1.0))
