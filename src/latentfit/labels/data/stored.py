"""Labels in a file: samples by content, a flat file of codes, and the external sort that writes it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from latentfit.core.errors import DataError
from latentfit.core.frames import Columns
from latentfit.core.kernels import BLOCK_ROWS, CsrRows
from latentfit.core.names import (
    LONGEST_NAME,
    GrowingNames,
    Names,
    are_words,
    as_dictionary,
    encode,
    from_names,
    long_name,
    typed_names,
)
from latentfit.core.sampling import Words, hash_limit, numbered_apart, scramble
from latentfit.engine.flat_file import (
    FileHandle,
    Spill,
    WordSpill,
    by_bucket,
    fill_from,
    letters_of,
    store_rows,
    store_temporarily,
    word_hashes,
    words_of,
    write_flat,
)
from latentfit.io.scan import Scan
from latentfit.io.values import integers_if_canonical
from latentfit.labels.data import (
    NO_ANSWER,
    NO_GOLD,
    Abstain,
    Bins,
    CodedLabels,
    Gold,
    Labels,
    encode_labels,
    join_labels,
    no_name,
    warn_repeated,
    with_gold,
)
from latentfit.labels.data.input import long_roles


def task_hashes(labels: CodedLabels, seed: int) -> Words:
    """One hash per task from its cells, equal tasks of a block numbered apart."""
    hashes = [block_hashes(block, seed) for block in labels.blocks()]
    return np.concatenate(hashes) if hashes else np.empty(0, np.uint64)


def block_hashes(block: Labels, seed: int) -> Words:
    """The same of one block of tasks."""
    return numbered_apart(content_hashes(block, block.cell_of(), seed), seed)


def content_hashes(block: Labels, codes: NDArray[np.integer[Any]], seed: int) -> Words:
    """One hash per task of a block from the `codes` of its labels, the same for equal tasks."""
    scrambled = scramble(codes.astype(np.uint64), seed)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(scrambled, dtype=np.uint64)])
    return np.asarray(sums[block.offsets[1:]] - sums[block.offsets[:-1]])  # wraps around, exactly


def sample_tasks(labels: CodedLabels, most: int, seed: int) -> Labels:
    """At most `most` tasks in their order, those with the smallest hashes; all of them when they fit."""
    if labels.n_rows <= most:
        return labels.task_slice(0, labels.n_rows)
    samples: list[Labels] = []
    hashes: list[Words] = []
    limit = np.uint64(2**64 - 1)
    for block in labels.blocks():
        new = block_hashes(block, seed)
        low = new <= limit  # what is above all that can stay is left at once
        samples, hashes = [*samples, block.take(low)], [*hashes, new[low]]
        if sum(map(len, hashes)) > 2 * most:
            limit = hash_limit(hashes, most)
            samples = [one.take(mine <= limit) for one, mine in zip(samples, hashes, strict=True)]
            hashes = [mine[mine <= limit] for mine in hashes]
    limit = hash_limit(hashes, most)
    return join_labels([one.take(mine < limit) for one, mine in zip(samples, hashes, strict=True)])


def sample_fraction(labels: CodedLabels, fraction: float, seed: int) -> Labels:
    """A fraction of all tasks by their hashes, in their order."""
    limit = np.uint64(int(fraction * 2.0**64))
    return join_labels([block.take(block_hashes(block, seed) < limit) for block in labels.blocks()])


# -----------------------------------------------------------------------------
# StoredLabels: labels in a flat file, read some tasks at a time; what is larger than memory.
#
# The body of the file (`engine/flat_file.py`) has four sections: where each task's labels begin (int64, n + 1), where
# its name begins (int64, n + 1), the cells (worker · K + label, int32), the letters of the names. Tasks, workers,
# classes and the order of labels are those of `Labels` (see `labels/data/stored.py`), so both give the same bits.

FORMAT, ENDING = 2, "codes"
COPIED = 1 << 22
"""Bytes copied at a time from a section to the file."""


@dataclass(frozen=True, eq=False)
class StoredLabels(CodedLabels):
    """Labels on disk: their sizes, the names of workers and classes, and where the sections begin."""

    path: Path
    offset: int
    n_tasks: int
    n_cells: int
    kind: str  # of the task names
    worker_names: Names
    class_names: Names
    edges: tuple[float, ...] | None = None
    answers: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None  # tasks that are known, in order; their classes
    handle: FileHandle | None = None
    never_given: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        return self.n_tasks

    @property
    def n_labels(self) -> int:
        return self.n_cells

    @property
    def known(self) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
        return self.answers

    def task_slice(self, begin: int, end: int) -> Labels:
        offsets, cells = self._labels(begin, end)
        workers, given = np.divmod(cells, np.int32(max(self.n_classes, 1)))
        gold = None
        if self.answers is not None:
            rows, codes = self.answers
            low, high = np.searchsorted(rows, [begin, end])
            gold = np.full(end - begin, NO_GOLD, np.int32)
            gold[rows[low:high] - begin] = codes[low:high]
        numbers = np.arange(begin, end)  # stand for the names, which are read when asked for
        names = numbers, self.worker_names, self.class_names
        return Labels(offsets, workers, given, *names, gold, self.edges, self.never_given)

    def names_of(self, begin: int, end: int) -> pa.Array:
        ends = self._numbers(self.offset + 8 * (self.n_tasks + 1 + begin), end - begin + 1, np.int64)
        letters = self._numbers(self._letters_at + int(ends[0]), int(ends[-1] - ends[0]), np.uint8)
        names = named(words_of(np.diff(ends), letters), self.kind)
        return names.cast(pa.string()) if self.kind == "word" and len(letters) < 2**31 else names

    def cells(self, begin: int, end: int) -> CsrRows:
        if self.answers is None and not self.never_given:
            return CsrRows(*self._labels(begin, end))
        return self.task_slice(begin, end).cells(0, end - begin)

    def loaded(self) -> Labels:
        if not self.n_tasks:
            raise DataError("the files hold no rows; give at least one label")
        labels = join_labels(list(self.blocks()))
        return replace(labels, task_names=_as_names(self.names_of(0, self.n_tasks)))

    def without_gold(self) -> StoredLabels:
        return self if self.answers is None else replace(self, answers=None)

    def with_answers(self, rows: NDArray[np.int64], codes: NDArray[np.int32]) -> StoredLabels:
        known_rows, at = np.unique(rows, return_index=True)
        return replace(self, answers=(known_rows, codes[at]))

    def find(self, names: Any, what: str) -> NDArray[np.int64]:
        """The task that each name stands for, or -1; names are read block by block, none are held."""
        codes, wanted = encode(names, what)
        rows = np.full(len(wanted) + 1, -1)
        asked = from_names(wanted).cast(pa.large_string())
        for begin in range(0, self.n_rows, BLOCK_ROWS):
            block_names = self.names_of(begin, min(begin + BLOCK_ROWS, self.n_rows)).cast(pa.large_string())
            at = pc.index_in(block_names, asked).fill_null(-1).to_numpy(zero_copy_only=False)
            rows[at[at >= 0]] = begin + np.flatnonzero(at >= 0)
        return rows[codes]

    # ------------------------------------------------------------- reading

    @property
    def _cells_at(self) -> int:
        return self.offset + 16 * (self.n_tasks + 1)

    @property
    def _letters_at(self) -> int:
        return self._cells_at + 4 * self.n_cells

    def _labels(self, begin: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where the labels of some tasks begin, from 0, and their cells."""
        offsets = self._numbers(self.offset + 8 * begin, end - begin + 1, np.int64)
        cells = self._numbers(self._cells_at + 4 * int(offsets[0]), int(offsets[-1] - offsets[0]), np.int32)
        return offsets - offsets[0], cells

    def _numbers(self, at: int, size: int, dtype: Any) -> NDArray[Any]:
        out = np.empty(size, dtype)
        fill_from(self.path, at, out)
        return out


def _as_names(array: pa.Array) -> Names:
    """Names as `Labels` holds them."""
    numbers = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    return array.to_numpy(zero_copy_only=False) if numbers else np.array(array.to_pylist(), object)


# ---------------------------------------------------------------------- coding


def code_labels(
    scan: Scan, *, columns: Columns = None, abstain: Abstain = NO_ANSWER, gold: Gold | None = None, bins: Bins = None
) -> StoredLabels:
    """The files' labels coded into a flat file: in the scan's cache, where a second run finds it, or for this run."""
    roles = long_roles(scan.first_names(), columns)
    scan = scan.with_ids(roles[0], roles[1], columns=roles)

    def fingerprint() -> str:
        classes = [] if gold is None else sorted(map(str, set(encode(gold[1], "gold label")[1].tolist())))
        return f"labels\0{FORMAT}\0{scan.fingerprint()}\0{list(map(str, abstain))}\0{classes}\0{bins}"

    def write(path: Path, key: str) -> StoredLabels:
        return _code(scan, roles, path, key, abstain, gold, bins)

    stored = store_rows(scan.cache, fingerprint, ENDING, FORMAT, _revived, write)
    return stored if gold is None else with_gold(stored, gold)


def store_labels(labels: Labels) -> StoredLabels:
    """Labels in memory as a file, for this run only."""

    def tasks() -> Iterator[SortedTasks]:
        for begin in range(0, labels.n_rows, BLOCK_ROWS):
            end = min(begin + BLOCK_ROWS, labels.n_rows)
            block = labels.task_slice(begin, end)
            texts = labels.names_of(begin, end).cast(pa.large_string())
            yield SortedTasks(texts, np.diff(block.offsets), block.cell_of())

    kind = {"i": "whole", "u": "whole", "f": "number"}.get(labels.task_names.dtype.kind, "word")

    def write(path: Path, key: str) -> StoredLabels:
        return _write(path, key, tasks(), kind, labels.worker_names, labels.class_names)

    return replace(store_temporarily(write, ENDING), answers=labels.known, edges=labels.edges)


def _code(
    scan: Scan, roles: tuple[str, str, str], path: Path, key: str, abstain: Abstain, gold: Gold | None, bins: Bins
) -> StoredLabels:
    with LabelSort(path.parent, scan.untyped) as sort:
        for table in _gathered(scan.batches()):
            sort.add(*(table.column(name) for name in roles))  # a column that plays two roles is read once
        if not sort.n_rows:
            raise DataError("the files hold no rows; give at least one label")
        sort.settle(abstain, gold, bins)
        return _write(path, key, sort.tasks(), sort.kind, sort.worker_names, sort.class_names, sort)


def _gathered(batches: Iterator[Any]) -> Iterator[Any]:
    """Neighbouring batches with the same columns together, some hundred thousand rows at a time."""
    gathered: list[Any] = []
    for batch in batches:
        rows = sum(one.num_rows for one in gathered)
        if gathered and (rows >= CHUNK_ROWS or not batch.schema.equals(gathered[0].schema)):
            yield pa.Table.from_batches(gathered)
            gathered = []
        gathered.append(batch)
    if gathered:
        yield pa.Table.from_batches(gathered)


def _write(
    path: Path,
    key: str,
    tasks: Iterator[SortedTasks],
    kind: str,
    worker_names: Names,
    class_names: Names,
    sort: LabelSort | None = None,
) -> StoredLabels:
    """The four sections grow side by side in temporary files, then stand one after the other in the one that stays."""
    with ExitStack() as stack:
        offsets, names, cells, letters = (stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for _ in "1234")
        n_tasks = n_cells = n_letters = 0
        for at, one in enumerate(tasks):
            lengths, spelled = letters_of(one.names)
            for section, sizes, before in ((offsets, one.sizes, n_cells), (names, lengths, n_letters)):
                begins = np.concatenate([[before], before + np.cumsum(sizes)]).astype(np.int64)
                section.write(begins[min(at, 1) :].tobytes())
            cells.write(one.cells.tobytes())
            letters.write(spelled.tobytes())
            n_tasks, n_cells, n_letters = n_tasks + len(lengths), n_cells + len(one.cells), n_letters + len(spelled)
        edges, repeated = (None, None) if sort is None else (sort.edges, sort.repeated)
        facts = {
            "format": FORMAT,
            "key": key,
            "n_tasks": n_tasks,
            "n_cells": n_cells,
            "kind": kind,
            "workers": [worker_names.dtype.kind, worker_names.tolist()],
            "classes": [class_names.dtype.kind, class_names.tolist()],
            "edges": None if edges is None else list(edges),
            "repeated": None if repeated is None else list(repeated),
        }
        if repeated is not None:
            warn_repeated(*repeated)
        offset = write_flat(path, facts, _copied(offsets, names, cells, letters))
    return StoredLabels(path, offset, n_tasks, n_cells, kind, worker_names, class_names, edges)


def _copied(*sections: IO[bytes]) -> Iterator[NDArray[np.uint8]]:
    for section in sections:
        section.seek(0)
        while chunk := section.read(COPIED):
            yield np.frombuffer(chunk, np.uint8)


def _revived(path: Path, offset: int, facts: dict[str, Any]) -> StoredLabels:
    workers, classes = typed_names(*facts["workers"]), typed_names(*facts["classes"])
    edges = None if facts["edges"] is None else tuple(facts["edges"])
    stored = StoredLabels(path, offset, facts["n_tasks"], facts["n_cells"], facts["kind"], workers, classes, edges)
    if facts["repeated"] is not None:
        warn_repeated(*facts["repeated"])
    return stored


# -----------------------------------------------------------------------------
# Long labels, batch by batch → the same tasks in the order of appearance with their cells: an external sort.
#
# The labels of a task may stand anywhere in the files, and there may be more task names than memory holds. So
#
# 1. every row goes to one of `PARTITIONS` by a hash of its task's name, workers and labels coded while reading;
# 2. a partition holds all rows of its tasks: there a task becomes the number of its first row, which identifies tasks
#    and gives the order of appearance, and its rows go on to the range that this number lies in;
# 3. ranges come in order, and within one tasks are sorted by their number, labels by worker and label. These are the
#    rules of `labels.assemble`, so codes, order and names are those of memory.
#
# Three times through temporary files, each time in chunks that do not grow with the data.

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
    repeated: tuple[int, Any, Any] | None = None  # answers beyond the first of a worker to a task; the first such pair

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
        if self.repeated is None:
            task, worker = divmod(int(keys[0]), len(self.worker_names))
            name = named(texts.slice(task, 1), self.kind)[0].as_py()
            self.repeated = 0, name, self.worker_names[worker : worker + 1].tolist()[0]
        self.repeated = self.repeated[0] + len(keys), *self.repeated[1:]


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
