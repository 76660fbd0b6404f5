"""`tacit report`: the page of a saved model, again or for the first time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.common import Talk, chosen_columns, column_options

if TYPE_CHECKING:
    from tacit.models.base import LatentModel


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data_file", metavar="[DATA]", required=False)
@click.option("--out", metavar="DIR", help="Folder for report.html; the model's own by default, - for stdout.")
@click.option("--id", "id_", metavar="COLUMN", help="Column that names the rows of a table.")
@column_options
@click.option("--quiet", is_flag=True, help="No talk on stderr.")
def report(
    model_file: str, data_file: str | None, out: str | None, id_: str | None,
    task: str | None, worker: str | None, label: str | None, quiet: bool,
) -> int:  # fmt: skip
    """Write report.html for a saved model: what was found, and can it be trusted?

    The summary.json beside the model tells how it was made. DATA, the rows of the fit or new ones, adds what only data
    can tell, such as the confidence of every task.

    \b
    tacit report consensus/model.tacit votes.csv
    tacit report classes/model.tacit --out pages
    """
    from tacit.io.hashes import file_hashes
    from tacit.models import load
    from tacit.report.doors import context_of, page_of
    from tacit.report.render import render
    from tacit.report.write import write_report

    talk = Talk(quiet)
    data: dict[str, Any] = {}
    with talk.doing("reading"), talk.heeding_warnings():
        model = load(model_file)
        summary = told_beside(Path(model_file), model)
        if data_file is not None:
            data = read_input(model, data_file, id_, chosen_columns(task, worker, label))
            summary["files"] = {**summary.get("files", {}), **file_hashes([data_file])}
        page = page_of(model, context_of(summary, data))
    if out == "-":
        sys.stdout.write(render(page))
        return 0
    folder = Path(model_file).parent if out is None else Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_report(folder / "report.html", page)
    talk.say(f"verdict: {page.verdict}; wrote {folder / 'report.html'}")
    return 0


def told_beside(model_file: Path, model: LatentModel) -> dict[str, Any]:
    """The summary.json of the run that wrote the model, or what the model file itself says."""
    own: dict[str, Any] = {
        "n_components": getattr(model, "n_components_", None),
        "n_iter": getattr(model, "n_iter_", None),
        "converged": getattr(model, "converged_", None),
        "log_likelihood": getattr(model, "log_likelihood_", None),
    }
    try:
        told = json.loads((model_file.parent / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return own
    # Another model's summary may lie there: it must tell the same likelihood.
    same = isinstance(told, dict) and told.get("log_likelihood") == own["log_likelihood"]
    return own | told if same else own


def read_input(model: LatentModel, path: str, id_: str | None, columns: dict[str, str]) -> dict[str, Any]:
    """The data as the model's own command reads them: `input`, and for tables the rows' `ids`."""
    from tacit import models
    from tacit.errors import DataError

    if isinstance(model, models.DawidSkene):
        from tacit.cli.labels import read_label_file
        from tacit.data.label_input import read_labels

        source = read_label_file(path)[0]
        return {"input": read_labels(source, columns=columns or model.columns, abstain=model.abstain)}
    if isinstance(model, models.BernoulliMixture | models.LatentClass | models.LatentClassClassifier):
        from tacit.cli.rows import read_rows, under

        rows = read_rows(path, id_)
        return {"input": under(model, rows.all), "ids": rows.ids}
    if isinstance(model, models.BinaryFactors):
        from tacit.cli.rows import read_rows

        rows = read_rows(path, id_)
        names = [str(name) for name in getattr(model, "feature_names_in_", rows.data.column_names)]
        missing = [name for name in names if name not in rows.all.column_names]
        if missing:
            raise DataError(f"the file has no column {missing[0]!r}, which the model knows; add it")
        return {"input": rows.all.select(names), "ids": rows.ids}
    if isinstance(model, models.Admixture):
        from tacit.cli.admixture import read_genotype_file

        return {"input": read_genotype_file(path, id_, None)}
    if isinstance(model, models.MixtureFractions):
        from tacit.data.named_matrix import read_named_matrix
        from tacit.io.read import read_columns

        values = read_named_matrix(read_columns(path), name_column=id_, what=path)
        known = set(model.features_)
        if len(known & set(values.column_names)) < len(known & set(values.row_names or ())):
            values = values.transposed
        return {"input": values}
    return read_counted(model, path)


def read_counted(model: LatentModel, path: str) -> dict[str, Any]:
    """Documents, sequences, graphs; other models take no data."""
    from tacit import models
    from tacit.errors import DataError

    if isinstance(model, models.TopicModel):
        from tacit.cli.topics import read_document_file

        return {"input": read_document_file(path, None, {})}
    if isinstance(model, models.CategoricalHMM):
        from tacit.cli.hmm import read_sequence_file
        from tacit.data.sequences import read_sequences
        from tacit.io.text_lines import is_text

        letters = all(len(str(symbol)) == 1 for symbol in model.symbols_.tolist())
        given = read_sequence_file(path, letters=letters and is_text(path))
        return {"input": read_sequences(given, symbols=model.symbols_, what=path)}
    if isinstance(model, models.BlockModel):
        from tacit.cli.communities import read_graph_file

        return {"input": read_graph_file(path)}
    raise DataError(f"the page of a {type(model).__name__} uses no data; leave {path} out")
