"""Files of every kind, whole and broken: what comes back, and the very words of every refusal."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from latentfit.core.errors import DataError, DataWarning, FileFormatError, LatentfitError
from latentfit.io import source as source_module
from latentfit.io.read import read_columns
from latentfit.io.scan import scan, whole
from latentfit.io.write import write_columns

OR_UTF_16 = ", or give encoding='utf-16' (--encoding utf-16)"
OR_ENCODING = ", or give its encoding (--encoding latin-1)"
GOOD = b"task,worker,label\nt1,ann,cat\nt1,bob,dog\nt2,ann,cat\n"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def put(name: str, data: bytes) -> str:
    Path(name).write_bytes(data)
    return name


def read(name: str, data: bytes, **options: Any) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = read_columns(put(name, data), **options).to_pydict()
    return columns


def refusal(kind: type[Exception], name: str, data: bytes, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        read_columns(put(name, data), **options)
    assert type(caught.value) is kind
    return str(caught.value)


# What comes back ---------------------------------------------------------------------------------------

WANTED = {"task": ["t1", "t1", "t2"], "worker": ["ann", "bob", "ann"], "label": ["cat", "dog", "cat"]}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "A.CSV", "a.tsv", "a.tsv.gz"])
def test_text_formats(name: str) -> None:
    data = GOOD.replace(b",", b"\t") if ".tsv" in name else GOOD
    assert read(name, gzip.compress(data, mtime=0) if name.endswith(".gz") else data) == WANTED


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_lines(name: str) -> None:
    data = b'{"task": 1, "label": "cat"}\n\n{"task": 2, "other": true}\n'
    table = read(name, gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    assert table == {"task": [1, 2], "label": ["cat", None], "other": [None, True]}


def test_json_lines_keep_the_users_words() -> None:
    data = b'{"id": "007", "day": "2020-01-01", "x": 1.5}\n{"id": "08", "day": null, "x": 2}\n'
    assert read("a.jsonl", data) == {"id": ["007", "08"], "day": ["2020-01-01", None], "x": [1.5, 2.0]}
    assert read("a.jsonl", b"\xef\xbb\xbf" + data, columns=["x", "day"]) == {
        "x": [1.5, 2.0],
        "day": ["2020-01-01", None],
    }


def late(first: bytes, last: bytes) -> bytes:
    """Ten megabytes of lines, so that the last is parsed apart from the first."""
    return b'{"a": %b}\n' % first + (b'{"b": "' + b"x" * 400_000 + b'"}\n') * 25 + b'{"a": %b}\n' % last


@pytest.mark.parametrize(
    ("first", "last", "read_as"),
    [
        (b"1", b"1.5", [1.0, 1.5]),
        (b"9007199254740993", b"0.5", [9007199254740992.0, 0.5]),
        (b"null", b"true", [None, True]),
        (b'"2020-01-01"', b'"x"', ["2020-01-01", "x"]),
        (b'{"k": 1}', b'{"j": 1}', [{"k": 1, "j": None}, {"k": None, "j": 1}]),
        (b'"x"', b'"y", "late": 1', ["x", "y"]),
    ],
)
def test_json_lines_in_pieces_are_those_of_memory(first: bytes, last: bytes, read_as: list[Any]) -> None:
    whole = read("a.jsonl", late(first, last))
    assert [whole["a"][0], whole["a"][-1]] == read_as
    batches = list(scan("a.jsonl").batches())
    assert len(batches) > 1
    assert pa.Table.from_batches(batches).to_pydict() == whole
    chosen = scan("a.jsonl", columns=["a"]).batches()
    assert pa.Table.from_batches(chosen).to_pydict() == {"a": whole["a"]}


@pytest.mark.parametrize(
    ("first", "last", "found", "known"),
    [
        (b'"x"', b"1", "a number", "text"),
        (b"1", b'{"k": 1}', "an object", "a number"),
        (b"[1]", b"1", "a number", "a list"),
    ],
)
def test_json_types_that_change_far_down(first: bytes, last: bytes, found: str, known: str) -> None:
    sentence = f"a.jsonl, line 27, column 'a': found {found} where line 1 has {known}; use one type in a column"
    assert refusal(FileFormatError, "a.jsonl", late(first, last)) == sentence
    with pytest.raises(FileFormatError) as caught:
        list(scan("a.jsonl").batches())
    assert str(caught.value) == sentence


def test_parquet_keeps_types_and_selects() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int32()), "b": ["007", ""], "c": [0.5, 1.5]})
    pq.write_table(table, "a.parquet")
    assert read_columns("a.parquet").equals(table)
    assert read_columns(Path("a.parquet"), columns=["c", "a"]).column_names == ["c", "a"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD)))
    assert read_columns("-").to_pydict() == WANTED
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1\n")))
    with pytest.raises(FileFormatError, match=r"standard input, line 2: expected 2 fields, found 1"):
        read_columns("-")


def test_a_named_pipe_is_read_once() -> None:
    os.mkfifo("pipe.csv")
    writer = threading.Thread(target=lambda: Path("pipe.csv").write_bytes(GOOD))
    writer.start()
    assert read_columns("pipe.csv").to_pydict() == WANTED
    writer.join()


def test_columns_come_in_the_order_asked_for() -> None:
    table = read_columns(put("a.csv", GOOD), columns=["label", "task", "label"])
    assert table.column_names == ["label", "task"]
    assert table.to_pydict()["label"] == WANTED["label"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["0", "1", "-3"], [0, 1, -3]),
        (["1", "", "2"], [1, None, 2]),
        (['"1"', '""', '"2"'], [1, None, 2]),
        (["9223372036854775807"], [9223372036854775807]),
        (["-9223372036854775808"], [-9223372036854775808]),
        (["9223372036854775808"], ["9223372036854775808"]),
        (["007", "1"], ["007", "1"]),
        (["+7", "1"], ["+7", "1"]),
        ([" 7", "1"], [" 7", "1"]),
        (["7 ", "1"], ["7 ", "1"]),
        (["-0", "1"], ["-0", "1"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["1e3", "2"], ["1e3", "2"]),
        (["0x10"], ["0x10"]),
        (["١"], ["١"]),
        (["true", "false"], ["true", "false"]),
        (["2020-01-01"], ["2020-01-01"]),
        (["NA", "null", "nan", "N/A", ""], ["NA", "null", "nan", "N/A", None]),
        (["", ""], [None, None]),
    ],
)
def test_csv_types(cells: list[str], expected: list[Any]) -> None:
    data = "id,x\n" + "".join(f"r,{cell}\n" for cell in cells)
    assert read("a.csv", data.encode())["x"] == expected


def test_one_late_odd_value_keeps_the_whole_column_text() -> None:
    data = b"x\n" + b"".join(b"%d\n" % i for i in range(1, 300_000)) + b"007\n"
    column = read("a.csv", data)["x"]
    assert column[0] == "1"
    assert column[-1] == "007"


def test_all_empty_column_is_text() -> None:
    assert read_columns(put("a.csv", b"a,b\n1,\n2,\n")).schema.field("b").type == pa.string()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_byte_order_mark_blank_lines_and_line_ends(end: bytes) -> None:
    lines = [b"\xef\xbb\xbftask,label", b"", b"1,x", b"", b"2,y"]
    assert read("a.csv", end.join(lines)) == {"task": [1, 2], "label": ["x", "y"]}


def test_quotes_and_line_breaks_in_cells() -> None:
    data = b'a,b\n"x\ny","he said ""no"""\n"1,2",=cmd()\n'
    assert read("a.csv", data) == {"a": ["x\ny", "1,2"], "b": ['he said "no"', "=cmd()"]}


def test_line_breaks_in_cells_over_many_blocks() -> None:
    rows = 150_000
    data = b"n,text\n" + b"".join(b'%d,"a\nb,\nc"\n' % i for i in range(rows))
    table = read("a.csv", data)
    assert table["n"] == list(range(rows))
    assert set(table["text"]) == {"a\nb,\nc"}


def test_a_very_wide_table() -> None:
    names = [f"c{i}" for i in range(10_000)]
    table = read_columns(put("a.csv", (",".join(names) + "\n" + ",".join("1" * len(names)) + "\n").encode()))
    assert table.column_names == names
    assert set(table.schema.types) == {pa.int64()}


@pytest.mark.parametrize("size", [1_000_000, 3_000_000])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_huge_field(name: str, size: int) -> None:
    big = b"[" * size
    if name == "a.csv":
        data = b"a,b\nx,1\n" + big + b",2\n"
    else:
        data = b'{"a": "x", "b": 1}\n{"a": "' + big + b'", "b": 2}\n'
    table = read(name, data)
    assert table["b"] == [1, 2]
    assert len(table["a"][1]) == size


def test_huge_quoted_field_with_line_breaks() -> None:
    big = b"x\n" * 1_000_000
    assert read("a.csv", b'a,b\n"' + big + b'",2\n') == {"a": [big.decode()], "b": [2]}


def test_huge_column_name() -> None:
    assert refusal(FileFormatError, "a.csv", b"a" * 1_000_000 + b",b\n1,2\n") == (
        "a.csv, line 1: a column name does not end; look for an unclosed quote"
    )


def test_a_line_break_in_a_cell_at_the_end_of_a_block_does_not_split_it() -> None:
    """Without its option for line breaks pyarrow would read this file as two other rows, and say nothing."""
    filler = b"0,y\n" * ((1 << 18) - 3)
    data = b"a,b\n" + filler + b'1,"z\n2,z"\n'
    assert read("a.csv", data)["b"][-1] == "z\n2,z"


# Files that cannot be opened ---------------------------------------------------------------------------


def test_missing_file() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read_columns("nowhere.csv")
    assert str(caught.value) == "the file nowhere.csv does not exist; check the path"


def test_folder() -> None:
    os.mkdir("folder.csv")
    with pytest.raises(IsADirectoryError) as caught:
        read_columns("folder.csv")
    assert str(caught.value) == "folder.csv is a folder; name a file in it"


def test_no_permission_and_broken_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a.csv", GOOD)

    def fail_with(error: OSError) -> None:
        def fail(*_: Any) -> None:
            raise error

        monkeypatch.setattr(source_module, "open", fail, raising=False)

    fail_with(PermissionError(errno.EACCES, "Permission denied"))
    with pytest.raises(PermissionError) as denied:
        read_columns("a.csv")
    assert str(denied.value) == "a.csv may not be read by this user; change its permissions"
    fail_with(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(OSError, match=r"'a.csv' cannot be opened: Input/output error; check the path"):
        read_columns("a.csv")


def test_impossible_path() -> None:
    with pytest.raises(OSError, match=r"'a\\x00.csv' cannot be opened: embedded null byte; check the path"):
        read_columns("a\x00.csv")


# Files that are not what their name says ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.txt", "a.json", "a", "a.parquet.gz", "a.gz"])
def test_unknown_name(name: str) -> None:
    assert refusal(FileFormatError, name, GOOD) == (
        f"{name}: the extension is not that of a known format; Latentfit reads .csv, .tsv, .jsonl (each also with .gz) "
        "and .parquet"
    )


@pytest.mark.parametrize("name", ["a.xlsx", "a.XLS", "a.ods"])
def test_spreadsheet(name: str) -> None:
    assert refusal(FileFormatError, name, GOOD) == f"{name} is a spreadsheet; save it as CSV"


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("a,b\n1,2\n".encode("utf-16"), "a.csv is UTF-16 text; save it as UTF-8" + OR_UTF_16),
        (b"\xfe\xff\x00a", "a.csv is UTF-16 text; save it as UTF-8" + OR_UTF_16),
        (gzip.compress(GOOD, mtime=0), "a.csv is compressed with gzip; give it a name that ends in .gz"),
        (b"PK\x03\x04rest", "a.csv is a ZIP archive or a spreadsheet; save it as CSV"),
        (b"PAR1rest", "a.csv is a Parquet file; give it a name that ends in .parquet"),
    ],
)
def test_disguised_file(start: bytes, sentence: str) -> None:
    assert refusal(FileFormatError, "a.csv", start) == sentence


def test_not_gzip() -> None:
    assert refusal(FileFormatError, "a.csv.gz", GOOD) == ("a.csv.gz is not compressed with gzip; take .gz off its name")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
@pytest.mark.parametrize("cut", [5, 12, 200, 5_000, -9, -8, -1])
def test_truncated_gzip(name: str, cut: int) -> None:
    rng = random.Random(0)
    if name == "a.csv.gz":
        rows = b"".join(b"%d,%d\n" % (i, rng.randrange(10**9)) for i in range(20_000))
        data = b"a,b\n" + rows
    else:
        data = b"".join(b'{"a": %d, "b": %d}\n' % (i, rng.randrange(10**9)) for i in range(20_000))
    assert refusal(FileFormatError, name, gzip.compress(data, mtime=0)[:cut]) == (
        f"{name} ends in the middle of its gzip data; copy it again"
    )


def test_damaged_gzip() -> None:
    packed = bytearray(gzip.compress(GOOD * 1000, mtime=0))
    packed[-6] ^= 1
    assert refusal(FileFormatError, "a.csv.gz", bytes(packed)) == "a.csv.gz has damaged gzip data; copy it again"


def test_gzip_of_several_members() -> None:
    assert read("a.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0) + gzip.compress(b"3,4\n", mtime=0)) == {
        "a": [1, 3],
        "b": [2, 4],
    }


# Broken CSV --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_empty_csv(data: bytes) -> None:
    assert refusal(DataError, "a.csv", data) == "a.csv is empty; it needs column names and rows"
    assert (
        refusal(DataError, "a.csv.gz", gzip.compress(data, mtime=0))
        == "a.csv.gz is empty; it needs column names and rows"
    )


@pytest.mark.parametrize("data", [b"a,b", b"a,b\n", b"a,b\n\n\n", b"\xef\xbb\xbfa,b\r\n"])
def test_only_a_header(data: bytes) -> None:
    assert refusal(DataError, "a.csv", data) == "a.csv has a header and no rows; add at least one row"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"a,b\n1,2\n3\n", "line 3: expected 2 fields, found 1; complete or remove the line"),
        (b"a,b\n1\n", "line 2: expected 2 fields, found 1; complete or remove the line"),
        (
            b"a,b\n1,2\n3,4,5\n",
            "line 3: expected 2 fields, found 3; put quotes around fields that hold commas",
        ),
        (b"a,b\n\n1,2\n\n\n3\n", "line 6: expected 2 fields, found 1; complete or remove the line"),
        (b'a,b\n"x\ny",2\n3\n', "line 4: expected 2 fields, found 1; complete or remove the line"),
        (b"a,b\r\n1,2\r\n3\r\n", "line 3: expected 2 fields, found 1; complete or remove the line"),
        (
            b'a,b\n1,2\n"x,2\n3,4\n',
            "line 3: expected 2 fields, found 1; close the quote that opens on that line",
        ),
        (
            b'a,b\n1,2\n3,"x\n5,6\n',
            "line 3: the quote that opens in the last field is never closed; close it or remove it",
        ),
    ],
)
def test_ragged_csv(data: bytes, sentence: str) -> None:
    assert refusal(FileFormatError, "a.csv", data) == f"a.csv, {sentence}"


def test_ragged_line_far_down() -> None:
    data = b"a,b\n" + b"1,2\n" * 600_000 + b"3\n" + b"1,2\n" * 600_000
    assert refusal(FileFormatError, "a.csv", data) == (
        "a.csv, line 600002: expected 2 fields, found 1; complete or remove the line"
    )


def test_ragged_line_after_a_huge_field_is_named_by_row() -> None:
    assert refusal(FileFormatError, "a.csv", b"a,b\n" + b"x" * 2_000_000 + b",2\n3\n") == (
        "a.csv, row 3: expected 2 fields, found 1; complete or remove the line"
    )


def test_quote_left_open_far_up() -> None:
    data = b'a,b\n1,"x\n' + b"1,2\n" * 500_000
    assert refusal(FileFormatError, "a.csv", data, columns=["a"]) == (
        "a.csv, line 2: the quote that opens in the last field is never closed; close it or remove it"
    )


def test_ragged_tsv_speaks_of_tabs() -> None:
    assert refusal(FileFormatError, "a.tsv", b"a\tb\n1\t2\t3\n") == (
        "a.tsv, line 2: expected 2 fields, found 3; put quotes around fields that hold tabs"
    )


@pytest.mark.parametrize(
    ("data", "line", "position"),
    [
        (b"a,b\nx,y\nz,\xff\n", 3, 3),
        (b"a\xff,b\nx,y\n", 1, 2),
        (b"a,b\n\n\nx,caf\xff\n", 4, 6),
        (b"a,b\n" + b"x,y\n" * 500_000 + b"\xff,y\n", 500_002, 1),
    ],
)
def test_bad_utf8(data: bytes, line: int, position: int) -> None:
    assert refusal(FileFormatError, "a.csv", data) == (
        f"a.csv, line {line}: byte 0xff at position {position} is not UTF-8 text; save the file as UTF-8" + OR_ENCODING
    )


def test_bad_utf8_in_a_column_nobody_asked_for_is_no_matter() -> None:
    assert read("a.csv", b"a,b\nx,\xff\n", columns=["a"]) == {"a": ["x"]}


@pytest.mark.parametrize(
    ("name", "data", "parted"),
    [
        ("a.csv", b"a;b\n1;2\n3;4\n", "semicolons"),
        ("a.csv", b"a\tb\n1\t2\n3\t4\n", "tabs"),
        ("a.csv", b"\xef\xbb\xbfa|b\n1|2\n3|4\n", r"bars \(\|\)"),
        ("a.tsv", b"a,b\n1,2\n3,4\n", "commas"),
        ("a.tsv", b"a;b\r\n1;2\r\n\r\n3;4\r\n", "semicolons"),
        ("a.csv.gz", gzip.compress(b'"a";b\n1;"2"\n3;4\n', mtime=0), "semicolons"),
    ],
)
def test_another_separator_than_the_name_says_is_found_and_told(name: str, data: bytes, parted: str) -> None:
    for read in (read_columns, lambda path: whole(scan(path))):
        with pytest.warns(DataWarning, match=f"{name} is read as separated by {parted}"):
            assert read(put(name, data)).to_pydict() == {"a": [1, 3], "b": [2, 4]}


def test_a_separator_that_makes_no_table_is_refused() -> None:
    sentence = "a.csv is separated by semicolons, not commas; save it with commas"
    assert refusal(FileFormatError, "a.csv", b"text; and more\nx\na; b; c\n") == sentence


def test_decimals_with_commas_are_found_where_commas_part_no_cells() -> None:
    data = "name;x;n;codes\nä;1,5;1;1,2\nb;-2;;1,2,3\nc;NA;3;2\nd;3,25e2;4;1,2\n".encode()
    wanted = {
        "name": ["ä", "b", "c", "d"], "x": ["1.5", "-2", "NA", "3.25e2"], "n": [1, None, 3, 4],
        "codes": ["1,2", "1,2,3", "2", "1,2"],
    }  # fmt: skip
    for read in (read_columns, lambda path: whole(scan(path))):
        with pytest.warns(DataWarning, match=r"by semicolons, with commas in the decimals of the numbers \('x', 'n'\)"):
            assert read(put("a.csv", data)).to_pydict() == wanted
    with pytest.warns(DataWarning, match="a.tsv is read with commas in the decimals of its numbers"):
        assert read_columns(put("a.tsv", b"a\tb\n1,5\tx\n")).to_pydict() == {"a": ["1.5"], "b": ["x"]}
    assert read_columns(put("a.csv", b'a,b\n"1,5",x\n')).to_pydict() == {"a": ["1,5"], "b": ["x"]}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_latin_letters_are_read_with_a_note_or_as_the_encoding_says(name: str) -> None:
    text = "naïve;prix\ncafé;5 €\nœuf;12 €\n"
    data = text.encode("cp1252")
    path = put(name, gzip.compress(data, mtime=0) if name.endswith("gz") else data)
    wanted = {"naïve": ["café", "œuf"], "prix": ["5 €", "12 €"]}
    for read in (read_columns, lambda path: whole(scan(path))):
        with pytest.warns(DataWarning) as told:
            assert read(path).to_pydict() == wanted
        assert any("is not UTF-8 and is read as Windows-1252 (Latin-1)" in str(one.message) for one in told)
    old = put("b.csv", text.encode("mac-roman"))
    with pytest.warns(DataWarning, match="semicolons"):
        assert read_columns(old, encoding="mac-roman").to_pydict() == wanted
    with pytest.warns(DataWarning, match="semicolons"):
        assert whole(scan(old, encoding="mac-roman")).to_pydict() == wanted
    wide = put("c.csv", "a,b\né,2\n".encode("utf-16"))
    assert read_columns(wide, encoding="utf-16").to_pydict() == {"a": ["é"], "b": [2]}
    with pytest.raises(DataError, match=r"encoding must be one that Python knows, .* got 'latin-99'"):
        read_columns(old, encoding="latin-99")


def test_a_file_that_is_utf_8_elsewhere_is_damaged_not_latin() -> None:
    assert "byte 0xe9 at position 1 is not UTF-8" in refusal(FileFormatError, "a.csv", "a\né\n".encode() + b"\xe9\n")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_columns_are_left_out_and_values_read_as_missing_in_every_format(kind: str) -> None:
    table = pa.table({"a": [1, 98, 3], "b": ["x", "NA", "."], "c": [1.5, 99.0, 2.0], "id": ["u", "v", "w"]})
    path = put(f"a.{kind}", b"")
    write_columns(table, path, format=kind)  # type: ignore[arg-type]
    rules = {"drop": ["id"], "missing": ["98", "99", "NA", "."]}
    numbers = ["1.5", None, "2"] if kind == "csv" else [1.5, None, 2.0]
    found = read_columns(path, **rules)  # type: ignore[arg-type]
    numbers = found["c"].to_pylist() if kind == "csv" else numbers
    assert found.to_pydict() == {"a": [1, None, 3], "b": ["x", None, None], "c": numbers}
    assert found["c"].null_count == 1
    streamed = whole(scan(path, drop=["id"], missing=[98, 99, "NA", "."]))
    assert streamed.to_pydict() == found.to_pydict()
    assert scan(path, missing=[98]).fingerprint() != scan(path).fingerprint() != scan(path, drop=["a"]).fingerprint()
    with pytest.raises(DataError, match=r"has no column 'idd'; did you mean 'id'\?"):
        read_columns(path, drop=["idd"])
    with pytest.raises(DataError, match="has no column left"):
        read_columns(path, columns=["a"], drop=["a"])
    with pytest.raises(DataError, match="missing must be a list, got '98'; give"):
        scan(path, missing="98")


# Column names ------------------------------------------------------------------------------------------


def test_repeated_names() -> None:
    sentence = "a.csv has two columns with the name 'x' (columns 1 and 3); give every column its own name"
    assert refusal(DataError, "a.csv", b"x,y,x\n1,2,3\n") == sentence
    assert refusal(DataError, "a.csv", b"x,y,x\n1,2,3\n", columns=["y"]) == sentence
    assert refusal(DataError, "a.csv", b"a,,\n1,2,3\n") == (
        "a.csv has two columns with no name (columns 2 and 3); give every column its own name"
    )


def test_repeated_names_in_parquet() -> None:
    pq.write_table(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet has two columns with the name 'x' \(columns 1 and 2\)"):
        read_columns("a.parquet")


@pytest.mark.parametrize(
    ("wanted", "cure"),
    [("labl", "did you mean 'label'?"), ("Label ", "did you mean 'label'?"), ("zzz", "it has task, worker, label")],
)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_absent_column(name: str, wanted: str, cure: str) -> None:
    table = pa.table(WANTED)
    if name == "a.parquet":
        pq.write_table(table, name)
    elif name == "a.jsonl":
        put(name, b'{"task": 1, "worker": 2, "label": 3}\n')
    else:
        put(name, GOOD)
    with pytest.raises(DataError) as caught:
        read_columns(name, columns=["task", wanted])
    assert str(caught.value) == f"{name} has no column {wanted!r}; {cure}"


def test_absent_column_of_many() -> None:
    header = ",".join(f"c{i}" for i in range(50))
    text = refusal(DataError, "a.csv", f"{header}\n{header}\n".encode(), columns=["zzz"])
    assert text.endswith("it has c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and 38 more")


# Broken JSON lines -------------------------------------------------------------------------------------

ONE_OBJECT = "write one JSON object per line"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b'{"a": 1}\n{"a": 2',
            f"line 2: the line is not JSON (Expecting ',' delimiter at character 8); {ONE_OBJECT}",
        ),
        (
            b'{"a": 1}\n\n{"a" 2}\n',
            f"line 3: the line is not JSON (Expecting ':' delimiter at character 6); {ONE_OBJECT}",
        ),
        (
            b'[{"a": 1}]\n',
            "line 1: found a JSON list where JSON lines have one object per line; write each row on its own line",
        ),
        (b'{"a": 1}\n7\n', "line 2: the line is JSON but not an object; write one JSON object per line"),
        (
            b'{"a": 1}\n{"a": "x"}\n',
            "line 2, column 'a': found text where line 1 has a number; use one type in a column",
        ),
        (
            b'{"a": {"b": 1}}\n{"a": [1]}\n',
            "line 2, column 'a': found a list where line 1 has an object; use one type in a column",
        ),
        (b'{"a": 1, "a": 2}\n', "line 1: key 'a' occurs twice; keep one of them"),
        (
            b'{"a": "x"}\n{"a": "\xff"}\n',
            "line 2: byte 0xff at position 8 is not UTF-8 text; save the file as UTF-8" + OR_ENCODING,
        ),
        (b'{"\xff": "x"}\n', "line 1: byte 0xff at position 3 is not UTF-8 text; save the file as UTF-8" + OR_ENCODING),
        (b'{"a": 1}\n\xff\n', "line 2: the line is not UTF-8 text; write one JSON object per line"),
        (
            b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
            "line 1: found 100,001 lists and objects in one line; give each key a plain value",
        ),
        (
            b'{"a": ' + b"[\n" * 100_000 + b"]" * 100_000 + b"}\n",
            f"line 1: the line is not JSON (Expecting value at character 8); {ONE_OBJECT}",
        ),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:30],
)
def test_broken_json_lines(data: bytes, sentence: str) -> None:
    assert refusal(FileFormatError, "a.jsonl", data) == f"a.jsonl, {sentence}"


def test_json_lines_that_only_pyarrow_refuses() -> None:
    assert refusal(FileFormatError, "a.jsonl", b'{"a": 1e400}\n') == (
        "a.jsonl cannot be read as JSON lines "
        "(JSON parse error: Number too big to be stored in double. in row 0); write it again"
    )


def test_json_lines_broken_far_down() -> None:
    data = b'{"a": 1}\n' * 150_000 + b'{"a" 1}\n'
    assert refusal(FileFormatError, "a.jsonl", data) == (
        "a.jsonl, line 150001: the line is not JSON (Expecting ':' delimiter at character 6); "
        "write one JSON object per line"
    )


def test_empty_json_lines() -> None:
    assert refusal(DataError, "a.jsonl", b"\n") == "a.jsonl is empty; it needs one JSON object per line"
    assert refusal(DataError, "a.jsonl", b"{}\n{}\n") == (
        "a.jsonl has rows but no keys; give each object the columns as keys"
    )


# Broken Parquet ----------------------------------------------------------------------------------------


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": ["x", "y"] * 50, "b": [1, 2] * 50}), sink)
    return sink.getvalue()


def test_broken_parquet() -> None:
    assert refusal(FileFormatError, "a.parquet", b"") == (
        "a.parquet cannot be read as Parquet (Parquet file size is 0 bytes); write it again"
    )
    assert refusal(FileFormatError, "a.parquet", parquet()[:-5]) == (
        "a.parquet cannot be read as Parquet (Parquet magic bytes not found in footer. "
        "Either the file is corrupted or this is not a parquet file); write it again"
    )


def test_parquet_without_rows() -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.string())}), "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet has columns and no rows; add at least one row"):
        read_columns("a.parquet")


# Anything at all ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::latentfit.core.errors.DataWarning")
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet"])
def test_flipped_bits_give_a_table_or_a_sentence(name: str) -> None:
    good = {
        "a.csv": GOOD * 3,
        "a.csv.gz": gzip.compress(GOOD * 3, mtime=0),
        "a.jsonl": b'{"task": "t1", "label": 3}\n' * 5,
        "a.parquet": parquet(),
    }[name]
    rng = random.Random(1)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.choice([1, 1, 4])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            read_columns(put(name, bytes(data[: rng.choice([len(data), rng.randrange(len(data))])]))).to_pylist()
        except LatentfitError as error:
            text = str(error)
            assert text.startswith(name)
            assert "\n" not in text
            assert ";" in text


@pytest.mark.parametrize("name", ["a b.csv", "100%.csv", "50%20.csv", "what?.csv", "#1.csv", "é.csv", "a[1].csv"])
def test_an_address_of_a_folder_takes_any_name(name: str, tmp_path: Path) -> None:
    """Names that a store lists are written as an address asks for."""
    folder = tmp_path / "wave [1]"
    folder.mkdir()
    (folder / name).write_text("x,y\n1,2\n")
    address = folder.as_uri()
    for given in (address, f"{address}/*.csv"):
        found = scan(given)
        assert sum(batch.num_rows for batch in found.batches()) == 1
        assert found.fingerprint() == scan(given).fingerprint()


def test_one_broken_line_of_a_file_with_semicolons_is_named_by_its_number(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("task;worker;label\n" + "".join(f"{n};w{n % 3};a\n" for n in range(20)) + "oops;1\n1;w9;b\n")
    broken = r"line 22: expected .* found 2"
    with pytest.warns(DataWarning, match="semicolons"), pytest.raises(FileFormatError, match=broken):
        read_columns(path)
