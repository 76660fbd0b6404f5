"""Rows of a table file for the table commands: their ids, their weights, and the columns a saved model knows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from latentfit import BernoulliMixture, LatentClass, LatentClassClassifier
from latentfit.cli.console import number_of
from latentfit.cli.reading import AS_IT_IS, Reading
from latentfit.core.errors import DataError
from latentfit.core.frames import find_column
from latentfit.core.names import decoded
from latentfit.core.registry import load
from latentfit.core.table.coding import read_weights
from latentfit.io.read import read_columns

if TYPE_CHECKING:
    from latentfit.cli.console import Talk
    from latentfit.cli.predict import Asked
    from latentfit.core.estimator import LatentModel

TableRows = BernoulliMixture | LatentClass | LatentClassClassifier


@dataclass(frozen=True)
class Rows:
    """The whole file, the columns that are data, what the rows are called, and how many each stands for (None: one)."""

    all: Any
    data: Any
    id_name: str
    ids: Any
    weight: Any = None


def read_rows(
    path: str, id_: str | None, weights: str | None = None, reading: Reading = AS_IT_IS, talk: Talk | None = None
) -> Rows:
    """A table file, its ids and weights taken apart."""
    whole = read_columns(path, **reading.rules(id_, weights))
    rows = named_rows(whole, reading.row_names(whole.column_names, id_, talk), weights)
    return rows if weights is None else replace(rows, weight=read_weights(rows.all[weights], weights))


def named_rows(whole: Any, id_: str | None, weights: str | None, first: int = 1) -> Rows:
    """Columns without their id column and that of their weights; rows without ids are counted from `first`."""
    data = whole.select(data_columns(whole.column_names, id_, weights))
    given = None if id_ is None else decoded(whole[id_].combine_chunks())
    ids = np.arange(first, first + whole.num_rows) if given is None else given
    taken = not id_ or id_ in ("class", "cluster", "switch", "on", "value", "probability")
    return Rows(whole, data, "row" if taken else str(id_), ids)


def data_columns(names: list[str], id_: str | None, weights: str | None) -> list[str]:
    """Columns but those of ids and weights, which must be there when they are named."""
    for name, role in ((id_, "row ids"), (weights, "weights")):
        if name is not None:
            find_column(names, role, (), name)
    return [name for name in names if name not in (id_, weights)]


def load_table_model(path: str) -> LatentClass:
    """A saved latent class model."""
    return table_model(load(path), path)


def table_model(model: LatentModel, path: str) -> LatentClass:
    """The model of a file, if it is one of a table."""
    if not isinstance(model, LatentClass):
        raise DataError(
            f"{path} holds a {type(model).__name__}, not a table's model; use one that latentfit table wrote"
        )
    return model


def under(model: LatentModel, whole: Any, may_lack: Collection[str] | None = None) -> Any:
    """The file's columns that a model was fitted on, in its order; those that it `may_lack` are gaps then."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError("the model was fitted on a matrix without column names; fit it on a file or a frame")
    columns = {}
    for name in map(str, names):
        if name in whole.column_names:
            columns[name] = whole[name]
        elif may_lack is not None and name in may_lack:
            columns[name] = pa.nulls(whole.num_rows, pa.string())
        else:
            cure = "add it" if may_lack is None else "add it, gaps allowed"
            there = ", ".join(whole.column_names[:12])
            raise DataError(f"the file has no column {name!r}, which the model knows; {cure} (the file has {there})")
    return pa.table(columns)


def under_table(model: TableRows, whole: Any, target: str | None = None) -> Any:
    """The same of a table model; what was set aside in the fit is not needed, nor is what is to be predicted."""
    known = {column.name for column in model._columns}
    names = map(str, getattr(model, "feature_names_in_", ()))
    return under(model, whole, {name for name in names if name not in known or name == target})


def read_table_input(
    model: TableRows, path: str, columns: dict[str, str], control: str | None, talk: Talk, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    rows = read_rows(path, columns.get("id"), reading=reading, talk=talk)
    return {"input": under_table(model, rows.all), "ids": rows.ids}


def predict_rows(model: TableRows, asked: Asked) -> int:
    """The class or label of every row, or the most probable value of one column given the others."""
    target, talk = asked.target, asked.talk
    if isinstance(model, LatentClass) and target is not None:
        model.joint_.index(target)
    with talk.doing("reading"):
        rows = read_rows(asked.data_file, asked.columns.get("id"), reading=asked.reading, talk=talk)
    names = getattr(model, "classes_", None)  # hidden classes have numbers for names
    with talk.doing("predicting"):
        data = under_table(model, rows.all, target)
        if isinstance(model, LatentClass) and target is not None:
            values, chance = model.predict_column(data, target)
        else:
            beliefs = model.predict_proba(data)
            best, chance = beliefs.argmax(axis=1), beliefs.max(axis=1)
            values = best if names is None else names[best]
    asked.results.table("predictions", {rows.id_name: rows.ids, "value": values, "probability": chance}, main=True)
    what = target or ("their class" if names is None else "their label")
    return asked.conclude(data.num_rows, f"{number_of(data.num_rows, 'rows')}: {what} predicted", target=target)
