"""What does splitting a pure cluster gain by chance? The derivation of the statistical number says d + TW d^⅓ nats.

Tables of one cluster, frequencies as in the grid; the gain is ℓ(2) − ℓ(1) of the path. With Tracy & Widom's law the
mean is d − 1.21 d^⅓ and the spread 1.27 d^⅓; a charge of d + 3 d^⅓ should be exceeded about twice in a thousand times.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from latentfit.clusters.select.criteria import statistical_penalty
from latentfit.clusters.select.path import cluster_path
from latentfit.engine.limits import one_blas_thread
from reproduction.clusters_grid import Setting
from reproduction.table import Outcome, Row, Run, mean_row

REPEATS = 200
COLUMNS, ROWS = (5, 20, 100, 300, 1_000), (500, 2_000)
TW_MEAN, TW_SPREAD = -1.21, 1.27
"""Mean and standard deviation of the Tracy–Widom law with β = 1."""


def chance(run: Run) -> Outcome:
    sizes = [(L, n) for L in COLUMNS for n in ROWS if not run.quick or L * n <= 50_000]
    rows: list[Row] = []
    for L, n in sizes:
        name = f"{L} columns, {n} rows"
        pieces = [run.piece(f"chance {name} [{seed}]", lambda: _gain(L, n, seed)) for seed in run.seeds(REPEATS, 4)]  # noqa: B023
        gain, took = np.array(pieces).T
        d, third = L + 1, np.cbrt(L + 1)
        stated = {"mean gain / d": 1 + TW_MEAN * third / d, "spread / d^⅓": TW_SPREAD, "split %": 0.2}
        values = {"mean gain / d": gain / d, "spread / d^⅓": gain, "split %": 100.0 * (gain > statistical_penalty(L))}
        for measure, got in values.items():
            row = mean_row(Row(name, "best split of a pure cluster", measure=measure, paper=stated[measure]), got, took)
            if measure.startswith("spread"):
                one = len(gain) == 1
                spread, note = (None, "one table has no spread") if one else (float(gain.std(ddof=1) / third), "")
                row = replace(row, ours=spread, spread=None, note=note)
            rows.append(row)
        run.say(name)
    notes = ["the column “paper” holds what the Tracy–Widom law says: docs/guide/clusters/number.md"]
    return Outcome(f"chance gains, {run.times(REPEATS, 4)} tables a size", rows, notes)


def _gain(n_columns: int, n_rows: int, seed: int) -> tuple[float, float]:
    """ℓ(2) − ℓ(1) on a table of one cluster, and the seconds."""
    table = Setting(1, n_columns, n_rows, 16.0).draw([seed, n_columns, n_rows]).coded()
    begin = time.process_time()
    with one_blas_thread():
        path = cluster_path(table, most=2, least=2)
    return path.at(2).log_likelihood - path.at(1).log_likelihood, time.process_time() - begin
