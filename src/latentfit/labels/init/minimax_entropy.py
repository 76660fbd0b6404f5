"""True labels by regularised minimax conditional entropy, categorical variant.

Paper     Zhou, Liu, Platt & Meek (2014), "Aggregating ordinal labels from crowds by minimax conditional
          entropy", ICML; longer in Zhou, Liu, Platt, Meek & Shah (2015), arXiv 1503.07240, Algorithm 1
Needs     a label's odds made of the worker's habit and the task's difficulty:
          P(x_wi = c | v) ∝ exp(σ_w(v, c) + τ_i(v, c))
Promises  every step raises the objective; no bound on the error
Differs   γ is fixed at 1/4, the value of the authors' demonstration (the paper: chosen among 2⁻² … 2² by
          held-out likelihood); σ, then τ, take a few gradient steps of the length that Böhning's bound on the
          curvature allows (the authors: L-BFGS to the optimum), all workers and all tasks at once
Objective max over σ, τ, Q of  Σ_{w,i,v} Q_i(v) log P(x_wi | v) + H(Q) − α/2 ‖σ‖² − β/2 ‖τ‖²

Symbols   paper  here      shape           meaning
          σ_w    sigma     (M, K, K)       worker's parameters (true, given)
          τ_i    tau       (n, K, K)       task's parameters (true, given)
          Q      Q         (n, K)          distribution of each task's true label
          α, β   strength  –               ridge of workers γ K², of tasks α · labels per worker / labels per task
          P      P         (labels, K, K)  P(given | true) for the worker and task of each label
          φ̂      seen      (·, K, K)       Σ Q(v) [label = c] of each worker, or of each task
          φ      expected  (·, K, K)       the same under the model: Σ Q(v) P(c | v)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.labels.data import Labels
from latentfit.labels.moments import vote_proportions

GAMMA = 0.25
"""Ridge of the workers over K²; the smallest of the paper's candidates, and its demonstration's choice."""

CURVATURE = 0.5
"""Böhning's bound: no eigenvalue of the Hessian of log Σ exp exceeds one half."""

LEAST_EXPONENT = -300.0
"""Odds are exp(parameter − largest of its row), worker's times task's; kept above e⁻³⁰⁰ each, so that the
product of two never rounds to zero."""


@dataclass(frozen=True)
class Side:
    """The workers' or the tasks' half of the model: whose label it is, the incidence matrix, and the ridge."""

    at: NDArray[np.integer]  # (labels,)
    incidence: sp.csr_array  # (size, labels) of ones
    strength: float


def factor_minimax_entropy(labels: Labels, *, max_iter: int = 50, tol: float = 5e-3, n_steps: int = 5) -> Floats:
    """Soft labels (n, K): Q after `max_iter` rounds, or when no entry of it moves by more than `tol`."""
    if labels.n_labels == 0:
        return vote_proportions(labels)
    workers, tasks = sides(labels, GAMMA)
    shape = (labels.n_classes, labels.n_classes)
    sigma, tau = np.zeros((labels.n_workers, *shape)), np.zeros((labels.n_rows, *shape))
    Q = vote_proportions(labels)
    for _ in range(max_iter):
        sigma = ascend(sigma, workers, _odds(tau)[tasks.at], Q[tasks.at], labels.given, n_steps)
        tau = ascend(tau, tasks, _odds(sigma)[workers.at], Q[tasks.at], labels.given, n_steps)
        before, Q = Q, update_labels(labels, workers, tasks, sigma, tau)
        if np.abs(Q - before).max() < tol:
            break
    return Q


def sides(labels: Labels, gamma: float) -> tuple[Side, Side]:
    """The workers' and the tasks' half, with α = γ K² and β = α · labels per worker / labels per task."""
    task = labels.task_of()
    n_workers, n_tasks = len(np.unique(labels.workers)), len(np.unique(task))
    alpha = gamma * labels.n_classes**2
    beta = alpha * n_tasks / n_workers
    each = np.arange(labels.n_labels)
    ones = np.ones(labels.n_labels)
    by_worker = sp.csr_array((ones, (labels.workers, each)), shape=(labels.n_workers, labels.n_labels))
    by_task = sp.csr_array((ones, (task, each)), shape=(labels.n_rows, labels.n_labels))
    return Side(labels.workers, by_worker, alpha), Side(task, by_task, beta)


def ascend(theta: Floats, side: Side, other: Floats, q: Floats, given: NDArray[np.int32], n_steps: int) -> Floats:
    """σ (or τ) after gradient steps of length 1 / bound; `other` are the other half's odds at each label."""
    seen = _seen(side, q, given)
    bound = CURVATURE * (side.incidence @ q)[:, :, None] + side.strength
    for _ in range(n_steps):
        theta = theta + gradient(theta, side, other, q, seen) / bound
    return theta


def gradient(theta: Floats, side: Side, other: Floats, q: Floats, seen: Floats) -> Floats:
    """∂ objective / ∂ σ (or τ) = φ̂ − φ − ridge · parameter."""
    P = _odds(theta)[side.at] * other
    P *= (q / P.sum(axis=2))[:, :, None]
    expected = (side.incidence @ P.reshape(len(P), -1)).reshape(theta.shape)
    return np.asarray(seen - expected - side.strength * theta)


def update_labels(labels: Labels, workers: Side, tasks: Side, sigma: Floats, tau: Floats) -> Floats:
    """Q_i(v) ∝ Π_w P(x_wi | v): the closed-form step."""
    P = _odds(sigma)[workers.at] * _odds(tau)[tasks.at]
    chosen = np.take_along_axis(P, labels.given[:, None, None].astype(np.intp), axis=2)[:, :, 0]
    log_q = tasks.incidence @ np.log(chosen / P.sum(axis=2))
    Q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def _odds(theta: Floats) -> Floats:
    return np.asarray(np.exp(np.maximum(theta - theta.max(axis=2, keepdims=True), LEAST_EXPONENT)))


def _seen(side: Side, q: Floats, given: NDArray[np.int32]) -> Floats:
    n_labels, n_classes = q.shape
    cells = np.zeros((n_labels, n_classes, n_classes))
    cells[np.arange(n_labels), :, given] = q
    return np.asarray((side.incidence @ cells.reshape(n_labels, -1)).reshape(-1, n_classes, n_classes))
