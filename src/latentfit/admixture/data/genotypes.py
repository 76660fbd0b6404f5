"""Genotypes: allele counts 0, 1, 2 of people at SNPs, SNP by SNP, one byte each, with the names of both.

Whatever holds them becomes `Genotypes`: frames and matrices (person, SNP), files of PLINK. NaN, null and -1
are missing calls; anything else outside 0, 1, 2 is refused with its place. A SNP without a call, or with one allele
only, says nothing about ancestry: `informative` leaves it out.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.frames import ArrowFrame, as_frame, column, index_names
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import MISSING, Calls
from latentfit.core.names import Names
from latentfit.core.numbers import as_numbers
from latentfit.core.sampling import mixed
from latentfit.io.plink import stream_plink

BLOCK = 4096
"""SNPs looked at together, at most."""
BLOCK_BYTES = 1 << 28
"""Bytes that a block of SNPs may take while it is worked on: of many people a block has fewer SNPs."""
UNKNOWN_ALLELE = "0"
"""How PLINK writes an allele that nobody in the set has."""
_WEIGHT_BITS = 26
"""Bits of a hash that weigh one call: sums over 10⁷ calls stay exact in a double."""


def snps_at_once(n_people: int, bytes_per_call: int, most: int | None = None) -> int:
    """SNPs per block for work of so many bytes per call: a power of two that the number of people alone decides.

    Sums of blocks are added in order: since nothing else decides their size (no engine, no memory that is free), the
    bits are the same everywhere. Powers of two divide one another, so smaller blocks lie within larger ones.
    """
    room = min(BLOCK_BYTES // max(n_people * bytes_per_call, 1), BLOCK if most is None else min(most, BLOCK))
    return 1 << max(int(room).bit_length() - 1, 0)


class SnpBlocks(ABC):
    """What calls in memory and in a file do alike, block after block of SNPs."""

    samples: Names
    snps: Names

    @property
    @abstractmethod
    def n_samples(self) -> int: ...

    @property
    @abstractmethod
    def n_snps(self) -> int: ...

    @abstractmethod
    def calls_of(self, begin: int, end: int) -> Calls:
        """Calls of a range of SNPs."""

    def blocks(self, bytes_per_call: int = 2, most: int | None = None) -> Iterator[tuple[slice, Calls]]:
        """Calls of all SNPs in order, so many at a time as work of so many bytes per call allows."""
        size = snps_at_once(self.n_samples, bytes_per_call, most)
        for begin in range(0, self.n_snps, size):
            end = min(begin + size, self.n_snps)
            yield slice(begin, end), self.calls_of(begin, end)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How often each code occurs at every SNP (SNP, 4)."""
        out = np.empty((self.n_snps, 4), np.int64)
        for rows, calls in self.blocks():
            for code in range(3):
                out[rows, code] = np.count_nonzero(calls == code, axis=1)
        out[:, MISSING] = self.n_samples - out[:, :MISSING].sum(axis=1)
        return out

    @property
    def n_calls(self) -> int:
        return int(self.counts[:, :MISSING].sum())

    @cached_property
    def means(self) -> Floats:
        """Pooled allele frequency of every SNP; one half where there is no call."""
        n_called = self.counts[:, :MISSING].sum(axis=1)
        alleles = self.counts[:, 1] + 2 * self.counts[:, 2]
        return np.where(n_called > 0, alleles / np.maximum(2 * n_called, 1), 0.5)

    def informative(self, min_maf: float = 0.0) -> NDArray[np.bool_]:
        """SNPs with both alleles, the rarer at least `min_maf` of them."""
        rarer = np.minimum(self.means, 1 - self.means)
        called = self.counts[:, :MISSING].sum(axis=1) > 0
        return np.asarray(called & (rarer > 0) & (rarer >= min_maf))

    @property
    def person_without_calls(self) -> Any:
        """The name of someone without a single call, or None."""
        without_calls = np.ones(self.n_samples, bool)
        for _, calls in self.blocks():
            without_calls &= (calls == MISSING).all(axis=0)
            if not without_calls.any():
                return None
        return self.samples.tolist()[int(without_calls.argmax())]

    def order_by_content(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """An order of SNPs and one of people that their calls alone decide, whatever order they came in.

        A fit in this order gives the same bits however rows and columns were shuffled. Each person is
        hashed by the SNPs' counts, each SNP then by the people's hashes; the sums are of integers, hence exact.
        """
        weight = _hashes(self.counts @ np.array([1, 1 << 16, 1 << 32, 1 << 48], np.int64))
        people = np.zeros((self.n_samples, 2))
        for rows, calls in self.blocks(9):
            people += calls.T.astype(np.float64) @ weight[rows]
        weight = _hashes(people[:, 0].astype(np.int64)) + _hashes(people[:, 1].astype(np.int64))[:, ::-1]
        snps = np.empty((self.n_snps, 2))
        for rows, calls in self.blocks(9):
            snps[rows] = calls.astype(np.float64) @ weight
        return np.lexsort((*snps.T, _hashes(snps[:, 0].astype(np.int64))[:, 0])), np.lexsort((*people.T, weight[:, 0]))


@dataclass(frozen=True, eq=False)
class Genotypes(SnpBlocks):
    """Calls (SNP, person): 0, 1, 2 alleles, 3 missing; the people's and the SNPs' names.

    `alleles` (SNP, 2) are the one counted and the other, where the file says so; `notes` tell what was left out of it.
    """

    calls: Calls
    samples: Names
    snps: Names
    alleles: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        return int(self.calls.shape[1])

    @property
    def n_snps(self) -> int:
        return int(self.calls.shape[0])

    def calls_of(self, begin: int, end: int) -> Calls:
        return self.calls[begin:end]

    def take(self, snps: NDArray[Any] | None = None, samples: NDArray[Any] | None = None) -> Genotypes:
        """Some SNPs and people, in the given order."""
        calls = self.calls if snps is None else self.calls[snps]
        calls = calls if samples is None else calls[:, samples]
        return Genotypes(
            np.ascontiguousarray(calls),
            self.samples if samples is None else self.samples[samples],
            self.snps if snps is None else self.snps[snps],
            self.alleles if self.alleles is None or snps is None else self.alleles[snps],
        )

    def aligned(self, at: NDArray[np.intp], alleles: NDArray[Any] | None) -> tuple[Genotypes, Alignment]:
        """The SNPs at these places (-1: not here, taken as missing) with these alleles (SNP, 2) counted.

        Sets that were made apart often count the rarer allele of their own people: calls of the other one are turned
        round, 2 for 0. Alleles of the other strand are read as their complements, unless they fit as they are; "0", an
        allele nobody has, may stand for any. A SNP with other alleles still is another variant: its calls are missing.
        So are those of A/T and C/G, which look the same on both strands, where another SNP is of the other strand.
        """
        absent = at < 0
        calls = self.calls[np.where(absent, 0, at)]
        calls[absent] = MISSING
        turned, flipped, foreign, unsure = (np.zeros(len(at), bool) for _ in range(4))
        if alleles is not None and self.alleles is not None:
            given = self.alleles[np.where(absent, 0, at)]
            other = _complement(given)
            same, swapped = _fit(given, alleles), _fit(given[:, ::-1], alleles)
            other_same, other_swapped = _fit(other, alleles), _fit(other[:, ::-1], alleles)
            flipped = ~absent & ~same & ~swapped & (other_same | other_swapped)
            turned = ~absent & ~same & (swapped | (flipped & ~other_same))
            foreign = ~absent & ~same & ~swapped & ~flipped
            if flipped.any():
                unsure = ~absent & ~foreign & (_complement(alleles) == alleles[:, ::-1]).all(axis=1)
                turned &= ~unsure
            calls[turned] = _TURNED[calls[turned]]
            calls[foreign | unsure] = MISSING
        counts = (int(kind.sum()) for kind in (absent, turned, flipped, foreign, unsure))
        return Genotypes(calls, self.samples, np.arange(len(at)), alleles), Alignment(*counts)


class Alignment(NamedTuple):
    """SNPs of a fit that new people lack, that count the other allele, are of the other strand, have other alleles.

    `unsure` are those whose strand is ambiguous (A/T, C/G) where others are of the other strand.
    """

    absent: int
    turned: int
    flipped: int
    foreign: int
    unsure: int


_TURNED = np.array([2, 1, 0, MISSING], np.uint8)
_OPPOSITE = {"A": "T", "T": "A", "C": "G", "G": "C", "a": "t", "t": "a", "c": "g", "g": "c"}


def _complement(alleles: NDArray[Any]) -> NDArray[Any]:
    """Letters of the other strand; what is no base stays."""
    return np.array([[_OPPOSITE.get(one, one) for one in pair] for pair in alleles.tolist()], object).reshape(-1, 2)


def _fit(given: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.bool_]:
    alike = (given == wanted) | (given == UNKNOWN_ALLELE) | (wanted == UNKNOWN_ALLELE)
    return np.asarray(alike.all(axis=1), bool)


def _hashes(numbers: NDArray[np.int64]) -> Floats:
    """Two well mixed whole numbers below 2²⁶ for each, as doubles (splitmix64)."""
    z = mixed(numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    low = np.uint64((1 << _WEIGHT_BITS) - 1)
    return np.column_stack([z & low, z >> np.uint64(64 - _WEIGHT_BITS)]).astype(np.float64)


# ---------------------------------------------------------------------- input


def read_genotypes(data: Any, *, samples: Any = None) -> Genotypes:
    """Genotypes from a frame or a matrix.

    Parameters
    ----------
    data : Genotypes, or frame or array-like of shape (n_people, n_snps)
        Allele counts 0, 1, 2; NaN, null or -1 marks a missing call.
    samples : sequence of str, optional
        Names of the people; by default the index of a pandas frame, or 0, 1, …

    Returns
    -------
    Genotypes
    """
    if isinstance(data, Genotypes):
        return data
    frame = as_frame(data)
    if frame is not None:
        snps: Names = np.array(list(frame.columns), object)
        calls = frame_calls(data, snps)
        if samples is None:
            samples = index_names(data)
    else:
        calls = _from_matrix(data)
        snps = np.arange(len(calls))
    if not calls.shape[0]:
        raise DataError("the genotypes have 0 SNPs (columns); give at least one")
    if not calls.shape[1]:
        raise DataError("the genotypes have no people (rows); give at least one row")
    names = np.arange(calls.shape[1]) if samples is None else person_names(samples, calls.shape[1])
    return Genotypes(calls, names, snps)


def read_bed(path: str | os.PathLike[str], *, threads: int = 1, autosomes: bool = True) -> Genotypes:
    """Genotypes of a PLINK set (`.bed`, `.bim`, `.fam`); needs the extra `genetics`.

    Parameters
    ----------
    path : path
        The `.bed` file; its `.bim` and `.fam` are beside it.
    threads : int, default=1
        Number of threads.
    autosomes : bool, default=True
        Leave out SNPs of sex chromosomes and mitochondria, with a note.

    Returns
    -------
    Genotypes
    """
    found = stream_plink(path, threads, autosomes=autosomes)
    (calls,) = found.blocks
    return Genotypes(calls, found.samples, found.snps, found.alleles, found.notes)


def frame_calls(data: Any, snps: Names, before: int = 0) -> Calls:
    """Calls (SNP, person) of a frame with one column per SNP; so many people came `before` these."""
    frame = as_frame(data)
    calls = np.empty((len(snps), len(frame)), np.uint8)  # type: ignore[arg-type]
    for j, name in enumerate(snps.tolist()):
        calls[j] = _codes(_column_numbers(frame, name, before), name, before=before)
    return calls


def _column_numbers(frame: Any, name: Any, before: int) -> NDArray[Any]:
    """A column as numbers, NaN where missing."""
    array = column(frame, name)
    if isinstance(frame, ArrowFrame) and array.null_count == 0 and pa.types.is_integer(array.type):
        return np.asarray(array)
    advice = f"genotypes count alleles: give 0, 1, 2, or leave the cell empty; {_naming(name)}"
    return as_numbers(array, f"SNP {name!r}", advice, before)


def _naming(name: Any) -> str:
    return f"give --id {quote(str(name))} if it names the people"


def _from_matrix(data: Any) -> Calls:
    matrix = np.asarray(data)
    if matrix.ndim != 2:
        raise DataError(
            f"genotypes must be a frame or a matrix (person, SNP), got {matrix.ndim} dimensions; give a matrix"
        )
    if matrix.dtype.kind not in "iufb":
        try:
            matrix = matrix.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"genotypes must be numbers, got a matrix of {matrix.dtype}; give 0, 1, 2, or NaN where missing"
            ) from None
    calls = np.empty((matrix.shape[1], matrix.shape[0]), np.uint8)
    size = snps_at_once(len(matrix), 2 * matrix.itemsize + 4)
    for begin in range(0, matrix.shape[1], size):
        block = matrix[:, begin : begin + size].T
        calls[begin : begin + size] = _codes(block, None, begin)
    return calls


def _codes(values: NDArray[Any], name: Any, first: int = 0, before: int = 0) -> Calls:
    """Codes of a SNP, or of a block of them (SNP, person); what is no genotype is refused with its place."""
    missing = (values == -1) | (values != values)
    with np.errstate(invalid="ignore"):
        codes = np.where(missing, MISSING, values).astype(np.uint8)
    wrong = ~missing & ((codes != values) | (codes > 2))
    if wrong.any():
        at = np.argwhere(wrong)[0]
        snp = name if name is not None else first + int(at[0])
        value, hint = values[tuple(at)].item(), "" if name is None else f"; {_naming(name)}"
        raise DataError(
            f"SNP {snp!r} holds {value!r} in row {before + int(at[-1]) + 1}; genotypes count alleles: give 0, 1, 2, "
            f"and -1 or an empty cell where the call is missing{hint}"
        )
    return codes


def person_names(samples: Any, n: int) -> Names:
    listed = samples.to_pylist() if isinstance(samples, pa.Array | pa.ChunkedArray) else list(samples)
    names = np.array([str(name) for name in listed], object)
    if len(names) != n:
        raise DataError(f"names of people must be as many as people ({n}), got {len(names)}; give one per person")
    seen: dict[str, int] = {}
    for row, (name, given) in enumerate(zip(names.tolist(), listed, strict=True), start=1):
        if given is None or not name.strip():
            raise DataError(f"the person in row {row} has no name; name everyone, or leave the column of names out")
        if name in seen:
            raise DataError(f"the person {name!r} is in rows {seen[name]} and {row}; give everyone another name")
        seen[name] = row
    return names
