"""Imputation by designated workers against brute force over all (ℓ, r), and exact recovery."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import latentfit.labels.init.designated as designated
from latentfit.core.errors import DataError
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.labels.data import from_wide
from latentfit.labels.init.designated import (
    LEAST_RATIO,
    choose_designated,
    impute_designated,
    reachable,
    square_root,
    stack_observed,
    to_joint,
)
from latentfit.labels.moments import count_label_pairs
from tests.labels.label_matrices import coded


def crowd(seed: int, n_tasks: int, n_workers: int, n_classes: int, share: float) -> PairCounts:
    """Pair counts of workers who each see a window of the tasks, so that far ones share none."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_tasks)
    right = rng.random((n_tasks, n_workers)) < rng.uniform(0.6, 0.95, n_workers)
    given = np.where(right, truth[:, None], rng.integers(n_classes, size=(n_tasks, n_workers))).astype(float)
    begin = rng.uniform(0, 1 - share, n_workers) * n_tasks
    position = np.arange(n_tasks)[:, None]
    given[(position < begin) | (position >= begin + share * n_tasks)] = np.nan
    return count_label_pairs(coded(given, n_classes))


def exact(seed: int, n_workers: int, density: float) -> tuple[PairCounts, np.ndarray, np.ndarray]:
    """Population co-occurrences in thousandths, so whole counts: some pairs, the full X, what is observed."""
    rng = np.random.default_rng(seed)
    K, prior = 3, np.array([3, 3, 4])
    kinds = np.array([[8, 1, 1], [1, 8, 1], [1, 1, 8]]), np.array([[9, 2, 0], [1, 7, 1], [0, 1, 9]])
    tables = np.stack([kinds[rng.integers(2)] for _ in range(n_workers)])  # (worker, given, true), in tenths
    counts = np.einsum("mak,k,nbk->manb", tables, prior, tables)  # out of 1000
    observed = np.triu(rng.random((n_workers, n_workers)) < density, 1)
    observed |= observed.T
    times = np.triu(rng.integers(1, 5, (n_workers, n_workers)))
    times = (times + times.T) * (observed | np.eye(n_workers, dtype=bool))
    gram = (counts * times[:, None, :, None]).reshape(n_workers * K, n_workers * K)
    offsets = np.arange(0, n_workers * K + 1, K, dtype=np.int32)
    X = counts.reshape(n_workers * K, n_workers * K) / 1000
    return PairCounts(sp.csr_array(gram), offsets), X, observed


def observed_blocks(pairs: PairCounts) -> tuple[dict, dict]:
    """S and R of both orders of every observed pair."""
    S, R = {}, {}
    for m, n, size, block in zip(*pairs.observed, pairs.frequencies(), strict=True):
        S[m, n] = S[n, m] = size
        R[m, n], R[n, m] = block, block.T
    return S, R


def nearest_distribution(block: np.ndarray) -> np.ndarray:
    """Projection on the simplex by bisection on what is subtracted."""
    low, high = block.min() - 1, block.max()
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(value - middle, 0) for value in block.flat) > 1:
            low = middle
        else:
            high = middle
    return np.maximum(block - (low + high) / 2, 0)


def brute_choice(S: dict, sound: dict, n_workers: int, m: int, n: int) -> tuple[int, int] | None:
    """The (ℓ, r) with the largest (min of the three, first ℓ, min(S_mr, S_ℓr), first r)."""
    best, choice = (0, 0, 0, 0), None
    for l in range(n_workers):
        for r in range(n_workers):
            if (m, r) in S and (n, l) in S and (l, r) in S and sound[l, r]:
                key = (min(S[m, r], S[n, l], S[l, r]), -l, min(S[m, r], S[l, r]), -r)
                if key[0] > 0 and (choice is None or key > best):
                    best, choice = key, (l, r)
    return choice


def reference(pairs: PairCounts, project: bool) -> tuple[np.ndarray, np.ndarray]:
    S, R = observed_blocks(pairs)
    M, K = pairs.n_columns, int(pairs.column_offsets[1])
    values = {key: np.linalg.svd(block, compute_uv=False) for key, block in R.items()}
    sound = {key: v[-1] >= LEAST_RATIO * v[0] for key, v in values.items()}
    X, known = np.zeros((M * K, M * K)), np.zeros((M, M), bool)
    for m in range(M):
        for n in range(m, M):
            block = R.get((m, n))
            if block is None:
                chosen = brute_choice(S, sound, M, m, n)
                if chosen is not None:
                    l, r = chosen
                    U = np.linalg.svd(np.vstack([R[m, r], R[l, r]]), full_matrices=False)[0]  # (7)
                    block = U[:K] @ np.linalg.inv(U[K:]) @ R[n, l].T  # (8)
                else:
                    chosen = brute_choice(S, dict.fromkeys(S, True), M, m, n)
                    if chosen is None:
                        continue
                    l, r = chosen
                    block = R[m, r] @ np.linalg.pinv(R[l, r], rcond=LEAST_RATIO) @ R[n, l].T
                if m == n:
                    block = (block + block.T) / 2
                if project:
                    block = nearest_distribution(block)
            X[m * K : m * K + K, n * K : n * K + K] = block
            X[n * K : n * K + K, m * K : m * K + K] = block.T
            known[m, n] = known[n, m] = True
    return X, known


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize(("seed", "n_classes", "share"), [(0, 2, 0.3), (1, 3, 0.4), (2, 2, 0.1), (3, 4, 0.2)])
def test_designated_imputation_equals_brute_force_over_all_pairs(
    seed: int, n_classes: int, share: float, project: bool
) -> None:
    pairs = crowd(seed, 60, 11, n_classes, share)
    X, known = reference(pairs, project)
    ours = impute_designated(pairs, project=project)
    np.testing.assert_array_equal(ours.known, known)
    np.testing.assert_allclose(ours.X, X, atol=1e-10)
    np.testing.assert_array_equal(ours.X, ours.X.T)
    assert ours.missing_after == pytest.approx(1 - known.mean())
    observed = np.zeros_like(known)
    observed[pairs.observed[0], pairs.observed[1]] = True
    observed |= observed.T
    assert ours.missing_before == pytest.approx(1 - observed.mean())
    np.testing.assert_array_equal(reachable(observed), known)


@pytest.mark.parametrize("seed", range(6))
def test_reachable_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = 9
    observed = np.triu(rng.random((M, M)) < 0.2, 1)
    observed |= observed.T
    expected = observed.copy()
    for m in range(M):
        for n in range(M):
            for l in range(M):
                for r in range(M):
                    expected[m, n] |= observed[m, r] and observed[n, l] and observed[l, r]
    np.testing.assert_array_equal(reachable(observed), expected)
    np.testing.assert_array_equal(reachable(observed | np.eye(M, dtype=bool)), expected)


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_of_designated_workers_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = 8
    S = np.triu(rng.integers(0, 6, (M, M)) * (rng.random((M, M)) < 0.5), 1)
    S += S.T
    m, n = np.triu(S == 0).nonzero()
    left, right, reached = choose_designated(S, S, m, n)
    table = {(i, j): S[i, j] for i in range(M) for j in range(M) if S[i, j] > 0}
    for at in range(len(m)):
        choice = brute_choice(table, dict.fromkeys(table, True), M, m[at], n[at])
        assert reached[at] == (choice is not None)
        if choice is not None:
            assert (left[at], right[at]) == choice


@pytest.mark.parametrize("seed", range(10))
def test_exact_co_occurrences_come_back(seed: int) -> None:
    pairs, X, observed = exact(seed, 12, 0.3)
    imputed = impute_designated(pairs)
    np.testing.assert_array_equal(imputed.known, reachable(observed))
    cells = np.repeat(np.repeat(imputed.known, 3, axis=0), 3, axis=1)
    np.testing.assert_allclose(imputed.X[cells], X[cells], atol=1e-8)
    assert (imputed.X[~cells] == 0).all()
    assert imputed.missing_after <= imputed.missing_before


@pytest.mark.parametrize("dense", [True, False])
def test_square_root_of_exact_co_occurrences(dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(designated, "DENSE_SPECTRUM", 2_000 if dense else 0)
    _, X, _ = exact(0, 12, 0.5)
    U = square_root(X, 3)
    np.testing.assert_allclose(U @ U.T, X, atol=1e-8)
    assert (U[np.abs(U).argmax(axis=0), np.arange(3)] > 0).all()


def test_square_root_of_an_indefinite_matrix_is_real() -> None:
    X = np.diag([2.0, -3.0, -1.0])
    np.testing.assert_allclose(square_root(X, 2), [[2**0.5, 0], [0, 0], [0, 0]], atol=1e-12)


def test_projection_is_the_nearest_distribution() -> None:
    rng = np.random.default_rng(0)
    blocks = rng.normal(0.2, 0.5, (30, 3, 3))
    blocks[0] = 0
    for block, ours in zip(blocks, to_joint(blocks), strict=True):
        np.testing.assert_allclose(ours, nearest_distribution(block), atol=1e-12)


def test_error_falls_with_the_square_root_of_the_sample() -> None:
    """Theorem 1: a hundred times the common tasks, about a tenth of the error."""
    _, X, _ = exact(1, 6, 1.0)
    errors = []
    for n_tasks in (2_000, 200_000):
        rng = np.random.default_rng(5)
        counts = np.zeros((18, 18), np.int64)
        for m in range(6):
            for n in range(m + 1, 6):
                if (m, n) in [(0, 5), (1, 4)]:
                    continue
                block = X[3 * m : 3 * m + 3, 3 * n : 3 * n + 3]
                counts[3 * m : 3 * m + 3, 3 * n : 3 * n + 3] = rng.multinomial(n_tasks, block.reshape(-1)).reshape(3, 3)
        pairs = PairCounts(sp.csr_array(counts + counts.T), np.arange(0, 19, 3, dtype=np.int32))
        errors.append(np.linalg.norm(impute_designated(pairs).X - X))
    assert errors[1] < 0.2 * errors[0]


def test_designated_refuses_what_does_not_fit_in_memory() -> None:
    pairs = crowd(0, 60, 11, 2, 0.3)
    with pytest.raises(DataError, match=r"of 11 workers with 2 classes take .* GB, 1e-06 GB are allowed"):
        impute_designated(pairs, memory=1_000)
    with pytest.raises(DataError, match="raise the memory limit"):
        stack_observed(pairs, memory=1_000)
    impute_designated(pairs, memory=1_000_000)


def test_designated_answers_on_sparse_and_empty_labels() -> None:
    nan = np.nan
    strangers = coded(np.array([[0, nan, nan], [nan, 1, nan]]), 3)
    imputed = impute_designated(count_label_pairs(strangers))
    assert imputed.missing_before == imputed.missing_after == 1
    assert not imputed.X.any()
    assert square_root(imputed.X, 3).shape == (9, 3)
    one_class = from_wide(np.zeros((4, 3)))
    np.testing.assert_allclose(impute_designated(count_label_pairs(one_class)).X, 1)
    empty_class = coded(np.array([[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0]]), 4)
    imputed = impute_designated(count_label_pairs(empty_class))
    assert imputed.missing_after == 0
    assert np.isfinite(imputed.X).all()
