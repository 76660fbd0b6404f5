"""The rows of a table one by one: a row of weight 3 is three rows, in an order that does not depend on the file's.

A grouped table holds each unique row once with its weight. What draws a label for every row, deals rows to folds or
permutes cells among them needs the rows themselves. Rules:

- weights that count rows are replicated rows: unique row and copy number give the row its hash, so a row of weight w
  and w equal rows draw the same;
- sampling weights are weights of single rows; the rows of a unique row share its weight evenly, as they do in the data;
- more than `most` rows are a sample: those with the smallest hashes, each with its weight (a long table whose equal
  rows were not worth grouping block by block, as a file is read). Beyond `EXPANDED` rows a unique row of weight w
  is thinned to w · EXPANDED / total rows first, rounded up or down by its hash.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.sampling import Words, numbered_apart, row_contents, row_hashes, scramble, uniform
from latentfit.core.table.stored import AnyTable, StoredTable
from latentfit.core.table.table import ALWAYS_GROUP, Table

SELF_WEIGHTING = 23  # Sets this draw apart from others for the same rows.
EXPANDED = 5_000_000  # Single rows held at once: three numbers each.


@dataclass(frozen=True)
class ReplicatedRows:
    """Single rows in the order of their hashes: which unique row each is, its weight, its hash."""

    unique_row: NDArray[np.int64]
    weight: Floats
    hashes: Words

    def uniform(self, salt: int) -> Floats:
        """A number in [0, 1) per row, another one for every salt."""
        return uniform(scramble(self.hashes, salt))


def single_rows(table: Table, most: int, seed: int) -> ReplicatedRows:
    """At most `most` single rows of the table; see the module for the rules."""
    content = row_contents(table, seed)
    counts, each = _counts(table, content, seed)
    unique_row = np.repeat(np.arange(table.n_rows), counts)
    hashes = numbered_apart(content[unique_row], seed)
    order = np.argsort(hashes, kind="stable")[:most]
    return ReplicatedRows(unique_row[order], each[unique_row[order]], hashes[order])


def sample_rows(table: AnyTable, most: int, seed: int) -> Table:
    """At most `most` of the user's rows in the order of their hashes: what an initialisation may draw from by position.

    Of a grouped table rows are drawn, not unique rows, or heavy ones would be missed; a long table block by block.
    """
    if isinstance(table, StoredTable):
        return _least_hashes(table, most, seed)
    if table.n_rows <= most:
        return table.take(np.argsort(row_hashes(table, seed), kind="stable"))
    if table.row_weight is None or table.single:
        return _least_hashes(table, most, seed)
    rows = single_rows(table, most, seed)
    unique_rows, first_seen, at = np.unique(rows.unique_row, return_index=True, return_inverse=True)
    order = np.argsort(first_seen, kind="stable")
    weight = np.bincount(at, rows.weight)[order].astype(np.float64)
    equal = np.bincount(at)[order] if table.sampling else None
    return replace(table.take(unique_rows[order]), row_weight=weight, equal=equal)


def _least_hashes(table: AnyTable, most: int, seed: int) -> Table:
    """The rows with the smallest hashes of a long table, block by block; rows keep their weights."""
    hashes = np.empty(0, np.uint64)
    blocks: list[Table] = []
    for block in table.blocks():
        new = row_hashes(block, seed)
        if len(hashes) >= most:  # a row above all of these can be left at once
            low = new < hashes[-1]
            new, block = new[low], block.take(low)
        hashes, blocks = np.concatenate([hashes, new]), [*blocks, block]
        if len(hashes) >= most:
            order = np.argsort(hashes, kind="stable")[:most]
            hashes, blocks = hashes[order], [_joined(blocks, order)]
    return _joined(blocks, np.argsort(hashes, kind="stable")[:most])


def _joined(parts: list[Table], order: NDArray[np.intp]) -> Table:
    """Rows of parts, one after the other, in an order."""
    codes = np.ascontiguousarray(np.concatenate([part.codes for part in parts])[order])
    weights = [part.row_weight for part in parts if part.row_weight is not None]
    weight = np.concatenate(weights)[order] if weights else None
    return Table(codes, parts[0].columns, weight, single=parts[0].single, scale=parts[0].scale)


def _counts(table: Table, content: Words, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """How many rows each unique row is, and the weight of each of them."""
    n, weight = table.n_rows, table.each_weight()
    if table.sampling or not is_whole(weight):
        rows = table.rows_each()
        return np.where(weight > 0, rows, 0), weight / np.maximum(rows, 1)
    if weight.sum() <= EXPANDED:
        return weight.astype(np.int64), np.ones(n)
    wanted = weight * (EXPANDED / weight.sum())
    proportion = scramble(content, seed + 7).astype(np.float64) / 2.0**64
    return (wanted + proportion).astype(np.int64), np.ones(n)


def is_whole(weight: Floats) -> bool:
    """Whether all weights are whole numbers."""
    return bool(np.array_equal(weight, np.round(weight)))


def self_weighting(table: Table) -> Table:
    """Rows drawn by their sampling weights, no row twice: about Kish's number of them, each counted once.

    Which number of classes data ask for, and what chance gives, is known for rows that count alike; a row of weight
    eight would look like eight equal ones, which are a class of their own. The rows' contents decide who is drawn. In a
    long table no single row is that heavy, and all of them stay.
    """
    if not table.sampling or table.single or table.n_observations > ALWAYS_GROUP:
        return table
    rows = single_rows(table, table.n_observations, 0)
    drawn = np.bincount(rows.unique_row[thinned(rows, SELF_WEIGHTING)], minlength=table.n_rows)
    keep = np.flatnonzero(drawn)
    if not len(keep):  # of a few rows with one that outweighs all
        return table
    return replace(table.take(keep), row_weight=drawn[keep].astype(np.float64), equal=None, scale=None)


def thinned(rows: ReplicatedRows, salt: int) -> NDArray[np.bool_]:
    """Rows to keep so that the kept ones count alike: all of them when weights are equal.

    A row stays with probability min(1, w / c), c such that Kish's effective number (Σw)² / Σw² is expected to stay. No
    row is taken twice, since two replicates of one row would look like dependence between the columns.
    """
    weight = rows.weight
    if not len(weight) or weight.min() == weight.max():
        return np.ones(len(weight), bool)
    wanted = weight.sum() ** 2 / np.square(weight).sum()
    ordered = np.sort(weight)[::-1]
    rest = ordered.sum() - np.concatenate([[0.0], np.cumsum(ordered)[:-1]])  # weight of the rows from here on
    sure = np.arange(len(ordered))
    limit = rest / np.maximum(wanted - sure, 1e-300)  # c when the `sure` heaviest rows always stay
    c = limit[np.flatnonzero((ordered <= limit) & (sure < wanted))[0]]
    return np.asarray(rows.uniform(salt) < weight / c)
