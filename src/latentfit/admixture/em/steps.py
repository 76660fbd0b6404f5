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

from dataclasses import dataclass

import numpy as np

from latentfit.admixture.data.passes import SnpPasses, over_calls
from latentfit.core.em import leap_length
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import Calls
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

    def expect(self, params: Ancestry) -> AncestrySums:
        if self._last is not None and self._last.params is params:  # `maximise` looked already
            return self._last
        value, following = self.passes.step(params.shares, params.frequencies, FREQUENCY_FLOOR)
        self._last = AncestrySums(params, value, following)
        return self._last

    def objective(self, params: Ancestry, sums: AncestrySums) -> float:
        return sums.log_likelihood

    def log_likelihood(self, sums: AncestrySums) -> float:
        return sums.log_likelihood

    def maximise(self, sums: AncestrySums) -> Ancestry:
        shares, frequencies = sums.params.shares, sums.next_frequencies
        value, gradient, hessian = self.passes.curvature(shares, frequencies)
        to = _newton_target(shares, gradient, hessian)
        moved = Ancestry(to, frequencies)
        step = to - shares
        longest = float(np.einsum("ik,ikl,il->i", step, hessian, step).max())
        if longest <= SHORT or self.expect(moved).log_likelihood >= float(value.sum()):
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
        """SQUAREM's third step length over both halves, back onto simplex and box."""
        # not `leap_of`: two arrays that need not be stacked, squares added by dot products, which has other bits
        first = [once.shares - start.shares, once.frequencies - start.frequencies]
        second = [twice.shares - once.shares - first[0], twice.frequencies - once.frequencies - first[1]]
        top, bottom = (sum(float(np.vdot(part, part)) for part in parts) for parts in (first, second))
        length = leap_length(top, bottom)
        shares, frequencies = (
            begin + 2 * length * r + length * length * v
            for begin, r, v in zip((start.shares, start.frequencies), first, second, strict=True)
        )
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
