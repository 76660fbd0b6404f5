"""Pictures of hidden Markov models: where states go, and which state a sequence was in."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.errors import DataError
from latentfit.models.categorical_hmm import CategoricalHMM
from latentfit.plot.canvas import check_drawable, new_axes, stack_bars, write_cells

MOST_WRITTEN = 12
"""States up to which probabilities are written into the map."""
SHOWN = 4
"""Symbols named beside a state: those that tell most of it."""
MOST_STEPS = 2000
"""Steps of a timeline that a picture can show."""


def plot_transitions(model: CategoricalHMM, *, ax: Any = None) -> Any:
    """A map of the transitions, each state named with the symbols that tell most of it.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.plot.sequences import plot_transitions
    >>> model = latentfit.CategoricalHMM(2, smoothing=1.0).fit([list("aabbaaabbbb"), list("bbbbaaaabb")] * 5)
    >>> plot_transitions(model).get_xlabel()
    'next state'
    """
    check_drawable(model, CategoricalHMM)
    ax = new_axes(1.6 + 0.55 * model.n_states_, 1.2 + 0.5 * model.n_states_) if ax is None else ax
    ax.imshow(model.transitions_, vmin=0, vmax=1, cmap="Greys")
    names = [f"{state}: {' '.join(words)}" for state, words in enumerate(telling_symbols(model))]
    ax.set_xticks(range(model.n_states_))
    ax.set_yticks(range(model.n_states_), names)
    ax.set_xlabel("next state")
    if model.n_states_ <= MOST_WRITTEN:
        write_cells(ax, model.transitions_, "{:.2f}")
    return ax


def plot_states(model: CategoricalHMM, sequence: Any, *, begin: int = 0, end: int | None = None, ax: Any = None) -> Any:
    """Probability of every state along one sequence, stacked, from step `begin` up to `end`; gaps are hatched.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.plot.sequences import plot_states
    >>> model = latentfit.CategoricalHMM(2, smoothing=1.0).fit([list("aabbaaabbbb"), list("bbbbaaaabb")] * 5)
    >>> plot_states(model, list("aaabbbaab")).get_ylabel()
    'probability of the state'
    """
    check_drawable(model, CategoricalHMM)
    data = model._read(sequence, None, None)
    if data.n_sequences != 1:
        raise DataError(f"{data.n_sequences} sequences are given; give the one to draw")
    end = min(data.n_steps, begin + MOST_STEPS) if end is None else end
    if not 0 <= begin < end <= data.n_steps:
        raise DataError(f"begin={begin}, end={end} of a sequence of {data.n_steps} steps; give a part of it")
    shares = model._posteriors(data)[begin:end]
    ax = new_axes(9.0, 2.2) if ax is None else ax
    place, states = np.arange(begin + 1, end + 1), range(model.n_states_)
    stack_bars(ax, place, shares, states, [str(state) for state in states])
    missing = place[data.codes[begin:end] < 0]
    ax.bar(missing, np.ones(len(missing)), width=1.0, fill=False, hatch="///", linewidth=0)
    ax.set_xlabel("position")
    ax.set_ylabel("probability of the state")
    ax.legend(title="state", frameon=False, ncols=min(model.n_states_, 10), loc="lower left", bbox_to_anchor=(0, 1.0))
    return ax


# --------------------------------------------------------------------- numbers


def telling_symbols(model: CategoricalHMM, number: int = SHOWN) -> list[list[str]]:
    """The symbols of every state that it shows most beyond their share."""
    share = np.maximum(model.weights_ @ model.emissions_, 1e-300)
    lift = model.emissions_ * np.log(np.maximum(model.emissions_, 1e-300) / share)
    value = lift if model.n_states_ > 1 else model.emissions_
    return [
        [str(model.symbols_[place]) for place in np.argsort(-row, kind="stable")[:number] if row[place] > 0]
        for row in value
    ]
