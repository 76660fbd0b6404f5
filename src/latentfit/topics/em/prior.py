"""Pseudo-counts of topics, chosen on documents left out, before EM begins: the objective stays one function.

`HELD_OUT` of the documents are left out. Topics are fitted to the others from the same first topics under each number
of pseudo-counts per word; of every document left out half of the tokens give its shares, the other half is predicted
(document completion), under the pseudo-counts per topic that predict it best. Then the pseudo-counts per topic are
chosen, by fits under each. All these fits run nearly to their end: topics that are stopped early are smooth already,
and would ask for too few pseudo-counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.kernels.topics import topic_sums
from latentfit.topics.data.documents import Documents
from latentfit.topics.em.steps import TopicParams, TopicPrior, TopicSteps, shares_of
from latentfit.topics.init.multistart import begin

OF_SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0)
OF_WORDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0, 10.0, 25.0)
"""Pseudo-counts that are tried, from `DEFAULT` up or down: per topic of a document, per word of a topic on average."""
DEFAULT = (0.1, 0.2)
"""Where too few documents can be left out."""
HELD_OUT, FEWEST = 0.2, 50
"""Share of the documents left out; below so many documents nothing is chosen."""
MOST_TOKENS = 150_000
"""A larger corpus is thinned to about so many tokens for the choice of the number."""
PRIOR_TOKENS = 300_000
"""The same for pseudo-counts: the best ones per word grow with the corpus, so that much thinner ones mislead."""
PASSES = 12
"""Iterations of fits that compare numbers of topics, or that go on under other pseudo-counts from where one ended."""
PRIOR_PASSES = 40
"""Iterations of the first fit that compares pseudo-counts, at most."""
PATIENCE = 2
"""Values without a gain after which a direction of the grid is given up: predictions are not quite smooth in it."""


@dataclass(frozen=True)
class PriorChoice:
    """Pseudo-counts per topic and per word, and what each one tried predicted (nats per token)."""

    shares: float
    words: float
    scores: dict[str, float]


def left_out(documents: Documents, seed: int) -> tuple[Documents, Documents]:
    """Documents to fit and documents to predict, told apart by what they say."""
    order = np.argsort(documents.hashes(seed), kind="stable")
    if documents.total > PRIOR_TOKENS:
        order = order[: max(int(len(order) * PRIOR_TOKENS / documents.total), FEWEST)]
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
    # where a climb begins does not depend on how many pseudo-counts a word gets
    first = begin(TopicSteps.of(fitted, TopicPrior.of(fitted, n_topics, *DEFAULT), n_jobs), topics)

    fits: dict[tuple[float, float], float] = {}
    at: dict[tuple[float, float], TopicParams] = {}

    def fit(shares: float, words: float, predict: Sequence[float]) -> float:
        """Of topics fitted under both: the best prediction under any of `predict` pseudo-counts per topic."""
        steps = TopicSteps.of(fitted, TopicPrior.of(fitted, n_topics, shares, words), n_jobs)
        start = at[_nearest(at, shares, words)] if at else first
        found = em(steps, start, max_iter=PASSES if at else PRIOR_PASSES, tol=1e-4, accelerate=True).params
        at[shares, words] = found
        fits[shares, words] = max(_mean(halves, found.topics, one, n_jobs) for one in predict)
        return fits[shares, words]

    near = OF_SHARES[: OF_SHARES.index(DEFAULT[0]) + 2]
    words = best_near(OF_WORDS, DEFAULT[1], lambda words: fit(DEFAULT[0], words, near), PATIENCE)
    shares = best_near(OF_SHARES, DEFAULT[0], lambda shares: fit(shares, words, [shares]), 1)
    scores = {f"shares {shares:g}, words {words:g}": value for (shares, words), value in fits.items()}
    return PriorChoice(shares, words, scores)


def _nearest(fits: Iterable[tuple[float, float]], shares: float, words: float) -> tuple[float, float]:
    """The pseudo-counts of the fit from which one under others has the shortest way."""
    return min(fits, key=lambda one: abs(np.log(one[0] / shares)) + abs(np.log(one[1] / words)))


def best_near(grid: Sequence[float], start: float, score: Callable[[float], float], patience: int) -> float:
    """The best of a grid by climbing from `start`: up until `patience` values in a row gain nothing, else down."""
    at = grid.index(start)
    best, chosen = score(start), start
    for way in (1, -1):
        place, without = at + way, 0
        while 0 <= place < len(grid) and without < patience:
            value = score(grid[place])
            best, chosen, without = (value, grid[place], 0) if value > best else (best, chosen, without + 1)
            place += way
        if chosen != start:
            break
    return chosen


def _mean(halves: tuple[Documents, Documents], topics: Floats, a: float, n_jobs: int | None) -> float:
    values, tokens = completed(halves, topics, np.full(topics.shape[1], a), n_jobs)
    return float(values.sum() / max(tokens, 1.0))
