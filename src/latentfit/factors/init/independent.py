"""Independent switches from centred moments: an orthogonal tensor, taken apart by power iteration and deflation.

Papers    Anandkumar, Ge, Hsu, Kakade & Telgarsky, "Tensor decompositions for learning latent variable models"
          (JMLR 2014), Algorithm 1; Section 4 of the tensor eigenpair paper names it for product distributions
Needs     independent switches, none on in exactly half of the rows: its skew is zero, and the tensor does not see it
Promises  polynomial time in d; error O(n^-1/2) while skews are apart from zero. A fit also holds P(h), 2^d numbers,
          and stops at 20 switches
Differs   the sign of each switch (h or 1 − h leave the same centred moments) is read off the mean, which is Wᵀp

Symbols   T = Σ_i s_i a_i ⊗ a_i ⊗ a_i, a_i orthonormal, s_i = (1 − 2p_i)/√(p_i(1 − p_i)) the skew of switch i
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.kernels import Floats
from latentfit.core.tensor.eigenpairs import contract, sphere
from latentfit.core.tensor.whitened import centred_tensor, spectrum, whiten
from latentfit.engine.passes import RowPasses

STARTS = 20
"""Starting vectors of the power iteration per deflation step and switch."""
POWER_STEPS = 100
"""Steps from a starting vector at most: near a component of an orthogonal tensor each squares the error."""


@dataclass(frozen=True)
class IndependentSwitches:
    """Weights (d, m), probabilities of being on (d,), and the skew of each switch."""

    W: Floats
    probability: Floats
    skew: Floats
    residual: float  # ‖T − Σ s a ⊗ a ⊗ a‖ / ‖T‖: what independence does not explain


def factor_independent(
    X: Floats | RowPasses, d: int, sigma2: float, *, rng: np.random.Generator
) -> IndependentSwitches:
    """Weights of d independent switches from rows (n, m) with noise variance σ²."""
    eigen = spectrum(X, centred=True)
    whitening = whiten(eigen, d, sigma2)
    T = centred_tensor(X, whitening, eigen.mean)
    rest = T.copy()
    directions: list[Floats] = []
    skews: list[float] = []
    for _ in range(d):
        u = deflate(rest, sphere(STARTS * d, d, rng), np.array(directions).reshape(-1, d))
        skew = float(contract(rest, u[None])[0] @ u)
        rest = rest - skew * np.einsum("i,j,k->ijk", u, u, u)
        directions.append(u)
        skews.append(skew)
    s, a = np.array(skews), np.array(directions)
    probability = (1 - s / np.sqrt(4 + s**2)) / 2  # solves s = (1 − 2p)/√(p(1 − p))
    # x − μ = Σ w_i √(p_i(1 − p_i)) z_i with whitened z_i along a_i
    W = (a @ np.linalg.pinv(whitening.K)) / np.sqrt(probability * (1 - probability))[:, None]
    mean_coefficient = np.linalg.lstsq(W.T, eigen.mean, rcond=None)[0]  # p_i, or p_i − 1 where the sign is wrong
    turned = np.abs(mean_coefficient - probability) > np.abs(mean_coefficient - probability + 1)
    W[turned] *= -1
    probability = np.where(turned, 1 - probability, probability)
    size = float(np.linalg.norm(T))
    return IndependentSwitches(W, probability, np.where(turned, -s, s), float(np.linalg.norm(rest)) / max(size, 1e-300))


def deflate(T: Floats, starts: Floats, before: Floats) -> Floats:
    """The unit vector of largest |T(u, u, u)| that power iteration finds, orthogonal to those found before."""
    free = starts - (starts @ before.T) @ before
    u = free / np.maximum(np.linalg.norm(free, axis=1, keepdims=True), 1e-300)
    for _ in range(POWER_STEPS):
        moved = contract(T, u)
        moved -= (moved @ before.T) @ before
        length = np.linalg.norm(moved, axis=1, keepdims=True)
        moved = np.where(length > 1e-12, moved / np.maximum(length, 1e-300), u)
        if np.abs(moved - u).max() < 1e-12:
            break
        u = moved
    values = (contract(T, u) * u).sum(axis=1)
    best = int(np.abs(values).argmax())
    return np.asarray(u[best] / np.linalg.norm(u[best]))
