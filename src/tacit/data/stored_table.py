"""StoredTable: a coded table in a flat file, read part by part into one buffer; what is larger than memory.

The file (`data/flat_file.py`) has names, categories, sizes, counts and how columns are packed in its header, then the
rows' packed codes. It has the manners of `Table` that a pass needs (`cells`,
`weights`, `spread`, `gather`) and `blocks`, so the engine's loop over parts and the sample of rows serve for both.
Equal rows are grouped by the rule of tables in memory; then `fitted_on` is a small table in memory.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.data.coding import GAP, GrowingColumn, read_raw, write_raw
from tacit.data.flat_file import Lease, fill_from, path_for_now, remove, reopen_flat, write_flat
from tacit.data.names import to_arrow
from tacit.data.packing import Packing, plan_packing
from tacit.data.table import Codes, Column, Floats, Table, worth_grouping
from tacit.data.table_input import LearnColumn, columns_of, tell_empty
from tacit.errors import DataError
from tacit.io.scan import Scan
from tacit.kernels import BLOCK_ROWS, PART_BLOCKS, DenseCodes

FORMAT = 1
PART_ROWS = PART_BLOCKS * BLOCK_ROWS
"""Rows held while patterns are gathered."""


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A coded table on disk: its columns' words, how often each cell occurs, and where the codes begin."""

    path: Path
    offset: int
    n_rows: int
    columns: tuple[Column, ...]
    counts: NDArray[np.int64]  # (C,) how often each cell occurs
    gaps: NDArray[np.bool_]  # (N,) columns that have any
    grouped: bool
    names: tuple[str | int, ...]  # of all columns, also those without a value, which were set aside
    lease: Lease | None = None

    row_weight = None
    pattern_of = None

    @property
    def n_columns(self) -> int:
        return len(self.columns)

    @property
    def n_samples(self) -> int:
        return self.n_rows

    @property
    def total_weight(self) -> float:
        return float(self.n_rows)

    @cached_property
    def n_cells(self) -> float:
        return float(self.counts.sum())

    @cached_property
    def first(self) -> NDArray[np.int32]:
        return np.concatenate([[0], np.cumsum([column.size for column in self.columns])]).astype(np.int32)

    @property
    def dtype(self) -> Any:
        """Type of the codes, as a table in memory has it."""
        return np.uint16 if max(column.size for column in self.columns) > 254 else np.uint8

    @cached_property
    def packing(self) -> Packing | None:
        return plan_packing(self.n_rows, self.first, self.gaps)

    def spread(self, log_table: Floats) -> Floats:
        """The log-table that `cells` point into."""
        return log_table if self.packing is None else np.ascontiguousarray(self.packing.spread @ log_table)

    def gather(self, sums: Floats) -> Floats:
        """Sums over what `cells` point into, as sums over the table's own cells."""
        return sums if self.packing is None else np.ascontiguousarray(self.packing.gathered @ sums)

    def cells(self, begin: int, end: int) -> DenseCodes:
        """Packed codes of some rows; they stand in a buffer that the next call fills again."""
        first = self.first if self.packing is None else self.packing.first
        return DenseCodes(self._read(begin, end), first)

    def weights(self, begin: int, end: int) -> None:
        return None

    def singles(self) -> Floats:
        return self.counts.astype(np.float64)

    def blocks(self) -> Iterator[Table]:
        """The rows in order, `BLOCK_ROWS` at a time, unpacked."""
        for begin in range(0, self.n_rows, BLOCK_ROWS):
            yield Table(self.codes_of(begin, min(begin + BLOCK_ROWS, self.n_rows)), self.columns)

    def codes_of(self, begin: int, end: int) -> Codes:
        """Codes of some rows, unpacked."""
        codes = self._read(begin, end)
        return codes.copy() if self.packing is None else self.packing.unpack(codes, self.dtype)

    def without(self, gone: NDArray[np.bool_]) -> StoredTable:
        """The table without some of its columns, in a file of its own for as long as it is used."""
        cells = np.repeat(~gone, np.diff(self.first))
        columns = tuple(column for column, away in zip(self.columns, gone, strict=True) if not away)
        path = path_for_now()
        part = replace(self, path=path, columns=columns, counts=self.counts[cells], gaps=self.gaps[~gone], lease=None)
        try:
            return replace(_write(part, (block.codes[:, ~gone] for block in self.blocks()), ""), lease=Lease(path))
        except BaseException:
            remove(path)
            raise

    @cached_property
    def fitted_on(self) -> Table | StoredTable:
        """What EM walks: patterns with weights where grouping equal rows pays, as in memory; else the rows."""
        return _gather_patterns(self) if self.grouped else self

    # ------------------------------------------------------------- reading

    @cached_property
    def _buffer(self) -> Codes:
        width, dtype = self._layout
        return np.empty((min(PART_ROWS, self.n_rows), width), dtype)

    @property
    def _layout(self) -> tuple[int, Any]:
        return (self.n_columns, self.dtype) if self.packing is None else (len(self.packing.groups), self.packing.dtype)

    def _read(self, begin: int, end: int) -> Codes:
        rows = self._buffer[: end - begin]
        fill_from(self.path, self.offset + begin * rows.strides[0], rows)
        return rows


# ---------------------------------------------------------------------- coding


def code_scan(scan: Scan, learn: LearnColumn) -> StoredTable:
    """The files' rows coded into a flat file: in the scan's cache, where a second run finds it, or for this run."""
    text = any(name.lower().removesuffix(".gz").endswith((".csv", ".tsv")) for name in scan.paths)
    if scan.cache is None:
        return _code_for_now(scan.batches(), learn, text)
    key = hashlib.sha256(f"{FORMAT}\0{scan.fingerprint()}\0{learn!r}".encode()).hexdigest()
    path = Path(scan.cache) / f"{key[:32]}.codes"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = _reopened(path, key) if path.exists() else None
    return _code(scan.batches(), path, key, learn, text) if known is None else known


def code_frame(data: Any, learn: LearnColumn) -> StoredTable:
    """A frame's rows coded into a flat file, for this run only."""
    names, arrays = columns_of(data)
    listed = [to_arrow(array, f"{name!r}") for name, array in zip(names, arrays, strict=True)]
    table = pa.table(listed, [str(name) for name in names])
    stored = _code_for_now(iter(table.to_batches(BLOCK_ROWS)), learn, False)
    called = {str(name): name for name in names}
    columns = tuple(replace(one, name=called[str(one.name)]) for one in stored.columns)
    return replace(stored, columns=columns, names=tuple(names))


def _code_for_now(batches: Iterator[Any], learn: LearnColumn, text: bool) -> StoredTable:
    path = path_for_now()
    try:
        table = _code(batches, path, "", learn, text)
    except BaseException:
        remove(path)
        raise
    return replace(table, lease=Lease(path))


def _code(batches: Iterator[Any], path: Path, key: str, learn: LearnColumn, text: bool) -> StoredTable:
    with tempfile.TemporaryFile(dir=path.parent) as raw:
        growing, n_rows = write_raw(batches, raw)
        learned = [_learn(column, learn, text) for column in growing]
        kept = [n for n, (_, column) in enumerate(learned) if column.size]
        if not kept:
            raise DataError(f"none of the {len(growing)} columns holds a value; every cell is missing")
        tell_empty([learned[n][1].name for n in range(len(growing)) if n not in kept])
        columns = tuple(learned[n][1] for n in kept)
        counts = [_cell_counts(growing[n], *learned[n]) for n in kept]
        gaps = np.array([int(count.sum()) < n_rows for count in counts])
        names = tuple(column.name for column in growing)
        table = StoredTable(path, 0, n_rows, columns, np.concatenate(counts), gaps, False, names)
        tables = [_lookup(learned[n][0], table.dtype) for n in kept]

        def final() -> Iterator[Codes]:
            raw.seek(0)
            for record in read_raw(raw, len(growing)):
                codes = np.empty((len(record), len(kept)), table.dtype)
                for at, n in enumerate(kept):
                    codes[:, at] = tables[at][record[:, n]]
                yield codes

        table = replace(table, grouped=worth_grouping(n_rows, final()))
        return _write(table, final(), key)


def _learn(column: GrowingColumn, learn: LearnColumn, text: bool) -> tuple[NDArray[np.int32], Column]:
    words = column.words(text=text)
    return learn(words, column.name, column.counts[: len(words)])


def _cell_counts(raw: GrowingColumn, codes: NDArray[np.int32], column: Column) -> NDArray[np.int64]:
    rows = raw.counts[: len(codes)]
    return np.bincount(codes[codes >= 0], rows[codes >= 0], minlength=column.size).astype(np.int64)


def _lookup(codes: NDArray[np.int32], dtype: Any) -> Codes:
    """Raw code → code, gaps included."""
    missing = np.iinfo(dtype).max
    out = np.full(GAP + 1, missing, dtype)
    out[: len(codes)] = np.where(codes < 0, missing, codes)
    return out


def _write(table: StoredTable, blocks: Iterator[Codes], key: str) -> StoredTable:
    packing = table.packing
    facts = {
        "format": FORMAT,
        "key": key,
        "n_rows": table.n_rows,
        "grouped": table.grouped,
        "names": list(table.names),
        "gaps": table.gaps.tolist(),
        "counts": table.counts.tolist(),
        "columns": [_described(column) for column in table.columns],
    }
    packed = blocks if packing is None else map(packing.pack, blocks)
    return replace(table, offset=write_flat(table.path, facts, packed))


def _described(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": column.categories.dtype.kind,
        "categories": column.categories.tolist(),
        "edges": None if column.edges is None else column.edges.tolist(),
        "centres": None if column.centres is None else column.centres.tolist(),
    }


def _reopened(path: Path, key: str) -> StoredTable | None:
    """The table an earlier run left, or None when the file is another's, or damaged: then it is coded again."""
    known = reopen_flat(path, key, FORMAT)
    if known is None:
        return None
    facts, offset = known
    try:
        columns = tuple(_read_column(one) for one in facts["columns"])
        counts, gaps = np.array(facts["counts"], np.int64), np.array(facts["gaps"], bool)
        names = tuple(facts["names"])
        return StoredTable(path, offset, facts["n_rows"], columns, counts, gaps, facts["grouped"], names)
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _read_column(facts: dict[str, Any]) -> Column:
    kinds: dict[str, Any] = {"O": object, "i": np.int64, "u": np.uint64, "f": np.float64, "b": bool}
    categories = np.array([*facts["categories"], None], object)[:-1].astype(kinds[facts["kind"]])
    edges, centres = (None if facts[name] is None else np.array(facts[name]) for name in ("edges", "centres"))
    return Column(facts["name"], categories, edges, centres)


def _gather_patterns(table: StoredTable) -> Table:
    """Every pattern once, with how many rows it is, in the order `group_rows` gives them."""
    row = np.dtype((np.void, np.dtype(table.dtype).itemsize * table.n_columns))
    known, rows = np.empty(0, row), np.empty(0)
    waiting: list[Codes] = []

    def merge() -> None:
        nonlocal known, rows
        keys = np.ascontiguousarray(np.concatenate(waiting)).view(row).reshape(-1)
        patterns, times = np.unique(keys, return_counts=True)
        both, at = np.unique(np.concatenate([known, patterns]), return_inverse=True)
        rows = np.bincount(at, np.concatenate([rows, times]), minlength=len(both)).astype(np.float64)
        known = both
        waiting.clear()

    for block in table.blocks():
        waiting.append(block.codes)
        if len(waiting) * BLOCK_ROWS >= PART_ROWS:
            merge()
    if waiting:
        merge()
    codes = known.view(table.dtype).reshape(len(known), table.n_columns)
    return Table(np.ascontiguousarray(codes), table.columns, rows)


AnyTable = Table | StoredTable
"""Rows in memory or in a file: what starts, steps and choices of a number work on alike."""
