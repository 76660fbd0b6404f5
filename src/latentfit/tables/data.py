"""Tables whose last column is a label: putting it there, taking it away, counting it, leaving rows of it out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.sampling import row_hashes
from latentfit.core.table.table import Column, Table, group_rows

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

    Every replicate of a unique row goes to a fold of its own accord, the first to one that its content decides, the
    others by chance, drawn in an order that contents decide: the order of rows does not matter. Dealing them out
    evenly would give each fold the proportions of labels of the whole table, so that what is chance in the rows seen
    returns in those left out, and labels that follow from nothing seem to be predicted.
    """
    weight, hashes = table.each_weight(), row_hashes(table, seed)
    begin = (hashes % np.uint64(n_folds)).astype(np.intp)
    rows = np.asarray(table.rows_each() if table.sampling else weight, np.float64)
    others = np.maximum(np.floor(rows) - 1, 0).astype(np.int64)
    order = np.argsort(hashes, kind="stable")
    drawn = np.empty((len(rows), n_folds))
    drawn[order] = np.random.default_rng(seed).multinomial(others[order], np.full(n_folds, 1 / n_folds))
    drawn[np.arange(len(rows)), begin] += rows - others
    return np.asarray(drawn.T * (weight / rows))
