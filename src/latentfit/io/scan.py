"""Batches of several files → one table; files may disagree about the type of a column.

The rule is that of columns coded batch by batch: numbers of several types are numbers, all else is text, in
which 1 and "1" are equal, as they would be in a CSV file.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from latentfit.core.errors import DataError
from latentfit.io.csv_file import stream_csv
from latentfit.io.json_lines import stream_json_lines
from latentfit.io.read import Choose, chooser
from latentfit.io.remote import facts_of, is_remote, list_remote
from latentfit.io.source import READABLE, STDIN, Source, find_source, is_pipe, plain_name, probe
from latentfit.io.text_lines import TEXT, is_text, stream_lines
from latentfit.io.values import NOTHING, Missing, check_encoding, integers_if_canonical


def join_batches(batches: Iterable[Any]) -> Any:
    """Batches with the same columns, in the same order, as one table whose dictionaries are one."""
    tables = [pa.Table.from_batches([one]) for one in batches]
    for at, name in enumerate(tables[0].column_names):
        columns = [table.column(at) for table in tables]
        if not _agree(columns):
            alike = _alike(columns, name)
            tables = [table.set_column(at, name, one) for table, one in zip(tables, alike, strict=True)]
    return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


def _agree(columns: list[Any]) -> bool:
    """Whether pyarrow can put the columns together; decimals beside integers it refuses where one is large."""
    kinds = {column.type for column in columns}
    if len(kinds) == 1:
        return True
    if any(map(pa.types.is_floating, kinds)) and any(map(pa.types.is_integer, kinds)):
        return False
    try:
        pa.unify_schemas([pa.schema([("", kind)]) for kind in kinds], promote_options="permissive")
    except pa.ArrowTypeError:
        return False
    return True


def _alike(columns: list[Any], name: str) -> list[Any]:
    """Columns of several types as numbers, or else as text."""
    plain = [one.cast(one.type.value_type) if isinstance(one.type, pa.DictionaryType) else one for one in columns]
    if _agree(plain):
        return plain
    kinds = [one.type for one in plain]
    nested = next((kind for kind in kinds if pa.types.is_nested(kind)), None)
    if nested is not None:
        raise DataError(f"column {name!r} holds {nested} in some of the files; give one text or number per cell")
    if not all(map(_is_number, kinds)):
        return [one if _is_words(one.type) else _spelled(one) for one in plain]
    kind = pa.float64() if any(map(pa.types.is_floating, kinds)) else pa.int64()
    return [one.cast(kind, safe=False) for one in plain]


def _is_number(kind: Any) -> bool:
    """Whether a type is one of numbers; true and false are 1 and 0, and a column without a value may be anything."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in tests)


def _is_words(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))


def _spelled(column: Any) -> Any:
    """Cells as Python writes them; a number that is none is missing."""
    cells = (None if cell is None or cell != cell else str(cell) for cell in column.to_pylist())
    return pa.chunked_array([pa.array(list(cells), pa.string())])


# -----------------------------------------------------------------------------
# Many files as one table, read batch by batch: what is larger than memory.
#
# `scan` names files, globs and folders of one format family with the same columns, or of plain text; nothing is read
# until a model or a command asks. Batches come in the order of the sorted names, rows in the order of the files.

VALUES = ("label", "count", "symbol", "weight")
"""Roles of columns that hold observations; all others hold ids."""


@dataclass(frozen=True)
class Scan:
    """Files to be read as one table: their columns, and the folder of their coded rows (None: none)."""

    paths: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    cache: str | None = None
    callback: Callable[[int], None] | None = None
    text: bool = False  # lines of plain text, not columns
    folder: bool = False  # all files of folders: each may be a document
    drop: tuple[str, ...] = ()
    missing: Missing = NOTHING
    encoding: str | None = None

    @property
    def untyped(self) -> bool:
        """Whether a file is of a format without types, in which integers are text."""
        return any(plain_name(name).removesuffix(".gz").endswith((".csv", ".tsv")) for name in self.paths)

    def batches(self, *, coded: bool = True) -> Iterator[Any]:
        """Record batches of all files, in order, text in dictionaries if `coded`; calls `told` with the rows so far."""
        if self.text:
            raise DataError(f"{self.paths[0]} is plain text without columns; give a table ({', '.join(READABLE)})")
        names: list[str] | None = None
        behind = 0
        for path in self.paths:
            source = find_source(path, self.encoding)
            for batch in _batches(source, chooser(source, self.columns, self.drop), coded, self.missing):
                if names is None:
                    names = batch.schema.names
                elif set(batch.schema.names) != set(names):
                    raise _other_columns(path, self.paths[0], batch.schema.names, names)
                yield batch.select(names)
                behind += batch.num_rows
                if self.callback is not None:
                    self.callback(behind)

    def with_ids(self, *names: str, columns: tuple[str, ...] | None = None) -> Scan:
        """The same files with columns of ids, in which nothing means missing, and other columns to read if given."""
        ids = tuple(dict.fromkeys([*self.missing.names, *(name.strip().lower() for name in names)]))
        asked = self.columns if columns is None else columns
        return replace(self, columns=asked, missing=replace(self.missing, names=ids))

    def columns_by_role(self, roles: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
        """Batches of the columns that have a role, under the names of the roles."""
        wanted = {role: name for role, name in roles.items() if name is not None}
        ids = [name for role, name in wanted.items() if role not in VALUES]
        for batch in self.with_ids(*ids, columns=tuple(wanted.values())).batches():
            yield {role: batch.column(batch.schema.get_field_index(name)) for role, name in wanted.items()}

    def lines(self) -> Iterator[tuple[str, list[str]]]:
        """Lines of all text files, some megabytes at a time, each with its file; calls `told` with the lines so far."""
        behind = 0
        for path in self.paths:
            for lines in stream_lines(path, self.encoding):
                yield path, lines
                behind += len(lines)
                if self.callback is not None:
                    self.callback(behind)

    def rows_about(self) -> int | None:
        """Approximate number of rows, for progress: exact for Parquet, extrapolated from a megabyte of plain text.

        None where it would need reading: compressed text, and files on a store.
        """
        rows = 0.0
        for path in self.paths:
            if is_remote(path) or path.lower().endswith(".gz") or not os.path.isfile(path):
                return None
            rows += _rows_about(path)
        return max(int(rows), 1)

    def first_names(self) -> list[str]:
        """Columns of the first file."""
        return list(next(iter(self.batches())).schema.names)

    def fingerprint(self) -> str:
        """A hash of names, sizes and modification times of the files, and of the columns to read."""
        known = hashlib.sha256(repr((self.columns, self.drop, self.missing, self.encoding)).encode())
        for path in self.paths:
            known.update(f"\0{path if is_remote(path) else os.path.abspath(path)}\0{_facts(path)}".encode())
        return known.hexdigest()


def scan(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    callback: Callable[[int], None] | None = None,
    lines: bool | None = None,
    drop: Sequence[str] = (),
    missing: Sequence[Any] = (),
    encoding: str | None = None,
    names: Sequence[str] = (),
) -> Scan:
    """Files to be read batch by batch, accepted wherever an estimator takes a frame.

    Parameters
    ----------
    paths : str, path-like or sequence of these
        Files, globs such as ``"data/*.parquet"`` or folders, local or at ``s3://bucket/…``: `.csv`, `.tsv`, `.jsonl`
        (each also with `.gz`) and `.parquet`, all with the same columns.
    columns : sequence of str, optional
        Columns to read; all by default.
    cache : str or path-like, optional
        Folder for the coded rows, so that a second fit of unchanged files need not read them again; without one they
        are removed when they are no longer used.
    callback : callable, optional
        Progress callback, called with the number of rows read so far.
    lines : bool, optional
        Whether the files are plain text, read line by line (documents, sequences, edges); by default those whose names
        end in `.txt` or `.txt.gz` are.
    drop : sequence of str
        Columns to leave out.
    missing : sequence
        Values that mean missing in every column, such as ``[98, 99, "NA"]``, besides empty cells; as they are written
        in a text file. Columns of ids (tasks, workers, documents, ...) keep them.
    encoding : str, optional
        Encoding of text files, such as ``"latin-1"``; UTF-8 by default, and Windows-1252 with a warning where that
        fails.
    names : sequence of str
        Columns of ids, in lower case, in which nothing means missing.

    Returns
    -------
    Scan
        Names the files; nothing is read until it is used.

    Examples
    --------
    >>> import pathlib, tempfile, latentfit
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("colour,size\\nred,big\\n")
    >>> _ = (folder / "b.csv").write_text("colour,size\\nblue,small\\n")
    >>> sum(batch.num_rows for batch in latentfit.scan(folder).batches())
    2
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[str] = []
    for one in given:
        found += _expand(os.fspath(one), lines)
    if not found:
        raise DataError("paths must name at least one file, got none")
    text = [lines if lines is not None else is_text(name) for name in found]
    if any(text) and not all(text):
        table = found[text.index(False)]
        raise DataError(f"{found[text.index(True)]} is plain text and {table} is a table; scan files of one kind")
    once: dict[str, str] = {}  # a.csv and ./a.csv are one file
    for name in found:
        once.setdefault(name if is_remote(name) else os.path.realpath(name), name)
    return Scan(
        tuple(once.values()),
        None if columns is None else _names(columns, "columns"),
        None if cache is None else os.fspath(cache),
        callback,
        all(text),
        all(os.path.isdir(one) for one in given),
        _names(drop, "drop"),
        Missing(_names(missing, "missing"), tuple(names)),
        check_encoding(encoding),
    )


def _names(given: Any, what: str) -> tuple[str, ...]:
    return tuple(str(name) for name in _listed(given, what))


def _listed(given: Any, what: str) -> Sequence[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(f"{what} must be a list, got {given!r}; give {what}=[{given!r}]")
    return list(given)


def whole(data: Any) -> Any:
    """The files of a `Scan` read into one table, as by `read_columns`; any other data unchanged."""
    if not isinstance(data, Scan):
        return data
    import pyarrow as pa

    table = join_batches(data.batches(coded=False))
    for at, name in enumerate(table.schema.names if data.untyped else ()):
        if pa.types.is_string(table.schema.types[at]):
            table = table.set_column(at, name, integers_if_canonical(table.column(at)))
    return table


def is_several(name: str) -> bool:
    """Whether a name may mean several files: a folder, a glob, an address that is not a file."""
    if is_remote(name):
        return not plain_name(name).endswith((*READABLE, *TEXT)) or "*" in name
    return os.path.isdir(name) or (not os.path.exists(name) and glob.has_magic(name))


def _facts(path: str) -> tuple[int, int]:
    """Size and modification time."""
    if is_remote(path):
        return facts_of(path)
    facts = os.stat(path)
    return facts.st_size, facts.st_mtime_ns


def _rows_about(path: str) -> float:
    if path.lower().endswith(".parquet"):
        from latentfit.io.parquet_file import count_rows

        return float(count_rows(path))
    with open(path, "rb") as stream:
        start = stream.read(1 << 20)
    return os.path.getsize(path) * start.count(b"\n") / max(len(start), 1)


def _expand(name: str, lines: bool | None) -> list[str]:
    """The files that a name means; a folder's tables, or its texts if it has no table."""
    endings = TEXT if lines else (*READABLE, *TEXT) if lines is None else READABLE
    if is_remote(name):
        return _of_one_kind(list_remote(name, endings))
    if os.path.isdir(name):
        inside = sorted(
            str(path) for path in Path(name).iterdir()
            if path.name.lower().endswith(endings) and not path.name.startswith(".")  # ._a.txt, what macOS leaves
        )  # fmt: skip
        if not inside:
            raise DataError(f"the folder {name} holds no file that can be read; put some there ({', '.join(endings)})")
        return _of_one_kind(inside)
    if not os.path.exists(name) and glob.has_magic(name):
        matching = sorted(glob.glob(name, recursive=True))
        if not matching:
            raise FileNotFoundError(f"no file matches {name}; check the pattern")
        return matching
    if lines or (lines is None and is_text(name)):
        probe(name)
    elif name == STDIN or is_pipe(name):
        raise DataError(f"{name} can be read once only, and files of a scan are read again; save it as a file")
    else:
        find_source(name)  # raises if it cannot be read
    return [name]


def _of_one_kind(found: list[str]) -> list[str]:
    return [name for name in found if not is_text(name)] or found


def _batches(source: Source, choose: Choose, coded: bool, missing: Missing) -> Iterator[Any]:
    if source.kind == "parquet":
        from latentfit.io.parquet_file import stream_parquet  # a CSV file should not wait for it

        return stream_parquet(source, choose, coded, missing)
    if source.kind == "jsonl":
        return stream_json_lines(source, choose, missing)
    return stream_csv(source, choose, coded, missing)


def _other_columns(path: str, first: str, names: Sequence[str], wanted: Sequence[str]) -> DataError:
    lacking = [name for name in wanted if name not in names]
    more = [name for name in names if name not in wanted]
    what = f"lacks the column {lacking[0]!r}" if lacking else f"has a column {more[0]!r}"
    return DataError(f"{path} {what}, unlike {first}; scan files with the same columns, or name them (columns=)")
