"""Report page of labels: confidence of the consensus, worker quality, co-annotation, what to ask next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import unstack_confusions
from latentfit.labels.data import CodedLabels, Labels
from latentfit.labels.diagnostics.structure import CoAnnotation, co_annotation
from latentfit.labels.diagnostics.workers import FEW_LABELS
from latentfit.labels.estimator import FittedCrowd
from latentfit.labels.moments import co_label_graph
from latentfit.labels.select.information import gain_table
from latentfit.report.assemble import count, fit_section, next_section, numbers_section, page_about
from latentfit.report.charts import ALARM, HUE, Spec, bars, counted, distinct, heat_map, lines
from latentfit.report.page import MOST_ROWS, Block, Chart, Column, Context, DataTable, Figure, Note, Page, Section

SHOWN_WORKERS = 24
"""Workers in the picture of accuracies, the least accurate first."""
GRAPH_WORKERS = 40
"""Workers in the picture of co-annotation."""
CONFUSION_CELLS = 30_000
"""Cells of confusion matrices that a page holds: about 200 KB."""
CONFUSION_CLASSES = 25
"""Classes in a picture of a confusion matrix, the most frequent ones."""

PAPERS = (
    "A. P. Dawid and A. M. Skene: Maximum likelihood estimation of observer error-rates using the EM algorithm. "
    "Applied Statistics 28 (1979).",
    "S. Ibrahim and X. Fu: Crowdsourcing via annotator co-occurrence imputation and provable symmetric nonnegative "
    "matrix factorization. ICML (2022).",
)


def page_of(fitted: Any, context: Context) -> Page:
    """The page of a `FittedCrowd` or of a `DawidSkene`; without data it shows what the model alone holds."""
    crowd: FittedCrowd = fitted if isinstance(fitted, FittedCrowd) else fitted._fitted
    evidence = getattr(crowd, "evidence", None)
    data: CodedLabels | None = evidence.data if evidence is not None else context.data.get("input")
    tasks = tasks_of(crowd, context.data.get("input"))
    report = crowd.report
    sections = [_workers(crowd)]
    if data is not None and tasks is not None:
        sections.insert(0, _tasks(tasks))
        sections.append(_graph(data))
    if context.summary.get("reliability"):
        sections.insert(0, _reliability(context.summary["reliability"]))
    if "plan" in context.data:
        sections.insert(0, _plan(context.data["plan"]))
    sections += [fit_section(crowd, context), _assumed(crowd), numbers_section(report), _next(crowd, context)]
    n_tasks = context.summary.get("n_rows") if data is None else data.n_rows
    n_labels = int(crowd.quality.n_labels.sum()) if data is None else data.n_labels
    return page_about(
        report,
        context,
        title="Consensus labels" if n_tasks is None else f"Consensus on {n_tasks:,} tasks",
        family="labels",
        figures=_figures(crowd, context, tasks),
        picture=_accuracies(crowd) if tasks is None else _confidence(tasks),
        sections=sections,
        papers=PAPERS,
        lead=f"{len(crowd.worker_names):,} workers gave {n_labels:,} labels of {len(crowd.class_names):,} kinds. "
        "What each task is, and how good each worker is, was found without knowing the truth.",
    )


# ------------------------------------------------------------ first screen


def _figures(crowd: FittedCrowd, context: Context, tasks: Tasks | None) -> list[Figure]:
    flagged = sum(str(flag) not in ("", FEW_LABELS) for flag in crowd.quality.flag)
    workers = Figure("Workers flagged", f"{flagged:,}", f"of {len(crowd.worker_names):,}")
    if tasks is None:
        typical = float(np.median(crowd.quality.accuracy))
        classes = Figure("Kinds of labels", count(len(crowd.class_names)))
        return [Figure("Accuracy of the middle worker", f"{typical:.0%}"), workers, classes]
    summary = context.summary
    if summary.get("error_rate") is not None:
        versus = f"majority vote {summary['majority_error_rate']:.1%}; {summary['n_truth']:,} tasks with known truth"
        first = Figure("Error", f"{summary['error_rate']:.1%}", versus)
    else:
        expected = crowd.report.expected
        if expected is None and crowd.report.verdict == "not identifiable":
            first = Figure("Expected error", "–", "the labels do not determine the consensus")
        else:
            value = tasks.expected_error if expected is None else expected.value
            interval = "proportion of tasks"
            if expected is not None and expected.low is not None and expected.high is not None:
                interval = f"{expected.coverage:.0%} interval {expected.low:.1%} to {expected.high:.1%}"
            first = Figure("Expected error", f"{value:.1%}", interval)
    per_task = tasks.n_labels / max(tasks.n_labelled, 1)
    return [first, Figure("Labels per task", f"{per_task:.1f}", f"{tasks.n_labels:,} in all"), workers]


def _confidence(tasks: Tasks) -> Chart:
    edges = np.linspace(0, 1, BINS + 1)
    spec = counted(tasks.confidence, edges, value="probability of the consensus label", count="tasks")
    return Chart(spec, "How sure the consensus is: tasks by the probability of their label. Uncertain ones are left.")


def _reliability(bins: list[dict[str, Any]]) -> Section:
    """Stated probabilities against the share of right answers, where the truth is known."""
    rows = [{"x": one["stated"], "y": one["actual"], "series": "this consensus"} for one in bins]
    ends = sorted(one["stated"] for one in bins)
    rows += [{"x": end, "y": end, "series": "calibrated"} for end in (ends[0], ends[-1])]
    spec = lines(rows, x="stated probability", y="share that is right", series="answers")
    columns: list[str | Column] = [Column("stated probability", ".1%"), Column("right", ".1%"), "tasks"]
    table = DataTable(
        columns, [[one["stated"], one["actual"], one["n_tasks"]] for one in bins], "By stated probability."
    )
    caption = (
        "Tasks with known truth by the probability of their consensus label; below the straight line it is stated too "
        "high."
    )
    chart = Chart(spec, caption, "Reliability curve")
    return Section("Stated against actual", [chart, table])


def _accuracies(crowd: FittedCrowd) -> Chart:
    quality = crowd.quality
    order = _worst(crowd)[:SHOWN_WORKERS]
    accuracy, low, high = (values[order].tolist() for values in (quality.accuracy, quality.low, quality.high))
    names, flagged = distinct([crowd.worker_names[m] for m in order]), [bool(str(quality.flag[m])) for m in order]
    spec = bars(names, accuracy, value="accuracy", low=low, high=high, percent=True, flagged=flagged)
    n_workers = len(crowd.worker_names)
    which = "All workers" if len(order) == n_workers else f"The {len(order)} least accurate of {n_workers:,} workers"
    return Chart(spec, f"{which}, with 95 % intervals; those with a flag stand out.")


# ---------------------------------------------------------------- sections


def _tasks(tasks: Tasks) -> Section:
    """Tasks most worth another label: expected information of a label of an average worker."""
    runner_up = Column("runner-up", meaning="the second most probable label")
    gain = Column("gain", ".3f", "expected information of one more label of an average worker, in nats")
    columns: list[str | Column] = ["task", "label", Column("probability", ".1%"), runner_up, "labels", gain]
    caption = "Where one more label is most informative; latentfit plan also says whom to ask."
    return Section("Tasks most worth another label", [DataTable(columns, tasks.rows, caption, total=tasks.n_tasks)])


def _workers(crowd: FittedCrowd) -> Section:
    quality, order = crowd.quality, _worst(crowd)
    numbers = np.stack([quality.accuracy, quality.low, quality.high], axis=1).tolist()
    rows = [
        [str(crowd.worker_names[m]), int(quality.n_labels[m]), *numbers[m], str(quality.flag[m])]
        for m in order[:MOST_ROWS]
    ]
    interval = [Column(name, ".1%") for name in ("accuracy", "from", "to")]
    columns: list[str | Column] = ["worker", "labels", *interval, "flag"]
    caption = "Probability of being right on a task, judged by the other labels of each task, with its 95 % interval."
    table = DataTable(columns, rows, caption, "Every worker", total=len(order))
    return Section("Workers", [_accuracies(crowd), table, _confusions(crowd)])


def _confusions(crowd: FittedCrowd) -> Chart:
    """One worker's confusion matrix at a time: matrices travel as flat lists and are spread out by Vega."""
    confusions = unstack_confusions(crowd.mixture)
    weights = crowd.mixture.weights
    frequent = np.sort(np.argsort(-weights, kind="stable")[:CONFUSION_CLASSES])
    names = [str(name) for name in crowd.class_names[frequent].tolist()]
    size = len(frequent)
    order = _worst(crowd)[: max(CONFUSION_CELLS // size**2, 1)]
    labels = distinct([crowd.worker_names[m] for m in order])
    values = [
        {"w": at, "p": np.round(confusions[m][np.ix_(frequent, frequent)], 4).reshape(-1).tolist()}
        for at, m in enumerate(order)
    ]
    cut = f", of the {size} most frequent of {len(weights):,} classes" if size < len(weights) else ""
    which = "" if len(order) == len(crowd.worker_names) else f" The {len(order):,} least accurate workers are here."
    spec = heat_map(
        np.zeros((size, size)), names, names, row="true", column="given", value="probability", percent=True,
        numbers=size <= 12, largest=1.0,
    )  # fmt: skip
    choice = {"input": "select", "options": list(range(len(order))), "labels": labels, "name": "Worker "}
    places = [{"k": k, "y": names[k // size], "x": names[k % size]} for k in range(size * size)]
    spec |= {
        "params": [{"name": "worker", "value": 0, "bind": choice}],
        "data": {"values": values},
        "transform": [
            {"filter": "datum.w == worker"},
            {"calculate": f"sequence({size * size})", "as": "k"},
            {"flatten": ["p", "k"]},
            {"lookup": "k", "from": {"data": {"values": places}, "key": "k", "fields": ["y", "x"]}},
            {"calculate": "datum.p", "as": "v"},
        ],
    }
    caption = f"What a worker says (columns) of tasks that are what the row says{cut}.{which}"
    return Chart(spec, caption, "Confusion matrix of a worker")


def _graph(data: CodedLabels) -> Section:
    """Co-annotation: tasks in common, and the pairs that nothing connects."""
    graph = co_label_graph(data)
    sizes = np.bincount(graph.component, minlength=graph.n_components)
    components = np.argsort(-sizes, kind="stable")
    n_workers = data.n_workers
    apart = (n_workers**2 - int((sizes.astype(np.int64) ** 2).sum())) // 2
    text = (
        "All workers are connected by tasks in common."
        if graph.n_components == 1
        else f"The crowd falls into {graph.n_components:,} parts without a common task: {apart:,} pairs of workers "
        "cannot be compared."
    )
    blocks: list[Block] = []
    pairs = co_annotation(data, GRAPH_WORKERS)
    if pairs is not None:
        text += f" {pairs.n_pairs:,} of {n_workers * (n_workers - 1) // 2:,} pairs have a task in common."
        blocks.append(_co_annotation(data, pairs))
    if graph.n_components > 1:
        rows = []
        for rank, component in enumerate(components[:MOST_ROWS].tolist(), start=1):
            example = str(data.worker_names[np.flatnonzero(graph.component == component)[0]])
            rows.append([rank, int(sizes[component]), "yes" if graph.determined[component] else "no", example])
        known = Column("determined", meaning="its workers' quality follows from the data")
        columns: list[str | Column] = ["part", "workers", known, "for example"]
        blocks.append(DataTable(columns, rows, "Parts of the crowd, the largest first.", total=len(components)))
    return Section("Co-annotation", blocks, text)


def _co_annotation(data: CodedLabels, pairs: CoAnnotation) -> Chart:
    """Tasks in common of the busiest workers; a pair that nothing connects stands out."""
    spec = _pair_spec(pairs, distinct([data.worker_names[m] for m in pairs.workers]))
    which = "" if len(pairs.workers) == data.n_workers else f" The {len(pairs.workers)} workers with most labels."
    return Chart(
        spec,
        "Tasks that two workers both labelled. Red: no task in common, and no chain of common tasks leads from one to "
        f"the other.{which}",
        "Tasks in common",
    )


def _pair_spec(pairs: CoAnnotation, names: list[str]) -> Spec:
    spec = heat_map(pairs.common, names, names, row="worker", column="with", value="tasks in common", numbers=False,
                    cell=16 if len(names) > 16 else 24)  # fmt: skip
    size = len(names)
    spec["usermeta"] = {"widest": 240 + (18 if size > 16 else 34) * size}
    lost = [
        {"y": names[i], "x": names[j], "v": "unreachable"}
        for i in range(size)
        for j in range(size)
        if i != j and not pairs.reached[i, j]
    ]
    itself = [{"y": name, "x": name} for name in names]
    spec["layer"] = [
        spec["layer"][0],
        {
            "data": {"values": lost},
            "mark": {"type": "rect", "color": ALARM, "opacity": 0.55},
            "encoding": {"tooltip": [{"field": "y", "title": "worker"}, {"field": "x", "title": "with"},
                                     {"field": "v", "title": "pair"}]},
        },
        {
            "data": {"values": itself},
            "mark": {"type": "point", "color": HUE, "opacity": 0.5, "size": 8},
            "encoding": {"tooltip": [{"field": "y", "title": "worker"}]},
        },
    ]  # fmt: skip
    return spec


def _assumed(crowd: FittedCrowd) -> Section:
    """The prior of the classes, and what the model takes for granted."""
    weights = crowd.mixture.weights
    order = np.argsort(-weights, kind="stable")[:CONFUSION_CLASSES]
    classes = distinct([crowd.class_names[k] for k in order])
    chart = bars(classes, weights[order].tolist(), value="proportion of tasks", percent=True)
    names = "" if len(order) == len(weights) else f" The {len(order)} largest of {len(weights):,}."
    text = (
        "Every task has one class; given it, workers err independently of one another; decisive workers are right more "
        "often than wrong. Copied labels break the second, which the flags look for; nothing in the data can show "
        "the third."
    )
    tempering = (
        f"Probabilities are tempered by the exponent {crowd.beta:.2f}: so that they predict each label from the others "
        "of its task as well as they can, and as far as workers err together, as public crowds with truth have taught."
        if crowd.beta < 1
        else "Probabilities needed no tempering: they predict each label from the others of its task as they are."
    )
    proportions = Chart(chart, f"Proportion of each class.{names}", "Classes")
    return Section("What was assumed", [proportions, Note(tempering)], text)


def _plan(columns: dict[str, Any]) -> Section:
    planned = zip(*(columns[name][:MOST_ROWS] for name in ("rank", "task", "worker", "gain", "reason")), strict=True)
    rows = [
        [int(rank), str(task), "anyone" if worker is None else str(worker), float(gain), str(reason)]
        for rank, task, worker, gain, reason in planned
    ]
    gain_column = Column("gain", ".3f", "expected information of the label, in nats")
    names: list[str | Column] = ["rank", "task", "worker", gain_column, "reason"]
    table = DataTable(names, rows, "The plan, most useful first.", total=len(columns["task"]))
    return Section("What to ask next", [table])


def _next(crowd: FittedCrowd, context: Context) -> Section:
    advice = []
    flagged = [m for m in _worst(crowd) if str(crowd.quality.flag[m])]
    if flagged:
        who = ", ".join(str(crowd.worker_names[m]) for m in flagged[:5]) + (", …" if len(flagged) > 5 else "")
        advice.append(f"Look at the flagged workers ({who}) before you pay or ask them again.")
    if "plan" not in context.data:
        advice.append("latentfit plan, on the same file, says which labels to buy next and whom to ask.")
    return next_section(crowd.report, *advice)


# ------------------------------------------------------------------- helpers


def _worst(crowd: FittedCrowd) -> list[int]:
    """Workers by accuracy, the lowest first."""
    order: list[int] = np.argsort(crowd.quality.accuracy, kind="stable").tolist()
    return order


# -----------------------------------------------------------------------------
# What a page shows of tasks, gathered block by block: how sure the consensus is, and which tasks one label more helps.
#
# Memory stays flat: of all tasks only the counts of a histogram and the 1,000 most useful ones are kept.

BINS = 20
"""Intervals of confidence."""


@dataclass(frozen=True)
class Tasks:
    """Of the labelled tasks: how many, counts by confidence (BINS,), mean uncertainty; and rows of the most useful."""

    n_tasks: int
    n_labelled: int
    n_labels: int
    confidence: NDArray[np.int64]
    expected_error: float
    rows: list[list[Any]]  # task, label, probability, runner-up, labels, gain


def tasks_of(crowd: FittedCrowd, given: Labels | None = None) -> Tasks | None:
    """Tasks of the fit, or of labels given anew; None when there are neither."""
    evidence = getattr(crowd, "evidence", None)
    data: CodedLabels
    blocks: Iterable[tuple[int, Labels, Floats]]
    if evidence is not None:
        data, blocks = evidence.data, evidence.blocks()
    elif given is not None:
        data, blocks = given, [(0, given, crowd.task_posterior(given)[0])]
    else:
        return None
    average = np.ascontiguousarray(crowd.pooled.T)[None]  # (1, true, given): the crowd's average worker
    confidence, uncertainty, labelled = np.zeros(BINS, np.int64), 0.0, 0
    best: tuple[NDArray[Any], ...] = ()  # of the tasks with the largest gain: gain, place, labels, posterior
    for begin, block, posterior in blocks:
        per_task = np.diff(block.offsets)
        sure = posterior[per_task > 0].max(axis=1)
        confidence += np.histogram(sure, BINS, (0.0, 1.0))[0]
        uncertainty, labelled = uncertainty + float((1 - sure).sum()), labelled + len(sure)
        places = np.arange(begin, begin + len(posterior))
        new = gain_table(posterior, average)[:, 0], places, per_task, posterior
        merged = [np.concatenate(pair) for pair in zip(best, new, strict=True)] if best else new
        order = np.argsort(-merged[0], kind="stable")[:MOST_ROWS]
        best = tuple(column[order] for column in merged)
    rows = _rows(best, data, crowd.class_names) if best else []
    return Tasks(data.n_rows, labelled, data.n_labels, confidence, uncertainty / max(labelled, 1), rows)


def _rows(best: tuple[NDArray[Any], ...], data: CodedLabels, classes: Any) -> list[list[Any]]:
    rows = []
    for gain, place, n_labels, posterior in zip(*best, strict=True):
        first, *others = np.argsort(-posterior, kind="stable").tolist()
        runner_up = str(classes[others[0]]) if others else ""
        name = str(data.names_of(int(place), int(place) + 1)[0].as_py())
        rows.append([name, str(classes[first]), float(posterior[first]), runner_up, int(n_labels), float(gain)])
    return rows
