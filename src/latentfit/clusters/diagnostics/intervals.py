"""Intervals of a Bernoulli mixture's frequencies and weights from the observed information.

Rows do not say their class, so a frequency is known less well than the rows of its class would allow. How much less
is the observed information (Louis 1982): the information of rows that know their class, minus the spread that
the posterior leaves in their score. On the logit scale the score of row i, were it of class k, is b_k = (x − p_k over
the cells it shows, 1); so with posterior τ the missing information between classes k and l is

    Σ_i (τ_k [k = l] − τ_k τ_l) b_k b_lᵀ ,

one product of small matrices for each pair of classes. Its inverse counts all frequencies and weights at once: the
error of one column moves rows between classes, and with them every other column.

Intervals are Wilson's at the effective rows, n_eff = p (1 − p) / se²: they stay inside [0, 1] and hold at its ends,
which they reach where no row of the class speaks against it.

Where rows of zeros were never recorded (`truncated`) the table has those that are expected, and their number is itself
not known: it follows the negative binomial distribution of failures before N successes, with variance V = N P0 / (1 −
P0)². That takes V m mᵀ off the information, m being the mean score of an all-zero row.

Wide tables: the columns that tell classes apart best, as many as `core` parameters hold, are inverted together with
the weights; every other column joins them one at a time, since it moves rows between classes the least.

Paper     Louis 1982; Wilson 1927 for the form of the intervals
Needs     a mixture of two-valued columns at its maximum, near enough
Promises  95 % intervals that cover as docs/guide/clusters/purity.md measures
Differs   the inverse is taken over the columns that tell most, others joining one by one

Symbols   paper   here          shape    meaning
          —       frequencies   (K, L)   p
          —       posterior     (n, K)   τ
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from latentfit.clusters.em import ZeroRow
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.replicates import is_whole
from latentfit.core.table.table import Table
from latentfit.core.verdict import reach_ends, standard_errors_of, wilson
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, posterior_of


@dataclass(frozen=True)
class InformationSettings:
    """Constants of the observed information, each with its reason."""

    core: int = 1_200  # parameters inverted together: half a second
    work: float = 2e10  # rows × core parameters²: above it a sample of the rows is looked at, and scaled up
    min_proportion: float = 0.01  # of the complete information: with less left the class is not told apart at all
    # how often the spread due to hidden classes is counted: the posterior was fitted to the same rows and is too sure,
    # and the curvature at the optimum understates how far overlapping classes can move. On simulated mixtures kept
    # apart from the reported ones the squared errors of this part were 1.3 to 2.4 times what the information says
    hidden: float = 1.5
    sure: float = 1e-7  # posterior error probability below which a row hides no information about its class
    rows_at_once: int = 4_096  # rows whose scores are held together
    columns_at_once: int = 64  # columns outside the core whose information is held together


SETTINGS = InformationSettings()


@dataclass(frozen=True)
class FrequencyIntervals:
    """Frequencies (K, L) of each column's second category and weights (K,), with bounds and effective rows."""

    frequencies: Floats
    low: Floats
    high: Floats
    rows: Floats  # (K, L) effective rows behind each frequency
    weights: Floats
    weights_low: Floats
    weights_high: Floats


def frequency_intervals(
    table: Table, mixture: Mixture, *, level: float = 0.95, smoothing: float = 0.0, n_jobs: int | None = 1,
    stands_for: float = 1.0, truncated: bool = False,
) -> FrequencyIntervals:  # fmt: skip
    """Intervals at `level` for a mixture fitted to a table of two-valued columns; `smoothing` as in the fit.

    With `truncated` the table is one completed by the all-zero rows that are expected (`clusters/em.py`).

    Sampling weights count as Kish's effective number of rows; of a sample each row stands for so many of those fitted.
    """
    z = standard_errors_of(level)
    if not (np.diff(table.column_offsets) == 2).all() or not np.array_equal(
        table.column_offsets, mixture.column_offsets
    ):
        raise DataError(
            "the mixture is none of this table's with two categories per column; intervals of frequencies need that"
        )
    p = mixture.table[1::2].T
    with one_blas_thread():
        posterior = posterior_of(MemoryEngine(table, n_jobs), mixture)[0]
        rows, weights_variance = effective_rows(table, mixture, posterior, smoothing, stands_for, truncated)
    weight = stands_for * counted_weight(table)
    yes, no = ((posterior * weight[:, None]).T @ (table.codes == code) for code in (1, 0))
    low, high = reach_ends(yes, no, wilson(p, rows, z))
    w = mixture.weights
    weights_rows = np.maximum(w * (1 - w) / np.maximum(weights_variance, 1e-300), 1.0)
    weights_low, weights_high = wilson(w, weights_rows, z) if len(w) > 1 else (w.copy(), w.copy())
    return FrequencyIntervals(p, low, high, rows, w, weights_low, weights_high)


class SetAside(NamedTuple):
    """Columns (L,) that took no part in a fit, and what its classes show of them (K, columns set aside)."""

    columns: NDArray[np.bool_]
    ones: Floats  # weight of the rows that say yes
    rows: Floats  # of those that say anything


def column_intervals(
    table: Table,
    mixture: Mixture,
    frequencies: Floats,
    noninformative: NDArray[np.bool_],
    aside: SetAside,
    *,
    level: float,
    smoothing: float,
    n_jobs: int | None,
    stands_for: float = 1.0,
    truncated: bool = False,
) -> tuple[Floats, Floats]:
    """Bounds (K, L) of the `frequencies` of all columns; `table` and `mixture` hold those that were not set aside.

    A `noninformative` column (L,) has one frequency in all classes. Each row of the table stands for so many of those
    fitted.
    """
    low, high = (np.empty_like(frequencies) for _ in range(2))
    z, tied_columns = standard_errors_of(level), noninformative[~aside.columns]
    informative, free = table.without(tied_columns), ~aside.columns & ~noninformative
    part = Mixture(mixture.weights, mixture.table[np.repeat(~tied_columns, 2)], informative.column_offsets)
    own = frequency_intervals(
        informative, part, level=level, smoothing=smoothing, n_jobs=n_jobs, stands_for=stands_for, truncated=truncated
    )
    low[:, free], high[:, free] = own.low, own.high
    # all rows count for a frequency that all classes share
    shared = stands_for * table.singles().reshape(-1, 2)[tied_columns]
    for columns, ones, rows, pseudo_rows in (
        (noninformative, shared[:, 1], shared.sum(axis=1), mixture.n_classes * smoothing),
        (aside.columns, aside.ones, aside.rows, 1.0),
    ):
        interval = wilson(frequencies[:, columns], rows + pseudo_rows, z)
        low[:, columns], high[:, columns] = reach_ends(ones, rows - ones, interval)
    return low, high


def effective_rows(
    table: Table, mixture: Mixture, posterior: Floats, smoothing: float, stands_for: float = 1, truncated: bool = False
) -> tuple[Floats, Floats]:
    """Effective rows (K, L) of every frequency, and the variances (K,) of the weights."""
    K, L = mixture.n_classes, table.n_columns
    weight = stands_for * counted_weight(table)
    observed = table.present
    seen = (posterior * weight[:, None]).T @ observed + smoothing  # (K, L) rows that would know their class
    end = 0.5 / (seen + 1)
    p = np.clip(mixture.table[1::2].T, end, 1 - end)  # a frequency of exactly 0 would have no information
    complete = seen * p * (1 - p)
    lost = unseen_scores(mixture, float(weight.sum())) if truncated else np.zeros((K, L + 1))
    if K == 1:
        hidden_fraction = np.square(lost[0, :-1]) / complete[0]
        left = max(1 - float(hidden_fraction.sum()), SETTINGS.min_proportion)
        return _rows(seen, complete, (1 + hidden_fraction / left) / complete), np.zeros(1)
    core = core_columns(mixture, K, L)
    unsure = np.flatnonzero(1 - posterior.max(axis=1) > SETTINGS.sure)
    some = unsure[:: _step(len(unsure), K * (len(core) + 1))]
    scale = weight[unsure].sum() / max(weight[some].sum(), 1e-300)
    hidden = _Hidden(table.codes[some] == 1, observed[some], posterior[some], scale * weight[some], p)
    # core: for each class its core columns, then its weight; the last class's weight is not free
    w, size = mixture.weights, len(core) + 1
    own = np.arange(K * size).reshape(K, size)
    information = -hidden.between(core, core, left_ends=True)
    information[own[:, :-1], own[:, :-1]] += complete[:, core]
    multinomial = np.diag(w) - np.outer(w, w)
    information[np.ix_(own[:, -1], own[:, -1])] += (weight.sum() + K * smoothing) * multinomial
    lost_core = lost[:, np.append(core, L)].reshape(-1)
    information -= np.outer(lost_core, lost_core)
    free = np.delete(np.arange(K * size), own[-1, -1])
    inverse = _inverse(information[np.ix_(free, free)])
    rows, variance = np.empty((K, L)), np.zeros(K * size)
    variance[free] = np.diag(inverse)
    rows[:, core] = _rows(seen[:, core], complete[:, core], variance[own[:, :-1]])
    other = np.setdiff1d(np.arange(L), core)
    for begin in range(0, len(other), SETTINGS.columns_at_once):  # each with the core alone: Schur's complement
        columns = other[begin : begin + SETTINGS.columns_at_once]
        cross = hidden.between(columns, core, left_ends=False).reshape(K, len(columns), -1)[:, :, free]
        cross = cross + lost[:, columns, None] * lost_core[free]
        alone = -hidden.within(columns) - np.einsum("kc,lc->ckl", lost[:, columns], lost[:, columns])
        alone[:, np.arange(K), np.arange(K)] += complete[:, columns].T
        for c, j in enumerate(columns):
            left = alone[c] - cross[:, c] @ inverse @ cross[:, c].T
            rows[:, j] = _rows(seen[:, j], complete[:, j], np.diag(_inverse(left)))
    at_weights = np.searchsorted(free, own[:-1, -1])
    J = multinomial[:, :-1]
    spread = np.einsum("ka,ab,kb->k", J, inverse[np.ix_(at_weights, at_weights)], J)
    known = w * (1 - w) / (weight.sum() + K * smoothing)
    return rows, known + SETTINGS.hidden * np.maximum(spread - known, 0.0)


def unseen_scores(mixture: Mixture, n_rows: float) -> Floats:
    """√V times the mean score (K, L + 1) of an all-zero row, weights last; `n_rows` with the rows never recorded."""
    zero = ZeroRow.of(mixture)
    spread = np.sqrt(n_rows / (1 + zero.odds) * zero.odds * (1 + zero.odds))
    scores = np.column_stack([-zero.posterior[:, None] * mixture.table[1::2].T, zero.posterior - mixture.weights])
    return np.asarray(spread * scores)


def counted_weight(table: Table) -> Floats:
    """Row weights that add up to the effective number of rows."""
    weight = table.each_weight()
    if table.scale is not None or is_whole(weight):  # which adds up to it, or has no need to
        return weight
    return np.asarray(weight * weight.sum() / (np.square(weight) / np.maximum(table.rows_each(), 1)).sum())


def core_columns(mixture: Mixture, K: int, L: int) -> NDArray[np.intp]:
    """The columns whose frequencies differ most between classes, as many as the core holds."""
    most = max(SETTINGS.core // K - 1, 1)
    if most >= L:
        return np.arange(L)
    p = mixture.table[1::2]
    mean = p @ mixture.weights
    apart = np.square(p - mean[:, None]) @ mixture.weights / np.maximum(mean * (1 - mean), 1e-12)
    return np.sort(np.argsort(-apart, kind="stable")[:most])


def _step(n_rows: int, size: int) -> int:
    """Every how many-th row is looked at."""
    return int(max(np.ceil(n_rows * size**2 / SETTINGS.work), 1))


def _rows(seen: Floats, complete: Floats, variance: Floats) -> Floats:
    """Effective rows: those of known class times the proportion of their information that is left."""
    proportion = 1 / (1 + SETTINGS.hidden * np.maximum(complete * variance - 1, 0.0))
    return np.asarray(np.maximum(seen * np.maximum(proportion, SETTINGS.min_proportion), 1.0))


def _inverse(information: Floats) -> Floats:
    """The inverse of an information matrix; where rounding or an unfinished EM run left it indefinite, its nearest."""
    scale = 1 / np.sqrt(np.maximum(np.diag(information), 1e-12))
    matrix = information * np.outer(scale, scale)
    try:
        inverse = cho_solve(cho_factor(matrix, lower=True), np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        inverse = (vectors / np.maximum(values, SETTINGS.min_proportion)) @ vectors.T
    return np.asarray(inverse * np.outer(scale, scale))


@dataclass(frozen=True)
class _Hidden:
    """The information that rows hide: cells (n, L), posterior (n, K), weight (n,), frequencies (K, L)."""

    ones: NDArray[np.bool_]
    observed: NDArray[np.bool_]
    posterior: Floats
    weight: Floats
    p: Floats

    def between(self, left: NDArray[np.intp], right: NDArray[np.intp], *, left_ends: bool) -> Floats:
        """Σ (τ_k [k = l] − τ_k τ_l) b_k b_lᵀ for some columns; each class's weight ends the right side's list."""
        K, same = len(self.p), left is right and left_ends
        out = np.zeros((K, len(left) + left_ends, K, len(right) + 1))
        for some in self._parts():
            others = self._scores(some, right, True)
            scores = others if same else self._scores(some, left, left_ends)
            for k in range(K):
                for l in range(k if same else 0, K):
                    out[k, :, l] += (scores[k] * self._spread(some, k, l)[:, None]).T @ others[l]
        for k in range(K if same else 0):
            for l in range(k):
                out[k, :, l] = out[l, :, k].T
        return out.reshape(K * out.shape[1], K * out.shape[3])

    def within(self, columns: NDArray[np.intp]) -> Floats:
        """The same (columns, K, K) between the frequencies of each column alone."""
        K = len(self.p)
        out = np.zeros((len(columns), K, K))
        for some in self._parts():
            scores = self._scores(some, columns, False)
            for k in range(K):
                for l in range(K):
                    out[:, k, l] += self._spread(some, k, l) @ (scores[k] * scores[l])
        return out

    def _parts(self) -> list[slice]:
        step = SETTINGS.rows_at_once
        return [slice(begin, begin + step) for begin in range(0, len(self.weight), step)]

    def _spread(self, some: slice, k: int, l: int) -> Floats:
        posterior = self.posterior[some]
        return np.asarray(posterior[:, k] * ((k == l) - posterior[:, l]) * self.weight[some])

    def _scores(self, some: slice, columns: NDArray[np.intp], ends: bool) -> list[Floats]:
        ones, observed = self.ones[some][:, columns].astype(np.float64), self.observed[some][:, columns]
        scores = [(ones - p[columns]) * observed for p in self.p]
        return [np.column_stack([s, np.ones(len(s))]) for s in scores] if ends else scores
