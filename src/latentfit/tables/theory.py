r"""What the theorems of the joint-distribution paper say about one table: every quantity they speak of.

Paper     Ibrahim & Fu 2021, "Recovering Joint PMF from Pairwise Marginals": Proposition 1, Theorem 1 (CNMF-SPA),
          Assumption 2 and Theorem 2 (EM); the constants are those of their proofs
Needs     a fitted mixture standing for the truth, and pair frequencies
Promises  the quantities at the fitted parameters. Only the N of Theorem 1 has a constant the paper leaves open
          (Lemma 7): it is one here, and named so
Differs   columns may have different numbers of categories: I is the largest where a bound grows with it (S, the
          error), the mean where cells are counted (N of Theorem 1). The split is the one that leaves H the most
          cells: S₁ takes the widest columns until they can carry rank F (1 + Σ(I_n − 1) ≥ F, the paper's M ≥ F/I
          without the cells that columns share), S₂ all the others. The "achieved" ε is that of this split at the
          fitted model, and the promised error uses it. Quantities that a vanishing divisor makes infinite are None.
          ε of Theorem 1 is as printed; its (18) forgets that Lemma 1 is about W/M, so that ε is M times what the lemma
          allows, and the S asked for too small by M². The paper has one p for all columns; here they may differ, and p
          is that of the pair (Proposition 1, Theorem 1) or column (Theorem 2) that is seen least. The proof of Theorem
          1 uses Proposition 1, which is about one pair, for all M (N − M) pairs at once: with the missing union bound
          δ would be divided by their number. The quantities are as printed

Symbols   paper     here        shape    meaning
          W         left        (L, F)   stacked factors of S₁
          H         right       (K, F)   stacked factors of S₂ times D(λ), rows scaled to sum one
          X̂         frequencies (C, C)   pair frequencies
          S p       n_rows, observed     rows, and the proportion of cells observed
          Â⁰ λ̂⁰     init                 initialisation of EM
          η ε φ κ D̄₁ D̄₂ D̄ ρ₁ ρ₂ δ₁ δ₂   as in the paper
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import align_classes
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.simplex import nearest_to_axes
from latentfit.core.verdict import LARGEST_LOG, WORST_CONDITION

DELTA = 0.05  # δ of Theorem 1 and Proposition 1, μ of Theorem 2: a promise may fail once in twenty times.
MIN_OBSERVED = 1e-12  # Proportion of cells observed in a table without observed cells: keeps what divides by it finite.

Quantities = dict[str, float | None]


def pair_observation_rates(co_observed: Floats, n_rows: float) -> Floats:
    """p of the paper for every two columns: its square is the proportion of rows that show both.

    Parameters
    ----------
    co_observed : ndarray of shape (N, N)
        Rows that show both columns.
    n_rows : float
        Number of rows S.

    Returns
    -------
    rates : ndarray of shape (N, N)
        p of every pair.
    """
    return np.asarray(np.sqrt(np.minimum(co_observed / max(n_rows, 1e-300), 1.0)))


def noise_bound(n_rows: float, observed: float) -> Quantities:
    """Proposition 1: φ bounds ‖X_jk − X̂_jk‖_F of a pair with p at least `observed`, if p ≥ √(8/S · log(2/δ)).

    Parameters
    ----------
    n_rows : float
        Number of rows S.
    observed : float
        Proportion p of cells observed.

    Returns
    -------
    quantities : dict
        φ, the least p that the proposition asks for, and the p given.
    """
    S, p = max(n_rows, 1.0), max(observed, MIN_OBSERVED)
    return {
        "phi": float(np.sqrt(2) * (1 + np.sqrt(np.log(2 / DELTA))) / (p * np.sqrt(S))),
        "least_observed": float(np.sqrt(8 / S * np.log(2 / DELTA))),
        "observed": observed,
    }


def widest_split(sizes: NDArray[np.int32], n_classes: int) -> NDArray[np.bool_]:
    """Mark S₁: the widest columns, until they can carry rank F; at least one column is left for S₂.

    Parameters
    ----------
    sizes : ndarray of shape (N,)
        Number of categories of every column.
    n_classes : int
        Number of classes F.

    Returns
    -------
    split : ndarray of bool of shape (N,)
        Which columns are in S₁.
    """
    order = np.argsort(-sizes, kind="stable")
    carried = 1 + np.cumsum(sizes[order] - 1)
    M = min(int(np.searchsorted(carried, n_classes)) + 1, max(len(sizes) - 1, 1))
    split = np.zeros(len(sizes), bool)
    split[order[:M]] = True
    return split


def smallest_frequency(frequencies: Floats, offsets: NDArray[np.int32]) -> float:
    """η = min over pairs of columns i ≠ j and categories q of ‖X̂_ij(:, q)‖₁.

    Parameters
    ----------
    frequencies : ndarray of shape (C, C)
        Pair frequencies.
    offsets : ndarray of shape (N + 1,)
        Column offsets.

    Returns
    -------
    eta : float
        The smallest frequency.
    """
    sums = np.add.reduceat(frequencies, offsets[:-1], axis=0)  # (N, C)
    own = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))[None, :] == np.arange(len(offsets) - 1)[:, None]
    return float(sums[~own].min()) if (~own).any() else 0.0


def theorem_1(mixture: Mixture, frequencies: Floats, n_rows: float, observed: float) -> Quantities:
    """η, κ(W), the ε allowed and achieved, the S and N asked for and the error promised by Theorem 1, (4).

    Constants are those of its proof: the error is √F times (17), S follows from (19), N from (20) and Lemma 7, (61),
    under Assumption 1.

    Parameters
    ----------
    mixture : Mixture
        A fitted model.
    frequencies : ndarray of shape (C, C)
        Pair frequencies.
    n_rows : float
        Number of rows S.
    observed : float
        Proportion p of cells observed.

    Returns
    -------
    quantities : dict
        The numbers by name; None where a divisor vanishes.
    """
    sizes, F = np.diff(mixture.column_offsets), mixture.n_classes
    split = widest_split(sizes, F)
    cells, M, I = np.repeat(split, sizes), int(split.sum()), int(sizes.max())
    left, right = mixture.table[cells], mixture.table[~cells] * mixture.weights  # W and H of (3)
    values = np.linalg.svd(left, compute_uv=False)
    smallest = values[F - 1] if len(values) >= F else 0.0
    kappa = float(values[0] / max(smallest, values[0] / WORST_CONDITION))
    eta = smallest_frequency(frequencies, mixture.column_offsets)
    reach = min(1 / (2 * np.sqrt(F - 1)), 0.25) if F > 1 else 0.25
    allowed = M * reach / (2 * kappa * (1 + 80 * kappa**2))  # ε of Theorem 1
    achieved = float(nearest_to_axes(right).max()) if len(right) else 1.0
    phi = noise_bound(n_rows, observed)["phi"]
    assert phi is not None
    top = float(values[0])
    certain = 1 + np.sqrt(np.log(2 / DELTA))
    asked_rows = error = None
    if eta > 0 and observed > 0:
        asked_rows = float(32 * M**2 * I * certain**2 / (top * eta * allowed * observed) ** 2)  # after (19)
        bound = (top * achieved + 2 * M * np.sqrt(I) * phi / eta) * (1 + 80 * kappa**2)  # (17)
        error = float(np.sqrt(F) * bound)  # (4)
    log_cells = -2 * (F - 1) * np.log(allowed) + np.log(np.log(F / DELTA) / F)  # (20), constant one
    return {
        "columns_left": M,
        "least_observed": float(np.sqrt(8 / max(n_rows, 1.0) * np.log(4 / DELTA))),
        "eta": eta,
        "kappa": kappa,
        "sigma_max": top,
        "epsilon_allowed": float(allowed),
        "epsilon_achieved": achieved,
        "asked_rows": asked_rows,
        "asked_columns_constant_1": M + float(np.exp(min(log_cells - np.log(sizes.mean()), LARGEST_LOG))),
        "promised_error": error,
    }


def divergences(mixture: Mixture) -> Floats:
    """Σ_n KL(A_n(:, f) ‖ A_n(:, f′)) for all pairs of classes.

    Parameters
    ----------
    mixture : Mixture
        A fitted model.

    Returns
    -------
    divergences : ndarray of shape (F, F)
        In nats.
    """
    logs, table = mixture.log_table(), mixture.table
    own = (table * logs).sum(axis=0)
    return np.asarray(own[:, None] - table.T @ logs)


def theorem_2(mixture: Mixture, n_rows: float, observed: float) -> dict[str, float | list[float] | None]:
    """D̄₁, D̄₂, D̄, ρ₁, ρ₂, δ₁, δ₂, the N, S and D̄ asked for, and the errors promised for this S, p, λ.

    D̄ and the basin are those of Assumption 2, δ₁ and δ₂ (56); Theorem 2 asks for S by (36) and N by (38).

    Parameters
    ----------
    mixture : Mixture
        A fitted model.
    n_rows : float
        Number of rows S.
    observed : float
        Proportion p of cells observed.

    Returns
    -------
    quantities : dict
        The numbers by name; None where a divisor vanishes, or with one class.
    """
    F, N, I = mixture.n_classes, mixture.n_columns, int(np.diff(mixture.column_offsets).max())
    S, p, weights = max(n_rows, 1.0), max(observed, MIN_OBSERVED), mixture.weights
    log_term = float(np.log(12 * N * F * I / DELTA))
    rho_1, rho_2 = float(mixture.table.min()), float(weights.min())
    per_class = S * p * np.maximum(weights, 1e-300)
    out: dict[str, float | list[float] | None] = {
        "rho_1": rho_1,
        "rho_2": rho_2,
        "promised_profile_error": np.sqrt(48 * log_term / per_class).tolist(),
        "promised_weight_error": np.sqrt(192 * F**2 * weights * log_term / S).tolist(),
    }
    if F < 2:
        return out | dict.fromkeys(_PAIR_QUANTITIES)
    apart = ~np.eye(F, dtype=bool)
    D1 = float(p * divergences(mixture)[apart].min() / N)  # Assumption 2
    log_weights = mixture.log_weights()
    D2 = float(2 / N * (log_weights[:, None] - log_weights[None, :])[apart].min())
    D = (D1 + D2) / 2
    delta_1 = 4 / (rho_1 * (4 + D)) if rho_1 > 0 and 4 + D > 0 else None  # (56)
    delta_2 = 4 / (rho_2 * (4 + N * D)) if rho_2 > 0 and 4 + N * D > 0 else None
    asked_columns = asked_rows = asked_D = None
    if rho_1 > 0 and rho_2 > 0 and D1 > 0 and D > 0:
        asked_columns = max(
            33 * float(np.log(3 * S * F / DELTA)) / (rho_1 * D1),
            4 * float(np.log(4 * S * F**2 / (3 * p * rho_2 * DELTA))) / D,
        )
    if rho_1 > 0 and rho_2 > 0:
        asked_D = max((8 - 4 * rho_1**2) / rho_1**2, (8 - 4 * rho_2**2) / (N * rho_2**2))
    if delta_1 is not None and delta_2 is not None:
        asked_rows = 192 * F**2 * log_term / (p * rho_2 * min(delta_1, delta_2)) ** 2
    in_force = (
        asked_columns is not None and asked_rows is not None and asked_D is not None
        and asked_columns <= N and asked_rows <= S and asked_D <= D
    )  # fmt: skip
    return out | {
        "D_1": D1,
        "D_2": D2,
        "D": D,
        "delta_1": delta_1,
        "delta_2": delta_2,
        "asked_columns": asked_columns,
        "asked_rows": asked_rows,
        "asked_D": asked_D,
        "in_force": float(in_force),
    }


def init_in_basin(init: Mixture, mixture: Mixture, basin: dict[str, float | list[float] | None]) -> Quantities:
    """Assumption 2: whether an initialisation is within δ₁ of every profile and δ₂ (56) of every weight.

    Without the D̄ that Theorem 2 asks for δ₁ and δ₂ may exceed 1, and then being inside says nothing.

    Parameters
    ----------
    init : Mixture
        Initialisation of EM.
    mixture : Mixture
        A fitted model.
    basin : dict
        What `theorem_2` gives.

    Returns
    -------
    quantities : dict
        Errors of profiles and weights, and 1.0 if both are inside (0.0 if not, None if unknown).
    """
    if init.n_classes != mixture.n_classes:
        return {"profile_error": None, "weight_error": None, "inside": 0.0}
    near = align_classes(init, mixture)
    profile_error = float(np.abs(near.table - mixture.table).max())
    weight_error = float(np.abs(near.weights - mixture.weights).max())
    delta_1, delta_2 = basin["delta_1"], basin["delta_2"]
    inside = None
    if isinstance(delta_1, float) and isinstance(delta_2, float):
        inside = float(profile_error <= delta_1 and weight_error <= delta_2)
    return {"profile_error": profile_error, "weight_error": weight_error, "inside": inside}


_PAIR_QUANTITIES = ("D_1", "D_2", "D", "delta_1", "delta_2", "asked_columns", "asked_rows", "asked_D", "in_force")
