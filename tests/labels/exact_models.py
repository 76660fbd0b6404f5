"""Dawid–Skene worlds with known parameters: exact pair counts, or labels drawn from them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.mixture.pair_counts import PairCounts
from latentfit.labels.data import Labels
from tests.labels.label_matrices import coded

Floats = NDArray[np.float64]

EXACT_ROWS = 10**15
"""Counts of this many rows hold every probability to 1e-15."""


def confusions(rng: np.random.Generator, n_workers: int, n_classes: int, accuracy: float = 0.6) -> Floats:
    """Random A_m (m, given, true), on average `accuracy` on the diagonal, no entry below 0.01."""
    noise = rng.dirichlet(np.ones(n_classes), size=(n_workers, n_classes)).transpose(0, 2, 1)
    mixed = (1 - accuracy) * noise + accuracy * np.eye(n_classes)
    return np.asarray((mixed + 0.01) / (mixed + 0.01).sum(axis=1, keepdims=True))


def exact_pairs(A: Floats, weights: Floats, missing: tuple[tuple[int, int], ...] = ()) -> PairCounts:
    """The pair counts of infinitely many rows; the pairs in `missing` share none."""
    n_workers, n_classes, _ = A.shape
    gram = np.zeros((n_workers * n_classes, n_workers * n_classes), np.int64)
    for m in range(n_workers):
        for j in range(n_workers):
            block = np.diag(A[m] @ weights) if m == j else A[m] @ np.diag(weights) @ A[j].T
            if (min(m, j), max(m, j)) not in missing:
                row, column = m * n_classes, j * n_classes
                counts = np.rint(block * EXACT_ROWS).astype(np.int64)
                gram[row : row + n_classes, column : column + n_classes] = counts
    offsets = np.arange(0, n_workers * n_classes + 1, n_classes, dtype=np.int32)
    return PairCounts(sp.csr_array(gram), offsets)


def draw_labels(
    rng: np.random.Generator, A: Floats, weights: Floats, n_tasks: int, observed: float = 1.0
) -> tuple[Labels, NDArray[np.int64]]:
    """Labels of `n_tasks` tasks, each cell kept with probability `observed`, and the true classes."""
    n_workers, n_classes, _ = A.shape
    truth = rng.choice(n_classes, size=n_tasks, p=weights)
    above = A.cumsum(axis=1)[:, :, truth] < rng.random((n_workers, 1, n_tasks))
    given = np.minimum(above.sum(axis=1), n_classes - 1).T
    wide = np.where(rng.random((n_tasks, n_workers)) < observed, given, -1)
    return coded(wide, n_classes), truth


def tenths(rng: np.random.Generator, n_workers: int, n_classes: int) -> Floats:
    """Random A_m (m, given, true) of whole tenths, none of them zero, with a dominant diagonal."""
    A = np.ones((n_workers, n_classes, n_classes))
    diagonal = np.arange(n_classes)
    spare = 10 - n_classes
    A[:, diagonal, diagonal] += spare // 2 + 1
    for m in range(n_workers):
        for f in range(n_classes):
            np.add.at(A[m, :, f], rng.integers(n_classes, size=spare - spare // 2 - 1), 1)
    return A / 10


def exact_labels(A: Floats, weights: Floats) -> Labels:
    """Complete labels whose frequencies are exactly the model's; A and weights are of whole tenths."""
    n_workers, n_classes, _ = A.shape
    answers = np.indices((n_classes,) * n_workers).reshape(n_workers, -1).T
    chance = weights * np.prod([A[m][answers[:, m]] for m in range(n_workers)], axis=0)
    counts = np.rint(chance.sum(axis=1) * 10 ** (n_workers + 1)).astype(np.int64)
    return coded(np.repeat(answers, counts, axis=0), n_classes)
