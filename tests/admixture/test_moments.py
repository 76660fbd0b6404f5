"""Moments over distinct people equal the loops over all triples; exact moments give the populations back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from latentfit.admixture.init import choose_subset, factor_admixture_tensor, leading_subspace
from latentfit.admixture.moments import complete_diagonal, distinct_moments, masked_tensor


def fixed_alleles(n_people=12, n_snps=3000, d=3, seed=0):
    rng = np.random.default_rng(seed)
    h = (rng.random((n_snps, d)) < [0.3, 0.5, 0.65][:d]).astype(float)
    return h, rng.dirichlet(np.full(d, 0.4), n_people)


def test_masked_tensor_equals_least_squares_over_all_triples():
    rng = np.random.default_rng(1)
    x, A = rng.random((50, 6)), rng.standard_normal((6, 2))
    third = np.einsum("ri,rj,rk->ijk", x, x, x) / 50
    triples = [t for t in itertools.product(range(6), repeat=3) if len(set(t)) == 3]
    design = np.array([np.einsum("a,b,c->abc", A[i], A[j], A[k]).reshape(-1) for i, j, k in triples])
    symmetric = {}
    for a, b, c in itertools.product(range(2), repeat=3):
        symmetric.setdefault(tuple(sorted((a, b, c))), []).append(a * 4 + b * 2 + c)
    reduced = np.column_stack([design[:, cells].sum(axis=1) for cells in symmetric.values()])
    found = np.linalg.lstsq(reduced, np.array([third[t] for t in triples]), rcond=None)[0]
    want = np.empty(8)
    for value, cells in zip(found, symmetric.values(), strict=True):
        want[cells] = value
    got = masked_tensor(lambda: iter([x[:20], x[20:]]), A, 50)
    np.testing.assert_allclose(got.reshape(-1), want, atol=1e-10)


def test_completion_finds_the_diagonal_of_a_low_rank_matrix():
    rng = np.random.default_rng(2)
    L = rng.random((15, 3))
    M = L @ L.T + np.diag(rng.random(15))  # noise on the diagonal alone
    values, vectors, _ = complete_diagonal(M, 3)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, L @ L.T, atol=1e-6)


def test_distinct_moments_of_exact_data_are_the_whitened_ones():
    h, proportions = fixed_alleles()
    x = h @ proportions.T
    moments = distinct_moments(lambda: iter([x]), 3)
    np.testing.assert_allclose(moments.K.T @ (x.T @ x / len(x)) @ moments.K, np.eye(3), atol=1e-8)
    third = np.einsum("ri,rj,rk->ijk", x, x, x) / len(x)
    want = np.einsum("ijk,ia,jb,kc->abc", third, moments.K, moments.K, moments.K)
    np.testing.assert_allclose(moments.W, want, atol=1e-8)


def test_fixed_alleles_give_the_populations_back():
    h, proportions = fixed_alleles(n_people=40, n_snps=20_000)
    rng = np.random.default_rng(3)
    calls = rng.binomial(2, np.clip(h @ proportions.T, 0, 1)).astype(np.uint8)
    means = calls.mean(axis=1) / 2
    kept = (means > 0) & (means < 1)
    calls, means = np.ascontiguousarray(calls[kept]), means[kept]
    found, _, n_candidates = factor_admixture_tensor(calls, means, leading_subspace(calls, means, 3), rng=rng)
    assert n_candidates >= 3
    error = min(np.abs(found[:, list(p)] - proportions).mean() for p in itertools.permutations(range(3)))
    assert error < 0.03


@pytest.mark.parametrize("n_candidates", [6, 40])
def test_subsets_by_search_or_by_swaps_find_the_best_of_a_sum(n_candidates):
    rng = np.random.default_rng(4)
    worth = rng.random(n_candidates)
    chosen = choose_subset(n_candidates, 4, lambda one: float(worth[one].sum()), lambda order: order[:4], rng)
    assert set(chosen.tolist()) == set(np.argsort(-worth)[:4].tolist())
