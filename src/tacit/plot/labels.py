"""Pictures of crowds."""

from __future__ import annotations

from typing import Any

from tacit.data.frames import as_frame, rows_of
from tacit.errors import DataError

COLOURS = {"plan": "#1b6ca8", "random": "#9a9a9a"}


def mean_errors(frame: Any) -> list[dict[str, Any]]:
    """Mean error over the seeds, by policy and share, from the frame of `tacit.plan.simulate_plan`."""
    table = as_frame(frame)
    if table is None or not {"policy", "seed", "labels", "share", "error"} <= set(table.columns):
        raise DataError("not a simulation (policy, seed, labels, share, error); give what simulate_plan returns")
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


def plot_simulation(frame: Any, ax: Any = None) -> Any:
    """Error against labels bought: the mean of each policy, its seeds as points.

    Parameters
    ----------
    frame : what `tacit.plan.simulate_plan` returns
    ax : matplotlib axes to draw on; None makes a figure

    Returns
    -------
    The axes; ``ax.figure.savefig(…)`` keeps the picture.

    Examples
    --------
    >>> from tacit.plan import simulate_plan
    >>> from tacit.plot.labels import plot_simulation
    >>> from tacit.simulate import crowd
    >>> done = crowd(60, 12, 2, labels_per_task=8, random_state=1)
    >>> ax = plot_simulation(simulate_plan(done.labels, done.truth, seeds=1))
    >>> ax.get_xlabel()
    'labels bought'
    """
    means = mean_errors(frame)
    if ax is None:
        from matplotlib.figure import Figure  # no pyplot: no global state, no window

        ax = Figure(figsize=(6, 4)).add_subplot()
    rows = rows_of(as_frame(frame))
    for policy in dict.fromkeys(row["policy"] for row in means):
        colour = COLOURS.get(policy)
        line = [row for row in means if row["policy"] == policy]
        points = [row for row in rows if row["policy"] == policy]
        ax.plot([r["labels"] for r in line], [100 * r["error"] for r in line], "o-", color=colour, label=policy)
        ax.scatter([r["labels"] for r in points], [100 * r["error"] for r in points], s=8, color=colour, alpha=0.4)
    ax.set_xlabel("labels bought")
    ax.set_ylabel("error of the consensus, %")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax
