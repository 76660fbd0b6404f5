"""Passes of any pure function over blocks of real rows, in memory or in a file, added in the one fixed order.

A function (`Work`) sees one block of rows (and, where it has auxiliary values per row, those of the block) and
returns sums, perhaps values per row too. Blocks of 65,536 rows are added in order into their part of 16 blocks, parts
in order: the same bits in memory, from a file, and on the workers of a cluster (`engine/dask.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import BLOCK_ROWS, PART_ROWS, Floats
from latentfit.core.matrix import AnyMatrix, Matrix, StoredMatrix, hash_rows, store_blocks

Words = NDArray[np.uint64]


class Found(NamedTuple):
    """Result of a function on a block: sums that are added, and one value per row, if any."""

    sums: tuple[Any, ...]
    rows: NDArray[Any] | None = None


Work = Callable[..., Found]
"""work(block, *args), or work(block, *args, beside=…) with an auxiliary array of one value per row."""
View = Callable[..., Floats]
"""view(block, *args) → one row for each row."""


class RowPasses:
    """Passes over rows in memory or in a file; rows are hashed by content, or by `hashes` where given."""

    def __init__(self, rows: AnyMatrix, seed: int = 0, hashes: Words | None = None) -> None:
        self.rows, self.seed, self._hashes = rows, seed, hashes
        self.block_rows, self.part_rows = BLOCK_ROWS, PART_ROWS

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    @property
    def hashes(self) -> Words | None:
        """One hash per row; None for rows in a file, which are hashed when they are read."""
        if self._hashes is None and isinstance(self.rows, Matrix):
            self._hashes = self.rows.hashes(self.seed, self.block_rows)
        return self._hashes

    def whole(self) -> Floats:
        """All rows as one array."""
        return (self.rows.loaded() if isinstance(self.rows, StoredMatrix) else self.rows).values

    def sums(self, work: Work, *args: Any, auxiliary: NDArray[Any] | None = None) -> Found:
        """The sums over all blocks, and the values per row."""
        parts = range(0, max(self.n_rows, 1), self.part_rows)
        return add_found(add_found(self._worked(begin, work, args, auxiliary)) for begin in parts)

    def _worked(self, begin: int, work: Work, args: tuple[Any, ...], auxiliary: NDArray[Any] | None) -> Iterator[Found]:
        for at, block in self._blocks(begin, min(begin + self.part_rows, self.n_rows)):
            yield worked(block, work, args, None if auxiliary is None else auxiliary[at : at + len(block)])

    def mapped(self, view: View, *args: Any) -> RowPasses:
        """Passes over transformed rows, stored where these are."""
        blocks = (view(block, *args) for _, block in self._blocks(0, self.n_rows))
        if isinstance(self.rows, StoredMatrix):
            first = view(self.rows.values_of(0, min(1, self.n_rows)), *args)
            new: AnyMatrix = store_blocks(tuple(range(first.shape[1])), blocks)
        else:
            values = np.concatenate(list(blocks))
            new = Matrix(values, tuple(range(values.shape[1])))
        return RowPasses(new, self.seed)

    def sample(self, most: int, view: View | None = None, *args: Any) -> tuple[Floats, Words]:
        """At most `most` rows, with the smallest hashes, in order, transformed by `view`; and their hashes."""
        least, hashes = LeastRows(most, self.n_rows), self.hashes
        for at, block in self._blocks(0, self.n_rows):
            given = None if hashes is None else hashes[at : at + len(block)]
            least.look(block, given, self.seed, view, args)
        return least.found()

    def _blocks(self, begin: int, end: int) -> Iterator[tuple[int, Floats]]:
        for at in range(begin, max(end, begin + 1), self.block_rows):
            yield at, self.rows.values_of(at, min(at + self.block_rows, end))


def over(rows: Floats | RowPasses) -> RowPasses:
    """Passes over an array of rows; passes are returned unchanged."""
    return rows if isinstance(rows, RowPasses) else RowPasses(Matrix(rows, tuple(range(rows.shape[1]))))


def passes_for(matrix: AnyMatrix, engine: str, seed: int) -> RowPasses:
    """Passes on a cluster if the engine is one and the rows are in a file, else in this process."""
    if isinstance(matrix, StoredMatrix) and engine.startswith("dask"):
        from latentfit.engine.dask import ClusterPasses

        return ClusterPasses(matrix, seed, engine)
    return RowPasses(matrix, seed)


def worked(block: Floats, work: Work, args: tuple[Any, ...], auxiliary: NDArray[Any] | None) -> Found:
    """Result of `work` on one block."""
    return work(block, *args) if auxiliary is None else work(block, *args, auxiliary=auxiliary)


def add_found(parts: Iterable[Found]) -> Found:
    """Sums added in order; values per row, concatenated."""
    total: list[Any] = []
    rows: list[NDArray[Any]] = []
    for part in parts:
        total = [old + new for old, new in zip(total, part.sums, strict=True)] if total else list(part.sums)
        if part.rows is not None:
            rows.append(part.rows)
    return Found(tuple(total), np.concatenate(rows) if rows else None)


@dataclass
class LeastRows:
    """The rows with the smallest hashes so far, in constant memory; all rows if there are few.

    The sample is what lies below the next hash after `most`, so one more row is held.
    """

    most: int
    n_rows: int
    hashes: list[Words] = field(default_factory=list)
    rows: list[Floats] = field(default_factory=list)

    def look(self, block: Floats, given: Words | None, seed: int, view: View | None, args: tuple[Any, ...]) -> None:
        """Add a block."""
        seen = block if view is None else view(block, *args)
        self.add(hash_rows(block, seed) if given is None else given, seen)

    def add(self, hashes: Words, rows: Floats) -> None:
        if self.n_rows > self.most and self.hashes and len(self.hashes[0]) > self.most:
            low = hashes < self.hashes[0].max()  # a row above all held ones can be skipped
            hashes, rows = hashes[low], rows[low]
        self.hashes.append(hashes)
        self.rows.append(rows.copy())
        if self.n_rows > self.most and sum(map(len, self.hashes)) > self.most:
            known, held = np.concatenate(self.hashes), np.concatenate(self.rows)
            smallest = np.sort(np.argsort(known, kind="stable")[: self.most + 1])
            self.hashes, self.rows = [known[smallest]], [held[smallest]]

    def held(self) -> tuple[Floats, Words]:
        """Rows and hashes held so far, to be merged with others."""
        return np.concatenate(self.rows), np.concatenate(self.hashes)

    def found(self) -> tuple[Floats, Words]:
        """The sample, in the order of the rows."""
        rows, hashes = self.held()
        if self.n_rows <= self.most:
            return rows, hashes
        below = hashes < hashes.max()
        return rows[below], hashes[below]
