"""StoredGenotypes: genotype bytes in a flat file, SNP after SNP, read block by block; what is larger than memory.

The file (`engine/flat_file.py`) has the people's and the SNPs' names and the alleles in its header, then one byte a
call,
SNP-major. Tables with one row per person are transposed through a file of their own. What is one number per SNP
(counts, frequencies) is held in memory: eight bytes beside as many bytes as there are people.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.admixture.data.genotypes import Genotypes, SnpBlocks, frame_calls, person_names, snps_at_once
from latentfit.core.errors import DataError
from latentfit.core.kernels.admixture import Calls
from latentfit.core.names import Names
from latentfit.engine.flat_file import FileHandle, fill_from, store_rows, store_temporarily, temporary_path, write_flat
from latentfit.io.plink import facts_of_plink, stream_plink
from latentfit.io.scan import Scan

FORMAT, ENDING = 2, "calls"


@dataclass(frozen=True, eq=False)
class StoredGenotypes(SnpBlocks):
    """Calls (SNP, person) on disk: 0, 1, 2 alleles, 3 missing; names and alleles as `Genotypes` has them."""

    path: Path
    offset: int
    samples: Names
    snps: Names
    alleles: NDArray[Any] | None = None
    handle: FileHandle | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        return len(self.samples)

    @property
    def n_snps(self) -> int:
        return len(self.snps)

    def calls_of(self, begin: int, end: int) -> Calls:
        """Calls of a range of SNPs, fresh from the file."""
        return self.calls_at(begin, end, self.n_samples)

    def calls_at(self, begin: int, end: int, n_samples: int) -> Calls:
        """The same for those who do not hold the names."""
        calls = np.empty((end - begin, n_samples), np.uint8)
        fill_from(self.path, self.offset + begin * n_samples, calls)
        return calls

    def take(self, snps: NDArray[Any] | None = None, samples: NDArray[Any] | None = None) -> StoredGenotypes:
        """Some SNPs and people, in the given order, in a file of their own for as long as it is used."""
        at = np.arange(self.n_snps)[slice(None) if snps is None else snps]
        people = np.arange(self.n_samples)[slice(None) if samples is None else samples]
        alleles = None if self.alleles is None else self.alleles[at]
        size = snps_at_once(self.n_samples, 2)
        blocks = (self._gathered(at[begin : begin + size])[:, people] for begin in range(0, len(at), size))
        return store_blocks(blocks, self.samples[people], self.snps[at], alleles)

    def _gathered(self, snps: NDArray[np.intp]) -> Calls:
        """SNPs from anywhere in the file; mapped for this block only, so that what was looked at does not stay."""
        if not len(snps):
            return np.empty((0, self.n_samples), np.uint8)
        shape = (self.n_snps, self.n_samples)
        return np.array(np.memmap(self.path, np.uint8, "r", self.offset, shape)[snps])

    def loaded(self) -> Genotypes:
        """All calls in memory."""
        return Genotypes(self.calls_of(0, self.n_snps), self.samples, self.snps, self.alleles, self.notes)


AnyGenotypes = Genotypes | StoredGenotypes
"""Calls in memory or in a file."""


def store_genotypes(genotypes: Genotypes) -> StoredGenotypes:
    """Calls from memory in a flat file, for this run only."""
    blocks = (calls for _, calls in genotypes.blocks())
    stored = store_blocks(blocks, genotypes.samples, genotypes.snps, genotypes.alleles)
    return replace(stored, notes=genotypes.notes)


def store_blocks(
    blocks: Iterator[Calls], samples: Names, snps: Names, alleles: NDArray[Any] | None = None
) -> StoredGenotypes:
    """Calls that come block by block in a flat file, for this run only."""
    return store_temporarily(lambda path, key: _write(path, key, blocks, samples, snps, alleles), ENDING)


def store_bed(
    path: str | os.PathLike[str], cache: str | None = None, threads: int = 1, *, autosomes: bool = True
) -> StoredGenotypes:
    """The calls of a PLINK set, decoded block by block: in the cache, for a second run to find, or for this run.

    SNPs of sex chromosomes and mitochondria are left out, with a note, unless ``autosomes=False``.
    """

    def fingerprint() -> str:
        return f"genotypes {FORMAT}\0bed\0{facts_of_plink(path)}\0{'autosomes' if autosomes else 'all'}"

    def write(file_path: Path, key: str) -> StoredGenotypes:
        found = stream_plink(path, threads, autosomes=autosomes, at_once=lambda people: snps_at_once(people, 3))
        return _write(file_path, key, found.blocks, found.samples, found.snps, found.alleles, found.notes)

    return store_rows(cache, fingerprint, ENDING, FORMAT, _revived, write)


def store_scan(scan: Scan, id_: str | None = None) -> StoredGenotypes:
    """Files with one row per person and one column per SNP, transposed; the column `id_` names the people."""

    def fingerprint() -> str:
        return f"genotypes {FORMAT}\0scan\0{scan.fingerprint()}\0{id_}"

    def write(file_path: Path, key: str) -> StoredGenotypes:
        return _write(file_path, key, *_turned(scan, id_))

    return store_rows(scan.cache, fingerprint, ENDING, FORMAT, _revived, write)


# --------------------------------------------------------------------- files


def _write(
    path: Path, key: str, blocks: Iterator[Calls], samples: Names, snps: Names, alleles: NDArray[Any] | None = None,
    notes: tuple[str, ...] = (),
) -> StoredGenotypes:  # fmt: skip
    facts = {
        "format": FORMAT,
        "key": key,
        "samples": samples.tolist(),
        "snps": snps.tolist(),
        "alleles": None if alleles is None else alleles.tolist(),
        "notes": list(notes),
    }
    return StoredGenotypes(path, write_flat(path, facts, blocks), samples, snps, alleles, notes=notes)


def _revived(path: Path, offset: int, facts: dict[str, Any]) -> StoredGenotypes:
    samples, snps = (_names(facts[name]) for name in ("samples", "snps"))
    alleles = None if facts["alleles"] is None else np.array(facts["alleles"], object)
    return StoredGenotypes(path, offset, samples, snps, alleles, notes=tuple(map(str, facts["notes"])))


def _names(listed: list[Any]) -> Names:
    return np.array(listed, np.int64 if listed and all(isinstance(name, int) for name in listed) else object)


def _turned(scan: Scan, id_: str | None) -> tuple[Iterator[Calls], Names, Names]:
    """Blocks of SNPs of a table of people: rows are written as they come, then read column after column."""
    path = temporary_path("people.rows")
    handle = FileHandle(path)
    people: list[Any] = []
    snps: Names | None = None
    behind = 0
    with open(path, "wb") as raw:
        for batch in scan.batches():
            table = pa.Table.from_batches([batch])
            if id_ is not None:
                people += table[id_].to_pylist()
                table = table.drop_columns([id_])
            snps = np.array(table.column_names, object)
            raw.write(np.ascontiguousarray(frame_calls(table, snps, before=behind).T).tobytes())
            behind += table.num_rows
    if snps is None or not len(snps):
        raise DataError("the genotypes have 0 SNPs (columns); give at least one")
    shape = (behind, len(snps))

    def blocks() -> Iterator[Calls]:
        held = handle
        size = snps_at_once(shape[0], 2)
        for begin in range(0, shape[1], size):  # mapped for this block only
            some = np.memmap(path, np.uint8, "r", 0, shape)[:, begin : begin + size]
            yield np.ascontiguousarray(some.T)
        del held

    samples = np.arange(behind) if id_ is None else person_names(people, behind)
    return blocks(), samples, snps
