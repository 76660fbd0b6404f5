"""Where would one more class help most? Every class of a fit is split in two on its own rows.

A class f with memberships r (n,) is a weighted sample of its own. Two classes fitted to it gain, in nats of that
sample, no more than the same split gains in the whole mixture (Jensen): so the gains compare splits before any of
them costs a pass over all classes. All classes together cost what two classes over all rows do, whatever K.

The first halves come from the strongest direction of the class's residuals (power iterations), from the few columns
that carry most of it, and from a row that pulls others to its side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.data.table import Table
from tacit.engine.memory import MemoryEngine, Sums
from tacit.engine.mixture import PROBABILITY_FLOOR, Floats, Mixture, normalise_tables
from tacit.refine.em import em
from tacit.refine.tables import Prior, TableSteps

SPLIT_PASSES = 6
"""EM passes of two classes on the rows of one: enough to rank splits."""
POWER_STEPS = 8
"""Power iterations towards the strongest residual direction: EM does the rest."""
FEW_TIMES = 1.5
"""A column is among the few when its part of a direction is this many times the typical one; three always are."""
LEAST_SHARE = 1e-3
"""Rows that belong to a class by less are left out of its split."""
LEAST_ROWS = 4.0
"""Rows' worth a class must hold to be split."""

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Split:
    """Two classes in place of `which`, and the nats they gain on its rows."""

    which: int
    gain: float
    halves: Mixture


def split_classes(table: Table, mixture: Mixture, posterior: Floats, rng: np.random.Generator) -> list[Split]:
    """The best split found of every class, the largest gain first; columns of the table have two categories."""
    weight = np.ones(table.n_rows) if table.row_weight is None else table.row_weight
    shares = posterior * weight[:, None]
    found = [
        split
        for which in range(mixture.n_classes)
        if (split := _split(table, mixture, which, shares[:, which], posterior[:, which], rng)) is not None
    ]
    return sorted(found, key=lambda split: -split.gain)


def with_split(mixture: Mixture, split: Split) -> Mixture:
    """The mixture with a class replaced by its halves; the second comes last."""
    table = np.column_stack([mixture.table, split.halves.table[:, 1]])
    table[:, split.which] = split.halves.table[:, 0]
    weights = np.append(mixture.weights, mixture.weights[split.which] * split.halves.weights[1])
    weights[split.which] *= split.halves.weights[0]
    return Mixture(weights / weights.sum(), table, mixture.first)


def with_twin(mixture: Mixture) -> Mixture:
    """The same distribution with one class more: the heaviest twice, at half its weight."""
    which = int(np.argmax(mixture.weights))
    same = np.repeat(mixture.table[:, [which]], 2, axis=1)
    return with_split(mixture, Split(which, 0.0, Mixture(np.full(2, 0.5), same, mixture.first)))


def _split(
    table: Table, mixture: Mixture, which: int, share: Floats, membership: Floats, rng: np.random.Generator
) -> Split | None:
    draw = rng.random()  # drawn for every class, so that skipping one leaves the others their numbers
    rows = np.flatnonzero(membership > LEAST_SHARE)
    if share[rows].sum() < LEAST_ROWS or len(rows) < 2:
        return None
    own = replace(table, codes=np.ascontiguousarray(table.codes[rows]), row_weight=share[rows], pattern_of=None)
    profile = mixture.table[:, which]
    residual = residuals(own, profile)
    steps = plain_steps(own, 2)
    alone = steps.expect(Mixture(np.ones(1), profile[:, None], table.first)).log_likelihood
    leading = leading_direction(residual, share[rows])
    ways = (leading, few_columns(leading), pulling_row(residual, share[rows], draw))
    sides = [residual @ way for way in ways]
    tried = [em(steps, _halves(own, profile, side), max_iter=SPLIT_PASSES, tol=0.0) for side in sides]
    best = max(tried, key=lambda one: one.log_likelihood)
    return Split(which, best.log_likelihood - alone, best.params)


def residuals(table: Table, profile: Floats) -> Singles:
    """Standardised residuals (n, L) of binary rows around a class profile (C,); a gap is zero."""
    at_one = profile[1::2].astype(np.float32)
    scale = np.sqrt(np.maximum(at_one * (1 - at_one), 1e-3)).astype(np.float32)
    return np.asarray(np.where(table.present, ((table.codes == 1) - at_one) / scale, 0), np.float32)


def leading_direction(residual: Singles, weight: Floats) -> Singles:
    """The strongest direction (L,) of weighted residuals, by a few power iterations from the longest row."""
    w = weight.astype(np.float32)
    direction = residual[int(np.argmax(w * np.square(residual).sum(axis=1)))]
    for _ in range(POWER_STEPS):
        direction = residual.T @ (w * (residual @ direction))
        direction = direction / np.float32(max(float(np.linalg.norm(direction)), 1e-30))
    return np.asarray(direction)


def few_columns(direction: Singles) -> Singles:
    """The direction on the columns where it is large alone: others only add noise when few columns differ."""
    size = np.abs(direction)
    least = min(FEW_TIMES * float(np.sqrt(np.mean(np.square(size)))), float(np.sort(size)[-3:][0]))
    return np.asarray(np.where(size >= least, direction, 0), np.float32)


def pulling_row(residual: Singles, weight: Floats, draw: float) -> Singles:
    """A row (L,) chosen in proportion to its weight and squared length; `draw` in [0, 1) decides."""
    running = np.cumsum(weight * np.square(residual).sum(axis=1))
    return np.asarray(residual[min(int(np.searchsorted(running, draw * running[-1])), len(running) - 1)])


def plain_steps(table: Table, n_classes: int, n_jobs: int | None = 1) -> TableSteps:
    """EM steps of plain maximum likelihood: a path's log-likelihoods are compared, so nothing is mixed into them."""
    size = int(table.first[-1])
    none = Prior(np.zeros((size, n_classes)), np.zeros(n_classes))
    return TableSteps(MemoryEngine(table, n_jobs), none, table.first, max(round(table.n_cells), 1))


def entropy_of(mixture: Mixture, sums: Sums) -> float:
    """Entropy of the rows' memberships, in nats: ℓ minus the expected complete log-likelihood, no pass needed."""
    complete = sums.totals @ mixture.log_weights() + (sums.table * mixture.log_table()).sum()
    return max(float(sums.log_likelihood - complete), 0.0)


def _halves(own: Table, profile: Floats, side: Singles) -> Mixture:
    """Two classes from the signs of a score (n,), each leaning a little to the class they came from."""
    weight = own.row_weight
    assert weight is not None
    upper = np.where(side > 0, weight, 0.0)
    shares = np.stack([weight - upper, upper])
    ones = shares @ np.where(own.present, own.codes == 1, False).astype(np.float64)
    seen = shares @ own.present.astype(np.float64)
    at_one = (ones + profile[1::2]) / (seen + 1)
    table = np.empty((int(own.first[-1]), 2))
    table[1::2] = at_one.T
    table[0::2] = 1 - at_one.T
    totals = shares.sum(axis=1) + 1
    table = np.clip(table, PROBABILITY_FLOOR, 1.0)
    return Mixture(totals / totals.sum(), normalise_tables(table, own.first), own.first)
