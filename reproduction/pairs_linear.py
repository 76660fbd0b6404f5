"""Linear sample size: ℓ₁ errors of B, ρ and Δ against N/M, for dictionaries of 500 to 50,000 words.

Theorem 2.2 of Huang, Kakade, Kong & Valiant 2018 says O(√(M/N)) for all three, whatever M: curves of different M must
coincide. Worlds: Example 1 (C = .8), Example 2 (a common word of probability .1 besides) and a Zipf dictionary, which
the paper does not have. Methods: both truncated SVDs of Appendix E; one regularised scaled SVD; the paper's phases as
written (three batches), on all counts, and with five rounds of Phase II; EM on pair counts from a random start;
`PairMatrix` as it comes. Every answer is projected to a probability matrix first (separations cut where entries would
be negative). Independence (ρρᵀ) stands beside them.

B has M² entries: above 4,000 words the error is summed over the heaviest rows and an even sample of the others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from latentfit.core.counts import Counts, read_counts
from latentfit.core.em import em
from latentfit.core.pair_em import PairSteps, columns_to_one
from latentfit.core.spectral import PairModel, scaled_svd
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs
from latentfit.pairs.em import cut_lifts
from latentfit.pairs.estimator import PairMatrix
from latentfit.pairs.init import Factored, decompose, independent, pair_phases
from latentfit.pairs.simulate import PairWorld, World, pairs
from reproduction.draw import draw_linear
from reproduction.table import Curves, Outcome, Row, Run, add_line, mean_row

Fit = Callable[[Counts, int], Factored]

WORLDS: tuple[World, ...] = ("example1", "example2", "zipf")
SIZES = (500, 2_000, 10_000, 50_000)
QUICK_SIZES = (200, 500)
RATIOS = (2, 5, 10, 20, 50, 100, 400)
MOST_PAIRS = 5_000_000
"""Larger samples than this are left out: at 50,000 words N/M ends at 100."""
REPEATS = 3
EM_PASSES = 100
EM_MOST_PAIRS = 250_000
"""EM from a random start is run up to so many pairs."""
ALL_ROWS, HEAVY_ROWS, SOME_ROWS = 4_000, 300, 700
MEASURES = ("ℓ₁ error of B", "ℓ₁ error of ρ", "ℓ₁ error of Δ")
AUTO, REGULARISED, PHASE_ONE, PHASE_TWO = "PairMatrix()", "regularised scaled SVD", "paper, Phase I", "paper, Phase II"


def _svd(regularise: float) -> Fit:
    return lambda counts, _: cut_lifts(
        scaled_svd(counts.matrix, 1, regularise=regularise, symmetric=True, centred=True)
    )


def _phases(*, split: bool = False, rounds: int = 1) -> Fit:
    return lambda counts, seed: cut_lifts(
        pair_phases(counts, symmetric=True, split=split, rounds=rounds, seed=seed % 2**31)
    )


def random_pair_model(counts: Counts, n_causes: int, *, symmetric: bool, rng: np.random.Generator) -> PairModel:
    """A random start: marginals times even noise, causes that come in equal pairs with a little of everything."""
    sides = [counts.row_sums, counts.column_sums]
    if symmetric:
        sides = [sides[0] + sides[1]]
    parts = [columns_to_one(side[:, None] * rng.gamma(1.0, size=(len(side), n_causes)) + 1e-12) for side in sides]
    mixing = np.eye(n_causes) + 0.1
    return PairModel(parts[0], parts[-1], mixing / mixing.sum())


def _random_em(counts: Counts, seed: int) -> Factored:
    start = random_pair_model(counts, 2, symmetric=True, rng=np.random.default_rng(seed))
    steps = PairSteps(counts, symmetric=True, threads=resolve_jobs(None))
    return decompose(em(steps, start, max_iter=EM_PASSES, tol=1e-7, accelerate=True).params)


def _independence(counts: Counts, _: int) -> Factored:
    both = (counts.row_sums + counts.column_sums) / (2 * counts.total)
    return independent(both, both)


def _auto(counts: Counts, seed: int) -> Factored:
    return PairMatrix(symmetric=True, random_state=seed % 2**31).fit(counts)._factored


METHODS: dict[str, Fit] = {
    "independence": _independence,
    "truncated SVD": _svd(np.inf),
    "√marginal-scaled SVD": _svd(0.0),
    REGULARISED: _svd(1.0),
    f"{PHASE_ONE}, split": _phases(split=True, rounds=0),
    f"{PHASE_TWO}, split": _phases(split=True),
    PHASE_ONE: _phases(rounds=0),
    PHASE_TWO: _phases(),
    f"{PHASE_TWO}, 5 rounds": _phases(rounds=5),
    "EM, random start": _random_em,
    AUTO: _auto,
}


def linear(run: Run) -> Outcome:
    """Theorems 1.1, 2.1 and 2.2: errors against N/M by world, number of items and method."""
    sizes, ratios = (QUICK_SIZES, RATIOS[1:4:2]) if run.quick else (SIZES, RATIOS)
    cells = [
        (world, size, ratio) for world in WORLDS for size in sizes for ratio in ratios if size * ratio <= MOST_PAIRS
    ]
    rows: list[Row] = []
    columns: dict[str, list[object]] = {
        name: [] for name in ("world", "items", "ratio", "method", "B", "rho", "delta", "seconds", "repeats")
    }
    for world, size, ratio in cells:
        seeds = run.seeds(REPEATS if size <= 10_000 else 1, 1)
        got = [
            run.piece(f"linear {world} {size} {ratio} {number}", partial(_cell, world, size, ratio, seed))
            for number, seed in enumerate(seeds)
        ]
        run.say(f"{world}, M = {size}, N/M = {ratio}")
        for method in METHODS:
            values = np.array([piece[method] for piece in got if method in piece])
            if not len(values):
                continue
            shown = MEASURES if method in (AUTO, REGULARISED, PHASE_TWO) else MEASURES[:1]
            for at, measure in enumerate(shown):
                row = Row(f"{world}, N/M = {ratio}", method, f"M = {size}", measure)
                rows.append(mean_row(row, values[:, at], values[:, 3]))
            add_line(columns, world, size, ratio, method, *map(float, values.mean(axis=0)), len(values))
    rows.sort(key=lambda row: MEASURES.index(row.measure))
    notes = [
        f"EM from a random start: up to {EM_MOST_PAIRS:,} pairs, {EM_PASSES} passes; seconds are wall-clock",
        "Δ is compared up to its sign; 'independence' has Δ = 0",
    ]
    return Outcome("ℓ₁ errors against N/M for growing M", rows, notes, Curves(dict(columns), draw_linear))


def _cell(world: World, size: int, ratio: int, seed: int) -> dict[str, list[float]]:
    made = pairs(size, ratio * size, world, random_state=seed)
    counts = read_counts(made.counts)
    out: dict[str, list[float]] = {}
    for method, fit in METHODS.items():
        if method.startswith("EM") and counts.n_pairs > EM_MOST_PAIRS:
            continue
        begin = time.perf_counter()
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            found = fit(counts, seed)
        seconds = time.perf_counter() - begin
        out[method] = [*errors(found, made), seconds]
    return out


def errors(found: Factored, world: PairWorld) -> tuple[float, float, float]:
    """ℓ₁ errors of B, of ρ, and of Δ up to its sign."""
    delta = found.separation[:, 0] if found.separation.shape[1] else np.zeros(len(found.marginal))
    apart = min(float(np.abs(delta - world.separation).sum()), float(np.abs(delta + world.separation).sum()))
    return matrix_error(found, world), float(np.abs(found.marginal - world.marginal).sum()), apart


def matrix_error(found: Factored, world: PairWorld) -> float:
    """Σ |B̂ − B|; above `ALL_ROWS` items over the heaviest rows and an even sample of the rest."""
    order = np.argsort(-world.marginal, kind="stable")
    if len(order) <= ALL_ROWS:
        return _rows_error(found, world, order)
    rest = order[HEAVY_ROWS:]
    some = rest[np.linspace(0, len(rest) - 1, SOME_ROWS).astype(np.intp)]
    return _rows_error(found, world, order[:HEAVY_ROWS]) + _rows_error(found, world, some) * len(rest) / len(some)


def _rows_error(found: Factored, world: PairWorld, at: NDArray[np.intp]) -> float:
    left, right, total = found.left, found.right, 0.0
    for begin in range(0, len(at), 100):
        part = at[begin : begin + 100]
        total += float(np.abs(np.maximum(left[part] @ right.T, 0.0) - world.rows(part)).sum())
    return total
