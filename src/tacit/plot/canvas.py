"""What pictures are drawn on: figures without a window, and colours that classes keep from picture to picture."""

from __future__ import annotations

from typing import Any

COLOURS = (
    "#1b6ca8", "#e08214", "#3a923a", "#c1272d", "#8f63b8", "#8c6d4f", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
STRONG, PALE, DOUBT, GREY = "#1b6ca8", "#9db8cf", "#c1272d", "#7f7f7f"
"""What matters, what stands beside it, what is in doubt, what is only for comparison."""


def new_axes(width: float, height: float) -> Any:
    """Axes of a figure that belongs to nobody: no pyplot, so no global state and no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()
