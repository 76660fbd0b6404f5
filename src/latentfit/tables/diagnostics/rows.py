"""The rows of a table: repeated by hand, removed by hand, named by a column.

A fitted mixture says how often every row should occur. Rows that it expects less than once and that occur twice were
repeated; a row that it expects often and that never occurs was removed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import poisson

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.tables.diagnostics.pairs import replicate_counts


@dataclass(frozen=True)
class RowLimits:
    """What is looked at."""

    # Different rows from which on a common divisor of their counts is no chance: all even has probability 2⁻²⁰ at most.
    least_rows: int = 20
    rare: float = 0.1  # Rows the model expects up to which a row is rare: two equal ones are then a surprise.
    expected: float = 10.0  # Rows the model expects from which on none at all is a surprise.
    least_columns: int = 3  # Columns without missing values that a row must have.
    least_categories: int = 20  # Categories from which on a column may be an identifier.


LIMITS = RowLimits()


@dataclass(frozen=True)
class RepeatedRows:
    """The common divisor of the rows' counts, and how many of the rare rows repeat another one."""

    divisor: int
    n_rare: int
    n_repeated: int
    expected: float  # of these, by the model

    @property
    def excess(self) -> float:
        """Proportion of the rare rows that repeat another one, beyond what the model expects."""
        return max(self.n_repeated - self.expected, 0.0) / max(self.n_rare, 1)


def repeated_rows(table: Table, mixture: Mixture) -> RepeatedRows:
    """Whether equal rows are more frequent than drawing rows one by one makes them."""
    counts = replicate_counts(table)
    n_rows = int(counts.sum())
    divisor = int(np.gcd.reduce(counts)) if len(counts) >= LIMITS.least_rows else 1
    expected = n_rows * np.exp(posterior_of(MemoryEngine(table, 1), mixture)[1])
    rare = expected < LIMITS.rare
    some = counts[rare]
    return RepeatedRows(divisor, int(some.sum()), int((some - 1).sum()), float(0.5 * (some * expected[rare]).sum()))


@dataclass(frozen=True)
class AbsentRow:
    """A row that should be frequent (-1: any code), how often it is expected, and how often it occurs."""

    codes: list[int]
    expected: float
    observed: float

    @property
    def p_value(self) -> float:
        """Probability of so few, by Poisson's law."""
        return float(poisson.cdf(self.observed, self.expected))


def most_absent_row(table: Table, mixture: Mixture) -> AbsentRow | None:
    """Of the most probable rows of the classes and of the table the one that is lacking most; None if none is frequent.

    Only columns without missing values are looked at, as a question that was not asked removes no row. Such a row is
    at least as probable as rows that differ from it in one column: what is expected is their mean number, or what the
    model expects if that is more. (Many classes adapt to the hole; their neighbours in it do not.)
    """
    columns = np.flatnonzero(~table.missing_columns)
    if len(columns) < LIMITS.least_columns:
        return None
    codes, weight = table.codes[:, columns], table.each_weight()
    profiles = [mixture.profiles()[n] for n in columns]
    modal = np.column_stack([profile.argmax(axis=1) for profile in profiles])  # (F, N)
    overall = np.array([[int((mixture.weights @ profile).argmax()) for profile in profiles]])
    worst: AbsentRow | None = None
    for row in np.unique(np.vstack([modal, overall]), axis=0):
        different = (codes != row).sum(axis=1)
        neighbours = float(weight[different == 1].sum()) / len(columns)
        chosen = np.stack([profile[:, code] for profile, code in zip(profiles, row, strict=True)])  # (N, F)
        by_model = float(weight.sum() * (mixture.weights @ chosen.prod(axis=0)))
        expected = max(neighbours, by_model)
        if expected < LIMITS.expected:
            continue
        full = np.full(table.n_columns, -1)
        full[columns] = row
        found = AbsentRow(full.tolist(), expected, float(weight[different == 0].sum()))
        if worst is None or found.observed / found.expected < worst.observed / worst.expected:
            worst = found
    return worst


def rows_per_category(table: Table) -> Floats:
    """Mean number of rows per category observed (N,), infinite for columns of few categories."""
    counts = table.singles()
    seen = np.add.reduceat((counts > 0).astype(np.float64), table.column_offsets[:-1])
    rows = np.add.reduceat(counts, table.column_offsets[:-1])
    return np.where(seen > LIMITS.least_categories, rows / np.maximum(seen, 1.0), np.inf)
