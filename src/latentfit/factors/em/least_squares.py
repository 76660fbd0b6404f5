"""Other ways from a start to weights of hidden switches: the paper's two, and the oracle of its experiments.

Paper     "Learning Binary Latent Variable Models: A Tensor Eigenpair Approach", Appendix K (one weighted least-squares
          step), Appendix L (alternating least squares), Section 5.1 (the oracle)
Needs     a start of weights (K) or of switches (L); noise known (K)
Promises  nothing: rounding may raise the squares, and L ends where its switches stand still or after `max_iter` passes
Differs   nothing; `latentfit.factors.em.steps` (EM for the exact model) is better than either: Appendix K leaves P(h)
          out, which hurts in strong noise

Symbols   paper   here    shape        meaning
          X, W    X, W    (n, m), (d, m)
          H       h       (n, d)       switches of the rows
          Π       share   (rows, K)    likelihoods of the K best states of a row, scaled to sum one
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.tensor.whitened import row_blocks
from latentfit.factors.em.states import rows_at_once, states

KEPT_STATES = 6
"""Appendix K's K: states kept per row."""


def weighted_least_squares(X: Floats, W: Floats, sigma: float) -> Floats:
    """Appendix K: weights (d, m) after one step from W; states weighted by their likelihood alone."""
    d = len(W)
    S = states(d)
    top = min(KEPT_STATES, len(S))
    sigma2 = max(sigma**2, 1e-12 * float((X[: 10**4] ** 2).mean()))
    constant = ((S @ (W @ W.T)) * S).sum(axis=1) / 2
    both, cross = np.zeros((d, d)), np.zeros((d, X.shape[1]))
    step = rows_at_once(len(S))
    for begin in range(0, len(X), step):
        rows = X[begin : begin + step]
        logs = (rows @ W.T @ S.T - constant) / sigma2
        best = np.argpartition(-logs, top - 1, axis=1)[:, :top]
        found = np.take_along_axis(logs, best, axis=1)
        share = np.exp(found - found.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)  # Π
        h = S[best]  # (rows, K, d)
        both += np.einsum("rk,rki,rkj->ij", share, h, h, optimize=True)
        cross += np.einsum("rk,rki->ri", share, h, optimize=True).T @ rows
    return np.asarray(np.linalg.pinv(both, hermitian=True) @ cross)


def alternating_least_squares(
    X: Floats, h: Floats, *, max_iter: int = 200, stop: bool = True
) -> tuple[Floats, NDArray[np.float64], int, bool]:
    """Appendix L: weights (d, m), switches (n, d), passes, and whether the switches stood still in the last of them.

    It goes from first switches h until they do; without `stop` all passes are made.
    """
    h = np.asarray(h, np.float64)
    W = oracle(X, h)
    for passes in range(1, max_iter + 1):
        unmixed = X @ np.linalg.pinv(W)
        new = (unmixed > 0.5).astype(np.float64)
        if stop and np.array_equal(new, h):
            return W, h, passes, True
        h, W = new, oracle(X, new)
    return W, h, max_iter, False


def oracle(X: Floats, h: Floats) -> Floats:
    """Weights (d, m) when the switches (n, d) are known: least squares."""
    h = np.asarray(h, np.float64)
    both, cross = np.zeros((h.shape[1],) * 2), np.zeros((h.shape[1], X.shape[1]))
    for block in row_blocks(len(X)):
        both += h[block].T @ h[block]
        cross += h[block].T @ X[block]
    return np.asarray(np.linalg.pinv(both, hermitian=True) @ cross)
