"""How many switches there are and how strong the noise is, from the eigenvalues of the second moment.

Paper     Kritchman & Nadler, "Non-parametric detection of the number of signals: hypothesis testing and random matrix
          theory" (IEEE Trans. Signal Processing 2009), as step 1 of Algorithm 1 of the tensor eigenpair paper asks
Needs     more features than switches, noise of one variance in all features
Promises  an eigenvalue of pure noise is seldom taken for a switch: `ALPHA` is the level where the noise is known; the
          estimate leaves the eigenvalue under test out of the noise, which makes 2 to 6 % of 8 to 20 features
Differs   moments are not centred: a switch that is nearly always on would vanish with the mean. Without any noise the
          rank is counted instead, as Algorithm 2 does.

Symbols   ℓ_j eigenvalues, largest first; ρ_j what ℓ_j would be without noise's pull; p = m features, k signals
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.kernels import Floats

TRACY_WIDOM = {0.001: 3.2724, 0.005: 2.4224, 0.01: 2.0234, 0.05: 0.9793}
"""Upper quantiles of the Tracy–Widom law for real data, by level."""
ALPHA = 0.005
"""Level of the test that counts switches."""
NOISE_FREE = 1e-12
"""Eigenvalues below this share of the largest are rounding: such data has no noise, and a rank instead."""
SELF_CONSISTENT_STEPS = 50
"""Steps of the noise estimate; it settles in about five."""


@dataclass(frozen=True)
class SwitchCount:
    """d, σ², whether there is no noise at all, and by how much the last signal passes and the next fails its test."""

    d: int
    sigma2: float
    noise_free: bool
    margins: tuple[float, float]


def count_switches(
    values: Floats, n: int, m: int, *, most: int | None = None, sigma2: float | None = None
) -> SwitchCount:
    """The number of eigenvalues (largest first) that noise cannot explain, at least one; `most` caps it.

    `sigma2` is σ² where it is known.
    """
    rank = numerical_rank(values)
    limit = max(min(len(values) - 1, n - 1, m - 1), 1)
    if rank <= limit and rank < min(n, m):
        d = max(min(rank, most or rank), 1)
        return SwitchCount(d, 0.0, True, (np.inf, 0.0))
    bars = [threshold(values, n, m, k, ALPHA, sigma2) for k in range(1, limit + 1)]
    ratios = [value / bar if bar else np.inf for value, bar in zip(values, bars, strict=False)]  # 0: nothing is left
    passed = next((k for k, ratio in enumerate(ratios) if ratio <= 1), limit)
    d = max(min(passed, most or passed), 1)
    after = ratios[d] if d < len(ratios) else 0.0
    noise = noise_variance(values, n, m, d) if sigma2 is None else sigma2
    return SwitchCount(d, noise, False, (float(ratios[d - 1]), float(after)))


def numerical_rank(values: Floats) -> int:
    """Eigenvalues above rounding."""
    return int((values > NOISE_FREE * max(values[0], np.finfo(float).tiny)).sum())


def threshold(values: Floats, n: int, m: int, k: int, alpha: float, sigma2: float | None = None) -> float:
    """What the k-th eigenvalue must pass: the largest of p − k noise eigenvalues stays below it (σ² if it is known)."""
    root_n, root_p = np.sqrt(n - 0.5), np.sqrt(max(m - k, 1) - 0.5)
    centre = (root_n + root_p) ** 2 / n
    spread = np.sqrt(centre / n) * (1 / root_n + 1 / root_p) ** (1 / 3)
    noise = noise_variance(values, n, m, k) if sigma2 is None else sigma2
    return float(noise * (centre + TRACY_WIDOM[alpha] * spread))


def noise_variance(values: Floats, n: int, m: int, k: int) -> float:
    """σ² given k signals, freed of the pull between signal and noise eigenvalues; 0 when no feature is left for it."""
    if k >= m or k >= len(values):
        return 0.0
    rest, signals = float(values[k:].sum()), values[:k]
    sigma2 = rest / (m - k)
    for _ in range(SELF_CONSISTENT_STEPS):
        b = signals + sigma2 - sigma2 * (m - k) / n
        root = b**2 - 4 * signals * sigma2
        rho = np.where(root >= 0, (b + np.sqrt(np.maximum(root, 0))) / 2, signals)  # buried: taken as it is
        new = (rest + float((signals - rho).sum())) / (m - k)
        if abs(new - sigma2) <= 1e-12 * sigma2:
            break
        sigma2 = new
    return float(max(sigma2, 0.0))
