"""Wide matrices with a fixed number of classes, whether or not every class occurs."""

from __future__ import annotations

import numpy as np

from tacit.data.labels import Labels, assemble


def coded(given, n_classes) -> Labels:
    """Labels from a matrix of class codes (task, worker), NaN where a label is missing."""
    given = np.asarray(given, float)
    task, worker = np.nonzero(~np.isnan(given))
    label = given[task, worker].astype(np.int32)
    names = np.arange(given.shape[0]), np.arange(given.shape[1]), np.arange(n_classes)
    return assemble(task.astype(np.int32), worker.astype(np.int32), label, *names)
