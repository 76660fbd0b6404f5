"""What the model file of a block model holds: the nodes and their probabilities, affinities, the story of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from latentfit.core.file_parts import (
    ROUNDING,
    Arrays,
    check_numbers,
    name_array,
    plain_names,
    read_names,
    restore_story,
    typed,
    with_story,
)

if TYPE_CHECKING:
    from latentfit.communities.estimator.block_model import BlockModel


def block_state(model: BlockModel) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "probabilities": model.probabilities_,
        "weights": model.weights_,
        "affinity": model._affinity,
        "held": model._held,
    }
    metadata = {
        "nodes": plain_names(model.nodes_.tolist()),
        "n_edges": int(model.n_edges_),
        "corrected": bool(model.degree_corrected_),
        "unit": float(model._unit),
    }
    return with_story(model, arrays, metadata)


def restore_blocks(model: BlockModel, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `block_state` described; what does not fit together raises ValueError."""
    nodes, n_blocks = read_names(metadata, "nodes"), len(arrays["weights"])
    if not n_blocks:
        raise ValueError("there are no blocks")
    square = (n_blocks, n_blocks)
    check_numbers(arrays, {"probabilities": (len(nodes), n_blocks), "weights": (n_blocks,), "affinity": square,
                           "held": (n_blocks,)})  # fmt: skip
    sums = np.append(arrays["probabilities"].sum(axis=1), arrays["weights"].sum())
    if (np.abs(sums - 1) > ROUNDING).any() or not (arrays["affinity"] > 0).all() or not (arrays["weights"] > 0).all():
        raise ValueError("probabilities do not sum to one, or an affinity or a share is zero")
    restore_story(model, arrays, metadata)
    if model.n_features_in_ != len(nodes):
        raise ValueError(f"it has {len(nodes)} nodes and {model.n_features_in_} features")
    model.n_edges_, model.degree_corrected_ = typed(metadata, "n_edges", int), typed(metadata, "corrected", bool)
    model.nodes_ = name_array(nodes, "nodes")
    model._unit = typed(metadata, "unit", float)
    if model._unit <= 0:
        raise ValueError(f"unit is {model._unit}")
    model._publish(*(arrays[name] for name in ("probabilities", "weights", "affinity", "held")))
