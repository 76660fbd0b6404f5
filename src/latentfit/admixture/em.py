"""Maximum likelihood of the binomial admixture model: blocks of exact Newton steps under the one EM loop.

Model     allele count of person i at SNP j ~ Binomial(2, Σ_k Q[i, k] F[j, k]), missing calls left out
Paper     Alexander, Novembre & Lange 2009 (ADMIXTURE): each row of Q and of F given the other half is a concave
          problem with few unknowns, solved by sequential quadratic programming; Varadhan & Roland 2008 for the leaps;
          the mean of the model is (32) of Jaffe, Weiss, Carmi, Kluger & Nadler 2018
Needs     a start that is not symmetric in the populations
Promises  the log-likelihood never falls: a SNP's step is halved until it does not, a person's likewise, a leap that
          falls is taken back; at the end every person's proportions are the one maximum given the frequencies
Differs   plain EM under the same leaps was tried, also on random blocks of SNPs first: on four HapMap groups it was
          440 nats short of these blocks after 1,200 passes, so it is not here

Symbols   paper   here          shape              meaning
          Q, W    proportions   (person, K)        of populations in people (W of (32) is its transpose)
          F, H    frequencies   (SNP, K)           of the counted allele (H of (32) is its transpose)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latentfit.admixture.data.passes import SnpPasses, over_calls
from latentfit.admixture.init.als import (
    Subspace,
    alternate,
    drawn_people,
    far_people,
    leading_subspace,
    shares_under,
    squares_of,
)
from latentfit.core.em import SolverState, Step, em, squarem
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import Calls
from latentfit.core.multistart import Candidate, halve
from latentfit.core.simplex import simplex_least_squares

FREQUENCY_FLOOR = 1e-7
"""Frequencies stay this far from 0 and 1: a surprise costs 16 nats, and a panel below 10⁶ people cannot tell."""
STILL = 1e-7
"""A person's Newton step below this is the last: the next one would be of the order of its square."""
SHORT = 0.25
"""Newton steps no longer than this (squared, in their own metric) cannot fall: sums of logarithms are self-concordant
(Nesterov & Nemirovskii 1994), so the climb need not look."""
ROUNDING = 1e-11
"""Relative fall of a person's log-likelihood that rounding can cause."""
MOST_STEPS = 60
"""Newton steps of a person; ten are rarely needed."""


@dataclass(frozen=True)
class Ancestry:
    """Proportions (person, population) and allele frequencies (SNP, population)."""

    shares: Floats
    frequencies: Floats


@dataclass(frozen=True)
class AncestrySums:
    """Log-likelihood at the parameters, and the frequencies one Newton step further."""

    params: Ancestry
    log_likelihood: float
    next_frequencies: Floats


class AncestrySteps:
    """E and M step for `refine.em.em`: a pass moves the frequencies, the next one the proportions."""

    def __init__(self, calls: Calls | SnpPasses, n_jobs: int | None = None) -> None:
        self.passes = over_calls(calls, n_jobs)
        self.n_cells = self.passes.n_calls
        self._last: AncestrySums | None = None

    def e_step(self, params: Ancestry) -> AncestrySums:
        if self._last is not None and self._last.params is params:  # `m_step` looked already
            return self._last
        value, following = self.passes.step(params.shares, params.frequencies, FREQUENCY_FLOOR)
        self._last = AncestrySums(params, value, following)
        return self._last

    def objective(self, params: Ancestry, sums: AncestrySums) -> float:
        return sums.log_likelihood

    def log_likelihood(self, sums: AncestrySums) -> float:
        return sums.log_likelihood

    def m_step(self, sums: AncestrySums) -> Ancestry:
        shares, frequencies = sums.params.shares, sums.next_frequencies
        value, gradient, hessian = self.passes.curvature(shares, frequencies)
        to = _newton_target(shares, gradient, hessian)
        moved = Ancestry(to, frequencies)
        step = to - shares
        longest = float(np.einsum("ik,ikl,il->i", step, hessian, step).max())
        if longest <= SHORT or self.e_step(moved).log_likelihood >= float(value.sum()):
            return moved
        for _ in range(MOST_STEPS):  # someone leapt too far: those go half the way
            fell = self.passes.curvature(to, frequencies)[0] < value
            if not fell.any():
                break
            to = np.where(fell[:, None], 0.5 * (shares + to), to)
        else:
            to = np.where(fell[:, None], shares, to)
        return Ancestry(to, frequencies)

    def extrapolate(self, start: Ancestry, once: Ancestry, twice: Ancestry) -> Ancestry:
        """SQUAREM's extrapolation of both, back onto simplex and box."""
        shares, frequencies = squarem(*([one.shares, one.frequencies] for one in (start, once, twice)))
        shares = np.maximum(shares, 0.0)
        return Ancestry(
            shares / shares.sum(axis=1, keepdims=True), np.clip(frequencies, FREQUENCY_FLOOR, 1 - FREQUENCY_FLOOR)
        )


def inside(shares: Floats, frequencies: Floats) -> Ancestry:
    """A start that the likelihood can take: frequencies off their bounds."""
    return Ancestry(
        np.ascontiguousarray(shares), np.ascontiguousarray(np.clip(frequencies, FREQUENCY_FLOOR, 1 - FREQUENCY_FLOOR))
    )


def proportions(
    calls: Calls | SnpPasses, frequencies: Floats, *, squares: bool = False, n_jobs: int | None = None
) -> tuple[Floats, Floats]:
    """The best proportions (person, population) under known frequencies, and each person's log-likelihood (person,).

    By likelihood, or by least squares with `squares`. Each person is solved alone: company does not change a bit.
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
    for _ in range(MOST_STEPS):
        value, gradient, hessian = passes.curvature(goal, frequencies)
        fell = ~done & (value < best - ROUNDING * np.abs(best))
        rose = ~done & ~fell
        x = np.where(rose[:, None], goal, x)
        best = np.where(rose, value, best)
        done |= settled
        if done.all():
            break
        to = _newton_target(goal, gradient, hessian)
        goal = np.where(fell[:, None], 0.5 * (x + goal), np.where(done[:, None], x, to))
        settled |= ~done & (np.abs(goal - x).max(axis=1) < STILL)
    return x, best


def frequencies_given(calls: Calls | SnpPasses, shares: Floats, start: Floats) -> Floats:
    """The best frequencies (SNP, population) under known proportions; concave, so the start does not matter."""
    passes = over_calls(calls)
    if not passes.n_snps:
        return start
    found = inside(shares, start).frequencies
    for _ in range(MOST_STEPS):
        _, following = passes.step(shares, found, FREQUENCY_FLOOR)
        moved = float(np.abs(following - found).max())
        found = following
        if moved < STILL:
            break
    return found


def _newton_target(shares: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """The maximum on the simplex of each person's quadratic model."""
    right = gradient.copy()
    for k in range(shares.shape[1]):  # one by one: a row's bits must not depend on how many rows there are
        right += hessian[:, :, k] * shares[:, k : k + 1]
    return simplex_least_squares(hessian, right, shares)


# -----------------------------------------------------------------------------
# One fit of the admixture model, from calls to parameters: starts, then the climb, or least squares alone.
#
# Likelihood races three starts by successive halving: the alternation from the people who stand furthest apart, and
# from two draws of people; the climb has several tops on real panels, and one start in eight ended on a lower one.

LEAST_PEOPLE = 100
"""People from which on likelihood refines: with 50 its proportions were worse than those of least squares, whose error
it tripled (simulated mosaics); with 200 and more they were better."""
DRAWN_STARTS = 2
ROUNDS = (6, 6)
"""Passes of the race: after six the better two of three go on, after twelve the best."""
START_ROUNDS, START_TOL = 60, 1e-8
"""The alternation before likelihood: more rounds end at the same top."""


@dataclass(frozen=True)
class AncestryFit:
    """Where a fit ended; `values` are the people's log-likelihoods."""

    params: Ancestry
    values: Floats
    spectrum: Floats
    objective: float
    path: list[float]
    n_iter: int
    converged: bool
    start: str

    @property
    def log_likelihood(self) -> float:
        return float(self.values.sum())


@dataclass(frozen=True)
class AncestryPlace:
    """Where a stopped climb stood: the start that had won, the singular values, the climb itself."""

    start: str
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
    n_starts: int = DRAWN_STARTS,
    far: bool = True,
    first: tuple[str, Callable[[Subspace], Ancestry]] | None = None,
    callback: Callable[[Step], None] | None = None,
    resume_from: AncestryPlace | None = None,
    keep: Callable[[AncestryPlace], None] | None = None,
) -> AncestryFit:
    """Fit K populations; `first` makes another start than the alternation's, and is then the only one.

    Without `far` all starts are drawn. `keep` hears where the last climb stands; `resume_from`, such a place, goes on
    there.
    """
    calls = over_calls(calls)
    if resume_from is not None:
        hear = None if keep is None else lambda at: keep(AncestryPlace(resume_from.start, resume_from.spectrum, at))
        steps = AncestrySteps(calls)
        found = em(
            steps, resume_from.resume_from.params, max_iter=max_iter, tol=tol, accelerate=True, callback=callback,
            resume_from=resume_from.resume_from, keep=hear,
        )  # fmt: skip
        ended = (found.path, found.n_iter, found.converged, resume_from.start)
        return _settled(calls, found.params, resume_from.spectrum, False, *ended)
    space = leading_subspace(calls, means, n_populations)
    if not likelihood and first is None:
        start = "people who stand furthest apart" if far else "people who were drawn"
        people = far_people(space) if far else drawn_people(space, rng)
        return _by_squares(calls, means, space, people, max_iter, tol, start)
    if first is not None:
        begin = first[1](space)
        starts = {first[0]: inside(begin.shares, begin.frequencies)}
    else:
        starts = _starts(space, means, n_starts if n_populations > 1 or not far else 0, far, rng)
    if not likelihood:
        begin = next(iter(starts.values()))
        path = [-squares_of(space, begin.shares, begin.frequencies)]
        return _settled(calls, begin, space.spectrum, True, path, 0, True, next(iter(starts)))
    steps = AncestrySteps(calls)
    candidates = [Candidate(name, steps, start) for name, start in starts.items()]
    hear_of = None if keep is None else lambda name, at: keep(AncestryPlace(name, space.spectrum, at))
    raced = halve(
        candidates, rounds=ROUNDS, max_iter=max_iter, tol=tol, accelerate=True, callback=callback, keep=hear_of
    )  # fmt: skip
    found = raced.refined
    return _settled(calls, found.params, space.spectrum, False, found.path, found.n_iter, found.converged, raced.name)


def _starts(space: Subspace, means: Floats, drawn: int, far: bool, rng: np.random.Generator) -> dict[str, Ancestry]:
    named = {"least squares from far people": far_people(space)} if far else {}
    named |= {f"least squares from drawn people {n + 1}": drawn_people(space, rng) for n in range(drawn)}
    return {name: _alternated(space, means, people) for name, people in named.items()}


def _alternated(space: Subspace, means: Floats, people: list[int]) -> Ancestry:
    fit = alternate(space, means, shares_under(space, people), max_iter=START_ROUNDS, tol=START_TOL)
    return inside(fit.shares, fit.frequencies)


def _by_squares(
    calls: SnpPasses, means: Floats, space: Subspace, people: list[int], max_iter: int, tol: float, start: str
) -> AncestryFit:
    fit = alternate(space, means, shares_under(space, people), max_iter=max_iter, tol=tol)
    path = [-value for value in fit.squares]
    params = inside(fit.shares, fit.frequencies)
    return _settled(calls, params, space.spectrum, True, path, len(path) - 1, fit.converged, start)


def _settled(
    calls: SnpPasses, params: Ancestry, spectrum: Floats, squares: bool, path: list[float], n_iter: int,
    converged: bool, start: str,
) -> AncestryFit:  # fmt: skip
    """Everyone's proportions at their one best given the frequencies, as a new person's will be; largest first."""
    frequencies, shares = params.frequencies, params.shares
    for _ in range(2):  # sums run over populations in order: found in their final order, bits are those of `transform`
        rank = np.argsort(-shares.mean(axis=0), kind="stable")
        frequencies = np.ascontiguousarray(frequencies[:, rank])
        shares, values = proportions(calls, frequencies, squares=squares)
        if (np.diff(shares.mean(axis=0)) <= 0).all():
            break
    if not squares:
        path = [*path, max(float(values.sum()), path[-1])]
    found = Ancestry(shares, frequencies)
    return AncestryFit(found, values, spectrum, path[-1], path, n_iter, converged, start)
