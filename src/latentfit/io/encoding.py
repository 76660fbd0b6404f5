"""Text that is not UTF-8: which encoding its bytes have, told before it is read.

Files here are read to the end for that, at the speed of the disk; of compressed files and those on a store the first
megabytes tell. What fails to be UTF-8 is Windows-1252 (all of Latin-1 that is ever written), unless it shows that it is
no text, or UTF-8 that was damaged: then the reader refuses it and names the line.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from latentfit.core.errors import DataError

CHUNK = 1 << 20
AHEAD = 1 << 24
"""Bytes looked at of what is expensive to read twice."""
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
        raise DataError(f"there is no encoding {encoding!r}; give utf-8, latin-1, cp1252, utf-16, …") from None


def find_encoding(source: Any) -> str | None:
    """None for UTF-8, else the encoding that a text source is read in."""
    if source.data is not None:
        return _told_by(lambda: iter([source.data]) if not source.packed else _chunks(source, AHEAD))
    if source.packed or source.remote:
        return _told_by(lambda: _chunks(source, AHEAD))
    facts = os.stat(source.path)
    return _of_file(source, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=256)
def _of_file(source: Any, size: int, written: int) -> str | None:
    return _told_by(lambda: _chunks(source, size))


def _chunks(source: Any, most: int) -> Iterator[bytes]:
    behind = 0
    with source.open() as stream:
        while behind < most and (chunk := stream.read(CHUNK)):
            behind += len(chunk)
            yield bytes(chunk)


def _told_by(chunks: Any) -> str | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in chunks():
            if not chunk.isascii() or decoder.getstate()[0]:
                decoder.decode(chunk)
        return None  # what breaks off in a letter was cut, which the reader says
    except UnicodeDecodeError:
        pass
    undefined = False
    for chunk in chunks():
        if _NO_TEXT.search(chunk) or _MULTIBYTE.search(chunk):
            return None
        undefined = undefined or _UNDEFINED.search(chunk) is not None
    return "latin-1" if undefined else "cp1252"
