"""Multi-start: several initialisations, one answer.

`select_best` runs EM from a few initialisations, which may carry different priors, each to its end.
`successive_halving` is for many under the same prior: all get a few iterations, the better half some more, and so on,
and the rest of the iterations is for the best alone. `multistart` runs several until they have converged, so that it
can be said how many of them reached the best objective (Mplus reports whether the best log-likelihood is replicated).

Paper     Jamieson & Talwalkar 2016 (successive halving)
Needs     steps of one family; for `successive_halving` one prior, else objectives cannot be compared
Promises  the answer is the best of those that were run to the end; of equals the earlier initialisation wins
Differs   the iterations of every round are given; runs that stay are continued, not run again

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

MULTISTART_ROUNDS = (16, 32, 64)
"""Iterations in all after which `multistart` drops runs."""
FINAL = 4
"""Runs that are continued at least."""
CONFIRMING = 30
"""Iterations reserved for EM to confirm what `finish` returned."""
REACH = 4.0
"""How many times its last gain a run may lie behind the best and still be continued."""
REACHED = 0.01
"""Nats from the best objective within which another run is said to have reached it."""


@dataclass(frozen=True)
class Candidate(Generic[P, S]):
    """A named initialisation and the steps of its EM run."""

    name: str
    steps: Steps[P, S]
    start: P


@dataclass(frozen=True)
class Selected(Generic[P, S]):
    """The selected run, and the log-likelihood per observed cell of every candidate after its last iteration."""

    name: str
    steps: Steps[P, S]
    refined: EMResult[P, S]
    scores: dict[str, float]


@dataclass(frozen=True)
class MultiStartState(Generic[P, S]):
    """State of `select_best`: which candidate runs, its solver state, and the results of those that have ended."""

    name: str
    resume_from: SolverState[P]
    done: dict[str, EMResult[P, S]]


def select_best(
    candidates: Sequence[Candidate[P, S]],
    *,
    max_iter: int,
    tol: float,
    margin: float = 0.0,
    callback: Callable[[Step], None] | None = None,
    resume_from: MultiStartState[P, S] | None = None,
    on_iteration: Callable[[MultiStartState[P, S]], None] | None = None,
) -> Selected[P, S]:
    """EM from every candidate; a later one wins only if it is better by `margin` per cell.

    Scores are log-likelihoods, not objectives: candidates may carry different priors. `on_iteration` is called with the
    state after every iteration; `resume_from` is such a state to continue from.
    """
    best, scores = candidates[0], {}
    done = {} if resume_from is None else dict(resume_from.done)
    for one in candidates:
        if one.name not in done:
            state = resume_from.resume_from if resume_from is not None and resume_from.name == one.name else None
            write = None if on_iteration is None else _with_state(on_iteration, one.name, dict(done))
            done[one.name] = em(
                one.steps, one.start, max_iter=max_iter, tol=tol, callback=callback, resume_from=state,
                on_iteration=write,
            )  # fmt: skip
        scores[one.name] = _per_cell(one, done[one.name])
        if scores[one.name] > scores[best.name] + margin:
            best = one
    return Selected(best.name, best.steps, done[best.name], scores)


def _with_state(
    on_iteration: Callable[[MultiStartState[P, S]], None], name: str, done: dict[str, EMResult[P, S]]
) -> Callable[[SolverState[P]], None]:
    return lambda state: on_iteration(MultiStartState(name, state, done))


def _per_cell(candidate: Candidate[P, S], result: EMResult[P, S]) -> float:
    return result.log_likelihood / max(candidate.steps.n_cells, 1)


def successive_halving(
    candidates: Sequence[Candidate[P, S]],
    *,
    rounds: Sequence[int],
    max_iter: int,
    tol: float,
    accelerate: bool = False,
    callback: Callable[[Step], None] | None = None,
    on_iteration: Callable[[str, SolverState[P]], None] | None = None,
) -> Selected[P, S]:
    """After each round of so many iterations the better half by objective stays; the best is run to its end.

    Candidates must share a prior, else their objectives cannot be compared. Of equals the earlier stays.
    `on_iteration` is called with the name and solver state of the last one, once it is the only one.
    """
    options: dict[str, Any] = {"tol": tol, "accelerate": accelerate}
    limit = rounds[0]
    field = [(one, em(one.steps, one.start, max_iter=min(limit, max_iter), **options)) for one in candidates]
    scores = {one.name: _per_cell(one, result) for one, result in field}
    for more in rounds[1:]:
        limit += more
        field = sorted(field, key=lambda pair: -pair[1].objective)[: (len(field) + 1) // 2]
        field = [(one, continue_em(one.steps, result, min(limit, max_iter), **options)) for one, result in field]
        scores.update({one.name: _per_cell(one, result) for one, result in field})
    best, refined = min(field, key=lambda pair: -pair[1].objective)
    write = None if on_iteration is None else partial(on_iteration, best.name)
    refined = continue_em(best.steps, refined, max_iter, callback=callback, on_iteration=write, **options)
    return Selected(best.name, best.steps, refined, scores)


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

    All get the first of `MULTISTART_ROUNDS`; then the better half by objective is continued, and of those the better
    half again, but only runs within reach of the best: one whose last round, half of all its iterations, gained g will
    hardly gain more than `REACH` · g later. A half is never fewer than `FINAL`, and runs that have converged cost
    nothing and stay. Those that are left are taken to their optimum by `finish(refined, max_iter)`, and EM confirms
    that they have converged. Of equals the earlier initialisation wins.
    """
    options: dict[str, Any] = {"tol": tol, "tail_gain": tail_gain, "accelerate": True}
    limit = min(MULTISTART_ROUNDS[0], max_iter)
    field = [(one, em(one.steps, one.start, max_iter=limit, **options)) for one in candidates]
    before = {one.name: -math.inf for one in candidates}
    dropped: list[float] = []
    for limit in MULTISTART_ROUNDS[1:]:
        field.sort(key=lambda pair: -pair[1].objective)
        best_objective, most = field[0][1].objective, max(FINAL, (len(field) + 1) // 2)
        staying = []
        for at, (one, result) in enumerate(field):
            reachable = best_objective - result.objective <= REACH * (result.objective - before[one.name])
            if result.converged or (at < most and reachable):
                staying.append((one, result))
            else:
                dropped.append(result.objective)
        before = {one.name: result.objective for one, result in staying}
        field = [(one, continue_em(one.steps, result, min(limit, max_iter), **options)) for one, result in staying]
    ended = []
    for one, result in field:
        if not result.converged and result.n_iter < max_iter:
            result = finish(result, max_iter - CONFIRMING)
            result = continue_em(one.steps, result, max_iter, callback=callback, **options)
        ended.append((one, result))
    best, refined = min(ended, key=lambda pair: -pair[1].objective)
    replication = Replication(
        sorted([result.objective for _, result in ended] + dropped, reverse=True),
        n_final=len(ended),
        n_reached=sum(result.objective >= refined.objective - REACHED for _, result in ended),
    )
    return MultiStart(best.name, refined, replication)


def continue_em(steps: Steps[P, S], refined: EMResult[P, S], max_iter: int, **options: Any) -> EMResult[P, S]:
    """Continue an EM run up to `max_iter` iterations in all; returned unchanged if it had converged."""
    if refined.converged or refined.n_iter >= max_iter:
        return refined
    state = SolverState(refined.params, refined.n_iter, refined.path)
    return em(steps, refined.params, max_iter=max_iter, known=refined.sums, resume_from=state, **options)
