"""The page of clusters: what each says, whether it is pure, and how their number was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.clusters.diagnostics.verdict import rejects_number
from latentfit.clusters.estimator import BernoulliMixture
from latentfit.clusters.plot import shown_columns, suspect_cells
from latentfit.clusters.select.criteria import CRITERIA
from latentfit.core.frames import as_frame, column, rows_of
from latentfit.report.assemble import fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import ALARM, Spec, distinct, heat_map, lines
from latentfit.report.page import MOST_ROWS, Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

PICTURE_COLUMNS = 16
"""Columns in the first picture; names of more cannot be read on a phone."""
ALL_COLUMNS = 60
"""Columns in the large picture."""
SHOWN_CLUSTERS = 40
"""Clusters in pictures, the heaviest ones."""

PAPERS = (
    "A. Najafi, S. A. Motahari and H. R. Rabiee: Reliable clustering of Bernoulli mixture models. Bernoulli 26 (2020).",
)


def page_of(fitted: BernoulliMixture, context: Context) -> Page:
    """Verdict, frequencies, purity, their number."""
    report, summary = fitted.report_, context.summary
    size, n_rows = fitted.n_components_, summary.get("n_rows")
    clusters = "No clusters found" if size == 1 else f"{size} clusters"
    rejected = size > 1 and rejects_number(report)  # a number that the checks reject is not announced as found
    of = "of yes/no rows" if n_rows is None else f"in {n_rows:,} rows"
    return page_about(
        report,
        context,
        title=f"{clusters} fitted {of}; the checks do not confirm this number" if rejected else f"{clusters} {of}",
        family="clusters",
        figures=_figures(fitted),
        picture=_map(fitted, PICTURE_COLUMNS),
        sections=[
            _frequencies(fitted),
            _purity(fitted),
            _number(fitted),
            fit_section(fitted, context),
            _assumed(fitted),
            numbers_section(report),
            next_section(report, "latentfit predict puts new rows into these clusters."),
        ],
        papers=PAPERS,
        lead=f"{len(fitted._names):,} yes/no columns; inside a cluster they are independent.",
    )


# ------------------------------------------------------------ first screen


def _figures(fitted: BernoulliMixture) -> list[Figure]:
    numbers = fitted._numbers
    how = f"the evidence asks for {numbers.asked_for(fitted._limit)}, practical use for {numbers.chosen['practical']}"
    if fitted.selection_ is None:
        how = "as asked for"
    purity = rows_of(as_frame(fitted.purity_))
    flagged = sum(bool(row["flagged"]) for row in purity)
    expected = fitted.report_.expected
    misplaced = float(np.average([row["impurity"] for row in purity], weights=fitted.weights_)) if purity else 0.0
    misplaced = misplaced if expected is None else expected.value
    return [
        Figure("Clusters", f"{fitted.n_components_:,}", how),
        Figure("Flagged as impure", f"{flagged:,}", f"of {fitted.n_components_:,}"),
        Figure("Rows that may be elsewhere", f"{misplaced:.1%}", "expected proportion of all rows"),
    ]


def _map(fitted: BernoulliMixture, most: int) -> Chart:
    """Clusters × the columns that tell most about them; what betrays a flagged cluster is marked."""
    names, size = distinct(fitted._names), min(fitted.n_components_, SHOWN_CLUSTERS)
    suspects = [(k, n) for k, n in suspect_cells(fitted.purity_, [str(name) for name in fitted._names]) if k < size]
    columns = shown_columns(fitted.weights_, fitted.frequencies_, sorted({n for _, n in suspects})[:most], most)
    clusters = [f"{k} · {fitted.weights_[k]:.0%}" for k in range(size)]
    # Columns stand in rows: their names are long, clusters are few.
    spec = heat_map(
        fitted.frequencies_[:size, columns].T, [names[n] for n in columns], clusters, row="",
        column="cluster · proportion of rows", value="how often it is yes", percent=True, largest=1.0,
        numbers=size <= 8, legend=size > 8, cell=20 if most > PICTURE_COLUMNS else 24,
    )  # fmt: skip
    marked = [(clusters[k], names[n]) for k, n in suspects if n in columns]
    if marked:
        spec["layer"].append(_marks(marked))
    cut = "" if len(columns) == len(names) else f" The {len(columns)} most informative of {len(names):,} columns."
    frame_note = " A red frame marks what betrays a flagged cluster." if marked else ""
    return Chart(spec, f"How often each column is yes in each cluster.{cut}{frame_note}")


def _marks(cells: list[tuple[str, str]]) -> Spec:
    return {
        "data": {"values": [{"x": cluster, "y": column} for cluster, column in cells]},
        "mark": {"type": "rect", "fill": None, "stroke": ALARM, "strokeWidth": 2.5},
        "encoding": {"tooltip": [{"field": "y", "title": "column"}, {"field": "x", "title": "cluster"}]},
    }


# ---------------------------------------------------------------- sections


def _frequencies(fitted: BernoulliMixture) -> Section:
    """The large picture, and every frequency, those first that differ most from all rows."""
    blocks: list[Block] = []
    if len(fitted._names) > PICTURE_COLUMNS:
        blocks.append(_map(fitted, ALL_COLUMNS))
    overall = fitted.weights_ @ fitted.frequencies_
    differs = np.abs(fitted.frequencies_ - overall)
    bounds = _bounds(fitted)
    rows = []
    for flat in np.argsort(-differs, axis=None, kind="stable")[:MOST_ROWS].tolist():
        k, n = divmod(flat, len(fitted._names))
        ends = [None if bound is None else float(bound[k, n]) for bound in bounds]
        rows.append([k, str(fitted._names[n]), float(fitted.frequencies_[k, n]), *ends, float(overall[n])])
    proportions = [Column(name, ".1%") for name in ("yes", "from", "to", "overall")]
    caption = (
        "How often a column is yes in a cluster, with 95 % intervals where the rows are at hand; the least usual first."
    )
    table = DataTable(["cluster", "column", *proportions], rows, caption, "Frequencies", total=fitted.frequencies_.size)
    return Section("What the clusters say", [*blocks, table])


def _bounds(fitted: BernoulliMixture) -> tuple[Any, Any]:
    if not hasattr(fitted, "_table"):  # a model from a file keeps no rows
        return None, None
    frame, shape = as_frame(fitted.intervals()), fitted.frequencies_.shape
    low, high = (column(frame, name).to_numpy(zero_copy_only=False).reshape(shape) for name in ("low", "high"))
    return low, high


def _purity(fitted: BernoulliMixture) -> Section:
    rows = sorted(rows_of(as_frame(fitted.purity_)), key=lambda row: (not row["flagged"], row["p_value"]))
    table = DataTable(
        [
            "cluster",
            Column("weight", ".1%"),
            "verdict",
            Column("p-value", ".3g", "probability of such columns in a pure cluster"),
            Column("impurity", ".1%", "expected proportion of its rows that belong elsewhere"),
            Column("certified", ".1%", "impurity shown by the columns themselves"),
            Column("betrayed by", meaning="columns that depend on one another inside the cluster"),
        ],
        [
            [
                int(row["cluster"]),
                float(fitted.weights_[int(row["cluster"])]),
                "flagged" if row["flagged"] else "no sign of a mixture",
                row["p_value"],
                row["impurity"],
                row["certified_impurity"],
                row["suspect_pair"] or row["suspect_columns"],
            ]
            for row in rows
        ],
        "Inside a pure cluster columns are independent; where they are not, the cluster is a mixture. Flagged first.",
    )
    return Section("Is each cluster pure?", [table])


def _number(fitted: BernoulliMixture) -> Section:
    """K by every criterion: each is shown as what it loses against its own best, so that all share one axis."""
    path, chosen = fitted._numbers.columns, fitted._numbers.chosen
    numbers = [int(number) for number in path["n_components"]]
    rows = []
    for name in CRITERIA:
        values = np.asarray(path[name], float)
        finite = np.flatnonzero(np.isfinite(values))
        above = values - values[finite].min(initial=np.inf)
        rows += [{"x": numbers[at], "y": float(above[at]), "series": name} for at in finite]
    blocks: list[Block] = []
    if len(numbers) > 1 and rows:
        spec = lines(rows, x="clusters", y="above its best", series="criterion", whole_x=True,
                     marked=fitted.n_components_)  # fmt: skip
        blocks.append(Chart(spec, "Every criterion along the path, as its distance from its own best: it chooses where "
                                  "it touches zero. The dashed line is the number chosen."))  # fmt: skip
    table = DataTable(
        ["criterion", "clusters"],
        [[name, int(number)] for name, number in chosen.items()],
        "What each criterion chooses.",
    )
    return Section("How many clusters", [*blocks, table])


def _assumed(fitted: BernoulliMixture) -> Section:
    text = (
        "Inside a cluster columns are independent; rows are drawn one by one; cells are missing at random. Columns "
        "that nearly equal another would make clusters of their own, so they are set aside before the fit."
    )
    blocks: list[Block] = []
    for frame, second, correlation, caption, title in (
        (fitted.copies_, "copies", "correlation", "Columns that were set aside.", "Near-duplicate columns"),
        (
            fitted.local_dependence_, "with", "correlation inside clusters", "Both columns are in the model.",
            "Local dependence",
        ),
    ):  # fmt: skip
        rows = [[row["column"], row[second], row["correlation"]] for row in rows_of(as_frame(frame))]
        if rows:
            blocks.append(DataTable(["column", second, Column(correlation, ".3f")], rows, caption, title))
        elif second == "copies":
            blocks.append(Note("No column is a near-duplicate of another."))
    return Section("What was assumed", blocks, text)
