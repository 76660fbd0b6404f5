"""What pictures are drawn on and with: figures without a window, colours that classes keep, cells and bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentfit.core.errors import DataError

MOST_NAMES = 60
"""People whose names are written below their bars: more cannot be read."""

COLOURS = (
    "#1b6ca8", "#e08214", "#3a923a", "#c1272d", "#8f63b8", "#8c6d4f", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
STRONG, PALE, DOUBT, GREY = "#1b6ca8", "#9db8cf", "#c1272d", "#7f7f7f"
"""What matters, what stands beside it, what is in doubt, what is only for comparison."""
DARK = 0.65
"""Where white is read better than black on the scales of heat maps (Blues, Greys, RdBu), as a share of their end."""


def check_drawable(model: Any, kind: type) -> None:
    """A picture is of one kind of fitted model."""
    if not isinstance(model, kind):
        raise DataError(f"got {type(model).__name__}; give a fitted {kind.__name__}")
    check_is_fitted(model)


def new_figure(width: float, height: float) -> Any:
    """A figure that belongs to nobody: no pyplot, so no global state and no window."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        sentence = "pictures are drawn with matplotlib, which is not installed; give pip install 'latentfit[plot]'"
        raise ModuleNotFoundError(sentence, name=error.name) from error

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def new_axes(width: float, height: float) -> Any:
    """The axes of such a figure."""
    return new_figure(width, height).subplots()


def write_cells(ax: Any, values: Any, form: str, *, largest: float = 1.0, shades: Any = None, size: int = 8) -> None:
    """Numbers in the cells of a heat map, white where its colour, as `shades` or the numbers say, is near the end."""
    dark = np.abs(values if shades is None else shades) > DARK * largest
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if dark[row, column] else "black"
        ax.text(column, row, form.format(value), ha="center", va="center", size=size, color=colour)


def stack_bars(ax: Any, places: Any, shares: Any, colours: Iterable[int], names: Sequence[str] = ()) -> None:
    """Shares (bars, parts) on top of one another, each part in the colour of that number."""
    bottom = np.zeros(len(shares))
    for k, colour in enumerate(colours):
        name = names[k] if names else ""
        ax.bar(places, shares[:, k], bottom=bottom, width=1.0, color=COLOURS[colour % len(COLOURS)], label=name)
        bottom += shares[:, k]
    ax.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    ax.set_ylim(0, 1)


def some_of(what: str, shown: int, total: int) -> str:
    """The name of an axis on which perhaps not all are shown."""
    return what if shown == total else f"{what} ({shown} of {total})"
