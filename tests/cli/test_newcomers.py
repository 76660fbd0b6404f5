"""Files as people bring them: what is read as meant, and the first words about what is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow.csv as pc
import pytest

import tacit
from tacit.cli.main import main
from tacit.errors import DataError, DataWarning, FileFormatError, TacitError, nearest

RNG = np.random.default_rng(0)
KIND = RNG.integers(0, 2, 60)
YES = (RNG.random((60, 5)) < np.where(KIND[:, None] == 1, 0.9, 0.1)).astype(int)


def text(words=("no", "yes"), sep=",", ids=None, more=None):
    head = (["id"] if ids else []) + [f"q{n}" for n in range(5)] + ([more[0]] if more else [])
    rows = [
        ([ids[at]] if ids else []) + [words[one] for one in row] + ([more[1][at]] if more else [])
        for at, row in enumerate(YES)
    ]
    return "\n".join(sep.join(row) for row in [head, *rows]) + "\n"


def run(tmp_path, command, data, *more, name="x.csv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return main([command, str(path), *more, "--out", str(tmp_path / "o")])


IDS = [f"p {n} 😀" for n in range(60)]
READ_AS_MEANT = {
    "byte order mark": "\ufeff" + text(),
    "windows lines": text().replace("\n", "\r\n"),
    "TRUE and FALSE": text(("FALSE", "TRUE")),
    "Y and N": text(("N", "Y")),
    "0 and 1": text(("0", "1")),
    "a blank after the comma": text((" no", " yes")),
    "several spellings": text().replace("yes", "1", 40).replace("no", "FALSE", 40),
}


@pytest.mark.parametrize("what", READ_AS_MEANT)
def test_yes_and_no_in_many_spellings_give_one_answer(what, tmp_path):
    assert run(tmp_path, "cluster", READ_AS_MEANT[what], "--components", "2", "--quiet") == 0
    found = pc.read_csv(tmp_path / "o" / "clusters.csv")["cluster"].to_pylist()
    assert found == tacit.BernoulliMixture(2).fit(YES).labels_.tolist()


def test_ids_with_blanks_and_emoji_come_back(tmp_path):
    assert run(tmp_path, "cluster", text(ids=IDS), "--components", "2", "--id", "id", "--quiet") == 0
    assert pc.read_csv(tmp_path / "o" / "clusters.csv")["id"].to_pylist() == IDS


TOLD = {
    "separated by bars (|), not commas; save it with commas": ("table", text(sep="|")),
    "is a spreadsheet; save it as CSV": ("table", b"PK\x03\x04", "x.xlsx"),
    "give --id id if it names the rows": ("cluster", text(ids=IDS)),
    "leave the cell empty if nothing is known": ("cluster", text(("no", "NA"))),
    "(with --id, if it names the rows)": ("table", text(ids=[str(1000 + n) for n in range(60)])),
    "where nothing is known leave the cell empty": ("factors", "a,b\n1.5,2\nNA,3\n2.5,4\n"),
    "write decimals with a point": ("factors", 'a,b\n"1,5",2\n"2,5",3\n'),
    "give --id name_ if it names the people": ("admixture", "name_,rs1\nanna,1\nbert,2\n"),
    "plink2 --vcf": ("admixture", "##fileformat=VCFv4.2\n", "x.vcf"),
    "one document a line": ("topics", "id,text\n1,the cat sat\n2,the dog\n"),
    "the columns task hold no labels; give task, worker and label": ("labels", "task\na\nb\n"),
}


@pytest.mark.parametrize("words", TOLD)
def test_first_words_say_what_to_do(words, tmp_path, capsys):
    command, data, *name = TOLD[words]
    assert run(tmp_path, command, data, name=name[0] if name else "x.csv") == 3
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


NOTED = {
    "column 'id' has another value in every row": ("table", text(ids=IDS), "--components", "2"),
    "column 'q0' holds the word 'NA', which counts as a category": ("table", text(("no", "NA")), "--components", "2"),
    "read as one row a task and one column a worker (ann, bob, cy)": (
        "labels",
        "ann,bob,cy\n" + "yes,yes,no\nno,no,no\nyes,yes,yes\n" * 5,
    ),
    "column 'time' of": ("hmm", "sequence,time,symbol\n" + "1,3,a\n1,1,b\n1,2,b\n" * 5, "--states", "1"),
    "1 rows show too little for any answer; bring 10 at the least": ("table", "a,b\nyes,no\n"),
    "3 rows show too little for any answer": ("cluster", "a\nyes\nno\nyes\n"),
    "1 documents show too little": ("topics", "document,word\na,b\na,c\n"),
    "1 observed steps show too little": ("hmm", "sequence,symbol\n1,a\n"),
}


@pytest.mark.parametrize("words", NOTED)
def test_what_may_not_be_meant_is_noted(words, tmp_path, capsys):
    command, data, *more = NOTED[words]
    assert run(tmp_path, command, data, *more) == 0
    assert words in capsys.readouterr().err


def test_new_rows_are_not_taken_for_names():
    """Only what is learned from is looked at: three new rows may well differ in a column."""
    words = np.array([f"w{n}" for n in range(25)] * 4, object)
    model = tacit.LatentClass(1).fit(pd.DataFrame({"a": words, "b": words[::-1]}))
    assert len(model.predict(pd.DataFrame({"a": words[:25], "b": words[:25]}))) == 25
    with pytest.warns(DataWarning, match="'a' has another value in every row"):
        tacit.LatentClass(1).fit(pd.DataFrame({"a": words[:25], "b": ["x", "y", "y", "x", "x"] * 5}))


def test_a_pivot_table_keeps_the_names_of_its_tasks():
    wide = pd.DataFrame({"ann": [1, 0, 1, 1], "bob": [1, 0, 1, 0], "cy": [1, 0, 0, 1]}, index=["a", "b", "c", "d"])
    model = tacit.DawidSkene().fit(wide)
    assert model.tasks_["task"].tolist() == ["a", "b", "c", "d"]
    again = tacit.DawidSkene().fit(pd.concat([wide, wide]))  # an index that repeats names nothing
    assert again.tasks_["task"].tolist() == list(range(8))


def test_reports_show_in_notebooks_and_are_inert():
    words = pd.DataFrame({"<script>": ["a", "b"] * 15, "b": ["x", "y"] * 15, "c": ["u", "v"] * 15})
    model = tacit.LatentClass(2).fit(words)
    page = model.report_._repr_html_()
    assert f"verdict: {model.report_.verdict}" in page
    assert "<script>" not in page
    assert repr(model.joint_) == "JointPMF(3 columns (<script>, b, c), 2 classes)"


def test_messages_are_printable_and_short():
    said = str(DataError("column 'a\x07' holds " + "x" * 5_000 + "; leave it out"))
    assert said.isprintable()
    assert len(said) < 1_400
    assert said.startswith("column 'a\\x07' holds xxx")
    assert said.endswith("; leave it out")
    assert isinstance(FileFormatError("a"), TacitError)


def test_nearest_names():
    assert nearest("Lable ", ["task", "label"], "there are") == "did you mean 'label'?"
    assert nearest("zzz", ["task", "label"], "there are") == "there are task, label"
    assert nearest("zzz", [f"q{n}" for n in range(20)], "there are").endswith("q11 and 8 more")
