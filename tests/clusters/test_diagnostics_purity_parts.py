"""What the purity test decides by, each step on numbers that a hand can follow."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from latentfit.clusters.diagnostics import independence, purity
from latentfit.clusters.diagnostics.independence import Rows
from latentfit.core.em import em
from latentfit.core.mixture.em import table_steps
from latentfit.core.table.replicates import single_rows
from latentfit.engine.memory import MemoryEngine, posterior_of
from tests.clusters.simulated_mixtures import mixture_of, table_of, values_of

# --------------------------------------------------------------- independence


@pytest.mark.parametrize(("z", "draws"), [(1.99, 5), (2.01, 20), (7.99, 20), (8.01, 5), (-9.0, 5)])
def test_a_borderline_case_gets_four_times_as_many_permutations(z, draws, monkeypatch):
    """The data's largest pair lies z spreads above five permutations of mean 0 and spread 1."""
    null = np.array([-1.0, 1.0, 0.0, -1.0, 1.0])
    null /= null.std(ddof=1)
    made = []

    def largest_pair(S):
        made.append(S)
        return (z if len(made) == 1 else float(null[(len(made) - 2) % 5])), (0, 1)

    monkeypatch.setattr(independence, "largest_pair", largest_pair)
    monkeypatch.setattr(independence, "top_eigenvalue", lambda S: 1.0)  # all alike: z = 0
    rng = np.random.default_rng(0)
    rows = Rows(rng.integers(0, 2, (12, 3)).astype(np.float32), None)
    found = independence.compare_with_permutations(rows, rng, n_permutations=5)
    assert len(made) == 1 + draws
    assert found[0].z == pytest.approx(z / np.tile(null, draws // 5).std(ddof=1))  # of all that were drawn
    assert found[1].z == 0


def test_few_rows_or_columns_are_not_tested():
    rng = np.random.default_rng(0)
    ones = rng.integers(0, 2, (10, 3)).astype(np.float32)
    for rows in (Rows(ones[:9], None), Rows(ones * [1, 0, 0], None)):
        found = independence.compare_with_permutations(rows, rng, n_permutations=5)
        assert len(found) == 2
        assert all(np.isnan(test.z) and test.p_value == 1 for test in found)
    found = independence.compare_with_permutations(Rows(ones, None), rng, n_permutations=5)
    assert not np.isnan(found[0].z)


def test_columns_vary_when_they_say_both():
    ones = np.array([[1, 0, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1]], np.float32)
    assert independence.varying_columns(Rows(ones, None)).tolist() == [2, 3]
    shown = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 1]], np.float32)
    assert independence.varying_columns(Rows(ones * shown, shown)).tolist() == []  # what is shown is all alike
    cells = values_of(Rows(ones * shown, shown))
    np.testing.assert_array_equal(np.isnan(cells), shown == 0)


def test_a_value_is_judged_by_mean_spread_and_students_t():
    null = np.array([1.0, 2.0, 4.0, 3.0, 2.5])
    mean, spread = 2.5, sqrt(sum((x - 2.5) ** 2 for x in null) / 4)
    found = independence.judge(6.0, null, independence.gumbel_tail)
    z = (6 - mean) / spread
    normal = norm.isf(student.sf(z / sqrt(1 + 1 / 5), 4))
    gumbel = 1 - exp(-exp(-(normal * np.pi / sqrt(6) + np.euler_gamma)))
    assert (found.value, found.z, found.p_value) == pytest.approx((6.0, z, gumbel))
    upper = (-log(-log(0.95)) - np.euler_gamma) / (np.pi / sqrt(6))
    assert found.quantile == pytest.approx(mean + spread * upper)
    flat = independence.judge(6.0, np.full(5, 2.0), independence.gumbel_tail)
    assert (flat.z, flat.quantile, flat.p_value) == (0, 2.0, 1)
    assert independence.together([0.2, 0.05, 0.4]) == pytest.approx(1 - 0.95**3)


# --------------------------------------------------------------------- purity


def judged_at(*zs):
    return [independence.Tested(1.0, z, 0.5, 0.04) for z in zs]


def test_three_spreads_flag_a_cluster():
    assert purity._flags(judged_at(2.99, 3.0))
    assert not purity._flags(judged_at(2.99, 2.99))
    assert not purity._flags(judged_at(np.nan, np.nan))
    found = purity._table(
        [judged_at(1.0, 4.0), judged_at(1.0, 2.0), judged_at(np.nan, np.nan), judged_at(np.nan, 1.0)],
        np.full(4, 0.05), np.full(4, 0.1), [("a", 3), (), (), ()], [("a", 3, "b"), (), (), ()],
    )  # fmt: skip
    assert found.flagged.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(found.certified, [np.nan, 0.1, np.nan, 0.1])  # neither flagged nor untested
    assert found.p_value == pytest.approx(1 - 0.96**2)
    frame = found.columns()
    assert frame["cluster"] == [0, 1, 2, 3]
    assert frame["pair_z"][:2] == [1.0, 1.0]
    assert frame["eigenvalue_z"][:2] == [4.0, 2.0]
    assert frame["suspect_pair"] == ["a, 3", "", "", ""]
    assert frame["suspect_columns"][0] == "a, 3, b"
    assert frame["eigenvalue_null_quantile"] == [0.5] * 4


def test_rows_tested_shrink_with_the_square_of_the_columns():
    assert purity.tested_rows(0) == purity.tested_rows(100) == purity.tested_rows(141) == 20_000
    assert purity.tested_rows(200) == 10_000
    assert purity.tested_rows(500) == 1_600
    assert purity.tested_rows(700) == purity.tested_rows(10_000) == 1_000


def test_classes_are_ranked_by_weight_then_by_their_profiles():
    m = mixture_of([0.3, 0.4, 0.3], [[0.9, 0.9], [0.5, 0.5], [0.6, 0.6]])
    assert purity.class_ranks(m).tolist() == [2, 0, 1]  # of equal weights the flatter profile first


def test_labels_follow_the_posterior_by_rank():
    posterior = np.tile([0.2, 0.5, 0.3], (6, 1))
    uniform = np.array([0.0, 0.29, 0.31, 0.79, 0.81, 0.999])
    assert purity.drawn_labels(posterior, uniform, np.array([2, 1, 0])).tolist() == [2, 2, 1, 1, 0, 0]


def test_columns_that_vary_most_are_kept(monkeypatch):
    ones = np.zeros((8, 5), np.float32)
    for column, count in enumerate((1, 4, 0, 6, 3)):
        ones[:count, column] = 1
    rows, kept = purity.most_varying(Rows(ones, None))
    assert kept.tolist() == [0, 1, 3, 4]
    monkeypatch.setattr(purity, "SETTINGS", replace(purity.SETTINGS, max_columns=2))
    rows, kept = purity.most_varying(Rows(ones, None))
    assert kept.tolist() == [1, 4]  # 4 · 4/8 and 3 · 5/8 above 6 · 2/8
    assert rows.ones.shape == (8, 2)
    shown = np.ones_like(ones)
    shown[6:, 1] = shown[4:, 4] = 0  # 4 of 6 and 3 of 4: 4/3 and 3/4
    assert purity.most_varying(Rows(ones, shown))[1].tolist() == [1, 3]


def test_the_pair_that_betrays_a_cluster_is_named():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (300, 6))
    codes[:, 4] = np.where(rng.random(300) < 0.9, codes[:, 1], codes[:, 4])
    table = table_of(codes)
    copies = single_rows(table, 1000, 0)
    order = np.array([5, 4, 3, 2, 1, 0])
    pair, names = purity.suspects(table, copies, np.ones(300), order)
    assert set(pair) == {"c1", "c4"}
    assert len(names) == 5
    assert set(names[:2]) == {"c1", "c4"}
    membership = np.where(codes[copies.unique_row, 1] == codes[copies.unique_row, 4], 1.0, 1e-4)  # others do not count
    assert set(purity.suspects(table, copies, membership, order)[0]) == {"c1", "c4"}


def test_cells_are_ones_missing_values_and_in_order():
    table = table_of([[0, 1, 255], [1, 1, 0]])
    rows = purity.cells_of(table, np.array([1, 0]), np.array([2, 0, 1]))
    assert rows.ones.tolist() == [[0, 1, 1], [0, 0, 1]]
    assert rows.observed.tolist() == [[1, 1, 1], [0, 1, 1]]
    assert purity.cells_of(table, np.array([1, 1]), np.array([2, 0, 1])).observed is None


# ------------------------------------------------------------------ cross-fit


@pytest.mark.parametrize(("work", "passes"), [(10**9, 20), (80 * 4 * 2 * 4 * 3, 3), (1, 1)])
def test_each_fold_is_judged_by_a_fit_without_it(work, passes, monkeypatch):
    rng = np.random.default_rng(1)
    P = np.array([[0.95, 0.9, 0.1, 0.15], [0.1, 0.15, 0.9, 0.85]])  # apart: leaps of EM do not blow rounding up
    codes = (rng.random((80, 4)) < P[rng.integers(2, size=80)]).astype(np.uint8)
    table, mixture = table_of(codes), mixture_of([0.5, 0.5], P)
    copies = single_rows(table, 1000, 0)
    label = posterior_of(MemoryEngine(table, 1), mixture)[0][copies.unique_row].argmax(axis=1)
    monkeypatch.setattr(purity, "SETTINGS", replace(purity.SETTINGS, fold_work=work))
    found = purity.cross_fit(table, mixture, copies, label, smoothing=1.0)
    fold = np.floor(copies.uniform(purity.SETTINGS.fold_salt) * 5).astype(int)
    assert set(fold) == set(range(5))
    for held in range(5):
        rest = table_of(codes[copies.unique_row[fold != held]])
        fitted = em(table_steps(rest, 2, 1.0, 1), mixture, max_iter=passes, tol=0.0, accelerate=True).params
        doubt = 1 - posterior_of(MemoryEngine(table, 1), fitted)[0][copies.unique_row, label]
        np.testing.assert_allclose(found.uncertainty[fold == held], doubt[fold == held], atol=1e-9)
        by_label = [doubt[label == k].mean() for k in range(2)]
        np.testing.assert_allclose(found.by_fold[held], by_label, atol=1e-9)


def test_means_by_label_are_weighted_and_empty_ones_are_none():
    found = purity.mean_by_label(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2]), np.array([2.0, 1.0, 3.0]), 3)
    np.testing.assert_array_equal(found, [1.0, np.nan, 14 / 4])
