"""The papers' tables and figures next to ours. Only the command line imports this."""

from __future__ import annotations

from tacit.reproduce.clusters import KEYS as CLUSTER_KEYS
from tacit.reproduce.crowd import KEYS as CROWD_KEYS
from tacit.reproduce.joint import KEYS as JOINT_KEYS
from tacit.reproduce.pairs import KEYS as PAIR_KEYS
from tacit.reproduce.switches import KEYS as SWITCH_KEYS
from tacit.reproduce.table import Experiment

KEYS: dict[str, Experiment] = {**CROWD_KEYS, **JOINT_KEYS, **CLUSTER_KEYS, **SWITCH_KEYS, **PAIR_KEYS}
"""Key → what makes its rows."""


def keys_of(name: str) -> list[str]:
    """The keys a word stands for: itself, or all of a paper (``crowd``); none when it is unknown."""
    return [key for key in KEYS if key == name or key.split(":")[0] == name]


__all__ = ["KEYS", "Experiment", "keys_of"]
