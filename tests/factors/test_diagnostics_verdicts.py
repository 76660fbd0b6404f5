"""Verdicts on hidden switches: doubt where no method can know, trust where the truth is found.

A few inputs run here; ``LATENTFIT_VERDICTS=200`` runs the full count on each side.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from latentfit import BinaryFactors
from tests.factors.simulated_rows import HOPELESS, hopeless, sound
from tests.system.verdict_counts import assert_doubted, assert_ok


def verdict(world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BinaryFactors(world.d).fit(world.X).report_


@pytest.mark.slow
def test_unidentifiable_inputs_are_not_trusted():
    assert_doubted(hopeless, verdict, 2 * len(HOPELESS))


@pytest.mark.slow
def test_sound_inputs_are_trusted():
    assert_ok(sound, verdict, 12)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (0, "always on"),
        (1, "exclude one another"),
        (2, "is a switch too"),
        (3, "is a switch too"),
        (6, "does not rise above"),
    ],
)
def test_the_reason_names_the_case(kind, words):
    report = verdict(hopeless(kind))
    assert any(words in reason for reason in report.reasons), report.reasons


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["normal", "gamma"])
def test_continuous_factors_are_not_trusted_as_binary(seed, kind):
    """Patterns that come in amounts, not on and off."""
    rng = np.random.default_rng(seed)
    amounts = rng.standard_normal((4000, 3)) if kind == "normal" else rng.gamma(1.0, size=(4000, 3))
    X = amounts @ rng.standard_normal((3, 15)) + 0.3 * rng.standard_normal((4000, 15))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = BinaryFactors(3).fit(X).report_
    assert report.verdict != "ok"
    assert any("not two bumps" in reason or "other weights" in reason for reason in report.reasons)


def test_the_report_has_its_quantities():
    report = verdict(sound(0))
    assert {"rivals", "condition_two", "definite", "scores", "score_null_level", "newton_condition", "next_score",
            "half_sample_change", "smallest_eigenvalue", "eigenvalue_gap"} <= set(report.quantities)  # fmt: skip
    assert np.isfinite(report.quantities["condition_two"]).all()
