"""SPA and CNMF-SPA against twins of loops; exact marginals in, parameters out; EM (21)–(22) against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import nnls

from latentfit.core.assign import match_classes
from latentfit.core.em import em
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.parameters import Mixture, normalise_tables
from latentfit.core.mixture.spa import factor_spa, naive_split, successive_projection
from latentfit.core.table.table import Column, Table

FIRST = np.arange(0, 21, 4, dtype=np.int32)


def separable(rng, n_classes=3):
    table = rng.dirichlet(np.ones(n_classes), size=20)
    table[12 : 12 + n_classes] = np.eye(n_classes)
    return Mixture(rng.dirichlet(np.full(n_classes, 5.0)), normalise_tables(table, FIRST), FIRST)


def twin_spa(points, n_anchors):
    rest = [[float(v) for v in row] for row in points]
    chosen = []
    for _ in range(n_anchors):
        lengths = [sum(row[q] ** 2 for row in rest) for q in range(len(rest[0]))]
        best = max((q for q in range(len(lengths)) if q not in chosen), key=lambda q: lengths[q])
        chosen.append(best)
        u = [row[best] / math.sqrt(lengths[best]) for row in rest]
        for q in range(len(lengths)):
            along = sum(u[i] * rest[i][q] for i in range(len(rest)))
            for i in range(len(rest)):
                rest[i][q] -= along * u[i]
    return chosen


@pytest.mark.parametrize("seed", range(20))
def test_cnmf_spa_equals_its_twin(seed):
    rng = np.random.default_rng(seed)
    truth = separable(rng)
    X = (truth.table * truth.weights) @ truth.table.T
    X += 1e-3 * rng.random(X.shape)
    found = factor_spa(X, FIRST, 3, naive_split(5, 3), denoise=False)
    virtual = X[:12, 12:]
    columns = virtual / virtual.sum(axis=0)
    anchors = twin_spa(columns, 3)
    assert anchors == successive_projection(columns, 3).tolist()
    W, H = np.zeros((12, 3)), np.array([[0.0] * 3] * 8)
    for f, q in enumerate(anchors):
        for n in range(3):
            total = sum(virtual[4 * n + i, q] for i in range(4))
            for i in range(4):
                W[4 * n + i, f] = virtual[4 * n + i, q] / total
    for q in range(8):
        H[q] = nnls(W, virtual[:, q])[0]
    for n in range(2):
        H[4 * n : 4 * n + 4] /= H[4 * n : 4 * n + 4].sum(axis=0)
    np.testing.assert_allclose(found.table, np.vstack([W, H]), atol=1e-10)
    khatri_rao = np.array([[H[q, f] * W[l, f] for f in range(3)] for q in range(8) for l in range(12)])
    weights = np.linalg.pinv(khatri_rao) @ virtual.T.reshape(-1)
    assert (weights > 0).all()
    np.testing.assert_allclose(found.weights, weights / weights.sum(), atol=1e-10)


@pytest.mark.parametrize("denoise", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_exact_marginals_give_the_parameters(seed, denoise):
    truth = separable(np.random.default_rng(seed))
    X = (truth.table * truth.weights) @ truth.table.T
    found = factor_spa(X, FIRST, 3, naive_split(5, 3), denoise=denoise)
    order = match_classes(-np.square(truth.table[:, :, None] - found.table[:, None, :]).sum(axis=0))
    np.testing.assert_allclose(found.table[:, order], truth.table, atol=1e-8)
    np.testing.assert_allclose(found.weights[order], truth.weights, atol=1e-8)


def test_em_equals_its_twin():
    rng = np.random.default_rng(0)
    init = separable(rng)
    init = Mixture(init.weights, normalise_tables(init.table + 0.1, FIRST), FIRST)
    codes = rng.integers(0, 5, (40, 5)).astype(np.uint8)
    codes[codes == 4] = 255
    table = Table(codes, tuple(Column(n, np.arange(4)) for n in range(5)))
    weights, A = init.weights, init.table
    for _ in range(3):
        q = np.zeros((40, 3))
        for s in range(40):
            for f in range(3):
                q[s, f] = weights[f]
                for n in range(5):
                    if codes[s, n] < 4:
                        q[s, f] *= A[4 * n + codes[s, n], f]
            q[s] /= q[s].sum()  # (21)
        A = np.zeros_like(A)
        for s in range(40):
            for n in range(5):
                if codes[s, n] < 4:
                    A[4 * n + codes[s, n]] += q[s]
        for n in range(5):
            A[4 * n : 4 * n + 4] /= A[4 * n : 4 * n + 4].sum(axis=0)  # (22)
        weights = q.sum(axis=0) / 40
    found = em(table_steps(table, 3, 0.0, 1), init, max_iter=3, tol=0.0).params
    np.testing.assert_allclose(found.table, A, atol=1e-10)
    np.testing.assert_allclose(found.weights, weights, atol=1e-10)
