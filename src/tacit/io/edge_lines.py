"""An edge list as text, two words a line, → columns source, target and, with a third word, weight."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tacit.errors import DataError
from tacit.io.integers import integers_if_canonical
from tacit.io.text_lines import read_lines

COMMENTS = ("#", "%")
"""Lines that begin so are comments, as SNAP and KONECT write them."""
ROLES = ("source", "target", "weight")


def read_edge_lines(path: str | os.PathLike[str]) -> pa.Table:
    """Columns of an edge list; blanks, tabs or a comma part the words; one word alone is a node without edges."""
    name = os.fspath(path)
    (columns,) = edge_batches([(name, read_lines(path))])
    if columns["target"].null_count == len(columns["target"]):
        raise DataError(f"{name} has no line with two words; give one edge a line")
    for role in ("source", "target"):
        columns[role] = integers_if_canonical(columns[role])
    return pa.table(columns)


def edge_batches(batches: Iterable[tuple[str, list[str]]]) -> Iterator[dict[str, Any]]:
    """The columns of lines that come in batches, as words: source, target and, where a line has one, weight."""
    name, behind = "", 0
    for path, batch in batches:
        name, behind = path, behind if path == name else 0
        lines = [line.replace(",", " ") for line in batch if line.strip()]
        kept = [line for line in lines if line.lstrip()[:1] not in COMMENTS]
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
