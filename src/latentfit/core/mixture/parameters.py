"""The one parameter object of all table-like models: class weights plus conditional tables.

``P(row) = Σ_f weights[f] · Π_n table[column_offsets[n] + row[n], f]``. Dawid–Skene is this with one column per
annotator, a Bernoulli mixture is this with two categories per column. In the papers it is (1) of Ibrahim & Fu 2022
(crowds), (1)–(2) of Ibrahim & Fu 2021 (tables) and (1.1) of Najafi, Motahari & Rabiee 2020 (clusters).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats

# Smallest probability a table may hold: a hundred such surprises in one row still have a finite logarithm far above the
# clamp of the kernels, and no count below 10¹² rows can distinguish it from zero.
PROBABILITY_FLOOR = 1e-12


@dataclass(frozen=True)
class Mixture:
    """Class weights (F,) and stacked conditional tables (C, F): column n owns a slice of the rows, from its offset on.

    The model of three papers: (1)–(2) for tables, (1) for crowds, (1.1) for clusters.
    """

    weights: Floats
    table: Floats
    column_offsets: NDArray[np.int32]

    @property
    def n_classes(self) -> int:
        return len(self.weights)

    @property
    def n_columns(self) -> int:
        return len(self.column_offsets) - 1

    def log_weights(self) -> Floats:
        return self._logs[0]

    def log_table(self) -> Floats:
        return self._logs[1]

    @cached_property
    def _logs(self) -> tuple[Floats, Floats]:
        """Taken once: a pass, the objective and an extrapolation all ask for them."""
        logs = tuple(np.log(np.maximum(array, PROBABILITY_FLOOR)) for array in (self.weights, self.table))
        for array in logs:
            array.setflags(write=False)
        return logs[0], logs[1]

    def permuted(self, order: NDArray[np.intp]) -> Mixture:
        """The same model with its classes in another order."""
        return Mixture(self.weights[order], np.ascontiguousarray(self.table[:, order]), self.column_offsets)

    def profiles(self) -> list[Floats]:
        """Per column, the (class, category) table."""
        return [self.table[a:b].T for a, b in zip(self.column_offsets[:-1], self.column_offsets[1:], strict=True)]

    def draw_codes(self, n: int, classes: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.intp]:
        """Codes of column n, one for the class of each row, by the inverse of the distribution function."""
        below = np.cumsum(self.table[self.column_offsets[n] : self.column_offsets[n + 1]], axis=0).T[classes]
        drawn = (rng.random(len(classes))[:, None] > below).sum(axis=1)
        return np.asarray(np.minimum(drawn, below.shape[1] - 1), np.intp)


def stack_confusions(weights: Floats, confusions: Floats) -> Mixture:
    """A mixture from confusion matrices (worker, true, given) and class weights."""
    n_workers, n_classes, n_given = confusions.shape
    table = np.ascontiguousarray(confusions.transpose(0, 2, 1)).reshape(n_workers * n_given, n_classes)
    return Mixture(weights, table, np.arange(0, n_workers * n_given + 1, n_given, dtype=np.int32))


def unstack_confusions(mixture: Mixture) -> Floats:
    """The confusion matrices (worker, true, given) of a mixture whose columns all have the same size."""
    n_given = int(mixture.column_offsets[1] - mixture.column_offsets[0])
    return mixture.table.reshape(mixture.n_columns, n_given, mixture.n_classes).transpose(0, 2, 1)


def normalise_tables(table: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Every column's categories sum to one within each class; a class without mass gets the uniform."""
    sizes = offsets[1:] - offsets[:-1]
    size = int(sizes[0]) if len(sizes) else 0
    if size and (sizes == size).all():  # columns of one size need no lists of where each begins
        cube = table.reshape(len(sizes), size, -1)
        sums = cube[:, :1] + cube[:, 1:] if size == 2 else np.add.reduce(cube, axis=1, keepdims=True)
        if (sums > 0).all():
            return np.asarray((cube / sums).reshape(table.shape))
    sums = np.add.reduceat(table, offsets[:-1], axis=0)
    empty = sums <= 0
    filled = table + np.repeat(empty, sizes, axis=0) if empty.any() else table
    totals = np.where(empty, sizes[:, None], sums)
    return np.asarray(filled / np.repeat(totals, sizes, axis=0))


def marginal_proportions(counts: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Counts (C,) as proportions within their column, none quite zero."""
    return normalise_tables(counts[:, None] + 1e-9, offsets)[:, 0]
