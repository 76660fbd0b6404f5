"""The three engines side by side: coding and one pass over 1e7, 1e8, 1e9 cells, each in a fresh process.

    pip install ".[cluster]"
    python benchmarks/scale.py                        # 1e7 and 1e8 cells
    python benchmarks/scale.py --cells 1e9 --folder /somewhere/with/5GB
    python benchmarks/scale.py --labels 1e6 1e7       # 1e8 wants 8 GB of disk
    python benchmarks/scale.py factors                # real rows, binary factors
    python benchmarks/scale.py admixture              # genotypes

Rows of 20 columns with 10 categories, 20 % missing (Parquet, words), a model of 10 classes. Coding reads the files and
writes the flat file; a pass is one E-step over it, the median of five. Memory is the peak of the process above what it
held after imports (dask: of the process, this one or a worker, that took most); the passes run in a process that did
not code. Seconds are wall seconds, CPU seconds those of all processes of the engine; ratio and added seconds are
against the pass in memory. Nothing here asserts a time.

1e9 cells take about 3 GB of disk and 5 GB of memory (for the engine that holds all rows).

With `--labels`, `latentfit labels --engine stream` makes consensus labels of so many labels (five a task, 10,000
workers,
four classes, Parquet of words, the labels of a task far apart in the files) in a process that may not have more than
2 GB of addresses, so that whatever it maps or reserves counts, too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scale_numbers import SIZES, measured_admixture, measured_factors, write_factor_rows

COLUMNS, CATEGORIES, CLASSES, MISSING = 20, 10, 10, 0.2
FILE_ROWS = 2_500_000
PASSES = 5
PER_TASK, WORKERS, KINDS = 5, 10_000, 4
ADDRESSES = 2_000_000_000
SMALL_POOLS = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Reserved addresses that nobody uses are kept few: Arrow's own pool takes a gigabyte of them when it starts."""


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


class Workers:
    """CPU seconds and peaks of the processes that make the passes: this one and, with dask, its workers."""

    def __init__(self, kind: str) -> None:
        self.client = None
        if kind == "dask":
            from latentfit.engine.dask import connect

            self.client = connect(None)
        self.before = self._peaks()

    def cpu(self) -> float:
        others = self.client.run(time.process_time).values() if self.client else ()
        return time.process_time() + sum(others)

    def added(self) -> float:
        """Megabytes that one process took more than before, the one that took most."""
        return max(now - before for now, before in zip(self._peaks(), self.before, strict=True))

    def _peaks(self) -> list[float]:
        return [peak(), *(self.client.run(peak).values() if self.client else ())]


def measured(kind: str, folder: Path) -> dict[str, float]:
    """Runs in a process of its own."""
    from latentfit.core.mixture.init import random_init
    from latentfit.core.table.input import LearnCategories
    from latentfit.core.table.stored import AnyTable, code_scan
    from latentfit.core.table.table import Table
    from latentfit.engine.memory import engine_for
    from latentfit.io.scan import scan

    before = peak()
    begin, cpu = time.perf_counter(), time.process_time()
    stored = code_scan(scan(folder / "*.parquet", cache=folder / "cache"), LearnCategories())
    opened = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu, "peak": peak() - before}
    if kind == "coding":
        return opened
    rows: AnyTable = stored
    workers = Workers(kind)
    if kind == "memory":
        rows = Table(np.concatenate([block.codes for block in stored.blocks()]), stored.columns)
    engine = engine_for(rows, "dask" if kind == "dask" else "auto", None)
    mixture = random_init(next(stored.blocks()), CLASSES, np.random.default_rng(0))
    found = engine.sums(mixture)
    walls, cpus = [], []
    for _ in range(PASSES):
        cpu, begin = workers.cpu(), time.perf_counter()
        again = engine.sums(mixture)
        walls.append(time.perf_counter() - begin)
        cpus.append(workers.cpu() - cpu)
    assert again.table.tobytes() == found.table.tobytes()
    return {
        "seconds": float(np.median(walls)),
        "cpu": float(np.median(cpus)),
        "peak": max(workers.added(), opened["peak"]),
        "log_likelihood": found.log_likelihood,
    }


def mixed(numbers: np.ndarray, salt: int) -> np.ndarray:
    """Numbers that look random and are the same every time."""
    x = (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    return x ^ (x >> np.uint64(29))


def truth_of(task: np.ndarray) -> np.ndarray:
    return (mixed(task, 1) >> np.uint64(40)) % np.uint64(KINDS)


def write_labels(folder: Path, n_labels: int) -> None:
    """Five rounds over the tasks, each in an order of its own; workers are right with 50 to 90 %."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    skill = rng.uniform(0.5, 0.9, WORKERS)
    n_tasks = n_labels // PER_TASK
    kinds = pa.array([f"kind {k}" for k in range(KINDS)])
    names = pa.array([f"worker {m:05d}" for m in range(WORKERS)])
    for at, begin in enumerate(range(0, n_labels, FILE_ROWS)):
        row = np.arange(begin, min(begin + FILE_ROWS, n_labels))
        turn, place = np.divmod(row, n_tasks)
        task = (place * 7_368_787 + turn * 15_485_863) % n_tasks  # a prime step: every task once in a round
        worker = ((mixed(task, 2) >> np.uint64(32)).astype(np.int64) + turn * 1999) % WORKERS
        wrong = (truth_of(task).astype(np.int64) + rng.integers(1, KINDS, len(row))) % KINDS
        said = np.where(rng.random(len(row)) < skill[worker], truth_of(task), wrong)
        columns = {
            "task": pa.array(np.char.add("task ", task.astype(str)).tolist()),
            "worker": pa.DictionaryArray.from_arrays(pa.array(worker.astype(np.int32)), names),
            "label": pa.DictionaryArray.from_arrays(pa.array(said.astype(np.int32)), kinds),
        }
        pq.write_table(pa.table(columns), folder / f"labels{at:04d}.parquet")


def labelled(folder: Path) -> dict[str, float]:
    """Runs in a process of its own, under the limit."""
    from latentfit.cli.main import main as latentfit

    before = peak()
    begin, cpu = time.perf_counter(), time.process_time()
    code = latentfit(["labels", str(folder), "--engine", "stream", "--out", str(folder / "out"), "--quiet"])
    assert code == 0, "latentfit labels failed"
    return {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - cpu, "peak": peak() - before}


def error_of(path: Path) -> float:
    """Share of tasks whose consensus is not their class."""
    import pyarrow.csv as pa_csv

    tasks = wrong = 0
    for batch in pa_csv.open_csv(path):
        task = np.array([int(name[5:]) for name in batch.column(0).to_pylist()])
        said = np.array([int(name[5:]) for name in batch.column(1).to_pylist()])
        tasks, wrong = tasks + len(task), wrong + int((said != truth_of(task).astype(np.int64)).sum())
    return wrong / tasks


def compare_labels(sizes: list[float], folder: Path | None) -> None:
    """Time and memory of consensus labels, one line a size."""
    print(f"{'labels':>8} {'seconds':>8} {'CPU s':>8} {'peak MB':>8} {'ns/label':>9} {'error':>7}  stages")
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            write_labels(Path(name), int(size))
            done = subprocess.run(
                [sys.executable, __file__, "--one", "labels", name],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **SMALL_POOLS, "XDG_CACHE_HOME": name},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)),
            )
            one = json.loads(done.stdout.splitlines()[-1])
            stages = json.loads((Path(name) / "out" / "summary.json").read_text())["seconds"]
            error = error_of(Path(name) / "out" / "consensus.csv")
            each = 1e9 * one["seconds"] / size
            told = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in stages.items())
            figures = f"{one['seconds']:8.1f} {one['cpu']:8.1f} {one['peak']:8.0f} {each:9.0f} {error:7.2%}"
            print(f"{size:8.0e} {figures}  {told}")
            sys.stdout.flush()


def measure_one(what: str, kind: str, folder: Path) -> dict[str, float]:
    """One figure of one engine."""
    if what == "factors":
        return measured_factors(kind, folder, peak)
    return measured_admixture(kind, folder, peak, float(folder.name)) if what == "admixture" else measured(kind, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["tables", *SIZES], default="tables")
    parser.add_argument("--cells", nargs="+", type=float, help="1e7 and 1e8 by default (factors: 1e6 and 1e7)")
    parser.add_argument("--labels", nargs="+", type=float, help="measure consensus of so many labels instead")
    parser.add_argument("--engines", nargs="+", default=["memory", "stream", "dask"])
    parser.add_argument("--folder", type=Path, help="where the rows are written; a temporary folder by default")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        kind, folder = arguments.one[0], Path(arguments.one[1])
        print(json.dumps(labelled(folder) if kind == "labels" else measure_one(arguments.what, kind, folder)))
        return
    if arguments.labels:
        compare_labels(arguments.labels, arguments.folder)
        return
    print(f"{'cells':>8} {'stage':<10} {'seconds':>8} {'CPU s':>8} {'peak MB':>8} {'ratio':>6} {'added s':>8}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        for cells in arguments.cells or SIZES.get(arguments.what, [1e7, 1e8]):
            folder = Path(name) / f"{cells:g}"
            folder.mkdir()
            if arguments.what == "factors":
                write_factor_rows(folder, cells)
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
                ratio = "" if kind == "coding" else f"{one['seconds'] / base:6.2f} {one['seconds'] - base:8.2f}"
                said.add(one.get("log_likelihood"))
                cpu = one.get("cpu", one["seconds"])
                print(f"{cells:8.0e} {kind:<10} {one['seconds']:8.2f} {cpu:8.2f} {one['peak']:8.0f} {ratio:>6}")
                sys.stdout.flush()
            assert len(said - {None}) == 1, "the engines disagree"


if __name__ == "__main__":
    main()
