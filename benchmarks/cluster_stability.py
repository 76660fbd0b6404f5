"""Is the number of clusters of real yes/no tables the same for every seed and every order of the rows?

    python benchmarks/cluster_stability.py                              # all tables, 10 seeds, 10 orders
    python benchmarks/cluster_stability.py --tables digits_bin --repeats 3

Every fit is automatic (K unknown). Printed: how many of the repeats find the most frequent K, by the practical and the
statistical rule, and the adjusted Rand index with the labels where a table has any (they are never shown to a fit):
smallest and largest over all repeats of the practical number, and one fit of the statistical number. Beside them
StepMix where it is installed: K = 1, 2, … until BIC has risen twice, three starts each, its K and its index. Seconds
are the mean of one fit in CPU time on one thread, and those of StepMix's scan.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from harness import data_folder
from sklearn.metrics import adjusted_rand_score

from latentfit import BernoulliMixture

TABLES = {
    "digits_bin": ("digits_bin.csv", "class", True),
    "house_votes_84": ("house_votes_84.csv", "class", True),
    "zoo": ("zoo.csv", "class", True),
    "kr_vs_kp": ("kr_vs_kp.csv", "class", True),
    "debd_nltcs": ("debd_nltcs.csv", "split", False),
    "debd_plants": ("debd_plants.csv.gz", "split", False),
}
"""File, the column that is no data, and whether that column holds labels to compare with. Columns of more than two
values are left out: `legs` of zoo, one of kr_vs_kp."""
STEPMIX_LAST = 24
"""StepMix is scanned up to this K, as our paths are."""


@dataclass(frozen=True)
class Fit:
    practical: int
    statistical: int
    score: float  # adjusted Rand index with the labels; nan without
    seconds: float


def load(folder: Path, name: str) -> tuple[pd.DataFrame, pd.Series | None]:
    file, aside, labelled = TABLES[name]
    frame = pd.read_csv(folder / file, na_values=["?"])
    rows = frame.drop(columns=aside)
    binary = rows.loc[:, rows.nunique() <= 2]
    return binary.apply(as_zeros_and_ones), frame[aside] if labelled else None


def as_zeros_and_ones(column: pd.Series) -> pd.Series:
    """0 and 1 for a column's two values in their order, gaps kept."""
    values = sorted(column.dropna().unique())
    return column.map({value: float(at) for at, value in enumerate(values)})


def fit(rows: pd.DataFrame, labels: pd.Series | None, seed: int, select: str = "auto") -> Fit:
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the two numbers differ is part of what is printed
        model = BernoulliMixture(select=select, random_state=seed, n_jobs=1).fit(rows)
    took = time.process_time() - begin
    score = np.nan if labels is None else adjusted_rand_score(labels, model.labels_)
    return Fit(model.selection_["practical"], model.selection_["statistical"], score, took)


def fit_stepmix(rows: pd.DataFrame, labels: pd.Series) -> list[str]:
    """StepMix at the K of smallest BIC: that K with its index, and the seconds of the scan."""
    if find_spec("stepmix") is None:
        return ["not installed", ""]
    from stepmix.stepmix import StepMix

    data = rows.to_numpy(float)
    kind = "binary_nan" if np.isnan(data).any() else "binary"
    begin, scores, found = time.process_time(), [], []
    while len(scores) < STEPMIX_LAST and len(scores) - 1 - int(np.argmin(scores or [0.0])) < 2:
        model = StepMix(
            len(scores) + 1, measurement=kind, n_init=3, max_iter=1_000, random_state=0, verbose=0, progress_bar=0
        )
        found.append(model.fit(data))
        scores.append(float(model.bic(data)))
    best = int(np.argmin(scores))
    score = adjusted_rand_score(labels, found[best].predict(data))
    return [f"{score:.3f} (K = {best + 1})", f"{time.process_time() - begin:.1f}"]


def agree(numbers: list[int]) -> str:
    """The most frequent number and how many found it; the others after it."""
    first, *others = Counter(numbers).most_common()
    rest = "".join(f", {k} in {times}" for k, times in others)
    return f"{first[0]} in {first[1]} of {len(numbers)}{rest}"


def measure(folder: Path, name: str, repeats: int) -> list[str]:
    rows, labels = load(folder, name)
    seeds = [fit(rows, labels, seed) for seed in range(repeats)]
    orders = []
    for order in range(repeats):
        mixed = rows.sample(frac=1, random_state=order)
        orders.append(fit(mixed, None if labels is None else labels[mixed.index], 0))
    scores = [one.score for one in seeds + orders]
    other = "" if labels is None else f"{fit(rows, labels, 0, 'statistical').score:.3f}"
    return [
        name,
        f"{len(rows):,} × {rows.shape[1]}",
        *(agree([getattr(one, rule) for one in fits]) for rule in ("practical", "statistical")
          for fits in (seeds, orders)),
        "" if labels is None else f"{min(scores):.3f}–{max(scores):.3f}",
        other,
        f"{np.mean([one.seconds for one in seeds + orders]):.1f}",
        *(["", ""] if labels is None else fit_stepmix(rows, labels)),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    folder = data_folder("tables")
    head = ["table", "rows × columns", "practical K, seeds", "orders", "statistical K, seeds", "orders"]
    head += ["ARI, practical", "ARI, statistical", "s a fit"]
    print("| " + " | ".join([*head, "ARI, StepMix with BIC", "s of its scan"]) + " |")
    print("|" + " --- |" * 11)
    for name in arguments.tables:
        print("| " + " | ".join(measure(folder, name, arguments.repeats)) + " |", flush=True)


if __name__ == "__main__":
    main()
