"""A probability matrix in factored form, and the one identifiable decomposition B = ρρ'ᵀ + Σ_s sign_s Δ_s Δ'_sᵀ.

Paper     Huang, Kakade, Kong & Valiant 2018, (2) and (4): Cov(B) = B − ρρᵀ has one rank-1 decomposition at rank 2;
          here for any K
Needs     factors whose products are nonnegative
Promises  `Factored` is nonnegative and sums to one, entry by entry, without the matrix being made
Differs   for K > 2 the Δ_s are the orthogonal ones (weighted by 1/ρ), largest first

Symbols   paper   here                    shape       meaning
          ρ       marginal                (M,), (M',)
          Δ       separation              (M, K−1), (M', K−1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.spectral import PairModel, peak_signs

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Factored:
    """B_ij = marginal_i column_marginal_j + Σ_s signs_s separation_is column_separation_js, never below zero.

    (4), with ρ and Δ of (2) for any number of separations.
    """

    marginal: Floats  # (M,)
    column_marginal: Floats  # (M',)
    separation: Floats  # (M, K−1)
    column_separation: Floats  # (M', K−1)
    signs: Floats  # (K−1,)

    @property
    def left(self) -> Floats:
        """(M, K): what `right` is multiplied by."""
        return np.column_stack([self.marginal, self.separation * self.signs])

    @property
    def right(self) -> Floats:
        return np.column_stack([self.column_marginal, self.column_separation])

    @property
    def values(self) -> Floats:
        """(K−1,) size of each separation, Σ_i Δ_is²/ρ_i: the eigenvalues of the scaled matrix in the symmetric case."""
        safe = np.where(self.marginal > 0, self.marginal, 1.0)
        return np.asarray((self.separation**2 / safe[:, None]).sum(axis=0))


def rank_two(marginals: tuple[Floats, Floats], lifts: tuple[Floats, Floats], sign: float) -> Factored:
    """The decomposition (4) of B ∝ ρ_i ρ'_j (1 + sign x_i y_j): its own marginals, its own separations (2).

    With u = ρ, v = ρx, w = ρ', t = ρ'y, m = Σv, n = Σt, T = 1 + sign·m·n: B = (u wᵀ + sign v tᵀ)/T has the row sums
    (u + sign·n·v)/T, and what is left of them is sign (v − m u)(t − n w)ᵀ/T².
    """
    (u, w), (x, y) = marginals, lifts
    v, t = u * x, w * y
    m, n = float(v.sum()), float(t.sum())
    total = 1 + sign * m * n
    left, right = (v - m * u) / total, (t - n * w) / total
    rows, columns = np.maximum(u + sign * n * v, 0.0) / total, np.maximum(w + sign * m * t, 0.0) / total
    same = u is w and x is y
    if same:
        return _ordered(Factored(rows, rows, left[:, None], left[:, None], np.array([sign])))
    sizes = [float((part**2 / np.where(mass > 0, mass, 1.0)).sum()) for part, mass in ((left, rows), (right, columns))]
    if min(sizes) > 0:  # Δ and Δ' are known up to a factor: made equally large
        ratio = (sizes[1] / sizes[0]) ** 0.25
        left, right = left * ratio, right / ratio
    return _ordered(Factored(rows, columns, left[:, None], right[:, None], np.array([sign])))


def decompose(model: PairModel) -> Factored:
    """The same for B = D_L W D_Rᵀ of any rank: orthogonal separations of W's covariance, seen through D/√ρ."""
    rows, columns = model.left @ model.mixing.sum(axis=1), model.right @ model.mixing.sum(axis=0)
    covariance = model.mixing - np.outer(model.mixing.sum(axis=1), model.mixing.sum(axis=0))
    rank = len(model.mixing) - 1
    roots = [np.sqrt(np.where(part > 0, part, 1.0)) for part in (rows, columns)]
    left_basis, left_core = np.linalg.qr(model.left / roots[0][:, None])
    if model.symmetric:
        inner = left_core @ covariance @ left_core.T
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        order = np.argsort(-np.abs(values), kind="stable")[:rank]
        separation = left_basis @ vectors[:, order] * np.sqrt(np.abs(values[order])) * roots[0][:, None]
        return _ordered(Factored(rows, rows, separation, separation, np.where(values[order] < 0, -1.0, 1.0)))
    right_basis, right_core = np.linalg.qr(model.right / roots[1][:, None])
    u, values, vt = np.linalg.svd(left_core @ covariance @ right_core.T)
    size = np.sqrt(values[:rank])
    left = left_basis @ u[:, :rank] * size * roots[0][:, None]
    right = right_basis @ vt[:rank].T * size * roots[1][:, None]
    return _ordered(Factored(rows, columns, left, right, np.ones(rank)))


def independent(rows: Floats, columns: Floats) -> Factored:
    """Rank 1: B = ρρ'ᵀ."""
    return Factored(rows, columns, np.zeros((len(rows), 0)), np.zeros((len(columns), 0)), np.zeros(0))


def _ordered(factored: Factored) -> Factored:
    """Every separation's largest entry made positive (of equals the first)."""
    if not factored.separation.size:
        return factored
    turn = peak_signs(factored.separation, 15)
    left = factored.separation * turn
    right = left if factored.column_separation is factored.separation else factored.column_separation * turn
    return Factored(factored.marginal, factored.column_marginal, left, right, factored.signs)
