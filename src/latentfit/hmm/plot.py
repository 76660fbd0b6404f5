"""Pictures of hidden Markov models: where states go, and which state a sequence was in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentfit.core.canvas import COLOURS, GREY, check_drawable, new_axes, stack_bars, write_cells
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.hmm.estimator import CategoricalHMM

MOST_WRITTEN = 12
"""States up to which probabilities are written into the map."""
SHOWN = 4
"""Symbols named beside a state: those that tell most of it."""
MOST_STEPS = 2000
"""Steps of a timeline that a picture can show."""


def plot_transitions(model: CategoricalHMM, *, ax: Any = None) -> Any:
    """A map of the transitions, each state named with the symbols that tell most of it.

    Parameters
    ----------
    model : CategoricalHMM
        Fitted model.
    ax : matplotlib Axes or None, default None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.hmm.plot import plot_transitions
    >>> model = latentfit.CategoricalHMM(2, smoothing=1.0).fit([list("aabbaaabbbb"), list("bbbbaaaabb")] * 5)
    >>> plot_transitions(model).get_xlabel()
    'next state'
    """
    check_drawable(model, CategoricalHMM)
    ax = new_axes(1.6 + 0.55 * model.n_states_, 1.2 + 0.5 * model.n_states_) if ax is None else ax
    ax.imshow(model.transitions_, vmin=0, vmax=1, cmap="Greys")
    names = [f"{state}: {' '.join(words)}" for state, words in enumerate(informative_symbols(model))]
    ax.set_xticks(range(model.n_states_))
    ax.set_yticks(range(model.n_states_), names)
    ax.set_xlabel("next state")
    if model.n_states_ <= MOST_WRITTEN:
        write_cells(ax, model.transitions_, "{:.2f}")
    return ax


def plot_states(model: CategoricalHMM, sequence: Any, *, begin: int = 0, end: int | None = None, ax: Any = None) -> Any:
    """Probability of every state along one sequence, stacked, from step `begin` to `end`; missing values are hatched.

    Parameters
    ----------
    model : CategoricalHMM
        Fitted model.
    sequence : array, list or str
        One sequence of symbols.
    begin : int, default 0
        First step.
    end : int or None, default None
        Step after the last; None draws as many steps as can be read.
    ax : matplotlib Axes or None, default None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.hmm.plot import plot_states
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
    proportions = model._posteriors(data)[begin:end]
    ax = new_axes(9.0, 2.2) if ax is None else ax
    place, states = np.arange(begin + 1, end + 1), range(model.n_states_)
    stack_bars(ax, place, proportions, states, [str(state) for state in states])
    missing = place[data.codes[begin:end] < 0]
    ax.bar(missing, np.ones(len(missing)), width=1.0, fill=False, hatch="///", linewidth=0)
    ax.set_xlabel("position")
    ax.set_ylabel("probability of the state")
    ax.legend(title="state", frameon=False, ncols=min(model.n_states_, 10), loc="lower left", bbox_to_anchor=(0, 1.0))
    return ax


# --------------------------------------------------------------------- numbers


def informative_symbols(model: CategoricalHMM, number: int = SHOWN) -> list[list[str]]:
    """The symbols of every state that it shows most beyond their share."""
    frequencies = np.maximum(model.weights_ @ model.emissions_, 1e-300)
    lift = model.emissions_ * np.log(np.maximum(model.emissions_, 1e-300) / frequencies)
    value = lift if model.n_states_ > 1 else model.emissions_
    return [
        [str(model.symbols_[place]) for place in np.argsort(-row, kind="stable")[:number] if row[place] > 0]
        for row in value
    ]


# -----------------------------------------------------------------------------
# The graph of a hidden Markov model: states on a circle, an arc for every way from one to another.

LEAST = 0.05
"""Ways that are taken less often are not drawn, but for the likeliest of a state."""
POINTS = 25
"""Points of an arc."""
BEND = 0.16
"""How far an arc leaves the straight line, as a share of its length: the two ways of a pair lie side by side."""
NODE, LOOP = 0.12, 0.17
"""Radius of a state, and of the loop of one that stays; the circle they stand on has radius one."""


@dataclass(frozen=True)
class Arc:
    """A way from one state to another: its curve (points, 2), and where its arrow stands and points to."""

    source: int
    target: int
    probability: float
    curve: Floats
    tip: tuple[float, float]
    angle: float  # degrees from the x axis, against the clock


@dataclass(frozen=True)
class StateGraph:
    """Places (states, 2) and arcs, the likeliest last so that it lies on top; `left_out` arcs were too seldom."""

    places: Floats
    arcs: list[Arc]
    left_out: int


def state_graph(transitions: Floats, least: float = LEAST) -> StateGraph:
    """States on a circle, the first at the top and on with the clock; arcs of at least `least` probability."""
    size = len(transitions)
    turn = np.pi / 2 - 2 * np.pi * np.arange(size) / max(size, 1)
    places = np.column_stack([np.cos(turn), np.sin(turn)]) if size > 1 else np.zeros((1, 2))
    drawn = transitions >= least
    drawn[np.arange(size), transitions.argmax(axis=1)] = True
    arcs = [
        _loop(int(i), places, float(transitions[i, j])) if i == j else _arc(int(i), int(j), places, transitions[i, j])
        for i, j in np.argwhere(drawn)
    ]
    return StateGraph(places, sorted(arcs, key=lambda arc: arc.probability), int((transitions > 0).sum() - len(arcs)))


def plot_state_graph(model: CategoricalHMM, *, ax: Any = None) -> Any:
    """States as circles (area by their share of the steps), arcs by how likely the way is.

    Ways below 5 % are not drawn, but for the likeliest of a state.

    Parameters
    ----------
    model : CategoricalHMM
        Fitted model.
    ax : matplotlib Axes or None, default None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.hmm.plot import plot_state_graph
    >>> model = latentfit.CategoricalHMM(2, smoothing=1.0).fit([list("aabbaaabbbb"), list("bbbbaaaabb")] * 5)
    >>> len(plot_state_graph(model).collections)
    2
    """
    check_drawable(model, CategoricalHMM)
    ax = new_axes(5.0, 5.0) if ax is None else ax
    graph = state_graph(model.transitions_)
    for arc in graph.arcs:
        ax.plot(*arc.curve.T, color=GREY, linewidth=0.5 + 4 * arc.probability, alpha=0.6, zorder=1)
        ax.annotate(
            "", xy=arc.curve[-2], xytext=arc.curve[-4], zorder=2,
            arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 0},
        )  # fmt: skip
        ax.text(*arc.tip, f"{arc.probability:.2f}", size=7, ha="center", va="center", zorder=4)
    for state, (x, y) in enumerate(graph.places):
        ax.scatter(x, y, s=300 + 2500 * model.weights_[state], color=COLOURS[state % len(COLOURS)], zorder=3)
        ax.text(x, y, str(state), ha="center", va="center", color="white", weight="bold", zorder=4)
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), aspect="equal", xticks=[], yticks=[])
    return ax


def _arc(source: int, target: int, places: Floats, probability: float) -> Arc:
    begin, end = places[source], places[target]
    along = end - begin
    length = float(np.linalg.norm(along))
    side = np.array([along[1], -along[0]]) / length
    pull = (begin + end) / 2 + 2 * BEND * length * side  # of a quadratic curve, whose middle comes half as far
    t = np.linspace(0, 1, POINTS)[:, None]
    curve = (1 - t) ** 2 * begin + 2 * t * (1 - t) * pull + t**2 * end
    outside = np.linalg.norm(curve - end, axis=1) > NODE
    outside &= np.linalg.norm(curve - begin, axis=1) > NODE
    return _curved(source, target, float(probability), curve[outside])


def _loop(state: int, places: Floats, probability: float) -> Arc:
    outward = places[state] if np.linalg.norm(places[state]) > 0 else np.array([0.0, 1.0])
    centre = places[state] + (NODE + LOOP * 0.8) * outward
    begin = np.arctan2(-outward[1], -outward[0])
    turn = begin + np.linspace(0.35, 2 * np.pi - 0.35, POINTS)
    return _curved(state, state, probability, centre + LOOP * np.column_stack([np.cos(turn), np.sin(turn)]))


def _curved(source: int, target: int, probability: float, curve: Floats) -> Arc:
    middle = len(curve) // 2
    along = curve[middle + 1] - curve[middle - 1]
    tip = (float(curve[middle, 0]), float(curve[middle, 1]))
    return Arc(source, target, probability, curve, tip, float(np.degrees(np.arctan2(along[1], along[0]))))
