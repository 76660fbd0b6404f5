"""How often is one pure cluster split? Tables of independent columns, all defaults, seeds that nothing was tuned on.

    python benchmarks/pure_clusters.py                       # 100 tables a setting, seeds from 1000
    python benchmarks/pure_clusters.py --repeats 20 --seed 7

Frequencies of the columns: all one half, even between .05 and .95, or all one tenth. Printed: the share of tables with
more than one cluster, by the default rule.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from latentfit import BernoulliMixture

SIZES = ((50, 500), (50, 2_000), (20, 200), (20, 1_000), (100, 300), (10, 500))
"""Columns and rows."""


def frequencies(kind: str, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "even":
        return rng.uniform(0.05, 0.95, n_columns)
    return np.full(n_columns, 0.5 if kind == "half" else 0.1)


def split_share(kind: str, n_columns: int, n_rows: int, repeats: int, seed: int) -> float:
    split = 0
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, n_columns, n_rows, repeat])
        rows = (rng.random((n_rows, n_columns)) < frequencies(kind, n_columns, rng)).astype(int)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            split += BernoulliMixture(random_state=repeat, n_jobs=1).fit(rows).n_components_ > 1
    return split / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1_000)
    given = parser.parse_args()
    print("| columns x rows | half | even | tenth |\n| --- | --- | --- | --- |")
    for n_columns, n_rows in SIZES:
        proportions = [
            split_share(kind, n_columns, n_rows, given.repeats, given.seed) for kind in ("half", "even", "tenth")
        ]
        print(f"| {n_columns} x {n_rows:,} | " + " | ".join(f"{share:.0%}" for share in proportions) + " |", flush=True)


if __name__ == "__main__":
    main()
