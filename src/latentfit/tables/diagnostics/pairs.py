"""Pairs of columns: which depend on one another, which still do inside the classes, which never occur in one row.

Tests of dependence compare Pearson's statistic with its exact mean and variance over permutations (Dawson 1954), so
rare categories do no harm. All pairs are judged at once from one (C, C) matrix of counts; wide tables give only some
of their columns to it, long ones some of their rows, both chosen by hash.

Paper     Dawson 1954
Needs     pair counts, whole ones for p-values
Promises  mean and variance over permutations exactly; p-values by a gamma distribution with these
Differs   per column the sum over its partners and the largest partner are looked at, each doubled

Symbols   here      shape    meaning
          counts    (C, C)   cells occurring together
          n         (N, N)   rows that show both columns
          k, m      (N, N)   categories seen, their margins
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import gamma

from latentfit.core.kernels import BLOCK_ROWS, Floats
from latentfit.core.mixture.init import block_sums, dense_pairs
from latentfit.core.mixture.pair_counts import count_table_pairs
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.sampling import row_hashes, scramble
from latentfit.core.table.replicates import is_whole
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of


@dataclass(frozen=True)
class PairLimits:
    """How much of a table is looked at."""

    max_cells: int = 1_000  # Categories whose pairs are counted: a matrix of them is 8 MB, and a handful live at once.
    pair_work: int = 500_000_000  # Rows · pairs of columns counted: about half a second.
    # Rows · categories² counted when rows have uneven weights: a few seconds of dense products.
    weighted_work: int = 20_000_000_000
    # Rows · categories · incomplete columns · classes when the pairs of a table with missing cells are expected.
    expected_work: int = 4_000_000_000
    expected_rows: int = 4_096  # Rows of one dense product of the same: 1,000 categories of them take 32 MB.
    # Rows per unique row up to which unique rows are written out as so many equal rows, for the exact counter.
    written_out: int = 20
    seed: int = 0  # Of the hash by which rows and columns are chosen.


LIMITS = PairLimits()


Ints = NDArray[np.intp]
Blocks = NDArray[np.int32]


@dataclass(frozen=True)
class CellPairs:
    """Counts (C, C) of cells occurring together, of some columns and rows of a table or of all."""

    counts: Floats
    column_offsets: Blocks
    columns: Ints  # which columns of the table
    n_rows: float
    rows: Table | None = None  # the rows that were counted, with all of their columns

    @property
    def co_observed(self) -> Floats:
        """In how many rows two columns are both observed (N, N)."""
        return block_sums(self.counts, self.column_offsets)


def count_evidence(table: Table, n_classes: int = 1) -> CellPairs:
    """Pair counts within bounds of memory and time, also of what `expected_pairs` costs at so many classes."""
    columns = chosen_columns(table)
    size = int(np.diff(table.column_offsets)[columns].sum())
    if len(columns) < min(3, table.n_columns):  # nothing can be concluded, and there may be nothing to count
        return CellPairs(np.zeros((size, size)), _narrowed(table, columns).column_offsets, columns, 0.0)
    most = LIMITS.pair_work // max(len(columns) * (len(columns) - 1) // 2, 1)
    if incomplete := int(table.missing_columns[columns].sum()):
        most = min(most, max(LIMITS.expected_work // (size * incomplete * n_classes), 1))
    rows = some_rows(table, most)
    narrow = _narrowed(rows, columns)
    counted = not rows.sampling and is_whole(rows.each_weight())
    if counted and rows.total_weight <= LIMITS.written_out * rows.n_rows:
        replicates = None if rows.row_weight is None else np.repeat(np.arange(rows.n_rows), replicate_counts(rows))
        written = narrow if replicates is None else narrow.take(replicates)
        counts = count_table_pairs(replace(written, row_weight=None)).dense()
    else:
        most = max(LIMITS.weighted_work // size**2, 1)
        rows = rows if rows.n_rows <= most else some_rows(rows, most)
        narrow = _narrowed(rows, columns)
        counts = dense_pairs(narrow, narrow.n_rows)
    return CellPairs(counts, narrow.column_offsets, columns, rows.total_weight, rows)


def _narrowed(table: Table, columns: Ints) -> Table:
    """The table of some of its columns."""
    if len(columns) == table.n_columns:
        return table
    codes = np.ascontiguousarray(table.codes[:, columns])
    return replace(table, codes=codes, columns=tuple(table.columns[n] for n in columns))


def expected_pairs(evidence: CellPairs, mixture: Mixture) -> Floats:
    """How often the model expects each pair of cells (C, C) among the rows that show both columns.

    Which rows show a column may depend on the other answers (a question that is asked only after a "yes"), so the
    rows that show both are no random part of the table. The model expects n · joint in all rows; from that goes what
    it expects, given their observed cells, in the rows that lack one of the two columns or both. Without missing
    cells nothing is taken away.
    """
    assert evidence.rows is not None
    offsets, table = evidence.column_offsets, _narrowed(evidence.rows, evidence.columns)
    cells = np.concatenate(
        [np.arange(mixture.column_offsets[n], mixture.column_offsets[n + 1]) for n in evidence.columns]
    )
    profiles = mixture.table[cells]
    column_of = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    expected = evidence.n_rows * (profiles * mixture.weights) @ profiles.T
    incomplete = np.flatnonzero(table.missing_columns)
    if not len(incomplete):
        return np.asarray(expected)
    posterior = posterior_of(MemoryEngine(evidence.rows, None), mixture)[0]
    missing_cells = np.isin(column_of, incomplete)  # cells of the columns that some row lacks
    place = np.searchsorted(incomplete, column_of[missing_cells])
    for begin in range(0, table.n_rows, LIMITS.expected_rows):
        rows = slice(begin, begin + LIMITS.expected_rows)
        codes, weight = table.codes[rows], table.each_weight()[rows]
        present = table.present[rows]
        shown = np.zeros((len(codes), int(offsets[-1])))
        at, n = np.nonzero(present)
        shown[at, offsets[n] + codes[at, n]] = 1.0
        absent = (~present[:, incomplete]).astype(np.float64)
        lacking = (~present).astype(np.float64)
        for f in range(mixture.n_classes):
            proportion = absent * (weight * posterior[rows, f])[:, None]
            one = (shown.T @ proportion)[:, place] * profiles[missing_cells, f]  # (C, cells of incomplete columns)
            both = (lacking.T @ proportion)[column_of][:, place] * np.outer(profiles[:, f], profiles[missing_cells, f])
            expected[:, missing_cells] -= one + both
            expected[missing_cells, :] -= one.T
    return np.asarray(np.maximum(expected, 0.0))


def chosen_columns(table: Table) -> Ints:
    """All columns when their categories fit, else those that fit in the order of the hash of their names."""
    sizes = np.diff(table.column_offsets)
    if sizes.sum() <= LIMITS.max_cells:
        return np.arange(table.n_columns)
    name_hashes = np.array([zlib.crc32(str(column.name).encode()) for column in table.columns], np.uint64)
    chosen: list[int] = []
    left = LIMITS.max_cells
    for n in np.lexsort(
        (scramble(name_hashes, LIMITS.seed), sizes > LIMITS.max_cells // 3)
    ):  # a very wide column crowds out others
        if sizes[n] <= left:
            chosen.append(int(n))
            left -= int(sizes[n])
    return np.array(sorted(chosen), np.intp)


def some_rows(table: Table, most: int) -> Table:
    """About `most` of the user's rows, chosen by hash; unique rows keep the proportion of their rows that was chosen.

    Not `sample_rows`, which writes rows out one by one: a diagnosis reads the unique rows of long tables,
    and two unique rows with the weights of a million rows are two rows here.
    """
    replicates = replicate_counts(table)
    if replicates.sum() <= most:
        return table
    order = np.argsort(_hashes(table), kind="stable")
    if replicates.max() == 1:
        return table.take(np.sort(order[:most]))
    drawn = np.empty(len(replicates), np.int64)
    drawn[order] = np.random.default_rng(LIMITS.seed).binomial(replicates[order], most / replicates.sum())
    return _with_fraction(table, drawn / np.maximum(replicates, 1))


def two_halves(table: Table) -> tuple[Table, Table]:
    """The user's rows shared out to two halves by hash."""
    replicates = replicate_counts(table)
    order = np.argsort(_hashes(table), kind="stable")
    left = np.empty(len(replicates), np.int64)
    left[order] = np.random.default_rng(LIMITS.seed + 1).binomial(replicates[order], 0.5)
    proportion = left / np.maximum(replicates, 1)
    return _with_fraction(table, proportion), _with_fraction(table, 1 - proportion)


def replicate_counts(table: Table) -> NDArray[np.int64]:
    """How many of the user's rows each unique row stands for: its weight where that counts rows, else as grouped."""
    if table.row_weight is not None and not table.sampling and is_whole(table.row_weight):
        return table.row_weight.astype(np.int64)
    return table.rows_each()


def _with_fraction(table: Table, proportion: Floats) -> Table:
    """The table with each unique row's weight cut to a fraction, those without any left out."""
    keep = np.flatnonzero(proportion > 0)
    weight = proportion * table.each_weight()
    weight = weight if table.sampling else np.round(weight, 9)  # counts stay whole
    return replace(table.take(keep), row_weight=np.ascontiguousarray(weight[keep]))


def _hashes(table: Table) -> NDArray[np.uint64]:
    """Hashes of rows, block by block, so that memory stays flat."""
    parts = [np.arange(begin, min(begin + BLOCK_ROWS, table.n_rows)) for begin in range(0, table.n_rows, BLOCK_ROWS)]
    return np.concatenate([row_hashes(replace(table.take(part), row_weight=None), LIMITS.seed) for part in parts])


# ------------------------------------------------------------------ dependence


def pearson_blocks(counts: Floats, offsets: Blocks) -> tuple[Floats, Floats, Floats]:
    """Pearson's statistic of every pair of columns, and its mean and variance over permutations, each (N, N).

    Categories that a pair never shows are left out of it. With n rows, R and C categories, v = (k − 1)(n − k)/(n − 1)
    and w = (n Σ 1/m − k²)/(n − 2), k categories with margins m: mean n (R − 1)(C − 1)/(n − 1), variance
    2n/(n − 3) (v_R − w_R)(v_C − w_C) + n²/(n − 1) w_R w_C.
    """
    sizes = np.diff(offsets)
    margins = np.add.reduceat(counts, offsets[:-1], axis=1)  # (C, N): a cell's count in the rows that show column j
    wide = np.repeat(margins, sizes, axis=1)
    product = wide * wide.T
    n = block_sums(counts, offsets)
    proportions = np.divide(np.square(counts), product, out=np.zeros_like(counts), where=product > 0)
    statistic = n * block_sums(proportions, offsets) - n
    seen = margins > 0
    inverse = np.divide(1.0, margins, out=np.zeros_like(margins), where=seen)
    k = np.add.reduceat(
        seen.astype(np.float64), offsets[:-1], axis=0
    )  # (N, N): categories of i in rows that show column j
    harmonic = np.add.reduceat(inverse, offsets[:-1], axis=0)
    live = (n >= 4) & (k >= 2) & (k.T >= 2) & ~np.eye(len(sizes), dtype=bool)
    m = np.where(live, n, 4.0)
    v = (k - 1) * (m - k) / (m - 1)
    w = (m * harmonic - k**2) / (m - 2)
    mean = m * (k - 1) * (k.T - 1) / (m - 1)
    variance = 2 * m / (m - 3) * (v - w) * (v - w).T + m**2 / (m - 1) * w * w.T
    return np.where(live, statistic, 0.0), np.where(live, mean, 0.0), np.where(live, variance, 0.0)


def dependence_p_values(counts: Floats, offsets: Blocks) -> Floats:
    """Per column, the p-value of its dependence on the others (N,).

    The smaller of the p-values of the sum over its partners and of the largest partner, each doubled for looking twice.
    """
    moments = np.stack(pearson_blocks(counts, offsets))
    total = upper_tail(*moments.sum(axis=2))
    far = moments[0] > moments[1] + 2 * np.sqrt(moments[2])  # no other pair can be the one that stands out
    alone = np.ones(far.shape)
    alone[far] = upper_tail(*moments[:, far])
    single = alone.min(axis=1, initial=1.0) * max(len(offsets) - 2, 1)
    return np.asarray(np.minimum(2 * np.minimum(total, single), 1.0))


def upper_tail(value: Floats, mean: Floats, variance: Floats) -> Floats:
    """Upper tail of the gamma distribution with this mean and variance."""
    live = (mean > 0) & (variance > 0)
    mean, variance = np.where(live, mean, 1.0), np.where(live, variance, 1.0)
    return np.where(live, gamma.sf(value, mean**2 / variance, scale=variance / mean), 1.0)


def residual_dependence(counts: Floats, expected: Floats, offsets: Blocks, level: float = 1.0) -> Floats:
    """Corrected Cramér's V (N, N) between the counts of every pair and what the model expects (`expected_pairs`).

    Zero where the p-value under the mixture is above `level` (χ², (R − 1)(C − 1) degrees).
    """
    sizes = np.diff(offsets)
    n = block_sums(counts, offsets)
    off = np.square(counts - expected)
    off /= np.maximum(expected, 0.5)  # half a row: a category the mixture never expects must not divide by zero
    statistic = block_sums(off, offsets)
    degrees = np.outer(sizes - 1, sizes - 1).astype(np.float64)
    least = np.minimum.outer(sizes, sizes) - 1
    live = (n >= 1) & (least >= 1) & ~np.eye(len(sizes), dtype=bool)
    excess = np.maximum(statistic - degrees, 0.0) / np.where(live, n * least, 1.0)
    values = np.where(live, np.sqrt(excess), 0.0)
    some = values > 0
    values[some] *= upper_tail(statistic[some], degrees[some], 2 * degrees[some]) <= level
    return np.asarray(values)


def one_to_one(counts: Floats, offsets: Blocks, least: float, least_other: float) -> NDArray[np.bool_]:
    """Pairs of columns (N, N) of which each determines the other in every row that shows both.

    At least `least` rows show both, and `least_other` of them not the most frequent answer: rare ones agree by chance.
    """
    occurs = counts > 0
    n_cells = block_sums(occurs.astype(np.float64), offsets)
    seen = np.logical_or.reduceat(occurs, offsets[:-1], axis=1)
    k = np.add.reduceat(seen.astype(np.float64), offsets[:-1], axis=0)  # categories of i in rows that show column j
    n = block_sums(counts, offsets)
    top = np.maximum.reduceat(np.maximum.reduceat(counts, offsets[:-1], axis=0), offsets[:-1], axis=1)
    alike = (n_cells == k) & (n_cells == k.T) & (k >= 2) & (n >= least) & (n - top >= least_other)
    return np.asarray(alike & ~np.eye(len(offsets) - 1, dtype=bool))


@dataclass(frozen=True)
class Determined:
    """A category that occurs just where another column has some of its categories."""

    cell: int
    column: int  # the other one
    n_rows: float


def determined_categories(counts: Floats, offsets: Blocks, least: float, exceptions: float) -> list[Determined]:
    """Categories, of columns with three or more, that another column alone decides: a code for "not asked" does that.

    At least `least` rows have the category and as many have not; up to a proportion `exceptions` of either are allowed.
    """
    sizes = np.diff(offsets)
    column_of = np.repeat(np.arange(len(sizes)), sizes)
    shown = np.add.reduceat(counts, offsets[:-1], axis=0)[column_of]  # (C, C): rows of cell k that show cell c's column
    inside = counts > shown / 2
    wrong = np.add.reduceat(np.minimum(counts, shown - counts), offsets[:-1], axis=1)
    yes = np.add.reduceat(np.where(inside, shown, 0.0), offsets[:-1], axis=1)
    no = np.add.reduceat(np.where(inside, 0.0, shown), offsets[:-1], axis=1)
    fewer = np.minimum(yes, no)
    found = (fewer >= least) & (wrong <= exceptions * fewer) & (sizes[column_of] >= 3)[:, None]
    found[np.arange(len(column_of)), column_of] = False
    return [Determined(int(c), int(n), float(yes[c, n])) for c, n in np.argwhere(found)]


def connected_parts(co_observed: Floats, least: float) -> Ints:
    """Which part each column belongs to (N,): columns meet when at least so many rows show both."""
    return np.asarray(connected_components((co_observed >= least).astype(np.int8), directed=False)[1], np.intp)
