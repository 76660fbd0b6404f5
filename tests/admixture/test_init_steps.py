"""Least squares for ancestry, mixtures of parts and subsets of candidates on tiny inputs, beside loops."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.admixture import init as initialisation
from latentfit.admixture.data import genotypes
from latentfit.admixture.em import fit_ancestry
from latentfit.admixture.init import (
    AlternatingFit,
    Subspace,
    alternate,
    best_frequencies,
    centred_blocks,
    choose_subset,
    drawn_people,
    factor_admixture_tensor,
    far_people,
    leading_subspace,
    proportions_under,
    squares_of,
)
from latentfit.admixture.moments import complete_diagonal, distinct_moments
from latentfit.core import simplex as simplex_ls
from latentfit.core.kernels.admixture import MISSING
from latentfit.core.simplex import box_least_squares, simplex_least_squares
from latentfit.fractions.init import UnitValues, extreme_samples, fractions_of, profiles_of, random_profiles


def panel(seed=0, n_snps=60, n_people=14, K=3, missing=0.0):
    """Calls (SNP, person) of populations far apart, and the pooled frequencies."""
    rng = np.random.default_rng(seed)
    H, W = rng.beta(0.3, 0.3, (n_snps, K)), rng.dirichlet(np.full(K, 0.3), n_people)
    calls = rng.binomial(2, H @ W.T).astype(np.uint8)
    calls[rng.random(calls.shape) < missing] = MISSING
    halves = np.where(calls == MISSING, np.nan, calls / 2)
    return calls, np.nanmean(halves, axis=1)


def exact_space(seed=0, n_snps=30, n_people=9, K=3):
    """A subspace that holds F = H Wᵀ exactly, with one pure person for every population."""
    rng = np.random.default_rng(seed)
    H, W = rng.random((n_snps, K)), rng.dirichlet(np.ones(K), n_people)
    W[[1, 4, 7][:K]] = np.eye(K)
    basis = np.linalg.qr(np.column_stack([np.ones(n_people), W]))[0][:, :K]
    return H, W, Subspace(basis, (H @ W.T) @ basis, np.zeros(K - 1))


# ------------------------------------------------------------------ the subspace


@pytest.mark.parametrize("fills", [1, 2])
def test_blocks_are_halves_less_the_mean_and_missing_calls_come_from_the_subspace(monkeypatch, fills):
    calls, means = panel(1, 11, 8, missing=0.3)
    span = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 2)))[0]
    monkeypatch.setattr(genotypes, "BLOCK", 4)
    monkeypatch.setattr(initialisation, "ALS", replace(initialisation.ALS, fills=fills))
    blocks = list(centred_blocks(calls, means, span))
    assert [(rows.start, len(x)) for rows, x in blocks] == [(0, 4), (4, 4), (8, 3)]
    found = np.concatenate([x for _, x in blocks])
    assert found.dtype == np.float32
    for row in range(11):
        x = np.array([0.0 if call == MISSING else call / 2 - means[row] for call in calls[row]])
        for _ in range(fills):
            said = span @ (span.T @ x)
            x = np.where(calls[row] == MISSING, said, x)
        np.testing.assert_allclose(found[row], x, atol=1e-5)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_the_subspace_is_that_of_the_singular_vectors(K):
    calls, means = panel(2, 200, 12, K)
    space = leading_subspace(calls, means, K)
    X = calls / 2 - means[:, None]
    u, s, vt = np.linalg.svd(X, full_matrices=False)
    n = 12
    assert space.basis.shape == (n, K)
    np.testing.assert_allclose(space.basis[:, 0], 1 / np.sqrt(n))
    np.testing.assert_allclose(space.basis.T @ space.basis, np.eye(K), atol=1e-5)
    turn = space.basis[:, 1:].T @ vt[: K - 1].T
    np.testing.assert_allclose(np.linalg.svd(turn, compute_uv=False), 1.0, atol=1e-5)
    want = (u[:, : K - 1] * s[: K - 1]) @ vt[: K - 1] + means[:, None]
    np.testing.assert_allclose(space.coords @ space.basis.T, want, atol=1e-3)
    np.testing.assert_allclose(space.spectrum[: K - 1], s[: K - 1], rtol=1e-3)
    assert len(space.spectrum) == min(K - 1 + initialisation.ALS.extra, n - 1)


def test_one_population_or_one_person_has_the_mean_alone():
    calls, means = panel(3)
    for space, n in ((leading_subspace(calls, means, 1), 14), (leading_subspace(calls[:, :1].copy(), means, 3), 1)):
        assert space.basis.shape == (n, 1)
        assert space.spectrum.shape == (0,)
        np.testing.assert_allclose(space.coords @ space.basis.T, np.repeat(means[:, None], n, axis=1))


def test_no_more_directions_than_people_allow():
    calls, means = panel(4, 40, 3)
    assert leading_subspace(calls, means, 5).basis.shape == (3, 3)
    few = leading_subspace(calls[:1].copy(), means[:1], 2)
    assert len(few.spectrum) == 1


# ------------------------------------------------------------------ alternation


def test_squares_are_those_of_the_frequencies():
    H, W, space = exact_space()
    rng = np.random.default_rng(1)
    proportions, frequencies = rng.dirichlet(np.ones(3), 9), rng.random((30, 3))
    literal = sum((H[s] @ W[i] - frequencies[s] @ proportions[i]) ** 2 for s in range(30) for i in range(9))
    assert squares_of(space, proportions, frequencies) == pytest.approx(literal)
    assert squares_of(space, W, H) == pytest.approx(0.0, abs=1e-10)


def test_frequencies_are_the_least_squares_in_the_box():
    _, W, space = exact_space(2)
    coords = space.coords.copy()
    coords[:6] *= 1.5  # some frequencies beyond one
    space = Subspace(space.basis, coords, space.spectrum)
    found = best_frequencies(space, W, np.full(30, 0.5))
    want = box_least_squares(W.T @ W, (coords @ space.basis.T) @ W)
    np.testing.assert_allclose(found, want, atol=1e-4)
    one = initialisation._better_frequencies(W.T @ W, (coords @ space.basis.T) @ W, np.full((30, 3), 0.5), 1)
    now = np.full((30, 3), 0.5)
    for k in range(3):  # one sweep, population by population
        right = (coords @ space.basis.T) @ W[:, k]
        rest = right - sum(now[:, j] * (W[:, j] @ W[:, k]) for j in range(3) if j != k)
        now[:, k] = np.clip(rest / (W[:, k] @ W[:, k]), 0, 1)
    np.testing.assert_allclose(one, now, atol=1e-10)


def test_a_population_without_people_keeps_its_frequencies():
    start = np.full((4, 2), 0.3)
    found = initialisation._better_frequencies(np.diag([2.0, 0.0]), np.column_stack([np.ones(4), np.zeros(4)]), start)
    np.testing.assert_allclose(found, np.column_stack([np.full(4, 0.5), np.full(4, 0.3)]))


def test_the_alternation_counts_its_steps_and_says_whether_it_converged():
    _, _, space = exact_space(3)
    means = np.full(30, 0.5)
    start = np.random.default_rng(2).dirichlet(np.ones(3), 9)
    for steps in (0, 1, 3):
        found = alternate(space, means, start, max_iter=steps, tol=0.0)
        assert len(found.squares) == steps + 1
        assert not found.converged
        assert found.squares[-1] == pytest.approx(squares_of(space, found.proportions, found.frequencies))
    assert (np.diff(found.squares) <= 1e-12).all()
    np.testing.assert_array_equal(alternate(space, means, start, max_iter=0, tol=0.0).proportions, start)
    longer = alternate(space, means, start, max_iter=500, tol=1e-6)
    assert longer.converged
    gains = -np.diff(longer.squares)
    assert gains[-1] < 1e-6 * 30 * 9
    assert (gains[:-1] >= 1e-6 * 30 * 9).all()


def test_exact_data_with_pure_people_give_the_populations_at_once():
    H, W, space = exact_space(4)
    people = far_people(space)
    assert sorted(people) == [1, 4, 7]
    proportions = proportions_under(space, people)
    order = [people.index(one) for one in (1, 4, 7)]
    np.testing.assert_allclose(proportions[:, order], W, atol=1e-6)
    found = alternate(space, np.full(30, 0.5), proportions, max_iter=50, tol=1e-12)
    np.testing.assert_allclose(found.frequencies[:, order], H, atol=1e-3)


def test_least_squares_begin_at_far_people():
    calls, means = panel(5)
    space = leading_subspace(calls, means, 3)
    want = alternate(space, means, proportions_under(space, far_people(space)), max_iter=4, tol=0.0)
    found = fit_ancestry(calls, means, 3, likelihood=False, max_iter=4, tol=0.0, rng=np.random.default_rng(0))
    assert found.path == pytest.approx([-value for value in want.squares])


def test_people_are_as_far_apart_as_their_frequencies():
    H, W, space = exact_space(5)
    points = initialisation._points(space)
    F = H @ W.T
    for i in range(9):
        for j in range(9):
            apart = np.mean((F[:, i] - F[:, j]) ** 2)
            assert np.sum((points[i] - points[j]) ** 2) == pytest.approx(apart, abs=1e-8)


def test_far_people_are_each_the_furthest_from_the_span_of_those_before():
    _, _, space = exact_space(6, n_people=12)
    points = initialisation._points(space)
    chosen = [int(np.argmax([np.sum((p - points.mean(axis=0)) ** 2) for p in points]))]
    while len(chosen) < 3:
        span = (points[chosen[1:]] - points[chosen[0]]).T
        rest = []
        for p in points:
            way = p - points[chosen[0]]
            fit = span @ np.linalg.lstsq(span, way, rcond=None)[0] if span.shape[1] else 0.0
            rest.append(np.sum((way - fit) ** 2))
        chosen.append(int(np.argmax(rest)))
    assert far_people(space) == chosen


class Told:
    """A generator that takes the likeliest, and remembers the chances."""

    def __init__(self, first):
        self.first, self.chances = first, []

    def integers(self, n):
        return self.first

    def choice(self, n, p=None):
        self.chances.append(p)
        return 0 if p is None else int(np.argmax(p))


def test_drawn_people_are_drawn_by_the_distance_to_the_nearest():
    _, _, space = exact_space(7)
    points = initialisation._points(space)
    rng = Told(2)
    chosen = drawn_people(space, rng)
    assert chosen[0] == 2
    assert len(chosen) == 3
    for step, chances in enumerate(rng.chances):
        nearest = np.array([min(np.sum((p - points[c]) ** 2) for c in chosen[: step + 1]) for p in points])
        np.testing.assert_allclose(chances, nearest / nearest.sum(), atol=1e-12)
    same = Subspace(np.full((4, 1), 0.5), np.ones((3, 1)), np.zeros(0))
    assert drawn_people(same, Told(1)) == [1]
    alike = Subspace(np.ones((4, 2)) / 2, np.ones((3, 2)), np.zeros(1))
    told = Told(3)
    assert drawn_people(alike, told) == [3, 0]
    assert told.chances == [None]  # all in one place: even chances


# ------------------------------------------------------------------ subsets


def test_few_subsets_are_all_tried(monkeypatch):
    tried = []

    def value(chosen):
        tried.append(tuple(chosen.tolist()))
        return -abs(chosen.sum() - 6)

    found = choose_subset(5, 2, value, lambda order: order, np.random.default_rng(0))
    assert tried == list(combinations(range(5), 2))
    assert found.tolist() == [2, 4]
    monkeypatch.setattr(initialisation, "EXHAUSTIVE", 10)  # C(5, 2)
    assert choose_subset(5, 2, value, lambda order: order, np.random.default_rng(0)).tolist() == [2, 4]


def test_swaps_improve_every_initial_set_and_the_best_result_is_taken(monkeypatch):
    monkeypatch.setattr(initialisation, "EXHAUSTIVE", 9)
    starts, ends = [], {(0, 1): 1.0, (3, 4): 5.0}

    def value(chosen):
        return ends.get(tuple(sorted(chosen.tolist())), 0.0)

    def independent(order):
        starts.append(order.tolist())
        return np.array([0, 1] if len(starts) != 3 else [2, 3])  # from the third start a swap leads to the top

    found = choose_subset(5, 2, value, independent, np.random.default_rng(0))
    assert sorted(found.tolist()) == [3, 4]
    assert len(starts) == initialisation.SWAP_STARTS
    assert starts[0] == [0, 1, 2, 3, 4]
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in starts)
    assert starts[1] != starts[0]


def test_initial_sets_that_are_not_independent_are_skipped(monkeypatch):
    monkeypatch.setattr(initialisation, "EXHAUSTIVE", 0)
    found = choose_subset(4, 2, lambda chosen: 1.0, lambda order: order[:1], np.random.default_rng(0))
    assert found.tolist() == [0, 1]
    kept = choose_subset(4, 2, lambda chosen: 1.0, lambda order: np.array([3, 1]), np.random.default_rng(0))
    assert kept.tolist() == [3, 1]  # no swap gains


def test_candidates_are_judged_by_the_likelihood_at_their_best_frequencies(monkeypatch):
    """𝓦, K and μ from halves with gaps filled; (V†)ᵀ onto the simplex; calls of the first SNPs under H W."""
    calls, means = panel(6, 50, 10, K=2, missing=0.1)
    space = leading_subspace(calls, means, 2)
    y = np.array([[0.9, 0.1], [0.2, -0.8], [0.6, 0.6], [0.5, -0.5]])
    seen = {}

    def candidates(T, mean, n, search, rng):
        seen.update(T=T, mean=mean, n=n, search=search)
        return SimpleNamespace(y=y)

    def choice(n_candidates, d, value, independent, rng):
        seen.update(n_candidates=n_candidates, d=d, value=value, order=independent(np.arange(n_candidates)))
        return np.array([0, 1])

    monkeypatch.setattr(initialisation, "find_candidates", candidates)
    monkeypatch.setattr(initialisation, "choose_subset", choice)
    rng = np.random.default_rng(0)
    proportions, frequencies, number = factor_admixture_tensor(calls, means, space, rng=rng, judges=20)

    x = np.concatenate([part for _, part in centred_blocks(calls, means, space.basis[:, 1:])]) + means[:, None]
    moments = distinct_moments(lambda: iter([x.astype(float)]), 2)
    np.testing.assert_allclose(seen["T"], moments.W, atol=1e-6)
    np.testing.assert_allclose(seen["mean"], x.mean(axis=0) @ moments.K, atol=1e-6)
    assert (seen["n"], seen["search"], seen["n_candidates"], seen["d"], number) == (50, "auto", 4, 2, 4)
    assert seen["order"].tolist() == [0, 1]

    def literal_shares(chosen):
        W = np.linalg.pinv(moments.K @ y[chosen].T).T
        first = np.clip((1 + W[:, 0] - W[:, 1]) / 2, 0, 1)  # nearest point of the segment
        return np.column_stack([first, 1 - first])

    np.testing.assert_allclose(proportions, literal_shares([0, 1]), atol=1e-6)
    np.testing.assert_allclose(frequencies, best_frequencies(space, proportions, means), atol=1e-9)

    def literal_value(chosen):
        own = literal_shares(chosen)
        few = Subspace(space.basis, space.coords[:20], space.spectrum)
        H = np.clip(best_frequencies(few, own, means[:20]), 1e-3, 1 - 1e-3)
        total = 0.0
        for s in range(20):
            for i in range(10):
                if calls[s, i] != MISSING:
                    p = float(H[s] @ own[i])
                    total += calls[s, i] * np.log(p) + (2 - calls[s, i]) * np.log(1 - p)
        return total

    apart = literal_value([0, 1]) - literal_value([2, 3])
    assert seen["value"](np.array([0, 1])) - seen["value"](np.array([2, 3])) == pytest.approx(apart, rel=1e-5)

    monkeypatch.setattr(initialisation, "MOST_CANDIDATES", 1)  # one candidate for two: axes fill up
    assert factor_admixture_tensor(calls, means, space, rng=np.random.default_rng(0))[2] == 3


# ------------------------------------------------------------------ distinct moments


def test_completion_counts_its_steps_and_points_its_vectors():
    L = np.random.default_rng(0).random((8, 2))
    M = L @ L.T
    values, vectors, steps = complete_diagonal(M, 2)
    assert steps == 1  # nothing to complete
    assert (vectors.sum(axis=0) >= 0).all()
    assert values[0] > values[1]
    np.testing.assert_allclose(values, np.linalg.eigvalsh(M)[::-1][:2])
    noisy = M + np.diag(np.linspace(0, 1, 8))
    _, _, more = complete_diagonal(noisy, 2)
    assert 1 < more < 500
    flat = complete_diagonal(np.outer(L[:, 0], L[:, 0]), 2)  # rank 1 asked for 2
    assert flat[0][1] == pytest.approx(1e-9 * flat[0][0])


def test_steps_of_the_completion_end(monkeypatch):
    from latentfit.admixture import moments as distinct

    monkeypatch.setattr(distinct, "COMPLETION_STEPS", 3)
    rng = np.random.default_rng(1)
    assert complete_diagonal(np.cov(rng.random((30, 8)).T), 2)[2] == 3


def test_distinct_moments_have_the_mean_over_all_blocks():
    rng = np.random.default_rng(2)
    x = (rng.random((400, 2)) < 0.4) @ rng.random((2, 6))
    moments = distinct_moments(lambda: iter([x[:150], x[150:]]), 2)
    np.testing.assert_allclose(moments.mean, x.mean(axis=0) @ moments.K)
    np.testing.assert_allclose(moments.K.T @ (x.T @ x / 400) @ moments.K, np.eye(2), atol=1e-6)


# ------------------------------------------------------------------ mixtures of parts


def test_unit_values_know_their_missing_cells():
    values = np.array([[0.2, np.nan, 0.6], [0.4, np.nan, np.nan]])
    data = UnitValues.of(values)
    assert data.n_cells == 3
    assert data.values.tolist() == [[0.2, 0.0, 0.6], [0.4, 0.0, 0.0]]
    np.testing.assert_allclose(data.filled(), [[0.2, 0.0, 0.6], [0.4, 0.0, 0.6]])  # a feature nobody has: zero
    three = UnitValues.of(np.array([[0.2], [0.6], [np.nan]]))
    np.testing.assert_allclose(three.filled(), [[0.2], [0.6], [0.4]])
    turned = data.transposed
    assert turned.values.tolist() == [[0.2, 0.4], [0.0, 0.0], [0.6, 0.0]]
    assert turned.observed.tolist() == [[True, True], [False, False], [True, False]]
    whole = UnitValues.of(np.nan_to_num(values))
    assert whole.observed is None
    assert whole.transposed.observed is None
    assert whole.n_cells == 6
    assert whole.filled() is whole.values


def test_samples_with_and_without_missing_values_are_solved_separately():
    rng = np.random.default_rng(3)
    profiles, W = rng.random((3, 20)), rng.dirichlet(np.ones(3), 4)
    X = W @ profiles
    X[1, ::3] = np.nan
    X[3, 5] = np.nan
    np.testing.assert_allclose(fractions_of(UnitValues.of(X), profiles), W, atol=1e-8)
    np.testing.assert_allclose(fractions_of(UnitValues.of(X[[1, 3]]), profiles), W[[1, 3]], atol=1e-8)
    np.testing.assert_allclose(fractions_of(UnitValues.of(X[[0, 2]]), profiles), W[[0, 2]], atol=1e-8)
    turned = UnitValues.of(X).transposed
    many = rng.dirichlet(np.ones(3), 30)
    exact = UnitValues.of(many @ profiles).transposed
    np.testing.assert_allclose(profiles_of(exact, many), profiles, atol=1e-8)
    np.testing.assert_allclose(profiles_of(exact, many, np.full((3, 20), 0.9)), profiles, atol=1e-8)
    assert random_profiles(turned, 2, rng).shape == (2, 20)


def test_extreme_samples_are_never_taken_twice():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.5, 0.0]])
    found = extreme_samples(UnitValues.of(X), 4)  # one direction only: the others are zero, and still new
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, X.tolist()))
    square = np.array([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5], [1.0, 1.0]])
    assert extreme_samples(UnitValues.of(square), 2).tolist() == [[0.9, 0.1], [1.0, 1.0]]


# ------------------------------------------------------------------ rows in blocks


@pytest.mark.parametrize("own", [True, False])
def test_least_squares_in_blocks_of_rows_are_the_same(monkeypatch, own):
    rng = np.random.default_rng(4)
    A, b = rng.random((10, 3, 6)), rng.normal(0.5, 1.0, (10, 3))
    G = np.einsum("nij,nkj->nik", A, A)
    G = G if own else G[0]
    start = rng.dirichlet(np.ones(3), 10)
    whole = simplex_least_squares(G, b), box_least_squares(G, b), simplex_least_squares(G, b, start)
    monkeypatch.setattr(simplex_ls, "ROWS_AT_ONCE", 3)
    parts = simplex_least_squares(G, b), box_least_squares(G, b), simplex_least_squares(G, b, start)
    for one, two in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, two)


def test_box_least_squares_starts_in_the_middle_of_the_box(monkeypatch):
    seen = []
    real = simplex_ls._solve_block
    monkeypatch.setattr(simplex_ls, "_solve_block", lambda *args: seen.append(args[2]) or real(*args))
    found = box_least_squares(np.eye(2), np.array([[0.1, 9.0]]), -1.0, 3.0)
    np.testing.assert_allclose(found, [[0.1, 3.0]])
    assert seen[0].tolist() == [[1.0, 1.0]]
    simplex_least_squares(np.eye(4), np.zeros((1, 4)))
    assert seen[1].tolist() == [[0.25] * 4]


@pytest.mark.parametrize("kind", [AlternatingFit, UnitValues])
def test_answers_cannot_be_changed(kind):
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(kind), fields(kind)[0].name, 0)
