"""A text file → its lines: UTF-8, plain or gzip, here, on a store, or standard input; whole or in batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from tacit.errors import DataError, FileFormatError, reason_of
from tacit.io.source import BROKEN, STDIN, Source, bad_utf8, probe

TEXT = (".txt", ".txt.gz")
"""Ends of the names of plain text."""
BATCH_BYTES = 1 << 23
"""Text that is held at a time."""


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether the name says that the file is plain text."""
    return os.fspath(path).partition("?")[0].lower().endswith(TEXT)


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a text file without their ends; blank lines are left out."""
    found = [line for lines in stream_lines(path) for line in lines if line.strip()]
    if not found:
        name = "standard input" if os.fspath(path) == STDIN else os.fspath(path)
        raise DataError(f"{name} holds no line with anything in it; give one sequence a line")
    return found


def stream_lines(path: str | os.PathLike[str]) -> Iterator[list[str]]:
    """The lines without their ends, blank ones too, some megabytes at a time."""
    name = os.fspath(path)
    if name == STDIN:
        source = Source("standard input", "csv", data=sys.stdin.buffer.read())
    else:
        probe(name)
        source = Source(name, "csv", path=name, packed=name.partition("?")[0].lower().endswith(".gz"))
    encoding = "utf-8-sig"  # a byte order mark stands before the first line only
    try:
        for piece in _pieces(source):
            yield piece.decode(encoding).splitlines()
            encoding = "utf-8"
    except UnicodeDecodeError:
        raise bad_utf8(source) or FileFormatError(f"{source.name} is not UTF-8 text; save it as UTF-8") from None
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise source.broken(error) from None
        raise FileFormatError(f"{source.name} cannot be read as text ({reason_of(error)}); write it again") from None


def _pieces(source: Source) -> Iterator[bytes]:
    """Whole lines, some megabytes of them: a line break of any kind inside is left to `splitlines`."""
    lines: list[bytes] = []
    size = 0
    for line in source.lines():
        lines.append(line)
        size += len(line)
        if size > BATCH_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)
