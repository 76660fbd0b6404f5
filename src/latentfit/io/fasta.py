"""FASTA → sequences of letters: a line that begins with > names a record, the lines below it are its letters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_LETTERS = re.compile(r"[A-Za-z*.-]+")


def is_fasta(lines: Sequence[str]) -> bool:
    """Whether text begins as FASTA does: a line with > and, below such lines, letters without a blank."""
    said = [line.strip() for line in lines if line.strip() and not line.startswith(";")]
    if not said or not said[0].startswith(">"):
        return False
    below = next((line for line in said if not line.startswith(">")), "")
    return _LETTERS.fullmatch(below) is not None


def fasta_pieces(batches: Iterable[Sequence[str]]) -> Iterator[tuple[str | None, str]]:
    """The first word of every record's name with no letters, then its letters line by line with None for a name."""
    for lines in batches:
        for line in lines:
            if line.startswith(">"):
                yield (line[1:].split() or [""])[0], ""
            elif line.strip() and not line.startswith(";"):
                yield None, line.strip()
