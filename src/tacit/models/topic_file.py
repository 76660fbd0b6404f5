"""What the model file of topics holds: topics, weights, pseudo-counts, words, the story of the fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.models.file_parts import ROUNDING, Arrays, check_numbers, fit_story, read_path, restore_story

if TYPE_CHECKING:
    from tacit.models.topic_model import TopicModel


def topic_state(model: TopicModel) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "topics": model.topics_, "weights": model.weights_, "word_counts": model.word_counts_,
        "pseudo_shares": model.pseudo_shares_, "objective_path": model.objective_path_,
    }  # fmt: skip
    words = [word if isinstance(word, str) else int(word) for word in model.words_.tolist()]
    return arrays, {"words": words, "pseudo_words": model.pseudo_words_, **fit_story(model)}


def restore_topics(model: TopicModel, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `topic_state` described; what does not fit together raises ValueError."""
    words, K = metadata["words"], len(arrays["weights"])
    if type(words) is not list or not words or len(set(words)) < len(words) or not K:
        raise ValueError("words or weights is empty, or holds a word twice")
    if len({type(word) for word in words}) > 1 or type(words[0]) not in (str, int):
        raise ValueError("words holds something that is neither text nor a number")
    shapes = {"topics": (K, len(words)), "weights": (K,), "word_counts": (len(words),), "pseudo_shares": (K,)}
    check_numbers(arrays, shapes)
    sums = np.append(arrays["topics"].sum(axis=1), arrays["weights"].sum())
    if (np.abs(sums - 1) > ROUNDING).any():
        raise ValueError("topics or weights do not sum to one")
    if type(metadata["pseudo_words"]) is not float or not metadata["pseudo_words"] >= 0:
        raise ValueError("pseudo_words is no number of zero or more")
    restore_story(model, metadata, words if metadata["feature_names_in"] is not None else [])
    if model.n_features_in_ != len(words):
        raise ValueError(f"n_features_in is {model.n_features_in_} for {len(words)} words")
    model.words_ = np.array(words, object if isinstance(words[0], str) else np.int64)
    model.topics_, model.weights_, model.word_counts_ = arrays["topics"], arrays["weights"], arrays["word_counts"]
    model.pseudo_shares_, model.pseudo_words_ = arrays["pseudo_shares"], metadata["pseudo_words"]
    model.n_topics_ = model._n_features_out = K
    model.objective_path_ = read_path(arrays)
    model._backend = "pyarrow"
