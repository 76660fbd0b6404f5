"""Dense linear algebra on one thread: the same bits under any load, threads left to the kernels; free memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    with _interrupted_later():
        return ThreadpoolController()  # the lookup takes milliseconds: once is enough


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Libraries are looked up in callbacks from C, where Python would drop SIGINT and SIGTERM: handle them later."""
    if current_thread() is not main_thread():
        yield
        return
    known = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in known.items() if callable(handler)}
    pending: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, _: pending.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for one in pending:
        handlers[signal.Signals(one)](one, None)


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which numpy and scipy use one BLAS thread."""
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


# -----------------------------------------------------------------------------
# How much memory this process may still use: the machine's, or its container's when that is less.

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
USED = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")


def free_memory() -> int:
    """Bytes available without swapping."""
    free = _available()
    for limit, used in zip(LIMITS, USED, strict=True):
        most, now = _number(limit), _number(used)
        if most is not None and now is not None:
            free = min(free, max(most - now, 0))
    return free


def _available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES")) // 2


def _number(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
