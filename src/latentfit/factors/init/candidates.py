"""Which candidates are the switches, when noise blurs their scores: several picks, judged by likelihood.

Scores of true and false candidates overlap when the two bumps of a switch do, and a true vector that is badly estimated
scores badly. Picks with jittered scores climb on a sample of rows by successive halving; the best by likelihood is the
start.
"""

from __future__ import annotations

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.multistart import Candidate, halve
from latentfit.core.tensor.binary import KS_NULL, choose, choose_all, weights_of
from latentfit.core.tensor.init import SpectralStart
from latentfit.engine.passes import RowPasses
from latentfit.factors.em.steps import (
    HIGH_NOISE,
    SPLIT_STATES,
    SwitchParams,
    first_params,
    plane_steps,
    way_to_sum,
)

PICKS = 24
"""Sets of candidates that race, the greedy one among them."""
SWAPS = 12
"""Sets that differ from the greedy one in its worst member only."""
SHORT_LIST = 16
"""Candidates per switch that picks are made of."""
JITTER = 0.5
"""Spread of the logarithm of a jittered score."""
DOUBTFUL = 1.25
"""A chosen score this many times its null level (1 % of true switches exceed it) is doubtful."""
RACE_ROWS = 5_000
RACE_ROUNDS = (4, 4, 6, 8, 10)
"""Passes of everyone, of the better half, of the better quarter, …"""


def start_params(start: SpectralStart) -> SwitchParams:
    """The greedy pick as parameters."""
    return first_params(start.W, start.share, start.sigma2)


def raced_params(
    X: RowPasses, start: SpectralStart, rng: np.random.Generator, noise: float | None = None
) -> tuple[SwitchParams, str | None]:
    """Where EM starts, and what to say about it: the greedy pick, or the best of several when noise is high."""
    greedy = start_params(start)
    high = float(np.median(greedy.spread)) > HIGH_NOISE or doubtful(start)
    if not high or start.noise_free or start.exclusive or greedy.d > SPLIT_STATES:
        return greedy, None
    picks = jittered_picks(start, rng)
    if len(picks) < 2:
        return greedy, None
    rows, _ = X.sample(RACE_ROWS)
    basis = start.whitening.basis
    entrants = []
    for number, y in enumerate(picks):
        params = first_params(weights_of(y, start.whitening) @ basis, (y**2).sum(axis=1), start.sigma2)
        entrants.append(Candidate(str(number), plane_steps(rows, basis, way_to_sum(params), noise), params))
    raced = halve(entrants, rounds=RACE_ROUNDS, max_iter=sum(RACE_ROUNDS), tol=0.0, accelerate=True)
    found: SwitchParams = raced.refined.params
    words = "the greedy one" if raced.name == "0" else "another than the greedy one"
    note = f"scores overlap: {len(picks)} sets of candidates climbed on {len(rows):,} rows, {words} was likeliest"
    return SwitchParams(found.W @ basis.T, found.log_prior, found.sigma2), note


def doubtful(start: SpectralStart) -> bool:
    """Whether a chosen candidate's Kolmogorov–Smirnov score is no true switch's."""
    found = start.candidates
    worst = float(found.scores[found.chosen].max(initial=0.0))
    return found.filter == "ks" and worst * np.sqrt(found.n_scored) > DOUBTFUL * KS_NULL


def jittered_picks(start: SpectralStart, rng: np.random.Generator) -> list[Floats]:
    """Distinct independent sets of candidates (d, d) each, the greedy one first."""
    found, d = start.candidates, start.whitening.d
    if len(found.chosen) < d:
        return []
    short = min(len(found.scores), SHORT_LIST * d)
    logs = np.log(np.maximum(found.scores[:short], 1e-300))
    kept = found.chosen[np.argsort(found.scores[found.chosen], kind="stable")][:-1]
    others = np.setdiff1d(np.arange(short), found.chosen)
    orders = [np.append(kept, other) for other in others]  # the worst one for the next best, one after another
    orders = [order for order in orders if len(choose(found.pairs.y, order)) == d][:SWAPS]
    jitter = JITTER * rng.standard_normal((PICKS, short))
    orders += [np.argsort(logs + noise, kind="stable") for noise in jitter]
    picks = {tuple(sorted(found.chosen.tolist())): found.chosen}
    for order in orders:
        pick = choose_all(found.pairs.y, order)
        if len(pick) == d and len(picks) < PICKS:
            picks.setdefault(tuple(sorted(pick.tolist())), pick)
    return [found.pairs.y[pick] for pick in picks.values()]
