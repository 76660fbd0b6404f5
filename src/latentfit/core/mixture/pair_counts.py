"""Pair counts: in how many rows do two cells occur together — equation (3) of the crowd paper times |S|.

Cells are stacked as everywhere: column n owns cells ``column_offsets[n]:column_offsets[n + 1]``. Counts are int64
and add, so the counts of two halves of the data are the sum of theirs. CSR rows keep only what was seen (sparse); dense
tables, where nearly every pair occurs, keep the full matrix.

Paper     Ibrahim & Fu 2022, (3), for labels; Ibrahim & Fu 2021, Proposition 1, for tables with missing values
Needs     coded rows; for CSR rows a list of pairs that fits into memory
Promises  exact integers (weighted rows: sums of their weights); unbiased where missing values say nothing
Differs   counts are kept, frequencies are made when asked for; rows count for the pairs they show both columns of

Symbols   paper      here          shape        meaning
          R̂_mj       frequencies   (P, K, K)    of the observed pairs m < j
          |S_mj|     sizes         (P,)         rows that show both
          Ω          observed      (P,), (P,)   pairs of columns seen together
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.kernels import DenseCodes, Floats, pair_counts
from latentfit.core.table.stored import AnyTable, StoredTable
from latentfit.core.table.table import Table

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class PairCounts:
    """Symmetric counts of cells occurring together; the diagonal blocks hold the single counts."""

    gram: sp.csr_array
    column_offsets: NDArray[np.int32]

    @property
    def n_columns(self) -> int:
        return len(self.column_offsets) - 1

    @cached_property
    def singles(self) -> Ints:
        """How often each cell occurs (C,)."""
        return np.asarray(self.gram.diagonal(), np.int64)

    @cached_property
    def observed(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Ints]:
        """Observed pairs m < j of columns (Ω of the paper), and how many rows show each pair (S)."""
        column_of = np.repeat(np.arange(self.n_columns), np.diff(self.column_offsets))
        coo = self.gram.tocoo()
        left, right = column_of[coo.coords[0]], column_of[coo.coords[1]]
        upper = left < right
        key = left[upper] * self.n_columns + right[upper]
        pairs, where = np.unique(key, return_inverse=True)
        sizes = np.zeros(len(pairs), np.int64)
        np.add.at(sizes, where, coo.data[upper])
        return pairs // self.n_columns, pairs % self.n_columns, sizes

    def co_observed(self) -> NDArray[np.bool_]:
        """Which columns were seen together (N, N), the diagonal not."""
        left, right, _ = self.observed
        out = np.zeros((self.n_columns, self.n_columns), bool)
        out[left, right] = out[right, left] = True
        return out

    def blocks(self) -> Ints:
        """The counts of all observed pairs (P, K, K), for columns of equal size K."""
        size = int(self.column_offsets[1] - self.column_offsets[0])
        left, right, _ = self.observed
        key = left * self.n_columns + right
        coo = self.gram.tocoo()
        row, col = coo.coords[0].astype(np.int64), coo.coords[1].astype(np.int64)
        m, j = row // size, col // size
        upper = m < j
        out = np.zeros((len(left), size, size), np.int64)
        at = np.searchsorted(key, m[upper] * self.n_columns + j[upper])
        out[at, row[upper] % size, col[upper] % size] = coo.data[upper]
        return out

    def dense(self) -> Floats:
        """All counts as one matrix (C, C), for tables: nearly every pair of cells occurs there."""
        return np.asarray(self.gram.todense(), np.float64)

    def frequencies(self) -> Floats:
        """The estimated co-occurrences R̂ of all observed pairs (P, K, K), equation (3)."""
        return np.asarray(self.blocks() / self.observed[2][:, None, None])


def with_singles(gram: sp.csr_array, counts: Ints) -> sp.csr_array:
    """The pair counts with single counts on the diagonal, where repeated answers of a worker occur together."""
    excess = gram.diagonal() - counts
    at = np.flatnonzero(excess)
    return (gram - sp.csr_array((excess[at], (at, at)), shape=gram.shape)).tocsr() if len(at) else gram


def count_table_pairs(table: AnyTable, *, threads: int = 1) -> PairCounts:
    """All pairs of a dense table in one pass; rows with weights count as often as their weight says."""
    if not table.weighted:
        upper = np.zeros((int(table.column_offsets[-1]),) * 2, np.int64)
        for block in table.blocks() if isinstance(table, StoredTable) else [table]:
            upper += pair_counts(DenseCodes(np.ascontiguousarray(block.codes), table.column_offsets), threads=threads)
        return PairCounts(sp.csr_array(np.triu(upper) + np.triu(upper, 1).T), table.column_offsets)
    gram = sp.csr_array((int(table.column_offsets[-1]),) * 2)
    for block in table.blocks():  # blocks in order, as everywhere
        gram = gram + _weighted_gram(block)
    return PairCounts(sp.csr_array(gram), table.column_offsets)


def _weighted_gram(table: Table) -> sp.csr_array:
    assert table.row_weight is not None
    rows, columns = np.nonzero(table.present)
    at = table.column_offsets[:-1][columns] + table.codes[rows, columns]
    shape = (table.n_rows, int(table.column_offsets[-1]))
    one_hot = sp.csr_array((np.ones(len(at)), (rows, at)), shape=shape)
    weighted = sp.csr_array((table.row_weight[rows], (rows, at)), shape=shape)
    return sp.csr_array(one_hot.T @ weighted)
