"""Least squares under bounds for many small problems at once: on the simplex, or in a box.

    minimise ½ xᵀ G x − bᵀ x    subject to    Σ x = 1, x ≥ 0        (`simplex_least_squares`)
                                or            low ≤ x ≤ high        (`box_least_squares`)

one problem per row of b, with a Gram matrix of its own or one for all. ‖y − Aᵀx‖² is this problem with G = A Aᵀ and
b = A y; where cells of y are missing, both are taken over the cells that are there (`gram_of`, `products_of`).

Paper     Nocedal & Wright 2006, Algorithm 16.3 (primal active sets): solve with the variables at a bound held there; go
          as far towards it as the bounds allow and hold what they stop; once arrived, let go of the variable whose
          multiplier asks for it most
Needs     positive semidefinite Gram matrices, starts within the bounds
Promises  the objective falls at every step, so it ends at the one minimum; rows share no arithmetic: a row's answer has
          the same bits alone and in any company
Differs   all rows walk together; a singular G gets a ridge of `RIDGE`, which makes the shortest of equal answers the
          minimum

Symbols   here     shape               meaning
          G, b     (…, d, d), (…, d)   Gram matrices, right-hand sides
          x        (…, d)              answers
          free     (…, d)              variables between their bounds
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats

Bools = NDArray[np.bool_]

RIDGE = 1e-12
"""Added to the diagonal, in parts of its mean: tells between answers that are equally good, moves no other."""
SMALL_MULTIPLIER = 1e-12
"""A multiplier this close to zero, in parts of the largest entry of G and b, asks for nothing: it is rounding."""
STEPS_PER_VARIABLE = 12
"""An upper limit of steps. Each variable is held and let go a few times at most; rounding may cycle, and ends here."""
ROWS_AT_ONCE = 1 << 15
"""Rows worked on together, so that their matrices stay small in memory."""


def simplex_least_squares(gram: Floats, product: Floats, start: Floats | None = None) -> Floats:
    """The points (n, d) of the simplex that minimise ½ xᵀGx − bᵀx; `gram` (d, d) or (n, d, d), `product` (n, d).

    `start` are points of the simplex, such as the answers of a similar problem: fewer steps, the same minimum.
    """
    n, d = product.shape
    begin = np.full((n, d), 1 / d) if start is None else start
    found = _solve(gram, product, begin, 0.0, np.inf, equality=True)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def project_to_simplex(points: Floats) -> Floats:
    """The nearest points whose entries along the last axis are non-negative and sum to one."""
    falling = np.sort(points, axis=-1)[..., ::-1]
    shifts = (falling.cumsum(axis=-1) - 1) / np.arange(1, points.shape[-1] + 1)
    return np.asarray(np.maximum(points - shifts.max(axis=-1, keepdims=True), 0.0))


def box_least_squares(
    gram: Floats, product: Floats, low: float = 0.0, high: float = 1.0, start: Floats | None = None
) -> Floats:
    """The points (n, d) of the box that minimise ½ xᵀGx − bᵀx; `gram` (d, d) or (n, d, d), `product` (n, d)."""
    n, d = product.shape
    begin = np.full((n, d), (low + high) / 2) if start is None else start
    return _solve(gram, product, begin, low, high, equality=False)


def gram_of(basis: Floats, shown: Bools | None = None) -> Floats:
    """Gram matrices of the rows of `basis` (d, m): one (d, d), or one (n, d, d) over the cells `shown` (n, m)."""
    if shown is None:
        return basis @ basis.T
    d, seen = len(basis), shown.astype(np.float64)
    gram = np.empty((len(seen), d, d))
    for i in range(d):
        for j in range(i + 1):
            gram[:, i, j] = gram[:, j, i] = (seen * (basis[i] * basis[j])).sum(axis=1)
    return gram


def products_of(values: Floats, basis: Floats) -> Floats:
    """Right-hand sides (n, d): every row of `values` (n, m), zero where missing, times every row of `basis`.

    Summed row by row and not by BLAS, whose order of addition depends on how many rows there are.
    """
    out = np.empty((len(values), len(basis)))
    for k, row in enumerate(basis):
        out[:, k] = (values * row).sum(axis=1)
    return out


def _solve(gram: Floats, product: Floats, start: Floats, low: float, high: float, *, equality: bool) -> Floats:
    out = np.empty_like(product)
    for begin in range(0, len(product), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        own = gram if gram.ndim == 2 else gram[rows]
        out[rows] = _solve_block(own, product[rows], start[rows], low, high, equality)
    return out


def _solve_block(gram: Floats, product: Floats, start: Floats, low: float, high: float, equality: bool) -> Floats:
    d = product.shape[1]
    size = np.trace(gram, axis1=-2, axis2=-1)[..., None] / d
    size = np.where(size > 0, size, 1.0)  # a row without a single cell: every point is as good
    gram = gram / size[..., None] + RIDGE * np.eye(d)
    product = product / size
    slack = SMALL_MULTIPLIER * np.maximum(np.abs(product).max(axis=1), np.abs(gram).max(axis=(-2, -1)))
    x = np.clip(start, low, high)
    free = (x > low) & (x < high)
    busy = np.arange(len(x))
    for _ in range(STEPS_PER_VARIABLE * d + STEPS_PER_VARIABLE):
        own = gram if gram.ndim == 2 else gram[busy]
        goal, price = _towards(own, product[busy], x[busy], free[busy], equality)
        moved, held = _step(x[busy], goal, free[busy], low, high)
        x[busy] = moved
        arrived = ~held.any(axis=1)
        free[busy] &= ~held
        slope = (own * moved[:, None, :]).sum(axis=2) - product[busy] + price[:, None]
        wish = np.where(moved <= low, -slope, slope)  # above zero: wants to leave its bound
        wish[free[busy]] = -np.inf
        most = wish.argmax(axis=1)
        asks = arrived & (wish[np.arange(len(busy)), most] > slack[busy])
        free[busy[asks], most[asks]] = True
        busy = busy[~arrived | asks]
        if not len(busy):
            break
    return x


def _towards(gram: Floats, product: Floats, x: Floats, free: Bools, equality: bool) -> tuple[Floats, Floats]:
    """The minimum with every held variable where it is, and the multiplier of Σ x = 1 (zero without it)."""
    n, d = x.shape
    if gram.ndim == 2:  # few patterns of free variables serve all rows
        code = free @ (1 << np.arange(d, dtype=np.int64)) if d < 64 else pattern_ids(free)  # an int64 holds 63 bits
        _, first, pattern = np.unique(code, return_index=True, return_inverse=True)
        systems = _systems(gram, free[first], equality)
        inverse = np.linalg.inv(systems)
        inverse = 2 * inverse - inverse @ systems @ inverse  # Newton's step: as exact as solving row by row
        right = _right_side(product, x, free, equality)
        answer = (inverse[pattern.reshape(-1)] * right[:, None, :]).sum(axis=2)
    else:
        right = _right_side(product, x, free, equality)
        answer = np.linalg.solve(_systems(gram, free, equality), right[:, :, None])[:, :, 0]
    goal = np.where(free, answer[:, :d], x)
    return goal, answer[:, d] if equality else np.zeros(n)


def _systems(gram: Floats, free: Bools, equality: bool) -> Floats:
    """Rows of G for free variables, unit rows for held ones, a border for Σ x = 1."""
    n, d = free.shape
    out = np.zeros((n, d + equality, d + equality))
    out[:, :d, :d] = np.where(free[:, :, None], gram, np.eye(d))
    if equality:
        out[:, :d, d] = free
        out[:, d, :d] = 1.0
    return out


def _right_side(product: Floats, x: Floats, free: Bools, equality: bool) -> Floats:
    right = np.where(free, product, x)
    return np.column_stack([right, np.ones(len(x))]) if equality else right


def _step(x: Floats, goal: Floats, free: Bools, low: float, high: float) -> tuple[Floats, Bools]:
    """As far towards the goal as the bounds allow, and the variables that they stopped."""
    way = goal - x
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(goal < low, (low - x) / way, np.where(goal > high, (high - x) / way, np.inf))
    room[~free] = np.inf
    proportion = np.minimum(room.min(axis=1), 1.0)
    held = (room <= proportion[:, None]) & (room < np.inf)
    moved = np.where(proportion[:, None] < 1, x + proportion[:, None] * way, goal)
    return np.where(held, np.where(goal < low, low, high), np.clip(moved, low, high)), held


def pattern_ids(bits: NDArray[Any]) -> NDArray[np.intp]:
    """Equal rows of zeros and ones get equal numbers 0, 1, …; any number of columns."""
    packed = np.ascontiguousarray(np.packbits(bits.astype(bool), axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    return np.asarray(np.unique(keys, return_inverse=True)[1], np.intp).reshape(-1)


# -----------------------------------------------------------------------------
# How scattered are the rows of H: separability, and a sampled test of the sufficiently scattered condition.
#
# Paper     Ibrahim & Fu 2022, Definition 1 (SSC) and Proposition 1; the row count is their remark after it
# Needs     H ≥ 0
# Promises  a *necessary* condition only: a direction of C outside cone(Hᵀ) disproves the SSC, finding none
#           among the sampled ones does not prove it. With two classes C is the whole quadrant and the test is
#           exact for part (i). Part (ii) is not tested.
# Differs   the paper states the condition and has no test of it; directions are where C touches the facets of the
#           orthant, and random ones on its boundary
#
# Symbols   paper       here         shape    meaning
#           H (or Z)    factor       (C, K)   stacked confusion matrices times D^½
#           C           directions   (s, K)   {x : xᵀ1 ≥ √(K−1) ‖x‖}, here unit vectors on its boundary
#           ε           epsilon      (K,)     distance of the nearest row, scaled to sum one, from axis k

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
    fraction_inside: float
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
