"""The same bits from every compiler at hand and from the baseline and AVX2 paths."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from latentfit.core import kernels
from latentfit.core.kernels.admixture import admixture_curvature, admixture_step
from latentfit.core.kernels.hmm import Chains, best_paths, chain_posteriors, chain_sums

SOURCES = Path(__file__).parents[2] / "src" / "latentfit" / "core" / "kernels"
FLAGS = ["-std=gnu++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-fPIC", "-shared", "-pthread"]


def one_pass(n_classes):
    rng = np.random.default_rng(n_classes)
    per_row = rng.integers(0, 9, 3000)
    offsets = np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64)
    cells = kernels.CsrRows(offsets, rng.integers(0, 40, offsets[-1]).astype(np.int32))
    log_weights = np.log(rng.dirichlet(np.ones(n_classes)))
    log_table = np.log(rng.dirichlet(np.ones(n_classes), size=40))
    calls = rng.integers(0, 4, (600, 37)).astype(np.uint8)
    proportions, frequencies = rng.dirichlet(np.ones(n_classes), 37), rng.uniform(0.01, 0.99, (600, n_classes))
    sizes = np.array([2, 3, 2, 4, 2], np.int32)
    groups = kernels.PackedColumns(sizes, sizes + np.int32(1), np.array([0, 2, 3, 5], np.int32))
    packed = rng.integers(0, [12, 3, 15], (3000, 3)).astype(np.uint8)
    dense = kernels.DenseCodes(packed, np.array([0, 12, 15, 30], np.int32), groups)
    chains = Chains(np.minimum(cells.indices, 25) - np.int32(1), offsets, 25)
    chain = (rng.dirichlet(np.ones(n_classes)), rng.dirichlet(np.ones(n_classes), n_classes))
    chain = (*chain, rng.dirichlet(np.ones(25), n_classes))
    return [
        *chain_sums(chains, *chain),
        *chain_posteriors(chains, *chain),
        *best_paths(chains, *chain),
        *kernels.mixture_sums(cells, log_weights, log_table),
        *kernels.mixture_rows(cells, log_weights, log_table),
        *kernels.mixture_sums(dense, log_weights, log_table[:13]),
        *kernels.mixture_rows(dense, log_weights, log_table[:13]),
        *admixture_step(calls, proportions, frequencies, floor=1e-7),
        *admixture_curvature(calls, proportions, frequencies),
    ]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("path", [[], ["-DLATENTFIT_BASELINE_ONLY"]], ids=["widest", "baseline"])
def test_compilers_and_paths_agree_to_the_bit(compiler, path, tmp_path, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    library = tmp_path / "kernels.so"
    sources = [str(SOURCES / name) for name in ("mixture.cpp", "pairs.cpp", "admixture.cpp", "hmm.cpp")]
    subprocess.run([compiler, *FLAGS, *path, *sources, "-o", str(library)], check=True, capture_output=True)
    expected = [one_pass(n_classes) for n_classes in (2, 3, 7, 11, 40)]
    other = ctypes.CDLL(str(library))
    monkeypatch.setattr(kernels, "_library", lambda: other)
    for n_classes, want in zip((2, 3, 7, 11, 40), expected, strict=True):
        for got, value in zip(one_pass(n_classes), want, strict=True):
            assert np.array_equal(got, value)
