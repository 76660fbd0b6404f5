"""Ibrahim & Fu 2021, the joint distribution from pairwise marginals: the keys of its tables.

Modules load when a key runs, so that listing the keys costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from tacit.reproduce.table import Experiment, Outcome, Run

_HOME = {
    "table1": "joint_synthetic",
    "table2": "joint_ratings",
    "table3": "joint_classes",
    "table4": "joint_classes",
}


def _lazily(name: str) -> Experiment:
    def run_it(run: Run) -> Outcome:
        found: Experiment = getattr(import_module(f"tacit.reproduce.{_HOME[name]}"), name)
        return found(run)

    return run_it


KEYS: dict[str, Experiment] = {f"joint:{name}": _lazily(name) for name in _HOME}
