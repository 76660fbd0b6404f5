"""Plots of ancestry: a bar for everyone, populations in colours that keep their meaning across K and across runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from latentfit.admixture.estimator import Admixture
from latentfit.core.assign import people_order
from latentfit.core.canvas import MOST_NAMES, check_drawable, new_figure, stack_bars
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats


def plot_ancestry(models: Any, *, groups: Any = None, axes: Any = None) -> Any:
    """Stacked bars of everyone's proportions, one row of bars for each model.

    Colours are matched from row to row: a population keeps the colour of the one it shares most people with, so the
    same ancestry looks the same for K = 2, 3, 4 and from run to run. People are in one order in all rows: by group
    if groups are given, then by their largest population and its proportion in the last model.

    Parameters
    ----------
    models : latentfit.Admixture, or a sequence of them
        Fitted models of the same people.
    groups : array-like of shape (n_people,), optional
        Names of groups, written below their people.
    axes : sequence of matplotlib.axes.Axes, optional
        One per model; new ones by default.

    Returns
    -------
    list of matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import latentfit
    >>> from latentfit.admixture.plot import plot_ancestry
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.binomial(2, rng.dirichlet([0.3, 0.3], 40) @ rng.uniform(0.1, 0.9, (2, 200)))
    >>> axes = plot_ancestry([latentfit.Admixture(2).fit(counts), latentfit.Admixture(3).fit(counts)])
    >>> axes[1].get_ylabel()
    'K = 3'
    """
    fitted = list(models) if isinstance(models, Sequence) else [models]
    proportions = _check(fitted)
    colours = matched_colours(proportions)
    labels = None if groups is None else np.array([str(name) for name in groups], object)
    if labels is not None and len(labels) != len(proportions[0]):
        raise DataError(
            f"groups must have one name per person ({len(proportions[0])}), got {len(labels)}; give one per person"
        )
    order = people_order(proportions[-1], labels)
    if axes is None:
        figure = new_figure(min(max(6.0, 0.03 * len(order)), 16.0), 0.8 + 1.2 * len(fitted))
        axes = figure.subplots(len(fitted), 1, squeeze=False)
    axes = list(np.ravel(axes))
    for ax, proportion, colour in zip(axes, proportions, colours, strict=True):
        sorted_ = np.argsort(colour, kind="stable")
        stack_bars(ax, np.arange(len(order)), proportion[order][:, sorted_], colour[sorted_].tolist())
        ax.set_ylabel(f"K = {proportion.shape[1]}")
        ax.set_xticks([])
        ax.set_yticks([0, 1])
    _name_people(axes, order, labels, fitted[-1].samples_)
    return axes


# --------------------------------------------------------------------- numbers


def matched_colours(proportions: Sequence[Floats]) -> list[NDArray[np.intp]]:
    """A colour's number for every population of every model: each is matched with the model before it.

    The matching maximises the proportions that two populations have in common over all people; a population without a
    partner gets the next colour that is free.
    """
    colours = [np.arange(proportions[0].shape[1])]
    for before, after in pairwise(proportions):
        common = np.minimum(before[:, :, None], after[:, None, :]).sum(axis=0)
        left, right = linear_sum_assignment(-common)
        colour = np.full(after.shape[1], -1)
        colour[right] = colours[-1][left]
        free = (unused for unused in count() if unused not in colour)
        for k in np.flatnonzero(colour < 0):
            colour[k] = next(free)
        colours.append(colour)
    return colours


def _name_people(axes: list[Any], order: NDArray[np.intp], groups: NDArray[Any] | None, samples: Any) -> None:
    if groups is not None:
        sorted_ = groups[order]
        edges = np.flatnonzero(sorted_[1:] != sorted_[:-1]) + 1
        for ax in axes:
            for edge in edges:
                ax.axvline(edge - 0.5, color="black", linewidth=0.8)
        begins, ends = np.append(0, edges), np.append(edges, len(order))
        axes[-1].set_xticks((begins + ends - 1) / 2, sorted_[begins])
    elif len(order) <= MOST_NAMES:
        axes[-1].set_xticks(np.arange(len(order)), [str(samples[i]) for i in order], rotation=90, fontsize=6)


def _check(models: list[Any]) -> list[Floats]:
    if not models:
        raise DataError("models must hold at least one model, got none; give a fitted Admixture, or several")
    for model in models:
        check_drawable(model, Admixture)
        if len(model.ancestry_) != len(models[0].ancestry_) or model.samples_.tolist() != models[0].samples_.tolist():
            raise DataError("the models were fitted to other people; give fits of the same people in the same order")
    return [model.ancestry_ for model in models]
