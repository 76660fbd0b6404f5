"""Columns that nearly copy another one: found by what a fit leaves unexplained in their pair table, and set aside.

Two columns that repeat one another (a question asked twice, a value derived from another) are dependent inside every
cluster. A mixture has no other way to say so than to split every cluster along them, so the number of clusters
doubles. Their trace is a residual correlation that stands alone: large, and far above everything else in the two
columns' rows; columns that tell clusters apart leave many residuals of like size while clusters are missing.

At each K of a path, while the statistical criterion still falls: r (L, L), the empirical minus the fitted correlation
of two columns, and its partial correlations, the others held fixed: clusters still missing correlate many columns and
so explain one another's residuals, a copy is explained by its source alone. A pair is a near-copy when by either

    |r| > .25, or n r²/2 > 3 d^⅓         it matters: the margin that a cluster must gain beyond chance (and |r| > .1)
    |r| √n > 5                           it is no chance; n counts the rows that show both columns
    |r| > 4 × the root mean square of the other entries of each column
    |r| > 2 × the next largest entry of each column

and third columns have nothing to say about it (`third_columns_speak`): while they do, a class may be missing that made
the pair alike, and the pair waits until it is fitted.

A narrow table may spend a cluster on a copy before it stands out. So the chosen fit is looked at as well: two clusters
that differ in two columns only are no clusters by any evidence (it takes three columns to tell a hidden class from a
dependence of two), and these two columns are a near-copy too.

One column of the pair is set aside and the path begun again, as soon as a K shows copies, six times at the most: with
the first copies gone others may stand out. A path that is not cut short there would be long, for every cluster it
adds is another copy explained. Where a few columns copy one and the same, none stands alone, and none is set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tacit.data.table import Table
from tacit.engine.mixture import Mixture
from tacit.factor.table_pool import Sample, draw_sample
from tacit.kernels import Floats
from tacit.refine.choose_clusters import chance_margin
from tacit.refine.cluster_path import ClusterPath

LARGE = 0.25
SMALLEST = 0.1
"""A correlation below this is no copy, however many rows there are to see it."""
SURE = 5.0
ABOVE_REST = 4.0
ABOVE_NEXT = 2.0
MOST_ROUNDS = 6
"""How often a path is begun again without the copies found."""
SCREEN_ROWS = 20_000
"""Rows that are counted: at 20,000 the chance error of a correlation is .007, far below `LARGE`."""
MOST_SCREENED = 3_000
"""Columns up to which pairs are counted, L × L numbers: a wider table is fitted as it is, and `screened` says so."""
THIRD_SURE = 3.0
"""Spreads above chance from which third columns are heard."""
THIRD_GAP = 0.15
TWO_GAPS = 0.8
"""Two clusters differ in two columns only when the third squared difference is below this share of the second, and
the first two hold this share of all: clusters made by a copy have .03–.13 and .86–.97, others from .21 on."""
LARGEST_CHANCE = 4.0
"""Among twenty equal columns the largest squared difference is about this many times its mean."""
LEAST_EIGENVALUE = 0.02
"""Smallest eigenvalue of a correlation matrix to be inverted: equal columns have none."""
BLOCK = 4_096
"""Rows held as numbers at once."""

Until = Callable[[Mixture], bool]
FitPath = Callable[[Table, Until | None], ClusterPath]


@dataclass(frozen=True)
class NearCopy:
    """A column set aside: which it copies, and how strong the residual correlation was."""

    column: int
    copies: int
    correlation: float
    n_clusters: int  # the K at which it stood out


@dataclass(frozen=True)
class Screened:
    """A path without near-copies, the columns it was fitted to, and what was set aside."""

    path: ClusterPath
    kept: NDArray[np.bool_]  # (L,) of the user's columns
    copies: tuple[NearCopy, ...]
    screened: bool  # false when the table is too wide to count all pairs


@dataclass(frozen=True)
class PairMoments:
    """Correlations of binary columns over the rows that show both, and how many rows those are (both L × L)."""

    covariance: Floats
    scale: Floats  # (L, L): product of the two standard deviations
    n_rows: Floats


def screened_path(table: Table, fit: FitPath, *, seed: int = 0, most_columns: int = MOST_SCREENED) -> Screened:
    """Fit a path, set near-copies aside as they show, and begin again without them.

    `fit(table, until)` makes the path of a table and ends it early where `until(mixture)` says so, as
    `cluster_path` does. A wide table is not screened: with more than `most_columns` columns the L × L counts would
    dwarf the data.
    """
    kept = np.ones(table.n_columns, bool)
    if table.n_columns > most_columns:
        return Screened(fit(table, None), kept, (), False)
    sample = draw_sample(table, SCREEN_ROWS, seed)
    moments = _as_given(pair_moments(sample.table), sample)
    copies: list[NearCopy] = []
    for _ in range(MOST_ROUNDS):
        at = np.flatnonzero(kept)
        some, names = _some(moments, at), [str(table.columns[n].name) for n in at]
        found: list[NearCopy] = []

        def shows_copies(
            mixture: Mixture, some: PairMoments = some, names: list[str] = names, found: list[NearCopy] = found
        ) -> bool:
            found += find_near_copies(some, mixture, names)
            return len(found) > 0

        path = fit(table.without(~kept), shows_copies)
        if not found:
            found = find_pair_splits(some, path.at(path.whole_number).mixture, names)
        if not found:
            return Screened(path, kept, tuple(copies), True)
        found = [replace(one, column=int(at[one.column]), copies=int(at[one.copies])) for one in found]
        copies += found
        kept[[one.column for one in found]] = False
    return Screened(fit(table.without(~kept), None), kept, tuple(copies), True)


def find_near_copies(moments: PairMoments, mixture: Mixture, names: Sequence[str]) -> list[NearCopy]:
    """Near-copies that stand out under a mixture, the strongest first, each column in one pair at most.

    Of a pair the column seen less often goes; of equals the one that has more in common with all other columns
    stays, since a copy dilutes what it had to say; of equals still, the first by name.
    """
    r = residual_correlation(moments, mixture)
    alone = _standing_out(r, moments.n_rows) | _standing_out(partial_correlation(r, moments.n_rows), moments.n_rows)
    pairs = [(int(left), int(right)) for left, right in np.argwhere(np.triu(alone, 1))]
    pairs = [pair for pair in pairs if not third_columns_speak(r, moments.n_rows, *pair)]
    return _set_aside(moments, pairs, r, mixture.n_classes, names)


def third_columns_speak(r: Floats, n_rows: Floats, i: int, j: int) -> bool:
    """Other columns ℓ are related to columns i and j alike: Σ_ℓ r_iℓ r_jℓ is above chance, with the sign of r_ij.

    A class still missing relates all columns that it sets apart. A copy inside clusters that are all there relates two.
    """
    others = np.ones(len(r), bool)
    others[[i, j]] = False
    noise = 1 / np.sqrt(np.maximum(n_rows[i, others] * n_rows[j, others], 1.0))
    common = np.sign(r[i, j]) * float(r[i, others] @ r[j, others]) - abs(r[i, j]) * float(noise.sum())
    return bool(common > THIRD_SURE * np.sqrt((1 + r[i, j] ** 2) * float(np.square(noise).sum())))


def find_pair_splits(moments: PairMoments, mixture: Mixture, names: Sequence[str]) -> list[NearCopy]:
    """Pairs of columns that are all in which two clusters of a fit differ."""
    at_one, weights, rows = mixture.table[1::2], mixture.weights, float(np.diag(moments.n_rows).max())
    pairs = set()
    for f, g in zip(*np.triu_indices(mixture.n_classes, 1), strict=True):
        share = weights[f] / max(weights[f] + weights[g], 1e-300)
        pooled = share * at_one[:, f] + (1 - share) * at_one[:, g]
        gap = np.square(at_one[:, f] - at_one[:, g]) / np.maximum(pooled * (1 - pooled), 1e-6)
        chance = 1 / max(weights[f] * rows, 1.0) + 1 / max(weights[g] * rows, 1.0)  # what equal columns show
        order = np.argsort(-gap, kind="stable")
        gap = gap[order] - chance
        alone = len(gap) > 2 and gap[2] < THIRD_GAP * gap[1] + LARGEST_CHANCE * chance
        if alone and gap[:2].sum() > TWO_GAPS * gap.sum():
            pairs.add((int(order[:2].min()), int(order[:2].max())))
    return _set_aside(moments, sorted(pairs), _correlation(moments), mixture.n_classes, names)


def _set_aside(
    moments: PairMoments, pairs: Sequence[tuple[int, int]], r: Floats, n_clusters: int, names: Sequence[str]
) -> list[NearCopy]:
    """One column of each pair, the strongest pair first, no column in two of them."""
    seen = np.diag(moments.n_rows)
    common = np.abs(_correlation(moments)).sum(axis=1).round(9)  # columns that are equal shall be equal here
    out: list[NearCopy] = []
    used: set[int] = set()
    for pair in sorted(pairs, key=lambda pair: -abs(r[pair])):
        if used & set(pair):
            continue
        used |= set(pair)
        by_name = sorted(pair, key=lambda column: names[column], reverse=True)
        copy, source = sorted(by_name, key=lambda column: (seen[column], common[column]))
        out.append(NearCopy(copy, source, float(r[pair]), n_clusters))
    return out


def pair_moments(table: Table) -> PairMoments:
    """Counts of all pairs of binary columns, gaps left out, rows by their weight."""
    size = table.n_columns
    both, ones, one_seen = (np.zeros((size, size)) for _ in range(3))
    each = table.each_weight()
    for begin in range(0, table.n_rows, BLOCK):
        seen = table.present[begin : begin + BLOCK].astype(np.float64)
        one = np.where(table.present[begin : begin + BLOCK], table.codes[begin : begin + BLOCK] == 1, False) * 1.0
        weight = each[begin : begin + BLOCK, None]
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
    varies = moments.scale > 1e-9
    r = np.where(varies, (moments.covariance - fitted) / np.where(varies, moments.scale, 1.0), 0.0)
    np.fill_diagonal(r, 0.0)
    return r


def partial_correlation(r: Floats, n_rows: Floats) -> Floats:
    """Correlations (L, L) of two columns with all others held fixed, from residual correlations.

    Drawn to the identity by L / (n + L), as much as n rows of L columns are noise; gaps may leave eigenvalues below
    zero, which are cut.
    """
    share = len(r) / (float(np.median(n_rows)) + len(r))
    values, vectors = np.linalg.eigh((1 - share) * r + np.eye(len(r)))
    inverse = (vectors / np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
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
    pays = np.sqrt(2 * chance_margin(len(r)) / np.maximum(n_rows, 1.0))
    matters = size > np.clip(pays, SMALLEST, LARGE)
    sure = size * np.sqrt(n_rows) > SURE
    above = (size > ABOVE_REST * rest) & (size > ABOVE_NEXT * following)
    return np.asarray(matters & sure & above & above.T)


def _correlation(moments: PairMoments) -> Floats:
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
