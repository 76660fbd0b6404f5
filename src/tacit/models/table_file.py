"""What the model file of a latent class model holds: arrays, and columns with categories that keep their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.names import Names
from tacit.data.table import Column
from tacit.diagnose.report import FitReport
from tacit.engine.memory import Sums
from tacit.engine.mixture import Mixture

if TYPE_CHECKING:
    from tacit.models.latent_class import LatentClass

Arrays = dict[str, NDArray[Any]]

KINDS: dict[str, Any] = {"text": object, "integer": np.int64, "decimal": np.float64, "boolean": np.bool_}
"""Types of categories in the file, and as arrays."""


def table_state(model: LatentClass) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    report = model.report_
    arrays = {
        "weights": model._mixture.weights,
        "table": model._mixture.table,
        "totals": model._sums.totals,
        "table_sums": model._sums.table,
        "marginals": model._marginals,
        "objective_path": model.objective_path_,
    }
    features = getattr(model, "feature_names_in_", None)
    metadata = {
        "columns": [_describe(column) for column in model._columns],
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "log_likelihood": float(model.log_likelihood_),
        "objective": float(model.objective_),
        "n_features_in": int(model.n_features_in_),
        "feature_names_in": None if features is None else [str(name) for name in features],
        "selection": _plain(model.selection_),
        "verdict": report.verdict,
        "reasons": list(report.reasons),
        "notes": list(report.notes),
    }
    return arrays, metadata


def restore_table(model: LatentClass, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `table_state` described; what does not fit together raises ValueError."""
    columns = tuple(_column(described) for described in metadata["columns"])
    first = np.concatenate([[0], np.cumsum([column.size for column in columns])]).astype(np.int32)
    n_classes, n_cells = len(arrays["weights"]), int(first[-1])
    shapes = {"weights": (n_classes,), "table": (n_cells, n_classes), "totals": (n_classes,)}
    shapes |= {"table_sums": (n_cells, n_classes), "marginals": (n_cells,)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, its names ask for {shape}")
        if not n_classes or (arrays[name] < 0).any():
            raise ValueError(f"{name} holds a negative number or nothing")
    model._columns, model._marginals = columns, arrays["marginals"]
    model._mixture = Mixture(arrays["weights"], arrays["table"], first)
    model.log_likelihood_, model.objective_ = float(metadata["log_likelihood"]), float(metadata["objective"])
    model._sums = Sums(model.log_likelihood_, arrays["totals"], arrays["table_sums"])
    model.n_components_ = model._n_features_out = n_classes
    model.weights_, model.profiles_ = model._mixture.weights, model._mixture.profiles()
    model.categories_ = [column.categories for column in columns]
    model.n_iter_, model.converged_ = int(metadata["n_iter"]), bool(metadata["converged"])
    model.objective_path_ = arrays["objective_path"]
    model.n_features_in_ = int(metadata["n_features_in"])
    if metadata["feature_names_in"] is not None:
        model.feature_names_in_ = np.array([str(name) for name in metadata["feature_names_in"]], object)
    model.selection_ = metadata["selection"]
    numbers = {} if model.selection_ is None else {"selection": model.selection_}
    model.report_ = FitReport(
        metadata["verdict"], list(metadata["reasons"]), numbers, list(metadata["notes"]), {}
    )
    model._backend = "pyarrow"


def _describe(column: Column) -> dict[str, Any]:
    kind = {"i": "integer", "u": "integer", "f": "decimal", "b": "boolean"}.get(column.categories.dtype.kind, "text")
    name = column.name if isinstance(column.name, str) else int(column.name)
    described: dict[str, Any] = {"name": name, "kind": kind, "categories": column.categories.tolist()}
    if column.edges is not None:
        described |= {"edges": column.edges.tolist()}
    if column.centres is not None:
        described |= {"centres": column.centres.tolist()}
    return described


def _column(described: dict[str, Any]) -> Column:
    values, kind = described["categories"], KINDS[described["kind"]]
    wanted = {"text": str, "integer": int, "decimal": float, "boolean": bool}[described["kind"]]
    if not values or not all(type(value) is wanted for value in values):
        raise ValueError(f"column {described['name']!r} has categories that are not {described['kind']}")
    if type(described["name"]) not in (str, int):
        raise ValueError("a column has a name that is neither text nor a number")
    names: Names = np.array(values, kind)
    edges, centres = (described.get(key) for key in ("edges", "centres"))
    if edges is not None and (len(edges) != len(values) - 1 or centres is None or len(centres) != len(values)):
        raise ValueError(f"column {described['name']!r} has {len(edges)} bin edges for {len(values)} intervals")
    return Column(
        described["name"],
        names,
        None if edges is None else np.array(edges, np.float64),
        None if centres is None else np.array(centres, np.float64),
    )


def _plain(value: Any) -> Any:
    """Numbers, text, lists and mappings as JSON holds them; a number that is not finite becomes None."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
