"""How many switches there are where values are missing, from the observed cells alone.

Completed rows do not show it: cells drawn from a model of r switches dilute the (r+1)-th eigenvalue. Here the test is
the score of the likelihood of the observed cells: with a zero-mean Gaussian model of r factors, Σ = LLᵀ + σ²I fitted to
them, s = Σ_oo⁻¹ x_o of every row has the covariance P = Σ_oo⁻¹ unless there is a further factor. Along directions
orthogonal to L the eigenvalues of Σ_i s sᵀ relative to Σ_i P take the place of the sample eigenvalues beyond the r-th.

Paper     Kritchman & Nadler 2009 (the test, see `core/tensor/whitened.py`); Tipping & Bishop 1999 (the model)
Needs     values missing at random, noise of one variance in all features, features ≤ `MOST_TESTED`
Promises  on complete rows the eigenvalues of `n_switches` over σ²
Differs   the number of rows in the threshold is the one that gives a Wishart matrix the same mean squared deviation

Symbols   paper   here      shape     meaning
          ℓ_j     values    (m,)      eigenvalues over σ², those of the r factors first
          n       n         —         rows that complete data would need for the same deviation
          —       B         (m, m)    Σ_i P
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.matrix import hash_rows
from latentfit.core.tensor.whitened import ALPHA, SwitchCount, count_switches, ratio_threshold, threshold
from latentfit.factors.init import BLOCK, FIT_ROWS, GaussianRows, fit_gaussian_rows, latent_rows

MOST_TESTED = 300
"""Features up to which the score is tested: its cost grows with their third power."""
NOISE_FREE = 1e-10
"""Fraction of the mean square below which what the factors leave is rounding, and no noise to test against."""
OBSERVED_ALPHA = 0.05
"""Level of the test, noise estimated with the eigenvalue under test, that the last switch passes again."""
DEVIATION_ROWS = 400
"""Rows that the equivalent number of rows is estimated from."""


@dataclass(frozen=True)
class ObservedValues:
    """Eigenvalues (m,) over σ² given `rank` factors, and the number of complete rows that they are worth."""

    rank: int
    values: Floats
    n: float
    sigma2: float

    def compared(self, alpha: float, noise: float | None = None, *, as_noise: bool = False) -> tuple[float, float]:
        """The eigenvalue beyond the factors, and what noise alone makes at this level; σ may be known.

        `as_noise`: σ² is estimated with this eigenvalue, too, as if it were noise (`ratio_threshold`).
        """
        size = max(int(self.n), 2), len(self.values), self.rank + 1, alpha
        if noise is None and as_noise:
            bar = ratio_threshold(self.values, *size)
        else:
            bar = threshold(self.values, *size, None if noise is None else noise**2 / self.sigma2)
        return float(self.values[self.rank] * self.sigma2), bar * self.sigma2

    def ratio(self, alpha: float, noise: float | None = None, *, as_noise: bool = False) -> float:
        """The one over the other."""
        value, bar = self.compared(alpha, noise, as_noise=as_noise)
        return value / max(bar, 1e-300)


def observed_values(values: Floats, rank: int, seed: int) -> ObservedValues:
    """The test's eigenvalues for rows (n, m), NaN where a value is missing."""
    hashes = hash_rows(values, seed)
    order = np.argsort(hashes, kind="stable")
    some = np.sort(order[:FIT_ROWS])
    rows = values[some]
    model = fit_gaussian_rows(rows, rank, with_mean=False)
    m, L, sigma2 = values.shape[1], model.loadings, model.sigma2
    left, spread, _ = np.linalg.svd(L, full_matrices=True)
    rest = left[:, rank:]
    B, scores = np.zeros((m, m)), np.empty((len(rows), m - rank))
    for begin in range(0, len(rows), BLOCK):
        block = rows[begin : begin + BLOCK]
        observed = (~np.isnan(block)).astype(np.float64)
        x = np.where(np.isnan(block), 0.0, block)
        z, inverse = latent_rows(x, observed, model)
        scores[begin : begin + BLOCK] = (x - observed * (z @ L.T)) @ rest / sigma2
        B += observed_precision(observed, model, inverse)
    half = _root(rest.T @ B @ rest)
    further = np.linalg.eigvalsh(half @ scores.T @ scores @ half)[::-1]
    few = values[np.sort(order[:DEVIATION_ROWS])]
    q, deviation = m - rank, len(rows) * _deviation(few, model, rest @ half)
    return ObservedValues(rank, np.concatenate([spread**2 / sigma2 + 1, further]), (q * q + q) / deviation, sigma2)


def observed_precision(observed: Floats, model: GaussianRows, inverse: Floats) -> Floats:
    """Σ_i P (m, m) of a block: P = (I − L M⁻¹ Lᵀ)/σ² over the observed features, 0 elsewhere."""
    L, rank = model.loadings, model.loadings.shape[1]
    total = np.diag(observed.sum(axis=0))
    for a in range(rank):
        for b in range(a, rank):
            both = (observed * inverse[:, a, b, None]).T @ observed * np.outer(L[:, a], L[:, b])
            total -= both if a == b else both + both.T
    return np.asarray(total / model.sigma2)


def _deviation(rows: Floats, model: GaussianRows, basis: Floats) -> float:
    """Mean over rows of tr(Q)² + tr(Q²), Q = basisᵀ P basis: the mean square by which s sᵀ deviates in this basis."""
    observed = (~np.isnan(rows)).astype(np.float64)
    _, inverse = latent_rows(np.zeros_like(rows), observed, model)
    total = 0.0
    for mask, M_inverse in zip(observed, inverse, strict=True):
        masked, L = basis * mask[:, None], model.loadings
        through = masked.T @ L
        Q = (masked.T @ masked - through @ M_inverse @ through.T) / model.sigma2
        total += float(np.trace(Q)) ** 2 + float((Q * Q).sum())
    return total / max(len(rows), 1)


def _root(B: Floats) -> Floats:
    """B^-½."""
    values, vectors = np.linalg.eigh(B)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300))) @ vectors.T)


def count_observed_switches(values: Floats, most: int, noise: float | None, seed: int) -> SwitchCount:
    """The number of factors after which no further eigenvalue rises above the noise, at least one."""
    limit = min(values.shape[1] - 1, len(values) - 1, most)
    square = float(np.nanmean(values**2))
    last = observed_values(values, 0, seed) if limit else None
    before = last.ratio(ALPHA, noise) if last is not None else np.inf
    for rank in range(1, limit):
        observed = observed_values(values, rank, seed)
        if observed.sigma2 <= NOISE_FREE * square:
            return SwitchCount(rank, 0.0, True, (np.inf, 0.0))
        ratio = observed.ratio(ALPHA, noise)
        if ratio <= 1:
            if rank > 1 and last is not None and last.ratio(OBSERVED_ALPHA, noise, as_noise=True) <= 1:
                return SwitchCount(rank - 1, last.sigma2, False, (np.inf, before))
            return SwitchCount(rank, observed.sigma2, False, (before, ratio))
        last, before = observed, ratio
    return SwitchCount(max(limit, 1), 0.0, False, (before, 0.0))


# -----------------------------------------------------------------------------
# How many switches there are and how strong the noise of each feature is, where features differ in noise.
#
# Papers    Jöreskog 1967 (maximum likelihood factor analysis): M = L Lᵀ + Ψ with L of k columns and Ψ diagonal, by
#           eigenvectors of Ψ^-½ M Ψ^-½; Kritchman & Nadler 2009 for the number, as `core/tensor/whitened.py`
# Needs     more rows than features, and enough features that Ψ is determined: (m − k)² ≥ m + k (Ledermann)
# Promises  a fixed point of the likelihood's equations; the smallest k under which no further eigenvalue of the rows,
#           each feature divided by its noise, rises above what noise alone makes
# Differs   M is the second moment, not the covariance: a switch that is nearly always on would vanish with the mean. A
#           switch that moves one feature alone is noise of that feature here: M does not distinguish them
#
# Symbols   here       shape   meaning
#           M          (m, m)  second moment E[x ⊗ x]
#           variances  (m,)    Ψ, the noise of each feature

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
    variances = np.clip(1 / np.diag(np.linalg.pinv(M, hermitian=True)), LEAST * square, square)
    for _ in range(STEPS):
        scale = np.sqrt(variances)
        values, vectors = np.linalg.eigh(M / np.outer(scale, scale))
        explained = variances * (vectors[:, -k:] ** 2 @ np.maximum(values[-k:] - 1, 0.0))
        new = np.clip(square - explained, LEAST * square, square)
        moved = float(np.abs(new / variances - 1).max())
        variances = new
        if moved < SETTLED:
            break
    return np.asarray(variances)


def unequal_noise(M: Floats, n: int, *, most: int, d: int | None = None) -> UnequalNoise | None:
    """The noise of every feature, and the smallest number of switches that it goes with (or d, where it is known).

    None when no number up to `most` does.
    """
    m = len(M)
    before = _scaled_values(M, feature_variances(M, 0 if d is None else d - 1))
    for k in range(1, most + 1) if d is None else (d,):
        if not determined(m, k):
            return None
        variances = feature_variances(M, k)
        values = _scaled_values(M, variances)
        count = count_switches(values, n, m)
        if d is not None or count.d <= k:
            last = float(before[k - 1]), threshold(before, n, m, k, ALPHA)
            margins = last[0] / max(last[1], 1e-300), count.margins[1]
            return UnequalNoise(SwitchCount(k, 1.0, False, margins), variances, last)
        before = values
    return None


def _scaled_values(M: Floats, variances: Floats) -> Floats:
    """Eigenvalues, largest first, of the second moment of features divided by their noise."""
    scale = np.sqrt(variances)
    return np.asarray(np.linalg.eigvalsh(M / np.outer(scale, scale))[::-1])
