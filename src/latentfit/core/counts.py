"""Counts: how often pairs of items occurred together, a sparse matrix with the names of its rows and columns."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.errors import DataError, DataWarning
from latentfit.core.frames import (
    Columns,
    Roles,
    as_frame,
    column,
    columns_by_role,
    find_roles,
    index_names,
    is_numeric,
    reads_as_long,
)
from latentfit.core.kernels import BLOCK_ROWS, Floats
from latentfit.core.kernels.pair_rows import PairRows
from latentfit.core.matrix import read_named_matrix
from latentfit.core.names import (
    LARGEST_EXACT,
    GrowingNames,
    Names,
    are_words,
    decoded,
    encode,
    objects,
    plain,
    to_arrow,
)
from latentfit.core.numbers import as_numbers
from latentfit.io.scan import Scan


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


# -----------------------------------------------------------------------------
# Counts of pairs of codes, added as they come: every cell is held once, however many rows spoke of it.
#
# Whole numbers are added as int64, exactly. Fractions are added in the order of the rows, one after the other, so the
# sums have the same bits whether the rows came in one batch or in many.

Ints = NDArray[np.int64]

WAITING = 32 * BLOCK_ROWS
"""Rows that wait before they are added to the cells; more where there are more cells, so that adding stays linear."""


class CellTally:
    """A growing sparse matrix: cells (row code, column code) and their sums."""

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, np.int64)
        self._sums: NDArray[Any] = np.empty(0, np.int64)
        self._waiting: list[tuple[Ints, NDArray[Any]]] = []
        self._n_waiting = 0

    def add(self, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any] | None = None) -> None:
        """Add a value to each of some cells; None is one each. Rows that belong to no cell (-1) are left out."""
        named = (rows >= 0) & (columns >= 0)
        if not named.all():
            rows, columns, values = rows[named], columns[named], None if values is None else values[named]
        keys = rows.astype(np.int64) << np.int64(32) | columns.astype(np.int64)
        self._waiting.append((keys, np.ones(len(keys), np.int64) if values is None else _whole_if_exact(values)))
        self._n_waiting += len(keys)
        if self._n_waiting > max(WAITING, len(self._keys)):
            self._merge()

    def cells(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]:
        """Row codes, column codes and sums of all cells: int64 when every value was whole, else float64."""
        self._merge()
        return (self._keys >> 32).astype(np.int32), (self._keys & 0xFFFFFFFF).astype(np.int32), self._sums

    def _merge(self) -> None:
        keys = np.concatenate([self._keys, *(one for one, _ in self._waiting)])
        values = np.concatenate([self._sums, *(one for _, one in self._waiting)])  # float64 if any of them is
        self._waiting, self._n_waiting = [], 0
        if len(keys):
            self._keys, self._sums = added(keys, values)


def sparse_sums(
    rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """Values of the same cell added, as a sparse matrix; fractions in the order given, which scipy does not promise."""
    if values.dtype.kind == "f" and _whole_if_exact(values).dtype.kind == "f":
        keys, values = added(rows.astype(np.int64) << np.int64(32) | columns.astype(np.int64), values)
        rows, columns = keys >> 32, keys & 0xFFFFFFFF
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=shape).tocsr())


def added(keys: Ints, values: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Distinct keys in order, and the sums of their values, added in the order given."""
    order = np.argsort(keys, kind="stable")
    ordered, values = keys[order], values[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    if values.dtype.kind == "i":
        return ordered[new], np.add.reduceat(values, np.flatnonzero(new))
    return ordered[new], np.bincount(np.cumsum(new) - 1, values)  # one after the other, as they stand


def _whole_if_exact(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    if bool((np.abs(values) <= LARGEST_EXACT).all() and (values == np.floor(values)).all()):
        return values.astype(np.int64)
    return values.astype(np.float64)


# -----------------------------------------------------------------------------
# Whatever holds pair counts → `Counts`.
#
# Accepted: a scipy.sparse matrix, a dense matrix, a frame of pairs (two columns of ids, text or whole numbers, a third
# with counts if each pair is not one observation), a wide frame (pandas: its index names the rows; else a column of
# words), a tuple of columns ``(i, j)`` or ``(i, j, count)``, a list of pairs, an array of two columns of whole
# numbers, a `latentfit.scan` of files of pairs, whose counts are added batch by batch.
#
# Pairs or a matrix: two columns of whole numbers are pairs of ids, unless they are square; a matrix of two columns
# can be given as a sparse matrix or a frame whose index names the rows. Three columns of numbers may be either and
# are refused, unless a column is called count or they are square.
#
# Rules: counts of the same pair are added; a missing count is no count, and a pair with a missing name is left out
# (both with a `DataWarning` that says how many); negative and infinite counts are refused; fractional counts are
# weights. Rows and columns without counts are kept: an item that was named is an item of the answer.
#
# One list of items or two: columns of a frame share one list when their names say that both hold the same kind (source
# and target, word and context, item_1 and item_2) and at least half of the names of the side with fewer occur on the
# other side; customer and product never do, even if both are numbered from 1. Pairs without names of columns share it
# when at least half of the names of each side occur on the other.

ALIASES = {
    "row": ("i", "row", "source", "from", "left", "first", "word", "item", "item_1", "word_1"),
    "column": ("j", "column", "col", "target", "to", "right", "second", "context", "other", "item_2", "word_2"),
    "count": ("count", "counts", "n", "weight", "value", "frequency", "freq"),
}

SHARED_NAMES = 0.5
"""Proportion of the names of a side that must occur on the other side for the two to be one list of items."""
Titles = tuple[str, str] | None
"""What the two columns of pairs are called; None: they have no names."""


def read_counts(data: Any, *, columns: Columns = None, square: bool | None = None, what: str = "the counts") -> Counts:
    """Counts of any accepted kind.

    `columns` names the columns of a frame of pairs ({"row": …, "column": …, "count": …}); `square` says whether both
    columns of pairs name the same items (None: by their names).
    """
    if isinstance(data, Counts):
        return data
    if isinstance(data, Scan):
        return _from_scan(data, columns, square, what)
    if sp.issparse(data):
        return _from_matrix(data, None, None, what)
    if isinstance(data, Iterator):
        data = list(data)  # a generator of pairs
    if isinstance(data, tuple) and len(data) in (2, 3) and all(np.ndim(part) == 1 for part in data):
        return _from_pairs(data[0], data[1], data[2] if len(data) == 3 else None, square, what)
    if isinstance(data, list) and data and all(isinstance(pair, tuple) and len(pair) in (2, 3) for pair in data):
        counts = [pair[2] if len(pair) == 3 else 1 for pair in data] if any(len(pair) == 3 for pair in data) else None
        return _from_pairs([pair[0] for pair in data], [pair[1] for pair in data], counts, square, what)
    frame = as_frame(data)
    return _from_array(data, square, what) if frame is None else _from_frame(data, frame, columns, square, what)


def _from_array(data: Any, square: bool | None, what: str) -> Counts:
    try:
        values = np.asarray(data)
        if values.dtype.kind not in "biuf":
            values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{what} hold something that is no number; give a matrix of counts, or pairs as a frame with two columns"
        ) from None
    if values.ndim != 2:
        raise DataError(f"{what} have shape {values.shape}; give a matrix (row item, column item) or a frame of pairs")
    size, width = values.shape
    if width == 2 < size and _are_whole(values):
        counts = _from_pairs(values[:, 0], values[:, 1], None, square, what)
        return noted(counts, "the array of two columns of whole numbers was read as pairs (i, j)")
    if width == 3 < size and _are_whole(values):
        raise DataError(
            f"{what} are an array of shape {values.shape}, which may be i, j and count or a matrix of three columns; "
            "give the tuple (i, j, count), or scipy.sparse.csr_array of the matrix"
        )
    return _from_matrix(values, None, None, what)


def _are_whole(values: NDArray[Any]) -> bool:
    """Whether numbers can be ids; missing ones are asked no more."""
    if values.dtype.kind in "iu":
        return True
    return values.dtype.kind == "f" and bool((np.isnan(values) | (values == np.floor(values))).all())


def pair_columns(frame: Any, columns: Columns, what: str) -> tuple[Any, Any]:
    """The two columns of names of a frame of pairs; a frame that has none is refused."""
    names = [str(name) for name in frame.columns]
    roles = find_roles(names, ALIASES, columns)
    if not columns and _unsaid(roles, names):  # who asks for pairs has no matrix
        roles = _in_order(roles, [name for name in names if name != roles["count"]])
    lacking = [role for role in ("row", "column") if roles[role] is None]
    if lacking:
        raise DataError(f"{what} has no column for the {lacking[0]} item among {names}; call them row and column")
    parts = columns_by_role(frame, roles)
    return parts["row"], parts["column"]


def _roles(data: Any, frame: Any, columns: Columns, what: str) -> Roles | None:
    """Which column of a frame of pairs plays which role; None for a matrix (see the comment above)."""
    names = [str(name) for name in frame.columns]
    roles = find_roles(names, ALIASES, columns)
    if columns:
        return roles
    if _is_labelled_matrix(data, frame):
        return None
    long = reads_as_long(frame, roles, "row", "column")
    if not _unsaid(roles, names):
        if long is None and len(frame) != len(names):
            raise _either(names, what)
        return roles if long else None
    numbers = {name: not are_words(decoded(column(frame, frame.columns[at])).type) for at, name in enumerate(names)}
    ids = [name for name in names if name != roles["count"]]
    if not any(numbers[name] for name in ids[:2]):
        return _in_order(roles, ids)
    if not all(numbers.values()) or len(frame) == len(names):
        return None
    if not all(_are_ids(column(frame, frame.columns[names.index(name)])) for name in ids[:2]):
        return None
    if len(ids) != 2:
        raise _either(names, what)
    return _in_order(roles, ids)


def _either(names: list[str], what: str) -> DataError:
    return DataError(
        f"{what} have the columns {names}, all numbers, which may be pairs with a count or a matrix; for pairs name "
        'them in columns={"row": …, "column": …, "count": …}, for a matrix give an index with the names of the rows, '
        "or a sparse matrix"
    )


def _is_labelled_matrix(data: Any, frame: Any) -> bool:
    """Whether an index of words names the rows of numbers (pandas); an index of numbers is what filters leave."""
    index = index_names(data)
    if index is None or not all(isinstance(name, str) for name in index):
        return False
    return all(is_numeric(frame, at) for at in range(len(frame.columns)))


def _are_ids(array: Any) -> bool:
    """Whether a column of numbers holds whole ones alone."""
    array = decoded(array)
    if pa.types.is_floating(array.type):
        return _are_whole(np.asarray(array.to_numpy(zero_copy_only=False)))
    return bool(pa.types.is_integer(array.type))


def _unsaid(roles: Roles, names: list[Any]) -> bool:
    """Whether the columns may be pairs by their places alone."""
    return (roles["row"] is None or roles["column"] is None) and 2 <= len(names) <= 3


def _in_order(roles: Roles, ids: list[str]) -> Roles:
    """Row, column and count as they stand, the column of counts not among `ids`."""
    if len(ids) < 2:
        return roles
    row, col, *count = ids
    return {"row": row, "column": col, "count": roles["count"] or (count[0] if count else None)}


def _from_frame(data: Any, frame: Any, columns: Columns, square: bool | None, what: str) -> Counts:
    names = [str(name) for name in frame.columns]
    if not len(frame) or not names:
        raise DataError(f"{what} are a frame of {len(frame)} rows and {len(names)} columns; give at least one pair")
    roles = _roles(data, frame, columns, what)
    if roles is not None:
        lacking = next((role for role in ("row", "column") if roles[role] is None), None)
        if lacking is not None:
            raise DataError(f"{what} have no column for the {lacking} item among {names}; name it in columns=")
        parts = columns_by_role(frame, roles)
        counts = _from_pairs(parts["row"], parts["column"], parts.get("count"), square, what, _titles(roles))
        return noted(counts, _columns_note(roles, names))
    wide = read_named_matrix(data, what=f"the frame of {what}")
    rows = None if wide.row_names is None else np.array(wide.row_names, object)
    cols = np.array(wide.column_names, object if isinstance(wide.column_names[0], str) else None)
    return _from_matrix(wide.values, rows, cols, what)


def _titles(roles: Roles) -> Titles:
    return str(roles["row"]), str(roles["column"])


def _columns_note(roles: Roles, names: list[str]) -> str:
    """How the columns were read, and which were not used."""
    unused = [name for name in names if name not in roles.values()]
    counted = "" if roles["count"] is None else f" with counts in {roles['count']!r}"
    left = f"; not used: {', '.join(map(repr, unused))}" if unused else ""
    return f"columns {roles['row']!r} and {roles['column']!r} were read as pairs{counted}{left}"


def noted(counts: Counts, note: str) -> Counts:
    """The same counts with one more note for the report."""
    return replace(counts, notes=(note, *counts.notes))


def _from_pairs(row: Any, col: Any, count: Any, square: bool | None, what: str, titles: Titles = None) -> Counts:
    left, right = to_arrow(row, "row item"), to_arrow(col, "column item")
    if len(left) != len(right) or (count is not None and len(count) != len(left)):
        more = "" if count is None else f", {len(count)} counts"
        raise DataError(
            f"{what} must have one row item and one column item per pair, got {len(left)} row items and "
            f"{len(right)} column items{more}"
        )
    if not len(left):
        raise DataError(f"{what} hold no pair; give at least one")
    values, n_missing = (np.ones(len(left), np.int64), 0) if count is None else _count_values(count)
    _warn_left_out(n_missing, "pairs", "without a count, and were left out", what)
    coded = (*encode(left, "row item"), *encode(right, "column item"))
    named = (coded[0] >= 0) & (coded[2] >= 0)
    _warn_left_out(int((~named).sum()), "pairs", "without a name, and were left out", what)
    at = _first_wrong(values, named)
    if at is not None:
        raise _wrong_count(values[at], coded[1][coded[0][at]], coded[3][coded[2][at]], what)
    return _from_codes(coded[0][named], coded[1], coded[2][named], coded[3], values[named], square, what, titles)


def _from_scan(scan: Scan, columns: Columns, square: bool | None, what: str) -> Counts:
    """Pairs of files: coded with names that grow, their counts added batch by batch; never all rows in memory."""
    names = scan.first_names()
    roles = find_roles(names, ALIASES, columns)
    unsaid = not columns and _unsaid(roles, names)
    unnamed = [name for name in names if name != roles["count"]]
    roles = _in_order(roles, unnamed) if unsaid else roles
    lacking = next((role for role in ("row", "column") if roles[role] is None), None)
    if lacking is not None:
        raise DataError(f"{what} have no column for the {lacking} item among {names[:12]}; name it in columns=")
    left, right = GrowingNames("row item", scan.untyped), GrowingNames("column item", scan.untyped)
    tally, n_missing, behind = CellTally(), np.zeros(2, np.int64), 0
    for part in scan.columns_by_role(roles):
        rows, cols = left.code(part["row"]), right.code(part["column"])
        counts, uncounted = _count_values(part["count"], behind) if "count" in part else (None, 0)
        n_missing += int(((rows < 0) | (cols < 0)).sum()), uncounted
        at = None if counts is None else _first_wrong(counts, (rows >= 0) & (cols >= 0))
        if counts is not None and at is not None:
            (row_of, row_names), (col_of, column_names) = left.settled(), right.settled()
            raise _wrong_count(counts[at], row_names[row_of[rows[at]]], column_names[col_of[cols[at]]], what)
        tally.add(rows, cols, counts)
        behind += len(rows)
    for number, rule in zip(n_missing.tolist(), ("without a name", "without a count"), strict=True):
        _warn_left_out(number, "pairs", f"{rule}, and were left out", what)
    rows, cols, sums = tally.cells()
    (row_of, row_names), (col_of, column_names) = left.settled(), right.settled()
    words = all(len(found) and isinstance(found[0], str) for found in (row_names, column_names))
    if unsaid and len(unnamed) == 3 and not words:
        raise _either(names, what)
    found = _from_codes(row_of[rows], row_names, col_of[cols], column_names, sums, square, what, _titles(roles))
    return noted(found, _columns_note(roles, names))


def _from_codes(
    rows: NDArray[Any], row_names: Names, cols: NDArray[Any], column_names: Names, data: NDArray[Any],
    square: bool | None, what: str, titles: Titles,
) -> Counts:  # fmt: skip
    """Counts from codes of pairs that have both names; both sides under one list of items where they share it."""
    if _one_list(row_names, column_names, titles) if square is None else square:
        if _differ_in_type(row_names, column_names):
            row_names, column_names = (objects(map(str, names.tolist())) for names in (row_names, column_names))
        both = np.union1d(row_names, column_names)
        rows, cols = np.searchsorted(both, row_names)[rows], np.searchsorted(both, column_names)[cols]
        row_names = column_names = both
    shape = (len(row_names), len(column_names))
    return _from_matrix(sparse_sums(rows, cols, data, shape), row_names, column_names, what)


def _count_values(count: Any, before: int = 0) -> tuple[NDArray[Any], int]:
    """A column of counts, zero where one is missing, and how many are; so many rows came `before`."""
    array = decoded(to_arrow(count, "count"))
    if pa.types.is_integer(array.type) and not array.null_count:
        return np.asarray(array.to_numpy(zero_copy_only=False)), 0
    values = as_numbers(array, "the column of counts", "give how often each pair was seen", before)
    missing = np.isnan(values)
    return np.where(missing, 0.0, values), int(missing.sum())


def _first_wrong(values: NDArray[Any], named: NDArray[np.bool_]) -> int | None:
    """The first count of a named pair that is none; asked before counts are added, for -1 and 3 are not 2."""
    wrong = named & ((values < 0) | (values > LARGEST_EXACT))
    return int(wrong.argmax()) if wrong.any() else None


def _wrong_count(value: Any, row: Any, col: Any, what: str) -> DataError:
    kind = "a negative count" if value < 0 else "a count beyond 2^53"
    return DataError(
        f"{what} hold {value:g} for the pair {plain(row)!r}, {plain(col)!r}, {kind}; "
        "give how often each pair was seen, zero or more"
    )


def _from_matrix(data: Any, rows: Names | None, cols: Names | None, what: str) -> Counts:
    given: Any = data if sp.issparse(data) else np.asarray(data)
    matrix: Any = sp.csr_array(given)
    if 0 in matrix.shape:
        raise DataError(f"{what} have shape {matrix.shape}; give at least one row and one column")
    n_rows, n_columns = (int(size) for size in matrix.shape)
    if rows is None:
        rows = cols if cols is not None and len(cols) == n_rows else np.arange(n_rows)
    if cols is None:
        cols = rows if n_columns == n_rows else np.arange(n_columns)
    if getattr(given, "format", "") == "coo":  # may name a cell twice, and in `matrix` both are added
        _check_cells(given, rows, cols, what)
    return _finished(_checked_values(matrix, rows, cols, what), rows, cols)


def _check_cells(matrix: Any, rows: Names, cols: Names, what: str) -> None:
    cells = matrix.tocoo()
    at = _first_wrong(cells.data, np.ones(len(cells.data), bool)) if cells.data.dtype.kind in "biuf" else None
    if at is not None:
        raise _wrong_count(cells.data[at], rows[cells.row[at]], cols[cells.col[at]], what)


def _checked_values(matrix: Any, rows: Names, cols: Names, what: str) -> sp.csr_array:
    """Finite, nonnegative, whole as int64; stored zeros and duplicates gone. Never the caller's own arrays changed."""
    values = matrix.data
    if values.dtype.kind not in "biuf":
        raise DataError(f"{what} hold {values.dtype} values; give numbers")
    if values.dtype.kind == "f":
        n_missing = int(np.isnan(values).sum())
        if n_missing:
            _warn_left_out(n_missing, "cells", "missing, and were taken as no count", what)
            values = np.where(np.isnan(values), 0.0, values)
    if len(values) and (values.min() < 0 or values.max() > LARGEST_EXACT):
        _check_cells(matrix, rows, cols, what)
    integral = values.dtype.kind != "f" or bool((values == np.floor(values)).all())
    checked = sp.csr_array(
        (values.astype(np.int64 if integral else np.float64), matrix.indices, matrix.indptr), matrix.shape
    )
    if not checked.has_canonical_format:
        checked = checked.copy()
        checked.sum_duplicates()
    if (checked.data == 0).any():
        checked = checked.copy()
        checked.eliminate_zeros()
    if not checked.nnz:
        raise DataError(f"{what} of {matrix.shape[0]} × {matrix.shape[1]} items are all zero; give at least one pair")
    return checked


def _finished(matrix: sp.csr_array, rows: Names, cols: Names) -> Counts:
    agree = same_names(rows, cols)
    return Counts(matrix, rows, rows if agree else cols, agree and _is_symmetric(matrix))


def _is_symmetric(matrix: sp.csr_array) -> bool:
    """Exactly, cheapest question first; a diagonal matrix says nothing about both ways, and counts as not."""
    sums = [np.asarray(matrix.sum(axis=axis)).reshape(-1) for axis in (1, 0)]
    if not np.allclose(sums[0], sums[1], rtol=1e-12, atol=0) or np.array_equal(sums[0], matrix.diagonal()):
        return False
    turned = sp.csr_array(matrix.T)
    turned.sort_indices()
    same_places = np.array_equal(matrix.indptr, turned.indptr) and np.array_equal(matrix.indices, turned.indices)
    return same_places and np.array_equal(matrix.data, turned.data)


def _differ_in_type(rows: Names, cols: Names) -> bool:
    """Whether one side holds text and the other numbers."""
    return len(rows) > 0 and len(cols) > 0 and isinstance(rows[0], str) != isinstance(cols[0], str)


def _one_list(rows: Names, cols: Names, titles: Titles) -> bool:
    if not len(rows) or not len(cols) or _differ_in_type(rows, cols):
        return False
    if titles is not None and not _same_kind(*titles):
        return False
    shared = len(np.intersect1d(rows, cols))
    return shared >= SHARED_NAMES * (max if titles is None else min)(len(rows), len(cols))


def _same_kind(row: str, col: str) -> bool:
    """Whether the names of two columns say that both hold one kind of item: known as such, or alike but for an end."""
    row, col = row.strip().lower(), col.strip().lower()
    if row in ALIASES["row"] and col in ALIASES["column"]:
        return True
    stems = [re.sub(r"^(source|target|from|to)_|[ _.]?(\d+|[abijlrxy])$", "", name) for name in (row, col)]
    return stems[0] == stems[1] and stems[0] != ""


def _warn_left_out(number: int, things: str, rule: str, what: str) -> None:
    if number:
        warnings.warn(f"{number} {things} of {what} are {rule}", DataWarning, stacklevel=5)
