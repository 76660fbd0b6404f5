"""A text file → its lines, some megabytes at a time: UTF-8, plain or gzip, here or on a store."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from latentfit.core.errors import DataError, DataWarning, FileFormatError
from latentfit.io.csv_file import detect_encoding
from latentfit.io.source import BROKEN, Source, bad_utf8, gathered, plain_name, probe
from latentfit.io.values import check_encoding

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
    source = detect_encoding(source)
    codec = "utf-8-sig"  # a byte order mark stands before the first line only
    try:
        for lines in gathered(source.lines(), BATCH_BYTES):
            yield b"".join(lines).decode(codec).splitlines()  # a line break of any kind is one
            codec = "utf-8"
    except UnicodeDecodeError:
        raise bad_utf8(source) or FileFormatError(f"{source.name} is not UTF-8 text; save it as UTF-8") from None
    except BROKEN as error:
        raise source.broken(error) from None


# -----------------------------------------------------------------------------
# An edge list as text, two words per line, → columns source, target and, with a third word, weight.

COMMENTS = ("#", "%")
"""Lines that begin so are comments, as SNAP and KONECT write them."""
MATRIX_MARKET = "%%matrixmarket"
"""First word of a Matrix Market file, in lower case: after its comments comes a line of sizes, which is not an edge."""
ROLES = ("source", "target", "weight")
HEADERS = (
    {"source", "from", "src", "node_1", "node1", "node_a", "left", "source_id", "from_id", "fromnodeid", "head", "id1"},
    {"target", "to", "dst", "node_2", "node2", "node_b", "right", "target_id", "to_id", "tonodeid", "tail", "id2"},
)
"""Usual column names in the first line of an edge list, in lower case."""


def edge_batches(batches: Iterable[tuple[str, list[str]]]) -> Iterator[dict[str, Any]]:
    """The columns of lines that come in batches, as words: source, target and, where a line has one, weight.

    Blanks, tabs or a comma separate the words; one word alone is a node without edges. A header line is skipped with a
    warning; so is the line of sizes of a Matrix Market file.
    """
    name, behind = "", 0
    for path, batch in batches:
        name, behind = path, behind if path == name else 0
        lines = [line.replace(",", " ") for line in batch if line.strip()]
        kept = [line for line in lines if line.strip() and line.lstrip()[0] not in COMMENTS]  # a comma alone is no word
        if not behind and lines and lines[0].lower().startswith(MATRIX_MARKET):
            kept = _without_sizes(kept, lines[0], name)
        elif not behind and _names_columns(kept):
            warnings.warn(
                f"the first line of {name}, {kept[0].strip()!r}, names columns and is not read as an edge",
                DataWarning,
                stacklevel=6,
            )
            kept = kept[1:]
        widths = [len(line.split()) for line in kept]
        widest = max(widths, default=0)
        if widest > 3:
            wrong = kept[next(at for at, width in enumerate(widths) if width > 3)]
            place = behind + lines.index(wrong) + 1
            raise DataError(
                f"{name} has {len(wrong.split())} words in its line {place} (blank lines not counted); an "
                "edge is two words, and a weight if any"
            )
        behind += len(lines)
        words: list[str | None]
        if widest > 1 and min(widths) == widest:  # the usual case, without a list per line
            words = list(" ".join(kept).split())
        else:
            widest = max(widest, 2)
            words = [word for line in kept for word in [*line.split(), None, None][:widest]]
        yield {role: pa.array(words[at::widest], pa.string()) for at, role in enumerate(ROLES[:widest])}


def _without_sizes(kept: list[str], head: str, name: str) -> list[str]:
    """The entries of a square matrix in coordinates, as Matrix Market files write them."""
    sizes = kept[0].split() if kept else []
    if "coordinate" not in head.lower() or len(sizes) != 3:
        raise DataError(f"{name} is not a Matrix Market file of coordinates; give one edge per line")
    if sizes[0] != sizes[1]:
        raise DataError(
            f"{name} is a matrix of {sizes[0]} × {sizes[1]}, and a graph has as many rows as columns; give a square "
            "matrix, or edges between named nodes"
        )
    return kept[1:]


def _names_columns(lines: list[str]) -> bool:
    """Whether the first line is a header: usual names, a weight that is not a number, or text above numbers only."""
    if len(lines) < 2:
        return False
    first, *rest = (line.split() for line in lines)
    if len(first) < 2 or any(map(_is_number, first[:2])):
        return False
    if first[0].lower() in HEADERS[0] and first[1].lower() in HEADERS[1]:
        return True
    if len(first) == 3 and not _is_number(first[2]):
        return all(len(words) == 3 and _is_number(words[2]) for words in rest)
    return all(_is_number(word) for words in rest for word in words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


# -----------------------------------------------------------------------------
# FASTA → sequences of letters: a line that begins with > names a record, the lines below it are its letters.

_LETTERS = re.compile(r"[A-Za-z*.-]+")


def is_fasta(lines: Sequence[str]) -> bool:
    """Whether text begins as FASTA does: a line with > and, below such lines, letters without a blank."""
    filled = [line.strip() for line in lines if line.strip() and not line.startswith(";")]
    if not filled or not filled[0].startswith(">"):
        return False
    below = next((line for line in filled if not line.startswith(">")), "")
    return _LETTERS.fullmatch(below) is not None


def fasta_pieces(batches: Iterable[Sequence[str]]) -> Iterator[tuple[str | None, str]]:
    """The first word of every record's name with no letters, then its letters line by line with None for a name."""
    for lines in batches:
        for line in lines:
            if line.startswith(">"):
                yield (line[1:].split() or [""])[0], ""
            elif line.strip() and not line.startswith(";"):
                yield None, line.strip()
