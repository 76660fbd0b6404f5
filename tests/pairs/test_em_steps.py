"""Pair counts: mixing laws, shrinkage, smoothing and marginals, each against the formula typed out."""

from __future__ import annotations

from dataclasses import replace
from math import exp, factorial, log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.core.counts import read_counts
from latentfit.core.em import EMResult
from latentfit.core.kernels.pair_rows import Side
from latentfit.core.pair_em import PairSteps, columns_to_one
from latentfit.core.spectral import PairModel, ScaledSVD
from latentfit.pairs import em as laws
from latentfit.pairs import em as pair_fit
from latentfit.pairs import em as pair_shrinkage
from latentfit.pairs.em import (
    MixingSteps,
    Shrunk,
    _frequency_groups,
    _Problem,
    _quantiles,
    _start,
    _two_intervals,
    anchor_scale,
    chosen_smoothing,
    cut_lifts,
    even_distribution,
    fit_pair_model,
    interval,
    keep_marginals,
    lifted,
    poisson_rates,
    with_marginals,
)
from latentfit.pairs.init import Phases
from reproduction.pairs_linear import random_pair_model

COUNTS = np.array([[4.0, 2.0, 0.0], [1.0, 3.0, 5.0], [0.0, 1.0, 2.0]])
LEFT = np.array([[0.5, 0.1], [0.3, 0.3], [0.2, 0.6]])
RIGHT = np.array([[0.6, 0.2], [0.3, 0.3], [0.1, 0.5]])
MIXING = np.array([[0.4, 0.1], [0.2, 0.3]])


# ------------------------------------------------------------ mixing laws


def test_an_em_step_of_a_mixing_distribution_by_hand():
    logs = np.array([[-700.0, -701.0, -702.0], [3.0, 1.0, 2.0]])
    law, times, prior = np.array([0.2, 0.3, 0.5]), np.array([2.0, 3.0]), np.array([0.5, 0.0, 1.0])
    steps = MixingSteps(logs, multiplicity=times, prior=prior)
    sums = steps.e_step(law)
    value, at_points = 0.0, np.zeros(3)
    for unit in range(2):
        shifted = [law[g] * exp(logs[unit, g] - logs[unit, 0]) for g in range(3)]
        value += times[unit] * (log(sum(shifted)) + logs[unit, 0])
        at_points += times[unit] * np.array(shifted) / sum(shifted)
    np.testing.assert_allclose(sums.at_points, at_points)
    assert steps.log_likelihood(sums) == pytest.approx(value)
    assert steps.objective(law, sums) == pytest.approx(value + 0.5 * log(0.2) + log(0.5))
    np.testing.assert_allclose(steps.m_step(sums), (at_points + prior) / 6.5)
    assert steps.n_cells == 5
    assert MixingSteps(logs, n_cells=9).n_cells == 9
    assert MixingSteps(logs).n_cells == 2
    assert MixingSteps(logs).prior.tolist() == [0, 0, 0]
    grid = np.array([-1.0, 2.0, 5.0])
    mean, var = steps.posterior_moments(law, grid)
    for unit in range(2):
        weight = np.array([law[g] * exp(logs[unit, g] - logs[unit, 0]) for g in range(3)])
        weight /= weight.sum()
        assert mean[unit] == pytest.approx(weight @ grid)
        assert var[unit] == pytest.approx(weight @ (grid - weight @ grid) ** 2)
    assert even_distribution(4).tolist() == [0.25] * 4


def test_poisson_rates_are_posterior_means_on_a_grid_of_roots(monkeypatch):
    monkeypatch.setattr(laws, "SHRINKAGE", replace(laws.SHRINKAGE, rate_iterations=0))  # the even law
    counts = np.array([3.0, 0.0, 1.0, 3.0, 9000.0])
    grid = []
    while 0.2 + 0.25 * len(grid) < sqrt(3.0) + 1:
        grid.append((0.2 + 0.25 * len(grid)) ** 2)
    found = poisson_rates(counts)
    for at, count in enumerate([3, 0, 1, 3]):
        chance = [exp(-rate) * rate**count / factorial(count) for rate in grid]
        want = sum(rate * one for rate, one in zip(grid, chance, strict=True)) / sum(chance)
        assert found[at] == pytest.approx(want)
    assert found[4] == 9000.0
    many = np.array([2500.0, 2501.0])
    assert (poisson_rates(many) == many).tolist() == [False, True]
    assert poisson_rates(np.array([3e4, 4e4])).tolist() == [3e4, 4e4]


def test_rates_of_small_weights_have_a_grid_below_one(monkeypatch):
    monkeypatch.setattr(laws, "SHRINKAGE", replace(laws.SHRINKAGE, rate_iterations=0))
    found = poisson_rates(np.array([0.04, 0.0]))
    grid = (np.arange(0.04, 1.2, 0.25)) ** 2
    want = (grid * np.exp(-grid)).sum() / np.exp(-grid).sum()
    assert found[1] == pytest.approx(want)


# ------------------------------------------------------------------- fits


def test_objective_counts_a_shared_dictionary_once():
    counts = read_counts(COUNTS)
    prior = 2.0 * np.array([0.7, 0.3])
    both = PairSteps(counts, symmetric=False, smoothing=2.0, weights=np.array([0.7, 0.3]))
    model = PairModel(LEFT, RIGHT, MIXING)
    plain = (COUNTS * np.log(LEFT @ MIXING @ RIGHT.T)).sum()
    assert both.objective(model, both.e_step(model)) == pytest.approx(
        plain + (np.log(LEFT) * prior).sum() + (np.log(RIGHT) * prior).sum()
    )
    one = PairSteps(counts, symmetric=True, smoothing=2.0, weights=np.array([0.7, 0.3]))
    model = PairModel(LEFT, LEFT, MIXING)
    plain = (COUNTS * np.log(LEFT @ MIXING @ LEFT.T)).sum()
    assert one.objective(model, one.e_step(model)) == pytest.approx(plain + (np.log(LEFT) * prior).sum())
    assert one.n_cells == both.n_cells == 18
    none = PairSteps(counts, symmetric=True)
    assert none.objective(model, none.e_step(model)) == pytest.approx(plain)


def test_each_side_has_its_own_marginals_and_pseudo_counts():
    counts = read_counts(COUNTS)
    weights = np.array([[0.7, 0.3], [0.4, 0.6]])
    steps = PairSteps(counts, symmetric=False, smoothing=3.0, weights=weights)
    np.testing.assert_allclose(steps.marginals[0], COUNTS.sum(axis=1) / 18)
    np.testing.assert_allclose(steps.marginals[1], COUNTS.sum(axis=0) / 18)
    np.testing.assert_allclose(steps.priors, 3 * weights)
    model = PairModel(LEFT, RIGHT, MIXING)
    joint = np.einsum("ij,ik,kl,jl->ijkl", COUNTS / (LEFT @ MIXING @ RIGHT.T), LEFT, MIXING, RIGHT)
    found = steps.m_step(steps.e_step(model))
    sides = zip((found.left, found.right), (joint.sum((1, 3)), joint.sum((0, 2))), weights, strict=True)
    for part, sums, spread in sides:
        want = sums + 3 * spread
        np.testing.assert_allclose(part, want / want.sum(axis=0))
    np.testing.assert_allclose(found.mixing, joint.sum((0, 1)) / 18)
    same = PairSteps(counts, symmetric=True)
    np.testing.assert_allclose(same.marginals[0], (COUNTS.sum(axis=1) + COUNTS.sum(axis=0)) / 36)


def test_a_cause_without_counts_is_even():
    assert columns_to_one(np.array([[0.0, 3.0], [0.0, 1.0]])).tolist() == [[0.5, 0.75], [0.5, 0.25]]


def test_a_random_initialisation_is_marginals_times_noise_with_a_heavy_diagonal():
    counts = read_counts(COUNTS)
    found = random_pair_model(counts, 2, symmetric=False, rng=np.random.default_rng(3))
    rng = np.random.default_rng(3)
    for part, sums in ((found.left, COUNTS.sum(axis=1)), (found.right, COUNTS.sum(axis=0))):
        want = sums[:, None] * rng.gamma(1.0, size=(3, 2))
        np.testing.assert_allclose(part, want / want.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.mixing, np.array([[1.1, 0.1], [0.1, 1.1]]) / 2.4)
    same = random_pair_model(counts, 2, symmetric=True, rng=np.random.default_rng(3))
    want = (COUNTS.sum(axis=1) + COUNTS.sum(axis=0))[:, None] * np.random.default_rng(3).gamma(1.0, size=(3, 2))
    np.testing.assert_allclose(same.left, want / want.sum(axis=0), rtol=1e-9)
    assert same.right is same.left


def test_an_initialisation_has_a_twentieth_of_the_marginals_mixed_in():
    counts = read_counts(COUNTS)
    steps = PairSteps(counts, symmetric=False)
    sharp = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])
    found = lifted(PairModel(sharp, RIGHT, MIXING), steps)
    np.testing.assert_allclose(found.left, 0.95 * sharp + 0.05 * COUNTS.sum(axis=1)[:, None] / 18)
    np.testing.assert_allclose(found.right, 0.95 * RIGHT + 0.05 * COUNTS.sum(axis=0)[:, None] / 18)
    np.testing.assert_allclose(found.mixing, (MIXING + 0.0125) / 1.05)
    same = lifted(PairModel(sharp, sharp, MIXING), PairSteps(counts, symmetric=True))
    assert same.right is same.left


def test_marginals_are_put_back_and_the_causes_of_items_stay(monkeypatch):
    monkeypatch.setattr(pair_fit, "poisson_rates", lambda sums: sums + 1.0)
    left = np.array([[0.8, 0.1], [0.2, 0.9], [0.0, 0.0]])
    found = with_marginals(PairModel(left, RIGHT, MIXING), read_counts(COUNTS))
    for part, given, weight, rates in (
        (found.left, left, MIXING.sum(axis=1), COUNTS.sum(axis=1) + 1),
        (found.right, RIGHT, MIXING.sum(axis=0), COUNTS.sum(axis=0) + 1),
    ):
        want = np.empty((3, 2))
        for item in range(3):
            causes = given[item] * weight
            causes = causes / causes.sum() if causes.any() else weight  # without counts: the mean causes
            want[item] = rates[item] * causes
        np.testing.assert_allclose(part, want / want.sum(axis=0))
    assert found.mixing is MIXING
    twice = with_marginals(PairModel(LEFT, LEFT, MIXING), read_counts(COUNTS))
    causes = LEFT * MIXING.sum(axis=1)
    want = (COUNTS.sum(axis=1) + COUNTS.sum(axis=0) + 1)[:, None] * causes / causes.sum(axis=1)[:, None]
    np.testing.assert_allclose(twice.left, want / want.sum(axis=0))
    both = read_counts(COUNTS + COUNTS.T)
    assert both.symmetric
    once = with_marginals(PairModel(LEFT, LEFT, MIXING), both)
    want = ((COUNTS + COUNTS.T).sum(axis=1) + 1)[:, None] * causes / causes.sum(axis=1)[:, None]
    np.testing.assert_allclose(once.left, want / want.sum(axis=0))


def test_the_smoothing_is_taken_under_which_counts_left_out_are_likeliest(monkeypatch):
    counts = read_counts(10 * COUNTS)
    tried = []

    def run_em(steps, start, **rest):
        tried.append(steps.priors[0].sum())
        best = abs(steps.priors[0].sum() - 0.8 * 5.0)  # four fifths of the counts, four fifths of the pseudo-counts
        model = PairModel(LEFT, RIGHT, MIXING)
        return EMResult(model if best < 1e-9 else PairModel(LEFT[::-1], RIGHT, MIXING), None, 0.0, 0.0, 0, True, [])

    monkeypatch.setattr(pair_fit, "em", run_em)
    monkeypatch.setattr(pair_fit, "with_marginals", lambda model, counts: model)
    start = PairModel(LEFT, RIGHT, MIXING)
    assert chosen_smoothing(counts, start, False, 1, 0) == 5.0
    assert tried == pytest.approx([0.8 * one for one in pair_fit.CANDIDATES])
    tried.clear()
    fit_pair_model(counts, start, symmetric=False, smoothing=7.0, max_iter=1, tol=0.1)
    assert tried == pytest.approx([7.0])
    tried.clear()
    fit_pair_model(counts, start, symmetric=False, smoothing="auto", max_iter=1, tol=0.1)
    assert tried[-1] == pytest.approx(5.0)


# -------------------------------------------------------------- shrinkage


def test_marginals_are_kept_by_the_weights_of_items():
    rng = np.random.default_rng(0)
    row, column = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(4))
    x, y = rng.uniform(-0.8, 0.8, 5), rng.uniform(-0.8, 0.8, 4)
    for sign in (1.0, -1.0):
        found = keep_marginals(Shrunk(row, column, x, y, sign, None))
        B = np.outer(found.marginal, found.column_marginal) * (1 + sign * np.outer(x, y))
        np.testing.assert_allclose(B.sum(axis=1) / B.sum(), row, atol=1e-9)
        np.testing.assert_allclose(B.sum(axis=0) / B.sum(), column, atol=1e-9)
        same = keep_marginals(Shrunk(row, row, x, x, sign, None))
        assert same.marginal is same.column_marginal
        B = np.outer(same.marginal, same.marginal) * (1 + sign * np.outer(x, x))
        np.testing.assert_allclose(B.sum(axis=1) / B.sum(), row, atol=1e-9)


def test_ends_of_an_interval_multiply_to_minus_one():
    mass = np.full(4, 0.25)
    low, high = interval(np.array([-0.5, -0.4, 1.0, 2.0]), mass)
    assert (low, high) == pytest.approx((-0.5, 2.0))
    low, high = interval(np.array([-0.1, -0.1, 0.1, 0.4]), mass)
    assert (low, high) == pytest.approx((-0.5, 2.0))
    assert interval(np.array([-0.5, -0.4, 1.0, 2.0]), mass, even=True) == (-1.0, 1.0)
    assert interval(np.array([0.5, 0.4, 1.0, 2.0]), mass) == (-1.0, 1.0)
    assert interval(np.array([-0.5, -0.4, -1.0, 0.0]), mass) == (-1.0, 1.0)
    assert interval(np.array([-0.01, 0.01, 1.0, 2.0]), mass) == pytest.approx((-1 / sqrt(20), sqrt(20)))
    assert interval(-np.array([-0.01, 0.01, 1.0, 2.0]), mass) == pytest.approx((-sqrt(20), 1 / sqrt(20)))


def test_quantiles_leave_two_hundredths_of_the_counts_outside():
    raw = np.array([5.0, -9.0, 1.0, -2.0, 9.0])
    assert _quantiles(raw, np.array([0.4, 0.019, 0.2, 0.362, 0.019])) == (-2.0, 5.0)
    assert _quantiles(raw, np.array([0.4, 0.021, 0.2, 0.358, 0.021])) == (-9.0, 9.0)
    assert _quantiles(raw, np.array([4.0, 0.19, 2.0, 3.62, 0.19])) == (-2.0, 5.0)
    assert _quantiles(np.array([1.0]), np.array([1.0])) == (1.0, 1.0)


def test_two_intervals_are_stretched_until_a_corner_is_minus_one():
    mass = [np.full(2, 0.5)] * 2
    found = _two_intervals([np.array([-0.2, 0.4]), np.array([-0.3, 0.1])], mass)
    stretch = 1 / sqrt(0.4 * 0.3)
    np.testing.assert_allclose(found, np.array([[-0.2, 0.4], [-0.3, 0.1]]) * stretch)
    anchors = [a * b for a in found[0] for b in found[1]]
    assert min(anchors) == pytest.approx(-1.0)
    turned = _two_intervals([np.array([-0.4, 0.2]), np.array([-0.1, 0.3])], mass)
    np.testing.assert_allclose(turned, np.array([[-0.4, 0.2], [-0.1, 0.3]]) * stretch)
    one = _two_intervals([np.array([0.2, 0.4]), np.array([-0.3, 0.1])], mass)
    assert one == [(-1.0, 1.0), (-1.0, 1.0)]


def test_raw_separations_are_initialised_under_a_normal_distribution():
    raw, mass = np.array([0.9, -0.7, 3.0]), np.array([0.5, 0.3, 0.2])
    seen = np.array([100.0, 40.0, 0.0])
    side = _start(raw, mass, seen, -1.0, 1.0)
    cut = np.array([0.9, -0.7, 1.0])
    spread = 0.5 * 0.81 + 0.3 * 0.49 + 0.2
    noise = 0.5 / 100 + 0.3 / 40 + 0.2
    assert spread**2 < 4 * noise
    signal = spread / 2
    noises = 1 / (np.array([100, 40, 0.5]) * signal)
    np.testing.assert_allclose(side.mean, cut * signal / (signal + noises))
    np.testing.assert_allclose(side.var, signal * noises / (signal + noises))
    seen = np.array([1e3, 4e2, 2e2])
    side = _start(raw, mass, seen, -1.0, 1.0)
    noise = 0.5 / 1e3 + 0.3 / 4e2 + 0.2 / 2e2
    signal = (spread + sqrt(spread**2 - 4 * noise)) / 2  # spread = signal + noise / signal
    assert signal + noise / signal == pytest.approx(spread)
    noises = 1 / (seen * signal)
    np.testing.assert_allclose(side.mean, cut * signal / (signal + noises))
    assert (side.low, side.high) == (-1.0, 1.0)


def test_items_are_grouped_by_powers_of_two():
    seen = np.array([0.0, 1.0, 1.9, 2.0, 3.0, 4.0, 1e6])
    own = Side(np.full(7, 0.5), np.ones(7), -1.0, 1.0)
    groups = _frequency_groups(seen, own)
    assert [group.tolist() for group, _ in groups] == [[0, 1, 2], [3, 4], [5], [6]]
    assert [points for _, points in groups[:3]] == [41] * 3
    assert groups[3][1] == 401  # 2 · 2 · √2²⁰ · ½ are more than enough
    middle = _frequency_groups(np.array([2.0**11]), Side(np.full(1, 0.5), np.ones(1), -1.0, 1.0))
    assert middle[0][1] == int(2.0 * 2.0 * sqrt(2.0**12) * 0.5)
    flat = _frequency_groups(np.array([2.0**15]), Side(np.zeros(1), np.ones(1), -1.0, 1.0))
    assert flat[0][1] == int(2.0 * 2.0 * sqrt(2.0**16) * 0.1)
    wide = _frequency_groups(np.array([2.0**11]), Side(np.full(1, 3.0), np.ones(1), -0.5, 0.7))
    assert wide[0][1] == int(2.0 * 1.2 * sqrt(2.0**12))


def test_the_anchor_step_scales_to_the_covariance_over_pairs():
    marginal, mean = np.array([0.5, 0.3, 0.2]), np.array([0.4, -0.6, 0.2])
    side = Side(mean, np.ones(3), -1.0, 1.0)
    variance = marginal @ mean**2 - (marginal @ mean) ** 2
    covariance = (1.2 * variance) ** 2
    moments = np.array([covariance + 0.02, 0.1, 0.2])
    assert anchor_scale(moments, side, marginal, 1.0) == pytest.approx(1.2)
    turned = np.array([-covariance + 0.02, 0.1, 0.2])
    assert anchor_scale(turned, side, marginal, -1.0) == pytest.approx(1.2)
    assert anchor_scale(turned, side, marginal, 1.0) == 0.5
    assert anchor_scale(np.array([99.0, 0, 0]), side, marginal, 1.0) == 2.0
    flat = Side(np.zeros(3), np.ones(3), -1.0, 1.0)
    assert anchor_scale(moments, flat, marginal, 1.0) == 1.0


def problem(counts=None, **rest):
    return _Problem(counts, None, None, None, 1, rest.get("max_iter", 5), 1e-6)


def test_a_rows_likelihood_is_the_one_of_the_docstring():
    partner = Side(np.zeros(2), np.zeros(2), -0.5, 2.0)
    tally = np.zeros((1, pair_shrinkage.SHRINKAGE.levels))
    tally[0, [0, 16, 32]] = [1.0, 2.0, 3.0]  # at −½, ¾ and 2
    grid = np.array([-0.5, 0.2, 2.0])
    for sign in (1.0, -1.0):
        found = problem()._row_likelihood(tally, np.array([6.0]), partner, 0.1, sign, grid)
        for at, x in enumerate(grid):
            want = sum(n * log(max(1 + sign * x * y, 1e-3)) for n, y in ((1, -0.5), (2, 0.75), (3, 2.0)))
            assert found[0, at] == pytest.approx(want - 6 * log(1 + sign * x * 0.1))


def test_an_item_is_weighed_under_the_common_distribution_and_at_last_under_that_of_its_frequency(monkeypatch):
    seen = np.array([3.0, 3.0, 5.0])
    own = Side(np.full(3, 0.4), np.ones(3), -1.0, 1.0)
    partner = Side(np.zeros(2), np.zeros(2), -1.0, 1.0)
    tally = np.random.default_rng(0).random((3, pair_shrinkage.SHRINKAGE.levels))
    heard = []

    def run_em(steps, start, *, max_iter, tol):
        heard.append((steps, start, max_iter))
        return EMResult(start, None, 0.0, 0.0, 0, True, [])

    monkeypatch.setattr(pair_shrinkage, "run_em", run_em)
    mean, var, _ = problem()._weigh(tally, seen, partner, 0.1, 1.0, own, False)
    ((steps, start, passes),) = heard
    grid = np.linspace(-1, 1, pair_shrinkage.SHRINKAGE.coarse)
    assert start.tolist() == pytest.approx([1 / 21] * 21)
    assert (passes, steps.n_cells) == (5, 11)
    want = steps.posterior_moments(start, grid)
    np.testing.assert_allclose(mean, want[0])
    np.testing.assert_allclose(var, want[1])
    heard.clear()
    problem()._weigh(tally, seen, partner, 0.1, 1.0, own, True)
    assert [(steps.n_cells, len(start)) for steps, start, _ in heard] == [(11, 41), (6, 41), (5, 41)]
    np.testing.assert_allclose(heard[1][0].prior, 20.0 / 41)
    heard.clear()
    monkeypatch.setattr(pair_shrinkage, "_frequency_groups", lambda seen, own: [(np.arange(3), 81)])
    problem()._weigh(tally, seen, partner, 0.1, 1.0, own, True)
    assert len(heard[1][1]) == 81
    assert heard[1][1].sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("pairs", "rounds"), [(499.0, 3), (500.0, 2)])
def test_fifty_pairs_an_item_need_a_round_less(pairs, rounds):
    assert problem(SimpleNamespace(n_pairs=pairs, shape=(5, 20))).rounds_needed == rounds


def test_lifts_as_they_came_are_cut_inside_their_interval():
    mass = np.array([0.25, 0.25, 0.25, 0.25])
    raw = np.array([-0.5, -0.4, 1.0, 8.0])
    # x = u √scale / ρ · √|value|, with a value of 4 and vectors that make it `raw`
    vector = (raw * mass / np.sqrt(mass) / 2)[:, None]
    found = ScaledSVD(np.array([4.0]), vector, vector, mass, mass, mass, mass, True, True)
    np.testing.assert_allclose(found.embedding()[0][:, 0] * 2, raw)
    low, high = interval(raw, mass)
    lift = np.clip(raw, 0.99 * low, 0.99 * high)
    made = cut_lifts(found)
    B = np.outer(mass, mass) * (1 + np.outer(lift, lift))
    np.testing.assert_allclose(made.left @ made.right.T, B / B.sum(), atol=1e-12)
    assert (made.left @ made.right.T > 0).all()
    other = ScaledSVD(np.array([-4.0]), vector, vector, mass, mass, mass, mass, True, True)
    lift = np.clip(raw, -0.99, 0.99)
    B = np.outer(mass, mass) * (1 - np.outer(lift, lift))
    made = cut_lifts(other)
    np.testing.assert_allclose(made.left @ made.right.T, B / B.sum(), atol=1e-12)
    two = ScaledSVD(np.array([4.0]), vector, vector.copy(), mass, mass.copy(), mass, mass, True, False)
    ends = _two_intervals([raw, raw], [mass, mass])
    lift = np.clip(raw, 0.99 * ends[0][0], 0.99 * ends[0][1])
    B = np.outer(mass, mass) * (1 + np.outer(lift, lift))
    made = cut_lifts(two)
    np.testing.assert_allclose(made.left @ made.right.T, B / B.sum(), atol=1e-12)


def test_lifts_of_the_phases_are_separations_over_the_mass_behind_them():
    """Items without mass, or with less than none, have no lift."""
    mass, delta = np.array([0.5, 0.3, 0.2, 0.0, -0.1]), np.array([0.1, -0.06, -0.02, 0.3, 0.3])
    made = cut_lifts(Phases((None, None), (mass, mass), (delta, delta), 1.0, True, True))
    mass, lift = np.maximum(mass, 0), np.array([0.2, -0.2, -0.1, 0.0, 0.0])
    B = np.outer(mass, mass) * (1 + np.outer(lift, lift))
    np.testing.assert_allclose(made.left @ made.right.T, B / B.sum(), atol=1e-12)


def shrinking(monkeypatch, counts, symmetric, value, rounds):
    """A problem whose weighings give constant lifts .1, .2, … and say what they were given."""
    mass = counts.row_sums / counts.total, counts.column_sums / counts.total
    vectors = [np.linspace(-1, 1, len(part))[:, None] * part[:, None] ** 0.5 for part in mass]
    found = ScaledSVD(np.array([value]), vectors[0], vectors[1], *mass, *mass, True, symmetric)
    told, weighed = [], []

    def tally(self, rows, own, partner, sign):
        told.append((rows, own, partner, sign))
        return np.full((len(own.mean), 33), float(len(told))), np.array([0.5, 0.1, 0.2]) * counts.total

    def weigh(self, tally, seen, partner, partner_mean, sign, own, last):
        weighed.append((tally[0, 0], seen, partner, partner_mean, sign, own, last))
        lift = np.full(len(seen), 0.1 * len(weighed))
        return lift, np.full(len(seen), 0.5), EMResult(lift, None, 0.0, 0.0, len(weighed), True, [])

    monkeypatch.setattr(_Problem, "_tally", tally)
    monkeypatch.setattr(_Problem, "_weigh", weigh)
    monkeypatch.setattr(_Problem, "rounds_needed", rounds)
    monkeypatch.setattr(pair_shrinkage, "anchor_scale", lambda moments, side, marginal, sign: 1.5 + moments[0])
    made = _Problem(counts, "rows", "turned", found, 1, 5, 1e-6)
    return made, found, told, weighed


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("value", [0.25, -0.25])
def test_one_side_is_weighed_by_itself_from_both_ends_of_its_pairs(monkeypatch, both_ways, value):
    counts = read_counts(COUNTS + COUNTS.T if both_ways else COUNTS)
    assert counts.symmetric is both_ways
    made, found, told, weighed = shrinking(monkeypatch, counts, True, value, 3)
    shrunk = made.symmetric()
    sign = np.sign(value)
    ends = 1 if both_ways else 2
    assert [rows for rows, *_ in told] == (["rows"] if both_ways else ["rows", "turned"]) * 3
    assert {one[3] for one in told} == {sign}
    seen = counts.row_sums if both_ways else counts.row_sums + counts.column_sums
    rates = poisson_rates(seen)
    np.testing.assert_allclose(shrunk.marginal, rates / rates.sum())
    assert shrunk.marginal is shrunk.column_marginal
    raw = found.embedding()[0][:, 0] * 0.5
    low, high = interval(raw, found.row_marginal, even=value < 0)
    first = _start(raw, found.row_marginal, seen, low, high)
    np.testing.assert_allclose(told[0][1].mean, first.mean)
    #                        .1, then the mean of .2 and .1, then that of .3 and .15
    np.testing.assert_allclose(told[ends][1].mean, 0.1)
    np.testing.assert_allclose(told[2 * ends][1].mean, 0.15)
    np.testing.assert_allclose(shrunk.lift, 0.225)
    for turn, (tallied, counted, partner, mean, signed, own, last) in enumerate(weighed):
        want = sum(range(turn * ends + 1, turn * ends + ends + 1))
        assert tallied == want
        np.testing.assert_array_equal(counted, seen)
        np.testing.assert_allclose(partner.mean, 2.0 * own.mean)
        assert (partner.low, partner.high) == pytest.approx((2 * low, 2 * high))
        assert mean == pytest.approx(shrunk.marginal @ partner.mean)
        assert (signed, last) == (sign, turn == 2)
    assert shrunk.sign == sign
    assert shrunk.refined.n_iter == 3


def test_two_sides_are_weighed_in_turn_columns_first(monkeypatch):
    counts = read_counts(COUNTS)
    made, found, told, weighed = shrinking(monkeypatch, counts, False, 0.25, 2)
    shrunk = made.asymmetric()
    assert [rows for rows, *_ in told] == ["turned", "rows"] * 2
    seen = [counts.row_sums, counts.column_sums]
    raws = [part[:, 0] * 0.5 for part in found.embedding()]
    masses = [found.row_marginal, found.column_marginal]
    ends = _two_intervals(raws, masses)
    first = [_start(raws[s], masses[s], seen[s], *ends[s]) for s in (0, 1)]
    marginals = [rates / rates.sum() for rates in map(poisson_rates, seen)]
    np.testing.assert_allclose(told[0][1].mean, first[1].mean)
    np.testing.assert_allclose(told[0][2].mean, first[0].mean)
    np.testing.assert_allclose(told[1][2].mean, 0.1)  # what the columns have just become
    np.testing.assert_allclose(told[3][2].mean, 0.3)
    assert [one[6] for one in weighed] == [False, False, True, True]
    for at, (_, counted, partner, mean, sign, _, _) in enumerate(weighed):
        s = 1 - at % 2
        np.testing.assert_array_equal(counted, seen[s])
        assert mean == pytest.approx(marginals[1 - s] @ partner.mean)
        assert sign == 1.0
    np.testing.assert_allclose(shrunk.lift, 0.4)
    np.testing.assert_allclose(shrunk.column_lift, 0.3)
    np.testing.assert_allclose(shrunk.marginal, marginals[0])
    np.testing.assert_allclose(shrunk.column_marginal, marginals[1])
