"""Admixed people: genomes stitched together from those of ancestral populations.

Jaffe, Weiss, Carmi, Kluger & Nadler 2018, Appendix M:

1. 40 chromosomes of each of d populations that split 4,000 generations ago; N₀ = 10⁴, mutation and recombination
   rate 10⁻⁸, 250 million base pairs (theirs by SCRM, ours by msprime, the extra `genetics`, ten million at a time)
2. each person's proportions are Dirichlet(α, …, α)
3. each person's two chromosomes are mosaics: pick a population by the proportions, one of its chromosomes, a length
   from an exponential distribution with rate 20 per Morgan (10⁸ base pairs), copy that stretch; go on until the end

Without msprime (`coalescent=False`, the default) step 1 draws each SNP by itself: a pooled frequency even over
(.05, .95), frequencies of the populations from the Balding–Nichols distribution with `fst` (.18 is what 4,000
generations at N₀ = 10⁴ leave: 1 − exp(−t / 2N₀)), chromosomes from these. Neighbouring SNPs are then linked by shared
ancestry alone.

The truth to measure against is the fraction of the genome a person really got from a population (`proportions`), not
the draw that made it (`nominal`): a mosaic of some hundred stretches is off its draw by a few hundredths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats

__all__ = ["AdmixedGenotypes", "admixture"]

Seed = int | np.random.Generator | None

SPLIT_GENERATIONS = 4_000.0
POPULATION_SIZE = 10_000.0
RATE = 1e-8
"""Mutations and recombinations per base pair and generation."""
PIECE = 1e7
"""Base pairs simulated at a time: msprime's time grows with the square of them, and linkage ends long before."""
MORGAN = 1e8
"""Base pairs."""
SWITCHES_PER_MORGAN = 20.0
"""Generations since the admixture."""
RAREST = 0.05
"""Pooled frequencies without msprime are even from here to one minus this."""


@dataclass(frozen=True)
class AdmixedGenotypes:
    """Allele counts with what made them.

    Attributes
    ----------
    genotypes : ndarray of int8 of shape (n_people, n_snps)
        Allele counts 0, 1, 2; -1 is missing.
    proportions : ndarray of shape (n_people, n_populations)
        Fraction of the genome that came from each population.
    nominal : ndarray of shape (n_people, n_populations)
        The Dirichlet draw behind `proportions`.
    frequencies : ndarray of shape (n_snps, n_populations)
        Allele frequencies among the ancestral chromosomes.
    positions : ndarray of shape (n_snps,)
        Positions in base pairs.

    Examples
    --------
    >>> from latentfit.simulate import admixture
    >>> data = admixture(5, 2, 40, missing=0.1, random_state=0)
    >>> sorted({int(call) for call in data.genotypes.ravel()}), data.positions.shape
    ([-1, 0, 1, 2], (40,))
    """

    genotypes: NDArray[np.int8]
    proportions: Floats
    nominal: Floats
    frequencies: Floats
    positions: Floats


def admixture(
    n_samples: int = 50,
    n_populations: int = 3,
    n_snps: int | None = 10_000,
    *,
    alpha: float = 1.0,
    coalescent: bool = False,
    fst: float = 0.18,
    length: float = 250e6,
    n_chromosomes: int = 40,
    missing: float = 0.0,
    random_state: Seed = None,
) -> AdmixedGenotypes:
    """Genotypes of admixed people, their true proportions, and the populations' frequencies.

    Parameters
    ----------
    n_samples : int, default=50
        Number of people.
    n_populations : int, default=3
        Number of ancestral populations.
    n_snps : int or None, default=10000
        Number of SNPs. Of a coalescent so many are drawn of those with both alleles among the people (None keeps all);
        without one every SNP drawn is kept, so that a few may have one allele only.
    alpha : float, default=1.0
        Dirichlet parameter: 0.1 makes nearly unmixed people, 10 people who are all mixed alike.
    coalescent : bool, default=False
        Ancestral chromosomes from msprime (linked SNPs, real frequency spectrum) instead of one SNP at a time.
    fst : float, default=0.18
        How far apart the populations are, without msprime.
    length : float, default=250e6
        Base pairs of the chromosome.
    n_chromosomes : int, default=40
        Ancestral chromosomes per population; an even number with msprime, which simulates people.
    missing : float, default=0.0
        Fraction of the genotypes hidden.
    random_state : int, numpy.random.Generator or None, default=None
        Seed.

    Returns
    -------
    AdmixedGenotypes

    Examples
    --------
    >>> from latentfit.simulate import admixture
    >>> data = admixture(20, 3, 500, random_state=0)
    >>> data.genotypes.shape, data.frequencies.shape
    ((20, 500), (500, 3))
    >>> bool(abs(data.proportions.sum(axis=1) - 1).max() < 1e-12)
    True
    """
    if min(n_samples, n_populations, 1 if n_snps is None else n_snps, n_chromosomes) < 1:
        raise DataError(
            "n_samples, n_populations, n_snps and n_chromosomes must be at least 1, got "
            f"{n_samples}, {n_populations}, {n_snps} and {n_chromosomes}; give at least one of each"
        )
    if not (alpha > 0 and 0 < fst < 1 and length > 0 and 0 <= missing < 1):
        raise DataError(
            f"alpha={alpha}, fst={fst}, length={length}, missing={missing}; alpha and length lie above 0, fst between "
            "0 and 1, missing from 0 up to 1"
        )
    if coalescent and n_chromosomes % 2:
        raise DataError(f"n_chromosomes={n_chromosomes} is odd, and people have two each; give an even number")
    if not coalescent and n_snps is None:
        raise DataError("n_snps=None keeps all SNPs of a coalescent; without one give their number")
    rng = np.random.default_rng(random_state)
    nominal = rng.dirichlet(np.full(n_populations, alpha), size=n_samples)
    if coalescent or n_snps is None:
        haplotypes, positions = _coalescent(n_populations, n_chromosomes, length, rng)
    else:
        haplotypes, positions = _one_by_one(n_populations, n_chromosomes, n_snps, fst, length, rng)
    genotypes, proportions = _mosaics(haplotypes, positions, nominal, n_chromosomes, length, rng)
    alleles = genotypes.sum(axis=0, dtype=np.int64)
    polymorphic = np.flatnonzero((alleles > 0) & (alleles < 2 * n_samples)) if coalescent else np.arange(len(positions))
    if n_snps is not None and len(polymorphic) > n_snps:
        polymorphic = np.sort(rng.choice(polymorphic, n_snps, replace=False))
    genotypes = np.ascontiguousarray(genotypes[:, polymorphic])
    genotypes[rng.random(genotypes.shape) < missing] = -1
    by_population = haplotypes[polymorphic].reshape(len(polymorphic), n_populations, n_chromosomes)
    return AdmixedGenotypes(genotypes, proportions, nominal, by_population.mean(axis=2), positions[polymorphic])


def _mosaics(
    haplotypes: NDArray[np.int8], positions: Floats, nominal: Floats, n_chromosomes: int, length: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int8], Floats]:  # fmt: skip
    """Step 3 for every person: genotypes (person, SNP), and the fraction of the genome from each population."""
    n_samples, d = nominal.shape
    genotypes = np.zeros((n_samples, len(positions)), np.int8)
    proportions = np.zeros((n_samples, d))
    for person in range(n_samples):
        for _ in range(2):
            ends = _stretches(length, rng)
            population = rng.choice(d, size=len(ends), p=nominal[person])
            source = population * n_chromosomes + rng.integers(n_chromosomes, size=len(ends))
            genotypes[person] += haplotypes[np.arange(len(positions)), source[np.searchsorted(ends, positions)]]
            got = np.diff(np.minimum(ends, length), prepend=0.0)
            proportions[person] += np.bincount(population, got, minlength=d) / (2 * length)
    return genotypes, proportions


def _stretches(length: float, rng: np.random.Generator) -> Floats:
    """Where stretches end, the last at or after the end of the chromosome."""
    mean = MORGAN / SWITCHES_PER_MORGAN
    ends = np.zeros(1)
    while ends[-1] < length:
        more = rng.exponential(mean, size=int(2 * length / mean) + 8)
        ends = np.concatenate([ends, ends[-1] + np.cumsum(more)])
    return ends[1 : int(np.searchsorted(ends, length)) + 1]


def _one_by_one(
    d: int, n_chromosomes: int, n_snps: int, fst: float, length: float, rng: np.random.Generator
) -> tuple[NDArray[np.int8], Floats]:
    """Ancestral chromosomes (SNP, d · n_chromosomes), population by population, each SNP by itself."""
    pooled = rng.uniform(RAREST, 1 - RAREST, size=(n_snps, 1))
    spread = (1 - fst) / fst
    frequencies = rng.beta(pooled * spread, (1 - pooled) * spread, size=(n_snps, d))
    probability = np.repeat(frequencies, n_chromosomes, axis=1)
    haplotypes = (rng.random(probability.shape) < probability).astype(np.int8)
    return haplotypes, np.sort(rng.uniform(0.0, length, size=n_snps))


def _coalescent(d: int, n_chromosomes: int, length: float, rng: np.random.Generator) -> tuple[NDArray[np.int8], Floats]:
    """Ancestral chromosomes (SNP, d · n_chromosomes), population by population, from msprime."""
    try:
        import msprime
    except ModuleNotFoundError:
        raise DataError(
            "coalescent=True needs msprime, which is not installed; install the extra `genetics` "
            "(pip install 'latentfit[genetics]'), or leave coalescent=False"
        ) from None
    names = [f"population{k}" for k in range(d)]
    history = msprime.Demography()
    for name in (*names, "origin"):
        history.add_population(name=name, initial_size=POPULATION_SIZE)
    if d > 1:
        history.add_population_split(time=SPLIT_GENERATIONS, derived=names, ancestral="origin")
    pieces = max(round(length / PIECE), 1)
    haplotypes, positions = [], []
    for piece, seeds in enumerate(rng.integers(1, 2**31, size=(pieces, 2))):
        trees = msprime.sim_ancestry(
            samples=dict.fromkeys(names if d > 1 else ["origin"], n_chromosomes // 2), demography=history,
            sequence_length=length / pieces, discrete_genome=False, recombination_rate=RATE, random_seed=int(seeds[0]),
        )  # fmt: skip
        mutated = msprime.sim_mutations(
            trees, rate=RATE, model=msprime.BinaryMutationModel(), discrete_genome=False, random_seed=int(seeds[1])
        )
        haplotypes.append(np.asarray(mutated.genotype_matrix(), np.int8))
        positions.append(np.asarray(mutated.tables.sites.position, np.float64) + piece * length / pieces)
    return np.concatenate(haplotypes), np.concatenate(positions)
