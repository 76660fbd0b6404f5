"""The steps of CNMF-SPA against loops and exact marginals."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.mixture import spa
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.mixture.spa import (
    balanced_split,
    denoised,
    factor_spa,
    naive_split,
    pair_log_likelihood,
)
from latentfit.core.mixture.spa import successive_projection as project_successively
from latentfit.core.table.table import Column, Table

GAP = 255


def table(weighted=True):
    """Six rows, columns of 2, 3 and 2 categories, two missing values."""
    codes = np.array([[0, 2, 1], [1, 0, 0], [0, GAP, 1], [1, 1, GAP], [0, 2, 0], [1, 0, 1]], np.uint8)
    columns = tuple(Column(name, np.arange(size)) for name, size in (("a", 2), ("b", 3), ("c", 2)))
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0]) if weighted else None
    return Table(codes, columns, weight)


def test_projections_take_the_longest_then_what_is_new():
    points = np.array([[3.0, 0.0, 2.9, 0.1], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0]])
    assert project_successively(points, 3).tolist() == [0, 1, 2]
    assert project_successively(points, 4).tolist() == [0, 1, 2]  # nothing is left for a fourth
    assert project_successively(np.zeros((2, 3)), 2).tolist() == []
    assert project_successively(np.array([[1.0, 1.0]]), 2).tolist() == [0]


def exact_frequencies(seed=0, F=2):
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 3, 6, 9, 12], np.int32)
    tables = np.concatenate([rng.dirichlet(np.ones(3), F).T for _ in range(4)])
    tables[6:9] = np.array([[0.6, 0.0], [0.0, 0.7], [0.4, 0.3]])  # categories of one class only
    weights = np.array([0.4, 0.6])
    return (tables * weights) @ tables.T, offsets, tables, weights


@pytest.mark.parametrize("denoise", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_exact_pairs_with_pure_categories_give_the_classes(denoise, exact):
    frequencies, offsets, tables, weights = exact_frequencies()
    found = factor_spa(frequencies, offsets, 2, naive_split(4, 2), denoise=denoise, exact=exact)
    order = [0, 1] if found.weights[0] < 0.5 else [1, 0]
    np.testing.assert_allclose(found.table[:, order], tables, atol=1e-8)
    np.testing.assert_allclose(found.weights[order], weights, atol=1e-8)
    more = factor_spa(frequencies, offsets, 5, naive_split(4, 2), denoise=denoise, exact=exact)
    assert more.n_classes == 2  # no more independent columns


def test_denoised_columns_are_evened_out_in_the_leading_directions():
    frequencies = exact_frequencies()[0]
    virtual = frequencies[:6, 6:]
    mass = virtual.sum(axis=0)
    low = denoised(virtual / mass, mass, 2)
    assert low.shape == (2, 6)
    anchors = low[:, [0, 1]]
    np.testing.assert_allclose(anchors.T @ anchors, np.eye(2), atol=1e-8)  # pure columns become orthonormal
    assert denoised(np.zeros((2, 0)), np.zeros(0), 2).shape == (2, 0)
    assert denoised(virtual / mass, mass, 5).shape == (2, 6)


def test_splits_hold_both_halves():
    assert naive_split(5, 3).tolist() == [True, True, True, False, False]
    rng = np.random.default_rng(0)
    for sizes in ([2, 2], [2, 3, 4], [9, 1, 1, 1], [2] * 7):
        for _ in range(20):
            split = balanced_split(np.array(sizes, np.int32), rng)
            left = np.array(sizes)[split].sum()
            assert split.any()
            assert not split.all()
            if max(sizes) <= sum(sizes) / 2:
                assert abs(2 * left - sum(sizes)) <= 2 * max(sizes)
    assert balanced_split(np.array([4], np.int32), rng).tolist() == [False]


def test_likelihood_of_pairs_counts_each_pair_of_columns_once():
    offsets = np.array([0, 2, 4], np.int32)
    table_ = np.array([[0.2, 0.9], [0.8, 0.1], [0.5, 0.3], [0.5, 0.7]])
    weights = np.array([0.25, 0.75])
    counts = np.arange(16.0).reshape(4, 4)
    want = 0.0
    for i in (0, 1):
        for j in (2, 3):
            want += counts[i, j] * np.log(sum(weights[f] * table_[i, f] * table_[j, f] for f in range(2)))
    assert pair_log_likelihood(counts, Mixture(weights, table_, offsets)) == pytest.approx(want)


def test_weights_are_nonnegative_and_never_all_zero():
    G = np.array([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(spa._nonnegative_weights(G, np.array([4.0, 7.0])), [1.0, 2.0])
    np.testing.assert_allclose(spa._nonnegative_weights(G, np.array([4.0, -5.0])), [2.0, 0.0])
    assert spa._nonnegative_weights(G, np.array([-1.0, -1.0])).tolist() == [1.0, 1.0]
