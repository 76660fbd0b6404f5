"""The crowd's prior, and the confidence of its consensus: what EM on label data needs beside the table steps.

Prior: each worker's confusion matrix gets τ pseudo-labels per true class, spread like the crowd's pooled
confusion at the start. It is fixed before EM begins, so the objective EM climbs is one function. Evidence
for τ = 1: docs/models/labels.md.

Confidence: workers are not quite independent given the class, so products of their tables are too sure. One
exponent β ≤ 1 on the joint probability of a task repairs most of it. It is chosen without any truth: hide
a fifth of the labels, refit on the rest, and take the β whose posteriors predict the hidden labels best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from tacit.data.labels import Labels
from tacit.data.sampling import held_out
from tacit.engine.memory import MemoryEngine, Sums, posterior_of
from tacit.engine.mixture import Floats, Mixture
from tacit.refine.em import em
from tacit.refine.tables import Prior, TableSteps, maximise_tables

SMOOTHING = 1.0
"""τ of ``smoothing="auto"``: pseudo-labels per worker and true class."""
CLASS_SMOOTHING = 1.0
"""Pseudo-tasks per class under ``smoothing="auto"``; a uniform class prior instead costs over a point."""
PREDICTIVE_SMOOTHING = 2.0
"""τ of the tables that predict hidden labels: tables fitted tightly would be hedged by too small a β."""
HIDDEN = 0.2
"""Share of the labels hidden to choose β."""
COOLEST = 0.02
"""Smallest β considered: a crowd that sure of itself and that wrong is beyond repair."""


def pooled_confusion(sums: Sums, n_classes: int) -> Floats:
    """The crowd's confusion (given, true): what an unknown worker is expected to do."""
    counts = sums.table.reshape(-1, n_classes, n_classes).sum(axis=0)
    totals = counts.sum(axis=0)
    return np.asarray(np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), 1.0 / n_classes))


def crowd_prior(labels: Labels, pooled: Floats, smoothing: float) -> Prior:
    """τ pseudo-labels per worker and true class, shaped like `pooled`; no smoothing, no class prior."""
    weights = np.full(labels.n_classes, CLASS_SMOOTHING if smoothing > 0 else 0.0)
    return Prior(np.tile(smoothing * pooled, (labels.n_workers, 1)), weights)


def crowd_steps(labels: Labels, sums: Sums, smoothing: float, n_jobs: int | None) -> TableSteps:
    """EM steps whose prior is shaped by the statistics of a start."""
    prior = crowd_prior(labels, pooled_confusion(sums, labels.n_classes), smoothing)
    return TableSteps(MemoryEngine(labels, n_jobs), prior, labels.first, labels.n_labels)


def cooled(mixture: Mixture, beta: float) -> Mixture:
    """The mixture whose posterior is proportional to the joint probability to the power β."""
    return Mixture(mixture.weights**beta, mixture.table**beta, mixture.first)


def choose_beta(labels: Labels, steps: TableSteps, mixture: Mixture, *, max_iter: int, tol: float, seed: int) -> float:
    """The β ≤ 1 whose posteriors predict hidden labels best."""
    hidden = held_out(labels, HIDDEN, seed)
    shown = labels.subset(~hidden)
    hidden &= np.repeat(np.diff(shown.offsets) > 0, np.diff(labels.offsets))  # something must be left to predict from
    if not hidden.any():
        return 1.0
    engine = MemoryEngine(shown, steps.engine.threads)
    refit = em(TableSteps(engine, steps.prior, labels.first, shown.n_labels), mixture, max_iter=max_iter, tol=tol)
    log_joint = _log_joint(engine, refit.params)
    prior = crowd_prior(labels, pooled_confusion(refit.sums, labels.n_classes), PREDICTIVE_SMOOTHING)
    predictive = maximise_tables(refit.sums, prior, labels.first)
    chance = predictive.table[labels.cell_of()[hidden]]  # (hidden labels, K)
    return _best_beta(log_joint[labels.task_of()[hidden]], chance)


def _log_joint(engine: MemoryEngine, mixture: Mixture) -> Floats:
    posterior, log_likelihood = posterior_of(engine, mixture)
    return np.asarray(np.log(np.maximum(posterior, 1e-300)) + log_likelihood[:, None])


def _best_beta(log_joint: Floats, chance: Floats) -> float:
    shifted = log_joint - log_joint.max(axis=1, keepdims=True)

    def loss(log_beta: float) -> float:
        belief = np.exp(np.exp(log_beta) * shifted)
        return -float(np.log((belief * chance).sum(axis=1) / belief.sum(axis=1)).sum())

    found = minimize_scalar(loss, bounds=(np.log(COOLEST), 0.0), method="bounded", options={"xatol": 0.01})
    return 1.0 if loss(0.0) <= found.fun else float(np.exp(found.x))


def margins(posterior: Floats) -> NDArray[np.float64]:
    """How far the likeliest class of each task is ahead of the next."""
    if posterior.shape[1] < 2:
        return np.ones(len(posterior))
    top = np.partition(posterior, -2, axis=1)
    return np.asarray(top[:, -1] - top[:, -2])
