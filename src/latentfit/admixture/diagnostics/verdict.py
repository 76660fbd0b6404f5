"""Can ancestry proportions be trusted? The verdict, with the numbers behind it.

`not identifiable` when a population's frequencies are a mixture of the others', so that no proportions are right.
`caution` when the calls do not show K populations above their noise (the gap of the singular values) or show more
without a gap at K, when a population rests on few people or on one another's relatives, when nobody marks its corner or
its face (proportions are then known up to a stretch of the simplex only), when a person's own calls leave proportions
wide, when neighbouring SNPs are linked, when another start ends elsewhere, or when the climb was cut short. That more
than K populations are visible beyond a gap at K is no doubt: linked SNPs and relatives make directions too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from latentfit.admixture.diagnostics.relatives import LINKED, Kinship
from latentfit.core.assign import mean_distance
from latentfit.core.kernels import Floats
from latentfit.core.verdict import Examination, Examiner

LEAST_PEOPLE = 10.0
"""People's worth of genomes a population should have: with fewer, a frequency of one half is known to ± 22 points."""
GAP = 1.5
"""The last direction kept must stand above the next by this many spans of the five after it: in 100 panels without
structure noise reached 0.92."""
AFTER = 5
"""Directions whose span measures noise."""
CORNER, ON_FACE = 0.9, 0.02
"""Share from which a person marks a population's corner, and below which its face."""
LEAST_CORNER, LEAST_SHARE = 5, 0.1
"""People at the corner, and the share of people at it or on the face, that pin a population down: where everybody is
mixed the fitted simplex shrinks to the people, and one in twenty seems to stand at a corner."""
WIDE = 0.1
"""Median standard error of a person's proportions from which they are called wide."""
APART = 0.05
"""Mean difference of proportions between two starts that is told."""
DEPENDENT = 1e-3
"""Smallest singular value of the populations' frequencies, relative to the largest, below which one mixes others."""

DEFLATED = 0.5
"""Relatives are a doubt where they leave a population less than this share of its people's worth of genomes; families
of three (parents and a child) leave .6."""
LINKED_SHARE = 0.12
"""Share of neighbouring SNPs that may be linked: of all common SNPs of coalescents 17 to 21 % are, of one in 8,000
bases 7 to 9 %, of the thinned HapMap panel 0.1 %."""


def examine_ancestry(
    shares: Floats,
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
    """Diagnose a fit: `errors` are the standard errors of `shares`, `refit` gives another fit's answer.

    `linked` is the share of neighbouring SNPs that say the same, `names` are the people's.
    """
    examiner = Examiner()
    n_people, K = shares.shape
    widest = errors.max(axis=1)
    people = shares.sum(axis=0)
    examiner.quantities |= {
        "n_people": n_people,
        "n_snps": len(frequencies),
        "people_per_population": people.tolist(),
        "standard_error": float(np.median(widest)),
        "spectrum": spectrum.tolist(),
        "distance": distances(frequencies).tolist(),
    }
    if K > 1:
        _examine_populations(examiner, shares, frequencies, spectrum)
    if people.min() < LEAST_PEOPLE:
        k = int(people.argmin())
        examiner.doubt(
            "caution",
            f"Population {k} rests on {people[k]:.1f} people's worth of genomes, fewer than {LEAST_PEOPLE:.0f}; bring "
            "more people, or ask for fewer populations.",
        )
    if K > 1 and np.median(widest) > WIDE:
        examiner.doubt(
            "caution",
            f"Half of the people's proportions are known to no better than ± {np.median(widest):.2f}; bring more SNPs, "
            "or populations further apart.",
        )
    _examine_relatives(examiner, shares, kinship, names)
    examiner.quantities |= {"linked_neighbours": linked}
    if linked > LINKED_SHARE:
        examiner.doubt(
            "caution",
            f"{linked:.0%} of neighbouring SNPs say the same (squared correlation above {LINKED:g} beyond ancestry): "
            "there is less evidence than it seems, and a stretch of linked SNPs can pass for a population; thin the "
            "SNPs first, for example by plink2 --indep-pairwise 50 10 0.1.",
        )
    examiner.doubt_stopped(converged, "The climb", "figures")
    if refit is not None and K > 1:
        _examine_other_start(examiner, shares, log_likelihood, *refit())
    return examiner.conclude()


def _examine_populations(examiner: Examiner, shares: Floats, frequencies: Floats, spectrum: Floats) -> None:
    K = shares.shape[1]
    values = np.linalg.svd(frequencies - frequencies.mean(axis=0), compute_uv=False)
    if values[-1] < DEPENDENT * values[0]:
        examiner.doubt(
            "not identifiable",
            f"The frequencies of the {K} populations are mixtures of one another's, so proportions have no one answer; "
            "ask for fewer populations.",
        )
    gap, seen = noise_gap(spectrum, K), populations_seen(spectrum)
    examiner.quantities |= {"gap": gap, "populations_seen": seen}
    if not gap > GAP and seen > K:
        examiner.doubt(
            "caution",
            f"There is structure beyond {K} populations: the singular values show {seen}, and none of them stands out "
            f"as the last of {K}; ask for {seen}, or read these {K} as a coarse grouping.",
        )
    elif not gap > GAP:
        examiner.doubt(
            "caution",
            f"The calls do not show {K} populations above their noise (gap {gap:.2f}, noise reaches {GAP:g}); ask for "
            "fewer populations, or bring more SNPs and people.",
        )
    corner, face = (shares > CORNER).sum(axis=0), (shares < ON_FACE).mean(axis=0)
    loose = np.flatnonzero((corner < max(LEAST_CORNER, LEAST_SHARE * len(shares))) & (face < LEAST_SHARE))
    if len(loose):
        k = int(loose[0])
        examiner.doubt(
            "caution",
            f"{corner[k]} people are mostly of population {k} and {face[k]:.0%} are free of it: its frequencies are "
            "extrapolated, and proportions may be stretched; bring people of less mixed descent.",
        )


def _examine_relatives(examiner: Examiner, shares: Floats, kinship: Kinship, names: list[str]) -> None:
    people, unrelated, families = shares.sum(axis=0), kinship.unrelated(shares), kinship.families()
    examiner.quantities |= {
        "unrelated_per_population": unrelated.tolist(),
        "related_pairs": len(kinship.pairs),
        "copies": kinship.n_copies,
        "families": [len(family) for family in families],
        "compared_for_kinship": len(kinship.people),
        "kinship_within_population": kinship.within.tolist(),
    }
    left = unrelated / np.maximum(people, 1e-300)
    k = int(left.argmin())
    if left[k] < DEFLATED:
        share = [float(shares[family, k].sum()) for family in families]
        largest = families[int(np.argmax(share))]
        what = "copies of one person" if kinship.n_copies * 2 > len(kinship.pairs) else "close relatives"
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


def _examine_other_start(examiner: Examiner, shares: Floats, value: float, other: Floats, other_value: float) -> None:
    moved = mean_distance(shares, other)
    examiner.quantities |= {"other_start_moved": moved, "other_start_gain": other_value - value}
    if moved > APART and other_value > value - 1e-5 * abs(value):
        examiner.doubt(
            "caution",
            f"Another start fits as well (objective {other_value:,.1f} beside {value:,.1f}) and moves proportions by "
            f"{moved:.2f} on average; ask for fewer populations, or compare several random_state.",
        )


# ----------------------------------------------------------------- quantities


def noise_gap(spectrum: Floats, n_populations: int) -> float:
    """How far the last wanted singular value stands above the next, in spans of the `AFTER` that follow."""
    last, rest = n_populations - 2, spectrum[n_populations - 1 :]
    if len(rest) < 3:
        return 0.0
    span = float(rest[0] - rest[min(AFTER, len(rest) - 1)])
    return float(spectrum[last] - rest[0]) / max(span, 1e-12 * float(spectrum[0]), 1e-300)


def populations_seen(spectrum: Floats) -> int:
    """The largest number of populations whose last singular value stands above the noise after it; 1 if none does."""
    return max((K for K in range(2, len(spectrum) - AFTER + 1) if noise_gap(spectrum, K) > GAP), default=1)


def standard_errors(shares: Floats, information: Floats) -> Floats:
    """Standard errors (person, population) of each person's proportions along the simplex, frequencies taken as known.

    `information` (person, population, population) is minus the Hessian of every person.
    """
    K = shares.shape[1]
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
