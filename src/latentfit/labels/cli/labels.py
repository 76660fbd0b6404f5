"""`latentfit labels`: consensus from noisy annotators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal, called, number_of
from latentfit.cli.options import (
    Reading,
    abstain_option,
    are_streamed,
    at_most,
    chosen_columns,
    column_options,
    control_option,
    engine_options,
    keeping,
    max_iter_option,
    output_options,
    score_option,
    settings,
    strict_option,
    table_options,
    tell_no_cache,
)
from latentfit.cli.results import Results, conclude, summarise
from latentfit.core.registry import ESTIMATORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from latentfit.cli.predict import Asked
    from latentfit.labels.data.labels import CodedLabels, Labels
    from latentfit.labels.estimator.crowd import FittedCrowd
    from latentfit.labels.estimator.dawid_skene import DawidSkene

SHOWN = 5
"""Workers shown from each end of the ranking."""


@click.command()
@click.argument("files", metavar="LABELS…", nargs=-1, required=True)
@click.option("--truth", metavar="FILE", help="Known answers (task, label): prints the error, never used to fit.")
@click.option("--gold", metavar="FILE", help="Known answers (task, label) that are held fixed in the fit.")
@click.option("--method", default="auto", show_default=True, help="See docs/models/labels.md for all of them.")
@click.option("--em/--no-em", default=True, help="Polish the method's answer by EM.")
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
    from latentfit.labels.estimator.crowd import CrowdSettings, check_crowd, fit_crowd

    talk, clock, kept = Terminal(quiet), StageClock(), keeping(checkpoint, resume)
    smooth: Any = "auto" if smoothing is None else smoothing
    with settings():
        asked = CrowdSettings(
            method, em, smooth, seed=seed, n_jobs=threads, memory=memory, engine=engine, **at_most(max_iter)
        )
    chosen = chosen_columns(task=task, worker=worker, label=label) or None
    silent = labels_of_silence(abstain)
    with clock.stage("data"):
        with talk.heeding_warnings():
            rules = reading.beside.rules(aliases=ALIASES)
            answers, known = (read_columns(one, **rules) if one else None for one in (truth, gold))
        data = _read(files, engine, memory, cache, talk, control, chosen, silent, bins, known, reading)
        with talk.heeding_warnings():
            check_crowd(data)
    with talk.doing("fitting"):
        fitted = fit_crowd(data, asked, clock, **kept)
    parameters = {
        "abstain": list(silent), "columns": chosen, "bins": bins, "random_state": seed, "engine": engine
    }  # fmt: skip
    results = Results(out, format_, talk, no_report=no_report)
    return write_crowd(fitted, parameters, answers, results, json_, strict, [*files, gold, truth])


def labels_of_silence(abstain: tuple[str, ...]) -> tuple[str, ...]:
    """What --abstain names: the usual where it was not given, nothing where it is ''."""
    return tuple(word for word in abstain if word) if abstain else ("",)


def tell_reading(source: Any, columns: Mapping[str, str] | None, talk: Terminal) -> None:
    """A file without the usual columns is read as a matrix of labels, which may not be what was meant."""
    from latentfit.labels.data.input import is_long

    if not is_long(source, columns):
        names = source.column_names
        shown = ", ".join(map(str, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
        talk.say(
            f"note: read as one row a task and one column a worker ({shown}); if a row is one label, say which columns "
            "hold task, worker and label (--task, --worker, --label)"
        )


def _read(
    files: tuple[str, ...], engine: str, memory: int | None, cache: str | None, talk: Terminal, control: str | None,
    chosen: dict[str, str] | None, abstain: tuple[Any, ...], bins: int | None, gold: Any, reading: Reading,
) -> CodedLabels:  # fmt: skip
    """The labels: in memory, or coded into a file when they are long or lie in several files."""
    from latentfit.labels.data.input import read_gold, read_labels

    tell_control(control, files[0], talk)
    _check_alone(files)
    if not are_streamed(files, engine, memory) or (len(files) == 1 and _is_export(files[0])):
        tell_no_cache(cache, talk)
        with talk.doing("reading"):
            source, embedded_gold = read_label_file(files[0], control, reading, chosen)
            gold = _both(gold, embedded_gold)
            data = read_labels(source, columns=chosen, abstain=abstain, gold=gold, bins=bins)
        tell_reading(source, chosen, talk)
        return data
    from latentfit.io.scan import scan
    from latentfit.labels.data.stored import code_labels

    rules = reading.rules(*(chosen or {}).values())
    with talk.counting("coding") as told, talk.heeding_warnings():
        stored = code_labels(
            scan(files, cache=cache, told=told, **rules),
            columns=chosen,
            abstain=abstain,
            gold=read_gold(gold),
            bins=bins,
        )
    return stored.loaded() if engine == "memory" else stored


def _both(gold: Any, embedded: Any) -> Any:
    """Known answers of a file and of the export itself, together."""
    import pyarrow as pa

    from latentfit.core.names import to_arrow
    from latentfit.labels.data.input import read_gold

    if gold is None or embedded is None:
        return embedded if gold is None else gold
    pairs = [read_gold(one) or ([], []) for one in (gold, embedded)]
    columns = ([str(v) for part in pairs for v in to_arrow(part[at], "gold").to_pylist()] for at in (0, 1))
    return pa.table(dict(zip(("task", "label"), columns, strict=True)))


def _is_export(path: str) -> bool:
    """Whether it is an export of Label Studio, which is read whole."""
    return path.lower().endswith(".json")


def _check_alone(files: tuple[str, ...]) -> None:
    """Exports have tasks, people and controls of their own, which nothing makes those of another."""
    from latentfit.core.errors import DataError

    exports = [one for one in files if _is_export(one)]
    if exports and len(files) > 1:
        raise DataError(
            f"{len(files)} files were named, and {exports[0]} is an export of Label Studio; give one export at a time"
        )


def tell_control(control: str | None, path: str | None, talk: Terminal) -> None:
    """Only an export has controls to choose from."""
    if control is not None and (path is None or not _is_export(path)):
        what = "no data were named" if path is None else f"{called(path)} is no export of Label Studio (.json)"
        talk.say(f"note: --control is not used, since {what}")


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
    from latentfit.labels.estimator.crowd import crowd_state

    seen, talk = fitted.evidence, results.talk
    more: dict[str, Any] = {"n_labels": seen.data.n_labels, "n_workers": seen.data.n_workers}
    with talk.doing("examining"):
        workers, report = fitted.worker_columns(), fitted.report
        if answers is not None:
            more |= errors_against(fitted, answers)
    results.batches("consensus", (build_frame(one, "pyarrow") for one in fitted.task_frames()), main=True)
    results.table("workers", workers)
    results.table("confusion", fitted.confusion_columns())
    arrays, metadata = crowd_state(fitted)
    chosen = {name: getattr(seen.settings, name) for name in ("method", "em", "smoothing", "max_iter", "tol", "memory")}
    edges = None if seen.data.edges is None else list(seen.data.edges)
    results.model("DawidSkene", arrays, {"parameters": {**chosen, **parameters}, **metadata, "bin_edges": edges})
    n_rows, n_classes = seen.data.n_rows, len(fitted.class_names)
    summary = summarise(fitted, report, n_rows, n_classes, seed=seen.settings.seed, inputs=inputs)
    summary |= {"method": seen.settings.method, **more}
    facts = (
        f"{number_of(summary['n_rows'], 'tasks')}, {number_of(summary['n_workers'], 'workers')}, "
        f"{number_of(summary['n_components'], 'classes')}, {number_of(summary['n_labels'], 'labels')}"
    )
    page = partial(results.report, fitted, summary)
    seen_by_all = partial(show, summary, workers, talk)
    return conclude(summary, facts, results, json_=json_, strict=strict, show=seen_by_all, page=page)


def errors_against(fitted: FittedCrowd, answers: Any) -> dict[str, Any]:
    """Error of the consensus and of the votes where the truth is known; a tied vote is shared."""
    import warnings

    import numpy as np

    from latentfit.core.errors import DataError, DataWarning
    from latentfit.core.names import encode, to_arrow
    from latentfit.labels.data.input import read_gold
    from latentfit.labels.data.labels import match_answers
    from latentfit.labels.data.stored import find_tasks
    from latentfit.labels.init.votes import overall_shares, vote_shares

    data = fitted.evidence.data
    gold = read_gold(answers, what="true answers")
    assert gold is not None
    rows = find_tasks(data, gold[0], "truth task")
    answers = to_arrow(gold[1], "truth label")
    truth = match_answers(answers, data, "truth label")
    asked = (rows >= 0) & (encode(answers, "truth label")[0] >= 0)
    unsaid = np.flatnonzero(asked & (truth < 0))
    if len(unsaid):
        first = answers[int(unsaid[0])].as_py()
        warnings.warn(
            f"{len(unsaid):,} labels of the truth file were given by nobody, {first!r} first; they count as errors",
            DataWarning,
            stacklevel=2,
        )
    rows, truth = rows[asked], truth[asked]
    if not len(rows):
        raise DataError("no task of the truth file occurs in the labels; check that both use the same task ids")
    order = np.argsort(rows, kind="stable")
    rows, truth = rows[order], truth[order]
    overall, wrong, right = overall_shares(data), 0, 0.0
    for begin, block, posterior in fitted.evidence.parts():
        low, high = np.searchsorted(rows, [begin, begin + block.n_rows])
        at, true = rows[low:high] - begin, truth[low:high]
        wrong += int((posterior[at].argmax(axis=1) != true).sum())
        votes = vote_shares(block, overall)[at]
        leading = votes >= votes.max(axis=1, keepdims=True) - 1e-12
        right += float((leading[np.arange(len(at)), true] / leading.sum(axis=1) * (true >= 0)).sum())
    return {
        "error_rate": wrong / len(rows),
        "majority_error_rate": 1 - right / len(rows),
        "n_truth": len(rows),
    }


def show(summary: dict[str, Any], workers: dict[str, Any], talk: Terminal) -> None:
    """How wrong it is where the truth is known, and who is good."""
    if "error_rate" in summary:
        talk.say(
            f"error on {summary['n_truth']:,} tasks with known truth: {summary['error_rate']:.2%} "
            f"(majority vote {summary['majority_error_rate']:.2%})"
        )
    order = sorted(range(len(workers["worker"])), key=lambda i: -workers["accuracy"][i])
    shown = order if len(order) <= 2 * SHOWN else order[:SHOWN] + order[-SHOWN:]
    rows = [
        [
            str(workers["worker"][i]),
            f"{workers['n_labels'][i]:,}",
            f"{workers['accuracy'][i]:.1%}",
            f"{workers['accuracy_low'][i]:.1%} – {workers['accuracy_high'][i]:.1%}",
            workers["flag"][i],
        ]
        for i in shown
    ]
    title = "workers" if len(shown) == len(order) else f"best and worst {SHOWN} of {len(order):,} workers"
    talk.table(title, ["worker", "labels", "accuracy", "95 % interval", "flag"], rows)


def read_known(
    model: DawidSkene, path: str, columns: dict[str, str], control: str | None, talk: Terminal, reading: Reading
) -> Labels:
    """Labels of a file as a saved model was told to read them; a note names those that it does not know."""
    from latentfit.labels.data.input import read_labels
    from latentfit.labels.data.labels import match_labels

    named = columns or model.columns
    with talk.doing("reading"):
        source, _ = read_label_file(path, control, reading, named)
        data = read_labels(source, columns=named, **model._reading_rules())
    tell_reading(source, named, talk)
    unseen = data.class_names[match_labels(data.class_names, model.classes_, "label") < 0].tolist()
    if unseen:
        shown = ", ".join(map(repr, unseen[:3])) + (f" and {len(unseen) - 3} more" if len(unseen) > 3 else "")
        talk.say(f"note: {shown} are no labels that the model knows; they were left out")
    return data


def predict_tasks(model: DawidSkene, asked: Asked) -> int:
    """The consensus of new tasks under the workers of a model: predictions.csv."""
    data = read_known(model, asked.data_file, asked.columns, asked.control, asked.talk, asked.reading)
    with asked.talk.doing("predicting"):
        posterior = model.predict_proba(data)
    values = model.classes_[posterior.argmax(axis=1)]
    columns = {"task": data.task_names, "value": values, "probability": posterior.max(axis=1)}
    asked.results.table("predictions", columns, main=True)
    return asked.conclude(data.n_rows, f"{number_of(data.n_rows, 'tasks')} labelled")


def read_input(
    model: DawidSkene, path: str, columns: dict[str, str], control: str | None, talk: Terminal, reading: Reading
) -> dict[str, Any]:
    """The data of a file for the report of a saved model."""
    return {"input": read_known(model, path, columns, control, talk, reading)}
