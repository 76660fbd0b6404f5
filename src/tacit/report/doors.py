"""From a fitted model to its page: every door has one module with `page_of(fitted, context)`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tacit.report.page import Context, Page

DOORS: dict[str, str] = {
    "BinaryFactors": "tacit.report.switches",
    "Admixture": "tacit.report.ancestry",
    "MixtureFractions": "tacit.report.fractions",
    "TopicModel": "tacit.report.topics",
    "CategoricalHMM": "tacit.report.sequences",
    "BlockModel": "tacit.report.communities",
    "PairMatrix": "tacit.report.pairs",
}
"""Class of the fitted model → module of its page, imported when asked for."""


def page_of(fitted: Any, context: Context) -> Page:
    """The page of a fitted model; one without a door of its own gets the plain page."""
    module = DOORS.get(type(fitted).__name__, "tacit.report.plain")
    page: Page = import_module(module).page_of(fitted, context)
    return page
