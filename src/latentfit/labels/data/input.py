"""Whatever holds labels → `Labels`: long frames, wide frames, matrices with missing values, sparse matrices.

A frame is long when it has a task, a worker and a label column (by name or alias); every other frame is
wide: one row per task, one column per worker, a column called task, item or id, or one whose values all differ,
holding the ids. Anything else raises `DataError`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from latentfit.core.errors import DataError, DataWarning
from latentfit.core.frames import (
    Columns,
    Roles,
    as_frame,
    column,
    columns_by_role,
    find_column,
    find_roles,
    index_names,
)
from latentfit.core.names import LARGEST_EXACT, decoded, encode, is_missing, objects, to_arrow
from latentfit.labels.data import NO_ANSWER, Abstain, Bins, Gold, Labels, from_long, from_wide, no_name

ALIASES = {
    "task": (
        "task", "item", "task_id", "item_id", "question", "example", "question_id", "example_id", "hitid", "hit_id",
        "assignment:task_id", "_task_hash", "_input_hash", "id",
    ),
    "worker": (
        "worker", "annotator", "rater", "judge", "worker_id", "annotator_id", "labeler", "labeller", "workerid",
        "rater_id", "judge_id", "coder", "assignment:worker_id", "_annotator_id", "_session_id", "model",
    ),
    "label": ("label", "answer", "response", "vote", "annotation", "rating", "verdict", "score"),
}  # fmt: skip
"""Names of the columns in small letters, the most specific first; also those of MTurk, Toloka and Prodigy."""
PREFIXES = {"task": ("input:", "input."), "worker": (), "label": ("answer.", "output:")}
"""How the columns of MTurk and Toloka begin; one alone that begins so is taken."""
GOLD_ALIASES = (*ALIASES["label"], "truth", "gold", "true")
LEAST_ROWS = 20
"""Rows from which values that never repeat are names, and a column that shares no value with another is no worker's."""
LEAST_SHARED = 0.25
"""Least proportion of its values that a worker's column with more than `LEAST_ROWS` of them has in common with another:
numbers of tasks and scores have a few in common."""


def label_roles(names: Sequence[Any], columns: Columns) -> Roles:
    """The columns of task, worker and label, None where no column is one; those that the user named come first."""
    roles = find_roles(names, ALIASES, columns)
    column_names, given = [str(name) for name in names], columns or {}
    for role, prefixes in PREFIXES.items():
        matching = [name for name in column_names if name.lower().startswith(prefixes)] if prefixes else []
        if roles[role] is None and len(matching) > 1 and (roles["worker"] is not None or len(given) > 1):
            raise _several(role, matching)
        if roles[role] is None and len(matching) == 1:
            roles[role] = matching[0]
    if "_task_hash" in column_names and "answer" in column_names and not {"task", "label"} & set(given):
        roles |= {"task": "_task_hash", "label": "answer"}  # Prodigy asks whether the task's label is accepted
        return roles
    labels = [name for name in column_names if name.lower() in ALIASES["label"]]
    plain = "label" in given or str(roles["label"]).lower() == "label"
    if len(labels) > 1 and None not in roles.values() and not plain:
        raise _several("label", labels)  # in files of judges "answer" is often what is judged
    return roles


def _several(role: str, names: list[str]) -> DataError:
    return DataError(
        f"the columns {', '.join(names)} could all be the {role} column; name one with columns={{{role!r}: "
        f"{names[0]!r}}} (--{role} {quote(names[0])})"
    )


def is_long(data: Any, columns: Columns = None) -> bool:
    """Whether `data` is a frame with one label per row."""
    frame = as_frame(data)
    if frame is None:
        return False
    return None not in label_roles(frame.columns, columns).values()  # a column may have no name


def read_labels(
    data: Any, *, columns: Columns = None, abstain: Abstain = NO_ANSWER, gold: Any = None, bins: Bins = None
) -> Labels:
    """Labels of any accepted kind; `gold` is a frame task/label, a mapping, or one answer per row of a matrix."""
    if isinstance(data, Labels):
        if gold is not None:
            raise DataError("gold cannot be added to coded `Labels`; give it when the labels are read")
        return data
    frame = as_frame(data)
    if frame is None:
        return _read_matrix(data, abstain, gold, bins)
    names, roles = frame.columns, label_roles(frame.columns, columns)
    if len(frame) == 0:
        raise DataError(f"the frame has no rows (columns {names}); give at least one label")
    if None not in roles.values():
        return from_long(**columns_by_role(frame, roles), abstain=abstain, gold=read_gold(gold), bins=bins)
    if roles["worker"] is not None or roles["label"] is not None:
        raise _no_column(roles, f"among {names}")
    return _read_wide_frame(frame, roles["task"], index_names(data), abstain, gold, bins)


def long_roles(names: Sequence[str], columns: Columns) -> tuple[str, str, str]:
    """The task, worker and label columns of files that are read batch by batch: one label per row."""
    roles = label_roles(names, columns)
    if None in roles.values():
        raise _no_column(roles, f"among {list(names)}, and labels that are streamed need one label per row")
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


def _read_matrix(data: Any, abstain: Abstain, gold: Any, bins: Bins) -> Labels:
    if not sp.issparse(data):
        data = np.asarray(data)
    if data.ndim != 2:
        raise DataError(
            f"labels must be a frame or a matrix (task, worker), got an array of {data.ndim} dimensions; reshape it"
        )
    rows = np.arange(data.shape[0])
    return from_wide(data, abstain=abstain, gold=read_gold(gold, rows), bins=bins)


def _read_wide_frame(
    frame: Any, task: str | None, index: list[Any] | None, abstain: Abstain, gold: Any, bins: Bins
) -> Labels:
    arrays = {name: column(frame, name) for name in frame.columns}
    if index is not None and len(set(index)) < len(index):  # of several frames put together: it names nothing
        index = None
    task, left_out = _row_names(arrays, task, index is not None)
    workers = [name for name in frame.columns if name != task and name not in left_out]
    if len(workers) < 2:
        raise DataError(
            f"the columns {', '.join(map(str, frame.columns))} hold no labels; give task, worker and label, or a "
            "column for each of two workers or more"
        )
    _check_workers({name: arrays[name] for name in workers})
    matrix = _side_by_side([arrays[name] for name in workers])
    given = index if task is None else arrays[task].to_pylist()
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
    return from_wide(matrix[:, order], abstain=abstain, worker_names=ordered, task_names=names, gold=known, bins=bins)


def _row_names(arrays: dict[Any, pa.Array], task: str | None, named: bool) -> tuple[Any, list[Any]]:
    """The column that names the tasks of a wide frame, and others in which all values differ: not labels.

    Without a known name the first such column is the task, unless the rows have names already.
    """
    unique = [name for name, array in arrays.items() if name != task and _all_differ(array)]
    if task is None and not named and unique:
        task = unique.pop(0)
        warnings.warn(
            f"every value of column {task!r} is different, so it is taken as the task; give columns={{'task': …}} "
            "(--task) if another column names the tasks",
            DataWarning,
            stacklevel=5,
        )
    if unique:
        warnings.warn(
            f"every value of column {unique[0]!r} is different, so it holds no labels and is left out"
            + (f", as are {len(unique) - 1} more" if len(unique) > 1 else "")
            + f"; drop it (--drop {quote(str(unique[0]))}) to read the file without this note",
            DataWarning,
            stacklevel=5,
        )
    return task, unique


def _all_differ(array: pa.Array) -> bool:
    """Whether a column of some length has no missing and no repeated value."""
    if len(array) < LEAST_ROWS or array.null_count or pa.types.is_nested(array.type):
        return False
    return bool(pc.count_distinct(decoded(array)).as_py() == len(array))


def _check_workers(arrays: dict[Any, pa.Array]) -> None:
    """Refuse a wide frame with a column that shares no value with any other, or few of many: workers say the same."""
    label_sets = {name: {_spelled(value) for value in _values(array)} for name, array in arrays.items()}
    if len(next(iter(arrays.values()))) < LEAST_ROWS:
        return
    n_columns_with = Counter(value for values in label_sets.values() for value in values)
    for name, values in label_sets.items():
        shared = sum(n_columns_with[value] > 1 for value in values)
        if values and shared <= (len(values) * LEAST_SHARED if len(values) > LEAST_ROWS else 0):
            few = f"only {shared} of its {len(values)} values" if shared else "no value"
            raise DataError(
                f"column {name!r} shares {few} with another column, so it is no worker of a wide table; if a row is "
                "one label, name the columns with columns={'task': …, 'worker': …, 'label': …} (--task, --worker, "
                f"--label); if a row is a task, name its id (--task) and leave the column out (--drop "
                f"{quote(str(name))})"
            )


def _values(array: pa.Array) -> list[Any]:
    return [value for value in pc.unique(decoded(array)).to_pylist() if not is_missing(value)]


def _side_by_side(arrays: list[pa.Array]) -> NDArray[Any]:
    """Columns of labels as one matrix; numbers of several types stay numbers (missing values make integers floats)."""
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    integers = [array for array in arrays if pa.types.is_integer(array.type)]
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)
    alike = len(kinds) <= 1 and not any(array.null_count for array in integers)
    if alike or (numbers and all(map(_exact_as_floats, integers))):
        return np.stack([array.to_numpy(zero_copy_only=False) for array in arrays], axis=1)
    return np.array([[None if is_missing(v) else _spelled(v) for v in array.to_pylist()] for array in arrays], object).T


def _exact_as_floats(array: pa.Array) -> bool:
    ends = pc.min_max(array).as_py().values()
    return all(end is None or abs(end) <= LARGEST_EXACT for end in ends)


def _spelled(value: Any) -> str:
    """A label as text: 1, 1.0 and "1" are the same label."""
    is_integer = isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_EXACT
    return str(int(value) if is_integer else value)


def _no_column(roles: Roles, where: str) -> DataError:
    lacking = [role for role, name in roles.items() if name is None]
    return DataError(
        f"no column for the {' and the '.join(lacking)} {where}; name it with columns={{{lacking[0]!r}: '…'}} "
        f"(--{lacking[0]} on the command line)"
    )
