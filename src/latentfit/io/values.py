"""Values that mean missing → nulls, in columns of any type; detection of the encoding of text."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latentfit.core.errors import DataError


@dataclass(frozen=True)
class Missing:
    """Values that mean missing, as text, and columns of ids (in lower case), in which nothing means missing."""

    values: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def blanked(self, table: Any) -> Any:
        """A table or batch in which these values are null; numbers are compared as numbers."""
        if not self.values:
            return table
        known = table.schema.names
        columns = [
            table.column(at) if name.strip().lower() in self.names else _blanked(table.column(at), self.values)
            for at, name in enumerate(known)
        ]
        return type(table).from_arrays(columns, names=known)


NOTHING = Missing()
"""Empty cells alone are missing."""


def _blanked(column: Any, missing: Sequence[str]) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_blanked(one, missing) for one in column.chunks], column.type)
    if isinstance(column.type, pa.DictionaryType):
        dictionary = _blanked(column.dictionary, missing)
        kept = pc.take(pc.is_valid(dictionary), column.indices)
        indices = pc.if_else(kept, column.indices, pa.scalar(None, column.indices.type))
        return pa.DictionaryArray.from_arrays(indices, column.dictionary, ordered=column.type.ordered)
    values = _values_of(column.type, missing)
    if not len(values):
        return column
    return pc.if_else(pc.is_in(column, value_set=values), pa.scalar(None, column.type), column)


def _values_of(kind: Any, missing: Sequence[str]) -> Any:
    """Those of the missing values that a column of this type can hold."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(list(missing), kind)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return pa.array([], kind)
    found = []
    for word in missing:
        try:
            found.append(pa.scalar(float(word)).cast(kind).as_py())
        except (ValueError, pa.ArrowInvalid):  # a word, or a decimal among whole numbers
            continue
    return pa.array(found, kind)


# -----------------------------------------------------------------------------
# Detection of the encoding of text that is not UTF-8, before it is parsed.
#
# Files here are read to the end for that, at the speed of the disk; of compressed files and those on a store only the
# first megabytes are. What fails to be UTF-8 is Windows-1252 (all of Latin-1 that is ever written), unless it is
# not text, or UTF-8 that was damaged: then the reader refuses it and names the line.

CHUNK = 1 << 20
AHEAD = 1 << 24
"""Bytes read from sources that are expensive to read twice."""
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\xff]")
"""Bytes that no text has; 0xff would be the letter ÿ."""
_UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
"""Bytes that Windows-1252 does not define; in Latin-1 they are control characters."""


def check_encoding(encoding: str | None) -> str | None:
    """An encoding that Python knows, or None where none was named."""
    if encoding is None:
        return None
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise DataError(
            f"encoding must be one that Python knows, such as utf-8, latin-1 or cp1252, got {encoding!r}"
        ) from None


def find_encoding(source: Any) -> str | None:
    """None for UTF-8, else the encoding that a text source is read in."""
    if source.data is not None:
        return _detect(lambda: iter([source.data]) if not source.packed else _chunks(source, AHEAD))
    if source.packed or source.remote:
        return _detect(lambda: _chunks(source, AHEAD))
    facts = os.stat(source.path)
    return _of_file(source, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _of_file(source: Any, size: int, written: int) -> str | None:
    return _detect(lambda: _chunks(source, size))


def _chunks(source: Any, most: int) -> Iterator[bytes]:
    behind = 0
    with source.open() as stream:
        while behind < most and (chunk := stream.read(CHUNK)):
            behind += len(chunk)
            yield bytes(chunk)


def _detect(chunks: Any) -> str | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks():
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk)
        return None  # a truncated last character is reported by the reader
    except UnicodeDecodeError:
        pass
    undefined = False
    for chunk in chunks():
        if _NO_TEXT.search(chunk) or _MULTIBYTE.search(chunk):
            return None
        undefined = undefined or _UNDEFINED.search(chunk) is not None
    return "latin-1" if undefined else "cp1252"


# -----------------------------------------------------------------------------
# Text that is really integers, by one rule for every text format.
#
# A column becomes integers only if writing each integer gives back the very text that was read, as with `0`,
# `17` and `-3`. One `007`, `+7`, ` 7`, `-0`, `7.0` or number beyond 64 bits, and the whole column stays text,
# because then the characters are part of the name. So ids and labels always come back in the user's words.

_LOOK = 1000
"""Values looked at first: most columns of words are settled here, without a pass over the column."""


def integers_if_canonical(column: Any) -> Any:
    """A chunked column of strings, as int64 if every value that is there is a canonical integer."""
    if column.null_count == len(column):
        return column
    if len(column) > _LOOK and _integers(column.slice(0, _LOOK)) is None:
        return column
    numbers = _integers(column)
    return column if numbers is None else numbers


def _integers(column: Any) -> Any:
    """The integers that give back exactly this text, or None."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    same = pc.all(pc.equal(numbers.cast(column.type), column)).as_py()
    return None if same is False else numbers
