"""The classes of a table: are two of them one, is each of them needed, do halves of the rows agree?

Splitting a class that needs no split still gains about d + 3 d^⅓ nats, d its parameters (docs/guide/tables.md): the
two nearest classes must lose more than that when they are merged. Halves are refitted from initialisations of their
own, so that agreement is evidence and not an echo of the fitted classes. Long tables are judged on rows chosen by hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import match_classes
from latentfit.core.em import EMResult, em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import SMOOTHING, gain_by_chance, table_steps
from latentfit.core.mixture.init import draw_sample
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.tables.diagnostics.pairs import some_rows, two_halves
from latentfit.tables.init import select_by_halving, table_inits
from latentfit.tables.theory import divergences


@dataclass(frozen=True)
class ClassLimits:
    """How much of a table is looked at, and tolerances."""

    gain_work: int = 20_000_000  # Rows · columns · classes of a pass of the merge check: about a twentieth of a second.
    # The same over all passes when a finding on a sample is checked on all rows: a few seconds.
    gain_limit: int = 2_000_000_000
    # EM iterations after two classes are merged: with SQUAREM enough to settle to a fraction of a nat.
    merge_max_iter: int = 30
    half_rows: int = 20_000  # Rows of a half at most.
    half_work: int = 10_000_000  # Rows · columns · classes of a half at most.
    # How often halves that disagree are fitted: an initialisation that was stuck is no reason for caution.
    tries: int = 2
    # Entries of the largest Jacobian that is formed: 40 MB and a few seconds of singular values.
    max_entries: int = 5_000_000
    # Singular values below this proportion of the largest are zero: rounding leaves 1e-15, full rank more than 1e-6.
    relative: float = 1e-9
    points: int = 3  # Random points tried for the generic rank: one is enough but for rounding.


LIMITS = ClassLimits()


def class_distances(mixture: Mixture) -> Floats:
    """For every two classes, the total variation between their profiles in the column where they differ most."""
    left, right = np.triu_indices(mixture.n_classes, 1)
    apart = np.abs(mixture.table[:, left] - mixture.table[:, right])
    return np.asarray(np.add.reduceat(apart, mixture.column_offsets[:-1], axis=0).max(axis=0, initial=0.0) / 2)


def kruskal_count(sizes: NDArray[np.int32], n_classes: int) -> int:
    """The largest Σ min(r_g, F) found over three groups of columns, r_g the product of their sizes."""
    states = {(1, 1, 1)}
    for size in sorted((int(s) for s in sizes), reverse=True):
        grown = set()
        for state in states:
            for g in range(3):
                new = list(state)
                new[g] = min(new[g] * size, n_classes)
                grown.add(tuple(sorted(new)))
        states = set(sorted(grown, key=sum)[-2_000:])  # type: ignore[arg-type]
        if any(sum(state) >= 2 * n_classes + 2 for state in states):
            break
    return max(sum(state) for state in states)


# ------------------------------------------------------------------------ gain


@dataclass(frozen=True)
class Gain:
    """Nats the least needed class gains on so many rows, and what a class that is none gains."""

    nats: float
    by_chance: float
    n_rows: float

    @property
    def significant(self) -> bool:
        return self.nats >= self.by_chance


def least_gain(table: Table, mixture: Mixture) -> Gain:
    """What the least needed class gains: on a sample first, on all rows when the sample is too small to show it."""
    per_row = max(table.n_columns * mixture.n_classes, 1)
    rows = max(LIMITS.gain_work // per_row, 1_000)
    if table.n_rows <= rows:
        return _gain(table, mixture, LIMITS.merge_max_iter)
    few = some_rows(table, rows)
    steps = table_steps(few, mixture.n_classes, SMOOTHING, 1)
    own = em(
        steps, mixture, max_iter=LIMITS.merge_max_iter, tol=1e-7, accelerate=True
    ).params  # both sides fit the same rows
    sampled = _gain(few, own, LIMITS.merge_max_iter)
    passes = LIMITS.gain_limit // (table.n_rows * per_row) - mixture.n_classes
    return sampled if sampled.significant or passes < 5 else _gain(table, mixture, min(passes, LIMITS.merge_max_iter))


def _gain(table: Table, mixture: Mixture, passes: int) -> Gain:
    """Nats lost when the two classes nearest each other become one and EM settles."""
    F = mixture.n_classes
    full = MemoryEngine(table, 1).sums(mixture).log_likelihood
    settled = merge_nearest(table, mixture, passes)
    by_chance = gain_by_chance(table.singles(), table.column_offsets, F)
    return Gain(full - settled.log_likelihood, by_chance, table.total_weight)


def merge_nearest(table: Table, mixture: Mixture, max_iter: int) -> EMResult[Mixture, Sums]:
    """One class less: EM from the likeliest merger of two neighbouring classes."""
    F = mixture.n_classes
    engine = MemoryEngine(table, 1)
    apart = divergences(mixture) * mixture.weights[:, None]
    cost = apart + apart.T + np.where(np.eye(F, dtype=bool), np.inf, 0.0)
    pairs = {tuple(sorted((f, int(np.argmin(cost[f]))))) for f in range(F)}
    merged = [_merge(mixture, f, g) for f, g in sorted(pairs)]
    best = max(merged, key=lambda m: engine.sums(m).log_likelihood)
    return em(table_steps(table, F - 1, SMOOTHING, 1), best, max_iter=max_iter, tol=1e-7, accelerate=True)


def _merge(mixture: Mixture, f: int, g: int) -> Mixture:
    weight = mixture.weights[[f, g]] + 1e-12
    table = mixture.table.copy()
    table[:, f] = table[:, [f, g]] @ (weight / weight.sum())
    weights = mixture.weights.copy()
    weights[f] += weights[g]
    return Mixture(np.delete(weights, g), np.ascontiguousarray(np.delete(table, g, axis=1)), mixture.column_offsets)


# ---------------------------------------------------------------------- halves


@dataclass(frozen=True)
class Halves:
    """The rows two halves were made of, and the proportion that their models put in the same class."""

    agreement: float
    n_rows: float


def compare_halves(table: Table, n_classes: int, enough: float) -> Halves:
    """Fit two halves of the rows, chosen by hash, each from its own initialisations; once more when they disagree."""
    most = _most_rows(table, n_classes)
    left, right = (some_rows(half, most) for half in two_halves(table))
    n_rows = left.total_weight + right.total_weight
    if not left.n_rows or not right.n_rows:
        return Halves(0.0, n_rows)
    agreement = 0.0
    for seed in range(LIMITS.tries):
        models = refit(left, n_classes, seed).params, refit(right, n_classes, seed).params
        crossed = crossed_classes(left, *models) + crossed_classes(right, *models)
        agreement = agreement_of(crossed)
        if agreement >= enough:
            break
    return Halves(agreement, n_rows)


def _most_rows(table: Table, n_classes: int) -> int:
    """Rows that a refit looks at."""
    return min(LIMITS.half_rows, max(LIMITS.half_work // max(table.n_columns * n_classes, 1), 500))


def agreement_of(crossed: Floats) -> float:
    """Proportion of the rows that two models put in the same class, classes matched."""
    return float(crossed[np.arange(len(crossed)), match_classes(crossed)].sum() / max(crossed.sum(), 1e-300))


def crossed_classes(table: Table, left: Mixture, right: Mixture) -> Floats:
    """Rows (F, F) that one model puts in class f and the other in class g."""
    engine = MemoryEngine(table, 1)
    at = [posterior_of(engine, mixture)[0].argmax(axis=1) for mixture in (left, right)]
    crossed = np.zeros((left.n_classes, right.n_classes))
    np.add.at(crossed, (at[0], at[1]), 1.0 if table.row_weight is None else table.row_weight)
    return crossed


def refit(table: Table, n_classes: int, seed: int) -> EMResult[Mixture, Sums]:
    """EM from the best of the default initialisations, of another seed than the fit's."""
    sample = draw_sample(table, table.n_rows, 0)
    inits = table_inits(sample, n_classes, np.random.default_rng([seed, 26]), 1)
    fit = select_by_halving(sample, inits, SMOOTHING, 1, max_iter=300, tol=1e-6).refined
    return replace(fit, params=sample.mixture_as_given(fit.params, table.column_offsets))


# ---------------------------------------------------------------------- refits of all rows


@dataclass(frozen=True)
class Refits:
    """What fits of (a sample of) the rows from other initialisations find.

    Attributes
    ----------
    agreement : float
        Proportion of the rows put in the same class by a fit from another seed.
    shortfall : float
        Nats by which that fit lies below the model examined, settled on the same rows; negative when it is better.
    gain, by_chance : float
        Nats that one class more gains, and what it would gain by chance.
    n_rows : float
        Rows that were looked at.
    """

    agreement: float
    shortfall: float
    gain: float
    by_chance: float
    n_rows: float


def compare_refits(table: Table, mixture: Mixture) -> Refits:
    """Fit the rows once more from another seed, and with one class more."""
    F = mixture.n_classes
    rows = some_rows(table, 2 * _most_rows(table, F))
    steps = table_steps(rows, F, SMOOTHING, 1)
    own = em(steps, mixture, max_iter=LIMITS.merge_max_iter, tol=1e-7, accelerate=True)
    agreement, shortfall = 1.0, 0.0
    if F > 1:
        other = refit(rows, F, 0)
        agreement = agreement_of(crossed_classes(rows, own.params, other.params))
        shortfall = own.objective - other.objective
    more = refit(rows, F + 1, 0)
    by_chance = gain_by_chance(rows.singles(), rows.column_offsets, F + 1)
    return Refits(agreement, shortfall, more.log_likelihood - own.log_likelihood, by_chance, rows.total_weight)


# -----------------------------------------------------------------------------
# Does the joint distribution determine the classes near a point? The rank of the model's Jacobian.
#
# The latent class model maps its free parameters to the joint distribution of the columns. Where the derivative of that
# map has less than full rank, some direction in the parameters changes no observable probability, and no number of rows
# distinguishes the answers along it. Counting parameters and cells misses such cases: four binary columns and three
# classes have 14 parameters and 15 free cells, and rank 13 everywhere (Goodman 1974).
#
# Paper     Goodman 1974; Allman, Matias & Rhodes 2009 (generic identifiability)
# Needs     Π sizes · parameters within bounds of memory
# Promises  the largest rank over random points is the generic rank with probability 1
# Differs   the rank is numerical: singular values below `LIMITS.relative` of the largest count as zero
#
# Symbols   here      shape            meaning
#           joint     (cells, F)       probability of every combination of categories, given the class
#           jacobian  (cells, free)    its derivative in weights and profiles


def n_free(sizes: Sequence[int], n_classes: int) -> int:
    """Free parameters: class weights, and for each class and column its categories but one."""
    return n_classes - 1 + n_classes * sum(size - 1 for size in sizes)


def can_rank(sizes: Sequence[int], n_classes: int) -> bool:
    """Whether the Jacobian is small enough to be formed."""
    return float(np.prod(np.asarray(sizes, float))) * n_free(sizes, n_classes) <= LIMITS.max_entries


def jacobian_rank(weights: Floats, profiles: Sequence[Floats]) -> int:
    """Rank at a point: weights (F,) and, for each column, its profile (F, categories)."""
    values = np.linalg.svd(_jacobian(weights, profiles), compute_uv=False)
    return int((values > LIMITS.relative * values.max(initial=0.0)).sum())


def generic_rank(sizes: Sequence[int], n_classes: int) -> int:
    """The rank at almost every point."""
    rng = np.random.default_rng(0)
    ranks = []
    for _ in range(LIMITS.points):
        weights = rng.dirichlet(np.full(n_classes, 5.0))
        ranks.append(jacobian_rank(weights, [rng.dirichlet(np.full(size, 2.0), n_classes) for size in sizes]))
    return max(ranks)


def _jacobian(weights: Floats, profiles: Sequence[Floats]) -> Floats:
    F = len(weights)
    joint = [_products([profile[f] for profile in profiles]) for f in range(F)]
    columns = [joint[f] - joint[F - 1] for f in range(F - 1)]  # the last weight is what the others leave
    for n, profile in enumerate(profiles):
        size = profile.shape[1]
        for f in range(F):
            for category in range(size - 1):  # the last category is what the others leave
                change = np.zeros(size)
                change[category], change[-1] = 1.0, -1.0
                parts = [change if m == n else other[f] for m, other in enumerate(profiles)]
                columns.append(weights[f] * _products(parts))
    matrix = np.stack(columns, axis=1)
    norms = np.linalg.norm(matrix, axis=0)
    return np.asarray(matrix / np.where(norms > 0, norms, 1.0))  # rare classes have small derivatives, not zero ones


def _products(factors: Sequence[Floats]) -> Floats:
    """All products of one entry of each factor, as one long vector."""
    return np.asarray(reduce(np.multiply.outer, factors)).reshape(-1)
