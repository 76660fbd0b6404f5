"""What the model file of a hidden Markov model holds: three tables, the symbols in their own type, the story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from latentfit.core.file_parts import (
    ROUNDING,
    Arrays,
    check_numbers,
    describe_column,
    read_column,
    restore_story,
    typed,
    with_story,
)
from latentfit.core.table.table import Column
from latentfit.hmm.em.parameters import Chain

if TYPE_CHECKING:
    from latentfit.hmm.estimator.categorical_hmm import CategoricalHMM


def hmm_state(model: CategoricalHMM) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "start": model.start_,
        "transitions": model.transitions_,
        "emissions": model.emissions_,
        "weights": model.weights_,
    }
    metadata = {
        "symbols": describe_column(Column("symbol", model.symbols_)),
        "smoothing": float(model.smoothing_),
        "n_observed": int(model.n_observed_),
        "letters": model._letters,
    }
    return with_story(model, arrays, metadata)


def restore_hmm(model: CategoricalHMM, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `hmm_state` described; what does not fit together raises ValueError."""
    symbols = read_column(metadata["symbols"]).categories
    K = len(arrays["start"])
    if not K:
        raise ValueError("start holds nothing")
    check_numbers(arrays, {"start": (K,), "transitions": (K, K), "emissions": (K, len(symbols)), "weights": (K,)})
    for name in ("start", "transitions", "emissions", "weights"):
        if (np.abs(arrays[name].sum(axis=-1) - 1) > ROUNDING).any():
            raise ValueError(f"{name} holds probabilities that do not sum to one")
    restore_story(model, arrays, metadata)
    model.smoothing_, model.n_observed_ = typed(metadata, "smoothing", float), typed(metadata, "n_observed", int)
    if model.smoothing_ < 0 or model.n_observed_ < 1:
        raise ValueError("smoothing or n_observed is too small")
    letters = metadata.get("letters")  # the first files of 0.1.0 had none
    model._letters = None if letters is None else typed(metadata, "letters", bool)
    model.symbols_, model.weights_ = symbols, arrays["weights"]
    model._publish(Chain(arrays["start"], arrays["transitions"], arrays["emissions"]))
