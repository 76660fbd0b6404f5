"""Do degrees say something about blocks? When the plain model, in which they do, may be believed.

The degree-corrected model takes degrees as given and learns from who is linked with whom alone: it is never misled by
hubs. The plain model also learns from a node's number of edges, which is right only if the degrees inside a block are
those of chance (Poisson), and worth something only if blocks differ in their mean degree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from latentfit.core.kernels import Floats

SPREAD = 3.0
"""Standard errors by which degrees inside blocks may vary more than chance makes them."""
NEARLY = 2.0
"""Variance over mean below which blocks found without degrees, some nodes misplaced, may have degrees of chance."""
AGREE = 0.8
"""Share of nodes that must stay in their block when degrees join in: else degrees, not links, would make the blocks."""
DIFFER = 0.001
"""Probability below which differences of the blocks' mean degrees are no chance."""


@dataclass(frozen=True)
class DegreeTest:
    """Variance over mean of degrees inside blocks, its standard error under chance, and whether means differ."""

    dispersion: float
    error: float
    p_equal_means: float

    @property
    def worth_a_try(self) -> bool:
        """Whether blocks differ in their mean degree, and degrees inside them are not far from those of chance."""
        return self.p_equal_means < DIFFER and self.dispersion < NEARLY

    @property
    def plain(self) -> bool:
        """Whether degrees are those of chance inside blocks and differ between them."""
        return self.p_equal_means < DIFFER and self.dispersion < 1 + SPREAD * self.error


def examine_degrees(degrees: Floats, beliefs: Floats) -> DegreeTest:
    """Degrees (n,) inside and between blocks whose members are known by their beliefs (n, K)."""
    n, K = beliefs.shape
    sizes = np.maximum(beliefs.sum(axis=0), 1e-12)
    means = np.maximum(degrees @ beliefs / sizes, 1e-12)
    squares = float((beliefs * (degrees[:, None] - means) ** 2 / means).sum())
    free = max(n - K, 1)
    overall = max(float(degrees.mean()), 1e-12)
    between = float((sizes * (means - overall) ** 2 / overall).sum())
    error = float(np.sqrt((2 + 1 / overall) / free))  # of a Poisson sample's variance over its mean
    return DegreeTest(squares / free, error, float(chi2.sf(between, K - 1)) if K > 1 else 1.0)
