"""How many hidden states: the smallest number that no larger one beats on sequences left out.

Models with 1, 2, … states are fitted to most of the sequences (long ones are cut into pieces) and compared on the rest,
piece by piece: one more state is worth having when the pieces' mean gain is `SURE` of its standard errors above zero.
The walk ends when `PATIENCE` larger numbers in a row were not worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.data.sequences import Sequences
from tacit.engine.chain import Chain, normalised
from tacit.kernels import Floats
from tacit.kernels.hmm import chain_log_likelihood
from tacit.progress import tried
from tacit.refine.chain_fit import NO_STATES, RACE_TOL, choose_smoothing, cut, most_raced, starts_of, thinned, unigram
from tacit.refine.chains import ChainSteps, chain_prior
from tacit.refine.starts import Entrant, halve

MOST_TRIED = 20
SURE = 1.5
MORE_DATA = 4
"""Steps looked at, in multiples of what a race of starts looks at: small gains need more data."""
FIRST_GAIN = 1e-3
"""Nats an observation that any states must gain over none: less is a matter of how both are smoothed."""
PATIENCE = 2
"""Larger numbers tried after the best: one start may be poor where the next is good."""
RANDOM_STARTS = 3
SPLITS = 2
"""States of the model before, the heaviest, that are split for a start."""
ROUNDS = (8, 8, 16)
MOST_PASSES = 100
FIRST_STRENGTHS = (1.0, 8.0, 64.0, 512.0, 4096.0)


@dataclass(frozen=True)
class StatesPath:
    """Log-likelihood an observation of what was left out, for 1, 2, … states; none where nothing could be."""

    chosen: int
    held_out: list[float]
    errors: list[float]  # standard error of the gain on the number before

    def told(self) -> str:
        """One sentence for the report."""
        if not self.held_out:
            return "1 state: there are too few steps to leave any out, and nothing else tells how many states there are"
        shown = ", ".join(f"{value:.4f}" for value in self.held_out)
        return f"{self.chosen} states: log-likelihoods an observation of sequences left out for 1, 2, … are {shown}"

    def as_dict(self) -> dict[str, Any]:
        return {"chosen": self.chosen, "held_out": self.held_out}


def choose_states(data: Sequences, *, seed: int = 0, threads: int = 1) -> StatesPath:
    """Walk 1, 2, … states and choose."""
    split = cut(data, seed, share=0.25)
    if split.held is split.learn:
        return StatesPath(1, [], [])
    learn, held = (thinned(part, MORE_DATA * most_raced(data), seed) for part in (split.learn, split.held))
    steps = ChainSteps(learn, chain_prior(data, 1.0), threads)  # symbols of what is left out are known
    chain, told = unigram(learn, held, steps.prior)[0], []
    told.append(_by_piece(chain, held))
    chosen = 1
    strengths: Sequence[float] = FIRST_STRENGTHS
    errors = [0.0]
    cells = max(held.n_observed, 1)
    if not len(learn.within(1)) or not len(held.within(1)) or data.n_symbols < 2:
        return StatesPath(1, [float(told[0].sum()) / cells], errors)
    for K in tried(range(2, MOST_TRIED + 1), "states"):
        chain, strength = _fit(steps, held, K, chain, strengths, seed)
        strengths = (strength / 4, strength, strength * 4)
        told.append(_by_piece(chain, held))
        gain = told[-1] - told[chosen - 1]
        error = float(np.sqrt(np.square(gain - gain.mean()).sum()))
        errors.append(error / cells)
        if float(gain.sum()) > SURE * error + (FIRST_GAIN * cells if chosen == 1 else 0.0):
            chosen = K
        elif K - chosen >= PATIENCE:
            break
    return StatesPath(chosen, [float(one.sum()) / cells for one in told], errors)


def last_state_gain(data: Sequences, n_states: int, *, seed: int = 0, threads: int = 1) -> tuple[float, float] | None:
    """What the last state gains on sequences left out, in nats an observation, and the standard error of that.

    Both halves of the pieces take their turn at being left out; None where there is one piece.
    """
    halves = cut(data, seed + 1, share=0.5)
    if halves.held is halves.learn:
        return None
    prior = chain_prior(data, 1.0)
    gains, cells = [], 0
    for learn, held in ((halves.learn, halves.held), (halves.held, halves.learn)):
        steps = ChainSteps(thinned(learn, most_raced(data), seed), prior, threads)
        held = thinned(held, most_raced(data), seed)
        fewer, more = _rivals(steps, held, n_states, seed)
        gains.append(_by_piece(more, held) - _by_piece(fewer, held))
        cells += held.n_observed
    gain = np.concatenate(gains)
    return float(gain.sum()) / max(cells, 1), float(np.sqrt(np.square(gain - gain.mean()).sum())) / max(cells, 1)


def _rivals(steps: ChainSteps, held: Sequences, n_states: int, seed: int) -> tuple[Chain, Chain]:
    """Models with one state fewer, and with all; the smaller one also gets the best of what the larger one found."""
    fewer, _ = unigram(steps.data, held, steps.prior)
    strengths = FIRST_STRENGTHS
    if n_states == 2:
        return fewer, _fit(steps, held, 2, fewer, strengths, seed)[0]
    fewer, strength = _fit(steps, held, n_states - 1, fewer, strengths, seed)
    more, strength = _fit(steps, held, n_states, fewer, (strength / 4, strength, strength * 4), seed)
    alike = steps.with_strength(strength)
    entrants = [Entrant("fewer", alike, fewer)]
    entrants += [Entrant(f"without {k}", alike, without_state(more, k)) for k in range(n_states)]
    return halve(entrants, rounds=ROUNDS, max_iter=MOST_PASSES, tol=RACE_TOL, accelerate=True).refined.params, more


def _fit(
    steps: ChainSteps, held: Sequences, K: int, before: Chain, strengths: Sequence[float], seed: int
) -> tuple[Chain, float]:
    """A model of K states: from the moments, from one state fewer with one of them split, and from random models."""
    rng = np.random.default_rng([seed, K, 3])
    starts = starts_of(steps.data, K, "auto", RANDOM_STARTS, rng)
    if before.n_states == K - 1:
        starts += [(f"split {state}", split_state(before, state, rng)) for state in _heaviest(before)]
    prior, _, _ = choose_smoothing(steps, starts[0][1], held, strengths)
    steps = replace(steps, prior=prior)
    entrants = [Entrant(name, steps, start) for name, start in starts]
    raced = halve(entrants, rounds=ROUNDS, max_iter=MOST_PASSES, tol=RACE_TOL, accelerate=True)
    return raced.refined.params, max(prior.emissions, 1.0) if prior.emissions < NO_STATES else FIRST_STRENGTHS[-1]


def _heaviest(chain: Chain) -> list[int]:
    return [int(state) for state in np.argsort(-chain.stationary(), kind="stable")[:SPLITS]]


def split_state(chain: Chain, state: int, rng: np.random.Generator) -> Chain:
    """The same model with one state made into two that differ a little at random."""
    order = np.append(np.arange(chain.n_states), state)
    wider = chain.permuted(order)
    share = np.ones(len(order))
    share[[state, -1]] = 0.5
    emissions = wider.emissions.copy()
    emissions[[state, -1]] *= rng.exponential(size=(2, emissions.shape[1]))
    transitions = wider.transitions * share * rng.uniform(0.7, 1.3, wider.transitions.shape)
    start = wider.start * share
    return Chain(start / start.sum(), *(one / one.sum(axis=1, keepdims=True) for one in (transitions, emissions)))


def without_state(chain: Chain, state: int) -> Chain:
    """The same model with one state left out; what went there goes in proportion elsewhere."""
    smaller = chain.permuted(np.delete(np.arange(chain.n_states), state))
    even = np.full(smaller.n_states, 1 / smaller.n_states)
    return Chain(normalised(smaller.start, even), normalised(smaller.transitions, even), smaller.emissions)


def _by_piece(chain: Chain, held: Sequences) -> Floats:
    return chain_log_likelihood(held.chains, chain.start, chain.transitions, chain.emissions)
