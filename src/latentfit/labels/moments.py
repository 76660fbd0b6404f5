"""The co-label graph: workers joined when they labelled a common task.

What pair counts can determine is decided here: parameters of workers in different components cannot be
compared, and in a bipartite component (no odd cycle) the pair counts fit a family of models.

Paper     Ibrahim & Fu 2022 ask for walks of three observed pairs (Remark 1); this is what any method needs
Needs     labels
Promises  components, and which of them have an odd cycle, exactly; linear in the labels
Differs   no list of pairs is built: a task is a chain of its workers, and three labels on it are a triangle

Symbols   paper   here         shape          meaning
          Ω       —            (M, M)         pairs of workers with a common task, never formed
          —       component    (M,)           component of each worker
          —       determined   (components,)  whether it has an odd cycle
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from latentfit.core.errors import DataError
from latentfit.core.mixture.pair_counts import PairCounts, with_singles
from latentfit.labels.data.labels import CodedLabels, Labels

BYTES_PER_PAIR_CELL = 24
"""What a stored pair cell costs while counting: value and index of the product, and of its transpose."""


@dataclass(frozen=True)
class CoLabelGraph:
    """`component` (M,) of every worker, and per component whether it has an odd cycle (`determined`)."""

    component: NDArray[np.int32]
    determined: NDArray[np.bool_]

    @property
    def n_components(self) -> int:
        return len(self.determined)


def co_label_graph(labels: CodedLabels) -> CoLabelGraph:
    """Components by chains of workers along the tasks, so no list of pairs is built: linear in the labels."""
    m = labels.n_workers
    component, side = np.arange(m, dtype=np.int32), np.arange(2 * m, dtype=np.int32)
    in_triangle = np.zeros(m, bool)
    for block in map(Labels.once, labels.blocks()):  # repeated answers add no edge
        per_task = np.diff(block.offsets)
        follows = np.ones(max(block.n_labels - 1, 0), bool)  # a task joins each of its workers with the next
        ends = block.offsets[1:-1]
        follows[ends[(ends > 0) & (ends < block.n_labels)] - 1] = False
        component = _joined(component, block.workers[:-1][follows], block.workers[1:][follows])
        in_triangle[block.workers[block.offsets[:-1][per_task >= 3]]] = True  # three labels on one task
        at = block.offsets[:-1][per_task == 2]
        left, right = block.workers[at], block.workers[at + 1]
        side = _joined(side, np.concatenate([left, left + m]), np.concatenate([right + m, right]))
    determined = np.zeros(int(component.max()) + 1 if m else 0, bool)
    determined[component[in_triangle]] = True
    # Where every task has two labels at most: an odd cycle exists iff a worker is connected to its own double.
    determined[component[side[:m] == side[m:]]] = True
    return CoLabelGraph(component, determined)


def _joined(component: NDArray[np.int32], left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int32]:
    """Components (nodes,), numbered by their first node, after nodes `left` and `right` were joined one by one."""
    one, other = component[left], component[right]
    new = one != other
    if not new.any():  # most blocks of many join nobody new
        return component
    size = int(component.max()) + 1
    joined = sp.csr_array((np.ones(int(new.sum()), np.int32), (one[new], other[new])), shape=(size, size))
    return np.asarray(connected_components(joined, directed=False)[1].astype(np.int32)[component])


def pair_memory(labels: CodedLabels) -> int:
    """Bytes that counting the pairs of these labels may take at the most."""
    seen = sum(float((np.diff(block.offsets).astype(np.float64) ** 2).sum()) for block in labels.blocks())
    dense = float(labels.n_workers * labels.n_classes) ** 2
    return int(min(seen, dense) * BYTES_PER_PAIR_CELL)


def check_pair_memory(labels: CodedLabels, memory: int | None) -> None:
    """Refuses when a list of worker pairs would not fit `memory` bytes."""
    need = pair_memory(labels)
    if memory is not None and need > memory:
        raise DataError(
            f"the list of worker pairs may take {need / 1e9:.1f} GB, {memory / 1e9:.1f} GB are allowed; "
            "use method='auto', which needs no pair list, or raise the memory limit (--memory)"
        )


def count_label_pairs(labels: CodedLabels, *, memory: int | None = None) -> PairCounts:
    """Co-occurrences of all worker pairs in one pass; refuses when the list would not fit `memory` bytes."""
    check_pair_memory(labels, memory)
    size = labels.n_workers * labels.n_classes
    gram = sp.csr_array((size, size), dtype=np.int64)
    for at, block in enumerate(labels.blocks()):
        ones = np.ones(block.n_labels, np.int64)
        cells = sp.csr_array((ones, block.cell_of(), block.offsets), shape=(block.n_rows, size))
        new = (cells.T @ cells).tocsr()
        gram = new if at == 0 else (gram + new).tocsr()
    return PairCounts(with_singles(gram, labels.counts.reshape(-1)), labels.column_offsets)
