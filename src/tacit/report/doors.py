"""From a fitted model to its page: every door has one module with `page_of(fitted, context)`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tacit.report.page import Context, Page

DOORS = {
    "Admixture": "tacit.report.ancestry",
    "BernoulliMixture": "tacit.report.clusters",
    "BinaryFactors": "tacit.report.switches",
    "BlockModel": "tacit.report.communities",
    "CategoricalHMM": "tacit.report.sequences",
    "DawidSkene": "tacit.report.labels",
    "FittedCrowd": "tacit.report.labels",
    "LatentClass": "tacit.report.tables",
    "MixtureFractions": "tacit.report.fractions",
    "PairMatrix": "tacit.report.pairs",
    "TopicModel": "tacit.report.topics",
}
"""Class of the fitted model → module of its page, imported when asked for."""


def page_of(fitted: Any, context: Context) -> Page:
    """The page of a fitted model; one without a door of its own gets the plain page."""
    module = DOORS.get(type(fitted).__name__, "tacit.report.plain")
    page: Page = import_module(module).page_of(fitted, context)
    return page


def context_of(summary: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> Context:
    """What a door is told besides its model: the summary, and what the data say, empty parts left out."""
    seed = summary.get("seed")
    return Context(
        summary,
        files=dict(summary.get("files") or {}),
        command=str(summary.get("command", "")),
        seed=None if seed is None else int(seed),
        seconds=dict(summary.get("seconds") or {}),
        data={name: value for name, value in (data or {}).items() if value is not None},
    )
