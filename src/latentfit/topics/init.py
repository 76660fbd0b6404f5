"""Initial topics: two topics by triples, any number from word pairs, and the choice among initialisations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from latentfit.core.em import Step, em
from latentfit.core.errors import NotIdentifiableError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.spa import successive_projection
from latentfit.core.multistart import Candidate, Selected, successive_halving
from latentfit.core.pair_em import PairSteps
from latentfit.core.sampling import scramble
from latentfit.core.spectral import (
    CENTRES,
    PairModel,
    ScaledSVD,
    leading_eigenpairs,
    peak_signs,
    weighted_centres,
)
from latentfit.topics.data.documents import Documents
from latentfit.topics.em import LIFTED, TopicParams, TopicStatistics, TopicSteps, begin, word_frequencies
from latentfit.topics.moments import WordPairs, pair_counts

# -----------------------------------------------------------------------------
# Two topics from word pairs: what pairs determine, and the two ways to the weights that they leave open.
#
# Paper     Huang, Kakade, Kong & Valiant 2018, Definition 1.2 and Corollary 1.3
# Needs     documents of one topic each, π_p (1 − π_p) ‖p − q‖₁ of order one, and a number of pairs some multiple of the
#           words; for the weights either a few documents of three words, or words that only one topic uses (anchors)
# Promises  with N = Ω(M/ε²) pairs, π_p, p and q within ε
# Differs   the corollary states its result without the last step, and pairs alone cannot make it: W = diag(π_p, π_q)
#           has B = ρρᵀ + ΔΔᵀ with Δ = √(π_p π_q) (p − q), and every π gives a p and q with the same ρ and Δ, as long as
#           both stay nonnegative. Here the step is `weight_from_triples` (the skewness of a score over documents) or
#           `weight_from_anchors` (the extremes of Δ/ρ, where one of p, q is zero). Of order 1/ε² triples are enough:
#           they fix one number
#
# Symbols   paper    here         shape    meaning
#           ρ, Δ     rho, delta   (M,)     marginal and separation (2), (4)
#           π_p      weight       —        probability of the topic whose words have Δ > 0
#           p, q     topics       (2, M)
#           —        lift         (M,)     x = Δ/ρ, between −√(π_p/π_q) and √(π_q/π_p)

LEAST_WEIGHT = 0.01
"""Weights stay so far from 0 and 1: beyond, a topic would have next to no counts and its words no meaning."""


@dataclass(frozen=True)
class TwoTopics:
    """Weights (2,) and topics (2, M)."""

    weights: Floats
    topics: Floats


def weight_from_triples(counts: sp.csr_array, lift: Floats) -> float | None:
    """π_p of Corollary 1.3 from documents (D, M) of three words or more; None where none is, or pairs show no spread.

    With the score v = x − mean x of a word (over the tokens of these documents), two different words of a document
    have E[v v'] = π_p π_q s² and three E[v v' v''] = π_p π_q (π_q − π_p) s³ with s = v·(p − q): the skewness
    (π_q − π_p)/√(π_p π_q) is free of s, so that a poor x costs precision and nothing else.
    """
    lengths = np.asarray(counts.sum(axis=1), np.float64).reshape(-1)
    rows = counts[np.flatnonzero(lengths >= 3)].astype(np.float64)
    n = lengths[lengths >= 3]
    if not len(n):
        return None
    score = lift - float((rows @ lift).sum()) / n.sum()
    once, squares, cubes = rows @ score, rows @ score**2, rows @ score**3
    pairs = once**2 - squares
    triples = once**3 - 3 * once * squares + 2 * cubes  # ordered triples of different tokens
    length_weights = n / n.sum()  # a document speaks by its length
    second = float(length_weights @ (pairs / (n * (n - 1))))
    third = float(length_weights @ (triples / (n * (n - 1) * (n - 2))))
    if second <= 0:
        return None
    skewness = third / second**1.5
    return _inside(0.5 * (1 - skewness / np.sqrt(4 + skewness**2)))


def weight_from_anchors(low: float, high: float) -> float:
    """π_p from the ends of Δ/ρ, −√(π_p/π_q) and √(π_q/π_p) where both topics have words of their own."""
    return _inside(-low / max(high - low, 1e-300))


def two_topics(rho: Floats, delta: Floats, weight: float) -> TwoTopics:
    """Definition 1.2 with p = ρ + √(π_q/π_p) Δ and q = ρ − √(π_p/π_q) Δ, cut at zero; the topic with Δ > 0 first."""
    odds = np.sqrt((1 - weight) / weight)
    topics = np.maximum(np.vstack([rho + odds * delta, rho - delta / odds]), 0.0)
    return TwoTopics(np.array([weight, 1 - weight]), topics / topics.sum(axis=1, keepdims=True))


def _inside(weight: float) -> float:
    return float(np.clip(weight, LEAST_WEIGHT, 1 - LEAST_WEIGHT))


# -----------------------------------------------------------------------------
# First topics from word pairs: one regularised, marginal-scaled spectrum, its anchors, their words.
#
# Paper     Huang, Kakade, Kong & Valiant 2018, step 3(a) of Algorithm 1 with one decomposition for all words
#           (`core/spectral.py` says how it differs); anchors as in `core/spectral.py`
# Needs     documents with two tokens at least; for every topic a group of words nearly its own; K at most the rank
# Promises  with exact pair frequencies and one pure group of words per topic, the topics exactly
# Differs   the pair matrix is applied, never formed: two passes over the documents' cells for each of ARPACK's vectors;
#           memberships are barycentric coordinates cut at zero, not the nearest point of the simplex: as good a start
#           for EM, at a hundredth of the time for forty topics; a weight `BLEND` of the marginal is mixed in, since EM
#           cannot lift a probability from zero
#
# Symbols   paper   here          shape      meaning
#           B_N/N   pairs         (M, M)     frequencies of word pairs inside documents
#           ρ̂       row_marginal  (M,)       frequencies of words
#           D       topics        (M, K)     first topics

BLEND = 0.1
"""Weight of the words' marginal in every initial topic."""


def word_spectrum(pairs: WordPairs, rank: int, *, regularise: float = 1.0, tol: float = 0.0) -> ScaledSVD:
    """Leading eigenpairs, largest value first, of D^{-1/2} (C/N − ρρᵀ) D^{-1/2} with D = ρ + regularise · mean ρ.

    Topics make word pairs positive definite, so negative values are noise and not asked for.
    """
    size = pairs.matrix.shape[1]
    if not 0 <= rank < size:
        raise NotIdentifiableError(
            f"{rank + 1} topics are asked of {size} words, whose pairs tell {size} apart; ask for fewer"
        )
    total = pairs.total
    marginal = pairs.row_sums / total if total > 0 else np.full(size, 1 / size)  # (6)
    scale = marginal + regularise * marginal.mean()
    root = 1 / np.sqrt(scale)
    if rank == 0 or total <= 0:
        return _found(np.zeros(rank), np.zeros((size, rank)), marginal, scale)

    def product(vectors: Floats) -> Floats:
        turned = root[:, None] * vectors.reshape(size, -1)
        out = pairs.product(turned) / total - np.outer(marginal, marginal @ turned)
        return np.asarray(root[:, None] * out).reshape(vectors.shape)

    operator = LinearOperator((size, size), matvec=product, matmat=product, dtype=np.float64)
    values, vectors = leading_eigenpairs(operator, rank, which="LA", tol=tol)
    return _found(values, vectors, marginal, scale)


def _found(values: Floats, vectors: Floats, marginal: Floats, scale: Floats) -> ScaledSVD:
    vectors = vectors * peak_signs(vectors)
    return ScaledSVD(values, vectors, vectors, marginal, marginal, scale, scale, True, True)


def first_topics(spectrum: ScaledSVD, n_topics: int) -> Floats:
    """Topics (M, K) from the first K − 1 vectors of a spectrum."""
    marginal = spectrum.row_marginal
    points = spectrum.embedding()[0][:, : n_topics - 1] * np.sqrt(np.maximum(spectrum.values[: n_topics - 1], 0.0))
    lifted = np.column_stack([np.ones(len(points)), points])
    centres = weighted_centres(points, marginal, CENTRES * n_topics) if n_topics > 1 else points[:1]
    lifted_centres = np.column_stack([np.ones(len(centres)), centres])
    chosen = successive_projection(lifted_centres.T, n_topics)
    inside = lifted @ np.linalg.pinv(lifted_centres[chosen])  # P(topic | word) where the anchors are pure
    joint = np.maximum(inside, 0.0) * marginal[:, None]
    sums = joint.sum(axis=0)
    topics = np.tile(marginal[:, None], (1, n_topics))  # fewer anchors than topics: the marginal fills the places
    alive = np.flatnonzero(sums > 0)
    topics[:, alive] = (1 - BLEND) * joint[:, alive] / sums[alive] + BLEND * marginal[:, None]
    return np.asarray(topics / topics.sum(axis=0))


def topics_by_triples(counts: sp.csr_array, spectrum: ScaledSVD) -> Floats | None:
    """Two topics (M, 2) with the weights that triples of words ask for (Corollary 1.3); None without triples."""
    marginal, value = spectrum.row_marginal, max(float(spectrum.values[0]), 0.0)
    lift = spectrum.embedding()[0][:, 0] * np.sqrt(value)
    weight = weight_from_triples(counts, lift)
    if weight is None:
        return None
    return np.asarray((1 - BLEND) * two_topics(marginal, marginal * lift, weight).topics.T + BLEND * marginal[:, None])


# -----------------------------------------------------------------------------
# Multi-start of topics: spectral and a few random initialisations, successive halving by their objective.

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


def refined_by_pairs(documents: Documents, topics: Floats, threads: int = 1) -> Floats:
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
) -> Selected[TopicParams, TopicStatistics]:
    """The best EM run from named initial topics (M, K)."""
    candidates = [Candidate(name, steps, begin(steps, topics)) for name, topics in starts.items()]
    rounds = ROUNDS[: max(int(np.ceil(np.log2(max(len(candidates), 1)))), 1)]
    return successive_halving(candidates, rounds=rounds, max_iter=max_iter, tol=tol, accelerate=True, callback=callback)
