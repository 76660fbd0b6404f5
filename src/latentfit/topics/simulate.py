"""Documents drawn from topics, with their truth: mixed membership (LDA), and one topic each.

The latter are Definition 1.2 of Huang, Kakade, Kong & Valiant 2018 for any number of topics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats

__all__ = ["TopicDocuments", "topic_documents"]

Seed = int | np.random.Generator | None


@dataclass(frozen=True)
class TopicDocuments:
    """Simulated documents with known topics.

    Attributes
    ----------
    counts : sparse array of shape (n_documents, n_words)
        How often each word occurs in each document.
    topics : ndarray of shape (n_topics, n_words)
        Probabilities of the words given the topic.
    proportions : ndarray of shape (n_documents, n_topics)
        Proportions of the topics in each document.

    Examples
    --------
    >>> from latentfit.simulate import topic_documents
    >>> data = topic_documents(30, 40, 2, random_state=0)
    >>> bool(abs(data.proportions.sum(axis=1) - 1).max() < 1e-12)
    True
    """

    counts: sp.csr_array  # (D, M) int64
    topics: Floats  # (K, M)
    proportions: Floats  # (D, K)


def topic_documents(
    n_documents: int = 1000,
    n_words: int = 500,
    n_topics: int = 5,
    *,
    length: float = 80,
    alpha: float = 0.1,
    spread: float = 0.1,
    zipf: float = 0.0,
    weights: Floats | None = None,
    one_topic: bool = False,
    random_state: Seed = None,
) -> TopicDocuments:
    """Simulate documents from a random topic model.

    Parameters
    ----------
    n_documents, n_words, n_topics : int, default 1000, 500, 5
        Numbers of documents, words and topics.
    length : float, default 80
        Mean of the Poisson distribution of document lengths; every document has at least two words.
    alpha : float, default 0.1
        The proportions of a document are Dirichlet(`alpha` · n_topics · `weights`).
    spread : float, default 0.1
        Topics are Dirichlet(`spread` · n_words · base): the smaller, the fewer words a topic uses.
    zipf : float, default 0.0
        The base falls like rank^-`zipf`; 0 is even.
    weights : ndarray of shape (n_topics,) or None, default None
        Relative weights of the topics; None is even.
    one_topic : bool, default False
        Whether every document has one topic.
    random_state : int, numpy.random.Generator or None, default None
        Seed; None draws a new model in every call.

    Returns
    -------
    TopicDocuments
        Counts, topics and proportions.

    Examples
    --------
    >>> from latentfit.simulate import topic_documents
    >>> data = topic_documents(100, 50, 3, random_state=0)
    >>> data.counts.shape, data.topics.shape, data.proportions.shape
    ((100, 50), (3, 50), (100, 3))
    """
    if min(n_documents, n_words, n_topics) < 1 or not (length > 0 and alpha > 0 and spread > 0):
        raise DataError(
            "n_documents, n_words and n_topics must be >= 1, and length, alpha and spread > 0, got "
            f"n_documents={n_documents}, n_words={n_words}, n_topics={n_topics}, length={length}, alpha={alpha}, "
            f"spread={spread}"
        )
    rng = np.random.default_rng(random_state)
    base = (1.0 + np.arange(n_words)) ** -zipf
    topics = draw_topics(n_topics, spread * n_words * base / base.sum(), rng)
    even = np.full(n_topics, 1 / n_topics) if weights is None else np.asarray(weights, np.float64)
    if one_topic:
        proportions = np.eye(n_topics)[rng.choice(n_topics, n_documents, p=even / even.sum())]
    else:
        proportions = rng.dirichlet(alpha * n_topics * even / even.sum(), n_documents)
    lengths = np.maximum(rng.poisson(length, n_documents), 2)
    return TopicDocuments(draw_documents(topics, proportions, lengths, rng), topics, proportions)


def draw_topics(n_topics: int, concentration: Floats, rng: np.random.Generator) -> Floats:
    """Topics (K, M) from one Dirichlet; drawn by their logarithms where gammas would be zero."""
    small = concentration < 1
    boosted = np.log(rng.gamma(concentration + small, size=(n_topics, len(concentration))))
    logs = boosted + np.where(small, np.log(rng.random((n_topics, len(concentration)))) / concentration, 0.0)
    topics = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(topics / topics.sum(axis=1, keepdims=True))


def draw_documents(
    topics: Floats, proportions: Floats, lengths: NDArray[np.int64], rng: np.random.Generator
) -> sp.csr_array:
    """Counts (D, M): every token draws its topic by the document's proportions, then its word by the topic."""
    n_topics, n_words = topics.shape
    document = np.repeat(np.arange(len(proportions)), lengths)
    edges = np.cumsum(proportions, axis=1)
    topic = np.minimum((rng.random(len(document))[:, None] > edges[document]).sum(axis=1), n_topics - 1)
    word = np.empty(len(document), np.int64)
    for k in range(n_topics):
        mine = topic == k
        word[mine] = np.minimum(np.searchsorted(np.cumsum(topics[k]), rng.random(int(mine.sum()))), n_words - 1)
    ones = np.ones(len(document), np.int64)
    counts = sp.csr_array(sp.coo_array((ones, (document, word)), shape=(len(proportions), n_words)))
    counts.sum_duplicates()
    counts.sort_indices()
    return counts
