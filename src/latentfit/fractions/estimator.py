"""Fractions of the parts that samples are mixed of, such as cell types in blood by their methylation."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from latentfit.core.em import EMResult
from latentfit.core.errors import DataError, DataWarning, NotIdentifiableError
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import backend_of, build_frame, long_columns
from latentfit.core.kernels import Floats
from latentfit.core.matrix import NamedMatrix, canonical_order, match_columns, read_unit_interval
from latentfit.core.model_file import (
    ROUNDING,
    Array,
    Arrays,
    Schema,
    name_array,
    plain_names,
    restore_fit_history,
    with_fit_history,
)
from latentfit.core.names import objects
from latentfit.core.progress import StageClock
from latentfit.core.verdict import Examination
from latentfit.engine.limits import one_blas_thread
from latentfit.fractions.diagnostics import examine_fractions
from latentfit.fractions.em import (
    Explained,
    FractionSteps,
    Init,
    Parts,
    fit_parts,
    gaussian_log_likelihood,
    initial_profiles,
    residual_squares,
)
from latentfit.fractions.init import Constraint, UnitValues, fractions_of
from latentfit.fractions.select import MOST_PARTS, PartsPath, choose_parts

SCHEMA = Schema(
    {"profiles": Array(("K", "M"), high=1.0), "weights": Array(("K",))},
    names={"parts": "K", "features": "M"},
    values={"noise": (float, 0), "known": (bool, 0)},
)
"""What the model file holds, beside the fit history."""


class MixtureFractions(TransformerMixin, LatentModel):
    r"""Estimate in which fractions samples are mixed of parts, from values in [0, 1].

    A sample is a mixture of parts, :math:`x_s = \sum_k w_{sk} h_k + \text{noise}`, its fractions :math:`w_s` are at
    least zero and sum to one, and the profiles :math:`h_k` lie in [0, 1]: DNA methylation of blood and its cell types,
    reflectances and materials. With a `reference` the profiles are known and every sample is one constrained
    least-squares problem; without one (blind) both are estimated by alternating least squares from several
    initialisations.
    Houseman et al. (2012) ask of fractions that they sum to at most one, and common programs that they are at least
    zero: `constraint` chooses.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of parts; None takes that of the reference or, blind, the number that predicts left-out cells best.
    reference : frame or array-like of shape (n_features, n_parts), optional
        Known profiles, one column per part. A frame may name its features in a text column (pandas: its index); they
        are then matched by name with the columns of X, and features in one of them only are not used.
    constraint : {"sum_to_one", "sum_at_most_one", "nonnegative"}, default="sum_to_one"
        Constraint on the fractions of a sample under a reference; none is below zero. ``"sum_to_one"`` assumes that the
        reference has all parts; ``"sum_at_most_one"`` leaves room for parts that are not in it, whose values are then
        taken as zero; ``"nonnegative"`` leaves the sum free. Blind fractions sum to one.
    init : {"auto", "random", "tensor"}, default="auto"
        The first blind initialisation: ``"auto"`` takes the most extreme samples as profiles, ``"tensor"`` the paper's
        tensor eigenpairs; ``"random"`` draws it at random like all others.
    n_init : int, default=8
        Number of blind initialisations.
    max_iter : int, default=500
        Maximum number of iterations of a blind fit.
    tol : float, default=1e-7
        A blind fit stops when an iteration gains less than `tol` nats per observed cell.
    random_state : int, RandomState instance, Generator or None, default=None
        Seed of all random numbers; None is 0.
    n_jobs : int or None, default=None
        Accepted as by every model; the work is dense linear algebra on one thread, and results never depend on it.
    verbose : int, default=0
        1 reports the stages of the fit and the iterations on stderr.
    engine : {"auto", "memory"}, default="auto"
        Accepted as by every model; the samples are held in memory.

    Attributes
    ----------
    fractions_ : ndarray of shape (n_samples, n_components)
        Fractions of the parts; rows sum to one unless `constraint` says otherwise.
    profiles_ : ndarray of shape (n_components, n_used_features)
        Values of the pure parts, for the features that were used (`features_`).
    features_ : tuple of length n_used_features
        Names of the features that were used.
    weights_ : ndarray of shape (n_components,)
        Mean fractions; blind parts come heaviest first.
    parts_ : ndarray of shape (n_components,)
        Names of the parts: those of the reference, or 0, 1, …
    samples_ : ndarray of shape (n_samples,)
        Names of the samples, or 1, 2, …
    noise_ : float
        Root mean square of the residuals.
    fraction_table_ : frame
        `fractions_` with one row per sample and part: sample, part, fraction.
    profile_table_ : frame
        `profiles_` with one row per feature: feature, and one column per part.
    n_components_ : int
        Number of parts.
    selection_ : dict or None
        The chosen number of parts and the cross-validation errors; None if the number was given.
    log_likelihood_ : float
        Log-likelihood of the observed cells, in nats.
    objective_ : float
        The maximised log-likelihood.
    objective_path_ : ndarray of shape (n_values,)
        Objective of the initial parameters and after every iteration.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged within `max_iter` iterations.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the data have string names.
    report_ : latentfit.core.verdict.FitReport
        Verdict with reasons and diagnostics.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit import MixtureFractions
    >>> rng = np.random.default_rng(0)
    >>> profiles = rng.beta(0.5, 0.5, (3, 200))
    >>> fractions = rng.dirichlet(np.ones(3), 30)
    >>> mixed = np.clip(fractions @ profiles + 0.01 * rng.normal(size=(30, 200)), 0, 1)
    >>> known = MixtureFractions(reference=profiles.T).fit(mixed)
    >>> bool(np.abs(known.fractions_ - fractions).mean() < 0.005)
    True
    >>> MixtureFractions().fit(mixed).n_components_
    3
    """

    _model_name = "MixtureFractions"
    _takes = ("allow_nan",)
    _for_report = ("_data", "_clock")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        reference: Any = None,
        constraint: Constraint = "sum_to_one",
        init: Init = "auto",
        n_init: int = 8,
        max_iter: int = 500,
        tol: float = 1e-7,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.reference = reference
        self.constraint = constraint
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine

    # ---------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit fractions, and without a reference also profiles.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Values in [0, 1]; NaN marks a missing value. A frame may name its samples in a text column.
        y : ignored
            Present for scikit-learn's API.

        Returns
        -------
        self : MixtureFractions
        """
        self._check_settings()
        clock = StageClock(self.verbose)
        self._path: PartsPath | None = None
        with one_blas_thread():
            with clock.stage("data"):
                matrix, known = self._choose_features(self._read(X))
                data = UnitValues.of(matrix.values)
            if known is not None:
                self._take_reference(data, known)
            else:
                ordered, columns = _in_order(data)
                with clock.stage("number"):
                    n_parts = self._choose(ordered)
                with clock.stage("refine"):
                    refined = self._refine(ordered, n_parts)
                self._keep_blind(refined, columns)
            self._keep(matrix, data)
        self._clock = clock
        self._warn_limit()
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit, and return the fractions of the samples.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Values in [0, 1]; NaN marks a missing value. A frame may name its samples in a text column.
        y : ignored
            Present for scikit-learn's API.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            `fractions_`.
        """
        return self.fit(X).fractions_

    def _choose(self, data: UnitValues) -> int:
        """The number of parts: as given, or the one that predicts cells left out best."""
        most = min(data.values.shape)
        if self.n_components is not None:
            if not 1 <= self.n_components <= most:
                raise NotIdentifiableError(
                    f"n_components must be an int from 1 to {most} for {data.values.shape[0]} samples and "
                    f"{data.values.shape[1]} features, got {self.n_components}; give such a number, or a reference"
                )
            return self.n_components
        largest = max(min(most - 1, MOST_PARTS), 1)
        self._path = choose_parts(data, largest, np.random.default_rng([self._seed(), 1]))
        self._notes.append(
            f"{self._path.chosen} parts predict left-out cells best: mean squared errors for 1, 2, … parts are "
            + ", ".join(f"{error:.2e}" for error in self._path.errors)
        )
        return self._path.chosen

    def _refine(self, data: UnitValues, n_parts: int) -> EMResult[Parts, Explained]:
        """The best of the blind initialisations."""
        steps, rng = FractionSteps.of(data), np.random.default_rng([self._seed(), 2])
        initialisations = list(initial_profiles(steps, n_parts, self.n_init, rng, self.init))
        selected = fit_parts(
            steps, initialisations, max_iter=self.max_iter, tol=self.tol, callback=self._progress("ALS")
        )
        self._notes.append(f"the best of {len(initialisations)} initialisations was {selected.name}")
        return selected.refined

    def _keep_blind(self, refined: EMResult[Parts, Explained], columns: NDArray[np.intp]) -> None:
        """Hold the parts that were found, heaviest first, their features in the order of the data."""
        profiles = np.empty_like(refined.sums.profiles)
        profiles[:, columns] = refined.sums.profiles
        order = np.argsort(-refined.sums.fractions.mean(axis=0), kind="stable")
        self._publish(profiles[order], np.arange(len(order)))
        self._keep_fit(refined)
        self._known = False

    def _take_reference(self, data: UnitValues, reference: NamedMatrix) -> None:
        """Use known profiles: no EM."""
        self._publish(reference.values, objects(reference.row_names or ()))
        residual = residual_squares(data, fractions_of(data, self.profiles_, self.constraint), self.profiles_)
        self.log_likelihood_ = self.objective_ = gaussian_log_likelihood(residual, data.n_cells)
        self.n_iter_, self.converged_, self.objective_path_ = 0, True, np.array([self.objective_])
        self._known = True

    def _keep(self, matrix: NamedMatrix, data: UnitValues) -> None:
        """Fractions under the parts that are held, and what they leave unexplained."""
        self._forget()
        self._data, self.features_ = data, matrix.column_names
        fractions, empty = fractions_of(data, self.profiles_, self.constraint), np.isnan(matrix.values).all(axis=1)
        self.weights_ = fractions[~empty].mean(axis=0)
        fractions[empty], self._empty = self.weights_, int(empty.sum())
        self.fractions_ = fractions
        names = matrix.row_names
        self.samples_ = np.arange(1, len(fractions) + 1) if names is None else objects(names)
        self.noise_ = float(np.sqrt(residual_squares(data, fractions, self.profiles_) / data.n_cells))
        self.selection_ = None if self._path is None else {"chosen": self._path.chosen, "errors": self._path.errors}

    def _publish(self, profiles: Floats, parts: NDArray[Any]) -> None:
        """Parameters under their public names."""
        self.profiles_, self.parts_ = profiles, parts
        self.n_components_ = self._n_features_out = len(profiles)

    # ------------------------------------------------------------ results

    @cached_property
    def fraction_table_(self) -> Any:
        """One row per sample and part: sample, part, fraction."""
        check_is_fitted(self)
        if not hasattr(self, "fractions_"):
            raise DataError(
                "fraction_table_ needs the samples, which a model file does not store; call transform on them"
            )
        return build_frame(fraction_columns(self.samples_, self.parts_, self.fractions_), self._backend)

    @cached_property
    def profile_table_(self) -> Any:
        """One row per feature: feature, and its value in every part; what `reference` takes."""
        check_is_fitted(self)
        return build_frame(profile_columns(self.features_, self.parts_, self.profiles_), self._backend)

    def _examine(self, notes: list[str]) -> Examination:
        return examine_fractions(
            self._data, self.fractions_, self.profiles_, self.parts_.tolist(), known=self._known,
            constraint=self.constraint, converged=self.converged_, empty=self._empty, path=self._path,
            rng=np.random.default_rng([self._seed(), 3]),
        )  # fmt: skip

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> Floats:
        """Fractions of samples under the fitted or known profiles.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Values in [0, 1]; NaN marks a missing value. A frame may name its samples in a text column.
            Named features are matched by name.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            A sample's result does not depend on the other samples.
        """
        check_is_fitted(self)
        given = read_unit_interval(X, "X")
        ours, theirs = isinstance(self.features_[0], str), isinstance(given.column_names[0], str)
        if not (ours and theirs) and given.shape[1] != self.n_features_in_:
            raise DataError(
                f"X has {given.shape[1]} features, the model was fitted on {self.n_features_in_}; give the same"
            )
        if ours and not theirs:
            given = NamedMatrix(given.values, given.row_names, tuple(self.feature_names_in_.tolist()))
        matrix = match_columns(given, self.features_, "X")
        fractions = fractions_of(UnitValues.of(matrix.values), self.profiles_, self.constraint)
        fractions[np.isnan(matrix.values).all(axis=1)] = self.weights_
        return fractions

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the parts.

        Parameters
        ----------
        input_features : ignored
            Present for scikit-learn's API.

        Returns
        -------
        ndarray of str of shape (n_components,)
        """
        check_is_fitted(self)
        return np.array([str(name) for name in self.parts_.tolist()], object)

    # -------------------------------------------------------------- input

    def _read(self, X: Any) -> NamedMatrix:
        given = read_unit_interval(X, "X")
        self._backend = backend_of(X)
        self._name_features(given.column_names)
        return given

    def _choose_features(self, given: NamedMatrix) -> tuple[NamedMatrix, NamedMatrix | None]:
        """The columns that can be used, and the reference's parts over just those."""
        seen = ~np.isnan(given.values).all(axis=0)
        if not seen.any():
            raise DataError(f"none of the {given.shape[1]} features holds a value; every cell is missing")
        if not seen.all():
            first = given.column_names[int((~seen).argmax())]
            text = f"{int((~seen).sum())} features hold no value, {first!r} first, and were set aside"
            warnings.warn(text, DataWarning, stacklevel=3)
        if self.reference is None:
            self._notes = []
            return given.take_columns(np.flatnonzero(seen)), None
        parts = read_unit_interval(self.reference, "the reference").transposed
        if self.n_components is not None and self.n_components != parts.shape[0]:
            raise DataError(
                f"n_components must be None or the number of parts of the reference ({parts.shape[0]}), got "
                f"{self.n_components}; give one of the two"
            )
        place = self._places_in_reference(given, parts)
        has_missing = np.isnan(parts.values).any(axis=0)
        used_columns = np.flatnonzero(seen & (place >= 0) & ~np.asarray(has_missing)[place])
        self._notes = [f"{len(used_columns)} of {given.shape[1]} features are in the reference and were used"]
        if self.constraint != "sum_to_one":
            rule = {"sum_at_most_one": "sum to at most one", "nonnegative": "may have any sum"}[self.constraint]
            self._notes.append(f"fractions of a sample are at least zero and {rule}")
        if not len(used_columns):
            raise DataError(
                f"no feature of X is in the reference; X has {list(given.column_names[:3])}, the reference "
                f"{list(parts.column_names[:3])}: use the same names"
            )
        return given.take_columns(used_columns), parts.take_columns(place[used_columns])

    def _places_in_reference(self, given: NamedMatrix, parts: NamedMatrix) -> NDArray[np.intp]:
        """Position of each column of X in the reference, −1 if absent: by name if both have names, else by position."""
        named = all(isinstance(one, str) for one in (*given.column_names, *parts.column_names))
        if named:
            at = {name: place for place, name in enumerate(parts.column_names)}
            return np.array([at.get(name, -1) for name in given.column_names], np.intp)
        if given.shape[1] != parts.shape[1]:
            raise DataError(
                f"X has {given.shape[1]} features and the reference {parts.shape[1]}, and names do not say which is "
                "which; name them in both, or give as many"
            )
        return np.arange(given.shape[1])

    def _check_options(self) -> None:
        if self.constraint not in get_args(Constraint):
            known = ", ".join(repr(name) for name in get_args(Constraint))
            raise DataError(f"constraint must be one of {known}, got {self.constraint!r}; give one of them")
        if self.constraint != "sum_to_one" and self.reference is None:
            raise DataError(
                f"constraint must be 'sum_to_one' without a reference, got {self.constraint!r}: profiles would have no "
                "scale; give a reference, or constraint='sum_to_one'"
            )
        if self.init not in get_args(Init) or not self.n_init or self.n_init < 1:
            raise DataError(
                f"init must be 'auto', 'random' or 'tensor' and n_init >= 1, got {self.init!r} and {self.n_init}; give "
                "such values"
            )

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[Arrays, dict[str, Any]]:
        arrays = {"profiles": self.profiles_, "weights": self.weights_}
        metadata = {
            "parts": plain_names(self.parts_.tolist()),
            "features": plain_names(self.features_),
            "known": self._known,
            "noise": self.noise_,
        }
        return with_fit_history(self, arrays, metadata)

    def _restore(self, arrays: Arrays, metadata: dict[str, Any]) -> None:
        SCHEMA.check(arrays, metadata)
        parts, features = metadata["parts"], metadata["features"]
        total = float(arrays["weights"].sum())
        off = {"sum_to_one": abs(total - 1), "sum_at_most_one": total - 1, "nonnegative": 0.0}[self.constraint]
        if off > ROUNDING:
            raise ValueError(f"the weights sum to {total}, which the constraint does not allow")
        restore_fit_history(self, arrays, metadata, features)
        if any(type(name) is int and not 0 <= name < self.n_features_in_ for name in features):
            raise ValueError("features names a column that does not exist")
        self.noise_, self._known = metadata["noise"], metadata["known"]
        self.features_, self.weights_ = tuple(features), arrays["weights"]
        self._publish(arrays["profiles"], name_array(parts, "parts"))

    parts_: NDArray[Any]
    samples_: NDArray[Any]
    features_: tuple[str | int, ...]
    _known: bool


def _in_order(data: UnitValues) -> tuple[UnitValues, NDArray[np.intp]]:
    """Samples and features in an order that their values decide, and the places of those features."""
    values = data.values if data.observed is None else np.where(data.observed, data.values, np.nan)
    rows, columns = canonical_order(values)
    observed = None if data.observed is None else np.ascontiguousarray(data.observed[np.ix_(rows, columns)])
    return UnitValues(np.ascontiguousarray(data.values[np.ix_(rows, columns)]), observed), columns


def fraction_columns(samples: NDArray[Any], parts: NDArray[Any], fractions: Floats) -> dict[str, NDArray[Any]]:
    """Columns of fractions.csv: sample, part, fraction."""
    return long_columns(("sample", "part", "fraction"), samples, parts, fractions)


def profile_columns(features: tuple[str | int, ...], parts: NDArray[Any], profiles: Floats) -> dict[str, NDArray[Any]]:
    """Columns of profiles.csv: feature, and one column per part."""
    names = np.array([str(name) for name in features], object)
    if "feature" in map(str, parts.tolist()):
        raise DataError("a part is called 'feature', which is the column of the features' names; rename the part")
    return {"feature": names, **{str(part): row for part, row in zip(parts.tolist(), profiles, strict=True)}}
