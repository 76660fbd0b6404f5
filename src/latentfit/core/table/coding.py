"""Batches of columns → raw codes in a file, dictionaries growing while reading: the first half of a table on disk.

A raw code is a category's place in the order of appearance; what the categories are (numbers, names, intervals) is
decided when all have been seen, by the same rule as for tables in memory (`table_input.learn_column`).
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.names import GrowingNames, to_arrow
from latentfit.core.numbers import as_numbers
from latentfit.core.table.input import MAX_CATEGORIES, NO_COLUMN, spelled_numbers
from latentfit.core.table.weights import NO_WEIGHT, WeightType, check_weights, exponent_of

MAX_RAW = 65_534
"""Words a column may show before it is an id, or a measurement too fine to be cut into intervals."""
MISSING = 65_535
"""Raw code of a missing cell; 255 in records of one byte per cell."""


class GrowingColumn:
    """Words seen so far, in some order, how often, and with which weight if rows have one."""

    def __init__(self, name: str, text: bool) -> None:
        self.name, self.names = name, GrowingNames(f"{name!r}", text)
        self.counts: NDArray[np.int64] = np.zeros(256, np.int64)
        self.weights: Floats = np.zeros(0)

    @property
    def size(self) -> int:
        return len(self.names.place)

    def code(self, array: Any) -> NDArray[np.uint16]:
        """Raw codes of one batch."""
        before = self.size
        codes, distinct, seen = self.names.count(array, in_order=False)
        if self.size > max(before, MAX_CATEGORIES):
            self._check_size()
        while self.size > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        np.add.at(self.counts, distinct, seen)
        return codes.astype(np.uint16)  # -1 becomes `MISSING`

    def weigh(self, codes: NDArray[np.uint16], weight: Floats) -> None:
        """The weights of a batch's rows added to those of their categories, one after the other: the bits of memory."""
        new = np.zeros(self.size - len(self.weights))
        # a missing value is one category more, left out
        at = np.concatenate([np.arange(self.size), np.minimum(codes, self.size)])
        summed = np.bincount(at, np.concatenate([self.weights, new, weight]))
        self.weights = summed[: self.size].astype(np.float64)

    def _check_size(self) -> None:
        kind = spelled_numbers(self.names.words()).type  # a format without types spells its numbers
        numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        limit, things = (MAX_RAW, "numbers") if numbers else (MAX_CATEGORIES, "values")
        if self.size > limit:
            suggestion = (
                f"round them, or leave the column out (--drop {quote(self.name)}; --id, if it names the rows)"
                if numbers
                else f"it looks like an id: leave it out (--drop {quote(self.name)}; --id, if it names the rows)"
            )
            raise DataError(f"column {self.name!r} holds more than {limit:,} distinct {things}; {suggestion}")


def write_raw(
    batches: Iterator[Any],
    sink: BinaryIO,
    text: bool,
    weight: str | None,
    weights: BinaryIO,
    weight_type: WeightType,
) -> tuple[list[GrowingColumn], int, int, float]:
    """Code all batches into records of a file; the columns, how many rows there are, how many have no weight, and the
    largest weight.

    A record is some rows, column after column, a byte per cell where all codes fit. `text` came from a format without
    types. The column `weight` is no data: its numbers go into `weights`. A row without weight is an absent row, as in
    memory. Columns add sampling weights without the power of two of the largest one, as in memory too.
    """
    columns: list[GrowingColumn] = []
    n_rows = behind = exponent = 0
    largest = 0.0
    for batch in batches:
        numbers: Floats | None = None
        if weight is not None:
            numbers = check_weights(read_weights(batch.column(weight), weight, behind), weight_type, behind)
            behind += batch.num_rows
            batch = batch.select([name for name in batch.schema.names if name != weight])
            if not numbers.all():
                batch, numbers = batch.filter(pa.array(numbers > 0)), numbers[numbers > 0]
            if not batch.num_rows:
                continue
            weights.write(numbers.tobytes())
            larger, largest = float(numbers.max()) > largest, max(float(numbers.max()), largest)
            if weight_type == "sampling" and larger:
                before, exponent = exponent, exponent_of(largest)
                for column in columns:
                    column.weights = np.ldexp(column.weights, before - exponent)
            numbers = np.ldexp(numbers, -exponent)
        columns = columns or [GrowingColumn(name, text) for name in batch.schema.names]
        codes = np.empty((len(columns), batch.num_rows), np.uint16)
        for n, column in enumerate(columns):
            codes[n] = column.code(batch.column(n))
            if numbers is not None:
                column.weigh(codes[n], numbers)
        n_rows += batch.num_rows
        narrow = all(column.size < 255 for column in columns)
        record = codes.astype(np.uint8) if narrow else codes  # a missing value, 65535, becomes 255
        sink.write(np.array([batch.num_rows, record.itemsize], np.int64).tobytes())
        sink.write(record.tobytes())
    if n_rows and not columns:
        raise DataError(NO_COLUMN)
    if not n_rows:
        raise DataError(NO_WEIGHT if weight is not None else "the files hold no rows; give at least one")
    return columns, n_rows, max(behind - n_rows, 0), largest


def read_weights(array: Any, name: str, before: int = 0) -> NDArray[np.float64]:
    """A column of weights: a number for every row, so many rows behind; whether rows can have them is not asked."""
    where = f"the weights column {name!r}"
    numbers = as_numbers(to_arrow(array, where), where, "give every row a number", before)
    missing = np.isnan(numbers)
    if missing.any():
        raise DataError(
            f"{where} has a missing value in row {before + int(missing.argmax()) + 1}; give every row a number"
        )
    return numbers


def read_raw(source: BinaryIO, n_columns: int) -> Iterator[NDArray[Any]]:
    """The records again (columns, rows), each of the type it was written in: the largest value is a missing value."""
    while head := source.read(16):
        rows, width = np.frombuffer(head, np.int64).tolist()
        codes = np.frombuffer(source.read(rows * n_columns * width), np.uint8 if width == 1 else np.uint16)
        yield codes.reshape(n_columns, rows)
