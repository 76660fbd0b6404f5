"""Latent class EM side by side: Latentfit, StepMix and pomegranate on the same codes, one fresh process each.

    pip install ".[bench]" pomegranate stepmix
    python benchmarks/tables.py                      # all sets; StepMix on the long table takes minutes
    python benchmarks/tables.py --sets car mushroom

`s/pass` is the difference of two runs with few and more iterations from one seed, divided by the iterations between,
in CPU seconds on one thread; StepMix with gaps on a million rows needs about 48 s a pass, so it gets few. `2 threads`
is Latentfit's wall-clock gain, `fit` its whole default fit from a frame, start included. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from harness import PeakMemory, data_folder, fresh

SETS = ("car", "mushroom", "mushroom gaps", "1M", "1M gaps", "0.5M gaps", "0.25M gaps")
SYSTEMS = ("latentfit", "stepmix", "pomegranate")
PATIENCE = 360.0
"""Seconds that one system gets for one set."""
N_CLASSES = 10


def load(name: str) -> np.ndarray:
    """Codes, -1 for a gap."""
    kind, _, gaps = name.partition(" ")
    if kind.endswith("M"):
        rng = np.random.default_rng(0)
        n_rows = int(float(kind[:-1]) * 1_000_000)
        hidden = rng.integers(N_CLASSES, size=n_rows)
        codes = np.empty((n_rows, 20), np.int8)
        for n in range(20):
            edges = rng.dirichlet(np.ones(10), size=N_CLASSES).cumsum(axis=1)[:, :-1]
            codes[:, n] = (edges[hidden] < rng.random(n_rows)[:, None]).sum(axis=1)
            if gaps:
                codes[rng.random(n_rows) < 0.2, n] = -1
        return codes
    frame = pd.read_csv(data_folder("tables") / f"{kind}.csv", dtype=str, keep_default_na=False)
    if gaps:
        frame = frame.replace({"?": np.nan, "": np.nan})
    return np.stack([pd.factorize(frame[c], sort=True)[0] for c in frame], axis=1).astype(np.int8)


def fit_latentfit(codes: np.ndarray, n_iter: int, threads: int = 1) -> float:
    """Plain passes from a random start over rows as given: no grouping of equal rows, no leaps."""
    from latentfit.core.em import em
    from latentfit.core.mixture.em import table_steps
    from latentfit.core.mixture.init import random_init
    from latentfit.core.table.table import Column, Table

    columns = tuple(Column(n, np.arange(int(codes[:, n].max()) + 1)) for n in range(codes.shape[1]))
    table = Table(codes.view(np.uint8), columns)  # -1 is 255: missing
    start = random_init(table, N_CLASSES, np.random.default_rng(0))
    return em(table_steps(table, N_CLASSES, 0.0, threads), start, max_iter=n_iter, tol=0.0).log_likelihood


def fit_stepmix(codes: np.ndarray, n_iter: int) -> float:
    from stepmix.stepmix import StepMix

    gaps = bool((codes < 0).any())
    data = np.where(codes < 0, np.nan, codes.astype(np.float64)) if gaps else codes.astype(np.int64)
    kind = "categorical_nan" if gaps else "categorical"
    model = StepMix(
        N_CLASSES, measurement=kind, max_iter=n_iter, abs_tol=0.0, rel_tol=0.0, random_state=0, progress_bar=0
    )
    model.fit(data)
    return float(model.score(data) * len(data))


def fit_pomegranate(codes: np.ndarray, n_iter: int) -> float:
    import torch
    from pomegranate.distributions import Categorical, IndependentComponents
    from pomegranate.gmm import GeneralMixtureModel

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    sizes = [int(codes[:, n].max()) + 1 for n in range(codes.shape[1])]
    classes = [
        IndependentComponents([Categorical(rng.dirichlet(np.ones(size), size=1).tolist()) for size in sizes])
        for _ in range(N_CLASSES)
    ]
    data = torch.tensor(codes.astype(np.int64))
    if (codes < 0).any():
        data = torch.masked.MaskedTensor(torch.clamp(data, min=0), mask=data >= 0)
    model = GeneralMixtureModel(classes, max_iter=n_iter, tol=-1e30).fit(data)
    return float(model.log_probability(data).sum())


FIT = dict(zip(SYSTEMS, (fit_latentfit, fit_stepmix, fit_pomegranate), strict=True))


def seconds_per_pass(fit: Callable[[np.ndarray, int], float], codes: np.ndarray, few: int, more: int) -> dict:
    """CPU seconds of a pass, from fits of few and of more passes, and the log-likelihood a row that they reach."""
    fit(codes[:500], 1)  # imports and first calls are not what is measured
    fit(codes, few)  # the first fit of a long table also pays for its memory
    begin = time.process_time()
    fit(codes, few)
    middle = time.process_time()
    with PeakMemory() as memory:
        score = fit(codes, more)
    took = (time.process_time() - middle) - (middle - begin)
    return {"pass": took / (more - few), "score": score / len(codes), "passes": more, "memory": memory.added}


def run(system: str, name: str) -> dict:
    warnings.simplefilter("ignore")
    codes = load(name)
    slow = system != "latentfit" and len(codes) * (1 + 20 * bool((codes < 0).any())) > 1_000_000
    out = seconds_per_pass(FIT[system], codes, *((1, 2) if slow else (5, 25)))
    if system == "latentfit":
        walls = []
        for threads in (1, 2):
            begin = time.perf_counter()
            fit_latentfit(codes, out["passes"], threads)
            walls.append(time.perf_counter() - begin)
        out["speed_up"] = walls[0] / walls[1]
        out |= whole_fit(codes)
    return out


def whole_fit(codes: np.ndarray) -> dict:
    from latentfit import LatentClass

    frame = pd.DataFrame({f"c{n:02}": pd.array(codes[:, n], "Int8") for n in range(codes.shape[1])})
    frame = frame.mask(frame < 0) if (codes < 0).any() else frame
    with PeakMemory() as memory:
        begin = time.perf_counter()
        model = LatentClass(N_CLASSES).fit(frame)
        seconds = time.perf_counter() - begin
    limit = 2 * codes.nbytes / 1e6 + 64
    return {"fit": seconds, "fit_score": model.log_likelihood_ / len(codes), "fit_mb": memory.added, "limit_mb": limit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        print(json.dumps(run(*options.run)))
        return
    print(f"{'set':14} {'system':12} {'s/pass':>10} {'vs Latentfit':>9} {'added MB':>9} {'passes':>6} {'LL a row':>9}")
    for name in options.sets:
        ours = None
        for system in sorted(options.systems, key=lambda s: s != "latentfit"):
            row = fresh(__file__, "--run", system, name, timeout=PATIENCE)
            if isinstance(row, str):
                print(f"{name:14} {system:12} {row}", flush=True)
                continue
            ours = row if system == "latentfit" else ours
            ratio = f"{row['pass'] / ours['pass']:.1f}x" if ours else "-"
            print(
                f"{name:14} {system:12} {row['pass']:10.5f} {ratio:>9} {row['memory']:9.0f} {row['passes']:6} "
                f"{row['score']:9.4f}",
                flush=True,
            )
            if system == "latentfit":
                print(
                    f"{'':27} 2 threads {row['speed_up']:.2f}x; whole fit {row['fit']:.2f} s, {row['fit_mb']:.0f} MB "
                    f"(limit {row['limit_mb']:.0f}), {row['fit_score']:.4f} a row",
                    flush=True,
                )


if __name__ == "__main__":
    main()
