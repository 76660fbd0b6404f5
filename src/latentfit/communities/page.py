"""The page of communities: the sorted matrix of links beside what degrees alone would make, blocks and their ties."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentfit.communities.data import Graph
from latentfit.communities.diagnostics import number_is_rejected
from latentfit.communities.estimator import BlockModel
from latentfit.communities.plot import block_links, cells_of, densities, sorted_nodes
from latentfit.core.verdict import FitReport
from latentfit.report.assemble import count, fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import ALARM, FADE, Spec, bars, heat_map, lines, tile
from latentfit.report.page import MOST_ROWS, Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

PAPERS = (
    "Huang, Kakade, Kong & Valiant 2018: Recovering Structured Probability Matrices. ITCS (the block model as pairs).",
    "Karrer & Newman 2011: Stochastic blockmodels and community structure in networks. Physical Review E (degrees).",
    "Decelle, Krzakala, Moore & Zdeborová 2011: Asymptotic analysis of the stochastic block model. Physical Review E "
    "(belief propagation).",
    "Saade, Krzakala & Zdeborová 2014: Spectral clustering of graphs with the Bethe Hessian. NeurIPS (their number).",
)
CELLS = 100
"""Cells of the picture a side: a larger graph is drawn as densities, so that a page stays light."""
SHOWN_BLOCKS = 30
"""Blocks of the maps, the largest first."""


def page_of(fitted: BlockModel, context: Context) -> Page:
    """Verdict, matrix, blocks, nodes. The matrix needs the graph, `input`."""
    report, number = fitted.report_, fitted.n_blocks_
    graph = context.data.get("input")
    nodes, edges = len(fitted.nodes_), fitted.n_edges_
    degrees = "Degrees are taken as given" if fitted.degree_corrected_ else "Degrees help to tell blocks apart"
    return page_about(
        report,
        context,
        title=title_of(report, number, f"{nodes:,} nodes"),
        family="communities",
        figures=_figures(fitted),
        picture=_connectivity(fitted) if graph is None else _matrix(fitted, graph),
        sections=[
            _blocks(fitted, graph),
            _nodes(fitted),
            _number(fitted),
            fit_section(fitted, context),
            numbers_section(
                report,
                "The model assumes that links between nodes of two blocks are equally likely, but for their degrees, "
                "and that the graph has few short loops.",
            ),
            next_section(
                report,
                "communities.csv holds the block of every node and how sure it is; latentfit predict places new "
                "nodes by "
                "their links.",
            ),
        ],
        papers=PAPERS,
        lead=f"{edges:,} edges. {degrees}.",
    )


def title_of(report: FitReport, number: int, things: str) -> str:
    """What was found: a number of blocks that a check rejects is no headline."""
    if number == 1:
        return f"{'No communities found among' if number_is_rejected(report) else 'One block fitted to'} {things}"
    if number_is_rejected(report):
        return f"{number} blocks fitted to {things}; the graph does not show {number}"
    return f"{number} communities of {things}"


def _figures(fitted: BlockModel) -> list[Figure]:
    known = fitted.report_.quantities
    how = "found from the graph" if fitted.selection_ else "as asked for"
    if number_is_rejected(fitted.report_):
        how = "not shown by the graph" if fitted.n_blocks_ > 1 else "no structure found"
    sure = float((fitted.probabilities_.max(axis=1) > 0.95).mean())
    third = Figure("Edges", count(fitted.n_edges_))
    gain = known.get("gain_over_one_block")
    if gain is not None and fitted.n_blocks_ > 1:
        third = Figure("Gain over one block", f"{gain:.3f}", "nats per edge")
    return [
        Figure("Blocks", str(fitted.n_blocks_), how),
        Figure("Surely placed", f"{sure:.0%}", "of nodes, with probability above 95 %"),
        third,
    ]


def _matrix(fitted: BlockModel, graph: Graph) -> Chart:
    """Cells of the sorted matrix; what degrees alone would make is computed in the page from the cells' degrees."""
    posterior = fitted.posterior_in(graph)
    order, edges = sorted_nodes(posterior)
    cell = cells_of(order, CELLS)
    dense = densities(graph.matrix, order, CELLS)
    n, cells = len(order), len(dense)
    size = np.bincount(cell, minlength=cells)
    degrees = np.bincount(cell, graph.degrees, cells) / size
    ends = max(float(graph.degrees.sum()), 1e-300)
    labels = posterior.argmax(axis=1)[order]
    first = np.concatenate([[0], np.cumsum(size)[:-1]])
    who = [
        str(graph.names[order[at]]) if width == 1 else f"nodes {at + 1:,}–{at + width:,}"
        for at, width in zip(first.tolist(), size.tolist(), strict=True)
    ]
    facts = [
        {"j": j, "who": who[j], "block": str(labels[first[j]]), "d": float(f"{degrees[j]:.4g}")}
        for j in range(cells)
    ]  # fmt: skip
    rows = [{"i": i, "o": [float(f"{value:.3g}") for value in dense[i]]} for i in range(cells)]
    expected = np.outer(degrees, degrees) / ends
    positive = np.concatenate([dense[dense > 0], expected[expected > 0]])
    top = float(np.quantile(positive, 0.99)) if len(positive) else 1.0
    spec = _cells_spec(rows, facts, [{"at": float(edge / n * cells)} for edge in edges[1:-1]], ends, top)
    binned = "" if cells == n else f" The {n:,} nodes are drawn in {cells} groups."
    caption = (
        "The matrix of links, nodes of a block side by side, the surest first; darker is denser. “Degrees alone” is "
        f"what the same degrees would make without blocks.{binned}"
    )
    return Chart(spec, caption, "Links, sorted by block")


def _cells_spec(rows: list[Spec], facts: list[Spec], edges: list[Spec], ends: float, top: float) -> Spec:
    """The picture: a row's densities are spread out by Vega, who a cell is of is looked up among the facts."""
    views = ["links", "degrees alone"]
    scale = {"domain": [0, len(rows)], "nice": False}
    place: Spec = {
        "x": {"field": "j", "type": "quantitative", "axis": None, "scale": scale},
        "y": {"field": "i", "type": "quantitative", "axis": None, "scale": {**scale, "reverse": True}},
    }
    return {
        "width": 420,
        "height": 420,
        "params": [
            {"name": "view", "value": views[0], "bind": {"input": "radio", "options": views, "name": "Show "}}
        ],
        "layer": [
            {
                "data": {"values": rows},
                "transform": [
                    {"flatten": ["o"]},
                    {"window": [{"op": "row_number", "as": "number"}], "groupby": ["i"]},
                    {"calculate": "datum.number - 1", "as": "j"},
                    {"lookup": "i", "from": {"data": {"values": facts}, "key": "j", "fields": ["who", "block", "d"]},
                     "as": ["left", "left_block", "left_degree"]},
                    {"lookup": "j", "from": {"data": {"values": facts}, "key": "j", "fields": ["who", "block", "d"]},
                     "as": ["right", "right_block", "right_degree"]},
                    {"calculate": f"datum.left_degree * datum.right_degree / {ends!r}", "as": "e"},
                    {"calculate": f"view == '{views[0]}' ? datum.o : datum.e", "as": "v"},
                    {"filter": "datum.v > 0"},
                    {"calculate": "datum.i + 1", "as": "i2"},
                    {"calculate": "datum.j + 1", "as": "j2"},
                ],
                "mark": {"type": "rect", "aria": False},
                "encoding": {
                    **place, "x2": {"field": "j2"}, "y2": {"field": "i2"},
                    "color": {"field": "v", "type": "quantitative", "legend": None,
                              "scale": {"type": "sqrt", "domain": [0, top], "clamp": True, "range": list(FADE)}},
                    "tooltip": [
                        {"field": "left", "title": "row"}, {"field": "left_block", "title": "its block"},
                        {"field": "right", "title": "column"}, {"field": "right_block", "title": "its block "},
                        {"field": "o", "title": "links per pair", "format": ",.3~g"},
                        {"field": "e", "title": "by degrees alone", "format": ",.3~g"},
                    ],
                },
            },
            *(
                {
                    "data": {"values": edges},
                    "mark": {"type": "rule", "color": ALARM, "opacity": 0.7},
                    "encoding": {way: {"field": "at", "type": "quantitative", "axis": None, "scale": given}},
                }
                for way, given in (("x", scale), ("y", {**scale, "reverse": True}))
            ),
        ],
    }  # fmt: skip


def _connectivity(fitted: BlockModel) -> Chart:
    shown = min(fitted.n_blocks_, SHOWN_BLOCKS)
    spec = heat_map(
        fitted.connectivity_[:shown, :shown], range(shown), range(shown), row="block", column="block ",
        value="mean weight of a pair's link", cell=tile(shown),
    )  # fmt: skip
    return Chart(spec, f"How often a node of one block links to one of another.{_cut(fitted)}", "Connectivity")


def _blocks(fitted: BlockModel, graph: Graph | None) -> Section:
    sizes = np.bincount(fitted.labels_, minlength=fitted.n_blocks_)
    shown = min(fitted.n_blocks_, SHOWN_BLOCKS)
    blocks: list[Block] = [
        Chart(
            bars(range(shown), sizes[:shown].tolist(), value="nodes", name="block"),
            f"Nodes by their most probable block.{_cut(fitted)}",
            "Sizes",
        )
    ]
    if graph is not None:
        blocks.append(_connectivity(fitted))
        links, expected = block_links(graph.matrix, fitted.posterior_in(graph).argmax(axis=1), fitted.n_blocks_)
        ratio = links / np.maximum(expected, 1e-300)
        spec = heat_map(
            np.log2(np.clip(ratio[:shown, :shown], 1 / 16, 16)), range(shown), range(shown), row="block",
            column="block ", value="log₂ of links over expected", both_ways=True, cell=tile(shown),
        )  # fmt: skip
        blocks.append(
            Chart(
                spec,
                "Links over what degrees alone would make, in doublings: +1 is twice as many, −1 half as many.",
                "Beyond degrees",
            )
        )
    rows = []
    for block in range(fitted.n_blocks_):
        inside = np.flatnonzero(fitted.labels_ == block)
        surest = inside[np.argsort(-fitted.probabilities_[inside, block], kind="stable")][:3]
        names = ", ".join(str(name) for name in fitted.nodes_[surest].tolist())
        within = float(fitted.connectivity_[block, block] / max(float(fitted.connectivity_[block].mean()), 1e-300))
        rows.append([block, len(inside), within, names])
    within_ = Column("inside / mean", ".1f", "links inside over the mean of all blocks")
    columns: list[str | Column] = ["block", "nodes", within_, "such as"]
    blocks.append(DataTable(columns, rows, "Blocks, the largest first."))
    return Section("The blocks", blocks)


def _cut(fitted: BlockModel) -> str:
    return "" if fitted.n_blocks_ <= SHOWN_BLOCKS else f" The {SHOWN_BLOCKS} largest of {fitted.n_blocks_} are shown."


def _nodes(fitted: BlockModel) -> Section:
    posterior = fitted.probabilities_
    order = np.argsort(posterior.max(axis=1), kind="stable")[:MOST_ROWS]
    rows = [[str(fitted.nodes_[at]), int(fitted.labels_[at]), float(posterior[at].max())] for at in order]
    table = DataTable(
        ["node", "block", Column("probability", ".1%")], rows, "Nodes whose block is least sure first.",
        total=len(posterior),
    )  # fmt: skip
    return Section("The nodes", [table])


def _number(fitted: BlockModel) -> Section:
    known: dict[str, Any] = fitted.report_.quantities
    signals = [abs(float(value)) for value in known.get("informative_signals", [])]
    seen = known.get("n_informative")
    plural = "" if seen == 1 else "s"
    text = f"{seen} informative Bethe-Hessian eigenvalue{plural}, the density among them." if seen is not None else ""
    if not signals:
        return Section("How many blocks", [Note("The model keeps no signals of the graph.")], text)
    rows = [{"x": at, "y": value} for at, value in enumerate(signals, start=1)]
    chart = lines(rows, x="signal", y="strength, 1 is chance", whole_x=True, marked=float(fitted.n_blocks_))
    caption = "Eigenvalues of the scaled matrix of links: each above 1 is a block; the line says how many are fitted."
    return Section("How many blocks", [Chart(chart, caption)], text)
