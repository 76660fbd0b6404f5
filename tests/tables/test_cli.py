"""The table commands as a user meets them: files, rules for odd input, sentences."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from latentfit import LatentClassClassifier, LatentClassImputer
from latentfit.cli.main import main
from latentfit.io.read import read_columns
from latentfit.io.write import write_columns


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, 200)
    columns = {"person": [f"p{i}" for i in range(200)]}
    for n in range(5):
        answers = np.where(rng.random(200) < 0.9, hidden, 1 - hidden)
        columns[f"q{n}"] = [None if rng.random() < 0.1 else ("no", "yes")[a] for a in answers]
    columns["age"] = np.round(20 + 20 * hidden + rng.standard_normal(200), 2)
    columns["weight"] = np.where(np.arange(200) % 2, 1.5, 0.5)
    path = tmp_path / "survey.csv"
    write_columns(pa.table(columns), path, format="csv")
    return path


def fit(survey, out, *more):
    arguments = ["table", str(survey), "--id", "person", "--weights", "weight", "--bins", "5", "--components", "2"]
    return main([*arguments, "--out", str(out), *more])


def test_table_writes_everything(survey, tmp_path, capsys):
    out = tmp_path / "out"
    assert fit(survey, out, "--json") == 0
    said = capsys.readouterr()
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(said.out) == summary
    always = {"command", "version", "n_rows", "n_components", "log_likelihood", "converged", "n_iter", "seconds"}
    assert always | {"verdict", "reasons"} <= set(summary)
    assert (summary["n_rows"], summary["n_components"], summary["n_columns"]) == (200, 2, 6)
    assert pc.read_csv(out / "classes.csv").column_names == ["person", "class", "probability"]
    assert pc.read_csv(out / "profiles.csv").column_names == ["class", "column", "category", "probability"]
    assert sorted(p.name for p in out.iterdir()) == [
        "classes.csv", "model.latent", "profiles.csv", "report.html", "summary.json",
    ]  # fmt: skip
    for words in ("verdict", "tell most about the class", "weight", "wrote"):
        assert words in said.err


def test_table_takes_the_number_of_initialisations_and_says_how_many_reached_the_best(survey, tmp_path):
    assert fit(survey, tmp_path / "out", "--n-init", "7", "--json") == 0
    notes = json.loads((tmp_path / "out" / "summary.json").read_text())["notes"]
    assert any("EM runs carried to the end, from 7 initialisations" in note for note in notes)
    assert fit(survey, tmp_path / "other", "--n-init", "0") == 2


@pytest.mark.parametrize("command", ["table", "cluster"])
def test_several_files_are_all_read_whatever_the_engine(survey, tmp_path, command):
    """With --engine memory too, which used to read the first one only."""
    rows = read_columns(survey).drop_columns(["age"])
    files = [tmp_path / "all.csv", tmp_path / "one.csv", tmp_path / "two.csv"]
    for path, part in zip(files, (rows, rows.slice(0, 120), rows.slice(120)), strict=True):
        write_columns(part, path, format="csv")
    stem = {"table": "classes.csv", "cluster": "clusters.csv"}[command]
    options = ["--id", "person", "--weights", "weight", "--components", "2", "--engine", "memory", "--quiet", "--out"]
    written = []
    for given in (files[:1], files[1:]):
        assert main([command, *map(str, given), *options, str(tmp_path / str(len(given)))]) == 0
        written.append((tmp_path / str(len(given)) / stem).read_text())
    assert written[0] == written[1]
    assert len(written[0].splitlines()) == 201


def test_a_saved_model_is_used(survey, tmp_path, capsys):
    assert fit(survey, tmp_path / "out", "--quiet") == 0
    model = str(tmp_path / "out" / "model.latent")
    assert main(["impute", str(survey), "--model", model, "--out", str(tmp_path / "i"), "--quiet"]) == 0
    before, after = pc.read_csv(survey).to_pydict(), pc.read_csv(tmp_path / "i" / "imputed.csv").to_pydict()
    assert list(before) == list(after)
    for name, cells in before.items():
        assert all(new == old for old, new in zip(cells, after[name], strict=True) if old not in (None, ""))
        assert all(new not in (None, "") for new in after[name])
    arguments = ["predict", str(survey), "--model", model, "--id", "person", "--quiet"]
    assert main([*arguments, "--out", str(tmp_path / "c")]) == 0
    assert pc.read_csv(tmp_path / "c" / "predictions.csv").column_names == ["person", "value", "probability"]
    assert main([*arguments, "--out", str(tmp_path / "q"), "--target", "q0"]) == 0
    guessed = pc.read_csv(tmp_path / "q" / "predictions.csv")["value"].to_pylist()
    assert np.mean([g == t for g, t in zip(guessed, before["q0"], strict=True) if t]) > 0.8
    assert main(["sample", model, "-n", "20", "--seed", "3", "--out", str(tmp_path / "s"), "--quiet"]) == 0
    assert pc.read_csv(tmp_path / "s" / "sample.csv").num_rows == 20
    capsys.readouterr()
    assert main(["query", model, "P(q0 | q1=yes)", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert sum(row["probability"] for row in rows) == pytest.approx(1)
    assert main(["query", model, "E(age | q0=yes)"]) == 0
    assert 30 < float(capsys.readouterr().out) < 42
    assert main(["query", model, "P(agee)"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert "did you mean" in said[0]
    assert said[2].index("^") == said[1].index("agee")


def test_a_saved_classifier_predicts_its_label(survey, tmp_path, capsys):
    rows = read_columns(survey)
    reported = np.array(["yes" if age > 30 else "no" for age in map(float, rows["age"].to_pylist())])
    model = tmp_path / "m.latent"
    LatentClassClassifier(1).fit(rows.select([f"q{n}" for n in range(5)]), reported).save(model)
    arguments = ["predict", str(survey), "--model", str(model)]
    assert main([*arguments, "--id", "person", "--out", str(tmp_path / "p")]) == 0
    assert "200 rows: their label predicted" in capsys.readouterr().err
    written = pc.read_csv(tmp_path / "p" / "predictions.csv")
    assert written.column_names == ["person", "value", "probability"]
    assert np.mean(np.array(written["value"].to_pylist()) == reported) > 0.95
    assert min(written["probability"].to_pylist()) >= 0.5
    assert main([*arguments, "--target", "q0", "--out", str(tmp_path / "t")]) == 3
    assert "predicts its own label; leave --target out" in capsys.readouterr().err
    assert main(["impute", str(survey), "--model", str(model), "--out", str(tmp_path / "i")]) == 3
    assert "holds a LatentClassClassifier, not a table's model" in capsys.readouterr().err


def test_a_saved_imputer_serves_the_table_commands(survey, tmp_path):
    model = tmp_path / "m.latent"
    LatentClassImputer(2).fit(read_columns(survey).select([f"q{n}" for n in range(5)])).save(model)
    assert main(["impute", str(survey), "--model", str(model), "--out", str(tmp_path / "i"), "--quiet"]) == 0
    filled = pc.read_csv(tmp_path / "i" / "imputed.csv")
    assert all(word in ("no", "yes") for n in range(5) for word in filled[f"q{n}"].to_pylist())


BAD = {
    "none of the 2 columns holds a value": "a,b\n,\n,\n",
    "no rows": "a,b\n",
    "line 3": "a,b\nx,y\nz\n",
    "bins=10": "a,b\n" + "".join(f"x,{i}.5\n" for i in range(60)),
    "it looks like an id": "a,b\n" + "".join(f"x,w{i}\n" for i in range(100_000)),
    "3 classes were asked of 2 rows": "a,b\nx,y\nz,w\n",
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_tables_get_one_sentence(sentence, tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text(BAD[sentence])
    assert main(["table", str(path), "--components", "3", "--out", str(tmp_path / "out"), "--quiet"]) == 3
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_negative_weights_and_wrong_names_are_refused(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("a,b,w\nx,y,-1\nz,y,1\n")
    assert main(["table", str(path), "--weights", "w", "--components", "1", "--out", str(tmp_path / "o")]) == 3
    assert "negative" in capsys.readouterr().err
    assert main(["table", str(path), "--id", "aa", "--out", str(tmp_path / "o")]) == 3
    assert "did you mean 'a'?" in capsys.readouterr().err


def test_unseen_categories_and_empty_columns_are_reported(survey, tmp_path, capsys):
    assert fit(survey, tmp_path / "out", "--quiet") == 0
    lines = survey.read_text().splitlines()
    new = tmp_path / "new.csv"
    cells = lines[1].split(",")
    cells[1] = "purple"
    new.write_text("\n".join([lines[0], ",".join(cells)]) + "\n")
    model = str(tmp_path / "out" / "model.latent")
    assert main(["impute", str(new), "--model", model, "--out", str(tmp_path / "i")]) == 0
    assert "never seen stand in 1 cells, for example 'purple'" in capsys.readouterr().err
    assert "purple" in (tmp_path / "i" / "imputed.csv").read_text()
    missing = tmp_path / "gaps.csv"
    missing.write_text("a,b,c\n" + "x,,u\ny,,v\n" * 20)
    assert main(["table", str(missing), "--components", "1", "--out", str(tmp_path / "g")]) == 0
    assert "set aside: 1, for example 'b'" in capsys.readouterr().err


def test_missing_values_that_are_not_numbers_are_counted_as_filled(tmp_path, capsys):
    """A missing value is NaN in files of numbers, and no null; a column that the model does not know keeps its missing
    values."""
    yes = np.tile([0.0, 1.0], 30)
    rows = pa.table({"a": yes, "b": yes, "c": yes})
    write_columns(rows, tmp_path / "rows.parquet", format="parquet")
    line = ["table", str(tmp_path / "rows.parquet"), "--components", "2", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(line) == 0
    missing = pa.table({"a": [np.nan, 1.0, 0.0], "b": [1.0, None, np.nan], "c": [0.0, 1.0, 1.0], "z": [np.nan] * 3})
    write_columns(missing, tmp_path / "gaps.parquet", format="parquet")
    line = ["impute", str(tmp_path / "gaps.parquet"), "--model", str(tmp_path / "out" / "model.latent")]
    assert main([*line, "--out", str(tmp_path / "i"), "--json"]) == 0
    reported = capsys.readouterr()
    assert json.loads(reported.out)["n_filled"] == pc.read_csv(tmp_path / "i" / "cells.csv").num_rows == 3
    assert "3 missing values filled in 3 rows, 3 left" in reported.err


@pytest.mark.parametrize("command", ["table", "cluster"])
def test_weights_of_any_size_are_sampling_weights_and_counts_are_declared(command, tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = (rng.random((80, 5)) < np.where(rng.random(80) < 0.5, 0.8, 0.2)[:, None]).astype(int)
    times = rng.integers(1, 4, 80)
    found = []
    for name, weight, kind in (
        ("huge", 1e300 * times, "sampling"), ("tiny", 1e-300 * times, "sampling"), ("plain", times, "sampling"),
        ("counted", times, "frequency"),
    ):  # fmt: skip
        lines = [",".join(map(str, [*row, w])) for row, w in zip(rows, weight, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,d,e,w", *lines]) + "\n")
        line = [command, str(tmp_path / f"{name}.csv"), "--components", "2", "--weights", "w", "--weight-type", kind]
        assert main([*line, "--out", str(tmp_path / name), "--json", "--quiet", "--no-report"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert [one["log_likelihood"] for one in found[:2]] == pytest.approx([found[2]["log_likelihood"]] * 2)
    assert found[3]["log_likelihood"] < 1.5 * found[2]["log_likelihood"] < 0  # 160 rows, and 70 that count
    line = [command, str(tmp_path / "tiny.csv"), "--weights", "w", "--weight-type", "frequency", "--quiet"]
    assert main([*line, "--out", str(tmp_path / "x")]) == 3
    assert "and frequencies count rows; give whole numbers" in capsys.readouterr().err


def test_comparison_intervals_and_how_sure_each_filled_cell_is(survey, tmp_path, capsys):
    assert fit(survey, tmp_path / "o", "--compare", "3", "--bootstrap", "5", "--quiet") == 0
    comparison = (tmp_path / "o" / "comparison.csv").read_text().splitlines()
    assert comparison[0].startswith("n_components,log_likelihood,n_parameters")
    assert [line.split(",")[0] for line in comparison[1:]] == ["1", "2", "3"]
    intervals = (tmp_path / "o" / "intervals.csv").read_text().splitlines()
    assert intervals[0] == "class,column,category,probability,se,low,high"
    assert len(intervals) == len((tmp_path / "o" / "profiles.csv").read_text().splitlines())
    sizes = pc.read_csv(tmp_path / "o" / "class_sizes.csv").to_pydict()
    assert list(sizes) == ["class", "weight", "se", "low", "high"]
    assert all(
        low <= size <= high for low, size, high in zip(sizes["low"], sizes["weight"], sizes["high"], strict=True)
    )
    model = str(tmp_path / "o" / "model.latent")
    assert main(["impute", str(survey), "--model", model, "--out", str(tmp_path / "i"), "--quiet"]) == 0
    cells = pc.read_csv(tmp_path / "i" / "cells.csv").to_pydict()
    assert list(cells) == ["row", "column", "value", "probability"]
    missing = pc.read_csv(survey, convert_options=pc.ConvertOptions(strings_can_be_null=True)).to_pydict()
    assert all(missing[name][row - 1] is None for row, name in zip(cells["row"], cells["column"], strict=True))
    assert len(cells["row"]) == sum(cell is None for name, column in missing.items() for cell in column)


@pytest.mark.parametrize("command", ["table", "factors"])
def test_ids_that_are_numbers_in_one_file_and_words_in_another_are_text(command, tmp_path):
    """Parquet has one type a column, and the first rows are written before the last are seen."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2, (80, 3)) + (rng.normal(0, 0.1, (80, 3)) if command == "factors" else 0)
    ids = {"a": list(range(40)), "b": [f"p{n}" for n in range(40)]}
    for at, (name, some) in enumerate(ids.items()):
        rows = {f"x{n}": numbers[40 * at : 40 * at + 40, n] for n in range(3)}
        write_columns(pa.table({"id": some, **rows}), tmp_path / f"{name}.parquet", format="parquet")
    wanted = list(map(str, ids["a"])) + ids["b"]
    line = [command, str(tmp_path), "--id", "id", "--components", "1", "--quiet", "--no-report", "--out"]
    for format_ in ("parquet", "csv"):
        assert main([*line, str(tmp_path / "o"), "--format", format_]) == 0
        stem = "classes" if command == "table" else "switches"
        assert read_columns(tmp_path / "o" / f"{stem}.{format_}").column("id").to_pylist() == wanted


def test_files_that_are_streamed_give_what_memory_gives(tmp_path, capsys):
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 2, 600)
    lines = ["person,a,b,c,d"]
    for at, one in enumerate(hidden):
        words = np.where(rng.random(4) < 0.8, one, 1 - one)
        lines.append(",".join([f"p{at}", *("" if rng.random() < 0.05 else str(word) for word in words)]))
    (tmp_path / "whole.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "one.csv").write_text("\n".join(lines[:250]) + "\n")
    (tmp_path / "two.csv").write_text("\n".join([lines[0], *lines[250:]]) + "\n")
    common = ["--id", "person", "--components", "2", "--quiet"]
    assert main(["table", str(tmp_path / "whole.csv"), *common, "--out", str(tmp_path / "memory")]) == 0
    parts = [str(tmp_path / "one.csv"), str(tmp_path / "two.csv")]
    cache = ["--cache", str(tmp_path / "cache")]
    assert main(["table", *parts, *common, *cache, "--out", str(tmp_path / "stream")]) == 0
    for name in ("classes.csv", "profiles.csv"):
        assert (tmp_path / "stream" / name).read_text() == (tmp_path / "memory" / name).read_text()
    assert list((tmp_path / "cache").iterdir())
    in_memory = "--compare and --bootstrap need the rows in memory; give one file and --engine memory"
    for refused, words in ((["--compare", "3"], in_memory), (["--engine", "abacus"], "abacus")):
        assert main(["table", *parts, *refused, "--out", str(tmp_path / "refused")]) == 2
        assert words in capsys.readouterr().err
    assert main(["table", *parts, "--id", "persn", "--out", str(tmp_path / "refused")]) == 3


def test_impute_writes_as_many_drawn_tables_as_asked_for(tmp_path, capsys):
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=300)
    frame = pd.DataFrame({f"q{k}": np.where(rng.random(300) < 0.8, group, 1 - group) for k in range(4)})
    frame.mask(rng.random(frame.shape) < 0.2).to_csv(tmp_path / "survey.csv", index=False)
    assert main(["table", str(tmp_path / "survey.csv"), "--components", "2", "--out", str(tmp_path / "t")]) == 0
    asked = ["impute", str(tmp_path / "survey.csv"), "--model", str(tmp_path / "t" / "model.latent")]
    assert main([*asked, "--draws", "2", "--out", str(tmp_path / "i")]) == 0
    one, two = (pd.read_csv(tmp_path / "i" / f"imputed_{k}.csv") for k in (1, 2))
    assert not one.isna().any().any()
    assert not one.equals(two)
