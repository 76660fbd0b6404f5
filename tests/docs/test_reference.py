"""Every public name stands in the reference and has an example; the examples themselves run in tests/system."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import latentfit
from latentfit.core.registry import FAMILIES

ROOT = Path(__file__).parents[2]
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.rst")))


def plot_modules() -> list[str]:
    """Every family draws in its module `plot`."""
    return [f"latentfit.{family.name}.plot" for family in FAMILIES]


def public_names() -> list[str]:
    """`latentfit.__all__`, that of simulate and plan, functions that draw, questions, data, errors."""
    names = [f"latentfit.{name}" for name in latentfit.__all__ if not name.startswith("_")]
    for module in ("latentfit.simulate", "latentfit.labels.select"):
        found = importlib.import_module(module)
        names += [f"{module}.{name}" for name in getattr(found, "__all__", None) or dir(found)]
    for module in plot_modules():
        drawing = vars(importlib.import_module(module))
        names += [f"{module}.{name}" for name in sorted(drawing) if name.startswith("plot_")]
    for module in ("latentfit.tables.estimator.query", "latentfit.core.errors"):
        inside = vars(importlib.import_module(module)).items()
        names += [
            f"{module}.{name}" for name, thing in inside if getattr(thing, "__module__", "") == module and _public(name)
        ]
    return names


def _public(name: str) -> bool:
    return not name.startswith("_")


def thing_of(name: str) -> object:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def in_reference(name: str) -> bool:
    """By itself, after `currentmodule`, or with all of its module; docs/conf.py adds all functions that draw."""
    module, _, last = name.rpartition(".")
    directive = r"\.\. auto(?:class|function|exception):: "
    return bool(
        module in plot_modules()
        or re.search(rf"{directive}{re.escape(name)}$", REFERENCE, re.M)
        or (module == "latentfit" and re.search(rf"{directive}{last}$", REFERENCE, re.M))
        or re.search(rf"\.\. automodule:: {re.escape(module)}$", REFERENCE, re.M)
        or re.search(rf"\.\. automodule:: {re.escape(str(thing_of(name).__module__))}$", REFERENCE, re.M)
    )


@pytest.mark.parametrize("name", public_names())
def test_public_names_have_an_example_and_are_in_the_reference(name):
    assert ">>>" in (thing_of(name).__doc__ or ""), f"{name} has no example"
    assert in_reference(name), f"{name} is not in docs/reference"
