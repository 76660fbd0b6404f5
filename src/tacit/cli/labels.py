"""`tacit labels`: consensus from noisy annotators."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from tacit.cli.common import Bytes, Results, Talk, chosen_columns, column_options, output_options, summarise

if TYPE_CHECKING:
    from tacit.models.dawid_skene import DawidSkene

SHOWN = 5
"""Workers shown from each end of the ranking."""


@click.command()
@click.argument("labels_file", metavar="LABELS")
@click.option("--truth", metavar="FILE", help="Known answers (task, label): prints the error, never used to fit.")
@click.option("--gold", metavar="FILE", help="Known answers (task, label) that are held fixed in the fit.")
@click.option("--method", default="auto", show_default=True, help="See docs/models/labels.md for all of them.")
@click.option("--em/--no-em", default=True, help="Polish the method's answer by EM.")
@click.option("--smoothing", type=float, help="Pseudo-labels per worker and class; 0: maximum likelihood.")
@click.option("--abstain", multiple=True, help="A label that means no answer (repeatable).")
@click.option("--control", help="Which control of a Label Studio export to read.")
@click.option("--memory", type=Bytes(), help="Most memory a list of worker pairs may take, like 4GB.")
@click.option("--engine", type=click.Choice(["auto", "memory"]), default="auto")
@click.option("--threads", type=int, help="Threads; all cores by default. The result does not depend on it.")
@click.option("--strict", is_flag=True, help="Exit with 1 when the verdict is not 'trusted'.")
@column_options
@output_options("tacit-labels")
def labels(
    labels_file: str, truth: str | None, gold: str | None, method: str, em: bool, smoothing: float | None,
    abstain: tuple[str, ...], control: str | None, memory: int | None, engine: str, threads: int | None, strict: bool,
    task: str | None, worker: str | None, label: str | None,
    out: str, format_: str, json_: bool, seed: int, quiet: bool,
) -> int:  # fmt: skip
    """Consensus labels from a file with the columns task, worker, label (or a Label Studio export).

    \b
    tacit labels votes.csv --out consensus
    tacit labels votes.parquet --truth truth.csv --method robust
    """
    from tacit.io.read import read_columns
    from tacit.models.dawid_skene import DawidSkene

    talk = Talk(quiet)
    with talk.doing("reading"):
        data, embedded_gold = read_label_file(labels_file, control)
        known = read_columns(gold) if gold else embedded_gold
        answers = read_columns(truth) if truth else None
    model = DawidSkene(
        method=method,
        em=em,
        smoothing="auto" if smoothing is None else smoothing,
        abstain=abstain or ("", -1),
        columns=chosen_columns(task, worker, label) or None,
        random_state=seed,
        n_jobs=threads,
        engine=engine,
        memory=memory,
    )
    with talk.doing("fitting"), talk.heeding_warnings():
        model.fit(data, gold=known)
    command = shlex.join(["tacit", *sys.argv[1:]])
    return write_labels(model, answers, talk, Results(out, format_), json_, strict, command)


def read_label_file(path: str, control: str | None = None) -> tuple[Any, Any]:
    """Labels and, from a Label Studio export, its ground-truth answers."""
    from tacit.io.read import read_columns

    if path.lower().endswith(".json"):
        from tacit.io.label_studio import read_label_studio

        export = read_label_studio(path, control=control)
        return export.labels, export.gold
    return read_columns(path), None


def write_labels(
    model: DawidSkene, answers: Any, talk: Talk, results: Results, json_: bool, strict: bool, command: str
) -> int:
    """All files of a fitted consensus, then what a person wants to see of it."""
    from tacit.data.labels import Labels

    data: Labels = model._data
    tasks, workers = model.tasks_.to_pydict(), model.workers_.to_pydict()
    results.table("consensus", tasks, main=True)
    results.table("workers", workers)
    results.table("confusion", confusion_columns(model))
    results.model(model)
    more: dict[str, Any] = {"method": model.method, "n_labels": data.n_labels, "n_workers": data.n_workers}
    if answers is not None:
        more |= errors_against(model, answers)
    summary = summarise(command, model, data.n_rows, model.report_.seconds, **more)
    results.summary(summary, json_)
    tell(model, summary, workers, talk, results)
    return 1 if strict and model.report_.verdict != "trusted" else 0


def confusion_columns(model: DawidSkene) -> dict[str, Any]:
    """confusion.csv: worker, true, given, probability."""
    import numpy as np

    n_workers, n_classes, _ = model.confusion_.shape
    return {
        "worker": np.repeat(model.worker_names_, n_classes**2),
        "true": np.tile(np.repeat(model.classes_, n_classes), n_workers),
        "given": np.tile(model.classes_, n_workers * n_classes),
        "probability": model.confusion_.reshape(-1),
    }


def errors_against(model: DawidSkene, answers: Any) -> dict[str, Any]:
    """Error of the consensus and of the votes where the truth is known; a tied vote is shared."""
    import numpy as np

    from tacit.data.label_input import read_gold
    from tacit.data.names import match
    from tacit.errors import DataError
    from tacit.factor.votes import vote_shares

    data = model._data
    gold = read_gold(answers)
    assert gold is not None
    rows = match(gold[0], data.task_names, "truth task")
    truth = match(gold[1], data.class_names, "truth label")
    rows, truth = rows[rows >= 0], truth[rows >= 0]
    if not len(rows):
        raise DataError("no task of the truth file occurs in the labels; check that both use the same task ids")
    found = model.probabilities_[rows].argmax(axis=1)
    votes = vote_shares(data)[rows]
    leading = votes >= votes.max(axis=1, keepdims=True) - 1e-12
    right = leading[np.arange(len(rows)), truth] / leading.sum(axis=1) * (truth >= 0)
    return {
        "error_rate": float(np.mean(found != truth)),
        "majority_error_rate": float(1 - right.mean()),
        "n_truth": len(rows),
    }


def tell(model: DawidSkene, summary: dict[str, Any], workers: dict[str, Any], talk: Talk, results: Results) -> None:
    """One screen: what was found, can it be trusted, who is good, where the files are."""
    talk.say(
        f"{summary['n_rows']:,} tasks, {summary['n_workers']:,} workers, {summary['n_components']} classes, "
        f"{summary['n_labels']:,} labels; {sum(summary['seconds'].values()):.2f} s"
    )
    if "error_rate" in summary:
        talk.say(
            f"error on {summary['n_truth']:,} tasks with known truth: {summary['error_rate']:.2%} "
            f"(majority vote {summary['majority_error_rate']:.2%})"
        )
    talk.say(f"verdict: {summary['verdict']}")
    for reason in summary["reasons"]:
        talk.say(f"  - {reason}")
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
    if results.written:
        talk.say("wrote " + ", ".join(results.written))
