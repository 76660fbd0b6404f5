"""Do known answers help? Error % of the consensus against the number of correct known answers (`gold=`).

    python benchmarks/known_answers.py                        # simulated and real crowds, about five minutes
    python benchmarks/known_answers.py --method majority-em
    python benchmarks/known_answers.py --sets simulated --seeds 5

For every seed the tasks with a truth are shuffled, and the first k of them are given as known answers: k answers are
among the first k + 1. Printed are the mean over the seeds of the error on the tasks whose answer is never given
("others": the same tasks for every k; of bluebird only 8) and on all tasks with a truth ("all"), and by how much either
rises at most when more answers are given.
Simulated crowds: `specialist_crowd`, in which half of the workers mislead.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from harness import data_folder

from latentfit.labels.data import Labels, with_gold
from latentfit.labels.data.input import read_labels
from latentfit.labels.estimator import CrowdSettings, fit_crowd
from latentfit.simulate import specialist_crowd

ANSWERS = (0, 1, 5, 20, 100)
SIMULATED = (1_000, 5_000)
REAL = ("bluebird", "dog", "dog52", "rte", "labelme", "trec", "uci_credit", "uci_car")


def errors(labels: Labels, rows: np.ndarray, truth: np.ndarray, method: str, seed: int) -> np.ndarray:
    """Error % (k, others or all) of one crowd; `rows` are the tasks with a `truth` (class codes)."""
    order = np.random.default_rng(seed).permutation(len(rows))
    out = np.empty((len(ANSWERS), 2))
    for at, k in enumerate(ANSWERS):
        given = order[:k]
        known = with_gold(labels, (labels.task_names[rows[given]], labels.class_names[truth[given]]))
        fitted = fit_crowd(known, CrowdSettings(method, seed=seed, n_jobs=1))
        wrong = fitted.evidence.posterior[rows].argmax(axis=1) != truth
        out[at] = 100 * wrong[order[ANSWERS[-1] :]].mean(), 100 * wrong.mean()
    return out


def simulated(n_tasks: int, seed: int) -> tuple[Labels, np.ndarray, np.ndarray]:
    made = specialist_crowd(n_tasks, random_state=seed)
    return made.coded(), np.arange(n_tasks), made.answers


def real(name: str) -> tuple[Labels, np.ndarray, np.ndarray]:
    folder = data_folder("crowd") / name
    labels = read_labels(pd.read_csv(folder / "labels.csv"))
    truth = pd.read_csv(folder / "truth.csv").drop_duplicates("task").set_index("task")["label"]
    rows = np.flatnonzero(np.isin(labels.task_names, truth.index))
    return labels, rows, np.searchsorted(labels.class_names, truth.loc[labels.task_names[rows]].to_numpy())


def report(name: str, found: list[np.ndarray]) -> None:
    mean = np.mean(found, axis=0)
    rises = (mean - np.minimum.accumulate(mean, axis=0)).max(axis=0)
    for kind, word in enumerate(("others", "all")):
        cells = " | ".join(f"{value:.2f}" for value in mean[:, kind])
        print(f"| {name} | {word} | {cells} | {rises[kind]:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sets", default=",".join(("simulated", *REAL)), help="simulated, or names of real crowds")
    asked = parser.parse_args()
    print(f"| crowd | error % on | {' | '.join(f'{k} known' for k in ANSWERS)} | largest rise |")
    print("|" + "---|" * (len(ANSWERS) + 3))
    for name in asked.sets.split(","):
        if name == "simulated":
            for n_tasks in SIMULATED:
                crowds = [simulated(n_tasks, seed) for seed in range(asked.seeds)]
                found = [errors(*crowd, asked.method, seed) for seed, crowd in enumerate(crowds)]
                report(f"specialist, N = {n_tasks:,}", found)
        else:
            crowd = real(name)
            report(name, [errors(*crowd, asked.method, seed) for seed in range(asked.seeds)])


if __name__ == "__main__":
    main()
