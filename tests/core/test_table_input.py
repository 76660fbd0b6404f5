"""Odd tables: each has a documented rule or one clear sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from latentfit import LatentClass
from latentfit.core.errors import DataError, DataWarning
from latentfit.core.table.input import read_table


def test_words_that_spell_numbers_are_numbers():
    table = read_table(pd.DataFrame({"x": ["1.5", "2.50", None, "1.5"], "zip": ["007", "12", "3", "4"]}))
    assert table.columns[0].categories.tolist() == [1.5, 2.5]
    assert table.columns[1].categories.tolist() == ["007", "12", "3", "4"]
    again = read_table(pd.DataFrame({"x": ["1.50", "9"], "zip": ["007", "12"]}).iloc[:1], columns=table.columns)
    assert again.codes.tolist() == [[0, 0]]


def test_words_that_are_not_all_finite_numbers_stay_words():
    table = read_table(pd.DataFrame({"x": ["1.5", "inf"], "y": ["1.5", "a"]}))
    assert [column.categories.dtype.kind for column in table.columns] == ["O", "O"]


def test_many_numbers_name_bins():
    frame = pd.DataFrame({"x": [f"{i / 7:.3f}" for i in range(80)]})
    with pytest.raises(DataError, match=r"80 distinct numbers.*bins=10"):
        read_table(frame)
    column = read_table(frame, bins=4).columns[0]
    assert column.size == 4
    assert (np.diff(column.values) > 0).all()
    with pytest.raises(DataError, match="give 2 or more"):
        read_table(frame, bins=1)
    with pytest.raises(DataError, match="bins=70000 cuts column 'x' into more than 10,000 intervals; give 2 to 10,000"):
        read_table(pd.DataFrame({"x": np.arange(70_000) * 1.5}), bins=70_000)  # codes have two bytes


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_bins_of_a_column_that_is_nearly_always_its_least_value(engine):
    frame = pd.DataFrame({"x": [0.0] * 950 + [1.5 + n for n in range(51)], "y": [n % 2 for n in range(1001)]})
    model = LatentClass(1, bins=10, engine=engine).fit(frame)
    assert model._columns[0].categories.tolist() == ["< 1.5", ">= 1.5"]
    assert model._columns[0].centres.tolist() == [0.0, 26.5]
    assert read_table(frame, columns=model._columns, group=False).codes[949:951, 0].tolist() == [0, 1]


def same_bins(one, other):
    assert one.categories.tolist() == other.categories.tolist()
    assert (one.edges.tobytes(), one.centres.tobytes()) == (other.edges.tobytes(), other.centres.tobytes())


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_bins_count_a_row_of_weight_w_as_w_rows(engine):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": np.round(rng.normal(size=400), 2), "y": rng.integers(0, 2, 400)})
    frame.loc[rng.random(400) < 0.1, "x"] = np.nan
    weight = rng.integers(0, 4, 400) * np.where(frame["x"] > 0.5, 3, 1)
    copies = frame.loc[np.repeat(frame.index, weight)]
    weighted = LatentClass(1, bins=6, weight_type="frequency", engine=engine).fit(frame, sample_weight=weight)
    same_bins(weighted._columns[0], LatentClass(1, bins=6).fit(copies)._columns[0])
    assert weighted._columns[0].edges.tolist() != read_table(frame, bins=6).columns[0].edges.tolist()
    plain = LatentClass(1, bins=6, engine=engine).fit(frame, sample_weight=np.ones(400))
    same_bins(plain._columns[0], read_table(frame, bins=6).columns[0])


def test_bins_of_weights_that_are_shares_of_one_row():
    x = np.arange(200) ** 2.0
    weight = np.where(np.arange(200) < 100, 3.0, 1.0)
    column = read_table(pd.DataFrame({"x": x}), bins=4, sample_weight=weight / weight.sum()).columns[0]
    table = read_table(pd.DataFrame({"x": x}), columns=[column], group=False)
    held = np.bincount(table.codes[:, 0], weight) / weight.sum()
    assert held == pytest.approx(np.full(4, 0.25), abs=0.01)
    spread = np.bincount(table.codes[:, 0], weight * x) / np.bincount(table.codes[:, 0], weight)
    assert column.centres == pytest.approx(spread)


def test_a_column_of_missing_values_is_set_aside_and_one_category_is_kept():
    frame = pd.DataFrame({"a": ["x", "y"] * 10, "gap": [None] * 20, "one": ["z"] * 20})
    with pytest.warns(DataWarning, match="set aside: 1, for example 'gap'"):
        model = LatentClass(2).fit(frame)
    assert [len(words) for words in model.categories_] == [2, 1]
    assert model.joint_.prob({"one": "z"}) == pytest.approx(1)


def test_unseen_categories_are_missing_and_warned_of():
    model = LatentClass(2).fit(pd.DataFrame({"a": ["x", "y"] * 10, "b": [1, 2] * 10}))
    with pytest.warns(DataWarning, match="never seen stand in 1 cells.*'new' in column 'a'"):
        probabilities = model.predict_proba(pd.DataFrame({"a": ["new"], "b": [1]}))
    np.testing.assert_allclose(probabilities, model.predict_proba(pd.DataFrame({"a": [None], "b": [1]})))


@pytest.mark.parametrize(
    ("frame", "weight", "sentence"),
    [
        ({"a": ["x", "y"]}, [-1, 1], "negative"),
        ({"a": ["x", "y"]}, [0, 0], "all row weights are zero"),
        ({"a": ["x", "y"]}, [1], "sample_weight must have 2 weights, one per row, got 1"),
        ({"a": []}, None, "no rows"),
        ({"a": [1.0, np.inf]}, None, "infinite"),
        ({"a": [f"w{i}" for i in range(100_000)]}, None, "100,000 distinct values"),
    ],
)
def test_refusals(frame, weight, sentence):
    with pytest.raises(DataError, match=sentence):
        read_table(pd.DataFrame(frame), sample_weight=weight)


def test_a_name_twice_is_refused():
    for frame in (pd.DataFrame([[0, 1]] * 4, columns=["a", "a"]), pa.table([pa.array([0, 1])] * 2, ["a", "a"])):
        with pytest.raises(DataError, match="the frame has two columns with the name 'a'; give every column its own"):
            read_table(frame)


def test_more_classes_than_rows():
    with pytest.raises(DataError, match="5 classes were asked of 3 rows"):
        LatentClass(5).fit(pd.DataFrame({"a": ["x", "y", "z"]}))
    with pytest.raises(DataError, match="n_components must be an int >= 1"):
        LatentClass(0).fit(pd.DataFrame({"a": ["x", "y", "z"]}))


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_intervals_are_a_number_or_one_for_each_named_column(engine):
    frame = pd.DataFrame({"age": np.arange(40) % 20, "x": np.arange(40) // 8 / 7.0, "word": ["a", "b"] * 20})
    model = LatentClass(1, bins={"age": 4}, engine=engine).fit(frame)
    assert [column.size for column in model._columns] == [4, 5, 2]
    for bins, sentence in (
        ([1, 2], r"bins must be an int, a mapping or None, got \[1, 2\]"),
        ({"ages": 4}, "names a column 'ages' that the table does not have; did you mean 'age'"),
        ({"age": 1}, "must be an int >= 2, got 1"),
        ({"word": 4}, "'word', which holds text such as 'a'"),
    ):
        with pytest.raises(DataError, match=sentence):
            LatentClass(1, bins=bins, engine=engine).fit(frame)


def test_few_numbers_are_cut_where_intervals_are_asked_for():
    """46 measurements are no 46 categories; a mapping names the columns where other numbers are codes."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=46), "code": rng.integers(0, 30, 46), "answer": [1, 2] * 23})
    sizes = {column.name: column.size for column in read_table(frame, bins=5).columns}
    assert sizes == {"size": 5, "code": 5, "answer": 2}
    named = {column.name: column.size for column in read_table(frame, bins={"size": 5}).columns}
    assert named == {"size": 5, "code": frame["code"].nunique(), "answer": 2}
