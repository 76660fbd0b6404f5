"""How many blocks does a graph show? One per informative eigenvalue, at the first level that stands apart.

Each informative signal of the Bethe Hessian (`communities/init.py`) is one block. Real graphs often
have levels:
two camps, and groups inside each. When a signal is `LEVEL` times stronger than the next, the blocks up to it are the
first level and are taken; `informative` says how many there are in all, for who wants the finer division.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.stats import chi2

from latentfit.communities.init import signals
from latentfit.core.kernels import Floats

FIRST_LOOK, MOST_TRIED = 12, 48
"""Signals asked for at first, and at most: doubled while all of them are informative."""
LEVEL = 2.0
"""Ratio of neighbouring strengths that parts two levels; in 354 simulated graphs without levels none exceeded 1.72."""


@dataclass(frozen=True)
class NumberOfBlocks:
    """The number chosen, the number of informative signals, and the signals themselves."""

    chosen: int
    informative: int
    radius: float  # √ of the branching
    signals: list[float]  # informative ones beyond ±1, the first is the density
    strengths: list[float]
    at_limit: bool = False  # as many signals as are looked for: there may be more
    left_out: int = 0  # blocks of those chosen to which the fit assigned no node

    def describe(self) -> str:
        if self.informative == 1:
            return "1 block: no informative Bethe-Hessian eigenvalue besides that of the graph's density"
        if self.chosen < self.informative:
            return (
                f"{self.chosen} blocks: of {self.informative} informative Bethe-Hessian eigenvalues the first "
                f"{self.chosen} stand apart from the others; n_blocks={self.informative} asks for the finer division"
            )
        more = " or more" if self.at_limit else ""
        return f"{self.informative}{more} informative Bethe-Hessian eigenvalues, so {self.chosen} blocks"


def choose_blocks(matrix: sp.csr_array) -> NumberOfBlocks:
    """The number of blocks of a graph (symmetric, no diagonal)."""
    most = min(MOST_TRIED, matrix.shape[0])
    number = min(FIRST_LOOK, most)
    while True:
        spectrum = signals(matrix, number)
        if len(spectrum.informative) < number or number >= most:
            break
        number = min(2 * number, most)
    strengths = spectrum.strengths
    informative = max(len(strengths), 1)
    apart = np.flatnonzero(strengths[1:-1] >= LEVEL * strengths[2:]) if informative > 2 else np.empty(0, np.intp)
    chosen = int(apart[0]) + 2 if len(apart) else informative
    return NumberOfBlocks(
        chosen,
        informative,
        spectrum.radius,
        [float(v) for v in spectrum.informative],
        [float(v) for v in strengths],
        at_limit=most == MOST_TRIED and len(spectrum.informative) >= MOST_TRIED,
    )


# -----------------------------------------------------------------------------
# Do degrees say something about blocks? When the plain model, in which they do, may be trusted.
#
# The degree-corrected model takes degrees as given and learns from who is linked with whom alone: it is never misled by
# hubs. The plain model also learns from a node's number of edges, which is right only if the degrees inside a block are
# those of chance (Poisson), and worth something only if blocks differ in their mean degree.

SPREAD = 3.0
"""Standard errors by which degrees inside blocks may vary more than chance makes them."""
NEARLY = 2.0
"""Variance over mean below which blocks found without degrees, some nodes misplaced, may have degrees of chance."""
AGREE = 0.8
"""Proportion of nodes that must stay in their block when degrees join in: else degrees, not links, would make the
blocks."""
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


def examine_degrees(degrees: Floats, posterior: Floats) -> DegreeTest:
    """Degrees (n,) inside and between blocks whose members are known by their posterior (n, K)."""
    n, K = posterior.shape
    sizes = np.maximum(posterior.sum(axis=0), 1e-12)
    means = np.maximum(degrees @ posterior / sizes, 1e-12)
    squares = float((posterior * (degrees[:, None] - means) ** 2 / means).sum())
    free = max(n - K, 1)
    overall = max(float(degrees.mean()), 1e-12)
    between = float((sizes * (means - overall) ** 2 / overall).sum())
    error = float(np.sqrt((2 + 1 / overall) / free))  # of a Poisson sample's variance over its mean
    return DegreeTest(squares / free, error, float(chi2.sf(between, K - 1)) if K > 1 else 1.0)
