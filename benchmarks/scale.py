"""The three engines side by side: coding and one pass over 1e7, 1e8, 1e9 cells, each in a fresh process.

    pip install ".[cluster]"
    python benchmarks/scale.py                        # 1e7 and 1e8 cells
    python benchmarks/scale.py --cells 1e9 --folder /somewhere/with/20GB
    python benchmarks/scale.py switches               # real rows, hidden switches
    python benchmarks/scale.py ancestry               # genotypes

Rows of 20 columns with 10 categories, 20 % missing (Parquet, words), a model of 10 classes. Coding reads the files and
writes the flat file; a pass is one E-step over it, the median of five. Memory is the peak of the process above what it
held after imports; the passes run in a process that did not code. Seconds are wall seconds, CPU seconds count all
processes of the engine (dask: those of the workers' computing are in the wall time only). Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scale_numbers import SIZES, measured_ancestry, measured_switches, write_switches

COLUMNS, CATEGORIES, CLASSES, MISSING = 20, 10, 10, 0.2
FILE_ROWS = 2_500_000
PASSES = 5


def write_rows(folder: Path, n_rows: int) -> None:
    """Parquet files of words, made in pieces."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    profiles = rng.dirichlet(np.full(CATEGORIES, 0.5), (CLASSES, COLUMNS)).cumsum(axis=2)
    words = pa.array([f"answer {k}" for k in range(CATEGORIES)])
    for at, begin in enumerate(range(0, n_rows, FILE_ROWS)):
        size = min(FILE_ROWS, n_rows - begin)
        hidden = rng.integers(0, CLASSES, size)
        columns = {}
        for n in range(COLUMNS):
            codes = (rng.random(size)[:, None] > profiles[hidden, n]).sum(axis=1).clip(0, CATEGORIES - 1)
            indices = pa.array(codes.astype(np.int32), mask=rng.random(size) < MISSING)
            columns[f"q{n:02d}"] = pa.DictionaryArray.from_arrays(indices, words)
        pq.write_table(pa.table(columns), folder / f"rows{at:04d}.parquet")


def peak() -> float:
    """Megabytes at the most since this program began (getrusage would count the parent's, too)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measured(kind: str, folder: Path) -> dict[str, float]:
    """Runs in a process of its own."""
    from tacit.data.stored_table import AnyTable, code_scan
    from tacit.data.table import Table
    from tacit.data.table_input import LearnWords
    from tacit.engine.choose import engine_for
    from tacit.factor.table_pool import random_start
    from tacit.io.scan import scan

    before = peak()
    begin, cpu = time.perf_counter(), time.process_time()
    stored = code_scan(scan(folder / "*.parquet", cache=folder / "cache"), LearnWords())
    opened = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu, "peak": peak() - before}
    if kind == "coding":
        return opened
    rows: AnyTable = stored
    if kind == "memory":
        rows = Table(np.concatenate([block.codes for block in stored.blocks()]), stored.columns)
    engine = engine_for(rows, "dask" if kind == "dask" else "auto", None)
    mixture = random_start(next(stored.blocks()), CLASSES, np.random.default_rng(0))
    found = engine.sums(mixture)
    walls, cpus = [], []
    for _ in range(PASSES):
        begin, cpu = time.perf_counter(), time.process_time()
        again = engine.sums(mixture)
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - cpu)
    assert again.table.tobytes() == found.table.tobytes()
    return {
        "seconds": float(np.median(walls)),
        "cpu": float(np.median(cpus)),
        "peak": peak() - before,
        "log_likelihood": found.log_likelihood,
    }


def measure_one(what: str, kind: str, folder: Path) -> dict[str, float]:
    """One figure of one engine."""
    if what == "switches":
        return measured_switches(kind, folder, peak)
    return measured_ancestry(kind, folder, peak, float(folder.name)) if what == "ancestry" else measured(kind, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["tables", *SIZES], default="tables")
    parser.add_argument("--cells", nargs="+", type=float, help="1e7 and 1e8 by default (switches: 1e6 and 1e7)")
    parser.add_argument("--engines", nargs="+", default=["memory", "stream", "dask"])
    parser.add_argument("--folder", type=Path, help="where the rows are written; a temporary folder by default")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure_one(arguments.what, arguments.one[0], Path(arguments.one[1]))))
        return
    print(f"{'cells':>8} {'stage':<10} {'seconds':>8} {'CPU s':>8} {'peak MB':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        for cells in arguments.cells or SIZES.get(arguments.what, [1e7, 1e8]):
            folder = Path(name) / f"{cells:g}"
            folder.mkdir()
            if arguments.what == "switches":
                write_switches(folder, cells)
            elif arguments.what == "tables":
                write_rows(folder, int(cells / COLUMNS))
            base, said = float("nan"), set()
            for kind in ("coding", *arguments.engines):
                done = subprocess.run(
                    [sys.executable, __file__, arguments.what, "--one", kind, str(folder)],
                    check=True, capture_output=True, text=True,
                )  # fmt: skip
                one = json.loads(done.stdout.splitlines()[-1])
                base = one["seconds"] if kind == "memory" else base
                ratio = "" if kind == "coding" else f"{one['seconds'] / base:6.2f}"
                said.add(one.get("log_likelihood"))
                cpu = one.get("cpu", one["seconds"])
                print(f"{cells:8.0e} {kind:<10} {one['seconds']:8.2f} {cpu:8.2f} {one['peak']:8.0f} {ratio:>6}")
                sys.stdout.flush()
            assert len(said - {None}) == 1, "the engines disagree"


if __name__ == "__main__":
    main()
