"""Whatever holds real numbers, samples × features → `Matrix`: frames of any kind, arrays, lists.

Every cell must be a finite number, or missing where the caller allows it (NaN); words that spell numbers are numbers,
since CSV files deliver decimals as text. Features that never change say nothing about switches and are set aside with a
warning. Rows have no names, for they may be more than memory holds (`data/stored_matrix.py`); named rows are a
`NamedMatrix`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from shlex import quote
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.data.frames import as_frame, column
from tacit.data.names import tell_row_names
from tacit.data.numbers import as_numbers
from tacit.data.sampling import numbered_apart, scramble
from tacit.errors import DataError, DataWarning
from tacit.kernels import BLOCK_ROWS, Floats

SMALLEST, LARGEST = 1e-90, 1e90
"""Third moments of larger values overflow, those of smaller ones vanish."""
LEAST_COUNTED = 20
"""Rows from which numbers that grow by one are row numbers."""
SHOWN = 5
"""Names a message lists at most."""


@dataclass(frozen=True)
class Matrix:
    """Real rows (samples, features) with the features' names."""

    values: Floats
    names: tuple[str | int, ...]

    @property
    def n_rows(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    @property
    def first(self) -> Floats:
        """The first row; where a value is missing, the least of its feature."""
        least = np.fmin.reduce(self.values, axis=0)
        return np.asarray(np.where(np.isnan(self.values[0]), least, self.values[0]))

    @cached_property
    def varies(self) -> NDArray[np.bool_]:
        """Which features change at all."""
        return np.asarray(np.fmax.reduce(self.values, axis=0) > np.fmin.reduce(self.values, axis=0))

    @cached_property
    def has_missing(self) -> bool:
        """Whether a value is missing."""
        return bool(np.isnan(self.values).any())

    def values_of(self, begin: int, end: int) -> Floats:
        """Rows of a range."""
        return self.values[begin:end]

    def hashes(self, seed: int, block: int = BLOCK_ROWS) -> NDArray[np.uint64]:
        """One number per row from what it says; equal rows are numbered apart within their block."""
        blocks = [hash_rows(self.values[at : at + block], seed) for at in range(0, self.n_rows, block)]
        return np.concatenate(blocks) if blocks else np.empty(0, np.uint64)

    def take_features(self, kept: NDArray[np.bool_]) -> Matrix:
        """Some of the features."""
        names = tuple(name for name, keep in zip(self.names, kept.tolist(), strict=True) if keep)
        return Matrix(np.ascontiguousarray(self.values[:, kept]), names)


def hash_rows(values: Floats, seed: int) -> NDArray[np.uint64]:
    """One number per row from what it says, equal rows numbered apart; the order of features does not matter."""
    content = np.zeros(len(values), np.uint64)
    for n in range(values.shape[1]):
        content += scramble(cell_words(values[:, n]), seed)  # wraps around, exactly
    return numbered_apart(content, seed)


def cell_words(column: Floats) -> NDArray[np.uint64]:
    """The bits of numbers: 0 and −0 have the same, and so has every NaN."""
    cells = np.ascontiguousarray(column + 0.0)
    cells[np.isnan(cells)] = np.nan
    return cells.view(np.uint64)


def read_matrix(data: Any, *, missing: bool = False) -> Matrix:
    """A matrix of finite numbers from a frame or an array; with `missing` cells may be NaN."""
    frame = as_frame(data)
    if frame is None:
        values = np.asarray(data, np.float64)
        names: tuple[str | int, ...] = tuple(range(values.shape[1]))
    else:
        names = tuple(frame.columns)
        values = frame_values(data, names)
    check_values(values, names, missing=missing)
    check_largest(float(np.fmax.reduce(np.abs(values), axis=None, initial=0.0)))
    return Matrix(np.ascontiguousarray(values), names)


def frame_values(data: Any, names: tuple[str | int, ...], before: int = 0) -> Floats:
    """The columns of a frame as numbers (rows, features); so many rows came `before` these."""
    frame = as_frame(data)
    advice = "leave it out, or give --id {} if it names the rows"
    numbers = [
        as_numbers(column(frame, name), f"feature {name!r}", advice.format(quote(str(name))), before) for name in names
    ]
    return np.stack(numbers, axis=1) if numbers else np.empty((len(frame), 0))  # type: ignore[arg-type]


def check_values(
    values: Floats, names: tuple[str | int, ...], before: int | None = None, *, missing: bool = False
) -> None:
    """Every cell must be a finite number, or NaN with `missing`.

    So many rows came `before` these; None: these are all.
    """
    if values.shape[1] == 0:
        raise DataError("the data has no features; give at least one column of numbers")
    bad = np.isinf(values) if missing else ~np.isfinite(values)
    if bad.any():
        row, at = (int(index[0]) for index in np.nonzero(bad))
        count = "" if before is not None else f", {int(bad.sum())} such cells in all"
        place = f"row {(before or 0) + row + 1}{count}"
        if np.isnan(values[row, at]):
            raise DataError(
                f"feature {names[at]!r} holds a missing value (NaN) in {place}; give engine='memory' "
                "(--engine memory), or leave these rows out"
            )
        raise DataError(f"feature {names[at]!r} holds inf in {place}; leave these rows out")


def check_largest(largest: float) -> None:
    """Third powers of the largest value must be numbers."""
    if largest and not SMALLEST < largest < LARGEST:
        raise DataError(f"the largest value is {largest:g}, whose powers no computer number holds; give other units")


def tell_counting(matrix: Varying) -> None:
    """Warn of a feature that is a row's number: the index that another program wrote along."""
    values = getattr(matrix, "values", np.empty((0, 0)))  # of rows in a file only the names are at hand
    for at, name in enumerate(matrix.names if len(values) >= LEAST_COUNTED else ()):
        if (np.diff(values[:, at]) == 1).all():
            tell_row_names("feature", name, "counts the rows", stacklevel=5)


class Varying(Protocol):
    """Rows whose features may or may not change."""

    @property
    def n_rows(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def names(self) -> tuple[str | int, ...]: ...
    @property
    def first(self) -> Floats: ...
    @property
    def varies(self) -> NDArray[np.bool_]: ...


def varying_features(matrix: Varying) -> NDArray[np.bool_]:
    """Which features change at all; those that do not are named in a warning."""
    varies = matrix.varies
    first = matrix.first
    empty = np.isnan(first)
    if empty.all():
        raise DataError(f"none of the {matrix.n_features} features holds a value; give at least one column of numbers")
    if not varies.any():
        raise DataError(
            f"all {matrix.n_features} features are the same in all {matrix.n_rows} rows; give rows that differ"
        )
    tell_counting(matrix)
    if empty.any():
        warnings.warn(
            f"{empty.sum()} features hold no value ({_listed(matrix.names, empty)}); they were set aside and weigh 0 "
            "in every switch",
            DataWarning,
            stacklevel=4,
        )
    fixed = ~varies & ~empty
    if fixed.any():
        warnings.warn(
            f"{fixed.sum()} features never change ({_listed(matrix.names, fixed)}); they were set aside and weigh 0 "
            "in every switch",
            DataWarning,
            stacklevel=4,
        )
    return np.asarray(varies)


def _listed(names: tuple[str | int, ...], marked: NDArray[np.bool_]) -> str:
    """Some of the marked names."""
    some = [str(names[at]) for at in np.flatnonzero(marked).tolist()]
    return ", ".join(some[:SHOWN]) + (", …" if len(some) > SHOWN else "")
