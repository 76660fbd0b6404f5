"""The spectral method against a reference of loops (moments), and on exact third moments."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.core.mixture.parameters import unstack_confusions
from latentfit.labels.init.spectral import (
    factor_spectral,
    group_labels,
    robust_eigenpair,
    second_moment,
    whiten,
    whitened_moments,
)
from tests.labels.exact_models import confusions, draw_labels, exact_labels, tenths


def reference_group_labels(labels, group, n_classes):
    """Z_gj = 1/|G_g| Σ_{i ∈ G_g} z_ij."""
    Z = np.zeros((3, labels.n_rows, n_classes))
    for j in range(labels.n_rows):
        for at in range(labels.offsets[j], labels.offsets[j + 1]):
            g = group[labels.workers[at]]
            Z[g, j, labels.given[at]] += 1 / sum(group == g)
    return Z


def reference_moments(Za, Zb, Zc):
    """M₂ and the full M₃ of Algorithm 1, step 2, by loops over tasks."""
    n, size = Za.shape

    def mean_outer(X, Y):
        total = np.zeros((size, size))
        for j in range(n):
            for k in range(size):
                for l in range(size):
                    total[k, l] += X[j, k] * Y[j, l] / n
        return total

    to_c_from_a = mean_outer(Zc, Zb) @ np.linalg.inv(mean_outer(Za, Zb))
    to_c_from_b = mean_outer(Zc, Za) @ np.linalg.inv(mean_outer(Zb, Za))
    M2, M3 = np.zeros((size, size)), np.zeros((size, size, size))
    for j in range(n):
        a, b = to_c_from_a @ Za[j], to_c_from_b @ Zb[j]
        for k in range(size):
            for l in range(size):
                M2[k, l] += a[k] * b[l] / n
                for h in range(size):
                    M3[k, l, h] += a[k] * b[l] * Zc[j, h] / n
    return M2, M3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_spectral_moments_equal_the_literal_reference(n_classes):
    rng = np.random.default_rng(n_classes)
    A, weights = confusions(rng, 9, n_classes), rng.dirichlet(np.full(n_classes, 5.0))
    labels, _ = draw_labels(rng, A, weights, 300, observed=0.7)
    group = np.arange(9) % 3
    Z = group_labels(labels, group)
    np.testing.assert_allclose(Z, reference_group_labels(labels, group, n_classes), atol=1e-10)
    M2, M3 = reference_moments(*Z)
    np.testing.assert_allclose(second_moment(*Z)[0], (M2 + M2.T) / 2, atol=1e-10)
    T, Q = whitened_moments(*Z)
    np.testing.assert_allclose(Q.T @ (M2 + M2.T) / 2 @ Q, np.eye(n_classes), atol=1e-8)
    expected = np.zeros_like(T)
    for order in ("abc", "acb", "bac", "bca", "cab", "cba"):
        expected += np.einsum(f"klh,ka,lb,hc->{order}", M3, Q, Q, Q) / 6
    np.testing.assert_allclose(T, expected, atol=1e-10 * max(1, np.abs(T).max()))


def test_power_method_finds_orthogonal_components():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    values = np.array([3.0, 2.0, 1.5, 1.2])
    T = np.einsum("h,ih,jh,kh->ijk", values, basis, basis, basis)
    for _ in range(4):
        value, vector = robust_eigenpair(T, rng)
        h = int(np.abs(vector @ basis).argmax())
        assert value == pytest.approx(values[h], abs=1e-10)
        np.testing.assert_allclose(vector, basis[:, h], atol=1e-8)
        T = T - value * np.einsum("i,j,k->ijk", vector, vector, vector)


@pytest.mark.parametrize(("n_workers", "weights"), [(3, [0.6, 0.4]), (4, [0.3, 0.7]), (3, [0.5, 0.3, 0.2])])
def test_exact_moments_give_exact_parameters(n_workers, weights):
    rng = np.random.default_rng(1)
    A = tenths(rng, n_workers, len(weights))
    fitted = factor_spectral(exact_labels(A, np.array(weights)), len(weights), rng=rng)
    np.testing.assert_allclose(fitted.weights, weights, atol=1e-8)
    np.testing.assert_allclose(unstack_confusions(fitted).transpose(0, 2, 1), A, atol=1e-8)


def test_error_falls_with_the_number_of_tasks():
    rng = np.random.default_rng(2)
    A, weights = confusions(rng, 9, 3), np.array([0.4, 0.35, 0.25])
    errors = []
    for n_tasks in (1_000, 50_000):
        labels, _ = draw_labels(rng, A, weights, n_tasks)
        fitted = factor_spectral(labels, 3, rng=rng)
        errors.append(np.abs(unstack_confusions(fitted).transpose(0, 2, 1) - A).mean())
    assert errors[1] < errors[0] / 4


def test_spectral_gives_the_same_answer_for_the_same_seed():
    rng = np.random.default_rng(3)
    labels, _ = draw_labels(rng, confusions(rng, 6, 3), np.full(3, 1 / 3), 200, observed=0.6)
    first, second = (factor_spectral(labels, 3, rng=np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first.table, second.table)


@pytest.mark.parametrize("observed", [0.02, 0.2])
def test_spectral_answers_on_few_or_constant_labels(observed):
    rng = np.random.default_rng(4)
    labels, _ = draw_labels(rng, confusions(rng, 5, 4), np.array([0.9, 0.1 - 2e-3, 1e-3, 1e-3]), 40, observed)
    labels.given[labels.workers == 0] = 3
    fitted = factor_spectral(labels, 4, rng=rng)
    assert np.isfinite(fitted.table).all()
    np.testing.assert_allclose(unstack_confusions(fitted).sum(axis=2), 1, atol=1e-12)
    empty = factor_spectral(labels.subset(np.zeros(labels.n_labels, bool)), 4, rng=rng)
    np.testing.assert_allclose(empty.table, 0.25)


def test_whitening_an_indefinite_moment_is_finite():
    assert np.isfinite(whiten(np.diag([1.0, -0.5, 0.0]))).all()
    assert np.isfinite(whiten(np.zeros((2, 2)))).all()


def test_spectral_refuses_what_it_cannot_fit_with_a_clear_message():
    rng = np.random.default_rng(5)
    labels, _ = draw_labels(rng, confusions(rng, 2, 2), np.array([0.5, 0.5]), 20)
    with pytest.raises(NotIdentifiableError, match="2 workers cannot be split in three groups"):
        factor_spectral(labels, 2, rng=rng)
    with pytest.raises(DataError, match="n_classes must equal the number of labels, 2, got 3"):
        factor_spectral(labels, 3, rng=rng)
