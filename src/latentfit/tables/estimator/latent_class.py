"""The joint distribution of a categorical table: latent class analysis."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from latentfit.core.em import EMResult, em
from latentfit.core.errors import DataError
from latentfit.core.estimator import seed_of
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import WIDEST, Floats
from latentfit.core.mixture.bootstrap import RatioTest, bootstrap_mixture, fit_indices, ratio_test
from latentfit.core.mixture.em import maximise_tables, shaped_prior, table_steps
from latentfit.core.mixture.init import (
    Sample,
    draw_sample,
    in_name_order,
    marginal_table,
    naive_spa,
    random_init,
    searched_spa,
    soften,
)
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
from latentfit.core.mixture.pair_counts import count_table_pairs
from latentfit.core.mixture.parameters import PROBABILITY_FLOOR, Mixture, normalise_tables
from latentfit.core.multistart import Replication
from latentfit.core.progress import StageClock, candidate_numbers
from latentfit.core.table.input import Bins, LearnCategories, LearnColumn, read_table
from latentfit.core.table.replicates import sample_rows, self_weighting
from latentfit.core.table.stored import AnyTable, StoredTable
from latentfit.core.table.table import Table, group_rows, joined_rows
from latentfit.core.table.weights import WeightType
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of, resolve_jobs
from latentfit.io.scan import whole
from latentfit.tables.diagnostics.verdict import examine_table, unexamined
from latentfit.tables.estimator.answers import (
    best_answers,
    column_posterior,
    drawn_answers,
    impute_missing,
    imputed_values,
)
from latentfit.tables.init import (
    MIN_INIT,
    factor_ctd,
    n_init_for,
    select_by_halving,
    select_by_multistart,
    table_inits,
)
from latentfit.tables.select import MAX_ROWS, choose_classes

INITS = ("auto", "spa", "spa-naive", "ctd", "random")


@dataclass(frozen=True)
class SearchSettings:
    """Tuned numbers of a fit."""

    # Initialisations at every number of classes that is only compared, at the most; of a long table one in so many.
    choice_init: int = 12
    long_table_divisor: int = 4
    choice_tail_gain: float = 0.03  # The same for fits that are only compared.
    # EM runs of the folds, initialised with the classes of all cells.
    fold_max_iter: int = 200
    fold_tol: float = 1e-6
    examined_rows: int = 1_000_000  # Rows that the verdict looks at; of a longer table those with the smallest hashes.
    partial_fit_iter: int = 3  # Passes over new rows: they see what they changed.


SEARCH = SearchSettings()


class FitAt(NamedTuple):
    """A fit at a number of classes: the name of the initialisation it came from, and how many reached the same."""

    name: str
    refined: EMResult[Mixture, Sums]
    replication: Replication | None = None


@dataclass(frozen=True)
class Intervals:
    """Bootstrap intervals of a latent class model, as frames of the caller's kind.

    Attributes
    ----------
    weights : frame of shape (F, 5)
        Columns class, weight, se, low, high.
    profiles : frame of shape (F × n_categories of all columns, 7)
        Columns class, column, category, probability, se, low, high.
    level : float
        Coverage of the intervals.
    n_draws : int
        Number of resampled tables.
    """

    weights: Any
    profiles: Any
    level: float
    n_draws: int


class LatentClass(ClassNamePrefixFeaturesOutMixin, TransformerMixin, TableModel):
    r"""Latent class model of a categorical table, missing values allowed: classify, impute, ask, sample.

    Given the hidden class :math:`f`, columns are independent:
    :math:`P(\text{row}) = \sum_f w_f \prod_n P_n[f, \text{row}_n]`, over the columns that were observed.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of classes; None chooses it (`select`) and `report_` shows the curve.
    init : {"auto", "spa", "spa-naive", "ctd", "random"} or fitted LatentClass, default="auto"
        ``"auto"`` (a pool of inits by moments and by rows), ``"spa"`` (the likeliest of several
        splits), ``"spa-naive"`` (one split without a search: the half of the columns with the most categories against
        the rest, whatever their order and names), ``"ctd"``, ``"random"``, or a fitted model.
    n_init : int or "auto", default="auto"
        Number of initialisations of ``init="auto"`` and ``"random"``; the best objective is kept, and
        `report_` says how many of them reached it. ``"auto"``: 4 to 48, fewer for larger tables (``init="random"``:
        one).
    smoothing : float or "auto", default="auto"
        Pseudo-rows per class, shaped like the marginals; 0 is plain maximum likelihood.
    select : {"heldout", "bic"}, default="heldout"
        How to choose the number of classes: likelihood of hidden cells (five folds of the cells; the smallest number
        within one standard error of the best), or BIC.
    bins : int, mapping or None, default=None
        Cut columns of more different numbers than this into so many intervals; a mapping such as ``{"age": 5}`` names
        the columns, where other numbers are codes. None refuses columns of more than 50 numbers.
    weight_type : {"sampling", "frequency"}, default="sampling"
        What `sample_weight` is: ``"sampling"`` weights change estimates, never the sample size, and only their ratios
        matter (they are scaled to add up to Kish's effective number of rows); ``"frequency"`` weights are whole
        numbers, and a row of weight w is w equal rows.
    max_iter : int, default=500
        Largest number of EM iterations; 0 gives the initialisation alone.
    tol : float, default=1e-6
        EM stops when an iteration gains less than `tol` nats per observed cell and less than a tenth of a nat in all,
        and (up to 50,000 unique rows) the last quarter of the iterations gained less than .003 nats in all; 0 runs all
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
        Number of classes F.
    weights_ : ndarray of shape (F,)
        Class weights, heaviest first.
    profiles_ : list of ndarray of shape (F, n_categories)
        Per column, the probability of each category in each class.
    categories_ : list of ndarray of shape (n_categories,)
        Per column, its categories in the order of `profiles_`.
    joint_ : `JointPMF`
        The joint distribution of the columns.
    selection_ : dict or None
        How the number of classes was chosen; None where it was given.
    n_iter_ : int
        EM iterations.
    converged_ : bool
        Whether EM converged within `max_iter`.
    log_likelihood_ : float
        Sum over rows in nats, without prior.
    objective_ : float
        Log-likelihood plus the log-prior of the smoothing.
    objective_path_ : ndarray of shape (n_steps + 1,)
        The objective before and after every EM iteration.
    report_ : `latentfit.core.verdict.FitReport`
        Verdict, reasons, notes and quantities; made when first used.

    Examples
    --------
    >>> import pandas as pd
    >>> from latentfit import LatentClass
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 30, "rain": ["yes", "no"] * 30, "wind": ["w", "w"] * 30})
    >>> model = LatentClass(2).fit(frame)
    >>> model.predict(frame)[:2].tolist() in ([0, 1], [1, 0])
    True
    """

    _model_name = "LatentClass"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        init: Any = "auto",
        n_init: int | Literal["auto"] = "auto",
        smoothing: float | Literal["auto"] = "auto",
        select: Literal["heldout", "bic"] = "heldout",
        bins: Bins = None,
        weight_type: WeightType = "sampling",
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.init = init
        self.n_init = n_init
        self.smoothing = smoothing
        self.select = select
        self.bins = bins
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
        """Learn the joint distribution of a table's columns.

        Parameters
        ----------
        X : frame, array-like of shape (n_rows, n_columns) or `latentfit.scan`
            Categorical columns, missing values allowed.
        y : object, default=None
            Ignored.
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
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                table = self._read_rows(X, sample_weight)
                self._check_number(table)
                checkpoint_file = None
                if checkpoint is not None:
                    checkpoint_file = TableCheckpoint(checkpoint, table_key(table), self._settings(), resume=resume)
            with clock.stage("number"):
                decided = (
                    self._choose(table)
                    if checkpoint_file is None or checkpoint_file.saved is None
                    else checkpoint_file.saved.decided
                )
            with clock.stage("refine"):
                best = self._fit_at(table, decided["number"], checkpoint_file=checkpoint_file, decided=decided)
        self._keep(table, best.refined)
        self.selection_, self._clock, self._replication = decided["selection"], clock, best.replication
        self._notes = [*decided["notes"], f"the best initialisation: {best.name}"]
        if best.replication is not None and decided["number"] > 1:
            self._notes.append(best.replication.sentence())
        self._notes += weight_notes(table)
        if checkpoint_file is not None:
            checkpoint_file.done()
        self._warn_limit()
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows: their statistics join those of all rows before, whose own are not recomputed.

        Exact for the new rows, approximate for the old ones: their class memberships stay as they were. Categories
        that the model does not know are missing values. Weights of all calls are on one scale. `report_`, indices and
        intervals speak of all rows as long as these are in memory (a million different ones); of a model from a file,
        or one fitted on files, they say that the earlier rows are lacking. `log_likelihood_` is that of all rows;
        `objective_`, its path, `n_iter_` and `converged_` stay those of the fit.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            New rows with the columns of the fit.
        y : object, default=None
            Ignored.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the new rows (`weight_type`).

        Returns
        -------
        self : LatentClass
            The model of all rows.
        """
        if not hasattr(self, "_sums"):
            return self.fit(X, y, sample_weight)
        clock = StageClock(self.verbose)
        with one_blas_thread(), clock.stage("refine"):
            table = group_rows(self._read_new(X, sample_weight))
            prior = shaped_prior(self._marginals, self.n_components_, self._pseudo_rows())
            scale, known = self._scale.joined(table.weight_scale), self._scale
            before, mixture = _times(self._sums, scale.against(known)), self._mixture
            ratio = scale.against(table.weight_scale)
            weighed = table if ratio == 1 else replace(table, row_weight=ratio * table.each_weight())
            engine = MemoryEngine(weighed, self.n_jobs)
            for _ in range(SEARCH.partial_fit_iter):
                new = engine.sums(mixture)
                both = Sums(before.log_likelihood, before.totals + new.totals, before.table + new.table)
                mixture = maximise_tables(both, prior, mixture.column_offsets)
        self._forget()
        self._keep_rows(table)
        self._clock, self._scale, self._replication = clock, scale, None
        self._notes = [f"{table.n_observations:,} rows joined an earlier fit of {known.n_rows:,}"]
        self._sums = replace(both, log_likelihood=before.log_likelihood + new.log_likelihood)
        self._publish(mixture, self._columns)
        self.log_likelihood_ = self._sums.log_likelihood
        return self

    def _keep_rows(self, new: Table) -> None:
        """Keep new rows with those of the earlier fit, if these are in memory and all are not too many."""
        old = getattr(self, "_table", None)
        if not isinstance(old, Table):
            self._table, self._later = None, []
            return
        self._later.append(new)  # they are joined when asked for: many small calls must not sort all rows each time
        if old.n_rows + sum(one.n_rows for one in self._later) > SEARCH.examined_rows:
            self._table = self._rows_seen()
            if self._table.n_rows > SEARCH.examined_rows:
                self._table = None

    def _choose(self, table: AnyTable) -> dict[str, Any]:
        """The number of classes, how it was found, and what is said of it: what a checkpoint keeps."""
        number = self._number_of(self.init) if isinstance(self.init, LatentClass) else self.n_components
        if number is not None:
            return {"number": int(number), "selection": None, "notes": []}
        kind: Literal["short", "long"] | None = "long" if table.n_samples > MAX_ROWS else "short"
        if self.select == "bic" and kind == "short":  # one local optimum decides, where folds would average
            kind = None
        rows = self_weighting(table) if isinstance(table, Table) else table
        chosen = choose_classes(
            rows, lambda part, number: self._fit_at(part, number, compared=kind).refined, self._refitted, self.select
        )
        return {"number": int(chosen.n_components), "selection": chosen.curve, "notes": [chosen.note]}

    def _refitted(self, table: Table, mixture: Mixture) -> Mixture:
        """EM on a table from a mixture, for folds."""
        steps = table_steps(table, mixture.n_classes, self._pseudo_rows(), self.n_jobs)
        return em(
            steps, mixture, max_iter=min(self.max_iter, SEARCH.fold_max_iter), tol=SEARCH.fold_tol, accelerate=True
        ).params

    def _n_init(self, sample: Sample, n_components: int) -> int:
        """Initialisations of a fit; one where all are the same."""
        if n_components == 1 or (self.init != "auto" and self.n_init == "auto"):
            return 1
        return n_init_for(sample.table, n_components) if self.n_init == "auto" else int(self.n_init)

    def _initialisations(
        self, table: AnyTable, sample: Sample, n_components: int, n_init: int
    ) -> list[tuple[str, Mixture]]:
        rng = np.random.default_rng(self._seed())
        if n_components == 1 or self.init == "random":
            names = ["random", *(f"random {k}" for k in range(2, n_init + 1))]
            return [(name, random_init(sample.table, n_components, rng)) for name in names]
        if self.init == "auto":
            return table_inits(sample, n_components, rng, self.n_jobs, n_init)
        if self.init in ("spa", "spa-naive"):
            pairs = count_table_pairs(table, threads=resolve_jobs(self.n_jobs))
            spa = searched_spa if self.init == "spa" else naive_spa
            return [(self.init, spa(sample, sample.counted(pairs), n_components, rng))]
        if table.n_columns < 3:
            raise DataError(f"init='ctd' needs three columns, the table has {table.n_columns}; give init='auto'")
        if isinstance(table, StoredTable):
            raise DataError("init='ctd' needs the rows in memory; give init='auto', or engine='memory'")
        return [("ctd", soften(factor_ctd(in_name_order(table)[0], n_components, rng=rng), sample.view.marginals))]

    def _under(self, table: AnyTable) -> Mixture:
        """This model's mixture under the categories of another table: what it has never seen is as common as in that
        table."""
        marginals, known = marginal_table(table), {column.name: n for n, column in enumerate(self._columns)}
        rows = np.repeat(marginals[:, None], self.n_components_, axis=1)
        for n, column in enumerate(table.columns):
            if column.name in known:
                mine = known[column.name]
                codes = [self._columns[mine].code_of(category) for category in column.categories.tolist()]
                seen = np.flatnonzero(np.array(codes) >= 0)
                rows[table.column_offsets[n] + seen] = self.profiles_[mine].T[np.array(codes)[seen]]
        if not set(known) & {column.name for column in table.columns}:
            raise DataError(
                f"the model given as init knows none of the table's columns ({list(known)[:8]}); give one that does"
            )
        return Mixture(
            self.weights_, normalise_tables(rows + PROBABILITY_FLOOR, table.column_offsets), table.column_offsets
        )

    def _fit_at(
        self,
        table: AnyTable,
        n_components: int,
        *,
        compared: Literal["short", "long"] | None = None,
        quick: bool = False,
        checkpoint_file: TableCheckpoint | None = None,
        decided: dict[str, Any] | None = None,
    ) -> FitAt:
        """The best of the initialisations at a number of classes.

        Fits that are only `compared`, of a short table or of a sample of a long one, have fewer initialisations and may
        stop earlier; `quick` ones have four at the most, of which one is run to the end, as on samples of long tables.
        """
        smoothing, resume_from = self._pseudo_rows(), None
        n_cells = max(float(table.singles().sum()), 1.0)
        em_options: dict[str, Any] = {"max_iter": self.max_iter, "tol": min(self.tol, SETTLED / n_cells)}
        em_options["callback"] = self._progress("EM")
        if checkpoint_file is not None and checkpoint_file.saved is not None:
            name, resume_from = checkpoint_file.saved.decided["start"], checkpoint_file.saved.resume_from
            init = resume_from.params
        elif isinstance(self.init, LatentClass):
            name, init = "a fitted model", self.init._under(table)
        else:
            sample = draw_sample(table, SAMPLE_ROWS, self._seed())
            n_init = self._n_init(sample, n_components)
            if compared:
                n_init = min(
                    n_init,
                    SEARCH.choice_init if compared == "short" else max(MIN_INIT, n_init // SEARCH.long_table_divisor),
                )
            costly = self.n_init == "auto" and 1 < n_init <= MIN_INIT
            if sample.whole and not quick and not costly:
                em_options["tail_gain"] = min(self.tol * n_cells, SEARCH.choice_tail_gain if compared else TAIL_GAIN)
                inits = self._initialisations(table, sample, n_components, n_init)
                best = select_by_multistart(sample, inits, smoothing, self.n_jobs, **em_options)
                return FitAt(best.name, _as_given(best.refined, sample, table), best.replication)
            inits = self._initialisations(table, sample, n_components, min(n_init, MIN_INIT) if quick else n_init)
            name, first = inits[0]
            if sample.whole or len(inits) > 1:
                selected = select_by_halving(sample, inits, smoothing, self.n_jobs, **em_options)
                name, first = selected.name, selected.refined.params
            if sample.whole:
                return FitAt(name, _as_given(selected.refined, sample, table))
            init = sample.mixture_as_given(first, table.column_offsets)
            name = f"{name}, made from a sample of {SAMPLE_ROWS:,} rows"
        steps = table_steps(table, n_components, smoothing, self.n_jobs, self.engine)
        on_iteration = None if checkpoint_file is None else checkpoint_file.writer({**(decided or {}), "start": name})
        if table.n_rows <= SAMPLE_ROWS:  # beyond, `SETTLED` alone: half a nat is what each parameter is uncertain by
            em_options["tail_gain"] = min(self.tol * n_cells, TAIL_GAIN)
        return FitAt(
            name, em(steps, init, accelerate=True, resume_from=resume_from, on_iteration=on_iteration, **em_options)
        )

    # ------------------------------------------------------------ results

    def _examine(self, notes: list[str]) -> Examination:
        rows = self._rows_seen()
        if rows is None:
            return unexamined(self._scale.effective)
        if rows.n_rows > SEARCH.examined_rows:
            notes.append(f"the verdict looked at {SEARCH.examined_rows:,} of {rows.n_rows:,} rows")
        if isinstance(rows, StoredTable) or rows.n_rows > SEARCH.examined_rows:
            rows = sample_rows(rows, SEARCH.examined_rows, self._seed())
        return examine_table(
            rows, self._mixture, converged=self.converged_, replication=self._replication, selection=self.selection_
        )

    def fit_indices(self, X: Any = None, sample_weight: Any = None) -> dict[str, float]:
        """Log-likelihood, parameters, AIC, AIC3, BIC, SABIC, CAIC (smaller is better) and entropy R².

        They are those of the fitted parameters: with `smoothing` above 0 the likelihood lies a little below its
        maximum, which the criteria are defined at; fit with ``smoothing=0`` to compare them with other programs.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns) or None, default=None
            Rows with the columns of the fit; None: the rows of the fit.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        dict
            The indices by name. `n_rows` is the sample size: rows, or with sampling weights Kish's effective number,
            to which the log-likelihood is scaled too.
        """
        with one_blas_thread():
            return fit_indices(self._rows(X, sample_weight), self._mixture, n_jobs=self.n_jobs)

    def compare(self, X: Any, numbers: Iterable[int] = range(1, 11), sample_weight: Any = None) -> Any:
        """Fit every number of classes and lay their indices side by side; this model stays as it is.

        A fitted model given as `init` has one number of classes only: the fits are then initialised by
        ``init="auto"``.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Categorical columns, missing values allowed.
        numbers : iterable of int, default=range(1, 11)
            Numbers of classes.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        frame
            One row per number of classes: every index of `fit_indices`, and the weight of the smallest class.

        Examples
        --------
        >>> import numpy as np
        >>> from latentfit import LatentClass
        >>> rows = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
        >>> LatentClass().compare(rows, [1, 2])["n_components"].to_pylist()
        [1, 2]
        """
        model = clone(self)
        if isinstance(self.init, TableModel):
            model.init = "auto"
        with one_blas_thread():
            table = _in_memory(model._read_rows(X, sample_weight))
            rows: list[dict[str, float]] = []
            for number in candidate_numbers(
                [int(number) for number in numbers if 1 <= number <= table.n_observations], "classes"
            ):
                mixture = model._fit_at(table, number).refined.params
                smallest = float(mixture.weights.min())
                rows.append({"n_components": number, **fit_indices(table, mixture), "smallest": smallest})
        names = rows[0] if rows else ["n_components"]
        return build_frame({name: [row[name] for row in rows] for name in names}, model._backend)

    def bootstrap(
        self, X: Any = None, sample_weight: Any = None, *, n_draws: int = 100, level: float = 0.95
    ) -> Intervals:
        """Standard errors and intervals of weights and profiles from resampled rows, classes matched to the fit's.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns) or None, default=None
            Rows with the columns of the fit; None: the rows of the fit.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows; rows with sampling weights are resampled like others and keep their weights.
        n_draws : int, default=100
            Number of resampled tables.
        level : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        Intervals
        """
        with one_blas_thread():
            resampled = bootstrap_mixture(
                self._rows(X, sample_weight), self._mixture, n_draws=n_draws, level=level,
                smoothing=self._pseudo_rows(), random_state=self._seed(), n_jobs=self.n_jobs,
            )  # fmt: skip
        classes = np.arange(self.n_components_)
        weights = {"class": classes, "weight": self.weights_, "se": resampled.weights_se,
                   "low": resampled.weights_low, "high": resampled.weights_high}  # fmt: skip
        cells = [(str(column.name), str(one)) for column in self._columns for one in column.categories.tolist()]
        names, categories = np.array(cells, object).T
        profiles = {"class": np.repeat(classes, len(cells)), "column": np.tile(names, len(classes)),
                    "category": np.tile(categories, len(classes))}  # fmt: skip
        values = {"probability": self._mixture.table, "se": resampled.table_se,
                  "low": resampled.table_low, "high": resampled.table_high}  # fmt: skip
        profiles |= {name: table.T.reshape(-1) for name, table in values.items()}
        return Intervals(build_frame(weights, self._backend), build_frame(profiles, self._backend), level, n_draws)

    def ratio_test(
        self, X: Any = None, sample_weight: Any = None, *, n_draws: int = 99, alpha: float = 0.05
    ) -> RatioTest:
        """Bootstrap likelihood-ratio test: is one class more needed? A small `p_value` says yes.

        With sampling weights the ratio is one of pseudo-likelihoods, and so are the simulated ones: their rows have the
        weights of the data. That holds where weights do not depend on the answers; else it is an approximation.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns) or None, default=None
            Rows with the columns of the fit; None: the rows of the fit.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.
        n_draws : int, default=99
            Largest number of simulated tables; the test stops as soon as its answer at level `alpha` is known.
        alpha : float, default=0.05
            Level of the test.

        Returns
        -------
        RatioTest
            `statistic`, `p_value`, `n_draws`, the `simulated` statistics, and the `alternative` mixture.
        """
        with one_blas_thread():
            return ratio_test(
                self._rows(X, sample_weight), self._mixture, n_draws=n_draws, alpha=alpha,
                smoothing=self._pseudo_rows(), random_state=self._seed(), n_jobs=self.n_jobs,
            )  # fmt: skip

    def _rows(self, X: Any, sample_weight: Any) -> Table:
        """The coded rows given, or those of the fit and all that joined them."""
        check_is_fitted(self)
        if isinstance(X, int | float | np.number):
            raise DataError(f"found the number {X!r} where rows stand; name what it is: n_draws={X!r}")
        if X is not None:
            return group_rows(self._read_new(X, sample_weight))
        if not hasattr(self, "_table"):
            raise DataError("a model from a file keeps no rows; give them: X=…")
        if (table := self._rows_seen()) is None:
            raise DataError("the rows from before partial_fit are not kept; give all of them: X=…")
        return _in_memory(table)

    def _rows_seen(self) -> Any:
        """The rows of the fit and all that joined them; None where they are not kept."""
        if self._later:
            self._table, self._later = joined_rows([self._table, *self._later]), []
        return self._table

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> Floats:
        """Class memberships as features: the same as `predict_proba`.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
        """
        return self._posterior(X)[0]

    def impute(self, X: Any, *, strategy: Literal["best", "draw"] = "best", random_state: int | None = None) -> Any:
        """Fill every missing cell of known columns; observed cells stay as they are.

        Parameters
        ----------
        X : frame or array of shape (n, columns)
            Rows with the columns of the fit.
        strategy : {"best", "draw"}
            ``"best"``: the most probable category given the rest of the row; for numbers cut into intervals
            (`bins`) the expected value. ``"draw"``: a draw from the posterior predictive distribution,
            a class for each row and then its missing cells. Use several draws with different `random_state` when
            proportions or associations are computed from the filled table (multiple imputation): best answers
            overstate them. Draws do not include the uncertainty of the fitted parameters.
        random_state : int or None
            Seed of the draws; None is 0.

        Returns
        -------
        filled : the caller's kind of frame or array
        """
        check_is_fitted(self)
        if strategy not in ("best", "draw"):
            raise DataError(f"strategy must be 'best' or 'draw', got {strategy!r}; give one of them")
        X = whole(X)
        posterior = self._posterior(X)[0]
        if strategy == "draw":
            answers = drawn_answers(self._mixture, posterior, np.random.default_rng(seed_of(random_state)))
        else:
            answers = best_answers(self._mixture, posterior)
        return impute_missing(X, self._columns, answers)

    def imputed_cells(self, X: Any) -> Any:
        """What `impute` would fill in, and how sure it is.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.

        Returns
        -------
        cells : frame of shape (n_missing, 4)
            One row per missing value: row (from 0), column, value, probability.
        """
        check_is_fitted(self)
        X = whole(X)
        return build_frame(imputed_values(X, self._columns, self._mixture, self._posterior(X)[0]), backend_of(X))

    def predict_column(self, X: Any, name: Any) -> tuple[NDArray[Any], Floats]:
        """The most probable value of a column given the others of each row, and its probability.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.
        name : str or int
            A column of the fit.

        Returns
        -------
        values : ndarray of shape (n_rows,)
        probabilities : ndarray of shape (n_rows,)
        """
        probabilities = self._column_given_others(X, name)
        categories = self._columns[self.joint_.index(name)].categories
        return np.asarray(categories[probabilities.argmax(axis=1)]), probabilities.max(axis=1)

    def expect_column(self, X: Any, name: Any) -> Floats:
        """The expected value of a column of numbers given the others of each row: least in mean squared error.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.
        name : str or int
            A column of the fit whose categories are numbers.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        values = self.joint_.values_of(name)
        return self._column_given_others(X, name) @ values

    def _column_given_others(self, X: Any, name: Any) -> Floats:
        check_is_fitted(self)
        n = self.joint_.index(name)
        table = self._read_new(X, None)
        codes = table.codes.copy()
        codes[:, n] = np.iinfo(codes.dtype).max
        posterior, _ = posterior_of(MemoryEngine(replace(table, codes=codes), self.n_jobs), self._mixture)
        return column_posterior(self._mixture, posterior, n)

    # -------------------------------------------------------------- input

    def _learner(self) -> LearnColumn:
        return LearnCategories(self.bins)

    def _read(self, X: Any, sample_weight: Any, *, reset: bool = True) -> Table:
        if reset:
            self._backend = backend_of(X)
        X = self._validated(X, reset=reset, **CELLS)
        if reset:
            return read_table(X, bins=self.bins, sample_weight=sample_weight, weight_type=self.weight_type)
        return read_table(
            X, columns=self._columns, sample_weight=sample_weight, weight_type=self.weight_type, group=False
        )

    def _check_options(self) -> None:
        super()._check_options()
        if self.select not in ("heldout", "bic"):
            raise DataError(f"select must be 'heldout' or 'bic', got {self.select!r}; give one of them")
        if not (self.n_init == "auto" or self.n_init is None) and self.n_init < 1:
            raise DataError(f"n_init must be an int >= 1 or 'auto', got {self.n_init}; give 1 or more")
        if not isinstance(self.init, LatentClass) and str(self.init) not in INITS:
            known = ", ".join(repr(name) for name in INITS)
            raise DataError(f"init must be {known} or a fitted LatentClass, got {self.init!r}; give one of them")

    def _number_of(self, init: LatentClass) -> int:
        check_is_fitted(init)
        if self.n_components not in (None, init.n_components_):
            raise DataError(
                f"n_components={self.n_components}, but the model given as init has {init.n_components_} classes; "
                "leave n_components out"
            )
        return init.n_components_

    def _check_number(self, table: AnyTable) -> None:
        if self.n_components is None:
            return
        if self.n_components < 1:
            raise DataError(f"n_components must be an int >= 1 or None, got {self.n_components}; give 1 or more")
        rows = table.n_observations
        if self.n_components > (most := min(rows, WIDEST)):
            raise DataError(
                f"n_components={self.n_components} classes were asked of {rows} rows; ask for {most} at most, "
                "far fewer to learn anything"
            )


def _in_memory(table: AnyTable) -> Table:
    if isinstance(table, StoredTable):
        raise rows_needed("fit_indices, compare, bootstrap and ratio_test", "engine='memory'")
    return table


def rows_needed(who: str, give: str) -> DataError:
    """The sentence for rows in a file, where they are needed in memory."""
    return DataError(f"{who} need the rows in memory; give {give}")


def _times(sums: Sums, factor: float) -> Sums:
    """Sums over rows whose weights are all multiplied by one number."""
    if factor == 1:
        return sums
    return Sums(factor * sums.log_likelihood, factor * sums.totals, factor * sums.table)


def _as_given(refined: EMResult[Mixture, Sums], sample: Sample, table: AnyTable) -> EMResult[Mixture, Sums]:
    """A fit of a sample that holds every row, in the order of the user's table."""
    sums = replace(refined.sums, table=sample.as_given(refined.sums.table))
    return replace(refined, params=sample.mixture_as_given(refined.params, table.column_offsets), sums=sums)


# -----------------------------------------------------------------------------
# Missing values of a categorical table filled inside a pipeline: a latent class model whose `transform` is `impute`.


class LatentClassImputer(OneToOneFeatureMixin, LatentClass):
    """Fill missing cells with their best value given the rest of the row; observed cells stay.

    The best value is the most probable category; for numbers cut into intervals it is the expected value.

    The same model, parameters and attributes as `LatentClass`, but as a step of a pipeline: `transform` gives the
    table back with its missing values filled, in the caller's kind of frame, where that of `LatentClass` gives class
    memberships. Use it before a model that refuses missing values; `LatentClassClassifier` needs no imputation. A
    filled table looks more certain than the data were, so judge what follows by cross-validation with the imputer
    inside the pipeline.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of classes; None chooses it. In a grid search: ``latentclassimputer__n_components``.
    init, n_init, smoothing, select, bins, weight_type, max_iter, tol, random_state, n_jobs, verbose, engine : optional
        As in `LatentClass`.

    Attributes
    ----------
    n_components_, weights_, profiles_, categories_, joint_, selection_, report_
        As in `LatentClass`.
    n_iter_, converged_, log_likelihood_, objective_, objective_path_
        As in `LatentClass`.

    Examples
    --------
    >>> import pandas as pd
    >>> from latentfit import LatentClassImputer
    >>> frame = pd.DataFrame({"sky": ["grey", "blue"] * 30, "rain": ["yes", "no"] * 30})
    >>> incomplete = pd.DataFrame({"sky": ["grey", None], "rain": [None, "no"]})
    >>> LatentClassImputer(2).fit(frame).transform(incomplete).to_numpy().tolist()
    [['grey', 'yes'], ['blue', 'no']]
    """

    _model_name = "LatentClassImputer"

    def transform(self, X: Any) -> Any:
        """X with its missing values filled: the same as `impute`.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            Rows with the columns of the fit.

        Returns
        -------
        filled : frame or array of shape (n_rows, n_columns)
            In the caller's kind of container.
        """
        return self.impute(X)
