"""`latentfit fractions`: in which fractions samples are mixed of parts, blind or with a reference."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal, called, number_of
from latentfit.cli.options import (
    HIDDEN,
    THREADS,
    Reading,
    at_most,
    max_iter_option,
    output_options,
    settings,
    strict_option,
    table_options,
)
from latentfit.cli.results import Results, conclude, summarise

if TYPE_CHECKING:
    from latentfit.cli.predict import PredictRequest
    from latentfit.core.matrix import NamedMatrix
    from latentfit.fractions.estimator import MixtureFractions

CONSTRAINTS: dict[str, Any] = {
    "sum-to-one": "sum_to_one", "sum-at-most-one": "sum_at_most_one", "nonnegative": "nonnegative"
}  # fmt: skip
SHOWN = 12
"""Samples shown on the screen."""


@click.command()
@click.argument("values_file", metavar="VALUES")
@click.option("--reference", metavar="FILE", help="Known profiles: one row per feature, one column per part.")
@click.option("--components", type=HIDDEN, help="Number of parts; the reference's, or found from the data by default.")
@click.option(
    "--constraint", type=click.Choice(list(CONSTRAINTS)), default="sum-to-one", show_default=True,
    help="With a reference: fractions sum to one (it has all parts), to at most one (it lacks some), or to anything.",
)  # fmt: skip
@click.option(
    "--samples-in", type=click.Choice(["columns", "rows"]), default="columns", show_default=True,
    help="Are samples the columns of the file (one row per feature) or its rows?",
)  # fmt: skip
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows; the text column by default.")
@table_options
@max_iter_option
@click.option("--engine", type=click.Choice(["auto", "memory"]), default="auto")
@click.option("--threads", type=THREADS, help="Accepted as everywhere; the result does not depend on it.")
@strict_option
@output_options("latentfit-fractions", report=True)
def fractions(
    values_file: str, reference: str | None, components: int | None, constraint: str, samples_in: str,
    id_: str | None, engine: str, threads: int | None, strict: bool, reading: Reading, max_iter: int | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Fractions of the parts in every sample, from values in [0, 1] such as methylation.

    VALUES has one row per feature and one column per sample, as methylation tables come (the other way round with
    --samples-in rows); a text column names the rows. Writes fractions.csv (sample, part, fraction) and
    profiles.csv (feature, one column per part), which another run takes as its --reference.

    \b
    latentfit fractions blood.csv --reference cells.csv --out fractions
    latentfit fractions blood.csv --components 4
    """
    from latentfit.core.estimator import model_state
    from latentfit.core.matrix import read_unit_interval
    from latentfit.fractions.diagnostics import rejects_number
    from latentfit.fractions.estimator import MixtureFractions, fraction_columns, profile_columns
    from latentfit.io.read import read_columns

    console = Terminal(quiet)
    with console.doing("reading"):
        values = read_unit_interval(read_columns(values_file, **reading.rules(id_)), called(values_file), id_)
        if samples_in == "columns":
            values = values.transposed
        known = None if reference is None else read_columns(reference, **reading.of_other_file.rules())
        parts = None if reference is None else read_unit_interval(known, called(reference))
    model = MixtureFractions(
        components, reference=parts, constraint=CONSTRAINTS[constraint],
        random_state=seed, n_jobs=threads, engine=engine, **at_most(max_iter),
    )  # fmt: skip
    with settings():
        model._check_settings()
    with console.doing("fitting"):
        model.fit(values)
        report = model.report_
    results = Results(out, format_, console, no_report=no_report)
    results.table("fractions", fraction_columns(model.samples_, model.parts_, model.fractions_), main=True)
    results.table("profiles", profile_columns(model.features_, model.parts_, model.profiles_))
    results.model("MixtureFractions", *model_state(model))
    inputs = [values_file, reference]
    summary = summarise(model, report, len(model.fractions_), model.n_components_, seed=seed, inputs=inputs)
    summary |= {"n_features": len(model.features_), "parts": model.parts_.tolist(), "weights": model.weights_.tolist()}
    summary["noise"] = model.noise_
    rejected = " fitted, a number that the checks do not confirm" if rejects_number(report) else ""
    facts = (
        f"{number_of(summary['n_rows'], 'samples')}, {number_of(summary['n_features'], 'features')}, "
        f"{number_of(model.n_components_, 'parts')}{rejected}; values are explained to ± {model.noise_:.3f}"
    )
    page = partial(results.report, model, summary, input=values)
    display = partial(show, model, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=display, page=page)


def show(model: MixtureFractions, console: Terminal) -> None:
    """The first samples."""
    rows = [
        [str(name), *(f"{value:.3f}" for value in row)]
        for name, row in zip(model.samples_[:SHOWN].tolist(), model.fractions_[:SHOWN], strict=True)
    ]
    title = "fractions" if len(model.fractions_) <= SHOWN else f"fractions of the first {SHOWN} samples"
    console.table(title, ["sample", *(str(part) for part in model.parts_.tolist())], rows)


def read_known(model: MixtureFractions, path: str, id_: str | None, reading: Reading) -> NamedMatrix:
    """Samples of a file, which are its columns or its rows: the model knows its features' names."""
    from latentfit.core.matrix import read_unit_interval
    from latentfit.io.read import read_columns

    values = read_unit_interval(read_columns(path, **reading.rules(id_)), called(path), id_)
    known = set(model.features_)
    by_column, by_row = len(known & set(values.column_names)), len(known & set(values.row_names or ()))
    unnamed = not by_column and values.row_names is None and len(values.values) == len(known)
    turned = by_column < by_row or unnamed  # features without names are the rows, as in the file of the fit
    return values.transposed if turned else values


def predict_fractions(model: MixtureFractions, request: PredictRequest) -> int:
    """Fractions of new samples."""
    from latentfit.core.names import objects
    from latentfit.fractions.estimator import fraction_columns

    values = read_known(model, request.data_file, request.columns.get("id"), request.reading)
    found = model.transform(values)
    samples = values.row_names or tuple(str(number) for number in range(1, len(found) + 1))
    request.results.table("fractions", fraction_columns(objects(samples), model.parts_, found), main=True)
    return request.conclude(len(found), number_of(len(found), "samples"))


def read_input(
    model: MixtureFractions,
    path: str,
    columns: dict[str, str],
    control: str | None,
    console: Terminal,
    reading: Reading,
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    return {"input": read_known(model, path, columns.get("id"), reading)}
