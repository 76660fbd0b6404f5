"""Pictures of hidden Markov models: where states go, and which state a sequence was in."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit.errors import DataError
from tacit.models.categorical_hmm import CategoricalHMM
from tacit.plot.canvas import COLOURS

MOST_WRITTEN = 12
"""States up to which probabilities are written into the map."""
SHOWN = 4
"""Symbols named beside a state: those that tell most of it."""
MOST_STEPS = 2000
"""Steps of a timeline that a picture can show."""


def plot_transitions(model: CategoricalHMM, *, ax: Any = None) -> Any:
    """A map of the transitions, each state named with the symbols that tell most of it.

    Returns the axes; ``ax.figure.savefig(…)`` keeps the picture.

    Examples
    --------
    >>> from tacit import CategoricalHMM
    >>> from tacit.plot.sequences import plot_transitions
    >>> model = CategoricalHMM(2, smoothing=1.0).fit([list("aabbaaabbbb"), list("bbbbaaaabb")] * 5)
    >>> plot_transitions(model).get_xlabel()
    'next state'
    """
    _check(model)
    ax = _axes((1.6 + 0.55 * model.n_states_, 1.2 + 0.5 * model.n_states_)) if ax is None else ax
    ax.imshow(model.transitions_, vmin=0, vmax=1, cmap="Greys")
    names = [f"{state}: {' '.join(words)}" for state, words in enumerate(telling_symbols(model))]
    ax.set_xticks(range(model.n_states_))
    ax.set_yticks(range(model.n_states_), names)
    ax.set_xlabel("next state")
    if model.n_states_ <= MOST_WRITTEN:
        for (i, j), value in np.ndenumerate(model.transitions_):
            ax.text(j, i, f"{value:.2f}", ha="center", va="center", size=8, color="white" if value > 0.5 else "black")
    return ax


def plot_states(model: CategoricalHMM, sequence: Any, *, begin: int = 0, end: int | None = None, ax: Any = None) -> Any:
    """Probability of every state along one sequence, stacked, from step `begin` up to `end`; gaps are hatched.

    Examples
    --------
    >>> from tacit import CategoricalHMM
    >>> from tacit.plot.sequences import plot_states
    >>> model = CategoricalHMM(2, smoothing=1.0).fit([list("aabbaaabbbb"), list("bbbbaaaabb")] * 5)
    >>> plot_states(model, list("aaabbbaab")).get_ylabel()
    'probability of the state'
    """
    _check(model)
    data = model._read(sequence, None, None)
    if data.n_sequences != 1:
        raise DataError(f"{data.n_sequences} sequences are given; give the one to draw")
    end = min(data.n_steps, begin + MOST_STEPS) if end is None else end
    if not 0 <= begin < end <= data.n_steps:
        raise DataError(f"begin={begin}, end={end} of a sequence of {data.n_steps} steps; give a part of it")
    shares = model._posteriors(data)[begin:end]
    ax = _axes((9.0, 2.2)) if ax is None else ax
    place, bottom = np.arange(begin + 1, end + 1), np.zeros(end - begin)
    for state in range(model.n_states_):
        colour = COLOURS[state % len(COLOURS)]
        ax.bar(place, shares[:, state], bottom=bottom, width=1.0, color=colour, label=str(state))
        bottom += shares[:, state]
    missing = place[data.codes[begin:end] < 0]
    ax.bar(missing, np.ones(len(missing)), width=1.0, fill=False, hatch="///", linewidth=0)
    ax.set_xlim(begin + 0.5, end + 0.5)
    ax.set_ylim(0, 1)
    ax.set_xlabel("position")
    ax.set_ylabel("probability of the state")
    ax.legend(title="state", frameon=False, ncols=min(model.n_states_, 10), loc="lower left", bbox_to_anchor=(0, 1.0))
    return ax


def telling_symbols(model: CategoricalHMM, number: int = SHOWN) -> list[list[str]]:
    """The symbols of every state that it shows most beyond their share."""
    share = np.maximum(model.weights_ @ model.emissions_, 1e-300)
    lift = model.emissions_ * np.log(np.maximum(model.emissions_, 1e-300) / share)
    value = lift if model.n_states_ > 1 else model.emissions_
    return [
        [str(model.symbols_[place]) for place in np.argsort(-row, kind="stable")[:number] if row[place] > 0]
        for row in value
    ]


def _check(model: Any) -> None:
    if not isinstance(model, CategoricalHMM):
        raise DataError(f"got {type(model).__name__}; give a fitted CategoricalHMM")
    check_is_fitted(model)


def _axes(size: tuple[float, float]) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()
