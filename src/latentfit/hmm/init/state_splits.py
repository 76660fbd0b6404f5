"""States made into two: larger hidden Markov models grown out of smaller ones, without anything drawn.

Given the state of a step, its symbol and the symbols before and after are independent if the model is right. Where a
state hides two, they are not, and the direction in which they depend on one another parts the state's steps. For every
state the leading direction of a multiple correspondence analysis of (symbol before, symbol, symbol after), every step
weighted by the posterior of the state, is found by a few power iterations; its inertia times the state's weight says
what a split promises. The steps above and below the mean of that direction make two states.

Paper     splitting for hidden Markov models as in Ostendorf & Singer 1997 (maximum-likelihood successive state
          splitting), with the direction of a correspondence analysis in place of their alignment
Needs     a fitted model and its sequences
Promises  the same split for the same sequences in any order; nothing is random
Differs   all states are looked at, one pass of posteriors serves them

Symbols   γ   posterior   (N, K)   P(state of the step | sequences)
          z   scores      (N,)     the direction's value of every step
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.kernels.hmm import chain_posteriors
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.steps import Chain, normalised

POWERS = 12
"""Power iterations for a direction: it only has to part the steps roughly, EM does the rest."""
SOFT = 0.9
"""Posterior with which a step goes to its half; the rest goes to the other, so that no probability is zero."""


def splits(chain: Chain, data: Sequences, number: int, at_once: int = 1, threads: int = 1) -> list[tuple[str, Chain]]:
    """Models with `at_once` states more, at most `number` of them, the most promising splits first."""
    posterior, _ = chain_posteriors(data.chains, chain.start, chain.transitions, chain.emissions, threads=threads)
    around = _neighbours(data)
    directions = []
    for state in range(chain.n_states):
        weights = posterior[:, state] * (data.codes >= 0)
        scores, inertia = _direction(around, weights, data.n_symbols)
        directions.append((inertia * float(weights.sum()), state, scores))
    order = sorted(directions, key=lambda one: (-one[0], one[1]))
    groups = [order[first : first + at_once] for first in range(0, number * at_once, at_once)]
    return [
        ("split " + " ".join(str(state) for _, state, _ in group), _parted(chain, data, posterior, group))
        for group in groups
        if len(group) == at_once
    ]


def _neighbours(data: Sequences) -> list[NDArray[np.int64]]:
    """The symbol before, at and after every step (N,); where there is none, one more than the last symbol."""
    none = data.n_symbols
    here = np.where(data.codes >= 0, data.codes, none).astype(np.int64)
    before, after = (np.full(len(here), none, np.int64) for _ in range(2))
    at = data.within(1)
    before[at + 1], after[at] = here[at], here[at + 1]
    return [before, here, after]


def _direction(around: list[NDArray[np.int64]], weights: Floats, n_symbols: int) -> tuple[Floats, float]:
    """Scores of every step along the leading direction, and the proportion of variance beyond independence."""
    total = float(weights.sum())
    if total < 2:
        return np.zeros(len(weights)), 0.0
    masses = [np.bincount(part, weights, n_symbols + 1).astype(np.float64) for part in around]
    safe = [np.where(mass > 0, mass, 1.0) for mass in masses]
    values = [_first_values(mass, n_symbols + 1) for mass in masses]
    inertia, scores = 0.0, np.zeros(len(weights))
    for _ in range(POWERS):
        scores = values[0][around[0]] + values[1][around[1]] + values[2][around[2]]
        scores -= (weights @ scores) / total
        size = np.sqrt((weights @ scores**2) / total)
        if not size > 0:
            return np.zeros(len(weights)), 0.0
        scores /= size
        sums = [np.bincount(part, weights * scores, n_symbols + 1) for part in around]
        values = [one / mass for one, mass in zip(sums, safe, strict=True)]
        inertia = sum(float(mass @ value**2) for mass, value in zip(masses, values, strict=True)) / total
    return scores, max(inertia - 1, 0.0)  # three independent parts leave a direction with one of them: inertia 1


def _first_values(mass: Floats, size: int) -> Floats:
    """Where power iterations begin: some direction that no symmetry of the symbols can be orthogonal to."""
    return np.asarray(np.cos(np.arange(size) * 2.399963) / np.sqrt(np.maximum(mass, 1.0)))


def _parted(chain: Chain, data: Sequences, posterior: Floats, group: list[tuple[float, int, Floats]]) -> Chain:
    """The model in which the states of the group are two each."""
    K, new = chain.n_states, len(group)
    wide = np.hstack([posterior, np.zeros((len(posterior), new))])
    for place, (_, state, scores) in enumerate(group):
        proportion = np.where(scores > 0, SOFT, 1 - SOFT)
        wide[:, K + place] = posterior[:, state] * (1 - proportion)
        wide[:, state] = posterior[:, state] * proportion
    seen, at = data.codes >= 0, data.within(1)
    counts = [np.bincount(data.codes[seen], column[seen], data.n_symbols) for column in wide.T]
    emissions = np.stack(counts).astype(np.float64)
    owner = np.concatenate([np.arange(K), [state for _, state, _ in group]])
    old = chain.emissions[owner]
    # Neighbours' posteriors as if independent, tied to the model's own moves, which know that they are not.
    moves = (wide[at].T @ wide[at + 1]) * _ratio(chain, posterior, at)[np.ix_(owner, owner)]
    start = wide[data.offsets[:-1][np.diff(data.offsets) > 0]].sum(axis=0)
    even = np.full(K + new, 1 / (K + new))
    return Chain(
        0.95 * normalised(start, even) + 0.05 * even,
        0.98 * normalised(moves, even) + 0.02 * even,
        0.95 * normalised(emissions, old) + 0.05 * old,
    )


def _ratio(chain: Chain, posterior: Floats, at: NDArray[np.int64]) -> Floats:
    """How much more often states follow one another than their posteriors alone would say."""
    apart = posterior[at].T @ posterior[at + 1]
    together = chain.transitions * posterior[at].sum(axis=0)[:, None]
    return np.where(apart > 0, together / np.where(apart > 0, apart, 1.0), 1.0)
