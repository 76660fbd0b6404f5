"""Helpers of the matplotlib plots: figures without pyplot, one palette, annotated cells and stacked bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentfit.core.errors import DataError

MOST_NAMES = 60
"""Bars up to which names are written below them; more are not legible."""

COLOURS = (
    "#1b6ca8", "#e08214", "#3a923a", "#c1272d", "#8f63b8", "#8c6d4f", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
STRONG, PALE, UNSURE, GREY = "#1b6ca8", "#9db8cf", "#c1272d", "#7f7f7f"
"""Main series, secondary series, warning, reference."""
DARK = 0.65
"""Fraction of a colour scale (Blues, Greys, RdBu) above which white text is more legible than black."""


def check_drawable(model: Any, kind: type) -> None:
    """Check that `model` is a fitted estimator of this class."""
    if not isinstance(model, kind):
        raise DataError(f"model must be a fitted {kind.__name__}, got {type(model).__name__}")
    check_is_fitted(model)


def new_figure(width: float, height: float) -> Any:
    """A matplotlib figure without pyplot, hence without global state and window."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        message = "plots need matplotlib, which is not installed; run pip install 'latentfit[plot]'"
        raise ModuleNotFoundError(message, name=error.name) from error

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float, height: float) -> Any:
    """The axes of a new figure."""
    return new_figure(width, height).subplots()


def write_cells(ax: Any, values: Any, form: str, *, largest: float = 1.0, shades: Any = None, size: int = 8) -> None:
    """Write numbers into the cells of a heat map, in white where the colour (`shades`, else `values`) is dark."""
    dark = np.abs(values if shades is None else shades) > DARK * largest
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if dark[row, column] else "black"
        ax.text(column, row, form.format(value), ha="center", va="center", size=size, color=colour)


def stack_bars(ax: Any, places: Any, proportions: Any, colours: Iterable[int], names: Sequence[str] = ()) -> None:
    """Stacked bars of proportions (bars, parts), each part in the colour of that index."""
    bottom = np.zeros(len(proportions))
    for k, colour in enumerate(colours):
        name = names[k] if names else ""
        ax.bar(places, proportions[:, k], bottom=bottom, width=1.0, color=COLOURS[colour % len(COLOURS)], label=name)
        bottom += proportions[:, k]
    ax.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    ax.set_ylim(0, 1)


def some_of(what: str, shown: int, total: int) -> str:
    """Label of an axis on which perhaps not all items are shown."""
    return what if shown == total else f"{what} ({shown} of {total})"
