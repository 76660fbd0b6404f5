"""E- and M-step of topics: a posteriori most probable topics and document shares, climbed together.

    objective(θ, φ) = Σ_dw n_dw log Σ_k θ_dk φ_kw + Σ_dk a log θ_dk + Σ_kw b_w log φ_kw

θ_d are the shares of document d, φ_k the words of topic k, a and b_w pseudo-counts that stay fixed: the density of LDA
with Dirichlet parameters a + 1 and b_w + 1, in θ and φ at once. Its stationary points are those of CVB0 (Asuncion et
al. 2009) without the exclusion of a token from its own counts; unlike CVB0's they maximise something, and every step
climbs it (docs/models/topics.md says what was compared).

One iteration: `INNER` EM steps of all shares with topics held, then one pass that gives both M-steps.

Paper     Asuncion, Welling, Smyth & Teh 2009 (which compares CVB0 with this, MAP); Hofmann 1999 without the prior
Needs     first topics that differ (`topics/init/spectral.py`)
Promises  the objective never falls; given topics, a document's shares are the one maximum
Differs   shares and topics climb together, and leap (Varadhan & Roland 2008)

Symbols   paper   here     shape    meaning
          θ       shares   (D, K)   of topics in documents
          φ       topics   (M, K)   word by word, as the kernel reads them
          a, b    a, b     (K,), (M,)   pseudo-counts
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.kernels.topics import WordLists, topic_pass, topic_shares, topic_sums
from latentfit.engine.memory import resolve_jobs
from latentfit.topics.data.documents import Documents

INNER = 1
"""EM steps of the shares before each M-step of the topics."""
SETTLED, MOST_STEPS = 1e-7, 1000
"""The shares of a document are found when no share moves by more in a step, or after so many steps."""
FLOOR = 1e-12
"""Extrapolation leaves no probability below this: EM could never lift a zero again."""
TOGETHER = 8
"""Probabilities multiplied before a logarithm is taken: eight of 1e-35 are still above the smallest double."""


@dataclass(frozen=True)
class TopicPrior:
    """Pseudo-counts: `a` (K,) of a document's shares, `b` (M,) of a topic's words."""

    a: Floats
    b: Floats

    @staticmethod
    def of(documents: Documents, n_topics: int, shares: float, words: float) -> TopicPrior:
        """`shares` per topic and `words` per word on average, as often as the word occurs (half a count more)."""
        return TopicPrior(np.full(n_topics, shares), words * documents.n_words * word_shares(documents))


@dataclass(frozen=True)
class TopicParams:
    """Topics (M, K), columns sum to one, and shares (D, K), rows sum to one."""

    topics: Floats
    shares: Floats


@dataclass(frozen=True)
class TopicStatistics:
    """Of one pass: the shares it was made at, log-likelihood, expected counts of documents and words."""

    shares: Floats
    log_likelihood: float
    documents: Floats  # (D, K)
    words: Floats  # (M, K)


def word_shares(documents: Documents) -> Floats:
    """ρ (M,), half a count added to every word: one that never occurs keeps some chance."""
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

    def expect(self, params: TopicParams) -> TopicStatistics:
        shares, sums = topic_pass(
            self.lists, params.topics, self.prior.a, params.shares, most=self.inner, threads=self.threads
        )
        return TopicStatistics(shares, float(sums.log_likelihood.sum()), sums.documents, sums.words)

    def objective(self, params: TopicParams, sums: TopicStatistics) -> float:
        of_shares = float(log_products(sums.shares) @ self.prior.a)  # pseudo-counts keep both above zero
        of_words = float(self.prior.b @ log_products(params.topics.T))
        return sums.log_likelihood + of_shares + of_words

    def log_likelihood(self, sums: TopicStatistics) -> float:
        return sums.log_likelihood

    def maximise(self, sums: TopicStatistics) -> TopicParams:
        topics = sums.words + self.prior.b[:, None]
        topics /= topics.sum(axis=0)
        shares = sums.documents + self.prior.a
        shares /= (self.lengths + self.prior.a.sum())[:, None]
        return TopicParams(topics, shares)

    def extrapolate(self, start: TopicParams, once: TopicParams, twice: TopicParams) -> TopicParams:
        """SQUAREM in the topics; the shares follow by their own steps."""
        # not `leap_of`: in place, and a ratio of norms in place of the root of a ratio has other bits
        step, bend = once.topics - start.topics, twice.topics - once.topics
        bend -= step
        curved = float(np.linalg.norm(bend))
        length = 1.0 if curved == 0 else max(float(np.linalg.norm(step)) / curved, 1.0)
        step *= 2 * length  # in place from here on: a new array of this size costs more than the sum
        step += start.topics
        bend *= length**2
        step += bend
        np.maximum(step, FLOOR * twice.topics, out=step)
        step /= step.sum(axis=0)
        return replace(twice, topics=step)


def log_products(values: Floats) -> Floats:
    """Sums of the logarithms of every column: up to `TOGETHER` rows share one."""
    step = -(-len(values) // TOGETHER)
    products = values[:step].copy()
    for begin in range(step, len(values), step):
        part = values[begin : begin + step]
        products[: len(part)] *= part
    return np.asarray(np.log(products).sum(axis=0))


def shares_of(documents: Documents, topics: Floats, a: Floats, n_jobs: int | None = None) -> tuple[Floats, Floats]:
    """Shares (D, K) and log-likelihoods (D,) of documents under topics (M, K): the one maximum, from even shares."""
    threads, even = resolve_jobs(n_jobs), np.full((documents.n_documents, len(a)), 1 / len(a))
    lists = documents.lists
    shares = topic_shares(lists, topics, a, even, most=MOST_STEPS, settled=SETTLED, threads=threads)
    return shares, topic_sums(lists, topics, shares, words=False, threads=threads).log_likelihood
