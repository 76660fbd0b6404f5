"""Bernoulli mixtures with known truth: the generator of the findings on choosing K.

Base logits U(−1.5, 1.5); each column informative with probability `proportion`; class logits = base + N(0, s²) on
those, s² = D / (.42 × their number), clipped at ±3.5; D = separation × √(L / 20); weights even or in proportion to
1..K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table, group_rows


@dataclass(frozen=True)
class World:
    table: Table
    label: np.ndarray  # (n,) true class of every row of the user
    mixture: Mixture  # the truth
    informative: np.ndarray  # (L,)

    @property
    def n_classes(self):
        return self.mixture.n_classes


def bernoulli_world(seed, K, L, n, *, separation=30.0, even=True, missing=0.0, proportion=0.5):
    rng = np.random.default_rng([20_240, seed])
    base = rng.uniform(-1.5, 1.5, L)
    informative = rng.random(L) < proportion
    informative[rng.integers(L)] = True
    spread = np.sqrt(separation * np.sqrt(L / 20) / (0.42 * informative.sum()))
    logits = base + informative * rng.normal(0, spread, (K, L))
    P = 1 / (1 + np.exp(-np.clip(logits, -3.5, 3.5)))
    weights = np.full(K, 1 / K) if even else np.arange(1, K + 1) / (K * (K + 1) / 2)
    label = rng.choice(K, size=n, p=weights)
    codes = (rng.random((n, L)) < P[label]).astype(np.uint8)
    codes[rng.random((n, L)) < missing] = 255
    columns = tuple(Column(f"c{j:03d}", np.array([0, 1])) for j in range(L))
    stacked = np.empty((2 * L, K))
    stacked[0::2], stacked[1::2] = 1 - P.T, P.T
    truth = Mixture(weights, stacked, np.arange(0, 2 * L + 1, 2, dtype=np.int32))
    return World(group_rows(Table(codes, columns)), label, truth, informative)


def true_impurity(label, assigned, K_assigned, n_classes):
    """1 − proportion of the most frequent true class (K_assigned,) in each cluster; nan for empty ones."""
    crossed = np.zeros((K_assigned, n_classes))
    np.add.at(crossed, (assigned, label), 1)
    total = crossed.sum(axis=1)
    return np.where(total > 0, 1 - crossed.max(axis=1) / np.maximum(total, 1), np.nan), crossed


def values_of(rows):
    """Cells as numbers (m, L), missing values as nan."""
    observed = np.ones(rows.ones.shape) if rows.observed is None else rows.observed
    return np.where(observed > 0, rows.ones, np.nan).astype(float)


def mixture_of(weights, P):
    P = np.asarray(P, float)
    cells = np.empty((2 * P.shape[1], len(P)))
    cells[0::2], cells[1::2] = 1 - P.T, P.T
    return Mixture(np.array(weights, float), cells, np.arange(0, 2 * P.shape[1] + 1, 2, dtype=np.int32))


def table_of(codes, **kwargs):
    codes = np.asarray(codes, np.uint8)
    return Table(codes, tuple(Column(f"c{n}", np.arange(2)) for n in range(codes.shape[1])), **kwargs)
