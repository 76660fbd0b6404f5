"""Pairs of a file under a saved `PairMatrix`: `tacit predict` asks for their probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.cli.common import Results, Talk, conclude, of_model

if TYPE_CHECKING:
    from tacit.models.pair_matrix import PairMatrix


def predict_pairs(model: PairMatrix, data_file: str, model_file: str, talk: Talk, results: Results, json_: bool) -> int:
    """predictions.csv (row, column, probability, lift), one line per line of the file; empty where a name is new."""
    from tacit.data.counts import pair_columns
    from tacit.data.frames import ArrowFrame
    from tacit.data.names import match
    from tacit.io.read import read_columns

    left, right = pair_columns(ArrowFrame(read_columns(data_file)), model.columns, data_file)
    rows, columns = match(left, model.items_, "row item"), match(right, model.column_items_, "column item")
    known = (rows >= 0) & (columns >= 0)
    stated = model.reconstruct()
    probability, lift = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    at = model.items_[rows[known]], model.column_items_[columns[known]]
    probability[known] = stated.probability(*at)
    chance = model.marginal_[rows[known]] * model.column_marginal_[columns[known]]
    lift[known] = np.where(chance > 0, probability[known] / np.where(chance > 0, chance, 1.0), 1.0)
    results.table("predictions", {"row": left, "column": right, "probability": probability, "lift": lift}, main=True)
    unknown = int((~known).sum())
    facts = f"{len(rows):,} pairs, {unknown:,} with a name that the model has not seen"
    return conclude(of_model(model_file, len(rows), n_unknown=unknown), facts, talk, results, json_=json_)
