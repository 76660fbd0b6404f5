"""A text file → its lines, some megabytes at a time: UTF-8, plain or gzip, here or on a store."""

from __future__ import annotations

import os
from collections.abc import Iterator

from latentfit.core.errors import FileFormatError
from latentfit.io.csv_file import told_encoding
from latentfit.io.encoding import check_encoding
from latentfit.io.source import BROKEN, Source, bad_utf8, gathered, plain_name, probe

TEXT = (".txt", ".txt.gz")
"""Ends of the names of plain text."""
BATCH_BYTES = 1 << 23
"""Text that is held at a time."""


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether the name says that the file is plain text."""
    return plain_name(os.fspath(path)).endswith(TEXT)


def stream_lines(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[list[str]]:
    """The lines without their ends, blank ones too, some megabytes at a time."""
    name = os.fspath(path)
    probe(name)
    source = Source(name, "txt", path=name, packed=plain_name(name).endswith(".gz"), encoding=check_encoding(encoding))
    source = told_encoding(source)
    codec = "utf-8-sig"  # a byte order mark stands before the first line only
    try:
        for lines in gathered(source.lines(), BATCH_BYTES):
            yield b"".join(lines).decode(codec).splitlines()  # a line break of any kind is one
            codec = "utf-8"
    except UnicodeDecodeError:
        raise bad_utf8(source) or FileFormatError(f"{source.name} is not UTF-8 text; save it as UTF-8") from None
    except BROKEN as error:
        raise source.broken(error) from None
