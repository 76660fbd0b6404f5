"""Can the fractions of mixtures be trusted? The verdict, with the numbers behind it.

Fractions are as sure as profiles differ: under known profiles H and noise σ their covariance is
σ² (G⁻¹ − G⁻¹11ᵀG⁻¹ / 1ᵀG⁻¹1) with G = H Hᵀ, the covariance of least squares with Σ w = 1 (bounds make it smaller), and
σ² G⁻¹ where the sum is free.
Blind there is a second uncertainty: other profiles may explain the values as well. Nothing short of pure samples and
features that are 0 or 1 rules them out, so fits from other initialisations are compared: how far apart fractions of
equally good fits lie is a lower bound of how wrong they can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latentfit.core.assign import mean_distance
from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examination, Examiner
from latentfit.fractions.em import FractionSteps, fit_parts, residual_squares
from latentfit.fractions.init import Constraint, UnitValues, random_profiles
from latentfit.fractions.select import PartsPath


@dataclass(frozen=True)
class CheckSettings:
    """Limits of the checks, each with its reason."""

    unsure: float = 0.05  # standard error of a fraction that is reported
    unknown: float = 0.3  # and one that leaves no answer
    apart: float = 0.02  # mean distance of equally good blind fractions that is reported; half of `unknown`: no answer
    as_good: float = 1e-3  # relative difference of squared residuals below which fits explain the values equally well
    large_noise: float = 0.1  # a reference that leaves more of a value unexplained is not that of these samples
    min_noise: float = 1e-4  # what is left unexplained below this is rounding, not structure
    # Proportion of what is left unexplained that may lie in one direction. By a reference: all of Houseman's cells .50,
    # one of four lacking .76 to .86, features that are each a little off .50. Blind: Houseman's mixtures by four parts
    # .27, by one to three .57 to .80; a few features or samples ten or five times as noisy as others .17 to .25
    one_direction: float = 2 / 3
    one_direction_blind: float = 1 / 3
    # how many times as much as even noise would make that is, at least: of few samples a large proportion is expected
    beyond_noise: float = 2.0
    beyond_noise_blind: float = 3.0
    power_iterations: int = 30  # towards that direction
    other_inits: int = 3  # random initialisations that a blind fit is compared with


SETTINGS = CheckSettings()


def examine_fractions(
    data: UnitValues,
    fractions: Floats,
    profiles: Floats,
    parts: Sequence[object],
    *,
    known: bool,
    constraint: Constraint = "sum_to_one",
    converged: bool,
    empty: int,
    path: PartsPath | None,
    rng: np.random.Generator,
) -> Examination:
    """Diagnose fitted fractions; `empty` samples had no value at all."""
    examiner = Examiner()
    residual = residual_squares(data, fractions, profiles)
    noise = float(np.sqrt(residual / max(data.n_cells, 1)))
    fixed_sum = constraint == "sum_to_one"
    errors = standard_errors(data, profiles, noise, fixed_sum=fixed_sum)
    examiner.quantities |= {
        "n_samples": len(fractions),
        "n_features": profiles.shape[1],
        "noise": noise,
        "standard_errors": errors.tolist(),
        "known_profiles": known,
        "constraint": constraint,
        "mean_sum": float(fractions.sum(axis=1).mean()),
    }
    if path is not None:
        examiner.quantities["left_out_errors"] = path.errors
    if not known:  # a reference serves one sample as well
        examiner.check_size(len(fractions), "samples")
    _examine_profiles(examiner, profiles, parts, errors, fixed_sum)
    if known and noise > SETTINGS.large_noise:
        examiner.doubt(
            "caution",
            f"The reference leaves ± {noise:.2f} of a value unexplained: it lacks a part of these samples, or was "
            "measured in another way.",
        )
    elif noise > SETTINGS.min_noise:
        _examine_residuals(examiner, data, fractions, profiles, known)
    if not known and 1 < len(parts) >= min(data.values.shape):
        examiner.doubt(
            "not identifiable",
            f"{len(parts)} parts explain {len(fractions)} samples of {profiles.shape[1]} features by being them; ask "
            "for fewer parts, or give a reference.",
        )
    if not known and len(parts) > 1:
        apart = equally_good_distance(data, fractions, residual, rng)
        examiner.quantities["distance_of_equal_fits"] = apart
        if apart is not None and apart > SETTINGS.apart:
            examiner.doubt(
                "not identifiable" if apart > SETTINGS.unknown / 2 else "caution",
                f"Other profiles explain the values as well, with fractions that differ by {apart:.3f} on average: "
                "more is not known without a reference.",
            )
    if empty:
        examiner.doubt("caution", f"{empty} samples have no value at all and got the mean fractions; leave them out.")
    examiner.check_converged(converged, "The fit", "fractions")
    return examiner.conclude()


def standard_errors(data: UnitValues, profiles: Floats, noise: float, *, fixed_sum: bool = True) -> Floats:
    """Standard error (K,) of each part's fraction in a sample with an average number of cells."""
    K = len(profiles)
    seen = data.n_cells / max(data.values.size, 1)
    gram = profiles @ profiles.T * seen
    gram += 1e-12 * max(float(np.trace(gram)) / K, 1.0) * np.eye(K)
    inverse = np.linalg.inv(gram)
    ones = inverse.sum(axis=1)
    covariance = noise**2 * (inverse - fixed_sum * np.outer(ones, ones) / ones.sum())
    return np.asarray(np.sqrt(np.maximum(np.diag(covariance), 0.0)))


def equally_good_distance(
    data: UnitValues, fractions: Floats, residual: float, rng: np.random.Generator
) -> float | None:
    """Largest mean |w − w'| to an equally good fit from another initialisation; None where there is none."""
    steps = FractionSteps.of(data)
    distances = []
    for _ in range(SETTINGS.other_inits):
        initial = random_profiles(steps.turned, fractions.shape[1], rng)
        other = fit_parts(steps, [("other", initial)], max_iter=300, tol=1e-6).refined.sums
        if other.residual <= residual * (1 + SETTINGS.as_good) + 1e-12:
            distances.append(mean_distance(fractions, other.fractions))
    return max(distances) if distances else None


def one_direction(data: UnitValues, fractions: Floats, profiles: Floats) -> tuple[float, float]:
    """Fraction of the residual in one direction, and that relative to the most that even noise makes."""
    left = data.values - fractions @ profiles
    if data.observed is not None:
        left = np.where(data.observed, left, 0.0)
    n, m = left.shape
    total = float(np.vdot(left, left))
    direction = left[int((left**2).sum(axis=1).argmax())]
    for _ in range(SETTINGS.power_iterations):
        direction = (left @ direction) @ left
        direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
    along = left @ direction
    fraction = float(along @ along) / max(total, 1e-300)
    return fraction, float(fraction * n * m / (np.sqrt(n) + np.sqrt(m)) ** 2)


def _examine_residuals(examiner: Examiner, data: UnitValues, fractions: Floats, profiles: Floats, known: bool) -> None:
    """Is what is left noise, or another part?"""
    fraction, times = one_direction(data, fractions, profiles)
    examiner.quantities |= {"residual_in_one_direction": fraction, "residual_direction_over_noise": times}
    most, least = SETTINGS.one_direction, SETTINGS.beyond_noise
    sentence = (
        f"{fraction:.0%} of what the reference leaves unexplained lies in one direction, which noise does not: it "
        "lacks a part of these samples, or was measured in another way."
    )
    if not known:
        most, least = SETTINGS.one_direction_blind, SETTINGS.beyond_noise_blind
        sentence = (
            f"What {len(profiles)} parts leave unexplained is not noise: {fraction:.0%} of it lies in one direction, "
            f"{times:.1f} times as much as noise would make; ask for more parts."
        )
    if fraction > most and times > least:
        examiner.doubt("caution", sentence)


def _examine_profiles(
    examiner: Examiner, profiles: Floats, parts: Sequence[object], errors: Floats, fixed_sum: bool
) -> None:
    K = len(profiles)
    if K < 2:
        return
    worst = int(errors.argmax())
    rest = np.abs(profiles - profiles[worst]).mean(axis=1)
    rest[worst] = np.inf
    near = parts[int(rest.argmin())]
    examiner.quantities["nearest_profiles"] = float(rest.min())
    free = K - 1 if fixed_sum else K
    span = profiles[1:] - profiles[0] if fixed_sum else profiles
    if profiles.shape[1] < free or errors[worst] > SETTINGS.unknown or np.linalg.matrix_rank(span) < free:
        examiner.doubt(
            "not identifiable",
            f"The profile of part {parts[worst]!r} is nearly a mixture of others (its nearest is {near!r}), so its "
            "fraction cannot be estimated; add features in which they differ, or leave one of them out.",
        )
    elif errors[worst] > SETTINGS.unsure:
        examiner.doubt(
            "caution",
            f"The fraction of part {parts[worst]!r} is known to ± {errors[worst]:.2f} only (its nearest is {near!r}); "
            "add features in which they differ.",
        )
