"""Label Studio exports: what is read, what is ignored, and the words of every refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latentfit.core.errors import DataError, DataWarning, FileFormatError
from latentfit.io.label_studio import LabelStudioExport, read_label_studio

pytestmark = pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")  # one test below reads them


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def result(label: Any, control: str = "topic", kind: str = "choices") -> dict[str, Any]:
    value = {"choices": [label] if isinstance(label, str) else label} if kind == "choices" else {kind: label}
    return {
        "id": "x1",
        "from_name": control,
        "to_name": "text",
        "type": kind,
        "value": value,
        "origin": "manual",
    }


def annotation(who: Any, *results: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": 9,
        "completed_by": who,
        "result": list(results),
        "was_cancelled": False,
        "lead_time": 3.2,
        **more,
    }


def task(key: Any, *annotations: Any, predictions: Any = ()) -> dict[str, Any]:
    data = {"text": "…"}
    return {"id": key, "data": data, "annotations": list(annotations), "predictions": list(predictions)}


def prediction(version: Any, *results: Any) -> dict[str, Any]:
    return {"model_version": version, "result": list(results), "score": 0.9}


def read(tasks: Any, **options: Any) -> LabelStudioExport:
    Path("e.json").write_text(json.dumps(tasks))
    return read_label_studio("e.json", **options)


def refusal(kind: type[Exception], data: Any, **options: Any) -> str:
    Path("e.json").write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    with pytest.raises(kind) as caught:
        read_label_studio("e.json", **options)
    assert type(caught.value) is kind
    return str(caught.value)


def rows(export: LabelStudioExport) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in export.labels.to_pylist()]


# What is read ------------------------------------------------------------------------------------------


def test_choices_by_people_and_models() -> None:
    export = read(
        [
            task(1, annotation(7, result("cat")), annotation({"id": 8, "email": "b@x.org"}, result("dog"))),
            task(
                2,
                annotation({"id": 9, "first_name": "Eve"}, result("cat")),
                predictions=[prediction("v2", result("cat")), prediction(None, result("dog")), 17],
            ),
        ]
    )
    assert export.labels.column_names == ["task", "worker", "label"]
    assert rows(export) == [
        (1, "7", "cat"),
        (1, "b@x.org", "dog"),
        (2, "9", "cat"),
        (2, "v2", "cat"),
        (2, "prediction", "dog"),
    ]
    assert export.gold is None
    assert export.control == "topic"


def test_integers_by_the_rule_of_csv() -> None:
    export = read([task("5", annotation(1, result("0"))), task("6", annotation(2, result("1")))])
    assert rows(export) == [(5, 1, 0), (6, 2, 1)]
    assert rows(read([task("05", annotation(1, result("00")))])) == [("05", 1, "00")]


def test_ratings() -> None:
    export = read([task(1, annotation(1, result(4, "stars", "rating")), annotation(2, result(5.0, "stars", "rating")))])
    assert rows(export) == [(1, 1, 4), (1, 2, 5)]


def test_ground_truth_is_gold_and_no_vote() -> None:
    export = read(
        [
            task(1, annotation(1, result("cat")), annotation(None, result("dog"), ground_truth=True)),
            task(2, annotation(1, result("dog"))),
            task(
                3,
                annotation(2, result("cat"), ground_truth=True),
                annotation(3, result("cat"), ground_truth=True),
            ),
        ]
    )
    assert rows(export) == [(1, 1, "cat"), (2, 1, "dog")]
    assert export.gold is not None
    assert export.gold.to_pydict() == {"task": [1, 3], "label": ["dog", "cat"]}


def test_what_is_ignored() -> None:
    box = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["car"]}}
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    export = read(
        [
            task(
                1,
                annotation(1, result("cat"), was_cancelled=True),
                annotation(2, result("dog"), box, relation),
            ),
            task(2, annotation(3), annotation(None), annotation(4, result([]))),
            task(3),
            {"id": 4, "annotations": [annotation(5, result("cat"))], "drafts": [{"result": [result("x")]}]},
        ]
    )
    assert rows(export) == [(1, 2, "dog"), (4, 5, "cat")]


def test_one_of_several_controls() -> None:
    tasks = [
        task(1, annotation(1, result("cat"), result("good", "mood"))),
        task(2, annotation(1, result("dog"))),
    ]
    assert rows(read(tasks, control="mood")) == [(1, 1, "good")]
    assert rows(read(tasks, control="topic")) == [(1, 1, "cat"), (2, 1, "dog")]
    assert refusal(DataError, tasks) == (
        "e.json has answers for the controls 'mood', 'topic'; choose one with control= (--control)"
    )


def test_several_choices_elsewhere_do_not_matter() -> None:
    tasks = [task(1, annotation(1, result("cat"), result(["a", "b"], "tags")))]
    assert rows(read(tasks, control="topic")) == [(1, 1, "cat")]
    assert refusal(DataError, tasks) == (
        "e.json has answers for the controls 'tags', 'topic'; choose one with control= (--control)"
    )


def test_byte_order_mark_and_hostile_words() -> None:
    words = ['"', "a\nb", "=cmd()", "🐈", "x" * 1_000_000]
    tasks = [task(1, *(annotation(f"w{i}", result(word)) for i, word in enumerate(words)))]
    Path("e.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(tasks, ensure_ascii=False).encode())
    assert [row[2] for row in rows(read_label_studio(Path("e.json")))] == words


# What is refused ---------------------------------------------------------------------------------------

SEVERAL = (
    "e.json, task 7 has several answers by one worker in control 'topic', which is not supported, and no annotation "
    "has one; use a single choice, or one control per question"
)
NO_TASK = "e.json, task 1 of the list has no id or no annotations; export it as JSON, not as JSON-MIN"


@pytest.mark.parametrize(
    ("kind", "data", "sentence"),
    [
        (DataError, [task(7, annotation(1, result(["a", "b"])))], SEVERAL),
        (DataError, [task(7, annotation(1, result("a"), result("b")))], SEVERAL),
        (DataError, [task(7, predictions=[prediction("v", result(["a", "b"]))])], SEVERAL),
        (
            DataError,
            [task(7, annotation(None, result("a")))],
            "e.json, task 7 has an annotation without completed_by; say who made it",
        ),
        (
            DataError,
            [task(7, annotation({"first_name": "Ann"}, result("a")))],
            "e.json, task 7 has an annotation without completed_by; say who made it",
        ),
        (
            DataError,
            [task(7, annotation(1, result("a")), predictions=[prediction("1", result("a"))])],
            "e.json has a person and a model both named '1'; rename the model",
        ),
        (
            DataError,
            [
                task(
                    7,
                    annotation(1, result("a"), ground_truth=True),
                    annotation(2, result("b"), ground_truth=True),
                ),
                task(8, annotation(1, result("a"))),
            ],
            "e.json, task 7 has two ground truths, 'a' and 'b'; keep one",
        ),
        (
            DataError,
            [task(7, annotation(1, result("a"), ground_truth=True))],
            "e.json has nothing but ground truth for 'topic'; export the annotations too",
        ),
        (
            DataError,
            [task(7, annotation(1, result("a", "box", "textarea")))],
            "e.json has no choices or rating; it has 'box' (textarea)",
        ),
        (DataError, [task(7)], "e.json has no choices or rating; its annotations are empty or cancelled"),
        (DataError, [], "e.json holds an empty list of tasks; export a project with annotations"),
        (FileFormatError, {"id": 1}, "e.json does not hold a list of tasks; export it from Label Studio as JSON"),
        (FileFormatError, [{"id": 1, "text": "…", "topic": "cat"}], NO_TASK),
        (FileFormatError, [{"annotations": []}], NO_TASK),
        (FileFormatError, [7], NO_TASK),
        (
            FileFormatError,
            [task(7, 3)],
            "e.json, task 7 has an annotation that is not an object; export it again as JSON",
        ),
        (
            FileFormatError,
            [task(7, annotation(1, result([None])))],
            "e.json, task 7 has an empty answer in control 'topic'; export it again",
        ),
        (
            FileFormatError,
            [task(7, annotation(1, result("\ud800")))],
            "e.json holds a name or label that is not Unicode text; export it again",
        ),
        (FileFormatError, b"", "e.json, line 1: the text is not JSON (Expecting value); export it again"),
        (
            FileFormatError,
            b'[\n{"id": 1,\n"annotations": [',
            "e.json, line 3: the text is not JSON (Expecting value); export it again",
        ),
        (FileFormatError, b'[\n"\xff"]', "e.json, line 2: the text is not UTF-8; export it again"),
        (FileFormatError, b"[" * 200_000, "e.json nests too deep to be an export; export it again as JSON"),
        (
            FileFormatError,
            b"[" + b"9" * 10_000 + b"]",
            "e.json holds a number that cannot be read; export it again as JSON",
        ),
    ],
)
def test_every_refusal(kind: type[Exception], data: Any, sentence: str) -> None:
    assert refusal(kind, data) == sentence


def test_unknown_control() -> None:
    tasks = [task(1, annotation(1, result("cat")))]
    assert refusal(DataError, tasks, control="tpoic") == (
        "e.json has no choices or rating named 'tpoic'; it has 'topic' (choices)"
    )


def test_files_that_cannot_be_opened() -> None:
    with pytest.raises(FileNotFoundError, match=r"the file nowhere.json does not exist; check the path"):
        read_label_studio("nowhere.json")
    with pytest.raises(IsADirectoryError, match=r"\. is a folder; name a file in it"):
        read_label_studio(".")


@pytest.mark.parametrize("odd", [None, 1, "x", [], {}, [1], {"a": 1}, True])
@pytest.mark.parametrize("field", ["annotations", "predictions", "result", "value", "completed_by", "from_name"])
def test_odd_values_give_a_table_or_a_sentence(field: str, odd: Any) -> None:
    entry = result("cat")
    vote = annotation(1, entry)
    item = task(1, vote, predictions=[prediction("v", result("cat"))])
    for holder in (item, vote, entry):
        if field in holder:
            holder[field] = odd
    try:
        rows_read = read([item, task(2, annotation(2, result("dog")))]).labels.num_rows
    except (DataError, FileFormatError) as error:
        rows_read = 1
        text = str(error)
    else:
        text = "e.json"
    assert rows_read
    assert text.startswith("e.json")


# What is said ------------------------------------------------------------------------------------------


def test_one_double_choice_does_not_refuse_the_export_and_is_counted() -> None:
    two = annotation(2, result(["a", "b"]))
    tasks = [task(1, annotation(1, result("a")), two), task(2, annotation(1, result("b")))]
    with pytest.warns(DataWarning, match=r"several choices \(1, the first in task 1\)"):
        assert rows(read(tasks)) == [(1, 1, "a"), (2, 1, "b")]


def test_predictions_and_ground_truth_are_counted_in_warnings() -> None:
    tasks = [
        task(1, annotation(1, result("a")), annotation(2, result("a"), ground_truth=True)),
        task(2, annotation(1, result("b")), predictions=[prediction("v", result("b"))]),
    ]
    with pytest.warns(DataWarning) as told:
        export = read(tasks)
    said = [str(one.message) for one in told]
    assert any("model predictions count as votes (1)" in one for one in said)
    assert any("ground_truth are known answers, not votes (1)" in one for one in said)
    assert len(rows(export)) == 3
    assert export.gold is not None


def test_an_export_of_plain_votes_gives_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    read([task(1, annotation(1, result("a")), annotation(2, result("b")))])
    assert not recwarn.list
