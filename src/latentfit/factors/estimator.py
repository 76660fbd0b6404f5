"""Binary latent factors (on/off switches) behind real measurements."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from latentfit.core.checkpoint import CheckpointFile
from latentfit.core.em import EMResult, SolverState
from latentfit.core.errors import DataError, NotIdentifiableError
from latentfit.core.estimator import LatentModel, seed_of
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.matrix import (
    AnyMatrix,
    Matrix,
    check_values,
    read_matrix,
    store_matrix,
    store_scan,
    varying_features,
)
from latentfit.core.model_file import (
    ROUNDING,
    Arrays,
    ModelFile,
    plain_names,
    read_names,
    restore_fit_history,
    typed,
    with_fit_history,
)
from latentfit.core.numbers import is_amount
from latentfit.core.progress import StageClock
from latentfit.core.tensor.binary import SpectralInit, spectral_init
from latentfit.core.tensor.whitened import (
    Spectrum,
    SwitchCount,
    divided,
    estimate_n_switches,
    estimate_noise,
    second_moments,
    spectrum,
)
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.passes import RowPasses, over, passes_for
from latentfit.factors.diagnostics.verdict import examine_switches, on_probabilities
from latentfit.factors.em.least_squares import alternating_least_squares, settle_baseline, weighted_least_squares
from latentfit.factors.em.missing import (
    MOST_WITH_MISSING,
    check_n_switches,
    draw_missing,
    most_likely_observed,
    posterior_observed,
    refine_observed,
)
from latentfit.factors.em.steps import (
    SETTINGS,
    SwitchFit,
    SwitchParams,
    SwitchSolverState,
    SwitchStatistics,
    initial_params,
    most_likely,
    posterior,
    refine_switches,
    squares_of,
    way_to_sum,
)
from latentfit.factors.init import factor_independent, fill_rows, greedy_params, selected_params
from latentfit.factors.select import MOST_TESTED, count_observed_switches, determined, unequal_noise
from latentfit.io.scan import Scan, whole

Search = Literal["auto", "newton", "power", "independent"]
Refine = Literal["em", "wls", "als"]
Filter = Literal["auto", "ks", "rounding", "exact"]
FeatureNoise = Literal["equal", "unequal"]

MOST_FOUND = 12
"""Switches that are looked for when no number is given."""
COMPARED_ITERATIONS = 60
"""EM iterations on the observed cells after which initialisations are compared, where values are missing."""
MOST_FILLS = 4
"""Completions of the rows at most that initialisations start from, where values are missing."""
AGREED = 0.1
"""Nats by which two initialisations may differ that reached the same optimum; the earlier one is then taken, so that
rounding does not decide."""
SEEDS_PER_FILL = 16
"""Seeds that the draws of one completion may use: they take the next few numbers."""

Attempt = tuple[SpectralInit | None, SwitchFit, list[str]]
"""An initialisation, the fit that came of it, and its notes."""


def _best(attempts: list[Attempt]) -> list[Attempt]:
    """Those that reached the highest objective, in their order."""
    highest = max(fitted.objective for _, fitted, _ in attempts)
    return [attempt for attempt in attempts if attempt[1].objective > highest - AGREED]


class BinaryFactors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LatentModel):
    r"""Binary latent factor model: each row is a sum of the weights of the on/off factors (switches) that are on.

    :math:`x = W^\top h + \sigma\xi` with :math:`h \in \{0, 1\}^d` of any joint distribution: switches may depend on one
    another. Overlapping clusters, binary sources and mixtures of either are such data. Initial weights come from the
    eigenpairs of a whitened third moment; EM for the exact model refines them.

    Cells may be missing (NaN, at random): EM maximises the likelihood of the observed cells; its initialisation draws
    the missing ones from probabilistic PCA. That needs the rows in memory, noise of one size, and at most 14 switches.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of switches d, at most the number of features and at most 20; None estimates it from the eigenvalues.
    search : {"auto", "newton", "power", "independent"}, default="auto"
        How initial weights are found: ``"auto"`` finds candidates by Newton and Levenberg–Marquardt steps, ``"newton"``
        as the paper does (the d best scores as they are), ``"power"`` takes power-stable pairs only (switches that
        exclude one another), ``"independent"`` uses centred moments (switches independent of one another).
    refine : {"em", "wls", "als"} or None, default="em"
        Refinement of the initial weights: ``"em"`` expectation maximisation, ``"wls"`` the paper's weighted
        least-squares step, ``"als"`` alternating least squares; None uses the spectral weights.
    filter : {"auto", "ks", "rounding", "exact"}, default="auto"
        How candidates are scored: ``"ks"`` Kolmogorov–Smirnov, ``"rounding"`` distance from rounded values, ``"exact"``
        values 0 and 1 only; ``"auto"`` is exact without noise and KS with it.
    noise : float or None, default=None
        Standard deviation of the noise if it is known; it is then held fixed during EM. None estimates it.
    feature_noise : {"equal", "unequal"}, default="equal"
        ``"equal"``: noise of one standard deviation in all features. ``"unequal"``: each feature has its own, estimated
        by factor analysis; features are divided by it for the fit, and results are given on the original scale. It
        needs more rows than features and several features per switch; a switch that moves one feature alone cannot
        then be distinguished from that feature's noise.
    split : bool, default=False
        Use half of the rows for moments and the others for scores, as the paper's proofs do.
    max_iter : int, default=500
        Maximum number of iterations; 0 evaluates the initial parameters.
    tol : float, default=1e-7
        EM stops when an iteration gains less than `tol` nats per cell. ``"als"`` stops when no switch changes, unless
        `tol` is 0.
    random_state : int, RandomState instance, Generator or None, default=None
        Seed of all random numbers; None is 0.
    n_jobs : int or None, default=None
        Accepted as by every model; the work is matrix products on one thread, and results never depend on it.
    verbose : int, default=0
        1 reports the stages of the fit and the iterations of EM on stderr.
    engine : str, default="auto"
        ``"memory"``, ``"stream"`` (rows in a flat file, read block by block), ``"dask"`` or ``"dask=ADDRESS"``: the
        same bits; ``"auto"`` streams what `latentfit.scan` names and holds all else in memory. Missing values need
        ``"memory"``, which also reads what `latentfit.scan` names; ``"stream"`` and ``"dask"`` refuse them.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        What each switch adds to every feature, the most frequent switch first.
    switch_probabilities_ : ndarray of shape (n_components,)
        Proportion of rows in which each switch is on.
    joint_probabilities_ : ndarray of shape (2 ** n_components,)
        P(h) of every on/off vector; switch i is bit i of the position.
    noise_ : float
        Standard deviation of the noise; the geometric mean over features where they differ.
    feature_noise_ : ndarray of shape (n_features,)
        Standard deviation of the noise of each feature; 0 for a constant one.
    n_components_ : int
        Number of switches.
    selection_ : dict or None
        How the number of switches was estimated; None if it was given.
    log_likelihood_ : float
        Log-likelihood of the rows, in nats.
    objective_ : float
        Log-likelihood plus the log-prior of P(h).
    objective_path_ : ndarray of shape (n_values,)
        Objective of the initial parameters and after every iteration.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether EM converged within `max_iter` iterations.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the data have string names.
    report_ : latentfit.core.verdict.FitReport
        Verdict with reasons and diagnostics.

    Examples
    --------
    >>> from latentfit import BinaryFactors
    >>> from latentfit.simulate import binary_factors
    >>> data = binary_factors(2000, m=10, d=3, sigma=0.1, random_state=0)
    >>> model = BinaryFactors().fit(data.X)
    >>> model.components_.shape, round(model.noise_, 2)
    ((3, 10), 0.1)
    >>> model.predict(data.X[:2]).shape
    (2, 3)
    """

    _model_name = "BinaryFactors"
    _takes = ("allow_nan",)
    _engines = ("auto", "memory", "stream", "dask")
    _for_report = ("_passes", "_spectral", "_eigen", "_last", "_missing", "_clock")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        search: Search = "auto",
        refine: Refine | None = "em",
        filter: Filter = "auto",
        noise: float | None = None,
        feature_noise: FeatureNoise = "equal",
        split: bool = False,
        max_iter: int = 500,
        tol: float = 1e-7,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.search = search
        self.refine = refine
        self.filter = filter
        self.noise = noise
        self.feature_noise = feature_noise
        self.split = split
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | os.PathLike[str] | None = None, resume: bool = False
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features), or latentfit.scan
            Rows of numbers; NaN marks a missing value.
        y : ignored
            Present for scikit-learn's API.
        checkpoint : path, optional
            File to which a long fit writes its solver state every few seconds; it is removed when the fit has ended.
        resume : bool, default=False
            Continue from `checkpoint`; the result has the same bits as an uninterrupted fit.

        Returns
        -------
        self : BinaryFactors
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                given = self._read_rows(X)
                self._used_features = varying_features(given)
                self._constant = np.where(self._used_features, 0.0, given.first)
                matrix = given if self._used_features.all() else given.take_features(self._used_features)
                matrix, observed = self._informative(matrix)
                counted = None
                if observed is not None:
                    filled, counted = self._filled(observed)
                    matrix = Matrix(filled, matrix.names)
                rows = passes_for(matrix, self.engine, self._seed())
            with clock.stage("moments"):
                rows, unequal = self._equalise(rows)
                eigen = spectrum(rows)
                checkpoint_file = None
                if checkpoint is not None:
                    key = matrix_key(eigen, matrix.names)
                    checkpoint_file = SwitchCheckpoint(checkpoint, key, self._settings(), resume=resume)
            with clock.stage("number"):
                counted = counted or unequal
                d, count = self._choose(eigen) if counted is None else (counted.d, counted)
                count = None if self.n_components is not None else count
            with clock.stage("factor"):
                init, params, notes = self._starts(rows, d, eigen)
            with clock.stage("refine"):
                if observed is None:
                    refined, notes = self._refine_settled(rows, init, params, notes, checkpoint_file)
                else:
                    init, refined, notes = self._refine_observed(observed, rows, (init, params, notes), checkpoint_file)
                    matrix = Matrix(draw_missing(observed, refined.params, self._seed()), matrix.names)
                    rows = passes_for(matrix, self.engine, self._seed())
                    eigen = spectrum(rows)
        self._missing = observed
        self._names = matrix.names
        self._keep(rows, init, refined, count, notes)
        self._clock, self._eigen = clock, eigen
        if checkpoint_file is not None:
            checkpoint_file.done()
        self._warn_limit("EM" if self.refine == "em" else "alternating least squares")
        return self

    def _informative(self, matrix: AnyMatrix) -> tuple[AnyMatrix, Floats | None]:
        """Rows that hold a value, since the others are no evidence; and their values if some are missing (NaN)."""
        if not isinstance(matrix, Matrix) or not matrix.has_missing:
            return matrix, None
        some = ~np.isnan(matrix.values).all(axis=1)
        self._check_rows(int(some.sum()))
        matrix = matrix if some.all() else Matrix(np.ascontiguousarray(matrix.values[some]), matrix.names)
        return matrix, matrix.values if matrix.has_missing else None

    def _filled(self, values: Floats) -> tuple[Floats, SwitchCount | None]:
        """Complete rows for the moments, and the number of switches where it is not given.

        The number is tested on the observed cells; of too many features, or where there is no noise to test against, it
        is the least rank that explains its own draws.
        """
        if self.feature_noise == "unequal":
            raise DataError(
                "feature_noise must be 'equal' where values are missing, got 'unequal'; give feature_noise='equal', or "
                "fill the missing values first"
            )
        largest, d, count = max(values.shape[1] - 1, 0), self.n_components, None
        if d is not None:
            check_n_switches(d)
        elif values.shape[1] <= MOST_TESTED and self.noise != 0:
            count = count_observed_switches(values, MOST_FOUND, self.noise, self._seed())
            d = count.d
        if d is not None:
            return fill_rows(values, min(d, largest), self._seed()), count
        for rank in range(1, MOST_FOUND + 1):
            filled = fill_rows(values, min(rank, largest), self._seed())
            count = estimate_n_switches(spectrum(over(filled)), MOST_FOUND, self.noise)
            if rank >= largest or count.d <= rank:
                break
        return filled, count

    def _refine_settled(
        self,
        rows: RowPasses,
        init: SpectralInit | None,
        params: SwitchParams,
        notes: list[str],
        checkpoint_file: SwitchCheckpoint | None,
    ) -> tuple[SwitchFit, list[str]]:
        """The chosen refinement, and the second EM run where one switch is a baseline."""
        refined = self._refine(rows, params, checkpoint_file)
        if self.refine == "em" and self.max_iter and not (init is not None and init.exclusive):
            options = self._em_options(checkpoint_file, refined)
            refined, note = settle_baseline(rows, refined, max_iter=self.max_iter, **options)
            notes = notes + ([note] if note else [])
        return refined, notes

    def _refine_observed(
        self,
        values: Floats,
        rows: RowPasses,
        first: tuple[SpectralInit | None, SwitchParams, list[str]],
        checkpoint_file: SwitchCheckpoint | None,
    ) -> tuple[SpectralInit | None, SwitchFit, list[str]]:
        """EM on the observed cells from the best of several initialisations, by their objective after a few iterations.

        They come in pairs: of rows completed by a Gaussian model, which lack the third moments of missing cells, and of
        rows completed by that fit, which has them. Pairs with other draws follow until the best objective was reached
        twice.
        """
        init, params, notes = first
        refined, notes = self._refine_settled(rows, init, params, notes, None)
        note = f"{np.isnan(values).mean():.1%} of the cells are missing"
        if self.refine != "em" or not self.max_iter:
            at_init = refine_observed(values, refined.params, noise=self.noise, max_iter=0, tol=self.tol)
            notes = [*notes, f"{note}; the weights are those of rows completed by draws from a Gaussian model"]
            return init, replace(at_init, n_iter=refined.n_iter, converged=refined.converged), notes
        attempts: list[Attempt] = []
        for fill in range(MOST_FILLS):
            seed, d = self._seed() + SEEDS_PER_FILL * fill, refined.params.d
            if fill:
                init, refined, notes = self._initialised(fill_rows(values, min(d, values.shape[1] - 1), seed), d)
            pair = [(init, self._compared(values, refined), notes)]
            init, refined, notes = self._initialised(draw_missing(values, pair[0][1].params, seed), d)
            pair.append((init, self._compared(values, refined), notes))
            attempts.append(_best(pair)[0])
            if len(_best(attempts)) > 1:
                break
        init, fitted, notes = _best(attempts)[0]
        notes = [*notes, f"{note}; EM used the observed ones"]
        left = self.max_iter - fitted.n_iter
        if fitted.converged or left <= 0:
            return init, fitted, notes
        last = refine_observed(values, fitted.params, max_iter=left, **self._em_options(checkpoint_file))
        return init, replace(last, n_iter=fitted.n_iter + last.n_iter, path=fitted.path + last.path[1:]), notes

    def _initialised(self, filled: Floats, d: int) -> Attempt:
        """A complete fit of completed rows."""
        rows = over(filled)
        init, params, notes = self._starts(rows, d, spectrum(rows))
        refined, notes = self._refine_settled(rows, init, params, notes, None)
        return init, refined, notes

    def _compared(self, values: Floats, refined: SwitchFit) -> SwitchFit:
        """EM on the observed cells for as many iterations as initialisations are compared after."""
        most = min(COMPARED_ITERATIONS, self.max_iter)
        return refine_observed(values, refined.params, noise=self.noise, max_iter=most, tol=self.tol)

    def _equalise(self, rows: RowPasses) -> tuple[RowPasses, SwitchCount | None]:
        """Rows whose features have noise of one size, and the number of switches that goes with it.

        The scale has geometric mean one, so that densities are those of the rows as they came.
        """
        self._scale, self._last = np.ones(rows.n_features), None
        if self.feature_noise == "equal":
            return rows, None
        m, d = rows.n_features, self.n_components
        found, most = None, min(MOST_FOUND, m - 1)
        if rows.n_rows > m:
            moments = second_moments(rows)
            found = unequal_noise(moments.product / moments.n, moments.n, most=most, d=d)
        if found is None and d is None and rows.n_rows > m and determined(m, most):
            raise NotIdentifiableError(
                f"{most} switches do not explain the {m} features beside unequal noise, and more are not searched for; "
                "give n_components (--components), or feature_noise='equal'"
            )
        if found is None:
            raise NotIdentifiableError(
                f"the noise of each of {m} features cannot be estimated beside {'the' if d is None else d} switches in "
                f"{rows.n_rows} rows; bring more rows or features, or give feature_noise='equal'"
            )
        logs = np.log(found.variances) / 2
        self._scale, self._last = np.exp(logs - logs.mean()), found.last
        return rows.mapped(divided, self._scale), found.count

    def _choose(self, eigen: Spectrum) -> tuple[int, SwitchCount | None]:
        """d as given or estimated; raises if too large."""
        rank = int((eigen.values > 1e-12 * eigen.values[0]).sum())
        d = self.n_components
        if d is None:
            count = estimate_n_switches(eigen, MOST_FOUND, self.noise)
            return count.d, count
        if d > eigen.m or d > rank:
            what = f"{eigen.m} features that change" if d > eigen.m else f"data of rank {rank}"
            raise NotIdentifiableError(
                f"n_components must be at most {min(rank, eigen.m)} for {what}, got {d}: the weights of more switches "
                "are not identifiable; ask for fewer"
            )
        return d, None

    def _starts(self, X: RowPasses, d: int, eigen: Spectrum) -> tuple[SpectralInit | None, SwitchParams, list[str]]:
        """Candidates, the choice among them, and initial parameters of EM."""
        rng = np.random.default_rng(self._seed())
        if self.search == "independent":
            sigma2 = estimate_noise(eigen, d) if self.noise is None else self.noise**2
            found = factor_independent(X, d, sigma2, rng=rng)
            left = f"independent switches: {found.residual:.0%} of the centred tensor is left over"
            return None, initial_params(found.W, found.probability, sigma2), [left]
        init = spectral_init(
            X, d, sigma=self.noise, search=self.search, filter_=None if self.filter == "auto" else self.filter,
            split=self.split, rng=rng, spectrum_=eigen,
        )  # fmt: skip
        if self.search == "auto" and self.refine == "em" and self.max_iter > 0:
            params, note = selected_params(X, init, rng, self.noise)
            return init, params, [*init.notes, *([note] if note else [])]
        return init, greedy_params(init), list(init.notes)

    def _refine(self, X: RowPasses, params: SwitchParams, checkpoint_file: SwitchCheckpoint | None) -> SwitchFit:
        """The chosen refinement; all but EM change the weights alone."""
        if self.refine == "em":
            if checkpoint_file is not None and checkpoint_file.saved is not None and checkpoint_file.saved.first:
                return checkpoint_file.saved.first
            return refine_switches(X, params, max_iter=self.max_iter, **self._em_options(checkpoint_file))
        W, n_iter, converged = params.W, 0, self.refine is None or self.max_iter > 0
        if self.refine == "wls" and self.max_iter:
            W = weighted_least_squares(X.whole(), W, float(np.sqrt(params.sigma2)))
        elif self.refine == "als" and self.max_iter:
            first = (X.whole() @ np.linalg.pinv(W) > 0.5).astype(np.float64)
            W, _, n_iter, converged = alternating_least_squares(
                X.whole(), first, max_iter=self.max_iter, stop=self.tol > 0
            )
        evaluated = refine_switches(X, replace(params, W=W), noise=self.noise, max_iter=0, tol=self.tol)
        return replace(evaluated, n_iter=n_iter, converged=converged)

    def _em_options(self, checkpoint_file: SwitchCheckpoint | None, first: SwitchFit | None = None) -> dict[str, Any]:
        """Options of an EM run; `first` is the result of the run before it."""
        saved = {} if checkpoint_file is None else checkpoint_file.options(first)
        return {"noise": self.noise, "tol": self.tol, "callback": self._progress("EM"), **saved}

    def _keep(
        self,
        rows: RowPasses,
        init: SpectralInit | None,
        refined: SwitchFit,
        count: SwitchCount | None,
        notes: list[str],
    ) -> None:
        """Hold the fit, most frequent switch first."""
        self._forget()
        order = np.argsort(-on_probabilities(refined.params), kind="stable")
        self._publish(refined.params.permuted(order))
        self._passes, self._spectral = rows, init
        self._keep_fit(refined)
        square = squares_of(rows) / (rows.n_rows * rows.n_features)
        self.noise_ = (
            0.0 if self._params.sigma2 <= 2 * SETTINGS.noise_floor * square else float(np.sqrt(self._params.sigma2))
        )
        self.selection_ = None
        if count is not None:
            by = "rank" if count.noise_free else "eigenvalues above the noise"
            by += " of each feature" if self.feature_noise == "unequal" else ""
            self.selection_ = {"n_components": count.d, "by": by, "margins": [float(v) for v in count.margins]}
            notes = [f"{count.d} switches by {by}", *notes]
        how = way_to_sum(self._params)
        if how != "all" and self.refine == "em" and self.max_iter:
            notes = [*notes, f"EM summed the states within Hamming distance {how[-1]} of the best one of each row"]
        self._notes = notes

    def _publish(self, params: SwitchParams) -> None:
        """Parameters under their public names; features set aside weigh nothing."""
        self._params = params
        self.components_ = np.zeros((params.d, len(self._used_features)))
        self.components_[:, self._used_features] = params.W * self._scale
        self.switch_probabilities_ = on_probabilities(params)
        self.joint_probabilities_ = np.exp(params.log_prior)
        self.n_components_ = self._n_features_out = params.d

    # ------------------------------------------------------------ results

    @property
    def feature_noise_(self) -> Floats:
        """Standard deviation of the noise of each feature, ndarray of shape (n_features,); 0 for a constant one."""
        check_is_fitted(self)
        out = np.zeros(len(self._used_features))
        out[self._used_features] = self.noise_ * self._scale
        return out

    def _examine(self, notes: list[str]) -> Examination:
        return examine_switches(
            self._passes, self._params, self._spectral, self._eigen,
            converged=self.converged_, seed=self._seed(), noise=self.noise, last=self._last, missing=self._missing,
        )  # fmt: skip

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> Floats:
        """Posterior probabilities of the switches.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers; NaN marks a missing value.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            P(switch on | row); a row's result does not depend on the other rows.
        """
        return self._posterior(X)[0]

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The most likely on/off vector of every row.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers; NaN marks a missing value.

        Returns
        -------
        ndarray of int of shape (n_samples, n_components)
        """
        rows, incomplete = self._rows(X)
        on = np.empty((len(rows), self.n_components_), np.int64)
        with one_blas_thread():
            on[~incomplete] = most_likely(rows[~incomplete], self._params)
            if incomplete.any():
                on[incomplete] = most_likely_observed(rows[incomplete], self._params)
        return on

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of every row, in nats.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers; NaN marks a missing value.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._posterior(X)[1]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood per row, in nats.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows of numbers; NaN marks a missing value.
        y : ignored
            Present for scikit-learn's API.

        Returns
        -------
        float
        """
        return float(self.score_samples(X).mean())

    def inverse_transform(self, H: Any) -> Floats:
        """Rows that switches, or their probabilities, add up to.

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Switches (0 or 1) or probabilities.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        H = np.asarray(H, np.float64)
        if H.ndim != 2 or H.shape[1] != self.n_components_:
            raise DataError(
                f"switches must have shape (n_samples, {self.n_components_}), got {H.shape}; give one column per switch"
            )
        return np.asarray(H @ self.components_ + self._constant)

    def sample(self, n: int = 1, random_state: int | None = None) -> Any:
        """Draw rows from the fitted model.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int or None, default=None
            Seed; None is 0.

        Returns
        -------
        frame of shape (n, n_features)
            In the kind of frame that the model was fitted to.
        """
        check_is_fitted(self)
        rng = np.random.default_rng(seed_of(random_state))
        drawn = rng.choice(len(self.joint_probabilities_), size=n, p=self.joint_probabilities_)
        h = (drawn[:, None] >> np.arange(self.n_components_)) & 1
        noise = rng.standard_normal((n, self.n_features_in_))
        rows = self.inverse_transform(h) + self.feature_noise_ * noise
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return build_frame({str(name): rows[:, at] for at, name in enumerate(names)}, self._backend)

    def _posterior(self, X: Any) -> tuple[Floats, Floats]:
        rows, incomplete = self._rows(X)
        on, logs = np.empty((len(rows), self.n_components_)), np.empty(len(rows))
        with one_blas_thread():
            on[~incomplete], logs[~incomplete] = posterior(rows[~incomplete], self._params)
            if incomplete.any():
                on[incomplete], logs[incomplete] = posterior_observed(rows[incomplete], self._params)
        return on, logs

    def _rows(self, X: Any) -> tuple[Floats, NDArray[np.bool_]]:
        """Rows of the features of the fit, on its scale, and which of them miss a value."""
        check_is_fitted(self)
        rows = np.ascontiguousarray(self._read(whole(X), reset=False).values[:, self._used_features])
        incomplete = np.asarray(np.isnan(rows).any(axis=1))
        if self.n_components_ > MOST_WITH_MISSING and incomplete.any():
            raise DataError(
                f"rows must be complete for a model of more than {MOST_WITH_MISSING} switches, got missing values "
                f"(NaN) for one of {self.n_components_}; fill the missing values, or leave these rows out"
            )
        return rows if self.feature_noise == "equal" else divided(rows, self._scale), incomplete

    # -------------------------------------------------------------- input

    def _read_rows(self, X: Any) -> AnyMatrix:
        """Rows in memory, or in a file (`latentfit.scan`, or engine="stream"); wide ones are read into memory."""
        if isinstance(X, Scan) and self.engine == "memory":
            return self._read(whole(X))
        if isinstance(X, Scan):
            self._backend, matrix = "pyarrow", store_scan(X)
            self._name_features(matrix.names)
            self._check_rows(matrix.n_rows)
        else:
            read = self._read(X)
            if self.engine in ("auto", "memory"):
                return read
            check_values(read.values, read.names)
            matrix = store_matrix(read)
        if matrix.n_features > matrix.n_rows:  # then the spectrum is as large as the data
            return matrix.loaded()
        if self.split or self.refine in ("wls", "als"):
            what = "split=True" if self.split else f"refine={self.refine!r}"
            raise DataError(f"{what} needs the rows in memory; leave it out, or give engine='memory'")
        return matrix

    def _read(self, X: Any, *, reset: bool = True) -> Matrix:
        if reset:
            self._backend = backend_of(X)
        least = 2 if reset else 1
        rules = {"dtype": np.float64, "ensure_all_finite": False, "ensure_min_samples": least}
        matrix = read_matrix(self._validated(X, reset=reset, **rules), missing=True)
        self._check_rows(matrix.n_rows, least)
        return matrix

    @staticmethod
    def _check_rows(n_rows: int, least: int = 2) -> None:
        if n_rows < least:
            raise DataError(f"the data has {n_rows} rows (n_samples={n_rows}); give {least} at least")

    def _check_options(self) -> None:
        kinds = {"search": Search, "filter": Filter, "refine": Refine, "feature_noise": FeatureNoise}
        for name, kind in kinds.items():
            value, known = getattr(self, name), ", ".join(get_args(kind)) + (" or None" if name == "refine" else "")
            if value not in get_args(kind) and not (name == "refine" and value is None):
                raise DataError(f"{name} must be one of {known}, got {value!r}; give one of them")
        if self.noise is not None and not is_amount(self.noise):
            raise DataError(f"noise must be a standard deviation >= 0 or None, got {self.noise!r}; give such a number")
        if self.noise is not None and self.feature_noise == "unequal":
            raise DataError(
                f"noise must be None with feature_noise='unequal', got {self.noise!r}; leave it out, or give "
                "feature_noise='equal'"
            )
        if self.n_components is not None and not 1 <= self.n_components <= SETTINGS.most_switches:
            raise DataError(
                f"n_components must be an int from 1 to {SETTINGS.most_switches} or None, got {self.n_components}; "
                "give one"
            )

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = {
            "weights": np.ascontiguousarray(self._params.W),
            "log_prior": self._params.log_prior,
            "constant": np.nan_to_num(self._constant),
            "scale": self._scale,
        }
        metadata = {
            "names": plain_names(self._names),
            "kept": np.flatnonzero(self._used_features).tolist(),
            "empty": np.flatnonzero(
                np.isnan(self._constant)
            ).tolist(),  # features without a value: no constant is known
            "sigma2": float(self._params.sigma2),
            "noise": float(self.noise_),
        }
        return with_fit_history(self, arrays, metadata)

    def _restore(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        W, log_prior = arrays["weights"], arrays["log_prior"]
        names = read_names(metadata, "names")
        if (
            W.ndim != 2
            or not 1 <= len(W) <= SETTINGS.most_switches
            or W.shape[1] != len(names)
            or W.dtype != np.float64
        ):
            raise ValueError(f"weights have shape {W.shape} for {len(names)} features")
        if log_prior.shape != (2 ** len(W),) or log_prior.dtype != np.float64:
            raise ValueError(f"log_prior has shape {log_prior.shape} for {len(W)} switches")
        if abs(float(np.exp(np.minimum(log_prior, 1.0)).sum()) - 1) > ROUNDING:
            raise ValueError("log_prior holds probabilities that do not sum to one")
        restore_fit_history(self, arrays, metadata, names)
        m = self.n_features_in_
        used, empty = typed(metadata, "kept", list), metadata.get("empty", [])  # files of 0.1.0 had no empty features
        for name, places in (("kept", used), ("empty", empty)):
            if not isinstance(places, list) or not all(type(at) is int and 0 <= at < m for at in places):
                raise ValueError(f"{name} names a feature that does not exist")
        if len(used) != len(names) or used != sorted(set(used)):
            raise ValueError(f"kept does not name {len(names)} features, names one twice, or is not in order")
        sigma2, self.noise_ = typed(metadata, "sigma2", float), typed(metadata, "noise", float)
        if sigma2 <= 0 or self.noise_ < 0:
            raise ValueError(f"sigma2 is {sigma2} and noise {self.noise_}")
        self._constant = arrays.get("constant", np.zeros(m)).copy()  # files of 0.1.0 had neither constant nor scale
        if self._constant.shape != (m,) or not np.isfinite(self._constant).all():
            raise ValueError(f"constant has shape {self._constant.shape} for {m} features")
        self._constant[empty] = np.nan
        self._scale = arrays.get("scale", np.ones(len(names)))
        if self._scale.shape != (len(names),) or not (np.isfinite(self._scale) & (self._scale > 0)).all():
            raise ValueError(f"scale has shape {self._scale.shape} for {len(names)} features, or is not positive")
        self._names, self._used_features = tuple(names), np.isin(np.arange(m), used)
        self._publish(SwitchParams(W, log_prior, sigma2))

    _names: tuple[str | int, ...]  # of the features that vary
    _used_features: NDArray[np.bool_]  # which those are
    _scale: Floats  # what they were divided by, so that noise is equal
    _last: tuple[float, float] | None  # the last switch's eigenvalue and its threshold, where noise is unequal
    _missing: Floats | None  # the rows as they came, where values are missing
    _constant: Floats  # what features that were set aside always are


# -----------------------------------------------------------------------------
# The checkpoint of a fit: the solver state of its EM run, and the first run's result during the second.
#
# A fit runs EM once, and once more where one switch is a baseline (`factors/em/least_squares.py`); each run is first in
# the plane of the initialisation, then beyond it. What comes before (moments, search, multi-start selection) is
# computed again when a fit resumes: it takes a few passes over the data and gives the same bits.


@dataclass(frozen=True)
class SavedSwitches:
    """Solver state of an interrupted fit, and the result of its first EM run if that had ended."""

    place: SwitchSolverState
    first: SwitchFit | None


class SwitchCheckpoint(CheckpointFile):
    """The file of one fit of switches."""

    @property
    def saved(self) -> SavedSwitches | None:
        return None if self.file is None else _saved(self.file)

    def options(self, first: SwitchFit | None = None) -> dict[str, Any]:
        """Options of an EM run that continues from this file and is written to it, after the run `first` if any."""
        saved = self.saved
        there = saved is not None and (saved.first is None) == (first is None)
        return {"resume_from": saved.place if saved is not None and there else None, "on_iteration": self.writer(first)}

    def writer(self, first: SwitchFit | None = None) -> Callable[[SwitchSolverState], None]:
        """Callback of an EM run after every iteration; `first` is the result of the run before it."""

        def write(place: SwitchSolverState) -> None:
            if not self.due:
                return
            resume_from, before = place.resume_from, place.before
            arrays = _arrays(resume_from.params, "") | {"path": np.array(resume_from.path)}
            facts: dict[str, Any] = {"n_iter": resume_from.n_iter, "before": None, "first": None}
            if before is not None:
                arrays["before_path"], facts["before"] = np.array(before[1]), before[0]
            if first is not None:
                arrays |= _arrays(first.params, "first_") | {"first_path": np.array(first.path)}
                facts["first"] = [first.n_iter, first.converged, first.log_likelihood, first.objective]
            self.write(arrays, facts)

        return write


def matrix_key(eigen: Spectrum, names: tuple[str | int, ...]) -> str:
    """Key of a matrix: its features and their first two moments."""
    known = hashlib.sha256(repr((eigen.n, names)).encode())
    known.update(eigen.mean.tobytes())
    known.update(eigen.values.tobytes())
    return known.hexdigest()


def _arrays(params: SwitchParams, prefix: str) -> Arrays:
    arrays = {"W": np.ascontiguousarray(params.W), "log_prior": params.log_prior, "sigma2": np.array([params.sigma2])}
    arrays |= {} if params.centres is None else {"centres": params.centres}
    return {prefix + name: array for name, array in arrays.items()}


def _params(arrays: Arrays, prefix: str) -> SwitchParams:
    sigma2 = float(arrays[prefix + "sigma2"][0])
    return SwitchParams(arrays[prefix + "W"], arrays[prefix + "log_prior"], sigma2, arrays.get(prefix + "centres"))


def _saved(file: ModelFile) -> SavedSwitches:
    arrays, facts = file.arrays, file.metadata
    resume_from = SolverState(_params(arrays, ""), int(facts["n_iter"]), arrays["path"].tolist())
    before = None if facts["before"] is None else (int(facts["before"]), arrays["before_path"].tolist())
    first = None
    if facts["first"] is not None:
        n_iter, converged, log_likelihood, objective = facts["first"]
        params, path = _params(arrays, "first_"), arrays["first_path"].tolist()
        statistics = SwitchStatistics(log_likelihood, np.empty(0), np.empty((0, 0)), None)  # no longer used
        first = EMResult(params, statistics, objective, log_likelihood, n_iter, converged, path)
    return SavedSwitches(SwitchSolverState(resume_from, before), first)
