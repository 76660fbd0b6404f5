"""What a scenario is, and whether the verdict on one draw of it is right."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from latentfit.core.registry import FAMILIES
from latentfit.core.verdict import FitReport

WARNED = ("caution", "not identifiable")
"""The verdicts of a fit that somebody should not believe as it stands."""


@dataclass(frozen=True)
class Scenario:
    """A situation: `make(seed)` draws it and returns the fitted model (or its report) with default settings.

    `expected` are the verdicts an expert would give; of an unsound situation some failed check must match `reason`, a
    regular expression for its name or sentence.
    """

    name: str
    make: Callable[[int], Any]
    expected: Sequence[str] = ("ok",)
    reason: str = ""

    @property
    def sound(self) -> bool:
        """Whether an expert would believe the answer."""
        return "ok" in self.expected


@dataclass(frozen=True)
class Outcome:
    """The verdict on one draw."""

    right: bool
    verdict: str
    reasons: list[str]


def judge(scenario: Scenario, seed: int) -> Outcome:
    """Draw a scenario, fit it, and compare the verdict with the expert's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = scenario.make(seed)
        report: FitReport = made if isinstance(made, FitReport) else made.report_
    failed = [f"{check.name}: {check.reason}" for check in report.checks if not check.passed]
    named = not scenario.reason or any(re.search(scenario.reason, text, re.IGNORECASE) for text in failed)
    return Outcome(report.verdict in scenario.expected and (scenario.sound or named), report.verdict, failed)


def scenarios_of(family: str, *, independent: bool) -> list[Scenario]:
    """The scenarios of a family, by the authors of its checks or by others."""
    module = f"tests.system.gauntlet.{'independent.' if independent else ''}{family}"
    return list(import_module(module).SCENARIOS) if find_spec(module) else []


def all_scenarios() -> list[tuple[str, bool, Scenario]]:
    """Family, whether the author had not seen the checks, scenario."""
    return [
        (family.name, independent, scenario)
        for family in FAMILIES
        for independent in (False, True)
        for scenario in scenarios_of(family.name, independent=independent)
    ]
