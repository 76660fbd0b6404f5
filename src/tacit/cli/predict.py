"""`tacit predict`: a saved model on new data."""

from __future__ import annotations

import click

from tacit.cli.common import Results, Talk, chosen_columns, column_options, output_options


@click.command()
@click.argument("data_file", metavar="DATA")
@click.option("--model", "model_file", required=True, metavar="FILE", help="A model.tacit file.")
@column_options
@output_options("tacit-predict")
def predict(
    data_file: str, model_file: str, task: str | None, worker: str | None, label: str | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool,
) -> int:  # fmt: skip
    """Label new tasks with a saved model: predictions.csv (task, value, probability).

    \b
    tacit predict new_votes.csv --model consensus/model.tacit
    """
    from tacit.cli.labels import read_label_file
    from tacit.data.label_input import read_labels
    from tacit.models import DawidSkene, load

    talk = Talk(quiet)
    with talk.doing("reading"):
        model = load(model_file)
        assert isinstance(model, DawidSkene)
        data = read_labels(
            read_label_file(data_file)[0],
            columns=chosen_columns(task, worker, label) or model.columns,
            abstain=model.abstain,
        )
    posterior = model.predict_proba(data)
    results = Results(out, format_)
    values = model.classes_[posterior.argmax(axis=1)]
    columns = {"task": data.task_names, "value": values, "probability": posterior.max(axis=1)}
    results.table("predictions", columns, main=True)
    summary = {"command": "predict", "model": model_file, "n_rows": data.n_rows}
    results.summary(summary, json_)
    talk.say(f"{data.n_rows:,} tasks labelled" + (f"; wrote {', '.join(results.written)}" if results.written else ""))
    return 0
