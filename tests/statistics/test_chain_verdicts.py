"""Verdicts on hidden states: doubt where no method can know, trust where the truth is found.

A few inputs run here; ``TACIT_VERDICTS=200`` runs the full count on each side.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from tests.statistics.chain_worlds import HOPELESS, hopeless, sound

from tacit import CategoricalHMM
from tacit.diagnose.hmm import structure_test
from tacit.engine.chain import Chain
from tacit.simulate import draw_sequences

COUNT = int(os.environ.get("TACIT_VERDICTS", "0"))


def verdict(world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CategoricalHMM(world.n_states, n_init=3).fit(world.data).report_


@pytest.mark.slow
def test_inputs_without_an_answer_are_doubted():
    wrong = []
    count = COUNT or len(HOPELESS)
    for seed in range(count):
        world = hopeless(seed)
        if verdict(world).verdict == "trusted":
            wrong.append((seed, world.kind))
    assert len(wrong) <= 0.01 * count, wrong


@pytest.mark.slow
def test_sound_inputs_are_trusted():
    wrong = []
    count = COUNT or 6
    for seed in range(count):
        report = verdict(sound(seed))
        if report.verdict != "trusted":
            wrong.append((seed, report.reasons))
    assert len(wrong) <= 0.01 * count, wrong


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
    found = [structure_test(draw_sequences(chain, 1500, 1, rng).sequences).p_value for _ in range(200)]
    assert np.mean(np.array(found) < 0.05) < 0.09
