"""The large table: K × columns × rows × separations, uneven sizes, rules of ours beside StepMix with BIC.

K 1, 2, 3, 5, 8 × 20, 100, 500 columns × 200, 2,000, 20,000 rows × three separations, clusters in proportion to
1, 2, …, K; twenty tables a cell, ten of 500 columns × 20,000 rows. StepMix scans the first of them, as many as its time
allows; a size at which a scan needs over five minutes of CPU is marked, and left out for it only.
"""

from __future__ import annotations

import time
from dataclasses import astuple
from importlib.util import find_spec
from itertools import product

import numpy as np
from numpy.typing import NDArray

from reproduction.clusters_grid import (
    CLUSTERS,
    SEPARATIONS,
    TRUE_K,
    Judged,
    Setting,
    judge,
    judged_labels,
    rows_of,
)
from reproduction.table import Outcome, Row, Run

REPEATS = 20
LARGEST, LARGEST_REPEATS = 10_000_000, 10
"""Columns × rows from which on a table takes half a minute, and how many tables a cell of them has."""
PEER_REPEATS = {200: 5, 2_000: 3, 20_000: 1}
"""Tables of a cell that StepMix scans, by their rows: twenty of the longest would take it half a day."""
COLUMNS, ROWS = (20, 100, 500), (200, 2_000, 20_000)
RULES = ("statistical", "practical", "purity", "aic3", "bic", "icl")
STEPMIX = "StepMix, BIC"
STEPMIX_SECONDS = 300.0
STEPMIX_LAST = 12
"""StepMix is scanned up to this K, or until BIC has risen twice."""


def table_settings() -> list[Setting]:
    """All cells, the small ones first; one cluster has no separation, so it stands once."""
    numbers = [(1, SEPARATIONS[0]), *product(CLUSTERS[1:], SEPARATIONS)]
    sizes = sorted(product(COLUMNS, ROWS), key=lambda size: size[0] * size[1])
    return [Setting(K, L, n, D, even=False) for (L, n), (K, D) in product(sizes, numbers)]


def table(run: Run) -> Outcome:
    settings = table_settings()
    if run.quick:
        settings = [one for one in settings if one.n_rows == 200 and one.n_columns == 20 and one.separation == 30.0][:2]
    peer = "skipped: quick run" if run.quick else "" if find_spec("stepmix") else "skipped: stepmix is not installed"
    rows: list[Row] = []
    every: dict[str, list[NDArray[np.float64]]] = {}  # rule → the mean of each cell: right, over, ARI, ε-pure
    slow: set[tuple[int, int]] = set()  # columns × rows where StepMix was over its time: larger cells are not tried
    for at, setting in enumerate(settings):
        K, L, n, D = setting.n_clusters, setting.n_columns, setting.n_rows, setting.separation
        name = f"K={K} L={L} n={n} D={D:g}"
        found: dict[str, list[Judged]] = {}
        for seed in run.seeds(REPEATS)[: LARGEST_REPEATS if L * n >= LARGEST else None]:
            for rule, fields in run.piece(f"{name} [{seed}]", lambda: _ours(setting, [seed, at])).items():  # noqa: B023
                found.setdefault(rule, []).append(Judged(*fields))
        note = peer or _against_stepmix(run, setting, at, name, slow, found)
        rows += rows_of(name, found)
        if note:
            rows.append(Row(name, STEPMIX, measure="K right %", note=note))
        for rule, judged in found.items():
            every.setdefault(rule, []).append(np.mean([astuple(one)[:4] for one in judged], axis=0))
        run.say(name)
    notes = []
    for rule, cells in every.items():
        right, over, agreement, pure = np.mean(cells, axis=0)
        notes.append(
            f"{rule}: right {100 * right:.1f} %, over-split {100 * over:.1f} %, ARI {agreement:.3f}, ε-pure "
            f"{100 * pure:.1f} % in {len(cells)} cells, each counted once"
        )
    scanned = ", ".join(f"{min(run.times(REPEATS), most)} of {n:,} rows" for n, most in PEER_REPEATS.items())
    notes.append(f"{STEPMIX}: over the cells it finished only, tables a cell: {scanned}")
    notes.append(f"{TRUE_K}: the fit of the same path with the true number, what no rule can know")
    largest = min(run.times(REPEATS), LARGEST_REPEATS)
    return Outcome(f"uneven clusters, {run.times(REPEATS)} tables a cell ({largest} of 500 × 20,000)", rows, notes)


def _ours(setting: Setting, seed: list[int]) -> dict[str, tuple[float, ...]]:
    judged = judge(setting.draw(seed), setting.n_clusters, RULES)[1]
    return {rule: astuple(one) for rule, one in judged.items()}


def _against_stepmix(
    run: Run, setting: Setting, at: int, name: str, slow: set[tuple[int, int]], found: dict[str, list[Judged]]
) -> str:
    """StepMix on the first tables of a cell, into `found`; why not, when it takes too long."""
    size = setting.n_columns, setting.n_rows
    theirs = []
    for seed in run.seeds(REPEATS)[: PEER_REPEATS[setting.n_rows]]:
        if any(size[0] >= L and size[1] >= n for L, n in slow):
            break
        fields = run.piece(f"{STEPMIX} {name} [{seed}]", lambda: stepmix_bic(setting, [seed, at]))  # noqa: B023
        if fields is None:
            slow.add(size)
        else:
            theirs.append(Judged(*fields))
    if any(size[0] >= L and size[1] >= n for L, n in slow):
        return "skipped: over 5 minutes"  # some tables alone would not compare
    found[STEPMIX] = theirs
    return ""


def stepmix_bic(setting: Setting, seed: list[int]) -> tuple[float, ...] | None:
    """StepMix at the K of smallest BIC; None when its scan takes over five minutes of CPU."""
    from stepmix.stepmix import StepMix  # type: ignore[import-not-found,import-untyped,unused-ignore]

    data = setting.draw(seed)
    rows = data.rows.astype(np.float64)
    begin, best, kept, since = time.process_time(), np.inf, None, 0
    for number in range(1, STEPMIX_LAST + 1):
        model = StepMix(number, measurement="binary", n_init=3, random_state=0, verbose=0, progress_bar=0)
        model.fit(rows)
        if time.process_time() - begin > STEPMIX_SECONDS:
            return None
        value = float(model.bic(rows))
        since = 0 if value < best else since + 1
        if value < best:
            best, kept = value, model
        if since == 2:
            break
    assert kept is not None
    labels, took = np.asarray(kept.predict(rows)), time.process_time() - begin
    return astuple(judged_labels(data.clusters, labels, kept.n_components, setting.n_clusters, took))
