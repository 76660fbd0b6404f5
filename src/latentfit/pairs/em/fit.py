"""From a start to the fitted pair model: pseudo-counts by counts left out, EM, and marginals by empirical Bayes.

Every item gets `smoothing` pseudo-counts, spread over causes like the causes' weights: what draws a rare item to the
middle hardly moves a frequent one. They would flatten the marginals too, so these are put back afterwards as their own
posterior means (`refine.mixing.poisson_rates`): an item's causes come from EM, its frequency from its count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from latentfit.core.counts.counts import Counts
from latentfit.core.em import Refined, Step, em
from latentfit.core.pair_em import PairSteps, PairSums
from latentfit.core.vertices import PairModel
from latentfit.pairs.data import split_counts
from latentfit.pairs.em.mixing import poisson_rates

CANDIDATES = (0.5, 2.0, 5.0, 10.0, 20.0)
"""Pseudo-counts an item that are tried: .5 to 2 where every cause has items of its own, 5 to 20 for words in text."""
LEFT_OUT_PARTS = 5
"""One part in so many of the counts is left out to choose by."""
SHORT, ROUGH = 20, 1e-4
"""Passes and tolerance of each candidate."""
LIFTED = 0.05
"""Share of the marginal in every cause's start: EM cannot leave zero."""


def fit_pair_model(
    counts: Counts,
    start: PairModel,
    *,
    symmetric: bool,
    smoothing: float | Literal["auto"],
    max_iter: int,
    tol: float,
    threads: int = 1,
    seed: int = 0,
    callback: Callable[[Step], None] | None = None,
) -> tuple[PairModel, Refined[PairModel, PairSums]]:
    """The fitted model, and the climb that led there."""
    amount = smoothing if smoothing != "auto" else chosen_smoothing(counts, start, symmetric, threads, seed)
    steps = _steps(counts, start, symmetric, amount, threads)
    found = em(steps, lifted(start, steps), max_iter=max_iter, tol=tol, accelerate=True, callback=callback)
    return with_marginals(found.params, counts), found


def chosen_smoothing(counts: Counts, start: PairModel, symmetric: bool, threads: int, seed: int) -> float:
    """The candidate under which counts left out are likeliest."""
    parts = split_counts(counts, LEFT_OUT_PARTS, seed)
    rest = Counts(counts.matrix - parts[0].matrix, counts.row_names, counts.column_names, counts.symmetric)
    check = PairSteps(parts[0], symmetric=symmetric, threads=threads)
    scores = []
    for candidate in CANDIDATES:
        steps = _steps(rest, start, symmetric, candidate * (1 - 1 / LEFT_OUT_PARTS), threads)
        found = em(steps, lifted(start, steps), max_iter=SHORT, tol=ROUGH, accelerate=True)
        scores.append(check.log_likelihood(check.expect(with_marginals(found.params, rest))))
    return CANDIDATES[int(np.argmax(scores))]


def with_marginals(model: PairModel, counts: Counts) -> PairModel:
    """The same causes of every item under marginals by empirical Bayes; an item without counts has the mean causes."""
    seen = [counts.row_sums, counts.column_sums]
    if model.symmetric:
        seen = [seen[0] if counts.symmetric else seen[0] + seen[1]]
    weights = [model.mixing.sum(axis=1), model.mixing.sum(axis=0)]
    sides = []
    for part, weight, sums in zip((model.left, model.right), weights, seen, strict=False):
        rates, joint = poisson_rates(sums), part * weight
        total = joint.sum(axis=1, keepdims=True)
        causes = np.where(total > 0, joint / np.where(total > 0, total, 1.0), weight)
        placed = rates[:, None] * causes
        sides.append(np.ascontiguousarray(placed / placed.sum(axis=0)))
    return PairModel(sides[0], sides[-1], model.mixing)


def lifted(start: PairModel, steps: PairSteps) -> PairModel:
    """The start with no zeros where there are counts."""
    sides = [
        np.ascontiguousarray((1 - LIFTED) * part + LIFTED * marginal[:, None])
        for part, marginal in zip((start.left, start.right), steps.marginals, strict=True)
    ]
    mixing = start.mixing + LIFTED / start.mixing.size
    return PairModel(sides[0], sides[0] if start.symmetric else sides[1], mixing / mixing.sum())


def _steps(counts: Counts, start: PairModel, symmetric: bool, amount: float, threads: int) -> PairSteps:
    weights = np.array([start.mixing.sum(axis=1), start.mixing.sum(axis=0)])
    return PairSteps(counts, symmetric=symmetric, smoothing=amount, weights=weights, threads=threads)
