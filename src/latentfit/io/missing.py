"""Values that mean "not known" → nulls, in columns of any type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Missing:
    """Values that mean "not known", as text, and columns (in small letters) of names, where they are names."""

    values: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def blanked(self, table: Any) -> Any:
        """A table or batch whose cells that are among the values are null; numbers are compared as numbers."""
        if not self.values:
            return table
        known = table.schema.names
        columns = [
            table.column(at) if name.strip().lower() in self.names else _blanked(table.column(at), self.values)
            for at, name in enumerate(known)
        ]
        return type(table).from_arrays(columns, names=known)


NOTHING = Missing()
"""Empty cells alone are missing."""


def _blanked(column: Any, missing: Sequence[str]) -> Any:
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_blanked(one, missing) for one in column.chunks], column.type)
    if isinstance(column.type, pa.DictionaryType):
        dictionary = _blanked(column.dictionary, missing)
        kept = pc.take(pc.is_valid(dictionary), column.indices)
        indices = pc.if_else(kept, column.indices, pa.scalar(None, column.indices.type))
        return pa.DictionaryArray.from_arrays(indices, column.dictionary, ordered=column.type.ordered)
    values = _values_of(column.type, missing)
    if not len(values):
        return column
    return pc.if_else(pc.is_in(column, value_set=values), pa.scalar(None, column.type), column)


def _values_of(kind: Any, missing: Sequence[str]) -> Any:
    """Those of the missing values that a column of this type can hold."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(list(missing), kind)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return pa.array([], kind)
    found = []
    for word in missing:
        try:
            found.append(pa.scalar(float(word)).cast(kind).as_py())
        except (ValueError, pa.ArrowInvalid):  # a word, or a decimal among whole numbers
            continue
    return pa.array(found, kind)
