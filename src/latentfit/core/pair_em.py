"""Maximum likelihood of pair counts for any number of causes: EM on B = D_L W D_Rᵀ.

Model     a pair draws two causes from W, then its row item from D_L and its column item from D_R; in the symmetric case
          D_L = D_R and W = Wᵀ
Paper     Hofmann 1999 (the aspect model and its EM); Varadhan & Roland 2008 for SQUAREM; B = D W Dᵀ is (1) of Huang,
          Kakade, Kong & Valiant 2018
Needs     an initialisation that is not symmetric in the causes (`core.spectral.pair_model`)
Promises  the objective, log-likelihood plus the logarithm of the prior, never falls
Differs   from the latter, whose Phase II is one linear step for two causes: for K sets it adds nothing before
          EM. `smoothing` pseudo-counts per item, spread over the causes, keep a rare item from belonging to one cause
          because it was seen twice

Symbols   paper   here     shape        meaning
          B_N     rows     (M, M')      counts
          D, W    params   PairModel    dictionary and mixing matrix
          —       out      (M, K)       Σ_j C_ij / B_ij · D_R[j]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.counts import Counts
from latentfit.core.em import squarem
from latentfit.core.kernels import Floats
from latentfit.core.kernels.pair_rows import PairRows, pair_ratios
from latentfit.core.spectral import PairModel

LEAST_PROBABILITY = 1e-300
"""Least probability of a pair that was seen: its logarithm stays a number."""


@dataclass(frozen=True)
class PairStatistics:
    """Expected counts of items and pairs of causes, unnormalised like the parameters they update."""

    left: Floats  # (M, K)
    right: Floats  # (M', K)
    mixing: Floats  # (K, K)
    log_likelihood: float


class PairSteps:
    """E- and M-step for `core.em.em` on a `PairModel`."""

    def __init__(
        self,
        counts: Counts,
        *,
        symmetric: bool,
        smoothing: float = 0.0,
        weights: Floats | None = None,
        threads: int = 1,
    ) -> None:
        self.rows = counts.rows
        self.both_ways = counts.symmetric and symmetric  # every pair stands in the matrix twice
        self.turned = counts.columns
        self.symmetric, self.threads = symmetric, threads
        self.n_cells = max(int(counts.n_pairs), 1)
        sums = [counts.row_sums, counts.column_sums]
        if symmetric:
            sums = [sums[0] + sums[1]] * 2
        self.marginals = [part / part.sum() for part in sums]
        proportions = (
            np.ones(1) if weights is None else weights
        )  # (K,) or (2, K): how pseudo-counts are spread over causes
        sides = [proportions, proportions] if proportions.ndim == 1 else list(proportions)
        self.priors = [smoothing * part for part in sides]  # pseudo-counts of every item in each cause

    def e_step(self, params: PairModel) -> PairStatistics:
        left, right, mixing = params.left, params.right, params.mixing
        out, value = self._pass(self.rows, left @ mixing, right)
        log_likelihood = float(value.sum()) / (2 if self.both_ways else 1)
        pairs = mixing * (left.T @ out)
        if self.both_ways:
            items = left * (out @ mixing.T)
            return PairStatistics(items, items, (pairs + pairs.T) / 4, log_likelihood)
        back, _ = self._pass(self.turned, right @ mixing.T, left)
        rows, columns = left * (out @ mixing.T), right * (back @ mixing)
        if self.symmetric:
            return PairStatistics(rows + columns, rows + columns, (pairs + pairs.T) / 2, log_likelihood)
        return PairStatistics(rows, columns, pairs, log_likelihood)

    def objective(self, params: PairModel, sums: PairStatistics) -> float:
        value = sums.log_likelihood
        sides = [(params.left, self.priors[0])]
        if not self.symmetric:
            sides.append((params.right, self.priors[1]))
        for part, prior in sides:
            if prior.any():
                value += float((np.log(np.maximum(part, LEAST_PROBABILITY)) * prior).sum())
        return value

    def log_likelihood(self, sums: PairStatistics) -> float:
        return sums.log_likelihood

    def m_step(self, sums: PairStatistics) -> PairModel:
        left = columns_to_one(sums.left + self.priors[0])
        right = left if self.symmetric else columns_to_one(sums.right + self.priors[1])
        return PairModel(left, right, sums.mixing / sums.mixing.sum())

    def extrapolate(self, start: PairModel, once: PairModel, twice: PairModel) -> PairModel:
        """SQUAREM's extrapolation of all parts, back onto the simplices."""
        names = ("left", "mixing") if self.symmetric else ("left", "mixing", "right")
        points = [[getattr(model, name) for name in names] for model in (start, once, twice)]
        far = [np.maximum(part, 0.01 * last) for part, last in zip(squarem(*points), points[2], strict=True)]
        left = columns_to_one(far[0])
        return PairModel(left, left if self.symmetric else columns_to_one(far[2]), np.asarray(far[1] / far[1].sum()))

    def _pass(self, rows: PairRows, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        ready = [np.ascontiguousarray(part) for part in (left, right)]
        return pair_ratios(rows, ready[0], ready[1], floor=LEAST_PROBABILITY, threads=self.threads)


def columns_to_one(part: Floats) -> Floats:
    """Every cause's column scaled to the sum one; that of a cause without counts is even."""
    sums = part.sum(axis=0)
    return np.ascontiguousarray(np.where(sums > 0, part / np.where(sums > 0, sums, 1.0), 1.0 / len(part)))
