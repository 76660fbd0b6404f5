"""PLINK's binary genotypes: `.bed` beside `.bim` (SNPs) and `.fam` (people), read through bed-reader.

The size of the `.bed` is checked against the lines of the other two before anything is read, so a cut file is named as
such. The allele counted is the first of the `.bim` (A1), as ADMIXTURE and fastmixture count it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import DataError, FileFormatError, reason_of
from tacit.io.source import probe

MAGIC = b"\x6c\x1b"
SNP_MAJOR, PERSON_MAJOR = 1, 0
_CHUNK = 1 << 20


def stream_plink(
    path: str | os.PathLike[str], block: int | None, threads: int
) -> tuple[Iterator[NDArray[np.uint8]], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Calls (SNP, person) in blocks of so many SNPs (None: all at once): 0, 1, 2 copies of the first allele, 3 missing.

    Then the names of people and SNPs, and the alleles (SNP, 2): the one counted, the other.
    """
    bed, bim, fam = _parts(path)
    n_snps, n_people = _count_lines(bim), _count_lines(fam)
    check_bed(bed, n_snps, n_people)
    try:
        from bed_reader import open_bed
    except ImportError:
        raise DataError(
            f"{bed} needs the package bed-reader; install it with pip install 'tacit[genetics]', or give a CSV file"
        ) from None
    options = {"bim_location": bim, "fam_location": fam, "count_A1": True, "num_threads": threads}
    try:
        with open_bed(bed, **options) as file:
            shape = file.shape
            people, families = _texts(file.iid), _texts(file.fid)
            snps, chromosomes, places = _texts(file.sid), _texts(file.chromosome), file.bp_position
            alleles = np.array([_texts(file.allele_1), _texts(file.allele_2)], object).T
    except Exception as error:  # bed-reader raises errors of several kinds, all of them about the three files
        raise _unreadable(bed, error) from None
    if shape != (n_people, n_snps):
        raise FileFormatError(f"{bim} or {fam} has empty or broken lines; write the PLINK set again")

    def blocks() -> Iterator[NDArray[np.uint8]]:
        try:
            with open_bed(bed, **options) as file:
                for begin in range(0, n_snps, block or n_snps):
                    some = np.s_[:, begin : min(begin + (block or n_snps), n_snps)]
                    codes = np.ascontiguousarray(file.read(some, dtype="int8", order="F").T).view(np.uint8)
                    codes[codes > 2] = 3
                    yield codes
        except (OSError, ValueError) as error:
            raise _unreadable(bed, error) from None

    located = [f"{chromosome}:{place}" for chromosome, place in zip(chromosomes, places.tolist(), strict=True)]
    return (
        blocks(),
        unrepeated(people, [f"{family} {person}" for family, person in zip(families, people, strict=True)]),
        unrepeated(snps, located),
        alleles,
    )


def facts_of_plink(path: str | os.PathLike[str]) -> str:
    """Changes when one of the three files is another one: name, sizes and times of writing."""
    parts = _parts(path)
    facts = [(part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    return f"{parts[0].absolute()} {facts}"


def _parts(path: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    """The three files of a set, each of which can be opened."""
    bed = Path(path)
    if bed.suffix.lower() != ".bed":
        raise FileFormatError(f"{bed} has a name that does not end in .bed; give the .bed of a PLINK set (unzipped)")
    parts = bed, bed.with_suffix(".bim"), bed.with_suffix(".fam")
    for part in parts:
        probe(str(part))
    return parts


def _unreadable(bed: Path, error: Exception) -> FileFormatError:
    return FileFormatError(f"{bed} or its .bim or .fam cannot be read ({reason_of(error)}); write the set again")


def check_bed(bed: Path, n_snps: int, n_people: int) -> None:
    """Magic bytes, order and size of a `.bed`."""
    with open(bed, "rb") as stream:
        head = stream.read(3)
    if len(head) < 3 or head[:2] != MAGIC:
        raise FileFormatError(f"{bed} does not begin as a PLINK .bed does (6c 1b); it is no .bed or is damaged")
    if head[2] == PERSON_MAJOR:
        raise FileFormatError(
            f"{bed} is stored person by person, an order PLINK gave up; write it again with plink --make-bed"
        )
    if head[2] != SNP_MAJOR:
        raise FileFormatError(f"{bed} has a third byte of {head[2]:02x} instead of 01; it is damaged: copy it again")
    if not n_snps or not n_people:
        raise FileFormatError(f"{bed.with_suffix('.bim' if not n_snps else '.fam')} is empty; write the set again")
    there, wanted = bed.stat().st_size, 3 + n_snps * -(-n_people // 4)
    if there != wanted:
        what = "is cut short" if there < wanted else "is too long"
        raise FileFormatError(
            f"{bed} {what}: {there:,} bytes, and {n_snps:,} SNPs of {n_people:,} people make {wanted:,}; copy the "
            "three files of the set again"
        )


def _count_lines(path: Path) -> int:
    lines, last = 0, b"\n"
    with open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n")


def _texts(values: Any) -> list[str]:
    return [str(value) for value in values.tolist()]


def unrepeated(names: list[str], longer: list[str]) -> NDArray[Any]:
    """Names as they are, the longer one where a name stands twice, with a number where that does too."""
    count = Counter(names)
    chosen = [name if count[name] == 1 else long for name, long in zip(names, longer, strict=True)]
    count = Counter(chosen)
    seen: Counter[str] = Counter()
    for at, name in enumerate(chosen):
        if count[name] > 1:
            seen[name] += 1
            chosen[at] = f"{name}#{seen[name]}"
    return np.array(chosen, object)
