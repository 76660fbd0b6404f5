"""From a start to the fitted pair model: pseudo-counts by counts left out, then EM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from tacit.data.count_split import split_counts
from tacit.data.counts import Counts
from tacit.factor.vertices import PairModel
from tacit.refine.em import Refined, Step, em
from tacit.refine.pair_em import PairSteps, PairSums

CANDIDATES = (0.02, 0.1, 0.5)
"""Pseudo-counts a cause and item that are tried: .1 is best on most simulated models, .5 where columns have causes of
their own."""
LEFT_OUT_PARTS = 5
"""One part in so many of the counts is left out to choose by."""
SHORT = 15
"""Passes of each candidate."""


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
) -> tuple[Refined[PairModel, PairSums], float]:
    """EM from `start`, and the pseudo-counts a cause it used."""
    amount = smoothing if smoothing != "auto" else chosen_smoothing(counts, start, symmetric, threads, seed)
    steps = PairSteps(counts, symmetric=symmetric, smoothing=amount, threads=threads)
    begin = lifted(start, steps)
    return em(steps, begin, max_iter=max_iter, tol=tol, accelerate=True, callback=callback), amount


def chosen_smoothing(counts: Counts, start: PairModel, symmetric: bool, threads: int, seed: int) -> float:
    """The candidate under which counts left out are likeliest."""
    parts = split_counts(counts, LEFT_OUT_PARTS, seed)
    kept = Counts(counts.matrix - parts[0].matrix, counts.row_names, counts.column_names, counts.symmetric)
    scores = []
    for candidate in CANDIDATES:
        amount = candidate * max(counts.shape)
        steps = PairSteps(kept, symmetric=symmetric, smoothing=amount, threads=threads)
        found = em(steps, lifted(start, steps), max_iter=SHORT, tol=1e-6, accelerate=True)
        check = PairSteps(parts[0], symmetric=symmetric, threads=threads)
        scores.append(check.log_likelihood(check.expect(found.params)))
    return CANDIDATES[int(np.argmax(scores))] * max(counts.shape)


LIFTED = 0.05
"""Share of the marginal in every cause's start: EM cannot leave zero."""


def lifted(start: PairModel, steps: PairSteps) -> PairModel:
    """The start with no zeros where there are counts."""
    sides = []
    for part, prior_sums in zip((start.left, start.right), steps.marginals, strict=True):
        sides.append(np.ascontiguousarray((1 - LIFTED) * part + LIFTED * prior_sums[:, None]))
    mixing = start.mixing + LIFTED / start.mixing.size
    return PairModel(sides[0], sides[0] if start.symmetric else sides[1], mixing / mixing.sum())
