"""From a fitted model to its page: every door has one module with `page_of(fitted, context)`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from latentfit.core.registry import PAGES
from latentfit.report.page import Context, Page


def page_of(fitted: Any, context: Context) -> Page:
    """The page of a fitted model; one without a door of its own gets the plain page."""
    kind = type(fitted).__name__
    # the labels command fits without scikit-learn: its result is not yet an estimator
    module = PAGES.get("DawidSkene" if kind == "FittedCrowd" else kind, "latentfit.report.plain")
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
