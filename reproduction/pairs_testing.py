"""Testing is as hard as learning: level and power of the structure test beside what no test can beat.

Theorem 5.1 of Huang, Kakade, Kong & Valiant 2018: a sequence of N symbols is either uniform over M symbols, or comes
from a 2-state hidden Markov model with transition probability 1/4 and emissions uniform over a random half of the
symbols each. Claim D.2 bounds the total variation of the two, and with it power minus level of any test. The structure
test sees the bigrams only. Beside it the same test on independent pairs of Example 1, with the power that random-matrix
theory predicts for it, and its level on independent pairs with even and with Zipf marginals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.counts import read_counts
from latentfit.pairs.diagnostics.rank_test import structure_power, structure_test
from latentfit.pairs.simulate import draw_pairs, pairs
from latentfit.pairs.theory import exact_total_variation_bound
from reproduction.draw import draw_testing
from reproduction.table import Curves, Outcome, Row, Run, add_line

SYMBOLS = 500
LEVEL = 0.05
RATIOS = (0.2, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0)
SEPARATIONS = (0.8, 0.5)
REPEATS, QUICK_REPEATS = 200, 10
TRANSITION = 0.25
CHAIN, UNIFORM = "2-state chain, t = 1/4", "uniform symbols"


def testing(run: Run) -> Outcome:
    """Theorems 1.6 and 5.1: share of rejections against N/M for every source, beside the bound."""
    repeats, ratios = run.times(REPEATS, QUICK_REPEATS), (0.5, 8.0) if run.quick else RATIOS
    rows: list[Row] = []
    columns: dict[str, Any] = {name: [] for name in ("source", "ratio", "rejected", "bound", "predicted")}

    def add(source: str, ratio: float, bound: float | None, predicted: float | None) -> None:
        values = run.piece(
            f"testing {source} {ratio} {repeats}",
            lambda: [_rejected(source, ratio, seed) for seed in run.seeds(REPEATS, QUICK_REPEATS)],
        )
        share = float(np.mean(values))
        told = [f"no test above {min(LEVEL + bound, 1):.2f}"] if bound is not None else []
        told += [f"predicted {predicted:.2f}"] if predicted is not None else []
        error = float(np.sqrt(share * (1 - share) / len(values)))
        rows.append(
            Row(source, "structure test, 5 %", f"N/M = {ratio:g}", "rejected", ours=share, spread=error,
                repeats=len(values), note="; ".join(told))
        )  # fmt: skip
        bound_shown = float("nan") if bound is None else min(LEVEL + bound, 1.0)
        add_line(columns, source, ratio, share, bound_shown, float("nan") if predicted is None else predicted)
        run.say(f"{source}, N/M = {ratio:g}: {share:.3f}")

    for ratio in ratios:
        add(CHAIN, ratio, exact_total_variation_bound(int(ratio * SYMBOLS), SYMBOLS), None)
        add(UNIFORM, ratio, None, None)
    for separation in SEPARATIONS:
        for ratio in ratios:
            many = int(ratio * SYMBOLS)
            power = structure_power(many, (SYMBOLS, SYMBOLS), separation**2, symmetric=True, level=LEVEL)
            add(f"Example 1, C = {separation}", ratio, None, power)
    for law in ("even", "Zipf"):
        for ratio in ratios:
            add(f"independent pairs, {law} marginals", ratio, None, None)
    notes = [
        f"M = {SYMBOLS}; ± is the standard error of the share; the bound is (46) of Claim D.2 summed exactly, + 5 %",
        "half of a chain's bigrams pass the threshold λ² N/M = 1, λ = 1/2, at N/M = 4",
    ]
    return Outcome("power of the structure test, and what no test can beat", rows, notes, Curves(columns, draw_testing))


def _rejected(source: str, ratio: float, seed: int) -> bool:
    rng, many = np.random.default_rng(seed), max(int(ratio * SYMBOLS), 4)
    if source in (CHAIN, UNIFORM):
        symbols = _symbols(source, many, rng)
        counts = read_counts(_bigrams(symbols))
    elif source.startswith("Example"):
        separation = float(source.split("=")[1])
        counts = read_counts(pairs(SYMBOLS, many, separation=separation, random_state=rng).counts)
    else:
        law = np.ones(SYMBOLS) if "even" in source else 1 / np.arange(1, SYMBOLS + 1)
        column = (law / law.sum())[:, None]
        counts = read_counts(draw_pairs(column, column, np.ones((1, 1)), many, rng))
    return bool(structure_test(counts, symmetric=True, most=2, seed=seed % 2**31).p_value <= LEVEL)


def _symbols(source: str, many: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if source == UNIFORM:
        return rng.integers(0, SYMBOLS, many)
    halves = rng.permutation(SYMBOLS).reshape(2, -1)
    state = (rng.integers(0, 2) + np.cumsum(rng.random(many) < TRANSITION)) % 2
    return np.asarray(halves[state, rng.integers(0, SYMBOLS // 2, many)], np.int64)


def _bigrams(symbols: NDArray[np.int64]) -> sp.coo_array:
    data = np.ones(len(symbols) - 1, np.int64)
    return sp.coo_array((data, (symbols[:-1], symbols[1:])), shape=(SYMBOLS, SYMBOLS))
