"""Sparse pair counts side by side: `PairMatrix` and scipy's `svds` of the same rank on the same counts.

    python benchmarks/pairs.py                       # M = 50,000 items, 5 M counts: Example 1, Zipf, graded
    python benchmarks/pairs.py --items 5000 --pairs 500000 --worlds zipf
    python benchmarks/pairs.py number --repeats 4    # the number of components found, K = 1 to 10

Every fit runs in a process of its own, counts already in memory as scipy delivers them; seconds are wall-clock of `fit`
(best of `--repeats`), its reading of the matrix listed apart, on all threads for Latentfit (`--threads`), one for
scipy,
which has no more. Memory is the peak of the process above what it held when the counts were in place, beside the bytes
of the counts themselves. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

NUMBER_WORLDS = {
    "overlap .05": {"overlap": 0.05},
    "overlap .3": {"overlap": 0.3},
    "columns of their own": {"asymmetric": True},
}
SYSTEMS = ("svds", "scaled svd", "latentfit svd", "latentfit auto")
ERROR_ROWS = 400
"""Rows of B on which the l1 error is measured, evenly spread over the items in order of their marginal."""


def measured(world: str, items: int, n_pairs: int, system: str, rank: int, threads: int, repeats: int) -> dict:
    import numpy as np
    from scipy.sparse.linalg import svds

    from latentfit import PairMatrix
    from latentfit.simulate import pairs

    kind = "topics" if rank > 2 else world
    made = pairs(items, n_pairs, kind, n_components=rank, separation=1.0 if kind == "graded" else 0.8, random_state=0)
    counts, held = made.counts, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bytes_ = counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes
    best, reading, error = float("inf"), 0.0, None
    for _ in range(repeats):
        begin = time.perf_counter()
        if system == "svds":
            svds(counts.astype(np.float64), rank, random_state=0)
        elif system == "scaled svd":
            rows = np.sqrt(np.maximum(np.asarray(counts.sum(axis=1)).reshape(-1), 1.0))
            scaled = counts.astype(np.float64)
            scaled.data /= np.repeat(rows, np.diff(counts.indptr)) * rows[counts.indices]
            svds(scaled, rank, random_state=0)
        else:
            method = "auto" if system == "latentfit auto" else "scaled-svd"
            model = PairMatrix(rank, method=method, symmetric=True, n_jobs=threads).fit(counts)
        took = time.perf_counter() - begin
        if took < best:
            best = took
            reading = model._clock.seconds["data"] if system.startswith("latentfit") else 0.0
    if system.startswith("latentfit"):
        order = np.argsort(made.marginal)
        at = order[np.linspace(0, items - 1, ERROR_ROWS).astype(int)]
        proportions = np.abs(model.reconstruct().rows(at) - made.rows(at)).sum(axis=1) / made.marginal[at]
        weights = np.interp(np.arange(items), np.linspace(0, items - 1, ERROR_ROWS), proportions)
        error = float((weights * made.marginal[order]).sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": best, "reading": reading, "extra_mb": (peak - held) / 1024, "mb": bytes_ / 2**20, "error": error}


def number(repeats: int) -> None:
    """How often `PairMatrix(None)` finds the number of simulated causes, and whether it splits a single one."""
    import warnings

    from latentfit import PairMatrix
    from latentfit.simulate import pairs

    for name, options in NUMBER_WORLDS.items():
        found: dict[str, int] = {"right": 0, "too few": 0, "too many": 0}
        split = [0, 0]
        for K in range(1, 11):
            for density in (10, 20, 50):
                for seed in range(repeats):
                    made = pairs(800, 800 * density, "topics", n_components=K, random_state=seed, **options)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        symmetric = not options.get("asymmetric", False)
                        got = PairMatrix(None, symmetric=symmetric).fit(made.counts).n_components_
                    found["right" if got == K else "too few" if got < K else "too many"] += 1
                    split[0] += K == 1
                    split[1] += K == 1 and got > 1
        print(f"{name:20} {found} of {sum(found.values())}; one cause split {split[1]} of {split[0]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["time", "number"], default="time")
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--rank", type=int, default=2)
    parser.add_argument("--worlds", nargs="+", default=["example1", "zipf", "graded"])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "number":
        return number(options.repeats)
    if options.one:
        world, system = options.one
        arguments = (options.items, options.pairs, system, options.rank, options.threads, options.repeats)
        print(json.dumps(measured(world, *arguments)))
        return
    print(f"{options.items} items, {options.pairs} pairs, rank {options.rank}, {options.threads} threads")
    for world in options.worlds:
        base = None
        for system in options.systems:
            arguments = [sys.executable, __file__, "--one", world, system]
            for name in ("items", "pairs", "rank", "threads", "repeats"):
                arguments += [f"--{name}", str(getattr(options, name))]
            environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            done = subprocess.run(arguments, check=True, env=environment, stdout=subprocess.PIPE, text=True)
            got = json.loads(done.stdout)
            base = got["seconds"] if system == "svds" else base
            ratio = f"{(got['seconds'] - got['reading']) / base:5.2f} x svds" if base else ""
            error = "" if got["error"] is None else f"   l1 error of B {got['error']:.3f}"
            print(
                f"{world:9} {system:11} {got['seconds']:6.2f} s (reading {got['reading']:4.2f})  {ratio}   "
                f"memory {got['extra_mb']:5.0f} MB above counts of {got['mb']:4.0f} MB{error}",
                flush=True,
            )


if __name__ == "__main__":
    main()
