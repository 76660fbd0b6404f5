"""What a report is made of: a page, its sections, and the blocks in them. Plain values, no HTML.

A page answers in this order: what the checks say (verdict, reasons, what is expected to be wrong), what was found
(three figures, one picture), the evidence (sections), where it comes from (provenance, papers). All text is the user's
or ours and is escaped when the page is rendered; charts are Vega-Lite specs as plain dicts with their data inline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_ROWS = 1000
"""Rows of a table that a page keeps: a million tasks still make a page that opens."""


@dataclass(frozen=True)
class Figure:
    """One of the numbers that matter; `value` is text as it is to be read."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite spec with its data inline (``{"data": {"values": …}}``), and a sentence that says how to read it."""

    spec: Mapping[str, Any]
    caption: str
    title: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, the format of its numbers (as in `format`), and what it means."""

    name: str
    form: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class DataTable:
    """Rows that sort and filter in the page. Give first what matters most: the page keeps 1,000 and says so.

    `total` is the number of rows there are in all, when `rows` is already cut. Cells are text, numbers or None.
    """

    columns: Sequence[str | Column]
    rows: Sequence[Sequence[Any]]
    caption: str
    title: str = ""
    total: int | None = None


@dataclass(frozen=True)
class Note:
    """A paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Ask:
    """A table's model to ask in the page: class weights (F,), and for every column its profile (F, categories)."""

    columns: Sequence[str]
    categories: Sequence[Sequence[str]]
    weights: Sequence[float]
    profiles: Sequence[Sequence[Sequence[float]]]
    caption: str
    title: str = ""


Block = Chart | DataTable | Note | Ask


@dataclass(frozen=True)
class Section:
    """A heading, a sentence or two, and blocks."""

    title: str
    blocks: Sequence[Block]
    text: str = ""


@dataclass(frozen=True)
class Page:
    """A whole report.

    `headline` is the verdict as a sentence, `expected` what the model expects to be wrong, `lead` what was done.
    """

    title: str
    family: str
    verdict: str
    reasons: Sequence[str]
    figures: Sequence[Figure]
    picture: Chart | None
    sections: Sequence[Section]
    provenance: Sequence[tuple[str, str]]
    papers: Sequence[str]
    lead: str = ""
    headline: str = ""
    expected: str = ""


@dataclass(frozen=True)
class Context:
    """What a page can use besides the fitted model.

    `summary` is what summary.json holds, `files` the SHA-256 of every input by its name (or why there is none),
    `data` what only the data can tell, by the family's own names (empty when the page is made from a model file alone).
    """

    summary: Mapping[str, Any]
    files: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    seed: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
