"""Every error and warning of the package has one form: what must hold, what was found, where, and what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "latentfit"
ERRORS = ("DataError", "FileFormatError", "ModelFileError", "NotIdentifiableError", "UsageError", "OSError")
ERRORS += ("FileNotFoundError", "PermissionError", "IsADirectoryError", "NotADirectoryError")
SUGGESTION = re.compile(r"[;?]|\{\}$|^X has .* fitted on|must .*got")  # a filled-in end is a suggestion made elsewhere
NAMES = re.compile(r"(EM|SNP|K|X) |Negative values in data")  # a name, or words that scikit-learn's checks look for


@cache
def messages() -> tuple[tuple[str, str, str], ...]:
    """(module, kind, text) of every error made and every warning given; what is filled in stands as {}."""
    return tuple(_messages())


def _messages() -> Iterator[tuple[str, str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            text = _text(node.args[0])
            if text is not None and (name in ERRORS or name == "warn"):
                yield path.relative_to(SOURCE).as_posix(), "warning" if name == "warn" else name, text


def _text(node: ast.expr) -> str | None:
    """A string as it is written, {} for what is filled in; None when it is no literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_text(part) for part in (node.left, node.right)]
        return None if None in parts else "".join(part or "" for part in parts)
    return None


def test_every_message_has_the_form():
    wrong = []
    for module, kind, text in messages():
        faults = [
            "ends in a full stop" if text.endswith(".") and "must" not in text else "",
            "begins with a capital letter" if text[:1].isupper() and not NAMES.match(text) else "",
            "has two lines" if "\n" in text else "",
            "has no suggestion" if kind not in ("warning", "UsageError") and not SUGGESTION.search(text) else "",
        ]
        wrong += [f"{module}: {fault}: {text}" for fault in faults if fault]
    assert not wrong, "\n".join(wrong)
