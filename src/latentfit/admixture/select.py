"""How many populations: the number that predicts calls it was not shown best.

Paper     Alexander & Lange 2011: cross-validation of the admixture model by masked genotypes
Needs     enough calls that a fifth of them can be hidden
Promises  the number with the least error on hidden calls among those tried, and the standard error of each gain
Differs   the error is minus the log-likelihood of a masked call (theirs: its deviance); fits stop after a few
          iterations, since predictions converge long before parameters; the search ends when further populations only
          raise it

Symbols   here            shape     meaning
          n_populations   (tried,)  K = 1, 2, …
          error           (tried,)  nats per hidden call
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from latentfit.admixture.data.genotypes import Genotypes
from latentfit.admixture.data.passes import SnpPasses
from latentfit.admixture.data.stored import AnyGenotypes, StoredGenotypes, store_blocks
from latentfit.admixture.em import Ancestry, fit_ancestry
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import MISSING, Calls
from latentfit.core.progress import candidate_numbers

FOLDS = 5
"""A fifth of the calls is masked at a time."""
LOOKED_AT = 3
"""Folds that are fitted: the standard error is over calls, so more only steady it."""
SHORT = 12
"""Iterations of a fit."""
PATIENCE = 2
"""Numbers tried beyond the first that does not lower the error."""
BLOCK = 2048
"""SNPs whose calls are hidden together, at most."""
HIDING_BYTES, LOSS_BYTES = 3, 42
"""Bytes per call while calls are hidden, and while their losses are computed."""


@dataclass(frozen=True)
class NumberPath:
    """Error per masked call of every number tried, its gain on the number before, and the number chosen."""

    n_populations: list[int]
    error: list[float]
    gain: list[float]
    gain_error: list[float]
    chosen: int


@dataclass(frozen=True)
class Fold:
    """SNPs that still have both alleles with a fifth of the calls hidden: passes over what is shown, and all calls."""

    shown: SnpPasses
    whole: AnyGenotypes


def choose_populations(
    genotypes: AnyGenotypes,
    *,
    most: int,
    likelihood: bool,
    tol: float,
    seed: int,
    over: Callable[[AnyGenotypes], SnpPasses] = SnpPasses,
) -> NumberPath:
    """Try K = 1, 2, … until `PATIENCE` further populations bring nothing; `over` says where passes run."""
    folds = [_masked(genotypes, np.random.default_rng((seed, fold)), over) for fold in range(LOOKED_AT)]
    if not all(fold.shown.genotypes.n_snps for fold in folds):
        raise DataError(
            f"{genotypes.n_samples} people and {genotypes.n_snps} SNPs that vary are too few to find the number of "
            "populations by hiding calls; give it (n_populations, --populations)"
        )
    before: list[Floats] = []
    numbers, errors, gains, gain_errors = [], [], [0.0], [0.0]
    chosen, best, waited = 1, np.inf, 0
    for K in candidate_numbers(range(1, most + 1), "populations"):
        losses = [_losses(fold, K, likelihood, tol, seed) for fold in folds]
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


def _masked(genotypes: AnyGenotypes, rng: np.random.Generator, over: Callable[[AnyGenotypes], SnpPasses]) -> Fold:
    """The genotypes with a fifth of the calls hidden, where the genotypes are."""
    shown: AnyGenotypes
    if isinstance(genotypes, StoredGenotypes):
        shown = store_blocks(_shown_blocks(genotypes, rng), genotypes.samples, genotypes.snps)
    else:
        shown = Genotypes(np.concatenate(list(_shown_blocks(genotypes, rng))), genotypes.samples, genotypes.snps)
    informative = shown.informative()
    return Fold(over(shown.take(informative)), genotypes.take(informative))


def _shown_blocks(genotypes: AnyGenotypes, rng: np.random.Generator) -> Iterator[Calls]:
    for _, calls in genotypes.blocks(HIDING_BYTES, BLOCK):
        yield np.where(rng.integers(0, FOLDS, calls.shape, dtype=np.uint8) == 0, np.uint8(MISSING), calls)


def _losses(fold: Fold, K: int, likelihood: bool, tol: float, seed: int) -> Floats:
    """Minus the log-likelihood of a hidden call, its mean at every SNP (SNP,)."""
    part, rng = fold.shown.genotypes, np.random.default_rng(seed)
    fit = fit_ancestry(
        fold.shown, part.means, K, likelihood=likelihood, max_iter=SHORT, tol=tol, rng=rng, n_starts=0
    )  # fmt: skip
    return _hidden_losses(fit.params, part, fold.whole)


def _hidden_losses(params: Ancestry, shown: AnyGenotypes, whole: AnyGenotypes) -> Floats:
    """Mean loss of every SNP's hidden calls; half a pseudo allele of either kind keeps surprises finite."""
    out = np.zeros(shown.n_snps)
    seen = 2.0 * shown.counts[:, :MISSING].sum(axis=1, keepdims=True)
    blocks = (one.blocks(LOSS_BYTES, BLOCK) for one in (shown, whole))
    for (rows, seen_calls), (_, calls) in zip(*blocks, strict=True):
        p = (params.frequencies[rows] @ params.proportions.T * seen[rows] + 0.5) / (seen[rows] + 1)
        codes = np.where(seen_calls == MISSING, calls, MISSING)  # those that were hidden
        there = codes != MISSING
        loss = -np.where(there, np.where(codes == MISSING, 0, codes) * np.log(p), 0.0)
        loss -= np.where(there, (2.0 - np.where(codes == MISSING, 2, codes)) * np.log1p(-p), 0.0)
        out[rows] = loss.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return out
