"""Whatever holds a categorical table → `Table`: frames of any kind, matrices with gaps.

Words, booleans and integers are categories; integers with few values are ordered categories. A numeric column
with many distinct values is refused with a sentence that names `bins=`, or cut into that many intervals of equal
counts. A column without a single observed value is set aside with a warning: it says nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tacit.data.frames import as_frame, column
from tacit.data.names import Names, encode, match, to_arrow
from tacit.data.table import Column, Floats, Table, group_rows
from tacit.errors import DataError, DataWarning

MOST_NUMBERS = 50
"""Distinct numbers a column may hold as categories: more is a measurement, and wants bins."""
MOST_CATEGORIES = 10_000
"""Distinct values of a column of words: more is an id."""


def read_table(
    data: Any,
    *,
    bins: int | None = None,
    sample_weight: Any = None,
    columns: Sequence[Column] | None = None,
    group: bool = True,
) -> Table:
    """A coded table; `columns` are those of a fitted model, under which new data is read."""
    names, arrays = _columns_of(data)
    weight = _check_weight(sample_weight, len(arrays[0]))
    if weight is not None and not weight.all():  # a row without weight is an absent row: not even its words count
        arrays = [to_arrow(array, "column").filter(pa.array(weight > 0)) for array in arrays]
        weight = weight[weight > 0]
    if columns is None:
        coded = [_learn(array, name, bins) for name, array in zip(names, arrays, strict=True)]
        kept = [(codes, words) for codes, words in coded if words.size]
        _tell_empty([name for name, (_, words) in zip(names, coded, strict=True) if not words.size])
        if not kept:
            raise DataError(f"none of the {len(names)} columns holds a value; every cell is missing")
    else:
        kept = _apply(names, arrays, columns)
    wide = max(words.size for _, words in kept) > 254
    dtype: Any = np.uint16 if wide else np.uint8
    missing = np.iinfo(dtype).max
    codes = np.empty((len(arrays[0]), len(kept)), dtype)
    for index, (column_codes, _) in enumerate(kept):
        codes[:, index] = np.where(column_codes < 0, missing, column_codes)
    table = Table(codes, tuple(words for _, words in kept), weight)
    return group_rows(table) if group else table


def _columns_of(data: Any) -> tuple[list[str | int], list[Any]]:
    frame = as_frame(data)
    if frame is not None:
        names: list[str | int] = list(frame.columns)
        arrays: list[Any] = [column(frame, name) for name in names]
    else:
        matrix = np.asarray(data)
        if matrix.ndim != 2:
            raise DataError(f"expected a frame or a matrix (row, column), got an array of {matrix.ndim} dimensions")
        names, arrays = list(range(matrix.shape[1])), [matrix[:, n] for n in range(matrix.shape[1])]
    if not names:
        raise DataError("the table has 0 columns; give at least one")
    if not len(arrays[0]):
        raise DataError(f"the table has no rows (columns {names[:8]}); give at least one row")
    return names, arrays


def _learn(array: Any, name: str | int, bins: int | None) -> tuple[NDArray[np.int32], Column]:
    what = f"{name!r}"
    codes, words = encode(array, what)
    if words.dtype.kind in "iuf" and len(words) > MOST_NUMBERS:
        if bins is None:
            raise DataError(
                f"column {name!r} holds {len(words):,} distinct numbers, at most {MOST_NUMBERS} can be categories; "
                f"give bins=10 to cut such columns into intervals, or leave the column out"
            )
        edges = _edges(words[codes[codes >= 0]], bins)
        return _cut(words, codes, edges), Column(name, _interval_names(edges), edges)
    if len(words) > MOST_CATEGORIES:
        raise DataError(
            f"column {name!r} holds {len(words):,} distinct values, at most {MOST_CATEGORIES:,} can be categories; "
            "it looks like an id: leave it out"
        )
    return codes, Column(name, words)


def _apply(
    names: list[str | int], arrays: list[Any], columns: Sequence[Column]
) -> list[tuple[NDArray[np.int32], Column]]:
    at = {name: index for index, name in enumerate(names)}
    lacking = [known.name for known in columns if known.name not in at]
    if lacking:
        raise DataError(f"the model knows a column {lacking[0]!r} that is not among {names[:8]}; add it, gaps allowed")
    kept, unseen = [], 0
    for known in columns:
        array = arrays[at[known.name]]
        if known.edges is not None:
            codes, words = encode(array, f"{known.name!r}")
            kept.append((_cut(words, codes, known.edges), known))
            continue
        codes = match(array, known.categories, f"{known.name!r}")
        unseen += int((codes < 0).sum()) - _missing(array)
        kept.append((codes, known))
    if unseen:
        warnings.warn(
            f"{unseen:,} cells hold a category that the model has never seen; they are treated as missing",
            DataWarning,
            stacklevel=4,
        )
    return kept


def _missing(array: Any) -> int:
    values: Any = to_arrow(array, "column")
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return int(values.null_count)


def _edges(values: Names, bins: int) -> Floats:
    """Inner edges of intervals with about equally many values."""
    quantiles = np.quantile(values.astype(np.float64), np.arange(1, bins) / bins)
    return np.unique(quantiles)


def _cut(words: Names, codes: NDArray[np.int32], edges: Floats) -> NDArray[np.int32]:
    if not len(words):
        return codes
    bin_of = np.searchsorted(edges, words.astype(np.float64), side="right").astype(np.int32)
    return np.append(bin_of, np.int32(-1))[codes]


def _interval_names(edges: Floats) -> Names:
    inner = [f"{edge:g}" for edge in edges]
    middle = [f"[{low}, {high})" for low, high in pairwise(inner)]
    return np.array([f"< {inner[0]}", *middle, f">= {inner[-1]}"], object)


def _check_weight(sample_weight: Any, n_rows: int) -> Floats | None:
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, np.float64).reshape(-1)
    if len(weight) != n_rows:
        raise DataError(f"{len(weight)} weights for {n_rows} rows; give one weight per row")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise DataError("a row weight is negative or not finite; weights count rows, so they are 0 or more")
    if not weight.any():
        raise DataError("all row weights are zero; at least one row must count")
    return weight


def _tell_empty(names: list[str | int]) -> None:
    if names:
        warnings.warn(
            f"{len(names)} columns hold no value at all and are set aside, for example {names[0]!r}",
            DataWarning,
            stacklevel=5,
        )
