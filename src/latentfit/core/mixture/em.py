"""E- and M-step of the table family: class weights plus conditional tables, dense or CSR rows alike.

The objective is the log-likelihood plus a Dirichlet prior given as pseudo-counts of the same shape as the
statistics: ``Σ prior_table · log table + Σ prior_weights · log weights``. Zero pseudo-counts are plain
maximum likelihood. The M-step is then one addition and one normalisation.

Paper     Ibrahim & Fu 2021, (21)–(22), which is the EM of Yeredor & Haardt 2019, and for labels of Dawid & Skene 1979;
          Varadhan & Roland 2008 for SQUAREM
Needs     an initialisation without zeros where there are rows: EM cannot lift a probability from zero
Promises  the objective never falls; near the truth the errors of Theorem 2 (`tables/theory.py`)
Differs   pseudo-counts; missing values are left out of both steps

Symbols   paper     here      shape    meaning
          λ         weights   (F,)     class weights
          A_n       table     (C, F)   stacked conditional tables
          Σ_s q̂_sf  totals    (F,)     expected rows of a class; its cells are the sums' `table` (C, F)
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from latentfit.core.em import EMResult, squarem
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, marginal_proportions, normalise_tables
from latentfit.core.numbers import is_amount
from latentfit.core.table.stored import AnyTable
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, Sums, engine_for

ROOT_FALL = 0.5  # What is left of the root of a probability after one extrapolation, at the least.


@dataclass(frozen=True)
class Prior:
    """Pseudo-counts: `table` (C, F) for the cell counts, `weights` (F,) for the class counts."""

    table: Floats
    weights: Floats


def count_parameters(offsets: NDArray[np.int32], n_classes: int) -> int:
    """Free parameters: class weights and, per column, categories − 1 for each class."""
    return n_classes * (1 + int(offsets[-1]) - (len(offsets) - 1)) - 1


def gain_by_chance(counts: Floats, offsets: NDArray[np.int32], n_classes: int) -> float:
    """Nats that one class more gains where there is none, d + 3 d^⅓ of its d parameters (docs/guide/tables.md).

    A category observed less than once per class counts as the part of a parameter it can be.
    """
    occurring = np.add.reduceat(np.minimum(counts / n_classes, 1.0), offsets[:-1])
    d = 1 + float(np.maximum(occurring - 1, 0.0).sum())
    return float(d + 3 * d ** (1 / 3))


def maximise_tables(
    sums: Sums, prior: Prior, offsets: NDArray[np.int32], tied: NDArray[np.bool_] | None = None
) -> Mixture:
    """The mixture that maximises the expected objective: (22a)–(22b), with pseudo-counts.

    Cells that are `tied` (C,) have one probability for all classes: their counts are pooled.
    """
    totals, counts = sums.totals + prior.weights, sums.table + prior.table
    if tied is not None:
        counts[tied] = counts[tied].sum(axis=1, keepdims=True)
    return Mixture(totals / totals.sum(), normalise_tables(counts, offsets), offsets)


@dataclass(frozen=True)
class TableSteps:
    """The table family's steps over an engine: (21), whose sums over the rows the kernels make, and (22)."""

    engine: MemoryEngine
    prior: Prior
    column_offsets: NDArray[np.int32]
    n_cells: int
    tied: NDArray[np.bool_] | None = None  # (C,) cells with one probability for all classes
    rooted: bool = False  # SQUAREM extrapolates roots of probabilities, not logarithms

    @cached_property
    def _no_prior(self) -> bool:
        return not (self.prior.table.any() or self.prior.weights.any())

    def e_step(self, params: Mixture) -> Sums:
        return self.engine.sums(params)

    def objective(self, params: Mixture, sums: Sums) -> float:
        if self._no_prior:
            return sums.log_likelihood
        table = (self.prior.table * params.log_table()).sum() + (self.prior.weights * params.log_weights()).sum()
        return sums.log_likelihood + float(table)

    def log_likelihood(self, sums: Sums) -> float:
        return sums.log_likelihood

    def m_step(self, sums: Sums) -> Mixture:
        return maximise_tables(sums, self.prior, self.column_offsets, self.tied)

    def extrapolate(self, start: Mixture, once: Mixture, twice: Mixture) -> Mixture:
        return (extrapolate_roots if self.rooted else extrapolate_logs)(start, once, twice)


def extrapolate_logs(start: Mixture, once: Mixture, twice: Mixture) -> Mixture:
    """SQUAREM's extrapolation in log-probabilities, normalised again."""
    points = [np.vstack([m.log_weights()[None], m.log_table()]) for m in (start, once, twice)]
    (far,) = squarem(*([point] for point in points))
    return _normalised(np.exp(np.minimum(far, 0.0)), start)


def extrapolate_roots(start: Mixture, once: Mixture, twice: Mixture) -> Mixture:
    """The same in square roots of probabilities, where a probability that vanishes comes to rest.

    Its logarithm falls for ever, and such steps drown the others: without smoothing, where many probabilities vanish,
    roots need a quarter of the passes (13 tables, median 243 against 1,062), with smoothing as many. A root may fall to
    `ROOT_FALL` of itself at once, so that no extrapolation jumps over zero.
    """
    points = [np.sqrt(np.vstack([m.weights[None], m.table])) for m in (start, once, twice)]
    (far,) = squarem(*([point] for point in points))
    return _normalised(np.square(np.maximum(far, ROOT_FALL * points[2])), start)


def _normalised(stacked: Floats, like: Mixture) -> Mixture:
    """The mixture of stacked weights (first row) and tables, each distribution brought to sum one."""
    tables = normalise_tables(stacked[1:], like.column_offsets)
    return Mixture(stacked[0] / stacked[0].sum(), tables, like.column_offsets)


def entropy_of(mixture: Mixture, sums: Sums) -> float:
    """Entropy of the rows' memberships, in nats: ℓ minus the expected complete log-likelihood, no pass needed."""
    complete = sums.totals @ mixture.log_weights() + (sums.table * mixture.log_table()).sum()
    return max(float(sums.log_likelihood - complete), 0.0)


def permuted(refined: EMResult[Mixture, Sums], order: NDArray[np.intp]) -> EMResult[Mixture, Sums]:
    """The same fit with its classes in another order, statistics and all."""
    sums = Sums(refined.sums.log_likelihood, refined.sums.totals[order], refined.sums.table[:, order])
    return replace(refined, params=refined.params.permuted(order), sums=sums)


# -----------------------------------------------------------------------------
# Smoothing of latent class tables: pseudo-counts per column and class, shaped like the column's marginal.
#
# Without it the likelihood of rows not yet seen collapses when there are many classes (a category never observed in a
# class gets probability zero); one pseudo-row per class costs next to nothing elsewhere. Evidence:
# docs/guide/tables.md.

SMOOTHING = 1.0  # Pseudo-rows per class under ``smoothing="auto"``.

# Rows × columns × classes up to which a pass runs on one thread: waking a second costs more than it saves.
SMALL_PASS = 2_000_000


def pseudo_rows(smoothing: Any) -> float:
    """Pseudo-rows per class that a `smoothing` asks for."""
    if isinstance(smoothing, str) and smoothing == "auto":
        return SMOOTHING
    if not is_amount(smoothing):
        raise DataError(
            f"smoothing must be 'auto' or a finite number >= 0, got {smoothing!r}; give pseudo-rows per class"
        )
    return float(smoothing)


def table_prior(counts: Floats, offsets: NDArray[np.int32], n_components: int, smoothing: float) -> Prior:
    """`smoothing` pseudo-rows per class with the marginals of the cell counts, and as many per class weight."""
    return shaped_prior(marginal_proportions(counts, offsets), n_components, smoothing)


def shaped_prior(marginals: Floats, n_components: int, smoothing: float) -> Prior:
    """The same from marginals (C,) that were kept."""
    shape = np.repeat(smoothing * marginals[:, None], n_components, axis=1)
    return Prior(shape, np.full(n_components, smoothing))


def table_steps(
    table: AnyTable,
    n_components: int,
    smoothing: float,
    n_jobs: int | None,
    engine: str = "auto",
    tied: NDArray[np.bool_] | None = None,
    rooted: bool = False,
) -> TableSteps:
    """EM steps over a table; cells that are `tied` (C,) have one probability for all classes, `rooted` as there."""
    counts = table.singles()
    prior = table_prior(counts, table.column_offsets, n_components, smoothing)
    if table.n_rows * table.n_columns * n_components <= SMALL_PASS and n_jobs is None:
        n_jobs = 1
    n_cells = max(round(float(counts.sum())), 1)
    return TableSteps(engine_for(table, engine, n_jobs), prior, table.column_offsets, n_cells, tied, rooted)


def plain_steps(table: Table, n_classes: int, n_jobs: int | None = 1) -> TableSteps:
    """EM steps of plain maximum likelihood, for fits whose log-likelihoods are compared.

    What `table_steps` gives with no smoothing, without counting the marginals that shape it: a path asks many times.
    """
    none = Prior(np.zeros((int(table.column_offsets[-1]), n_classes)), np.zeros(n_classes))
    return TableSteps(MemoryEngine(table, n_jobs), none, table.column_offsets, max(round(table.n_cells), 1))


# -----------------------------------------------------------------------------
# The last stretch of an EM run by a quasi-Newton method, where EM needs thousands of steps.
#
# EM is slow where classes are hard to distinguish, and then says little about how far it still has to go. The
# statistics of one pass hold the gradient too: with p = x² / Σ x² in every column of every class (and for the weights),
# where a probability of zero is an ordinary point, ∂ objective / ∂x = 2 (n_k − n p_k) / x_k, n the expected counts
# with their pseudo-counts. L-BFGS on x ends after some hundred iterations where SQUAREM takes three thousand
# (docs/guide/tables.md).
#
# Paper     Liu & Nocedal 1989 (L-BFGS; SciPy's); gradient from the E-step: Louis 1982
# Needs     a point that EM has brought near an optimum, and rows in memory
# Promises  no result below the one it was given; whether it has converged is for EM to say, which goes on from there
# Differs   roots in place of probabilities, so that no bounds are needed
#
# Symbols   here    shape       meaning
#           roots   (1+C, F)    x: the first row for the weights, then the stacked tables

MEMORY = 50  # Steps that L-BFGS remembers; 20 need half as many passes again.


class _IterationLimitError(Exception):
    """The passes are spent."""


def quasi_newton(
    steps: TableSteps, refined: EMResult[Mixture, Sums], max_iter: int, gain: float
) -> EMResult[Mixture, Sums]:
    """L-BFGS until a step gains less than `gain` nats, in at most `max_iter` passes in all.

    `n_iter` counts passes; `path` has every rise. What comes back has not `converged`: EM confirms that.
    """
    offsets, sizes = refined.params.column_offsets, np.diff(refined.params.column_offsets)
    shape = (len(refined.params.table) + 1, refined.params.n_classes)
    best, n_iter, path = refined, refined.n_iter, list(refined.path)

    def value(flat: Floats) -> tuple[float, Floats]:
        nonlocal best, n_iter
        if n_iter >= max_iter:
            raise _IterationLimitError
        roots = flat.reshape(shape)
        squares = np.square(roots)
        table = squares[1:] / np.repeat(np.add.reduceat(squares[1:], offsets[:-1], axis=0), sizes, axis=0)
        params = Mixture(squares[0] / squares[0].sum(), table, offsets)
        sums = steps.e_step(params)
        objective = steps.objective(params, sums)
        n_iter += 1
        if objective > best.objective:
            path.append(objective)
            best = EMResult(params, sums, objective, steps.log_likelihood(sums), n_iter, False, path)
        totals, counts = sums.totals + steps.prior.weights, sums.table + steps.prior.table
        rows = np.repeat(np.add.reduceat(counts, offsets[:-1], axis=0), sizes, axis=0)
        slope = np.vstack([(totals - totals.sum() * params.weights)[None], counts - rows * table])
        away = np.divide(2 * slope, roots, out=np.zeros(shape), where=roots != 0)
        return -objective, -away.ravel()

    roots = np.sqrt(np.vstack([refined.params.weights[None], refined.params.table])).ravel()
    enough = gain / max(abs(refined.objective), 1.0)  # SciPy's is relative
    options = {"maxcor": MEMORY, "ftol": enough, "gtol": 1e-9, "maxiter": max_iter, "maxfun": max_iter}
    with suppress(_IterationLimitError):
        minimize(value, roots, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    return EMResult(best.params, best.sums, best.objective, best.log_likelihood, n_iter, False, path)
