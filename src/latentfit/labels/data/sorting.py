"""Long labels, batch by batch → the same tasks in the order of appearance with their cells: an external sort.

The labels of a task may stand anywhere in the files, and there may be more task names than memory holds. So

1. every row goes to one of `PARTITIONS` by a hash of its task's name, workers and labels coded while reading;
2. a partition holds all rows of its tasks: there a task becomes the number of its first row, which identifies tasks
   and gives the order of appearance, and its rows go on to the range that this number lies in;
3. ranges come in order, and within one tasks are sorted by their number, labels by worker and label. These are the
   rules of `labels.assemble`, so codes, order and names are those of memory.

Three times through temporary files, each time in chunks that do not grow with the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.names import LONGEST_NAME, GrowingNames, Names, are_words, as_dictionary, from_names, long_name
from latentfit.core.sampling import scramble
from latentfit.engine.flat_file import Spill, WordSpill, by_bucket, letters_of, word_hashes
from latentfit.io.values import integers_if_canonical
from latentfit.labels.data.labels import Abstain, Bins, Gold, encode_labels, no_name

PARTITIONS = 256
"""Partitions of the tasks by hash: at 10⁹ labels one holds four million of them."""
CHUNK_ROWS = 1 << 18
"""Rows gathered before they are divided: a thousand rows per partition."""
RANGE_ROWS = 1 << 18
"""Rows of the input whose new tasks are sorted together."""
MOST_LABELS = 65_534
"""Different labels allowed while reading; far fewer can be classes."""

ROW = np.dtype([("task", np.uint32), ("worker", np.int32), ("label", np.int32)])
CELL = np.dtype([("task", np.int64), ("cell", np.int32)])


@dataclass(frozen=True)
class SortedTasks:
    """Consecutive tasks: their names, how many labels each has, and the cells (worker · K + label) of these."""

    names: pa.Array
    sizes: NDArray[np.int64]
    cells: NDArray[np.int32]


@dataclass
class Repeated:
    """Answers beyond the first of a worker to a task, and the first such task and worker."""

    number: int = 0
    task: Any = None
    worker: Any = None


@dataclass
class LabelSort:
    """One reading of long labels, in a `with` block; `settle` when all rows are in, then `tasks`."""

    folder: Path
    text: bool  # from a format without types, where integers are text
    workers: GrowingNames = field(init=False)
    given: GrowingNames = field(init=False)
    worker_names: Names = field(init=False)
    class_names: Names = field(init=False)
    edges: tuple[float, ...] | None = None
    n_rows: int = 0
    kind: str = "whole"  # what all task names are: whole numbers, numbers or words
    repeated: Repeated = field(default_factory=Repeated)

    def __post_init__(self) -> None:
        self.workers, self.given = GrowingNames("worker", self.text), GrowingNames("label", self.text)
        self._spills = ExitStack()
        self._task_texts = self._spills.enter_context(closing(WordSpill(self.folder, PARTITIONS)))
        self._rows = self._spills.enter_context(closing(Spill(self.folder, PARTITIONS, ROW)))
        self._before = np.zeros(PARTITIONS, np.int64)  # names in each partition, one per chunk that shows it

    def __enter__(self) -> LabelSort:
        return self

    def __exit__(self, *error: object) -> None:
        self._spills.close()

    # ------------------------------------------------------------ 1: by the hash of the task

    def add(self, task: Any, worker: Any, label: Any) -> None:
        """Some rows: three columns of equal length."""
        coded = as_dictionary(task, "task")
        workers, labels = self.workers.code(worker), self.given.code(label)
        size = len(workers)
        if coded.null_count or coded.dictionary.null_count:
            missing = int(pc.index(pc.is_null(coded.dictionary_decode()), True).as_py())
            if missing >= 0:
                raise no_name(self.n_rows + missing, "task")
        if size and workers.min() < 0:
            raise no_name(self.n_rows + int(np.argmax(workers < 0)), "worker")
        if len(self.given.place) > MOST_LABELS:
            raise DataError(
                f"the labels take more than {MOST_LABELS:,} different values; check that the label column is not an "
                "id or free text"
            )
        codes = coded.indices.to_numpy(zero_copy_only=False)
        first = np.full(len(coded.dictionary), -1)
        first[codes[::-1]] = np.arange(size - 1, -1, -1)
        present = np.flatnonzero(first >= 0)
        texts = self._spelled(coded.dictionary.take(from_names(present)))
        bucket = (scramble(word_hashes(*letters_of(texts)), 0) % np.uint64(PARTITIONS)).astype(np.int16)
        order, sizes = by_bucket(bucket, PARTITIONS)
        place = np.empty(len(present), np.int64)
        place[order] = np.arange(len(present)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        place += self._before[bucket]
        self._task_texts.add(bucket, texts, self.n_rows + first[present])
        self._before += sizes
        local = np.empty(len(coded.dictionary), np.int64)
        local[present] = np.arange(len(present))
        labelled = np.flatnonzero(labels >= 0)  # a missing label is not counted, its task is
        at = local[codes[labelled]]
        order, sizes = by_bucket(bucket[at], PARTITIONS)
        rows = np.empty(len(labelled), ROW)
        rows["task"], rows["worker"] = place[at][order], workers[labelled][order]
        rows["label"] = labels[labelled][order]
        self._rows.add(rows, sizes)
        self.n_rows += size

    def _spelled(self, names: Any) -> Any:
        """Distinct task names as text; what kind they all are is remembered."""
        kind = names.type
        if pa.types.is_floating(kind):
            if self.kind == "whole" and not pc.all(pc.equal(pc.floor(names), names)).as_py():
                self.kind = "number"
            return pc.add(names, 0.0).cast(pa.string())  # there is one zero
        if pa.types.is_integer(kind):
            return names.cast(pa.string())
        if are_words(kind):
            longest = pc.max(pc.utf8_length(names)).as_py() or 0
            if longest > LONGEST_NAME:
                raise long_name("task", longest)
            canonical = self.text and self.kind == "whole" and _are_integers(names)
            self.kind = "whole" if canonical else "word"
            return names
        self.kind = "word"
        return names.cast(pa.string()) if pa.types.is_boolean(kind) else pa.array([str(v) for v in names.to_pylist()])

    # ------------------------------------------------------------ 2: by the number of the first row

    def settle(self, abstain: Abstain, gold: Gold | None, bins: Bins = None) -> None:
        """All rows are in: sort the names of workers and labels, and send every label to its range of tasks."""
        worker_of, self.worker_names = self.workers.settled()
        label_of, self.class_names, self.edges = encode_labels(self.given.words(), abstain, gold, bins)
        n_classes = len(self.class_names)
        self.n_ranges = max(-(-self.n_rows // RANGE_ROWS), 1)
        self._tasks = self._spills.enter_context(closing(WordSpill(self.folder, self.n_ranges)))
        self._cells = self._spills.enter_context(closing(Spill(self.folder, self.n_ranges, CELL)))
        for partition in range(PARTITIONS):
            texts, numbers = self._task_texts.read(partition)
            if not len(texts):
                continue
            coded = texts.dictionary_encode()
            codes = coded.indices.to_numpy(zero_copy_only=False)
            first = np.full(len(coded.dictionary), self.n_rows)
            np.minimum.at(first, codes, numbers)
            self._tasks.add(first // RANGE_ROWS, coded.dictionary, first)
            rows = self._rows.read(partition)
            label = label_of[rows["label"]]
            rows, label = rows[label >= 0], label[label >= 0]
            cells = np.empty(len(rows), CELL)
            cells["task"] = first[codes[rows["task"]]]
            cells["cell"] = worker_of[rows["worker"]] * np.int32(n_classes) + label
            order, sizes = by_bucket(cells["task"] // RANGE_ROWS, self.n_ranges)
            self._cells.add(cells[order], sizes)
        self._task_texts.close()
        self._rows.close()

    # ------------------------------------------------------------ 3: by task and worker

    def tasks(self) -> Iterator[SortedTasks]:
        """All tasks in the order of appearance."""
        for at in range(self.n_ranges):
            texts, numbers = self._tasks.read(at)
            order = np.argsort(numbers)
            texts, numbers = texts.take(from_names(order)), numbers[order]
            range_cells = self._cells.read(at)
            task = np.searchsorted(numbers, range_cells["task"])
            order = np.lexsort((range_cells["cell"], task))  # a cell is worker · K + label
            task, cells = task[order], range_cells["cell"][order]
            key = task * len(self.worker_names) + cells // max(len(self.class_names), 1)
            repeated = key[1:] == key[:-1]
            if repeated.any():
                self._count_repeated(texts, key[1:][repeated])
            yield SortedTasks(texts, np.bincount(task, minlength=len(texts)), cells)

    def _count_repeated(self, texts: Any, keys: NDArray[np.int64]) -> None:
        if not self.repeated.number:
            task, worker = divmod(int(keys[0]), len(self.worker_names))
            self.repeated.task = named(texts.slice(task, 1), self.kind)[0].as_py()
            self.repeated.worker = self.worker_names[worker : worker + 1].tolist()[0]
        self.repeated.number += len(keys)


def named(texts: Any, kind: str) -> Any:
    """Task names as they came: whole numbers, numbers or words."""
    if kind == "word":
        return texts
    for type_ in (pa.int64(), pa.uint64()) if kind == "whole" else ():
        try:
            return texts.cast(type_)
        except pa.ArrowInvalid:
            continue
    numbers = texts.cast(pa.float64())  # a whole number of a column of decimals may be spelled 1e+20
    return numbers if kind == "number" else numbers.cast(pa.int64(), safe=False)


def _are_integers(names: Any) -> bool:
    """Whether text spells whole numbers the one way that gives back the same text."""
    canonical = integers_if_canonical(pa.chunked_array([names.cast(pa.string())]))
    return bool(pa.types.is_integer(canonical.type))
