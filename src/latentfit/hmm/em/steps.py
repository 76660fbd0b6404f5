"""The parameters of a hidden Markov model of symbols, and what follows from them alone."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import EMResult, squarem
from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import Chains, ChainSums, chain_log_likelihood, chain_sums
from latentfit.hmm.data import Sequences

FORGOTTEN = 100
"""Steps after which it hardly matters any more where a sequence began."""
COUNTED = 250
"""Steps of a drawn sequence whose surprise is averaged."""


class Entropy(NamedTuple):
    """Nats per symbol, and the standard error of the simulation."""

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

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        """Start, transitions and emissions, in the order of the kernels' arguments."""
        return self.start, self.transitions, self.emissions

    def permuted(self, order: NDArray[np.intp]) -> Chain:
        """The same model, its states in another order."""
        return Chain(self.start[order], self.transitions[np.ix_(order, order)], self.emissions[order])

    def stationary(self) -> Floats:
        """Proportion of time (K,) in every state in the long run; of several answers the one nearest the even one."""
        size = self.n_states
        away = np.vstack([self.transitions.T - np.eye(size), np.ones((1, size))])
        stationary = np.linalg.lstsq(away, np.append(np.zeros(size), 1.0), rcond=None)[0]
        stationary = np.maximum(stationary, 0.0)
        return np.asarray(stationary / stationary.sum())

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
    for t, uniform in enumerate(rng.random(length).tolist()):
        state = min(bisect_right(rows[state + 1], uniform), top)
        states[t] = state
    return states


def draw_symbols(chain: Chain, states: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    """A symbol for every state of a path."""
    symbols = np.empty(len(states), np.int32)
    uniforms = rng.random(len(states))
    for state in range(chain.n_states):
        at = np.flatnonzero(states == state)
        drawn = np.searchsorted(np.cumsum(chain.emissions[state]), uniforms[at], side="right")
        symbols[at] = np.minimum(drawn, chain.emissions.shape[1] - 1)
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
        uniforms = rng.random(n_chains)
        states[t] = np.minimum((cumulated[row] <= uniforms[:, None]).sum(axis=1), chain.n_states - 1)
        row = states[t] + 1
    codes = draw_symbols(settled, states.T.reshape(-1), rng).reshape(n_chains, total)
    log_likelihoods = []
    for part in (codes, np.ascontiguousarray(codes[:, :FORGOTTEN])):
        offsets = np.arange(n_chains + 1, dtype=np.int64) * part.shape[1]
        chains = Chains(part.reshape(-1), offsets, settled.emissions.shape[1])
        log_likelihoods.append(chain_log_likelihood(chains, *settled.parts))
    rates = (log_likelihoods[1] - log_likelihoods[0]) / COUNTED
    return Entropy(float(rates.mean()), float(rates.std(ddof=1) / np.sqrt(n_chains)))


# -----------------------------------------------------------------------------
# E- and M-step of hidden Markov models of symbols (Baum–Welch), with pseudo-counts toward the symbols' frequencies.
#
# The objective is the log-likelihood plus ``Σ prior · log parameter``. Every state gets `smoothing` pseudo-observations
# spread over the symbols like ρ^`SHAPE`: a symbol that a state has hardly shown is taken to be nearly as frequent there
# as elsewhere. Without them rare words cost more on new data than the states gain. Pseudo-counts in proportion to ρ
# itself would pull frequent symbols, whose counts are sure, as much as rare ones; with the root rare ones are pulled
# more, which is better on every text and simulation tried (docs/guide/hmm.md). Start and transition probabilities get
# a few, spread evenly. A state that nothing is in (possible without pseudo-counts only) shows ρ and goes anywhere, so
# that it can live again.
#
# Paper     Baum, Petrie, Soules & Weiss 1970; Varadhan & Roland 2008 for SQUAREM
# Needs     an initialisation that is not symmetric in the states
# Promises  the objective never falls
# Differs   pseudo-counts; missing values are steps that show nothing
#
# Symbols   paper   here          shape    meaning
#           π       start         (K,)
#           T       transitions   (K, K)   from a state (row) to the next
#           D       emissions     (K, M)   P(symbol | state), D of Huang, Kakade, Kong & Valiant transposed
#           ρ       frequencies   (M,)     of the symbols

SHAPE = 0.5
"""Power of the symbols' frequencies that pseudo-counts are spread by."""
MOVES = 1.0
"""Pseudo-transitions out of every state, and pseudo-starts, spread evenly; none when `smoothing` is zero."""
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class ChainPrior:
    """Pseudo-counts: per state `emissions` spread by `shape`, per row of transitions and for the start `moves`."""

    frequencies: Floats  # (M,) ρ
    shape: Floats  # (M,), or (K, M) where states have their own
    emissions: float
    moves: float


def chain_prior(data: Sequences, smoothing: float) -> ChainPrior:
    """`smoothing` pseudo-observations per state."""
    counts = data.counts().astype(np.float64)
    shape = counts**SHAPE
    frequencies, shape = (one / max(float(one.sum()), 1.0) for one in (counts, shape))
    return ChainPrior(frequencies, shape, smoothing, MOVES if smoothing > 0 else 0.0)


def without_row(prior: ChainPrior, state: int) -> ChainPrior:
    """The pseudo-counts of the other states."""
    return prior if prior.shape.ndim == 1 else replace(prior, shape=np.delete(prior.shape, state, axis=0))


@dataclass(frozen=True)
class ChainSteps:
    """Baum–Welch over sequences."""

    data: Sequences
    prior: ChainPrior
    threads: int = 1

    @property
    def n_cells(self) -> int:
        return self.data.n_observed

    def with_strength(self, strength: float) -> ChainSteps:
        """The same under other pseudo-counts."""
        return replace(self, prior=replace(self.prior, emissions=strength))

    def e_step(self, params: Chain) -> ChainSums:
        return chain_sums(self.data.chains, *params.parts, threads=self.threads)

    def objective(self, params: Chain, sums: ChainSums) -> float:
        value = float(sums.log_likelihood.sum())
        prior, K = self.prior, params.n_states
        if prior.emissions:
            value += prior.emissions * _expected_logarithms(params.emissions, prior.shape)
        if prior.moves:
            for rows in (params.start, params.transitions):
                value += prior.moves / K * float(np.log(np.maximum(rows, TINY)).sum())
        return value

    def log_likelihood(self, sums: ChainSums) -> float:
        return float(sums.log_likelihood.sum())

    def m_step(self, sums: ChainSums) -> Chain:
        return maximise_chain(sums, self.prior)

    def extrapolate(self, start: Chain, once: Chain, twice: Chain) -> Chain:
        return extrapolate_roots(start, once, twice)


def _expected_logarithms(emissions: Floats, shape: Floats) -> float:
    """Σ shape · log emissions; where states share a shape, one logarithm serves them all unless it would underflow."""
    if shape.ndim == 1:
        products = np.multiply.reduce(emissions, axis=0)
        if products.min() > TINY:
            return float(np.log(products) @ shape)
    return float((np.log(np.maximum(emissions, TINY)) * shape).sum())


def maximise_chain(sums: ChainSums, prior: ChainPrior) -> Chain:
    """The model that maximises the expected objective."""
    K = len(sums.start)
    even = np.full(K, 1.0 / K)
    pseudo_count = prior.moves / K
    return Chain(
        normalised(sums.start + pseudo_count, even),
        normalised(sums.transitions + pseudo_count, even),
        normalised(sums.emissions + prior.emissions * prior.shape, prior.frequencies),
    )


def extrapolate_roots(start: Chain, once: Chain, twice: Chain) -> Chain:
    """SQUAREM's extrapolation in square roots of probabilities, normalised again.

    Roots, not logarithms: rare symbols have probabilities near zero whose logarithms would set the length alone.
    """
    points = [np.sqrt(np.column_stack([m.start, m.transitions, m.emissions])) for m in (start, once, twice)]
    (far,) = squarem(*([point] for point in points))
    far = np.maximum(far, 1e-3 * points[2]) ** 2
    K = len(start.start)
    return Chain(far[:, 0] / far[:, 0].sum(), *(_rows(far[:, 1 : K + 1]), _rows(far[:, K + 1 :])))


def _rows(values: Floats) -> Floats:
    return np.ascontiguousarray(values / values.sum(axis=1, keepdims=True))


def permuted(refined: EMResult[Chain, ChainSums], order: NDArray[np.intp]) -> EMResult[Chain, ChainSums]:
    """The same fit with its states in another order, statistics and all."""
    old = refined.sums
    sums = ChainSums(
        old.start[order], old.transitions[np.ix_(order, order)], np.ascontiguousarray(old.emissions[order]),
        old.log_likelihood,
    )  # fmt: skip
    return replace(refined, params=refined.params.permuted(order), sums=sums)
