"""Records on their way through a temporary file, divided among buckets: sorting what is longer than memory.

Pieces are added in order; one bucket's share of all of them comes back in that order. The file has no name, so nothing
stays behind, however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.names import from_names

Numbers = NDArray[Any]
HASHED_AT_ONCE = 1 << 21
"""Letters hashed together: eight bytes each, a few times over."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Spill:
    """A temporary file of records of one type."""

    def __init__(self, folder: Path, n_buckets: int, dtype: Any) -> None:
        self.n_buckets, self.dtype = n_buckets, np.dtype(dtype)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `close` is the owner's to call
        self._begins: list[NDArray[np.int64]] = []  # per piece, where each bucket's records begin in the file
        self._size = 0

    def close(self) -> None:
        """Its room on the disk is free again."""
        self._file.close()

    def add(self, records: Numbers, sizes: NDArray[np.int64]) -> None:
        """A piece that is in the order of its buckets; `sizes` says how many records each has."""
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
    """Words with a number each, divided among buckets."""

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
        """Words and numbers of a bucket."""
        heads = self._heads.read(bucket)
        return words_of(heads["length"], self._letters.read(bucket)), np.ascontiguousarray(heads["number"])


def by_bucket(bucket: Numbers, n_buckets: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The order that brings buckets together, each in the order given, and how many are in each."""
    return np.argsort(bucket, kind="stable"), np.bincount(bucket, minlength=n_buckets)


def letters_of(words: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Lengths in bytes, and all bytes one after the other."""
    wide = words if pa.types.is_large_string(words.type) else words.cast(pa.large_string())
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64, len(wide) + 1 + wide.offset)[wide.offset :]
    letters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return np.diff(ends), letters[ends[0] : ends[-1]]


def words_of(lengths: Numbers, letters: NDArray[np.uint8]) -> pa.Array:
    """The words again."""
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return pa.LargeStringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))


def word_hashes(lengths: NDArray[np.int64], letters: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A hash of every word: a polynomial of its bytes; equal words have equal ones in every process."""
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
