"""Frames in, frames out: pandas, polars and pyarrow alike, through narwhals.

Results go back in the caller's kind of frame; who brought no frame (numpy, lists, sparse matrices) gets
pyarrow tables, the one kind that is always installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError, nearest
from latentfit.core.names import from_names, is_missing, repeated, to_arrow

Columns = Mapping[str, str] | None
"""Columns that the user named, by the roles they play."""
Roles = dict[str, str | None]
"""The column of every role, None where no column plays it."""


def as_frame(data: Any) -> Any | None:
    """`data` as an eager frame (columns, length, one column by name), or None when it is not a frame."""
    if isinstance(data, pa.Table):  # what our own readers give: no need to wait for narwhals
        if len(set(data.column_names)) < data.num_columns:
            raise _repeated(data.column_names)
        return ArrowFrame(data)
    if isinstance(data, str | os.PathLike):
        raise DataError(f"{str(data)!r} is a name, not data; read the file first, or give latentfit.scan of it")
    if type(data) is dict:  # not what is made of one, such as a sparse matrix
        raise DataError("a dict is no frame; make one of it: pandas.DataFrame(…)")
    import narwhals as nw

    try:
        frame = nw.from_native(data, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise _repeated([str(name) for name in data.columns]) from error
    if isinstance(frame, nw.LazyFrame):
        return frame.collect()
    return frame if isinstance(frame, nw.DataFrame) else None


def _repeated(names: list[str]) -> DataError:
    return DataError(f"the frame has two columns with the name {repeated(names)!r}; give every column its own name")


def with_missing(data: Any) -> Any:
    """Lists of words as an array of objects: numpy alone would make the word 'nan' of a NaN among words."""
    if not isinstance(data, list | tuple):
        return data
    try:
        return np.asarray(data, object) if np.asarray(data).dtype.kind == "U" else data
    except ValueError:  # rows of several lengths, which others refuse
        return data


@dataclass(frozen=True)
class ArrowFrame:
    """A pyarrow table with the few manners of a narwhals frame that are used here."""

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)


def backend_of(data: Any) -> str:
    """The name of the caller's kind of frame."""
    frame = None if isinstance(data, str) else as_frame(data)  # a string may be a sequence of letters
    return "pyarrow" if frame is None or isinstance(frame, ArrowFrame) else str(frame.implementation.value)


def column(frame: Any, name: Any) -> pa.Array:
    """One column as a pyarrow array; dictionaries of categoricals are kept. pandas may name columns by numbers."""
    if isinstance(frame, ArrowFrame):
        array = frame.table[name]
    else:
        series = frame[name] if isinstance(name, str) else frame[:, frame.columns.index(name)]
        try:
            array = series.to_arrow()
            kind = array.type.value_type if isinstance(array.type, pa.DictionaryType) else array.type
            if isinstance(kind, pa.BaseExtensionType):  # pandas' periods, intervals, UUIDs: as they are written
                array = pa.array([None if is_missing(value) else str(value) for value in series.to_list()], pa.string())
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):  # pandas: objects of several types
            array = to_arrow(series.to_numpy(), f"{name!r}")
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def index_names(data: Any) -> list[Any] | None:
    """The index of a pandas frame, unless it only counts."""
    index = getattr(data, "index", None)
    if index is None or callable(index) or not hasattr(index, "dtype"):
        return None
    if (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1):
        return None
    return list(index.tolist())


def long_columns(
    roles: tuple[str, str, str], rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """One line per row and column of a matrix: its row, its column, its value."""
    n, width = values.shape
    return {roles[0]: np.repeat(rows, width), roles[1]: np.tile(columns, n), roles[2]: values.reshape(-1)}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    """Every row as a dictionary; for small frames."""
    return list(frame.table.to_pylist() if isinstance(frame, ArrowFrame) else frame.rows(named=True))


def build_frame(columns: Mapping[str, Any], backend: str) -> Any:
    """A frame of the caller's kind."""
    table = pa.Table.from_arrays([from_names(values) for values in columns.values()], names=list(columns))
    if backend == "pyarrow":
        return table
    if backend == "pandas":
        return table.to_pandas()
    if backend == "polars":
        import polars

        return polars.from_arrow(table)
    import narwhals as nw

    return nw.from_arrow(table, backend=nw.Implementation.from_string(backend)).to_native()  # type: ignore[arg-type]


def unused_columns(names: Sequence[str], roles: Roles, advice: str = "") -> tuple[str, ...]:
    """A note about the columns that play no role, with advice for them; none where every column plays one."""
    unused = [name for name in names if name not in roles.values()]
    if not unused:
        return ()
    listed = ", ".join(repr(name) for name in unused[:3]) + (", …" if len(unused) > 3 else "")
    return (f"not used: {'column' if len(unused) == 1 else 'columns'} {listed}{advice}",)


def find_roles(names: Sequence[Any], aliases: Mapping[str, Sequence[str]], columns: Columns) -> Roles:
    """Which column plays which role, None where no column does; `columns` are those that the user named."""
    if not isinstance(columns, Mapping | None):
        raise DataError(
            f"columns={columns!r} says no roles; give a dictionary such as {{{next(iter(aliases))!r}: '…'}}"
        )
    given = dict(columns or {})
    unknown = sorted(set(given) - set(aliases))
    if unknown:
        raise DataError(f"columns= names the role {unknown[0]!r}; the roles are {', '.join(aliases)}")
    spoken = [str(name) for name in names]
    return {role: find_column(spoken, role, known, given.get(role)) for role, known in aliases.items()}


def columns_by_role(frame: Any, roles: Roles) -> dict[str, pa.Array]:
    """Those columns of a frame alone that play a role, under the names of the roles."""
    spoken = [str(name) for name in frame.columns]
    return {role: column(frame, frame.columns[spoken.index(name)]) for role, name in roles.items() if name is not None}


def find_column(names: Sequence[str], wanted: str, aliases: Sequence[str], given: str | None) -> str | None:
    """The column that plays a role: the one the user named, or the first alias present in any case."""
    if given is not None:
        if given not in names:
            hint = nearest(given, list(names), "the columns are")
            raise DataError(f"there is no column {given!r} for the {wanted}; {hint}")
        return given
    lowered = {name.strip().lower(): name for name in reversed(names)}
    return next((lowered[alias] for alias in aliases if alias in lowered), None)


# -----------------------------------------------------------------------------
# Long or wide? Whether a frame has one row per pair (two columns of ids, a count) or is a matrix of numbers.
#
# Names of columns alone cannot say: the vocabulary of a document-term frame may hold "title" and "term". So the
# structure decides, and where it does not, nobody guesses.

MOST_COLUMNS = 6
"""Columns up to which a frame of numbers alone may still be a long one: two ids, a count, and a few others."""


def reads_as_long(frame: Any, roles: Roles, first: str, second: str) -> bool | None:
    """Whether the columns found for `first`, `second` and "count" make it a long frame; None: it may be either.

    Long: two columns; three with one for the count; text under `second`, where a matrix would hold counts; or few
    columns of which one without a part in this holds text. Wide: more than `MOST_COLUMNS` columns of numbers.
    """
    if roles[first] is None or roles[second] is None:
        return False
    names = [str(name) for name in frame.columns]
    if len(names) == 2 or not is_numeric(frame, names.index(str(roles[second]))):
        return True
    if len(names) == 3 and roles["count"] is not None:
        return True
    if len(names) > MOST_COLUMNS:
        return False
    others = [at for at, name in enumerate(names) if name not in (roles[first], roles[second])]
    return None if all(is_numeric(frame, at) for at in others) else True


def is_numeric(frame: Any, at: int) -> bool:
    """Whether the column at a place has the type of numbers; numbers spelled in words have not."""
    if isinstance(frame, ArrowFrame):
        kind = frame.table.schema.field(at).type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
    kind = list(frame.schema.values())[at]
    return bool(kind.is_numeric() or str(kind) == "Boolean")
