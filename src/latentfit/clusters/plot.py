"""Pictures of clusters: what each of them says, and how their number was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from latentfit.clusters.estimator import BernoulliMixture
from latentfit.core.canvas import PALE, STRONG, UNSURE, check_drawable, new_axes, some_of
from latentfit.core.frames import as_frame, rows_of
from latentfit.core.kernels import Floats

MAX_COLUMNS = 60
"""Columns shown: more cannot be read."""
CHOSEN = {"practical": (STRONG, "-"), "statistical": (UNSURE, "--")}
"""Lines at the numbers that were chosen."""


def plot_clusters(model: BernoulliMixture, ax: Any = None) -> Any:
    """Heat map of clusters × columns: how often each column is 1, what tells clusters apart first.

    A cross marks the columns that betray a flagged cluster (`purity_`). At most 60 columns are shown, suspects always
    among them.

    Parameters
    ----------
    model : BernoulliMixture
        The fitted model.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; None makes some.

    Returns
    -------
    matplotlib Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.clusters.plot import plot_clusters
    >>> rows = latentfit.simulate.bernoulli_mixture(300, 12, 2, separation=40, random_state=0).rows
    >>> ax = plot_clusters(latentfit.BernoulliMixture().fit(rows))
    >>> ax.get_ylabel()
    'cluster'
    """
    check_drawable(model, BernoulliMixture)
    names = [str(name) for name in model._names]
    suspects = suspect_cells(model.purity_, names)
    chosen = shown_columns(model.weights_, model.frequencies_, sorted({n for _, n in suspects}))
    width, height = max(6.0, 1.5 + 0.22 * len(chosen)), max(2.5, 1.5 + 0.3 * model.n_components_)
    ax = new_axes(width, height) if ax is None else ax
    image = ax.imshow(model.frequencies_[:, chosen], vmin=0, vmax=1, cmap="viridis", aspect="auto")
    ax.figure.colorbar(image, ax=ax, label="how often it is 1")
    place = {int(n): at for at, n in enumerate(chosen)}
    if suspects:
        ax.scatter(
            [place[n] for _, n in suspects], [k for k, _ in suspects], marker="x", color=UNSURE,
            label="betrays a flagged cluster",
        )  # fmt: skip
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    ax.set_xticks(range(len(chosen)), [names[n] for n in chosen], rotation=90, fontsize=7)
    ax.set_yticks(range(model.n_components_), [f"{k} ({weight:.0%})" for k, weight in enumerate(model.weights_)])
    ax.set_xlabel(some_of("column", len(chosen), len(names)))
    ax.set_ylabel("cluster")
    return ax


def plot_path(model: BernoulliMixture, ax: Any = None) -> Any:
    """Gain of every further cluster in log-likelihood, what a pure cluster's split gains by chance, and the choices.

    Parameters
    ----------
    model : BernoulliMixture
        The fitted model.
    ax : matplotlib Axes or None, default=None
        Axes to draw on; None makes some.

    Returns
    -------
    matplotlib Axes
        The axes that were drawn on.

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.clusters.plot import plot_path
    >>> rows = latentfit.simulate.bernoulli_mixture(300, 12, 2, separation=40, random_state=0).rows
    >>> ax = plot_path(latentfit.BernoulliMixture().fit(rows))
    >>> ax.get_xlabel()
    'clusters'
    """
    check_drawable(model, BernoulliMixture)
    path, chosen = model._numbers.columns, model._numbers.chosen
    ax = new_axes(6, 4) if ax is None else ax
    number, step = np.array(path["n_components"][1:]), np.array(path["step"][1:])
    if len(number):
        penalty = (path["statistical"][1] + 2 * path["log_likelihood"][1]) / 2  # at K = 2 the criterion holds it once
        ax.bar(number, np.maximum(step, penalty / 100), color=PALE)  # a step of nothing has no place on a log scale
        ax.axhline(penalty, color="#555555", linewidth=1, linestyle=":", label="a pure cluster's penalty")
        ax.set_yscale("log")
    for name, (colour, dashes) in CHOSEN.items():  # dashes over a line: both show when they agree
        ax.axvline(chosen[name], color=colour, linestyle=dashes, label=f"{name}: {chosen[name]}")
    others = ", ".join(f"{name} {k}" for name, k in chosen.items() if name not in CHOSEN)
    ax.plot([], [], " ", label=others)
    ax.set_xticks(path["n_components"])
    ax.set_xlabel("clusters")
    ax.set_ylabel("gain in log-likelihood, nats")
    ax.legend(frameon=False, fontsize=8)
    return ax


# --------------------------------------------------------------------- numbers


def shown_columns(
    weights: Floats, frequencies: Floats, always: Sequence[int] = (), most: int = MAX_COLUMNS
) -> NDArray[np.intp]:
    """The columns that tell most about the cluster, in nats, largest first; those of `always` are never left out."""

    def nats(p: Floats) -> Floats:
        return np.asarray(entr(p) + entr(1 - p))

    information = nats(weights @ frequencies) - weights @ nats(frequencies)
    order = np.argsort(-information, kind="stable")
    wanted = np.isin(order, np.array(always, np.intp))
    return order[wanted | (np.cumsum(~wanted) <= max(most - int(wanted.sum()), 0))]


def suspect_cells(purity: Any, names: Sequence[str]) -> list[tuple[int, int]]:
    """(cluster, column) of what betrays flagged clusters, from a frame like `purity_`."""
    cells = set()
    for row in rows_of(as_frame(purity)):
        if row["flagged"]:
            for text in (row["suspect_pair"], row["suspect_columns"]):
                cells |= {(int(row["cluster"]), n) for n in named_in(text, names)}
    return sorted(cells)


def named_in(text: str, names: Sequence[str]) -> list[int]:
    """Which names stand in a text that joins some with ", "; of names that begin alike the longest one that fits."""
    found, by_length = [], sorted(range(len(names)), key=lambda n: -len(names[n]))
    while text:
        fits = (n for n in by_length if names[n] and (text == names[n] or text.startswith(names[n] + ", ")))
        n = next(fits, None)
        if n is None:
            break
        found.append(n)
        text = text[len(names[n]) + 2 :]
    return found
