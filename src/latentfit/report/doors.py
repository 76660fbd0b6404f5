"""From a fitted model to its page: every door has one module with `page_of(fitted, context)`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from latentfit.report.page import Context, Page

DOORS = {
    "Admixture": "latentfit.report.ancestry",
    "BernoulliMixture": "latentfit.report.clusters",
    "BinaryFactors": "latentfit.report.switches",
    "BlockModel": "latentfit.report.communities",
    "CategoricalHMM": "latentfit.report.sequences",
    "DawidSkene": "latentfit.report.labels",
    "FittedCrowd": "latentfit.report.labels",
    "LatentClass": "latentfit.report.tables",
    "MixtureFractions": "latentfit.report.fractions",
    "PairMatrix": "latentfit.report.pairs",
    "TopicModel": "latentfit.report.topics",
}
"""Class of the fitted model → module of its page, imported when asked for."""


def page_of(fitted: Any, context: Context) -> Page:
    """The page of a fitted model; one without a door of its own gets the plain page."""
    module = DOORS.get(type(fitted).__name__, "latentfit.report.plain")
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
