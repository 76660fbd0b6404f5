"""The large table: K × columns × rows × separations, uneven sizes, rules of ours beside StepMix with BIC.

K 1, 2, 3, 5, 8 × 20, 100, 500 columns × 200, 2,000, 20,000 rows × three separations, clusters in proportion to
1, 2, …, K; twenty tables a cell. A cell in which StepMix needs over five minutes is marked, and left out for it only.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from tacit.reproduce.clusters_grid import CLUSTERS, SEPARATIONS, TRUE_K, Judged, Setting, judge, judged_labels, rows_of
from tacit.reproduce.table import Outcome, Row, Run
from tacit.simulate import BinaryRows

REPEATS = 20
COLUMNS, ROWS = (20, 100, 500), (200, 2_000, 20_000)
RULES = ("statistical", "practical", "aic3", "bic", "icl")
STEPMIX = "StepMix, BIC"
STEPMIX_SECONDS = 300.0
STEPMIX_LAST = 12
"""StepMix is scanned up to this K, or until BIC has risen twice."""


def table_settings() -> list[Setting]:
    """All cells; one cluster has no separation, so it stands once."""
    numbers = [(1, SEPARATIONS[0]), *product(CLUSTERS[1:], SEPARATIONS)]
    return [Setting(K, L, n, D, even=False) for L, n, (K, D) in product(COLUMNS, ROWS, numbers)]


def table(run: Run) -> Outcome:
    settings = table_settings()
    if run.quick:
        settings = [one for one in settings if one.n_rows == 200 and one.n_columns == 20 and one.separation == 30.0][:2]
    peer = find_spec("stepmix") is not None and not run.quick
    rows: list[Row] = []
    every: dict[str, list[Judged]] = {}
    slow: set[tuple[int, int]] = set()  # columns × rows where StepMix was over its time: larger cells are not tried
    for at, setting in enumerate(settings):
        found: dict[str, list[Judged]] = {}
        note = "" if peer else "skipped: stepmix is not installed" if not run.quick else "skipped: quick run"
        for seed in run.seeds(REPEATS):
            data = setting.draw([seed, at])
            for rule, judged in judge(data, setting.n_clusters, RULES)[1].items():
                found.setdefault(rule, []).append(judged)
            if any(setting.n_columns >= L and setting.n_rows >= n for L, n in slow):
                note = "skipped: over 5 minutes"
            elif not note:
                theirs = stepmix_bic(data, setting.n_clusters)
                if theirs is None:
                    slow.add((setting.n_columns, setting.n_rows))
                    note = "skipped: over 5 minutes"
                else:
                    found.setdefault(STEPMIX, []).append(theirs)
        if note:
            found.pop(STEPMIX, None)  # some repeats alone would not compare
        D = setting.separation
        name = f"K={setting.n_clusters} L={setting.n_columns} n={setting.n_rows} D={D:g}"
        rows += rows_of(name, found)
        if note:
            rows.append(Row(name, STEPMIX, measure="K right %", note=note))
        for rule, judged_all in found.items():
            every.setdefault(rule, []).extend(judged_all)
        run.say(name)
    notes = [
        f"{rule}: right {100 * np.mean([one.right for one in judged]):.1f} %, over-split "
        f"{100 * np.mean([one.over for one in judged]):.1f} %, ARI {np.mean([one.agreement for one in judged]):.3f}, "
        f"ε-pure {100 * np.mean([one.pure for one in judged]):.1f} % of {len(judged)} tables"
        for rule, judged in every.items()
    ]
    notes.append("StepMix's figures are over the cells it finished only; the others' are over all")
    notes.append(f"{TRUE_K}: the fit of the same path with the true number, what no rule can know")
    return Outcome(f"uneven clusters, {run.times(REPEATS)} tables a cell", rows, notes)


def stepmix_bic(data: BinaryRows, n_clusters: int) -> Judged | None:
    """StepMix at the K of smallest BIC; None when its scan takes over five minutes."""
    from stepmix.stepmix import StepMix  # type: ignore[import-not-found,import-untyped,unused-ignore]

    frame: Any = np.where(data.rows < 0, np.nan, data.rows.astype(np.float64))
    kind = "binary_nan" if (data.rows < 0).any() else "binary"
    begin, best, kept, since = time.perf_counter(), np.inf, None, 0
    for number in range(1, STEPMIX_LAST + 1):
        model = StepMix(number, measurement=kind, n_init=3, random_state=0, verbose=0, progress_bar=0)
        model.fit(frame)
        if time.perf_counter() - begin > STEPMIX_SECONDS:
            return None
        value = float(model.bic(frame))
        since = 0 if value < best else since + 1
        if value < best:
            best, kept = value, model
        if since == 2:
            break
    assert kept is not None
    labels = np.asarray(kept.predict(frame))
    return judged_labels(data.clusters, labels, kept.n_components, n_clusters, time.perf_counter() - begin)
