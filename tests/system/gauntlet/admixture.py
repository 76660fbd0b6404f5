"""Panels of genotypes as geneticists bring them, with the verdict that one of them would give."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latentfit import Admixture
from tests.system.gauntlet.scenario import Scenario

DATA = Path(os.environ.get("LATENTFIT_DATA", Path(__file__).parents[3].parent / "shared" / "data")) / "genetics"
WARNED = ("caution", "not identifiable")
Calls = NDArray[np.int64]


class Panel:
    """Balding–Nichols populations with F_ST, and people of them."""

    def __init__(self, seed: int, n_snps: int = 1_200, K: int = 2, fst: float = 0.1) -> None:
        self.rng = np.random.default_rng(seed)
        pooled, scale = self.rng.uniform(0.05, 0.95, n_snps), (1 - fst) / fst
        self.frequencies = self.rng.beta(scale * pooled, scale * (1 - pooled), (K, n_snps))
        self.n_snps, self.K = n_snps, K

    def people(self, n: int, alpha: float = 0.2) -> Calls:
        return self.of(self.rng.dirichlet(np.full(self.K, alpha), n))

    def of(self, proportions: np.ndarray) -> Calls:
        return self.rng.binomial(2, np.clip(proportions @ self.frequencies, 0, 1))

    def unmixed(self, *sizes: int) -> Calls:
        return self.of(np.repeat(np.eye(self.K), sizes, axis=0))

    def sibs(self, n: int, k: int = 0) -> Calls:
        """Full sibs of two parents of population k."""
        parents = self.rng.binomial(1, self.frequencies[k], (2, 2, self.n_snps))
        at, chosen = np.arange(self.n_snps), self.rng.integers(0, 2, (n, 2, self.n_snps))
        return np.array([parents[0, mother, at] + parents[1, father, at] for mother, father in chosen])


def fitted(calls: np.ndarray, K: int | None = 2) -> Admixture:
    return Admixture(K, n_jobs=1).fit(calls)


# ------------------------------------------------------------------- sound


def two_populations(seed: int) -> Admixture:
    return fitted(Panel(seed).people(130))


def three_unmixed_populations(seed: int) -> Admixture:
    return fitted(Panel(seed, K=3).unmixed(50, 40, 40), 3)


def five_populations(seed: int) -> Admixture:
    return fitted(Panel(seed, K=5, fst=0.15).people(200, 0.1), 5)


def sizes_differ(seed: int) -> Admixture:
    return fitted(Panel(seed, K=3).unmixed(90, 30, 15), 3)


def a_cline_between_two_sources(seed: int) -> Admixture:
    """A hybrid zone: unmixed people at both ends, every mixture between."""
    panel = Panel(seed, fst=0.2)
    first = np.concatenate([np.ones(25), panel.rng.uniform(0, 1, 80), np.zeros(25)])
    return fitted(panel.of(np.column_stack([first, 1 - first])))


def close_populations_and_many_snps(seed: int) -> Admixture:
    return fitted(Panel(seed, 4_000, fst=0.02).unmixed(70, 60))


def a_tenth_of_the_calls_missing(seed: int) -> Admixture:
    panel = Panel(seed)
    calls = panel.people(130).astype(float)
    return fitted(np.where(panel.rng.random(calls.shape) < 0.1, np.nan, calls))


def a_poorly_genotyped_batch(seed: int) -> Admixture:
    """A third of the people lack half of their calls."""
    panel = Panel(seed)
    calls = panel.people(130).astype(float)
    poor = panel.rng.random(130) < 1 / 3
    return fitted(np.where(poor[:, None] & (panel.rng.random(calls.shape) < 0.5), np.nan, calls))


def one_pair_of_sibs(seed: int) -> Admixture:
    panel = Panel(seed)
    return fitted(np.concatenate([panel.people(130), panel.sibs(2)]))


def rare_snps(seed: int) -> Admixture:
    """Half of the SNPs have a minor allele below 5 %."""
    panel = Panel(seed, 2_400)
    panel.frequencies[:, ::2] *= 0.05
    return fitted(panel.people(150))


def number_not_given(seed: int) -> Admixture:
    return fitted(Panel(seed, 600, fst=0.2).people(100, 0.1), None)


def least_squares_of_few_people(seed: int) -> Admixture:
    return fitted(Panel(seed, 3_000, K=2, fst=0.15).people(50, 0.2))


# ----------------------------------------------------------------- unsound


def one_population_taken_for_two(seed: int) -> Admixture:
    return fitted(Panel(seed, K=1).people(130), 2)


def one_population_and_no_number(seed: int) -> Admixture:
    return fitted(Panel(seed, 600, K=1).people(100), None)


def one_population_too_many(seed: int) -> Admixture:
    return fitted(Panel(seed, K=3).people(150), 4)


def two_asked_of_four(seed: int) -> Admixture:
    return fitted(Panel(seed, K=4).people(150, 0.05), 2)


def two_distant_groups_of_two(seed: int) -> Admixture:
    """Each of two distant populations has split again: two is the largest eigengap, but not all there is."""
    panel = Panel(seed, 2_000, K=2, fst=0.3)
    scale = 0.94 / 0.06
    near = np.clip(panel.frequencies, 1e-3, 1 - 1e-3)
    split = panel.rng.beta(scale * near, scale * (1 - near), (2, *near.shape))
    panel.frequencies, panel.K = split.reshape(4, -1), 4
    return fitted(panel.unmixed(35, 35, 35, 35), 2)


def copies_of_one_person(seed: int) -> Admixture:
    calls = Panel(seed).people(130)
    return fitted(np.concatenate([calls, np.repeat(calls[:1], 15, axis=0)]), 3)


def samples_plated_twice(seed: int) -> Admixture:
    """Ten samples were genotyped twice, with one wrong call in two hundred."""
    panel = Panel(seed)
    calls = panel.people(120)
    again = calls[:10].copy()
    wrong = panel.rng.random(again.shape) < 0.005
    again[wrong] = panel.rng.integers(0, 3, int(wrong.sum()))
    return fitted(np.concatenate([calls, again]))


def a_family_of_twenty(seed: int) -> Admixture:
    panel = Panel(seed)
    return fitted(np.concatenate([panel.people(130), panel.sibs(20)]), 3)


def sibs_in_pairs(seed: int) -> Admixture:
    """Twenty-five pairs of sibs among unrelated people: no family is a population, but few people are independent."""
    panel = Panel(seed)
    pairs = [panel.sibs(2, k % 2) for k in range(25)]
    return fitted(np.concatenate([panel.people(80), *pairs]))


def every_snp_twice(seed: int) -> Admixture:
    return fitted(np.repeat(Panel(seed, 600).people(130), 2, axis=1))


def haplotype_blocks(seed: int) -> Admixture:
    """Dense SNPs: each is the one before but for one haplotype in fifteen."""
    panel = Panel(seed)
    origin = (panel.rng.random((130, 2)) < panel.rng.beta(0.2, 0.2, (130, 1)))[..., None].astype(int)
    haplotypes = panel.rng.binomial(1, np.where(origin == 1, panel.frequencies[0], panel.frequencies[1]))
    for at in range(1, panel.n_snps):
        if at % 12:
            kept = panel.rng.random((130, 2)) > 1 / 15
            haplotypes[..., at] = np.where(kept, haplotypes[..., at - 1], haplotypes[..., at])
    return fitted(haplotypes.sum(axis=1))


def an_inversion(seed: int) -> Admixture:
    """One population; 150 of 1,200 neighbouring SNPs lie in an inversion of two arrangements."""
    panel = Panel(seed, K=1)
    calls = panel.people(130)
    arrangement = panel.rng.binomial(1, 0.5, (130, 2))
    allele = panel.rng.binomial(1, 0.5, (2, 150))
    calls[:, 500:650] = allele[arrangement].sum(axis=1)
    return fitted(calls)


def a_fifth_of_the_snps_on_x(seed: int) -> Admixture:
    """Males hold one copy, written as 0 or 2."""
    panel = Panel(seed)
    proportions = panel.rng.dirichlet([0.2, 0.2], 140)
    calls, male = panel.of(proportions), panel.rng.random(140) < 0.5
    calls[male, :240] = 2 * panel.rng.binomial(1, np.clip(proportions @ panel.frequencies, 0, 1)[male, :240])
    return fitted(calls)


def mitochondria(seed: int) -> Admixture:
    """A tenth of the SNPs are on one molecule of the mother."""
    panel = Panel(seed)
    calls = panel.people(140)
    calls[:, :120] = 2 * panel.rng.binomial(1, panel.frequencies[panel.rng.integers(0, 2, 140), :120])
    return fitted(calls)


def inbred_lines(seed: int) -> Admixture:
    panel = Panel(seed)
    origin = panel.rng.integers(0, 2, 120)
    return fitted(2 * panel.rng.binomial(1, panel.frequencies[origin]))


def everybody_mixed_alike(seed: int) -> Admixture:
    return fitted(Panel(seed, 2_000, fst=0.2).people(130, 20.0))


def forty_snps(seed: int) -> Admixture:
    return fitted(Panel(seed, 40).people(130))


def seven_people(seed: int) -> Admixture:
    return fitted(Panel(seed).unmixed(4, 3))


# -------------------------------------------------------------- real panels


def plink(stem: str) -> Calls:
    """Calls (person, SNP) of a gzipped PLINK set; -1 is missing."""
    bim, fam, bed = (gzip.decompress((DATA / f"{stem}.{kind}.gz").read_bytes()) for kind in ("bim", "fam", "bed"))
    lines = [len(text.splitlines()) for text in (bim, fam)]
    packed = np.frombuffer(bed[3:], np.uint8).reshape(lines[0], -1)
    codes = np.stack([(packed >> (2 * place)) & 3 for place in range(4)], axis=2).reshape(lines[0], -1)
    return np.array([2, -1, 1, 0])[codes[:, : lines[1]]].T


def of_hapmap(K: int) -> Callable[[int], Admixture]:
    """A draw of SNPs of the HapMap panel, in their order."""

    def make(seed: int) -> Admixture:
        calls = plink("hapmap3_324")
        chosen = np.sort(np.random.default_rng(seed).choice(calls.shape[1], 2_500, replace=False))
        return fitted(calls[:, chosen], K)

    return make


def of_mosaics(K: int) -> Callable[[int], Admixture]:
    """A draw of SNPs of simulated mosaics of three populations."""

    def make(seed: int) -> Admixture:
        calls = np.load(DATA / "sim_admix_d3_m50_alpha0.1.npz")["genotypes"]
        chosen = np.sort(np.random.default_rng(seed).choice(calls.shape[1], 4_000, replace=False))
        return fitted(calls[:, chosen], K)

    return make


SOUND = [
    two_populations, three_unmixed_populations, five_populations, sizes_differ, a_cline_between_two_sources,
    close_populations_and_many_snps, a_tenth_of_the_calls_missing, a_poorly_genotyped_batch, one_pair_of_sibs,
    rare_snps, number_not_given, least_squares_of_few_people,
]  # fmt: skip
UNSOUND: list[tuple[Callable[[int], Admixture], str]] = [
    (one_population_taken_for_two, "no structure found"),
    (one_population_and_no_number, "no structure found"),
    (one_population_too_many, "do not show 4 populations"),
    (two_asked_of_four, "structure beyond 2"),
    (two_distant_groups_of_two, "structure beyond 2"),
    (copies_of_one_person, "copies of one person"),
    (samples_plated_twice, "duplicates"),
    (a_family_of_twenty, "relatives"),
    (sibs_in_pairs, "relative"),
    (every_snp_twice, "neighbouring SNPs"),
    (haplotype_blocks, "neighbouring SNPs"),
    (an_inversion, "tenth of the genome"),
    (a_fifth_of_the_snps_on_x, "sex_chromosomes"),
    (mitochondria, "mitochondria"),
    (inbred_lines, "heterozygous"),
    (everybody_mixed_alike, "no structure found|extrapolated"),
    (forty_snps, "known to no better|no structure found|do not show"),
    (seven_people, "too few"),
]
SCENARIOS = [Scenario(make.__name__.replace("_", " "), make) for make in SOUND]
SCENARIOS += [Scenario(make.__name__.replace("_", " "), make, WARNED, reason) for make, reason in UNSOUND]
if DATA.exists():
    SCENARIOS += [
        Scenario("HapMap, three populations", of_hapmap(3)),
        Scenario("HapMap, two populations", of_hapmap(2), WARNED, "structure beyond 2"),
        Scenario("mosaics of three populations", of_mosaics(3)),
        Scenario("mosaics of three populations taken for two", of_mosaics(2), WARNED, "structure beyond 2"),
    ]
