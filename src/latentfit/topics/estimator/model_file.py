"""What the model file of topics holds: topics, weights, pseudo-counts, words, the story of the fit."""

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
    with_story,
)

if TYPE_CHECKING:
    from latentfit.topics.estimator.topic_model import TopicModel


def topic_state(model: TopicModel) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "topics": model.topics_,
        "weights": model.weights_,
        "word_counts": model.word_counts_,
        "pseudo_shares": model.pseudo_shares_,
    }
    metadata = {"words": plain_names(model.words_.tolist()), "pseudo_words": model.pseudo_words_}
    return with_story(model, arrays, metadata)


def restore_topics(model: TopicModel, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `topic_state` described; what does not fit together raises ValueError."""
    words, K = read_names(metadata, "words"), len(arrays["weights"])
    if not K:
        raise ValueError("weights holds nothing")
    shapes = {"topics": (K, len(words)), "weights": (K,), "word_counts": (len(words),), "pseudo_shares": (K,)}
    check_numbers(arrays, shapes)
    sums = np.append(arrays["topics"].sum(axis=1), arrays["weights"].sum())
    if (np.abs(sums - 1) > ROUNDING).any():
        raise ValueError("topics or weights do not sum to one")
    if type(metadata["pseudo_words"]) is not float or not metadata["pseudo_words"] >= 0:
        raise ValueError("pseudo_words is no number of zero or more")
    restore_story(model, arrays, metadata, words if metadata["feature_names_in"] is not None else [])
    if model.n_features_in_ != len(words):
        raise ValueError(f"n_features_in is {model.n_features_in_} for {len(words)} words")
    model.words_, model.word_counts_ = name_array(words, "words"), arrays["word_counts"]
    model.pseudo_words_ = metadata["pseudo_words"]
    model._publish(arrays["topics"], arrays["weights"], arrays["pseudo_shares"])
