"""Checked wrappers of the passes over rows of sparse pair counts."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats, _check, _padded, _pointer, _run

LEAST_LEVELS = 2


@dataclass(frozen=True)
class PairRows:
    """Counts as the kernels read them (CSR)."""

    starts: NDArray[np.int64]  # (rows + 1,)
    columns: NDArray[np.int32]  # (stored,)
    counts: Floats  # (stored,)
    n_columns: int

    @classmethod
    def of(cls, matrix: Any) -> PairRows:
        """From a scipy.sparse CSR matrix; only what has another type is copied."""
        return cls(
            np.ascontiguousarray(matrix.indptr, np.int64),
            np.ascontiguousarray(matrix.indices, np.int32),
            np.ascontiguousarray(matrix.data, np.float64),
            int(matrix.shape[1]),
        )

    @property
    def n_rows(self) -> int:
        return len(self.starts) - 1

    def head(self) -> list[Any]:
        _check(self.starts, np.int64, (None,), "starts")
        _check(self.columns, np.int32, (int(self.starts[-1]),), "columns")
        _check(self.counts, np.float64, (int(self.starts[-1]),), "counts")
        return [_pointer(self.starts), _pointer(self.columns), _pointer(self.counts), ctypes.c_int64(self.n_rows)]


def pair_product(rows: PairRows, vector: Floats, *, threads: int = 1) -> Floats:
    """C x, (rows,)."""
    _check(vector, np.float64, (rows.n_columns,), "vector")
    out = np.empty(rows.n_rows)
    _run("pair_product", [*rows.head(), _pointer(vector), ctypes.c_int(max(threads, 1)), _pointer(out)])
    return out


def pair_ratios(
    rows: PairRows, left: Floats, right: Floats, *, floor: float, threads: int = 1
) -> tuple[Floats, Floats]:
    """Σ_j C_ij / p_ij · right_j (rows, K) and Σ_j C_ij log p_ij (rows,), p_ij = left_i · right_j at least `floor`."""
    size = left.shape[1]
    _check(left, np.float64, (rows.n_rows, None), "left")
    _check(right, np.float64, (rows.n_columns, size), "right")
    width = -(-size // 4) * 4
    padded = [_padded(part, width) for part in (left, right)]
    out, value = np.zeros((rows.n_rows, width)), np.empty(rows.n_rows)
    tail = [ctypes.c_int(width), ctypes.c_double(floor), ctypes.c_int(max(threads, 1)), _pointer(out), _pointer(value)]
    _run("pair_ratios", [*rows.head(), *map(_pointer, padded), *tail])
    return out[:, :size], value


@dataclass(frozen=True)
class Side:
    """Posterior mean and variance of one side's items, and the interval the means lie in.

    The product of two items' rates is the count of their pair under independence; None where that is next to nothing.
    """

    mean: Floats
    var: Floats
    low: float
    high: float
    rate: Floats | None = None


def pair_levels(
    rows: PairRows, own: Side, partner: Side, *, levels: int, sign: float, least: float, threads: int = 1
) -> tuple[Floats, Floats]:
    """Counts of each row over `levels` even steps of its partners' cavity means, and their moments (3,).

    The cavity mean is what the partner would be without this pair, to first order. The moments are sums over counts of
    (partner · own, partner, own), all without the pair.
    """
    packed = []
    for side, size, name in ((own, rows.n_rows, "own"), (partner, rows.n_columns, "partner")):
        _check(side.mean, np.float64, (size,), f"{name}.mean")
        _check(side.var, np.float64, (size,), f"{name}.var")
        if not side.high > side.low:
            raise ValueError(f"{name}: the interval from {side.low} to {side.high} is empty")
        rate = np.zeros(size) if side.rate is None else side.rate
        _check(rate, np.float64, (size,), f"{name}.rate")
        packed.append(np.column_stack([side.mean, side.var, rate]))
    if levels < LEAST_LEVELS:
        raise ValueError(f"{levels} levels asked for; give at least {LEAST_LEVELS}")
    out, moments = np.zeros((rows.n_rows, levels)), np.empty((rows.n_rows, 3))
    arguments = [
        *rows.head(),
        *(_pointer(part) for part in packed),
        *(ctypes.c_double(number) for number in (sign, partner.low, partner.high, own.low, own.high)),
        ctypes.c_int(levels),
        ctypes.c_double(least),
        ctypes.c_int(max(threads, 1)),
        _pointer(out),
        _pointer(moments),
    ]
    _run("pair_levels", arguments)
    return out, moments.sum(axis=0)
