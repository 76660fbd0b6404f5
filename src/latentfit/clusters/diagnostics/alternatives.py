"""What else could have made these clusters: a continuous trait, missing answers, repeated rows, other parameters.

Paper     Bock & Aitkin 1981 (item-response models); Little & Rubin 2019 (missing at random); Allman, Matias & Rhodes
          2009 and Catalisano, Geramita & Gimigliano 2011 (identifiability of binary columns)
Needs     a fitted mixture of two-valued columns, and its rows
Promises  p-values as good as their χ² approximation
Differs   see each part

Symbols   here      shape    meaning
          table     (n, L)   rows of the fit, or a sample of them
          mixture            the fitted clusters
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from latentfit.core.kernels import Floats
from latentfit.core.mixture.item_response import fit_item_response, trait_grid
from latentfit.core.mixture.parameters import Mixture, marginal_proportions
from latentfit.core.table.replicates import single_rows
from latentfit.core.table.table import Table
from latentfit.engine.memory import MemoryEngine, posterior_of


@dataclass(frozen=True)
class AlternativeSettings:
    """How much is looked at, and what is distinguished."""

    trait_work: int = 20_000_000  # rows × columns × nodes of one pass: wider tables are not compared with traits
    min_missing: float = 20.0  # rows in which a column must be missing, and must be there
    min_expected: float = 5.0  # missing cells expected in a direction of the posteriors: with fewer χ² does not hold
    missing_columns: int = 40  # columns whose missing values are looked at, those with the most
    missing_rows: int = 20_000
    explaining: int = 3  # observed columns that may explain where another one is missing
    explains_at: float = 1e-3  # level at which such a column is taken in
    unlikely: float = 0.01  # equal rows expected of a row, below which it should be the only one of its kind
    min_unlikely: int = 20  # such rows that are needed for a proportion
    rank_cells: int = 2**10  # combinations of categories up to which the Jacobian is formed
    rank_relative: float = 1e-8  # singular values below this proportion of the largest are zero


SETTINGS = AlternativeSettings()


# ----------------------------------------------------------------------- traits


def best_trait(
    table: Table, noninformative: NDArray[np.bool_], *, most: int = 2, n_jobs: int | None = 1
) -> tuple[float, int] | None:
    """Smallest BIC of up to `most` (one or two) normal traits, and how many; None where a table is too large.

    Columns that are `noninformative` (L,) are independent of the traits, as they are of the clusters.
    """
    informative, rest = table.without(noninformative), table.without(~noninformative)
    if informative.n_columns < 3:
        return None
    found = []
    for n_traits in range(1, most + 1):
        if table.n_rows * informative.n_columns * len(trait_grid(n_traits)[1]) <= SETTINGS.trait_work:
            found.append((fit_item_response(informative, n_traits, n_jobs).bic + _independent_bic(rest), n_traits))
    return min(found, default=None)


def _independent_bic(table: Table) -> float:
    """BIC of columns that are independent; 0 where there are none."""
    if not table.n_columns:
        return 0.0
    counts = table.singles()
    fitted = float(counts @ np.log(marginal_proportions(counts, table.column_offsets)))
    return -2 * fitted + table.n_columns * float(np.log(max(table.total_weight, 2.0)))


def mixture_bic(table: Table, mixture: Mixture, n_parameters: int, n_jobs: int | None = 1) -> float:
    """BIC of a mixture."""
    fitted = MemoryEngine(table, n_jobs).sums(mixture).log_likelihood
    return -2 * fitted + n_parameters * float(np.log(max(table.total_weight, 2.0)))


def restricted_to(mixture: Mixture, columns: NDArray[np.bool_]) -> Mixture:
    """The mixture of some of its two-valued columns."""
    offsets = np.arange(0, 2 * int(columns.sum()) + 1, 2, dtype=np.int32)
    return Mixture(mixture.weights, np.ascontiguousarray(mixture.table[np.repeat(columns, 2)]), offsets)


# ---------------------------------------------------------------- missing values
#
# Values that are missing at random do no harm to a likelihood, but whether they are cannot be read off the data in
# general. What can be seen: where a value is missing may depend on the answers that were given (routing), and on
# nothing else once they are known. So whether column n is missing is regressed on the observed columns that explain it
# best, three at most, and then on the rows' posteriors without column n: if these still tell where it is missing, it
# is missing by cluster, and in a model with local independence that is what values missing by themselves look like.


@dataclass(frozen=True)
class MissingByCluster:
    """Smallest p-value over the columns looked at, corrected for their number, and the column it is of."""

    p_value: float
    column: int
    n_columns: int


def missing_by_cluster(table: Table, mixture: Mixture, seed: int = 0) -> MissingByCluster | None:
    """Whether clusters tell where values are missing beyond what observed answers do; None without such values."""
    rows = single_rows(table, SETTINGS.missing_rows, seed)
    observed = table.present[rows.unique_row]
    n = len(observed)
    n_missing = n - observed.sum(axis=0)
    chosen = np.flatnonzero((n_missing >= SETTINGS.min_missing) & (n - n_missing >= SETTINGS.min_missing))
    if mixture.n_classes < 2 or not len(chosen):
        return None
    chosen = chosen[
        np.argsort(-np.minimum(n_missing, n - n_missing)[chosen], kind="stable")[: SETTINGS.missing_columns]
    ]
    ones = (table.codes[rows.unique_row] == 1) & observed
    log_posterior: Floats = _log_posterior(table, mixture)[rows.unique_row]
    p_values = []
    for column in chosen.tolist():
        missing = (~observed[:, column]).astype(float)
        without = log_posterior - _log_cells(mixture, column, ones[:, column], observed[:, column])
        without = np.exp(without - without.max(axis=1, keepdims=True))
        posterior = without / without.sum(axis=1, keepdims=True)
        p_values.append(_posterior_p_value(missing, posterior[:, 1:], ones, observed, column))
    best = int(np.argmin(p_values))
    # Cauchy's combination holds for dependent p-values and, unlike the smallest, adds up many that are small
    combined = np.tan((0.5 - np.clip(p_values, 1e-15, 1 - 1e-15)) * np.pi).mean()
    return MissingByCluster(float(0.5 - np.arctan(combined) / np.pi), int(chosen[best]), len(chosen))


def _log_posterior(table: Table, mixture: Mixture) -> Floats:
    return np.asarray(np.log(np.maximum(posterior_of(MemoryEngine(table, 1), mixture)[0], 1e-300)))


def _log_cells(mixture: Mixture, column: int, ones: NDArray[np.bool_], observed: NDArray[np.bool_]) -> Floats:
    """Log-probability (n, K) of a column's cells, 0 where missing."""
    cells = mixture.log_table()[2 * column : 2 * column + 2]
    return np.asarray(np.where(observed[:, None], np.where(ones[:, None], cells[1], cells[0]), 0.0))


def _posterior_p_value(
    missing: Floats, posterior: Floats, ones: NDArray[np.bool_], observed: NDArray[np.bool_], column: int
) -> float:
    """p-value of the posteriors in a linear regression of `missing`, after the observed columns that explain it."""
    n = len(missing)
    base = [np.ones(n)]
    left = missing - missing.mean()
    others = np.setdiff1d(np.arange(ones.shape[1]), [column])
    for _ in range(SETTINGS.explaining):
        # R² of every other column's three states, as the between-group proportion of the residual's variance
        gains = _between(left, ones[:, others], observed[:, others]) / max(float(left @ left), 1e-300)
        at = int(np.argmax(gains))
        if chi2.sf(n * gains[at], 2) > SETTINGS.explains_at / len(others):
            break
        base += [ones[:, others[at]].astype(float), (~observed[:, others[at]]).astype(float)]
        design = np.column_stack(base)
        left = missing - design @ np.linalg.lstsq(design, missing, rcond=None)[0]
    design = np.column_stack(base)
    rest = posterior - design @ np.linalg.lstsq(design, posterior, rcond=None)[0]
    values, vectors = np.linalg.eigh(rest.T @ rest)
    # χ² needs a few missing cells expected in each direction, as in every table of counts
    live = values * min(missing.mean(), 1 - missing.mean()) >= SETTINGS.min_expected
    if not live.any():
        return 1.0
    score = vectors.T[live] @ (rest.T @ left)
    variance = float(left @ left) / max(n - design.shape[1] - int(live.sum()), 1)
    return float(chi2.sf(float((np.square(score) / values[live]).sum()) / variance, int(live.sum())))


def _between(left: Floats, ones: NDArray[np.bool_], observed: NDArray[np.bool_]) -> Floats:
    """Sum of squares of `left` (n,) between the three states of each column."""
    total = np.zeros(ones.shape[1])
    for state in (ones, observed & ~ones, ~observed):
        number = state.sum(axis=0)
        total += np.square(left @ state) / np.maximum(number, 1)
    return total


# ----------------------------------------------------------------- repeated rows


def repeated_rows(table: Table, mixture: Mixture) -> tuple[float, int] | None:
    """Proportion of the rows that the clusters make unique and that have an equal row all the same, and their number.

    A row that the model expects fewer than `unlikely` equals of should have none. Rows written twice, people asked
    twice and merged files break that rule. Clusters that fit badly break it too, but less: of the unlikely rows of
    NLTCS (21,574 people, 16 disabilities, three clusters) a third have an equal. None where few rows are so unlikely.
    """
    counts = table.rows_each() if table.sampling else np.round(table.each_weight()).astype(np.int64)
    n = int(counts.sum())
    expected = (n - 1) * np.exp(posterior_of(MemoryEngine(table, 1), mixture)[1])
    unlikely = expected < SETTINGS.unlikely
    single = int(counts[unlikely].sum())
    if single < SETTINGS.min_unlikely:
        return None
    return float(counts[unlikely & (counts > 1)].sum() / single), single


# -------------------------------------------------------------------------- rank
#
# The Jacobian of the map from weights and frequencies to the probabilities of all combinations of the columns. Where
# its rank is below the number of parameters, other parameters near by give the very same table. Almost everywhere the
# rank is full where `theory.has_room` says so; at a fit with clusters alike in all columns but one or two it is not.


def jacobian_rank(weights: Floats, frequencies: Floats) -> int:
    """Rank at weights (K,) and frequencies (K, L)."""
    L = frequencies.shape[1]
    cells = (np.arange(2**L)[:, None] >> np.arange(L)) & 1  # (2^L, L)
    factor = np.where(cells[:, None] == 1, frequencies, 1 - frequencies)  # (2^L, K, L)
    joint = factor.prod(axis=2)
    columns = [joint[:, :-1] - joint[:, -1:]]
    for n in range(L):
        rest = np.delete(factor, n, axis=2).prod(axis=2)
        columns.append(weights * rest * np.where(cells[:, n] == 1, 1.0, -1.0)[:, None])
    matrix = np.concatenate(columns, axis=1)
    matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > SETTINGS.rank_relative * values.max()).sum())


def n_free(n_columns: int, n_clusters: int) -> int:
    """Free parameters of a mixture of two-valued columns."""
    return n_clusters * (n_columns + 1) - 1
