"""What every estimator does alike: settings, names of features, how a climb is kept, the report, saving and loading.

An estimator's file reads top to bottom like the stages of a fit, under the same headings: parameters; `fit` (read the
data, choose the number, initialise, run EM, keep: `_read`, `_choose`, `_starts`, `_refine`, `_keep`); results, with the
diagnostics (`_examine`); use; input, with what is refused (`_check_options`); the model file.
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
from latentfit.core.frames import as_frame, with_gaps
from latentfit.core.kernels import Floats
from latentfit.core.model_file import ModelFile, write_model
from latentfit.core.numbers import is_amount
from latentfit.core.progress import StageClock
from latentfit.core.verdict import Examination, FitReport, make_report
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import resolve_jobs

COUNTED = ("n_", "max_", "bins")
"""How the names of parameters begin that count something; None is the default of most."""
NUMBERS: dict[type, Any] = {int: int | np.integer, float: int | float | np.number}
"""What a parameter may be whose default is a number."""
GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)
"""Seeds that give another number whenever they are asked."""


class FitHistory(Protocol):
    """How a fit ended, whatever it climbed: what every estimator keeps of it."""

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
    """Base of the estimators. A subclass fits, examines its fit, and names what makes it up (`_state`, `_restore`)."""

    _model_name: ClassVar[str]
    _engines: ClassVar[tuple[str, ...]] = ("auto", "memory")
    """Where its passes can run."""
    _takes: ClassVar[tuple[str, ...]] = ()
    """What `fit` accepts beside full matrices of numbers, by the names of scikit-learn's input tags."""
    _for_report: ClassVar[tuple[str, ...]] = ()
    """What `fit` keeps to make the report with, the data first: the report travels in pickles, these do not."""

    max_iter: int
    tol: float
    random_state: Any
    n_jobs: int | None
    verbose: int
    engine: str
    n_features_in_: int
    feature_names_in_: np.ndarray[Any, Any]
    selection_: dict[str, Any] | None  # how the number was found; None: it was given
    _backend: str  # the caller's kind of frame
    _clock: StageClock
    _notes: list[str]
    _drawn: int  # the seed of the fit, where a generator gave it

    # ----------------------------------------------------------- settings

    def _seed(self) -> int:
        """The one seed of a fit; what is made of the fit later has the same."""
        if isinstance(self.random_state, GENERATORS) and "_drawn" in self.__dict__:
            return self._drawn
        return seed_of(self.random_state)

    def _progress(self, stage: str) -> Callable[[Step], None] | None:
        if self.verbose < 2:  # 1: the clock's lines, one a stage; 2: one a pass
            return None

        def tell(step: Step) -> None:
            print(
                f"{stage} {step.n_iter}: objective {step.objective:.3f}, gain {step.gain_per_cell:.2e} a cell",
                file=sys.stderr,
            )

        return tell

    def _check_settings(self) -> None:
        """Parameters that every estimator reads alike, each with one sentence for what it cannot be; draws the seed."""
        name, given, _ = str(self.engine).partition("=")
        if name not in self._engines or (given and name != "dask"):
            known = ", ".join(repr(name) for name in self._engines)
            raise DataError(f"engine={self.engine!r} is not there for {self._model_name}; give one of {known}")
        if not is_amount(self.tol):
            raise DataError(f"tol={self.tol!r} is no gain to stop at; give nats per observed cell, 0 or more")
        if not _is_whole(self.max_iter) or self.max_iter < 0:
            raise DataError(f"max_iter={self.max_iter!r} is no number of passes; give 0 (the start alone) or more")
        if not isinstance(self.random_state, np.random.RandomState):
            _generator(self.random_state)
        defaults = {name: parameter.default for name, parameter in signature(type(self)).parameters.items()}
        for name, value in self.get_params(deep=False).items():  # how large it may be is each estimator's own to say
            if name.startswith(COUNTED):
                several = name == "bins" and isinstance(value, Mapping | list | tuple)  # per column, or edges
                named = isinstance(value, str) and value == defaults[name]  # n_init="auto"
                if value is not None and not several and not named and not _is_whole(value):
                    default = "None for the default" if defaults[name] is None else repr(defaults[name])
                    raise DataError(f"{name}={value!r} is no whole number; give one, or {default}")
            elif not isinstance(value, NUMBERS.get(type(defaults[name]), object)):
                raise DataError(f"{name}={value!r} is no number; give one, such as {defaults[name]!r}")
        resolve_jobs(self.n_jobs)  # which refuses what is no number of threads
        self._check_options()
        if isinstance(self.random_state, GENERATORS):
            self._drawn = seed_of(self.random_state)

    def _check_options(self) -> None:
        """Parameters of this estimator alone."""

    def _settings(self) -> dict[str, str]:
        """What decides the bits of a fit, beside the data: where and how quickly it runs does not."""
        free = ("n_jobs", "verbose", "engine")
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in free}
        if isinstance(self.random_state, GENERATORS):
            settings["random_state"] = f"drawn {self._seed()}"
        return {name: _told_apart(value) for name, value in settings.items()}

    # ---------------------------------------------------------------- fit

    def _validated(self, X: Any, *, reset: bool, **rules: Any) -> Any:
        """X under scikit-learn's rules for features: of frames their names alone, for cells are read elsewhere."""
        if (frame := as_frame(X)) is not None:
            names = list(frame.columns)
            if names and all(isinstance(name, str) for name in names):  # in a form that its every version can read
                validate_data(self, pa.table([pa.nulls(0)] * len(names), names), reset=reset, skip_check_array=True)
            else:
                validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        return validate_data(self, with_gaps(X), reset=reset, **rules)

    def _name_features(self, names: Collection[Any]) -> None:
        """The same account of the features, of input that scikit-learn does not know."""
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(list(names), object)

    def _forget(self) -> None:
        """What was made of an earlier fit when asked for has to be made again."""
        for kind in type(self).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property):
                    self.__dict__.pop(name, None)

    def _keep_fit(self, climb: FitHistory) -> None:
        self.n_iter_, self.converged_ = climb.n_iter, climb.converged
        self.log_likelihood_, self.objective_ = climb.log_likelihood, climb.objective
        self.objective_path_: Floats = np.array(climb.path)

    def _warn_limit(self, climb: str = "EM") -> None:
        if not self.converged_ and self.max_iter > 0 and self.tol != 0:
            warnings.warn(
                f"{climb} stopped at max_iter={self.max_iter} before it converged (tol={self.tol}); "
                "raise max_iter (--max-iter), or set tol=0 to run a fixed number of iterations on purpose",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ------------------------------------------------------------ results

    @cached_property
    def report_(self) -> FitReport:
        """Verdict, reasons and numbers; made when asked for."""
        check_is_fitted(self)
        notes = list(self._notes)
        with one_blas_thread(), self._clock.stage("diagnose"):
            examination = self._examine(notes)
        if self.selection_ is not None:
            examination.quantities["selection"] = self.selection_
        return make_report(examination, notes, self._clock)

    def _examine(self, notes: list[str]) -> Examination:
        """The diagnosis of the fit; what else it noticed goes into `notes`."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        if self._for_report and hasattr(self, self._for_report[0]):
            self.report_  # noqa: B018 - made now, since the data stays behind
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
        """Become the model that a file describes; ValueError or KeyError when its parts do not fit."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as one file that loads without running code."""
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
    """The seed of a fit: an int is used as it is, and None is 0, so that a fit is reproducible by default."""
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer) and 0 <= random_state < 2**31:
        return int(random_state)  # the seed that the command line takes: --seed 0 and random_state=None agree
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(_generator(random_state).integers(2**31))


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, int | np.integer) and random_state < 0:
        raise DataError(f"random_state={random_state} is negative; give 0 or more")
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(f"random_state={random_state!r} is no seed; give a whole number from 0, or None") from None


def _told_apart(value: Any) -> str:
    """A setting as text; fitted models with the same settings differ by what they learned."""
    if isinstance(value, LatentModel) and hasattr(value, "_mixture"):
        return hashlib.sha256(value._mixture.weights.tobytes() + value._mixture.table.tobytes()).hexdigest()
    return str(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it; what it cannot (a generator, a fitted model) becomes None."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else None


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
