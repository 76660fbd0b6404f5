"""What the purity test decides by, folds and intervals in parts, coherence, and bounds at their ends."""

from __future__ import annotations

from dataclasses import replace
from math import comb, exp, inf, log, sqrt

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from scipy.stats import t as student

from latentfit.clusters import theory as theorems
from latentfit.clusters.diagnostics import independence, intervals, purity
from latentfit.clusters.diagnostics import purity as cross_fit
from latentfit.clusters.diagnostics.independence import Rows
from latentfit.core.em import em
from latentfit.core.errors import DataError
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.replicates import single_rows
from latentfit.core.table.table import Column, Table
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.topics import diagnostics as coherence
from latentfit.topics.data.documents import Documents
from tests.clusters.simulated_mixtures import values_of


def mixture_of(weights, P):
    P = np.asarray(P, float)
    cells = np.empty((2 * P.shape[1], len(P)))
    cells[0::2], cells[1::2] = 1 - P.T, P.T
    return Mixture(np.array(weights, float), cells, np.arange(0, 2 * P.shape[1] + 1, 2, dtype=np.int32))


def table_of(codes, **kwargs):
    codes = np.asarray(codes, np.uint8)
    return Table(codes, tuple(Column(f"c{n}", np.arange(2)) for n in range(codes.shape[1])), **kwargs)


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
    found = cross_fit.cross_fit(table, mixture, copies, label, smoothing=1.0)
    fold = np.floor(copies.uniform(purity.SETTINGS.fold_salt) * 5).astype(int)
    assert set(fold) == set(range(5))
    for held in range(5):
        rest = table_of(codes[copies.unique_row[fold != held]])
        fitted = em(table_steps(rest, 2, 1.0, 1), mixture, max_iter=passes, tol=0.0, accelerate=True).params
        doubt = 1 - posterior_of(MemoryEngine(table, 1), fitted)[0][copies.unique_row, label]
        np.testing.assert_allclose(found.doubt[fold == held], doubt[fold == held], atol=1e-9)
        by_label = [doubt[label == k].mean() for k in range(2)]
        np.testing.assert_allclose(found.by_fold[held], by_label, atol=1e-9)


def test_means_by_label_are_weighted_and_empty_ones_are_none():
    found = cross_fit.mean_by_label(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 2]), np.array([2.0, 1.0, 3.0]), 3)
    np.testing.assert_array_equal(found, [1.0, np.nan, 14 / 4])


# ------------------------------------------------------------------ intervals


def test_information_in_parts_is_that_at_once(monkeypatch):
    rng = np.random.default_rng(2)
    P = rng.uniform(0.2, 0.8, (3, 7))
    codes = (rng.random((90, 7)) < P[rng.integers(3, size=90)]).astype(np.uint8)
    codes[rng.random((90, 7)) < 0.1] = 255
    table, mixture = table_of(codes), mixture_of([0.5, 0.3, 0.2], P)
    posterior = posterior_of(MemoryEngine(table, 1), mixture)[0]
    core = replace(intervals.SETTINGS, core=3 * 4)  # three of the columns
    monkeypatch.setattr(intervals, "SETTINGS", core)
    whole = intervals.effective_rows(table, mixture, posterior, 0.5)
    monkeypatch.setattr(intervals, "SETTINGS", replace(core, rows_at_once=7, columns_at_once=3))
    parts = intervals.effective_rows(table, mixture, posterior, 0.5)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-8)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-8)
    hidden = intervals._Hidden(codes == 1, codes < 2, posterior, np.full(90, 2.0), P)
    by_hand = np.zeros((3, 3))
    for n in range(90):
        for k in range(3):
            for l in range(3):
                score = [(codes[n, 4] - P[c, 4]) if codes[n, 4] < 2 else 0.0 for c in (k, l)]
                by_hand[k, l] += (
                    2 * ((k == l) * posterior[n, k] - posterior[n, k] * posterior[n, l]) * score[0] * score[1]
                )
    np.testing.assert_allclose(hidden.within(np.array([1, 4]))[1], by_hand)


def test_the_columns_that_differ_most_are_inverted_together(monkeypatch):
    P = np.array([[0.5, 0.9, 0.4, 0.1], [0.5, 0.1, 0.6, 0.2]])
    w = np.array([0.7, 0.3])
    mean = w @ P
    apart = w @ (P - mean) ** 2 / (mean * (1 - mean))
    for core, kept in ((10, 4), (9, 3), (8, 3), (6, 2), (4, 1), (1, 1)):  # K numbers per column and K weights
        monkeypatch.setattr(intervals, "SETTINGS", replace(intervals.SETTINGS, core=core))
        found = intervals.core_columns(mixture_of(w, P), 2, 4)
        assert found.tolist() == sorted(np.argsort(-apart)[:kept].tolist())


def test_rows_are_thinned_above_the_work_allowed(monkeypatch):
    monkeypatch.setattr(intervals, "SETTINGS", replace(intervals.SETTINGS, work=1000.0))
    assert [intervals._step(n, 10) for n in (0, 10, 11, 20, 21)] == [1, 1, 2, 2, 3]


def test_effective_rows_are_the_fraction_of_information_left():
    """1 / (1 + 1.5 (complete · variance − 1)) of the rows seen, a hundredth and one row at the least."""
    seen, complete = np.full(5, 40.0), np.full(5, 8.0)
    variance = np.array([1 / 8, 0.5 / 8, 3 / 8, 1e6, 2 / 8])
    found = intervals._rows(seen, complete, variance)
    assert found == pytest.approx([40, 40, 40 / (1 + 1.5 * 2), 1.0, 40 / 2.5])
    assert intervals._rows(np.array([400.0]), np.array([8.0]), np.array([1e6]))[0] == pytest.approx(4)


def test_an_indefinite_information_is_replaced_by_its_nearest():
    sound = np.array([[4.0, 1.0], [1.0, 9.0]])
    np.testing.assert_allclose(intervals._inverse(sound), np.linalg.inv(sound))
    unsound = np.array([[4.0, 7.2], [7.2, 9.0]])  # scaled to [[1, 1.2], [1.2, 1]]: eigenvalues 2.2 and −.2
    v, u = np.array([1.0, 1.0]) / sqrt(2), np.array([1.0, -1.0]) / sqrt(2)
    scaled = np.outer(v, v) / 2.2 + np.outer(u, u) / 0.01
    np.testing.assert_allclose(intervals._inverse(unsound), scaled / np.outer([2, 3], [2, 3]))


def test_real_weights_count_as_kishs_rows():
    plain = table_of([[0, 1], [1, 1], [0, 0]])
    assert intervals.counted_weight(plain).tolist() == [1, 1, 1]
    whole = table_of([[0, 1], [1, 1], [0, 0]], row_weight=np.array([3.0, 1.0, 2.0]))
    assert intervals.counted_weight(whole).tolist() == [3, 1, 2]
    w = np.array([0.5, 1.5, 2.0])
    found = intervals.counted_weight(table_of([[0, 1], [1, 1], [0, 0]], row_weight=w))
    np.testing.assert_allclose(found, w * w.sum() / (w**2).sum())
    assert found.sum() == pytest.approx(w.sum() ** 2 / (w**2).sum())


# ------------------------------------------------------------------ coherence


def test_coherence_by_its_definition():
    counts = np.array([[2, 1, 0, 1, 0], [1, 0, 0, 1, 0], [0, 3, 1, 1, 0], [1, 1, 0, 1, 0], [0, 0, 2, 1, 0]], float)
    documents = Documents(sp.csr_array(counts), np.arange(5), np.arange(5))
    topics = np.array([[0.4, 0.3, 0.2, 0.05, 0.05], [0.1, 0.1, 0.1, 0.6, 0.1], [0.0, 0.0, 0.0, 0.0, 1.0]])

    def npmi(i, j):
        single = [(counts[:, k] > 0).mean() for k in (i, j)]
        both = ((counts[:, i] > 0) & (counts[:, j] > 0)).mean()
        return -1.0 if both == 0 else 1.0 if both == 1 else log(both / (single[0] * single[1])) / -log(both)

    found = coherence.npmi_coherence(documents, topics, 3)
    assert coherence.top_words(topics, 3).tolist() == [[0, 1, 2], [3, 0, 1], [4, 0, 1]]
    assert found[0] == pytest.approx((npmi(0, 1) + npmi(0, 2) + npmi(1, 2)) / 3)
    assert found[1] == pytest.approx((npmi(3, 0) + npmi(3, 1) + npmi(0, 1)) / 3)
    assert found[2] == pytest.approx(npmi(0, 1))  # a word that no document holds makes no pair
    assert np.isnan(coherence.npmi_coherence(documents, topics, 1)).all()
    always = Documents(sp.csr_array(np.ones((3, 2))), np.arange(3), np.arange(2))
    assert coherence.npmi_coherence(always, np.array([[0.5, 0.5]]))[0] == 1
    assert documents.matrix.data.max() == 3  # the counts themselves stay


# ------------------------------------------------------- bounds at their ends


def test_definitions_at_their_ends():
    labels, truth = np.array([0, 0, 0, 2, 2]), np.array([0, 0, 1, 1, 1])
    np.testing.assert_allclose(theorems.impurities(labels, truth), [1 / 3, 0, 0])
    np.testing.assert_allclose(theorems.impurities(labels, truth, np.array([1.0, 1, 3, 1, 1])), [2 / 5, 0, 0])
    assert theorems.is_correct(labels, truth, 1 / 3)
    assert not theorems.is_correct(labels, truth, 0.33)
    P = np.array([[0.1, 0.5], [0.6, 0.5]])
    assert theorems.separable_delta(P, 1) == pytest.approx(0.5)
    assert theorems.separable_delta(P, 2) == 0
    for wrong in (0, 3):
        with pytest.raises(DataError, match="give 1 to that many"):
            theorems.separable_delta(P, wrong)
    assert theorems.separable_delta(P[:1], 2) == 1
    assert theorems.separable_columns(P[:1], 0.1) == 2


def test_the_promise_is_what_the_three_errors_leave():
    alpha, delta, epsilon = 0.5, 1.0, 0.3
    found = theorems.needed(alpha, delta, epsilon, 0.05)
    n, S, d = found["n"], found["separable"], found["d"]
    at = theorems.theorem_3_1(n, S, S, alpha, delta, epsilon)
    errors = [at[name] for name in ("log_accept_impure", "log_reject_truth", "log_small_class")]
    assert at["promised"] == pytest.approx(1 - sum(exp(e) for e in errors))
    assert at["exponent"] == pytest.approx(2 + (1 - alpha) / (2 * alpha**2 * delta**2))
    for separable, force in ((d, 0), (d + 1, 1)):
        at = theorems.theorem_3_1(n, S, separable, alpha, delta, epsilon)
        assert (at["in_force"], theorems.lemma_4_3(n, S, separable, 2, delta, epsilon)["in_force"]) == (force, force)
    assert theorems.needed_rows(d, alpha, delta, epsilon, 0.05)["n"] == inf
    one = theorems.theorem_3_1(1e4, 50, 50, 1.0, delta, epsilon)  # a single class: only its size can fail
    assert (one["log_accept_impure"], one["log_reject_truth"]) == (-inf, -inf)
    assert one["promised"] == pytest.approx(1 - exp(-1e4 / 2))


def test_lemma_a1_is_an_infimum_over_the_largest_weight():
    K, epsilon, x = 4, 0.1, 30 * 0.5**2
    grid = np.linspace(epsilon, 1 - 1 / K, 20_001)
    a_10 = min(2 * r * (1 - r) * x - r * (1 + log(K / r)) for r in grid)
    least = inf
    for r in grid:
        entropy = -(1 - r) * log(1 - r) - r * log(r / (K - 1))
        least = min(least, (2 * r * (1 - r) if r <= 0.5 else r) * x - entropy)
    found = theorems.lemma_a1(30, K, 0.5, epsilon)
    assert found["stated"] == pytest.approx(2 * epsilon * (1 - epsilon) * x - epsilon * (1 + log(K / epsilon)))
    assert found["infimum_a10"] == pytest.approx(a_10, rel=1e-5)
    assert found["repaired"] == pytest.approx(least, rel=1e-5)


def test_logarithms_of_large_numbers_join_those_written_out():
    for L, d in ((10, 3), (40, 17), (5, 5)):
        assert theorems._log_binomial(log(L), d) == pytest.approx(log(comb(L, d)), abs=1e-9)
    assert theorems._log_binomial(log(4), 6) == -inf
    assert theorems._log_binomial(log(2.0**53), 7) == pytest.approx(log(comb(2**53, 7)), rel=1e-12)
    K, log_c = 3, -20.0
    small = 4 * log(10)
    assert theorems._accept_impure(small, small, K, log_c) == pytest.approx(
        (1e4 + 1) * log(K) + 1e4 * log(4) - 1e8 * exp(-20)
    )
    for extra, sign in ((1.0, inf), (-1.0, -inf)):  # beyond floats the larger side decides: n log K + 𝓛 log 4 or n𝓛c
        log_n = log_s = 695.0
        even = log(log(K) + log(4)) - 695.0
        assert theorems._accept_impure(log_n, log_s, K, even - extra) == sign
    assert [theorems._exp(v) for v in (701.0, -inf, 0.0)] == [inf, 0.0, 1.0]
