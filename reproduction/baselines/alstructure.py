"""ALStructure: ancestry from a latent subspace and constrained least squares, a rival of the switches paper's Figure 4.

Paper     Cabreros & Storey 2017 ("A likelihood-free estimator of population structure bridging admixture models and
          principal components analysis"), with the subspace of Chen & Storey 2015
Needs     complete genotypes; allele counts binomial given the frequencies
Promises  the subspace is consistent in the number of SNPs; within it, any factorisation that obeys the constraints
Differs   nothing but the stop: proportions that moved by less than 10⁻⁵ on average, 1,000 passes at most (theirs too)

Symbols   paper  here         shape             meaning
          X      genotypes    (person, SNP)     allele counts
          Q      proportions  (person, K)       on the simplex
          P      frequencies  (SNP, K)          in [0, 1]
          V      basis        (person, K)       orthonormal span of the rows of F = P Q
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.simplex import box_least_squares, simplex_least_squares

MOST_PASSES = 1_000
STILL = 1e-5


def latent_subspace(genotypes: Floats, n_populations: int) -> Floats:
    """Chen & Storey: eigenvectors of XᵀX/n less the binomial variance of its diagonal, E[2x − x²] a person."""
    n_snps = genotypes.shape[1]
    both = genotypes @ genotypes.T / n_snps
    noise = (2 * genotypes - genotypes**2).mean(axis=1)
    return np.asarray(np.linalg.eigh(both - np.diag(noise))[1][:, ::-1][:, :n_populations])


def alstructure(
    genotypes: NDArray[np.int8], n_populations: int, rng: np.random.Generator
) -> tuple[Floats, Floats, int]:
    """Proportions (person, K), frequencies (SNP, K) and passes, from proportions drawn evenly."""
    halves = genotypes / 2.0
    basis = latent_subspace(2 * halves, n_populations)
    coords = halves.T @ basis  # F̂ = coords basisᵀ: genotypes projected onto the subspace
    proportions = rng.dirichlet(np.ones(n_populations), size=len(halves))
    frequencies: Floats | None = None
    passes = 0
    while passes < MOST_PASSES:
        passes += 1
        right = coords @ (basis.T @ proportions)
        frequencies = box_least_squares(proportions.T @ proportions, right, start=frequencies)
        before = proportions
        right = basis @ (coords.T @ frequencies)
        proportions = simplex_least_squares(frequencies.T @ frequencies, right, proportions)
        if np.abs(proportions - before).mean() < STILL:
            break
    assert frequencies is not None
    return proportions, frequencies, passes
