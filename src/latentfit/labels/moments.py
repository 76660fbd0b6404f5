"""What is counted of the labels before any model: votes, the co-label graph, co-occurrences of two workers.

Votes give a task's soft labels and the confusion matrices that these imply, from which Dawid & Skene start EM. The
co-label graph joins workers who labelled a common task. What pair counts can determine is decided there: parameters of
workers in different components cannot be compared, and in a bipartite component (no odd cycle) the pair counts fit a
family of models.

Paper     Dawid & Skene 1979, Applied Statistics 28(1): EM started from the votes; Ibrahim & Fu 2022 ask for walks of
          three observed pairs (Remark 1), an odd cycle is what any method needs
Needs     for the votes: most of them on most tasks better than chance
Promises  components, and which of them have an odd cycle, exactly; linear in the labels. The votes promise nothing:
          near-random crowds mislead them (Table 7 of the crowd paper)
Differs   a task's vote is the proportion of its labels (soft), so ties are split and a task without labels gets the
          overall proportions; no list of pairs is built for the graph: a task is a chain of its workers, and three
          labels on it are a triangle

Symbols   paper      here              shape          meaning
          n_il^(k)   label_matrix      (n, M·K)       which label worker k gave task i
          T_ij       vote_proportions  (n, K)         class of each task, soft
          Ω          —                 (M, M)         pairs of workers with a common task, never formed
          —          component         (M,)           component of each worker
          —          determined        (components,)  whether it has an odd cycle
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts, with_singles
from latentfit.engine.memory import Sums
from latentfit.labels.data import CodedLabels, Labels

BYTES_PER_PAIR_CELL = 24
"""What a stored pair cell costs while counting: value and index of the product, and of its transpose."""


def label_matrix(labels: Labels) -> sp.csr_array:
    """One row per task, one column per cell (worker · K + label), ones where a label was given."""
    shape = (labels.n_rows, labels.n_workers * labels.n_classes)
    return sp.csr_array((np.ones(labels.n_labels), labels.cell_of(), labels.offsets), shape=shape)


def overall_proportions(labels: CodedLabels) -> Floats:
    """Proportion of all labels that went to each class (K,): the posterior of a task without labels."""
    votes = labels.counts.sum(axis=0).astype(np.float64)
    return votes / votes.sum() if labels.n_labels else np.full(labels.n_classes, 1 / max(labels.n_classes, 1))


def vote_proportions(labels: Labels, overall: Floats | None = None) -> Floats:
    """Proportion of each task's labels that went to each class (n, K); `overall` when these are some of many tasks."""
    size = labels.n_rows * labels.n_classes
    counts = np.bincount(labels.task_of() * labels.n_classes + labels.given, minlength=size)
    votes = counts.reshape(labels.n_rows, labels.n_classes).astype(np.float64)
    total = votes.sum(axis=1, keepdims=True)
    overall = overall_proportions(labels) if overall is None else overall
    return hold_known(labels, np.where(total > 0, votes / np.maximum(total, 1), overall))


def hold_known(labels: Labels, posterior: Floats) -> Floats:
    """A soft labelling (n, K) in which known answers have probability 1."""
    if labels.known is None:
        return posterior
    rows, answers = labels.known
    held = posterior.copy()
    held[rows] = np.eye(labels.n_classes)[answers]
    return held


def sufficient_statistics(labels: Labels, posterior: Floats) -> Sums:
    """Sufficient statistics of an M-step, from any soft labelling (n, K) of the tasks."""
    return Sums(np.nan, posterior.sum(axis=0), np.asarray(label_matrix(labels).T @ posterior))


def vote_statistics(labels: CodedLabels) -> Sums:
    """Sufficient statistics that the votes imply, block by block."""
    overall = overall_proportions(labels)
    class_counts = np.zeros(labels.n_classes)
    table = np.zeros((labels.n_workers * labels.n_classes, labels.n_classes))
    for block in labels.blocks():
        stats = sufficient_statistics(block, vote_proportions(block, overall))
        class_counts, table = class_counts + stats.totals, table + stats.table
    return Sums(np.nan, class_counts, table)


# ------------------------------------------------------------ graph and pairs


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
