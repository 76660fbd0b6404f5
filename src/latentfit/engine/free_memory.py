"""How much memory this process may still use: the machine's, or its container's when that is less."""

from __future__ import annotations

import os
from pathlib import Path

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
USED = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")


def free_memory() -> int:
    """Bytes that can be had without swapping."""
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
