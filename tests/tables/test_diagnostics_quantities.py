"""The quantities of the table diagnosis against literal loops, and fit indices against hand-computed values."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import chi2

from latentfit.core.mixture import bootstrap as indices
from latentfit.core.mixture.bootstrap import draw_table, reach_bounds, wilson
from latentfit.core.mixture.init import block_sums, pair_frequencies
from latentfit.core.mixture.pair_counts import count_table_pairs
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.replicates import is_whole
from latentfit.core.table.table import Column, Table
from latentfit.tables import theory as theorems
from latentfit.tables.diagnostics.classes import class_distances, gain_by_chance, kruskal_count
from latentfit.tables.diagnostics.pairs import (
    connected_parts,
    count_evidence,
    expected_pairs,
    pearson_blocks,
    residual_dependence,
    some_rows,
    two_halves,
)
from latentfit.tables.diagnostics.verdict import examine_table


def drawn(F, sizes, seed=0):
    """A mixture, and 400 rows of it with a tenth of the cells missing."""
    rng = np.random.default_rng([F, seed])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tables = np.concatenate([rng.dirichlet(np.full(s, 3.0), size=F).T for s in sizes])
    mixture = Mixture(rng.dirichlet(np.full(F, 5.0)), tables, offsets)
    codes = np.zeros((400, len(sizes)), np.uint8)
    codes[rng.random(codes.shape) < 0.1] = 255
    table = Table(codes, tuple(Column(n, np.arange(s)) for n, s in enumerate(sizes)))
    return mixture, draw_table(table, mixture, rng)


@pytest.fixture(params=[2, 3, 4])
def world(request):
    return drawn(request.param, [2, 4, 3, 5, 3])[::-1]


def test_theorem_2(world):
    _, m = world
    N, F, I, S, p, mu = m.n_columns, m.n_classes, 5, 400.0, 0.9, 0.05
    A = m.profiles()
    pairs = [(f, g) for f in range(F) for g in range(F) if f != g]
    D1 = min(
        sum(p * sum(A[n][f, i] * log(A[n][f, i] / A[n][g, i]) for i in range(A[n].shape[1])) for n in range(N)) / N
        for f, g in pairs
    )
    D2 = 2 / N * min(log(m.weights[f] / m.weights[g]) for f, g in pairs)
    D = (D1 + D2) / 2
    r1, r2 = min(float(a.min()) for a in A), float(min(m.weights))
    found = theorems.theorem_2(m, S, p)
    term = log(12 * N * F * I / mu)
    expected = {
        "D_1": D1, "D_2": D2, "D": D, "rho_1": r1, "rho_2": r2, "delta_1": 4 / (r1 * (4 + D)),
        "promised_profile_error": [sqrt(48 * term / (S * p * w)) for w in m.weights],
        "promised_weight_error": [sqrt(192 * F**2 * w * term / S) for w in m.weights],
        "asked_D": max((8 - 4 * r1**2) / r1**2, (8 - 4 * r2**2) / (N * r2**2)),
    }  # fmt: skip
    if 4 + N * D > 0:
        d2 = 4 / (r2 * (4 + N * D))
        expected |= {
            "delta_2": d2,
            "asked_rows": 192 * F**2 * term / (p**2 * r2**2 * min(expected["delta_1"], d2) ** 2),
        }
    if D > 0:
        expected["asked_columns"] = max(
            33 * log(3 * S * F / mu) / (r1 * D1), 4 * log(4 * S * F**2 / (3 * p * r2 * mu)) / D
        )
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, err_msg=name)


@pytest.mark.parametrize(("F", "sizes", "left"), [(2, [2, 4, 3], [1]), (5, [3, 2, 4, 3, 2, 3], [0, 2])])
def test_theorem_1(F, sizes, left):
    """Proposition 1, Theorem 1 and its proof: (3), (4), (17), (19), (20), Definition 1 up to ε."""
    m, table = drawn(F, sizes)
    N, S, p, delta, I, M = len(sizes), 400.0, 0.9, 0.05, max(sizes), len(left)
    offsets, A, lam = m.column_offsets, m.profiles(), m.weights
    counts = count_table_pairs(table).dense()
    eta = min(
        sum(counts[offsets[i] : offsets[i + 1], c])
        / counts[offsets[i] : offsets[i + 1], offsets[j] : offsets[j + 1]].sum()
        for i in range(N) for j in range(N) if i != j for c in range(offsets[j], offsets[j + 1])
    )  # fmt: skip
    W = np.array([A[n][:, i] for n in sorted(left) for i in range(sizes[n])])
    s = np.linalg.svd(W, compute_uv=False)
    kappa = s[0] / s[F - 1]
    eps = M * min(1 / (2 * sqrt(F - 1)), 1 / 4) / (2 * kappa * (1 + 80 * kappa**2))
    H = [[lam[f] * A[n][f, i] for f in range(F)] for n in range(N) if n not in left for i in range(sizes[n])]
    H = [np.array(row) / sum(row) for row in H]
    achieved = max(min(float(np.linalg.norm(h - np.eye(F)[f])) for h in H) for f in range(F))
    phi = sqrt(2) * (1 + sqrt(log(2 / delta))) / (p * sqrt(S))
    mean_I = sum(sizes) / N
    expected = {
        "columns_left": M, "eta": eta, "kappa": kappa, "sigma_max": s[0],
        "epsilon_allowed": eps, "epsilon_achieved": achieved,
        "least_observed": sqrt(8 / S * log(4 / delta)),
        "asked_rows": 32 * M**2 * I * (1 + sqrt(log(2 / delta))) ** 2 / (s[0] ** 2 * eta**2 * eps**2 * p**2),
        "asked_columns_constant_1": M + eps ** (-2 * (F - 1)) / (mean_I * F) * log(F / delta),
        "promised_error": sqrt(F) * (s[0] * achieved + 2 * M * sqrt(I) * phi / eta) * (1 + 80 * kappa**2),
    }  # fmt: skip
    found = theorems.theorem_1(m, pair_frequencies(counts, offsets), S, p)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-8, err_msg=name)
    bound = theorems.noise_bound(S, p)
    assert bound == pytest.approx({"phi": phi, "least_observed": sqrt(8 / S * log(2 / delta)), "observed": p})


def test_theorem_2_cannot_be_in_force():
    """D̄ ≤ ½ log(1/ρ₁) lies below what the theorem asks of it, however far apart the classes are."""
    for rho in (0.5, 0.3, 0.1, 1e-2, 1e-6, 1e-12):
        table = np.array([[1 - rho, rho], [rho, 1 - rho]] * 50)
        found = theorems.theorem_2(Mixture(np.array([0.5, 0.5]), table, np.arange(0, 101, 2, dtype=np.int32)), 1e12, 1)
        assert found["D"] <= 0.5 * log(1 / rho) < found["asked_D"]
        assert found["in_force"] == 0


@pytest.mark.parametrize(("rarest", "lightest"), [(0.0, 0.5), (0.2, 0.0)])
def test_theorem_2_asks_nothing_of_a_zero(rarest, lightest):
    """ρ₁ and ρ₂ are divided by: with a frequency or a weight of zero the theorem has no numbers to ask for."""
    table = np.array([[1 - rarest, 0.4], [rarest, 0.6]] * 3)
    found = theorems.theorem_2(
        Mixture(np.array([1 - lightest, lightest]), table, np.arange(0, 7, 2, dtype=np.int32)), 400.0, 0.9
    )
    assert (found["rho_1"], found["rho_2"]) == (rarest, lightest)
    assert [found[name] for name in ("asked_columns", "asked_rows", "asked_D")] == [None] * 3
    assert found["in_force"] == 0


def test_initialisation_in_basin():
    m, _ = drawn(3, [3, 4, 3])
    shifted = m.table.copy()
    shifted[0, 1] += 0.03
    shifted[1, 1] -= 0.03
    init = Mixture(m.weights + np.array([0.02, -0.02, 0.0]), shifted, m.column_offsets).permuted(np.array([2, 0, 1]))
    found = theorems.init_in_basin(init, m, {"delta_1": 0.04, "delta_2": 0.01})
    assert found == pytest.approx({"profile_error": 0.03, "weight_error": 0.02, "inside": 0.0})
    assert theorems.init_in_basin(init, m, {"delta_1": 0.04, "delta_2": 0.03})["inside"] == 1
    assert theorems.init_in_basin(init, m, {"delta_1": None, "delta_2": 0.03})["inside"] is None


def test_fit_indices_by_hand():
    found = indices.information_criteria(-100.0, 7, 50)
    assert found == pytest.approx(
        {"aic": 214, "aic3": 221, "bic": 200 + 7 * log(50), "sabic": 200 + 7 * log(52 / 24),
         "caic": 200 + 7 * (log(50) + 1)}
    )  # fmt: skip
    assert indices.count_parameters(np.array([0, 2, 5], np.int32), 3) == 3 * (1 + 2) + 2
    assert indices.entropy_r2(np.eye(3)) == 1
    assert indices.entropy_r2(np.full((4, 2), 0.5)) == pytest.approx(0)
    mixed = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert indices.entropy_r2(mixed, np.array([3.0, 1.0])) == pytest.approx(0.75)
    assert np.isnan(indices.entropy_r2(np.ones((4, 1))))


def test_kruskal_count():
    assert kruskal_count(np.array([2, 2, 2], np.int32), 2) == 6
    assert kruskal_count(np.array([2, 2, 2, 2], np.int32), 3) == 7  # known not to be identifiable
    assert kruskal_count(np.array([2] * 5, np.int32), 4) == 10


def pearson(block):
    """Pearson's statistic of one pair, and Dawson's mean and variance over permutations, term by term."""
    block = block[block.sum(axis=1) > 0][:, block.sum(axis=0) > 0]
    n, (R, C) = float(block.sum()), block.shape
    if n < 4 or min(R, C) < 2:
        return 0.0, 0.0, 0.0
    rows, columns = block.sum(axis=1), block.sum(axis=0)
    statistic = sum(
        (block[a, b] - rows[a] * columns[b] / n) ** 2 / (rows[a] * columns[b] / n) for a in range(R) for b in range(C)
    )
    v = [(k - 1) * (n - k) / (n - 1) for k in (R, C)]
    w = [(n * sum(1 / m) - k**2) / (n - 2) for m, k in ((rows, R), (columns, C))]
    variance = 2 * n / (n - 3) * (v[0] - w[0]) * (v[1] - w[1]) + n**2 / (n - 1) * w[0] * w[1]
    return statistic, n * (R - 1) * (C - 1) / (n - 1), variance


def test_pearson_moments_are_those_of_permutations():
    rng = np.random.default_rng(0)
    x, y = rng.choice(3, 40, p=[0.8, 0.1, 0.1]), rng.choice(3, 40, p=[0.6, 0.3, 0.1])
    draws = [pearson(np.eye(3)[x].T @ np.eye(3)[rng.permutation(y)])[0] for _ in range(4000)]
    _, mean, variance = pearson(np.eye(3)[x].T @ np.eye(3)[y])
    assert np.mean(draws) == pytest.approx(mean, rel=0.05)
    assert np.var(draws) == pytest.approx(variance, rel=0.15)


def blocks_of(matrix, offsets):
    N = len(offsets) - 1
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    return [(i, j, matrix[offsets[i] : offsets[i + 1], offsets[j] : offsets[j + 1]]) for i, j in pairs]


def test_all_pairs_at_once_are_every_pair_alone(world):
    table, m = world
    counts = count_table_pairs(table).dense()
    counts[table.column_offsets[1]] = counts[:, table.column_offsets[1]] = 0.0  # a category no row shows
    joint = (m.table * m.weights) @ m.table.T
    sizes = np.diff(table.column_offsets)
    expected = joint * np.repeat(np.repeat(block_sums(counts, table.column_offsets), sizes, axis=0), sizes, axis=1)
    found, V = pearson_blocks(counts, table.column_offsets), residual_dependence(counts, expected, m.column_offsets)
    sure = residual_dependence(counts, expected, m.column_offsets, 1e-3)
    for (i, j, block), (_, _, proportion) in zip(
        blocks_of(counts, m.column_offsets), blocks_of(joint, m.column_offsets), strict=True
    ):
        np.testing.assert_allclose([part[i, j] for part in found], pearson(block), rtol=1e-9, atol=1e-9)
        n, degrees, least = block.sum(), (block.shape[0] - 1) * (block.shape[1] - 1), min(block.shape) - 1
        off = (np.square(block - n * proportion) / np.maximum(n * proportion, 0.5)).sum()
        assert V[i, j] == pytest.approx(sqrt(max(off - degrees, 0) / n / least), rel=1e-9)
        assert sure[i, j] == (V[i, j] if chi2.sf(off, degrees) <= 1e-3 else 0)
    assert all(part.diagonal().sum() == 0 for part in found)


def test_parts_differences_and_chance_by_hand():
    co_observed = np.array([[9, 9, 0, 0], [9, 9, 3, 0], [0, 3, 9, 9], [0, 0, 9, 9.0]])
    assert connected_parts(co_observed, 1).tolist() == [0, 0, 0, 0]
    assert connected_parts(co_observed, 5).tolist() == [0, 0, 1, 1]
    table = np.array([[0.5, 0.5, 0.1], [0.5, 0.5, 0.9], [0.3, 0.1, 0.3], [0.7, 0.9, 0.7]])
    offsets = np.array([0, 2, 4], np.int32)
    np.testing.assert_allclose(class_distances(Mixture(np.full(3, 1 / 3), table, offsets)), [0.2, 0.4, 0.4])
    assert gain_by_chance(np.array([9, 9, 9, 1.0]), offsets, 2) == pytest.approx(2.5 + 3 * 2.5 ** (1 / 3))


def test_wilson_by_hand():
    low, high = wilson(np.array([0.0]), np.array([16.0]), 2.0)
    assert (low[0], high[0]) == pytest.approx((0.0, 0.2))


def test_intervals_reach_a_bound_within_z_errors():
    p, se = np.array([0.02, 0.03, 0.5, 0.98]), np.array([0.01, 0.01, 0.1, 0.015])
    low, high = reach_bounds(p, se, (p - 0.001, p + 0.001), 2.0)
    np.testing.assert_allclose(low, [0, 0.029, 0.499, 0.979])
    np.testing.assert_allclose(high, [0.021, 0.031, 0.501, 1])


@pytest.mark.parametrize("weight", [None, np.full(16, 1000.0), np.linspace(0.5, 3.7, 16)])
def test_halves_add_up_to_the_table(weight):
    """Rows of a heavy unique row go to both halves; a row of uneven weight goes to one."""
    codes = np.array([[a, b, c, d] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1)], np.uint8)
    table = Table(codes, tuple(Column(n, np.arange(2)) for n in range(4)), row_weight=weight)
    left, right = two_halves(table)
    assert left.total_weight + right.total_weight == pytest.approx(table.total_weight)
    if weight is not None and weight[0] == 1000:
        assert left.n_rows == right.n_rows == 16
        assert abs(left.total_weight - 8000) < 300
        assert is_whole(left.row_weight)
    else:
        assert left.n_rows + right.n_rows == 16


def test_a_sample_of_unique_rows_is_a_sample_of_their_rows():
    codes = np.array([[0, 0], [0, 1], [1, 1]], np.uint8)
    columns = tuple(Column(n, np.arange(2)) for n in range(2))
    table = Table(codes, columns, row_weight=np.array([10_000.0, 30_000.0, 60_000.0]))
    some = some_rows(table, 10_000)
    np.testing.assert_allclose(some.row_weight, [1000, 3000, 6000], atol=300)
    assert is_whole(some.row_weight)
    assert some_rows(table, 100_000) is table
    ungrouped = Table(np.repeat(codes, [10, 30, 60], axis=0), columns)
    assert some_rows(ungrouped, 37).n_rows == 37


@pytest.mark.parametrize("weight", [np.array([3.0, 1, 2, 5]), np.array([0.5, 1, 2.25, 5]), np.array([900.0, 1, 2, 5])])
def test_evidence_counts_weights(weight):
    """Whole weights are written out for the exact counter, others and heavy ones counted by products."""
    codes = np.array([[0, 0, 1], [0, 1, 255], [1, 1, 0], [1, 0, 1]], np.uint8)
    table = Table(codes, tuple(Column(n, np.arange(2)) for n in range(3)), row_weight=weight)
    found = count_evidence(table)
    literal = np.zeros((6, 6))
    for row, w in zip(codes, weight, strict=True):
        cells = [2 * n + code for n, code in enumerate(row) if code < 2]
        for a in cells:
            for b in cells:
                literal[a, b] += w
    np.testing.assert_allclose(found.counts, literal)
    assert found.n_rows == weight.sum()
    assert found.co_observed[0, 2] == weight.sum() - weight[1]


def test_pairs_expected_among_the_rows_that_show_both_are_a_loop_over_rows():
    rng = np.random.default_rng(5)
    sizes, F = [2, 3, 2, 4], 2
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    cells = np.concatenate([rng.dirichlet(np.ones(size), F).T for size in sizes])
    mixture = Mixture(np.array([0.6, 0.4]), cells, offsets)
    codes = np.stack([rng.integers(0, size, 60) for size in sizes], axis=1).astype(np.uint8)
    codes[rng.random(codes.shape) < [0.0, 0.3, 0.5, 0.2]] = 255
    weight = rng.uniform(0.5, 2.0, 60)
    table = Table(codes, tuple(Column(f"c{n}", np.arange(size)) for n, size in enumerate(sizes)), row_weight=weight)
    expected = weight.sum() * (cells * mixture.weights) @ cells.T
    for row, w in zip(codes, weight, strict=True):
        seen = [n for n in range(4) if row[n] != 255]
        membership = mixture.weights * np.prod([cells[offsets[n] + row[n]] for n in seen] or [np.ones(F)], axis=0)
        membership = membership / membership.sum()
        given = [np.eye(size)[[row[n]] * F].T if n in seen else cells[offsets[n] : offsets[n + 1]]
                 for n, size in enumerate(sizes)]  # fmt: skip
        for i in range(4):
            for j in range(4):
                if not (i in seen and j in seen):
                    block = slice(offsets[i], offsets[i + 1]), slice(offsets[j], offsets[j + 1])
                    expected[block] -= w * (given[i] * membership) @ given[j].T
    found = expected_pairs(count_evidence(table, F), mixture)
    for (_, _, here), (_, _, there) in zip(blocks_of(found, offsets), blocks_of(expected, offsets), strict=True):
        np.testing.assert_allclose(here, np.maximum(there, 0.0), rtol=1e-9, atol=1e-9)


def test_phi_bounds_the_error_of_pairs_of_columns_with_more_missing_values_than_others():
    """Two of six columns are nearly empty: the bound is that of the pair seen least, not of the mean share."""
    rng = np.random.default_rng(0)
    probabilities = [rng.dirichlet(np.ones(3)) for _ in range(6)]
    above, mean_above = 0, 0
    for _ in range(100):
        codes = np.stack([rng.choice(3, 2000, p=p) for p in probabilities], axis=1).astype(np.uint8)
        gone = rng.random(codes.shape) < np.array([0.95, 0.95, 0.05, 0.05, 0.05, 0.05])
        table = Table(np.where(gone, 255, codes).astype(np.uint8), tuple(Column(n, np.arange(3)) for n in range(6)))
        mixture = Mixture(np.ones(1), np.concatenate(probabilities)[:, None], table.column_offsets)
        found = examine_table(table, mixture, converged=True).quantities
        both = ~gone[:, 0] & ~gone[:, 1]
        counted = np.zeros((3, 3))
        np.add.at(counted, (codes[both, 0], codes[both, 1]), 1 / max(both.sum(), 1))
        error = np.linalg.norm(counted - np.outer(probabilities[0], probabilities[1]))
        above += error > found["proposition_1"]["phi"]
        mean_above += error > theorems.noise_bound(2000, 1 - found["share_missing"])["phi"]
    assert above <= 5
    assert mean_above > 50  # what the mean share promised


def test_phi_without_missing_values_is_that_of_the_paper():
    codes = np.random.default_rng(1).integers(0, 2, (500, 4)).astype(np.uint8)
    table = Table(codes, tuple(Column(n, np.arange(2)) for n in range(4)))
    mixture = Mixture(np.ones(1), np.full((8, 1), 0.5), table.column_offsets)
    found = examine_table(table, mixture, converged=True).quantities["proposition_1"]
    assert found == pytest.approx(theorems.noise_bound(500, 1.0))
