"""The steps to the weights of hidden switches on tiny tensors: products, searches, scores, choices, the noise test."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

from latentfit.core.tensor import binary as switches
from latentfit.core.tensor import eigenpairs, whitened
from latentfit.core.tensor.binary import (
    Candidates,
    choose,
    choose_all,
    exclusive_pairs,
    find_candidates,
    sampled,
    score,
    score_candidates,
    weights_of,
)
from latentfit.core.tensor.eigenpairs import (
    Eigenpairs,
    contract,
    describe,
    levenberg_marquardt,
    merge,
    newton,
    projected_jacobian,
    shifted_power,
    slices,
    sphere,
)
from latentfit.core.tensor.whitened import (
    ALPHA,
    RATIO_ALPHA,
    TRACY_WIDOM,
    SecondMoments,
    Spectrum,
    SwitchCount,
    Whitening,
    centred_tensor,
    count_switches,
    noise_variance,
    numerical_rank,
    project,
    ratio_threshold,
    row_blocks,
    second_moments,
    spectrum,
    spectrum_of,
    symmetrised,
    third_moment,
    threshold,
    whiten,
    without_noise,
)
from latentfit.factors import init as initialisation
from latentfit.factors.init import IndependentSwitches, deflate, factor_independent


def symmetric_tensor(d, seed=0):
    T = np.random.default_rng(seed).standard_normal((d, d, d))
    return symmetrised(T)


def orthogonal_tensor(values):
    """Σ λ_i e_i ⊗ e_i ⊗ e_i: pairs y = e_i / λ_i, and sums of them."""
    T = np.zeros((len(values),) * 3)
    for i, value in enumerate(values):
        T[i, i, i] = value
    return T


# ------------------------------------------------------------------ eigenpairs


def test_products_with_the_tensor_are_sums():
    T, u = symmetric_tensor(3), np.random.default_rng(1).standard_normal((4, 3))
    for s in range(4):
        for i in range(3):
            row = [sum(T[i, j, k] * u[s, k] for k in range(3)) for j in range(3)]
            np.testing.assert_allclose(slices(T, u)[s, i], row)
            assert contract(T, u)[s, i] == pytest.approx(sum(row[j] * u[s, j] for j in range(3)))


@pytest.mark.parametrize("d", [2, 3, 5])
def test_the_projected_jacobian_is_that_of_any_basis_beside_u(d):
    """Whatever the sign of u's first entry, large or small."""
    T, u = symmetric_tensor(d), sphere(20, d, np.random.default_rng(2))
    u[0] = np.eye(d)[0]
    u[1] = -np.eye(d)[0]
    u[2] = np.eye(d)[1]
    value = np.linspace(0.5, 2, 20)
    found = projected_jacobian(T, u, value)
    for s in range(20):
        L = np.linalg.svd(u[s][None])[2][1:].T
        want = L.T @ (2 * np.einsum("ijk,k->ij", T, u[s]) - value[s] * np.eye(d)) @ L
        np.testing.assert_allclose(np.linalg.eigvalsh(found[s]), np.linalg.eigvalsh(want), atol=1e-10)


def test_a_reflection_is_stable_next_to_the_first_axis():
    """The sign is chosen so that nothing cancels: u close to ±e₁, and u with a small first entry."""
    T = symmetric_tensor(3)
    one = np.nextafter(1.0, 0.0)
    for first in (one, -one, 1e-9, -1e-9):
        u = np.array([[first, 1e-12, np.sqrt(1 - first**2) if abs(first) < 0.5 else 0.0]])
        L = np.linalg.svd(u)[2][1:].T
        want = np.linalg.eigvalsh(L.T @ (2 * np.einsum("ijk,k->ij", T, u[0]) - np.eye(3)) @ L)
        np.testing.assert_allclose(np.linalg.eigvalsh(projected_jacobian(T, u, np.ones(1))[0]), want, atol=1e-9)


def test_pairs_of_an_orthogonal_tensor_are_described_by_hand():
    """At e_i/λ_i the Jacobian beside u is −λ_i; at a sum of all it is +λ."""
    T = orthogonal_tensor([2.0, 4.0])
    y = np.array([[0.5, 0.0], [0.0, 0.25], [0.5, 0.25], [1.0, 0.0]])
    told = describe(T, y)
    np.testing.assert_allclose(told.residual, [0, 0, 0, 1.0], atol=1e-12)  # 2·1² − 1 of length 1
    assert told.definite.tolist() == [-1, -1, 1, -1]
    np.testing.assert_allclose(told.smallest, 1.0)
    np.testing.assert_allclose(told.condition, 1.0)
    np.testing.assert_allclose(told.eigenvalues, [2.0, 4.0, 1 / np.sqrt(0.3125), 1.0])
    assert len(told) == 4
    some = told.take(np.array([2, 0]))
    assert some.y.tolist() == [[0.5, 0.25], [0.5, 0.0]]
    assert some.definite.tolist() == [1, -1]
    assert some.residual.tolist() == told.residual[[2, 0]].tolist()
    three = describe(orthogonal_tensor([1.0, 1.0, 2.0]), np.array([[1.0, 1.0, 0.0]]))
    assert three.definite.tolist() == [0]  # up towards the sum of three, down to the single ones


def test_one_dimension_has_one_stable_pair():
    told = describe(np.array([[[2.0]]]), np.array([[0.5]]))
    assert (told.residual[0], told.smallest[0], told.condition[0], told.definite[0]) == (0.0, 1.0, 1.0, -1)


def test_newton_says_which_starting_points_converged(monkeypatch):
    T = orthogonal_tensor([2.0, 4.0])
    y, found = newton(T, np.array([[3.0, 0.1], [0.1, 5.0]]))
    assert found.all()
    np.testing.assert_allclose(y, [[0.5, 0.0], [0.0, 0.25]], atol=1e-9)
    zero, there = newton(orthogonal_tensor([1.0, 0.0]), np.array([[0.0, 1.0]]))  # λ = 0: no y
    assert there.all()
    assert zero.tolist() == [[0.0, 0.0]]
    negative, _ = newton(T, np.array([[-1.0, 0.05]]))
    np.testing.assert_allclose(negative, [[0.5, 0.0]], atol=1e-9)  # u and λ change signs together
    monkeypatch.setattr(eigenpairs, "PAIRS", replace(eigenpairs.PAIRS, newton_steps=1))
    assert not newton(T, np.array([[3.0, 0.3]]))[1].any()


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_newton_converges_whatever_the_scale_of_the_tensor(size):
    T = symmetric_tensor(3, 6)
    starts = sphere(40, 3, np.random.default_rng(0))
    plain, arrived = newton(T, starts)
    assert arrived.mean() > 0.5
    y, found = newton(size * T, starts)
    assert (found == arrived).mean() > 0.9
    both = found & arrived & (np.linalg.norm(plain, axis=1) < 10)
    np.testing.assert_allclose(size * y[both], plain[both], rtol=1e-6, atol=1e-8)


def test_a_newton_step_is_that_of_the_projected_system(monkeypatch):
    T = symmetric_tensor(3, 4)
    u = sphere(5, 3, np.random.default_rng(3))
    monkeypatch.setattr(
        eigenpairs, "PAIRS", replace(eigenpairs.PAIRS, newton_steps=2)
    )  # λ is that of the point the first leads to
    y, _ = newton(T, u)
    for s in range(5):
        Tu = np.einsum("ijk,k->ij", T, u[s])
        value = u[s] @ Tu @ u[s]
        L = np.linalg.svd(u[s][None])[2][1:].T
        step = L @ np.linalg.solve(L.T @ (2 * Tu - value * np.eye(3)) @ L, -L.T @ (Tu @ u[s]))
        moved = (u[s] + step) / np.linalg.norm(u[s] + step)
        second = np.einsum("ijk,i,j,k->", T, moved, moved, moved)
        assert 1 / np.linalg.norm(y[s]) == pytest.approx(abs(second), rel=1e-9)


def test_singular_systems_are_nudged():
    A = np.array([[[1.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 4.0]]])
    found = eigenpairs._solve(A, np.array([[1.0, 0.0], [2.0, 4.0]]))
    np.testing.assert_allclose(found, [[1.0, 0.0], [1.0, 1.0]], atol=1e-8)


def test_levenberg_marquardt_finds_pairs_and_leaves_nothing_worse(monkeypatch):
    T = orthogonal_tensor([2.0, 4.0])
    starts = np.array([[0.4, 0.01], [0.02, 0.3], [0.45, 0.2], [0.01, 0.02]])
    np.testing.assert_allclose(
        levenberg_marquardt(T, starts), [[0.5, 0.0], [0.0, 0.25], [0.5, 0.25], [0.0, 0.0]], atol=1e-8
    )
    monkeypatch.setattr(eigenpairs, "PAIRS", replace(eigenpairs.PAIRS, lm_steps=1))
    one = levenberg_marquardt(T, starts)
    for start, end in zip(starts, one, strict=True):
        J = 2 * np.einsum("ijk,k->ij", T, start) - np.eye(2)
        F = np.einsum("ijk,j,k->i", T, start, start) - start
        want = start - np.linalg.solve(J @ J + 1e-2 * np.eye(2), J @ F)
        after = np.einsum("ijk,j,k->i", T, want, want) - want
        np.testing.assert_allclose(end, want if after @ after < F @ F else start, atol=1e-12)


def test_levenberg_marquardt_ends_at_the_least_residual_of_a_lost_pair():
    """T = 0 has no pair but the origin; in one dimension with T tiny the residual falls towards it."""
    found = levenberg_marquardt(np.zeros((2, 2, 2)), np.array([[0.5, -0.3]]))
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


@pytest.mark.parametrize("direction", [1, -1])
def test_the_power_method_finds_maxima_and_minima(direction):
    T = symmetric_tensor(3, 5)
    u = shifted_power(T, 4 * sphere(12, 3, np.random.default_rng(0)), direction)
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1.0)
    value = np.einsum("ijk,si,sj,sk->s", T, u, u, u)
    far = sphere(4000, 3, np.random.default_rng(1))
    best = (direction * np.einsum("ijk,si,sj,sk->s", T, far, far, far)).max()
    assert (direction * value).max() >= best
    np.testing.assert_allclose(np.einsum("ijk,sj,sk->si", T, u, u), value[:, None] * u, atol=1e-6)
    near = u[:1] + 0.03 * sphere(50, 3, np.random.default_rng(2))
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    assert (direction * np.einsum("ijk,si,sj,sk->s", T, near, near, near) <= direction * value[0] + 1e-12).all()


def test_directions_are_even_on_the_sphere():
    u = sphere(20_000, 3, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1.0)
    np.testing.assert_allclose(u.mean(axis=0), 0.0, atol=0.02)
    np.testing.assert_allclose(u.T @ u / len(u), np.eye(3) / 3, atol=0.02)


def test_points_are_one_within_a_distance_that_depends_on_their_residual():
    y = np.array([[1.0], [1.0 + 5e-4], [1.0 + 2e-3], [1.0 + 2.1e-3]])
    assert merge(y, np.array([0.3, 0.2, 0.1, 0.4])).tolist() == [2, 1]
    assert merge(y, np.zeros(4)).tolist() == [0, 1, 2, 3]  # pairs: 1e-5 apart is enough
    assert merge(np.array([[1.0], [1.0 + 5e-6], [1.0 + 3e-5]]), np.zeros(3)).tolist() == [0, 2]
    assert merge(np.empty((0, 2)), np.empty(0)).tolist() == []


# ------------------------------------------------------------------ candidates


def test_candidates_of_one_switch():
    found = find_candidates(np.array([[[2.0]]]), np.array([0.5]), 100, "auto", np.random.default_rng(0))
    assert found.y.tolist() == [[0.5]]
    assert find_candidates(np.zeros((1, 1, 1)), np.zeros(1), 100, "auto", np.random.default_rng(0)).y.tolist() == [
        [1.0]
    ]


@pytest.mark.parametrize("search", ["auto", "newton", "power"])
def test_candidates_are_pairs_whose_length_is_a_possible_probability(monkeypatch, search):
    """e_i/λ_i with λ = 2, 5 and 20: the last is on in 1/400 of the rows."""
    T, mean = orthogonal_tensor([2.0, 5.0, 20.0]), np.array([0.5, 0.2, 0.05])
    monkeypatch.setattr(switches, "SEARCH", replace(switches.SEARCH, newton_starts=30))
    for n, rare in ((1000, False), (10**6, True)):
        found = find_candidates(T, mean, n, search, np.random.default_rng(0), lm_starts=100)
        rows = [tuple(np.round(y, 6).tolist()) for y in found.y]
        assert (0.5, 0.0, 0.0) in rows
        assert (0.0, 0.2, 0.0) in rows
        assert ((0.0, 0.0, 0.05) in rows) == rare
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-6)
        if search == "power":
            assert 0 not in found.definite  # power-stable ones only
        else:
            assert (0.5, 0.2, 0.0) in rows


def test_a_probability_above_one_is_allowed_within_sampling_error(monkeypatch):
    """λ > 1 − 3/√n for Newton's pairs, never less than 1/1.15; any within 1.15 otherwise."""
    monkeypatch.setattr(switches, "SEARCH", replace(switches.SEARCH, newton_starts=30))
    for value, n, search, kept in (
        (0.95, 2500, "newton", True),  # 1 − .06
        (0.93, 2500, "newton", False),
        (0.93, 2500, "auto", True),
        (0.86, 2500, "auto", False),  # 1/1.15 = .87
        (0.86, 100, "newton", False),
        (0.88, 100, "newton", True),
    ):
        found = find_candidates(
            orthogonal_tensor([value, 2.0]), np.array([1.0, 0.5]), n, search, np.random.default_rng(0), lm_starts=50
        )
        assert (np.abs(found.y - [1 / value, 0]).max(axis=1) < 1e-6).any() == kept, (value, n, search)


def test_starting_points_lie_where_true_vectors_can(monkeypatch):
    """E h = E h² puts them on the sphere over the mean; as many more as Newton lost, of length .4 to .9."""
    seen = []
    monkeypatch.setattr(switches, "levenberg_marquardt", lambda T, starts: seen.append(starts) or starts[:0])
    lost = np.zeros(20, bool)
    lost[:7] = True
    monkeypatch.setattr(switches, "SEARCH", replace(switches.SEARCH, newton_starts=10))
    monkeypatch.setattr(switches, "newton", lambda T, starts: (np.full((20, 2), 0.5), ~lost))
    mean = np.array([0.6, -0.8])
    found = find_candidates(orthogonal_tensor([2.0, 3.0]), mean, 1000, "auto", np.random.default_rng(0), lm_starts=30)
    assert len(found) == 1
    starts = seen[0]
    assert starts.shape == (37, 2)
    np.testing.assert_allclose(np.linalg.norm(starts[:30] - mean / 2, axis=1), 0.5)
    np.testing.assert_allclose(starts[:30] @ mean, (starts[:30] ** 2).sum(axis=1))
    lengths = np.linalg.norm(starts[30:], axis=1)
    assert (lengths >= 0.4).all()
    assert (lengths <= 0.9).all()


def test_an_empty_set_of_candidates_is_no_error():
    found = find_candidates(orthogonal_tensor([0.5, 0.4]), np.ones(2), 1000, "newton", np.random.default_rng(0))
    assert len(found) == 0
    assert found.y.shape == (0, 2)


def ks_literal(t, share, spread):
    from scipy.stats import norm

    t = np.sort(t)
    G = (1 - share) * norm.cdf(t / spread) + share * norm.cdf((t - 1) / spread)
    n = len(t)
    return max(max(abs(G[i] - i / n), abs(G[i] - (i + 1) / n)) for i in range(n))


def test_scores_in_blocks_of_candidates_are_the_literal_ones():
    rng = np.random.default_rng(0)
    Z, y, spread = rng.standard_normal((50, 3)), 0.7 * sphere(6, 3, rng), rng.uniform(0.1, 0.4, 6)
    y[5] *= 2.0  # a share above one is one
    t = Z @ y.T
    want = [ks_literal(t[:, c], min(float(y[c] @ y[c]), 1.0), spread[c]) for c in range(6)]
    np.testing.assert_allclose(score(Z, y, spread, "ks"), want, atol=1e-12)
    off = np.minimum(np.abs(t), np.abs(t - 1))
    np.testing.assert_allclose(score(Z, y, spread, "exact"), off.max(axis=0))
    np.testing.assert_allclose(score(Z, y, spread, "rounding"), (off**2).mean(axis=0))
    tall = np.zeros((2**21 // 4, 1))
    tall[::3] = 1.0
    many = np.linspace(0.5, 1.5, 7)[:, None]  # four candidates at once
    np.testing.assert_allclose(score(tall, many, np.ones(7), "exact"), [max(0, abs(v - (v > 0.5))) for v in many[:, 0]])


@pytest.mark.parametrize("filter_", ["ks", "rounding"])
def test_the_best_candidates_are_scored_again_on_all_rows(monkeypatch, filter_):
    rng = np.random.default_rng(1)
    many, y = rng.standard_normal((60, 2)), 0.6 * sphere(9, 2, rng)
    hashes = rng.permutation(60).astype(np.uint64)
    whitening = Whitening(rng.standard_normal((5, 2)), np.eye(5)[:, :2], 0.04, np.zeros(2))
    monkeypatch.setattr(switches, "SEARCH", replace(switches.SEARCH, score_rows=(20, 60)))
    monkeypatch.setattr(switches, "SEARCH", replace(switches.SEARCH, second_stage=2))  # the best four
    pairs, scores, n = score_candidates(describe(symmetric_tensor(2), y), many, whitening, filter_, hashes)
    lengths = np.linalg.norm(y @ whitening.K.T, axis=1)

    def literal(rows, c):
        t = rows @ y[c]
        if filter_ == "ks":
            return ks_literal(t, float(y[c] @ y[c]), 0.2 * lengths[c])
        return np.mean([min(v**2, (v - 1) ** 2) for v in t]) / lengths[c] ** 2  # (26)

    few = [literal(many[hashes < 20], c) for c in range(9)]
    order = sorted(range(9), key=lambda c: few[c])
    again = sorted(order[:4], key=lambda c: literal(many, c))
    want = again + order[4:]
    np.testing.assert_allclose(pairs.y, y[want])
    np.testing.assert_allclose(scores, [literal(many, c) for c in again] + [few[c] for c in order[4:]])
    assert n == 60
    monkeypatch.setattr(switches, "SEARCH", replace(switches.SEARCH, score_rows=(60, 60)))
    once, values, _ = score_candidates(describe(symmetric_tensor(2), y), many, whitening, filter_, hashes)
    np.testing.assert_allclose(values, sorted(literal(many, c) for c in range(9)))
    assert len(once) == 9


def test_rows_with_the_smallest_hashes_are_sampled():
    hashes = np.array([5, 1, 4, 2, 3], np.uint64)
    assert sampled(2, hashes).tolist() == [False, True, False, True, False]
    assert sampled(4, hashes).tolist() == [False, True, True, True, True]
    assert sampled(5, hashes).all()


def test_candidates_are_chosen_in_order_while_they_say_something_new():
    y = np.array([[1.0, 0.0, 0.0], [2.0, 0.1, 0.0], [1.0, 0.4, 0.0], [0.0, 5.0, 0.0], [3.0, 3.0, 1.0], [0.0, 0.0, 1.0]])
    assert choose(y, np.arange(6)).tolist() == [0, 2, 5]  # 3 lies in their span, 1/√19 < .3
    assert choose(y, np.arange(6), 0.2).tolist() == [0, 2, 4]
    assert choose(y, np.array([5, 3, 2, 0])).tolist() == [5, 3, 2]
    assert choose(y[:2], np.arange(2)).tolist() == [0]
    assert choose_all(y, np.arange(6)).tolist() == [0, 2, 5]
    nearly = np.array([[1.0, 0.0], [1.0, 0.05]])
    assert choose(nearly, np.arange(2)).tolist() == [0]
    assert choose_all(nearly, np.arange(2)).tolist() == [0, 1]
    assert choose_all(np.array([[1.0, 0.0], [1.0, 1e-3]]), np.arange(2)).tolist() == [0, 1]
    assert choose_all(np.array([[1.0, 0.0], [1.0, 1e-6]]), np.arange(2)).tolist() == [0]


def test_switches_that_exclude_each_other_are_known_by_their_tensor():
    T = orthogonal_tensor([2.0, 3.0])
    y = np.array([[0.5, 1 / 3], [0.0, 1 / 3], [0.5, 0.0]])  # their sum, then the longer last
    assert exclusive_pairs(T, describe(T, y), 0.01).tolist() == [2, 1]
    assert exclusive_pairs(T, describe(T, y[:2]), 0.01) is None
    bent = T + 0.1 * symmetric_tensor(2)
    ends, found = newton(bent, np.eye(2))
    told = describe(bent, ends[found])
    off = np.linalg.norm(bent - _rebuilt(ends)) / np.linalg.norm(bent)
    assert 0 < off < 0.2
    assert exclusive_pairs(bent, told, 1.01 * off) is not None
    assert exclusive_pairs(bent, told, 0.99 * off) is None
    alone = np.array([[[2.0]]])
    assert exclusive_pairs(alone, describe(alone, np.array([[0.5]])), 0.01) is None
    rough = Eigenpairs(y, np.full(3, 1e-3), np.ones(3), np.ones(3), np.full(3, -1, np.int8))
    assert exclusive_pairs(T, rough, 0.01) is None  # not found precisely enough to say so


def _rebuilt(ends):
    """Σ λ u ⊗ u ⊗ u of points y = u/λ."""
    out = 0.0
    for y in ends:
        length = np.linalg.norm(y)
        u = y / length
        out = out + np.einsum("i,j,k->ijk", u, u, u) / length
    return out


def test_weights_are_the_pseudo_inverse_of_the_chosen_vectors():
    rng = np.random.default_rng(2)
    W = rng.standard_normal((2, 5))
    whitening = Whitening(np.linalg.pinv(W) @ rng.standard_normal((2, 2)), np.eye(5)[:, :2], 0.0, np.zeros(2))
    y = np.linalg.lstsq(whitening.K, np.linalg.pinv(W), rcond=None)[0].T
    np.testing.assert_allclose(weights_of(y, whitening), W, atol=1e-9)
    told = describe(symmetric_tensor(2), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    assert Candidates(told, np.zeros(3), np.array([2, 0]), "ks", 5).y.tolist() == [[1.0, 1.0], [1.0, 0.0]]


# ------------------------------------------------------------------ how many switches


def literal_noise(values, n, m, k):
    """Kritchman & Nadler (2009), Section IV: ρ_j from ρ² − ρ (ℓ + σ² − σ²(p − k)/n) + ℓσ² = 0, iterated."""
    sigma2 = sum(values[k:]) / (m - k)
    for _ in range(200):
        pulled = 0.0
        for value in values[:k]:
            b = value + sigma2 - sigma2 * (m - k) / n
            root = b * b - 4 * value * sigma2
            pulled += value - ((b + np.sqrt(root)) / 2 if root >= 0 else value)
        sigma2 = (sum(values[k:]) + pulled) / (m - k)
    return sigma2


@pytest.mark.parametrize("k", [1, 2, 3])
def test_noise_and_threshold_are_the_paper_s_formulas(k):
    values, n, m = np.array([9.0, 4.0, 2.4, 1.3, 1.1, 0.9, 0.8, 0.7]), 50, 8
    sigma2 = literal_noise(values, n, m, k)
    assert noise_variance(values, n, m, k) == pytest.approx(sigma2, rel=1e-9)
    for alpha, quantile in ((0.005, 2.4224), (0.05, 0.9793), (0.01, 2.0234), (0.001, 3.2724)):
        p = m - k
        mu = (np.sqrt(n - 0.5) + np.sqrt(p - 0.5)) ** 2 / n
        xi = np.sqrt(mu / n) * (1 / np.sqrt(n - 0.5) + 1 / np.sqrt(p - 0.5)) ** (1 / 3)
        assert threshold(values, n, m, k, alpha) == pytest.approx(sigma2 * (mu + quantile * xi))
        assert TRACY_WIDOM[alpha] == quantile  # of the Tracy–Widom law with β = 1


def test_no_feature_left_has_no_noise():
    values = np.array([3.0, 2.0, 1.0])
    assert noise_variance(values, 100, 3, 3) == 0.0
    assert noise_variance(values, 100, 5, 3) == 0.0
    assert noise_variance(values, 100, 3, 2) > 0
    assert threshold(values, 100, 3, 3, ALPHA) == 0.0


def test_switches_are_counted_while_they_pass_the_test():
    values, n, m = np.array([30.0, 12.0, 1.2, 1.05, 0.98, 0.9, 0.85]), 2000, 7
    bars = [threshold(values, n, m, k, ALPHA) for k in range(1, 7)]
    passed = 0
    while passed < 6 and values[passed] > bars[passed]:
        passed += 1
    assert passed == 4
    while values[passed - 1] <= ratio_threshold(values, n, m, passed, RATIO_ALPHA):  # the last one once more
        passed -= 1
    assert passed == 3
    found = count_switches(values, n, m)
    assert found.d == passed
    assert not found.noise_free
    assert found.sigma2 == pytest.approx(noise_variance(values, n, m, passed))
    assert found.margins == pytest.approx((values[passed - 1] / bars[passed - 1], values[passed] / bars[passed]))
    capped = count_switches(values, n, m, most=1)
    assert capped.d == 1
    assert capped.margins == pytest.approx((values[0] / bars[0], values[1] / bars[1]))
    assert count_switches(values, n, m, most=6).d == passed
    noise = count_switches(np.array([1.01, 1.0, 1.0, 0.99]), 5000, 4)
    assert noise.d == 1  # at least one


def test_all_eigenvalues_but_one_may_be_switches():
    found = count_switches(np.array([50.0, 30.0, 20.0, 0.01]), 1000, 4)
    assert found.d == 3
    assert found.margins[1] == 0.0
    two = count_switches(np.array([50.0, 30.0]), 1000, 2)
    assert two.d == 1


def test_without_noise_the_rank_is_counted():
    values = np.array([5.0, 2.0, 1e-14, 0.0])
    assert numerical_rank(values) == 2
    assert numerical_rank(np.array([5.0, 6e-12, 4e-12])) == 2
    assert numerical_rank(np.zeros(3)) == 0
    assert count_switches(values, 100, 4) == SwitchCount(2, 0.0, True, (np.inf, 0.0))
    assert count_switches(values, 100, 4, most=1).d == 1
    assert count_switches(values, 100, 4, most=3).d == 2
    assert count_switches(np.zeros(3), 100, 3).d == 1
    assert not count_switches(np.array([5.0, 2.0]), 100, 2).noise_free  # full rank: nothing tells that it is free
    assert not count_switches(np.array([5.0, 2.0]), 2, 9).noise_free  # as many as rows


# ------------------------------------------------------------------ independent switches


def test_deflation_finds_the_largest_component_beside_those_before():
    T = orthogonal_tensor([1.0, -3.0, 2.0])
    starts = sphere(30, 3, np.random.default_rng(0))
    first = deflate(T, starts, np.empty((0, 3)))
    np.testing.assert_allclose(np.abs(first), [0, 1, 0], atol=1e-9)
    second = deflate(T, starts, first[None])
    np.testing.assert_allclose(np.abs(second), [0, 0, 1], atol=1e-9)
    nothing = deflate(np.zeros((2, 2, 2)), np.array([[3.0, 4.0]]), np.empty((0, 2)))
    np.testing.assert_allclose(nothing, [0.6, 0.8])  # no direction is better: the start stays


def test_steps_of_the_deflation_end(monkeypatch):
    monkeypatch.setattr(initialisation, "POWER_STEPS", 1)
    found = deflate(orthogonal_tensor([1.0, 2.0]), np.array([[0.8, 0.6]]), np.empty((0, 2)))
    want = np.array([0.64, 0.72]) / np.linalg.norm([0.64, 0.72])
    np.testing.assert_allclose(found, want)


def test_independent_switches_of_exact_moments():
    """All four states in the right numbers: shares, skews and weights come back, and nothing is left over."""
    p, W = np.array([0.2, 0.7]), np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.8]])
    states = [(a, b) for a in (0, 1) for b in (0, 1)]
    rows = []
    for a, b in states:
        times = round(100 * (p[0] if a else 1 - p[0]) * (p[1] if b else 1 - p[1]))
        rows += [a * W[0] + b * W[1]] * times
    found = factor_independent(np.array(rows), 2, 0.0, rng=np.random.default_rng(0))
    order = np.argsort(found.probability)
    np.testing.assert_allclose(found.probability[order], p, atol=1e-8)
    np.testing.assert_allclose(found.W[order], W, atol=1e-8)
    np.testing.assert_allclose(found.skew[order], (1 - 2 * p) / np.sqrt(p * (1 - p)), atol=1e-8)
    assert found.residual < 1e-8
    both = np.array(rows[:50] + [W[0] + W[1]] * 10)  # no longer independent
    assert factor_independent(both, 2, 0.0, rng=np.random.default_rng(0)).residual > 1e-3


def test_the_residual_of_independence_is_relative_to_the_tensor(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.gamma(1.0, 1.0, (200, 3)) @ rng.standard_normal((3, 4))
    axes = iter(np.eye(2))
    monkeypatch.setattr(initialisation, "deflate", lambda T, starts, before: next(axes))
    found = factor_independent(X, 2, 0.0, rng=rng)
    T = centred_tensor(X, whiten(spectrum(X, centred=True), 2, 0.0), X.mean(axis=0))
    rest = T.copy()
    rest[0, 0, 0] = rest[1, 1, 1] = 0.0
    assert found.residual == pytest.approx(np.linalg.norm(rest) / np.linalg.norm(T))
    np.testing.assert_allclose(np.abs(found.skew), np.abs([T[0, 0, 0], T[1, 1, 1]]))


# ------------------------------------------------------------------ whitened moments


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5)])
def test_the_spectrum_is_that_of_the_moments(centred, shape):
    X = np.random.default_rng(0).random(shape)
    mean = sum(X) / len(X)
    M = sum(np.outer(x, x) for x in X) / len(X) - (np.outer(mean, mean) if centred else 0)
    found = spectrum(X, centred=centred)
    number = min(shape)
    values = np.linalg.eigvalsh(M)[::-1]
    np.testing.assert_allclose(found.values, values[:number], atol=1e-12)
    assert (found.n, found.m) == shape
    np.testing.assert_allclose(found.mean, mean)
    used = values[:number] > 1e-9
    np.testing.assert_allclose((M @ found.vectors)[:, used], (found.vectors * found.values)[:, used], atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(found.vectors[:, used], axis=0), 1.0)
    assert (mean @ found.vectors >= -1e-9).all()
    assert found.squares == pytest.approx(np.trace(M))
    np.testing.assert_allclose(spectrum_of(second_moments(X), centred).values[:number], found.values, atol=1e-12)


def test_vectors_beside_the_mean_have_a_positive_sum_of_cubes():
    vectors = np.array([[-1.0, 0.0, 0.0], [0.0, 0.8, -0.8], [0.0, -0.6, 0.6]])
    found = whitened._signed(vectors, np.array([2.0, 0.0, 0.0]))
    np.testing.assert_allclose(found, [[1.0, 0.0, 0.0], [0.0, 0.8, 0.8], [0.0, -0.6, -0.6]])


def test_rows_go_in_blocks_of_fixed_size(monkeypatch):
    assert [(part.start, part.stop) for part in row_blocks(10, 4)] == [(0, 4), (4, 8), (8, 10)]
    X, K = np.random.default_rng(1).standard_normal((11, 3)), np.random.default_rng(2).standard_normal((3, 2))
    monkeypatch.setattr(whitened, "row_blocks", lambda n: row_blocks(n, 4))
    np.testing.assert_allclose(project(X, K), X @ K)
    assert project(X[:0], K).shape == (0, 2)
    moments = second_moments(X)
    np.testing.assert_allclose(moments.product, X.T @ X)
    np.testing.assert_allclose(moments.mean, X.mean(axis=0))
    centre = np.array([0.3, -0.2])
    Z = X @ K - centre
    want = sum(np.einsum("i,j,k->ijk", z, z, z) for z in Z) / 11
    np.testing.assert_allclose(third_moment(X, K, centre), want)
    np.testing.assert_allclose(third_moment(X), np.einsum("ri,rj,rk->ijk", X, X, X) / 11)


def test_whitening_takes_the_noise_out_and_keeps_a_buried_signal_small():
    made = Spectrum(10, 3, np.array([1.0, 2.0, 3.0]), np.array([5.0, 1.0, 0.5]), np.eye(3))
    found = whiten(made, 2, 2.0)
    np.testing.assert_allclose(found.K, [[1 / np.sqrt(3), 0], [0, 1e3], [0, 0]])  # 1 − 2 < 0: 1e-6 of the value
    np.testing.assert_allclose(found.mean, [1 / np.sqrt(3), 2e3])
    assert found.d == 2
    assert found.basis.tolist() == np.eye(3)[:, :2].tolist()


def test_the_contribution_of_noise_is_subtracted_from_the_third_moment():
    """(17): Σ_i σ² (μ ⊗ e_i ⊗ e_i and its turns), seen through K."""
    rng = np.random.default_rng(3)
    K, mu, third = rng.standard_normal((4, 2)), rng.random(4), symmetric_tensor(2)
    noise = np.zeros((4, 4, 4))
    for i in range(4):
        e = np.eye(4)[i]
        for one in (np.einsum("i,j,k->ijk", mu, e, e), np.einsum("i,j,k->ijk", e, mu, e)):
            noise += 0.3 * one
        noise += 0.3 * np.einsum("i,j,k->ijk", e, e, mu)
    want = third - np.einsum("ijk,ia,jb,kc->abc", noise, K, K, K)
    np.testing.assert_allclose(without_noise(third, Whitening(K, K, 0.3, mu @ K)), want, atol=1e-12)
    X = rng.random((20, 4))
    Z = (X - X.mean(axis=0)) @ K
    np.testing.assert_allclose(
        centred_tensor(X, Whitening(K, K, 0.3, mu @ K), X.mean(axis=0)), np.einsum("ri,rj,rk->ijk", Z, Z, Z) / 20
    )


def test_a_tensor_is_symmetrised_over_all_six_orders():
    T = np.zeros((3, 3, 3))
    T[0, 1, 2] = 6.0
    found = symmetrised(T)
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        assert found[order] == pytest.approx(1.0)
    assert found.sum() == pytest.approx(6.0)


@pytest.mark.parametrize(
    "kind", [Eigenpairs, Candidates, SwitchCount, IndependentSwitches, SecondMoments, Spectrum, Whitening]
)
def test_answers_cannot_be_changed(kind):
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(kind), fields(kind)[0].name, 0)
