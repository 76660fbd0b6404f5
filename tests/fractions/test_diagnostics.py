"""Checks of fractions, each on both sides of its limit."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import MixtureFractions
from latentfit.fractions import diagnostics
from latentfit.fractions.diagnostics import SETTINGS, examine_fractions
from latentfit.fractions.init import UnitValues

RNG = np.random.default_rng(0)
PROFILES = RNG.beta(0.5, 0.5, (3, 60))
WEIGHTS = RNG.dirichlet(np.ones(3), 20)


def examined(values, fractions, profiles, *, known=True, **changed):
    settings = {"converged": True, "empty": 0, "path": None, "rng": np.random.default_rng(0)} | changed
    return examine_fractions(
        UnitValues(np.asarray(values), None), fractions, profiles, list(range(len(profiles))), known=known, **settings
    )


def check(examination, name):
    return next(one for one in examination.checks if one.name == name)


def noisy(noise, weights=WEIGHTS, profiles=PROFILES):
    return weights @ profiles + noise * np.random.default_rng(1).normal(size=(len(weights), profiles.shape[1]))


def test_a_sound_reference_passes_every_check_and_each_has_a_title():
    found = examined(noisy(0.02), WEIGHTS, PROFILES)
    assert found.verdict == "ok"
    names = [one.name for one in found.checks]
    assert len(names) == len(set(names)) >= 7
    assert all(one.title for one in found.checks)


@pytest.mark.parametrize(("times", "passes"), [(2.5, True), (3.5, False)])
def test_a_sample_that_is_explained_far_worse_than_the_others_is_named(times, passes):
    left = 0.02 * np.where(np.add.outer(np.arange(20), np.arange(60)) % 2, 1, -1)
    left[7] *= times
    one = check(examined(WEIGHTS @ PROFILES + left, WEIGHTS, PROFILES), "outlying_samples")
    assert one.passed == passes
    assert one.value == pytest.approx(times)
    assert passes or "sample 8: 3.5 times" in one.reason


@pytest.mark.parametrize(("total", "passes"), [(0.96, True), (0.9, False), (1.1, False)])
def test_fractions_whose_sum_is_free_add_up_to_one(total, passes):
    one = check(examined(total * WEIGHTS @ PROFILES, WEIGHTS, PROFILES), "sum_of_fractions")
    assert one.passed == passes
    assert one.value == pytest.approx(total, abs=1e-6)


def test_the_sum_is_free_where_the_constraint_leaves_it_so():
    found = examined(0.8 * WEIGHTS @ PROFILES, 0.8 * WEIGHTS, PROFILES, constraint="sum_at_most_one")
    assert "sum_of_fractions" not in [one.name for one in found.checks]


@pytest.mark.parametrize(("gain", "passes"), [(0.9, False), (1.1, True)])
def test_a_given_number_of_blind_parts_predicts_left_out_values(gain, passes, monkeypatch):
    monkeypatch.setattr(diagnostics, "predicts_better", lambda *args: gain)
    assert check(examined(noisy(0.02), WEIGHTS, PROFILES, known=False), "evidence_for_number").passed == passes


@pytest.mark.parametrize(("apart", "passes"), [(0.09, True), (0.11, False)])
def test_blind_fractions_come_back_from_halves_of_the_features(apart, passes, monkeypatch):
    monkeypatch.setattr(diagnostics, "halves_distance", lambda *args: apart)
    found = examined(noisy(0.02), WEIGHTS, PROFILES, known=False)
    assert check(found, "stability").passed == passes
    assert found.expected.value >= apart / 2


@pytest.mark.parametrize(("times", "passes"), [(1, True), (2, False)])
def test_copies_of_samples_are_told_from_measurements_of_the_same_mixture(times, passes):
    values = np.repeat(noisy(0.03), times, axis=0)
    twice = np.random.default_rng(4).normal(size=values.shape) * 0.03 + np.repeat(WEIGHTS, times, axis=0) @ PROFILES
    weights = np.repeat(WEIGHTS, times, axis=0)
    one = check(examined(values, weights, PROFILES, known=False), "copied_samples")
    assert one.passed == passes
    assert one.value == pytest.approx(times - 1)
    again = examined(np.vstack([values[::times], twice[::times]]), np.tile(WEIGHTS, (2, 1)), PROFILES, known=False)
    assert check(again, "copied_samples").passed


def test_one_blind_part_is_no_structure():
    one = check(examined(np.full((12, 5), 0.3), np.ones((12, 1)), np.full((1, 5), 0.3), known=False), "structure")
    assert not one.passed
    assert "no structure was found" in one.reason


def test_halves_of_sound_mixtures_agree_and_of_noise_do_not():
    pure = np.vstack([np.repeat(np.eye(3), 4, axis=0), WEIGHTS])
    agree = diagnostics.halves_distance(UnitValues(np.clip(noisy(0.02, pure), 0, 1), None), 3, np.random.default_rng(2))
    noise = diagnostics.halves_distance(UnitValues(RNG.random((30, 60)), None), 3, np.random.default_rng(2))
    assert agree < SETTINGS.halves_apart < noise
    assert diagnostics.halves_distance(UnitValues(RNG.random((30, 6)), None), 3, np.random.default_rng(2)) is None


def test_the_expected_error_is_near_the_actual_one():
    rng = np.random.default_rng(3)
    profiles, weights = rng.beta(0.5, 0.5, (4, 200)), rng.dirichlet(np.full(4, 5.0), 200)
    model = MixtureFractions(reference=profiles.T).fit(np.clip(noisy(0.05, weights, profiles), 0, 1))
    actual = np.sqrt(np.square(model.fractions_ - weights).mean())
    assert model.report_.expected.value == pytest.approx(actual, rel=0.2)
    assert "one standard error" in model.report_.expected.sentence
