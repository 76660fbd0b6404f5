"""Several starts, one answer.

`race` climbs few starts, which may carry different priors, each to its end; `halve` many under the same one: everyone
gets a few passes, the better half some more, and so on, and the rest of the iterations is for the best alone.
`multistart` is patient: several initialisations go on until they have converged, so that it can be said how many of
them reached the best objective (Mplus reports the same: the best log-likelihood is replicated, or it is not).

Paper     Jamieson & Talwalkar 2016 (successive halving)
Needs     steps of one family; for `halve` one prior, else objectives say nothing about one another
Promises  the answer is the best of those that were climbed to the end; of equals the earlier start wins
Differs   rounds have passes of their own; those who stay go on from where they stopped

Symbols   P   parameters of a family     S   its sufficient statistics
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from latentfit.core.em import EMResult, SolverState, Step, Steps, em

P = TypeVar("P")
S = TypeVar("S")

PASSES = (16, 32, 64)
"""Passes in all after which a `multistart` looks who goes on."""
FINAL = 4
"""Initialisations that go on however few there are."""
CONFIRMING = 30
"""Passes kept for EM to confirm what `finish` found."""
REACH = 4.0
"""How many times its last gain a run may lie behind the leader and still go on."""
REACHED = 0.01
"""Nats from the best objective within which another run is said to have reached it."""


@dataclass(frozen=True)
class Candidate(Generic[P, S]):
    """A named start and the steps it climbs by."""

    name: str
    steps: Steps[P, S]
    start: P


@dataclass(frozen=True)
class Raced(Generic[P, S]):
    """The winner, and every candidate's log-likelihood per observed cell after its last run."""

    name: str
    steps: Steps[P, S]
    refined: EMResult[P, S]
    scores: dict[str, float]


@dataclass(frozen=True)
class Stood(Generic[P, S]):
    """Where a race stands: who runs, how far along, and who has run already."""

    name: str
    resume_from: SolverState[P]
    done: dict[str, EMResult[P, S]]


def _hearing(
    keep: Callable[[Stood[P, S]], None], name: str, done: dict[str, EMResult[P, S]]
) -> Callable[[SolverState[P]], None]:
    return lambda at: keep(Stood(name, at, done))


def race(
    candidates: Sequence[Candidate[P, S]],
    *,
    max_iter: int,
    tol: float,
    margin: float = 0.0,
    callback: Callable[[Step], None] | None = None,
    stood: Stood[P, S] | None = None,
    keep: Callable[[Stood[P, S]], None] | None = None,
) -> Raced[P, S]:
    """FitHistory from every candidate; a later one wins only if it is better by `margin` per cell.

    Scores are log-likelihoods, not objectives: candidates may carry different priors. `keep` hears after every
    iteration where the race stands, and `stood`, such a place, goes on from there.
    """
    best, scores = candidates[0], {}
    done = {} if stood is None else dict(stood.done)
    for candidate in candidates:
        if candidate.name not in done:
            resume_from = stood.resume_from if stood is not None and stood.name == candidate.name else None
            hear = None if keep is None else _hearing(keep, candidate.name, dict(done))
            done[candidate.name] = em(
                candidate.steps,
                candidate.start,
                max_iter=max_iter,
                tol=tol,
                callback=callback,
                resume_from=resume_from,
                keep=hear,
            )
        scores[candidate.name] = done[candidate.name].log_likelihood / max(candidate.steps.n_cells, 1)
        if scores[candidate.name] > scores[best.name] + margin:
            best = candidate
    return Raced(best.name, best.steps, done[best.name], scores)


def halve(
    candidates: Sequence[Candidate[P, S]],
    *,
    rounds: Sequence[int],
    max_iter: int,
    tol: float,
    accelerate: bool = False,
    callback: Callable[[Step], None] | None = None,
    keep: Callable[[str, SolverState[P]], None] | None = None,
) -> Raced[P, S]:
    """After each round of so many passes the better half by objective stays; the last best goes on alone.

    Entrants must share a prior, else their objectives say nothing about one another. Of equals the earlier stays.
    `keep` hears where the last one stands, once it climbs alone.
    """
    field = [
        (one, em(one.steps, one.start, max_iter=min(rounds[0], max_iter), tol=tol, accelerate=accelerate))
        for one in candidates
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


@dataclass(frozen=True)
class Replication:
    """How many initialisations reached the best objective.

    `objectives` are those of all, best first, each where it ended: `n_final` were run to their end, the others dropped
    on the way, being behind. `n_reached` ended within `REACHED` nats of the best.
    """

    objectives: list[float]
    n_final: int
    n_reached: int

    @property
    def n_init(self) -> int:
        return len(self.objectives)

    @property
    def alone(self) -> bool:
        """Whether others were run to their end too, and all of them ended elsewhere."""
        return self.n_reached == 1 and self.n_final > 1

    def sentence(self) -> str:
        runs, starts = "run" if self.n_final == 1 else "runs", "" if self.n_init == 1 else "s"
        return (
            f"the best log-likelihood was reached by {self.n_reached} of {self.n_final} EM {runs} carried to the end, "
            f"from {self.n_init} initialisation{starts}"
        )


@dataclass(frozen=True)
class MultiStart(Generic[P, S]):
    """The best EM run, and how many initialisations reached the same objective."""

    name: str
    refined: EMResult[P, S]
    replication: Replication


def multistart(
    candidates: Sequence[Candidate[P, S]],
    *,
    max_iter: int,
    tol: float,
    tail_gain: float,
    finish: Callable[[EMResult[P, S], int], EMResult[P, S]],
    callback: Callable[[Step], None] | None = None,
) -> MultiStart[P, S]:
    """Successive halving that stops early: a part of the initialisations runs until it has converged.

    Everyone gets the first of `PASSES`; then the better half by objective goes on, and of those the better half again,
    but only runs within reach of the leader: one whose last round, half of all its passes, gained g will hardly gain
    more than `REACH` · g later. A half is never fewer than `FINAL`, and runs that have converged cost nothing and stay.
    Whoever is left is taken to its optimum by `finish(refined, max_iter)`, and EM confirms that it has converged. Of
    equals the earlier initialisation wins.
    """
    climb: dict[str, Any] = {"tol": tol, "tail_gain": tail_gain, "accelerate": True}
    field = [(one, em(one.steps, one.start, max_iter=min(PASSES[0], max_iter), **climb)) for one in candidates]
    before = {one.name: -math.inf for one in candidates}
    dropped: list[float] = []
    for passes in PASSES[1:]:
        field.sort(key=lambda pair: -pair[1].objective)
        leader, most = field[0][1].objective, max(FINAL, (len(field) + 1) // 2)
        staying = []
        for at, (one, found) in enumerate(field):
            reachable = leader - found.objective <= REACH * (found.objective - before[one.name])
            if found.converged or (at < most and reachable):
                staying.append((one, found))
            else:
                dropped.append(found.objective)
        before = {one.name: found.objective for one, found in staying}
        field = [(one, go_on(one.steps, found, min(passes, max_iter), **climb)) for one, found in staying]
    ended = []
    for one, found in field:
        if not found.converged and found.n_iter < max_iter:
            found = finish(found, max_iter - CONFIRMING)
            found = go_on(one.steps, found, max_iter, callback=callback, **climb)
        ended.append((one, found))
    best, refined = min(ended, key=lambda pair: -pair[1].objective)
    replication = Replication(
        sorted([found.objective for _, found in ended] + dropped, reverse=True),
        n_final=len(ended),
        n_reached=sum(found.objective >= refined.objective - REACHED for _, found in ended),
    )
    return MultiStart(best.name, refined, replication)


def go_on(
    steps: Steps[P, S],
    refined: EMResult[P, S],
    max_iter: int,
    *,
    tol: float,
    tail_gain: float | None = None,
    accelerate: bool = False,
    callback: Callable[[Step], None] | None = None,
    keep: Callable[[SolverState[P]], None] | None = None,
) -> EMResult[P, S]:
    """FitHistory on from where a climb stopped, up to `max_iter` passes in all; nothing to do when it had converged."""
    if refined.converged or refined.n_iter >= max_iter:
        return refined
    return em(
        steps, refined.params, max_iter=max_iter, tol=tol, tail_gain=tail_gain, accelerate=accelerate,
        callback=callback, known=refined.sums, resume_from=SolverState(refined.params, refined.n_iter, refined.path),
        keep=keep,
    )  # fmt: skip
