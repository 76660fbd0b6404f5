"""What the model file of a latent class or cluster model holds: the mixture, its statistics, and the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tacit.engine.memory import Sums
from tacit.models.file_parts import (
    Arrays,
    check_numbers,
    describe_column,
    read_columns,
    read_mixture,
    restore_story,
    with_story,
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
    }
    return with_story(model, arrays, {"columns": [describe_column(column) for column in model._columns]})


def restore_table(model: TableModel, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `table_state` described; what does not fit together raises ValueError."""
    columns = read_columns(metadata["columns"])
    mixture = read_mixture(arrays, columns)
    n_cells, n_classes = mixture.table.shape
    check_numbers(arrays, {"totals": (n_classes,), "table_sums": (n_cells, n_classes), "marginals": (n_cells,)})
    restore_story(model, arrays, metadata, [column.name for column in columns])
    model._marginals = arrays["marginals"]
    model._sums = Sums(model.log_likelihood_, arrays["totals"], arrays["table_sums"])
    model._publish(mixture, columns)
