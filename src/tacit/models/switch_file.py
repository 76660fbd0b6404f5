"""What the model file of hidden switches holds: weights, P(h), the noise, and which features were set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.models.file_parts import ROUNDING, Arrays, plain_names, read_names, restore_story, typed, with_story
from tacit.refine.switches import MOST_SWITCHES, SwitchParams

if TYPE_CHECKING:
    from tacit.models.binary_factors import BinaryFactors


def switch_state(model: BinaryFactors) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of fitted switches."""
    arrays = {
        "weights": np.ascontiguousarray(model._params.W),
        "log_prior": model._params.log_prior,
        "constant": np.nan_to_num(model._constant),
        "scale": model._scale,
    }
    metadata = {
        "names": plain_names(model._names),
        "kept": np.flatnonzero(model._kept).tolist(),
        "empty": np.flatnonzero(np.isnan(model._constant)).tolist(),  # features without a value: no constant is known
        "sigma2": float(model._params.sigma2),
        "noise": float(model.noise_),
    }
    return with_story(model, arrays, metadata)


def restore_switches(model: BinaryFactors, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `switch_state` described; what does not fit together raises ValueError."""
    W, log_prior = arrays["weights"], arrays["log_prior"]
    names, kept = read_names(metadata, "names"), typed(metadata, "kept", list)
    if W.ndim != 2 or not 1 <= len(W) <= MOST_SWITCHES or W.shape[1] != len(names) or W.dtype != np.float64:
        raise ValueError(f"weights have shape {W.shape} for {len(names)} features")
    if log_prior.shape != (2 ** len(W),) or log_prior.dtype != np.float64:
        raise ValueError(f"log_prior has shape {log_prior.shape} for {len(W)} switches")
    if abs(float(np.exp(np.minimum(log_prior, 1.0)).sum()) - 1) > ROUNDING:
        raise ValueError("log_prior holds probabilities that do not sum to one")
    restore_story(model, arrays, metadata, names)
    if len(kept) != len(names) or not all(type(at) is int and 0 <= at < model.n_features_in_ for at in kept):
        raise ValueError("kept names a feature that is not there")
    if kept != sorted(set(kept)):
        raise ValueError("kept names a feature twice, or not in order")
    sigma2, noise = typed(metadata, "sigma2", float), typed(metadata, "noise", float)
    if sigma2 <= 0 or noise < 0:
        raise ValueError(f"sigma2 is {sigma2} and noise {noise}")
    model._kept = np.zeros(model.n_features_in_, bool)
    model._kept[kept] = True
    model._constant = arrays.get("constant", np.zeros(model.n_features_in_))  # files of 0.1.0 did not say
    if model._constant.shape != (model.n_features_in_,) or not np.isfinite(model._constant).all():
        raise ValueError(f"constant has shape {model._constant.shape} for {model.n_features_in_} features")
    empty = metadata.get("empty", [])  # files of 0.1.0 had none
    if not isinstance(empty, list) or not all(type(at) is int and 0 <= at < model.n_features_in_ for at in empty):
        raise ValueError("empty names a feature that does not exist")
    model._constant = model._constant.copy()
    model._constant[empty] = np.nan
    model._scale = arrays.get("scale", np.ones(len(names)))  # files of 0.1.0 had none
    if model._scale.shape != (len(names),) or not (np.isfinite(model._scale) & (model._scale > 0)).all():
        raise ValueError(f"scale has shape {model._scale.shape} for {len(names)} features, or is not positive")
    model._names, model.noise_ = tuple(names), noise
    model._publish(SwitchParams(W, log_prior, sigma2))
