"""MultiSPA against a reference of loops, and on exact moments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from latentfit.core.errors import DataError
from latentfit.core.mixture.parameters import unstack_confusions
from latentfit.labels.init.multispa import (
    factor_multispa,
    floored_mixture,
    has_full_rank,
    in_label_order,
    scaled_columns,
    successive_projection,
)
from latentfit.labels.moments import count_label_pairs
from tests.labels.exact_models import confusions, draw_labels, exact_pairs


def reference_projection(Z, n_classes):
    """Algorithm 1 on one annotator: Z has one column per (j, label of j)."""
    scaled = [[z / sum(column) for z in column] for column in Z.T.tolist() if sum(column) > 0]
    rest = [list(column) for column in scaled]
    picked = []
    for _ in range(n_classes):
        lengths = [sum(r * r for r in column) for column in rest]
        best = max(range(len(rest)), key=lambda q: lengths[q])
        picked.append(scaled[best])
        u = [r / lengths[best] ** 0.5 for r in rest[best]]
        for q, column in enumerate(rest):
            along = sum(a * b for a, b in zip(u, column, strict=True))
            rest[q] = [a - along * b for a, b in zip(column, u, strict=True)]
    return np.array(picked).T


def reference_order(A):
    """The permutation of columns with the largest trace, by trying all."""
    classes = range(A.shape[1])
    best = max(itertools.permutations(classes), key=lambda order: sum(A[k, order[k]] for k in classes))
    return A[:, list(best)]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_projection_of_multispa_equals_the_literal_reference(n_classes):
    rng = np.random.default_rng(n_classes)
    A, weights = confusions(rng, 7, n_classes), rng.dirichlet(np.full(n_classes, 5.0))
    pairs = count_label_pairs(draw_labels(rng, A, weights, 600, observed=0.7)[0])
    left, right, _ = pairs.observed
    R = pairs.frequencies()
    vertices, found = successive_projection(*scaled_columns(R, left, right, has_full_rank(R)), 7)
    assert found.all()
    for m in range(7):
        blocks = []
        for j in range(7):
            for p in range(len(R)):
                if {left[p], right[p]} == {m, j} and m != j and np.linalg.matrix_rank(R[p]) == n_classes:
                    blocks.append(R[p] if left[p] == m else R[p].T)
        expected = reference_projection(np.hstack(blocks), n_classes)
        np.testing.assert_allclose(vertices[m], expected, atol=1e-10)
        np.testing.assert_allclose(in_label_order(vertices[[m]])[0], reference_order(expected), atol=1e-10)


def test_exact_moments_with_a_specialist_give_exact_parameters():
    rng = np.random.default_rng(0)
    weights = np.array([0.5, 0.3, 0.2])
    A = confusions(rng, 6, 3)
    A[0] = A[3] = np.eye(3)  # two annotators know every class: separability for all, also for each other
    pairs = exact_pairs(A, weights, missing=((1, 2), (4, 5)))
    left, right, _ = pairs.observed
    R = pairs.frequencies()
    vertices, found = successive_projection(*scaled_columns(R, left, right, has_full_rank(R)), 6)
    assert found.all()
    np.testing.assert_allclose(in_label_order(vertices), A, atol=1e-8)
    fitted = factor_multispa(pairs, 3)
    np.testing.assert_allclose(fitted.weights, weights, atol=1e-8)
    ordinary = [1, 2, 4, 5]
    np.testing.assert_allclose(unstack_confusions(fitted).transpose(0, 2, 1)[ordinary], A[ordinary], atol=1e-8)


def test_annotators_without_information_stay_neutral():
    rng = np.random.default_rng(1)
    A, weights = confusions(rng, 5, 3), np.full(3, 1 / 3)
    labels, _ = draw_labels(rng, A, weights, 300)
    silent = labels.workers == 4
    constant = labels.workers == 3
    labels.given[constant] = 2  # this one always says the same
    fitted = factor_multispa(count_label_pairs(labels.subset(~silent)), 3)
    tables = unstack_confusions(fitted)
    assert np.isfinite(tables).all()
    np.testing.assert_allclose(tables.sum(axis=2), 1, atol=1e-12)
    for m in (3, 4):
        np.testing.assert_allclose(tables[m], tables[m][[0, 0, 0]], atol=1e-12)


def test_small_blocks_fall_back_on_all_pairs():
    rng = np.random.default_rng(2)
    A, weights = confusions(rng, 30, 6, accuracy=0.9), np.full(6, 1 / 6)
    labels, _ = draw_labels(rng, A, weights, 120, observed=0.15)  # no block can have rank six
    pairs = count_label_pairs(labels)
    assert not has_full_rank(pairs.frequencies()).any()
    tables = unstack_confusions(factor_multispa(pairs, 6))
    assert np.einsum("mkk->mk", tables).mean() > 0.5


def test_multispa_answers_when_workers_share_no_task():
    rng = np.random.default_rng(3)
    labels, _ = draw_labels(rng, confusions(rng, 3, 2), np.array([0.5, 0.5]), 30)
    alone = labels.subset(labels.workers == labels.task_of() % 3)
    fitted = factor_multispa(count_label_pairs(alone), 2)
    np.testing.assert_allclose(fitted.weights, 0.5)


def test_multispa_needs_as_many_classes_as_labels():
    rng = np.random.default_rng(4)
    pairs = exact_pairs(confusions(rng, 3, 3), np.full(3, 1 / 3))
    with pytest.raises(DataError, match="n_classes must equal the number of labels, 3, got 4"):
        factor_multispa(pairs, 4)


def test_initial_probabilities_have_a_floor():
    mixture = floored_mixture(np.array([1.0, 0.0]), np.stack([np.eye(2)]))
    assert mixture.weights.min() > 9e-4
    assert mixture.table.min() > 9e-4
    np.testing.assert_allclose(mixture.table.sum(axis=0), 1)
