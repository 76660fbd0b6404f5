"""Clusters of binary rows: splits, merges, noninformative columns and near-duplicates, each on numbers that a hand can
follow."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.clusters.select import near_duplicates as copies
from latentfit.clusters.select import path as walk
from latentfit.clusters.select.criteria import statistical_penalty
from latentfit.clusters.select.near_duplicates import (
    PairMoments,
    _standing_out,
    explained_by_third_columns,
    find_near_duplicates,
    find_pair_splits,
    pair_moments,
    partial_correlation,
    residual_correlation,
    screened_path,
)
from latentfit.clusters.select.noninformative import RestrictedFit, RestrictedPath, _log_choices, column_gains
from latentfit.clusters.select.path import ClusterFit, ClusterPath, cluster_path, most_clusters, varying_columns
from latentfit.clusters.select.splits import (
    _OwnRows,
    few_columns,
    leading_direction,
    pulling_row,
    split_classes,
    with_split,
    with_twin,
)
from latentfit.core.em import EMResult
from latentfit.core.mixture import init as merging
from latentfit.core.mixture.init import merge_down, merged_inits, single_merges
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table, group_rows
from latentfit.engine.memory import Sums
from latentfit.simulate import bernoulli_mixture


def table_of(codes, weight=None):
    codes = np.asarray(codes, np.uint8)
    return Table(codes, tuple(Column(n, np.array([0, 1])) for n in range(codes.shape[1])), weight)


def binary(at_one, weights):
    """A mixture with frequencies (L, F)."""
    at_one = np.asarray(at_one, float)
    table = np.empty((2 * len(at_one), at_one.shape[1]))
    table[1::2], table[0::2] = at_one, 1 - at_one
    return Mixture(np.asarray(weights, float), table, np.arange(0, 2 * len(at_one) + 1, 2, dtype=np.int32))


# ----------------------------------------------------------------- splits


def test_the_leading_direction_is_the_strongest_of_weighted_residuals():
    rng = np.random.default_rng(0)
    residual = (np.outer(rng.normal(size=30), [3, 1, 0, 2]) + 0.3 * rng.normal(size=(30, 4))).astype(np.float32)
    weight = rng.random(30)
    found = leading_direction(residual, weight)
    vectors = np.linalg.eigh(residual.T @ (weight[:, None] * residual))[1]
    assert abs(found @ vectors[:, -1]) == pytest.approx(1.0, abs=1e-4)


def test_few_columns_are_the_large_ones_and_three_at_least():
    assert few_columns(np.array([5, 0.1, 0.1, 4, 0.2, -6], np.float32)).tolist() == [5, 0, 0, 4, 0, -6]
    even = np.array([1, -1, 1, 1], np.float32)
    assert few_columns(even).tolist() == even.tolist()
    assert few_columns(np.array([1, 0.5, 0.4, 0.3], np.float32)).tolist() == pytest.approx([1, 0.5, 0.4, 0])
    wide = np.array([1.55, -1.55, 1.55, 1.55, 1.45] + [0.1] * 7, np.float32)  # the root of their mean square is .988
    assert np.flatnonzero(few_columns(wide)).tolist() == [0, 1, 2, 3]


def test_a_row_pulls_by_its_weight_and_squared_length():
    residual = np.array([[1, 0], [0, 2], [3, 0]], np.float32)
    weight = np.array([2.0, 0.5, 1.0])  # 2, 2 and 9 of 13
    for draw, row in ((0.0, 0), (2 / 13 - 1e-6, 0), (2 / 13 + 1e-6, 1), (4 / 13 + 1e-6, 2), (1 - 1e-12, 2)):
        assert pulling_row(residual, weight, draw).tolist() == residual[row].tolist()


def test_halves_of_own_rows_are_those_of_two_classes_done_by_hand():
    codes = np.array([[0, 1, 1], [1, 0, 255], [1, 1, 0], [0, 0, 0]], np.uint8)
    weight = np.array([1.0, 0.5, 2.0, 1.5])
    profile = np.array([0.3, 0.6, 0.5])
    own = _OwnRows.of(table_of(codes), np.arange(4), weight, profile)
    upper = np.array([[1.0], [0.25], [0.5], [0.0]], np.float32)
    halves = own.m_step(upper, 1.0)
    low, high = np.zeros(3), np.zeros(3)
    for column in range(3):
        for side, part in ((high, upper[:, 0]), (low, 1 - upper[:, 0])):
            ones = sum(weight[r] * part[r] for r in range(4) if codes[r, column] == 1)
            seen = sum(weight[r] * part[r] for r in range(4) if codes[r, column] < 2)
            side[column] = (ones + profile[column]) / (seen + 1)
    np.testing.assert_allclose(halves.high[:, 0], high, rtol=1e-5)
    np.testing.assert_allclose(halves.low[:, 0], low, rtol=1e-5)
    assert halves.upper[0] == pytest.approx((1 + 0.125 + 1 + 1) / (5 + 2))

    def probability(row, often):
        return np.prod([often[c] if codes[row, c] == 1 else 1 - often[c] for c in range(3) if codes[row, c] < 2])

    p = halves.upper[0]
    joint = np.array(
        [[(1 - p) * probability(r, halves.low[:, 0]), p * probability(r, halves.high[:, 0])] for r in range(4)]
    )
    np.testing.assert_allclose(own.upper_membership(halves)[:, 0], joint[:, 1] / joint.sum(axis=1), rtol=1e-4)
    gain = sum(weight[r] * np.log(joint[r].sum() / probability(r, profile)) for r in range(4))
    assert own.gains(halves)[0] == pytest.approx(gain, rel=1e-4)
    residual = (np.array([0, 1, 1, 0]) - 0.3) / np.sqrt(0.21)
    np.testing.assert_allclose(own.residual[:, 0], residual, rtol=1e-5)
    assert own.residual[1, 2] == 0
    mixture = halves.mixture(0, table_of(codes).column_offsets)
    np.testing.assert_allclose(mixture.table[1::2, 1], halves.high[:, 0])
    np.testing.assert_allclose(mixture.table[0::2] + mixture.table[1::2], 1.0)
    assert mixture.weights.tolist() == pytest.approx([1 - p, p])


def test_a_class_needs_four_rows_worth_to_be_split():
    table = table_of([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1]])
    mixture = binary([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5])

    def which(*proportions):
        posterior = np.array([[proportion, 1 - proportion] for proportion in proportions])
        return sorted(split.which for split in split_classes(table, mixture, posterior, np.random.default_rng(0)))

    assert which(0.8, 0.8, 0.8, 0.8, 0.8) == [0]
    assert which(0.79, 0.8, 0.8, 0.8, 0.8) == []
    assert which(1, 1, 1, 1, 1) == [0]
    heavy = replace(table, row_weight=np.array([9.0, 1, 1, 1, 1]))
    posterior = np.array([[1, 0], [0, 1], [0, 1], [0, 1], [0, 1]], float)
    found = split_classes(heavy, mixture, posterior, np.random.default_rng(0))
    assert [split.which for split in found] == [1]  # one row is no two, whatever its weight


def test_a_split_is_put_in_place_of_its_class_and_the_largest_gain_comes_first():
    rng = np.random.default_rng(1)
    codes = np.vstack([np.repeat(rng.random((30, 1)) < 0.5, 6, axis=1), rng.random((30, 6)) < 0.5])
    mixture = binary(np.full((6, 2), 0.5), [0.25, 0.75])
    posterior = np.repeat(np.eye(2)[[1, 0]], 30, axis=0)
    found = split_classes(table_of(codes), mixture, posterior, np.random.default_rng(0))
    assert [split.which for split in found] == [1, 0]
    assert found[0].gain > found[1].gain
    whole = with_split(mixture, found[0])
    halves = found[0].halves
    assert whole.weights.tolist() == pytest.approx([0.25, 0.75 * halves.weights[0], 0.75 * halves.weights[1]])
    np.testing.assert_array_equal(whole.table[:, 0], mixture.table[:, 0])
    np.testing.assert_array_equal(whole.table[:, 1:], halves.table)
    twin = with_twin(mixture)
    assert twin.weights.tolist() == pytest.approx([0.25, 0.375, 0.375])
    np.testing.assert_array_equal(twin.table, mixture.table[:, [0, 1, 1]])


# ----------------------------------------------------------------- merges


def worth(counts, total, offsets):
    value = total * np.log(total)
    for a, b in pairwise(offsets):
        value += sum(n * np.log(n) for n in counts[a:b]) - counts[a:b].sum() * np.log(counts[a:b].sum())
    return value


def test_single_merges_lose_least_first():
    rng = np.random.default_rng(2)
    offsets = np.array([0, 2, 5], np.int32)
    counts, weights = rng.random((5, 4)) + 0.1, rng.random(4) + 1
    losses = {}
    for a in range(4):
        for b in range(a + 1, 4):
            together = worth(counts[:, a] + counts[:, b], weights[a] + weights[b], offsets)
            losses[a, b] = (
                worth(counts[:, a], weights[a], offsets) + worth(counts[:, b], weights[b], offsets) - together
            )
    order = sorted(losses, key=lambda pair: losses[pair])
    found = list(single_merges(counts, weights, offsets, 3))
    assert len(found) == 3
    for (a, b), (merged, totals) in zip(order, found, strict=False):
        left = [n for n in range(4) if n != b]
        want = counts.copy()
        want[:, a] += want[:, b]
        np.testing.assert_allclose(merged, want[:, left])
        assert totals.sum() == pytest.approx(weights.sum())
        assert totals[left.index(a)] == pytest.approx(weights[a] + weights[b])


def test_few_numbers_at_a_time_merge_the_same(monkeypatch):
    rng = np.random.default_rng(3)
    offsets = np.array([0, 2, 4], np.int32)
    counts, weights = rng.random((4, 7)), rng.random(7)
    want = merge_down(counts, weights, offsets, 3)
    for chunk in (1, 9, 30):
        monkeypatch.setattr(merging, "SEARCH", replace(merging.SEARCH, chunk=chunk))
        for one, other in zip(merge_down(counts, weights, offsets, 3), want, strict=True):
            np.testing.assert_array_equal(one, other)
    same = merge_down(counts, weights, offsets, 7)
    np.testing.assert_array_equal(same[0], counts)
    np.testing.assert_array_equal(same[1], weights)


@pytest.mark.parametrize(
    ("rows", "wanted", "most_rows", "work", "number"),
    [(60, 2, 99, 2e7, 6), (5, 2, 99, 2e7, 5), (60, 2, 4, 2e7, 4), (60, 2, 99, 8 * 25.0, 5), (60, 2, 99, 8.0, 2)],
)
def test_how_many_classes_are_merged(monkeypatch, rows, wanted, most_rows, work, number):
    """Three times as many as wanted, as far as rows and work allow, never fewer than wanted."""
    heard = []

    def init(some, many, n_components, n_jobs):
        heard.append((some.n_rows, many, n_components))
        return many

    monkeypatch.setattr(merging, "MERGE_ROWS", most_rows)
    monkeypatch.setattr(merging, "SEARCH", replace(merging.SEARCH, merge_work=work))
    monkeypatch.setattr(merging, "KINDS", (("kind", lambda view, n, rng: n),))
    monkeypatch.setattr(merging, "merged_init", init)
    sample = SimpleNamespace(table=table_of(np.random.default_rng(0).integers(2, size=(rows, 4))), view=None)
    assert list(merged_inits(sample, wanted, np.random.default_rng(0), 1)) == [("kind", number)]
    assert heard == [(min(rows, most_rows), number, wanted)]


# --------------------------------------------------------- noninformative columns


def test_choices_are_counted_as_binomial_coefficients():
    assert np.exp(_log_choices(6, np.arange(7))).tolist() == pytest.approx([1, 6, 15, 20, 15, 6, 1])


def test_gains_of_columns_are_their_divergences():
    cells = np.array([[3.0, 1.0], [1.0, 5.0], [2.0, 2.0], [2.0, 2.0], [0.0, 0.0], [4.0, 6.0]])
    want = []
    for column in range(3):
        part = cells[2 * column : 2 * column + 2]
        value = 0.0
        for c in range(2):
            for k in range(2):
                if part[c, k]:
                    value += part[c, k] * np.log(part[c, k] / part[:, k].sum() / (part[c].sum() / part.sum()))
        want.append(value)
    np.testing.assert_allclose(column_gains(cells), want, atol=1e-12)
    assert want[0] > 0.5


def restricted_path(varying, before=None):
    walked = RestrictedPath(None, np.asarray(varying, bool), max_iter=1, tol=0.1, n_jobs=1, rng=None)
    walked.before = before
    return walked


def log_binomial(n, k):
    from math import comb, log

    return log(comb(n, k))


@pytest.mark.parametrize("n_clusters", [2, 3, 5])
def test_columns_are_informative_that_leave_most_above_the_penalty(n_clusters):
    gains = 0.01 * np.arange(60.0)
    gains[[0, 2, 3, 4, 7, 9, 11]] = [60.0, 55.0, 70.0, 65.0, 62.0, 58.0, 64.0]
    gains[6] = 999.0
    varying = np.ones(60, bool)
    varying[6] = False  # what never varies never speaks
    informative, penalised = restricted_path(varying)._choose(gains, n_clusters)
    order = [n for n in np.argsort(-gains) if n != 6]
    least = {2: 3, 3: 5, 5: 7}[n_clusters]
    best = max(
        range(least, 60),
        key=lambda s: gains[order[:s]].sum() - (n_clusters - 1) * statistical_penalty(s) - log_binomial(59, s),
    )
    assert np.flatnonzero(informative).tolist() == sorted(order[:best])
    assert best == 7
    assert penalised == pytest.approx(log_binomial(59, best) + np.log(59))


def test_informative_columns_stay_informative_and_only_new_ones_are_chosen():
    gains = np.zeros(60)
    gains[[1, 2, 3, 4, 7]] = [60.0, 55.0, 70.0, 65.0, 62.0]
    already_informative = np.arange(60) < 1
    before = RestrictedFit(None, 0.0, already_informative, ~already_informative, 2.5)
    informative, penalised = restricted_path(np.ones(60, bool), before)._choose(gains, 2)
    assert np.flatnonzero(informative).tolist() == [0, 1, 2, 3, 4, 7]
    assert penalised == pytest.approx(2.5 + log_binomial(59, 5) + np.log(60))
    many = RestrictedFit(None, 0.0, np.arange(60) < 20, np.arange(60) >= 20, 0.0)
    informative, penalised = restricted_path(np.ones(60, bool), many)._choose(gains, 2)
    assert np.flatnonzero(informative).tolist() == list(range(20))
    assert penalised == pytest.approx(np.log(60))


def test_where_every_column_is_informative_there_is_no_restricted_fit():
    assert restricted_path(np.ones(8, bool))._choose(np.full(8, 99.0), 2) is None
    three = restricted_path(np.ones(3, bool))
    assert three._choose(np.array([99.0, 0, 0]), 2) is None  # two clusters need three columns
    ten = restricted_path(np.ones(10, bool))._choose(99.0 * (np.arange(10) < 1), 2)
    assert ten is not None
    assert np.flatnonzero(ten[0]).tolist() == [0, 1, 2]


def test_the_value_of_a_restricted_fit():
    informative = np.array([1, 1, 0, 1, 0], bool)
    fit = RestrictedFit(binary(np.full((5, 3), 0.5), np.full(3, 1 / 3)), -100.0, informative, ~informative, 4.0)
    assert fit.value == pytest.approx(-100 - 2 * (3 + 1 + 3 * 4 ** (1 / 3)) - 4)


# ----------------------------------------------------------------- copies


def moments_of(correlation, rows=1000.0):
    correlation = np.asarray(correlation, float)
    return PairMoments(0.25 * correlation, np.full(correlation.shape, 0.25), np.full(correlation.shape, float(rows)))


def pair(size, *pairs, rest=0.0):
    """A symmetric matrix (size, size) of residuals: `pairs` are (i, j, r)."""
    r = np.full((size, size), rest)
    np.fill_diagonal(r, 0.0)
    for i, j, value in pairs:
        r[i, j] = r[j, i] = value
    return r


def stands(r, rows=1000.0):
    found = _standing_out(r, np.full(r.shape, float(rows)))
    assert (found == found.T).all()
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(found))]


def test_a_pair_stands_out_that_matters():
    assert stands(pair(90, (2, 5, 0.251))) == [(2, 5)]
    assert stands(pair(90, (2, 5, -0.251))) == [(2, 5)]
    assert stands(pair(90, (2, 5, 0.249))) == []
    assert stands(pair(20, (2, 5, 0.249)), 1e6) == []  # however many rows
    assert stands(pair(20, (2, 5, 0.4)), 157) == [(2, 5)]  # five standard errors are .399
    assert stands(pair(20, (2, 5, 0.4)), 156) == []


def test_a_pair_stands_out_from_the_rest_of_both_columns():
    assert stands(pair(20, (2, 5, 0.4), (2, 7, 0.19))) == [(2, 5)]
    assert stands(pair(20, (2, 5, 0.4), (2, 7, 0.21))) == []
    assert stands(pair(20, (2, 5, 0.4), (5, 7, -0.21))) == []
    assert stands(pair(20, (2, 5, 0.4), (8, 7, 0.15))) == [(2, 5)]
    both = pair(20, (2, 5, 0.4), (8, 7, 0.41))
    assert stands(both) == [(2, 5), (7, 8)]
    assert stands(pair(20, (2, 5, 0.4), rest=0.099)) == [(2, 5)]
    assert stands(pair(20, (2, 5, 0.4), rest=0.101)) == []
    assert stands(pair(2, (0, 1, 0.9))) == []
    assert stands(pair(3, (0, 1, 0.9))) == [(0, 1)]


def test_residuals_are_empirical_less_fitted_correlations():
    mixture = binary([[0.2, 0.8], [0.3, 0.7], [0.5, 0.5]], [0.4, 0.6])
    moments = PairMoments(
        np.array([[0.25, 0.2, 0.1], [0.2, 0.24, 0.0], [0.1, 0.0, 0.0]]),
        np.array([[0.25, 0.24, 0.0], [0.24, 0.24, 0.2], [0.0, 0.2, 0.0]]),
        np.full((3, 3), 100.0),
    )
    found = residual_correlation(moments, mixture)
    mean = [0.4 * 0.2 + 0.6 * 0.8, 0.4 * 0.3 + 0.6 * 0.7]
    fitted = 0.4 * 0.2 * 0.3 + 0.6 * 0.8 * 0.7 - mean[0] * mean[1]
    assert found[0, 1] == pytest.approx((0.2 - fitted) / 0.24)
    assert found[0, 2] == 0  # a constant column
    assert np.diag(found).tolist() == [0, 0, 0]


def test_partial_correlations_hold_the_others_fixed():
    r = pair(3, (0, 1, 0.5), (1, 2, 0.4), (0, 2, 0.1))
    rows = np.full((3, 3), 97.0)
    found = partial_correlation(r, rows)
    a, b, c = (0.97 * value for value in (0.5, 0.4, 0.1))
    assert found[0, 1] == pytest.approx((a - b * c) / np.sqrt((1 - b * b) * (1 - c * c)))
    assert found[1, 2] == pytest.approx((b - a * c) / np.sqrt((1 - a * a) * (1 - c * c)))
    assert np.diag(found).tolist() == [0, 0, 0]
    equal = partial_correlation(pair(3, (0, 1, 1.0)), np.full((3, 3), 1e9))
    assert np.isfinite(equal).all()  # equal columns have no inverse
    assert equal[0, 1] == pytest.approx((1 / 0.02 - 1 / 2) / (1 / 0.02 + 1 / 2), rel=1e-6)


def test_third_columns_explain_a_pair_when_they_are_related_to_both():
    n = 400.0
    rows = np.full((6, 6), n)
    sign = pair(6, (0, 1, 0.5))
    limit = 3 * np.sqrt((1 + 0.25) * 4) / n + 0.5 * 4 / n  # chance alone makes the second
    each = np.sqrt(limit / 4)
    for size, speak in ((0.99, False), (1.01, True)):
        r = sign.copy()
        r[:2, 2:] = size * each
        assert explained_by_third_columns(r, rows, 0, 1) is speak
        r[1, 2:] *= -1
        assert explained_by_third_columns(r, rows, 0, 1) is False  # against the sign of the pair
        r[0, 1] = r[1, 0] = -0.5
        assert explained_by_third_columns(r, rows, 0, 1) is speak


def test_two_clusters_that_differ_in_two_columns_only_are_near_duplicates():
    names = list("abcdefgh")
    at_one = np.full((8, 2), 0.5)
    at_one[[2, 5], 0], at_one[[2, 5], 1] = 0.1, 0.9
    moments = moments_of(pair(8, (2, 5, 0.6)))
    found = find_pair_splits(moments, binary(at_one, [0.5, 0.5]), names)
    assert [(one.column, one.copies, one.n_clusters) for one in found] == [(5, 2, 2)]
    assert found[0].correlation == pytest.approx(0.6)
    assert found[0].residual == pytest.approx(0.64)  # of the two clusters united
    assert not found[0].duplicate
    assert find_pair_splits(moments_of(pair(8, (2, 5, 0.24))), binary(at_one, [0.5, 0.5]), names) == []
    at_one[6] = [0.3, 0.7]  # the third squared difference: .16/.25 against .64/.25
    assert find_pair_splits(moments, binary(at_one, [0.5, 0.5]), names) == []
    at_one[6] = [0.43, 0.57]
    assert len(find_pair_splits(moments, binary(at_one, [0.5, 0.5]), names)) == 1
    at_one[[0, 1, 3, 4, 6, 7]] = [0.355, 0.645]  # each is small, but six together hold more than a fifth
    assert find_pair_splits(moments, binary(at_one, [0.5, 0.5]), names) == []
    two = binary([[0.1, 0.9], [0.1, 0.9]], [0.5, 0.5])
    assert find_pair_splits(moments_of(pair(2, (0, 1, 0.6))), two, names) == []


def test_differences_of_small_clusters_are_chance():
    """The difference of equal columns is 1/n_f + 1/n_g: taken off, and four times as much may be the largest."""
    names = list("abcde")
    at_one = np.full((5, 2), 0.5)
    at_one[[0, 1], 0], at_one[[0, 1], 1] = 0.1, 0.9
    at_one[2] = [0.5 - 0.165, 0.5 + 0.165]
    gap = 4 * 0.33**2  # .436 against 2.56
    for rows, found in ((80, 1), (4000, 0)):
        probability = 2 / (0.5 * rows)
        assert (gap - probability < 0.15 * (2.56 - probability) + 4 * probability) == bool(found)
        assert len(find_pair_splits(moments_of(pair(5, (0, 1, 0.6)), rows), binary(at_one, [0.5, 0.5]), names)) == found


def test_of_a_pair_the_column_seen_less_goes_then_the_one_with_less_in_common_then_by_name():
    r = pair(6, (0, 1, 0.9))
    flat = binary(np.full((6, 1), 0.5), [1.0])
    seen = np.full((6, 6), 1000.0)

    def goes(rows, correlation, names):
        moments = PairMoments(0.25 * correlation, np.full((6, 6), 0.25), rows)
        (one,) = find_near_duplicates(moments, flat, names)
        return one.column

    assert goes(seen, r, list("abcdef")) == 1
    assert goes(seen, r, list("bacdef")) == 0
    fewer = seen.copy()
    fewer[0, 0] = 999
    assert goes(fewer, r, list("abcdef")) == 0
    common = r.copy()
    common[1, 3] = common[3, 1] = 0.02
    assert goes(seen, common, list("abcdef")) == 0


def test_no_column_is_in_two_pairs_and_the_strongest_comes_first():
    names = list("abcdef")
    raw = moments_of(pair(6, (0, 1, 0.5), (1, 2, -0.9), (3, 4, 0.6)))
    found = copies._set_aside(raw, {(0, 1): 0.5, (1, 2): -0.85, (3, 4): 0.6}, 3, names)
    assert [(one.copies, one.column, one.n_clusters) for one in found] == [(1, 2, 3), (3, 4, 3)]
    assert (found[0].correlation, found[0].residual) == (pytest.approx(-0.9), -0.85)
    assert [one.duplicate for one in found] == [True, False]


def test_a_near_duplicate_nearly_determines_the_other_in_all_rows_and_inside_clusters():
    for correlation, residual, duplicate in ((0.9, 0.81, True), (-0.9, -0.81, True), (0.9, 0.79, False),
                                             (0.79, 0.95, False), (0.44, 0.44, False)):  # fmt: skip
        assert copies.NearDuplicate(1, 0, correlation, 2, residual).duplicate is duplicate
    at_one = np.array([[0.1, 0.9], [0.1, 0.9], [0.5, 0.5]])
    moments = moments_of(pair(3, (0, 1, 0.9)))
    mixture = binary(at_one, [0.5, 0.5])
    r = residual_correlation(moments, mixture)
    inside = copies.within_correlation(moments, mixture, r)
    assert inside[0, 1] == pytest.approx((0.9 * 0.25 - 0.16) / 0.09)  # what clusters leave, by what varies in them


def test_moments_block_by_block_are_the_same(monkeypatch):
    table = bernoulli_mixture(50, 5, 2, missing=0.2, random_state=2).coded()
    whole = pair_moments(table)
    monkeypatch.setattr(copies, "SETTINGS", replace(copies.SETTINGS, block=7))
    parts = pair_moments(table)
    for name in ("covariance", "scale", "n_rows"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-13)


def test_a_path_is_refitted_without_near_duplicates_six_times_at_the_most(monkeypatch):
    rng = np.random.default_rng(0)
    table = table_of(rng.integers(2, size=(30, 10)))
    widths, heard = [], []

    def fit(some, until):
        widths.append(some.n_columns)
        heard.append(until is not None and until(binary(np.full((some.n_columns, 1), 0.5), [1.0])))
        return SimpleNamespace(whole_number=1, limit=24, at=lambda number: SimpleNamespace(mixture=None))

    def last_goes(moments, mixture, names):
        at = len(names) - 1
        assert names[at] == str(at)
        return [copies.NearDuplicate(at, 0, 0.9, 1, 0.9)]

    monkeypatch.setattr(copies, "find_near_duplicates", last_goes)
    monkeypatch.setattr(copies, "find_pair_splits", lambda *rest: [])
    found = screened_path(table, fit)
    assert widths == [10, 9, 8, 7, 6, 5, 4]
    assert heard == [True] * 6 + [False]
    assert [one.column for one in found.copies] == [9, 8, 7, 6, 5, 4]
    assert found.used_columns.tolist() == [True] * 4 + [False] * 6
    widths.clear()
    assert screened_path(table, fit, most_columns=10).screened
    assert not screened_path(table, fit, most_columns=9).screened
    monkeypatch.setattr(copies, "find_near_duplicates", lambda *rest: [])
    widths.clear()
    assert screened_path(table, fit).copies == ()
    assert widths == [10]
    once = iter([[copies.NearDuplicate(3, 1, 0.9, 1, 0.9)], []])
    monkeypatch.setattr(copies, "find_pair_splits", lambda *rest: next(once))
    widths.clear()
    assert [one.column for one in screened_path(table, fit).copies] == [3]
    assert widths == [10, 9]
    weaker = [copies.NearDuplicate(at, 0, 0.5, 1, 0.5) for at in (3, 5, 7)]
    once = iter([weaker, [], weaker])
    widths.clear()
    found = screened_path(table, fit)
    assert ([one.column for one in found.dependent], found.copies) == ([3, 5], ())  # a quarter of ten at the most
    assert widths == [10, 8]
    assert found.modelled.all()  # they are in the model
    widths.clear()
    assert screened_path(table, fit, duplicates_only=True).dependent == ()
    assert widths == [10]


def test_three_columns_stay_whatever_depends_on_what(monkeypatch):
    table = table_of(np.random.default_rng(0).integers(2, size=(30, 4)))
    all_alike = [copies.NearDuplicate(at, 0, 0.95, 1, 0.95) for at in (1, 2, 3)]
    monkeypatch.setattr(copies, "find_near_duplicates", lambda *rest: all_alike)
    monkeypatch.setattr(copies, "find_pair_splits", lambda *rest: all_alike)

    def fit(some, until):
        if until is not None:
            until(binary(np.full((some.n_columns, 1), 0.5), [1.0]))
        return SimpleNamespace(whole_number=1, limit=24, at=lambda number: SimpleNamespace(mixture=None))

    assert screened_path(table, fit).used_columns.tolist() == [True, False, True, True]


# ------------------------------------------------------------------- path


def refined(log_likelihood, n_classes, columns=3):
    """A fit that is sure of every row."""
    mixture = binary(np.full((columns, n_classes), 0.5), np.full(n_classes, 1 / n_classes))
    totals = np.full(n_classes, 1.0)
    sums = Sums(log_likelihood, totals, np.zeros((2 * columns, n_classes)))
    return EMResult(mixture, sums, log_likelihood, log_likelihood, 1, True, [log_likelihood])


def path_of(values, restricted=()):
    fits = tuple(ClusterFit(refined(value, at + 1), "start", 0.0) for at, value in enumerate(values))
    return ClusterPath(fits, tuple(restricted) or (None,) * len(fits), 3, 100.0)


def test_a_restricted_fit_is_preferred_when_its_value_is_better():
    mixture = binary(np.full((3, 2), 0.4), [0.5, 0.5])
    whole = -90.0 - statistical_penalty(3)
    informative = np.array([1, 0, 0], bool)

    def restricted(value):
        penalised = value + statistical_penalty(1)
        return RestrictedFit(mixture, penalised, informative, ~informative, 0.0)

    better = path_of([-100.0, -90.0], [None, restricted(whole + 1e-6)])
    assert better.preferred(2) is better.restricted[1]
    assert better.best(2) is mixture
    assert better.numbers.columns["informative"] == [0, 1]
    worse = path_of([-100.0, -90.0], [None, restricted(whole - 1e-6)])
    assert worse.preferred(2) is None
    assert worse.best(2) is worse.at(2).mixture
    assert worse.numbers.columns["informative"] == [0, 3]
    assert worse.preferred(1) is None


def test_columns_vary_that_show_both_categories():
    assert varying_columns(table_of([[0, 1, 255, 0], [1, 1, 0, 255]])).tolist() == [True, False, False, False]


def test_the_path_ends_at_a_cluster_per_eight_rows_and_at_twenty_four():
    def most(rows, asked=None, weight=None):
        table = table_of(np.zeros((rows, 2)), weight)
        return most_clusters(table, asked)

    assert most(15) == 1
    assert most(16) == 2
    assert most(23) == 2
    assert most(500) == 24
    assert most(7) == 1
    assert most(500, 40) == 40
    assert most(5, 40) == 5
    assert most(5, 0) == 1
    assert most(3, None, np.full(3, 100.0)) == 3


def test_a_path_stops_four_past_the_best_of_every_criterion():
    values = [-100.0 + n * 0.01 for n in range(6)]
    assert not walk._passed([], 3, 100.0)
    for length in range(1, 7):
        fits = [refined(value, at + 1) for at, value in enumerate(values[:length])]
        assert walk._passed(fits, 3, 100.0) == (length >= 5)
        assert walk._best_so_far(fits, 3, 100.0) == (length == 1)


def test_the_least_number_of_fits_is_one_unless_asked(monkeypatch):
    """With one look beyond the best a table without clusters ends its path at once, and goes on if asked to."""
    table = group_rows(table_of(np.random.default_rng(0).integers(2, size=(64, 4))))
    monkeypatch.setattr(walk, "_passed", lambda fits, varying, n_rows: bool(fits))
    monkeypatch.setattr(walk, "SETTINGS", replace(walk.SETTINGS, beyond=0))
    assert len(cluster_path(table).fits) == 1
    assert len(cluster_path(table, least=2).fits) == 2
    assert len(cluster_path(table, least=3, most=2).fits) == 2


def test_a_path_may_be_ended_from_outside(monkeypatch):
    table = group_rows(table_of(np.random.default_rng(0).integers(2, size=(64, 4))))
    seen = []

    def until(mixture):
        seen.append(mixture.n_classes)
        return True

    found = cluster_path(table, until=until)
    assert (seen, len(found.fits), found.restricted) == ([1], 1, (None,))
    monkeypatch.setattr(walk, "_best_so_far", lambda *rest: False)
    seen.clear()
    cluster_path(table, until=until, most=2)
    assert seen == []


def test_a_fit_below_the_one_before_goes_on_from_that_one():
    table = group_rows(table_of(np.random.default_rng(0).integers(2, size=(40, 3))))

    def rising(fits, names):
        made = bare_search()
        made.table, made.tol, made.n_jobs, made.all_blank = table, 1e-6, 1, None
        made.fits, made.names = fits, names
        return made.rising()

    first = refined(-80.0, 1)
    found = rising([first, refined(-81.0, 2), refined(-80.0, 3)], ["one", "split", "merged"])
    assert found[0] == (first, "one")
    assert found[1][0].log_likelihood != -81.0
    assert found[1][0].params.n_classes == 2
    assert found[1][1] == "a class twice"  # not the initialisation of the fit that was replaced
    equal = refined(-80.0, 2)
    assert rising([first, equal], ["one", "split"])[1] == (equal, "split")  # equal is not below


def bare_search():
    return object.__new__(walk._Search)


def test_a_path_is_walked_back_and_forth_where_a_neighbour_has_risen(monkeypatch):
    asked, rises = [], {(2, True): 1, (3, False): 1}

    def challenge(self, at, back):
        asked.append((at, back))
        rises[at, back] = rises.get((at, back), 0) - 1
        return rises[at, back] >= 0

    def swept(n_fits, last):
        """Places of the fits that were taken to all rows again."""
        made = bare_search()
        made.sample_fits, made.fits = list(range(n_fits)), [None] * n_fits
        made.sweep(last)
        return [at for at, fit in enumerate(made.fits) if fit is not None]

    monkeypatch.setattr(walk._Search, "_on_all_rows", lambda self, fit: fit)
    monkeypatch.setattr(walk._Search, "_challenge", challenge)
    assert swept(6, 4) == [2, 3]
    assert asked == [(3, True), (2, True), (1, True), (3, False), (2, True)]
    asked.clear()
    assert swept(3, 9) == []  # the last has no fit above it, the first none to gain
    assert asked == [(1, True)]
    monkeypatch.setattr(walk._Search, "_challenge", lambda self, at, back: asked.append(back) or True)
    asked.clear()
    swept(4, 3)
    assert asked == [True] + [True, False] * 4 + [True]  # nine turns at the most, of which only the first asks all


def challenged(monkeypatch, short, long, back=True):
    """What becomes of a fit at −100 when challengers reach `short` and, if they go on, `long`."""
    made = bare_search()
    made.rows, made.tol, made.n_jobs, made.near = None, 0.1, 1, 4.0
    went, resume_from = [], []
    monkeypatch.setattr(walk, "plain_steps", lambda rows, number, n_jobs: number)
    monkeypatch.setattr(walk._Search, "_merged", lambda self, upper: [("merged back", (upper, at)) for at in range(2)])
    monkeypatch.setattr(walk._Search, "_split", lambda self, lower: [("split", (lower, at)) for at in range(2)])

    def em(steps, init, **rest):
        resume_from.append((steps, init[0]))
        return SimpleNamespace(at=init[1], log_likelihood=short[init[1]])

    def continue_em(steps, tried, max_iter, **rest):
        went.append(tried.at)
        return SimpleNamespace(at=tried.at, log_likelihood=long[tried.at])

    monkeypatch.setattr(walk, "em", em)
    monkeypatch.setattr(walk, "continue_em", continue_em)
    found = ["below", SimpleNamespace(at=None, log_likelihood=-100.0), "above"]
    names = ["one", "old", "three"]
    made.blank, made.sample_fits, made.names = None, found, names
    rose = made._challenge(1, back)
    assert resume_from == [(2, "above" if back else "below")] * 2
    return rose, found[1].log_likelihood, names[1], went


def test_a_challenger_that_comes_near_is_finished_and_kept_if_it_is_better(monkeypatch):
    assert challenged(monkeypatch, [-103.9, -105], [-99, None]) == (True, -99, "merged back", [0])
    assert challenged(monkeypatch, [-104, -105], [None, None]) == (False, -100, "old", [])  # not near
    assert challenged(monkeypatch, [-101, -101], [-100, -101]) == (False, -100, "old", [0, 1])  # equal is no better
    assert challenged(monkeypatch, [-101, -105], [-99.95, None]) == (False, -99.95, "merged back", [0])  # hardly news
    assert challenged(monkeypatch, [-101, -101], [-99, -98], back=False) == (True, -98, "split", [0, 1])


def test_where_the_starts_of_a_number_come_from(monkeypatch):
    made = bare_search()
    made.rows = SimpleNamespace(column_offsets=np.array([0, 2, 10]))
    made.sample, made.rng = SimpleNamespace(view=None), None
    made.__dict__["_chain"] = {2: "chain"}
    monkeypatch.setattr(walk, "spectral_clusters", lambda view, number, rng: number)
    monkeypatch.setattr(walk._Search, "_split", lambda self, before: [("split 1", None)])

    def names(number):
        return [name for name, _ in made._initialisations(None, number)]

    assert names(2) == ["split 1", "merged", *(f"spectral {n}" for n in range(1, 6))]
    assert names(9) == ["split 1", "spectral 1", "spectral 2"]
    assert names(10) == ["split 1", "spectral 1"]
    monkeypatch.setattr(walk, "MAX_CELLS", 10)
    assert len(names(10)) == 2
    monkeypatch.setattr(walk, "MAX_CELLS", 9)
    assert names(10) == ["split 1"]
