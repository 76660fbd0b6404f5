"""Binary rows, unknown number of clusters (Najafi, Motahari & Rabiee 2020): the keys of its simulations.

Modules load when a key runs, so that listing the keys costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from tacit.reproduce.table import Experiment, Outcome, Run

_HOME = {
    "grid": "clusters_grid",
    "hard": "clusters_grid",
    "copies": "clusters_grid",
    "pure": "clusters_grid",
    "chance": "clusters_chance",
    "table": "clusters_table",
}


def _lazily(name: str) -> Experiment:
    def run_it(run: Run) -> Outcome:
        found: Experiment = getattr(import_module(f"tacit.reproduce.{_HOME[name]}"), name)
        return found(run)

    return run_it


KEYS: dict[str, Experiment] = {f"clusters:{name}": _lazily(name) for name in _HOME}
