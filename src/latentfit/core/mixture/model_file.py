"""What the model file of a latent class or cluster model holds: the mixture, its statistics, and the columns."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np

from latentfit.core.file_parts import (
    Arrays,
    check_numbers,
    describe_column,
    read_columns,
    read_mixture,
    restore_story,
    with_story,
)
from latentfit.core.table.weights import WeightScale, unweighted
from latentfit.engine.memory import Sums

if TYPE_CHECKING:
    from latentfit.core.mixture.model import TableModel


def table_state(model: TableModel) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "weights": model._mixture.weights,
        "table": model._mixture.table,
        "totals": model._sums.totals,
        "table_sums": model._sums.table,
        "marginals": model._marginals,
    }
    columns = [describe_column(column) for column in model._columns]
    return with_story(model, arrays, {"columns": columns, "weight_scale": list(astuple(model._scale))})


def restore_table(model: TableModel, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `table_state` described; what does not fit together raises ValueError."""
    columns = read_columns(metadata["columns"])
    mixture = read_mixture(arrays, columns)
    n_cells, n_classes = mixture.table.shape
    check_numbers(arrays, {"totals": (n_classes,), "table_sums": (n_cells, n_classes), "marginals": (n_cells,)})
    restore_story(model, arrays, metadata, [column.name for column in columns])
    model._marginals = arrays["marginals"]
    model._sums = Sums(model.log_likelihood_, arrays["totals"], arrays["table_sums"])
    model._scale = _read_scale(metadata, float(arrays["totals"].sum()))
    model._publish(mixture, columns)


def _read_scale(metadata: dict[str, Any], total: float) -> WeightScale:
    """How the weights of all rows seen are spread; files of 0.1.0 counted their sum as rows."""
    if "weight_scale" not in metadata:
        return unweighted(max(total, 1.0))
    largest, sums, squares, n_rows = metadata["weight_scale"]
    scale = WeightScale(float(largest), float(sums), float(squares), int(n_rows))
    if not (np.isfinite(astuple(scale)).all() and min(astuple(scale)) > 0):
        raise ValueError(f"weight_scale is {metadata['weight_scale']}")
    return scale
