r"""Total correlation: how far some two-category columns are from independent, in nats, exact from counts.

Paper     Najafi, Motahari & Rabiee 2020, "Reliable clustering of Bernoulli mixture models", Definitions 3.4 and 3.5,
          (3.1)–(3.2)
Needs     a table whose columns have at most two categories; weights of rows are multiplicities
Promises  D(Q) exactly, from the counts of the unique rows seen; D_max(Y; d) exactly for d = 2 and while C(L, d) is at
          most `MAX_SUBSETS`, otherwise a lower bound, and the result says which
Differs   p̂ divides by the m rows of Q (the paper prints n). With missing values, D(Q) is that of the rows complete on
          Q's columns (right when cells are missing at random; a subset no row is complete on has D = 0); fewer rows
          raise D by chance, so subsets with many missing values look more dependent. A cluster may be soft: a row
          counts with its weight times its membership. D never falls when a column joins complete data, which is why
          growing subsets column by column is a search

Symbols   paper   here            shape      meaning
          Q       columns         (d,)       a column subset, on the rows of a cluster
          m       total           ()         rows (their weight) complete on it
          P̂₁      counts / m      (≤ 2^d,)   empirical distribution of its unique rows
          p̂       ones / m        (d,)       empirical frequencies
          L       n_columns       ()
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import xlogy

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import count_table_pairs
from latentfit.core.simplex import pattern_ids
from latentfit.core.table.table import Table

Ints = NDArray[np.intp]
Membership = NDArray[np.bool_] | Floats

MAX_SUBSETS = 20_000
"""Column subsets an exhaustive maximum walks: about a second at a thousand unique rows."""
N_STARTS = 8
"""Strongest pairs a search grows subsets from."""
CELLS_AT_ONCE = 1 << 22
"""Cells held as float64 together while candidate columns are counted: 32 MB."""


@dataclass(frozen=True)
class MaximalTotalCorrelation:
    """D_max(Y; d): its value, the columns that reach it, and whether no subset can exceed it."""

    value: float
    columns: Ints  # (d,), ascending
    exact: bool  # False: a lower bound of the maximum


def total_correlation(table: Table, columns: Sequence[int] | Ints, *, membership: Membership | None = None) -> float:
    """D(Q) of the chosen columns, Definition 3.4, (3.1)–(3.2), for all rows or a cluster of them.

    `membership` (n_rows,) is boolean, or the proportion of each row that belongs to the cluster.
    """
    columns = np.asarray(columns, np.intp)
    if len(np.unique(columns)) < len(columns):
        raise DataError(f"columns {columns.tolist()} name one column twice; a subset holds each column once")
    rows = cluster_rows(table, membership)
    _refuse_other_columns(rows)
    complete = rows.present[:, columns].all(axis=1)
    bits = rows.codes[complete][:, columns]
    weight = rows.each_weight()[complete]
    counts = np.bincount(pattern_ids(bits), weight)
    excess = _excess(xlogy(counts, counts).sum(), weight @ bits, weight.sum())
    return float(_per_row(excess, weight.sum()))


def pair_total_correlations(table: Table, *, membership: Membership | None = None) -> Floats:
    """D of every pair of columns (L, L): their mutual information; zeros on the diagonal."""
    rows = cluster_rows(table, membership)
    _refuse_other_columns(rows)
    width = rows.n_columns
    column_of = np.repeat(np.arange(width), np.diff(rows.column_offsets))
    cells = 2 * column_of + np.arange(int(rows.column_offsets[-1])) - rows.column_offsets[column_of]
    full = np.zeros((2 * width, 2 * width))
    if rows.n_rows:
        full[np.ix_(cells, cells)] = count_table_pairs(rows).dense()
    counts = full.reshape(width, 2, width, 2)
    total, ones = counts.sum(axis=(1, 3)), counts.sum(axis=3)[:, 1, :]  # ones[i, j]: i is one and j is seen
    excess = _excess(xlogy(counts, counts).sum(axis=(1, 3)), np.stack([ones, ones.T]), total)
    upper = np.triu(_per_row(excess, total), 1)
    return np.asarray(upper + upper.T)


def maximal_total_correlation(
    table: Table,
    d: int,
    *,
    membership: Membership | None = None,
    most_subsets: int = MAX_SUBSETS,
) -> MaximalTotalCorrelation:
    """D_max(Y; d), Definition 3.5: the largest D of d columns, for all rows or a cluster of them.

    Up to `most_subsets` subsets are walked one by one. Beyond, subsets grow from the `N_STARTS` strongest pairs, each
    time by the column that adds most, and single columns are exchanged while that helps: a lower bound.
    """
    if not 1 <= d <= table.n_columns:
        raise DataError(f"d is {d} and the table has {table.n_columns} columns; give a number from 1 to that")
    rows = cluster_rows(table, membership)
    _refuse_other_columns(rows)
    if d == 1:
        return MaximalTotalCorrelation(0.0, np.zeros(1, np.intp), True)
    if d == 2:
        pairs = _upper_pairs(rows)
        return _found(float(pairs.max()), divmod(int(pairs.argmax()), rows.n_columns), True)
    if comb(rows.n_columns, d) <= most_subsets:
        return _exhaustive(rows, d)
    return _grow_from_pairs(rows, d)[0]


def strong_subsets(table: Table, d: int, *, membership: Membership | None = None) -> list[MaximalTotalCorrelation]:
    """Up to `N_STARTS` subsets of d ≥ 2 columns with large D, strongest first: for d = 2 the strongest pairs."""
    rows = cluster_rows(table, membership)
    _refuse_other_columns(rows)
    return _grow_from_pairs(rows, d)


def cluster_rows(table: Table, membership: Membership | None) -> Table:
    """The rows of a cluster; a soft one keeps the rows it holds any proportion of, with that proportion as weight."""
    if membership is None:
        return table
    proportion: NDArray[Any] = np.asarray(membership)
    if proportion.shape != (table.n_rows,):
        raise DataError(f"membership has shape {proportion.shape}; give one value for each of {table.n_rows} rows")
    if proportion.dtype == bool:
        return table.take(proportion)
    return replace(table, row_weight=table.each_weight() * proportion, unique_index=None, equal=None).take(
        proportion > 0
    )


# ------------------------------------------------------------ the maximum over subsets


def _exhaustive(rows: Table, d: int) -> MaximalTotalCorrelation:
    best, columns = -1.0, tuple(range(d))
    for prefix in combinations(range(rows.n_columns - 1), d - 1):
        later = np.arange(prefix[-1] + 1, rows.n_columns)
        found = _joined(rows, np.array(prefix, np.intp), later)
        if found.max() > best:
            best, columns = float(found.max()), (*prefix, int(later[found.argmax()]))
    return _found(best, columns, True)


def _grow_from_pairs(rows: Table, d: int) -> list[MaximalTotalCorrelation]:
    """Subsets grown from the strongest pairs, strongest first."""
    strongest = np.argsort(-_upper_pairs(rows), axis=None, kind="stable")[: min(N_STARTS, comb(rows.n_columns, 2))]
    grown: dict[tuple[int, ...], None] = {}  # starts that grow into the same subset are refined once
    for pair in strongest:
        chosen = list(divmod(int(pair), rows.n_columns))
        while len(chosen) < d:
            chosen.append(_best_partner(rows, chosen)[1])
        grown[tuple(sorted(chosen))] = None
    if d == 2:
        return [_found(total_correlation(rows, pair), pair, False) for pair in grown]
    exchanged = {tuple(sorted(chosen)): value for value, chosen in (_exchange(rows, list(init)) for init in grown)}
    return [_found(value, chosen, False) for chosen, value in sorted(exchanged.items(), key=lambda item: -item[1])]


def _exchange(rows: Table, chosen: list[int]) -> tuple[float, list[int]]:
    """Replace one column at a time by the best other one, until no replacement helps."""
    value = total_correlation(rows, chosen)
    improved = True
    while improved:
        improved = False
        for leaving in list(chosen):
            rest = [n for n in chosen if n != leaving]
            found, partner = _best_partner(rows, rest)
            if found > value * (1 + 1e-12):  # rounding must not keep two equal subsets changing places
                value, chosen, improved = found, [*rest, partner], True
    return value, chosen


def _best_partner(rows: Table, chosen: list[int]) -> tuple[float, int]:
    others = np.setdiff1d(np.arange(rows.n_columns), chosen)
    found = _joined(rows, np.array(chosen, np.intp), others)
    return float(found.max()), int(others[found.argmax()])


def _upper_pairs(rows: Table) -> Floats:
    """D of the pairs i < j; all other entries are negative and never win."""
    return np.asarray(np.triu(pair_total_correlations(rows), 1) - np.tri(rows.n_columns))


def _joined(rows: Table, columns: Ints, candidates: Ints) -> Floats:
    """D of `columns` together with each of the candidates in turn, all from one count of the unique rows."""
    complete = rows.present[:, columns].all(axis=1)
    weight, bits = rows.each_weight()[complete], rows.codes[complete][:, columns]
    if not len(bits):
        return np.zeros(len(candidates))
    ids = pattern_ids(bits)
    n_unique_rows = int(ids.max()) + 1
    by_unique_row = sp.csr_array((weight, (ids, np.arange(len(ids)))), shape=(n_unique_rows, len(ids)))
    row_bits = np.zeros((n_unique_rows, len(columns)))
    row_bits[ids] = bits
    out, step = [], max(1, CELLS_AT_ONCE // len(bits))
    for begin in range(0, len(candidates), step):
        block = candidates[begin : begin + step]
        observed = rows.present[complete][:, block].astype(np.float64)
        one = np.asarray(
            by_unique_row @ np.where(observed > 0, rows.codes[complete][:, block], 0.0)
        )  # (unique row, candidate)
        seen = np.asarray(by_unique_row @ observed)
        zero, total = seen - one, seen.sum(axis=0)
        ones = np.vstack([row_bits.T @ seen, one.sum(axis=0)])
        out.append(_per_row(_excess((xlogy(one, one) + xlogy(zero, zero)).sum(axis=0), ones, total), total))
    return np.concatenate(out)


# ------------------------------------------------------------ pieces


def _excess(sum_counts: Any, ones: Any, total: Any) -> Any:
    """m · D(Q) from Σ c log c over unique rows, the columns' ones (d, …) and m: (3.1), (3.2) as in (A.11)."""
    zeros = np.maximum(total - ones, 0.0)
    return sum_counts + (len(ones) - 1) * xlogy(total, total) - (xlogy(ones, ones) + xlogy(zeros, zeros)).sum(axis=0)


def _per_row(excess: Any, total: Any) -> Any:
    """D from m · D; zero without rows, and never below zero by rounding."""
    return np.maximum(np.divide(excess, total, out=np.zeros_like(excess, np.float64), where=total > 0), 0.0)


def _found(value: float, columns: Sequence[int], exact: bool) -> MaximalTotalCorrelation:
    return MaximalTotalCorrelation(value, np.array(sorted(columns), np.intp), exact)


def _refuse_other_columns(table: Table) -> None:
    wide = [column.name for column in table.columns if column.size > 2]
    if wide:
        raise DataError(
            f"column {wide[0]!r} has more than two categories; total correlation here is for two-category columns: "
            "leave it out or cut it in two"
        )
