"""First blocks of a graph: k-means on spectral embeddings, rows brought to length one.

Paper     Huang et al. 2018, Phase I on even marginals (Section 1: "the well characterized problem in the community
          detection literature can be viewed as a simple and special case"), as one regularised scaled decomposition;
          Qin & Rohe 2013 for rows of length one under uneven degrees
Needs     blocks above the detection threshold; K − 1 informative vectors
Promises  with degrees of order one a labelling correlated with the blocks (the initialisation of belief propagation)
Differs   a length says how much a node knows, not which block it is in: rows of length one keep degrees out of the
          blocks; the plain rows are one more initialisation, since belief propagation makes use of any

Symbols   paper   here     shape     meaning
          Δ̂       points   (n, k)    leading vectors of the scaled matrix, or of the Bethe Hessian
          —       labels   (n,)      blocks, numbered as found
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.communities.init.bethe_hessian import hessian_vectors
from latentfit.core.kernels import Floats
from latentfit.core.spectral import scaled_svd

Codes = NDArray[np.int64]

CENTRE_NODES = 20_000
"""Nodes that centres are made from, at most: the ones with most edges, which know most."""
DRAWS = 8
"""Draws of first centres; the one with the smallest squares is kept."""
ROUNDS = 60
"""Rounds of Lloyd's k-means at most; it stops where the squares stand."""
LOOSE = 1e-4
"""Relative accuracy of the vectors: far below the noise of a sparse graph."""


def spectral_labels(
    matrix: sp.csr_array, n_blocks: int, number: int, rng: np.random.Generator
) -> Iterator[tuple[str, Codes]]:
    """At least one and about `number` named labellings (n,) of a graph, the usually better ones first."""
    degrees = np.asarray(matrix.sum(axis=1), np.float64).reshape(-1)
    decomposed = scaled_svd(matrix, min(n_blocks - 1, matrix.shape[0] - 1), symmetric=True, centred=True, tol=LOOSE)
    scaled = decomposed.left * np.abs(decomposed.values)
    yield "scaled SVD", k_means(unit_rows(scaled), degrees, n_blocks, rng)
    if number > 1:
        bethe = unit_rows(hessian_vectors(matrix, min(n_blocks, matrix.shape[0])))
        yield "Bethe Hessian", k_means(bethe, degrees, n_blocks, rng)
    if number > 2:
        yield "scaled SVD, plain rows", k_means(scaled, degrees, n_blocks, rng)
    for again in range(3, number):
        points = bethe if again % 2 else unit_rows(scaled)
        name = "Bethe Hessian" if again % 2 else "scaled SVD"
        yield f"{name}, draw {again}", k_means(points, degrees, n_blocks, rng, draws=1)


def unit_rows(points: Floats) -> Floats:
    """Rows of length one; a node that no vector sees stays at zero."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(lengths > 1e-12, lengths, 1.0))


def k_means(points: Floats, mass: Floats, number: int, rng: np.random.Generator, draws: int = DRAWS) -> Codes:
    """Labels (n,) of Lloyd's k-means from k-means++ centres, the best of several draws.

    Centres are made from the `CENTRE_NODES` nodes with the largest mass; every node then joins the nearest.
    """
    chosen = np.argsort(-mass, kind="stable")[:CENTRE_NODES]
    some = points[chosen]
    best: tuple[float, Floats] | None = None
    for _ in range(draws):
        centres, left = _lloyd(some, _first_centres(some, number, rng))
        if best is None or left < best[0]:
            best = left, centres
    assert best is not None
    return _nearest(points, best[1])[0]


def _first_centres(points: Floats, number: int, rng: np.random.Generator) -> Floats:
    """k-means++: a point far from every centre is likely to be the next."""
    centres = [points[rng.integers(len(points))]]
    apart = ((points - centres[0]) ** 2).sum(axis=1)
    for _ in range(1, number):
        reach = np.cumsum(apart)
        if not reach[-1] > 0:  # fewer different points than centres
            centres.append(points[rng.integers(len(points))])
            continue
        centres.append(points[min(int(np.searchsorted(reach, rng.random() * reach[-1])), len(points) - 1)])
        apart = np.minimum(apart, ((points - centres[-1]) ** 2).sum(axis=1))
    return np.array(centres)


def _lloyd(points: Floats, centres: Floats) -> tuple[Floats, float]:
    labels, left = _nearest(points, centres)
    for _ in range(ROUNDS):
        counts = np.bincount(labels, minlength=len(centres)).astype(np.float64)
        sums = np.stack([np.bincount(labels, column, len(centres)) for column in points.T], axis=1)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1.0)[:, None], centres)
        before = left
        labels, left = _nearest(points, centres)
        if before - left <= 1e-6 * before:
            break
    return centres, left


def _nearest(points: Floats, centres: Floats) -> tuple[Codes, float]:
    apart = (centres**2).sum(axis=1) - 2 * (points @ centres.T)
    labels = apart.argmin(axis=1)
    left = float(np.take_along_axis(apart, labels[:, None], axis=1).sum() + (points**2).sum())
    return labels, left
