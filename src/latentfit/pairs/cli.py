"""Pairs of a file under a saved `PairMatrix`: `latentfit predict` asks for their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentfit.cli.console import number_of

if TYPE_CHECKING:
    from latentfit.cli.predict import PredictRequest
    from latentfit.pairs.estimator import PairMatrix


def predict_pairs(model: PairMatrix, request: PredictRequest) -> int:
    """predictions.csv (row, column, probability, lift), one line per line of the file; empty where a name is new."""
    from latentfit.core.counts import pair_columns
    from latentfit.core.frames import ArrowFrame
    from latentfit.core.names import match
    from latentfit.io.read import read_columns

    frame = ArrowFrame(read_columns(request.data_file, **request.reading.rules()))
    left, right = pair_columns(frame, model.columns, request.data_file)
    rows, columns = match(left, model.items_, "row item"), match(right, model.column_items_, "column item")
    known = (rows >= 0) & (columns >= 0)
    stated = model.reconstruct()
    probability, lift = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    at = model.items_[rows[known]], model.column_items_[columns[known]]
    probability[known] = stated.probability(*at)
    independent = model.marginal_[rows[known]] * model.column_marginal_[columns[known]]
    lift[known] = np.where(independent > 0, probability[known] / np.where(independent > 0, independent, 1.0), 1.0)
    columns_out = {"row": left, "column": right, "probability": probability, "lift": lift}
    request.results.table("predictions", columns_out, main=True)
    unknown = int((~known).sum())
    facts = f"{number_of(len(rows), 'pairs')}, {unknown:,} with a name that the model has not seen"
    return request.conclude(len(rows), facts, n_unknown=unknown)
