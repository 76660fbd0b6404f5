"""Karger–Oh–Shah against a literal reference: the singular vector of a dense matrix."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.labels.data import Labels, from_wide
from latentfit.labels.init.ghosh import threshold_ratings
from latentfit.labels.init.kos import by_singular_vector, combine_thresholds, factor_kos
from tests.labels.label_matrices import coded


def crowd(
    rng: np.random.Generator, n_tasks: int, n_workers: int, n_classes: int, share: float
) -> tuple[Labels, np.ndarray]:
    """A one-coin crowd with gaps: labels and truth."""
    truth = rng.integers(n_classes, size=n_tasks)
    skill = rng.uniform(0.55, 0.95, n_workers)
    right = rng.random((n_tasks, n_workers)) < skill
    given = np.where(right, truth[:, None], rng.integers(n_classes, size=(n_tasks, n_workers))).astype(float)
    given[rng.random(given.shape) >= share] = np.nan
    return coded(given, n_classes), truth


def singular_reference(A: np.ndarray) -> np.ndarray:
    B = np.array(A, float)
    for j in range(A.shape[1]):
        B[:, j] -= sum(A[:, j]) / A.shape[0]
    left, value, right = np.linalg.svd(B)
    u, v = left[:, 0] * value[0], right[0]
    return u if sum(x * x for x in v if x >= 0) >= 0.5 else -u


def dense(labels: Labels, level: int) -> np.ndarray:
    A = np.zeros((labels.n_rows, labels.n_workers))
    for task, worker, given in zip(labels.task_of(), labels.workers, labels.given, strict=True):
        A[task, worker] = 1 if given > level else -1
    return A


@pytest.mark.parametrize("seed", range(4))
def test_singular_vector_is_the_papers(seed: int) -> None:
    labels, _ = crowd(np.random.default_rng(seed), 30, 8, 3, 0.7)
    for level in range(2):
        score, _ = by_singular_vector(threshold_ratings(labels, level))
        np.testing.assert_allclose(score, singular_reference(dense(labels, level)), atol=1e-10)


def test_the_first_threshold_not_passed_is_the_answer() -> None:
    above = np.random.default_rng(0).random((200, 4))
    posterior = combine_thresholds(above)
    for row, proportions in zip(posterior, above, strict=True):
        answer = next((level for level, share in enumerate(proportions) if share < 0.5), 4)
        assert row.argmax() == answer
        assert row.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(combine_thresholds(np.array([[0.3], [0.8]])), [[0.7, 0.3], [0.2, 0.8]])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_kos_recovers_a_good_crowd(n_classes: int) -> None:
    rng = np.random.default_rng(3)
    labels, truth = crowd(rng, 300, 30, n_classes, 0.5)
    posterior = factor_kos(labels)
    np.testing.assert_allclose(posterior.sum(axis=1), 1, atol=1e-12)
    assert (posterior.argmax(axis=1) != truth).mean() < 0.05


def test_kos_answers_on_sparse_and_empty_labels() -> None:
    nan = np.nan
    for given in ([[0, nan], [nan, nan], [nan, 2]], [[nan, nan]], [[0, 0], [0, 0]]):
        labels = coded(np.array(given, float), 3)
        posterior = factor_kos(labels)
        np.testing.assert_allclose(posterior.sum(axis=1), 1)
        np.testing.assert_allclose(posterior[np.isnan(np.array(given, float)).all(axis=1)], 1 / 3)
    one = from_wide(np.zeros((3, 2)))
    np.testing.assert_array_equal(factor_kos(one), np.ones((3, 1)))
