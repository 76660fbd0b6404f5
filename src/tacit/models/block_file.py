"""What the model file of a block model holds: the nodes and their probabilities, affinities, the story of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.models.file_parts import ROUNDING, Arrays, check_numbers, fit_story, read_path, restore_story, typed

if TYPE_CHECKING:
    from tacit.models.block_model import BlockModel


def block_state(model: BlockModel) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "probabilities": model.probabilities_,
        "weights": model.weights_,
        "affinity": model._affinity,
        "held": model._held,
        "objective_path": model.objective_path_,
    }
    words = model.nodes_.dtype.kind not in "iu"
    return arrays, fit_story(model) | {
        "nodes": [str(name) if words else int(name) for name in model.nodes_.tolist()],
        "n_edges": int(model.n_edges_),
        "corrected": bool(model.degree_corrected_),
        "unit": float(model._unit),
    }


def restore_blocks(model: BlockModel, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `block_state` described; what does not fit together raises ValueError."""
    nodes, n_blocks = typed(metadata, "nodes", list), len(arrays["weights"])
    if not nodes or len({type(name) for name in nodes}) > 1 or type(nodes[0]) not in (str, int):
        raise ValueError("nodes is empty, or holds names that are neither all text nor all numbers")
    if len(set(nodes)) < len(nodes) or not n_blocks:
        raise ValueError("a node is there twice, or there are no blocks")
    square = (n_blocks, n_blocks)
    check_numbers(arrays, {"probabilities": (len(nodes), n_blocks), "weights": (n_blocks,), "affinity": square,
                           "held": (n_blocks,)})  # fmt: skip
    sums = np.append(arrays["probabilities"].sum(axis=1), arrays["weights"].sum())
    if (np.abs(sums - 1) > ROUNDING).any() or not (arrays["affinity"] > 0).all() or not (arrays["weights"] > 0).all():
        raise ValueError("probabilities do not sum to one, or an affinity or a share is zero")
    restore_story(model, metadata, [])
    if model.n_features_in_ != len(nodes):
        raise ValueError(f"it has {len(nodes)} nodes and {model.n_features_in_} features")
    model.n_edges_, model.degree_corrected_ = typed(metadata, "n_edges", int), typed(metadata, "corrected", bool)
    model.nodes_ = np.array([*nodes, None], object)[:-1] if isinstance(nodes[0], str) else np.array(nodes, np.int64)
    model.probabilities_, model.weights_ = arrays["probabilities"], arrays["weights"]
    model.labels_ = model.probabilities_.argmax(axis=1)
    model._affinity, model._held = arrays["affinity"], arrays["held"]
    mean = model._held / np.maximum(model.probabilities_.sum(axis=0), 1e-300)
    model._unit = typed(metadata, "unit", float)
    if model._unit <= 0:
        raise ValueError(f"unit is {model._unit}")
    model.connectivity_ = model._affinity * np.outer(mean, mean) * model._unit
    model.n_blocks_ = model.n_components_ = n_blocks
    model.objective_path_ = read_path(arrays)
    model._backend = "pyarrow"
