"""Samples of tasks that do not depend on their order: a seeded hash of the cells of a task."""

from __future__ import annotations

import numpy as np

from latentfit.core.sampling import Words, hash_limit, numbered_apart, scramble
from latentfit.labels.data.labels import CodedLabels, Labels, join_labels


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
            limit = hash_limit(hashes, most)
            kept = [one.take(mine <= limit) for one, mine in zip(kept, hashes, strict=True)]
            hashes = [mine[mine <= limit] for mine in hashes]
    limit = hash_limit(hashes, most)
    return join_labels([one.take(mine < limit) for one, mine in zip(kept, hashes, strict=True)])


def share_of_tasks(labels: CodedLabels, share: float, seed: int) -> Labels:
    """A share of all tasks by their hashes, in their order."""
    limit = np.uint64(int(share * 2.0**64))
    return join_labels([block.take(block_hashes(block, seed) < limit) for block in labels.blocks()])
