"""How scattered are the rows of H: separability, and a sampled test of the sufficiently scattered condition.

Paper     Ibrahim & Fu 2022, Definition 1 (SSC) and Proposition 1; the row count is their remark after it
Needs     H ≥ 0
Promises  a *necessary* condition only: a direction of C outside cone(Hᵀ) disproves the SSC, finding none
          among the sampled ones does not prove it. With two classes C is the whole quadrant and the test is
          exact for part (i). Part (ii) is not tested.
Differs   the paper states the condition and has no test of it; directions are where C touches the facets of the
          orthant, and random ones on its boundary

Symbols   paper       here         shape    meaning
          H (or Z)    factor       (C, K)   stacked confusion matrices times D^½
          C           directions   (s, K)   {x : xᵀ1 ≥ √(K−1) ‖x‖}, here unit vectors on its boundary
          ε           epsilon      (K,)     distance of the nearest row, scaled to sum one, from axis k
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.kernels import Floats

DIRECTIONS = 64
"""Sampled directions of the boundary of C, beside the K points where it touches the orthant."""
INSIDE = 1e-8
"""Distance from the cone that rounding can cause."""
ROUNDS = 200
"""Most rows added while projecting on the cone: far more than any projection in few dimensions uses."""
SCATTER_WORK = 4_000_000
"""Rows · K² of an H whose scatter is tested: about half a second."""
KAPPA = 1.0
"""κ of the row count, a constant the paper leaves open; the count holds for κ > ε."""
MISSED = 0.05
"""μ: the count promises the SSC with probability 1 − μ."""


@dataclass(frozen=True)
class Scatter:
    """Outcome of the test: share of directions inside the cone, and the farthest one's distance (a sine)."""

    n_directions: int
    share_inside: float
    farthest: float
    exact: bool


def nearest_to_axes(factor: Floats) -> Floats:
    """ε (K,): how far the nearest row is from being about class k only; 0 for a class specialist.

    With all of them 0 the factor is separable (Definition 1 of Ibrahim & Fu 2021).
    """
    rows = factor[factor.sum(axis=1) > 0]
    rows = rows / rows.sum(axis=1, keepdims=True)
    squared = np.square(rows).sum(axis=1)[:, None] - 2 * rows + 1  # ‖row − e_k‖²
    return np.asarray(np.sqrt(np.maximum(squared.min(axis=0), 0.0)))


def boundary_directions(n_classes: int, rng: np.random.Generator) -> Floats:
    """Unit vectors on the boundary of C: where it touches the facets of the orthant, then random ones."""
    K = n_classes
    touching = np.asarray((1 - np.eye(K)) / np.sqrt(K - 1))
    if K == 2:
        return touching  # C is the quadrant: its two edges are all of its boundary
    across = rng.standard_normal((DIRECTIONS, K))
    across -= across.mean(axis=1, keepdims=True)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    centre = np.full(K, 1 / np.sqrt(K))
    around = centre * np.sqrt((K - 1) / K) + across * np.sqrt(1 / K)  # xᵀ1 = √(K−1) ‖x‖
    return np.concatenate([touching, around])


def distance_to_cone(rows: Floats, direction: Floats) -> float:
    """Distance of a unit vector from the conic hull of unit rows (C, K).

    Nonnegative least squares over a few rows; the row that would help most joins until none would, which
    makes the distance that of all rows.
    """
    if rows.shape[1] == 2:  # in the plane the cone is what lies between two angles
        angles = np.arctan2(rows[:, 1], rows[:, 0])
        angle = float(np.arctan2(direction[1], direction[0]))
        beyond = max(float(angles.min()) - angle, angle - float(angles.max()), 0.0)
        return float(np.sin(min(beyond, np.pi / 2)))
    from scipy.optimize import nnls  # slow to import, and two classes need it not

    chosen = [int(np.argmax(rows @ direction))]
    rest = direction
    for _ in range(ROUNDS):
        weights, _ = nnls(rows[chosen].T, direction)
        rest = direction - weights @ rows[chosen]
        gain = rows @ rest
        best = int(np.argmax(gain))
        if gain[best] <= INSIDE or best in chosen:
            break
        chosen = [row for row, weight in zip(chosen, weights, strict=True) if weight > 0] + [best]
    return float(np.linalg.norm(rest))


def check_scatter(factor: Floats, rng: np.random.Generator) -> Scatter | None:
    """Condition (i) of Definition 1 at sampled directions; None when there are too many rows."""
    n_classes = factor.shape[1]
    if factor.size * n_classes > SCATTER_WORK:
        return None
    rows = factor[factor.sum(axis=1) > 0]
    if n_classes < 2 or not len(rows):
        return Scatter(0, 1.0, 0.0, exact=True)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    directions = boundary_directions(n_classes, rng)
    distances = np.array([distance_to_cone(rows, direction) for direction in directions])
    inside = float((distances <= np.sqrt(INSIDE)).mean())
    return Scatter(len(directions), inside, float(distances.max()), exact=n_classes == 2)


def rows_for_scatter(n_classes: int, epsilon: float) -> float | None:
    """Rows that make the SSC hold up to ε with probability 1 − μ, κ = 1; none is defined for two classes.

    (K−1)² / (κ² (K−2) ε²) · log(K (K−1) / μ), the remark after Proposition 1.
    """
    if n_classes < 3 or not 0 < epsilon < KAPPA:
        return None
    K = n_classes
    return float((K - 1) ** 2 / (KAPPA**2 * (K - 2) * epsilon**2) * np.log(K * (K - 1) / MISSED))
