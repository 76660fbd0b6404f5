"""Flat files of rows that are larger than memory: a header, then the body, read in chunks into one buffer.

The file: eight bytes of magic, the length of a JSON header (uint64), the header (what the rows are, their key, a
checksum of the body), then the body. A file in a cache is found by its key; one for a single run is temporary and
removed with the last reference to its handle (`FileHandle`).
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import finalize

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import FileFormatError
from latentfit.core.names import from_names
from latentfit.io.write import atomic_path, is_full

MAGIC = b"TACITCOD"
CHUNK = 1 << 22
"""Bytes read at a time for a checksum."""

Stored = TypeVar("Stored", bound=Any)
"""Rows in a flat file: a dataclass with a `handle`."""
Write = Callable[[Path, str], Stored]
"""write(path, key): writes the rows, with the key in the header, and returns them."""
Revive = Callable[[Path, int, dict[str, Any]], Stored]
"""revive(path, offset, facts): the rows described by a header."""


class FileHandle:
    """Handle of a temporary file: the file is removed with the last reference to it."""

    def __init__(self, path: Path) -> None:
        finalize(self, remove, path)


def store_rows(
    cache: str | None,
    identity: Callable[[], str],
    ending: str,
    format_: int,
    revive: Revive[Stored],
    write: Write[Stored],
) -> Stored:
    """Rows in a flat file: in the cache under the hash of the text `told`, or in a temporary file."""
    if cache is None:
        return store_temporarily(write, ending)
    key = hashlib.sha256(identity().encode()).hexdigest()
    path = Path(cache) / f"{key[:32]}.{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = reopen_flat(path, key, format_, revive)
    if known is not None:
        return known
    try:
        return write(path, key)
    except OSError as error:
        raise _no_room(path.parent, error) if is_full(error) else error from None


def store_temporarily(write: Write[Stored], ending: str) -> Stored:
    """Rows in a temporary flat file, which is removed with the last reference to its `handle`."""
    path = temporary_path(f"rows.{ending}")
    try:
        return replace(write(path, ""), handle=FileHandle(path))
    except BaseException as error:
        remove(path)
        if isinstance(error, OSError) and is_full(error):
            raise _no_room(path.parent.parent, error) from None
        raise


def _no_room(folder: Path, error: OSError) -> OSError:
    """The error for a disk that filled up while rows were coded."""
    reason = os.strerror(error.errno or 0).lower()
    return OSError(
        f"the coded rows do not fit into {folder}: {reason}; free some space, or name a folder on another disk "
        "(cache=, --cache)"
    )


def temporary_path(name: str) -> Path:
    """The path of a temporary file, in a folder of its own."""
    return Path(tempfile.mkdtemp(prefix="latentfit-", dir=_system_cache())) / name


def _system_cache() -> str | None:
    """The user's cache folder if it is writable; None: the system's temporary folder."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return folder if os.path.isdir(folder) and os.access(folder, os.W_OK) else None


def remove(path: Path) -> None:
    """Remove a file of `path_for_now`, and its folder."""
    for leave in (path.unlink, path.parent.rmdir):
        with suppress(OSError):
            leave()


def write_flat(path: Path, facts: dict[str, Any], pieces: Iterable[NDArray[Any]]) -> int:
    """Write header and body atomically; returns the offset of the body.

    `facts` may still change while `pieces` are produced, as long as their length in JSON does not.
    """
    with atomic_path(path) as part, open(part, "r+b") as sink:
        blank = _header(facts, 0)
        sink.write(blank)
        checksum = 0
        for piece in pieces:
            body = memoryview(np.ascontiguousarray(piece).reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            checksum = zlib.crc32(body, checksum)
            sink.write(body)
        sink.seek(0)
        sink.write(_header(facts, checksum))  # the same length: the checksum has ten digits always
    return len(blank)


def _header(facts: dict[str, Any], checksum: int) -> bytes:
    text = json.dumps({"checksum": f"{checksum:010d}", **facts}, ensure_ascii=False).encode()
    return MAGIC + len(text).to_bytes(8, "little") + text


def reopen_flat(path: Path, key: str, format_: int, revive: Revive[Stored]) -> Stored | None:
    """The rows of an earlier run; None if there are none, or of other data, or damaged: then they are coded again."""
    try:
        with open(path, "rb") as stream:
            if stream.read(8) != MAGIC:
                return None
            length = int.from_bytes(stream.read(8), "little")
            facts = json.loads(stream.read(length))
            if facts["key"] != key or facts["format"] != format_:
                return None
            checksum = 0
            while chunk := stream.read(CHUNK):
                checksum = zlib.crc32(chunk, checksum)
            return revive(path, 16 + length, facts) if f"{checksum:010d}" == facts["checksum"] else None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError):  # a damaged length asks for all
        return None


def fill_from(path: Path, offset: int, buffer: NDArray[Any]) -> None:
    """Fill the buffer from the file; a file that ends early is damaged."""
    view = memoryview(buffer.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    with open(path, "rb", buffering=0) as stream:
        stream.seek(offset)
        at = 0
        while at < len(view):
            got = stream.readinto(view[at:])
            if not got:
                raise FileFormatError(f"the coded rows in {path} end early; code the data again")
            at += got


# -----------------------------------------------------------------------------
# External sort: records are written to a temporary file by bucket, and read back bucket by bucket.
#
# Chunks are added in order; the records of a bucket come back in that order. The file has no name, so that nothing
# is left behind, however the process ends.

Numbers = NDArray[Any]
HASHED_AT_ONCE = 1 << 21
"""Characters hashed at a time: several arrays of eight bytes each."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Spill:
    """A temporary file of records of one type."""

    def __init__(self, folder: Path, n_buckets: int, dtype: Any) -> None:
        self.n_buckets, self.dtype = n_buckets, np.dtype(dtype)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `close` is the owner's to call
        self._begins: list[NDArray[np.int64]] = []  # per piece, where each bucket's records begin in the file
        self._size = 0

    def close(self) -> None:
        """Free the disk space."""
        self._file.close()

    def add(self, records: Numbers, sizes: NDArray[np.int64]) -> None:
        """Add records sorted by bucket; `sizes` is the number of records per bucket."""
        self._begins.append(self._size + np.concatenate([[0], np.cumsum(sizes)]) * self.dtype.itemsize)
        self._file.write(memoryview(np.ascontiguousarray(records, self.dtype).view(np.uint8)))  # type: ignore[arg-type]
        self._size = int(self._begins[-1][-1])

    def read(self, bucket: int) -> Numbers:
        """All records of a bucket."""
        self._file.flush()
        spans = [(int(begins[bucket]), int(begins[bucket + 1])) for begins in self._begins]
        out = np.empty(sum(end - begin for begin, end in spans), np.uint8)
        view, at = memoryview(out), 0  # type: ignore[arg-type]
        for begin, end in spans:
            while begin < end:
                got = os.preadv(self._file.fileno(), [view[at : at + end - begin]], begin)
                if not got:
                    raise OSError("a temporary file ended early; check the disk that holds the cache folder")
                begin, at = begin + got, at + got
        return out.view(self.dtype)


class WordSpill:
    """Strings with a number each, by bucket."""

    def __init__(self, folder: Path, n_buckets: int) -> None:
        self._heads = Spill(folder, n_buckets, [("number", np.int64), ("length", np.uint32)])
        self._letters = Spill(folder, n_buckets, np.uint8)

    def close(self) -> None:
        self._heads.close()
        self._letters.close()

    def add(self, bucket: Numbers, words: pa.Array, numbers: NDArray[np.int64]) -> None:
        order, sizes = by_bucket(bucket, self._heads.n_buckets)
        lengths, letters = letters_of(words.take(from_names(order)))
        heads = np.empty(len(order), self._heads.dtype)
        heads["number"], heads["length"] = numbers[order], lengths
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self._heads.add(heads, sizes)
        self._letters.add(letters, np.diff(ends[np.concatenate([[0], np.cumsum(sizes)])]))

    def read(self, bucket: int) -> tuple[pa.Array, NDArray[np.int64]]:
        """Strings and numbers of a bucket."""
        heads = self._heads.read(bucket)
        return words_of(heads["length"], self._letters.read(bucket)), np.ascontiguousarray(heads["number"])


def by_bucket(bucket: Numbers, n_buckets: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The stable order that sorts by bucket, and the number of records per bucket."""
    return np.argsort(bucket, kind="stable"), np.bincount(bucket, minlength=n_buckets)


def letters_of(words: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Lengths in bytes, and the concatenated bytes."""
    wide = words if pa.types.is_large_string(words.type) else words.cast(pa.large_string())
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64, len(wide) + 1 + wide.offset)[wide.offset :]
    letters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return np.diff(ends), letters[ends[0] : ends[-1]]


def words_of(lengths: Numbers, letters: NDArray[np.uint8]) -> pa.Array:
    """The strings from lengths and concatenated bytes."""
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))


def word_hashes(lengths: NDArray[np.int64], letters: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A polynomial hash of every string, the same in every process."""
    ends = np.concatenate([[0], np.cumsum(lengths)])
    longest = int(lengths.max(initial=0))
    powers = np.cumprod(np.full(longest, MULTIPLIER))
    out = np.empty(len(lengths), np.uint64)
    begin = 0
    while begin < len(lengths):
        end = max(int(np.searchsorted(ends, ends[begin] + HASHED_AT_ONCE, "right")) - 1, begin + 1)
        low, high = int(ends[begin]), int(ends[end])
        place = np.arange(low, high) - np.repeat(ends[begin:end], lengths[begin:end])
        terms = (letters[low:high].astype(np.uint64) + np.uint64(1)) * powers[place]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])  # wraps around, exactly
        at = ends[begin : end + 1] - low
        out[begin:end] = sums[at[1:]] - sums[at[:-1]]
        begin = end
    return out
