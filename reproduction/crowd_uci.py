"""Tables 1–3 of Ibrahim & Fu 2022: ten classifiers as annotators of UCI tables, labels thinned in three ways.

The paper's annotators are MATLAB presets whose errors are not printed; ours are the same ten kinds in
scikit-learn, so levels differ and the order of the methods is what can be compared: a rank correlation with
the paper's order closes each column. Tasks that nobody labelled are left out: no method can say anything of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.stats import spearmanr

from latentfit.labels.init.designated import reachable
from reproduction.crowd_machines import (
    Source,
    Thin,
    coded,
    draw_groups,
    kept,
    observed_pairs,
    thin_by_chance,
    thin_by_parts,
    trained,
)
from reproduction.crowd_methods import (
    AUTO,
    BASELINES,
    OWN,
    TACIT,
    Recipe,
    error_percent,
    first_of_each,
    solve,
)
from reproduction.crowd_paper import (
    TABLE1,
    TABLE1_COLUMNS,
    TABLE2,
    TABLE3,
    TABLE3_COLUMNS,
    TABLE3_MISSING_AFTER,
    Figure,
)
from reproduction.table import Outcome, Row, Run, absent, mean_row

REPEATS = 20
RANGES = ((0.3, 0.3), (0.3, 0.5), (0.5, 0.7))
"""p_m of the three columns of Tables 1 and 2; the first has no designated annotators."""
MISSING = (0.7, 0.5, 0.3)
"""Shares of missing co-occurrences of Table 3, the diagonal among them."""
CLASSIFIERS = 10

Paper = dict[str, tuple[Figure, ...]]


def table1(run: Run) -> Outcome:
    """Table 1: Connect4; when it is not there its rows are skipped, and Car stands in below them."""
    rows, notes = _block(run, "Connect4", TABLE1, TABLE1_COLUMNS, trained(run, "connect4"), _by_chance())
    if rows[0].note:
        name, source = "Car in place of Connect4", trained(run, "car")
        more, _ = _block(run, name, dict.fromkeys(TABLE1, (None,) * 4), TABLE1_COLUMNS, source, _by_chance())
        rows, notes = rows + more, [*notes, f"{name}: another table, so no paper figures beside it"]
    return Outcome(_title("Connect4", run), rows, notes)


def table2(run: Run) -> Outcome:
    """Table 2: Credit; without the raw table, complete labels of ten classifiers kept as a crowd are thinned."""
    source, notes = trained(run, "credit"), []
    if source is None:
        source = kept(run, "uci_credit")
        notes = ["Credit: no raw table; every trial thins the same complete labels of crowd/uci_credit"]
    rows, more = _block(run, "Credit", TABLE2, TABLE1_COLUMNS, source, _by_chance())
    return Outcome(_title("Credit", run), rows, notes + more)


def table3(run: Run) -> Outcome:
    """Table 3: Car, with three shares of missing co-occurrences."""
    thins: list[Thin] = [partial(thin_by_parts, missing=missing) for missing in MISSING]
    rows, notes = _block(run, "Car", TABLE3, TABLE3_COLUMNS, trained(run, "car"), thins)
    reached = [_reach_note(run, *pair) for pair in zip(MISSING, TABLE3_MISSING_AFTER, strict=True)]
    return Outcome(_title("Car", run), rows, notes + reached)


def _title(name: str, run: Run) -> str:
    return f"{name}: ten classifiers as annotators, error %, {run.times(REPEATS)} trials"


def _by_chance() -> list[Thin]:
    return [partial(thin_by_chance, chances=chances, designated=place > 0) for place, chances in enumerate(RANGES)]


def _block(
    run: Run, name: str, paper: Paper, columns: Sequence[str], source: Source | None, thins: Sequence[Thin]
) -> tuple[list[Row], list[str]]:
    """Rows of all columns of a table, and how well its order of methods agrees."""
    rows: list[Row] = []
    notes: list[str] = []
    for place, column in enumerate(columns):
        dataset = f"{name}, {column}"
        if source is None:
            why = absent(f"tables/{name.split()[0].lower()}.csv")
            rows += [replace(_row(dataset, method, "", paper, place), note=why) for method in paper]
            continue
        run.say(dataset)
        made = _column(run, dataset, paper, place, source, thins[place])
        rows += made
        notes += _order_note(made)
    return rows, notes


def _column(run: Run, dataset: str, paper: Paper, place: int, source: Source, thin: Thin) -> list[Row]:
    """All methods on the same trials."""
    trials = []
    for seed in run.seeds(REPEATS):
        rng = np.random.default_rng(seed)
        machines = source(rng)
        n, n_workers = machines.given.shape
        trials.append((seed, *coded(machines, thin(n, n_workers, rng))))
    rows = []
    for recipe in _recipes(run, machines.n_classes):
        answers = [solve(labels, recipe, seed) for seed, labels, _ in trials]
        errors = [error_percent(answer.posterior, truth) for answer, (_, _, truth) in zip(answers, trials, strict=True)]
        row = _row(dataset, recipe.method, recipe.variant, paper, place)
        rows.append(mean_row(row, errors, [answer.seconds for answer in answers]))
    return rows


def _recipes(run: Run, n_classes: int) -> list[Recipe]:
    """Every row of the paper once, in the form nearest to it; then what Latentfit does by itself."""
    own = [recipe for recipe in first_of_each([*OWN, *BASELINES]) if recipe.can(n_classes)]
    ours = [recipe for recipe in OWN if recipe.method == "RobSymNMF-EM" and recipe.variant == TACIT]
    return [recipe for recipe in (*own, *ours, AUTO) if not (run.quick and recipe.slow)]


def _row(dataset: str, method: str, variant: str, paper: Paper, place: int) -> Row:
    figures = paper.get(method, (None,) * 4)
    return Row(dataset, method, variant, paper=figures[place], paper_seconds=figures[3])


def _order_note(rows: list[Row]) -> list[str]:
    """Rank correlation with the paper over the methods both have, the first variant of each."""
    first = {row.method: row for row in reversed(rows)}.values()
    both = [(row.paper, row.ours) for row in first if row.paper is not None and row.ours is not None]
    if len(both) < 3:
        return []
    paper, ours = zip(*both, strict=True)
    rank = float(spearmanr(paper, ours)[0])
    return [f"{rows[0].dataset}: rank correlation with the paper's order {rank:.2f} ({len(both)} methods)"]


def _reach_note(run: Run, missing: float, paper: float) -> str:
    """What imputation by designated annotators leaves missing in Table 3's designs."""
    left = []
    for seed in run.seeds(REPEATS):
        groups = draw_groups(CLASSIFIERS, missing, np.random.default_rng(seed))
        left.append(100 * (1 - reachable(observed_pairs(groups)).mean()))
    return f"Car, {missing:.0%} missing: {np.mean(left):.1f} % after imputation (paper {paper:.0f} %)"
