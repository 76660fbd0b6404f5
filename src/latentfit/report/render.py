"""A page → one HTML file that needs nothing from outside and lets nothing the user named act.

All text is escaped for HTML; specs and models travel as JSON in a block that is not a script, with every sign that
could end it written as an escape. On top of that the page carries a content policy: only its own scripts run (by
their SHA-256, without `eval`: Vega's expressions are interpreted), nothing is fetched, nothing is sent.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from latentfit.core.verdict import headline
from latentfit.report.page import MOST_ROWS, Ask, Block, Chart, Column, DataTable, Note, Page, Section

_HERE = Path(__file__).parent
_VENDORED = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
PRINTED_ROWS = 40
"""Rows of a table on paper; the style sheet holds the same number."""
FEW_ROWS = 8
"""A table with no more rows needs no filter."""
MOST_LETTERS = 300
"""A name longer than this is cut in the page."""
TONES = {"ok": "good", "caution": "warn", "not identifiable": "bad"}
"""Colour of a verdict."""
NO_SCRIPT = "Charts, sorting and filtering need JavaScript; everything else is readable without."


def render(page: Page) -> str:
    """The whole file as text."""
    specs: list[Mapping[str, Any]] = []
    asks: list[dict[str, Any]] = []
    kept = _Kept(specs, asks)
    first = _first_screen(page, kept)
    sections = "".join(_section(section, number, kept) for number, section in enumerate(page.sections))
    last = _last(page)
    titles = [*(section.title for section in page.sections), "Provenance"]
    names = [*(f"s{number}" for number in range(len(page.sections))), "provenance"]
    menu = "".join(f'<a href="#{name}">{_text(title)}</a>' for name, title in zip(names, titles, strict=True))
    scripts = [_script(name) for name in _VENDORED] if specs else []
    scripts.append(_own("page.js"))
    body = (
        f'<a class="skip" href="#evidence">To the evidence</a><header class="top"><span class="brand">Latentfit</span>'
        f'<span class="door">{_text(page.family)}</span><nav aria-label="Sections">{menu}</nav></header>'
        f'<main>{first}<div id="evidence">{sections}</div>{last}</main>'
        f'<script type="application/json" id="content">{to_json({"charts": specs, "asks": asks})}</script>'
        + "".join(f"<script>{script}</script>" for script in scripts)
    )
    head = (
        '<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="'
        f'{_policy(scripts)}"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="latentfit">'
        f'<title>{_text(page.title)} · Latentfit</title><link rel="icon" href="data:,">'
        f"<style>{_own('page.css')}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


class _Kept:
    """What the page's scripts will draw, collected while the blocks are written."""

    def __init__(self, specs: list[Mapping[str, Any]], asks: list[dict[str, Any]]) -> None:
        self.specs, self.asks, self.tables = specs, asks, 0


def _first_screen(page: Page, kept: _Kept) -> str:
    reasons = "".join(f"<li>{_text(reason)}</li>" for reason in page.reasons)
    why = f'<ul class="reasons">{reasons}</ul>' if reasons else ""
    expected = f'<p class="expected">{_text(page.expected)}</p>' if page.expected else ""
    figures = "".join(
        f'<div class="figure"><dt>{_text(figure.label)}</dt><dd><b>{_text(figure.value)}</b>'
        f"<span>{_text(figure.note)}</span></dd></div>"
        for figure in page.figures
    )
    lead = f'<p class="lead">{_text(page.lead)}</p>' if page.lead else ""
    picture = "" if page.picture is None else f'<div class="picture">{_chart(page.picture, kept)}</div>'
    return (
        f'<section class="first"><div class="words"><h1>{_text(page.title)}</h1>{lead}'
        f'<div class="verdict {TONES.get(page.verdict, "warn")}"><p class="saying">'
        f'<span class="chip">{_text("OK" if page.verdict == "ok" else page.verdict.capitalize())}</span>'
        f'<strong id="verdict">{_text(page.headline or headline(page.verdict))}</strong></p>{why}{expected}</div>'
        f'<dl class="figures">{figures}</dl></div>{picture}</section>'
    )


def _section(section: Section, number: int, kept: _Kept) -> str:
    text = f"<p>{_text(section.text)}</p>" if section.text else ""
    charts = [at for at, block in enumerate(section.blocks) if isinstance(block, Chart)]
    alone = charts[-1] if len(charts) % 2 else None  # charts stand two by two; the last of an odd number has a row
    blocks = "".join(_block(block, kept, wide=at == alone) for at, block in enumerate(section.blocks))
    blocks = f'<div class="blocks">{blocks}</div>' if blocks else ""
    return f'<section id="s{number}"><h2>{_text(section.title)}</h2>{text}{blocks}</section>'


def _block(block: Block, kept: _Kept, *, wide: bool) -> str:
    if isinstance(block, Chart):
        return _chart(block, kept, wide=wide)
    if isinstance(block, DataTable):
        return _table(block, kept)
    if isinstance(block, Ask):
        return _ask(block, kept)
    if isinstance(block, Note):
        return f'<p class="note">{_text(block.text)}</p>'
    raise TypeError(f"a page has charts, tables, notes and models to ask, not {type(block).__name__}")


def _chart(chart: Chart, kept: _Kept, *, wide: bool = False) -> str:
    number = len(kept.specs)
    kept.specs.append(_for_vega({"description": _clean(chart.title or chart.caption), **chart.spec}))
    title = f"<h3>{_text(chart.title)}</h3>" if chart.title else ""
    return (
        f'<figure class="chart{" wide" if wide else ""}">{title}<div class="plot" data-chart="{number}"></div>'
        f"<figcaption>{_text(chart.caption)}</figcaption></figure>"
    )


def _table(table: DataTable, kept: _Kept) -> str:
    number, kept.tables = kept.tables, kept.tables + 1
    columns = [column if isinstance(column, Column) else Column(column) for column in table.columns]
    rows = [list(row) for row in table.rows[:MOST_ROWS]]
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row of the table {table.title!r} has {len(row)} cells, its header {len(columns)}")
    total = len(table.rows) if table.total is None else table.total
    cut = f" The first {len(rows):,} of {total:,} rows are shown." if total > len(rows) else ""
    numeric = [bool(rows) and all(_is_number(row[at]) or row[at] is None for row in rows) for at in range(len(columns))]
    head = "".join(
        f'<th scope="col" aria-sort="none"{" class=n" if is_number else ""}{_title(column.meaning)}>'
        f'<button type="button">{_text(column.name)}</button></th>'
        for column, is_number in zip(columns, numeric, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(_cell(value, column.form, at) for value, column, at in zip(row, columns, numeric, strict=True))
        + "</tr>"
        for row in rows
    )
    title = f"<h3>{_text(table.title)}</h3>" if table.title else ""
    paper = f'<p class="paper">The first {PRINTED_ROWS} rows are printed.</p>' if len(rows) > PRINTED_ROWS else ""
    search = (
        f'<label class="filter">Filter <input type="search" autocomplete="off" aria-controls="t{number}"></label>'
        '<output class="count" aria-live="polite"></output>'
    )
    return (
        f'<div class="data">{title}{search if len(rows) > FEW_ROWS else ""}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(table.title or table.caption)}">'
        f'<table id="t{number}"><caption>{_text(table.caption)}{cut}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{paper}</div>"
    )


def _title(meaning: str) -> str:
    return f' title="{_text(meaning)}"' if meaning else ""


def _cell(value: Any, form: str, numeric: bool) -> str:
    if value is None or (_is_number(value) and not math.isfinite(value)):
        return "<td></td>"
    if not _is_number(value):
        return f"<td>{_text(value)}</td>"
    shown = format(value, form) if form else shown_number(value)
    return f'<td{" class=n" if numeric else ""} data-v="{value:.7g}">{_text(shown)}</td>'


def shown_number(value: Any) -> str:
    """A whole number whole, others with four digits; no powers of ten where a reader can do without."""
    whole = isinstance(value, int | np.integer) or 1e3 <= abs(value) < 1e12
    return f"{value:,.0f}" if whole else f"{value:.4g}"


def _ask(ask: Ask, kept: _Kept) -> str:
    number = len(kept.asks)
    kept.asks.append(
        {
            "columns": [_clean(name) for name in ask.columns],
            "categories": [[_clean(word) for word in words] for words in ask.categories],
            "weights": ask.weights,
            "profiles": ask.profiles,
        }
    )
    title = f"<h3>{_text(ask.title)}</h3>" if ask.title else ""
    return (
        f'<div class="ask" data-ask="{number}">{title}<p class="note">{_text(ask.caption)}</p>'
        f'<form class="given"></form><div class="told" role="status"></div><div class="answers"></div></div>'
    )


def _last(page: Page) -> str:
    lines = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value, 2000)}</dd>" for name, value in page.provenance)
    papers = "".join(f"<li>{_text(paper, 2000)}</li>" for paper in page.papers)
    cite = f"<h3>Papers to cite</h3><ul>{papers}</ul>" if papers else ""
    return (
        f'<section id="provenance"><h2>Provenance</h2><dl class="lines">{lines}</dl>{cite}</section>'
        f"<noscript><p>{NO_SCRIPT}</p></noscript>"
    )


# ------------------------------------------------------------------ text


def to_json(value: Any) -> str:
    """JSON that can stand inside an HTML page; numbers that are not finite become null."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _DANGEROUS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


_DANGEROUS = re.compile("[<>&\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _CONTROLS.sub("\ufffd", value)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return (int(value) if value.is_integer() and abs(value) < 1e15 else value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    return value


def _for_vega(value: Any) -> Any:
    """The same spec without the one text that Vega, which keeps groups in plain objects, takes for something else."""
    if isinstance(value, str):
        return "__proto__\u200b" if value == "__proto__" else value
    if isinstance(value, Mapping):
        return {key: _for_vega(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_vega(item) for item in value]
    return value


def _clean(value: Any, most: int = MOST_LETTERS) -> str:
    text = _CONTROLS.sub("\ufffd", str(value))
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(value: Any, most: int = 1000) -> str:
    return html.escape(_clean(value, most))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


# --------------------------------------------------------------- scripts


@cache
def _script(name: str) -> str:
    """A vendored script without the line that sends a browser's tools to a map that does not exist."""
    text = (_HERE / "vendor" / name).read_text(encoding="utf-8")
    return re.sub(r"\n//# sourceMappingURL=\S+\s*$", "\n", text)


@cache
def _own(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Only these scripts, whatever else slips into the page; nothing leaves and nothing comes."""
    known = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    allowed = f"script-src {known}; style-src 'unsafe-inline'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
