"""The only EM loop of the project: monotone, with a named reason to stop.

A family of models brings three pure functions (`Steps`): a pass over the data that gives sufficient
statistics (`e_step`), the objective at the parameters that made them, and the parameters that maximise it
(`m_step`). The loop holds the parameters and the statistics of the same point together, so what it returns is
consistent: the log-likelihood, the objective and the parameters belong to one another.

Paper     Dempster, Laird & Rubin 1977; Varadhan & Roland 2008 for the extrapolation (SQUAREM)
Needs     steps whose M-step maximises the expected objective
Promises  the objective never falls, but by rounding; `converged` only where a step moved it by less than `tol`, and
          with `tail_gain` only where the last quarter of all iterations together gained less than that
Differs   gains are counted per observed cell; an extrapolation that does not raise the objective is taken back

Symbols   P   parameters of a family     S   its sufficient statistics at some parameters
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.progress import report_iteration

P = TypeVar("P")
S = TypeVar("S")

MONOTONE_SLACK = 1e-9
"""Relative fall of the objective that rounding can cause; anything larger ends the loop."""
TAIL_FRACTION = 4
"""One in so many iterations, the last ones, that `tail_gain` looks at."""
TAIL_LEAST = 10
"""Iterations that it looks at in a short run."""
STEPS_LEFT = 1_000
"""A step so small that so many of them would gain less than `tail_gain` is enough by itself."""


class Steps(Protocol[P, S]):
    """One family's E- and M-step."""

    @property
    def n_cells(self) -> int: ...
    def e_step(self, params: P) -> S: ...
    def objective(self, params: P, sums: S) -> float: ...
    def log_likelihood(self, sums: S) -> float: ...
    def m_step(self, sums: S) -> P: ...
    def extrapolate(self, start: P, once: P, twice: P) -> P:
        """SQUAREM's extrapolation in coordinates of the family (values, logarithms, roots), projected back."""
        ...


@dataclass(frozen=True)
class Step:
    """What the callback gets after each iteration."""

    n_iter: int
    objective: float
    gain_per_cell: float


@dataclass(frozen=True)
class EMResult(Generic[P, S]):
    """Where EM ended: parameters, their statistics and objective, and how it got there."""

    params: P
    sums: S
    objective: float
    log_likelihood: float
    n_iter: int
    converged: bool
    path: list[float] = field(repr=False)  # objective after every iteration, the initialisation first


@dataclass(frozen=True)
class SolverState(Generic[P]):
    """State of an EM run after an iteration: all that is needed to continue it with the same bits."""

    params: P
    n_iter: int
    path: list[float]


def em(
    steps: Steps[P, S],
    start: P,
    *,
    max_iter: int,
    tol: float,
    tail_gain: float | None = None,
    accelerate: bool = False,
    callback: Callable[[Step], None] | None = None,
    known: S | None = None,
    resume_from: SolverState[P] | None = None,
    on_iteration: Callable[[SolverState[P]], None] | None = None,
) -> EMResult[P, S]:
    """EM from `start` until an iteration gains less than `tol` nats per observed cell.

    ``tol=0`` runs all of `max_iter`; ``max_iter=0`` evaluates the initialisation alone. `converged` is true only when
    the objective moved by less than `tol`; a step that falls by more ends the run without that claim. With `accelerate`
    two steps are followed by an extrapolation along their direction (SQUAREM), taken back when the objective would not
    rise by it; `n_iter` counts E-steps, those of extrapolations included. `known` are the statistics of the point where
    an earlier run ended, which saves their E-step. `on_iteration` is called with the solver state after every
    iteration; `resume_from` is such a state, from which to continue instead of from `start`.

    A small step is no proof of convergence: a slow run makes thousands of them. `tail_gain` asks in addition that the
    last quarter of the iterations (at least `TAIL_LEAST`) together gained less than so many nats, or that the last step
    would gain less a thousand times over. What is left then is of the same size: at most 3 × `tail_gain` where the
    distance to the limit falls as slowly as 1/n, less where it falls geometrically.
    """
    if resume_from is not None:
        start = resume_from.params
    params, sums = start, steps.e_step(start) if known is None else known
    objective = steps.objective(params, sums)
    path, converged, n_iter = [objective], False, 0
    if resume_from is not None:
        path, n_iter = list(resume_from.path), resume_from.n_iter
    cells, last_gain = max(steps.n_cells, 1), 0.0
    while n_iter < max_iter and not converged:
        new_params = steps.m_step(sums)
        new_sums = steps.e_step(new_params)
        new_objective = steps.objective(new_params, new_sums)
        gain = new_objective - objective
        if gain < -MONOTONE_SLACK * abs(objective):  # cannot happen by theory: keep the better point, and be honest
            converged = bool(-gain < tol * cells)
            break
        n_iter += 1
        before, params, sums, objective = params, new_params, new_sums, new_objective
        path.append(objective)
        converged = bool(tol > 0 and gain < tol * cells and is_flat(path, tail_gain))  # tol may be a number of numpy
        report_iteration(n_iter, max_iter, gain / cells, last_gain, tol)
        last_gain = gain / cells
        if callback is not None:
            callback(Step(n_iter, objective, gain / cells))
        if accelerate and not converged and n_iter < max_iter:
            new_params = steps.extrapolate(before, params, steps.m_step(sums))
            new_sums = steps.e_step(new_params)
            new_objective = steps.objective(new_params, new_sums)
            n_iter += 1
            if new_objective > objective:
                params, sums, objective = new_params, new_sums, new_objective
                path.append(objective)
        if on_iteration is not None and not converged:
            on_iteration(SolverState(params, n_iter, list(path)))
    return EMResult(params, sums, objective, steps.log_likelihood(sums), n_iter, converged, path)


def is_flat(path: Sequence[float], tail_gain: float | None) -> bool:
    """Whether the last quarter of a path rose by less than `tail_gain`, or many steps like the last would."""
    if tail_gain is None or STEPS_LEFT * (path[-1] - path[-2]) < tail_gain:
        return True
    tail = max(TAIL_LEAST, len(path) // TAIL_FRACTION)
    return len(path) > tail and path[-1] - path[-1 - tail] < tail_gain


def squarem(start: Sequence[Floats], once: Sequence[Floats], twice: Sequence[Floats]) -> list[Floats]:
    """SQUAREM's extrapolation (Varadhan & Roland 2008, step length S3) from three successive EM iterates.

    Parameters of several arrays share one step length, which is never shorter than the two EM steps themselves.
    """
    steps = [second - first for first, second in zip(start, once, strict=True)]
    bends = [third - second - step for second, third, step in zip(once, twice, steps, strict=True)]
    top, bottom = (sum(float(np.vdot(part, part)) for part in parts) for parts in (steps, bends))
    length = max(1.0, float(np.sqrt(top / bottom))) if bottom > 0 else 1.0
    return [first + 2 * length * step + length**2 * bend for first, step, bend in zip(start, steps, bends, strict=True)]
