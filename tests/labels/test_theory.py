"""The quantities of the theorems against literal loops, written from the definitions alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from latentfit.labels import theory as theorems
from latentfit.labels.moments import count_label_pairs

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def test_zeta_is_the_largest_leverage(world):
    _, mixture = world
    H = theorems.stacked_factor(mixture)
    inverse = np.linalg.inv(H.T @ H)
    by_row = [float(row @ inverse @ row) for row in H]
    np.testing.assert_allclose(theorems.leverages(H), by_row, **EXACT)
    rng = np.random.default_rng(0)
    for _ in range(200):  # Assumption 1 (ii): no Θ exceeds it
        theta = rng.standard_normal((H.shape[1], H.shape[1]))
        ratio = max(np.sum((row @ theta) ** 2) for row in H) / np.sum((H @ theta) ** 2)
        assert ratio <= max(by_row) + 1e-12
    best = H[int(np.argmax(by_row))] @ inverse  # and this rank-one Θ attains it
    assert np.max((H @ best) ** 2) / np.sum((H @ best) ** 2) == pytest.approx(max(by_row), abs=1e-12)


def test_quantities_of_theorem_3_equal_their_definitions(world):
    data, mixture = world
    H = theorems.stacked_factor(mixture)
    J, K = data.n_workers * data.n_classes, data.n_classes
    sigma = sum(H[j, k] ** 2 for j in range(J) for k in range(K)) ** 0.5
    positive = [(j, k) for j in range(J) for k in range(K) if mixture.table[j, k] > theorems.SUPPORT]
    values = sorted(np.linalg.eigvalsh(H.T @ H), reverse=True)  # β_k²
    gamma_0 = min(a - b for a, b in zip(values, [*values[1:], 0.0], strict=True))
    zeta = theorems.leverages(H).max()
    eta = len(positive) / (J * K) * (1 + J * zeta)
    expected = {
        "sigma": sigma,
        "zeta": zeta,
        "n_positive": len(positive),
        "allowed_positive": J * gamma_0**2 / ((1 + J * zeta) * sigma**4),
        "gamma_0": gamma_0,
        "eta": eta,
        "rho": K * eta * sigma**4 / gamma_0**2,
        "noise": 0.3,
        "smallest_positive": min(H[j, k] for j, k in positive),
        "delta": min(1.0, 2 * np.exp(-2 * len(positive) / (K**2 * (1 - (len(positive) - 1) / (J * K))))),
    }
    found = theorems.theorem_3(mixture, 0.3)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-8, err_msg=name)


def test_quantities_of_theorems_1_and_2_equal_their_definitions(world):
    data, mixture = world
    pairs = count_label_pairs(data)
    K, M = data.n_classes, data.n_workers
    A = [mixture.table[m * K : (m + 1) * K] for m in range(M)]  # (given, true), as the paper writes it
    sizes = {
        (m, j): sum(
            {m, j} <= set(data.workers[data.offsets[n] : data.offsets[n + 1]].tolist()) for n in range(data.n_rows)
        )
        for m, j in combinations(range(M), 2)
    }
    sizes = {pair: size for pair, size in sizes.items() if size}
    gamma = max(np.linalg.cond(block) for block in A)
    D = np.diag(mixture.weights)
    rho = min(np.linalg.svd(A[m] @ D @ A[j].T, compute_uv=False)[-1] for m, j in sizes)
    found = theorems.theorem_1(mixture, pairs)
    log_term, S = np.log(1 / theorems.DELTA), min(sizes.values())
    np.testing.assert_allclose(found["gamma"], gamma, rtol=1e-8)
    np.testing.assert_allclose(found["rho_min"], rho, rtol=1e-8)
    np.testing.assert_allclose(found["asked_common_tasks"], K**2 * gamma**2 * log_term / rho**4, rtol=1e-7)
    promised = K**2 * gamma**3 * log_term**0.5 / (rho**2 * S**0.5)
    np.testing.assert_allclose(found["promised_error"], promised, rtol=1e-7)
    L = M * (M - 1) / 2
    second = theorems.theorem_2(pairs, K)
    np.testing.assert_allclose(second["missing_term"], (M * K**2 * np.log(M) / len(sizes)) ** 0.5, **EXACT)
    noise = sum((1 + M**0.5) / size**0.5 for size in sizes.values())
    np.testing.assert_allclose(second["sampling_term"], (1 / len(sizes) + 1 / L) * noise, **EXACT)


def test_lemma_8_gives_the_interval_of_alpha():
    found = theorems.admissible_alpha(sigma=2.0, smallest_positive=0.5, noise=0.05, start=0.0025)
    assert found == {"alpha_low": pytest.approx(0.15), "alpha_high": pytest.approx(0.35)}
    empty = theorems.admissible_alpha(sigma=2.0, smallest_positive=0.5, noise=0.3)
    assert empty["alpha_low"] > empty["alpha_high"]
