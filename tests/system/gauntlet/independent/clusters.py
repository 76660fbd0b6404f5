"""Binary tables as practitioners meet them, by somebody who has not seen the checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from latentfit import BernoulliMixture
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

Generator = np.random.Generator


def draw(rng: Generator, weights: list[float], frequencies: np.ndarray, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Clusters and 0/1 rows, columns independent given the cluster."""
    clusters = rng.choice(len(weights), size=n_rows, p=weights)
    return clusters, (rng.random((n_rows, frequencies.shape[1])) < frequencies[clusters]).astype(float)


def blocks(base: np.ndarray, raised: list[tuple[slice, float]]) -> np.ndarray:
    """Frequencies (cluster, column): a background, and per further cluster a block of columns that is more frequent."""
    rows = [base]
    for where, level in raised:
        row = base.copy()
        row[where] = level
        rows.append(row)
    return np.stack(rows)


CONDITIONS = np.array([0.12, 0.08, 0.15, 0.05, 0.1, 0.06, 0.09, 0.04, 0.11, 0.07, 0.13, 0.05, 0.08, 0.06, 0.1])
COMORBIDITY = blocks(CONDITIONS, [(slice(0, 6), 0.65), (slice(6, 12), 0.6)])


# ---------------------------------------------------------------- sound


def comorbidity(seed: int) -> BernoulliMixture:
    """Fifteen conditions of 4,000 patients; most have few, two groups have typical combinations."""
    rng = np.random.default_rng([seed, 501])
    _, rows = draw(rng, [0.68, 0.2, 0.12], COMORBIDITY, 4000)
    return BernoulliMixture().fit(pd.DataFrame(rows.astype(int), columns=[f"icd{i:02d}" for i in range(15)]))


def register_without_empty_rows(seed: int) -> BernoulliMixture:
    """A register that holds only patients with at least one condition, fitted as what it is."""
    rng = np.random.default_rng([seed, 502])
    _, rows = draw(rng, [0.68, 0.2, 0.12], COMORBIDITY, 5000)
    return BernoulliMixture(3, truncated=True).fit(rows[rows.any(axis=1)].astype(int))


def species_in_habitats(seed: int) -> BernoulliMixture:
    """Presence of 40 species at 600 sites of four habitats; 8 % of the cells were not surveyed."""
    rng = np.random.default_rng([seed, 503])
    typical = np.arange(40) % 4 == np.arange(4)[:, None]
    frequencies = np.where(typical, rng.uniform(0.5, 0.9, 40), rng.uniform(0.03, 0.3, 40))
    _, rows = draw(rng, [0.4, 0.3, 0.2, 0.1], frequencies, 600)
    return BernoulliMixture().fit(np.where(rng.random(rows.shape) < 0.08, np.nan, rows))


def hundred_thousand(seed: int) -> BernoulliMixture:
    """100,000 accounts, twelve yes/no features, three kinds."""
    rng = np.random.default_rng([seed, 504])
    base = np.array([0.9, 0.05, 0.3, 0.5, 0.1, 0.02, 0.6, 0.2, 0.15, 0.4, 0.08, 0.25])
    _, rows = draw(rng, [0.6, 0.25, 0.15], blocks(base, [(slice(1, 6), 0.75), (slice(5, 11), 0.7)]), 100_000)
    return BernoulliMixture(3).fit(rows.astype(int))


def weighted_checklist(seed: int) -> BernoulliMixture:
    """Multiple-response question of a survey with expansion weights that add up to millions."""
    rng = np.random.default_rng([seed, 505])
    base = np.array([0.3, 0.25, 0.2, 0.35, 0.15, 0.2, 0.3, 0.1, 0.2, 0.25])
    _, rows = draw(rng, [0.55, 0.3, 0.15], blocks(base, [(slice(0, 5), 0.8), (slice(5, 10), 0.75)]), 2500)
    table = pd.DataFrame(np.where(rows == 1, "yes", "no"), columns=[f"reads {i}" for i in range(10)])
    return BernoulliMixture(3).fit(table, sample_weight=rng.lognormal(9.0, 0.4, 2500))


def baskets(seed: int) -> BernoulliMixture:
    """Sparse baskets of 60 products, three kinds of shopper, empty baskets included."""
    rng = np.random.default_rng([seed, 506])
    base = rng.uniform(0.01, 0.08, 60)
    frequencies = blocks(base, [(slice(0, 20), 0.3), (slice(20, 35), 0.35)])
    _, rows = draw(rng, [0.5, 0.3, 0.2], frequencies, 3000)
    return BernoulliMixture(3).fit(csr_matrix(rows))


def wide_and_short(seed: int) -> BernoulliMixture:
    """150 strains, 60 genes present or absent, two lineages."""
    rng = np.random.default_rng([seed, 507])
    frequencies = np.stack([rng.beta(0.8, 0.8, 60), rng.beta(0.8, 0.8, 60)]).clip(0.03, 0.97)
    _, rows = draw(rng, [0.6, 0.4], frequencies, 150)
    return BernoulliMixture().fit(rows.astype(bool))


def follow_ups(seed: int) -> BernoulliMixture:
    """Three laboratory tests were done only where the first screening was positive, or with one chance in four."""
    rng = np.random.default_rng([seed, 508])
    base = np.array([0.15, 0.2, 0.1, 0.25, 0.2, 0.3, 0.1, 0.15, 0.2])
    frequencies = blocks(base, [([0, 1, 2, 6, 7], 0.8), ([2, 3, 4, 5, 8], 0.75)])  # type: ignore[list-item]
    _, rows = draw(rng, [0.6, 0.25, 0.15], frequencies, 3000)
    done = (rows[:, 0] == 1) | (rng.random(3000) < 0.25)
    rows[~done, 6:] = np.nan
    return BernoulliMixture(3).fit(rows)


def many_noise_columns(seed: int) -> BernoulliMixture:
    """Two clusters in 20 of 60 columns; the other 40 say nothing."""
    rng = np.random.default_rng([seed, 509])
    base = rng.uniform(0.1, 0.6, 60)
    other = base.copy()
    other[:20] = np.where(base[:20] < 0.35, base[:20] + 0.35, base[:20] - 0.3)
    _, rows = draw(rng, [0.65, 0.35], np.stack([base, other]), 1500)
    return BernoulliMixture().fit(rows.astype(int))


# ---------------------------------------------------------------- unsound


def independent_columns(rng: Generator, n_rows: int = 2000, n_columns: int = 15) -> np.ndarray:
    return (rng.random((n_rows, n_columns)) < rng.uniform(0.1, 0.6, n_columns)).astype(int)


def no_clusters_unasked(seed: int) -> BernoulliMixture:
    return BernoulliMixture().fit(independent_columns(np.random.default_rng([seed, 601])))


def no_clusters_three_asked(seed: int) -> BernoulliMixture:
    return BernoulliMixture(3).fit(independent_columns(np.random.default_rng([seed, 602]), 1000))


def severity(seed: int) -> BernoulliMixture:
    """One severity of a disability behind fourteen yes/no items (Rasch model with a few unequal slopes)."""
    rng = np.random.default_rng([seed, 603])
    ability = rng.normal(size=2500)
    slope = rng.uniform(1.2, 2.2, 14)
    rows = rng.random((2500, 14)) < 1 / (1 + np.exp(-slope * (ability[:, None] - np.linspace(-1.2, 2.0, 14))))
    return BernoulliMixture().fit(rows.astype(int))


def dummies(seed: int) -> BernoulliMixture:
    """Two nominal questions were expanded into dummies, which exclude one another; two true clusters."""
    rng = np.random.default_rng([seed, 604])
    clusters, rows = draw(rng, [0.6, 0.4], blocks(np.full(6, 0.25), [(slice(0, 4), 0.65)]), 2000)
    town = np.eye(5)[rng.choice(5, size=2000, p=[0.3, 0.25, 0.2, 0.15, 0.1])]
    job = np.eye(4)[np.where(clusters == 1, rng.integers(0, 2, 2000), rng.integers(0, 4, 2000))]
    return BernoulliMixture(2).fit(np.hstack([rows, town, job]).astype(int))


def every_row_four_times(seed: int) -> BernoulliMixture:
    """A join has repeated each of 250 patients four times; thirty columns, so that equal rows are no accident."""
    rng = np.random.default_rng([seed, 605])
    frequencies = np.stack([rng.uniform(0.2, 0.8, 30), rng.uniform(0.2, 0.8, 30)])
    _, rows = draw(rng, [0.6, 0.4], frequencies, 250)
    return BernoulliMixture(2).fit(np.tile(rows, (4, 1))[rng.permutation(1000)].astype(int))


def thirty_patients(seed: int) -> BernoulliMixture:
    """Thirty patients, twenty columns, weakly different clusters, three asked for."""
    rng = np.random.default_rng([seed, 606])
    _, rows = draw(rng, [0.5, 0.3, 0.2], rng.uniform(0.25, 0.7, (3, 20)), 30)
    return BernoulliMixture(3).fit(rows.astype(int))


def empty_rows_removed(seed: int) -> BernoulliMixture:
    """One population, sparse columns, rows of zeros never recorded, and the likelihood does not know it."""
    rng = np.random.default_rng([seed, 607])
    rows = (rng.random((6000, 16)) < 0.07).astype(int)
    return BernoulliMixture(2).fit(rows[rows.any(axis=1)])


def gradient(seed: int) -> BernoulliMixture:
    """Forty species along a mountain side: each has its height, and sites lie at all heights; no groups of sites."""
    rng = np.random.default_rng([seed, 608])
    height = rng.random(1200)
    optimum = np.linspace(-0.1, 1.1, 40)
    present = rng.random((1200, 40)) < 0.8 * np.exp(-0.5 * ((height[:, None] - optimum) / 0.12) ** 2) + 0.03
    return BernoulliMixture(4).fit(present.astype(int))


def beyond_the_limit(seed: int) -> BernoulliMixture:
    """Twelve clusters, and the user allows six."""
    rng = np.random.default_rng([seed, 609])
    _, rows = draw(rng, [1 / 12] * 12, rng.choice([0.1, 0.9], size=(12, 40)), 2400)
    return BernoulliMixture(max_components=6).fit(rows.astype(int))


def too_many_clusters(seed: int) -> BernoulliMixture:
    """Two clusters, eight asked for."""
    rng = np.random.default_rng([seed, 610])
    _, rows = draw(rng, [0.6, 0.4], blocks(np.full(12, 0.25), [(slice(0, 8), 0.7)]), 1500)
    return BernoulliMixture(8).fit(rows.astype(int))


def rare_cluster(seed: int) -> BernoulliMixture:
    """A third cluster of 1 % among 500 rows, near to the second one: some five rows."""
    rng = np.random.default_rng([seed, 611])
    frequencies = blocks(np.full(12, 0.2), [(slice(0, 7), 0.7), (slice(2, 9), 0.65)])
    _, rows = draw(rng, [0.6, 0.39, 0.01], frequencies, 500)
    return BernoulliMixture(3).fit(rows.astype(int))


def nearly_empty_table(seed: int) -> BernoulliMixture:
    """Nine cells of ten are missing: hardly any two columns were seen together."""
    rng = np.random.default_rng([seed, 612])
    _, rows = draw(rng, [0.6, 0.4], blocks(np.full(12, 0.3), [(slice(0, 8), 0.7)]), 400)
    return BernoulliMixture(2).fit(np.where(rng.random(rows.shape) < 0.9, np.nan, rows))


def repeated_questions(seed: int) -> BernoulliMixture:
    """Three questions were asked twice; the second answer is the first one in three cases of four."""
    rng = np.random.default_rng([seed, 613])
    base = np.array([0.3, 0.35, 0.25, 0.4, 0.3, 0.2, 0.3])
    _, rows = draw(rng, [0.6, 0.4], blocks(base, [(slice(0, 5), 0.7)]), 2500)
    _, fresh = draw(rng, [1.0], rows[:, [0, 2, 5]].mean(axis=0, keepdims=True), 2500)
    again = np.where(rng.random((2500, 3)) < 0.75, rows[:, [0, 2, 5]], fresh)
    return BernoulliMixture(2, screen=False).fit(np.hstack([rows, again]).astype(int))


def digits(seed: int) -> BernoulliMixture:
    """Black and white pixels of real handwritten digits: neighbouring pixels go together inside any ten clusters."""
    rng = np.random.default_rng([seed, 614])
    pixels = pd.read_csv(data_folder() / "tables" / "digits_bin.csv", dtype=str)
    pixels = pixels[[name for name in pixels.columns if name.startswith("p")]].astype(int)
    return BernoulliMixture(10).fit(pixels.iloc[rng.permutation(len(pixels))[:1500]])


NOTHING = (
    "no structure|nothing|one cluster|single|fewer|independen|chance|merge|not improve|spurious|noise|found no|K = 1"
)
PAIRS = "pair|depend|residual|correlat|associat|copies|copy|exclu|together|same thing|pur"
SMALL = "few|small|rare|sample size|not enough|too little|rests on|parameters|overlap|told apart"
REPEATED = "duplic|identical|copies|repeat|equal rows|same row"
TRAIT = "trait|one.dimension|item.response|continu|order|severity"
LIMIT = "limit|max_components|ceiling|longest|more clusters"
UNSTABLE = "stab|resampl|agree|too many|initiali|halves"

SCENARIOS: list[Scenario] = [
    # Two typical combinations on a background: planted frequencies come back.
    Scenario("comorbidity of 4,000 patients, number not given", comorbidity),
    # The truncated likelihood knows that empty rows are not recorded.
    Scenario("register without empty rows, truncated model", register_without_empty_rows),
    # Ten typical species per habitat.
    Scenario("species at 600 sites, number not given", species_in_habitats),
    # A round number of rows is nothing special.
    Scenario("100,000 accounts, three kinds", hundred_thousand),
    # Expansion weights change estimates, not the number of interviews.
    Scenario("multiple response with expansion weights", weighted_checklist),
    # Sparse but wide: a basket holds eight products of its kind.
    Scenario("sparse baskets", baskets),
    # Two lineages that differ in most of sixty genes.
    Scenario("150 strains, 60 genes, number not given", wide_and_short),
    # Missing depends on the screening result, which is in the table.
    Scenario("tests done only after a positive screening", follow_ups),
    # Twenty informative columns are plenty; the others only cost.
    Scenario("forty columns of noise, number not given", many_noise_columns),
    # Nothing was found, and the user has to be told.
    Scenario("independent columns, number not given", no_clusters_unasked, WARNED, NOTHING),
    # Three clusters of noise.
    Scenario("independent columns, three asked for", no_clusters_three_asked, WARNED, f"{NOTHING}|{UNSTABLE}"),
    # Clusters are slices of one severity.
    Scenario("one severity, number not given", severity, WARNED, TRAIT),
    # Dummies of one question exclude one another, whatever the cluster.
    Scenario("dummies of two nominal questions", dummies, WARNED, PAIRS),
    # 250 patients are taken for 1,000.
    Scenario("every row four times", every_row_four_times, WARNED, REPEATED),
    # Sixty frequencies from thirty patients.
    Scenario("thirty patients", thirty_patients, WARNED, f"{SMALL}|{UNSTABLE}|{NOTHING}"),
    # Removing empty rows makes all columns dependent; the clusters describe that.
    Scenario("empty rows removed, one population", empty_rows_removed, WARNED, f"zero|empty|truncat|{PAIRS}|{NOTHING}"),
    # Four slices of a continuum leave neighbouring species dependent.
    Scenario("species along a gradient, four asked for", gradient, WARNED, f"{TRAIT}|{PAIRS}|more clusters"),
    # The answer is the user's limit.
    Scenario("twelve clusters, limit six", beyond_the_limit, WARNED, LIMIT),
    # Six of the eight clusters are noise.
    Scenario("two clusters, eight asked for", too_many_clusters, WARNED, f"{NOTHING}|{UNSTABLE}|{SMALL}"),
    # Five rows do not describe a cluster.
    Scenario("a cluster of 1 % among 500", rare_cluster, WARNED, f"{SMALL}|{NOTHING}|{UNSTABLE}"),
    # About one observed cell per row.
    Scenario("nine cells of ten missing", nearly_empty_table, WARNED, f"missing|observed|{SMALL}|identif"),
    # Repeated questions outweigh the clusters.
    Scenario("three questions asked twice, no screening", repeated_questions, WARNED, PAIRS),
]

if (folder := data_folder()) is not None and (folder / "tables" / "digits_bin.csv").is_file():
    # Pixels are not independent inside any ten clusters.
    SCENARIOS.append(Scenario("pixels of handwritten digits, ten asked for", digits, WARNED, f"{PAIRS}|more clusters"))
