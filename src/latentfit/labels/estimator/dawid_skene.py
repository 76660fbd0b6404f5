"""Consensus from noisy annotators: the Dawid–Skene model under scikit-learn's contract."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_is_fitted

from latentfit.core.errors import DataError, IdentifiabilityWarning
from latentfit.core.estimator import LatentModel
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import unstack_confusions
from latentfit.core.model_file import features_of, restore_features
from latentfit.core.names import Names
from latentfit.core.progress import StageClock
from latentfit.core.verdict import FitReport
from latentfit.io.scan import Scan
from latentfit.labels.data import NO_ANSWER, Bins, CodedLabels, Labels, is_left_alone
from latentfit.labels.data.input import is_long, read_gold, read_labels
from latentfit.labels.diagnostics.structure import examine_structure
from latentfit.labels.estimator import (
    CrowdSettings,
    Evidence,
    FittedCrowd,
    check_crowd,
    crowd_state,
    fit_crowd,
    restore_crowd,
)

FEATURES = ("n_features_in_", "feature_names_in_")
"""What scikit-learn stores about the columns of a wide table; long labels have none."""


class DawidSkene(LatentModel):
    r"""Consensus labels, worker quality and calibrated confidence from noisy annotators.

    Use it when several people, models or rules labelled overlapping parts of the same tasks and nobody knows
    the truth. Every worker :math:`m` has a confusion matrix :math:`A_m[k, l] = P(\text{says } l \mid k)`, the
    classes have a prior :math:`\lambda`, and given the class the workers are independent:
    :math:`P(\text{labels of a task}) = \sum_k \lambda_k \prod_m A_m[k, x_m]`.

    Parameters
    ----------
    n_classes : int or None, default=None
        Number of different labels; None takes the labels that occur, another number than that is an error.
    method : str, default="auto"
        ``"auto"`` (MAP-EM from votes and from moments, the better likelihood is used; with few labels one accuracy per
        worker if that predicts left-out labels better), the paper's ``"robust"`` (also ``"robust-uniform"``,
        ``"robust-paper"``), ``"designated"``, ``"symnmf"``, or a baseline: ``"majority"``, ``"majority-em"``,
        ``"one-coin"`` (one accuracy per worker), ``"multispa"``, ``"cnmf"``, ``"spectral"``, ``"tensor"``, ``"kos"``,
        ``"eigenratio"``, ``"ghosh"``, ``"minimax-entropy"``.
    em : bool, default=True
        Refine the method's answer by EM. ``"majority"`` is never refined; ``"auto"``, ``"majority-em"`` and
        ``"one-coin"`` always are.
    smoothing : "auto" or float, default="auto"
        Pseudo-labels per worker and class, shaped like the crowd's pooled confusion; ``"auto"`` is 1, 0 is maximum
        likelihood.
    abstain : sequence, default=("",)
        Labels that mean "no answer"; missing values always do. With the default, -1 in a wide table whose other labels
        are integers from 0 means it too (snorkel's convention), and a `DataWarning` gives the number of such cells.
    columns : mapping or None, default=None
        Names of the ``task``, ``worker`` and ``label`` columns of a long frame when they are unusual; ``task`` alone
        names the ids of a wide one.
    bins : int, sequence of float or None, default=None
        Cut labels that are scores into this many intervals of equal width, or at these inner edges; the intervals are
        the classes then.
    max_iter : int, default=100
        Most EM iterations; 0 is the initialisation alone.
    tol : float, default=1e-3
        EM stops when an iteration gains less than `tol` nats per label. It is then run on to convergence
        (`tol` / 10,000); that point is used instead if a class has become half as large again, or as small, and labels
        left out of their task are predicted better: a rare class had not been found yet. 0 runs all of `max_iter`.
    random_state : int or None, default=None
        Seed of everything random; None is 0, so that a fit is reproducible by default.
    n_jobs : int or None, default=None
        Threads; None uses all cores. The result does not depend on it.
    verbose : int, default=0
        Above 0, stages and iterations are printed to stderr.
    engine : str, default="auto"
        ``"memory"``, ``"stream"`` (labels in a file, read block by block), ``"dask"`` or ``"dask=ADDRESS"``; ``"auto"``
        streams what comes from `latentfit.scan`. The result does not depend on it.
    memory : int or None, default=None
        Bytes a list of worker pairs may take; a method that needs more raises `DataError`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_tasks,)
        The consensus, one of `classes_` per task, in the order of `tasks_`.
    probabilities_ : ndarray of shape (n_tasks, n_classes)
        Class probabilities of the tasks of the fit; under ``method="auto"`` tempered by `confidence_`.
    confusion_ : ndarray of shape (n_workers, n_classes, n_classes)
        Probability that a worker gives a label, by (worker, true, given).
    prior_ : ndarray of shape (n_classes,)
        Class proportions.
    tasks_ : frame of n_tasks rows
        Columns task, label, probability, n_labels and margin, as in ``consensus.csv``.
    workers_ : frame of n_workers rows
        Columns worker, n_labels, accuracy, accuracy_low, accuracy_high and flag, as in ``workers.csv``.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_classes_ : int
        Number of classes.
    worker_names_ : ndarray of shape (n_workers,)
        The workers, sorted; the first axis of `confusion_`.
    bin_edges_ : tuple of float or None
        Inner edges of the intervals with `bins`.
    confidence_ : float
        Exponent in (0, 1] of the joint probability of a task; below 1 probabilities are tempered. Under
        ``method="auto"`` it is the one that predicts left-out labels best, lowered as far as workers err together as
        in public crowds with truth; else 1.
    selection_ : dict or None
        Always None: the classes are the labels.
    n_iter_ : int
        EM iterations of the reported solution.
    converged_ : bool
        Whether EM reached convergence, be that or an earlier point the one that is reported.
    log_likelihood_ : float
        Log-likelihood of all labels, in nats.
    objective_ : float
        Log-likelihood plus log prior, which EM maximises.
    objective_path_ : ndarray of shape (n_values,)
        The same at the initialisation and after every iteration.
    selection_ : None
        Always None: the labels determine the number of classes.
    report_ : `latentfit.core.verdict.FitReport`
        Verdict, reasons, quantities, notes and seconds; computed on first access.

    Examples
    --------
    >>> import pandas as pd
    >>> from latentfit import DawidSkene
    >>> votes = pd.DataFrame({
    ...     "task":   ["a", "a", "a", "b", "b", "b", "c", "c", "c"],
    ...     "worker": ["x", "y", "z", "x", "y", "z", "x", "y", "z"],
    ...     "label":  ["cat", "cat", "dog", "dog", "dog", "dog", "cat", "cat", "cat"],
    ... })
    >>> DawidSkene().fit(votes).labels_.tolist()
    ['cat', 'dog', 'cat']
    """

    _model_name = "DawidSkene"
    _engines = ("auto", "memory", "stream", "dask")
    _takes = ("allow_nan", "categorical", "string", "sparse")

    def __init__(
        self,
        n_classes: int | None = None,
        *,
        method: str = "auto",
        em: bool = True,
        smoothing: float | Literal["auto"] = "auto",
        abstain: Sequence[Any] = NO_ANSWER,
        columns: Mapping[str, str] | None = None,
        bins: Bins = None,
        max_iter: int = 100,
        tol: float = 1e-3,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        engine: str = "auto",
        memory: int | None = None,
    ) -> None:
        self.n_classes = n_classes
        self.method = method
        self.em = em
        self.smoothing = smoothing
        self.abstain = abstain
        self.columns = columns
        self.bins = bins
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine
        self.memory = memory

    # ---------------------------------------------------------------- fit

    def fit(
        self,
        labels: Any,
        y: Any = None,
        *,
        gold: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Fit the model to labels.

        Parameters
        ----------
        labels : frame, array, sparse matrix, `Labels` or `latentfit.scan`
            A long frame (task, worker, label), or a wide frame or matrix of shape (n_tasks, n_workers) with missing
            values.
        y : object, default=None
            Same as `gold`, under scikit-learn's name; ignored if `gold` is given.
        gold : frame, mapping, array of shape (n_tasks,) or None, default=None
            Known answers: a frame (task, label), a mapping, or one answer per row of a wide matrix. They are held
            fixed, and are evidence of which latent class is which label.
        checkpoint : path or None, default=None
            File to which a long fit writes its state every few seconds.
        resume : bool, default=False
            Continue from `checkpoint`; the result has the same bits as an uninterrupted fit.

        Returns
        -------
        self : DawidSkene
            The fitted estimator.
        """
        self._check_settings()
        same_names = ("method", "em", "smoothing", "max_iter", "tol", "n_jobs", "memory", "engine")
        chosen = {name: getattr(self, name) for name in same_names}
        settings = CrowdSettings(**chosen, seed=self._seed(), callback=self._progress("EM"))
        clock = StageClock(self.verbose)
        with clock.stage("data"):
            data = self._read(labels, y if gold is None else gold)
        self._set_fitted(fit_crowd(data, settings, clock, checkpoint=checkpoint, resume=resume))
        self.bin_edges_ = data.edges
        if isinstance(data, Labels):
            self.probabilities_, self.labels_  # noqa: B018 - of a file they are computed on first access
        self._warn_limit()
        structure = examine_structure(data, self._fitted.evidence.graph)
        if structure.verdict == "not identifiable":
            warnings.warn(
                f"{structure.reasons[0]} (see report_ for the full verdict)", IdentifiabilityWarning, stacklevel=2
            )
        return self

    def _set_fitted(self, fitted: FittedCrowd) -> None:
        self._forget()
        self._fitted = fitted
        self.classes_, self.n_classes_ = fitted.class_names, len(fitted.class_names)
        self.worker_names_ = fitted.worker_names
        self.prior_, self.confusion_ = fitted.mixture.weights, unstack_confusions(fitted.mixture)
        self.confidence_, self.selection_ = fitted.beta, None
        self._keep_fit(fitted)

    # ------------------------------------------------------------ results

    @cached_property
    def probabilities_(self) -> Floats:
        """Class probabilities (n, K) of the tasks of the fit."""
        return self._seen().posterior

    @cached_property
    def labels_(self) -> Names:
        """Most probable label of every task of the fit (n,)."""
        best = self.probabilities_.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _seen(self) -> Evidence:
        check_is_fitted(self)
        fitted: FittedCrowd | None = self.__dict__.get("_fitted")
        if fitted is None or not hasattr(fitted, "evidence"):  # a model file has no tasks
            raise AttributeError(f"this {type(self).__name__} comes from a file, which holds no tasks; fit it again")
        return fitted.evidence

    @cached_property
    def tasks_(self) -> Any:
        """One row per task: task, label, probability, n_labels, margin."""
        check_is_fitted(self, "probabilities_")
        return build_frame(self._fitted.task_columns(), self._backend)

    @cached_property
    def workers_(self) -> Any:
        """One row per worker: worker, n_labels, accuracy with its 95 % interval, flag."""
        check_is_fitted(self)
        return build_frame(self._fitted.worker_columns(), self._backend)

    @cached_property
    def report_(self) -> FitReport:
        """Verdict, reasons, the numbers behind them, what was chosen and how long it took; computed on first access."""
        check_is_fitted(self)
        return self._fitted.report

    # ---------------------------------------------------------------- use

    def predict_proba(self, labels: Any) -> Floats:
        """Class probabilities of tasks, new or old.

        Parameters
        ----------
        labels : frame, array-like or `latentfit.scan`
            Labels of tasks, in a form that `fit` takes.
            An unseen annotator counts as the crowd's average worker; an unknown label is dropped.

        Returns
        -------
        probabilities : ndarray of shape (n_tasks, n_classes)
            In the order in which the tasks first appear.
        """
        check_is_fitted(self)
        return self._fitted.task_posterior(self._read_in_memory(labels), self.n_jobs)[0]

    def predict(self, labels: Any) -> Names:
        """Most probable label of tasks, new or old.

        Parameters
        ----------
        labels : as in `fit`
            Tasks to label; see `predict_proba` for what the model does not know.

        Returns
        -------
        labels : ndarray of shape (n_tasks,)
            In the order in which the tasks first appear.
        """
        best = self.predict_proba(labels).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, labels: Any, y: Any = None) -> float:
        """Mean log-likelihood of the labels of a task.

        Parameters
        ----------
        labels : as in `fit`
            Tasks with their labels.
        y : object, default=None
            Ignored.

        Returns
        -------
        score : float
            In nats per task.
        """
        check_is_fitted(self)
        data = self._read_in_memory(labels)
        return float(self._fitted.task_posterior(data, self.n_jobs, tempered=False)[1].mean())

    # -------------------------------------------------------------- input

    def _read_in_memory(self, labels: Any) -> Labels:
        """Labels to be answered, in memory."""
        data = self._read(labels, None, reset=False)
        return data if isinstance(data, Labels) else data.task_slice(0, data.n_rows)

    def _read(self, labels: Any, gold: Any, *, reset: bool = True) -> CodedLabels:
        for name in FEATURES if reset else ():  # of an earlier fit
            self.__dict__.pop(name, None)
        rules: dict[str, Any] = self._reading_rules(fitted=not reset)
        if isinstance(labels, Scan):
            from latentfit.labels.data.stored import code_labels

            stored = code_labels(labels, columns=self.columns, gold=read_gold(gold), **rules)
            if reset:
                self._backend = "pyarrow"
                self._check_crowd(stored, wide=False)
            return stored.loaded() if self.engine == "memory" else stored
        wide = not isinstance(labels, Labels) and not is_long(labels, self.columns)
        if reset:
            self._backend = "pyarrow" if isinstance(labels, Labels) else backend_of(labels)
        if wide:
            checks = {"accept_sparse": "coo", "dtype": None, "ensure_all_finite": "allow-nan"}
            labels = self._validated(labels, reset=reset, **checks)
        data = read_labels(labels, columns=self.columns, gold=gold, **rules)
        if reset:
            self._check_crowd(data, wide)
            if self.engine.partition("=")[0] in ("stream", "dask"):
                from latentfit.labels.data.stored import store_labels

                return store_labels(data)
        return data

    def _reading_rules(self, *, fitted: bool = True) -> dict[str, Any]:
        """What abstains and how scores are cut: as the settings say, or for a `fitted` model as its classes do."""
        abstain, bins = self.abstain, self.bins
        if fitted:
            bins = getattr(self, "bin_edges_", None)
            if -1 in self.classes_.tolist() and is_left_alone(abstain):
                abstain = ()  # -1 is a label of this model, in a wide table too
        return {"abstain": abstain, "bins": bins}

    def _check_crowd(self, data: CodedLabels, wide: bool) -> None:
        check_crowd(data, wide=wide)
        if self.n_classes is not None and self.n_classes != data.n_classes:
            raise DataError(
                f"n_classes must be None or the number of different labels, {data.n_classes}, got {self.n_classes}; "
                "give n_classes=None to take the labels that occur"
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()  # it has class probabilities, though it is fitted without truth
        return tags

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self.__dict__.get("_fitted"), "evidence"):  # pickles hold the results, not the data
            self.labels_, self.tasks_, self.workers_, self.report_  # noqa: B018
        state = dict(super().__getstate__())
        if "_fitted" in state:
            state["_fitted"] = restore_crowd(*crowd_state(self._fitted))
        return state

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
        arrays, metadata = crowd_state(self._fitted)
        edges = None if self.bin_edges_ is None else list(self.bin_edges_)
        return arrays, {**metadata, **features_of(self), "bin_edges": edges}

    def _restore(self, arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, Any]) -> None:
        self._set_fitted(restore_crowd(arrays, metadata))
        self.bin_edges_ = _read_edges(metadata.get("bin_edges"), self.n_classes_)
        if metadata.get("n_features_in") is not None:
            restore_features(self, {"feature_names_in": None, **metadata})  # files of 0.1.0 had no names
        self._backend = "pyarrow"


def _read_edges(edges: Any, n_classes: int) -> tuple[float, ...] | None:
    """Edges of intervals as a model file holds them; files of 0.1.0 have none."""
    if edges is None:
        return None
    numbers = np.array(edges, np.float64)
    if numbers.shape != (n_classes - 1,) or not np.isfinite(numbers).all() or (np.diff(numbers) <= 0).any():
        raise ValueError(f"bin_edges are not those of {n_classes} intervals")
    return tuple(numbers.tolist())
