"""How far would the classes move on other rows, and is one more class needed? Bootstrap of latent class models.

Rows are resampled as multinomial weights on the unique rows, so a draw costs what a pass over the unique rows
costs; EM starts from the fitted parameters and classes are matched by optimal assignment. Rows with sampling weights
are drawn like any others and bring their weights along.

Intervals: percentiles under-cover near 0 and 1, where the estimate cannot move outwards, and an estimate of exactly
0 has no spread at all. So an interval here is Wilson's score interval at an effective number of rows,
n_eff = p(1 − p) / se². The bootstrap gives the standard errors; ratios are pooled within a class and column, so that
a category never seen in a class borrows the effective rows of its neighbours. Rows of other classes leak into a
category that a class never shows, which no binomial knows of: an interval reaches 0 or 1 where the estimate, without
the pseudo-counts of a smoothed fit, lies within z standard errors of it. Coverage by region is in
docs/guide/tables/verdict.md.

The likelihood-ratio test of F against F + 1 classes (McLachlan 1987) simulates tables from the fitted F classes with
the missing values of the data, and treats the data and every simulated table by the same initialisations: only then is
its size right. It stops as soon as the answer at level `alpha` is known (Besag & Clifford 1991). With sampling weights
the ratio is one of pseudo-likelihoods; simulated rows have the weights of the data, so that it is compared with its
like. Where weights depend on the answers themselves that null is an approximation.

Paper     McLachlan 1987; Besag & Clifford 1991; Wilson 1927 for the form of the intervals
Needs     a fitted mixture and its table; initialisations like those of the fit
Promises  intervals that cover as docs/guide/tables/verdict.md measures; the test's size is `alpha`
Differs   standard errors go into Wilson's interval instead of percentiles; draws weigh unique rows instead of copying
          rows

Symbols   here             shape    meaning
          table_se         (C, F)   se, standard errors of the tables
          pooled_rows      (C, F)   n_eff, pooled
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from latentfit.core.assign import align_classes
from latentfit.core.em import EMResult, em
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import count_parameters, table_steps
from latentfit.core.mixture.init import RowView, marginal_table, rows_as_seeds, soften
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.progress import counted
from latentfit.core.table.replicates import is_whole
from latentfit.core.table.table import Table, group_rows
from latentfit.core.verdict import reach_bounds, reach_ends, standard_errors_of, wilson
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of


@dataclass(frozen=True)
class ResamplingSettings:
    """Tuned numbers of refits and of the ratio test."""

    # Iterations of a refit, and the gain per cell at which it has converged: looser ones would leave replicates at
    # their start, too close.
    max_iter: int = 500
    tolerance: float = 1e-8
    # The same for the fits of the ratio test, which are compared by their log-likelihoods alone.
    test_max_iter: int = 300
    test_tolerance: float = 1e-6
    pooled: float = 0.5  # Weight of the class and column's pooled spread relative to a category's own.
    rounds: tuple[int, ...] = (
        5,
        5,
        10,
    )  # Iterations after which the better half of the ratio test's initialisations stays.
    # Squared spread of draws that are all alike: the rows it stands for can still be squared.
    no_spread: float = 1e-150
    n_random_inits: int = 3  # Initialisations from random rows, in addition to one split of every class.


RESAMPLING = ResamplingSettings()


@dataclass(frozen=True)
class Bootstrap:
    """Standard errors and intervals of the fitted values; tables are (C, F) like those of the mixture."""

    weights_se: Floats  # (F,)
    weights_low: Floats
    weights_high: Floats
    table_se: Floats  # (C, F)
    table_low: Floats
    table_high: Floats


@dataclass(frozen=True)
class RatioTest:
    """F classes against F + 1: the statistic, its simulated values, and the p-value they give."""

    statistic: float  # 2 (ℓ_{F+1} − ℓ_F)
    p_value: float
    n_draws: int
    simulated: Floats
    alternative: Mixture


def bootstrap_mixture(
    table: Table,
    mixture: Mixture,
    *,
    n_draws: int = 100,
    level: float = 0.95,
    smoothing: float = 0.0,
    random_state: int = 0,
    n_jobs: int | None = 1,
) -> Bootstrap:
    """Nonparametric bootstrap of a fitted mixture; `smoothing` as in the fit."""
    z = standard_errors_of(level)
    if n_draws < 2:
        raise DataError(f"n_draws must be an int >= 2, got {n_draws}; give 2 or more, better 100")
    rng = np.random.default_rng(random_state)
    F = mixture.n_classes
    weights, tables = np.empty((n_draws, F)), np.empty((n_draws, *mixture.table.shape))
    for draw in counted(range(n_draws), "resampling", n_draws, "tables"):
        resampled = resample_rows(table, rng)
        moved = _refitted(resampled, mixture, smoothing, n_jobs)
        weights[draw], tables[draw] = moved.weights, moved.table
    weights_se, table_se = weights.std(axis=0, ddof=1), tables.std(axis=0, ddof=1)
    w = mixture.weights
    weights_rows = np.maximum(w * (1 - w) / np.maximum(np.square(weights_se), RESAMPLING.no_spread), 1.0)
    weights_low, weights_high = wilson(w, weights_rows, z) if F > 1 else (w, w)  # a single class weighs one
    rows = np.minimum(pooled_rows(mixture, table_se), np.maximum(table.total_weight * w, 1.0))
    said = mixture.table if smoothing == 0 else _refitted(table, mixture, 0.0, n_jobs).table
    reaching = reach_bounds(said, table_se, wilson(mixture.table, rows, z), z)
    table_low, table_high = reach_ends(said * rows, (1 - said) * rows, reaching)
    return Bootstrap(weights_se, weights_low, weights_high, table_se, table_low, table_high)


def _refitted(table: Table, mixture: Mixture, smoothing: float, n_jobs: int | None) -> Mixture:
    steps = table_steps(table, mixture.n_classes, smoothing, n_jobs)
    return align_classes(
        em(steps, mixture, max_iter=RESAMPLING.max_iter, tol=RESAMPLING.tolerance, accelerate=True).params, mixture
    )


def resample_rows(table: Table, rng: np.random.Generator) -> Table:
    """As many rows as there were, drawn with replacement: multinomial weights on the unique rows, zeros left out."""
    rows = counted_rows(table)
    drawn = rng.multinomial(max(round(rows.sum()), 1), rows / rows.sum())
    keep = np.flatnonzero(drawn)
    weight = drawn[keep].astype(np.float64)
    if table.sampling:
        weight *= table.each_weight()[keep] / rows[keep]
    weight *= table.total_weight / weight.sum()
    return replace(table.take(keep), row_weight=weight, equal=drawn[keep] if table.sampling else None)


def counted_rows(table: Table) -> Floats:
    """How many rows each unique row is: its weight, unless that is a sampling weight."""
    return table.rows_each().astype(np.float64) if table.sampling else table.each_weight()


def pooled_rows(mixture: Mixture, table_se: Floats) -> Floats:
    """Rows (C, F) whose binomial spread would be the bootstrap's, a category's own mixed with its column's."""
    sizes, inits = np.diff(mixture.column_offsets), mixture.column_offsets[:-1]
    binomial, spread = mixture.table * (1 - mixture.table), np.square(table_se)
    pool_binomial = np.repeat(np.add.reduceat(binomial, inits, axis=0) / sizes[:, None], sizes, axis=0)
    pool_spread = np.repeat(np.add.reduceat(spread, inits, axis=0) / sizes[:, None], sizes, axis=0)
    proportion = (binomial + RESAMPLING.pooled * pool_binomial) / np.maximum(
        spread + RESAMPLING.pooled * pool_spread, RESAMPLING.no_spread
    )
    return np.asarray(np.maximum(proportion, 1.0))


# ------------------------------------------------------- likelihood-ratio test


def ratio_test(
    table: Table,
    mixture: Mixture,
    *,
    n_draws: int = 99,
    alpha: float = 0.05,
    smoothing: float = 0.0,
    random_state: int = 0,
    n_jobs: int | None = 1,
) -> RatioTest:
    """Are F + 1 classes better than the fitted F beyond chance? A small p-value says yes."""
    rng = np.random.default_rng(random_state)
    null = _run_em(table, mixture, smoothing, n_jobs).params
    statistic, alternative = _ratio(table, null, smoothing, n_jobs, rng)
    decided = int(np.floor(alpha * (n_draws + 1)))  # so many exceedances and p is above alpha, whatever follows
    simulated: list[float] = []
    above = 0
    for _ in counted(range(n_draws), "ratio test", n_draws, "tables"):
        drawn = draw_table(table, null, rng)
        simulated.append(_ratio(drawn, null, smoothing, n_jobs, rng)[0])
        above += simulated[-1] >= statistic
        if decided > 0 and above >= decided:
            break
    stopped = len(simulated) < n_draws
    p_value = above / len(simulated) if stopped else (above + 1) / (n_draws + 1)
    return RatioTest(statistic, float(p_value), len(simulated), np.array(simulated), alternative)


def _run_em(table: Table, init: Mixture, smoothing: float, n_jobs: int | None) -> EMResult[Mixture, Sums]:
    steps = table_steps(table, init.n_classes, smoothing, n_jobs)
    return em(steps, init, max_iter=RESAMPLING.test_max_iter, tol=RESAMPLING.test_tolerance, accelerate=True)


def _ratio(
    table: Table, null: Mixture, smoothing: float, n_jobs: int | None, rng: np.random.Generator
) -> tuple[float, Mixture]:
    """2 (ℓ_{F+1} − ℓ_F) with the same initialisations for every table: F from `null`, F + 1 from splits and rows."""
    F = null.n_classes
    few = _run_em(table, null, smoothing, n_jobs)
    steps = table_steps(table, F + 1, smoothing, n_jobs)
    inits = [split_class(few.params, f, table, rng) for f in range(F)]
    inits += [rows_as_seeds(RowView(table), F + 1, rng) for _ in range(RESAMPLING.n_random_inits)]
    candidates = [Candidate(str(number), steps, init) for number, init in enumerate(inits)]
    many = successive_halving(
        candidates,
        rounds=RESAMPLING.rounds,
        max_iter=RESAMPLING.test_max_iter,
        tol=RESAMPLING.test_tolerance,
        accelerate=True,
    ).refined
    return max(2 * (many.log_likelihood - few.log_likelihood), 0.0), many.params


def split_class(mixture: Mixture, which: int, table: Table, rng: np.random.Generator) -> Mixture:
    """The mixture with one class halved: its profile pulled towards and away from a random row of the table."""
    row = table.codes[int(rng.integers(table.n_rows))].astype(np.intp)
    seen = row < np.diff(table.column_offsets)
    pulled = mixture.table[:, which].copy()
    at = table.column_offsets[:-1][seen] + row[seen]
    pulled *= 0.5
    pulled[at] += 0.5
    hidden = np.repeat(~seen, np.diff(table.column_offsets))
    pulled[hidden] = mixture.table[hidden, which]
    columns = np.column_stack([mixture.table, pulled])
    weights = np.append(mixture.weights, mixture.weights[which] / 2)
    weights[which] /= 2
    return soften(Mixture(weights, columns, mixture.column_offsets), marginal_table(table))


def draw_table(table: Table, mixture: Mixture, rng: np.random.Generator) -> Table:
    """Rows drawn from the mixture with the missing values and weights of the table, equal ones grouped."""
    counts = counted_rows(table)
    if is_whole(counts):
        rows = np.repeat(np.arange(table.n_rows), counts.astype(np.int64))
    else:  # a part of a table, of which rows are fractions
        rows = rng.choice(table.n_rows, size=max(round(counts.sum()), 1), p=counts / counts.sum())
    weight = (table.each_weight() / counts)[rows] if table.sampling else None
    present = table.present[rows]
    classes = rng.choice(mixture.n_classes, size=len(rows), p=mixture.weights / mixture.weights.sum())
    codes = np.full(present.shape, np.iinfo(table.codes.dtype).max, table.codes.dtype)
    for n in range(table.n_columns):
        drawn = mixture.draw_codes(n, classes, rng)
        codes[present[:, n], n] = drawn[present[:, n]]
    return group_rows(replace(table, codes=codes, row_weight=weight, unique_index=None, equal=None))


# -----------------------------------------------------------------------------
# Fit indices of latent class models: what a likelihood is worth after paying for its parameters.
#
# All criteria are smaller-is-better; with ℓ the log-likelihood in nats at the parameters given (a smoothed fit lies a
# little below the maximum), q the free parameters and n the rows, or Kish's effective number under sampling weights:
#
#     AIC    −2ℓ + 2q                 (Akaike 1974)
#     AIC3   −2ℓ + 3q                 (Bozdogan 1993)
#     BIC    −2ℓ + q ln n             (Schwarz 1978)
#     SABIC  −2ℓ + q ln((n + 2)/24)   (Sclove 1987)
#     CAIC   −2ℓ + q (ln n + 1)       (Bozdogan 1987)
#
# Entropy R² is 1 − Σ_s H(posterior of row s) / (n ln F): 1 when every row is sure of its class, 0 when the posterior is
# uniform. It is not a number for one class.
#
# Paper     those named with the criteria
# Needs     a fitted mixture and its table
# Promises  the definitions; how often each finds the number of clusters: docs/evidence/reproduction/clusters.md
# Differs   under sampling weights ℓ is a pseudo-log-likelihood on the scale of Kish's number of rows
#           (core/table/weights.py)
#
# Symbols   above

Number = TypeVar("Number", float, Floats)


def entropy_r2(posterior: Floats, row_weight: Floats | None = None) -> float:
    """How sure rows (n, F) are of their class, relative to knowing nothing; not a number for one class."""
    n_rows, n_classes = posterior.shape
    if n_classes < 2:
        return float("nan")
    weight = np.ones(n_rows) if row_weight is None else row_weight
    logs = np.log(np.where(posterior > 0, posterior, 1.0))
    entropy = -(posterior * logs).sum(axis=1)
    return float(1 - (weight @ entropy) / (weight.sum() * np.log(n_classes)))


def fit_indices(table: Table, mixture: Mixture, *, n_jobs: int | None = None) -> dict[str, float]:
    """The indices of a fitted mixture on a table, with what they are computed from: one pass over its rows."""
    posterior, by_row = posterior_of(MemoryEngine(table, n_jobs), mixture)
    log_likelihood = float(by_row.sum() if table.row_weight is None else by_row @ table.row_weight)
    n_parameters, n_rows = count_parameters(table.column_offsets, mixture.n_classes), table.total_weight
    return {
        "log_likelihood": log_likelihood,
        "n_parameters": n_parameters,
        "n_rows": n_rows,
        **information_criteria(log_likelihood, n_parameters, n_rows),
        "entropy_r2": entropy_r2(posterior, table.row_weight),
    }


def information_criteria(log_likelihood: Number, n_parameters: Any, n_rows: float) -> dict[str, Number]:
    """AIC, AIC3, BIC, SABIC and CAIC by name, of one fit or of several at once."""
    q, deviance, n = n_parameters, -2 * log_likelihood, max(n_rows, 1.0)
    return {
        "aic": deviance + 2 * q,
        "aic3": deviance + 3 * q,
        "bic": deviance + q * float(np.log(n)),
        "sabic": deviance + q * float(np.log((n + 2) / 24)),
        "caic": deviance + q * (float(np.log(n)) + 1),
    }
