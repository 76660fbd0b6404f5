"""The purity certificate's parts against literal loops, and the laws behind its p-values against known values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import gumbel_r

from latentfit.clusters.diagnostics import independence, intervals, purity
from latentfit.clusters.diagnostics.independence import Rows
from latentfit.clusters.diagnostics.purity import CrossFit
from latentfit.core.em import em
from latentfit.core.errors import DataError
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.replicates import single_rows, thinned
from latentfit.core.table.table import Column, Table
from latentfit.engine.memory import MemoryEngine, posterior_of
from tests.clusters.simulated_mixtures import bernoulli_world, values_of

# ------------------------------------------------------------------------ twins


def slow_correlations(cells, weight):
    """S by the definition: for each pair the rows that show both, their weighted correlation, shrunk by √(N / m)."""
    m, L = cells.shape
    S = np.eye(L)
    for i in range(L):
        for j in range(L):
            both = [(weight[r], cells[r, i], cells[r, j]) for r in range(m) if not np.isnan(cells[r, [i, j]]).any()]
            total = sum(w for w, _, _ in both)
            if i == j or total == 0:
                continue
            a, b = (sum(w * pair[s] for w, *pair in both) / total for s in (0, 1))
            covariance = sum(w * (x - a) * (y - b) for w, x, y in both)
            spread = sum(w * (x - a) ** 2 for w, x, _ in both) * sum(w * (y - b) ** 2 for w, _, y in both)
            if spread > 1e-12:
                S[i, j] = covariance / np.sqrt(spread) * np.sqrt(total / sum(weight))
            else:
                S[i, j] = 0.0
    return S


def random_rows(seed, m, L, missing):
    rng = np.random.default_rng(seed)
    ones = (rng.random((m, L)) < rng.uniform(0.1, 0.9, L)).astype(np.float32)
    shown = (rng.random((m, L)) >= missing).astype(np.float32)
    return Rows(ones * shown, shown if missing else None)


@pytest.mark.parametrize("missing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_correlations_equal_the_loops(seed, missing):
    rows = random_rows(seed, 25, 6, missing)
    expected = slow_correlations(values_of(rows), np.ones(25))
    found = independence.shrunk_correlations(rows)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    value, (i, j) = independence.largest_pair(found)
    off = np.abs(expected) - np.eye(6)
    assert value == pytest.approx(off.max(), abs=1e-10)
    assert value == pytest.approx(abs(expected[i, j]), abs=1e-10)
    assert independence.top_eigenvalue(found) == pytest.approx(np.linalg.eigvals(expected).real.max(), abs=1e-9)
    weight = np.random.default_rng(seed).random(25)
    weighted = independence.shrunk_correlations(rows, weight=weight)
    np.testing.assert_allclose(weighted, slow_correlations(values_of(rows), weight), atol=2e-5)  # single precision


def test_lanczos_and_all_eigenvalues_agree():
    S = independence.shrunk_correlations(random_rows(0, 400, independence.DENSE_EIGEN + 30, 0.0))
    assert independence.top_eigenvalue(S) == pytest.approx(np.linalg.eigvalsh(S)[-1], rel=1e-7)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_permutations_keep_margins_and_missing_values(missing):
    rows = random_rows(1, 60, 5, missing)
    moved = independence.permute_columns(rows, np.random.default_rng(0))
    np.testing.assert_array_equal(moved.ones.sum(axis=0), rows.ones.sum(axis=0))
    assert (moved.ones != rows.ones).any()
    if missing:
        assert not moved.ones[rows.observed == 0].any()


def test_tails_are_those_of_the_laws():
    for z in (-1.0, 0.0, 1.0, 3.0, 8.0):
        limit = gumbel_r(loc=-np.euler_gamma * np.sqrt(6) / np.pi, scale=np.sqrt(6) / np.pi)
        assert independence.gumbel_tail(z) == pytest.approx(limit.sf(z), rel=1e-9)
    for quantile, tail in ((0.9793, 0.05), (2.0234, 0.01), (-1.2686, 0.5)):  # Tracy–Widom, from tables
        assert independence.tracy_widom_tail((quantile + 1.2065) / 1.2680) == pytest.approx(tail, rel=0.02)
    for limit, at in independence.QUANTILES.items():
        assert limit(at) == pytest.approx(0.05, rel=1e-6)
    assert independence.together([0.01, 0.5]) == pytest.approx(1 - 0.99**2)
    assert independence.together([1.0, 1.0]) == 1.0


def test_p_values_pay_for_few_permutations():
    null = np.random.default_rng(0).normal(size=19)
    few = independence.judge(5.0, null, independence.gumbel_tail)
    many = independence.judge(5.0, np.tile(null, 50), independence.gumbel_tail)
    assert few.z == pytest.approx(many.z, rel=0.05)
    assert 1e-6 < many.p_value < few.p_value < 0.01
    assert independence.judge(1.0, np.ones(19), independence.gumbel_tail).p_value == 1.0


def test_labels_are_drawn_from_the_posterior():
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(3), size=20_000)
    drawn = purity.drawn_labels(posterior, rng.random(20_000), np.array([2, 0, 1]))
    for k in range(3):
        high = posterior[:, k] > 0.6
        assert (drawn[high] == k).mean() == pytest.approx(posterior[high, k].mean(), abs=0.02)


def test_stated_impurity_is_the_mean_posterior_error_of_the_clusters_rows():
    doubt, label, weight = np.array([0.3, 0.1, 0.6]), np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])
    by_fold = np.array([[0.5, 0.1], [0.55, 0.1], [0.45, 0.1], [0.5, 0.1], [0.5, 0.1]])
    stated, limit = purity.stated_impurity(CrossFit(doubt, by_fold), label, weight)
    np.testing.assert_allclose(stated, [(0.3 * 1 + 0.6 * 3) / 4, 0.1])
    probability = [(1 * 0.3 * 0.7 + 9 * 0.6 * 0.4) / 16, 0.1 * 0.9]
    jackknife = [4 / 5 * sum((x - 0.5) ** 2 for x in by_fold[:, 0]), 0.0]
    np.testing.assert_allclose(limit, np.minimum(stated + 1.645 * np.sqrt(np.add(probability, jackknife)), 1.0))
    assert np.isnan(purity.stated_impurity(CrossFit(doubt, by_fold), np.zeros(3, int), weight)[0][1])


def test_real_weights_keep_kish_rows_and_none_twice():
    table = Table(np.random.default_rng(0).integers(0, 2, (4_000, 30)).astype(np.uint8), columns(30))
    weight = np.random.default_rng(1).gamma(2.0, size=4_000)
    copies = single_rows(replace(table, row_weight=weight), 10_000, 0)
    kept = thinned(copies, 3)
    assert len(np.unique(copies.unique_row)) == len(copies.unique_row) == 4_000
    assert kept.sum() == pytest.approx(weight.sum() ** 2 / np.square(weight).sum(), rel=0.05)
    light, heavy = np.quantile(copies.weight, [0.2, 0.8])
    assert kept[copies.weight < light].mean() < 0.5 < 0.9 < kept[copies.weight > heavy].mean()
    assert thinned(single_rows(table, 10_000, 0), 3).all()


# ------------------------------------------------------------------ information


def columns(L):
    return tuple(Column(f"c{j}", np.array([0, 1])) for j in range(L))


def mixture_of(weights, P):
    K, L = P.shape
    table = np.empty((2 * L, K))
    table[0::2], table[1::2] = 1 - P.T, P.T
    return Mixture(np.asarray(weights, float), table, np.arange(0, 2 * L + 1, 2, dtype=np.int32))


def slow_information(table, mixture, smoothing):
    """The numerical Hessian of the penalised log-likelihood in logits, sign changed."""
    K, L = mixture.n_classes, table.n_columns
    marginal = np.array([table.codes[table.present[:, j], j].mean() for j in range(L)])

    def objective(x):
        P = 1 / (1 + np.exp(-x[: K * L].reshape(K, L)))
        logits = np.append(x[K * L :], 0.0)
        w = np.exp(logits) / np.exp(logits).sum()
        total = smoothing * np.log(w).sum()
        total += smoothing * (marginal * np.log(P) + (1 - marginal) * np.log(1 - P)).sum()
        cells = [np.where(table.present, np.where(table.codes == 1, P[k], 1 - P[k]), 1.0) for k in range(K)]
        return total + np.log(sum(w[k] * cells[k].prod(axis=1) for k in range(K))).sum()

    P, w = mixture.table[1::2].T, mixture.weights
    x = np.concatenate([np.log(P / (1 - P)).ravel(), np.log(w[:-1] / w[-1])])
    h, n = 1e-3, len(x)
    H = np.empty((n, n))
    for a in range(n):
        for b in range(n):
            ea, eb = h * np.eye(n)[a], h * np.eye(n)[b]
            corners = objective(x + ea + eb) - objective(x + ea - eb) - objective(x - ea + eb) + objective(x - ea - eb)
            H[a, b] = -corners / (4 * h * h)
    return H


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_information_is_the_hessian(missing, monkeypatch):
    rng = np.random.default_rng(4)
    P, w = np.array([[0.9, 0.2, 0.8, 0.1], [0.1, 0.7, 0.2, 0.8]]), np.array([0.6, 0.4])
    codes = (rng.random((300, 4)) < P[rng.choice(2, 300, p=w)]).astype(np.uint8)
    codes[rng.random((300, 4)) < missing] = 255
    table = Table(codes, columns(4))
    mixture = em(table_steps(table, 2, 1.0, 1), mixture_of(w, P), max_iter=200, tol=1e-10).params
    P, w = mixture.table[1::2].T, mixture.weights
    monkeypatch.setattr(intervals, "SETTINGS", replace(intervals.SETTINGS, hidden=1.0))
    H = slow_information(table, mixture, 1.0)
    posterior = posterior_of(MemoryEngine(table, 1), mixture)[0]
    rows, weights_variance = intervals.effective_rows(table, mixture, posterior, 1.0)
    seen = posterior.T @ table.present + 1.0
    inverse = np.linalg.inv(H)
    variance = np.diag(inverse)[:8].reshape(2, 4)
    np.testing.assert_allclose(rows, seen / (seen * P * (1 - P) * variance), rtol=1e-4)
    np.testing.assert_allclose(weights_variance, inverse[8, 8] * (w[0] * w[1]) ** 2, rtol=1e-4)
    # three columns: the fourth joins them by itself, exactly
    monkeypatch.setattr(intervals, "SETTINGS", replace(intervals.SETTINGS, core=8))
    outside = np.setdiff1d(np.arange(4), intervals.core_columns(mixture, 2, 4))
    assert len(outside) == 1
    smaller = intervals.effective_rows(table, mixture, posterior, 1.0)[0]
    np.testing.assert_allclose(smaller[:, outside], rows[:, outside], rtol=1e-6)
    np.testing.assert_allclose(smaller, rows, rtol=0.15)


def test_intervals_reach_what_no_row_speaks_against():
    rng = np.random.default_rng(5)
    P, w = np.array([[0.0, 0.2, 0.9, 1.0, 0.9, 0.8], [0.9, 0.8, 0.1, 0.3, 0.1, 0.0]]), np.array([0.6, 0.4])
    table = Table((rng.random((400, 6)) < P[rng.choice(2, 400, p=w)]).astype(np.uint8), columns(6))
    mixture = em(table_steps(table, 2, 1.0, 1), mixture_of(w, P.clip(0.01, 0.99)), max_iter=200, tol=1e-10).params
    found = intervals.frequency_intervals(table, mixture, smoothing=1.0)
    assert (found.frequencies > 0).all()  # pseudo-counts
    assert (found.frequencies < 1).all()
    np.testing.assert_array_equal(found.low == 0, P == 0)
    np.testing.assert_array_equal(found.high == 1, P == 1)


def test_intervals_of_one_class_are_wilsons():
    world = bernoulli_world(0, 1, 5, 300)
    P = np.array([world.table.codes[:, j] @ world.table.row_weight / 300 for j in range(5)])[None]
    found = intervals.frequency_intervals(world.table, mixture_of([1.0], P))
    np.testing.assert_allclose(found.rows, 300)
    assert found.weights_low.tolist() == found.weights_high.tolist() == [1.0]
    assert (found.low < P).all()
    assert (found.high > P).all()


# ---------------------------------------------------------------------- errors


def test_errors_say_what_to_do():
    three = Table(np.zeros((4, 1), np.uint8), (Column("size", np.array(["s", "m", "l"])),))
    flat = Mixture(np.ones(1), np.full((3, 1), 1 / 3), np.array([0, 3], np.int32))
    with pytest.raises(DataError, match=r"column 'size' has 3 categories .* make it binary"):
        purity.purity_certificates(three, flat, smoothing=1.0)
    world = bernoulli_world(0, 2, 5, 50)
    with pytest.raises(DataError, match="fitted to other columns"):
        purity.purity_certificates(world.table, flat, smoothing=1.0)
    with pytest.raises(DataError, match="n_permutations=2 gives no spread"):
        purity.purity_certificates(world.table, world.mixture, smoothing=1.0, n_permutations=2)
    with pytest.raises(DataError, match="level must be a number between 0 and 1"):
        intervals.frequency_intervals(world.table, world.mixture, level=2)
    with pytest.raises(DataError, match="none of this table's with two categories per column"):
        intervals.frequency_intervals(three, flat)
