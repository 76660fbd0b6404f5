"""What every door has: the frame of its page, how the fit went, the numbers behind the verdict, what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from latentfit.core.verdict import FitReport
from latentfit.report.charts import lines
from latentfit.report.page import Block, Chart, Context, DataTable, Figure, Note, Page, Section
from latentfit.report.provenance import provenance_of
from latentfit.report.render import shown_number

MOST_NUMBERS = 200
"""Numbers behind a verdict that the page lists."""
LONG = 8
"""Lists longer than this are told by their size."""


def page_about(
    report: FitReport, context: Context, *, door: str, title: str, figures: Sequence[Figure], picture: Chart | None,
    sections: Sequence[Section], papers: Sequence[str] = (), lead: str = "",
) -> Page:  # fmt: skip
    """A door's page: its own words and pictures between the verdict and where the result comes from."""
    provenance = provenance_of(context)
    return Page(title, door, report.verdict, report.reasons, figures, picture, sections, provenance, papers, lead)


def steps_figure(n_iter: int | None, converged: bool | None) -> Figure:
    """How long a climb took, and how it ended."""
    return Figure("EM steps", count(n_iter), "stood still" if converged else "stopped before it stood still")


def count(value: Any) -> str:
    """A whole number as it is read; a dash where there is none."""
    return "–" if value is None else f"{int(value):,}"


def fit_section(fitted: Any, context: Context, *, squares: bool = False) -> Section:
    """Convergence: the objective by step (`objective_path_`, where the model keeps it), and what the fit noted.

    EM climbs a likelihood; with `squares` alternating least squares lowers squares, which the path holds as minus.
    """
    climber, unit = ("Alternation", "minus the squares") if squares else ("EM", "nats")
    path = getattr(fitted, "objective_path_", None)
    if path is None:
        path = getattr(fitted, "path", None)
    found: list[Block] = []
    if path is not None and len(path) > 1:
        values = np.asarray(path, float)
        rows = [{"x": at, "y": float(value)} for at, value in enumerate(values)]
        chart = lines(rows, x=f"{climber} step", y=f"objective, {unit}", whole_x=True, height=200)
        found.append(Chart(chart, "What is climbed: it never falls, and is flat at the end when the fit stood still."))
    summary = context.summary
    steps, converged = summary.get("n_iter"), summary.get("converged")
    sentence = ""
    if steps is not None:
        ending = "and stood still" if converged else "and stopped before it stood still: raise max_iter (--max-iter)"
        sentence = f"{climber} took {int(steps):,} steps {ending}."
    if summary.get("log_likelihood") is not None:
        sentence += f" Log-likelihood {float(summary['log_likelihood']):,.2f} nats."
    report = getattr(fitted, "report_", None) or getattr(fitted, "report", None)
    notes = [Note(f"{note[:1].upper()}{note[1:]}.") for note in (report.notes if report is not None else [])]
    return Section("How the fit went", [*found, *notes], sentence.strip())


def next_section(report: FitReport, *advice: str) -> Section:
    """What to do next: the door's own advice, and the reasons again, for each ends with what to do."""
    told = [*advice, *(report.reasons or [] if report.verdict != "trusted" else [])]
    if not told:
        told = ["Nothing has to be done; the files beside this page hold the result."]
    return Section("What to do next", [Note(sentence) for sentence in told])


def numbers_section(report: FitReport, text: str = "") -> Section:
    """Every number that the diagnosis computed, by its name."""
    rows = list(_flat(report.quantities))[:MOST_NUMBERS]
    if not rows:
        return Section("What was checked", [Note("The numbers behind the verdict are known to the fit alone.")], text)
    table = DataTable(["number", "value"], rows, "What the diagnosis computed, before it judged.")
    return Section("What was checked", [table], text)


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
