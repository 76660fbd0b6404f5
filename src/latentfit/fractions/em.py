"""Alternating least squares for mixtures of parts, as steps of the one loop.

The objective is the log-likelihood with its noise at its best, −N/2 (log 2πσ̂² + 1) with σ̂² = RSS / N over the N cells
that are there: it rises exactly when the residual sum of squares falls. The first half of a step finds the fractions of
given profiles (the minimum on the simplex), the second the profiles of given fractions (the minimum in the box): both
are exact, so no step can lower it.

Paper     the model of Jaffe, Weiss, Carmi, Kluger & Nadler 2018, Appendix N; given profiles, the constrained least
          squares of Houseman et al. 2012; Varadhan & Roland 2008 (SQUAREM)
Needs     values in [0, 1], at least as many samples as parts
Promises  the residual squares never rise; nothing about which of equally good answers is found
Differs   profiles lie in [0, 1] (the paper: 0 or 1); missing values are left out

Symbols   paper  here        shape    meaning
          W      fractions   (n, K)   on the simplex
          H      profiles    (K, m)   in the box
          X      data        (n, m)   `turned` is the same feature by feature
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from latentfit.core.em import Step, squarem
from latentfit.core.kernels import Floats
from latentfit.core.multistart import Candidate, Selected, successive_halving
from latentfit.core.simplex import gram_of, simplex_least_squares
from latentfit.core.tensor.binary import spectral_init
from latentfit.fractions.init import UnitValues, extreme_samples, fractions_of, profiles_of, random_profiles

Init = Literal["auto", "random", "tensor"]

LEAST_VARIANCE = 1e-12
"""Noise below one in a million of the scale is rounding: the likelihood of an exact fit stays finite."""
TINY_WEIGHT = 1e-6
"""Added to every weight of the tensor initialisation: a sample without a positive one is spread evenly."""
ROUNDS = (10, 20, 40)
"""Iterations of the initialisations before half of them are dropped, each time."""


@dataclass(frozen=True)
class Parts:
    """Profiles (K, m), and fractions (n, K) from which the search for theirs begins."""

    profiles: Floats
    fractions: Floats


@dataclass(frozen=True)
class Explained:
    """What given profiles explain: the fractions, and the squares that are left."""

    profiles: Floats
    fractions: Floats
    residual: float


@dataclass(frozen=True)
class FractionSteps:
    """The two halves of alternating least squares."""

    data: UnitValues
    turned: UnitValues

    @classmethod
    def of(cls, data: UnitValues) -> FractionSteps:
        return cls(data, data.transposed)

    @property
    def n_cells(self) -> int:
        return self.data.n_cells

    def e_step(self, params: Parts) -> Explained:
        """The best fractions of these profiles."""
        gram = gram_of(params.profiles, self.data.observed)
        found = simplex_least_squares(gram, self.data.values @ params.profiles.T, params.fractions)
        return Explained(params.profiles, found, residual_squares(self.data, found, params.profiles))

    def objective(self, params: Parts, statistics: Explained) -> float:
        return self.log_likelihood(statistics)

    def log_likelihood(self, statistics: Explained) -> float:
        return gaussian_log_likelihood(statistics.residual, self.n_cells)

    def m_step(self, statistics: Explained) -> Parts:
        """The best profiles of these fractions."""
        return Parts(profiles_of(self.turned, statistics.fractions, statistics.profiles), statistics.fractions)

    def extrapolate(self, start: Parts, once: Parts, twice: Parts) -> Parts:
        """SQUAREM's extrapolation, back into the box."""
        (far,) = squarem([start.profiles], [once.profiles], [twice.profiles])
        return replace(twice, profiles=np.clip(far, 0.0, 1.0))


def residual_squares(data: UnitValues, fractions: Floats, profiles: Floats) -> float:
    """Σ (x − w h)² over the observed cells."""
    left = data.values - fractions @ profiles
    return float(np.vdot(left, left) if data.observed is None else (left[data.observed] ** 2).sum())


def gaussian_log_likelihood(residual: float, n_cells: int) -> float:
    variance = max(residual / max(n_cells, 1), LEAST_VARIANCE)
    return -n_cells / 2 * float(np.log(2 * np.pi * variance) + 1)


def initial_profiles(
    steps: FractionSteps, n_parts: int, n_init: int, rng: np.random.Generator, init: Init = "auto"
) -> Iterator[tuple[str, Floats]]:
    """Named initialisations: the most extreme samples or the tensor's fractions first, then random fractions."""
    if init == "auto":
        yield "extreme samples", extreme_samples(steps.data, n_parts)
    elif init == "tensor":
        yield "tensor", profiles_of(steps.turned, tensor_fractions(steps.data, n_parts, rng))
    for draw in range(int(init != "random"), n_init):
        yield f"random {draw}", random_profiles(steps.turned, n_parts, rng)


def tensor_fractions(data: UnitValues, n_parts: int, rng: np.random.Generator) -> Floats:
    """The paper's initialisation: weights of binary latent factors, features for rows, made fractions (n, K)."""
    weights = spectral_init(np.ascontiguousarray(data.filled().T), n_parts, rng=rng).W.T
    positive = np.maximum(weights, 0.0) + TINY_WEIGHT
    return np.asarray(positive / positive.sum(axis=1, keepdims=True))


def fit_parts(
    steps: FractionSteps,
    initialisations: Sequence[tuple[str, Floats]],
    *,
    max_iter: int,
    tol: float,
    callback: Callable[[Step], None] | None = None,
) -> Selected[Parts, Explained]:
    """The best of several initialisations, by successive halving."""
    candidates = [
        Candidate(name, steps, Parts(profiles, fractions_of(steps.data, profiles)))
        for name, profiles in initialisations
    ]
    rounds = ROUNDS if len(candidates) > 1 else ROUNDS[:1]
    return successive_halving(candidates, rounds=rounds, max_iter=max_iter, tol=tol, accelerate=True, callback=callback)
