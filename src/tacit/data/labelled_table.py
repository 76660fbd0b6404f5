"""Tables whose last column is a label: putting it there, taking it away, counting it, leaving rows of it out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.data.sampling import row_hashes
from tacit.data.table import Column, Table, group_rows
from tacit.errors import DataError
from tacit.kernels import Floats

Owners = NDArray[np.intp]


def with_label(table: Table, codes: NDArray[np.intp], label: Column) -> Table:
    """The table with a label as its last column; equal rows grouped."""
    if label.size > np.iinfo(np.uint16).max:
        raise DataError(f"there are {label.size:,} different labels; that looks like an id, not like a label")
    if label.size > np.iinfo(table.codes.dtype).max:  # the largest code means missing
        missing = table.codes == np.iinfo(table.codes.dtype).max
        wide = np.where(missing, np.uint16(np.iinfo(np.uint16).max), table.codes)
        table = replace(table, codes=wide)
    last = codes.astype(table.codes.dtype)[:, None]
    both = np.ascontiguousarray(np.hstack([table.codes, last]))
    return group_rows(replace(table, codes=both, columns=(*table.columns, label)))


def without_label(table: Table) -> Table:
    return replace(table, codes=np.ascontiguousarray(table.codes[:, :-1]), columns=table.columns[:-1])


def labels_of(table: Table) -> Owners:
    return table.codes[:, -1].astype(np.intp)


def label_counts(table: Table) -> Floats:
    """Rows of every label (L,), with their weights."""
    return np.asarray(np.bincount(labels_of(table), table.each_weight(), minlength=table.columns[-1].size), np.float64)


def fold_weights(table: Table, n_folds: int, seed: int) -> Floats:
    """How much of every row's weight is left out in each fold (fold, n).

    The rows of a pattern are dealt to the folds one by one from a fold that its content decides: the order of rows does
    not matter, and a pattern that many rows share is known in every fold.
    """
    weight, begin = table.each_weight(), (row_hashes(table, seed) % np.uint64(n_folds)).astype(np.intp)
    rows = table.rows_each() if table.sampling else weight
    whole = np.floor(rows / n_folds)
    rest = rows - n_folds * whole
    turn = (np.arange(n_folds)[:, None] - begin) % n_folds  # which copy of the rest a fold gets
    return np.asarray((whole + np.clip(rest - turn, 0.0, 1.0)) * (weight / rows))
