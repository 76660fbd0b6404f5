"""The quantities of the label diagnosis against literal loops, written from the definitions alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from latentfit.core import simplex as scatter
from latentfit.core.mixture.parameters import Mixture
from latentfit.labels import diagnostics
from latentfit.labels.diagnostics import dependence, workers
from latentfit.labels.diagnostics import structure as agreement
from latentfit.labels.moments import count_label_pairs

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def posterior_by_hand(data, mixture: Mixture, task: int, skipped: int | None = None) -> np.ndarray:
    joint = mixture.weights.copy()
    for at in range(data.offsets[task], data.offsets[task + 1]):
        if at != skipped:
            joint = joint * mixture.table[data.workers[at] * data.n_classes + data.given[at]]
    return joint / joint.sum()


# -------------------------------------------------------------------- scatter


def inside_by_lp(rows: np.ndarray, x: np.ndarray) -> bool:
    """x = Hᵀθ, θ ≥ 0 has a solution."""
    return linprog(np.zeros(len(rows)), A_eq=rows.T, b_eq=x, bounds=(0, None)).status == 0


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
def test_specialists_are_scattered(n_classes):
    found = scatter.check_scatter(np.eye(n_classes) * 0.4, np.random.default_rng(0))
    assert found.fraction_inside == 1
    assert found.farthest < 1e-7
    assert found.exact == (n_classes == 2)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 6])
def test_a_narrow_cone_is_not_scattered(n_classes):
    rng = np.random.default_rng(1)
    narrow = 1 + 0.1 * rng.random((50, n_classes))
    found = scatter.check_scatter(narrow, rng)
    assert found.fraction_inside == 0
    assert found.farthest > 0.1


def test_distance_to_cone_agrees_with_linear_programming():
    rng = np.random.default_rng(2)
    for n_classes in (3, 4, 5):
        rows = rng.dirichlet(np.full(n_classes, 0.3), size=30)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        directions = scatter.boundary_directions(n_classes, rng)
        assert np.allclose(directions.sum(axis=1), np.sqrt(n_classes - 1))  # on the boundary of C
        verdicts = [(scatter.distance_to_cone(rows, x) < 1e-6, inside_by_lp(rows, x)) for x in directions[:40]]
        assert all(ours == theirs for ours, theirs in verdicts)
        assert {ours for ours, _ in verdicts} == {True, False}


def test_nearest_rows_and_row_count():
    factor = np.array([[0.3, 0.0, 0.0], [0.1, 0.4, 0.0], [0.2, 0.2, 0.1], [0.0, 0.0, 0.0]])
    by_hand = [min(np.linalg.norm(row / row.sum() - np.eye(3)[k]) for row in factor if row.sum() > 0) for k in range(3)]
    np.testing.assert_allclose(scatter.nearest_to_axes(factor), by_hand, **EXACT)
    assert scatter.rows_for_scatter(3, 0.1) == pytest.approx(4 / 0.01 * np.log(6 / 0.05))
    assert scatter.rows_for_scatter(2, 0.1) is None


# ------------------------------------------------- labels judged by the others


def test_every_label_is_judged_by_the_others(world):
    data, mixture = world
    own = workers.own_posterior(data, mixture)
    found = workers.judge_labels(data, mixture, own)
    pattern = workers.error_distribution(data, mixture)
    np.testing.assert_allclose(pattern.sum(axis=1), 1, **EXACT)
    for task in range(data.n_rows):
        np.testing.assert_allclose(own[task], posterior_by_hand(data, mixture, task), **EXACT)
        for at in range(data.offsets[task], data.offsets[task + 1]):
            others, given = posterior_by_hand(data, mixture, task, skipped=at), data.given[at]
            np.testing.assert_allclose(found.right[at], others[given], **EXACT)
            wrong = sum(others[k] * pattern[k, given] for k in range(data.n_classes))
            np.testing.assert_allclose(found.wrong[at], wrong, **EXACT)
            assert found.decisive[at] == (others.argmax() != own[task].argmax())


def test_accuracy_is_the_top_of_its_likelihood(world):
    data, mixture = world
    judged = workers.judge_labels(data, mixture, workers.own_posterior(data, mixture))
    found = workers.worker_quality(data, mixture)
    grid = np.linspace(0.0005, 0.9995, 1_000)
    for m in range(data.n_workers):
        mine = data.workers == m
        right, wrong = judged.right[mine][:, None], judged.wrong[mine][:, None]
        value = np.log(grid * right + (1 - grid) * wrong).sum(axis=0) + np.log(grid * (1 - grid)) / 2
        assert abs(grid[value.argmax()] - found.accuracy[m]) < 1.1e-3
        assert 0 <= found.low[m] <= found.accuracy[m] <= found.high[m] <= 1


# ------------------------------------------------------- agreement and copies


def residual_products(data, residual) -> np.ndarray:
    x = np.zeros(data.n_rows)
    for task in range(data.n_rows):
        for a, b in combinations(range(data.offsets[task], data.offsets[task + 1]), 2):
            x[task] += residual[a] * residual[b]
    return x


def test_crowd_support_equals_the_loops(world):
    data, _ = world
    K = data.n_classes
    overall = np.bincount(data.given, minlength=K) / data.n_labels
    x = np.zeros(data.n_rows)
    for g in range(K):
        residual = []
        for worker, given in zip(data.workers, data.given, strict=True):
            mine = data.given[data.workers == worker]
            residual.append((given == g) - ((mine == g).sum() + overall[g]) / (len(mine) + 1))
        x += residual_products(data, residual)
    np.testing.assert_allclose(agreement.crowd_support(data), x.sum() / np.sqrt((x**2).sum()), rtol=1e-9)


def test_class_support_equals_the_loops(world):
    data, mixture = world
    K, own = data.n_classes, workers.own_posterior(data, mixture)
    task_of = data.task_of()
    for h in range(K):
        best = [max((k for k in range(K) if k != h), key=lambda k, n=n: own[n, k]) for n in range(data.n_rows)]
        near = np.array(best)[task_of]
        says = data.given == h
        residual = []
        for worker, k, said in zip(data.workers, near, says, strict=True):
            alike = (data.workers == worker) & (near == k)
            overall = says[near == k].mean()
            residual.append(said - (says[alike].sum() + overall) / (alike.sum() + 1))
        x = residual_products(data, residual)
        found = agreement._support_of_class(data, own, h, np.ones(K, bool))
        np.testing.assert_allclose(found, x.sum() / np.sqrt((x**2).sum()), rtol=1e-9)


def test_agreements_of_pairs_equal_the_loops(world):
    data, mixture = world
    pairs, K = count_label_pairs(data), data.n_classes
    same, expected = dependence.agreements(pairs), dependence.expected_agreement(pairs, mixture)
    said = {(n, m): g for n, m, g in zip(data.task_of(), data.workers, data.given, strict=True)}
    for at, (m, j) in enumerate(zip(*pairs.observed[:2], strict=True)):
        both = [n for n in range(data.n_rows) if (n, m) in said and (n, j) in said]
        assert pairs.observed[2][at] == len(both)
        assert same[at] == sum(said[n, m] == said[n, j] for n in both)
        by_hand = sum(
            mixture.weights[k] * mixture.table[m * K + g, k] * mixture.table[j * K + g, k]
            for k in range(K)
            for g in range(K)
        )
        np.testing.assert_allclose(expected[at], by_hand, **EXACT)


def test_the_middle_count_weighs_workers_by_their_labels():
    assert diagnostics.middle_count(np.array([1, 1, 1, 1, 100])) == 100
    assert diagnostics.middle_count(np.array([2, 2, 2, 2])) == 2
    assert diagnostics.middle_count(np.zeros(3, np.int64)) == 0
