"""Several starts, one answer: short runs, the best kept, the rest of the iterations for it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tacit.refine.em import Refined, Step, Steps, em

P = TypeVar("P")
S = TypeVar("S")


@dataclass(frozen=True)
class Entrant(Generic[P, S]):
    """A named start and the steps it climbs by."""

    name: str
    steps: Steps[P, S]
    start: P


@dataclass(frozen=True)
class Raced(Generic[P, S]):
    """The winner, and every entrant's log-likelihood per observed cell after its short run."""

    name: str
    steps: Steps[P, S]
    refined: Refined[P, S]
    scores: dict[str, float]


def race(
    entrants: Sequence[Entrant[P, S]],
    *,
    short_iter: int,
    max_iter: int,
    tol: float,
    margin: float = 0.0,
    accelerate: bool = False,
    callback: Callable[[Step], None] | None = None,
) -> Raced[P, S]:
    """Run every entrant `short_iter` iterations; a later one wins only if it is better by `margin` per cell.

    Scores are log-likelihoods, not objectives: entrants may carry different priors.
    """
    best, refined, scores = entrants[0], None, {}
    for entrant in entrants:
        limit = min(short_iter, max_iter)
        tried = em(entrant.steps, entrant.start, max_iter=limit, tol=tol, accelerate=accelerate, callback=callback)
        scores[entrant.name] = tried.log_likelihood / max(entrant.steps.n_cells, 1)
        if refined is None or scores[entrant.name] > scores[best.name] + margin:
            best, refined = entrant, tried
    assert refined is not None
    left = max_iter - refined.n_iter
    if not refined.converged and left > 0:
        more = em(best.steps, refined.params, max_iter=left, tol=tol, accelerate=accelerate, callback=callback)
        path = refined.path + more.path[1:]
        n_iter = refined.n_iter + more.n_iter
        refined = Refined(more.params, more.sums, more.objective, more.log_likelihood, n_iter, more.converged, path)
    return Raced(best.name, best.steps, refined, scores)
