"""StoredTable: a coded table in a flat file, read part by part into one buffer; what is larger than memory.

The file (`engine/flat_file.py`) has names, categories, sizes, counts and how columns are packed in its header, then the
rows' packed codes and, if rows have weights, those as float64. It has the methods of `Table` that a pass needs
(`cells`, `weights`, `spread`, `gather`) and `blocks`, so the engine's loop over parts and the sample of rows serve for
both. Equal rows are grouped by the rule of tables in memory; then `fitted_on` is a small table in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import BLOCK_ROWS, PART_ROWS, DenseCodes, Floats
from latentfit.core.model_file import describe_column, read_columns
from latentfit.core.names import GrowingNames, to_arrow
from latentfit.core.numbers import as_numbers
from latentfit.core.table.input import (
    MAX_CATEGORIES,
    NO_COLUMN,
    LearnColumn,
    columns_of,
    spelled_numbers,
    warn_empty_columns,
    warn_unusual_columns,
)
from latentfit.core.table.table import (
    CodedTable,
    Codes,
    Column,
    Table,
    UniqueRowCount,
    add_in_parts,
    gather_unique_rows,
)
from latentfit.core.table.weights import (
    NO_WEIGHT,
    WeightScale,
    WeightType,
    check_total,
    check_weight,
    check_weights,
    exponent_of,
    scale_of,
)
from latentfit.engine.flat_file import FileHandle, fill_from, store_rows, store_temporarily, write_flat
from latentfit.io.scan import Scan

FORMAT, ENDING = 5, "codes"


@dataclass(frozen=True, eq=False)
class StoredTable(CodedTable):
    """A coded table on disk: its columns' categories, how often each cell occurs, and where the codes begin."""

    path: Path
    offset: int
    n_rows: int
    columns: tuple[Column, ...]
    counts: NDArray[np.int64]  # (C,) how often each cell occurs
    missing_columns: NDArray[np.bool_]  # (N,) columns that have any
    grouped: bool
    names: tuple[str | int, ...]  # of all columns, also those without a value, which were set aside
    handle: FileHandle | None = None
    weighted: bool = False
    absent: int = 0  # rows without weight, which were left out
    scale: WeightScale | None = None  # of sampling weights; None: weights count rows

    unique_index = None

    @property
    def n_samples(self) -> int:
        return self.n_rows

    @property
    def total_weight(self) -> float:
        return self._sums[1] if self.weighted else float(self.n_rows)

    @property
    def n_observations(self) -> int:
        return self.n_rows if self.sampling else round(self.total_weight)

    @property
    def n_cells(self) -> float:
        return self._sums[2] if self.weighted else float(self.counts.sum())

    @property
    def dtype(self) -> Any:
        """Type of the codes, as a table in memory has it."""
        return np.uint16 if max(column.size for column in self.columns) > 254 else np.uint8

    def cells(self, begin: int, end: int) -> DenseCodes:
        """Packed codes of some rows; they stand in a buffer that the next call fills again."""
        return self._packed_cells(self._read(begin, end))

    def weights(self, begin: int, end: int) -> Floats | None:
        """Weights of some rows, None when each counts once."""
        if not self.weighted:
            return None
        width, dtype = self._layout
        out = np.empty(end - begin)
        fill_from(self.path, self.offset + self.n_rows * width * np.dtype(dtype).itemsize + 8 * begin, out)
        return out

    def singles(self) -> Floats:
        """How often each cell occurs, with weights (C,)."""
        return self._sums[0].copy() if self.weighted else self.counts.astype(np.float64)

    @cached_property
    def _sums(self) -> tuple[Floats, float, float]:
        """Weight of each cell (C,), of all rows, and of all cells: in the order of addition of a table in memory."""
        cells = [np.zeros(column.size) for column in self.columns]
        rows, shown = [], []
        for block in self.blocks():
            assert block.row_weight is not None
            for n, size in enumerate(column.size for column in self.columns):
                code = np.minimum(block.codes[:, n], size)  # a missing value is one cell more, left out in the end
                both = np.concatenate([np.arange(size), code]), np.concatenate([cells[n], block.row_weight])
                cells[n] = np.bincount(*both, minlength=size)[:size].astype(np.float64)  # goes on from the last block
            rows.append(float(block.row_weight.sum()))
            shown.append(float((block.present.sum(axis=1) * block.row_weight).sum()))
        return np.concatenate(cells), add_in_parts(rows), add_in_parts(shown)

    def blocks(self) -> Iterator[Table]:
        """The rows in order, `BLOCK_ROWS` at a time, unpacked."""
        for begin in range(0, self.n_rows, BLOCK_ROWS):
            end = min(begin + BLOCK_ROWS, self.n_rows)
            codes, weight = self.codes_of(begin, end), self.weights(begin, end)
            yield Table(codes, self.columns, weight, single=self.weighted, scale=self.scale)

    def codes_of(self, begin: int, end: int) -> Codes:
        """Codes of some rows, unpacked."""
        codes = self._read(begin, end)
        return codes.copy() if self.packing is None else self.packing.unpack(codes, self.dtype)

    def without(self, gone: NDArray[np.bool_]) -> StoredTable:
        """The table without some of its columns, in a file of its own for as long as it is used."""
        cells = np.repeat(~gone, np.diff(self.column_offsets))
        columns = tuple(column for column, away in zip(self.columns, gone, strict=True) if not away)
        part = replace(
            self, columns=columns, counts=self.counts[cells], missing_columns=self.missing_columns[~gone], handle=None
        )
        blocks = (block.codes[:, ~gone] for block in self.blocks())

        def write(path: Path, key: str) -> StoredTable:
            return _write(replace(part, path=path), blocks, key, self._weight_parts())

        return store_temporarily(write, ENDING)

    def _weight_parts(self) -> Iterator[Floats]:
        for begin in range(0, self.n_rows if self.weighted else 0, PART_ROWS):
            weight = self.weights(begin, min(begin + PART_ROWS, self.n_rows))
            assert weight is not None
            yield weight

    @cached_property
    def fitted_on(self) -> Table | StoredTable:
        """What EM walks: unique rows with weights where grouping equal rows pays, as in memory; else the rows."""
        return gather_unique_rows(self.blocks()) if self.grouped else self

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


def code_scan(
    scan: Scan, learn: LearnColumn, weight: str | None = None, weight_type: WeightType = "sampling"
) -> StoredTable:
    """The files' rows coded into a flat file: in the scan's cache, where a second run finds it, or for this run.

    `weight` names the column with the rows' weights; it is not among the table's columns.
    """
    scan = _with_weight(scan, weight)

    def fingerprint() -> str:
        return f"{FORMAT}\0{scan.fingerprint()}\0{learn!r}\0{weight}\0{weight_type}"

    def write(path: Path, key: str) -> StoredTable:
        return _code(scan.batches(), path, key, learn, scan.untyped, weight, weight_type)

    return store_rows(scan.cache, fingerprint, ENDING, FORMAT, _revived, write)


def _with_weight(scan: Scan, weight: str | None) -> Scan:
    """The scan with its column of weights, also where only the columns of the data were asked for."""
    if weight is None:
        return scan
    scan = scan.with_ids(weight)
    return scan if scan.columns is None or weight in scan.columns else replace(scan, columns=(*scan.columns, weight))


def batches_with_weights(scan: Scan, weight: str | None) -> Iterator[tuple[Any, Floats | None]]:
    """Tables of a scan's batches without the column of weights, and their weights."""
    behind = 0
    for batch in _with_weight(scan, weight).batches():
        table = pa.Table.from_batches([batch])
        if weight is None:
            yield table, None
            continue
        column = batch.column(table.schema.get_field_index(weight))
        yield table.drop_columns([weight]), read_weights(column, weight, behind)
        behind += batch.num_rows


def code_frame(
    data: Any, learn: LearnColumn, sample_weight: Any = None, weight_type: WeightType = "sampling"
) -> StoredTable:
    """A frame's rows coded into a flat file, for this run only."""
    names, arrays = columns_of(data)
    listed = [to_arrow(array, f"{name!r}") for name, array in zip(names, arrays, strict=True)]
    weight = check_weight(sample_weight, len(listed[0]), weight_type)
    known = [str(name) for name in names]
    if weight is not None:
        apart = next(f"weight{'_' * n}" for n in range(len(known) + 1) if f"weight{'_' * n}" not in known)
        known, listed = [*known, apart], [*listed, pa.array(weight)]
    batches = iter(pa.table(listed, known).to_batches(BLOCK_ROWS))

    def write(path: Path, key: str) -> StoredTable:
        return _code(batches, path, key, learn, False, None if weight is None else apart, weight_type)

    stored = store_temporarily(write, ENDING)
    called = {str(name): name for name in names}
    columns = tuple(replace(one, name=called[str(one.name)]) for one in stored.columns)
    return replace(stored, columns=columns, names=tuple(names))


def _code(
    batches: Iterator[Any], path: Path, key: str, learn: LearnColumn, text: bool, weight: str | None,
    weight_type: WeightType,
) -> StoredTable:  # fmt: skip
    with tempfile.TemporaryFile(dir=path.parent) as raw, tempfile.TemporaryFile(dir=path.parent) as weights:
        growing, n_rows, absent, largest = write_raw(batches, raw, text, weight, weights, weight_type)
        weighted, scale = weight is not None, None
        if weighted and weight_type == "sampling":
            scale = scale_of(_chunks(weights), largest)
            weighted = scale.uneven
        elif weighted:
            check_total(sum(float(chunk.sum()) for chunk in _chunks(weights)))
        learn.check([column.name for column in growing])
        learned = [_learn(column, learn, weighted, scale) for column in growing]
        used_columns = [n for n, (_, column) in enumerate(learned) if column.size]
        if not used_columns:
            raise DataError(f"none of the {len(growing)} columns holds a value; every cell is missing")
        warn_empty_columns([learned[n][1].name for n in range(len(growing)) if n not in used_columns])
        columns = tuple(learned[n][1] for n in used_columns)
        warn_unusual_columns(columns, n_rows)
        learn.warn(columns)
        counts = [_cell_counts(growing[n], *learned[n]) for n in used_columns]
        missing_columns = np.array([int(count.sum()) < n_rows for count in counts])
        names = tuple(column.name for column in growing)
        table = StoredTable(path, 0, n_rows, columns, np.concatenate(counts), missing_columns, False, names)
        tables = [_lookup(learned[n][0], table.dtype) for n in used_columns]
        unique_rows = UniqueRowCount(n_rows)

        def scaled() -> Iterator[Floats]:
            return (chunk if scale is None else scale.scaled(chunk) for chunk in _chunks(weights) if weighted)

        def final() -> Iterator[Codes]:
            raw.seek(0)
            weights.seek(0)
            for record in read_raw(raw, len(growing)):
                apart = None
                if weighted and scale is not None:
                    apart = scale.scaled(np.frombuffer(weights.read(8 * record.shape[1]), np.float64))
                codes = np.empty((len(used_columns), record.shape[1]), table.dtype)
                for at, n in enumerate(used_columns):
                    codes[at] = tables[at][record.dtype][record[n]]
                unique_rows.add(codes.T, apart)  # columns lie together, which is how they are walked here
                yield codes.T

        table = replace(table, weighted=weighted, absent=absent, scale=scale)
        return _write(table, final(), key, scaled(), unique_rows)


def _chunks(weights: Any) -> Iterator[Floats]:
    weights.seek(0)
    while chunk := weights.read(1 << 22):
        yield np.frombuffer(chunk, np.float64)


def _learn(
    column: GrowingColumn, learn: LearnColumn, weighted: bool, scale: WeightScale | None
) -> tuple[NDArray[np.int32], Column]:
    values = column.names.words()
    counts: NDArray[Any] = column.counts[: len(values)]
    if weighted and len(column.weights):
        counts = column.weights if scale is None else column.weights * scale.factor
    return learn(values, column.name, counts)


def _cell_counts(raw: GrowingColumn, codes: NDArray[np.int32], column: Column) -> NDArray[np.int64]:
    rows = raw.counts[: len(codes)]
    return np.bincount(codes[codes >= 0], rows[codes >= 0], minlength=column.size).astype(np.int64)


def _lookup(codes: NDArray[np.int32], dtype: Any) -> dict[Any, Codes]:
    """Raw code → code, missing values included, for records of one byte per cell and of two."""
    missing = np.iinfo(dtype).max
    wide = np.full(MISSING + 1, missing, dtype)
    wide[: len(codes)] = np.where(codes < 0, missing, codes)
    narrow = wide[:256].copy()
    narrow[255] = missing
    return {np.dtype(np.uint8): narrow, np.dtype(np.uint16): wide}


def _write(
    table: StoredTable, blocks: Iterator[Codes], key: str, weights: Iterator[Floats],
    unique_rows: UniqueRowCount | None = None,
) -> StoredTable:  # fmt: skip
    """The flat file; whether its rows are grouped is known when all have gone by."""
    packing = table.packing
    facts: dict[str, Any] = {
        "format": FORMAT,
        "key": key,
        "n_rows": table.n_rows,
        "grouped": int(table.grouped),  # of one length, whichever it is
        "weighted": table.weighted,
        "absent": table.absent,
        "scale": None if table.scale is None else list(astuple(table.scale)),
        "names": list(table.names),
        "missing_columns": table.missing_columns.tolist(),
        "counts": table.counts.tolist(),
        "columns": [describe_column(column) for column in table.columns],
    }

    def parts() -> Iterator[NDArray[Any]]:
        yield from blocks if packing is None else map(packing.pack, blocks)
        if unique_rows is not None:
            facts["grouped"] = int(unique_rows.worth_grouping())
        yield from weights

    offset = write_flat(table.path, facts, parts())
    return replace(table, offset=offset, grouped=bool(facts["grouped"]))


def _revived(path: Path, offset: int, facts: dict[str, Any]) -> StoredTable:
    columns = read_columns(facts["columns"])
    counts, missing_columns = np.array(facts["counts"], np.int64), np.array(facts["missing_columns"], bool)
    names = tuple(facts["names"])
    known = StoredTable(path, offset, facts["n_rows"], columns, counts, missing_columns, bool(facts["grouped"]), names)
    scale = None if facts["scale"] is None else WeightScale(*facts["scale"])
    return replace(known, weighted=facts["weighted"], absent=facts["absent"], scale=scale)


AnyTable = (
    Table | StoredTable
)  # Rows in memory or in a file: initialisations, EM steps and the choice of the number of classes work on both.


# -----------------------------------------------------------------------------
# Batches of columns → raw codes in a file, dictionaries growing while reading: the first half of a table on disk.
#
# A raw code is a category's place in the order of appearance; what the categories are (numbers, names, intervals) is
# decided when all have been seen, by the same rule as for tables in memory (`table_input.learn_column`).

MAX_RAW = 65_534  # Words a column may show before it is an id, or a measurement too fine to be cut into intervals.
MISSING = 65_535  # Raw code of a missing cell; 255 in records of one byte per cell.


class GrowingColumn:
    """Words seen so far, in some order, how often, and with which weight if rows have one."""

    def __init__(self, name: str, text: bool) -> None:
        self.name, self.names = name, GrowingNames(f"{name!r}", text)
        self.counts: NDArray[np.int64] = np.zeros(256, np.int64)
        self.weights: Floats = np.zeros(0)

    @property
    def size(self) -> int:
        return len(self.names.place)

    def code(self, array: Any) -> NDArray[np.uint16]:
        """Raw codes of one batch."""
        before = self.size
        codes, distinct, seen = self.names.count(array, in_order=False)
        if self.size > max(before, MAX_CATEGORIES):
            self._check_size()
        while self.size > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        np.add.at(self.counts, distinct, seen)
        return codes.astype(np.uint16)  # -1 becomes `MISSING`

    def weigh(self, codes: NDArray[np.uint16], weight: Floats) -> None:
        """The weights of a batch's rows added to those of their categories, one after the other: the bits of memory."""
        new = np.zeros(self.size - len(self.weights))
        # a missing value is one category more, left out
        at = np.concatenate([np.arange(self.size), np.minimum(codes, self.size)])
        summed = np.bincount(at, np.concatenate([self.weights, new, weight]))
        self.weights = summed[: self.size].astype(np.float64)

    def _check_size(self) -> None:
        kind = spelled_numbers(self.names.words()).type  # a format without types spells its numbers
        numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        limit, things = (MAX_RAW, "numbers") if numbers else (MAX_CATEGORIES, "values")
        if self.size > limit:
            suggestion = (
                f"round them, or leave the column out (--drop {quote(self.name)}; --id, if it names the rows)"
                if numbers
                else f"it looks like an id: leave it out (--drop {quote(self.name)}; --id, if it names the rows)"
            )
            raise DataError(f"column {self.name!r} holds more than {limit:,} distinct {things}; {suggestion}")


def write_raw(
    batches: Iterator[Any],
    sink: BinaryIO,
    text: bool,
    weight: str | None,
    weights: BinaryIO,
    weight_type: WeightType,
) -> tuple[list[GrowingColumn], int, int, float]:
    """Code all batches into records of a file; the columns, how many rows there are, how many have no weight, and the
    largest weight.

    A record is some rows, column after column, a byte per cell where all codes fit. `text` came from a format without
    types. The column `weight` is no data: its numbers go into `weights`. A row without weight is an absent row, as in
    memory. Columns add sampling weights without the power of two of the largest one, as in memory too.
    """
    columns: list[GrowingColumn] = []
    n_rows = behind = exponent = 0
    largest = 0.0
    for batch in batches:
        numbers: Floats | None = None
        if weight is not None:
            numbers = check_weights(read_weights(batch.column(weight), weight, behind), weight_type, behind)
            behind += batch.num_rows
            batch = batch.select([name for name in batch.schema.names if name != weight])
            if not numbers.all():
                batch, numbers = batch.filter(pa.array(numbers > 0)), numbers[numbers > 0]
            if not batch.num_rows:
                continue
            weights.write(numbers.tobytes())
            larger, largest = float(numbers.max()) > largest, max(float(numbers.max()), largest)
            if weight_type == "sampling" and larger:
                before, exponent = exponent, exponent_of(largest)
                for column in columns:
                    column.weights = np.ldexp(column.weights, before - exponent)
            numbers = np.ldexp(numbers, -exponent)
        columns = columns or [GrowingColumn(name, text) for name in batch.schema.names]
        codes = np.empty((len(columns), batch.num_rows), np.uint16)
        for n, column in enumerate(columns):
            codes[n] = column.code(batch.column(n))
            if numbers is not None:
                column.weigh(codes[n], numbers)
        n_rows += batch.num_rows
        narrow = all(column.size < 255 for column in columns)
        record = codes.astype(np.uint8) if narrow else codes  # a missing value, 65535, becomes 255
        sink.write(np.array([batch.num_rows, record.itemsize], np.int64).tobytes())
        sink.write(record.tobytes())
    if n_rows and not columns:
        raise DataError(NO_COLUMN)
    if not n_rows:
        raise DataError(NO_WEIGHT if weight is not None else "the files hold no rows; give at least one")
    return columns, n_rows, max(behind - n_rows, 0), largest


def read_weights(array: Any, name: str, before: int = 0) -> NDArray[np.float64]:
    """A column of weights: a number for every row, so many rows behind; whether rows can have them is not asked."""
    where = f"the weights column {name!r}"
    numbers = as_numbers(to_arrow(array, where), where, "give every row a number", before)
    missing = np.isnan(numbers)
    if missing.any():
        raise DataError(
            f"{where} has a missing value in row {before + int(missing.argmax()) + 1}; give every row a number"
        )
    return numbers


def read_raw(source: BinaryIO, n_columns: int) -> Iterator[NDArray[Any]]:
    """The records again (columns, rows), each of the type it was written in: the largest value is a missing value."""
    while head := source.read(16):
        rows, width = np.frombuffer(head, np.int64).tolist()
        codes = np.frombuffer(source.read(rows * n_columns * width), np.uint8 if width == 1 else np.uint16)
        yield codes.reshape(n_columns, rows)
