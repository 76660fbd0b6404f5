"""Confusion matrices from pair co-occurrences by coupled non-negative factorisation.

The objective is the misfit of all observed pairs at once, with shared ("coupled") factors:

    minimise  Σ_{(m,j) ∈ Ω} KL(R̂_mj ‖ A_m D A_jᵀ)
    subject to A_m ≥ 0, 1ᵀA_m = 1ᵀ, λ ≥ 0, 1ᵀλ = 1, D = Diag(λ)

Paper     Ibrahim, Fu, Kargas & Huang, "Crowdsourcing via pairwise co-occurrences: identifiability and
          algorithms", NeurIPS 2019: the coupled criterion, fitted by alternating over the A_m and D in
          KL divergence. Its constraints are (4a)–(4c), its model (2) of the symmetric-NMF paper that compares
          with it (Ibrahim & Fu 2022)
Needs     two disjoint groups of annotators, each with specialists of all classes (both stacks H⁽¹⁾, H⁽²⁾
          sufficiently scattered) and of rank K; an initialisation in the right basin: MultiSPA's is used
Promises  with exact moments every global minimum is the truth up to one order of classes; the objective
          never rises, at any half-step; no rate (the problem is not convex)
Differs   an update is the minimiser of a bound that touches the objective (the multiplicative rule of KL
          factorisation) in place of mirror descent with a line search: no step size, never uphill, and
          the bound splits over annotators, so one half-step moves all A_m together instead of in turn;
          it stops on relative gain, not after ten rounds; blocks of rank one enter (released code: not)

Symbols   paper     here      shape       meaning
          R̂_mj      R         (P, K, K)   estimated co-occurrences of the observed pairs m < j
          A_m       A         (M, K, K)   P(m says k | class f), axes (m, k, f)
          λ, D      weights   (K,)        P(class f)
                    ratio     (P, K, K)   R̂_mj / (A_m D A_jᵀ), what every gradient is made of
"""

from __future__ import annotations

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.labels.init.multispa import Indices, factor_multispa, floored_mixture

MODEL_FLOOR = 1e-300
"""Smallest modelled probability of a cell, so that a quotient stays finite; the updates keep cells that
occur far above it."""


def factor_cnmf(pairs: PairCounts, n_classes: int, *, max_iter: int = 200, tol: float = 1e-6) -> Mixture:
    """The Dawid–Skene model nearest to all observed pairs in divergence, (4a)–(4c); class k is label k."""
    init = factor_multispa(pairs, n_classes)
    left, right, _ = pairs.observed
    R = pairs.frequencies()
    A, weights = unstack_confusions(init).transpose(0, 2, 1), init.weights
    before = divergence(R, left, right, A, weights)
    for _ in range(max_iter):
        A = update_confusions(R, left, right, A, weights)
        weights = update_weights(R, left, right, A, weights)
        after = divergence(R, left, right, A, weights)
        if before - after <= tol * before:
            break
        before = after
    return floored_mixture(weights, A)


def divergence(R: Floats, left: Indices, right: Indices, A: Floats, weights: Floats) -> float:
    """The objective Σ KL(R̂_mj ‖ A_m D A_jᵀ); both sides sum to one, so this is Σ R̂ log(R̂ / model)."""
    seen = R > 0
    return float((R[seen] * np.log(R[seen] / model(left, right, A, weights)[seen])).sum())


def model(left: Indices, right: Indices, A: Floats, weights: Floats) -> Floats:
    """A_m D A_jᵀ of all observed pairs (P, K, K), (2)."""
    return np.maximum((A[left] * weights) @ A[right].transpose(0, 2, 1), MODEL_FLOOR)


def update_confusions(R: Floats, left: Indices, right: Indices, A: Floats, weights: Floats) -> Floats:
    """All A_m ← A_m ∘ Σ_j (R̂_mj / A_m D A_jᵀ) A_j D, columns scaled to one: the bound's minimiser."""
    ratio = R / model(left, right, A, weights)
    pull = np.zeros_like(A)
    np.add.at(pull, left, ratio @ (A[right] * weights))
    np.add.at(pull, right, ratio.transpose(0, 2, 1) @ (A[left] * weights))
    unscaled = A * pull
    mass = unscaled.sum(axis=1, keepdims=True)
    return np.where(mass > 0, unscaled / np.where(mass > 0, mass, 1), A)  # without a pair, or mass: as before


def update_weights(R: Floats, left: Indices, right: Indices, A: Floats, weights: Floats) -> Floats:
    """λ_f ← λ_f Σ_{m,j} A_m(:, f)ᵀ (R̂_mj / A_m D A_jᵀ) A_j(:, f), scaled to one."""
    ratio = R / model(left, right, A, weights)
    unscaled = weights * (A[left] * (ratio @ A[right])).sum(axis=(0, 1))
    return np.asarray(unscaled / unscaled.sum()) if unscaled.sum() > 0 else weights
