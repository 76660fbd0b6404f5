"""`latentfit communities`: blocks of the nodes of a graph, their number found."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from latentfit.cli import options
from latentfit.cli.console import Terminal, called, number_of
from latentfit.cli.options import Reading
from latentfit.cli.results import Results, conclude, summarise
from latentfit.core.registry import ESTIMATORS

if TYPE_CHECKING:
    from latentfit.cli.predict import PredictRequest
    from latentfit.communities.data import Graph
    from latentfit.communities.estimator import BlockModel

SHOWN = 12
"""Blocks shown on the screen."""


@click.command()
@click.argument("files", metavar="EDGES…", nargs=-1, required=True)
@click.option("--blocks", type=options.HIDDEN, help="Number of communities; found from the graph by default.")
@click.option(
    "--degree-corrected", type=click.Choice(["auto", "yes", "no"]), default="auto", show_default=True,
    help="Take degrees as given (yes), or let them tell communities apart (no)?",
)  # fmt: skip
@options.column_options(*ESTIMATORS["BlockModel"].roles)
@options.table_options
@options.max_iter_option
@options.reading_options
@options.strict_option
@options.output_options("latentfit-communities", report=True)
def communities(
    files: tuple[str, ...], blocks: int | None, degree_corrected: str, source: str | None, target: str | None,
    weight: str | None, engine: str, memory: int | None, threads: int | None, strict: bool,
    reading: Reading, max_iter: int | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Communities of a graph, their number found.

    EDGES is a table source,target[,weight], or text with two words per line (a third is the weight; # and % begin
    comments). Edges have no direction; a row with one name alone is a node without edges. Writes communities.csv (node,
    block, probability). Several files, globs, folders and addresses (s3://…) of one kind are read one after the other.

    \b
    latentfit communities friends.csv --out communities
    latentfit communities web.txt.gz --blocks 5
    """
    from latentfit.cli.rows import counted_files
    from latentfit.communities.data import ALIASES, read_graph
    from latentfit.communities.diagnostics import number_is_rejected
    from latentfit.communities.estimator import BlockModel, community_columns
    from latentfit.core.estimator import model_state

    console = Terminal(quiet)
    columns = options.chosen_columns(source=source, target=target, weight=weight)
    with counted_files(
        files, engine, memory, console, reading, ALIASES, _are_lines(files[0]), columns.values()
    ) as counted:
        graph = read_graph(counted, columns=columns, what=called(files[0]))
    corrected: Any = {"auto": "auto", "yes": True, "no": False}[degree_corrected]
    model = BlockModel(
        blocks, degree_corrected=corrected, random_state=seed, n_jobs=threads, **options.at_most(max_iter)
    )
    with console.doing("fitting"):
        model.fit(graph)
        report = model.report_
    results = Results(out, format_, console, no_report=no_report)
    results.table("communities", community_columns(model.nodes_, model.probabilities_), main=True)
    results.model("BlockModel", *model_state(model))
    summary = summarise(model, report, graph.n_nodes, model.n_blocks_, seed=seed, inputs=files) | {
        "n_edges": graph.n_edges,
        "degree_corrected": model.degree_corrected_,
        "sizes": np.bincount(model.labels_, minlength=model.n_blocks_).tolist(),
        "connectivity": model.connectivity_.tolist(),
        "n_informative": report.quantities["n_informative"],
    }
    facts = (
        f"{number_of(graph.n_nodes, 'nodes')}, {number_of(graph.n_edges, 'edges')}, "
        f"{number_of(model.n_blocks_, 'blocks')}"
        f"{' fitted, which the graph does not show' if number_is_rejected(report) else ''}"
        f"{', degree-corrected' if model.degree_corrected_ else ''}"
    )
    page = partial(results.report, model, summary, input=graph)
    seen = partial(show, model, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=seen, page=page)


def _are_lines(name: str) -> bool | None:
    """Whether files are edge lists, which any file is whose name is no table's; None: their own names tell."""
    from latentfit.io.source import READABLE, STDIN, plain_name

    plain = plain_name(name).removesuffix(".gz")
    ending = os.path.splitext(plain)[1]
    several = os.path.isdir(name) or (not os.path.exists(name) and (not ending or "*" in ending))
    return None if several or name == STDIN or plain.endswith(READABLE) else True


def read_known(model: BlockModel, path: str, columns: dict[str, str], console: Terminal, reading: Reading) -> Graph:
    """The graph of a table or of an edge list, its nodes called as those of the fit."""
    from latentfit.cli.rows import counted_files
    from latentfit.communities.data import ALIASES, read_graph

    with counted_files(
        (path,), "memory", None, console, reading, ALIASES, _are_lines(path), columns.values()
    ) as counted:
        return read_graph(counted, columns=columns, what=called(path), nodes=model.nodes_)


def show(model: BlockModel, console: Terminal) -> None:
    """The largest blocks."""
    rows = []
    for block in range(min(model.n_blocks_, SHOWN)):
        inside = np.flatnonzero(model.labels_ == block)
        surest = inside[np.argsort(-model.probabilities_[inside, block], kind="stable")][:3]
        within = model.connectivity_[block, block] / max(float(model.connectivity_[block].mean()), 1e-300)
        names = ", ".join(str(name) for name in model.nodes_[surest].tolist())
        rows.append([str(block), f"{len(inside):,}", f"{within:.1f}×", names])
    title = "blocks" if model.n_blocks_ <= SHOWN else f"the {SHOWN} largest blocks"
    console.table(title, ["block", "nodes", "links inside / mean", "such as"], rows)


def predict_communities(model: BlockModel, request: PredictRequest) -> int:
    """Blocks of the nodes of a file of edges: known nodes keep theirs, new ones get them from their links."""
    from latentfit.communities.estimator import community_columns

    graph = read_known(model, request.data_file, request.columns, request.console, request.reading)
    posterior = model.posterior_in(graph)
    request.results.table("communities", community_columns(graph.names, posterior), main=True)
    return request.conclude(graph.n_nodes, number_of(graph.n_nodes, "nodes"))


def read_input(
    model: BlockModel, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    return {"input": read_known(model, path, columns, console, reading)}
