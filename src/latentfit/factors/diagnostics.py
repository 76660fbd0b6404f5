"""Can the fitted binary latent factors (switches) be trusted? The verdict, with the numbers behind it.

`not identifiable` when another set of switches explains the rows as well (below): a switch that is always on,
switches that exclude one another, one that implies another. `caution` when a switch's eigenpair is degenerate (it is on
in half of the rows, whatever the others do), when its eigenvalue does not rise above the noise, when its values are not
two bumps, when half of the rows give another answer, when few rows hold a switch, or when EM was cut short.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.matrix import hash_rows
from latentfit.core.sampling import lower_half
from latentfit.core.tensor.binary import SEARCH, SpectralInit, sampled, score, spectral_init
from latentfit.core.tensor.whitened import ALPHA, Spectrum, second_moments, threshold
from latentfit.core.verdict import Examination, Examiner
from latentfit.engine.passes import RowPasses
from latentfit.factors.em.missing import expected_pairs, refine_observed, split_missing
from latentfit.factors.em.states import pair_moments
from latentfit.factors.em.steps import SwitchParams, initial_params, plane_steps, way_to_sum
from latentfit.factors.init import fill_rows
from latentfit.factors.select import MOST_TESTED, observed_values, unequal_noise
from latentfit.factors.theory import Rival, combination_text, condition_two, tested_rivals


@dataclass(frozen=True)
class DiagnosticLimits:
    """Limits of the checks, and how much they look at."""

    # Fraction of the squares that must change from row to row: below it float64 sums of squares hold mostly
    # rounding.
    resolved: float = 1e-10
    examined: int = 12  # Conditions on P(h) are looked at up to so many switches.
    test_rows: int = 20_000  # Rows that rivals and halves are tested on, at most.
    always: float = 0.98  # A switch on in more rows than this is a baseline.
    # A switch this near to being on in half of the rows, and this little correlated with the others, has no
    # third moment of its own: condition (II) fails.
    even: float = 0.03
    apart: float = 0.05
    unstable: float = 0.4  # Relative change of a switch's weights between all rows and half of them.
    # √n Δ_n of a fitted switch beyond chance (true ones pass 1.95 once in a thousand), and the Δ_n that
    # matters.
    ks_limit: float = 2.2
    ks_effect: float = 0.02
    # EM iterations over half of the rows at most: one fit begins at the answer, one at its own moments.
    half_iterations: int = 60
    most_rejected: int = 200  # Scores of rejected candidates that are reported, the best first: a plot shows no more.
    # Features up to which unequal noise is looked for: it takes some tens of decompositions.
    most_features: int = 200
    unequal: float = 1.5  # Ratio of the largest to the smallest noise of a feature that is reported.
    near: float = 1.02  # A further eigenvalue this much above its noise threshold means one switch more.
    # Level at which the observed cells are tested for a further switch where values are missing, which may hide
    # it: among trusted fits of a few hundred rows it found half of those with too few switches, and one in
    # twelve of the others.
    observed_alpha: float = 0.05
    most_missing: float = 0.3  # Fraction of missing cells up to which the checks on completed rows say something.
    # Rows that a weight needs: they show its feature while its switch is on, apart from the other switches.
    fewest_cells: float = 5.0
    fewest_rows: float = 20.0  # Rows in which two switches, or two groups of features, should be seen together.
    # Fraction of a switch's squared weights that a row must show to say whether it is on, beside small ones
    # elsewhere.
    seen: float = 0.5
    most_listed: int = 5  # Names a sentence lists at most.


LIMITS = DiagnosticLimits()


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

    `noise` is σ where it was given; `last` the eigenvalue of the last switch and its threshold where they are not those
    of X, whose features were divided by noise that the fit itself made room in; `missing` the rows as they came,
    NaN where X holds draws from the fitted model.
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
    if missing is None:
        _examine_rows(examiner, on, n)
    else:
        counts = count_observed(missing, params)
        _examine_rows(examiner, on, n, np.where(on < 0.5, counts.rows_on, counts.rows_off))
        examine_cells(examiner, counts, X.rows.names)
    _examine_eigenvalues(examiner, eigen, params.d, noise, last, missing, seed)
    if start is not None:
        _examine_candidates(examiner, start)
    many, hashes = X.sample(SEARCH.score_rows[1])
    if _examine_bumps(examiner, many, params, on):
        _examine_noise(examiner, X, params)
    some = sampled(LIMITS.test_rows, hashes)
    rows = many[some]
    if params.d <= LIMITS.examined:
        _examine_conditions(examiner, params, n)
        _examine_rivals(examiner, rows, params, on, noise)
    if params.d > 1 and examiner.conclude().verdict != "not identifiable":
        if missing is None:
            _examine_halves(examiner, rows, params, hashes[some], seed, noise)
        else:
            hashes = hash_rows(missing, seed)
            some = sampled(LIMITS.test_rows, hashes)
            _examine_halves(examiner, missing[some], params, hashes[some], seed, noise)
    examiner.check_converged(converged)
    return examiner.conclude()


def on_probabilities(params: SwitchParams) -> Floats:
    """P(switch on) (d,)."""
    return np.asarray(np.diag(pair_moments(np.exp(params.log_prior), params.d)))


# ------------------------------------------------------------------- data


def _examine_rows(examiner: Examiner, on: Floats, n: int, fewest: Floats | None = None) -> None:
    """Is every switch on, and off, in some rows? `fewest`: rows of its rarer state, where not all rows show it."""
    fewest = np.minimum(on, 1 - on) * n if fewest is None else fewest
    rare = np.flatnonzero((fewest < LIMITS.fewest_rows) & (on <= LIMITS.always))
    if len(rare):
        worst = int(rare[np.argmin(fewest[rare])])
        state = "on" if on[worst] < 0.5 else "off"
        examiner.doubt(
            "caution",
            f"Switch {worst} is {state} in about {fewest[worst]:.0f} rows, fewer than {LIMITS.fewest_rows:.0f}; bring "
            "more rows or ask for fewer switches.",
        )


def _examine_eigenvalues(
    examiner: Examiner, eigen: Spectrum, d: int, noise: float | None = None, known: tuple[float, float] | None = None,
    missing: Floats | None = None, seed: int = 0,
) -> None:  # fmt: skip
    """Does every eigenvalue that was taken rise above the noise, and does none that was left?

    Where values are missing the observed cells are tested: rows completed by the fitted model agree with it.
    """
    sigma2 = None if noise is None else noise**2
    if eigen.squares - float(eigen.mean @ eigen.mean) < LIMITS.resolved * eigen.squares:
        examiner.doubt(
            "caution",
            "The features lie so far from 0 beside their spread that rounding hides what changes in them; subtract a "
            "constant from each feature first.",
        )
    if d >= min(eigen.n, eigen.m):
        examiner.doubt(
            "caution",
            f"{d} switches use all {min(eigen.n, eigen.m)} dimensions of the data, so noise cannot be seen apart from "
            "them; bring more features or rows, or ask for fewer switches.",
        )
        return
    tested = missing is not None and eigen.m <= MOST_TESTED
    if missing is not None and tested:
        known = observed_values(missing, d - 1, seed).compared(ALPHA, noise)
    last, limit = known or (float(eigen.values[d - 1]), threshold(eigen.values, eigen.n, eigen.m, d, ALPHA, sigma2))
    examiner.quantities |= {"smallest_eigenvalue": last, "noise_threshold": limit}
    if last <= limit:
        examiner.doubt(
            "caution",
            f"Eigenvalue {d}, {last:.3g}, does not rise above what noise alone makes, {limit:.3g}: the data show "
            "fewer switches; ask for fewer or bring more rows.",
        )
    if d + 1 < min(eigen.n, eigen.m):
        further, beyond = float(eigen.values[d]), threshold(eigen.values, eigen.n, eigen.m, d + 1, 0.001, sigma2)
        near = LIMITS.near
        if missing is not None and tested:
            further, beyond = observed_values(missing, d, seed).compared(LIMITS.observed_alpha, noise)
            near = 1.0
        examiner.quantities["next_eigenvalue_over_threshold"] = further / max(beyond, 1e-300)
        if further > near * beyond > 1e-12 * eigen.values[0]:
            examiner.doubt(
                "caution",
                f"A further eigenvalue, {further:.3g}, rises above what noise alone makes, {beyond:.3g}: there "
                "are more switches, or noise is not the same in all features; ask for more.",
            )


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
    off = bool(scaled[worst] * np.sqrt(len(rows)) > LIMITS.ks_limit and scaled[worst] > LIMITS.ks_effect)
    if off:
        examiner.doubt(
            "caution",
            f"The values of switch {worst} are not two bumps (their distribution is off by {scaled[worst]:.3f}): what "
            "moves these features is not a switch, or noise is not Gaussian; look at a histogram of them.",
        )
    return off


def _examine_noise(examiner: Examiner, X: RowPasses, params: SwitchParams) -> None:
    """Where a switch is none: would fewer do, if each feature had noise of its own?"""
    n, m = X.n_rows, X.n_features
    if not (1 < params.d <= LIMITS.examined and m < n and m <= LIMITS.most_features):
        return
    moments = second_moments(X)
    found = unequal_noise(moments.product / n, n, most=params.d - 1)
    if found is None:
        return
    low, high = np.sqrt([found.variances.min(), found.variances.max()])
    examiner.quantities["unequal_noise"] = {"n_switches": found.count.d, "least": float(low), "most": float(high)}
    if high > LIMITS.unequal * low:
        examiner.doubt(
            "caution",
            f"Noise differs between features, from {low:.3g} to {high:.3g}: if each has its own, {found.count.d} "
            f"switches explain what {params.d} were needed for; fit again with feature_noise='unequal'.",
        )


# ------------------------------------------------------------- conditions


def _examine_conditions(examiner: Examiner, params: SwitchParams, n: int) -> None:
    smallest, largest, sign = condition_two(params)
    examiner.quantities |= {
        "condition_two": smallest.tolist(), "condition_two_largest": largest.tolist(), "definite": sign
    }  # fmt: skip
    C = pair_moments(np.exp(params.log_prior), params.d)
    p = np.diag(C)
    deviation = np.sqrt(np.maximum(p * (1 - p), 1e-12))
    correlation = np.abs((C - np.outer(p, p)) / np.outer(deviation, deviation)) - np.eye(params.d)
    room = 1 / np.sqrt(n)  # two standard errors of a proportion
    unseen = (np.abs(p - 0.5) < LIMITS.even + room) & (correlation.max(axis=1) < max(LIMITS.apart, 2 * room))
    for i in np.flatnonzero(unseen).tolist() if params.d > 2 else []:
        examiner.doubt(
            "caution",
            f"Switch {i} is on in about half of the rows, independently of the others: third moments do not see such a "
            "switch, and only the likelihood holds its weights; compare with another seed.",
        )


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
    if standing := [rival for rival in found if rival.stands]:
        examiner.doubt("not identifiable", _report_rival(standing, on))


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
    noise: float | None = None,
) -> None:  # fmt: skip
    """Each half of the rows fitted by itself, from the answer and from its own moments: does it say the same?"""
    first = lower_half(hashes)
    change = np.zeros(params.d)
    for half in (rows[first], rows[~first]):
        if len(half) <= params.d:
            change[:] = np.inf
            break
        change = np.maximum(change, relative_change(params.W, _fit_half(half, params, seed, noise)))
    examiner.quantities["half_sample_change"] = [float(min(value, 1e6)) for value in change]
    worst = int(change.argmax())
    if change[worst] > LIMITS.unstable:
        examiner.doubt(
            "caution",
            f"Half of the rows alone give switch {worst} other weights (a change of {min(change[worst], 10):.0%}): "
            "there are too few rows for so many switches and so much noise; bring more rows.",
        )


def _fit_half(half: Floats, params: SwitchParams, seed: int, noise: float | None = None) -> Floats:
    """The likelier of two fits: from the answer, and from its own spectral initialisation.

    Moments need complete rows: where values are missing a Gaussian model of this half completes them.
    """
    incomplete = bool(np.isnan(half).any())
    filled = fill_rows(half, min(params.d, half.shape[1] - 1), seed) if incomplete else half
    own = spectral_init(filled, params.d, sigma=noise, rng=seed)
    fits = []
    for start in (replace(params, centres=None), initial_params(own.W, own.probability, own.sigma2)):
        if incomplete:
            observed_fit = refine_observed(half, start, noise=noise, max_iter=LIMITS.half_iterations)
            fits.append((observed_fit.log_likelihood, observed_fit.params.W))
            continue
        basis = np.linalg.qr(start.W.T)[0]
        steps = plane_steps(half, basis, way_to_sum(start), noise)
        inside = replace(start, W=start.W @ basis, sigma2=steps.variance(start.sigma2))
        fit = em(steps, inside, max_iter=LIMITS.half_iterations, tol=1e-7, accelerate=True)
        fits.append((fit.log_likelihood, fit.params.W @ basis.T))
    return max(fits, key=lambda fit: fit[0])[1]


def relative_change(W: Floats, other: Floats) -> Floats:
    """‖w_i − w'_i‖/‖w_i‖ (d,) after the best match of switches."""
    apart = np.linalg.norm(W[:, None] - other[None], axis=2)
    matched = apart[np.arange(len(W)), match_classes(-(apart**2))]
    return np.asarray(matched / np.maximum(np.linalg.norm(W, axis=1), 1e-300))


# -----------------------------------------------------------------------------
# Do the observed cells determine the switches where values are missing?
#
# A weight is estimated from rows that show its feature while its switch is on; the joint probability of two switches
# from rows that show features of both. Rows that show neither count for nothing, however many they are.
#
# Paper     none; expected counts under the fitted model, from the E-step of `factors/em/missing.py`
# Needs     fitted switches and the observed cells they were fitted to
# Promises  a weight or a pair of switches that fewer rows than `fewest_cells` or `fewest_rows` determine is named
# Differs   —
#
# Symbols   paper   here       shape       meaning
#           —       on         (d, m)      expected rows that show feature j while switch k is on
#           —       apart      (d, m)      the same, less what the other switches of these rows explain
#           —       together   (m, m)      rows that show both features
#           —       proportion (d, m)      w_kj² / ‖w_k‖²: where a switch can be seen
#           —       of_pairs   (d, d)      rows that show at least `LIMITS.seen` of each of two switches


@dataclass(frozen=True)
class ObservedCounts:
    """What the observed cells show of every switch; see the symbols above."""

    n: int
    missing: float
    on: Floats
    apart: Floats
    together: Floats
    proportion: Floats
    of_pairs: Floats

    @property
    def rows_on(self) -> Floats:
        """Expected rows (d,) that show a switch on: each counts by the fraction of the switch that it shows."""
        return np.asarray((self.proportion * self.on).sum(axis=1))

    @property
    def rows_off(self) -> Floats:
        """The same of a switch that is off."""
        return np.asarray((self.proportion * (np.diag(self.together) - self.on)).sum(axis=1))


def count_observed(values: Floats, params: SwitchParams) -> ObservedCounts:
    """Expected counts over rows (n, m), NaN where a value is missing."""
    _, observed = split_missing(values)
    both = expected_pairs(values, params)  # (m, d, d)
    on = np.diagonal(both, axis1=1, axis2=2).T
    room = 1e-9 * max(float(on.max(initial=0.0)), 1.0)
    inverse = np.linalg.inv(both + room * np.eye(params.d))
    apart = 1 / np.maximum(np.diagonal(inverse, axis1=1, axis2=2).T, 1e-300)
    squares = params.W**2
    proportion = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1e-300)
    seen = (observed @ proportion.T >= LIMITS.seen).astype(np.float64)
    missing, together = float(1 - observed.mean()), observed.T @ observed
    return ObservedCounts(len(values), missing, np.asarray(on), np.asarray(apart), together, proportion, seen.T @ seen)


def examine_cells(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    """Sentences about what the observed cells leave open."""
    examiner.quantities |= {
        "missing_share": counts.missing,
        "rows_on": counts.rows_on.tolist(),
        "fewest_cells": float(counts.apart.min()),
    }
    if counts.missing > LIMITS.most_missing:  # other checks see missing cells as the model draws them
        examiner.doubt(
            "caution",
            f"{counts.missing:.0%} of the cells are missing, more than {LIMITS.most_missing:.0%}: too few remain to "
            "check the fit; leave out the features and rows that are mostly empty.",
        )
    _examine_weights(examiner, counts, names)
    _examine_groups(examiner, counts, names)
    _examine_pairs(examiner, counts)


def _examine_weights(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    few = counts.apart < LIMITS.fewest_cells
    for switch in np.flatnonzero(few.any(axis=1)).tolist():
        at = np.flatnonzero(few[switch])
        examiner.doubt(
            "caution",
            f"Switch {switch} is on, apart from the other switches, in about {counts.apart[switch, at].max():.0f} of "
            f"the rows that show {_listed(names, at)}, fewer than {LIMITS.fewest_cells:.0f}: the data do not determine "
            "its weights there; bring rows that show both, or leave these features out.",
        )


def _examine_groups(examiner: Examiner, counts: ObservedCounts, names: Sequence[str | int]) -> None:
    """Groups of features that no row links."""
    n_groups, group = connected_components(counts.together >= LIMITS.fewest_rows, directed=False)
    if n_groups < 2:
        return
    smallest = np.flatnonzero(group == np.bincount(group).argmin())
    examiner.doubt(
        "caution",
        f"The features form {n_groups} groups, of which no two are observed together in {LIMITS.fewest_rows:.0f} rows, "
        f"one of them {_listed(names, smallest)}: the data do not tell which switches of one group are on together "
        "with those of another; bring rows that show features of both, or fit each group by itself.",
    )


def _examine_pairs(examiner: Examiner, counts: ObservedCounts) -> None:
    rows = counts.of_pairs.copy()
    np.fill_diagonal(rows, np.inf)
    if len(rows) < 2:
        return
    examiner.quantities["fewest_rows_of_a_pair"] = float(rows.min())
    if rows.min() < LIMITS.fewest_rows:
        first, second = sorted(np.unravel_index(int(rows.argmin()), rows.shape))
        examiner.doubt(
            "caution",
            f"About {rows.min():.0f} rows show both switch {first} and switch {second}, fewer than "
            f"{LIMITS.fewest_rows:.0f}: the data do not tell how often they are on together (joint_probabilities_); "
            "bring rows that show the features of both.",
        )


def _listed(names: Sequence[str | int], at: np.ndarray) -> str:
    """Features by their names, a few of them."""
    listed = ", ".join(repr(names[n]) for n in at[: LIMITS.most_listed].tolist()) + (
        ", …" if len(at) > LIMITS.most_listed else ""
    )
    return f"{'feature' if len(at) == 1 else 'features'} {listed}"
