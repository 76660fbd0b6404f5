"""Hidden on/off switches behind real measurements."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

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
from latentfit.core.numbers import is_amount
from latentfit.core.progress import StageClock
from latentfit.core.tensor.init import SpectralStart, SwitchCount, estimate_noise, estimate_number, spectral_start
from latentfit.core.tensor.whitened import Spectrum, divided, second_moments, spectrum
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.passes import RowPasses, over, passes_for
from latentfit.factors.diagnostics.verdict import examine_switches, switch_shares
from latentfit.factors.em.least_squares import alternating_least_squares, settle_baseline, weighted_least_squares
from latentfit.factors.em.missing import (
    MOST_WITH_MISSING,
    check_number,
    draw_missing,
    most_likely_observed,
    posterior_observed,
    refine_observed,
)
from latentfit.factors.em.steps import (
    MOST_SWITCHES,
    NOISE_FLOOR,
    SwitchParams,
    SwitchPlace,
    first_params,
    most_likely,
    posterior,
    refine_switches,
    squares_of,
    way_to_sum,
)
from latentfit.factors.estimator.saved import Climbed, SwitchCheckpoint, matrix_key, restore_switches, switch_state
from latentfit.factors.init.candidates import raced_params, start_params
from latentfit.factors.init.independent import factor_independent
from latentfit.factors.init.missing import fill_rows
from latentfit.factors.init.observed_count import MOST_TESTED, count_observed_switches
from latentfit.factors.init.unequal_noise import determined, unequal_noise
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

Tried = tuple[SpectralStart | None, Climbed, list[str]]
"""An initialisation, the fit that came of it, and its notes."""


def _best(tries: list[Tried]) -> list[Tried]:
    """Those that reached the highest objective, in their order."""
    highest = max(fitted.objective for _, fitted, _ in tries)
    return [tried for tried in tries if tried[1].objective > highest - AGREED]


class BinaryFactors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, LatentModel):
    r"""Find the on/off switches whose weights add up to each row: overlapping clusters, binary sources, mixtures.

    :math:`x = W^\top h + \sigma\xi` with :math:`h \in \{0, 1\}^d` of any joint distribution: switches may depend on one
    another. Weights come from the eigenpairs of a whitened third moment, then EM for the exact model polishes them.

    Cells may be missing (NaN, at random): EM maximises the likelihood of the observed cells; its initialisation draws
    the missing ones from probabilistic PCA. That needs the rows in memory, noise of one size, and at most 14 switches.

    Parameters
    ----------
    n_components : int or None
        Number of switches d, at most the number of features; None estimates it from the eigenvalues.
    search : str
        ``"auto"`` finds candidates by Newton and Levenberg–Marquardt steps, ``"newton"`` as the paper does (the d best
        scores as they are), ``"power"`` takes power-stable pairs only (switches that exclude one another),
        ``"independent"`` centred moments for switches independent of one another. At most 20 switches are fitted.
    refine : str or None
        ``"em"`` (default); ``"wls"`` the paper's weighted least-squares step; ``"als"`` alternating least squares;
        None keeps the spectral weights.
    filter : str
        How candidates are scored: ``"ks"`` Kolmogorov–Smirnov, ``"rounding"`` distance from rounded values, ``"exact"``
        values 0 and 1 only; ``"auto"`` is exact without noise and KS with it.
    noise : float or None
        The noise's standard deviation when it is known; it is kept through EM. None estimates it.
    feature_noise : {"equal", "unequal"}
        ``"equal"`` (default): noise of one standard deviation in all features. ``"unequal"``: each feature has its own,
        estimated by factor analysis; features are divided by it for the fit, and everything is given on their own
        scale again. It needs more rows than features and several features per switch; a switch that moves one feature
        alone cannot then be told from that feature's noise.
    split : bool
        Use half of the rows for moments and the others for scores, as the paper's proofs do.
    max_iter, tol : int, float
        EM stops when an iteration gains less than `tol` nats per cell, or after `max_iter` passes; 0 keeps the start.
        ``"als"`` stops when no switch moves, unless `tol` is 0.
    random_state : int or None
        The one seed; None is 0.
    n_jobs : int or None
        As every model has it; the work is matrix products on one thread, so it changes nothing.
    engine : str
        ``"memory"``, ``"stream"`` (rows in a flat file, read block by block), ``"dask"`` or ``"dask=ADDRESS"``: the
        same bits; ``"auto"`` streams what `latentfit.scan` names and holds all else in memory. Missing values need
        ``"memory"``, which reads what `latentfit.scan` names as a whole; ``"stream"`` and ``"dask"`` refuse them.

    Attributes
    ----------
    components_ : (d, m) what each switch adds to every feature, the most frequent switch first
    switch_probabilities_ : (d,) share of rows in which each switch is on
    joint_probabilities_ : (2^d,) P(h) of every on/off vector; switch i is bit i of the position
    noise_ : standard deviation of the noise; the geometric mean over features where they differ
    feature_noise_ : (m,) standard deviation of the noise of each feature; 0 for one that never changes
    report_ : `latentfit.core.verdict.FitReport`

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
    _for_report = ("_passes", "_start_kept", "_seen", "_last", "_missing", "_clock")

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
        """Find the switches behind rows of numbers (samples × features), or behind files (`latentfit.scan`).

        A long fit keeps its parameters in the file `checkpoint` every few seconds; with `resume` it goes on from there
        and ends with the same bits as without the stop. The file is removed when the fit has ended.
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        with one_blas_thread():
            with clock.stage("data"):
                whole = self._read_rows(X)
                self._kept = varying_features(whole)
                self._constant = np.where(self._kept, 0.0, whole.first)
                matrix = whole.take_features(self._kept) if not self._kept.all() else whole
                matrix, observed = self._informative(matrix)
                counted = None
                if observed is not None:
                    filled, counted = self._filled(observed)
                    matrix = Matrix(filled, matrix.names)
                rows = passes_for(matrix, self.engine, self._seed())
            with clock.stage("moments"):
                rows, unequal = self._equalise(rows)
                seen = spectrum(rows)
                kept = None
                if checkpoint is not None:
                    key = matrix_key(seen, matrix.names)
                    kept = SwitchCheckpoint(checkpoint, key, self._settings(), resume=resume)
            with clock.stage("number"):
                counted = counted or unequal
                d, count = self._choose(seen) if counted is None else (counted.d, counted)
                count = None if self.n_components is not None else count
            with clock.stage("factor"):
                start, params, notes = self._starts(rows, d, seen)
            with clock.stage("refine"):
                if observed is None:
                    refined, notes = self._refine_settled(rows, start, params, notes, kept)
                else:
                    start, refined, notes = self._refine_observed(observed, rows, (start, params, notes), kept)
                    matrix = Matrix(draw_missing(observed, refined.params, self._seed()), matrix.names)
                    rows = passes_for(matrix, self.engine, self._seed())
                    seen = spectrum(rows)
        self._missing = observed
        self._names = matrix.names
        self._keep(rows, start, refined, count, notes)
        self._clock, self._seen = clock, seen
        if kept is not None:
            kept.done()
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
            check_number(d)
        elif values.shape[1] <= MOST_TESTED and self.noise != 0:
            count = count_observed_switches(values, MOST_FOUND, self.noise, self._seed())
            d = count.d
        if d is not None:
            return fill_rows(values, min(d, largest), self._seed()), count
        for rank in range(1, MOST_FOUND + 1):
            filled = fill_rows(values, min(rank, largest), self._seed())
            count = estimate_number(spectrum(over(filled)), MOST_FOUND, self.noise)
            if rank >= largest or count.d <= rank:
                break
        return filled, count

    def _refine_settled(
        self,
        rows: RowPasses,
        start: SpectralStart | None,
        params: SwitchParams,
        notes: list[str],
        kept: SwitchCheckpoint | None,
    ) -> tuple[Climbed, list[str]]:
        """The chosen refinement, and the second EM run where one switch is a baseline."""
        refined = self._refine(rows, params, kept)
        if self.refine == "em" and self.max_iter and not (start is not None and start.exclusive):
            refined, note = self._settle(rows, refined, kept)
            notes = notes + ([note] if note else [])
        return refined, notes

    def _refine_observed(
        self,
        values: Floats,
        rows: RowPasses,
        first: tuple[SpectralStart | None, SwitchParams, list[str]],
        kept: SwitchCheckpoint | None,
    ) -> tuple[SpectralStart | None, Climbed, list[str]]:
        """EM on the observed cells from the best of several initialisations, by their objective after a few iterations.

        They come in pairs: of rows completed by a Gaussian model, which lack the third moments of missing cells, and of
        rows completed by that fit, which has them. Pairs with other draws follow until the best objective was reached
        twice.
        """
        start, params, notes = first
        refined, notes = self._refine_settled(rows, start, params, notes, None)
        note = f"{np.isnan(values).mean():.1%} of the cells are missing"
        if self.refine != "em" or not self.max_iter:
            at_start = refine_observed(values, refined.params, noise=self.noise, max_iter=0, tol=self.tol)
            notes = [*notes, f"{note}; the weights are those of rows completed by draws from a Gaussian model"]
            return start, replace(at_start, n_iter=refined.n_iter, converged=refined.converged), notes
        tries: list[Tried] = []
        for fill in range(MOST_FILLS):
            seed, d = self._seed() + SEEDS_PER_FILL * fill, refined.params.d
            if fill:
                start, refined, notes = self._initialised(fill_rows(values, min(d, values.shape[1] - 1), seed), d)
            pair = [(start, self._compared(values, refined), notes)]
            start, refined, notes = self._initialised(draw_missing(values, pair[0][1].params, seed), d)
            pair.append((start, self._compared(values, refined), notes))
            tries.append(_best(pair)[0])
            if len(_best(tries)) > 1:
                break
        start, fitted, notes = _best(tries)[0]
        notes = [*notes, f"{note}; EM used the observed ones"]
        left = self.max_iter - fitted.n_iter
        if fitted.converged or left <= 0:
            return start, fitted, notes
        keep = None if kept is None else kept.keeping()
        last = refine_observed(
            values, fitted.params, noise=self.noise, max_iter=left, tol=self.tol, callback=self._progress("EM"),
            resume_from=None if kept is None or kept.saved is None else kept.saved.place.resume_from,
            keep=None if keep is None else lambda at: keep(SwitchPlace(at)),
        )  # fmt: skip
        return start, replace(last, n_iter=fitted.n_iter + last.n_iter, path=fitted.path + last.path[1:]), notes

    def _initialised(self, filled: Floats, d: int) -> Tried:
        """The whole fit of completed rows."""
        rows = over(filled)
        start, params, notes = self._starts(rows, d, spectrum(rows))
        refined, notes = self._refine_settled(rows, start, params, notes, None)
        return start, refined, notes

    def _compared(self, values: Floats, refined: Climbed) -> Climbed:
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
                f"{most} switches do not explain the {m} features beside noise of each one's own, and more are not "
                "looked for; give n_components (--components), or feature_noise='equal'"
            )
        if found is None:
            raise NotIdentifiableError(
                f"the noise of each of {m} features cannot be told beside {'the' if d is None else d} switches in "
                f"{rows.n_rows} rows; bring more rows or features, or give feature_noise='equal'"
            )
        logs = np.log(found.variances) / 2
        self._scale, self._last = np.exp(logs - logs.mean()), found.last
        return rows.mapped(divided, self._scale), found.count

    def _choose(self, seen: Spectrum) -> tuple[int, SwitchCount | None]:
        """d as asked for or estimated; too many raise."""
        rank = int((seen.values > 1e-12 * seen.values[0]).sum())
        d = self.n_components
        if d is None:
            count = estimate_number(seen, MOST_FOUND, self.noise)
            return count.d, count
        if d > seen.m or d > rank:
            what = f"{seen.m} features that change" if d > seen.m else f"data of rank {rank}"
            raise NotIdentifiableError(
                f"n_components={d} switches were asked of {what}, whose weights cannot be told apart; "
                f"ask for {min(rank, seen.m)} at the most"
            )
        return d, None

    def _starts(self, X: RowPasses, d: int, seen: Spectrum) -> tuple[SpectralStart | None, SwitchParams, list[str]]:
        """Candidates, the choice among them, and parameters to start from."""
        rng = np.random.default_rng(self._seed())
        if self.search == "independent":
            sigma2 = estimate_noise(seen, d) if self.noise is None else self.noise**2
            found = factor_independent(X, d, sigma2, rng=rng)
            left = f"independent switches: {found.residual:.0%} of the centred tensor is left over"
            return None, first_params(found.W, found.share, sigma2), [left]
        start = spectral_start(
            X, d, sigma=self.noise, search=self.search, filter_=None if self.filter == "auto" else self.filter,
            split=self.split, rng=rng, spectrum_=seen,
        )  # fmt: skip
        notes = list(start.notes)
        if self.search == "auto" and self.refine == "em" and self.max_iter > 0:
            params, told = raced_params(X, start, rng, self.noise)
            notes += [told] if told else []
        else:
            params = start_params(start)
        return start, params, notes

    def _refine(self, X: RowPasses, params: SwitchParams, kept: SwitchCheckpoint | None) -> Climbed:
        """The chosen refinement; all but EM change the weights alone."""
        if self.refine == "em":
            saved = None if kept is None else kept.saved
            if saved is not None and saved.first is not None:
                return saved.first
            return refine_switches(
                X, params, noise=self.noise, max_iter=self.max_iter, tol=self.tol, callback=self._progress("EM"),
                resume_from=None if saved is None else saved.place, keep=None if kept is None else kept.keeping(),
            )  # fmt: skip
        if self.refine is not None and self.max_iter == 0:
            return refine_switches(X, params, noise=self.noise, max_iter=0, tol=self.tol)
        if self.refine == "wls":
            params = replace(params, W=weighted_least_squares(X.whole(), params.W, float(np.sqrt(params.sigma2))))
        elif self.refine == "als":
            first = (X.whole() @ np.linalg.pinv(params.W) > 0.5).astype(np.float64)
            W, _, passes, still = alternating_least_squares(X.whole(), first, max_iter=self.max_iter, stop=self.tol > 0)
            found = refine_switches(X, replace(params, W=W), noise=self.noise, max_iter=0, tol=self.tol)
            return replace(found, n_iter=passes, converged=still)
        unclimbed = refine_switches(X, params, noise=self.noise, max_iter=0, tol=self.tol)
        return replace(unclimbed, converged=True)

    def _settle(self, X: RowPasses, refined: Climbed, kept: SwitchCheckpoint | None) -> tuple[Climbed, str | None]:
        """The second climb, where one switch is a baseline."""
        saved = None if kept is None else kept.saved
        return settle_baseline(
            X, refined, noise=self.noise, max_iter=self.max_iter, tol=self.tol, callback=self._progress("EM"),
            resume_from=None if saved is None or saved.first is None else saved.place,
            keep=None if kept is None else kept.keeping(refined),
        )  # fmt: skip

    def _keep(
        self,
        rows: RowPasses,
        start: SpectralStart | None,
        refined: Climbed,
        count: SwitchCount | None,
        notes: list[str],
    ) -> None:
        """Hold the fit, most frequent switch first."""
        self._forget()
        order = np.argsort(-switch_shares(refined.params), kind="stable")
        self._publish(refined.params.permuted(order))
        self._passes, self._start_kept = rows, start
        self._keep_fit(refined)
        square = squares_of(rows) / (rows.n_rows * rows.n_features)
        self.noise_ = 0.0 if self._params.sigma2 <= 2 * NOISE_FLOOR * square else float(np.sqrt(self._params.sigma2))
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
        self.components_ = np.zeros((params.d, len(self._kept)))
        self.components_[:, self._kept] = params.W * self._scale
        self.switch_probabilities_ = switch_shares(params)
        self.joint_probabilities_ = np.exp(params.log_prior)
        self.n_components_ = self._n_features_out = params.d

    # ------------------------------------------------------------ results

    @property
    def feature_noise_(self) -> Floats:
        """Standard deviation (m,) of the noise of each feature."""
        check_is_fitted(self)
        out = np.zeros(len(self._kept))
        out[self._kept] = self.noise_ * self._scale
        return out

    def _examine(self, notes: list[str]) -> Examination:
        return examine_switches(
            self._passes, self._params, self._start_kept, self._seen,
            converged=self.converged_, seed=self._seed(), noise=self.noise, last=self._last, missing=self._missing,
        )  # fmt: skip

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> Floats:
        """P(switch on | row) (n, d); a row's answer does not depend on its company."""
        return self._posterior(X)[0]

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The most likely on/off vector of every row (n, d)."""
        rows = self._rows(X)
        lost = np.isnan(rows).any(axis=1)
        on = np.empty((len(rows), self.n_components_), np.int64)
        with one_blas_thread():
            on[~lost] = most_likely(rows[~lost], self._params)
            if lost.any():
                on[lost] = most_likely_observed(rows[lost], self._params)
        return on

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood (n,) of every row, in nats."""
        return self._posterior(X)[1]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a row, in nats."""
        return float(self.score_samples(X).mean())

    def inverse_transform(self, H: Any) -> Floats:
        """Rows (n, m) that switches, or their probabilities, add up to."""
        check_is_fitted(self)
        H = np.asarray(H, np.float64)
        if H.ndim != 2 or H.shape[1] != self.n_components_:
            raise DataError(f"switches of shape {H.shape} were given; give rows of {self.n_components_} numbers")
        return np.asarray(H @ self.components_ + self._constant)

    def sample(self, n: int = 1, random_state: int | None = None) -> Any:
        """Rows drawn from the model, in the caller's kind of frame."""
        check_is_fitted(self)
        rng = np.random.default_rng(seed_of(random_state))
        drawn = rng.choice(len(self.joint_probabilities_), size=n, p=self.joint_probabilities_)
        h = (drawn[:, None] >> np.arange(self.n_components_)) & 1
        noise = rng.standard_normal((n, self.n_features_in_))
        rows = self.inverse_transform(h) + self.feature_noise_ * noise
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return build_frame({str(name): rows[:, at] for at, name in enumerate(names)}, self._backend)

    def _posterior(self, X: Any) -> tuple[Floats, Floats]:
        rows = self._rows(X)
        lost = np.isnan(rows).any(axis=1)
        on, logs = np.empty((len(rows), self.n_components_)), np.empty(len(rows))
        with one_blas_thread():
            on[~lost], logs[~lost] = posterior(rows[~lost], self._params)
            if lost.any():
                on[lost], logs[lost] = posterior_observed(rows[lost], self._params)
        return on, logs

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self)
        rows = np.ascontiguousarray(self._read(whole(X), reset=False).values[:, self._kept])
        if self.n_components_ > MOST_WITH_MISSING and np.isnan(rows).any():
            raise DataError(
                f"rows must be complete for a model of more than {MOST_WITH_MISSING} switches, got missing values "
                f"(NaN) for one of {self.n_components_}; fill the missing values, or leave these rows out"
            )
        return rows if self.feature_noise == "equal" else divided(rows, self._scale)

    # -------------------------------------------------------------- input

    def _read_rows(self, X: Any) -> AnyMatrix:
        """Rows in memory, or in a file (`latentfit.scan`, or engine="stream"); wide ones are read whole."""
        if isinstance(X, Scan) and self.engine == "memory":
            return self._read(whole(X))
        if isinstance(X, Scan):
            self._backend, matrix = "pyarrow", store_scan(X)
            self._name_features(matrix.names)
            self._check_rows(matrix.n_rows)
        elif self.engine in ("auto", "memory"):
            return self._read(X)
        else:
            read = self._read(X)
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
        for name, known in (("search", Search), ("filter", Filter)):
            if getattr(self, name) not in get_args(known):
                raise DataError(
                    f"{name}={getattr(self, name)!r} is not there; give one of {', '.join(get_args(known))}"
                )
        if self.refine is not None and self.refine not in get_args(Refine):
            raise DataError(f"refine={self.refine!r} is not there; give one of {', '.join(get_args(Refine))}, or None")
        if self.noise is not None and not is_amount(self.noise):
            raise DataError(f"noise={self.noise!r} is no standard deviation; give 0 or a positive number, or None")
        if self.feature_noise not in get_args(FeatureNoise):
            raise DataError(f"feature_noise must be 'equal' or 'unequal', got {self.feature_noise!r}; give one of them")
        if self.noise is not None and self.feature_noise == "unequal":
            raise DataError(
                f"noise={self.noise!r} is one for all features; leave it out, or give feature_noise='equal'"
            )
        if self.n_components is not None and not 1 <= self.n_components <= MOST_SWITCHES:
            raise DataError(
                f"n_components={self.n_components} switches were asked for; give a number from 1 to {MOST_SWITCHES}"
            )

    # --------------------------------------------------------- model file

    _state = switch_state
    _restore = restore_switches

    _names: tuple[str | int, ...]  # of the features that vary
    _kept: NDArray[np.bool_]  # which those are
    _scale: Floats  # what they were divided by, so that noise is equal
    _last: tuple[float, float] | None  # the last switch's eigenvalue and its threshold, where noise is unequal
    _missing: Floats | None  # the rows as they came, where values are missing
    _constant: Floats  # what features that were set aside always are
