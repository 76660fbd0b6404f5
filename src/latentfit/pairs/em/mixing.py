"""A mixing distribution on a grid, and what each unit is worth under it: the nonparametric part of empirical Bayes.

Model     unit i has a hidden number θ_i drawn from an unknown law on a grid, and a likelihood of every grid point
Paper     Robbins 1956; Kiefer & Wolfowitz 1956 (the maximum-likelihood mixing law); Laird 1978 (its EM)
Needs     the likelihoods, nothing of the law
Promises  every step climbs; the law is the maximum over the grid when the climb converged
Differs   `pseudo` units of a given law may be added as a prior: small groups of units are drawn to the law of all

Symbols   paper   here             shape           meaning
          G       params           (point,)        the mixing law
          f       log_likelihood   (unit, point)   of every unit at every grid point
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.em import Refined, em, leap_length
from latentfit.core.kernels import Floats

LEAST_SHARE = 1e-300
"""A grid point's share never reaches zero, so that its logarithm stays a number."""


@dataclass(frozen=True)
class MixingSums:
    """Expected units at each grid point, and the log-likelihood."""

    at_points: Floats
    log_likelihood: float


class MixingSteps:
    """E and M step of a mixing law (point,); `log_likelihood` is (unit, point), `prior` pseudo-units at each point."""

    def __init__(
        self,
        log_likelihood: Floats,
        *,
        multiplicity: Floats | None = None,
        prior: Floats | None = None,
        n_cells: int | None = None,
    ) -> None:
        best = log_likelihood.max(axis=1)
        self.likelihood = np.exp(log_likelihood - best[:, None])
        self.multiplicity = np.ones(len(best)) if multiplicity is None else multiplicity
        self.prior = np.zeros(log_likelihood.shape[1]) if prior is None else prior
        self.n_cells = int(self.multiplicity.sum()) if n_cells is None else n_cells
        self._offset = float(self.multiplicity @ best)

    def expect(self, params: Floats) -> MixingSums:
        chance = np.maximum(self.likelihood @ params, LEAST_SHARE)
        sums = params * (self.likelihood.T @ (self.multiplicity / chance))
        return MixingSums(sums, self._offset + float(self.multiplicity @ np.log(chance)))

    def objective(self, params: Floats, sums: MixingSums) -> float:
        return sums.log_likelihood + float(self.prior @ np.log(np.maximum(params, LEAST_SHARE)))

    def log_likelihood(self, sums: MixingSums) -> float:
        return sums.log_likelihood

    def maximise(self, sums: MixingSums) -> Floats:
        total = sums.at_points + self.prior
        return np.asarray(total / total.sum())

    def extrapolate(self, start: Floats, once: Floats, twice: Floats) -> Floats:
        """SQUAREM's third step length, back onto the simplex."""
        # not `leap_of`: c − 2b + a at once and squares added by dot products have other bits
        first, second = once - start, twice - 2 * once + start
        length = leap_length(float(first @ first), float(second @ second))
        leap = np.maximum(start + 2 * length * first + length * length * second, 0.1 * twice)
        return np.asarray(leap / leap.sum())

    def posterior_moments(self, params: Floats, grid: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of every unit's number."""
        chance = np.maximum(self.likelihood @ params, LEAST_SHARE)
        mean = (self.likelihood @ (params * grid)) / chance
        return mean, np.maximum((self.likelihood @ (params * grid**2)) / chance - mean**2, 0.0)


def climb(steps: MixingSteps, start: Floats, *, max_iter: int, tol: float) -> Refined[Floats, MixingSums]:
    """The one EM loop on a mixing law."""
    return em(steps, start, max_iter=max_iter, tol=tol, accelerate=True)


def even_law(n_points: int) -> Floats:
    """Every grid point alike."""
    return np.full(n_points, 1.0 / n_points)


MOST_SHRUNK = 2_500.0
"""Counts above it are their own rates: their relative error is below 2 %."""
RATE_PASSES, RATE_TOL = 60, 1e-5
"""EM of the law of the rates: posterior means stand long before the law does."""
ROOT_STEP = 0.25
"""Steps of the grid in the root of the rate, where a Poisson count has the standard deviation ½ whatever its rate."""


def poisson_rates(counts: Floats) -> Floats:
    """Posterior mean rates of Poisson counts (M,) whose rates have an unknown law: frequent counts barely move.

    A count of zero gets the rate that the law of all others leaves it, so an item never seen keeps some probability.
    """
    from scipy.special import gammaln

    rates = counts.astype(np.float64)
    shrunk = counts <= MOST_SHRUNK
    values, place, many = np.unique(counts[shrunk], return_inverse=True, return_counts=True)
    if not len(values):
        return rates
    least = float(values[values > 0].min(initial=1.0))
    grid = np.arange(0.2 * np.sqrt(min(least, 1.0)), np.sqrt(values[-1]) + 1.0, ROOT_STEP) ** 2
    likelihood = values[:, None] * np.log(grid) - grid - gammaln(values + 1)[:, None]
    steps = MixingSteps(likelihood, multiplicity=many.astype(np.float64))
    found = climb(steps, even_law(len(grid)), max_iter=RATE_PASSES, tol=RATE_TOL)
    rates[shrunk] = steps.posterior_moments(found.params, grid)[0][place.reshape(-1)]
    return rates
