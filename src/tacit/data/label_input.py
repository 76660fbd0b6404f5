"""Whatever holds labels → `Labels`: long frames, wide frames, matrices with gaps, sparse matrices.

A frame is long when it has a task, a worker and a label column (by name or alias); every other frame is
wide: one row per task, one column per worker, a column called task or item holding the ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from tacit.data.frames import Columns, Roles, as_frame, column, columns_by_role, find_column, find_roles, index_names
from tacit.data.labels import Abstain, Gold, Labels, from_long, from_wide, no_name
from tacit.data.names import LARGEST_EXACT, encode, is_gap, objects, to_arrow
from tacit.errors import DataError

ALIASES = {
    "task": ("task", "item", "task_id", "item_id", "question", "example"),
    "worker": ("worker", "annotator", "rater", "judge", "worker_id", "annotator_id", "labeler", "labeller"),
    "label": ("label", "answer", "response", "vote", "annotation"),
}
GOLD_ALIASES = (*ALIASES["label"], "truth", "gold", "true")


def is_long(data: Any, columns: Columns = None) -> bool:
    """Whether `data` is a frame with one label per row."""
    frame = as_frame(data)
    if frame is None:
        return False
    return None not in find_roles(frame.columns, ALIASES, columns).values()  # a column may have no name


def read_labels(data: Any, *, columns: Columns = None, abstain: Abstain = ("", -1), gold: Any = None) -> Labels:
    """Labels of any accepted kind; `gold` is a frame task/label, a mapping, or a column beside a matrix."""
    if isinstance(data, Labels):
        if gold is not None:
            raise DataError("labels that are coded already hold their known answers; give gold when they are coded")
        return data
    frame = as_frame(data)
    if frame is None:
        return _read_matrix(data, abstain, gold)
    names, roles = frame.columns, find_roles(frame.columns, ALIASES, columns)
    if len(frame) == 0:
        raise DataError(f"the frame has no rows (columns {names}); give at least one label")
    if None not in roles.values():
        return from_long(**columns_by_role(frame, roles), abstain=abstain, gold=read_gold(gold))
    if roles["worker"] is not None or roles["label"] is not None or columns:
        raise _no_column(roles, f"among {names}")
    return _read_wide_frame(frame, roles["task"], index_names(data), abstain, gold)


def long_roles(names: Sequence[str], columns: Columns) -> tuple[str, str, str]:
    """The task, worker and label columns of files that are read batch by batch: one label a row."""
    roles = find_roles(names, ALIASES, columns)
    if None in roles.values():
        raise _no_column(roles, f"among {list(names)}, and labels that are streamed need one label a row")
    return str(roles["task"]), str(roles["worker"]), str(roles["label"])


def read_gold(gold: Any, tasks: Any = None, what: str = "gold answers") -> Gold | None:
    """Known answers as (tasks, labels); `tasks` names the rows when gold is a bare column."""
    if gold is None:
        return None
    if isinstance(gold, Mapping):
        return list(gold.keys()), list(gold.values())
    frame = as_frame(gold)
    if frame is not None:
        names = frame.columns
        task, label = find_column(names, "task", ALIASES["task"], None), find_column(names, "label", GOLD_ALIASES, None)
        if task is None or label is None:
            raise DataError(f"{what} need the columns task and label, found {names}; rename them")
        return column(frame, task), column(frame, label)
    answers = to_arrow(np.asarray(gold).reshape(-1), "gold label")
    if tasks is None or len(answers) != len(tasks):
        raise DataError(
            f"gold holds {len(answers)} answers without task names; give a frame task/label, a mapping, "
            "or one answer per row of the wide matrix"
        )
    return tasks, answers


def _read_matrix(data: Any, abstain: Abstain, gold: Any) -> Labels:
    if not sp.issparse(data):
        data = np.asarray(data)
    if data.ndim != 2:
        raise DataError(f"found an array of {data.ndim} dimensions; give a frame or a matrix (task, worker)")
    rows = np.arange(data.shape[0])
    return from_wide(data, abstain=abstain, gold=read_gold(gold, rows))


def _read_wide_frame(
    frame: Any, task: str | None, index: list[Any] | None, abstain: Abstain, gold: Any
) -> Labels:
    workers = [name for name in frame.columns if name != task]
    if len(workers) < 2:
        raise DataError(
            f"the columns {', '.join(map(str, frame.columns))} hold no labels; give task, worker and label, or a "
            "column for each of two workers or more"
        )
    matrix = _side_by_side([column(frame, name) for name in workers])
    if index is not None and len(set(index)) < len(index):  # of several frames put together: it names nothing
        index = None
    given = index if task is None else column(frame, task).to_pylist()
    names = np.arange(len(frame)) if given is None else objects(given)
    codes, distinct = encode(names, "task")
    if (codes < 0).any():
        raise no_name(int((codes < 0).argmax()), "task")
    if len(distinct) < len(names):
        where = "the index" if task is None else f"column {task!r}"
        raise DataError(f"{where} repeats a task in a wide frame; give one row per task, or a long frame")
    order = np.argsort(np.array(workers, object))  # workers are walked in the order of their names
    ordered = np.array(workers, object)[order]
    known = read_gold(gold, names)
    return from_wide(matrix[:, order], abstain=abstain, worker_names=ordered, task_names=names, gold=known)


def _side_by_side(arrays: list[pa.Array]) -> NDArray[Any]:
    """Columns of labels as one matrix; numbers of several types stay numbers, for gaps make whole ones decimals."""
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    whole = [array for array in arrays if pa.types.is_integer(array.type)]
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
    alike = len(kinds) <= 1 and not any(array.null_count for array in whole)
    if alike or (numbers and all(map(_exact_as_floats, whole))):
        return np.stack([array.to_numpy(zero_copy_only=False) for array in arrays], axis=1)
    return np.array([[None if is_gap(v) else _spelled(v) for v in array.to_pylist()] for array in arrays], object).T


def _exact_as_floats(array: pa.Array) -> bool:
    ends = pc.min_max(array).as_py().values()
    return all(end is None or abs(end) <= LARGEST_EXACT for end in ends)


def _spelled(value: Any) -> str:
    """A label as a word: 1, 1.0 and "1" are the same label."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_EXACT
    return str(int(value) if whole else value)


def _no_column(roles: Roles, where: str) -> DataError:
    lacking = [role for role, name in roles.items() if name is None]
    return DataError(
        f"no column for the {' and the '.join(lacking)} {where}; name it with columns={{{lacking[0]!r}: '…'}} "
        f"(--{lacking[0]} on the command line)"
    )
