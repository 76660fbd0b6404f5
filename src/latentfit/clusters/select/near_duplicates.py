"""Columns that depend on another one inside every cluster: near-duplicates, and pairs that are locally dependent.

Two columns that repeat one another (a question asked twice, a value derived from another) are dependent inside every
cluster. A mixture has no other way to say so than to split every cluster along them, so the number of clusters
doubles. Their trace is a residual correlation that stands alone: large, and far above everything else in the two
columns' rows; columns that tell clusters apart leave many residuals of like size while clusters are missing.

At each K of a path, while the statistical criterion still falls: r (L, L), the empirical minus the fitted correlation
of two columns, and its partial correlations, the others held fixed: clusters still missing correlate many columns and
so explain one another's residuals, a duplicate is explained by its source alone. A pair is dependent when by either

    |r| > .25                            it matters, however many rows there are to see it
    |r| √n > 5                           it is no chance; n counts the rows that show both columns
    |r| > 4 × the root mean square of the other entries of each column
    |r| > 2 × the next largest entry of each column

and third columns have nothing to say about it (`explained_by_third_columns`): while they do, a class may be missing
that made the pair alike, and the pair waits until it is fitted.

A narrow table may spend a cluster on a pair before it stands out. So the chosen fit is looked at as well: two clusters
that differ in two columns only are no clusters by any evidence (it takes three columns to tell a hidden class from a
dependence of two), and these two columns are dependent too, if they are correlated by more than .25 in all rows. Not
where the path was cut off by its limit: its clusters are as fine as it was let.

How strong the dependence is decides what becomes of the pair:

    near-duplicate    correlated by .8 or more in all rows, and inside the clusters: one all but determines the other.
                      One of the two is set aside
    local dependence  weaker. One of the two takes no part in finding the number of clusters, nothing else: the model is
                      fitted to both. At most a quarter of the columns. In a table of fewer than ten columns, where each
                      is much of the evidence, both take part, and the pair is reported; none where the number is given

Columns that are equal (or opposite) in every row looked at are set aside before the path begins (`equal_columns`):
three of them or more never stand alone, since each explains the others, and a mixture would take their two values for
clusters. Where they are more than half of the columns none is: there the equal columns may be the clusters.

The path starts again without such a column, as soon as a K shows one, six times at the most: with the first
gone
others may stand out. A path that is not cut short there would be long, for every cluster it adds is another dependence
explained. At least three columns stay: fewer could not tell clusters from dependence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.clusters.select.path import ClusterPath
from latentfit.core.kernels import Floats
from latentfit.core.mixture.init import Sample, draw_sample
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of


@dataclass(frozen=True)
class ScreenSettings:
    """Constants of the search for dependent columns, each with its reason."""

    # correlation from which a column is a near-duplicate: the other one then explains 64 % of its variance; two
    # ordinary questions about one thing have .4 to .6
    near: float = 0.8
    large: float = 0.25  # a correlation below this is no dependence to care about, however many rows show it
    sure: float = 5.0  # spreads above chance
    above_rest: float = 4.0  # times the root mean square of the other entries of each column
    above_next: float = 2.0  # times the next largest entry of each column
    third_sure: float = 3.0  # spreads above chance from which third columns explain a pair
    max_held_fraction: float = 0.25  # of the columns may be left out of the choice of the number
    min_holding: int = 10  # columns of a table from which on any is left out of the choice of the number
    min_columns: int = 3  # that stay in any case: two cannot tell clusters from a dependence
    min_equal: int = 10  # rows that must say yes, and no, in equal columns: rare ones are equal by chance
    max_rounds: int = 6  # how often a path starts again without the columns found
    max_rows: int = 20_000  # rows that are counted: the chance error of a correlation is then .007, far below `large`
    max_columns: int = 3_000  # up to which L × L pairs are counted; a wider table is fitted as it is
    # two clusters differ in two columns only when the third squared difference is below this proportion of the second,
    # and the first two hold that proportion of all: near-duplicates make .03–.13 and .86–.97, others .21 and more
    max_third_ratio: float = 0.15
    min_two_column_fraction: float = 0.8
    max_to_mean: float = 4.0  # of twenty equal columns the largest squared difference is this many times its mean
    min_eigenvalue: float = 0.02  # of a correlation matrix to be inverted: equal columns have none
    block: int = 4_096  # rows held as numbers at once


SETTINGS = ScreenSettings()

Until = Callable[[Mixture], bool]
FitPath = Callable[[Table, Until | None], ClusterPath]


@dataclass(frozen=True)
class NearDuplicate:
    """A column that depends on another inside clusters: the correlation of the two in all rows, and inside clusters."""

    column: int
    copies: int
    correlation: float
    n_clusters: int  # the K at which it stood out
    residual: float  # correlation inside the clusters, all taken together
    held: bool = True  # it was left out: of the model, or of the choice of the number alone

    @property
    def duplicate(self) -> bool:
        """One of the two all but determines the other, whatever the cluster."""
        return min(abs(self.correlation), abs(self.residual)) >= SETTINGS.near


@dataclass(frozen=True)
class Screened:
    """A path without columns that depend on another one, the columns it was fitted to, and what became of the rest."""

    path: ClusterPath
    used_columns: NDArray[np.bool_]  # (L,) of the user's columns: those of the path
    copies: tuple[NearDuplicate, ...]  # near-duplicates, set aside
    screened: bool  # false when the table is too wide to count all pairs
    dependent: tuple[NearDuplicate, ...] = ()  # in the model, and not on the path where they are `held`

    @property
    def modelled(self) -> NDArray[np.bool_]:
        """(L,) columns of the model: all but the near-duplicates."""
        out = self.used_columns.copy()
        out[[one.column for one in self.dependent]] = True
        return out


@dataclass(frozen=True)
class PairMoments:
    """Correlations of binary columns over the rows that show both, and how many rows those are (both L × L)."""

    covariance: Floats
    scale: Floats  # (L, L): product of the two standard deviations
    n_rows: Floats


def screened_path(
    table: Table,
    fit: FitPath,
    *,
    seed: int = 0,
    most_columns: int = SETTINGS.max_columns,
    duplicates_only: bool = False,
) -> Screened:
    """Fit a path, leave columns out that depend on another one as they show, and begin again without them.

    `fit(table, until)` makes the path of a table and ends it early where `until(mixture)` says so, as
    `cluster_path` does. A wide table is not screened: with more than `most_columns` columns the L × L counts would
    dwarf the data. With `duplicates_only` weaker dependences stay.
    """
    used_columns = np.ones(table.n_columns, bool)
    if table.n_columns > most_columns:
        return Screened(fit(table, None), used_columns, (), False)
    sample = draw_sample(table, SETTINGS.max_rows, seed)
    moments = _as_given(pair_moments(sample.table), sample)
    names = [str(column.name) for column in table.columns]
    copies = equal_columns(moments, names)
    used_columns[[one.column for one in copies]] = False
    dependent: list[NearDuplicate] = []
    holding = table.n_columns >= SETTINGS.min_holding and not duplicates_only
    most_held = int(SETTINGS.max_held_fraction * table.n_columns) if holding else 0

    def allowed(pairs: list[NearDuplicate]) -> list[NearDuplicate]:
        """Those of the pairs, the strongest first, of which a column may go."""
        room, held = int(used_columns.sum()) - SETTINGS.min_columns, most_held - len(dependent)
        out: list[NearDuplicate] = []
        for one in pairs:
            if len(out) < room and (one.duplicate or held > 0):
                out.append(one)
                held -= not one.duplicate
        return out

    def placed(one: NearDuplicate, at: NDArray[np.intp]) -> NearDuplicate:
        """The same among the user's columns."""
        return replace(one, column=int(at[one.column]), copies=int(at[one.copies]))

    for _ in range(SETTINGS.max_rounds):
        at = np.flatnonzero(used_columns)
        moments_here, names_here = _some(moments, at), [names[n] for n in at]
        leaving: list[NearDuplicate] = []
        pairs: list[NearDuplicate] = []

        def finds_some(
            mixture: Mixture, here: tuple[PairMoments, list[str]] = (moments_here, names_here), out: list[Any] = leaving
        ) -> bool:
            out += allowed(find_near_duplicates(here[0], mixture, here[1]))
            return bool(out)

        path = fit(table.without(~used_columns), finds_some)
        if not leaving:
            if path.whole_number < path.limit:  # a path that was cut off has clusters as fine as it was let
                pairs = find_pair_splits(moments_here, path.at(path.whole_number).mixture, names_here)
            leaving = allowed(pairs)
        if not leaving:
            if not holding and not duplicates_only:
                dependent = [replace(placed(one, at), held=False) for one in pairs if not one.duplicate]
            break
        leaving = [placed(one, at) for one in leaving]
        copies += [one for one in leaving if one.duplicate]
        dependent += [one for one in leaving if not one.duplicate]
        used_columns[[one.column for one in leaving]] = False
    else:
        path = fit(table.without(~used_columns), None)
    return Screened(path, used_columns, tuple(copies), True, tuple(dependent))


def with_columns(
    table: Table, found: Screened, mixture: Mixture, noninformative: NDArray[np.bool_]
) -> tuple[Mixture, NDArray[np.bool_]]:
    """A mixture of the path's columns, and which are noninformative, with the locally dependent columns as its
    clusters show them: half a row of each category, since no frequency shall start at 0."""
    if not found.dependent:
        return mixture, noninformative
    modelled = found.modelled
    rows = table.without(~modelled)
    on_path = found.used_columns[modelled]
    posterior, _ = posterior_of(MemoryEngine(rows.without(~on_path), 1), mixture)
    proportion = posterior * table.each_weight()[:, None]
    out = np.empty((2 * rows.n_columns, mixture.n_classes))
    out[np.repeat(on_path, 2)] = mixture.table
    for n in np.flatnonzero(~on_path):
        counts = np.stack([(rows.codes[:, n] == code).astype(np.float64) @ proportion for code in (0, 1)]) + 0.5
        out[2 * n : 2 * n + 2] = counts / counts.sum(axis=0)
    tied = np.zeros(rows.n_columns, bool)
    tied[on_path] = noninformative
    return Mixture(mixture.weights, out, rows.column_offsets), tied


def equal_columns(moments: PairMoments, names: Sequence[str]) -> list[NearDuplicate]:
    """Columns that equal another one, or are its opposite, in every row that shows both.

    Of equals the column seen most often stays, then the first by name. None where they are more than half of the
    columns or fewer than `min_columns` would stay.
    """
    seen, correlation = np.diag(moments.n_rows), _correlation(moments)
    rarer = (1 - np.sqrt(np.maximum(1 - 4 * moments.scale, 0.0))) / 2 * moments.n_rows  # equal columns: scale p (1 − p)
    equal = (np.abs(correlation) > 1 - 1e-9) & (rarer >= SETTINGS.min_equal)
    staying = np.zeros(len(names), bool)
    out: list[NearDuplicate] = []
    for column in sorted(range(len(names)), key=lambda n: (-seen[n], names[n])):
        twins = np.flatnonzero(equal[column] & staying)
        if twins.size:
            value = float(np.sign(correlation[column, twins[0]]))
            out.append(NearDuplicate(column, int(twins[0]), value, 1, value))
        else:
            staying[column] = True
    return out if staying.sum() >= SETTINGS.min_columns and 2 * len(out) <= len(names) else []


def find_near_duplicates(moments: PairMoments, mixture: Mixture, names: Sequence[str]) -> list[NearDuplicate]:
    """Dependent pairs that stand out under a mixture, the strongest first, each column in one pair at most.

    Of a pair the column seen less often goes; of equals the one that has more in common with all other columns
    stays, since a copy dilutes what it had to say; of equals still, the first by name.
    """
    r = residual_correlation(moments, mixture)
    alone = _standing_out(r, moments.n_rows) | _standing_out(partial_correlation(r, moments.n_rows), moments.n_rows)
    pairs = [(int(left), int(right)) for left, right in np.argwhere(np.triu(alone, 1))]
    pairs = [pair for pair in pairs if not explained_by_third_columns(r, moments.n_rows, *pair)]
    within = within_correlation(moments, mixture, r)
    large = {pair: float(within[pair]) for pair in pairs if abs(within[pair]) > SETTINGS.large}
    return _set_aside(moments, large, mixture.n_classes, names)


def within_correlation(moments: PairMoments, mixture: Mixture, r: Floats) -> Floats:
    """Residual correlations `r` (L, L) on the scale of what varies inside the clusters, cut at ± 1."""
    at_one = mixture.table[1::2]
    inside = np.sqrt(np.maximum((at_one * (1 - at_one)) @ mixture.weights, 1e-12))
    return np.asarray(np.clip(r * moments.scale / np.outer(inside, inside), -1, 1))


def explained_by_third_columns(r: Floats, n_rows: Floats, i: int, j: int) -> bool:
    """Other columns ℓ are related to columns i and j alike: Σ_ℓ r_iℓ r_jℓ is above chance, with the sign of r_ij.

    A class still missing relates all columns that it sets apart. A copy inside clusters that are all there relates two.
    """
    others = np.ones(len(r), bool)
    others[[i, j]] = False
    noise = 1 / np.sqrt(np.maximum(n_rows[i, others] * n_rows[j, others], 1.0))
    common = np.sign(r[i, j]) * float(r[i, others] @ r[j, others]) - abs(r[i, j]) * float(noise.sum())
    return bool(common > SETTINGS.third_sure * np.sqrt((1 + r[i, j] ** 2) * float(np.square(noise).sum())))


def find_pair_splits(moments: PairMoments, mixture: Mixture, names: Sequence[str]) -> list[NearDuplicate]:
    """Pairs of columns that are all in which two clusters of a fit differ, and that are correlated in all rows."""
    at_one, weights, rows = mixture.table[1::2], mixture.weights, float(np.diag(moments.n_rows).max())
    correlation = np.abs(_correlation(moments))
    pairs: dict[tuple[int, int], float] = {}
    for f, g in zip(*np.triu_indices(mixture.n_classes, 1), strict=True):
        proportion = weights[f] / max(weights[f] + weights[g], 1e-300)
        pooled = proportion * at_one[:, f] + (1 - proportion) * at_one[:, g]
        apart, spread = at_one[:, f] - at_one[:, g], np.maximum(pooled * (1 - pooled), 1e-6)
        gap = np.square(apart) / spread
        probability = 1 / max(weights[f] * rows, 1.0) + 1 / max(weights[g] * rows, 1.0)  # what equal columns show
        order = np.argsort(-gap, kind="stable")
        gap = gap[order] - probability
        alone = len(gap) > 2 and gap[2] < SETTINGS.max_third_ratio * gap[1] + SETTINGS.max_to_mean * probability
        if alone and gap[:2].sum() > SETTINGS.min_two_column_fraction * gap.sum():
            i, j = int(order[:2].min()), int(order[:2].max())
            if correlation[i, j] > SETTINGS.large:
                product = apart[i] * apart[j] / np.sqrt(spread[i] * spread[j])
                united = float(proportion * (1 - proportion) * product)  # the correlation in the two clusters united
                pairs[i, j] = max(pairs.get((i, j), 0.0), united, key=abs)
    return _set_aside(moments, pairs, mixture.n_classes, names)


def _set_aside(
    moments: PairMoments, pairs: Mapping[tuple[int, int], float], n_clusters: int, names: Sequence[str]
) -> list[NearDuplicate]:
    """One column of each pair with its correlation inside clusters, the strongest first, no column in two of them."""
    seen = np.diag(moments.n_rows)
    correlation = _correlation(moments)
    common = np.abs(correlation).sum(axis=1).round(9)  # columns that are equal shall be equal here
    out: list[NearDuplicate] = []
    used: set[int] = set()
    for pair, residual in sorted(pairs.items(), key=lambda item: -abs(item[1])):
        if used & set(pair):
            continue
        used |= set(pair)
        by_name = sorted(pair, key=lambda column: names[column], reverse=True)
        copy, source = sorted(by_name, key=lambda column: (seen[column], common[column]))
        out.append(NearDuplicate(copy, source, float(correlation[pair]), n_clusters, residual))
    return out


def pair_moments(table: Table) -> PairMoments:
    """Counts of all pairs of binary columns, missing values left out, rows by their weight."""
    size = table.n_columns
    both, ones, one_seen = (np.zeros((size, size)) for _ in range(3))
    each = table.each_weight()
    for begin in range(0, table.n_rows, SETTINGS.block):
        block = slice(begin, begin + SETTINGS.block)
        seen = table.present[block].astype(np.float64)
        one = seen * (table.codes[block] == 1)
        weight = each[block, None]
        weighted = one * weight
        both += one.T @ weighted
        ones += seen.T @ weighted  # [j, l]: rows that show j and say one in l
        one_seen += seen.T @ (seen * weight)
    n = np.maximum(one_seen, 1e-300)
    right, left = ones / n, ones.T / n
    scale = np.sqrt(np.maximum(left * (1 - left) * right * (1 - right), 0.0))
    return PairMoments(both / n - left * right, scale, one_seen)


def residual_correlation(moments: PairMoments, mixture: Mixture) -> Floats:
    """Empirical minus fitted correlation of all pairs (L, L), zero on the diagonal and where a column is constant."""
    at_one = mixture.table[1::2]
    mean = at_one @ mixture.weights
    fitted = (at_one * mixture.weights) @ at_one.T - np.outer(mean, mean)
    return _correlation(replace(moments, covariance=moments.covariance - fitted))


def partial_correlation(r: Floats, n_rows: Floats) -> Floats:
    """Correlations (L, L) of two columns with all others held fixed, from residual correlations.

    Drawn to the identity by L / (n + L), as much as n rows of L columns are noise; missing values may leave
    eigenvalues below zero, which are cut.
    """
    proportion = len(r) / (float(np.median(n_rows)) + len(r))
    values, vectors = np.linalg.eigh((1 - proportion) * r + np.eye(len(r)))
    inverse = (vectors / np.maximum(values, SETTINGS.min_eigenvalue)) @ vectors.T
    scale = np.sqrt(np.diag(inverse))
    out = -inverse / np.outer(scale, scale)
    np.fill_diagonal(out, 0.0)
    return np.asarray(out)


def _standing_out(r: Floats, n_rows: Floats) -> NDArray[np.bool_]:
    """Pairs (L, L) that fulfil all four conditions in both of their rows."""
    if len(r) < 3:
        return np.zeros(r.shape, bool)
    size = np.abs(r)
    squares = np.square(r)
    rest = np.sqrt(np.maximum(squares.sum(axis=1)[:, None] - squares, 0.0) / (len(r) - 2))
    largest = size.argmax(axis=1)
    top = np.sort(size, axis=1)[:, -2:]
    following = np.repeat(top[:, [1]], len(r), axis=1)  # next largest: the largest, except at the largest itself
    following[np.arange(len(r)), largest] = top[:, 0]
    sure = size * np.sqrt(n_rows) > SETTINGS.sure
    above = (size > SETTINGS.above_rest * rest) & (size > SETTINGS.above_next * following)
    return np.asarray((size > SETTINGS.large) & sure & above & above.T)


def _correlation(moments: PairMoments) -> Floats:
    """Covariances by their scale (L, L), zero on the diagonal and where a column is constant."""
    varies = moments.scale > 1e-9
    out = np.where(varies, moments.covariance / np.where(varies, moments.scale, 1.0), 0.0)
    np.fill_diagonal(out, 0.0)
    return out


def _some(moments: PairMoments, at: NDArray[np.intp]) -> PairMoments:
    pick = np.ix_(at, at)
    return PairMoments(moments.covariance[pick], moments.scale[pick], moments.n_rows[pick])


def _as_given(moments: PairMoments, sample: Sample) -> PairMoments:
    """Moments of the sample's columns and categories in the order of the user's table."""
    cells = sample.cells.reshape(-1, 2)
    at = np.argsort(cells.min(axis=1))
    sign = np.where(cells[:, 0] < cells[:, 1], 1.0, -1.0)  # categories the other way round turn a covariance round
    turned = replace(moments, covariance=moments.covariance * np.outer(sign, sign))
    return _some(turned, at)
