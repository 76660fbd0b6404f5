"""Hidden causes as the corners of the scaled embedding: weighted centres, successive projections, memberships.

Paper     the step from (ρ, Δ) to D and W of (1) that Huang et al. 2018 leave to anchors (Corollary 1.3), for any K;
          corners by successive projections (Gillis & Vavasis 2014), on centres; Arora et al. 2012 take single words
Needs     for every cause a group of items nearly its own (anchors); K at most the rank of the counts
Promises  with exact moments and one pure group per cause, D and W exactly
Differs   a rare word's point is mostly noise, and the most extreme points are rare words: `CENTRES` · K weighted
          k-means centres stand for the items, and centres that hold almost no counts are left out

Symbols   paper   here          shape      meaning
          —       points        (M, K−1)   x_i √|values|: B_ij = ρ_i ρ_j (1 + Σ_s sign_s points_is points_js)
          —       corners       (K, K−1)   the points of the pure items
          —       memberships   (M, K)     P(cause | item): points = memberships · corners
          D       dictionary    (M, K)     P(item | cause) = ρ_i memberships_ik / weights_k; columns sum to one
          W       mixing        (K, K)     P(cause of row, cause of column)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.mixture.spa import successive_projection
from latentfit.core.simplex import simplex_least_squares
from latentfit.core.spectral import ScaledSVD

CENTRES = 8
"""Centres per cause: enough to have one near every corner, few enough that each averages its items' noise away."""
LEFT_OUT = 0.02
"""Share of all counts whose centres, the lightest, cannot be corners."""


@dataclass(frozen=True)
class Vertices:
    """Corners, and what they make of the items of one side."""

    corners: Floats  # (K, K−1)
    memberships: Floats  # (M, K)
    dictionary: Floats  # (M, K)
    weights: Floats  # (K,)


@dataclass(frozen=True)
class PairModel:
    """B = left · mixing · rightᵀ (1); columns of `left` and `right` and all of `mixing` sum to one."""

    left: Floats  # (M, K)
    right: Floats  # (M', K); the same object in the symmetric case
    mixing: Floats  # (K, K)

    @property
    def symmetric(self) -> bool:
        return self.left is self.right


def pair_model(decomposed: ScaledSVD) -> PairModel:
    """D and W of a centred decomposition with K − 1 vectors."""
    rows, columns = decomposed.embedding()
    root = np.sqrt(np.abs(decomposed.values))
    left = find_vertices(rows * root, decomposed.row_marginal)
    if decomposed.symmetric:
        signs = np.sign(decomposed.values)
        mixing = np.outer(left.weights, left.weights) * (1 + (left.corners * signs) @ left.corners.T)
        mixing = (mixing + mixing.T) / 2
        return PairModel(left.dictionary, left.dictionary, _distribution(mixing))
    right = find_vertices(columns * root, decomposed.column_marginal)
    mixing = np.outer(left.weights, right.weights) * (1 + left.corners @ right.corners.T)
    return PairModel(left.dictionary, right.dictionary, _distribution(mixing))


def find_vertices(points: Floats, mass: Floats) -> Vertices:
    """Corners of points (M, K − 1) with masses (M,), and every item's memberships."""
    n_causes = points.shape[1] + 1
    if n_causes == 1:
        ones = np.ones((len(mass), 1))
        return Vertices(np.empty((1, 0)), ones, (mass / mass.sum())[:, None], np.ones(1))
    centres = weighted_centres(points, mass, CENTRES * n_causes)
    lifted = np.column_stack([np.ones(len(centres)), centres])
    chosen = successive_projection(lifted.T, n_causes)
    if len(chosen) < n_causes:  # fewer distinct centres than causes: the farthest items fill the places
        lifted_items = np.column_stack([np.ones(len(points)), points])
        corners = points[successive_projection(lifted_items.T, n_causes)]
        corners = np.vstack([corners, np.repeat(points[:1], n_causes - len(corners), axis=0)])
    else:
        corners = centres[chosen]
    return memberships_at(points, mass, corners)


def memberships_at(points: Floats, mass: Floats, corners: Floats) -> Vertices:
    """What given corners make of the items: the nearest point of their simplex."""
    gram, product = corners @ corners.T, points @ corners.T
    shares = simplex_least_squares(gram, product)
    joint = shares * mass[:, None]
    weights = joint.sum(axis=0) / joint.sum()
    dictionary = joint / np.where(weights > 0, joint.sum(axis=0), 1.0)
    dictionary[:, weights == 0] = (mass / mass.sum())[:, None]
    return Vertices(corners, shares, dictionary, weights)


def weighted_centres(points: Floats, mass: Floats, number: int) -> Floats:
    """Centres of weighted k-means that together hold all but the lightest `LEFT_OUT` of the mass."""
    from sklearn.cluster import KMeans  # scikit-learn takes its time to import

    used = np.flatnonzero(mass > 0)
    order = used[np.lexsort((*np.round(points[used], 9).T, -mass[used]))]  # by content, not by place
    number = min(number, len(np.unique(np.round(points[order], 9), axis=0)))
    found = KMeans(number, n_init=1, max_iter=50, random_state=0).fit(points[order], sample_weight=mass[order])
    held = np.bincount(found.labels_, weights=mass[order], minlength=number)
    heaviest = np.argsort(-held, kind="stable")
    kept = heaviest[: int(np.searchsorted(np.cumsum(held[heaviest]), (1 - LEFT_OUT) * held.sum())) + 1]
    return np.asarray(found.cluster_centers_[np.sort(kept)], np.float64)


def _distribution(mixing: Floats) -> Floats:
    """Nonnegative, sums to one: noise may put a rare pair of causes below zero."""
    cut = np.maximum(mixing, 0.0)
    return np.asarray(cut / cut.sum())
