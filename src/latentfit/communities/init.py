"""Initial blocks of a graph: the spectrum of its Bethe Hessian, and k-means on spectral embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from latentfit.core.kernels import Floats
from latentfit.core.spectral import DENSE_BELOW, leading_eigenpairs, scaled_svd, start_vector

# -----------------------------------------------------------------------------
# The Bethe Hessian of a graph: how many blocks it shows, and vectors that tell them apart.
#
# Paper     Saade, Krzakala & Zdeborová 2014, "Spectral clustering of graphs with the Bethe Hessian"; the link to the
#           regularised scaled matrix is that of Dall'Amico, Couillet & Tremblay 2021. Huang et al. 2018 see block
#           models as B = D W Dᵀ with even marginals (Section 1, "Community Detection"; Section 5.1 for the threshold)
# Needs     a sparse graph whose loops are long; degrees may be uneven
# Promises  down to the Kesten–Stigum threshold one eigenvalue below zero per block (for blocks of like nodes), and
#           eigenvectors correlated with the blocks
# Differs   r² is the leading eigenvalue of the non-backtracking matrix itself, not its estimate Σd²/Σd − 1. Eigenvalues
#           below zero are counted on Λ^{-½} S Λ^{-½}, H = Λ − r S (without weights (D + (r² − 1)I)^{-½} A (D + …)^{-½},
#           the matrix of `scaled_svd` with another regulariser): by Sylvester's law of inertia H(r) has as many below
#           zero as this matrix has above 1/r, and H(−r) as many as it has below −1/r; its spectrum converges faster
#
# Symbols   paper   here        shape    meaning
#           A, D    matrix, degrees      adjacency, diagonal of degrees
#           r²      radius²              leading eigenvalue of the non-backtracking matrix, times the mean of w²
#           H(r)    hessian     (n, n)   δ_ij (1 + Σ_k w_ik²/(r² − w_ik²)) − r w_ij/(r² − w_ij²); without weights
#                                        ((r² − 1) I − r A + D)/(r² − 1)
#           —       signals     (k,)     r · eigenvalues of the scaled matrix: beyond 1 a block, below −1 unlike nodes
#           ζ       strengths   (k,)     eigenvalues of the non-backtracking matrix that the signals stand for


@dataclass(frozen=True)
class SpectrumSettings:
    """Tuned constants of the spectrum of the Bethe Hessian and of k-means."""

    passes: int = 200  # steps of the power method at most; the leading eigenvalue stands apart, a few dozen are enough
    steady: float = 1e-8  # relative change of the eigenvalue at which the power method stops
    # Fraction of r up to which a weight is taken as it is: an edge beyond r would be a block of its own.
    heaviest: float = 0.8
    # Relative size of what an eigenvector leaves over: an eigenvalue apart from the others is then right to its
    # square, and those of chance come out a little too small, never too large.
    eigenvalue_tol: float = 5e-3
    # A signal of unlike nodes must be this far below −1: on small sparse graphs chance brings it to −1.02.
    unlike: float = 0.05
    # A signal must exceed 1 by the smaller of CHANCE / r² and n^(−2/3): chance did so in 2 of 1,080 graphs without
    # blocks (100 to 10,000 nodes, mean degrees 1.5 to 20, even and power-law).
    noise_margin: float = 0.03
    centre_nodes: int = 20_000  # nodes that centres are made from, at most: the ones with most edges, which know most
    draws: int = 8  # draws of first centres; the one with the smallest squares is kept
    lloyd_iterations: int = 60  # rounds of Lloyd's k-means at most; it stops where the squares stand
    embedding_tol: float = 1e-4  # relative accuracy of the vectors: far below the noise of a sparse graph


SPECTRUM = SpectrumSettings()


LEAST_RADIUS = 1.0
"""A graph without two loops in one piece has no branching: r is set to 1, and nothing is informative."""


@dataclass(frozen=True)
class Signals:
    """The largest signals by magnitude, largest first."""

    radius: float
    values: Floats  # (k,) r · eigenvalue of the scaled matrix
    margin: float  # by which a signal must exceed 1

    @property
    def informative(self) -> Floats:
        """Those that no graph without blocks shows; the first is the graph's density, no division."""
        return self.values[(self.values > 1 + self.margin) | (self.values < -1 - SPECTRUM.unlike)]

    @property
    def strengths(self) -> Floats:
        """Eigenvalues ζ of the non-backtracking matrix behind informative signals: v = (ζ/r + r/ζ)/2."""
        size = np.abs(self.informative)
        return np.asarray(self.radius * (size + np.sqrt(np.maximum(size**2 - 1, 0.0))))


def branching(matrix: sp.csr_array) -> float:
    """Leading eigenvalue of the non-backtracking matrix of the links, by powers of its form [[A, −I], [D − I, 0]]."""
    links = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    degrees = np.diff(matrix.indptr).astype(np.float64)
    here, back, value = np.sqrt(degrees), np.sqrt(degrees), 0.0
    for _ in range(SPECTRUM.passes):
        here, back = links @ here - back, (degrees - 1) * here
        size = float(np.abs(here).max())
        if not size > 0:
            return LEAST_RADIUS
        here, back = here / size, back / size
        if abs(size - value) <= SPECTRUM.steady * size:
            break
        value = size
    return max(size, LEAST_RADIUS)


def signals(matrix: sp.csr_array, number: int) -> Signals:
    """The `number` strongest signals of a graph (symmetric, no diagonal, weights of mean 1)."""
    squared = _squared_radius(matrix)
    radius, n = float(np.sqrt(squared)), matrix.shape[0]
    diagonal, off = _parts(matrix, radius)
    root = 1 / np.sqrt(diagonal)
    values = off.data * np.repeat(root, np.diff(matrix.indptr)) * root[matrix.indices]
    scaled = sp.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)
    if n < DENSE_BELOW or number >= n - 1:
        eigenvalues = np.linalg.eigvalsh(scaled.toarray())
    else:
        eigenvalues = eigsh(
            scaled, k=number, which="LM", return_eigenvectors=False, v0=start_vector(n), tol=SPECTRUM.eigenvalue_tol
        )
    eigenvalues = eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")][:number]
    margin = min(SPECTRUM.noise_margin / squared, max(int((np.diff(matrix.indptr) > 0).sum()), 1) ** (-2 / 3))
    return Signals(radius, np.asarray(eigenvalues * radius, np.float64), margin)


def hessian(matrix: sp.csr_array, radius: float) -> sp.csr_array:
    """H(r), for unweighted graphs (r² − 1) I − r A + D divided by r² − 1; a negative r for unlike nodes."""
    diagonal, off = _parts(matrix, abs(radius))
    return sp.csr_array(sp.diags_array(diagonal) - radius * off)


def hessian_vectors(matrix: sp.csr_array, number: int) -> Floats:
    """Eigenvectors (n, number) of H(r) with the smallest eigenvalues."""
    H = hessian(matrix, float(np.sqrt(_squared_radius(matrix))))
    return np.asarray(leading_eigenpairs(H, number, which="SA", tol=1e-3)[1])


def _squared_radius(matrix: sp.csr_array) -> float:
    """r²: what chance makes of the spectrum, branching times the mean square of a weight."""
    return max(branching(matrix) * float((matrix.data**2).mean()), LEAST_RADIUS + 1e-9)


def _parts(matrix: sp.csr_array, radius: float) -> tuple[Floats, sp.csr_array]:
    """Diagonal 1 + Σ_k w_ik² / (r² − w_ik²), and w_ij / (r² − w_ij²); weights near r count as `SPECTRUM.heaviest` r."""
    weights = np.minimum(matrix.data, SPECTRUM.heaviest * radius)
    denominator = radius**2 - weights**2
    sums = np.concatenate([[0.0], np.cumsum(weights**2 / denominator)])
    diagonal = 1 + sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]]
    return diagonal, sp.csr_array((weights / denominator, matrix.indices, matrix.indptr), matrix.shape)


# -----------------------------------------------------------------------------
# First blocks of a graph: k-means on spectral embeddings, rows brought to length one.
#
# Paper     Huang et al. 2018, Phase I on even marginals (Section 1: "the well characterized problem in the community
#           detection literature can be viewed as a simple and special case"), as one regularised scaled decomposition;
#           Qin & Rohe 2013 for rows of length one under uneven degrees
# Needs     blocks above the detection threshold; K − 1 informative vectors
# Promises  with degrees of order one a labelling correlated with the blocks (the initialisation of belief propagation)
# Differs   a length says how much a node knows, not which block it is in: rows of length one keep degrees out of the
#           blocks; the plain rows are one more initialisation, since belief propagation makes use of any
#
# Symbols   paper   here     shape     meaning
#           Δ̂       points   (n, k)    leading vectors of the scaled matrix, or of the Bethe Hessian
#           —       labels   (n,)      blocks, numbered as found

Codes = NDArray[np.int64]


def spectral_labels(
    matrix: sp.csr_array, n_blocks: int, number: int, rng: np.random.Generator
) -> Iterator[tuple[str, Codes]]:
    """At least one and about `number` named labellings (n,) of a graph, the usually better ones first."""
    degrees = np.asarray(matrix.sum(axis=1), np.float64).reshape(-1)
    decomposed = scaled_svd(
        matrix, min(n_blocks - 1, matrix.shape[0] - 1), symmetric=True, centred=True, tol=SPECTRUM.embedding_tol
    )
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


def k_means(points: Floats, mass: Floats, number: int, rng: np.random.Generator, draws: int = SPECTRUM.draws) -> Codes:
    """Labels (n,) of Lloyd's k-means from k-means++ centres, the best of several draws.

    Centres are made from the `SPECTRUM.centre_nodes` nodes with the largest mass; every node then joins the nearest.
    """
    chosen = np.argsort(-mass, kind="stable")[: SPECTRUM.centre_nodes]
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
    for _ in range(SPECTRUM.lloyd_iterations):
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
