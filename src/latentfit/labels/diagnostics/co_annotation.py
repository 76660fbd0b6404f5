"""Who met whom in a crowd: tasks that two workers both labelled, and the pairs that nothing connects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.labels.data.labels import CodedLabels
from latentfit.labels.diagnostics.duplicates import pairs_within_reach
from latentfit.labels.diagnostics.structure import MOST_WORKERS
from latentfit.labels.init.designated import reachable
from latentfit.labels.moments import co_label_graph


@dataclass(frozen=True)
class Meetings:
    """Workers with most labels, part by part: tasks in common (w, w), and whether a chain of common tasks connects.

    `n_pairs` of all workers have a task in common.
    """

    n_pairs: int
    workers: NDArray[np.intp]
    common: NDArray[np.int64]
    reached: NDArray[np.bool_]


def meetings(data: CodedLabels, most: int) -> Meetings | None:
    """Who met whom among the busiest workers; None where there are too many pairs to count."""
    pairs = pairs_within_reach(data)
    if pairs is None:
        return None
    part = co_label_graph(data).component
    kept = np.argsort(-data.per_worker, kind="stable")[:most]
    kept = kept[np.argsort(part[kept], kind="stable")]
    place = np.full(data.n_workers, -1)
    place[kept] = np.arange(len(kept))
    left, right, common = pairs.observed
    inside = (place[left] >= 0) & (place[right] >= 0)
    matrix = np.zeros((len(kept), len(kept)), np.int64)
    rows, columns = place[left[inside]], place[right[inside]]
    matrix[rows, columns] = matrix[columns, rows] = common[inside]
    if data.n_workers <= MOST_WORKERS:  # what leads from one to another may lead over workers not shown
        reached = reachable(pairs.met())[np.ix_(kept, kept)]
    else:
        reached = part[kept][:, None] == part[kept][None]
    return Meetings(len(common), kept, matrix, reached)
