"""Hidden switches by tensor eigenpairs (Jaffe, Weiss, Carmi, Kluger & Nadler 2018): the keys of its figures.

Modules load when a key runs, so that listing the keys costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from tacit.reproduce.table import Experiment, Outcome, Run

_HOME = {
    "figure2": "switches_simulated",
    "figure4": "switches_admixture",
    "figure5": "switches_simulated",
    "figure6": "switches_fractions",
}


def _lazily(name: str) -> Experiment:
    def run_it(run: Run) -> Outcome:
        found: Experiment = getattr(import_module(f"tacit.reproduce.{_HOME[name]}"), name)
        return found(run)

    return run_it


KEYS: dict[str, Experiment] = {f"switches:{name}": _lazily(name) for name in _HOME}
