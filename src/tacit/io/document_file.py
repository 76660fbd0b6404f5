"""Files of documents that are no tables: one document a line, and Matrix Market.

A line of text is a document, its tokens stand between blanks; an empty line is a document without words, so that
documents keep the numbers of their lines. A Matrix Market file has a row per document and a column per word (the rows
and columns of gensim's `MmCorpus`); its words may be named by a text file, one a line.
"""

from __future__ import annotations

import os
from typing import Any

from tacit.errors import DataError, FileFormatError, reason_of
from tacit.io.source import BROKEN, Source, probe
from tacit.io.text_lines import stream_lines

KINDS = ("txt", "mtx")


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """ "txt" or "mtx" where the name says so, gzip or not; None for tables."""
    stem = os.fspath(path).lower().removesuffix(".gz")
    return next((kind for kind in KINDS if stem.endswith(f".{kind}")), None)


def read_text(path: str | os.PathLike[str]) -> list[str]:
    """The lines of a text file, empty ones included; a file without any word is refused."""
    lines = [line for batch in stream_lines(path) for line in batch]
    if not any(line.strip() for line in lines):
        raise DataError(f"{os.fspath(path)} holds no word; write one document a line")
    return lines


def read_matrix_market(path: str | os.PathLike[str]) -> Any:
    """The sparse matrix (document, word) of a Matrix Market file."""
    from tacit.io.matrix_market import parse_matrix_market

    source = _source(path)
    return parse_matrix_market(_bytes(source), source.name)


def _source(path: str | os.PathLike[str]) -> Source:
    name = os.fspath(path)
    probe(name)
    return Source(name, "mtx", path=name, packed=name.lower().endswith(".gz"))


def _bytes(source: Source) -> bytes:
    try:
        return b"".join(source.lines())
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise source.broken(error) from None
        raise FileFormatError(
            f"{source.name} cannot be read as Matrix Market ({reason_of(error)}); copy it again"
        ) from None
