r"""Do the labels say anything about the tasks, and is every class really there?

If the labels of a task tell nothing about its class, what two workers say about it is unrelated. With e_m the
deviation of worker m's label from what m usually says,

.. math:: x_n = \sum_{m < j} e_m e_j

has mean zero on every task, whoever the workers are; its sum over the tasks, divided by (Σ x_n²)^½, is close
to a standard normal. Where workers follow a common cause, every task that shows it adds to the sum: this
*support* is then about the square root of their number. Support below `LEAST_SUPPORT` is what nothing looks
like; above, it is what some sixteen tasks or more agree on.

For one class h, "usually" means: what m says on tasks of the other classes. A class that is not there, or
that workers cannot tell from another one, has no support, however sure a fitted model may be of it: more
classes always fit better, products of residuals of different workers do not care.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.data.labels import Labels
from tacit.data.sampling import task_hashes
from tacit.engine.mixture import Floats
from tacit.moments.pairs import PairCounts

LEAST_SUPPORT = 4.0
"""Four standard deviations: no crowd without a common cause gets there, and sixteen clear tasks do."""
SHRINK = 1.0
"""Pseudo-labels that draw what a worker usually says to what the crowd does: one label is no habit."""
TEST_WORK = 20_000_000
"""Labels · K looked at by the tests of classes; larger crowds are tested on a sample of their tasks."""
TABLE_TASKS = 10
"""Common tasks two workers need for their table to be tested."""


@dataclass(frozen=True)
class ClassSupport:
    """Support (K,) of every class, from a `share` of the tasks."""

    support: Floats
    share: float


def support_of(values: Floats) -> float:
    """Σ x / (Σ x²)^½; 0 when there is nothing to add."""
    norm = float(np.sqrt(np.square(values).sum()))
    return float(values.sum()) / norm if norm > 0 else 0.0


def products(task: NDArray[np.int64], n_tasks: int, residual: Floats) -> Floats:
    """Σ_{m<j} e_m e_j of every task (n,), from the residual of every label."""
    total = np.bincount(task, residual, n_tasks)
    return np.asarray((total * total - np.bincount(task, residual * residual, n_tasks)) / 2)


def crowd_support(labels: Labels) -> float:
    """Support for any common cause of the labels: do workers agree more than their habits make them?"""
    M, K, n = labels.n_workers, labels.n_classes, labels.n_rows
    task, worker = labels.task_of(), labels.workers
    usual = habits(np.bincount(labels.cell_of(), minlength=M * K).reshape(M, K).astype(np.float64))
    x = np.zeros(n)
    for given in range(K):
        x += products(task, n, (labels.given == given) - usual[:, given][worker])
    return support_of(x)


def habits(counts: Floats) -> Floats:
    """Shares of each row (worker, label), drawn by `SHRINK` labels to the shares of all."""
    overall = counts.sum(axis=0) / max(float(counts.sum()), 1.0)
    return np.asarray((counts + SHRINK * overall) / (counts.sum(axis=1, keepdims=True) + SHRINK))


def class_support(labels: Labels, posterior: Floats, *, seed: int = 0) -> ClassSupport:
    """Support of every class against the others explaining its labels, which `posterior` (n, K) knows."""
    labels, share = sample_tasks(labels, labels.n_classes, seed)
    support = np.array([_support_of_class(labels, posterior, h) for h in range(labels.n_classes)])
    return ClassSupport(support, share)


def _support_of_class(labels: Labels, posterior: Floats, h: int) -> float:
    """Each task goes to its likeliest other class; who says h there is counted anew, residuals multiplied."""
    M, K = labels.n_workers, labels.n_classes
    task, says = labels.task_of(), labels.given == h
    without = posterior.copy()
    without[:, h] = -1.0
    at = labels.workers.astype(np.int64) * K + without.argmax(axis=1)[task]  # worker and class
    seen = np.bincount(at, minlength=M * K).reshape(M, K)
    said_h = np.bincount(at, says, M * K).reshape(M, K)
    overall = said_h.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    usual = (said_h + SHRINK * overall) / (seen + SHRINK)  # P(m says h | class)
    return support_of(products(task, labels.n_rows, says - usual.ravel()[at]))


def pair_support(labels: Labels, g: int, h: int) -> float:
    """Support for telling class g from class h, from the labels g and h alone."""
    kept = (labels.given == g) | (labels.given == h)
    task, worker, says = labels.task_of()[kept], labels.workers[kept], labels.given[kept] == g
    counts = np.bincount(worker * 2 + says, minlength=2 * labels.n_workers).reshape(-1, 2)
    usual = habits(counts.astype(np.float64))[:, 1]
    return support_of(products(task, labels.n_rows, says - usual[worker]))


def sample_tasks(labels: Labels, work_per_label: int, seed: int) -> tuple[Labels, float]:
    """The labels of as many tasks as `TEST_WORK` allows, chosen by hash, and the share of tasks kept."""
    share = TEST_WORK / max(labels.n_labels * work_per_label, 1)
    if share >= 1:
        return labels, 1.0
    kept = task_hashes(labels, seed) < np.uint64(int(share * 2.0**64))
    return labels.subset(kept[labels.task_of()]), share


def tables_related(pairs: PairCounts) -> float:
    """In standard deviations, how far the workers' two-way tables are from unrelated, agreement or not.

    Pearson's χ² of every pair with enough common tasks, summed. Workers who mislead consistently are related.
    """
    sizes = pairs.observed[2]
    kept = sizes >= TABLE_TASKS
    if not kept.any():
        return 0.0
    counts = pairs.blocks()[kept].astype(np.float64)
    total = counts.sum(axis=(1, 2))
    rows, columns = counts.sum(axis=2), counts.sum(axis=1)
    expected = rows[:, :, None] * columns[:, None, :] / total[:, None, None]
    deviation = np.square(counts - expected) / np.where(expected > 0, expected, 1.0)
    chi2 = deviation.sum(axis=(1, 2)) * (total - 1) / total  # its mean is then exactly the degrees of freedom
    degrees = ((rows > 0).sum(axis=1) - 1) * ((columns > 0).sum(axis=1) - 1)
    free = float(degrees.sum())
    return float((chi2.sum() - free) / np.sqrt(2 * free)) if free > 0 else 0.0
