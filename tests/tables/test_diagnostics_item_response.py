"""Item-response models against loops, and on both sides of the limit: classes and traits."""

from __future__ import annotations

from math import exp, log, pi, sqrt

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime, minimize

from latentfit import LatentClass
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table
from latentfit.tables.diagnostics import item_response
from latentfit.tables.diagnostics.item_response import fit_trait, initial_slopes, ordered_columns, quadrature


def offsets_of(*sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)


def drawn(n=150, sizes=(2, 3, 2, 4), seed=0):
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=n)
    codes = np.stack([np.clip(np.round(size / 2 + trait + rng.normal(size=n)), 0, size - 1) for size in sizes], axis=1)
    codes[rng.random(codes.shape) < 0.1] = 255
    return Table(codes.astype(np.uint8), tuple(Column(f"c{n}", np.arange(size)) for n, size in enumerate(sizes)))


def two_classes_of(sizes, seed=1):
    rng = np.random.default_rng(seed)
    return Mixture(
        np.array([0.5, 0.5]), np.concatenate([rng.dirichlet(np.ones(s), 2).T for s in sizes]), offsets_of(*sizes)
    )


def objective_by_loops(table, slopes, n_dimensions):
    """log ∫ Π P(cell | θ) φ(θ) dθ on the same grid, row by row, less the prior of the slopes."""
    settings = item_response.SETTINGS
    line = np.linspace(-settings.reach, settings.reach, settings.nodes[n_dimensions - 1])
    grid = [(x,) for x in line] if n_dimensions == 1 else [(x, y) for x in line for y in line]
    density = [exp(-0.5 * sum(x * x for x in point)) / sqrt(2 * pi) ** n_dimensions for point in grid]
    kept = [(point, d) for point, d in zip(grid, density, strict=True) if d > 1e-6 * max(density)]
    total = sum(d for _, d in kept)
    value = 0.0
    offsets = table.column_offsets
    for row in table.codes:
        likelihood = 0.0
        for point, d in kept:
            term = d / total
            for n, code in enumerate(row):
                if code == 255:
                    continue
                logits = [
                    slopes[c, 0] + sum(a * x for a, x in zip(slopes[c, 1:], point, strict=True))
                    for c in range(offsets[n], offsets[n + 1])
                ]
                term *= exp(logits[code]) / sum(exp(one) for one in logits)
            likelihood += term
        value += log(likelihood)
    return value, value - 0.5 * (slopes[:, 1:] ** 2).sum() / settings.slope_sd**2


@pytest.mark.parametrize("n_dimensions", [1, 2])
def test_the_likelihood_is_that_of_a_loop_over_rows_and_nodes(n_dimensions):
    table = drawn()
    found = fit_trait(table, two_classes_of((2, 3, 2, 4)), n_dimensions)
    value, _ = objective_by_loops(table, found.slopes, n_dimensions)
    assert found.log_likelihood == pytest.approx(value, rel=1e-9)


def test_the_gradient_is_that_of_finite_differences(monkeypatch):
    table, seen = drawn(40), []

    def look(value, start, **options):
        rng = np.random.default_rng(0)
        at = start + 0.3 * rng.normal(size=start.shape)
        seen.append((value(at)[1], approx_fprime(at, lambda x: value(x)[0], 1e-6)))
        return minimize(value, start, **options)

    monkeypatch.setattr(item_response, "minimize", look)
    fit_trait(table, two_classes_of((2, 3, 2, 4)), 1)
    np.testing.assert_allclose(*seen[0], atol=1e-3)


def test_a_maximum_is_reached():
    table = drawn()
    found = fit_trait(table, two_classes_of((2, 3, 2, 4)), 1)
    _, best = objective_by_loops(table, found.slopes, 1)
    rng = np.random.default_rng(0)
    for _ in range(5):
        moved = item_response.centred(found.slopes + 0.05 * rng.normal(size=found.slopes.shape), table.column_offsets)
        assert objective_by_loops(table, moved, 1)[1] < best + 0.01


def test_parameters_are_counted():
    table, like = drawn(), two_classes_of((2, 3, 2, 4))
    assert fit_trait(table, like, 1).n_parameters == 2 * 7
    assert fit_trait(table, like, 2).n_parameters == 3 * 7 - 1  # less one for the rotation


def test_nodes_are_those_of_a_standard_normal_trait():
    for n_dimensions in (1, 2):
        nodes, weights = quadrature(n_dimensions)
        assert weights.sum() == pytest.approx(1)
        np.testing.assert_allclose(weights @ nodes, 0, atol=1e-12)
        np.testing.assert_allclose((weights[:, None] * nodes).T @ nodes, np.eye(n_dimensions), atol=0.02)


def test_initial_slopes_spread_the_classes():
    m = Mixture(np.array([0.5, 0.5]), np.array([[0.8, 0.2], [0.2, 0.8]] * 3), offsets_of(2, 2, 2))
    slopes = initial_slopes(m, 1)
    assert np.abs(slopes[:, 0]).max() < 1e-12
    assert len({round(float(abs(slope)), 9) for slope in slopes[:, 1]}) == 1
    assert abs(slopes[0, 1]) > 0.1


def test_ordered_columns_are_counted():
    ordered = Mixture(np.full(3, 1 / 3), np.array([[0.9, 0.5, 0.1], [0.1, 0.5, 0.9]] * 4), offsets_of(*[2] * 4))
    assert ordered_columns(ordered) == 1
    crossed = ordered.table.copy()
    crossed[6:] = [[0.5, 0.9, 0.5], [0.5, 0.1, 0.5]]
    assert ordered_columns(Mixture(ordered.weights, crossed, ordered.column_offsets)) == 0.75


def trait_check(rows, n_classes):
    report = LatentClass(n_classes).fit(pd.DataFrame(rows).add_prefix("q")).report_
    return next(check for check in report.checks if check.name == "continuous_trait")


@pytest.mark.parametrize("seed", range(3))
def test_a_trait_is_told_from_classes(seed):
    rng = np.random.default_rng(seed)
    trait = rng.normal(size=(800, 1))
    found = trait_check(rng.random((800, 8)) < 1 / (1 + np.exp(-1.5 * trait)), 3)
    assert not found.passed
    assert found.value < found.limit == -10
    assert "continuous trait" in found.reason
    kind = rng.integers(2, size=(800, 1))
    found = trait_check(rng.random((800, 8)) < np.where(kind, 0.8, 0.2), 2)
    assert found.passed
    assert found.value > 0
