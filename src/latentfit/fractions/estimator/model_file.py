"""What the model file of mixture fractions holds: profiles, names of parts and features, the story of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    from latentfit.fractions.estimator.mixture_fractions import MixtureFractions


def fraction_state(model: MixtureFractions) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {"profiles": model.profiles_, "weights": model.weights_}
    metadata = {
        "parts": plain_names(model.parts_.tolist()),
        "features": plain_names(model.features_),
        "known": model._known,
        "noise": model.noise_,
    }
    return with_story(model, arrays, metadata)


def restore_fractions(model: MixtureFractions, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `fraction_state` described; what does not fit together raises ValueError."""
    parts, features = read_names(metadata, "parts"), read_names(metadata, "features")
    check_numbers(arrays, {"profiles": (len(parts), len(features)), "weights": (len(parts),)})
    total, constraint = float(arrays["weights"].sum()), model.constraint
    off = {"sum_to_one": abs(total - 1), "sum_at_most_one": total - 1, "nonnegative": 0.0}[constraint]
    if (arrays["profiles"] > 1).any() or off > ROUNDING:
        raise ValueError("a profile is above one, or the weights have another sum than they may have")
    restore_story(model, arrays, metadata, features)
    if any(type(name) is int and not 0 <= name < model.n_features_in_ for name in features):
        raise ValueError("features names a column that is not there")
    model.noise_ = typed(metadata, "noise", float)
    if model.noise_ < 0:
        raise ValueError(f"noise is {model.noise_}")
    model._known = typed(metadata, "known", bool)
    model.features_, model.weights_ = tuple(features), arrays["weights"]
    model._publish(arrays["profiles"], name_array(parts, "parts"))
