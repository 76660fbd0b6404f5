"""Tables III and IV of Ibrahim & Fu 2021: Car and Mushroom, rows split 50:20:30, the class one more column (MAP).

Everything is fitted on the training half. The rank, the rounds of EM and the strength of the other classifiers are
chosen by their accuracy on the validation rows; `LatentClassClassifier()` never sees those. Columns that are constant
in the whole table (`veil-type` of Mushroom) are left out, which gives the paper's N = 22. The class comes last.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import latentfit
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.input import read_table
from latentfit.core.table.table import Table
from latentfit.engine.limits import one_blas_thread
from latentfit.io.read import read_columns
from reproduction.baselines.classifiers import AS_NUMBERS, ONE_HOT, classifiers
from reproduction.joint_methods import Stage, chosen_by_validation, conditional, stages, starts
from reproduction.joint_paper import TABLE3, TABLE4
from reproduction.table import Outcome, Row, Run, absent, mean_row

REPEATS = 20
RANKS = (5, 10, 15, 20, 25)
QUICK_RANKS = (5, 25)
ROUNDS = (1, 2, 5, 10, 20, 50, 100, 200)
N_LEFT = 5
OURS = "LatentClassClassifier"
ROWS = (*TABLE3, "Boosted trees", OURS)
SLOW = ("CTD", "Neural Net", "Boosted trees")
"""Left out of a quick run."""

Paper = dict[str, tuple[float, float]]
Rows = NDArray[np.intp]
Key = tuple[str, str]


@dataclass(frozen=True)
class Score:
    """What a method reaches on the test rows, the seconds of the fit that was kept, and which fit that was."""

    accuracy: float
    seconds: float
    stage: Stage | None = None


def table3(run: Run) -> Outcome:
    """Table III: Car."""
    return _table(run, "Car", "tables/car.csv", TABLE3)


def table4(run: Run) -> Outcome:
    """Table IV: Mushroom."""
    return _table(run, "Mushroom", "tables/mushroom.csv", TABLE4)


def _table(run: Run, name: str, file: str, paper: Paper) -> Outcome:
    path = run.find(file)
    title = f"{name}, accuracy %, {run.times(REPEATS)} trials"
    if path is None:
        rows = [Row(name, m, "", "accuracy %", f[0], paper_seconds=f[1], note=absent(file)) for m, f in paper.items()]
        return Outcome(title, rows)
    frame = read_columns(path)
    varied = [column for column in frame.column_names if column != "class" and len(frame[column].unique()) > 1]
    data: Any = frame.select([*varied, "class"])
    left_out = SLOW if run.quick else ()
    found: dict[Key, list[Score]] = {}
    for trial, seed in enumerate(run.seeds(REPEATS)):
        order = np.random.default_rng(seed).permutation(frame.num_rows)
        parts = np.split(order, [frame.num_rows // 2, 7 * frame.num_rows // 10])
        ranks = QUICK_RANKS if run.quick else RANKS
        with one_blas_thread():
            scores = {**_joints(data, parts, seed, ranks, left_out), **_others(data, parts, left_out)}
        scores[OURS, "untouched"] = _ours(data, parts)
        for key, score in scores.items():
            found.setdefault(key, []).append(score)
        run.say(f"{name}: trial {trial + 1}")
    rows = []
    for (method, variant), of_trials in found.items():
        figures = paper.get(method, (None, None))
        picked = [score.stage for score in of_trials if score.stage is not None]
        note = chosen_by_validation(picked) if picked else ""
        row = Row(name, method, variant, "accuracy %", figures[0], paper_seconds=figures[1], note=note)
        rows.append(mean_row(row, [score.accuracy for score in of_trials], [score.seconds for score in of_trials]))
    for method in ROWS:
        if method.removesuffix("-EM") not in left_out:
            continue
        figure = paper.get(method, (None,))[0]
        rows.append(Row(name, method, "", "accuracy %", figure, note="skipped: left out of a quick run"))
    return Outcome(title, sorted(rows, key=lambda row: ROWS.index(row.method)))


def _joints(
    data: Any, parts: list[Rows], seed: int, ranks: tuple[int, ...], left_out: tuple[str, ...]
) -> dict[Key, Score]:
    """The paper's own rows, with and without EM."""
    whole = read_table(data, group=False)
    target = whole.n_columns - 1
    train, valid, test = (whole.take(part) for part in parts)

    def right(table: Table, mixture: Mixture) -> float:
        return 100 * float((conditional(table, mixture, target).argmax(axis=1) == table.codes[:, target]).mean())

    best: dict[Key, tuple[float, Stage]] = {}
    for (method, variant), start in starts(N_LEFT).items():
        if method in left_out:
            continue
        for rank in ranks:
            for stage in stages(train, start, rank, seed, ROUNDS):
                key, share = (stage.row(method), variant), right(valid, stage.mixture)
                if key not in best or share > best[key][0]:
                    best[key] = share, stage
    return {key: Score(right(test, stage.mixture), stage.seconds, stage) for key, (_, stage) in best.items()}


def _others(data: Any, parts: list[Rows], left_out: tuple[str, ...]) -> dict[Key, Score]:
    """scikit-learn's rows; a gap is one more category."""
    from sklearn.preprocessing import OneHotEncoder

    whole = read_table(data, group=False)
    codes = np.where(whole.present, whole.codes, np.diff(whole.column_offsets)).astype(int)
    target = codes[:, -1]
    inputs = {ONE_HOT: OneHotEncoder(sparse_output=False).fit_transform(codes[:, :-1]), AS_NUMBERS: codes[:, :-1]}
    train, valid, test = parts
    out: dict[Key, Score] = {}
    for (method, coding), candidates in classifiers().items():
        if method in left_out:
            continue
        seen = inputs[coding]
        scored = []
        for candidate in candidates:
            begin = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a limit of iterations reached is that row's own answer
                candidate.fit(seen[train], target[train])
            took = time.perf_counter() - begin
            scored.append((candidate.score(seen[valid], target[valid]), candidate, took))
        _, chosen, took = max(scored, key=lambda item: item[0])
        out[method, coding] = Score(100 * float(chosen.score(seen[test], target[test])), took)
    return out


def _ours(data: Any, parts: list[Rows]) -> Score:
    """`LatentClassClassifier()` as it is, on the training rows alone."""
    train, _, test = parts
    features, words = data.drop_columns(["class"]), np.asarray(data["class"].to_pylist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of categories that only test rows have
        begin = time.perf_counter()
        model = latentfit.LatentClassClassifier().fit(features.take(train), words[train])
        took = time.perf_counter() - begin
        found = np.asarray(model.predict(features.take(test)))
    return Score(100 * float((found == words[test]).mean()), took)
