"""Tables 4, 5 and 9 of Ibrahim & Fu 2022: real crowds with known answers, error and seconds next to the paper's."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from latentfit.core.names import match
from latentfit.io.read import read_columns
from latentfit.labels.data import Labels
from latentfit.labels.data.input import read_gold, read_labels
from latentfit.labels.init.designated import reachable
from latentfit.labels.moments import count_label_pairs
from reproduction.crowd_methods import AUTO, BASELINES, OWN, Codes, Recipe, error_percent, solve
from reproduction.crowd_paper import MISSING_BLOCKS, NOT_RERUN, REAL
from reproduction.table import Outcome, Row, Run, absent, mean_row

REPEATS = 20
LABELME_REPEATS = 100
"""The paper averages LabelMe over 100 runs; its other real crowds it runs once."""
SLOW_REPEATS = 5
TOO_LARGE_FOR_CI = ("trec",)


@dataclass(frozen=True)
class KnownCrowd:
    """Labels with the truth beside them (n,), -1 where it is not known."""

    labels: Labels
    truth: Codes


def read_crowd(run: Run, name: str) -> KnownCrowd | None:
    """A crowd of the data folder, or None when it is not there."""
    folder = run.find(f"crowd/{name}")
    if folder is None:
        return None
    labels = read_labels(read_columns(folder / "labels.csv"))
    gold = read_gold(read_columns(folder / "truth.csv"))
    assert gold is not None
    rows = match(gold[0], labels.task_names, "truth task")
    truth = np.full(labels.n_rows, -1, np.int32)
    truth[rows[rows >= 0]] = match(gold[1], labels.class_names, "truth label")[rows >= 0]
    return KnownCrowd(labels, truth)


def table4(run: Run) -> Outcome:
    """Table 4: Bluebird and Dog."""
    return _table(run, "bluebird and dog, error % and seconds", ("bluebird", "dog52"), REPEATS)


def table5(run: Run) -> Outcome:
    """Table 5: RTE and TREC."""
    return _table(run, "rte and trec, error % and seconds", ("rte", "trec"), REPEATS)


def table9(run: Run) -> Outcome:
    """Table 9: LabelMe."""
    return _table(run, "labelme, error % and seconds", ("labelme",), LABELME_REPEATS)


def _table(run: Run, title: str, names: tuple[str, ...], repeats: int) -> Outcome:
    rows, notes = [], ["repeats are seeds of a method's own randomness; methods without any run once"]
    for name in names:
        left_out = run.quick and name in TOO_LARGE_FOR_CI
        crowd = None if left_out else read_crowd(run, name)
        if crowd is None:
            why = "skipped: too large for --quick" if left_out else absent(f"crowd/{name}")
            rows += [_paper_row(name, method, why) for method in REAL[name]]
            continue
        run.say(f"{name}: {crowd.labels.n_rows:,} tasks, {crowd.labels.n_workers} workers")
        rows += [_run_row(run, name, crowd, recipe, repeats) for recipe in (*OWN, *BASELINES, AUTO)]
        rows += [_paper_row(name, method, "not rerun") for method in REAL[name] if method in NOT_RERUN]
        notes.append(missing_note(name, crowd.labels))
    return Outcome(title, rows, notes)


def _paper_row(name: str, method: str, note: str) -> Row:
    error, seconds = REAL[name].get(method, (None, None))
    return Row(name, method, paper=error, paper_seconds=seconds, note=note)


def _run_row(run: Run, name: str, crowd: KnownCrowd, recipe: Recipe, repeats: int) -> Row:
    row = replace(_paper_row(name, recipe.method, ""), variant=recipe.variant)
    if not recipe.can(crowd.labels.n_classes):
        return Row(name, recipe.method, recipe.variant, note="N/A: defined for two classes")
    if recipe.slow and run.quick:
        return _paper_row(name, recipe.method, "skipped: too slow for --quick")
    seeds = run.seeds(min(repeats, SLOW_REPEATS) if recipe.slow else repeats)
    seeds = seeds if recipe.random else seeds[:1]
    answers = [solve(crowd.labels, recipe, seed) for seed in seeds]
    errors = [error_percent(answer.posterior, crowd.truth) for answer in answers]
    return mean_row(row, errors, [answer.seconds for answer in answers])


def missing_note(name: str, labels: Labels) -> str:
    """Share of missing co-occurrences before and after imputation by designated workers, and the paper's."""
    observed = count_label_pairs(labels).co_observed()
    ours = 100 * (1 - observed.mean()), 100 * (1 - reachable(observed).mean())
    text = f"{name}: missing co-occurrences before and after imputation {ours[0]:.2f} → {ours[1]:.2f} %"
    if name in MISSING_BLOCKS:
        before, after = MISSING_BLOCKS[name]
        text += f" (paper {before:.2f} → {after:.2f} %)"
    return text
