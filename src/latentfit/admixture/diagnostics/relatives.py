"""Relatives among the people of a panel, whom the admixture model takes for independent.

Paper     Manichaikul et al. 2010 (KING-robust): kinship of two people from their calls alone, whatever population
          they belong to
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
from latentfit.core.kernels.admixture import MISSING


@dataclass(frozen=True)
class RelativesSettings:
    """The search for relatives."""

    # SNPs and people among whom kinship is looked for: about a second of work. Of more people those are looked
    # at who have most of each population: a family with a population of its own is among them.
    kinship_snps: int = 5_000
    kinship_people: int = 1_500
    # Kinship from which two people are close relatives: halfway between first and second degree (Manichaikul et
    # al.).
    close: float = 2**-2.5
    copy: float = 2**-1.5  # Kinship from which two samples are one person, or identical twins.
    # Kinship from which nothing is taken off for heterozygosity: one person twice, with a few wrong calls,
    # stays above.
    same: float = 0.45
    # Mean kinship from which a population's people are a family: halfway between second and third degree. A
    # mean over many pairs shows half-sibs, and full sibs at few SNPs, whose single pairs are unsure.
    second_degree: float = 2**-3.5
    # Standard errors of one pair that a mean kinship must reach: pairs share people, so the mean is not much
    # surer.
    sure_of_mean: float = 2.0
    fewest_members: int = 5  # People with most of their genome from a population whose mean kinship is looked at.
    # Standard errors of an unrelated pair that a kinship must reach: none of a million pairs does by chance.
    certain: float = 6.0
    # SNPs called in both that link two people; without linked people frequencies of one half are not comparable
    # with those of the other. Panels of fewer SNPs need a tenth of them.
    common_snps: int = 20
    # Calls without a difference that make two samples one, where heterozygous calls are too few to say (inbred
    # lines).
    identical_calls: int = 500
    snps_at_once: int = 512


RELATIVES = RelativesSettings()


@dataclass(frozen=True)
class Kinship:
    """Close relatives: pairs (pair, 2) of places in the panel, their kinships (pair,), and who was looked at.

    `within` (population,) is the mean kinship of those with most of their genome from a population, 0 where they are
    too few; `error` (population,) the standard error of one such pair. `n_groups` counts groups of people without a SNP
    that was called in people of two groups.
    """

    pairs: NDArray[np.intp]
    values: Floats
    people: NDArray[np.intp]
    within: Floats
    error: Floats
    n_groups: int = 1

    @property
    def n_duplicates(self) -> int:
        """Pairs of samples that are one person."""
        return int((self.values > RELATIVES.copy).sum())

    @property
    def is_family(self) -> NDArray[np.bool_]:
        """Populations (population,) whose people are relatives of one another on average."""
        return np.asarray(self.within > self.limit_within)

    @property
    def limit_within(self) -> Floats:
        """Mean kinship (population,) above which the people of a population are a family."""
        return np.asarray(np.maximum(RELATIVES.second_degree, RELATIVES.sure_of_mean * self.error))

    @property
    def related(self) -> float:
        """Fraction of the people looked at who have a close relative among them, no copy of themselves."""
        return len(np.unique(self.pairs[self.values <= RELATIVES.copy])) / max(len(self.people), 1)

    @property
    def duplicated(self) -> float:
        """Fraction of the people looked at who are there twice."""
        return len(np.unique(self.pairs[self.values > RELATIVES.copy])) / max(len(self.people), 1)

    def families(self) -> list[NDArray[np.intp]]:
        """People who are relatives, or relatives of relatives; the largest family first."""
        ends = np.searchsorted(self.people, self.pairs)  # people are in order
        size = len(self.people)
        graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
        _, family = connected_components(graph, directed=False)
        large = np.flatnonzero(np.bincount(family) > 1)
        return sorted((self.people[family == one] for one in large), key=len, reverse=True)

    def unrelated(self, proportions: Floats) -> Floats:
        """How many unrelated people would tell the frequencies of each population (population,) as well.

        People count by their proportion w of it. A frequency's variance goes with wᵀRw / (Σw)², where R is twice the
        kinship, one on the diagonal: the people's worth of genomes Σw is deflated by wᵀw / wᵀRw.
        """
        left, right = proportions[self.pairs[:, 0]], proportions[self.pairs[:, 1]]
        own = (proportions**2).sum(axis=0)
        related = 4 * (left * right * np.minimum(self.values, 0.5)[:, None]).sum(axis=0)  # both triangles of 2 kinship
        return np.asarray(proportions.sum(axis=0) * own / np.maximum(own + related, 1e-300))


def close_relatives(genotypes: AnyGenotypes, proportions: Floats) -> Kinship:
    """Pairs of close relatives in a panel whose SNPs are in an order of no meaning: the first ones are a sample."""
    people = _people_to_compare(proportions)
    n, n_snps = len(people), min(RELATIVES.kinship_snps, genotypes.n_snps)
    # sums of whole numbers below 2^24: exact in single precision, whatever their order
    apart, hets, both = (np.zeros((n, n), np.float32) for _ in range(3))
    own, expected = np.zeros(n), np.zeros(n)
    pooled = 2 * genotypes.means[:n_snps] * (1 - genotypes.means[:n_snps])
    size = snps_at_once(genotypes.n_samples, 1, RELATIVES.snps_at_once)
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
    kinship = np.where(kinship > RELATIVES.same, kinship, kinship - taken_off)
    weight = float((pooled**2).sum()) / max(float(pooled.sum()), 1e-300)
    error = np.sqrt(3 * weight / np.maximum(2 * hets, 1e-9))  # of an unrelated pair: Var(Σ) = 3 Σ(2pq)²
    related = kinship > np.maximum(RELATIVES.close, RELATIVES.certain * error)
    identical = (apart == 0) & (both >= RELATIVES.identical_calls)
    kinship[identical] = 0.5
    pairs = np.argwhere(np.triu(related | identical, 1))
    within, unsure = _within(kinship, error, proportions[people])
    linked = both >= min(RELATIVES.common_snps, n_snps / 10)
    n_groups = 1 if linked.all() else int(connected_components(linked, directed=False)[0])
    values = np.asarray(kinship[pairs[:, 0], pairs[:, 1]], np.float64)
    return Kinship(people[pairs], values, people, within, unsure, n_groups)


def _within(kinship: Floats, error: Floats, proportions: Floats) -> tuple[Floats, Floats]:
    """Mean kinship and mean error of a pair among those with most of their genome from each population."""
    within, unsure = np.zeros((2, proportions.shape[1]))
    for k, most in enumerate((proportions > 0.5).T):
        members = np.flatnonzero(most)
        if len(members) >= RELATIVES.fewest_members:
            pairs = np.ix_(members, members)
            upper = np.triu_indices(len(members), 1)
            within[k], unsure[k] = kinship[pairs][upper].mean(), error[pairs][upper].mean()
    return within, unsure


def _people_to_compare(proportions: Floats) -> NDArray[np.intp]:
    """Everyone, or as many as can be compared: those with most of each population."""
    n, K = proportions.shape
    if n <= RELATIVES.kinship_people:
        return np.arange(n)
    return np.unique(np.argsort(-proportions, axis=0, kind="stable")[: RELATIVES.kinship_people // K])
