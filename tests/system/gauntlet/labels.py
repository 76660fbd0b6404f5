"""Crowds as they come: MTurk jobs, LLM judges, ratings, departments without common tasks, copies, known answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from latentfit import DawidSkene
from tests.conftest import data_folder
from tests.system.gauntlet.scenario import WARNED, Scenario

DATA = data_folder()
Rng = np.random.Generator
Array = np.ndarray


def confusions(rng: Rng, n_workers: int, n_classes: int, low: float, high: float) -> Array:
    """Confusion matrices (worker, true, given) with accuracies between `low` and `high`."""
    accuracy = rng.uniform(low, high, (n_workers, 1, 1))
    wrong = rng.dirichlet(np.full(n_classes - 1, 3.0), (n_workers, n_classes))
    off = np.zeros((n_workers, n_classes, n_classes))
    off[:, ~np.eye(n_classes, dtype=bool)] = wrong.reshape(n_workers, -1)
    return accuracy * np.eye(n_classes) + (1 - accuracy) * off


def say(rng: Rng, matrices: Array, truth: Array, worker: Array) -> Array:
    """A label of every (truth, worker) pair."""
    below = np.cumsum(matrices[worker, truth], axis=1)
    return (rng.random((len(truth), 1)) > below[:, :-1]).sum(axis=1)


def assigned(rng: Rng, n_tasks: int, n_workers: int, each: int, tail: float = 0.0) -> tuple[Array, Array]:
    """Tasks and workers of the labels: `each` different workers per task, with `tail` some far busier than others."""
    activity = np.arange(1, n_workers + 1) ** -tail
    keys = rng.exponential(size=(n_tasks, n_workers)) / activity
    return np.repeat(np.arange(n_tasks), each), np.argsort(keys, axis=1)[:, :each].ravel()


def votes(task: Array, worker: Array, label: Array) -> pd.DataFrame:
    return pd.DataFrame({"task": task, "worker": [f"w{m}" for m in worker], "label": [f"c{k}" for k in label]})


def fit(frame: pd.DataFrame, gold: dict[int, str] | None = None, **options: int) -> DawidSkene:
    return DawidSkene(n_jobs=1, **options).fit(frame, gold=gold)


def job(
    rng: Rng, n_tasks: int, n_workers: int, n_classes: int, each: int, low: float, high: float, tail: float = 0.0,
    prior: Array | None = None,
) -> tuple[pd.DataFrame, Array]:  # fmt: skip
    """A job of independent workers, and its truth."""
    truth = rng.choice(n_classes, n_tasks, p=prior)
    task, worker = assigned(rng, n_tasks, n_workers, each, tail)
    return votes(task, worker, say(rng, confusions(rng, n_workers, n_classes, low, high), truth[task], worker)), truth


# ----------------------------------------------------------------------- sound


def mturk_job(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([1, seed]), 400, 30, 3, 6, 0.65, 0.95)[0])


def few_busy_workers(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([2, seed]), 800, 60, 4, 6, 0.6, 0.95, tail=1.0)[0])


def llm_judges(seed: int) -> DawidSkene:
    """Six judges answer every question."""
    return fit(job(np.random.default_rng([3, seed]), 400, 6, 2, 6, 0.75, 0.95)[0])


def a_sixth_positive(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([4, seed]), 600, 20, 2, 7, 0.7, 0.95, prior=np.array([0.84, 0.16]))[0])


def some_spammers(seed: int) -> DawidSkene:
    """Three of twenty workers guess, two always say the same."""
    rng = np.random.default_rng([5, seed])
    matrices = confusions(rng, 20, 3, 0.7, 0.95)
    matrices[:3] = 1 / 3
    matrices[3:5] = np.eye(3)[rng.integers(3, size=2)][:, None]
    truth = rng.integers(3, size=500)
    task, worker = assigned(rng, 500, 20, 7)
    return fit(votes(task, worker, say(rng, matrices, truth[task], worker)))


def star_ratings(seed: int) -> DawidSkene:
    """Five ordered classes; a mistake is one star off."""
    rng = np.random.default_rng([6, seed])
    accuracy = rng.uniform(0.6, 0.9, 25)
    near = np.eye(5, k=1) + np.eye(5, k=-1)
    matrices = accuracy[:, None, None] * np.eye(5)
    matrices = matrices + (1 - accuracy[:, None, None]) * near / near.sum(axis=1, keepdims=True)
    truth = rng.integers(5, size=600)
    task, worker = assigned(rng, 600, 25, 8)
    return fit(votes(task, worker, say(rng, matrices, truth[task], worker)))


def easy_and_less_easy_tasks(seed: int) -> DawidSkene:
    """On a tenth of the tasks everybody is right less often, still mostly."""
    rng = np.random.default_rng([7, seed])
    truth, hard = rng.integers(2, size=400), rng.random(400) < 0.1
    task, worker = assigned(rng, 400, 20, 9)
    right = rng.random(len(task)) < np.where(hard[task], 0.65, rng.uniform(0.75, 0.95, 20)[worker])
    return fit(votes(task, worker, np.where(right, truth[task], 1 - truth[task])))


def right_known_answers(seed: int) -> DawidSkene:
    rng = np.random.default_rng([8, seed])
    frame, truth = job(rng, 400, 20, 3, 6, 0.65, 0.95)
    return fit(frame, {int(task): f"c{truth[task]}" for task in rng.choice(400, 40, replace=False)})


def yes_and_no(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([9, seed]), 1_000, 80, 2, 9, 0.6, 0.95)[0])


def real(name: str) -> Callable[[int], DawidSkene]:
    """A real crowd with all but a few of its tasks."""

    def make(seed: int) -> DawidSkene:
        assert DATA is not None
        frame = pd.read_csv(DATA / "crowd" / name / "labels.csv")
        tasks = frame["task"].unique()
        left_out = np.random.default_rng([10, seed]).choice(tasks, len(tasks) // 20, replace=False)
        return fit(frame[~frame["task"].isin(left_out)])

    return make


# --------------------------------------------------------------------- unsound


def guessers(seed: int) -> DawidSkene:
    """Labels do not depend on the task."""
    rng = np.random.default_rng([21, seed])
    habits = rng.dirichlet(np.full(3, 3.0), 20)
    task, worker = assigned(rng, 300, 20, 6)
    return fit(votes(task, worker, say(rng, np.repeat(habits[:, None], 3, axis=1), np.zeros(len(task), int), worker)))


def two_workers(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([22, seed]), 300, 2, 2, 2, 0.7, 0.9)[0])


def one_label_per_task(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([23, seed]), 300, 10, 3, 1, 0.7, 0.9)[0])


def two_sides(seed: int) -> DawidSkene:
    """Every task is seen by one worker of either shift."""
    rng = np.random.default_rng([24, seed])
    truth = rng.integers(2, size=400)
    task = np.repeat(np.arange(400), 2)
    worker = np.stack([rng.integers(10, size=400), rng.integers(10, 20, size=400)], axis=1).ravel()
    return fit(votes(task, worker, say(rng, confusions(rng, 20, 2, 0.7, 0.9), truth[task], worker)))


def departments_apart(seed: int) -> DawidSkene:
    """Two departments label tasks of their own."""
    rng = np.random.default_rng([25, seed])
    (first, _), (second, _) = (job(rng, 250, 10, 3, 5, 0.7, 0.95) for _ in range(2))
    return fit(pd.concat([first, second.assign(task=second["task"] + 1_000, worker="other " + second["worker"])]))


def judges_of_one_family(seed: int) -> DawidSkene:
    """Three of six judges repeat what their base model says of four in five questions."""
    rng = np.random.default_rng([26, seed])
    truth = rng.integers(3, size=600)
    task, worker = assigned(rng, 600, 6, 6)
    matrices = confusions(rng, 7, 3, 0.65, 0.85)
    base = say(rng, matrices, truth, np.full(600, 6))
    own = say(rng, matrices, truth[task], worker)
    return fit(votes(task, worker, np.where((worker < 3) & (rng.random(len(task)) < 0.8), base[task], own)))


def copied_answers(seed: int) -> DawidSkene:
    """Five of fifteen workers hand in what a sixth one says."""
    rng = np.random.default_rng([27, seed])
    truth = rng.integers(3, size=300)
    task, worker = assigned(rng, 300, 15, 9)
    matrices = confusions(rng, 15, 3, 0.6, 0.8)
    source = say(rng, matrices, truth, np.zeros(300, int))
    label = np.where(worker < 6, source[task], say(rng, matrices, truth[task], worker))
    return fit(votes(task, worker, label))


def colluders_who_guess(seed: int) -> DawidSkene:
    """Six workers agree beforehand on answers that have nothing to do with the tasks."""
    rng = np.random.default_rng([28, seed])
    truth = rng.integers(2, size=400)
    task, worker = assigned(rng, 400, 20, 8)
    agreed = rng.integers(2, size=400)
    label = np.where(worker < 6, agreed[task], say(rng, confusions(rng, 20, 2, 0.7, 0.9), truth[task], worker))
    return fit(votes(task, worker, label))


def two_readings_of_the_question(seed: int) -> DawidSkene:
    """On two in five tasks one half of the workers says c0 and the other c1, by how they read the instructions."""
    rng = np.random.default_rng([37, seed])
    truth, unclear = rng.integers(2, size=1_000), rng.random(1_000) < 0.4
    task, worker = assigned(rng, 1_000, 24, 8)
    meant = np.where(unclear[task], worker % 2, truth[task])
    right = rng.random(len(task)) < rng.uniform(0.8, 0.95, 24)[worker]
    return fit(votes(task, worker, np.where(right, meant, 1 - meant)))


def a_class_of_three_tasks(seed: int) -> DawidSkene:
    rng = np.random.default_rng([29, seed])
    truth = np.append(np.full(3, 2), rng.integers(2, size=497))
    task, worker = assigned(rng, 500, 20, 6)
    return fit(votes(task, worker, say(rng, confusions(rng, 20, 3, 0.75, 0.9), truth[task], worker)))


def two_names_of_one_class(seed: int) -> DawidSkene:
    """Nobody tells c0 from c1."""
    rng = np.random.default_rng([30, seed])
    matrices = confusions(rng, 20, 3, 0.75, 0.95)
    both = matrices[:, 0] + matrices[:, 1]
    both[:, :2] = both[:, :2].mean(axis=1, keepdims=True)
    matrices[:, 0] = matrices[:, 1] = both / 2
    truth = rng.integers(3, size=400)
    task, worker = assigned(rng, 400, 20, 6)
    return fit(votes(task, worker, say(rng, matrices, truth[task], worker)))


def passers_by(seed: int) -> DawidSkene:
    """Workers who come once, for four tasks."""
    rng = np.random.default_rng([31, seed])
    truth = rng.integers(3, size=300)
    task = np.repeat(np.arange(300), 4)
    worker = rng.permutation(len(task)) // 4
    return fit(votes(task, worker, say(rng, confusions(rng, 300, 3, 0.6, 0.9), truth[task], worker)))


def two_labels_per_task(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([32, seed]), 500, 12, 3, 2, 0.7, 0.9)[0])


def wrong_known_answers(seed: int) -> DawidSkene:
    """Of sixty known answers two in five are wrong."""
    rng = np.random.default_rng([33, seed])
    frame, truth = job(rng, 400, 20, 3, 7, 0.7, 0.95)
    known = rng.choice(400, 60, replace=False)
    answer = np.where(rng.random(60) < 0.4, (truth[known] + rng.integers(1, 3, 60)) % 3, truth[known])
    return fit(frame, {int(task): f"c{label}" for task, label in zip(known, answer, strict=True)})


def rows_three_times(seed: int) -> DawidSkene:
    """An export that holds every row three times."""
    frame, _ = job(np.random.default_rng([34, seed]), 300, 15, 3, 5, 0.65, 0.9)
    return fit(pd.concat([frame, frame, frame]))


def hardly_better_than_chance(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([35, seed]), 500, 20, 2, 5, 0.55, 0.65)[0])


def cut_short(seed: int) -> DawidSkene:
    return fit(job(np.random.default_rng([36, seed]), 400, 20, 4, 5, 0.5, 0.8)[0], max_iter=1)


SCENARIOS = [
    Scenario("a job on MTurk: 400 tasks, six labels each", mturk_job),
    Scenario("a few workers give most labels", few_busy_workers),
    Scenario("six LLM judges answer everything", llm_judges),
    Scenario("a sixth of the tasks is positive", a_sixth_positive),
    Scenario("five of twenty workers are spammers", some_spammers),
    Scenario("star ratings, mistakes are one star off", star_ratings),
    Scenario("a tenth of the tasks is harder", easy_and_less_easy_tasks),
    Scenario("forty right known answers", right_known_answers),
    Scenario("a thousand yes/no questions, nine labels each", yes_and_no),
    Scenario("workers guess", guessers, WARNED, "common_cause"),
    Scenario("two workers", two_workers, ("not identifiable",), "three_workers"),
    Scenario("one label per task", one_label_per_task, ("not identifiable",), "shared_tasks"),
    Scenario("every task is seen by one worker of either side", two_sides, ("not identifiable",), "odd_cycles"),
    Scenario("departments without common tasks", departments_apart, ("caution",), "connected"),
    Scenario(
        "three judges of six share a base model", judges_of_one_family, ("caution",),
        "joint_agreement|largest_pair_residual|dependent_workers|duplicate_workers",
    ),
    Scenario("five workers copy a sixth", copied_answers, ("caution",), "duplicate_workers|dependent_workers"),
    Scenario("six workers agree on random answers", colluders_who_guess, ("caution",), "duplicate_workers|dependent"),
    Scenario("the question can be read in two ways", two_readings_of_the_question, ("caution",), "group_agreement"),
    Scenario("a class of three tasks", a_class_of_three_tasks, ("caution",), "rare_classes"),
    Scenario("two names of one class", two_names_of_one_class, ("caution",), "distinct_classes"),
    Scenario("workers who come once, for four tasks", passers_by, WARNED, "labels_per_worker"),
    Scenario("two labels per task", two_labels_per_task, ("caution",), "labels_per_task"),
    Scenario("two in five known answers are wrong", wrong_known_answers, ("caution",), "known_answers"),
    Scenario("every row three times", rows_three_times, ("caution",), "repeated_answers"),
    Scenario("workers hardly better than chance", hardly_better_than_chance, WARNED, "expected_error|common_cause"),
    Scenario("EM stopped after one iteration", cut_short, ("caution",), "converged"),
]  # fmt: skip
if DATA is not None and (DATA / "crowd").is_dir():
    SCENARIOS += [
        Scenario("birds in photographs (bluebird)", real("bluebird")),
        Scenario("textual entailment (rte)", real("rte")),
        Scenario("breeds of dogs (dog)", real("dog")),
    ]
