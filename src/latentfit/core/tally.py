"""Counts of pairs of codes, added as they come: every cell is held once, however many rows spoke of it.

Whole numbers are added as int64, exactly. Fractions are added in the order of the rows, one after the other, so the
sums have the same bits whether the rows came in one batch or in many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.kernels import BLOCK_ROWS
from latentfit.core.names import LARGEST_EXACT

Ints = NDArray[np.int64]

WAITING = 32 * BLOCK_ROWS
"""Rows that wait before they are added to the cells; more where there are more cells, so that adding stays linear."""


class CellTally:
    """A growing sparse matrix: cells (row code, column code) and their sums."""

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, np.int64)
        self._sums: NDArray[Any] = np.empty(0, np.int64)
        self._waiting: list[tuple[Ints, NDArray[Any]]] = []
        self._n_waiting = 0

    def add(self, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any] | None = None) -> None:
        """Add a value to each of some cells; None is one each. Rows that belong to no cell (-1) are left out."""
        named = (rows >= 0) & (columns >= 0)
        if not named.all():
            rows, columns, values = rows[named], columns[named], None if values is None else values[named]
        keys = rows.astype(np.int64) << np.int64(32) | columns.astype(np.int64)
        self._waiting.append((keys, np.ones(len(keys), np.int64) if values is None else _whole_if_exact(values)))
        self._n_waiting += len(keys)
        if self._n_waiting > max(WAITING, len(self._keys)):
            self._merge()

    def cells(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]:
        """Row codes, column codes and sums of all cells: int64 when every value was whole, else float64."""
        self._merge()
        return (self._keys >> 32).astype(np.int32), (self._keys & 0xFFFFFFFF).astype(np.int32), self._sums

    def _merge(self) -> None:
        keys = np.concatenate([self._keys, *(one for one, _ in self._waiting)])
        values = np.concatenate([self._sums, *(one for _, one in self._waiting)])  # float64 if any of them is
        self._waiting, self._n_waiting = [], 0
        if len(keys):
            self._keys, self._sums = added(keys, values)


def sparse_sums(
    rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """Values of the same cell added, as a sparse matrix; fractions in the order given, which scipy does not promise."""
    if values.dtype.kind == "f" and _whole_if_exact(values).dtype.kind == "f":
        keys, values = added(rows.astype(np.int64) << np.int64(32) | columns.astype(np.int64), values)
        rows, columns = keys >> 32, keys & 0xFFFFFFFF
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=shape).tocsr())


def added(keys: Ints, values: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Distinct keys in order, and the sums of their values, added in the order given."""
    order = np.argsort(keys, kind="stable")
    ordered, values = keys[order], values[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    if values.dtype.kind == "i":
        return ordered[new], np.add.reduceat(values, np.flatnonzero(new))
    return ordered[new], np.bincount(np.cumsum(new) - 1, values)  # one after the other, as they stand


def _whole_if_exact(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    if bool((np.abs(values) <= LARGEST_EXACT).all() and (values == np.floor(values)).all()):
        return values.astype(np.int64)
    return values.astype(np.float64)
