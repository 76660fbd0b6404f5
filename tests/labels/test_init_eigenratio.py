"""EigenRatio against a literal reference: agreement matrices pair by pair, dense eigenvectors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core.errors import DataError
from latentfit.labels.data import from_wide
from latentfit.labels.init.eigenratio import _ratio, factor_eigenratio, rater_weights
from latentfit.labels.init.ghosh import threshold_ratings
from tests.labels.label_matrices import coded, ratings


def reference(given: np.ndarray) -> np.ndarray:
    """Weights of the workers of one connected crowd."""
    n_tasks, n_workers = given.shape
    R, G = np.zeros((n_workers, n_workers)), np.zeros((n_workers, n_workers))
    for a in range(n_workers):
        for b in range(n_workers):
            both = [i for i in range(n_tasks) if not np.isnan(given[i, a]) and not np.isnan(given[i, b])]
            if both:
                G[a, b] = 1
                R[a, b] = sum(1 if given[i, a] == given[i, b] else -1 for i in both) / len(both)
    ratio = np.linalg.eigh(R)[1][:, -1] / np.linalg.eigh(G)[1][:, -1]
    with_votes = 0.0
    for i in range(n_tasks):
        seen = [j for j in range(n_workers) if not np.isnan(given[i, j])]
        votes = sum(2 * given[i, j] - 1 for j in seen)
        with_votes += votes * sum((2 * given[i, j] - 1) * ratio[j] for j in seen)
    return ratio if with_votes >= 0 else -ratio


def weights_of(given: np.ndarray) -> np.ndarray:
    return rater_weights(threshold_ratings(coded(given, 2), 0))


@pytest.mark.parametrize("seed", range(5))
def test_eigenratio_equals_the_literal_ratio(seed: int) -> None:
    given, _ = ratings(seed)
    ours, theirs = weights_of(given), reference(given)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-10)
    np.testing.assert_allclose(ours, theirs, atol=1e-10)


def test_components_that_share_no_task_are_solved_separately() -> None:
    left, _ = ratings(1)
    right, _ = ratings(2, n_tasks=30, n_workers=5)
    both = np.full((71, 16), np.nan)
    both[:40, :9], both[40:70, 9:14], both[70, 14:] = left, right, [1, 0]
    np.testing.assert_allclose(weights_of(both)[:9], reference(left), atol=1e-10)
    np.testing.assert_allclose(weights_of(both)[9:14], reference(right), atol=1e-10)
    np.testing.assert_array_equal(weights_of(both)[14:], [1, 1])
    np.testing.assert_array_equal(factor_eigenratio(from_wide(both))[70], [0.5, 0.5])


def test_exact_agreements_give_exact_reliabilities() -> None:
    """With E[R] off and on the diagonal of rank one on a full graph the ratio is 2 · reliability − 1."""
    w = np.array([0.9, 0.5, 0.2, -0.3])
    ratio = _ratio(sp.csr_array(np.outer(w, w)), sp.csr_array(np.ones((4, 4))), np.ones(4))
    np.testing.assert_allclose(ratio / ratio[0], w / w[0], atol=1e-10)


def test_eigenratio_recovers_a_good_crowd() -> None:
    given, truth = ratings(2, 400, 25)
    assert (factor_eigenratio(from_wide(given)).argmax(axis=1) != truth).mean() < 0.05


def test_eigenratio_refuses_more_than_two_classes() -> None:
    with pytest.raises(DataError, match="EigenRatio is defined for two classes, these labels have 3"):
        factor_eigenratio(from_wide(np.array([[0, 1], [2, 1]])))


def test_eigenratio_answers_on_sparse_and_empty_labels() -> None:
    np.testing.assert_array_equal(factor_eigenratio(from_wide(np.zeros((3, 2)))), np.ones((3, 1)))
    empty = coded(np.full((2, 2), np.nan), 2)
    np.testing.assert_array_equal(factor_eigenratio(empty), np.full((2, 2), 0.5))
    lonely = from_wide(np.array([[1, np.nan, np.nan], [np.nan, 0, np.nan]]))
    np.testing.assert_array_equal(factor_eigenratio(lonely), [[0, 1], [1, 0]])
