"""Workers on whose tasks the others look worse than elsewhere: does the consensus follow a few?

In Dawid and Skene's model how good a worker is does not depend on who else labelled the task. Colluders who copy one
source with slips do not agree beyond the model once the consensus follows them, for they are then taken to be nearly
always right. But everybody else looks like a guesser on their tasks and like a good worker on the others. Each label
is judged by the other labels of its task (`workers.judge_labels`), and every worker is compared with itself: on the
tasks of worker r, and away from them. Where r labelled all tasks, nothing can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.kernels import Floats

if TYPE_CHECKING:
    from latentfit.labels.diagnostics.workers import Judged

LARGEST_Z = 6.0
"""Standard errors by which the others may do worse on a worker's tasks: tasks differ in difficulty, too."""
LEAST_DROP = 0.05
"""Loss of accuracy that matters."""
VARIANCE = 0.25
"""Of whether a label is right, at most."""


def overruling_workers(judged: Judged, accuracy: Floats) -> NDArray[np.intp]:
    """Workers, better than the crowd by the fit, on whose tasks the others are far worse than away from them."""
    drop, z = drop_of_others(judged)
    typical = float(np.average(accuracy, weights=np.maximum(judged.labels.per_worker, 1e-9)))
    return np.flatnonzero((drop > LEAST_DROP) & (z > LARGEST_Z) & (accuracy > typical))


def drop_of_others(judged: Judged) -> tuple[Floats, Floats]:
    """By worker, how much less often the others are right on its tasks than away from them, and in standard errors."""
    size = judged.labels.n_workers
    given, total_right = judged.labels.per_worker, np.zeros(size)
    at: list[NDArray[np.int64]] = []
    who: list[NDArray[np.int32]] = []
    right: list[Floats] = []
    n_tasks = 0
    for block, found in judged:
        total_right += np.bincount(block.workers, found.right, size)
        several = np.repeat(np.diff(block.offsets) > 1, np.diff(block.offsets))  # the others are on no other task
        at.append(block.task_of()[several] + n_tasks)
        who.append(block.workers[several])
        right.append(found.right[several])
        n_tasks += block.n_rows
    cells, shape = (np.concatenate(at), np.concatenate(who)), (n_tasks, size)
    number = sp.csr_array((np.ones(len(cells[0])), cells), shape)
    met = number.copy()
    met.data[:] = 1.0  # a worker who answers twice was there once
    pairs = (met.T @ number).tocoo()
    worker, other = pairs.coords
    well = np.asarray((met.T @ sp.csr_array((np.concatenate(right), cells), shape)).tocsr()[worker, other]).reshape(-1)
    here, away = pairs.data, given[other] - pairs.data
    used = (worker != other) & (away > 0)
    worker, other, here, away, well = (array[used] for array in (worker, other, here, away, well))
    weight = here * away / (here + away)
    lost = weight * ((total_right[other] - well) / away - well / here)
    weights = np.bincount(worker, weight, size)
    drop = np.bincount(worker, lost, size) / np.maximum(weights, 1e-300)
    return drop, drop * np.sqrt(weights / VARIANCE)
