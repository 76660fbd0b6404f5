"""Situations of `latentfit cluster`: clusters that are there, and tables in which something else makes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latentfit import BernoulliMixture
from tests.system.gauntlet.scenario import Scenario

Rows = NDArray[np.float64]
Rng = np.random.Generator


def pure_rows(rng: Rng, weights: list[float], n_columns: int, n: int, low: float = 0.15, high: float = 0.8) -> Rows:
    """Rows of clusters that differ in every column by chance, any two of them in a fifth of the columns at least."""
    K = len(weights)
    while True:
        often = rng.choice([low, high], size=(K, n_columns))
        apart = (often[:, None] != often[None]).sum(axis=2) + n_columns * np.eye(K, dtype=int)
        if apart.min() >= n_columns / 5:
            break
    return (rng.random((n, n_columns)) < often[rng.choice(K, n, p=weights)]).astype(float)


def even(K: int) -> list[float]:
    return [1 / K] * K


def missing(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    return np.where(mask, np.nan, rows)


# ------------------------------------------------------------------------ sound


def three_clusters(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(n_jobs=1).fit(pure_rows(rng, [0.5, 0.3, 0.2], 15, 1_000))


def given_number(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(4, n_jobs=1).fit(pure_rows(rng, even(4), 20, 1_500))


def six_uneven_clusters(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(n_jobs=1).fit(pure_rows(rng, [0.3, 0.25, 0.2, 0.1, 0.1, 0.05], 25, 2_500))


def missing_completely_at_random(rng: Rng) -> BernoulliMixture:
    rows = pure_rows(rng, even(3), 15, 1_000)
    return BernoulliMixture(n_jobs=1).fit(missing(rows, rng.random(rows.shape) < 0.25))


def missing_at_random(rng: Rng) -> BernoulliMixture:
    """Who says yes to the first question skips many of the later ones."""
    rows = pure_rows(rng, even(3), 15, 1_500)
    mask = rng.random(rows.shape) < np.where(rows[:, :1] == 1, 0.5, 0.1)
    mask[:, :5] = False
    return BernoulliMixture(n_jobs=1).fit(missing(rows, mask))


def routed_questions(rng: Rng) -> BernoulliMixture:
    """Five questions are asked only of those who said yes to the first."""
    rows = pure_rows(rng, even(3), 18, 1_500)
    mask = np.zeros(rows.shape, bool)
    mask[:, 10:15] = rows[:, :1] == 0
    return BernoulliMixture(n_jobs=1).fit(missing(rows, mask))


def survey_weights(rng: Rng) -> BernoulliMixture:
    rows = pure_rows(rng, even(3), 15, 2_000)
    return BernoulliMixture(n_jobs=1).fit(rows, sample_weight=rng.lognormal(6, 0.5, len(rows)))


def noise_columns(rng: Rng) -> BernoulliMixture:
    rows = pure_rows(rng, even(3), 20, 1_000)
    return BernoulliMixture(n_jobs=1).fit(np.hstack([rows, rng.random((1_000, 20)) < rng.uniform(0.1, 0.9, 20)]))


def rare_cluster_in_many_rows(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(n_jobs=1).fit(pure_rows(rng, [0.6, 0.38, 0.02], 20, 6_000))


def register_fitted_truncated(rng: Rng) -> BernoulliMixture:
    rows = pure_rows(rng, [0.5, 0.5], 20, 2_500, low=0.05, high=0.5)
    return BernoulliMixture(truncated=True, n_jobs=1).fit(rows[rows.any(axis=1)])


def round_number_of_rows(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(n_jobs=1).fit(pure_rows(rng, even(3), 12, 20_000))


def sorted_rows(rng: Rng) -> BernoulliMixture:
    rows = pure_rows(rng, even(3), 15, 1_000)
    return BernoulliMixture(n_jobs=1).fit(rows[np.lexsort(rows.T)])


# ---------------------------------------------------------------------- unsound


def continuous_trait(rng: Rng) -> BernoulliMixture:
    """Two-parameter logistic items: a trait, no cluster."""
    trait = rng.normal(size=(1_000, 1))
    logits = rng.uniform(0.8, 2.2, 15) * trait + rng.normal(size=15)
    return BernoulliMixture(n_jobs=1).fit(rng.random(logits.shape) < 1 / (1 + np.exp(-logits)))


def two_traits(rng: Rng) -> BernoulliMixture:
    trait = np.repeat(rng.normal(size=(1_500, 2)), 8, axis=1)
    logits = rng.uniform(1.2, 2.5, 16) * trait + rng.normal(size=16)
    return BernoulliMixture(n_jobs=1).fit(rng.random(logits.shape) < 1 / (1 + np.exp(-logits)))


def independent_columns(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(n_jobs=1).fit(rng.random((1_000, 15)) < rng.uniform(0.1, 0.9, 15))


def few_rows_many_items(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(n_jobs=1).fit(pure_rows(rng, even(3), 25, 50, low=0.3, high=0.6))


def rare_cluster_in_few_rows(rng: Rng) -> BernoulliMixture:
    """1 % of 1,000 rows; left to itself the search may miss them, and no data could tell."""
    return BernoulliMixture(3, n_jobs=1).fit(pure_rows(rng, [0.6, 0.39, 0.01], 20, 1_000))


def missing_by_its_own_value(rng: Rng) -> BernoulliMixture:
    """A yes is left out more often than a no."""
    rows = pure_rows(rng, even(3), 15, 1_500)
    return BernoulliMixture(n_jobs=1).fit(missing(rows, rng.random(rows.shape) < np.where(rows == 1, 0.4, 0.1)))


def few_of_many_columns_tell(rng: Rng) -> BernoulliMixture:
    """300 columns, 30 of which differ between three clusters, in 300 rows."""
    rows = pure_rows(rng, even(3), 30, 300, low=0.35, high=0.65)
    return BernoulliMixture(n_jobs=1).fit(np.hstack([rows, rng.random((300, 270)) < rng.uniform(0.1, 0.9, 270)]))


def question_asked_twice(rng: Rng) -> BernoulliMixture:
    """70 % of a column's cells repeat another column."""
    rows = pure_rows(rng, even(3), 12, 1_500)
    again = np.where(rng.random(1_500) < 0.7, rows[:, 0], rng.random(1_500) < rows[:, 0].mean())
    return BernoulliMixture(n_jobs=1).fit(np.column_stack([rows, again]))


def zero_rows_not_recorded(rng: Rng) -> BernoulliMixture:
    rows = (rng.random((4_000, 15)) < 0.1).astype(float)
    return BernoulliMixture(n_jobs=1).fit(rows[rows.any(axis=1)])


def too_many_asked_for(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(5, n_jobs=1).fit(pure_rows(rng, even(2), 15, 1_000))


def too_few_asked_for(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(2, n_jobs=1).fit(pure_rows(rng, even(4), 20, 1_500))


def search_limit(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(max_components=4, n_jobs=1).fit(pure_rows(rng, even(8), 24, 2_000))


def every_row_four_times(rng: Rng) -> BernoulliMixture:
    return BernoulliMixture(n_jobs=1).fit(np.repeat(pure_rows(rng, even(2), 20, 200), 4, axis=0))


def drawn(make: Callable[[Rng], BernoulliMixture]) -> Callable[[int], BernoulliMixture]:
    return lambda seed: make(np.random.default_rng([seed, 2_026]))


SOUND = (
    three_clusters, given_number, six_uneven_clusters, missing_completely_at_random, missing_at_random,
    routed_questions, survey_weights, noise_columns, rare_cluster_in_many_rows, register_fitted_truncated,
    round_number_of_rows, sorted_rows,
)  # fmt: skip
UNSOUND = (
    (continuous_trait, "continuous_trait"),
    (two_traits, "continuous_trait"),
    (independent_columns, "^structure"),
    (few_rows_many_items, "^structure|stability|cluster_size"),
    (rare_cluster_in_few_rows, "cluster_size|evidence_for_number|stability"),
    (missing_by_its_own_value, "missing_at_random"),
    (few_of_many_columns_tell, "^structure|purity|stability"),
    (question_asked_twice, "local_dependence|near_duplicates"),
    (zero_rows_not_recorded, "rows_of_zeros"),
    (too_many_asked_for, "evidence_for_number"),
    (too_few_asked_for, "purity"),
    (search_limit, "search_limit"),
    (every_row_four_times, "repeated_rows"),
)
SCENARIOS = [Scenario(make.__name__, drawn(make)) for make in SOUND] + [
    Scenario(make.__name__, drawn(make), ("caution", "not identifiable"), reason) for make, reason in UNSOUND
]
