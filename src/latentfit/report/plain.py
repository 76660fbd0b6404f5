"""The page of a model without a door of its own: its verdict, how the fit went, and the numbers behind the verdict."""

from __future__ import annotations

from typing import Any

from latentfit.report.evidence import count, fit_section, next_section, numbers_section, page_about, steps_figure
from latentfit.report.page import Context, Figure, Page


def page_of(fitted: Any, context: Context) -> Page:
    """A page of what every fitted model knows of itself."""
    report, summary = fitted.report_, context.summary
    return page_about(
        report,
        context,
        title=f"{type(fitted).__name__}: {summary.get('n_components', '?')} components",
        door=type(fitted).__name__,
        figures=[
            Figure("Rows", count(summary.get("n_rows"))),
            Figure("Components", count(summary.get("n_components"))),
            steps_figure(summary.get("n_iter"), summary.get("converged")),
        ],
        picture=None,
        sections=[next_section(report), fit_section(fitted, context), numbers_section(report)],
    )
