"""Files as people bring them: what is read as meant, and the first words about what is not."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import latentfit
from latentfit.cli.main import main
from latentfit.core.errors import DataError, DataWarning, FileFormatError, LatentfitError, nearest

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
    assert found == latentfit.BernoulliMixture(2).fit(YES).labels_.tolist()


def test_ids_with_blanks_and_emoji_come_back(tmp_path):
    assert run(tmp_path, "cluster", text(ids=IDS), "--components", "2", "--id", "id", "--quiet") == 0
    assert pc.read_csv(tmp_path / "o" / "clusters.csv")["id"].to_pylist() == IDS


TOLD = {
    "is a spreadsheet; save it as CSV": ("table", b"PK\x03\x04", "x.xlsx"),
    "give --id id if it names the rows": ("cluster", text(ids=IDS)),
    "leave the cell empty if nothing is known": ("cluster", text(("no", "NA"))),
    "names the rows leave it out (--id id, or --drop id)": ("table", text(ids=[str(1000 + n) for n in range(60)])),
    "where nothing is known leave the cell empty": ("factors", "a,b\n1.5,2\nNA,3\n2.5,4\n"),
    "write decimals with a point": ("factors", 'a,b\n"1,5",2\n"2,5",3\n'),
    "give --id name_ if it names the people": ("admixture", "name_,rs1\nanna,1\nbert,2\n"),
    "plink2 --vcf": ("admixture", "##fileformat=VCFv4.2\n", "x.vcf"),
    "name it alone with --columns": ("topics", "id,text\n1,the cat sat\n2,the dog\n"),
    "the columns task hold no labels; give task, worker and label": ("labels", "task\na\nb\n"),
    "give --id 'my id' if it names the rows": ("cluster", text(ids=IDS).replace("id", "my id", 1)),
    "thousands without a comma": ("factors", 'a,b\n"1,234.5",2\n"2,000",3\n'),
    "too few to find the number of populations": ("admixture", "rs1,rs2\n0,1\n"),
    "the weights column 'w' has a missing value in row 2": ("table", "a,w\nx,1\ny,\n", "x.csv", "--weights", "w"),
    "x.csv holds 41 in column 'b', row 2; values must lie between 0 and 1": ("fractions", "a,b\n.1,.2\n.3,41\n"),
}


@pytest.mark.parametrize("words", TOLD)
def test_first_words_say_what_to_do(words, tmp_path, capsys):
    command, data, name, *more = (*TOLD[words], "x.csv")[: max(3, len(TOLD[words]))]
    assert run(tmp_path, command, data, *more, name=name) == 3
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


NOTED = {
    "column 'id' has another value in every row": ("table", text(ids=IDS), "--components", "2"),
    "column 'q0' holds the word 'NA', which counts as a category": ("table", text(("no", "NA")), "--components", "2"),
    "read as one row per task and one column per worker (ann, bob, cy)": (
        "labels",
        "ann,bob,cy\n" + "yes,yes,no\nno,no,no\nyes,yes,yes\n" * 5,
    ),
    "sorted by the column 'time'": ("hmm", "sequence,time,symbol\n" + "1,3,a\n1,1,b\n1,2,b\n" * 5, "--states", "1"),
    "1 rows are too few for any conclusion; at least 10 are needed": ("table", "a,b\nyes,no\n"),
    "3 rows are too few for any conclusion": ("cluster", "a\nyes\nno\nyes\n"),
    "1 documents are too few": ("topics", "document,word\na,b\na,c\n"),
    "1 observed steps are too few": ("hmm", "sequence,symbol\n1,a\n"),
    "1 samples are too few": ("fractions", "a\n.1\n.2\n"),
    "column 'row' has another value in every row": (
        "table",
        "row,a\n" + "".join(f"{n},{n % 2}\n" for n in range(30)),
        "--components",
        "1",
    ),
    "column 'n' holds every number from 1 to 80 once, so it identifies rows": (
        "table",
        "n,a\n" + "".join(f"{1 + n * 7 % 80},{'xy'[n % 2]}\n" for n in range(80)),
        "--components",
        "1",
        "--bins",
        "4",
    ),
    "give --id n on the command line": ("factors", pd.DataFrame(RNG.normal(size=(40, 3))).to_csv(index_label="n")),
    "the first column has no name and is taken for the names of the rows": ("cluster", pd.DataFrame(YES).to_csv()),
    "is called 'rownames' and is taken for the names": ("table", pd.DataFrame(YES).to_csv(index_label="rownames")),
    "first column has no name and is taken for the names": ("admixture", pd.DataFrame(YES).to_csv()),
    "x.csv is read as separated by bars (|)": ("table", text(sep="|"), "--components", "2"),
    "x.csv is not UTF-8 and is read as Windows-1252": ("table", text(("non", "été"), sep=";").encode("cp1252")),
    "and the later one in order counts as yes ('q0': 2, 'q1': 2": ("cluster", text(("1", "2")), "--components", "2"),
    "column 'b' holds 'No' and 'no ', which count as two": ("table", "a,b\nx,No\ny,no \n"),
    "among the labels are 'Yes' and 'yes', which count as two": (
        "labels",
        "task,worker,label\n"
        + "".join(f"{n},{who},{'Yes' if n + who == 3 else 'yes'}\n" for n in range(9) for who in (1, 2, 3)),
    ),
    "'NA' looks like a missing value but counts as a label; leave such cells empty": (
        "labels",
        "task,worker,label\n"
        + "".join(f"{n},{who},{'NA' if n + who == 3 else n % 2}\n" for n in range(9) for who in (1, 2, 3)),
    ),
    "was read as one sequence, since no column is called sequence; if 'player' says": (
        "hmm",
        "player,event\n" + "ann,a\nann,b\nbob,a\n" * 5,
        "--states",
        "1",
    ),
}


@pytest.mark.parametrize("words", NOTED)
def test_what_may_not_be_meant_is_noted(words, tmp_path, capsys):
    command, data, *more = NOTED[words]
    assert run(tmp_path, command, data, *more) == 0
    assert words in capsys.readouterr().err


def test_one_word_a_line_may_be_letters(tmp_path, capsys):
    assert run(tmp_path, "hmm", "ACGT\nACCA\n", name="x.txt") == 0
    assert "give --letters if the letters of the words are the symbols" in capsys.readouterr().err
    assert run(tmp_path, "hmm", "ACGT\nACCA\n", "--letters", "--states", "1", name="x.txt") == 0
    assert "--letters" not in capsys.readouterr().err


def test_truth_that_nobody_said_is_told_and_a_gap_is_no_error(tmp_path, capsys):
    votes = "task,worker,label\n" + "".join(f"{n},{who},{n % 2}\n" for n in range(12) for who in "abc")
    truth = tmp_path / "t.csv"
    truth.write_text("task,label\n0,0\n1,one\n2,\n")
    assert run(tmp_path, "labels", votes, "--truth", str(truth)) == 0
    said = capsys.readouterr().err
    assert "1 labels of the truth file were given by no worker, 'one' first" in said
    assert "error on 2 tasks with known truth: 50.00%" in said
    pq.write_table(pa.table({"task": [0, 1, 2], "label": [0.0, 0.0, np.nan]}), tmp_path / "t.parquet")
    assert run(tmp_path, "labels", votes, "--truth", str(tmp_path / "t.parquet")) == 0
    assert "error on 2 tasks with known truth: 50.00%" in capsys.readouterr().err
    truth.write_text("name,label\n0,0\n")
    assert run(tmp_path, "labels", votes, "--truth", str(truth)) == 3
    assert "true answers need the columns task and label, found ['name', 'label']" in capsys.readouterr().err


def test_a_file_of_another_kind_given_to_a_model_of_labels_is_told(tmp_path, capsys):
    votes = "task,worker,label\n" + "".join(f"{n},{who},{n % 2}\n" for n in range(12) for who in "abc")
    assert run(tmp_path, "labels", votes, "--quiet") == 0
    model = tmp_path / "m.latent"
    (tmp_path / "o" / "model.latent").rename(model)
    assert run(tmp_path, "predict", "job,town\ncook,Rome\nclerk,Oslo\n", "--model", str(model)) == 0
    said = capsys.readouterr().err
    assert "read as one row per task and one column per worker (job, town)" in said
    assert "the model does not know the labels 'Oslo', 'Rome', 'clerk' and 1 more; they were left out" in said


def test_a_screen_is_not_flooded_by_one_word(tmp_path, capsys):
    rows = "".join(f"{'x' * 5_000}{n % 3},{n % 2}\n" for n in range(30))
    assert run(tmp_path, "table", "a,b\n" + rows, "--components", "1") == 0
    assert len(capsys.readouterr().err) < 3_000


@pytest.mark.parametrize(
    ("option", "value"), [("threads", "0"), ("bootstrap", "-3"), ("memory", "-5GB"), ("memory", "inf")]
)
def test_numbers_that_make_no_sense_are_slips_of_the_command_line(option, value, tmp_path, capsys):
    assert run(tmp_path, "table", text(), f"--{option}", value) == 2
    assert f"Invalid value for '--{option}'" in capsys.readouterr().err


@pytest.mark.parametrize("smoothing", [-1.0, float("nan"), "lots", None])
@pytest.mark.parametrize(
    "model", [latentfit.LatentClass(2), latentfit.BernoulliMixture(2), latentfit.LatentClassClassifier(2)]
)
def test_smoothing_below_nothing_is_refused(model, smoothing):
    with pytest.raises(DataError, match=r"smoothing must be 'auto' or a finite number >= 0, got .*; give"):
        model.set_params(smoothing=smoothing).fit(YES, KIND)


REFUSED = {
    "select must be 'heldout' or 'bic', got 'aic'; give one of them": (latentfit.LatentClass(select="aic"), YES),
    "binarize must be a finite number or None, got True": (latentfit.BernoulliMixture(2, binarize=True), YES),
    "max_components must be an int": (latentfit.BernoulliMixture(max_components="all"), YES),
    "noise must be a standard deviation >= 0 or None, got 'low'": (latentfit.BinaryFactors(2, noise="low"), YES),
    "min_maf must be a number, such as 0.0, got None": (latentfit.Admixture(1, min_maf=None), YES),
    "smoothing must be 'auto' or two positive numbers": (latentfit.TopicModel(2, smoothing=0.1), YES),
    "abstain must be a list of labels, got 'skip'; give abstain=['skip']": (latentfit.DawidSkene(abstain="skip"), YES),
    "abstain must be a list of labels, got -1": (latentfit.DawidSkene(abstain=-1), YES),
    "columns=['task', 'worker', 'label'] says no roles; give a dictionary": (
        latentfit.DawidSkene(columns=["task", "worker", "label"]),
        pd.DataFrame(YES, columns=list("abcde")),
    ),
    "smoothing must be 'auto' or a number >= 0, got 'some'": (latentfit.DawidSkene(smoothing="some"), YES),
}


@pytest.mark.parametrize("words", REFUSED)
def test_settings_that_look_right_and_are_not_get_a_sentence(words):
    model, data = REFUSED[words]
    with pytest.raises(DataError, match=re.escape(words)):
        model.fit(data)


def test_fractions_of_a_file_without_names_are_read_alike_in_fit_and_predict(tmp_path):
    share = RNG.dirichlet([1, 1], 15)
    values = pd.DataFrame(RNG.random((8, 2)) @ share.T, columns=[f"s{n}" for n in range(15)]).clip(0, 1)
    data = values.to_csv(index=False)
    assert run(tmp_path, "fractions", data, "--components", "2", "--quiet") == 0
    fitted = pc.read_csv(tmp_path / "o" / "fractions.csv")
    (tmp_path / "o" / "model.latent").rename(tmp_path / "m.latent")
    assert run(tmp_path, "predict", data, "--model", str(tmp_path / "m.latent"), "--quiet") == 0
    assert pc.read_csv(tmp_path / "o" / "fractions.csv")["sample"] == fitted["sample"]


def test_new_rows_are_not_taken_for_names():
    """Only what is learned from is looked at: three new rows may well differ in a column."""
    words = np.array([f"w{n}" for n in range(25)] * 4, object)
    model = latentfit.LatentClass(1).fit(pd.DataFrame({"a": words, "b": words[::-1]}))
    assert len(model.predict(pd.DataFrame({"a": words[:25], "b": words[:25]}))) == 25
    with pytest.warns(DataWarning, match="'a' has another value in every row"):
        latentfit.LatentClass(1).fit(pd.DataFrame({"a": words[:25], "b": ["x", "y", "y", "x", "x"] * 5}))


@pytest.mark.parametrize(
    ("column", "gap"),
    [
        (pd.Timestamp("2020-01-01") + pd.to_timedelta(KIND, "D"), pd.NaT),
        ((pd.Timestamp("2020-01-01 12:30") + pd.to_timedelta(KIND, "D")).tz_localize("UTC"), pd.NaT),
        (pd.Categorical(np.array(["b", "a"])[KIND], categories=["b", "c", "a"], ordered=True), None),
        (pd.Categorical(KIND), None),
    ],
)
def test_filled_gaps_keep_dates_and_categories(column, gap):
    """A filled column has the type it came with: which columns had gaps must not decide types."""
    frame = pd.DataFrame({"a": YES[:, 0], "b": YES[:, 1], "c": YES[:, 2], "d": column})
    frame.loc[:2, "d"] = gap
    filled = latentfit.LatentClass(2).fit(frame).impute(frame)
    assert filled["d"].dtype == frame["d"].dtype
    assert filled["d"].notna().all()
    assert (filled["d"][3:] == frame["d"][3:]).all()


def test_a_filled_category_may_be_new_to_the_frame():
    frame = pd.DataFrame({"a": YES[:, 0], "b": YES[:, 1], "d": pd.Categorical(np.array(["u", "v"])[KIND])})
    some = frame[frame["d"] == "u"].head(5).copy()
    some["d"] = some["d"].cat.remove_unused_categories()
    some.loc[:, ["a", "b"]] = 1
    some.iloc[0, 2] = None
    filled = latentfit.LatentClass(2).fit(frame).impute(some)["d"]
    assert list(filled) == ["v", "u", "u", "u", "u"]
    assert list(filled.cat.categories) == ["u", "v"]


def test_cells_that_are_no_cells_are_refused_in_a_sentence():
    fit = latentfit.LatentClass(1).fit
    with pytest.raises(DataError, match=r"the 'a' column holds list<.*>; give one text or number per cell"):
        fit(pd.DataFrame({"a": [[1], [2]], "b": [1, 2]}))
    with pytest.raises(DataError, match="the 'a' column holds no names"):
        fit(pd.DataFrame({"a": [1j, 2j], "b": [1, 2]}))
    with pytest.raises(
        DataError, match=r"'x.csv' is a name, not data; read the file first, or give latentfit.scan of it"
    ):
        fit("x.csv")
    with pytest.raises(DataError, match=r"a dict is no frame; make one of it: pandas.DataFrame"):
        fit({"a": [1, 2]})
    texts = pd.DataFrame({"text": ["tea milk", "soup"]})  # one column of texts is read as it is
    assert latentfit.TopicModel(1).fit(texts).words_.tolist() == ["milk", "soup", "tea"]


def test_a_string_is_a_sequence_of_letters():
    assert latentfit.CategoricalHMM(1).fit("abcabcab").symbols_.tolist() == ["a", "b", "c"]


def test_periods_and_uuids_are_words():
    months = pd.period_range("2020-01", periods=2, freq="M")[KIND]
    ids = np.array([uuid.UUID(int=n) for n in (1, 2)])[KIND]
    model = latentfit.LatentClass(1).fit(pd.DataFrame({"a": months, "b": ids}))
    assert model.categories_[0].tolist() == ["2020-01", "2020-02"]
    assert model.categories_[1].tolist() == [str(uuid.UUID(int=1)), str(uuid.UUID(int=2))]


def test_a_gap_in_lists_of_words_is_a_gap():
    rows = [["x", "u"], ["y", float("nan")], ["x", None]] * 5
    assert latentfit.LatentClass(1).fit(rows).categories_[1].tolist() == ["u"]
    votes = [["x", "x", "y"], ["y", "y", float("nan")], ["x", "x", "x"]] * 5
    assert latentfit.DawidSkene().fit(votes).classes_.tolist() == ["x", "y"]


@pytest.mark.parametrize("kind", ["boolean", "Int64", "bool", "int64", "category"])
def test_predicted_labels_have_the_type_they_came_with(kind):
    labels = pd.Series(KIND).astype(kind)
    found = latentfit.LatentClassClassifier(1).fit(pd.DataFrame(YES), labels).predict(pd.DataFrame(YES))
    assert found.dtype.kind == ("b" if kind.startswith("bool") else "i")


@pytest.mark.parametrize("model", [latentfit.LatentClass(1), latentfit.PairMatrix(), latentfit.BlockModel(1)])
def test_a_seed_that_is_none_is_refused(model):
    with pytest.raises(DataError, match="random_state must be None, an int >= 0 or a generator, got 'x'"):
        model.set_params(random_state="x").fit(YES)
    with pytest.raises(DataError, match="random_state must be None, an int >= 0 or a generator, got -1"):
        model.set_params(random_state=-1).fit(YES)


def test_a_pivot_table_keeps_the_names_of_its_tasks():
    wide = pd.DataFrame({"ann": [1, 0, 1, 1], "bob": [1, 0, 1, 0], "cy": [1, 0, 0, 1]}, index=["a", "b", "c", "d"])
    model = latentfit.DawidSkene().fit(wide)
    assert model.tasks_["task"].tolist() == ["a", "b", "c", "d"]
    again = latentfit.DawidSkene().fit(pd.concat([wide, wide]))  # an index that repeats names nothing
    assert again.tasks_["task"].tolist() == list(range(8))


def test_reports_show_in_notebooks_and_are_inert():
    words = pd.DataFrame({"<script>": ["a", "b"] * 15, "b": ["x", "y"] * 15, "c": ["u", "v"] * 15})
    model = latentfit.LatentClass(2).fit(words)
    page = model.report_._repr_html_()
    assert f"verdict: {model.report_.verdict}" in page
    assert "<script>" not in page
    assert repr(model.joint_) == "JointPMF(3 columns (<script>, b, c), 2 classes)"


def test_what_a_notebook_offers_after_the_dot():
    code = "import latentfit; print(*dir(latentfit)); latentfit.simulate.crowd, latentfit.DataError"
    offered = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {*latentfit.__all__, "simulate", "testing"} <= {*offered}
    assert not {"Any", "annotations", "import_module"} & {*offered}


def test_messages_are_printable_and_short():
    said = str(DataError("column 'a\x07' holds " + "x" * 5_000 + "; leave it out"))
    assert said.isprintable()
    assert len(said) < 1_400
    assert said.startswith("column 'a\\x07' holds xxx")
    assert said.endswith("; leave it out")
    assert isinstance(FileFormatError("a"), LatentfitError)


def test_nearest_names():
    assert nearest("Lable ", ["task", "label"], "there are") == "did you mean 'label'?"
    assert nearest("zzz", ["task", "label"], "there are") == "there are task, label"
    assert nearest("zzz", [f"q{n}" for n in range(20)], "there are").endswith("q11 and 8 more")
