"""Where findings about latent classes begin, on both sides of limits; merging, halves and resampling against loops."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import gamma

from latentfit.core.mixture import bootstrap
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table
from latentfit.core.verdict import Examiner
from latentfit.tables import theory as theorems
from latentfit.tables.diagnostics import classes as table_classes
from latentfit.tables.diagnostics import pairs as table_pairs
from latentfit.tables.diagnostics import verdict as tables
from latentfit.tables.diagnostics.classes import Gain, Halves
from latentfit.tables.diagnostics.pairs import CellPairs


def reported(examiner, words):
    return any(words in check.reason for check in examiner.failed)


def offsets_of(*sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def table_of(codes, sizes=None, **kwargs):
    codes = np.asarray(codes, np.uint8)
    sizes = [2] * codes.shape[1] if sizes is None else sizes
    return Table(codes, tuple(Column(f"c{n}", np.arange(s)) for n, s in enumerate(sizes)), **kwargs)


def mixture_of(weights, sizes=(2, 2, 2), seed=0):
    rng = np.random.default_rng(seed)
    cells = np.concatenate([rng.dirichlet(np.ones(s), len(weights)).T for s in sizes])
    return Mixture(np.array(weights, float), cells, offsets_of(*sizes))


# ------------------------------------------------------------------- theorems


def test_theorem_2_asks_for_the_more_demanding_number_of_columns():
    """(38): 33 log(3SF/μ)/(ρ₁D̄₁) or 4 log(4SF²/(3pρ₂μ))/D̄; a D̄ near zero makes the second the larger."""
    S, p, mu, N, F = 500.0, 0.8, 0.05, 4, 2
    second = []
    for lightest in (0.5, 0.375):
        w = np.array([1 - lightest, lightest])
        A = np.array([[0.3, 0.7], [0.7, 0.3]] * N)
        found = theorems.theorem_2(Mixture(w, A, offsets_of(*[2] * N)), S, p)
        D1 = p * sum(0.7 * log(0.7 / 0.3) + 0.3 * log(0.3 / 0.7) for _ in range(N)) / N
        D2 = 2 / N * log(lightest / (1 - lightest))
        D = (D1 + D2) / 2
        one = 33 * log(3 * S * F / mu) / (0.3 * D1)
        two = 4 * log(4 * S * F**2 / (3 * p * lightest * mu)) / D
        assert found["asked_columns"] == pytest.approx(max(one, two))
        second.append(two > one)
    assert sum(second) == 1


@pytest.mark.parametrize(
    ("lightest", "asked"), [(0.4, (8 - 4 * 0.3**2) / 0.3**2), (0.02, (8 - 4 * 0.02**2) / (4 * 0.02**2))]
)
def test_theorem_2_asks_for_clearer_classes_where_a_frequency_or_a_class_is_rare(lightest, asked):
    A = np.array([[0.3, 0.7], [0.7, 0.3]] * 4)
    mixture = Mixture(np.array([1 - lightest, lightest]), A, offsets_of(*[2] * 4))
    assert theorems.theorem_2(mixture, 500.0, 0.8)["asked_D"] == pytest.approx(asked)


@pytest.mark.parametrize(("sizes", "F", "left"), [
    ([2, 3, 4], 2, [2]), ([2, 3, 4], 4, [2]), ([2, 3, 4], 5, [1, 2]), ([2, 3, 4], 6, [1, 2]), ([2, 3, 4], 7, [1, 2]),
    ([3, 3, 3], 4, [0, 1]), ([3, 3, 3], 5, [0, 1]), ([5], 3, [0]),
])  # fmt: skip
def test_the_widest_columns_carry_rank(sizes, F, left):
    """1 + Σ(I − 1) ≥ F, one column left for the other side."""
    assert np.flatnonzero(theorems.widest_split(np.array(sizes, np.int32), F)).tolist() == left


@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.5, 0.5, 4.0])])
def test_rows_are_counted_where_two_models_put_them(weight):
    table = table_of([[0, 0], [0, 0], [1, 1], [0, 1]], row_weight=weight)
    by_first = Mixture(np.full(2, 0.5), np.array([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5], [0.5, 0.5]]), offsets_of(2, 2))
    by_second = Mixture(np.full(2, 0.5), np.array([[0.5, 0.5], [0.5, 0.5], [0.1, 0.9], [0.9, 0.1]]), offsets_of(2, 2))
    w = np.ones(4) if weight is None else weight
    found = table_classes.crossed_classes(table, by_first, by_second)
    np.testing.assert_array_equal(found, [[w[3], w[0] + w[1]], [w[2], 0.0]])


def test_odd_ends_of_the_theorems():
    assert theorems.noise_bound(0.0, 0.5)["phi"] == pytest.approx(sqrt(2) * (1 + sqrt(log(40))) / 0.5)
    assert theorems.smallest_frequency(np.full((3, 3), 0.2), offsets_of(3)) == 0
    one = theorems.theorem_2(mixture_of([1.0]), 100.0, 1.0)
    assert one["D"] is None
    assert one["asked_columns"] is None
    init = theorems.init_in_basin(mixture_of([1.0]), mixture_of([0.5, 0.5]), {})
    assert init == {"profile_error": None, "weight_error": None, "inside": 0.0}
    m = mixture_of([0.5, 0.5])
    zero = theorems.theorem_1(m, np.zeros((6, 6)), 100.0, 1.0)
    assert zero["asked_rows"] is None
    assert zero["promised_error"] is None


# ---------------------------------------------------------------------- sizes


def test_rows_needed_are_ten_per_effective_category():
    counts, offsets = np.array([30.0, 30.0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]), offsets_of(2, 8, 2)
    found = tables.rows_needed(counts, np.array([60.0, 8.0, 0.0]), offsets)
    assert found == pytest.approx([50, 80, 50])
    skew = np.array([0.7, 0.2, 0.1])
    e = np.exp(-sum(p * log(p) for p in skew)) * 10
    assert tables.rows_needed(np.repeat(skew, 8), np.array([8.0]), offsets_of(24))[0] == pytest.approx(8 * e)


def sizes_examined(n, weights, missing_cells=(), columns=4, weight=None):
    codes = np.arange(n)[:, None] % 2 * np.ones((1, columns), int)
    for column, missing in missing_cells:
        codes[:missing, column] = 255
    table = table_of(codes, row_weight=weight)
    examiner = Examiner()
    needed = tables._examine_sizes(examiner, table, mixture_of(weights, [2] * columns))
    return examiner, needed


def test_fifty_rows_a_class():
    examiner, needed = sizes_examined(200, [0.75, 0.25])
    assert needed == 50
    assert not examiner.failed
    assert examiner.quantities["rows_per_class"] == [150, 50]
    assert examiner.quantities["cells_per_parameter"] == pytest.approx(800 / (2 * 4 + 1))
    assert reported(sizes_examined(199, [0.75, 0.25])[0], "Class 1 rests on about 50 rows, fewer than the 50")
    assert not sizes_examined(20, [1.0])[0].failed  # one class is no division
    doubled, _ = sizes_examined(100, [0.75, 0.25], weight=np.full(100, 2.0))
    assert doubled.quantities["rows_with_three_cells"] == 200
    assert not doubled.failed


def test_rows_tell_of_classes_with_three_cells():
    missing_cells = [(0, 40), (1, 30)]
    examiner, _ = sizes_examined(200, [0.5, 0.5], missing_cells)
    assert examiner.quantities["rows_with_three_cells"] == 170  # thirty rows have two cells
    assert examiner.quantities["share_missing"] == pytest.approx(70 / 800)
    two, _ = sizes_examined(200, [0.5, 0.5], columns=2)
    assert two.quantities["rows_with_three_cells"] == 200
    assert reported(sizes_examined(200, [0.5, 0.5], [(0, 200), (1, 200)])[0], "rows show three columns")
    assert not reported(sizes_examined(200, [0.5, 0.5], [(0, 200)], columns=2)[0], "rows show three columns")


def test_a_quarter_of_the_columns_may_be_thin():
    """A class of half of the rows: a column with 99 cells shows it less than 50 times."""
    for thin, doubted in ((1, False), (2, True)):
        examiner, _ = sizes_examined(400, [0.5, 0.5], [(n, 301) for n in range(thin)])
        assert examiner.quantities["thin_columns"] == [f"c{n}" for n in range(thin)]
        assert reported(examiner, f"{thin} of 4 columns (at most 25%) have so many missing values") == (
            doubted and not reported(examiner, "rests on")
        )
        examiner, _ = sizes_examined(400, [0.5, 0.5], [(n, 300) for n in range(thin)])
        assert examiner.quantities["thin_columns"] == []
    examiner, _ = sizes_examined(400, [0.5, 0.5], [(0, 301), (1, 301)], columns=5)
    assert reported(examiner, "2 of 5 columns (at most 25%) have so many missing values")
    examiner, _ = sizes_examined(400, [0.5, 0.5], [(0, 301), (1, 301)], columns=8)
    assert not reported(examiner, "so many missing values")


# -------------------------------------------------------------------- columns


def evidence_of(n_columns, co_observed=None):
    offsets = offsets_of(*[2] * n_columns)
    counts = np.full((2 * n_columns, 2 * n_columns), 100.0)
    if co_observed is not None:
        counts = np.kron(np.asarray(co_observed, float), np.full((2, 2), 0.25))
    return CellPairs(counts, offsets, np.arange(n_columns), 400.0)


def test_three_columns_depend_on_others(monkeypatch):
    table, two = table_of(np.zeros((4, 4))), mixture_of([0.5, 0.5], [2] * 4)
    for probabilities, depend in (
        ([2.4e-4] * 3 + [2.6e-4], 3),
        ([2.4e-4] * 2 + [2.6e-4] * 2, 2),
    ):  # 1e-3 over four columns
        monkeypatch.setattr(tables, "dependence_p_values", lambda counts, offsets, c=probabilities: np.array(c))
        for mixture in (two, mixture_of([1.0], [2] * 4)):
            examiner = Examiner()
            found = tables._examine_columns(examiner, table, mixture, evidence_of(4))
            assert found.sum() == depend
            assert examiner.quantities["uninformative_columns"] == [f"c{n}" for n in range(depend, 4)]
            assert reported(examiner, "2 of 4 columns depend") == (depend < 3 and mixture is two)


def test_columns_meet_in_fifty_rows():
    for common, parts in ((50, 1), (49, 2)):
        co_observed = np.array([[400, 400, common, 0], [400, 400, 0, 0], [common, 0, 400, 400], [0, 0, 400, 400]])
        examiner = Examiner()
        tables._examine_co_observation(examiner, mixture_of([0.5, 0.5]), evidence_of(4, co_observed), np.ones(4, bool))
        assert examiner.quantities["parts_of_columns"] == parts
        assert examiner.quantities["share_of_pairs_not_met"] == pytest.approx((6 if parts == 1 else 8) / 16)
        assert reported(examiner, "fall into 2 parts") == (parts == 2)
        examiner = Examiner()
        tables._examine_co_observation(examiner, mixture_of([1.0]), evidence_of(4, co_observed), np.ones(4, bool))
        assert not examiner.failed
    examiner = Examiner()
    tables._examine_co_observation(examiner, mixture_of([0.5, 0.5]), evidence_of(4, co_observed), np.zeros(4, bool))
    assert examiner.quantities == {"parts_of_columns": 0, "share_of_pairs_not_met": None}


@pytest.mark.parametrize(
    ("sizes", "F", "level"),
    [
        ([2, 2, 2], 2, None), ([2, 2], 2, "not identifiable"), ([2] * 4, 3, "not identifiable"), ([2] * 5, 3, None),
        ([2, 2, 2], 3, "not identifiable"), ([2, 2], 1, None), ([3, 3, 3], 3, None), ([3, 3, 3], 4, "not identifiable"),
        ([2] * 5, 4, None), ([2] * 5, 5, "caution"), ([2] * 6, 8, "caution"),
    ],
)  # fmt: skip
def test_kruskals_count_is_reached_or_reported(sizes, F, level):
    """Short of the count, F (1 + Σ(I − 1)) parameters beyond Π I cells, or a Jacobian short of rank, have no answer."""
    examiner = Examiner()
    tables._examine_count(examiner, mixture_of([1 / F] * F, sizes), np.arange(len(sizes)))
    assert examiner.quantities["kruskal_needed"] == 2 * F + 2
    assert [check.level for check in examiner.failed] == ([level] if level else [])


def test_the_count_is_the_best_of_all_groupings():
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes, F = rng.integers(2, 5, size=rng.integers(3, 7)), int(rng.integers(2, 9))
        best = 0
        for code in range(3 ** len(sizes)):
            groups = [1, 1, 1]
            for size in sizes:
                code, g = divmod(code, 3)
                groups[g] *= int(size)
            best = max(best, sum(min(r, F) for r in groups))
        found = table_classes.kruskal_count(sizes.astype(np.int32), F)
        assert found == best or min(found, best) >= 2 * F + 2  # it stops at what is needed


def test_dependence_left_inside_classes_is_reported_above_two_tenths(monkeypatch):
    table = table_of(np.zeros((4, 3)))
    levels = []
    for worst, doubted in ((0.2, False), (0.21, True)):
        values = np.zeros((3, 3))
        values[0, 2] = values[2, 0] = worst
        monkeypatch.setattr(
            tables, "residual_dependence", lambda counts, expected, offsets, level, v=values: levels.append(level) or v
        )
        monkeypatch.setattr(tables, "expected_pairs", lambda evidence, mixture: evidence.counts)
        examiner = Examiner()
        tables._examine_residuals(examiner, table, mixture_of([0.5, 0.5]), evidence_of(3))
        assert examiner.quantities["residual_dependence"] == worst
        assert reported(examiner, "Columns 'c0' and 'c2' depend on each other") == doubted
    assert levels == pytest.approx([1e-3 / 3] * 2)  # three pairs


def test_p_values_of_a_column_are_the_smaller_of_sum_and_largest(monkeypatch):
    statistic = np.array([[0, 30.0, 2.0], [30.0, 0, 1.0], [2.0, 1.0, 0]])
    mean, variance = np.full((3, 3), 1.0), np.full((3, 3), 2.0)
    for part in (mean, variance):
        np.fill_diagonal(part, 0)
    monkeypatch.setattr(table_pairs, "pearson_blocks", lambda counts, offsets: (statistic, mean, variance))

    def tail(value, mean, variance):
        return gamma.sf(value, mean**2 / variance, scale=variance / mean)

    expected = []
    for n in range(3):
        total = tail(statistic[n].sum(), 2.0, 4.0)
        largest = max(statistic[n, j] for j in range(3) if j != n)
        single = 2 * tail(largest, 1.0, 2.0) if largest > 1 + 2 * sqrt(2) else 1.0
        expected.append(min(2 * min(total, single), 1.0))
    np.testing.assert_allclose(table_pairs.dependence_p_values(None, offsets_of(2, 2, 2)), expected, rtol=1e-9)


def test_too_wide_columns_are_left_out_in_the_order_of_their_names(monkeypatch):
    table = table_of(np.zeros((3, 4)), [6, 3, 3, 3])
    monkeypatch.setattr(table_pairs, "LIMITS", replace(table_pairs.LIMITS, max_cells=15))
    assert table_pairs.chosen_columns(table).tolist() == [0, 1, 2, 3]
    monkeypatch.setattr(table_pairs, "LIMITS", replace(table_pairs.LIMITS, max_cells=14))
    assert table_pairs.chosen_columns(table).tolist() == [1, 2, 3]  # above a third of the room: last, and no room left
    monkeypatch.setattr(table_pairs, "LIMITS", replace(table_pairs.LIMITS, max_cells=9))
    assert table_pairs.chosen_columns(table).tolist() == [1, 2, 3]
    monkeypatch.setattr(table_pairs, "LIMITS", replace(table_pairs.LIMITS, max_cells=8))
    assert len(table_pairs.chosen_columns(table)) == 2


# -------------------------------------------------------------------- classes


@pytest.mark.parametrize(("gap", "nats", "words"), [
    (0.05, 10.0, None), (0.049, 10.0, "Two classes have the same profile"),
    (0.3, 9.9, "Merging the two closest classes costs"),
])  # fmt: skip
def test_classes_differ_in_a_column_and_gain_more_than_chance(gap, nats, words, monkeypatch):
    monkeypatch.setattr(tables, "class_distances", lambda mixture: np.array([0.5, gap]))
    monkeypatch.setattr(tables, "least_gain", lambda table, mixture: Gain(nats, 10.0, 400.0))
    examiner = Examiner()
    tables._examine_classes(examiner, None, mixture_of([0.5, 0.5]))
    assert reported(examiner, words) if words else not examiner.failed
    assert examiner.quantities == {
        "closest_classes": gap, "least_gain": nats, "gain_by_chance": 10.0, "gain_rows": 400.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("agreement", "n_rows", "judged", "doubted"),
    [
        (0.7, 400.0, True, False), (0.69, 400.0, True, True), (0.69, 200.0, True, True), (0.69, 199.0, False, False),
    ],
)  # fmt: skip
def test_halves_agree_on_seven_tenths(agreement, n_rows, judged, doubted, monkeypatch):
    """A sample is judged when its halves have the rows needed: 200 · ½ · ½ = 50 of the smaller class."""
    monkeypatch.setattr(tables, "compare_halves", lambda table, F, enough: Halves(agreement, n_rows))
    examiner = Examiner()
    tables._examine_halves(examiner, SimpleNamespace(total_weight=400.0), mixture_of([0.5, 0.5]), 50.0)
    assert examiner.quantities["split_half_agreement"] == (agreement if judged else None)
    assert reported(examiner, "put only 69% of the rows in the same class") == doubted


def test_merged_classes_are_their_weighted_mean():
    m = mixture_of([0.5, 0.2, 0.3])
    found = table_classes._merge(m, 0, 2)
    np.testing.assert_allclose(found.weights, [0.8, 0.2])
    np.testing.assert_allclose(found.table[:, 0], (0.5 * m.table[:, 0] + 0.3 * m.table[:, 2]) / 0.8)
    np.testing.assert_allclose(found.table[:, 1], m.table[:, 1])


def drawn(n, seed=0, F=3):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 0.9, (F, 6))
    codes = (rng.random((n, 6)) < p[rng.integers(F, size=n)]).astype(np.uint8)
    return table_of(codes)


def test_the_gain_of_the_least_needed_class_is_what_merging_costs():
    table, m = drawn(300), mixture_of([0.4, 0.35, 0.25], [2] * 6, seed=1)

    def value(mixture):
        total = 0.0
        for row in table.codes:
            cells = [2 * n + int(code) for n, code in enumerate(row)]
            total += log(sum(w * np.prod(mixture.table[cells, f]) for f, w in enumerate(mixture.weights)))
        return total

    found = table_classes._gain(table, m, 0)  # no passes: the best merge as it is
    D = [
        [sum(m.table[c, f] * log(m.table[c, f] / m.table[c, g]) for c in range(12)) for g in range(3)] for f in range(3)
    ]
    cost = {(f, g): m.weights[f] * D[f][g] + m.weights[g] * D[g][f] for f in range(3) for g in range(3) if f != g}
    pairs = {tuple(sorted((f, min((g for g in range(3) if g != f), key=lambda g, f=f: cost[f, g])))) for f in range(3)}
    best = max(value(table_classes._merge(m, *pair)) for pair in pairs)
    assert found.nats == pytest.approx(value(m) - best, rel=1e-6)
    assert found.n_rows == 300
    assert found.by_chance == pytest.approx(7 + 3 * 7 ** (1 / 3))
    assert Gain(7.0, 7.0, 1.0).significant
    assert not Gain(6.9, 7.0, 1.0).significant


def test_long_tables_are_asked_on_a_sample_first(monkeypatch):
    table, m = drawn(2500), mixture_of([0.5, 0.5], [2] * 6)
    asked = []

    def gain(some, mixture, passes):
        asked.append((some.n_rows, passes))
        return Gain(1.0 if len(asked) % 2 else 9.0, 5.0, some.total_weight)

    monkeypatch.setattr(table_classes, "_gain", gain)
    monkeypatch.setattr(table_classes, "LIMITS", replace(table_classes.LIMITS, gain_work=12 * 1500))
    monkeypatch.setattr(
        table_classes, "LIMITS", replace(table_classes.LIMITS, gain_limit=2500 * 12 * 10)
    )  # ten passes, two for the classes
    assert table_classes.least_gain(table, m).nats == 9.0
    assert asked == [(1500, 30), (2500, 8)]
    monkeypatch.setattr(table_classes, "LIMITS", replace(table_classes.LIMITS, gain_limit=2500 * 12 * 6))
    asked.clear()
    assert table_classes.least_gain(table, m).nats == 1.0  # four passes would say nothing
    assert asked == [(1500, 30)]
    monkeypatch.setattr(table_classes, "LIMITS", replace(table_classes.LIMITS, gain_limit=2500 * 12 * 7))
    asked.clear()
    table_classes.least_gain(table, m)
    assert asked == [(1500, 30), (2500, 5)]
    asked.clear()
    monkeypatch.setattr(table_classes, "LIMITS", replace(table_classes.LIMITS, gain_work=12 * 2500))
    table_classes.least_gain(table, m)
    assert asked == [(2500, 30)]
    asked.clear()
    monkeypatch.setattr(
        table_classes, "LIMITS", replace(table_classes.LIMITS, gain_work=1)
    )  # a thousand rows at the least
    table_classes.least_gain(table, m)
    assert asked[0] == (1000, 30)


def test_rows_crossed_by_two_models():
    table = table_of([[0, 0], [0, 1], [1, 1]], row_weight=np.array([2.0, 3.0, 5.0]))
    by_first = Mixture(
        np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5], [0.5, 0.5]]), offsets_of(2, 2)
    )
    by_second = Mixture(
        np.array([0.5, 0.5]), np.array([[0.5, 0.5], [0.5, 0.5], [0.1, 0.9], [0.9, 0.1]]), offsets_of(2, 2)
    )
    assert table_classes.crossed_classes(table, by_first, by_second).tolist() == [[3, 2], [5, 0]]


def test_halves_that_disagree_are_fitted_twice(monkeypatch):
    crossed = iter([np.array([[3.0, 2.0], [1.0, 4.0]])] * 2 + [np.array([[1.0, 4.0], [5.0, 0.0]])] * 2)
    monkeypatch.setattr(table_classes, "refit", lambda table, F, seed: SimpleNamespace(params=seed))
    monkeypatch.setattr(table_classes, "crossed_classes", lambda table, left, right: next(crossed))
    table = drawn(60)
    found = table_classes.compare_halves(table, 2, 0.8)
    assert found.agreement == pytest.approx(0.9)
    assert found.n_rows == 60
    crossed = iter([np.array([[3.0, 2.0], [1.0, 4.0]])] * 4)
    assert table_classes.compare_halves(table, 2, 0.7).agreement == pytest.approx(0.7)
    assert len(list(crossed)) == 2  # enough at the first try
    assert table_classes.compare_halves(drawn(1), 2, 0.7).agreement == 0


# ------------------------------------------------------------------ bootstrap


def test_resampled_rows_are_as_many_and_weigh_as_much():
    rng = np.random.default_rng(0)
    table = table_of([[0, 0], [0, 1], [1, 1], [1, 0]], row_weight=np.array([1.0, 0.0, 4.0, 5.0]))
    mean = np.zeros(4)
    for _ in range(400):
        found = bootstrap.resample_rows(table, rng)
        assert found.total_weight == pytest.approx(10)
        for code, weight in zip(found.codes, found.row_weight, strict=True):
            mean[table.codes.tolist().index(code.tolist())] += weight / 400
    np.testing.assert_allclose(mean, [1, 0, 4, 5], atol=0.4)
    light = bootstrap.resample_rows(table_of([[0, 0], [1, 1]], row_weight=np.array([0.1, 0.2])), rng)
    assert (light.n_rows, light.total_weight) == (1, pytest.approx(0.3))


def test_effective_rows_pool_a_column():
    m = mixture_of([0.5, 0.5], [2, 3])
    se = np.random.default_rng(0).uniform(0.01, 0.1, (5, 2))
    expected = np.empty((5, 2))
    for cells in ([0, 1], [2, 3, 4]):
        for f in range(2):
            p, s = m.table[cells, f], se[cells, f]
            for c in cells:
                top = m.table[c, f] * (1 - m.table[c, f]) + 0.5 * np.mean(p * (1 - p))
                expected[c, f] = max(top / (se[c, f] ** 2 + 0.5 * np.mean(s**2)), 1.0)
    np.testing.assert_allclose(bootstrap.pooled_rows(m, se), expected)
    assert bootstrap.pooled_rows(m, np.full((5, 2), 9.0)).max() == 1


def test_a_split_class_is_pulled_half_way_to_a_row(monkeypatch):
    monkeypatch.setattr(bootstrap, "soften", lambda mixture, marginal: mixture)
    m, table = mixture_of([0.6, 0.4]), table_of([[1, 255, 0]])
    found = bootstrap.split_class(m, 0, table, np.random.default_rng(0))
    np.testing.assert_allclose(found.weights, [0.3, 0.4, 0.3])
    old = m.table[:, 0]
    pulled = np.array([old[0] / 2, old[1] / 2 + 0.5, old[2], old[3], old[4] / 2 + 0.5, old[5] / 2])
    np.testing.assert_allclose(found.table[:, 2], pulled)  # what the row does not show stays
    np.testing.assert_allclose(found.table[:, :2], m.table)


def ratio_of(values, monkeypatch, **settings):
    """The ratio test with these values: the data's first, then those of simulated tables."""
    left = iter(values)
    monkeypatch.setattr(bootstrap, "_run_em", lambda *args: SimpleNamespace(params=mixture_of([0.5, 0.5])))
    monkeypatch.setattr(bootstrap, "_ratio", lambda *args: (next(left), None))
    monkeypatch.setattr(bootstrap, "draw_table", lambda *args: None)
    return bootstrap.ratio_test(None, mixture_of([0.5, 0.5]), **settings)


def test_the_ratio_test_counts_what_is_as_large(monkeypatch):
    found = ratio_of([5.0, 5.0, 1.0, 4.9, 2.0], monkeypatch, n_draws=4, alpha=0.4)  # two decide
    assert (found.statistic, found.n_draws) == (5.0, 4)
    assert found.p_value == pytest.approx(2 / 5)
    found = ratio_of([5.0, 6.0, 1.0, 7.0, 2.0], monkeypatch, n_draws=4, alpha=0.4)
    assert found.n_draws == 3  # the second decides
    assert found.p_value == pytest.approx(2 / 3)
    assert found.simulated.tolist() == [6.0, 1.0, 7.0]
    never = ratio_of([5.0, 6.0, 6.0, 7.0, 8.0], monkeypatch, n_draws=4, alpha=0.1)  # no exceedance could decide
    assert (never.n_draws, never.p_value) == (4, 1.0)


def test_drawn_tables_keep_missing_values_and_weights():
    m = Mixture(
        np.array([0.3, 0.7]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), offsets_of(2, 3)
    )
    table = table_of([[0, 0], [255, 1], [0, 255]], [2, 3], row_weight=np.array([500.0, 20.0, 30.0]))
    found = bootstrap.draw_table(table, m, np.random.default_rng(0))
    weights = {tuple(code): w for code, w in zip(found.codes.tolist(), found.row_weight, strict=True)}
    assert sum(weights.values()) == 550
    assert weights[0, 0] + weights[1, 2] == 500  # classes are never mixed in a row
    assert weights[0, 0] == pytest.approx(150, abs=40)
    assert weights[255, 0] + weights[255, 2] == 20
    assert weights[0, 255] + weights[1, 255] == 30
    real = table_of([[0, 0], [1, 1]], [2, 3], row_weight=np.array([1.6, 3.6]))
    assert bootstrap.draw_table(real, m, np.random.default_rng(0)).total_weight == 5


def test_the_ratio_is_twice_the_gain_and_never_below_zero(monkeypatch):
    for few, many, ratio in ((-105.0, -100.0, 10.0), (-100.0, -101.0, 0.0)):
        m, inits = mixture_of([0.5, 0.5]), []
        climbed = SimpleNamespace(params=m, log_likelihood=few)
        monkeypatch.setattr(bootstrap, "_run_em", lambda *args, c=climbed: c)
        best = SimpleNamespace(refined=SimpleNamespace(log_likelihood=many, params="many"))
        monkeypatch.setattr(
            bootstrap, "successive_halving", lambda candidates, b=best, s=inits, **kwargs: s.extend(candidates) or b
        )
        found = bootstrap._ratio(table_of(drawn(20).codes[:, :3]), m, 0.0, 1, np.random.default_rng(0))
        assert found == (ratio, "many")
        assert [candidate.start.n_classes for candidate in inits] == [
            3
        ] * 5  # a split of each class, three sets of rows


def test_bootstrap_intervals_by_the_spread_of_refits(monkeypatch):
    """Draws of ± .1 around the fit; no profile rests on more rows than its class has."""
    m = Mixture(np.array([0.6, 0.4]), np.array([[0.5, 0.3], [0.5, 0.7]]), offsets_of(2))
    moved = iter(
        Mixture(m.weights + np.array([s, -s]), m.table + np.array([[s, s], [-s, -s]]), m.column_offsets)
        for s in (0.1, -0.1, 0.1, -0.1)
    )
    monkeypatch.setattr(bootstrap, "_refitted", lambda *args: next(moved))
    found = bootstrap.bootstrap_mixture(table_of([[0], [1]] * 10), m, n_draws=4)
    se = sqrt(4 * 0.01 / 3)
    assert found.weights_se == pytest.approx([se, se])
    assert found.table_se == pytest.approx(np.full((2, 2), se))
    z = 1.959964

    def interval(p, n):
        scale, half = 1 + z**2 / n, z * sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        return (p + z**2 / (2 * n) - half) / scale, (p + z**2 / (2 * n) + half) / scale

    low, high = interval(0.6, 0.24 / se**2)
    assert (found.weights_low[0], found.weights_high[0]) == pytest.approx((low, high))
    for f, p in enumerate((0.5, 0.3)):
        n = min(p * (1 - p) / se**2, 20 * m.weights[f])
        assert (found.table_low[0, f], found.table_high[0, f]) == pytest.approx(interval(p, n), rel=1e-5)
