"""Pairs of columns: which depend on one another, which still do inside the classes, which never meet in a row.

Tests of dependence compare Pearson's statistic with its exact mean and variance over permutations (Dawson 1954), so
rare categories do no harm. All pairs are judged at once from one (C, C) matrix of counts; wide tables give only some
of their columns to it, long ones some of their rows, both chosen by hash.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import gamma

from tacit.data.sampling import row_hashes, scramble
from tacit.data.table import Table
from tacit.engine.mixture import Floats, Mixture
from tacit.kernels import BLOCK_ROWS
from tacit.moments.pairs import count_table_pairs

MOST_CELLS = 1_500
"""Categories whose pairs are counted: a matrix of them is 18 MB, and a handful live at once."""
PAIR_WORK = 1_000_000_000
"""Rows · pairs of columns counted: about a second."""
SEED = 0
"""Of the hash by which rows and columns are chosen."""

Ints = NDArray[np.intp]
Blocks = NDArray[np.int32]


@dataclass(frozen=True)
class PairEvidence:
    """Counts (C, C) of cells occurring together, of some columns and rows of a table or of all."""

    counts: Floats
    first: Blocks
    columns: Ints  # which columns of the table
    n_rows: float

    @property
    def meetings(self) -> Floats:
        """In how many rows two columns are both observed (N, N)."""
        return block_sums(self.counts, self.first)


def block_sums(values: Floats, first: Blocks) -> Floats:
    """Sums of a (C, C) matrix over the blocks of every two columns (N, N)."""
    return np.asarray(np.add.reduceat(np.add.reduceat(values, first[:-1], axis=0), first[:-1], axis=1))


def count_evidence(table: Table) -> PairEvidence:
    """Pair counts within bounds of memory and time."""
    columns = chosen_columns(table)
    narrow = replace(
        table, codes=np.ascontiguousarray(table.codes[:, columns]), columns=tuple(table.columns[n] for n in columns)
    )
    pairs = max(len(columns) * (len(columns) - 1) // 2, 1)
    rows = some_rows(narrow, PAIR_WORK // pairs)
    return PairEvidence(count_table_pairs(rows).dense(), rows.first, columns, rows.total_weight)


def chosen_columns(table: Table) -> Ints:
    """All columns when their categories fit, else those that fit in the order of the hash of their names."""
    sizes = np.diff(table.first)
    if sizes.sum() <= MOST_CELLS:
        return np.arange(table.n_columns)
    words = np.array([zlib.crc32(str(column.name).encode()) for column in table.columns], np.uint64)
    kept: list[int] = []
    left = MOST_CELLS
    for n in np.lexsort((scramble(words, SEED), sizes > MOST_CELLS // 3)):  # a very wide column crowds out others
        if sizes[n] <= left:
            kept.append(int(n))
            left -= int(sizes[n])
    return np.array(sorted(kept), np.intp)


def some_rows(table: Table, most: int) -> Table:
    """The user's rows one by one, at most `most` of them chosen by hash; rows of uneven weight keep it."""
    whole = table.row_weight is not None and np.array_equal(table.row_weight, np.round(table.row_weight))
    rows = np.arange(table.n_rows)
    if whole and table.row_weight is not None:
        rows = np.repeat(rows, table.row_weight.astype(np.int64))
    if len(rows) > most:
        rows = np.sort(rows[np.argsort(_hashes(table, rows), kind="stable")[:most]])
    taken = table.take(rows)
    return replace(taken, row_weight=None) if whole else taken


def _hashes(table: Table, rows: Ints) -> NDArray[np.uint64]:
    """Hashes of rows, block by block, so that memory stays flat."""
    parts = [rows[begin : begin + BLOCK_ROWS] for begin in range(0, len(rows), BLOCK_ROWS)]
    return np.concatenate([row_hashes(replace(table.take(part), row_weight=None), SEED) for part in parts])


# ------------------------------------------------------------------ dependence


def pearson_blocks(counts: Floats, first: Blocks) -> tuple[Floats, Floats, Floats]:
    """Pearson's statistic of every pair of columns, and its mean and variance over permutations, each (N, N).

    Categories that a pair never shows are left out of it. With n rows, R and C categories, v = (k − 1)(n − k)/(n − 1)
    and w = (n Σ 1/m − k²)/(n − 2), k categories with margins m: mean n (R − 1)(C − 1)/(n − 1), variance
    2n/(n − 3) (v_R − w_R)(v_C − w_C) + n²/(n − 1) w_R w_C.
    """
    sizes = np.diff(first)
    margins = np.add.reduceat(counts, first[:-1], axis=1)  # (C, N): a cell's count in the rows that show column j
    wide = np.repeat(margins, sizes, axis=1)
    product = wide * wide.T
    n = block_sums(counts, first)
    shares = np.divide(np.square(counts), product, out=np.zeros_like(counts), where=product > 0)
    statistic = n * block_sums(shares, first) - n
    seen = margins > 0
    inverse = np.divide(1.0, margins, out=np.zeros_like(margins), where=seen)
    k = np.add.reduceat(seen.astype(np.float64), first[:-1], axis=0)  # (N, N): categories of i beside column j
    harmonic = np.add.reduceat(inverse, first[:-1], axis=0)
    live = (n >= 4) & (k >= 2) & (k.T >= 2) & ~np.eye(len(sizes), dtype=bool)
    m = np.where(live, n, 4.0)
    v = (k - 1) * (m - k) / (m - 1)
    w = (m * harmonic - k**2) / (m - 2)
    mean = m * (k - 1) * (k.T - 1) / (m - 1)
    variance = 2 * m / (m - 3) * (v - w) * (v - w).T + m**2 / (m - 1) * w * w.T
    return np.where(live, statistic, 0.0), np.where(live, mean, 0.0), np.where(live, variance, 0.0)


def dependence_chances(counts: Floats, first: Blocks) -> Floats:
    """Per column, the chance of so much dependence on the others if there were none (N,): the smaller of the chance
    of the sum over its partners and of the largest partner, each doubled for looking twice."""
    found = np.stack(pearson_blocks(counts, first))
    total = upper_tail(*found.sum(axis=2))
    far = found[0] > found[1] + 2 * np.sqrt(found[2])  # no other pair can be the one that stands out
    alone = np.ones(far.shape)
    alone[far] = upper_tail(*found[:, far])
    single = alone.min(axis=1, initial=1.0) * max(len(first) - 2, 1)
    return np.asarray(np.minimum(2 * np.minimum(total, single), 1.0))


def upper_tail(value: Floats, mean: Floats, variance: Floats) -> Floats:
    """Upper tail of the gamma distribution with this mean and variance."""
    live = (mean > 0) & (variance > 0)
    mean, variance = np.where(live, mean, 1.0), np.where(live, variance, 1.0)
    return np.where(live, gamma.sf(value, mean**2 / variance, scale=variance / mean), 1.0)


def residual_dependence(counts: Floats, mixture: Mixture, level: float = 1.0) -> Floats:
    """Corrected Cramér's V (N, N) between the counts of every pair and what the mixture expects of them.

    Zero where chance gives as much more often than `level` if the mixture is right (χ², (R − 1)(C − 1) degrees).
    """
    first = mixture.first
    sizes = np.diff(first)
    n = block_sums(counts, first)
    expected = (mixture.table * mixture.weights) @ mixture.table.T
    expected *= np.repeat(np.repeat(n, sizes, axis=0), sizes, axis=1)
    off = np.square(counts - expected)
    off /= np.maximum(expected, 0.5)  # half a row: a category the mixture never expects must not divide by zero
    statistic = block_sums(off, first)
    degrees = np.outer(sizes - 1, sizes - 1).astype(np.float64)
    least = np.minimum.outer(sizes, sizes) - 1
    live = (n >= 1) & (least >= 1) & ~np.eye(len(sizes), dtype=bool)
    excess = np.maximum(statistic - degrees, 0.0) / np.where(live, n * least, 1.0)
    values = np.where(live, np.sqrt(excess), 0.0)
    some = values > 0
    values[some] *= upper_tail(statistic[some], degrees[some], 2 * degrees[some]) <= level
    return np.asarray(values)


def parts_that_meet(meetings: Floats, least: float) -> Ints:
    """Which part each column belongs to (N,): columns meet when at least so many rows show both."""
    return np.asarray(connected_components((meetings >= least).astype(np.int8), directed=False)[1], np.intp)
