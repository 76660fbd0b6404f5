"""A hidden Markov model of two states by the method of Corollary 1.5: bigrams for B, a few trigrams for the transition.

Paper     Huang, Kakade, Kong & Valiant 2018, Corollary 1.5 with Definition 1.4
Needs     ‖p − q‖₁, π_p, T_pp and T_qq away from 0 and 1, and T_pp + T_qq away from 1 (which the corollary forgets:
          there the states follow one another by chance, and B = ρρᵀ shows nothing); N = Ω(M/ε²) observations
Promises  π, T, p and q to within ε with the paper's two phases for B: Ω(M/ε²) bigrams decide Δ, and Ω(1/ε²) trigrams
          the three numbers B leaves open
Differs   B comes from one regularised scaled SVD instead of the two phases (docs/guide/pairs.md: never worse); numbers
          that noise puts outside their range are moved to its edge. The paper leaves the last step to its source [6];
          for two states it is a quadratic equation, as follows.

A two-state chain is reversible, so W = Wᵀ and B = ρρᵀ ± ΔΔᵀ with Δ = c (p − q). Let f(x) = Δ_x / ρ_x be the feature of
a symbol, m_p and m_q its means in the two states, v = π_p π_q (m_p − m_q)², and λ = T_pp + T_qq − 1. Then E f = 0 and

    E f(x₁) f(x₂) = λ v,   E f(x₁) f(x₃) = λ² v,   E f(x₁) f(x₂) f(x₃) = λ² (π_p m_p³ + π_q m_q³)

so λ is a ratio, v follows, and m_p, m_q are the roots of m² − (third / v) m − v = 0, because their mean is zero.

Symbols   paper    here          shape   meaning
          ρ, Δ     rho, feature  (M,)    marginal; Δ/ρ, the feature f
          π, T     start, transitions
          p, q     emissions     (2, M)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.spectral import scaled_svd
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.steps import Chain

EDGE = 1e-3
"""How near to 0 and 1 a probability of this method may come."""


class TwoStateMoments(NamedTuple):
    """What the three equations need: products of the feature at distance one and two, of three in a row."""

    near: float  # E f(x₁) f(x₂)
    far: float  # E f(x₁) f(x₃)
    third: float  # E f(x₁) f(x₂) f(x₃)
    company: Floats  # (M,) mean feature of a symbol's neighbours


def two_state_chain(data: Sequences, *, trigrams: NDArray[np.int64] | None = None) -> Chain | None:
    """Corollary 1.5: π, T, p and q, or None without structure; `trigrams` begin at these places (None: all)."""
    pairs = data.pairs()
    if not pairs.sum():
        return None
    decomposed = scaled_svd(pairs, 1, centred=True, symmetric=True, tol=1e-3)
    rho = decomposed.row_marginal
    feature = decomposed.left[:, 0] / np.sqrt(decomposed.row_scale)  # Δ/ρ, rare symbols shrunk
    feature = feature - rho @ feature
    at = data.within(2) if trigrams is None else trigrams
    at = at[(data.codes[at] >= 0) & (data.codes[at + 1] >= 0) & (data.codes[at + 2] >= 0)]
    if not len(at):
        return None
    one, two, three = (feature[data.codes[at + step]] for step in range(3))
    beside = np.asarray(pairs.sum(axis=0) + pairs.sum(axis=1), np.float64).reshape(-1)
    company = (pairs @ feature + pairs.T @ feature) / np.maximum(beside, 1.0)
    near = float(feature @ (pairs @ feature)) / float(pairs.sum())
    return solve_two_states(
        rho, TwoStateMoments(near, float(np.mean(one * three)), float(np.mean(one * two * three)), company)
    )


def solve_two_states(rho: Floats, moments: TwoStateMoments) -> Chain | None:
    """The model that has these moments; None where they show no two states."""
    near, far, third, company = moments
    if near == 0:
        return None
    rate = float(np.clip(far / near, -1 + EDGE, 1 - EDGE))  # λ
    if abs(rate) < EDGE or near * rate <= 0:  # λ has the sign of E f(x₁) f(x₂); noise can say otherwise
        rate = float(np.copysign(max(abs(rate), 0.05), near))
    spread = near / rate  # v
    middle = third / rate**2 / spread / 2
    root = np.sqrt(middle**2 + spread)
    high, low = middle + root, middle - root  # m_p > 0 > m_q
    weight = float(np.clip(-low / (high - low), EDGE, 1 - EDGE))  # π_p
    # Given a symbol, the feature of its neighbours has mean λ (P(p | x) m_p + P(q | x) m_q).
    belongs = np.clip((company / rate - low) / (high - low), 0.0, 1.0)
    emissions = np.stack([rho * belongs, rho * (1 - belongs)])
    totals = emissions.sum(axis=1, keepdims=True)
    if (totals < EDGE**2).any():
        return None
    start = np.array([weight, 1 - weight])
    transitions = np.clip(start + rate * (np.eye(2) - start), EDGE, 1 - EDGE)
    return Chain(start, transitions / transitions.sum(axis=1, keepdims=True), emissions / totals)
