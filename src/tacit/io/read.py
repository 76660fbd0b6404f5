"""A file → named columns, whatever its format; every way a file can be wrong has its sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pyarrow as pa

from tacit.errors import DataError, nearest
from tacit.io.csv_file import read_csv
from tacit.io.json_lines import read_json_lines
from tacit.io.source import Source, find_source

Choose = Callable[[Sequence[str]], list[str]]


def read_columns(path: str | os.PathLike[str], *, columns: Sequence[str] | None = None) -> pa.Table:
    """The columns of a file as a pyarrow table, all of them or those asked for, in that order.

    The format is told by the name: `.csv`, `.tsv`, `.jsonl` (each also with `.gz`), `.parquet`; `-` is CSV on
    standard input. Parquet and JSON lines keep their types. A CSV column becomes int64 only if every value is
    a canonical integer (no leading zeros, no plus sign, no spaces: writing the integer gives the same text);
    otherwise it is text, so that `007` stays `007`; decimal numbers are text too, for the caller to convert.
    An empty CSV field, quoted or not, is null; no other word means missing here. A byte order mark and blank
    lines are skipped.

    Raises OSError (no such file, a folder, no permission), FileFormatError (the file is not what its name
    says, or is broken at a named line) or DataError (nothing in it, column names repeated or absent).
    """
    source = find_source(path)
    choose = chooser(source, columns)
    if source.kind == "parquet":
        from tacit.io.parquet_file import read_parquet  # a CSV file should not wait for it

        return read_parquet(source, choose)
    return read_json_lines(source, choose) if source.kind == "jsonl" else read_csv(source, choose)


def chooser(source: Source, columns: Sequence[str] | None) -> Choose:
    """Which of a file's columns to read, in order; repeated and unknown names are refused."""

    def choose(names: Sequence[str]) -> list[str]:
        _refuse_repeated(source, names)
        if columns is None:
            return list(names)
        return [_known(source, names, name) for name in dict.fromkeys(columns)]

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
