"""A hidden Markov model from counts of neighbouring symbols: bigrams for what states look like, trigrams for corners.

Paper     Huang, Kakade, Kong & Valiant 2018, Corollary 1.5 (bigrams for B, a few trigrams for the rest), for any number
          of states; the moment structure of trigrams is Anandkumar, Ge, Hsu, Kakade & Telgarsky 2014 (its [6])
Needs     transitions and emissions of full rank; a number of bigrams some multiple of the symbols
Promises  exact moments give back the model; with N bigrams the span is known once N/M is of order one (Theorem 2.1),
          and what trigrams decide has K³ numbers, whatever the number of symbols
Differs   slices of trigrams are taken over groups of alike symbols instead of single ones, several random mixtures of
          them are diagonalised, and the one that explains all slices best is kept; memberships are least squares on the
          simplex, so that noise cannot make a probability negative

Symbols   paper  here            shape        meaning
          D      emissions.T     (M, K)       P(symbol | state)
          W      joint           (K, K)       P(state, next state)
          —      before, after   (M, K)       features of the symbol before and after: one, and the leading vectors of B
          —      into, out_of    (M, K−1)     mean features of what comes before and after a symbol
          —      pair            (K, K)       E[before(x₁) after(x₃)ᵀ] = Σ_k π_k ω_k ζ_kᵀ
          —      slices          (G, K, K)    the same over trigrams whose middle symbol is in group g
          ω, ζ   omega, zeta     (K, K)       features before and after, given the state in the middle
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tacit.data.sequences import Sequences
from tacit.engine.chain import Chain, normalised
from tacit.factor.scaled_svd import ScaledSVD, scaled_svd
from tacit.factor.simplex_ls import simplex_least_squares
from tacit.factor.vertices import find_vertices

Floats = NDArray[np.float64]

GROUPS = 8
"""Groups of symbols per state whose slices are taken: more than states, few enough that each holds many trigrams."""
SMALL_ALPHABET = 100
"""Up to so many symbols each is a group of its own."""
MIXTURES = 32
"""Random mixtures of slices that are diagonalised."""
ROUGHLY = 1e-3
"""Relative error of the decomposition: far below what noise does to its vectors."""
MOST_TRIGRAMS = 500_000
"""Trigrams looked at: what they decide has K³ numbers, so a part of a long sequence is enough."""


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


def neighbours_of(data: Sequences, n_states: int, pairs: sp.csr_array | None = None) -> Neighbours:
    """Features of symbols by the company they keep."""
    pairs = data.pairs() if pairs is None else pairs
    found = scaled_svd(pairs, n_states - 1, centred=True, symmetric=False, tol=ROUGHLY)
    ones = np.ones((data.n_symbols, 1))
    before = np.hstack([ones, found.left / np.sqrt(found.row_scale)[:, None]])
    after = np.hstack([ones, found.right / np.sqrt(found.column_scale)[:, None]])
    rows, columns = (np.maximum(np.asarray(pairs.sum(axis=axis), np.float64), 1.0) for axis in (1, 0))
    out_of = (pairs @ after[:, 1:]) / rows[:, None]
    into = (pairs.T @ before[:, 1:]) / columns[:, None]
    counts = data.counts().astype(np.float64)
    return Neighbours(pairs, found, before, after, into, out_of, counts / counts.sum())


def chain_by_slices(data: Sequences, around: Neighbours, rng: np.random.Generator) -> Chain | None:
    """The model whose trigrams fit best; None where there are too few trigrams to tell."""
    K = around.before.shape[1]
    groups = _groups(around, GROUPS * K)
    pair, slices = _moments(data, around, groups)
    corners = diagonalise(pair, slices, rng)
    if corners is None:
        return None
    omega, zeta = corners
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
    turned = slices @ np.linalg.inv(pair)  # Ω diag(P(group | state)) Ω⁻¹ for every group
    mixtures = np.tensordot(rng.standard_normal((MIXTURES, len(slices))), turned, axes=1)
    values, vectors = np.linalg.eig(mixtures)
    whole = np.abs(values.imag).max(axis=1) <= 1e-9 * np.maximum(np.abs(values).max(axis=1), 1e-300)
    omegas = np.asarray(vectors.real[whole], np.float64)
    omegas = omegas[(np.abs(omegas[:, 0]).min(axis=1) > 1e-9) & (np.linalg.cond(omegas) < 1e8)]
    if not len(omegas):
        return None
    omegas = omegas / omegas[:, :1]  # the first feature is one
    inside = np.linalg.inv(omegas)[:, None] @ turned @ omegas[:, None]  # diagonal, if Ω is the right one
    diagonal = np.einsum("rgkk->rgk", inside)
    left_over = np.square(inside).sum(axis=(1, 2, 3)) - np.square(diagonal).sum(axis=(1, 2))
    left_over += np.square(np.minimum(diagonal, 0.0)).sum(axis=(1, 2))
    best = omegas[int(left_over.argmin())]
    zeta = np.linalg.inv(best) @ pair  # rows π_k (1, ζ_k)
    if np.abs(zeta[:, 0]).min() < 1e-9:
        return None
    return best.T, zeta / zeta[:, :1]


def _groups(around: Neighbours, number: int) -> NDArray[np.int64]:
    """A group of alike symbols for every symbol; symbols that never occur are in group 0."""
    points, mass = np.hstack([around.out_of, around.into]), around.frequencies
    used = np.flatnonzero(mass > 0)
    if len(mass) <= max(number, SMALL_ALPHABET):
        return np.arange(len(mass))
    groups = np.zeros(len(mass), np.int64)
    from sklearn.cluster import KMeans  # scikit-learn takes its time to import

    number = min(number, len(np.unique(np.round(points[used], 9), axis=0)))
    found = KMeans(number, n_init=1, max_iter=10, random_state=0).fit(points[used], sample_weight=mass[used])
    groups[used] = found.labels_
    return groups


def _moments(data: Sequences, around: Neighbours, groups: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """E[before(x₁) after(x₃)ᵀ] over all trigrams, and its parts by the group of x₂."""
    at = data.within(2)
    at = at[(data.codes[at] >= 0) & (data.codes[at + 1] >= 0) & (data.codes[at + 2] >= 0)][:MOST_TRIGRAMS]
    first, middle, last = (data.codes[at + step] for step in range(3))
    K, n_groups = around.before.shape[1], int(groups.max()) + 1
    # one sparse product: rows (group, feature of x₁), columns x₃
    slices = np.empty((n_groups, K, K))
    of_group = groups[middle]
    for k in range(K):
        weights = around.before[first, k]
        held = sp.csr_array((weights, (of_group, last)), shape=(n_groups, data.n_symbols))
        slices[:, k] = held @ around.after
    slices /= max(len(at), 1)
    return slices.sum(axis=0), slices


def _in_the_plane(points: Floats, mass: Floats) -> tuple[Floats, Floats]:
    """Both sides' points in the K − 1 directions they vary in together."""
    centred = points - mass @ points
    _, _, turn = np.linalg.svd(centred * np.sqrt(mass)[:, None], full_matrices=False)
    return points @ turn[: points.shape[1] // 2].T, mass


def _chain_at(around: Neighbours, corners: Floats) -> Chain:
    points = np.hstack([around.out_of, around.into])
    return _chain_of(around, simplex_least_squares(corners @ corners.T, points @ corners.T))


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
