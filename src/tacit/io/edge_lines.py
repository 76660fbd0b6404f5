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
    lines = [line.replace(",", " ") for line in read_lines(path)]
    kept = [line for line in lines if line.lstrip()[:1] not in COMMENTS]
    widths = [len(line.split()) for line in kept]
    widest = max(widths, default=0)
    if widest > 3:
        wrong = kept[next(at for at, width in enumerate(widths) if width > 3)]
        raise DataError(
            f"{name} has {len(wrong.split())} words in its line {lines.index(wrong) + 1} (blank lines not counted); an "
            "edge is two words, and a weight if any"
        )
    if widest < 2:
        raise DataError(f"{name} has no line with two words; give one edge a line")
    words: list[str | None]
    if min(widths) == widest:  # the usual case, without a list per line
        words = list(" ".join(kept).split())
    else:
        words = [word for line in kept for word in [*line.split(), None, None][:widest]]
    roles = ("source", "target", "weight")[:widest]
    columns = {role: pa.array(words[at::widest], pa.string()) for at, role in enumerate(roles)}
    for role in ("source", "target"):
        columns[role] = integers_if_canonical(columns[role])
    return pa.table(columns)
