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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.labels.data.labels import CodedLabels, Labels
from latentfit.labels.data.sampling import share_of_tasks

LEAST_SUPPORT = 4.0
"""Four standard deviations: no crowd without a common cause gets there, and sixteen clear tasks do."""
SHRINK = 1.0
"""Pseudo-labels that draw what a worker usually says to what the crowd does: one label is no habit."""
TEST_WORK = 20_000_000
"""Labels · K looked at by the tests of classes; larger crowds are tested on a sample of their tasks."""
MOST_WEAK = 10
"""Unsupported classes taken away one by one; beyond, all that are weak are named as they are."""
TWIN_RATIO = 0.5
"""Two labels stand for one class when the rarer is given half as often as the other on the same tasks."""
TABLE_TASKS = 10
"""Common tasks two workers need for their table to be tested."""


@dataclass(frozen=True)
class ClassSupport:
    """Support (K,) of every class, for one without the class it is taken for or -1, and the share of tasks."""

    support: Floats
    twin: NDArray[np.int64]
    share: float


def support_of(values: Floats) -> float:
    """Σ x / (Σ x²)^½; 0 when there is nothing to add."""
    return ratio(float(values.sum()), float(np.square(values).sum()))


def ratio(total: float, squares: float) -> float:
    """The same from both sums."""
    norm = float(np.sqrt(squares))
    return total / norm if norm > 0 else 0.0


def products(
    task: NDArray[np.int64], n_tasks: int, residual: Floats, answer: NDArray[np.int64] | None = None
) -> Floats:
    """Σ_{m<j} e_m e_j of every task (n,), from the residual of every label.

    With repeated answers e_m is the sum of a worker's residuals: `answer` numbers the (task, worker) pairs.
    """
    if answer is not None:
        first = np.diff(answer, prepend=-1) > 0
        task, residual = task[first], np.bincount(answer, residual).astype(np.float64)
    total = np.bincount(task, residual, n_tasks)
    return np.asarray((total * total - np.bincount(task, residual * residual, n_tasks)) / 2)


def crowd_support(labels: CodedLabels) -> float:
    """Support for any common cause of the labels: do workers agree more than their habits make them?"""
    usual = habits(labels.counts.astype(np.float64))
    total = squares = 0.0
    for block in labels.blocks():
        task, worker, answer = block.task_of(), block.workers, block.answer_of()
        x = np.zeros(block.n_rows)
        for given in range(labels.n_classes):
            x += products(task, block.n_rows, (block.given == given) - usual[:, given][worker], answer)
        total, squares = total + float(x.sum()), squares + float(np.square(x).sum())
    return ratio(total, squares)


def habits(counts: Floats) -> Floats:
    """Shares of each row (worker, label), drawn by `SHRINK` labels to the shares of all."""
    overall = counts.sum(axis=0) / max(float(counts.sum()), 1.0)
    return np.asarray((counts + SHRINK * overall) / (counts.sum(axis=1, keepdims=True) + SHRINK))


def class_support(labels: CodedLabels, believe: Callable[[Labels], Floats]) -> ClassSupport:
    """Support of every class against the others explaining its labels; `believe` knows the posterior of any tasks.

    The weakest class goes first and its tasks to the others, until all that are left have support: a class
    that is not there could otherwise stand in for one that is.
    """
    labels, share = tested_tasks(labels, labels.n_classes)
    K, posterior = labels.n_classes, believe(labels)
    left, support, twin = np.ones(K, bool), np.full(K, np.inf), np.full(K, -1)
    for _ in range(MOST_WEAK):
        for h in np.flatnonzero(left):
            support[h] = _support_of_class(labels, posterior, int(h), left)
        weakest = int(np.argmin(np.where(left, support, np.inf)))
        if support[weakest] >= LEAST_SUPPORT or left.sum() < 2:
            break
        left[weakest] = False
        twin[weakest] = _twin_of(labels, posterior, weakest, left)
    return ClassSupport(support, twin, share)


def _given_to(posterior: Floats, classes: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The likeliest of `classes` for every task (n,)."""
    return np.asarray(np.where(classes, posterior, -1.0).argmax(axis=1))


def _support_of_class(labels: Labels, posterior: Floats, h: int, left: NDArray[np.bool_]) -> float:
    """Each task goes to its likeliest other class; who says h there is counted anew, residuals multiplied."""
    M, K = labels.n_workers, labels.n_classes
    task, says = labels.task_of(), labels.given == h
    others = left & (np.arange(K) != h)
    at = labels.workers.astype(np.int64) * K + _given_to(posterior, others)[task]  # worker and class
    seen = np.bincount(at, minlength=M * K).reshape(M, K)
    said_h = np.bincount(at, says, M * K).reshape(M, K)
    overall = said_h.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    usual = (said_h + SHRINK * overall) / (seen + SHRINK)  # P(m says h | class)
    return support_of(products(task, labels.n_rows, says - usual.ravel()[at], labels.answer_of()))


def _twin_of(labels: Labels, posterior: Floats, h: int, left: NDArray[np.bool_]) -> int:
    """The class on whose tasks workers say h nearly as often as its own name, or -1."""
    K = labels.n_classes
    at = _given_to(posterior, left)[labels.task_of()] * K + labels.given
    said = np.bincount(at, minlength=K * K).reshape(K, K)  # (class, label)
    ratio = np.where(left, said[:, h] / np.maximum(said.diagonal(), 1), 0.0)
    best = int(np.argmax(ratio))
    return best if ratio[best] >= TWIN_RATIO else -1


def tested_tasks(labels: CodedLabels, work_per_label: int) -> tuple[Labels, float]:
    """As many tasks as `TEST_WORK` allows, chosen by hash, and the share of tasks kept."""
    share = TEST_WORK / max(labels.n_labels * work_per_label, 1)
    if share >= 1:
        return labels.piece(0, labels.n_rows), 1.0
    return share_of_tasks(labels, share, 0), share


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
