"""Which candidates are the switches, when noise blurs their scores: several picks, judged by likelihood.

Scores of true and false candidates overlap when the two bumps of a switch do, and a true vector that is badly estimated
scores badly. Picks with jittered scores are refined by EM on a sample of rows with successive halving; the pick with
the highest likelihood becomes the initialisation.
"""

from __future__ import annotations

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.multistart import Candidate, successive_halving
from latentfit.core.tensor.binary import KS_NULL, choose, choose_all, weights_of
from latentfit.core.tensor.init import SpectralInit
from latentfit.engine.passes import RowPasses
from latentfit.factors.em.steps import (
    HIGH_NOISE,
    SPLIT_STATES,
    SwitchParams,
    initial_params,
    plane_steps,
    way_to_sum,
)

PICKS = 24
"""Sets of candidates compared in multi-start selection, the greedy one among them."""
SWAPS = 12
"""Sets that differ from the greedy one in its worst member only."""
SHORT_LIST = 16
"""Candidates per switch that picks are made of."""
JITTER = 0.5
"""Spread of the logarithm of a jittered score."""
AMBIGUOUS = 1.25
"""A chosen score this many times its null level (1 % of true switches exceed it) is ambiguous."""
SELECTION_ROWS = 5_000
HALVING_ROUNDS = (4, 4, 6, 8, 10)
"""EM iterations of all sets, of the better half, of the better quarter, …"""


def greedy_params(init: SpectralInit) -> SwitchParams:
    """The greedy pick as parameters."""
    return initial_params(init.W, init.probability, init.sigma2)


def selected_params(
    X: RowPasses, init: SpectralInit, rng: np.random.Generator, noise: float | None = None
) -> tuple[SwitchParams, str | None]:
    """Initial parameters of EM and a note: the greedy pick, or the best of several when noise is high."""
    greedy = greedy_params(init)
    high = float(np.median(greedy.spread)) > HIGH_NOISE or ambiguous(init)
    if not high or init.noise_free or init.exclusive or greedy.d > SPLIT_STATES:
        return greedy, None
    picks = jittered_picks(init, rng)
    if len(picks) < 2:
        return greedy, None
    rows, _ = X.sample(SELECTION_ROWS)
    basis = init.whitening.basis
    candidates = []
    for position, y in enumerate(picks):
        params = initial_params(weights_of(y, init.whitening) @ basis, (y**2).sum(axis=1), init.sigma2)
        candidates.append(Candidate(str(position), plane_steps(rows, basis, way_to_sum(params), noise), params))
    selected = successive_halving(
        candidates, rounds=HALVING_ROUNDS, max_iter=sum(HALVING_ROUNDS), tol=0.0, accelerate=True
    )
    params = selected.refined.params
    winner = "the greedy one" if selected.name == "0" else "another than the greedy one"
    note = (
        f"scores overlap: {len(picks)} sets of candidates were compared on {len(rows):,} rows, {winner} was likeliest"
    )
    return SwitchParams(params.W @ basis.T, params.log_prior, params.sigma2), note


def ambiguous(init: SpectralInit) -> bool:
    """Whether a chosen candidate's Kolmogorov–Smirnov score is no true switch's."""
    search = init.candidates
    worst = float(search.scores[search.chosen].max(initial=0.0))
    return search.filter == "ks" and worst * np.sqrt(search.n_scored) > AMBIGUOUS * KS_NULL


def jittered_picks(init: SpectralInit, rng: np.random.Generator) -> list[Floats]:
    """Distinct independent sets of candidates (d, d) each, the greedy one first."""
    search, d = init.candidates, init.whitening.d
    if len(search.chosen) < d:
        return []
    short = min(len(search.scores), SHORT_LIST * d)
    logs = np.log(np.maximum(search.scores[:short], 1e-300))
    others_chosen = search.chosen[np.argsort(search.scores[search.chosen], kind="stable")][:-1]
    others = np.setdiff1d(np.arange(short), search.chosen)
    orders = [np.append(others_chosen, other) for other in others]  # the worst one for the next best, one after another
    orders = [order for order in orders if len(choose(search.pairs.y, order)) == d][:SWAPS]
    jitter = JITTER * rng.standard_normal((PICKS, short))
    orders += [np.argsort(logs + noise, kind="stable") for noise in jitter]
    picks = {tuple(sorted(search.chosen.tolist())): search.chosen}
    for order in orders:
        pick = choose_all(search.pairs.y, order)
        if len(pick) == d and len(picks) < PICKS:
            picks.setdefault(tuple(sorted(pick.tolist())), pick)
    return [search.pairs.y[pick] for pick in picks.values()]
