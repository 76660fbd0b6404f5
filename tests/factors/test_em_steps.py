"""Hidden switches: states and their sums, baselines, picks of candidates, on numbers that a hand can follow."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.core.em import EMResult
from latentfit.core.multistart import Selected
from latentfit.core.tensor import binary, whitened
from latentfit.core.tensor.binary import complete, pick
from latentfit.core.tensor.eigenpairs import Eigenpairs
from latentfit.core.tensor.whitened import estimate_noise
from latentfit.factors import init as initialisation
from latentfit.factors.em import least_squares as switch_always_on
from latentfit.factors.em import states as switch_states
from latentfit.factors.em import steps as switches
from latentfit.factors.em.least_squares import (
    alternating_least_squares,
    baseline,
    conventional,
    oracle,
    settle_baseline,
    weighted_least_squares,
)
from latentfit.factors.em.states import (
    best_all,
    bits,
    codes_of,
    constants,
    flips,
    pair_moments,
    posterior_all,
    posterior_near,
    posterior_split,
    split_table,
    state_blocks,
    states,
)
from latentfit.factors.em.steps import (
    SwitchParams,
    SwitchSteps,
    initial_centres,
    initial_params,
    most_likely,
    plane_steps,
    posterior,
    refine_switches,
    way_to_sum,
)
from latentfit.factors.init import ambiguous, jittered_picks, selected_params
from reproduction.switches_methods import random_switches


def some_params(d=3, q=4, seed=0, sigma2=0.5):
    rng = np.random.default_rng(seed)
    return SwitchParams(rng.normal(size=(d, q)), np.log(rng.dirichlet(np.ones(2**d))), sigma2)


def all_states(d):
    """Switch i is bit i."""
    return [h[::-1] for h in product((0, 1), repeat=d)]


# ----------------------------------------------------------------- states


def test_switch_i_is_bit_i():
    assert states(3).tolist() == [list(h) for h in all_states(3)]
    assert bits(np.array([6, 1]), 4).tolist() == [[0, 1, 1, 0], [1, 0, 0, 0]]
    assert codes_of(np.array([[False, True, True], [True, False, False]])).tolist() == [6, 1]
    around = flips(4, 2)
    assert around.masks.tolist() == [0, 1, 2, 4, 8, 3, 5, 9, 6, 10, 12]
    assert len(flips(3, 9).masks) == 8
    for mask, some in zip(around.masks, around.sets, strict=True):
        assert mask == sum(2**i for i in range(4) if some[i])


def test_pairs_of_many_switches_are_summed_in_chunks():
    state_counts = np.random.default_rng(0).random(2**13)
    h = ((np.arange(2**13)[:, None] >> np.arange(13)) & 1).astype(float)
    np.testing.assert_allclose(pair_moments(state_counts, 13), h.T @ (state_counts[:, None] * h), rtol=1e-10)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_weights_of_states_are_those_of_the_model(d):
    params = some_params(d)
    G = params.W @ params.W.T
    X = np.random.default_rng(1).normal(size=(6, 4))
    beta = X @ params.W.T / params.sigma2
    logs = np.array(
        [
            [params.log_prior[c] - ((x - np.array(h) @ params.W) ** 2 - x**2).sum() / (2 * params.sigma2)
             for c, h in enumerate(all_states(d))]
            for x in X
        ]
    )  # fmt: skip
    chances = np.exp(logs)
    want = chances / chances.sum(axis=1, keepdims=True)
    constant = constants(G, params.sigma2, params.log_prior)
    for found in (
        posterior_all(beta, constant),
        posterior_split(beta, split_table(G, params.sigma2, params.log_prior)),
        posterior_near(beta, G, params.sigma2, params.log_prior, np.zeros(6, np.int64), d),
    ):
        np.testing.assert_allclose(found.log_sum, np.log(chances.sum(axis=1)), rtol=1e-9)
        np.testing.assert_allclose(found.mean, want @ np.array(all_states(d)), atol=1e-10)
        np.testing.assert_allclose(found.state_counts, want.sum(axis=0), rtol=1e-9)
    assert best_all(beta, constant).tolist() == logs.argmax(axis=1).tolist()
    split = split_table(G, params.sigma2, params.log_prior)
    cross = [
        params.log_prior[c] - np.array(h)[: d // 2] @ G[: d // 2, d // 2 :] @ np.array(h)[d // 2 :] / params.sigma2
        for c, h in enumerate(all_states(d))
    ]
    assert split.spread == pytest.approx(max(cross) - min(cross))
    assert split.largest == pytest.approx(max(cross))


def test_few_rows_at_a_time_are_the_same(monkeypatch):
    params = some_params(4)
    G = params.W @ params.W.T
    beta = np.random.default_rng(1).normal(size=(70, 4))

    def found():
        constant = constants(G, params.sigma2, params.log_prior)
        return [
            posterior_all(beta, constant),
            posterior_split(beta, split_table(G, params.sigma2, params.log_prior)),
            posterior_near(beta, G, params.sigma2, params.log_prior, np.full(70, 5), 2),
        ], best_all(beta, constant)

    whole, best = found()
    assert state_blocks(200, 2**10) == [slice(0, 128), slice(128, 200)]
    monkeypatch.setattr(switch_states, "CELLS", 1)
    assert state_blocks(20, 2**10) == [slice(0, 16), slice(16, 20)]
    parts, again = found()
    assert best.tolist() == again.tolist()
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one.log_sum, other.log_sum, rtol=1e-12)
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-12)
        np.testing.assert_allclose(one.state_counts, other.state_counts, rtol=1e-10)
    assert whole[2].centres.tolist() == parts[2].centres.tolist()


def test_near_states_are_summed_around_centres_that_move_where_the_sum_rises(monkeypatch):
    params = some_params(4, sigma2=0.05)
    G = params.W @ params.W.T
    h = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]], float)
    beta = h @ G / 0.05
    logs = beta @ states(4).T + constants(G, 0.05, params.log_prior)
    found = posterior_near(beta, G, 0.05, params.log_prior, np.zeros(3, np.int64), 1)
    for row in range(3):
        centre = int(found.centres[row])
        near = [centre, *(centre ^ (1 << i) for i in range(4))]
        assert found.log_sum[row] == pytest.approx(np.log(np.exp(logs[row, near]).sum()))
        share = np.exp(logs[row, near] - found.log_sum[row])
        np.testing.assert_allclose(found.mean[row], share @ states(4)[near], atol=1e-9)
        there = near[int(logs[row, near].argmax())]  # a move to the likeliest of them would not raise the sum
        beyond = [there, *(there ^ (1 << i) for i in range(4))]
        assert np.log(np.exp(logs[row, beyond]).sum()) <= found.log_sum[row] + 1e-9
    assert found.state_counts.sum() == pytest.approx(3.0)
    monkeypatch.setattr(switch_states, "RECENTRE", 0)
    still = posterior_near(beta, G, 0.05, params.log_prior, np.zeros(3, np.int64), 1)
    assert still.centres.tolist() == [0, 0, 0]
    assert (found.log_sum >= still.log_sum).all()
    assert (found.log_sum > still.log_sum).any()


# ------------------------------------------------------------------ steps


def test_a_pass_and_its_objective_are_those_of_the_model():
    params = some_params()
    X = np.random.default_rng(2).normal(size=(7, 4))
    steps = SwitchSteps(X, float((X**2).sum()), 4, "all")
    sums = steps.e_step(params)
    value, state_counts, cross = 0.0, np.zeros(8), np.zeros((3, 4))
    for x in X:
        chances = [
            np.exp(params.log_prior[c] - ((x - np.array(h) @ params.W) ** 2).sum() / (2 * 0.5)) / (np.pi) ** 2
            for c, h in enumerate(all_states(3))
        ]  # (2πσ²)^(m/2) = π²
        value += np.log(sum(chances))
        share = np.array(chances) / sum(chances)
        state_counts += share
        cross += np.outer(share @ states(3), x)
    assert sums.log_likelihood == pytest.approx(value)
    np.testing.assert_allclose(sums.state_counts, state_counts)
    np.testing.assert_allclose(sums.cross, cross)
    assert steps.objective(params, sums) == pytest.approx(value + params.log_prior.mean())
    found = steps.m_step(sums)
    share = (state_counts + 1 / 8) / 8
    np.testing.assert_allclose(np.exp(found.log_prior), share)
    both = states(3).T @ (state_counts[:, None] * states(3))
    np.testing.assert_allclose(found.W, np.linalg.solve(both, cross), rtol=1e-8)
    misfit = sum(
        p * ((x - np.array(h) @ found.W) ** 2).sum()
        for x in X
        for h, p in zip(all_states(3), _posterior_of(x, params), strict=True)
    )
    assert found.sigma2 == pytest.approx(misfit / 28)
    assert (steps.n_rows, steps.n_cells) == (7, 28)
    mean, values = posterior(X, params)
    assert values.sum() == pytest.approx(value)
    assert mean[0] == pytest.approx(_posterior_of(X[0], params) @ states(3))


def _posterior_of(x, params):
    chances = np.array(
        [
            np.exp(params.log_prior[c] - ((x - np.array(h) @ params.W) ** 2).sum() / (2 * params.sigma2))
            for c, h in enumerate(all_states(params.d))
        ]
    )
    return chances / chances.sum()


def test_rows_in_a_plane_count_by_all_their_features():
    X = np.random.default_rng(3).normal(size=(6, 5))
    basis = np.linalg.qr(np.random.default_rng(4).normal(size=(5, 3)))[0]
    params = some_params(3, 3)
    plane = plane_steps(X, basis, "all")
    full = SwitchSteps(X, float((X**2).sum()), 5, "all")
    wide = SwitchParams(params.W @ basis.T, params.log_prior, params.sigma2)
    assert plane.e_step(params).log_likelihood == pytest.approx(full.e_step(wide).log_likelihood)
    assert plane.n_cells == 30


def test_a_start_has_independent_switches():
    found = initial_params(np.ones((3, 4)), np.array([0.3, 0.0, 1.5]), 0.2)
    on = [0.3, 0.02, 0.98]
    for code, h in enumerate(all_states(3)):
        chance = np.prod([p if one else 1 - p for p, one in zip(on, h, strict=True)])
        assert np.exp(found.log_prior[code]) == pytest.approx(chance)
    assert initial_params(np.ones((1, 1)), np.array([0.5]), 0.0).sigma2 > 0


def test_switches_in_another_order_are_the_same_model():
    params = some_params()
    turned = params.permuted(np.array([2, 0, 1]))
    X = np.random.default_rng(2).normal(size=(5, 4))
    mean, values = posterior(X, params)
    again, same = posterior(X, turned)
    np.testing.assert_allclose(again, mean[:, [2, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(same, values, rtol=1e-12)
    np.testing.assert_allclose(params.spread, np.sqrt(0.5) * np.linalg.norm(np.linalg.pinv(params.W), axis=0))


def test_which_states_are_summed(monkeypatch):
    def chosen(d, sigma2, scale=1.0):
        return way_to_sum(SwitchParams(scale * np.eye(d), np.full(2**d, -d * np.log(2)), sigma2))

    monkeypatch.setattr(switches, "SETTINGS", replace(switches.SETTINGS, all_states=3))
    monkeypatch.setattr(switches, "SETTINGS", replace(switches.SETTINGS, split_states=4))
    assert chosen(3, 1e-9) == "all"
    assert chosen(4, 1.0) == "all"
    assert chosen(5, 1.0) == "near3"
    assert chosen(5, 0.0899) == "near2"  # σ‖v‖ = .2998
    assert chosen(5, 0.0901) == "near3"
    tight = np.eye(4) + 1.0
    for sigma2, how in ((1.0, "all"), (1e-3, "near2")):
        params = SwitchParams(tight, np.full(16, -4 * np.log(2)), sigma2)
        spread = split_table(tight @ tight.T, sigma2, params.log_prior).spread
        assert (spread <= 300) == (how == "all")
        assert way_to_sum(params) == how


@pytest.mark.parametrize("sigma2", [1.0, 1e-4])
def test_posteriors_are_the_same_by_either_sum(monkeypatch, sigma2):
    params = some_params(4, 5, sigma2=sigma2)
    X = states(4)[[3, 9, 14]] @ params.W
    want = posterior(X, params)
    best = most_likely(X, params)
    np.testing.assert_array_equal(best, states(4)[[3, 9, 14]] if sigma2 < 1 else best)
    monkeypatch.setattr(switches, "SAFE_RANGE", -1.0)
    for one, other in zip(posterior(X, params), want, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8, rtol=1e-9)
    monkeypatch.setattr(switches, "SETTINGS", replace(switches.SETTINGS, exact_states=3))
    if sigma2 < 1:
        np.testing.assert_array_equal(most_likely(X, params), best)
        np.testing.assert_allclose(posterior(X, params)[0], want[0], atol=1e-8)


def test_initial_centres_are_rounded_unmixed_values():
    W = np.array([[2.0, 0.0], [1.0, 1.0]])
    h = np.array([[0.4, 0.6], [0.51, 0.49], [1.3, 0.9], [-0.2, 0.1]])
    beta = (h @ W) @ W.T / 0.3
    assert initial_centres(beta, W @ W.T, 0.3).tolist() == [2, 1, 3, 0]


def test_em_runs_in_the_plane_and_then_at_least_one_step_in_the_full_space(monkeypatch):
    rng = np.random.default_rng(0)
    X = (rng.random((40, 2)) < 0.5) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(40, 5))
    start = initial_params(rng.normal(size=(2, 5)), np.full(2, 0.5), 0.5)
    heard = []
    real = switches.em

    def em(steps, params, *, max_iter, **rest):
        heard.append((params.W.shape, max_iter))
        return real(steps, params, max_iter=max_iter, **rest)

    monkeypatch.setattr(switches, "em", em)
    found = refine_switches(X, start, max_iter=7, tol=0.0, accelerate=False)
    assert heard == [((2, 2), 6), ((2, 5), 1)]
    assert found.n_iter == 7
    assert len(found.path) == 8
    assert (np.diff(found.path) >= -1e-9 * np.abs(found.path[:-1])).all()
    heard.clear()
    none = refine_switches(X, start, max_iter=0)
    assert heard == [((2, 5), 0)]
    assert none.params.W is start.W


# -------------------------------------------------------------- baselines


def law(d, **chances):
    """Log-probabilities of states written as switches, 'h0h1…'."""
    P = np.full(2**d, 1e-12)
    for name, chance in chances.items():
        P[sum(2**i for i, letter in enumerate(name[1:]) if letter == "1")] = chance
    return np.log(P / P.sum())


def test_a_baseline_is_a_switch_that_is_always_on_or_switches_that_sum_to_one():
    W = np.eye(2)

    def found(**chances):
        u = baseline(SwitchParams(W, law(2, **chances), 0.1))
        return None if u is None else u.tolist()

    assert found(s10=0.4, s11=0.6) == [1, 0]
    assert found(s10=0.4, s01=0.6) == [1, 1]
    assert found(s00=0.25, s10=0.25, s01=0.25, s11=0.25) is None
    assert found(s10=0.5, s11=0.47, s00=0.015, s01=0.015) is None  # .97 of the constant
    assert found(s10=0.5, s11=0.48, s00=0.01, s01=0.01) == [1, 0]
    assert found(s00=1.0) is None


def test_the_baseline_takes_its_place_and_others_are_on_in_at_most_half_of_the_rows():
    W = np.array([[1.0, 2.0], [3.0, 5.0]])
    params = SwitchParams(W, law(2, s10=0.4, s11=0.6), 0.1)  # the first always on, the second mostly
    turned = conventional(params, 1000)
    np.testing.assert_allclose(turned.W, [[4.0, 7.0], [-3.0, -5.0]])
    share = np.array([0, 0.6, 0, 0.4]) + 1 / 4000
    np.testing.assert_allclose(np.exp(turned.log_prior), share / share.sum(), rtol=1e-6)
    assert conventional(SwitchParams(W, law(2, s10=0.6, s11=0.4), 0.1), 1000) is None  # as it should be
    assert conventional(SwitchParams(W, law(2, s10=0.5, s11=0.5), 0.1), 1000) is None
    sums = conventional(SwitchParams(W, law(2, s10=0.7, s01=0.3), 0.1), 1000)  # h₀ + h₁ = 1
    np.testing.assert_allclose(sums.W, [[1.0, 2.0], [2.0, 3.0]])  # w₀ + (w₁ − w₀) h₁
    share = np.array([0, 0.7, 0, 0.3]) + 1 / 4000
    np.testing.assert_allclose(np.exp(sums.log_prior), share / share.sum(), rtol=1e-6)


@pytest.mark.parametrize(("loss", "taken"), [(0.99, True), (1.01, False)])
def test_a_baseline_may_cost_a_thousandth_of_a_nat_per_row(monkeypatch, loss, taken):
    X = np.ones((1000, 2))
    params = SwitchParams(np.array([[1.0, 2.0], [3.0, 5.0]]), law(2, s10=0.4, s11=0.6), 0.1)
    old = EMResult(params, None, -50.0, -50.0, 3, True, [])
    new = EMResult(params, None, -50.0 - loss, -50.0, 4, True, [])
    limits = []
    monkeypatch.setattr(
        switch_always_on, "refine_switches", lambda *rest, max_iter, **more: limits.append(max_iter) or new
    )
    found, note = settle_baseline(X, old, max_iter=5, tol=0.1)
    assert (found is old, note is None) == (not taken, not taken)
    assert found.n_iter == (7 if taken else 3)
    assert settle_baseline(X, old, max_iter=2, tol=0.1)[0].n_iter == found.n_iter
    assert limits == [2, 0]  # what the first climb left of the passes
    plain = EMResult(some_params(2, 2), None, -50.0, -50.0, 3, True, [])
    assert settle_baseline(X, plain, max_iter=5, tol=0.1) == (plain, None)


def test_appendix_k_with_all_states_weighs_rows_by_their_likelihoods():
    W = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    X = np.random.default_rng(0).normal(size=(20, 3))
    both, cross = np.zeros((2, 2)), np.zeros((2, 3))
    for x in X:
        chances = np.array([np.exp(-((x - np.array(h) @ W) ** 2).sum() / (2 * 0.49)) for h in all_states(2)])
        chances /= chances.sum()
        for h, p in zip(np.array(all_states(2)), chances, strict=True):
            both += p * np.outer(h, h)
            cross += p * np.outer(h, x)
    np.testing.assert_allclose(weighted_least_squares(X, W, 0.7), np.linalg.solve(both, cross), rtol=1e-9)
    assert np.isfinite(weighted_least_squares(X, W, 0.0)).all()


def test_appendix_l_stops_when_switches_no_longer_change_or_after_max_iter():
    rng = np.random.default_rng(1)
    W = np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    h = bits(rng.integers(0, 4, 30), 2)
    X = h @ W
    found, same, passes, still = alternating_least_squares(X, h)
    np.testing.assert_allclose(found, W, atol=1e-12)
    np.testing.assert_array_equal(same, h)
    assert (passes, still) == (1, True)
    wrong = h.copy()
    wrong[0] = 1 - wrong[0]
    _, again, passes, still = alternating_least_squares(X, wrong)
    assert (passes, still) == (2, True)
    np.testing.assert_array_equal(again, h)
    assert alternating_least_squares(X, wrong, max_iter=1)[2:] == (1, False)
    assert alternating_least_squares(X, wrong, max_iter=2)[2:] == (2, True), "the last pass allowed may stand still"
    everything = alternating_least_squares(X, wrong, max_iter=7, stop=False)
    assert everything[2:] == (7, False)
    np.testing.assert_array_equal(everything[1], h)
    np.testing.assert_allclose(oracle(X, h), np.linalg.lstsq(h, X, rcond=None)[0], atol=1e-12)
    drawn = random_switches(400, 3, np.random.default_rng(0))
    assert drawn.shape == (400, 3)
    assert set(codes_of(drawn > 0).tolist()) == set(range(8))


# ------------------------------------------------------------- candidates


def candidates(y, scores, definite=None):
    y = np.asarray(y, float)
    none = np.zeros(len(y))
    kinds = np.zeros(len(y), np.int8) if definite is None else np.array(definite, np.int8)
    return Eigenpairs(y, none, none, none, kinds), np.asarray(scores, float)


def test_candidates_are_picked_in_order_of_their_scores_if_independent():
    pairs, scores = candidates([[1, 0], [0.9, 0.01], [0, 1], [1, 1]], [0.1, 0.2, 0.3, 0.4], [0, 0, -1, -1])
    T = np.zeros((2, 2, 2))
    assert pick(T, pairs, scores, "newton", 1000, 0.1)[0].tolist() == [0, 1]
    assert pick(T, pairs, scores, "auto", 1000, 0.1)[0].tolist() == [0, 2]
    assert pick(T, pairs, scores, "power", 1000, 0.1)[0].tolist() == [2, 3]


def test_switches_that_exclude_one_another_are_taken_when_they_score_as_well(monkeypatch):
    pairs, _ = candidates(np.eye(2)[[0, 1, 0, 1]], np.zeros(4))
    T = np.zeros((2, 2, 2))
    heard = []

    def only(T, pairs, tolerance):
        heard.append(tolerance)
        return np.array([2, 3])

    monkeypatch.setattr(binary, "exclusive_pairs", only)
    for worst, passing, taken in ((0.29, 0.0, True), (0.31, 0.0, False), (0.31, 0.32, True)):
        chosen, exclusive = pick(T, pairs, np.array([0.1, 0.2, 0.1, worst]), "auto", 2 * 10**6, passing)
        assert exclusive is taken
        assert chosen.tolist() == ([2, 3] if taken else [0, 1])
    assert heard == pytest.approx([3 * np.sqrt(8 / 2e6)] * 3)
    pick(T, pairs, np.zeros(4), "auto", 10, 0.0)
    assert heard[-1] == 0.25
    pick(T, pairs, np.zeros(4), "auto", 10**20, 0.0)
    assert heard[-1] == 1e-6


def test_missing_vectors_are_filled_up_with_orthogonal_ones():
    y = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    whole = np.vstack([y, [[0.0, 0.0, 2.0]]])
    same, notes = complete(whole, 3)
    assert same is whole
    assert notes == []
    filled, notes = complete(y, 3)
    np.testing.assert_array_equal(filled[:2], y)
    np.testing.assert_allclose(np.abs(filled[2]), [0, 0, 0.6], atol=1e-12)
    assert "2 independent vectors of 3" in notes[0]
    twice, notes = complete(np.array([[1.0, 0.0], [2.0, 0.0]]), 2)
    np.testing.assert_allclose(np.abs(twice), [[0.6, 0.0], [0.0, 0.6]], atol=1e-12)
    assert "1 independent vectors of 2" in notes[0]


def test_noise_is_none_where_the_rank_says_so(monkeypatch):
    monkeypatch.setattr(whitened, "numerical_rank", lambda values: 2)
    monkeypatch.setattr(whitened, "noise_variance", lambda values, n, m, d: 0.7)
    seen = SimpleNamespace(n=10, m=5, values=None)
    assert [estimate_noise(seen, d) for d in (1, 2, 4, 5)] == [0.7, 0.0, 0.0, 0.7]


def start_of(scores, chosen, filter_="ks", n_scored=400, y=None, d=2):
    y = np.eye(2)[np.arange(len(scores)) % 2] if y is None else np.asarray(y, float)
    pairs, scores = candidates(y, scores)
    found = SimpleNamespace(pairs=pairs, scores=scores, chosen=np.array(chosen), filter=filter_, n_scored=n_scored)
    return SimpleNamespace(candidates=found, whitening=SimpleNamespace(d=d))


def test_a_chosen_score_is_ambiguous_a_quarter_above_its_null_level():
    limit = 1.25 * binary.SEARCH.ks_null / 20
    assert not ambiguous(start_of([0.01, 0.99 * limit, 9.0], [0, 1]))
    assert ambiguous(start_of([0.01, 1.01 * limit, 9.0], [0, 1]))
    assert not ambiguous(start_of([0.01, 1.01 * limit, 9.0], [0, 1], "exact"))


def test_picks_are_distinct_sets_the_greedy_one_first_and_swaps_of_its_worst():
    y = [[1, 0], [0, 1], [1, 1], [1, -1], [2, 0]]
    start = start_of([0.1, 0.2, 0.3, 0.4, 0.5], [0, 1], y=y)
    picks = jittered_picks(start, np.random.default_rng(0))
    np.testing.assert_array_equal(picks[0], [[1, 0], [0, 1]])
    np.testing.assert_array_equal(picks[1], [[1, 0], [1, 1]])
    np.testing.assert_array_equal(picks[2], [[1, 0], [1, -1]])  # (2, 0) is no other direction than (1, 0)
    sets = {tuple(sorted(map(tuple, pick))) for pick in picks}
    assert len(sets) == len(picks) <= initialisation.SELECTION.picks
    assert jittered_picks(start_of([0.1, 0.2], [0], y=y[:2]), np.random.default_rng(0)) == []


def race(monkeypatch, *, sigma2=1.0, noise_free=False, exclusive=False, picks=3, winner="1"):
    """What `selected_params` says of a start whose spread is σ."""
    start = SimpleNamespace(
        W=np.eye(2), probability=np.full(2, 0.4), sigma2=sigma2, noise_free=noise_free, exclusive=exclusive,
        whitening=SimpleNamespace(basis=np.eye(2), K=np.eye(2), d=2),
        candidates=SimpleNamespace(scores=np.zeros(2), chosen=np.arange(2), filter="ks", n_scored=4),
    )  # fmt: skip
    monkeypatch.setattr(initialisation, "jittered_picks", lambda start, rng: [np.eye(2) * 0.6] * picks)
    heard = []

    def successive_halving(entrants, *, rounds, max_iter, tol, accelerate):
        heard.append((len(entrants), max_iter == sum(rounds)))
        return Selected(winner, None, EMResult(entrants[1].start, None, 0.0, 0.0, 0, True, []), {})

    monkeypatch.setattr(initialisation, "successive_halving", successive_halving)
    rows = binary._hashed(np.random.default_rng(0).normal(size=(30, 2)), np.arange(30, dtype=np.uint64))
    params, note = selected_params(rows, start, np.random.default_rng(0))
    assert bool(heard) == (note is not None)
    assert all(one == (picks, True) for one in heard)
    return params, note


def test_several_picks_are_compared_only_where_noise_blurs_the_scores(monkeypatch):
    params, note = race(monkeypatch, sigma2=0.0901)
    assert "3 sets of candidates were compared on 30 rows, another than the greedy one" in note
    np.testing.assert_allclose(np.exp(params.log_prior[0]), 0.64**2)  # shares of .6²
    np.testing.assert_allclose(params.W, np.eye(2) / 0.6)
    assert "the greedy one was likeliest" in race(monkeypatch, winner="0")[1]
    assert race(monkeypatch, sigma2=0.0899)[1] is None
    assert race(monkeypatch, noise_free=True)[1] is None
    assert race(monkeypatch, exclusive=True)[1] is None
    assert race(monkeypatch, picks=1)[1] is None
    monkeypatch.setattr(initialisation, "SETTINGS", replace(initialisation.SETTINGS, split_states=1))
    assert race(monkeypatch)[1] is None
