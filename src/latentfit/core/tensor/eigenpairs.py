"""Eigenpairs of a symmetric tensor: 𝓣(I, u, u) = λu with ‖u‖ = 1, many starting points at once.

Papers    Jaffe, Weiss & Nadler, "Newton correction methods for computing real eigenpairs of symmetric tensors" (2017):
          orthogonal Newton correction; Kolda & Mayo, "Shifted power method for computing tensor eigenpairs" (2011) and
          its adaptive shift (2014); definitions 1–3 of the tensor eigenpair paper (ICML 2018)
Needs     a tensor of moderate size (d up to about 20)
Promises  Newton converges quadratically to every Newton-stable pair (𝒥_p(u) of full rank) from close by; the power
          method to power-stable ones (𝒥_p definite). Neither certainly finds all pairs.
Differs   beside Newton, Levenberg–Marquardt on 𝓣(I, y, y) = y, y = u/λ: a pair that sampling error has pushed into the
          complex plane leaves a point of least residual there, and that point is kept. Homotopy continuation
          (Chen, Han & Zhou 2016) is not built.

Symbols   paper   here   shape     meaning
          𝓣       T      (d, d, d)
          u, λ           (s, d), (s,)  pairs, λ ≥ 0
          J_p(u)         (s, d-1, d-1) projected Jacobian (4): L_uᵀ (2𝓣(I, I, u) − λI) L_u
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats


@dataclass(frozen=True)
class EigenpairSettings:
    """When iterations end, and which points are kept."""

    converged: float = 1e-11  # Residual, relative to the tensor's norm, at which a pair counts as found.
    # Points nearer than this are one: where only the residual is least, and where it vanishes.
    same: float = 1e-3
    same_root: float = 1e-5
    root: float = 1e-10  # Residual below which a point is a pair, not only near one.
    # Steps per starting point at most: near a pair each Newton step doubles the digits, a power step gains a
    # factor.
    newton_steps: int = 60
    lm_steps: int = 60
    power_steps: int = 500
    # ‖y‖ = 1/λ = √p of points kept: a switch on in 1 % of the rows at least, and 1 with room for sampling
    # error.
    shortest: float = 0.1
    longest: float = 1.15
    fewest_rows: int = 50  # With many rows a switch may be on in fewer than 1 % of them, but in so many.


PAIRS = EigenpairSettings()


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenpairs (Definition 1, (2)) as points y = u/λ (c, d), what is left of 𝓣(I, y, y) − y, and their stability."""

    y: Floats  # (c, d)
    residual: Floats  # (c,) relative to ‖y‖
    smallest: Floats  # (c,) smallest |eigenvalue| of J_p / λ
    condition: Floats  # (c,) condition number of J_p
    definite: NDArray[np.int8]  # (c,) −1 negative, 1 positive definite, 0 neither

    def __len__(self) -> int:
        return len(self.y)

    @property
    def eigenvalues(self) -> Floats:
        return np.asarray(1 / np.linalg.norm(self.y, axis=1))

    def take(self, index: NDArray[np.intp]) -> Eigenpairs:
        return Eigenpairs(*(of_all[index] for of_all in vars(self).values()))


def describe(T: Floats, y: Floats) -> Eigenpairs:
    """Residual and stability of points: `smallest` is zero for a pair that is not Newton-stable (Definition 2).

    `definite` is −1 or 1 for a power-stable one (Definition 3).
    """
    length = np.linalg.norm(y, axis=1)
    left = np.linalg.norm(contract(T, y) - y, axis=1) / length
    u = y / length[:, None]
    if T.shape[0] == 1:
        ones = np.ones(len(y))
        return Eigenpairs(y, left, ones, ones, -np.ones(len(y), np.int8))
    spectra = np.linalg.eigvalsh(projected_jacobian(T, u, 1 / length)) * length[:, None]  # relative to λ
    size = np.abs(spectra)
    definite = np.where(spectra[:, -1] < 0, -1, np.where(spectra[:, 0] > 0, 1, 0)).astype(np.int8)
    smallest = size.min(axis=1)
    return Eigenpairs(y, left, smallest, size.max(axis=1) / np.maximum(smallest, 1e-300), definite)


# ------------------------------------------------------------------ products


def slices(T: Floats, u: Floats) -> Floats:
    """𝓣(I, I, u) (s, d, d)."""
    d = T.shape[0]
    return (u @ T.reshape(d, d * d)).reshape(len(u), d, d)


def contract(T: Floats, u: Floats) -> Floats:
    """𝓣(I, u, u) (s, d)."""
    return np.asarray((slices(T, u) @ u[:, :, None])[:, :, 0])


def projected_jacobian(T: Floats, u: Floats, eigenvalue: Floats) -> Floats:
    """J_p(u) = L_uᵀ (2𝓣(I, I, u) − λI) L_u (4), (36); L_u from a Householder reflection that sends e₁ to ±u."""
    d = T.shape[0]
    v = u.copy()
    v[:, 0] += np.where(u[:, 0] >= 0, 1.0, -1.0)
    reflection = np.eye(d) - 2 * v[:, :, None] * v[:, None, :] / (v * v).sum(axis=1)[:, None, None]
    L = reflection[:, :, 1:]
    A = 2 * slices(T, u) - eigenvalue[:, None, None] * np.eye(d)
    return np.asarray(L.transpose(0, 2, 1) @ A @ L)


# ------------------------------------------------------------------ searches


def newton(T: Floats, starts: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Orthogonal Newton correction of g (3) from unit vectors (s, d): end points y = u/λ, and which converged."""
    s, d = starts.shape
    u = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    eigenvalue = np.zeros(s)
    found, active = np.zeros(s, bool), np.arange(s)
    goal = PAIRS.converged * np.linalg.norm(T)
    system = np.zeros((s, d + 1, d + 1))
    for _ in range(PAIRS.newton_steps):
        now = u[active]
        A = slices(T, now)
        Tuu = (A @ now[:, :, None])[:, :, 0]
        value = (Tuu * now).sum(axis=1)
        g = Tuu - value[:, None] * now  # (3)
        eigenvalue[active] = value
        done = np.linalg.norm(g, axis=1) <= goal
        found[active[done]] = True
        active, now, A, g, value = active[~done], now[~done], A[~done], g[~done], value[~done]
        if not len(active):
            break
        # L J_p Lᵀ step = −g with step ⟂ u, written with u as a border
        bordered = system[: len(active)]
        bordered[:, :d, :d] = 2 * A - value[:, None, None] * np.eye(d)
        bordered[:, :d, d] = bordered[:, d, :d] = now
        right = np.concatenate([-g, np.zeros((len(g), 1))], axis=1)
        step = _solve(bordered, right)[:, :d]
        moved = now + step
        u[active] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    safe = np.where(np.abs(eigenvalue) > 1e-12, eigenvalue, np.inf)  # λ = 0 has no y: it ends at the origin
    return u / safe[:, None], found


def _solve(A: Floats, b: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(A, b[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:  # an exactly singular one among many: nudge the diagonal of all
        size = np.abs(A).max(axis=(1, 2))[:, None, None]
        return np.asarray(np.linalg.solve(A + 1e-10 * size * np.eye(A.shape[1]), b[:, :, None])[:, :, 0])


def levenberg_marquardt(T: Floats, starts: Floats) -> Floats:
    """Points (s, d) of least ‖𝓣(I, y, y) − y‖ near the starting points; where it vanishes they solve (35) (Lemma 6)."""
    s, d = starts.shape
    y, damping = starts.copy(), np.full(s, 1e-2)
    residual = contract(T, y) - y
    size = (residual * residual).sum(axis=1)
    active = np.arange(s)
    eye = np.eye(d)
    for _ in range(PAIRS.lm_steps):
        now = y[active]
        J = 2 * slices(T, now) - eye
        gradient = (J @ residual[active][:, :, None])[:, :, 0]  # J is symmetric
        normal = J @ J + damping[active][:, None, None] * eye
        step = -_solve(normal, gradient)
        proposed = now + step
        left = contract(T, proposed) - proposed
        new = (left * left).sum(axis=1)
        better = new < size[active]
        moved = active[better]
        y[moved], residual[moved] = proposed[better], left[better]
        still = better & (size[active] - new <= 1e-14 * (1e-12 + new))
        size[moved] = new[better]
        damping[active] = np.where(better, damping[active] / 5, damping[active] * 4)
        length = np.linalg.norm(step, axis=1)
        keep = ~(still | (length <= 1e-12) | (damping[active] > 1e8) | (size[active] < 1e-26))
        active = active[keep]
        if not len(active):
            break
    return y


def shifted_power(T: Floats, starts: Floats, direction: int) -> Floats:
    """Unit fixed points (s, d) of the shifted power method: maxima (direction 1) or minima (−1) of 𝓣(u, u, u).

    These are the power-stable pairs (Definition 3).
    """
    u = starts / np.linalg.norm(starts, axis=1, keepdims=True)
    active = np.arange(len(u))
    floor = 1e-3 * np.linalg.norm(T)
    for _ in range(PAIRS.power_steps):
        now = u[active]
        A = slices(T, now)
        low = np.linalg.eigvalsh(direction * A)[:, 0]
        shift = np.maximum(0.0, floor - 2 * low)  # makes the function convex here: every step ascends
        moved = direction * (A @ now[:, :, None])[:, :, 0] + shift[:, None] * now
        moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-300)
        u[active] = moved
        active = active[np.linalg.norm(moved - now, axis=1) > 1e-9]
        if not len(active):
            break
    return np.asarray(u)


def sphere(s: int, d: int, rng: np.random.Generator) -> Floats:
    """Even on the unit sphere (s, d)."""
    u = rng.standard_normal((s, d))
    return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True))


def merge(y: Floats, residual: Floats) -> NDArray[np.intp]:
    """Indices of distinct points, smallest residual first; pairs about to be lost lie close together, and stay two."""
    order = np.argsort(residual, kind="stable")
    distinct: list[int] = []
    left = order
    while len(left):
        first = left[0]
        distinct.append(int(first))
        distance = np.where(residual[left] < PAIRS.root, PAIRS.same_root, PAIRS.same)
        left = left[np.linalg.norm(y[left] - y[first], axis=1) > distance]
    return np.array(distinct, np.intp)
