"""The Bethe Hessian of a graph: how many blocks it shows, and vectors that tell them apart.

Paper     Saade, Krzakala & Zdeborová 2014, "Spectral clustering of graphs with the Bethe Hessian"; the link to the
          regularised scaled matrix is that of Dall'Amico, Couillet & Tremblay 2021. Huang et al. 2018 see block models
          as B = D W Dᵀ with even marginals (Section 1, "Community Detection"; Section 5.1 for the threshold)
Needs     a sparse graph whose loops are long; degrees may be uneven
Promises  down to the Kesten–Stigum threshold one eigenvalue below zero per block (for blocks of like nodes), and
          eigenvectors correlated with the blocks
Differs   r² is the leading eigenvalue of the non-backtracking matrix itself, not its estimate Σd²/Σd − 1. Eigenvalues
          below zero are counted on (D + (r² − 1)I)^{-½} A (D + (r² − 1)I)^{-½}: by Sylvester's law of inertia H(r) has
          as many below zero as this matrix has above 1/r, and H(−r) as many as it has below −1/r; its spectrum
          converges faster, and it is the matrix of `scaled_svd` with another regulariser

Symbols   paper   here        shape    meaning
          A, D    matrix, degrees      adjacency, diagonal of degrees
          r       radius               √ of the leading eigenvalue of the non-backtracking matrix
          H(r)    hessian     (n, n)   (r² − 1) I − r A + D
          —       signals     (k,)     r · eigenvalues of the scaled matrix: beyond 1 a block, below −1 unlike nodes
          ζ       strengths   (k,)     eigenvalues of the non-backtracking matrix that the signals stand for
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from tacit.factor.scaled_svd import DENSE_BELOW, start_vector

Floats = NDArray[np.float64]

PASSES = 200
"""Steps of the power method at most; the leading eigenvalue stands apart, a few dozen are enough."""
STEADY = 1e-8
LEAST_RADIUS = 1.0
"""A graph without two loops in one piece has no branching: r is set to 1, and nothing is informative."""
LOOSE = 1e-4
"""Relative accuracy of eigenvalues: enough to count and to start from."""
BEYOND_UNLIKE = 1.05
"""A signal of unlike nodes must be this far below −1: on sparse graphs chance brings it to −1.02."""


@dataclass(frozen=True)
class Signals:
    """The largest signals by magnitude, largest first."""

    radius: float
    values: Floats  # (k,) r · eigenvalue of the scaled matrix

    @property
    def informative(self) -> Floats:
        """Those that no graph without blocks shows; the first is the graph's density, no division."""
        return self.values[(self.values > 1) | (self.values < -BEYOND_UNLIKE)]

    @property
    def strengths(self) -> Floats:
        """Eigenvalues ζ of the non-backtracking matrix behind informative signals: v = (ζ/r + r/ζ)/2."""
        size = np.abs(self.informative)
        return np.asarray(self.radius * (size + np.sqrt(np.maximum(size**2 - 1, 0.0))))


def branching(matrix: sp.csr_array) -> float:
    """r²: leading eigenvalue of the non-backtracking matrix, by powers of its (2n, 2n) form [[A, −I], [D − I, 0]]."""
    degrees = np.asarray(matrix.sum(axis=1)).reshape(-1)
    here, back, value = np.sqrt(degrees), np.sqrt(degrees), 0.0
    for _ in range(PASSES):
        here, back = matrix @ here - back, (degrees - 1) * here
        size = float(np.abs(here).max())
        if not size > 0:
            return LEAST_RADIUS
        here, back = here / size, back / size
        if abs(size - value) <= STEADY * size:
            break
        value = size
    return max(size, LEAST_RADIUS)


def signals(matrix: sp.csr_array, number: int) -> Signals:
    """The `number` strongest signals of a graph (symmetric, no diagonal)."""
    squared = branching(matrix)
    degrees = np.asarray(matrix.sum(axis=1)).reshape(-1)
    root = 1 / np.sqrt(np.maximum(degrees + squared - 1, 1e-300))
    scaled = sp.csr_array((matrix.data * np.repeat(root, np.diff(matrix.indptr)) * root[matrix.indices],
                           matrix.indices, matrix.indptr), matrix.shape)  # fmt: skip
    n = len(degrees)
    if n < DENSE_BELOW or number >= n - 1:
        values = np.linalg.eigvalsh(scaled.toarray())
    else:
        values = eigsh(scaled, k=number, which="LM", return_eigenvectors=False, v0=start_vector(n), tol=LOOSE)
    values = values[np.argsort(-np.abs(values), kind="stable")][:number]
    return Signals(float(np.sqrt(squared)), values * np.sqrt(squared))


def hessian(matrix: sp.csr_array, radius: float) -> sp.csr_array:
    """H(r) = (r² − 1) I − r A + D; a negative r for unlike nodes."""
    degrees = np.asarray(matrix.sum(axis=1)).reshape(-1)
    return sp.csr_array(sp.diags_array(degrees + radius**2 - 1) - radius * matrix)


def hessian_vectors(matrix: sp.csr_array, number: int) -> Floats:
    """Eigenvectors (n, number) of H(r) with the smallest eigenvalues."""
    H = hessian(matrix, float(np.sqrt(branching(matrix))))
    n = H.shape[0]
    if n < DENSE_BELOW or number >= n - 1:
        return np.asarray(np.linalg.eigh(H.toarray())[1][:, :number])
    values, vectors = eigsh(H, k=number, which="SA", v0=start_vector(n), tol=1e-3)
    return np.asarray(vectors[:, np.argsort(values, kind="stable")])
