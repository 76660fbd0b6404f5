"""A crowd, fitted: the walk through the pipe for label data, and what it leaves, as plain functions and one object.

`DawidSkene` is this under scikit-learn's contract; the command line uses it as it is, because importing scikit-learn
would take longer than reading, fitting and writing a small file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tacit.data.labels import Labels, recode
from tacit.data.names import Names
from tacit.diagnose.labels import examine_labels
from tacit.diagnose.report import FitReport
from tacit.diagnose.workers import WorkerQuality, worker_quality
from tacit.engine.blas import one_blas_thread
from tacit.engine.memory import MemoryEngine, Sums, posterior_of
from tacit.engine.mixture import Floats, Mixture, unstack_confusions
from tacit.errors import DataError, NotIdentifiableError, nearest
from tacit.factor.assign import label_order
from tacit.models.clock import StageClock, make_report
from tacit.models.label_methods import METHODS, Settings, Start, start_moments
from tacit.moments.graph import CoLabelGraph, co_label_graph
from tacit.refine.crowd import SMOOTHING, choose_beta, cooled, crowd_steps, margins, pooled_confusion
from tacit.refine.em import Refined, Step
from tacit.refine.starts import Entrant, race
from tacit.refine.tables import permuted

MOMENTS_MARGIN = 1e-3
"""Nats per label by which the moment start must beat the votes: real crowds rarely pass it, near-random do."""
MOST_CLASSES = 1000
"""More kinds of labels than this are ids or free text, not classes."""
QUALITY = ("n_labels", "accuracy", "accuracy_low", "accuracy_high")
"""Arrays of the model file that hold worker quality."""

Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class CrowdSettings:
    """The choices of a fit; `DawidSkene` documents them."""

    method: str = "auto"
    em: bool = True
    smoothing: float | Literal["auto"] = "auto"
    max_iter: int = 100
    tol: float = 1e-3
    seed: int = 0
    n_jobs: int | None = None
    memory: int | None = None
    callback: Callable[[Step], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.method != "auto" and self.method not in METHODS:
            hint = nearest(self.method, ["auto", *METHODS], "the methods are")
            raise DataError(f"there is no method {self.method!r}; {hint}")
        if self.smoothing != "auto" and not float(self.smoothing) >= 0:
            raise DataError(f"smoothing={self.smoothing!r} is no count of pseudo-labels; give 'auto' or a number >= 0")

    @property
    def polished(self) -> bool:
        """Whether EM follows the method: never after the plain vote, always in what is EM by name."""
        return self.method in ("auto", "majority-em") or (self.em and self.method != "majority")


def check_crowd(data: Labels, *, wide: bool = False) -> None:
    """Refuse data that allow no answer at all."""
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


def fit_crowd(data: Labels, settings: CrowdSettings, clock: StageClock | None = None) -> FittedCrowd:
    """The pipe from codes to a fitted crowd: moments, starts, EM, names of classes, confidence."""
    clock = StageClock() if clock is None else clock
    with one_blas_thread():
        engine = MemoryEngine(data, settings.n_jobs)
        with clock.stage("moments"):
            graph = co_label_graph(data)
        with clock.stage("factor"):
            starts = _starts(data, settings, bool(graph.determined.any()))
        with clock.stage("refine"):
            refined, posterior, notes = _refine(data, engine, starts, settings)
            if posterior is None and data.gold is None:  # gold answers say themselves which class is which
                counts = np.bincount(data.workers, minlength=data.n_workers)
                refined = permuted(refined, label_order(refined.params, counts))
            # Confidence is calibrated under "auto" only: a named method is reported as its paper has it.
            calibrate = settings.method == "auto" and data.n_classes > 1
            beta = choose_beta(data, engine, refined, settings.seed) if calibrate else 1.0
            if posterior is None:
                posterior, _ = posterior_of(engine, cooled(refined.params, beta))
    pooled = pooled_confusion(refined.sums, data.n_classes)
    fitted = FittedCrowd(
        data.class_names,
        data.worker_names,
        refined.params,
        pooled,
        beta,
        refined.n_iter,
        refined.converged,
        refined.log_likelihood,
        refined.objective,
        np.array(refined.path),
    )
    fitted.evidence = Evidence(data, graph, posterior, notes, clock, settings)
    return fitted


def _starts(data: Labels, settings: CrowdSettings, determined: bool) -> dict[str, Start]:
    ask = Settings(np.random.default_rng(settings.seed), settings.n_jobs, settings.memory)
    if settings.method != "auto":
        return {settings.method: METHODS[settings.method](data, ask)}
    starts = {"votes": METHODS["majority"](data, ask)}
    if determined and data.n_classes > 1:
        starts["moments"] = start_moments(data, ask)
    return starts


def _refine(
    data: Labels, engine: MemoryEngine, starts: dict[str, Start], settings: CrowdSettings
) -> tuple[Refined[Mixture, Sums], Floats | None, list[str]]:
    """EM from every start, the best kept; or the start itself with its own beliefs."""
    smoothing = SMOOTHING if settings.smoothing == "auto" else float(settings.smoothing)
    notes = [note for start in starts.values() for note in start.notes]
    entrants: list[Entrant[Mixture, Sums]] = []
    for name, start in starts.items():
        sums = start.sums(data, engine)
        steps = crowd_steps(data, sums, smoothing, settings.n_jobs)
        entrants.append(Entrant(name, steps, steps.maximise(sums)))
    if not settings.polished:
        first = starts[entrants[0].name]
        mixture = first.mixture if first.mixture is not None else entrants[0].start
        sums = engine.sums(mixture)
        value = entrants[0].steps.objective(mixture, sums)
        kept: Refined[Mixture, Sums] = Refined(mixture, sums, value, sums.log_likelihood, 0, True, [value])
        return kept, first.beliefs(engine), notes
    raced = race(
        entrants,
        short_iter=settings.max_iter,
        max_iter=settings.max_iter,
        tol=settings.tol,
        margin=MOMENTS_MARGIN,
        callback=settings.callback,
    )
    if len(entrants) > 1:
        scores = ", ".join(f"{name} {score:.4f}" for name, score in raced.scores.items())
        notes.append(f"kept the start from {raced.name} (log-likelihood per label: {scores})")
    return raced.refined, None, notes


@dataclass(frozen=True)
class Evidence:
    """What only the fit itself knows: the labels, what is believed of each task, how it went."""

    data: Labels
    graph: CoLabelGraph
    posterior: Floats
    notes: list[str]
    clock: StageClock
    settings: CrowdSettings


@dataclass
class FittedCrowd:
    """The model: what a model file holds. Fresh from a fit it also has its `evidence`."""

    class_names: Names
    worker_names: Names
    mixture: Mixture
    pooled: Floats  # (given, true): what an unknown worker is expected to do
    beta: float
    n_iter: int
    converged: bool
    log_likelihood: float
    objective: float
    path: Floats

    evidence: Evidence = field(init=False, repr=False)

    @cached_property
    def quality(self) -> WorkerQuality:
        seen = self.evidence
        with one_blas_thread(), seen.clock.stage("workers"):
            return worker_quality(seen.data, self.mixture, memory=seen.settings.memory)

    @cached_property
    def report(self) -> FitReport:
        seen, quality = self.evidence, self.quality
        with one_blas_thread(), seen.clock.stage("diagnose"):
            examination = examine_labels(
                seen.data,
                self.mixture,
                graph=seen.graph,
                posterior=seen.posterior,
                converged=self.converged,
                memory=seen.settings.memory,
                quality=quality,
            )
        return make_report(examination, seen.notes, seen.clock)

    def consensus(self) -> Names:
        """The most probable label of every task."""
        return np.asarray(self.class_names[self.evidence.posterior.argmax(axis=1)])

    def task_columns(self) -> dict[str, Any]:
        """consensus.csv: task, label, probability, n_labels, margin."""
        seen = self.evidence
        return {
            "task": seen.data.task_names,
            "label": self.consensus(),
            "probability": seen.posterior.max(axis=1),
            "n_labels": np.diff(seen.data.offsets),
            "margin": margins(seen.posterior),
        }

    def worker_columns(self) -> dict[str, Any]:
        """workers.csv: worker, n_labels, accuracy with its 95 % interval, flag."""
        return {
            "worker": self.worker_names,
            "n_labels": self.quality.n_labels,
            "accuracy": self.quality.accuracy,
            "accuracy_low": self.quality.low,
            "accuracy_high": self.quality.high,
            "flag": np.array(self.quality.flag, object),
        }

    def confusion_columns(self) -> dict[str, Any]:
        """confusion.csv: worker, true, given, probability."""
        confusions = unstack_confusions(self.mixture)
        n_workers, n_classes, _ = confusions.shape
        return {
            "worker": np.repeat(self.worker_names, n_classes**2),
            "true": np.tile(np.repeat(self.class_names, n_classes), n_workers),
            "given": np.tile(self.class_names, n_workers * n_classes),
            "probability": confusions.reshape(-1),
        }

    def beliefs(self, labels: Labels, n_jobs: int | None = None, *, calm: bool = True) -> tuple[Floats, Floats]:
        """Posterior and log-likelihood of any tasks; an unknown worker counts as the crowd's average."""
        data = recode(labels, self.worker_names, self.class_names)
        mixture = Mixture(self.mixture.weights, np.vstack([self.mixture.table, self.pooled]), data.first)
        return posterior_of(MemoryEngine(data, n_jobs), cooled(mixture, self.beta) if calm else mixture)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and metadata of the model file."""
        quality = self.quality
        arrays = {
            "weights": self.mixture.weights,
            "table": self.mixture.table,
            "pooled": self.pooled,
            "n_labels": np.asarray(quality.n_labels, np.int64),
            "accuracy": quality.accuracy,
            "accuracy_low": quality.low,
            "accuracy_high": quality.high,
            "objective_path": self.path,
        }
        metadata = {
            "classes": self.class_names.tolist(),
            "workers": self.worker_names.tolist(),
            "flags": [str(flag) for flag in quality.flag],
            "confidence": self.beta,
            "n_iter": self.n_iter,
            "converged": self.converged,
            "log_likelihood": self.log_likelihood,
            "objective": self.objective,
            "verdict": self.report.verdict,
            "reasons": self.report.reasons,
            "notes": self.report.notes,
        }
        return arrays, metadata


def restore_crowd(arrays: Arrays, metadata: dict[str, Any]) -> FittedCrowd:
    """The fitted crowd of a model file; ValueError or KeyError when its parts do not fit together."""
    classes, workers = _names(metadata["classes"]), _names(metadata["workers"])
    k, m = len(classes), len(workers)
    shapes = {"weights": (k,), "table": (m * k, k), "pooled": (k, k), **dict.fromkeys(QUALITY, (m,))}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, its names ask for {shape}")
    first = np.arange(0, (m + 1) * k, k, dtype=np.int32)
    fitted = FittedCrowd(
        classes,
        workers,
        Mixture(arrays["weights"], arrays["table"], first),
        arrays["pooled"],
        float(metadata["confidence"]),
        int(metadata["n_iter"]),
        bool(metadata["converged"]),
        float(metadata["log_likelihood"]),
        float(metadata["objective"]),
        arrays["objective_path"],
    )
    flags = np.array([str(flag) for flag in metadata["flags"]], object)
    n_labels, accuracy, low, high = (arrays[name] for name in QUALITY)
    fitted.quality = WorkerQuality(n_labels, accuracy, low, high, flags)
    fitted.report = FitReport(metadata["verdict"], list(metadata["reasons"]), {}, list(metadata["notes"]), {})
    return fitted


def _names(values: list[Any]) -> Names:
    array = np.array(values)
    return array if array.dtype.kind in "iub" else np.array(values, object)
