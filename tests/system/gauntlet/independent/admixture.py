"""Panels of genotypes as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import pandas as pd

from latentfit import Admixture
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator
Drawn = tuple[np.ndarray | pd.DataFrame, np.ndarray | None]
"""The genotypes (person, SNP), and the true ancestry (person, population) where there is one."""


def fit(draw: Callable[[Generator], Drawn], n_populations: int | None, seed: int) -> Admixture:
    """Draw a panel and fit it with default settings."""
    rng = np.random.default_rng([seed, *draw.__name__.encode()])
    return Admixture(n_populations).fit(draw(rng)[0])


def frequencies(
    rng: Generator, n_populations: int, n_snps: int, fst: float, ancestral: np.ndarray | None = None
) -> np.ndarray:
    """Balding–Nichols frequencies (population, SNP) around ancestral ones, uniform in [.05, .95] by default."""
    mean = rng.uniform(0.05, 0.95, n_snps) if ancestral is None else ancestral
    scale = (1 - fst) / fst
    return rng.beta(mean * scale, (1 - mean) * scale, (n_populations, n_snps))


def pure(sizes: Sequence[int]) -> np.ndarray:
    """Ancestry of people of one population each."""
    return np.repeat(np.eye(len(sizes)), sizes, axis=0)


def genotypes(rng: Generator, ancestry: np.ndarray, freq: np.ndarray) -> np.ndarray:
    """Unlinked genotypes in Hardy–Weinberg proportions."""
    return rng.binomial(2, np.clip(ancestry @ freq, 0, 1)).astype(np.int8)


def with_missing(rng: Generator, calls: np.ndarray, proportion: float) -> np.ndarray:
    """Calls that failed at random, marked −1."""
    return np.where(rng.random(calls.shape) < proportion, -1, calls).astype(np.int8)


# ---------------------------------------------------------------- sound


def two_continents(rng: Generator) -> Drawn:
    """Two source populations of uneven size and thirty admixed people."""
    ancestry = np.vstack([pure([80, 30]), rng.dirichlet([4, 1], 30)])
    return genotypes(rng, ancestry, frequencies(rng, 2, 1500, 0.1)), ancestry


def three_uneven(rng: Generator) -> Drawn:
    """Three populations of 90, 40 and 15 people, twenty admixed, two per cent of the calls failed."""
    ancestry = np.vstack([pure([90, 40, 15]), rng.dirichlet([1, 1, 1], 20)])
    return with_missing(rng, genotypes(rng, ancestry, frequencies(rng, 3, 2000, 0.1)), 0.02), ancestry


def islands(rng: Generator) -> Drawn:
    """Three distant islands, forty people each, nobody admixed; the number is not known."""
    ancestry = pure([40, 40, 40])
    return genotypes(rng, ancestry, frequencies(rng, 3, 400, 0.3)), ancestry


def informative_markers(rng: Generator) -> Drawn:
    """Three hundred ancestry-informative markers, a hundred people of a recently admixed town, a frame with names."""
    ancestry = np.vstack([pure([20, 20]), rng.dirichlet([1.5, 1.5], 80)])
    calls = genotypes(rng, ancestry, frequencies(rng, 2, 300, 0.4))
    names = [f"NA{i:05d}" for i in range(len(calls))]
    return pd.DataFrame(calls, index=names, columns=[f"rs{1000 + j}" for j in range(300)]), ancestry


def rare_variants(rng: Generator) -> Drawn:
    """A neutral spectrum: most SNPs are rare, some have one allele only."""
    ancestral = 0.01 * 50 ** rng.random(3000)
    ancestry = np.vstack([pure([60, 40]), rng.dirichlet([1, 1], 30)])
    return genotypes(rng, ancestry, frequencies(rng, 2, 3000, 0.12, ancestral)), ancestry


def two_chips(rng: Generator) -> Drawn:
    """Half of the people on another chip: a fifth of the SNPs is on the first only, a fifth on the second only."""
    ancestry = np.vstack([pure([50, 50]), rng.dirichlet([1, 1], 40)])
    calls = genotypes(rng, ancestry, frequencies(rng, 2, 1500, 0.1))
    second = rng.random(len(calls)) < 0.5
    calls[np.ix_(second, np.arange(300))] = -1
    calls[np.ix_(~second, np.arange(1200, 1500))] = -1
    return calls, ancestry


# ---------------------------------------------------------------- unsound


def one_population(rng: Generator) -> Drawn:
    """Random mating, nothing to find."""
    return genotypes(rng, np.ones((120, 1)), rng.uniform(0.05, 0.95, (1, 800))), None


def children(rng: Generator, mothers: np.ndarray, fathers: np.ndarray) -> np.ndarray:
    """One child per couple, SNPs unlinked."""
    return (rng.binomial(1, mothers / 2) + rng.binomial(1, fathers / 2)).astype(np.int8)


def families(rng: Generator) -> Drawn:
    """One population; three large families make half of the sample."""
    freq = rng.uniform(0.05, 0.95, (1, 1200))
    parts = [genotypes(rng, np.ones((50, 1)), freq)]
    for _ in range(3):
        mother, father = genotypes(rng, np.ones((2, 1)), freq)
        parts += [np.stack([mother, father]), *(children(rng, mother, father)[None] for _ in range(14))]
    return np.vstack(parts), None


def duplicated_people(rng: Generator) -> Drawn:
    """One population; two samples were genotyped fifteen times each, with a few errors."""
    calls = genotypes(rng, np.ones((60, 1)), rng.uniform(0.05, 0.95, (1, 1000)))
    again = np.repeat(calls[:2], 15, axis=0)
    wrong = rng.random(again.shape) < 0.003
    again[wrong] = rng.integers(0, 3, wrong.sum())
    return np.vstack([calls, again]), None


def linked(rng: Generator) -> Drawn:
    """One population; twelve hundred SNPs of four inversions, one haplotype block each."""
    blocks = rng.choice(2, size=(2, 100, 4), p=[0.6, 0.4])
    block = np.repeat(np.arange(4), 300)
    freq = np.where(rng.random((2, 1200)) < 0.5, 0.1, 0.9)
    calls = [rng.binomial(1, freq[blocks[copy][:, block], np.arange(1200)]) for copy in range(2)]
    return (calls[0] + calls[1]).astype(np.int8), None


def sex_chromosome(rng: Generator) -> Drawn:
    """One population; all SNPs are on the X chromosome, and men are written as homozygous."""
    freq = rng.uniform(0.05, 0.95, 1000)
    women = rng.binomial(2, freq, (60, 1000))
    men = 2 * rng.binomial(1, freq, (60, 1000))
    return np.vstack([women, men]).astype(np.int8)[rng.permutation(120)], None


def flipped_batch(rng: Generator) -> Drawn:
    """One population; the second half of the file counts the other allele at one SNP in eight."""
    calls = genotypes(rng, np.ones((120, 1)), rng.uniform(0.05, 0.95, (1, 1200)))
    flipped = rng.random(1200) < 0.125
    calls[np.ix_(np.arange(60, 120), flipped)] = 2 - calls[np.ix_(np.arange(60, 120), flipped)]
    return calls, None


def six_people(rng: Generator) -> Drawn:
    """Six people of three close populations, 150 SNPs."""
    ancestry = rng.dirichlet([1, 1, 1], 6)
    return genotypes(rng, ancestry, frequencies(rng, 3, 150, 0.05)), ancestry


def twenty_snps(rng: Generator) -> Drawn:
    """Two hundred people, twenty SNPs, close populations."""
    ancestry = rng.dirichlet([0.5, 0.5, 0.5], 200)
    return genotypes(rng, ancestry, frequencies(rng, 3, 20, 0.05)), ancestry


def everybody_mixed(rng: Generator) -> Drawn:
    """Three sources, and nobody has more than about a half of one of them."""
    ancestry = rng.dirichlet([15, 15, 15], 100)
    return genotypes(rng, ancestry, frequencies(rng, 3, 1500, 0.15)), ancestry


def too_few_asked(rng: Generator) -> Drawn:
    """Six populations, two asked for."""
    return genotypes(rng, pure([25] * 6), frequencies(rng, 6, 1200, 0.12)), None


def presence_only(rng: Generator) -> Drawn:
    """Dominant markers: a band is seen (1) or not (0), whether there are one or two copies."""
    ancestry = np.vstack([pure([50, 40]), rng.dirichlet([1, 1], 30)])
    return np.minimum(genotypes(rng, ancestry, frequencies(rng, 2, 1000, 0.15)), 1), ancestry


def chips_without_overlap(rng: Generator) -> Drawn:
    """Half of the people have calls at the first 700 SNPs, the other half at the last 700."""
    ancestry = rng.dirichlet([0.4, 0.4], 120)
    calls = genotypes(rng, ancestry, frequencies(rng, 2, 1400, 0.12))
    calls[:60, 700:] = -1
    calls[60:, :700] = -1
    return calls, ancestry


# ---------------------------------------------------------------- real and simulated panels of the data folder

FOLDER = data_folder()
HAPMAP = "hapmap3_324"


@cache
def hapmap() -> np.ndarray:
    """Allele counts of 324 people, one-allele SNPs dropped."""
    assert FOLDER is not None
    with gzip.open(FOLDER / "genetics" / f"{HAPMAP}.bed.gz") as file:
        packed = np.frombuffer(file.read(), dtype=np.uint8)[3:].reshape(-1, 81)
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], dtype=np.uint8) & 3).reshape(len(packed), -1)[:, :324]
    calls = np.array([2, -1, 1, 0], dtype=np.int8)[codes].T
    return calls[:, calls.min(axis=0) != calls.max(axis=0)]


def hapmap_labels() -> np.ndarray:
    """The group of each person of the panel."""
    assert FOLDER is not None
    return pd.read_csv(FOLDER / "genetics" / f"{HAPMAP}.labels.csv")["population"].to_numpy()


def hapmap_panel(rng: Generator) -> Drawn:
    """1,500 SNPs of the four groups."""
    calls = hapmap()
    return calls[:, np.sort(rng.choice(calls.shape[1], 1500, replace=False))], None


def hapmap_one_group(rng: Generator) -> Drawn:
    """1,200 SNPs of the people of Ibadan alone."""
    calls = hapmap()[hapmap_labels() == "YRI"]
    return calls[:, np.sort(rng.choice(calls.shape[1], 1200, replace=False))], None


def hapmap_shuffled(rng: Generator) -> Drawn:
    """A third of these SNPs, each permuted among the people."""
    return rng.permuted(hapmap_panel(rng)[0][:, :500], axis=0), None


def coalescent(rng: Generator) -> Drawn:
    """Fifty people mostly of one of three populations split 4,000 generations ago, 4,000 SNPs."""
    assert FOLDER is not None
    with np.load(FOLDER / "genetics" / "sim_admix_d3_m50_alpha0.1.npz") as file:
        at = np.sort(rng.choice(30_000, 4000, replace=False))
        return file["genotypes"][:, at], file["proportions"]


def coalescent_mixed(rng: Generator) -> Drawn:
    """Fifty people, all of about a third of every population, 4,000 SNPs."""
    assert FOLDER is not None
    with np.load(FOLDER / "genetics" / "sim_admix_d3_m50_alpha10.0.npz") as file:
        at = np.sort(rng.choice(30_000, 4000, replace=False))
        return file["genotypes"][:, at], file["proportions"]


NONE = "no structure|structure|one population|fewer|nothing|chance|noise|not support|found"
RELATED = "relat|famil|kin|duplic|identical|same person|clone|twin"
PURE = "identif|anchor|unadmixed|pure|unique|nobody|no person|at least one|corner|extreme|stand"
FEW = "few|small|too little|standard error|people|SNPs"

SCENARIOS: list[Scenario] = [
    # Sources are sampled, and Fst .1 at 1,500 SNPs is plenty.
    Scenario("two continents and admixed people", partial(fit, two_continents, 2)),
    # Fifteen unadmixed people define the smallest population.
    Scenario("three populations of uneven size", partial(fit, three_uneven, 3)),
    # Islands are as distinct as populations can be; cross-validation finds three.
    Scenario("three islands, number not given", partial(fit, islands, None)),
    # What such markers are made for.
    Scenario("ancestry-informative markers", partial(fit, informative_markers, 2)),
    # Rare alleles add little and do no harm.
    Scenario("mostly rare variants", partial(fit, rare_variants, 2)),
    # The chip does not depend on ancestry, and most SNPs are on both.
    Scenario("two chips that overlap", partial(fit, two_chips, 2)),
    # Populations that do not exist.
    Scenario("one population, three asked for", partial(fit, one_population, 3), WARNED, NONE),
    # Components are families.
    Scenario("three large families", partial(fit, families, 3), WARNED, RELATED),
    # A component is one person.
    Scenario("people genotyped fifteen times", partial(fit, duplicated_people, 2), WARNED, RELATED),
    # Components are inversions.
    Scenario("four inversions", partial(fit, linked, 3), WARNED, "link|LD|correlat|neighbou?r|block|independen"),
    # Components would be the sexes, or standard errors of men are too small.
    Scenario(
        "the X chromosome",
        partial(fit, sex_chromosome, 2),
        WARNED,
        "sex|hetero|homozyg|haploid|Hardy|X chrom|" + NONE,
    ),
    # Components are batches: two sites disagree at some SNPs and nowhere else.
    Scenario(
        "a batch with flipped strands",
        partial(fit, flipped_batch, 2),
        WARNED,
        "half|halves|order|batch|strand|flip|drift|few SNPs|SNPs (alone|drive|carry)|" + NONE,
    ),
    # Standard errors of .3.
    Scenario("six people", partial(fit, six_people, 3), WARNED, FEW),
    # Twenty close SNPs say next to nothing of a person.
    Scenario("twenty SNPs", partial(fit, twenty_snps, 3), WARNED, FEW),
    # Without people near the corners the corners are a guess.
    Scenario("everybody is mixed", partial(fit, everybody_mixed, 3), WARNED, PURE),
    # Six populations do not fit into two.
    Scenario(
        "six populations, two asked for",
        partial(fit, too_few_asked, 2),
        WARNED,
        "more|beyond|residual|left|further|structure|too low|fit",
    ),
    # Frequencies are wrong, genotypes are not binomial.
    Scenario(
        "dominant markers",
        partial(fit, presence_only, 2),
        WARNED,
        "hetero|homozyg|dominan|haploid|Hardy|code|genotype 2|two copies|no 2|only 0|0 and 1|0/1|binomial",
    ),
    # Which population of one half is which of the other cannot be known.
    Scenario(
        "two chips without a common SNP",
        partial(fit, chips_without_overlap, 2),
        WARNED,
        "overlap|missing|share|common|connect|together|separate|part|never|calls",
    ),
]

if FOLDER is not None and (FOLDER / "genetics" / f"{HAPMAP}.bed.gz").is_file():
    SCENARIOS += [
        # The usual example: African, European and American ancestry.
        Scenario("hapmap3, 1,500 SNPs", partial(fit, hapmap_panel, 3)),
        # Unadmixed people of each population are in the sample.
        Scenario("coalescent, mostly unadmixed", partial(fit, coalescent, 3)),
        # One group of one town.
        Scenario("hapmap3, one group, three asked for", partial(fit, hapmap_one_group, 3), WARNED, NONE),
        # No two SNPs are associated any more.
        Scenario("hapmap3, SNPs shuffled", partial(fit, hapmap_shuffled, 3), WARNED, NONE),
        # Nobody has more than about a half of one population.
        Scenario("coalescent, everybody mixed", partial(fit, coalescent_mixed, 3), WARNED, PURE),
    ]
