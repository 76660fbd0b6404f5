"""Do the SNPs fulfil what the model assumes of them? Linkage, and heterozygotes as two draws make them.

Papers    Garcia-Erausquin & Albrechtsen 2020 (evalAdmix): what a fit leaves correlated is no ancestry; Wigginton,
          Cutler & Abecasis 2005 for departures from Hardy-Weinberg proportions
Needs     calls, and the proportions and frequencies fitted to them
Promises  SNPs that repeat one another, and SNPs of which some people hold one copy, are counted; time is bounded
Differs   the expected heterozygotes are those of the fitted admixture model, so that ancestry makes no deficit; a
          normal approximation in place of the exact test, at SNPs with enough expected heterozygotes

Symbols   here      shape            meaning
          r²        (pair,)          squared correlation of the residuals of two neighbouring SNPs
          deficit   (SNP,)           heterozygotes below expectation, in standard deviations
          2p(1−p)   (SNP, person)    expected heterozygotes, p = Σ_k q_k f_k
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.admixture.data.genotypes import snps_at_once
from latentfit.admixture.data.stored import AnyGenotypes
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import MISSING, Calls


@dataclass(frozen=True)
class SnpSettings:
    """What is looked at, and from which values on."""

    # Pairs of neighbouring SNPs, and people, that linkage is looked for in.
    neighbours: int = 2_000
    most_people: int = 2_000
    linked: float = 0.8  # Squared correlation of residuals from which two SNPs say the same.
    rarest: int = 5  # Copies of the rarer allele that a SNP needs to be compared: two singletons agree by chance.
    snps_at_once: int = 512
    # Stretches of SNPs in the order of the file that the differences between populations are summed over, and the
    # SNPs that one holds at least.
    stretches: int = 50
    per_stretch: int = 10
    # SNPs whose heterozygotes are counted.
    counted: int = 5_000
    # Standard deviations below expectation from which a SNP lacks heterozygotes: one sound SNP in 30,000.
    lacking: float = 4.0
    # Expected heterozygotes that a SNP, and a person over the lacking SNPs, need to be judged.
    least_expected: float = 5.0
    # Fraction of the expected heterozygotes below which a person holds one copy of the lacking SNPs.
    one_copy: float = 0.1
    # Fraction of people from which those with one copy are a group: a sex, or inbred lines.
    group: float = 0.05


SNPS = SnpSettings()


@dataclass(frozen=True)
class Linkage:
    """Of neighbouring SNPs in the file: the fraction that say the same, and the mean r² less what chance makes."""

    fraction: float
    mean: float


@dataclass(frozen=True)
class Heterozygotes:
    """SNPs that lack heterozygotes, and people who have none at them.

    Attributes
    ----------
    lacking : float
        Fraction of the SNPs with fewer heterozygotes than the model expects.
    one_copy : float
        Fraction of the people who have (almost) no heterozygous call at these SNPs.
    elsewhere : float
        Of those people, observed over expected heterozygotes at the other SNPs; 1 where there are none.
    lacking_in_others : float
        Fraction of the SNPs that lack heterozygotes in the other people.
    excess : float
        Fraction of the SNPs with more heterozygotes than the model expects.
    """

    lacking: float = 0.0
    one_copy: float = 0.0
    elsewhere: float = 1.0
    lacking_in_others: float = 0.0
    excess: float = 0.0


def _some_people(n_people: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, n_people - 1, min(SNPS.most_people, n_people)).astype(np.intp))


def linked_neighbours(
    genotypes: AnyGenotypes, places: NDArray[np.intp], proportions: Floats, frequencies: Floats
) -> Linkage:
    """How far neighbouring SNPs in the file (`places`) are correlated beyond what ancestry explains."""
    in_file = np.argsort(places)
    count = min(SNPS.neighbours, len(places) - 1)
    if count < 1:
        return Linkage(0.0, 0.0)
    first = np.unique(np.linspace(0, len(places) - 2, count).astype(np.intp))
    people = _some_people(len(proportions))
    rows = in_file[np.stack([first, first + 1], axis=1)]
    used, at = np.unique(rows, return_inverse=True)
    part = genotypes.take(used, people)
    calls = part.calls_of(0, part.n_snps)
    squared = [
        _squared_correlation(calls, at[some], proportions[people], frequencies[used])
        for some in np.array_split(np.arange(len(at)), -(-len(at) // SNPS.snps_at_once))
    ]
    compared = np.concatenate(squared)
    compared = compared[~np.isnan(compared)]
    if not len(compared):
        return Linkage(0.0, 0.0)
    by_chance = 1 / max(len(people) - proportions.shape[1], 1)
    return Linkage(float((compared > SNPS.linked).mean()), max(float(compared.mean()) - by_chance, 0.0))


def _squared_correlation(calls: Calls, pairs: NDArray[np.intp], proportions: Floats, frequencies: Floats) -> Floats:
    """Of the residuals of two SNPs each (pair,), over people who have both calls; NaN where an allele is too rare."""
    codes = calls[pairs]
    there = (codes != MISSING).all(axis=1)
    left, right = (
        np.where(there, codes[:, side] - 2 * (frequencies[pairs[:, side]] @ proportions.T), 0.0) for side in (0, 1)
    )
    counted = (np.where(there[:, None], codes, 0).sum(axis=2), there.sum(axis=1)[:, None])
    rare = (np.minimum(counted[0], 2 * counted[1] - counted[0]) < SNPS.rarest).any(axis=1)
    cross = (left * right).sum(axis=1) ** 2 / np.maximum((left**2).sum(axis=1) * (right**2).sum(axis=1), 1e-300)
    return np.where(rare, np.nan, cross)


def concentration(frequencies: Floats, places: NDArray[np.intp]) -> tuple[float, tuple[int, int]]:
    """Fraction of the squared difference of two populations that a tenth of the stretches holds; the worst two.

    Populations differ everywhere in the genome. Those that an inversion or another long stretch without recombination
    makes differ there alone. Too few SNPs for twenty stretches say nothing (0).
    """
    n_snps, K = frequencies.shape
    n = min(SNPS.stretches, n_snps // SNPS.per_stretch)
    worst, of = 0.0, (0, min(1, K - 1))
    if n < 20:
        return worst, of
    stretch = np.arange(n_snps) * n // n_snps
    ordered = frequencies[np.argsort(places)]
    for k in range(K):
        for other in range(k):
            sums = np.sort(np.bincount(stretch, (ordered[:, k] - ordered[:, other]) ** 2))
            fraction = float(sums[-(n // 10) :].sum() / max(float(sums.sum()), 1e-300))
            if fraction > worst:
                worst, of = fraction, (other, k)
    return worst, of


def few_snps(frequencies: Floats) -> tuple[float, tuple[int, int]]:
    """Fraction of the squared difference of two populations that a tenth of the SNPs holds; the worst two.

    Differences are relative to p(1 − p), so that drift makes them χ² with one degree of freedom, of which the largest
    tenth holds 44 %. Alleles that were counted the other way round in one batch differ alone.
    """
    n_snps, K = frequencies.shape
    worst, of = 0.0, (0, min(1, K - 1))
    if n_snps < 10 * SNPS.per_stretch:
        return worst, of
    for k in range(K):
        for other in range(k):
            mean = (frequencies[:, k] + frequencies[:, other]) / 2
            differences = np.sort(
                (frequencies[:, k] - frequencies[:, other]) ** 2 / np.maximum(mean * (1 - mean), 1e-3)
            )
            fraction = float(differences[-(n_snps // 10) :].sum() / max(float(differences.sum()), 1e-300))
            if fraction > worst:
                worst, of = fraction, (other, k)
    return worst, of


def count_heterozygotes(genotypes: AnyGenotypes, proportions: Floats, frequencies: Floats) -> Heterozygotes:
    """Heterozygous calls beside those that the fitted model expects; SNPs are in an order of no meaning."""
    n_snps, people = min(SNPS.counted, genotypes.n_snps), _some_people(len(proportions))
    heterozygous = np.empty((n_snps, len(people)), bool)
    expected = np.empty((n_snps, len(people)), np.float32)
    size = snps_at_once(genotypes.n_samples, 1, SNPS.snps_at_once)
    for begin in range(0, n_snps, size):
        rows = slice(begin, min(begin + size, n_snps))
        calls = genotypes.calls_of(rows.start, rows.stop)[:, people]
        p = np.clip(frequencies[rows] @ proportions[people].T, 0, 1)
        heterozygous[rows], expected[rows] = calls == 1, np.where(calls == MISSING, 0.0, 2 * p * (1 - p))
    judged, lacking, too_many = _departing(heterozygous, expected)
    excess = float(too_many.mean())
    if not lacking.any():
        return Heterozygotes(excess=excess)
    own = expected[lacking].sum(axis=0)
    one_copy = (heterozygous[lacking].sum(axis=0) < SNPS.one_copy * own) & (own >= SNPS.least_expected)
    if one_copy.mean() < SNPS.group:
        return Heterozygotes(float(lacking.mean()), 0.0, 1.0, float(lacking.mean()), excess)
    rest = ~lacking & judged
    there = float(expected[np.ix_(rest, one_copy)].sum())
    elsewhere = float(heterozygous[np.ix_(rest, one_copy)].sum()) / there if there > SNPS.least_expected else 1.0
    in_others = _departing(heterozygous[:, ~one_copy], expected[:, ~one_copy])[1]
    return Heterozygotes(float(lacking.mean()), float(one_copy.mean()), elsewhere, float(in_others.mean()), excess)


def _departing(heterozygous: NDArray[np.bool_], expected: NDArray[np.float32]) -> tuple[NDArray[np.bool_], ...]:
    """SNPs (SNP,) with enough expected heterozygotes to be judged, and those with too few and with too many."""
    mean = expected.sum(axis=1, dtype=np.float64)
    variance = mean - (expected * expected).sum(axis=1, dtype=np.float64)
    judged = mean >= SNPS.least_expected
    deficit = (mean - heterozygous.sum(axis=1)) / np.sqrt(np.maximum(variance, 1e-12))
    return judged, judged & (deficit > SNPS.lacking), judged & (deficit < -SNPS.lacking)
