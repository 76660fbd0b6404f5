"""Neighbouring columns packed into one code: fewer lookups for every row, the same sums.

Eight yes/no columns are one code of 256 states, two columns of ten categories with missing values one of 121. A pass
over the rows then reads one row of a wider table for all of them; the kernel spreads the log-table of cells over the
states before the pass, and gathers sums of states into sums of cells after it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import BLOCK_ROWS, PART_BLOCKS, DenseCodes, Floats, PackedColumns
from latentfit.core.names import Names, match
from latentfit.core.table.weights import WeightScale, WeightType, scale_of, unweighted

Codes = NDArray[Any]

MAX_STATES = (256, 128, 64, 32, 16, 8, 4)  # Limits of states per code that are considered; 256 fill a byte.
PACKED_ROWS = 4_096  # Rows packed together: walking a column of so few stays in the cache.
# What a state costs relative to a lookup: making its row of the table before a pass and summing it away after.
STATE_COST = 6


@dataclass(frozen=True)
class Packing:
    """How neighbouring columns are packed into a code: which, and how many states each has.

    `column_offsets` (groups + 1,) is the first state of every group.
    """

    sizes: NDArray[np.intp]
    states: NDArray[np.intp]  # sizes, and one more where a column has missing values
    groups: tuple[slice, ...]
    column_offsets: NDArray[np.int32]

    @cached_property
    def columns(self) -> PackedColumns:
        """The same as the kernels read it."""
        ends = np.array([0, *(group.stop for group in self.groups)], np.int32)
        return PackedColumns(self.sizes.astype(np.int32), self.states.astype(np.int32), ends)

    @property
    def dtype(self) -> Any:
        return np.uint8 if int(np.diff(self.column_offsets).max()) <= 256 else np.uint16

    def pack(self, codes: Codes) -> Codes:
        """Codes of columns (rows, N) → codes of groups."""
        packed = np.empty((len(codes), len(self.groups)), self.dtype)
        for begin in range(0, len(codes), PACKED_ROWS):
            some = np.minimum(codes[begin : begin + PACKED_ROWS], self.sizes.astype(np.uint16)).T
            for g, group in enumerate(self.groups):
                mixed = some[group.start].astype(np.uint16)
                for n in range(group.start + 1, group.stop):
                    mixed = mixed * np.uint16(self.states[n]) + some[n]
                packed[begin : begin + PACKED_ROWS, g] = mixed
        return packed

    def unpack(self, packed: Codes, dtype: Any) -> Codes:
        """Codes of groups → codes of columns, the largest value for a missing value."""
        out = np.empty((len(packed), len(self.sizes)), dtype)
        for g, group in enumerate(self.groups):
            left = packed[:, g]
            for n in reversed(range(group.start, group.stop)):
                left, code = np.divmod(left, left.dtype.type(self.states[n])) if n > group.start else (left, left)
                out[:, n] = np.where(code < self.sizes[n], code, np.iinfo(dtype).max)
        return out


def plan_groups(n_rows: int, states: NDArray[np.intp]) -> list[slice]:
    """Runs of neighbouring columns to pack, for the least work of a pass: a matter of sizes alone."""
    singles = [slice(n, n + 1) for n in range(len(states))]
    best, least = singles, float(n_rows * len(states))
    for most in MAX_STATES:
        groups = _runs(states, most)
        work = float(n_rows * len(groups) + STATE_COST * sum(int(states[group].prod()) for group in groups))
        if work < least:
            best, least = groups, work
    return best


def _runs(states: NDArray[np.intp], most: int) -> list[slice]:
    groups: list[slice] = []
    begin, product = 0, 1
    for n, size in enumerate(states.tolist()):
        if n > begin and product * size > most:
            groups.append(slice(begin, n))
            begin, product = n, 1
        product *= size
    return [*groups, slice(begin, len(states))]


def plan_packing(n_rows: int, offsets: NDArray[np.int32], missing_columns: NDArray[np.bool_]) -> Packing | None:
    """How to pack columns of so many rows, or None when packing saves nothing."""
    sizes = np.diff(offsets).astype(np.intp)
    states = sizes + missing_columns  # a missing value is one state more, and stands for no cell
    groups = plan_groups(n_rows, states)
    if len(groups) == len(sizes):
        return None
    offsets = np.cumsum([0, *(states[group].prod() for group in groups)]).astype(np.int32)
    return Packing(sizes, states, tuple(groups), offsets)


# -----------------------------------------------------------------------------
# Table: dense codes of categorical columns, any number of categories each, missing values anywhere.
#
# Columns keep the user's order for answers; algorithms walk them in the order of their names, so permuting
# columns permutes the answer. Equal rows are grouped when that at least halves the work: a grouped table holds
# each unique row once with its weight, and `unique_index` leads from rows to unique rows. Missing is the largest code.
# Rows with
# uneven sampling weights (`core/table/weights.py`) are one unique row only where their weights are equal too: rows stay
# rows.

GROUP_AT = 0.5  # Equal rows of a large table are grouped when the unique rows are at most this proportion of the rows.
MAX_UNIQUE_ROWS = 1_000_000  # More unique rows are never grouped: they must fit memory however long the table is.
# Distinct rows that are counted one by one; of a longer table a proportion of them is, by their fingerprints.
COUNTED = 1 << 21
# Up to so many rows equal rows are always grouped: then a row of weight w is w equal rows, to the bit.
ALWAYS_GROUP = 100_000


@dataclass(frozen=True)
class Column:
    """One column's categories: its name, its categories in order, and their values when they are numbers."""

    name: str | int
    categories: Names
    edges: Floats | None = None  # inner bin edges of a numeric column that was cut into intervals
    centres: Floats | None = None  # mean of the values in each interval

    @property
    def size(self) -> int:
        return len(self.categories)

    @property
    def values(self) -> Floats | None:
        """What the categories are worth, for expectations; None when they are text."""
        if self.centres is not None:
            return self.centres
        if self.categories.dtype.kind in "iufb":
            return self.categories.astype(np.float64)
        return None

    def code_of(self, value: Any) -> int:
        """The code of a category, or of the interval a number falls into; -1 when there is none."""
        if self.edges is not None and isinstance(value, int | float | np.number) and np.isfinite(float(value)):
            return int(np.searchsorted(self.edges, float(value), side="right"))
        return int(match([value], self.categories, f"{self.name!r}")[0])


class CodedTable(ABC):
    """What tables in memory and in a file have in common: columns, weights, and cells that the kernels read."""

    columns: tuple[Column, ...]
    scale: WeightScale | None  # of sampling weights; None: weights count rows
    weighted: Any
    n_rows: Any
    total_weight: Any
    missing_columns: Any

    @property
    def n_columns(self) -> int:
        return len(self.columns)

    @cached_property
    def column_offsets(self) -> NDArray[np.int32]:
        """Where each column's cells begin (n_columns + 1,)."""
        return np.concatenate([[0], np.cumsum([column.size for column in self.columns])]).astype(np.int32)

    @property
    def sampling(self) -> bool:
        """Whether weights are sampling weights that differ: they add up to Kish's number, and count no rows."""
        return self.weighted and self.scale is not None and self.scale.uneven

    @property
    def weight_scale(self) -> WeightScale:
        """How the rows' weights are spread, where they have none as well."""
        return unweighted(self.total_weight) if self.scale is None else self.scale

    @cached_property
    def packing(self) -> Packing | None:
        """Neighbouring columns in one code, when that makes a pass cheaper."""
        return plan_packing(self.n_rows, self.column_offsets, self.missing_columns)

    def spread(self, log_table: Floats) -> Floats:
        """The log-table that `cells` point into: the kernel itself knows what packed codes stand for."""
        return log_table

    def gather(self, sums: Floats) -> Floats:
        """Sums over the table's own cells, as they come."""
        return sums

    def _packed_cells(self, packed: Codes) -> DenseCodes:
        if self.packing is None:
            return DenseCodes(packed, self.column_offsets)
        return DenseCodes(packed, self.packing.column_offsets, self.packing.columns)


@dataclass(frozen=True)
class Table(CodedTable):
    """Coded rows (unique rows, columns) with their weights, and the columns' categories."""

    codes: Codes
    columns: tuple[Column, ...]
    row_weight: Floats | None = None
    unique_index: NDArray[np.int64] | None = None
    equal: NDArray[np.int64] | None = None  # the user's rows of each unique row, where its weight does not count them
    single: bool = False  # rows with weights that are the user's own, one by one: they were not worth grouping
    scale: WeightScale | None = None  # of sampling weights; None: weights count rows

    @property
    def n_rows(self) -> int:
        """Rows a pass walks: unique rows when equal rows are grouped."""
        return int(self.codes.shape[0])

    @property
    def n_samples(self) -> int:
        """Rows the user brought."""
        return self.n_rows if self.unique_index is None else len(self.unique_index)

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Which cells are observed (unique rows, columns)."""
        return np.asarray(self.codes < np.diff(self.column_offsets))

    @cached_property
    def n_cells(self) -> float:
        """Observed cells, counted with their rows' weights."""
        per_row = self.present.sum(axis=1)
        return float(per_row.sum() if self.row_weight is None else sum_in_blocks(per_row * self.row_weight))

    @cached_property
    def total_weight(self) -> float:
        return float(self.n_rows if self.row_weight is None else sum_in_blocks(self.row_weight))

    @property
    def weighted(self) -> bool:
        return self.row_weight is not None

    @property
    def n_observations(self) -> int:
        """Rows with a positive weight; a frequency counts as many."""
        return int(self.rows_each().sum()) if self.sampling else round(self.total_weight)

    def each_weight(self) -> Floats:
        """Weights (n_rows,), all 1 where the table has none."""
        return np.ones(self.n_rows) if self.row_weight is None else self.row_weight

    def rows_each(self) -> NDArray[np.int64]:
        """How many of the user's rows each unique row is."""
        if self.equal is None and self.unique_index is not None:
            return np.bincount(self.unique_index, minlength=self.n_rows)
        return np.ones(self.n_rows, np.int64) if self.equal is None else self.equal

    @cached_property
    def missing_columns(self) -> NDArray[np.bool_]:
        """Which columns have a missing value."""
        return np.asarray(self.codes.max(axis=0, initial=0) >= np.diff(self.column_offsets))

    @cached_property
    def _packed(self) -> Codes:
        return self.codes if self.packing is None else self.packing.pack(self.codes)

    def cells(self, begin: int, end: int) -> DenseCodes:
        return self._whole if end - begin == self.n_rows else self._cells(begin, end)

    @cached_property
    def _whole(self) -> DenseCodes:
        return self._cells(0, self.n_rows)

    def _cells(self, begin: int, end: int) -> DenseCodes:
        return self._packed_cells(np.ascontiguousarray(self._packed[begin:end]))

    def codes_of(self, begin: int, end: int) -> Codes:
        """Codes of some rows."""
        return self.codes[begin:end]

    def blocks(self) -> Iterator[Table]:
        """The rows in order, `BLOCK_ROWS` at a time."""
        for begin in range(0, self.n_rows, BLOCK_ROWS):
            weight = None if self.row_weight is None else self.row_weight[begin : begin + BLOCK_ROWS]
            codes = self.codes[begin : begin + BLOCK_ROWS]
            yield replace(self, codes=codes, row_weight=weight, unique_index=None, equal=None)

    def weights(self, begin: int, end: int) -> Floats | None:
        return None if self.row_weight is None else np.ascontiguousarray(self.row_weight[begin:end])

    def singles(self) -> Floats:
        """How often each cell occurs, with weights (C,)."""
        return self._singles

    @cached_property
    def _singles(self) -> Floats:
        """Counted once, one column at a time, so that memory stays flat."""
        missing = np.iinfo(self.codes.dtype).max
        sizes = np.diff(self.column_offsets)
        counts = [np.bincount(self.codes[:, n], self.row_weight, missing + 1)[:size] for n, size in enumerate(sizes)]
        cells = np.concatenate(counts).astype(np.float64)
        cells.setflags(write=False)
        return cells

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
        """Some of the unique rows, with their weights; the way back to the user's rows is lost."""
        weight = None if self.row_weight is None else self.row_weight[rows]
        equal = None if self.equal is None else self.equal[rows]
        codes = np.ascontiguousarray(self.codes[rows])
        return replace(self, codes=codes, row_weight=weight, unique_index=None, equal=equal)

    def without(self, gone: NDArray[np.bool_]) -> Table:
        """The table without some of its columns; rows stay as they are grouped."""
        if not gone.any():
            return self
        columns = tuple(column for column, away in zip(self.columns, gone, strict=True) if not away)
        return replace(self, codes=np.ascontiguousarray(self.codes[:, ~gone]), columns=columns)

    def expand(self, per_unique_row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of unique rows → values of the user's rows."""
        return per_unique_row if self.unique_index is None else per_unique_row[self.unique_index]


def sum_in_blocks(values: Floats) -> float:
    """Sum in the order of all engines: blocks into their part, parts in order."""
    return add_in_parts(float(values[at : at + BLOCK_ROWS].sum()) for at in range(0, len(values), BLOCK_ROWS))


def add_in_parts(blocks: Iterable[float]) -> float:
    """Sums of blocks, added in order into their part of `PART_BLOCKS`, parts in order."""
    total = part = 0.0
    for at, block in enumerate(blocks):
        if at % PART_BLOCKS == 0:
            total, part = total + part, 0.0
        part += block
    return total + part


def packed_alike(table: Table) -> Table:
    """The same rows packed by a plan that neither their number nor their missing values decide.

    A row's log-likelihood then has the same bits alone, in a batch, and in a file of any length.
    """
    alike = replace(table)
    alike.__dict__["packing"] = plan_packing(BLOCK_ROWS, table.column_offsets, np.ones(table.n_columns, bool))
    return alike


def with_weights(table: Table, weight: Floats, weight_type: WeightType) -> Table:
    """Rows with positive weights; sampling weights are brought to their scale, and equal ones are none."""
    if weight_type == "frequency":
        return replace(table, row_weight=weight)
    scale = scale_of([weight], float(weight.max()))
    return replace(table, row_weight=scale.scaled(weight) if scale.uneven else None, scale=scale)


def group_rows(table: Table) -> Table:
    """The same table with equal rows held once, when that is worth it."""
    codes = np.ascontiguousarray(table.codes)
    apart = table.row_weight if table.sampling else None
    unique_count = UniqueRowCount(len(codes))
    unique_count.add(codes, apart)
    if not unique_count.worth_grouping():
        return replace(table, single=table.row_weight is not None)
    unique_rows, first_seen, unique_index = np.unique(row_keys(codes, apart), return_index=True, return_inverse=True)
    equal = np.bincount(unique_index, minlength=len(unique_rows))
    if apart is None:
        weight = np.bincount(unique_index, table.row_weight, minlength=len(unique_rows)).astype(np.float64)
        return replace(table, codes=codes[first_seen], row_weight=weight, unique_index=unique_index.astype(np.int64))
    weight, codes = equal * apart[first_seen], codes[first_seen]
    return replace(table, codes=codes, row_weight=weight, unique_index=unique_index.astype(np.int64), equal=equal)


def joined_rows(tables: Sequence[Table]) -> Table:
    """The rows of tables with the same columns in one, their weights brought to the scale of all of them."""
    if len(tables) == 1:
        return tables[0]
    scale = reduce(WeightScale.joined, (table.weight_scale for table in tables))
    counts = [table.rows_each() if table.sampling else np.round(table.each_weight()) for table in tables]
    pairs = zip(tables, counts, strict=True)
    units = [table.each_weight() / rows * scale.against(table.weight_scale) for table, rows in pairs]
    each = np.concatenate(units) if scale.uneven else np.ones(sum(map(len, units)))
    codes = np.ascontiguousarray(np.concatenate([table.codes for table in tables]))
    _, first_seen, at = np.unique(row_keys(codes, each), return_index=True, return_inverse=True)
    rows = np.bincount(at, np.concatenate(counts)).astype(np.int64)
    joined_scale = scale if any(table.scale is not None for table in tables) else None
    equal = rows if scale.uneven else None
    return Table(codes[first_seen], tables[0].columns, rows * each[first_seen], equal=equal, scale=joined_scale)


def row_keys(codes: Codes, apart: Floats | None) -> NDArray[Any]:
    """One key per row: its codes and, for sampling weights, its weight. They sort as codes, then weights, do."""
    if not codes.size:
        return codes[:, 0]
    parts = codes.view(np.uint8).reshape(len(codes), -1)
    if apart is not None:  # positive numbers sort as their bytes do, the highest first
        parts = np.ascontiguousarray(np.hstack([parts, apart.astype(">f8").view(np.uint8).reshape(len(codes), 8)]))
    return parts.view(np.dtype((np.void, parts.shape[1]))).reshape(-1)


def gather_unique_rows(blocks: Iterable[Table]) -> Table:
    """Rows that come block by block, every unique row once, in the order `group_rows` gives them.

    Weights of rows are added in the order of the rows, so a unique row's weight has the bits it has in memory.
    """
    known: Codes = np.empty(0)
    rows, weight = np.empty(0, np.int64), np.empty(0)
    sampling = False
    waiting: list[Table] = []

    def merge() -> None:
        nonlocal known, rows, weight
        codes = np.ascontiguousarray(np.concatenate([block.codes for block in waiting]))
        weights = [block.row_weight for block in waiting if block.row_weight is not None]
        keys = row_keys(codes, np.concatenate(weights) if sampling else None)
        unique_rows, inverse, times = np.unique(keys, return_inverse=True, return_counts=True)
        both, at = np.unique(np.concatenate([known, unique_rows] if len(known) else [unique_rows]), return_inverse=True)
        rows = np.bincount(at, np.concatenate([rows, times]), minlength=len(both)).astype(np.int64)
        if weights and not sampling:
            place = np.concatenate([at[: len(known)], at[len(known) :][inverse]])
            weight = np.bincount(place, np.concatenate([weight, *weights]), minlength=len(both)).astype(np.float64)
        known = both
        waiting.clear()

    for block in blocks:
        first, sampling = block, block.sampling
        waiting.append(block)
        if len(waiting) == PART_BLOCKS:
            merge()
    if waiting:
        merge()
    parts = known.view(np.uint8).reshape(len(known), -1)
    width = first.codes.dtype.itemsize * first.n_columns
    codes = np.ascontiguousarray(parts[:, :width]).view(first.codes.dtype).reshape(len(known), first.n_columns)
    if sampling:
        each = np.ascontiguousarray(parts[:, width:]).view(">f8").reshape(-1).astype(np.float64)
        return Table(codes, first.columns, rows * each, equal=rows, scale=first.scale)
    if first.row_weight is None:
        return Table(codes, first.columns, rows.astype(np.float64), scale=first.scale)
    return Table(codes, first.columns, weight, equal=rows, scale=first.scale)


class UniqueRowCount:
    """Distinct rows, by 64-bit fingerprints: of all rows, or of the proportion that a long table's memory allows.

    Whether equal rows are grouped is a matter of the number of rows and of unique rows alone, on every engine.
    """

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._halvings = max(int(np.ceil(np.log2(max(n_rows, 1) / COUNTED))), 0)
        self._seen = np.empty(0, np.uint64)
        self._waiting: list[NDArray[np.uint64]] = []

    def add(self, codes: Codes, apart: Floats | None = None) -> None:
        """Add rows; rows of unequal weights are distinct where weights are given."""
        if self.n_rows <= ALWAYS_GROUP:
            return
        prints = _fingerprints(codes, apart)
        some = prints if not self._halvings else prints[prints >> np.uint64(64 - self._halvings) == 0]
        self._waiting.append(some)
        if sum(map(len, self._waiting)) > COUNTED:
            self._merge()

    def worth_grouping(self) -> bool:
        """Whether the rows that went by are grouped."""
        if self.n_rows <= ALWAYS_GROUP:
            return True
        self._merge()
        unique_rows = len(self._seen) << self._halvings
        return unique_rows <= MAX_UNIQUE_ROWS and unique_rows <= GROUP_AT * self.n_rows

    def _merge(self) -> None:
        ordered = np.sort(np.concatenate([self._seen, *self._waiting]))  # in place of np.unique, which hashes slowly
        new = np.ones(len(ordered), bool)
        np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
        self._seen, self._waiting = ordered[new], []


def _fingerprints(codes: Codes, apart: Floats | None) -> NDArray[np.uint64]:
    prints = np.zeros(len(codes), np.uint64) if apart is None else apart.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for n in range(codes.shape[1]):
        prints ^= codes[:, n]
        prints *= np.uint64(0x100000001B3)  # FNV-1a, column by column; wraps around
        prints ^= prints >> np.uint64(29)
    prints *= np.uint64(0x9E3779B97F4A7C15)  # so that the highest bits depend on all of them
    return prints ^ (prints >> np.uint64(32))
