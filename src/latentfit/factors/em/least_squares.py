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

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import EMResult, Step
from latentfit.core.kernels import Floats
from latentfit.core.tensor.whitened import row_blocks
from latentfit.engine.passes import RowPasses, over
from latentfit.factors.em.states import bits, codes_of, pair_totals, rows_at_once, states
from latentfit.factors.em.steps import PSEUDO_ROWS, SwitchParams, SwitchPlace, SwitchSums, refine_switches

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


# -----------------------------------------------------------------------------
# A baseline among the switches, and the convention that goes with it.
#
# When one switch is always on, or a combination of switches always sums to one, a switch h and its opposite 1 − h
# explain
# the rows alike: x = … + w h = … + w·1 − w(1 − h). Contrary to the paper's remark on condition (I), no data can tell.
# The convention: the baseline is a switch of its own, and every other switch is on in at most half of the rows.

GAP = 0.02
"""Share of the constant 1 that switches may leave unexplained and still hold a baseline: noise blurs P(h)."""
COST = 1e-3
"""Nats per row that a baseline as a switch of its own may cost: more, and it was no baseline."""
WHOLE = 0.2
"""Coefficients of a baseline are whole numbers, up to this."""
HALF = 0.5 + 1e-9
"""Half of the rows, and what the last bits of a machine's exp may add to it."""


def baseline(params: SwitchParams) -> NDArray[np.int64] | None:
    """Whole numbers u (d,) with uᵀh = 1 in (almost) all rows, or None."""
    C = pair_totals(np.exp(params.log_prior), params.d)
    p = np.diag(C)
    u = np.linalg.lstsq(C, p, rcond=1e-9)[0]  # the constant's projection on the switches
    if 1 - float(p @ u) > GAP:
        return None
    whole = np.round(u)
    if np.abs(u - whole).max() > WHOLE or not np.isin(np.abs(whole), (0, 1)).all() or not whole.any():
        return None
    return whole.astype(np.int64)


def conventional(params: SwitchParams, n: int) -> SwitchParams | None:
    """The same model with its baseline as a switch that is always on and the others on in at most half of the rows.

    None when there is no baseline, or nothing to change.
    """
    u = baseline(params)
    if u is None:
        return None
    d, P = params.d, np.exp(params.log_prior)
    on = np.diag(pair_totals(P, d))
    involved = np.flatnonzero(u)
    at = int(involved[np.argmax(on[involved])])  # the one that the baseline takes the place of
    W = params.W - np.outer(u * u[at], params.W[at])
    W[at] = u[at] * params.W[at]
    turned = (on > HALF) & (np.arange(d) != at)
    if len(involved) == 1 and not turned.any():
        return None
    W[at] += W[turned].sum(axis=0)
    W[turned] *= -1
    h = bits(np.arange(2**d, dtype=np.int64), d) if d > 16 else states(d)
    new = (h > 0) ^ turned
    new[:, at] = True
    share = np.bincount(codes_of(new), P, minlength=2**d) + PSEUDO_ROWS / (n * 2**d)
    return replace(params, W=W, log_prior=np.log(share / share.sum()), centres=None)


def settle_baseline(
    X: Floats | RowPasses,
    refined: EMResult[SwitchParams, SwitchSums],
    *,
    max_iter: int,
    tol: float,
    noise: float | None = None,
    callback: Callable[[Step], None] | None = None,
    resume_from: SwitchPlace | None = None,
    keep: Callable[[SwitchPlace], None] | None = None,
) -> tuple[EMResult[SwitchParams, SwitchSums], str | None]:
    """The fit by the convention, climbed on from there, and a note; the fit as it is when there is no baseline.

    The path is that of the second climb, since the convention is another point; `n_iter` counts the passes of both,
    `max_iter` at the most.
    """
    turned = conventional(refined.params, over(X).n_rows)
    if turned is None:
        return refined, None
    left = max(max_iter - refined.n_iter, 0)
    again = refine_switches(
        X, turned, noise=noise, max_iter=left, tol=tol, callback=callback, resume_from=resume_from, keep=keep
    )  # fmt: skip
    if again.objective < refined.objective - COST * over(X).n_rows:
        return refined, None
    note = "one switch is always on (the baseline); the others are on in at most half of the rows"
    return replace(again, n_iter=refined.n_iter + again.n_iter), note
