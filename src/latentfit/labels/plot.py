"""Pictures of labels: confidence of the consensus, worker quality, confusion matrices, co-annotation."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.core.canvas import STRONG, UNSURE, check_drawable, new_axes, write_cells
from latentfit.core.errors import DataError
from latentfit.core.frames import as_frame, rows_of
from latentfit.labels.diagnostics.structure import co_annotation
from latentfit.labels.estimator.dawid_skene import DawidSkene

POLICIES = {"plan": STRONG, "random": "#9a9a9a"}
"""Colours of what is compared."""
MOST_SHOWN = 40
"""Workers in a picture: more cannot be read."""
MOST_WRITTEN = 12
"""Classes up to which probabilities are written into the map."""


def plot_confidence(model: DawidSkene, *, bins: int = 20, ax: Any = None) -> Any:
    """Histogram of tasks by the probability of their consensus label.

    Parameters
    ----------
    model : DawidSkene
        A fitted model, not one from a file (which holds no tasks).
    bins : int, default=20
        Number of bars.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.labels.plot import plot_confidence
    >>> data = latentfit.simulate.crowd(60, 12, 2, labels_per_task=8, random_state=1).labels
    >>> model = latentfit.DawidSkene().fit(data)
    >>> plot_confidence(model).get_ylabel()
    'tasks'
    """
    check_drawable(model, DawidSkene)
    if not hasattr(model, "probabilities_"):
        raise DataError("a model from a file keeps no tasks; fit it again to draw their confidence")
    ax = new_axes(6, 4) if ax is None else ax
    ax.hist(model.probabilities_.max(axis=1), bins=bins, range=(0, 1), color=STRONG, rwidth=0.95)
    ax.set_xlabel("probability of the consensus label")
    ax.set_ylabel("tasks")
    return ax


def plot_workers(model: DawidSkene, *, most: int = MOST_SHOWN, ax: Any = None) -> Any:
    """Accuracy of workers with its 95 % interval, the least accurate first; flagged ones in red.

    Parameters
    ----------
    model : DawidSkene
        A fitted model.
    most : int, default=40
        Most workers shown.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.labels.plot import plot_workers
    >>> data = latentfit.simulate.crowd(60, 12, 2, labels_per_task=8, random_state=1).labels
    >>> model = latentfit.DawidSkene().fit(data)
    >>> len(plot_workers(model, most=5).get_yticklabels())
    5
    """
    check_drawable(model, DawidSkene)
    quality = model._fitted.quality
    order = np.argsort(quality.accuracy, kind="stable")[:most]
    ax = new_axes(6, 1.2 + 0.22 * len(order)) if ax is None else ax
    for place, m in enumerate(order.tolist()):
        colour = UNSURE if str(quality.flag[m]) else STRONG
        ax.plot([quality.low[m], quality.high[m]], [place, place], color=colour, linewidth=1.5)
        ax.plot(quality.accuracy[m], place, "o", color=colour, markersize=5)
    ax.set_yticks(range(len(order)), [str(model.worker_names_[m]) for m in order], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("accuracy, with its 95 % interval")
    return ax


def plot_confusion(model: DawidSkene, worker: Any, *, ax: Any = None) -> Any:
    """Heat map of a worker's confusion matrix: true classes in rows, given labels in columns.

    Parameters
    ----------
    model : DawidSkene
        A fitted model.
    worker : object
        Name of the worker, one of `model.worker_names_`.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.labels.plot import plot_confusion
    >>> data = latentfit.simulate.crowd(60, 12, 2, labels_per_task=8, random_state=1).labels
    >>> model = latentfit.DawidSkene().fit(data)
    >>> plot_confusion(model, model.worker_names_[0]).get_xlabel()
    'given'
    """
    check_drawable(model, DawidSkene)
    names = model.worker_names_.tolist()
    if worker not in names:
        raise DataError(f"worker must be one of the model's workers, got {worker!r}; the first are {names[:5]}")
    table, size = model.confusion_[names.index(worker)], len(model.classes_)
    ax = new_axes(1.8 + 0.5 * size, 1.4 + 0.45 * size) if ax is None else ax
    ax.imshow(table, vmin=0, vmax=1, cmap="Blues")
    if size <= MOST_WRITTEN:
        write_cells(ax, table, "{:.2f}")
    class_names = [str(name) for name in model.classes_.tolist()]
    ax.set_xticks(range(size), class_names, rotation=90 if max(map(len, class_names)) > 4 else 0)
    ax.set_yticks(range(size), class_names)
    ax.set(xlabel="given", ylabel="true", title=str(worker))
    return ax


def plot_co_labels(model: DawidSkene, *, most: int = MOST_SHOWN, ax: Any = None) -> Any:
    """Tasks that two workers both labelled; red where no chain of common tasks leads from one to the other.

    Parameters
    ----------
    model : DawidSkene
        A fitted model, not one from a file (which holds no labels).
    most : int, default=40
        Most workers shown, those with most labels.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.labels.plot import plot_co_labels
    >>> data = latentfit.simulate.crowd(60, 12, 2, labels_per_task=8, random_state=1).labels
    >>> model = latentfit.DawidSkene().fit(data)
    >>> plot_co_labels(model).get_title()
    'tasks in common'
    """
    check_drawable(model, DawidSkene)
    evidence = getattr(model._fitted, "evidence", None)
    pairs = None if evidence is None else co_annotation(evidence.data, most)
    if pairs is None:
        raise DataError("the model keeps no labels, or too many to count its pairs of workers; fit it on fewer workers")
    size = len(pairs.workers)
    ax = new_axes(1.8 + 0.16 * size, 1.5 + 0.16 * size) if ax is None else ax
    image = ax.imshow(np.where(np.eye(size, dtype=bool), np.nan, pairs.common), cmap="Blues", vmin=0)
    ax.figure.colorbar(image, ax=ax)
    ax.scatter(*np.nonzero(~pairs.reached & ~np.eye(size, dtype=bool)), marker="s", color=UNSURE, alpha=0.5, s=12)
    names = [str(model.worker_names_[m]) for m in pairs.workers]
    ax.set_xticks(range(size), names, rotation=90, fontsize=6)
    ax.set_yticks(range(size), names, fontsize=6)
    ax.set_title("tasks in common")
    return ax


def plot_simulation(frame: Any, ax: Any = None) -> Any:
    """Error against labels bought: the mean of each policy, its seeds as points.

    Parameters
    ----------
    frame : frame
        Result of `latentfit.labels.select.simulate_plan`.
    ax : matplotlib Axes or None, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes

    Examples
    --------
    >>> import latentfit
    >>> from latentfit.labels.select import simulate_plan
    >>> from latentfit.labels.plot import plot_simulation
    >>> done = latentfit.simulate.crowd(60, 12, 2, labels_per_task=8, random_state=1)
    >>> ax = plot_simulation(simulate_plan(done.labels, done.truth, seeds=1))
    >>> ax.get_xlabel()
    'labels bought'
    """
    means = mean_errors(frame)
    ax = new_axes(6, 4) if ax is None else ax
    rows = rows_of(as_frame(frame))
    for policy in dict.fromkeys(row["policy"] for row in means):
        colour = POLICIES.get(policy)
        line = [row for row in means if row["policy"] == policy]
        points = [row for row in rows if row["policy"] == policy]
        ax.plot([r["labels"] for r in line], [100 * r["error"] for r in line], "o-", color=colour, label=policy)
        ax.scatter([r["labels"] for r in points], [100 * r["error"] for r in points], s=8, color=colour, alpha=0.4)
    ax.set_xlabel("labels bought")
    ax.set_ylabel("error of the consensus, %")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


# --------------------------------------------------------------------- numbers


def mean_errors(frame: Any) -> list[dict[str, Any]]:
    """Mean error over the seeds, by policy and number of labels.

    Parameters
    ----------
    frame : frame
        Result of `latentfit.labels.select.simulate_plan`.

    Returns
    -------
    rows : list of dict
        With policy, labels, share and error.
    """
    table = as_frame(frame)
    if table is None or not {"policy", "seed", "labels", "share", "error"} <= set(table.columns):
        raise DataError(
            "frame must have the columns policy, seed, labels, share, error; give what simulate_plan returns"
        )
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows_of(table):
        groups.setdefault((row["policy"], row["labels"]), []).append(row)
    return [
        {
            "policy": policy,
            "labels": labels,
            "share": rows[0]["share"],
            "error": sum(row["error"] for row in rows) / len(rows),
        }
        for (policy, labels), rows in sorted(groups.items())
    ]
