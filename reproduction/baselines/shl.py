"""SHL: matrix factorisation with binary components, the rival of the switches paper's Figures 2 and 5.

Paper     Slawski, Hein & Lutsik 2013, "Matrix factorization with binary components", their search for vertices of the
          cube near a subspace, without the constraint that weights sum to one (the switches paper's model has none)
Needs     n × m rows of rank d; noise that leaves the columns of H nearly binary
Promises  H and W exactly without noise (Theorem 2 there); nothing with noise
Differs   the d rows that fix the candidates are the best conditioned of a random 10 d (plain random ones are often
          nearly singular: at σ = .4 the error was twenty times as large). Candidates are scored on 10,000 rows at
          most; the factors of a run come from all rows, and so does the residual ‖X − H W‖ by which the best of 50
          runs is kept, as in the switches paper.

Symbols   here   shape    meaning
          U      (n, d)   left singular vectors of X: every column of H lies in their span, were there no noise
          R      (d,)     rows that fix a vector of the span: H[R, k] is one of 2^d patterns b, and H[:, k] = U U_R⁻¹ b
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from latentfit.core.kernels import Floats
from latentfit.core.tensor.whitened import row_blocks, spectrum
from latentfit.factors.em.least_squares import oracle
from latentfit.factors.em.states import states

RUNS = 50
ROWS_PER_UNIT = 10
"""Random rows per unit, of which d are taken."""
SCORE_ROWS = 10_000
"""Rows that tell how far from binary a candidate is; there are 63 of them, and few rows tell."""


@dataclass(frozen=True)
class BinaryFactorisation:
    """X ≈ h W, and the squares that are left."""

    W: Floats  # (d, m)
    h: Floats  # (n, d)
    residual: float


def factor_shl(X: Floats, d: int, rng: np.random.Generator, runs: int = RUNS) -> BinaryFactorisation:
    """The best of several runs; weights W (d, m) and switches h (n, d)."""
    span = spectrum(X)
    U = X @ (span.vectors[:, :d] / np.sqrt(np.maximum(span.n * span.values[:d], 1e-300)))
    squares = float(np.vdot(X, X))
    best: BinaryFactorisation | None = None
    for _ in range(runs):
        h = nearest_binary(U, choose_rows(U, rng))
        W = oracle(X, h)
        residual = squares - float(np.vdot(W, h.T @ X))  # least squares leaves ‖X‖² − ⟨W, hᵀX⟩
        if best is None or residual < best.residual:
            best = BinaryFactorisation(W, h, residual)
    assert best is not None
    return best


def choose_rows(U: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    """d rows of U that are far from dependent: pivoting among a random sample."""
    n, d = U.shape
    some = rng.choice(n, size=min(n, ROWS_PER_UNIT * d), replace=False)
    return np.asarray(some[qr(U[some].T, mode="r", pivoting=True)[1][:d]])


def nearest_binary(U: Floats, rows: NDArray[np.intp]) -> Floats:
    """The d independent vectors of the span nearest to binary ones, among the 2^d − 1 that are binary in `rows`."""
    d = U.shape[1]
    patterns = states(d)[1:]  # the empty pattern is the zero vector
    unmix = np.linalg.pinv(U[rows]) @ patterns.T  # (d, 2^d − 1): coordinates of the candidates in the span
    off = np.zeros(len(patterns))
    some = U[:: -(-len(U) // SCORE_ROWS)]
    for block in row_blocks(len(some)):
        t = some[block] @ unmix
        off += ((t - (t > 0.5)) ** 2).sum(axis=0)
    chosen: list[int] = []
    for at in np.argsort(off, kind="stable").tolist():
        if np.linalg.matrix_rank(patterns[[*chosen, at]]) > len(chosen):
            chosen.append(at)
            if len(chosen) == d:
                break
    return np.asarray(U @ unmix[:, chosen] > 0.5, np.float64)
