"""Initialisations of mixtures from rows and from moments, step by step against loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latentfit.core.mixture import init as row_starts
from latentfit.core.mixture import init as table_pool
from latentfit.core.mixture.init import (
    RowView,
    Sample,
    block_sums,
    dense_pairs,
    draw_sample,
    fill_classes,
    in_name_order,
    marginal_table,
    moment_inits,
    naive_spa,
    one_hot_rows,
    pair_frequencies,
    random_init,
    randomly_assigned_rows,
    rows_as_seeds,
    searched_spa,
    soften,
    spa_init,
    spectral_clusters,
    spread_rows,
)
from latentfit.core.mixture.pair_counts import count_table_pairs
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table

GAP = 255


def table(weighted=True):
    """Six rows, columns of 2, 3 and 2 categories, two missing values."""
    codes = np.array([[0, 2, 1], [1, 0, 0], [0, GAP, 1], [1, 1, GAP], [0, 2, 0], [1, 0, 1]], np.uint8)
    columns = tuple(Column(name, np.arange(size)) for name, size in (("a", 2), ("b", 3), ("c", 2)))
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0]) if weighted else None
    return Table(codes, columns, weight)


def literal_one_hot(made):
    out = np.zeros((made.n_rows, int(made.column_offsets[-1])))
    for i, row in enumerate(made.codes):
        for n, code in enumerate(row):
            if code != GAP:
                out[i, made.column_offsets[n] + code] = 1
    return out


# ------------------------------------------------------------------ rows as numbers


@pytest.mark.parametrize("weighted", [True, False])
def test_one_hot_rows_pairs_and_marginals(monkeypatch, weighted):
    made = table(weighted)
    one_hot, weight = literal_one_hot(made), made.row_weight if weighted else np.ones(6)
    np.testing.assert_array_equal(one_hot_rows(made, 0, 6), one_hot)
    np.testing.assert_array_equal(one_hot_rows(made, 2, 99), one_hot[2:])
    np.testing.assert_array_equal(made.each_weight(), weight)
    monkeypatch.setattr(row_starts, "SEARCH", replace(row_starts.SEARCH, paired_rows=2))
    for n in (6, 5):
        want = sum(weight[i] * np.outer(one_hot[i], one_hot[i]) for i in range(n))
        np.testing.assert_allclose(dense_pairs(made, n), want)
    counts = weight @ one_hot
    for begin, end in ((0, 2), (2, 5), (5, 7)):
        np.testing.assert_allclose(
            marginal_table(made)[begin:end], counts[begin:end] / counts[begin:end].sum(), atol=1e-8
        )


def test_a_view_holds_as_many_rows_as_memory_allows(monkeypatch):
    made = table()
    assert RowView(made).one_hot.shape == (6, 7)
    monkeypatch.setattr(row_starts, "SEARCH", replace(row_starts.SEARCH, dense_rows=4))
    assert RowView(made).one_hot.shape == (4, 7)
    assert RowView(made).weight.tolist() == [1.0, 2.0, 1.0, 3.0]
    many = Table(np.zeros((60, 2), np.uint8), (Column("a", np.arange(3)), Column("b", np.arange(2))))
    monkeypatch.setattr(row_starts, "SEARCH", replace(row_starts.SEARCH, dense_rows=1000))
    monkeypatch.setattr(row_starts, "SEARCH", replace(row_starts.SEARCH, dense_cells=8))
    assert len(RowView(many).one_hot) == 50  # never fewer than fifty
    monkeypatch.setattr(row_starts, "SEARCH", replace(row_starts.SEARCH, dense_cells=275))  # five cells per row
    assert len(RowView(many).one_hot) == 55


@pytest.mark.parametrize("common", [24, 2])
def test_the_embedding_is_that_of_correspondence_analysis(monkeypatch, common):
    monkeypatch.setattr(row_starts, "SEARCH", replace(row_starts.SEARCH, common_rank=common))
    made = table()
    view = RowView(made)
    X = literal_one_hot(made) / np.sqrt(view.marginals)
    proportion = made.row_weight / made.row_weight.sum()
    mean = sum(proportion[i] * X[i] for i in range(6))
    spread = sum(proportion[i] * np.outer(X[i] - mean, X[i] - mean) for i in range(6))
    vectors = np.linalg.eigh(spread)[1][:, ::-1][:, :3]
    found = view.embedded(3)
    assert found.shape == (6, 3)
    np.testing.assert_allclose(np.abs(found), np.abs((X - mean) @ vectors), atol=1e-8)
    np.testing.assert_allclose(np.abs(view.embedded(1)), np.abs(found[:, :1]), atol=1e-8)


# ------------------------------------------------------------------ classes around rows


class Reported:
    """A generator that says what it is told."""

    def __init__(self, randoms):
        self._randoms = list(randoms)

    def random(self):
        return self._randoms.pop(0)


def test_positions_are_drawn_by_their_probability():
    probability = np.array([0.0, 1.0, 3.0, 0.0])
    for value, want in ((0.0, 1), (0.24, 1), (0.26, 2), (0.999, 2)):
        assert row_starts._draw(probability, np.ones(4), Reported([value])) == want
    assert row_starts._draw(np.zeros(4), np.array([1.0, 1, 1, 1]), Reported([0.6])) == 2  # none left: by weight
    assert row_starts._draw(probability, np.ones(4), Reported([1.0])) == 3  # rounding never runs over the end


def around(view, rows):
    """.2 marginals + .8 what the row says, a missing value takes the marginals."""
    out = np.zeros((7, len(rows)))
    for f, row in enumerate(rows):
        for n, code in enumerate(row):
            begin, end = view.sample.column_offsets[n], view.sample.column_offsets[n + 1]
            out[begin:end, f] = view.marginals[begin:end]
            if code != GAP:
                out[begin:end, f] *= 0.2
                out[begin + code, f] += 0.8
    return out


def test_spread_rows_are_far_apart_and_classes_lean_to_them():
    view = RowView(table())
    # first by weight: .25 of 10 is row 1; then by (proportion of cells that differ)² · weight
    rows = view.sample.codes
    first = 1
    apart = np.array([1 - np.mean([a == b for a, b in zip(row, rows[first], strict=True) if a != GAP]) for row in rows])
    probability = np.cumsum(apart**2 * view.weight)
    for value in (0.01, 0.3, 0.5, 0.7, 0.99):
        second = int(np.searchsorted(probability, value * probability[-1], side="right"))
        found = spread_rows(view, 2, Reported([0.25, value]))
        np.testing.assert_allclose(found.table, around(view, rows[[first, second]]))
        np.testing.assert_allclose(found.weights, 0.5)


def test_rows_far_from_all_seeds_before_are_next():
    view = RowView(table())
    rows = view.sample.codes
    draws = Reported([0.25, 0.3, 0.4])
    found = spread_rows(view, 3, draws)
    seeds = [1]
    for value in (0.3, 0.4):
        near = [
            min(1 - np.mean([a == b for a, b in zip(row, rows[s], strict=True) if a != GAP]) for s in seeds)
            for row in rows
        ]
        probability = np.cumsum(np.square(near) * view.weight)
        seeds.append(int(np.searchsorted(probability, value * probability[-1], side="right")))
    np.testing.assert_allclose(found.table, around(view, rows[seeds]))


def test_random_rows_are_taken_once_each_while_there_are_enough():
    view = RowView(table())
    found = rows_as_seeds(view, 6, np.random.default_rng(0))
    want = around(view, view.sample.codes)
    assert sorted(map(tuple, np.round(found.table.T, 9))) == sorted(map(tuple, np.round(want.T, 9)))
    assert rows_as_seeds(view, 9, np.random.default_rng(0)).table.shape == (7, 9)


def test_classes_that_are_lacking_are_taken_from_rows():
    view = RowView(table())
    two = Mixture(np.array([0.3, 0.7]), around(view, view.sample.codes[[0, 1]]), view.sample.column_offsets)
    assert fill_classes(two, view, 2, np.random.default_rng(0)) is two
    assert fill_classes(two, view, 1, np.random.default_rng(0)) is two
    found = fill_classes(two, view, 5, np.random.default_rng(0))
    more = rows_as_seeds(view, 3, np.random.default_rng(0))
    np.testing.assert_allclose(found.table, np.hstack([two.table, more.table]))
    np.testing.assert_allclose(found.weights, np.array([0.3, 0.7, 0.2, 0.2, 0.2]) / 1.6)  # three fifths for three


def softened(view, proportions):
    """Counts of the rows' shares and one row of marginals a class; a tenth of marginals and of even weights."""
    one_hot = literal_one_hot(view.sample)
    counts = one_hot.T @ proportions + view.marginals[:, None]
    for begin, end in ((0, 2), (2, 5), (5, 7)):
        counts[begin:end] /= counts[begin:end].sum(axis=0)
    totals = proportions.sum(axis=0) + 1
    weights = totals / totals.sum() + 0.1 / proportions.shape[1]
    return weights / weights.sum(), 0.9 * counts + 0.1 * view.marginals[:, None]


def test_shared_rows_are_divided_by_their_weight():
    view = RowView(table())
    found = randomly_assigned_rows(view, 3, np.random.default_rng(4))
    proportions = (
        np.random.default_rng(4).dirichlet(np.full(3, row_starts.SEARCH.membership_concentration), size=6)
        * view.weight[:, None]
    )
    weights, want = softened(view, proportions)
    np.testing.assert_allclose(found.weights, weights)
    np.testing.assert_allclose(found.table, want)


@pytest.mark.parametrize("K", [2, 4])
def test_spectral_clusters_are_those_of_weighted_k_means(K):
    rng = np.random.default_rng(5)
    codes = np.column_stack([rng.integers(0, size, 40) for size in (2, 3, 2)]).astype(np.uint8)
    view = RowView(Table(codes, table().columns, rng.uniform(0.5, 2.0, 40)))
    found = spectral_clusters(view, K, np.random.default_rng(1))
    points = view.embedded(K)
    assert points.shape == (40, K)
    seeds = row_starts._spread_points(points, view.weight, K, np.random.default_rng(1))
    centres = points[seeds]
    for _ in range(5):
        near = [int(np.argmin([np.sum((p - c) ** 2) for c in centres])) for p in points]
        proportions = np.array([[view.weight[i] * (near[i] == c) for c in range(K)] for i in range(40)])
        centres = np.array(
            [
                proportions[:, c] @ points / proportions[:, c].sum() if proportions[:, c].any() else centres[c]
                for c in range(K)
            ]
        )
    weights, want = softened(view, proportions)
    np.testing.assert_allclose(found.table, want)
    np.testing.assert_allclose(found.weights, weights)


def test_seeds_of_k_means_are_drawn_by_squared_distance_and_weight():
    points, weight = np.array([[0.0], [1.0], [4.0]]), np.array([1.0, 2.0, 1.0])
    # from point 0: 0, 1·2, 16·1 of 18
    assert row_starts._spread_points(points, weight, 2, Reported([0.1, 0.1])) == [0, 1]
    assert row_starts._spread_points(points, weight, 2, Reported([0.1, 0.12])) == [0, 2]
    # then the distances to the nearest: 0, 1·2, 0
    assert row_starts._spread_points(points, weight, 3, Reported([0.1, 0.12, 0.9])) == [0, 2, 1]


def test_an_initialisation_is_softened_by_a_tenth():
    made = Mixture(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 2], np.int32))
    found = soften(made, np.array([0.25, 0.75]))
    np.testing.assert_allclose(found.table, [[0.925, 0.025], [0.075, 0.975]])
    np.testing.assert_allclose(found.weights, [1.05 / 1.1, 0.05 / 1.1])


# ------------------------------------------------------------------ samples and moments


def test_columns_and_categories_are_put_in_the_order_of_their_names():
    codes = np.array([[0, 1], [1, GAP], [2, 0]], np.uint8)
    given = Table(codes, (Column("z", np.array(["q", "p", "r"])), Column("b", np.array(["y", "x"]))))
    ordered, cells = in_name_order(given)
    assert [column.name for column in ordered.columns] == ["b", "z"]
    assert [column.categories.tolist() for column in ordered.columns] == [["x", "y"], ["p", "q", "r"]]
    assert ordered.codes.tolist() == [[0, 1], [GAP, 0], [1, 2]]
    assert cells.tolist() == [4, 3, 1, 0, 2]
    sample = Sample(ordered, cells, True)
    assert sample.as_given(np.arange(5)).tolist() == [3, 2, 4, 1, 0]
    turned = sample.mixture_as_given(
        Mixture(np.ones(1), np.arange(5.0)[:, None], ordered.column_offsets), given.column_offsets
    )
    assert turned.table[:, 0].tolist() == [3, 2, 4, 1, 0]
    counted = sample.counted(count_table_pairs(given))
    np.testing.assert_allclose(counted, dense_pairs(ordered, 3))
    drawn = draw_sample(given, 2, 0)
    assert not drawn.whole
    assert drawn.table.n_rows == 2
    assert draw_sample(given, 3, 0).whole


def test_pairs_of_a_sample_are_counted_on_as_many_rows_as_work_allows(monkeypatch):
    made = Table(np.zeros((20, 2), np.uint8), (Column("a", np.arange(2)), Column("b", np.arange(2))))
    assert Sample(made, np.arange(4), True).pairs[0, 0] == 20
    monkeypatch.setattr(table_pool, "SEARCH", replace(table_pool.SEARCH, fewest_rows=3))
    monkeypatch.setattr(table_pool, "SEARCH", replace(table_pool.SEARCH, gram_work=16 * 7))
    assert Sample(made, np.arange(4), True).pairs[0, 2] == 7
    monkeypatch.setattr(table_pool, "SEARCH", replace(table_pool.SEARCH, gram_work=1))
    assert Sample(made, np.arange(4), True).pairs[0, 2] == 3


def test_frequencies_of_pairs_are_over_the_rows_that_show_both():
    made = table()
    counts = dense_pairs(made, 6)
    offsets = made.column_offsets
    sums = block_sums(counts, offsets)
    found = pair_frequencies(counts, offsets)
    for m in range(3):
        for j in range(3):
            block = counts[offsets[m] : offsets[m + 1], offsets[j] : offsets[j + 1]]
            assert sums[m, j] == block.sum()
            np.testing.assert_allclose(
                found[offsets[m] : offsets[m + 1], offsets[j] : offsets[j + 1]], block / block.sum()
            )
    np.testing.assert_allclose(pair_frequencies(0.01 * counts, offsets), found)  # weights may be small
    nothing = pair_frequencies(np.zeros((4, 4)), np.array([0, 2, 4]))
    assert not nothing.any()


def test_initialisations_from_moments_need_two_columns_and_few_categories(monkeypatch):
    made = table()
    sample = Sample(made, np.arange(7), True)
    assert [name for name, _ in moment_inits(sample, 2, np.random.default_rng(0))] == ["spa", "spectral"]
    monkeypatch.setattr(table_pool, "MAX_CELLS", 7)
    assert len(list(moment_inits(sample, 2, np.random.default_rng(0)))) == 2
    monkeypatch.setattr(table_pool, "MAX_CELLS", 6)
    assert not list(moment_inits(sample, 2, np.random.default_rng(0)))
    alone = Table(made.codes[:, :1], made.columns[:1])
    assert not list(moment_inits(Sample(alone, np.arange(2), True), 2, np.random.default_rng(0)))


def test_halves_that_never_meet_start_from_rows():
    codes = np.array([[0, GAP], [1, GAP], [GAP, 0], [GAP, 1]], np.uint8)
    apart = Table(codes, (Column("a", np.arange(2)), Column("b", np.arange(2))))
    sample = Sample(apart, np.arange(4), True)
    found = spa_init(sample, sample.pairs, 2, np.array([True, False]), np.random.default_rng(0))
    np.testing.assert_allclose(found.table, rows_as_seeds(sample.view, 2, np.random.default_rng(0)).table)


def test_the_naive_split_is_the_wider_half_and_the_likeliest_is_searched(monkeypatch):
    sample = Sample(table(), np.arange(7), True)
    asked = []

    def init(sample, counts, n_components, split, rng):
        asked.append(split.tolist())
        return len(asked) - 1

    monkeypatch.setattr(table_pool, "spa_init", init)
    naive_spa(sample, sample.pairs, 2, np.random.default_rng(0))
    sizes = np.diff(sample.table.column_offsets)  # 2, 3, 2
    assert (sum(asked[0]), asked[0][int(sizes.argmax())]) == (2, True)  # two of three
    asked.clear()
    monkeypatch.setattr(table_pool, "pair_log_likelihood", lambda counts, mixture: -abs(mixture - 3))
    assert searched_spa(sample, sample.pairs, 2, np.random.default_rng(0)) == 3
    assert len(asked) == table_pool.SEARCH.searched_splits
    assert asked[0] == [True, True, False]


def test_random_starts_are_even_on_the_simplex():
    made = table()
    rng = np.random.default_rng(0)
    tables = np.array([random_init(made, 2, rng).table for _ in range(4000)])
    for begin, end in ((0, 2), (2, 5), (5, 7)):
        np.testing.assert_allclose(tables[:, begin:end].sum(axis=1), 1.0)
        np.testing.assert_allclose(tables[:, begin:end].mean(axis=(0, 2)), 1 / (end - begin), atol=0.02)
    k = 3  # Var of a coordinate of Dirichlet(1, 1, 1) is (k − 1)/(k²(k + 1))
    np.testing.assert_allclose(tables[:, 2:5].var(axis=(0, 2)), (k - 1) / (k**2 * (k + 1)), rtol=0.1)
