"""Every benchmark that a page names is there, and takes the arguments that the page gives it."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`(?:python )?benchmarks/(\w+)\.py([^`]*)`")
NAMED = sorted(
    {(name, words.strip()) for page in PAGES for name, words in COMMAND.findall(page.read_text(encoding="utf-8"))}
)


@cache
def arguments(name: str) -> dict[str, dict[str, ast.expr]]:
    """What a script's parser takes: names of arguments, and how each is declared."""
    tree = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if ast.unparse(call.func).endswith("add_argument")]
    return {ast.literal_eval(call.args[0]): {word.arg: word.value for word in call.keywords} for call in calls}


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, words in NAMED if "…" not in words])
def test_a_command_of_a_page_can_be_given(name, words):
    known = arguments(name)
    options = [word for word in words.split() if word.startswith("--")]
    assert set(options) <= set(known), f"benchmarks/{name}.py takes {sorted(known)}"
    for part, declared in known.items():
        if not part.startswith("-") and "nargs" not in declared:
            assert words.split()[:1], f"benchmarks/{name}.py wants one of {ast.unparse(declared['choices'])}"
            assert words.split()[0] in ast.literal_eval(declared["choices"])


def test_commands_are_found():
    assert len(NAMED) > 20


def imported_by_benchmarks() -> list[tuple[str, str, str]]:
    """(script, module, name) of what benchmarks take from the package and from the reproductions."""
    return [
        (path.name, node.module, alias.name)
        for path in sorted((ROOT / "benchmarks").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.split(".")[0] in ("latentfit", "reproduction")
        for alias in node.names
    ]


@pytest.mark.parametrize(("script", "module", "name"), imported_by_benchmarks())
def test_what_a_benchmark_imports_exists(script, module, name):
    found = importlib.import_module(module)
    assert hasattr(found, name) or importlib.import_module(f"{module}.{name}"), f"{script}: {module} has no {name}"
