"""`tacit table`: the joint distribution of a categorical table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.common import Results, Talk, conclude, engine_options, is_long, output_options, summarise

if TYPE_CHECKING:
    from tacit.models.latent_class import LatentClass

SHOWN = 8
"""Classes and columns shown on the screen."""


@click.command()
@click.argument("files", metavar="TABLE…", nargs=-1, required=True)
@click.option("--components", type=int, help="Number of classes; chosen from the data by default.")
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows; 1-based numbers by default.")
@click.option("--bins", type=int, help="Cut numeric columns with many values into so many intervals.")
@click.option("--weights", metavar="COLUMN", help="Column that says how many rows each row stands for.")
@click.option("--init", type=click.Choice(["auto", "spa", "ctd", "random"]), default="auto", show_default=True)
@click.option("--select", type=click.Choice(["heldout", "bic"]), default="heldout", show_default=True)
@click.option("--smoothing", type=float, help="Pseudo-rows per class; 0: maximum likelihood.")
@click.option("--compare", "most", type=click.IntRange(min=0), metavar="F",
              help="Also fit 1 … F classes: comparison.csv.")  # fmt: skip
@click.option("--bootstrap", "draws", type=click.IntRange(min=0), metavar="N",
              help="Intervals from N resampled tables: intervals.csv.")  # fmt: skip
@engine_options
@click.option("--checkpoint", metavar="FILE", help="Keep the parameters here while fitting.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint, to the same result.")
@click.option("--strict", is_flag=True, help="Exit with 1 when the verdict is not 'trusted'.")
@output_options("tacit-table", report=True)
def table(
    files: tuple[str, ...], components: int | None, id_: str | None, bins: int | None, weights: str | None, init: str,
    select: str, smoothing: float | None, most: int | None, draws: int | None, engine: str, memory: int | None,
    cache: str | None, checkpoint: str | None, resume: bool, threads: int | None, strict: bool,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Hidden classes and the joint distribution of a table of categories, gaps allowed.

    \b
    tacit table survey.csv --out classes
    tacit table survey.csv --components 4 --id person --bins 8
    tacit table 'history/*.parquet' --engine stream --cache coded
    """
    from tacit.cli.long_rows import answers, fit_files
    from tacit.cli.rows import read_rows
    from tacit.data.coding import read_weights
    from tacit.models.base import model_state
    from tacit.models.latent_class import LatentClass

    talk = Talk(quiet)
    if resume and not checkpoint:
        raise click.UsageError("--resume needs --checkpoint FILE, the file that the stopped run was writing")
    keeping = {"checkpoint": checkpoint, "resume": resume}
    long = is_long(files, engine, memory)
    if long and (most or draws):
        raise click.UsageError("--compare and --bootstrap need the rows in memory; give --engine memory")
    rows = None
    if not long:
        with talk.doing("reading"):
            rows = read_rows(files[0], id_, leave_out=[weights] if weights else [])
            weight = read_weights(rows.all[weights], weights, 0) if weights else None
    model = LatentClass(
        components,
        init=init,
        select=select,  # type: ignore[arg-type]
        smoothing="auto" if smoothing is None else smoothing,
        bins=bins,
        random_state=seed,
        n_jobs=threads,
        engine=engine if engine != "auto" or not long else "stream",
    )
    if rows is None:
        whole = fit_files(files, id_, weights, cache, model, talk, **keeping)
        n_rows = model._stored.n_rows + model._stored.absent  # type: ignore[union-attr]
        results = Results(out, format_, talk, no_report=no_report)
        found = answers(whole, id_, weights, lambda data: _found(model.predict_proba(data)), talk, "writing classes")
        results.batches("classes", found, main=True)
    else:
        n_rows = rows.data.num_rows
        with talk.doing("fitting"), talk.heeding_warnings():
            model.fit(rows.data, sample_weight=weight, **keeping)  # type: ignore[arg-type]
            beliefs = model.predict_proba(rows.data)
        results = Results(out, format_, talk, no_report=no_report)
        results.table("classes", {rows.id_name: rows.ids, **_found(beliefs)}, main=True)
    results.table("profiles", profile_columns(model))
    comparison = None
    if most and rows is not None:
        with talk.doing(f"comparing 1 to {most} classes"):
            comparison = model.compare(rows.data, range(1, most + 1), sample_weight=weight)
        results.table("comparison", dict(zip(comparison.column_names, comparison.columns, strict=True)))
    if draws:
        with talk.doing(f"resampling {draws} tables"):
            profiles = model.bootstrap(n_draws=draws).profiles
        results.table("intervals", dict(zip(profiles.column_names, profiles.columns, strict=True)))
    with talk.doing("examining"):
        report = model.report_
    results.model("LatentClass", *model_state(model))
    more = {"n_columns": len(model.categories_), "weights": model.weights_.tolist()}
    summary = summarise(model, report, n_rows, model.n_components_, seed=seed, inputs=files) | more
    facts = f"{n_rows:,} rows, {summary['n_columns']:,} columns, {model.n_components_} classes"
    data = None if rows is None else rows.data
    page = partial(results.report, model, summary, input=data, comparison=comparison)
    seen = partial(show, model, talk)
    return conclude(summary, facts, talk, results, json_=json_, strict=strict, show=seen, page=page)


def _found(beliefs: Any) -> dict[str, Any]:
    return {"class": beliefs.argmax(axis=1), "probability": beliefs.max(axis=1)}


def profile_columns(model: LatentClass) -> dict[str, Any]:
    """profiles.csv: class, column, category, probability."""
    columns: dict[str, list[Any]] = {"class": [], "column": [], "category": [], "probability": []}
    for number in range(model.n_components_):
        for known, profile in zip(model._columns, model.profiles_, strict=True):
            columns["class"] += [number] * known.size
            columns["column"] += [str(known.name)] * known.size
            columns["category"] += [str(value) for value in known.categories.tolist()]
            columns["probability"] += profile[number].tolist()
    return columns


def show(model: LatentClass, talk: Talk) -> None:
    """The classes, and what tells them apart."""
    told = model.joint_.class_information()
    order = sorted(range(len(told)), key=lambda n: -told[n])[:SHOWN]
    rows = []
    for number in range(min(model.n_components_, SHOWN)):
        typical = [
            f"{model._columns[n].name}={model.categories_[n][model.profiles_[n][number].argmax()]}" for n in order[:3]
        ]
        rows.append([str(number), f"{model.weights_[number]:.1%}", ", ".join(typical)])
    title = "classes" if len(rows) == model.n_components_ else f"heaviest {SHOWN} of {model.n_components_} classes"
    talk.table(title, ["class", "weight", "mostly"], rows)
    facts = [[str(model._columns[n].name), f"{told[n]:.3f}"] for n in order]
    talk.say("columns that tell most about the class:")
    talk.table("", ["column", "nats"], facts)
