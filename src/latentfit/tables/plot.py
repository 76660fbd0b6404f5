"""Pictures of latent classes: what tells them apart, which columns say most, how their number was found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.canvas import GREY, STRONG, check_drawable, new_axes, write_cells
from latentfit.core.errors import DataError
from latentfit.core.mixture.joint import JointPMF
from latentfit.tables.estimator.latent_class import LatentClass

MAX_CELLS = 24  # Categories in the picture of profiles: more cannot be read.
MAX_COLUMNS = 40  # Columns in the picture of information.
MOST_WRITTEN = 8  # Classes up to which probabilities are written into the map.


def plot_classes(model: LatentClass, *, most: int = MAX_CELLS, ax: Any = None) -> Any:
    """Heat map of the answers that tell classes apart: how probable each is in each class.

    Parameters
    ----------
    model : LatentClass
        A fitted model.
    most : int, default=24
        Largest number of answers (column = category).
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> import pandas as pd
    >>> import latentfit
    >>> from latentfit.tables.plot import plot_classes
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 30, "rain": ["yes", "no"] * 30, "wind": ["w", "w"] * 30})
    >>> plot_classes(latentfit.LatentClass(2).fit(frame)).get_xlabel()
    'class'
    """
    check_drawable(model, LatentClass)
    joint: JointPMF = model.joint_
    cells, names = informative_categories(joint, most)
    values, size = joint.mixture.table[cells], len(model.weights_)
    ax = new_axes(3.0 + 0.6 * size, 1.2 + 0.25 * len(cells)) if ax is None else ax
    image = ax.imshow(values, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="probability")
    if size <= MOST_WRITTEN:
        write_cells(ax, values, "{:.0%}", size=7)
    ax.set_xticks(range(size), [f"{k}\n{weight:.0%}" for k, weight in enumerate(model.weights_)])
    ax.set_yticks(range(len(cells)), names, fontsize=8)
    ax.set_xlabel("class")
    return ax


def plot_information(model: LatentClass, *, most: int = MAX_COLUMNS, ax: Any = None) -> Any:
    """Columns by the information they hold about the class, in nats.

    Parameters
    ----------
    model : LatentClass
        A fitted model.
    most : int, default=40
        Largest number of columns.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> import pandas as pd
    >>> import latentfit
    >>> from latentfit.tables.plot import plot_information
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 30, "rain": ["yes", "no"] * 30, "wind": ["w", "w"] * 30})
    >>> len(plot_information(latentfit.LatentClass(2).fit(frame)).patches)
    3
    """
    check_drawable(model, LatentClass)
    information = model.joint_.class_information()
    order = np.argsort(-information, kind="stable")[:most]
    ax = new_axes(6, 1.2 + 0.22 * len(order)) if ax is None else ax
    ax.barh(range(len(order)), information[order], color=STRONG)
    ax.set_yticks(range(len(order)), [str(model.joint_.columns[n].name) for n in order], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("information about the class, nats")
    return ax


def plot_selection(model: LatentClass, *, ax: Any = None) -> Any:
    """The criterion that chose the number of classes, by that number: the likelihood of hidden cells, or BIC.

    Parameters
    ----------
    model : LatentClass
        A fitted model that chose its number of classes.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes with the picture.

    Examples
    --------
    >>> import pandas as pd
    >>> import latentfit
    >>> from latentfit.tables.plot import plot_selection
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 30, "rain": ["yes", "no"] * 30, "wind": ["w", "w"] * 30})
    >>> plot_selection(latentfit.LatentClass().fit(frame)).get_xlabel()
    'classes'
    """
    check_drawable(model, LatentClass)
    if not model.selection_:
        raise DataError(f"the number of classes was given ({model.n_components_}); fit with n_components=None")
    curve = model.selection_
    ax = new_axes(6, 4) if ax is None else ax
    ax.plot(curve["n_components"], curve["value"], "o-", color=STRONG)
    ax.axvline(model.n_components_, color=GREY, linestyle=":", label="chosen")
    ax.set_xticks(curve["n_components"])
    ax.set_xlabel("classes")
    ax.set_ylabel(str(curve["criterion"]))
    ax.legend(frameon=False)
    return ax


# --------------------------------------------------------------------- numbers


def informative_categories(joint: JointPMF, most: int) -> tuple[NDArray[np.intp], list[str]]:
    """Rows of the mixture's table whose probability differs most between classes, column by column, and their names.

    Of a two-valued column one category is enough: the other is what it is not.
    """
    weights, table, offsets = joint.mixture.weights, joint.mixture.table, joint.mixture.column_offsets
    spread = np.sqrt(np.maximum(((table - (table @ weights)[:, None]) ** 2) @ weights, 0.0))
    for n, column in enumerate(joint.columns):
        if column.size == 2:
            spread[offsets[n]] = -1.0
    cells = np.argsort(-spread, kind="stable")[: min(most, int((spread >= 0).sum()))]
    owner = np.searchsorted(offsets, cells, side="right") - 1
    cells = cells[np.argsort(owner, kind="stable")]
    names = [
        f"{joint.columns[n].name} = {joint.columns[n].categories[cell - offsets[n]]}"
        for n, cell in zip(np.sort(owner).tolist(), cells.tolist(), strict=True)
    ]
    return cells, names
