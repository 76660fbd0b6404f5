"""Robust imputation (9)/(11)/(17), its collapsed form and the rotation (13), against loops written from the paper."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.core.assign import align_each_worker, align_to_labels, decisiveness, match_classes
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import stack_confusions, unstack_confusions
from latentfit.engine.memory import MemoryEngine
from latentfit.labels.data import from_long
from latentfit.labels.init import robust
from latentfit.labels.init.robust import (
    SMOOTH,
    Observed,
    fit_robust_root,
    objective,
    solve_in_ball,
    weights_of,
)
from latentfit.labels.init.symnmf import mixture_from_factor, rotate_from_several, rotate_nonnegative, schedule
from latentfit.labels.moments import count_label_pairs


def world(seed, n_workers=8, n_classes=3):
    """Diagonally heavy confusion matrices (true, given) and a prior."""
    rng = np.random.default_rng(seed)
    confusions = 0.6 * np.eye(n_classes) + 0.4 * rng.dirichlet(np.ones(n_classes), size=(n_workers, n_classes))
    confusions[0] = np.eye(n_classes)  # a specialist of every class
    confusions[1, :, 0] *= rng.random() * 0.1
    confusions[1] /= confusions[1].sum(axis=1, keepdims=True)
    return confusions, rng.dirichlet(5 * np.ones(n_classes)), rng


def exact_pairs(confusions, prior, observed, scale=10**12):
    """Pair counts proportional to the population co-occurrences, for observed pairs only."""
    n_workers, k = confusions.shape[:2]
    gram = np.zeros((n_workers * k, n_workers * k), np.int64)
    for m in range(n_workers):
        for j in range(n_workers):
            block = np.einsum("c,ca,cb->ab", prior, confusions[m], confusions[j])
            if m == j:
                block = np.diag(prior @ confusions[m])
            elif not observed[m, j]:
                continue
            gram[m * k : m * k + k, j * k : j * k + k] = np.round(block * scale)
    return PairCounts(sp.csr_array(gram), np.arange(0, n_workers * k + 1, k, dtype=np.int32))


def some_labels(seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=50)
    task, worker = np.nonzero(rng.random((50, 7)) < 0.6)
    label = np.where(rng.random(len(task)) < 0.7, truth[task], rng.integers(3, size=len(task)))
    return from_long(task, worker, label)


@pytest.mark.parametrize("pair_weight", ["robust-size", "robust", "uniform"])
def test_robust_objective_and_weights_equal_the_loops(pair_weight):
    pairs = count_label_pairs(some_labels())
    data = Observed.of(pairs)
    blocks = np.random.default_rng(1).random((7, 3, 3)) / 3
    left, right, size = pairs.observed
    total = 0.0
    weights = {}
    for m, j, s, counts in zip(left, right, size, pairs.blocks(), strict=True):
        square = 0.0
        for a in range(3):
            for b in range(3):
                square += (counts[a, b] / s - sum(blocks[m, a, c] * blocks[j, b, c] for c in range(3))) ** 2
        term = square if pair_weight == "uniform" else (square + SMOOTH) ** 0.5
        total += term * (s if pair_weight == "robust-size" else 1)
        weight = 1.0 if pair_weight == "uniform" else (square + SMOOTH) ** -0.5  # (11)
        weights[m, j] = weights[j, m] = weight * (s if pair_weight == "robust-size" else 1)
    assert objective(data, blocks, pair_weight) == pytest.approx(total, rel=1e-10)
    expected = [weights[m, j] for m, j in zip(data.left, data.right, strict=True)]
    np.testing.assert_allclose(weights_of(data, blocks, pair_weight), expected, rtol=1e-10)


@pytest.mark.parametrize("radius", [0.2, 1.0, 10.0])
def test_constrained_step_equals_projected_gradient(radius):
    """(18): the exact multiplier finds what the paper's projected gradient converges to."""
    rng = np.random.default_rng(3)
    half = rng.random((4, 3, 3))
    gram, target = half @ half.transpose(0, 2, 1) + 0.1 * np.eye(3), rng.random((4, 3, 3))
    got = solve_in_ball(gram, target, radius)
    for m in range(4):
        step, u = 1 / np.linalg.eigvalsh(gram[m])[-1], np.zeros((3, 3))
        for _ in range(20_000):
            u = u - step * (u @ gram[m] - target[m])
            u = u / max(np.linalg.norm(u) / radius, 1.0)
        np.testing.assert_allclose(got[m], u, atol=1e-9)


@pytest.mark.parametrize("pair_weight", ["robust-size", "robust", "uniform"])
def test_every_robust_sweep_lowers_the_objective(pair_weight):
    labels = some_labels(4)
    start = np.random.default_rng(0).random((21, 3)) / 3
    _, path = fit_robust_root(count_label_pairs(labels), start, pair_weight=pair_weight)
    assert len(path) > 2
    assert (np.diff(path) <= 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_exact_co_occurrences_give_the_missing_blocks_and_the_model_back(seed):
    """Proposition 1 end to end: 40 % of the blocks and the diagonal missing, population moments in."""
    confusions, prior, rng = world(seed)
    observed = rng.random((8, 8)) < 0.6
    observed |= observed.T
    observed[0, 1:] = observed[1:, 0] = observed[1, 2] = observed[2, 1] = True
    votes = stack_confusions(prior, 0.8 * confusions + 0.2 / 3)
    start = votes.table * np.sqrt(votes.weights)
    root, _ = fit_robust_root(
        exact_pairs(confusions, prior, observed), start, pair_weight="uniform", max_sweeps=20_000, tol=0.0
    )
    true_root = stack_confusions(prior, confusions).table * np.sqrt(prior)
    np.testing.assert_allclose(root @ root.T, true_root @ true_root.T, atol=1e-8)
    rotation = rotate_nonnegative(root, alpha="constant", max_iter=20_000, tol=1e-14)
    order = match_classes(true_root.T @ rotation.factor)
    np.testing.assert_allclose(rotation.factor[:, order], true_root, atol=1e-6)
    found = align_to_labels(
        mixture_from_factor(rotation.factor, votes.column_offsets, np.ones(8)), np.ones(8, np.int64)
    )
    np.testing.assert_allclose(found.weights, prior, atol=1e-2)
    np.testing.assert_allclose(unstack_confusions(found), confusions, atol=1e-2)


def test_collapsed_sweep_equals_the_sums_over_pairs(monkeypatch):
    """One sweep over tasks is the |S|-weighted least squares over pairs, worker by worker in loops."""
    labels = some_labels(2)
    pairs = count_label_pairs(labels)
    start = np.random.default_rng(5).random((21, 3)) / 4
    blocks = start.reshape(7, 3, 3)
    counts = np.bincount(labels.workers, minlength=7)
    mean = sum(counts[m] * blocks[m] for m in range(7)) / counts.sum()
    left, right, _ = pairs.observed
    want = np.zeros((7, 3, 3))
    for m in range(7):
        gram, target = robust.RIDGE * np.eye(3), robust.RIDGE * mean
        for a, b, block in zip(left, right, pairs.blocks(), strict=True):
            if m in (a, b):
                other = b if m == a else a
                seen = block if m == a else block.T  # |S| R̂, rows are worker m's labels
                gram = gram + block.sum() * blocks[other].T @ blocks[other]
                target = target + seen @ blocks[other]
        solved = target @ np.linalg.inv(gram)
        want[m] = (blocks[m] + solved / max(np.linalg.norm(solved), 1.0)) / 2
    root, sweeps = robust.fit_root(labels, start, max_sweeps=1)
    assert sweeps == 1
    np.testing.assert_allclose(root.reshape(7, 3, 3), want, atol=1e-10)


@pytest.mark.parametrize("alpha", ["diminishing", "constant", "zero"])
@pytest.mark.parametrize(("first", "size"), [(0, 1.0), (None, 1.0), (None, 0.3)])
def test_rotation_equals_the_loops(alpha, first, size):
    rng = np.random.default_rng(0)
    root = size * (rng.standard_normal((30, 3)) + 0.8)
    got = rotate_nonnegative(root, alpha=alpha, max_iter=7, tol=0.0, first_round=first, keep_path=True)
    turn = np.eye(3)
    stands = max(0.5 * root.max(axis=0).min(), 1e-6)  # half of the smallest column's largest entry
    begin = 0 if first == 0 else next(t for t in range(99) if schedule(alpha, t) <= stands)
    assert (begin > 0) == (alpha == "diminishing" and size < 1)
    for step, factor in enumerate(got.path):
        rotated = root @ turn
        h = np.zeros_like(rotated)
        for i in range(30):
            for k in range(3):
                if rotated[i, k] >= schedule(alpha, begin + step):  # (13a)
                    h[i, k] = rotated[i, k]
        np.testing.assert_allclose(factor, h, atol=1e-10)
        w, _, vt = np.linalg.svd(h.T @ root)  # (13b)
        turn = vt.T @ w.T  # (13c)
    np.testing.assert_allclose(got.turn, turn, atol=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_rotation_recovers_a_sparse_factor_from_any_square_root(seed):
    """Theorem 3, noiseless: H comes back to 1e-8 up to a permutation."""
    rng = np.random.default_rng(seed)
    factor = rng.random((200, 3)) * (rng.random((200, 3)) < 0.4)
    q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    found = rotate_from_several(factor @ q.T, 6, rng)
    constant = rotate_nonnegative(factor @ q.T, alpha="constant", turn=found.turn, max_iter=5000, tol=1e-15)
    order = match_classes(factor.T @ constant.factor)
    np.testing.assert_allclose(constant.factor[:, order], factor, atol=1e-8)


def test_a_decomposition_that_gives_up_is_done_by_the_slower_way(monkeypatch):
    root = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0]
    usual = rotate_nonnegative(root)

    def gives_up(matrix):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", gives_up)
    np.testing.assert_allclose(rotate_nonnegative(root).factor, usual.factor, atol=1e-8)


def test_the_schedules_are_the_papers():
    assert schedule("diminishing", 0) == 0.8
    assert schedule("diminishing", 2) == pytest.approx(0.8**3)
    assert schedule("diminishing", 1000) == 1e-6
    assert schedule("constant", 5) == 1e-6
    assert schedule("zero", 5) == 0.0


def test_alignment_follows_the_decisive_workers():
    guess, expert = np.full((3, 3), 1 / 3), np.eye(3) * 0.94 + 0.02
    swapped = expert[[1, 2, 0]]  # latent class 0 says label 1, and so on
    mixture = stack_confusions(np.array([0.2, 0.3, 0.5]), np.stack([guess] * 9 + [swapped]))
    found = align_to_labels(mixture, np.full(10, 100))
    np.testing.assert_allclose(unstack_confusions(found)[9], expert)
    np.testing.assert_allclose(found.weights, [0.5, 0.2, 0.3])
    coin = np.stack([0.1 / 3 + 0.9 * np.eye(3), np.eye(3), guess])
    np.testing.assert_allclose(decisiveness(coin), [0.9, 1.0, 0.0], atol=1e-9)


def test_each_worker_can_be_sorted_alone():
    expert = np.eye(3) * 0.94 + 0.02
    mixture = stack_confusions(np.array([0.2, 0.3, 0.5]), np.stack([expert, expert[[1, 2, 0]]]))
    found = align_each_worker(mixture, np.array([1, 0]))
    np.testing.assert_allclose(unstack_confusions(found), np.stack([expert, expert]))
    np.testing.assert_allclose(found.weights, [0.2, 0.3, 0.5])


def test_a_worker_without_a_common_task_keeps_the_initial_values():
    labels = from_long([0, 0, 1, 1, 2], ["a", "b", "a", "b", "c"], [0, 0, 1, 1, 0])
    start = np.random.default_rng(0).random((6, 2)) / 2
    root, _ = fit_robust_root(count_label_pairs(labels), start)
    np.testing.assert_allclose(root[4:], start[4:])
    assert np.isfinite(root).all()
    assert MemoryEngine(labels, 1).n_rows == 3
