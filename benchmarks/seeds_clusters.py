"""Is the number of clusters of real yes/no tables the same for every seed?

    python benchmarks/seeds_clusters.py                                   # every table that is there, seeds 0-9
    python benchmarks/seeds_clusters.py --tables zoo wine --seeds 5
    python benchmarks/seeds_clusters.py --more FOLDER                     # poLCA's and the GSS items too

Every fit is `BernoulliMixture(random_state=seed)` with all defaults. Printed per table: how often each number was
chosen, how many columns were set aside or left out of the choice, the verdicts, and CPU seconds of one fit. A table
passes when at least nine of ten seeds choose the same number.

Tables: the yes/no columns of the shared tables, four tables of categories one-hot, and two that ship with scikit-learn
cut at the medians of their columns. `--more` names a folder with `cheating.csv` and `carcinoma.csv` (R's
poLCA, codes 1 and 2), `gss_abortion.parquet` (R's stevedata), `lsat6.csv` and `lsat7.csv` (R's psych).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from cluster_stability import as_zeros_and_ones
from cluster_stability import load as two_valued
from harness import data_folder
from sklearn import datasets

from latentfit import BernoulliMixture

SHARED = ("digits_bin", "house_votes_84", "zoo", "kr_vs_kp", "debd_nltcs", "debd_plants")
ONE_HOT = {"mushroom": "mushroom.csv", "splice": "splice.csv", "car": "car.csv", "nursery": "nursery.csv"}
SHIPPED = {"breast_cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}
SAME = 0.9
"""Share of the seeds that must agree."""


def one_hot(file: str) -> pd.DataFrame:
    """Every category of every column but the label's as a column of its own; a missing value is missing in all."""
    frame = pd.read_csv(data_folder("tables") / file, na_values=["?"])
    frame = frame.drop(columns=frame.columns[-1] if "class" not in frame else "class")
    parts = []
    for name in frame:
        part = pd.get_dummies(frame[name].astype("string"), prefix=name).astype(float)
        parts.append(part.where(frame[name].notna(), other=float("nan")))
    return pd.concat(parts, axis=1)


def above_median(name: str) -> pd.DataFrame:
    frame = SHIPPED[name](as_frame=True).data
    return (frame > frame.median()).astype(int)


def items(file: Path) -> pd.DataFrame:
    """The yes/no columns of a file of `--more`."""
    frame = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
    if file.stem == "gss_abortion":
        frame = frame[[name for name in frame if name.startswith("ab")]]
    frame = frame.drop(columns=[name for name in ("rownames", "GPA") if name in frame])
    return frame.apply(as_zeros_and_ones)


def tables(more: Path | None) -> dict[str, Callable[[], pd.DataFrame]]:
    """How to load each table that is there."""
    found: dict[str, Callable[[], pd.DataFrame]] = {}
    for name in SHARED:
        found[name] = lambda name=name: two_valued(data_folder("tables"), name)[0]
    for name, file in ONE_HOT.items():
        found[name] = lambda file=file: one_hot(file)
    for name in SHIPPED:
        found[name] = lambda name=name: above_median(name)
    for file in sorted(more.iterdir()) if more else []:
        if file.stem in ("cheating", "carcinoma", "gss_abortion", "lsat6", "lsat7") and file.suffix != ".rda":
            found[file.stem] = lambda file=file: items(file)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--more", type=Path)
    given = parser.parse_args()
    known = tables(given.more)
    passed = 0
    chosen = given.tables or list(known)
    print("| table | rows x columns | number: seeds | set aside, left out | verdicts | s a fit |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in chosen:
        rows = known[name]()
        numbers: Counter[int] = Counter()
        verdicts: Counter[str] = Counter()
        aside: Counter[tuple[int, int]] = Counter()
        begin = time.process_time()
        for seed in range(given.seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = BernoulliMixture(random_state=seed, n_jobs=1).fit(rows)
            numbers[model.n_components_] += 1
            verdicts[model.report_.verdict] += 1
            held = sum(one.held for one in model._dependent)
            aside[len(model.copies_), held] += 1
        took = (time.process_time() - begin) / given.seeds
        passed += numbers.most_common(1)[0][1] >= SAME * given.seeds
        told = ", ".join(f"{number}: {times}" for number, times in numbers.most_common())
        out = ", ".join(f"{pair[0]}+{pair[1]}: {times}" for pair, times in aside.most_common())
        says = ", ".join(f"{verdict}: {times}" for verdict, times in verdicts.most_common())
        print(f"| {name} | {len(rows):,} x {rows.shape[1]} | {told} | {out} | {says} | {took:.1f} |", flush=True)
    print(f"\n{passed} of {len(chosen)} tables have one number for at least {SAME:.0%} of {given.seeds} seeds")


if __name__ == "__main__":
    main()
