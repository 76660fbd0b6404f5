"""The coupled moment fit against a reference of loops: moments, objective, ADMM steps, exact moments."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.core.mixture.parameters import unstack_confusions
from latentfit.core.simplex import project_to_simplex
from latentfit.labels.init import tensor
from latentfit.labels.init.tensor import (
    ADMM_STEPS,
    annotator_moments,
    confusion_quadratic,
    factor_tensor,
    fit,
    objective,
    quadratic,
    random_init,
    simplex_step,
    weight_quadratic,
)
from tests.labels.exact_models import confusions, draw_labels, exact_labels, tenths


def reference_objective(moments, A, weights):
    """Half the sum of squared misfits, cell by cell."""
    total, classes = 0.0, range(len(weights))
    for m in range(len(A)):
        for k in classes:
            total += (moments.mean[m, k] - sum(A[m, k, f] * weights[f] for f in classes)) ** 2
    for p, (m, j) in enumerate(zip(moments.left, moments.right, strict=True)):
        for k in classes:
            for l in classes:
                model = sum(weights[f] * A[m, k, f] * A[j, l, f] for f in classes)
                total += (moments.R[p, k, l] - model) ** 2
    for t, (m, j, i) in enumerate(moments.triples):
        for k in classes:
            for l in classes:
                for h in classes:
                    model = sum(weights[f] * A[m, k, f] * A[j, l, f] * A[i, h, f] for f in classes)
                    total += (moments.Psi[t, k, l, h] - model) ** 2
    return total / 2


def reference_triples(labels, n_classes):
    """All triples by loops over tasks: {(m, j, l): counts}."""
    counts = {}
    for task in range(labels.n_rows):
        cells = range(labels.offsets[task], labels.offsets[task + 1])
        for a in cells:
            for b in cells:
                for c in cells:
                    if a < b < c:
                        table = counts.setdefault(tuple(labels.workers[[a, b, c]].tolist()), np.zeros((n_classes,) * 3))
                        table[labels.given[a], labels.given[b], labels.given[c]] += 1
    return counts


def reference_projection(values):
    """The simplex point max(v − s, 0) with the shift s found by bisection."""
    low, high = min(values) - 1, max(values)
    for _ in range(200):
        shift = (low + high) / 2
        if sum(max(v - shift, 0) for v in values) > 1:
            low = shift
        else:
            high = shift
    return [max(v - low, 0) for v in values]


def reference_admm(G, B, X, dual):
    """The inner loop of one subproblem, columns of Γ in the rows of X."""
    rho = sum(G[f, f] for f in range(len(G))) / len(G)
    start, point = X.copy(), X.copy()
    for _ in range(ADMM_STEPS):
        free = np.linalg.solve(G + rho * np.eye(len(G)), B + rho * (point + dual))
        point = np.array([reference_projection((free - dual)[f].tolist()) for f in range(len(G))])
        dual = dual + point - free

    def cost(Y):
        return 0.5 * np.trace(Y.T @ G @ Y) - np.trace(Y.T @ B)

    return (point if cost(point) <= cost(start) else start), dual


def sampled(seed, n_classes=3, observed=0.7):
    rng = np.random.default_rng(seed)
    A, weights = confusions(rng, 6, n_classes), rng.dirichlet(np.full(n_classes, 5.0))
    labels, _ = draw_labels(rng, A, weights, 80, observed)
    return labels, annotator_moments(labels, rng), confusions(rng, 6, n_classes, 0.3), weights, rng


def test_counted_triples_equal_the_literal_reference():
    labels, moments, *_ = sampled(0)
    expected = reference_triples(labels, 3)
    assert [tuple(who) for who in moments.triples.tolist()] == sorted(expected)
    for who, Psi in zip(moments.triples.tolist(), moments.Psi, strict=True):
        counts = expected[tuple(who)]
        np.testing.assert_allclose(Psi, counts / counts.sum(), atol=1e-12)


def test_objective_and_quadratics_equal_the_literal_reference():
    _, moments, A, weights, rng = sampled(1)
    value = reference_objective(moments, A, weights)
    assert objective(moments, A, weights) == pytest.approx(value, rel=1e-10)
    inner = A.transpose(0, 2, 1) @ A
    for m, side in enumerate(moments.sides()):
        G, B = confusion_quadratic(moments.mean[m], side, A, inner, weights)
        moved = A.copy()
        moved[m] = rng.random((3, 3))
        gain = quadratic(G, B, moved[m].T) - quadratic(G, B, A[m].T)
        assert gain == pytest.approx(reference_objective(moments, moved, weights) - value, rel=1e-10)
    H, h = weight_quadratic(moments, A)
    other = rng.random(3)
    gain = quadratic(H, h, other) - quadratic(H, h, weights)
    assert gain == pytest.approx(reference_objective(moments, A, other) - value, rel=1e-10)


def test_admm_steps_equal_the_literal_reference():
    _, moments, A, weights, _ = sampled(2)
    inner = A.transpose(0, 2, 1) @ A
    for m, side in enumerate(moments.sides()):
        G, B = confusion_quadratic(moments.mean[m], side, A, inner, weights)
        dual = np.full((3, 3), 0.01 * m)
        expected = reference_admm(G, B, A[m].T, dual)
        for got, want in zip(simplex_step(G, B, A[m].T, dual), expected, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-10)


def test_the_projection_of_tensor_equals_the_literal_reference():
    rng = np.random.default_rng(3)
    X = rng.normal(scale=2, size=(20, 4))
    np.testing.assert_allclose(project_to_simplex(X), [reference_projection(x) for x in X.tolist()], atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_objective_never_rises_and_factors_stay_on_the_simplex(seed):
    _, moments, _, _, rng = sampled(seed, n_classes=2 + seed % 3, observed=0.4)
    start = random_init(6, 2 + seed % 3, rng)
    A, weights, path = fit(moments, *start, max_iter=30, tol=0.0)
    assert (np.diff(path) <= 1e-12 * path[0]).all()
    assert path[-1] == pytest.approx(reference_objective(moments, A, weights), rel=1e-10)
    assert min(A.min(), weights.min()) >= 0
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-12)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(("weights", "rounds"), [([0.6, 0.4], 600), ([0.5, 0.3, 0.2], 1000)])
def test_exact_moments_give_the_parameters(weights, rounds):
    """From a random start as near as the rounds allow; from the truth not a step away."""
    rng = np.random.default_rng(4)
    A = tenths(rng, 4, len(weights))
    labels = exact_labels(A, np.array(weights))
    fitted = factor_tensor(labels, len(weights), rng=rng, max_iter=rounds, tol=0.0)
    np.testing.assert_allclose(fitted.weights, weights, atol=1e-3)
    np.testing.assert_allclose(unstack_confusions(fitted).transpose(0, 2, 1), A, atol=1e-3)
    stayed, kept, _ = fit(annotator_moments(labels, rng), A, np.array(weights), max_iter=20, tol=-1.0)
    np.testing.assert_allclose(stayed, A, atol=1e-10)
    np.testing.assert_allclose(kept, weights, atol=1e-10)


def test_caps_keep_the_triples_with_most_co_labels(monkeypatch):
    labels, *_ = sampled(5)
    shared = {who: counts.sum() for who, counts in reference_triples(labels, 3).items()}
    monkeypatch.setattr(tensor, "MAX_TRIPLE_CELLS", 5 * 27)
    few = annotator_moments(labels, np.random.default_rng(0))
    kept = [shared[tuple(who)] for who in few.triples.tolist()]
    assert sorted(kept) == sorted(shared.values())[-5:]


def test_very_long_tasks_lend_a_part_of_their_labels(monkeypatch):
    labels, *_ = sampled(6, observed=1.0)
    monkeypatch.setattr(tensor, "MAX_LOOKS", 80 * 4)
    thin = tensor.thinned(labels, np.random.default_rng(0))
    assert (np.diff(thin.offsets) == 4).all()
    moments = annotator_moments(labels, np.random.default_rng(0))
    np.testing.assert_allclose(moments.Psi.sum(axis=(1, 2, 3)), 1)


@pytest.mark.parametrize("observed", [0.0, 0.05, 0.3])
def test_tensor_answers_on_few_labels(observed):
    rng = np.random.default_rng(7)
    labels, _ = draw_labels(rng, confusions(rng, 5, 3), np.array([0.9, 0.09, 0.01]), 30, observed)
    silent = labels.subset(labels.workers != 4)
    fitted = factor_tensor(silent, 3, rng=rng, max_iter=20)
    tables = unstack_confusions(fitted)
    np.testing.assert_allclose(tables.sum(axis=2), 1, atol=1e-12)
    np.testing.assert_allclose(tables[4], tables[4][[0, 0, 0]], atol=1e-12)


def test_tensor_refuses_what_it_cannot_fit_with_a_clear_message():
    rng = np.random.default_rng(8)
    labels, _ = draw_labels(rng, confusions(rng, 2, 2), np.array([0.5, 0.5]), 20)
    with pytest.raises(NotIdentifiableError, match="2 workers have no third moments"):
        factor_tensor(labels, 2, rng=rng)
    with pytest.raises(DataError, match="n_classes must equal the number of labels, 2, got 3"):
        factor_tensor(labels, 3, rng=rng)
