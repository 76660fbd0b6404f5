"""The certificate's numbers on the findings' grid: ``python -m tests.clusters.measure_purity --seed 1000``.

Fits every setting with the right number of classes and with one too few, and prints false flags, power, how often the
named columns truly differ, and how often a certified impurity of at most .10 is one. Not a test: it takes minutes.
Settings come in a random order, so a run cut short by ``--minutes`` is a sample of the grid.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np

from latentfit.clusters.diagnostics.purity import purity_certificates
from latentfit.core.em import em
from latentfit.core.mixture.em import SMOOTHING, table_steps
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.tables.estimator.latent_class import LatentClass
from tests.clusters.simulated_mixtures import bernoulli_world, true_impurity

SIZES = [(L, n) for L, n in itertools.product((20, 100, 300), (200, 1000, 5000)) if (L, n) != (300, 5000)]
STUCK = 2.0
"""Nats below EM from the truth at which a fit counts as stuck."""


def settings(missing):
    for K, (L, n), separation, even, gap in itertools.product(
        (1, 2, 3, 5, 8), SIZES, (30.0, 16.0, 8.0), (True, False), missing
    ):
        if K > 1 or (even and separation == 16.0):
            yield {"K": K, "L": L, "n": n, "separation": separation, "even": even, "missing": gap}


def clusters(seed, K, L, n, separation, even, missing, n_permutations=19):
    """One record per cluster, at K, at K − 1 and at half of K."""
    world = bernoulli_world(seed, K, L, n, separation=separation, even=even, missing=missing)
    from_truth = em(table_steps(world.table, K, SMOOTHING, 1), world.mixture, max_iter=500, tol=1e-7, accelerate=True)
    blurred = None  # the most impure cluster when nothing is lacking
    for fitted_K in sorted({K, K - 1, (K + 1) // 2} - {0}, reverse=True):
        model = LatentClass(fitted_K, random_state=seed, n_jobs=1)
        refined = model._fit_at(world.table, fitted_K)[1]
        found = purity_certificates(
            world.table, refined.params, smoothing=SMOOTHING, seed=seed, n_permutations=n_permutations
        )
        posterior = posterior_of(MemoryEngine(world.table, 1), refined.params)[0]
        assigned = world.table.expand(posterior).argmax(axis=1)
        impurity, crossed = true_impurity(world.label, assigned, fitted_K, K)
        blurred = float(np.nanmax(impurity)) if fitted_K == K else blurred
        columns = {column.name: at for at, column in enumerate(world.table.columns)}
        P = world.mixture.table[1::2].T
        for k in range(fitted_K):
            inside = np.argsort(-crossed[k], kind="stable")[:2]
            apart = np.abs(np.subtract(*P[inside])) if len(inside) > 1 else np.zeros(L)
            pair = [columns[name] for name in found.suspect_pair[k]]
            five = [columns[name] for name in found.suspect_columns[k]]
            yield {
                "fitted_K": fitted_K,
                "blurred": blurred,
                "stuck": bool(fitted_K == K and refined.objective < from_truth.objective - STUCK),
                "rows": int(crossed[k].sum()),
                "z": found.z[k].tolist(),
                "p": float(found.p_value[k]),
                "flagged": bool(found.flagged[k]),
                "stated": float(found.impurity[k]),
                "certified": float(found.certified[k]),
                "true": float(impurity[k]),
                "pair": bool(world.informative[pair].all()) if pair else None,
                "pair_apart": bool((apart[pair] > 0.1).all()) if pair else None,
                "five": float(world.informative[five].mean()) if five else None,
            }


def proportion(values):
    values = np.asarray(list(values), float)
    return f"{values.mean():.3f} ({len(values)})" if len(values) else "- (0)"


def summary(records):
    """The bars' numbers, complete and with missing values."""
    for gap in sorted({r["missing"] for r in records}):
        some = [r for r in records if r["missing"] == gap]
        right = [r for r in some if r["fitted_K"] == r["K"] and r["rows"]]
        free = [r for r in right if not r["stuck"]]
        few = [r for r in some if r["fitted_K"] < r["K"]]
        impure = [r for r in few if r["true"] > 0.2]
        hit = [r for r in impure if r["flagged"]]

        def say(words, *proportions):
            print(f"  {words:58}", *(proportion(values) for values in proportions))

        print(f"missing {gap}")
        say("false flags, right K, EM not stuck", [r["flagged"] for r in free])
        say("  by pair, by eigenvalue", *([r["z"][s] >= 3 for r in free] for s in (0, 1)))
        say("  p < .05, p < .01", *([r["p"] < level for r in free] for level in (0.05, 0.01)))
        say("false flags, right K, all", [r["flagged"] for r in right])
        say("power, K too small, > 20 % impure", [r["flagged"] for r in impure])
        say("  one class too few", [r["flagged"] for r in impure if r["fitted_K"] == r["K"] - 1])
        say("  half of the classes", [r["flagged"] for r in impure if r["fitted_K"] == (r["K"] + 1) // 2])
        say("  where the right K gives clusters ≤ 20 % impure", [r["flagged"] for r in impure if r["blurred"] <= 0.2])
        say("named pair informative, differs by > .1", [r["pair"] for r in hit], [r["pair_apart"] for r in hit])
        say("top five informative", [r["five"] for r in hit])
        say("certified ≤ .10 and truly so, right K", [r["true"] <= 0.10 for r in right if r["certified"] <= 0.10])
        say("  EM not stuck", [r["true"] <= 0.10 for r in free if r["certified"] <= 0.10])
        say("  K too small", [r["true"] <= 0.10 for r in few if r["certified"] <= 0.10])
        say("stated ≤ .10 and truly so, right K", [r["true"] <= 0.10 for r in right if r["stated"] <= 0.10])
        say("  K too small", [r["true"] <= 0.10 for r in few if r["stated"] <= 0.10])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, default=1000)
    options.add_argument("--minutes", type=float, default=1e9)
    options.add_argument("--repeats", type=int, default=1)
    options.add_argument("--missing", type=float, nargs="*", default=[0.0, 0.1])
    options.add_argument("--columns", type=int, nargs="*", default=[20, 100, 300])
    options.add_argument("--pause", default="", help="a file; while it exists nothing runs")
    options.add_argument("--out", default="")
    options.add_argument("--read", nargs="*", default=[], help="summarise earlier --out files instead")
    given = options.parse_args()
    records = [json.loads(line) for name in given.read for line in Path(name).read_text().splitlines()]
    every = [(repeat, s) for repeat in range(given.repeats) for s in settings(given.missing)]
    every = [every[i] for i in np.random.default_rng(given.seed).permutation(len(every))]
    begin = time.monotonic()
    for at, (repeat, setting) in enumerate(every):
        if given.read or time.monotonic() - begin > 60 * given.minutes:
            break
        while given.pause and Path(given.pause).exists():
            time.sleep(5)
            begin += 5
        if setting["L"] not in given.columns:
            continue
        seed = given.seed + 10_000 * repeat + at
        new = [{**setting, "seed": seed, **found} for found in clusters(seed, **setting)]
        records += new
        if given.out:
            with open(given.out, "a") as file:
                file.writelines(json.dumps(record) + "\n" for record in new)
    summary(records)


if __name__ == "__main__":
    sys.exit(main())
