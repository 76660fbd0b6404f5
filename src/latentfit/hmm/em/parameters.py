"""The parameters of a hidden Markov model of symbols, and what follows from them alone."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import Chains, chain_log_likelihood

FORGOTTEN = 100
"""Steps after which it hardly matters any more where a sequence began."""
COUNTED = 250
"""Steps of a drawn sequence whose surprise is averaged."""


class Entropy(NamedTuple):
    """Nats a symbol, and the standard error of the simulation."""

    rate: float
    error: float


@dataclass(frozen=True)
class Chain:
    """Where a sequence starts, where a state goes, and what it shows; every row is a distribution.

    Definition 1.4 of Huang, Kakade, Kong & Valiant 2018, for any number of states.
    """

    start: Floats  # (K,)
    transitions: Floats  # (K, K)
    emissions: Floats  # (K, M)

    @property
    def n_states(self) -> int:
        return len(self.start)

    def permuted(self, order: NDArray[np.intp]) -> Chain:
        """The same model, its states in another order."""
        return Chain(self.start[order], self.transitions[np.ix_(order, order)], self.emissions[order])

    def stationary(self) -> Floats:
        """Share of time (K,) in every state in the long run; of several answers the one nearest an even start."""
        size = self.n_states
        away = np.vstack([self.transitions.T - np.eye(size), np.ones((1, size))])
        found = np.linalg.lstsq(away, np.append(np.zeros(size), 1.0), rcond=None)[0]
        found = np.maximum(found, 0.0)
        return np.asarray(found / found.sum())

    def spectral_gap(self) -> float:
        """1 − the second largest modulus of the transitions' eigenvalues: 0 never mixes, 1 forgets at once."""
        if self.n_states == 1:
            return 1.0
        sizes = np.sort(np.abs(np.linalg.eigvals(self.transitions)))[::-1]
        return float(1 - min(sizes[1], 1.0))


def normalised(counts: Floats, instead: Floats) -> Floats:
    """Rows divided by their sums; a row without counts becomes `instead`."""
    totals = counts.sum(axis=-1, keepdims=True)
    safe = np.where(totals > 0, totals, 1.0)
    return np.where(totals > 0, counts / safe, instead)


def draw_path(chain: Chain, length: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """States of one sequence."""
    states = np.empty(length, np.int32)
    rows = [np.cumsum(row).tolist() for row in (chain.start, *chain.transitions)]
    state, top = -1, chain.n_states - 1
    for t, chance in enumerate(rng.random(length).tolist()):
        state = min(bisect_right(rows[state + 1], chance), top)
        states[t] = state
    return states


def draw_symbols(chain: Chain, states: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    """A symbol for every state of a path."""
    symbols = np.empty(len(states), np.int32)
    chances = rng.random(len(states))
    for state in range(chain.n_states):
        at = np.flatnonzero(states == state)
        found = np.searchsorted(np.cumsum(chain.emissions[state]), chances[at], side="right")
        symbols[at] = np.minimum(found, chain.emissions.shape[1] - 1)
    return symbols


def entropy_rate(chain: Chain, rng: np.random.Generator, *, n_chains: int = 400) -> Entropy:
    """Nats of new information a symbol in the long run: −log P(symbol | all before it), averaged over drawn sequences.

    A hidden chain has no formula for it. Each of `n_chains` sequences starts in the long-run distribution and is
    walked `FORGOTTEN` steps before counting begins, so that the start is forgotten; the error is their scatter.
    """
    settled = replace(chain, start=chain.stationary())
    total = FORGOTTEN + COUNTED
    states = np.empty((total, n_chains), np.int32)
    cumulated = np.vstack([np.cumsum(settled.start), np.cumsum(settled.transitions, axis=1)])
    row = np.zeros(n_chains, np.int64)
    for t in range(total):
        chances = rng.random(n_chains)
        states[t] = np.minimum((cumulated[row] <= chances[:, None]).sum(axis=1), chain.n_states - 1)
        row = states[t] + 1
    codes = draw_symbols(settled, states.T.reshape(-1), rng).reshape(n_chains, total)
    told = []
    for part in (codes, np.ascontiguousarray(codes[:, :FORGOTTEN])):
        offsets = np.arange(n_chains + 1, dtype=np.int64) * part.shape[1]
        told.append(
            chain_log_likelihood(
                Chains(part.reshape(-1), offsets, settled.emissions.shape[1]),
                settled.start,
                settled.transitions,
                settled.emissions,
            )
        )
    rates = (told[1] - told[0]) / COUNTED
    return Entropy(float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(n_chains)))
