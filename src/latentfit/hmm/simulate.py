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
    """Drawn sequences, the model they are drawn from, and the state of every step.

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
    """`n_steps` symbols of a random model, in `n_sequences` sequences of about equal length.

    A state's symbols are drawn from a Dirichlet distribution with that `concentration` (small: few symbols each), and
    a share `overlap` of its emissions is common to all states; it keeps to itself with at least `stay`.

    Examples
    --------
    >>> from latentfit import CategoricalHMM
    >>> from latentfit.simulate import hidden_markov
    >>> drawn = hidden_markov(2000, n_symbols=10, random_state=0)
    >>> CategoricalHMM(2).fit(drawn.sequences).emissions_.shape
    (2, 10)
    """
    shares = 0 <= overlap <= 1 and 0 <= stay <= 1
    if not (1 <= n_sequences <= n_steps and n_states > 0 and n_symbols > 0 and shares and concentration > 0):
        raise DataError(
            f"n_steps={n_steps}, n_states={n_states}, n_symbols={n_symbols}, n_sequences={n_sequences}, "
            f"overlap={overlap}, stay={stay}, concentration={concentration}; give at least one of each, a step for "
            "every sequence, overlap and stay from 0 to 1, and a concentration above 0"
        )
    rng = np.random.default_rng(random_state)
    common = rng.dirichlet(np.ones(n_symbols))
    own = rng.dirichlet(np.full(n_symbols, concentration), n_states)
    emissions = (1 - overlap) * own + overlap * common
    transitions = stay * np.eye(n_states) + (1 - stay) * rng.dirichlet(np.ones(n_states), n_states)
    chain = Chain(np.full(n_states, 1 / n_states), transitions, emissions)
    return draw_sequences(chain, n_steps, n_sequences, rng)


def draw_sequences(chain: Chain, n_steps: int, n_sequences: int, rng: np.random.Generator) -> HiddenMarkov:
    """Sequences of a given model.

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
