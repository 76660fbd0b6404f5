"""What else could have made clusters: traits, missing answers, repeated rows, a Jacobian of low rank."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import BernoulliMixture
from latentfit.clusters.data import read_binary
from latentfit.clusters.diagnostics.alternatives import (
    SETTINGS,
    best_trait,
    jacobian_rank,
    missing_by_cluster,
    mixture_bic,
    n_free,
    repeated_rows,
    restricted_to,
)
from latentfit.clusters.theory import has_room


def clustered(rng, n=1_200, columns=14, K=3):
    often = rng.choice([0.15, 0.8], size=(K, columns))
    return (rng.random((n, columns)) < often[rng.integers(K, size=n)]).astype(float)


def fitted(rows, K=3):
    model = BernoulliMixture(K, n_jobs=1, screen=False).fit(rows)
    return model._table, model._mixture


def items(rng, n=1_000, columns=14):
    logits = rng.uniform(0.8, 2.2, columns) * rng.normal(size=(n, 1)) + rng.normal(size=columns)
    return (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)


def test_a_trait_beats_clusters_of_items_and_clusters_beat_a_trait_where_they_are():
    rng = np.random.default_rng(0)
    for rows, trait_wins in ((items(rng), True), (clustered(rng), False)):
        table, mixture = fitted(rows)
        bic, n_traits = best_trait(table, np.zeros(14, bool))
        assert (bic < mixture_bic(table, mixture, n_free(14, 3))) == trait_wins
        assert n_traits in (1, 2)


def test_noninformative_columns_are_independent_of_the_trait_as_well():
    rng = np.random.default_rng(1)
    rows = items(rng)
    noise = (rng.random((1_000, 10)) < 0.3).astype(float)
    rest = np.arange(24) >= 14
    alone, _ = best_trait(read_binary(rows), np.zeros(14, bool), most=1)
    both, _ = best_trait(read_binary(np.hstack([rows, noise])), rest, most=1)
    at = noise.mean(axis=0)
    independent = -2 * 1_000 * (at * np.log(at) + (1 - at) * np.log(1 - at)).sum() + 10 * np.log(1_000)
    assert both - alone == pytest.approx(independent, abs=1e-3)
    assert best_trait(read_binary(rows), np.arange(14) >= 2) is None


def test_missing_values_that_observed_answers_explain_are_told_from_those_that_clusters_do():
    rng = np.random.default_rng(2)
    rows = clustered(rng)
    nothing = rng.random(rows.shape)
    routed = np.zeros(rows.shape, bool)
    routed[:, 8:] = rows[:, :1] == 0
    by_answer = nothing < np.where(rows[:, :1] == 1, 0.5, 0.1)
    by_answer[:, :5] = False
    for mask in (nothing < 0.2, routed, by_answer):
        assert missing_by_cluster(*fitted(np.where(mask, np.nan, rows))).p_value > 1e-3
    by_itself = nothing < np.where(rows == 1, 0.4, 0.1)
    found = missing_by_cluster(*fitted(np.where(by_itself, np.nan, rows)))
    assert found.p_value < 1e-4
    assert found.n_columns == 14


def test_few_missing_values_and_one_cluster_are_not_looked_at():
    rng = np.random.default_rng(3)
    rows = clustered(rng)
    assert missing_by_cluster(*fitted(rows)) is None
    rows[: int(SETTINGS.min_missing) - 1, 0] = np.nan
    assert missing_by_cluster(*fitted(rows)) is None
    rows[:100, 0] = np.nan
    assert missing_by_cluster(*fitted(rows)) is not None
    assert missing_by_cluster(*fitted(rows, 1)) is None


def test_p_values_of_missing_at_random_are_even():
    rng = np.random.default_rng(4)
    values = []
    for _ in range(25):
        rows = clustered(rng, n=500, columns=12)
        values.append(missing_by_cluster(*fitted(np.where(rng.random(rows.shape) < 0.08, np.nan, rows))).p_value)
    assert 0.3 < np.mean(values) < 0.7
    assert min(values) > 1e-3


def test_rows_that_should_be_the_only_ones_of_their_kind():
    rng = np.random.default_rng(5)
    rows = clustered(rng, n=300, columns=20)
    proportion, number = repeated_rows(*fitted(rows))
    assert proportion < 0.1
    assert number > 100
    some = np.vstack([rows, rows[:150]])
    assert repeated_rows(*fitted(some))[0] > 0.5
    assert repeated_rows(*fitted(np.repeat(rows, 3, axis=0)))[0] == pytest.approx(1.0)
    assert repeated_rows(*fitted(clustered(rng, n=2_000, columns=5))) is None  # all combinations are common


def test_the_rank_is_full_where_there_is_room_and_the_columns_differ():
    rng = np.random.default_rng(6)
    for L, K in ((3, 2), (4, 2), (4, 3), (5, 3), (6, 4)):
        rank = jacobian_rank(rng.dirichlet(np.full(K, 5.0)), rng.uniform(0.1, 0.9, (K, L)))
        assert (rank == n_free(L, K)) == has_room(L, K)
    alike = rng.uniform(0.1, 0.9, (2, 6))
    alike[1, 2:] = alike[0, 2:]  # two columns tell the clusters apart, and three are needed
    assert jacobian_rank(np.array([0.5, 0.5]), alike) < n_free(6, 2)


def test_a_mixture_of_some_columns_is_its_margin():
    rng = np.random.default_rng(7)
    _, mixture = fitted(clustered(rng))
    some = np.arange(14) % 3 > 0
    part = restricted_to(mixture, some)
    assert part.n_columns == some.sum()
    np.testing.assert_array_equal(part.table[1::2], mixture.table[1::2][some])
