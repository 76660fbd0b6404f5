"""Is another set of switches as good? Rigidity, (I) and (27) of the tensor eigenpair paper, asked of the fitted P(h).

Where some combination uᵀh of the switches is binary too, it can stand in for one of them: other weights, the same
likelihood. Combinations of two and three switches with coefficients ±1 cover what happens in practice: switches that
exclude one another (h_i + h_j), one that implies another (h_j − h_i), a baseline (1 − h_i), and their unions. Noise
blurs P(h), so a combination that looks nearly binary is tested: EM goes on with the states that speak against it ruled
out, and the fall of the log-likelihood says how much the data wanted them.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018: rigidity (6), which is condition (I); in expectation (27), which
          Theorem 2 asks for as well
Needs     fitted switches, and EM steps on the plane of their weights
Promises  of combinations of up to three switches those that stand: ruling their contrary states out costs the
          likelihood no more than chance (a χ² quantile)
Differs   the paper asks for the condition and tests nothing; other coefficients than ±1, and more than three switches,
          are not looked at

Symbols   paper   here       shape    meaning
          u       u          (d,)     coefficients
          r(u)    rigidity   —        mean squared distance of uᵀh from 0 and 1
          P_h     log_prior  (2^d,)   of all on/off vectors
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from latentfit.core.em import em
from latentfit.factors.em.states import states
from latentfit.factors.em.steps import SwitchParams, SwitchSteps, SwitchSums

SUSPECT = 0.05
"""Combinations with more rows than this outside 0 and 1 are not binary; no test needed."""
MOST_TESTED = 12
"""Combinations tested, the most nearly binary ones."""
RULED_OUT = -60.0
"""Log-probability of a state that is ruled out: less than one row in any data."""
PASSES = 12
"""EM passes of a test."""
LEVEL = 0.001
"""Level of the test: a fall of the log-likelihood below this quantile of χ²/2 is no evidence."""


@dataclass(frozen=True)
class Rival:
    """A combination uᵀh that is (almost) binary, and what ruling its contrary states out costs in nats."""

    u: tuple[int, ...]
    rigidity: float  # r(u) (27)
    outside: float  # share of rows where uᵀh is neither 0 nor 1
    cost: float = np.inf
    needed: float = 0.0  # the cost that would be evidence against it

    @property
    def stands(self) -> bool:
        """Whether the data does not speak against it."""
        return self.cost <= self.needed


@dataclass(frozen=True)
class WithoutStates:
    """EM steps with some states ruled out."""

    inner: SwitchSteps
    ruled_out: NDArray[np.bool_]

    @property
    def n_cells(self) -> int:
        return self.inner.n_cells

    def expect(self, params: SwitchParams) -> SwitchSums:
        return self.inner.expect(params)

    def objective(self, params: SwitchParams, sums: SwitchSums) -> float:
        return sums.log_likelihood

    def log_likelihood(self, sums: SwitchSums) -> float:
        return sums.log_likelihood

    def maximise(self, sums: SwitchSums) -> SwitchParams:
        return self.bare(self.inner.maximise(sums))

    def extrapolate(self, start: SwitchParams, once: SwitchParams, twice: SwitchParams) -> SwitchParams:
        return self.bare(self.inner.extrapolate(start, once, twice))

    def bare(self, params: SwitchParams) -> SwitchParams:
        logs = np.where(self.ruled_out, RULED_OUT, params.log_prior)
        logs = logs - np.log(np.exp(logs).sum())
        return replace(params, log_prior=logs)


def combinations_of(params: SwitchParams) -> list[Rival]:
    """Combinations of two and three switches with coefficients ±1, most nearly binary first.

    Rigidity, condition (I), which is (6), and in expectation (27), says that no combination but the switches is binary.
    """
    d, P = params.d, np.exp(params.log_prior)
    S = states(d)
    found = []
    for size in range(2, min(3, d) + 1):
        for some in combinations(range(d), size):
            code = S[:, list(some)] @ 2.0 ** np.arange(size)
            share = np.bincount(code.astype(np.intp), P, minlength=2**size)  # P of these switches alone
            h = states(size)
            for signs in product((1, -1), repeat=size):
                if 1 not in signs:
                    continue
                value = h @ np.array(signs, np.float64)
                off = np.abs(value - np.clip(value, 0, 1))
                if not (share @ (value > 0.5) > 1e-3):  # never on: nothing that could stand in
                    continue
                u = [0] * d
                for at, sign in zip(some, signs, strict=True):
                    u[at] = sign
                found.append(Rival(tuple(u), float(share @ off**2), float(share @ (off > 0))))
    return sorted(found, key=lambda rival: (rival.outside, rival.u))


def tested_rivals(steps: SwitchSteps, params: SwitchParams, log_likelihood: float) -> list[Rival]:
    """The most nearly binary combinations with the cost of ruling their contrary states out; `steps` on a plane."""
    S, tested = states(params.d), []
    for rival in combinations_of(params)[:MOST_TESTED]:
        if rival.outside > SUSPECT:
            break
        value = S @ np.array(rival.u, np.float64)
        against = (value < 0) | (value > 1)
        without = WithoutStates(steps, against)
        kept = em(without, without.bare(params), max_iter=PASSES, tol=1e-9)
        free = min(int(against.sum()), max(int((np.exp(params.log_prior[against]) * steps.n_rows > 0.1).sum()), 1))
        cost = max(log_likelihood - kept.log_likelihood, 0.0)
        tested.append(replace(rival, cost=cost, needed=float(chi2.ppf(1 - LEVEL, free)) / 2))
    return tested
