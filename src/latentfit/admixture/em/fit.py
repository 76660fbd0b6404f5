"""One fit of the admixture model, from calls to parameters: starts, then the climb, or least squares alone.

Likelihood races three starts by successive halving: the alternation from the people who stand furthest apart, and from
two draws of people; the climb has several tops on real panels, and one start in eight ended on a lower one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latentfit.admixture.data.passes import SnpPasses, over_calls
from latentfit.admixture.em.steps import Ancestry, AncestrySteps, inside, proportions
from latentfit.admixture.init.als import (
    Subspace,
    alternate,
    drawn_people,
    far_people,
    leading_subspace,
    shares_under,
    squares_of,
)
from latentfit.core.em import Begun, Step, em
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import Calls
from latentfit.core.multistart import Entrant, halve

LEAST_PEOPLE = 100
"""People from which on likelihood refines: with 50 its proportions were worse than those of least squares, whose error
it tripled (simulated mosaics); with 200 and more they were better."""
DRAWN_STARTS = 2
ROUNDS = (6, 6)
"""Passes of the race: after six the better two of three go on, after twelve the best."""
START_ROUNDS, START_TOL = 60, 1e-8
"""The alternation before likelihood: more rounds end at the same top."""


@dataclass(frozen=True)
class AncestryFit:
    """Where a fit ended; `values` are the people's log-likelihoods."""

    params: Ancestry
    values: Floats
    spectrum: Floats
    objective: float
    path: list[float]
    n_iter: int
    converged: bool
    start: str

    @property
    def log_likelihood(self) -> float:
        return float(self.values.sum())


@dataclass(frozen=True)
class AncestryPlace:
    """Where a stopped climb stood: the start that had won, the singular values, the climb itself."""

    start: str
    spectrum: Floats
    begun: Begun[Ancestry]


def fit_ancestry(
    calls: Calls | SnpPasses,
    means: Floats,
    n_populations: int,
    *,
    likelihood: bool,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    n_starts: int = DRAWN_STARTS,
    far: bool = True,
    first: tuple[str, Callable[[Subspace], Ancestry]] | None = None,
    callback: Callable[[Step], None] | None = None,
    begun: AncestryPlace | None = None,
    keep: Callable[[AncestryPlace], None] | None = None,
) -> AncestryFit:
    """Fit K populations; `first` makes another start than the alternation's, and is then the only one.

    Without `far` all starts are drawn. `keep` hears where the last climb stands; `begun`, such a place, goes on there.
    """
    calls = over_calls(calls)
    if begun is not None:
        hear = None if keep is None else lambda at: keep(AncestryPlace(begun.start, begun.spectrum, at))
        steps = AncestrySteps(calls)
        found = em(
            steps, begun.begun.params, max_iter=max_iter, tol=tol, accelerate=True, callback=callback,
            begun=begun.begun, keep=hear,
        )  # fmt: skip
        ended = (found.path, found.n_iter, found.converged, begun.start)
        return _settled(calls, found.params, begun.spectrum, False, *ended)
    space = leading_subspace(calls, means, n_populations)
    if not likelihood and first is None:
        start = "people who stand furthest apart" if far else "people who were drawn"
        people = far_people(space) if far else drawn_people(space, rng)
        return _by_squares(calls, means, space, people, max_iter, tol, start)
    if first is not None:
        begin = first[1](space)
        starts = {first[0]: inside(begin.shares, begin.frequencies)}
    else:
        starts = _starts(space, means, n_starts if n_populations > 1 or not far else 0, far, rng)
    if not likelihood:
        begin = next(iter(starts.values()))
        path = [-squares_of(space, begin.shares, begin.frequencies)]
        return _settled(calls, begin, space.spectrum, True, path, 0, True, next(iter(starts)))
    steps = AncestrySteps(calls)
    entrants = [Entrant(name, steps, start) for name, start in starts.items()]
    hear_of = None if keep is None else lambda name, at: keep(AncestryPlace(name, space.spectrum, at))
    raced = halve(
        entrants, rounds=ROUNDS, max_iter=max_iter, tol=tol, accelerate=True, callback=callback, keep=hear_of
    )  # fmt: skip
    found = raced.refined
    return _settled(calls, found.params, space.spectrum, False, found.path, found.n_iter, found.converged, raced.name)


def _starts(space: Subspace, means: Floats, drawn: int, far: bool, rng: np.random.Generator) -> dict[str, Ancestry]:
    named = {"least squares from far people": far_people(space)} if far else {}
    named |= {f"least squares from drawn people {n + 1}": drawn_people(space, rng) for n in range(drawn)}
    return {name: _alternated(space, means, people) for name, people in named.items()}


def _alternated(space: Subspace, means: Floats, people: list[int]) -> Ancestry:
    fit = alternate(space, means, shares_under(space, people), max_iter=START_ROUNDS, tol=START_TOL)
    return inside(fit.shares, fit.frequencies)


def _by_squares(
    calls: SnpPasses, means: Floats, space: Subspace, people: list[int], max_iter: int, tol: float, start: str
) -> AncestryFit:
    fit = alternate(space, means, shares_under(space, people), max_iter=max_iter, tol=tol)
    path = [-value for value in fit.squares]
    params = inside(fit.shares, fit.frequencies)
    return _settled(calls, params, space.spectrum, True, path, len(path) - 1, fit.converged, start)


def _settled(
    calls: SnpPasses, params: Ancestry, spectrum: Floats, squares: bool, path: list[float], n_iter: int,
    converged: bool, start: str,
) -> AncestryFit:  # fmt: skip
    """Everyone's proportions at their one best given the frequencies, as a new person's will be; largest first."""
    frequencies, shares = params.frequencies, params.shares
    for _ in range(2):  # sums run over populations in order: found in their final order, bits are those of `transform`
        rank = np.argsort(-shares.mean(axis=0), kind="stable")
        frequencies = np.ascontiguousarray(frequencies[:, rank])
        shares, values = proportions(calls, frequencies, squares=squares)
        if (np.diff(shares.mean(axis=0)) <= 0).all():
            break
    if not squares:
        path = [*path, max(float(values.sum()), path[-1])]
    found = Ancestry(shares, frequencies)
    return AncestryFit(found, values, spectrum, path[-1], path, n_iter, converged, start)
