"""The path of K: every step raises the likelihood, nothing depends on order, weights are copies, the screen finds
planted copies."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from latentfit.clusters.select import path as path_module
from latentfit.clusters.select.near_duplicates import Screened, find_near_duplicates, pair_moments, screened_path
from latentfit.clusters.select.path import ClusterPath, cluster_path, most_clusters
from latentfit.clusters.select.splits import MIN_PROPORTION, split_classes, with_split, with_twin
from latentfit.core.errors import DataError
from latentfit.core.mixture.em import entropy_of, plain_steps
from latentfit.core.mixture.init import merge_down, single_merges
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table, group_rows
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.simulate import bernoulli_mixture


def screened(table: Table, **limits: int) -> Screened:
    return screened_path(table, lambda some, until: cluster_path(some, until=until), **limits)


def shuffled(table: Table, seed: int) -> tuple[Table, np.ndarray, np.ndarray]:
    """Rows and columns in another order, and the words of every second column the other way round."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(table.n_rows), rng.permutation(table.n_columns)
    codes = table.codes[rows][:, columns].copy()
    words = [table.columns[n] for n in columns]
    turned = np.arange(len(columns)) % 2 == 1
    for at in np.flatnonzero(turned):
        codes[:, at] = np.where(codes[:, at] < 2, 1 - codes[:, at], codes[:, at])
        words[at] = Column(words[at].name, words[at].categories[::-1])
    weight = None if table.row_weight is None else table.row_weight[rows]
    return Table(codes, tuple(words), weight), columns, turned


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("seed", range(3))
def test_log_likelihood_rises_along_the_path_and_in_every_fit(seed: int, missing: float) -> None:
    table = bernoulli_mixture(250, 15, 3, separation=16, missing=missing, random_state=seed).coded()
    path = cluster_path(table, most=9, least=9)
    assert len(path.fits) == 9
    for lower, upper in pairwise(path.fits):
        assert upper.log_likelihood >= lower.log_likelihood - 1e-9 * abs(lower.log_likelihood)
    for fit in path.fits:
        for before, after in pairwise(fit.refined.path):
            assert after >= before - 1e-9 * abs(before)
        assert plain_steps(table, fit.mixture.n_classes).e_step(fit.mixture).log_likelihood == pytest.approx(
            fit.log_likelihood, rel=1e-12
        )


def test_order_of_rows_columns_and_words_does_not_matter() -> None:
    table = bernoulli_mixture(400, 18, 3, separation=30, missing=0.1, copies=2, random_state=4).coded()
    mixed, columns, turned = shuffled(table, 1)
    one, two = screened(table), screened(mixed)
    assert one.copies or one.dependent
    for these, those in ((one.copies, two.copies), (one.dependent, two.dependent)):
        assert {(c.column, c.copies) for c in these} == {(columns[c.column], columns[c.copies]) for c in those}
    assert one.path.numbers.chosen == two.path.numbers.chosen
    places = np.flatnonzero(one.used_columns)
    back = [int(np.flatnonzero(columns[two.used_columns] == n)[0]) for n in places]
    flipped = turned[two.used_columns][back]
    for left, right in zip(one.path.fits, two.path.fits, strict=True):
        assert left.log_likelihood == pytest.approx(right.log_likelihood, rel=1e-9)
        assert np.allclose(left.mixture.weights, right.mixture.weights, atol=1e-8)
        ones = right.mixture.table[1::2][back]
        assert np.allclose(left.mixture.table[1::2], np.where(flipped[:, None], 1 - ones, ones), atol=1e-8)


def test_a_weight_of_w_equals_w_replicated_rows_and_zero_none() -> None:
    table = bernoulli_mixture(120, 12, 2, separation=30, random_state=5).coded(group=False)
    times = np.random.default_rng(0).integers(1, 4, size=table.n_rows)
    weighted = group_rows(replace(table, row_weight=times.astype(float)))
    copied = group_rows(table.take(np.repeat(np.arange(table.n_rows), times)))
    one, two = screened(weighted).path, screened(copied).path
    assert one.n_rows == two.n_rows == times.sum()
    assert one.numbers.chosen == two.numbers.chosen
    found, wanted = (path.numbers.columns["log_likelihood"] for path in (one, two))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_an_empty_and_a_constant_column_change_nothing_else() -> None:
    table = bernoulli_mixture(200, 12, 2, separation=30, random_state=6).coded(group=False)
    more = np.column_stack([table.codes, np.full(200, 255), np.zeros(200)]).astype(np.uint8)
    words = np.array([0, 1])
    wider = Table(more, (*table.columns, Column("empty", words), Column("constant", words)))
    one, two = cluster_path(group_rows(table)), cluster_path(group_rows(wider))
    assert one.n_columns == two.n_columns == 12
    assert one.numbers.chosen == two.numbers.chosen
    wide = two.numbers.columns["log_likelihood"][:2]  # starts differ where likelihoods have many peaks
    assert np.allclose(one.numbers.columns["log_likelihood"][:2], wide, rtol=1e-4)


def test_a_split_gains_in_the_mixture_at_least_what_it_gains_in_its_class() -> None:
    table = bernoulli_mixture(300, 20, 4, separation=30, random_state=7).coded()
    fit = cluster_path(table, most=2).fits[-1]
    posterior, _ = posterior_of(MemoryEngine(table, 1), fit.mixture)
    for split in split_classes(table, fit.mixture, posterior, np.random.default_rng(0)):
        whole = plain_steps(table, 3).e_step(with_split(fit.mixture, split)).log_likelihood
        assert whole - fit.log_likelihood >= split.gain - 0.5  # rows below the least share are left out of the gain
    twin = plain_steps(table, 3).e_step(with_twin(fit.mixture)).log_likelihood
    assert twin == pytest.approx(fit.log_likelihood, rel=1e-12)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_gain_of_a_split_is_that_of_two_classes_on_the_rows_of_one(missing: float) -> None:
    table = bernoulli_mixture(300, 20, 4, separation=30, missing=missing, random_state=7).coded()
    fit = cluster_path(table, most=2).fits[-1]
    posterior, _ = posterior_of(MemoryEngine(table, 1), fit.mixture)
    weight = table.each_weight()
    splits = split_classes(table, fit.mixture, posterior, np.random.default_rng(0))
    assert len(splits) == 2
    for split in splits:
        proportion = posterior[:, split.which]
        own = replace(
            table.take(proportion > MIN_PROPORTION), row_weight=(proportion * weight)[proportion > MIN_PROPORTION]
        )
        alone = Mixture(np.ones(1), fit.mixture.table[:, [split.which]], table.column_offsets)
        exact = (
            plain_steps(own, 2).e_step(split.halves).log_likelihood - plain_steps(own, 1).e_step(alone).log_likelihood
        )
        assert split.gain == pytest.approx(exact, rel=1e-4)
        assert split.gain > 0


def test_the_cheapest_merge_is_the_one_of_the_chain() -> None:
    table = bernoulli_mixture(300, 20, 4, separation=30, random_state=8).coded()
    sums = cluster_path(table, most=5, least=5).at(5).refined.sums
    counts, totals = sums.table + 1e-9, sums.totals + 1e-9
    tried = list(single_merges(counts, totals, table.column_offsets, 3))
    assert len(tried) == 3
    chain = merge_down(counts, totals, table.column_offsets, 4)
    assert all(np.allclose(np.sort(one), np.sort(other)) for one, other in zip(tried[0], chain, strict=True))
    assert all(totals_left.sum() == pytest.approx(totals.sum()) for _, totals_left in tried)


def test_entropy_without_a_pass_is_that_of_the_posterior() -> None:
    table = bernoulli_mixture(300, 20, 3, separation=8, missing=0.2, random_state=8).coded()
    fit = cluster_path(table, most=3, least=3).at(3)
    posterior, _ = posterior_of(MemoryEngine(table, 1), fit.mixture)
    weight = table.each_weight()
    by_row = -(posterior * np.log(np.maximum(posterior, 1e-300))).sum(axis=1)
    assert entropy_of(fit.mixture, fit.refined.sums) == pytest.approx(weight @ by_row, rel=1e-6, abs=1e-6)
    assert fit.entropy == entropy_of(fit.mixture, fit.refined.sums)


def test_a_long_table_is_walked_on_a_sample_and_ends_on_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_module, "SETTINGS", replace(path_module.SETTINGS, sample_rows=400))
    table = bernoulli_mixture(1_500, 20, 3, separation=30, random_state=9).coded()
    path = cluster_path(table)
    assert path.numbers.chosen["statistical"] == 3
    for lower, upper in pairwise(path.fits):
        assert upper.log_likelihood >= lower.log_likelihood
    assert sum(path.at(3).refined.sums.totals) == pytest.approx(1_500)


@pytest.mark.parametrize("seed", range(4))
def test_the_screen_finds_planted_near_duplicates_and_names_their_source(seed: int) -> None:
    for probability in (0.6, 0.95):  # locally dependent, near-duplicates
        data = bernoulli_mixture(
            1_000, 40, 3, separation=30, copies=4, copy_probability=probability, missing=0.05, random_state=seed
        )
        found = screened(data.coded())
        planted = {frozenset(pair) for pair in data.copied.items()}
        duplicates, dependent = (
            {frozenset((one.column, one.copies)) for one in some} for some in (found.copies, found.dependent)
        )
        assert len((duplicates | dependent) & planted) >= 3  # a copy of a nearly constant column may be too weak
        assert len((duplicates | dependent) - planted) <= 1
        assert (len(duplicates) >= 3) == (probability > 0.9)
        assert found.used_columns.sum() == 40 - len(duplicates | dependent)
        assert found.modelled.sum() == 40 - len(duplicates)
        assert found.path.numbers.chosen["statistical"] == 3


def test_the_screen_leaves_clean_columns_alone() -> None:
    dropped = sum(
        30 - screened(bernoulli_mixture(500, 30, 3, separation=D, random_state=seed).coded()).used_columns.sum()
        for seed in range(4)
        for D in (30, 8)
    )
    assert dropped <= 1  # of 240 columns


def test_equal_columns_are_near_duplicates_and_the_first_by_name_stays() -> None:
    data = bernoulli_mixture(500, 10, 1, random_state=3).coded(group=False)
    codes = np.column_stack([data.codes, data.codes[:, 4]])
    table = Table(codes, (*data.columns, Column(99, data.columns[0].categories)))
    found = screened(group_rows(table))
    assert [(one.column, one.copies) for one in found.copies] == [(10, 4)]
    assert found.copies[0].correlation == pytest.approx(1.0, abs=1e-6)


def test_a_wide_table_is_not_screened_and_says_so() -> None:
    table = bernoulli_mixture(300, 12, 1, copies=2, random_state=1).coded()
    found = screened(table, most_columns=10)
    assert not found.screened
    assert not found.copies
    assert found.used_columns.all()


def test_pair_moments_with_missing_values_and_weights_by_hand() -> None:
    data = bernoulli_mixture(60, 5, 2, missing=0.3, random_state=2)
    table = data.coded()
    moments = pair_moments(table)
    for j in range(5):
        for l in range(5):
            both = (data.rows[:, j] >= 0) & (data.rows[:, l] >= 0)
            x, y = data.rows[both, j], data.rows[both, l]
            assert moments.n_rows[j, l] == both.sum()
            assert moments.covariance[j, l] == pytest.approx(np.mean(x * y) - x.mean() * y.mean(), abs=1e-12)
            assert moments.scale[j, l] == pytest.approx(x.std() * y.std(), abs=1e-12)


def test_two_columns_alone_are_never_near_duplicates() -> None:
    table = bernoulli_mixture(300, 2, 1, copies=1, copy_probability=0.95, random_state=0).coded()
    assert not find_near_duplicates(pair_moments(table), cluster_path(table, most=1).at(1).mixture, ["a", "b"])
    assert table.without(np.array([True, False])).n_columns == 1


def test_bounds_of_the_path() -> None:
    assert most_clusters(bernoulli_mixture(40, 10, 1, random_state=0).coded(), None) == 5
    assert most_clusters(bernoulli_mixture(4, 10, 1, random_state=0).coded(), None) == 1
    one_row: ClusterPath = cluster_path(bernoulli_mixture(1, 3, 1, random_state=0).coded())
    assert len(one_row.fits) == 1
    words = Column("size", np.array(["s", "m", "l"]))
    with pytest.raises(DataError, match="'size' has 3 categories; clusters of binary rows need two"):
        cluster_path(Table(np.zeros((3, 1), np.uint8), (words,)))


def test_a_pair_that_a_missing_class_made_alike_is_no_near_duplicate() -> None:
    """Two columns tell two classes apart almost surely, four half as well: at K = 1 the pair stands out like a copy."""
    rng = np.random.default_rng(3)
    kind = rng.integers(2, size=5_000)
    often = np.full((2, 30), 0.4)
    often[:, :2], often[:, 2:6] = [[0.04], [0.96]], [[0.27], [0.7]]
    codes = (rng.random((5_000, 30)) < often[kind]).astype(np.uint8)
    table = group_rows(Table(codes, tuple(Column(n, np.array([0, 1])) for n in range(30))))
    found = screened(table)
    assert found.copies == ()
    assert found.path.numbers.chosen["statistical"] == 2
    copied = codes.copy()
    copied[:, 20] = np.where(rng.random(5_000) < 0.6, codes[:, 21], codes[:, 20])
    found = screened(group_rows(Table(copied, table.columns)))
    assert [{one.column, one.copies} for one in found.dependent] == [{20, 21}]
    assert found.path.numbers.chosen["statistical"] == 2
