"""Documents without an answer, and documents whose topics can be found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from latentfit.topics.simulate import draw_documents, draw_topics, topic_documents

HOPELESS = (
    "one topic only", "too few words", "more topics than there are", "one word a document", "two words a document",
    "topics that hardly differ", "the same shares everywhere",
)  # fmt: skip


@dataclass(frozen=True)
class World:
    kind: str
    counts: sp.csr_array
    n_topics: int
    topics: np.ndarray


def hopeless(seed):
    """Below what can be known, kind by kind."""
    rng = np.random.default_rng([7, seed])
    kind = HOPELESS[seed % len(HOPELESS)]
    K = int(rng.integers(2, 6))
    base = {"n_documents": int(rng.integers(200, 800)), "n_words": int(rng.integers(200, 600))}
    if kind == "one topic only":
        made = topic_documents(**base, n_topics=1, length=rng.uniform(20, 80), spread=0.5, random_state=rng)
    elif kind == "too few words":
        made = topic_documents(60, 2000, K, length=4, spread=1.0, alpha=1.0, random_state=rng)
    elif kind == "more topics than there are":
        made = topic_documents(**base, n_topics=K, length=60, random_state=rng)
        return World(kind, made.counts, K + int(rng.integers(1, 4)), made.topics)
    elif kind == "one word a document":
        topics = draw_topics(K, np.full(base["n_words"], 0.1), rng)
        proportions = rng.dirichlet(np.full(K, 0.1), base["n_documents"])
        counts = draw_documents(topics, proportions, np.ones(base["n_documents"], np.int64), rng)
        return World(kind, counts, K, topics)
    elif kind == "two words a document":
        topics = draw_topics(K, np.full(base["n_words"], 0.1), rng)
        proportions = rng.dirichlet(np.full(K, 0.1), 3000)
        counts = draw_documents(topics, proportions, np.full(3000, 2), rng)
        return World(kind, counts, K, topics)
    elif kind == "topics that hardly differ":
        made = topic_documents(**base, n_topics=K, length=30, spread=300.0, random_state=rng)
    else:
        made = topic_documents(**base, n_topics=K, length=30, alpha=2000.0, random_state=rng)
    return World(kind, made.counts, K, made.topics)


def sound(seed):
    """Topics with words of their own, documents that mix them, enough of both."""
    rng = np.random.default_rng([8, seed])
    K = int(rng.integers(2, 9))
    made = topic_documents(
        int(rng.integers(800, 1500)), int(rng.integers(200, 800)), K, length=rng.uniform(50, 100),
        alpha=rng.uniform(0.05, 0.3), spread=rng.uniform(0.03, 0.15), zipf=float(rng.choice([0.0, 0.7])),
        random_state=rng,
    )  # fmt: skip
    return World("sound", made.counts, K, made.topics)
