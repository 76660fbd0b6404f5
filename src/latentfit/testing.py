"""`check_model`: what every estimator of Latentfit promises beyond scikit-learn's contract.

>>> from latentfit import DawidSkene
>>> from latentfit.simulate import crowd
>>> from latentfit.testing import check_model
>>> check_model(DawidSkene(), crowd(60, 8, 3, random_state=0).labels)
"""

from __future__ import annotations

import copy
import inspect
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from latentfit.core.estimator import LatentModel
from latentfit.core.registry import load


@dataclass(frozen=True)
class Labelled:
    """Data for models that learn from a label: rows, and one label each."""

    rows: Any
    labels: Any


COMMON = ("max_iter", "tol", "random_state", "n_jobs", "verbose", "engine")
FITTED = ("n_iter_", "converged_", "log_likelihood_", "objective_", "report_")


def check_model(model: LatentModel, data: Any) -> None:
    """Run every check on a fresh clone fitted to `data` (`Labelled`, where the model learns from a label).

    The first broken promise raises AssertionError.

    Parameters
    ----------
    model : LatentModel
        The estimator to check; it is cloned, not fitted.
    data : frame, array-like or Labelled
        Data that its `fit` takes.

    Examples
    --------
    >>> from latentfit import LatentClass
    >>> from latentfit.testing import check_model
    >>> check_model(LatentClass(2, max_iter=20), [["grey", "rain"], ["blue", "sun"], ["blue", "rain"]] * 20)
    """
    for check in CHECKS:
        check(clone(model), data)


def check_constructor_only_stores(model: LatentModel, data: Any) -> None:
    for name, value in model.get_params(deep=False).items():
        assert getattr(model, name) is value, f"{name} was changed by the constructor"
    public = [name for name in vars(model) if name.endswith("_")]
    assert not public, f"an unfitted model has the fitted attributes {public}"


def check_common_parameters(model: LatentModel, data: Any) -> None:
    parameters = inspect.signature(type(model).__init__).parameters
    missing = [name for name in COMMON if name not in parameters]
    assert not missing, f"the parameters {missing} that every iterative model has are missing"
    later = list(parameters.values())[2:]
    assert all(p.kind is p.KEYWORD_ONLY for p in later), "parameters after the first must be keyword-only"


def check_fit_returns_self_and_sets_everything(model: LatentModel, data: Any) -> None:
    before = copy.deepcopy(model.get_params(deep=False))
    assert _fit(model, data) is model, "fit must return self"
    missing = [name for name in FITTED if not hasattr(model, name)]
    assert not missing, f"fit did not set {missing}"
    assert model.get_params(deep=False) == before, "fit changed a parameter"


def check_numbers_are_finite(model: LatentModel, data: Any) -> None:
    _fit(model, data)
    for name in ("log_likelihood_", "objective_"):
        assert np.isfinite(getattr(model, name)), f"{name} is not finite"
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all(), f"{name} holds values that are not finite"


def check_report_speaks(model: LatentModel, data: Any) -> None:
    report = _fit(model, data).report_
    assert report.verdict in ("ok", "caution", "not identifiable")
    assert all(reason.strip() for reason in report.reasons)
    assert report.verdict == "ok" or report.reasons, "a verdict other than ok needs a reason"
    assert "verdict" in str(report)
    assert all(value >= 0 for value in report.seconds.values())


def check_same_bits_again_and_on_threads(model: LatentModel, data: Any) -> None:
    one, two = (_fit(clone(model).set_params(n_jobs=n), data) for n in (1, 2))
    for (name, left), right in zip(_arrays(one), (value for _, value in _arrays(two)), strict=True):
        assert np.array_equal(left, right), f"{name} depends on the number of threads"


def check_objective_never_falls(model: LatentModel, data: Any) -> None:
    path = _fit(model, data).objective_path_
    assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all(), "EM decreased its objective"


def check_start_alone(model: LatentModel, data: Any) -> None:
    assert _fit(model.set_params(max_iter=0), data).n_iter_ == 0, "max_iter=0 must give the initialisation alone"


def check_all_iterations(model: LatentModel, data: Any) -> None:
    fitted = model.set_params(max_iter=3, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _fit(fitted, data)
    assert fitted.n_iter_ == 3, "tol=0 must run all of max_iter"
    assert not fitted.converged_, "a fit that met its limit has not converged"


def check_pickle(model: LatentModel, data: Any) -> None:
    _fit(model, data)
    again = pickle.loads(pickle.dumps(model))
    for (name, left), right in zip(_arrays(model), (value for _, value in _arrays(again)), strict=True):
        assert np.array_equal(left, right), f"{name} changed in a pickle"
    _check_same_answers(model, again, data, "in a pickle")


def check_model_file(model: LatentModel, data: Any) -> None:
    _fit(model, data)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("once.latent", "twice.latent")]
        model.save(paths[0])
        again = load(paths[0])
        again.save(paths[1])
        assert paths[0].read_bytes() == paths[1].read_bytes(), "a loaded model saves as something else"
    assert type(again) is type(model)
    assert set(again.report_.quantities) == set(model.report_.quantities), "the report changed in the file"
    _check_same_answers(model, again, data, "in the file")


def check_probabilities(model: LatentModel, data: Any) -> None:
    _fit(model, data)
    rows = _rows(data)
    if hasattr(model, "reconstruct"):  # pairs: one probability each, all of them together one
        stated = np.asarray(model.reconstruct())
        assert (stated >= 0).all()
        np.testing.assert_allclose(stated.sum(), 1.0, atol=1e-9)
        return
    if not hasattr(model, "predict_proba"):  # no classes: switches with a probability each, or parts of a whole
        amounts = model.transform(rows)
        assert ((amounts >= 0) & (amounts <= 1)).all()
        if hasattr(model, "predict"):
            assert amounts.shape == model.predict(rows).shape
        return
    posterior = model.predict_proba(rows)
    assert ((posterior >= 0) & (posterior <= 1)).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-12)
    if getattr(model, "_predicts_paths", False):  # the best path, which need not go through the best states
        assert model.predict(rows).shape == (len(posterior),)
        return
    classes = getattr(model, "classes_", np.arange(posterior.shape[1]))  # hidden classes have numbers for names
    assert np.array_equal(classes[posterior.argmax(axis=1)], model.predict(rows)), "predict is not the argmax"
    if hasattr(model, "probabilities_"):
        np.testing.assert_allclose(posterior, model.probabilities_, atol=1e-9)


def _fit(model: LatentModel, data: Any) -> Any:
    return model.fit(data.rows, data.labels) if isinstance(data, Labelled) else model.fit(data)


def _rows(data: Any) -> Any:
    return data.rows if isinstance(data, Labelled) else data


def _check_same_answers(model: Any, again: Any, data: Any, where: str) -> None:
    for name in ("predict", "predict_proba", "transform"):
        if hasattr(model, name):
            left, right = (np.asarray(getattr(one, name)(_rows(data))) for one in (model, again))
            assert _equal(left, right), f"{name} changed {where}"
    if hasattr(model, "reconstruct"):
        left, right = (np.asarray(one.reconstruct()) for one in (model, again))
        assert _equal(left, right), f"the reconstruction changed {where}"


def _equal(left: Any, right: Any) -> bool:
    """Equal cell by cell, missing values included."""
    return left.shape == right.shape and bool(np.all((left == right) | ((left != left) & (right != right))))


def _arrays(model: LatentModel) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(model).items()):
        if name.endswith("_") and isinstance(value, np.ndarray):
            yield name, value


CHECKS: list[Callable[[LatentModel, Any], None]] = [
    value for name, value in sorted(globals().items()) if name.startswith("check_") and name != "check_model"
]
