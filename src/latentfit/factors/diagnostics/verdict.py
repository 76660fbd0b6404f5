"""Checks of fitted binary latent factors (switches), with the numbers behind the verdict.

`not identifiable` when another set of switches explains the rows as well (`factors/theory.py`): a switch that is always
on, switches that exclude one another, one that implies another. `caution` when nothing rises above the noise, when a
switch's eigenvalue does not, or one more does; when a switch's eigenpair is degenerate (it is on in half of the rows,
whatever the others do); when its values are not two bumps, when half of the rows give another answer, when few rows
hold a switch; when noise differs between features or is shared by them, when rows lie far from every combination of
switches or repeat one another, when a feature numbers the rows, or when EM was cut short.

What the model itself expects to be wrong are the switch states: the posterior probability that a predicted state is
the other one, where the prediction comes from the half of the rows that the row is not in.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018: conditions (I), (II), (27) and (31) on the estimated P(h) with its
          moments (8), Lemma 2; Kolmogorov–Smirnov scores (29)–(30) of the chosen candidates
Needs     fitted switches, the rows they were fitted to, the spectral initialisation
Promises  a switch whose conditions fail is named; simulated cases hold the verdicts (tests/factors)
Differs   conditions are stated of the truth; here they are checked on the fit, and on fits of two halves of the rows

Symbols   paper   here             shape        meaning
          C, 𝒞    C, third         (d, d)       E[h ⊗ h]; 𝒞(I, I, e_i)
          J_p     spectrum         (d−1,)       eigenvalues of the projected Jacobian, relative to λ
          Δ_n     scores           (d,)         Kolmogorov–Smirnov distances
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import kolmogorov

from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.matrix import hash_rows
from latentfit.core.sampling import lower_half
from latentfit.core.tensor.binary import SEARCH, SpectralInit, sampled, score, spectral_init
from latentfit.core.tensor.whitened import ALPHA, RATIO_ALPHA, Spectrum, ratio_threshold, second_moments, threshold
from latentfit.core.verdict import Examination, Examiner, Expectation, FitReport
from latentfit.engine.passes import RowPasses
from latentfit.factors.diagnostics.limits import LIMITS
from latentfit.factors.diagnostics.missing import count_observed, examine_cells
from latentfit.factors.diagnostics.residuals import repeated_rows, residuals_of, running_number
from latentfit.factors.em.missing import most_likely_observed, posterior_observed, refine_observed
from latentfit.factors.em.states import pair_moments
from latentfit.factors.em.steps import (
    SwitchParams,
    initial_params,
    most_likely,
    plane_steps,
    posterior,
    way_to_sum,
)
from latentfit.factors.init import fill_rows
from latentfit.factors.select import MOST_TESTED, observed_values, unequal_noise
from latentfit.factors.theory import Rival, combination_text, condition_two, tested_rivals

NUMBER_CHECKS = {"structure_found", "noise_dimensions", "last_switch", "further_switch"}
"""Checks that reject the number of switches."""
_FEWER = "ask for fewer switches (n_components, --components)"


def is_shown(report: FitReport) -> bool:
    """Whether no check rejected the number of switches, so that it may be announced as found."""
    return not {check.name for check in report.checks if not check.passed} & NUMBER_CHECKS


def examine_switches(
    X: RowPasses,
    params: SwitchParams,
    start: SpectralInit | None,
    eigen: Spectrum,
    *,
    converged: bool,
    seed: int = 0,
    noise: float | None = None,
    last: tuple[float, float] | None = None,
    missing: Floats | None = None,
) -> Examination:
    """Diagnose fitted switches; X are the rows they were fitted to, of which samples are looked at.

    Parameters
    ----------
    X : RowPasses
        Rows of the fit.
    params : SwitchParams
        Fitted switches.
    start : SpectralInit or None
        Spectral initialisation.
    eigen : Spectrum
        Eigenvalues of the second moment.
    converged : bool
        Whether EM converged.
    seed : int, default=0
        Seed of the samples.
    noise : float or None, default=None
        σ where it was given.
    last : tuple of float, optional
        Eigenvalue of the last switch and its threshold where they are not those of X, whose features were divided by
        noise that the fit itself made room in.
    missing : ndarray of shape (n, m), optional
        The rows as they came, NaN where X holds draws from the fitted model.

    Returns
    -------
    Examination
    """
    examiner = Examiner()
    n, on = X.n_rows, on_probabilities(params)
    examiner.quantities |= {
        "n_rows": n,
        "n_switches": params.d,
        "noise": float(np.sqrt(params.sigma2)),
        "spread": params.spread.tolist(),
        "rows_on": (on * n).tolist(),
    }
    examiner.check_size(n, "rows")
    if missing is None:
        _examine_rows(examiner, on, n)
    else:
        counts = count_observed(missing, params)
        _examine_rows(examiner, on, n, np.where(on < 0.5, counts.rows_on, counts.rows_off))
        examine_cells(examiner, counts, X.rows.names)
    if _examine_structure(examiner, eigen, noise):
        _examine_eigenvalues(examiner, eigen, params.d, noise, last, missing, seed)
    if start is not None:
        _examine_candidates(examiner, start)
    many, hashes = X.sample(SEARCH.score_rows[1])
    off = _examine_bumps(examiner, many, params, on)
    some = sampled(LIMITS.test_rows, hashes)
    rows = many[some]
    _examine_residuals(examiner, X, rows, params, absorbed=off)
    even = np.zeros(params.d, bool)
    if params.d <= LIMITS.examined:
        even = _examine_conditions(examiner, params, n)
        _examine_rivals(examiner, rows, params, on, noise)
    keys = hashes[some]
    if missing is not None:
        hashes = hash_rows(missing, seed)
        some = sampled(LIMITS.test_rows, hashes)
        rows, keys = missing[some], hashes[some]
    if params.d > 1 and examiner.conclude().verdict != "not identifiable":
        _examine_halves(examiner, rows, params, keys, seed, noise, even)
    else:
        examiner.expected = _expected([_wrong_states(rows, params, params)])
    examiner.check_converged(converged, "EM", "weights")
    return examiner.conclude()


def on_probabilities(params: SwitchParams) -> Floats:
    """P(switch on) (d,)."""
    return np.asarray(np.diag(pair_moments(np.exp(params.log_prior), params.d)))


# ------------------------------------------------------------------- data


def _examine_rows(examiner: Examiner, on: Floats, n: int, fewest: Floats | None = None) -> None:
    """Is every switch on, and off, in some rows? `fewest`: rows of its rarer state, where not all rows show it."""
    fewest = np.minimum(on, 1 - on) * n if fewest is None else fewest
    fewest = np.where(on > LIMITS.always, np.inf, fewest)  # a baseline: its own check says so
    worst = int(fewest.argmin())
    state = "on" if on[worst] < 0.5 else "off"
    examiner.check(
        "rare_switches", "Rows in the rarer state of a switch", fewest[worst] >= LIMITS.fewest_rows,
        f"Switch {worst} is {state} in about {min(fewest[worst], n):.0f} rows, fewer than {LIMITS.fewest_rows:.0f}, so "
        f"its weights are hardly known; bring more rows or {_FEWER}.",
        value=fewest[worst] if np.isfinite(fewest[worst]) else None, limit=LIMITS.fewest_rows,
    )  # fmt: skip


def _examine_structure(examiner: Examiner, eigen: Spectrum, noise: float | None) -> bool:
    """Does anything vary beyond noise? The mean of the features is no structure."""
    changing = (eigen.squares - float(eigen.mean @ eigen.mean)) / max(eigen.squares, 1e-300)
    examiner.check(
        "resolution", "Fraction of the squares that changes from row to row", changing >= LIMITS.resolved,
        "The features lie so far from 0 beside their spread that rounding hides what changes in them (a fraction of "
        f"{changing:.1g} of their squares, limit {LIMITS.resolved:g}); subtract a constant from each feature first.",
        value=changing, limit=LIMITS.resolved,
    )  # fmt: skip
    inside = eigen.vectors.T @ eigen.mean
    values = np.maximum(np.linalg.eigvalsh(np.diag(eigen.values) - np.outer(inside, inside))[::-1], 0.0)
    size = eigen.n, eigen.m, 1
    limit = ratio_threshold(values, *size, RATIO_ALPHA) if noise is None else threshold(values, *size, ALPHA, noise**2)
    examiner.quantities |= {"largest_covariance_eigenvalue": float(values[0]), "covariance_noise_threshold": limit}
    return examiner.check(
        "structure_found", "Largest eigenvalue of the covariance of the features", values[0] > limit,
        f"No structure found: the largest eigenvalue of the covariance of the features, {values[0]:.3g}, does not rise "
        f"above what noise alone makes, {limit:.3g}; do not interpret the switches, or bring more rows or features.",
        value=values[0], limit=limit,
    )  # fmt: skip


def _examine_eigenvalues(
    examiner: Examiner, eigen: Spectrum, d: int, noise: float | None = None, known: tuple[float, float] | None = None,
    missing: Floats | None = None, seed: int = 0,
) -> None:  # fmt: skip
    """Does every eigenvalue that was taken rise above the noise, and does none that was left?

    Where values are missing the observed cells are tested: rows completed by the fitted model agree with it.
    """
    sigma2 = None if noise is None else noise**2
    room = min(eigen.n, eigen.m)
    seen = examiner.check(
        "noise_dimensions", "Switches, fewer than the dimensions of the data", d < room,
        f"{d} switches use all {room} dimensions of the data, so noise cannot be seen apart from them; bring more "
        f"features or rows, or {_FEWER}.",
        value=d, limit=room - 1,
    )  # fmt: skip
    if not seen:
        return
    tested = missing is not None and eigen.m <= MOST_TESTED
    if missing is not None and tested:
        known = observed_values(missing, d - 1, seed).compared(LIMITS.observed_alpha, noise, as_noise=True)
    size = eigen.n, eigen.m, d
    of_last = (
        ratio_threshold(eigen.values, *size, RATIO_ALPHA)
        if noise is None
        else threshold(eigen.values, *size, ALPHA, sigma2)
    )
    last, limit = known or (float(eigen.values[d - 1]), of_last)
    examiner.quantities |= {"smallest_eigenvalue": last, "noise_threshold": limit}
    examiner.check(
        "last_switch", "Eigenvalue of the last switch", last > limit,
        f"Eigenvalue {d}, {last:.3g}, does not rise above what noise alone makes, {limit:.3g}: the data show "
        f"fewer switches; {_FEWER} or bring more rows.",
        value=last, limit=limit,
    )  # fmt: skip
    if d + 1 < room:
        further, beyond = float(eigen.values[d]), threshold(eigen.values, eigen.n, eigen.m, d + 1, 0.001, sigma2)
        near = LIMITS.near
        if missing is not None and tested:
            found = observed_values(missing, d, seed)
            further, beyond = found.compared(LIMITS.observed_alpha, noise, as_noise=True)
            near = 1.0
        examiner.quantities["next_eigenvalue_over_threshold"] = further / max(beyond, 1e-300)
        examiner.check(
            "further_switch", "Largest eigenvalue that no switch explains",
            not further > near * beyond > 1e-12 * eigen.values[0],
            f"A further eigenvalue, {further:.3g}, rises above what noise alone makes, {near * beyond:.3g}: there are "
            "more switches, or noise is not the same in all features; ask for more switches (n_components, "
            "--components), or give feature_noise='unequal' (--feature-noise unequal).",
            value=further, limit=near * beyond,
        )  # fmt: skip


def _examine_candidates(examiner: Examiner, start: SpectralInit) -> None:
    """What the search chose, and how far the next candidate was."""
    found = start.candidates
    chosen, rest = found.scores[found.chosen], np.delete(found.scores, found.chosen)
    examiner.quantities |= {
        "candidates": len(found.scores),
        "scores": chosen.tolist(),
        "score_null_level": SEARCH.ks_null
        / np.sqrt(max(found.n_scored, 1)),  # a true switch exceeds it once in a hundred
        "next_score": float(rest.min()) if len(rest) else None,
        "rejected_scores": np.sort(rest)[: LIMITS.most_rejected].tolist(),
        "filter": found.filter,
        "newton_condition": found.pairs.condition[found.chosen].tolist(),
        "eigenvalue_gap": float(np.diff(np.sort(found.pairs.eigenvalues)).min()) if len(found.scores) > 1 else None,
    }


def _examine_bumps(examiner: Examiner, rows: Floats, params: SwitchParams, on: Floats) -> bool:
    """Unmixed values of each fitted switch against the two Gaussians they should be (29); whether one is not."""
    unmixed = rows @ np.linalg.pinv(params.W)
    spread = params.spread
    if float(spread.max()) < 1e-4:  # without noise values are 0 and 1, and a distribution has no shape to test
        return False
    y = np.eye(params.d) * np.sqrt(np.clip(on, 0, 1))  # `score` reads the fraction of rows off the length
    scaled = score(unmixed / np.sqrt(np.maximum(on, 1e-12)), y, spread, "ks")
    examiner.quantities["fitted_scores"] = scaled.tolist()
    worst = int(scaled.argmax())
    limit = max(LIMITS.ks_limit / np.sqrt(len(rows)), LIMITS.ks_effect)
    return not examiner.check(
        "two_values", "Kolmogorov–Smirnov distance of a switch's values from two bumps", scaled[worst] <= limit,
        f"The values of switch {worst} are not two bumps (their distribution is off by {scaled[worst]:.3f}, limit "
        f"{limit:.3f}): what moves these features is not a switch, or noise is not Gaussian; look at a histogram of "
        f"them, and {_FEWER} or use a model of amounts (factor analysis).",
        value=scaled[worst], limit=limit, p_value=kolmogorov(np.sqrt(len(rows)) * scaled[worst]),
    )  # fmt: skip


def _examine_residuals(examiner: Examiner, X: RowPasses, rows: Floats, params: SwitchParams, *, absorbed: bool) -> None:
    """Is what the switches leave noise, equal and independent; and are the rows and features what they seem?

    `absorbed`: a switch is none, so that it may stand for unequal noise.
    """
    names = X.rows.names
    number = running_number(rows, X.n_rows)
    name = None if number is None else names[number]
    examiner.check(
        "running_number", "Features that number the rows", number is None,
        f"Feature {name!r} holds whole numbers that are different in every row (1 such feature, limit 0): it numbers "
        "the rows and says nothing about them; leave it out, or name it as the rows' id (--id).",
        value=0 if number is None else 1, limit=0,
    )  # fmt: skip
    square = float((rows**2).mean())
    if params.sigma2 <= LIMITS.resolved * square:
        return  # without noise nothing is left
    repeated = repeated_rows(rows)
    examiner.quantities["repeated_rows"] = repeated
    examiner.check(
        "repeated_rows", "Rows that repeat another one", repeated <= LIMITS.repeated,
        f"{repeated:.0%} of the rows equal another one in every feature (limit {LIMITS.repeated:.0%}), which "
        "independent rows with noise do not: they count several times, so all tests are too sure; keep one of each.",
        value=repeated, limit=LIMITS.repeated,
    )  # fmt: skip
    found = residuals_of(rows, params)
    examiner.quantities |= {
        "residual_variances": found.variances.tolist(),
        "residual_correlation": found.correlation,
        "outlying_rows": found.outlying,
    }
    _examine_noise(examiner, X, params, found.noise_ratio, found.noise_ratio_limit, absorbed=absorbed)
    first, second = (names[at] for at in found.pair)
    examiner.check(
        "independent_noise", "Largest correlation of what the switches leave of two features",
        abs(found.correlation) <= found.correlation_limit,
        f"What the switches leave of features {first!r} and {second!r} is correlated ({found.correlation:+.2f}, limit "
        f"{found.correlation_limit:.2f}): they share something that is no switch of this fit, and count twice as "
        "evidence; leave one of them out (--drop), or ask for more switches (n_components, --components).",
        value=abs(found.correlation), limit=found.correlation_limit, p_value=found.correlation_p_value,
    )  # fmt: skip
    few = found.outlying <= LIMITS.outlying or found.outlying_p_value > LIMITS.level
    examiner.check(
        "outlying_rows", "Rows far from every combination of switches", few,
        f"{found.outlying:.1%} of the rows lie further from every combination of switches than noise explains (limit "
        f"{LIMITS.outlying:.0%}; {LIMITS.row_tail:.1%} would by chance): noise has heavy tails, or these rows are "
        "something else, and they pull on the weights; leave them out, or give feature_noise='unequal' "
        "(--feature-noise unequal) if some features are noisier.",
        value=found.outlying, limit=LIMITS.outlying, p_value=found.outlying_p_value,
    )  # fmt: skip


def _examine_noise(
    examiner: Examiner, X: RowPasses, params: SwitchParams, ratio: float, limit: float, *, absorbed: bool
) -> None:
    """Is the noise of all features alike, and where a switch is none: would fewer do, if each had noise of its own?"""
    n, m = X.n_rows, X.n_features
    also = ""
    if absorbed and 1 < params.d <= LIMITS.examined and m < n and m <= LIMITS.most_features:
        moments = second_moments(X)
        found = unequal_noise(moments.product / n, n, most=params.d - 1)
        if found is not None:
            low, high = np.sqrt([found.variances.min(), found.variances.max()])
            examiner.quantities["unequal_noise"] = {
                "n_switches": found.count.d, "least": float(low), "most": float(high)
            }  # fmt: skip
            if high / low > ratio:
                ratio = float(high / low)
                also = f", and {found.count.d} switches explain what {params.d} were needed for"
    examiner.check(
        "equal_noise", "Largest over smallest standard deviation of the noise of a feature", ratio <= limit,
        f"Noise differs between features, {ratio:.1f} times from the least to the most (limit {limit:.2f}){also}: the "
        "noisiest features count for too much; fit again with feature_noise='unequal' (--feature-noise unequal), or "
        "scale the features to equal noise.",
        value=ratio, limit=limit,
    )  # fmt: skip


# ------------------------------------------------------------- conditions


def _examine_conditions(examiner: Examiner, params: SwitchParams, n: int) -> NDArray[np.bool_]:
    """Condition (II); and the switches (d,) that are on in half of the rows whatever the others do."""
    smallest, largest, sign = condition_two(params)
    examiner.quantities |= {
        "condition_two": smallest.tolist(), "condition_two_largest": largest.tolist(), "definite": sign
    }  # fmt: skip
    C = pair_moments(np.exp(params.log_prior), params.d)
    p = np.diag(C)
    deviation = np.sqrt(np.maximum(p * (1 - p), 1e-12))
    correlation = np.abs((C - np.outer(p, p)) / np.outer(deviation, deviation)) - np.eye(params.d)
    room = 1 / np.sqrt(n)  # two standard errors of a proportion
    even = (np.abs(p - 0.5) < LIMITS.even + room) & (correlation.max(axis=1) < max(LIMITS.apart, 2 * room))
    return np.asarray(even & (params.d > 2))  # two switches have a third moment together


def _examine_rivals(
    examiner: Examiner, rows: Floats, params: SwitchParams, on: Floats, noise: float | None = None
) -> None:
    basis = np.linalg.qr(params.W.T)[0]
    steps = plane_steps(rows, basis, way_to_sum(params), noise)
    inside = replace(params, W=params.W @ basis)
    base = em(steps, inside, max_iter=2, tol=0.0)
    found = tested_rivals(steps, base.params, base.log_likelihood)
    examiner.quantities["rivals"] = [
        {"u": list(r.u), "rigidity": r.rigidity, "outside": r.outside, "cost": r.cost, "needed": r.needed}
        for r in found
    ]
    standing = [rival for rival in found if rival.stands]
    evidence = [rival.cost / rival.needed for rival in found if 0 < rival.needed < np.inf and rival.cost < np.inf]
    examiner.check(
        "unique_switches", "Log-likelihood that another set of switches loses, over what is evidence", not standing,
        f"{_report_rival(standing, on)} It loses {standing[0].cost:.1f} nats; {standing[0].needed:.1f} (limit) would "
        "be evidence against it." if standing else "",
        value=min(evidence, default=None), limit=1.0, level="not identifiable",
    )  # fmt: skip


def _report_rival(standing: list[Rival], on: Floats) -> str:
    always = np.flatnonzero(on > LIMITS.always)
    pairs = {rival.u for rival in standing if sorted(rival.u)[-2:] == [1, 1] and sum(map(abs, rival.u)) == 2}
    d = len(on)
    if len(always):
        return (
            f"Switch {always[0]} is always on, a baseline: each other switch and its opposite (1 − h) explain the rows "
            "alike; take switches that are on in less than half of the rows, or subtract the baseline first."
        )
    if len(pairs) >= min(d * (d - 1) // 2, 3) and d > 2:
        return (
            "Switches exclude one another: rows are clusters, every union of switches explains them as well; use "
            "search='power', which takes the single clusters, or a mixture model."
        )
    return (
        f"The combination {combination_text(standing[0].u)} is a switch too, as far as these rows tell: it could "
        "replace one of its parts, with other weights and the same likelihood; bring rows in which these switches are "
        "on together and apart."
    )


# ----------------------------------------------------------------- halves


def _examine_halves(
    examiner: Examiner, rows: Floats, params: SwitchParams, hashes: NDArray[np.uint64], seed: int,
    noise: float | None = None, even: NDArray[np.bool_] | None = None,
) -> None:  # fmt: skip
    """Each half of the rows fitted by itself, from the answer, and one from its own moments too: is it the same?"""
    first = lower_half(hashes)
    change, wrong = np.zeros(params.d), [_wrong_states(rows, params, params)]
    for half, other, own in ((rows[first], rows[~first], True), (rows[~first], rows[first], False)):
        if len(half) <= params.d:
            change[:] = np.inf
            break
        fitted = _fit_half(half, params, seed, noise, own=own)
        change = np.maximum(change, relative_change(params.W, fitted.W))
        wrong.append(_wrong_states(other, params, fitted.permuted(matched_switches(params.W, fitted.W))))
    examiner.quantities["half_sample_change"] = [float(min(value, 1e6)) for value in change]
    examiner.expected = _expected(wrong)
    worst = int(change.argmax())
    examiner.check(
        "half_samples", "Change of a switch's weights when half of the rows are fitted",
        change[worst] <= LIMITS.unstable,
        f"Half of the rows alone give switch {worst} other weights (a change of {min(change[worst], 10):.0%}, limit "
        f"{LIMITS.unstable:.0%}): there are too few rows for so many switches and so much noise; bring more rows, or "
        f"{_FEWER}.",
        value=min(float(change[worst]), 1e6), limit=LIMITS.unstable,
    )  # fmt: skip
    # third moments do not see an even switch; the likelihood does, and the halves say how well
    of_even = np.where(np.zeros(params.d, bool) if even is None else even, np.minimum(change, 1e6), 0.0)
    at = int(of_even.argmax())
    examiner.check(
        "even_switches", "Change, when half of the rows are fitted, of a switch on in half of the rows",
        of_even[at] <= LIMITS.unstable_even,
        f"Switch {at} is on in about half of the rows, independently of the others: third moments do not see such a "
        f"switch, and half of the rows alone give it other weights (a change of {min(of_even[at], 10):.0%}, limit "
        f"{LIMITS.unstable_even:.0%}); bring more rows, or compare with another seed (random_state, --seed).",
        value=of_even[at], limit=LIMITS.unstable_even,
    )  # fmt: skip


def _wrong_states(rows: Floats, params: SwitchParams, predicting: SwitchParams) -> Floats:
    """Probability (row,) under `params` that a state predicted by `predicting` is the other one, mean over switches."""
    complete = not np.isnan(rows).any()
    on = posterior(rows, params)[0] if complete else posterior_observed(rows, params)[0]
    predicted = most_likely(rows, predicting) if complete else most_likely_observed(rows, predicting)
    return np.asarray(np.abs(predicted - on).mean(axis=1))


def _expected(wrong: list[Floats]) -> Expectation:
    """The expected fraction of wrong states.

    The first entry is of predictions by the fit itself, which knows its rows; the others of predictions by half of the
    rows for the other half, which are off by as much more as a fit of all rows is from the truth.
    """
    means = [float(part.mean()) for part in wrong]
    rows = np.concatenate(wrong[1:] or wrong)
    value, error = float(rows.mean()), 1.28 * float(rows.std()) / np.sqrt(max(len(rows), 1))
    low, high = max(min(means) - error, 0.0), min(max(means) + error, 1.0)
    said = (
        f"The model expects {value:.2%} of the predicted switch states (on or off) to be wrong, between {low:.2%} and "
        f"{high:.2%} with a probability of 80 %, if its assumptions hold."
    )
    return Expectation("fraction of wrong switch states", value, low, high, 0.8, said)


def _fit_half(
    half: Floats, params: SwitchParams, seed: int, noise: float | None = None, *, own: bool = True
) -> SwitchParams:
    """The likelier of two fits: from the answer, and (`own`) from its own spectral initialisation.

    Moments need complete rows: where values are missing a Gaussian model of this half completes them.
    """
    incomplete = bool(np.isnan(half).any())
    starts = [replace(params, centres=None)]
    if own:
        filled = fill_rows(half, min(params.d, half.shape[1] - 1), seed) if incomplete else half
        found = spectral_init(filled, params.d, sigma=noise, rng=seed)
        starts.append(initial_params(found.W, found.probability, found.sigma2))
    fits: list[tuple[float, SwitchParams]] = []
    for start in starts:
        if incomplete:
            observed_fit = refine_observed(half, start, noise=noise, max_iter=LIMITS.half_iterations)
            fits.append((observed_fit.log_likelihood, observed_fit.params))
            continue
        basis = np.linalg.qr(start.W.T)[0]
        steps = plane_steps(half, basis, way_to_sum(start), noise)
        inside = replace(start, W=start.W @ basis, sigma2=steps.variance(start.sigma2))
        fit = em(steps, inside, max_iter=LIMITS.half_iterations, tol=1e-7, accelerate=True)
        fits.append((fit.log_likelihood, replace(fit.params, W=fit.params.W @ basis.T, centres=None)))
    return max(fits, key=lambda fit: fit[0])[1]


def matched_switches(W: Floats, other: Floats) -> NDArray[np.intp]:
    """For each switch the one of `other` that it is matched with (d,)."""
    apart = np.linalg.norm(W[:, None] - other[None], axis=2)
    return np.asarray(match_classes(-(apart**2)), np.intp)


def relative_change(W: Floats, other: Floats) -> Floats:
    """‖w_i − w'_i‖/‖w_i‖ (d,) after the best match of switches."""
    matched = np.linalg.norm(W - other[matched_switches(W, other)], axis=1)
    return np.asarray(matched / np.maximum(np.linalg.norm(W, axis=1), 1e-300))
