"""Whatever holds a categorical table → `Table`: frames of any kind, matrices with missing values.

Words, booleans and integers are categories; numbers with few values are ordered categories. Words that all spell
finite numbers are numbers, since CSV files deliver decimals as text, unless one is written with leading zeros: `007`
is a name. A numeric column with many distinct values is refused with a sentence that names `bins=`, or cut into that
many intervals of equal weight. A column without a single observed value is set aside with a warning: it says nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from latentfit.core.errors import DataError, DataWarning, nearest
from latentfit.core.frames import as_frame, column
from latentfit.core.kernels import Floats
from latentfit.core.names import (
    are_words,
    encode,
    interval_names,
    match,
    missing_of,
    to_arrow,
    warn_row_names,
    warn_similar_names,
)
from latentfit.core.numbers import is_missing_word, worth_of
from latentfit.core.table.table import Codes, Column, Table, group_rows, with_weights
from latentfit.core.table.weights import WeightType, check_weight, scale_of

# Intervals of columns with many numbers, or those of named columns, whose numbers may be few.
Bins = int | Mapping[str | int, int] | None


class LearnColumn(Protocol):
    """How columns are learned from their categories when rows are coded apart from them."""

    def check(self, names: Sequence[str | int]) -> None:
        """Refuse settings that no column of these names fits."""

    def __call__(self, values: Any, name: str | int, counts: NDArray[Any]) -> tuple[NDArray[np.int32], Column]:
        """Codes and categories of a column from its distinct values and how many rows each stands for, with weights."""
        ...

    def warn(self, columns: Sequence[Column]) -> None:
        """Warn of what was learned otherwise than people may have meant it."""


@dataclass(frozen=True)
class LearnCategories:
    """Learns the categories of a table."""

    bins: Bins = None

    def check(self, names: Sequence[str | int]) -> None:
        check_bins(self.bins, names)

    def __call__(self, values: Any, name: str | int, counts: NDArray[Any]) -> tuple[NDArray[np.int32], Column]:
        return learn_column(values, name, self.bins, counts)

    def warn(self, columns: Sequence[Column]) -> None:
        """What is odd about categories is reported for every table (`warn_unusual_columns`)."""


# Codes (-1: missing) and categories of all columns, one after another, from their names and arrays.
CodeColumns = Callable[[list[str | int], list[Any]], Iterable[tuple[NDArray[np.int32], Column]]]

MAX_NUMBERS = 50  # Distinct numbers per column may hold as categories: more is a measurement, and wants bins.
MAX_CATEGORIES = 10_000  # Distinct values of a column of text: more is an id.
MIN_NAMES = 20  # Rows from which texts that never repeat are names of rows.
NO_COLUMN = "the table has 0 columns; give at least one"
LEADING_ZERO = r"^[+-]?0\d"  # A number written like this is a name: a postal code, a product, an agent.


def read_table(
    data: Any,
    *,
    bins: Bins = None,
    sample_weight: Any = None,
    weight_type: WeightType = "sampling",
    columns: Sequence[Column] | None = None,
    group: bool = True,
) -> Table:
    """A coded table; `columns` are those of a fitted model, under which new data is read."""

    def code(names: list[str | int], arrays: list[Any]) -> Iterable[tuple[NDArray[np.int32], Column]]:
        if columns is not None:
            return _apply(names, arrays, columns)
        check_bins(bins, names)
        weight = None if sample_weight is None else np.asarray(sample_weight, np.float64).reshape(-1)
        counts = None if weight is None else weight[weight > 0]  # rows without weight are gone when cells are read
        unit = 1.0
        if counts is not None and weight_type == "sampling":
            scale = scale_of([counts], float(counts.max()))
            counts = np.ldexp(counts, -scale.exponent) if scale.uneven else None
            unit = scale.factor
        return (learn_column(array, name, bins, counts, unit) for name, array in zip(names, arrays, strict=True))

    table = code_table(data, code, sample_weight, weight_type, group)
    if columns is None:
        warn_unusual_columns(table.columns, table.n_samples)
    return table


def code_table(data: Any, code: CodeColumns, sample_weight: Any, weight_type: WeightType, group: bool) -> Table:
    """A table from whatever holds one, its columns coded by `code`; columns without a value are set aside."""
    names, arrays = columns_of(data)
    weight = check_weight(sample_weight, len(arrays[0]), weight_type)
    if weight is not None and not weight.all():  # a row without weight is an absent row: not even its categories count
        arrays = [to_arrow(array, "column").filter(pa.array(weight > 0)) for array in arrays]
        weight = weight[weight > 0]
    coded = [_narrow(*pair) for pair in code(names, arrays)]
    used = [(codes, learned) for codes, learned in coded if learned.size]
    if not used:
        raise DataError(f"none of the {len(names)} columns holds a value; every cell is missing")
    warn_empty_columns([learned.name for _, learned in coded if not learned.size])
    table = Table(_side_by_side([codes for codes, _ in used]), tuple(learned for _, learned in used))
    table = table if weight is None else with_weights(table, weight, weight_type)
    return group_rows(table) if group else table


def _narrow(codes: NDArray[np.int32], learned: Column) -> tuple[Codes, Column]:
    """Codes in the smallest type that holds them, the largest value for a missing value: a long table never exists
    wide."""
    dtype: Any = np.uint16 if learned.size > 254 else np.uint8
    return np.where(codes < 0, np.iinfo(dtype).max, codes).astype(dtype), learned


def _side_by_side(columns: list[Codes]) -> Codes:
    """Coded columns as one matrix; a missing value is the largest value of the widest type."""
    dtype = np.result_type(*columns)
    out = np.empty((len(columns[0]), len(columns)), dtype)
    for n, codes in enumerate(columns):
        out[:, n] = codes
        if codes.dtype != dtype:
            out[codes == np.iinfo(codes.dtype).max, n] = np.iinfo(dtype).max
    return out


def columns_of(data: Any) -> tuple[list[str | int], list[Any]]:
    frame = as_frame(data)
    if frame is not None:
        names: list[str | int] = list(frame.columns)
        arrays: list[Any] = [column(frame, name) for name in names]
    else:
        matrix = np.asarray(data)
        if matrix.ndim != 2:
            raise DataError(
                f"X must have 2 dimensions, got an array of {matrix.ndim}; give a frame or an array (row, column)"
            )
        names, arrays = list(range(matrix.shape[1])), [matrix[:, n] for n in range(matrix.shape[1])]
    if not names:
        raise DataError(NO_COLUMN)
    if not len(arrays[0]):
        raise DataError(f"the table has no rows (columns {names[:8]}); give at least one row")
    return names, arrays


def learn_column(
    array: Any, name: str | int, bins: Bins, counts: NDArray[Any] | None = None, unit: float = 1.0
) -> tuple[NDArray[np.int32], Column]:
    """Codes (-1: missing) and categories of a column; `counts` says for how many rows, times `unit`, each value
    stands."""
    array = spelled_numbers(to_arrow(array, f"{name!r}"))
    if pa.types.is_floating(array.type) and pc.any(pc.is_inf(array)).as_py():
        raise DataError(f"column {name!r} holds an infinite number; leave the cell empty or give a finite number")
    codes, categories = encode(array, f"{name!r}")
    numbers = categories.dtype.kind in "iuf"
    asked = bins.get(name) if isinstance(bins, Mapping) else bins
    if isinstance(bins, Mapping) and asked is not None and not numbers:
        raise DataError(
            f"bins= names column {name!r}, which holds text such as {categories.tolist()[0]!r}; leave it out"
        )
    if numbers and (len(categories) > MAX_NUMBERS or (asked and len(categories) > asked)):
        rows = np.bincount(codes[codes >= 0], None if counts is None else counts[codes >= 0], minlength=len(categories))
        if asked is None:
            counted = counts is None or counts.dtype.kind == "i"  # not weights of rows, which may be anything
            raise _many_numbers(
                name, len(categories), ids=counted and categories.dtype.kind in "iu" and bool(rows.max() == 1)
            )
        return _learn_bins(categories.astype(np.float64), codes, rows.astype(np.float64) * unit, name, asked)
    if len(categories) > MAX_CATEGORIES:
        raise DataError(
            f"column {name!r} holds {len(categories):,} distinct values, at most {MAX_CATEGORIES:,} can be categories; "
            f"it looks like an id: leave it out (--drop {quote(str(name))}, or --id {quote(str(name))} if it names the "
            "rows)"
        )
    return codes, Column(name, categories)


def _many_numbers(name: str | int, distinct: int, *, ids: bool) -> DataError:
    """The sentence for more numbers than can be categories; whole numbers that never repeat may be `ids`."""
    said, most = quote(str(name)), f"at most {MAX_NUMBERS} can be categories"
    if ids:
        return DataError(
            f"column {name!r} has another number in every row ({distinct:,} of them), {most}; if it names the rows "
            f"leave it out (--id {said}, or --drop {said}), else cut it into intervals with bins={{{name!r}: 10}} "
            f"(--bins {said}=10)"
        )
    return DataError(
        f"column {name!r} holds {distinct:,} distinct numbers, {most}; give bins=10 (--bins 10) to cut such columns "
        f"into intervals, or leave the column out (--drop {said})"
    )


def check_bins(bins: Bins, names: Sequence[str | int]) -> None:
    """Refuse intervals of unknown columns, and numbers of intervals that cannot be."""
    if not isinstance(bins, Mapping):
        if not isinstance(bins, int | np.integer | None):
            raise DataError(f"bins must be an int, a mapping or None, got {bins!r}; give a number, or {{'age': 5}}")
        return
    for name, number in bins.items():
        if name not in names:
            hint = nearest(str(name), [str(one) for one in names], "the columns are")
            raise DataError(f"bins= names a column {name!r} that the table does not have; {hint}")
        if not isinstance(number, int | np.integer) or number < 2:
            raise DataError(f"bins[{name!r}] must be an int >= 2, got {number!r}; give a whole number above 1")


def _learn_bins(
    values: Floats, codes: NDArray[np.int32], rows: Floats, name: str | int, bins: int
) -> tuple[NDArray[np.int32], Column]:
    """Intervals of a column with distinct numbers `values`, each in so many `rows`."""
    if bins < 2:
        raise DataError(f"bins must be an int >= 2, got {bins} for column {name!r}; give 2 or more")
    if bins > MAX_CATEGORIES:  # as many as categories; codes have two bytes
        most = f"{MAX_CATEGORIES:,}"
        raise DataError(f"bins={bins} cuts column {name!r} into more than {most} intervals; give 2 to {most}")
    if rows.max() == 1 and (np.diff(values) == 1).all():  # cut, nothing of it would show later (`warn_unusual_columns`)
        warn_row_names("column", name, f"holds every number from {values[0]:g} to {values[-1]:g} once", stacklevel=7)
    edges = np.unique(_quantiles(values, rows, np.arange(1, bins) / bins))
    edges = edges[edges > values.min()]  # below the least value there is nothing to count
    edges = edges if len(edges) else values[1:2]  # nearly all rows have the least value: it, and all above
    interval = _cut(values, np.arange(len(values), dtype=np.int32), edges)
    count = np.bincount(interval, rows, minlength=len(edges) + 1)
    centres = np.bincount(interval, values * rows, minlength=len(edges) + 1) / np.where(count > 0, count, 1)
    return np.append(interval, np.int32(-1))[codes], Column(name, interval_names(edges), edges, centres)


def _quantiles(values: Floats, rows: Floats, proportions: Floats) -> Floats:
    """Quantiles (linear between neighbours) of distinct, sorted numbers that stand in so many rows each.

    Weights that are proportions of one row are taken as if they were a row for every number on average.
    """
    behind = np.cumsum(rows / min(rows.mean(), 1.0))
    place = proportions * (behind[-1] - 1)
    low = np.floor(place)
    below, above = (values[np.searchsorted(behind, np.minimum(at, behind[-1] - 1), "right")] for at in (low, low + 1))
    return np.asarray(below + (above - below) * (place - low))


def spelled_numbers(array: Any) -> Any:
    """A column of text as numbers when all of them spell finite numbers; otherwise itself."""
    if not are_words(array.type):
        return array
    distinct = pc.unique(array).drop_null()
    try:
        numbers = distinct.cast(pa.float64())
    except pa.ArrowInvalid:
        return array
    plain = (
        pc.all(pc.is_finite(numbers)).as_py() and not pc.any(pc.match_substring_regex(distinct, LEADING_ZERO)).as_py()
    )
    return array.cast(pa.float64()) if len(distinct) and plain else array


def pick_known(names: list[str | int], arrays: list[Any], columns: Sequence[Column]) -> list[tuple[Any, Column]]:
    """The arrays of a model's columns, in its order; one that does not exist is refused."""
    at = {name: index for index, name in enumerate(names)}
    lacking = [known.name for known in columns if known.name not in at]
    if lacking:
        raise DataError(
            f"the model knows a column {lacking[0]!r} that is not among {names[:8]}; add it, missing values allowed"
        )
    return [(arrays[at[known.name]], known) for known in columns]


def _apply(
    names: list[str | int], arrays: list[Any], columns: Sequence[Column]
) -> list[tuple[NDArray[np.int32], Column]]:
    coded: list[tuple[NDArray[np.int32], Column]] = []
    unseen, example = 0, ""
    for given, known in pick_known(names, arrays, columns):
        array = to_arrow(given, f"{known.name!r}")
        codes = _match(array, known)
        strange = (codes < 0) & ~missing_of(array)
        if strange.any():
            unseen += int(strange.sum())
            example = example or f"{array[int(strange.argmax())].as_py()!r} in column {known.name!r}"
        coded.append((codes, known))
    if unseen:
        warnings.warn(
            f"categories that the model has never seen stand in {unseen:,} cells, for example {example[:200]}; "
            "they are treated as missing",
            DataWarning,
            stacklevel=4,
        )
    return coded


def _match(array: Any, known: Column) -> NDArray[np.int32]:
    """Codes of new cells under a known column; -1 for missing and unseen."""
    kind = known.categories.dtype.kind
    codes, categories = encode(array, f"{known.name!r}")
    spelled = categories.dtype.kind not in "iufb"
    if known.edges is not None:
        return _cut(worth_of(categories.tolist()) if spelled else categories.astype(np.float64), codes, known.edges)
    if not spelled or kind not in "iufb":
        return match(array, known.categories, f"{known.name!r}")
    worth = {"true": 1.0, "false": 0.0} if kind == "b" else {}
    numbers = worth_of(categories.tolist())
    values = [worth.get(str(value).lower(), number) for value, number in zip(categories, numbers, strict=True)]
    code_of = {float(value): code for code, value in enumerate(known.categories.tolist())}
    return np.array([*(code_of.get(value, -1) for value in values), -1], np.int32)[codes]


def _cut(values: Floats, codes: NDArray[np.int32], edges: Floats) -> NDArray[np.int32]:
    if not len(values):
        return codes
    bin_of = np.where(np.isfinite(values), np.searchsorted(edges, values, side="right"), -1).astype(np.int32)
    return np.append(bin_of, np.int32(-1))[codes]


def warn_unusual_columns(columns: Sequence[Column], n_rows: int) -> None:
    """Warn of what is read as it stands and seldom meant: words for missing values, and names of rows."""
    text_columns = [one for one in columns if one.categories.dtype.kind == "O" and one.edges is None]
    markers = [(one.name, value) for one in text_columns for value in one.categories if is_missing_word(value)]
    if markers:
        warnings.warn(
            f"column {markers[0][0]!r} holds the word {markers[0][1]!r}, which counts as a category; where nothing "
            "is known leave the cell empty",
            DataWarning,
            stacklevel=6,
        )
    warn_similar_names({f"column {one.name!r} holds": one.categories for one in text_columns})
    names = [one.name for one in columns if one.size == n_rows >= MIN_NAMES and one.edges is None]
    if names:
        warn_row_names("column", names[0], "has another value in every row", stacklevel=7)


def warn_empty_columns(names: list[str | int]) -> None:
    if names:
        warnings.warn(
            f"columns without a single value are set aside: {len(names)}, for example {names[0]!r}",
            DataWarning,
            stacklevel=5,
        )
