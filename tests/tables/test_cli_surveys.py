"""Files as surveys and logs come: row names, codes for missing values, semicolons, Latin-1, columns left out."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

from latentfit.cli.main import main

RNG = np.random.default_rng(3)
N = 300


def survey():
    """Answers of two kinds of people: codes 1 to 4 with 98 and 99 for "not known", an age, an income, names."""
    kind = RNG.integers(0, 2, N)
    answers = {f"q{n}": np.where(RNG.random(N) < 0.8, kind * 2 + 1, RNG.integers(1, 5, N)) for n in range(5)}
    for name, column in answers.items():
        column[RNG.random(N) < 0.1] = 98 if name != "q1" else 99
    return pd.DataFrame({
        **answers, "smokes": kind + 1, "drinks": np.where(RNG.random(N) < 0.9, kind, 1 - kind) + 1,
        "age": RNG.integers(20, 60, N), "income": np.round(RNG.lognormal(8, 1, N), 2),
        "town": np.where(kind == 1, "Köln", "Zürich"), "psu": RNG.permutation(N) * 3,
    })  # fmt: skip


SURVEY = survey()
ITEMS = "q0,q1,q2,q3,q4"


def written(path, frame=SURVEY, encoding="utf-8", **how):
    """A file as a spreadsheet or R writes it."""
    path.write_bytes(frame.to_csv(quoting=csv.QUOTE_MINIMAL, **how).encode(encoding))
    return str(path)


def files_of(folder, *names):
    return [(folder / f"{name}.csv").read_bytes() for name in names]


def test_a_survey_with_row_names_is_read_and_its_rows_keep_them(tmp_path, capsys):
    path = written(tmp_path / "s.csv", SURVEY.set_index(pd.Index([f"p{n}" for n in range(N)])))
    more = ["--columns", f",{ITEMS}"]
    assert main(["table", path, "--columns", ITEMS, "--components", "2", "--out", str(tmp_path / "o")]) == 0
    assert main(["table", path, "--drop", "psu,income", "--components", "2", "--out", str(tmp_path / "o")]) == 0
    assert "the first column has no name and is taken for the names of the rows" in capsys.readouterr().err
    rows = pd.read_csv(tmp_path / "o" / "classes.csv")
    assert rows.columns[0] == "row"
    assert rows["row"].tolist() == [f"p{n}" for n in range(N)]
    profiles = pd.read_csv(tmp_path / "o" / "profiles.csv")
    assert set(profiles["column"]) == set(SURVEY.columns) - {"psu", "income"}
    assert main(["table", path, *more, "--components", "2", "--out", str(tmp_path / "o")]) == 0  # '' was asked for
    assert "taken for the names" not in capsys.readouterr().err


def test_a_column_of_other_numbers_in_every_row_is_refused_with_the_options_that_help(tmp_path, capsys):
    path = written(tmp_path / "s.csv", index=False)
    assert main(["table", path, "--drop", "income", "--out", str(tmp_path / "o")]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "column 'psu' has another number in every row (300 of them)" in said
    assert "if it names the rows leave it out (--id psu, or --drop psu)" in said
    assert main(["table", path, "--out", str(tmp_path / "o")]) == 3
    assert "column 'income' holds 300 distinct numbers" in capsys.readouterr().err  # a measurement, not an id


def test_codes_for_missing_values_are_missing_in_every_engine(tmp_path):
    path = written(tmp_path / "s.csv", index=False)
    rules = ["--columns", ITEMS, "--missing", "98,99", "--components", "2", "--no-report", "--quiet"]
    for engine in ("memory", "stream"):
        out = str(tmp_path / engine)
        assert main(["table", path, *rules, "--engine", engine, "--out", out, "--weights", "smokes"]) == 0
    assert files_of(tmp_path / "memory", "classes", "profiles") == files_of(tmp_path / "stream", "classes", "profiles")
    profiles = pd.read_csv(tmp_path / "memory" / "profiles.csv")
    assert set(profiles["category"]) == {1, 2, 3, 4}
    model = str(tmp_path / "memory" / "model.latent")
    assert main(["impute", path, "--model", model, "--missing", "98,99", "--out", str(tmp_path / "i"), "--quiet"]) == 0
    filled = pd.read_csv(tmp_path / "i" / "imputed.csv")
    assert filled[ITEMS.split(",")].isin([1, 2, 3, 4]).all(axis=None)
    assert list(filled) == list(SURVEY)
    assert (SURVEY["psu"] == 99).any()  # a name is a name
    asked = ["predict", path, "--model", model, "--missing", "98,99", "--id", "psu", "--quiet"]
    assert main([*asked, "--out", str(tmp_path / "p")]) == 0
    found = pd.read_csv(tmp_path / "p" / "predictions.csv")
    assert found["psu"].tolist() == SURVEY["psu"].tolist()
    assert found["value"].tolist() == pd.read_csv(tmp_path / "memory" / "classes.csv")["class"].tolist()
    assert main(["report", model, path, "--missing", "98,99", "--out", str(tmp_path / "r"), "--quiet"]) == 0


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_semicolons_decimal_commas_and_latin_letters_give_the_answer_of_the_plain_file(tmp_path, ending, capsys):
    plain = written(tmp_path / "plain.csv", index=False)
    odd = written(tmp_path / "odd.csv", encoding="cp1252", sep=";", decimal=",", index=False)
    if ending == "csv.gz":
        import gzip

        (tmp_path / "odd.csv.gz").write_bytes(gzip.compress((tmp_path / "odd.csv").read_bytes()))
        odd += ".gz"
    rules = ["--drop", "psu", "--bins", "4", "--components", "2", "--no-report"]
    assert main(["table", plain, *rules, "--out", str(tmp_path / "plain")]) == 0
    capsys.readouterr()
    for engine in ("memory", "stream"):
        assert main(["table", odd, *rules, "--engine", engine, "--out", str(tmp_path / engine)]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert "is not UTF-8 and is read as Windows-1252 (Latin-1)" in said
        assert "is read as separated by semicolons, with commas in the decimals of the numbers" in said
        assert files_of(tmp_path / engine, "classes", "profiles") == files_of(tmp_path / "plain", "classes", "profiles")
    assert main(["table", odd, *rules, "--encoding", "cp1252", "--out", str(tmp_path / "named")]) == 0
    assert "UTF-8" not in capsys.readouterr().err
    assert files_of(tmp_path / "named", "profiles") == files_of(tmp_path / "plain", "profiles")


def test_measurements_with_decimal_commas_are_numbers(tmp_path):
    frame = pd.DataFrame(np.round(RNG.normal(size=(80, 4)) + RNG.integers(0, 2, (80, 1)) * 4, 3), columns=list("abcd"))
    odd = {"sep": ";", "decimal": ","}
    for name, how in (("plain", {}), ("odd", odd)):
        path = written(tmp_path / f"{name}.csv", frame, **how)
        out = str(tmp_path / name)
        assert main(["factors", path, "--components", "1", "--out", out, "--quiet", "--no-report"]) == 0
    assert files_of(tmp_path / "odd", "switches", "weights") == files_of(tmp_path / "plain", "switches", "weights")


def test_survey_codes_one_and_two_are_yes_and_no_and_the_model_remembers_which(tmp_path, capsys):
    pairs = SURVEY[["smokes", "drinks", "town"]].assign(extra=RNG.integers(1, 3, N), old=SURVEY["age"] > 40)
    path = written(tmp_path / "s.csv", pairs, index=False)
    for engine in ("memory", "stream"):
        assert main(["cluster", path, "--components", "2", "--engine", engine, "--out", str(tmp_path / engine)]) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert "4 columns hold two values other than 0/1 or yes/no, and the later one in order counts as yes" in said
        assert "('smokes': 2, 'drinks': 2, 'town': 'Zürich' and 1 more)" in said
    names = ("clusters", "frequencies")
    assert files_of(tmp_path / "memory", *names) == files_of(tmp_path / "stream", *names)
    some = written(tmp_path / "some.csv", pairs[pairs["smokes"] == 2], index=False)  # one value alone
    model = str(tmp_path / "memory" / "model.latent")
    assert main(["predict", some, "--model", model, "--out", str(tmp_path / "p"), "--quiet"]) == 0
    found = pd.read_csv(tmp_path / "p" / "predictions.csv")["value"]
    assert found.tolist() == pd.read_csv(tmp_path / "memory" / "clusters.csv")["cluster"][pairs["smokes"] == 2].tolist()


def test_a_third_code_is_refused_with_the_option_that_helps(tmp_path, capsys):
    frame = SURVEY[["smokes", "drinks"]].copy()
    frame.loc[7, "drinks"] = 9
    path = written(tmp_path / "s.csv", frame, index=False)
    assert main(["cluster", path, "--out", str(tmp_path / "o")]) == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "column 'drinks' holds 1 in row" not in said
    assert "(1, 2, 9 in all)" in said
    assert main(["cluster", path, "--missing", "9", "--components", "2", "--out", str(tmp_path / "o")]) == 0


def test_named_columns_are_cut_into_intervals_though_their_numbers_are_few(tmp_path, capsys):
    path = written(tmp_path / "s.csv", index=False)
    rules = ["--columns", f"{ITEMS},age,income", "--components", "2", "--no-report"]
    for engine in ("memory", "stream"):
        out = ["--engine", engine, "--out", str(tmp_path / engine)]
        assert main(["table", path, *rules, "--bins", "age=5,income=3", *out]) == 0
    assert files_of(tmp_path / "memory", "classes", "profiles") == files_of(tmp_path / "stream", "classes", "profiles")
    profiles = pd.read_csv(tmp_path / "memory" / "profiles.csv")
    assert profiles[profiles["class"] == 0].groupby("column").size()[["age", "income"]].tolist() == [5, 3]
    capsys.readouterr()
    model = str(tmp_path / "memory" / "model.latent")
    assert main(["query", model, "P(age=20)"]) == 0
    asked = capsys.readouterr()
    lowest = profiles[profiles["column"] == "age"]["category"].iloc[0]
    assert f"note: age=20 is answered for the whole interval it falls into: age {lowest}" in asked.err
    assert main(["query", model, "P(q0=1 | age=20)", "--json"]) == 0
    assert "whole interval" in json.loads(capsys.readouterr().out)["notes"][0]
    assert main(["table", path, *rules, "--bins", "agee=5", "--out", str(tmp_path / "o")]) == 3
    assert "bins= names a column 'agee' that the table does not have; did you mean 'age'?" in capsys.readouterr().err
    assert main(["table", path, "--columns", "q0,town", "--bins", "town=5", "--out", str(tmp_path / "o")]) == 3
    assert "bins= names column 'town', which holds text such as 'Köln'" in capsys.readouterr().err


def test_every_file_of_a_folder_of_texts_is_a_document(tmp_path, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    for n in range(12):
        words = ("cat dog fish " if n % 2 else "sun rain snow ") * 5
        (folder / f"report {n}.txt").write_text(words.replace("fish ", "fish\n\n") + f"\nword{n}\n", encoding="utf-8")
    assert main(["topics", str(folder), "--topics", "2", "--out", str(tmp_path / "o"), "--no-report"]) == 0
    assert "each of the 12 files of the folder is a document, called by its name" in capsys.readouterr().err
    found = pd.read_csv(tmp_path / "o" / "documents.csv")
    assert sorted(set(found["document"])) == sorted(f"report {n}.txt" for n in range(12))
    more = ["--model", str(tmp_path / "o" / "model.latent"), "--out", str(tmp_path / "p"), "--quiet"]
    assert main(["predict", str(folder), *more]) == 0
    assert pd.read_csv(tmp_path / "p" / "documents.csv")["document"].tolist() == found["document"].tolist()
    one = str(folder / "*.txt")  # files that are named have a document a line, as ever
    assert main(["topics", one, "--topics", "2", "--out", str(tmp_path / "l"), "--no-report", "--quiet"]) == 0
    assert pd.read_csv(tmp_path / "l" / "documents.csv")["document"].nunique() > 12


def test_fasta_that_is_called_text_is_read_as_fasta(tmp_path, capsys):
    letters = ["".join(RNG.choice(list("ACGT"), 70)) for _ in range(6)]
    records = [f">chr{n} human\n{letters[2 * n]}\n{letters[2 * n + 1]}\n" for n in range(3)]
    (tmp_path / "genes.txt").write_text("".join(records))
    out = str(tmp_path / "o")
    assert main(["hmm", str(tmp_path / "genes.txt"), "--states", "1", "--out", out, "--no-report"]) == 0
    assert "genes.txt begins with > and is read as FASTA" in " ".join(capsys.readouterr().err.split())
    states = pd.read_csv(tmp_path / "o" / "states.csv")
    assert set(states["symbol"]) == set("ACGT")
    assert states.groupby("sequence", sort=False).size().to_dict() == {"chr0": 140, "chr1": 140, "chr2": 140}
    assert "".join(states["symbol"]) == "".join(letters)
    (tmp_path / "mail.txt").write_text("> he said so\n> and so on\nno more words here\n" * 5)
    assert main(["hmm", str(tmp_path / "mail.txt"), "--states", "1", "--out", out, "--no-report"]) == 0
    assert "FASTA" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lines", "header"),
    [
        (["source target", *(f"n{n} n{n + 1}" for n in range(8))], True),
        (["# made by hand", "FromNodeId\tToNodeId", *(f"{n}\t{n + 1}" for n in range(8))], True),
        (["alpha,beta", *(f"{n},{n + 1}" for n in range(8))], True),
        (["one other strength", *(f"n{n} n{n + 1} {n + 1}" for n in range(8))], True),
        ([f"n{n} n{n + 1}" for n in range(8)], False),
        ([f"{n} {n + 1}" for n in range(8)], False),
    ],
)
def test_a_line_of_column_names_is_no_edge(lines, header, tmp_path, capsys):
    (tmp_path / "edges.txt").write_text("\n".join(lines) + "\n")
    out = str(tmp_path / "o")
    assert main(["communities", str(tmp_path / "edges.txt"), "--blocks", "1", "--out", out, "--no-report"]) == 0
    assert ("names columns and is not read as an edge" in " ".join(capsys.readouterr().err.split())) == header
    assert len(pd.read_csv(tmp_path / "o" / "communities.csv")) == 9


@pytest.mark.parametrize("command", ["table", "cluster", "labels", "hmm", "topics", "communities", "factors"])
def test_every_fit_takes_max_iter(command, tmp_path):
    rows = RNG.integers(0, 2, (60, 4))
    texts = {
        "table": "a,b,c,d\n" + "\n".join(",".join(map(str, row)) for row in rows),
        "cluster": "a,b,c,d\n" + "\n".join(",".join(map(str, row)) for row in rows),
        "factors": "a,b,c,d\n" + "\n".join(",".join(map(str, row + RNG.normal(0, 0.1, 4))) for row in rows),
        "labels": "task,worker,label\n" + "\n".join(f"{n},{m},{rows[n, m]}" for n in range(60) for m in range(4)),
        "hmm": "sequence,symbol\n" + "\n".join(f"{n},{rows[n, m]}" for n in range(60) for m in range(4)),
        "topics": "document,word\n" + "\n".join(f"{n},w{rows[n, m] + 2 * m}" for n in range(60) for m in range(4)),
        "communities": "source,target\n" + "\n".join(f"{n},{(n * 7 + m) % 60}" for n in range(60) for m in range(1, 4)),
    }
    number = {"hmm": "--states", "topics": "--topics", "communities": "--blocks"}.get(command, "--components")
    more = [] if command == "labels" else [number, "2"]
    path = tmp_path / "x.csv"
    path.write_text(texts[command] + "\n")
    assert main([command, str(path), *more, "--max-iter", "1", "--out", str(tmp_path / "o"), "--no-report"]) == 0
    assert json.loads((tmp_path / "o" / "summary.json").read_text())["n_iter"] <= 1
