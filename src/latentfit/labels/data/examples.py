"""Example data that needs no network: real annotators with real, unequal mistakes.

>>> from latentfit.labels.data.examples import digits_crowd
>>> crowd = digits_crowd()
>>> crowd.labels.column_names
['task', 'worker', 'label']
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

TRAINING_POOL = 400
"""Digits set aside to train the annotators; they are never tasks."""


@dataclass(frozen=True)
class LabelledCrowd:
    """Long labels (task, worker, label) and the truth (task, label) to compare with, never to fit on.

    Examples
    --------
    >>> from latentfit.labels.data.examples import digits_crowd
    >>> digits_crowd().truth.column_names
    ['task', 'label']
    """

    labels: pa.Table
    truth: pa.Table


def digits_crowd(random_state: int = 0) -> LabelledCrowd:
    """Ten weak classifiers label overlapping halves of scikit-learn's handwritten digits.

    Trees, neighbours and naive Bayes of different strengths, each trained on 20 to 70 digits of a pool that
    is not labelled and seeing a part of the pixels only: unequal annotators whose mistakes are their own.

    Examples
    --------
    >>> from latentfit.labels.data.examples import digits_crowd
    >>> crowd = digits_crowd()
    >>> crowd.labels.num_rows, len(set(crowd.labels["worker"].to_pylist()))
    (6980, 10)
    """
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(random_state)
    images, digits = load_digits(return_X_y=True)
    shuffled = rng.permutation(len(digits))
    pool, tasks = shuffled[:TRAINING_POOL], np.sort(shuffled[TRAINING_POOL:])
    columns: dict[str, list[Any]] = {"task": [], "worker": [], "label": []}
    for number, (kind, classifier) in enumerate(_annotators(), start=1):
        seen = rng.choice(pool, size=int(rng.integers(20, 71)), replace=False)
        pixels = rng.choice(images.shape[1], size=int(rng.integers(20, 45)), replace=False)
        classifier.fit(images[np.ix_(seen, pixels)], digits[seen])
        asked = np.sort(rng.choice(tasks, size=len(tasks) // 2, replace=False))
        columns["task"] += [f"digit-{index:04d}" for index in asked]
        columns["worker"] += [f"{kind}-{number}"] * len(asked)
        columns["label"] += classifier.predict(images[np.ix_(asked, pixels)]).tolist()
    truth = {"task": [f"digit-{index:04d}" for index in tasks], "label": digits[tasks].tolist()}
    return LabelledCrowd(pa.table(columns), pa.table(truth))


def _annotators() -> list[tuple[str, Any]]:
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    trees = [("tree", DecisionTreeClassifier(max_depth=depth, random_state=0)) for depth in (4, 6, 8, None)]
    neighbours = [("neighbours", KNeighborsClassifier(count)) for count in (1, 1, 3)]
    bayes = [("bayes", GaussianNB(var_smoothing=smoothing)) for smoothing in (1e-3, 1e-2, 1e-1)]
    return trees + neighbours + bayes
