"""A small set of extra labels after which every co-occurrence of two workers can be computed.

Block (m, n) of the co-occurrences is within reach of equations (7)–(8) of Ibrahim & Fu 2022 when a walk of three
observed pairs leads from worker m to worker n; a diagonal block needs a triangle. Adding the pair (a, b) brings
within reach

    neighbours of a × neighbours of b,   two steps from a × b,   two steps from b × a,   and (a, b) itself,

so the worth of all candidate pairs is three matrix products. The greedy cover takes the best pairs, looks again,
and ends when nothing is missing. A pair is made by a request: one of the two is asked for a task of the other. A task
with several labels joins the asked worker to all of them at once; that task is taken for which most comes within
reach, among equals the one with the most informative label.

Symbols   paper        here         shape     meaning
          Ω            observed     (M, M)    pairs of workers with a common task
          |Ω|³ > 0     reached      (M, M)    blocks that (7)–(8) give
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from latentfit.core.kernels import Floats
from latentfit.labels.data import Labels
from latentfit.labels.init.designated import reachable
from latentfit.labels.moments import co_label_graph
from latentfit.labels.select.information import Ints, entries_of, entropies, gains_of_pairs

Bools = NDArray[np.bool_]

COVER_WORKERS = 1_000
"""Most workers whose blocks are all looked at: matrix products of this size take a tenth of a second, and a cover
may need dozens. In larger crowds only separate groups are connected and odd cycles closed."""
PAIRS_PER_ROUND = 32
"""Pairs chosen per round before the worth of all candidates is computed again."""
CANDIDATES = 2_048
"""Best candidate pairs looked at between two computations of their worth."""
WORTHWHILE = 0.5
"""A pair is taken if it still brings this fraction of the best gain: the rest is evaluated again."""
UNCERTAIN_TASKS = 64
"""Tasks among which the request that connects a group is chosen by information."""


@dataclass
class Cover:
    """Requests in the order in which they were found, and what they achieve."""

    tasks: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    missing_before: float | None = None  # proportion of the blocks out of reach; None: too many workers to look
    missing_after: float | None = None
    notes: list[str] = field(default_factory=list)


class Reach:
    """Which blocks are within reach, kept up to date while pairs are added."""

    def __init__(self, observed: Bools) -> None:
        self.one = observed.copy()  # pairs: walks of one step
        np.fill_diagonal(self.one, False)
        links = self.one.astype(np.float32)
        self.two = np.asarray(links @ links > 0)
        self.missing = ~reachable(self.one)

    def add(self, a: int, b: int) -> None:
        if a == b or self.one[a, b]:
            return
        of_a, of_b = np.flatnonzero(self.one[a]), np.flatnonzero(self.one[b])
        self.one[a, b] = self.one[b, a] = True
        of_a, of_b = np.append(of_a, b), np.append(of_b, a)
        for end, near in ((b, of_a), (a, of_b)):  # a walk to `end` whose last step is the new pair
            self.two[near, end] = self.two[end, near] = True
        self.missing[np.ix_(of_a, of_b)] = False
        self.missing[np.ix_(of_b, of_a)] = False
        for begin, end in ((a, b), (b, a)):
            near = np.flatnonzero(self.two[begin])
            self.missing[near, end] = self.missing[end, near] = False
        self.missing[a, b] = self.missing[b, a] = False

    def gain(self, a: int, b: int) -> int:
        """Blocks that the pair (a, b) would bring within reach."""
        block = self.missing[np.ix_(self.one[a], self.one[b])].sum()
        ends = self.missing[self.two[a], b].sum() + self.missing[self.two[b], a].sum()
        return int(block + ends + self.missing[a, b])

    def worth(self) -> Floats:
        """`gain` of all pairs at once; 0 for pairs that are observed."""
        one, two, missing = (x.astype(np.float32) for x in (self.one, self.two, self.missing))
        ends = two @ missing
        worth = one @ missing @ one + ends + ends.T + missing
        worth[self.one] = 0
        np.fill_diagonal(worth, 0)
        return np.asarray(worth)


class CoverBuilder:
    """Collects requests; knows who is on which task, asked ones included, and who may be asked."""

    def __init__(self, labels: Labels, posterior: Floats, confusions: Floats, room: Ints, limit: int) -> None:
        self.labels, self.posterior, self.confusions = labels, posterior, confusions
        self.room, self.limit = room.copy(), limit
        self.asked: dict[int, list[int]] = {}
        self.reach: Reach | None = None
        self.cover = Cover()
        order = np.argsort(labels.workers, kind="stable")
        self._by_worker = labels.task_of()[order]
        self._first = np.searchsorted(labels.workers[order], np.arange(labels.n_workers + 1))

    @property
    def full(self) -> bool:
        return len(self.cover.tasks) >= self.limit

    def tasks_of(self, worker: int) -> Ints:
        return np.asarray(self._by_worker[self._first[worker] : self._first[worker + 1]])

    def on_task(self, task: int) -> list[int]:
        begin, end = self.labels.offsets[task], self.labels.offsets[task + 1]
        return [*self.labels.workers[begin:end].tolist(), *self.asked.get(task, [])]

    def most_informative(self, tasks: Ints, worker: int) -> int:
        """The task of `tasks` about which the worker's label is most informative."""
        gains = gains_of_pairs(self.posterior[tasks], np.repeat(self.confusions[worker][None], len(tasks), axis=0))
        return int(tasks[gains.argmax()])

    def ask(self, task: int, worker: int, reason: str) -> None:
        if self.reach is not None:
            for other in self.on_task(task):
                self.reach.add(worker, other)
        self.asked.setdefault(task, []).append(worker)
        self.room[worker] -= 1
        self.cover.tasks.append(task)
        self.cover.workers.append(worker)
        self.cover.reasons.append(reason)


def cover_blocks(labels: Labels, posterior: Floats, confusions: Floats, *, room: Ints, limit: int) -> Cover:
    """Requests that connect the crowd, then bring every block within reach.

    `posterior` (n, K) and `confusions` (M, true, given) choose among tasks; `room` (M,) is how many labels each
    worker may be asked for (0: not available), `limit` the most requests.
    """
    builder = CoverBuilder(labels, posterior, confusions, room, limit)
    connect_groups(builder)
    if labels.n_workers <= COVER_WORKERS:
        observed = observed_pairs(labels)
        builder.cover.missing_before = float((~reachable(observed)).mean())
        for task, asked in builder.asked.items():
            present = builder.on_task(task)
            for worker in asked:
                observed[worker, present] = observed[present, worker] = True
        builder.reach = Reach(observed)
        reach_blocks(builder, builder.reach)
        builder.cover.missing_after = float((~reachable(builder.reach.one)).mean())
        if builder.cover.missing_after > 0 and not builder.full:
            builder.cover.notes.append(
                f"{builder.cover.missing_after:.2%} of the worker pairs stay out of reach: the workers who could "
                "connect them are not available or have no room"
            )
    else:
        builder.cover.notes.append(
            f"with {labels.n_workers:,} workers (more than {COVER_WORKERS:,}) the plan connects separate groups and "
            "closes odd cycles; it does not look for every pair of workers"
        )
    return builder.cover


def observed_pairs(labels: Labels) -> Bools:
    """Pairs of workers with a common task (M, M)."""
    observed = np.zeros((labels.n_workers, labels.n_workers), bool)
    sizes = np.diff(labels.offsets)
    for size in np.unique(sizes[sizes > 1]):  # tasks with equally many labels are one table of workers
        tasks = labels.offsets[:-1][sizes == size]
        table = labels.workers[tasks[:, None] + np.arange(size)]
        for left in range(size):
            observed[table[:, left, None], table] = True
    np.fill_diagonal(observed, False)
    return observed


# ------------------------------------------------------------------ groups first


@dataclass(frozen=True)
class Side:
    """A group of workers, and some tasks of theirs: with several labels before one, the most uncertain first."""

    workers: Ints
    tasks: Ints

    @classmethod
    def of(cls, builder: CoverBuilder, workers: Ints) -> Side:
        tasks = np.unique(np.concatenate([builder.tasks_of(int(worker)) for worker in workers]))
        several = np.minimum(np.diff(builder.labels.offsets)[tasks], 2)
        order = np.lexsort((-entropies(builder.posterior[tasks]), -several))
        return cls(workers, np.asarray(tasks[order[:UNCERTAIN_TASKS]]))


def connect_groups(builder: CoverBuilder) -> None:
    """Join every separate group to the largest, then make sure that an odd cycle exists."""
    labels = builder.labels
    if labels.n_workers < 2:
        return
    graph = co_label_graph(labels)
    members = np.split(np.argsort(graph.component, kind="stable"), np.cumsum(np.bincount(graph.component))[:-1])
    order = sorted(range(graph.n_components), key=lambda group: -len(members[group]))
    main, determined = Side.of(builder, members[order[0]]), bool(graph.determined[order[0]])
    for group in order[1:]:
        if builder.full:
            return
        request = _joining(builder, main, Side.of(builder, members[group]))
        if request is None:
            builder.cover.notes.append(
                f"a group of {len(members[group]):,} workers stays separate: neither they nor the others are available"
            )
            continue
        task, worker, other = request
        determined |= bool(graph.determined[group]) or len(builder.on_task(task)) > 1
        builder.ask(task, worker, f"connects two separate groups: joins workers {_two(labels, worker, other)}")
    if not determined and not builder.full:
        _close_triangle(builder, main)


def _joining(builder: CoverBuilder, main: Side, group: Side) -> tuple[int, int, int] | None:
    """(task, asked worker, a worker of the task): one side's worker on a task of the other side."""
    for askers, hosts in ((group, main), (main, group)):
        free = askers.workers[builder.room[askers.workers] > 0]
        if len(free) and len(hosts.tasks):
            worker = int(free[builder.room[free].argmax()])
            several = hosts.tasks[[len(builder.on_task(int(task))) > 1 for task in hosts.tasks]]
            task = builder.most_informative(several if len(several) else hosts.tasks, worker)
            return task, worker, builder.on_task(task)[0]
    return None


def _close_triangle(builder: CoverBuilder, main: Side) -> None:
    """A third label on a task with two: without an odd cycle, pair counts fit a family of models."""
    free = np.flatnonzero(builder.room > 0)
    for task in main.tasks.tolist():
        others = builder.on_task(task)
        third = free[~np.isin(free, others)]
        if len(others) == 2 and len(third):
            names = f"{_two(builder.labels, *others)} and {_name(builder.labels, int(third[0]))}"
            builder.ask(task, int(third[0]), f"closes a triangle of workers {names}")
            return
    builder.cover.notes.append("no three workers can be made to share a task: pair counts will not determine them")


# ------------------------------------------------------------------ then all blocks


def reach_blocks(builder: CoverBuilder, reach: Reach) -> None:
    """Greedy cover: the pair that brings most blocks within reach, as a request, until none is missing."""
    shuffle = _tie_breaks(len(reach.one))
    while reach.missing.any() and not builder.full:
        worth = reach.worth()
        free = builder.room > 0
        allowed = np.where(np.triu(free[:, None] | free[None, :], 1), worth, 0)
        candidates = np.argsort(-(allowed * shuffle).ravel(), kind="stable")[:CANDIDATES]
        enough, taken = 0.0, 0
        for a, b in zip(*np.unravel_index(candidates, allowed.shape), strict=True):
            if builder.full or taken >= PAIRS_PER_ROUND or allowed[a, b] <= enough:
                break
            if reach.one[a, b] or not (builder.room[a] > 0 or builder.room[b] > 0):
                continue
            gain = reach.gain(int(a), int(b))
            if gain <= enough:
                continue
            enough = max(enough, WORTHWHILE * gain)
            if _request_pair(builder, worth, int(a), int(b)):
                taken += 1
        if not taken:
            return


def _tie_breaks(n_workers: int) -> Floats:
    """Factors just below 1, the same every time: equal pairs are not all with the same worker."""
    code = np.arange(n_workers)
    return np.asarray(1 - 1e-4 * ((code[:, None] * 7919 + code * 104729) % 1009) / 1009)


def _request_pair(builder: CoverBuilder, worth: Floats, a: int, b: int) -> bool:
    """Ask a or b to label a task of the other; the task that brings most within reach, then the most informative."""
    best: tuple[float, int, int, int] | None = None
    for worker, other in ((a, b), (b, a)):
        tasks = builder.tasks_of(other)
        if builder.room[worker] <= 0 or not len(tasks):
            continue
        brings = _worth_of_tasks(builder.labels, worth[worker], tasks)
        top = tasks[brings >= brings.max() * (1 - 1e-6)]
        if best is None or brings.max() > best[0]:
            best = float(brings.max()), builder.most_informative(top, worker), worker, other
    if best is None:
        return False
    _, task, worker, other = best
    builder.ask(task, worker, f"joins workers {_two(builder.labels, worker, other)}")
    return True


def _worth_of_tasks(labels: Labels, worth: Floats, tasks: Ints) -> Floats:
    """Total worth of all co-annotations on each task; `worth` (M,) is 0 for observed pairs."""
    row, at = entries_of(labels.offsets, tasks)
    return np.asarray(np.add.reduceat(worth[labels.workers[at]], np.searchsorted(row, np.arange(len(tasks)))))


def _name(labels: Labels, worker: int) -> str:
    return str(labels.worker_names[worker])


def _two(labels: Labels, a: int, b: int) -> str:
    return f"{_name(labels, a)} and {_name(labels, b)}"
