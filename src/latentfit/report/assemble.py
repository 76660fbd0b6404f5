"""Parts of every family's page: its frame, how the fit went, the numbers behind the verdict, what to do next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from latentfit import __version__
from latentfit.core.registry import PAGES
from latentfit.core.verdict import FitReport
from latentfit.io.write import atomic_path
from latentfit.report.charts import lines
from latentfit.report.page import Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section
from latentfit.report.render import render, shown_number

MOST_NUMBERS = 200
"""Numbers behind a verdict that the page lists."""
LONG = 8
"""Lists longer than this are shown by their length."""


def page_about(
    report: FitReport, context: Context, *, family: str, title: str, figures: Sequence[Figure], picture: Chart | None,
    sections: Sequence[Section], papers: Sequence[str] = (), lead: str = "",
) -> Page:  # fmt: skip
    """A family's page: its own sections between the verdict and the provenance."""
    provenance = provenance_of(context)
    expected = "" if report.expected is None else report.expected.sentence
    return Page(
        title, family, report.verdict, report.reasons, figures, picture, sections, provenance, papers, lead,
        report.headline, expected,
    )  # fmt: skip


def steps_figure(n_iter: int | None, converged: bool | None) -> Figure:
    """Number of iterations, and whether they converged."""
    return Figure("EM steps", count(n_iter), "converged" if converged else "stopped before convergence")


def count(value: Any) -> str:
    """A whole number as it is read; a dash where there is none."""
    return "–" if value is None else f"{int(value):,}"


def fit_section(fitted: Any, context: Context, *, squares: bool = False) -> Section:
    """Convergence: the objective by step (`objective_path_`, where the model keeps it), and what the fit noted.

    EM increases a likelihood; with `squares` alternating least squares decreases squares; the path holds minus these.
    """
    algorithm, unit = ("Alternation", "minus the squares") if squares else ("EM", "nats")
    path = getattr(fitted, "objective_path_", None)
    if path is None:
        path = getattr(fitted, "path", None)
    found: list[Block] = []
    if path is not None and len(path) > 1:
        values = np.asarray(path, float)
        rows = [{"x": at, "y": float(value)} for at, value in enumerate(values)]
        chart = lines(rows, x=f"{algorithm} step", y=f"objective, {unit}", whole_x=True, height=200)
        found.append(
            Chart(chart, "The objective by iteration: it never falls, and is flat at the end after convergence.")
        )
    summary = context.summary
    steps, converged = summary.get("n_iter"), summary.get("converged")
    sentence = ""
    if steps is not None:
        ending = "and converged" if converged else "and stopped before it converged: raise max_iter (--max-iter)"
        sentence = f"{algorithm} took {int(steps):,} steps {ending}."
    if summary.get("log_likelihood") is not None:
        sentence += f" Log-likelihood {float(summary['log_likelihood']):,.2f} nats."
    report = getattr(fitted, "report_", None) or getattr(fitted, "report", None)
    notes = [Note(f"{note[:1].upper()}{note[1:]}.") for note in (report.notes if report is not None else [])]
    return Section("How the fit went", [*found, *notes], sentence.strip())


def next_section(report: FitReport, *advice: str) -> Section:
    """What to do next: the family's advice, and the reasons again, each of which ends with a suggestion."""
    sentences = [*advice, *(report.reasons or [] if report.verdict != "ok" else [])]
    if not sentences:
        sentences = ["Nothing has to be done; the files beside this page hold the result."]
    return Section("What to do next", [Note(sentence) for sentence in sentences])


def numbers_section(report: FitReport, text: str = "") -> Section:
    """Every check with its value and limit, and every quantity of the diagnostics by name."""
    blocks: list[Block] = []
    if report.checks:
        failed_first = sorted(report.checks, key=lambda check: check.passed)
        checks = [[check.title, check.value, check.limit, check.p_value, "passed" if check.passed else "failed"]
                  for check in failed_first]  # fmt: skip
        columns: list[str | Column] = [
            "check",
            Column("value", ".4g"),
            Column("limit", ".4g"),
            Column("p-value", ".2g"),
            "result",
        ]
        blocks.append(DataTable(columns, checks, "Checks behind the verdict, failed ones first."))
    rows = list(_flat(report.quantities))[:MOST_NUMBERS]
    if rows:
        blocks.append(DataTable(["number", "value"], rows, "Quantities behind the verdict."))
    if not blocks:
        blocks.append(Note("The numbers behind the verdict are known to the fit alone."))
    return Section("What was checked", blocks, text)


def _flat(quantities: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in quantities.items():
        spoken = f"{above}{str(name).replace('_', ' ')}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{spoken}: ")
        elif isinstance(value, bool | np.bool_):
            yield spoken, "yes" if value else "no"
        elif isinstance(value, int | float | np.number | str):
            yield spoken, value.item() if isinstance(value, np.number) else value
        elif isinstance(value, np.ndarray | Sequence):
            yield spoken, _listed(np.asarray(value, object).ravel().tolist())
        elif value is None:
            yield spoken, "not computed"


def _listed(values: Sequence[Any]) -> str:
    if len(values) > LONG:
        return f"{len(values):,} values"
    return ", ".join(shown_number(value) if isinstance(value, float) else str(value) for value in values)


# -----------------------------------------------------------------------------
# Where a result comes from: version, command, seed, input files by their SHA-256, seconds per stage.


def provenance_of(context: Context) -> list[tuple[str, str]]:
    """The last part of every page, line by line."""
    lines = [("Latentfit", str(context.summary.get("version", __version__)))]
    if context.command:
        lines.append(("Command", context.command))
    if context.seed is not None:
        lines.append(("Seed", str(context.seed)))
    lines += [(f"SHA-256 of {name}", digest) for name, digest in context.files.items()]
    if context.seconds:
        stages = ", ".join(f"{stage} {value:.2f}" for stage, value in context.seconds.items())
        lines.append(("Seconds", f"{sum(context.seconds.values()):.2f} in all: {stages}"))
    return lines


# -----------------------------------------------------------------------------
# The page of a model without a page of its own: its verdict, how the fit went, and the numbers behind the verdict.


def page_of(fitted: Any, context: Context) -> Page:
    """A page of what every fitted model knows of itself."""
    report, summary = fitted.report_, context.summary
    return page_about(
        report,
        context,
        title=f"{type(fitted).__name__}: {summary.get('n_components', '?')} components",
        family=type(fitted).__name__,
        figures=[
            Figure("Rows", count(summary.get("n_rows"))),
            Figure("Components", count(summary.get("n_components"))),
            steps_figure(summary.get("n_iter"), summary.get("converged")),
        ],
        picture=None,
        sections=[next_section(report), fit_section(fitted, context), numbers_section(report)],
    )


# -----------------------------------------------------------------------------
# From a fitted model to its page: every family has a module with `page_of(fitted, context)`.


def page_of_model(fitted: Any, context: Context) -> Page:
    """The page of a fitted model; one without a page of its own gets the plain page."""
    kind = type(fitted).__name__
    # the labels command fits without scikit-learn: its result is not yet an estimator
    module = PAGES.get("DawidSkene" if kind == "FittedCrowd" else kind, "latentfit.report.assemble")
    page: Page = import_module(module).page_of(fitted, context)
    return page


def context_of(summary: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> Context:
    """Context of a page besides the model: the summary, and the data, empty entries left out."""
    seed = summary.get("seed")
    return Context(
        summary,
        files=dict(summary.get("files") or {}),
        command=str(summary.get("command", "")),
        seed=None if seed is None else int(seed),
        seconds=dict(summary.get("seconds") or {}),
        data={name: value for name, value in (data or {}).items() if value is not None},
    )


# -----------------------------------------------------------------------------
# A page → report.html, written atomically.


def write_report(path: str | os.PathLike[str], page: Page) -> None:
    """Render a page and write it under a temporary name that takes the place of `path`."""
    content = render(page).encode()
    with atomic_path(path) as part:
        part.write_bytes(content)
