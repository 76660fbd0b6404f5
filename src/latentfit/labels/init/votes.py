"""Majority vote, and the confusion matrices it implies: the start of Dawid & Skene's EM.

Paper     Dawid & Skene 1979, Applied Statistics 28(1): EM started from the votes
Needs     most votes on most tasks better than chance
Promises  nothing; near-random crowds mislead it (Table 7 of the crowd paper)
Differs   a task's vote is the share of its labels (soft), so ties are shared and a task without labels
          gets the overall shares

Symbols   paper      here           shape       meaning
          n_il^(k)   label_matrix   (n, M·K)    which label worker k gave task i
          T_ij       vote_shares    (n, K)      class of each task, soft
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


def overall_shares(labels: CodedLabels) -> Floats:
    """Share of all labels that went to each class (K,): what is believed of a task without any."""
    votes = labels.counts.sum(axis=0).astype(np.float64)
    return votes / votes.sum() if labels.n_labels else np.full(labels.n_classes, 1 / max(labels.n_classes, 1))


def vote_shares(labels: Labels, overall: Floats | None = None) -> Floats:
    """Share of each task's labels that went to each class (n, K); `overall` when these are some of many tasks."""
    size = labels.n_rows * labels.n_classes
    counts = np.bincount(labels.task_of() * labels.n_classes + labels.given, minlength=size)
    votes = counts.reshape(labels.n_rows, labels.n_classes).astype(np.float64)
    total = votes.sum(axis=1, keepdims=True)
    overall = overall_shares(labels) if overall is None else overall
    return hold_known(labels, np.where(total > 0, votes / np.maximum(total, 1), overall))


def hold_known(labels: Labels, shares: Floats) -> Floats:
    """A soft labelling (n, K) in which known answers stand: they outvote everybody."""
    if labels.known is None:
        return shares
    rows, answers = labels.known
    held = shares.copy()
    held[rows] = np.eye(labels.n_classes)[answers]
    return held


def sums_of(labels: Labels, posterior: Floats) -> Sums:
    """The statistics an M-step wants, from any soft labelling (n, K) of the tasks."""
    return Sums(np.nan, posterior.sum(axis=0), np.asarray(label_matrix(labels).T @ posterior))


def vote_sums(labels: CodedLabels) -> Sums:
    """The statistics that the votes imply, block by block."""
    overall = overall_shares(labels)
    totals = np.zeros(labels.n_classes)
    table = np.zeros((labels.n_workers * labels.n_classes, labels.n_classes))
    for block in labels.blocks():
        sums = sums_of(block, vote_shares(block, overall))
        totals, table = totals + sums.totals, table + sums.table
    return Sums(np.nan, totals, table)
