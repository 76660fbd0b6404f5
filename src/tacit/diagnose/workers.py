r"""How good is each worker, how sure is that, and does anything look wrong.

Accuracy is the chance to be right on a task of this crowd, Σ_k prior_k A_m[k, k]. Reading it off the fitted
table would be vain: a worker's own label helped to decide what counts as right. So each label is judged by
the other labels of its task alone. With r_n the probability, by the others, that the label is the truth, and
w_n the chance of this label from a worker who is wrong,

.. math:: \ell(a) = \sum_n \log\bigl(a\, r_n + (1 - a)\, w_n\bigr) + \tfrac12 \log a(1 - a)

is concave; its top is the accuracy (the last term is Jeffreys' prior). The information about a in uncertain
truths is that of n_eff = I(a) a (1 − a) certain ones, and the interval is Jeffreys' for n_eff trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from tacit.data.labels import Labels
from tacit.diagnose.copies import Alike, find_copies, pairs_within_reach
from tacit.engine.memory import MemoryEngine, posterior_of
from tacit.engine.mixture import PROBABILITY_FLOOR, Floats, Mixture, unstack_confusions
from tacit.moments.pairs import PairCounts

NUMBERS_AT_ONCE = 1 << 22
"""Size of the (labels, K) arrays held together: a million labels of four classes, 32 MB each."""
NEWTON_STEPS = 12
"""Enough for a concave function of one variable from any start; most workers are done after four."""
STANDSTILL = 1e-6
"""Change of every accuracy at which Newton's method stops: far below what any interval shows."""
COVERAGE = 0.95
"""What the intervals promise."""
FEW_LABELS = 10
"""With fewer labels an interval spans half of all accuracies."""
CONSTANT_CHANCE = 1e-3
"""Called constant: a worker who tells classes apart like the crowd would say one label only this rarely."""
UNSURE_WIDTH = 0.5
"""A guesser is reported when surely less than this share of the way from guessing to perfect."""


@dataclass(frozen=True)
class LeftOut:
    """Every label against what the other labels of its task say (labels,)."""

    right: Floats  # r_n: probability that the label is the truth
    wrong: Floats  # w_n: chance of this label from a worker who is wrong
    decisive: NDArray[np.bool_]  # without this label the task's consensus would be another


@dataclass(frozen=True)
class WorkerQuality:
    """By worker: labels given, accuracy with a 95 % interval, and a flag ("" when nothing looks wrong)."""

    n_labels: NDArray[np.int64]
    accuracy: Floats
    low: Floats
    high: Floats
    flag: NDArray[Any]


def leave_out(labels: Labels, mixture: Mixture, posterior: Floats) -> LeftOut:
    """Judge every label by the others; `posterior` (n, K) must be the mixture's own, not a tempered one.

    Dividing a task's posterior by the chance of one label under each class takes that label out.
    """
    n, K = labels.n_labels, labels.n_classes
    table = np.maximum(mixture.table, PROBABILITY_FLOOR)
    slips = error_pattern(labels, mixture).T  # (given, true)
    task, cell = labels.task_of(), labels.cell_of()
    consensus = posterior.argmax(axis=1)
    right, wrong, decisive = np.empty(n), np.empty(n), np.empty(n, bool)
    step = max(NUMBERS_AT_ONCE // K, 1)
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        given = labels.given[part]
        others = np.take(posterior, task[part], axis=0)  # take and einsum: several times faster on rows
        others /= np.take(table, cell[part], axis=0)  # this short than [] and sum
        decisive[part] = others.argmax(axis=1) != consensus[task[part]]
        total = np.einsum("nk->n", others)
        right[part] = others[np.arange(len(given)), given] / total
        wrong[part] = np.einsum("nk,nk->n", others, np.take(slips, given, axis=0)) / total if K > 1 else 1.0
    return LeftOut(right, wrong, decisive)


def error_pattern(labels: Labels, mixture: Mixture) -> Floats:
    """What the crowd says when it is wrong (true, given): rows sum to one, the diagonal is zero."""
    K = labels.n_classes
    counts = np.bincount(labels.workers, minlength=labels.n_workers)
    pooled = np.einsum("m,mkg->kg", counts.astype(np.float64), unstack_confusions(mixture))
    off = (pooled + PROBABILITY_FLOOR) * (1 - np.eye(K))
    return np.asarray(off / np.maximum(off.sum(axis=1, keepdims=True), PROBABILITY_FLOOR))


def own_posterior(labels: Labels, mixture: Mixture) -> Floats:
    """The mixture's posterior (n, K), neither cooled nor tempered; known answers are certain."""
    posterior, _ = posterior_of(MemoryEngine(labels), mixture)
    if labels.gold is not None:
        known = np.flatnonzero(labels.gold >= 0)
        posterior[known] = np.eye(labels.n_classes)[labels.gold[known]]
    return posterior


def worker_quality(
    labels: Labels,
    mixture: Mixture,
    *,
    left_out: LeftOut | None = None,
    pairs: PairCounts | None = None,
    memory: int | None = None,
) -> WorkerQuality:
    """Accuracy, interval and flag of every worker.

    Parameters
    ----------
    labels, mixture :
        The labels, and the fitted model with class k standing for label k.
    left_out, pairs :
        What `leave_out` and `count_label_pairs` gave, when already at hand. Without `pairs` the list is built
        if it is affordable and fits `memory` bytes, else nobody is flagged as copying.
    """
    left_out = leave_out(labels, mixture, own_posterior(labels, mixture)) if left_out is None else left_out
    worker = labels.workers.astype(np.intp)
    n_labels = np.bincount(worker, minlength=labels.n_workers)
    accuracy, trials = _climb(left_out, worker, n_labels)
    low, high = jeffreys_interval(accuracy, trials)
    pairs = pairs_within_reach(labels, memory) if pairs is None else pairs
    alike = None if pairs is None else find_copies(pairs, mixture)
    quality = WorkerQuality(n_labels, accuracy, low, high, np.full(labels.n_workers, "", object))
    _raise_flags(quality, labels, mixture, left_out, alike)
    return quality


def _climb(left_out: LeftOut, worker: NDArray[np.intp], n_labels: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The top of ℓ for every worker at once, and n_eff there."""
    size = len(n_labels)
    right, wrong = left_out.right, left_out.wrong
    lead = right - wrong
    accuracy: Floats = np.clip((np.bincount(worker, right, size) + 0.5) / (n_labels + 1), 0.02, 0.98)
    information: Floats = np.zeros(size)
    for _ in range(NEWTON_STEPS):
        slope = lead / np.maximum(lead * accuracy[worker] + wrong, PROBABILITY_FLOOR)
        gradient = np.bincount(worker, slope, size) + 0.5 / accuracy - 0.5 / (1 - accuracy)
        slope *= slope
        information = np.asarray(np.bincount(worker, slope, size), np.float64)
        bend = information + 0.5 / accuracy**2 + 0.5 / (1 - accuracy) ** 2
        old = accuracy
        step = old + gradient / bend
        accuracy = np.clip(step, 0.2 * old, 1 - 0.2 * (1 - old))  # stays inside (0, 1)
        if np.abs(accuracy - old).max(initial=0.0) < STANDSTILL:
            break
    return accuracy, np.minimum(information * accuracy * (1 - accuracy), n_labels)


def jeffreys_interval(accuracy: Floats, trials: Floats) -> tuple[Floats, Floats]:
    """Jeffreys' interval at (successes + ½) / (trials + 1) = accuracy.

    As Brown, Cai & DasGupta 2001 advise, it reaches 0 when nothing succeeded and 1 when everything did.
    """
    alpha, beta = accuracy * (trials + 1), (1 - accuracy) * (trials + 1)
    tail = (1 - COVERAGE) / 2
    low = np.where(alpha < 1, 0.0, betaincinv(alpha, beta, tail))
    high = np.where(beta < 1, 1.0, betaincinv(alpha, beta, 1 - tail))
    return np.minimum(low, accuracy), np.maximum(high, accuracy)


def chance_accuracy(labels: Labels, mixture: Mixture) -> Floats:
    """What each worker would reach with the same label shares but blindfolded: Σ_k prior_k share_mk."""
    M, K = labels.n_workers, labels.n_classes
    said = np.bincount(labels.cell_of(), minlength=M * K).reshape(M, K)
    return np.asarray(said @ mixture.weights / np.maximum(said.sum(axis=1), 1))


def _raise_flags(
    quality: WorkerQuality, labels: Labels, mixture: Mixture, left_out: LeftOut, alike: Alike | None
) -> None:
    """Later flags overwrite earlier ones: the more specific finding wins."""
    chance, flag = chance_accuracy(labels, mixture), quality.flag
    around = (quality.low <= chance) & (chance <= quality.high)
    flag[around & (quality.high < chance + UNSURE_WIDTH * (1 - chance))] = "guessing"
    flag[quality.high < chance] = "adversarial"
    flag[quality.n_labels < FEW_LABELS] = "few labels"
    flag[constant_workers(labels, left_out, quality)] = "constant"
    if alike is not None:
        peer = alike.peers(labels.n_workers)
        copying = np.flatnonzero(peer >= 0)
        flag[copying] = [f"copies {labels.worker_names[other]}" for other in peer[copying]]


def constant_workers(labels: Labels, left_out: LeftOut, quality: WorkerQuality) -> NDArray[np.bool_]:
    """Who always gives the same label although the tasks differ.

    A worker who never misses that label's own tasks, and is otherwise wrong as often as the crowd, would do
    so with probability Π_n (r_n + (1 − ā) w_n).
    """
    worker, size = labels.workers.astype(np.intp), labels.n_workers
    said = np.bincount(labels.cell_of(), minlength=size * labels.n_classes).reshape(size, -1) > 0
    single = said.sum(axis=1) == 1
    if not single.any():
        return np.asarray(single)
    typical = float(np.average(quality.accuracy, weights=np.maximum(quality.n_labels, 1e-9)))
    likely = np.minimum(left_out.right + (1 - typical) * left_out.wrong, 1.0)
    tested = single[worker]
    log_chance = np.bincount(worker[tested], np.log(np.maximum(likely[tested], PROBABILITY_FLOOR)), size)
    return np.asarray(single & (log_chance < np.log(CONSTANT_CHANCE)))
