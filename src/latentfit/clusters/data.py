"""Whatever holds yes/no data → `Table` of two-category columns: 0 and 1, true and false, yes and no, with missing
values.

A column may use any of these spellings (any case); numbers are cut at a threshold when one is given. Two other values,
such as the codes 1 and 2 of a survey, are no and yes in their order, which a warning reports. A column that is always
0 or always 1 is kept: it belongs to every cluster alike. Category 1 is what frequencies count.
"""

from __future__ import annotations

import warnings
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

from latentfit.core.errors import DataError, DataWarning
from latentfit.core.names import Names, decoded, encode, match, plain, to_arrow
from latentfit.core.numbers import as_numbers, is_missing_word
from latentfit.core.table.input import code_table, pick_known
from latentfit.core.table.table import Column, Table
from latentfit.core.table.weights import WeightType

NO, YES = ("0", "0.0", "false", "f", "no", "n"), ("1", "1.0", "true", "t", "yes", "y")
SPELLINGS = dict.fromkeys(NO, 0) | dict.fromkeys(YES, 1)
"""Spellings of no and yes, in lower case."""
UNKNOWN = ("", "?", ".", "-")
"""Words beside which another one is no pair: they mean that nothing is known."""
TWO_OF_ONE_SPELLED = (["1", "2"], ["-1", "1"], ["f", "m"])
"""Pairs, in their order, of which one is such a spelling and means something else here."""
SHOWN = 3
"""Columns that a note lists."""
MAX_SHOWN = 6
"""Values of a column that a message lists."""


def read_binary(
    data: Any,
    *,
    binarize: float | None = None,
    sample_weight: Any = None,
    weight_type: WeightType = "sampling",
    columns: Sequence[Column] | None = None,
    group: bool = True,
) -> Table:
    """A coded table of yes/no columns; `columns` are those of a fitted model, under which new data is read."""

    def code(names: list[str | int], arrays: list[Any]) -> Iterator[tuple[NDArray[np.int32], Column]]:
        rows = _counted_rows(sample_weight, len(arrays[0]))
        if columns is not None:
            for array, known in pick_known(names, arrays, columns):
                yield _yes_no(array, known.name, binarize, rows, known.categories)[0], known
            return
        for array, name in zip(arrays, names, strict=True):
            yield _learned(array, name, binarize, rows)

    table = code_table(data, code, sample_weight, weight_type, group)
    if columns is None:
        warn_recoded_pairs(table.columns)
    return table


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
            "too much for the free memory; leave out rare columns, or give a file (latentfit.scan)"
        )
    out = np.zeros(rows.shape, kind)
    out[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices] = rows.data
    return out


@dataclass(frozen=True)
class LearnYesNo:
    """The same from a column's distinct values, for rows that are coded apart from them."""

    binarize: float | None = None

    def check(self, names: Sequence[str | int]) -> None:
        """Any columns will do."""

    def __call__(self, values: Any, name: str | int, counts: NDArray[Any]) -> tuple[NDArray[np.int32], Column]:
        return _learned(values, name, self.binarize, None)

    def warn(self, columns: Sequence[Column]) -> None:
        warn_recoded_pairs(columns)


def warn_recoded_pairs(columns: Sequence[Column]) -> None:
    """Say which of two values counts as yes where they are not spellings of no and yes."""
    pairs = [one for one in columns if one.size == 2 and not _is_plain(one.categories)]
    if pairs:
        examples = ", ".join(f"{one.name!r}: {plain(one.categories[1])!r}" for one in pairs[:SHOWN])
        more = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
        hold = "1 column holds" if len(pairs) == 1 else f"{len(pairs)} columns hold"
        warnings.warn(
            f"{hold} two values other than 0/1 or yes/no, and the later one in order counts as yes ({examples}{more}); "
            "recode them if the other one is meant",
            DataWarning,
            stacklevel=6,
        )


def _is_plain(categories: Names) -> bool:
    return categories.dtype.kind in "iu" and categories.tolist() == [0, 1]


def _counted_rows(sample_weight: Any, n_rows: int) -> NDArray[np.intp]:
    """Where the rows that count stand in the user's table: rows without weight are gone when cells are read."""
    if sample_weight is None:
        return np.arange(n_rows)
    return np.flatnonzero(np.asarray(sample_weight, np.float64).reshape(-1) > 0)


def _learned(
    values: Any, name: str | int, binarize: float | None, rows: NDArray[np.intp] | None
) -> tuple[NDArray[np.int32], Column]:
    """Codes of a column and the column, which has no category when every cell is missing."""
    codes, pair = _yes_no(values, name, binarize, rows)
    return codes, Column(name, pair if (codes >= 0).any() else pair[:0])


def _yes_no(
    values: Any, name: str | int, binarize: float | None, rows: NDArray[np.intp] | None, known: Names | None = None
) -> tuple[NDArray[np.int32], Names]:
    """Codes 0, 1 and -1 for a missing value, and the two values; anything else is refused, with its row where rows are
    known.

    `known` are the two values of a fitted model's column.
    """
    array = decoded(to_arrow(values, f"{name!r}"))
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if pa.types.is_floating(array.type) and pc.any(pc.is_inf(array)).as_py():
        place = _place(rows, int(pc.index(pc.is_inf(array), True).as_py()))
        raise DataError(
            f"column {name!r} holds an infinite number{place}; leave the cell empty or give a finite number"
        )
    if binarize is not None:
        return _cut(array, name, binarize, rows), np.arange(2)
    codes, categories = encode(array, f"{name!r}")
    pair = np.arange(2) if known is None or _is_plain(known) else known
    if known is None and _are_two(categories):
        pair = categories if _in_order(categories) else categories[::-1]
    if _is_plain(pair):
        meaning = np.array(
            [*(SPELLINGS.get(str(category).strip().lower(), 2) for category in categories.tolist()), -1], np.int32
        )
    else:
        place_of = match(categories, pair, f"{name!r}")
        meaning = np.append(np.where(place_of < 0, 2, place_of), -1).astype(np.int32)
    binary = meaning[codes]
    if (binary > 1).any():
        at = int((binary > 1).argmax())
        raise _third_value(name, categories, plain(categories[codes[at]]), _place(rows, at), known)
    return binary, pair


def _are_two(categories: Names) -> bool:
    """Whether a column's values are two that mean no and yes without spelling it.

    One known spelling beside another value is a code for what is not known (0 and 9, yes and ?), unless it is 1 and 2,
    -1 and 1, or f and m.
    """
    if len(categories) != 2:
        return False
    if any(is_missing_word(category) or str(category).strip() in UNKNOWN for category in categories.tolist()):
        return False
    spelled = [str(category).strip().lower() for category in categories.tolist()]
    return not any(category in SPELLINGS for category in spelled) or spelled in TWO_OF_ONE_SPELLED


def _in_order(categories: Names) -> bool:
    """Whether two values stand in order: text that spells numbers by its value ('2' before '10'), as in a file."""
    try:
        low, high = (float(category) for category in categories.tolist())
    except (TypeError, ValueError):
        return True
    return low <= high


def _third_value(name: str | int, categories: Names, value: Any, place: str, known: Names | None) -> DataError:
    """The error for a column with a value that cannot be no or yes, or is not one of a fitted model's (`known`)."""
    drop = f"--drop {quote(str(name))}"
    if known is not None and not _is_plain(known):
        two = " and ".join(repr(plain(category)) for category in known)
        return DataError(
            f"column {name!r} holds {value!r}{place}, and the model knows {two} there; write its cells as when the "
            "model was fitted, or leave the cell empty if nothing is known"
        )
    if known is None and len(categories) == 1:
        return DataError(
            f"column {name!r} holds {value!r} alone, which says neither yes nor no; leave the column out "
            f"({drop}), or recode it as 0/1"
        )
    spelled = [plain(category) for category in categories if str(category).strip().lower() in SPELLINGS]
    if known is None and len(categories) == 2 and len(spelled) == 1:
        means = "yes" if SPELLINGS[str(spelled[0]).strip().lower()] else "no"
        return DataError(
            f"column {name!r} holds {value!r}{place} beside {spelled[0]!r}, which means {means}; recode the two as 0/1 "
            f"if they are no and yes, leave the cell empty if nothing is known (--missing {quote(str(value))}), or "
            f"drop the column ({drop})"
        )
    if len(categories) > MAX_SHOWN:
        suggestion = f"give --id {quote(str(name))} if it names the rows, {drop} to leave it out,"
        listed = f"{len(categories):,} values"
    else:
        listed = ", ".join(repr(plain(category)) for category in categories)
        unknown = f"(--missing {quote(str(value))})"
        suggestion = f"leave the cell empty if nothing is known {unknown}, drop the column ({drop}),"
    return DataError(
        f"column {name!r} holds {value!r}{place} ({listed} in all), and clusters are made of columns with two values, "
        f"such as 0/1, yes/no or 1/2; {suggestion} binarize= (--binarize) to cut numbers at a threshold, or use "
        "LatentClass (latentfit table) for categories"
    )


def _place(rows: NDArray[np.intp] | None, at: int) -> str:
    return "" if rows is None else f" in row {rows[at] + 1}"


def _cut(array: Any, name: str | int, threshold: float, rows: NDArray[np.intp] | None) -> NDArray[np.int32]:
    if not np.isfinite(threshold):
        raise DataError(f"binarize must be a finite number, got {threshold}; give a threshold such as 0.5")
    advice = f"leave the column out, for it cannot be cut at {threshold:g}"
    numbers = as_numbers(array, f"column {name!r}", advice, place=partial(_place, rows))
    return np.where(np.isnan(numbers), -1, numbers > threshold).astype(np.int32)
