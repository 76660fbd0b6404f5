"""Do ordered pairs look as if their order did not matter?

Under B = Bᵀ each of the n = n_ij + n_ji counts of a pair falls to either order like a fair coin. Two sums of squares
say whether they did: pair by pair, which needs pairs seen twice, and item by item (row sum against column sum), which
sees what single counts add up to.

Paper     Bowker 1948 (pair by pair); Stuart 1955 (item by item)
Needs     counts whose rows and columns name the same items
Promises  each term has mean 1 and variance 2 − 2/n exactly when order does not matter
Differs   sums are standardised by these, for χ² distributions do not hold where most pairs were seen once or twice; of
          very many pairs those of some items are looked at, chosen by a hash of their sums

Symbols   here         meaning
          difference   n_ij − n_ji of a pair, or row sum − column sum of an item
          total        n, their sum
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from latentfit.core.counts import Counts
from latentfit.core.kernels import Floats
from latentfit.core.sampling import numbered_apart

LOPSIDED = 4.0
"""Standard deviations beyond which the order matters: one symmetric matrix in thirty thousand goes there."""
ENOUGH = 500_000
"""Stored pairs that are looked at, about."""


@dataclass(frozen=True)
class Symmetry:
    """Standardised sums over pairs and over items."""

    by_pair: float
    by_item: float

    @property
    def holds(self) -> bool:
        return max(self.by_pair, self.by_item) < LOPSIDED


def examine_symmetry(counts: Counts) -> Symmetry:
    """Of counts whose rows and columns name the same items."""
    if counts.symmetric:
        return Symmetry(0.0, 0.0)
    matrix: Any = counts.matrix
    item_counts = counts.row_sums + counts.column_sums - 2 * matrix.diagonal()
    by_item = _standardised(counts.row_sums - counts.column_sums, item_counts)
    chosen = _some_items(counts)
    there = sp.csr_array(matrix[chosen]).astype(np.float64)
    back = sp.csr_array(matrix[:, chosen].T).astype(np.float64)
    # both orders seen: a · b and the smaller of the two give both counts
    product, least = there.multiply(back).tocoo(), there.minimum(back).tocoo()
    known = np.zeros(matrix.shape[0], bool)
    known[chosen] = True
    once = _each_pair_once(least, chosen, known)
    low, high = least.data[once], (product.data / least.data)[once]
    one_way = [part.data[_each_pair_once(part, chosen, known)] for part in (there.tocoo(), back.tocoo())]
    sums = sum(_terms(seen, seen) for seen in one_way)  # as if the other order had not been seen
    sums -= _terms(low, low) + _terms(high, high)  # those pairs were taken apart above: put together
    square, variance = sums + _terms(high - low, high + low)
    return Symmetry(float(square / np.sqrt(variance)) if variance > 0.5 else 0.0, by_item)


def _some_items(counts: Counts) -> Any:
    size, stored = counts.shape[0], counts.matrix.nnz
    if 2 * stored <= ENOUGH:
        return np.arange(size)
    hashes = numbered_apart((counts.row_sums + counts.column_sums).view(np.uint64), 0)
    keep = max(int(size * ENOUGH / (2 * stored)), 1)
    return np.sort(np.argsort(hashes, kind="stable")[:keep])


def _each_pair_once(part: Any, chosen: Any, known: Any) -> Any:
    """Not the diagonal, and of two chosen items only the pair whose first comes first."""
    rows = chosen[part.row]
    return (rows != part.col) & (~known[part.col] | (rows < part.col))


def _terms(difference: Any, total: Any) -> Floats:
    """Σ (d²/n − 1) and Σ (2 − 2/n) over n > 1; a total of one always gives one and says nothing."""
    at = total > 1
    d, n = difference[at], total[at]
    return np.array([(d**2 / n - 1).sum(), (2 - 2 / n).sum()])


def _standardised(difference: Any, total: Any) -> float:
    square, variance = _terms(difference, total)
    return float(square / np.sqrt(variance)) if variance > 0 else 0.0
