"""What topics say to people: tables, notes of a fit, the arrays pyLDAvis takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.frames import long_columns
from latentfit.core.kernels import Floats
from latentfit.core.names import Names
from latentfit.topics.data.documents import Documents
from latentfit.topics.diagnostics.coherence import top_words
from latentfit.topics.em.prior import PriorChoice
from latentfit.topics.select import TopicNumber


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
        number = found.chosen if found.unlimited is None else found.unlimited
        topics = f"{number} topic{'s' if number > 1 else ''}"
        if found.heldout:
            others = [str(other) for other in found.plausible if other != number]
            notes.append(
                f"{topics} are a practical number: directions of the word pairs end late or never, and held-out "
                "nats per token for more and more topics are "
                + ", ".join(f"{k}: {value:.3f}" for k, value in found.heldout.items())
                + (f"; other documents of the kind might as well give {' or '.join(others)}" if others else "")
            )
        else:
            hold = f"{number - 1} direction{'s' if number != 2 else ''}"
            notes.append(f"{topics}: {hold} of the word pairs hold on documents they were not found on")
        if found.unlimited is not None:
            notes.append(f"max_topics={found.chosen} cut the number: {topics} would have been chosen without it")
    if prior is not None and prior.scores:
        notes.append(
            f"pseudo-counts {prior.shares:g} per topic and {prior.words:g} per word predict documents left out best"
        )
    return notes
