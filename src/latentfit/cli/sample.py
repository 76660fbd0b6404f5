"""`latentfit sample`: rows drawn from a saved model."""

from __future__ import annotations

import time

import click
import numpy as np

from latentfit.cli.console import Terminal
from latentfit.cli.options import output_options, strict_option
from latentfit.cli.results import Results, conclude, of_model


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.option("-n", "number", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows to draw.")
@strict_option
@output_options("latentfit-sample")
def sample(
    model_file: str, number: int, strict: bool, out: str, format_: str, json_: bool, seed: int, quiet: bool
) -> int:  # fmt: skip
    """Draw rows from the joint distribution of a saved model, or one sequence of a hidden Markov model: sample.csv.

    \b
    latentfit sample classes/model.latent -n 1000 --seed 7
    """
    from latentfit import CategoricalHMM
    from latentfit.cli.rows import table_model
    from latentfit.core.registry import load

    console, begin = Terminal(quiet), time.perf_counter()
    with console.doing("drawing"):
        model = load(model_file)
        if isinstance(model, CategoricalHMM):
            symbols, states = model.sample(number, random_state=seed)
            columns = {"position": np.arange(1, number + 1), "symbol": symbols, "state": states}
        else:
            drawn = table_model(model, model_file).sample(number, seed)
            columns = {name: drawn[name].combine_chunks() for name in drawn.column_names}
    results = Results(out, format_, console)
    results.table("sample", columns, main=True)
    summary = of_model(model, model_file, number, "sample", begin, seed=seed)
    return conclude(summary, f"{number:,} rows drawn", results, json_=json_, strict=strict)
