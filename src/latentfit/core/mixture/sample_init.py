"""Starts for latent classes from pair counts, and the sample of rows they are made from.

SPA wins on data that follow the model, merged classes (`refine.merge_down`) on real tables: the default races both
(docs/models/tables.md).

Paper     Ibrahim & Fu 2021: pair frequencies as in Proposition 1, Algorithm 1 on its naive split or on the likeliest of
          several, random starts as in Table I
Needs     a sample of rows; starts from moments also two columns and at most `MOST_CELLS` categories
Promises  starts that do not depend on the order of rows, columns or categories; what SPA promises is in
`core/mixture/spa.py`
Differs   classes that X̃ cannot give are filled from data rows, and starts are softened by a tenth of the marginals

Symbols   paper   here          shape    meaning
          X̂_jk    frequencies   (C, C)   estimated pairwise marginals, all blocks
          S₁      split         (N,)     columns of the first half
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.mixture.row_init import (
    FEWEST_ROWS,
    RowView,
    dense_pairs,
    fill_classes,
    rows_as_seeds,
    soften,
    spectral_clusters,
)
from latentfit.core.mixture.spa import balanced_split, factor_spa, naive_split, pair_log_likelihood
from latentfit.core.table.replicates import sample_rows
from latentfit.core.table.stored import AnyTable
from latentfit.core.table.table import Column, Table

MOST_CELLS = 600
"""Categories of all columns together up to which a pool holds starts from moments: they cost their cube."""
GRAM_WORK = 5e7
"""Multiplications spent on the pair counts of a pool: all rows of a small table, some of a wide one."""
SEARCHED_SPLITS = 10
"""Splits among which ``init="spa"`` looks for the likeliest."""


@dataclass(frozen=True)
class Sample:
    """Rows in the order of their hashes, columns and categories in the order of their names.

    Nothing computed from it depends on how the user ordered rows, columns or categories; `cells` (C,) says which cell
    of the user's table each cell here is.
    """

    table: Table
    cells: NDArray[np.intp]
    whole: bool  # it holds every row

    @cached_property
    def view(self) -> RowView:
        return RowView(self.table)

    @cached_property
    def pairs(self) -> Floats:
        """Pair counts (C, C) of as many rows as `GRAM_WORK` allows."""
        rows = max(int(GRAM_WORK / int(self.table.first[-1]) ** 2), FEWEST_ROWS)
        return dense_pairs(self.table, min(self.table.n_rows, rows))

    def counted(self, counts: PairCounts) -> Floats:
        """Pair counts (C, C) of the user's table, in the order of the cells here."""
        return counts.dense()[np.ix_(self.cells, self.cells)]

    def as_given(self, cells_first: NDArray[Any]) -> NDArray[Any]:
        """An array over cells here, in the order of the user's table."""
        out = np.empty_like(cells_first)
        out[self.cells] = cells_first
        return out

    def mixture_as_given(self, mixture: Mixture, first: NDArray[np.int32]) -> Mixture:
        return Mixture(mixture.weights, self.as_given(mixture.table), first)


def draw_sample(table: AnyTable, most: int, seed: int) -> Sample:
    """At most `most` of the user's rows, in an order and with columns that do not depend on the file's."""
    drawn = sample_rows(table, most, seed)
    ordered, cells = in_name_order(drawn)
    return Sample(ordered, cells, drawn.n_rows == table.n_rows)


def name_order(table: Table) -> NDArray[np.intp]:
    """The columns in the order of their names; of equal names the first."""
    return np.array(sorted(range(table.n_columns), key=lambda n: (str(table.columns[n].name), n)), np.intp)


def in_name_order(table: Table) -> tuple[Table, NDArray[np.intp]]:
    """The table with columns and categories in the order of their names, and where its cells come from."""
    missing = np.iinfo(table.codes.dtype).max
    codes = np.empty_like(table.codes)
    columns: list[Column] = []
    cells: list[NDArray[np.intp]] = []
    for at, n in enumerate(name_order(table).tolist()):
        column = table.columns[n]
        words = sorted(range(column.size), key=lambda k, column=column: str(column.categories[k]))  # type: ignore[misc]
        recode = np.full(missing + 1, missing, table.codes.dtype)
        recode[words] = np.arange(column.size)
        codes[:, at] = recode[table.codes[:, n]]
        columns.append(replace(column, categories=column.categories[words]))
        cells.append(int(table.first[n]) + np.array(words, np.intp))
    return replace(table, codes=codes, columns=tuple(columns)), np.concatenate(cells)


def moment_starts(sample: Sample, n_components: int, rng: np.random.Generator) -> Iterator[tuple[str, Mixture]]:
    """Named starts from pair counts; none where there are too few columns or too many categories for them."""
    if sample.table.n_columns > 1 and int(sample.table.first[-1]) <= MOST_CELLS:
        split = balanced_split(np.diff(sample.table.first), rng)
        yield "spa", spa_start(sample, sample.pairs, n_components, split, rng, exact=False)
        yield "spectral", spectral_clusters(sample.view, n_components, rng)


def spa_start(
    sample: Sample,
    counts: Floats,
    n_components: int,
    split: NDArray[np.bool_],
    rng: np.random.Generator,
    *,
    exact: bool = True,
) -> Mixture:
    """CNMF-SPA on pair counts (C, C), softened; classes that X̃ cannot give are filled from data rows."""
    first = sample.table.first
    frequencies = pair_frequencies(counts, first)
    cells = np.repeat(split, np.diff(first))
    if not frequencies[np.ix_(cells, ~cells)].any():  # the halves never meet in a row: no pair to learn from
        return rows_as_seeds(sample.view, n_components, rng)
    found = factor_spa(frequencies, first, n_components, split, exact=exact).mixture
    return soften(fill_classes(found, sample.view, n_components, rng), sample.view.marginals)


def naive_spa(sample: Sample, counts: Floats, n_components: int, rng: np.random.Generator) -> Mixture:
    """SPA on one split without a search: the wider half of the columns against the rest.

    The paper takes the first half as the columns stand. Here neither their order nor their names may matter, so what
    they hold decides: most categories first, then fewest gaps, then the commonest categories.
    """
    table = sample.table
    singles, n_columns = np.split(table.singles(), table.first[1:-1]), table.n_columns
    keys = [(-len(cells), -float(cells.sum()), (-np.sort(-cells)).tolist()) for cells in singles]
    place = np.argsort(sorted(range(n_columns), key=keys.__getitem__))
    return spa_start(sample, counts, n_components, naive_split(n_columns, (n_columns + 1) // 2)[place], rng)


def searched_spa(sample: Sample, counts: Floats, n_components: int, rng: np.random.Generator) -> Mixture:
    """SPA on the split, of several balanced ones and the naive one, whose model makes the pair counts likeliest."""
    sizes = np.diff(sample.table.first)
    splits = [naive_split(len(sizes), (len(sizes) + 1) // 2)]
    splits += [balanced_split(sizes, rng) for _ in range(SEARCHED_SPLITS - 1)]
    found = [spa_start(sample, counts, n_components, split, rng) for split in splits]
    scores = [pair_log_likelihood(counts, mixture) for mixture in found]
    return found[int(np.argmax(scores))]


def random_start(table: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """Tables uniform on the simplex, weights too: RAND-EM."""
    drawn = rng.standard_exponential((int(table.first[-1]), n_components))
    sums = np.repeat(np.add.reduceat(drawn, table.first[:-1], axis=0), np.diff(table.first), axis=0)
    return Mixture(rng.dirichlet(np.ones(n_components)), drawn / sums, table.first)


def block_sums(values: Floats, first: NDArray[np.int32]) -> Floats:
    """Sums of a (C, C) matrix over the blocks of every two columns (N, N)."""
    return np.asarray(np.add.reduceat(np.add.reduceat(values, first[:-1], axis=0), first[:-1], axis=1))


def pair_frequencies(counts: Floats, first: NDArray[np.int32]) -> Floats:
    """Estimated pairwise marginals (C, C), Proposition 1: counts over the rows that show both columns."""
    spread = np.repeat(np.repeat(block_sums(counts, first), np.diff(first), axis=0), np.diff(first), axis=1)
    return np.asarray(np.where(spread > 0, counts / np.where(spread > 0, spread, 1.0), 0.0))
