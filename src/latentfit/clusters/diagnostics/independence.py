"""Are the columns of binary rows independent? Largest pair and top eigenvalue against permuted columns.

Both statistics are read off one matrix, S[i, j] = r[i, j] · √(N[i, j] / m): the correlation of columns i and j over the
N rows (of m) that show both, shrunk where few do, since a correlation of few rows is large by chance. The largest
|S[i, j]| is maximal total correlation with d = 2 to first order (D ≈ r²/2; Najafi et al., Def. 3.5) and finds a few
strong columns; the largest eigenvalue of S finds many weak ones.

Null. Every column's observed cells are permuted among the rows that show it: margins and missing values stay,
dependence goes. B permutations give mean and spread, z = (value − mean) / spread; a borderline z is looked at again
with four times as many. p-values reach below 1/(B + 1) through the distribution that each statistic has in the limit:
Gumbel's for a largest pair, Tracy & Widom's for an eigenvalue (Chiani's 2014 gamma approximation), scaled to the
permutations' mean and spread. That these are estimated from B values is paid for: z passes through Student's t with B
− 1 degrees of freedom first.

Paper     Najafi, Motahari & Rabiee 2020, Definition 3.5 for pairs; Chiani 2014 for the tail
Needs     rows drawn independently, binary columns that vary
Promises  under independence z has mean 0 and spread 1, whatever margins and missing values are; p-values as measured in
          docs/guide/clusters/purity.md
Differs   permutations in place of a threshold from theory

Symbols   paper   here         shape    meaning
          Q       Rows         (m, L)   ones, and what is observed
          D       S            (L, L)   shrunk correlations: D ≈ S²/2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from scipy.stats import gamma, norm, t

from latentfit.core.kernels import Floats

Bits = NDArray[np.float32]
Tail = Callable[[float], float]
"""Upper tail of a distribution with mean 0 and spread 1."""

MIN_ROWS = 10
"""Rows below which nothing is tested: no pair of columns could stand out from its permutations."""
SMALL_SPREAD = 1e-9
"""Spread below which permutations count as all alike (columns with a single row on one side)."""
DENSE_EIGEN = 150
"""Size up to which all eigenvalues are computed; above it Lanczos finds the first sooner."""

BORDERLINE = (2.0, 8.0)
"""Largest z between which the first permutations do not decide: the spread of 19 values is known to ± 17 %."""
SHARPER = 4
"""Times as many permutations a borderline case gets."""

TW_SHAPE, TW_SCALE = 46.44604884387, 0.18605402228
"""Gamma approximation of the Tracy–Widom distribution of real matrices, up to its shift (Chiani 2014)."""
GUMBEL_SPREAD = np.pi / np.sqrt(6)
"""Standard deviation of Gumbel's distribution."""


@dataclass(frozen=True)
class Rows:
    """Binary rows (m, L): `ones` is 1 where a cell says so, `observed` 1 where it says anything; None: everywhere."""

    ones: Bits
    observed: Bits | None

    @property
    def n_rows(self) -> int:
        return int(self.ones.shape[0])

    def counts(self) -> tuple[Floats, Floats]:
        """Ones of every column (L,), and rows that show it."""
        ones = self.ones.sum(axis=0, dtype=np.float64)
        if self.observed is None:
            return ones, np.full_like(ones, self.n_rows)
        return ones, self.observed.sum(axis=0, dtype=np.float64)

    def keep(self, columns: NDArray[np.intp]) -> Rows:
        return Rows(self.ones[:, columns], None if self.observed is None else self.observed[:, columns])


@dataclass(frozen=True)
class Tested:
    """One statistic: its value, its permutations' mean and spread, z, the null's .95 quantile and the p-value."""

    value: float
    z: float
    quantile: float
    p_value: float


UNTESTED = Tested(float("nan"), float("nan"), float("nan"), 1.0)


def compare_with_permutations(rows: Rows, rng: np.random.Generator, *, n_permutations: int) -> list[Tested]:
    """Largest pair and top eigenvalue; untested when rows or varying columns are too few."""
    varying = varying_columns(rows)
    if rows.n_rows < MIN_ROWS or len(varying) < 2:
        return [UNTESTED, UNTESTED]
    rows = rows.keep(varying)
    pairs = None if rows.observed is None else rows.observed.T @ rows.observed

    def measure(some: Rows) -> tuple[float, float]:
        S = shrunk_correlations(some, pairs)
        return largest_pair(S)[0], top_eigenvalue(S)

    def judged() -> list[Tested]:
        return [judge(*one) for one in zip(value, np.array(null).T, (gumbel_tail, tracy_widom_tail), strict=True)]

    value = measure(rows)
    null = [measure(permute_columns(rows, rng)) for _ in range(n_permutations)]
    tests = judged()
    if BORDERLINE[0] <= max(test.z for test in tests) < BORDERLINE[1]:
        null += [measure(permute_columns(rows, rng)) for _ in range((SHARPER - 1) * n_permutations)]
        tests = judged()
    return tests


def varying_columns(rows: Rows) -> NDArray[np.intp]:
    """Columns that say both 0 and 1."""
    ones, observed = rows.counts()
    return np.flatnonzero((ones > 0) & (ones < observed))


def permute_columns(rows: Rows, rng: np.random.Generator) -> Rows:
    """Every column's observed cells in a random order of its own."""
    if rows.observed is None:
        cells = rows.ones.T.astype(np.float64)  # contiguous columns of 64-bit cells: numpy permutes these fastest
        return Rows(rng.permuted(cells, axis=1).T.astype(np.float32), None)
    ones = np.zeros_like(rows.ones.T)
    for column, cells, observed in zip(ones, rows.ones.T, rows.observed.T > 0, strict=True):
        column[observed] = rng.permutation(cells[observed])
    return Rows(np.ascontiguousarray(ones.T), rows.observed)


# ------------------------------------------------------------------ statistics


def shrunk_correlations(rows: Rows, pairs: Bits | None = None, weight: Floats | None = None) -> Floats:
    """S (L, L) of the module's head, ones on the diagonal; `weight` counts rows (m,) by real numbers.

    `pairs` are the rows that show both columns, when known already. A pair in which one column does not vary is 0.
    """
    X = rows.ones
    M = rows.observed
    left = X if weight is None else X * weight[:, None].astype(X.dtype)
    both = (left.T @ X).astype(np.float64)
    m = float(rows.n_rows) if weight is None else float(weight.sum())
    if M is None:
        single = np.diag(both).copy()
        covariance = both
        covariance *= m  # in place: permutations come here thousands of times
        covariance -= np.outer(single, single)
        spread = np.sqrt(np.maximum(m * single - np.square(single), 0.0))
        scale = np.outer(spread, spread)
    else:
        N = (M.T @ M if weight is None else (M * weight[:, None].astype(M.dtype)).T @ M) if pairs is None else pairs
        N = N.astype(np.float64)
        single = (left.T @ M).astype(np.float64)  # ones of column i among the rows that show j
        covariance = N * both - single * single.T
        spread = np.maximum(N * single - np.square(single), 0.0)
        scale = np.sqrt(spread * spread.T) * np.sqrt(m / np.maximum(N, 1e-300))
    # single precision rounds sums at 1e-7 of m²: less spread than that is none
    live = scale > (0.0 if weight is None else 1e-6 * m * m)
    S = np.divide(covariance, scale, out=np.zeros_like(scale), where=live)
    np.fill_diagonal(S, 1.0)
    return np.asarray(S)


def largest_pair(S: Floats) -> tuple[float, tuple[int, int]]:
    """The largest |S[i, j]|, i < j, and where it is."""
    size = np.triu(np.abs(S), 1)
    i, j = np.unravel_index(int(np.argmax(size)), size.shape)
    return float(size[i, j]), (int(i), int(j))


def top_eigenvalue(S: Floats) -> float:
    if len(S) <= DENSE_EIGEN:
        return float(np.linalg.eigvalsh(S)[-1])
    return float(eigsh(S, k=1, which="LA", v0=np.ones(len(S)), tol=1e-8, return_eigenvectors=False)[0])


# ----------------------------------------------------------------------- tails


def judge(value: float, null: Floats, tail: Tail) -> Tested:
    """A value against its permutations under a distribution of mean 0 and spread 1 given by its upper tail."""
    mean, spread = float(null.mean()), float(null.std(ddof=1))
    if not spread > SMALL_SPREAD:
        return Tested(float(value), 0.0, mean, 1.0)
    z = (float(value) - mean) / spread
    return Tested(float(value), z, mean + spread * QUANTILES[tail], tail(_student_to_normal(z, len(null))))


def _student_to_normal(z: float, n_draws: int) -> float:
    """The normal deviate as rare as z is when mean and spread come from `n_draws` values."""
    return float(norm.isf(t.sf(z / np.sqrt(1 + 1 / n_draws), n_draws - 1)))


def gumbel_tail(z: float) -> float:
    """P(largest of many ≥ mean + z spreads)."""
    return float(-np.expm1(-np.exp(-(z * GUMBEL_SPREAD + np.euler_gamma))))


def tracy_widom_tail(z: float) -> float:
    """P(top eigenvalue ≥ mean + z spreads)."""
    return float(gamma.sf((TW_SHAPE + z * np.sqrt(TW_SHAPE)) * TW_SCALE, TW_SHAPE, scale=TW_SCALE))


QUANTILES: dict[Tail, float] = {
    gumbel_tail: float((-np.log(-np.log(0.95)) - np.euler_gamma) / GUMBEL_SPREAD),
    tracy_widom_tail: float((gamma.isf(0.05, TW_SHAPE) - TW_SHAPE) / np.sqrt(TW_SHAPE)),
}
"""Where each distribution's upper .05 begins, in spreads above the mean."""


def together(p_values: list[float]) -> float:
    """The probability that the smallest of several p-values is so small, were they unrelated (Šidák)."""
    return float(-np.expm1(len(p_values) * np.log1p(-min(p_values)))) if min(p_values) < 1 else 1.0
