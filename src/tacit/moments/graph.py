"""The co-label graph: workers joined when they labelled a common task.

What pair counts can determine is decided here: parameters of workers in different components cannot be
compared, and in a bipartite component (no odd cycle) the pair counts fit a whole family of models.

Paper     Ibrahim & Fu 2022 ask for walks of three observed pairs (Remark 1); this is what any method needs
Needs     labels
Promises  components, and which of them have an odd cycle, exactly; linear in the labels
Differs   no list of pairs is built: a task is a chain of its workers, and three labels on it are a triangle

Symbols   paper   here         shape          meaning
          Ω       —            (M, M)         pairs of workers with a common task, never formed
          —       component    (M,)           part of each worker
          —       determined   (components,)  whether it has an odd cycle
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from tacit.data.labels import Labels


@dataclass(frozen=True)
class CoLabelGraph:
    """`component` (M,) of every worker, and per component whether it has an odd cycle (`determined`)."""

    component: NDArray[np.int32]
    determined: NDArray[np.bool_]

    @property
    def n_components(self) -> int:
        return len(self.determined)


def co_label_graph(labels: Labels) -> CoLabelGraph:
    """Components by chains of workers along the tasks, so no list of pairs is built: linear in the labels."""
    m = labels.n_workers
    follows = np.ones(max(labels.n_labels - 1, 0), bool)  # a task joins each of its workers with the next
    ends = labels.offsets[1:-1]
    follows[ends[(ends > 0) & (ends < labels.n_labels)] - 1] = False
    chained = labels.workers[:-1][follows], labels.workers[1:][follows]
    joined = sp.csr_array((np.ones(len(chained[0]), np.int32), chained), shape=(m, m))
    component = connected_components(joined, directed=False)[1].astype(np.int32)
    determined = np.zeros(int(component.max()) + 1 if m else 0, bool)
    per_task = np.diff(labels.offsets)
    first_worker = labels.workers[labels.offsets[:-1][per_task >= 3]]
    determined[component[first_worker]] = True  # three labels on one task: a triangle
    _mark_odd_cycles(labels, per_task, component, determined)
    return CoLabelGraph(component, determined)


def _mark_odd_cycles(
    labels: Labels, per_task: NDArray[np.int64], component: NDArray[np.int32], determined: NDArray[np.bool_]
) -> None:
    """Where every task has two labels at most: an odd cycle exists iff a worker meets its own double."""
    m = labels.n_workers
    at = labels.offsets[:-1][per_task == 2]
    left, right = labels.workers[at], labels.workers[at + 1]
    open_ = ~determined[component[left]]
    left, right = left[open_], right[open_]
    if not len(left):
        return
    ends = (np.concatenate([left, left + m]), np.concatenate([right + m, right]))
    double = sp.csr_array((np.ones(2 * len(left), np.int8), ends), shape=(2 * m, 2 * m))
    _, side = connected_components(double, directed=False)
    odd = np.unique(left[side[left] == side[left + m]])
    determined[component[odd]] = True
