"""Outputs: what a round trip gives back, and that a file is whole or not there."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latentfit.core.errors import DataError
from latentfit.io import write as write_module
from latentfit.io.read import read_columns
from latentfit.io.write import atomic_path, write_columns

HOSTILE = [
    'he said "no"',
    '"',
    '""',
    "two\nlines",
    "two\r\nlines",
    "\r",
    "a,b",
    "a;b\tc",
    "=cmd()",
    "+1",
    "@x",
    "-",
    " space ",
    "007",
    "NA",
    "null",
    "\ufeffmark",
    "nul\x00inside",
    "🐈‍⬛",
    "日本語",
    "\\",
    "'",
    "x" * 1_000_000,
    '","' * 1000,
]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("format", ["csv", "parquet", "jsonl"])
def test_round_trip_of_hostile_strings(format: Any) -> None:
    table = pa.table({'na"me, x': HOSTILE, "n": list(range(len(HOSTILE)))})
    write_columns(table, f"a.{format}", format=format)
    assert read_columns(f"a.{format}").equals(table)
    assert os.listdir() == [f"a.{format}"]


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("word", [word for word in HOSTILE if word not in ("", "-")])
def test_round_trip_of_one_word_alone(word: str, format: Any) -> None:
    table = pa.table({"word": [word, "x"]})
    write_columns(table, f"a.{format}", format=format)
    assert read_columns(f"a.{format}").equals(table)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(TEXT, st.none() | TEXT), min_size=1, max_size=8))
def test_round_trip_of_any_text(rows: list[tuple[str, str | None]]) -> None:
    """As text: a column of canonical integers is read as integers, by the rule."""
    table = pa.table({"a": [r[0] for r in rows], "b": pa.array([r[1] for r in rows], pa.string())})
    for format in ("csv", "jsonl"):
        write_columns(table, f"any.{format}", format=format)  # type: ignore[arg-type]
        again = read_columns(f"any.{format}").to_pydict()
        assert {key: [None if v is None else str(v) for v in again.get(key, [None] * len(rows))] for key in "ab"} == (
            table.to_pydict()
        )


def test_csv_is_plain() -> None:
    table = pa.table({"task": ["t1", None], "label": pa.array(["cat", "dog"]).dictionary_encode(), "p": [0.1, 1 / 3]})
    write_columns(table, "a.csv", format="csv")
    assert Path("a.csv").read_text() == "task,label,p\nt1,cat,0.1\n,dog,0.3333333333333333\n"
    write_columns(pa.table({"label": ["=cmd()", "a,b"], "n": [1, 2]}), "a.csv", format="csv")
    assert Path("a.csv").read_text() == 'label,n\n"=cmd()",1\n"a,b",2\n'


@pytest.mark.parametrize("values", [["a", None, "b"], [1, None, 2], [None, None]])
def test_a_gap_in_the_only_column_stays_a_row(values: list[Any]) -> None:
    write_columns(pa.table({"x": values}), "a.csv", format="csv")
    assert read_columns("a.csv").to_pydict() == {"x": values}


def test_empty_text_in_the_only_column_stays_a_row() -> None:
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        write_columns(pa.table({"x": pa.array(["a", "", "b"], kind)}), "a.csv", format="csv")
        assert read_columns("a.csv").to_pydict() == {"x": ["a", None, "b"]}


def test_empty_text_and_null_are_one_in_csv_only() -> None:
    table = pa.table({"x": ["", None, "y"], "n": [1, 2, 3]})
    for format in ("parquet", "jsonl"):
        write_columns(table, f"a.{format}", format=format)  # type: ignore[arg-type]
        assert read_columns(f"a.{format}").equals(table)
    write_columns(table, "a.csv", format="csv")
    assert read_columns("a.csv").to_pydict() == {"x": [None, None, "y"], "n": [1, 2, 3]}


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="this pyarrow has no views")
def test_views_are_text_or_refused_like_bytes() -> None:
    words = pa.array(["x", "y, z", None])
    text = pa.table({"a": words.cast(pa.string_view()), "n": [1, 2, 3]})
    for format in ("csv", "jsonl", "parquet"):
        write_columns(text, f"a.{format}", format=format)  # type: ignore[arg-type]
        assert read_columns(f"a.{format}").to_pydict() == {"a": ["x", "y, z", None], "n": [1, 2, 3]}
    raw = pa.table({"a": words.cast(pa.binary()).cast(pa.binary_view())})
    for format in ("csv", "jsonl"):
        with pytest.raises(DataError, match=r"column 'a' holds binary; write it as parquet"):
            write_columns(raw, "b", format=format)  # type: ignore[arg-type]


def test_numbers_come_back_to_the_last_bit() -> None:
    values = [0.1, 1 / 3, 1e-300, -5e-324, 1.7976931348623157e308, 123456789.123456789]
    write_columns(pa.table({"x": values}), "a.csv", format="csv")
    assert [float(text) for text in read_columns("a.csv").to_pydict()["x"]] == values


def test_not_a_number_is_an_empty_field() -> None:
    table = pa.table({"n": [1, 2, 3], "x": [float("nan"), None, 0.5], "t": ["nan", "b", "c"]})
    write_columns(table, "a.csv", format="csv")
    assert Path("a.csv").read_text() == "n,x,t\n1,,nan\n2,,b\n3,0.5,c\n"
    write_columns(table.select(["x"]), "a.csv", format="csv")
    assert read_columns("a.csv").to_pydict() == {"x": [None, None, "0.5"]}


def test_json_lines_are_json() -> None:
    table = pa.table({"x": [float("nan"), float("inf"), 0.5], "t": ["é", None, "\n"], "b": [True, False, None]})
    write_columns(table, "a.jsonl", format="jsonl")
    lines = [json.loads(line) for line in Path("a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [
        {"x": None, "t": "é", "b": True},
        {"x": None, "t": None, "b": False},
        {"x": 0.5, "t": "\n", "b": None},
    ]


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
def test_compressed(name: str) -> None:
    table = pa.table({"x": ["a", "b"]})
    write_columns(table, name, format=name.split(".")[1])  # type: ignore[arg-type]
    assert gzip.decompress(Path(name).read_bytes())
    assert read_columns(name).equals(table)


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_columns(pa.table({"x": ["a", "é"]}), "-", format="csv")
    assert capfdbinary.readouterr().out == "x\na\né\n".encode()
    assert os.listdir() == []


def test_refusals() -> None:
    with pytest.raises(DataError) as caught:
        write_columns(pa.table({"x": [[1]]}), "a.csv", format="csv")
    assert str(caught.value) in (
        "column 'x' holds list<item: int64>; write it as parquet, or as text, numbers or dates",
        "column 'x' holds list<element: int64>; write it as parquet, or as text, numbers or dates",
    )
    with pytest.raises(DataError) as caught:
        write_columns(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), "a.csv", format="csv")
    assert str(caught.value) == "the table for a.csv has a column name twice; make the names differ"
    with pytest.raises(DataError) as caught:
        write_columns(pa.table({"x": [1]}), "a.xls", format="xls")  # type: ignore[arg-type]
    assert str(caught.value) == "format must be 'csv', 'parquet' or 'jsonl', got 'xls'"
    assert os.listdir() == []


# Whole or not there ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_old_file_and_nothing_else(error: type[BaseException]) -> None:
    Path("a.txt").write_text("old")

    def fail() -> None:
        with atomic_path("a.txt") as part:
            part.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert Path("a.txt").read_text() == "old"
    assert os.listdir() == ["a.txt"]


def test_a_full_disk_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_columns(pa.table({"x": [1]}), "a.csv", format="csv")
    assert os.listdir() == []


def test_bytes_are_synced_before_the_name_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    replace = os.replace
    monkeypatch.setattr(write_module, "_sync", lambda path: steps.append("sync " + ("." in path.name) * "file"))
    monkeypatch.setattr(os, "replace", lambda a, b: (steps.append("rename"), replace(a, b)))
    os.mkdir("folder")
    with atomic_path("folder/a.txt") as part:
        assert part.parent == Path("folder").resolve()
        part.write_text("new")
    assert steps == ["sync file", "rename", "sync "]


def test_mode_and_links_are_kept() -> None:
    Path("real.txt").write_text("old")
    os.chmod("real.txt", 0o640)
    os.symlink("real.txt", "link.txt")
    with atomic_path("link.txt") as part:
        part.write_text("new")
    assert os.path.islink("link.txt")
    assert Path("real.txt").read_text() == "new"
    assert stat.S_IMODE(os.stat("real.txt").st_mode) == 0o640


def test_a_new_file_has_the_usual_mode() -> None:
    Path("usual").touch()
    with atomic_path("a.txt") as part:
        part.write_text("new")
    assert os.stat("a.txt").st_mode == os.stat("usual").st_mode


def test_a_device_is_not_replaced() -> None:
    write_columns(pa.table({"x": [1]}), "/dev/null", format="csv")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_places_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkdir("folder")
    with pytest.raises(IsADirectoryError) as folder, atomic_path("folder"):
        pass
    assert str(folder.value) == "folder is a folder; name a file in it"
    with pytest.raises(FileNotFoundError) as missing, atomic_path("nowhere/a.csv"):
        pass
    place = Path("nowhere").resolve()
    assert str(missing.value) == f"the folder {place} of nowhere/a.csv does not exist; create it first"

    def fail_with(error: OSError) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(os, "open", fail)

    fail_with(PermissionError(13, "Permission denied"))
    with pytest.raises(PermissionError) as denied, atomic_path("a.csv"):
        pass
    assert str(denied.value) == "the folder of a.csv may not be written; choose another one"
    fail_with(OSError(30, "Read-only file system"))
    with pytest.raises(OSError) as read_only, atomic_path("a.csv"):
        pass
    assert str(read_only.value) == "a.csv cannot be written: Read-only file system; choose another place"
