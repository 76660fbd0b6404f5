"""The page of a table: its hidden classes, what tells them apart, and the model itself to ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.mixture.joint import JointPMF
from latentfit.core.verdict import FitReport
from latentfit.report.assemble import fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import bars, distinct, heat_map, lines
from latentfit.report.page import MOST_ROWS, Ask, Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section
from latentfit.tables.diagnostics.verdict import number_is_shown
from latentfit.tables.estimator.latent_class import LatentClass
from latentfit.tables.plot import informative_categories

N_INFORMATIVE = 12  # Cells (column = category) in the first picture.
SHOWN_COLUMNS = 30  # Columns in the picture of information.
SHOWN_CLASSES = 30  # Classes in pictures, the heaviest ones.
ASK_NUMBERS = 40_000  # Probabilities of the model that the page holds to be asked: about 450 KB.
PROFILE_NUMBERS = 8_000  # Probabilities in the picture of profiles.
DIGITS = 9  # Significant digits of a probability in the page: more than `latentfit query` prints.

USES = (
    "latentfit impute fills the missing values of a table with this model, latentfit predict --target predicts a "
    "column, latentfit query answers questions about any columns, latentfit sample draws rows."
)
PAPERS = (
    "S. Ibrahim and X. Fu: Recovering joint probability of discrete random variables from pairwise marginals. "
    "IEEE Transactions on Signal Processing 69 (2021).",
)


def page_of(fitted: LatentClass, context: Context) -> Page:
    """Verdict, the model to ask, classes, columns, their number."""
    joint: JointPMF = fitted.joint_
    report, summary = fitted.report_, context.summary
    information = joint.class_information()
    order = np.argsort(-information, kind="stable")
    n_rows, size = summary.get("n_rows"), fitted.n_components_
    rows = f"in {n_rows:,} rows" if n_rows is not None else "of rows"
    classes = number_of_classes(report, size)
    sections = [
        Section("Ask the model", [_ask(joint, order)]),
        _classes(joint, order),
        _information(joint, information, order),
        *_numbers(fitted, context),
        fit_section(fitted, context),
        _assumed(report.quantities),
        numbers_section(report),
        next_section(report, USES),
    ]
    return page_about(
        report,
        context,
        title=f"{classes} {rows}",
        family="tables",
        figures=_figures(fitted, joint, context, order),
        picture=_informative_chart(joint),
        sections=sections,
        papers=PAPERS,
        lead=f"The joint distribution of {len(joint.columns):,} columns as a mixture of {number_text(size)}: inside a "
        "class, columns say nothing about one another.",
    )


def number_text(size: int) -> str:
    """The number of classes in words."""
    return "1 class" if size == 1 else f"{size} classes"


def number_of_classes(report: FitReport, size: int) -> str:
    """How a title names the number of classes: never as found where a check rejects it."""
    shown = number_is_shown(report)
    if size == 1:
        return "1 class" if shown else "No classes found"
    return f"{size} hidden classes" if shown else f"{size} classes fitted, which the data do not show,"


# ------------------------------------------------------------ first screen


def _figures(fitted: LatentClass, joint: JointPMF, context: Context, order: Any) -> list[Figure]:
    chosen = fitted.selection_
    how = f"chosen by the {chosen['criterion']}" if chosen else "as asked for"
    if not number_is_shown(fitted.report_):
        how += "; see the verdict: the data do not show this number"
    weights = joint.mixture.weights
    figures = [Figure("Classes", f"{len(weights):,}", how)]
    figures.append(Figure("Largest class", f"{weights.max():.0%}", f"smallest {weights.min():.1%} of the rows"))
    data = context.data.get("input")
    if data is not None:
        sure = float(fitted.predict_proba(data).max(axis=1).mean())
        figures.append(Figure("Sure of a row’s class", f"{sure:.0%}", "mean probability of the likeliest class"))
    else:
        figures.append(Figure("Most informative column", str(joint.columns[order[0]].name), "about the class"))
    return figures


def _informative_chart(joint: JointPMF) -> Chart:
    """Classes × the categories whose probability differs most between them, at most one of a two-valued column."""
    weights, table = joint.mixture.weights, joint.mixture.table
    cells, names = informative_categories(joint, N_INFORMATIVE)
    n_classes = min(len(weights), SHOWN_CLASSES)
    classes = [f"{k} · {weights[k]:.0%}" for k in range(n_classes)]
    # Categories stand in rows: their names are long, classes are few.
    spec = heat_map(
        table[cells][:, :n_classes], distinct(names), distinct(classes), row="", column="class · proportion of rows",
        value="probability", percent=True, largest=1.0, numbers=n_classes <= 8, legend=n_classes > 8,
    )  # fmt: skip
    return Chart(spec, "What tells the classes apart: how probable each answer is in each class.")


# ---------------------------------------------------------------- sections


def _ask(joint: JointPMF, order: Any) -> Ask:
    profiles, fitting = joint.mixture.profiles(), _fitting(joint, order, joint.mixture.n_classes, ASK_NUMBERS)
    columns = [joint.columns[n] for n in fitting]
    n_columns = len(joint.columns)
    cut = "" if len(fitting) == n_columns else f" The {len(fitting)} most informative of {n_columns} columns."
    return Ask(
        [str(column.name) for column in columns],
        [[str(value) for value in column.categories.tolist()] for column in columns],
        _rounded(joint.mixture.weights),
        [_rounded(profiles[n]) for n in fitting],
        "Choose what is known of a row; every other column shows its distribution, as latentfit query "
        "computes it. The "
        f"grey mark is the distribution when nothing is known.{cut}",
    )


def _fitting(joint: JointPMF, order: Any, classes: int, most: int) -> list[int]:
    """Columns in `order`, one at least, whose probabilities in so many classes are no more than `most` numbers."""
    fitting: list[int] = []
    for n in order.tolist():
        most -= classes * joint.columns[n].size
        if most >= 0 or not fitting:
            fitting.append(n)
    return fitting


def _rounded(values: Floats) -> Any:
    if values.ndim == 1:
        return [float(f"{value:.{DIGITS}g}") for value in values.tolist()]
    return [_rounded(row) for row in values]


def _classes(joint: JointPMF, order: Any) -> Section:
    """Sizes, and every class's profile: one column at a time, and as a table of what is unusual."""
    weights = joint.mixture.weights
    n_shown = min(len(weights), SHOWN_CLASSES)
    cut = "" if n_shown == len(weights) else f" The {n_shown} heaviest of {len(weights)}."
    sizes = bars([str(k) for k in range(n_shown)], weights[:n_shown].tolist(), value="proportion of rows", name="class",
                 percent=True)  # fmt: skip
    blocks: list[Block] = [
        Chart(sizes, f"Weights of the classes.{cut}", "Class sizes"),
        _profiles(joint, order, n_shown),
        _unusual(joint),
    ]
    return Section("Classes", blocks)


def _profiles(joint: JointPMF, order: Any, n_classes: int) -> Chart:
    """The distribution of one column in every class, the column chosen in the page."""
    profiles, columns = joint.mixture.profiles(), _fitting(joint, order, n_classes, PROFILE_NUMBERS)
    names = distinct([joint.columns[n].name for n in columns])
    rows = [
        {"n": at, "x": str(category), "y": str(k), "v": round(float(probability), 4)}
        for at, n in enumerate(columns)
        for k in range(n_classes)
        for category, probability in zip(joint.columns[n].categories.tolist(), profiles[n][k], strict=True)
    ]
    spec = heat_map(np.zeros((n_classes, 1)), [str(k) for k in range(n_classes)], [""], row="class", column="category",
                    value="probability", percent=True, numbers=False, largest=1.0)  # fmt: skip
    spec |= {
        "usermeta": {"widest": 820},
        "data": {"values": rows},
        "params": [
            {
                "name": "column",
                "value": 0,
                "bind": {"input": "select", "options": list(range(len(columns))), "labels": names, "name": "Column "},
            }
        ],
        "transform": [{"filter": "datum.n == column"}],
    }
    cut = "" if len(columns) == len(joint.columns) else f" The {len(columns)} most informative columns can be chosen."
    return Chart(spec, f"How probable each category of a column is in each class.{cut}", "Profiles")


def _unusual(joint: JointPMF) -> DataTable:
    """Cells of the profiles, those first that are farthest from the whole table's distribution."""
    weights, table = joint.mixture.weights, joint.mixture.table
    overall = table @ weights
    nats = table * np.log(np.maximum(table, 1e-300) / np.maximum(overall, 1e-300)[:, None])
    flat = np.argsort(-nats, axis=None, kind="stable")[:MOST_ROWS]
    rows = []
    for cell, k in zip(*(part.tolist() for part in np.unravel_index(flat, nats.shape)), strict=True):
        n = int(np.searchsorted(joint.mixture.column_offsets, cell, side="right")) - 1
        column = joint.columns[n]
        lift = table[cell, k] / overall[cell] if overall[cell] > 0 else None
        category = str(column.categories[cell - joint.mixture.column_offsets[n]])
        rows.append([k, str(column.name), category, float(table[cell, k]), float(overall[cell]), lift])
    columns: list[str | Column] = [
        "class", "column", "category", Column("in the class", ".1%"), Column("overall", ".1%"),
        Column("times", ".2f", "in the class ÷ overall"),
    ]  # fmt: skip
    return DataTable(columns, rows, "What is more frequent in a class than overall, the most unusual first.",
                     "What is typical of each class", total=table.size)  # fmt: skip


def _information(joint: JointPMF, information: Floats, order: Any) -> Section:
    names = [joint.columns[n].name for n in order[:SHOWN_COLUMNS]]
    spec = bars(distinct(names), information[order[:SHOWN_COLUMNS]].tolist(), value="nats", name="column")
    rows = [[str(joint.columns[n].name), joint.columns[n].size, float(information[n])] for n in order.tolist()]
    table = DataTable(
        ["column", "categories", Column("nats", ".4f", "mutual information with the class")],
        rows,
        "What each column tells about the class.",
        "Every column",
    )
    which = "Columns"
    if len(order) > SHOWN_COLUMNS:
        which = f"The {SHOWN_COLUMNS} most informative of {len(order):,} columns"
    chart = Chart(spec, f"{which} by the information they hold about the class, in nats.")
    return Section("Columns ranked by information", [chart, table] if len(order) > SHOWN_COLUMNS else [chart])


def _numbers(fitted: LatentClass, context: Context) -> list[Section]:
    """How many classes: the curve behind the choice, and a comparison that was asked for."""
    blocks: list[Block] = []
    curve = fitted.selection_
    if curve:
        rows = [{"x": x, "y": y} for x, y in zip(curve["n_components"], curve["value"], strict=True)]
        spec = lines(rows, x="classes", y=str(curve["criterion"]), whole_x=True, marked=fitted.n_components_)
        blocks.append(
            Chart(spec, f"The {curve['criterion']} by number of classes; the mark is the number that was fitted.")
        )
    comparison = context.data.get("comparison")
    if comparison is not None:
        names = comparison.column_names
        rows_ = [list(row) for row in zip(*(comparison[name].to_pylist() for name in names), strict=True)]
        information = [Column(name.replace("_", " "), "" if name == "n_components" else ",.2f") for name in names]
        blocks.append(DataTable(information, rows_, "Fit indices by number of classes.", "Comparison"))
    if not blocks:
        return []
    return [Section("How many classes", blocks)]


def _assumed(quantities: Mapping[str, Any]) -> Section:
    text = (
        "Inside a class columns are independent, rows are drawn one by one, and cells are missing at random: whether a "
        "cell is empty may depend on what else is seen, not on what it would have said."
    )
    worst = quantities.get("residual_dependence")
    blocks: list[Block] = []
    if isinstance(worst, int | float):
        blocks.append(Note(f"Largest dependence that the classes leave between two columns: {worst:.3g}."))
    return Section("What was assumed", blocks, text)
