"""Documents that are nearly the same: form letters, syndicated articles, versions of one text.

Two documents are near-duplicates when their similarity Σ min(a_w, b_w) / Σ max(a_w, b_w) lies nearer to one than to
what two independent documents with these proportions would have, and the words they share, Σ min, four standard errors
above it. For two Poisson counts of mean μ = λ/2, with D = |a − b| and S = a + b: min = (S − D)/2, E D = g(λ) = λ e^{−λ}
(I₀(λ) + I₁(λ)), E D² = λ, E S² = λ + λ², and E S D = λ (g + g') with g' = e^{−λ} I₀(λ), since S is Poisson. Candidates
share minima of hashes over their words: a minimum is shared with the probability of their Jaccard similarity.

Paper     Broder 1997 (minima of hashes); Skellam 1946 (the difference of Poisson counts)
Needs     documents without exact duplicates, their proportions, the topics
Promises  a document with a near-duplicate of similarity .7 is found with a probability above .99
Differs   of many documents those with the smallest hash are looked at, which keeps near-duplicates together

Symbols   here        shape       meaning
          minima      (D, bands)  pairs of minima, as one number each
          mean        (D, M)      expected counts μ
          shared      (pairs,)    Σ min
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import i0e, i1e

from latentfit.core.kernels import Floats
from latentfit.core.sampling import Words, scramble
from latentfit.topics.data.documents import Documents


@dataclass(frozen=True)
class NearDuplicateSettings:
    """Tuned constants of the search."""

    bands: int = 8  # pairs of minima; similar documents share at least one
    fewest_tokens: int = 20  # shorter documents are alike by chance
    most_documents: int = 2_000  # of more, those with the smallest hash are looked at
    similar: float = 0.5  # similarity below which two documents are never near-duplicates
    errors: float = 4.0  # standard errors by which they share more words than independent documents: one pair in 30,000


NEAR_DUPLICATES = NearDuplicateSettings()


def near_duplicate_proportion(documents: Documents, topics: Floats, proportions: Floats) -> tuple[float, int]:
    """Proportion of the documents looked at that have a near-duplicate, and how many were looked at."""
    long = np.flatnonzero(documents.lengths >= NEAR_DUPLICATES.fewest_tokens)
    if len(long) < 2:
        return 0.0, len(long)
    minima = _minima(documents.take(long), 2 * NEAR_DUPLICATES.bands)
    if len(long) > NEAR_DUPLICATES.most_documents:
        chosen = np.sort(np.argsort(minima[:, 0], kind="stable")[: NEAR_DUPLICATES.most_documents])
        long, minima = long[chosen], minima[chosen]
    looked_at = documents.take(long)
    one, other = _candidates(minima)
    shared = _shared(looked_at, one, other)
    similarity = shared / (looked_at.lengths[one] + looked_at.lengths[other] - shared)
    alike = similarity >= NEAR_DUPLICATES.similar
    one, other, shared, similarity = one[alike], other[alike], shared[alike], similarity[alike]
    near = np.zeros(len(long), bool)
    concerned, place = np.unique(np.concatenate([one, other]), return_inverse=True)
    mean = looked_at.lengths[concerned, None] * (proportions[long[concerned]] @ topics)
    expected, error = _expected_shared(mean)
    least = expected / np.maximum(2 * mean.sum(axis=1) - expected, 1e-300)  # similarity of independent documents
    for first, at in ((one, place[: len(one)]), (other, place[len(one) :])):
        closer = similarity >= (1 + least[at]) / 2
        near[first[closer & (shared >= expected[at] + NEAR_DUPLICATES.errors * error[at])]] = True
    return float(near.mean()), len(long)


def _minima(documents: Documents, number: int) -> Words:
    """Smallest hash (D, number) over the words of every document."""
    indices, starts = documents.matrix.indices, documents.matrix.indptr[:-1]
    return np.column_stack(
        [np.minimum.reduceat(scramble(documents.word_keys, 101 + at)[indices], starts) for at in range(number)]
    )


def _candidates(minima: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of documents that share two minima of a band: neighbours in the order of the band's number."""
    pairs = []
    for band in range(minima.shape[1] // 2):
        key = scramble(minima[:, 2 * band] ^ scramble(minima[:, 2 * band + 1], 1), 2)
        order = np.argsort(key, kind="stable")
        same = np.flatnonzero(key[order[1:]] == key[order[:-1]])
        pairs.append(np.column_stack([order[same], order[same + 1]]))
    unique = np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)
    return unique[:, 0], unique[:, 1]


def _shared(documents: Documents, one: NDArray[np.intp], other: NDArray[np.intp]) -> Floats:
    """Σ min of the counts of pairs of documents."""
    if not len(one):
        return np.zeros(0)
    smaller = documents.matrix[one].minimum(documents.matrix[other])
    return np.asarray(smaller.sum(axis=1), np.float64).reshape(-1)


def _expected_shared(mean: Floats) -> tuple[Floats, Floats]:
    """The same for two independent documents with expected counts (D, M): its mean and standard error (D,)."""
    total = 2 * mean
    slope = i0e(total)
    difference = total * (slope + i1e(total))
    least = mean - difference / 2
    square = (2 * total + total**2 - 2 * total * (difference + slope)) / 4  # E min²
    return least.sum(axis=1), np.sqrt(np.maximum((square - least**2).sum(axis=1), 0.0))
