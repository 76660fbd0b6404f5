"""An edge list as text, two words a line, → columns source, target and, with a third word, weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tacit.errors import DataError

COMMENTS = ("#", "%")
"""Lines that begin so are comments, as SNAP and KONECT write them."""
ROLES = ("source", "target", "weight")


def edge_batches(batches: Iterable[tuple[str, list[str]]]) -> Iterator[dict[str, Any]]:
    """The columns of lines that come in batches, as words: source, target and, where a line has one, weight.

    Blanks, tabs or a comma part the words; one word alone is a node without edges.
    """
    name, behind = "", 0
    for path, batch in batches:
        name, behind = path, behind if path == name else 0
        lines = [line.replace(",", " ") for line in batch if line.strip()]
        kept = [line for line in lines if line.strip() and line.lstrip()[0] not in COMMENTS]  # a comma alone is no word
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
