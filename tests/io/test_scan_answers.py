"""A fitted model answers files (`latentfit.scan`) as it answers the same rows in a frame, by every method of its."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

import latentfit
from latentfit import BinaryFactors, LatentClass, LatentClassClassifier, LatentClassImputer, MixtureFractions
from latentfit.core.errors import DataError, DataWarning
from latentfit.io.read import read_columns
from latentfit.io.scan import whole
from latentfit.io.write import write_columns

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def written(table: pa.Table, folder, ending: str = "parquet") -> latentfit.io.scan.Scan:
    """The rows in two files."""
    for at, part in enumerate((table.slice(0, 40), table.slice(40))):
        write_columns(part, folder / f"part{at}.{ending}", format=ending)
    return latentfit.scan(folder)


@pytest.fixture
def words() -> pa.Table:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (90, 4))
    columns = {name: np.array(["x", "y", "z"], object)[codes[:, n]] for n, name in enumerate("abc")}
    columns["a"][rng.random(90) < 0.2] = None
    return pa.table({**columns, "number": codes[:, 3]})


@pytest.fixture
def numbers() -> pa.Table:
    rows = np.random.default_rng(1).random((90, 5))
    return pa.table({f"f{n}": rows[:, n] for n in range(5)})


ASKED = {
    "impute": lambda model, rows: model.impute(rows).to_pydict(),
    "imputed_cells": lambda model, rows: model.imputed_cells(rows).to_pydict(),
    "predict_column": lambda model, rows: [part.tolist() for part in model.predict_column(rows, "b")],
    "expect_column": lambda model, rows: model.expect_column(rows, "number").tolist(),
    "fit_indices": lambda model, rows: model.fit_indices(rows),
    "ratio_test": lambda model, rows: model.ratio_test(rows, n_draws=3).p_value,
    "compare": lambda model, rows: str(model.compare(rows, [1, 2]).to_pydict()),
}


@pytest.mark.parametrize("question", ASKED)
def test_tables(question, words, tmp_path):
    model, ask = LatentClass(2, max_iter=5, tol=0).fit(words), ASKED[question]
    assert ask(model, written(words, tmp_path)) == ask(model, words)


def test_what_reads_all_rows_at_once(words, numbers, tmp_path):
    (tmp_path / "words").mkdir()
    (tmp_path / "numbers").mkdir()
    told, files = np.arange(90) % 2, written(words, tmp_path / "words")
    classifiers = [LatentClassClassifier(1).fit(rows, told) for rows in (words, files)]
    assert np.array_equal(classifiers[0].predict_proba(words), classifiers[1].predict_proba(files))
    imputer = LatentClassImputer(2, max_iter=5, tol=0).fit(words)
    assert imputer.transform(files).to_pydict() == imputer.transform(words).to_pydict()
    files = written(numbers, tmp_path / "numbers")
    parts = [MixtureFractions(2, max_iter=5, tol=0).fit(rows) for rows in (numbers, files)]
    assert np.array_equal(parts[0].transform(numbers), parts[1].transform(files))
    switches = BinaryFactors(1, max_iter=5, tol=0).fit(numbers)
    for method in ("transform", "predict", "score_samples"):
        assert np.array_equal(getattr(switches, method)(files), getattr(switches, method)(numbers))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_read_whole_has_the_types_of_memory(ending, tmp_path):
    """Whole numbers are numbers (9 before 10), decimals in words can be cut, codes and categories stay words."""
    table = pa.table({
        "whole": pa.array([n % 12 for n in range(120)]), "decimal": [f"{n / 7:.2f}" for n in range(120)],
        "zip": [f"{n % 3:03}" for n in range(120)], "gap": [None, "1"] * 60,
        "kind": pa.array(["10", "9"] * 60).dictionary_encode(),
    })  # fmt: skip
    files = written(table, tmp_path, ending)
    read = pa.concat_tables(read_columns(path) for path in files.paths).unify_dictionaries()
    assert whole(files).schema == read.schema
    assert whole(files).to_pydict() == read.to_pydict()
    told = np.arange(120) % 2
    here, there = (LatentClassClassifier(1, bins=4).fit(rows, told) for rows in (read, files))
    assert [one.categories.tolist() for one in there._columns] == [one.categories.tolist() for one in here._columns]
    assert np.array_equal(there.predict_proba(files), here.predict_proba(read))


def test_weights_of_a_frame_are_no_name(words):
    with pytest.raises(DataError, match="the row weights are no numbers"):
        LatentClass(2).fit(words, sample_weight="number")


@pytest.mark.parametrize("endings", [("csv", "parquet"), ("parquet", "jsonl")], ids="-".join)
def test_files_that_disagree_about_a_type_are_answered_as_they_were_fitted(tmp_path, endings):
    """Words and numbers in one column are words, numbers of two types are numbers: the rule of the streamed fit."""
    parts = (
        pa.table({"a": [1, 2, 1, None], "b": [1, 2, 1, 2], "c": [1.5, 2.5, 1.5, None]}),
        pa.table({"a": ["x", "2", None, "x"], "b": [1.0, 2.0, None, 1.0], "c": ["x", "y", "x", "y"]}),
    )
    for at, (part, ending) in enumerate(zip(parts, endings, strict=True)):
        write_columns(part, tmp_path / f"part{at}.{ending}", format=ending)
    files = latentfit.scan(tmp_path)
    model = LatentClass(1, max_iter=5, tol=0).fit(files)
    words = {"a": ["1", "2", "1", None, "x", "2", None, "x"], "c": ["1.5", "2.5", "1.5", None, "x", "y", "x", "y"]}
    given = pa.table({**words, "b": [1, 2, 1, 2, 1, 2, None, 1]}).select("abc")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)  # of a category that the model has never seen
        filled = model.impute(files)
    assert filled.num_rows == 8
    assert not any(column.null_count for column in filled.columns)
    assert model.score(given) == pytest.approx(model.score(files), rel=1e-12)


def test_a_list_beside_words_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"x": "a"}\n')
    (tmp_path / "b.jsonl").write_text('{"x": ["a"]}\n')
    with pytest.raises(DataError, match=r"column 'x' holds list<.*> in some of the files; give one text or number"):
        whole(latentfit.scan(tmp_path))
