"""A file of any supported format → named columns, or an error that says what is wrong and where."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pyarrow as pa

from latentfit.core.errors import DataError, nearest
from latentfit.io.csv_file import read_csv
from latentfit.io.json_lines import read_json_lines
from latentfit.io.source import Source, find_source
from latentfit.io.values import Missing

Choose = Callable[[Sequence[str]], list[str]]


def read_columns(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: Sequence[str] = (),
    names: Sequence[str] = (),
    encoding: str | None = None,
) -> pa.Table:
    """Read the columns of a file as a pyarrow table.

    Parquet and JSON lines keep their types. A CSV column becomes int64 only if every value is a canonical integer (no
    leading zeros, no plus sign, no spaces); otherwise it is text, so that `007` stays `007`; decimal numbers are text
    too, for the caller to convert. An empty CSV field, quoted or not, is null. A byte order mark and blank lines are
    skipped. Semicolons, tabs or bars as separators and decimal commas are detected from the first megabyte of a CSV
    file, with a DataWarning.

    Parameters
    ----------
    path : str or path-like
        `.csv`, `.tsv`, `.jsonl` (each also with `.gz`) or `.parquet`; `-` is CSV on standard input.
    columns : sequence of str, optional
        Columns to read, in this order; all by default.
    drop : sequence of str
        Columns to leave out.
    missing : sequence of str
        Values that mean missing, in every column except those of `names`.
    names : sequence of str
        Columns of ids, in lower case.
    encoding : str, optional
        Encoding of text; UTF-8 by default, Windows-1252 with a DataWarning where that fails.

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    OSError
        The file does not exist, is a folder, or may not be read.
    FileFormatError
        The file is not what its extension says, or is broken at a named line.
    DataError
        The file has no rows, or column names are repeated or absent.
    """
    source = find_source(path, encoding)
    choose, blank = chooser(source, columns, drop), Missing(tuple(missing), tuple(names))
    if source.kind == "parquet":
        from latentfit.io.parquet_file import read_parquet  # a CSV file should not wait for it

        return read_parquet(source, choose, blank)
    return read_json_lines(source, choose, blank) if source.kind == "jsonl" else read_csv(source, choose, blank)


def chooser(source: Source, columns: Sequence[str] | None, drop: Sequence[str] = ()) -> Choose:
    """A function that selects the columns to read, in order; it refuses repeated and unknown names."""

    def choose(names: Sequence[str]) -> list[str]:
        _refuse_repeated(source, names)
        dropped = {_known(source, names, name) for name in drop}
        asked = names if columns is None else [_known(source, names, name) for name in dict.fromkeys(columns)]
        left = [name for name in asked if name not in dropped]
        if not left and dropped:
            raise DataError(f"{source.name} has no column left of {len(names)}; drop fewer, or name other columns")
        return left

    return choose


def _refuse_repeated(source: Source, names: Sequence[str]) -> None:
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        first = places.setdefault(name, place)
        if first != place:
            what = f"the name {name!r}" if name else "no name"
            raise DataError(
                f"{source.name} has two columns with {what} (columns {first + 1} and {place + 1}); "
                "give every column its own name"
            )


def _known(source: Source, names: Sequence[str], name: str) -> str:
    if name in names:
        return name
    raise DataError(f"{source.name} has no column {name!r}; {nearest(name, names, 'it has')}")
