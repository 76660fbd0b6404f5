"""Everything said to a person: on stderr, with a line of progress on terminals."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from latentfit.core.progress import Stage, is_watched, stage, watched_by

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_CELL = 200
"""Characters of a cell that the screen shows; the files hold the rest."""


def called(path: str) -> str:
    """A file as messages call it."""
    return "standard input" if path == "-" else path


def number_of(number: float, things: str) -> str:
    """A number of things: 1,728 rows, 1 class."""
    one = "person" if things == "people" else things[: -2 if things.endswith(("sses", "ches")) else -1]
    return f"{number:,.0f} {one if number == 1 else things}"


class Talk:
    """Everything said to a person: on stderr, nothing when quiet."""

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
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for index, column in enumerate(columns):
            table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL]}…") for cell in row))
        self.console.print(table)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """While something long runs, a line with its progress, on terminals only; warnings become notes."""
        with self.counting(what), self.heeding_warnings():
            yield

    @contextmanager
    def counting(self, what: str, unit: str = "", total: int | None = None) -> Iterator[Callable[[int], None]]:
        """The same for work that can be counted: the function given takes how much is behind."""
        with ExitStack() as open_:
            if not self.quiet and not is_watched() and sys.stderr.isatty() and self.console.is_terminal:
                from latentfit.cli.console import Bars

                open_.enter_context(watched_by(open_.enter_context(Bars(self.console))))
            yield open_.enter_context(stage(what, total, unit)).at

    @contextmanager
    def heeding_warnings(self) -> Iterator[None]:
        """Warnings become one line of talk each instead of a line of source code."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.say(f"note: {text}")


# -----------------------------------------------------------------------------
# One line on the terminal that says what runs, how far it is, how fast it goes and how long it may take.

PATIENCE = 0.5
"""Seconds before anything is shown: what is over sooner needs no bar."""
WIDE = 16
"""Cells of the bar."""


class Bars:
    """Hears of stages and draws the innermost that counts, while it is entered; it leaves no trace behind."""

    def __init__(self, console: Console) -> None:
        self.open: list[Stage] = []
        self._spinner = Spinner("dots")
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=self.line)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def opened(self, stage: Stage) -> None:
        self.open.append(stage)

    def moved(self, stage: Stage) -> None:
        pass  # the line is drawn again several times a second anyway

    def closed(self, stage: Stage) -> None:
        if stage in self.open:
            self.open.remove(stage)

    def line(self) -> RenderableType:
        """What the terminal shows now."""
        stages = list(self.open)
        if not stages or stages[0].seconds < PATIENCE:
            return Text("")
        told = next((one for one in reversed(stages) if one.total or one.unit), stages[-1])
        words = dict.fromkeys([stages[0].what, told.what])
        line = Table.grid(padding=(0, 1))
        for _ in range(3):
            line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        line.add_row(
            self._spinner,
            Text(" · ".join(words)),
            ProgressBar(total=told.total, completed=told.done, width=WIDE) if told.total else Text(""),
            Text(" ".join(part for part in (amount(told), speed(told), times(told), told.detail) if part)),
        )
        return line


def amount(stage: Stage) -> str:
    """How much is behind, of how much."""
    behind = f"{stage.done:,}" + (f"/{stage.total:,}" if stage.total else "")
    return behind + (f" {stage.unit}" if stage.unit else "") if stage.total or stage.unit else ""


def speed(stage: Stage) -> str:
    """Units a second; walks over numbers of classes have no speed worth telling."""
    if not stage.unit or not stage.rate:
        return ""
    return f"{stage.rate:,.0f}/s" if stage.rate >= 10 else f"{stage.rate:.2g}/s"


def times(stage: Stage) -> str:
    """How long it has run, and how long it may still take."""
    left = stage.seconds_left
    return clock(stage.seconds) + (f", {clock(left)} left" if left is not None else "")


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
