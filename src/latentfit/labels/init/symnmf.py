"""Nonnegative rotation of a square root: the shifted-ReLU symmetric NMF.

Paper     Ibrahim & Fu 2022, "Crowdsourcing via Annotator Co-occurrence Imputation and Provable Symmetric
          NMF", problem (12), updates (13), Theorem 3; α = 0 is the algorithm of Huang, Sidiropoulos & Swami
          2014 ([21] there)
Needs     U = H Qᵀ + N with H ≥ 0 as in Assumption 1: rank K, energy spread over its rows, a sparse support placed
          uniformly (14), singular values apart; ν = ‖N‖_F small, an initial Q₀ not too far (15)
Promises  for some constant α: ‖Q_t − QΠ‖² ≤ ρ ‖Q_{t−1} − QΠ‖² + O(Kσ²ν²/γ₀²) with ρ < 1 (16a). Of the diminishing
          schedule, the default, the paper proves nothing; it found it faster
Differs   stops when Q has converged (paper: when the cost has); α has a floor of 1e-6 as in the paper's real-data
          runs, so that the diminishing schedule ends in theirs, and begins at the first round whose α leaves something
          standing (`first_round=0`: as printed); H is max(U Q, 0) at the end, not ReLU_α

Symbols   paper   here      shape     meaning
          U       root      (C, K)    square root of the stacked co-occurrences, X = U Uᵀ
          Q       turn      (K, K)    orthogonal
          H       factor    (C, K)    stacked confusion matrices times D^½
          α       alpha     scalar    entries of U Q below it become zero
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, normalise_tables

ALPHA_FLOOR = 1e-6
"""α₍₀₎ of the paper's real-data runs; also where the diminishing schedule ends."""
SHRINK = 0.8
"""ψ of the diminishing schedule ψ^(t+1): 23 rounds against 64 for α = 0 in the prototypes."""
SETTLED = 1e-3
"""Below this α the diminishing schedule may stop: a confusion matrix has no smaller entry when EM takes over."""
LARGEST_FRACTION = 0.5
"""The diminishing schedule begins where α is this fraction of the smallest column maximum of U Q₀."""
INIT_FLOOR = 1e-3
"""Smallest probability of an initialisation: a zero is final for EM, and few labels cannot tell 0 from 1/1000."""


@dataclass(frozen=True)
class Rotation:
    """Result of (13)."""

    factor: Floats  # H (C, K)
    turn: Floats  # Q (K, K)
    n_iter: int
    path: list[Floats]  # H after every round, stored only on request


def schedule(kind: str, step: int) -> float:
    """α of a round: ``diminishing`` ψ^(t+1) down to the floor, ``constant`` α₍₀₎, ``zero`` the algorithm of [21]."""
    if kind == "diminishing":
        return max(SHRINK ** (step + 1), ALPHA_FLOOR)
    return ALPHA_FLOOR if kind == "constant" else 0.0


def rotate_nonnegative(
    root: Floats,
    *,
    alpha: str = "diminishing",
    turn: Floats | None = None,
    max_iter: int = 200,
    tol: float = 1e-4,
    first_round: int | None = None,
    keep_path: bool = False,
) -> Rotation:
    """Alternate (13a)–(13c) from `turn` (the identity: adequate after an initialisation from votes).

    `first_round` is the t whose α comes first; None passes over those that leave a column of H with nearly nothing.
    """
    n_classes = root.shape[1]
    turn = np.eye(n_classes) if turn is None else turn
    path: list[Floats] = []
    begin = _first_round(root @ turn, alpha, max_iter) if first_round is None else first_round
    step = begin
    for step in range(begin, begin + max_iter):
        rotated = root @ turn
        factor = np.where(rotated >= schedule(alpha, step), rotated, 0.0)  # (13a)
        if keep_path:
            path.append(factor)
        w, vt = _singular_vectors(factor.T @ root)  # (13b)
        new_turn = vt.T @ w.T  # (13c)
        converged = np.abs(new_turn - turn).max() < tol and schedule(alpha, step) <= SETTLED
        turn = new_turn
        if converged:
            break
    return Rotation(np.maximum(root @ turn, 0.0), turn, step + 1 - begin, path)


def _singular_vectors(matrix: Floats) -> tuple[Floats, Floats]:
    """Left and right singular vectors; where divide and conquer gives up, as it may with hundreds of classes, by QR."""
    try:
        w, _, vt = np.linalg.svd(matrix)
    except np.linalg.LinAlgError:
        w, _, vt = scipy.linalg.svd(matrix, lapack_driver="gesvd")
    return w, vt


def _first_round(rotated: Floats, alpha: str, most: int) -> int:
    """The first round whose α leaves no column of U Q₀ empty, or (13b) forgets the initialisation."""
    reach = max(float(np.maximum(rotated.max(axis=0), 0.0).min()) * LARGEST_FRACTION, ALPHA_FLOOR)
    return next((t for t in range(most) if schedule(alpha, t) <= reach), 0)


def rotate_from_several(root: Floats, n_inits: int, rng: np.random.Generator) -> Rotation:
    """The best of the identity and random initial rotations, by the residual of (12a) under (12b)."""
    shape = (root.shape[1], root.shape[1])
    turns = [None] + [np.linalg.qr(rng.standard_normal(shape))[0] for _ in range(n_inits - 1)]
    rotations = [rotate_nonnegative(root, turn=turn) for turn in turns]
    return min(rotations, key=lambda rotation: float(np.square(rotation.factor - root @ rotation.turn).sum()))


def mixture_from_factor(factor: Floats, offsets: NDArray[np.int32], votes: Floats) -> Mixture:
    """Confusion matrices and prior from H = [A₁; …; A_M] D^½ (Proposition 1).

    A block's column sums are λ^½, so the prior is their `votes`-weighted mean, squared.
    """
    roots = np.add.reduceat(factor, offsets[:-1], axis=0)  # (M, K)
    weights = np.square(votes @ roots / max(float(votes.sum()), 1e-300))
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(factor.shape[1], 1 / factor.shape[1])
    table = normalise_tables(np.maximum(normalise_tables(factor, offsets), INIT_FLOOR), offsets)
    return Mixture(np.maximum(weights, INIT_FLOOR) / np.maximum(weights, INIT_FLOOR).sum(), table, offsets)
