"""Can the hidden switches be trusted? The verdict, with the numbers behind it.

Conditions are those of the tensor eigenpair paper, looked at on the estimated distribution P(h): (I) and (27) rigidity,
no other combination of switches is binary; (II) rank of 2𝒞(I, I, e_i) − C, and whether it is definite (31). Beside them
what the data says: eigenvalues over the noise, how far the two bumps of each switch overlap, how few rows hold a
switch's weights, and what other set of switches would explain the rows as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from tacit.diagnose.report import Examination, Examiner
from tacit.refine.switch_start import SpectralStart
from tacit.refine.switch_states import pair_totals, states
from tacit.refine.switches import SwitchParams

Floats = NDArray[np.float64]

KS_NULL = 1.63
"""√n times the Kolmogorov–Smirnov distance that a true switch exceeds in 1 % of the draws."""
ALWAYS = 0.98
"""A switch on in more rows than this is a baseline."""


@dataclass(frozen=True)
class Rival:
    """A combination uᵀh of switches that is (almost) binary: it could stand in for one of them."""

    u: tuple[int, ...]
    rigidity: float  # r(u) (27)
    outside: float  # share of rows where uᵀh is neither 0 nor 1


def rivals(params: SwitchParams, most: int = 3) -> list[Rival]:
    """Combinations of two and three switches with coefficients ±1, most nearly binary first."""
    d, S = params.d, states(min(params.d, 16))
    P = np.exp(params.log_prior)
    found = []
    for size in range(2, min(most, d) + 1):
        for some in combinations(range(d), size):
            h = S[:, list(some)]
            for signs in product((1, -1), repeat=size):
                if sum(signs) < 0:
                    continue
                value = h @ np.array(signs, np.float64)
                off = np.abs(value - np.clip(np.round(value), 0, 1))
                u = [0] * d
                for at, sign in zip(some, signs, strict=True):
                    u[at] = sign
                found.append(Rival(tuple(u), float(P @ off**2), float(P @ (off > 0.5))))
    return sorted(found, key=lambda rival: rival.outside)


def condition_two(params: SwitchParams) -> tuple[Floats, list[int]]:
    """Of each switch: smallest |eigenvalue| of C^-½ (2𝒞(I, I, e_i) − C) C^-½, and whether (31) is definite (±1, or 0)."""
    d, P = params.d, np.exp(params.log_prior)
    S = states(d)
    C = pair_totals(P, d)
    values, vectors = np.linalg.eigh(C)
    root = vectors / np.sqrt(np.maximum(values, 1e-12))  # C^-½ up to a rotation
    smallest, definite = np.empty(d), []
    for i in range(d):
        third = (S * (P * S[:, i])[:, None]).T @ S  # 𝒞(I, I, e_i)
        A = root.T @ (2 * third - C) @ root
        smallest[i] = np.abs(np.linalg.eigvalsh(A)).min()
        if d == 1:
            definite.append(-1)
            continue
        y = root.T @ C[:, i]  # direction of switch i: the rest of A is the projected Jacobian
        left = np.linalg.svd(y[None])[2][1:]
        spectrum = np.linalg.eigvalsh(left @ A @ left.T)
        definite.append(-1 if spectrum[-1] < 0 else 1 if spectrum[0] > 0 else 0)
    return smallest, definite


def examine_switches(
    params: SwitchParams, start: SpectralStart | None, *, n: int, names: list[str], converged: bool
) -> Examination:
    """Diagnose fitted switches."""
    examiner = Examiner()
    d, on = params.d, switch_shares(params)
    spread = params.spread
    examiner.quantities |= {
        "n_rows": n,
        "n_switches": d,
        "noise": float(np.sqrt(params.sigma2)),
        "spread": spread.tolist(),
        "rows_on": (on * n).tolist(),
    }
    if d <= 12:
        smallest, definite = condition_two(params)
        nearest = rivals(params)
        examiner.quantities |= {
            "condition_two": smallest.tolist(),
            "definite": definite,
            "rigidity": nearest[0].rigidity if nearest else None,
            "rival": list(nearest[0].u) if nearest else None,
        }
    if not converged:
        examiner.doubt("caution", "EM stopped before it stood still, so the figures may still move; raise max_iter.")
    return examiner.conclude()


def switch_shares(params: SwitchParams) -> Floats:
    """P(switch on) (d,)."""
    return np.asarray(np.exp(params.log_prior) @ states(params.d)) if params.d <= 16 else np.diag(
        pair_totals(np.exp(params.log_prior), params.d)
    )
