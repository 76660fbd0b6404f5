"""`latentfit impute`: gaps filled by a saved model."""

from __future__ import annotations

import time
from typing import Any

import click

from latentfit.cli.console import Talk, number_of
from latentfit.cli.options import output_options, strict_option
from latentfit.cli.reading import Reading, table_options
from latentfit.cli.results import Results, conclude, of_model


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

    talk, begin = Talk(quiet), time.perf_counter()
    with talk.doing("reading"):
        model = load_table_model(model_file)
        whole = read_columns(table_file, **reading.rules())
    with talk.doing("filling"):
        known = under_table(model, whole)
        filled, cells = model.impute(known), model.imputed_cells(known)
    columns = _laid_into(whole, filled)
    left = sum(pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0 for column in columns.values())
    results = Results(out, format_, talk)
    results.table("imputed", {name: column.combine_chunks() for name, column in columns.items()}, main=True)
    for draw in range(draws):
        drawn = model.impute(known, strategy="draw", random_state=seed + draw)
        table = {name: column.combine_chunks() for name, column in _laid_into(whole, drawn).items()}
        results.table(f"imputed_{draw + 1}", table)
    numbers = cells["row"].to_numpy() + 1  # rows are named from 1, as in every result without ids
    results.table("cells", {"row": numbers, **{name: cells[name].combine_chunks() for name in cells.column_names[1:]}})
    summary = of_model(model, model_file, whole.num_rows, "impute", begin, n_filled=cells.num_rows)
    facts = f"{number_of(cells.num_rows, 'gaps')} filled in {number_of(whole.num_rows, 'rows')}, {left:,} left"
    return conclude(summary, facts, results, json_=json_, strict=strict)


def _laid_into(whole: Any, filled: Any) -> dict[str, Any]:
    """The columns of the file in their order, those of the model as they were filled."""
    return {name: filled[name] if name in filled.column_names else whole[name] for name in whole.column_names}
