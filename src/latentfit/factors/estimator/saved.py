"""What the model file of binary latent factors holds: weights, P(h), the noise, and which features were set aside."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from latentfit.core.checkpoint import CheckpointFile
from latentfit.core.em import EMResult, SolverState
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
from latentfit.core.tensor.whitened import Spectrum
from latentfit.factors.em.steps import MOST_SWITCHES, SwitchParams, SwitchSolverState, SwitchStatistics

if TYPE_CHECKING:
    from latentfit.factors.estimator.binary_factors import BinaryFactors


def switch_state(model: BinaryFactors) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted model."""
    arrays = {
        "weights": np.ascontiguousarray(model._params.W),
        "log_prior": model._params.log_prior,
        "constant": np.nan_to_num(model._constant),
        "scale": model._scale,
    }
    metadata = {
        "names": plain_names(model._names),
        "kept": np.flatnonzero(model._used_features).tolist(),
        "empty": np.flatnonzero(np.isnan(model._constant)).tolist(),  # features without a value: no constant is known
        "sigma2": float(model._params.sigma2),
        "noise": float(model.noise_),
    }
    return with_fit_history(model, arrays, metadata)


def restore_switches(model: BinaryFactors, arrays: Arrays, metadata: dict[str, Any]) -> None:
    """Make `model` what `switch_state` described; what does not fit together raises ValueError."""
    W, log_prior = arrays["weights"], arrays["log_prior"]
    names, used = read_names(metadata, "names"), typed(metadata, "kept", list)
    if W.ndim != 2 or not 1 <= len(W) <= MOST_SWITCHES or W.shape[1] != len(names) or W.dtype != np.float64:
        raise ValueError(f"weights have shape {W.shape} for {len(names)} features")
    if log_prior.shape != (2 ** len(W),) or log_prior.dtype != np.float64:
        raise ValueError(f"log_prior has shape {log_prior.shape} for {len(W)} switches")
    if abs(float(np.exp(np.minimum(log_prior, 1.0)).sum()) - 1) > ROUNDING:
        raise ValueError("log_prior holds probabilities that do not sum to one")
    restore_fit_history(model, arrays, metadata, names)
    if len(used) != len(names) or not all(type(at) is int and 0 <= at < model.n_features_in_ for at in used):
        raise ValueError("kept names a feature that does not exist")
    if used != sorted(set(used)):
        raise ValueError("kept names a feature twice, or not in order")
    sigma2, noise = typed(metadata, "sigma2", float), typed(metadata, "noise", float)
    if sigma2 <= 0 or noise < 0:
        raise ValueError(f"sigma2 is {sigma2} and noise {noise}")
    model._used_features = np.zeros(model.n_features_in_, bool)
    model._used_features[used] = True
    model._constant = arrays.get("constant", np.zeros(model.n_features_in_))  # files of 0.1.0 did not say
    if model._constant.shape != (model.n_features_in_,) or not np.isfinite(model._constant).all():
        raise ValueError(f"constant has shape {model._constant.shape} for {model.n_features_in_} features")
    empty = metadata.get("empty", [])  # files of 0.1.0 had none
    if not isinstance(empty, list) or not all(type(at) is int and 0 <= at < model.n_features_in_ for at in empty):
        raise ValueError("empty names a feature that does not exist")
    model._constant = model._constant.copy()
    model._constant[empty] = np.nan
    model._scale = arrays.get("scale", np.ones(len(names)))  # files of 0.1.0 had none
    if model._scale.shape != (len(names),) or not (np.isfinite(model._scale) & (model._scale > 0)).all():
        raise ValueError(f"scale has shape {model._scale.shape} for {len(names)} features, or is not positive")
    model._names, model.noise_ = tuple(names), noise
    model._publish(SwitchParams(W, log_prior, sigma2))


# -----------------------------------------------------------------------------
# The checkpoint of a fit: the solver state of its EM run, and the first run's result during the second.
#
# A fit runs EM once, and once more where one switch is a baseline (`factors/em/least_squares.py`); each run is first in
# the plane of the initialisation, then beyond it. What comes before (moments, search, multi-start selection) is
# computed again when a fit resumes: it takes a few passes over the data and gives the same bits.

SwitchFit = EMResult[SwitchParams, SwitchStatistics]


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
