"""Long or wide? Whether a frame has one row per pair (two columns of ids, a count) or is a matrix of numbers.

Names of columns alone cannot say: the vocabulary of a document-term frame may hold "title" and "term". So the structure
decides, and where it does not, nobody guesses.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from latentfit.core.frames import ArrowFrame, Roles

MOST_COLUMNS = 6
"""Columns up to which a frame of numbers alone may still be a long one: two ids, a count, and a few others."""


def reads_as_long(frame: Any, roles: Roles, first: str, second: str) -> bool | None:
    """Whether the columns found for `first`, `second` and "count" make it a long frame; None: it may be either.

    Long: two columns; three with one for the count; text under `second`, where a matrix would hold counts; or few
    columns of which one without a part in this holds text. Wide: more than `MOST_COLUMNS` columns of numbers.
    """
    if roles[first] is None or roles[second] is None:
        return False
    names = [str(name) for name in frame.columns]
    if len(names) == 2 or not is_numeric(frame, names.index(str(roles[second]))):
        return True
    if len(names) == 3 and roles["count"] is not None:
        return True
    if len(names) > MOST_COLUMNS:
        return False
    others = [at for at, name in enumerate(names) if name not in (roles[first], roles[second])]
    return None if all(is_numeric(frame, at) for at in others) else True


def is_numeric(frame: Any, at: int) -> bool:
    """Whether the column at a place has the type of numbers; numbers spelled in words have not."""
    if isinstance(frame, ArrowFrame):
        kind = frame.table.schema.field(at).type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
    kind = list(frame.schema.values())[at]
    return bool(kind.is_numeric() or str(kind) == "Boolean")
