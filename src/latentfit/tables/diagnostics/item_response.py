"""Would a continuous trait explain the table as well as classes do? Item-response models of one or two dimensions.

Classes that are ordered on every item describe a continuous trait as well: with enough of them, latent classes
approximate any item-response model. The rival is fitted to the same rows and compared by BIC. Every category has a
slope of its own on the trait, so no order of the categories is assumed: for binary columns the model is the
two-parameter logistic, for others it contains the partial credit models, and comes near the graded response model.

Paper     Bock 1972 (nominal response model); Birnbaum 1968 (2PL); Bock & Aitkin 1981 (marginal likelihood by
          quadrature); Schwarz 1978 (BIC)
Needs     columns independent given the trait, a normally distributed trait; missing cells are left out, as in classes
Promises  the penalised marginal likelihood never falls below that of the initialisation; BIC picks the true one of the
          two models as rows grow
Differs   L-BFGS on the exact gradient (Fisher's identity, from the statistics of one E-step) in place of EM; a weak
          normal prior on slopes; one grid of nodes for all rows

Symbols   paper     here         shape      meaning
          X_k, A    nodes, log_weights  (Q, D), (Q,)  quadrature nodes of the trait, their weights
          a, c      slopes       (C, 1 + D) intercept and slopes of every category; they add up to 0 in each column
          P_k(θ)    mixture      (C, Q)     probability of every category at every node
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine


@dataclass(frozen=True)
class TraitSettings:
    """How item-response models are fitted."""

    nodes: tuple[int, ...] = (21, 9)  # Quadrature nodes per dimension, of one and of two dimensions.
    reach: float = 4.0  # Standard deviations that the nodes reach to either side.
    # Standard deviation of the prior of slopes: slopes of well-made questions lie between 1 and 3.
    slope_sd: float = 4.0
    max_iter: int = 60  # L-BFGS iterations; after so many what is left is a fraction of a nat.
    gain: float = 1e-6  # Part of the objective below which a step is the last.
    start_sd: float = 1.0  # Slopes of an initialisation are shrunk to at most this.


SETTINGS = TraitSettings()


@dataclass(frozen=True)
class TraitFit:
    """An item-response model fitted to a table."""

    slopes: Floats  # (C, 1 + D)
    log_likelihood: float
    n_parameters: int

    def bic(self, n_rows: float) -> float:
        """Schwarz's criterion, smaller is better."""
        return -2 * self.log_likelihood + self.n_parameters * float(np.log(max(n_rows, 2.0)))


@dataclass(frozen=True)
class Trait:
    """The better of the item-response models: its dimensions, and its BIC less that of the classes.

    `ordered` is the proportion of the columns in which one order of the classes holds for all of them.
    """

    n_dimensions: int
    bic_difference: float
    ordered: float


def best_trait(rows: Table, mixture: Mixture, bic_of_classes: float) -> Trait:
    """An item-response model of one dimension, or of two where there are three classes or more, against the classes.

    `bic_of_classes` is that of the classes on the same rows.
    """
    n_rows = rows.total_weight
    differences = {1: fit_trait(rows, mixture, 1).bic(n_rows) - bic_of_classes}
    if mixture.n_classes > 2 and differences[1] > 0:
        differences[2] = fit_trait(rows, mixture, 2).bic(n_rows) - bic_of_classes
    best = min(differences, key=lambda n: differences[n])
    return Trait(best, differences[best], ordered_columns(mixture))


def fit_trait(table: Table, like: Mixture, n_dimensions: int) -> TraitFit:
    """Fit an item-response model to a table, initialised by how the classes of `like` are spread."""
    nodes, weights = quadrature(n_dimensions)
    design = np.column_stack([np.ones(len(nodes)), nodes])
    offsets = table.column_offsets
    column_of = np.repeat(np.arange(table.n_columns), np.diff(offsets))
    engine = MemoryEngine(table, 1)
    precision = np.append(0.0, np.full(n_dimensions, 1 / SETTINGS.slope_sd**2))
    best = (-np.inf, np.zeros((len(column_of), 1 + n_dimensions)), -np.inf)

    def value(flat: Floats) -> tuple[float, Floats]:
        nonlocal best
        slopes = centred(flat.reshape(-1, 1 + n_dimensions), offsets)
        at_nodes = probabilities(slopes @ design.T, offsets)
        sums = engine.sums(Mixture(weights, at_nodes, offsets))
        objective = sums.log_likelihood - 0.5 * float((precision * np.square(slopes)).sum())
        if objective > best[0]:
            best = (objective, slopes, sums.log_likelihood)
        rows = np.add.reduceat(sums.table, offsets[:-1], axis=0)[column_of]
        gradient = (sums.table - rows * at_nodes) @ design - precision * slopes
        return -objective, -centred(gradient, offsets).ravel()

    start = initial_slopes(like, n_dimensions)
    options = {"maxiter": SETTINGS.max_iter, "ftol": SETTINGS.gain, "maxcor": 20}
    minimize(value, start.ravel(), jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    n_free = (1 + n_dimensions) * (len(column_of) - table.n_columns) - n_dimensions * (n_dimensions - 1) // 2
    return TraitFit(best[1], best[2], n_free)


def quadrature(n_dimensions: int) -> tuple[Floats, Floats]:
    """Nodes (Q, D) of a standard normal trait on an even grid, and their weights (Q,)."""
    line = np.linspace(-SETTINGS.reach, SETTINGS.reach, SETTINGS.nodes[n_dimensions - 1])
    nodes = np.stack(np.meshgrid(*[line] * n_dimensions, indexing="ij"), axis=-1).reshape(-1, n_dimensions)
    weights = np.exp(-0.5 * np.square(nodes).sum(axis=1))
    keep = weights > 1e-6 * weights.max()  # corners of the grid, where nobody is
    return nodes[keep], weights[keep] / weights[keep].sum()


def initial_slopes(mixture: Mixture, n_dimensions: int) -> Floats:
    """Intercepts and slopes (C, 1 + D) that spread the classes along the directions in which their profiles differ."""
    logs = np.log(np.maximum(mixture.table, 1e-3))
    logs = centred(logs, mixture.column_offsets)
    mean = logs @ mixture.weights
    left, size, _ = np.linalg.svd((logs - mean[:, None]) * np.sqrt(mixture.weights), full_matrices=False)
    slopes = np.zeros((len(logs), n_dimensions))
    n_known = min(n_dimensions, len(size))
    slopes[:, :n_known] = left[:, :n_known] * size[:n_known]
    largest = np.abs(slopes).max(initial=0.0)
    return np.column_stack([mean, slopes * min(1.0, 2 * SETTINGS.start_sd / max(largest, 1e-12))])


def centred(values: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Values (C, …) less the mean of their column."""
    sizes = np.diff(offsets)
    mean = np.add.reduceat(values, offsets[:-1], axis=0) / sizes[:, None]
    return np.asarray(values - np.repeat(mean, sizes, axis=0))


def probabilities(logits: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Softmax within every column of (C, Q)."""
    sizes = np.diff(offsets)
    raised = np.exp(logits - np.repeat(np.maximum.reduceat(logits, offsets[:-1], axis=0), sizes, axis=0))
    return np.asarray(raised / np.repeat(np.add.reduceat(raised, offsets[:-1], axis=0), sizes, axis=0))


def ordered_columns(mixture: Mixture) -> float:
    """Proportion of the columns in which some category's probability rises or falls all along one order of the classes.

    The order is that of the classes along the direction in which their profiles differ most.
    """
    logs = centred(np.log(np.maximum(mixture.table, 1e-3)), mixture.column_offsets)
    spread = (logs - (logs @ mixture.weights)[:, None]) * np.sqrt(mixture.weights)
    order = np.argsort(np.linalg.svd(spread, full_matrices=False)[2][0] / np.sqrt(mixture.weights))
    monotone = []
    for profile in mixture.profiles():
        steps = np.diff(np.cumsum(profile[order], axis=1)[:, :-1], axis=0)  # of the distribution function
        monotone.append(bool(((steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)).all()))
    return float(np.mean(monotone))
