"""How many switches there are and how strong the noise of each feature is, where features differ in noise.

Papers    Jöreskog 1967 (maximum likelihood factor analysis): M = L Lᵀ + Ψ with L of k columns and Ψ diagonal, by
          eigenvectors of Ψ^-½ M Ψ^-½; Kritchman & Nadler 2009 for the number, as `core/tensor/init.py`
Needs     more rows than features, and enough features that Ψ is determined: (m − k)² ≥ m + k (Ledermann)
Promises  a fixed point of the likelihood's equations; the smallest k under which no further eigenvalue of the rows,
          each feature divided by its noise, rises above what noise alone makes
Differs   M is the second moment, not the covariance: a switch that is nearly always on would vanish with the mean. A
          switch that moves one feature alone is noise of that feature here: M does not distinguish them

Symbols   here       shape   meaning
          M          (m, m)  second moment E[x ⊗ x]
          variances  (m,)    Ψ, the noise of each feature
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.tensor.init import ALPHA, SwitchCount, count_switches, threshold

STEPS, SETTLED = 300, 1e-4
"""Steps at most, and the relative change of the noise at which they end."""
LEAST = 1e-6
"""Smallest noise variance of a feature, as a fraction of its mean square (a Heywood case would be zero)."""


@dataclass(frozen=True)
class UnequalNoise:
    """The number of switches with its margins, and the noise variance of every feature (m,).

    `last` is the eigenvalue of the last switch and what noise alone makes of it, features divided by their noise beside
    one switch fewer: their noise beside all of them would make room for the last one, whether it exists or not.
    """

    count: SwitchCount
    variances: Floats
    last: tuple[float, float]


def determined(m: int, k: int) -> bool:
    """Whether m features determine the noise of each beside k factors (Ledermann's bound)."""
    return 0 < k < m and (m - k) ** 2 >= m + k


def feature_variances(M: Floats, k: int) -> Floats:
    """Noise variance (m,) of each feature beside k factors."""
    square = np.diag(M)
    if not k:
        return np.array(square)
    # what the other features leave unexplained of each is an upper bound of its noise
    found = np.clip(1 / np.diag(np.linalg.pinv(M, hermitian=True)), LEAST * square, square)
    for _ in range(STEPS):
        scale = np.sqrt(found)
        values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
        explained = found * (vectors[:, -k:] ** 2 @ np.maximum(values[-k:] - 1, 0.0))
        new = np.clip(square - explained, LEAST * square, square)
        moved = float(np.abs(new / found - 1).max())
        found = new
        if moved < SETTLED:
            break
    return np.asarray(found)


def unequal_noise(M: Floats, n: int, *, most: int, d: int | None = None) -> UnequalNoise | None:
    """The noise of every feature, and the smallest number of switches that it goes with (or d, where it is known).

    None when no number up to `most` does.
    """
    m = len(M)
    before = _scaled_values(M, feature_variances(M, 0 if d is None else d - 1))
    for k in range(1, most + 1) if d is None else (d,):
        if not determined(m, k):
            return None
        found = feature_variances(M, k)
        values = _scaled_values(M, found)
        count = count_switches(values, n, m)
        if d is not None or count.d <= k:
            last = float(before[k - 1]), threshold(before, n, m, k, ALPHA)
            margins = last[0] / max(last[1], 1e-300), count.margins[1]
            return UnequalNoise(SwitchCount(k, 1.0, False, margins), found, last)
        before = values
    return None


def _scaled_values(M: Floats, variances: Floats) -> Floats:
    """Eigenvalues, largest first, of the second moment of features divided by their noise."""
    scale = np.sqrt(variances)
    return np.asarray(np.linalg.eigvalsh(M / np.outer(scale, scale))[::-1])
