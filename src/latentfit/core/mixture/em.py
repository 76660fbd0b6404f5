"""E- and M-step of the table family: class weights plus conditional tables, dense or ragged rows alike.

The objective is the log-likelihood plus a Dirichlet prior given as pseudo-counts of the same shape as the
statistics: ``Σ prior_table · log table + Σ prior_weights · log weights``. Zero pseudo-counts are plain
maximum likelihood. The M-step is then one addition and one normalisation.

Paper     Ibrahim & Fu 2021, (21)–(22), which is the EM of Yeredor & Haardt 2019, and for labels of Dawid & Skene 1979;
          Varadhan & Roland 2008 for the leaps
Needs     a start without zeros where there are rows: EM cannot lift a probability from zero
Promises  the objective never falls; near the truth the errors of Theorem 2 (`tables/theory.py`)
Differs   pseudo-counts; gaps are left out of both steps

Symbols   paper     here      shape    meaning
          λ         weights   (F,)     class weights
          A_n       table     (C, F)   stacked conditional tables
          Σ_s q̂_sf  totals    (F,)     expected rows of a class; its cells are the sums' `table` (C, F)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import Refined, leap_of
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.engine.memory import MemoryEngine, Sums

ROOT_FALL = 0.5
"""What is left of the root of a probability after one leap, at the least."""


@dataclass(frozen=True)
class Prior:
    """Pseudo-counts: `table` (C, F) beside the table sums, `weights` (F,) beside the class totals."""

    table: Floats
    weights: Floats


def count_parameters(first: NDArray[np.int32], n_classes: int) -> int:
    """Free parameters: class weights and, per column, categories − 1 for each class."""
    return n_classes * (1 + int(first[-1]) - (len(first) - 1)) - 1


def gain_by_chance(counts: Floats, first: NDArray[np.int32], n_classes: int) -> float:
    """Nats that one class more gains where there is none, d + 3 d^⅓ of its d parameters (docs/models/tables.md).

    A category met less than once a class counts as the part of a parameter it can be.
    """
    met = np.add.reduceat(np.minimum(counts / n_classes, 1.0), first[:-1])
    d = 1 + float(np.maximum(met - 1, 0.0).sum())
    return float(d + 3 * d ** (1 / 3))


def maximise_tables(
    sums: Sums, prior: Prior, first: NDArray[np.int32], tied: NDArray[np.bool_] | None = None
) -> Mixture:
    """The mixture that maximises the expected objective: (22a)–(22b), with pseudo-counts.

    Cells that are `tied` (C,) have one probability for all classes: their counts are pooled.
    """
    totals, counts = sums.totals + prior.weights, sums.table + prior.table
    if tied is not None:
        counts[tied] = counts[tied].sum(axis=1, keepdims=True)
    return Mixture(totals / totals.sum(), normalise_tables(counts, first), first)


@dataclass(frozen=True)
class TableSteps:
    """The table family's steps over an engine: (21), whose sums over the rows the kernels make, and (22)."""

    engine: MemoryEngine
    prior: Prior
    first: NDArray[np.int32]
    n_cells: int
    tied: NDArray[np.bool_] | None = None  # (C,) cells with one probability for all classes
    rooted: bool = False  # SQUAREM extrapolates roots of probabilities, not logarithms

    @cached_property
    def _no_prior(self) -> bool:
        return not (self.prior.table.any() or self.prior.weights.any())

    def expect(self, params: Mixture) -> Sums:
        return self.engine.sums(params)

    def objective(self, params: Mixture, sums: Sums) -> float:
        if self._no_prior:
            return sums.log_likelihood
        table = (self.prior.table * params.log_table()).sum() + (self.prior.weights * params.log_weights()).sum()
        return sums.log_likelihood + float(table)

    def log_likelihood(self, sums: Sums) -> float:
        return sums.log_likelihood

    def maximise(self, sums: Sums) -> Mixture:
        return maximise_tables(sums, self.prior, self.first, self.tied)

    def extrapolate(self, start: Mixture, once: Mixture, twice: Mixture) -> Mixture:
        return (root_leap if self.rooted else leap)(start, once, twice)


def leap(start: Mixture, once: Mixture, twice: Mixture) -> Mixture:
    """SQUAREM's leap (Varadhan & Roland 2008, step length S3) in log-probabilities, normalised again."""
    points = [np.vstack([m.log_weights()[None], m.log_table()]) for m in (start, once, twice)]
    far = np.exp(np.minimum(leap_of(points), 0.0))
    weights = far[0] / far[0].sum()
    return Mixture(weights, normalise_tables(far[1:], start.first), start.first)


def root_leap(start: Mixture, once: Mixture, twice: Mixture) -> Mixture:
    """The same in square roots of probabilities, where a probability that vanishes comes to rest.

    Its logarithm falls for ever, and such steps drown the others: without smoothing, where many probabilities vanish,
    roots need a quarter of the passes (13 tables, median 243 against 1,062), with smoothing as many. A root may fall to
    `ROOT_FALL` of itself at once, so that no leap jumps over zero.
    """
    points = [np.sqrt(np.vstack([m.weights[None], m.table])) for m in (start, once, twice)]
    far = np.square(np.maximum(leap_of(points), ROOT_FALL * points[2]))
    return Mixture(far[0] / far[0].sum(), normalise_tables(far[1:], start.first), start.first)


def entropy_of(mixture: Mixture, sums: Sums) -> float:
    """Entropy of the rows' memberships, in nats: ℓ minus the expected complete log-likelihood, no pass needed."""
    complete = sums.totals @ mixture.log_weights() + (sums.table * mixture.log_table()).sum()
    return max(float(sums.log_likelihood - complete), 0.0)


def permuted(refined: Refined[Mixture, Sums], order: NDArray[np.intp]) -> Refined[Mixture, Sums]:
    """The same fit with its classes in another order, statistics and all."""
    sums = Sums(refined.sums.log_likelihood, refined.sums.totals[order], refined.sums.table[:, order])
    return replace(refined, params=refined.params.permuted(order), sums=sums)
