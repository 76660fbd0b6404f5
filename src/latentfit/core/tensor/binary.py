"""Weights of hidden switches from tensor eigenpairs: x = Wᵀh + σξ, h binary with any joint distribution.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler, "Learning Binary Latent Variable Models: A Tensor Eigenpair Approach"
          (ICML 2018), Algorithm 1 (noise), Algorithm 2 (none)
Needs     Gaussian noise of one variance, d and σ known; m ≥ d independent weight rows; conditions (I) rigidity (6) and
          (II) rank; for Theorem 2 also rigidity in expectation (27), rows for scores apart from those for moments, and
          that the search finds all Newton-stable pairs
Promises  Ŵ = W + O(n^-1/2) (Theorem 2); exactly W without noise (Theorem 1)
Differs   ``search="auto"`` adds Levenberg–Marquardt points to Newton's (see `eigenpairs`): where p_i is near ½ sampling
          error makes the true pair complex, and Newton alone loses it. The d candidates are chosen greedily and must be
          independent; Algorithm 1 takes the d best scores, which may say the same thing twice (``search="newton"`` does
          so too). Scores come in two stages: few rows for all candidates, many for the best. Beside (14), points with
          1/λ² below 1 % are left out where rows are few (`SHORTEST`).
          Rows can be split between moments and scores as Section 4 assumes, but are not by default.

Symbols   paper   here         shape    meaning
          V       y, K y       (c, d)   candidates in whitened coordinates; v = K y
          λ       1/‖y‖        (c,)     1/λ² = P(switch on)
          Δ_n     score        (c,)     Kolmogorov–Smirnov distance (30)
          W†      K Yᵀ         (m, d)   chosen candidates; W is its pseudo-inverse
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from latentfit.core.kernels import Floats
from latentfit.core.tensor.eigenpairs import (
    CONVERGED,
    FEWEST_ROWS,
    LONGEST,
    SHORTEST,
    Eigenpairs,
    describe,
    levenberg_marquardt,
    merge,
    newton,
    shifted_power,
    sphere,
)
from latentfit.core.tensor.whitened import Whitening

Search = Literal["auto", "newton", "power"]
Filter = Literal["ks", "rounding", "exact"]

NEWTON_STARTS = 100
"""Starting points of Newton's method per switch: ten times what it took to meet every reachable vector once."""
LM_STARTS = 2_000
"""Starting points of Levenberg–Marquardt; one in a thousand reached the rarest true vector at d = 8."""
POWER_STARTS = 30
"""Starting points of the power method per switch and direction."""
SCORE_ROWS = (4_000, 50_000)
"""Rows that score all candidates, and the best of them."""
SECOND_STAGE = 8
"""Candidates per switch that are scored again on many rows."""
OUTSIDE = 0.3
"""A candidate must have this fraction of its length outside the span of those chosen before."""
EXACT = 1e-5
"""Without noise a true vector's values are this near to 0 or 1; the next-best ones are off by a tenth or more."""
KS_NULL = 1.63
"""√r Δ_r that a true switch exceeds in 1 % of the draws of r rows."""
TAU = 3.0
"""λ may fall short of 1 by this many n^-1/2 (20)."""


@dataclass(frozen=True)
class Candidates:
    """Candidates with scores (smaller is better), best first; the chosen ones by index."""

    pairs: Eigenpairs
    scores: Floats  # (c,)
    chosen: NDArray[np.intp]  # (d,)
    filter: Filter
    n_scored: int  # rows behind the best scores

    @property
    def y(self) -> Floats:
        """Chosen vectors in whitened coordinates (d, d), one per row."""
        return self.pairs.y[self.chosen]


def weights_of(y: Floats, whitening: Whitening) -> Floats:
    """W (d, m) = (K Yᵀ)† from chosen vectors (d, d)."""
    return np.asarray(np.linalg.pinv(whitening.K @ y.T))


# ------------------------------------------------------------------ search


def find_candidates(
    T: Floats, mean: Floats, n: int, search: Search, rng: np.random.Generator, lm_starts: int = LM_STARTS
) -> Eigenpairs:
    """Distinct eigenpairs (13) with λ > 1 − τ (14), (20); `mean` is the whitened mean Kᵀμ, n the rows it is over."""
    d = T.shape[0]
    if d == 1:
        y = np.array([[1 / T[0, 0, 0] if abs(T[0, 0, 0]) > 1e-9 else 1.0]])
        return describe(T, y)
    if search == "power":
        points = _power_points(T, rng)
    else:
        points, found = newton(T, sphere(NEWTON_STARTS * d, d, rng))
        if search == "newton":
            points = points[found]
        else:
            length = np.linalg.norm(mean)
            shell = mean / 2 + length / 2 * sphere(lm_starts, d, rng)  # E h = E h² puts true vectors on this sphere
            lost = sphere(int((~found).sum()), d, rng) * rng.uniform(0.4, 0.9, (int((~found).sum()), 1))
            points = np.concatenate([points[found], levenberg_marquardt(T, np.concatenate([shell, lost]))])
    longest = LONGEST if search == "auto" else 1 / max(1 - TAU / np.sqrt(n), 1 / LONGEST)
    length = np.linalg.norm(points, axis=1)
    points = points[(length > min(SHORTEST, np.sqrt(FEWEST_ROWS / n))) & (length < longest)]
    if not len(points):
        return describe(T, np.empty((0, d)))
    left = np.linalg.norm(np.einsum("ijk,sj,sk->si", T, points, points, optimize=True) - points, axis=1)
    return describe(T, points[merge(points, left)])


def _power_points(T: Floats, rng: np.random.Generator) -> Floats:
    """Power-stable pairs of both signs, refined by Newton steps."""
    d = T.shape[0]
    ends = np.concatenate([shifted_power(T, sphere(POWER_STARTS * d, d, rng), way) for way in (1, -1)])
    points, found = newton(T, ends)
    return points[found]


# ------------------------------------------------------------------ scores


def score(Z: Floats, y: Floats, spread: Floats, filter_: Filter) -> Floats:
    """How far from a switch each candidate is (c,): projected rows Z (r, d), spread = σ‖v‖ (c,).

    From the values vᵀx (25): by (16) without noise, by rounding (26), or by Kolmogorov–Smirnov (30).
    """
    out = np.empty(len(y))
    step = max(2**21 // max(len(Z), 1), 1)
    for begin in range(0, len(y), step):
        some = slice(begin, begin + step)
        t = Z @ y[some].T  # vᵀx (25)
        if filter_ == "ks":
            out[some] = _kolmogorov_smirnov(t, (y[some] ** 2).sum(axis=1), spread[some])
        else:
            off = np.abs(t - (t > 0.5))
            out[some] = off.max(axis=0) if filter_ == "exact" else (off**2).mean(axis=0)  # (16), (26) without ‖v‖²
    return out


def _kolmogorov_smirnov(t: Floats, probability: Floats, spread: Floats) -> Floats:
    """Δ_n (30): largest distance between the empirical distribution of t (r, c) and the two-Gaussian one (29)."""
    t = np.sort(t, axis=0)
    on = np.clip(probability, 0.0, 1.0)  # 1/λ²; sampling error may push it above one
    width = np.maximum(spread, 1e-12)
    G = (1 - on) * ndtr(t / width) + on * ndtr((t - 1) / width)
    rank = np.arange(len(t))[:, None] / len(t)
    return np.asarray(np.maximum(np.abs(G - rank), np.abs(G - rank - 1 / len(t))).max(axis=0))


def score_candidates(
    pairs: Eigenpairs, many: Floats, whitening: Whitening, filter_: Filter, hashes: NDArray[np.uint64]
) -> tuple[Eigenpairs, Floats, int]:
    """Candidates best first with their scores: few rows for all, many (r, d), projected, for the best.

    `hashes` (r,) choose the few, so that the order of rows does not.
    """
    sigma = np.sqrt(whitening.sigma2)
    length = np.linalg.norm(pairs.y @ whitening.K.T, axis=1)
    divisor = length**2 if filter_ == "rounding" else np.ones(len(length))
    few = sample_rows(many, SCORE_ROWS[0], hashes)
    scores = score(few, pairs.y, sigma * length, filter_) / divisor
    order = np.argsort(scores, kind="stable")
    best = order[: SECOND_STAGE * many.shape[1]]
    if len(many) > len(few) and len(best):
        scores[best] = score(many, pairs.y[best], sigma * length[best], filter_) / divisor[best]
        order = np.concatenate([best[np.argsort(scores[best], kind="stable")], order[len(best) :]])
    return pairs.take(order), scores[order], len(many)


def sample_rows(Z: Floats, most: int, hashes: NDArray[np.uint64]) -> Floats:
    """At most `most` rows, those with the smallest hashes."""
    return Z if len(Z) <= most else Z[sampled(most, hashes)]


def sampled(most: int, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Marks at most `most` rows."""
    if len(hashes) <= most:
        return np.ones(len(hashes), bool)
    return np.asarray(hashes < np.partition(hashes, most)[most])


# ------------------------------------------------------------------ choice


def choose(y: Floats, order: NDArray[np.intp], outside: float = OUTSIDE) -> NDArray[np.intp]:
    """The first d independent ones in `order`: each needs `outside` of its length outside the span of the earlier."""
    d = y.shape[1]
    basis, chosen = np.empty((0, d)), []
    for index in order.tolist():
        rest = y[index] - basis.T @ (basis @ y[index])
        rest -= basis.T @ (basis @ rest)
        length = float(np.linalg.norm(rest))
        if length >= outside * np.linalg.norm(y[index]):
            basis = np.concatenate([basis, rest[None] / length])
            chosen.append(index)
            if len(chosen) == d:
                break
    return np.array(chosen, np.intp)


def choose_all(y: Floats, order: NDArray[np.intp]) -> NDArray[np.intp]:
    """`choose`, asking for less independence when candidates run out; fewer than d when even that fails."""
    chosen = np.empty(0, np.intp)
    for outside in (OUTSIDE, 0.1, 0.01, 1e-4):
        chosen = choose(y, order, outside)
        if len(chosen) == y.shape[1]:
            break
    return chosen


def exclusive_pairs(T: Floats, pairs: Eigenpairs, tolerance: float) -> NDArray[np.intp] | None:
    """The d negative-definite pairs when they are all of the tensor: at most one switch is on at a time.

    Then 𝓣 = Σ λ_i u_i ⊗ u_i ⊗ u_i with orthogonal u_i (Section 4), every sum of switches is binary too, and scores
    do not show which are the true ones: the negative-definite pairs are.
    """
    d = T.shape[0]
    at = np.flatnonzero((pairs.definite == -1) & (pairs.residual < 1e3 * CONVERGED * np.linalg.norm(T)))
    if len(at) < d or d == 1:
        return None
    at = at[np.argsort(-np.linalg.norm(pairs.y[at], axis=1), kind="stable")]
    at = choose(pairs.y, at, 0.9)
    if len(at) < d:
        return None
    value = pairs.eigenvalues[at]
    u = pairs.y[at] * value[:, None]
    rebuilt = np.einsum("s,si,sj,sk->ijk", value, u, u, u, optimize=True)
    return at if np.linalg.norm(T - rebuilt) <= tolerance * np.linalg.norm(T) else None
