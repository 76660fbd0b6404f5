"""Text that is really integers, by one rule for every text format.

A column becomes integers only if writing each integer gives back the very text that was read, as with `0`,
`17` and `-3`. One `007`, `+7`, ` 7`, `-0`, `7.0` or number beyond 64 bits, and the whole column stays text,
because then the characters are part of the name. So ids and labels always come back in the user's words.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_LOOK = 1000
"""Values looked at first: most columns of words are settled here, without a pass over the column."""


def integers_if_canonical(column: Any) -> Any:
    """A chunked column of strings, as int64 if every value that is there is a canonical integer."""
    if column.null_count == len(column):
        return column
    if len(column) > _LOOK and _integers(column.slice(0, _LOOK)) is None:
        return column
    numbers = _integers(column)
    return column if numbers is None else numbers


def _integers(column: Any) -> Any:
    """The integers that give back exactly this text, or None."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    same = pc.all(pc.equal(numbers.cast(column.type), column)).as_py()
    return None if same is False else numbers
