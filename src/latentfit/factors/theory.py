"""Conditions under which the tensor eigenpairs are the switches, checked on a fitted distribution P(h).

Condition (II) asks that the eigenpair of every switch be stable (`condition_two`). Condition (I), rigidity, asks that
no other combination uᵀh of the switches be binary: it could stand in for one of them, with other weights and the same
likelihood (`combinations_of`). Combinations of two and three switches with coefficients ±1 cover what happens in
practice: switches that exclude one another (h_i + h_j), one that implies another (h_j − h_i), a baseline (1 − h_i), and
their unions. Noise blurs P(h), so a combination that looks nearly binary is tested: EM goes on with the states that
speak against it ruled out, and the fall of the log-likelihood says how much the data wanted them (`tested_rivals`).

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018: rigidity (6), which is condition (I); in expectation (27), which
          Theorem 2 asks for as well; condition (II) and (31) on the moments (8), Lemma 2
Needs     fitted switches, and EM steps on the plane of their weights
Promises  of combinations of up to three switches those that stand: ruling their contrary states out costs the
          likelihood no more than chance (a χ² quantile)
Differs   the paper asks for the conditions of the truth and tests nothing; other coefficients than ±1, and more than
          three switches, are not looked at

Symbols   paper   here       shape    meaning
          C, 𝒞    C, third   (d, d)   E[h ⊗ h]; 𝒞(I, I, e_i)
          J_p     spectrum   (d−1,)   eigenvalues of the projected Jacobian, relative to λ
          u       u          (d,)     coefficients
          r(u)    rigidity   —        mean squared distance of uᵀh from 0 and 1
          P_h     log_prior  (2^d,)   of all on/off vectors
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.factors.em.states import pair_moments, states
from latentfit.factors.em.steps import SwitchParams, SwitchStatistics, SwitchSteps

SUSPECT = 0.05
"""Combinations with more rows than this outside 0 and 1 are not binary; no test needed."""
RIVALS_TESTED = 12
"""Combinations tested, the most nearly binary ones."""
RULED_OUT = -60.0
"""Log-probability of a state that is ruled out: less than one row in any data."""
PASSES = 12
"""EM iterations of a test."""
LEVEL = 0.001
"""Level of the test: a fall of the log-likelihood below this quantile of χ²/2 is no evidence."""


def condition_two(params: SwitchParams) -> tuple[Floats, Floats, list[int]]:
    """Of each switch, relative to λ: smallest and largest |eigenvalue| of its projected Jacobian, and the sign of (31).

    The Jacobian is L_uᵀ K'W'(2𝒞(I, I, e_i) − C)WK L_u with C^-½ in the place of WK: full rank under condition (II), by
    Lemma 2. C and 𝒞 are the moments (8) of P(h).

    Parameters
    ----------
    params : SwitchParams
        Weights, P(h) and noise of d switches.

    Returns
    -------
    smallest : ndarray of shape (d,)
        Smallest |eigenvalue|.
    largest : ndarray of shape (d,)
        Largest |eigenvalue|.
    sign : list of int
        -1 negative definite, 1 positive definite, 0 neither.
    """
    d, P = params.d, np.exp(params.log_prior)
    S = states(d)
    C = pair_moments(P, d)
    values, vectors = np.linalg.eigh(C)
    root = vectors / np.sqrt(np.maximum(values, 1e-12))  # C^-½ up to a rotation
    smallest, largest, sign = np.ones(d), np.ones(d), [-1] * d
    for i in range(d if d > 1 else 0):
        third = (S * (P * S[:, i])[:, None]).T @ S  # 𝒞(I, I, e_i)
        A = root.T @ (2 * third - C) @ root
        u = root.T @ C[:, i]  # the direction of switch i
        L = np.linalg.svd(u[None])[2][1:].T
        spectrum = np.linalg.eigvalsh(L.T @ A @ L)
        smallest[i], largest[i] = np.abs(spectrum).min(), np.abs(spectrum).max()
        sign[i] = -1 if spectrum[-1] < 0 else 1 if spectrum[0] > 0 else 0
    return smallest, largest, sign


@dataclass(frozen=True)
class Rival:
    """A combination uᵀh of switches that is (almost) binary.

    Attributes
    ----------
    u : tuple of int
        Coefficients, one per switch.
    rigidity : float
        Mean squared distance of uᵀh from 0 and 1 (27).
    outside : float
        Fraction of rows where uᵀh is neither 0 nor 1.
    cost : float
        What ruling its contrary states out costs, in nats.
    needed : float
        The cost that would be evidence against it.
    """

    u: tuple[int, ...]
    rigidity: float
    outside: float
    cost: float = np.inf
    needed: float = 0.0

    @property
    def stands(self) -> bool:
        """Whether the data does not speak against it."""
        return self.cost <= self.needed


@dataclass(frozen=True)
class _WithoutStates(SwitchSteps):
    """EM steps with some states (2^d,) ruled out."""

    ruled_out: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1, bool))

    def objective(self, params: SwitchParams, statistics: SwitchStatistics) -> float:
        return statistics.log_likelihood

    def m_step(self, statistics: SwitchStatistics) -> SwitchParams:
        return self.bare(super().m_step(statistics))

    def extrapolate(self, start: SwitchParams, once: SwitchParams, twice: SwitchParams) -> SwitchParams:
        return self.bare(super().extrapolate(start, once, twice))

    def bare(self, params: SwitchParams) -> SwitchParams:
        logs = np.where(self.ruled_out, RULED_OUT, params.log_prior)
        logs = logs - np.log(np.exp(logs).sum())
        return replace(params, log_prior=logs)


def combinations_of(params: SwitchParams) -> list[Rival]:
    """Combinations of two and three switches with coefficients ±1, most nearly binary first.

    Rigidity, condition (I), which is (6), and in expectation (27), says that no combination but the switches is binary.

    Parameters
    ----------
    params : SwitchParams
        Weights, P(h) and noise of d switches.

    Returns
    -------
    list of Rival
    """
    d, P = params.d, np.exp(params.log_prior)
    S = states(d)
    found = []
    for size in range(2, min(3, d) + 1):
        for some in combinations(range(d), size):
            code = S[:, list(some)] @ 2.0 ** np.arange(size)
            probability = np.bincount(code.astype(np.intp), P, minlength=2**size)  # P of these switches alone
            h = states(size)
            for signs in product((1, -1), repeat=size):
                if 1 not in signs:
                    continue
                value = h @ np.array(signs, np.float64)
                off = np.abs(value - np.clip(value, 0, 1))
                if not (probability @ (value > 0.5) > 1e-3):  # never on: nothing that could stand in
                    continue
                u = [0] * d
                for at, sign in zip(some, signs, strict=True):
                    u[at] = sign
                found.append(Rival(tuple(u), float(probability @ off**2), float(probability @ (off > 0))))
    return sorted(found, key=lambda rival: (rival.outside, rival.u))


def combination_text(u: Sequence[int]) -> str:
    """A combination as text, such as h0 − h2.

    Parameters
    ----------
    u : sequence of int
        Coefficients, one per switch.

    Returns
    -------
    str
    """
    return " ".join(f"{'+' if c > 0 else '−'} h{i}" for i, c in enumerate(u) if c).removeprefix("+ ")


def tested_rivals(steps: SwitchSteps, params: SwitchParams, log_likelihood: float) -> list[Rival]:
    """The most nearly binary combinations with the cost of ruling their contrary states out; `steps` on a plane.

    Parameters
    ----------
    steps : SwitchSteps
        EM steps on the plane of the weights.
    params : SwitchParams
        Weights, P(h) and noise of d switches.
    log_likelihood : float
        Log-likelihood of `params` on these rows.

    Returns
    -------
    list of Rival
    """
    S, tested = states(params.d), []
    for rival in combinations_of(params)[:RIVALS_TESTED]:
        if rival.outside > SUSPECT:
            break
        value = S @ np.array(rival.u, np.float64)
        against = (value < 0) | (value > 1)
        without = _WithoutStates(steps.A, steps.squares, steps.m, steps.states, steps.noise, against)
        constrained = em(without, without.bare(params), max_iter=PASSES, tol=1e-9)
        free = min(int(against.sum()), max(int((np.exp(params.log_prior[against]) * steps.n_rows > 0.1).sum()), 1))
        cost = max(log_likelihood - constrained.log_likelihood, 0.0)
        tested.append(replace(rival, cost=cost, needed=float(chi2.ppf(1 - LEVEL, free)) / 2))
    return tested
