"""How many parts? The number that predicts cells left out best.

Cells are split into `FOLDS` folds; each is left out in turn, profiles and fractions are fitted to the rest, and the
left-out cells are predicted. One part more always explains the cells it sees better, but the ones it does not see only
if it exists. Of numbers whose errors differ by less than one standard error of the difference (over the folds' cells
of a sample) the smallest is taken. Samples with few features and features with few cells stay what they are: missing
cells are what the fit skips anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.progress import candidate_numbers
from latentfit.fractions.em import LEAST_VARIANCE, FractionSteps, fit_parts, initial_profiles
from latentfit.fractions.init import UnitValues

FOLDS = 5
MOST_FEATURES = 4_000
"""Features the choice looks at, those that vary most: the number shows in them, and a fit of the rest would wait."""
MOST_PARTS = 12
SHORT, ROUGH = 60, 1e-5
"""Iterations and tolerance of a fit: fits are compared, not kept, so they stop early."""
N_INIT = 2


@dataclass(frozen=True)
class PartsPath:
    """Mean squared error of left-out cells for 1, 2, … parts, and the number chosen."""

    errors: list[float]
    chosen: int


def choose_parts(data: UnitValues, most: int, rng: np.random.Generator) -> PartsPath:
    """The number of parts, from 1 to `most`; the search ends after two numbers that were no better."""
    data = _most_varying(data, MOST_FEATURES)
    observed = np.ones(data.values.shape, bool) if data.observed is None else data.observed
    fold = rng.integers(FOLDS, size=observed.shape)
    seeds = rng.integers(2**32, size=MOST_PARTS + 1)
    losses: list[Floats] = []  # per number of parts: squared error of each sample's left-out cells
    cells = int(observed.sum())
    best = 0
    for number in candidate_numbers(range(1, most + 1), "parts"):
        losses.append(_left_out(data, observed, fold, number, int(seeds[min(number, MOST_PARTS)])))
        if _better(losses[-1], losses[best], LEAST_VARIANCE * cells):
            best = len(losses) - 1
        elif len(losses) - 1 >= best + 2:
            break
    return PartsPath([float(loss.sum() / cells) for loss in losses], best + 1)


def predicts_better(data: UnitValues, number: int, rng: np.random.Generator) -> float:
    """By how many standard errors `number` parts predict a fifth of the cells better than one part fewer."""
    data = _most_varying(data, MOST_FEATURES)
    observed = np.ones(data.values.shape, bool) if data.observed is None else data.observed
    fold = rng.integers(FOLDS, size=observed.shape)
    fewer, these = (
        _left_out(data, observed, fold, one, int(rng.integers(2**32)), n_folds=1) for one in (number - 1, number)
    )
    gain = fewer - these
    if abs(gain.sum()) <= LEAST_VARIANCE * int(observed.sum()):  # rounding
        return 0.0
    error = float(gain.std(ddof=1)) * np.sqrt(len(gain)) if len(gain) > 1 else 0.0
    return float(gain.sum() / max(error, 1e-300))


def _better(loss: Floats, than: Floats, rounding: float) -> bool:
    """Lower in total by more than one standard error of the samples' differences, and than rounding."""
    gain = than - loss
    error = float(gain.std(ddof=1)) * np.sqrt(len(gain)) if len(gain) > 1 else 0.0
    return bool(gain.sum() > max(error, rounding))


def _left_out(
    data: UnitValues, observed: NDArray[np.bool_], fold: NDArray[np.int64], number: int, seed: int, n_folds: int = FOLDS
) -> Floats:
    """Squared error (n,) of the left-out cells of the first `n_folds` folds."""
    loss = np.zeros(len(data.values))
    for one in range(n_folds):
        held = observed & (fold == one)
        seen = observed & ~held
        steps = FractionSteps.of(UnitValues(np.where(seen, data.values, 0.0), seen))
        initialisations = list(initial_profiles(steps, number, N_INIT, np.random.default_rng([seed, one])))
        fitted = fit_parts(steps, initialisations, max_iter=SHORT, tol=ROUGH).refined.sums
        left = np.where(held, data.values - fitted.fractions @ fitted.profiles, 0.0)
        loss += (left**2).sum(axis=1)
    return loss


def _most_varying(data: UnitValues, most: int) -> UnitValues:
    if data.values.shape[1] <= most:
        return data
    spread = data.filled().var(axis=0)
    varying = np.sort(np.argsort(-spread, kind="stable")[:most])
    observed = None if data.observed is None else np.ascontiguousarray(data.observed[:, varying])
    return UnitValues(np.ascontiguousarray(data.values[:, varying]), observed)
