"""Two topics from word pairs: what pairs determine, and the two ways to the weights that they leave open.

Paper     Huang, Kakade, Kong & Valiant 2018, Definition 1.2 and Corollary 1.3
Needs     documents of one topic each, π_p (1 − π_p) ‖p − q‖₁ of order one, and a number of pairs some multiple of the
          words; for the weights either a few documents of three words, or words that only one topic uses (anchors)
Promises  with N = Ω(M/ε²) pairs, π_p, p and q within ε
Differs   the corollary states its result without the last step, and pairs alone cannot make it: W = diag(π_p, π_q) has
          B = ρρᵀ + ΔΔᵀ with Δ = √(π_p π_q) (p − q), and every π gives a p and q with the same ρ and Δ, as long as
          both stay nonnegative. Here the step is `weight_from_triples` (the skewness of a score over documents) or
          `weight_from_anchors` (the extremes of Δ/ρ, where one of p, q is zero). Of order 1/ε² triples are enough:
          they fix one number

Symbols   paper    here         shape    meaning
          ρ, Δ     rho, delta   (M,)     marginal and separation (2), (4)
          π_p      weight       —        probability of the topic whose words have Δ > 0
          p, q     topics       (2, M)
          —        lift         (M,)     x = Δ/ρ, between −√(π_p/π_q) and √(π_q/π_p)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from latentfit.core.kernels import Floats

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
