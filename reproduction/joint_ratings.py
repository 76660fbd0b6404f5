"""Table II of Ibrahim & Fu 2021: ratings of 30 action movies, cells split 50:20:30, predicted by their expectation.

The paper's MovieLens 20M is not at hand: ours is the small release, 549 users. The rank and the rounds of EM are
chosen by RMSE on the validation cells; a user's test cells are predicted from their training cells. `LatentClass()`
and the averages choose nothing on the validation cells.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.table.table import Column, Table
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.io.read import read_columns
from reproduction.baselines.ratings import averages, biased_factorisation
from reproduction.joint_methods import Stage, chosen_by_validation, latent_class, stages, starts
from reproduction.joint_paper import TABLE2
from reproduction.table import Outcome, Row, Run, absent, mean_row

FILE = "tables/movielens_latest_small_action30.csv"
REPEATS = 20
RANKS = (5, 10, 15, 20, 25)
QUICK_RANKS = (5, 25)
ROUNDS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 100)
PENALTIES = (1.0, 3.0, 10.0)
MF_ROUNDS = 15
N_LEFT = 5
"""Columns of S₁: "M = 5 in all experiments" (IV-C), and then F ≤ M I (Theorem 1) is just the paper's F ≤ 25."""
TACIT = "LatentClass"
ROWS = (*TABLE2, TACIT)
MEASURES = ("RMSE", "MAE")
SLOW = ("CTD",)
"""Left out of a quick run."""


Key = tuple[str, str]


@dataclass(frozen=True)
class Score:
    """RMSE on the validation cells, RMSE and MAE on the test cells, seconds of the fit, and which fit it was."""

    judged: float
    test: tuple[float, float]
    seconds: float
    stage: Stage | None = None


def table2(run: Run) -> Outcome:
    """Table II: errors of predicted ratings."""
    path = run.find(FILE)
    title = f"MovieLens action movies, 549 users, {run.times(REPEATS)} trials (the paper: MovieLens 20M)"
    if path is None:
        rows = [
            Row("MovieLens", method, "", measure, figures[place], note=absent(FILE))
            for place, measure in enumerate(MEASURES)
            for method, figures in TABLE2.items()
        ]
        return Outcome(title, rows)
    frame = read_columns(path)
    ratings = np.column_stack([np.asarray(column.to_numpy(), np.float64) for column in frame.columns])
    found: dict[Key, list[Score]] = {}
    for trial, seed in enumerate(run.seeds(REPEATS)):
        with one_blas_thread():
            for key, score in _trial(ratings, seed, run.quick).items():
                found.setdefault(key, []).append(score)
        run.say(f"MovieLens: trial {trial + 1}")
    rows = []
    for place, measure in enumerate(MEASURES):
        for (method, variant), of_trials in found.items():
            figures = TABLE2.get(method, (None, None, None))
            picked = [score.stage for score in of_trials if score.stage is not None]
            note = chosen_by_validation(picked) if picked else ""
            row = Row("MovieLens", method, variant, measure, figures[place], paper_seconds=figures[2], note=note)
            rows.append(mean_row(row, [s.test[place] for s in of_trials], [s.seconds for s in of_trials]))
        for method in TABLE2:
            if run.quick and method.removesuffix("-EM") in SLOW:
                note = "skipped: left out of a quick run"
                rows.append(Row("MovieLens", method, "", measure, TABLE2[method][place], note=note))
    return Outcome(title, sorted(rows, key=lambda row: (MEASURES.index(row.measure), ROWS.index(row.method))))


def _trial(ratings: Floats, seed: int, quick: bool) -> dict[Key, Score]:
    rng = np.random.default_rng(seed)
    part = np.where(np.isnan(ratings), -1.0, rng.random(ratings.shape))
    train = np.where((part >= 0) & (part < 0.5), ratings, np.nan)
    valid, test = (part >= 0.5) & (part < 0.7), part >= 0.7
    table = Table(
        np.where(np.isnan(train), 255, train - 1).astype(np.uint8),
        tuple(Column(n, np.arange(1, 6)) for n in range(ratings.shape[1])),
    )

    def judge(predicted: Floats, seconds: float, stage: Stage | None = None) -> Score:
        errors = predicted - ratings
        square = [float(np.sqrt(np.square(errors[mask]).mean())) for mask in (valid, test)]
        return Score(square[0], (square[1], float(np.abs(errors[test]).mean())), seconds, stage)

    ranks = QUICK_RANKS if quick else RANKS
    tried: dict[Key, list[Score]] = {}
    for (method, variant), start in starts(N_LEFT).items():
        if quick and method in SLOW:
            continue
        for rank in ranks:
            for stage in stages(table, start, rank, seed, ROUNDS):
                score = judge(expected(table, stage.mixture), stage.seconds, stage)
                tried.setdefault((stage.row(method), variant), []).append(score)
    tried["BMF", ""] = _factorised(train, ranks, rng, judge)
    for name, predicted in averages(train).items():
        tried[name, ""] = [judge(predicted, 0.0)]
    begin = time.perf_counter()
    found = latent_class(table, None, seed)
    tried[TACIT, "untouched"] = [judge(expected(table, found), time.perf_counter() - begin)]
    return {key: min(scores, key=lambda score: score.judged) for key, scores in tried.items()}


def _factorised(
    train: Floats, ranks: tuple[int, ...], rng: np.random.Generator, judge: Callable[[Floats, float], Score]
) -> list[Score]:
    """All ranks, penalties and rounds of biased matrix factorisation."""
    tried = []
    for rank in ranks:
        for penalty in PENALTIES:
            begin = time.perf_counter()
            curve = biased_factorisation(train, rank, penalty, MF_ROUNDS, rng)
            tried += [judge(predicted, time.perf_counter() - begin) for predicted in curve]
    return tried


def expected(table: Table, mixture: Mixture) -> Floats:
    """E[rating | the user's known ratings] for all movies (user, movie)."""
    posterior, _ = posterior_of(MemoryEngine(table, 1), mixture)
    values: NDArray[np.float64] = np.arange(1.0, 6.0)
    means = np.stack([profile @ values for profile in mixture.profiles()], axis=1)
    return np.asarray(posterior @ means)
