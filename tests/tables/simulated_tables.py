"""Tables whose truth is known: sound ones, and every kind of table that does not determine its classes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from latentfit.core.mixture.bootstrap import draw_table
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table, group_rows
from latentfit.engine.memory import MemoryEngine, posterior_of

CLEAR = 0.85
"""Mean posterior of the likeliest class, under the truth itself, from which classes count as told apart."""


@dataclass(frozen=True)
class Case:
    """A table, the classes asked of it, and the EM iterations allowed."""

    table: Table
    n_classes: int
    max_iter: int = 500


def stack(weights, tables):
    offsets = np.concatenate([[0], np.cumsum([t.shape[1] for t in tables])]).astype(np.int32)
    return Mixture(np.asarray(weights, float), np.concatenate([t.T for t in tables]), offsets)


def draw(rng, weights, tables, n, missing=0.0):
    """Rows of a mixture; `missing` is a proportion of missing values or says which cells are missing values."""
    codes = np.zeros((n, len(tables)), np.uint8)
    codes[rng.random(codes.shape) < missing if np.isscalar(missing) else missing] = 255
    columns = tuple(Column(f"c{i}", np.arange(t.shape[1])) for i, t in enumerate(tables))
    return draw_table(Table(codes, columns), stack(weights, tables), rng)


def profiles(rng, F, sizes, separation=3.0):
    """Tables whose classes each favour a category of their own choice."""
    out = []
    for size in sizes:
        table = rng.dirichlet(np.full(size, 2.0), size=F)
        favour = (rng.permutation(F) + rng.integers(size)) % size
        table[np.arange(F), favour] += separation * rng.uniform(0.5, 1.0, F)
        out.append(table / table.sum(axis=1, keepdims=True))
    return out


def clearness(table, mixture):
    """How sure the truth itself is of the classes of the rows."""
    posterior, _ = posterior_of(MemoryEngine(table, 1), mixture)
    return float(np.average(posterior.max(axis=1), weights=table.row_weight))


def sound(seed):
    """F 2–6, N 6–24, I 2–8, uneven weights, missing values up to 40 %, 330 rows or more of the smallest class;
    profiles uniform on the simplex (the paper's Assumption 1) or with favourites. Drawn again until the truth tells
    classes apart."""
    rng = np.random.default_rng([seed, 1])
    while True:
        F, N = int(rng.integers(2, 7)), int(rng.integers(6, 25))
        sizes = rng.integers(2, 9, N)
        weights = rng.uniform(1, 3, F)
        weights /= weights.sum()
        uniform = rng.random() < 0.5
        tables = [rng.dirichlet(np.ones(s), size=F) for s in sizes] if uniform else profiles(rng, F, sizes)
        n = int(np.ceil(rng.uniform(330, 1000) / weights.min()))
        table = draw(rng, weights, tables, n, rng.uniform(0, 0.4))
        if clearness(table, stack(weights, tables)) >= CLEAR:
            return Case(table, F)


# ---------------------------------------------------------------------- broken


def two_columns(rng):
    size, F = int(rng.integers(3, 9)), int(rng.integers(2, 5))
    return Case(draw(rng, np.full(F, 1 / F), profiles(rng, F, [size, size]), int(rng.integers(500, 3000))), F)


def two_informative(rng):
    tables = profiles(rng, 2, [3, 3]) + [np.repeat(t, 2, axis=0) for t in profiles(rng, 1, [3] * 6, 0.0)]
    return Case(draw(rng, [0.5, 0.5], tables, 1500), 2)


def independent(rng):
    sizes = rng.integers(2, 6, int(rng.integers(4, 15)))
    table = draw(rng, [1.0], profiles(rng, 1, sizes, 0.0), int(rng.integers(300, 5000)))
    return Case(table, int(rng.integers(2, 5)))


def more_than_there_are(rng):
    F = int(rng.integers(2, 5))
    tables = profiles(rng, F, rng.integers(2, 6, int(rng.integers(8, 16))))
    return Case(draw(rng, np.full(F, 1 / F), tables, int(rng.integers(400, 1000)) * F), F + int(rng.integers(1, 3)))


def duplicates(rng):
    tables = [t[[0, 1, 1]] for t in profiles(rng, 2, rng.integers(2, 5, 10))]
    return Case(draw(rng, [0.4, 0.3, 0.3], tables, 2000), 3)


def nearly_same(rng):
    tables = profiles(rng, 2, rng.integers(2, 5, 10))
    shift = rng.uniform(0.01, 0.04)
    third = [(1 - shift) * t[1] + shift * rng.dirichlet(np.ones(t.shape[1])) for t in tables]
    tables = [np.vstack([t, extra]) for t, extra in zip(tables, third, strict=True)]
    return Case(draw(rng, [0.4, 0.3, 0.3], tables, int(rng.integers(1000, 4000))), 3)


def nearly_empty(rng):
    return Case(draw(rng, [0.6, 0.398, 0.002], profiles(rng, 3, rng.integers(2, 5, 10)), 1500), 3)


def few_rows(rng):
    F = int(rng.integers(2, 5))
    sizes = rng.integers(3, 7, int(rng.integers(8, 20)))
    return Case(draw(rng, np.full(F, 1 / F), profiles(rng, F, sizes), int(rng.integers(12, 31)) * F), F)


def too_few_categories(rng):
    N = int(rng.integers(3, 5))
    return Case(draw(rng, [0.5, 0.5], profiles(rng, 2, [2] * N), 3000), int(rng.integers(3, 6)))


def copied_columns(rng):
    table = draw(rng, [0.5, 0.5], profiles(rng, 2, [4] * 8), 1500)
    codes = table.codes[table.unique_index].copy()
    for n in range(0, 2 * int(rng.integers(1, 3)), 2):
        copied = rng.random(len(codes)) < rng.uniform(0.5, 1.0)
        codes[copied, n + 1] = codes[copied, n]
    return Case(group_rows(replace(table, codes=codes, row_weight=None, unique_index=None)), 2)


def never_together(rng):
    """Half the rows show one half of the columns, the other rows the other half."""
    F, n, N = int(rng.integers(2, 4)), int(rng.integers(1000, 3000)), 2 * int(rng.integers(3, 7))
    left = rng.random(n) < 0.5
    missing_cells = np.where(left[:, None], np.arange(N) < N // 2, np.arange(N) >= N // 2)
    return Case(draw(rng, np.full(F, 1 / F), profiles(rng, F, rng.integers(3, 6, N)), n, missing_cells), F)


def lonely_cells(rng):
    """Every row shows two columns at most: pairs are known, nothing beyond."""
    F, n, N = int(rng.integers(2, 4)), int(rng.integers(2000, 5000)), int(rng.integers(5, 9))
    shown = rng.random((n, N)).argsort(axis=1) < int(rng.integers(1, 3))
    return Case(draw(rng, np.full(F, 1 / F), profiles(rng, F, rng.integers(3, 6, N)), n, ~shown), F)


def cut_short(rng):
    return replace(sound(int(rng.integers(10**6))), max_iter=int(rng.integers(0, 3)))


BROKEN = [
    two_columns, two_informative, independent, more_than_there_are, duplicates, nearly_same, nearly_empty, few_rows,
    too_few_categories, copied_columns, never_together, lonely_cells, cut_short,
]  # fmt: skip


def broken(seed):
    """The kind's name and a table of it; kinds take turns."""
    make = BROKEN[seed % len(BROKEN)]
    return make.__name__, make(np.random.default_rng([seed, 2]))
