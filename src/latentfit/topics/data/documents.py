"""`Documents`: counts (document, word) as a model of topics walks them, halves of them, and their content as hashes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import binom

from latentfit.core.kernels import Floats
from latentfit.core.kernels.topics import WordLists
from latentfit.core.names import Names
from latentfit.core.sampling import Words, numbered_apart, scramble, uniform

LEAST_COPY = 5
"""Tokens from which two equal documents are duplicates."""


@dataclass(frozen=True)
class Documents:
    """How often each word occurs in each document; counts may be fractional, then they are weights."""

    matrix: sp.csr_array  # (D, M) float64, no stored zeros, sorted indices
    names: Names  # (D,)
    words: Names  # (M,)

    @property
    def n_documents(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_words(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def lengths(self) -> Floats:
        """Counts (D,) of each document."""
        return np.asarray(self.matrix.sum(axis=1), np.float64).reshape(-1)

    @cached_property
    def totals(self) -> Floats:
        """Counts (M,) of each word."""
        return np.asarray(self.matrix.sum(axis=0), np.float64).reshape(-1)

    @cached_property
    def total(self) -> float:
        return float(self.matrix.data.sum())

    @cached_property
    def lists(self) -> WordLists:
        """The cells by document and by word, as kernels take them."""
        matrix = self.matrix
        order = np.argsort(matrix.indices, kind="stable")
        word_offsets = np.concatenate([[0], np.cumsum(np.bincount(matrix.indices, minlength=self.n_words))])
        owner = np.repeat(np.arange(self.n_documents, dtype=np.int32), np.diff(matrix.indptr))
        return WordLists(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64),
            word_offsets.astype(np.int64), owner[order], order.astype(np.int64),
        )  # fmt: skip

    def take(self, documents: NDArray[np.intp] | NDArray[np.bool_]) -> Documents:
        """Some documents, over the same words."""
        return Documents(sp.csr_array(self.matrix[documents]), self.names[documents], self.words)

    # -------------------------------------------------------------- draws that permutations carry along

    @cached_property
    def word_keys(self) -> Words:
        """One number per word from its name."""
        return np.array([zlib.crc32(str(word).encode()) for word in self.words.tolist()], np.uint64)

    @cached_property
    def content(self) -> Words:
        """What each document says, as one number; equal documents have equal ones."""
        cells = scramble(scramble(self.word_keys, 0)[self.matrix.indices] ^ self.matrix.data.view(np.uint64), 0)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(cells, dtype=np.uint64)])
        return np.asarray(sums[self.matrix.indptr[1:]] - sums[self.matrix.indptr[:-1]])  # wraps around, exactly

    @cached_property
    def duplicates(self) -> NDArray[np.bool_]:
        """Documents (D,) that repeat an earlier one word for word; short ones may be alike by chance, and do not count.

        Earlier is by content alone: of equal documents it makes no difference which one stays.
        """
        _, first = np.unique(self.content, return_index=True)
        repeated = np.ones(self.n_documents, bool)
        repeated[first] = False
        return repeated & (self.lengths >= LEAST_COPY)

    def distinct(self) -> Documents:
        """Without duplicates: what tests and samples of documents may count."""
        return self.take(~self.duplicates) if self.duplicates.any() else self

    def hashes(self, seed: int) -> Words:
        """One number per document, equal documents numbered apart."""
        return numbered_apart(self.content, seed)

    def every_other(self, seed: int) -> NDArray[np.bool_]:
        """Half of the documents (D,): every other one in the order of their hashes."""
        half = np.zeros(self.n_documents, bool)
        half[np.argsort(self.hashes(seed), kind="stable")[::2]] = True
        return half

    def split(self, proportion: float, seed: int) -> tuple[Documents, Documents]:
        """Each token goes to the first part with probability `proportion`, on its own: two independent views of every
        document.

        The rest of a fractional count goes to one of the two whole. What a document says decides alone, so equal ones
        are split alike, and a document has the same parts in every company.
        """
        matrix = self.matrix
        owner = np.repeat(scramble(self.content, seed), np.diff(matrix.indptr))
        keys = scramble(owner ^ scramble(self.word_keys, seed)[matrix.indices], seed + 1)
        uniforms = uniform(keys)
        tokens = np.floor(matrix.data)
        first = np.where(uniforms < proportion, tokens, 0.0)
        many = tokens > 1
        first[many] = binom.ppf(uniforms[many], tokens[many], proportion).clip(0, tokens[many])
        rest = matrix.data - tokens
        if rest.any():
            again = uniform(scramble(keys, seed + 2))
            first += np.where(again < proportion, rest, 0.0)
        return self._with(first), self._with(matrix.data - first)

    def _with(self, data: Floats) -> Documents:
        part = sp.csr_array((data, self.matrix.indices, self.matrix.indptr), shape=self.matrix.shape, copy=True)
        part.eliminate_zeros()
        return replace(self, matrix=part)
