"""`latentfit factors`: binary latent factors (on/off switches) behind rows of numbers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal, number_of
from latentfit.cli.options import (
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
)
from latentfit.cli.results import Results, conclude, summarise

if TYPE_CHECKING:
    from latentfit.cli.predict import PredictRequest
    from latentfit.factors.estimator import BinaryFactors

SHOWN = 8
"""Switches shown on the screen."""


@click.command()
@click.argument("files", metavar="TABLE…", nargs=-1, required=True)
@click.option("--components", type=int, help="Number of switches; estimated from the data by default.")
@click.option(
    "--search",
    type=click.Choice(["auto", "newton", "power", "independent"]),
    default="auto",
    show_default=True,
    help="How weights are found; power for switches that exclude one another.",
)
@click.option("--refine", type=click.Choice(["em", "wls", "als", "none"]), default="em", show_default=True)
@click.option("--noise", type=float, metavar="SD", help="The noise's standard deviation, when it is known.")
@click.option("--feature-noise", type=click.Choice(["equal", "unequal"]), default="equal", show_default=True,
              help="Has all features' noise one standard deviation, or each its own?")  # fmt: skip
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows; 1-based numbers by default.")
@table_options
@max_iter_option
@engine_options
@strict_option
@output_options("latentfit-factors", report=True)
def factors(
    files: tuple[str, ...], components: int | None, search: str, refine: str, noise: float | None, feature_noise: str,
    id_: str | None, engine: str, memory: int | None, cache: str | None, threads: int | None, checkpoint: str | None,
    resume: bool, strict: bool, reading: Reading, max_iter: int | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Hidden on/off switches whose weights add up to each row of numbers.

    Writes switches.csv (row, switch, probability, on) and weights.csv (switch, feature, weight).

    \b
    latentfit factors spectra.csv --id sample --out switches
    latentfit factors expression.csv --components 6
    latentfit factors 'runs/*.parquet' --engine stream --cache coded
    """
    from latentfit.cli.rows import RowFiles, fit_rows
    from latentfit.core.estimator import model_state
    from latentfit.factors.diagnostics.verdict import is_shown
    from latentfit.factors.estimator import BinaryFactors

    console, checkpointing = Terminal(quiet), checkpoint_settings(checkpoint, resume)
    streamed = are_streamed(files, engine, memory)
    model = BinaryFactors(
        components,
        search=search,  # type: ignore[arg-type]
        refine=None if refine == "none" else refine,  # type: ignore[arg-type]
        noise=noise,
        feature_noise=feature_noise,  # type: ignore[arg-type]
        random_state=seed,
        **at_most(max_iter),
        n_jobs=threads,
        engine=engine_of(engine, streamed),
    )
    with settings():
        model._check_settings()
    results = Results(out, format_, console, no_report=no_report)
    source = RowFiles(files, id_, None, cache, streamed, reading)
    rows = fit_rows(model, source, "switches", partial(switch_values, model), results, checkpointing, in_blocks=True)
    n_rows = model._passes.n_rows if rows is None else rows.data.num_rows
    with console.doing("examining"):
        report = model.report_
    results.table("weights", weight_columns(model))
    results.model("BinaryFactors", *model_state(model))
    more = {"noise": model.noise_, "switch_probabilities": model.switch_probabilities_.tolist()}
    summary = summarise(model, report, n_rows, model.n_components_, seed=seed, inputs=files) | more
    facts = (
        f"{number_of(summary['n_rows'], 'rows')}, {number_of(model.n_features_in_, 'features')}, "
        f"{number_of(summary['n_components'], 'switches')}"
        f"{'' if is_shown(report) else ' fitted, another number than the data show'}, noise {model.noise_:.3g}"
    )
    data, ids = (None, None) if rows is None else (rows.data, rows.ids)
    page = partial(results.report, model, summary, input=data, ids=ids)
    display = partial(show, model, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=display, page=page)


def switch_values(model: BinaryFactors, data: Any) -> dict[str, Any]:
    """One line per row and switch: its probability, and whether it is on in the most likely on/off vector."""
    import numpy as np

    posterior, on = model.transform(data), model.predict(data)
    n, d = posterior.shape
    return {"switch": np.tile(np.arange(d), n), "probability": posterior.reshape(-1), "on": on.reshape(-1)}


def weight_columns(model: BinaryFactors) -> dict[str, Any]:
    """One line per switch and feature."""
    import numpy as np

    from latentfit.core.frames import long_columns

    names = np.array([str(name) for name in model.feature_names_in_], object)
    return long_columns(("switch", "feature", "weight"), np.arange(len(model.components_)), names, model.components_)


def show(model: BinaryFactors, console: Terminal) -> None:
    """The switches with what they move most."""
    lines = []
    for k in range(min(model.n_components_, SHOWN)):
        order = sorted(range(model.n_features_in_), key=lambda n, k=k: -abs(model.components_[k, n]))[:4]  # type: ignore[misc]
        moved = ", ".join(f"{model.feature_names_in_[n]} {model.components_[k, n]:+.3g}" for n in order)
        lines.append([str(k), f"{model.switch_probabilities_[k]:.1%}", moved])
    title = "switches" if len(lines) == model.n_components_ else f"first {SHOWN} of {model.n_components_} switches"
    console.table(title, ["switch", "on", "moves most"], lines)


def predict_switches(model: BinaryFactors, request: PredictRequest) -> int:
    """Which switches are on in every row: switches.csv, as `latentfit factors` writes it."""
    from latentfit.cli.rows import named_answers, read_rows, under

    rows = read_rows(request.data_file, request.columns.get("id"), reading=request.reading, console=request.console)
    data = under(model, rows.all)
    request.results.table("switches", named_answers(rows, switch_values(model, data)), main=True)
    return request.conclude(data.num_rows, f"{number_of(data.num_rows, 'rows')}: their switches predicted", target=None)


def read_input(
    model: BinaryFactors, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    from latentfit.cli.rows import read_rows, under

    rows = read_rows(path, columns.get("id"), reading=reading, console=console)
    return {"input": under(model, rows.all) if hasattr(model, "feature_names_in_") else rows.data, "ids": rows.ids}
