"""What the fitted switches leave of the rows, and rows and features that are none.

Paper     none; moments of the residuals under the posterior, E[(x − Wᵀh)(x − Wᵀh)ᵀ], which are σ²I where the model
          holds; the part of a row outside the span of the weights, whose square over σ² is χ² with m − d degrees of
          freedom whatever the switches are
Needs     fitted switches, and rows (a sample of them)
Promises  features whose noise differs or is shared, and rows far from every combination of switches, are found
Differs   —

Symbols   here         shape     meaning
          variances    (m,)      residual variance of every feature
          correlation  (f, f)    of residuals, of the f features that leave most
          outlying     —         fraction of the rows beyond the χ² quantile
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

from latentfit.core.kernels import Floats
from latentfit.core.sampling import mixed
from latentfit.factors.diagnostics.limits import LIMITS
from latentfit.factors.em.states import pair_moments
from latentfit.factors.em.steps import SwitchParams, correlate, state_posterior, way_to_sum


@dataclass(frozen=True)
class Residuals:
    """What the switches leave of n rows; see the symbols above."""

    n: int
    variances: Floats
    correlation: float
    pair: tuple[int, int]
    n_pairs: int
    outlying: float

    @property
    def noise_ratio(self) -> float:
        """Largest over smallest standard deviation of the noise of a feature."""
        return float(np.sqrt(self.variances.max() / max(float(self.variances.min()), 1e-300)))

    @property
    def noise_ratio_limit(self) -> float:
        """The ratio that matters, or the one that equal noise reaches once in a thousand."""
        tail = LIMITS.level / (2 * len(self.variances))
        by_chance = np.sqrt(chi2.ppf(1 - tail, self.n) / max(float(chi2.ppf(tail, self.n)), 1e-300))
        return float(max(LIMITS.unequal, by_chance))

    @property
    def correlation_limit(self) -> float:
        """The correlation that matters, or the largest one that independent noise reaches once in a thousand."""
        by_chance = norm.isf(LIMITS.level / (2 * max(self.n_pairs, 1))) / np.sqrt(self.n)
        return float(max(LIMITS.dependent, by_chance))

    @property
    def correlation_p_value(self) -> float:
        """Probability that the largest correlation of independent noise is as large (Bonferroni)."""
        return float(min(2 * self.n_pairs * norm.sf(abs(self.correlation) * np.sqrt(self.n)), 1.0))

    @property
    def outlying_p_value(self) -> float:
        """Probability of so many rows beyond the quantile."""
        return float(binom.sf(round(self.outlying * self.n) - 1, self.n, LIMITS.row_tail))


def residuals_of(rows: Floats, params: SwitchParams) -> Residuals:
    """Moments of the residuals of rows (n, m) under the posterior of the switches."""
    n, m = rows.shape
    posterior = state_posterior(correlate(rows, params), replace(params, centres=None), way_to_sum(params))
    together = pair_moments(posterior.state_counts, params.d)
    cross, W = posterior.mean.T @ rows, params.W
    variances = (np.einsum("nm,nm->m", rows, rows) - 2 * (W * cross).sum(axis=0) + (W * (together @ W)).sum(axis=0)) / n
    variances = np.maximum(variances, 0.0)
    some = np.sort(np.argsort(-variances, kind="stable")[: LIMITS.most_features])
    of_some = rows[:, some]
    shared = W[:, some].T @ cross[:, some]
    moments = (of_some.T @ of_some - shared - shared.T + W[:, some].T @ together @ W[:, some]) / n
    scale = np.sqrt(np.maximum(np.diag(moments), 1e-300))
    correlation = moments / np.outer(scale, scale)
    np.fill_diagonal(correlation, 0.0)
    at = int(np.abs(correlation).argmax())
    first, second = sorted(divmod(at, len(some)))
    n_pairs = len(some) * (len(some) - 1) // 2
    largest = float(correlation[first, second]) if n_pairs else 0.0
    return Residuals(
        n, variances, largest, (int(some[first]), int(some[second])), n_pairs, _outlying(rows, params, m - params.d)
    )


def _outlying(rows: Floats, params: SwitchParams, freedom: int) -> float:
    """Fraction of the rows outside the span of the weights by more than all but `LIMITS.row_tail` of them should be.

    σ² comes from the median row, so that outlying rows do not hide one another.
    """
    if freedom < 1:
        return 0.0
    inside = rows @ np.linalg.qr(params.W.T)[0]
    squares = np.maximum((rows**2).sum(axis=1) - (inside**2).sum(axis=1), 0.0)
    sigma2 = float(np.median(squares)) / float(chi2.median(freedom))
    return float((squares > sigma2 * chi2.isf(LIMITS.row_tail, freedom)).mean())


def repeated_rows(rows: Floats) -> float:
    """Fraction of the rows that equal an earlier one in every feature."""
    bits: NDArray[np.uint64] = np.ascontiguousarray(rows + 0.0).view(np.uint64)  # + 0.0: of one sign for zero
    words = mixed(bits ^ np.arange(rows.shape[1], dtype=np.uint64))
    return (len(rows) - len(np.unique(words.sum(axis=1)))) / max(len(rows), 1)


def running_number(rows: Floats, n_rows: int) -> int | None:
    """The first feature that numbers the rows: whole numbers, no two alike, as many as rows; None if there is none.

    Of a sample of the rows the numbers must spread over as many values as there are rows.
    """
    whole = np.flatnonzero((rows == np.round(rows)).all(axis=0))
    for feature in whole.tolist():
        values = rows[:, feature]
        spread = float(values.max() - values.min()) + 1
        if len(np.unique(values)) == len(values) and 0.9 * n_rows <= spread <= 1.02 * n_rows + 2:
            return int(feature)
    return None
