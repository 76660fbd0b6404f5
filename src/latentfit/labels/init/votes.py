"""Majority vote, and the confusion matrices it implies: the initialisation of Dawid & Skene's EM.

Paper     Dawid & Skene 1979, Applied Statistics 28(1): EM started from the votes
Needs     most votes on most tasks better than chance
Promises  nothing; near-random crowds mislead it (Table 7 of the crowd paper)
Differs   a task's vote is the proportion of its labels (soft), so ties are split and a task without labels
          gets the overall proportions

Symbols   paper      here           shape       meaning
          n_il^(k)   label_matrix   (n, M·K)    which label worker k gave task i
          T_ij       vote_proportions (n, K)      class of each task, soft
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from latentfit.core.kernels import Floats
from latentfit.engine.memory import Sums
from latentfit.labels.data.labels import CodedLabels, Labels


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
