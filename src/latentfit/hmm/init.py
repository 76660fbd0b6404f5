"""Initial models of hidden Markov models: two states by three moments, any number by trigrams, splits of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import chain_posteriors
from latentfit.core.simplex import simplex_least_squares
from latentfit.core.spectral import ScaledSVD, find_vertices, scaled_svd
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.steps import Chain, normalised

# -----------------------------------------------------------------------------
# A hidden Markov model of two states by the method of Corollary 1.5: bigrams for B, a few trigrams for the transition.
#
# Paper     Huang, Kakade, Kong & Valiant 2018, Corollary 1.5 with Definition 1.4
# Needs     ‖p − q‖₁, π_p, T_pp and T_qq away from 0 and 1, and T_pp + T_qq away from 1 (which the corollary forgets:
#           there the states follow one another by chance, and B = ρρᵀ shows nothing); N = Ω(M/ε²) observations
# Promises  π, T, p and q to within ε with the paper's two phases for B: Ω(M/ε²) bigrams decide Δ, and Ω(1/ε²) trigrams
#           the three numbers B leaves open
# Differs   B comes from one regularised scaled SVD instead of the two phases (docs/guide/pairs.md: never worse);
#           numbers that noise puts outside their range are moved to its edge. The paper leaves the last step to its
#           source [6]; for two states it is a quadratic equation, as follows.
#
# A two-state chain is reversible, so W = Wᵀ and B = ρρᵀ ± ΔΔᵀ with Δ = c (p − q). Let f(x) = Δ_x / ρ_x be the feature
# of a symbol, m_p and m_q its means in the two states, v = π_p π_q (m_p − m_q)², and λ = T_pp + T_qq − 1. Then E f = 0
# and
#
#     E f(x₁) f(x₂) = λ v,   E f(x₁) f(x₃) = λ² v,   E f(x₁) f(x₂) f(x₃) = λ² (π_p m_p³ + π_q m_q³)
#
# so λ is a ratio, v follows, and m_p, m_q are the roots of m² − (third / v) m − v = 0, because their mean is zero.
#
# Symbols   paper    here          shape   meaning
#           ρ, Δ     rho, feature  (M,)    marginal; Δ/ρ, the feature f
#           π, T     start, transitions
#           p, q     emissions     (2, M)

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
    n_neighbours = np.asarray(pairs.sum(axis=0) + pairs.sum(axis=1), np.float64).reshape(-1)
    company = (pairs @ feature + pairs.T @ feature) / np.maximum(n_neighbours, 1.0)
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


# -----------------------------------------------------------------------------
# A hidden Markov model from counts of neighbouring symbols: bigrams for what states look like, trigrams for anchors.
#
# Paper     Huang, Kakade, Kong & Valiant 2018, Corollary 1.5 (bigrams for B, a few trigrams for the rest), for any
#           number of states; the moment structure of trigrams is Anandkumar, Ge, Hsu, Kakade & Telgarsky 2014 (its [6])
# Needs     transitions and emissions of full rank; a number of bigrams some multiple of the symbols
# Promises  exact moments give back the model; with N bigrams the span is known once N/M is of order one (Theorem 2.1),
#           and what trigrams decide has K³ numbers, whatever the number of symbols
# Differs   slices of trigrams are weighted by features of the middle symbol instead of taken symbol by symbol, several
#           random mixtures of them are diagonalised, and the one that explains all slices best is kept; memberships are
#           least squares on the simplex, so that noise cannot make a probability negative
#
# Symbols   paper  here            shape        meaning
#           D      emissions.T     (M, K)       P(symbol | state)
#           W      joint           (K, K)       P(state, next state)
#           —      before, after   (M, K)       features of the symbol before and after: one, and the leading vectors of
#           B —      into, out_of    (M, K−1)     mean features of what comes before and after a symbol
#           —      pair            (K, K)       E[before(x₁) after(x₃)ᵀ] = Σ_k π_k ω_k ζ_kᵀ
#           —      slices          (G, K, K)    the same weighted by feature g of the middle symbol
#           ω, ζ   omega, zeta     (K, K)       features before and after, given the state in the middle

MIXTURES = 32
"""Random mixtures of slices that are diagonalised."""
ROUGHLY = 1e-3
"""Relative error of the decomposition: far below what noise does to its vectors."""
AT_ONCE = 1 << 15
"""Trigrams whose features are held together."""


@dataclass(frozen=True)
class Neighbours:
    """Bigram counts and the features made of them."""

    pairs: sp.csr_array  # (M, M)
    decomposed: ScaledSVD
    before: Floats  # (M, K)
    after: Floats  # (M, K)
    into: Floats  # (M, K − 1)
    out_of: Floats  # (M, K − 1)
    frequencies: Floats  # (M,)


def neighbours_of(data: Sequences, n_states: int) -> Neighbours:
    """Features of symbols by the company they keep."""
    pairs = data.pairs()
    decomposed = scaled_svd(pairs, n_states - 1, centred=True, symmetric=False, tol=ROUGHLY)
    ones = np.ones((data.n_symbols, 1))
    before = np.hstack([ones, decomposed.left / np.sqrt(decomposed.row_scale)[:, None]])
    after = np.hstack([ones, decomposed.right / np.sqrt(decomposed.column_scale)[:, None]])
    rows, columns = (np.maximum(np.asarray(pairs.sum(axis=axis), np.float64), 1.0) for axis in (1, 0))
    out_of = (pairs @ after[:, 1:]) / rows[:, None]
    into = (pairs.T @ before[:, 1:]) / columns[:, None]
    counts = data.counts().astype(np.float64)
    return Neighbours(pairs, decomposed, before, after, into, out_of, counts / counts.sum())


def chain_by_slices(data: Sequences, around: Neighbours, rng: np.random.Generator) -> Chain | None:
    """Corollary 1.5 for any number of states: the model whose trigrams fit best; None where they are too few."""
    pair, slices = _moments(data, around)
    anchors = diagonalise(pair, slices, rng)
    if anchors is None:
        return None
    omega, zeta = anchors
    return _chain_at(around, np.hstack([zeta[:, 1:], omega[:, 1:]]))


def chain_by_vertices(around: Neighbours) -> Chain:
    """The model whose states are the most extreme groups of symbols: needs symbols that nearly one state shows."""
    points = np.hstack([around.out_of, around.into])
    vertices = find_vertices(*_in_the_plane(points, around.frequencies))
    return _chain_of(around, vertices.memberships)


def diagonalise(pair: Floats, slices: Floats, rng: np.random.Generator) -> tuple[Floats, Floats] | None:
    """ω and ζ (state, feature), the first feature one, from E[before afterᵀ] and its slices; None where singular."""
    if not np.isfinite(pair).all() or np.linalg.cond(pair) > 1e10:
        return None
    turned = slices @ np.linalg.inv(pair)  # Ω diag(E[feature | state]) Ω⁻¹ for every feature of x₂
    mixtures = np.tensordot(rng.standard_normal((MIXTURES, len(slices))), turned, axes=1)
    values, vectors = np.linalg.eig(mixtures)
    real = np.abs(values.imag).max(axis=1) <= 1e-9 * np.maximum(np.abs(values).max(axis=1), 1e-300)
    omegas = np.asarray(vectors.real[real], np.float64)
    omegas = omegas[(np.abs(omegas[:, 0]).min(axis=1) > 1e-9) & (np.linalg.cond(omegas) < 1e8)]
    if not len(omegas):
        return None
    omegas = omegas / omegas[:, :1]  # the first feature is one
    inside = np.linalg.inv(omegas)[:, None] @ turned @ omegas[:, None]  # diagonal, if Ω is the right one
    diagonal = np.einsum("rgkk->rgk", inside)
    left_over = np.square(inside).sum(axis=(1, 2, 3)) - np.square(diagonal).sum(axis=(1, 2))
    best = omegas[int(left_over.argmin())]
    zeta = np.linalg.inv(best) @ pair  # rows π_k (1, ζ_k)
    if np.abs(zeta[:, 0]).min() < 1e-9:
        return None
    return best.T, zeta / zeta[:, :1]


def _moments(data: Sequences, around: Neighbours) -> tuple[Floats, Floats]:
    """E[before(x₁) after(x₃)ᵀ] over trigrams, and the same weighted by each feature of x₂."""
    at = data.within(2)
    at = at[(data.codes[at] >= 0) & (data.codes[at + 1] >= 0) & (data.codes[at + 2] >= 0)]
    weights = np.hstack([around.before, around.after[:, 1:]])
    slices = np.zeros((weights.shape[1], around.before.shape[1], around.after.shape[1]))
    for begin in range(0, len(at), AT_ONCE):
        first, middle, last = (data.codes[at[begin : begin + AT_ONCE] + step] for step in range(3))
        one, three = around.before[first], around.after[last]
        for feature, weight in enumerate(weights[middle].T):
            slices[feature] += (one * weight[:, None]).T @ three
    slices /= max(len(at), 1)
    return slices[0], slices[1:]  # the first feature is one


def _in_the_plane(points: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Both sides' points in the K − 1 directions they vary in together."""
    centred = points - mass @ points
    _, _, turn = np.linalg.svd(centred * np.sqrt(mass)[:, None], full_matrices=False)
    return points @ turn[: points.shape[1] // 2].T, mass


def _chain_at(around: Neighbours, anchors: Floats) -> Chain:
    points = np.hstack([around.out_of, around.into])
    return _chain_of(around, simplex_least_squares(anchors @ anchors.T, points @ anchors.T))


def _chain_of(around: Neighbours, memberships: Floats) -> Chain:
    """Emissions from P(state | symbol), then the transitions that explain the bigrams' features."""
    joint = memberships * around.frequencies[:, None]
    weights = joint.sum(axis=0)
    emissions = normalised(np.ascontiguousarray(joint.T), around.frequencies)
    seen = around.before.T @ (around.pairs @ around.after) / around.pairs.sum()
    left, right = emissions @ around.before, emissions @ around.after
    moves = np.maximum(np.linalg.pinv(left.T) @ seen @ np.linalg.pinv(right), 0.0)  # W
    even = np.full(len(weights), 1 / len(weights))
    blurred = 0.95 * normalised(moves, even) + 0.05 * even  # a zero could never grow again
    return Chain(normalised(weights, even), blurred, 0.95 * emissions + 0.05 * around.frequencies)


# -----------------------------------------------------------------------------
# States made into two: larger hidden Markov models grown out of smaller ones, without anything drawn.
#
# Given the state of a step, its symbol and the symbols before and after are independent if the model is right. Where a
# state hides two, they are not, and the direction in which they depend on one another parts the state's steps. For
# every state the leading direction of a multiple correspondence analysis of (symbol before, symbol, symbol after),
# every step weighted by the posterior of the state, is found by a few power iterations; its inertia times the state's
# weight says what a split promises. The steps above and below the mean of that direction make two states.
#
# Paper     splitting for hidden Markov models as in Ostendorf & Singer 1997 (maximum-likelihood successive state
#           splitting), with the direction of a correspondence analysis in place of their alignment
# Needs     a fitted model and its sequences
# Promises  the same split for the same sequences in any order; nothing is random
# Differs   all states are looked at, one pass of posteriors serves them
#
# Symbols   γ   posterior   (N, K)   P(state of the step | sequences)
#           z   scores      (N,)     the direction's value of every step

POWERS = 12
"""Power iterations for a direction: it only has to part the steps roughly, EM does the rest."""
SOFT = 0.9
"""Posterior with which a step goes to its half; the rest goes to the other, so that no probability is zero."""


def splits(chain: Chain, data: Sequences, number: int, at_once: int = 1, threads: int = 1) -> list[tuple[str, Chain]]:
    """Models with `at_once` states more, at most `number` of them, the most promising splits first."""
    posterior, _ = chain_posteriors(data.chains, *chain.parts, threads=threads)
    around = _neighbours(data)
    directions = []
    for state in range(chain.n_states):
        weights = posterior[:, state] * (data.codes >= 0)
        scores, inertia = _direction(around, weights, data.n_symbols)
        directions.append((inertia * float(weights.sum()), state, scores))
    order = sorted(directions, key=lambda one: (-one[0], one[1]))
    groups = [order[first : first + at_once] for first in range(0, number * at_once, at_once)]
    return [
        ("split " + " ".join(str(state) for _, state, _ in group), _parted(chain, data, posterior, group))
        for group in groups
        if len(group) == at_once
    ]


def _neighbours(data: Sequences) -> list[NDArray[np.int64]]:
    """The symbol before, at and after every step (N,); where there is none, one more than the last symbol."""
    none = data.n_symbols
    here = np.where(data.codes >= 0, data.codes, none).astype(np.int64)
    before, after = (np.full(len(here), none, np.int64) for _ in range(2))
    at = data.within(1)
    before[at + 1], after[at] = here[at], here[at + 1]
    return [before, here, after]


def _direction(around: list[NDArray[np.int64]], weights: Floats, n_symbols: int) -> tuple[Floats, float]:
    """Scores of every step along the leading direction, and the proportion of variance beyond independence."""
    total = float(weights.sum())
    if total < 2:
        return np.zeros(len(weights)), 0.0
    masses = [np.bincount(part, weights, n_symbols + 1).astype(np.float64) for part in around]
    safe = [np.where(mass > 0, mass, 1.0) for mass in masses]
    values = [_first_values(mass, n_symbols + 1) for mass in masses]
    inertia, scores = 0.0, np.zeros(len(weights))
    for _ in range(POWERS):
        scores = values[0][around[0]] + values[1][around[1]] + values[2][around[2]]
        scores -= (weights @ scores) / total
        size = np.sqrt((weights @ scores**2) / total)
        if not size > 0:
            return np.zeros(len(weights)), 0.0
        scores /= size
        sums = [np.bincount(part, weights * scores, n_symbols + 1) for part in around]
        values = [one / mass for one, mass in zip(sums, safe, strict=True)]
        inertia = sum(float(mass @ value**2) for mass, value in zip(masses, values, strict=True)) / total
    return scores, max(inertia - 1, 0.0)  # three independent parts leave a direction with one of them: inertia 1


def _first_values(mass: Floats, size: int) -> Floats:
    """Where power iterations begin: some direction that no symmetry of the symbols can be orthogonal to."""
    return np.asarray(np.cos(np.arange(size) * 2.399963) / np.sqrt(np.maximum(mass, 1.0)))


def _parted(chain: Chain, data: Sequences, posterior: Floats, group: list[tuple[float, int, Floats]]) -> Chain:
    """The model in which the states of the group are two each."""
    K, new = chain.n_states, len(group)
    wide = np.hstack([posterior, np.zeros((len(posterior), new))])
    for place, (_, state, scores) in enumerate(group):
        proportion = np.where(scores > 0, SOFT, 1 - SOFT)
        wide[:, K + place] = posterior[:, state] * (1 - proportion)
        wide[:, state] = posterior[:, state] * proportion
    seen, at = data.codes >= 0, data.within(1)
    counts = [np.bincount(data.codes[seen], column[seen], data.n_symbols) for column in wide.T]
    emissions = np.stack(counts).astype(np.float64)
    owner = np.concatenate([np.arange(K), [state for _, state, _ in group]])
    old = chain.emissions[owner]
    # Neighbours' posteriors as if independent, tied to the model's own moves, which know that they are not.
    moves = (wide[at].T @ wide[at + 1]) * _ratio(chain, posterior, at)[np.ix_(owner, owner)]
    start = wide[data.offsets[:-1][np.diff(data.offsets) > 0]].sum(axis=0)
    even = np.full(K + new, 1 / (K + new))
    return Chain(
        0.95 * normalised(start, even) + 0.05 * even,
        0.98 * normalised(moves, even) + 0.02 * even,
        0.95 * normalised(emissions, old) + 0.05 * old,
    )


def _ratio(chain: Chain, posterior: Floats, at: NDArray[np.int64]) -> Floats:
    """How much more often states follow one another than their posteriors alone would say."""
    apart = posterior[at].T @ posterior[at + 1]
    together = chain.transitions * posterior[at].sum(axis=0)[:, None]
    return np.where(apart > 0, together / np.where(apart > 0, apart, 1.0), 1.0)
