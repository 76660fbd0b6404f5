"""Verdicts counted: at most one in a hundred may be wrong on either side.

A few inputs run by default; ``LATENTFIT_VERDICTS=200`` runs the full count on each side.
"""

from __future__ import annotations

import os

COUNT = int(os.environ.get("LATENTFIT_VERDICTS", "0"))


def assert_doubted(make, report, few):
    """Inputs `make(seed)` without an answer are not trusted."""
    count = COUNT or few
    worlds = ((seed, make(seed)) for seed in range(count))
    wrong = [(seed, getattr(world, "kind", "")) for seed, world in worlds if report(world).verdict == "ok"]
    assert len(wrong) <= 0.01 * count, wrong


def assert_ok(make, report, few):
    """Sound inputs `make(seed)` are trusted."""
    count = COUNT or few
    reports = ((seed, report(make(seed))) for seed in range(count))
    wrong = [(seed, found.reasons) for seed, found in reports if found.verdict != "ok"]
    assert len(wrong) <= 0.01 * count, wrong
