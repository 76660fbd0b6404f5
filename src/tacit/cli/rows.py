"""Rows of a table file for the table commands: their ids, their weights, and the columns a saved model knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.data.frames import find_column
from tacit.errors import DataError
from tacit.io.read import read_columns
from tacit.models import BernoulliMixture, LatentClass, LatentClassClassifier, load


@dataclass(frozen=True)
class Rows:
    """The whole file, the columns that are data, and what the rows are called."""

    all: Any
    data: Any
    id_name: str
    ids: Any


def read_rows(path: str, id_: str | None, leave_out: Sequence[str] = ()) -> Rows:
    """A table file without its id column and without those left out."""
    return named_rows(read_columns(path), id_, leave_out)


def named_rows(whole: Any, id_: str | None, leave_out: Sequence[str] = (), first: int = 1) -> Rows:
    """Columns without their id column and without those left out; rows without ids are counted from `first`."""
    names = whole.column_names
    for name, role in [(id_, "row ids"), *((name, "weights") for name in leave_out)]:
        if name is not None:
            find_column(names, role, (), name)
    data = whole.select([name for name in names if name != id_ and name not in leave_out])
    given = None if id_ is None else whole[id_].combine_chunks()
    if given is not None and isinstance(given.type, pa.DictionaryType):
        given = given.cast(given.type.value_type)
    ids = np.arange(first, first + whole.num_rows) if given is None else given
    taken = id_ is None or id_ in ("class", "cluster", "switch", "on", "value", "probability")
    return Rows(whole, data, "row" if taken else str(id_), ids)


def load_table_model(path: str) -> LatentClass:
    """A saved latent class model."""
    model = load(path)
    if not isinstance(model, LatentClass):
        raise DataError(f"{path} holds a {type(model).__name__}, not a table's model; use one that tacit table wrote")
    return model


def under(
    model: BernoulliMixture | LatentClass | LatentClassClassifier, whole: Any, may_lack: str | None = None
) -> Any:
    """The file's columns that the model was fitted on, in its order; the target may be absent."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError("the model was fitted on a matrix without column names; fit it on a file or a frame")
    known = {column.name for column in model._columns}
    columns = {}
    for name in map(str, names):
        if name in whole.column_names:
            columns[name] = whole[name]
        elif name == may_lack or name not in known:  # what was set aside in the fit is not needed now
            columns[name] = pa.nulls(whole.num_rows, pa.string())
        else:
            raise DataError(
                f"the file has no column {name!r}, which the model knows; add it, gaps allowed "
                f"(the file has {', '.join(whole.column_names[:12])})"
            )
    return pa.table(columns)
