"""Every number that somebody chose for the mathematics, in numbers.txt: thresholds, budgets, tolerances, defaults.

They decide verdicts and costs, and few tests see a threshold move by a little. The list is made from the modules; when
a number changes, so does the list, and whoever changes it reads it there among its neighbours:

python tests/docs/test_numbers.py      # writes the list again
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module, util
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = Path(util.find_spec("latentfit").origin).parent
LIST = HERE / "numbers.txt"
ROOMS = ("moments", "factor", "refine", "diagnose")


def numbers() -> Iterator[str]:
    """One line per named number, series of numbers or table of them, and per default, by module."""
    for path in sorted(file for room in ROOMS for file in (SOURCE / room).rglob("*.py")):
        inside = path.relative_to(SOURCE).with_suffix("")
        module = import_module(".".join(["latentfit", *inside.parts]))
        tree = ast.parse(path.read_text(encoding="utf-8"))
        chosen = [(name, getattr(module, name)) for name in _names(tree)]
        for name, value in [*chosen, *_defaults(tree)]:
            if (shown := _shown(value)) is not None:
                yield f"{inside.as_posix()}.py: {name} = {shown}\n"


def _names(tree: ast.Module) -> Iterator[str]:
    """Names in capitals that a module gives on its top level."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Name) and one.id.isupper():
                    yield one.id


def _defaults(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Parameters of functions with the values they have when nobody gives any, where those are written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            some, named = node.args.args, node.args.kwonlyargs
            defaults = [*zip(some[len(some) - len(node.args.defaults) :], node.args.defaults, strict=True)]
            for parameter, default in [*defaults, *zip(named, node.args.kw_defaults, strict=True)]:
                if isinstance(default, ast.Constant):
                    yield f"{node.name}({parameter.arg})", default.value


def _shown(value: Any) -> str | None:
    """A number to twelve places, or all of several; None for anything else."""
    if isinstance(value, dict):
        parts = [(_shown(key), _shown(one)) for key, one in value.items()]
        return None if None in sum(parts, ()) else "{" + ", ".join(f"{key}: {one}" for key, one in parts) + "}"
    if isinstance(value, tuple | list):
        shown = [_shown(one) for one in value]
        return None if None in shown else f"({', '.join(shown)})"
    return f"{value:.12g}" if isinstance(value, int | float) and not isinstance(value, bool) else None


def test_the_list_is_what_the_modules_say():
    assert LIST.read_text(encoding="utf-8") == "".join(numbers()), (
        "read the changed numbers, then: python tests/docs/test_numbers.py"
    )


if __name__ == "__main__":
    LIST.write_text("".join(numbers()), encoding="utf-8")
