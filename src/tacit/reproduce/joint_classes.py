"""Tables III and IV: Car and Mushroom, rows split 50:20:30, the class as one more column, predicted by MAP.

The rank and the rounds of EM are chosen on the validation rows. Columns that are constant in the whole table
(`veil-type` of Mushroom) are left out, which gives the paper's N = 22. The class comes last.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from tacit.data.table import Table
from tacit.data.table_input import read_table
from tacit.engine.blas import one_blas_thread
from tacit.engine.mixture import Mixture
from tacit.io.read import read_columns
from tacit.reproduce.baselines.classifiers import classifiers
from tacit.reproduce.joint_methods import climb_in_rounds, conditional, recipes, start_of_em
from tacit.reproduce.joint_paper import TABLE3, TABLE4
from tacit.reproduce.table import Outcome, Row, Run, absent, mean_row

REPEATS = 20
RANKS = (5, 10, 15, 20, 25)
ROUNDS = (1, 2, 5, 10, 20, 50, 100, 200)
N_LEFT = 5
OURS = "LatentClassClassifier"
SLOW = ("CTD", "CTD-EM", "Neural Net", "Boosted trees")
"""Left out of a quick run."""

Paper = dict[str, tuple[float, float]]
Rows = NDArray[np.intp]


def table3(run: Run) -> Outcome:
    """Car."""
    return _table(run, "Car", "tables/car.csv", TABLE3, SLOW if run.quick else ())


def table4(run: Run) -> Outcome:
    """Mushroom."""
    return _table(run, "Mushroom", "tables/mushroom.csv", TABLE4, SLOW if run.quick else ())


def _table(run: Run, name: str, file: str, paper: Paper, left_out: tuple[str, ...]) -> Outcome:
    path = run.find(file)
    title = f"{name}, accuracy %, {run.times(REPEATS)} trials"
    if path is None:
        rows = [Row(name, m, "", "accuracy %", f[0], paper_seconds=f[1], note=absent(file)) for m, f in paper.items()]
        return Outcome(title, rows)
    frame = read_columns(path)
    words = {column: np.asarray(frame[column].to_pylist(), object) for column in frame.column_names}
    varied = [column for column in words if column != "class" and len(set(words[column])) > 1]
    data: Any = frame.select([*varied, "class"])
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for trial, seed in enumerate(run.seeds(REPEATS)):
        order = np.random.default_rng(seed).permutation(frame.num_rows)
        parts = np.split(order, [frame.num_rows // 2, 7 * frame.num_rows // 10])
        with one_blas_thread():
            results = {**_joints(data, parts, seed, run.quick, left_out), **_others(data, parts, left_out)}
        for key, value in results.items():
            found.setdefault(key, []).append(value)
        run.say(f"{name}: trial {trial + 1}")
    rows = []
    for (method, variant), values in found.items():
        figures = paper.get(method, (None, None))
        row = Row(name, method, variant, "accuracy %", figures[0], paper_seconds=figures[1])
        rows.append(mean_row(row, [value[0] for value in values], [value[1] for value in values]))
    rows += [
        Row(name, method, "", "accuracy %", paper.get(method, (None,))[0], note="skipped: left out of a quick run")
        for method in left_out
    ]
    if not hasattr(tacit, OURS):
        rows.append(Row(name, OURS, "untouched", "accuracy %", note=f"skipped: no tacit.{OURS} yet"))
    return Outcome(title, rows)


def _joints(
    data: Any, parts: list[Rows], seed: int, quick: bool, left_out: tuple[str, ...]
) -> dict[tuple[str, str], tuple[float, float]]:
    """The paper's own rows: (accuracy %, seconds of the chosen fit)."""
    whole = read_table(data, group=False)
    target = whole.n_columns - 1
    train, valid, test = (whole.take(part) for part in parts)

    def right(table: Table, mixture: Mixture) -> float:
        return 100 * float((conditional(table, mixture, target).argmax(axis=1) == table.codes[:, target]).mean())

    out: dict[tuple[str, str], tuple[float, float]] = {}
    for recipe in recipes(N_LEFT):
        if recipe.method in left_out:
            continue
        best, kept = -1.0, (0.0, 0.0)
        for rank in RANKS[1:2] if quick else RANKS:
            begin = time.perf_counter()
            start = recipe.start(train, rank, np.random.default_rng(seed))
            rounds = climb_in_rounds(train, start_of_em(start, train), ROUNDS) if recipe.em else [(0, start)]
            for _, mixture in rounds:
                took, share = time.perf_counter() - begin, right(valid, mixture)
                if share > best:
                    best, kept = share, (right(test, mixture), took)
        out[recipe.method, recipe.variant] = kept
    return out


def _others(data: Any, parts: list[Rows], left_out: tuple[str, ...]) -> dict[tuple[str, str], tuple[float, float]]:
    """scikit-learn's rows, and our classifier as it is, when it is there."""
    from sklearn.preprocessing import OneHotEncoder

    whole = read_table(data, group=False)
    codes, target = whole.codes[:, :-1].astype(int), whole.codes[:, -1].astype(int)
    inputs = OneHotEncoder(sparse_output=False).fit_transform(codes)
    train, valid, test = parts
    out: dict[tuple[str, str], tuple[float, float]] = {}
    for method, candidates in classifiers().items():
        if method in left_out:
            continue
        scored = []
        for candidate in candidates:
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a limit of iterations reached is that row's own answer
                candidate.fit(inputs[train], target[train])
            took = time.perf_counter() - begin
            scored.append((candidate.score(inputs[valid], target[valid]), candidate, took))
        _, chosen, took = max(scored, key=lambda item: item[0])
        out[method, "one-hot"] = (100 * float(chosen.score(inputs[test], target[test])), took)
    ours = getattr(tacit, OURS, None)
    if ours is not None:
        features, words = data.drop_columns(["class"]), np.asarray(data["class"].to_pylist())
        begin = time.perf_counter()
        model = ours().fit(features.take(train), words[train])
        took = time.perf_counter() - begin
        share = float((np.asarray(model.predict(features.take(test))) == words[test]).mean())
        out[OURS, "untouched"] = (100 * share, took)
    return out
