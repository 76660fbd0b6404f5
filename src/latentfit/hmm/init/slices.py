"""A hidden Markov model from counts of neighbouring symbols: bigrams for what states look like, trigrams for anchors.

Paper     Huang, Kakade, Kong & Valiant 2018, Corollary 1.5 (bigrams for B, a few trigrams for the rest), for any number
          of states; the moment structure of trigrams is Anandkumar, Ge, Hsu, Kakade & Telgarsky 2014 (its [6])
Needs     transitions and emissions of full rank; a number of bigrams some multiple of the symbols
Promises  exact moments give back the model; with N bigrams the span is known once N/M is of order one (Theorem 2.1),
          and what trigrams decide has K³ numbers, whatever the number of symbols
Differs   slices of trigrams are weighted by features of the middle symbol instead of taken symbol by symbol, several
          random mixtures of them are diagonalised, and the one that explains all slices best is kept; memberships are
          least squares on the simplex, so that noise cannot make a probability negative

Symbols   paper  here            shape        meaning
          D      emissions.T     (M, K)       P(symbol | state)
          W      joint           (K, K)       P(state, next state)
          —      before, after   (M, K)       features of the symbol before and after: one, and the leading vectors of B
          —      into, out_of    (M, K−1)     mean features of what comes before and after a symbol
          —      pair            (K, K)       E[before(x₁) after(x₃)ᵀ] = Σ_k π_k ω_k ζ_kᵀ
          —      slices          (G, K, K)    the same weighted by feature g of the middle symbol
          ω, ζ   omega, zeta     (K, K)       features before and after, given the state in the middle
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from latentfit.core.kernels import Floats
from latentfit.core.simplex import simplex_least_squares
from latentfit.core.spectral import ScaledSVD, find_vertices, scaled_svd
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.steps import Chain, normalised

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
