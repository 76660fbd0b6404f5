"""What a stage hands to the next cannot be changed there: every dataclass of the mathematics is frozen."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import latentfit
from latentfit.core.estimator import seed_of
from latentfit.core.registry import FAMILIES

ROOMS = ("init", "moments", "em", "select", "diagnostics", "theory")
FILLED_IN = {"Anyone", "Cover", "Examiner"}
"""Those that are there to be filled in, step by step."""


def values() -> list[type]:
    folder = Path(latentfit.__file__).parent
    families = [folder / family.name for family in FAMILIES]
    named = [path for family in families for path in family.rglob("*.py")]
    files = sorted(path for path in named if set(ROOMS) & {*path.with_suffix("").parts})
    modules = [
        import_module(".".join(["latentfit", *file.relative_to(folder).with_suffix("").parts])) for file in files
    ]
    return [
        one for module in modules for one in vars(module).values()
        if isinstance(one, type) and is_dataclass(one) and one.__module__ == module.__name__
        and one.__name__ not in FILLED_IN
    ]  # fmt: skip


@pytest.mark.parametrize("kind", values(), ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_answers_cannot_be_changed(kind):
    with pytest.raises(FrozenInstanceError):
        setattr(object.__new__(kind), fields(kind)[0].name, 0)


@pytest.mark.parametrize("state", [None, 0, np.int64(0)])
def test_no_random_state_is_the_seed_zero_of_the_command_line(state):
    assert seed_of(state) == 0


def test_a_seed_in_python_is_the_same_seed_on_the_command_line():
    assert [seed_of(number) for number in (1, 7, 2**31 - 1)] == [1, 7, 2**31 - 1]
