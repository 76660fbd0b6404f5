"""`tacit cluster`: clusters of yes/no rows, their number found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.common import Results, Talk, conclude, engine_options, is_long, output_options, summarise

if TYPE_CHECKING:
    from tacit.models.bernoulli_mixture import BernoulliMixture

CRITERIA = ["auto", "statistical", "purity", "blrt", "aic", "aic3", "bic", "sabic", "icl"]
SHOWN = 8
"""Clusters and columns shown on the screen."""


@click.command()
@click.argument("files", metavar="TABLE…", nargs=-1, required=True)
@click.option("--components", type=int, help="Number of clusters; found from the data by default.")
@click.option("--select", type=click.Choice(CRITERIA), default="auto", show_default=True, help="How to find it.")
@click.option("--binarize", type=float, metavar="T", help="Cut numbers: above T is yes.")
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows; 1-based numbers by default.")
@click.option("--weights", metavar="COLUMN", help="Column that says how many rows each row stands for.")
@engine_options
@click.option("--checkpoint", metavar="FILE", help="Keep the parameters here while fitting.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint, to the same result.")
@click.option("--strict", is_flag=True, help="Exit with 1 when the verdict is not 'trusted'.")
@output_options("tacit-cluster", report=True)
def cluster(
    files: tuple[str, ...], components: int | None, select: str, binarize: float | None, id_: str | None,
    weights: str | None, engine: str, memory: int | None, cache: str | None, checkpoint: str | None, resume: bool,
    threads: int | None, strict: bool, out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Clusters of rows of 0/1, true/false or yes/no, gaps allowed; how many there are is found.

    Beside clusters.csv and frequencies.csv it writes purity.csv (is each cluster pure?) and path.csv (every number
    of clusters by every criterion).

    \b
    tacit cluster symptoms.csv --id patient --out clusters
    tacit cluster counts.csv --binarize 0 --select statistical
    """
    from tacit.cli.long_rows import answers, fit_files
    from tacit.cli.rows import read_rows
    from tacit.data.coding import read_weights
    from tacit.models.base import model_state
    from tacit.models.bernoulli_mixture import BernoulliMixture

    talk = Talk(quiet)
    if resume and not checkpoint:
        raise click.UsageError("--resume needs --checkpoint FILE, the file that the stopped run was writing")
    keeping: dict[str, Any] = {"checkpoint": checkpoint, "resume": resume}
    long = is_long(files, engine, memory)
    rows = None
    if not long:
        with talk.doing("reading"):
            rows = read_rows(files[0], id_, leave_out=[weights] if weights else [])
            weight = read_weights(rows.all[weights], weights, 0) if weights else None
    model = BernoulliMixture(
        components,
        select=select,  # type: ignore[arg-type]
        binarize=binarize,
        random_state=seed,
        n_jobs=threads,
        engine=engine if engine != "auto" or not long else "stream",
    )
    if rows is None:
        whole = fit_files(files, id_, weights, cache, model, talk, **keeping)
        results = Results(out, format_, talk, no_report=no_report)
        found = answers(whole, id_, weights, lambda data: _found(model.predict_proba(data)), talk, "writing clusters")
        results.batches("clusters", found, main=True)
    else:
        with talk.doing("fitting"), talk.heeding_warnings():
            model.fit(rows.data, sample_weight=weight, **keeping)
            beliefs = model.predict_proba(rows.data)
        results = Results(out, format_, talk, no_report=no_report)
        results.table("clusters", {rows.id_name: rows.ids, **_found(beliefs)}, main=True)
    with talk.doing("examining"):
        frequencies, purity, _ = model.intervals(), model.purity_, model.report_
    for stem, frame in (("frequencies", frequencies), ("purity", purity), ("path", model.path_)):
        results.table(stem, dict(zip(frame.column_names, frame.columns, strict=True)))
    if model.copies_.num_rows:
        results.table("copies", dict(zip(model.copies_.column_names, model.copies_.columns, strict=True)))
    results.model("BernoulliMixture", *model_state(model))
    more = {"n_columns": len(model._names), "weights": model.weights_.tolist(), "chosen": dict(model._numbers.chosen)}
    summary = summarise(model, model.report_, len(model.labels_), model.n_components_, seed=seed, inputs=files) | more
    chosen = summary["chosen"]
    facts = (
        f"{summary['n_rows']:,} rows, {summary['n_columns']:,} columns, {summary['n_components']} clusters "
        f"(evidence asks for {chosen['statistical']}, practical {chosen['practical']})"
    )
    page = partial(results.report, model, summary, input=None if rows is None else rows.data)
    seen = partial(show, model, talk)
    return conclude(summary, facts, talk, results, json_=json_, strict=strict, show=seen, page=page)


def _found(beliefs: Any) -> dict[str, Any]:
    return {"cluster": beliefs.argmax(axis=1), "probability": beliefs.max(axis=1)}


def show(model: BernoulliMixture, talk: Talk) -> None:
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
    talk.table(title, ["cluster", "weight", "test", "impurity", "furthest from the rest"], rows)
