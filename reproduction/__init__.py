"""The papers' tables and figures next to ours. Only the command line imports this.

A key is ``paper:name``; its function has the same name. Modules load when a key runs, so that listing the keys costs
nothing.
"""

from __future__ import annotations

from importlib import import_module

from reproduction.table import Experiment, Outcome, Run

ALL = "all"
"""The word that stands for every key of all papers."""
_HOME = {
    # Ibrahim & Fu 2022, consensus from noisy annotators
    "crowd:table1": "crowd_uci",
    "crowd:table2": "crowd_uci",
    "crowd:table3": "crowd_uci",
    "crowd:table4": "crowd_real",
    "crowd:table5": "crowd_real",
    "crowd:table6": "crowd_synthetic",
    "crowd:table7": "crowd_synthetic",
    "crowd:table9": "crowd_real",
    "crowd:figure2": "crowd_figures",
    "crowd:figure3": "crowd_figures",
    "crowd:figure4": "crowd_figures",
    # Ibrahim & Fu 2021, the joint distribution from pairwise marginals
    "joint:table1": "joint_synthetic",
    "joint:table2": "joint_ratings",
    "joint:table3": "joint_classes",
    "joint:table4": "joint_classes",
    # Najafi, Motahari & Rabiee 2020, binary rows with an unknown number of clusters
    "clusters:grid": "clusters_grid",
    "clusters:hard": "clusters_grid",
    "clusters:copies": "clusters_grid",
    "clusters:pure": "clusters_grid",
    "clusters:chance": "clusters_chance",
    "clusters:table": "clusters_table",
    # Jaffe, Weiss, Carmi, Kluger & Nadler 2018, hidden switches by tensor eigenpairs
    "switches:figure2": "switches_simulated",
    "switches:figure4": "switches_admixture",
    "switches:figure5": "switches_simulated",
    "switches:figure6": "switches_fractions",
    # Huang, Kakade, Kong & Valiant 2018, structured probability matrices
    "pairs:hmm": "pairs_hmm",
    "pairs:linear": "pairs_linear",
    "pairs:testing": "pairs_testing",
    "pairs:topics": "pairs_topics",
    "pairs:communities": "pairs_communities",
}


def _lazily(key: str) -> Experiment:
    def run_it(run: Run) -> Outcome:
        found: Experiment = getattr(import_module(f"reproduction.{_HOME[key]}"), key.partition(":")[2])
        return found(run)

    return run_it


KEYS: dict[str, Experiment] = {key: _lazily(key) for key in _HOME}
"""Key → what makes its rows."""


def keys_of(name: str) -> list[str]:
    """The keys a word stands for: itself, those of a paper (``crowd``), or ``all``; none when it is unknown."""
    return [key for key in KEYS if name in (key, key.partition(":")[0], ALL)]


def words() -> list[str]:
    """Everything that `keys_of` knows."""
    return [ALL, *dict.fromkeys(key.partition(":")[0] for key in KEYS), *KEYS]


__all__ = ["KEYS", "Experiment", "keys_of", "words"]
