"""What the model file of mixture fractions holds: profiles, names of parts and features, the story of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.models.file_parts import ROUNDING, Arrays, check_numbers, fit_story, read_path, restore_story, typed

if TYPE_CHECKING:
    from tacit.models.mixture_fractions import MixtureFractions


def fraction_state(model: MixtureFractions) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {"profiles": model.profiles_, "weights": model.weights_, "objective_path": model.objective_path_}
    return arrays, {
        "parts": [name if isinstance(name, str) else int(name) for name in model.parts_.tolist()],
        "features": [name if isinstance(name, str) else int(name) for name in model.features_],
        "known": model._known,
        "noise": model.noise_,
        **fit_story(model),
    }


def restore_fractions(model: MixtureFractions, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `fraction_state` described; what does not fit together raises ValueError."""
    parts, features = _names(metadata, "parts"), _names(metadata, "features")
    check_numbers(arrays, {"profiles": (len(parts), len(features)), "weights": (len(parts),)})
    if (arrays["profiles"] > 1).any() or abs(float(arrays["weights"].sum()) - 1) > ROUNDING:
        raise ValueError("a profile is above one, or the weights do not sum to one")
    restore_story(model, metadata, features)
    if any(type(name) is int and not 0 <= name < model.n_features_in_ for name in features):
        raise ValueError("features names a column that is not there")
    model.noise_ = typed(metadata, "noise", float)
    if model.noise_ < 0:
        raise ValueError(f"noise is {model.noise_}")
    model._known = typed(metadata, "known", bool)
    model.parts_ = np.array([*parts, None], object)[:-1]
    model.features_, model.profiles_, model.weights_ = tuple(features), arrays["profiles"], arrays["weights"]
    model.n_components_ = model._n_features_out = len(parts)
    model.objective_path_ = read_path(arrays)
    model._backend = "pyarrow"


def _names(metadata: dict[str, Any], what: str) -> list[str | int]:
    names = metadata[what]
    if type(names) is not list or not names or len(set(names)) < len(names):
        raise ValueError(f"{what} is empty, or holds a name twice")
    if not all(type(name) in (str, int) for name in names):
        raise ValueError(f"{what} holds a name that is neither text nor a number")
    return names
