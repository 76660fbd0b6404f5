"""Comma- and tab-separated text → string columns, or an error that names the line.

Deviations from the extension are detected from the start of the file and reported: semicolons, tabs or bars as
separators, decimal commas, Windows-1252 text.

The first pass uses threads. When anything fails, a second pass without threads takes very long rows, and if
it fails too, it knows the row.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from latentfit.core.errors import DataError, DataWarning, FileFormatError
from latentfit.io.source import BLOCKS, BROKEN, Source, bad_utf8
from latentfit.io.values import NOTHING, Missing, find_encoding, integers_if_canonical

LOOK_BYTES = 1 << 20
"""Bytes from which the separator and the decimal sign are detected."""
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars (|)"}
_COMMA = r"^([-+]?\d+),(\d)"
_NUMBER = re.compile(r"[-+]?\d+(,\d+)?([eE][-+]?\d+)?")
_UNKNOWN = ("", "na", "n/a", "#n/a", "nan", "null", "none", ".")
"""Values, in lower case, that a column of numbers may hold as well."""
_UNEVEN = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


def read_csv(source: Source, choose: Callable[[Sequence[str]], list[str]], missing: Missing = NOTHING) -> Any:
    """The chosen columns of a CSV or TSV source; `choose` gets the header and may refuse it."""
    source, names = _settled(source, missing)
    chosen = choose(names)
    table = _parse(source, names[-1], chosen)
    if table.num_rows == 0:
        raise _only_header(source)
    _check_last_quote(source, table.column(names[-1])[table.num_rows - 1].as_py(), table.num_rows)
    table = missing.blanked(table.select(chosen))
    columns = [integers_if_canonical(_with_points(source, name, table.column(name))) for name in chosen]
    return pa.table(columns, names=chosen)


def stream_csv(
    source: Source,
    choose: Callable[[Sequence[str]], list[str]],
    coded: bool = True,
    missing: Missing = NOTHING,
) -> Iterator[Any]:
    """The same file batch by batch, in constant memory: the chosen columns as strings, in dictionaries if `coded`."""
    source, names = _settled(source, missing)
    chosen = choose(names)
    quotes = source.packed or source.remote or _has_quote(source)
    n_rows, cell = 0, None
    try:
        with source.open() as stream:
            options = _options(source, names[-1], chosen, quotes, BLOCKS[1], coded=coded)
            reader = pa_csv.open_csv(stream, **options)
            for batch in reader:
                if batch.num_rows:
                    n_rows += batch.num_rows
                    cell = batch.column(batch.schema.get_field_index(names[-1]))[batch.num_rows - 1].as_py()
                    yield _batch_with_points(source, missing.blanked(batch.select(chosen)))
    except BROKEN as error:
        raise _explained(source, error) from None
    if not n_rows:
        raise _only_header(source)
    _check_last_quote(source, cell, n_rows)


# ------------------------------------------------------- how the file is written


def _settled(source: Source, missing: Missing) -> tuple[Source, list[str]]:
    """The source with its encoding, separator and decimals, and its column names; warns of what is unusual."""
    source = detect_encoding(source)
    lines = _first_lines(source)
    source = _with_delimiter(source, lines)
    names = _header(source)
    _check_separator(source, names)
    if source.separator != ",":
        source = replace(source, commas=_decimal_commas(source, lines, names, missing))
    if source.delimiter is not None:
        shown = ", ".join(map(repr, source.commas[:3])) + (", …" if len(source.commas) > 3 else "")
        decimals = f", with commas in the decimals of the numbers ({shown})" if source.commas else ""
        warn_reading(f"{source.name} is read as separated by {_SEPARATORS[source.separator]}{decimals}")
    elif source.commas:
        warn_reading(f"{source.name} is read with commas in the decimals of its numbers ({source.commas[0]!r} first)")
    return source, names


def detect_encoding(source: Source) -> Source:
    """A text source with its encoding; warns where it is not UTF-8."""
    if source.encoding is not None:
        return source
    try:
        encoding = find_encoding(source)
    except BROKEN:  # reported when the file is read
        return source
    if encoding is not None:
        name = "Windows-1252 (Latin-1)" if encoding == "cp1252" else "Latin-1"
        warn_reading(f"{source.name} is not UTF-8 and is read as {name}; give encoding= (--encoding) if that is wrong")
    return source if encoding is None else replace(source, encoding=encoding)


def warn_reading(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=6)


def _first_lines(source: Source) -> list[str]:
    """The first lines that are not blank, without one that may be cut."""
    try:
        with source.open() as stream:
            start = bytes(stream.read(LOOK_BYTES))
    except BROKEN as error:
        raise source.broken(error) from None
    text = start.decode("utf-8-sig", "surrogateescape")
    lines = text.splitlines(keepends=True)
    lines = lines[:-1] if len(start) == LOOK_BYTES and len(lines) > 1 else lines
    return [line for line in lines if line.strip()]


def _with_delimiter(source: Source, lines: list[str]) -> Source:
    """The source with another separator, if that of its extension does not split its first lines and another does."""
    header = _cells(lines[:1], source.separator)
    if not header or len(header[0]) != 1:
        return source
    for other in ";\t,|":
        rows = _cells(lines, other) if other != source.separator and other in lines[0] else []
        fitting = sum(len(row) == len(rows[0]) for row in rows[1:])  # a broken line is reported later
        if len(rows) > 1 and len(rows[0]) > 1 and 2 * fitting > len(rows) - 1:
            return replace(source, delimiter=other)
    return source


def _cells(lines: list[str], delimiter: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:  # a field longer than the module takes
        return []


def _decimal_commas(source: Source, lines: list[str], names: list[str], missing: Missing) -> tuple[str, ...]:
    """The numeric columns of a file with decimal commas such as 1,5, those that show one first."""
    rows = [row for row in _cells(lines, source.separator)[1:] if len(row) == len(names)]
    skipped = {*_UNKNOWN, *(word.lower() for word in missing.values)}
    shown: list[str] = []
    numbers: list[str] = []
    for at, name in enumerate(names):
        cells = [cell for cell in (row[at].strip() for row in rows) if cell.lower() not in skipped]
        if all(_NUMBER.fullmatch(cell) for cell in cells):
            (shown if any("," in cell for cell in cells) else numbers).append(name)
    return (*shown, *numbers) if shown else ()


def _with_points(source: Source, name: str, column: Any) -> Any:
    """A text column with decimal points instead of commas; dictionaries are kept."""
    if name not in source.commas:
        return column
    if isinstance(column, pa.DictionaryArray):
        words = pc.replace_substring_regex(column.dictionary, _COMMA, r"\1.\2")
        return pa.DictionaryArray.from_arrays(column.indices, words)
    return pc.replace_substring_regex(column, _COMMA, r"\1.\2")


def _batch_with_points(source: Source, batch: Any) -> Any:
    if not source.commas:
        return batch
    names = batch.schema.names
    columns = [_with_points(source, name, batch.column(at)) for at, name in enumerate(names)]
    return pa.RecordBatch.from_arrays(columns, names=names)


# --------------------------------------------------------------- parsing


def _header(source: Source) -> list[str]:
    """Column names, read separately: pyarrow infers the types of columns that have none given."""
    try:
        # Bad bytes may stand in the same buffer as a good header; only those in the header matter here.
        with _text(source, "utf-8-sig", "surrogateescape") as text:
            names = next(filter(None, csv.reader(text, delimiter=source.separator)), None)
    except csv.Error:
        raise FileFormatError(
            f"{source.name}, line 1: a column name does not end; look for an unclosed quote"
        ) from None
    except BROKEN as error:
        raise source.broken(error) from None
    if names is None:
        raise DataError(f"{source.name} is empty; it needs column names and rows")
    if any("\udc80" <= letter <= "\udcff" for name in names for letter in name):
        raise bad_utf8(source) or DataError(
            f"{source.name} has column names that are not UTF-8 text; save the file as UTF-8"
        )
    return names


def _text(source: Source, encoding: str, errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(source.buffered(), encoding=encoding, errors=errors, newline="")


def _parse(source: Source, last: str, chosen: list[str]) -> Any:
    """The chosen columns as strings and, as bytes, the last column of the file."""
    # Looking for line breaks inside quotes takes twice the time, so it is done only where there is a quote.
    # Not looking for them, pyarrow may cut a cell in two at the end of a block, and says nothing.
    quotes = source.packed or _has_quote(source)
    try:
        return _read(source, last, chosen, quotes, BLOCKS[0], threads=True)
    except BROKEN:  # read again, slowly
        pass
    for block in BLOCKS:
        try:
            return _read(source, last, chosen, quotes, block, threads=False)
        except BROKEN as error:
            if "straddl" in str(error) and block < BLOCKS[-1]:
                continue
            raise _explained(source, error) from None
    raise AssertionError("the last block either reads or raises")


def _explained(source: Source, error: Exception) -> Exception:
    """The error for a file that pyarrow could not parse, with the place."""
    text = str(error)
    if "straddl" in text:
        return FileFormatError(f"{source.name} has a row longer than {BLOCKS[-1] >> 30} GB; look for an unclosed quote")
    if "Empty CSV" in text:
        return _only_header(source)
    uneven = _UNEVEN.search(text)
    if uneven:  # a row cut short by a cut file is the file's fault
        return source.damage() or _uneven(source, uneven)
    return (bad_utf8(source) if "UTF8" in text else None) or source.broken(error)


def _read(source: Source, last: str, chosen: list[str], quotes: bool, block: int, *, threads: bool) -> Any:
    with source.open() as stream:
        return pa_csv.read_csv(stream, **_options(source, last, chosen, quotes, block, threads=threads))


def _options(
    source: Source,
    last: str,
    chosen: list[str],
    quotes: bool,
    block: int,
    *,
    threads: bool = False,
    coded: bool = False,
) -> dict[str, Any]:
    types = dict.fromkeys(chosen, pa.dictionary(pa.int32(), pa.string()) if coded else pa.string())
    types.setdefault(last, pa.binary())  # wanted for its last cell only
    return {
        "read_options": pa_csv.ReadOptions(block_size=block, use_threads=threads),
        "parse_options": pa_csv.ParseOptions(delimiter=source.separator, newlines_in_values=quotes),
        "convert_options": pa_csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    }


def _has_quote(source: Source) -> bool:
    with source.open() as stream:
        while chunk := stream.read(1 << 20):
            if b'"' in chunk:
                return True
    return False


def _check_separator(source: Source, names: list[str]) -> None:
    ours = source.separator
    for other in ";\t,|":
        if len(names) == 1 and other != ours and other in names[0]:
            rename = {"\t": " or name it .tsv", ",": " or name it .csv"}.get(other, "")
            raise FileFormatError(
                f"{source.name} is separated by {_SEPARATORS[other]}, not {_SEPARATORS[ours]}; "
                f"save it with {_SEPARATORS[ours]}{rename}"
            )


def _check_last_quote(source: Source, cell: str | bytes | None, n_rows: int) -> None:
    """pyarrow treats the end of the file as a closing quote, so an unclosed quote would swallow rows silently."""
    if cell is None or (b"\n" not in cell if isinstance(cell, bytes) else "\n" not in cell):
        return
    quote_open = False
    for tail in deque((line for line in source.lines() if line.strip()), maxlen=1):
        quote_open = not tail.rstrip(b"\r\n").endswith(b'"')
    if quote_open:
        raise FileFormatError(
            f"{source.name}, {_place(source, n_rows + 1)}: the quote that opens in the last field "
            "is never closed; close it or remove it"
        )


def _place(source: Source, row: int) -> str:
    """The line on which a row begins; rows are counted from 1 with the header, blank lines are none."""
    seen, begins = 0, 1
    try:
        with _text(source, "latin-1") as text:
            reader = csv.reader(text, delimiter=source.separator)
            for fields in reader:
                seen += bool(fields)
                if seen == row:
                    return f"line {begins}"
                begins = reader.line_num + 1
    except csv.Error:  # a field longer than the module takes
        if seen == row - 1:
            return f"line {begins}"
    return f"row {row}"


def _uneven(source: Source, found: re.Match[str]) -> FileFormatError:
    row, expected, actual = (int(number) for number in found.groups()[:3])
    if "\n" in found[4]:
        suggestion = "close the quote that opens on that line"
    elif actual > expected:
        suggestion = f"put quotes around fields that hold {_SEPARATORS[source.separator]}"
    else:
        suggestion = "complete or remove the line"
    fields = f"{expected} field" + "s" * (expected != 1)
    place = _place(source, row)
    return FileFormatError(f"{source.name}, {place}: expected {fields}, found {actual}; {suggestion}")


def _only_header(source: Source) -> DataError:
    return DataError(f"{source.name} has a header and no rows; add at least one row")
