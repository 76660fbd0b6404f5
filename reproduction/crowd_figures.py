"""Figures 2, 3 and 4 of Ibrahim & Fu 2022: how fast rotation (13) finds a sparse factor, how steady the method is.

The text does not give Figure 2's three densities φ, nor ψ; ours are .3, .5 and .7, and the library's ψ. The diminishing
schedule runs from t = 0, as printed, and once more as the library runs it, from where every column keeps something.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from scipy.sparse.linalg import eigsh

from latentfit.core.assign import match_classes
from latentfit.core.kernels import Floats
from latentfit.labels.init.symnmf import rotate_nonnegative
from reproduction.crowd_methods import DESCRIBED, OWN, error_percent, solve
from reproduction.crowd_paper import FIGURE4
from reproduction.crowd_real import read_crowd
from reproduction.draw import draw_convergence, draw_histogram
from reproduction.table import Curves, Outcome, Row, Run, absent, add_line, mean_row

ROWS, CLASSES = 1000, 3
DENSITIES = (0.3, 0.5, 0.7)
"""φ: the chance that an entry of H is not zero."""
SCHEDULES = {
    "diminishing": ("diminishing", 0), "diminishing, late": ("diminishing", None), "constant": ("constant", 0),
    "zero": ("zero", 0),
}  # fmt: skip
"""α and the round that comes first; None: the library's own."""
ITERATIONS = 100
REPEATS = 20
HISTOGRAM_REPEATS = 100
NEAR = 0.01
"""A distance reached with and without noise; ‖H‖² / K is about a hundred."""
STEPS = f"median iterations until ‖HΠ − H_t‖² / K < {NEAR}"
DISTANCE = f"median ‖HΠ − H_t‖² / K after {ITERATIONS} iterations"


def figure2(run: Run) -> Outcome:
    """Figure 2: without noise."""
    return _convergence(run, "without noise", None)


def figure3(run: Run) -> Outcome:
    """Figure 3: at 30 dB."""
    return _convergence(run, "at 30 dB", 30.0)


def draw_factor(density: float, rng: np.random.Generator) -> Floats:
    """H (J, K): uniform entries, each zero with chance 1 − φ."""
    return np.asarray(rng.random((ROWS, CLASSES)) * (rng.random((ROWS, CLASSES)) < density))


def noisy_root(factor: Floats, snr: float | None, rng: np.random.Generator) -> Floats:
    """The square root of rank K of H Hᵀ plus Gaussian noise of the given signal-to-noise ratio in dB."""
    X = factor @ factor.T
    if snr is not None:
        sigma = np.sqrt(np.square(X).mean() / 10 ** (snr / 10))
        noise = sigma * rng.standard_normal(X.shape)
        X = X + (noise + noise.T) / np.sqrt(2)  # symmetric, off the diagonal with the same variance
    values, vectors = eigsh(X, k=factor.shape[1], which="LA", v0=np.ones(len(X)))
    order = np.argsort(-values)
    U = vectors[:, order] * np.sqrt(np.maximum(values[order], 0))
    return np.asarray(U * np.where(U.sum(axis=0) < 0, -1.0, 1.0))


def distances(root: Floats, factor: Floats, kind: str) -> Floats:
    """‖HΠ − H_t‖² / K of every iteration, Π the best order of columns."""
    alpha, first = SCHEDULES[kind]
    path = rotate_nonnegative(
        root, alpha=alpha, max_iter=ITERATIONS, tol=0.0, first_round=first, keep_path=True
    ).path  # fmt: skip
    energy = np.square(factor).sum(axis=0)
    out = np.empty(ITERATIONS)
    for step, found in enumerate(path):
        gaps = energy[:, None] + np.square(found).sum(axis=0) - 2 * factor.T @ found
        out[step] = max(float(gaps[np.arange(len(gaps)), match_classes(-gaps)].sum()), 0.0) / factor.shape[1]
    return out


def _convergence(run: Run, name: str, snr: float | None) -> Outcome:
    seeds = run.seeds(REPEATS, 3)
    columns: dict[str, list[object]] = {
        column: [] for column in ("density", "alpha", "iteration", "median", "low", "high")
    }
    rows = []
    for density in DENSITIES:
        run.say(f"φ = {density}, {name}")
        paths: dict[str, list[Floats]] = {kind: [] for kind in SCHEDULES}
        seconds: dict[str, list[float]] = {kind: [] for kind in SCHEDULES}
        for seed in seeds:
            rng = np.random.default_rng(seed)
            factor = draw_factor(density, rng)
            root = noisy_root(factor, snr, rng)
            for kind in SCHEDULES:
                begin = time.perf_counter()
                paths[kind].append(distances(root, factor, kind))
                seconds[kind].append(time.perf_counter() - begin)
        for kind in SCHEDULES:
            low, middle, high = np.quantile(paths[kind], (0, 0.5, 1), axis=0)
            for step in range(ITERATIONS):
                add_line(columns, density, kind, step + 1, middle[step], low[step], high[step])
            steps = [_first_below(path, NEAR) for path in paths[kind]]
            row = Row(f"φ = {density} {name}", f"SymNMF, α {kind}", measure=STEPS, repeats=len(seeds))
            rows.append(replace(row, ours=float(np.median(steps)), seconds=float(np.mean(seconds[kind]))))
            rows.append(replace(row, measure=DISTANCE, ours=float(middle[-1])))
    title = f"H of {ROWS} × {CLASSES}, {name}, {len(seeds)} trials; the paper prints curves, no numbers"
    return Outcome(title, rows, curves=Curves(dict(columns), draw_convergence))


def _first_below(path: Floats, level: float) -> float:
    below = np.flatnonzero(path < level)
    return float(below[0] + 1) if len(below) else np.inf


def figure4(run: Run) -> Outcome:
    """Figure 4: errors of many runs on labelme: random roots, robust imputation, EM."""
    methods = [recipe for recipe in OWN if recipe.variant == DESCRIBED and recipe.polish is not None]
    crowd = read_crowd(run, "labelme")
    mean, _ = FIGURE4["RobSymNMF-EM"]
    notes = [f"paper: {name} {value} ± {spread} %" for name, (value, spread) in FIGURE4.items()]
    if crowd is None:
        rows = [Row("labelme", "RobSymNMF-EM", DESCRIBED, paper=mean, note=absent("crowd/labelme"))]
        return Outcome("labelme, errors of single runs", rows, notes)
    seeds = run.seeds(HISTOGRAM_REPEATS, 5)
    names: list[object] = []
    errors: list[object] = []
    rows = []
    for recipe in methods:
        run.say(f"labelme: {recipe.method}, {len(seeds)} runs")
        answers = [solve(crowd.labels, recipe, seed) for seed in seeds]
        got = [error_percent(answer.posterior, crowd.truth) for answer in answers]
        paper = FIGURE4.get(recipe.method, (None,))[0]
        row = Row("labelme", recipe.method, recipe.variant, paper=paper)
        rows.append(mean_row(row, got, [answer.seconds for answer in answers]))
        names += [recipe.method] * len(got)
        errors += got
        quantiles = ", ".join(f"{value:.1f}" for value in np.quantile(got, (0, 0.1, 0.5, 0.9, 1)))
        notes.append(f"{recipe.method}: smallest, tenth, median, ninetieth, largest error {quantiles} %")
    rows.append(Row("labelme", "CrowdLayer", paper=FIGURE4["CrowdLayer"][0], note="not rerun"))
    title = f"labelme, errors of {len(seeds)} runs"
    return Outcome(title, rows, notes, Curves({"method": names, "error": errors}, draw_histogram))
