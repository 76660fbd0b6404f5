"""What the model file of a classifier holds: the latent classes of all labels side by side, and whose they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentfit.core.file_parts import (
    Arrays,
    describe_column,
    read_column,
    read_columns,
    read_mixture,
    restore_story,
    typed,
    with_story,
)
from latentfit.core.table.table import Column

if TYPE_CHECKING:
    from latentfit.tables.estimator.classifier import LatentClassClassifier


def classifier_state(model: LatentClassClassifier) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted classifier."""
    arrays = {
        "weights": model._mixture.weights,
        "table": model._mixture.table,
        "owners": model.owners_.astype(np.int64),
    }
    metadata = {
        "columns": [describe_column(column) for column in model._columns],
        "labels": describe_column(Column("label", model.classes_)),
        "classes_per_label": int(model.n_components_),
    }
    return with_story(model, arrays, metadata)


def restore_classifier(model: LatentClassClassifier, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `classifier_state` described; what does not fit together raises ValueError."""
    columns, labels = read_columns(metadata["columns"]), read_column(metadata["labels"])
    mixture, owners, number = read_mixture(arrays, columns), arrays["owners"], typed(metadata, "classes_per_label", int)
    if owners.dtype != np.int64 or owners.shape != mixture.weights.shape:
        raise ValueError(f"owners has shape {owners.shape}, there are {mixture.n_classes} latent classes")
    if owners.min() < 0 or owners.max() >= labels.size or (np.diff(owners) < 0).any():
        raise ValueError(f"owners names a label that is not among the {labels.size}, or is out of order")
    counts = np.bincount(owners, minlength=labels.size)
    if counts.min() < 1 or counts.max() > number:
        raise ValueError(f"a label has no latent class, or more than {number}")
    restore_story(model, arrays, metadata, [column.name for column in columns])
    if "quantities" not in metadata:  # files of 0.1.0 kept them under another name
        evidence = typed(metadata, "evidence", dict)
        model.report_ = replace(model.report_, quantities={**model.report_.quantities, **evidence})
    model._columns, model.classes_, model.n_components_ = columns, labels.categories, number
    model._publish(mixture, owners.astype(np.intp))
