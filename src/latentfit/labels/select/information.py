"""The most informative label: mutual information between a worker's label and a task's class.

With posterior p of a task (K,) and a worker's confusion matrix A (true, given), the expected information is

    I(class; label) = H(Σ_k p_k A[k, ·]) − Σ_k p_k H(A[k, ·])   nats, never more than H(p).

Posteriors come from a committee: the model, and fits to random halves of the labels. One fit is too sure of the
workers it happens to trust; where the halves disagree, a label is worth asking for (docs/guide/labels/plan.md has
the evidence). Confusion matrices of workers with few labels are shrunk towards the crowd's.

Nothing here holds a tasks × workers matrix: tasks are walked in blocks, the most uncertain first, and a crowd
too large to compare everybody is cut to its most informative workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from latentfit.core.assign import align_parts
from latentfit.core.em import em
from latentfit.core.kernels import Floats
from latentfit.core.mixture.parameters import Mixture
from latentfit.core.sampling import scramble
from latentfit.engine.memory import MemoryEngine, Sums, posterior_of
from latentfit.labels.data import Labels
from latentfit.labels.data.stored import task_hashes
from latentfit.labels.em import SMOOTHING, crowd_steps, pooled_confusion
from latentfit.labels.moments import co_label_graph, sufficient_statistics, vote_proportions

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Tuning:
    """Constants of the choice of labels, each with its reason."""

    # Pseudo-labels per true class that draw a worker's confusion matrix to the crowd's: a worker seen a few
    # times must not look perfect, or the plan would chase luck.
    shrinkage: float = 4.0
    # Fits to random halves of the labels in addition to the model; more change nothing measurable.
    halves: int = 4
    # EM of a committee member and of a replay: as `DawidSkene` has it by default.
    rounds: int = 100
    tol: float = 1e-3
    # Nats below which a label is not worth asking: less than rounding in a sum over a large crowd.
    least_gain: float = 1e-9
    # Workers compared for every task; of a larger crowd the most informative ones (more when `per_worker` caps
    # what each can take). Below this the best pair is exact.
    most_workers: int = 256
    # Uncertain posteriors on which the workers of a large crowd are compared to find the most informative.
    representatives: int = 64
    # A budget is spent in this many waves of one label per task; posteriors are sharpened in between.
    waves: int = 8
    # Cells (task, worker, label) computed at once: 16 MB.
    block_cells: int = 1 << 21


TUNING = Tuning()


# ------------------------------------------------------------------ information


def entropies(posterior: Floats) -> Floats:
    """H of every row, in nats."""
    return np.asarray(entr(posterior).sum(axis=-1))


def gains_of_pairs(posterior: Floats, confusions: Floats) -> Floats:
    """Information (n,) of pair i: posterior i (n, K) asked of confusion matrix i (n, true, given)."""
    given = np.einsum("nk,nkl->nl", posterior, confusions)
    noise = (posterior * entropies(confusions)).sum(axis=1)
    return np.asarray(np.maximum(entropies(given) - noise, 0.0))


def gain_table(posterior: Floats, confusions: Floats) -> Floats:
    """Information (task, worker) of every posterior (n, K) asked of every confusion matrix (W, true, given)."""
    n_workers, n_classes, n_given = confusions.shape
    flat = confusions.transpose(1, 0, 2).reshape(n_classes, n_workers * n_given)
    given = (posterior @ flat).reshape(len(posterior), n_workers, n_given)
    return np.asarray(np.maximum(entropies(given) - posterior @ entropies(confusions).T, 0.0))


def sharpened(posterior: Floats, gain: Floats) -> Floats:
    """Posteriors moved towards their likeliest class until their entropy has fallen by `gain`.

    Stands for a label that was requested and has not arrived: its value is unknown, its expected information is known.
    On the way to the likeliest class entropy only falls, so bisection finds the point.
    """
    target = np.maximum(entropies(posterior) - gain, 0.0)
    peak = np.eye(posterior.shape[1])[posterior.argmax(axis=1)]
    low, high = np.zeros(len(posterior)), np.ones(len(posterior))
    for _ in range(50):
        middle = (low + high) / 2
        above = entropies(posterior + middle[:, None] * (peak - posterior)) > target
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(posterior + high[:, None] * (peak - posterior))


# ---------------------------------------------------------- posteriors and workers


def shrunk_confusions(stats: Sums, n_classes: int) -> tuple[Floats, Floats]:
    """Confusion matrices (worker, true, given) with `shrinkage` labels of the crowd, and the crowd's (true, given)."""
    counts = stats.table.reshape(-1, n_classes, n_classes).transpose(0, 2, 1)
    pooled = pooled_confusion(stats, n_classes).T
    shrunk = (counts + TUNING.shrinkage * pooled) / (counts.sum(axis=2, keepdims=True) + TUNING.shrinkage)
    return np.asarray(shrunk), np.asarray(pooled)


def committee_posterior(labels: Labels, mixture: Mixture, *, n_jobs: int | None = None, seed: int = 0) -> Floats:
    """Mean posterior (n, K) of the model and of `halves` fits to halves of the labels, all read on all labels.

    A label's halves are the bits of one hash of its task's content and its cell, so permuting rows permutes the
    committee's posterior. A half is fitted from its votes without the known answers; its classes come in any order, and
    are aligned with the model's, by component of the crowd, before its posterior is added.
    """
    engine = MemoryEngine(labels, n_jobs)
    component = co_label_graph(labels).component
    posterior = posterior_of(engine, mixture)[0]
    cells = scramble(labels.cell_of().astype(np.uint64), seed + 2)
    hashes = scramble(task_hashes(labels, seed)[labels.task_of()] ^ cells, seed)
    for half in range(TUNING.halves):
        half_labels = labels.subset((hashes >> np.uint64(half)) & np.uint64(1) == 1).without_gold()
        stats = sufficient_statistics(half_labels, vote_proportions(half_labels))
        fitted = fit_from(half_labels, stats, MemoryEngine(half_labels, n_jobs))
        posterior = posterior + posterior_of(engine, align_parts(fitted, mixture, component))[0]
    return np.asarray(posterior / (1 + TUNING.halves))


def fit_from(labels: Labels, stats: Sums, engine: MemoryEngine) -> Mixture:
    """MAP-EM from sufficient statistics, as `DawidSkene` has it by default."""
    steps = crowd_steps(labels, stats, SMOOTHING, engine)
    return em(steps, steps.m_step(stats), max_iter=TUNING.rounds, tol=TUNING.tol).params


# ------------------------------------------------------------------------ offers


def entries_of(offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Every entry of some rows of a ragged list: which of `rows` it belongs to, and where it stands in the list."""
    sizes = offsets[rows + 1] - offsets[rows]
    row = np.repeat(np.arange(len(rows)), sizes)
    within = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return row, np.repeat(offsets[rows], sizes) + within


class Offers(Protocol):
    """Who could label what."""

    def best(self, tasks: Ints, posterior: Floats) -> tuple[Ints, Floats]:
        """Best worker on offer (-1: none) and gain for each task, as if it were asked alone."""
        ...

    def serve(self, tasks: Ints, posterior: Floats) -> tuple[Ints, Floats]:
        """The same, the tasks served in order and what they get no longer on offer."""
        ...


@dataclass
class Anyone:
    """No worker named: the task alone, gain under the crowd's confusion; always on offer."""

    pooled: Floats

    def best(self, tasks: Ints, posterior: Floats) -> tuple[Ints, Floats]:
        return np.zeros(len(tasks), np.int64), gain_table(posterior, self.pooled[None])[:, 0]

    serve = best


class Crowd:
    """Named workers (W), each able to label any task not yet labelled by them, up to `room` labels each."""

    def __init__(self, confusions: Floats, n_tasks: int, room: Ints | None = None) -> None:
        self.confusions = confusions  # (W, true, given)
        self.n_tasks, self.room = n_tasks, room
        self._set_struck(np.empty(0, np.int64), np.empty(0, np.int64))

    def _set_struck(self, tasks: Ints, workers: Ints) -> None:
        order = np.argsort(tasks, kind="stable")
        self._tasks, self._workers = tasks[order], workers[order]
        self._first = np.searchsorted(self._tasks, np.arange(self.n_tasks + 1))

    def strike(self, tasks: Ints, workers: Ints) -> None:
        """These pairs are not on offer: labelled before."""
        self._set_struck(np.concatenate([self._tasks, tasks]), np.concatenate([self._workers, workers]))

    def use(self, tasks: Ints, workers: Ints) -> None:
        """These pairs are asked: not on offer any more, and part of the workers' load."""
        self.strike(tasks, workers)
        if self.room is not None:
            self.room = self.room - np.bincount(workers, minlength=len(self.room))

    def best(self, tasks: Ints, posterior: Floats) -> tuple[Ints, Floats]:
        return self._look(tasks, posterior, None)

    def serve(self, tasks: Ints, posterior: Floats) -> tuple[Ints, Floats]:
        workers, gains = self._look(tasks, posterior, self.room)
        self.use(tasks[workers >= 0], workers[workers >= 0])
        return workers, gains

    def _look(self, tasks: Ints, posterior: Floats, room: Ints | None) -> tuple[Ints, Floats]:
        workers, gains = np.full(len(tasks), -1, np.int64), np.zeros(len(tasks))
        listed = self._shortlist(posterior, 0 if room is None else len(tasks))
        if not len(listed):
            return workers, gains
        place = np.full(len(self.confusions), -1)
        place[listed] = np.arange(len(listed))
        left = None if room is None else room[listed]
        size = max(1, TUNING.block_cells // (len(listed) * self.confusions.shape[2]))
        for begin in range(0, len(tasks), size):
            chunk = slice(begin, begin + size)
            table = gain_table(posterior[chunk], self.confusions[listed])
            self._strike_out(table, tasks[chunk], place)
            chosen = table.argmax(axis=1) if left is None else _in_order(table, left)
            best = np.take_along_axis(table, chosen[:, None], axis=1)[:, 0]
            workers[chunk] = np.where(best >= 0, listed[chosen], -1)
            gains[chunk] = np.maximum(best, 0.0)
        return workers, gains

    def _strike_out(self, table: Floats, tasks: Ints, place: Ints) -> None:
        """Pairs that are not on offer get a negative gain."""
        row, at = entries_of(self._first, tasks)
        column = place[self._workers[at]]
        table[row[column >= 0], column[column >= 0]] = -1.0

    def _shortlist(self, posterior: Floats, n_served: int) -> Ints:
        """Workers with room; of a large crowd those most informative on typical uncertain posteriors."""
        open_ = np.arange(len(self.confusions)) if self.room is None else np.flatnonzero(self.room > 0)
        most = TUNING.most_workers
        if self.room is not None:  # enough of them to serve every task
            most += int(np.searchsorted(np.cumsum(np.sort(self.room[open_])), n_served)) + 1
        if len(open_) <= most:
            return np.asarray(open_)
        unsure = np.argsort(-entropies(posterior), kind="stable")[: 16 * TUNING.representatives]
        typical = posterior[unsure[:: max(1, len(unsure) // TUNING.representatives)]]
        waves = np.array_split(open_, -(-len(open_) // 4096))
        worth = np.concatenate([gain_table(typical, self.confusions[chunk]).mean(axis=0) for chunk in waves])
        return np.sort(open_[np.argsort(-worth, kind="stable")[:most]])


def _in_order(table: Floats, room: Ints) -> Ints:
    """Best column of each row, rows served in order while columns have room; a row without one: any negative."""
    chosen = np.zeros(len(table), np.int64)
    table[:, room <= 0] = -1.0
    for row in range(len(table)):
        chosen[row] = worker = int(table[row].argmax())
        if table[row, worker] >= 0:
            room[worker] -= 1
            if room[worker] <= 0:
                table[row + 1 :, worker] = -1.0
    return chosen


# ------------------------------------------------------------------------ choice


@dataclass(frozen=True)
class Chosen:
    """Pairs to ask for, best first in each wave: task, worker and expected information."""

    tasks: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    workers: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    gains: Floats = field(default_factory=lambda: np.empty(0))


def choose_pairs(offers: Offers, posterior: Floats, budget: int) -> Chosen:
    """Up to `budget` pairs, spent in waves: the best pair of each task first, then further labels of a task.

    In a wave no task is asked twice. After it the posteriors of the asked tasks are sharpened by what they are
    expected to learn, so a second label competes with the first labels of other tasks at its lower worth.
    """
    posterior = posterior.copy()
    worth = _first_worth(offers, posterior, budget)
    waves: list[tuple[Ints, Ints, Floats]] = []
    left, wave = budget, max(1, -(-budget // TUNING.waves))
    while left > 0:
        order = np.argsort(-worth, kind="stable")[: min(wave, left)]
        tasks = order[worth[order] > TUNING.least_gain]
        if not len(tasks):
            break
        workers, gains = offers.serve(tasks, posterior[tasks])
        worth[tasks[workers < 0]] = 0.0
        tasks, workers, gains = tasks[workers >= 0], workers[workers >= 0], gains[workers >= 0]
        waves.append((tasks, workers, gains))
        left -= len(tasks)
        posterior[tasks] = sharpened(posterior[tasks], gains)
        worth[tasks] = offers.best(tasks, posterior[tasks])[1]
    if not waves:
        return Chosen()
    tasks, workers, gains = (np.concatenate(column) for column in zip(*waves, strict=True))
    order = np.argsort(-gains, kind="stable")
    return Chosen(tasks[order], workers[order], gains[order])


def _first_worth(offers: Offers, posterior: Floats, budget: int) -> Floats:
    """What the first label of a task is worth; 0 where entropy shows that a task cannot be among the chosen.

    Information is at most entropy. Tasks are looked at by falling entropy, and once `budget` of them are worth
    more than the entropy of all that follow, the rest need no look.
    """
    worth, ceiling = np.zeros(len(posterior)), entropies(posterior)
    order = np.argsort(-ceiling, kind="stable")
    size = max(2 * budget, 4096)
    for begin in range(0, len(order), size):
        chunk = order[begin : begin + size]
        seen = worth[order[:begin]]
        if begin >= budget and np.partition(seen, begin - budget)[begin - budget] >= ceiling[chunk[0]]:
            break
        worth[chunk] = offers.best(chunk, posterior[chunk])[1]
    return worth
