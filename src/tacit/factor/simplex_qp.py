"""Small quadratic programs on the simplex, many at once: the exact step of proportions.

Needs     positive semidefinite matrices; a ridge of `RIDGE` times the mean diagonal stands in for lost rank
Promises  the minimum of ½ xᵀHx − cᵀx over {x ≥ 0, Σx = 1}, row by row, by the primal active-set method (Nocedal &
          Wright 2006, Algorithm 16.3); every row walks alone, so its bits do not depend on its company

Symbols   here     shape      meaning
          H        (n, K, K)  matrix of each row, or (K, K) for all
          c        (n, K)     linear part
          x        (n, K)     a point on the simplex
"""

from __future__ import annotations

import numpy as np

from tacit.engine.mixture import Floats

RIDGE = 1e-12
"""Added to every diagonal, relative to its mean: a matrix without full rank has one answer then, and no other moves."""
MULTIPLIER_SLACK = 1e-10
"""A bound is let go when its multiplier is below minus this share of the largest slope: less is rounding."""


def minimise_on_simplex(H: Floats, c: Floats, start: Floats) -> Floats:
    """The best point of every row, walked to from `start` (on the simplex)."""
    n, K = c.shape
    x = start.copy()
    if K == 1:
        return np.ones_like(x)
    full = np.broadcast_to(H, (n, K, K))
    mean = np.trace(full, axis1=1, axis2=2) / K
    full = full + (RIDGE * mean + np.finfo(float).tiny)[:, None, None] * np.eye(K)
    free = x > 0
    active = np.arange(n)
    for _ in range(20 * K):  # an active set is never visited twice; this bound has not been met
        if not len(active):
            break
        target, slope = _equality_step(full[active], c[active], free[active])
        here, open_ = x[active], free[active]
        move = np.where(open_, target - here, 0.0)
        falling = open_ & (target < 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(falling, here / -move, np.inf)
        length = np.minimum(room.min(axis=1), 1.0)
        blocked = length < 1
        x[active] = np.where(open_, np.maximum(here + length[:, None] * move, 0.0), 0.0)
        rows = active[blocked]  # meet a bound: hold it
        held = room[blocked].argmin(axis=1)
        free[rows, held] = False
        x[rows, held] = 0.0
        inside = active[~blocked]  # at the best of the face: let the worst bound go, or stop
        gain = np.where(free[inside], np.inf, slope[~blocked])
        worst = gain.argmin(axis=1)
        scale = np.abs(slope[~blocked]).max(axis=1) + np.abs(c[inside]).max(axis=1)
        leave = gain[np.arange(len(inside)), worst] < -MULTIPLIER_SLACK * scale
        free[inside[leave], worst[leave]] = True
        done = np.zeros(len(active), bool)
        done[np.flatnonzero(~blocked)[~leave]] = True
        active = active[~done]
    total = x[:, 0].copy()
    for k in range(1, K):  # summed one by one: a row's bits must not depend on how many rows there are
        total += x[:, k]
    return x / total[:, None]


def _equality_step(H: Floats, c: Floats, free: np.ndarray) -> tuple[Floats, Floats]:
    """The minimum of each row with held entries at zero and the sum at one, and every entry's slope along the simplex."""
    n, K = c.shape
    system, right = np.zeros((n, K + 1, K + 1)), np.zeros((n, K + 1))
    both = free[:, :, None] & free[:, None, :]
    scale = np.trace(H, axis1=1, axis2=2) / K
    system[:, :K, :K] = np.where(both, H / scale[:, None, None], np.eye(K))
    system[:, :K, K] = system[:, K, :K] = free
    right[:, :K] = np.where(free, c / scale[:, None], 0.0)
    right[:, K] = 1.0
    solved = np.linalg.solve(system, right[:, :, None])[:, :, 0]
    target = solved[:, :K]
    slope = -c / scale[:, None] + solved[:, K:]
    for k in range(K):
        slope = slope + H[:, :, k] / scale[:, None] * target[:, k : k + 1]
    return target, slope * scale[:, None]
