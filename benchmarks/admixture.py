"""Ancestry side by side: Latentfit and fastmixture on the same PLINK set, one fresh process each, one thread.

    pip install ".[bench,genetics]"
    python benchmarks/admixture.py                                 # all panels, five seeds; the largest takes hours
    python benchmarks/admixture.py --panels hapmap-3 hapmap-4 --seeds 2

Seconds are CPU seconds of the whole process and its children, start-up and reading included. Log-likelihoods are those
of the written Q and P under the same formula (sum of g log p + (2 - g) log(1 - p)), P kept 1e-7 off its bounds. Panels:
the four HapMap groups (SNPs with both alleles), and Balding-Nichols draws (F_ST 0.1, Dirichlet 0.5, five populations).
Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from harness import data_folder

PANELS = {"hapmap-3": 3, "hapmap-4": 4, "500x20000": 5, "1000x100000": 5}
MOSAICS = ("0.1", "1.0", "10.0")


def simulated(n_people: int, n_snps: int, n_populations: int, seed: int = 1, fst: float = 0.1) -> np.ndarray:
    """Counts (person, SNP) of a Balding-Nichols panel, SNPs with both alleles."""
    rng = np.random.default_rng(seed)
    pooled, scale = rng.uniform(0.05, 0.95, n_snps), (1 - fst) / fst
    frequencies = rng.beta(scale * pooled[:, None], scale * (1 - pooled)[:, None], (n_snps, n_populations))
    proportions = rng.dirichlet(np.full(n_populations, 0.5), n_people)
    counts = np.empty((n_people, n_snps), np.int8)
    for begin in range(0, n_snps, 5000):
        chance = np.clip(proportions @ frequencies[begin : begin + 5000].T, 0, 1)
        counts[:, begin : begin + 5000] = rng.binomial(2, chance)
    return counts[:, counts.min(axis=0) != counts.max(axis=0)]


def write_panel(name: str, folder: Path) -> Path:
    from bed_reader import open_bed, to_bed

    path = folder / "panel.bed"
    if name.startswith("hapmap"):
        for part in ("bed", "bim", "fam"):
            packed = (data_folder("genetics") / f"hapmap3_324.{part}.gz").read_bytes()
            (folder / f"all.{part}").write_bytes(gzip.decompress(packed))
        counts = open_bed(folder / "all.bed").read(dtype="int8")
        counts = counts[:, counts.min(axis=0) != counts.max(axis=0)]
    else:
        counts = simulated(*map(int, name.split("x")), PANELS[name])
    to_bed(path, counts)
    return path


SYSTEMS = ["latentfit", "fastmixture", "fastmixture2"]


def run(system: str, bed: Path, n_populations: int, seed: int) -> tuple[float, float]:
    """CPU seconds and log-likelihood of one fit in its own process."""
    out = bed.parent / f"{system}-{seed}"
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    if system == "latentfit":
        arguments = [sys.executable, __file__, "--fit", str(bed), str(n_populations), str(seed), str(out)]
    else:
        program = Path(sys.executable).with_name(system)
        arguments = [str(program), "-b", str(bed.with_suffix("")), "-k", str(n_populations), "-t", "1"]
        arguments += ["-s", str(seed), "-o", str(out)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    proportions, frequencies = (np.loadtxt(next(out.parent.glob(f"{out.name}*.{letter}"))) for letter in "QP")
    value = log_likelihood(bed, proportions, frequencies)
    print(f"{system}, seed {seed}: log-likelihood {value:,.1f}, {seconds:.1f} CPU s", file=sys.stderr, flush=True)
    return seconds, value


def log_likelihood(bed: Path, proportions: np.ndarray, frequencies: np.ndarray) -> float:
    from latentfit.admixture.data.genotypes import read_bed
    from latentfit.core.kernels.admixture import admixture_curvature

    proportions = np.ascontiguousarray(proportions / proportions.sum(axis=1, keepdims=True))
    frequencies = np.ascontiguousarray(np.clip(frequencies, 1e-7, 1 - 1e-7))
    return float(admixture_curvature(read_bed(bed).calls, proportions, frequencies)[0].sum())


def fit(bed: str, n_populations: str, seed: str, out: str) -> None:
    from latentfit import Admixture
    from latentfit.admixture.data.genotypes import read_bed

    model = Admixture(int(n_populations), random_state=int(seed), n_jobs=1).fit(read_bed(bed))
    np.savetxt(f"{out}.Q", model.ancestry_, fmt="%.6f")
    np.savetxt(f"{out}.P", model.frequencies_, fmt="%.6f")


def mosaics() -> None:
    from latentfit import Admixture
    from latentfit.core.assign import mean_distance

    for alpha in MOSAICS:
        made = np.load(data_folder("genetics") / f"sim_admix_d3_m50_alpha{alpha}.npz")
        apart = mean_distance(made["proportions"], Admixture(3, n_jobs=1).fit(made["genotypes"]).ancestry_)
        print(f"mosaics, alpha {alpha}: mean |W - truth| {apart:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panels", nargs="+", choices=PANELS, default=list(PANELS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS[:2])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        fit(*options.fit)
        return
    mosaics()
    for name in options.panels:
        with tempfile.TemporaryDirectory() as folder:
            bed = write_panel(name, Path(folder))
            found = {s: [run(s, bed, PANELS[name], seed) for seed in range(options.seeds)] for s in options.systems}
        for system, runs in found.items():
            seconds, values = np.array(runs).T
            print(
                f"{name:12} {system:12} log-likelihood median {np.median(values):,.1f} worst {values.min():,.1f} "
                f"best {values.max():,.1f}; CPU s median {np.median(seconds):.1f}",
                flush=True,
            )
        rival = next((system for system in found if system != "latentfit"), None)
        if len(found) == 2 and rival is not None and "latentfit" in found:
            ours, theirs = (np.array(found[system]) for system in ("latentfit", rival))
            ratio = np.median(theirs[:, 0]) / np.median(ours[:, 0])
            short = (np.median(theirs[:, 1]) - ours[:, 1].min()) / abs(np.median(theirs[:, 1]))
            print(f"{name:12} {ratio:.1f} x faster; worst seed {100 * short:.5f} % below their median", flush=True)


if __name__ == "__main__":
    main()
