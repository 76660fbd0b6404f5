"""Ibrahim & Fu 2022, consensus from noisy annotators: the keys of its tables and figures.

Modules load when a key runs, so that listing the keys costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from tacit.reproduce.table import Experiment, Outcome, Run

_HOME = {
    "table1": "crowd_uci",
    "table2": "crowd_uci",
    "table3": "crowd_uci",
    "table4": "crowd_real",
    "table5": "crowd_real",
    "table6": "crowd_synthetic",
    "table7": "crowd_synthetic",
    "table9": "crowd_real",
    "figure2": "crowd_figures",
    "figure3": "crowd_figures",
    "figure4": "crowd_figures",
}


def _lazily(name: str) -> Experiment:
    def run_it(run: Run) -> Outcome:
        found: Experiment = getattr(import_module(f"tacit.reproduce.{_HOME[name]}"), name)
        return found(run)

    return run_it


KEYS: dict[str, Experiment] = {f"crowd:{name}": _lazily(name) for name in _HOME}
