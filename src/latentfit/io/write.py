"""Columns → a file, written atomically.

Every output of Latentfit goes through `atomic_path`: a reader never sees a partial file, and an error or an
interrupt leaves the old file unchanged.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from latentfit.core.errors import DataError
from latentfit.core.progress import stage

STDOUT = "-"
FileFormat = Literal["csv", "parquet", "jsonl"]
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk, a quota or a limit that is used up."""
_BATCH = 10_000
"""Rows turned into Python objects at a time for JSON lines."""
_PART = 200_000
"""Rows of CSV or JSON lines between two progress updates."""
_VIEWS = {"string_view": pa.string(), "binary_view": pa.binary()}
"""Types that the writer of CSV does not take; by their names, since older releases of pyarrow have none of them."""


def write_columns(table: pa.Table, path: str | os.PathLike[str], *, format: FileFormat) -> None:
    """Write a table; `-` is standard output; a name that ends in `.gz` is compressed (not Parquet).

    CSV cells are written as they are, also those a spreadsheet would take for a formula: changing them would
    change the user's words. Quotes are used only where some cell needs them. Null and not a number are an empty
    field, and an empty string reads back as null; Parquet and JSON lines keep the two apart. In JSON lines a number
    that is not finite is null, and dates are text.
    """
    write_batches(iter([table]), path, format=format)


def write_batches(tables: Iterator[pa.Table], path: str | os.PathLike[str], *, format: FileFormat) -> None:
    """Write tables with the same columns one after the other, in constant memory, atomically."""
    if format not in ("csv", "parquet", "jsonl"):
        raise DataError(f"format must be 'csv', 'parquet' or 'jsonl', got {format!r}")
    first = next(tables)
    if len(set(first.column_names)) < first.num_columns:
        raise DataError(f"the table for {os.fspath(path)} has a column name twice; make the names differ")
    tables = chain([first], tables)
    if os.fspath(path) == STDOUT:
        _write_all(tables, sys.stdout.buffer, format)
        sys.stdout.buffer.flush()
        return
    packing = "gzip" if format != "parquet" and os.fspath(path).lower().endswith(".gz") else None
    with atomic_path(path) as part, pa.output_stream(str(part), compression=packing) as sink:
        _write_all(tables, sink, format)


def _write_all(tables: Iterator[pa.Table], sink: Any, format: FileFormat) -> None:
    if format == "parquet":
        import pyarrow.parquet as pq  # a CSV file should not wait for it

        first = next(tables)
        with pq.ParquetWriter(sink, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table.cast(first.schema))
        return
    for at, table in enumerate(tables):
        _write(table, sink, format, header=at == 0)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the same folder that takes the place of `path` when the block ends well.

    The bytes are on the disk before the name changes. Links are followed, the mode of an old file is kept; a
    device or a pipe is written directly, for it must not be replaced by a file.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder; name a file in it")
    if target.exists() and not target.is_file():
        yield target
        return
    part = target.parent / f".latentfit-{secrets.token_hex(8)}.part"
    try:
        _create(part, os.fspath(path))
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        yield part
        _sync(part)
        os.replace(part, target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if is_full(error):
            suggestion = "free some space, or choose another place; an existing file is unchanged"
            reason = os.strerror(getattr(error, "errno", 0) or 0).lower()
            raise OSError(f"{os.fspath(path)} cannot be written: {reason}; {suggestion}") from None
        raise
    with suppress(OSError):  # the file is in place; not every file system can sync a folder
        _sync(target.parent)


def is_full(error: BaseException) -> bool:
    """Whether a disk, a quota or a limit has no room for more."""
    return isinstance(error, OSError) and error.errno in FULL


def _create(part: Path, name: str) -> None:
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileNotFoundError:
        raise FileNotFoundError(f"the folder {part.parent} of {name} does not exist; create it first") from None
    except PermissionError:
        raise PermissionError(f"the folder of {name} may not be written; choose another one") from None
    except OSError as error:
        raise OSError(f"{name} cannot be written: {error.strerror}; choose another place") from None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(table: Any, sink: Any, format: FileFormat, *, header: bool) -> None:
    names = table.column_names
    table = pa.table([_plain(table.column(name), name) for name in names], names=names)
    if format == "jsonl":
        _write_json_lines(table, sink)
    else:
        _write_csv(table, sink, header)


def _plain(column: Any, name: str) -> Any:
    """A column of text, numbers, booleans or dates; dictionaries are decoded."""
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    if str(column.type) in _VIEWS:
        column = column.cast(_VIEWS[str(column.type)])
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(f"column {name!r} holds {kind}; write it as parquet, or as text, numbers or dates")
    return column


def _write_csv(table: Any, sink: Any, header: bool) -> None:
    table = pa.table([_empty_where_nan(column) for column in table.columns], names=table.column_names)
    if header:
        names = io.StringIO()
        csv.writer(names, lineterminator="\n").writerow(table.column_names)
        sink.write(names.getvalue().encode())
    if table.num_columns == 1 and _has_empty(table.column(0)):
        # An empty line would be read as no row at all; a quoted empty field is a row.
        table = pa.table([table.column(0).cast(pa.string()).fill_null("")], names=table.column_names)
        style = "needed"
    else:
        style = "needed" if any(_needs_quotes(column) for column in table.columns) else "none"
    # The header is ours: pyarrow puts quotes around every name.
    options = pa_csv.WriteOptions(include_header=False, quoting_style=style)
    for part in _parts(table):
        pa_csv.write_csv(part, sink, options)


def _empty_where_nan(column: Any) -> Any:
    """Programs differ in how they spell what is not a number; an empty field all of them take for missing."""
    if not pa.types.is_floating(column.type):
        return column
    nothing = pa.nulls(1, column.type)[0]  # a None of Python's own would have pandas imported
    return pc.if_else(pc.is_nan(column), nothing, column)


def _has_empty(column: Any) -> bool:
    """Whether a cell would be written as nothing at all."""
    return column.null_count > 0 or (_is_text(column) and pc.min(pc.binary_length(column)).as_py() == 0)


def _is_text(column: Any) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _needs_quotes(column: Any) -> bool:
    """With `needed` pyarrow quotes all text, so plain tables ask for `none`."""
    if not _is_text(column):
        return False
    return pc.any(pc.match_substring_regex(column, '[",\r\n]')).as_py() is True


def _write_json_lines(table: Any, sink: Any) -> None:
    for part in _parts(table):
        for batch in part.to_batches(max_chunksize=_BATCH):
            rows = batch.to_pylist()
            text = "".join(json.dumps(_finite(row), ensure_ascii=False, default=str) + "\n" for row in rows)
            sink.write(text.encode())


def _parts(table: Any) -> Iterator[Any]:
    """Slices of a table, with progress."""
    with stage("writing", table.num_rows, "rows") as progress:
        for begin in range(0, table.num_rows, _PART):
            progress.at(begin)
            yield table.slice(begin, _PART)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}
