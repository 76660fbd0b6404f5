"""A file → named columns, whatever its format; every way a file can be wrong has its sentence."""

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
    """The columns of a file as a pyarrow table, all of them or those asked for, in that order.

    The format is told by the name: `.csv`, `.tsv`, `.jsonl` (each also with `.gz`), `.parquet`; `-` is CSV on
    standard input. Parquet and JSON lines keep their types. A CSV column becomes int64 only if every value is
    a canonical integer (no leading zeros, no plus sign, no spaces: writing the integer gives the same text);
    otherwise it is text, so that `007` stays `007`; decimal numbers are text too, for the caller to convert.
    An empty CSV field, quoted or not, is null, and so is what `missing` holds, in every format and in every column
    but those of `names` (in small letters), which are ids; no other word means missing here. A byte order mark and
    blank lines are skipped. Text is UTF-8 or what `encoding` says; CSV
    that is neither is read as Windows-1252; semicolons, tabs or bars between its cells and commas in its decimals are
    found from its first megabyte, all with a DataWarning. `drop` names columns to be left out.

    Raises OSError (no such file, a folder, no permission), FileFormatError (the file is not what its name
    says, or is broken at a named line) or DataError (nothing in it, column names repeated or absent).
    """
    source = find_source(path, encoding)
    choose, blank = chooser(source, columns, drop), Missing(tuple(missing), tuple(names))
    if source.kind == "parquet":
        from latentfit.io.parquet_file import read_parquet  # a CSV file should not wait for it

        return read_parquet(source, choose, blank)
    return read_json_lines(source, choose, blank) if source.kind == "jsonl" else read_csv(source, choose, blank)


def chooser(source: Source, columns: Sequence[str] | None, drop: Sequence[str] = ()) -> Choose:
    """Which of a file's columns to read, in order; repeated and unknown names are refused."""

    def choose(names: Sequence[str]) -> list[str]:
        _refuse_repeated(source, names)
        gone = {_known(source, names, name) for name in drop}
        asked = names if columns is None else [_known(source, names, name) for name in dict.fromkeys(columns)]
        left = [name for name in asked if name not in gone]
        if not left and gone:
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
