"""Relatives among the people of a panel, and linkage among its SNPs: what the admixture model takes for independent.

Papers    Manichaikul et al. 2010 (KING-robust): kinship of two people from their calls alone, whatever population they
          belong to; Garcia-Erausquin & Albrechtsen 2020 (evalAdmix): what a fit leaves correlated is no ancestry
Needs     some hundred SNPs; calls in Hardy-Weinberg proportions within a population
Promises  unrelated people of one population have kinship 0 on average, of different ones less; full sibs, and parents
          with their children, 1/4; copies of one person 1/2. Time and memory are bounded whatever the panel
Differs   kinship does not use the fit: a family that was given a population of its own leaves no correlated residuals.
          First crosses of distant populations are heterozygous alike: heterozygosity above the pooled one is taken off

Symbols   kinship   (person, person)  1/2 − Σ(gᵢ − gⱼ)² / 2(Hᵢ + Hⱼ), H a person's heterozygous calls
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from latentfit.admixture.data.genotypes import snps_at_once
from latentfit.admixture.data.stored import AnyGenotypes
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import MISSING, Calls

KINSHIP_SNPS, KINSHIP_PEOPLE = 5_000, 1_500
"""SNPs and people among whom kinship is looked for: about a second of work. Of more people those are looked at who
have most of each population: a family with a population of its own is among them."""
CLOSE = 2**-2.5
"""Kinship from which two people are close relatives: halfway between first and second degree (Manichaikul et al.)."""
COPY = 2**-1.5
"""Kinship from which two samples are one person, or identical twins."""
SAME = 0.45
"""Kinship from which nothing is taken off for heterozygosity: one person twice, with a few wrong calls, stays above."""
SECOND_DEGREE = 2**-3.5
"""Mean kinship from which a population's people are a family: halfway between second and third degree. A mean over many
pairs shows half-sibs, and full sibs at few SNPs, whose single pairs are unsure."""
SURE_OF_MEAN = 2.0
"""Standard errors of one pair that a mean kinship must reach: pairs share people, so the mean is not much surer."""
FEWEST_MEMBERS = 5
"""People with most of their genome from a population whose mean kinship is looked at."""
CERTAIN = 6.0
"""Standard errors of an unrelated pair that a kinship must reach: none of a million pairs does by chance."""
IDENTICAL_CALLS = 500
"""Calls without a difference that make two samples one, where heterozygous calls are too few to say (inbred lines)."""
NEIGHBOURS, LINKAGE_PEOPLE = 2_000, 2_000
"""Pairs of neighbouring SNPs, and people, that linkage is looked for in."""
LINKED = 0.8
"""Squared correlation of residuals from which two SNPs say the same."""
RAREST = 5
"""Copies of the rarer allele that a SNP needs to be compared: two singletons agree by chance."""
_SNPS_AT_ONCE = 512


@dataclass(frozen=True)
class Kinship:
    """Close relatives: pairs (pair, 2) of places in the panel, their kinships (pair,), and who was looked at.

    `within` (population,) is the mean kinship of those with most of their genome from a population, 0 where they are
    too few; `error` (population,) the standard error of one such pair.
    """

    pairs: NDArray[np.intp]
    values: Floats
    people: NDArray[np.intp]
    within: Floats
    error: Floats

    @property
    def n_copies(self) -> int:
        """Pairs of samples that are one person."""
        return int((self.values > COPY).sum())

    @property
    def is_family(self) -> NDArray[np.bool_]:
        """Populations (population,) whose people are relatives of one another on average."""
        return np.asarray(self.within > np.maximum(SECOND_DEGREE, SURE_OF_MEAN * self.error))

    def families(self) -> list[NDArray[np.intp]]:
        """People who are relatives, or relatives of relatives; the largest family first."""
        ends = np.searchsorted(self.people, self.pairs)  # people are in order
        size = len(self.people)
        graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
        _, family = connected_components(graph, directed=False)
        large = np.flatnonzero(np.bincount(family) > 1)
        return sorted((self.people[family == one] for one in large), key=len, reverse=True)

    def unrelated(self, shares: Floats) -> Floats:
        """How many unrelated people would tell the frequencies of each population (population,) as well.

        People count by their share w of it. A frequency's variance goes with wᵀRw / (Σw)², where R is twice the
        kinship, one on the diagonal: the people's worth of genomes Σw is deflated by wᵀw / wᵀRw.
        """
        left, right = shares[self.pairs[:, 0]], shares[self.pairs[:, 1]]
        own = (shares**2).sum(axis=0)
        related = 4 * (left * right * np.minimum(self.values, 0.5)[:, None]).sum(axis=0)  # both triangles of 2 kinship
        return np.asarray(shares.sum(axis=0) * own / np.maximum(own + related, 1e-300))


def close_relatives(genotypes: AnyGenotypes, shares: Floats) -> Kinship:
    """Pairs of close relatives in a panel whose SNPs are in an order of no meaning: the first ones are a sample."""
    people = _people_to_compare(shares)
    n, n_snps = len(people), min(KINSHIP_SNPS, genotypes.n_snps)
    # sums of whole numbers below 2^24: exact in single precision, whatever their order
    apart, hets, both = (np.zeros((n, n), np.float32) for _ in range(3))
    own, expected = np.zeros(n), np.zeros(n)
    pooled = 2 * genotypes.means[:n_snps] * (1 - genotypes.means[:n_snps])
    size = snps_at_once(genotypes.n_samples, 1, _SNPS_AT_ONCE)
    for begin in range(0, n_snps, size):
        end = min(begin + size, n_snps)
        codes = genotypes.calls_of(begin, end)[:, people]
        there = codes != MISSING
        g, het = np.where(there, codes, 0).astype(np.float32), (codes == 1).astype(np.float32)
        if there.all():
            squares, het_of, shared = (g * g).sum(axis=0)[:, None], het.sum(axis=0)[:, None], np.float32(end - begin)
        else:
            m = there.astype(np.float32)
            squares, het_of, shared = (g * g).T @ m, het.T @ m, m.T @ m
        apart += squares + squares.T - 2 * (g.T @ g)
        hets += het_of + het_of.T
        both += shared
        own += het.sum(axis=0)
        expected += pooled[begin:end] @ there
    surplus = own - expected - 2 * np.sqrt(expected)  # what chance does not explain
    taken_off = np.maximum(surplus[:, None] + surplus, 0) / np.maximum(own[:, None] + own, 1)
    kinship = 0.5 - apart / np.maximum(2 * hets, 1)
    kinship = np.where(kinship > SAME, kinship, kinship - taken_off)
    weight = float((pooled**2).sum()) / max(float(pooled.sum()), 1e-300)
    error = np.sqrt(3 * weight / np.maximum(2 * hets, 1e-9))  # of an unrelated pair: Var(Σ) = 3 Σ(2pq)²
    related = kinship > np.maximum(CLOSE, CERTAIN * error)
    identical = (apart == 0) & (both >= IDENTICAL_CALLS)
    kinship[identical] = 0.5
    pairs = np.argwhere(np.triu(related | identical, 1))
    within, unsure = _within(kinship, error, shares[people])
    return Kinship(people[pairs], np.asarray(kinship[pairs[:, 0], pairs[:, 1]], np.float64), people, within, unsure)


def _within(kinship: Floats, error: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Mean kinship and mean error of a pair among those with most of their genome from each population."""
    within, unsure = np.zeros((2, shares.shape[1]))
    for k, most in enumerate((shares > 0.5).T):
        members = np.flatnonzero(most)
        if len(members) >= FEWEST_MEMBERS:
            pairs = np.ix_(members, members)
            upper = np.triu_indices(len(members), 1)
            within[k], unsure[k] = kinship[pairs][upper].mean(), error[pairs][upper].mean()
    return within, unsure


def _people_to_compare(shares: Floats) -> NDArray[np.intp]:
    """Everyone, or as many as can be compared: those with most of each population."""
    n, K = shares.shape
    if n <= KINSHIP_PEOPLE:
        return np.arange(n)
    return np.unique(np.argsort(-shares, axis=0, kind="stable")[: KINSHIP_PEOPLE // K])


def linked_neighbours(genotypes: AnyGenotypes, places: NDArray[np.intp], shares: Floats, frequencies: Floats) -> float:
    """Of SNPs that are neighbours in the file (`places`), the share that say the same beyond what ancestry explains."""
    in_file = np.argsort(places)
    count = min(NEIGHBOURS, len(places) - 1)
    if count < 1:
        return 0.0
    first = np.unique(np.linspace(0, len(places) - 2, count).astype(np.intp))
    people = np.unique(np.linspace(0, len(shares) - 1, min(LINKAGE_PEOPLE, len(shares))).astype(np.intp))
    rows = in_file[np.stack([first, first + 1], axis=1)]
    used, at = np.unique(rows, return_inverse=True)
    part = genotypes.take(used, people)
    calls = part.calls_of(0, part.n_snps)
    shared = [
        _squared_correlation(calls, at[some], shares[people], frequencies[used])
        for some in np.array_split(np.arange(len(at)), -(-len(at) // _SNPS_AT_ONCE))
    ]
    compared = np.concatenate(shared)
    compared = compared[~np.isnan(compared)]
    return float((compared > LINKED).mean()) if len(compared) else 0.0


def _squared_correlation(calls: Calls, pairs: NDArray[np.intp], shares: Floats, frequencies: Floats) -> Floats:
    """Of the residuals of two SNPs each (pair,), over people who have both calls; NaN where an allele is too rare."""
    codes = calls[pairs]
    there = (codes != MISSING).all(axis=1)
    left, right = (
        np.where(there, codes[:, side] - 2 * (frequencies[pairs[:, side]] @ shares.T), 0.0) for side in (0, 1)
    )
    counted = (np.where(there[:, None], codes, 0).sum(axis=2), there.sum(axis=1)[:, None])
    rare = (np.minimum(counted[0], 2 * counted[1] - counted[0]) < RAREST).any(axis=1)
    cross = (left * right).sum(axis=1) ** 2 / np.maximum((left**2).sum(axis=1) * (right**2).sum(axis=1), 1e-300)
    return np.where(rare, np.nan, cross)
