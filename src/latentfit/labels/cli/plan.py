"""`latentfit plan`: which labels to ask for next."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from latentfit.cli.console import Terminal, number_of
from latentfit.cli.options import (
    Reading,
    abstain_option,
    at_most,
    chosen_columns,
    column_options,
    control_option,
    max_iter_option,
    output_options,
    score_option,
    strict_option,
    table_options,
)
from latentfit.cli.results import Results, conclude, summarise
from latentfit.core.registry import ESTIMATORS

if TYPE_CHECKING:
    from latentfit.labels.data.labels import Labels
    from latentfit.labels.select import Plan

SHOWN = 8
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
    from latentfit.labels.cli.labels import (
        abstain_labels,
        errors_against,
        note_wide_layout,
        read_label_file,
        tell_control,
    )
    from latentfit.labels.data.input import ALIASES, read_labels
    from latentfit.labels.estimator.crowd import CrowdSettings, check_crowd, crowd_state, fit_crowd
    from latentfit.labels.select import plan_crowd

    console, clock = Terminal(quiet), StageClock()
    chosen = chosen_columns(task=task, worker=worker, label=label) or None
    gold_rules = reading.beside.rules(aliases=ALIASES)
    abstaining = abstain_labels(abstain)
    tell_control(control, labels_file, console)
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
    more: dict[str, Any] = {
        "n_planned": planned.n_labels,
        "n_cover": planned.n_cover,
        "missing_before": planned.missing_before,
        "missing_after": planned.missing_after,
    }
    if simulate:
        with console.doing("replaying"), clock.stage("simulate"):
            more["simulation"] = _simulate(data, answers, results, console)
            more |= errors_against(fitted, answers)
    arrays, metadata = crowd_state(fitted)
    parameters = {"abstain": list(abstaining), "columns": chosen, "bins": bins, "random_state": seed}
    edges = None if data.edges is None else list(data.edges)
    results.model("DawidSkene", arrays, {"parameters": parameters, **metadata, "bin_edges": edges})
    summary = summarise(
        fitted, fitted.report, data.n_rows, data.n_classes, seed=seed, inputs=[labels_file, workers_file, truth]
    )
    summary |= more | {"notes": summary["notes"] + planned.notes}
    facts = (
        f"{number_of(data.n_rows, 'tasks')}, {number_of(data.n_labels, 'labels')}; {planned.n_labels:,} more to ask for"
    )
    show = partial(_show, columns, planned, console)
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
    shares = sorted({row["share"] for row in means})
    rows = [
        [policy, *(f"{row['error']:.1%}" for row in means if row["policy"] == policy)]
        for policy in dict.fromkeys(row["policy"] for row in means)
    ]
    console.table("error by proportion of the labels bought", ["policy", *(f"{share:.0%}" for share in shares)], rows)
    if results.folder is not None and find_spec("matplotlib") is not None:
        with atomic_path(results.path("simulation.png")) as temporary:
            plot_simulation(frame).figure.savefig(temporary, format="png", dpi=120, bbox_inches="tight")
    return means


def _show(columns: dict[str, Any], planned: Plan, console: Terminal) -> None:
    rows = [
        [str(rank), str(task), "anyone" if worker is None else str(worker), f"{gain:.3f}", reason]
        for rank, task, worker, reason, gain in islice(zip(*columns.values(), strict=True), SHOWN)
    ]
    if planned.n_cover:
        rest = planned.n_labels - planned.n_cover
        console.say(f"{planned.n_cover:,} labels make workers comparable, then {rest:,} are chosen by information")
    title = f"the first {len(rows)} of {planned.n_labels:,} labels to ask for"
    console.table(title, ["rank", "task", "worker", "gain", "reason"], rows)
