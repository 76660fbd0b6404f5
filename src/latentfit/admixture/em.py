"""Maximum likelihood of the binomial admixture model: blocks of exact Newton steps under the one EM loop.

Model     allele count of person i at SNP j ~ Binomial(2, Σ_k Q[i, k] F[j, k]), missing calls left out
Paper     Alexander, Novembre & Lange 2009 (ADMIXTURE): each row of Q and of F given the other half is a concave
          problem with few unknowns, solved by sequential quadratic programming; Varadhan & Roland 2008 (SQUAREM);
          the mean of the model is (32) of Jaffe, Weiss, Carmi, Kluger & Nadler 2018
Needs     initial parameters that are not symmetric in the populations
Promises  the log-likelihood never falls: a SNP's step is halved until it does not, a person's likewise, an
          extrapolation that lowers it is discarded; at the end every person's proportions are the one maximum given
          the frequencies
Differs   plain EM with the same extrapolation was tried, also on random blocks of SNPs first: on four HapMap groups it
          was 440 nats short of these blocks after 1,200 iterations, so it is not used

Symbols   paper   here          shape              meaning
          Q, W    proportions   (person, K)        of populations in people (W of (32) is its transpose)
          F, H    frequencies   (SNP, K)           of the counted allele (H of (32) is its transpose)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentfit.admixture.data.passes import SnpPasses, over_calls
from latentfit.admixture.init import (
    Subspace,
    alternate,
    drawn_people,
    far_people,
    leading_subspace,
    proportions_under,
    squares_of,
)
from latentfit.core.em import EMResult, SolverState, Step, em, squarem
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import Calls
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.simplex import simplex_least_squares


@dataclass(frozen=True)
class FitSettings:
    """Newton steps and their bounds, and the initialisations that are compared."""

    # Frequencies stay this far from 0 and 1: a surprise costs 16 nats, and a panel below 10⁶ people cannot
    # tell.
    frequency_floor: float = 1e-7
    # A person's Newton step below this is the last: the next one would be of the order of its square.
    still: float = 1e-7
    # Newton steps no longer than this (squared, in their own metric) cannot fall: sums of logarithms are self-
    # concordant (Nesterov & Nemirovskii 1994), so they need no check.
    short: float = 0.25
    rounding: float = 1e-11  # Relative fall of a person's log-likelihood that rounding can cause.
    most_steps: int = 60  # Newton steps of a person; ten are rarely needed.
    # People from which on likelihood refines: with 50 its proportions were worse than those of least squares,
    # whose error it tripled (simulated mosaics); with 200 and more they were better.
    least_people: int = 100
    drawn_inits: int = 2
    # Iterations of successive halving: after six the better two of three go on, after twelve the best.
    rounds: tuple[int, int] = (6, 6)
    # The alternation before likelihood: more rounds end at the same maximum.
    init_rounds: int = 60
    init_tol: float = 1e-8


FIT = FitSettings()


@dataclass(frozen=True)
class Ancestry:
    """Proportions (person, population) and allele frequencies (SNP, population)."""

    proportions: Floats
    frequencies: Floats


@dataclass(frozen=True)
class AncestryStatistics:
    """Log-likelihood at the parameters, and the frequencies one Newton step further."""

    params: Ancestry
    log_likelihood: float
    next_frequencies: Floats


class AncestrySteps:
    """E- and M-step for `core.em.em`: the E-step moves the frequencies, the M-step the proportions."""

    def __init__(self, calls: Calls | SnpPasses, n_jobs: int | None = None) -> None:
        self.passes = over_calls(calls, n_jobs)
        self.n_cells = self.passes.n_calls
        self._last: AncestryStatistics | None = None

    def e_step(self, params: Ancestry) -> AncestryStatistics:
        if self._last is not None and self._last.params is params:  # `m_step` looked already
            return self._last
        value, following = self.passes.step(params.proportions, params.frequencies, FIT.frequency_floor)
        self._last = AncestryStatistics(params, value, following)
        return self._last

    def objective(self, params: Ancestry, statistics: AncestryStatistics) -> float:
        return statistics.log_likelihood

    def log_likelihood(self, statistics: AncestryStatistics) -> float:
        return statistics.log_likelihood

    def m_step(self, statistics: AncestryStatistics) -> Ancestry:
        proportions, frequencies = statistics.params.proportions, statistics.next_frequencies
        value, gradient, hessian = self.passes.curvature(proportions, frequencies)
        to = _newton_target(proportions, gradient, hessian)
        moved = Ancestry(to, frequencies)
        step = to - proportions
        longest = float(np.einsum("ik,ikl,il->i", step, hessian, step).max())
        if longest <= FIT.short or self.e_step(moved).log_likelihood >= float(value.sum()):
            return moved
        for _ in range(FIT.most_steps):  # successive_halving the steps of people whose likelihood fell
            fell = self.passes.curvature(to, frequencies)[0] < value
            if not fell.any():
                break
            to = np.where(fell[:, None], 0.5 * (proportions + to), to)
        else:
            to = np.where(fell[:, None], proportions, to)
        return Ancestry(to, frequencies)

    def extrapolate(self, start: Ancestry, once: Ancestry, twice: Ancestry) -> Ancestry:
        """SQUAREM's extrapolation of both, back onto simplex and box."""
        proportions, frequencies = squarem(*([one.proportions, one.frequencies] for one in (start, once, twice)))
        proportions = np.maximum(proportions, 0.0)
        return Ancestry(
            proportions / proportions.sum(axis=1, keepdims=True),
            np.clip(frequencies, FIT.frequency_floor, 1 - FIT.frequency_floor),
        )


def inside(proportions: Floats, frequencies: Floats) -> Ancestry:
    """Initial parameters inside the domain of the likelihood: frequencies off their bounds."""
    return Ancestry(
        np.ascontiguousarray(proportions),
        np.ascontiguousarray(np.clip(frequencies, FIT.frequency_floor, 1 - FIT.frequency_floor)),
    )


def fit_proportions(
    calls: Calls | SnpPasses, frequencies: Floats, *, squares: bool = False, n_jobs: int | None = None
) -> tuple[Floats, Floats]:
    """The best proportions (person, population) under known frequencies, and each person's log-likelihood (person,).

    By likelihood, or by least squares with `squares`. Nobody's result depends on the other people.
    """
    passes, K = over_calls(calls, n_jobs), frequencies.shape[1]
    n_persons = passes.n_persons
    x = np.full((n_persons, K), 1 / K)
    _, gradient, hessian = passes.curvature(x, frequencies, squares=True)
    x = _newton_target(x, gradient, hessian)  # the least-squares problem is quadratic: one step solves it
    if squares:
        return x, passes.curvature(x, frequencies)[0]
    x = 0.99 * x + 0.01 / K
    best, goal = np.full(n_persons, -np.inf), x
    settled = np.zeros(n_persons, bool)
    done = np.zeros(n_persons, bool)
    for _ in range(FIT.most_steps):
        value, gradient, hessian = passes.curvature(goal, frequencies)
        fell = ~done & (value < best - FIT.rounding * np.abs(best))
        rose = ~done & ~fell
        x = np.where(rose[:, None], goal, x)
        best = np.where(rose, value, best)
        done |= settled
        if done.all():
            break
        to = _newton_target(goal, gradient, hessian)
        goal = np.where(fell[:, None], 0.5 * (x + goal), np.where(done[:, None], x, to))
        settled |= ~done & (np.abs(goal - x).max(axis=1) < FIT.still)
    return x, best


def frequencies_given(calls: Calls | SnpPasses, proportions: Floats, initial: Floats) -> Floats:
    """The best frequencies (SNP, population) under known proportions; concave, so the initial value does not matter."""
    passes = over_calls(calls)
    if not passes.n_snps:
        return initial
    found = inside(proportions, initial).frequencies
    for _ in range(FIT.most_steps):
        _, following = passes.step(proportions, found, FIT.frequency_floor)
        moved = float(np.abs(following - found).max())
        found = following
        if moved < FIT.still:
            break
    return found


def _newton_target(proportions: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """The maximum on the simplex of each person's quadratic model."""
    right = gradient.copy()
    for k in range(proportions.shape[1]):  # one by one: a row's bits must not depend on how many rows there are
        right += hessian[:, :, k] * proportions[:, k : k + 1]
    return simplex_least_squares(hessian, right, proportions)


# -----------------------------------------------------------------------------
# One fit of the admixture model, from calls to parameters: initialisations, then EM, or least squares alone.
#
# Multi-start selection by successive halving between three initialisations: the alternation from the people furthest
# apart, and from two draws of people. The likelihood has several local maxima on real panels, and one initialisation in
# eight ended in a lower one.


LeastSquaresFit = EMResult[Ancestry, None]
"""A fit by least squares; its objective is minus the squared error."""


@dataclass(frozen=True)
class AncestryFit:
    """Result of a fit; `values` are the people's log-likelihoods."""

    params: Ancestry
    values: Floats
    spectrum: Floats
    objective: float
    path: list[float]
    n_iter: int
    converged: bool
    init_name: str

    @property
    def log_likelihood(self) -> float:
        return float(self.values.sum())


@dataclass(frozen=True)
class AncestrySolverState:
    """Solver state of an interrupted fit: the selected initialisation, the singular values, the state of EM."""

    init_name: str
    spectrum: Floats
    resume_from: SolverState[Ancestry]


def fit_ancestry(
    calls: Calls | SnpPasses,
    means: Floats,
    n_populations: int,
    *,
    likelihood: bool,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_starts: int = FIT.drawn_inits,
    far: bool = True,
    init: tuple[str, Callable[[Subspace], Ancestry]] | None = None,
    callback: Callable[[Step], None] | None = None,
    resume_from: AncestrySolverState | None = None,
    on_iteration: Callable[[AncestrySolverState], None] | None = None,
) -> AncestryFit:
    """Fit K populations; `init` makes another initialisation than the alternation's, and is then the only one.

    Without `far` all initialisations are drawn. `on_iteration` is called with the solver state of the last EM run after
    every iteration; `resume_from` is such a state to continue from.
    """
    calls = over_calls(calls)
    steps = AncestrySteps(calls)
    options: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "accelerate": True, "callback": callback}
    if resume_from is not None:
        name, spectrum = resume_from.init_name, resume_from.spectrum
        found = em(
            steps, resume_from.resume_from.params, resume_from=resume_from.resume_from,
            on_iteration=on_iteration and (lambda at: on_iteration(AncestrySolverState(name, spectrum, at))), **options,
        )  # fmt: skip
        return _settled(calls, found, spectrum, name)
    space = leading_subspace(calls, means, n_populations)
    if init is not None:
        initialisations = {init[0]: _evaluated(space, init[1](space))}
    elif likelihood:
        drawn = n_starts if n_populations > 1 or not far else 0
        people = {"least squares from far people": far_people(space)} if far else {}
        people |= {f"least squares from drawn people {n + 1}": drawn_people(space, rng) for n in range(drawn)}
        initialisations = {
            name: _alternated(space, means, some, FIT.init_rounds, FIT.init_tol) for name, some in people.items()
        }
    else:
        name = "people who stand furthest apart" if far else "people who were drawn"
        some = far_people(space) if far else drawn_people(space, rng)
        initialisations = {name: _alternated(space, means, some, max_iter, tol)}
    if not likelihood:
        ((name, found),) = initialisations.items()
        return _settled(calls, found, space.spectrum, name, squares=True)
    selected = successive_halving(
        [Candidate(name, steps, initial.params) for name, initial in initialisations.items()], rounds=FIT.rounds,
        on_iteration=on_iteration and (lambda name, at: on_iteration(AncestrySolverState(name, space.spectrum, at))),
        **options,
    )  # fmt: skip
    return _settled(calls, selected.refined, space.spectrum, selected.name)


def _evaluated(space: Subspace, begin: Ancestry) -> LeastSquaresFit:
    """An initialisation that is not refined, with its squared error."""
    params = inside(begin.proportions, begin.frequencies)
    path = [-squares_of(space, params.proportions, params.frequencies)]
    return EMResult(params, None, path[0], np.nan, 0, True, path)


def _alternated(space: Subspace, means: Floats, people: list[int], max_iter: int, tol: float) -> LeastSquaresFit:
    """The alternation from these people as the pure ones."""
    fit = alternate(space, means, proportions_under(space, people), max_iter=max_iter, tol=tol)
    path = [-value for value in fit.squares]
    params = inside(fit.proportions, fit.frequencies)
    return EMResult(params, None, path[-1], np.nan, len(path) - 1, fit.converged, path)


def _settled(
    calls: SnpPasses, fit: EMResult[Ancestry, Any], spectrum: Floats, init_name: str, *, squares: bool = False
) -> AncestryFit:
    """Everyone's optimal proportions given the frequencies, as a new person's will be; largest first."""
    frequencies, proportions, path = fit.params.frequencies, fit.params.proportions, fit.path
    for _ in range(2):  # sums run over populations in order: found in their final order, bits are those of `transform`
        rank = np.argsort(-proportions.mean(axis=0), kind="stable")
        frequencies = np.ascontiguousarray(frequencies[:, rank])
        proportions, values = fit_proportions(calls, frequencies, squares=squares)
        if (np.diff(proportions.mean(axis=0)) <= 0).all():
            break
    if not squares:
        path = [*path, max(float(values.sum()), path[-1])]
    found = Ancestry(proportions, frequencies)
    return AncestryFit(found, values, spectrum, path[-1], path, fit.n_iter, fit.converged, init_name)
