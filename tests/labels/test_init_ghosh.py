"""GhoshSVD against the singular vector of a dense matrix, cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

import latentfit.labels.init.ghosh as ghosh
from latentfit.core.errors import DataError
from latentfit.labels.data import from_wide
from latentfit.labels.init.ghosh import factor_ghosh
from tests.labels.label_matrices import coded, ratings


def reference(given: np.ndarray) -> np.ndarray:
    n_tasks, n_workers = given.shape
    U = np.zeros(given.shape)
    for i in range(n_tasks):
        for j in range(n_workers):
            if not np.isnan(given[i, j]):
                U[i, j] = 2 * given[i, j] - 1
    left, value, right = np.linalg.svd(U)
    x = left[:, 0] * value[0]
    if sum(x[i] * U[i, j] for i in range(n_tasks) for j in range(n_workers)) < 0:
        x = -x
    posterior = np.full((n_tasks, 2), 0.5)
    for i in range(n_tasks):
        weight = sum(abs(U[i, j] * right[0, j]) for j in range(n_workers))
        if weight > 0:
            posterior[i] = [(1 - x[i] / weight) / 2, (1 + x[i] / weight) / 2]
    return posterior


@pytest.mark.parametrize("seed", range(5))
def test_ghosh_equals_the_dense_singular_vector(seed: int) -> None:
    given, _ = ratings(seed)
    given[3] = np.nan
    posterior = factor_ghosh(from_wide(given))
    np.testing.assert_allclose(posterior, reference(given), atol=1e-10)
    np.testing.assert_array_equal(posterior[3], [0.5, 0.5])


def test_lanczos_and_dense_spectra_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = from_wide(ratings(1)[0])
    dense = factor_ghosh(labels)
    monkeypatch.setattr(ghosh, "DENSE_SPECTRUM", 0)
    np.testing.assert_allclose(factor_ghosh(labels), dense, atol=1e-10)


def test_ghosh_recovers_a_good_crowd() -> None:
    given, truth = ratings(2, 400, 25)
    assert (factor_ghosh(from_wide(given)).argmax(axis=1) != truth).mean() < 0.05


def test_ghosh_refuses_more_than_two_classes() -> None:
    with pytest.raises(DataError, match="GhoshSVD is defined for two classes, these labels have 3"):
        factor_ghosh(from_wide(np.array([[0, 1], [2, 1]])))


def test_ghosh_answers_on_sparse_and_empty_labels() -> None:
    np.testing.assert_array_equal(factor_ghosh(from_wide(np.zeros((3, 2)))), np.ones((3, 1)))
    empty = coded(np.full((2, 2), np.nan), 2)
    np.testing.assert_array_equal(factor_ghosh(empty), np.full((2, 2), 0.5))
    lonely = from_wide(np.array([[1, np.nan], [np.nan, 0]]))
    np.testing.assert_allclose(factor_ghosh(lonely).sum(axis=1), 1)


def test_what_outweighs_nothing_decides_nothing():
    """A score that is rounding beside the weights behind it is half and half, as no weight at all is."""
    found = ghosh.soft_binary(np.array([3.0, -1.0, 1e-14, 0.0, -2.0]), np.array([4.0, 4.0, 100.0, 0.0, 2.0]))
    np.testing.assert_allclose(found[:, 1], [7 / 8, 3 / 8, 0.5, 0.5, 0.0])
    assert found[2, 1] == 0.5
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
