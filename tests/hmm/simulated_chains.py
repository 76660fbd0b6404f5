"""Constructed sequences for verdicts on hidden states: sound ones, and ones below what any method can tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.hmm.data import Sequences
from latentfit.hmm.em.steps import Chain
from latentfit.simulate import draw_sequences, hidden_markov


@dataclass(frozen=True)
class World:
    kind: str
    data: Sequences
    n_states: int


def sound(seed):
    """Two to five states whose symbols differ, a hundred and more observations per symbol."""
    rng = np.random.default_rng([1, seed])
    K, M = int(rng.integers(2, 6)), int(rng.choice([20, 50, 100]))
    N = int(rng.choice([150, 300])) * M + 10_000
    made = hidden_markov(
        N, n_states=K, n_symbols=M, n_sequences=int(rng.choice([1, 1, 50])), overlap=float(rng.choice([0.1, 0.2])),
        stay=float(rng.choice([0.6, 0.8])), random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    return World("sound", made.sequences, K)


def independent(rng):
    """Symbols drawn one by one."""
    M, K = int(rng.choice([10, 50, 200])), int(rng.integers(2, 5))
    chain = Chain(np.ones(1), np.ones((1, 1)), rng.dirichlet(np.ones(M), 1))
    return draw_sequences(chain, int(rng.choice([3000, 10_000])), 1, rng).sequences, K


def too_short(rng):
    """Theorem 1.6's class: two disjoint halves of the alphabet, transition 1/4, fewer observations than symbols."""
    M = int(rng.choice([400, 1000]))
    half = rng.permutation(M) < M // 2
    emissions = np.stack([half, ~half]) / (M / 2)
    chain = Chain(np.full(2, 0.5), np.array([[0.75, 0.25], [0.25, 0.75]]), emissions)
    return draw_sequences(chain, int(M * rng.uniform(0.3, 0.95)), 1, rng).sequences, 2


def same_symbols(rng):
    """States that show the same symbols: a chain nobody can see."""
    M, K = int(rng.choice([10, 50])), int(rng.integers(2, 4))
    emissions = np.repeat(rng.dirichlet(np.ones(M), 1), K, axis=0)
    transitions = 0.7 * np.eye(K) + 0.3 / K
    return draw_sequences(Chain(np.full(K, 1 / K), transitions, emissions), 8000, 1, rng).sequences, K


def no_memory(rng):
    """States that are forgotten at once: a mixture, of which pairs show nothing."""
    M, K = int(rng.choice([20, 50])), int(rng.integers(2, 4))
    weights = rng.dirichlet(np.full(K, 5.0))
    chain = Chain(weights, np.repeat(weights[None], K, axis=0), rng.dirichlet(np.full(M, 0.2), K))
    return draw_sequences(chain, 8000, 1, rng).sequences, K


def too_many(rng):
    """More states asked for than there are."""
    K, M = int(rng.integers(2, 5)), int(rng.choice([20, 50]))
    made = hidden_markov(8000, n_states=K, n_symbols=M, overlap=0.2, random_state=int(rng.integers(2**31)))
    return made.sequences, K + int(rng.integers(1, 3))


def pairs_alone(rng):
    """Sequences of two steps: bigrams fix no model."""
    made = hidden_markov(
        10_000, n_states=2, n_symbols=20, n_sequences=5000, overlap=0.1, random_state=int(rng.integers(2**31))
    )
    return made.sequences, 2


def nearly_nothing(rng):
    """A hundred observations."""
    made = hidden_markov(100, n_states=3, n_symbols=30, overlap=0.3, random_state=int(rng.integers(2**31)))
    return made.sequences, 3


HOPELESS = [independent, too_short, same_symbols, no_memory, too_many, pairs_alone, nearly_nothing]


def hopeless(seed):
    make = HOPELESS[seed % len(HOPELESS)]
    data, K = make(np.random.default_rng([2, seed]))
    return World(make.__name__, data, K)
