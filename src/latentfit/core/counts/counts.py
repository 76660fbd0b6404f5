"""Counts: how often pairs of items occurred together, a sparse matrix with the names of its rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from latentfit.core.kernels import Floats
from latentfit.core.kernels.pair_rows import PairRows
from latentfit.core.names import Names


@dataclass(frozen=True)
class Counts:
    """How often row item i occurred with column item j; int64 when counts are whole, float64 when they are weights."""

    matrix: sp.csr_array  # (rows, columns), no stored zeros, sorted indices
    row_names: Names
    column_names: Names
    symmetric: bool  # the matrix equals its transpose: every pair was counted both ways
    notes: tuple[str, ...] = ()  # how the input was read, for the report

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    @property
    def whole(self) -> bool:
        return bool(self.matrix.dtype.kind == "i")

    @cached_property
    def total(self) -> float:
        """Sum of all counts."""
        return float(self.matrix.data.sum())

    @property
    def n_pairs(self) -> float:
        """Observed pairs: the total, or half of it where every pair was counted both ways."""
        return self.total / 2 if self.symmetric else self.total

    @cached_property
    def row_sums(self) -> Floats:
        return np.asarray(self.matrix.sum(axis=1), np.float64).reshape(-1)

    @cached_property
    def column_sums(self) -> Floats:
        return self.row_sums if self.symmetric else np.asarray(self.matrix.sum(axis=0), np.float64).reshape(-1)

    @cached_property
    def rows(self) -> PairRows:
        """As the kernels read them, row by row."""
        return PairRows.of(self.matrix)

    @cached_property
    def columns(self) -> PairRows:
        """The same column by column: the rows of the transpose."""
        return self.rows if self.symmetric else PairRows.of(sp.csr_array(self.matrix.T))

    @property
    def same_items(self) -> bool:
        """Whether rows and columns name the same items in the same order."""
        return same_names(self.row_names, self.column_names)


def same_names(rows: Names, columns: Names) -> bool:
    """Whether two lists name the same items in the same order."""
    return rows is columns or (len(rows) == len(columns) and bool(np.array_equal(rows, columns)))
