"""What topics say to people: tables, notes of a fit, the arrays pyLDAvis takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.documents import Documents
from tacit.data.frames import long_columns
from tacit.data.names import Names
from tacit.diagnose.coherence import top_words
from tacit.kernels import Floats
from tacit.refine.choose_topics import TopicNumber
from tacit.refine.topic_prior import PriorChoice


def topic_columns(words: Names, topics: Floats) -> dict[str, NDArray[Any]]:
    """Columns of topics.csv: topic, word, probability, rank (1 first)."""
    K, M = topics.shape
    order = top_words(topics, M)
    return {
        "topic": np.repeat(np.arange(K), M),
        "word": words[order.reshape(-1)],
        "probability": np.take_along_axis(topics, order, axis=1).reshape(-1),
        "rank": np.tile(np.arange(1, M + 1), K),
    }


def document_columns(documents: Names, shares: Floats) -> dict[str, NDArray[Any]]:
    """Columns of documents.csv: document, topic, proportion."""
    return long_columns(("document", "topic", "proportion"), documents, np.arange(shares.shape[1]), shares)


def pyldavis_arrays(documents: Documents, topics: Floats, shares: Floats) -> dict[str, Any]:
    """The arguments of `pyLDAvis.prepare`; empty documents and words without counts are left out."""
    used, occur = np.flatnonzero(documents.lengths > 0), np.flatnonzero(documents.totals > 0)
    kept = topics[:, occur]
    return {
        "topic_term_dists": kept / kept.sum(axis=1, keepdims=True),
        "doc_topic_dists": shares[used],
        "doc_lengths": documents.lengths[used],
        "vocab": [str(word) for word in documents.words[occur].tolist()],
        "term_frequency": documents.totals[occur],
    }


def told(winner: str, n_starts: int, found: TopicNumber | None, prior: PriorChoice | None) -> list[str]:
    """Notes of a fit: which start won, how the number and the pseudo-counts were found."""
    notes = [f"the best of {n_starts} starts was {winner}" if n_starts > 1 else f"started from {winner} topics"]
    if found is not None:
        if found.heldout:
            notes.append(
                f"{found.chosen} topics are a practical number: all {len(found.directions)} directions asked for "
                "stand out, and held-out nats per token for more and more topics are "
                + ", ".join(f"{k}: {value:.3f}" for k, value in found.heldout.items())
            )
        else:
            notes.append(
                f"{found.chosen} topics: {found.chosen - 1} directions of the word pairs hold on documents they were "
                "not found on"
            )
    if prior is not None and prior.scores:
        notes.append(
            f"pseudo-counts {prior.shares:g} per topic and {prior.words:g} per word predict documents left out best"
        )
    return notes
