"""Base class of the estimators: parameter validation, feature names, fitted attributes, report, saving and loading.

An estimator's file reads top to bottom like the stages of a fit, under the same headings: parameters; `fit` (read the
data, select the number of components, initialise, run EM, store: `_read`, `_choose`, `_starts`, `_refine`, `_keep`);
results, with the diagnostics (`_examine`); prediction; input validation (`_check_options`); the model file.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from latentfit.core.em import Step
from latentfit.core.errors import DataError, ModelFileError
from latentfit.core.frames import as_frame, with_missing
from latentfit.core.kernels import Floats
from latentfit.core.model_file import ModelFile, write_model
from latentfit.core.numbers import is_amount
from latentfit.core.progress import StageClock
from latentfit.core.verdict import Examination, FitReport, checks_are_skipped, make_report, unchecked
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs

COUNTED = ("n_", "max_", "bins")
"""Prefixes of parameters that are counts; None is the default of most."""
NUMBERS: dict[type, Any] = {int: int | np.integer, float: int | float | np.number}
"""Accepted types of a parameter, by the type of its default."""
GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)
"""Random states that yield another number on every draw."""


class FitHistory(Protocol):
    """Outcome of an iterative fit: what every estimator stores of it."""

    @property
    def n_iter(self) -> int: ...
    @property
    def converged(self) -> bool: ...
    @property
    def log_likelihood(self) -> float: ...
    @property
    def objective(self) -> float: ...
    @property
    def path(self) -> Any: ...


class LatentModel(BaseEstimator, ABC):
    """Base of the estimators: a subclass implements `fit`, its diagnostics (`_examine`), `_state` and `_restore`."""

    _model_name: ClassVar[str]
    _engines: ClassVar[tuple[str, ...]] = ("auto", "memory")
    """Engines on which it runs."""
    _takes: ClassVar[tuple[str, ...]] = ()
    """Input that `fit` accepts besides dense numeric matrices, by the names of scikit-learn's input tags."""
    _for_report: ClassVar[tuple[str, ...]] = ()
    """Attributes that the report is computed from, the data first: pickles hold the report, not these."""

    max_iter: int
    tol: float
    random_state: Any
    n_jobs: int | None
    verbose: int
    engine: str
    n_features_in_: int
    feature_names_in_: np.ndarray[Any, Any]
    selection_: dict[str, Any] | None  # how the number of components was selected; None: it was given
    _backend: str  # the kind of frame that the caller uses
    _clock: StageClock
    _notes: list[str]
    _drawn: int  # the seed of the fit, where it was drawn from a generator

    # ----------------------------------------------------------- settings

    def _seed(self) -> int:
        """The seed of the fit, also used by what is computed from the fit later."""
        if isinstance(self.random_state, GENERATORS) and "_drawn" in self.__dict__:
            return self._drawn
        return seed_of(self.random_state)

    def _progress(self, stage: str) -> Callable[[Step], None] | None:
        if self.verbose < 2:  # 1: one line per stage, printed by the clock; 2: one per iteration
            return None

        def log(step: Step) -> None:
            print(
                f"{stage} {step.n_iter}: objective {step.objective:.3f}, gain {step.gain_per_cell:.2e} per cell",
                file=sys.stderr,
            )

        return log

    def _check_settings(self) -> None:
        """Validate the parameters that all estimators share, and draw the seed."""
        name, given, _ = str(self.engine).partition("=")
        if name not in self._engines or (given and name != "dask"):
            known = ", ".join(repr(name) for name in self._engines)
            raise DataError(f"engine of {self._model_name} must be one of {known}, got {self.engine!r}")
        if not is_amount(self.tol):
            raise DataError(f"tol must be a finite number >= 0 (nats per observed cell), got {self.tol!r}")
        if not _is_whole(self.max_iter) or self.max_iter < 0:
            raise DataError(f"max_iter must be an int >= 0 (0: the initialisation alone), got {self.max_iter!r}")
        if not isinstance(self.random_state, np.random.RandomState):
            _generator(self.random_state)
        defaults = {name: parameter.default for name, parameter in signature(type(self)).parameters.items()}
        for name, value in self.get_params(deep=False).items():  # ranges are checked by each estimator
            if name.startswith(COUNTED):
                several = name == "bins" and isinstance(value, Mapping | list | tuple)  # per column, or edges
                named = isinstance(value, str) and value == defaults[name]  # n_init="auto"
                if value is not None and not several and not named and not _is_whole(value):
                    raise DataError(f"{name} must be an int or {defaults[name]!r}, got {value!r}")
            elif not isinstance(value, NUMBERS.get(type(defaults[name]), object)):
                raise DataError(f"{name} must be a number, such as {defaults[name]!r}, got {value!r}")
        resolve_jobs(self.n_jobs)  # raises on invalid values
        self._check_options()
        if isinstance(self.random_state, GENERATORS):
            self._drawn = seed_of(self.random_state)

    def _check_options(self) -> None:
        """Validate the parameters of this estimator alone."""

    def _settings(self) -> dict[str, str]:
        """Parameters that decide the bits of a fit: not the engine, threads or verbosity."""
        irrelevant = ("n_jobs", "verbose", "engine")
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in irrelevant}
        if isinstance(self.random_state, GENERATORS):
            settings["random_state"] = f"drawn {self._seed()}"
        return {name: _setting_text(value) for name, value in settings.items()}

    # ---------------------------------------------------------------- fit

    def _validated(self, X: Any, *, reset: bool, **rules: Any) -> Any:
        """X validated by scikit-learn; of frames only the feature names, because cells are read elsewhere."""
        if (frame := as_frame(X)) is not None:
            names = list(frame.columns)
            if names and all(
                isinstance(name, str) for name in names
            ):  # in a form that every version of scikit-learn reads
                validate_data(self, pa.table([pa.nulls(0)] * len(names), names), reset=reset, skip_check_array=True)
            else:
                validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        return validate_data(self, with_missing(X), reset=reset, **rules)

    def _name_features(self, names: Collection[Any]) -> None:
        """Set the feature attributes for input that scikit-learn cannot validate."""
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(list(names), object)

    def _forget(self) -> None:
        """Remove cached properties of an earlier fit."""
        for kind in type(self).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property):
                    self.__dict__.pop(name, None)

    def _keep_fit(self, history: FitHistory) -> None:
        self.n_iter_, self.converged_ = history.n_iter, history.converged
        self.log_likelihood_, self.objective_ = history.log_likelihood, history.objective
        self.objective_path_: Floats = np.array(history.path)

    def _warn_limit(self, algorithm: str = "EM") -> None:
        if not self.converged_ and self.max_iter > 0 and self.tol != 0:
            warnings.warn(
                f"{algorithm} stopped at max_iter={self.max_iter} before it converged (tol={self.tol}); "
                "raise max_iter (--max-iter), or set tol=0 to run a fixed number of iterations on purpose",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ------------------------------------------------------------ results

    @cached_property
    def report_(self) -> FitReport:
        """Verdict, reasons and quantities of the fit (`FitReport`); computed on first access."""
        check_is_fitted(self)
        notes = list(self._notes)
        with one_blas_thread(), self._clock.stage("diagnose"):
            examination = unchecked() if checks_are_skipped() else self._examine(notes)
        if self.selection_ is not None:
            examination.quantities["selection"] = self.selection_
        return make_report(examination, notes, self._clock)

    def _examine(self, notes: list[str]) -> Examination:
        """Diagnostics of the fit; further remarks are appended to `notes`."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        if self._for_report and hasattr(self, self._for_report[0]):
            self.report_  # noqa: B018 - computed now, since the data are not pickled
        state = dict(super().__getstate__())
        for name in self._for_report:
            state.pop(name, None)
        return state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        for name in self._takes:
            setattr(tags.input_tags, name, True)
        return tags

    # --------------------------------------------------------- model file

    @abstractmethod
    def _state(self) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
        """Arrays and metadata of the model file."""

    @abstractmethod
    def _restore(self, arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, Any]) -> None:
        """Restore the fitted state from a model file; ValueError or KeyError if its parts are inconsistent."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as one file that loads without running code.

        Parameters
        ----------
        path : str or path-like
            File to write, by convention `model.latent`; read it with `latentfit.load`.
        """
        write_model(path, self._model_name, *model_state(self))

    @classmethod
    def _from_file(cls, file: ModelFile, source: str) -> Self:
        known = set(cls._get_param_names())
        try:
            parameters = file.metadata.get("parameters", {})
            model = cls(**{name: _tupled(value) for name, value in parameters.items() if name in known})
            model._restore(file.arrays, file.metadata)
        except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise ModelFileError(f"{source} holds an inconsistent {file.name} model ({error}); fit it again") from error
        return model


def model_state(model: LatentModel) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """Arrays and metadata of a fitted model, its parameters among them, as its file holds them."""
    check_is_fitted(model)
    arrays, metadata = model._state()
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    return arrays, {"parameters": parameters, **metadata}


def seed_of(random_state: Any) -> int:
    """The seed of a fit: an int is used unchanged, and None is 0, so that a fit is reproducible by default."""
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer) and 0 <= random_state < 2**31:
        return int(random_state)  # the seed that the command line takes: --seed 0 and random_state=None agree
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(_generator(random_state).integers(2**31))


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, int | np.integer) and random_state < 0:
        raise DataError(f"random_state must be None, an int >= 0 or a generator, got {random_state!r}")
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(f"random_state must be None, an int >= 0 or a generator, got {random_state!r}") from None


def _setting_text(value: Any) -> str:
    """A parameter as text; fitted models are represented by a hash of their parameters."""
    if isinstance(value, LatentModel) and hasattr(value, "_mixture"):
        return hashlib.sha256(value._mixture.weights.tobytes() + value._mixture.table.tobytes()).hexdigest()
    return str(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """A parameter as a JSON value; what JSON cannot hold (a generator, a fitted model) becomes None."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else None


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
