"""The page of a model without a door of its own: its verdict, how the fit went, and the numbers behind the verdict."""

from __future__ import annotations

from typing import Any

from tacit.report.evidence import fit_figures, fit_section, next_section, numbers_section
from tacit.report.page import Context, Page
from tacit.report.provenance import provenance_of


def page_of(fitted: Any, context: Context) -> Page:
    """A page of what every fitted model knows of itself."""
    report, summary = fitted.report_, context.summary
    return Page(
        title=f"{type(fitted).__name__}: {summary.get('n_components', '?')} components",
        door=type(fitted).__name__,
        verdict=report.verdict,
        reasons=report.reasons,
        figures=fit_figures(summary),
        picture=None,
        sections=[next_section(report), fit_section(fitted, context), numbers_section(report)],
        provenance=provenance_of(context),
        papers=[],
    )
