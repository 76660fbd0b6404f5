"""Recovering structured probability matrices (Huang, Kakade, Kong & Valiant 2018): the keys of what it claims.

Modules load when a key runs, so that listing the keys costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from tacit.reproduce.table import Experiment, Outcome, Run

_HOME = {
    "hmm": "pairs_hmm",
    "linear": "pairs_linear",
    "testing": "pairs_testing",
    "topics": "pairs_topics",
    "communities": "pairs_communities",
}


def _lazily(name: str) -> Experiment:
    def run_it(run: Run) -> Outcome:
        found: Experiment = getattr(import_module(f"tacit.reproduce.{_HOME[name]}"), name)
        return found(run)

    return run_it


KEYS: dict[str, Experiment] = {f"pairs:{name}": _lazily(name) for name in _HOME}
