"""Batches of several files → one table; files may disagree about the type of a column.

The rule is that of columns coded batch by batch: numbers of several types are numbers, all else is words, of which 1
and "1" are one, as they would be in a CSV file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from latentfit.core.errors import DataError


def join_batches(batches: Iterable[Any]) -> Any:
    """Batches with the same columns, in the same order, as one table whose dictionaries are one."""
    tables = [pa.Table.from_batches([one]) for one in batches]
    for at, name in enumerate(tables[0].column_names):
        columns = [table.column(at) for table in tables]
        if not _agree(columns):
            alike = _alike(columns, name)
            tables = [table.set_column(at, name, one) for table, one in zip(tables, alike, strict=True)]
    return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


def _agree(columns: list[Any]) -> bool:
    """Whether pyarrow can put the columns together; decimals beside integers it refuses where one is large."""
    kinds = {column.type for column in columns}
    if len(kinds) == 1:
        return True
    if any(map(pa.types.is_floating, kinds)) and any(map(pa.types.is_integer, kinds)):
        return False
    try:
        pa.unify_schemas([pa.schema([("", kind)]) for kind in kinds], promote_options="permissive")
    except pa.ArrowTypeError:
        return False
    return True


def _alike(columns: list[Any], name: str) -> list[Any]:
    """Columns of several types as numbers, or else as words."""
    plain = [one.cast(one.type.value_type) if isinstance(one.type, pa.DictionaryType) else one for one in columns]
    if _agree(plain):
        return plain
    kinds = [one.type for one in plain]
    nested = next((kind for kind in kinds if pa.types.is_nested(kind)), None)
    if nested is not None:
        raise DataError(f"column {name!r} holds {nested} in some of the files; give one word or number a cell")
    if not all(map(_is_number, kinds)):
        return [one if _is_words(one.type) else _spelled(one) for one in plain]
    kind = pa.float64() if any(map(pa.types.is_floating, kinds)) else pa.int64()
    return [one.cast(kind, safe=False) for one in plain]


def _is_number(kind: Any) -> bool:
    """Whether a type is one of numbers; true and false are 1 and 0, and a column without a value may be anything."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _is_words(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def _spelled(column: Any) -> Any:
    """Cells as Python writes them; a number that is none is missing."""
    cells = (None if cell is None or cell != cell else str(cell) for cell in column.to_pylist())
    return pa.chunked_array([pa.array(list(cells), pa.string())])
