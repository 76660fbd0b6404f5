"""`latentfit labels`: consensus from noisy annotators."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal, called, number_of
from latentfit.cli.options import (
    Reading,
    abstain_option,
    are_streamed,
    at_most,
    checkpoint_settings,
    chosen_columns,
    column_options,
    control_option,
    engine_options,
    max_iter_option,
    note_unused_cache,
    output_options,
    score_option,
    settings,
    strict_option,
    table_options,
)
from latentfit.cli.results import Results, conclude, summarise
from latentfit.core.registry import ESTIMATORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from latentfit.cli.predict import PredictRequest
    from latentfit.labels.data import CodedLabels, Labels
    from latentfit.labels.estimator import FittedCrowd
    from latentfit.labels.estimator.dawid_skene import DawidSkene
    from latentfit.labels.select import Plan

RELIABILITY_BINS = 10
"""Intervals of stated probability in which the share of right answers is counted."""
SHOWN_WORKERS = 5
"""Workers shown from each end of the ranking."""


@click.command()
@click.argument("files", metavar="LABELS…", nargs=-1, required=True)
@click.option("--truth", metavar="FILE", help="Known answers (task, label): prints the error, never used to fit.")
@click.option("--gold", metavar="FILE", help="Known answers (task, label) that are held fixed in the fit.")
@click.option("--method", default="auto", show_default=True, help="See docs/guide/labels.md for all of them.")
@click.option("--em/--no-em", default=True, help="Refine the method's answer by EM.")
@click.option("--smoothing", type=float, help="Pseudo-labels per worker and class; 0: maximum likelihood.")
@abstain_option
@score_option
@control_option
@table_options
@max_iter_option
@engine_options
@strict_option
@column_options(*ESTIMATORS["DawidSkene"].roles)
@output_options("latentfit-labels", report=True)
def labels(
    files: tuple[str, ...], truth: str | None, gold: str | None, method: str, em: bool, smoothing: float | None,
    abstain: tuple[str, ...], bins: int | None, control: str | None, engine: str, memory: int | None, cache: str | None,
    checkpoint: str | None, resume: bool, threads: int | None, strict: bool, reading: Reading, max_iter: int | None,
    task: str | None, worker: str | None, label: str | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Consensus labels from a file with the columns task, worker, label (or a Label Studio export).

    \b
    latentfit labels votes.csv --out consensus
    latentfit labels votes.parquet --truth truth.csv --method robust
    latentfit labels 'history/*.parquet' --engine stream --cache coded
    """
    from latentfit.core.progress import StageClock
    from latentfit.io.read import read_columns
    from latentfit.labels.data.input import ALIASES
    from latentfit.labels.estimator import CrowdSettings, check_crowd, fit_crowd

    console, clock, checkpoint_arguments = Terminal(quiet), StageClock(), checkpoint_settings(checkpoint, resume)
    smooth: Any = "auto" if smoothing is None else smoothing
    with settings():
        request = CrowdSettings(
            method, em, smooth, seed=seed, n_jobs=threads, memory=memory, engine=engine, **at_most(max_iter)
        )
    chosen = chosen_columns(task=task, worker=worker, label=label) or None
    abstaining = abstain_labels(abstain)
    with clock.stage("data"):
        with console.warnings_as_notes():
            rules = reading.of_other_file.rules(aliases=ALIASES)
            answers, known = (read_columns(one, **rules) if one else None for one in (truth, gold))
        data = _read(files, engine, memory, cache, console, control, chosen, abstaining, bins, known, reading)
        with console.warnings_as_notes():
            check_crowd(data)
    with console.doing("fitting"):
        fitted = fit_crowd(data, request, clock, **checkpoint_arguments)
    parameters = {
        "abstain": list(abstaining), "columns": chosen, "bins": bins, "random_state": seed, "engine": engine
    }  # fmt: skip
    results = Results(out, format_, console, no_report=no_report)
    return write_crowd(fitted, parameters, answers, results, json_, strict, [*files, gold, truth])


def abstain_labels(abstain: tuple[str, ...]) -> tuple[str, ...]:
    """What --abstain names: the usual where it was not given, nothing where it is ''."""
    return tuple(value for value in abstain if value) if abstain else ("",)


def note_wide_layout(source: Any, columns: Mapping[str, str] | None, console: Terminal) -> None:
    """A file without the usual columns is read as a matrix of labels, which may not be what was meant."""
    from latentfit.labels.data.input import is_long

    if not is_long(source, columns):
        names = source.column_names
        names_text = ", ".join(map(str, names[:SHOWN_WORKERS])) + (", …" if len(names) > SHOWN_WORKERS else "")
        console.say(
            f"note: read as one row per task and one column per worker ({names_text}); if a row is one label, name the "
            "columns of task, worker and label (--task, --worker, --label)"
        )


def _read(
    files: tuple[str, ...], engine: str, memory: int | None, cache: str | None, console: Terminal, control: str | None,
    chosen: dict[str, str] | None, abstain: tuple[Any, ...], bins: int | None, gold: Any, reading: Reading,
) -> CodedLabels:  # fmt: skip
    """The labels: in memory, or coded into a file when they are long or lie in several files."""
    from latentfit.core.errors import DataError
    from latentfit.labels.data.input import read_gold, read_labels

    note_control(control, files[0], console)
    exports = [one for one in files if _is_export(one)]
    if exports and len(files) > 1:  # it has tasks, people and controls of its own, which nothing makes those of another
        raise DataError(
            f"a Label Studio export must be the only file, got {len(files)} files with {exports[0]}; give one at a time"
        )
    if exports or not are_streamed(files, engine, memory):
        note_unused_cache(cache, console)
        with console.doing("reading"):
            source, embedded_gold = read_label_file(files[0], control, reading, chosen)
            gold = _both(gold, embedded_gold)
            data = read_labels(source, columns=chosen, abstain=abstain, gold=gold, bins=bins)
        note_wide_layout(source, chosen, console)
        return data
    from latentfit.io.scan import scan
    from latentfit.labels.data.stored import code_labels

    rules = reading.rules(*(chosen or {}).values())
    with console.counting("coding") as progress, console.warnings_as_notes():
        source = scan(files, cache=cache, callback=progress, **rules)
        stored = code_labels(source, columns=chosen, abstain=abstain, gold=read_gold(gold), bins=bins)
    return stored.loaded() if engine == "memory" else stored


def _both(gold: Any, embedded: Any) -> Any:
    """Known answers of a file and of the export itself, together."""
    import pyarrow as pa

    from latentfit.core.names import to_arrow
    from latentfit.labels.data.input import read_gold

    if gold is None or embedded is None:
        return embedded if gold is None else gold
    pairs = [read_gold(one) or ([], []) for one in (gold, embedded)]
    columns = ([str(v) for gold_pair in pairs for v in to_arrow(gold_pair[at], "gold").to_pylist()] for at in (0, 1))
    return pa.table(dict(zip(("task", "label"), columns, strict=True)))


def _is_export(path: str) -> bool:
    """Whether the file is a Label Studio export, which is read into memory."""
    return path.lower().endswith(".json")


def note_control(control: str | None, path: str | None, console: Terminal) -> None:
    """Only an export has controls to choose from."""
    if control is not None and (path is None or not _is_export(path)):
        what = "no data were named" if path is None else f"{called(path)} is not a Label Studio export (.json)"
        console.say(f"note: --control is not used, since {what}")


def read_label_file(
    path: str, control: str | None, reading: Reading, chosen: Mapping[str, str] | None = None
) -> tuple[Any, Any]:
    """Labels and, from a Label Studio export, its ground-truth answers."""
    from latentfit.io.read import read_columns
    from latentfit.labels.data.input import ALIASES

    if _is_export(path):
        from latentfit.io.label_studio import read_label_studio

        export = read_label_studio(path, control=control)
        return export.labels, export.gold
    return read_columns(path, **reading.rules(*(chosen or {}).values(), aliases=ALIASES)), None


def write_crowd(
    fitted: FittedCrowd, parameters: dict[str, Any], answers: Any, results: Results, json_: bool, strict: bool,
    inputs: list[str | None],
) -> int:  # fmt: skip
    """All files of a fitted crowd, then what a person wants to see of it."""
    from latentfit.core.frames import build_frame
    from latentfit.labels.diagnostics import examine_truth

    evidence, console = fitted.evidence, results.console
    more: dict[str, Any] = {"n_labels": evidence.data.n_labels, "n_workers": evidence.data.n_workers}
    with console.doing("examining"):
        workers, report = fitted.worker_columns(), fitted.report
        if answers is not None:
            more |= errors_against(fitted, answers)
            report = fitted.report = examine_truth(report, more["error_rate"], more["n_truth"])
    results.batches("consensus", (build_frame(one, "pyarrow") for one in fitted.task_frames()), main=True)
    results.table("workers", workers)
    results.table("confusion", fitted.confusion_columns())
    stored = ("method", "em", "smoothing", "max_iter", "tol", "memory")
    write_model(fitted, {name: getattr(evidence.settings, name) for name in stored} | parameters, results)
    n_rows, n_classes = evidence.data.n_rows, len(fitted.class_names)
    summary = summarise(fitted, report, n_rows, n_classes, seed=evidence.settings.seed, inputs=inputs)
    summary |= {"method": evidence.settings.method, **more}
    facts = (
        f"{number_of(summary['n_rows'], 'tasks')}, {number_of(summary['n_workers'], 'workers')}, "
        f"{number_of(summary['n_components'], 'classes')}, {number_of(summary['n_labels'], 'labels')}"
    )
    page = partial(results.report, fitted, summary)
    show_summary = partial(show, summary, workers, console)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=show_summary, page=page)


def write_model(fitted: FittedCrowd, parameters: dict[str, Any], results: Results) -> None:
    """The model file, as `DawidSkene` with these parameters would write it."""
    from latentfit.labels.estimator import crowd_state

    arrays, metadata = crowd_state(fitted)
    edges = fitted.evidence.data.edges
    metadata |= {"parameters": parameters, "bin_edges": None if edges is None else list(edges)}
    results.model("DawidSkene", arrays, metadata)


def errors_against(fitted: FittedCrowd, answers: Any) -> dict[str, Any]:
    """Error of the consensus and of the votes where the truth is known; a tied vote is shared."""
    import warnings

    import numpy as np

    from latentfit.core.errors import DataError, DataWarning
    from latentfit.core.names import encode, to_arrow
    from latentfit.labels.data import match_answers
    from latentfit.labels.data.input import read_gold
    from latentfit.labels.moments import overall_proportions, vote_proportions

    data = fitted.evidence.data
    gold = read_gold(answers, what="true answers")
    assert gold is not None
    rows = data.find(gold[0], "truth task")
    answers = to_arrow(gold[1], "truth label")
    truth = match_answers(answers, data, "truth label")
    request = (rows >= 0) & (encode(answers, "truth label")[0] >= 0)
    unknown = np.flatnonzero(request & (truth < 0))
    if len(unknown):
        first = answers[int(unknown[0])].as_py()
        warnings.warn(
            f"{len(unknown):,} labels of the truth file were given by no worker, {first!r} first; they count as errors",
            DataWarning,
            stacklevel=2,
        )
    rows, truth = rows[request], truth[request]
    if not len(rows):
        raise DataError("no task of the truth file occurs in the labels; check that both use the same task ids")
    order = np.argsort(rows, kind="stable")
    rows, truth = rows[order], truth[order]
    overall, wrong, right = overall_proportions(data), 0, 0.0
    bins = np.zeros((RELIABILITY_BINS, 3))  # tasks, their stated probabilities, how many are right
    for begin, block, posterior in fitted.evidence.blocks():
        low, high = np.searchsorted(rows, [begin, begin + block.n_rows])
        at, true = rows[low:high] - begin, truth[low:high]
        consensus, stated = posterior[at].argmax(axis=1), posterior[at].max(axis=1)
        wrong += int((consensus != true).sum())
        place = np.minimum((stated * RELIABILITY_BINS).astype(int), RELIABILITY_BINS - 1)
        np.add.at(bins, place, np.stack([np.ones(len(at)), stated, consensus == true], axis=1))
        votes = vote_proportions(block, overall)[at]
        leading = votes >= votes.max(axis=1, keepdims=True) - 1e-12
        right += float((leading[np.arange(len(at)), true] / leading.sum(axis=1) * (true >= 0)).sum())
    reliability = [{"n_tasks": int(n), "stated": total / n, "actual": hits / n} for n, total, hits in bins if n]
    majority_error = 1 - right / len(rows)
    return {
        "error_rate": wrong / len(rows),
        "majority_error_rate": majority_error,
        "n_truth": len(rows),
        "reliability": reliability,
    }


def show(summary: dict[str, Any], workers: dict[str, Any], console: Terminal) -> None:
    """How wrong it is where the truth is known, and who is good."""
    if "error_rate" in summary:
        console.say(
            f"error on {summary['n_truth']:,} tasks with known truth: {summary['error_rate']:.2%} "
            f"(majority vote {summary['majority_error_rate']:.2%})"
        )
    order = sorted(range(len(workers["worker"])), key=lambda i: -workers["accuracy"][i])
    listed = order if len(order) <= 2 * SHOWN_WORKERS else order[:SHOWN_WORKERS] + order[-SHOWN_WORKERS:]
    rows = [
        [
            str(workers["worker"][i]),
            f"{workers['n_labels'][i]:,}",
            f"{workers['accuracy'][i]:.1%}",
            f"{workers['accuracy_low'][i]:.1%} – {workers['accuracy_high'][i]:.1%}",
            workers["flag"][i],
        ]
        for i in listed
    ]
    title = "workers" if len(listed) == len(order) else f"best and worst {SHOWN_WORKERS} of {len(order):,} workers"
    console.table(title, ["worker", "labels", "accuracy", "95 % interval", "flag"], rows)


def read_known(
    model: DawidSkene, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> Labels:
    """Labels of a file as a saved model reads them; a note names those that it does not know."""
    from latentfit.labels.data import match_labels
    from latentfit.labels.data.input import read_labels

    named = columns or model.columns
    with console.doing("reading"):
        source, _ = read_label_file(path, control, reading, named)
        data = read_labels(source, columns=named, **model._reading_rules())
    note_wide_layout(source, named, console)
    unseen = data.class_names[match_labels(data.class_names, model.classes_, "label") < 0].tolist()
    if unseen:
        names_text = ", ".join(map(repr, unseen[:3])) + (f" and {len(unseen) - 3} more" if len(unseen) > 3 else "")
        console.say(f"note: the model does not know the labels {names_text}; they were left out")
    return data


def predict_tasks(model: DawidSkene, request: PredictRequest) -> int:
    """The consensus of new tasks under the workers of a model: predictions.csv."""
    data = read_known(model, request.data_file, request.columns, request.control, request.console, request.reading)
    with request.console.doing("predicting"):
        posterior = model.predict_proba(data)
    values = model.classes_[posterior.argmax(axis=1)]
    columns = {"task": data.task_names, "value": values, "probability": posterior.max(axis=1)}
    request.results.table("predictions", columns, main=True)
    return request.conclude(data.n_rows, f"{number_of(data.n_rows, 'tasks')} labelled")


def read_input(
    model: DawidSkene, path: str, columns: dict[str, str], control: str | None, console: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    return {"input": read_known(model, path, columns, control, console, reading)}


# -----------------------------------------------------------------------------
# `latentfit plan`: which labels to ask for next.

SHOWN_ROWS = 8
"""Rows of the plan shown on the terminal."""


@click.command()
@click.argument("labels_file", metavar="LABELS")
@click.option("--budget", type=click.IntRange(1), help="Most labels in the plan; default: a tenth of the tasks.")
@click.option("--per-worker", type=click.IntRange(1), help="Most labels asked of one worker.")
@click.option(
    "--workers", "workers_file", metavar="FILE",
    help="Who can be asked (column worker; LABELS itself will do); without it the task alone.",
)  # fmt: skip
@click.option("--simulate", is_flag=True, help="Replay a finished crowd: error against labels bought.")
@click.option("--truth", metavar="FILE", help="Known answers (task, label), for --simulate only.")
@abstain_option
@score_option
@table_options
@max_iter_option
@control_option
@strict_option
@column_options(*ESTIMATORS["DawidSkene"].roles)
@output_options("latentfit-plan", report=True)
def plan(
    labels_file: str, budget: int | None, per_worker: int | None, workers_file: str | None, simulate: bool,
    truth: str | None, abstain: tuple[str, ...], bins: int | None, control: str | None, strict: bool,
    reading: Reading, max_iter: int | None,
    task: str | None, worker: str | None, label: str | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool, no_report: bool,
) -> int:  # fmt: skip
    """Which labels to ask for next: those that make workers comparable, then the most informative ones.

    \b
    latentfit plan votes.csv --budget 500 --workers votes.csv --per-worker 20
    latentfit plan finished.csv --simulate --truth truth.csv
    """
    if simulate != (truth is not None):
        raise click.UsageError("--simulate and --truth go together; give both: the truth measures the replay's errors")
    from latentfit.core.progress import StageClock
    from latentfit.io.read import read_columns
    from latentfit.labels.data.input import ALIASES, read_labels
    from latentfit.labels.diagnostics import examine_truth
    from latentfit.labels.estimator import CrowdSettings, check_crowd, fit_crowd
    from latentfit.labels.select import plan_crowd

    console, clock = Terminal(quiet), StageClock()
    chosen = chosen_columns(task=task, worker=worker, label=label) or None
    gold_rules = reading.of_other_file.rules(aliases=ALIASES)
    abstaining = abstain_labels(abstain)
    note_control(control, labels_file, console)
    with console.doing("reading"), clock.stage("data"):
        source, gold = read_label_file(labels_file, control, reading, chosen)
        available = None
        if workers_file is not None and workers_file != labels_file:
            available = _worker_column(read_columns(workers_file, **gold_rules), worker)
        answers = None if truth is None else read_columns(truth, **gold_rules)
        data = read_labels(source, columns=chosen, abstain=abstaining, gold=gold, bins=bins)
        check_crowd(data)
    if workers_file == labels_file:  # also of a wide table or an export, which have no column of workers
        available = data.worker_names
    note_wide_layout(source, chosen, console)
    with console.doing("fitting"):
        fitted = fit_crowd(data, CrowdSettings(seed=seed, **at_most(max_iter)), clock)
    with console.doing("planning"), clock.stage("plan"):
        columns, planned = plan_crowd(fitted, data, budget=budget, per_worker=per_worker, workers=available, seed=seed)
    results = Results(out, format_, console, no_report=no_report)
    results.table("plan", columns, main=not simulate)
    more: dict[str, Any] = {"n_planned": planned.n_labels}
    more |= {name: getattr(planned, name) for name in ("n_cover", "missing_before", "missing_after")}
    if simulate:
        with console.doing("replaying"), clock.stage("simulate"):
            more["simulation"] = _simulate(data, answers, results, console)
            more |= errors_against(fitted, answers)
            fitted.report = examine_truth(fitted.report, more["error_rate"], more["n_truth"])
    parameters = {"abstain": list(abstaining), "columns": chosen, "bins": bins, "random_state": seed}
    write_model(fitted, parameters, results)
    summary = summarise(
        fitted, fitted.report, data.n_rows, data.n_classes, seed=seed, inputs=[labels_file, workers_file, truth]
    )
    summary |= more | {"notes": summary["notes"] + planned.notes}
    facts = (
        f"{number_of(data.n_rows, 'tasks')}, {number_of(data.n_labels, 'labels')}; {planned.n_labels:,} more to ask for"
    )
    show = partial(_show_plan, columns, planned, console)
    page = partial(results.report, fitted, summary, plan=columns)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=show, page=page)


def _worker_column(table: Any, worker: str | None) -> Any:
    """The list of workers: the column named by --worker when it exists, a worker column, or the only column."""
    if worker in table.column_names:
        return table[worker]
    return table.column(0) if table.num_columns == 1 else table


def _simulate(data: Labels, answers: Any, results: Results, console: Terminal) -> list[dict[str, Any]]:
    """simulation.csv, the picture when matplotlib is installed, and the means on the terminal."""
    from latentfit.io.write import atomic_path
    from latentfit.labels.plot import mean_errors, plot_simulation
    from latentfit.labels.select import simulate_plan

    frame = simulate_plan(data, answers)
    results.table("simulation", frame.to_pydict(), main=True)
    means = mean_errors(frame)
    proportions = sorted({row["share"] for row in means})
    rows = [
        [policy, *(f"{row['error']:.1%}" for row in means if row["policy"] == policy)]
        for policy in dict.fromkeys(row["policy"] for row in means)
    ]
    console.table(
        "error by proportion of the labels bought",
        ["policy", *(f"{proportion:.0%}" for proportion in proportions)],
        rows,
    )
    if results.folder is not None and find_spec("matplotlib") is not None:
        with atomic_path(results.path("simulation.png")) as temporary:
            plot_simulation(frame).figure.savefig(temporary, format="png", dpi=120, bbox_inches="tight")
    return means


def _show_plan(columns: dict[str, Any], planned: Plan, console: Terminal) -> None:
    rows = [
        [str(rank), str(task), "anyone" if worker is None else str(worker), f"{gain:.3f}", reason]
        for rank, task, worker, reason, gain in islice(zip(*columns.values(), strict=True), SHOWN_ROWS)
    ]
    if planned.n_cover:
        rest = planned.n_labels - planned.n_cover
        console.say(f"{planned.n_cover:,} labels make workers comparable, then {rest:,} are chosen by information")
    title = f"the first {len(rows)} of {planned.n_labels:,} labels to ask for"
    console.table(title, ["rank", "task", "worker", "gain", "reason"], rows)
