"""Seconds per stage of a fit, what `verbose` prints of them, and the report that carries them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from latentfit.core.progress import Stage, is_watched, stage, watched_by
from latentfit.core.verdict import Examination, FitReport


class StageClock:
    """Seconds per stage of a fit; each stage is told to whoever watches, and printed when `verbose`."""

    def __init__(self, verbose: int = 0) -> None:
        self.seconds: dict[str, float] = {}
        self.verbose = verbose

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            with watched_by(Lines()) if self.verbose and not is_watched() else nullcontext(), stage(name):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin


class Lines:
    """A line on stderr for every stage that ended, and for every number that is tried."""

    def __init__(self) -> None:
        self.said = ""

    def opened(self, one: Stage) -> None:
        pass

    def moved(self, one: Stage) -> None:
        text = f"{one.what}: {one.detail.partition(' · ')[0]}"
        if one.detail and one.unit != "passes" and text != self.said:
            print(text, file=sys.stderr)
            self.said = text

    def closed(self, one: Stage) -> None:
        passes = f"{one.done:,} passes, " if one.unit == "passes" else ""
        print(f"{one.what}: {passes}{one.seconds:.2f} s", file=sys.stderr)


def make_report(examination: Examination, notes: list[str], clock: StageClock) -> FitReport:
    """The public report of a fit."""
    return FitReport(examination.verdict, examination.reasons, examination.quantities, notes, dict(clock.seconds))
