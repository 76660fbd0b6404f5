"""How sure are rows of their cluster under parameters that have not seen them?

A mixture fitted to few rows is overconfident on those rows: it says .005 of a cluster is misplaced when .08 is. So
rows are dealt to five folds by their hash; for each fold EM goes on from the full fit over the other rows, and
the fold's rows are judged by what comes out. Classes keep their numbers because every EM run starts from the full fit.

The five fits also say how far a cluster's mean posterior error probability moves with the rows it was learnt from:
their jackknife spread.

The iterations are bounded by the work they make: 20 on small tables, where overconfidence is, down to one on large
ones, where a fold moves the parameters by next to nothing. They use SQUAREM: plain iterations forget a fold too slowly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latentfit.clusters.diagnostics.independence import (
    Rows,
    Tested,
    compare_with_permutations,
    largest_pair,
    shrunk_correlations,
    together,
    varying_columns,
)
from latentfit.core.em import em
from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.init import name_order
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.progress import counted
from latentfit.core.table.replicates import ReplicatedRows, single_rows, thinned
from latentfit.core.table.table import Table
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, posterior_of


@dataclass(frozen=True)
class PuritySettings:
    """Constants of the purity test, each with its reason."""

    folds: int = 5  # of the rows, each judged by a fit without it
    n_iter: int = 20  # EM iterations that let a fold be forgotten
    fold_work: int = 1_000_000_000  # rows × columns × classes over all folds and iterations: about a second
    flag_at: float = 3.0  # spreads above the permutations: about one pure cluster in fifty reaches it
    sampled_rows: int = 200_000  # rows that labels are drawn for
    max_rows: int = 20_000  # rows tested of one cluster: weaker dependence misplaces few rows
    product_work: float = 4e8  # rows × columns² of one product: above it fewer rows are tested
    min_rows: int = 1_000  # rows tested however many columns there are
    max_columns: int = 1_000  # columns tested together
    n_suspects: int = 5  # columns named for a flagged cluster
    one_sided: float = 1.645  # spreads above which a normal variable lies once in twenty times
    fold_salt: int = 11  # set folds, labels and thinning apart from other draws for the same rows
    label_salt: int = 12
    thin_salt: int = 13


SETTINGS = PuritySettings()
KINDS = ("pair", "eigenvalue")
"""Statistics of the test."""
Names = tuple[str | int, ...]


@dataclass(frozen=True)
class CrossFit:
    """Doubt that rows belong where they were put, by parameters that have not seen them."""

    uncertainty: Floats  # (c,) of every single row: 1 − posterior of its own cluster
    by_fold: Floats  # (folds, K) mean of `uncertainty` in each cluster under the parameters of each fold


def cross_fit(
    table: Table,
    mixture: Mixture,
    copies: ReplicatedRows,
    label: NDArray[np.intp],
    *,
    smoothing: float,
    n_jobs: int | None = 1,
    tied: NDArray[np.bool_] | None = None,
) -> CrossFit:
    """The uncertainty of single rows about their cluster `label` (c,), each under parameters fitted without its fold.

    Cells that are `tied` (C,) have one probability for all classes, as in the fit.
    """
    uncertainty, by_fold = np.empty(len(label)), []
    fold = (copies.uniform(SETTINGS.fold_salt) * SETTINGS.folds).astype(np.intp)
    per_pass = max(len(label) * table.n_columns * mixture.n_classes * (SETTINGS.folds - 1), 1)
    n_iter = min(max(SETTINGS.fold_work // per_pass, 1), SETTINGS.n_iter)
    which, of = np.unique(copies.unique_row, return_inverse=True)
    looked_at = MemoryEngine(table.take(which), n_jobs)
    for held in range(SETTINGS.folds):
        params, rest = mixture, fold != held
        if rest.any():
            steps = table_steps(_unique_rows(table, copies, rest), mixture.n_classes, smoothing, n_jobs, tied=tied)
            params = em(steps, mixture, max_iter=n_iter, tol=0.0, accelerate=True).params
        moved = 1 - posterior_of(looked_at, params)[0][of, label]
        uncertainty[~rest] = moved[~rest]
        by_fold.append(mean_by_label(moved, label, copies.weight, mixture.n_classes))
    return CrossFit(uncertainty, np.array(by_fold))


def mean_by_label(values: Floats, label: NDArray[np.intp], weight: Floats, K: int) -> Floats:
    """Weighted means (K,) of the rows with each label; nan where there are none."""
    total = np.bincount(label, weight, minlength=K)
    sums = np.bincount(label, weight * values, minlength=K)
    return np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)


def _unique_rows(table: Table, copies: ReplicatedRows, chosen: NDArray[np.bool_]) -> Table:
    """The table of some single rows, equal ones counted together."""
    weight = np.bincount(copies.unique_row[chosen], copies.weight[chosen], minlength=table.n_rows)
    keep = np.flatnonzero(weight)
    return replace(table.take(keep), row_weight=np.ascontiguousarray(weight[keep]))


# -----------------------------------------------------------------------------
# Is each cluster of a Bernoulli mixture pure? A certificate per cluster, and the columns that betray a bad one.
#
# A cluster is pure when nothing in it is dependent. Inside the rows whose likeliest class is k the columns *are*
# dependent, by selection, even when the model is true. Rows whose label is **drawn from their posterior** are, under
# the model, independent draws of class k: there the columns are compared with permutations of themselves
# (`independence`). A
# cluster is flagged when the largest pair or the top eigenvalue stands `flag_at` or more spreads above its
# permutations. #
# The stated impurity of a cluster is 1 − the mean posterior of its rows, cross-fitted (`cross_fit`): what is expected
# of them if the model is right. The *certified* impurity is what they stay below in 19 cases of 20, given only when
# the
# cluster was tested and not flagged. It adds to the stated one its variance (rows misplaced or not, q (1 − q) each) and
# the jackknife spread of the folds: a cluster stated at .095 exceeds .10 every second time.
#
# A flagged cluster names its suspects from the posterior-weighted correlations, which no draw disturbs: the pair with
# the largest one, and the columns that weigh most in the leading eigenvector.
#
# Cost: linear in the rows; at most `sampled_rows` rows are looked at and `tested_rows` of them in one cluster, chosen
# by
# their hashes; at most `max_columns` columns, those that vary most in the cluster (a choice permutations do not move).
#
# Paper     Najafi, Motahari & Rabiee 2020: (3.3), which the test asks about, and Definition 3.5 for pairs of columns
# Needs     a fitted mixture of two-valued columns, rows drawn independently
# Promises  about one pure cluster in fifty is flagged (docs/guide/clusters/purity.md has the rates)
# Differs   their threshold τ follows from ε and α and asks for more rows than any table has; here permutations of the
#           very cluster say what is large. Beside the largest pair stands the top eigenvalue, for many weak dependences
#
# Symbols   paper   here                 shape    meaning
#           Y_k     —                             rows drawn for cluster k
#           D_max   statistic            (K, 2)   largest pair (D ≈ r²/2), top eigenvalue
#           ε       impurity, certified  (K,)     stated, and what it stays below in 19 cases of 20


@dataclass(frozen=True)
class PurityTable:
    """One entry per cluster, in the mixture's order; statistics are (cluster, kind)."""

    statistic: Floats
    z: Floats
    null_quantile: Floats  # what permutations exceed in one case of twenty
    p_value: Floats  # of both statistics together
    flagged: NDArray[np.bool_]
    impurity: Floats  # stated, cross-fitted; nan for a cluster without rows
    certified: Floats  # its upper limit when the cluster passed the test, else nan
    suspect_pair: tuple[Names, ...]  # empty when not flagged
    suspect_columns: tuple[Names, ...]
    misplaced: tuple[float, float] = (float("nan"), float("nan"))  # expected of all rows, cross-fitted; standard error

    def columns(self) -> dict[str, list[float] | list[int] | list[bool] | list[str]]:
        """Plain columns, ready for a frame: what `purity_` shows."""
        out: dict[str, list[float] | list[int] | list[bool] | list[str]] = {"cluster": list(range(len(self.p_value)))}
        for s, kind in enumerate(KINDS):
            out[kind] = self.statistic[:, s].tolist()
            out[f"{kind}_z"] = self.z[:, s].tolist()
            out[f"{kind}_null_quantile"] = self.null_quantile[:, s].tolist()
        out["p_value"] = self.p_value.tolist()
        out["flagged"] = self.flagged.tolist()
        out["impurity"] = self.impurity.tolist()
        out["certified_impurity"] = self.certified.tolist()
        out["suspect_pair"] = [", ".join(str(name) for name in pair) for pair in self.suspect_pair]
        out["suspect_columns"] = [", ".join(str(name) for name in names) for names in self.suspect_columns]
        return out


def purity_certificates(
    table: Table,
    mixture: Mixture,
    *,
    smoothing: float,
    seed: int = 0,
    n_permutations: int = 19,
    n_jobs: int | None = 1,
    tied: NDArray[np.bool_] | None = None,
) -> PurityTable:
    """Test (3.3) in every cluster of a mixture fitted to a table of two-valued columns, and certify it.

    `smoothing` and `tied` (cells that all clusters share) as in the fit, for the folds.
    """
    _check(table, mixture, n_permutations)
    with one_blas_thread():
        drawn = _Drawn(table, mixture, seed, n_jobs)
        label = drawn.posterior.argmax(axis=1)
        crossed = cross_fit(table, mixture, drawn.copies, label, smoothing=smoothing, n_jobs=n_jobs, tied=tied)
        tests, pairs, columns = [], [], []
        for k in counted(range(mixture.n_classes), "are clusters pure", mixture.n_classes, "clusters"):
            tests.append(drawn.test(k, n_permutations))
            of_cluster = drawn.posterior[:, k]
            pair, names = suspects(table, drawn.copies, of_cluster, drawn.order) if _flags(tests[-1]) else ((), ())
            pairs.append(pair)
            columns.append(names)
    found = _table(tests, *stated_impurity(crossed, label, drawn.copies.weight), pairs, columns)
    return replace(found, misplaced=expected_misplaced(crossed, label, drawn.copies.weight))


def any_flagged(table: Table, mixture: Mixture, *, seed: int = 0, n_permutations: int = 19) -> bool:
    """Does `purity_certificates` flag a cluster? The tests alone, heaviest cluster first, until one does."""
    _check(table, mixture, n_permutations)
    with one_blas_thread():
        drawn = _Drawn(table, mixture, seed, n_jobs=1)
        return any(_flags(drawn.test(int(k), n_permutations)) for k in np.argsort(drawn.ranks))


class _Drawn:
    """The rows of every cluster, drawn from their posteriors."""

    def __init__(self, table: Table, mixture: Mixture, seed: int, n_jobs: int | None) -> None:
        self.table, self.seed = table, seed
        self.copies = single_rows(table, SETTINGS.sampled_rows, seed)
        which, of = np.unique(self.copies.unique_row, return_inverse=True)
        self.posterior = posterior_of(MemoryEngine(table.take(which), n_jobs), mixture)[0][of]
        self.ranks, self.order = class_ranks(mixture), name_order(table)
        labels = drawn_labels(self.posterior, self.copies.uniform(SETTINGS.label_salt), self.ranks)
        self.labels = np.where(thinned(self.copies, SETTINGS.thin_salt), labels, -1)

    def test(self, k: int, n_permutations: int) -> list[Tested]:
        rng = np.random.default_rng([self.seed, int(self.ranks[k])])
        members = np.flatnonzero(self.labels == k)[: tested_rows(self.table.n_columns)]
        rows = most_varying(cells_of(self.table, self.copies.unique_row[members], self.order))[0]
        return compare_with_permutations(rows, rng, n_permutations=n_permutations)


def _check(table: Table, mixture: Mixture, n_permutations: int) -> None:
    sizes = np.diff(table.column_offsets)
    if (sizes > 2).any():
        n = int(np.argmax(sizes > 2))
        raise DataError(
            f"column {table.columns[n].name!r} has {int(sizes[n])} categories and purity is for columns of two; leave "
            "it out or make it binary"
        )
    if not np.array_equal(table.column_offsets, mixture.column_offsets):
        raise DataError("the mixture was fitted to other columns than the table's; give the table it was fitted to")
    if n_permutations < 3:
        raise DataError(f"n_permutations={n_permutations} gives no spread to compare with; give 19")


def _flags(tests: list[Tested]) -> bool:
    """One statistic stands far above its permutations; untested ones (nan) flag nothing."""
    return any(test.z >= SETTINGS.flag_at for test in tests)


def _table(
    tests: list[list[Tested]], impurity: Floats, limit: Floats, pairs: list[Names], columns: list[Names]
) -> PurityTable:
    numbers = np.array([[(test.value, test.z, test.quantile) for test in both] for both in tests])  # (K, kind, 3)
    value, z, quantile = numbers[..., 0], numbers[..., 1], numbers[..., 2]
    flagged = np.array([_flags(both) for both in tests])
    return PurityTable(
        statistic=value,
        z=z,
        null_quantile=quantile,
        p_value=np.array([together([test.p_value for test in both]) for both in tests]),
        flagged=flagged,
        impurity=impurity,
        certified=np.where(flagged | np.isnan(z).all(axis=1), np.nan, limit),
        suspect_pair=tuple(pairs),
        suspect_columns=tuple(columns),
    )


# ----------------------------------------------------------------------- steps


def stated_impurity(crossed: CrossFit, label: NDArray[np.intp], weight: Floats) -> tuple[Floats, Floats]:
    """Mean posterior error probability (K,) of each cluster's rows, and what their true proportion of rows of other
    classes stays below in 19 cases of 20."""
    folds, K = crossed.by_fold.shape
    stated = mean_by_label(crossed.uncertainty, label, weight, K)
    part = weight / np.bincount(label, weight, minlength=K)[label]
    probability = np.bincount(label, np.square(part) * crossed.uncertainty * (1 - crossed.uncertainty), minlength=K)
    jackknife = (folds - 1) * crossed.by_fold.var(axis=0)
    return stated, np.minimum(stated + SETTINGS.one_sided * np.sqrt(probability + jackknife), 1.0)


def expected_misplaced(crossed: CrossFit, label: NDArray[np.intp], weight: Floats) -> tuple[float, float]:
    """Expected proportion of all rows that belong to another cluster, and its standard error.

    As `stated_impurity` has it for each cluster: rows misplaced or not, q (1 − q) each, and the spread of the folds.
    """
    folds, K = crossed.by_fold.shape
    part = weight / weight.sum()
    of_cluster = np.bincount(label, part, minlength=K)
    by_fold = np.nan_to_num(crossed.by_fold) @ of_cluster
    variance = float(np.square(part) @ (crossed.uncertainty * (1 - crossed.uncertainty))) + (folds - 1) * float(
        by_fold.var()
    )
    return float(part @ crossed.uncertainty), float(np.sqrt(max(variance, 0.0)))


def class_ranks(mixture: Mixture) -> NDArray[np.intp]:
    """Each class's place by weight, heaviest first: draws must not depend on the order of the classes."""
    order = np.lexsort((np.square(mixture.table).sum(axis=0), -mixture.weights))
    ranks = np.empty(len(order), np.intp)
    ranks[order] = np.arange(len(order))
    return ranks


def drawn_labels(posterior: Floats, uniform: Floats, ranks: NDArray[np.intp]) -> NDArray[np.intp]:
    """A class (n,) for every row, drawn from its posterior by its own uniform number."""
    order = np.argsort(ranks)
    below = np.cumsum(posterior[:, order], axis=1)
    place = (uniform[:, None] * below[:, -1:] >= below).sum(axis=1)
    return np.asarray(order[np.minimum(place, len(order) - 1)])


def tested_rows(n_columns: int) -> int:
    """Rows of one cluster that are tested."""
    return int(np.clip(SETTINGS.product_work / max(n_columns, 1) ** 2, SETTINGS.min_rows, SETTINGS.max_rows))


def cells_of(table: Table, unique_rows: NDArray[np.int64], order: NDArray[np.intp]) -> Rows:
    """Some rows as ones and missing values, columns in the given order."""
    codes = table.codes[unique_rows][:, order]
    observed = codes < np.diff(table.column_offsets)[order]
    return Rows((codes == 1).astype(np.float32), None if observed.all() else observed.astype(np.float32))


def most_varying(rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
    """The columns with the largest p (1 − p) · (rows that show them), those that vary at all, and which they are."""
    varying = varying_columns(rows)
    if len(varying) > SETTINGS.max_columns:
        ones, observed = rows.keep(varying).counts()
        varying = np.sort(varying[np.argsort(-ones * (1 - ones / observed), kind="stable")[: SETTINGS.max_columns]])
    return rows.keep(varying), varying


def suspects(table: Table, copies: ReplicatedRows, membership: Floats, order: NDArray[np.intp]) -> tuple[Names, Names]:
    """The pair of columns most correlated in a cluster, rows counted by their posterior probability of it, and the
    columns that weigh most in the leading direction of all correlations."""
    counted = membership * copies.weight
    members = np.flatnonzero(counted > 1e-3 * counted.max())[: 2 * tested_rows(table.n_columns)]
    rows, columns = most_varying(cells_of(table, copies.unique_row[members], order))
    S = shrunk_correlations(rows, weight=counted[members])
    names = [table.columns[order[n]].name for n in columns]
    _, (i, j) = largest_pair(S)
    leading = np.argsort(-np.abs(np.linalg.eigh(S)[1][:, -1]), kind="stable")[: SETTINGS.n_suspects]
    return (names[i], names[j]), tuple(names[n] for n in leading)
