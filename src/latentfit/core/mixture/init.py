"""Latent classes started from rows: spread-out rows, randomly assigned rows, or clusters of a spectral embedding.

Paper     folklore; k-means++ seeding of Arthur & Vassilvitskii 2007 under Hamming distance; the embedding is that
          of correspondence analysis
Needs     a sample of rows in canonical order (`sample_rows`), so that positions may be drawn
Promises  nothing by itself: members of a pool, of which EM keeps the best. Eight of each kind on 13 real tables, by
          the mean and the worst distance of their best to the best of all (nats per row): spread rows .008 / .06,
          randomly assigned rows .02 / .17, random tables .04 / .48, SPA .06 / .74, spectral clusters .07 / .90. An
          initialisation must be cheap as well: a few EM iterations over a small table cost less than one careful
          clustering
Differs   a tenth of the marginals is mixed into every class (EM cannot lift a probability from zero), and a missing
          value says the marginals; directions of the embedding come from a (C, C) covariance, whatever the number of
          rows

Symbols   here        shape     meaning
          one_hot     (m, C)    rows as zeros and ones
          marginals   (C,)      each category's proportion of its column
          memberships (m, F)    rows divided among classes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import SMOOTHING, table_steps
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, marginal_proportions, normalise_tables
from latentfit.core.mixture.spa import balanced_split, factor_spa, naive_split, pair_log_likelihood
from latentfit.core.table.replicates import sample_rows
from latentfit.core.table.stored import AnyTable
from latentfit.core.table.table import Column, Table


@dataclass(frozen=True)
class SearchSettings:
    """Tuned numbers of the initialisations."""

    # Proportion of the marginals mixed into an initialisation's tables: a raw zero would never become anything else.
    marginal_weight: float = 0.1
    seed_weight: float = 0.8  # How far a class around one row leans to what the row says.
    # Rows held one-hot: enough to place classes, few enough to cost no more than some EM iterations.
    dense_rows: int = 2_000
    dense_cells: int = 2_000_000  # Numbers the one-hot rows may hold, for tables with very many categories.
    # Multiplications spent on the principal directions: all of these rows when categories are few, else some.
    direction_work: float = 5e7
    common_rank: int = 24  # Principal directions that are found at once.
    fewest_rows: int = 500  # Rows that the directions see however many categories there are.
    spread_rows: int = 500  # Rows among which seeds far apart are looked for.
    lloyd_rounds: int = 5  # Rounds of k-means: EM does the rest.
    paired_rows: int = 4_096  # Rows held one-hot while pairs are counted.
    # Dirichlet parameter by which randomly assigned rows are divided among the classes: most of a row goes to one.
    membership_concentration: float = 0.1
    # Multiplications spent on the pair counts of a pool: all rows of a small table, some of a wide one.
    gram_work: float = 5e7
    searched_splits: int = 10  # Splits among which ``init="spa"`` looks for the likeliest.
    times: int = 3  # How many classes are fitted for each one wanted.
    n_iter: int = 3  # EM iterations of the many classes: merging needs their outlines only.
    # Categories × classes² that a merge may compare; with very many categories fewer classes are fitted.
    merge_work: float = 2e7
    chunk: int = 1_000_000  # Numbers held at once while pairs of classes are compared.


SEARCH = SearchSettings()


@dataclass(frozen=True)
class RowView:
    """The first rows of a canonical sample as one-hot numbers (m, C), with the marginals of the whole sample."""

    sample: Table

    @cached_property
    def one_hot(self) -> Floats:
        width = int(self.sample.column_offsets[-1])
        return one_hot_rows(
            self.sample, 0, min(self.sample.n_rows, SEARCH.dense_rows, max(SEARCH.dense_cells // width, 50))
        )

    @cached_property
    def weight(self) -> Floats:
        return self.sample.each_weight()[: len(self.one_hot)]

    @cached_property
    def marginals(self) -> Floats:
        return marginal_table(self.sample)

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Mean (C,) and covariance (C, C) of the standardised rows."""
        some = slice(0, max(int(SEARCH.direction_work / len(self.marginals) ** 2), SEARCH.fewest_rows))
        scaled, proportion = self.one_hot[some] / np.sqrt(self.marginals), self.weight[some] / self.weight[some].sum()
        mean = proportion @ scaled
        return mean, scaled.T @ (scaled * proportion[:, None]) - np.outer(mean, mean)

    def embedded(self, rank: int) -> Floats:
        """Rows in the leading principal directions of the standardised rows (m, rank): correspondence analysis."""
        points = self._points if rank <= self._points.shape[1] else self._embed(rank)
        return points[:, :rank]

    @cached_property
    def _points(self) -> Floats:
        """Directions are found together: a few cost what one does, and a path of fits asks for them K by K."""
        return self._embed(min(SEARCH.common_rank, len(self.marginals)))

    def _embed(self, rank: int) -> Floats:
        mean, spread = self._moments
        _, vectors = eigh(spread, subset_by_index=(len(mean) - rank, len(mean) - 1))
        leading = vectors[:, ::-1] / np.sqrt(self.marginals)[:, None]
        return np.asarray(self.one_hot @ leading - mean @ vectors[:, ::-1])


def spread_rows(view: RowView, n_components: int, rng: np.random.Generator) -> Mixture:
    """Classes around rows far apart: the next seed is drawn in proportion to its squared distance."""
    rows, weight = view.one_hot[: SEARCH.spread_rows], view.weight[: SEARCH.spread_rows]
    filled = np.maximum(rows.sum(axis=1), 1.0)
    nearest = np.ones(len(rows))
    seeds: list[int] = []
    for _ in range(n_components):
        seeds.append(_draw(np.square(nearest) * weight, weight, rng))
        nearest = np.minimum(nearest, 1 - (rows @ rows[seeds[-1]]) / filled)
    return _around(view, rows[seeds])


def rows_as_seeds(view: RowView, n_components: int, rng: np.random.Generator) -> Mixture:
    """Classes around random rows."""
    few = len(view.one_hot) < n_components
    return _around(view, view.one_hot[rng.choice(len(view.one_hot), size=n_components, replace=few)])


def fill_classes(mixture: Mixture, view: RowView, n_components: int, rng: np.random.Generator) -> Mixture:
    """The same mixture with the classes it lacks taken from data rows."""
    lacking = n_components - mixture.n_classes
    if lacking <= 0:
        return mixture
    more = rows_as_seeds(view, lacking, rng)
    weights = np.concatenate([mixture.weights, more.weights * lacking / n_components])
    return Mixture(weights / weights.sum(), np.hstack([mixture.table, more.table]), mixture.column_offsets)


def randomly_assigned_rows(view: RowView, n_components: int, rng: np.random.Generator) -> Mixture:
    """Every row divided among the classes at random."""
    proportions = rng.dirichlet(np.full(n_components, SEARCH.membership_concentration), size=len(view.one_hot))
    return _from_memberships(view, proportions * view.weight[:, None])


def spectral_clusters(view: RowView, n_components: int, rng: np.random.Generator) -> Mixture:
    """Classes from k-means in the leading directions of the standardised rows."""
    points = view.embedded(min(n_components, int(view.sample.column_offsets[-1])))
    centres = points[_spread_points(points, view.weight, n_components, rng)]
    for _ in range(SEARCH.lloyd_rounds):
        nearest = (np.square(centres).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        proportions = np.zeros((len(points), n_components))
        proportions[np.arange(len(points)), nearest] = view.weight
        totals = proportions.sum(axis=0)[:, None]
        centres = np.where(totals > 0, proportions.T @ points / np.maximum(totals, 1e-300), centres)
    return _from_memberships(view, proportions)


def one_hot_rows(table: Table, begin: int, end: int) -> Floats:
    """Rows of a table as zeros and ones (m, C); a missing value is all zeros."""
    rows, columns = np.nonzero(table.present[begin:end])
    out = np.zeros((min(end, table.n_rows) - begin, int(table.column_offsets[-1])))
    out[rows, table.column_offsets[:-1][columns] + table.codes[begin:end][rows, columns]] = 1.0
    return out


def dense_pairs(table: Table, n_rows: int) -> Floats:
    """Pair counts (C, C) of the first rows, each by its weight: dense products, some rows at a time."""
    counts, weight = np.zeros((int(table.column_offsets[-1]),) * 2), table.each_weight()
    for begin in range(0, n_rows, SEARCH.paired_rows):
        end = min(begin + SEARCH.paired_rows, n_rows)
        block = one_hot_rows(table, begin, end)
        counts += block.T @ (block * weight[begin:end, None])
    return counts


def marginal_table(table: AnyTable) -> Floats:
    """Each category's proportion of its column's observed cells (C,)."""
    return marginal_proportions(table.singles(), table.column_offsets)


def soften(mixture: Mixture, marginals: Floats) -> Mixture:
    """An initialisation with a tenth of the marginals mixed in, and as much of even weights."""
    table = (1 - SEARCH.marginal_weight) * mixture.table + SEARCH.marginal_weight * marginals[:, None]
    weights = mixture.weights + SEARCH.marginal_weight / mixture.n_classes
    return Mixture(weights / weights.sum(), table, mixture.column_offsets)


def _draw(probability: Floats, otherwise: Floats, rng: np.random.Generator) -> int:
    """A position in proportion to `probability`, or to `otherwise` when there is none left."""
    running = np.cumsum(probability if probability.sum() > 0 else otherwise)
    return min(int(np.searchsorted(running, rng.random() * running[-1], side="right")), len(running) - 1)


def _spread_points(points: Floats, weight: Floats, number: int, rng: np.random.Generator) -> list[int]:
    """k-means++ seeding."""
    seeds = [_draw(weight, weight, rng)]
    nearest = np.square(points - points[seeds[0]]).sum(axis=1)
    while len(seeds) < number:
        seeds.append(_draw(nearest * weight, weight, rng))
        nearest = np.minimum(nearest, np.square(points - points[seeds[-1]]).sum(axis=1))
    return seeds


def _around(view: RowView, seeds: Floats) -> Mixture:
    """One class per seed row: what the row says, leaning to the marginals; a missing value takes the marginals."""
    offsets, marginals = view.sample.column_offsets, view.marginals[:, None]
    said = np.repeat(np.add.reduceat(seeds.T, offsets[:-1], axis=0), np.diff(offsets), axis=0) > 0
    table = (1 - SEARCH.seed_weight) * marginals + SEARCH.seed_weight * np.where(said, seeds.T, marginals)
    return Mixture(np.full(len(seeds), 1 / len(seeds)), table, offsets)


def _from_memberships(view: RowView, proportions: Floats) -> Mixture:
    """The classes of rows divided among them by `proportions` (m, F)."""
    counts = view.one_hot.T @ proportions + view.marginals[:, None]
    totals = proportions.sum(axis=0) + 1
    offsets = view.sample.column_offsets
    return soften(Mixture(totals / totals.sum(), normalise_tables(counts, offsets), offsets), view.marginals)


# -----------------------------------------------------------------------------
# Initialisations for latent classes from pair counts, and the sample of rows they are made from.
#
# SPA wins on data that follow the model, merged classes (`merge_down`) on real tables: the default runs both
# and keeps the better (docs/guide/tables.md).
#
# Paper     Ibrahim & Fu 2021: pair frequencies as in Proposition 1, Algorithm 1 on its naive split or on the
# likeliest of
#           several, random initialisations as in Table I
# Needs     a sample of rows; initialisations from moments also two columns and at most `MAX_CELLS` categories
# Promises  initialisations that do not depend on the order of rows, columns or categories; what SPA promises is in
# `core/mixture/spa.py`
# Differs   classes that X̃ cannot give are filled from data rows, and initialisations are softened by a tenth of the
#           marginals
#
# Symbols   paper   here          shape    meaning
#           X̂_jk    frequencies   (C, C)   estimated pairwise marginals, all blocks
#           S₁      split         (N,)     columns of the first half

# Categories of all columns together up to which a pool holds initialisations from moments: they cost their cube.
MAX_CELLS = 600


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
        """Pair counts (C, C) of as many rows as `SEARCH.gram_work` allows."""
        rows = max(int(SEARCH.gram_work / int(self.table.column_offsets[-1]) ** 2), SEARCH.fewest_rows)
        return dense_pairs(self.table, min(self.table.n_rows, rows))

    def counted(self, counts: PairCounts) -> Floats:
        """Pair counts (C, C) of the user's table, in the order of the cells here."""
        return counts.dense()[np.ix_(self.cells, self.cells)]

    def as_given(self, cells_first: NDArray[Any]) -> NDArray[Any]:
        """An array over cells here, in the order of the user's table."""
        out = np.empty_like(cells_first)
        out[self.cells] = cells_first
        return out

    def mixture_as_given(self, mixture: Mixture, offsets: NDArray[np.int32]) -> Mixture:
        return Mixture(mixture.weights, self.as_given(mixture.table), offsets)


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
        by_name = sorted(range(column.size), key=lambda k, column=column: str(column.categories[k]))  # type: ignore[misc]
        recode = np.full(missing + 1, missing, table.codes.dtype)
        recode[by_name] = np.arange(column.size)
        codes[:, at] = recode[table.codes[:, n]]
        columns.append(replace(column, categories=column.categories[by_name]))
        cells.append(int(table.column_offsets[n]) + np.array(by_name, np.intp))
    return replace(table, codes=codes, columns=tuple(columns)), np.concatenate(cells)


def moment_inits(sample: Sample, n_components: int, rng: np.random.Generator) -> Iterator[tuple[str, Mixture]]:
    """Named initialisations from pair counts; none where there are too few columns or too many categories for them."""
    if sample.table.n_columns > 1 and int(sample.table.column_offsets[-1]) <= MAX_CELLS:
        split = balanced_split(np.diff(sample.table.column_offsets), rng)
        yield "spa", spa_init(sample, sample.pairs, n_components, split, rng, exact=False)
        yield "spectral", spectral_clusters(sample.view, n_components, rng)


def spa_init(
    sample: Sample,
    counts: Floats,
    n_components: int,
    split: NDArray[np.bool_],
    rng: np.random.Generator,
    *,
    exact: bool = True,
) -> Mixture:
    """CNMF-SPA on pair counts (C, C), softened; classes that X̃ cannot give are filled from data rows."""
    offsets = sample.table.column_offsets
    frequencies = pair_frequencies(counts, offsets)
    cells = np.repeat(split, np.diff(offsets))
    if not frequencies[np.ix_(cells, ~cells)].any():  # the halves never occur in one row: no pair to learn from
        return rows_as_seeds(sample.view, n_components, rng)
    mixture = factor_spa(frequencies, offsets, n_components, split, exact=exact)
    return soften(fill_classes(mixture, sample.view, n_components, rng), sample.view.marginals)


def naive_spa(sample: Sample, counts: Floats, n_components: int, rng: np.random.Generator) -> Mixture:
    """SPA on one split without a search: the wider half of the columns against the rest.

    The paper takes the first half as the columns stand. Here neither their order nor their names may matter, so what
    they hold decides: most categories first, then fewest missing values, then the commonest categories.
    """
    table = sample.table
    singles, n_columns = np.split(table.singles(), table.column_offsets[1:-1]), table.n_columns
    keys = [(-len(cells), -float(cells.sum()), (-np.sort(-cells)).tolist()) for cells in singles]
    place = np.argsort(sorted(range(n_columns), key=keys.__getitem__))
    return spa_init(sample, counts, n_components, naive_split(n_columns, (n_columns + 1) // 2)[place], rng)


def searched_spa(sample: Sample, counts: Floats, n_components: int, rng: np.random.Generator) -> Mixture:
    """SPA on the split, of several balanced ones and the naive one, whose model makes the pair counts likeliest."""
    sizes = np.diff(sample.table.column_offsets)
    splits = [naive_split(len(sizes), (len(sizes) + 1) // 2)]
    splits += [balanced_split(sizes, rng) for _ in range(SEARCH.searched_splits - 1)]
    candidates = [spa_init(sample, counts, n_components, split, rng) for split in splits]
    scores = [pair_log_likelihood(counts, mixture) for mixture in candidates]
    return candidates[int(np.argmax(scores))]


def random_init(table: Table, n_components: int, rng: np.random.Generator) -> Mixture:
    """Tables uniform on the simplex, weights too: RAND-EM."""
    drawn = rng.standard_exponential((int(table.column_offsets[-1]), n_components))
    sums = np.repeat(np.add.reduceat(drawn, table.column_offsets[:-1], axis=0), np.diff(table.column_offsets), axis=0)
    return Mixture(rng.dirichlet(np.ones(n_components)), drawn / sums, table.column_offsets)


def block_sums(values: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Sums of a (C, C) matrix over the blocks of every two columns (N, N)."""
    return np.asarray(np.add.reduceat(np.add.reduceat(values, offsets[:-1], axis=0), offsets[:-1], axis=1))


def pair_frequencies(counts: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Estimated pairwise marginals (C, C), Proposition 1: counts over the rows that show both columns."""
    spread = np.repeat(np.repeat(block_sums(counts, offsets), np.diff(offsets), axis=0), np.diff(offsets), axis=1)
    return np.asarray(np.where(spread > 0, counts / np.where(spread > 0, spread, 1.0), 0.0))


# -----------------------------------------------------------------------------
# Initialisations by merging: three times as many classes as asked for, a few EM iterations, then the nearest become
# one.
#
# A class too many costs little and finds what an initialisation with just enough classes misses. On 13 real tables ×
# F ∈ {4, 12} one such initialisation ends .013 nats per row below the best of twenty random ones, a single random
# one .20, spread rows .11 (docs/guide/tables.md).
#
# Paper     Ward 1963: merge the two that lose least
# Needs     a fit with too many classes
# Promises  nothing by itself: members of a pool, of which EM keeps the best
# Differs   what is lost is multinomial log-likelihood in place of squares
#
# Symbols   here      shape     meaning
#           counts    (C, G)    expected cells of G classes
#           weights   (G,)      their rows
#           worth     (G,)      Σ n log p of each

MERGE_ROWS = 4_000  # Rows that the many classes look at.


Kind = Callable[[RowView, int, np.random.Generator], Mixture]
KINDS: tuple[tuple[str, Kind], ...] = (
    ("spread rows merged", spread_rows),
    ("shared rows merged", randomly_assigned_rows),
)


def merged_inits(
    sample: Sample, n_components: int, rng: np.random.Generator, n_jobs: int | None
) -> Iterator[tuple[str, Mixture]]:
    """Named initialisations, each from many classes of its own."""
    rows = sample.table if sample.table.n_rows <= MERGE_ROWS else sample.table.take(np.arange(MERGE_ROWS))
    most = max(n_components, int(np.sqrt(SEARCH.merge_work / int(rows.column_offsets[-1]))))
    number = min(SEARCH.times * n_components, most, max(rows.n_rows, n_components))
    for name, kind in KINDS:
        yield name, merged_init(rows, kind(sample.view, number, rng), n_components, n_jobs)


def merged_init(rows: Table, many: Mixture, n_components: int, n_jobs: int | None) -> Mixture:
    """`many` classes after a few passes over the rows, merged down to `n_components`."""
    steps = table_steps(rows, many.n_classes, SMOOTHING, n_jobs)
    sums = em(steps, many, max_iter=SEARCH.n_iter, tol=0.0).sums
    counts, weights = merge_down(
        sums.table + steps.prior.table, sums.totals + SMOOTHING, rows.column_offsets, n_components
    )
    return Mixture(weights / weights.sum(), normalise_tables(counts, rows.column_offsets), rows.column_offsets)


def merge_down(counts: Floats, weights: Floats, offsets: NDArray[np.int32], n_classes: int) -> tuple[Floats, Floats]:
    """Expected counts (C, G) and class totals (G,) of G classes, merged in pairs until `n_classes` are left.

    The pair that goes is the one whose union loses least of Σ n log p, the likelihood of rows that know their class.
    """
    counts, weights = counts.copy(), weights.copy()
    worth = _worth(counts, weights, offsets)
    cost = np.full((len(weights), len(weights)), np.inf)
    left, right = np.triu_indices(len(weights), 1)
    for begin in range(0, len(left), max(SEARCH.chunk // len(counts), 1)):
        some = slice(begin, begin + max(SEARCH.chunk // len(counts), 1))
        cost[left[some], right[some]] = _losses(counts, weights, worth, offsets, left[some], right[some])
    alive = np.ones(len(weights), bool)
    for _ in range(len(weights) - n_classes):
        target, gone = np.unravel_index(int(np.argmin(cost)), cost.shape)
        counts[:, target] += counts[:, gone]
        weights[target] += weights[gone]
        alive[gone] = False
        cost[gone, :] = cost[:, gone] = np.inf
        worth[target] = _worth(counts[:, [target]], weights[[target]], offsets)[0]
        rest = np.flatnonzero(alive & (np.arange(len(weights)) != target))
        pairs = np.minimum(target, rest), np.maximum(target, rest)
        cost[pairs] = _losses(counts, weights, worth, offsets, *pairs)
    return np.ascontiguousarray(counts[:, alive]), weights[alive]


def single_merges(
    counts: Floats, weights: Floats, offsets: NDArray[np.int32], number: int
) -> Iterator[tuple[Floats, Floats]]:
    """The `number` cheapest ways to merge two classes, as `merge_down` would, the cheapest first."""
    left, right = np.triu_indices(len(weights), 1)
    cost = _losses(counts, weights, _worth(counts, weights, offsets), offsets, left, right)
    for pair in np.argsort(cost, kind="stable")[:number]:
        target, gone = left[pair], right[pair]
        merged, totals = counts.copy(), weights.copy()
        merged[:, target] += merged[:, gone]
        totals[target] += totals[gone]
        yield np.delete(merged, gone, axis=1), np.delete(totals, gone)


def _losses(
    counts: Floats,
    weights: Floats,
    worth: Floats,
    offsets: NDArray[np.int32],
    left: NDArray[np.intp],
    right: NDArray[np.intp],
) -> Floats:
    """Nats lost when each left class and its right one become one."""
    both = _worth(counts[:, left] + counts[:, right], weights[left] + weights[right], offsets)
    return np.asarray(worth[left] + worth[right] - both)


def _worth(counts: Floats, weights: Floats, offsets: NDArray[np.int32]) -> Floats:
    """Σ n log p of each class (G,): its cells within their columns, and the class itself."""
    columns = np.add.reduceat(counts, offsets[:-1], axis=0)
    return np.asarray(_n_log_n(counts).sum(axis=0) - _n_log_n(columns).sum(axis=0) + _n_log_n(weights))


def _n_log_n(n: Floats) -> Floats:
    return np.asarray(n * np.log(np.maximum(n, 1e-300)))
