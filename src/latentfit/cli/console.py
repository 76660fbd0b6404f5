"""Console output on stderr, with a progress line on terminals."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from latentfit.core.progress import is_watched, stage, watched_by

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_CELL = 200
"""Characters of a cell that the screen shows; the files hold the rest."""


def called(path: str) -> str:
    """The name of a file in messages."""
    return "standard input" if path == "-" else path


def number_of(number: float, things: str) -> str:
    """A number of things: 1,728 rows, 1 class."""
    one = "person" if things == "people" else things[: -2 if things.endswith(("sses", "ches")) else -1]
    return f"{number:,.0f} {one if number == 1 else things}"


class Terminal:
    """Messages to the user on stderr; none if quiet."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    @cached_property
    def console(self) -> Console:
        from rich.console import Console

        class Voice(Console):
            def on_broken_pipe(self) -> None:  # nobody listens any more; the work goes on
                self.quiet = True
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

        return Voice(stderr=True, highlight=False)

    def say(self, text: str = "") -> None:
        if not self.quiet:
            self.console.print(text, markup=False, soft_wrap=True)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        if self.quiet:
            return

        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL]}…") for cell in row))
        self.console.print(table)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """While something long runs, a line with its progress, on terminals only; warnings become notes."""
        with self.counting(what), self.warnings_as_notes():
            yield

    @contextmanager
    def counting(self, what: str, unit: str = "", total: int | None = None) -> Iterator[Callable[[int], None]]:
        """The same for countable work: yields a callback that takes how much is done."""
        with ExitStack() as open_:
            if not self.quiet and not is_watched() and sys.stderr.isatty() and self.console.is_terminal:
                from latentfit.cli.progress_bar import Bars

                open_.enter_context(watched_by(open_.enter_context(Bars(self.console))))
            yield open_.enter_context(stage(what, total, unit)).at

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Warnings become one line of console output each instead of a line of source code."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.say(f"note: {text}")
