"""Runs what a page says: its Python blocks in one namespace, its `latentfit …` lines through the command line, in
order.

The tests and `make_pictures.py` run pages with it, in a folder of their own. A block that cannot run there has a
comment on the line before it: `<!-- not run: reason -->`, or `<!-- peer: module -->` for another program's code.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>not run|peer): (?P<why>[^>]+) -->\n+)?^```(?P<language>python|sh)\n(?P<code>.*?)^```$",
    re.S | re.M,
)
_NO_COMMAND = re.compile(r"(python3? -m venv|uv |\S*pip install|\./dev |\S*python -m pytest|git |cd )")
"""Lines of a shell block that set a machine up: CI runs the README's to the letter."""


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int
    not_run: str | None
    peer: str | None


def blocks_of(page: Path) -> list[Block]:
    """The Python and shell blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found["language"],
            found["code"],
            text[: found.start("code")].count("\n"),
            found["why"] if found["mark"] == "not run" else None,
            found["why"] if found["mark"] == "peer" else None,
        )
        for found in _FENCE.finditer(text)
    ]


def commands_of(code: str) -> Iterator[list[str]]:
    """The words of every `latentfit …` in a shell block."""
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"\s&&\s", line):
            part = re.sub(r'^eval "\$\((.*)\)"', r"\1", part)  # what a shell takes over is a command like any other
            words = shlex.split(part, comments=True)
            if words and words[0].rsplit("/", 1)[-1] == "latentfit":
                yield words[1:]
            elif words and not _NO_COMMAND.match(part.strip()):
                raise ValueError(f"neither a command of latentfit nor one that sets a machine up: {part}")


def run_page(page: Path, *, peers: bool = False) -> dict[str, Any]:
    """Run a page's blocks in the current folder, also those of `peers` if asked; the names its Python leaves behind."""
    from latentfit.cli.main import main

    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks_of(page):
        if block.not_run or (block.peer and not peers):
            continue
        if block.language == "python":  # blank lines before it: tracebacks show the lines of the page
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
            continue
        for words in commands_of(block.code):
            if (code := main(words)) != 0:
                raise AssertionError(f"{page.name}: `latentfit {shlex.join(words)}` exits with {code}")
    return names
