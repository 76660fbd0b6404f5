"""Corollaries 1.5 and 1.7: two-state hidden Markov models from a number of observations linear in the symbols.

Chains of the kind of Theorem 1.6 (transition 1/4, two halves of the alphabet), but with p and q = (1 ± `CONTRAST`) ρ on
the halves, so that they overlap; ρ is even, or Zipf's. Errors against N/M for growing M: linear sample size means that
curves of different M coincide. Huang, Kakade, Kong & Valiant 2018 prove the corollaries and show no figure of them.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from latentfit.core.assign import match_classes
from latentfit.hmm.em.fit import fit_chain
from latentfit.hmm.em.steps import Chain, entropy_rate
from latentfit.hmm.estimator import CategoricalHMM
from latentfit.hmm.init import two_state_chain
from latentfit.simulate import draw_sequences
from reproduction.draw import draw_against
from reproduction.table import Curves, Outcome, Row, Run, add_line, mean_row

CONTRAST = 0.9
SIZES, PER_SYMBOL = (500, 2_000, 10_000, 50_000), (5, 10, 20, 50, 100)
QUICK_SIZES, QUICK_PER_SYMBOL = (200, 800), (10, 40)
REPEATS = 3
TRIGRAMS = 5_000
"""Trigrams of the row that may use only a few: a number that does not grow with the symbols."""
MOST_CLIMBED = 250_000
"""Observations up to which Baum–Welch is run beside the moments."""
COROLLARY = "Corollary 1.5, all trigrams"
FEW = f"Corollary 1.5, {TRIGRAMS:,} trigrams"
OURS, RANDOM = "CategoricalHMM", "Baum–Welch from one random start"
EMISSIONS, TRANSITIONS, ENTROPY = "mean ℓ1 error of p and q", "largest error of T and π", "error of the entropy rate"


def two_states(kind: str, M: int, rng: np.random.Generator) -> Chain:
    """Symmetric transitions 1/4; p and q differ by the sign of a random half of the symbols."""
    rho = np.ones(M) if kind == "even" else 1.0 / (np.arange(M) + 10.0)
    side = np.where(rng.permutation(M) < M // 2, 1.0, -1.0)
    emissions = np.stack([rho * (1 + CONTRAST * side), rho * (1 - CONTRAST * side)])
    emissions /= emissions.sum(axis=1, keepdims=True)
    return Chain(np.full(2, 0.5), np.array([[0.75, 0.25], [0.25, 0.75]]), emissions)


def hmm(run: Run) -> Outcome:
    """Corollary 1.5: errors of parameters, and of the entropy rate of Corollary 1.7, against N/M."""
    sizes, per_symbol = (QUICK_SIZES, QUICK_PER_SYMBOL) if run.quick else (SIZES, PER_SYMBOL)
    rows: list[Row] = []
    columns: dict[str, list[object]] = {name: [] for name in ("N/M", "method", "error")}
    for kind in ("even", "zipf"):
        for M in sizes:
            for ratio in per_symbol:
                run.say(f"{kind}, M = {M:,}, N/M = {ratio}")
                each = [
                    run.piece(f"hmm {kind} {M} {ratio} {seed}", partial(judge, kind, M, ratio, seed))
                    for seed in run.seeds(REPEATS)
                ]
                rows += _rows(kind, M, ratio, each)
                for method in (COROLLARY, OURS):
                    errors = [one[method][EMISSIONS] for one in each if method in one]
                    if errors:
                        add_line(columns, ratio, f"{kind}, M = {M:,}, {method}", float(np.mean(errors)))
    notes = [
        f"T = 3/4, 1/4; p, q = (1 ± {CONTRAST}) ρ on random halves; errors after the best matching of states",
        f"Baum–Welch is run up to {MOST_CLIMBED:,} observations",
        "an entropy rate is of the learned model, beside that of the true one, both by simulation (± about .003)",
    ]
    title = "Corollaries 1.5 and 1.7: two-state chains against N/M"
    return Outcome(title, rows, notes, Curves(dict(columns), draw_against))


def judge(kind: str, M: int, ratio: int, seed: int) -> dict[str, dict[str, float]]:
    """Errors and seconds of every method on one drawn chain."""
    rng = np.random.default_rng(seed)
    truth = two_states(kind, M, rng)
    data = draw_sequences(truth, M * ratio, 1, rng).sequences
    some = np.sort(rng.choice(data.n_steps - 2, min(TRIGRAMS, data.n_steps - 2), replace=False))
    exact = entropy_rate(truth, np.random.default_rng(0), n_chains=1000).rate
    methods: dict[str, Any] = {
        COROLLARY: lambda: two_state_chain(data),
        FEW: lambda: two_state_chain(data, trigrams=some),
    }
    if data.n_steps <= MOST_CLIMBED:
        methods[OURS] = lambda: CategoricalHMM(2).fit(data).chain_
        methods[RANDOM] = lambda: (
            fit_chain(data, 2, init="random", n_init=1, smoothing=1.0, max_iter=200, seed=seed).refined.params
        )
    found = {}
    for name, make in methods.items():
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chain = make()
        seconds = time.perf_counter() - begin
        if chain is not None:
            found[name] = errors(truth, chain, exact) | {"seconds": seconds}
    return found


def errors(truth: Chain, chain: Chain, exact: float) -> dict[str, float]:
    """Distances to the truth after the best matching of states."""
    apart = np.abs(truth.emissions[:, None] - chain.emissions[None]).sum(axis=2)
    order = match_classes(-apart)
    matched = chain.permuted(order)
    moves = np.abs(matched.transitions - truth.transitions).max()
    proportions = np.abs(matched.stationary() - truth.stationary()).max()
    rate = entropy_rate(chain, np.random.default_rng(0), n_chains=1000).rate
    return {
        EMISSIONS: float(apart[[0, 1], order].mean()),
        TRANSITIONS: float(max(moves, proportions)),
        ENTROPY: abs(rate - exact),
    }


def _rows(kind: str, M: int, ratio: int, each: list[dict[str, dict[str, float]]]) -> list[Row]:
    rows = []
    for measure in (EMISSIONS, TRANSITIONS, ENTROPY):
        for method in (COROLLARY, FEW, OURS, RANDOM):
            held = [one[method] for one in each if method in one]
            row = Row(f"{kind} ρ, N/M = {ratio}", method, f"M = {M:,}", measure=measure)
            if held:
                rows.append(mean_row(row, (one[measure] for one in held), (one["seconds"] for one in held)))
            else:
                rows.append(replace(row, note="not run: too many observations" if method in (OURS, RANDOM) else ""))
    return rows
