r"""What the theorems of the crowd paper state for one data set: every quantity in them.

Paper     Ibrahim & Fu 2022, Theorem 1 (imputation by designated workers), Theorem 2 (robust imputation, bound
          (10)), Assumption 1, Theorem 3 and Lemma 8 (the rotation)
Needs     a fitted model; where a theorem needs co-labelled pairs, the pair counts
Promises  the quantities at the fitted parameters. Hidden constants (Ω, O, C) are one here, and named so: the
          numbers compare data sets, they are not guarantees
Differs   ζ of Assumption 1 (ii) is computed exactly. For Θ with columns θ_c, ‖H(j,:)Θ‖² / ‖HΘ‖²_F is a
          ratio of sums over c, never above its largest term, so rank one suffices; and
          sup_θ (h_jᵀθ)² / ‖Hθ‖² is h_jᵀ(HᵀH)⁻¹h_j, the leverage of row j. "Positive" entries of H are those
          where the confusion probability exceeds `SUPPORT`: a smoothed fit has no zeros. Theorem 3 writes
          q₍₀₎ where Lemma 8, which proves it, has its square root ‖E_Q₍₀₎‖; Lemma 8 is followed. δ divides
          by the bracket, as its proof does. γ is the theorem's, a bound on each κ(A_m); its proof (Lemma 3) takes the
          largest singular value of any worker over the smallest of any, which may be more

Symbols   paper     here          shape      meaning
          H         factor        (M·K, K)   stacked confusion matrices times D^½
          A_m       confusions    (M, K, K)  here (worker, true, given)
          D         weights       (K,)       class prior
          Ω, S_mj   pairs                    observed pairs of workers and their common tasks
          γ         gamma         scalar     largest condition number of a confusion matrix
          ϱ         smallest      scalar     least singular value of an observed co-occurrence matrix
          σ ζ Δ γ₀ η ρ ν                     as in Assumption 1 and Theorem 3
"""

from __future__ import annotations

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.core.verdict import WORST_CONDITION

DELTA = 0.05
"""δ of Theorem 1: the bound may fail once in twenty times."""
SUPPORT = 0.01
"""A confusion rarer than one in a hundred counts as zero (Δ of Assumption 1)."""
SPECTRUM_WORK = 2_000_000
"""Pairs · K³ of the decomposed co-occurrence matrices; with more, ϱ is that of every so many-th pair."""

NOTHING = 1e-60
"""A singular value or spectral gap of zero, still invertible to the fourth power: the quantities stay finite."""


Quantities = dict[str, float | None]


def stacked_factor(mixture: Mixture) -> Floats:
    """Stack the confusion matrices to H = [A₁; …; A_M] D^½ (6).

    Parameters
    ----------
    mixture : Mixture
        The fitted model, class k standing for label k.

    Returns
    -------
    factor : ndarray of shape (n_workers * n_classes, n_classes)
        Rows by worker and given label.
    """
    return np.asarray(mixture.table * np.sqrt(mixture.weights))


def theorem_1(mixture: Mixture, pairs: PairCounts) -> Quantities:
    """γ, ϱ, the common tasks S that Theorem 1 asks for, and the error it promises; constants one.

    Parameters
    ----------
    mixture : Mixture
        The fitted model, class k standing for label k.
    pairs : PairCounts
        Co-occurrences of the observed pairs of workers.

    Returns
    -------
    quantities : dict
        gamma, rho_min, fewest_common_tasks, asked_common_tasks and promised_error; None without a pair.
    """
    confusions = unstack_confusions(mixture)
    K = mixture.n_classes
    values = np.linalg.svd(confusions, compute_uv=False)
    gamma = float((values[:, 0] / np.maximum(values[:, -1], values[:, 0] / WORST_CONDITION)).max())
    left, right, sizes = pairs.observed
    if not len(sizes):
        return {"gamma": gamma, "rho_min": None, "asked_common_tasks": None, "promised_error": None}
    every = max(-(-len(left) * K**3 // SPECTRUM_WORK), 1)
    scaled = confusions.transpose(0, 2, 1) * mixture.weights  # A_m D with A_m (given, true)
    blocks = scaled[left[::every]] @ confusions[right[::every]]  # R_mj = A_m D A_jᵀ (2)
    smallest = max(float(np.linalg.svd(blocks, compute_uv=False)[:, -1].min()), NOTHING)
    log_term, fewest = np.log(1 / DELTA), int(sizes.min())
    asked = K**2 * gamma**2 * log_term / smallest**4
    error = K**2 * gamma**3 * np.sqrt(log_term) / (smallest**2 * np.sqrt(fewest))
    return {
        "gamma": gamma,
        "rho_min": smallest,
        "fewest_common_tasks": fewest,
        "asked_common_tasks": float(asked),
        "promised_error": float(error),
    }


def theorem_2(pairs: PairCounts, n_classes: int) -> Quantities:
    """Theorem 2: the two terms of (10) with C = 1, what pairs nobody shares cost and what sampling costs.

    Parameters
    ----------
    pairs : PairCounts
        Co-occurrences of the observed pairs of workers.
    n_classes : int
        Number of classes.

    Returns
    -------
    quantities : dict
        missing_term and sampling_term; None without a pair.
    """
    M, sizes = pairs.n_columns, pairs.observed[2]
    if M < 2 or not len(sizes):
        return {"missing_term": None, "sampling_term": None}
    all_pairs, seen = M * (M - 1) / 2, len(sizes)  # L, |Ω|
    missing = np.sqrt(M * n_classes**2 * np.log(M) / seen)
    sampling = (1 / seen + 1 / all_pairs) * float(((1 + np.sqrt(M)) / np.sqrt(sizes)).sum())
    return {"missing_term": float(missing), "sampling_term": float(sampling)}


def leverages(factor: Floats) -> Floats:
    """Leverage h_jᵀ(HᵀH)⁻¹h_j of every row; of a rank-deficient H within its row space.

    Parameters
    ----------
    factor : ndarray of shape (n_rows, n_classes)
        H, as `stacked_factor` gives it.

    Returns
    -------
    leverages : ndarray of shape (n_rows,)
    """
    left, values, _ = np.linalg.svd(factor, full_matrices=False)
    nonzero = values > values[0] * len(factor) * np.finfo(float).eps if values[0] > 0 else values > 0
    return np.asarray(np.square(left[:, nonzero]).sum(axis=1))


def theorem_3(mixture: Mixture, noise: float) -> dict[str, float]:
    """Assumption 1 with (14), and Theorem 3 at the fitted H, constants one; `noise` is ν = ‖N‖_F.

    ρ is the rate of (16a), η σ and ν make the neighbourhood of (16b).

    Parameters
    ----------
    mixture : Mixture
        The fitted model, class k standing for label k.
    noise : float
        ν, the error of H in Frobenius norm.

    Returns
    -------
    quantities : dict
        The quantities by name; `allowed_positive` is the bound (14) on |Δ| and `delta` the probability of failure.
    """
    factor = stacked_factor(mixture)
    rows, K = factor.shape  # M·K, K
    sigma = float(np.linalg.norm(factor))
    zeta = float(leverages(factor).max())  # (ii)
    positive = mixture.table > SUPPORT
    n_positive = int(positive.sum())  # |Δ|
    beta = np.append(np.linalg.svd(factor, compute_uv=False), 0.0)
    gamma_0 = float((beta[:-1] ** 2 - beta[1:] ** 2).min())  # (iv)
    eta = n_positive / (rows * K) * (1 + rows * zeta)
    rho = K * eta * sigma**4 / max(gamma_0, NOTHING) ** 2
    spread = K**2 * (1 - (n_positive - 1) / (rows * K))
    smallest = float(factor[positive].min()) if n_positive else 0.0
    return {
        "sigma": sigma,
        "zeta": zeta,
        "n_positive": n_positive,
        "allowed_positive": rows * gamma_0**2 / ((1 + rows * zeta) * sigma**4),  # (14)
        "gamma_0": gamma_0,
        "eta": eta,
        "rho": rho,
        "noise": noise,
        "smallest_positive": smallest,
        "delta": float(min(2 * np.exp(-2 * n_positive / max(spread, np.finfo(float).tiny)), 1.0)),
    }


def admissible_alpha(sigma: float, smallest_positive: float, noise: float, start: float = 0.0) -> dict[str, float]:
    """Lemma 8: the interval of α for noise ν and an initialisation with q₍₀₎ = ‖Q₍₀₎ − Q‖²; empty when low > high.

    σ √q₍₀₎ + ν ≤ α ≤ min_Δ H − σ √q₍₀₎ − ν (83); (15) says that it is not empty. With ``start=0`` it is the widest any
    initialisation could have.

    Parameters
    ----------
    sigma, smallest_positive, noise : float
        As `theorem_3` gives them.
    start : float, default=0.0
        q₍₀₎, the squared distance of the initial rotation from the true one.

    Returns
    -------
    interval : dict
        alpha_low and alpha_high.
    """
    margin = sigma * float(np.sqrt(start)) + noise
    return {"alpha_low": margin, "alpha_high": smallest_positive - margin}
