"""`latentfit predict`: a saved model on new data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal
from latentfit.cli.options import (
    ROLES,
    Reading,
    column_options,
    columns_of_model,
    control_option,
    output_options,
    strict_option,
    table_options,
)
from latentfit.cli.results import Results, conclude, of_model
from latentfit.core.registry import ESTIMATORS, function_at, load

if TYPE_CHECKING:
    from latentfit.core.estimator import LatentModel

COLUMNS = ("LatentClass", "LatentClassImputer")
"""Estimators that predict one column of a table from the others."""


@dataclass(frozen=True)
class PredictRequest:
    """What to predict from, and where the answer goes."""

    data_file: str
    model: LatentModel
    model_file: str
    target: str | None
    columns: dict[str, str]
    control: str | None
    reading: Reading
    results: Results
    json_: bool
    strict: bool
    begin: float

    @property
    def console(self) -> Terminal:
        return self.results.console

    def conclude(self, n_rows: int, facts: str, **more: Any) -> int:
        """How every prediction ends."""
        summary = of_model(self.model, self.model_file, n_rows, "predict", self.begin, **more)
        return conclude(summary, facts, self.results, json_=self.json_, strict=self.strict)


@click.command()
@click.argument("data_file", metavar="DATA")
@click.option("--model", "model_file", required=True, metavar="FILE", help="A model.latent file.")
@click.option("--target", metavar="COLUMN", help="Column to predict from the others; of a graph: with the other ends.")
@column_options(*(role for role in ROLES if role != "target"))
@table_options
@control_option
@strict_option
@output_options("latentfit-predict", draws=False)
def predict(
    data_file: str, model_file: str, target: str | None, reading: Reading, control: str | None, strict: bool,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, **roles: str | None,
) -> int:  # fmt: skip
    """Use a saved model on new data: predictions.csv (task or row id, value, probability);
    fractions.csv of a model of mixtures, ancestry.csv of a model of populations, documents.csv of topics,
    communities.csv of a block model, states.csv of a hidden Markov model; how likely pairs are.

    \b
    latentfit predict new_votes.csv --model consensus/model.latent
    latentfit predict new_rows.csv --model classes/model.latent --target income
    """
    from latentfit.core.errors import DataError
    from latentfit.labels.cli import note_control

    console, begin = Terminal(quiet), time.perf_counter()
    with console.doing("reading"):
        model = load(model_file)
    kind = type(model).__name__
    row = ESTIMATORS[kind]
    if kind == "BlockModel":
        roles, target = roles | {"target": target}, None
    if target is not None and kind not in COLUMNS:
        raise DataError(f"{model_file} holds a {kind}, which predicts {row.predicts}; leave --target out")
    columns = columns_of_model(kind, model_file, roles)
    note_control(control, data_file, console)
    results = Results(out, format_, console)
    request = PredictRequest(
        data_file, model, model_file, target, columns, control, reading, results, json_, strict, begin
    )
    code: int = function_at(row.predictor)(model, request)
    return code
