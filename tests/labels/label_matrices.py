"""Wide matrices with a fixed number of classes, whether or not every class occurs."""

from __future__ import annotations

import numpy as np

from latentfit.labels.data import Labels, assemble


def coded(given, n_classes) -> Labels:
    """Labels from a matrix of class codes (task, worker), NaN where a label is missing."""
    given = np.asarray(given, float)
    task, worker = np.nonzero(~np.isnan(given))
    label = given[task, worker].astype(np.int32)
    names = np.arange(given.shape[0]), np.arange(given.shape[1]), np.arange(n_classes)
    return assemble(task.astype(np.int32), worker.astype(np.int32), label, *names)


def ratings(seed: int, n_tasks: int = 40, n_workers: int = 9, *, share: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Labels 0 and 1 (task, worker) of workers right with 60 to 95 %, a share of them given; and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n_tasks)
    right = rng.random((n_tasks, n_workers)) < rng.uniform(0.6, 0.95, n_workers)
    given = np.where(right, truth[:, None], 1 - truth[:, None]).astype(float)
    given[rng.random(given.shape) >= share] = np.nan
    return given, truth
