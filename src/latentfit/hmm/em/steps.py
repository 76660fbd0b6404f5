"""E- and M-step of hidden Markov models of symbols (Baum–Welch), with pseudo-counts toward the symbols' frequencies.

The objective is the log-likelihood plus ``Σ prior · log parameter``. Every state gets `smoothing` pseudo-observations
spread over the symbols like ρ^`SHAPE`: what a state has hardly seen it believes to be nearly as frequent there as
elsewhere. Without them rare words cost more on new data than the states gain. Pseudo-counts in proportion to ρ itself
would pull frequent symbols, whose counts are sure, as much as rare ones; with the root rare ones are pulled more, which
is better on every text and simulation tried (docs/models/hmm.md). Starts and transitions get a small even share. A
state that nothing is in (possible without pseudo-counts only) shows ρ and goes anywhere, so that it can live again.

Paper     Baum, Petrie, Soules & Weiss 1970; Varadhan & Roland 2008 for the leaps
Needs     a start that is not symmetric in the states
Promises  the objective never falls
Differs   pseudo-counts; gaps are steps that show nothing

Symbols   paper   here          shape    meaning
          π       start         (K,)
          T       transitions   (K, K)   from a state (row) to the next
          D       emissions     (K, M)   P(symbol | state), D of Huang, Kakade, Kong & Valiant transposed
          ρ       frequencies   (M,)     of the symbols
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import Refined, leap_of
from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import ChainSums, chain_sums
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.parameters import Chain, normalised

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
    """`smoothing` pseudo-observations a state."""
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

    def expect(self, params: Chain) -> ChainSums:
        return chain_sums(self.data.chains, params.start, params.transitions, params.emissions, threads=self.threads)

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

    def maximise(self, sums: ChainSums) -> Chain:
        return maximise_chain(sums, self.prior)

    def extrapolate(self, start: Chain, once: Chain, twice: Chain) -> Chain:
        return leap(start, once, twice)


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
    share = prior.moves / K
    return Chain(
        normalised(sums.start + share, even),
        normalised(sums.transitions + share, even),
        normalised(sums.emissions + prior.emissions * prior.shape, prior.frequencies),
    )


def leap(start: Chain, once: Chain, twice: Chain) -> Chain:
    """SQUAREM's leap (Varadhan & Roland 2008, step length S3) in square roots of probabilities, normalised again.

    Roots, not logarithms: rare symbols have probabilities near zero whose logarithms would set the length alone.
    """
    points = [np.sqrt(np.column_stack([m.start, m.transitions, m.emissions])) for m in (start, once, twice)]
    far = np.maximum(leap_of(points), 1e-3 * points[2]) ** 2
    K = len(start.start)
    return Chain(far[:, 0] / far[:, 0].sum(), *(_rows(far[:, 1 : K + 1]), _rows(far[:, K + 1 :])))


def _rows(values: Floats) -> Floats:
    return np.ascontiguousarray(values / values.sum(axis=1, keepdims=True))


def permuted(refined: Refined[Chain, ChainSums], order: NDArray[np.intp]) -> Refined[Chain, ChainSums]:
    """The same fit with its states in another order, statistics and all."""
    old = refined.sums
    sums = ChainSums(
        old.start[order], old.transitions[np.ix_(order, order)], np.ascontiguousarray(old.emissions[order]),
        old.log_likelihood,
    )  # fmt: skip
    return replace(refined, params=refined.params.permuted(order), sums=sums)
