r"""Pure clusters: the fewest clusters of yes/no rows in none of which any d columns are dependent.

Paper     Najafi, Motahari & Rabiee 2020, "Reliable clustering of Bernoulli mixture models", Algorithm 1, Theorem 3.1
Needs     two-category columns; the purity test's d and τ, and α: no class has a weight below it
Promises  a clustering that is returned has passed the test of Algorithm 1: every cluster holds at least αn/2 rows and
          D_max(Y_k; d) ≤ τ (when `exact`; else no subset the search knows exceeds τ). What the paper promises of such
          a clustering is in diagnose.cluster_theorems. That no smaller κ would pass is *not* promised: the paper walks
          all κ^n clusterings, this search walks a few thousand
Differs   the search: for each κ a tabu search moves one row at a time, always the move that lowers the summed excess
          Σ_k Σ_Q max(0, D(Q) − τ) most (or raises it least), from several initialisations: a split of the impurest
          cluster of the last κ, hard EM from random rows, random labels. Large tables watch only the subsets that
          stand out, and a clustering pure on those is tested on all; subsets that fail are watched from then on.
          Slips of the paper that matter here:
          - Algorithm 1 runs `while κ < ⌈1/α⌉`, its proof κ ≤ ⌈1/α⌉. As printed, α = ½ tries one cluster only and α = 1
            none. Here κ ≤ ⌈1/α⌉ (since Kα ≤ 1, ⌊1/α⌋ clusters would do)
          - p̂ of Definition 3.4 divides by n; it is the m rows of the cluster
          - Z* is never set when no clustering passes; the text says a null clustering: here `labels` is None
          - d of (4.1) is a real number; as a number of columns it is rounded up (`d` is the caller's here)
          - Z ∈ {1, …, κ}^n names every clustering κ! times
          Slips in the proofs are listed in diagnose.cluster_theorems. D ≤ τ is tested with `ROUNDING` to spare. A row
          of whole weight w is w rows that may part; rows of fractional weight stay whole

Symbols   paper     here        shape     meaning
          Z         labels      (n,)      cluster of each row
          κ         kappa       ()        number of clusters
          Y_k                             rows of cluster k
          Q         subsets     (S, d)    column subsets watched
          τ α d     tau, alpha, d
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, comb

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from latentfit.clusters.moments import maximal_total_correlation, strong_subsets
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.simplex import pattern_ids
from latentfit.core.table.replicates import is_whole
from latentfit.core.table.table import Table

Ints = NDArray[np.intp]

ROUNDING = 1e-9
"""D and τ are compared with so much to spare: sums of logarithms differ in the last digits."""


@dataclass(frozen=True)
class SearchSettings:
    """Constants of the tabu search, each with its reason."""

    watch_all: int = 64  # up to so many column subsets all are watched; beyond, those that stand out in some cluster
    max_rounds: int = 12  # how often subsets that fail the full test may join those watched
    # what a row missing from a cluster below αn/2 costs: more than the excess of one subset, log 2
    missing_row: float = 1.0
    hard_em_iter: int = 10  # iterations of hard EM that make an initialisation: it settles or cycles within a few


SETTINGS = SearchSettings()


@dataclass(frozen=True)
class PureClusters:
    """What the search found; `labels` is None when no clustering with κ ≤ ⌈1/α⌉ passed (the null clustering)."""

    labels: Ints | None  # (n,) cluster of each row, named in the order of appearance
    row_of: Ints  # (n,) the row of the table each of them is: rows of whole weight are searched one by one
    d_max: Floats | None  # (κ,) D_max of each cluster
    exact: bool  # a clustering was found and all its column subsets were tested
    excess: tuple[float, ...]  # smallest summed excess reached at κ = 1, 2, …, over the subsets watched

    @property
    def n_clusters(self) -> int | None:
        return None if self.labels is None else int(self.labels.max()) + 1


def pure_clusters(
    table: Table,
    *,
    d: int,
    tau: float,
    alpha: float,
    rng: np.random.Generator,
    n_inits: int = 8,
    max_moves: int = 100,
) -> PureClusters:
    """Algorithm 1 by local search: the first κ = 1, 2, …, ⌈1/α⌉ at which a clustering passes the purity test.

    `n_inits` searches of `max_moves` moves each are made at every κ before the next is tried.
    """
    if not 0 < alpha <= 1:
        raise DataError(f"alpha is {alpha}; it is the smallest class weight, give a number above 0 and up to 1")
    rows, row_of = unit_rows(table)
    if not rows.n_rows:
        raise DataError("the table has no rows; there is nothing to cluster")
    if not 1 <= d <= rows.n_columns:
        raise DataError(f"d is {d} and the table has {rows.n_columns} columns; give a number from 1 to that")
    labels = np.zeros(rows.n_rows, np.intp)
    reached: list[float] = []
    for kappa in range(1, most_clusters(alpha) + 1):  # `while`, with ≤
        least, closest = np.inf, labels
        for number in range(n_inits if kappa > 1 else 1):
            init = _initial_labels(rows, labels, kappa, number, rng)
            watched, found = _search(rows, init, kappa, d, tau, alpha, max_moves, rng)
            if watched < least:
                least, closest = watched, found
            if watched == 0:
                d_max, exact = cluster_d_max(rows, found, d)
                if passes(rows, found, d_max, tau, alpha):
                    order, labels = _by_appearance(found)
                    return PureClusters(labels, row_of, d_max[order], exact, (*reached, 0.0))
        reached.append(float(least))
        labels = closest
    return PureClusters(None, row_of, None, False, tuple(reached))


def most_clusters(alpha: float) -> int:
    """⌈1/α⌉, forgiving the rounding of 1/α."""
    return ceil(1 / alpha - ROUNDING)


def cluster_d_max(table: Table, labels: Ints, d: int) -> tuple[Floats, bool]:
    """D_max(Y_k; d) of every cluster (κ,), and whether all of them are exact."""
    found = [maximal_total_correlation(table, d, membership=labels == k) for k in range(int(labels.max()) + 1)]
    return np.array([one.value for one in found]), all(one.exact for one in found)


def passes(table: Table, labels: Ints, d_max: Floats, tau: float, alpha: float) -> bool:
    """The two questions Algorithm 1 asks of a clustering: at least αn/2 rows per cluster, and D_max ≤ τ in each."""
    sizes = np.bincount(labels, table.each_weight(), minlength=len(d_max))
    enough = sizes >= alpha * table.total_weight / 2 - ROUNDING
    return bool((enough & (sizes > 0) & (d_max <= tau + ROUNDING)).all())


def unit_rows(table: Table) -> tuple[Table, Ints]:
    """The rows one by one, and which row of the table each is: in the user's order when equal rows were grouped."""
    weight = table.each_weight()
    row_of = np.arange(table.n_rows)
    if table.unique_index is not None and np.array_equal(
        np.bincount(table.unique_index, minlength=len(weight)), weight
    ):
        row_of = table.unique_index.astype(np.intp)
    elif not table.sampling and is_whole(weight):
        row_of = np.repeat(row_of, weight.astype(np.intp))
    else:
        return replace(table, unique_index=None, equal=None), row_of
    return replace(table.take(row_of), row_weight=None), row_of


# ------------------------------------------------------------ one search


def _search(
    rows: Table, labels: Ints, kappa: int, d: int, tau: float, alpha: float, max_moves: int, rng: np.random.Generator
) -> tuple[float, Ints]:
    """The smallest excess over the watched subsets reached from these labels, and where."""
    if d == 1:  # a single column depends on nothing
        return 0.0, labels
    everything = comb(rows.n_columns, d) <= SETTINGS.watch_all
    if everything:
        subsets = np.array(list(combinations(range(rows.n_columns), d)), np.intp)
    else:
        subsets = _outstanding(rows, labels, d, None)
    least = max(alpha * rows.total_weight / 2, float(rows.each_weight().min())) - ROUNDING
    excess, labels = _tabu(_Board(rows, labels, kappa, subsets, tau, least), max_moves, rng)
    for _ in range(0 if everything else SETTINGS.max_rounds):
        if excess > 0:
            break
        failing = _outstanding(rows, labels, d, tau)
        if not len(failing):
            break
        subsets = np.unique(np.vstack([subsets, failing]), axis=0)
        excess, labels = _tabu(_Board(rows, labels, kappa, subsets, tau, least), max_moves, rng)
    return excess, labels


def _outstanding(rows: Table, labels: Ints, d: int, tau: float | None) -> Ints:
    """The strongest subsets of every cluster (S, d); with `tau`, only those that exceed it."""
    strong = [one for k in range(int(labels.max()) + 1) for one in strong_subsets(rows, d, membership=labels == k)]
    if tau is not None and d > 2:  # the full test may know a stronger subset than growth from pairs
        strong += [maximal_total_correlation(rows, d, membership=labels == k) for k in range(int(labels.max()) + 1)]
    subsets = {tuple(one.columns.tolist()): None for one in strong if tau is None or one.value > tau + ROUNDING}
    return np.array(list(subsets), np.intp).reshape(-1, d)


def _tabu(board: _Board, max_moves: int, rng: np.random.Generator) -> tuple[float, Ints]:
    """Best moves in turn, worse ones too; a row that left a cluster stays away from it for some moves."""
    n, kappa = len(board.labels), board.kappa
    barred = np.zeros((n, kappa), np.intp)
    best, best_labels = board.objective(), board.labels.copy()
    for move in range(max_moves if kappa > 1 else 0):
        if best <= 0:
            break
        gain = board.gains()
        now = board.objective()
        hopeful = now + gain < best - ROUNDING
        gain[(barred > move) & ~hopeful] = np.inf
        gain[np.arange(n), board.labels] = np.inf
        at = int(np.argmin(gain + ROUNDING * rng.random(gain.shape)))  # equal moves are drawn from
        row, target = divmod(at, kappa)
        if not np.isfinite(gain[row, target]):
            continue
        barred[row, board.labels[row]] = move + 2 + int(rng.integers(1 + min(n // 2, 10)))
        board.move(row, target)
        if board.objective() < best - ROUNDING / 10:
            best, best_labels = board.objective(), board.labels.copy()
    return (0.0 if best <= ROUNDING else best), best_labels


class _Board:
    """A clustering with the counts of its watched subsets, kept up to date move by move."""

    def __init__(self, rows: Table, labels: Ints, kappa: int, subsets: Ints, tau: float, least: float) -> None:
        self.labels, self.kappa, self.tau, self.least = labels.copy(), kappa, tau + ROUNDING, least
        self.weight = rows.each_weight()
        self.d = subsets.shape[1]
        self.complete = np.asarray(rows.present[:, subsets].all(axis=2))  # (n, S)
        self.value = (rows.codes[:, subsets] == 1) & self.complete[:, :, None]  # (n, S, d)
        # which unique row each row shows on each subset (n, S), numbered from 0 subset by subset
        self.cell = np.stack([pattern_ids(self.value[:, s]) for s in range(len(subsets))], axis=1)
        n_cells, S = int(self.cell.max()) + 1, len(subsets)
        self.counts = np.zeros((self.kappa, S, n_cells))
        self.ones = np.zeros((self.kappa, S, self.d))
        self.total = np.zeros((self.kappa, S))
        self.size = np.bincount(labels, self.weight, minlength=self.kappa).astype(np.float64)
        for row, k in enumerate(labels):
            self._put(row, int(k), 1.0)
        self.joining = np.zeros((len(labels), self.kappa))  # excess of cluster k once row i is in it
        self.leaving = np.zeros(len(labels))  # excess of the row's own cluster without it
        self.excess = np.zeros(self.kappa)
        for k in range(self.kappa):
            self._refresh(k)

    def objective(self) -> float:
        return float(self.excess.sum() + SETTINGS.missing_row * np.maximum(self.least - self.size, 0.0).sum())

    def gains(self) -> Floats:
        """Change of the objective for every row and target (n, κ)."""
        k, w = self.labels, self.weight
        short = np.maximum(self.least - self.size, 0.0)
        left = np.maximum(self.least - (self.size[k] - w), 0.0) - short[k]
        entered = np.maximum(self.least - (self.size[None, :] + w[:, None]), 0.0) - short
        moved = self.joining - self.excess + (self.leaving - self.excess[k])[:, None]
        return np.asarray(moved + SETTINGS.missing_row * (entered + left[:, None]))

    def move(self, row: int, target: int) -> None:
        source = int(self.labels[row])
        self._put(row, source, -1.0)
        self._put(row, target, 1.0)
        self.size[source] -= self.weight[row]
        self.size[target] += self.weight[row]
        self.labels[row] = target
        self._refresh(source)
        self._refresh(target)

    def _put(self, row: int, k: int, sign: float) -> None:
        seen = np.flatnonzero(self.complete[row])
        change = sign * self.weight[row]
        self.counts[k, seen, self.cell[row, seen]] += change
        self.ones[k, seen] += change * self.value[row, seen]
        self.total[k, seen] += change

    def _refresh(self, k: int) -> None:
        """Excess of cluster k as it is, with each other row, and without each of its own."""
        m, ones, counts = self.total[k], self.ones[k], self.counts[k]
        zeros = m[:, None] - ones
        scaled = _phi(counts).sum(axis=1) + (self.d - 1) * _phi(m) - (_phi(ones) + _phi(zeros)).sum(axis=1)  # m · D
        D = np.divide(scaled, m, out=np.zeros_like(m), where=m > ROUNDING)
        self.excess[k] = np.maximum(D - self.tau, 0.0).sum()
        own = np.asarray(self.labels == k)
        self.joining[~own, k] = self._changed(k, ~own, scaled, D, 1.0)
        self.leaving[own] = self._changed(k, own, scaled, D, -1.0)

    def _changed(self, k: int, rows: NDArray[np.bool_], scaled: Floats, D: Floats, sign: float) -> Floats:
        """Excess of cluster k with (+1) or without (−1) each of these rows."""
        w = sign * self.weight[rows, None]
        m = np.broadcast_to(self.total[k], (len(w), len(D)))
        c = self.counts[k][np.arange(len(D)), self.cell[rows]]
        value = self.value[rows]
        q = np.where(value, self.ones[k], (self.total[k][:, None] - self.ones[k]))
        new = scaled + _step(c, w) + (self.d - 1) * _step(m, w) - _step(q, w[:, :, None]).sum(axis=2)
        new = np.divide(new, m + w, out=np.zeros_like(new), where=m + w > ROUNDING)
        return np.asarray(np.maximum(np.where(self.complete[rows], new, D) - self.tau, 0.0).sum(axis=1))


def _phi(x: Floats) -> Floats:
    return np.asarray(xlogy(x, np.maximum(x, ROUNDING)))


def _step(x: Floats, w: Floats) -> Floats:
    """Φ(x + w) − Φ(x) for Φ(x) = x log x."""
    return _phi(np.maximum(x + w, 0.0)) - _phi(np.maximum(x, 0.0))


# ------------------------------------------------------------ starts


def _initial_labels(rows: Table, labels: Ints, kappa: int, number: int, rng: np.random.Generator) -> Ints:
    """κ clusters to begin with; `labels` is the best clustering with κ − 1."""
    if kappa == 1:
        return np.zeros(rows.n_rows, np.intp)
    if number == 0:
        return _split(rows, labels, kappa, rng)
    if number % 2:
        return _hard_em(rows, rng.choice(rows.n_rows, kappa, replace=rows.n_rows < kappa), rng)
    return _fill(rng.integers(kappa, size=rows.n_rows), kappa, rng)


def _split(rows: Table, labels: Ints, kappa: int, rng: np.random.Generator) -> Ints:
    """The cluster with the strongest pair in two, by hard EM on its rows."""
    worst = int(np.argmax(cluster_d_max(rows, labels, min(2, rows.n_columns))[0]))
    inside = np.flatnonzero(labels == worst)
    halves = _hard_em(rows.take(inside), rng.choice(len(inside), 2, replace=len(inside) < 2), rng)
    out = labels.copy()
    out[inside[halves == 1]] = kappa - 1
    return _fill(out, kappa, rng)


def _hard_em(rows: Table, seeds: Ints, rng: np.random.Generator) -> Ints:
    """Rows to their likeliest cluster, clusters to their rows' frequencies, from single rows."""
    kappa, weight = len(seeds), rows.each_weight()[:, None]
    observed = rows.present.astype(np.float64)
    one = np.where(rows.present, rows.codes, 0).astype(np.float64)
    p = (one[seeds] + 0.5) / (observed[seeds] + 1)
    labels = np.zeros(rows.n_rows, np.intp)
    for _ in range(SETTINGS.hard_em_iter):
        fit = one @ np.log(p).T + (observed - one) @ np.log(1 - p).T
        labels = _fill(np.asarray(fit.argmax(axis=1), np.intp), kappa, rng)
        member = weight * (labels[:, None] == np.arange(kappa))
        p = (member.T @ one + 0.5) / (member.T @ observed + 1)
    return labels


def _fill(labels: Ints, kappa: int, rng: np.random.Generator) -> Ints:
    """Empty clusters take a random row of the largest one, while there are rows to take."""
    labels = labels.copy()
    for k in range(kappa):
        sizes = np.bincount(labels, minlength=kappa)
        if sizes[k] == 0 and sizes.max() > 1:
            labels[rng.choice(np.flatnonzero(labels == sizes.argmax()))] = k
    return labels


def _by_appearance(labels: Ints) -> tuple[Ints, Ints]:
    """Clusters in the order in which they appear, and the labels (n,) numbered by it."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.asarray(order, np.intp), np.asarray(np.argsort(order)[inverse], np.intp)
