"""Frequencies and weights of a clustering, with intervals.

After an ε-correct clustering every entry of P and w is known up to ε + O(n^-1/2). The second part is Wilson's score
interval of the observed share; the first widens it by `epsilon`, since a share of at most ε of the rows comes from
elsewhere. Gaps are left out of the column they are in.

Paper     Najafi, Motahari & Rabiee 2020, Section 3, after Theorem 3.1
Needs     labels of an ε-correct clustering, ε
Promises  the paper's ε + O(n^-1/2) entry by entry, at the given level
Differs   Wilson's interval in place of Chernoff's bound

Symbols   paper   here          shape    meaning
          w       weights       (κ,)
          P       frequencies   (κ, L)
          ε       epsilon       —
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.table import Table
from tacit.diagnose.intervals import standard_errors_of, wilson
from tacit.kernels import Floats


@dataclass(frozen=True)
class ClusterParameters:
    """Weights (κ,) and frequencies (κ, L) with their lower and upper ends; NaN where a cluster shows no value."""

    weights: Floats
    weights_low: Floats
    weights_high: Floats
    frequencies: Floats
    low: Floats
    high: Floats


def parameters_of(
    table: Table, labels: NDArray[np.integer], *, level: float = 0.95, epsilon: float = 0.0
) -> ClusterParameters:
    """P and w of the clusters that `labels` (n_rows,) names 0, 1, …; rows count with their weights."""
    mine = np.asarray(labels)[:, None] == np.arange(int(np.max(labels)) + 1)
    member = table.each_weight()[:, None] * mine  # (n, κ)
    shown = member.T @ table.present.astype(np.float64)
    ones = member.T @ np.where(table.present, table.codes, 0).astype(np.float64)
    sizes = member.sum(axis=0)
    z = standard_errors_of(level)
    share = sizes / sizes.sum()
    seen = np.where(shown > 0, shown, np.nan)
    weights_low, weights_high = _widened(share, np.full_like(share, sizes.sum()), z, epsilon)
    low, high = _widened(ones / seen, seen, z, epsilon)
    return ClusterParameters(share, weights_low, weights_high, ones / seen, low, high)


def _widened(share: Floats, n: Floats, z: float, epsilon: float) -> tuple[Floats, Floats]:
    low, high = wilson(share, n, z)
    return np.maximum(low - epsilon, 0.0), np.minimum(high + epsilon, 1.0)
