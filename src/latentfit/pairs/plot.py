"""Pictures of a pair matrix: items in the plane of two of their embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.canvas import GREY, STRONG, check_drawable, new_axes
from latentfit.core.errors import DataError
from latentfit.pairs.diagnostics.rank_test import LEVEL
from latentfit.pairs.estimator import PairMatrix

MOST_NAMES = 60
"""Items whose names are written: more cannot be read."""
LEAST_P_VALUE = 1e-16
"""p-values below it are drawn as it."""


def plot_items(
    model: PairMatrix, *, components: tuple[int, int] = (0, 1), names: int = MOST_NAMES, ax: Any = None
) -> Any:
    """Items of a fitted `latentfit.PairMatrix` as points, areas by frequency, the names of the most telling ones
    written.

    At rank 2 there is one embedding: it stands against the marginal. Names go to the items that move most probability,
    the size of Δ over both components.

    Parameters
    ----------
    model : PairMatrix
        Fitted model.
    components : tuple of int, default (0, 1)
        The two embeddings to draw.
    names : int, default 60
        Largest number of items whose names are written.
    ax : matplotlib Axes or None, default None
        Axes to draw on; None makes a figure.

    Returns
    -------
    matplotlib Axes
        What was drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.pairs.plot import plot_items
    >>> data = latentfit.simulate.pairs(60, 3000, "topics", n_components=3, random_state=0).counts
    >>> model = latentfit.PairMatrix(3).fit(data)
    >>> plot_items(model).get_xlabel()
    'component 1'
    """
    check_drawable(model, PairMatrix)
    rank = len(model.components_)
    wanted: list[int] = [0] if rank == 1 else list(components)
    if rank < 1 or max(wanted) >= rank or min(wanted) < 0:
        raise DataError(f"components must be two numbers from 0 to {rank - 1}, got {components}")
    x = model.components_[wanted[0]]
    y = np.log10(np.maximum(model.marginal_, 1e-300)) if rank == 1 else model.components_[wanted[-1]]
    ax = new_axes(7, 7) if ax is None else ax
    sizes = 4 + 400 * np.sqrt(model.marginal_ / model.marginal_.max())
    ax.scatter(x, y, s=sizes, alpha=0.25, linewidth=0)
    for at in informative_items(model, wanted)[:names]:
        ax.annotate(str(model.items_[at]), (x[at], y[at]), fontsize=7, ha="center", va="center")
    ax.axvline(0, color="grey", linewidth=0.5)
    ax.set_xlabel(f"component {wanted[0] + 1}")
    ax.set_ylabel("log₁₀ of the marginal" if rank == 1 else f"component {wanted[-1] + 1}")
    if rank > 1:
        ax.axhline(0, color="grey", linewidth=0.5)
    return ax


def plot_marginal(model: PairMatrix, *, ax: Any = None) -> Any:
    """How often items occur, the most frequent first, on logarithmic scales.

    Parameters
    ----------
    model : PairMatrix
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
    >>> from latentfit.pairs.plot import plot_marginal
    >>> counts = latentfit.simulate.pairs(60, 3000, "zipf", random_state=0).counts
    >>> plot_marginal(latentfit.PairMatrix().fit(counts)).get_xlabel()
    'rank of the item'
    """
    check_drawable(model, PairMatrix)
    ax = new_axes(5, 4) if ax is None else ax
    ranked = np.sort(model.marginal_)[::-1]
    ax.loglog(np.arange(1, len(ranked) + 1), np.maximum(ranked, 1e-300), color=STRONG)
    ax.set_xlabel("rank of the item")
    ax.set_ylabel("probability")
    return ax


def plot_ranks(model: PairMatrix, *, ax: Any = None) -> Any:
    """The test of every rank: p-values of so many components being enough; below the line one more is seen.

    Parameters
    ----------
    model : PairMatrix
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
    >>> from latentfit.pairs.plot import plot_ranks
    >>> counts = latentfit.simulate.pairs(60, 3000, "zipf", random_state=0).counts
    >>> plot_ranks(latentfit.PairMatrix(None).fit(counts)).get_xlabel()
    'components'
    """
    check_drawable(model, PairMatrix)
    p_values = rank_tests(model)
    if not p_values:
        raise DataError("the model keeps no test of its rank: its file is an old one; fit it again")
    ax = new_axes(5, 4) if ax is None else ax
    ax.plot(range(1, len(p_values) + 1), np.maximum(p_values, LEAST_P_VALUE), "o-", color=STRONG)
    ax.axhline(LEVEL, color=GREY, linestyle=":", label=f"level {LEVEL:g}")
    ax.axvline(model.n_components_, color=GREY, linewidth=0.8, label="fitted")
    ax.set_yscale("log")
    ax.set_xticks(range(1, max(len(p_values), model.n_components_) + 1))
    ax.set_xlabel("components")
    ax.set_ylabel("p-value: no more are needed")
    ax.legend(frameon=False)
    return ax


# --------------------------------------------------------------------- numbers


def informative_items(model: PairMatrix, components: Sequence[int]) -> NDArray[np.intp]:
    """Items by how much probability they move, |Δ| over the given components, the most first."""
    moved = sum(np.abs(model.components_[at]) * model.marginal_ for at in components)
    return np.argsort(-np.asarray(moved), kind="stable")


def rank_tests(model: PairMatrix) -> list[float]:
    """p-values of rank 1, 2, … up to the first that stands; none in files of old."""
    return [float(p) for p in model.report_.quantities.get("structure_p_values", [])]
