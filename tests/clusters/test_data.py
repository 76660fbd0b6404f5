"""Odd yes/no tables: each has a documented rule or one clear sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from latentfit import BernoulliMixture, scan
from latentfit.clusters.data import read_binary
from latentfit.core.errors import DataError, DataWarning

NOTHING = 255  # how a missing value is coded
SPELLINGS = {
    "numbers": [0, 1, 1, 0],
    "decimals": [0.0, 1.0, 1.0, 0.0],
    "booleans": [False, True, True, False],
    "words of numbers": ["0", "1", "1.0", "0.0"],
    "true and false": ["False", "TRUE", "true", "f"],
    "yes and no": ["No", "YES", " y ", "n"],
    "mixed": ["no", True, 1, 0.0],
}


def rows(seed=0, n=160, columns=8, missing=0.0):
    """Two clusters that every column tells apart."""
    rng = np.random.default_rng(seed)
    kind = np.repeat([0, 1], n // 2)
    cells = (rng.random((n, columns)) < np.where(kind, 0.85, 0.15)[:, None]).astype(float)
    cells[rng.random(cells.shape) < missing] = np.nan
    return pd.DataFrame(cells, columns=[f"s{n}" for n in range(columns)])


def codes(data, **how):
    return read_binary(data, group=False, **how).codes[:, 0].tolist()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_yes_and_no(spelling):
    values = SPELLINGS[spelling]
    assert codes(pd.DataFrame({"x": pd.Series(values, dtype=object)})) == [0, 1, 1, 0]
    assert codes(np.array(values, object)[:, None]) == [0, 1, 1, 0]
    if spelling != "mixed":
        assert codes(pd.DataFrame({"x": values})) == [0, 1, 1, 0]
        assert codes(pl.DataFrame({"x": values})) == [0, 1, 1, 0]
        assert codes(pa.table({"x": values})) == [0, 1, 1, 0]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_missing_values_in_every_spelling(spelling):
    values = [*SPELLINGS[spelling], None]
    assert codes(pd.DataFrame({"x": pd.Series(values, dtype=object)})) == [0, 1, 1, 0, NOTHING]
    if spelling != "mixed":
        assert codes(pl.DataFrame({"x": values})) == [0, 1, 1, 0, NOTHING]
        assert codes(pa.table({"x": values})) == [0, 1, 1, 0, NOTHING]


def test_missing_values_of_pandas_kinds():
    assert codes(pd.DataFrame({"x": pd.array([True, None, False], "boolean")})) == [1, NOTHING, 0]
    assert codes(pd.DataFrame({"x": pd.array([1, None, 0], "Int8")})) == [1, NOTHING, 0]
    assert codes(pd.DataFrame({"x": [1.0, np.nan, 0.0]})) == [1, NOTHING, 0]
    assert codes(pd.DataFrame({"x": pd.Categorical(["yes", None, "no"])})) == [1, NOTHING, 0]
    assert codes(pd.DataFrame({"x": pd.Series([True, pd.NA, "no"], dtype=object)})) == [1, NOTHING, 0]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0, 1, 2], "2"),
        ([0.0, 1.0, 0.5], "0.5"),
        (["yes", "no", "maybe"], "'maybe'"),
        ([1, 0, -1], "-1"),
        (["1", "0", ""], "''"),
    ],
)
def test_other_values_are_refused_with_column_and_row(values, shown):
    frame = pd.DataFrame({"a": [0, 1, 1], "b": values})
    sentence = rf"column 'b' holds {shown} in row 3 \(.* in all\), and clusters are made.*binarize=.*LatentClass"
    with pytest.raises(DataError, match=sentence) as caught:
        BernoulliMixture().fit(frame)
    assert "\n" not in str(caught.value)
    if shown == "2":  # beside 1 alone it is yes
        return
    with pytest.raises(DataError, match="in row 3"):  # rows are the user's, also when some of them do not count
        BernoulliMixture().fit(frame, sample_weight=[0, 1, 1])


def test_an_infinite_number_is_refused_with_column_and_row():
    frame = pd.DataFrame({"a": [0.0, 1.0, np.inf]})
    for threshold in (None, 0.5):
        with pytest.raises(DataError, match="column 'a' holds an infinite number in row 3; leave the cell empty"):
            read_binary(frame, binarize=threshold)


def test_numbers_are_cut_above_the_threshold():
    frame = pd.DataFrame({"x": [-1.0, 0.0, 0.1, np.nan, 7.0]})
    assert codes(frame, binarize=0.0) == [0, 0, 1, NOTHING, 1]
    assert codes(frame, binarize=0.1) == [0, 0, 0, NOTHING, 1]
    assert codes(pd.DataFrame({"x": ["3", "0.5", None]}), binarize=1.0) == [1, 0, NOTHING]
    assert codes(pd.DataFrame({"x": [True, False]}), binarize=0.5) == [1, 0]
    assert codes(pd.DataFrame({"x": [" 0.7", "0.2 ", " "]}), binarize=0.5) == [1, 0, NOTHING]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["0.1", "NA", "0.7"], "'NA' in row 2, no number; where nothing is known leave the cell empty"),
        (["0.1", "0.2", "0,7"], "'0,7' in row 3, no number; write decimals with a point"),
        (["0.1", "no", "yes"], r"'no' in row 2, no number; leave the column out, for it cannot be cut at 0\.5"),
    ],
)
def test_a_word_that_cannot_be_cut_is_refused_with_its_row(words, reported, tmp_path):
    frame = pd.DataFrame({"x": words})
    with pytest.raises(DataError, match=f"column 'x' holds {reported}"):
        read_binary(frame, binarize=0.5)
    with pytest.raises(DataError, match=reported.partition(",")[0]):  # rows are the user's
        read_binary(frame, binarize=0.5, sample_weight=[0, 1, 1])
    frame.assign(y=1).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(
        DataError, match=f"column 'x' holds {reported.replace(' in row 2', '').replace(' in row 3', '')}"
    ):
        BernoulliMixture(binarize=0.5).fit(scan(tmp_path / "a.csv"))


def test_a_constant_column_is_kept_and_changes_no_row():
    frame = rows()
    alone = BernoulliMixture().fit(frame)
    with_it = BernoulliMixture().fit(frame.assign(always=1, never=0))
    assert with_it.n_components_ == alone.n_components_ == 2
    assert (with_it.labels_ == alone.labels_).all()
    np.testing.assert_allclose(with_it.frequencies_[:, -2], 1.0, atol=1e-9)
    np.testing.assert_allclose(with_it.frequencies_[:, -1], 0.0, atol=1e-9)
    np.testing.assert_allclose(with_it.frequencies_[:, :-2], alone.frequencies_, atol=1e-6)


def test_a_column_twice_is_listed_and_set_aside():
    frame = rows(columns=12, n=300)
    model = BernoulliMixture().fit(frame.assign(again=frame["s4"]))
    assert model.n_components_ == 2
    assert model.copies_.columns.tolist() == ["column", "copies", "correlation"]
    assert [set(pair) for pair in model.copies_[["column", "copies"]].to_numpy()] == [{"again", "s4"}]
    assert model.frequencies_.shape == (2, 13)  # its frequencies are given all the same
    np.testing.assert_allclose(model.frequencies_[:, 4], model.frequencies_[:, 12], atol=0.02)
    assert any("near-duplicates of others" in note for note in model.report_.notes)
    gone = model.copies_["column"][0]
    anything = frame.assign(again=frame["s4"]).assign(**{gone: np.nan})
    assert (model.predict(anything) == model.labels_).all()  # a column set aside is not asked for again


def test_intervals_of_a_column_set_aside_reach_an_end_where_no_row_speaks_against_it():
    """As those of the column that it copies do: one cluster never says yes, every other row of the other one does."""
    frame = rows(columns=12, n=300).assign(rare=np.where(np.arange(300) < 150, 0.0, np.arange(300) % 2))
    model = BernoulliMixture().fit(frame.assign(again=frame["rare"]))
    assert (model.n_components_, len(model.copies_)) == (2, 1)
    found = model.intervals().set_index("column")
    for name in ("rare", "again"):
        never, half = found.loc[name].sort_values("probability").itertuples()
        assert never.low == 0 < never.high < 0.1, name
        assert 0.35 < half.low < 0.5 < half.high < 0.65, name


def test_a_row_of_missing_values_gets_the_weights():
    frame = rows(missing=0.1)
    frame.loc[len(frame)] = np.nan
    model = BernoulliMixture().fit(frame)
    np.testing.assert_allclose(model.predict_proba(frame)[-1], model.weights_, atol=1e-12)
    assert model.labels_[-1] == 0
    np.testing.assert_allclose(model.predict_proba(frame.iloc[-1:])[0], model.weights_, atol=1e-12)


def test_a_column_of_missing_values_is_set_aside_and_changes_nothing_else():
    frame = rows()
    alone = BernoulliMixture().fit(frame)
    with pytest.warns(DataWarning, match="without a single value are set aside: 1, for example 'gap'"):
        model = BernoulliMixture().fit(frame.assign(gap=np.nan))
    assert model.frequencies_.shape == (2, 8)
    np.testing.assert_array_equal(model.frequencies_, alone.frequencies_)
    assert (model.predict(frame.assign(gap=1.0)) == alone.labels_).all()


def test_a_table_of_missing_values_is_refused():
    with pytest.raises(DataError, match="none of the 2 columns holds a value"):
        BernoulliMixture().fit(pd.DataFrame({"a": [None, None], "b": [np.nan, np.nan]}))


def test_columns_of_new_data():
    frame = rows()
    model = BernoulliMixture().fit(frame)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.drop(columns="s3"))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.assign(new=1.0))
    with pytest.raises(DataError, match="column 's0' holds 3 in row 1"):
        model.predict(frame.assign(s0=3))
    table = read_binary(frame)
    with pytest.raises(DataError, match="the model knows a column 's3' that is not among"):
        read_binary(frame.drop(columns="s3"), columns=table.columns)
    as_words = frame.replace({0.0: "no", 1.0: "Yes"}).astype(object)
    assert (model.predict(as_words) == model.labels_).all()  # spelled otherwise than in the fit
