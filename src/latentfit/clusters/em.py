r"""Binary rows of which those that are all 0 were never recorded: a likelihood that knows it.

Registers of patients, baskets and captured animals have no row without a single 1. Under P0 = Σ_k w_k Π_n (1 − p_kn),
the probability of such a row, the rows that are there follow P(row) / (1 − P0). The likelihood of the rows as they are
(without the division) sees columns that avoid one another, and explains it by clusters that do not exist.

The rule of inclusion is about the complete row: it is in the table when at least one of its columns is 1, observed or
not. Let A be the probability of what a row shows (a sum over clusters, columns that are missing left out). Then

    a row that shows a 1                    A / (1 − P0)
    a row that shows zeros and missing values alone   (A − P0) / (1 − P0), for one of the missing cells must be 1
    a row that shows zeros alone            impossible, and refused

EM with the rows that were never recorded as missing data, N P0 / (1 − P0) of them expected beside N rows. They are all
alike, so an E-step adds their statistics at once, whatever engine walks the others. Rows of zeros and missing values
are counted by the engine as rows that show zeros; since E[·| A, not all 0] = (A E[·| A] − P0 E[·| all 0]) / (A − P0),
their share of all-zero rows is taken off afterwards, missing cells filled by their expectation. They are few different
ones: which cells are missing is all that tells them apart.

Paper     Dempster, Laird & Rubin 1977, section 4.2 (truncation as missing data); latent classes in capture-recapture:
          Agresti 1994
Needs     columns of two categories, code 1 being yes
Promises  the objective never falls: it is an EM over complete data
Differs   the truncation is that of the complete row; cells are missing at random

Symbols   here          shape    meaning
          log_zero      (K,)     log w_k Π_n (1 − p_kn)
          log_p0        —        log P0
          missing       (P, L)   different rows of zeros and missing values: which cells are missing
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from latentfit.core.em import Steps
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import entropy_of
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.stored import AnyTable
from latentfit.core.table.table import Codes, Table
from latentfit.engine.memory import Sums

LEAST = 1e-12
"""Smallest 1 − P0 and 1 − P0 / A: beyond it nearly nothing would ever be recorded."""
MAX_UNSEEN = 10.0
"""Rows never recorded that `completed` adds, in multiples of those that were."""


@dataclass(frozen=True)
class BlankRows:
    """The different rows that show zeros and missing values alone: their missing cells (P, L) and weights (P,)."""

    missing: NDArray[np.bool_]
    weight: Floats

    @classmethod
    def of(cls, table: AnyTable) -> BlankRows:
        """Those of a table; a row that shows zeros alone is refused."""
        masks = [np.zeros((0, table.n_columns), bool)]
        weights, impossible = [np.zeros(0)], False
        for block in table.blocks():
            blank = ~(block.codes == 1).any(axis=1)
            missing_mask = block.codes[blank] > 1
            impossible |= bool((~missing_mask.any(axis=1)).any())
            masks.append(missing_mask)
            weights.append(block.each_weight()[blank])
        if impossible:
            raise DataError(
                "truncated=True says that rows of zeros alone are never recorded, and the table has such rows; leave "
                "them out, or fit with truncated=False"
            )
        unique_rows, at = np.unique(np.concatenate(masks), axis=0, return_inverse=True)
        weight = np.bincount(at.reshape(-1), np.concatenate(weights), minlength=len(unique_rows)).astype(np.float64)
        return cls(unique_rows, weight)


@dataclass(frozen=True)
class TruncatedSums(Sums):
    """Statistics with those of rows never recorded, the conditional log-likelihood, and the memberships' entropy."""

    entropy: float


@dataclass(frozen=True)
class TruncatedSteps:
    """EM steps of rows without all-zero ones, over the steps of rows as they are."""

    plain: Steps[Mixture, Sums]
    blank: BlankRows

    @property
    def n_cells(self) -> int:
        return self.plain.n_cells

    def e_step(self, params: Mixture) -> TruncatedSums:
        return truncated_sums(self.plain.e_step(params), params, self.blank)

    def objective(self, params: Mixture, sums: Sums) -> float:
        return self.plain.objective(params, sums)

    def log_likelihood(self, sums: Sums) -> float:
        return sums.log_likelihood

    def m_step(self, sums: Sums) -> Mixture:
        return self.plain.m_step(sums)

    def extrapolate(self, start: Mixture, once: Mixture, twice: Mixture) -> Mixture:
        return self.plain.extrapolate(start, once, twice)


@dataclass(frozen=True)
class ZeroRow:
    """The all-zero row under a mixture: log P0, log (1 − P0), its posterior (K,), log (1 − p) of all cells (L, K)."""

    log_p0: float
    log_seen: float
    posterior: Floats
    log_no: Floats

    @classmethod
    def of(cls, mixture: Mixture) -> ZeroRow:
        log_no = mixture.log_table()[0::2]
        log_zero = mixture.log_weights() + log_no.sum(axis=0)
        log_p0 = min(float(logsumexp(log_zero)), 0.0)
        log_seen = float(np.log(max(-np.expm1(log_p0), LEAST)))
        return cls(log_p0, log_seen, np.exp(log_zero - logsumexp(log_zero)), log_no)

    @property
    def odds(self) -> float:
        """P0 / (1 − P0): rows never recorded for each that was."""
        return float(np.exp(self.log_p0 - self.log_seen))

    def blank(self, mixture: Mixture, missing: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """Of rows that show zeros and missing values: posterior (P, K) as such, log (1 − P0/A) and P0/(A − P0) (P,)."""
        log_a = mixture.log_weights() + (~missing).astype(np.float64) @ self.log_no
        log_sum = logsumexp(log_a, axis=1)
        left = np.maximum(-np.expm1(np.minimum(self.log_p0 - log_sum, 0.0)), LEAST)
        return np.exp(log_a - log_sum[:, None]), np.log(left), np.exp(self.log_p0 - log_sum) / left


def truncated_sums(plain: Sums, mixture: Mixture, blank: BlankRows) -> TruncatedSums:
    """The statistics of rows as they are → those of the complete data under truncation."""
    zero = ZeroRow.of(mixture)
    posterior, log_left, excess = zero.blank(mixture, blank.missing)
    n_rows = float(plain.totals.sum())
    # rows of zeros and missing values: (1 + c) times as they are, less c all-zero rows, c = P0 / (A − P0)
    extra = (blank.weight * excess)[:, None] * posterior
    filled = (blank.weight * (1 + excess))[:, None] * posterior  # missing cells are filled by their expectation
    unseen = (n_rows * zero.odds - float((blank.weight * excess).sum())) * zero.posterior
    totals = plain.totals + extra.sum(axis=0) + unseen
    table = plain.table.copy()
    missing = blank.missing.astype(np.float64)
    in_missing = missing.T @ filled  # (L, K)
    table[0::2] += (1 - missing).T @ extra + in_missing * mixture.table[0::2] + unseen
    table[1::2] += in_missing * mixture.table[1::2]
    log_likelihood = plain.log_likelihood + float(blank.weight @ log_left) - n_rows * zero.log_seen
    truly = _without_zero(posterior, excess, zero.posterior)
    entropy = entropy_of(mixture, plain) + float(blank.weight @ (entr(truly) - entr(posterior)).sum(axis=1))
    return TruncatedSums(log_likelihood, np.maximum(totals, 0.0), np.maximum(table, 0.0), max(entropy, 0.0))


def truncated_rows(codes: Codes, mixture: Mixture, posterior: Floats, log_likelihood: Floats) -> tuple[Floats, Floats]:
    """Posterior (n, K) and log-likelihood (n,) of coded rows under truncation, from those as they are.

    A row of zeros alone cannot have been recorded: its log-likelihood is −∞, its posterior that of such rows.
    """
    zero = ZeroRow.of(mixture)
    posterior, out = posterior.copy(), log_likelihood - zero.log_seen
    at = np.flatnonzero(~(codes == 1).any(axis=1))
    missing = codes[at] > 1
    known = ~missing.any(axis=1)
    out[at[known]] = -np.inf
    at, missing = at[~known], missing[~known]
    _, log_left, excess = zero.blank(mixture, missing)
    out[at] += log_left
    posterior[at] = _without_zero(posterior[at], excess, zero.posterior)
    return posterior, out


def _without_zero(posterior: Floats, excess: Floats, of_zero: Floats) -> Floats:
    """Posterior (P, K) of rows of zeros and missing values that are known not to be all 0."""
    rest = np.maximum((1 + excess)[:, None] * posterior - excess[:, None] * of_zero, 0.0)
    return np.asarray(rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300))


def unseen_fraction(mixture: Mixture) -> float:
    """P0 / (1 − P0): all-zero rows expected for each row that was recorded."""
    return ZeroRow.of(mixture).odds


def recorded_weights(mixture: Mixture) -> Floats:
    """Proportions (K,) of the clusters among the rows that are recorded."""
    zero = ZeroRow.of(mixture)
    recorded = np.maximum(mixture.weights - np.exp(zero.log_p0) * zero.posterior, 0.0)
    return np.asarray(recorded / max(float(recorded.sum()), 1e-300))


def completed(table: Table, mixture: Mixture) -> Table:
    """The table with the all-zero rows that are expected: what a test of independence inside clusters has to see."""
    each = table.rows_each() if not table.weighted else np.maximum(table.rows_each(), 1)
    weight = table.each_weight()
    integral = bool(np.array_equal(weight, np.round(weight)))
    typical = 1.0 if integral else table.total_weight / max(float(each.sum()), 1.0)
    number = round(min(unseen_fraction(mixture), MAX_UNSEEN) * table.total_weight / typical)
    if number < 1:
        return table
    rows = 1 if integral else number  # whole weights are equal rows: one row of that weight
    codes = np.vstack([table.codes, np.zeros((rows, table.n_columns), table.codes.dtype)])
    weight = np.concatenate([weight, np.full(rows, float(number) if integral else typical)])
    equal = None if integral else np.concatenate([each, np.ones(rows, np.int64)])
    return replace(table, codes=codes, row_weight=weight, unique_index=None, equal=equal)
