"""The parts of the search for pure clusters beside literal sums: its board of counts, its starts, its questions."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from itertools import combinations

import numpy as np
import pytest

from latentfit.clusters import init as module
from latentfit.clusters import moments as tc
from latentfit.clusters.init import PureClusters, cluster_d_max, most_clusters, passes, unit_rows
from latentfit.clusters.moments import maximal_total_correlation, strong_subsets, total_correlation
from latentfit.core.simplex import pattern_ids
from latentfit.core.table.table import Column, Table

GAP = 255


def table(seed=0, n=14, L=4, missing=0.15, weighted=True):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (n, L)).astype(np.uint8)
    codes[: n // 2, 1] = codes[: n // 2, 0]
    codes[rng.random((n, L)) < missing] = GAP
    columns = tuple(Column(f"c{k}", np.arange(2)) for k in range(L))
    return Table(codes, columns, rng.choice([0.5, 1.0, 2.0], n) if weighted else None)


def literal_objective(rows, labels, kappa, subsets, tau, least):
    total = 0.0
    for k in range(kappa):
        for subset in subsets:
            if (labels == k).any():
                total += max(total_correlation(rows, subset, membership=labels == k) - tau, 0.0)
        total += max(least - rows.row_weight[labels == k].sum(), 0.0)
    return total


@pytest.mark.parametrize("d", [2, 3])
def test_the_gain_of_a_move_is_the_change_of_the_objective(d):
    rows, rng = table(n=8), np.random.default_rng(1)
    labels = rng.integers(0, 3, 8)
    labels[:3] = [0, 1, 2]
    subsets = np.array(list(combinations(range(4), d)))
    tau, least = 0.02, 2.5
    board = module._Board(rows, labels, 3, subsets, tau, least)
    for _ in range(2):
        now = literal_objective(rows, board.labels, 3, subsets, tau, least)
        assert board.objective() == pytest.approx(now, abs=1e-6)
        gains = board.gains()
        for row in range(8):
            for target in range(3):
                if target != board.labels[row]:
                    there = board.labels.copy()
                    there[row] = target
                    want = literal_objective(rows, there, 3, subsets, tau, least) - now
                    assert gains[row, target] == pytest.approx(want, abs=1e-6)
        row = int(rng.integers(8))
        board.move(row, (int(board.labels[row]) + 1) % 3)


def test_clusters_have_the_largest_correlation_of_their_rows():
    rows = table(1, weighted=False)
    labels = np.arange(14) % 2
    values, exact = cluster_d_max(rows, labels, 2)
    assert exact
    for k in range(2):
        want = max(total_correlation(rows, pair, membership=labels == k) for pair in combinations(range(4), 2))
        assert values[k] == pytest.approx(want)


@pytest.mark.parametrize("few", [True, False])
def test_all_subsets_are_watched_where_they_are_few_and_else_those_that_stand_out(monkeypatch, few):
    """Of many, what fails after a search is watched in the next one."""
    rows, seen = table(1, weighted=False), []
    labels = np.arange(14) % 2
    # four columns have six pairs
    monkeypatch.setattr(module, "SETTINGS", replace(module.SETTINGS, watch_all=6 if few else 5))
    standing_out = {True: np.array([[0, 1]]), False: np.array([[2, 3]])}
    monkeypatch.setattr(module, "_outstanding", lambda rows, labels, d, tau: standing_out[tau is None])

    def search(board, max_moves, rng):
        seen.append(board)
        return 0.0, labels

    monkeypatch.setattr(module, "_Board", lambda rows, labels, kappa, subsets, tau, least: subsets.tolist())
    monkeypatch.setattr(module, "_tabu", search)
    assert module._search(rows, labels, 2, 2, 0.1, 0.1, 5, np.random.default_rng(0)) == (0.0, labels)
    if few:
        assert seen == [[list(pair) for pair in combinations(range(4), 2)]]
    else:
        assert seen[0] == [[0, 1]]
        assert all(subsets == [[0, 1], [2, 3]] for subsets in seen[1:])
        assert len(seen) == 1 + module.SETTINGS.max_rounds


def test_both_questions_of_the_algorithm():
    rows = table(2, n=8, weighted=False)
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    low = np.array([0.1, 0.1])
    assert passes(rows, labels, low, 0.1, 0.5)  # two rows are αn/2
    assert not passes(rows, labels, low, 0.1, 0.55)
    assert not passes(rows, labels, np.array([0.1, 0.2]), 0.1, 0.5)
    assert not passes(rows, labels, np.array([0.1, 0.1, 0.0]), 0.1, 1e-9)  # an empty cluster
    assert most_clusters(1.0) == 1
    assert most_clusters(1 / 3) == 3
    assert most_clusters(0.3) == 4
    assert most_clusters(0.1 + 0.1 + 0.1) == 4


def test_rows_of_whole_weight_are_searched_one_by_one():
    made = table(3, n=3, missing=0.0, weighted=False)
    plain, row_of = unit_rows(made)
    assert row_of.tolist() == [0, 1, 2]
    whole, row_of = unit_rows(Table(made.codes, made.columns, np.array([2.0, 1.0, 3.0])))
    assert row_of.tolist() == [0, 0, 1, 2, 2, 2]
    assert whole.row_weight is None
    assert whole.codes.tolist() == made.codes[row_of].tolist()
    grouped = Table(made.codes, made.columns, np.array([2.0, 1.0, 1.0]), unique_index=np.array([2, 0, 1, 0]))
    assert unit_rows(grouped)[1].tolist() == [2, 0, 1, 0]
    halves, row_of = unit_rows(Table(made.codes, made.columns, np.array([0.5, 1.0, 1.0])))
    assert row_of.tolist() == [0, 1, 2]
    assert halves.row_weight.tolist() == [0.5, 1.0, 1.0]
    assert plain.n_rows == 3


def test_empty_clusters_take_a_row_of_the_largest():
    rng = np.random.default_rng(0)
    found = module._fill(np.array([0, 0, 0, 2, 2]), 4, rng)
    assert sorted(np.bincount(found, minlength=4).tolist()) == [1, 1, 1, 2]
    assert (found[3:] == 2).sum() >= 1
    assert module._fill(np.array([0, 1]), 3, rng).tolist() == [0, 1]  # no row to spare
    labels = np.array([1, 0, 1])
    assert module._fill(labels, 2, rng).tolist() == [1, 0, 1]


def test_clusters_are_named_in_the_order_of_their_appearance():
    labels = np.array([2, 2, 0, 1, 0])
    order, renamed = module._by_appearance(labels)
    assert (order.tolist(), renamed.tolist()) == ([2, 0, 1], [0, 0, 1, 2, 1])


def test_hard_em_equals_loops():
    rows = table(4, n=12)
    found = module._hard_em(rows, np.array([0, 5]), np.random.default_rng(0))
    shown, one = rows.codes != GAP, (rows.codes == 1).astype(float)
    p = np.array([[(one[s, c] + 0.5) / (shown[s, c] + 1) for c in range(4)] for s in (0, 5)])
    for _ in range(10):
        labels = []
        for i in range(12):
            fit = [
                sum(np.log(p[k, c] if one[i, c] else 1 - p[k, c]) for c in range(4) if shown[i, c]) for k in range(2)
            ]
            labels.append(int(fit[1] > fit[0]))
        assert len(set(labels)) == 2
        p = np.array(
            [
                [
                    (sum(rows.row_weight[i] * one[i, c] for i in range(12) if labels[i] == k) + 0.5)
                    / (sum(rows.row_weight[i] * shown[i, c] for i in range(12) if labels[i] == k) + 1)
                    for c in range(4)
                ]
                for k in range(2)
            ]
        )
    assert found.tolist() == labels


def test_the_cluster_with_the_strongest_pair_is_split():
    codes = np.array([[0, 0], [1, 1]] * 4 + [[0, 1], [1, 0], [0, 0], [1, 1]], np.uint8)
    rows = Table(codes, (Column("a", np.arange(2)), Column("b", np.arange(2))))
    labels = np.array([0] * 8 + [1] * 4)
    for worst in (0, 1):
        own = labels if worst == 0 else 1 - labels
        found = module._split(rows, own, 3, np.random.default_rng(0))
        assert (found[8:] == own[8:]).all()  # the independent one is left whole
        assert set(found[:8].tolist()) == {worst, 2}
        assert cluster_d_max(rows, found, 2)[0].max() == pytest.approx(0.0, abs=1e-9)


def test_starts_take_turns(monkeypatch):
    rows, rng = table(5), np.random.default_rng(0)
    asked = []
    for name in ("_split", "_hard_em", "_fill"):
        monkeypatch.setattr(module, name, lambda *args, name=name: asked.append((name, args)) or np.zeros(14, int))
    assert module._initial_labels(rows, np.zeros(14, int), 1, 3, rng).tolist() == [0] * 14
    for number in range(4):
        module._initial_labels(rows, np.zeros(14, int), 3, number, rng)
    assert [name for name, _ in asked] == ["_split", "_hard_em", "_fill", "_hard_em"]
    assert len(set(asked[1][1][1].tolist())) == 3  # different rows for seeds
    assert set(asked[2][1][0].tolist()) == {0, 1, 2}


def test_subsets_that_stand_out_are_those_above_the_threshold():
    rows = table(6, L=5, weighted=False)
    labels = np.arange(14) % 2
    every = module._outstanding(rows, labels, 2, None)
    tau = 0.1
    some = module._outstanding(rows, labels, 2, tau)
    want = {
        pair
        for pair in map(tuple, every.tolist())
        if max(total_correlation(rows, pair, membership=labels == k) for k in range(2)) > tau
    }
    assert {tuple(pair) for pair in some.tolist()} == want
    assert 0 < len(some) < 10
    assert module._outstanding(rows, labels, 2, 9.0).shape == (0, 2)


# ------------------------------------------------------------------ total correlation


def test_candidates_in_blocks_are_counted_alike(monkeypatch):
    rows = table(7, n=20, L=6)
    whole = tc._joined(rows, np.array([0, 2]), np.array([1, 3, 4, 5]))
    monkeypatch.setattr(tc, "CELLS_AT_ONCE", 1)
    np.testing.assert_allclose(tc._joined(rows, np.array([0, 2]), np.array([1, 3, 4, 5])), whole)
    for value, column in zip(whole, (1, 3, 4, 5), strict=True):
        assert value == pytest.approx(total_correlation(rows, [0, 2, column]))


def test_a_subset_that_no_row_is_complete_on_has_no_correlation():
    codes = np.array([[0, GAP, 1], [GAP, 1, 0]], np.uint8)
    rows = Table(codes, tuple(Column(f"c{k}", np.arange(2)) for k in range(3)))
    assert total_correlation(rows, [0, 1]) == 0.0
    assert tc._joined(rows, np.array([0, 1]), np.array([2])).tolist() == [0.0]


def test_strong_subsets_come_strongest_first_and_not_more_than_asked(monkeypatch):
    rows = table(8, n=30, L=6, missing=0.0)
    for d in (2, 3):
        found = strong_subsets(rows, d)
        values = [one.value for one in found]
        assert values == sorted(values, reverse=True)
        assert 1 <= len(found) <= tc.N_STARTS
        assert not any(one.exact for one in found)
        for one in found:
            assert one.value == pytest.approx(total_correlation(rows, one.columns))
    pairs = sorted((total_correlation(rows, pair) for pair in combinations(range(6), 2)), reverse=True)
    np.testing.assert_allclose([one.value for one in strong_subsets(rows, 2)], pairs[:8])
    monkeypatch.setattr(tc, "N_STARTS", 2)
    assert len(strong_subsets(rows, 2)) == 2


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_maximum_is_exact_while_subsets_can_be_walked(d):
    rows = table(9, n=25, L=5)
    want = max(total_correlation(rows, list(pick)) for pick in combinations(range(5), d))
    found = maximal_total_correlation(rows, d, most_subsets=[0, 0, 10, 5][d - 1])
    assert found.exact
    assert found.value == pytest.approx(want, abs=1e-12)
    assert found.value == pytest.approx(total_correlation(rows, found.columns), abs=1e-12)
    if d > 2:
        searched = maximal_total_correlation(rows, d, most_subsets=[10, 5][d - 3] - 1)
        assert not searched.exact
        assert searched.value <= want + 1e-12


def test_a_soft_cluster_weighs_its_rows():
    rows = table(10)
    proportion = np.linspace(0, 1, 14)
    members = tc.cluster_rows(rows, proportion)
    assert members.n_rows == 13  # the first has no share
    np.testing.assert_allclose(members.row_weight, (rows.row_weight * proportion)[1:])
    hard = tc.cluster_rows(rows, proportion > 0.5)
    np.testing.assert_allclose(hard.row_weight, rows.row_weight[proportion > 0.5])
    assert tc.cluster_rows(rows, None) is rows


def test_unique_rows_of_any_width_have_numbers():
    bits = np.zeros((4, 20), int)
    bits[1, 19] = bits[3, 19] = 1
    bits[2, 0] = 1
    found = pattern_ids(bits)
    assert found[1] == found[3]
    assert len(set(found.tolist())) == 3
    assert sorted(set(found.tolist())) == [0, 1, 2]


def test_clusters_found_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(PureClusters), fields(PureClusters)[0].name, 0)
    assert PureClusters(None, np.arange(2), None, False, ()).n_clusters is None
    assert PureClusters(np.array([0, 2, 1]), np.arange(3), None, False, ()).n_clusters == 3
