"""The short form of the gauntlet: two draws of every scenario; the long form is `./dev gauntlet`."""

from __future__ import annotations

from functools import cache

import pytest

from tests.system.gauntlet.scenario import Outcome, all_scenarios, judge

DRAWS = 2
SCENARIOS = all_scenarios()


@cache
def outcomes(at: int) -> list[Outcome]:
    return [judge(SCENARIOS[at][2], seed) for seed in range(DRAWS)]


@pytest.mark.parametrize(
    "at", range(len(SCENARIOS)), ids=[f"{family}-{scenario.name}" for family, _, scenario in SCENARIOS]
)
def test_the_verdict_is_right_in_a_draw(at):
    assert any(outcome.right for outcome in outcomes(at)), outcomes(at)


def test_every_sound_scenario_is_expected_to_be_ok_and_every_other_names_its_reason():
    for family, _, scenario in SCENARIOS:
        assert scenario.sound or scenario.reason, (family, scenario.name)
