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

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from latentfit.core.kernels import Floats
from latentfit.core.matrix import Matrix
from latentfit.core.sampling import lower_half
from latentfit.core.tensor.eigenpairs import (
    PAIRS,
    Eigenpairs,
    describe,
    levenberg_marquardt,
    merge,
    newton,
    shifted_power,
    sphere,
)
from latentfit.core.tensor.whitened import (
    Spectrum,
    Whitening,
    estimate_noise,
    project,
    spectrum,
    whiten,
    whitened_tensor,
)
from latentfit.engine.passes import RowPasses

Search = Literal["auto", "newton", "power"]
Filter = Literal["ks", "rounding", "exact"]


@dataclass(frozen=True)
class SearchSettings:
    """The search for candidates, their scores, and the choice among them."""

    # Starting points of Newton's method per switch: ten times what it took to meet every reachable vector once.
    newton_starts: int = 100
    # Starting points of Levenberg–Marquardt; one in a thousand reached the rarest true vector at d = 8.
    lm_starts: int = 2_000
    power_starts: int = 30  # Starting points of the power method per switch and direction.
    score_rows: tuple[int, int] = (4_000, 50_000)  # Rows that score all candidates, and the best of them.
    second_stage: int = 8  # Candidates per switch that are scored again on many rows.
    outside: float = 0.3  # A candidate must have this fraction of its length outside the span of those chosen before.
    # Without noise a true vector's values are this near to 0 or 1; the next-best ones are off by a tenth or
    # more.
    exact: float = 1e-5
    ks_null: float = 1.63  # √r Δ_r that a true switch exceeds in 1 % of the draws of r rows.
    tau: float = 3.0  # λ may fall short of 1 by this many n^-1/2 (20).
    # Searches at most, each with more starting points, while exact vectors are missing in data without noise.
    rounds: int = 6
    # Kolmogorov–Smirnov scores of estimated true vectors stay below so many times the null level.
    passing: float = 1.25
    as_good: float = 1.5  # Switches that exclude one another score as well as any others, up to this factor.
    # How many √(d³/n) the tensor may be from an orthogonal one and still mean that switches exclude one
    # another.
    exclusive: float = 3.0


SEARCH = SearchSettings()


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
    T: Floats, mean: Floats, n: int, search: Search, rng: np.random.Generator, lm_starts: int = SEARCH.lm_starts
) -> Eigenpairs:
    """Distinct eigenpairs (13) with λ > 1 − τ (14), (20); `mean` is the whitened mean Kᵀμ, n the rows it is over."""
    d = T.shape[0]
    if d == 1:
        y = np.array([[1 / T[0, 0, 0] if abs(T[0, 0, 0]) > 1e-9 else 1.0]])
        return describe(T, y)
    if search == "power":
        points = _power_points(T, rng)
    else:
        points, found = newton(T, sphere(SEARCH.newton_starts * d, d, rng))
        if search == "newton":
            points = points[found]
        else:
            length = np.linalg.norm(mean)
            shell = mean / 2 + length / 2 * sphere(lm_starts, d, rng)  # E h = E h² puts true vectors on this sphere
            lost = sphere(int((~found).sum()), d, rng) * rng.uniform(0.4, 0.9, (int((~found).sum()), 1))
            points = np.concatenate([points[found], levenberg_marquardt(T, np.concatenate([shell, lost]))])
    longest = PAIRS.longest if search == "auto" else 1 / max(1 - SEARCH.tau / np.sqrt(n), 1 / PAIRS.longest)
    length = np.linalg.norm(points, axis=1)
    points = points[(length > min(PAIRS.shortest, np.sqrt(PAIRS.fewest_rows / n))) & (length < longest)]
    if not len(points):
        return describe(T, np.empty((0, d)))
    left = np.linalg.norm(np.einsum("ijk,sj,sk->si", T, points, points, optimize=True) - points, axis=1)
    return describe(T, points[merge(points, left)])


def _power_points(T: Floats, rng: np.random.Generator) -> Floats:
    """Power-stable pairs of both signs, refined by Newton steps."""
    d = T.shape[0]
    ends = np.concatenate([shifted_power(T, sphere(SEARCH.power_starts * d, d, rng), way) for way in (1, -1)])
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
    few = many[sampled(SEARCH.score_rows[0], hashes)]
    scores = score(few, pairs.y, sigma * length, filter_) / divisor
    order = np.argsort(scores, kind="stable")
    best = order[: SEARCH.second_stage * many.shape[1]]
    if len(many) > len(few) and len(best):
        scores[best] = score(many, pairs.y[best], sigma * length[best], filter_) / divisor[best]
        order = np.concatenate([best[np.argsort(scores[best], kind="stable")], order[len(best) :]])
    return pairs.take(order), scores[order], len(many)


def sampled(most: int, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Marks at most `most` rows."""
    if len(hashes) <= most:
        return np.ones(len(hashes), bool)
    return np.asarray(hashes < np.partition(hashes, most)[most])


# ------------------------------------------------------------------ choice


def choose(y: Floats, order: NDArray[np.intp], outside: float = SEARCH.outside) -> NDArray[np.intp]:
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
    for outside in (SEARCH.outside, 0.1, 0.01, 1e-4):
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
    at = np.flatnonzero((pairs.definite == -1) & (pairs.residual < 1e3 * PAIRS.converged * np.linalg.norm(T)))
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


# -----------------------------------------------------------------------------
# The spectral initialisation of binary latent factors, from rows to parameters.
#
# Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018, "Learning Binary Latent Variable Models: A Tensor Eigenpair
#           Approach", the steps of Algorithm 1, and of Algorithm 2 without noise; probabilities by Lemma 1
# Needs     what the search needs (above), and d
# Promises  what the search promises (Theorems 1 and 2 of the paper)
# Differs   without noise the search is repeated with more starting points while exact vectors are missing; switches
#           that exclude one another are recognised by their orthogonal tensor; where candidates run out, orthogonal
#           directions complete them
#
# Symbols   paper   here        shape       meaning
#           W       W           (d, m)      weights
#           p_i     probability (d,)        1/λ², how often a switch is on
#           K, 𝓦    whitening.K, T          (m, d), (d, d, d)
#           U*      chosen      (d,)        which candidates were taken, (15)


@dataclass(frozen=True)
class SpectralInit:
    """What the moments say: weights (d, m), P(switch on) = 1/λ² (d,) by Lemma 1, σ², and how they were found."""

    W: Floats
    probability: Floats
    sigma2: float
    noise_free: bool
    exclusive: bool
    whitening: Whitening = field(repr=False)
    candidates: Candidates = field(repr=False)
    spectrum: Spectrum = field(repr=False)
    notes: tuple[str, ...] = ()


def spectral_init(
    X: Floats | RowPasses,
    d: int,
    *,
    sigma: float | None = None,
    search: Search = "auto",
    filter_: Filter | None = None,
    split: bool = False,
    rng: np.random.Generator | int | None = None,
    spectrum_: Spectrum | None = None,
) -> SpectralInit:
    """Weights of d switches from rows X (n, m), by Algorithm 1 with noise and Algorithm 2 without.

    σ is estimated when not given (0: none).

    `split` uses the first half of the rows (by hash) for moments and the other for scores, and needs them in memory.
    `filter_` None takes the exact filter without noise and Kolmogorov–Smirnov with it.
    """
    rng = np.random.default_rng(rng)
    rows = X if isinstance(X, RowPasses) else _hashed(X, rng.permutation(len(X)).astype(np.uint64))
    for_moments, to_score = _halves(rows.whole(), rows.hashes) if split else (rows, rows)
    eigen = spectrum(for_moments) if split or spectrum_ is None else spectrum_
    sigma2 = sigma**2 if sigma is not None else estimate_noise(eigen, d)
    noise_free = sigma2 == 0.0 and d < min(rows.n_rows, rows.n_features)
    whitening = whiten(eigen, d, sigma2)
    T = whitened_tensor(for_moments, whitening)
    many, keys = to_score.sample(SEARCH.score_rows[1], project, whitening.K)
    filter_ = filter_ or ("exact" if noise_free else "ks" if sigma2 > 0 else "rounding")
    found, exclusive = None, False
    for repeat in range(SEARCH.rounds if filter_ == "exact" and search == "auto" else 1):
        pairs = find_candidates(T, whitening.mean, for_moments.n_rows, search, rng, SEARCH.lm_starts * 2**repeat)
        pairs, scores, n_scored = score_candidates(pairs, many, whitening, filter_, keys)
        passing = {
            "exact": SEARCH.exact,
            "ks": SEARCH.passing * SEARCH.ks_null / np.sqrt(max(n_scored, 1)),
            "rounding": 0.0,
        }[filter_]
        chosen, exclusive = pick(T, pairs, scores, search, for_moments.n_rows, passing)
        found = Candidates(pairs, scores, chosen, filter_, n_scored)
        if len(chosen) == d and (scores[chosen] < SEARCH.exact).all():
            break
    assert found is not None
    y, notes = complete(found.y, d)
    if exclusive:
        notes.append("initialised from the negative-definite eigenpairs, as if at most one switch were on at a time")
    probability = np.clip((y**2).sum(axis=1), 0.0, 1.0)  # 1/λ²
    return SpectralInit(
        weights_of(y, whitening), probability, sigma2, noise_free, exclusive, whitening, found, eigen, tuple(notes)
    )


def _hashed(X: Floats, hashes: NDArray[np.uint64]) -> RowPasses:
    return RowPasses(Matrix(X, tuple(range(X.shape[1]))), hashes=hashes)


def _halves(X: Floats, hashes: NDArray[np.uint64] | None) -> tuple[RowPasses, RowPasses]:
    """The half of the rows with the smaller hashes, and the other."""
    assert hashes is not None
    half = lower_half(hashes)
    return _hashed(X[half], hashes[half]), _hashed(X[~half], hashes[~half])


def pick(
    T: Floats, pairs: Eigenpairs, scores: Floats, search: Search, n: int, passing: float
) -> tuple[NDArray[np.intp], bool]:
    """Which of the scored candidates are the switches (15), and whether they exclude one another.

    `passing` is a score that true switches stay below.
    """
    d = T.shape[0]
    order = np.arange(len(pairs))
    if search == "newton":  # Algorithm 1, step 8: the d best scores as they are
        return order[:d], False
    tolerance = max(SEARCH.exclusive * np.sqrt(d**3 / n), 1e-6)
    only = exclusive_pairs(T, pairs, min(tolerance, 0.25))
    if search == "power":
        order = np.concatenate([order[pairs.definite == -1], order[pairs.definite != -1]])
    chosen = choose_all(pairs.y, order)
    if only is not None and scores[only].max() <= max(SEARCH.as_good * scores[chosen].max(initial=0.0), passing):
        return only, True
    return chosen, False


def complete(y: Floats, d: int) -> tuple[Floats, list[str]]:
    """d independent vectors: where candidates ran out, directions orthogonal to those there are."""
    if len(y) == d and np.linalg.matrix_rank(y, tol=1e-6) == d:
        return y, []
    _, values, right = np.linalg.svd(y, full_matrices=True)
    rank = int((values > 1e-6).sum())
    independent = y if rank == len(y) else right[:rank] * 0.6
    filled = np.concatenate([independent, 0.6 * right[rank:]])[:d]
    return filled, [f"the tensor gave {rank} independent vectors of {d}; the others were filled in for EM to move"]
