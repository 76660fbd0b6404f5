"""Batches of columns → raw codes in a file, dictionaries growing while reading: the first half of a table on disk.

A raw code is a word's place in the order of appearance; what the words are (numbers, names, intervals) is decided when
all have been seen, by the same rule as for tables in memory (`table_input.learn_column`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tacit.data.names import to_arrow
from tacit.data.numbers import as_numbers
from tacit.data.table_input import MOST_CATEGORIES, NO_WEIGHT, check_weights
from tacit.errors import DataError
from tacit.io.integers import integers_if_canonical

MOST_RAW = 65_534
"""Words a column may show before it is an id, or a measurement too fine to be cut into intervals."""
GAP = 65_535
"""Raw code of a missing cell; 255 in records of one byte a cell."""


@dataclass
class GrowingColumn:
    """Words seen so far, in the order of appearance, and how often."""

    name: str
    place: dict[Any, int] = field(default_factory=dict)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    n_missing: int = 0

    def code(self, array: Any) -> NDArray[np.uint16]:
        """Raw codes of one batch."""
        coded = _dictionary(to_arrow(array, f"{self.name!r}"))
        words = coded.dictionary.to_pylist()
        codes = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        seen = np.bincount(codes, minlength=len(words) + 1)
        self.n_missing += int(seen[-1])
        if len(self.place) + len(words) > MOST_CATEGORIES:
            self._check_size(words)
        recode = np.full(len(words) + 1, GAP, np.uint16)
        for at, word in enumerate(words):
            if seen[at] and word is not None:
                recode[at] = raw = self.place.setdefault(word, len(self.place))
                self._count(raw, int(seen[at]))
            elif word is None:
                self.n_missing += int(seen[at])
        return np.asarray(recode[codes])

    def _count(self, raw: int, rows: int) -> None:
        if raw >= len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.counts[raw] += rows

    def _check_size(self, words: list[Any]) -> None:
        size = len(self.place) + sum(word not in self.place for word in words)
        numbers = all(isinstance(word, int | float) for word in [*self.place, *words])
        limit = MOST_RAW if numbers else MOST_CATEGORIES
        cure = "round them, or leave the column out" if numbers else "it looks like an id: leave it out"
        if size > limit:
            raise DataError(f"column {self.name!r} holds more than {limit:,} distinct values; {cure}")

    def words(self, *, text: bool) -> Any:
        """The words as one typed array; `text` came from a format without types, where integers spell themselves."""
        listed: list[Any] = list(self.place)
        kinds = {type(word) for word in listed}
        if kinds == {int, float}:
            listed = [float(word) for word in listed]
        elif len(kinds) > 1:
            listed = [str(word) for word in listed]  # 1 and "1" are the same name, as in a CSV file
        array = pa.array(listed)
        return integers_if_canonical(pa.chunked_array([array])).combine_chunks() if text and len(array) else array


def _dictionary(array: Any) -> Any:
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)
    if not isinstance(array.type, pa.DictionaryType):
        array = array.dictionary_encode()
    return array


def write_raw(
    batches: Iterator[Any], sink: BinaryIO, weight: str | None = None, weights: BinaryIO | None = None
) -> tuple[list[GrowingColumn], int, int]:
    """Code all batches into records of a file; the columns, how many rows there are, and how many have no weight.

    The column `weight` is no data: its numbers go into `weights`. A row without weight is an absent row, as in memory.
    """
    columns: list[GrowingColumn] = []
    n_rows = behind = 0
    for batch in batches:
        if weight is not None and weights is not None:
            numbers = read_weights(batch.column(batch.schema.get_field_index(weight)), weight, behind)
            behind += batch.num_rows
            batch = batch.select([name for name in batch.schema.names if name != weight])
            if not numbers.all():
                batch, numbers = batch.filter(pa.array(numbers > 0)), numbers[numbers > 0]
            if not batch.num_rows:
                continue
            weights.write(numbers.tobytes())
        columns = columns or [GrowingColumn(name) for name in batch.schema.names]
        codes = np.empty((batch.num_rows, len(columns)), np.uint16)
        for n, column in enumerate(columns):
            codes[:, n] = column.code(batch.column(n))
        n_rows += len(codes)
        narrow = all(len(column.place) < 255 for column in columns)
        record = codes.astype(np.uint8) if narrow else codes  # a gap, 65535, becomes 255
        sink.write(np.array([len(codes), record.itemsize], np.int64).tobytes())
        sink.write(record.tobytes())
    if not n_rows:
        raise DataError(NO_WEIGHT if weight is not None else "the files hold no rows; give at least one")
    return columns, n_rows, max(behind - n_rows, 0)


def read_weights(array: Any, name: str, before: int) -> NDArray[np.float64]:
    """A column of weights: a number for every row, so many rows behind."""
    where = f"the weights column {name!r}"
    numbers = as_numbers(to_arrow(array, where), where, "give every row a number", before)
    gaps = np.isnan(numbers)
    if gaps.any():
        raise DataError(f"{where} has a gap in row {before + int(gaps.argmax()) + 1}; give every row a number")
    return check_weights(numbers)


def read_raw(source: BinaryIO, n_columns: int) -> Iterator[NDArray[np.uint16]]:
    """The records again, gaps as `GAP`."""
    while head := source.read(16):
        rows, width = np.frombuffer(head, np.int64).tolist()
        codes = np.frombuffer(source.read(rows * n_columns * width), np.uint8 if width == 1 else np.uint16)
        wide = codes.astype(np.uint16).reshape(rows, n_columns)
        if width == 1:
            wide[wide == 255] = GAP
        yield wide
