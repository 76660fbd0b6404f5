"""`tacit sample`: rows drawn from a saved model."""

from __future__ import annotations

import click

from tacit.cli.common import Results, Talk, output_options


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.option("-n", "number", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows to draw.")
@output_options("tacit-sample")
def sample(model_file: str, number: int, out: str, format_: str, json_: bool, seed: int, quiet: bool) -> int:
    """Draw rows from the joint distribution of a saved model: sample.csv.

    \b
    tacit sample classes/model.tacit -n 1000 --seed 7
    """
    from tacit.cli.rows import load_table_model

    talk = Talk(quiet)
    drawn = load_table_model(model_file).sample(number, seed)
    results = Results(out, format_)
    results.table("sample", {name: drawn[name].combine_chunks() for name in drawn.column_names}, main=True)
    results.summary({"command": "sample", "model": model_file, "n_rows": number, "seed": seed}, json_)
    talk.say(f"{number:,} rows drawn" + (f"; wrote {', '.join(results.written)}" if results.written else ""))
    return 0
