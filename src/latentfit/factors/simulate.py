"""Binary latent factors: Section 5.1 of "Learning Binary Latent Variable Models: A Tensor Eigenpair Approach"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats

__all__ = ["SwitchedRows", "binary_factors"]

Bits = NDArray[np.int64]
Seed = int | np.random.Generator | None

MEANS = (0.2, 0.4)
"""The latent Gaussian's means are even between these: every switch is off more often than on."""
THRESHOLD = 0.5
"""A switch is on when its latent Gaussian is above this (binary rounding)."""


@dataclass(frozen=True)
class SwitchedRows:
    """Rows X (n, m) = h W + σ ξ with what made them.

    Attributes
    ----------
    X : ndarray of shape (n, m)
        The rows.
    W : ndarray of shape (d, m)
        What each switch adds.
    h : ndarray of int of shape (n, d)
        Which switches are on.
    sigma : float
        Standard deviation of the noise.

    Examples
    --------
    >>> from latentfit.simulate import binary_factors
    >>> data = binary_factors(50, m=8, d=2, sigma=0.0, random_state=0)
    >>> bool(abs(data.X - data.h @ data.W).max() < 1e-12)
    True
    """

    X: Floats
    W: Floats
    h: Bits
    sigma: float


def binary_factors(n: int, m: int = 30, d: int = 6, sigma: float = 0.4, random_state: Seed = None) -> SwitchedRows:
    """Rows of x = Wᵀh + σξ (1) with dependent switches, a new model in every call.

    Each feature's weights (a column of W) are even on the unit sphere of ℝᵈ. The switches are a rounded Gaussian:
    r ~ N(a, R), h = 1[r > ½], with aᵢ even on (.2, .4) and R = Q diag(u) Qᵀ, Q a random rotation, uᵢ even on (0, 1).

    Parameters
    ----------
    n : int
        Number of rows.
    m : int, default=30
        Number of features.
    d : int, default=6
        Number of switches.
    sigma : float, default=0.4
        Standard deviation of the noise.
    random_state : int, numpy.random.Generator or None, default=None
        Seed.

    Returns
    -------
    SwitchedRows

    Examples
    --------
    >>> from latentfit.simulate import binary_factors
    >>> data = binary_factors(100, m=10, d=3, sigma=0.1, random_state=0)
    >>> data.X.shape, data.W.shape, data.h.shape
    ((100, 10), (3, 10), (100, 3))
    """
    if min(n, m, d) < 1 or not 0 <= sigma < np.inf:
        raise DataError(
            f"n, m and d must be at least 1 and sigma >= 0, got n={n}, m={m}, d={d}, sigma={sigma}; give such numbers"
        )
    rng = np.random.default_rng(random_state)
    W = draw_weights(d, m, rng)
    h = draw_switches(n, d, rng)
    X = h @ W + sigma * rng.standard_normal((n, m))
    return SwitchedRows(X, W, h, float(sigma))


def draw_weights(d: int, m: int, rng: np.random.Generator) -> Floats:
    """W (d, m), its columns even on the unit sphere."""
    W = rng.standard_normal((d, m))
    return np.asarray(W / np.linalg.norm(W, axis=0))


def draw_switches(n: int, d: int, rng: np.random.Generator) -> Bits:
    """Rounded Gaussians (n, d) with means a and covariance R."""
    a = rng.uniform(*MEANS, d)
    Q, triangle = np.linalg.qr(rng.standard_normal((d, d)))
    Q = Q * np.sign(np.diag(triangle))  # Haar measure: qr alone prefers some rotations
    spread = np.sqrt(rng.random(d))
    r = a + (rng.standard_normal((n, d)) * spread) @ Q.T
    return np.asarray(r > THRESHOLD, np.int64)
