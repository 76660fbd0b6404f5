"""The layout of docs/architecture.md: every family has the same file names, and one place lists the families."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latentfit.core.registry import FAMILIES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "latentfit"
NAMES = {
    "estimator", "data", "moments", "init", "em", "select", "diagnostics", "theory", "simulate", "page", "plot", "cli",
}  # fmt: skip
SHARED = {"core", "io", "engine", "report", "cli"}
LISTS = {"core/registry.py", "__init__.py"}  # the second names the public classes, for type checkers


def entries(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir()} - {
        "__init__",
        "__pycache__",
    }


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_a_family_holds_only_the_allowed_files(family):
    assert entries(SOURCE / family) <= NAMES


@pytest.mark.parametrize("family", [family.name for family in FAMILIES])
def test_a_family_has_the_files_without_which_it_is_none(family):
    assert {"estimator", "page", "plot", "cli", "diagnostics"} <= entries(SOURCE / family)


def test_every_package_is_shared_or_a_family():
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir()} - {"__pycache__"}
    assert packages == SHARED | {family.name for family in FAMILIES}


def test_no_other_module_lists_the_families():
    packages = re.compile(r"latentfit\.(" + "|".join(family.name for family in FAMILIES) + r")\b")
    listing = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if len(set(packages.findall(path.read_text(encoding="utf-8")))) > 2
    }
    assert listing == LISTS


def test_every_family_has_its_walk_in_the_architecture():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert all(f"| {family.name} | " in page for family in FAMILIES)
