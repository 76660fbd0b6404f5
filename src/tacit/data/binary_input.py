"""Whatever holds yes/no data → `Table` of two-category columns: 0 and 1, true and false, yes and no, with gaps.

A column may use any of these spellings (any case); numbers are cut at a threshold when one is given. A column that is
always 0 or always 1 is kept: it belongs to every cluster alike. Category 1 is what frequencies count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tacit.data.names import decoded, encode, plain, to_arrow
from tacit.data.numbers import as_numbers
from tacit.data.table import Column, Table
from tacit.data.table_input import code_table, pick_known
from tacit.errors import DataError

WORDS = {"0": 0, "0.0": 0, "false": 0, "f": 0, "no": 0, "n": 0, "1": 1, "1.0": 1, "true": 1, "t": 1, "yes": 1, "y": 1}
"""Spellings of no and yes, in lower case."""


def read_binary(
    data: Any,
    *,
    binarize: float | None = None,
    sample_weight: Any = None,
    columns: Sequence[Column] | None = None,
    group: bool = True,
) -> Table:
    """A coded table of yes/no columns; `columns` are those of a fitted model, under which new data is read."""

    def code(names: list[str | int], arrays: list[Any]) -> Iterator[tuple[NDArray[np.int32], Column]]:
        rows = _counted_rows(sample_weight, len(arrays[0]))
        if columns is not None:
            for array, known in pick_known(names, arrays, columns):
                yield _yes_no(array, known.name, binarize, rows), known
            return
        for array, name in zip(arrays, names, strict=True):
            codes = _yes_no(array, name, binarize, rows)
            yield codes, Column(name, np.arange(2 if (codes >= 0).any() else 0))

    return code_table(data, code, sample_weight, group)


def dense_rows(matrix: Any, memory: int) -> NDArray[Any]:
    """A scipy sparse matrix of zeros and ones as a full one: a byte per cell, unless other values have to be shown.

    A cell that is not stored is 0, a stored NaN is missing. More than half of `memory` bytes is refused: the codes need
    as much.
    """
    rows = csr_array(matrix, copy=True)
    rows.sum_duplicates()
    kind = np.dtype(np.uint8) if np.isin(rows.data, (0, 1)).all() else np.dtype(np.float64)
    needed = rows.shape[0] * rows.shape[1] * kind.itemsize
    if 2 * needed > memory:
        raise DataError(
            f"the sparse matrix has {rows.shape[0]:,} x {rows.shape[1]:,} cells, {needed / 2**30:.1f} GiB when full, "
            "too much for the free memory; leave out rare columns, or give a file (tacit.scan)"
        )
    out = np.zeros(rows.shape, kind)
    out[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices] = rows.data
    return out


@dataclass(frozen=True)
class LearnYesNo:
    """The same from a column's distinct values, for rows that are coded apart from them."""

    binarize: float | None = None

    def __call__(self, words: Any, name: str | int, counts: NDArray[Any]) -> tuple[NDArray[np.int32], Column]:
        codes = _yes_no(words, name, self.binarize, None)
        return codes, Column(name, np.arange(2 if (codes >= 0).any() else 0))


def _counted_rows(sample_weight: Any, n_rows: int) -> NDArray[np.intp]:
    """Where the rows that count stand in the user's table: rows without weight are gone when cells are read."""
    if sample_weight is None:
        return np.arange(n_rows)
    return np.flatnonzero(np.asarray(sample_weight, np.float64).reshape(-1) > 0)


def _yes_no(values: Any, name: str | int, binarize: float | None, rows: NDArray[np.intp] | None) -> NDArray[np.int32]:
    """Codes 0, 1 and -1 for a gap; anything else is refused, with its row where rows are known."""
    array = decoded(to_arrow(values, f"{name!r}"))
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if pa.types.is_floating(array.type) and pc.any(pc.is_inf(array)).as_py():
        place = _place(rows, int(pc.index(pc.is_inf(array), True).as_py()))
        raise DataError(
            f"column {name!r} holds an infinite number{place}; leave the cell empty or give a finite number"
        )
    if binarize is not None:
        return _cut(array, name, binarize, rows)
    codes, words = encode(array, f"{name!r}")
    meaning = np.array([*(WORDS.get(str(word).strip().lower(), 2) for word in words.tolist()), -1], np.int32)
    found = meaning[codes]
    if (found > 1).any():
        first = int((found > 1).argmax())
        value, place = plain(words[codes[first]]), _place(rows, first)
        raise DataError(
            f"column {name!r} holds {value!r}{place}, and clusters are made of 0/1, true/false or yes/no; "
            f"give --id {quote(str(name))} if it names the rows, leave the cell empty if nothing is known, "
            "give binarize= (--binarize) to cut numbers at a threshold, or use LatentClass (tacit table) for categories"
        )
    return found


def _place(rows: NDArray[np.intp] | None, at: int) -> str:
    return "" if rows is None else f" in row {rows[at] + 1}"


def _cut(array: Any, name: str | int, threshold: float, rows: NDArray[np.intp] | None) -> NDArray[np.int32]:
    if not np.isfinite(threshold):
        raise DataError(f"binarize={threshold} is no threshold; give a finite number, such as 0.5")
    advice = f"leave the column out, for it cannot be cut at {threshold:g}"
    numbers = as_numbers(array, f"column {name!r}", advice, place=partial(_place, rows))
    return np.where(np.isnan(numbers), -1, numbers > threshold).astype(np.int32)
