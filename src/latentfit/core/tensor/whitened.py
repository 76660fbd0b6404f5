"""Mean, second moment and whitened third moment of real rows, without ever forming an m³ tensor.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler, "Learning Binary Latent Variable Models: A Tensor Eigenpair Approach"
          (ICML 2018), equations (9)–(12) and (17)–(19)
Needs     finite rows; noise that is the same in all features, with no third moment
Promises  K, 𝓦 within O(n^-1/2) of their population values (24)
Differs   rows are projected first (n × d), and the noise is taken out there: 𝓜_σ(K, K, K) needs only Kᵀμ and KᵀK.
          With more features than rows the spectrum comes from the rows' inner products.
          Eigenvectors point towards the mean, so that the order of rows and features does not decide their signs.

Symbols   paper  here      shape      meaning
          μ      mean      (m,)       E[x]
          M      product/n (m, m)     E[x ⊗ x]
          K      K         (m, d)     whitening: Kᵀ M_σ K = I
          𝓦      T         (d, d, d)  𝓜_σ(K, K, K)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.engine.passes import Found, RowPasses, over

ROWS = 8_192
"""Rows whose products are made at once and added in order into their block. Divides a block."""


def row_blocks(n: int, rows: int = ROWS) -> Iterator[slice]:
    """Slices of rows in their fixed order."""
    return (slice(begin, min(begin + rows, n)) for begin in range(0, n, rows))


@dataclass(frozen=True)
class SecondMoments:
    """Sums of x (m,) and x ⊗ x (m, m) over n rows; as they are added over blocks."""

    n: int
    total: Floats
    product: Floats

    @property
    def mean(self) -> Floats:
        return np.asarray(self.total / self.n)


def second_moments(X: Floats | RowPasses) -> SecondMoments:
    """μ and M of (9), as sums."""
    passes = over(X)
    return SecondMoments(passes.n_rows, *passes.sums(_second_sums).sums)


def _second_sums(X: Floats) -> Found:
    m = X.shape[1]
    total, product = np.zeros(m), np.zeros((m, m))
    for rows in row_blocks(len(X)):
        block = X[rows]
        total += block.sum(axis=0)
        product += block.T @ block
    return Found((total, product))


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of M, largest first (min(n, m) of them), their vectors (m, r), and the mean."""

    n: int
    m: int
    mean: Floats
    values: Floats
    vectors: Floats

    @property
    def squares(self) -> float:
        """E‖x‖², the sum of all eigenvalues."""
        return float(self.values.sum())


def spectrum(X: Floats | RowPasses, centred: bool = False) -> Spectrum:
    """The spectrum of E[x ⊗ x], or of the covariance; by inner products of rows when there are fewer rows."""
    passes = over(X)
    n, m = passes.n_rows, passes.n_features
    if m > n:
        X = passes.whole()
        mean = X.mean(axis=0)
        rows = X - mean if centred else X
        values, left = np.linalg.eigh(rows @ rows.T / n)
        values, left = np.maximum(values[::-1], 0), left[:, ::-1]
        vectors = rows.T @ left
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=0), np.finfo(float).tiny)
        return Spectrum(n, m, mean, values, _signed(vectors, mean))
    return spectrum_of(second_moments(passes), centred)


def spectrum_of(moments: SecondMoments, centred: bool = False) -> Spectrum:
    """The spectrum from summed moments."""
    mean = moments.mean
    M = moments.product / moments.n
    values, vectors = np.linalg.eigh(M - np.outer(mean, mean) if centred else M)
    values = np.maximum(values[::-1], 0)
    return Spectrum(moments.n, len(mean), mean, values, _signed(vectors[:, ::-1], mean))


def _signed(vectors: Floats, mean: Floats) -> Floats:
    """Eigenvectors that point towards the mean, or else have a positive sum of cubes."""
    towards = mean @ vectors
    small = np.abs(towards) <= 1e-9 * np.linalg.norm(mean)
    sign = np.where(small, (vectors**3).sum(axis=0), towards)
    return np.asarray(vectors * np.where(sign < 0, -1.0, 1.0))


def divided(X: Floats, scale: Floats) -> Floats:
    """Each feature of rows (n, m) by its scale (m,)."""
    return X / scale


@dataclass(frozen=True)
class Whitening:
    """K (m, d), the orthonormal basis of its span (m, d), the noise variance taken out, and Kᵀμ (d,)."""

    K: Floats
    basis: Floats
    sigma2: float
    mean: Floats

    @property
    def d(self) -> int:
        return int(self.K.shape[1])


def whiten(spectrum: Spectrum, d: int, sigma2: float) -> Whitening:
    """K with Kᵀ(M − σ²I)K = I (11), from the d largest eigenvalues of M."""
    values = spectrum.values[:d]
    signal = np.maximum(values - sigma2, 1e-6 * values)  # a signal below the noise is kept small, never negative
    basis = spectrum.vectors[:, :d]
    K = basis / np.sqrt(signal)
    return Whitening(K, basis, float(sigma2), spectrum.mean @ K)


def third_moment(rows: Floats | RowPasses, K: Floats | None = None, centre: Floats | None = None) -> Floats:
    """E[z ⊗ z ⊗ z] (d, d, d) of rows (n, d), projected by K (m, d) first where given, less `centre` (d,)."""
    passes = over(rows)
    d = passes.n_features if K is None else K.shape[1]
    left, right = np.triu_indices(d)
    (sums,) = passes.sums(_third_sums, K, centre).sums
    T = np.empty((d, d, d))
    T[left, right] = T[right, left] = sums / passes.n_rows
    return (T + T.transpose(1, 2, 0) + T.transpose(2, 0, 1)) / 3  # the order of the axes rounds the last bit only


def _third_sums(Z: Floats, K: Floats | None, centre: Floats | None) -> Found:
    Z = Z if K is None else project(Z, K)
    Z = Z if centre is None else Z - centre
    left, right = np.triu_indices(Z.shape[1])
    sums = np.zeros((len(left), Z.shape[1]))
    for rows in row_blocks(len(Z)):
        block = Z[rows]
        sums += (block[:, left] * block[:, right]).T @ block
    return Found((sums,))


def symmetrised(T: Floats) -> Floats:
    """The mean over all orders of the three axes."""
    return np.asarray(sum(T.transpose(order) for order in permutations(range(3)))) / 6


def project(X: Floats, K: Floats) -> Floats:
    """X K (n, d), block by block: a product over all rows at once may round differently for other lengths."""
    return np.concatenate([X[rows] @ K for rows in row_blocks(len(X))]) if len(X) else X @ K


def whitened_tensor(X: Floats | RowPasses, whitening: Whitening) -> Floats:
    """𝓦_σ (19) of rows X (n, m): the third moment of their projections without the noise's contribution (17)."""
    return without_noise(third_moment(X, whitening.K), whitening)


def without_noise(third: Floats, whitening: Whitening) -> Floats:
    """𝓦_σ (19): a third moment in whitened coordinates less the noise's contribution (17)."""
    noise = whitening.sigma2 * (whitening.K.T @ whitening.K)  # Σ_i σ² Kᵀe_i ⊗ Kᵀe_i
    mean = whitening.mean
    one = mean[:, None, None] * noise  # Kᵀμ ⊗ KᵀK, and its two turns
    return np.asarray(third - one - one.transpose(1, 0, 2) - one.transpose(1, 2, 0))


def centred_tensor(X: Floats | RowPasses, whitening: Whitening, mean: Floats) -> Floats:
    """Whitened third central moment: noise without skew leaves no trace in it."""
    return third_moment(X, whitening.K, mean @ whitening.K)


# -----------------------------------------------------------------------------
# How many switches there are and how strong the noise is, from the eigenvalues of the second moment.
#
# Paper     Kritchman & Nadler, "Non-parametric detection of the number of signals: hypothesis testing and random matrix
#           theory" (IEEE Trans. Signal Processing 2009), as step 1 of Algorithm 1 of the tensor eigenpair paper asks
# Needs     more features than switches, noise of one variance in all features
# Promises  an eigenvalue of pure noise is seldom taken for a switch: `ALPHA` is the level where the noise is known;
#           where it is estimated, the last switch that was counted must also exceed what noise makes when the noise
#           is estimated from it, too (`ratio_threshold`): of 1,600 tables with 8 to 20 features one had one too many,
#           against 2 to 3 % without
# Differs   moments are not centred: a switch that is nearly always on would vanish with the mean. Without any noise the
#           rank is counted instead, as Algorithm 2 does.
#
# Symbols   ℓ_j eigenvalues, largest first; ρ_j what ℓ_j would be without noise's pull; p = m features, k signals

TRACY_WIDOM = {0.001: 3.2724, 0.005: 2.4224, 0.01: 2.0234, 0.05: 0.9793}
"""Upper quantiles of the Tracy–Widom distribution for real data, by level."""
ALPHA = 0.005
"""Level of the test that counts switches."""
RATIO_ALPHA = 0.01
"""Level of the test that the last switch passes again; of 1,600 tables with 8 to 20 features it let 1 pass by error."""
NOISE_FREE = 1e-12
"""Eigenvalues below this fraction of the largest are rounding: such data has no noise, and a rank instead."""
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
    while (
        sigma2 is None
        and 1 < passed < limit
        and values[passed - 1] <= ratio_threshold(values, n, m, passed, RATIO_ALPHA)
    ):
        passed -= 1
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


def ratio_threshold(values: Floats, n: int, m: int, k: int, alpha: float) -> float:
    """The same with the k-th eigenvalue counted as noise: what the largest of p − k + 1 noise eigenvalues stays below.

    Without it the noise of few features is underestimated, since its largest eigenvalue is left out. Nadler 2011, "On
    the distribution of the ratio of the largest eigenvalue to the trace of a Wishart matrix".
    """
    return threshold(values, n, m, k - 1, alpha, noise_variance(values, n, m, k - 1))


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


def estimate_noise(eigen: Spectrum, d: int) -> float:
    """σ² given d; 0 when the rank says that there is none, or no feature is left to see it in."""
    if d < min(eigen.n, eigen.m) and numerical_rank(eigen.values) <= d:
        return 0.0
    return noise_variance(eigen.values, eigen.n, eigen.m, d)


def estimate_n_switches(eigen: Spectrum, most: int, sigma: float | None = None) -> SwitchCount:
    """d and σ² by Kritchman & Nadler's test; σ may be known."""
    return count_switches(eigen.values, eigen.n, eigen.m, most=most, sigma2=None if sigma is None else sigma**2)
