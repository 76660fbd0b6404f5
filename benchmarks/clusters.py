"""Bernoulli mixtures side by side: Latentfit, StepMix and pomegranate on the same yes/no rows, one fresh process each.

    pip install ".[bench]" pomegranate stepmix
    python benchmarks/clusters.py                       # all sets; the long ones take minutes for the peers
    python benchmarks/clusters.py --sets nltcs digits

`s/pass` is the difference of two runs with few and more iterations, divided by the iterations between, in CPU seconds
on one thread, ten clusters. `scan` is the wall-clock of a whole automatic fit (number unknown) and of StepMix fitted
for K = 1 … the longest K that Latentfit looked at, BIC choosing. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from importlib import import_module

import numpy as np
import pandas as pd
from harness import data_folder, fresh
from tables import N_CLASSES as N_CLUSTERS
from tables import fit_latentfit, seconds_per_pass

SETS = ("nltcs", "plants", "digits", "digits gaps", "20k x 100", "20k x 100 gaps", "200k x 500")
SYSTEMS = ("latentfit", "stepmix", "pomegranate")


def load(name: str) -> np.ndarray:
    """Ones and zeros, -1 for a gap."""
    rng = np.random.default_rng(0)
    kind = name.removesuffix(" gaps")
    if " x " in kind:
        rows, columns = (int(part.replace("k", "000")) for part in kind.split(" x "))
        frequencies = rng.uniform(0.1, 0.9, size=(8, columns))
        codes = (rng.random((rows, columns)) < frequencies[rng.integers(8, size=rows)]).astype(np.int8)
    else:
        file = {"nltcs": "debd_nltcs.csv", "plants": "debd_plants.csv.gz", "digits": "digits_bin.csv"}[kind]
        frame = pd.read_csv(data_folder("tables") / file).drop(columns=["class", "split"], errors="ignore")
        codes = frame.to_numpy().astype(np.int8)
    if kind != name:
        codes[rng.random(codes.shape) < 0.1] = -1
    return codes


def fit_stepmix(codes: np.ndarray, n_iter: int, n_clusters: int = N_CLUSTERS, tol: float = 0.0) -> float:
    from stepmix.stepmix import StepMix

    gaps = bool((codes < 0).any())
    data = np.where(codes < 0, np.nan, codes.astype(np.float64))
    kind = "binary_nan" if gaps else "binary"
    model = StepMix(
        n_clusters, measurement=kind, max_iter=n_iter, abs_tol=tol, rel_tol=0.0, random_state=0, progress_bar=0
    )
    model.fit(data)
    return float(model.bic(data)) if tol else float(model.score(data) * len(data))


def fit_pomegranate(codes: np.ndarray, n_iter: int) -> float:
    import torch
    from pomegranate.distributions import Bernoulli
    from pomegranate.gmm import GeneralMixtureModel

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    clusters = [Bernoulli(rng.uniform(0.2, 0.8, codes.shape[1]).astype(np.float32)) for _ in range(N_CLUSTERS)]
    data = torch.tensor(np.maximum(codes, 0).astype(np.float32))
    if (codes < 0).any():
        data = torch.masked.MaskedTensor(data, mask=torch.tensor(codes >= 0))
    model = GeneralMixtureModel(clusters, max_iter=n_iter, tol=-1e30).fit(data)
    return float(model.log_probability(data).sum())


FIT = dict(zip(SYSTEMS, (fit_latentfit, fit_stepmix, fit_pomegranate), strict=True))


def run(system: str, name: str) -> dict:
    warnings.simplefilter("ignore")
    codes = load(name)
    slow = system != "latentfit" and codes.size > 5_000_000
    return seconds_per_pass(FIT[system], codes, *((2, 10) if slow else (5, 25)))


def scan(system: str, name: str, longest: int) -> dict:
    """Seconds of finding the number of clusters, and the number."""
    warnings.simplefilter("ignore")
    codes = load(name)
    import_module({"latentfit": "latentfit.clusters.estimator", "stepmix": "stepmix.stepmix"}[system])  # not counted
    begin = time.perf_counter()
    if system == "latentfit":
        from latentfit import BernoulliMixture

        model = BernoulliMixture().fit(np.where(codes < 0, np.nan, codes.astype(float)))
        found, longest = model.n_components_, len(model.path_)
    else:
        scores = [fit_stepmix(codes, 1_000, k, 1e-4) for k in range(1, longest + 1)]
        found = int(np.argmin(scores)) + 1
    return {"seconds": time.perf_counter() - begin, "found": found, "longest": longest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--scan", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run or options.scan:
        found = run(*options.run) if options.run else scan(*options.scan[:2], int(options.scan[2]))
        print(json.dumps(found))
        return
    for name in options.sets:
        ours = None
        for system in sorted(options.systems, key=lambda s: s != "latentfit"):
            row = fresh(__file__, "--run", system, name, timeout=300)
            if isinstance(row, str):
                print(f"{name:16} {system:12} {row}", flush=True)
                continue
            ours = row if system == "latentfit" else ours
            ratio = f"{row['pass'] / ours['pass']:.1f}x" if ours else "-"
            print(f"{name:16} {system:12} {row['pass']:10.5f} s/pass {ratio:>8} {row['score']:10.4f} a row", flush=True)
        longest = 0
        for system in [s for s in ("latentfit", "stepmix") if s in options.systems]:
            row = fresh(__file__, "--scan", system, name, str(longest), timeout=300)
            if isinstance(row, str):
                print(f"{name:16} {system:12} scan {row}", flush=True)
                continue
            longest = row["longest"]
            took = f"{row['seconds']:.2f} s, {row['found']} found"
            print(f"{name:16} {system:12} scan of 1 … {longest}: {took}", flush=True)


if __name__ == "__main__":
    main()
