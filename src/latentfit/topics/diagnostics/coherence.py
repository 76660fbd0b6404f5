"""NPMI coherence: do the top words of a topic occur in the same documents?

    NPMI(i, j) = log(P_ij / (P_i P_j)) / −log P_ij,   P the proportion of documents that hold the word, or both words

averaged over the pairs of a topic's top words; −1 for two words that never meet, 1 for words that only occur together.

Paper     Bouma 2009
Needs     documents, the fitted ones or others
Promises  a number from −1 to 1; NaN where a topic has no pair to ask
Differs   whole documents in place of sliding windows; a word that no document holds makes no pair

Symbols   here      shape     meaning
          topics    (K, M)    probabilities of words
          n_words   —         top words of a topic
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.topics.data.documents import Documents


def npmi_coherence(documents: Documents, topics: Floats, n_words: int = 10) -> Floats:
    """Coherence (K,) of topics (K, M) by their `n_words` top words; NaN where a topic has no pair to ask."""
    shown = documents.matrix.tocsc(copy=True)
    shown.data[:] = 1.0
    return np.array([_mean_npmi(shown[:, top].toarray()) for top in top_words(topics, n_words)])


def top_words(topics: Floats, n_words: int) -> NDArray[np.intp]:
    """Indices (K, n) of the most probable words of topics (K, M), of equals the earlier."""
    return np.argsort(-topics, axis=1, kind="stable")[:, :n_words]


def _mean_npmi(shown: Floats) -> float:
    n = len(shown)
    joint = shown.T @ shown / n
    single = np.diag(joint)
    upper = np.triu(np.ones(joint.shape, bool), 1) & (single[:, None] > 0) & (single > 0)
    if not upper.any():
        return float("nan")
    both, product = joint[upper], np.outer(single, single)[upper]
    meet = (both > 0) & (both < 1)
    values = np.where(both > 0, 1.0, -1.0)  # words in every document: together always
    values[meet] = np.log(both[meet] / product[meet]) / -np.log(both[meet])
    return float(values.mean())
