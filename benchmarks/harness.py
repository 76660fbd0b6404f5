"""What the benchmarks share: where the data is, a fresh process for every figure, the memory that a block adds."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # the reproductions stand beside this folder, not in the package
from reproduction.table import find_data


def data_folder(part: str) -> Path:
    """A folder of the data sets: `crowd`, `tables`, `genetics` or `pairs`."""
    folder = find_data()
    if folder is None:
        raise SystemExit(f"the data is not here: set LATENTFIT_DATA to the folder that holds {part}/")
    return folder / part


def fresh(file: str, *arguments: str, timeout: float | None = None) -> dict | str:
    """What `python file arguments` prints last, as JSON, from a process of its own; or why there is nothing."""
    try:
        done = subprocess.run(
            [sys.executable, file, *arguments], capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return f"stopped after {timeout:.0f} seconds"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    return json.loads(done.stdout.splitlines()[-1])


class PeakMemory:
    """Largest resident size while a block runs, sampled by a thread: ru_maxrss cannot be reset."""

    def __enter__(self):
        self.base = self.peak = self._now()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.peak = max(self.peak, self._now())
        self.stop.set()
        self.thread.join()

    def _watch(self):
        while not self.stop.wait(0.005):
            self.peak = max(self.peak, self._now())

    @staticmethod
    def _now() -> int:
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @property
    def added(self) -> float:
        return (self.peak - self.base) / 1e6
