"""Pictures of the reproduced figures, from the same columns that their CSV files hold. Needs matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.canvas import new_figure
from latentfit.io.write import atomic_path

Columns = dict[str, Sequence[object]]

LINES = {"diminishing": "-", "diminishing, late": "-.", "constant": "--", "zero": ":"}
ROUNDING = 1e-12
"""Distances below this are rounding."""
NAMES = {
    "diminishing": "α = ψ^(t+1)", "diminishing, late": "the same, begun later", "constant": "α = 1e-6", "zero": "α = 0"
}  # fmt: skip


def draw_convergence(columns: Columns, path: Path) -> None:
    """Median distance to the true factor by iteration, one panel per sparsity."""
    data = _arrays(columns)
    levels = list(dict.fromkeys(data["density"].tolist()))
    figure, panels = _subplots(len(levels))
    for panel, level in zip(panels, levels, strict=True):
        for kind, line in LINES.items():
            rows = (data["density"] == level) & (data["alpha"] == kind)
            low, middle, high = (np.maximum(data[name][rows], ROUNDING) for name in ("low", "median", "high"))
            panel.semilogy(data["iteration"][rows], middle, line, color="black", label=NAMES[kind])
            panel.fill_between(data["iteration"][rows], low, high, color="black", alpha=0.08, linewidth=0)
        panel.set(title=f"φ = {level}", xlabel="iteration")
    panels[0].set_ylabel("‖HΠ − H_t‖² / K")
    panels[-1].legend(frameon=False)
    _save(figure, path)


def draw_histogram(columns: Columns, path: Path) -> None:
    """Error rates of all runs, one outline per method."""
    figure, (panel,) = _subplots(1)
    methods, errors = np.asarray(columns["method"]), np.asarray(columns["error"], float)
    bins = np.arange(np.floor(errors.min()), np.ceil(errors.max()) + 1, 0.5)
    for method in dict.fromkeys(methods.tolist()):
        panel.hist(errors[methods == method], bins=bins, histtype="step", label=method)
    panel.set(xlabel="error %", ylabel="runs")
    panel.legend(frameon=False)
    _save(figure, path)


def draw_linear(columns: Columns, path: Path) -> None:
    """Error of B against N/M, one panel per world, one line per number of items and method."""
    data = _arrays(columns)
    worlds = list(dict.fromkeys(data["world"].tolist()))
    figure, panels = _subplots(len(worlds))
    shown = {"PairMatrix()": "-", "regularised scaled SVD": "--", "truncated SVD": ":"}
    for panel, world in zip(panels, worlds, strict=True):
        for at, size in enumerate(sorted(set(data["items"].tolist()))):
            for method, line in shown.items():
                rows = (data["world"] == world) & (data["items"] == size) & (data["method"] == method)
                label = f"{method}, M = {size:,}" if at == 0 or method == "PairMatrix()" else None
                panel.loglog(data["ratio"][rows], data["B"][rows], line, color=f"C{at}", label=label)
        panel.set(title=world, xlabel="N / M")
    panels[0].set_ylabel("ℓ₁ error of B")
    _name_lines(panels[-1])
    _save(figure, path)


def draw_testing(columns: Columns, path: Path) -> None:
    """Share of rejections against N/M for every source; what no test can beat dotted."""
    data = _arrays(columns)
    figure, (panel,) = _subplots(1)
    for at, source in enumerate(dict.fromkeys(data["source"].tolist())):
        rows = data["source"] == source
        panel.semilogx(data["ratio"][rows], data["rejected"][rows], "o-", color=f"C{at}", label=source)
        for name, line in (("bound", ":"), ("predicted", "--")):
            if np.isfinite(data[name][rows].astype(float)).any():
                panel.semilogx(data["ratio"][rows], data[name][rows], line, color=f"C{at}", label=f"{source}, {name}")
    panel.axhline(0.05, color="grey", linewidth=0.5)
    panel.set(xlabel="N / M", ylabel="share rejected at 5 %")
    _name_lines(panel)
    _save(figure, path)


def draw_switches(columns: Columns, path: Path) -> None:
    """Median error by method: against the number of rows, and against the noise at the number with most noises."""
    data = _arrays(columns)
    settings = sorted(set(zip(data["n"].tolist(), data["sigma"].tolist(), strict=True)))
    many, common = (Counter(setting[at] for setting in settings).most_common(1)[0][0] for at in (0, 1))
    figure, panels = _subplots(2)
    for panel, rows, axis in ((panels[0], data["sigma"] == common, "n"), (panels[1], data["n"] == many, "sigma")):
        for method in dict.fromkeys(data["method"].tolist()):
            at = rows & (data["method"] == method)
            order = np.argsort(data[axis][at])
            panel.semilogy(data[axis][at][order], np.maximum(data["median"][at][order], ROUNDING), label=method)
    panels[0].set(xscale="log", xlabel="rows", ylabel="‖W − Ŵ‖² / (m d), median")
    panels[1].set(xlabel="σ", title=f"{many:,} rows")
    _name_lines(panels[1])
    _save(figure, path)


def draw_against(columns: Columns, path: Path) -> None:
    """A line per method: the third column against the first, both on logarithmic axes."""
    axis, _, value = columns
    across, methods = np.asarray(columns[axis], float), np.asarray(columns["method"])
    up = np.asarray(columns[value], float)
    figure, (panel,) = _subplots(1)
    for method in dict.fromkeys(methods.tolist()):
        at = np.flatnonzero(methods == method)
        at = at[np.argsort(across[at], kind="stable")]
        panel.loglog(across[at], np.maximum(up[at], ROUNDING), "o-", markersize=3, label=method)
    panel.set(xlabel=axis, ylabel=value)
    _name_lines(panel)
    _save(figure, path)


def draw_fractions(columns: Columns, path: Path) -> None:
    """Real and estimated fractions as maps, parts by samples, side by side."""
    samples = list(dict.fromkeys(columns["sample"]))
    parts = list(dict.fromkeys(columns["part"]))
    methods = [name for name in columns if name not in ("sample", "part")]
    figure, panels = _subplots(len(methods))
    for panel, name in zip(panels, methods, strict=True):
        proportions = np.asarray(columns[name], float).reshape(len(samples), len(parts)).T
        panel.imshow(proportions, vmin=0, vmax=1, cmap="Greys", aspect="auto")
        panel.set_title(name, fontsize="small")
        panel.set_xticks(range(len(samples)), samples)
    panels[0].set_yticks(range(len(parts)), parts)
    _save(figure, path)


def draw_communities(columns: Columns, path: Path) -> None:
    """Overlap and ℓ1 error against edges a node: a line for every number of nodes and of `BlockModel` and the paper."""
    data = _arrays(columns)
    figure, panels = _subplots(2, sharey=False)
    for style, method in zip(("o-", "x:"), ("BlockModel", "the paper's two phases (PairMatrix)"), strict=True):
        for M in sorted(set(data["M"][data["method"] == method].tolist())):
            at = np.flatnonzero((data["method"] == method) & (data["M"] == M))
            at = at[np.argsort(data["d"][at], kind="stable")]
            for panel, name in zip(panels, ("overlap", "error"), strict=True):
                panel.semilogx(data["d"][at], data[name][at], style, markersize=3, label=f"{method}, M = {M:,}")
    panels[0].set(xlabel="N/M", ylabel="overlap")
    panels[1].set(xlabel="N/M", ylabel="ℓ1 error of B")
    _name_lines(panels[1])
    _save(figure, path)


def _arrays(columns: Columns) -> dict[str, NDArray[Any]]:
    return {name: np.asarray(values) for name, values in columns.items()}


def _subplots(count: int, *, sharey: bool = True) -> tuple[Any, list[Any]]:
    figure = new_figure(3 + 3.5 * count, 3.2)  # names of lines stand beside the last
    return figure, list(np.atleast_1d(figure.subplots(1, count, sharey=sharey)))


def _name_lines(panel: Any) -> None:
    """The lines' names beside the panel, where they cover none of them."""
    panel.legend(frameon=False, fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))


def _save(figure: Any, path: Path) -> None:
    with atomic_path(path) as part:
        figure.savefig(part, format="png", dpi=120)
