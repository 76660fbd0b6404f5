"""Crowds of which it is known whether they determine the answer: 200 that do not, 200 that do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from latentfit.labels.data import Labels, assemble
from latentfit.simulate import Crowd, choose_workers, crowd, draw_confusions, draw_labels, draw_truth

Rng = np.random.Generator


def sound(seed: int) -> Crowd:
    """Five labels a task or more, twenty a worker or more, decent skills, uneven classes of 25 tasks or more."""
    rng = np.random.default_rng([1, seed])
    n_classes = int(rng.integers(2, 7))
    n_workers = int(np.exp(rng.uniform(np.log(10), np.log(200))))
    each = int(rng.integers(5, min(n_workers, 12) + 1))
    fewest = max(30 * n_workers // each + 1, 60 * n_classes, 150)
    n_tasks = int(rng.integers(fewest, 3 * fewest))
    prior = np.maximum(rng.dirichlet(np.full(n_classes, 6.0)), 0.5 / n_classes)
    lowest = 0.65 if n_classes == 2 else 0.55
    kind = ("skilled", "one-coin", "mixed")[seed % 3]
    return crowd(
        n_tasks, n_workers, n_classes, labels_per_task=each, kind=kind, skill=(lowest, 0.97),
        activity=0.0, prior=prior, random_state=rng,
    )  # fmt: skip


def _size(rng: Rng) -> tuple[int, int, int]:
    """Tasks, workers and classes of a crowd that would do, were it not for what is wrong with it."""
    return int(rng.integers(150, 800)), int(rng.integers(10, 60)), int(rng.integers(2, 6))


def one_label_a_task(rng: Rng) -> Labels:
    n_tasks, n_workers, n_classes = _size(rng)
    return crowd(n_tasks, n_workers, n_classes, labels_per_task=1, random_state=rng).coded()


def two_workers(rng: Rng) -> Labels:
    n_tasks, _, n_classes = _size(rng)
    return crowd(n_tasks, 2, n_classes, labels_per_task=2, random_state=rng).coded()


def two_sides(rng: Rng) -> Labels:
    """Every task has one worker of either side: the co-label graph is bipartite."""
    n_tasks, n_workers, n_classes = _size(rng)
    half = n_workers // 2
    worker = np.stack([rng.integers(half, size=n_tasks), rng.integers(half, 2 * half, size=n_tasks)], axis=1)
    return _labels(worker, 2 * half, n_classes, rng)


def parts(rng: Rng) -> Labels:
    """Two or three groups of workers without a common task."""
    n_tasks, n_workers, n_classes = _size(rng)
    n_parts = int(rng.integers(2, 4))
    size = max(n_workers // n_parts, 6)
    worker = choose_workers(n_tasks, size, 5, 0.0, rng) + size * rng.integers(n_parts, size=(n_tasks, 1))
    return _labels(worker, size * n_parts, n_classes, rng)


def guessers(rng: Rng) -> Labels:
    n_tasks, n_workers, n_classes = _size(rng)
    each = int(rng.integers(5, 10))
    return crowd(n_tasks, n_workers, n_classes, labels_per_task=each, kind="guessing", random_state=rng).coded()


def reference_classes(rng: Rng) -> Labels:
    """Nobody tells the first two classes apart."""
    n_tasks, n_workers, n_classes = _size(rng)
    n_classes = max(n_classes, 3)
    confusion = draw_confusions(n_workers, n_classes, "skilled", (0.6, 0.95), rng)
    confusion[:, 0] = confusion[:, 1] = (confusion[:, 0] + confusion[:, 1]) / 2
    each = int(rng.integers(5, 10))
    return crowd(n_tasks, n_workers, n_classes, labels_per_task=each, confusion=confusion, random_state=rng).coded()


def rare_class(rng: Rng) -> Labels:
    """The last class has no task at all, or about two."""
    n_tasks, n_workers, n_classes = _size(rng)
    prior = np.append(rng.dirichlet(np.full(n_classes - 1, 6.0)), float(rng.integers(2)) * 2 / n_tasks)
    each = int(rng.integers(5, 10))
    return crowd(n_tasks, n_workers, n_classes, labels_per_task=each, prior=prior, random_state=rng).coded()


def passers_by(rng: Rng) -> Labels:
    """Two labels a task, by workers who give two labels each."""
    n_tasks, _, n_classes = _size(rng)
    worker = rng.permutation(np.arange(2 * n_tasks) // 2).reshape(n_tasks, 2)
    worker[worker[:, 0] == worker[:, 1], 1] = (worker[worker[:, 0] == worker[:, 1], 1] + 1) % n_tasks
    return _labels(worker, n_tasks, n_classes, rng)


def copied(rng: Rng) -> Labels:
    """Most workers repeat what one of them says, who is no better than they."""
    n_tasks, _, n_classes = _size(rng)
    n_workers = int(rng.integers(6, 16))
    each = int(rng.integers(max(n_workers * 2 // 3, 5), n_workers + 1))
    copies = int(np.ceil(rng.uniform(0.6, 0.85) * n_workers))
    confusion = draw_confusions(n_workers, n_classes, "skilled", (0.6, 0.9), rng)
    confusion[:copies] = draw_confusions(1, n_classes, "skilled", (0.6, 0.85), rng)
    truth = draw_truth(n_tasks, np.full(n_classes, 1 / n_classes), rng)
    worker = choose_workers(n_tasks, n_workers, each, 0.0, rng)
    said = draw_labels(worker.ravel(), np.repeat(truth, each), confusion, rng).reshape(worker.shape)
    source = draw_labels(np.zeros(n_tasks, np.int32), truth, confusion, rng)
    return _coded(worker, np.where(worker < copies, source[:, None], said), n_workers, n_classes)


BROKEN: tuple[Callable[[Rng], Labels], ...] = (
    one_label_a_task, two_workers, two_sides, parts, guessers, reference_classes, rare_class, passers_by, copied,
)  # fmt: skip


def broken(seed: int) -> tuple[str, Labels]:
    """One of the constructions in turn, with its name."""
    make = BROKEN[seed % len(BROKEN)]
    return make.__name__, make(np.random.default_rng([2, seed]))


def _labels(worker: np.ndarray, n_workers: int, n_classes: int, rng: Rng) -> Labels:
    """Labels of skilled workers for the assignment `worker` (task, label)."""
    confusion = draw_confusions(n_workers, n_classes, "skilled", (0.6, 0.95), rng)
    truth = draw_truth(len(worker), np.full(n_classes, 1 / n_classes), rng)
    said = draw_labels(worker.ravel(), np.repeat(truth, worker.shape[1]), confusion, rng)
    return _coded(worker, said.reshape(worker.shape), n_workers, n_classes)


def _coded(worker: np.ndarray, said: np.ndarray, n_workers: int, n_classes: int) -> Labels:
    task = np.repeat(np.arange(len(worker), dtype=np.int32), worker.shape[1])
    names = np.arange(len(worker)), np.arange(n_workers), np.arange(n_classes)
    return assemble(task, worker.ravel().astype(np.int32), said.ravel().astype(np.int32), *names)
