"""How many populations: the number that predicts calls it was not shown best.

Paper     Alexander & Lange 2011: cross-validation of the admixture model by masked genotypes
Needs     enough calls that a fifth of them can be hidden
Promises  the number with the least error on hidden calls among those tried, and the standard error of each gain
Differs   the error is minus the log-likelihood of a masked call (theirs: its deviance); fits stop after a few passes,
          for their predictions stand long before their parameters; the walk ends when further populations only raise it

Symbols   here            shape     meaning
          n_populations   (tried,)  K = 1, 2, …
          error           (tried,)  nats a hidden call
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.genotypes import Genotypes
from tacit.engine.mixture import Floats
from tacit.kernels.admixture import MISSING, Calls
from tacit.progress import tried
from tacit.refine.admixture import Ancestry
from tacit.refine.admixture_fit import fit_ancestry

FOLDS = 5
"""A fifth of the calls is masked at a time."""
LOOKED_AT = 3
"""Folds that are fitted: the standard error is over calls, so more only steady it."""
SHORT = 12
"""Passes of a fit."""
PATIENCE = 2
"""Numbers tried beyond the first that does not lower the error."""
BLOCK = 2048


@dataclass(frozen=True)
class NumberPath:
    """Error per masked call of every number tried, its gain on the number before, and the number chosen."""

    n_populations: list[int]
    error: list[float]
    gain: list[float]
    gain_error: list[float]
    chosen: int


def choose_populations(
    genotypes: Genotypes,
    *,
    most: int,
    likelihood: bool,
    tol: float,
    seed: int,
    n_jobs: int | None = None,
) -> NumberPath:
    """Walk K = 1, 2, … until `PATIENCE` further populations bring nothing."""
    folds = [_masked(genotypes, np.random.default_rng((seed, fold))) for fold in range(LOOKED_AT)]
    before: list[Floats] = []
    numbers, errors, gains, gain_errors = [], [], [0.0], [0.0]
    chosen, best, waited = 1, np.inf, 0
    for K in tried(range(1, most + 1), "populations"):
        losses = [_losses(shown, hidden, K, likelihood, tol, seed, n_jobs) for shown, hidden in folds]
        error = float(np.mean([loss.mean() for loss in losses]))
        numbers.append(K)
        errors.append(error)
        if K > 1:
            differences = [old - new for old, new in zip(before, losses, strict=True)]
            gains.append(float(np.mean([one.mean() for one in differences])))
            spread = float(np.mean([one.std() / np.sqrt(len(one)) for one in differences]))
            gain_errors.append(spread)
        if error < best:
            chosen, best, waited = K, error, 0
        else:
            waited += 1
        if waited >= PATIENCE:
            break
        before = losses
    return NumberPath(numbers, errors, gains, gain_errors, chosen)


def _masked(genotypes: Genotypes, rng: np.random.Generator) -> tuple[Genotypes, Calls]:
    """The genotypes with a fifth of the calls hidden, and the hidden ones alone (all else missing)."""
    shown, hidden = genotypes.calls.copy(), np.full_like(genotypes.calls, MISSING)
    for begin in range(0, len(shown), BLOCK):
        rows = slice(begin, begin + BLOCK)
        mask = rng.integers(0, FOLDS, shown[rows].shape, dtype=np.uint8) == 0
        hidden[rows][mask] = shown[rows][mask]
        shown[rows][mask] = MISSING
    return Genotypes(shown, genotypes.samples, genotypes.snps), hidden


def _losses(
    shown: Genotypes, hidden: Calls, K: int, likelihood: bool, tol: float, seed: int, n_jobs: int | None
) -> Floats:
    """Minus the log-likelihood of the hidden calls, one sum a SNP and call."""
    kept = shown.informative()
    part = shown.take(kept)
    rng = np.random.default_rng(seed)
    fit = fit_ancestry(
        part.calls, part.means, K, likelihood=likelihood, max_iter=SHORT, tol=tol, rng=rng, n_starts=0, n_jobs=n_jobs
    )
    return _hidden_losses(fit.params, hidden[kept], part.counts)


def _hidden_losses(params: Ancestry, hidden: Calls, counts: NDArray[np.int64]) -> Floats:
    """Mean loss of every SNP's hidden calls; half a pseudo allele of either kind keeps surprises finite."""
    out = np.zeros(len(hidden))
    seen = 2.0 * counts[:, :MISSING].sum(axis=1, keepdims=True)
    for begin in range(0, len(hidden), BLOCK):
        rows = slice(begin, begin + BLOCK)
        p = (params.frequencies[rows] @ params.shares.T * seen[rows] + 0.5) / (seen[rows] + 1)
        codes = hidden[rows]
        there = codes != MISSING
        loss = -np.where(there, np.where(codes == MISSING, 0, codes) * np.log(p), 0.0)
        loss -= np.where(there, (2.0 - np.where(codes == MISSING, 2, codes)) * np.log1p(-p), 0.0)
        out[rows] = loss.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return out
