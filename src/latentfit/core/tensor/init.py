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

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.matrix import Matrix
from latentfit.core.sampling import lower_half
from latentfit.core.tensor.binary import (
    EXACT,
    KS_NULL,
    LM_STARTS,
    SCORE_ROWS,
    Candidates,
    Filter,
    Search,
    choose_all,
    exclusive_pairs,
    find_candidates,
    score_candidates,
    weights_of,
)
from latentfit.core.tensor.eigenpairs import Eigenpairs
from latentfit.core.tensor.whitened import Spectrum, Whitening, project, spectrum, whiten, whitened_tensor
from latentfit.engine.passes import RowPasses

TRACY_WIDOM = {0.001: 3.2724, 0.005: 2.4224, 0.01: 2.0234, 0.05: 0.9793}
"""Upper quantiles of the Tracy–Widom distribution for real data, by level."""
ALPHA = 0.005
"""Level of the test that counts switches."""
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


# -----------------------------------------------------------------------------
# The spectral initialisation of binary latent factors, from rows to parameters.
#
# Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018, "Learning Binary Latent Variable Models: A Tensor Eigenpair
#           Approach", the steps of Algorithm 1, and of Algorithm 2 without noise; probabilities by Lemma 1
# Needs     what `core/tensor/binary.py` needs; d, or a number to choose it below
# Promises  what `core/tensor/binary.py` promises (Theorems 1 and 2 of the paper)
# Differs   without noise the search is repeated with more starting points while exact vectors are missing; switches
#           that exclude one another are recognised by their orthogonal tensor; where candidates run out, orthogonal
#           directions complete them
#
# Symbols   paper   here        shape       meaning
#           W       W           (d, m)      weights
#           p_i     probability (d,)        1/λ², how often a switch is on
#           K, 𝓦    whitening.K, T          (m, d), (d, d, d)
#           U*      chosen      (d,)        which candidates were taken, (15)

ROUNDS = 6
"""Searches at most, each with more starting points, while exact vectors are missing in data without noise."""
PASSING = 1.25
"""Kolmogorov–Smirnov scores of estimated true vectors stay below so many times the null level."""
AS_GOOD = 1.5
"""Switches that exclude one another score as well as any others, up to this factor."""
EXCLUSIVE = 3.0
"""How many √(d³/n) the tensor may be from an orthogonal one and still mean that switches exclude one another."""


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
    """Weights of d switches from rows X (n, m); σ is estimated when not given (0: none).

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
    many, keys = to_score.sample(SCORE_ROWS[1], project, whitening.K)
    filter_ = filter_ or ("exact" if noise_free else "ks" if sigma2 > 0 else "rounding")
    found, exclusive = None, False
    for repeat in range(ROUNDS if filter_ == "exact" and search == "auto" else 1):
        pairs = find_candidates(T, whitening.mean, for_moments.n_rows, search, rng, LM_STARTS * 2**repeat)
        pairs, scores, n_scored = score_candidates(pairs, many, whitening, filter_, keys)
        passing = {"exact": EXACT, "ks": PASSING * KS_NULL / np.sqrt(max(n_scored, 1)), "rounding": 0.0}[filter_]
        chosen, exclusive = pick(T, pairs, scores, search, for_moments.n_rows, passing)
        found = Candidates(pairs, scores, chosen, filter_, n_scored)
        if len(chosen) == d and (scores[chosen] < EXACT).all():
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
    tolerance = max(EXCLUSIVE * np.sqrt(d**3 / n), 1e-6)
    only = exclusive_pairs(T, pairs, min(tolerance, 0.25))
    if search == "power":
        order = np.concatenate([order[pairs.definite == -1], order[pairs.definite != -1]])
    chosen = choose_all(pairs.y, order)
    if only is not None and scores[only].max() <= max(AS_GOOD * scores[chosen].max(initial=0.0), passing):
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


def estimate_noise(eigen: Spectrum, d: int) -> float:
    """σ² given d; 0 when the rank says that there is none, or no feature is left to see it in."""
    if d < min(eigen.n, eigen.m) and numerical_rank(eigen.values) <= d:
        return 0.0
    return noise_variance(eigen.values, eigen.n, eigen.m, d)


def estimate_n_switches(eigen: Spectrum, most: int, sigma: float | None = None) -> SwitchCount:
    """d and σ² by Kritchman & Nadler's test; σ may be known."""
    return count_switches(eigen.values, eigen.n, eigen.m, most=most, sigma2=None if sigma is None else sigma**2)
