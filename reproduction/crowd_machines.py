"""Machine annotators for Tables 1–3 of Ibrahim & Fu 2022: the ten classifiers of Table 8, labels thinned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentfit.io.read import read_columns
from latentfit.labels.data import Labels, assemble
from reproduction.crowd_methods import Codes
from reproduction.crowd_real import read_crowd
from reproduction.table import Run

TRAINING_SHARE = 0.2
"""Training to testing is one to four."""
LARGEST = 25_701
"""Rows used of a larger table: the paper tests on 20,561 rows of Connect4, four fifths of this."""
DESIGNATED_CHANCE = 0.8
"""p_d: how often a designated annotator labels a task."""
PARTS = (0.1, 0.3, 0.6)
"""Shares of the tasks in Table 3's three parts."""

Mask = NDArray[np.bool_]
Thin = Callable[[int, int, np.random.Generator], Mask]


@dataclass(frozen=True)
class Machines:
    """Complete labels (n, M) of classifiers, and the truth (n,)."""

    given: Codes
    truth: Codes
    n_classes: int


Source = Callable[[np.random.Generator], Machines]


def annotators(n_features: int) -> list[Any]:
    """Table 8 in scikit-learn's words; sizes are those of the MATLAB presets of the same names."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    neighbours = [KNeighborsClassifier(count) for count in (100, 10, 1)]  # coarse, medium, fine
    trees = [DecisionTreeClassifier(max_leaf_nodes=splits + 1, random_state=0) for splits in (4, 20, 100)]
    wide = SVC(gamma=(4 * np.sqrt(n_features)) ** -2)  # coarse Gaussian: kernel scale 4 √features
    machines = [SVC(kernel="linear"), SVC(kernel="poly", degree=2, coef0=1.0), wide]
    return [*neighbours, KNeighborsClassifier(10, metric="cosine"), *trees, *machines]


def train(columns: Sequence[NDArray[Any]], target: NDArray[Any], rng: np.random.Generator) -> Machines:
    """Ten classifiers trained on a fifth of the rows label the rest."""
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    classes, truth = np.unique(target, return_inverse=True)
    order = rng.permutation(len(target))[:LARGEST]
    shown, asked = np.split(order, [int(len(order) * TRAINING_SHARE)])
    numeric = [column for column in columns if column.dtype.kind in "if"]
    words = [column for column in columns if column.dtype.kind not in "if"]
    parts = [np.column_stack(numeric).astype(float)] if numeric else []
    if words:
        parts.append(OneHotEncoder(sparse_output=False).fit_transform(np.column_stack(words)))
    inputs = np.hstack(parts)
    inputs = StandardScaler().fit(inputs[shown]).transform(inputs)
    fitted = [annotator.fit(inputs[shown], truth[shown]) for annotator in annotators(inputs.shape[1])]
    given = np.column_stack([annotator.predict(inputs[asked]) for annotator in fitted])
    return Machines(given.astype(np.int32), truth[asked].astype(np.int32), len(classes))


def trained(run: Run, name: str) -> Source | None:
    """Trained anew each trial on ``tables/<name>.csv``, its column `class` (or the last) is the truth."""
    path = run.find(f"tables/{name}.csv")
    if path is None:
        return None
    table = read_columns(path)
    target = "class" if "class" in table.column_names else table.column_names[-1]
    columns = [_values(table[column]) for column in table.column_names if column != target]
    return partial(train, columns, _values(table[target]))


def _values(column: Any) -> NDArray[Any]:
    values = column.to_numpy(zero_copy_only=False)
    return np.asarray(values if values.dtype.kind in "if" else values.astype(str))


def kept(run: Run, name: str) -> Source | None:
    """Complete labels stored as a crowd: the same in every trial."""
    crowd = read_crowd(run, name)
    if crowd is None:
        return None
    given = crowd.labels.given.reshape(crowd.labels.n_rows, crowd.labels.n_workers)
    machines = Machines(given, crowd.truth, crowd.labels.n_classes)
    return lambda rng: machines


def thin_by_chance(
    n: int, n_workers: int, rng: np.random.Generator, *, chances: tuple[float, float], designated: bool
) -> Mask:
    """Each annotator labels a task with its own p_m; two random ones with p_d if `designated`."""
    chance = rng.uniform(*chances, size=n_workers)
    if designated:
        chance[rng.choice(n_workers, 2, replace=False)] = DESIGNATED_CHANCE
    return np.asarray(rng.random((n, n_workers)) < chance)


def thin_by_parts(n: int, n_workers: int, rng: np.random.Generator, *, missing: float) -> Mask:
    """Three parts of .1, .3 and .6 of the tasks, each labelled by its own few annotators."""
    groups = draw_groups(n_workers, missing, rng)
    sizes = np.diff(np.rint(np.cumsum((0, *PARTS)) * n).astype(int))
    part = rng.permutation(np.repeat(np.arange(3), sizes))
    return np.asarray(groups[part])


def draw_groups(n_workers: int, missing: float, rng: np.random.Generator) -> Mask:
    """Annotators of the three parts (3, M), each in one at least, that leave this share of blocks missing."""
    wanted = round((1 - missing) * n_workers**2)
    while True:
        sizes = rng.integers(2, n_workers, size=3)
        if sizes.sum() < n_workers or (sizes * (sizes - 1)).sum() < wanted - 1:
            continue
        places = rng.permutation(np.repeat(np.arange(3), sizes))[:n_workers]
        groups = np.zeros((3, n_workers), bool)
        groups[places, np.arange(n_workers)] = True
        for group, size in zip(groups, sizes, strict=True):
            group[rng.choice(np.flatnonzero(~group), size - group.sum(), replace=False)] = True
        if abs(int(observed_pairs(groups).sum()) - wanted) <= 1:
            return groups


def observed_pairs(groups: Mask) -> Mask:
    """Which annotators share a part (M, M), the diagonal not."""
    together = np.asarray(groups.T.astype(int) @ groups.astype(int) > 0)
    np.fill_diagonal(together, False)
    return together


def coded(machines: Machines, mask: Mask) -> tuple[Labels, Codes]:
    """The labels that were kept, and the truth of the tasks they are about."""
    some = mask.any(axis=1)
    task, worker = mask[some].nonzero()
    names = np.arange(int(some.sum())), np.arange(mask.shape[1]), np.arange(machines.n_classes)
    given = machines.given[some][task, worker]
    return assemble(task.astype(np.int32), worker.astype(np.int32), given, *names), machines.truth[some]
