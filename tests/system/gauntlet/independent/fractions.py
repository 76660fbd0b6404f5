"""Mixed samples as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from latentfit import MixtureFractions
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator
Drawn = tuple[Any, Any, np.ndarray | None]
"""The samples, the reference (None if there is none), and the true fractions (sample, part) where there are such."""

BLOOD = np.array([0.55, 0.14, 0.12, 0.08, 0.07, 0.04])
CELLS = ["Gran", "CD4", "CD8", "Mono", "B", "NK"]


def fit(draw: Callable[[Generator], Drawn], n_components: int | None, seed: int) -> MixtureFractions:
    """Draw samples and fit them with default settings."""
    rng = np.random.default_rng([seed, *draw.__name__.encode()])
    samples, reference, _ = draw(rng)
    return MixtureFractions(n_components, reference=reference).fit(samples)


def methylation(rng: Generator, n_parts: int, n_features: int) -> np.ndarray:
    """Profiles (part, feature) of sites chosen for their differences: near 0 in some parts and near 1 in others."""
    high = rng.random((n_parts, n_features)) < rng.uniform(0.15, 0.85, n_features)
    return np.where(high, rng.beta(18, 3, high.shape), rng.beta(3, 18, high.shape))


def measured(rng: Generator, fractions: np.ndarray, profiles: np.ndarray, noise: float) -> np.ndarray:
    """What an array measures."""
    return np.clip(fractions @ profiles + noise * rng.normal(size=(len(fractions), profiles.shape[1])), 0, 1)


def named(table: np.ndarray) -> pd.DataFrame:
    """Samples and features with names."""
    sites = [f"cg{j:08d}" for j in range(table.shape[1])]
    return pd.DataFrame(table, index=[f"S{i:03d}" for i in range(len(table))], columns=sites)


# ---------------------------------------------------------------- sound


def blood(rng: Generator) -> Drawn:
    """Forty people's blood, six cell types of very uneven size; the reference has further sites in another order."""
    profiles = methylation(rng, 6, 350)
    fractions = rng.dirichlet(25 * BLOOD, 40)
    samples = named(measured(rng, fractions, profiles[:, :300], 0.02))
    reference = pd.DataFrame(profiles.T, columns=CELLS, index=[f"cg{j:08d}" for j in range(350)])
    return samples, reference.iloc[rng.permutation(350)], fractions


def failed_probes(rng: Generator) -> Drawn:
    """Twenty-five samples of four cell types; five per cent of the values failed at random."""
    profiles = methylation(rng, 4, 250)
    fractions = rng.dirichlet([4, 2, 1, 1], 25)
    samples = measured(rng, fractions, profiles, 0.025)
    samples[rng.random(samples.shape) < 0.05] = np.nan
    return samples, profiles.T, fractions


def five_samples(rng: Generator) -> Drawn:
    """Five samples only: with a reference each stands alone."""
    profiles, fractions = methylation(rng, 4, 300), rng.dirichlet(np.ones(4), 5)
    return measured(rng, fractions, profiles, 0.02), profiles.T, fractions


def uninformative_sites(rng: Generator) -> Drawn:
    """A third of the sites are alike in all parts, some are constant."""
    profiles = methylation(rng, 4, 300)
    profiles[:, :80] = rng.random(80)
    profiles[:, 80:100] = 0.0
    fractions = rng.dirichlet(np.ones(4), 30)
    samples = measured(rng, fractions, profiles, 0.02)
    samples[:, 80:100] = 0.0
    return samples, profiles.T, fractions


def minerals(rng: Generator) -> Drawn:
    """Four spectra of 80 smooth bands, 400 pixels, some of them pure."""
    band = np.linspace(0, 1, 80)
    profiles = np.full((4, 80), 0.3) + rng.uniform(0.05, 0.3, (4, 1))
    for part, centre in enumerate([0.15, 0.4, 0.65, 0.9]):
        profiles[part] -= rng.uniform(0.2, 0.28) * np.exp(-(((band - centre) / 0.08) ** 2))
    fractions = rng.dirichlet(np.full(4, 0.5), 400)
    return measured(rng, fractions, profiles, 0.01), profiles.T, fractions


def sequenced(rng: Generator) -> Drawn:
    """Bisulfite sequencing of plasma: methylated reads among 20 to 60 per site, five tissues, two of them rare."""
    profiles = methylation(rng, 5, 400)
    fractions = rng.dirichlet([20, 8, 4, 1.5, 1.5], 30)
    reads = rng.integers(20, 61, (30, 400))
    return rng.binomial(reads, fractions @ profiles) / reads, profiles.T, fractions


def blind(rng: Generator) -> Drawn:
    """Three tissues, sixty samples, a few of each nearly pure; no reference."""
    profiles, fractions = methylation(rng, 3, 300), rng.dirichlet(np.full(3, 0.4), 60)
    return named(measured(rng, fractions, profiles, 0.02)), None, fractions


def blind_uneven(rng: Generator) -> Drawn:
    """Tumour and stroma, thirty samples from nearly pure to nearly none; the number is not known."""
    purity = np.r_[rng.beta(3, 2, 20), rng.uniform(0.95, 1, 5), rng.uniform(0, 0.05, 5)]
    fractions = np.column_stack([purity, 1 - purity])
    return measured(rng, fractions, methylation(rng, 2, 150), 0.03), None, fractions


# ---------------------------------------------------------------- unsound


def missing_part(rng: Generator) -> Drawn:
    """A fifth cell type, a third of every sample, is not in the reference."""
    profiles = methylation(rng, 5, 300)
    fractions = rng.dirichlet([2, 2, 2, 2, 4], 30)
    return measured(rng, fractions, profiles, 0.02), profiles[:4].T, None


def alike(rng: Generator) -> Drawn:
    """Two cell types differ by a hundredth, noise is five times that."""
    profiles = methylation(rng, 4, 60)
    profiles[3] = np.clip(profiles[2] + 0.01 * rng.normal(size=60), 0, 1)
    fractions = rng.dirichlet(np.ones(4), 30)
    return measured(rng, fractions, profiles, 0.05), profiles.T, fractions


def mixture_in_reference(rng: Generator) -> Drawn:
    """The reference also has whole blood, which is a mixture of the others."""
    profiles = methylation(rng, 4, 250)
    whole = np.array([0.55, 0.25, 0.12, 0.08]) @ profiles
    fractions = rng.dirichlet([4, 2, 1, 1], 30)
    return (
        measured(rng, fractions, profiles, 0.02),
        np.vstack([profiles, whole]).T,
        np.column_stack([fractions, 0 * fractions[:, 0]]),
    )


def other_platform(rng: Generator) -> Drawn:
    """The reference comes from a platform whose values reach only from .25 to .75."""
    profiles, fractions = methylation(rng, 4, 250), rng.dirichlet([3, 2, 2, 1], 30)
    return measured(rng, fractions, profiles, 0.02), (0.25 + 0.5 * profiles).T, fractions


def wrong_order(rng: Generator) -> Drawn:
    """The sites of the reference stand in another order, and there are no names."""
    profiles, fractions = methylation(rng, 4, 250), rng.dirichlet(np.ones(4), 30)
    return measured(rng, fractions, profiles, 0.02), profiles.T[rng.permutation(250)], fractions


def five_sites(rng: Generator) -> Drawn:
    """Five noisy sites for four cell types."""
    profiles, fractions = methylation(rng, 4, 5), rng.dirichlet(np.ones(4), 30)
    return measured(rng, fractions, profiles, 0.15), profiles.T, fractions


def other_tissue(rng: Generator) -> Drawn:
    """A quarter of the samples are of a tissue that has nothing to do with the reference."""
    profiles = methylation(rng, 4, 250)
    samples = measured(rng, rng.dirichlet(np.ones(4), 40), profiles, 0.02)
    samples[::4] = measured(rng, np.ones((10, 1)), methylation(rng, 1, 250), 0.02)
    return samples, profiles.T, None


def all_alike(rng: Generator) -> Drawn:
    """Sixty samples that hardly differ in their fractions; no reference."""
    profiles, fractions = methylation(rng, 4, 250), rng.dirichlet(np.full(4, 150.0), 60)
    return measured(rng, fractions, profiles, 0.04), None, fractions


def nobody_pure(rng: Generator) -> Drawn:
    """Grey profiles and samples far from pure: any larger simplex explains them as well; no reference."""
    profiles, fractions = rng.uniform(0.3, 0.7, (3, 300)), rng.dirichlet(np.full(3, 12.0), 80)
    return measured(rng, fractions, profiles, 0.01), None, fractions


def four_samples(rng: Generator) -> Drawn:
    """Four samples, three parts; no reference."""
    profiles, fractions = methylation(rng, 3, 200), rng.dirichlet(np.full(3, 3.0), 4)
    return measured(rng, fractions, profiles, 0.03), None, fractions


def one_part(rng: Generator) -> Drawn:
    """Replicates of one pure sample, three parts asked for."""
    return measured(rng, np.ones((40, 1)), methylation(rng, 1, 250), 0.03), None, None


def copied(rng: Generator) -> Drawn:
    """Five mixed samples, each fifteen times in the file; no reference."""
    profiles, fractions = methylation(rng, 3, 200), rng.dirichlet(np.full(3, 3.0), 5)
    samples = np.repeat(measured(rng, fractions, profiles, 0.03), 15, axis=0)
    return samples[rng.permutation(75)], None, None


def batches(rng: Generator) -> Drawn:
    """Two cell types; in the second half of the file a third of the sites read higher by .3; no reference."""
    profiles = 0.7 * methylation(rng, 2, 250)
    samples = measured(rng, rng.dirichlet([6, 6], 60), profiles, 0.02)
    samples[30:, rng.random(250) < 0.35] += 0.3
    return np.clip(samples, 0, 1), None, None


# ---------------------------------------------------------------- real mixtures

FOLDER = data_folder()


def real_without_granulocytes(rng: Generator) -> Drawn:
    """Twelve mixtures of purified blood cells, 400 of 500 sites; the reference lacks the cells of half of them."""
    assert FOLDER is not None
    samples = pd.read_csv(FOLDER / "genetics" / "houseman2012_mixtures.csv.gz").set_index("cpg").T
    reference = pd.read_csv(FOLDER / "genetics" / "houseman2012_reference.csv.gz").set_index("cpg").drop(columns="Gran")
    at = rng.choice(len(reference), 400, replace=False)
    return samples.iloc[:, at], reference.iloc[at], None


FIT = "fit|residual|not explain|unexplained|left over|misfit|reference|outside|match"
ALIKE = "collinear|alike|similar|condition|identif|distinguish|correlat|combination|rank|mixture of|tell apart|depend"
BLIND = "identif|unique|pure|anchor|vary|variation|extreme|simplex|alike|stab|agree|seed|fewer|noise|structure|corner"
FEW = "few|small|standard error|uncertain|noise|at least"

SCENARIOS: list[Scenario] = [
    # Complete reference, three hundred informative sites.
    Scenario("blood of forty people", partial(fit, blood, None)),
    # Missing at random hardly costs anything.
    Scenario("failed probes", partial(fit, failed_probes, None)),
    # Samples are separate problems of 300 equations.
    Scenario("five samples with a reference", partial(fit, five_samples, None)),
    # Sites without information do no harm.
    Scenario("a third of the sites without information", partial(fit, uninformative_sites, None)),
    # Absorption bands at other places.
    Scenario("minerals in 400 pixels", partial(fit, minerals, None)),
    # Noise of counts is noise; 400 sites average it out.
    Scenario("reads of five tissues", partial(fit, sequenced, None)),
    # Nearly pure samples fix the profiles.
    Scenario("three tissues without a reference", partial(fit, blind, 3)),
    # Both ends are in the sample.
    Scenario("tumour and stroma, number not given", partial(fit, blind_uneven, None)),
    # The third that is not in the reference is given to others.
    Scenario("a part is not in the reference", partial(fit, missing_part, None), WARNED, FIT),
    # Nothing tells the two apart.
    Scenario("two parts alike", partial(fit, alike, None), WARNED, ALIKE),
    # Whole blood or its parts: both are right.
    Scenario("whole blood in the reference", partial(fit, mixture_in_reference, None), WARNED, ALIKE),
    # Profiles of one platform do not add up to values of another.
    Scenario(
        "a reference of another platform", partial(fit, other_platform, None), WARNED, FIT + "|scale|platform|batch"
    ),
    # Profiles of other sites.
    Scenario("sites in another order", partial(fit, wrong_order, None), WARNED, FIT),
    # Errors of a fifth in every fraction.
    Scenario("five noisy sites", partial(fit, five_sites, None), WARNED, f"{FEW}|{ALIKE}"),
    # Ten samples have no such fractions.
    Scenario("a quarter of another tissue", partial(fit, other_tissue, None), WARNED, FIT + "|outl|sample"),
    # No variation, no parts.
    Scenario("samples that hardly differ", partial(fit, all_alike, 4), WARNED, BLIND),
    # The data fill the middle of the simplex only.
    Scenario("no pure sample, no reference", partial(fit, nobody_pure, 3), WARNED, BLIND),
    # Four points do not show a triangle's corners.
    Scenario("four samples without a reference", partial(fit, four_samples, 3), WARNED, f"{FEW}|{BLIND}"),
    # One part.
    Scenario("replicates of one sample", partial(fit, one_part, 3), WARNED, f"{BLIND}|found|nothing|chance"),
    # Five samples.
    Scenario("samples copied fifteen times", partial(fit, copied, 3), WARNED, "duplic|identical|copies|repeat"),
    # The parts are batches.
    Scenario(
        "two batches",
        partial(fit, batches, 2),
        WARNED,
        f"batch|half|halves|drift|order|more parts|another part|further|{BLIND}|{FIT}",
    ),
]

if FOLDER is not None and (FOLDER / "genetics" / "houseman2012_mixtures.csv.gz").is_file():
    SCENARIOS += [
        # Half of the mixtures are made of cells that the reference lacks.
        Scenario("mixtures without their granulocytes", partial(fit, real_without_granulocytes, None), WARNED, FIT),
    ]
