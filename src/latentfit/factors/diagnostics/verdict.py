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

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.matrix import hash_rows
from latentfit.core.sampling import lower_half
from latentfit.core.tensor.binary import KS_NULL, SCORE_ROWS, sampled, score
from latentfit.core.tensor.init import ALPHA, SpectralInit, spectral_init, threshold
from latentfit.core.tensor.whitened import Spectrum, second_moments
from latentfit.core.verdict import Examination, Examiner
from latentfit.engine.passes import RowPasses
from latentfit.factors.diagnostics.cells import FEWEST_ROWS, count_observed, examine_cells
from latentfit.factors.em.missing import refine_observed
from latentfit.factors.em.states import pair_moments, states
from latentfit.factors.em.steps import (
    SwitchParams,
    SwitchStatistics,
    SwitchSteps,
    initial_params,
    plane_steps,
    way_to_sum,
)
from latentfit.factors.init.missing import fill_rows
from latentfit.factors.init.observed_count import MOST_TESTED, observed_values
from latentfit.factors.init.unequal_noise import unequal_noise

RESOLVED = 1e-10
"""Fraction of the squares that must change from row to row: below it float64 sums of squares hold mostly rounding."""
EXAMINED = 12
"""Conditions on P(h) are looked at up to so many switches."""
TEST_ROWS = 20_000
"""Rows that rivals and halves are tested on, at most."""
ALWAYS = 0.98
"""A switch on in more rows than this is a baseline."""
EVEN, APART = 0.03, 0.05
"""A switch this near to being on in half of the rows, and this little correlated with the others, has no third moment
of its own: condition (II) fails."""
UNSTABLE = 0.4
"""Relative change of a switch's weights between all rows and half of them."""
KS_LIMIT, KS_EFFECT = 2.2, 0.02
"""√n Δ_n of a fitted switch beyond chance (true ones pass 1.95 once in a thousand), and the Δ_n that matters."""
HALF_ITERATIONS = 60
"""EM iterations over half of the rows at most: one fit begins at the answer, one at its own moments."""
MOST_REJECTED = 200
"""Scores of rejected candidates that are reported, the best first: a plot shows no more."""
MOST_FEATURES = 200
"""Features up to which unequal noise is looked for: it takes some tens of decompositions."""
UNEQUAL = 1.5
"""Ratio of the largest to the smallest noise of a feature that is reported."""
NEAR = 1.02
"""A further eigenvalue this much above its noise threshold means one switch more."""
OBSERVED_ALPHA = 0.05
"""Level at which the observed cells are tested for a further switch where values are missing, which may hide it: among
trusted fits of a few hundred rows it found half of those with too few switches, and one in twelve of the others."""


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
    many, hashes = X.sample(SCORE_ROWS[1])
    if _examine_bumps(examiner, many, params, on):
        _examine_noise(examiner, X, params)
    some = sampled(TEST_ROWS, hashes)
    rows = many[some]
    if params.d <= EXAMINED:
        _examine_conditions(examiner, params, n)
        _examine_rivals(examiner, rows, params, on, noise)
    if params.d > 1 and examiner.conclude().verdict != "not identifiable":
        if missing is None:
            _examine_halves(examiner, rows, params, hashes[some], seed, noise)
        else:
            hashes = hash_rows(missing, seed)
            some = sampled(TEST_ROWS, hashes)
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
    rare = np.flatnonzero((fewest < FEWEST_ROWS) & (on <= ALWAYS))
    if len(rare):
        worst = int(rare[np.argmin(fewest[rare])])
        state = "on" if on[worst] < 0.5 else "off"
        examiner.doubt(
            "caution",
            f"Switch {worst} is {state} in about {fewest[worst]:.0f} rows, fewer than {FEWEST_ROWS:.0f}; bring more "
            "rows or ask for fewer switches.",
        )


def _examine_eigenvalues(
    examiner: Examiner, eigen: Spectrum, d: int, noise: float | None = None, known: tuple[float, float] | None = None,
    missing: Floats | None = None, seed: int = 0,
) -> None:  # fmt: skip
    """Does every eigenvalue that was taken rise above the noise, and does none that was left?

    Where values are missing the observed cells are tested: rows completed by the fitted model agree with it.
    """
    sigma2 = None if noise is None else noise**2
    if eigen.squares - float(eigen.mean @ eigen.mean) < RESOLVED * eigen.squares:
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
        near = NEAR
        if missing is not None and tested:
            further, beyond = observed_values(missing, d, seed).compared(OBSERVED_ALPHA, noise)
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
        "score_null_level": KS_NULL / np.sqrt(max(found.n_scored, 1)),  # a true switch exceeds it once in a hundred
        "next_score": float(rest.min()) if len(rest) else None,
        "rejected_scores": np.sort(rest)[:MOST_REJECTED].tolist(),
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
    off = bool(scaled[worst] * np.sqrt(len(rows)) > KS_LIMIT and scaled[worst] > KS_EFFECT)
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
    if not (1 < params.d <= EXAMINED and m < n and m <= MOST_FEATURES):
        return
    moments = second_moments(X)
    found = unequal_noise(moments.product / n, n, most=params.d - 1)
    if found is None:
        return
    low, high = np.sqrt([found.variances.min(), found.variances.max()])
    examiner.quantities["unequal_noise"] = {"n_switches": found.count.d, "least": float(low), "most": float(high)}
    if high > UNEQUAL * low:
        examiner.doubt(
            "caution",
            f"Noise differs between features, from {low:.3g} to {high:.3g}: if each has its own, {found.count.d} "
            f"switches explain what {params.d} were needed for; fit again with feature_noise='unequal'.",
        )


# ------------------------------------------------------------- conditions


def condition_two(params: SwitchParams) -> tuple[Floats, Floats, list[int]]:
    """Of each switch, relative to λ: smallest and largest |eigenvalue| of its projected Jacobian, and the sign of (31).

    The Jacobian is L_uᵀ K'W'(2𝒞(I, I, e_i) − C)WK L_u with C^-½ in the place of WK: full rank under condition (II), by
    Lemma 2. C and 𝒞 are the moments (8) of P(h).
    """
    d, P = params.d, np.exp(params.log_prior)
    S = states(d)
    C = pair_moments(P, d)
    values, vectors = np.linalg.eigh(C)
    root = vectors / np.sqrt(np.maximum(values, 1e-12))  # C^-½ up to a rotation
    smallest, largest, sign = np.ones(d), np.ones(d), [-1] * d
    for i in range(d if d > 1 else 0):
        third = (S * (P * S[:, i])[:, None]).T @ S  # 𝒞(I, I, e_i)
        A = root.T @ (2 * third - C) @ root
        u = root.T @ C[:, i]  # the direction of switch i
        L = np.linalg.svd(u[None])[2][1:].T
        spectrum = np.linalg.eigvalsh(L.T @ A @ L)
        smallest[i], largest[i] = np.abs(spectrum).min(), np.abs(spectrum).max()
        sign[i] = -1 if spectrum[-1] < 0 else 1 if spectrum[0] > 0 else 0
    return smallest, largest, sign


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
    unseen = (np.abs(p - 0.5) < EVEN + room) & (correlation.max(axis=1) < max(APART, 2 * room))
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
    standing = [rival for rival in found if rival.stands]
    examiner.quantities["rivals"] = [
        {"u": list(r.u), "rigidity": r.rigidity, "outside": r.outside, "cost": r.cost, "needed": r.needed}
        for r in found
    ]
    if not standing:
        return
    examiner.doubt("not identifiable", _report_rival(standing, on))


def _report_rival(standing: list[Rival], on: Floats) -> str:
    always = np.flatnonzero(on > ALWAYS)
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
    u = standing[0].u
    names = " ".join(f"{'+' if c > 0 else '−'} h{i}" for i, c in enumerate(u) if c).removeprefix("+ ")
    return (
        f"The combination {names} is a switch too, as far as these rows tell: it could replace one of its parts, with "
        "other weights and the same likelihood; bring rows in which these switches are on together and apart."
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
    if change[worst] > UNSTABLE:
        examiner.doubt(
            "caution",
            f"Half of the rows alone give switch {worst} other weights (a change of {min(change[worst], 10):.0%}): "
            "there are too few rows for so many switches and so much noise; bring more rows.",
        )


def _fit_half(half: Floats, params: SwitchParams, seed: int, noise: float | None = None) -> Floats:
    """The likelier of two fits: from the answer, and from its own spectral initialisation."""
    if np.isnan(half).any():
        return _fit_observed_half(half, params, seed, noise)
    own = spectral_init(half, params.d, sigma=noise, rng=seed)
    starts = [replace(params, centres=None), initial_params(own.W, own.probability, own.sigma2)]
    best: tuple[float, Floats] | None = None
    for start in starts:
        basis = np.linalg.qr(start.W.T)[0]
        steps = plane_steps(half, basis, way_to_sum(start), noise)
        inside = replace(start, W=start.W @ basis, sigma2=steps.variance(start.sigma2))
        fit = em(steps, inside, max_iter=HALF_ITERATIONS, tol=1e-7, accelerate=True)
        if best is None or fit.log_likelihood > best[0]:
            best = fit.log_likelihood, fit.params.W @ basis.T
    assert best is not None
    return best[1]


def _fit_observed_half(half: Floats, params: SwitchParams, seed: int, noise: float | None) -> Floats:
    """The same on the observed cells; moments need complete rows, which a Gaussian model of this half completes."""
    filled = fill_rows(half, min(params.d, half.shape[1] - 1), seed)
    own = spectral_init(filled, params.d, sigma=noise, rng=seed)
    starts = [params, initial_params(own.W, own.probability, own.sigma2)]
    fits = [refine_observed(half, start, noise=noise, max_iter=HALF_ITERATIONS) for start in starts]
    return max(fits, key=lambda fit: fit.log_likelihood).params.W


def relative_change(W: Floats, other: Floats) -> Floats:
    """‖w_i − w'_i‖/‖w_i‖ (d,) after the best match of switches."""
    apart = np.linalg.norm(W[:, None] - other[None], axis=2)
    matched = apart[np.arange(len(W)), match_classes(-(apart**2))]
    return np.asarray(matched / np.maximum(np.linalg.norm(W, axis=1), 1e-300))


# -----------------------------------------------------------------------------
# Is another set of switches as good? Rigidity, (I) and (27) of the tensor eigenpair paper, checked on the fitted P(h).
#
# Where some combination uᵀh of the switches is binary too, it can stand in for one of them: other weights, the same
# likelihood. Combinations of two and three switches with coefficients ±1 cover what happens in practice: switches that
# exclude one another (h_i + h_j), one that implies another (h_j − h_i), a baseline (1 − h_i), and their unions. Noise
# blurs P(h), so a combination that looks nearly binary is tested: EM goes on with the states that speak against it
# ruled out, and the fall of the log-likelihood says how much the data wanted them.
#
# Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018: rigidity (6), which is condition (I); in expectation (27), which
#           Theorem 2 asks for as well
# Needs     fitted switches, and EM steps on the plane of their weights
# Promises  of combinations of up to three switches those that stand: ruling their contrary states out costs the
#           likelihood no more than chance (a χ² quantile)
# Differs   the paper asks for the condition and tests nothing; other coefficients than ±1, and more than three
# switches, #           are not looked at
#
# Symbols   paper   here       shape    meaning
#           u       u          (d,)     coefficients
#           r(u)    rigidity   —        mean squared distance of uᵀh from 0 and 1
#           P_h     log_prior  (2^d,)   of all on/off vectors

SUSPECT = 0.05
"""Combinations with more rows than this outside 0 and 1 are not binary; no test needed."""
RIVALS_TESTED = 12
"""Combinations tested, the most nearly binary ones."""
RULED_OUT = -60.0
"""Log-probability of a state that is ruled out: less than one row in any data."""
PASSES = 12
"""EM iterations of a test."""
LEVEL = 0.001
"""Level of the test: a fall of the log-likelihood below this quantile of χ²/2 is no evidence."""


@dataclass(frozen=True)
class Rival:
    """A combination uᵀh that is (almost) binary, and what ruling its contrary states out costs in nats."""

    u: tuple[int, ...]
    rigidity: float  # r(u) (27)
    outside: float  # fraction of rows where uᵀh is neither 0 nor 1
    cost: float = np.inf
    needed: float = 0.0  # the cost that would be evidence against it

    @property
    def stands(self) -> bool:
        """Whether the data does not speak against it."""
        return self.cost <= self.needed


@dataclass(frozen=True)
class WithoutStates:
    """EM steps with some states ruled out."""

    inner: SwitchSteps
    ruled_out: NDArray[np.bool_]

    @property
    def n_cells(self) -> int:
        return self.inner.n_cells

    def e_step(self, params: SwitchParams) -> SwitchStatistics:
        return self.inner.e_step(params)

    def objective(self, params: SwitchParams, statistics: SwitchStatistics) -> float:
        return statistics.log_likelihood

    def log_likelihood(self, statistics: SwitchStatistics) -> float:
        return statistics.log_likelihood

    def m_step(self, statistics: SwitchStatistics) -> SwitchParams:
        return self.bare(self.inner.m_step(statistics))

    def extrapolate(self, start: SwitchParams, once: SwitchParams, twice: SwitchParams) -> SwitchParams:
        return self.bare(self.inner.extrapolate(start, once, twice))

    def bare(self, params: SwitchParams) -> SwitchParams:
        logs = np.where(self.ruled_out, RULED_OUT, params.log_prior)
        logs = logs - np.log(np.exp(logs).sum())
        return replace(params, log_prior=logs)


def combinations_of(params: SwitchParams) -> list[Rival]:
    """Combinations of two and three switches with coefficients ±1, most nearly binary first.

    Rigidity, condition (I), which is (6), and in expectation (27), says that no combination but the switches is binary.
    """
    d, P = params.d, np.exp(params.log_prior)
    S = states(d)
    found = []
    for size in range(2, min(3, d) + 1):
        for some in combinations(range(d), size):
            code = S[:, list(some)] @ 2.0 ** np.arange(size)
            probability = np.bincount(code.astype(np.intp), P, minlength=2**size)  # P of these switches alone
            h = states(size)
            for signs in product((1, -1), repeat=size):
                if 1 not in signs:
                    continue
                value = h @ np.array(signs, np.float64)
                off = np.abs(value - np.clip(value, 0, 1))
                if not (probability @ (value > 0.5) > 1e-3):  # never on: nothing that could stand in
                    continue
                u = [0] * d
                for at, sign in zip(some, signs, strict=True):
                    u[at] = sign
                found.append(Rival(tuple(u), float(probability @ off**2), float(probability @ (off > 0))))
    return sorted(found, key=lambda rival: (rival.outside, rival.u))


def tested_rivals(steps: SwitchSteps, params: SwitchParams, log_likelihood: float) -> list[Rival]:
    """The most nearly binary combinations with the cost of ruling their contrary states out; `steps` on a plane."""
    S, tested = states(params.d), []
    for rival in combinations_of(params)[:RIVALS_TESTED]:
        if rival.outside > SUSPECT:
            break
        value = S @ np.array(rival.u, np.float64)
        against = (value < 0) | (value > 1)
        without = WithoutStates(steps, against)
        kept = em(without, without.bare(params), max_iter=PASSES, tol=1e-9)
        free = min(int(against.sum()), max(int((np.exp(params.log_prior[against]) * steps.n_rows > 0.1).sum()), 1))
        cost = max(log_likelihood - kept.log_likelihood, 0.0)
        tested.append(replace(rival, cost=cost, needed=float(chi2.ppf(1 - LEVEL, free)) / 2))
    return tested
