"""An edge list as text, two words a line, → columns source, target and, with a third word, weight."""

from __future__ import annotations

import os

import pyarrow as pa

from tacit.errors import DataError
from tacit.io.integers import integers_if_canonical
from tacit.io.text_lines import read_lines

COMMENTS = ("#", "%")
"""Lines that begin so are comments, as SNAP and KONECT write them."""


def read_edge_lines(path: str | os.PathLike[str]) -> pa.Table:
    """Columns of an edge list; blanks, tabs or a comma part the words; one word alone is a node without edges."""
    name = os.fspath(path)
    rows: list[list[str]] = []
    widest = 0
    for number, line in enumerate(read_lines(path), 1):
        if line.lstrip().startswith(COMMENTS):
            continue
        words = line.replace(",", " ").split()
        if not 1 <= len(words) <= 3:
            raise DataError(
                f"{name} has {len(words)} words in its line {number} (blank lines not counted); an edge is two words, "
                "and a weight if any"
            )
        widest = max(widest, len(words))
        rows.append(words)
    if widest < 2:
        raise DataError(f"{name} has no line with two words; give one edge a line")
    columns = {
        role: pa.array([row[at] if len(row) > at else None for row in rows], pa.string())
        for at, role in enumerate(("source", "target", "weight")[:widest])
    }
    for role in ("source", "target"):
        columns[role] = integers_if_canonical(columns[role])
    return pa.table(columns)
