"""Tables 6 and 7 of Ibrahim & Fu 2022: the synthetic crowd of section C.1, whose confusions and prior are known.

Table 6 gives the methods exact co-occurrences of some pairs, Table 7 estimates from N labelled tasks. Both
measure (19), the mean squared error of all confusion columns and the prior under the best order of classes.
The text draws the prior from a Dirichlet; the printed figures fit a uniform one: both are run. Beside Table 7
stands the label error of ``auto``, of votes, of vote-started EM and of the oracle who knows the parameters.
"""

from __future__ import annotations

import time
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.assign import match_classes
from latentfit.core.kernels import Floats
from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.core.mixture.parameters import Mixture, stack_confusions, unstack_confusions
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, posterior_of
from latentfit.labels.data import Labels
from latentfit.labels.init import METHODS
from latentfit.labels.moments import vote_proportions
from latentfit.simulate import Crowd, specialist_crowd
from reproduction.crowd_methods import (
    AUTO,
    DESCRIBED,
    MODEL_BASELINES,
    ONE_ORDER,
    PLAIN_EM,
    PUBLISHED,
    TACIT,
    Answer,
    Recipe,
    designated_root,
    error_percent,
    global_designated,
    global_robust,
    one_order,
    robust_root,
    solve,
)
from reproduction.crowd_paper import TABLE6, TABLE6_COLUMNS, TABLE7, TABLE7_COLUMNS
from reproduction.table import Outcome, Row, Run, mean_row

PriorKind = Literal["uniform", "dirichlet"]
PRIORS: tuple[PriorKind, ...] = ("uniform", "dirichlet")
REPEATS = 20
EXACT = 10**12
"""Co-labels by which exact probabilities become counts: they come back to twelve digits."""
NO_NOISE = 1e-9
"""Singular values of exact co-occurrences above this share of the largest are real, and may be inverted."""
MSE = "mean squared error (19)"
QUICK_TASKS = (1_000,)

RECIPES = [
    Recipe("RobSymNMF", DESCRIBED, global_robust, random=True),
    Recipe("RobSymNMF", TACIT, METHODS["robust"]),
    Recipe("RobSymNMF-EM", DESCRIBED, global_robust, PLAIN_EM, random=True),
    Recipe("DesSymNMF", ONE_ORDER, global_designated, random=True),
    Recipe("DesSymNMF-EM", ONE_ORDER, global_designated, PLAIN_EM, random=True),
    *MODEL_BASELINES,
    AUTO,
]
LABELLERS = ("RobSymNMF-EM", "DesSymNMF-EM", "MV-EM", "auto")
"""Whose label error is printed beside the oracle's."""


def squared_error(found: Mixture, confusion: Floats, prior: Floats) -> float:
    """(19): A_m(:, k) is row k of confusion[m] here, so columns are compared class by class."""
    ours = unstack_confusions(found)
    gaps = np.square(confusion[:, :, None, :] - ours[:, None, :, :]).sum(axis=(0, 3))  # (true, found)
    gaps = gaps + np.square(prior[:, None] - found.weights[None, :])
    return float(gaps[np.arange(len(prior)), match_classes(-gaps)].sum() / (confusion.shape[0] * len(prior) + 1))


# ---------------------------------------------------------------------------------------- Table 6


def exact_pairs(confusion: Floats, prior: Floats, observed: NDArray[np.bool_]) -> PairCounts:
    """R_mj = A_m D A_jᵀ of the observed pairs, as counts out of `EXACT`."""
    n_workers, n_classes, _ = confusion.shape
    joint = np.einsum("k,mka,jkb->majb", prior, confusion, confusion)
    counts = np.rint(joint * EXACT).astype(np.int64) * observed[:, None, :, None]
    singles = np.einsum("k,mka->ma", prior, confusion)
    gram = counts.reshape(n_workers * n_classes, -1)
    np.fill_diagonal(gram, np.rint(singles * EXACT).astype(np.int64).reshape(-1))
    first = np.arange(0, n_workers * n_classes + 1, n_classes, dtype=np.int32)
    return PairCounts(sp.csr_array(gram), first)


def draw_observed(n_workers: int, missing: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Pairs seen by chance, such that this share of all blocks, diagonal included, is missing."""
    chance = (1 - missing) * n_workers / (n_workers - 1)
    upper = np.triu(rng.random((n_workers, n_workers)) < chance, 1)
    return np.asarray(upper | upper.T)


def table6(run: Run) -> Outcome:
    """Table 6: exact co-occurrences, some of them missing."""
    rows = []
    seeds = run.seeds(REPEATS, 2)
    for prior in PRIORS:
        run.say(f"exact co-occurrences, {prior} prior")
        for column, missing in enumerate(TABLE6_COLUMNS):
            trials = [_exact_trial(seed, prior, missing) for seed in seeds]
            for method, figures in TABLE6.items():
                errors, seconds = zip(*(trial[method] for trial in trials), strict=True)
                dataset = f"{prior} prior, {missing:.0%} of blocks missing"
                median = f"median {np.median(errors):.3g}"
                variant = ONE_ORDER if method == "DesSymNMF" else DESCRIBED
                row = Row(dataset, method, variant, MSE, paper=figures[column], note=median)
                rows.append(mean_row(row, errors, seconds))
    return Outcome(f"exact co-occurrences of 25 workers, 3 classes, {len(seeds)} trials", rows)


def _exact_trial(seed: int, prior: PriorKind, missing: float) -> dict[str, tuple[float, float]]:
    rng = np.random.default_rng(seed)
    crowd = specialist_crowd(1, prior=prior, random_state=rng)
    n_workers, n_classes, _ = crowd.confusion.shape
    pairs = exact_pairs(crowd.confusion, crowd.prior, draw_observed(n_workers, missing, rng))
    out = {}
    for method in TABLE6:
        begin = time.perf_counter()
        with one_blas_thread():
            if method == "RobSymNMF":
                root = robust_root(pairs, n_classes, rng)
            else:
                root = designated_root(pairs, n_classes, NO_NOISE)
            found = one_order(root, pairs, np.ones(n_workers), rng)
        seconds = time.perf_counter() - begin
        out[method] = squared_error(found, crowd.confusion, crowd.prior), seconds
    return out


# ---------------------------------------------------------------------------------------- Table 7


def table7(run: Run) -> Outcome:
    """Table 7: N labelled tasks."""
    seeds = run.seeds(REPEATS, 2)
    recipes = [recipe for recipe in RECIPES if not (run.quick and recipe.slow)]
    rows = []
    for prior in PRIORS:
        for column, n_tasks in enumerate(TABLE7_COLUMNS):
            if run.quick and n_tasks not in QUICK_TASKS:
                continue
            run.say(f"N = {n_tasks:,}, {prior} prior")
            crowds = [specialist_crowd(n_tasks, prior=prior, random_state=seed) for seed in seeds]
            dataset = f"{prior} prior, N = {n_tasks:,}"
            rows += _sampled_rows(dataset, column, crowds, seeds, recipes)
    notes = [f"the crowds of a block are the same {len(seeds)} for all methods"]
    if run.quick:
        notes.append("--quick: N = 1,000 only, without TensorADMM")
    return Outcome(f"25 workers, 3 classes, labels kept with p = 0.3, {len(seeds)} trials", rows, notes)


def _sampled_rows(dataset: str, column: int, crowds: list[Crowd], seeds: list[int], recipes: list[Recipe]) -> list[Row]:
    rows, labelled = [], []
    coded = [crowd.coded() for crowd in crowds]
    for recipe in recipes:
        answers = [solve(labels, recipe, seed) for labels, seed in zip(coded, seeds, strict=True)]
        seconds = [answer.seconds for answer in answers]
        figures = TABLE7.get(recipe.method, (None,) * 4)
        row = Row(dataset, recipe.method, recipe.variant, MSE, figures[column], paper_seconds=figures[3])
        rows.append(mean_row(row, _squared_errors(answers, crowds), seconds))
        if recipe.method in LABELLERS:
            labelled.append(_label_row(dataset, recipe.method, recipe.variant, answers, crowds))
    votes = [Answer(vote_proportions(labels), None, 0.0) for labels in coded]
    oracle = [_oracle(labels, crowd) for labels, crowd in zip(coded, crowds, strict=True)]
    labelled.append(_label_row(dataset, "Majority Voting", PUBLISHED, votes, crowds))
    labelled.append(_label_row(dataset, "oracle", "true parameters", oracle, crowds))
    return rows + labelled


def _squared_errors(answers: list[Answer], crowds: list[Crowd]) -> list[float]:
    mixtures = [answer.mixture for answer in answers]
    return [
        squared_error(mixture, crowd.confusion, crowd.prior)
        for mixture, crowd in zip(mixtures, crowds, strict=True)
        if mixture is not None
    ]


def _label_row(dataset: str, method: str, variant: str, answers: list[Answer], crowds: list[Crowd]) -> Row:
    pairs = zip(answers, crowds, strict=True)
    errors = [error_percent(answer.posterior, crowd.answers) for answer, crowd in pairs]
    return mean_row(Row(dataset, method, variant), errors, [answer.seconds for answer in answers])


def _oracle(labels: Labels, crowd: Crowd) -> Answer:
    begin = time.perf_counter()
    truth = stack_confusions(crowd.prior, crowd.confusion)
    return Answer(posterior_of(MemoryEngine(labels), truth)[0], truth, time.perf_counter() - begin)
