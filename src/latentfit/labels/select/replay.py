"""Replay of a finished crowd: what would the error have been with fewer labels, chosen by the plan or at random?

Every task starts with a few random labels. Then labels are bought, a tenth of the tasks per step, and the model is
refitted after every step from the last parameters (MAP-EM, as `DawidSkene`). Only labels that exist in the finished
crowd can be bought, so the replay needs no assumption about what a worker would have said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.core.assign import align_to_labels
from latentfit.core.errors import DataError
from latentfit.core.frames import backend_of, build_frame
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.names import encode, match
from latentfit.core.progress import stage
from latentfit.engine.limits import one_blas_thread
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.labels.data import Labels, match_answers
from latentfit.labels.data.input import read_gold, read_labels
from latentfit.labels.moments import sufficient_statistics, vote_proportions
from latentfit.labels.select.information import (
    Ints,
    choose_pairs,
    committee_posterior,
    entries_of,
    fit_from,
    gains_of_pairs,
    shrunk_confusions,
)

PROPORTIONS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
POLICIES = ("plan", "random")


class Stored:
    """Labels of a finished crowd that were not bought yet; "workers" are positions in its list of labels."""

    def __init__(self, labels: Labels, bought: NDArray[np.bool_], confusions: Floats) -> None:
        self.labels, self.left, self.confusions = labels, ~bought, confusions

    def best(self, tasks: Ints, posterior: Floats) -> tuple[Ints, Floats]:
        row, at = entries_of(self.labels.offsets, tasks)
        row, at = row[self.left[at]], at[self.left[at]]
        gains = gains_of_pairs(posterior[row], self.confusions[self.labels.workers[at]])
        order = np.lexsort((-gains, row))
        leads = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
        chosen, best = np.full(len(tasks), -1, np.int64), np.zeros(len(tasks))
        chosen[row[leads]], best[row[leads]] = at[leads], gains[leads]
        return chosen, best

    def serve(self, tasks: Ints, posterior: Floats) -> tuple[Ints, Floats]:
        chosen, gains = self.best(tasks, posterior)
        self.left[chosen[chosen >= 0]] = False
        return chosen, gains


def simulate_plan(
    labels: Any,
    truth: Any,
    *,
    seeds: int = 5,
    first: int = 2,
    proportions: Sequence[float] = PROPORTIONS,
    step: float = 0.1,
    policies: Sequence[str] = POLICIES,
    n_jobs: int | None = 1,
) -> Any:
    """Error of the consensus against labels bought, for the plan and for random choice.

    Use it on a finished crowd like yours to see what planning would have saved. The truth only measures the
    error; nothing is chosen by it.

    Parameters
    ----------
    labels : as in `DawidSkene.fit`
        The labels of a finished crowd.
    truth : frame or mapping
        True labels by task; tasks without truth are planned for and not scored.
    seeds : int, default=5
        Number of replays, with seeds 0, 1, …
    first : int, default=2
        Random labels per task at the beginning.
    proportions : sequence of float, default=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
        Proportions of all labels at which the error is reported; those below the first labels are left out.
    step : float, default=0.1
        Labels bought between refits, as a fraction of the tasks.
    policies : sequence of {"plan", "random"}, default=("plan", "random")
        How labels are chosen.
    n_jobs : int or None, default=1
        Threads of a fit; small crowds are fastest with one.

    Returns
    -------
    result : frame of the caller's kind
        Columns policy, seed, labels (bought), share (proportion of all labels) and error (proportion of the tasks).

    Examples
    --------
    >>> from latentfit.labels.select import simulate_plan
    >>> from latentfit.simulate import crowd
    >>> done = crowd(60, 12, 2, labels_per_task=8, random_state=1)
    >>> result = simulate_plan(done.labels, done.truth, seeds=1, proportions=(0.4, 0.6))
    >>> result.column_names, result.num_rows
    (['policy', 'seed', 'labels', 'share', 'error'], 4)
    """
    data = replace(read_labels(labels), gold=None)  # known answers would leak into what is measured
    rows, answers = _known(data, truth)
    _check(proportions, policies, first, step, seeds)
    table: dict[str, list[Any]] = {name: [] for name in ("policy", "seed", "labels", "share", "error")}
    with one_blas_thread(), stage("replaying", len(policies) * seeds * len(proportions), "shares") as progress:
        for policy, seed in product(policies, range(seeds)):
            for bought, posterior in _replay(data, policy, seed, first, proportions, step, n_jobs):
                error = float(np.mean(posterior[rows].argmax(axis=1) != answers))
                for name, value in zip(table, (policy, seed, bought, bought / data.n_labels, error), strict=True):
                    table[name].append(value)
                progress.at(len(table["seed"]), f"{policy}, replay {seed + 1}")
    return build_frame(table, "pyarrow" if isinstance(labels, Labels) else backend_of(labels))


def _replay(
    data: Labels, policy: str, seed: int, first: int, proportions: Sequence[float], step: float, n_jobs: int | None
) -> Iterator[tuple[int, Floats]]:
    """Labels bought and posterior (n, K) whenever one of the proportions is reached."""
    rng = np.random.default_rng(seed)
    bought = _first_labels(data, first, rng)
    step_size = max(1, round(step * data.n_rows))
    mixture: Mixture | None = None
    goals = [
        goal
        for goal in sorted({round(proportion * data.n_labels) for proportion in proportions})
        if goal >= bought.sum()
    ]
    if not goals:
        raise DataError(
            f"first={first} labels per task are already {bought.mean():.0%} of this crowd; "
            "give larger shares, or a smaller first"
        )
    for goal in goals:
        while (missing := goal - int(bought.sum())) > 0:
            bought_labels = data.subset(bought)
            mixture, stats = _refit(bought_labels, mixture, n_jobs)
            n = min(step_size, missing)
            if policy == "random":
                picked = rng.choice(np.flatnonzero(~bought), n, replace=False)
            else:
                picked = _planned(data, bought_labels, bought, mixture, stats, n, n_jobs)
            bought[picked] = True
        mixture, _ = _refit(data.subset(bought), mixture, n_jobs)
        yield int(bought.sum()), posterior_of(MemoryEngine(data.subset(bought), n_jobs), mixture)[0]


def _planned(
    data: Labels, labels: Labels, bought: NDArray[np.bool_], mixture: Mixture, stats: Sums, n: int, n_jobs: int | None
) -> Ints:
    """Positions of the `n` labels to buy; at random (by position) once no label is informative."""
    posterior = committee_posterior(labels, mixture, n_jobs=n_jobs)
    offers = Stored(data, bought, shrunk_confusions(stats, data.n_classes)[0])
    picked = choose_pairs(offers, posterior, n).workers
    return np.concatenate([picked, np.flatnonzero(offers.left)[: n - len(picked)]])


def _refit(labels: Labels, before: Mixture | None, n_jobs: int | None) -> tuple[Mixture, Sums]:
    """MAP-EM from the last parameters (the votes at first); class k stands for label k, as in `DawidSkene`."""
    engine = MemoryEngine(labels, n_jobs)
    stats = sufficient_statistics(labels, vote_proportions(labels)) if before is None else engine.sums(before)
    mixture = align_to_labels(fit_from(labels, stats, engine), labels.per_worker)
    return mixture, engine.sums(mixture)


def _first_labels(data: Labels, first: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    task = data.task_of()
    order = np.lexsort((rng.random(data.n_labels), task))
    place = np.arange(data.n_labels) - data.offsets[task]  # order is by task, so places follow the offsets
    bought = np.zeros(data.n_labels, bool)
    bought[order[place < first]] = True
    return bought


def _known(data: Labels, truth: Any) -> tuple[Ints, NDArray[np.int32]]:
    gold = read_gold(truth)
    if gold is None:
        raise DataError("a replay needs the truth to measure errors; give a frame with the columns task and label")
    rows, answers = match(gold[0], data.task_names, "truth task"), match_answers(gold[1], data, "truth label")
    asked = (rows >= 0) & (encode(gold[1], "truth label")[0] >= 0)  # a missing answer is no error
    if not asked.any():
        raise DataError("no task of the truth occurs in the labels; check that both use the same task ids")
    return rows[asked].astype(np.int64), answers[asked]


def _check(proportions: Sequence[float], policies: Sequence[str], first: int, step: float, seeds: int) -> None:
    unknown = [policy for policy in policies if policy not in POLICIES]
    if unknown or not policies:
        raise DataError(f"policies must be 'plan', 'random' or both, got {tuple(policies)!r}; give at least one")
    if not proportions or min(proportions) <= 0 or max(proportions) > 1:
        raise DataError(f"proportions must be numbers in (0, 1], got {tuple(proportions)!r}; give parts of all labels")
    if first < 1 or step <= 0 or seeds < 1:
        raise DataError(f"first, step and seeds must be > 0, got {first}, {step} and {seeds}; give larger numbers")
