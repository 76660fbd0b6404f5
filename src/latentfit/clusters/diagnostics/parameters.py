"""Frequencies and weights of a clustering, with intervals.

The paper says that after an ε-correct clustering every entry of P and w is known up to ε + O(n^-1/2). That is not so:
purity bounds the strangers in a cluster, not what the class has lost. A small class may lose a *selected* part of its
rows to a large cluster, which stays ε-pure: 80 rows that say yes, say, among 800 others at ε = .1. So the interval here
is the widest that an ε-correct clustering allows when every class has one cluster: up to εm of a cluster's m rows are
strangers, up to ε(n − m) of its class are in other clusters, and both may be all ones or all zeros. Wilson's score
interval of the observed share is moved outwards by that. Gaps are left out of the column they are in.

Paper     Najafi, Motahari & Rabiee 2020, Section 3, after Theorem 3.1
Needs     labels of an ε-correct clustering with one cluster per class, ε
Promises  whatever rows were misplaced, the range of shares that is possible, and sampling error at the given level
Differs   lost rows are counted (see above); Wilson's interval in place of Chernoff's bound

Symbols   paper   here          shape    meaning
          w       weights       (κ,)
          P       frequencies   (κ, L)
          ε       epsilon       —
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.intervals import standard_errors_of, wilson
from latentfit.core.kernels import Floats
from latentfit.core.table.table import Table


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
    strangers, lost = epsilon * sizes, epsilon * (sizes.sum() - sizes)
    weights_low, weights_high = _moved(
        share, np.full_like(share, sizes.sum()), z, (sizes - strangers) / sizes.sum(), (sizes + lost) / sizes.sum()
    )
    gone, others = np.minimum(strangers[:, None], ones), np.minimum(lost[:, None], shown.sum(axis=0) - shown)
    zeros_gone = np.minimum(strangers[:, None], shown - ones)
    least = (ones - gone) / np.maximum(seen - gone + others, 1e-300)
    most = (ones + others) / np.maximum(seen - zeros_gone + others, 1e-300)
    low, high = _moved(ones / seen, seen, z, least, most)
    return ClusterParameters(share, weights_low, weights_high, ones / seen, low, high)


def _moved(share: Floats, n: Floats, z: float, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval, its ends moved as far as the share itself may lie off: between `least` and `most`."""
    low, high = wilson(share, n, z)
    return np.maximum(low - (share - least), 0.0), np.minimum(high + (most - share), 1.0)
