"""StoredMatrix: real rows in a flat file, read block by block into one buffer; what is larger than memory.

The file (`engine/flat_file.py`) has the features' names, the number of rows, which features change at all and the first
row in its header, then the rows as float64. It has the manners of `Matrix` that a pass needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import BLOCK_ROWS, Floats
from latentfit.core.matrix import Matrix, check_largest, check_values, frame_values
from latentfit.engine.flat_file import Lease, fill_from, keep_for_now, keep_rows, write_flat
from latentfit.io.scan import Scan

FORMAT, ENDING = 1, "rows"
DIGITS = 15
"""Digits that the number of rows has in the header: its length is fixed before the rows are counted."""


@dataclass(frozen=True, eq=False)
class StoredMatrix:
    """Real rows on disk; `kept` marks the features that are read."""

    path: Path
    offset: int
    n_rows: int
    all_names: tuple[str | int, ...]
    all_varies: NDArray[np.bool_]
    all_first: Floats
    kept: NDArray[np.bool_]
    lease: Lease | None = None

    @property
    def names(self) -> tuple[str | int, ...]:
        return tuple(name for name, keep in zip(self.all_names, self.kept.tolist(), strict=True) if keep)

    @property
    def n_features(self) -> int:
        return int(self.kept.sum())

    @property
    def first(self) -> Floats:
        return np.asarray(self.all_first[self.kept])

    @property
    def varies(self) -> NDArray[np.bool_]:
        return np.asarray(self.all_varies[self.kept])

    def values_of(self, begin: int, end: int) -> Floats:
        """Rows of a range, fresh from the file."""
        rows = np.empty((end - begin, len(self.kept)))
        fill_from(self.path, self.offset + begin * rows.strides[0], rows)
        return rows if self.kept.all() else np.ascontiguousarray(rows[:, self.kept])

    def take_features(self, kept: NDArray[np.bool_]) -> StoredMatrix:
        """Some of the features; the file stays as it is."""
        both = self.kept.copy()
        both[both] = kept
        return replace(self, kept=both)

    def loaded(self) -> Matrix:
        """All rows in memory."""
        blocks = [self.values_of(at, min(at + BLOCK_ROWS, self.n_rows)) for at in range(0, self.n_rows, BLOCK_ROWS)]
        return Matrix(np.concatenate(blocks), self.names)


AnyMatrix = Matrix | StoredMatrix
"""Real rows in memory or in a file."""


def store_scan(scan: Scan) -> StoredMatrix:
    """The files' rows as numbers in a flat file: in the scan's cache, where a second run finds it, or for this run."""

    def told() -> str:
        return f"matrix {FORMAT}\0{scan.fingerprint()}"

    return keep_rows(scan.cache, told, ENDING, FORMAT, _revived, lambda path, key: _write(path, key, _scanned(scan)))


def store_matrix(matrix: Matrix) -> StoredMatrix:
    """Rows from memory in a flat file, for this run only."""
    cuts = range(0, matrix.n_rows, BLOCK_ROWS)
    return store_blocks(matrix.names, (matrix.values[at : at + BLOCK_ROWS] for at in cuts))


def store_blocks(names: tuple[str | int, ...], blocks: Iterator[Floats]) -> StoredMatrix:
    """Rows that come block by block in a flat file, for this run only."""
    named = ((names, block) for block in blocks)
    return keep_for_now(lambda path, key: _write(path, key, named), ENDING)


Named = tuple[tuple[str | int, ...], Floats]


def _scanned(scan: Scan) -> Iterator[Named]:
    behind, largest = 0, 0.0
    for batch in scan.batches():
        names = tuple(batch.schema.names)
        values = frame_values(pa.Table.from_batches([batch]), names, before=behind)
        check_values(values, names, before=behind)
        largest = max(largest, float(np.abs(values).max(initial=0.0)))
        behind += len(values)
        yield names, values
    if not behind:
        raise DataError("the files hold no rows; give at least one")
    check_largest(largest)


def _write(path: Path, key: str, blocks: Iterator[Named]) -> StoredMatrix:
    """The header is made before the rows are known, with room for what they will tell."""
    names, block = next(blocks)
    facts: dict[str, Any] = {
        "format": FORMAT,
        "key": key,
        "names": list(names),
        "first": np.ascontiguousarray(block[0]).tobytes().hex() if len(block) else "",
    }
    first, varies, n_rows = block[:1].copy(), np.zeros(len(names), bool), 0
    facts |= _told(varies, n_rows)

    def pieces() -> Iterator[Floats]:
        nonlocal varies, n_rows, block
        while True:
            varies |= (block != first).any(axis=0)
            n_rows += len(block)
            facts.update(_told(varies, n_rows))
            yield block
            try:
                _, block = next(blocks)
            except StopIteration:
                return

    offset = write_flat(path, facts, pieces())
    return StoredMatrix(path, offset, n_rows, names, varies, first[0], np.ones(len(names), bool))


def _told(varies: NDArray[np.bool_], n_rows: int) -> dict[str, str]:
    """What is known when all rows were seen, in texts of a length that is known before."""
    return {"varies": "".join("01"[one] for one in varies.tolist()), "n_rows": f"{n_rows:0{DIGITS}d}"}


def _revived(path: Path, offset: int, facts: dict[str, Any]) -> StoredMatrix:
    names, varies = tuple(facts["names"]), np.array([one == "1" for one in facts["varies"]])
    first = np.frombuffer(bytes.fromhex(facts["first"]), np.float64)
    return StoredMatrix(path, offset, int(facts["n_rows"]), names, varies, first, np.ones(len(names), bool))
