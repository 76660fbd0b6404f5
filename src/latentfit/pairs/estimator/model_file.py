"""What the model file of a `PairMatrix` holds: the factors of B, the items' names, the story of the fit."""

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
from latentfit.pairs.init.factored import Factored

if TYPE_CHECKING:
    from latentfit.pairs.estimator.pair_matrix import PairMatrix

PARTS = ("marginal", "separation", "column_marginal", "column_separation", "signs")


def pair_state(model: PairMatrix) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model; columns are left out where they are the rows."""
    factored = model._factored
    arrays: Arrays = {name: getattr(factored, name) for name in PARTS}
    arrays |= {"singular_values": model.singular_values_, "item_counts": model.item_counts_}
    if model.symmetric_:
        arrays = {name: part for name, part in arrays.items() if not name.startswith("column_")}
    if hasattr(model, "dictionary_"):
        arrays |= {"dictionary": model.dictionary_, "mixing": model.mixing_}
    same = model.column_items_ is model.items_ or np.array_equal(model.items_, model.column_items_)
    metadata = {
        "items": plain_names(model.items_.tolist()),
        "column_items": None if same else plain_names(model.column_items_.tolist()),
        "symmetric": bool(model.symmetric_),
    }
    return with_story(model, {name: np.ascontiguousarray(part) for name, part in arrays.items()}, metadata)


def restore_pairs(model: PairMatrix, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `pair_state` described; what does not fit together raises ValueError."""
    column_items = items = name_array(read_names(metadata, "items"), "items")
    if metadata["column_items"] is not None:
        column_items = name_array(read_names(metadata, "column_items"), "column_items")
    model.symmetric_ = typed(metadata, "symmetric", bool)
    parts = {name: arrays[name if not model.symmetric_ else name.removeprefix("column_")] for name in PARTS}
    rank = parts["signs"].shape[0]
    shapes = {"separation": (len(items), rank), "column_separation": (len(column_items), rank)}
    for name, shape in shapes.items():
        if parts[name].shape != shape or parts[name].dtype != np.float64 or not np.isfinite(parts[name]).all():
            raise ValueError(f"{name} has shape {parts[name].shape}, its names ask for finite numbers of {shape}")
    sizes = {"marginal": (len(items),), "column_marginal": (len(column_items),)}
    check_numbers({name: parts[name] for name in sizes}, sizes)
    check_numbers(arrays, {"item_counts": (len(items),), "singular_values": (rank,)})
    if any(abs(float(parts[name].sum()) - 1) > ROUNDING for name in sizes) or (np.abs(parts["signs"]) != 1).any():
        raise ValueError("marginals do not sum to one, or signs are not signs")
    restore_story(model, arrays, metadata, list(range(len(column_items))))
    model.items_, model.column_items_ = items, column_items
    model.singular_values_, model.item_counts_ = arrays["singular_values"], arrays["item_counts"]
    if "dictionary" in arrays:
        check_numbers(arrays, {"dictionary": (len(items), rank + 1), "mixing": (rank + 1, rank + 1)})
        model.dictionary_, model.mixing_ = arrays["dictionary"], arrays["mixing"]
    model._publish(Factored(**parts))
