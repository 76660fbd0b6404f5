"""Coded labels in CSR form: task → its (worker, label) cells.

Order: tasks as they first appear, workers and classes sorted by name, the labels of a task by worker, then by label.
Rules: a missing or abstaining label is not a label; several answers of one worker to one task all count, as in Dawid
and Skene's n_il^(k).
"""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from latentfit.core.errors import DataError, DataWarning
from latentfit.core.kernels import BLOCK_ROWS, CsrRows
from latentfit.core.names import Names, encode, from_names, interval_names, match, plain, to_arrow
from latentfit.core.numbers import worth_of

Abstain = Sequence[Any]
NO_ANSWER: Abstain = ("",)
"""Labels that mean "no answer" unless others are named; in a wide table of codes -1 may, see `from_wide`."""
Bins = int | Sequence[float] | None
"""How numeric labels become classes: so many intervals of equal width, or the inner edges; None: each is a class."""
MOST_DECIMALS = 20
"""Different decimal numbers that can be classes: more are scores, and want bins."""
MOST_WHOLE = 50
"""Different whole numbers from which a note asks whether they are scores."""
Coded = TypeVar("Coded", bound="CodedLabels")
Gold = tuple[Any, Any]
"""Known answers: a column of tasks and a column of labels."""
NO_GOLD = -1
RULED_OUT = -1e9
"""Log-probability of a class that a known answer excludes: no evidence can outweigh it."""


class CodedLabels(ABC):
    """What labels in memory (`Labels`) and in a file (`StoredLabels`) have in common: all that a pass asks for.

    Whatever is summed over the tasks without a kernel is summed block by block (`blocks`), blocks in order, so that
    both give the same bits.
    """

    worker_names: Names
    class_names: Names
    edges: tuple[float, ...] | None  # inner edges of the intervals that numeric labels were cut into
    never_given: tuple[int, ...]  # classes that no worker gives: only a known answer says that a task has one

    @property
    @abstractmethod
    def n_rows(self) -> int: ...

    @property
    @abstractmethod
    def n_labels(self) -> int: ...

    @property
    @abstractmethod
    def known(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        """Tasks whose answer is known, in order, and their classes; None where nobody brought answers."""

    @property
    def has_gold(self) -> bool:
        return self.known is not None

    @abstractmethod
    def task_slice(self, begin: int, end: int) -> Labels:
        """Some tasks in memory; of a file without their names."""

    @abstractmethod
    def names_of(self, begin: int, end: int) -> pa.Array:
        """The names of some tasks."""

    @abstractmethod
    def loaded(self) -> Labels:
        """All of it in memory, with the names of the tasks."""

    @abstractmethod
    def without_gold(self) -> CodedLabels:
        """The same labels, as if no answer were known."""

    def with_never_given(self, classes: tuple[int, ...]) -> Self:
        """The same labels with the classes marked that no worker gives."""
        return replace(self, never_given=classes)  # type: ignore[type-var]  # all that inherit are dataclasses

    @abstractmethod
    def with_answers(self, rows: NDArray[np.int64], codes: NDArray[np.int32]) -> Self:
        """The same labels with the classes of some tasks known."""

    @abstractmethod
    def find(self, names: Any, what: str) -> NDArray[np.int64]:
        """The task that each name stands for, or -1."""

    @abstractmethod
    def cells(self, begin: int, end: int) -> CsrRows:
        """Cells of a range of tasks; a known answer is one more cell, past all workers' rows.

        So is, where classes are never given, that the answer is not known: it rules these classes out.
        """

    def blocks(self) -> Iterator[Labels]:
        """The tasks in order, `BLOCK_ROWS` at a time."""
        for begin in range(0, self.n_rows, BLOCK_ROWS):
            yield self.task_slice(begin, min(begin + BLOCK_ROWS, self.n_rows))

    @property
    def n_workers(self) -> int:
        return len(self.worker_names)

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def column_offsets(self) -> NDArray[np.int32]:
        """Where each worker's rows begin in a stacked table: all workers have the same categories."""
        return np.arange(0, (self.n_workers + 1) * self.n_classes, self.n_classes, dtype=np.int32)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How often each worker gave each label (M, K)."""
        total = np.zeros(self.n_workers * self.n_classes, np.int64)
        for block in self.blocks():
            total += np.bincount(block.cell_of(), minlength=len(total))
        return total.reshape(self.n_workers, self.n_classes)

    @property
    def per_worker(self) -> NDArray[np.int64]:
        """Labels of every worker (M,)."""
        return np.asarray(self.counts.sum(axis=1))

    def weights(self, begin: int, end: int) -> None:
        return None

    def spread(self, log_table: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log-table that `cells` point into: a known answer's cell rules out every other class."""
        if not self.has_gold and not self.never_given:
            return log_table
        unknown = np.zeros(self.n_classes)
        unknown[list(self.never_given)] = RULED_OUT
        return np.vstack([log_table, np.where(np.eye(self.n_classes) > 0, 0.0, RULED_OUT), unknown])

    def gather(self, stats: NDArray[np.float64]) -> NDArray[np.float64]:
        """The rows of sufficient statistics that belong to workers."""
        return stats[: self.n_workers * self.n_classes]

    def identity(self) -> str:
        """Digest of sizes, names, and how often each worker gave each label."""
        digest = hashlib.sha256(f"{self.n_rows}\0{self.n_labels}\0{self.has_gold}".encode())
        digest.update(f"\0{self.worker_names.tolist()}\0{self.class_names.tolist()}".encode())
        for numbers in (self.counts, *(self.known or ())):
            digest.update(np.ascontiguousarray(numbers).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Labels(CodedLabels):
    """Coded labels. `offsets` (n + 1,), `workers` and `given` (labels,), `gold` (n,) with -1 for unknown."""

    offsets: NDArray[np.int64]
    workers: NDArray[np.int32]
    given: NDArray[np.int32]
    task_names: Names
    worker_names: Names
    class_names: Names
    gold: NDArray[np.int32] | None = None
    edges: tuple[float, ...] | None = None
    never_given: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_labels(self) -> int:
        return len(self.workers)

    @property
    def known(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        if self.gold is None:
            return None
        rows = np.flatnonzero(self.gold >= 0)
        return rows, self.gold[rows]

    @property
    def has_gold(self) -> bool:
        return self.gold is not None

    def task_slice(self, begin: int, end: int) -> Labels:
        if (begin, end) == (0, self.n_rows):
            return self
        low, high = self.offsets[begin], self.offsets[end]
        return replace(
            self,
            offsets=self.offsets[begin : end + 1] - low,
            workers=self.workers[low:high],
            given=self.given[low:high],
            task_names=self.task_names[begin:end],
            gold=None if self.gold is None else self.gold[begin:end],
        )

    def names_of(self, begin: int, end: int) -> pa.Array:
        return from_names(self.task_names[begin:end])

    def loaded(self) -> Labels:
        return self

    def without_gold(self) -> Labels:
        return self if self.gold is None else replace(self, gold=None)

    def with_answers(self, rows: NDArray[np.int64], codes: NDArray[np.int32]) -> Labels:
        known = np.full(self.n_rows, NO_GOLD, np.int32)
        known[rows] = codes
        return replace(self, gold=known)

    def find(self, names: Any, what: str) -> NDArray[np.int64]:
        return match(names, self.task_names, what).astype(np.int64)

    def task_of(self) -> NDArray[np.int64]:
        """The task of every label."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.offsets))

    def cell_of(self) -> NDArray[np.int32]:
        """The table row of every label: worker · K + label."""
        return self.workers * np.int32(self.n_classes) + self.given

    def answer_of(self) -> NDArray[np.int64] | None:
        """The number of the (task, worker) pair of every label; None where nobody answered a task twice."""
        other = np.ones(self.n_labels, bool)  # does the label begin another pair than the one before it?
        other[1:] = self.workers[1:] != self.workers[:-1]
        other[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        return None if other.all() else np.cumsum(other) - 1

    def once(self) -> Labels:
        """The same with one label of every (task, worker) pair: for questions of who labelled what, not of how."""
        answer = self.answer_of()
        return self if answer is None else self.subset(np.diff(answer, prepend=-1) > 0)

    def cells(self, begin: int, end: int) -> CsrRows:
        low, high = self.offsets[begin], self.offsets[end]
        at = self.workers[low:high] * np.int32(self.n_classes) + self.given[low:high]
        offsets = self.offsets[begin : end + 1] - low
        if self.gold is None and not self.never_given:
            return CsrRows(offsets, at)
        gold = np.full(end - begin, NO_GOLD, np.int32) if self.gold is None else self.gold[begin:end]
        known = gold >= 0
        pinned = known | bool(self.never_given)
        pin = self.n_workers * self.n_classes + np.where(known, gold, self.n_classes)
        before = np.concatenate([[0], np.cumsum(pinned)])
        return CsrRows(offsets + before, np.insert(at, offsets[1:][pinned], pin[pinned].astype(np.int32)))

    def subset(self, mask: NDArray[np.bool_]) -> Labels:
        """The same tasks and workers with only the labels in `mask`."""
        counts = np.zeros(self.n_rows + 1, np.int64)
        np.cumsum(np.bincount(self.task_of()[mask], minlength=self.n_rows), out=counts[1:])
        return replace(self, offsets=counts, workers=self.workers[mask], given=self.given[mask])

    def take(self, tasks: NDArray[np.bool_]) -> Labels:
        """Only the marked tasks (n,), with their labels."""
        sizes = np.diff(self.offsets)
        mask = np.repeat(tasks, sizes)
        return replace(
            self,
            offsets=np.concatenate([[0], np.cumsum(sizes[tasks])]).astype(np.int64),
            workers=self.workers[mask],
            given=self.given[mask],
            task_names=self.task_names[tasks],
            gold=None if self.gold is None else self.gold[tasks],
        )


def join_labels(blocks: Sequence[Labels]) -> Labels:
    """Concatenate blocks of the same labels."""
    sizes = np.concatenate([np.diff(block.offsets) for block in blocks])
    return replace(
        blocks[0],
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        workers=np.concatenate([block.workers for block in blocks]),
        given=np.concatenate([block.given for block in blocks]),
        task_names=np.concatenate([block.task_names for block in blocks]),
        gold=None if blocks[0].gold is None else np.concatenate([block.gold for block in blocks if block.has_gold]),
    )


def from_long(
    task: Any, worker: Any, label: Any, *, abstain: Abstain = NO_ANSWER, gold: Gold | None = None, bins: Bins = None
) -> Labels:
    """Labels from three columns of equal length."""
    task_codes, task_names = encode(task, "task", sort=False)
    worker_codes, worker_names = encode(worker, "worker")
    label_codes, class_names, edges = encode_labels(label, abstain, gold, bins)
    sizes = {"task": len(task_codes), "worker": len(worker_codes), "label": len(label_codes)}
    if len(set(sizes.values())) > 1:
        raise DataError(f"the columns have different lengths ({sizes}); give one task, worker and label per row")
    _refuse_missing(task_codes, "task")
    _refuse_missing(worker_codes, "worker")
    labels = assemble(task_codes, worker_codes, label_codes, task_names, worker_names, class_names)
    labels = replace(labels, edges=edges)
    return labels if gold is None else with_gold(labels, gold)


def from_wide(
    matrix: Any,
    *,
    abstain: Abstain = NO_ANSWER,
    worker_names: Names | None = None,
    task_names: Names | None = None,
    gold: Gold | None = None,
    bins: Bins = None,
) -> Labels:
    """Labels from a matrix (task, worker) with missing values; row and column numbers are the names unless given.

    Where `abstain` is left alone and all other codes are non-negative whole numbers, -1 is snorkel's "no answer", and a
    warning gives the number of such cells.
    """
    n_tasks, n_workers = matrix.shape
    values, rows, columns = _cells_of(matrix)
    if is_left_alone(abstain):
        abstain = _with_snorkels(values)
    codes, class_names, edges = encode_labels(values, abstain, gold, bins)
    labels = assemble(
        rows.astype(np.int32),
        columns.astype(np.int32),
        codes,
        np.arange(n_tasks) if task_names is None else task_names,
        np.arange(n_workers) if worker_names is None else worker_names,
        class_names,
    )
    labels = replace(labels, edges=edges)
    return labels if gold is None else with_gold(labels, gold)


def is_left_alone(abstain: Any) -> bool:
    """Whether `abstain` is what it is when nobody named a label that means no answer."""
    return isinstance(abstain, list | tuple) and list(abstain) == list(NO_ANSWER)


def _with_snorkels(values: Any) -> Abstain:
    """What abstains in a wide table by default: -1 too, where it stands among at least two non-negative codes."""
    codes, names = _drop_abstentions(*encode(values, "label"), NO_ANSWER)
    numbers = worth_of(map(str, names.tolist()))  # a file with missing values writes -1.0
    are_integers = np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all()
    if not are_integers or len(np.unique(numbers)) < 3 or np.sort(numbers[numbers < 0]).tolist() != [-1]:
        return NO_ANSWER
    at = int(np.argmin(numbers))
    warnings.warn(
        f"-1 stands in {int((codes == at).sum()):,} cells of a wide table whose other labels are whole numbers from "
        "0, and is read as no answer, as in snorkel; give abstain=[] (--abstain '') if -1 is a label, or abstain=[-1] "
        "(--abstain -1) to read it so without this note",
        DataWarning,
        stacklevel=5,
    )
    return (*NO_ANSWER, -1)


def _cells_of(matrix: Any) -> tuple[Any, Any, Any]:
    """Values, rows and columns; of a sparse matrix what is stored: a stored zero is the label 0."""
    if hasattr(matrix, "tocoo"):
        coo = matrix.tocoo()
        if coo.data.dtype.kind in "iuf" and (coo.data == -1).any() and not (coo.data == 0).any():
            warnings.warn(
                "the sparse matrix stores the label -1 and no 0, and a dense matrix loses its zeros when it is made "
                "sparse; if 0 is a label give the dense matrix",
                DataWarning,
                stacklevel=4,
            )
        return coo.data, coo.row, coo.col
    matrix = np.asarray(matrix)
    rows, columns = np.divmod(np.arange(matrix.size), max(matrix.shape[1], 1))
    return matrix.reshape(-1), rows, columns


def recode(labels: Labels, worker_names: Names, class_names: Names) -> Labels:
    """The same labels under a fitted model's workers and classes; the last worker code is an unseen annotator.

    A label that the model does not know is dropped.
    """
    worker = match(labels.worker_names, worker_names, "worker")
    worker = np.where(worker < 0, np.int32(len(worker_names)), worker)[labels.workers]
    given = match_labels(labels.class_names, class_names, "label")[labels.given]
    known = given >= 0
    names = np.array([*worker_names.tolist(), None], object)
    renamed = replace(labels, workers=worker.astype(np.int32), given=given, worker_names=names, gold=None)
    return replace(renamed.subset(known), class_names=class_names, never_given=())


def assemble(
    task: NDArray[np.int32],
    worker: NDArray[np.int32],
    label: NDArray[np.int32],
    task_names: Names,
    worker_names: Names,
    class_names: Names,
) -> Labels:
    """Sort by (task, worker, label) and drop missing labels; repeated answers stay, with a warning."""
    given_rows = np.flatnonzero(label >= 0)
    if len(given_rows) < len(label):
        task, worker, label = task[given_rows], worker[given_rows], label[given_rows]
    key = task.astype(np.int64) * len(worker_names) + worker
    full = key * max(len(class_names), 1) + label  # no order of rows decides: equal rows are equal
    if len(full) and (full[1:] < full[:-1]).any():
        order = np.argsort(full, kind="stable")
        key, worker, label, task = key[order], worker[order], label[order], task[order]
    repeated = np.flatnonzero(key[1:] == key[:-1])
    if len(repeated):
        warn_repeated(len(repeated), task_names[task[repeated[0]]], worker_names[worker[repeated[0]]])
    offsets = np.zeros(len(task_names) + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=len(task_names)), out=offsets[1:])
    return Labels(offsets, worker, label, task_names, worker_names, class_names)


def warn_repeated(number: int, task: Any, worker: Any) -> None:
    """Answers beyond the first of a worker to a task: all count, which is wrong for a file with duplicated rows."""
    example = f"task {plain(task)!r} by worker {plain(worker)!r}"
    warnings.warn(
        f"{number:,} labels repeat a (task, worker) pair, for example {example}, and each counts as an answer of its "
        "own; remove duplicated rows",
        DataWarning,
        stacklevel=5,
    )


def with_gold(labels: Coded, gold: Gold) -> Coded:
    """The same labels with known answers attached; an answer for a task nobody labelled is an error."""
    tasks, answers = gold
    codes = match_answers(answers, labels, "gold label")
    rows = labels.find(tasks, "gold task")
    stray = (rows < 0) & (codes >= 0)
    if stray.any():
        task = to_arrow(tasks, "gold task")[int(np.argmax(stray))].as_py()
        raise DataError(f"the gold answers name task {task!r}, which has no label; remove it")
    rows, codes = rows[codes >= 0], codes[codes >= 0]
    if not len(rows):  # a list without an answer is no gold
        return labels
    check_one_answer(rows, codes, labels)
    return labels.with_answers(rows, codes)


def check_one_answer(rows: NDArray[Any], codes: NDArray[np.int32], labels: CodedLabels) -> None:
    """Refuse known answers that contradict one another; the same answer twice is one."""
    order = np.lexsort((codes, rows))
    rows, codes = rows[order], codes[order]
    conflicting = np.flatnonzero((rows[1:] == rows[:-1]) & (codes[1:] != codes[:-1]))
    if not len(conflicting):
        return
    task = labels.names_of(int(rows[conflicting[0]]), int(rows[conflicting[0]]) + 1)[0].as_py()
    one, other = (plain(labels.class_names[codes[at]]) for at in (conflicting[0], conflicting[0] + 1))
    raise DataError(f"the gold answers give task {task!r} two labels, {one!r} and {other!r}; keep the right one")


def encode_labels(
    values: Any, abstain: Abstain, gold: Gold | None, bins: Bins = None
) -> tuple[NDArray[np.int32], Names, tuple[float, ...] | None]:
    """Codes of the labels under all names that occur in labels or gold answers, and the edges if they were cut."""
    codes, names = _drop_abstentions(*encode(values, "label"), abstain)
    if names.dtype.kind == "f" and np.isinf(names).any():
        raise DataError("the label column holds an infinite number; leave the cell empty or give a finite number")
    if bins is not None:
        edges = _edges_of(names, bins)
        cut = np.append(cut_labels(names, edges), np.int32(-1))
        return cut[codes], interval_names(np.array(edges)), edges
    if gold is not None:
        _, extra = _drop_abstentions(*encode(gold[1], "gold label"), abstain)
        missing = extra[match_labels(extra, names, "gold label") < 0] if len(names) else extra
        if len(missing):
            both = [*names.tolist(), *missing.tolist()]
            order, union = encode(both, "label")
            return np.append(order[: len(names)], np.int32(-1))[codes], union, None
    return codes, names, None


def _edges_of(names: Names, bins: Bins) -> tuple[float, ...]:
    """The inner edges of so many intervals of equal width between the least and the largest label, or those given."""
    numbers = worth_of(names.tolist())
    if not np.isfinite(numbers).all():
        word = names[int((~np.isfinite(numbers)).argmax())]
        raise DataError(f"bins needs labels that are numbers, found {plain(word)!r}; leave bins out")
    if isinstance(bins, int | np.integer):
        if bins < 2 or len(numbers) < 2:
            raise DataError(
                f"bins must be >= 2 and the labels must differ, got bins={bins} and {len(numbers)} different labels; "
                "leave bins out"
            )
        even = np.linspace(numbers.min(), numbers.max(), int(bins) + 1)[1:-1]
        labelled = np.bincount(np.searchsorted(even, numbers, "right"), minlength=len(even) + 1) > 0
        return tuple(even[labelled[:-1]].tolist())  # an interval without a label is joined with the next one
    edges = np.asarray(bins, np.float64).reshape(-1)
    if not len(edges) or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
        raise DataError(f"bins must be an int >= 2 or increasing finite numbers, got {edges.tolist()}; sort the edges")
    return tuple(edges.tolist())


def cut_labels(names: Names, edges: Sequence[float]) -> NDArray[np.int32]:
    """The interval of every label, -1 for one that is not a number."""
    numbers = worth_of(names.tolist())
    return np.where(np.isfinite(numbers), np.searchsorted(np.array(edges), numbers, "right"), -1).astype(np.int32)


def match_labels(values: Any, names: Names, what: str) -> NDArray[np.int32]:
    """`match`, in which 0 and 0.0 are the same: pandas writes floats where a column has missing values."""
    codes = match(values, names, what)
    worth = worth_of(names.tolist())
    if not len(names) or not np.isfinite(worth).all() or len(np.unique(worth)) < len(worth):
        return codes
    value_codes, others = encode(values, what)
    number, order = worth_of(others.tolist()), np.argsort(worth)
    place = order[np.minimum(np.searchsorted(worth[order], number), len(order) - 1)]
    same = np.append(np.where(worth[place] == number, place, -1), -1)
    return np.where(codes >= 0, codes, same[value_codes]).astype(np.int32)


def match_answers(answers: Any, labels: CodedLabels, what: str) -> NDArray[np.int32]:
    """Classes of known answers, -1 for what is none; scores are cut as the labels were."""
    if labels.edges is None:
        return match_labels(answers, labels.class_names, what)
    codes, names = encode(answers, what)
    return np.append(cut_labels(names, labels.edges), np.int32(-1))[codes]


def check_scores(names: Names, most: int) -> None:
    """Refuse labels that are scores, each of which would be a class; up to `most` integers only warn."""
    if len(names) <= MOST_DECIMALS:
        return
    numbers = worth_of(names.tolist())
    if not np.isfinite(numbers).all():
        return
    advice = "give bins=5 (--bins 5) to cut them into intervals"
    if (numbers != np.floor(numbers)).any():
        raise DataError(
            f"the labels take {len(names):,} different values from {numbers.min():g} to {numbers.max():g}, decimals "
            f"among them, and look like scores, not classes; {advice}, or round them"
        )
    if MOST_WHOLE < len(names) <= most:
        warnings.warn(
            f"the labels take {len(names):,} different whole numbers from {numbers.min():g} to {numbers.max():g}, each "
            f"of them a class; if they are scores, {advice}",
            DataWarning,
            stacklevel=5,
        )


def _refuse_missing(codes: NDArray[np.int32], what: str) -> None:
    if len(codes) and codes.min() < 0:
        raise no_name(int(np.argmax(codes < 0)), what)


def no_name(row: int, what: str) -> DataError:
    """The error for a row without a task or a worker."""
    return DataError(f"row {row + 1} has no {what}; every label needs one: fill it in or remove the row")


def _drop_abstentions(codes: NDArray[np.int32], names: Names, abstain: Abstain) -> tuple[NDArray[np.int32], Names]:
    if isinstance(abstain, str) or not isinstance(abstain, Iterable):  # a string would be read letter by letter
        raise DataError(f"abstain must be a list of labels, got {abstain!r}; give abstain=[{abstain!r}]")
    abstain_names, numbers = {str(value) for value in abstain}, worth_of(map(str, abstain))
    abstaining = np.array([str(name) in abstain_names for name in names.tolist()], bool)
    abstaining |= np.isin(worth_of(map(str, names.tolist())), numbers[np.isfinite(numbers)])  # 0 and 0.0 are one label
    if not abstaining.any():
        return codes, names
    recode = np.full(len(names) + 1, -1, np.int32)
    recode[:-1][~abstaining] = np.arange(int((~abstaining).sum()), dtype=np.int32)
    return recode[codes], names[~abstaining]
