"""Checks of ancestry proportions, with the numbers behind the verdict.

`not identifiable` when a population's frequencies are a mixture of the others', so that no proportions are right.
`caution` when the calls show no structure, fewer populations than K above their noise (the eigengap), or further ones
that are no family; when a population rests on few people or on one another's relatives; when people are there twice or
many have a relative in the panel; when a population has neither anchors (people at its vertex of the simplex) nor
people on the opposite face (proportions are then known up to a stretch of the simplex only); when a person's own calls
leave proportions wide; when neighbouring SNPs are linked, or SNPs lack heterozygotes, as on sex chromosomes; when
another initialisation ends elsewhere, or EM did not converge.

The standard errors of the proportions are what the model itself expects to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latentfit.admixture.diagnostics.relatives import Kinship
from latentfit.admixture.diagnostics.snps import SNPS, Heterozygotes, Linkage
from latentfit.core.assign import mean_distance
from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examination, Examiner, Expectation, FitReport


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
    # Fraction of its people's worth of genomes that relatives must leave a population; families of three (parents
    # and a child) leave .6.
    deflated: float = 0.5
    # Fraction of the people who may have a close relative in the panel, and who may be in it twice: a sample of
    # unrelated people holds a few by accident (the 324 of HapMap 3: 6 %), and the standard errors take everyone for
    # independent.
    related: float = 0.1
    duplicated: float = 0.02
    # Fraction of neighbouring SNPs that may be linked: of all common SNPs of coalescents 17 to 21 % are, of one
    # in 8,000 bases 7 to 9 %, of the thinned HapMap panel 0.1 %.
    linked_fraction: float = 0.12
    # Mean squared correlation of neighbours that is allowed: of one common SNP in 8,000 bases it is .04, of the
    # thinned HapMap panel .02; PLINK's thinning drops pairs above .1 or .2.
    linked_mean: float = 0.15
    # Fraction of the difference between two populations that a tenth of the genome may hold: where they differ
    # everywhere it is a sixth.
    concentrated: float = 0.5
    few_snps: float = 0.7  # The same of a tenth of the SNPs, relative to p(1 − p): where drift makes it 44 %.
    # Fraction of the SNPs that may lack heterozygotes in a group of people: X is 5 % of the human genome, and
    # such SNPs of males count for too much, but too few to move proportions.
    one_copy: float = 0.05
    # Fraction of the SNPs that may lack heterozygotes in everybody, or have too many.
    lacking: float = 0.1


LIMITS = AncestryLimits()
NUMBER_CHECKS = {"structure_found", "populations_shown", "structure_beyond"}
"""Checks that reject the number of populations."""
_FEWER = "ask for fewer populations (n_populations, --populations)"


def examine_ancestry(
    proportions: Floats,
    frequencies: Floats,
    errors: Floats,
    spectrum: Floats,
    *,
    converged: bool,
    refit: Callable[[], tuple[Floats, float]] | None,
    carriers: Callable[[int], Floats],
    log_likelihood: float,
    kinship: Kinship,
    linkage: Linkage,
    heterozygotes: Heterozygotes,
    names: list[str],
    concentrated: tuple[float, tuple[int, int]] = (0.0, (0, 1)),
    in_few_snps: tuple[float, tuple[int, int]] = (0.0, (0, 1)),
) -> Examination:
    """Diagnose a fit.

    Parameters
    ----------
    proportions : ndarray of shape (n_people, n_populations)
        Fitted proportions.
    frequencies : ndarray of shape (n_snps, n_populations)
        Fitted frequencies.
    errors : ndarray of shape (n_people, n_populations)
        Standard errors of the proportions.
    spectrum : ndarray of shape (n_values,)
        Leading singular values of the centred calls.
    converged : bool
        Whether the fit converged.
    refit : callable or None
        Gives proportions and objective of a fit from another initialisation.
    carriers : callable
        Of a number of populations above K, the number of people who carry each further direction.
    log_likelihood : float
        Objective of the fit.
    kinship : Kinship
        Close relatives.
    linkage : Linkage
        Correlation of neighbouring SNPs.
    heterozygotes : Heterozygotes
        SNPs that lack heterozygotes.
    names : list of str
        Names of the people.
    concentrated : tuple of float and tuple of int
        Largest fraction of a difference between two populations that a tenth of the genome holds, and these two.
    in_few_snps : tuple of float and tuple of int
        The same of a tenth of the SNPs, wherever they are.

    Returns
    -------
    Examination
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
    examiner.expected = _expected(errors)
    examiner.check_size(n_people, "people")
    _examine_number(examiner, K, spectrum, carriers)
    if K > 1:
        _examine_populations(examiner, proportions, frequencies)
    k = int(people.argmin())
    examiner.check(
        "people_per_population", "People's worth of genomes in the smallest population",
        people[k] >= LIMITS.least_people,
        f"Population {k} rests on {people[k]:.1f} people's worth of genomes, fewer than {LIMITS.least_people:.0f}, so "
        f"its frequencies are hardly known; bring more people, or {_FEWER}.",
        value=people[k], limit=LIMITS.least_people,
    )  # fmt: skip
    if K > 1:
        middle = float(np.median(widest))
        examiner.check(
            "standard_errors", "Median standard error of a person's proportions", middle <= LIMITS.wide,
            f"Half of the people's proportions are known to no better than ± {middle:.2f} (limit {LIMITS.wide:g}), so "
            f"differences between people may be noise; bring more SNPs, or {_FEWER}.",
            value=middle, limit=LIMITS.wide,
        )  # fmt: skip
    _examine_groups(examiner, kinship)
    _examine_relatives(examiner, proportions, kinship, names)
    _examine_snps(examiner, linkage, heterozygotes)
    if K > 1:
        _examine_concentration(examiner, *concentrated)
        _examine_few_snps(examiner, *in_few_snps)
    examiner.check_converged(converged, "EM", "proportions")
    if refit is not None and K > 1:
        _examine_other_start(examiner, proportions, log_likelihood, *refit())
    return examiner.conclude()


def _expected(errors: Floats) -> Expectation:
    """The mean standard error of the proportions, and its range over people."""
    quantity = "mean standard error of ancestry proportions"
    if errors.shape[1] == 1:
        said = "With one population every proportion is 1, so nothing is estimated of the people."
        return Expectation(quantity, 0.0, sentence=said)
    of_people = errors.mean(axis=1)
    value, (low, high) = float(of_people.mean()), np.quantile(of_people, [0.1, 0.9]).tolist()
    said = (
        f"The model expects proportions to be off by ± {value:.3f} on average (standard error from each person's own "
        f"calls, frequencies taken as known), for four people in five by ± {low:.3f} to ± {high:.3f}."
    )
    return Expectation(quantity, value, low, high, 0.8, said)


def _examine_number(examiner: Examiner, K: int, spectrum: Floats, carriers: Callable[[int], Floats]) -> None:
    """Do the calls show structure, K populations of it, and no more?"""
    gap, seen = (eigengap(spectrum, K) if K > 1 else 0.0), populations_seen(spectrum)
    examiner.quantities |= {"gap": gap, "populations_seen": seen}
    stands = gap > LIMITS.eigengap
    largest = max((eigengap(spectrum, k) for k in range(2, len(spectrum) - LIMITS.after + 1)), default=0.0)
    found = examiner.check(
        "structure_found", "Structure in the calls above their noise", stands or seen > 1,
        f"No structure found: no singular value of the calls exceeds those after it by {LIMITS.eigengap:g} spans of "
        f"the next five (the largest eigengap is {largest:.2f}), as in one population, or where nobody is "
        "unmixed; do not interpret the proportions, or bring more SNPs and people, unmixed ones among them.",
        value=largest, limit=LIMITS.eigengap,
    )  # fmt: skip
    if not found:
        return
    if K > 1:
        examiner.check(
            "populations_shown", f"Eigengap after {K} populations", stands or seen > K,
            f"The calls do not show {K} populations above their noise (eigengap {gap:.2f}, noise reaches "
            f"{LIMITS.eigengap:g}), so some of them may be noise; ask for {seen} (n_populations, --populations), or "
            "bring more SNPs and people.",
            value=gap, limit=LIMITS.eigengap,
        )  # fmt: skip
    # a further direction counts when as many people carry it as a population needs: a family of three makes one too
    further = carriers(seen) if seen > K else np.zeros(0)
    beyond = K + int((further >= LIMITS.least_people).sum())
    examiner.quantities |= {"carriers_beyond": further.tolist()}
    examiner.check(
        "structure_beyond", f"Populations that the singular values show, at most {K}", beyond <= K,
        f"There is structure beyond {K} population{'s' if K > 1 else ''}: the singular values show {beyond} (limit "
        f"{K}), so populations fitted as one may be several; ask for {beyond} (n_populations, --populations), or read "
        f"{'this one' if K == 1 else f'these {K}'} as a coarse grouping.",
        value=beyond, limit=K,
    )  # fmt: skip


def is_shown(report: FitReport) -> bool:
    """Whether no check rejected the number of populations, so that it may be announced as found."""
    return not {check.name for check in report.checks if not check.passed} & NUMBER_CHECKS


def _examine_groups(examiner: Examiner, kinship: Kinship) -> None:
    examiner.check(
        "common_snps", "Groups of people without a common SNP", kinship.n_groups < 2,
        f"The people form {kinship.n_groups} groups (limit 1) without SNPs that were called in people of two of them: "
        "which population of one group is which of another cannot be known, and a group may pass for a population; "
        "fit each group by itself, or keep the SNPs that all of them have.",
        value=kinship.n_groups, limit=1, level="not identifiable",
    )  # fmt: skip


def _examine_populations(examiner: Examiner, proportions: Floats, frequencies: Floats) -> None:
    K = proportions.shape[1]
    values = np.linalg.svd(frequencies - frequencies.mean(axis=0), compute_uv=False)
    ratio = float(values[-1] / max(float(values[0]), 1e-300))
    examiner.check(
        "distinct_frequencies", "Smallest over largest singular value of the frequencies", ratio >= LIMITS.dependent,
        f"The frequencies of the {K} populations are mixtures of one another's (their smallest singular value is "
        f"{ratio:.1g} of the largest, limit {LIMITS.dependent:g}), so proportions have no one answer; {_FEWER}.",
        value=ratio, limit=LIMITS.dependent, level="not identifiable",
    )  # fmt: skip
    n_people = len(proportions)
    anchors, face = (proportions > LIMITS.anchor).sum(axis=0), (proportions < LIMITS.on_face).mean(axis=0)
    needed = max(LIMITS.least_anchors, LIMITS.least_fraction * n_people)
    held = np.maximum(anchors / needed, face / LIMITS.least_fraction)
    k = int(held.argmin())
    examiner.check(
        "anchors", "Unmixed people, or people free of it, for every population (over the number needed)", held[k] >= 1,
        f"{anchors[k]} people are mostly of population {k} and {face[k]:.0%} are free of it (needed: {needed:.0f}, or "
        f"{LIMITS.least_fraction:.0%}): its frequencies are extrapolated, and proportions may be stretched; bring "
        f"people of less mixed descent, or {_FEWER}.",
        value=held[k], limit=1.0,
    )  # fmt: skip


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
    largest = f"{names[families[0][0]]}, {names[families[0][1]]} …" if families else ""
    one_each = "keep one person of each family and fit again (plink2 --king-cutoff 0.177 lists whom to drop)"
    examiner.check(
        "duplicates", "People who are in the panel twice", kinship.duplicated <= LIMITS.duplicated,
        f"{kinship.duplicated:.1%} of the people are copies of one person, or twins ({kinship.n_duplicates} pairs, "
        f"limit {LIMITS.duplicated:.0%}; {largest}): they count as independent and draw populations to themselves; "
        "keep one of each and fit again (plink2 --king-cutoff 0.354 lists whom to drop).",
        value=kinship.duplicated, limit=LIMITS.duplicated,
    )  # fmt: skip
    examiner.check(
        "relatives", "People with a close relative in the panel", kinship.related <= LIMITS.related,
        f"{kinship.related:.0%} of the people have a close relative in the panel (limit {LIMITS.related:.0%}; "
        f"{largest}): the model takes them for independent, so populations may be families and standard errors are "
        f"too small; {one_each}.",
        value=kinship.related, limit=LIMITS.related,
    )  # fmt: skip
    left = unrelated / np.maximum(people, 1e-300)
    k = int(left.argmin())
    fraction = [float(proportions[family, k].sum()) for family in families]
    members = families[int(np.argmax(fraction))] if families else np.zeros(0, np.intp)
    what = "copies of one person" if kinship.n_duplicates * 2 > len(kinship.pairs) else "close relatives"
    whole = examiner.check(
        "family_populations", "Unrelated people's worth of genomes in a population, as a fraction",
        left[k] >= LIMITS.deflated,
        f"Population {k} rests on relatives: {people[k]:.1f} people's worth of genomes tell as much as "
        f"{unrelated[k]:.1f} unrelated people would (limit {LIMITS.deflated:.0%}); {len(members)} people are {what} "
        f"({', '.join(names[at] for at in members[:2])} …), so it may be a family and no population; {one_each}.",
        value=left[k], limit=LIMITS.deflated,
    )  # fmt: skip
    if not whole:
        return
    k = int(np.where(kinship.is_family, kinship.within, -np.inf).argmax()) if kinship.is_family.any() else 0
    limit = kinship.limit_within
    examiner.check(
        "kinship_within", "Mean kinship of the people who are mostly of a population", not kinship.is_family.any(),
        f"Population {k} rests on relatives: the people who are mostly of it have a mean kinship of "
        f"{kinship.within[k]:.2f} (limit {limit[k]:.2f}; half-sibs have 0.125, unrelated people 0), so it may be a "
        "family and no population; keep one person of each family and fit again (plink2 --king-cutoff 0.0884 lists "
        "whom to drop).",
        value=kinship.within[k], limit=limit[k],
    )  # fmt: skip


def _examine_snps(examiner: Examiner, linkage: Linkage, found: Heterozygotes) -> None:
    """Are SNPs independent given ancestry, and does everyone hold two copies of each?"""
    examiner.quantities |= {
        "linked_neighbours": linkage.fraction,
        "linked_mean": linkage.mean,
        "lacking_heterozygotes": found.lacking,
        "people_with_one_copy": found.one_copy,
    }
    thin = "thin the SNPs and fit again (plink2 --indep-pairwise 50 10 0.1 lists which to keep)"
    examiner.check(
        "linkage", "Neighbouring SNPs that say the same", linkage.fraction <= LIMITS.linked_fraction,
        f"{linkage.fraction:.0%} of neighbouring SNPs say the same (squared correlation above {SNPS.linked:g} beyond "
        f"ancestry; limit {LIMITS.linked_fraction:.0%}): there is less evidence than it seems, and a stretch of linked "
        f"SNPs can pass for a population; {thin}.",
        value=linkage.fraction, limit=LIMITS.linked_fraction,
    )  # fmt: skip
    examiner.check(
        "linkage_mean", "Mean squared correlation of neighbouring SNPs beyond ancestry",
        linkage.mean <= LIMITS.linked_mean,
        f"Neighbouring SNPs are linked: their mean squared correlation beyond ancestry is {linkage.mean:.2f} (limit "
        f"{LIMITS.linked_mean:g}), so standard errors are too small and a stretch of linked SNPs can pass for a "
        f"population; {thin}.",
        value=linkage.mean, limit=LIMITS.linked_mean,
    )  # fmt: skip
    haploid = found.lacking if found.one_copy > 0 else 0.0
    examiner.check(
        "sex_chromosomes", "SNPs of which a group of people holds one copy", haploid <= LIMITS.one_copy,
        f"At {found.lacking:.0%} of the SNPs (limit {LIMITS.one_copy:.0%}) {found.one_copy:.0%} of the people have no "
        "heterozygous call, as males have none on X, nobody on mitochondria, and inbred lines nowhere: the model takes "
        "one copy for two, so standard errors are too small and the sexes may differ in ancestry; leave SNPs of sex "
        "chromosomes and mitochondria out (PLINK sets: do not give --all-chromosomes).",
        value=haploid, limit=LIMITS.one_copy,
    )  # fmt: skip
    too_many = found.excess > found.lacking_in_others
    departing = max(found.excess, found.lacking_in_others)
    why = (
        "first crosses, dominant markers, or one copy written as 0 and 1"
        if too_many
        else "inbreeding, missed heterozygotes or structure that the model does not hold"
    )
    examiner.check(
        "hardy_weinberg", "SNPs that depart from Hardy-Weinberg proportions", departing <= LIMITS.lacking,
        f"{departing:.0%} of the SNPs have {'more' if too_many else 'fewer'} heterozygous calls than the model expects "
        f"(by more than {SNPS.lacking:g} standard deviations; limit {LIMITS.lacking:.0%}): {why}, so standard errors "
        "are wrong; ask for more populations (n_populations, --populations), or leave out SNPs that fail a test of "
        "Hardy-Weinberg proportions (plink2 --hwe).",
        value=departing, limit=LIMITS.lacking,
    )  # fmt: skip


def _examine_concentration(examiner: Examiner, fraction: float, of: tuple[int, int]) -> None:
    examiner.quantities["concentration"] = fraction
    examiner.check(
        "concentration", "Difference of two populations that a tenth of the genome holds",
        fraction <= LIMITS.concentrated,
        f"A tenth of the genome holds {fraction:.0%} of the difference between populations {of[0]} and {of[1]} (limit "
        f"{LIMITS.concentrated:.0%}): an inversion or another stretch of linked SNPs makes them, and no common "
        "descent; leave this stretch out, or thin the SNPs and fit again (plink2 --indep-pairwise 50 10 0.1).",
        value=fraction, limit=LIMITS.concentrated,
    )  # fmt: skip


def _examine_few_snps(examiner: Examiner, fraction: float, of: tuple[int, int]) -> None:
    examiner.quantities["few_snps"] = fraction
    examiner.check(
        "few_snps", "Difference of two populations that a tenth of the SNPs holds", fraction <= LIMITS.few_snps,
        f"A tenth of the SNPs holds {fraction:.0%} of the difference between populations {of[0]} and {of[1]} (limit "
        f"{LIMITS.few_snps:.0%}; drift makes 44 %): few SNPs make them, as where a batch of people has alleles of the "
        "other strand; compare allele frequencies of the batches, and leave these SNPs out.",
        value=fraction, limit=LIMITS.few_snps,
    )  # fmt: skip


def _examine_other_start(
    examiner: Examiner, proportions: Floats, value: float, other: Floats, other_value: float
) -> None:
    moved = mean_distance(proportions, other)
    as_good = other_value > value - 1e-5 * abs(value)
    examiner.quantities |= {"other_start_moved": moved, "other_start_gain": other_value - value}
    examiner.check(
        "other_initialisation", "Mean change of proportions under another initialisation that fits as well",
        not (moved > LIMITS.apart and as_good),
        f"Another initialisation fits as well (objective {other_value:,.1f} beside {value:,.1f}) and moves "
        f"proportions by {moved:.2f} on average (limit {LIMITS.apart:g}), so there is more than one answer; {_FEWER}, "
        "or compare several seeds (random_state, --seed).",
        value=moved if as_good else 0.0, limit=LIMITS.apart,
    )  # fmt: skip


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
