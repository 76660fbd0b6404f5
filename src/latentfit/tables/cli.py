"""`latentfit table`: the joint distribution of a categorical table."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal, number_of
from latentfit.cli.options import (
    HIDDEN,
    Intervals,
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
from latentfit.cli.results import Results, conclude, of_model, summarise

if TYPE_CHECKING:
    from latentfit.tables.estimator.latent_class import LatentClass

SHOWN = 8  # Classes and columns shown on the screen.


@click.command()
@click.argument("files", metavar="TABLE…", nargs=-1, required=True)
@click.option("--components", type=HIDDEN, help="Number of classes; chosen from the data by default.")
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows; 1-based numbers by default.")
@click.option("--bins", type=Intervals(), metavar="N|A=N,B=N,…",
              help="Cut columns of more than N different numbers into N intervals, or those named.")  # fmt: skip
@weight_options
@click.option("--init", type=click.Choice(["auto", "spa", "ctd", "random"]), default="auto", show_default=True)
@click.option("--n-init", type=click.IntRange(min=1), help="Number of initialisations; 4 to 48 by default, by cost.")
@click.option("--select", type=click.Choice(["heldout", "bic"]), default="heldout", show_default=True)
@click.option("--smoothing", type=float, help="Pseudo-rows per class; 0: maximum likelihood.")
@click.option("--compare", "most", type=click.IntRange(min=0), metavar="F",
              help="Also fit 1 … F classes: comparison.csv.")  # fmt: skip
@click.option("--bootstrap", "draws", type=click.IntRange(min=0), metavar="N",
              help="Intervals from N resampled tables: intervals.csv, class_sizes.csv.")  # fmt: skip
@table_options
@max_iter_option
@engine_options
@strict_option
@output_options("latentfit-table", report=True)
def table(
    files: tuple[str, ...], components: int | None, id_: str | None, bins: Any, weights: str | None,
    weight_type: str, init: str, n_init: int | None, select: str, smoothing: float | None, most: int | None,
    draws: int | None, engine: str, memory: int | None, cache: str | None, checkpoint: str | None, resume: bool,
    threads: int | None, strict: bool, reading: Reading, max_iter: int | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Hidden classes and the joint distribution of a table of categories, missing values allowed.

    \b
    latentfit table survey.csv --out classes
    latentfit table survey.csv --components 4 --id person --bins age=8 --missing 98,99
    latentfit table 'history/*.parquet' --engine stream --cache coded
    """
    from latentfit.cli.rows import RowFiles, fit_rows
    from latentfit.core.estimator import model_state
    from latentfit.tables.diagnostics.verdict import number_is_shown
    from latentfit.tables.estimator.latent_class import LatentClass, rows_needed

    console, checkpoint_options = Terminal(quiet), checkpoint_settings(checkpoint, resume)
    streamed = are_streamed(files, engine, memory)
    if streamed and (most or draws):
        raise click.UsageError(str(rows_needed("--compare and --bootstrap", "one file and --engine memory")))
    model = LatentClass(
        components,
        init=init,
        n_init="auto" if n_init is None else n_init,
        select=select,  # type: ignore[arg-type]
        smoothing="auto" if smoothing is None else smoothing,
        bins=bins,
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
    rows = fit_rows(model, source, "classes", partial(_found, model), results, checkpoint_options)
    stored = model._stored
    n_rows = rows.data.num_rows if rows is not None else stored.n_rows + stored.absent  # type: ignore[union-attr]
    results.table("profiles", profile_columns(model))
    comparison = None
    if most and rows is not None:
        with console.doing(f"comparing 1 to {most} classes"):
            comparison = model.compare(rows.data, range(1, most + 1), sample_weight=rows.weight)
        results.batches("comparison", [comparison])
    if draws:
        with console.doing(f"resampling {draws} tables"):
            bootstrap = model.bootstrap(n_draws=draws)
        results.batches("intervals", [bootstrap.profiles])
        results.batches("class_sizes", [bootstrap.weights])
    with console.doing("examining"):
        report = model.report_
    results.model("LatentClass", *model_state(model))
    more = {"n_columns": len(model.categories_), "weights": model.weights_.tolist()}
    summary = summarise(model, report, n_rows, model.n_components_, seed=seed, inputs=files) | more
    facts = (
        f"{number_of(n_rows, 'rows')}, {number_of(summary['n_columns'], 'columns')}, "
        f"{number_of(model.n_components_, 'classes')} fitted"
    )
    if not number_is_shown(report):
        facts += " (the data do not show this number)"
    data = None if rows is None else rows.data
    page = partial(results.report, model, summary, input=data, comparison=comparison)
    seen = partial(show, model, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=seen, page=page)


def _found(model: LatentClass, data: Any) -> dict[str, Any]:
    probabilities = model.predict_proba(data)
    return {"class": probabilities.argmax(axis=1), "probability": probabilities.max(axis=1)}


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


def show(model: LatentClass, console: Terminal) -> None:
    """The classes, and what tells them apart."""
    information = model.joint_.class_information()
    order = sorted(range(len(information)), key=lambda n: -information[n])[:SHOWN]
    rows = []
    for number in range(min(model.n_components_, SHOWN)):
        typical = [
            f"{model._columns[n].name}={model.categories_[n][model.profiles_[n][number].argmax()]}" for n in order[:3]
        ]
        rows.append([str(number), f"{model.weights_[number]:.1%}", ", ".join(typical)])
    title = "classes" if len(rows) == model.n_components_ else f"heaviest {SHOWN} of {model.n_components_} classes"
    console.table(title, ["class", "weight", "mostly"], rows)
    facts = [[str(model._columns[n].name), f"{information[n]:.3f}"] for n in order]
    console.say("columns that tell most about the class:")
    console.table("", ["column", "nats"], facts)


# -----------------------------------------------------------------------------
# `latentfit impute`: missing values filled by a saved model.


@click.command()
@click.argument("table_file", metavar="TABLE")
@click.option("--model", "model_file", required=True, metavar="FILE", help="A model.latent file of latentfit table.")
@click.option(
    "--draws",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Also write N tables with missing cells drawn (imputed_1, …), for multiple imputation.",
)
@table_options
@strict_option
@output_options("latentfit-impute")
def impute(
    table_file: str, model_file: str, draws: int, reading: Reading, strict: bool,
    out: str, format_: str, json_: bool, seed: int, quiet: bool,
) -> int:  # fmt: skip
    """Fill the missing cells of a table: imputed.csv has the same rows, columns and order; values are never changed.

    A cell gets its most probable category, a number cut into intervals its expected value. cells.csv (row, column,
    value, probability) says how sure each filled cell is. Best answers overstate associations: for statistics of the
    filled table use --draws.

    \b
    latentfit impute survey.csv --model classes/model.latent
    latentfit impute survey.csv --model classes/model.latent --draws 5
    """
    import pyarrow.compute as pc

    from latentfit.cli.rows import load_table_model, under_table
    from latentfit.io.read import read_columns

    console, begin = Terminal(quiet), time.perf_counter()
    with console.doing("reading"):
        model = load_table_model(model_file)
        whole = read_columns(table_file, **reading.rules())
    with console.doing("filling"):
        known = under_table(model, whole)
        filled, cells = model.impute(known), model.imputed_cells(known)
    columns = _laid_into(whole, filled)
    left = sum(pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0 for column in columns.values())
    results = Results(out, format_, console)
    results.table("imputed", {name: column.combine_chunks() for name, column in columns.items()}, main=True)
    for draw in range(draws):
        drawn = model.impute(known, strategy="draw", random_state=seed + draw)
        table = {name: column.combine_chunks() for name, column in _laid_into(whole, drawn).items()}
        results.table(f"imputed_{draw + 1}", table)
    numbers = cells["row"].to_numpy() + 1  # rows are named from 1, as in every result without ids
    results.table("cells", {"row": numbers, **{name: cells[name].combine_chunks() for name in cells.column_names[1:]}})
    summary = of_model(model, model_file, whole.num_rows, "impute", begin, n_filled=cells.num_rows)
    filled, rows = number_of(cells.num_rows, "missing values"), number_of(whole.num_rows, "rows")
    facts = f"{filled} filled in {rows}, {left:,} left"
    return conclude(summary, facts, results, json_=json_, strict=strict)


def _laid_into(whole: Any, filled: Any) -> dict[str, Any]:
    """The columns of the file in their order, those of the model as they were filled."""
    return {name: filled[name] if name in filled.column_names else whole[name] for name in whole.column_names}


# -----------------------------------------------------------------------------
# `latentfit query`: a question to a saved model, the answer on stdout.


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("question")
@click.option("--json", "json_", is_flag=True, help="Print the answer as JSON.")
def query(model_file: str, question: str, json_: bool) -> int:
    """Ask the joint distribution: P(…) probability, E(…) expectation, H(…) entropy, I(…; …) information.

    \b
    latentfit query classes/model.latent "P(safety=high, doors | price=low)"
    latentfit query classes/model.latent "E(age | income=high)" --json
    """
    from latentfit.cli.rows import load_table_model
    from latentfit.tables.estimator.query import ask

    answer = ask(load_table_model(model_file).joint_, question)
    for note in answer.notes if not json_ else ():
        click.echo(f"note: {note}", err=True)
    click.echo(json.dumps(answer.as_dict()) if json_ else str(answer))
    return 0
