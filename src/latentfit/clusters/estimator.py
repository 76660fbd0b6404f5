"""Clusters of yes/no rows when nobody knows how many there are.

Longer than other estimators: beside the clusters it holds what was decided on the way to them (the path, columns that
nearly equal others, columns that are noninformative) and has a table for each.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import ClusterMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from latentfit.clusters.data import LearnYesNo, dense_rows, read_binary
from latentfit.clusters.diagnostics.intervals import SetAside, column_intervals
from latentfit.clusters.diagnostics.purity import PurityTable, any_flagged, purity_certificates
from latentfit.clusters.diagnostics.verdict import Refitting, Screening, examine_clusters
from latentfit.clusters.em import BlankRows, TruncatedSteps, completed, truncated_rows, unseen_fraction
from latentfit.clusters.select.criteria import CRITERIA, FAR_APART, PathNumbers, choose_by_test, pure_number
from latentfit.clusters.select.near_duplicates import NearDuplicate, Screened, screened_path, with_columns
from latentfit.clusters.select.path import ClusterFit, ClusterPath, cluster_path, varying_columns
from latentfit.core.em import SolverState, Steps, em
from latentfit.core.errors import DataError, DataWarning, IdentifiabilityWarning
from latentfit.core.frames import backend_of, build_frame, long_columns
from latentfit.core.kernels import WIDEST, Floats
from latentfit.core.mixture.bootstrap import ratio_test
from latentfit.core.mixture.em import table_steps
from latentfit.core.mixture.model import (
    CELLS,
    SAMPLE_ROWS,
    SETTLED,
    TAIL_GAIN,
    TableCheckpoint,
    TableModel,
    table_key,
    weight_notes,
)
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.model_file import Array, Arrays, Schema, plain, plain_names, read_names, typed
from latentfit.core.progress import StageClock
from latentfit.core.table.input import LearnColumn
from latentfit.core.table.replicates import sample_rows, self_weighting
from latentfit.core.table.stored import AnyTable, batches_with_weights
from latentfit.core.table.table import Table
from latentfit.core.table.weights import WeightType
from latentfit.core.verdict import Examination
from latentfit.engine.limits import free_memory, one_blas_thread
from latentfit.engine.memory import MemoryEngine, Sums
from latentfit.io.scan import Scan

Select = Literal["auto", "statistical", "purity", "blrt", "aic", "aic3", "bic", "sabic", "icl"]
SAMPLED_ROWS = 100_000
"""Rows on which the number of clusters is found; of a longer table those with the smallest hashes."""
TEST_LEVEL = 0.05
"""Level of the bootstrapped likelihood-ratio test under ``select="blrt"``."""


SCHEMA = Schema({"frequencies": Array(("K", "L"), high=1)}, names={"names": "L"})
"""What the model file holds, beside what that of every mixture of tables does."""


class BernoulliMixture(ClusterMixin, TableModel):
    r"""Cluster yes/no rows, missing values allowed, number of clusters unknown, and say how pure each cluster is.

    Given the hidden cluster :math:`k`, columns are independent:
    :math:`P(\text{row}) = \sum_k w_k \prod_n p_{kn}^{x_n} (1 - p_{kn})^{1 - x_n}`, over the columns that were observed.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of clusters; None chooses it (`select`), and `path_` shows all criteria.
    select : str, default="auto"
        ``"auto"`` takes the practical number (it stops before the first step below a tenth of the largest), and where
        the evidence asks for one or two clusters more the first of these numbers whose clusters pass the purity test;
        ``"statistical"`` the number that the evidence asks for, ``"purity"`` splits while a purity test flags a
        cluster, ``"blrt"`` while a bootstrapped likelihood-ratio test does; ``"aic"``, ``"aic3"``, ``"bic"``,
        ``"sabic"``, ``"icl"`` take the minimum of the criterion.
    binarize : float or None, default=None
        Cut numbers: above it is 1. None takes 0/1, true/false and yes/no only.
    max_components : int or None, default=None
        Longest path; None is 24, and a cluster per eight rows. Where a path ends at it the report says so.
    screen : bool, default=True
        Look for columns that depend on another one inside clusters (near-duplicates are set aside, weaker dependences
        left out of the choice of the number) and for columns that tell nothing about a row's cluster. False takes every
        column as it is.
    truncated : bool, default=False
        Rows of zeros alone are never recorded (registers, baskets, captures): the likelihood is that of rows with at
        least one 1. `weights_` and `frequencies_` are then those of all rows, recorded or not. No column is screened.
    smoothing : float or "auto", default="auto"
        Pseudo-rows per cluster, shaped like the marginals, in the final fit; 0 is plain maximum likelihood.
    weight_type : {"sampling", "frequency"}, default="sampling"
        What `sample_weight` is: ``"sampling"`` weights change estimates, never the sample size, and only their ratios
        matter (they are scaled to add up to Kish's effective number of rows); ``"frequency"`` weights are whole
        numbers, and a row of weight w is w equal rows.
    max_iter : int, default=500
        Largest number of EM iterations; 0 gives the initialisation alone.
    tol : float, default=1e-6
        EM stops when an iteration gains less than `tol` nats per observed cell and less than a tenth of a nat in all,
        and (up to 50,000 rows) the last quarter of the iterations gained less than .003 nats in all; 0 runs all
        of `max_iter`.
    random_state : int or None, default=None
        Seed of all random numbers; None is 0.
    n_jobs : int or None, default=None
        Threads; None uses all cores.
    verbose : int, default=0
        Above 0 progress is shown.
    engine : {"auto", "memory", "stream", "dask"}, default="auto"
        Where the rows are held: in memory, in a file of codes, or on a dask cluster.

    Attributes
    ----------
    n_components_ : int
        Number of clusters K.
    labels_ : ndarray of shape (n_rows,)
        Cluster of every row; cluster 0 is the heaviest.
    weights_ : ndarray of shape (K,)
        Proportions of the clusters.
    frequencies_ : ndarray of shape (K, n_columns)
        How often each column is 1 in each cluster.
    profiles_ : list of ndarray of shape (K, 2)
        Per column, the probability of each category in each cluster.
    categories_ : list of ndarray of shape (2,)
        Per column, its categories in the order of `profiles_`.
    joint_ : `JointPMF`
        The joint distribution of the columns.
    purity_ : frame with one row per cluster
        Tests of purity, stated and certified impurity, suspect columns.
    path_ : frame with one row per number of clusters
        Log-likelihood, entropy and all criteria.
    copies_ : frame (column, copies, correlation)
        Near-duplicate columns that were set aside.
    local_dependence_ : frame (column, with, correlation)
        Columns that depend on another inside clusters; of ten columns or more they took no part in choosing the
        number, yet they are in the model.
    noninformative_ : list
        Noninformative columns: as frequent in every cluster, they say nothing about a row's.
    n_unseen_ : float
        With ``truncated=True`` the rows of zeros expected beside those that were recorded; else 0.
    selection_ : dict or None
        The number that each criterion chooses; None where it was given.
    n_iter_ : int
        EM iterations of the final fit.
    converged_ : bool
        Whether EM converged within `max_iter`.
    log_likelihood_ : float
        Sum over rows in nats, without prior.
    objective_ : float
        Log-likelihood plus the log-prior of the smoothing.
    objective_path_ : ndarray of shape (n_values,)
        Objective of the initial parameters and after every iteration.
    report_ : `latentfit.core.verdict.FitReport`
        Verdict, reasons, notes and quantities; made when first used.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit import BernoulliMixture
    >>> rng = np.random.default_rng(0)
    >>> kind = np.repeat([0, 1], 150)
    >>> rows = rng.random((300, 12)) < np.where(kind, 0.8, 0.2)[:, None]
    >>> model = BernoulliMixture().fit(rows)
    >>> model.n_components_
    2
    """

    _model_name = "BernoulliMixture"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        select: Select = "auto",
        binarize: float | None = None,
        max_components: int | None = None,
        screen: bool = True,
        truncated: bool = False,
        smoothing: float | Literal["auto"] = "auto",
        weight_type: WeightType = "sampling",
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.select = select
        self.binarize = binarize
        self.max_components = max_components
        self.screen = screen
        self.truncated = truncated
        self.smoothing = smoothing
        self.weight_type = weight_type
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Find the clusters of yes/no rows.

        Parameters
        ----------
        X : frame, array-like of shape (n_rows, n_columns) or `latentfit.scan`
            Columns of 0/1, true/false or yes/no, missing values allowed; or a sparse matrix.
        y : ignored
            Not used; there by convention.
        sample_weight : array-like of shape (n_rows,), str or None, default=None
            Weights of the rows (`weight_type`); of a `latentfit.scan` the name of a column. Rows of weight 0 count as
            absent.
        checkpoint : path or None, default=None
            File in which a long fit saves its parameters every few seconds; it is removed when the fit has ended.
        resume : bool, default=False
            Continue from `checkpoint`; the result has the same bits as that of an uninterrupted fit.

        Returns
        -------
        self
        """
        self._check_settings()
        X = self._dense(X)
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                table = self._read_rows(X, sample_weight)
                self._check_number(table)
                sample = self._sample(table)
                checkpoint_file = saved = None
                if checkpoint is not None:
                    checkpoint_file = TableCheckpoint(checkpoint, table_key(table), self._settings(), resume=resume)
                    saved = checkpoint_file.saved
            with clock.stage("number"):
                decided = self._choose(sample) if saved is None else Decided.read(saved.decided)
            with clock.stage("refine"):
                self._refine(table, sample, decided, checkpoint_file, None if saved is None else saved.resume_from)
                if sample_weight is not None:
                    self._label_all(X, sample_weight)
        self._clock, self._notes = clock, [*self._fit_notes(decided), *weight_notes(table)]
        if sample is not table:
            self._notes.append(f"number of clusters and tests looked at {SAMPLED_ROWS:,} of {table.n_rows:,} rows")
        self.selection_ = None if self.n_components is not None else {"select": self.select, **self._numbers.chosen}
        if checkpoint_file is not None:
            checkpoint_file.done()
        self._warn_limit()
        self._warn_number(decided)
        return self

    def _sample(self, table: AnyTable) -> Table:
        """The rows that the path and the tests look at: all, or of a long table some by their hashes.

        Each is one row to the path: what chance gains grows with the rows that are looked at, not with those there are.
        """
        grouped = isinstance(table, Table) and table.weighted and not table.single
        if isinstance(table, Table) and (grouped or table.n_rows <= SAMPLED_ROWS):
            return table
        return sample_rows(table, SAMPLED_ROWS, self._seed())

    def _choose(self, table: Table) -> Decided:
        """Which columns are used, how many clusters there are, and the initialisation of the final EM run."""
        if self.n_components is None:
            table = self_weighting(table)
        screened = self._walk(table)
        number = self._number(table, screened)
        path = screened.path
        ours = self.n_components is not None or self.select in ("auto", "statistical")
        restricted = path.preferred(number) if ours else None  # other rules know no noninformative columns
        init = path.at(number).mixture if restricted is None else restricted.mixture
        noninformative = np.zeros(init.n_columns, bool) if restricted is None else restricted.noninformative
        init, noninformative = with_columns(table, screened, init, noninformative)
        return Decided(
            number, path.numbers, screened.modelled, screened.copies, screened.screened, path.at(number).init_name,
            noninformative, init, screened.dependent, int(path.limit) if path.limit < table.n_rows else 0,
        )  # fmt: skip

    def _walk(self, table: Table) -> Screened:
        """The path of fits, without columns that depend on another; with a given number of clusters it ends there."""
        number, screen = self.n_components, self.screen and not self.truncated

        def fit(some: Table, until: Callable[[Mixture], bool] | None) -> ClusterPath:
            return cluster_path(
                some, most=number or self.max_components, least=number or 1, tol=self.tol, seed=self._seed(),
                n_jobs=self.n_jobs, until=until, screen_noninformative=screen, truncated=self.truncated,
            )  # fmt: skip

        if not screen:
            return Screened(fit(table, None), np.ones(table.n_columns, bool), (), True)
        return screened_path(table, fit, seed=self._seed(), duplicates_only=number is not None)

    def _number(self, table: Table, screened: Screened) -> int:
        if self.n_components is not None:
            return min(int(self.n_components), len(screened.path.fits))  # a checkpoint holds no number of numpy
        rows, seed = table.without(~screened.used_columns), self._seed()

        def needs_more(fit: ClusterFit) -> bool:
            if self.select != "blrt":
                return any_flagged(rows, fit.mixture, seed=seed)
            return ratio_test(rows, fit.mixture, alpha=TEST_LEVEL, random_state=seed).p_value <= TEST_LEVEL

        if self.select in ("purity", "blrt"):
            return choose_by_test(screened.path.fits, needs_more)
        chosen = screened.path.numbers.chosen
        if self.select != "auto":
            return chosen[self.select]
        return pure_number(screened.path.fits, chosen, needs_more)

    def _refine(
        self, table: AnyTable, sample: Table, decided: Decided, checkpoint_file: TableCheckpoint | None,
        resume_from: SolverState[Mixture] | None,
    ) -> None:  # fmt: skip
        """The final fit with smoothing on the used columns; columns set aside get the frequencies of its clusters."""
        rows = table if decided.used_columns.all() else table.without(~decided.used_columns)
        number = decided.number
        init = decided.init if resume_from is None else resume_from.params
        assert init is not None
        tied = np.repeat(decided.noninformative, 2)
        steps: Steps[Mixture, Sums] = table_steps(rows, number, self._pseudo_rows(), self.n_jobs, self.engine, tied)
        if self.truncated:
            steps = TruncatedSteps(steps, BlankRows.of(rows))
        cells = max(float(steps.n_cells), 1.0)  # small steps prove nothing, see `LatentClass`
        refined = em(
            steps, init, max_iter=self.max_iter, tol=min(self.tol, SETTLED / cells), accelerate=True,
            tail_gain=min(self.tol * cells, TAIL_GAIN) if table.total_weight <= SAMPLE_ROWS else None,
            callback=self._progress("EM"), resume_from=resume_from, on_iteration=None if checkpoint_file is None else
            checkpoint_file.writer(decided.state()),
        )  # fmt: skip
        self._keep(rows, refined)
        self._table, self._numbers = sample.without(~decided.used_columns), decided.numbers
        self._stands_for = table.total_weight / sample.total_weight
        self._aside, self._copies, self._purity = ~decided.used_columns, decided.copies, None
        self._noninformative = np.zeros(table.n_columns, bool)
        self._noninformative[decided.used_columns] = decided.noninformative
        self._dependent, self._limit = decided.dependent, decided.limit
        self.n_unseen_ = table.total_weight * unseen_fraction(self._mixture) if self.truncated else 0.0
        self._names = tuple(column.name for column in table.columns)
        self._assign_rows(table, rows)
        self.frequencies_ = np.empty((number, table.n_columns))
        self.frequencies_[:, decided.used_columns] = self._mixture.table[1::2].T
        self.frequencies_[:, self._aside] = (self._aside_ones + 0.5) / (self._aside_rows + 1)

    def _assign_rows(self, table: AnyTable, rows: AnyTable) -> None:
        """Every row into its likeliest cluster, and what clusters show of the columns that were set aside."""
        aside = np.flatnonzero(self._aside)
        labels = np.empty(table.n_rows, np.int32)
        self._aside_rows, self._aside_ones = (np.zeros((self.n_components_, len(aside))) for _ in range(2))

        def assign(begin: int, posterior: Floats, score: Floats) -> None:
            end = begin + len(posterior)
            if self.truncated:
                posterior, _ = truncated_rows(walked.codes_of(begin, end), self._mixture, posterior, score)
            labels[begin:end] = posterior.argmax(axis=1)
            if not len(aside):
                return
            codes = table.codes_of(begin, end)
            weight = table.weights(begin, end)
            proportions = posterior if weight is None else posterior * weight[:, None]
            for at, n in enumerate(aside):
                self._aside_rows[:, at] += proportions[codes[:, n] < 2].sum(axis=0)
                self._aside_ones[:, at] += proportions[codes[:, n] == 1].sum(axis=0)

        walked: AnyTable = rows
        MemoryEngine(rows, self.n_jobs).rows(self._mixture, assign)
        if self._stored is not None and len(labels) < self._stored.n_rows:  # unique rows of a file: its rows one by one
            stored = self._stored.without(self._aside) if len(aside) else self._stored
            labels = np.empty(stored.n_rows, np.int32)
            aside, walked = aside[:0], stored
            MemoryEngine(stored, self.n_jobs).rows(self._mixture, assign)
        self.labels_ = (labels if table.unique_index is None else labels[table.unique_index]).astype(
            np.intp, copy=False
        )

    def _label_all(self, X: Any, sample_weight: Any) -> None:
        """Rows without weight shape nothing, but they too have a cluster."""
        if not isinstance(X, Scan):
            if len(self.labels_) < np.asarray(sample_weight).size:
                self.labels_ = self.predict(X)
        elif self._stored is not None and self._stored.absent:
            tables = (table for table, _ in batches_with_weights(X, sample_weight))
            self.labels_ = np.concatenate([self.predict(table) for table in tables])

    def _warn_number(self, decided: Decided) -> None:
        if self.n_components is not None and decided.number < self.n_components:
            warnings.warn(
                f"{self.n_components} clusters were asked of {decided.number} different rows, which make "
                f"{decided.number} at the most",
                DataWarning,
                stacklevel=3,
            )
        if self.n_components is None and decided.numbers.chosen["statistical"] - decided.number > FAR_APART:
            warnings.warn(
                f"the evidence asks for {decided.numbers.asked_for(decided.limit)} clusters, the practical number is "
                f"{decided.numbers.chosen['practical']}: more than {FAR_APART} apart; path_ has all numbers",
                IdentifiabilityWarning,
                stacklevel=3,
            )

    def _fit_notes(self, decided: Decided) -> list[str]:
        chosen = decided.numbers.chosen
        plural = "" if decided.number == 1 else "s"
        notes = [f"{decided.number} cluster{plural}; the best initialisation: {decided.init_name}"]
        if self.n_components is None:
            notes.append(f"chosen by {self.select}; " + ", ".join(f"{name} {k}" for name, k in chosen.items()))
        if decided.copies:
            notes.append(f"{_columns_were(len(decided.copies))} set aside as near-duplicates of others (copies_)")
        if held := sum(one.held for one in decided.dependent):
            notes.append(
                f"{_columns_were(held)} left out of the choice of the number as dependent on another inside "
                "clusters (local_dependence_)"
            )
        if self.n_components is None and self._at_limit:
            notes.append(f"the path ended at its limit (max_components={decided.limit})")
        if self.noninformative_:
            informative = len(self._names) - len(self.noninformative_) - len(decided.copies)
            notes.append(
                f"{informative} columns tell the clusters apart, {len(self.noninformative_)} do not (noninformative_)"
            )
        if not decided.screened:
            notes.append("too many columns to look for near-duplicates")
        if self.truncated:
            notes.append(f"rows of zeros are not recorded: about {self.n_unseen_:.0f} of them are expected (n_unseen_)")
        return notes

    @property
    def _at_limit(self) -> bool:
        """The rule that chose the number would have been free to choose more."""
        rule = "practical" if self.select == "auto" else self.select
        return self.n_components_ == self._limit or self._numbers.chosen.get(rule, 0) == self._limit

    # ------------------------------------------------------------ results

    @cached_property
    def _certificates(self) -> PurityTable:
        with one_blas_thread():
            return purity_certificates(
                self._complete_table, self._mixture, smoothing=self._pseudo_rows(), seed=self._seed(),
                n_jobs=self.n_jobs, tied=np.repeat(self._noninformative[~self._aside], 2),
            )  # fmt: skip

    @property
    def _complete_table(self) -> Table:
        """The rows that tests look at, with those never recorded: inside a cluster only all rows are independent."""
        return completed(self._table, self._mixture) if self.truncated else self._table

    @cached_property
    def purity_(self) -> Any:
        """One row per cluster: tests of purity, stated and certified impurity, the columns that betray it."""
        check_is_fitted(self)
        return build_frame(self._certificates.columns(), self._backend)

    @cached_property
    def path_(self) -> Any:
        """One row per number of clusters: log-likelihood, its step, entropy and every criterion (smaller is better)."""
        check_is_fitted(self)
        return build_frame(self._numbers.columns, self._backend)

    @cached_property
    def copies_(self) -> Any:
        """Near-duplicate columns that were set aside, and their correlation with the one they nearly equal."""
        check_is_fitted(self)
        return self._pairs("copies", [(one, one.correlation) for one in self._copies])

    @cached_property
    def local_dependence_(self) -> Any:
        """Columns that depend on another one inside clusters; of wide tables the number was chosen without them."""
        check_is_fitted(self)
        return self._pairs("with", [(one, one.residual) for one in self._dependent])

    def _pairs(self, second: str, pairs: list[tuple[NearDuplicate, float]]) -> Any:
        """A frame of columns, the column that each depends on, and the correlation of the two."""
        columns = {
            "column": np.array([str(self._names[one.column]) for one, _ in pairs], object),
            second: np.array([str(self._names[one.copies]) for one, _ in pairs], object),
            "correlation": np.array([correlation for _, correlation in pairs], np.float64),
        }
        return build_frame(columns, self._backend)

    @property
    def noninformative_(self) -> list[str | int]:
        """Columns that do not tell these clusters apart: each has one frequency in all of them."""
        check_is_fitted(self)
        return [self._names[n] for n in np.flatnonzero(self._noninformative)]

    def n_parameters(self) -> int:
        """Free parameters: weights, and a frequency per cluster of every informative column, and one of every other.

        Returns
        -------
        int
            Their number.
        """
        return super().n_parameters() - len(self.noninformative_) * (self.n_components_ - 1)

    def _examine(self, notes: list[str]) -> Examination:
        varying = np.zeros(len(self._names), bool)
        varying[~self._aside] = varying_columns(self._table)
        names = [str(name) for name in self._names]

        def named(pairs: Iterable[NearDuplicate], attribute: str) -> tuple[tuple[str, str, float], ...]:
            return tuple((names[one.column], names[one.copies], getattr(one, attribute)) for one in pairs)

        return examine_clusters(
            self._table, self._mixture, self._numbers, self._certificates,
            n_rows=self._stands_for * self._table.total_weight,
            n_varying=int((varying & ~self._noninformative).sum()), converged=self.converged_,
            screening=Screening(
                duplicates=named(self._copies, "correlation"),
                dependent=named((one for one in self._dependent if one.held), "residual"),
                both=named((one for one in self._dependent if not one.held), "residual"),
                reached=self._limit if self.n_components is None and self._at_limit else 0,
                limit=self._limit,
            ),
            truncated=self.truncated, refitting=self._refitting,
        )  # fmt: skip

    @property
    def _refitting(self) -> Refitting:
        """What the checks that fit anew need to know."""
        held = np.zeros(len(self._names), bool)
        held[[one.column for one in self._dependent if one.held]] = True
        return Refitting(
            self._noninformative[~self._aside], ~held[~self._aside], self._pseudo_rows(),
            chosen=self.n_components is None, seed=self._seed(), n_jobs=self.n_jobs,
        )  # fmt: skip

    def intervals(self, level: float = 0.95) -> Any:
        """Frequencies with their intervals.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        frame (cluster, column, probability, low, high)
            One row per cluster and column.
        """
        check_is_fitted(self)
        if not hasattr(self, "_table"):
            raise DataError("a model from a file keeps no rows, which intervals need; fit it again")
        low, high = column_intervals(
            self._complete_table, self._mixture, self.frequencies_, self._noninformative,
            SetAside(self._aside, self._aside_ones, self._aside_rows),
            level=level, smoothing=self._pseudo_rows(), n_jobs=self.n_jobs, stands_for=self._stands_for,
            truncated=self.truncated,
        )  # fmt: skip
        names, clusters = np.array([str(name) for name in self._names], object), np.arange(self.n_components_)
        columns = long_columns(("cluster", "column", "probability"), clusters, names, self.frequencies_)
        return build_frame(columns | {"low": low.reshape(-1), "high": high.reshape(-1)}, self._backend)

    # ---------------------------------------------------------------- use

    def sample(self, n: int = 1, random_state: int | None = None) -> Any:
        """Rows drawn from the model; with ``truncated=True`` rows that would be recorded.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int or None, default=None
            Seed; None is 0.

        Returns
        -------
        frame of shape (n, n_columns)
        """
        if not self.truncated:
            return super().sample(n, random_state)
        joint, wanted = self.joint_, n
        while True:
            wanted = int(wanted * (1 + unseen_fraction(self._mixture))) + 50
            drawn = joint.sample(wanted, random_state)
            ones = np.column_stack([np.asarray(column) == 1 for column in drawn.columns])
            rows = np.flatnonzero(ones.any(axis=1))[:n]
            if len(rows) == n:
                drawn = drawn.take(rows)
                return build_frame(dict(zip(drawn.column_names, drawn.columns, strict=True)), self._backend)

    def _posterior_of(self, table: Table) -> tuple[Floats, Floats]:
        found = super()._posterior_of(table)
        return truncated_rows(table.codes, self._mixture, *found) if self.truncated else found

    # -------------------------------------------------------------- input

    def _dense(self, X: Any) -> Any:
        """A sparse matrix as zeros and ones; anything else as it is."""
        if not issparse(X):
            return X
        if self.binarize is not None:  # which of its zeros are meant would have to be guessed
            raise DataError("a sparse matrix is read as 0 and 1 and cannot be cut by binarize=; give X > threshold")
        return dense_rows(X, free_memory())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.binarize is None
        return tags

    def _learner(self) -> LearnColumn:
        return LearnYesNo(self.binarize)

    def _read(self, X: Any, sample_weight: Any, *, reset: bool = True) -> Table:
        X = self._dense(X)
        if reset:
            self._backend = backend_of(X)
        X = self._validated(X, reset=reset, **CELLS)
        return read_binary(
            X, binarize=self.binarize, sample_weight=sample_weight, weight_type=self.weight_type,
            columns=None if reset else self._columns, group=reset,
        )  # fmt: skip

    def _check_options(self) -> None:
        super()._check_options()
        number = isinstance(self.binarize, int | float | np.number) and not isinstance(self.binarize, bool)
        if self.binarize is not None and not (number and np.isfinite(self.binarize)):
            raise DataError(f"binarize must be a finite number or None, got {self.binarize!r}; give a threshold")
        for name in ("screen", "truncated"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise DataError(f"{name} must be a bool, got {getattr(self, name)!r}; give True or False")
        if self.truncated and self.select == "blrt":
            raise DataError("select='blrt' draws rows of zeros, which truncated=True rules out; give another rule")
        if self.select not in get_args(Select):
            raise DataError(f"select must be one of {', '.join(get_args(Select))}, got {self.select!r}; give one")

    def _check_number(self, table: AnyTable) -> None:
        rows = table.n_observations
        most = min(rows, WIDEST)
        for name in ("n_components", "max_components"):
            number = getattr(self, name)
            if number is not None and not 1 <= number <= most:
                raise DataError(f"{name}={number} clusters were asked of {rows} rows; give a number from 1 to {most}")

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays, metadata = super()._state()
        purity = self._purity if self._purity is not None else self._certificates.columns()
        return arrays | {"frequencies": self.frequencies_}, metadata | {
            "names": plain_names(self._names),
            "aside": np.flatnonzero(self._aside).tolist(),
            "copies": plain([astuple(one) for one in self._copies]),
            "dependent": plain([astuple(one) for one in self._dependent]),
            "noninformative": np.flatnonzero(self._noninformative).tolist(),
            "n_unseen": float(self.n_unseen_),
            "limit": int(self._limit),
            "path": plain(self._numbers.columns),
            "chosen": plain(self._numbers.chosen),
            "purity": plain(purity),
        }

    def _restore(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        super()._restore(arrays, metadata)
        if any(column.size != 2 for column in self._columns):
            raise ValueError("a column has other than two categories")
        names, aside = read_names(metadata, "names"), typed(metadata, "aside", list)
        if len(names) > self.n_features_in_:
            raise ValueError("there are more names than features")
        _check_places(aside, len(names), "aside")
        gone = np.zeros(len(names), bool)
        gone[aside] = True
        if [names[n] for n in np.flatnonzero(~gone)] != [column.name for column in self._columns]:
            raise ValueError("the columns are not those of names without the ones set aside")
        SCHEMA.check(arrays, metadata, K=self.n_components_)
        given = arrays["frequencies"]
        if not np.array_equal(given[:, ~gone], arrays["table"][1::2].T):
            raise ValueError("a frequency is not that of the table")
        self._names, self._aside, self.frequencies_ = tuple(names), gone, given
        self._copies = _read_duplicates(typed(metadata, "copies", list), len(names))
        if {copy.column for copy in self._copies} != set(aside):
            raise ValueError("copies are not the columns set aside")
        self._dependent = _read_duplicates(metadata.get("dependent", []), len(names))  # not in 0.1.0
        noninformative = metadata.get("noninformative", _tied(given, gone))  # not in 0.1.0
        _check_places(noninformative, len(names), "noninformative")
        self._noninformative = np.zeros(len(names), bool)
        self._noninformative[noninformative] = True
        if not (given[:, noninformative] == given[:1, noninformative]).all() or (self._noninformative & gone).any():
            raise ValueError("a noninformative column has more than one frequency, or was set aside")
        self.n_unseen_, self._limit = float(metadata.get("n_unseen", 0.0)), metadata.get("limit", 0)
        if not np.isfinite(self.n_unseen_) or self.n_unseen_ < 0 or type(self._limit) is not int:
            raise ValueError("n_unseen or limit is no number")
        self._numbers = _read_numbers(typed(metadata, "path", dict), typed(metadata, "chosen", dict))
        self._purity = _read_purity(typed(metadata, "purity", dict), self.n_components_)
        self.purity_ = build_frame(self._purity, "pyarrow")

    labels_: NDArray[np.intp]
    frequencies_: Floats
    _numbers: PathNumbers
    _copies: tuple[NearDuplicate, ...]
    _dependent: tuple[NearDuplicate, ...]
    _noninformative: NDArray[np.bool_]  # (L,) columns with one frequency in all clusters
    _limit: int  # clusters at which the path had to end; 0: the rows allowed no more
    n_unseen_: float
    _aside: NDArray[np.bool_]
    _names: tuple[str | int, ...]
    _purity: dict[str, Any] | None
    _stands_for: float  # rows of the data for each row that the tests look at


def _columns_were(number: int) -> str:
    return "1 column was" if number == 1 else f"{number} columns were"


# -----------------------------------------------------------------------------
# What the model file of clusters holds beside the mixture: columns set aside, the path, the certificates; and what a
# checkpoint keeps of the decisions before the final EM run.

SUSPECTS = ("suspect_pair", "suspect_columns")
"""Columns of the certificates that hold text."""


@dataclass(frozen=True)
class Decided:
    """What was decided before the final EM run: the number of clusters, the columns used, the initialisation."""

    number: int
    numbers: PathNumbers
    used_columns: NDArray[np.bool_]  # (L,) of the user's columns
    copies: tuple[NearDuplicate, ...]
    screened: bool
    init_name: str
    noninformative: NDArray[np.bool_]  # of the used columns, those that all clusters share
    init: Mixture | None  # None: the EM run goes on from a checkpoint
    dependent: tuple[NearDuplicate, ...]  # columns that were left out of the choice of the number
    limit: int  # clusters at which the path had to end; 0: the rows allowed no more

    def state(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return {
            "number": self.number,
            "path": [list(pair) for pair in plain(self.numbers.columns).items()],  # a file sorts the keys of a mapping
            "chosen": [list(pair) for pair in plain(self.numbers.chosen).items()],
            "kept": self.used_columns.tolist(),
            "copies": plain([astuple(one) for one in self.copies]),
            "screened": self.screened,
            "start": self.init_name,
            "noninformative": self.noninformative.tolist(),
            "dependent": plain([astuple(one) for one in self.dependent]),
            "limit": self.limit,
        }

    @classmethod
    def read(cls, state: dict[str, Any]) -> Decided:
        """What `state` described."""
        used_columns = np.array(state["kept"], bool)
        numbers = _read_numbers(dict(state["path"]), dict(state["chosen"]))
        copies, dependent = (_read_duplicates(state[name], len(used_columns)) for name in ("copies", "dependent"))
        return cls(
            state["number"], numbers, used_columns, copies, state["screened"], state["start"],
            np.array(state["noninformative"], bool), None, dependent, state["limit"],
        )  # fmt: skip


def _check_places(places: list[Any], length: int, what: str) -> None:
    if not all(type(place) is int and 0 <= place < length for place in places):
        raise ValueError(f"{what} names a column that does not exist")


def _read_duplicates(listed: list[list[Any]], n_columns: int) -> tuple[NearDuplicate, ...]:
    """Pairs of columns; files of 0.1.0 hold the first four of their entries."""
    pairs = tuple(NearDuplicate(*(one if len(one) > 4 else (*one, one[2], True))) for one in listed)
    for one in pairs:
        _check_places([one.column, one.copies], n_columns, "a copy")
        if [type(value) for value in astuple(one)[2:]] != [float, int, float, bool]:
            raise ValueError("a copy's correlation or number of clusters is no number")
    return pairs


def _tied(frequencies: Floats, gone: NDArray[np.bool_]) -> list[int]:
    """Noninformative columns of a file that does not list them: one and the same frequency in all of several
    clusters."""
    same = (frequencies == frequencies[:1]).all(axis=0) & (frequencies[0] > 0) & (frequencies[0] < 1)
    return np.flatnonzero(same & ~gone & (len(frequencies) > 1)).tolist()


def _read_numbers(path: dict[str, Any], chosen: dict[str, Any]) -> PathNumbers:
    """Every criterion along K = 1, 2, …, and what each chooses."""
    if not {"n_components", "log_likelihood", "step", *CRITERIA} <= set(path):
        raise ValueError("the path lacks a criterion")
    length = len(path["n_components"])
    if path["n_components"] != list(range(1, length + 1)) or not length:
        raise ValueError("the path does not count from one")
    columns = {name: _numbers(values, length, name) for name, values in path.items()}
    if set(chosen) != {*CRITERIA, "practical"}:
        raise ValueError("chosen lacks a criterion")
    if not all(type(number) is int and 1 <= number <= length for number in chosen.values()):
        raise ValueError("chosen names a number of clusters that is not on the path")
    return PathNumbers(columns, chosen)


def _read_purity(purity: dict[str, Any], n_clusters: int) -> dict[str, Any]:
    """One entry per cluster in every column: text, yes or no, or numbers."""
    wanted = {"cluster", "p_value", "flagged", "impurity", "certified_impurity", *SUSPECTS}
    if not wanted <= set(purity):
        raise ValueError("purity lacks a column")
    out: dict[str, Any] = {}
    for name, values in purity.items():
        kind = str if name in SUSPECTS else bool if name == "flagged" else None
        if kind is None:
            out[name] = _numbers(values, n_clusters, name)
        elif type(values) is list and len(values) == n_clusters and all(type(value) is kind for value in values):
            out[name] = values
        else:
            raise ValueError(f"{name} of purity does not hold one entry per cluster")
    return out


def _numbers(values: Any, length: int, name: str) -> list[Any]:
    """So many numbers; what JSON could not hold as a number is not a number again."""
    if type(values) is not list or len(values) != length:
        raise ValueError(f"{name} does not hold {length} numbers")
    if not all(value is None or type(value) in (int, float) for value in values):
        raise ValueError(f"{name} holds something that is no number")
    return [float("nan") if value is None else value for value in values]
