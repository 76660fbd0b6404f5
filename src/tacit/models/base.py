"""What every estimator does alike: progress, warnings, its seed, saving and loading."""

from __future__ import annotations

import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from tacit.diagnose.report import Examination
from tacit.errors import DataError, IdentifiabilityWarning, ModelFileError
from tacit.io.model_file import ModelFile, write_model
from tacit.refine.em import Step

COUNTED = ("n_", "max_")
"""How the names of parameters begin that count something; None is the default of most."""


class LatentModel(BaseEstimator, ABC):
    """Base of the estimators. A subclass names the arrays and metadata that make it up (`_state`, `_restore`)."""

    _model_name: ClassVar[str]
    _engines: ClassVar[tuple[str, ...]] = ("auto", "memory")
    """Where its passes can run."""
    _for_report: ClassVar[tuple[str, ...]] = ()
    """What `fit` keeps to make the report with, the data first: the report travels in pickles, these do not."""

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

    def __getstate__(self) -> dict[str, Any]:
        if self._for_report and hasattr(self, self._for_report[0]):
            getattr(self, "report_")  # noqa: B009 - made now, since the data stays behind
        state = dict(super().__getstate__())
        for name in self._for_report:
            state.pop(name, None)
        return state

    def _seed(self) -> int:
        return seed_of(getattr(self, "random_state", None))

    def _progress(self, stage: str) -> Callable[[Step], None] | None:
        if getattr(self, "verbose", 0) < 2:  # 1: the clock's lines, one a stage; 2: one a pass
            return None

        def tell(step: Step) -> None:
            print(
                f"{stage} {step.n_iter}: objective {step.objective:.3f}, gain {step.gain_per_cell:.2e} a cell",
                file=sys.stderr,
            )

        return tell

    def _check_settings(self) -> None:
        """Parameters that every estimator reads alike; each has one sentence for what it cannot be."""
        settings = self.get_params(deep=False)
        engine = settings.get("engine", "auto")
        if str(engine).partition("=")[0] not in self._engines:
            known = ", ".join(repr(name) for name in self._engines)
            raise DataError(f"engine={engine!r} is not there for {self._model_name}; give one of {known}")
        tol = settings.get("tol", 0.0)
        if not isinstance(tol, int | float | np.number) or not 0 <= tol < np.inf:
            raise DataError(f"tol={tol!r} is no gain to stop at; give nats per observed cell, 0 or more")
        passes = settings.get("max_iter", 0)
        if not _is_whole(passes) or passes < 0:
            raise DataError(f"max_iter={passes!r} is no number of passes; give 0 (the start alone) or more")
        if not isinstance(settings.get("random_state"), np.random.RandomState):
            _generator(settings.get("random_state"))
        for name, parameter in signature(type(self)).parameters.items():
            number = type(parameter.default) in (int, float) and not name.startswith(COUNTED)
            if number and not isinstance(settings[name], int | float | np.number):
                raise DataError(f"{name}={settings[name]!r} is no number; give one, such as {parameter.default!r}")
        for name, value in settings.items():  # how large it may be is each estimator's own to say
            if name.startswith(COUNTED) and value is not None and not _is_whole(value):
                raise DataError(f"{name}={value!r} is no whole number; give one, or None for the default")

    def _settings(self) -> dict[str, Any]:
        """What decides the bits of a fit, beside the data: where and how quickly it runs does not."""
        free = ("n_jobs", "verbose", "engine")
        return {name: str(value) for name, value in self.get_params(deep=False).items() if name not in free}

    def _warn_limit(self, limit: int) -> None:
        if not self.converged_ and limit > 0 and getattr(self, "tol", None) != 0:
            warnings.warn(
                f"EM stopped at max_iter={limit} before its gain fell below tol={getattr(self, 'tol', None)}; "
                "raise max_iter, or set tol=0 to run a fixed number of iterations on purpose",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _warn_structure(self, examination: Examination) -> None:
        if examination.verdict == "not identifiable":
            warnings.warn(
                f"{examination.reasons[0]} (report_ has the whole verdict)",
                IdentifiabilityWarning,
                stacklevel=4,
            )

    converged_: bool


def model_state(model: LatentModel) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """Arrays and metadata of a fitted model, its parameters among them, as its file holds them."""
    check_is_fitted(model)
    arrays, metadata = model._state()
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    return arrays, {"parameters": parameters, **metadata}


def seed_of(random_state: Any) -> int:
    """The one seed of a fit; None is 0, so that a fit is reproducible unless asked otherwise."""
    if random_state is None:
        return 0
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
