"""The quantities of the table diagnosis against literal loops, and fit indices against hand-computed values."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

from tacit.data.table import Column, Table
from tacit.diagnose import fit_indices as indices
from tacit.diagnose import table_theorems as theorems
from tacit.diagnose.bootstrap import draw_table, wilson
from tacit.diagnose.tables import kruskal_count, pearson
from tacit.engine.mixture import Mixture
from tacit.factor.table_pool import pair_frequencies
from tacit.moments.pairs import count_table_pairs


@pytest.fixture(params=[2, 3, 4])
def world(request):
    F = request.param
    rng = np.random.default_rng(F)
    sizes = [2, 4, 3, 5, 3]
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    tables = np.concatenate([rng.dirichlet(np.full(s, 3.0), size=F).T for s in sizes])
    mixture = Mixture(rng.dirichlet(np.full(F, 5.0)), tables, first)
    codes = np.zeros((400, len(sizes)), np.uint8)
    codes[rng.random(codes.shape) < 0.1] = 255
    table = Table(codes, tuple(Column(n, np.arange(s)) for n, s in enumerate(sizes)))
    return draw_table(table, mixture, rng), mixture


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


def test_theorem_1(world):
    table, m = world
    N, F, S, p = m.n_columns, m.n_classes, 400.0, 0.9
    X = pair_frequencies(count_table_pairs(table))
    eta = min(
        sum(X[r, c] for r in range(m.first[i], m.first[i + 1]))
        for i in range(N) for j in range(N) if i != j for c in range(m.first[j], m.first[j + 1])
    )  # fmt: skip
    W = m.table[m.first[3] : m.first[4]]  # the widest column has five categories: enough for these F
    rest = [c for c in range(m.first[-1]) if not m.first[3] <= c < m.first[4]]
    s = np.linalg.svd(W, compute_uv=False)
    kappa = s[0] / s[-1]
    eps = min(1 / (2 * sqrt(F - 1)), 0.25) / (2 * kappa * (1 + 80 * kappa**2))
    H = [m.table[c] * m.weights / (m.table[c] @ m.weights) for c in rest]
    achieved = max(min(float(np.linalg.norm(h - np.eye(F)[f])) for h in H) for f in range(F))
    sure = 1 + sqrt(log(2 / 0.05))
    phi = sqrt(2) * sure / (p * sqrt(S))
    expected = {
        "eta": eta, "kappa": kappa, "epsilon_allowed": eps, "epsilon_achieved": achieved,
        "asked_rows": 32 * 5 * sure**2 / (s[0] * eta * eps * p) ** 2,
        "asked_columns_constant_1": 1 + eps ** (-2 * (F - 1)) / (F * 17 / 5) * log(F / 0.05),
        "promised_error": sqrt(F) * (s[0] * achieved + 2 * sqrt(5) * phi / eta) * (1 + 80 * kappa**2),
    }  # fmt: skip
    found = theorems.theorem_1(m, X, S, p)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=name)
    assert theorems.noise_bound(S, p)["phi"] == pytest.approx(phi, rel=1e-12)


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


def test_compare_is_frame_ready(world):
    table, mixture = world
    found = indices.compare(table, [mixture.n_classes], lambda _table, _number: mixture)
    assert {len(values) for values in found.values()} == {1}
    assert found["n_components"] == [mixture.n_classes]


def test_kruskal_count():
    assert kruskal_count(np.array([2, 2, 2], np.int32), 2) == 6
    assert kruskal_count(np.array([2, 2, 2, 2], np.int32), 3) == 7  # known not to be identifiable
    assert kruskal_count(np.array([2] * 5, np.int32), 4) == 10


def test_pearson_moments_are_those_of_permutations():
    rng = np.random.default_rng(0)
    x, y = rng.choice(3, 40, p=[0.8, 0.1, 0.1]), rng.choice(3, 40, p=[0.6, 0.3, 0.1])
    draws = [pearson(np.eye(3)[x].T @ np.eye(3)[rng.permutation(y)])[0] for _ in range(4000)]
    _, mean, variance = pearson(np.eye(3)[x].T @ np.eye(3)[y])
    assert np.mean(draws) == pytest.approx(mean, rel=0.05)
    assert np.var(draws) == pytest.approx(variance, rel=0.15)


def test_wilson_by_hand():
    low, high = wilson(np.array([0.0]), np.array([16.0]), 2.0)
    assert (low[0], high[0]) == pytest.approx((0.0, 0.2))
