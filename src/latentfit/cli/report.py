"""`latentfit report`: the page of a saved model, again or for the first time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal
from latentfit.cli.options import (
    ROLES,
    Reading,
    column_options,
    columns_of_model,
    control_option,
    strict_option,
    table_options,
    writable,
)
from latentfit.cli.results import outcome_of
from latentfit.core.errors import DataError
from latentfit.core.registry import ESTIMATORS, function_at, load

if TYPE_CHECKING:
    from latentfit.core.estimator import LatentModel


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data_file", metavar="[DATA]", required=False)
@click.option("--out", metavar="DIR", callback=writable,
              help="Folder for report.html; the model's own by default, - for stdout.")  # fmt: skip
@column_options(*ROLES)
@table_options
@control_option
@strict_option
@click.option("--quiet", is_flag=True, help="No messages on stderr.")
def report(
    model_file: str, data_file: str | None, out: str | None, reading: Reading, control: str | None, strict: bool,
    quiet: bool,
    **roles: str | None,
) -> int:  # fmt: skip
    """Write report.html for a saved model: what was found, and what the checks say.

    The summary.json beside the model tells how it was made. DATA, the rows of the fit or new ones, adds what only data
    can tell, such as the confidence of every task.

    \b
    latentfit report consensus/model.latent votes.csv
    latentfit report classes/model.latent --out pages
    """
    from latentfit.io.source import file_hashes
    from latentfit.labels.cli import note_control
    from latentfit.report.assemble import context_of, write_report
    from latentfit.report.assemble import page_of_model as page_of
    from latentfit.report.render import render

    console = Terminal(quiet)
    data: dict[str, Any] = {}
    note_control(control, data_file, console)
    with console.doing("reading"):
        model = load(model_file)
        summary = stored_outcome(Path(model_file), model)
        columns = columns_of_model(type(model).__name__, model_file, roles)
        if data_file is not None:
            data = read_input(model, data_file, columns, control, console, reading)
            summary["files"] = {**summary.get("files", {}), **file_hashes([data_file])}
        page = page_of(model, context_of(summary, data))
    code = int(strict and page.verdict != "ok")
    if out == "-":
        sys.stdout.write(render(page))
        return code
    folder = Path(model_file).parent if out is None else Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_report(folder / "report.html", page)
    console.say(f"verdict: {page.verdict}. {page.headline}")
    console.say(f"wrote {folder / 'report.html'}")
    return code


def stored_outcome(model_file: Path, model: LatentModel) -> dict[str, Any]:
    """The summary.json of the run that wrote the model, or what the model file itself says."""
    own = outcome_of(model)
    try:
        stored = json.loads((model_file.parent / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return own
    # Another model's summary may lie there: it must tell the same likelihood.
    same = isinstance(stored, dict) and stored.get("log_likelihood") == own["log_likelihood"]
    return own | stored if same else own


def read_input(
    model: LatentModel, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data as the model's own command reads them: `input`, and for tables the rows' `ids`."""
    reader = ESTIMATORS[type(model).__name__].reader
    if reader is None:
        raise DataError(f"the page of a {type(model).__name__} uses no data; leave {path} out")
    data: dict[str, Any] = function_at(reader)(model, path, columns, control, console, reading)
    return data
