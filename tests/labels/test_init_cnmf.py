"""Coupled NMF against a reference of loops: one sweep, the objective at every half-step, exact moments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from latentfit.core.mixture.parameters import unstack_confusions
from latentfit.labels.init.cnmf import divergence, factor_cnmf, update_confusions, update_weights
from latentfit.labels.init.multispa import factor_multispa
from latentfit.labels.moments import count_label_pairs
from tests.labels.exact_models import confusions, draw_labels, exact_pairs


def reference_cell(A, weights, m, j, k, l):
    return sum(weights[f] * A[m][k][f] * A[j][l][f] for f in range(len(weights)))


def reference_divergence(R, left, right, A, weights):
    total = 0.0
    for p in range(len(R)):
        for k in range(len(weights)):
            for l in range(len(weights)):
                if R[p][k][l] > 0:
                    cell = reference_cell(A, weights, left[p], right[p], k, l)
                    total += R[p][k][l] * math.log(R[p][k][l] / cell)
    return total


def reference_sweep(R, left, right, A, weights):
    """The posterior of the class in every cell of every pair, then shares: the bound's minimiser."""
    n_workers, n_classes = len(A), len(weights)
    share = np.zeros((n_workers, n_classes, n_classes))
    for p, (m, j) in enumerate(zip(left, right, strict=True)):
        for k in range(n_classes):
            for l in range(n_classes):
                for f in range(n_classes):
                    belongs = weights[f] * A[m][k][f] * A[j][l][f] / reference_cell(A, weights, m, j, k, l)
                    share[m, k, f] += R[p][k][l] * belongs
                    share[j, l, f] += R[p][k][l] * belongs
    A = share / share.sum(axis=1, keepdims=True)
    total = np.zeros(n_classes)
    for p, (m, j) in enumerate(zip(left, right, strict=True)):
        for k in range(n_classes):
            for l in range(n_classes):
                for f in range(n_classes):
                    belongs = weights[f] * A[m][k][f] * A[j][l][f] / reference_cell(A, weights, m, j, k, l)
                    total[f] += R[p][k][l] * belongs
    return A, total / total.sum()


def sampled(seed, n_classes=3, observed=0.6):
    rng = np.random.default_rng(seed)
    A, weights = confusions(rng, 6, n_classes), rng.dirichlet(np.full(n_classes, 5.0))
    pairs = count_label_pairs(draw_labels(rng, A, weights, 200, observed)[0])
    left, right, _ = pairs.observed
    return pairs, pairs.frequencies(), left, right, confusions(rng, 6, n_classes, 0.3), weights


@pytest.mark.parametrize("seed", range(3))
def test_a_cnmf_sweep_equals_the_literal_reference(seed):
    _, R, left, right, A, weights = sampled(seed)
    expected_A, expected_weights = reference_sweep(R, left, right, A, weights)
    moved = update_confusions(R, left, right, A, weights)
    np.testing.assert_allclose(moved, expected_A, atol=1e-10)
    np.testing.assert_allclose(update_weights(R, left, right, moved, weights), expected_weights, atol=1e-10)
    assert divergence(R, left, right, A, weights) == pytest.approx(
        reference_divergence(R, left, right, A, weights), rel=1e-10
    )


@pytest.mark.parametrize("seed", range(10))
def test_objective_never_rises_at_any_half_step(seed):
    _, R, left, right, A, weights = sampled(seed, n_classes=2 + seed % 3, observed=0.3)
    path = [divergence(R, left, right, A, weights)]
    for _ in range(40):
        A = update_confusions(R, left, right, A, weights)
        path.append(divergence(R, left, right, A, weights))
        weights = update_weights(R, left, right, A, weights)
        path.append(divergence(R, left, right, A, weights))
        np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-12)
        assert weights.sum() == pytest.approx(1)
    assert (np.diff(path) <= 1e-12 * path[0]).all()


def test_exact_moments_are_a_fixed_point():
    rng = np.random.default_rng(5)
    A, weights = confusions(rng, 5, 3), np.array([0.5, 0.3, 0.2])
    pairs = exact_pairs(A, weights, missing=((0, 4),))
    left, right, _ = pairs.observed
    R = pairs.frequencies()
    assert divergence(R, left, right, A, weights) < 1e-12
    np.testing.assert_allclose(update_confusions(R, left, right, A, weights), A, atol=1e-12)
    np.testing.assert_allclose(update_weights(R, left, right, A, weights), weights, atol=1e-12)


def test_exact_moments_with_specialists_in_both_groups_give_the_parameters():
    rng = np.random.default_rng(6)
    weights = np.array([0.5, 0.3, 0.2])
    A = confusions(rng, 6, 3)
    A[0] = A[3] = 0.998 * np.eye(3) + 0.001 * (1 - np.eye(3))  # all but specialists: above the start's floor
    fitted = factor_cnmf(exact_pairs(A, weights), 3, max_iter=2000, tol=0.0)
    np.testing.assert_allclose(unstack_confusions(fitted).transpose(0, 2, 1), A, atol=5e-3)
    np.testing.assert_allclose(fitted.weights, weights, atol=5e-3)


def test_fit_improves_on_its_initialisation_and_allows_missing_values():
    pairs, R, left, right, _, _ = sampled(7, observed=0.15)
    start, fitted = factor_multispa(pairs, 3), factor_cnmf(pairs, 3)
    values = [
        divergence(R, left, right, unstack_confusions(each).transpose(0, 2, 1), each.weights)
        for each in (start, fitted)
    ]
    assert values[1] < values[0]
    assert np.isfinite(fitted.table).all()


def test_cnmf_answers_when_workers_share_no_task():
    rng = np.random.default_rng(8)
    labels, _ = draw_labels(rng, confusions(rng, 3, 2), np.array([0.5, 0.5]), 30)
    alone = labels.subset(labels.workers == labels.task_of() % 3)
    fitted = factor_cnmf(count_label_pairs(alone), 2)
    np.testing.assert_allclose(fitted.weights, 0.5)
