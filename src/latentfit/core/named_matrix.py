"""Whatever holds numbers → `NamedMatrix`: rows and columns with their names, a gap is NaN.

A frame may name its rows: pandas by its index, any frame by one column of words. All other columns must be numbers
(also spelled in words, since CSV files deliver decimals as text); nulls and NaN are gaps, infinite numbers are refused.
It is no `Matrix` (`core/matrix.py`): there every cell is a number, and rows may stand in a file without names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError, nearest
from latentfit.core.frames import as_frame, column, index_names
from latentfit.core.kernels import Floats
from latentfit.core.names import are_words, decoded, repeated
from latentfit.core.numbers import as_numbers, worth_of
from latentfit.core.sampling import scramble
from latentfit.io.scan import whole


@dataclass(frozen=True)
class NamedMatrix:
    """Numbers (row, column), NaN a gap; `row_names` is None where rows have none."""

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
    words = [name for name, array in arrays.items() if name == name_column or _is_words(array)]
    named = name_column if name_column is not None else words[0] if words else None
    if len(words) > 1:
        second = next(name for name in words if name != named)
        raise DataError(f"{what} has words in column {second!r}, and only one column may name the rows; leave it out")
    names = _named(data) if named is None else _row_names(arrays.pop(named), named, what)
    if not arrays:
        raise DataError(f"{what} has no column of numbers beside {named!r}; give at least one")
    values = np.column_stack(
        [as_numbers(array, f"column {name!r} of {what}", "leave the column out") for name, array in arrays.items()]
    )
    return _checked(NamedMatrix(values, names, tuple(arrays)), what)


def read_shares(data: Any, what: str, name_column: str | None = None) -> NamedMatrix:
    """A matrix whose values lie in [0, 1]; `name_column` holds the names of the rows."""
    matrix = read_named_matrix(whole(data), name_column=name_column, what=what)
    outside = (matrix.values < 0) | (matrix.values > 1)
    if outside.any():
        row, at = np.argwhere(outside)[0]
        raise DataError(
            f"{what} holds {matrix.values[row, at]:g} in column {matrix.column_names[at]!r}, row {row + 1}, and shares "
            "lie between 0 and 1; divide percents by 100, turn M-values into beta values"
        )
    return matrix


def match_columns(matrix: NamedMatrix, names: Sequence[str | int], what: str) -> NamedMatrix:
    """The columns of that name, in that order; numbered columns are those at that place."""
    if names == matrix.column_names:
        return matrix
    place = {name: at for at, name in enumerate(matrix.column_names)}
    lacking = [name for name in names if name not in place]
    if lacking:
        raise DataError(
            f"{what} lacks {len(lacking)} of the {len(names)} features of the fit, {lacking[0]!r} first; add them, "
            "gaps allowed"
        )
    return matrix.take_columns(np.array([place[name] for name in names], np.intp))


def canonical_order(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """An order of rows and one of columns that depend on what they hold only: what is drawn follows a permutation."""
    cells = scramble(np.where(values == 0, 0.0, values).view(np.uint64), 0)
    return tuple(np.argsort(cells.sum(axis=axis, dtype=np.uint64), kind="stable") for axis in (1, 0))  # type: ignore[return-value]


def _read_array(data: Any, what: str) -> NamedMatrix:
    try:
        values = np.array(data, np.float64, order="C")
    except (TypeError, ValueError):
        raise DataError(f"{what} holds something that is no number; give a frame or a matrix of numbers") from None
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


def _is_words(array: Any) -> bool:
    """Whether most cells are words that spell no number: one word among numbers is a slip, to be told with its row."""
    array = decoded(array)
    if not are_words(array.type):
        return False
    said = [word for word in array.to_pylist() if word is not None and word.strip()]
    return bool(2 * np.isnan(worth_of(said)).sum() > len(said))


def _row_names(array: Any, name: str, what: str) -> tuple[str, ...]:
    names = [None if value is None else str(value) for value in array.to_pylist()]
    if None in names:
        raise DataError(f"{what} has no name in row {names.index(None) + 1} of column {name!r}; name every row")
    return tuple(str(one) for one in names)


def _plain_pandas(data: Any) -> NamedMatrix | None:
    """A pandas frame of numbers only, at once: column by column a frame of many features takes minutes."""
    kinds = getattr(data, "dtypes", None)
    if not hasattr(data, "iloc") or kinds is None or not data.size:
        return None
    if not all(isinstance(kind, np.dtype) and kind.kind in "fiub" for kind in kinds.unique()):
        return None
    values = np.ascontiguousarray(data.to_numpy(np.float64))
    return NamedMatrix(values, _named(data), tuple(data.columns.tolist()))


def _named(data: Any) -> tuple[str, ...] | None:
    index = index_names(data)
    return None if index is None else tuple(str(name) for name in index)
