"""The crowd's prior, and the confidence of its consensus: what EM on label data needs beside the table steps.

Prior: each worker's confusion matrix gets τ pseudo-labels per true class, spread like the crowd's pooled
confusion at the start. It is fixed before EM begins, so the objective EM climbs is one function. Evidence
for τ = 1: docs/models/labels.md.

Confidence: workers are not quite independent given the class, and tables fitted to few labels are too sure of
themselves, so products of them are overconfident. One exponent β ≤ 1 on the joint probability of a task repairs
most of it. It is chosen without any truth: the β whose posteriors predict each label best from the other labels
of its task, with tables from which that task's own contribution was taken out. Nothing is refitted or drawn.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import Refined
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import Prior, TableSteps
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.labels.data.labels import RULED_OUT, CodedLabels, Labels
from latentfit.labels.data.sampling import sample_tasks
from latentfit.labels.em.one_coin import OneCoinSteps
from latentfit.labels.init.votes import hold_known

SMOOTHING = 1.0
"""τ of ``smoothing="auto"``: pseudo-labels per worker and true class."""
CLASS_SMOOTHING = 1.0
"""Pseudo-tasks per class under ``smoothing="auto"``; a uniform class prior instead costs over a point."""
PREDICTIVE_SMOOTHING = 2.0
"""τ of the tables that predict a left-out label: tables fitted tightly would be hedged by too small a β."""
CALIBRATION_TASKS = 50_000
"""Tasks that choose β; more would not move its second digit."""
GOLDEN = (5**0.5 - 1) / 2
COOLEST = 0.02
"""Smallest β considered: a crowd that sure of itself and that wrong is beyond repair."""


def pooled_confusion(sums: Sums, n_classes: int) -> Floats:
    """The crowd's confusion (given, true): what an unknown worker is expected to do."""
    counts = sums.table.reshape(-1, n_classes, n_classes).sum(axis=0)
    totals = counts.sum(axis=0)
    return np.asarray(np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / n_classes))


def crowd_prior(labels: CodedLabels, pooled: Floats, smoothing: float) -> Prior:
    """τ pseudo-labels per worker and true class, shaped like `pooled`; no smoothing, no class prior."""
    weights = np.full(labels.n_classes, CLASS_SMOOTHING if smoothing > 0 else 0.0)
    return Prior(np.tile(smoothing * pooled, (labels.n_workers, 1)), weights)


def crowd_steps(
    labels: CodedLabels, sums: Sums, smoothing: float, engine: MemoryEngine, *, one_coin: bool = False
) -> TableSteps:
    """EM steps whose prior is shaped by the statistics of a start: τ pseudo-labels per probability to be estimated."""
    pooled = pooled_confusion(sums, labels.n_classes)
    if not one_coin:
        return TableSteps(engine, crowd_prior(labels, pooled, smoothing), labels.first, labels.n_labels)
    prior = crowd_prior(labels, pooled / labels.n_classes, smoothing)  # a worker has one accuracy, not one per class
    return OneCoinSteps(engine, prior, labels.first, labels.n_labels)


def cooled(mixture: Mixture, beta: float) -> Mixture:
    """The mixture whose posterior is proportional to the joint probability to the power β."""
    return Mixture(mixture.weights**beta, mixture.table**beta, mixture.first)


def tempered_posterior(labels: Labels, mixture: Mixture, beta: float, engine: MemoryEngine) -> tuple[Floats, Floats]:
    """Posterior (n, K) of the tasks to the power β, normalised, and the log-likelihood (n,) of their labels.

    The prior is tempered along with the labels, so that the most probable class stays what it was; a task without
    labels has nothing to be too sure of, and gets the prior itself.
    """
    posterior, log_likelihood = posterior_of(engine, cooled(mixture, beta))
    posterior[np.diff(labels.offsets) == 0] = mixture.weights
    return hold_known(labels, posterior), log_likelihood


def choose_beta(
    labels: CodedLabels, refined: Refined[Mixture, Sums], seed: int, threads: int, *, one_coin: bool = False
) -> float:
    """The β ≤ 1 whose posteriors predict left-out labels best; classes may be in any order."""
    return left_out_score(labels, refined, seed, threads, one_coin=one_coin)[0]


def left_out_score(
    labels: CodedLabels, refined: Refined[Mixture, Sums], seed: int, threads: int, *, one_coin: bool = False
) -> tuple[float, float]:
    """The β ≤ 1 whose posteriors predict left-out labels best, and how well: mean log-probability per label."""
    shown = sample_tasks(labels, CALIBRATION_TASKS, seed)
    shown = shown.take(np.diff(shown.offsets) > 1)
    if not shown.n_rows:
        return 1.0, 0.0
    own = posterior_of(MemoryEngine(shown, threads), refined.params)[0]  # what a task gave the cells of its labels
    cleared = (_cleared_coins if one_coin else _cleared_tables)(shown, refined.sums.table, own)
    log_table = np.log(np.maximum(cleared(SMOOTHING), PROBABILITY_FLOOR))
    chance = cleared(PREDICTIVE_SMOOTHING)
    log_joint = np.add.reduceat(log_table, shown.offsets[:-1], axis=0) + refined.params.log_weights()
    log_joint[:, list(shown.never_given)] = RULED_OUT
    answer = shown.answer_of()
    if answer is not None:  # a worker's repeated answers are left out together
        log_table = np.add.reduceat(log_table, np.flatnonzero(np.diff(answer, prepend=-1)), axis=0)[answer]
    others = np.repeat(log_joint, np.diff(shown.offsets), axis=0) - log_table
    beta, loss = _best_beta(others, chance)
    return beta, -loss / shown.n_labels


def _cleared_tables(shown: Labels, fitted: Floats, own: Floats) -> Callable[[float], Floats]:
    """P(this label | class) of every label (labels, K), by tables and a crowd without its task, as a function of τ."""
    K, task = shown.n_classes, shown.task_of()
    mine = own[task]
    cell = np.maximum(fitted[shown.cell_of()] - mine, 0.0)
    total = np.maximum(fitted.reshape(-1, K, K).sum(axis=1)[shown.workers] - mine, 0.0)
    crowd = fitted.reshape(-1, K, K).sum(axis=0)  # (given, true)
    said = task * K + shown.given
    alike = np.bincount(said, minlength=shown.n_rows * K)[said][:, None]  # labels of the task that say the same
    all_of_task = np.diff(shown.offsets)[task][:, None]
    crowd_cell = np.maximum(crowd[shown.given] - alike * mine, 0.0)
    crowd_total = np.maximum(crowd.sum(axis=0) - all_of_task * mine, 0.0)
    pooled = (crowd_cell + 1 / K) / (crowd_total + 1)  # one label at random: what nobody else says is not impossible
    return lambda smoothing: np.asarray((cell + smoothing * pooled) / (total + smoothing))


def _cleared_coins(shown: Labels, fitted: Floats, own: Floats) -> Callable[[float], Floats]:
    """The same under the one-coin model."""
    K, task, given = shown.n_classes, shown.task_of(), shown.given
    counts = fitted.reshape(-1, K, K)
    mine = own[task, given]
    right = np.maximum(np.einsum("mkk->m", counts)[shown.workers] - mine, 0.0)
    total = np.maximum(counts.sum(axis=(1, 2))[shown.workers] - 1, 0.0)
    of_task = np.bincount(task, mine, shown.n_rows)[task]
    crowd_right = np.maximum(np.einsum("mkk->", counts) - of_task, 0.0)
    crowd = (crowd_right + 1 / K) / (np.maximum(counts.sum() - np.diff(shown.offsets)[task], 0.0) + 1)

    def table(smoothing: float) -> Floats:
        accuracy = ((right + smoothing * crowd) / (total + smoothing))[:, None]
        same = np.arange(K) == given[:, None]
        return np.asarray(np.where(same, accuracy, (1 - accuracy) / max(K - 1, 1)))

    return table


def _best_beta(log_joint: Floats, chance: Floats) -> tuple[float, float]:
    """The best β, and its loss."""
    shifted = log_joint - log_joint.max(axis=1, keepdims=True)

    def loss(log_beta: float) -> float:
        belief = np.exp(np.exp(log_beta) * shifted)
        return -float(np.log((belief * chance).sum(axis=1) / belief.sum(axis=1)).sum())

    low, high = float(np.log(COOLEST)), 0.0
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    while high - low > 0.01:  # golden section: one new point a round, the second digit of β is enough
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = loss(right)
    best = (low + high) / 2
    uncooled, cooled_best = loss(0.0), loss(best)
    return (1.0, uncooled) if uncooled <= cooled_best else (float(np.exp(best)), cooled_best)


def margins(posterior: Floats) -> NDArray[np.float64]:
    """How far the likeliest class of each task is ahead of the next."""
    if posterior.shape[1] < 2:
        return np.ones(len(posterior))
    top = np.partition(posterior, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])
