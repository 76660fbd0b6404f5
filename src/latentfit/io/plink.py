"""PLINK's binary genotypes: `.bed` beside `.bim` (SNPs) and `.fam` (people), calls decoded by bed-reader.

The size of the `.bed` is checked against the lines of the other two before anything is read, so that a truncated file
is reported as such. The allele counted is the first of the `.bim` (A1), as ADMIXTURE and fastmixture count it. Fields
of the two texts are separated by tabs or by spaces. SNPs of sex chromosomes and of mitochondria do not have two alleles
per person, as the models assume; they are left out unless requested.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError, FileFormatError, reason_of
from latentfit.io.source import probe

MAGIC = b"\x6c\x1b"
SNP_MAJOR, PERSON_MAJOR = 1, 0
NOT_AUTOSOMES = {"X", "Y", "XY", "PAR", "PAR1", "PAR2", "M", "MT"}
HUMAN_CODES = {"23", "24", "25", "26"}
"""X, Y, XY and MT of people. In a file with chromosomes above 26 (dogs, cattle, chickens) these are autosomes."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class PlinkSet:
    """Genotypes (SNP, person) in blocks: 0, 1, 2 copies of the first allele, 3 missing; names, notes on SNPs left out.

    `alleles` (SNP, 2) are the one counted and the other.
    """

    blocks: Iterator[NDArray[np.uint8]]
    samples: NDArray[Any]
    snps: NDArray[Any]
    alleles: NDArray[Any]
    notes: tuple[str, ...]


def stream_plink(
    path: str | os.PathLike[str],
    threads: int = 1,
    *,
    autosomes: bool = True,
    at_once: Callable[[int], int] | None = None,
) -> PlinkSet:
    """The genotypes of a PLINK set, by default of autosomes only.

    `at_once` maps the number of people to the number of SNPs per block (None: all in one block).
    """
    bed, bim, fam = _parts(path)
    n_snps, n_people = _count_lines(bim), _count_lines(fam)
    check_bed(bed, n_snps, n_people)
    try:
        from bed_reader import open_bed
    except ImportError:
        raise DataError(
            f"{bed} needs the package bed-reader; install it with pip install 'latentfit[genetics]', or give a CSV file"
        ) from None
    snp_fields = _fields(bim, n_snps, "a SNP has six: chromosome, name, centimorgans, position, two alleles", 5, 6)
    chromosomes, snps = snp_fields[0], snp_fields[1]
    places, alleles = snp_fields[-3], np.array(snp_fields[-2:], object).T
    families, people = _fields(fam, n_people, "a person has six, family and name first", 2)[:2]
    used, notes = _autosomes(bed, chromosomes) if autosomes else (np.arange(n_snps), ())
    located = [f"{chromosome}:{place}" for chromosome, place in zip(chromosomes, places, strict=True)]
    size = len(used) if at_once is None else at_once(n_people)

    def blocks() -> Iterator[NDArray[np.uint8]]:
        nothing: dict[str, Any] = dict.fromkeys(_PROPERTIES)  # the two texts have been read
        counts = {"iid_count": n_people, "sid_count": n_snps}
        try:
            with open_bed(bed, properties=nothing, count_A1=True, num_threads=threads, **counts) as file:
                for begin in range(0, len(used), size):
                    some = used[begin : begin + size]
                    together = some[-1] - some[0] == len(some) - 1
                    which = slice(some[0], some[-1] + 1) if together else some
                    codes = np.ascontiguousarray(file.read((slice(None), which), dtype="int8", order="F").T)
                    found = codes.view(np.uint8)
                    found[found > 2] = 3
                    yield found
        except (OSError, ValueError) as error:
            raise _unreadable(bed, error) from None

    return PlinkSet(
        blocks(),
        unrepeated(people, [f"{family} {person}" for family, person in zip(families, people, strict=True)]),
        unrepeated(snps, located)[used],
        alleles[used],
        notes,
    )


_PROPERTIES = (
    "fid", "iid", "father", "mother", "sex", "pheno", "chromosome", "sid", "cm_position", "bp_position", "allele_1",
    "allele_2",
)  # fmt: skip


def _autosomes(bed: Path, chromosomes: list[str]) -> tuple[NDArray[np.intp], tuple[str, ...]]:
    """Places of the SNPs on autosomes or on a chromosome that is not known, and what to say of the others."""
    plain = {name: name.upper().removeprefix("CHR") for name in set(chromosomes)}
    human = not any(name.isdecimal() and int(name) > 26 for name in plain.values())
    others = {name for name, bare in plain.items() if bare in NOT_AUTOSOMES or (human and bare in HUMAN_CODES)}
    if not others:
        return np.arange(len(chromosomes)), ()
    used = np.flatnonzero([name not in others for name in chromosomes])
    where = ", ".join(sorted(others))
    if not len(used):
        raise DataError(
            f"{bed} has no SNP on an autosome, all {len(chromosomes):,} are on chromosome {where}; give autosomes, or "
            "use all chromosomes (autosomes=False, --all-chromosomes)"
        )
    left = len(chromosomes) - len(used)
    return used, (f"{left:,} SNPs of sex chromosomes or mitochondria (chromosome {where}) were left out",)


def _fields(path: Path, n_lines: int, wanted: str, least: int, most: int | None = None) -> list[list[str]]:
    """The columns of a `.bim` or `.fam`; a line of another length is named."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except ValueError:
        raise FileFormatError(f"{path} cannot be read: it is not UTF-8 text; write the PLINK set again") from None
    rows: list[list[str]] = []
    for number, line in enumerate(lines, start=1):
        fields = line.split("\t") if "\t" in line else line.split()
        length = len(fields)
        if length < least or length > (most or length) or (rows and length != len(rows[0])):
            raise FileFormatError(
                f"{path} cannot be read: line {number} has {length} fields, and {wanted}; write the PLINK set again"
            )
        rows.append(fields)
    if len(rows) != n_lines:
        raise FileFormatError(f"{path} has empty or broken lines; write the PLINK set again")
    return [list(column) for column in zip(*rows, strict=True)]


def facts_of_plink(path: str | os.PathLike[str]) -> str:
    """Name, sizes and modification times of the three files, as a key of their content."""
    parts = _parts(path)
    facts = [(part.stat().st_size, part.stat().st_mtime_ns) for part in parts]
    return f"{parts[0].absolute()} {facts}"


def _parts(path: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    """The three files of a set, each of which can be opened."""
    bed = Path(path)
    if bed.suffix.lower() != ".bed":
        raise FileFormatError(f"{bed}: the name must end in .bed; give the .bed of a PLINK set (not compressed)")
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
        raise FileFormatError(f"{bed} does not begin as a PLINK .bed does (6c 1b); it is not a .bed or is damaged")
    if head[2] == PERSON_MAJOR:
        raise FileFormatError(
            f"{bed} is stored person by person, which PLINK no longer supports; write it again with plink --make-bed"
        )
    if head[2] != SNP_MAJOR:
        raise FileFormatError(f"{bed} has a third byte of {head[2]:02x} instead of 01; it is damaged: copy it again")
    if not n_snps or not n_people:
        raise FileFormatError(f"{bed.with_suffix('.bim' if not n_snps else '.fam')} is empty; write the set again")
    there, wanted = bed.stat().st_size, 3 + n_snps * -(-n_people // 4)
    if there != wanted:
        what = "is truncated" if there < wanted else "is too long"
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


def unrepeated(names: list[str], longer: list[str]) -> NDArray[Any]:
    """Names, replaced by the longer one where repeated, and numbered where that is repeated too."""
    count = Counter(names)
    chosen = [name if count[name] == 1 else long for name, long in zip(names, longer, strict=True)]
    count = Counter(chosen)
    seen: Counter[str] = Counter()
    for at, name in enumerate(chosen):
        if count[name] > 1:
            seen[name] += 1
            chosen[at] = f"{name}#{seen[name]}"
    return np.array(chosen, object)
