"""Second and third moments over distinct features only, for noise whose variance is unknown and differs by feature.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler (ICML 2018), Appendix J, after Jain & Oh (2014): M's diagonal is treated
          as missing and completed to rank d; 𝓦 minimises ‖P_Ω(𝓦(K†, K†, K†)) − P_Ω(𝓜)‖² over entries i ≠ j ≠ k ≠ i
Needs     E[X | H] = WᵀH and noise independent between features
Promises  𝓦 within O(n^-1/2) of its population value, without assumptions on the noise
Differs   neither 𝓜 nor the system over its m³ entries is formed: both sides of the normal equations are sums over all
          triples less those with equal indices, which need projected rows alone; the completion turns one subspace from
          step to step instead of decomposing R anew

Symbols   paper   here    shape      meaning
          x               (n, m)     rows; here a row is a SNP, a feature a person
          R, M    M       (m, m)
          K       K       (m, d)     whitening of the completed M
          K†      A.T     (d, m)     its pseudo-inverse
          𝓦       W       (d, d, d)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.tensor.whitened import symmetrised

Blocks = Callable[[], Iterator[Floats]]
"""The rows, block by block, as often as needed."""

COMPLETION_STEPS, COMPLETED = 500, 1e-10
"""Steps of the completion, and the change of the diagonal (relative) at which it has converged."""


class DistinctMoments(NamedTuple):
    """Whitening (m, d), whitened mean (d,) and tensor (d, d, d), from entries with distinct indices."""

    K: Floats
    mean: Floats
    W: Floats
    steps: int


def distinct_moments(blocks: Blocks, d: int) -> DistinctMoments:
    """K, Kᵀμ and 𝓦 of rows with unequal noise."""
    n, total, M = 0, np.zeros(1), np.zeros((1, 1))
    for x in blocks():
        n += len(x)
        total, M = total + x.sum(axis=0), M + x.T @ x
    values, vectors, steps = complete_diagonal(M / n, d)
    K, A = vectors / np.sqrt(values), vectors * np.sqrt(values)
    return DistinctMoments(K, (total / n) @ K, masked_tensor(blocks, A, n), steps)


def complete_diagonal(M: Floats, d: int) -> tuple[Floats, Floats, int]:
    """The d largest eigenpairs of M once its diagonal fits rank d, and the steps it took (Appendix J, (i) and (ii))."""
    R = M.copy()
    V = np.linalg.eigh(R)[1][:, ::-1][:, :d]
    values = np.ones(d)
    size = float(np.abs(np.diag(M)).max())
    steps = 0
    moved = np.inf
    while moved >= COMPLETED * size and steps < COMPLETION_STEPS:
        steps += 1
        for _ in range(3):  # R moved little: three turns of the subspace find its d eigenvectors again
            V = np.linalg.qr(R @ V)[0]
        values, turn = np.linalg.eigh(V.T @ R @ V)
        values, V = values[::-1], V @ turn[:, ::-1]
        diagonal = np.einsum("ik,k,ik->i", V, values, V)
        moved = float(np.abs(diagonal - np.diag(R)).max())
        np.fill_diagonal(R, diagonal)
    sign = np.where(V.sum(axis=0) < 0, -1.0, 1.0)
    return np.maximum(values, 1e-9 * values[0]), V * sign, steps


def masked_tensor(blocks: Blocks, A: Floats, n: int) -> Floats:
    """𝓦 (d, d, d): the masked least squares of Appendix J by its normal equations."""
    m, d = A.shape
    pair = (A[:, :, None] * A[:, None, :]).reshape(m, d * d)
    all_, equal, cubes = np.zeros((d, d, d)), np.zeros((d * d, d)), np.zeros(m)
    for x in blocks():
        z, square = x @ A, x * x
        all_ += np.einsum("ra,rb,rc->abc", z, z, z, optimize=True)
        equal += (square @ pair).T @ z
        cubes += (square * x).sum(axis=0)
    one = equal.reshape(d, d, d)  # i = j, k free; the other two are its turns
    right = all_ - one - one.transpose(0, 2, 1) - one.transpose(2, 0, 1)
    right += 2 * np.einsum("i,ia,ib,ic->abc", cubes, A, A, A, optimize=True)
    G = A.T @ A
    P = np.einsum("ip,ia,iq,ib->pqab", A, A, A, A, optimize=True)
    left = np.einsum("pa,qb,rc->pqrabc", G, G, G, optimize=True)
    left -= np.einsum("pqab,rc->pqrabc", P, G, optimize=True)
    left -= np.einsum("prac,qb->pqrabc", P, G, optimize=True)
    left -= np.einsum("qrbc,pa->pqrabc", P, G, optimize=True)
    left += 2 * np.einsum("ip,ia,iq,ib,ir,ic->pqrabc", A, A, A, A, A, A, optimize=True)
    W = np.linalg.lstsq(left.reshape(d**3, d**3), (right / n).reshape(-1), rcond=1e-12)[0].reshape(d, d, d)
    return symmetrised(W)
