"""Fit of a Dawid–Skene model: the stages for label data as plain functions, and the fitted model as one object.

`DawidSkene` is this under scikit-learn's contract; the command line uses it as it is, because importing scikit-learn
would take longer than reading, fitting and writing a small file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from latentfit.core.em import EMResult, Step
from latentfit.core.errors import DataError, DataWarning, NotIdentifiableError, nearest
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture, unstack_confusions
from latentfit.core.model_file import (
    ROUNDING,
    Array,
    Arrays,
    Schema,
    mixture_over,
    name_array,
    plain_names,
    read_names,
    read_path,
    read_report,
    report_state,
    typed,
)
from latentfit.core.multistart import Candidate
from latentfit.core.names import Names, from_names, warn_similar_names
from latentfit.core.numbers import is_amount, is_missing_word
from latentfit.core.progress import StageClock
from latentfit.core.verdict import FitReport, checks_are_skipped, make_report, unchecked
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, Sums, engine_for
from latentfit.labels.data import CodedLabels, Labels, check_scores, recode
from latentfit.labels.diagnostics import examine_labels
from latentfit.labels.diagnostics.experience import BlockPosterior, Calibration, calibrate
from latentfit.labels.diagnostics.workers import WorkerQuality, worker_quality
from latentfit.labels.em import (
    SMOOTHING,
    Limits,
    class_orders,
    crowd_steps,
    fit_em,
    left_out_score,
    margins,
    pooled_confusion,
    reordered,
    tempered_posterior,
)
from latentfit.labels.init import METHODS, STREAMED, Initialisation, Settings, init_moments, init_votes
from latentfit.labels.moments import CoLabelGraph, co_label_graph, vote_proportions

if TYPE_CHECKING:
    from latentfit.core.checkpoint import CheckpointFile

MOST_CLASSES = 1000
"""More different labels than this are ids or free text, not classes."""


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
    engine: str = "auto"

    def __post_init__(self) -> None:
        methods = ["auto", *METHODS]
        if self.method not in methods:
            hint = nearest(self.method, methods, "the methods are")
            raise DataError(f"method must be 'auto' or the name of a method, got {self.method!r}; {hint}")
        if str(self.smoothing) != "auto" and not is_amount(self.smoothing):
            raise DataError(
                f"smoothing must be 'auto' or a number >= 0, got {self.smoothing!r}; give pseudo-labels per worker and "
                "class"
            )
        if self.memory is not None and not is_amount(self.memory):
            raise DataError(f"memory must be a number of bytes >= 0 or None, got {self.memory!r}; give one, or None")

    def deciding(self) -> dict[str, str]:
        """The settings that determine the result of a fit; engine and threads do not."""
        return {name: str(getattr(self, name)) for name in ("method", "em", "smoothing", "max_iter", "tol", "seed")}

    @property
    def tau(self) -> float:
        """τ: pseudo-labels per worker and class."""
        return SMOOTHING if self.smoothing == "auto" else float(self.smoothing)

    @property
    def refined_by_em(self) -> bool:
        """Whether EM follows the method: never after the plain vote, always in what is EM by name."""
        return self.method in ("auto", "majority-em", "one-coin") or (self.em and self.method != "majority")


def check_crowd(data: CodedLabels, *, wide: bool = False) -> None:
    """Refuse data that allow no answer at all; warn of labels that are seldom meant."""
    if data.n_labels == 0:
        raise DataError(
            f"none of the {data.n_rows} tasks has a label: every cell is missing or abstains; check the label column "
            "and abstain"
        )
    if data.n_workers < 2:
        form = " (n_features=1)" if wide else ""
        raise NotIdentifiableError(
            f"all labels come from 1 worker{form}, {data.worker_names[0]!r}; "
            "agreement needs at least two workers with common tasks"
        )
    check_scores(data.class_names, MOST_CLASSES)
    if data.n_classes > MOST_CLASSES:
        raise DataError(
            f"the labels take {data.n_classes:,} different values, at most {MOST_CLASSES:,} are allowed; "
            "check that the label column is not an id or free text"
        )
    warn_similar_names({"among the labels are": data.class_names})
    missing_words = [name for name in data.class_names.tolist() if is_missing_word(name)]
    if missing_words:
        warnings.warn(
            f"{missing_words[0]!r} looks like a missing value but counts as a label; leave such cells empty, or give "
            f"abstain=[{missing_words[0]!r}] (--abstain {missing_words[0]})",
            DataWarning,
            stacklevel=4,
        )


def fit_crowd(
    data: CodedLabels,
    settings: CrowdSettings,
    clock: StageClock | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> FittedCrowd:
    """Fit coded labels: moments, initialisations, EM, order of classes, confidence."""
    clock = StageClock() if clock is None else clock
    if not isinstance(data, Labels) and settings.method not in STREAMED:
        raise DataError(
            f"method={settings.method!r} needs all labels in memory; give engine='memory', or one of "
            f"{', '.join(STREAMED)}, which are streamed"
        )
    checkpoint_file = None
    if checkpoint is not None:
        from latentfit.core.checkpoint import CheckpointFile  # most fits are over before one is due
        from latentfit.labels.em import labels_key

        checkpoint_file = CheckpointFile(checkpoint, labels_key(data), settings.deciding(), resume=resume)
    # No label says that a task has a class that no worker gives (a known answer adds one, or bins without a label);
    # were it fitted like the others, it would take the place of one of them.
    unused = np.flatnonzero(data.counts.sum(axis=0) == 0)
    data = data.with_never_given(tuple(unused.tolist())) if len(unused) else data
    with one_blas_thread():
        free = data.without_gold()  # the classes are found without the known answers, see labels/em.py
        with clock.stage("moments"):
            engine = engine_for(free, settings.engine, settings.n_jobs)
            graph = co_label_graph(free)
        with clock.stage("factor"):
            inits = _initialisations(free if settings.refined_by_em else data, settings, bool(graph.determined.any()))
        notes = [note for init in inits.values() for note in init.notes]
        with clock.stage("refine"):
            final = engine_for(data, settings.engine, settings.n_jobs) if data.has_gold else engine
            unrefined: Initialisation | None = None
            one_coin = False
            if settings.refined_by_em:
                refined, one_coin, more = _fit_tables(data, engine, final, inits, settings, graph, checkpoint_file)
                notes += more
            else:
                refined, unrefined = _without_em(data, final, inits[settings.method], settings, graph)
            calibration = Calibration()
            if data.n_classes > 1:
                beta = left_out_score(data, refined, settings.seed, engine.threads, one_coin=one_coin)[0]
                calibration = calibrate(data, refined.params, beta)
            # a named method is reported as its paper has it
            confidence = calibration.exponent if settings.method == "auto" and data.n_classes > 1 else 1.0
            block_posterior = _block_posterior(data, final, unrefined, refined.params, confidence)
    if checkpoint_file is not None:
        checkpoint_file.done()
    pooled = pooled_confusion(refined.sums, data.n_classes)
    fitted = FittedCrowd(
        data.class_names,
        data.worker_names,
        refined.params,
        pooled,
        confidence,
        refined.n_iter,
        refined.converged,
        refined.log_likelihood,
        refined.objective,
        np.array(refined.path),
        unrefined is not None and unrefined.is_vote,
    )
    fitted.evidence = Evidence(data, graph, block_posterior, calibration, notes, clock, settings)
    return fitted


def _initialisations(data: CodedLabels, settings: CrowdSettings, determined: bool) -> dict[str, Initialisation]:
    ask = Settings(np.random.default_rng(settings.seed), settings.memory)
    if settings.method != "auto":
        method: Callable[[Any, Settings], Initialisation] = METHODS[settings.method]  # not all take stored labels
        return {settings.method: method(data, ask)}
    inits = {"votes": init_votes(data, ask)}
    if determined and data.n_classes > 1 and not _too_few(data):
        inits["moments"] = init_moments(data, settings.seed)
    return inits


def _too_few(data: CodedLabels) -> bool:
    """Fewer labels than the confusion matrices have free parameters: a better likelihood is then mostly overfitting."""
    return data.n_labels < data.n_workers * data.n_classes * (data.n_classes - 1)


def _fit_tables(
    data: CodedLabels,
    engine: MemoryEngine,
    final: MemoryEngine,
    inits: dict[str, Initialisation],
    settings: CrowdSettings,
    graph: CoLabelGraph,
    checkpoint_file: CheckpointFile | None,
) -> tuple[EMResult[Mixture, Sums], bool, list[str]]:
    """EM, and whether its tables are one-coin: asked for, or `auto` has few labels and it predicts them better."""
    one_coin = settings.method == "one-coin"
    refined, notes = _refine(data, engine, final, inits, settings, graph, checkpoint_file, one_coin=one_coin)
    if settings.method != "auto" or data.n_classes < 2 or not _too_few(data):
        return refined, one_coin, notes
    votes = {"votes": inits["votes"]}
    simple, _ = _refine(data, engine, final, votes, settings, graph, None, one_coin=True)
    full_score = left_out_score(data, refined, settings.seed, engine.threads)[1]
    coin_score = left_out_score(data, simple, settings.seed, engine.threads, one_coin=True)[1]
    scores = f"(log-probability of a left-out label: {coin_score:.4f}, of the full ones {full_score:.4f})"
    if coin_score <= full_score:
        return refined, False, [*notes, f"full confusion matrices, not one accuracy per worker {scores}"]
    return simple, True, [f"one accuracy per worker, not full confusion matrices {scores}"]


def _refine(
    data: CodedLabels,
    engine: MemoryEngine,
    final: MemoryEngine,
    inits: dict[str, Initialisation],
    settings: CrowdSettings,
    graph: CoLabelGraph,
    checkpoint_file: CheckpointFile | None,
    *,
    one_coin: bool,
) -> tuple[EMResult[Mixture, Sums], list[str]]:
    """The best EM run over all initialisations; `engine` does not know the known answers, `final` does."""
    free, smoothing = data.without_gold(), settings.tau
    candidates: list[Candidate[Mixture, Sums]] = []
    for name, init in inits.items():
        stats = init.statistics(free, engine)
        steps = crowd_steps(free, stats, smoothing, engine, one_coin=one_coin)
        candidates.append(Candidate(name, steps, steps.m_step(stats)))
    limits = Limits(settings.max_iter, settings.tol, settings.seed, settings.callback)
    return fit_em(data, engine, final, candidates, graph, limits, smoothing=smoothing, checkpoint_file=checkpoint_file)


def _without_em(
    data: CodedLabels, engine: MemoryEngine, init: Initialisation, settings: CrowdSettings, graph: CoLabelGraph
) -> tuple[EMResult[Mixture, Sums], Initialisation]:
    """The initialisation without EM; known answers determine which of its classes is which label."""
    if init.mixture is not None and data.has_gold:
        orders = class_orders(data, graph, init.mixture, engine.threads)
        init = replace(init, mixture=reordered(data, graph, init.mixture, orders, engine.threads))
    stats = init.statistics(data, engine)
    steps = crowd_steps(data, stats, settings.tau, engine)
    mixture = init.mixture if init.mixture is not None else steps.m_step(stats)
    stats = engine.sums(mixture)
    value = steps.objective(mixture, stats)
    return EMResult(mixture, stats, value, stats.log_likelihood, 0, True, [value]), init


def _block_posterior(
    data: CodedLabels, engine: MemoryEngine, unrefined: Initialisation | None, mixture: Mixture, beta: float
) -> BlockPosterior:
    """Posterior of the tasks of a block: looked up for labels in memory, computed on request for stored ones."""
    if unrefined is not None and unrefined.is_vote:
        return lambda begin, block: vote_proportions(block, mixture.weights)
    if isinstance(data, Labels):
        if unrefined is None:
            posterior = tempered_posterior(data, mixture, beta, engine)[0]
        else:
            posterior = unrefined.task_posterior(data, engine)
        return lambda begin, block: posterior[begin : begin + block.n_rows]
    return lambda begin, block: tempered_posterior(block, mixture, beta, MemoryEngine(block, engine.threads))[0]


@dataclass(frozen=True)
class Evidence:
    """What a fit has and a model file has not: the labels, the posterior of each task, notes and timings."""

    data: CodedLabels
    graph: CoLabelGraph
    block_posterior: BlockPosterior
    calibration: Calibration
    notes: list[str]
    clock: StageClock
    settings: CrowdSettings

    @cached_property
    def posterior(self) -> Floats:
        """Posterior of all tasks (n, K), as one array."""
        if isinstance(self.data, Labels):
            return self.block_posterior(0, self.data)
        return np.concatenate([posterior for _, _, posterior in self.blocks()])

    def blocks(self) -> Iterator[tuple[int, Labels, Floats]]:
        """Block by block: the index of its first task, the block, and the posterior of its tasks."""
        begin = 0
        for block in self.data.blocks():
            yield begin, block, self.block_posterior(begin, block)
            begin += block.n_rows


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
    votes: bool  # the plain vote answers, not the mixture that it implies

    evidence: Evidence = field(init=False, repr=False)

    @cached_property
    def quality(self) -> WorkerQuality:
        seen = self.evidence
        with one_blas_thread(), seen.clock.stage("workers"):
            return worker_quality(seen.data, self.mixture, memory=seen.settings.memory, calibration=seen.calibration)

    @cached_property
    def report(self) -> FitReport:
        seen, quality = self.evidence, self.quality
        with one_blas_thread(), seen.clock.stage("diagnose"):
            examination = (
                unchecked()
                if checks_are_skipped()
                else examine_labels(
                    seen.data,
                    self.mixture,
                    graph=seen.graph,
                    calibration=seen.calibration,
                    consensus=seen.block_posterior,
                    converged=self.converged,
                    memory=seen.settings.memory,
                    quality=quality,
                )
            )
        return make_report(examination, seen.notes, seen.clock)

    def task_columns(self) -> dict[str, Any]:
        """consensus.csv: task, label, probability, n_labels, margin."""
        frames = list(self.task_frames())
        return {name: pa.chunked_array([frame[name] for frame in frames]).combine_chunks() for name in frames[0]}

    def task_frames(self) -> Iterator[dict[str, pa.Array]]:
        """The same block by block, in flat memory."""
        classes = from_names(self.class_names)
        for begin, block, posterior in self.evidence.blocks():
            yield {
                "task": self.evidence.data.names_of(begin, begin + block.n_rows),
                "label": classes.take(from_names(posterior.argmax(axis=1))),
                "probability": from_names(posterior.max(axis=1)),
                "n_labels": from_names(np.diff(block.offsets)),
                "margin": from_names(margins(posterior)),
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
        worker, true, given = (from_names(np.ascontiguousarray(n.reshape(-1))) for n in np.indices(confusions.shape))
        classes = from_names(self.class_names)
        return {
            "worker": from_names(self.worker_names).take(worker),
            "true": classes.take(true),
            "given": classes.take(given),
            "probability": confusions.reshape(-1),
        }

    def task_posterior(
        self, labels: Labels, n_jobs: int | None = None, *, tempered: bool = True
    ) -> tuple[Floats, Floats]:
        """Posterior (n, K) of any tasks, and their log-likelihood (n,); an unseen annotator counts as the average."""
        data = recode(labels, self.worker_names, self.class_names)
        mixture = Mixture(self.mixture.weights, np.vstack([self.mixture.table, self.pooled]), data.column_offsets)
        posterior, score = tempered_posterior(data, mixture, self.beta if tempered else 1.0, MemoryEngine(data, n_jobs))
        return (vote_proportions(data, self.mixture.weights) if self.votes else posterior), score


# -----------------------------------------------------------------------------
# What the model file of a crowd holds: the workers' tables, their quality, and what is expected of an unknown one.
#
# It holds a `FittedCrowd`, not the estimator around it, because the command line writes it without scikit-learn.

QUALITY = ("accuracy", "accuracy_low", "accuracy_high")
"""Arrays of the model file that hold worker quality, in addition to `n_labels`."""


SCHEMA = Schema(
    {
        "pooled": Array(("K", "K")),
        "n_labels": Array(("m",), dtype=np.int64),
        **dict.fromkeys(QUALITY, Array(("m",))),
    },
    names={"classes": "K", "workers": "m"},
)
"""What the model file holds, beside the mixture and the fit history."""


def crowd_state(crowd: FittedCrowd) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and metadata of a fitted crowd."""
    quality = crowd.quality
    arrays = {
        "weights": crowd.mixture.weights,
        "table": crowd.mixture.table,
        "pooled": crowd.pooled,
        "n_labels": np.asarray(quality.n_labels, np.int64),
        "accuracy": quality.accuracy,
        "accuracy_low": quality.low,
        "accuracy_high": quality.high,
        "objective_path": crowd.path,
    }
    metadata = {
        "classes": plain_names(crowd.class_names.tolist()),
        "workers": plain_names(crowd.worker_names.tolist()),
        "flags": [str(flag) for flag in quality.flag],
        "confidence": float(crowd.beta),
        "votes": crowd.votes,
        "n_iter": int(crowd.n_iter),
        "converged": bool(crowd.converged),
        "log_likelihood": float(crowd.log_likelihood),
        "objective": float(crowd.objective),
        **report_state(crowd.report),
    }
    return arrays, metadata


def restore_crowd(arrays: Arrays, metadata: dict[str, Any]) -> FittedCrowd:
    """The fitted crowd that `crowd_state` described; ValueError or KeyError when its parts do not fit together."""
    classes, workers = (name_array(read_names(metadata, what), what) for what in ("classes", "workers"))
    k, m = len(classes), len(workers)
    SCHEMA.check(arrays, metadata)
    n_labels, flags = arrays["n_labels"], typed(metadata, "flags", list)
    if len(flags) != m:
        raise ValueError(f"flags are not those of {m} workers")
    if (np.abs(arrays["pooled"].sum(axis=0) - 1) > ROUNDING).any():
        raise ValueError("pooled holds probabilities that do not sum to one")
    beta = typed(metadata, "confidence", float)
    if not 0 < beta <= 1 or typed(metadata, "n_iter", int) < 0:
        raise ValueError(f"confidence must be in (0, 1] and n_iter >= 0, got {beta} and {metadata['n_iter']}")
    if "votes" not in metadata:  # the first files of 0.1.0 say it by their method alone
        metadata = {"votes": metadata.get("parameters", {}).get("method") == "majority", **metadata}
    fitted = FittedCrowd(
        classes,
        workers,
        mixture_over(arrays, np.arange(0, (m + 1) * k, k, dtype=np.int32)),
        arrays["pooled"],
        beta,
        metadata["n_iter"],
        typed(metadata, "converged", bool),
        typed(metadata, "log_likelihood", float),
        typed(metadata, "objective", float),
        read_path(arrays),
        typed(metadata, "votes", bool),
    )
    accuracy, low, high = (arrays[name] for name in QUALITY)
    fitted.quality = WorkerQuality(n_labels, accuracy, low, high, np.array([str(flag) for flag in flags], object))
    fitted.report = read_report(metadata)
    return fitted
