"""Small parts of the crowd methods beside literal sums: votes, the co-label graph, orders of classes, early ends."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

from latentfit.core.assign import align_classes, align_each_worker, decisiveness, label_order, mean_distance
from latentfit.core.em import em
from latentfit.core.errors import DataError
from latentfit.core.mixture.parameters import stack_confusions, unstack_confusions
from latentfit.engine.memory import MemoryEngine
from latentfit.labels.em import crowd_steps
from latentfit.labels.init import (
    cnmf,
    designated,
    eigenratio,
    ghosh,
    multispa,
    robust,
    spectral,
    symnmf,
    tensor,
)
from latentfit.labels.init.kos import combine_thresholds
from latentfit.labels.init.minimax_entropy import Side as EntropySide
from latentfit.labels.init.minimax_entropy import factor_minimax_entropy, sides
from latentfit.labels.moments import (
    BYTES_PER_PAIR_CELL,
    CoLabelGraph,
    co_label_graph,
    count_label_pairs,
    overall_proportions,
    pair_memory,
    sufficient_statistics,
    vote_proportions,
    vote_statistics,
)
from latentfit.simulate import crowd
from tests.labels.label_matrices import coded, ratings

GAP = np.nan


def some_labels(seed=0, n=25, M=6, K=3, share=0.6):
    rng = np.random.default_rng(seed)
    truth = rng.integers(K, size=n)
    given = np.where(rng.random((n, M)) < 0.7, truth[:, None], rng.integers(K, size=(n, M))).astype(float)
    given[rng.random((n, M)) >= share] = np.nan
    return given, coded(given, K)


# ------------------------------------------------------------------ votes


def test_votes_are_proportions_and_known_answers_have_probability_one():
    labels = coded([[0, 0, 1], [GAP, GAP, GAP], [2, GAP, 1], [1, 1, 1]], 3)
    overall = np.array([2, 5, 1]) / 8
    np.testing.assert_allclose(overall_proportions(labels), overall)
    want = np.array([[2 / 3, 1 / 3, 0], overall, [0, 0.5, 0.5], [0, 1, 0]])
    np.testing.assert_allclose(vote_proportions(labels), want)
    np.testing.assert_allclose(vote_proportions(labels, np.array([1.0, 0.0, 0.0]))[1], [1, 0, 0])
    known = replace(labels, gold=np.array([-1, 0, 2, -1], np.int32))
    want[1], want[2] = [1, 0, 0], [0, 0, 1]
    np.testing.assert_allclose(vote_proportions(known), want)
    nothing = coded([[GAP, GAP]], 2)
    np.testing.assert_allclose(overall_proportions(nothing), [0.5, 0.5])
    np.testing.assert_allclose(vote_proportions(nothing), [[0.5, 0.5]])


def test_sufficient_statistics_of_votes_are_those_of_the_cells():
    given, labels = some_labels()
    proportions = vote_proportions(labels)
    table = np.zeros((18, 3))
    for i in range(25):
        for w in range(6):
            if not np.isnan(given[i, w]):
                table[w * 3 + int(given[i, w])] += proportions[i]
    for sums in (vote_statistics(labels), sufficient_statistics(labels, proportions)):
        np.testing.assert_allclose(sums.table, table)
        np.testing.assert_allclose(sums.totals, proportions.sum(axis=0))


# ------------------------------------------------------------------ the co-label graph


@pytest.mark.parametrize("seed", range(12))
def test_components_and_odd_cycles_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    M, n = 8, int(rng.integers(3, 9))
    given = np.full((n, M), np.nan)
    for i in range(n):
        picked = rng.choice(M, int(rng.choice([1, 2, 2, 2, 3] if seed % 2 else [1, 2])), replace=False)
        given[i, picked] = 0
    found = co_label_graph(coded(given, 2))
    links = {(m, j) for row in given for m in range(M) for j in range(M) if m != j and row[m] == 0 and row[j] == 0}
    colour = {}
    parts = []
    for begin in range(M):
        if begin in colour:
            continue
        colour[begin], stack, odd, members = 0, [begin], False, [begin]
        while stack:
            m = stack.pop()
            for a, j in links:
                if a == m and j not in colour:
                    colour[j] = 1 - colour[m]
                    stack.append(j)
                    members.append(j)
                elif a == m:
                    odd |= colour[j] == colour[m]
        parts.append((sorted(members), odd))
    assert found.n_components == len(parts)
    for members, odd in parts:
        assert len(set(found.component[members].tolist())) == 1
        assert bool(found.determined[found.component[members[0]]]) == odd


def test_a_graph_in_many_blocks_is_the_same(monkeypatch):
    _, labels = some_labels(3, n=12, M=9, share=0.2)
    whole = co_label_graph(labels)
    monkeypatch.setattr("latentfit.labels.data.BLOCK_ROWS", 2)
    parts = co_label_graph(labels)
    assert parts.component.tolist() == whole.component.tolist()
    assert parts.determined.tolist() == whole.determined.tolist()


# ------------------------------------------------------------------ which class is which


def test_decisive_workers_name_the_classes():
    r = np.array([0.0, 0.3, 0.9])
    confusions = np.array([(1 - v) / 4 + v * np.eye(4) for v in r])
    np.testing.assert_allclose(decisiveness(confusions), r, atol=1e-6)
    assert decisiveness(np.ones((2, 1, 1))).tolist() == [1.0, 1.0]
    # one expert in the order 1, 2, 0, two near-guessers who say otherwise
    expert = np.eye(3)[[1, 2, 0]] * 0.9 + 0.1 / 3
    guess = np.eye(3) * 0.3 + 0.7 / 3
    crowd = stack_confusions(np.full(3, 1 / 3), np.stack([expert, guess, guess]))
    assert label_order(crowd, np.array([10, 120, 120])).tolist() == [2, 0, 1]  # 10 · .9³ against 240 · .3³
    assert label_order(crowd, np.array([10, 150, 150])).tolist() == [0, 1, 2]


def test_classes_are_aligned_by_their_likeness():
    rng = np.random.default_rng(0)
    made = stack_confusions(rng.dirichlet(np.ones(3)), rng.dirichlet(np.full(3, 0.3), (4, 3)))
    back = align_classes(made.permuted(np.array([2, 0, 1])), made)
    np.testing.assert_allclose(back.table, made.table)
    np.testing.assert_allclose(back.weights, made.weights)
    one, other = rng.dirichlet(np.ones(2), 5), rng.dirichlet(np.ones(2), 5)
    apart = [np.abs(one - other).mean(), np.abs(one - other[:, ::-1]).mean()]
    assert mean_distance(one, other) == pytest.approx(min(apart))


def test_workers_sorted_alone_carry_the_weights_by_their_labels():
    weights = np.array([0.5, 0.3, 0.2])
    straight, turned = np.eye(3) * 0.8 + 0.2 / 3, (np.eye(3) * 0.8 + 0.2 / 3)[[1, 2, 0]]
    found = align_each_worker(stack_confusions(weights, np.stack([straight, turned])), np.array([3, 1]))
    np.testing.assert_allclose(unstack_confusions(found), np.stack([straight, straight]))
    np.testing.assert_allclose(found.weights, (3 * weights + weights[[2, 0, 1]]) / 4)


# ------------------------------------------------------------------ binary ratings


def test_spectra_of_both_sizes_have_a_positive_peak(monkeypatch):
    rng = np.random.default_rng(1)
    half = rng.standard_normal((12, 12))
    A = half + half.T
    want = np.linalg.eigh(A)[1][:, -1]
    want *= np.sign(want[np.abs(want).argmax()])
    asked = []
    real = ghosh.eigsh
    monkeypatch.setattr(ghosh, "eigsh", lambda *args, **kwargs: asked.append(1) or real(*args, **kwargs))
    for most, lanczos in ((12, 0), (11, 1)):
        monkeypatch.setattr(ghosh, "DENSE_SPECTRUM", most)
        np.testing.assert_allclose(ghosh.leading_eigenvector(aslinearoperator(A), 12), want, atol=1e-6)
        assert len(asked) == lanczos


def test_weights_of_votes_become_proportions():
    found = ghosh.soft_binary(np.array([1.0, -3.0, 0.0, 1e-14, 0.0]), np.array([2.0, 3.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(found, [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    A = sp.csr_array(np.array([[1.0, -1.0, 1.0], [-1.0, 0.0, -1.0]]))
    for sign in (1.0, -1.0):
        sided = ghosh.side_with_votes(A, sign * np.array([2.0, 1.0, 1.0]))
        np.testing.assert_allclose(sided, [[0.25, 0.75], [1.0, 0.0]])


def test_levels_of_ratings_are_above_or_not():
    labels = coded([[0, 1, 2], [2, GAP, 0]], 3)
    assert ghosh.threshold_ratings(labels, 0).toarray().tolist() == [[-1, 1, 1], [1, 0, -1]]
    assert ghosh.threshold_ratings(labels, 1).toarray().tolist() == [[-1, -1, 1], [1, 0, -1]]


def test_parts_of_two_raters_vote_with_equal_weight():
    given = np.full((30, 5), np.nan)
    three, _ = ratings(0, 20, 3, share=1.0)
    given[:20, :3] = three
    given[20:, 3:] = ratings(1, 10, 2, share=1.0)[0]
    weights = eigenratio.rater_weights(ghosh.binary_ratings(coded(given, 2), "x"))
    assert weights[3:].tolist() == [1.0, 1.0]
    alone = eigenratio.rater_weights(ghosh.binary_ratings(coded(three, 2), "x"))
    np.testing.assert_allclose(weights[:3], alone)
    assert len(set(np.round(alone, 6).tolist())) > 1


def test_the_proportion_of_the_weakest_threshold_is_the_confidence():
    above = np.array([[0.9, 0.8], [0.3, 0.9], [0.7, 0.4], [0.5, 0.2]])
    want = [[0.1, 0.1, 0.8], [0.7, 0.15, 0.15], [0.2, 0.6, 0.2], [0.25, 0.5, 0.25]]
    np.testing.assert_allclose(combine_thresholds(above), want)


# ------------------------------------------------------------------ minimax entropy


def test_ridges_follow_the_labels_of_those_who_gave_any():
    labels = coded([[0, 1, GAP, GAP], [1, GAP, 2, GAP], [GAP, GAP, GAP, GAP], [2, 2, 0, GAP]], 3)
    workers, tasks = sides(labels, 0.25)
    assert workers.strength == pytest.approx(0.25 * 9)
    assert tasks.strength == pytest.approx(0.25 * 9 * (7 / 3) / (7 / 3))  # α · labels a worker / labels a task
    more = coded([[0, 1, GAP, GAP], [1, GAP, GAP, GAP]], 3)
    assert sides(more, 0.5)[1].strength == pytest.approx(0.5 * 9 * (3 / 2) / (3 / 2))
    wide = coded([[0, 1, 2]], 3)
    assert sides(wide, 1.0)[1].strength == pytest.approx(9 * (3 / 3) / (3 / 1))
    assert workers.incidence.toarray().sum(axis=1).tolist() == [3, 2, 2, 0]
    assert tasks.incidence.toarray().sum(axis=1).tolist() == [2, 2, 0, 3]


def test_rounds_end_at_the_limit_or_when_nothing_moves():
    _, labels = some_labels(4)
    votes = vote_proportions(labels)
    np.testing.assert_allclose(factor_minimax_entropy(labels, max_iter=0), votes)
    one = factor_minimax_entropy(labels, max_iter=1)
    assert np.abs(one - votes).max() > 1e-3
    np.testing.assert_array_equal(factor_minimax_entropy(labels, max_iter=9, tol=2.0), one)
    assert np.abs(factor_minimax_entropy(labels, max_iter=9, tol=0.0) - one).max() > 0


# ------------------------------------------------------------------ imputation


def test_blocks_are_imputed_some_at_a_time(monkeypatch):
    _, labels = some_labels(5, n=40, share=0.35)
    pairs = count_label_pairs(labels)
    whole = designated.impute_designated(pairs)
    monkeypatch.setattr(designated, "BLOCKS_AT_ONCE", 2)
    parts = designated.impute_designated(pairs)
    np.testing.assert_array_equal(parts.X, whole.X)
    assert whole.missing_before == pytest.approx(1 - pairs.co_observed().mean())
    assert whole.missing_after == pytest.approx(1 - whole.known.mean())


def test_memory_is_asked_for_before_it_is_taken():
    _, labels = some_labels(6)
    pairs = count_label_pairs(labels)
    P = len(pairs.observed[0])
    need = 8 * 9 * (36 + 4 * P) + 80 * 36
    assert designated.stack_observed(pairs, memory=need).shape == (18, 18)
    with pytest.raises(DataError, match="6 workers with 3 classes"):
        designated.stack_observed(pairs, memory=need - 1)
    per_task = np.diff(labels.offsets)
    need = int(min((per_task.astype(float) ** 2).sum(), 18**2)) * BYTES_PER_PAIR_CELL
    assert pair_memory(labels) == need
    assert count_label_pairs(labels, memory=need).n_columns == 6
    with pytest.raises(DataError, match="list of worker pairs"):
        count_label_pairs(labels, memory=need - 1)


def test_pair_counts_in_blocks_are_the_same(monkeypatch):
    _, labels = some_labels(7)
    whole = count_label_pairs(labels)
    monkeypatch.setattr("latentfit.labels.data.BLOCK_ROWS", 4)
    np.testing.assert_array_equal(count_label_pairs(labels).dense(), whole.dense())


# ------------------------------------------------------------------ roots and rotations


def test_sweeps_are_counted_and_end_at_the_limit(monkeypatch):
    _, labels = some_labels(8, n=60)
    start = np.tile(np.eye(3), (6, 1)) * 0.5
    for most in (0, 1, 3):
        root, sweeps = robust.fit_root(labels, start, max_sweeps=most)
        assert sweeps <= most
        if most == 0:
            np.testing.assert_array_equal(root, start)
    monkeypatch.setattr(robust, "SETTLED", 1e9)
    assert robust.fit_root(labels, start, max_sweeps=9)[1] == 1
    monkeypatch.setattr(robust, "SETTLED", 0.0)
    assert robust.fit_root(labels, start, max_sweeps=9)[1] == 9


def test_a_factor_becomes_confusions_and_the_mean_prior():
    offsets = np.array([0, 2, 4], np.int32)
    A = np.array([[0.9, 0.3], [0.1, 0.7], [0.6, 0.2], [0.4, 0.8]])
    prior = np.array([0.36, 0.64])
    found = symnmf.mixture_from_factor(A * np.sqrt(prior), offsets, np.array([3.0, 1.0]))
    np.testing.assert_allclose(found.table, A)
    np.testing.assert_allclose(found.weights, prior)
    mixed = np.vstack([A[:2] * np.sqrt(prior), A[2:] * np.sqrt(prior[::-1])])
    mean = np.array([(3 * 0.6 + 0.8) / 4, (3 * 0.8 + 0.6) / 4]) ** 2  # three quarters of the say, and one
    np.testing.assert_allclose(
        symnmf.mixture_from_factor(mixed, offsets, np.array([3.0, 1.0])).weights, mean / mean.sum()
    )
    zero = symnmf.mixture_from_factor(np.zeros((4, 2)), offsets, np.zeros(2))
    np.testing.assert_allclose(zero.weights, 0.5)
    np.testing.assert_allclose(zero.table, 0.5)
    thin = symnmf.mixture_from_factor(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]), offsets, np.ones(2))
    np.testing.assert_allclose(thin.table[:2], np.array([[1.0, 1e-3], [1e-3, 1.0]]) / 1.001)


def test_robust_sums_are_grouped_by_the_left_worker():
    _, labels = some_labels(9, share=0.4)
    pairs = count_label_pairs(labels)
    data = robust.Observed.of(pairs)
    m, j, size = pairs.observed
    assert len(data.left) == 2 * len(m)
    assert (np.diff(data.left) >= 0).all()
    blocks = {(int(a), int(b)): R for a, b, R in zip(m, j, pairs.frequencies(), strict=True)}
    sizes = {(int(a), int(b)): int(s) for a, b, s in zip(m, j, size, strict=True)}
    for a, b, R, s in zip(data.left, data.right, data.seen, data.size, strict=True):
        key = (int(min(a, b)), int(max(a, b)))
        np.testing.assert_allclose(R, blocks[key] if a < b else blocks[key].T)
        assert s == sizes[key]
    values = np.arange(2.0 * len(m))
    want = [values[data.left == w].sum() for w in range(6)]
    np.testing.assert_allclose(data.sum_by_left(values), want)


# ------------------------------------------------------------------ co-occurrences


def test_rounds_of_the_coupled_factorisation_end(monkeypatch):
    _, labels = some_labels(10, n=80)
    pairs = count_label_pairs(labels)
    start = multispa.factor_multispa(pairs, 3)
    same = cnmf.factor_cnmf(pairs, 3, max_iter=0)
    np.testing.assert_allclose(same.table, start.table, atol=2e-3)
    calls = []
    real = cnmf.update_weights
    monkeypatch.setattr(cnmf, "update_weights", lambda *args: calls.append(1) or real(*args))
    cnmf.factor_cnmf(pairs, 3, max_iter=7, tol=0.0)
    assert len(calls) == 7
    cnmf.factor_cnmf(pairs, 3, max_iter=7, tol=1.0)
    assert len(calls) == 8  # the first gains less than everything


def test_the_prior_is_the_least_squares_of_found_pairs():
    rng = np.random.default_rng(0)
    A = rng.dirichlet(np.ones(3), (4, 3)).transpose(0, 2, 1)
    weights = np.array([0.5, 0.3, 0.2])
    left, right = np.array([0, 0, 1]), np.array([1, 2, 3])
    R = np.stack([(A[m] * weights) @ A[j].T for m, j in zip(left, right, strict=True)])
    R[2] = 0.9  # of a worker whose matrix was not found
    found = np.array([True, True, True, False])
    np.testing.assert_allclose(multispa.prior(R, left, right, A, found), weights, atol=1e-6)
    np.testing.assert_allclose(multispa.prior(R, left, right, A, np.zeros(4, bool)), 1 / 3)
    np.testing.assert_allclose(multispa.prior(-R[:1], left[:1], right[:1], A, found), 1 / 3)
    assert multispa.has_full_rank(np.array([np.eye(3), np.ones((3, 3))])).tolist() == [True, False]


def test_the_margin_of_a_partition_is_its_smallest_eigenvalue():
    rng = np.random.default_rng(1)
    Z = rng.random((3, 30, 2))
    M2, carried_a, carried_b = spectral.second_moment(Z[0], Z[1], Z[2])
    values = np.linalg.eigvalsh(M2)
    assert spectral.margin(Z, 0, 1, 2) == pytest.approx(values[0] / values[-1])
    np.testing.assert_allclose(M2, (carried_a.T @ carried_b + carried_b.T @ carried_a) / 60)
    assert spectral.margin(np.zeros((3, 5, 2)), 0, 1, 2) == -np.inf


def test_labels_of_long_tasks_are_thinned_to_what_can_be_looked_at(monkeypatch):
    given = np.zeros((3, 10))
    given[1, 6:] = np.nan
    labels = coded(given, 2)  # tasks of 10, 6 and 10 labels: 120 + 20 + 120 triples
    monkeypatch.setattr(tensor, "MAX_LOOKS", 260)
    assert tensor.thinned(labels, np.random.default_rng(0)) is labels
    for most, limit in ((259, 9), (188, 9), (187, 8), (3, 3), (0, 3)):
        monkeypatch.setattr(tensor, "MAX_LOOKS", most)
        found = tensor.thinned(labels, np.random.default_rng(0))
        assert np.diff(found.offsets).tolist() == [min(10, limit), min(6, limit), min(10, limit)]
    monkeypatch.setattr(tensor, "MAX_LOOKS", 187)
    drawn = [tuple(tensor.thinned(labels, np.random.default_rng(s)).workers[:8].tolist()) for s in range(5)]
    assert len(set(drawn)) > 1


def test_random_columns_are_largest_on_the_diagonal():
    A, weights = tensor.random_init(5, 4, np.random.default_rng(0))
    np.testing.assert_allclose(A.sum(axis=1), 1.0)
    np.testing.assert_allclose(weights, 0.25)
    assert (A.argmax(axis=1) == np.arange(4)).all()


@pytest.mark.parametrize(
    "kind",
    [
        CoLabelGraph,
        EntropySide,
        designated.Imputed,
        robust.Observed,
        symnmf.Rotation,
        tensor.Side,
        tensor.Moments,
    ],
)
def test_answers_cannot_be_changed(kind):
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(kind), fields(kind)[0].name, 0)


def test_the_one_coin_model_is_the_best_of_its_kind_and_em_never_lowers_its_objective():
    made = crowd(300, 15, 3, labels_per_task=4, kind="one-coin", random_state=0)
    labels = made.coded()
    engine = MemoryEngine(labels, 1)
    sums = vote_statistics(labels)
    steps = crowd_steps(labels, sums, 1.0, engine, one_coin=True)
    found = em(steps, steps.m_step(sums), max_iter=30, tol=1e-9, accelerate=True)
    assert (np.diff(found.path) > -1e-9).all()
    tables = unstack_confusions(found.params)
    right = np.einsum("mkk->mk", tables)
    np.testing.assert_allclose(right, right[:, :1] * np.ones(3), atol=1e-12)
    np.testing.assert_allclose(tables[:, 0, 1], (1 - right[:, 0]) / 2, atol=1e-12)
    # by hand: all right labels of a worker, pseudo-labels included, over all of them
    counts = (sums.table + steps.prior.table).reshape(15, 3, 3)
    hand = [sum(counts[m, k, k] for k in range(3)) / counts[m].sum() for m in range(15)]
    np.testing.assert_allclose(unstack_confusions(steps.m_step(sums))[:, 1, 1], hand)
    assert np.abs(right[:, 0] - made.accuracy).mean() < 0.06
