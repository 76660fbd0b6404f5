"""What the model file of a latent class or cluster model holds: the mixture, its statistics, and the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.engine.memory import Sums
from tacit.models.file_parts import (
    Arrays,
    check_numbers,
    describe_column,
    fit_story,
    read_columns,
    read_mixture,
    read_path,
    restore_story,
)

if TYPE_CHECKING:
    from tacit.models.table_model import TableModel


def table_state(model: TableModel) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "weights": model._mixture.weights,
        "table": model._mixture.table,
        "totals": model._sums.totals,
        "table_sums": model._sums.table,
        "marginals": model._marginals,
        "objective_path": model.objective_path_,
    }
    return arrays, {"columns": [describe_column(column) for column in model._columns], **fit_story(model)}


def restore_table(model: TableModel, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `table_state` described; what does not fit together raises ValueError."""
    columns = read_columns(metadata["columns"])
    mixture = read_mixture(arrays, columns)
    n_cells, n_classes = mixture.table.shape
    check_numbers(arrays, {"totals": (n_classes,), "table_sums": (n_cells, n_classes), "marginals": (n_cells,)})
    restore_story(model, metadata, [column.name for column in columns])
    model._columns, model._mixture, model._marginals = columns, mixture, arrays["marginals"]
    model._sums = Sums(model.log_likelihood_, arrays["totals"], arrays["table_sums"])
    model.n_components_ = model._n_features_out = n_classes
    model.weights_, model.profiles_ = mixture.weights, mixture.profiles()
    model.categories_ = [column.categories for column in columns]
    model.objective_path_ = read_path(arrays)
    model._backend = "pyarrow"
