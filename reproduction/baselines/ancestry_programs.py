"""Other people's ancestry programs, run on the same genotypes: files of PLINK in, proportions out, CPU seconds.

fastmixture (Santander et al. 2024) and ADMIXTURE (Alexander, Novembre & Lange 2009), each when its program is on the
path; one thread, their own defaults, the given seed.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats

Genotypes = NDArray[np.int8]

PLINK_HEADER = b"\x6c\x1b\x01"
LARGEST_SEED = 2**31
CODES = np.array([3, 2, 0, 1], np.uint8)
"""Two bits for 0, 1, 2 counted alleles and for a gap (which −1 reaches from the end)."""


class ProgramFailedError(Exception):
    """A program is absent or gave no answer: its row is skipped, and says so."""


def write_plink(stem: Path, genotypes: Genotypes) -> None:
    """`stem`.bed, .bim and .fam of genotypes (person, SNP), −1 a gap; the counted allele is the first."""
    n, m = genotypes.shape
    bits = np.zeros((m, -(-n // 4) * 4), np.uint8)
    bits[:, :n] = CODES[genotypes.T]
    packed = bits[:, 0::4] | bits[:, 1::4] << 2 | bits[:, 2::4] << 4 | bits[:, 3::4] << 6
    stem.with_suffix(".bed").write_bytes(PLINK_HEADER + packed.astype(np.uint8).tobytes())
    stem.with_suffix(".bim").write_text("".join(f"1\ts{j}\t0\t{j + 1}\tA\tC\n" for j in range(m)))
    stem.with_suffix(".fam").write_text("".join(f"i{i} i{i} 0 0 0 -9\n" for i in range(n)))


def fastmixture(genotypes: Genotypes, n_populations: int, seed: int) -> tuple[Floats, float]:
    """Proportions (person, K) and CPU seconds, start-up included."""

    def arguments(program: str) -> list[str]:
        return [
            program,
            "--bfile",
            "data",
            "--K",
            str(n_populations),
            "--seed",
            str(seed % LARGEST_SEED),
            "--out",
            "out",
        ]

    return _run("fastmixture", arguments, genotypes)


def admixture(genotypes: Genotypes, n_populations: int, seed: int) -> tuple[Floats, float]:
    """Proportions (person, K) and CPU seconds."""
    return _run(
        "admixture",
        lambda program: [program, "data.bed", str(n_populations), "-s", str(seed % LARGEST_SEED)],
        genotypes,
    )


def _run(name: str, arguments: Callable[[str], list[str]], genotypes: Genotypes) -> tuple[Floats, float]:
    program = shutil.which(name)
    if program is None:
        raise ProgramFailedError(f"{name} is not on the path")
    with tempfile.TemporaryDirectory() as folder:
        write_plink(Path(folder) / "data", genotypes)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(arguments(program), cwd=folder, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = sorted(Path(folder).glob("*.Q"))
        if done.returncode or not found:
            said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
            raise ProgramFailedError(f"{name} gave no proportions ({said[-1]})")
        proportions = np.loadtxt(found[0], ndmin=2)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return proportions / proportions.sum(axis=1, keepdims=True), took
