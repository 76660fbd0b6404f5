"""Seconds per stage of a fit, and the report that carries them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tacit.diagnose.report import Examination, FitReport


class StageClock:
    """Seconds per stage of a fit."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin


def make_report(examination: Examination, notes: list[str], clock: StageClock) -> FitReport:
    """The public report of a fit."""
    return FitReport(examination.verdict, examination.reasons, examination.quantities, notes, dict(clock.seconds))
