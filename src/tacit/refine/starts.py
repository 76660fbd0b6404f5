"""Several starts, one answer.

`race` climbs few starts, which may carry different priors, each to its end; `halve` many under the same one: everyone
gets a few passes, the better half some more, and so on, and the rest of the iterations is for the best alone.

Paper     Jamieson & Talwalkar 2016 (successive halving)
Needs     steps of one family; for `halve` one prior, else objectives say nothing about one another
Promises  the answer is the best of those that were climbed to the end; of equals the earlier start wins
Differs   rounds have passes of their own; those who stay go on from where they stopped

Symbols   P   parameters of a family     S   its sufficient statistics
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from tacit.refine.em import Begun, Refined, Step, Steps, em

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
    """The winner, and every entrant's log-likelihood per observed cell after its last run."""

    name: str
    steps: Steps[P, S]
    refined: Refined[P, S]
    scores: dict[str, float]


@dataclass(frozen=True)
class Stood(Generic[P, S]):
    """Where a race stands: who runs, how far along, and who has run already."""

    name: str
    begun: Begun[P]
    done: dict[str, Refined[P, S]]


def _hearing(
    keep: Callable[[Stood[P, S]], None], name: str, done: dict[str, Refined[P, S]]
) -> Callable[[Begun[P]], None]:
    return lambda at: keep(Stood(name, at, done))


def race(
    entrants: Sequence[Entrant[P, S]],
    *,
    max_iter: int,
    tol: float,
    margin: float = 0.0,
    callback: Callable[[Step], None] | None = None,
    stood: Stood[P, S] | None = None,
    keep: Callable[[Stood[P, S]], None] | None = None,
) -> Raced[P, S]:
    """Climb from every entrant; a later one wins only if it is better by `margin` per cell.

    Scores are log-likelihoods, not objectives: entrants may carry different priors. `keep` hears after every iteration
    where the race stands, and `stood`, such a place, goes on from there.
    """
    best, scores = entrants[0], {}
    done = {} if stood is None else dict(stood.done)
    for entrant in entrants:
        if entrant.name not in done:
            begun = stood.begun if stood is not None and stood.name == entrant.name else None
            hear = None if keep is None else _hearing(keep, entrant.name, dict(done))
            done[entrant.name] = em(
                entrant.steps, entrant.start, max_iter=max_iter, tol=tol, callback=callback, begun=begun, keep=hear
            )
        scores[entrant.name] = done[entrant.name].log_likelihood / max(entrant.steps.n_cells, 1)
        if scores[entrant.name] > scores[best.name] + margin:
            best = entrant
    return Raced(best.name, best.steps, done[best.name], scores)


def halve(
    entrants: Sequence[Entrant[P, S]],
    *,
    rounds: Sequence[int],
    max_iter: int,
    tol: float,
    accelerate: bool = False,
    callback: Callable[[Step], None] | None = None,
    keep: Callable[[str, Begun[P]], None] | None = None,
) -> Raced[P, S]:
    """After each round of so many passes the better half by objective stays; the last best goes on alone.

    Entrants must share a prior, else their objectives say nothing about one another. Of equals the earlier stays.
    `keep` hears where the last one stands, once it climbs alone.
    """
    field = [
        (one, em(one.steps, one.start, max_iter=min(rounds[0], max_iter), tol=tol, accelerate=accelerate))
        for one in entrants
    ]
    scores = {one.name: found.log_likelihood / max(one.steps.n_cells, 1) for one, found in field}
    passes = rounds[0]
    for more in rounds[1:]:
        passes += more
        field = sorted(field, key=lambda pair: -pair[1].objective)[: (len(field) + 1) // 2]
        limit = min(passes, max_iter)
        field = [(one, go_on(one.steps, found, limit, tol=tol, accelerate=accelerate)) for one, found in field]
        scores.update({one.name: found.log_likelihood / max(one.steps.n_cells, 1) for one, found in field})
    best, refined = min(field, key=lambda pair: -pair[1].objective)
    hear = None if keep is None else partial(keep, best.name)
    refined = go_on(best.steps, refined, max_iter, tol=tol, accelerate=accelerate, callback=callback, keep=hear)
    return Raced(best.name, best.steps, refined, scores)


def go_on(
    steps: Steps[P, S],
    refined: Refined[P, S],
    max_iter: int,
    *,
    tol: float,
    accelerate: bool = False,
    callback: Callable[[Step], None] | None = None,
    keep: Callable[[Begun[P]], None] | None = None,
) -> Refined[P, S]:
    """Climb on from where a climb stopped, up to `max_iter` passes in all; nothing to do when it had converged."""
    left = max_iter - refined.n_iter
    if refined.converged or left <= 0:
        return refined

    def hear(at: Begun[P]) -> None:
        assert keep is not None
        keep(Begun(at.params, refined.n_iter + at.n_iter, refined.path + at.path[1:]))

    more = em(
        steps, refined.params, max_iter=left, tol=tol, accelerate=accelerate, callback=callback, known=refined.sums,
        keep=None if keep is None else hear,
    )  # fmt: skip
    return replace(more, n_iter=refined.n_iter + more.n_iter, path=refined.path + more.path[1:])
