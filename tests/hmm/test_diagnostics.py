"""Verdicts on hidden states: doubt where no method can know, trust where the truth is found.

A few inputs run here; ``LATENTFIT_VERDICTS=200`` runs the full count on each side.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from latentfit import CategoricalHMM
from latentfit.hmm.diagnostics import neighbour_test
from latentfit.hmm.em.steps import Chain
from latentfit.simulate import draw_sequences
from tests.hmm.simulated_chains import HOPELESS, hopeless, sound
from tests.system.verdict_counts import assert_doubted, assert_ok


def verdict(world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CategoricalHMM(world.n_states, n_init=3).fit(world.data).report_


@pytest.mark.slow
def test_inputs_without_an_answer_are_not_trusted():
    assert_doubted(hopeless, verdict, len(HOPELESS))


@pytest.mark.slow
def test_sound_inputs_are_trusted():
    assert_ok(sound, verdict, 6)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(0, "look independent"), (1, "fewer observations than symbols"), (5, "three steps"), (6, "on sequences left out")],
)
def test_the_case_is_named(kind, words):
    report = verdict(hopeless(kind))
    assert any(words.lower() in reason.lower() for reason in report.reasons), report.reasons


def test_structure_test_keeps_its_level():
    """Independent draws are called dependent about as often as the level says."""
    rng = np.random.default_rng(0)
    chain = Chain(np.ones(1), np.ones((1, 1)), rng.dirichlet(np.ones(60), 1))
    found = [neighbour_test(draw_sequences(chain, 1500, 1, rng).sequences).p_value for _ in range(200)]
    assert np.mean(np.array(found) < 0.05) < 0.09
