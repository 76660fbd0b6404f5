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
    """Sums of x (m,) and x ⊗ x (m, m) over n rows; those of two sets of rows add up."""

    n: int
    total: Floats
    product: Floats

    @property
    def mean(self) -> Floats:
        return np.asarray(self.total / self.n)

    def __add__(self, other: SecondMoments) -> SecondMoments:
        return SecondMoments(self.n + other.n, self.total + other.total, self.product + other.product)


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

    @property
    def scale(self) -> Floats:
        """Norms of the columns of K; they are orthogonal."""
        return np.asarray(np.linalg.norm(self.K, axis=0))


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
