"""A text file → its lines: UTF-8, plain or gzip, or standard input."""

from __future__ import annotations

import os
import sys

from tacit.errors import DataError, FileFormatError, reason_of
from tacit.io.source import BROKEN, STDIN, Source, bad_utf8, probe


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether the name says that the file is plain text."""
    return os.fspath(path).lower().removesuffix(".gz").endswith(".txt")


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a text file without their ends; blank lines are left out."""
    name = os.fspath(path)
    if name == STDIN:
        source = Source("standard input", "csv", data=sys.stdin.buffer.read())
    else:
        probe(name)
        source = Source(name, "csv", path=name, packed=name.lower().endswith(".gz"))
    try:
        text = b"".join(source.lines())
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise source.broken(error) from None
        raise FileFormatError(f"{source.name} cannot be read as text ({reason_of(error)}); write it again") from None
    try:
        lines = text.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise bad_utf8(source) or FileFormatError(f"{source.name} is not UTF-8 text; save it as UTF-8") from None
    found = [line for line in lines if line.strip()]
    if not found:
        raise DataError(f"{source.name} holds no line with anything in it; give one sequence a line")
    return found
