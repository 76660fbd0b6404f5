"""Counts split at random into batches, every single count by a seeded hash of what its items say.

The hash of an item is made of its counts and those of its partners, not of its place: permuting items permutes the
batches (items that are alike in all of that are told apart by how many came before). Counts above `ONE_BY_ONE` are
split by their normal approximation, rounded; weights that are not whole likewise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtri

from latentfit.core.counts import Counts
from latentfit.core.sampling import Words, numbered_apart, scramble, uniform

ONE_BY_ONE = 64
"""Larger counts are split by the normal approximation: the binomial's skewness is below 1 % there."""


def split_counts(counts: Counts, n_parts: int, seed: int) -> list[Counts]:
    """`n_parts` batches that add up to the counts; a pair that stands in the matrix both ways stays whole."""
    matrix = counts.matrix
    keys = _pair_keys(counts, seed)
    data = matrix.data
    left, parts = data.astype(np.float64), []
    small = (data <= ONE_BY_ONE) & (data == np.floor(data))
    times = np.where(small, data, 0).astype(np.int64)
    place = np.repeat(np.arange(len(data)), times)
    number = np.arange(len(place)) - np.repeat(np.cumsum(times) - times, times)
    batch = scramble(keys[place] + number.astype(np.uint64), seed + 1) % np.uint64(n_parts)
    for part in range(n_parts - 1):
        drawn = np.bincount(place[batch == part], minlength=len(data)).astype(np.float64)
        proportion = 1 / (n_parts - part)
        even = uniform(scramble(keys, seed + 2 + part))
        size = left[~small]
        normal = size * proportion + np.sqrt(size * proportion * (1 - proportion)) * ndtri(
            np.clip(even[~small], 1e-12, 1 - 1e-12)
        )
        drawn[~small] = np.clip(np.rint(normal) if counts.whole else normal, 0, size)
        left -= drawn
        parts.append(drawn)
    parts.append(left)
    return [_with_values(counts, part) for part in parts]


def _with_values(counts: Counts, values: NDArray[np.float64]) -> Counts:
    matrix = counts.matrix
    result = sp.csr_array(
        (values.astype(matrix.dtype), matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape
    )
    result.eliminate_zeros()
    return replace(counts, matrix=result)


def _pair_keys(counts: Counts, seed: int) -> Words:
    """One hash per stored pair from the neighbourhoods of both items; the same for (i, j) and (j, i) when symmetric."""
    matrix = counts.matrix
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    cols, values = matrix.indices, matrix.data.astype(np.float64).view(np.uint64)
    left = scramble(counts.row_sums.view(np.uint64), seed)
    right = left if counts.symmetric else scramble(counts.column_sums.view(np.uint64), seed + 1)
    for turn in (2, 3):  # two looks around tell all but the most alike items apart
        of_row = _add_up(rows, scramble(right[cols] ^ values, seed + turn), len(left))
        of_column = (
            of_row if counts.symmetric else _add_up(cols, scramble(left[rows] ^ values, seed - turn), len(right))
        )
        left, right = scramble(left + of_row, seed), scramble(right + of_column, seed)
    left = numbered_apart(left, seed)  # items that are alike still fall apart
    if counts.symmetric:
        return scramble(left[rows] + left[cols], seed)
    right = numbered_apart(right, seed)
    return scramble(left[rows] + scramble(right[cols], seed + 5), seed)


def _add_up(place: NDArray[Any], words: Words, size: int) -> Words:
    """Sums of words by place, modulo 2⁶⁴: exact, in any order."""
    out = np.zeros(size, np.uint64)
    low, high = words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)
    for part, shift in ((low, 0), (high, 32)):
        # sums of 32-bit words in float64 are exact below 2²¹ of them; larger rows fold in two
        for piece, more in ((part & np.uint64(0xFFFF), 0), (part >> np.uint64(16), 16)):
            total = np.bincount(place, weights=piece.astype(np.float64), minlength=size)
            out += total.astype(np.uint64) << np.uint64(shift + more)
    return out
