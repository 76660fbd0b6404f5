"""How many populations: the number that best predicts calls hidden from its fit.

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


@dataclass(frozen=True)
class CrossValidationSettings:
    """Cross-validation by masked calls."""

    folds: int = 5  # A fifth of the calls is masked at a time.
    looked_at: int = 3  # Folds that are fitted: the standard error is over calls, so more only steady it.
    short: int = 12  # Iterations of a fit.
    patience: int = 2  # Numbers tried beyond the first that does not lower the error.
    block: int = 2048  # SNPs whose calls are hidden together, at most.
    # Bytes per call while calls are hidden, and while their losses are computed.
    hiding_bytes: int = 3
    loss_bytes: int = 42


CV = CrossValidationSettings()


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
    """SNPs that still have both alleles with a fifth of the calls hidden: passes over what is left, and all calls."""

    masked: SnpPasses
    complete: AnyGenotypes


def choose_populations(
    genotypes: AnyGenotypes,
    *,
    most: int,
    likelihood: bool,
    tol: float,
    seed: int,
    over: Callable[[AnyGenotypes], SnpPasses] = SnpPasses,
) -> NumberPath:
    """Try K = 1, 2, … until `CV.patience` further populations bring nothing; `over` says where passes run."""
    folds = [_masked(genotypes, np.random.default_rng((seed, fold)), over) for fold in range(CV.looked_at)]
    if not all(fold.masked.genotypes.n_snps for fold in folds):
        raise DataError(
            f"{genotypes.n_samples} people and {genotypes.n_snps} SNPs that vary are too few to find the number of "
            "populations by hiding calls; give it (n_populations, --populations)"
        )
    before: list[Floats] = []
    errors, gains, gain_errors = [], [0.0], [0.0]
    for K in candidate_numbers(range(1, most + 1), "populations"):
        losses = [_losses(fold, K, likelihood, tol, seed) for fold in folds]
        errors.append(float(np.mean([loss.mean() for loss in losses])))
        if K > 1:
            differences = [old - new for old, new in zip(before, losses, strict=True)]
            gains.append(float(np.mean([one.mean() for one in differences])))
            gain_errors.append(float(np.mean([one.std() / np.sqrt(len(one)) for one in differences])))
        if K - 1 - int(np.argmin(errors)) >= CV.patience:
            break
        before = losses
    return NumberPath(list(range(1, len(errors) + 1)), errors, gains, gain_errors, 1 + int(np.argmin(errors)))


def _masked(genotypes: AnyGenotypes, rng: np.random.Generator, over: Callable[[AnyGenotypes], SnpPasses]) -> Fold:
    """The genotypes with a fifth of the calls hidden, where the genotypes are."""
    masked: AnyGenotypes
    if isinstance(genotypes, StoredGenotypes):
        masked = store_blocks(_masked_blocks(genotypes, rng), genotypes.samples, genotypes.snps)
    else:
        masked = Genotypes(np.concatenate(list(_masked_blocks(genotypes, rng))), genotypes.samples, genotypes.snps)
    informative = masked.informative()
    return Fold(over(masked.take(informative)), genotypes.take(informative))


def _masked_blocks(genotypes: AnyGenotypes, rng: np.random.Generator) -> Iterator[Calls]:
    for _, calls in genotypes.blocks(CV.hiding_bytes, CV.block):
        yield np.where(rng.integers(0, CV.folds, calls.shape, dtype=np.uint8) == 0, np.uint8(MISSING), calls)


def _losses(fold: Fold, K: int, likelihood: bool, tol: float, seed: int) -> Floats:
    """Minus the log-likelihood of a hidden call, its mean at every SNP (SNP,)."""
    part, rng = fold.masked.genotypes, np.random.default_rng(seed)
    fit = fit_ancestry(
        fold.masked, part.means, K, likelihood=likelihood, max_iter=CV.short, tol=tol, rng=rng, n_starts=0
    )  # fmt: skip
    return _hidden_losses(fit.params, part, fold.complete)


def _hidden_losses(params: Ancestry, masked: AnyGenotypes, complete: AnyGenotypes) -> Floats:
    """Mean loss of every SNP's hidden calls; half a pseudo allele of either kind keeps surprises finite."""
    out = np.zeros(masked.n_snps)
    seen = 2.0 * masked.counts[:, :MISSING].sum(axis=1, keepdims=True)
    blocks = (one.blocks(CV.loss_bytes, CV.block) for one in (masked, complete))
    for (rows, seen_calls), (_, calls) in zip(*blocks, strict=True):
        p = (params.frequencies[rows] @ params.proportions.T * seen[rows] + 0.5) / (seen[rows] + 1)
        codes = np.where(seen_calls == MISSING, calls, MISSING)  # those that were hidden
        there = codes != MISSING
        loss = -np.where(there, np.where(codes == MISSING, 0, codes) * np.log(p), 0.0)
        loss -= np.where(there, (2.0 - np.where(codes == MISSING, 2, codes)) * np.log1p(-p), 0.0)
        out[rows] = loss.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return out
