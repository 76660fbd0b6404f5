"""Sequences of symbols with known hidden states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.hmm.data import Sequences
from latentfit.hmm.em.steps import Chain, draw_path, draw_symbols

__all__ = ["HiddenMarkov", "draw_sequences", "hidden_markov"]


@dataclass(frozen=True)
class HiddenMarkov:
    """Simulated sequences with known hidden states.

    Attributes
    ----------
    sequences : Sequences
        The observed symbols.
    chain : Chain
        The model that they were drawn from.
    states : ndarray of shape (n_steps,)
        Hidden state of each step.

    Examples
    --------
    >>> from latentfit.simulate import hidden_markov
    >>> drawn = hidden_markov(1000, n_states=3, n_symbols=20, n_sequences=4)
    >>> drawn.states.shape, drawn.chain.transitions.shape
    ((1000,), (3, 3))
    """

    sequences: Sequences
    chain: Chain
    states: NDArray[np.int32]


def hidden_markov(
    n_steps: int,
    *,
    n_states: int = 2,
    n_symbols: int = 50,
    n_sequences: int = 1,
    overlap: float = 0.3,
    stay: float = 0.6,
    concentration: float = 0.1,
    random_state: int = 0,
) -> HiddenMarkov:
    """Simulate sequences of symbols from a random hidden Markov model.

    Parameters
    ----------
    n_steps : int
        Total number of steps.
    n_states : int, default 2
        Number of hidden states.
    n_symbols : int, default 50
        Number of symbols.
    n_sequences : int, default 1
        Number of sequences, of about equal length.
    overlap : float, default 0.3
        Proportion of the emissions that is common to all states, from 0 to 1.
    stay : float, default 0.6
        Least probability of staying in a state, from 0 to 1.
    concentration : float, default 0.1
        Parameter of the Dirichlet distribution of a state's own emissions; small values give few symbols per state.
    random_state : int, default 0
        Seed.

    Returns
    -------
    HiddenMarkov
        The sequences, the model and the hidden states.

    Examples
    --------
    >>> from latentfit import CategoricalHMM
    >>> from latentfit.simulate import hidden_markov
    >>> drawn = hidden_markov(2000, n_symbols=10, random_state=0)
    >>> CategoricalHMM(2).fit(drawn.sequences).emissions_.shape
    (2, 10)
    """
    proportions = 0 <= overlap <= 1 and 0 <= stay <= 1
    if not (1 <= n_sequences <= n_steps and n_states > 0 and n_symbols > 0 and proportions and concentration > 0):
        raise DataError(
            "n_steps >= n_sequences >= 1, n_states >= 1, n_symbols >= 1, overlap and stay from 0 to 1 and "
            f"concentration > 0 must hold, got n_steps={n_steps}, n_sequences={n_sequences}, n_states={n_states}, "
            f"n_symbols={n_symbols}, overlap={overlap}, stay={stay}, concentration={concentration}"
        )
    rng = np.random.default_rng(random_state)
    common = rng.dirichlet(np.ones(n_symbols))
    own = rng.dirichlet(np.full(n_symbols, concentration), n_states)
    emissions = (1 - overlap) * own + overlap * common
    transitions = stay * np.eye(n_states) + (1 - stay) * rng.dirichlet(np.ones(n_states), n_states)
    chain = Chain(np.full(n_states, 1 / n_states), transitions, emissions)
    return draw_sequences(chain, n_steps, n_sequences, rng)


def draw_sequences(chain: Chain, n_steps: int, n_sequences: int, rng: np.random.Generator) -> HiddenMarkov:
    """Simulate sequences of symbols from a given model.

    Parameters
    ----------
    chain : Chain
        The model.
    n_steps : int
        Total number of steps.
    n_sequences : int
        Number of sequences, of about equal length.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    HiddenMarkov
        The sequences, the model and the hidden states.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.simulate import draw_sequences, hidden_markov
    >>> chain = hidden_markov(10, n_symbols=5).chain
    >>> len(draw_sequences(chain, 30, 3, np.random.default_rng(0)).states)
    30
    """
    offsets = np.arange(n_sequences + 1, dtype=np.int64) * n_steps // n_sequences
    states = np.concatenate([draw_path(chain, int(size), rng) for size in np.diff(offsets)])
    codes = draw_symbols(chain, states, rng)
    symbols = np.arange(chain.emissions.shape[1])
    return HiddenMarkov(Sequences(codes, offsets, symbols, np.arange(1, n_sequences + 1)), chain, states)
