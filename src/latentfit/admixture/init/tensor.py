"""Ancestry proportions from tensor eigenpairs: allele frequencies taken for binary.

Paper     Jaffe, Weiss, Carmi, Kluger & Nadler, "Learning Binary Latent Variable Models: A Tensor Eigenpair Approach"
          (ICML 2018), Section 5.2 with model (32), and Appendix J
Needs     populations so long apart that most alleles are fixed in one and lost in another; more people than populations
Promises  consistent where frequencies are 0 or 1. Elsewhere h is not binary and nothing is promised: on panels of
          F_ST .2 its error was two and a half times that of least squares, at .8 it was the smaller
Differs   proportions are brought onto the simplex by least squares (the pseudo-inverse leaves it); a subset's
          likelihood is taken at its best frequencies on a sample of SNPs; `MOST_CANDIDATES` are kept, and beyond
          `EXHAUSTIVE` subsets they are swapped one by one while the likelihood rises, from several independent sets
          (the paper searches all); ``search="auto"`` adds candidates to Newton's, as for switches.
          `Admixture(init="tensor")` goes on from the frequencies: its proportions are fitted to them, not Ŵ

Symbols   paper  here     shape          meaning
          X      x        (SNP, person)  allele counts halved: SNPs are the samples, people the features
          K, 𝓦   moments  (m, d), (d, d, d)
          V      y        (c, d)         candidates in whitened coordinates, v = K y
          W      proportions (person, d)    (V†)ᵀ, onto the simplex
          H      frequencies  (SNP, d)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from latentfit.admixture.data.passes import SnpPasses, over_calls
from latentfit.admixture.init.als import Subspace, best_frequencies, centred_blocks
from latentfit.admixture.moments import distinct_moments
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import Calls, admixture_curvature
from latentfit.core.simplex import simplex_least_squares
from latentfit.core.tensor.binary import Search, choose_all, find_candidates

EXHAUSTIVE = 1_500
"""Subsets of candidates that are all tried."""
SAMPLE = 2_000
"""SNPs that judge a subset in a fit, whose SNPs are in an order that only their calls decide."""
SWAP_STARTS = 4
"""Sets that swaps begin from: the candidates of least residual, then drawn ones."""
MOST_CANDIDATES = 60
"""Candidates kept, those of least residual: more are near-duplicates of one another under noise."""
FLOOR = 1e-3
"""Frequencies judged stay off 0 and 1, so that one surprise does not outweigh a thousand calls."""


def factor_admixture_tensor(
    calls: Calls | SnpPasses,
    means: Floats,
    space: Subspace,
    *,
    rng: np.random.Generator,
    search: Search = "auto",
    judges: int | None = SAMPLE,
) -> tuple[Floats, Floats, int]:
    """Proportions (person, d), frequencies (SNP, d) and the number of candidates.

    So many SNPs judge a subset, the first ones: they must be in an order of no meaning, unless all do (None).
    """
    d, passes = space.basis.shape[1], over_calls(calls)

    def blocks() -> Iterator[Floats]:
        for rows, some in passes.genotypes.blocks():
            centre = means[rows]
            for part, x in centred_blocks(some, centre, space.basis[:, 1:]):
                yield x.astype(np.float64) + centre[part, None]

    moments = distinct_moments(blocks, d)
    pairs = find_candidates(moments.W, moments.mean, passes.n_snps, search, rng)
    y = pairs.y[:MOST_CANDIDATES]
    if len(choose_all(y, np.arange(len(y)))) < d:  # no d independent candidates: fill up with axes
        y = np.concatenate([y, np.eye(d)])
    few = np.arange(passes.n_snps if judges is None else min(passes.n_snps, judges))
    judging = passes.first(len(few))
    sample = Subspace(space.basis, space.coords[few], space.spectrum)

    def proportions_of(chosen: NDArray[np.intp]) -> Floats:
        W = np.linalg.pinv(moments.K @ y[chosen].T).T  # (person, d) = (V†)ᵀ
        even = np.full(W.shape, 1 / d)
        return simplex_least_squares(np.eye(d), np.clip(W, -10, 10), even)

    def value(chosen: NDArray[np.intp]) -> float:
        proportions = proportions_of(chosen)
        frequencies = np.clip(best_frequencies(sample, proportions, means[few]), FLOOR, 1 - FLOOR)
        return float(admixture_curvature(judging, proportions, frequencies)[0].sum())

    chosen = choose_subset(len(y), d, value, lambda order: choose_all(y, order), rng)
    proportions = proportions_of(chosen)
    return proportions, best_frequencies(space, proportions, means), len(y)


def choose_subset(
    n_candidates: int,
    d: int,
    value: Callable[[NDArray[np.intp]], float],
    independent: Callable[[NDArray[np.intp]], NDArray[np.intp]],
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """The d of n candidates with the largest value: all subsets, or swaps from `independent` ones."""
    if comb(n_candidates, d) <= EXHAUSTIVE:
        return max((np.array(one, np.intp) for one in combinations(range(n_candidates), d)), key=value)
    best, best_value = np.arange(d), -np.inf
    for start in range(SWAP_STARTS):
        order = np.arange(n_candidates) if start == 0 else rng.permutation(n_candidates)
        chosen = independent(order)
        if len(chosen) < d:
            continue
        now = value(chosen)
        improved = True
        while improved:
            improved = False
            for place in range(d):
                for candidate in range(n_candidates):
                    if candidate in chosen:
                        continue
                    tried = chosen.copy()
                    tried[place] = candidate
                    if (there := value(tried)) > now:
                        chosen, now, improved = tried, there, True
        if now > best_value:
            best, best_value = chosen, now
    return best
