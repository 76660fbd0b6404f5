"""Do ordered pairs look as if their order did not matter?

Under B = Bᵀ each of the n = n_ij + n_ji counts of a pair falls to either order like a fair coin. Two sums of squares say
whether they did: pair by pair (Bowker 1948), which needs pairs seen twice, and item by item (row sum against column sum,
Stuart 1955), which sees what single counts add up to. Each term has mean 1 and variance 2 − 2/n exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from tacit.data.counts import Counts

LOPSIDED = 4.0
"""Standard deviations beyond which the order matters: one symmetric matrix in thirty thousand goes there."""


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
    matrix: Any = counts.matrix.astype(np.float64)
    diagonal = matrix.diagonal()
    totals = counts.row_sums + counts.column_sums - 2 * diagonal
    by_item = _standardised(counts.row_sums - counts.column_sums, totals)
    both: Any = sp.triu(matrix + matrix.T, k=1, format="coo")
    # a pair seen in one order only has difference n; the few seen both ways are looked up
    reversed_ = sp.triu(sp.csr_array(matrix.T).multiply(matrix > 0), k=1).tocsr() if len(both.data) else None
    other = np.zeros(len(both.data)) if reversed_ is None else np.asarray(reversed_[both.row, both.col]).reshape(-1)
    return Symmetry(_standardised(both.data - 2 * other, both.data), by_item)


def _standardised(difference: Any, total: Any) -> float:
    at = total > 1  # a total of one always gives one: it says nothing
    if not at.any():
        return 0.0
    terms = difference[at] ** 2 / total[at] - 1
    return float(terms.sum() / np.sqrt((2 - 2 / total[at]).sum()))
