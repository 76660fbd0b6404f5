"""Consensus from noisy annotators: the Dawid–Skene model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit.data.frames import backend_of, build_frame
from tacit.data.label_input import is_long, read_labels
from tacit.data.labels import Labels, recode
from tacit.data.names import Names
from tacit.diagnose.labels import examine_labels
from tacit.diagnose.report import FitReport
from tacit.diagnose.structure import examine_structure
from tacit.diagnose.workers import WorkerQuality, worker_quality
from tacit.engine.blas import one_blas_thread
from tacit.engine.memory import MemoryEngine, Sums, posterior_of
from tacit.engine.mixture import Floats, Mixture, unstack_confusions
from tacit.errors import DataError, NotIdentifiableError
from tacit.factor.assign import align_to_labels
from tacit.models.base import LatentModel, StageClock, make_report, seed_of
from tacit.models.label_methods import METHODS, Settings, Start, start_moments
from tacit.moments.graph import co_label_graph
from tacit.refine.crowd import SMOOTHING, choose_beta, cooled, crowd_steps, margins, pooled_confusion
from tacit.refine.em import Refined
from tacit.refine.starts import Entrant, race

MOMENTS_MARGIN = 1e-3
"""Nats per label by which the moment start must beat the votes: real crowds rarely pass it, near-random do."""
QUALITY = ("n_labels", "accuracy", "accuracy_low", "accuracy_high")
"""Arrays of the model file that hold worker quality."""
MOST_CLASSES = 1000
"""More kinds of labels than this are ids or free text, not classes."""


class DawidSkene(LatentModel):
    r"""Consensus labels, worker quality and calibrated confidence from noisy annotators.

    Use it when several people, models or rules labelled overlapping parts of the same tasks and nobody knows
    the truth. Every worker :math:`m` has a confusion matrix :math:`A_m[k, l] = P(\text{says } l \mid k)`, the
    classes have a prior :math:`\lambda`, and given the class the workers are independent:
    :math:`P(\text{labels of a task}) = \sum_k \lambda_k \prod_m A_m[k, x_m]`.

    Parameters
    ----------
    n_classes : int or None
        Kinds of labels; None takes those that occur.
    method : str
        ``"auto"`` (MAP-EM from votes and from moments, the better likelihood kept), the paper's ``"robust"`` (also
        ``"robust-uniform"``, ``"robust-paper"``), ``"designated"``, ``"symnmf"``, or a baseline: ``"majority"``,
        ``"majority-em"``, ``"multispa"``, ``"cnmf"``, ``"spectral"``, ``"tensor"``, ``"kos"``, ``"eigenratio"``,
        ``"ghosh"``, ``"minimax-entropy"``.
    em : bool
        Polish the method's answer by EM. ``"majority"`` is never polished, ``"majority-em"`` and ``"auto"`` always.
    smoothing : "auto" or float
        Pseudo-labels per worker and class, shaped like the crowd's pooled confusion; 0 is maximum likelihood.
    abstain : sequence
        Labels that mean "no answer"; missing values always do.
    columns : mapping or None
        Names of the ``task``, ``worker`` and ``label`` columns of a long frame when they are unusual.
    max_iter, tol : int, float
        EM stops when an iteration gains less than `tol` nats per label, or after `max_iter` iterations.
    random_state : int or None
        The one seed; None is 0, so that a fit is reproducible unless asked otherwise.
    n_jobs : int or None
        Threads; None uses all cores. The result does not depend on it.
    memory : int or None
        Bytes a list of worker pairs may take; methods that need more refuse.

    Attributes
    ----------
    labels_ : (n_tasks,) the consensus, in the user's words; order of `tasks_`
    probabilities_ : (n_tasks, K) their probabilities, calibrated without truth under ``"auto"``
    confusion_ : (worker, true, given)
    prior_ : (K,)
    tasks_, workers_ : frames with the columns of ``consensus.csv`` and ``workers.csv``
    classes_ : (K,) the labels, sorted
    report_ : `tacit.diagnose.report.FitReport`, made when first asked for

    Examples
    --------
    >>> import pandas as pd
    >>> from tacit import DawidSkene
    >>> votes = pd.DataFrame({
    ...     "task":   ["a", "a", "a", "b", "b", "b", "c", "c", "c"],
    ...     "worker": ["x", "y", "z", "x", "y", "z", "x", "y", "z"],
    ...     "label":  ["cat", "cat", "dog", "dog", "dog", "dog", "cat", "cat", "cat"],
    ... })
    >>> DawidSkene().fit(votes).labels_.tolist()
    ['cat', 'dog', 'cat']
    """

    _model_name = "DawidSkene"

    def __init__(
        self,
        n_classes: int | None = None,
        *,
        method: str = "auto",
        em: bool = True,
        smoothing: float | Literal["auto"] = "auto",
        abstain: Sequence[Any] = ("", -1),
        columns: Mapping[str, str] | None = None,
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
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.engine = engine
        self.memory = memory

    # ---------------------------------------------------------------- fit

    def fit(self, labels: Any, y: Any = None, *, gold: Any = None) -> Self:
        """Learn from a long frame, a wide matrix with gaps, or `Labels`.

        `gold` answers (a frame task/label, a mapping, or a column beside a wide matrix) are held fixed; `y` is
        the same under scikit-learn's name.
        """
        self._check_parameters()
        with one_blas_thread():
            return self._fit(labels, y if gold is None else gold)

    def _fit(self, labels: Any, gold: Any) -> Self:
        clock = StageClock()
        with clock.stage("data"):
            data = self._read(labels, gold)
            engine = MemoryEngine(data, self.n_jobs)
        with clock.stage("moments"):
            graph = co_label_graph(data)
        with clock.stage("factor"):
            settings = Settings(np.random.default_rng(self._seed()), self.n_jobs, self.memory)
            starts = self._starts(data, settings, bool(graph.determined.any()))
        with clock.stage("refine"):
            refined, posterior, notes = self._refine(data, engine, starts)
            counts = np.bincount(data.workers, minlength=data.n_workers)
            mixture = refined.params if posterior is not None else align_to_labels(refined.params, counts)
            beta = self._choose_beta(data, engine, refined)
            if posterior is None:
                posterior, _ = posterior_of(engine, cooled(mixture, beta))
        self._keep(data, mixture, posterior, refined, beta)
        self._graph, self._notes, self._clock = graph, notes, clock
        self._warn_limit(self.max_iter)
        self._warn_structure(examine_structure(data, graph))
        return self

    def _starts(self, data: Labels, settings: Settings, determined: bool) -> dict[str, Start]:
        if self.method != "auto":
            return {self.method: METHODS[self.method](data, settings)}
        starts = {"votes": METHODS["majority"](data, settings)}
        if determined and data.n_classes > 1:
            starts["moments"] = start_moments(data, settings)
        return starts

    def _refine(
        self, data: Labels, engine: MemoryEngine, starts: dict[str, Start]
    ) -> tuple[Refined[Mixture, Sums], Floats | None, list[str]]:
        """EM from every start, the best kept; or the start itself with its own beliefs."""
        smoothing = SMOOTHING if self.smoothing == "auto" else float(self.smoothing)
        notes = [note for start in starts.values() for note in start.notes]
        polished = self.method in ("auto", "majority-em") or (self.em and self.method != "majority")
        entrants: list[Entrant[Mixture, Sums]] = []
        for name, start in starts.items():
            sums = start.sums(data, engine)
            steps = crowd_steps(data, sums, smoothing, self.n_jobs)
            entrants.append(Entrant(name, steps, steps.maximise(sums)))
        if not polished:
            first = starts[entrants[0].name]
            mixture = first.mixture if first.mixture is not None else entrants[0].start
            sums = engine.sums(mixture)
            value = entrants[0].steps.objective(mixture, sums)
            kept: Refined[Mixture, Sums] = Refined(mixture, sums, value, sums.log_likelihood, 0, True, [value])
            return kept, first.beliefs(engine), notes
        raced = race(
            entrants,
            short_iter=self.max_iter,
            max_iter=self.max_iter,
            tol=self.tol,
            margin=MOMENTS_MARGIN,
            callback=self._progress("EM"),
        )
        if len(entrants) > 1:
            scores = ", ".join(f"{name} {score:.4f}" for name, score in raced.scores.items())
            notes.append(f"kept the start from {raced.name} (log-likelihood per label: {scores})")
        return raced.refined, None, notes

    def _choose_beta(self, data: Labels, engine: MemoryEngine, refined: Refined[Mixture, Sums]) -> float:
        """Confidence is calibrated under ``auto`` only: a named method is reported as its paper has it."""
        if self.method != "auto" or data.n_classes < 2:
            return 1.0
        return choose_beta(data, engine, refined, self._seed())

    def _keep(
        self, data: Labels, mixture: Mixture, posterior: Floats, refined: Refined[Mixture, Sums], beta: float
    ) -> None:
        for name in ("tasks_", "workers_", "report_", "_worker_quality"):  # made again when asked for
            self.__dict__.pop(name, None)
        self._data, self._mixture = data, mixture
        self._pooled = pooled_confusion(refined.sums, data.n_classes)
        self.classes_, self.n_classes_ = data.class_names, data.n_classes
        self.worker_names_ = data.worker_names
        self.prior_, self.confusion_ = mixture.weights, unstack_confusions(mixture)
        self.confidence_ = beta
        self.probabilities_ = posterior
        self.labels_: Names = data.class_names[posterior.argmax(axis=1)]
        self.n_iter_, self.converged_ = refined.n_iter, refined.converged
        self.log_likelihood_, self.objective_ = refined.log_likelihood, refined.objective
        self.objective_path_ = np.array(refined.path)

    # ------------------------------------------------------------ results

    @cached_property
    def tasks_(self) -> Any:
        """One row per task: task, label, probability, n_labels, margin."""
        check_is_fitted(self, "probabilities_")
        columns = {
            "task": self._data.task_names,
            "label": self.labels_,
            "probability": self.probabilities_.max(axis=1),
            "n_labels": np.diff(self._data.offsets),
            "margin": margins(self.probabilities_),
        }
        return build_frame(columns, self._backend)

    @cached_property
    def workers_(self) -> Any:
        """One row per worker: worker, n_labels, accuracy with its 95 % interval, flag."""
        check_is_fitted(self)
        quality = self._worker_quality
        columns = {
            "worker": self.worker_names_,
            "n_labels": quality.n_labels,
            "accuracy": quality.accuracy,
            "accuracy_low": quality.low,
            "accuracy_high": quality.high,
            "flag": np.array(quality.flag, object),
        }
        return build_frame(columns, self._backend)

    @cached_property
    def report_(self) -> FitReport:
        """Verdict, reasons, the numbers behind them, what was chosen and how long it took; made when asked for."""
        check_is_fitted(self)
        with one_blas_thread(), self._clock.stage("diagnose"):
            examination = examine_labels(
                self._data,
                self._mixture,
                graph=self._graph,
                posterior=self.probabilities_,
                converged=self.converged_,
                memory=self.memory,
                quality=self._worker_quality,
            )
        return make_report(examination, self._notes, self._clock)

    @cached_property
    def _worker_quality(self) -> WorkerQuality:
        with one_blas_thread(), self._clock.stage("workers"):
            return worker_quality(self._data, self._mixture, memory=self.memory)

    # ---------------------------------------------------------------- use

    def predict_proba(self, labels: Any) -> Floats:
        """Class probabilities (n, K) of tasks, new or old; a worker never seen counts as the crowd's average."""
        check_is_fitted(self)
        data = recode(self._read(labels, None, reset=False), self.worker_names_, self.classes_)
        table = np.vstack([self._mixture.table, self._pooled])
        mixture = Mixture(self._mixture.weights, table, data.first)
        return posterior_of(MemoryEngine(data, self.n_jobs), cooled(mixture, self.confidence_))[0]

    def predict(self, labels: Any) -> Names:
        """The most probable label of every task, in the order in which the tasks first appear."""
        best = self.predict_proba(labels).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def score(self, labels: Any, y: Any = None) -> float:
        """Mean log-likelihood of a task's labels, in nats."""
        check_is_fitted(self)
        data = recode(self._read(labels, None, reset=False), self.worker_names_, self.classes_)
        mixture = Mixture(self._mixture.weights, np.vstack([self._mixture.table, self._pooled]), data.first)
        return float(posterior_of(MemoryEngine(data, self.n_jobs), mixture)[1].mean())

    # -------------------------------------------------------------- input

    def _read(self, labels: Any, gold: Any, *, reset: bool = True) -> Labels:
        wide = not isinstance(labels, Labels) and not is_long(labels, self.columns)
        if reset:
            self._backend = "pyarrow" if isinstance(labels, Labels) else backend_of(labels)
        if wide and (hasattr(labels, "columns") or hasattr(labels, "column_names")):
            validate_data(self, labels, reset=reset, skip_check_array=True)
        elif wide:
            labels = validate_data(
                self, labels, reset=reset, accept_sparse="coo", dtype=None, ensure_all_finite="allow-nan"
            )
        data = read_labels(labels, columns=self.columns, abstain=self.abstain, gold=gold)
        if reset:
            self._check_data(data, wide)
        return data

    def _check_data(self, data: Labels, wide: bool) -> None:
        if data.n_labels == 0:
            raise DataError(f"none of the {data.n_rows} tasks has a label; every cell is missing or abstains")
        if data.n_workers < 2:
            form = " (n_features=1)" if wide else ""
            raise NotIdentifiableError(
                f"all labels come from 1 worker{form}, {data.worker_names[0]!r}; "
                "agreement needs at least two workers with common tasks"
            )
        if data.n_classes > MOST_CLASSES:
            raise DataError(
                f"the labels take {data.n_classes:,} different values, at most {MOST_CLASSES:,} can be classes; "
                "check that the label column is not an id or free text"
            )
        if self.n_classes is not None and self.n_classes != data.n_classes:
            raise DataError(
                f"n_classes={self.n_classes} was asked for, but {data.n_classes} different labels occur; "
                "give n_classes=None to take those that occur"
            )

    def _check_parameters(self) -> None:
        self._check_engine()
        if self.method != "auto" and self.method not in METHODS:
            raise DataError(f"there is no method {self.method!r}; the methods are auto, {', '.join(METHODS)}")
        if self.smoothing != "auto" and not float(self.smoothing) >= 0:
            raise DataError(f"smoothing={self.smoothing!r} is no count of pseudo-labels; give 'auto' or a number >= 0")

    def _seed(self) -> int:
        return seed_of(self.random_state)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        tags.classifier_tags = ClassifierTags()  # it has class probabilities, though it is fitted without truth
        return tags

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "probabilities_"):  # what is made when asked for travels, so that the coded data need not
            self.tasks_, self.workers_, self.report_  # noqa: B018
        state = dict(super().__getstate__())
        for name in ("_data", "_graph", "_clock"):
            state.pop(name, None)
        return state

    # --------------------------------------------------------- model file

    def _state(self) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
        quality = self._worker_quality
        arrays = {
            "weights": self._mixture.weights,
            "table": self._mixture.table,
            "pooled": self._pooled,
            "n_labels": np.asarray(quality.n_labels, np.int64),
            "accuracy": quality.accuracy,
            "accuracy_low": quality.low,
            "accuracy_high": quality.high,
            "objective_path": self.objective_path_,
        }
        metadata = {
            "classes": self.classes_.tolist(),
            "workers": self.worker_names_.tolist(),
            "flags": list(quality.flag),
            "confidence": self.confidence_,
            "n_iter": self.n_iter_,
            "converged": self.converged_,
            "log_likelihood": self.log_likelihood_,
            "objective": self.objective_,
            "n_features_in": getattr(self, "n_features_in_", None),
            "verdict": self.report_.verdict,
            "reasons": self.report_.reasons,
            "notes": self.report_.notes,
        }
        return arrays, metadata

    def _restore(self, arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, Any]) -> None:
        self.classes_, self.worker_names_ = _names(metadata["classes"]), _names(metadata["workers"])
        n_workers, self.n_classes_ = len(self.worker_names_), len(self.classes_)
        first = np.arange(0, (n_workers + 1) * self.n_classes_, self.n_classes_, dtype=np.int32)
        shapes = {"weights": (self.n_classes_,), "table": (n_workers * self.n_classes_, self.n_classes_)}
        shapes["pooled"] = (self.n_classes_, self.n_classes_)
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} has shape {arrays[name].shape}, its names ask for {shape}")
        self._mixture = Mixture(arrays["weights"], arrays["table"], first)
        self._pooled = arrays["pooled"]
        flags = np.array([str(flag) for flag in metadata["flags"]], object)
        n_labels, accuracy, low, high = (arrays[name] for name in QUALITY)
        self.__dict__["_worker_quality"] = WorkerQuality(n_labels, accuracy, low, high, flags)
        self.prior_, self.confusion_ = self._mixture.weights, unstack_confusions(self._mixture)
        self.confidence_ = float(metadata["confidence"])
        self.n_iter_, self.converged_ = int(metadata["n_iter"]), bool(metadata["converged"])
        self.log_likelihood_, self.objective_ = float(metadata["log_likelihood"]), float(metadata["objective"])
        self.objective_path_ = arrays["objective_path"]
        self.report_ = FitReport(metadata["verdict"], list(metadata["reasons"]), {}, list(metadata["notes"]), {})
        if metadata.get("n_features_in") is not None:
            self.n_features_in_ = int(metadata["n_features_in"])
        self._backend = "pyarrow"


def _names(values: list[Any]) -> Names:
    array = np.array(values)
    return array if array.dtype.kind in "iub" else np.array(values, object)
