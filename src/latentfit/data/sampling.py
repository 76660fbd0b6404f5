"""Samples that do not depend on the order of rows: a seeded hash of what a row says.

Equal rows are told apart by how many of them came before, so permuting rows permutes the sample.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from latentfit.data.labels import CodedLabels, Labels, join_labels
from latentfit.data.table import Table
from latentfit.kernels import Floats

Words = NDArray[np.uint64]


def scramble(values: Words, seed: int) -> Words:
    """Other words in place of these, others for every seed; equal ones stay equal."""
    return mixed(values + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64))


def mixed(x: Words) -> Words:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def uniform(words: Words) -> Floats:
    """A number in [0, 1) from each word: its 53 highest bits."""
    return np.asarray((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def lower_half(hashes: Words) -> NDArray[np.bool_]:
    """Which hashes are the smaller half."""
    return np.asarray(hashes < np.partition(hashes, len(hashes) // 2)[len(hashes) // 2])


def task_hashes(labels: CodedLabels, seed: int) -> Words:
    """One hash per task from its cells, equal tasks of a block numbered apart."""
    hashes = [block_hashes(block, seed) for block in labels.blocks()]
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)


def block_hashes(block: Labels, seed: int) -> Words:
    """The same of one block of tasks."""
    cells = scramble(block.cell_of().astype(np.uint64), seed)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
    content = sums[block.offsets[1:]] - sums[block.offsets[:-1]]  # wraps around, exactly
    return numbered_apart(content, seed)


def numbered_apart(content: Words, seed: int) -> Words:
    """Hashes of rows from hashes of what they say: equal rows are told apart by how many came before."""
    order = np.argsort(content, kind="stable")
    ordered = content[order]
    start = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, bool)
    position = np.arange(len(ordered))
    copies = np.empty(len(ordered), np.uint64)
    copies[order] = position - np.maximum.accumulate(np.where(start, position, 0))
    return scramble(content ^ scramble(copies, seed + 1), seed)


def sample_tasks(labels: CodedLabels, most: int, seed: int) -> Labels:
    """At most `most` tasks in their order, those with the smallest hashes; all of them when they fit."""
    if labels.n_rows <= most:
        return labels.piece(0, labels.n_rows)
    kept: list[Labels] = []
    hashes: list[Words] = []
    limit = np.uint64(2**64 - 1)
    for block in labels.blocks():
        new = block_hashes(block, seed)
        low = new <= limit  # what is above all that can stay is left at once
        kept, hashes = [*kept, block.take(low)], [*hashes, new[low]]
        if sum(map(len, hashes)) > 2 * most:
            limit = _limit(hashes, most)
            kept = [one.take(mine <= limit) for one, mine in zip(kept, hashes, strict=True)]
            hashes = [mine[mine <= limit] for mine in hashes]
    limit = _limit(hashes, most)
    return join_labels([one.take(mine < limit) for one, mine in zip(kept, hashes, strict=True)])


def _limit(hashes: list[Words], most: int) -> np.uint64:
    """The smallest hash that is too many."""
    return np.uint64(np.partition(np.concatenate(hashes), most)[most])


def share_of_tasks(labels: CodedLabels, share: float, seed: int) -> Labels:
    """A share of all tasks by their hashes, in their order."""
    limit = np.uint64(int(share * 2.0**64))
    return join_labels([block.take(block_hashes(block, seed) < limit) for block in labels.blocks()])


def row_contents(table: Table, seed: int) -> Words:
    """What each row says, as one number; equal rows have equal ones. Neither order of columns nor codes matter."""
    words = [f"{column.name}={category}" for column in table.columns for category in column.categories.tolist()]
    keys = scramble(np.array([zlib.crc32(word.encode()) for word in words], np.uint64), seed)
    content = np.zeros(table.n_rows, np.uint64)
    for n in range(table.n_columns):  # one column at a time: no array of rows × columns
        of_code = np.zeros(np.iinfo(table.codes.dtype).max + 1, np.uint64)
        of_code[: table.columns[n].size] = keys[table.first[n] : table.first[n + 1]]
        content += of_code[table.codes[:, n]]  # wraps around, exactly
    return content


def row_hashes(table: Table, seed: int) -> Words:
    """One hash per row of a table from the names of its cells, equal rows numbered apart."""
    return numbered_apart(row_contents(table, seed), seed)
