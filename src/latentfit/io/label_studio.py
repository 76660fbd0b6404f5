"""Label Studio's JSON export → columns task, worker, label.

Read: a list of tasks, each with `id`, `annotations`, `predictions`; of a result its `from_name`, its `type`
(`choices` or `rating`) and its one value. A prediction is the label of a worker named by its model version.

Ignored, on purpose:

- `data`, `meta` and all else of a task but its id: Latentfit uses the labels, not the content;
- cancelled (skipped) annotations, drafts, annotations with an empty result: there is no label;
- results of other types (boxes, brushes, text, relations): they are not one label of a task;
- `lead_time`, `created_at`, `score`, `agreement`, reviews: how far to trust a label is what Latentfit learns;
- `to_name`, `origin`, and of `completed_by` all but one name, the email before the id.

Annotations marked `ground_truth` are gold, not votes: counting them twice would flatter whoever made them. A
result with several choices is left out, not joined: each combination would become a class of its own, with
which no other worker can half agree. What is not an ordinary vote is counted in a warning: predictions, because
annotators who saw them tend to repeat them; ground truth, because it decides tasks; results with several choices.
Names and labels become integers only if they are canonical (`integers_if_canonical`).
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from latentfit.core.errors import DataError, DataWarning, FileFormatError
from latentfit.io.source import probe
from latentfit.io.values import integers_if_canonical

_TYPES = ("choices", "rating")
_UNNAMED_MODEL = "prediction"


@dataclass(frozen=True)
class LabelStudioExport:
    """`labels` has columns task, worker, label; `gold` has task, label, or is None without ground truth."""

    labels: pa.Table
    gold: pa.Table | None
    control: str


class _Entry(NamedTuple):
    """An annotation or a prediction: somebody's results for a task."""

    task: str
    kind: Literal["person", "model", "truth"]
    holder: dict[str, Any]

    def results(self) -> Iterator[tuple[str, str, Any]]:
        """(control, type, value) of each result; relations between regions have none."""
        for result in _list(self.holder.get("result")):
            if isinstance(result, dict) and isinstance(result.get("value"), dict):
                kind = str(result.get("type"))
                yield str(result.get("from_name")), kind, result["value"].get(kind)


def read_label_studio(path: str | os.PathLike[str], *, control: str | None = None) -> LabelStudioExport:
    """Labels and ground truth of an export; `control` names the `from_name` when the export has several."""
    name = os.fspath(path)
    entries = [entry for place, task in enumerate(_tasks(name), 1) for entry in _entries(task, place, name)]
    control = _one_control(entries, control, name)
    tasks: list[str] = []
    workers: list[str] = []
    labels: list[str] = []
    gold: dict[str, str] = {}
    kinds: dict[str, str] = {}
    several: list[str] = []
    for entry in entries:
        where = f"{name}, task {entry.task}"
        answers = _answers(entry, control, where)
        if len(answers) > 1:
            several.append(where)
        if len(answers) != 1:
            continue
        label = answers[0]
        if entry.kind == "truth":
            if gold.setdefault(entry.task, label) != label:
                both = f"{gold[entry.task]!r} and {label!r}"
                raise DataError(f"{where} has two ground truths, {both}; keep one")
            continue
        worker = _worker(entry, where)
        if kinds.setdefault(worker, entry.kind) != entry.kind:
            raise DataError(f"{name} has a person and a model both named {worker!r}; rename the model")
        tasks.append(entry.task)
        workers.append(worker)
        labels.append(label)
    if not labels and several:
        raise DataError(
            f"{several[0]} has several answers by one worker in control {control!r}, which is not supported, and no "
            "annotation has one; use a single choice, or one control per question"
        )
    if not labels:
        raise DataError(f"{name} has nothing but ground truth for {control!r}; export the annotations too")
    _warn(name, several, sum(kinds[worker] == "model" for worker in workers), len(gold))
    table = _table({"task": tasks, "worker": workers, "label": labels}, name)
    truth = _table({"task": list(gold), "label": list(gold.values())}, name) if gold else None
    return LabelStudioExport(table, truth, control)


def _tasks(name: str) -> list[Any]:
    probe(name)
    try:
        with open(name, "rb") as stream:
            tasks = json.loads(stream.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FileFormatError(f"{name}, line {line}: the text is not UTF-8; export it again") from None
    except json.JSONDecodeError as error:
        found = f"line {error.lineno}: the text is not JSON ({error.msg})"
        raise FileFormatError(f"{name}, {found}; export it again") from None
    except RecursionError:
        raise FileFormatError(f"{name} nests too deep to be an export; export it again as JSON") from None
    except ValueError:  # a number of thousands of digits
        raise FileFormatError(f"{name} holds a number that cannot be read; export it again as JSON") from None
    if not isinstance(tasks, list):
        raise FileFormatError(f"{name} does not hold a list of tasks; export it from Label Studio as JSON")
    if not tasks:
        raise DataError(f"{name} holds an empty list of tasks; export a project with annotations")
    return tasks


def _entries(task: Any, place: int, name: str) -> Iterator[_Entry]:
    """Annotations and predictions of one task, except cancelled ones."""
    valid = isinstance(task, dict) and isinstance(task.get("annotations"), list) and _is_name(task.get("id"))
    if not valid:
        found = f"task {place} of the list has no id or no annotations"
        raise FileFormatError(f"{name}, {found}; export it as JSON, not as JSON-MIN")
    key = _word(task["id"])
    for annotation in task["annotations"]:
        if not isinstance(annotation, dict):
            found = f"task {key} has an annotation that is not an object"
            raise FileFormatError(f"{name}, {found}; export it again as JSON")
        if annotation.get("was_cancelled") is not True:
            yield _Entry(key, "truth" if annotation.get("ground_truth") is True else "person", annotation)
    for prediction in _list(task.get("predictions")):
        if isinstance(prediction, dict):  # else a bare id: exported without the predictions themselves
            yield _Entry(key, "model", prediction)


def _one_control(entries: list[_Entry], control: str | None, name: str) -> str:
    """The one control to read."""
    found = {(where, kind) for entry in entries for where, kind, _ in entry.results()}
    usable = sorted({where for where, kind in found if kind in _TYPES and control in (None, where)})
    if len(usable) > 1:
        listed = ", ".join(repr(where) for where in usable)
        raise DataError(f"{name} has answers for the controls {listed}; choose one with control= (--control)")
    if usable:
        return usable[0]
    wanted = "choices or rating" if control is None else f"choices or rating named {control!r}"
    there = ", ".join(f"{where!r} ({kind})" for where, kind in sorted(found))
    there = f"it has {there}" if there else "its annotations are empty or cancelled"
    raise DataError(f"{name} has no {wanted}; {there}")


def _answers(entry: _Entry, control: str, where: str) -> list[str]:
    """The answers of an entry: none if it is empty, several for a multiple choice."""
    answers: list[Any] = []
    for found, kind, value in entry.results():
        if found == control and kind in _TYPES:
            answers.extend(value if isinstance(value, list) else [value])
    if not all(_is_name(answer) for answer in answers):
        raise FileFormatError(f"{where} has an empty answer in control {control!r}; export it again")
    return [_word(answer) for answer in answers]


def _warn(name: str, several: list[str], predictions: int, gold: int) -> None:
    """Warn of everything that was not read as an ordinary vote."""
    if several:
        _notify(f"{name}: left out annotations with several choices ({len(several):,}, the first in "
              f"{several[0].removeprefix(f'{name}, ')}); a consensus needs one choice")  # fmt: skip
    if predictions:
        _notify(f"{name}: model predictions count as votes ({predictions:,}), and annotators who saw them may have "
              "repeated them; export without predictions if they were shown")  # fmt: skip
    if gold:
        _notify(f"{name}: annotations marked ground_truth are known answers, not votes ({gold:,}); remove the mark "
              "where that is not meant")  # fmt: skip


def _notify(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)


def _worker(entry: _Entry, where: str) -> str:
    if entry.kind == "model":
        version = entry.holder.get("model_version")
        return _word(version) if _is_name(version) else _UNNAMED_MODEL
    who = entry.holder.get("completed_by")
    if isinstance(who, dict):
        who = next((who[key] for key in ("email", "id") if _is_name(who.get(key))), None)
    if not _is_name(who):
        raise DataError(f"{where} has an annotation without completed_by; say who made it")
    return _word(who)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _table(columns: dict[str, list[str]], name: str) -> Any:
    try:
        arrays = [pa.chunked_array([pa.array(values, pa.string())]) for values in columns.values()]
    except UnicodeEncodeError:  # JSON can spell half a character
        found = f"{name} holds a name or label that is not Unicode text"
        raise FileFormatError(f"{found}; export it again") from None
    return pa.table([integers_if_canonical(array) for array in arrays], names=list(columns))
