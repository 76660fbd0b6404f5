"""One line on the terminal that says what runs, how far it is, how fast it goes and how long it may take."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from latentfit.core.progress import Stage

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
        shown = next((one for one in reversed(stages) if one.total or one.unit), stages[-1])
        words = dict.fromkeys([stages[0].what, shown.what])
        line = Table.grid(padding=(0, 1))
        for _ in range(3):
            line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        line.add_row(
            self._spinner,
            Text(" · ".join(words)),
            ProgressBar(total=shown.total, completed=shown.done, width=WIDE) if shown.total else Text(""),
            Text(" ".join(part for part in (amount(shown), speed(shown), times(shown), shown.detail) if part)),
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
