"""Whatever holds pair counts → `Counts`: a sparse matrix with the names of its rows and columns.

Accepted: a scipy.sparse matrix, a dense matrix, a frame of pairs (two columns of names, a third with counts if each
pair is not one observation), a wide frame (pandas: its index names the rows; else a column of words), a tuple of
columns ``(i, j)`` or ``(i, j, count)``, a list of pairs, a `tacit.scan` of files of pairs, whose counts are added
batch by batch.

Rules: counts of the same pair are added; a missing count is no count, and a pair with a missing name is left out (both
with a `DataWarning` that says how many); negative and infinite counts are refused; fractional counts are weights where
the caller allows them. Rows and columns without counts are kept: an item that was named is an item of the answer. Pairs
share one list of items when at least half of the names of the side that has fewer occur on the other side too.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from tacit.data.frames import as_frame, column, find_column
from tacit.data.growing_names import GrowingNames
from tacit.data.named_matrix import read_named_matrix
from tacit.data.names import Names, encode, match, to_arrow
from tacit.data.tally import CellTally, sparse_sums
from tacit.errors import DataError, DataWarning
from tacit.io.scan import Scan
from tacit.kernels.pair_rows import PairRows

Floats = NDArray[np.float64]
Columns = Mapping[str, str] | None

ALIASES = {
    "row": ("i", "row", "source", "from", "left", "first", "word", "item", "item_1", "word_1", "a"),
    "column": ("j", "column", "col", "target", "to", "right", "second", "context", "other", "item_2", "word_2", "b"),
    "count": ("count", "counts", "n", "weight", "value", "frequency", "freq"),
}

LARGEST_COUNT = 2.0**53
"""Above it a float64 no longer holds every whole number, and sums would be wrong without a word."""

SHARED_NAMES = 0.5
"""Share of the names of the side with fewer that must occur on the other side for the two to be one list of items."""


@dataclass(frozen=True)
class Counts:
    """How often row item i occurred with column item j; int64 when counts are whole, float64 when they are weights."""

    matrix: sp.csr_array  # (rows, columns), no stored zeros, sorted indices
    row_names: Names
    column_names: Names
    symmetric: bool  # the matrix equals its transpose: every pair was counted both ways

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
        rows, columns = self.row_names, self.column_names
        return rows is columns or (len(rows) == len(columns) and bool(np.array_equal(rows, columns)))

    def symmetrised(self) -> Counts:
        """Every pair both ways: C + Cᵀ, or itself when it is symmetric already."""
        if self.symmetric:
            return self
        both = sp.csr_array(self.matrix + self.matrix.T)
        both.sort_indices()
        return replace(self, matrix=both, symmetric=True)


def read_counts(
    data: Any, *, columns: Columns = None, square: bool | None = None, whole: bool = False, what: str = "the counts"
) -> Counts:
    """Counts of any accepted kind.

    `columns` names the columns of a frame of pairs ({"row": …, "column": …, "count": …}); `square` says whether both
    columns of pairs name the same items (None: by their names); `whole` refuses fractional counts.
    """
    if isinstance(data, Counts):
        counts = data
    elif isinstance(data, Scan):
        counts = _from_scan(data, columns, square, what)
    elif sp.issparse(data):
        counts = _from_matrix(data, None, None, what)
    elif isinstance(data, tuple) and len(data) in (2, 3) and all(np.ndim(part) == 1 for part in data):
        counts = _from_pairs(data[0], data[1], data[2] if len(data) == 3 else None, square, what)
    elif isinstance(data, list) and data and all(isinstance(pair, tuple) and len(pair) in (2, 3) for pair in data):
        parts = [list(part) for part in zip(*data, strict=False)]
        counts = _from_pairs(parts[0], parts[1], parts[2] if len(data[0]) == 3 else None, square, what)
    else:
        frame = as_frame(data)
        counts = _from_array(data, what) if frame is None else _from_frame(data, frame, columns, square, what)
    if whole and not counts.whole:
        at = counts.matrix.tocoo()
        first = int(np.flatnonzero(at.data != np.floor(at.data))[0])
        row, col = _plain(counts.row_names[at.row[first]]), _plain(counts.column_names[at.col[first]])
        raise DataError(
            f"{what} hold {at.data[first]:g} for the pair {row!r}, {col!r}, and a count is a whole number; "
            "give the counts themselves, not shares or averages of them"
        )
    return counts


def match_counts(data: Any, row_names: Names, column_names: Names, *, what: str = "the counts") -> Counts:
    """Counts of new data under known names; pairs with an unknown name are left out with a `DataWarning`."""
    new = read_counts(data, what=what)
    rows, cols = (
        match(found, known, "item") if found is not known else np.arange(len(known), dtype=np.int32)
        for found, known in ((new.row_names, row_names), (new.column_names, column_names))
    )
    at = new.matrix.tocoo()
    keep = (rows[at.row] >= 0) & (cols[at.col] >= 0)
    if not keep.all():
        warnings.warn(
            f"{int((~keep).sum())} pairs of {what} name an item that the fit has not seen, and were left out",
            DataWarning,
            stacklevel=3,
        )
    shape = (len(row_names), len(column_names))
    known = sp.coo_array((at.data[keep], (rows[at.row[keep]], cols[at.col[keep]])), shape=shape)
    return _finished(known.tocsr(), row_names, column_names)


def _from_array(data: Any, what: str) -> Counts:
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
    return _from_matrix(values, None, None, what)


def pair_columns(frame: Any, columns: Columns, what: str = "the pairs") -> tuple[Any, Any]:
    """The two columns of names of a frame of pairs; a frame that has none is refused."""
    roles = _roles(frame, columns)
    names = [str(name) for name in frame.columns]
    lacking = [role for role in ("row", "column") if roles[role] is None]
    if lacking:
        raise DataError(f"{what} has no column for the {lacking[0]} item among {names}; call them row and column")
    left, right = (column(frame, frame.columns[names.index(str(roles[role]))]) for role in ("row", "column"))
    return left, right


def _roles(frame: Any, columns: Columns) -> dict[str, str | None]:
    """Which column of a frame plays which role, None where no column does."""
    names = list(frame.columns)
    words = [str(name) for name in names]
    roles = _named_roles(words, columns)
    unsaid = roles["row"] is None and roles["column"] is None
    if unsaid and 2 <= len(names) <= 3 and all(_words(column(frame, name)) for name in names[:2]):
        # two columns of words are pairs whatever they are called; two columns of numbers are a matrix
        roles["row"], roles["column"] = words[0], words[1]
        roles["count"] = roles["count"] or (words[2] if len(words) == 3 else None)
    return roles


def _named_roles(names: list[str], columns: Columns) -> dict[str, str | None]:
    """Roles that the names of columns tell."""
    given = dict(columns or {})
    unknown = sorted(set(given) - set(ALIASES))
    if unknown:
        raise DataError(f"columns= names the role {unknown[0]!r}; the roles are {', '.join(ALIASES)}")
    return {role: find_column(names, role, ALIASES[role], given.get(role)) for role in ALIASES}


def _from_frame(data: Any, frame: Any, columns: Columns, square: bool | None, what: str) -> Counts:
    names = list(frame.columns)
    if not len(frame) or not names:
        raise DataError(f"{what} are a frame of {len(frame)} rows and {len(names)} columns; give at least one pair")
    roles, words = _roles(frame, columns), [str(name) for name in names]
    if roles["row"] is not None and roles["column"] is not None:
        parts = [column(frame, names[words.index(str(roles[role]))]) for role in ("row", "column")]
        count = None if roles["count"] is None else column(frame, names[words.index(roles["count"])])
        return _from_pairs(parts[0], parts[1], count, square, what)
    if columns:
        lacking = next(role for role in ("row", "column") if roles[role] is None)
        raise DataError(f"{what} have no column for the {lacking} item among {words}; name it in columns=")
    wide = read_named_matrix(data, what=what)
    rows = None if wide.row_names is None else np.array(wide.row_names, object)
    gaps = int(np.isnan(wide.values).sum())
    _tell_gaps(gaps, "cells", "missing, and were taken as no count", what)
    values = np.nan_to_num(wide.values, nan=0.0)
    if rows is None and len(wide.column_names) == len(values):
        rows = np.array(wide.column_names, object if isinstance(wide.column_names[0], str) else None)
    cols = np.array(wide.column_names, object if isinstance(wide.column_names[0], str) else None)
    return _from_matrix(values, rows, cols, what)


def _from_pairs(row: Any, col: Any, count: Any, square: bool | None, what: str) -> Counts:
    left, right = to_arrow(row, "row item"), to_arrow(col, "column item")
    if len(left) != len(right) or (count is not None and len(count) != len(left)):
        raise DataError(f"{what} have {len(left)} row items and {len(right)} column items; give one of each per pair")
    if not len(left):
        raise DataError(f"{what} hold no pair; give at least one")
    values = None if count is None else _count_column(count, what)
    coded = (*encode(left, "row item"), *encode(right, "column item"))
    named = (coded[0] >= 0) & (coded[2] >= 0)
    _tell_gaps(int((~named).sum()), "pairs", "without a name, and were left out", what)
    data = np.ones(len(left), np.int64) if values is None else values
    return _from_codes(coded[0][named], coded[1], coded[2][named], coded[3], data[named], square, what)


def _from_scan(scan: Scan, columns: Columns, square: bool | None, what: str) -> Counts:
    """Pairs of files: coded with names that grow, their counts added batch by batch; never all rows in memory."""
    names = scan.first_names()
    roles = _named_roles(names, columns)
    unsaid = roles["row"] is None and roles["column"] is None and not columns
    if unsaid and 2 <= len(names) <= 3:
        roles["row"], roles["column"] = names[0], names[1]
        roles["count"] = roles["count"] or (names[2] if len(names) == 3 else None)
    lacking = next((role for role in ("row", "column") if roles[role] is None), None)
    if lacking is not None:
        raise DataError(f"{what} have no column for the {lacking} item among {names[:12]}; name it in columns=")
    left, right = GrowingNames("row item", scan.untyped), GrowingNames("column item", scan.untyped)
    tally, gaps = CellTally(), np.zeros(2, np.int64)
    for part in scan.columns_by_role(roles):
        rows, cols = left.code(part["row"]), right.code(part["column"])
        counts, uncounted = _count_values(part["count"], what) if "count" in part else (None, 0)
        gaps += int(((rows < 0) | (cols < 0)).sum()), uncounted
        tally.add(rows, cols, counts)
    for number, rule in zip(gaps.tolist(), ("without a name", "without a count"), strict=True):
        _tell_gaps(number, "pairs", f"{rule}, and were left out", what)
    rows, cols, sums = tally.cells()
    (row_of, row_names), (col_of, column_names) = left.settled(), right.settled()
    if unsaid and not all(len(found) and isinstance(found[0], str) for found in (row_names, column_names)):
        raise DataError(f"{what} have the columns {names}, which may be pairs or a matrix; name two in columns=")
    return _from_codes(row_of[rows], row_names, col_of[cols], column_names, sums, square, what)


def _from_codes(
    rows: NDArray[Any], row_names: Names, cols: NDArray[Any], column_names: Names, data: NDArray[Any],
    square: bool | None, what: str,
) -> Counts:  # fmt: skip
    """Counts from codes of pairs that have both names; both sides under one list of items where they share it."""
    if _one_list(row_names, column_names) if square is None else square:
        both = _joined(row_names, column_names)
        rows, cols = (
            np.searchsorted(both, _like(names, both))[codes]
            for names, codes in ((row_names, rows), (column_names, cols))
        )
        row_names = column_names = both
    shape = (len(row_names), len(column_names))
    return _from_matrix(sparse_sums(rows, cols, data, shape), row_names, column_names, what)


def _count_column(count: Any, what: str) -> NDArray[Any]:
    values, gaps = _count_values(count, what)
    _tell_gaps(gaps, "pairs", "without a count, and were left out", what)
    return values


def _count_values(count: Any, what: str) -> tuple[NDArray[Any], int]:
    """A column of counts, zero where one is missing, and how many are."""
    array = to_arrow(count, "count")
    if isinstance(array.type, pa.DictionaryType):  # words of a file that is read in batches
        array = array.cast(array.type.value_type)
    try:
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.int64())
        if array.null_count or not pa.types.is_integer(array.type):
            array = array.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{what} hold something that is no number in the column of counts; give numbers") from None
    gaps = array.null_count + int(pc.sum(pc.is_nan(array)).as_py() or 0) if pa.types.is_floating(array.type) else 0
    filled = pc.fill_null(array, 0) if array.null_count else array
    values = np.asarray(filled.to_numpy(zero_copy_only=False))
    whole = values.dtype.kind in "iu"
    return values if whole else np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf), gaps


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
    return _finished(_checked_values(matrix, rows, cols, what), rows, cols)


def _checked_values(matrix: Any, rows: Names, cols: Names, what: str) -> sp.csr_array:
    """Finite, nonnegative, whole as int64; stored zeros and duplicates gone. Never the caller's own arrays changed."""
    values = matrix.data
    if values.dtype.kind not in "biuf":
        raise DataError(f"{what} hold {values.dtype} values; give numbers")
    if values.dtype.kind == "f":
        gaps = int(np.isnan(values).sum())
        if gaps:
            _tell_gaps(gaps, "cells", "missing, and were taken as no count", what)
            values = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
    if len(values) and (values.min() < 0 or values.max() > LARGEST_COUNT):
        coo = matrix.tocoo()
        first = int(np.flatnonzero((coo.data < 0) | (coo.data > LARGEST_COUNT))[0])
        row, col = _plain(rows[coo.row[first]]), _plain(cols[coo.col[first]])
        kind = "a negative count" if coo.data[first] < 0 else "a count beyond 2^53"
        raise DataError(
            f"{what} hold {coo.data[first]:g} for the pair {row!r}, {col!r}, {kind}; "
            "give how often each pair was seen, zero or more"
        )
    whole = values.dtype.kind != "f" or bool((values == np.floor(values)).all())
    kept = sp.csr_array((values.astype(np.int64 if whole else np.float64), matrix.indices, matrix.indptr), matrix.shape)
    if not kept.has_canonical_format:
        kept = kept.copy()
        kept.sum_duplicates()
    if (kept.data == 0).any():
        kept = kept.copy()
        kept.eliminate_zeros()
    if not kept.nnz:
        raise DataError(f"{what} of {matrix.shape[0]} × {matrix.shape[1]} items are all zero; give at least one pair")
    return kept


def _finished(matrix: sp.csr_array, rows: Names, cols: Names) -> Counts:
    names_agree = rows is cols or (len(rows) == len(cols) and bool(np.array_equal(rows, cols)))
    return Counts(matrix, rows, rows if names_agree else cols, names_agree and _is_symmetric(matrix))


def _is_symmetric(matrix: sp.csr_array) -> bool:
    """Exactly, cheapest question first; a diagonal matrix says nothing about both ways, and counts as not."""
    sums = [np.asarray(matrix.sum(axis=axis)).reshape(-1) for axis in (1, 0)]
    if not np.allclose(sums[0], sums[1], rtol=1e-12, atol=0) or np.array_equal(sums[0], matrix.diagonal()):
        return False
    turned = sp.csr_array(matrix.T)
    turned.sort_indices()
    same_places = np.array_equal(matrix.indptr, turned.indptr) and np.array_equal(matrix.indices, turned.indices)
    return same_places and np.array_equal(matrix.data, turned.data)


def _one_list(rows: Names, cols: Names) -> bool:
    if not len(rows) or not len(cols) or isinstance(rows[0], str) != isinstance(cols[0], str):
        return False
    return len(np.intersect1d(rows, cols)) >= SHARED_NAMES * min(len(rows), len(cols))


def _joined(rows: Names, cols: Names) -> Names:
    if len(rows) and len(cols) and isinstance(rows[0], str) != isinstance(cols[0], str):
        rows, cols = (np.array([str(name) for name in names.tolist()], object) for names in (rows, cols))
    return np.union1d(rows, cols)


def _like(names: Names, both: Names) -> Names:
    if len(both) and isinstance(both[0], str) and len(names) and not isinstance(names[0], str):
        return np.array([str(name) for name in names.tolist()], object)
    return names


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def _words(array: Any) -> bool:
    kind = array.type.value_type if isinstance(array.type, pa.DictionaryType) else array.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _tell_gaps(number: int, things: str, rule: str, what: str) -> None:
    if number:
        warnings.warn(f"{number} {things} of {what} are {rule}", DataWarning, stacklevel=5)
