"""The few hot loops, compiled: one checked wrapper per kernel, nothing else.

A kernel is a pure function over arrays. The wrappers check dtype, shape and contiguity, pad the class axis
to the width the vectors want, and turn a return code into an exception. Threads live inside the kernels;
results have the same bits for every number of threads.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK_ROWS = 65_536
"""Rows of a block: the unit whose sums are added in order."""
PART_BLOCKS = 16
"""Blocks of a part: what one kernel call may take."""
PART_ROWS = PART_BLOCKS * BLOCK_ROWS
"""Rows of a part."""
WIDEST = 1024
"""Most classes a kernel can hold."""


class CsrRows(NamedTuple):
    """Rows in CSR form: row i owns ``indices[indptr[i]:indptr[i + 1]]``, each a row of the table."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1


class PackedColumns(NamedTuple):
    """Which columns share a code: those in ``groups[g]:groups[g + 1]``, the last running fastest.

    `sizes` are a column's cells, `states` as many and one more where values are missing.
    """

    sizes: NDArray[np.int32]
    states: NDArray[np.int32]
    groups: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class DenseCodes:
    """Rows as a code matrix; larger codes than a column's categories are missing values.

    Column n owns table rows ``column_offsets[n]:column_offsets[n + 1]``. With `packed` a code stands for several
    columns: `column_offsets` counts the states of groups, the table those of columns.
    """

    codes: NDArray[np.uint8] | NDArray[np.uint16]
    column_offsets: NDArray[np.int32]
    packed: PackedColumns | None = None

    @cached_property
    def arguments(self) -> list[Any]:
        """Checked and as the kernels take them; a table that stays asks for them once."""
        wide = self.codes.dtype == np.uint16
        _check(self.codes, np.uint16 if wide else np.uint8, (None, len(self.column_offsets) - 1), "codes")
        _check(self.column_offsets, np.int32, (None,), "column_offsets")
        return [_pointer(self.codes), _pointer(self.column_offsets), ctypes.c_int64(self.codes.shape[1])]

    @cached_property
    def packed_arguments(self) -> list[Any]:
        """What a pass over a mixture also wants to know."""
        if self.packed is None:
            return [_pointer(None)] * 3
        sizes, states, groups = self.packed
        _check(sizes, np.int32, (None,), "sizes")
        _check(states, np.int32, (len(sizes),), "states")
        _check(groups, np.int32, (len(self.column_offsets),), "groups")
        return [_pointer(sizes), _pointer(states), _pointer(groups)]

    def __reduce__(self) -> tuple[Any, ...]:
        return DenseCodes, (self.codes, self.column_offsets, self.packed)  # addresses mean nothing elsewhere

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[0])


Cells = CsrRows | DenseCodes


@cache
def _library() -> ctypes.CDLL:
    name = "latentfit/core/kernels/libkernels.so"
    places = [Path(__file__).parent / "libkernels.so"]
    with suppress(PackageNotFoundError):  # an editable install keeps the library apart from the sources
        places.append(Path(str(distribution("latentfit").locate_file(name))))
    for place in places:
        if place.exists():
            return ctypes.CDLL(str(place))
    raise ImportError(
        f"the compiled kernels of latentfit were not found (looked for {', '.join(map(str, places))}); "
        "install the package with pip and a C++ compiler (GCC >= 12 or Clang >= 14)"
    )


def _pointer(array: NDArray[Any] | None) -> ctypes.c_void_p:
    # `array.ctypes` would build an object for every call; small tables make thousands of calls a second
    return ctypes.c_void_p(None if array is None else array.__array_interface__["data"][0])


def _check(array: NDArray[Any], dtype: type, shape: tuple[int | None, ...], name: str) -> NDArray[Any]:
    fits = array.dtype == dtype and array.ndim == len(shape) and array.flags.c_contiguous
    if not fits or any(want is not None and want != got for want, got in zip(shape, array.shape, strict=True)):
        raise TypeError(f"{name}: want contiguous {np.dtype(dtype)} of shape {shape}, got {array.dtype} {array.shape}")
    return array


def _source(cells: Cells) -> tuple[str, list[Any]]:
    if isinstance(cells, CsrRows):
        _check(cells.indptr, np.int64, (None,), "indptr")
        _check(cells.indices, np.int32, (None,), "indices")
        return "ragged", [_pointer(cells.indptr), _pointer(cells.indices)]
    return "dense16" if cells.codes.dtype == np.uint16 else "dense8", cells.arguments


def _mixture(log_weights: Floats, log_table: Floats) -> tuple[int, int, Floats, Floats]:
    """Classes, rows of the table, and both as the kernel reads them: it pads and aligns its own copy."""
    n_classes = len(log_weights)
    if n_classes > WIDEST:
        raise ValueError(f"{n_classes} classes asked for, at most {WIDEST} fit; ask for fewer")
    weights, table = np.ascontiguousarray(log_weights), np.ascontiguousarray(log_table)
    _check(weights, np.float64, (None,), "log_weights")
    _check(table, np.float64, (None, n_classes), "log_table")
    return n_classes, len(table), weights, table


def _padded(array: Floats, width: int) -> Floats:
    """Rows filled up with zeros to a width that the vectors want."""
    if array.shape[-1] == width:
        return np.ascontiguousarray(array)
    out = np.zeros((*array.shape[:-1], width))
    out[..., : array.shape[-1]] = array
    return out


def _run(name: str, arguments: list[Any]) -> None:
    if getattr(_library(), name)(*arguments):
        raise MemoryError(f"kernel {name}: no memory for its buffers; use fewer threads or classes")


def mixture_sums(
    cells: Cells, log_weights: Floats, log_table: Floats, *, row_weight: Floats | None = None, threads: int = 1
) -> tuple[float, Floats, Floats]:
    """Log-likelihood (nats), class totals (F,) and table sums (C, F) of at most one part of rows."""
    n_classes, table_rows, weights, table = _mixture(log_weights, log_table)
    suffix, source = _source(cells)
    if row_weight is not None:
        _check(row_weight, np.float64, (cells.n_rows,), "row_weight")
    total, table_sum = np.zeros(n_classes), np.zeros((table_rows, n_classes))
    log_likelihood = ctypes.c_double()
    arguments = [
        *source,
        *([] if isinstance(cells, CsrRows) else cells.packed_arguments),
        ctypes.c_int64(cells.n_rows),
        _pointer(row_weight),
        _pointer(weights),
        _pointer(table),
        ctypes.c_int64(table_rows),
        ctypes.c_int(n_classes),
        ctypes.c_int(max(threads, 1)),
        _pointer(total),
        _pointer(table_sum),
        ctypes.byref(log_likelihood),
    ]
    _run(f"mixture_sums_{suffix}", arguments)
    return log_likelihood.value, total, table_sum


def mixture_rows(cells: Cells, log_weights: Floats, log_table: Floats, *, threads: int = 1) -> tuple[Floats, Floats]:
    """Posterior (rows, F) and log-likelihood (rows,) of every row."""
    n_classes, table_rows, weights, table = _mixture(log_weights, log_table)
    suffix, source = _source(cells)
    posterior, row_log_likelihood = np.empty((cells.n_rows, n_classes)), np.empty(cells.n_rows)
    arguments = [
        *source,
        *([] if isinstance(cells, CsrRows) else cells.packed_arguments),
        ctypes.c_int64(cells.n_rows),
        _pointer(weights),
        _pointer(table),
        ctypes.c_int64(table_rows),
        ctypes.c_int(n_classes),
        ctypes.c_int(max(threads, 1)),
        _pointer(posterior),
        _pointer(row_log_likelihood),
    ]
    _run(f"mixture_rows_{suffix}", arguments)
    return posterior, row_log_likelihood


def pair_counts(cells: DenseCodes, *, threads: int = 1) -> NDArray[np.int64]:
    """Exact counts (C, C), upper triangle: in how many rows two cells occur together."""
    size = int(cells.column_offsets[-1])
    suffix, source = _source(cells)
    counts = np.zeros((size, size), np.int64)
    arguments = [*source, ctypes.c_int64(cells.n_rows), ctypes.c_int(max(threads, 1)), _pointer(counts)]
    _run(f"pair_counts_{suffix}", arguments)
    return counts
