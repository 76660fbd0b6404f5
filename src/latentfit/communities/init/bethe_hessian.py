"""The Bethe Hessian of a graph: how many blocks it shows, and vectors that tell them apart.

Paper     Saade, Krzakala & Zdeborová 2014, "Spectral clustering of graphs with the Bethe Hessian"; the link to the
          regularised scaled matrix is that of Dall'Amico, Couillet & Tremblay 2021. Huang et al. 2018 see block models
          as B = D W Dᵀ with even marginals (Section 1, "Community Detection"; Section 5.1 for the threshold)
Needs     a sparse graph whose loops are long; degrees may be uneven
Promises  down to the Kesten–Stigum threshold one eigenvalue below zero per block (for blocks of like nodes), and
          eigenvectors correlated with the blocks
Differs   r² is the leading eigenvalue of the non-backtracking matrix itself, not its estimate Σd²/Σd − 1. Eigenvalues
          below zero are counted on Λ^{-½} S Λ^{-½}, H = Λ − r S (without weights (D + (r² − 1)I)^{-½} A (D + …)^{-½},
          the matrix of `scaled_svd` with another regulariser): by Sylvester's law of inertia H(r) has as many below
          zero as this matrix has above 1/r, and H(−r) as many as it has below −1/r; its spectrum converges faster

Symbols   paper   here        shape    meaning
          A, D    matrix, degrees      adjacency, diagonal of degrees
          r²      radius²              leading eigenvalue of the non-backtracking matrix, times the mean of w²
          H(r)    hessian     (n, n)   δ_ij (1 + Σ_k w_ik²/(r² − w_ik²)) − r w_ij/(r² − w_ij²); without weights
                                       ((r² − 1) I − r A + D)/(r² − 1)
          —       signals     (k,)     r · eigenvalues of the scaled matrix: beyond 1 a block, below −1 unlike nodes
          ζ       strengths   (k,)     eigenvalues of the non-backtracking matrix that the signals stand for
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from latentfit.core.kernels import Floats
from latentfit.core.spectral import DENSE_BELOW, start_vector

PASSES = 200
"""Steps of the power method at most; the leading eigenvalue stands apart, a few dozen are enough."""
STEADY = 1e-8
"""Relative change of the eigenvalue at which the power method stops."""
LEAST_RADIUS = 1.0
"""A graph without two loops in one piece has no branching: r is set to 1, and nothing is informative."""
HEAVIEST = 0.8
"""Fraction of r up to which a weight is taken as it is: an edge beyond r would be a block of its own."""
LOOSE = 5e-3
"""Relative size of what an eigenvector leaves over: an eigenvalue apart from the others is then right to its square,
and those of chance come out a little too small, never too large."""
UNLIKE = 0.05
"""A signal of unlike nodes must be this far below −1: on small sparse graphs chance brings it to −1.02."""
NOISE_MARGIN = 0.03
"""A signal must exceed 1 by the smaller of CHANCE / r² and n^(−2/3): chance did so in 2 of 1,080 graphs without blocks
(100 to 10,000 nodes, mean degrees 1.5 to 20, even and power-law)."""


@dataclass(frozen=True)
class Signals:
    """The largest signals by magnitude, largest first."""

    radius: float
    values: Floats  # (k,) r · eigenvalue of the scaled matrix
    margin: float  # by which a signal must exceed 1

    @property
    def informative(self) -> Floats:
        """Those that no graph without blocks shows; the first is the graph's density, no division."""
        return self.values[(self.values > 1 + self.margin) | (self.values < -1 - UNLIKE)]

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
    for _ in range(PASSES):
        here, back = links @ here - back, (degrees - 1) * here
        size = float(np.abs(here).max())
        if not size > 0:
            return LEAST_RADIUS
        here, back = here / size, back / size
        if abs(size - value) <= STEADY * size:
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
        eigenvalues = eigsh(scaled, k=number, which="LM", return_eigenvectors=False, v0=start_vector(n), tol=LOOSE)
    eigenvalues = eigenvalues[np.argsort(-np.abs(eigenvalues), kind="stable")][:number]
    margin = min(NOISE_MARGIN / squared, max(int((np.diff(matrix.indptr) > 0).sum()), 1) ** (-2 / 3))
    return Signals(radius, np.asarray(eigenvalues * radius, np.float64), margin)


def hessian(matrix: sp.csr_array, radius: float) -> sp.csr_array:
    """H(r), for unweighted graphs (r² − 1) I − r A + D divided by r² − 1; a negative r for unlike nodes."""
    diagonal, off = _parts(matrix, abs(radius))
    return sp.csr_array(sp.diags_array(diagonal) - radius * off)


def hessian_vectors(matrix: sp.csr_array, number: int) -> Floats:
    """Eigenvectors (n, number) of H(r) with the smallest eigenvalues."""
    H = hessian(matrix, float(np.sqrt(_squared_radius(matrix))))
    n = H.shape[0]
    if n < DENSE_BELOW or number >= n - 1:
        return np.asarray(np.linalg.eigh(H.toarray())[1][:, :number])
    values, vectors = eigsh(H, k=number, which="SA", v0=start_vector(n), tol=1e-3)
    return np.asarray(vectors[:, np.argsort(values, kind="stable")])


def _squared_radius(matrix: sp.csr_array) -> float:
    """r²: what chance makes of the spectrum, branching times the mean square of a weight."""
    return max(branching(matrix) * float((matrix.data**2).mean()), LEAST_RADIUS + 1e-9)


def _parts(matrix: sp.csr_array, radius: float) -> tuple[Floats, sp.csr_array]:
    """Diagonal 1 + Σ_k w_ik² / (r² − w_ik²), and w_ij / (r² − w_ij²); weights near r count as `HEAVIEST` r."""
    weights = np.minimum(matrix.data, HEAVIEST * radius)
    denominator = radius**2 - weights**2
    sums = np.concatenate([[0.0], np.cumsum(weights**2 / denominator)])
    diagonal = 1 + sums[matrix.indptr[1:]] - sums[matrix.indptr[:-1]]
    return diagonal, sp.csr_array((weights / denominator, matrix.indices, matrix.indptr), matrix.shape)
