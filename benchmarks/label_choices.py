"""The evidence behind `method="auto"`: smoothing, stopping, starts and confidence on the real crowds.

    python benchmarks/label_choices.py

Every row is one choice changed. Error in percent, log-loss in nats (probabilities floored at 1e-15) where the
truth is known; the truth is used for these two columns only.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pyarrow.csv as pc
from harness import data_folder

from latentfit import DawidSkene
from latentfit.core.names import match
from latentfit.labels.data.input import read_labels

SETS = ("bluebird", "dog52", "dog", "rte", "labelme", "trec")
PLAIN = {"method": "majority-em", "smoothing": 0.0, "tol": 1e-6, "max_iter": 1000}
CHOICES = {
    "auto (the default)": {},
    "plain EM from votes": PLAIN,
    "plain EM, 10 rounds": {**PLAIN, "tol": 0.0, "max_iter": 10},
    "votes, smoothing 0.5": {"method": "majority-em", "smoothing": 0.5},
    "votes, smoothing 1": {"method": "majority-em", "smoothing": 1.0},
    "votes, smoothing 2": {"method": "majority-em", "smoothing": 2.0},
    "votes, smoothing 4": {"method": "majority-em", "smoothing": 4.0},
    "votes, smoothing 1, tol 1e-6": {"method": "majority-em", "tol": 1e-6, "max_iter": 1000},
    "robust + EM": {"method": "robust"},
    "designated + EM": {"method": "designated"},
    "majority vote": {"method": "majority"},
}


def load(name: str):
    folder = data_folder("crowd") / name
    labels = read_labels(pc.read_csv(folder / "labels.csv"))
    truth = pc.read_csv(folder / "truth.csv")
    rows = match(truth["task"], labels.task_names, "task")
    return labels, rows, match(truth["label"], labels.class_names, "label")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warnings.simplefilter("ignore")
    crowds = {name: load(name) for name in SETS}
    print(f"{'choice':30}" + "".join(f"{name:>16}" for name in SETS) + f"{'mean':>16}")
    for choice, parameters in CHOICES.items():
        cells = []
        for labels, rows, truth in crowds.values():
            beliefs = DawidSkene(**parameters).fit(labels).probabilities_[rows]
            error = 100 * np.mean(beliefs.argmax(axis=1) != truth)
            cells.append((error, -np.log(np.maximum(beliefs[np.arange(len(rows)), truth], 1e-15)).mean()))
        cells.append(tuple(np.mean(cells, axis=0)))
        print(f"{choice:30}" + "".join(f"{error:9.2f} /{loss:5.2f}" for error, loss in cells), flush=True)


if __name__ == "__main__":
    main()
