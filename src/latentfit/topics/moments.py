"""Pairs of different tokens of a document: exact counts, and the matrix as a product that is never formed.

A document with counts n has n nᵀ − diag(n) ordered pairs of different tokens: a token makes no pair with itself, so the
diagonal counts n_i (n_i − 1) and not n_i². Summed over documents this is `pair_counts`, whole numbers for whole counts.

For the spectrum each document is weighted by 1 / (N_d − 1): every token then has one partner's worth of pairs, long
documents do not drown the short ones, and the marginals are the word counts themselves. C v = Xᵀ(s ∘ (X v)) − diag · v
costs two passes over the cells, where C itself would have up to M² of them. Documents of one token have no pair.

Paper     Huang, Kakade, Kong & Valiant 2018: the bigrams of Definition 1.2, from documents of any length
Needs     documents of two tokens at least
Promises  unbiased: pairs have the distribution D W Dᵀ, W the mean of θθᵀ over documents (weighted by their tokens) with
          proportions θ
Differs   their documents are one pair each; here every pair of different tokens counts, 1/(N_d − 1) of it

Symbols   paper   here      shape    meaning
          B_N     C         (M, M)   word pairs, never formed
          —       matrix    (D, M)   X, counts of words in documents
          —       scale     (D,)     s, 1/(N_d − 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from latentfit.core.counts import Counts
from latentfit.core.kernels import Floats
from latentfit.topics.data.documents import Documents


@dataclass(frozen=True)
class WordPairs:
    """Weighted word pairs C = Σ_d (n_d n_dᵀ − diag n_d) / (N_d − 1) of documents with more than one token."""

    matrix: sp.csr_array  # X (D, M)
    scale: Floats  # (D,) 1 / (N_d − 1), 0 where there is no pair

    @staticmethod
    def of(documents: Documents) -> WordPairs:
        lengths = documents.lengths
        return WordPairs(documents.matrix, np.where(lengths >= 2, 1 / np.maximum(lengths - 1, 1.0), 0.0))

    @cached_property
    def turned(self) -> sp.csr_array:
        return sp.csr_array(self.matrix.T)

    @cached_property
    def diagonal(self) -> Floats:
        """What the tokens' pairs with themselves would add, (M,)."""
        return np.asarray(self.turned @ self.scale)

    @cached_property
    def row_sums(self) -> Floats:
        """C 1 (M,): the counts of words in documents with more than one token."""
        return self.product(np.ones(self.matrix.shape[1]))

    @property
    def total(self) -> float:
        return float(self.row_sums.sum())

    def product(self, vectors: Floats) -> Floats:
        """C v for one vector (M,) or several (M, k)."""
        through = self.matrix @ vectors
        if vectors.ndim == 1:
            return np.asarray(self.turned @ (self.scale * through) - self.diagonal * vectors)
        return np.asarray(self.turned @ (self.scale[:, None] * through) - self.diagonal[:, None] * vectors)

    def forms(self, vectors: Floats) -> Floats:
        """vᵀ C_d v of every document (D, k) for the columns of `vectors` (M, k)."""
        return np.asarray(((self.matrix @ vectors) ** 2 - self.matrix @ vectors**2) * self.scale[:, None])


def pair_counts(documents: Documents) -> Counts:
    """How often two different tokens of one document are words i and j, every pair both ways; int64 for whole counts.

    For models of pairs (`PairMatrix`); its size is the number of different pairs, up to M².
    """
    X: Any = documents.matrix
    integral = bool((X.data == np.floor(X.data)).all())
    X = X.astype(np.int64) if integral else X
    pairs: Any = sp.csr_array(X.T @ X)
    pairs.setdiag(pairs.diagonal() - np.asarray(X.sum(axis=0)).reshape(-1))
    if not integral:  # n (n − 1) of a count below one is no pair
        pairs.data = np.maximum(pairs.data, 0.0)
    pairs.eliminate_zeros()
    pairs.sort_indices()
    return Counts(pairs, documents.words, documents.words, True)
