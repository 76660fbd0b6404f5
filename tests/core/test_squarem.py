"""The extrapolation of every family against SQUAREM typed out.

θ₀ − 2αr + α²v with r = θ₁ − θ₀, v = θ₂ − 2θ₁ + θ₀, α = −‖r‖/‖v‖:
Varadhan & Roland 2008, step length S3, never shorter than the two steps themselves (α ≤ −1); what leaves the family's
space is brought back to it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from latentfit.admixture.em import FIT, Ancestry, AncestrySteps
from latentfit.core.mixture.em import extrapolate_logs
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.pair_em import PairSteps
from latentfit.core.spectral import PairModel
from latentfit.factors.em.steps import SwitchParams, SwitchSteps
from latentfit.fractions.em import FractionSteps, Parts
from latentfit.hmm.em.steps import Chain, extrapolate_roots
from latentfit.pairs.em import MixingSteps
from latentfit.topics.em import FLOOR, TopicParams, TopicSteps


def squarem(start, once, twice):
    """The leap of flat lists of numbers, and its length."""
    r = [b - a for a, b in zip(start, once, strict=True)]
    v = [c - 2 * b + a for a, b, c in zip(start, once, twice, strict=True)]
    long, bent = math.sqrt(sum(x * x for x in r)), math.sqrt(sum(x * x for x in v))
    alpha = -1.0 if bent == 0 else min(-long / bent, -1.0)
    return np.array([a - 2 * alpha * x + alpha**2 * y for a, x, y in zip(start, r, v, strict=True)]), -alpha


def flat(*parts):
    return np.concatenate([np.ravel(part) for part in parts])


def columns_to_one(values):
    return values / values.sum(axis=0)


def rows_to_one(values):
    return values / values.sum(axis=1, keepdims=True)


def three(kind, first):
    """Three points: steps that bend a little (a long leap), steps that bend much (none)."""
    first = np.asarray(first, float)
    way = 0.02 * np.cos(np.arange(first.size)).reshape(first.shape)
    turn = 0.02 * np.sin(1.0 + np.arange(first.size)).reshape(first.shape)
    second = {"long": 0.5 * way + 0.1 * turn, "short": -1.5 * way + turn}[kind]
    return first, first + way, first + way + second


KINDS = pytest.mark.parametrize("kind", ["long", "short"])


def topic_steps():
    nothing = np.zeros(0)
    return TopicSteps(None, nothing, None, 1)


@KINDS
def test_topics_leap_as_squarem(kind):
    points = three(kind, [[0.2, 0.5], [0.3, 0.3], [0.5, 0.2]])
    proportions = [np.full((1, 2), part) for part in (0.1, 0.2, 0.3)]
    models = [TopicParams(part.copy(), share) for part, share in zip(points, proportions, strict=True)]
    found = topic_steps().extrapolate(*models)
    far, length = squarem(*(flat(part) for part in points))
    assert (length > 1.2) == (kind == "long")
    np.testing.assert_allclose(found.topics, columns_to_one(far.reshape(3, 2)), rtol=1e-9)
    np.testing.assert_array_equal(found.proportions, proportions[2])  # shares follow by their own steps
    for model, part in zip(models, points, strict=True):
        np.testing.assert_array_equal(model.topics, part)


def test_topics_leap_to_no_zero():
    points = [np.array([[0.30], [0.70]]), np.array([[0.2], [0.8]]), np.array([[0.12], [0.88]])]
    found = topic_steps().extrapolate(*(TopicParams(part, np.ones((1, 1))) for part in points))
    far, _ = squarem(*(flat(part) for part in points))
    assert far[0] < 0
    want = np.array([FLOOR * 0.12, far[1]])
    np.testing.assert_allclose(found.topics[:, 0], want / want.sum(), rtol=1e-12)


@KINDS
def test_a_mixing_law_leaps_as_squarem(kind):
    points = three(kind, [0.2, 0.3, 0.5])
    found = MixingSteps(np.zeros((2, 3))).extrapolate(*points)
    far, _ = squarem(*points)
    np.testing.assert_allclose(found, far / far.sum(), rtol=1e-9)


def test_a_mixing_law_keeps_a_tenth_of_every_share():
    points = [np.array([0.30, 0.70]), np.array([0.2, 0.8]), np.array([0.12, 0.88])]
    found = MixingSteps(np.zeros((2, 2))).extrapolate(*points)
    far, _ = squarem(*points)
    want = np.array([0.1 * 0.12, far[1]])
    np.testing.assert_allclose(found, want / want.sum(), rtol=1e-12)


@KINDS
def test_parts_leap_as_squarem_and_stay_in_the_box(kind):
    points = three(kind, [[0.4, 0.995], [0.5, 0.6]])
    models = [Parts(part, np.full((1, 2), at)) for at, part in enumerate(points)]
    found = FractionSteps(None, None).extrapolate(*models)
    far, _ = squarem(*(flat(part) for part in points))
    np.testing.assert_allclose(found.profiles, np.minimum(np.maximum(far, 0), 1).reshape(2, 2), rtol=1e-9)
    assert found.fractions is models[2].fractions


def test_parts_that_leap_out_of_the_box_are_put_on_its_edge():
    points = [np.array([[0.3, 0.7]]), np.array([[0.2, 0.8]]), np.array([[0.12, 0.88]])]
    found = FractionSteps(None, None).extrapolate(*(Parts(part, np.ones((1, 1))) for part in points))
    assert found.profiles.tolist() == [[0.0, 1.0]]


@KINDS
def test_chains_leap_as_squarem_in_roots(kind):
    parts = [[0.4, 0.6], [[0.5, 0.5], [0.3, 0.7]], [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]]
    roots = [three(kind, np.sqrt(part)) for part in parts]  # one direction each, of all parts at once
    models = [Chain(*(root[at] ** 2 for root in roots)) for at in range(3)]
    found = extrapolate_roots(*models)
    far, _ = squarem(*(flat(*(root[at] for root in roots)) for at in range(3)))
    far = far**2
    np.testing.assert_allclose(found.start, far[:2] / far[:2].sum(), rtol=1e-8)
    np.testing.assert_allclose(found.transitions, rows_to_one(far[2:6].reshape(2, 2)), rtol=1e-8)
    np.testing.assert_allclose(found.emissions, rows_to_one(far[6:].reshape(2, 3)), rtol=1e-8)


def test_chains_leap_to_no_zero():
    roots = [np.array([0.30, 0.70]), np.array([0.2, 0.8]), np.array([0.12, 0.88])]
    one = np.ones((1, 1))
    found = extrapolate_roots(*(Chain(np.ones(1), one, root[None] ** 2) for root in roots))
    far, _ = squarem(*roots)
    want = np.array([(1e-3 * 0.12) ** 2, far[1] ** 2])
    np.testing.assert_allclose(found.emissions[0], want / want.sum(), rtol=1e-10)


@KINDS
def test_tables_leap_as_squarem_in_logarithms(kind):
    first = np.array([0, 2, 4], np.int32)
    weights = three(kind, np.log([0.4, 0.6]))
    cells = three(kind, np.log([[0.2, 0.7], [0.8, 0.3], [0.5, 0.4], [0.5, 0.6]]))
    found = extrapolate_logs(*(Mixture(np.exp(w), np.exp(t), first) for w, t in zip(weights, cells, strict=True)))
    far, _ = squarem(*(flat(w, t) for w, t in zip(weights, cells, strict=True)))
    far = np.exp(np.minimum(far, 0))
    np.testing.assert_allclose(found.weights, far[:2] / far[:2].sum(), rtol=1e-8)
    table = far[2:].reshape(2, 2, 2)
    np.testing.assert_allclose(found.table, (table / table.sum(axis=1, keepdims=True)).reshape(4, 2), rtol=1e-8)


def test_tables_leap_to_no_probability_above_one():
    logs = [np.log([0.5, 0.5]), np.log([0.7, 0.3]), np.log([0.85, 0.15])]
    one, first = np.ones((1, 2)), np.array([0, 1], np.int32)
    found = extrapolate_logs(*(Mixture(np.exp(part), one, first) for part in logs))
    far, _ = squarem(*(flat(part, [0.0, 0.0]) for part in logs))
    assert far[0] > 0
    want = np.exp(np.minimum(far[:2], 0))
    np.testing.assert_allclose(found.weights, want / want.sum(), rtol=1e-9)


def some_counts():
    from latentfit.core.counts import read_counts

    return read_counts(np.array([[4.0, 2.0], [1.0, 3.0]]))


@KINDS
@pytest.mark.parametrize("symmetric", [True, False])
def test_pair_models_leap_as_squarem(kind, symmetric):
    left = three(kind, [[0.3, 0.6], [0.7, 0.4]])
    right = left if symmetric else three(kind, [[0.5, 0.2], [0.5, 0.8]])
    mixing = three(kind, [[0.4, 0.1], [0.1, 0.4]])
    models = [PairModel(a, b, w) for a, b, w in zip(left, right, mixing, strict=True)]
    found = PairSteps(some_counts(), symmetric=symmetric).extrapolate(*models)
    sides = [left, mixing] if symmetric else [left, mixing, right]
    far, _ = squarem(*(flat(*(side[at] for side in sides)) for at in range(3)))
    far = far.reshape(len(sides), 2, 2)
    np.testing.assert_allclose(found.left, columns_to_one(far[0]), rtol=1e-9)
    np.testing.assert_allclose(found.mixing, far[1] / far[1].sum(), rtol=1e-9)
    if symmetric:
        assert found.right is found.left
    else:
        np.testing.assert_allclose(found.right, columns_to_one(far[2]), rtol=1e-9)


def test_pair_models_keep_a_hundredth_of_what_they_had():
    columns = [np.array([[0.30], [0.70]]), np.array([[0.2], [0.8]]), np.array([[0.12], [0.88]])]
    one = np.ones((1, 1))
    found = PairSteps(some_counts(), symmetric=True).extrapolate(*(PairModel(part, part, one) for part in columns))
    far, _ = squarem(*(flat(part) for part in columns))
    want = np.array([0.01 * 0.12, far[1]])
    np.testing.assert_allclose(found.left[:, 0], want / want.sum(), rtol=1e-12)


def ancestry_steps():
    return AncestrySteps(np.array([[0, 1], [2, 1], [1, 0]], np.uint8), 1)


@KINDS
def test_ancestry_leaps_as_squarem_in_both_halves(kind):
    proportions = three(kind, [[0.3, 0.7], [0.6, 0.4]])
    often = three(kind, [[0.2, 0.5], [0.4, 0.3], [0.7, 0.6]])
    found = ancestry_steps().extrapolate(*(Ancestry(q, f) for q, f in zip(proportions, often, strict=True)))
    far, _ = squarem(*(flat(q, f) for q, f in zip(proportions, often, strict=True)))
    np.testing.assert_allclose(found.proportions, rows_to_one(far[:4].reshape(2, 2)), rtol=1e-9)
    np.testing.assert_allclose(found.frequencies, far[4:].reshape(3, 2), rtol=1e-9)


def test_ancestry_leaps_back_onto_simplex_and_box():
    down = [np.array([[0.3, 0.7]]), np.array([[0.2, 0.8]]), np.array([[0.12, 0.88]])]
    found = ancestry_steps().extrapolate(*(Ancestry(part, part) for part in down))
    assert found.proportions.tolist() == [[0.0, 1.0]]
    assert found.frequencies.tolist() == [[FIT.frequency_floor, 1 - FIT.frequency_floor]]


@KINDS
def test_switches_leap_as_squarem_in_weights_logarithms_and_noise(kind):
    weights = three(kind, [[1.0, 2.0], [-1.0, 0.5]])
    logs = three(kind, np.log([0.1, 0.2, 0.3, 0.4]))
    noise = three(kind, [np.log(0.3)])
    centres = [np.full(3, at) for at in range(3)]
    models = [
        SwitchParams(w, p, float(np.exp(s[0])), c) for w, p, s, c in zip(weights, logs, noise, centres, strict=True)
    ]
    found = SwitchSteps(np.ones((3, 2)), 6.0, 2, "all").extrapolate(*models)
    far, _ = squarem(*(flat(w, p, s) for w, p, s in zip(weights, logs, noise, strict=True)))
    np.testing.assert_allclose(found.W, far[:4].reshape(2, 2), rtol=1e-8)
    chances = np.exp(far[4:8])
    np.testing.assert_allclose(np.exp(found.log_prior), chances / chances.sum(), rtol=1e-8)
    assert found.sigma2 == pytest.approx(math.exp(far[8]), rel=1e-8)
    assert found.centres is centres[2]


def test_switches_leap_to_no_noise_below_the_floor_and_to_none_that_is_infinite():
    steps = SwitchSteps(np.ones((3, 2)), 6.0, 2, "all")
    even = np.log(np.full(2, 0.5))

    def at(log_noise):
        return SwitchParams(np.ones((1, 2)), even, math.exp(log_noise))

    assert steps.extrapolate(at(0.0), at(-1.0), at(-1.99)).sigma2 == pytest.approx(1e-13, rel=1e-9)
    assert steps.floor == pytest.approx(1e-13 * 6.0 / 6, rel=1e-12)
    assert steps.extrapolate(at(0.0), at(10.0), at(19.999)).sigma2 == pytest.approx(math.exp(700.0), rel=1e-6)


def test_steps_that_do_not_bend_at_all_are_simply_taken():
    points = [np.array([0.25, 0.75]), np.array([0.375, 0.625]), np.array([0.5, 0.5])]
    assert MixingSteps(np.zeros((2, 2))).extrapolate(*points).tolist() == [0.5, 0.5]
    rows = [part[None] for part in points]
    assert FractionSteps(None, None).extrapolate(*(Parts(row, row) for row in rows)).profiles.tolist() == [[0.5, 0.5]]
    found = ancestry_steps().extrapolate(*(Ancestry(row, row) for row in rows))
    assert found.proportions.tolist() == found.frequencies.tolist() == [[0.5, 0.5]]
    columns = [part[:, None] for part in points]
    found = topic_steps().extrapolate(*(TopicParams(column, rows[0]) for column in columns))
    assert found.topics.tolist() == [[0.5], [0.5]]
    one = np.ones((1, 1))
    found = PairSteps(some_counts(), symmetric=True).extrapolate(*(PairModel(part, part, one) for part in columns))
    assert found.left.tolist() == [[0.5], [0.5]]
