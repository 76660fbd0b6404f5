"""Binary factors and admixture on the three engines, each in a fresh process: see benchmarks/scale.py.

Factors: rows of 20 features, 4 switches; a pass is one E-step beyond the plane. Admixture: 1,000 people, 4 populations;
a pass is one Newton step of the frequencies and the curvature of the proportions. Coding reads Parquet (factors) or
draws calls (admixture) and writes the flat file. Memory is the peak above what the process held after imports.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, SWITCHES, NOISE = 20, 4, 0.4
PEOPLE, POPULATIONS = 1_000, 4
FILE_ROWS = 500_000
PASSES = 5
SIZES = {"factors": [1e6, 1e7], "admixture": [1e7, 1e8]}
"""Cells: rows × features, or people × SNPs."""


def write_factor_rows(folder: Path, cells: float) -> None:
    """Parquet files of rows, made in pieces."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    weights = rng.standard_normal((SWITCHES, FEATURES))
    n_rows = int(cells / FEATURES)
    for at, begin in enumerate(range(0, n_rows, FILE_ROWS)):
        size = min(FILE_ROWS, n_rows - begin)
        rows = (rng.random((size, SWITCHES)) < 0.4) @ weights + NOISE * rng.standard_normal((size, FEATURES))
        pq.write_table(pa.table({f"f{n:02d}": rows[:, n] for n in range(FEATURES)}), folder / f"rows{at:04d}.parquet")


def draw_calls(n_snps: int) -> Iterator[np.ndarray[Any, Any]]:
    """Calls in blocks of SNPs."""
    rng = np.random.default_rng(0)
    proportions = rng.dirichlet(np.full(POPULATIONS, 0.4), PEOPLE)
    for begin in range(0, n_snps, 4_096):
        frequencies = rng.uniform(0.02, 0.98, (min(4_096, n_snps - begin), POPULATIONS))
        yield rng.binomial(2, frequencies @ proportions.T).astype(np.uint8)


def measured_factors(kind: str, folder: Path, peak: Any) -> dict[str, float]:
    """Runs in a process of its own."""
    from latentfit.core.matrix import AnyMatrix, store_scan
    from latentfit.engine.limits import one_blas_thread
    from latentfit.engine.passes import passes_for
    from latentfit.factors.em.steps import SwitchSteps, initial_params, squares_of
    from latentfit.io.scan import scan

    before, begin = peak(), time.perf_counter()
    stored = store_scan(scan(folder / "*.parquet", cache=folder / "cache"))
    if kind == "coding":
        return {"seconds": time.perf_counter() - begin, "peak": peak() - before}
    rows: AnyMatrix = stored.loaded() if kind == "memory" else stored
    passes = passes_for(rows, "dask" if kind == "dask" else "auto", 0)
    with one_blas_thread():
        weights = np.random.default_rng(1).standard_normal((SWITCHES, FEATURES))
        start = initial_params(weights, np.full(SWITCHES, 0.4), 0.2)
        steps = SwitchSteps(passes, squares_of(passes), FEATURES, "all")
        return repeated(lambda: steps.e_step(start).log_likelihood, peak, before)


def measured_admixture(kind: str, folder: Path, peak: Any, cells: float) -> dict[str, float]:
    """Runs in a process of its own."""
    from latentfit.admixture.data.passes import snp_passes_for
    from latentfit.admixture.data.stored import FORMAT, AnyGenotypes, _revived, _write
    from latentfit.engine.flat_file import reopen_flat

    n_snps, path = int(cells / PEOPLE), folder / "panel.calls"
    before, begin = peak(), time.perf_counter()
    if kind == "coding":
        _write(path, "panel", draw_calls(n_snps), np.arange(PEOPLE), np.arange(n_snps))
        return {"seconds": time.perf_counter() - begin, "peak": peak() - before}
    stored = reopen_flat(path, "panel", FORMAT, _revived)
    assert stored is not None
    calls: AnyGenotypes = stored.loaded() if kind == "memory" else stored
    passes = snp_passes_for(calls, "dask" if kind == "dask" else "auto", None)
    rng = np.random.default_rng(1)
    proportions, frequencies = rng.dirichlet(np.ones(POPULATIONS), PEOPLE), rng.uniform(0.1, 0.9, (n_snps, POPULATIONS))

    def one_pass() -> float:
        value, following = passes.step(proportions, frequencies, 1e-7)
        return value + float(passes.curvature(proportions, following)[0].sum())

    return repeated(one_pass, peak, before)


def repeated(one_pass: Any, peak: Any, before: float) -> dict[str, float]:
    """The median of five passes, after one that loads."""
    found, walls, cpus = one_pass(), [], []
    for _ in range(PASSES):
        begin, cpu = time.perf_counter(), time.process_time()
        assert one_pass() == found
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - cpu)
    return {
        "seconds": float(np.median(walls)), "cpu": float(np.median(cpus)), "peak": peak() - before,
        "log_likelihood": found,
    }  # fmt: skip
