"""The test of rank, the paper's numbers and the limits of doubt about pair matrices, against literal loops."""

from __future__ import annotations

import warnings
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from latentfit import PairMatrix
from latentfit.core.counts import read_counts
from latentfit.core.spectral import effective_items, scaled_svd
from latentfit.pairs import theory as theorems
from latentfit.pairs.data import split_counts
from latentfit.pairs.diagnostics import rank_test as pair_structure
from latentfit.pairs.diagnostics import verdict as pairs
from latentfit.pairs.diagnostics.rank_test import StructureTest
from latentfit.pairs.init import Bins, Factored
from latentfit.pairs.moments import Symmetry
from latentfit.simulate import draw_pairs
from latentfit.simulate import pairs as pairs_of

# ------------------------------------------------------------ the test of rank


def counted(seed, n_pairs=4000, size=12, rank=2):
    rng = np.random.default_rng(seed)
    left, right = rng.dirichlet(np.full(size, 0.5), rank).T, rng.dirichlet(np.full(size + 1, 0.5), rank).T
    return read_counts(draw_pairs(left, right, np.eye(rank) / rank, n_pairs, rng), square=False)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_statistic_is_the_schur_complement_over_its_error(rank):
    counts = counted(rank)
    rng = np.random.default_rng(0)
    Phi, Psi = (np.column_stack([np.ones(m), rng.standard_normal((m, 3))]) for m in counts.shape)
    C, n = counts.matrix.toarray(), counts.matrix.sum()
    G = np.array([[sum(C[i, j] * Phi[i, a] * Psi[j, b] for i in range(12) for j in range(13)) / n for b in range(4)]
                  for a in range(4)])  # fmt: skip
    found, left, right = pair_structure._products(counts, Phi, Psi, False)
    np.testing.assert_allclose(found, G, rtol=1e-10)
    t = np.linalg.det(G[: rank + 1, : rank + 1]) / np.linalg.det(G[:rank, :rank])
    # by the delta method each pair moves t by α_i β_j − t
    inverse = np.linalg.inv(G[:rank, :rank])
    alpha = Phi[:, rank] - Phi[:, :rank] @ (G[rank, :rank] @ inverse)
    beta = Psi[:, rank] - Psi[:, :rank] @ (inverse @ G[:rank, rank])
    spread = sum(C[i, j] * (alpha[i] * beta[j] - t) ** 2 for i in range(12) for j in range(13)) / n
    for values, sign in ((np.ones(3), 1), (-np.ones(3), -1)):
        z = pair_structure._schur_statistic(found, left, right, values, counts, rank)
        assert z == pytest.approx(sign * t / sqrt(spread / n), rel=1e-8)


def test_products_of_symmetric_counts_are_symmetric():
    counts = read_counts(np.array([[2, 1, 0], [4, 0, 3], [1, 1, 5]]), square=True)
    Phi = np.column_stack([np.ones(3), [1.0, -2.0, 0.5]])
    plain = Phi.T @ counts.matrix.toarray() @ Phi / 17
    np.testing.assert_allclose(pair_structure._products(counts, Phi, Phi, True)[0], (plain + plain.T) / 2)
    np.testing.assert_allclose(pair_structure._products(counts, Phi, Phi, False)[0], plain)


def test_functions_that_do_not_vary_are_no_evidence():
    counts = counted(0)
    flat = [np.ones((m, 2)) for m in counts.shape]
    G = np.ones((2, 2))
    assert pair_structure._schur_statistic(G, *flat, np.ones(1), counts, 1) == 0
    assert pair_structure._schur_statistic(np.zeros((2, 2)), *flat, np.ones(1), counts, 1) == 0  # nothing to solve


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_ranks_are_tested_up_to_the_first_that_stands(rank):
    counts = counted(7, n_pairs=30_000, rank=rank)
    found = pair_structure.structure_test(counts, symmetric=False, most=5)
    halves = split_counts(counts, 2, 0)
    learned = [scaled_svd(half.matrix, 4, symmetric=False, centred=True, tol=1e-6) for half in halves]
    for r in range(1, len(found.statistics) + 1):
        z = []
        for one, other in ((0, 1), (1, 0)):
            functions = pair_structure._functions(learned[one])
            G = pair_structure._products(halves[other], *functions, False)
            z.append(pair_structure._schur_statistic(*G, learned[one].values, halves[other], r))
        assert found.statistics[r - 1] == pytest.approx((z[0] + z[1]) / sqrt(2), rel=1e-6)
        assert found.p_values[r - 1] == pytest.approx(norm.sf(found.statistics[r - 1]))
        cosines = learned[0].left[:, :r].T @ learned[1].left[:, :r]
        assert found.agreement[r - 1] == pytest.approx(np.linalg.norm(cosines, -2), abs=1e-4)
    assert found.chosen == len(found.p_values) == rank
    assert all(p <= 0.01 for p in found.p_values[:-1])
    assert found.p_values[-1] > 0.01
    assert (found.p_value, found.level) == (found.p_values[0], 0.01)


def test_when_every_rank_is_rejected_the_most_is_chosen():
    counts = counted(7, n_pairs=30_000, rank=3)
    for most in (2, 3):
        found = pair_structure.structure_test(counts, symmetric=False, most=most)
        assert (found.chosen, len(found.p_values)) == (most, most - 1)


def test_counts_too_small_for_a_test_show_rank_one():
    nothing = StructureTest([0.0], [1.0], 0.01, 1, [0.0])
    one = read_counts(np.array([[5, 3, 4]]), square=False)
    assert pair_structure.structure_test(one, symmetric=False) == nothing
    single = read_counts(np.array([[9, 0], [0, 1]]), square=False)  # a half has one cell only
    assert pair_structure.structure_test(single, symmetric=False) == nothing


def test_bounded_functions_are_vectors_over_the_root_of_the_regularised_marginal():
    found = scaled_svd(counted(3).matrix, 2, symmetric=False, centred=True)
    left, right = pair_structure._functions(found)
    for part, vectors, scale in ((left, found.left, found.row_scale), (right, found.right, found.column_scale)):
        assert part.shape == (len(vectors), 3)
        for i in range(len(vectors)):
            assert part[i] == pytest.approx([1, vectors[i, 0] / sqrt(scale[i]), vectors[i, 1] / sqrt(scale[i])])


def test_gain_threshold_and_power_by_hand():
    """g = λ² n/√(MM'), twice that when symmetric; the power is Φ(√N λ (1 − 1/g) − z) with g of half of the pairs."""
    shape = (40.0, 90.0)
    assert pair_structure.detection_gain(600, shape, 0.5, symmetric=False) == pytest.approx(0.25 * 600 / 60)
    assert pair_structure.detection_gain(600, shape, 0.5, symmetric=True) == pytest.approx(2 * 0.25 * 600 / 60)
    for symmetric in (False, True):
        least = pair_structure.detectable_value(600, shape, symmetric=symmetric)
        assert pair_structure.detection_gain(600, shape, least, symmetric=symmetric) == pytest.approx(1)
        gain = (2 if symmetric else 1) * 0.36 * 300 / 60
        drift = sqrt(600) * 0.6 * max(1 - 1 / gain, 0)
        power = pair_structure.structure_power(600, shape, 0.6, symmetric=symmetric)
        assert power == pytest.approx(norm.cdf(drift - norm.ppf(0.95)))
    assert pair_structure.structure_power(600, shape, 0.3, symmetric=False) == pytest.approx(
        0.05
    )  # below the gain of 1
    assert pair_structure.structure_power(600, shape, 0.0, symmetric=False, level=0.1) == pytest.approx(0.1)
    assert pair_structure.detectable_value(0, shape, symmetric=False) > 1e100


def test_effective_items_and_values_are_those_of_regularised_scaling():
    rho, sigma = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.3, 0.4])
    delta, gamma = np.array([[0.1], [-0.2], [0.1]]), np.array([[0.05], [0.1], [-0.1], [-0.05]])
    assert effective_items(rho) == pytest.approx(4 * sum((p / (p + 1 / 3)) ** 2 for p in rho))
    assert effective_items(np.full(7, 1 / 7)) == pytest.approx(7)
    left = 2 * sum(d**2 / (p + 1 / 3) for d, p in zip(delta[:, 0], rho, strict=True))
    right = 2 * sum(d**2 / (p + 1 / 4) for d, p in zip(gamma[:, 0], sigma, strict=True))
    found = pair_structure.effective_values(Factored(rho, sigma, delta, gamma, np.ones(1)))
    assert found == pytest.approx([sqrt(left * right)])


# ------------------------------------------------------------------- theorems


def test_section_5_1_by_its_formula():
    for C, error, c in ((0.8, 0.1, 1.0), (0.5, 0.2, 3.0), (1.0, 0.01, 1.0)):
        assert theorems.needed_pairs_per_item(C, error, constant=c) == pytest.approx(c * log(C / error) / (2 * C**4))
    assert theorems.needed_pairs_per_item(0.5, 0.5) == theorems.needed_pairs_per_item(0.5, 0.7) == 0
    for wrong in ((0.0, 0.1), (1.01, 0.1), (0.5, 0.0)):
        with pytest.raises(ValueError, match="give a separation"):
            theorems.needed_pairs_per_item(*wrong)


def test_claim_d2_by_its_formula():
    for N, M in ((1, 10), (100, 1000), (1490, 1000), (30, 21)):
        by_hand = 0.5 * sqrt(sqrt(2 / (2 - 4 * N / (3 * M))) - 1)
        assert theorems.total_variation_bound(N, M) == pytest.approx(min(by_hand, 1.0))
    assert theorems.total_variation_bound(1500, 1000) == theorems.total_variation_bound(2000, 1000) == 1
    assert theorems.total_variation_bound(0, 1000) == 0
    assert 0.99 < theorems.total_variation_bound(1439, 1000) < 1 == theorems.total_variation_bound(1441, 1000)


@pytest.mark.parametrize("transition", [0.25, 0.1, 0.4])
@pytest.mark.parametrize(("N", "M"), [(1, 2), (2, 2), (5, 4), (9, 6), (40, 8)])
def test_43_to_46_by_their_sum(N, M, transition):
    """½ √(Y − 1), Y = Σ_i C(M/2, i)² / C(M, M/2) · f(2i/M), f the sum over paths of two chains as a product."""
    half = M // 2
    Y = 0.0
    t = transition
    for i in range(half + 1):
        x = i / half
        # two hidden chains that agree or differ: a share x of the symbols lets them agree
        stay, change = (1 - t) ** 2 + t**2, 2 * t * (1 - t)
        step = 2 * np.array([[stay * x, change * (1 - x)], [change * x, stay * (1 - x)]])
        weight = np.array([x, 1 - x])
        f = weight @ np.linalg.matrix_power(step, N - 1) @ np.ones(2)
        choose = 1.0
        for k in range(i):
            choose = choose * (half - k) / (k + 1)
        whole = 1.0
        for k in range(half):
            whole = whole * (M - k) / (k + 1)
        Y += choose**2 / whole * f
    expected = min(0.5 * sqrt(max(Y - 1, 0.0)), 1.0)
    assert theorems.exact_total_variation_bound(N, M, transition=transition) == pytest.approx(expected, abs=1e-7)


def test_corollary_1_7_is_where_claim_d2_reaches_what_a_test_needs():
    for M, error in ((1000, 1 / 3), (250, 0.4), (4000, 0.05)):
        N = theorems.undecidable_below(M, error=error)
        assert theorems.total_variation_bound(N, M) < 1 - 2 * error
        assert theorems.total_variation_bound(N + 1.01, M) >= 1 - 2 * error
    assert theorems.undecidable_below(1000, error=0.5) == theorems.undecidable_below(1000, error=0.6) == 0


# ------------------------------------------------------------------- verdicts


def told(found, words):
    return any(words in reason for reason in found.reasons)


def examined(p_values=(1e-6, 0.5), agreement=(0.9, 0.5), K=2, matrix=None, **changed):
    matrix = 10 + np.tile([[0, 1], [1, 0]], (3, 3)) if matrix is None else matrix
    rho = np.full(6, 1 / 6)
    delta = np.outer(np.tile([1.0, -1.0], 3), np.full(K - 1, 0.1 if K < 3 else 0.05))
    chosen = next((r for r, p in enumerate(p_values, 1) if p > 0.01), len(p_values) + 1)
    settings = {
        "counts": read_counts(matrix, square=True),
        "factored": Factored(rho, rho, delta, delta, np.ones(K - 1)),
        "symmetric": True,
        "symmetry": Symmetry(0.0, 0.0),
        "converged": True,
        "test": StructureTest([0.0] * len(p_values), list(p_values), 0.01, chosen, list(agreement)),
        "epsilon": 0.2, "bin_width": 2.0, "tau": 0.5,
    } | changed  # fmt: skip
    return pairs.examine_pairs(pairs.PairEvidence(**settings))


@pytest.mark.parametrize(
    ("K", "p_values", "words"),
    [
        (2, (0.01, 0.5), ""),
        (2, (0.011, 0.5), "No structure found"),
        (1, (0.5,), "No structure found: pairs look independent (p-value 0.5 of rank 1, limit 0.01)"),
        (1, (0.0009,), "There is more structure than 1 component (p-value 0.0009, limit 0.001)"),
        (1, (0.001,), ""),
        (
            3,
            (1e-6, 0.02, 0.5),
            "The counts support 2 components (p-value 0.02 of no more, limit 0.01), and 3 were fitted",
        ),
        (3, (1e-6, 0.01, 0.5), ""),
        (2, (1e-6, 1e-3, 0.5), ""),
        (2, (1e-6, 0.9e-3, 0.5), "There is more structure than 2 components (p-value 0.0009, limit 0.001)"),
        (3, (1e-6, 1e-6), ""),
    ],
)
def test_ranks_rejected_are_compared_with_the_components(K, p_values, words):
    found = examined(p_values, agreement=[0.9] * len(p_values), K=K)
    assert found.reasons == [] if not words else told(found, words)
    assert len(found.reasons) == bool(words)
    assert found.quantities["supported_components"] == next(
        (r for r, p in enumerate(p_values, 1) if p > 0.01), len(p_values) + 1
    )


def test_halves_should_agree_on_the_last_component():
    assert not told(examined(agreement=(0.3, 0.1)), "agree little")
    assert told(examined(agreement=(0.29, 0.9)), "agree little on the weakest component (cosine 0.29")
    found = examined((1e-6, 1e-6, 0.5), agreement=(0.9, 0.2, 0.9), K=3)
    assert found.quantities["agreement_of_halves"] == 0.2
    assert examined((1e-6, 1e-6, 0.5), agreement=(0.9,), K=3).quantities["agreement_of_halves"] == 0
    assert examined((0.5,), agreement=(0.9,), K=1).quantities["agreement_of_halves"] is None


@pytest.mark.parametrize(("each", "few"), [(1, True), (2, False)])
def test_two_pairs_an_item_are_asked_for(each, few):
    matrix = np.zeros((6, 6), int)
    matrix[np.arange(5), np.arange(1, 6)] = each  # items meet in a row: 5 pairs of 6 items, or 10
    matrix[0, 2] += each
    matrix[0, 3] += each if each > 1 else 0  # 6 pairs, or 14
    found = examined(matrix=matrix, symmetric=True)
    ratio = (6 if each == 1 else 14) / 6
    assert found.quantities["pairs_per_item"] == pytest.approx(ratio)
    assert told(found, "pairs per item, fewer than 2") == few
    assert found.quantities["expected_error"] == pytest.approx(min(1.06 / sqrt(ratio), 2))
    assert found.quantities["n_items"] == 6


def test_items_without_counts_are_not_counted():
    matrix = np.zeros((6, 6), int)
    matrix[:2, :3] = 20
    found = examined(matrix=matrix)
    assert (found.quantities["n_items"], found.quantities["pairs_per_item"]) == (3, 40)
    found = examined(matrix=matrix, symmetric=False)
    assert found.quantities["n_items"] == 2
    assert found.quantities["pairs_per_item"] == pytest.approx(120 / sqrt(6))


def test_order_weights_and_unconverged_runs_are_reported():
    lopsided = Symmetry(1.0, 7.5)
    assert told(
        examined(symmetry=lopsided), "The order of pairs matters (7.5 standard deviations beyond chance, limit 4)"
    )
    assert not told(examined(symmetry=lopsided, symmetric=False), "The order of pairs matters")
    assert not told(examined(symmetry=None), "The order of pairs matters")
    assert told(examined(matrix=np.full((6, 6), 10.5)), "The counts are not whole numbers")
    assert told(examined(converged=False), "The fit stopped")
    assert examined(matrix=np.full((6, 6), 0.01)).quantities["expected_error"] == 2  # no ℓ₁ error is larger


def test_numbers_of_a_structure():
    found = examined()
    lam = 2 * 6 * 0.01 / (2 / 6)
    n = found.quantities["n_pairs"]
    assert found.quantities["detection_gain"] == pytest.approx(2 * lam**2 * n / 6)
    assert found.quantities["detectable_value"] == pytest.approx(sqrt(6 / n))
    power = pair_structure.structure_power(n, (6, 6), lam, symmetric=True)
    assert found.quantities["power"] == pytest.approx(power)
    assert found.quantities["separation_l1"] == pytest.approx(0.6)
    assert "separation_l1" not in examined(K=3, p_values=(1e-6, 1e-6), agreement=(0.9, 0.9)).quantities


def test_the_anchor_matrix_is_that_of_the_items_above_zero():
    rho, delta = np.array([0.4, 0.1, 0.3, 0.2]), np.array([0.1, -0.05, 0.02, -0.07])
    by_hand = np.array([[0.7, 0.12], [0.3, -0.12]])
    assert pairs.anchor_condition(delta, rho) == pytest.approx(np.linalg.cond(by_hand))
    assert pairs.anchor_condition(np.zeros(4), rho) == np.inf


@pytest.mark.parametrize(("size", "doubted"), [(0.0499 / 6, True), (0.0501 / 6, False)])
def test_kinds_that_barely_differ_are_reported(size, doubted):
    delta = np.tile([size, -size], 3)[:, None]
    found = examined(factored=Factored(np.full(6, 1 / 6), np.full(6, 1 / 6), delta, delta, np.ones(1)))
    a = 3 * size
    condition = np.linalg.cond(np.array([[0.5, a], [0.5, -a]]))  # 1/(2a), 20 at .05/6
    assert found.quantities["anchor_condition"] == pytest.approx(condition)
    assert told(found, "barely differ") == (condition > 20) == doubted


def test_bins_by_the_paper():
    """(18): 2 exp(−e^τ e^k d₀/2); a good bin has W ≥ C e^{−k} and S/2W ≥ C, C = ‖Δ‖₁/24."""
    edges = np.array([0.5, 2.0])
    level = np.array([0, 1, 1, 2, 2, 2])
    delta = np.array([0.01, 0.0005, -0.0005, -0.2, 0.1, 0.1])
    mass = np.array([0.02, 0.08, 0.9])
    bins = Bins(edges, level, mass, np.array([1, 2, 3]), np.zeros(3, bool), np.ones(3))
    rows = pairs.bin_rows(bins, delta, 7.0, 2.0, 0.5)
    assert [(row["from"], row["to"], row["mass"], row["items"]) for row in rows] == [
        (0.0, 0.5, 0.02, 1), (0.5, 2.0, 0.08, 2), (2.0, None, 0.9, 3),
    ]  # fmt: skip
    spill = [2 * exp(-(2**0.5) * upper * 7.0 / 2) for upper in edges]
    assert [row["spillover_bound"] for row in rows[:2]] == pytest.approx(spill)
    assert rows[2]["spillover_bound"] is None
    C = 0.411 / 24
    by_hand = [
        mass[0] >= C * min(1 / 0.5, 1.0) and 0.01 / (2 * mass[0]) >= C,
        mass[1] >= C / 2.0 and 0.001 / (2 * mass[1]) >= C,
        0.4 / (2 * mass[2]) >= C,
    ]
    assert by_hand == [True, False, True]
    assert [row["good"] for row in rows] == by_hand


def test_a_bin_below_its_mass_is_not_good():
    edges, delta = np.array([0.5, 4.0]), np.array([0.2, 0.2, 0.2])
    C = 0.6 / 24
    for mass, good in ((0.99 * C, False), (1.01 * C, True)):  # e^{−k} counts as 1 below 1/M
        bins = Bins(
            edges, np.array([0, 1, 2]), np.array([mass, 0.3, 0.0]), np.ones(3, int), np.zeros(3, bool), np.ones(3)
        )
        assert [row["good"] for row in pairs.bin_rows(bins, delta, 1.0, 2.0, 0.5)] == [good, True, False]
    for mass, good in ((0.99 * C / 4, False), (1.01 * C / 4, True)):
        bins = Bins(
            edges, np.array([0, 1, 2]), np.array([0.3, mass, 0.3]), np.ones(3, int), np.zeros(3, bool), np.ones(3)
        )
        assert pairs.bin_rows(bins, delta, 1.0, 2.0, 0.5)[1]["good"] == good


def test_without_a_test_at_hand_one_rank_more_than_fitted_is_tested(monkeypatch):
    asked = []

    def test(counts, **kwargs):
        asked.append((kwargs["most"], kwargs["level"], kwargs["symmetric"]))
        return StructureTest([9.0] * 3, [1e-9] * 3, 0.01, 4, [0.9] * 3)

    monkeypatch.setattr(pairs, "structure_test", test)
    for K in (1, 2, 3):
        examined(K=K, test=None)
    assert asked == [(2, 0.01, True), (3, 0.01, True), (4, 0.01, True)]


# ------------------------------------------------------------ further checks


def check_of(found, name):
    return next(check for check in found.checks if check.name == name)


def with_counts(matrix, **changed):
    """A fit by the marginals and the leading separation that the matrix itself has."""
    counts = read_counts(matrix, square=True)
    rho = (counts.row_sums + counts.column_sums) / (2 * counts.total)
    delta = np.outer(np.tile([1.0, -1.0], len(rho) // 2) * rho, [0.3])
    return examined(matrix=matrix, factored=Factored(rho, rho, delta, delta, np.ones(1)), **changed)


@pytest.mark.parametrize(("factor", "passed"), [(1, True), (2, False), (5, False)])
def test_counts_with_a_common_divisor_are_copies_or_rounded(factor, passed):
    found = with_counts(factor * (10 + np.tile([[0, 1], [1, 0]], (3, 3))))
    check = check_of(found, "common_divisor")
    assert (check.passed, check.value, check.limit) == (passed, factor, 1)
    assert passed or f"multiple of {factor}" in check.reason


def test_few_cells_may_share_a_divisor_by_chance():
    matrix = np.diag([4, 6, 8, 4, 2, 6])  # six even counts: a probability of 1/64
    assert check_of(with_counts(matrix), "common_divisor").p_value == pytest.approx(1 / 64)
    assert check_of(with_counts(matrix), "common_divisor").passed


def independent_counts(seed, size=80, n_pairs=2400):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(size, 5.0))
    return rng.multinomial(n_pairs, np.outer(law, law).reshape(-1)).reshape(size, size)


def test_repeated_lines_are_more_than_the_fit_explains():
    counts = independent_counts(0)
    rng = np.random.default_rng(1)
    for proportion, passed in ((0.0, True), (0.3, False)):
        again = rng.binomial(counts, proportion)
        matrix = counts + again
        total, rho = matrix.sum(), matrix.sum(axis=1) / matrix.sum()
        gamma = matrix.sum(axis=0) / total
        none = np.zeros((80, 0))
        found = examined((0.5,), agreement=(0.0,), K=1, matrix=matrix, symmetric=False,
                         factored=Factored(rho, gamma, none, none, np.zeros(0)))  # fmt: skip
        check = check_of(found, "repeated_pairs")
        off = ~np.eye(80, dtype=bool)
        by_hand = ((matrix * (matrix - 1))[off].sum() - total**2 * (np.outer(rho, gamma)[off] ** 2).sum()) / (2 * total)
        assert check.value == pytest.approx(by_hand)
        assert check.passed == passed
        assert passed or "repeat another one beyond what the fit explains" in check.reason


def test_one_pair_may_not_carry_the_structure():
    factored = with_counts(independent_counts(0)).quantities  # even kinds: nobody stands out
    assert factored["components"] == 2
    assert check_of(with_counts(independent_counts(0)), "strongest_pair").passed
    rho, delta = np.full(40, 1 / 40), np.full((40, 1), 1e-4)
    delta[[3, 7]] = 0.02
    matrix = np.ones((40, 40), int)
    matrix[3, 7] = 9
    found = examined(matrix=matrix, factored=Factored(rho, rho, delta, delta, np.ones(1)))
    check = check_of(found, "strongest_pair")
    square = (delta[:, 0] ** 2 / rho).sum() ** 2
    assert not check.passed
    assert check.value == pytest.approx(2 * (0.02**2 * 40) ** 2 / square)  # both orders
    assert "One pair, '3' and '7', carries 50%" in check.reason


@pytest.mark.parametrize(("times", "passed"), [(1.0, True), (0.0, False), (3.0, False)])
def test_pairs_of_an_item_with_itself_are_as_many_as_the_fit_expects(times, passed):
    matrix = np.full((20, 20), 5)
    matrix[0, 1] = 6
    np.fill_diagonal(matrix, int(5 * times))
    rho, none = np.full(20, 1 / 20), np.zeros((20, 0))
    found = examined((0.5,), K=1, matrix=matrix, factored=Factored(rho, rho, none, none, np.zeros(0)))
    check = check_of(found, "self_pairs")
    assert check.passed == passed
    assert check.value == pytest.approx(abs(100 * times - matrix.sum() / 20) / matrix.sum())
    assert passed or f"{100 * times:.0f} pairs join an item with itself" in check.reason


def test_pairs_in_one_order_of_the_items_make_a_triangle():
    rng = np.random.default_rng(0)
    matrix = rng.poisson(1.0, (30, 30))
    triangle = np.triu(matrix, 1) + np.tril(matrix, -1).T
    mixed = read_counts(matrix, square=True)
    assert pairs.proportion_in_cycles(mixed) > 0.9
    assert pairs.proportion_in_cycles(read_counts(triangle, square=True)) == 0
    shuffled = rng.permutation(30)  # whatever the order is
    assert pairs.proportion_in_cycles(read_counts(triangle[np.ix_(shuffled, shuffled)], square=True)) == 0
    two_sides = np.zeros((30, 30), int)
    two_sides[:15, 15:] = 3  # from one kind of items to another: no order of the items is meant
    assert pairs.proportion_in_cycles(read_counts(two_sides, square=True)) is None
    assert pairs.proportion_in_cycles(read_counts(np.triu(np.eye(30, k=1, dtype=int)), square=True)) is None
    rho, none = np.full(30, 1 / 30), np.zeros((30, 0))
    kept = Factored(rho, rho, none, none, np.zeros(0))
    for counted_, passed in ((matrix, True), (triangle, False)):
        found = examined((0.5,), K=1, matrix=counted_, symmetric=False, factored=kept)
        assert check_of(found, "order_of_items").passed == passed
    names = {check.name for check in examined((0.5,), K=1, matrix=triangle, factored=kept).checks}
    assert "order_of_items" not in names  # a symmetric fit does not see the order


def test_the_expected_error_is_how_far_half_of_the_counts_lead():
    found = examined()
    assert found.expected.value == pytest.approx(1.06 / sqrt(found.quantities["pairs_per_item"]) / 2)
    rho, other = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    none = np.zeros((3, 0))
    one, two = (Factored(part, part, none, none, np.zeros(0)) for part in (rho, other))
    far = 0.5 * np.abs(np.outer(rho, rho) - np.outer(other, other)).sum()
    assert pairs.moved_probability(one, two) == pytest.approx(far)
    matrix = np.array([[9, 5, 4], [5, 4, 2], [4, 2, 2]])
    halves = []
    found = examined((0.5,), K=1, matrix=matrix, factored=one, refit=lambda half: halves.append(half) or two)
    assert found.expected.value == pytest.approx(far)
    assert sum(half.total for half in halves) == matrix.sum()


def test_a_sample_of_rows_measures_the_distance_of_large_matrices():
    rng = np.random.default_rng(0)
    none = np.zeros((3000, 0))
    rho, other = rng.dirichlet(np.full(3000, 0.5), 2)
    one, two = (Factored(part, part, none, none, np.zeros(0)) for part in (rho, (rho + other) / 2))
    assert pairs.moved_probability(one, two) == pytest.approx(pairs.moved_probability(one, two, 3000), rel=0.1)


def test_the_expected_error_of_simulated_pairs_is_the_actual_one():
    ratios = []
    for seed, model in enumerate(("example1", "zipf", "graded", "topics")):
        world = pairs_of(300, 9000, model, separation=0.9, n_components=3, random_state=seed)
        fitted = PairMatrix(3 if model == "topics" else 2).fit(world.counts)
        actual = 0.5 * np.abs(fitted.reconstruct().toarray() - world.rows(np.arange(300))).sum()
        ratios.append(fitted.report_.expected.value / actual)
    assert min(ratios) > 0.6
    assert max(ratios) < 1.7


def test_every_check_has_a_name_a_title_and_a_failure_a_number_and_something_to_do():
    rng = np.random.default_rng(0)
    world = pairs_of(100, 4000, "topics", n_components=3, random_state=0).counts.toarray()
    even = rng.poisson(1.0, (60, 60))
    triangle = np.triu(even, 1) + np.tril(even, -1).T
    hollow = world.copy()
    np.fill_diagonal(hollow, 0)
    given = [(2, even, {}), (None, even, {}), (2, world, {}), (6, world, {}), (3, 4 * world, {}), (3, 0.3 * world, {}),
             (2, triangle, {}), (2, triangle, {"symmetric": True}), (None, hollow, {}),
             (4, world, {"max_iter": 1})]  # fmt: skip
    failed = []
    for number, counts, settings in given:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = PairMatrix(number, **settings).fit(counts).report_
        assert len({check.name for check in report.checks}) == len(report.checks)
        assert all(check.title and check.level in ("caution", "not identifiable") for check in report.checks)
        assert report.expected is not None
        assert 0 <= report.expected.value <= 1
        failed += [check for check in report.checks if not check.passed]
    assert len({check.name for check in failed}) >= 8
    for check in failed:
        assert any(letter.isdigit() for letter in check.reason) or check.name in ("converged", "whole_counts"), check
        assert any(f"{verb} " in check.reason.lower() for verb in
                   ("use", "count", "give", "divide", "raise", "set", "chooses", "remove", "leave")), check  # fmt: skip
        assert check.reason.endswith("."), check
