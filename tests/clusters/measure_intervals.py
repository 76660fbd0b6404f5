"""Coverage of the intervals on the findings' grid: ``python -m tests.clusters.measure_intervals --seed 3000``.

EM starts from the truth: intervals speak of the errors of an optimum, not of EM ending at another one. Not a test: it
takes minutes. Prints the proportion of true frequencies and weights inside their 95 % intervals, by separation and
size.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from latentfit.clusters.diagnostics.intervals import frequency_intervals
from latentfit.core.em import em
from latentfit.core.mixture.em import SMOOTHING, table_steps
from tests.clusters.measure_purity import settings
from tests.clusters.simulated_mixtures import bernoulli_world


def covered(seed, K, L, n, separation, even, missing):
    """Which frequencies (K, L) and weights (K,) lie inside."""
    world = bernoulli_world(seed, K, L, n, separation=separation, even=even, missing=missing)
    steps = table_steps(world.table, K, SMOOTHING, 1)
    fitted = em(steps, world.mixture, max_iter=1000, tol=1e-9, accelerate=True).params
    found = frequency_intervals(world.table, fitted, smoothing=SMOOTHING)
    P, w = world.mixture.table[1::2].T, world.mixture.weights
    return (found.low <= P) & (found.high >= P), (found.weights_low <= w) & (found.weights_high >= w)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=3000)
    options.add_argument("--repeats", type=int, default=1)
    options.add_argument("--minutes", type=float, default=1e9)
    options.add_argument("--pause", default="")
    given = options.parse_args()
    every = [s for _ in range(given.repeats) for s in settings([0.0, 0.1])]
    order = np.random.default_rng(given.seed).permutation(len(every))
    proportions = defaultdict(list)
    begin = time.monotonic()
    for seed, at in enumerate(order, start=given.seed):
        if time.monotonic() - begin > 60 * given.minutes:
            break
        while given.pause and Path(given.pause).exists():
            time.sleep(5)
            begin += 5
        setting = every[at]
        P, w = covered(seed, **setting)
        for key in ("missing", "separation", "n", "L", "K"):
            for gap in {setting["missing"], "all"}:
                proportions[key, setting[key], gap].append((P.mean(), w.mean() if len(w) > 1 else np.nan))
    for (key, value, gap), pairs in sorted(proportions.items(), key=str):
        P, w = np.array(pairs).T
        weights = f"{np.nanmean(w):.3f}" if np.isfinite(w).any() else "-"
        print(f"{key} {value:<6} missing {gap:<4} {len(P):4} settings: frequencies {P.mean():.3f}, weights {weights}")


if __name__ == "__main__":
    sys.exit(main())
