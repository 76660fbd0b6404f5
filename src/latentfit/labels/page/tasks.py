"""What a page tells of tasks, gathered block by block: how sure the consensus is, and which tasks one label more helps.

Memory stays flat: of all tasks only the counts of a histogram and the 1,000 most useful ones are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.labels.data.labels import CodedLabels, Labels
from latentfit.labels.estimator.crowd import FittedCrowd
from latentfit.labels.select.information import gain_table
from latentfit.report.page import MOST_ROWS

BINS = 20
"""Intervals of confidence."""


@dataclass(frozen=True)
class Tasks:
    """Of the labelled tasks: how many, counts by confidence (BINS,), the mean doubt; and rows of the most useful."""

    n_tasks: int
    n_labelled: int
    n_labels: int
    confidence: NDArray[np.int64]
    expected_error: float
    rows: list[list[Any]]  # task, label, probability, runner-up, labels, gain


def tasks_of(crowd: FittedCrowd, given: Labels | None = None) -> Tasks | None:
    """Tasks of the fit, or of labels given anew; None when there are neither."""
    seen = getattr(crowd, "evidence", None)
    data: CodedLabels
    parts: Iterable[tuple[int, Labels, Floats]]
    if seen is not None:
        data, parts = seen.data, seen.parts()
    elif given is not None:
        data, parts = given, [(0, given, crowd.beliefs(given)[0])]
    else:
        return None
    average = np.ascontiguousarray(crowd.pooled.T)[None]  # (1, true, given): the crowd's average worker
    confidence, doubt, labelled = np.zeros(BINS, np.int64), 0.0, 0
    best = _Best(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, len(crowd.class_names))))
    for begin, block, posterior in parts:
        per_task = np.diff(block.offsets)
        sure = posterior[per_task > 0].max(axis=1)
        confidence += np.histogram(sure, BINS, (0.0, 1.0))[0]
        doubt, labelled = doubt + float((1 - sure).sum()), labelled + len(sure)
        places = np.arange(begin, begin + len(posterior))
        best = best.joined(_Best(gain_table(posterior, average)[:, 0], places, per_task, posterior))
    return Tasks(
        data.n_rows, labelled, data.n_labels, confidence, doubt / max(labelled, 1), _rows(best, data, crowd.class_names)
    )


@dataclass(frozen=True)
class _Best:
    """The tasks with the largest gain so far, falling; equal ones in their order."""

    gain: Floats
    places: NDArray[np.int64]
    n_labels: NDArray[np.int64]
    posterior: Floats

    def joined(self, other: _Best) -> _Best:
        gain, places, counts, beliefs = (
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("gain", "places", "n_labels", "posterior")
        )
        kept = np.argsort(-gain, kind="stable")[:MOST_ROWS]
        return _Best(gain[kept], places[kept], counts[kept], beliefs[kept])


def _rows(best: _Best, data: CodedLabels, classes: Any) -> list[list[Any]]:
    order = np.argsort(-best.posterior, axis=1, kind="stable")
    rows = []
    for at, place in enumerate(best.places.tolist()):
        first = order[at, 0]
        second = str(classes[order[at, 1]]) if order.shape[1] > 1 else ""
        name = str(data.names_of(place, place + 1)[0].as_py())
        said = str(classes[first])
        rows.append(
            [name, said, float(best.posterior[at, first]), second, int(best.n_labels[at]), float(best.gain[at])]
        )
    return rows
