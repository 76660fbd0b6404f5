r"""How good is each worker, how sure is that, and does anything look wrong.

Accuracy is the probability of being right on a task of this crowd, Σ_k prior_k A_m[k, k]. Reading it off the fitted
table would be circular: a worker's own label helped to decide what counts as right. So each label is judged by
the other labels of its task alone. With r_n the probability, by the others, that the label is the truth, and
w_n the probability of this label from a worker who is wrong,

.. math:: \ell(a) = \sum_n \log\bigl(a\, r_n + (1 - a)\, w_n\bigr) + \tfrac12 \log a(1 - a)

is concave; its top is the accuracy (the last term is Jeffreys' prior). The information about a in uncertain
truths is that of n_eff = I(a) a (1 − a) certain ones, and the interval is Jeffreys' for n_eff trials.

All this assumes the model: workers err independently. Where they err together the consensus is wrong more often than
the model expects, a worker who errs with the others looks better than it is, and one who does not looks worse: by the
error of the consensus on the worker's tasks at most, e. With w the probability that errors are correlated as in public
crowds, and e as in those (`experience.py`), the interval is extended downwards by w² e and upwards by w² e (1 − a),
since only who disagrees can have been right: hardly on simulated crowds, a lot on real ones (docs/guide/labels.md). By
w itself intervals would be too wide on small simulated crowds, where w stays near what it was before the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture, unstack_confusions
from latentfit.core.verdict import Examiner, jeffreys
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.labels.data import CodedLabels, Labels
from latentfit.labels.diagnostics.dependence import DependentPairs, find_dependent_pairs, pairs_within_reach
from latentfit.labels.diagnostics.experience import Calibration, temper


@dataclass(frozen=True)
class Tuning:
    """Constants of worker quality and its flags, each with its reason."""

    # Size of the (labels, K) arrays held together: a million labels of four classes, 32 MB each.
    numbers_at_once: int = 1 << 22
    # Enough for a concave function of one variable from any initial value; most workers need four.
    newton_steps: int = 12
    # Change of every accuracy at which Newton's method stops: far below what any interval shows.
    tolerance: float = 1e-6
    # What the intervals promise.
    coverage: float = 0.95
    # With fewer labels an interval spans half of all accuracies.
    few_labels: int = 10
    # Called constant: a worker who distinguishes classes like the crowd would give one label only this rarely.
    constant_probability: float = 1e-3
    # A guesser is reported when surely less than this fraction of the way from guessing to perfect.
    unsure_width: float = 0.5
    # Standard errors by which the others may do worse on a worker's tasks: tasks differ in difficulty, too.
    largest_z: float = 6.0
    # Loss of accuracy that matters.
    least_drop: float = 0.05
    # Of whether a label is right, at most.
    variance: float = 0.25
    repeats_largest_z: float = 4.0
    # Agreement beyond the model's that matters; less does no harm to a consensus.
    least_excess: float = 0.05


TUNING = Tuning()
BEYOND = "more than the model explains"
FEW_LABELS = "few labels"
OVERRULES = "overrules the others"


@dataclass(frozen=True)
class JudgedLabels:
    """Every label against what the other labels of its task say (labels,)."""

    right: Floats  # r_n: probability that the label is the truth
    wrong: Floats  # w_n: probability of this label from a worker who is wrong
    decisive: NDArray[np.bool_]  # without this label the task's consensus would be another


@dataclass(frozen=True)
class WorkerQuality:
    """By worker: labels given, accuracy with a 95 % interval, and a flag ("" when nothing looks wrong)."""

    n_labels: NDArray[np.int64]
    accuracy: Floats
    low: Floats
    high: Floats
    flag: NDArray[Any]


def judge_labels(labels: Labels, mixture: Mixture, posterior: Floats, errors: Floats | None = None) -> JudgedLabels:
    """Judge every label by the others; `posterior` (n, K) must be the mixture's own, not a tempered one.

    Dividing a task's posterior by the probability of one label under each class takes that label out, and with it the
    other answers of its worker to the task. `errors` is the `error_distribution` of the crowd when `labels` are some
    of its tasks.
    """
    n, K = labels.n_labels, labels.n_classes
    table = np.maximum(mixture.table, PROBABILITY_FLOOR)
    slips = (error_distribution(labels, mixture) if errors is None else errors).T  # (given, true)
    task, cell, answer = labels.task_of(), labels.cell_of(), labels.answer_of()
    if answer is not None:
        first = np.flatnonzero(np.diff(answer, prepend=-1))
        table = np.maximum(np.multiply.reduceat(table[cell], first, axis=0), PROBABILITY_FLOOR)
        cell = answer.astype(np.int32)
    consensus = posterior.argmax(axis=1)
    right, wrong, decisive = np.empty(n), np.empty(n), np.empty(n, bool)
    step = max(TUNING.numbers_at_once // K, 1)
    for begin in range(0, n, step):
        chunk = slice(begin, begin + step)
        given = labels.given[chunk]
        others = np.take(posterior, task[chunk], axis=0)  # take and einsum: several times faster on rows
        others /= np.take(table, cell[chunk], axis=0)  # this short than [] and sum
        decisive[chunk] = others.argmax(axis=1) != consensus[task[chunk]]
        total = np.einsum("nk->n", others)
        right[chunk] = others[np.arange(len(given)), given] / total
        wrong[chunk] = np.einsum("nk,nk->n", others, np.take(slips, given, axis=0)) / total if K > 1 else 1.0
    return JudgedLabels(right, wrong, decisive)


class Judged:
    """Every label against the other labels of its task, block by block.

    Computed once for labels in memory; for labels in a file every iteration computes them again, in constant memory.
    """

    def __init__(self, labels: CodedLabels, mixture: Mixture) -> None:
        self.labels, self.mixture = labels, mixture
        self.errors = error_distribution(labels, mixture)
        in_memory = isinstance(labels, Labels)
        self._judged: list[tuple[Labels, JudgedLabels]] | None = list(self._walk()) if in_memory else None

    def __iter__(self) -> Iterator[tuple[Labels, JudgedLabels]]:
        return self._walk() if self._judged is None else iter(self._judged)

    def _walk(self) -> Iterator[tuple[Labels, JudgedLabels]]:
        for block in self.labels.blocks():
            yield block, judge_labels(block, self.mixture, own_posterior(block, self.mixture), self.errors)


def error_distribution(labels: CodedLabels, mixture: Mixture) -> Floats:
    """What the crowd says when it is wrong (true, given): rows sum to one, the diagonal is zero."""
    K = labels.n_classes
    pooled = np.einsum("m,mkg->kg", labels.per_worker.astype(np.float64), unstack_confusions(mixture))
    off = (pooled + PROBABILITY_FLOOR) * (1 - np.eye(K))
    return np.asarray(off / np.maximum(off.sum(axis=1, keepdims=True), PROBABILITY_FLOOR))


def own_posterior(labels: Labels, mixture: Mixture) -> Floats:
    """The mixture's posterior (n, K), not tempered; known answers are certain."""
    posterior, _ = posterior_of(MemoryEngine(labels), mixture)
    if labels.gold is not None:
        known = np.flatnonzero(labels.gold >= 0)
        posterior[known] = np.eye(labels.n_classes)[labels.gold[known]]
    return posterior


def log_likelihood_of(labels: Labels, mixture: Mixture) -> Floats:
    """Log-probability of the labels of every task (n,)."""
    return posterior_of(MemoryEngine(labels.without_gold()), mixture)[1]


def worker_quality(
    labels: CodedLabels, mixture: Mixture, *, memory: int | None = None, calibration: Calibration | None = None
) -> WorkerQuality:
    """Accuracy, interval and flag of every worker.

    Parameters
    ----------
    labels, mixture : CodedLabels, Mixture
        The labels, and the fitted model with class k standing for label k.
    memory : int or None, default=None
        Bytes the list of worker pairs may take; if it does not fit, nobody is flagged as copying.
    calibration : Calibration or None, default=None
        What is known of the errors of the crowd. None: they are independent, and the intervals are the model's.
    """
    judged = Judged(labels, mixture)
    n_labels = labels.per_worker
    accuracy, trials = _estimate_accuracy(judged, n_labels)
    low, high = jeffreys(accuracy, trials, TUNING.coverage)
    pairs = pairs_within_reach(labels, memory)
    dependent = None if pairs is None else find_dependent_pairs(pairs, mixture)
    quality = WorkerQuality(n_labels, accuracy, low, high, np.full(labels.n_workers, "", object))
    _raise_flags(quality, labels, mixture, judged, dependent)
    if pairs is not None:  # as many numbers as the list of pairs has
        for worker in overruling_workers(judged, accuracy):
            quality.flag[worker] = quality.flag[worker] or OVERRULES
    if calibration is None:
        return quality
    shared = calibration.weight**2 * consensus_error(labels, mixture, calibration.experienced)
    return replace(quality, low=np.maximum(low - shared, 0.0), high=np.minimum(high + shared * (1 - accuracy), 1.0))


def consensus_error(labels: CodedLabels, mixture: Mixture, exponent: float) -> Floats:
    """By worker, the expected error of the consensus on its tasks, under an exponent of the posterior (M,)."""
    total = np.zeros(labels.n_workers)
    for block in labels.blocks():
        error = 1 - temper(own_posterior(block, mixture), exponent).max(axis=1, initial=0.0)
        total += np.bincount(block.workers, error[block.task_of()], labels.n_workers)
    return np.asarray(total / np.maximum(labels.per_worker, 1))


def _estimate_accuracy(judged: Judged, n_labels: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The top of ℓ for every worker at once, and n_eff there."""
    size = len(n_labels)
    success: Floats = np.zeros(size)
    for block, judged_labels in judged:
        success += np.bincount(block.workers, judged_labels.right, size)
    accuracy: Floats = np.clip((success + 0.5) / (n_labels + 1), 0.02, 0.98)
    information: Floats = np.zeros(size)
    for _ in range(TUNING.newton_steps):
        slopes, information = _slopes(judged, accuracy)
        gradient = slopes + 0.5 / accuracy - 0.5 / (1 - accuracy)
        bend = information + 0.5 / accuracy**2 + 0.5 / (1 - accuracy) ** 2
        old = accuracy
        step = old + gradient / bend
        accuracy = np.clip(step, 0.2 * old, 1 - 0.2 * (1 - old))  # stays inside (0, 1)
        if np.abs(accuracy - old).max(initial=0.0) < TUNING.tolerance:
            break
    return accuracy, np.minimum(information * accuracy * (1 - accuracy), n_labels)


def _slopes(judged: Judged, accuracy: Floats) -> tuple[Floats, Floats]:
    """Σ_n (r_n − w_n) / (a r_n + (1 − a) w_n) of every worker, and the sum of their squares."""
    slopes, squares = np.zeros(len(accuracy)), np.zeros(len(accuracy))
    for block, judged_labels in judged:
        lead = judged_labels.right - judged_labels.wrong
        slope = lead / np.maximum(lead * accuracy[block.workers] + judged_labels.wrong, PROBABILITY_FLOOR)
        slopes += np.bincount(block.workers, slope, len(accuracy))
        slope *= slope
        squares += np.bincount(block.workers, slope, len(accuracy))
    return slopes, squares


def chance_accuracy(labels: CodedLabels, mixture: Mixture) -> Floats:
    """What each worker would reach with the same label proportions, independent of the task: Σ_k prior_k p_mk."""
    return np.asarray(labels.counts @ mixture.weights / np.maximum(labels.per_worker, 1))


def _raise_flags(
    quality: WorkerQuality, labels: CodedLabels, mixture: Mixture, judged: Judged, dependent: DependentPairs | None
) -> None:
    """Later flags overwrite earlier ones: the more specific finding wins."""
    guessing, flag = chance_accuracy(labels, mixture), quality.flag
    around = (quality.low <= guessing) & (guessing <= quality.high)
    flag[around & (quality.high < guessing + TUNING.unsure_width * (1 - guessing))] = "guessing"
    flag[quality.high < guessing] = "adversarial"
    flag[quality.n_labels < TUNING.few_labels] = FEW_LABELS
    flag[constant_workers(judged, quality)] = "constant"
    if dependent is not None:
        peer, near_identical = dependent.peers(labels.n_workers), dependent.near_identical()
        for worker in np.flatnonzero(peer >= 0):
            other = labels.worker_names[peer[worker]]
            flag[worker] = f"says the same as {other}" if worker in near_identical else f"agrees with {other} {BEYOND}"


def constant_workers(judged: Judged, quality: WorkerQuality) -> NDArray[np.bool_]:
    """Who always gives the same label although the tasks differ.

    A worker who never misses that label's own tasks, and is otherwise wrong as often as the crowd, would do
    so with probability Π_n (r_n + (1 − ā) w_n).
    """
    single = (judged.labels.counts > 0).sum(axis=1) == 1
    if not single.any():
        return np.asarray(single)
    typical = float(np.average(quality.accuracy, weights=np.maximum(quality.n_labels, 1e-9)))
    log_probability = np.zeros(len(single))
    for block, judged_labels in judged:
        tested = single[block.workers]
        likely = np.minimum(judged_labels.right[tested] + (1 - typical) * judged_labels.wrong[tested], 1.0)
        log_likely = np.log(np.maximum(likely, PROBABILITY_FLOOR))
        log_probability += np.bincount(block.workers[tested], log_likely, len(single))
    return np.asarray(single & (log_probability < np.log(TUNING.constant_probability)))


# -----------------------------------------------------------------------------
# Workers on whose tasks the others look worse than elsewhere: does the consensus follow a few?
#
# In Dawid and Skene's model how good a worker is does not depend on who else labelled the task. Colluders who copy one
# source with slips do not agree beyond the model once the consensus follows them, for they are then taken to be nearly
# always right. But everybody else looks like a guesser on their tasks and like a good worker on the others. Each label
# is judged by the other labels of its task (`workers.judge_labels`), and every worker is compared with itself: on the
# tasks of worker r, and away from them. Where r labelled all tasks, nothing can be compared.


def overruling_workers(judged: Judged, accuracy: Floats) -> NDArray[np.intp]:
    """Workers, better than the crowd by the fit, on whose tasks the others are far worse than away from them."""
    drop, z = drop_of_others(judged)
    typical = float(np.average(accuracy, weights=np.maximum(judged.labels.per_worker, 1e-9)))
    return np.flatnonzero((drop > TUNING.least_drop) & (z > TUNING.largest_z) & (accuracy > typical))


def drop_of_others(judged: Judged) -> tuple[Floats, Floats]:
    """By worker, how much less often the others are right on its tasks than away from them, and in standard errors."""
    size = judged.labels.n_workers
    given, total_right = judged.labels.per_worker, np.zeros(size)
    at: list[NDArray[np.int64]] = []
    who: list[NDArray[np.int32]] = []
    right: list[Floats] = []
    n_tasks = 0
    for block, judged_labels in judged:
        total_right += np.bincount(block.workers, judged_labels.right, size)
        several = np.repeat(np.diff(block.offsets) > 1, np.diff(block.offsets))  # the others are on no other task
        at.append(block.task_of()[several] + n_tasks)
        who.append(block.workers[several])
        right.append(judged_labels.right[several])
        n_tasks += block.n_rows
    cells, shape = (np.concatenate(at), np.concatenate(who)), (n_tasks, size)
    n_common_labels = sp.csr_array((np.ones(len(cells[0])), cells), shape)
    present = n_common_labels.copy()
    present.data[:] = 1.0  # a worker who answers twice was there once
    pairs = (present.T @ n_common_labels).tocoo()
    worker, other = pairs.coords
    right_labels = sp.csr_array((np.concatenate(right), cells), shape)
    well = np.asarray((present.T @ right_labels).tocsr()[worker, other]).reshape(-1)
    here, away = pairs.data, given[other] - pairs.data
    used = (worker != other) & (away > 0)
    worker, other, here, away, well = (array[used] for array in (worker, other, here, away, well))
    weight = here * away / (here + away)
    lost = weight * ((total_right[other] - well) / away - well / here)
    weights = np.bincount(worker, weight, size)
    drop = np.bincount(worker, lost, size) / np.maximum(weights, 1e-300)
    return drop, drop * np.sqrt(weights / TUNING.variance)


# -----------------------------------------------------------------------------
# Repeated answers: is a worker who answers a task again as independent of itself as the model takes it to be?
#
# Given the class, the answers of one worker to one task are independent in Dawid and Skene's model. Judges that
# remember,
# that answer without chance, and rows that were copied are not: their answers agree with one another more often than
# the worker's confusion matrix allows, and count for more than their information.


def examine_repeats(examiner: Examiner, labels: CodedLabels, mixture: Mixture) -> None:
    """Report answers of a worker to a task that agree with one another beyond what its confusion matrix explains."""
    usual = np.square(unstack_confusions(mixture)).sum(axis=2)  # (M, K): two answers agree, given the class
    agreed = expected = squares = 0.0
    n_repeated = 0
    for block in labels.blocks():
        answer = block.answer_of()
        if answer is None:
            continue
        first = np.flatnonzero(np.diff(answer, prepend=-1))
        size = np.bincount(answer)
        cell, many = np.unique(answer * labels.n_classes + block.given, return_counts=True)
        n_alike = np.bincount(cell // labels.n_classes, many * (many - 1.0), len(size))
        again = np.flatnonzero(size > 1)
        agreement = n_alike[again] / (size[again] * (size[again] - 1.0))
        task, worker = block.task_of()[first[again]], block.workers[first[again]]
        meant = np.einsum("nk,nk->n", own_posterior(block, mixture)[task], usual[worker])
        agreed, expected = agreed + float(agreement.sum()), expected + float(meant.sum())
        squares += float(np.square(agreement - meant).sum())
        n_repeated += len(again)
    if not n_repeated:
        return
    seen, should = agreed / n_repeated, expected / n_repeated
    examiner.quantities |= {"repeated_answers": n_repeated, "self_agreement": seen, "self_agreement_expected": should}
    limit = should + max(TUNING.least_excess, TUNING.repeats_largest_z * float(np.sqrt(squares)) / n_repeated)
    examiner.check(
        "repeated_answers",
        "Repeated answers of a worker to a task are independent given the class",
        seen <= limit,
        f"Answers of one worker to one task agree in {seen:.0%} of the pairs, {should:.0%} if they were independent "
        f"given the class (limit {limit:.0%}): they are duplicated, or the worker repeats itself, and count for too "
        "much; keep one answer of each worker to a task.",
        value=seen,
        limit=limit,
    )
