"""`latentfit cluster`: clusters of yes/no rows, their number found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal, number_of
from latentfit.cli.options import (
    HIDDEN,
    Reading,
    are_streamed,
    at_most,
    checkpoint_settings,
    engine_of,
    engine_options,
    max_iter_option,
    output_options,
    settings,
    strict_option,
    table_options,
    weight_options,
)
from latentfit.cli.results import Results, conclude, summarise

if TYPE_CHECKING:
    from latentfit.clusters.estimator import BernoulliMixture

CRITERIA = ["auto", "statistical", "purity", "blrt", "aic", "aic3", "bic", "sabic", "icl"]
SHOWN = 8
"""Clusters and columns shown on the screen."""


@click.command()
@click.argument("files", metavar="TABLE…", nargs=-1, required=True)
@click.option("--components", type=HIDDEN, help="Number of clusters; found from the data by default.")
@click.option("--select", type=click.Choice(CRITERIA), default="auto", show_default=True, help="How to find it.")
@click.option("--max-components", type=HIDDEN, help="Search limit; 24 by default, and one cluster per 8 rows.")
@click.option("--no-screen", is_flag=True, help="Keep every column: no near-duplicates, no noninformative columns.")
@click.option("--truncated", is_flag=True, help="Rows of zeros alone are never recorded: fit rows with a 1.")
@click.option("--binarize", type=float, metavar="T", help="Cut numbers: above T is yes.")
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows; 1-based numbers by default.")
@weight_options
@table_options
@max_iter_option
@engine_options
@strict_option
@output_options("latentfit-cluster", report=True)
def cluster(
    files: tuple[str, ...], components: int | None, select: str, max_components: int | None, no_screen: bool,
    truncated: bool, binarize: float | None, id_: str | None, weights: str | None, weight_type: str, engine: str,
    memory: int | None, cache: str | None, checkpoint: str | None, resume: bool, threads: int | None, strict: bool,
    reading: Reading, max_iter: int | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Clusters of rows of 0/1, true/false or yes/no, missing values allowed; how many there are is found.

    Beside clusters.csv and frequencies.csv it writes purity.csv (is each cluster pure?) and path.csv (every number
    of clusters by every criterion).

    \b
    latentfit cluster symptoms.csv --id patient --out clusters
    latentfit cluster counts.csv --binarize 0 --select statistical
    """
    from latentfit.cli.rows import RowFiles, fit_rows
    from latentfit.clusters.diagnostics.verdict import rejects_number
    from latentfit.clusters.estimator import BernoulliMixture
    from latentfit.core.estimator import model_state

    console, checkpoint_options = Terminal(quiet), checkpoint_settings(checkpoint, resume)
    streamed = are_streamed(files, engine, memory)
    model = BernoulliMixture(
        components,
        select=select,  # type: ignore[arg-type]
        max_components=max_components,
        screen=not no_screen,
        truncated=truncated,
        binarize=binarize,
        weight_type=weight_type,  # type: ignore[arg-type]
        random_state=seed,
        **at_most(max_iter),
        n_jobs=threads,
        engine=engine_of(engine, streamed),
    )
    with settings():
        model._check_settings()
    results = Results(out, format_, console, no_report=no_report)
    source = RowFiles(files, id_, weights, cache, streamed, reading)
    rows = fit_rows(model, source, "clusters", partial(_found, model), results, checkpoint_options)
    with console.doing("examining"):
        frames = {"frequencies": model.intervals(), "purity": model.purity_, "path": model.path_}
        frames |= {"copies": model.copies_, "local_dependence": model.local_dependence_}
        report = model.report_
    for stem, frame in frames.items():
        if frame.num_rows:  # there may be no dependent column
            results.batches(stem, [frame])
    results.model("BernoulliMixture", *model_state(model))
    extra = {"n_columns": len(model._names), "weights": model.weights_.tolist(), "chosen": dict(model._numbers.chosen)}
    if truncated:
        extra["n_unseen"] = model.n_unseen_
    summary = summarise(model, report, len(model.labels_), model.n_components_, seed=seed, inputs=files) | extra
    facts = (
        f"{number_of(summary['n_rows'], 'rows')}, {number_of(summary['n_columns'], 'columns')}, "
        f"{number_of(summary['n_components'], 'clusters')}"
        f"{' fitted, a number that the checks do not confirm' if rejects_number(report) else ''} "
        f"(evidence asks for {model._numbers.asked_for(model._limit)}, practical {summary['chosen']['practical']})"
    )
    page = partial(results.report, model, summary, input=None if rows is None else rows.data)
    seen = partial(show, model, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=seen, page=page)


def _found(model: BernoulliMixture, data: Any) -> dict[str, Any]:
    probabilities = model.predict_proba(data)
    return {"cluster": probabilities.argmax(axis=1), "probability": probabilities.max(axis=1)}


def show(model: BernoulliMixture, console: Terminal) -> None:
    """The clusters with what sets them apart, and how pure each is."""
    purity = model.purity_.to_pydict()
    apart = model.frequencies_ - model.weights_ @ model.frequencies_
    rows = []
    for k in range(min(model.n_components_, SHOWN)):
        order = sorted(range(len(model._names)), key=lambda n, k=k: -abs(apart[k, n]))[:3]  # type: ignore[misc]
        typical = ", ".join(f"{model._names[n]} {model.frequencies_[k, n]:.0%}" for n in order)
        test = "flagged" if purity["flagged"][k] else "pure" if purity["p_value"][k] == purity["p_value"][k] else "-"
        rows.append([str(k), f"{model.weights_[k]:.1%}", test, f"{purity['impurity'][k]:.1%}", typical])
    title = "clusters" if len(rows) == model.n_components_ else f"heaviest {SHOWN} of {model.n_components_} clusters"
    console.table(title, ["cluster", "weight", "test", "impurity", "furthest from the rest"], rows)
