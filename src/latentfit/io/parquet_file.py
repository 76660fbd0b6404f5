"""Parquet → typed columns; all are validated, because a damaged file may decode into values that crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from latentfit.core.errors import DataError
from latentfit.io.source import BROKEN, Source
from latentfit.io.values import NOTHING, Missing

BATCH_ROWS = 65_536
"""Rows of a batch."""
CELL_BYTES = 4
"""Approximate least number of bytes per cell in memory (a string offset); on the disk it may be one bit."""


def read_parquet(source: Source, choose: Callable[[Sequence[str]], list[str]], missing: Missing = NOTHING) -> Any:
    """The chosen columns of a Parquet source; `choose` gets the names and may refuse them."""
    try:
        with source.open() as stream:
            file = pq.ParquetFile(stream)
            chosen = choose(file.schema_arrow.names)
            table = file.read(columns=chosen).select(chosen)
        table.validate(full=True)
    except BROKEN as error:
        raise source.broken(error) from None
    if table.num_rows == 0:
        raise _no_rows(source)
    return missing.blanked(table)


def stream_parquet(
    source: Source,
    choose: Callable[[Sequence[str]], list[str]],
    coded: bool = True,
    missing: Missing = NOTHING,
) -> Iterator[Any]:
    """The same batch by batch, text as dictionaries if `coded`."""
    try:
        with source.open() as stream:
            schema = pq.ParquetFile(stream).schema_arrow
            chosen = choose(schema.names)
            text = [
                field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
            ]
            file = pq.ParquetFile(stream, read_dictionary=text if coded else None)
            if file.metadata.num_rows == 0:
                raise _no_rows(source)
            for batch in file.iter_batches(BATCH_ROWS, columns=chosen):
                batch.validate(full=True)
                yield missing.blanked(batch.select(chosen))
    except BROKEN as error:
        raise source.broken(error) from None


def count_rows(path: str) -> int:
    """Rows of a file, from its footer; 0 if it is broken, which reading it will report."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except BROKEN:
        return 0


def unpacked_size(path: str) -> int:
    """Uncompressed bytes of the cells, from the footer; 0 if the file is broken."""
    try:
        facts = pq.read_metadata(path)
    except BROKEN:
        return 0
    pages = sum(facts.row_group(at).total_byte_size for at in range(facts.num_row_groups))
    return int(
        max(pages, CELL_BYTES * facts.num_rows * facts.num_columns)
    )  # pages hold each distinct value of a column once


def _no_rows(source: Source) -> DataError:
    return DataError(f"{source.name} has columns and no rows; add at least one row")
