"""Where would one more class help most? Every class of a fit is split in two on its own rows.

A class f with memberships r (n,) is a weighted sample of its own. Two classes fitted to it gain, in nats of that
sample, no more than the same split gains in the whole mixture (Jensen): so the gains compare splits before any of
them costs a pass over all classes. All classes together cost what two classes over all rows do, whatever K.

The first halves come from the strongest direction of the class's residuals (power iterations), from the few columns
that carry most of it, and from a row that pulls others to its side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture
from latentfit.core.table.table import Table

SPLIT_ITER = 6
"""EM iterations of two classes on the rows of one: enough to rank splits."""
POWER_STEPS = 8
"""Power iterations towards the strongest residual direction: EM does the rest."""
FEW_TIMES = 1.5
"""A column is among the few when its part of a direction is this many times the typical one; three always are."""
MIN_PROPORTION = 1e-3
"""Rows that belong to a class by less are left out of its split."""
MIN_ROWS = 4.0
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
    proportions = posterior * table.each_weight()[:, None]
    found = [
        split
        for which in range(mixture.n_classes)
        if (split := _split(table, mixture, which, proportions[:, which], posterior[:, which], rng)) is not None
    ]
    return sorted(found, key=lambda split: -split.gain)


def with_split(mixture: Mixture, split: Split) -> Mixture:
    """The mixture with a class replaced by its halves; the second comes last."""
    table = np.column_stack([mixture.table, split.halves.table[:, 1]])
    table[:, split.which] = split.halves.table[:, 0]
    weights = np.append(mixture.weights, mixture.weights[split.which] * split.halves.weights[1])
    weights[split.which] *= split.halves.weights[0]
    return Mixture(weights / weights.sum(), table, mixture.column_offsets)


def with_twin(mixture: Mixture) -> Mixture:
    """The same distribution with one class more: the heaviest twice, at half its weight."""
    which = int(np.argmax(mixture.weights))
    same = np.repeat(mixture.table[:, [which]], 2, axis=1)
    return with_split(mixture, Split(which, 0.0, Mixture(np.full(2, 0.5), same, mixture.column_offsets)))


def _split(
    table: Table, mixture: Mixture, which: int, proportion: Floats, membership: Floats, rng: np.random.Generator
) -> Split | None:
    draw = rng.random()  # drawn for every class, so that skipping one leaves the others their numbers
    rows = np.flatnonzero(membership > MIN_PROPORTION)
    if proportion[rows].sum() < MIN_ROWS or len(rows) < 2:
        return None
    own = _OwnRows.of(table, rows, proportion[rows], mixture.table[1::2, which])
    leading = leading_direction(own.residual, own.weight)
    ways = (leading, few_columns(leading), pulling_row(own.residual, own.weight, draw))
    upper = np.stack([own.residual @ way > 0 for way in ways], axis=1).astype(np.float32)
    halves = own.m_step(upper, 1.0)  # each leans a little, by a row, to the class they came from
    for _ in range(SPLIT_ITER):
        halves = own.m_step(own.upper_membership(halves), 0.0)
    gain = own.gains(halves)
    best = int(np.argmax(gain))
    return Split(which, float(gain[best]), halves.mixture(best, table.column_offsets))


@dataclass(frozen=True)
class _Halves:
    """Several ways to halve a class: proportion of the upper half (S,), frequencies of both (L, S)."""

    upper: Floats
    low: Floats
    high: Floats

    def mixture(self, way: int, offsets: NDArray[np.int32]) -> Mixture:
        table = np.empty((2 * len(self.low), 2))
        table[1::2] = np.stack([self.low[:, way], self.high[:, way]], axis=1)
        table[0::2] = 1 - table[1::2]
        return Mixture(np.array([1 - self.upper[way], self.upper[way]]), table, offsets)


@dataclass(frozen=True)
class _OwnRows:
    """The rows of one class: what they say (n, L) in single precision, their weights (n,), the class profile (L,).

    EM of two classes needs products with these arrays alone, and all ways to halve share them. Single precision is
    enough to rank: log-likelihoods are taken relative to the class, so that large numbers never meet.
    """

    one: Singles
    seen: Singles | None  # None: no missing values
    residual: Singles
    weight: Floats
    profile: Floats

    @classmethod
    def of(cls, table: Table, rows: NDArray[np.intp], weight: Floats, profile: Floats) -> _OwnRows:
        codes = table.codes[rows]
        one = (codes == 1).astype(np.float32)
        present = codes <= 1 if table.missing_columns.any() else None
        seen = None if present is None or present.all() else present.astype(np.float32)
        inside = _inside(profile)
        return cls(one, seen, _standardised(one, seen, inside), weight, inside)

    def m_step(self, upper: Singles, pseudo_rows: float) -> _Halves:
        """The halves made by memberships in the upper one (n, S), `pseudo_rows` of the class profile in each."""
        mine = upper * self._single_weight[:, None]
        totals = mine.sum(axis=0, dtype=np.float64)
        all_ones, all_seen = self._whole
        ones = (self.one.T @ mine).astype(np.float64)
        seen = totals if self.seen is None else (self.seen.T @ mine).astype(np.float64)
        high = _frequency(ones, seen, self.profile, pseudo_rows)
        low = _frequency(all_ones[:, None] - ones, all_seen[:, None] - seen, self.profile, pseudo_rows)
        proportion = (totals + pseudo_rows) / (self._total + 2 * pseudo_rows)
        return _Halves(_inside(proportion), low, high)

    def upper_membership(self, halves: _Halves) -> Singles:
        """Memberships in the upper half (n, S)."""
        score = self._score(halves.high, halves.low) + np.log(halves.upper / (1 - halves.upper)).astype(np.float32)
        return np.asarray(1 / (1 + np.exp(np.minimum(np.maximum(-score, -60), 60))), np.float32)

    def gains(self, halves: _Halves) -> Floats:
        """Nats that the halves gain over the class (S,)."""
        profile = self.profile[:, None]
        low = self._score(halves.low, profile) + np.log(1 - halves.upper)
        high = self._score(halves.high, profile) + np.log(halves.upper)
        return np.asarray(self.weight @ np.logaddexp(low, high))

    def _score(self, left: Floats, right: Floats) -> NDArray[np.floating]:
        """Log-likelihood ratio of the rows (n, S) under frequencies `left` against `right` (L, S)."""
        absent = np.log1p(-left) - np.log1p(-right)
        slope = (np.log(left) - np.log(right) - absent).astype(np.float32)
        score = self.one @ slope
        rest = absent.sum(axis=0) if self.seen is None else self.seen @ absent.astype(np.float32)
        return np.asarray(score + rest)

    @cached_property
    def _whole(self) -> tuple[Floats, Floats]:
        """Ones and observed cells of each column (L,), with weights."""
        ones = (self.one.T @ self._single_weight).astype(np.float64)
        seen = np.full(len(ones), self._total) if self.seen is None else self.seen.T @ self._single_weight
        return ones, seen.astype(np.float64)

    @cached_property
    def _single_weight(self) -> Singles:
        return self.weight.astype(np.float32)

    @cached_property
    def _total(self) -> float:
        return float(self.weight.sum())


def _frequency(ones: Floats, seen: Floats, profile: Floats, pseudo_rows: float) -> Floats:
    """Proportions of ones (L, S) among those seen (L, S) or (S,); where a half shows nothing, the profile of the
    class."""
    least = pseudo_rows + 1e-6
    proportion = (np.maximum(ones, 0.0) + least * profile[:, None]) / (np.maximum(seen, 0.0) + least)
    return _inside(proportion)


def _inside(proportion: Floats) -> Floats:
    """Off 0 and 1; small arrays, many times: `np.clip` takes twice as long."""
    return np.asarray(np.minimum(np.maximum(proportion, PROBABILITY_FLOOR), 1 - PROBABILITY_FLOOR))


def _standardised(one: Singles, seen: Singles | None, profile: Floats) -> Singles:
    """Standardised residuals (n, L) of binary rows around a class profile (L,); a missing value is zero."""
    at_one = profile.astype(np.float32)
    scale = np.sqrt(np.maximum(at_one * (1 - at_one), 1e-3)).astype(np.float32)
    residual = (one - at_one) / scale
    return np.asarray(residual if seen is None else residual * seen, np.float32)


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
