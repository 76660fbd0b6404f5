"""Columns that do not tell clusters apart: beside the fit to all columns stands one in which only some of them are
informative.

A mixture fitted to hundreds of columns of which few differ between clusters spends most of its parameters on noise: it
blurs the memberships, and the penalty for one more cluster, d + 3 d^⅓ of all columns, is more than the few can pay. In
a
*restricted* fit a noninformative column is as frequent in one cluster as in another. Its penalty is

    (K − 1)(s + 1 + 3 (s + 1)^⅓)  +  Σ_k≤K [ ln C(L − s_{k−1}, s_k − s_{k−1}) + ln L ] ,

and the penalty for small clusters, s_k being the informative columns with k clusters. Splitting a pure cluster along s
given columns gains by chance what `criteria.py` says of s columns. Along the best new ones of the noninformative
ones it gains more: far out a gain x has a probability of about e^−x along any one direction, so the best of C choices
costs ln C, and ln L for their number. An informative column stays informative when clusters are added, so that no step
chooses for nothing; a step at which every column is informative pays nothing for choosing.

Which columns are informative is found by turns: memberships say what each column gains from being free,
g_ℓ = Σ_k n_k KL(p_kℓ ‖ p_ℓ); those are taken that leave most above the penalty; EM over these alone makes the
memberships of the next turn. A column left out has no influence on them, so that its next g is an honest one.

Paper     none of the five; Dean & Raftery 2010 choose columns of latent classes one at a time, by BIC
Needs     fits to all columns with K = 1, 2, … clusters, as initialisations
Promises  nothing that is proved: a union bound over every choice and every direction would ask for a fifth more.
          Measured: none of 208 tables of one cluster is split (`./dev reproduce clusters:pure`)
Differs   from theirs: all columns at once, penalised by what chance would gain

Symbols   L   columns that vary     s   the informative ones     g_ℓ   nats that column ℓ gains from being free
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from latentfit.clusters.select.criteria import size_penalty, statistical_penalty
from latentfit.clusters.select.splits import split_classes, with_split
from latentfit.core.em import EMResult, em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import plain_steps
from latentfit.core.mixture.parameters import Mixture, marginal_proportions, normalise_tables
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of

MAX_TURNS = 6
"""How often the choice of columns is made again at the most; it usually rests after three."""
TURN_MAX_ITER = 20
"""EM iterations of a turn."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RestrictedFit:
    """Clusters that differ in the informative columns alone."""

    mixture: Mixture  # of all columns, a noninformative one with its marginal in every cluster
    log_likelihood: float  # of all columns
    informative: Mask  # (L,)
    noninformative: Mask  # (L,) columns that vary and are not informative
    choices: float  # nats of penalty for choosing the columns, of all steps so far

    @property
    def value(self) -> float:
        """Log-likelihood less the penalty: what the statistical number compares."""
        steps = self.mixture.n_classes - 1
        penalty = steps * statistical_penalty(int(self.informative.sum())) + size_penalty(self.mixture.weights)
        return self.log_likelihood - penalty - self.choices


class RestrictedPath:
    """Restricted fits with 2, 3, … clusters, each from the fit to all columns and from the restricted fit before it,
    split."""

    def __init__(
        self, rows: Table, varying: Mask, *, max_iter: int, tol: float, n_jobs: int | None, rng: np.random.Generator
    ) -> None:
        self.rows, self.varying, self.rng = rows, varying, rng
        self.max_iter, self.tol, self.n_jobs = max_iter, tol, n_jobs
        self.before: RestrictedFit | None = None  # the last there was: its columns stay informative
        self.better: Mixture | None = None  # the last one, if it was better than the fit to all columns

    def step(self, unrestricted: EMResult[Mixture, Sums]) -> RestrictedFit | None:
        """The best restricted fit with as many clusters as a fit to all columns; None when every column is
        informative."""
        fits = [fit for init in self._initialisations(unrestricted.params) if (fit := self._settle(init)) is not None]
        self.better = None
        if not fits:
            return None
        best = max(fits, key=lambda fit: fit.value)
        self.before = self._fit(best.mixture, best.informative, best.choices, self.max_iter)
        penalty = (unrestricted.params.n_classes - 1) * statistical_penalty(int(self.varying.sum()))
        penalty += size_penalty(unrestricted.params.weights)
        if self.before.value > unrestricted.log_likelihood - penalty:
            self.better = self.before.mixture
        return self.before

    def _initialisations(self, unrestricted: Mixture) -> Iterator[Mixture]:
        yield unrestricted
        if self.better is not None:
            posterior, _ = posterior_of(MemoryEngine(self.rows, self.n_jobs), self.better)
            for split in split_classes(self.rows, self.better, posterior, self.rng)[:1]:
                yield with_split(self.better, split)

    def _settle(self, mixture: Mixture) -> RestrictedFit | None:
        """Choose the informative columns and fit them by turns; the best turn."""
        turns: list[RestrictedFit] = []
        for _ in range(MAX_TURNS):
            sums = MemoryEngine(self.rows, self.n_jobs).sums(mixture)
            chosen = self._choose(column_gains(sums.table), mixture.n_classes)
            if chosen is None or any((chosen[0] == turn.informative).all() for turn in turns):
                break
            table = normalise_tables(sums.table, self.rows.column_offsets)
            turns.append(
                self._fit(
                    Mixture(sums.totals / sums.totals.sum(), table, self.rows.column_offsets), *chosen, TURN_MAX_ITER
                )
            )
            mixture = turns[-1].mixture
        return max(turns, key=lambda turn: turn.value, default=None)

    def _fit(self, init: Mixture, informative: Mask, choices: float, max_iter: int) -> RestrictedFit:
        found = fit_informative(self.rows, init, informative, max_iter=max_iter, tol=self.tol, n_jobs=self.n_jobs)
        return RestrictedFit(*found, informative, self.varying & ~informative, choices)

    def _choose(self, gains: Floats, n_clusters: int) -> tuple[Mask, float] | None:
        """The columns that leave most above the penalty, and the penalty for choosing them; None when all of them
        do."""
        already_informative = np.zeros_like(self.varying) if self.before is None else self.before.informative
        size, known = int(self.varying.sum()), int(already_informative.sum())
        least = max(known, 2 * int(np.ceil(np.log2(n_clusters))) + 1)  # fewer could not tell so many clusters
        if size <= least:
            return None
        rank = np.where(already_informative, -np.inf, np.where(self.varying, -gains, np.inf))
        order = np.argsort(rank, kind="stable")[:size]
        numbers = np.arange(least, size + 1)
        choices = _log_choices(size - known, numbers - known)
        penalty = (n_clusters - 1) * np.array([statistical_penalty(number) for number in numbers.tolist()])
        best = int(np.argmax(np.cumsum(gains[order])[least - 1 :] - penalty - choices))
        if numbers[best] == size:
            return None
        informative = np.zeros_like(self.varying)
        informative[order[: numbers[best]]] = True
        paid = 0.0 if self.before is None else self.before.choices
        return informative, paid + float(choices[best] + np.log(size))


def _log_choices(n: int, k: NDArray[np.intp]) -> Floats:
    """ln C(n, k)."""
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def column_gains(cells: Floats) -> Floats:
    """g_ℓ (L,): nats that each column gains from being free, by the expected cells (2L, K) of an E-step."""
    cube = cells.reshape(-1, 2, cells.shape[1])
    seen, pooled = cube.sum(axis=1), cube.sum(axis=2)
    free = xlogy(cube, cube).sum(axis=(1, 2)) - xlogy(seen, seen).sum(axis=1)
    tied = xlogy(pooled, pooled).sum(axis=1) - xlogy(pooled.sum(axis=1), pooled.sum(axis=1))
    return np.asarray(free - tied)


def fit_informative(
    rows: Table, init: Mixture, informative: Mask, *, max_iter: int, tol: float, n_jobs: int | None
) -> tuple[Mixture, float]:
    """EM over the informative columns; the others get their marginals, and tell nothing about a row's cluster."""
    some = rows.without(~informative)
    cells = np.repeat(informative, 2)
    part = Mixture(init.weights, np.ascontiguousarray(init.table[cells]), some.column_offsets)
    found = em(plain_steps(some, init.n_classes, n_jobs), part, max_iter=max_iter, tol=tol, accelerate=True)
    counts = rows.singles()
    marginals = marginal_proportions(counts, rows.column_offsets)
    table = np.repeat(marginals[:, None], init.n_classes, axis=1)
    table[cells] = found.params.table
    others = float(xlogy(counts[~cells], marginals[~cells]).sum())
    return Mixture(found.params.weights, table, rows.column_offsets), found.log_likelihood + others
