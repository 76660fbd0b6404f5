"""The page of a pair matrix: items by what they go with, how often they occur, how many causes the counts show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.pairs.diagnostics.rank_test import LEVEL
from latentfit.pairs.estimator import PairMatrix
from latentfit.pairs.plot import LEAST_P_VALUE, informative_items, rank_tests
from latentfit.report.assemble import fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import Spec, bars, heat_map, lines, points
from latentfit.report.page import MOST_ROWS, Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

PAPERS = (
    "Huang, Kakade, Kong & Valiant 2018: Recovering Structured Probability Matrices. ITCS.",
    "Baik, Ben Arous & Péché 2005: Phase transition of the largest eigenvalue for nonnull complex sample covariance "
    "matrices. Annals of Probability (what counts can show).",
)
MOST_ITEMS = 1_500
"""Items drawn, those that move most probability first."""
NAMED = 40
"""Items whose names are written."""
ROOM = (0.11, 0.035)
"""Width and height of a name, as fractions of the picture's."""
RANKS = 300
"""Points of the curve of marginals."""


def page_of(fitted: PairMatrix, context: Context) -> Page:
    """Verdict, items, rank, marginals."""
    report, known = fitted.report_, fitted.report_.quantities
    number = fitted.n_components_
    pairs = known.get("n_pairs")
    counted = f"{pairs:,.0f} pairs counted. " if pairs is not None else ""
    order = "Their order does not matter" if fitted.symmetric_ else "Rows and columns are kept apart"
    return page_about(
        report,
        context,
        title=_title(fitted),
        family="pairs",
        figures=_figures(fitted, known),
        picture=_items(fitted) if number > 1 else _marginal(fitted),
        sections=[
            _found(fitted),
            _rank(fitted, known),
            fit_section(fitted, context),
            numbers_section(
                report,
                "The model assumes that pairs were counted one by one, independently, and that few causes make some "
                "likelier than chance.",
            ),
            next_section(
                report,
                "For what the causes mean use TopicModel, CategoricalHMM or BlockModel; reconstruct() gives the "
                "probability of any pair.",
            ),
        ],
        papers=PAPERS,
        lead=f"{counted}{order}.",
    )


def _title(fitted: PairMatrix) -> str:
    """What was found; a number of components that a check rejects is not announced as found."""
    number, failed = fitted.n_components_, {check.name for check in fitted.report_.checks if not check.passed}
    title = f"Pairs of {len(fitted.items_):,} items"
    if "structure_found" in failed:
        return f"{title}: no structure found"
    if "components_supported" in failed:
        supported = fitted.report_.quantities["supported_components"]
        return f"{title}: {number} components fitted, {supported} supported by the counts"
    return f"{title}, {number} component{'s' if number > 1 else ''}"


def _figures(fitted: PairMatrix, known: dict[str, Any]) -> list[Figure]:
    rank_source = "as method='paper' has them" if fitted.method == "paper" else "by the test of every rank"
    how = rank_source if fitted.selection_ else "as asked for"
    ratio, expected = known.get("pairs_per_item"), fitted.report_.expected
    second = Figure("Items", f"{len(fitted.items_):,}")
    if ratio is not None:
        second = Figure("Pairs per item", f"{ratio:,.1f}", "a handful is needed")
    third = Figure("Log-likelihood", f"{fitted.log_likelihood_:,.0f}", "nats")
    if expected is not None:
        third = Figure("Expected error", f"{expected.value:.1%}", "of the probability, in the wrong place")
    return [Figure("Components", str(fitted.n_components_), how), second, third]


def _items(fitted: PairMatrix) -> Chart:
    rank = len(fitted.components_)
    wanted = [0] if rank == 1 else [0, 1]
    ranked = informative_items(fitted, wanted)
    x = fitted.components_[0]
    y = np.log10(np.maximum(fitted.marginal_, 1e-300)) if rank == 1 else fitted.components_[1]
    drawn = ranked[:MOST_ITEMS]
    named = apart(x[drawn], y[drawn], NAMED)
    rows = [
        {"x": float(f"{x[at]:.4g}"), "y": float(f"{y[at]:.4g}"), "name": str(fitted.items_[at]),
         "size": float(f"{fitted.marginal_[at]:.4g}"), "shown": str(fitted.items_[at]) if write else ""}
        for at, write in zip(drawn.tolist(), named.tolist(), strict=True)
    ]  # fmt: skip
    spec = points(
        rows, x="component 1", y="log₁₀ of the marginal" if rank == 1 else "component 2", name="item",
        size="marginal", cross=rank > 1, height=420,
    )  # fmt: skip
    total = len(fitted.items_)
    cut = "" if len(rows) == total else f" The {len(rows):,} of {total:,} items that move most are drawn."
    caption = f"Items on the same side of a component go together; area by how often they occur.{cut}"
    return Chart(spec, caption, "Items")


def apart(x: Any, y: Any, most: int) -> NDArray[np.bool_]:
    """Which points, the first come first, can have their names written without covering a name before them."""
    wide, high = (max(float(np.ptp(values)), 1e-300) for values in (x, y))
    written: list[int] = []
    for at in range(len(x)):
        if len(written) == most:
            break
        if all(abs(x[at] - x[one]) > ROOM[0] * wide or abs(y[at] - y[one]) > ROOM[1] * high for one in written):
            written.append(at)
    return np.isin(np.arange(len(x)), written)


def _marginal(fitted: PairMatrix) -> Chart:
    ranked = np.sort(fitted.marginal_)[::-1]
    at = np.unique(np.geomspace(1, len(ranked), min(RANKS, len(ranked))).astype(int))
    rows = [{"x": int(place), "y": float(ranked[place - 1])} for place in at if ranked[place - 1] > 0]
    spec: Spec = {
        "data": {"values": rows},
        "width": "container",
        "height": 260,
        "mark": {"type": "line", "point": {"size": 16}},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": "rank of the item", "scale": {"type": "log"}},
            "y": {"field": "y", "type": "quantitative", "title": "probability", "scale": {"type": "log"},
                  "axis": {"tickCount": 5}},
            "tooltip": [{"field": "x", "title": "rank"}, {"field": "y", "title": "probability", "format": ".3~g"}],
        },
    }  # fmt: skip
    return Chart(spec, "How often items occur, the most frequent first, on logarithmic scales.", "Marginals")


def _found(fitted: PairMatrix) -> Section:
    blocks: list[Block] = [] if fitted.n_components_ == 1 else [_marginal(fitted)]
    if hasattr(fitted, "mixing_"):
        size = range(len(fitted.mixing_))
        spec = heat_map(
            fitted.mixing_, size, size, row="cause of the first", column="cause of the second", value="probability",
            percent=True,
        )  # fmt: skip
        blocks.append(Chart(spec, "How often two causes make a pair together.", "Causes"))
    rank = len(fitted.components_)
    order = informative_items(fitted, range(rank)) if rank else np.argsort(-fitted.marginal_, kind="stable")
    columns: list[str | Column] = ["item", Column("count", ",.0f"), Column("marginal", ".3e")]
    columns += [Column(f"component {s + 1}", "+.3f", "pulls items of the same sign together") for s in range(rank)]
    rows = [
        [str(fitted.items_[at]), float(fitted.item_counts_[at]), float(fitted.marginal_[at]),
         *fitted.components_[:, at].tolist()]
        for at in order[:MOST_ROWS]
    ]  # fmt: skip
    caption = "Items, those that move most probability first."
    blocks.append(DataTable(columns, rows, caption, total=len(fitted.items_)))
    return Section("The items", blocks)


def _rank(fitted: PairMatrix, known: dict[str, Any]) -> Section:
    blocks: list[Block] = []
    tests = rank_tests(fitted)
    if tests:
        rows = [{"x": rank, "y": float(np.log10(max(p, LEAST_P_VALUE)))} for rank, p in enumerate(tests, start=1)]
        chart = lines(rows, x="components", y="log₁₀ of the p-value", whole_x=True, marked=float(fitted.n_components_))
        caption = (
            f"p-values of the tests that so many components are all: below {np.log10(LEVEL):.0f} one more is seen. "
            "The broken line says how many were fitted."
        )
        blocks.append(Chart(chart, caption, "Tests of the rank"))
    if fitted.singular_values_.any():
        values = fitted.singular_values_.tolist()
        least = known.get("detectable_value")
        limit = "" if least is None else f" With these counts a value below about {least:.2f} cannot be seen."
        chart = bars(range(1, len(values) + 1), values, value="scaled value, at most 1", name="component")
        blocks.append(Chart(chart, f"Singular values of the scaled, centred counts.{limit}", "Singular values"))
    if bins := known.get("bins"):
        rows_ = [
            [one["from"], one["to"], one["items"], one["mass"], one["spillover_bound"], "yes" if one["good"] else "no"]
            for one in bins
        ]
        blocks.append(
            DataTable(
                [Column("from", ".3g"), Column("to", ".3g"), "items", Column("mass", ".3f"),
                 Column("spillover bound", ".2g"), "good"],
                rows_, "Bins of the paper's method: items of like frequency, in units of one over the items.", "Bins",
            )
        )  # fmt: skip
    return Section("How many components", blocks or [Note("Independent items: there is nothing to count.")])
