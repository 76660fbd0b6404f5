"""Can the fractions of mixtures be trusted? The verdict, with the numbers behind it.

Fractions are as sure as profiles differ: under known profiles H and noise σ their covariance is
σ² (G⁻¹ − G⁻¹11ᵀG⁻¹ / 1ᵀG⁻¹1) with G = H Hᵀ, the covariance of least squares with Σ w = 1 (bounds make it smaller), and
σ² G⁻¹ where the sum is free.
Blind there is a second uncertainty: other profiles may explain the values as well. Nothing short of pure samples and
features that are 0 or 1 rules them out, so fits from other initialisations are compared: how far apart fractions of
equally good fits lie is a lower bound of how wrong they can be. So is how far apart fractions from two halves of the
features lie. docs/guide/fractions.md ("The verdict") lists every check with its limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import mean_distance
from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examination, Examiner, Expectation, FitReport
from latentfit.fractions.em import FractionSteps, fit_parts, initial_profiles, residual_squares
from latentfit.fractions.init import Constraint, UnitValues, fractions_of, random_profiles
from latentfit.fractions.select import PartsPath, predicts_better


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
    gained: float = 1.0  # standard errors by which so many parts must predict better than one fewer, as in the choice
    halves_apart: float = 0.1  # mean distance of blind fractions from two halves of the features: a tenth of a sample
    off_sum: float = 0.05  # by which fractions whose sum is free may miss a sum of one
    sure: float = 3.0  # standard errors that make such a difference more than noise
    # times the median sample's residual: noise makes 1.2 of it from 100 features on, another tissue 5 and more
    outlying: float = 3.0
    # proportion of the samples that may be copies, which differ by less than half of what two measurements do
    copied: float = 0.05
    same_measurement: float = 0.5
    compared: int = 4_000  # samples that are compared with one another
    min_features: int = 20  # with fewer the residual of a sample is itself too uncertain


SETTINGS = CheckSettings()

ABOUT_THE_NUMBER = ("structure", "fewer_parts_than_samples", "evidence_for_number", "stability")
"""Checks that reject the number of blind parts when they fail: headlines do not announce it as found then."""


def rejects_number(report: FitReport) -> bool:
    """Whether a failed check rejects the number of parts."""
    blind = not report.quantities.get("known_profiles", False)
    named = {*ABOUT_THE_NUMBER, *(["residual_direction"] if blind else [])}
    return any(check.name in named and not check.passed for check in report.checks)


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
        _examine_structure(examiner, data, len(parts), path, rng)
    _examine_profiles(examiner, profiles, parts, errors, fixed_sum)
    if known:
        examiner.check(
            "noise", "Values that the reference explains", noise <= SETTINGS.large_noise,
            f"The reference leaves ± {noise:.2f} of a value unexplained (limit {SETTINGS.large_noise}): it lacks a "
            "part of these samples, or was measured in another way; add the part (--reference), or measure the "
            "reference as the samples were.",
            value=noise, limit=SETTINGS.large_noise,
        )  # fmt: skip
    usual = _examine_samples(examiner, data, fractions, profiles)
    if noise > SETTINGS.min_noise:
        _examine_residuals(examiner, _rows_of(data, usual), fractions[usual], profiles, known)
    if known and fixed_sum and np.linalg.matrix_rank(profiles) == len(profiles):
        _examine_sum(examiner, data, profiles, noise)
    off = float(errors.mean())
    if not known and noise > SETTINGS.min_noise:
        _examine_copies(examiner, data, noise, rng)
    if not known and len(parts) > 1:
        off = max(off, _examine_blind(examiner, data, fractions, residual, rng))
    examiner.check(
        "empty_samples", "Samples that have values", not empty,
        f"{empty} samples have no value at all (limit 0) and got the mean fractions; leave them out of the file.",
        value=empty, limit=0,
    )  # fmt: skip
    examiner.check_converged(converged, "The fit", "fractions")
    examiner.expected = expected_error(off, known, len(parts))
    return examiner.conclude()


def expected_error(off: float, known: bool, n_parts: int) -> Expectation:
    """By how much a fraction is expected to be off, one standard error."""
    if n_parts == 1:
        sentence = "There is one part, so every fraction is 1."
    elif known:
        sentence = f"If the reference is right, a fraction is expected to be off by ± {off:.3f} (one standard error)."
    else:
        sentence = (
            f"A fraction is expected to be off by ± {off:.3f} at least: other profiles than these can explain values "
            "as well."
        )
    return Expectation("error of a fraction", off if n_parts > 1 else 0.0, sentence=sentence)


def _examine_structure(
    examiner: Examiner, data: UnitValues, n_parts: int, path: PartsPath | None, rng: np.random.Generator
) -> None:
    """Are there parts, so many, and fewer of them than samples and features?"""
    examiner.check(
        "structure", "More than one part", n_parts > 1,
        "One part explains the values (limit 2), so no structure was found: either samples are all made alike, or "
        "there are too few of them to show how they differ; bring more samples, or give a reference (--reference).",
        value=n_parts, limit=2,
    )  # fmt: skip
    if n_parts == 1:
        return
    most = min(data.values.shape)
    room = examiner.check(
        "fewer_parts_than_samples", "Fewer parts than samples and features", n_parts < most,
        f"{n_parts} parts explain {data.values.shape[0]} samples of {data.values.shape[1]} features by being them "
        f"(limit {most - 1}); ask for fewer parts (n_components, --components), or give a reference (--reference).",
        value=n_parts, limit=most - 1, level="not identifiable",
    )  # fmt: skip
    if path is None and room:
        gain = predicts_better(data, n_parts, rng)
        examiner.check(
            "evidence_for_number", "No more parts than left-out values show", gain > SETTINGS.gained,
            f"{n_parts} parts predict values that were left out no better than {n_parts - 1} do (the gain is "
            f"{gain:.1f} standard errors, limit {SETTINGS.gained:g}): the data do not show so many; ask for fewer "
            "parts (n_components, --components).",
            value=gain, limit=SETTINGS.gained,
        )  # fmt: skip


def _examine_samples(examiner: Examiner, data: UnitValues, fractions: Floats, profiles: Floats) -> NDArray[np.bool_]:
    """Samples that the profiles explain far worse than the others; returns which do not stand out."""
    squares = _residuals(data, fractions, profiles) ** 2
    observed = np.ones(data.values.shape, bool) if data.observed is None else data.observed
    number = observed.sum(axis=1)
    size = np.sqrt(squares.sum(axis=1) / np.maximum(number, 1))
    asked = number >= SETTINGS.min_features
    if asked.sum() < 3:
        return np.ones(len(size), bool)
    usual = max(float(np.median(size[asked])), SETTINGS.min_noise)
    times = np.where(asked, size / usual, 0.0)
    worst, outlying = int(times.argmax()), times > SETTINGS.outlying
    few = outlying.sum() <= len(size) // 4  # more than that are no exceptions
    examiner.check(
        "outlying_samples", "Samples that are explained as well as the others", not (outlying.any() and few),
        f"{int(outlying.sum())} of {len(size)} samples are explained far worse than the others (sample {worst + 1}: "
        f"{times[worst]:.1f} times the median, limit {SETTINGS.outlying:g}): they hold something else, and their "
        "fractions mean nothing; leave them out of the file.",
        value=times[worst], limit=SETTINGS.outlying,
    )  # fmt: skip
    return np.asarray(~outlying | (not few))


def _examine_copies(examiner: Examiner, data: UnitValues, noise: float, rng: np.random.Generator) -> None:
    """Samples that share their noise with another one: they are copies of it, and no further evidence."""
    n, m = data.values.shape
    if n < 2 or m < SETTINGS.min_features:
        return
    filled = data.filled()
    if n > SETTINGS.compared:
        filled = filled[np.sort(rng.permutation(n)[: SETTINGS.compared])]
    square = np.square(filled).sum(axis=1)
    apart = square[:, None] + square[None] - 2 * filled @ filled.T
    np.fill_diagonal(apart, np.inf)
    usual = SETTINGS.same_measurement * np.sqrt(2) * noise  # two measurements of one mixture differ by √2 noises
    copies = np.sqrt(np.maximum(apart.min(axis=1), 0.0) / m) < usual
    examiner.check(
        "copied_samples", "Samples that are no copies of others", copies.mean() <= SETTINGS.copied,
        f"{int(copies.sum())} of {len(copies)} samples are copies of others: they differ by less than {usual:.3f} per "
        f"value, half of what two measurements do (limit {SETTINGS.copied:.0%} of the samples), so they count as "
        "evidence that does not exist; leave each in the file once.",
        value=float(copies.mean()), limit=SETTINGS.copied,
    )  # fmt: skip


def _examine_sum(examiner: Examiner, data: UnitValues, profiles: Floats, noise: float) -> None:
    """Do fractions add up to one where nothing makes them?"""
    free = fractions_of(data, profiles, "nonnegative").sum(axis=1)
    seen = data.n_cells / max(data.values.size, 1)
    inverse = np.linalg.pinv(profiles @ profiles.T * seen)
    error = noise * float(np.sqrt(max(inverse.sum(), 0.0) / len(free)))
    total = float(free.mean())
    examiner.quantities["mean_free_sum"] = total
    examiner.check(
        "sum_of_fractions", "Fractions that add up to one by themselves",
        abs(total - 1) <= max(SETTINGS.off_sum, SETTINGS.sure * error),
        f"Fractions whose sum is free add up to {total:.2f} on average, not to 1 (limit ± {SETTINGS.off_sum}): the "
        "reference lacks a part of these samples, or was measured in another way; give "
        "constraint='sum_at_most_one' (--constraint sum-at-most-one), or complete the reference.",
        value=total, limit=SETTINGS.off_sum,
    )  # fmt: skip


def _examine_blind(
    examiner: Examiner, data: UnitValues, fractions: Floats, residual: float, rng: np.random.Generator
) -> float:
    """How far apart fractions of equally good fits, and of halves of the features, lie."""
    apart = equally_good_distance(data, fractions, residual, rng)
    examiner.quantities["distance_of_equal_fits"] = apart
    if apart is not None:
        examiner.check(
            "equal_fits", "Equally good fits with the same fractions", apart <= SETTINGS.apart,
            f"Other profiles explain the values as well, with fractions that differ by {apart:.3f} on average (limit "
            f"{SETTINGS.apart}): more is not known without a reference (--reference), or samples that are nearly pure.",
            value=apart, limit=SETTINGS.apart,
            level="not identifiable" if apart > SETTINGS.unknown / 2 else "caution",
        )  # fmt: skip
    halves = halves_distance(data, fractions.shape[1], rng)
    examiner.quantities["distance_of_halves"] = halves
    if halves is not None:
        examiner.check(
            "stability", "Fractions that come back from halves of the features", halves <= SETTINGS.halves_apart,
            f"Fractions from two halves of the features differ by {halves:.3f} on average (limit "
            f"{SETTINGS.halves_apart}), so they depend on which features were measured; ask for fewer parts "
            "(n_components, --components), bring more features, or give a reference (--reference).",
            value=halves, limit=SETTINGS.halves_apart,
        )  # fmt: skip
    return max(apart or 0.0, (halves or 0.0) / 2)  # each half has √2 times the error of the whole


def halves_distance(data: UnitValues, n_parts: int, rng: np.random.Generator) -> float | None:
    """Mean |w − w'| of fits to two halves of the features, the parts matched; None where a half has too few."""
    order = rng.permutation(data.values.shape[1])
    sides = [np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])]
    if min(map(len, sides)) <= n_parts:
        return None
    found = []
    for side in sides:
        observed = None if data.observed is None else np.ascontiguousarray(data.observed[:, side])
        steps = FractionSteps.of(UnitValues(np.ascontiguousarray(data.values[:, side]), observed))
        inits = list(initial_profiles(steps, n_parts, SETTINGS.other_inits, rng))
        found.append(fit_parts(steps, inits, max_iter=300, tol=1e-6).refined.sums.fractions)
    return mean_distance(*found)


def _rows_of(data: UnitValues, rows: NDArray[np.bool_]) -> UnitValues:
    observed = None if data.observed is None else np.ascontiguousarray(data.observed[rows])
    return UnitValues(np.ascontiguousarray(data.values[rows]), observed)


def _residuals(data: UnitValues, fractions: Floats, profiles: Floats) -> Floats:
    """What is left of every value (n, m), 0 where there is none."""
    left = data.values - fractions @ profiles
    return left if data.observed is None else np.where(data.observed, left, 0.0)


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
    left = _residuals(data, fractions, profiles)
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
        f"{fraction:.0%} of what the reference leaves unexplained lies in one direction (limit {most:.0%}), which "
        "noise does not: it lacks a part of these samples, or was measured in another way; add the part, or give "
        "constraint='sum_at_most_one' (--constraint sum-at-most-one)."
    )
    if not known:
        most, least = SETTINGS.one_direction_blind, SETTINGS.beyond_noise_blind
        sentence = (
            f"What {len(profiles)} parts leave unexplained is not noise: {fraction:.0%} of it lies in one direction "
            f"(limit {most:.0%}), {times:.1f} times as much as noise would make; ask for more parts (n_components, "
            "--components)."
        )
    examiner.check(
        "residual_direction", "Noise in what is left unexplained", not (fraction > most and times > least), sentence,
        value=fraction, limit=most,
    )  # fmt: skip


def _at_most_one(error: float) -> str:
    """A standard error of a fraction: beyond 1 its size means nothing."""
    return f"{error:.2f}" if error <= 1 else "above 1"


def _examine_profiles(
    examiner: Examiner, profiles: Floats, parts: Sequence[object], errors: Floats, fixed_sum: bool
) -> None:
    """Do the profiles differ enough for fractions to be estimated, and how well?"""
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
    determined = not (
        profiles.shape[1] < free or errors[worst] > SETTINGS.unknown or np.linalg.matrix_rank(span) < free
    )
    examiner.check(
        "profiles_determined", "Profiles that are no mixture of others", determined,
        f"The profile of part {parts[worst]!r} is nearly a mixture of others (its nearest is {near!r}; the standard "
        f"error of its fraction is {_at_most_one(errors[worst])}, limit {SETTINGS.unknown}), so its fraction cannot be "
        "estimated; add features in which they differ, or leave one of them out of the reference.",
        value=errors[worst], limit=SETTINGS.unknown, level="not identifiable",
    )  # fmt: skip
    if determined:
        examiner.check(
            "standard_errors", "Standard error of the least certain fraction", errors[worst] <= SETTINGS.unsure,
            f"The fraction of part {parts[worst]!r} has a standard error of {errors[worst]:.2f} (limit "
            f"{SETTINGS.unsure}; its nearest is {near!r}); add features in which they differ, or join the two.",
            value=errors[worst], limit=SETTINGS.unsure,
        )  # fmt: skip
