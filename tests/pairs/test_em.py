"""Pair algorithms against their literal twins, and exact moments in, parameters out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit import PairMatrix
from latentfit.core.counts import read_counts
from latentfit.core.em import em
from latentfit.core.kernels.pair_rows import PairRows, Side, pair_levels, pair_product, pair_ratios
from latentfit.core.pair_em import PairSteps
from latentfit.core.spectral import PairModel, pair_model, scaled_svd
from latentfit.pairs.em import MixingSteps, even_distribution, poisson_rates, run_em
from latentfit.pairs.init import decompose, pair_phases, rank_two
from latentfit.pairs.theory import (
    exact_total_variation_bound,
    needed_pairs_per_item,
    total_variation_bound,
    undecidable_below,
)
from latentfit.simulate import draw_pairs, pairs
from reproduction.pairs_linear import random_pair_model
from tests.pairs.reference import levels, phases, ratios


def some_counts(seed=0, shape=(30, 25)):
    return np.random.default_rng(seed).poisson(0.7, shape)


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_ratios_equal_their_twin_on_any_number_of_threads(rank):
    C, rng = some_counts(), np.random.default_rng(rank)
    left, right = rng.random((30, rank)), rng.random((25, rank))
    expected = ratios(C, left, right, 1e-9)
    rows = PairRows.of(sp.csr_array(C))
    once = pair_ratios(rows, left, right, floor=1e-9)
    for got, want in zip(once, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    again = pair_ratios(rows, left, right, floor=1e-9, threads=3)
    assert all(np.array_equal(one, two) for one, two in zip(once, again, strict=True))


def test_products_are_those_of_the_matrix_on_any_number_of_threads():
    C, x = some_counts(3, (700, 25)), np.random.default_rng(0).normal(size=25)
    rows = PairRows.of(sp.csr_array(C))
    np.testing.assert_allclose(pair_product(rows, x), C @ x, rtol=1e-12, atol=1e-12)
    assert np.array_equal(pair_product(rows, x), pair_product(rows, x, threads=3))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_levels_equal_their_twin_on_any_number_of_threads(sign):
    C, rng = some_counts(1), np.random.default_rng(2)
    rates = rng.random(30), rng.random(25)
    own = Side(rng.uniform(-0.9, 0.9, 30), rng.random(30), -1.0, 1.0, rates[0])
    partner = Side(rng.uniform(-0.6, 1.4, 25), rng.random(25), -0.7, 1.5, rates[1])
    rows = PairRows.of(sp.csr_array(C))
    out, moments = pair_levels(rows, own, partner, levels=9, sign=sign, least=1e-3)
    expected = levels(C, own.mean, own.var, partner.mean, partner.var, sign, (-1, 1), (-0.7, 1.5), 9, 1e-3, rates)
    np.testing.assert_allclose(out, expected[0], atol=1e-10)
    np.testing.assert_allclose(moments, expected[1], rtol=1e-10)
    assert np.array_equal(out, pair_levels(rows, own, partner, levels=9, sign=sign, least=1e-3, threads=4)[0])


def test_kernels_check_what_they_get():
    rows, side = PairRows.of(sp.csr_array(some_counts())), Side(np.zeros(30), np.zeros(30), -1.0, 1.0)
    other = Side(np.zeros(25), np.zeros(25), -1.0, 1.0)
    with pytest.raises(TypeError, match="right: want contiguous"):
        pair_ratios(rows, np.ones((30, 2)), np.ones((24, 2)), floor=0.0)
    with pytest.raises(ValueError, match="give at least 2"):
        pair_levels(rows, side, other, levels=1, sign=1.0, least=1e-3)
    with pytest.raises(ValueError, match=r"the interval from 1\.0 to 1\.0 is empty"):
        pair_levels(rows, side, Side(other.mean, other.var, 1.0, 1.0), levels=3, sign=1.0, least=1e-3)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("symmetric", [True, False])
def test_both_phases_equal_their_twin(seed, symmetric):
    model = ("example1", "zipf", "example2")[seed % 3]
    world = pairs(60, 4000, model, asymmetric=not symmetric, random_state=seed)
    B = world.counts.toarray()
    for rounds in (0, 1, 3):
        got = pair_phases(read_counts(B), symmetric=symmetric, rounds=rounds)
        marginal, delta, condition = phases(
            B, symmetric=symmetric, epsilon=0.05, width=np.e, tau=1.0, rounds=rounds, most_condition=10.0
        )
        turn = 1.0 if np.abs(got.delta[0] - delta[0]).sum() < np.abs(got.delta[0] + delta[0]).sum() else -1.0
        for side in (0, 1):
            np.testing.assert_allclose(got.marginal[side], marginal[side], atol=1e-10)
            np.testing.assert_allclose(turn * got.delta[side], delta[side], atol=1e-9)
        assert got.condition == pytest.approx(condition, rel=1e-9)


def avoiding(n, n_pairs, seed):
    """Items of two kinds that go with the other kind: B = ρρᵀ − ΔΔᵀ."""
    lift = np.where(np.arange(n) < n // 2, 0.9, -0.9)
    laws = np.column_stack([(1 + lift) / n, (1 - lift) / n])
    mixing = np.array([[0.05, 0.45], [0.45, 0.05]])
    return draw_pairs(laws, laws, mixing, n_pairs, np.random.default_rng(seed)), laws @ mixing @ laws.T


def rectangle(shape, n_pairs, seed):
    """Two causes of rows and columns whose frequencies follow Zipf's law."""
    rng = np.random.default_rng(seed)
    sides = []
    for size in shape:
        law = 1 / np.arange(1, size + 1)
        sides.append(np.column_stack([(law / law.sum())[rng.permutation(size)] for _ in range(2)]))
    return draw_pairs(*sides, np.eye(2) / 2, n_pairs, rng), sides[0] @ sides[1].T / 2


@pytest.mark.parametrize("made", [avoiding(60, 4000, 0), avoiding(60, 900, 1)])
@pytest.mark.parametrize("both_ways", [False, True])
def test_both_phases_equal_their_twin_where_items_avoid_their_like(made, both_ways):
    B = made[0].toarray() + (made[0].toarray().T if both_ways else 0)
    for rounds in (0, 1, 3):
        got = pair_phases(read_counts(B), symmetric=True, rounds=rounds)
        marginal, delta, _ = phases(
            B, symmetric=True, epsilon=0.05, width=np.e, tau=1.0, rounds=rounds, most_condition=10.0
        )
        assert got.sign == -1
        turn = 1.0 if np.abs(got.delta[0] - delta[0]).sum() < np.abs(got.delta[0] + delta[0]).sum() else -1.0
        np.testing.assert_allclose(got.marginal[0], marginal[0], atol=1e-10)
        np.testing.assert_allclose(turn * got.delta[0], delta[0], atol=1e-9)


@pytest.mark.parametrize("shape", [(20, 90), (90, 20), (8, 200), (50, 60)])
def test_both_phases_equal_their_twin_on_sides_of_different_sizes(shape):
    B = rectangle(shape, 4000, 2)[0].toarray()
    for rounds in (0, 1):
        got = pair_phases(read_counts(B), symmetric=False, rounds=rounds)
        marginal, delta, _ = phases(
            B, symmetric=False, epsilon=0.05, width=np.e, tau=1.0, rounds=rounds, most_condition=10.0
        )
        turn = 1.0 if np.abs(got.delta[0] - delta[0]).sum() < np.abs(got.delta[0] + delta[0]).sum() else -1.0
        for side in (0, 1):
            np.testing.assert_allclose(got.marginal[side], marginal[side], atol=1e-10)
            np.testing.assert_allclose(turn * got.delta[side], delta[side], atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_phases_do_not_lose_the_heaviest_bin_of_a_rectangle(seed):
    counts, B = rectangle((200, 2000), 25_000, seed)
    found = PairMatrix(2, method="paper").fit(counts)
    chance = np.abs(np.outer(B.sum(axis=1), B.sum(axis=0)) - B).sum()
    assert np.abs(found.reconstruct().toarray() - B).sum() < 0.7 * chance  # was above it


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_phases_find_items_that_avoid_their_like(seed):
    counts, B = avoiding(300, 6_000, seed)
    found = PairMatrix(2, method="paper").fit(counts)
    assert found.symmetric_
    assert found.signs_.tolist() == [-1.0]
    assert np.abs(found.reconstruct().toarray() - B).sum() < 0.6 * np.abs(1 / 300**2 - B).sum()  # was above it


@pytest.mark.parametrize(("size", "ratio"), [(200, 320), (400, 160)])
def test_empirical_bayes_of_two_sides_keeps_the_structure_of_frequent_pairs(size, ratio):
    """A frequent pair taken out of its items' posterior without its exposure took far more than it had told."""
    world = pairs(size, size * ratio, "zipf", asymmetric=True, random_state=2)
    B = world.rows(np.arange(size))
    found = PairMatrix(2, symmetric=False).fit(world.counts)
    error = np.abs(found.reconstruct().toarray() - B).sum()
    assert error < 0.85 * np.abs(np.outer(B.sum(axis=1), B.sum(axis=0)) - B).sum()  # was above it
    assert 0.9 < found.report_.quantities["explained_structure"] < 1.15  # was about zero


def test_a_matrix_counted_both_ways_has_the_threshold_of_its_own_sums():
    """(22): a row of that matrix expects twice what a row of the pairs counted once does."""
    counts, _ = avoiding(60, 4000, 3)
    once, twice = read_counts(counts), read_counts(counts + counts.T)
    assert twice.symmetric
    one, two = (pair_phases(part, symmetric=True, rounds=0).first[0] for part in (once, twice))
    np.testing.assert_allclose(two.bins.most_sum, 2 * one.bins.most_sum)


def test_rows_and_columns_of_a_symmetric_matrix_stay_one_after_phase_two():
    found = PairMatrix(2, method="paper").fit(pairs(80, 6000, "example1", random_state=0).counts)
    assert found.symmetric_
    assert found.marginal_ is found.column_marginal_
    assert found.separation_.tobytes() == found.column_separation_.tobytes()


@pytest.mark.parametrize("size", [40, 260])
def test_scaled_svd_equals_a_dense_one(size):
    C = np.random.default_rng(0).poisson(0.5, (size, size))
    for regularise in (0.0, 1.0, np.inf):
        for symmetric in (True, False):
            found = scaled_svd(sp.csr_array(C), 3, regularise=regularise, symmetric=symmetric, centred=True)
            P = C / C.sum()
            P = (P + P.T) / 2 if symmetric else P
            rows, cols = P.sum(axis=1), P.sum(axis=0)
            scale = [
                np.full(size, 1 / size) if np.isinf(regularise) else part + regularise / size for part in (rows, cols)
            ]
            E = (P - np.outer(rows, cols)) / np.sqrt(np.outer(*scale))
            values = np.linalg.eigvalsh(E) if symmetric else np.linalg.svd(E, compute_uv=False)
            np.testing.assert_allclose(np.abs(found.values), np.sort(np.abs(values))[::-1][:3], rtol=1e-9)
            np.testing.assert_allclose(E @ found.right, found.left * found.values, atol=1e-9)


def exact(world, total=1e6):
    """The expected counts of a world."""
    return (world.left @ world.mixing @ world.right.T) * total


def test_exact_moments_give_rho_and_delta_at_rank_two():
    for model in ("example1", "example2", "zipf", "graded"):
        world = pairs(80, 100, model, random_state=1)
        for regularise in (0.0, 1.0, np.inf):
            found = scaled_svd(sp.csr_array(exact(world)), 1, regularise=regularise, symmetric=True, centred=True)
            delta = found.embedding()[0][:, 0] * np.sqrt(found.values[0]) * found.row_marginal
            np.testing.assert_allclose(found.row_marginal, world.marginal, atol=1e-10)
            np.testing.assert_allclose(np.abs(delta), np.abs(world.separation), atol=1e-8)


@pytest.mark.parametrize("asymmetric", [False, True])
def test_exact_moments_with_pure_items_give_dictionary_and_mixing(asymmetric):
    world = pairs(120, 100, "topics", n_components=4, overlap=0.0, asymmetric=asymmetric, random_state=2)
    found = scaled_svd(sp.csr_array(exact(world)), 3, symmetric=not asymmetric, centred=True)
    model = pair_model(found)
    apart = np.abs(model.left[:, :, None] - world.left[:, None, :]).sum(axis=0)
    assert apart.min(axis=0).max() < 1e-8
    np.testing.assert_allclose(model.left @ model.mixing @ model.right.T, exact(world, 1.0), atol=1e-10)


def test_the_decomposition_is_that_of_the_matrix():
    rng = np.random.default_rng(3)
    for symmetric in (True, False):
        left = rng.dirichlet(np.ones(20), 3).T
        right = left if symmetric else rng.dirichlet(np.ones(15), 3).T
        mixing = rng.dirichlet(np.ones(9)).reshape(3, 3)
        model = PairModel(left, right, (mixing + mixing.T) / 2 if symmetric else mixing)
        found, B = decompose(model), left @ model.mixing @ right.T
        np.testing.assert_allclose(found.left @ found.right.T, B, atol=1e-12)
        np.testing.assert_allclose(found.marginal, B.sum(axis=1), atol=1e-12)
        gram = found.separation.T @ (found.separation / found.marginal[:, None])
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_lifts_become_marginals_and_separations(sign):
    rng = np.random.default_rng(4)
    for same in (True, False):
        u, x = rng.dirichlet(np.ones(12)), rng.uniform(-0.9, 0.9, 12)
        w, y = (u, x) if same else (rng.dirichlet(np.ones(9)), rng.uniform(-0.9, 0.9, 9))
        B = np.outer(u, w) * (1 + sign * np.outer(x, y))
        B /= B.sum()
        found = rank_two((u, w), (x, y), sign)
        np.testing.assert_allclose(found.left @ found.right.T, B, atol=1e-14)
        np.testing.assert_allclose(found.marginal, B.sum(axis=1), atol=1e-14)
        assert abs(found.separation.sum()) < 1e-14


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 5.0])
def test_em_on_pairs_never_falls_and_equals_a_plain_one(symmetric, both_ways, smoothing):
    world = pairs(40, 1500, "topics", n_components=3, random_state=5)
    C = world.counts.toarray()
    counts = read_counts(C + C.T if both_ways else C)
    proportions = np.array([0.5, 0.3, 0.2])
    steps = PairSteps(counts, symmetric=symmetric, smoothing=smoothing, weights=proportions)
    start = random_pair_model(counts, 3, symmetric=symmetric, rng=np.random.default_rng(0))
    path = em(steps, start, max_iter=25, tol=0.0, accelerate=False).path
    assert (np.diff(path) >= -1e-9 * np.abs(path[0])).all()
    sums = steps.e_step(start)
    B = start.left @ start.mixing @ start.right.T
    A = np.asarray(counts.matrix.toarray(), float)
    half = 2 if both_ways and symmetric else 1
    assert sums.log_likelihood == pytest.approx((A * np.log(B)).sum() / half)
    joint = np.einsum("ij,ik,kl,jl->ijkl", A / B, start.left, start.mixing, start.right)
    pairs_of_causes = joint.sum(axis=(0, 1))
    if symmetric:
        pairs_of_causes = (pairs_of_causes + pairs_of_causes.T) / 2
    np.testing.assert_allclose(steps.m_step(sums).mixing, pairs_of_causes / pairs_of_causes.sum(), rtol=1e-9)
    rows = joint.sum(axis=(1, 3))
    if symmetric:
        rows = (rows + joint.sum(axis=(0, 2))) / half
    expected = rows + smoothing * proportions
    np.testing.assert_allclose(steps.m_step(sums).left, expected / expected.sum(axis=0), rtol=1e-9)


def test_em_of_a_mixing_distribution_is_monotone_and_finds_two_points():
    rng = np.random.default_rng(6)
    truth = rng.choice([2.0, 9.0], 3000, p=[0.7, 0.3])
    rates = poisson_rates(rng.poisson(truth).astype(float))
    assert np.abs(rates - truth).mean() < 0.75 * np.abs(rng.poisson(truth) - truth).mean()
    grid = np.linspace(-3, 3, 31)
    seen = rng.choice([-1.0, 2.0], 400) + rng.normal(size=400)
    steps = MixingSteps(-0.5 * (seen[:, None] - grid) ** 2, prior=np.full(31, 0.01))
    found = run_em(steps, even_distribution(31), max_iter=2000, tol=1e-6)
    assert found.converged
    assert (np.diff(found.path) >= -1e-9 * np.abs(found.path[0])).all()
    mean, var = steps.posterior_moments(found.params, grid)
    assert (np.abs(mean) <= 3).all()
    assert (var >= 0).all()


def test_claim_d2_is_the_limit_of_its_own_sum():
    """(46) summed for growing M goes to the closed form, from below."""
    for ratio in (0.1, 0.5, 1.0):
        exact_values = [exact_total_variation_bound(int(ratio * m), m) for m in (100, 400, 2000)]
        assert exact_values == sorted(exact_values)
        assert exact_values[-1] <= total_variation_bound(ratio, 1)
        assert exact_values[-1] == pytest.approx(total_variation_bound(ratio, 1), rel=0.01)


def test_claim_d2_equals_brute_force_on_a_tiny_alphabet():
    """Y = E[(likelihood ratio)²] over all sequences of four symbols."""
    from itertools import combinations, pairwise, product

    M, N, t = 4, 3, 0.25
    square = 0.0
    for sequence in product(range(M), repeat=N):
        chance = []
        for subset in combinations(range(M), M // 2):
            states = [symbol in subset for symbol in sequence]
            value = 1 / M
            for before, after in pairwise(states):
                value *= (1 - t if before == after else t) / (M / 2)
            chance.append(value)
        square += np.mean(chance) ** 2 * M**N
    assert exact_total_variation_bound(N, M) == pytest.approx(0.5 * np.sqrt(square - 1), rel=1e-9)


def test_lower_bounds_speak_of_bad_arguments():
    assert total_variation_bound(2, 1) == 1.0
    assert needed_pairs_per_item(0.5, 0.6) == 0.0
    assert undecidable_below(2000) == pytest.approx(2 * undecidable_below(1000), abs=2)
    assert undecidable_below(1000, error=0.5) == 0
    assert exact_total_variation_bound(10**9, 1000) == 1.0  # the sum itself is beyond the largest float
    with pytest.raises(ValueError, match="give a separation in"):
        needed_pairs_per_item(0.0, 0.1)
    with pytest.raises(ValueError, match="give an even number"):
        exact_total_variation_bound(5, 7)
