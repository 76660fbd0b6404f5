"""Other refinements of initial weights of binary latent factors: the paper's two, and the oracle of its experiments.

Paper     "Learning Binary Latent Variable Models: A Tensor Eigenpair Approach", Appendix K (one weighted least-squares
          step), Appendix L (alternating least squares), Section 5.1 (the oracle)
Needs     initial weights (K) or switches (L); noise known (K)
Promises  nothing: rounding may raise the squares; L ends when its switches stop changing or after `max_iter` iterations
Differs   nothing; `latentfit.factors.em.steps` (EM for the exact model) is better than either: Appendix K leaves P(h)
          out, which hurts in strong noise

Symbols   paper   here    shape        meaning
          X, W    X, W    (n, m), (d, m)
          H       h       (n, d)       switches of the rows
          Π       weight  (rows, K)    likelihoods of the K best states of a row, scaled to sum one
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from latentfit.core.kernels import Floats
from latentfit.core.tensor.whitened import row_blocks
from latentfit.engine.passes import RowPasses, over
from latentfit.factors.em.states import bits, codes_of, pair_moments, state_blocks, states
from latentfit.factors.em.steps import SETTINGS, SwitchFit, SwitchParams, refine_switches

LIKELIEST_STATES = 6
"""Appendix K's K: states summed per row."""


def weighted_least_squares(X: Floats, W: Floats, sigma: float) -> Floats:
    """Appendix K: weights (d, m) after one step from W; states weighted by their likelihood alone."""
    d = len(W)
    S = states(d)
    top = min(LIKELIEST_STATES, len(S))
    sigma2 = max(sigma**2, 1e-12 * float((X[: 10**4] ** 2).mean()))
    constant = ((S @ (W @ W.T)) * S).sum(axis=1) / 2
    both, cross = np.zeros((d, d)), np.zeros((d, X.shape[1]))
    for block in state_blocks(len(X), len(S)):
        rows = X[block]
        logs = (rows @ W.T @ S.T - constant) / sigma2
        best = np.argpartition(-logs, top - 1, axis=1)[:, :top]
        weight = softmax(np.take_along_axis(logs, best, axis=1), axis=1)  # Π
        h = S[best]  # (rows, K, d)
        both += np.einsum("rk,rki,rkj->ij", weight, h, h, optimize=True)
        cross += np.einsum("rk,rki->ri", weight, h, optimize=True).T @ rows
    return np.asarray(np.linalg.pinv(both, hermitian=True) @ cross)


def alternating_least_squares(
    X: Floats, h: Floats, *, max_iter: int = 200, stop: bool = True
) -> tuple[Floats, NDArray[np.float64], int, bool]:
    """Appendix L: weights (d, m), switches (n, d), the number of iterations, and whether they converged.

    It starts at switches h and stops when they no longer change; without `stop` it makes all iterations.
    """
    h = np.asarray(h, np.float64)
    W = oracle(X, h)
    for iteration in range(1, max_iter + 1):
        unmixed = X @ np.linalg.pinv(W)
        new = (unmixed > 0.5).astype(np.float64)
        if stop and np.array_equal(new, h):
            return W, h, iteration, True
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


# -----------------------------------------------------------------------------
# A baseline among the switches, and the convention that goes with it.
#
# When one switch is always on, or a combination of switches always sums to one, a switch h and its opposite 1 − h
# explain the rows alike: x = … + w h = … + w·1 − w(1 − h). Contrary to the paper's remark on condition
# (I), no data can distinguish them. The convention: the baseline is a switch of its own, and every other switch is on
# in at most half of the rows.

UNEXPLAINED = 0.02
"""Fraction of the constant 1 that switches may leave unexplained and still hold a baseline: noise blurs P(h)."""
COST = 1e-3
"""Nats per row that a baseline as a switch of its own may cost: more, and it was no baseline."""
INTEGER = 0.2
"""Coefficients of a baseline are integers, up to this."""
HALF = 0.5 + 1e-9
"""Half of the rows, and what the last bits of a machine's exp may add to it."""


def baseline(params: SwitchParams) -> NDArray[np.int64] | None:
    """Integers u (d,) with uᵀh = 1 in (almost) all rows, or None."""
    C = pair_moments(np.exp(params.log_prior), params.d)
    p = np.diag(C)
    u = np.linalg.lstsq(C, p, rcond=1e-9)[0]  # the constant's projection on the switches
    if 1 - float(p @ u) > UNEXPLAINED:
        return None
    rounded = np.round(u)
    if np.abs(u - rounded).max() > INTEGER or not np.isin(np.abs(rounded), (0, 1)).all() or not rounded.any():
        return None
    return rounded.astype(np.int64)


def conventional(params: SwitchParams, n: int) -> SwitchParams | None:
    """The same model with its baseline as a switch that is always on and the others on in at most half of the rows.

    None when there is no baseline, or nothing to change.
    """
    u = baseline(params)
    if u is None:
        return None
    d, P = params.d, np.exp(params.log_prior)
    on = np.diag(pair_moments(P, d))
    involved = np.flatnonzero(u)
    at = int(involved[np.argmax(on[involved])])  # the one that the baseline takes the place of
    W = params.W - np.outer(u * u[at], params.W[at])
    W[at] = u[at] * params.W[at]
    flipped = (on > HALF) & (np.arange(d) != at)
    if len(involved) == 1 and not flipped.any():
        return None
    W[at] += W[flipped].sum(axis=0)
    W[flipped] *= -1
    h = bits(np.arange(2**d, dtype=np.int64), d) if d > 16 else states(d)
    new = (h > 0) ^ flipped
    new[:, at] = True
    prior = np.bincount(codes_of(new), P, minlength=2**d) + SETTINGS.pseudo_rows / (n * 2**d)
    return replace(params, W=W, log_prior=np.log(prior / prior.sum()), centres=None)


def settle_baseline(
    X: Floats | RowPasses, refined: SwitchFit, *, max_iter: int, **options: Any
) -> tuple[SwitchFit, str | None]:
    """The fit under the convention, refined by EM from there, and a note; the given fit when there is no baseline.

    The path is that of the second EM run, since the convention is another point; `n_iter` counts both runs,
    at most `max_iter`. `options` are those of `refine_switches`.
    """
    n = over(X).n_rows
    flipped = conventional(refined.params, n)
    if flipped is None:
        return refined, None
    second_run = refine_switches(X, flipped, max_iter=max(max_iter - refined.n_iter, 0), **options)
    if second_run.objective < refined.objective - COST * n:
        return refined, None
    note = "one switch is always on (the baseline); the others are on in at most half of the rows"
    return replace(second_run, n_iter=refined.n_iter + second_run.n_iter), note
