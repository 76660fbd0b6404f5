"""Sources of bytes: a file, a compressed file, or standard input, each readable more than once.

Reading twice makes good messages cheap: the first pass is fast and finds only that something is wrong,
the second is slow and finds where.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from latentfit.core.errors import FileFormatError, reason_of
from latentfit.io.remote import facts_of, is_remote, open_remote
from latentfit.io.values import check_encoding

STDIN = "-"
BROKEN = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises on a broken file; an OSError with an errno is the disk's, not the format's."""
BLOCKS = (1 << 20, 1 << 25, 1 << 30)
"""Bytes parsed at a time, tried in turn: a row must fit one block, and few files need more than the first."""

_TABLES = {"csv": "CSV", "tsv": "TSV", "jsonl": "JSON lines", "parquet": "Parquet"}
_FORMATS = {**_TABLES, "txt": "text", "mtx": "Matrix Market"}
_SHEETS = {"xlsx", "xls", "xlsm", "ods", "numbers"}
READABLE = (".csv", ".tsv", ".jsonl", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".parquet")
"""File extensions that can be read."""
_KNOWN = ".csv, .tsv, .jsonl (each also with .gz) and .parquet"
_DISGUISES = (
    (b"\xff\xfe", "is UTF-16 text; save it as UTF-8, or give encoding='utf-16' (--encoding utf-16)"),
    (b"\xfe\xff", "is UTF-16 text; save it as UTF-8, or give encoding='utf-16' (--encoding utf-16)"),
    (b"\x1f\x8b", "is compressed with gzip; give it a name that ends in .gz"),
    (b"PK\x03\x04", "is a ZIP archive or a spreadsheet; save it as CSV"),
    (b"PAR1", "is a Parquet file; give it a name that ends in .parquet"),
)


@dataclass(frozen=True)
class Source:
    """Bytes with a name for messages. `path` or `data` holds them; `packed` means gzip.

    Text that is not UTF-8 has an `encoding` and comes out as UTF-8. `delimiter` separates the cells of a table
    where it is not the one of the extension; numbers of the columns `commas` have decimal commas.
    """

    name: str
    kind: str
    path: str | None = None
    data: bytes | None = None
    packed: bool = False
    encoding: str | None = None
    delimiter: str | None = None
    commas: tuple[str, ...] = ()

    @property
    def separator(self) -> str:
        """The separator of a text table."""
        return self.delimiter or ("\t" if self.kind == "tsv" else ",")

    @property
    def remote(self) -> bool:
        """Whether it is on an object store, where every read is expensive."""
        return self.path is not None and is_remote(self.path)

    def open(self) -> Any:
        """A fresh binary stream from the first byte, unpacked, text as UTF-8."""
        if self.data is not None:
            plain = pa.BufferReader(self.data)
        else:
            plain = open_remote(str(self.path)) if self.remote else pa.OSFile(self.path)
        stream = pa.CompressedInputStream(plain, "gzip") if self.packed else plain
        return stream if self.encoding is None else pa.transcoding_input_stream(stream, self.encoding, "utf-8")

    def buffered(self) -> io.BufferedReader:
        """The same bytes as a Python stream with lines."""
        return io.BufferedReader(self.open(), 1 << 20)

    def lines(self) -> Iterator[bytes]:
        with self.buffered() as stream:
            yield from stream

    def broken(self, error: Exception) -> FileFormatError | OSError:
        """The error for damage without a line number: the compression, or what pyarrow reports."""
        text = reason_of(error)
        if isinstance(error, OSError) and error.errno is not None:
            return OSError(f"{self.name} cannot be read: {error.strerror or text}; check the disk")
        if self.packed and "Truncated compressed stream" in text:
            return FileFormatError(f"{self.name} ends in the middle of its gzip data; copy it again")
        if self.packed and "zlib" in text:
            return FileFormatError(f"{self.name} has damaged gzip data; copy it again")
        return FileFormatError(f"{self.name} cannot be read as {_FORMATS[self.kind]} ({text}); write it again")

    def damage(self) -> FileFormatError | OSError | None:
        """The error of damaged compression, if any; the file is read to its end."""
        try:
            for _ in self.lines() if self.packed else ():
                pass
        except OSError as error:
            return self.broken(error)
        return None


def find_source(path: str | os.PathLike[str], encoding: str | None = None) -> Source:
    """The source a path names; its format comes from the name, and its first bytes must agree.

    An `encoding` that the user named is that of the text, which is UTF-8 otherwise.
    """
    name, encoding = os.fspath(path), check_encoding(encoding)
    if name == STDIN:
        return _undisguised(Source("standard input", "csv", data=sys.stdin.buffer.read(), encoding=encoding))
    plain = plain_name(name)
    packed = plain.endswith(".gz")
    extension = os.path.splitext(plain.removesuffix(".gz"))[1].removeprefix(".")
    probe(name)
    if extension not in _TABLES or (packed and extension == "parquet"):
        if extension in _SHEETS:
            raise FileFormatError(f"{name} is a spreadsheet; save it as CSV")
        raise FileFormatError(f"{name}: the extension is not that of a known format; Latentfit reads {_KNOWN}")
    encoding = None if extension == "parquet" else encoding
    source = Source(name, extension, path=name, packed=packed, encoding=encoding)
    if is_pipe(name):
        with open(name, "rb") as stream:
            source = replace(source, path=None, data=stream.read())
    return _undisguised(source)


def is_pipe(name: str) -> bool:
    """Whether a name is that of a pipe or a device, which can be read only once."""
    return os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name)


def plain_name(name: str) -> str:
    """The file name that determines the format: in lower case, an address without its options."""
    return (name.partition("?")[0] if is_remote(name) else name).lower()


def gathered(lines: Iterable[bytes], most: int) -> Iterator[list[bytes]]:
    """Lines in batches of about so many bytes."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if size > most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def probe(name: str) -> None:
    """Raise the OSError that explains why a file cannot be opened."""
    if is_remote(name):
        facts_of(name)
        return
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name} is a folder; name a file in it")
    if is_pipe(name):  # opening a pipe would take its writer away
        return
    try:
        with open(name, "rb"):
            pass
    except FileNotFoundError:
        raise FileNotFoundError(f"the file {name} does not exist; check the path") from None
    except PermissionError:
        raise PermissionError(f"{name} may not be read by this user; change its permissions") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"{name!r} cannot be opened: {reason}; check the path") from None


def _undisguised(source: Source) -> Source:
    """The source, unless its first bytes contradict its extension."""
    if source.packed:
        with replace(source, packed=False, encoding=None).open() as stream:
            start = stream.read(2)
        if start and start != b"\x1f\x8b":
            raise FileFormatError(f"{source.name} is not compressed with gzip; take .gz off its name")
    if source.kind != "parquet" and source.encoding is None:
        try:
            with source.open() as stream:
                start = stream.read(4)
        except BROKEN as error:
            raise source.broken(error) from None
        for magic, problem in _DISGUISES:
            if start.startswith(magic):
                raise FileFormatError(f"{source.name} {problem}")
    return source


def bad_utf8(source: Source) -> FileFormatError | None:
    """The error for the first line that is not UTF-8, if there is one."""
    for number, line in enumerate(source.lines(), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            byte = line[error.start]
            return FileFormatError(
                f"{source.name}, line {number}: byte 0x{byte:02x} at position {error.start + 1} is not UTF-8 "
                "text; save the file as UTF-8, or give its encoding (--encoding latin-1)"
            )
    return None


# -----------------------------------------------------------------------------
# SHA-256 of input files, for the provenance of a result.

MOST_BYTES = 2**33
"""Files above this size are not read a second time for their hash (about 1 GB per second)."""
_BLOCK = 2**22


def file_hashes(paths: Iterable[str | None]) -> dict[str, str]:
    """SHA-256 of every file by its path, or the reason why there is none."""
    return {path: _hash(path) for path in paths if path}


def _hash(path: str) -> str:
    if path == "-":
        return "standard input, not hashed"
    if "://" in path:
        return "remote, not hashed"
    if not os.path.isfile(path):
        return "several files, not hashed"
    if os.path.getsize(path) > MOST_BYTES:
        return f"larger than {MOST_BYTES // 2**30} GB, not hashed"
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
