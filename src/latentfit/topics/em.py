"""E- and M-step of topics: maximum a posteriori topics and document proportions, estimated together.

    objective(θ, φ) = Σ_dw n_dw log Σ_k θ_dk φ_kw + Σ_dk a log θ_dk + Σ_kw b_w log φ_kw

θ_d are the proportions of document d, φ_k the words of topic k, a and b_w pseudo-counts that stay fixed: the density of
LDA with Dirichlet parameters a + 1 and b_w + 1, in θ and φ at once. Its stationary points are those of CVB0 (Asuncion
et al. 2009) without the exclusion of a token from its own counts; unlike CVB0's they maximise something, and every step
raises it (docs/guide/topics.md says what was compared).

One iteration: `INNER` EM steps of all proportions with topics held, then one pass that gives both M-steps.

Paper     Asuncion, Welling, Smyth & Teh 2009 (which compares CVB0 with this, MAP); Hofmann 1999 without the prior
Needs     first topics that differ (`topics/init.py`)
Promises  the objective never falls; given topics, a document's proportions are the one maximum
Differs   proportions and topics are updated together, with SQUAREM (Varadhan & Roland 2008)

Symbols   paper   here     shape    meaning
          θ       proportions (D, K) of topics in documents
          φ       topics   (M, K)   word by word, as the kernel reads them
          a, b    a, b     (K,), (M,)   pseudo-counts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from latentfit.core.em import em, squarem
from latentfit.core.kernels import Floats
from latentfit.core.kernels.topics import WordLists, topic_pass, topic_proportions, topic_sums
from latentfit.engine.memory import resolve_jobs
from latentfit.topics.data.documents import Documents

LIFTED = 1e-3
"""Weight of the prior's word distribution in every initialisation: EM cannot lift a probability from zero."""
FIRST_STEPS = 10
"""Steps of the proportions before the first pass."""

INNER = 1
"""EM steps of the proportions before each M-step of the topics."""
SETTLED, MOST_STEPS = 1e-7, 1000
"""The proportions of a document have converged when none moves by more in a step, or after so many steps."""
FLOOR = 1e-12
"""Extrapolation leaves no probability below this: EM could never lift a zero again."""
TOGETHER = 8
"""Probabilities multiplied before a logarithm is taken: eight of 1e-35 are still above the smallest double."""


@dataclass(frozen=True)
class TopicPrior:
    """Pseudo-counts: `a` (K,) of a document's proportions, `b` (M,) of a topic's words."""

    a: Floats
    b: Floats

    @staticmethod
    def of(documents: Documents, n_topics: int, proportions: float, words: float) -> TopicPrior:
        """`proportions` per topic and `words` per word on average, as often as the word occurs (half a count more)."""
        return TopicPrior(np.full(n_topics, proportions), words * documents.n_words * word_frequencies(documents))


@dataclass(frozen=True)
class TopicParams:
    """Topics (M, K), columns sum to one, and proportions (D, K), rows sum to one."""

    topics: Floats
    proportions: Floats


@dataclass(frozen=True)
class TopicStatistics:
    """Sufficient statistics of one pass: the proportions it was made at, log-likelihood, expected counts of documents
    and words."""

    proportions: Floats
    log_likelihood: float
    documents: Floats  # (D, K)
    words: Floats  # (M, K)


def word_frequencies(documents: Documents) -> Floats:
    """ρ (M,), half a count added to every word: one that never occurs keeps some probability."""
    counts = documents.totals + 0.5
    return np.asarray(counts / counts.sum())


@dataclass(frozen=True)
class TopicSteps:
    """The steps of `refine.em` for documents."""

    lists: WordLists
    lengths: Floats
    prior: TopicPrior
    threads: int
    inner: int = INNER

    @staticmethod
    def of(documents: Documents, prior: TopicPrior, n_jobs: int | None = None) -> TopicSteps:
        return TopicSteps(documents.lists, documents.lengths, prior, resolve_jobs(n_jobs))

    @property
    def n_cells(self) -> int:
        return max(int(self.lengths.sum()), 1)

    def e_step(self, params: TopicParams) -> TopicStatistics:
        proportions, sums = topic_pass(
            self.lists, params.topics, self.prior.a, params.proportions, most=self.inner, threads=self.threads
        )
        return TopicStatistics(proportions, float(sums.log_likelihood.sum()), sums.documents, sums.words)

    def objective(self, params: TopicParams, sums: TopicStatistics) -> float:
        of_proportions = float(log_products(sums.proportions) @ self.prior.a)  # pseudo-counts keep both above zero
        of_words = float(self.prior.b @ log_products(params.topics.T))
        return sums.log_likelihood + of_proportions + of_words

    def log_likelihood(self, sums: TopicStatistics) -> float:
        return sums.log_likelihood

    def m_step(self, sums: TopicStatistics) -> TopicParams:
        topics = sums.words + self.prior.b[:, None]
        topics /= topics.sum(axis=0)
        proportions = sums.documents + self.prior.a
        proportions /= (self.lengths + self.prior.a.sum())[:, None]
        return TopicParams(topics, proportions)

    def extrapolate(self, start: TopicParams, once: TopicParams, twice: TopicParams) -> TopicParams:
        """SQUAREM in the topics; the proportions follow by their own steps."""
        (far,) = squarem([start.topics], [once.topics], [twice.topics])
        np.maximum(far, FLOOR * twice.topics, out=far)
        far /= far.sum(axis=0)
        return replace(twice, topics=far)


def log_products(values: Floats) -> Floats:
    """Sums of the logarithms of every column: up to `TOGETHER` rows share one."""
    step = -(-len(values) // TOGETHER)
    products = values[:step].copy()
    for first in range(step, len(values), step):
        part = values[first : first + step]
        products[: len(part)] *= part
    return np.asarray(np.log(products).sum(axis=0))


def proportions_of(documents: Documents, topics: Floats, a: Floats, n_jobs: int | None = None) -> tuple[Floats, Floats]:
    """Proportions (D, K) and log-likelihoods (D,) of documents under topics (M, K): the one maximum, from even ones."""
    threads, even = resolve_jobs(n_jobs), np.full((documents.n_documents, len(a)), 1 / len(a))
    lists = documents.lists
    proportions = topic_proportions(lists, topics, a, even, most=MOST_STEPS, settled=SETTLED, threads=threads)
    return proportions, topic_sums(lists, topics, proportions, words=False, threads=threads).log_likelihood


# -----------------------------------------------------------------------------
# Pseudo-counts of topics, chosen on documents left out, before EM begins: the objective stays one function.
#
# `PRIOR.held_out` of the documents are left out. Topics are fitted to the others from the same first topics under each
# number of pseudo-counts per word; of every document left out half of the tokens give its proportions, the other half
# is predicted (document completion), under the pseudo-counts per topic that predict it best. Then the pseudo-counts per
# topic are chosen, by fits under each. All these fits run nearly to their end: topics that are stopped early are smooth
# already, and would ask for too few pseudo-counts.


@dataclass(frozen=True)
class PriorSettings:
    """Tuned constants of the choice of the pseudo-counts."""

    of_proportions: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0)
    # Pseudo-counts that are tried, from `DEFAULT` up or down: per topic of a document, per word of a topic on
    # average.
    of_words: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 4.0, 10.0, 25.0)
    held_out: float = 0.2  # proportion of the documents left out
    # The same for pseudo-counts: the best ones per word grow with the corpus, so that much thinner ones mislead.
    prior_tokens: int = 300_000
    prior_iterations: int = 40  # iterations of the first fit that compares pseudo-counts, at most
    # Values without a gain after which a direction of the grid is given up: predictions are not quite smooth in it.
    patience: int = 2


PRIOR = PriorSettings()


DEFAULT = (0.1, 0.2)
"""Where too few documents can be left out."""
FEWEST = 50
"""Documents below which nothing is chosen."""
MOST_TOKENS = 150_000
"""A larger corpus is thinned to about so many tokens for the choice of the number."""
SHORT_ITERATIONS = 12
"""Iterations of fits that compare numbers of topics, or that go on under other pseudo-counts from where one ended."""


@dataclass(frozen=True)
class PriorChoice:
    """Pseudo-counts per topic and per word, and what each one tried predicted (nats per token)."""

    proportions: float
    words: float
    scores: dict[str, float]


def left_out(documents: Documents, seed: int) -> tuple[Documents, Documents]:
    """Documents to fit and documents to predict, separated by their content."""
    order = np.argsort(documents.hashes(seed), kind="stable")
    if documents.total > PRIOR.prior_tokens:
        order = order[: max(int(len(order) * PRIOR.prior_tokens / documents.total), FEWEST)]
    size = round(PRIOR.held_out * len(order))
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
    proportions, _ = proportions_of(given, topics, a, n_jobs)
    return topic_sums(hidden.lists, topics, proportions, words=False).log_likelihood, hidden.total


def choose_prior(documents: Documents, topics: Floats, seed: int, n_jobs: int | None = None) -> PriorChoice:
    """Pseudo-counts for topics that start from `topics` (M, K)."""
    n_topics = topics.shape[1]
    if documents.n_documents < FEWEST:
        return PriorChoice(*DEFAULT, {})
    fitted, other = left_out(documents, seed)
    halves = other.split(0.5, seed)
    # where an EM run begins does not depend on how many pseudo-counts a word gets
    first = begin(TopicSteps.of(fitted, TopicPrior.of(fitted, n_topics, *DEFAULT), n_jobs), topics)

    fits: dict[tuple[float, float], float] = {}
    at: dict[tuple[float, float], TopicParams] = {}

    def fit(proportions: float, words: float, predict: Sequence[float]) -> float:
        """Of topics fitted under both: the best prediction under any of `predict` pseudo-counts per topic."""
        steps = TopicSteps.of(fitted, TopicPrior.of(fitted, n_topics, proportions, words), n_jobs)
        start = at[_nearest(at, proportions, words)] if at else first
        params = em(
            steps, start, max_iter=SHORT_ITERATIONS if at else PRIOR.prior_iterations, tol=1e-4, accelerate=True
        ).params
        at[proportions, words] = params
        fits[proportions, words] = max(_mean(halves, params.topics, one, n_jobs) for one in predict)
        return fits[proportions, words]

    near = PRIOR.of_proportions[: PRIOR.of_proportions.index(DEFAULT[0]) + 2]
    words = best_near(PRIOR.of_words, DEFAULT[1], lambda words: fit(DEFAULT[0], words, near), PRIOR.patience)
    proportions = best_near(
        PRIOR.of_proportions, DEFAULT[0], lambda proportions: fit(proportions, words, [proportions]), 1
    )
    scores = {f"shares {proportions:g}, words {words:g}": value for (proportions, words), value in fits.items()}
    return PriorChoice(proportions, words, scores)


def _nearest(fits: Iterable[tuple[float, float]], proportions: float, words: float) -> tuple[float, float]:
    """The pseudo-counts of the fit from which one under others has the shortest way."""
    return min(fits, key=lambda one: abs(np.log(one[0] / proportions)) + abs(np.log(one[1] / words)))


def best_near(grid: Sequence[float], start: float, score: Callable[[float], float], patience: int) -> float:
    """The best of a grid by a search from `start`: up until `patience` values in a row gain nothing, else down."""
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


def begin(steps: TopicSteps, topics: Floats) -> TopicParams:
    """Topics with the proportions that a few steps give them."""
    n_topics = topics.shape[1]
    even = np.full((steps.lists.n_documents, n_topics), 1 / n_topics)
    b = steps.prior.b
    topics = np.ascontiguousarray((1 - LIFTED) * topics + LIFTED * (b / b.sum())[:, None])
    proportions = topic_proportions(
        steps.lists, topics, steps.prior.a, even, most=FIRST_STEPS, settled=0.0, threads=steps.threads
    )
    return TopicParams(topics, proportions)
