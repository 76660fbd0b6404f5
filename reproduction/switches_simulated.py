"""Figures 2 and 5 of the switches paper: error against rows and noise, and CPU time against rows.

d = 6 switches, m = 30 features, Section 5.1's generator, a new model in every repeat (the paper keeps one). The error
is ‖W − Ŵ‖²_F / (m d). Medians are given beside means: a method that picks a wrong candidate once in 50 draws has a mean
that tells nothing of the others. The figures' numbers are not in the paper's text.
"""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np

from latentfit.simulate import binary_factors
from reproduction.draw import draw_against, draw_switches
from reproduction.switches_methods import (
    METHODS,
    OURS_EM,
    PAPER,
    RANDOM_EM,
    SHL,
    Judged,
    judge,
)
from reproduction.table import Curves, Outcome, Row, Run, add_line, mean_row

SWITCHES, FEATURES = 6, 30
ROWS = (1_000, 3_000, 10_000, 30_000, 100_000)
NOISES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
NOISE, MANY = 0.4, 100_000
REPEATS = 50
TIMED_ROWS = (1_000, 10_000, 100_000, 1_000_000)
TIMED_REPEATS = 5
QUICK_ROWS, QUICK_NOISES, QUICK_MANY = (400, 1_600), (0.1, 0.4), 1_000
QUICK_RUNS = 5
"""Runs of SHL in a quick run; 50 else."""
RANDOM_UP_TO = 0.4
"""Random starts of EM are run up to this noise: beyond, they take longer than everything else together."""
MEDIAN, MEAN, OPTIMUM, SLOPE = "median error", "mean error", "at the optimum %", "slope of log median error in log n"


def figure2(run: Run) -> Outcome:
    """Figure 2: error against the number of rows and against the noise."""
    rows_, noises, many = (QUICK_ROWS, QUICK_NOISES, QUICK_MANY) if run.quick else (ROWS, NOISES, MANY)
    settings = list(dict.fromkeys([*((n, NOISE) for n in rows_), *((many, sigma) for sigma in noises)]))
    found = {setting: _draws(run, *setting) for setting in settings}
    columns: dict[str, list[object]] = {name: [] for name in ("n", "sigma", "method", "median", "mean", "seconds")}
    rows: list[Row] = []
    for (n, sigma), judged in found.items():
        dataset = f"n = {n:,}, σ = {sigma:g}"
        for method, each in judged.items():
            errors = [one.error for one in each]
            median = mean_row(Row(dataset, method, measure=MEDIAN), errors, (one.seconds for one in each))
            mean = float(np.mean(errors))
            rows += [_with(median, float(np.median(errors))), _with(median, mean, MEAN)]
            if each[0].optimum is not None:
                there = [100.0 * bool(one.optimum) for one in each]
                rows.append(mean_row(Row(dataset, method, measure=OPTIMUM), there, (one.seconds for one in each)))
            seconds = float(np.mean([one.seconds for one in each]))
            add_line(columns, n, sigma, method, float(np.median(errors)), mean, seconds)
    rows += _slopes(found, rows_)
    notes = [
        "seconds are CPU time of one thread; the paper gives its figures as pictures only",
        f"{RANDOM_EM}: up to σ = {RANDOM_UP_TO:g}",
        f"at the optimum: log-likelihood no more than 1e-5 nats a cell below EM from the truth; {OURS_EM}, {RANDOM_EM}",
    ]
    title = f"d = {SWITCHES}, m = {FEATURES}, {run.times(REPEATS, 2)} draws a setting, a new model each"
    return Outcome(title, rows, notes, Curves(dict(columns), draw_switches))


def figure5(run: Run) -> Outcome:
    """Figure 5: CPU time of the spectral method and of SHL; ours, EM included, beside them."""
    sizes = QUICK_ROWS if run.quick else TIMED_ROWS
    rows: list[Row] = []
    columns: dict[str, list[object]] = {"rows": [], "method": [], "CPU seconds": []}
    for n in sizes:
        found: dict[str, list[Judged]] = {}
        for seed in run.seeds(TIMED_REPEATS, 1):
            data = binary_factors(n, FEATURES, SWITCHES, NOISE, random_state=seed)
            for method, one in judge(data, seed, (PAPER, OURS_EM, SHL), QUICK_RUNS if run.quick else 50).items():
                found.setdefault(method, []).append(one)
        run.say(f"n = {n:,}")
        for method, each in found.items():
            seconds = [one.seconds for one in each]
            rows.append(mean_row(Row(f"n = {n:,}", method, measure="CPU seconds"), seconds, seconds))
            add_line(columns, n, method, rows[-1].ours)
    notes = ["one thread; SHL is the sum of its 50 runs, whose candidates are scored on 10,000 rows"]
    curves = Curves(dict(columns), draw_against)
    return Outcome(f"CPU time, d = {SWITCHES}, m = {FEATURES}, σ = {NOISE:g}", rows, notes, curves)


def _draws(run: Run, n: int, sigma: float) -> dict[str, list[Judged]]:
    methods = tuple(name for name in METHODS if name != RANDOM_EM or sigma <= RANDOM_UP_TO)
    found: dict[str, list[Judged]] = {}

    def draw(seed: int) -> dict[str, tuple[object, ...]]:
        data = binary_factors(n, FEATURES, SWITCHES, sigma, random_state=np.random.default_rng([seed, n]))
        return {name: astuple(one) for name, one in judge(data, seed, methods, QUICK_RUNS if run.quick else 50).items()}

    for seed in run.seeds(REPEATS, 2):
        pieces = run.piece(f"figure2 n={n} σ={sigma:g} [{seed}]", lambda: draw(seed))  # noqa: B023
        for method, fields in pieces.items():
            found.setdefault(method, []).append(Judged(*fields))
    run.say(f"n = {n:,}, σ = {sigma:g}")
    return found


def _slopes(found: dict[tuple[int, float], dict[str, list[Judged]]], sizes: tuple[int, ...]) -> list[Row]:
    """Slopes of the upper panel; the parametric rate is −1."""
    rows = []
    for method in next(iter(found.values())):
        medians = [np.median([one.error for one in found[n, NOISE][method]]) for n in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(medians), 1)[0])
        repeats = len(found[sizes[0], NOISE][method])
        rows.append(Row(f"σ = {NOISE:g}", method, measure=SLOPE, ours=slope, repeats=repeats))
    return rows


def _with(row: Row, value: float, measure: str = MEDIAN) -> Row:
    return replace(row, ours=value, measure=measure, spread=row.spread if measure == MEAN else None)
