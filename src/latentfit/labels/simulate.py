"""Crowds of labellers drawn from the Dawid–Skene model.

    truth of a task      y ~ prior
    who labels it        `labels_per_task` different workers (`crowd`), or every worker with probability
                         `keep` (`specialist_crowd`)
    what worker m says   g with probability confusion[m, y, g], independently of everything else

Everything is drawn from one generator, in one fixed order, without loops over tasks or labels: five million
labels take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.kernels import Floats
from latentfit.core.sampling import draw_truth
from latentfit.labels.data import Labels, assemble

__all__ = [
    "Crowd",
    "LabelledCrowd",
    "choose_workers",
    "crowd",
    "digits_crowd",
    "draw_confusions",
    "draw_labels",
    "draw_truth",
    "specialist_crowd",
]

Ints = NDArray[np.int32]
Kind = Literal["skilled", "one-coin", "guessing", "mixed"]
Seed = int | np.random.Generator | None

KEYS_AT_ONCE = 1 << 22
"""Random keys held together while workers are chosen: 32 MB."""
FEW_WORKERS = 8
"""Up to this many workers per label, choosing by sorted keys is cheaper than redrawing repeats."""


@dataclass(frozen=True)
class Crowd:
    """Simulated labels, and the parameters they were drawn from; names are the integers from 0.

    Attributes
    ----------
    labels : pyarrow.Table
        Columns task, worker and label, ordered by task, then worker.
    truth : pyarrow.Table
        Columns task and label.
    confusion : ndarray of shape (n_workers, n_classes, n_classes)
        By (worker, true, given).
    prior : ndarray of shape (n_classes,)
        Class proportions.

    Examples
    --------
    >>> from latentfit.simulate import crowd
    >>> data = crowd(20, 5, 2, labels_per_task=3, random_state=0)
    >>> data.labels.column_names, data.truth.num_rows, data.prior.tolist()
    (['task', 'worker', 'label'], 20, [0.5, 0.5])
    """

    labels: pa.Table
    truth: pa.Table
    confusion: Floats
    prior: Floats

    @property
    def answers(self) -> Ints:
        """The true class of every task (n,)."""
        return np.asarray(self.truth["label"].to_numpy(), np.int32)

    @property
    def accuracy(self) -> Floats:
        """Each worker's probability of being right on a task of this crowd (M,): Σ_k prior_k confusion[m, k, k]."""
        return np.asarray(np.einsum("k,mkk->m", self.prior, self.confusion))

    def coded(self) -> Labels:
        """Return the same as coded labels; tasks, workers and classes without labels keep their code.

        Returns
        -------
        labels : Labels
        """
        columns = (self.labels[name].to_numpy() for name in ("task", "worker", "label"))
        task, worker, label = (np.asarray(column, np.int32) for column in columns)
        n_workers, n_classes = self.confusion.shape[:2]
        names = np.arange(self.truth.num_rows), np.arange(n_workers), np.arange(n_classes)
        return assemble(task, worker, label, *names)


def crowd(
    n_tasks: int,
    n_workers: int,
    n_classes: int = 2,
    *,
    labels_per_task: float = 5,
    kind: Kind = "skilled",
    skill: tuple[float, float] = (0.6, 0.95),
    activity: float = 0.0,
    prior: Floats | None = None,
    confusion: Floats | None = None,
    random_state: Seed = None,
) -> Crowd:
    """Simulate a crowd.

    Parameters
    ----------
    n_tasks, n_workers : int
        Sizes of the crowd.
    n_classes : int, default=2
        Number of classes.
    labels_per_task : float, default=5
        How many different workers label each task. A fraction holds on average: 2.5 gives two or three.
    kind : {"skilled", "one-coin", "guessing", "mixed"}, default="skilled"
        ``"skilled"`` (accuracies even over `skill`, mistakes in a direction of the worker's own),
        ``"one-coin"`` (the same, mistakes spread evenly), ``"guessing"`` (labels do not depend on the class; each
        worker has a favourite), ``"mixed"`` (skilled, but of ten workers one guesses, one always says the same and,
        from twenty workers on, one in twenty gives any label but the right one).
    skill : tuple of float, default=(0.6, 0.95)
        Lowest and highest accuracy of a skilled worker.
    activity : float, default=0.0
        0: all workers are as busy; above: worker m is drawn with weight (m + 1)^-activity, a long tail.
    prior : array of shape (n_classes,) or None, default=None
        Class probabilities; even unless given.
    confusion : array of shape (n_workers, n_classes, n_classes) or None, default=None
        The confusion matrices themselves; `kind` and `skill` are then not used.
    random_state : int, Generator or None, default=None
        Seed of everything random.

    Returns
    -------
    crowd : Crowd

    Examples
    --------
    >>> from latentfit.simulate import crowd
    >>> data = crowd(100, 10, 3, labels_per_task=4, random_state=0)
    >>> data.labels.num_rows, data.confusion.shape
    (400, (10, 3, 3))
    """
    _refuse_empty(n_tasks, n_workers, n_classes)
    if not 0 <= labels_per_task <= n_workers:
        raise DataError(
            f"labels_per_task must be between 0 and n_workers={n_workers}, got {labels_per_task}; a worker labels a "
            "task only once"
        )
    rng = np.random.default_rng(random_state)
    weights = _check_prior(prior, n_classes)
    if confusion is None:
        confusion = draw_confusions(n_workers, n_classes, kind, skill, rng)
    confusion = _check_confusion(confusion, n_workers, n_classes)
    truth = draw_truth(n_tasks, weights, rng)
    task, worker = _assign(n_tasks, n_workers, labels_per_task, activity, rng)
    return _finish(task, worker, truth, confusion, weights, rng)


def specialist_crowd(
    n_tasks: int,
    *,
    n_workers: int = 25,
    n_classes: int = 3,
    keep: float = 0.3,
    epsilon: float = 0.1,
    prior: Literal["uniform", "dirichlet"] = "uniform",
    random_state: Seed = None,
) -> Crowd:
    """The synthetic crowd of Ibrahim & Fu 2022, Section C.1: one specialist among workers of any kind.

    One worker's confusion matrix has rows within `epsilon` of the unit vectors; of all others each column is
    Dirichlet(1), so half of them mislead. A label is kept with probability `keep`. Their text draws the prior
    from Dirichlet(1) as well, their tables match a uniform one: both are offered.

    Parameters
    ----------
    n_tasks : int
        Number of tasks.
    n_workers : int, default=25
        Number of workers.
    n_classes : int, default=3
        Number of classes.
    keep : float, default=0.3
        Probability that a worker labels a task.
    epsilon : float, default=0.1
        Largest distance of the specialist's rows from the unit vectors.
    prior : {"uniform", "dirichlet"}, default="uniform"
        Class proportions.
    random_state : int, Generator or None, default=None
        Seed of everything random.

    Returns
    -------
    crowd : Crowd

    Examples
    --------
    >>> from latentfit.simulate import specialist_crowd
    >>> data = specialist_crowd(100, n_workers=8, random_state=0)
    >>> data.confusion.shape, round(float(data.confusion.diagonal(axis1=1, axis2=2).mean(axis=1).max()), 1)
    ((8, 3, 3), 1.0)
    """
    _refuse_empty(n_tasks, n_workers, n_classes)
    rng = np.random.default_rng(random_state)
    confusion = rng.dirichlet(np.ones(n_classes), size=(n_workers, n_classes))
    # A symmetric specialist: off-diagonal x makes ‖A(k,:) − e_k‖² = x² ((K−1)² + (K−1)) = x² K (K−1).
    slip = epsilon * rng.random() / np.sqrt(n_classes * max(n_classes - 1, 1))
    specialist = np.full((n_classes, n_classes), slip)
    np.fill_diagonal(specialist, 1 - slip * (n_classes - 1))
    confusion[rng.integers(n_workers)] = specialist
    even = np.full(n_classes, 1 / n_classes)
    weights = even if prior == "uniform" else rng.dirichlet(np.ones(n_classes))
    truth = draw_truth(n_tasks, weights, rng)
    cells = n_tasks * n_workers
    chosen_cells = [  # in chunks, so that a long crowd needs no (task, worker) matrix of floats
        np.flatnonzero(rng.random(min(KEYS_AT_ONCE, cells - begin)) < keep) + begin
        for begin in range(0, cells, KEYS_AT_ONCE)
    ]
    task, worker = np.divmod(np.concatenate(chosen_cells), n_workers)
    return _finish(task.astype(np.int32), worker.astype(np.int32), truth, confusion, weights, rng)


def draw_confusions(
    n_workers: int, n_classes: int, kind: Kind, skill: tuple[float, float], rng: np.random.Generator
) -> Floats:
    """Draw the confusion matrices of a crowd.

    Parameters
    ----------
    n_workers, n_classes : int
        Sizes.
    kind, skill : str, tuple of float
        As in `crowd`.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    confusion : ndarray of shape (n_workers, n_classes, n_classes)
        By (worker, true, given).

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.simulate import draw_confusions
    >>> confusion = draw_confusions(4, 3, "skilled", (0.7, 0.9), np.random.default_rng(0))
    >>> confusion.shape, bool(np.allclose(confusion.sum(axis=2), 1))
    ((4, 3, 3), True)
    """
    if kind not in ("skilled", "one-coin", "guessing", "mixed"):
        raise DataError(f"kind must be 'skilled', 'one-coin', 'guessing' or 'mixed', got {kind!r}; give one of them")
    if kind == "guessing":
        favourites = rng.dirichlet(np.full(n_classes, 2.0), size=(n_workers, 1))
        return np.repeat(favourites, n_classes, axis=1)
    right = rng.uniform(*skill, size=(n_workers, 1, 1))
    others = 1 - np.eye(n_classes)
    if kind == "one-coin":
        slips = np.broadcast_to(others, (n_workers, n_classes, n_classes))
    else:
        slips = rng.gamma(2.0, size=(n_workers, n_classes, n_classes)) * others
    slips = slips / np.maximum(slips.sum(axis=2, keepdims=True), 1e-300)
    confusion = np.asarray(right * np.eye(n_classes) + (1 - right) * slips)
    if n_classes == 1:
        return np.ones_like(confusion)
    if kind == "mixed":
        each = np.arange(n_workers)
        confusion[each % 10 == 3] = 1 / n_classes
        same = each[each % 10 == 7]
        confusion[same] = np.eye(n_classes)[rng.integers(n_classes, size=len(same))][:, None, :]
        contrary = (each % 20 == 9) & (n_workers >= 20)
        confusion[contrary] = confusion[contrary] @ others / (n_classes - 1)
    return confusion


def draw_labels(worker: Ints, truth: Ints, confusion: Floats, rng: np.random.Generator) -> Ints:
    """Draw labels from confusion matrices.

    Parameters
    ----------
    worker, truth : int ndarray of shape (n_labels,)
        Worker and true class of every label.
    confusion : ndarray of shape (n_workers, n_classes, n_classes)
        By (worker, true, given).
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    given : int32 ndarray of shape (n_labels,)

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.simulate import draw_labels
    >>> always_right = np.eye(2)[None]
    >>> draw_labels(np.zeros(3, int), np.array([0, 1, 1]), always_right, np.random.default_rng(0)).tolist()
    [0, 1, 1]
    """
    n_classes = confusion.shape[1]
    below = np.cumsum(confusion, axis=2).reshape(-1, n_classes)
    at = worker.astype(np.int64) * n_classes + truth
    uniform = rng.random(len(worker))
    given = np.zeros(len(worker), np.int32)
    for category in range(n_classes - 1):  # inverse of the distribution function, no (labels, K) array
        given += uniform >= below[:, category][at]
    return given


def choose_workers(
    n_tasks: int, n_workers: int, each: int, activity: float, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw different workers for every task.

    Drawn one after the other by weight, without replacement: by the smallest exponential keys when that is
    cheap, else by redrawing the few repeats.

    Parameters
    ----------
    n_tasks, n_workers : int
        Sizes.
    each : int
        Workers per task.
    activity : float
        See `crowd`.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    workers : int32 ndarray of shape (n_tasks, each)
        Sorted within a task.

    Examples
    --------
    >>> import numpy as np
    >>> from latentfit.simulate import choose_workers
    >>> choose_workers(4, 3, 3, 0.0, np.random.default_rng(0)).tolist()
    [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """
    weights = np.arange(1, n_workers + 1, dtype=np.float64) ** -activity
    chosen = np.empty((n_tasks, each), np.int32)
    if n_workers <= FEW_WORKERS * each:
        step = max(KEYS_AT_ONCE // n_workers, 1)
        for begin in range(0, n_tasks, step):
            keys = rng.standard_exponential((min(step, n_tasks - begin), n_workers)) / weights
            chosen[begin : begin + step] = np.argpartition(keys, each - 1, axis=1)[:, :each]
    else:
        edges = np.cumsum(weights)[:-1] / weights.sum()
        for column in range(each):
            rows = np.arange(n_tasks)
            while len(rows):
                chosen[rows, column] = np.searchsorted(edges, rng.random(len(rows)), side="right")
                rows = rows[(chosen[rows, :column] == chosen[rows, column, None]).any(axis=1)]
    chosen.sort(axis=1)
    return chosen


def _assign(
    n_tasks: int, n_workers: int, labels_per_task: float, activity: float, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Task and worker of every label, by task."""
    fewer = int(np.floor(labels_per_task))
    extra = rng.random(n_tasks) < labels_per_task - fewer
    most = fewer + int(extra.any())
    if most == 0:
        return np.zeros(0, np.int32), np.zeros(0, np.int32)
    chosen = choose_workers(n_tasks, n_workers, most, activity, rng)
    chosen_cells = np.ones(chosen.shape, bool)
    if most > fewer:
        short = np.flatnonzero(~extra)
        chosen_cells[short, rng.integers(most, size=len(short))] = False
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), most).reshape(chosen.shape)
    return task[chosen_cells], chosen[chosen_cells]


def _finish(task: Ints, worker: Ints, truth: Ints, confusion: Floats, prior: Floats, rng: np.random.Generator) -> Crowd:
    given = draw_labels(worker, truth[task], confusion, rng)
    labels = pa.table({"task": task, "worker": worker, "label": given})
    answers = pa.table({"task": np.arange(len(truth), dtype=np.int32), "label": truth})
    return Crowd(labels, answers, confusion, prior)


def _refuse_empty(n_tasks: int, n_workers: int, n_classes: int) -> None:
    if min(n_tasks, n_workers, n_classes) < 1:
        sizes = f"{n_tasks}, {n_workers} and {n_classes}"
        raise DataError(f"n_tasks, n_workers and n_classes must be >= 1, got {sizes}; give at least one of each")


def _check_prior(prior: Floats | None, n_classes: int) -> Floats:
    if prior is None:
        return np.full(n_classes, 1 / n_classes)
    weights = np.asarray(prior, np.float64)
    if weights.shape != (n_classes,) or (weights < 0).any() or weights.sum() <= 0:
        raise DataError(
            f"prior must hold {n_classes} numbers >= 0, not all 0, got {weights.tolist()}; give one per class"
        )
    return np.asarray(weights / weights.sum())


def _check_confusion(confusion: Floats, n_workers: int, n_classes: int) -> Floats:
    given = np.asarray(confusion, np.float64)
    shape = (n_workers, n_classes, n_classes)
    if given.shape != shape or (given < 0).any() or not np.allclose(given.sum(axis=2), 1):
        raise DataError(
            f"confusion must have shape {shape} (worker, true, given) and rows that sum to one, got shape "
            f"{given.shape}; normalise its rows"
        )
    return given


# -----------------------------------------------------------------------------
# Example data that needs no network: real annotators with real, unequal mistakes.
#
# >>> from latentfit.labels.simulate import digits_crowd
# >>> crowd = digits_crowd()
# >>> crowd.labels.column_names
# ['task', 'worker', 'label']

TRAINING_POOL = 400
"""Digits set aside to train the annotators; they are never tasks."""


@dataclass(frozen=True)
class LabelledCrowd:
    """Labels with known truth.

    Attributes
    ----------
    labels : pyarrow.Table
        Columns task, worker and label.
    truth : pyarrow.Table
        Columns task and label, to compare with, never to fit on.

    Examples
    --------
    >>> from latentfit.labels.simulate import digits_crowd
    >>> digits_crowd().truth.column_names
    ['task', 'label']
    """

    labels: pa.Table
    truth: pa.Table


def digits_crowd(random_state: int = 0) -> LabelledCrowd:
    """Ten weak classifiers label overlapping halves of scikit-learn's handwritten digits.

    Trees, neighbours and naive Bayes of different strengths, each trained on 20 to 70 digits of a pool that
    is not labelled and seeing some of the pixels only: unequal annotators whose mistakes are their own.

    Parameters
    ----------
    random_state : int, default=0
        Seed of everything random.

    Returns
    -------
    crowd : LabelledCrowd

    Examples
    --------
    >>> from latentfit.labels.simulate import digits_crowd
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
    for worker, (kind, classifier) in enumerate(_annotators(), start=1):
        seen = rng.choice(pool, size=int(rng.integers(20, 71)), replace=False)
        pixels = rng.choice(images.shape[1], size=int(rng.integers(20, 45)), replace=False)
        classifier.fit(images[np.ix_(seen, pixels)], digits[seen])
        asked = np.sort(rng.choice(tasks, size=len(tasks) // 2, replace=False))
        columns["task"] += [f"digit-{index:04d}" for index in asked]
        columns["worker"] += [f"{kind}-{worker}"] * len(asked)
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
