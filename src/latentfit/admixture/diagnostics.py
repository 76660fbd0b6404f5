"""Can ancestry proportions be trusted? The verdict, with the numbers behind it.

`not identifiable` when a population's frequencies are a mixture of the others', so that no proportions are right.
`caution` when the calls do not show K populations above their noise (the eigengap) or show more without an eigengap
at K, when a population rests on few people or on one another's relatives, when it has neither anchors (people at its
vertex of the simplex) nor people on the opposite face (proportions are then known up to a stretch of the simplex only),
when a person's own calls leave proportions wide, when neighbouring SNPs are linked, when another initialisation ends
elsewhere, or when EM did not converge. More than K populations beyond an eigengap at K are no finding: linked SNPs and
relatives make directions too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from latentfit.admixture.data.genotypes import snps_at_once
from latentfit.admixture.data.stored import AnyGenotypes
from latentfit.core.assign import mean_distance
from latentfit.core.kernels import Floats
from latentfit.core.kernels.admixture import MISSING, Calls
from latentfit.core.verdict import Examination, Examiner


@dataclass(frozen=True)
class AncestryLimits:
    """Limits of the checks."""

    # People's worth of genomes a population should have: with fewer, a frequency of one half is known to ± 22
    # points.
    least_people: float = 10.0
    # The last direction used must exceed the next by this many spans of the five after it: in 100 panels
    # without structure noise reached 0.92.
    eigengap: float = 1.5
    after: int = 5  # Directions whose span measures noise.
    # Proportion above which a person is an anchor of a population, and below which on its face.
    anchor: float = 0.9
    on_face: float = 0.02
    # Anchors, and the fraction of people who are anchors or on the face, that determine a population: where
    # everybody is mixed the fitted simplex shrinks to the people, and one in twenty seems to be an anchor.
    least_anchors: int = 5
    least_fraction: float = 0.1
    wide: float = 0.1  # Median standard error of a person's proportions from which they are called wide.
    apart: float = 0.05  # Mean difference of proportions between two initialisations that is reported.
    # Smallest singular value of the populations' frequencies, relative to the largest, below which one mixes
    # others.
    dependent: float = 1e-3
    # Relatives are reported where they leave a population less than this fraction of its people's worth of
    # genomes; families of three (parents and a child) leave .6.
    deflated: float = 0.5
    # Fraction of neighbouring SNPs that may be linked: of all common SNPs of coalescents 17 to 21 % are, of one
    # in 8,000 bases 7 to 9 %, of the thinned HapMap panel 0.1 %.
    linked_fraction: float = 0.12


LIMITS = AncestryLimits()


def examine_ancestry(
    proportions: Floats,
    frequencies: Floats,
    errors: Floats,
    spectrum: Floats,
    *,
    converged: bool,
    refit: Callable[[], tuple[Floats, float]] | None,
    log_likelihood: float,
    kinship: Kinship,
    linked: float,
    names: list[str],
) -> Examination:
    """Diagnose a fit: `errors` are the standard errors of `proportions`, `refit` gives another fit's answer.

    `linked` is the fraction of neighbouring SNPs in linkage, `names` are the people's.
    """
    examiner = Examiner()
    n_people, K = proportions.shape
    widest = errors.max(axis=1)
    people = proportions.sum(axis=0)
    examiner.quantities |= {
        "n_people": n_people,
        "n_snps": len(frequencies),
        "people_per_population": people.tolist(),
        "standard_error": float(np.median(widest)),
        "spectrum": spectrum.tolist(),
        "distance": distances(frequencies).tolist(),
    }
    if K > 1:
        _examine_populations(examiner, proportions, frequencies, spectrum)
    if people.min() < LIMITS.least_people:
        k = int(people.argmin())
        examiner.doubt(
            "caution",
            f"Population {k} rests on {people[k]:.1f} people's worth of genomes, fewer than {LIMITS.least_people:.0f}; "
            "bring more people, or ask for fewer populations.",
        )
    if K > 1 and np.median(widest) > LIMITS.wide:
        examiner.doubt(
            "caution",
            f"Half of the people's proportions are known to no better than ± {np.median(widest):.2f}; bring more SNPs, "
            "or populations further apart.",
        )
    _examine_relatives(examiner, proportions, kinship, names)
    examiner.quantities |= {"linked_neighbours": linked}
    if linked > LIMITS.linked_fraction:
        examiner.doubt(
            "caution",
            f"{linked:.0%} of neighbouring SNPs say the same (squared correlation above {RELATIVES.linked:g} beyond "
            "ancestry): there is less evidence than it seems, and a stretch of linked SNPs can pass for a population; "
            "thin the SNPs first, for example by plink2 --indep-pairwise 50 10 0.1.",
        )
    examiner.check_converged(converged, "EM", "figures")
    if refit is not None and K > 1:
        _examine_other_start(examiner, proportions, log_likelihood, *refit())
    return examiner.conclude()


def _examine_populations(examiner: Examiner, proportions: Floats, frequencies: Floats, spectrum: Floats) -> None:
    K = proportions.shape[1]
    values = np.linalg.svd(frequencies - frequencies.mean(axis=0), compute_uv=False)
    if values[-1] < LIMITS.dependent * values[0]:
        examiner.doubt(
            "not identifiable",
            f"The frequencies of the {K} populations are mixtures of one another's, so proportions have no one answer; "
            "ask for fewer populations.",
        )
    gap, seen = eigengap(spectrum, K), populations_seen(spectrum)
    examiner.quantities |= {"gap": gap, "populations_seen": seen}
    if not gap > LIMITS.eigengap and seen > K:
        examiner.doubt(
            "caution",
            f"There is structure beyond {K} populations: the singular values show {seen}, and none of them stands out "
            f"as the last of {K}; ask for {seen}, or read these {K} as a coarse grouping.",
        )
    elif not gap > LIMITS.eigengap:
        examiner.doubt(
            "caution",
            f"The calls do not show {K} populations above their noise (eigengap {gap:.2f}, noise reaches "
            f"{LIMITS.eigengap:g}); ask for fewer populations, or bring more SNPs and people.",
        )
    anchors, face = (proportions > LIMITS.anchor).sum(axis=0), (proportions < LIMITS.on_face).mean(axis=0)
    loose = np.flatnonzero(
        (anchors < max(LIMITS.least_anchors, LIMITS.least_fraction * len(proportions))) & (face < LIMITS.least_fraction)
    )
    if len(loose):
        k = int(loose[0])
        examiner.doubt(
            "caution",
            f"{anchors[k]} people are mostly of population {k} and {face[k]:.0%} are free of it: its frequencies are "
            "extrapolated, and proportions may be stretched; bring people of less mixed descent.",
        )


def _examine_relatives(examiner: Examiner, proportions: Floats, kinship: Kinship, names: list[str]) -> None:
    people, unrelated, families = proportions.sum(axis=0), kinship.unrelated(proportions), kinship.families()
    examiner.quantities |= {
        "unrelated_per_population": unrelated.tolist(),
        "related_pairs": len(kinship.pairs),
        "copies": kinship.n_duplicates,
        "families": [len(family) for family in families],
        "compared_for_kinship": len(kinship.people),
        "kinship_within_population": kinship.within.tolist(),
    }
    left = unrelated / np.maximum(people, 1e-300)
    k = int(left.argmin())
    if left[k] < LIMITS.deflated:
        fraction = [float(proportions[family, k].sum()) for family in families]
        largest = families[int(np.argmax(fraction))]
        what = "copies of one person" if kinship.n_duplicates * 2 > len(kinship.pairs) else "close relatives"
        examiner.doubt(
            "caution",
            f"Population {k} rests on relatives: {people[k]:.1f} people's worth of genomes tell as much as "
            f"{unrelated[k]:.1f} unrelated people would; {len(largest)} people are {what} ({names[largest[0]]}, "
            f"{names[largest[1]]} …). Keep one person of each family, for example by plink2 --king-cutoff 0.177.",
        )
    elif kinship.is_family.any():
        k = int(np.where(kinship.is_family, kinship.within, -np.inf).argmax())
        examiner.doubt(
            "caution",
            f"Population {k} rests on relatives: the people who are mostly of it have a mean kinship of "
            f"{kinship.within[k]:.2f} (half-sibs have 0.125, unrelated people 0). Keep one person of each family, for "
            "example by plink2 --king-cutoff 0.0884.",
        )


def _examine_other_start(
    examiner: Examiner, proportions: Floats, value: float, other: Floats, other_value: float
) -> None:
    moved = mean_distance(proportions, other)
    examiner.quantities |= {"other_start_moved": moved, "other_start_gain": other_value - value}
    if moved > LIMITS.apart and other_value > value - 1e-5 * abs(value):
        examiner.doubt(
            "caution",
            f"Another initialisation fits as well (objective {other_value:,.1f} beside {value:,.1f}) and moves "
            f"proportions by {moved:.2f} on average; ask for fewer populations, or compare several random_state.",
        )


# ----------------------------------------------------------------- quantities


def eigengap(spectrum: Floats, n_populations: int) -> float:
    """How far the last wanted singular value exceeds the next, in spans of the `LIMITS.after` that follow."""
    last, rest = n_populations - 2, spectrum[n_populations - 1 :]
    if len(rest) < 3:
        return 0.0
    span = float(rest[0] - rest[min(LIMITS.after, len(rest) - 1)])
    return float(spectrum[last] - rest[0]) / max(span, 1e-12 * float(spectrum[0]), 1e-300)


def populations_seen(spectrum: Floats) -> int:
    """The largest number of populations whose last singular value exceeds the noise after it; 1 if none does."""
    return max(
        (K for K in range(2, len(spectrum) - LIMITS.after + 1) if eigengap(spectrum, K) > LIMITS.eigengap), default=1
    )


def standard_errors(proportions: Floats, information: Floats) -> Floats:
    """Standard errors (person, population) of each person's proportions along the simplex, frequencies taken as known.

    `information` (person, population, population) is minus the Hessian of every person.
    """
    K = proportions.shape[1]
    basis = np.linalg.qr(np.column_stack([np.ones(K), np.eye(K)[:, : K - 1]]))[0][:, 1:]
    inner = np.einsum("ka,nkl,lb->nab", basis, information, basis)
    inner = inner + 1e-9 * np.trace(inner, axis1=1, axis2=2)[:, None, None] * np.eye(K - 1) + 1e-12 * np.eye(K - 1)
    covariance = np.einsum("ka,nab,kb->nk", basis, np.linalg.inv(inner), basis)
    return np.asarray(np.minimum(np.sqrt(covariance), 1.0))


def distances(frequencies: Floats) -> Floats:
    """Plug-in F_ST (population, population): squared differences over what one allele of each would differ by."""
    K = frequencies.shape[1]
    out = np.zeros((K, K))
    for k in range(K):
        for l in range(k):
            a, b = frequencies[:, k], frequencies[:, l]
            apart = float((a * (1 - b) + b * (1 - a)).sum())
            out[k, l] = out[l, k] = float(((a - b) ** 2).sum()) / max(apart, 1e-300)
    return out


# -----------------------------------------------------------------------------
# Relatives among the people of a panel, and linkage among its SNPs: what the admixture model takes for independent.
#
# Papers    Manichaikul et al. 2010 (KING-robust): kinship of two people from their calls alone, whatever population
# they #           belong to; Garcia-Erausquin & Albrechtsen 2020 (evalAdmix): what a fit leaves correlated is no
# ancestry
# Needs     some hundred SNPs; calls in Hardy-Weinberg proportions within a population
# Promises  unrelated people of one population have kinship 0 on average, of different ones less; full sibs, and parents
#           with their children, 1/4; copies of one person 1/2. Time and memory are bounded whatever the panel
# Differs   kinship does not use the fit: a family that was given a population of its own leaves no correlated
# residuals.
#           First crosses of distant populations are heterozygous alike: heterozygosity above the pooled one is taken
# off #
# Symbols   kinship   (person, person)  1/2 − Σ(gᵢ − gⱼ)² / 2(Hᵢ + Hⱼ), H a person's heterozygous calls


@dataclass(frozen=True)
class RelativesSettings:
    """The search for relatives and for linked SNPs."""

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
    # Calls without a difference that make two samples one, where heterozygous calls are too few to say (inbred
    # lines).
    identical_calls: int = 500
    # Pairs of neighbouring SNPs, and people, that linkage is looked for in.
    neighbours: int = 2_000
    linkage_people: int = 2_000
    linked: float = 0.8  # Squared correlation of residuals from which two SNPs say the same.
    rarest: int = 5  # Copies of the rarer allele that a SNP needs to be compared: two singletons agree by chance.
    snps_at_once: int = 512


RELATIVES = RelativesSettings()


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
    def n_duplicates(self) -> int:
        """Pairs of samples that are one person."""
        return int((self.values > RELATIVES.copy).sum())

    @property
    def is_family(self) -> NDArray[np.bool_]:
        """Populations (population,) whose people are relatives of one another on average."""
        return np.asarray(self.within > np.maximum(RELATIVES.second_degree, RELATIVES.sure_of_mean * self.error))

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
    return Kinship(people[pairs], np.asarray(kinship[pairs[:, 0], pairs[:, 1]], np.float64), people, within, unsure)


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


def linked_neighbours(
    genotypes: AnyGenotypes, places: NDArray[np.intp], proportions: Floats, frequencies: Floats
) -> float:
    """Fraction of neighbouring SNPs in the file (`places`) that are correlated beyond what ancestry explains."""
    in_file = np.argsort(places)
    count = min(RELATIVES.neighbours, len(places) - 1)
    if count < 1:
        return 0.0
    first = np.unique(np.linspace(0, len(places) - 2, count).astype(np.intp))
    people = np.unique(
        np.linspace(0, len(proportions) - 1, min(RELATIVES.linkage_people, len(proportions))).astype(np.intp)
    )
    rows = in_file[np.stack([first, first + 1], axis=1)]
    used, at = np.unique(rows, return_inverse=True)
    part = genotypes.take(used, people)
    calls = part.calls_of(0, part.n_snps)
    shared = [
        _squared_correlation(calls, at[some], proportions[people], frequencies[used])
        for some in np.array_split(np.arange(len(at)), -(-len(at) // RELATIVES.snps_at_once))
    ]
    compared = np.concatenate(shared)
    compared = compared[~np.isnan(compared)]
    return float((compared > RELATIVES.linked).mean()) if len(compared) else 0.0


def _squared_correlation(calls: Calls, pairs: NDArray[np.intp], proportions: Floats, frequencies: Floats) -> Floats:
    """Of the residuals of two SNPs each (pair,), over people who have both calls; NaN where an allele is too rare."""
    codes = calls[pairs]
    there = (codes != MISSING).all(axis=1)
    left, right = (
        np.where(there, codes[:, side] - 2 * (frequencies[pairs[:, side]] @ proportions.T), 0.0) for side in (0, 1)
    )
    counted = (np.where(there[:, None], codes, 0).sum(axis=2), there.sum(axis=1)[:, None])
    rare = (np.minimum(counted[0], 2 * counted[1] - counted[0]) < RELATIVES.rarest).any(axis=1)
    cross = (left * right).sum(axis=1) ** 2 / np.maximum((left**2).sum(axis=1) * (right**2).sum(axis=1), 1e-300)
    return np.where(rare, np.nan, cross)
