"""Whatever holds real numbers, samples × features → `Matrix`: frames of any kind, arrays, lists.

Every cell must be a finite number, or missing where the caller allows it (NaN); text that spells a number is a number,
since CSV files deliver decimals as text. Constant features carry no information and are set aside with a
warning. Rows have no names, for they may be more than memory holds (`core/matrix.py`); named rows are a
`NamedMatrix`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError, DataWarning, nearest
from latentfit.core.frames import as_frame, column, index_names
from latentfit.core.kernels import BLOCK_ROWS, Floats
from latentfit.core.names import are_words, decoded, repeated, warn_row_names
from latentfit.core.numbers import as_numbers, worth_of
from latentfit.core.sampling import numbered_apart, scramble
from latentfit.engine.flat_file import FileHandle, fill_from, store_rows, store_temporarily, write_flat
from latentfit.io.scan import Scan, whole

SMALLEST, LARGEST = 1e-90, 1e90
"""Third moments of larger values overflow, those of smaller ones vanish."""
LEAST_COUNTED = 20
"""Rows from which numbers that grow by one are row numbers."""
SHOWN = 5
"""Names a message lists at most."""


@dataclass(frozen=True)
class Matrix:
    """Real rows (samples, features) with the features' names."""

    values: Floats
    names: tuple[str | int, ...]

    @property
    def n_rows(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    @property
    def first(self) -> Floats:
        """The first row; where a value is missing, the least of its feature."""
        least = np.fmin.reduce(self.values, axis=0)
        return np.asarray(np.where(np.isnan(self.values[0]), least, self.values[0]))

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """Which features change at all."""
        return np.asarray(np.fmax.reduce(self.values, axis=0) > np.fmin.reduce(self.values, axis=0))

    @cached_property
    def has_missing(self) -> bool:
        """Whether a value is missing."""
        return bool(np.isnan(self.values).any())

    def values_of(self, begin: int, end: int) -> Floats:
        """Rows of a range."""
        return self.values[begin:end]

    def hashes(self, seed: int, block: int = BLOCK_ROWS) -> NDArray[np.uint64]:
        """One number per row from what it says; equal rows are numbered apart within their block."""
        blocks = [hash_rows(self.values[at : at + block], seed) for at in range(0, self.n_rows, block)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.uint64)

    def take_features(self, used: NDArray[np.bool_]) -> Matrix:
        """Some of the features."""
        names = tuple(name for name, keep in zip(self.names, used.tolist(), strict=True) if keep)
        return Matrix(np.ascontiguousarray(self.values[:, used]), names)


def hash_rows(values: Floats, seed: int) -> NDArray[np.uint64]:
    """One number per row from what it says, equal rows numbered apart; the order of features does not matter."""
    content = np.zeros(len(values), np.uint64)
    for n in range(values.shape[1]):
        content += scramble(cell_bits(values[:, n]), seed)  # wraps around, exactly
    return numbered_apart(content, seed)


def cell_bits(column: Floats) -> NDArray[np.uint64]:
    """The bits of numbers: 0 and −0 have the same, and so has every NaN."""
    cells = np.ascontiguousarray(column + 0.0)
    cells[np.isnan(cells)] = np.nan
    return cells.view(np.uint64)


def read_matrix(data: Any, *, missing: bool = False) -> Matrix:
    """A matrix of finite numbers from a frame or an array; with `missing` cells may be NaN."""
    frame = as_frame(data)
    if frame is None:
        values = np.asarray(data, np.float64)
        names: tuple[str | int, ...] = tuple(range(values.shape[1]))
    else:
        names = tuple(frame.columns)
        values = frame_values(data, names)
    check_values(values, names, missing=missing)
    check_largest(float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0)))
    return Matrix(np.ascontiguousarray(values), names)


def frame_values(data: Any, names: tuple[str | int, ...], before: int = 0) -> Floats:
    """The columns of a frame as numbers (rows, features); so many rows came `before` these."""
    frame = as_frame(data)
    advice = "leave it out, or give --id {} if it names the rows"
    numbers = [
        as_numbers(column(frame, name), f"feature {name!r}", advice.format(quote(str(name))), before) for name in names
    ]
    return np.stack(numbers, axis=1) if numbers else np.empty((len(frame), 0))  # type: ignore[arg-type]


def check_values(
    values: Floats, names: tuple[str | int, ...], before: int | None = None, *, missing: bool = False
) -> None:
    """Every cell must be a finite number, or NaN with `missing`.

    So many rows came `before` these; None: these are all.
    """
    if values.shape[1] == 0:
        raise DataError("the data has no features; give at least one column of numbers")
    bad = np.isinf(values) if missing else ~np.isfinite(values)
    if bad.any():
        row, at = (int(index[0]) for index in np.nonzero(bad))
        count = "" if before is not None else f", {int(bad.sum())} such cells in all"
        position = f"row {(before or 0) + row + 1}{count}"
        if np.isnan(values[row, at]):
            raise DataError(
                f"feature {names[at]!r} holds a missing value (NaN) in {position}; give engine='memory' "
                "(--engine memory), or leave these rows out"
            )
        raise DataError(f"feature {names[at]!r} holds inf in {position}; leave these rows out")


def check_largest(largest: float) -> None:
    """Third powers of the largest value must be numbers."""
    if largest and not SMALLEST < largest < LARGEST:
        raise DataError(f"the largest value is {largest:g}, whose third power over- or underflows; give other units")


def warn_row_numbers(matrix: AnyMatrix) -> None:
    """Warn of a feature that counts the rows: the index that another program wrote."""
    if not isinstance(matrix, Matrix) or matrix.n_rows < LEAST_COUNTED:  # of rows in a file only the names are at hand
        return
    for at in np.flatnonzero((np.diff(matrix.values, axis=0) == 1).all(axis=0)).tolist():
        warn_row_names("feature", matrix.names[at], "counts the rows", stacklevel=5)


def varying_features(matrix: AnyMatrix) -> NDArray[np.bool_]:
    """Which features change at all; those that do not are named in a warning."""
    varies, empty = matrix.varies, np.isnan(matrix.first)
    if empty.all():
        raise DataError(f"none of the {matrix.n_features} features holds a value; give at least one column of numbers")
    if not varies.any():
        raise DataError(
            f"all {matrix.n_features} features are the same in all {matrix.n_rows} rows; give rows that differ"
        )
    warn_row_numbers(matrix)
    for marked, what in ((empty, "hold no value"), (~varies & ~empty, "never change")):
        if marked.any():
            warnings.warn(
                f"{marked.sum()} features {what} ({_listed(matrix.names, marked)}); they were set aside and weigh 0 in "
                "every switch",
                DataWarning,
                stacklevel=4,
            )
    return np.asarray(varies)


def _listed(names: tuple[str | int, ...], marked: NDArray[np.bool_]) -> str:
    """Some of the marked names."""
    some = [str(names[at]) for at in np.flatnonzero(marked).tolist()]
    return ", ".join(some[:SHOWN]) + (", …" if len(some) > SHOWN else "")


# -----------------------------------------------------------------------------
# StoredMatrix: real rows in a flat file, read block by block into one buffer; what is larger than memory.
#
# The file (`engine/flat_file.py`) has the features' names, the number of rows, which features change at all and the
# first row in its header, then the rows as float64. It has the interface of `Matrix` that a pass over the rows needs.

FORMAT, ENDING = 1, "rows"
DIGITS = 15
"""Digits that the number of rows has in the header: its length is fixed before the rows are counted."""


@dataclass(frozen=True, eq=False)
class StoredMatrix:
    """Real rows on disk; `used` marks the features that are read."""

    path: Path
    offset: int
    n_rows: int
    all_names: tuple[str | int, ...]
    all_varies: NDArray[np.bool_]
    all_first: Floats
    used: NDArray[np.bool_]
    handle: FileHandle | None = None

    @property
    def names(self) -> tuple[str | int, ...]:
        return tuple(name for name, keep in zip(self.all_names, self.used.tolist(), strict=True) if keep)

    @property
    def n_features(self) -> int:
        return int(self.used.sum())

    @property
    def first(self) -> Floats:
        return np.asarray(self.all_first[self.used])

    @property
    def varies(self) -> NDArray[np.bool_]:
        return np.asarray(self.all_varies[self.used])

    def values_of(self, begin: int, end: int) -> Floats:
        """Rows of a range, fresh from the file."""
        rows = np.empty((end - begin, len(self.used)))
        fill_from(self.path, self.offset + begin * rows.strides[0], rows)
        return rows if self.used.all() else np.ascontiguousarray(rows[:, self.used])

    def take_features(self, used: NDArray[np.bool_]) -> StoredMatrix:
        """Some of the features; the file stays as it is."""
        both = self.used.copy()
        both[both] = used
        return replace(self, used=both)

    def loaded(self) -> Matrix:
        """All rows in memory."""
        blocks = [self.values_of(at, min(at + BLOCK_ROWS, self.n_rows)) for at in range(0, self.n_rows, BLOCK_ROWS)]
        return Matrix(np.concatenate(blocks), self.names)


AnyMatrix = Matrix | StoredMatrix
"""Real rows in memory or in a file."""


def store_scan(scan: Scan) -> StoredMatrix:
    """The files' rows as numbers in a flat file: in the scan's cache, where a second run finds it, or for this run."""

    return store_rows(
        scan.cache, lambda: f"matrix {FORMAT}\0{scan.fingerprint()}", ENDING, FORMAT, _revived,
        lambda path, key: _write(path, key, _scanned(scan)),
    )  # fmt: skip


def store_matrix(matrix: Matrix) -> StoredMatrix:
    """Rows from memory in a flat file, for this run only."""
    cuts = range(0, matrix.n_rows, BLOCK_ROWS)
    return store_blocks(matrix.names, (matrix.values[at : at + BLOCK_ROWS] for at in cuts))


def store_blocks(names: tuple[str | int, ...], blocks: Iterator[Floats]) -> StoredMatrix:
    """Rows that come block by block in a flat file, for this run only."""
    named = ((names, block) for block in blocks)
    return store_temporarily(lambda path, key: _write(path, key, named), ENDING)


Named = tuple[tuple[str | int, ...], Floats]


def _scanned(scan: Scan) -> Iterator[Named]:
    n_before, largest = 0, 0.0
    for batch in scan.batches():
        names = tuple(batch.schema.names)
        values = frame_values(pa.Table.from_batches([batch]), names, before=n_before)
        check_values(values, names, before=n_before)
        largest = max(largest, float(np.abs(values).max(initial=0.0)))
        n_before += len(values)
        yield names, values
    if not n_before:
        raise DataError("the files hold no rows; give at least one")
    check_largest(largest)


def _write(path: Path, key: str, blocks: Iterator[Named]) -> StoredMatrix:
    """The header is made before the rows are known, with room for what is known after the last row."""
    names, beginning = next(blocks)
    first, varies, n_rows = beginning[:1].copy(), np.zeros(len(names), bool), 0
    facts = {"format": FORMAT, "key": key, "names": list(names), "first": first.tobytes().hex()}
    facts |= _row_facts(varies, n_rows)

    def pieces() -> Iterator[Floats]:
        nonlocal varies, n_rows
        for _, block in chain([(names, beginning)], blocks):
            varies |= (block != first).any(axis=0)
            n_rows += len(block)
            facts.update(_row_facts(varies, n_rows))
            yield block

    offset = write_flat(path, facts, pieces())
    return StoredMatrix(path, offset, n_rows, names, varies, first[0], np.ones(len(names), bool))


def _row_facts(varies: NDArray[np.bool_], n_rows: int) -> dict[str, str]:
    """What is known when all rows were seen, in texts of a length that is known before."""
    return {"varies": "".join("01"[one] for one in varies.tolist()), "n_rows": f"{n_rows:0{DIGITS}d}"}


def _revived(path: Path, offset: int, facts: dict[str, Any]) -> StoredMatrix:
    names, varies = tuple(facts["names"]), np.array([one == "1" for one in facts["varies"]])
    first = np.frombuffer(bytes.fromhex(facts["first"]), np.float64)
    return StoredMatrix(path, offset, int(facts["n_rows"]), names, varies, first, np.ones(len(names), bool))


# -----------------------------------------------------------------------------
# Whatever holds numbers → `NamedMatrix`: rows and columns with their names, a missing value is NaN.
#
# A frame may name its rows: pandas by its index, any frame by one text column. All other columns must be numbers
# (also spelled as text, since CSV files deliver decimals as text); nulls and NaN are missing values, infinite numbers
# are refused.
# It is no `Matrix` (`core/matrix.py`): there every cell is a number, and rows may be in a file without names.


@dataclass(frozen=True)
class NamedMatrix:
    """Numbers (row, column), NaN a missing value; `row_names` is None where rows have none."""

    values: Floats
    row_names: tuple[str, ...] | None
    column_names: tuple[str | int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    @property
    def transposed(self) -> NamedMatrix:
        """Rows for columns; rows without names are counted."""
        names = self.row_names if self.row_names is not None else tuple(range(len(self.values)))
        rows = tuple(str(name) for name in self.column_names)
        return NamedMatrix(np.ascontiguousarray(self.values.T), rows, names)

    def take_columns(self, at: NDArray[np.intp]) -> NamedMatrix:
        names = tuple(self.column_names[n] for n in at.tolist())
        return replace(self, values=np.ascontiguousarray(self.values[:, at]), column_names=names)


def read_named_matrix(data: Any, *, name_column: str | None = None, what: str = "the table") -> NamedMatrix:
    """A matrix of numbers; `name_column` holds the names of the rows, found by itself when not said."""
    if isinstance(data, NamedMatrix):
        return _checked(data, what)
    frame = as_frame(data)
    if frame is None:
        return _read_array(data, what)
    plain = _plain_pandas(data) if name_column is None else None
    if plain is not None:
        return _checked(plain, what)
    columns = list(frame.columns)
    if not columns or not len(frame):
        raise DataError(f"{what} has {len(frame)} rows and {len(columns)} columns; give at least one of each")
    arrays = {name: column(frame, name) for name in columns}
    if name_column is not None and name_column not in arrays:
        hint = nearest(name_column, columns, "it has")
        raise DataError(f"{what} has no column {name_column!r} that could name its rows; {hint}")
    text_columns = [name for name, array in arrays.items() if name == name_column or _is_text(array)]
    named = name_column if name_column is not None else text_columns[0] if text_columns else None
    if len(text_columns) > 1:
        second = next(name for name in text_columns if name != named)
        raise DataError(f"{what} has text in column {second!r}, and only one column may name the rows; leave it out")
    names = _named(data) if named is None else _row_names(arrays.pop(named), named, what)
    if not arrays:
        raise DataError(f"{what} has no column of numbers beside {named!r}; give at least one")
    values = np.column_stack(
        [as_numbers(array, f"column {name!r} of {what}", "leave the column out") for name, array in arrays.items()]
    )
    return _checked(NamedMatrix(values, names, tuple(arrays)), what)


def read_unit_interval(data: Any, what: str, name_column: str | None = None) -> NamedMatrix:
    """A matrix whose values lie in [0, 1]; `name_column` holds the names of the rows."""
    matrix = read_named_matrix(whole(data), name_column=name_column, what=what)
    outside = (matrix.values < 0) | (matrix.values > 1)
    if outside.any():
        row, at = np.argwhere(outside)[0]
        raise DataError(
            f"{what} holds {matrix.values[row, at]:g} in column {matrix.column_names[at]!r}, row {row + 1}; "
            "values must lie between 0 and 1: divide percents by 100, turn M-values into beta values"
        )
    return matrix


def match_columns(matrix: NamedMatrix, names: Sequence[str | int], what: str) -> NamedMatrix:
    """The columns of that name, in that order; numbered columns are those at that place."""
    if names == matrix.column_names:
        return matrix
    position = {name: at for at, name in enumerate(matrix.column_names)}
    absent = [name for name in names if name not in position]
    if absent:
        raise DataError(
            f"{what} lacks {len(absent)} of the {len(names)} features of the fit, {absent[0]!r} first; add them, "
            "missing values allowed"
        )
    return matrix.take_columns(np.array([position[name] for name in names], np.intp))


def canonical_order(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order of rows and one of columns that depend on what they hold only: what is drawn follows a permutation."""
    cells = scramble(np.where(values == 0, 0.0, values).view(np.uint64), 0)
    return tuple(np.argsort(cells.sum(axis=axis, dtype=np.uint64), kind="stable") for axis in (1, 0))  # type: ignore[return-value]


def _read_array(data: Any, what: str) -> NamedMatrix:
    try:
        values = np.array(data, np.float64, order="C")
    except (TypeError, ValueError):
        raise DataError(f"{what} must hold numbers only; give a frame or a matrix of numbers") from None
    if values.ndim != 2 or not values.size:
        raise DataError(f"{what} has shape {values.shape}; give a frame or a matrix (row, column) that is not empty")
    return _checked(NamedMatrix(values, None, tuple(range(values.shape[1]))), what)


def _checked(matrix: NamedMatrix, what: str) -> NamedMatrix:
    if np.isinf(matrix.values).any():
        row, at = np.argwhere(np.isinf(matrix.values))[0]
        name = matrix.column_names[at]
        raise DataError(f"{what} holds an infinite number in column {name!r}, row {row + 1}; leave the cell empty")
    for names, kind in ((matrix.column_names, "column"), (matrix.row_names or (), "row")):
        if len(set(names)) < len(names):
            raise DataError(f"{what} has the {kind} {repeated(names)!r} twice; give every {kind} a name of its own")
    return matrix


def _is_text(array: Any) -> bool:
    """Whether most cells are text that spells no number: one such cell is an error, reported with its row."""
    array = decoded(array)
    if not are_words(array.type):
        return False
    filled = [text for text in array.to_pylist() if text is not None and text.strip()]
    return bool(2 * np.isnan(worth_of(filled)).sum() > len(filled))


def _row_names(array: Any, name: str, what: str) -> tuple[str, ...]:
    names = [None if value is None else str(value) for value in array.to_pylist()]
    if None in names:
        raise DataError(f"{what} has no name in row {names.index(None) + 1} of column {name!r}; name every row")
    return tuple(str(one) for one in names)


def _plain_pandas(data: Any) -> NamedMatrix | None:
    """A pandas frame of numbers only, at once: column by column a frame of many features takes minutes."""
    if not hasattr(data, "iloc") or not hasattr(data, "dtypes") or not data.size:
        return None
    if not all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in data.dtypes.unique()):
        return None
    values = np.ascontiguousarray(data.to_numpy(np.float64))
    return NamedMatrix(values, _named(data), tuple(data.columns.tolist()))


def _named(data: Any) -> tuple[str, ...] | None:
    index = index_names(data)
    return None if index is None else tuple(str(name) for name in index)
