"""The clustering paper's definitions and bounds against its formulas written out, and by hand."""

from __future__ import annotations

from itertools import combinations
from math import ceil, comb, exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentfit.clusters import theory as theorems
from latentfit.core.errors import DataError


def test_separability_by_hand():
    P = np.array([[0.1, 0.5, 0.9, 0.5], [0.9, 0.5, 0.1, 0.5], [0.1, 0.9, 0.9, 0.4]])
    # differences: (0,1): .8 0 .8 0 · (0,2): 0 .4 0 .1 · (1,2): .8 .4 .8 .1
    assert theorems.separable_columns(P, 0.8) == 0
    assert theorems.separable_columns(P, 0.39) == 1
    assert theorems.separable_columns(P, 0.09) == 2
    assert theorems.separable_delta(P, 1) == pytest.approx(0.4)
    assert theorems.separable_delta(P, 2) == pytest.approx(0.1)
    assert theorems.separable_columns(P[:1], 0.5) == 4
    assert theorems.separable_delta(P[:1], 2) == 1
    with pytest.raises(DataError, match="separable is 5 and P has 4 columns"):
        theorems.separable_delta(P, 5)


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 8))
def test_separability_is_what_the_definition_says(seed, K, L):
    P = np.random.default_rng(seed).random((K, L))
    for separable in range(1, L + 1):
        delta = theorems.separable_delta(P, separable)
        for k, other in combinations(range(K), 2):
            assert sum(abs(P[k, l] - P[other, l]) >= delta for l in range(L)) >= separable
        assert theorems.separable_columns(P, delta) >= separable
        assert theorems.separable_columns(P, np.nextafter(delta, 2)) < separable


def test_purity_by_hand():
    labels, truth = np.array([0, 0, 0, 0, 1, 1, 3]), np.array([0, 0, 0, 1, 1, 1, 0])
    np.testing.assert_allclose(theorems.impurities(labels, truth), [0.25, 0, 0, 0])
    assert theorems.is_correct(labels, truth, 0.25)
    assert not theorems.is_correct(labels, truth, 0.24)
    weight = np.array([1, 1, 1, 3, 1, 1, 1.0])
    assert theorems.impurities(labels, truth, weight)[0] == pytest.approx(0.5)


def test_generic_identifiability():
    assert [theorems.least_columns(K) for K in (1, 2, 3, 4, 5, 8, 9)] == [1, 3, 5, 5, 7, 7, 9]


@pytest.mark.parametrize(("L", "K"), [(L, K) for L in range(2, 7) for K in range(2, 10)])
def test_a_model_is_identifiable_exactly_where_the_parameters_move_the_row_probabilities_independently(L, K):
    """The Jacobian of all 2^L unique row frequencies in weights and frequencies, at a random point, has full rank."""
    rng = np.random.default_rng([L, K])
    P, unique_rows = rng.uniform(0.1, 0.9, (K, L)), (np.arange(2**L)[:, None] >> np.arange(L)) & 1
    each = np.where(unique_rows[:, None, :] == 1, P, 1 - P)  # (2^L, K, L)
    of_weights = each.prod(axis=2)
    of_columns = [(2 * unique_rows[:, None, at] - 1) * np.delete(each, at, axis=2).prod(axis=2) for at in range(L)]
    jacobian = np.hstack([of_weights[:, 1:] - of_weights[:, :1], *of_columns])
    full = np.linalg.matrix_rank(jacobian, tol=1e-9) == K * (L + 1) - 1
    assert theorems.has_room(L, K) == full


@pytest.mark.parametrize(("alpha", "delta", "epsilon"), [(0.5, 0.9, 0.1), (0.5, 0.6, 0.2), (0.25, 0.9, 0.3)])
def test_bounds_written_out(alpha, delta, epsilon):
    K, n, L, S = int(1 / alpha), 5e6, 900, 700
    tau = epsilon / 2 * (1 + log(1 / (alpha * epsilon)))  # (4.2)
    exact_d = (1 - alpha) / (2 * (alpha * delta) ** 2 * (1 - epsilon)) * (1 + log(1 / (alpha * epsilon)))  # (4.1)
    assert theorems.threshold(K, epsilon) == pytest.approx(tau, rel=1e-12)
    assert theorems.sub_dimension(K, delta, epsilon) == pytest.approx(exact_d, rel=1e-12)
    d = ceil(exact_d)
    beta = tau**2 / (d**4 * 2 ** (d + 1))
    close = {"rel": 1e-10, "abs": 1e-10}
    assert theorems.lemma_4_1(n, d, K, delta, epsilon) == pytest.approx(
        {
            "tau": tau, "log_beta": log(beta), "log_bound": log(2 ** (d + 1)) - beta * n,
            "least_separable": (1 + log(K / epsilon)) / ((1 - epsilon) * delta**2),
        }, **close,
    )  # fmt: skip
    assert theorems.lemma_4_2(n, d, K, epsilon)["log_bound"] == pytest.approx(
        log(2 ** (d + 1)) - beta * d**2 * n, **close
    )
    found = theorems.lemma_4_3(n, L, S, K, delta, epsilon)
    assert found["log_impure"] == pytest.approx(log(4) * S - tau**2 * n * S / (d**5 * 2 ** (d + 1)), **close)
    assert found["log_impure_floor"] == pytest.approx((S // d) * (log(2 ** (d + 1)) - beta * n), **close)
    pure = log(comb(L, d)) + log(2 ** (d + 1)) - tau**2 * n / (d**2 * 2 ** (d + 1))
    assert found["log_pure"] == pytest.approx(pure, **close)
    assert theorems.lemma_a2(n, d, 0.3)["log_bound"] == pytest.approx(
        log(2 ** (d + 1)) - n * 0.3**2 / (d**4 * 2 ** (d + 1)), **close
    )
    assert theorems.lemma_a3(200, K, alpha)["log_bound"] == pytest.approx(log(K * exp(-200 * alpha**2 / 2)), **close)
    whole = theorems.theorem_3_1(n, L, S, alpha, delta, epsilon)
    expected = [
        (n + 1) * log(K) + S * log(4) - alpha * tau**2 * n * S / (d**5 * 2 ** (d + 2)),  # (4.5)
        log(K) + log(comb(L, d)) + log(2 ** (d + 1)) - alpha * tau**2 * n / (d**2 * 2 ** (d + 2)),  # (4.7)
        log(K) - n * alpha**2 / 2,  # (A.17)
    ]
    names = ("log_accept_impure", "log_reject_truth", "log_small_class")
    np.testing.assert_allclose([whole[name] for name in names], expected, rtol=1e-10)
    assert whole["promised"] == 0  # far too few columns
    assert whole["in_force"] == 1


@pytest.mark.parametrize(("alpha", "delta", "epsilon"), [(0.5, 1.0, 0.3), (0.5, 0.9, 0.1), (0.4, 0.95, 0.2)])
def test_needed_is_enough_and_smallest(alpha, delta, epsilon):
    zeta = 0.05
    found = theorems.needed(alpha, delta, epsilon, zeta)
    n, S = found["n"], found["separable"]

    def errors(n, S):
        at = theorems.theorem_3_1(n, S, S, alpha, delta, epsilon)
        return max(at["log_accept_impure"], at["log_reject_truth"], at["log_small_class"])

    assert errors(n, S) <= log(zeta / 3) < errors(n - 1, S)
    assert theorems.theorem_3_1(n, S, S, alpha, delta, epsilon)["promised"] >= 1 - zeta
    for factor in (0.9, 1.1):  # no other 𝓛 asks for less data
        other = theorems.needed_rows(ceil(S * factor), alpha, delta, epsilon, zeta)["n"]
        assert other * S * factor >= n * S * (1 - 1e-6)
    assert theorems.needed_rows(S / 3, alpha, delta, epsilon, zeta)["n"] == np.inf  # (4.5) grows with n there


def test_astronomical_settings_keep_their_logarithms():
    found = theorems.needed(0.2, 0.4, 0.1, 0.05)
    assert found["d"] == 342
    assert 118 < found["log10_n"] < 119
    beyond = theorems.needed(0.1, 0.1, 0.01, 0.05)
    assert beyond["n"] == np.inf
    assert 10_000 < beyond["log10_n"] < 11_000
    assert theorems.theorem_3_1(1e4, 100, 100, 0.2, 0.4, 0.1)["promised"] == 0
    with pytest.raises(DataError, match="with one class every clustering is pure"):
        theorems.needed(0.9, 0.4, 0.1, 0.05)
    with pytest.raises(DataError, match="with one class every clustering is pure"):
        theorems.needed_rows(10, 1.0, 0.4, 0.1, 0.05)


def test_lemma_a1_as_stated_as_proved_and_repaired():
    K, epsilon, delta = 10, 0.1, 0.5
    least = (1 + log(K / epsilon)) / ((1 - epsilon) * delta**2)
    found = theorems.lemma_a1(least, K, delta, epsilon)
    assert found["stated"] == pytest.approx(2 * theorems.threshold(K, epsilon))  # 2τ at the least 𝓛
    assert found["infimum_a10"] < 0 < found["stated"] <= found["repaired"] + 1e-12


@given(st.integers(0, 100_000), st.integers(2, 5), st.floats(0.02, 0.4))
def test_the_repaired_bound_holds(seed, K, epsilon):
    """Against the exact limit of D: the divergence of a mixture from the product of its marginals."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 9))
    P = rng.choice([0.05, 0.5, 0.95], size=(K, d)) if seed % 2 else rng.random((K, d))
    w = rng.dirichlet(np.ones(K))
    w = np.minimum(w, 1 - epsilon)
    w = w / w.sum()
    if w.max() > 1 - epsilon:
        return
    cells = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    each = np.where(cells[None], P[:, None], 1 - P[:, None]).prod(axis=2)  # (K, 2^d)
    joint, mean = w @ each, w @ P
    product = np.where(cells, mean, 1 - mean).prod(axis=1)
    seen = joint > 0
    limit = float((joint[seen] * np.log(joint[seen] / product[seen])).sum())
    for delta in (0.2, 0.4, 0.8):
        separable = theorems.separable_columns(P, delta)
        assert limit >= theorems.lemma_a1(separable, K, delta, epsilon)["repaired"] - 1e-9


def test_lemmas_about_mixtures_refuse_one_class():
    with pytest.raises(DataError, match=r"K is 1 and Lemma 4\.3 is about mixtures; give two classes or more"):
        theorems.lemma_4_3(1_000, 50, 20, 1, 0.5, 0.1)
    with pytest.raises(DataError, match=r"K is 1 and Lemma A\.1 is about mixtures; give two classes or more"):
        theorems.lemma_a1(20, 1, 0.5, 0.1)


def test_definitions_at_their_ends():
    labels, truth = np.array([0, 0, 0, 2, 2]), np.array([0, 0, 1, 1, 1])
    np.testing.assert_allclose(theorems.impurities(labels, truth), [1 / 3, 0, 0])
    np.testing.assert_allclose(theorems.impurities(labels, truth, np.array([1.0, 1, 3, 1, 1])), [2 / 5, 0, 0])
    assert theorems.is_correct(labels, truth, 1 / 3)
    assert not theorems.is_correct(labels, truth, 0.33)
    P = np.array([[0.1, 0.5], [0.6, 0.5]])
    assert theorems.separable_delta(P, 1) == pytest.approx(0.5)
    assert theorems.separable_delta(P, 2) == 0
    for wrong in (0, 3):
        with pytest.raises(DataError, match="give 1 to that many"):
            theorems.separable_delta(P, wrong)
    assert theorems.separable_delta(P[:1], 2) == 1
    assert theorems.separable_columns(P[:1], 0.1) == 2


def test_the_promise_is_what_the_three_errors_leave():
    alpha, delta, epsilon = 0.5, 1.0, 0.3
    found = theorems.needed(alpha, delta, epsilon, 0.05)
    n, S, d = found["n"], found["separable"], found["d"]
    at = theorems.theorem_3_1(n, S, S, alpha, delta, epsilon)
    errors = [at[name] for name in ("log_accept_impure", "log_reject_truth", "log_small_class")]
    assert at["promised"] == pytest.approx(1 - sum(exp(e) for e in errors))
    assert at["exponent"] == pytest.approx(2 + (1 - alpha) / (2 * alpha**2 * delta**2))
    for separable, force in ((d, 0), (d + 1, 1)):
        at = theorems.theorem_3_1(n, S, separable, alpha, delta, epsilon)
        assert (at["in_force"], theorems.lemma_4_3(n, S, separable, 2, delta, epsilon)["in_force"]) == (force, force)
    assert theorems.needed_rows(d, alpha, delta, epsilon, 0.05)["n"] == inf
    one = theorems.theorem_3_1(1e4, 50, 50, 1.0, delta, epsilon)  # a single class: only its size can fail
    assert (one["log_accept_impure"], one["log_reject_truth"]) == (-inf, -inf)
    assert one["promised"] == pytest.approx(1 - exp(-1e4 / 2))


def test_lemma_a1_is_an_infimum_over_the_largest_weight():
    K, epsilon, x = 4, 0.1, 30 * 0.5**2
    grid = np.linspace(epsilon, 1 - 1 / K, 20_001)
    a_10 = min(2 * r * (1 - r) * x - r * (1 + log(K / r)) for r in grid)
    least = inf
    for r in grid:
        entropy = -(1 - r) * log(1 - r) - r * log(r / (K - 1))
        least = min(least, (2 * r * (1 - r) if r <= 0.5 else r) * x - entropy)
    found = theorems.lemma_a1(30, K, 0.5, epsilon)
    assert found["stated"] == pytest.approx(2 * epsilon * (1 - epsilon) * x - epsilon * (1 + log(K / epsilon)))
    assert found["infimum_a10"] == pytest.approx(a_10, rel=1e-5)
    assert found["repaired"] == pytest.approx(least, rel=1e-5)


def test_logarithms_of_large_numbers_join_those_written_out():
    for L, d in ((10, 3), (40, 17), (5, 5)):
        assert theorems._log_binomial(log(L), d) == pytest.approx(log(comb(L, d)), abs=1e-9)
    assert theorems._log_binomial(log(4), 6) == -inf
    assert theorems._log_binomial(log(2.0**53), 7) == pytest.approx(log(comb(2**53, 7)), rel=1e-12)
    K, log_c = 3, -20.0
    small = 4 * log(10)
    assert theorems._accept_impure(small, small, K, log_c) == pytest.approx(
        (1e4 + 1) * log(K) + 1e4 * log(4) - 1e8 * exp(-20)
    )
    for extra, sign in ((1.0, inf), (-1.0, -inf)):  # beyond floats the larger side decides: n log K + 𝓛 log 4 or n𝓛c
        log_n = log_s = 695.0
        even = log(log(K) + log(4)) - 695.0
        assert theorems._accept_impure(log_n, log_s, K, even - extra) == sign
    assert [theorems._exp(v) for v in (701.0, -inf, 0.0)] == [inf, 0.0, 1.0]
