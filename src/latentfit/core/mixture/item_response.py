"""Item-response model with normal traits: what profiles look like when there is a continuous trait and no class.

    P(cell c of column n | θ) = softmax over the column's categories of  a_c · θ + b_c,     θ ~ N(0, I)

For two categories this is the two-parameter logistic model (2PL), for more Bock's nominal model, which holds the
partial-credit models and needs no order of the categories. Classes of such data are slices of the trait, as many as the
rows pay for; the two models are compared by BIC. θ is integrated over an even grid with normal weights, so that the
E-step is that of a mixture with one class per node; the M-step is one logistic regression per column.

Paper     Bock & Aitkin 1981 (EM by quadrature); Birnbaum 1968 (2PL); Bock 1972 (nominal model)
Needs     categorical columns, missing cells allowed; rows drawn independently
Promises  EM is monotone; a maximum of the penalised likelihood on the grid
Differs   a weak normal prior on slopes and intercepts, so that no slope runs to infinity; the likelihood that BIC takes
          is without it

Symbols   here        shape    meaning
          nodes       (Q, D)   grid of θ
          slopes      (C, D)   a; 0 for the first category of each column
          intercepts  (C,)     b; 0 likewise
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.em import em, squarem
from latentfit.core.kernels import Floats
from latentfit.core.mixture.init import one_hot_rows
from latentfit.core.mixture.parameters import Mixture, marginal_proportions
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, Sums


@dataclass(frozen=True)
class ItemResponseSettings:
    """Constants of the fit, each with its reason."""

    nodes: tuple[int, ...] = (21, 11)  # per dimension, of one and of two traits: more change no log-likelihood by .1
    reach: float = 4.0  # standard deviations of the trait that the grid spans on each side
    slope_precision: float = 1 / 25  # prior N(0, 5²): a slope of 5 turns 7 % into 93 % within one standard deviation
    intercept_precision: float = 1 / 100  # prior N(0, 10²)
    newton: int = 2  # Newton steps of an M-step
    halvings: int = 6  # of a Newton step that would lower the objective
    start_slope: float = 2.0  # largest slope of the initialisation
    max_iter: int = 150
    tail_gain: float = 0.2  # nats that the last quarter of the iterations may still gain
    start_rows: int = 5_000  # rows from which the initialisation takes its principal directions


SETTINGS = ItemResponseSettings()


@dataclass(frozen=True)
class ItemResponse:
    """Parameters: slopes (C, D) and intercepts (C,), zero for the first category of every column."""

    slopes: Floats
    intercepts: Floats


@dataclass(frozen=True)
class ItemResponseFit:
    """A fitted model; `n_rows` is the sample size that BIC takes."""

    params: ItemResponse
    log_likelihood: float
    n_parameters: int
    n_rows: float
    converged: bool

    @property
    def bic(self) -> float:
        """Bayesian information criterion; smaller is better."""
        return -2 * self.log_likelihood + self.n_parameters * float(np.log(max(self.n_rows, 2.0)))


def fit_item_response(table: Table, n_dimensions: int = 1, n_jobs: int | None = 1) -> ItemResponseFit:
    """Fit one or two normal traits to a table.

    Parameters
    ----------
    table : Table
        Categorical columns; weights count as in every mixture.
    n_dimensions : {1, 2}, default=1
        Number of independent traits.
    n_jobs : int or None, default=1
        Threads.

    Returns
    -------
    ItemResponseFit
        Parameters, log-likelihood in nats without prior, and BIC.
    """
    steps = ItemResponseSteps(MemoryEngine(table, n_jobs), table, *trait_grid(n_dimensions))
    fit = em(
        steps, initial_traits(table, n_dimensions), max_iter=SETTINGS.max_iter, tol=1e-4, tail_gain=SETTINGS.tail_gain,
        accelerate=True,
    )  # fmt: skip
    free = int(np.maximum(np.diff(table.column_offsets) - 1, 0).sum())
    rotations = n_dimensions * (n_dimensions - 1) // 2
    return ItemResponseFit(
        fit.params, fit.log_likelihood, free * (n_dimensions + 1) - rotations, table.total_weight, fit.converged
    )


def trait_grid(n_dimensions: int) -> tuple[Floats, Floats]:
    """Nodes (Q, D) of an even grid, and their normal weights (Q,)."""
    line = np.linspace(-SETTINGS.reach, SETTINGS.reach, SETTINGS.nodes[n_dimensions - 1])
    nodes = np.stack(np.meshgrid(*[line] * n_dimensions, indexing="ij"), axis=-1).reshape(-1, n_dimensions)
    weights = np.exp(-0.5 * np.square(nodes).sum(axis=1))
    keep = weights > 1e-7 * weights.max()
    return nodes[keep], weights[keep] / weights[keep].sum()


@dataclass(frozen=True)
class ItemResponseSteps:
    """EM steps of the model over an engine."""

    engine: MemoryEngine
    table: Table
    nodes: Floats
    weights: Floats

    @property
    def n_cells(self) -> int:
        return max(round(self.table.n_cells), 1)

    def e_step(self, params: ItemResponse) -> tuple[ItemResponse, Sums]:
        """Expected cells at every node, and the parameters that expect them."""
        return params, self.engine.sums(self.mixture_of(params))

    def objective(self, params: ItemResponse, sums: tuple[ItemResponse, Sums]) -> float:
        return sums[1].log_likelihood - _penalty(params.slopes, params.intercepts)

    def log_likelihood(self, sums: tuple[ItemResponse, Sums]) -> float:
        return sums[1].log_likelihood

    def m_step(self, sums: tuple[ItemResponse, Sums]) -> ItemResponse:
        """One logistic regression of every column on the nodes, those with equally many categories together."""
        params, expected = sums
        slopes, intercepts = params.slopes.copy(), params.intercepts.copy()
        design = np.column_stack([np.ones(len(self.nodes)), self.nodes])  # (Q, D + 1)
        for cells in _same_size(self.table.column_offsets):
            start = np.concatenate([intercepts[cells][..., None], slopes[cells]], axis=2)[:, 1:]
            found = logistic_regressions(expected.table[cells], design, start)
            intercepts[cells[:, 1:]], slopes[cells[:, 1:]] = found[..., 0], found[..., 1:]
        return ItemResponse(slopes, intercepts)

    def extrapolate(self, start: ItemResponse, once: ItemResponse, twice: ItemResponse) -> ItemResponse:
        slopes, intercepts = squarem(*([one.slopes, one.intercepts] for one in (start, once, twice)))
        return ItemResponse(slopes, intercepts)

    def mixture_of(self, params: ItemResponse) -> Mixture:
        """The mixture with one class per node."""
        logits = params.slopes @ self.nodes.T + params.intercepts[:, None]
        offsets = self.table.column_offsets
        for cells in _same_size(offsets):
            block = logits[cells]
            block = np.exp(block - block.max(axis=1, keepdims=True))
            logits[cells] = block / block.sum(axis=1, keepdims=True)
        return Mixture(self.weights, np.ascontiguousarray(logits), offsets)


def initial_traits(table: Table, n_dimensions: int) -> ItemResponse:
    """Slopes from the principal directions of the centred one-hot rows, intercepts from the marginals."""
    offsets = table.column_offsets
    rows = table.take(np.arange(min(table.n_rows, SETTINGS.start_rows)))
    marginals = marginal_proportions(table.singles(), offsets)
    hot = one_hot_rows(rows, 0, rows.n_rows)
    shown = np.repeat(rows.present, np.diff(offsets), axis=1)
    centred = (hot - marginals * shown) / np.sqrt(np.maximum(marginals, 1e-6))
    weight = rows.each_weight()[:, None]
    _, directions = np.linalg.eigh(centred.T @ (centred * weight))
    scores = centred @ directions[:, ::-1][:, :n_dimensions]
    spread = np.sqrt(np.maximum((weight * np.square(scores)).sum(axis=0) / weight.sum(), 1e-12))
    slopes = (centred * weight).T @ (scores / spread) / weight.sum() / np.sqrt(np.maximum(marginals, 1e-6))[:, None]
    slopes = np.clip(1.7 * slopes, -SETTINGS.start_slope, SETTINGS.start_slope)
    first = np.repeat(offsets[:-1], np.diff(offsets))
    intercepts = np.log(np.maximum(marginals, 1e-6))
    return ItemResponse(slopes - slopes[first], intercepts - intercepts[first])


def logistic_regressions(counts: Floats, design: Floats, start: Floats) -> Floats:
    """Multinomial logistic regressions of several columns at once, a few damped Newton steps from `start`.

    Parameters
    ----------
    counts : ndarray of shape (L, size, Q)
        Weight of every category at every row of the design.
    design : ndarray of shape (Q, D + 1)
        A one and the regressors.
    start : ndarray of shape (L, size - 1, D + 1)
        Coefficients of all categories but the first.

    Returns
    -------
    ndarray of shape (L, size - 1, D + 1)
    """
    L, free, width = start.shape
    if not free:
        return start
    totals = counts.sum(axis=1)  # (L, Q)
    precision = np.full(width, SETTINGS.slope_precision)
    precision[0] = SETTINGS.intercept_precision
    at = start

    def value(coefficients: Floats) -> Floats:
        logits = coefficients @ design.T  # (L, free, Q)
        top = np.maximum(logits.max(axis=1), 0.0)
        log_sum = top + np.log(np.exp(-top) + np.exp(logits - top[:, None]).sum(axis=1))
        fit = (counts[:, 1:] * logits).sum(axis=(1, 2)) - (totals * log_sum).sum(axis=1)
        return np.asarray(fit - 0.5 * (precision * np.square(coefficients)).sum(axis=(1, 2)))

    now = value(at)
    for _ in range(SETTINGS.newton):
        logits = at @ design.T
        top = np.maximum(logits.max(axis=1, keepdims=True), 0.0)
        mass = np.exp(logits - top)
        p = mass / (np.exp(-top) + mass.sum(axis=1, keepdims=True))  # (L, free, Q)
        gradient = (counts[:, 1:] - totals[:, None] * p) @ design - precision * at
        curvature = np.einsum("lcq,ce->lceq", p, np.eye(free)) - p[:, :, None] * p[:, None]
        hessian = np.einsum("lceq,lq,qi,qj->lciej", curvature, totals, design, design, optimize=True)
        hessian = hessian.reshape(L, free * width, free * width)
        hessian[:, np.arange(free * width), np.arange(free * width)] += np.tile(precision, free)
        step = np.linalg.solve(hessian, gradient.reshape(L, -1, 1)).reshape(at.shape)
        for _ in range(SETTINGS.halvings):
            new = value(at + step)
            worse = new < now - 1e-9 * np.abs(now)
            if not worse.any():
                break
            step[worse] /= 2
        better = new >= now
        at, now = np.where(better[:, None, None], at + step, at), np.where(better, new, now)
    return np.asarray(at)


def _penalty(slopes: Floats, intercepts: Floats) -> float:
    prior = SETTINGS.slope_precision * np.square(slopes).sum()
    return 0.5 * float(prior + SETTINGS.intercept_precision * np.square(intercepts).sum())


def _same_size(offsets: NDArray[np.int32]) -> Iterator[NDArray[np.intp]]:
    """Cells (L, size) of the columns that have equally many categories."""
    sizes = np.diff(offsets)
    for size in np.unique(sizes[sizes > 0]):
        yield offsets[:-1][sizes == size][:, None] + np.arange(size, dtype=np.intp)
