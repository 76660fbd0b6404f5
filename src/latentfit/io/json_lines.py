"""JSON lines → columns. One object per line; its values keep their JSON types, dates stay text.

Every line is checked before pyarrow parses it: an object nested some ten thousand levels deep overflows the
stack of pyarrow's parser, which would end the process. A line that begins with `{` and ends with `}` cannot
go on with the next one, so counting brackets line by line is enough. Lines go to pyarrow some megabytes at a time, as
one block each: where a list meets a number in two of its own blocks, it ends the process too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json

from latentfit.core.errors import DataError, FileFormatError
from latentfit.io.source import BLOCKS, BROKEN, Source, bad_utf8, gathered
from latentfit.io.values import NOTHING, Missing

MOST_BRACKETS = 500
"""Opening brackets outside of strings that one line may hold; a row of plain values has one."""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NUMBER = "a number"
_KIND = {str: "text", bool: "true or false", int: _NUMBER, float: _NUMBER, list: "a list", tuple: "an object"}


def read_json_lines(source: Source, choose: Callable[[Sequence[str]], list[str]], missing: Missing = NOTHING) -> Any:
    """The chosen columns of a JSON lines source; a key that a line lacks is null there."""
    tables = list(_tables(source))
    schema = _schema(source, [table.schema for table in tables], choose)
    if any(table.schema != tables[0].schema for table in tables):
        tables = list(_tables(source, schema))
    return missing.blanked(pa.concat_tables(tables).select(schema.names))


def stream_json_lines(
    source: Source, choose: Callable[[Sequence[str]], list[str]], missing: Missing = NOTHING
) -> Iterator[Any]:
    """The same batch by batch, in constant memory: read twice, because any line may have a new key or decimal."""
    schema = _schema(source, [table.schema for table in _tables(source)], choose)
    for table in _tables(source, schema):
        yield from missing.blanked(table).to_batches()


def _tables(source: Source, schema: Any = None) -> Iterator[Any]:
    """Some megabytes of lines at a time: all columns with inferred types, or those of `schema`."""
    known = pa_json.ParseOptions(schema, unexpected_field_behavior="infer" if schema is None else "ignore")
    for lines in gathered(_checked_lines(source), BLOCKS[0] * 8):
        piece = b"\n".join(lines)
        try:
            table = _parse(piece, known)
            dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
            if dates:  # pyarrow turns text that looks like a date into a date, and a label must keep its characters
                table = _parse(piece, pa_json.ParseOptions(pa.schema([(name, pa.string()) for name in dates])))
        except BROKEN as error:
            raise _explained(source, error) from None
        yield table


def _schema(source: Source, schemas: Sequence[Any], choose: Callable[[Sequence[str]], list[str]]) -> Any:
    """The chosen columns with types that hold what all lines have there: decimals where one number is a decimal."""
    names = list(dict.fromkeys(name for schema in schemas for name in schema.names))
    if not names:
        raise DataError(f"{source.name} has rows but no keys; give each object the columns as keys")
    chosen = choose(names)
    alone = [pa.schema([schema.field(name)]) for name in chosen for schema in schemas if name in schema.names]
    try:
        return pa.unify_schemas([pa.schema([]), *alone], promote_options="permissive")
    except BROKEN as error:
        raise _explained(source, error) from None


def _parse(piece: bytes, options: Any) -> Any:
    table = pa_json.read_json(pa.BufferReader(piece), pa_json.ReadOptions(block_size=len(piece) + 1), options)
    table.validate(full=True)  # pyarrow does not check UTF-8 while it parses,
    table.schema.names  # noqa: B018 - and that of keys when they are looked at
    if table.num_rows != piece.count(b"\n") + 1:  # pyarrow takes several objects on a line for several rows
        raise pa.ArrowInvalid("a line holds more than one object")
    return table


def _checked_lines(source: Source) -> Iterator[bytes]:
    """Every line that is not blank, stripped; one that is not an object is refused."""
    rows = 0
    try:
        for number, line in enumerate(source.lines(), 1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            line = line.strip()
            if not line:
                continue
            rows += 1
            if len(line) > BLOCKS[-1]:
                raise FileFormatError(f"{source.name} holds a line longer than 1 GB; write one object per line")
            if not (line.startswith(b"{") and line.endswith(b"}")):
                raise _broken_line(source, number, line)
            brackets = line.count(b"[") + line.count(b"{")
            if brackets > MOST_BRACKETS:
                bare = _STRING.sub(b"", line)
                brackets = bare.count(b"[") + bare.count(b"{")
            if brackets > MOST_BRACKETS:
                raise FileFormatError(
                    f"{source.name}, line {number}: found {brackets:,} lists and objects in one line; "
                    "give each key a plain value"
                )
            yield line
    except BROKEN as error:
        raise source.broken(error) from None
    if not rows:
        raise DataError(f"{source.name} is empty; it needs one JSON object per line")


def _explained(source: Source, error: Exception) -> Exception:
    """What is wrong with a file that pyarrow could not parse, and where."""
    return bad_utf8(source) or _find_line(source) or source.broken(error)


def _find_line(source: Source) -> FileFormatError | None:
    """The error for the first line that is not an object, or whose values change their type."""
    kinds: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(source.lines(), 1):
        line = line.removeprefix(b"\xef\xbb\xbf").strip()
        if not line:
            continue
        try:
            pairs = json.loads(line, object_pairs_hook=tuple)
        except (ValueError, RecursionError):
            return _broken_line(source, number, line)
        twice = [key for place, (key, _) in enumerate(pairs) if key in [k for k, _ in pairs[:place]]]
        if twice:
            where = f"{source.name}, line {number}"
            return FileFormatError(f"{where}: key {twice[0]!r} occurs twice; keep one of them")
        for key, value in pairs:
            kind = _KIND.get(type(value))
            known, first = kinds.setdefault(key, (kind, number)) if kind else (None, 0)
            if kind != known:
                return FileFormatError(
                    f"{source.name}, line {number}, column {key!r}: found {kind} where line {first} has "
                    f"{known}; use one type in a column"
                )
    return None


def _broken_line(source: Source, number: int, line: bytes) -> FileFormatError:
    if line.startswith(b"["):
        return FileFormatError(
            f"{source.name}, line {number}: found a JSON list where JSON lines have one object per line; "
            "write each row on its own line"
        )
    try:
        json.loads(line)
        found = "is JSON but not an object"
    except RecursionError:
        found = "nests too deep"
    except json.JSONDecodeError as error:
        found = f"is not JSON ({error.msg} at character {error.pos + 1})"
    except ValueError as error:
        found = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "holds an unusable number"
    return FileFormatError(f"{source.name}, line {number}: the line {found}; write one JSON object per line")
