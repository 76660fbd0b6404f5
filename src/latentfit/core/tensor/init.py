"""The spectral start of hidden switches, from rows to parameters.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler 2018, "Learning Binary Latent Variable Models: A Tensor Eigenpair
          Approach", the walk of Algorithm 1, and of Algorithm 2 without noise; shares of rows by Lemma 1
Needs     what `core/tensor/binary.py` needs; d, or a number to choose it below
Promises  what `core/tensor/binary.py` promises (Theorems 1 and 2 of the paper)
Differs   without noise the search is repeated with more starts while exact vectors are missing; switches that exclude
          one another are recognised by their orthogonal tensor; where candidates run out orthogonal directions fill up

Symbols   paper   here        shape       meaning
          W       W           (d, m)      weights
          p_i     share       (d,)        1/λ², how often a switch is on
          K, 𝓦    whitening.K, T          (m, d), (d, d, d)
          U*      chosen      (d,)        which candidates were taken, (15)
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
from latentfit.core.tensor.rank import SwitchCount, count_switches, noise_variance, numerical_rank
from latentfit.core.tensor.whitened import Spectrum, Whitening, project, spectrum, whiten, whitened_tensor
from latentfit.engine.passes import RowPasses

ROUNDS = 6
"""Searches at most, each with more starts, while exact vectors are missing in data without noise."""
PASSING = 1.25
"""Kolmogorov–Smirnov scores of estimated true vectors stay below so many times the null level."""
AS_GOOD = 1.5
"""Switches that exclude one another score as well as any others, up to this factor."""
EXCLUSIVE = 3.0
"""How many √(d³/n) the tensor may be from an orthogonal one and still mean that switches exclude one another."""


@dataclass(frozen=True)
class SpectralStart:
    """What the moments say: weights (d, m), shares of rows 1/λ² (d,) by Lemma 1, σ², and the way there."""

    W: Floats
    share: Floats
    sigma2: float
    noise_free: bool
    exclusive: bool
    whitening: Whitening = field(repr=False)
    candidates: Candidates = field(repr=False)
    spectrum: Spectrum = field(repr=False)
    notes: tuple[str, ...] = ()


def spectral_start(
    X: Floats | RowPasses,
    d: int,
    *,
    sigma: float | None = None,
    search: Search = "auto",
    filter_: Filter | None = None,
    split: bool = False,
    rng: np.random.Generator | int | None = None,
    spectrum_: Spectrum | None = None,
) -> SpectralStart:
    """Weights of d switches from rows X (n, m); σ is estimated when not given (0: none).

    `split` uses the first half of the rows (by hash) for moments and the other for scores, and needs them in memory.
    `filter_` None takes the exact filter without noise and Kolmogorov–Smirnov with it.
    """
    rng = np.random.default_rng(rng)
    rows = X if isinstance(X, RowPasses) else _hashed(X, rng.permutation(len(X)).astype(np.uint64))
    for_moments, to_score = _halves(rows.whole(), rows.hashes) if split else (rows, rows)
    seen = spectrum(for_moments) if split or spectrum_ is None else spectrum_
    sigma2 = sigma**2 if sigma is not None else estimate_noise(seen, d)
    noise_free = sigma2 == 0.0 and d < min(rows.n_rows, rows.n_features)
    whitening = whiten(seen, d, sigma2)
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
        notes.append("started from the negative-definite eigenpairs, as if at most one switch were on at a time")
    share = np.clip((y**2).sum(axis=1), 0.0, 1.0)  # 1/λ²
    return SpectralStart(
        weights_of(y, whitening), share, sigma2, noise_free, exclusive, whitening, found, seen, tuple(notes)
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

    `passing` is a score that true switches keep below.
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
    kept = y if rank == len(y) else right[:rank] * 0.6
    filled = np.concatenate([kept, 0.6 * right[rank:]])[:d]
    return filled, [f"the tensor gave {rank} independent vectors of {d}; the others were filled in for EM to move"]


def estimate_noise(seen: Spectrum, d: int) -> float:
    """σ² given d; 0 when the rank says that there is none, or no feature is left to see it in."""
    if d < min(seen.n, seen.m) and numerical_rank(seen.values) <= d:
        return 0.0
    return noise_variance(seen.values, seen.n, seen.m, d)


def estimate_number(seen: Spectrum, most: int, sigma: float | None = None) -> SwitchCount:
    """d and σ² by Kritchman & Nadler's test; σ may be known."""
    return count_switches(seen.values, seen.n, seen.m, most=most, sigma2=None if sigma is None else sigma**2)
