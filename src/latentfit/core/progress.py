"""Progress of long computations: any layer reports, a callback (`Watcher`) receives, without one nothing happens.

A stage is opened around work that takes time (`stage`); where the work is countable it reports how much is done
(`Stage.at`). Stages nest: a fit that tries numbers of topics is a stage, each EM run inside it reports its iterations
(`report_iteration`). The command line draws the innermost countable stage as a bar; `verbose` of an estimator prints
lines. No result may depend on the callback.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol, TypeVar

T = TypeVar("T")

MAX_PREDICTED = 10_000
"""Most iterations predicted: gains that hardly fall do not predict the end."""


class Watcher(Protocol):
    """Progress callback; called in the working thread, so it must be quick."""

    def opened(self, stage: Stage) -> None: ...
    def moved(self, stage: Stage) -> None: ...
    def closed(self, stage: Stage) -> None: ...


@dataclass
class Stage:
    """Work in progress: what it is, how much of it is done, what it is doing now."""

    what: str
    total: int | None = None
    unit: str = ""
    done: int = 0
    detail: str = ""
    begin: float = field(default_factory=lambda: monotonic())
    watcher: Watcher | None = None

    def at(self, done: int, detail: str = "", total: int | None = None) -> None:
        """Report that so much is done; `detail` says what comes next, `total` updates the expected total."""
        self.done, self.detail = done, detail
        self.total = self.total if total is None else total
        if self.watcher is not None:
            self.watcher.moved(self)

    @property
    def seconds(self) -> float:
        return monotonic() - self.begin

    @property
    def rate(self) -> float | None:
        """Units per second, once there is one."""
        return self.done / self.seconds if self.done and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left; None where the total is not known."""
        return None if self.total is None or not self.rate else max(self.total - self.done, 0) / self.rate


_watcher: ContextVar[Watcher | None] = ContextVar("latentfit_watcher", default=None)
_inner: ContextVar[Stage | None] = ContextVar("latentfit_stage", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Report all progress inside to `watcher` only."""
    outer = _watcher.get()
    _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.set(outer)


def is_watched() -> bool:
    return _watcher.get() is not None


@contextmanager
def stage(what: str, total: int | None = None, unit: str = "") -> Iterator[Stage]:
    """A stage around work: `what` is a short description, `total` the number of units, if known."""
    watcher = _watcher.get()
    one = Stage(what, total, unit, watcher=watcher)
    if watcher is None:
        yield one
        return
    outer = _inner.get()
    _inner.set(one)
    watcher.opened(one)
    try:
        yield one
    finally:
        if _inner.get() is one:  # a generator that was left early may be closed late
            _inner.set(outer)
        watcher.closed(one)


def report_iteration(n_iter: int, most: int, gain: float, before: float, tol: float) -> None:
    """Report an EM iteration with its gain per cell, and that of the iteration before, to the current stage.

    A stage without units of its own counts iterations; how many are left is predicted from how fast the gains fall.
    """
    inner = _inner.get()
    if inner is None:
        return
    words = f"iteration {n_iter:,}, gain {gain:.1e}"
    if inner.unit == "iterations" or (inner.total is None and not inner.unit):
        inner.unit = "iterations"
        inner.at(n_iter, words, min(most, n_iter + iterations_left(gain, before, tol)))
    else:
        head = inner.detail.partition(" · ")[0]
        inner.at(inner.done, f"{head} · {words}" if head else words)


def iterations_left(gain: float, before: float, tol: float) -> int:
    """Iterations until gains that fall geometrically, as from `before` to `gain`, are below `tol`."""
    if not 0 < tol < gain < before:
        return 0 if 0 < gain <= tol else MAX_PREDICTED
    return min(MAX_PREDICTED, max(0, math.ceil(math.log(tol / gain) / math.log(gain / before))))


def candidate_numbers(numbers: Sequence[int], things: str) -> Iterator[int]:
    """Iterate over candidate numbers of classes, topics, ..., with progress; may end early."""
    with stage(f"how many {things}", len(numbers)) as walk:
        for at, number in enumerate(numbers):
            walk.at(at, f"{number} {things}")
            yield number


def counted(things: Iterable[T], what: str, total: int, unit: str) -> Iterator[T]:
    """Iterate over equal units of work, with progress."""
    with stage(what, total, unit) as work:
        for at, thing in enumerate(things):
            work.at(at)
            yield thing
        work.at(total)


class StageClock:
    """Seconds per stage of a fit; each stage is reported to the callback, and printed if `verbose`."""

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
    """Prints a line on stderr for every stage that ended, and for every number that is tried."""

    def __init__(self) -> None:
        self.said = ""

    def opened(self, one: Stage) -> None:
        pass

    def moved(self, one: Stage) -> None:
        text = f"{one.what}: {one.detail.partition(' · ')[0]}"
        if one.detail and one.unit != "iterations" and text != self.said:
            print(text, file=sys.stderr)
            self.said = text

    def closed(self, one: Stage) -> None:
        count = f"{one.done:,} iterations, " if one.unit == "iterations" else ""
        print(f"{one.what}: {count}{one.seconds:.2f} s", file=sys.stderr)
