"""The imputer as a step: pipelines, cross-validation, grid search, every kind of frame."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from latentfit import LatentClass, LatentClassImputer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def table():
    """Three classes made six columns of words and numbers, a quarter of the cells is lost; the class is the label."""
    rng = np.random.default_rng(3)
    hidden = rng.integers(0, 3, 240)
    codes = np.where(rng.random((240, 6)) < 0.8, hidden[:, None], rng.integers(0, 3, (240, 6)))
    frame = pd.DataFrame(np.array(["a", "b", "c"], object)[codes], columns=[f"q{n}" for n in range(6)])
    frame["q5"] = codes[:, 5]
    return frame.mask(rng.random(frame.shape) < 0.25), hidden


def step(imputer=None):
    encoder = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(imputer or LatentClassImputer(3), encoder, LogisticRegression())


def test_cross_validation(table):
    frame, label = table
    scores = cross_val_score(step(), frame, label, cv=3)
    assert scores.mean() > 0.85
    assert np.array_equal(scores, cross_val_score(step(), frame, label, cv=3))


def test_grid_search(table):
    frame, label = table
    grid = {"latentclassimputer__n_components": [1, 3], "latentclassimputer__smoothing": [0.5, "auto"]}
    search = GridSearchCV(step(), grid, cv=3).fit(frame, label)
    assert search.best_score_ > 0.85
    assert search.best_estimator_[0].n_components_ == search.best_params_["latentclassimputer__n_components"]
    assert search.predict(frame).shape == label.shape


def test_it_is_the_same_model_as_latent_class(table):
    frame, _ = table
    imputer, model = LatentClassImputer(3).fit(frame), LatentClass(3).fit(frame)
    assert np.array_equal(imputer.weights_, model.weights_)
    pd.testing.assert_frame_equal(imputer.transform(frame), model.impute(frame))
    assert imputer.get_params() == model.get_params()


def test_frames_come_back_as_they_came(table):
    frame, _ = table
    imputer = LatentClassImputer(3).fit(frame)
    filled = imputer.transform(frame.set_index(np.arange(240) + 7))
    assert isinstance(filled, pd.DataFrame)
    assert filled.index[0] == 7
    assert not filled.isna().any().any()
    kept = frame.notna().to_numpy()
    assert (filled.to_numpy()[kept] == frame.to_numpy()[kept]).all()
    arrow = pa.Table.from_pandas(frame)
    assert isinstance(imputer.transform(arrow), pa.Table)
    assert isinstance(imputer.transform(pl.from_arrow(arrow)), pl.DataFrame)
    assert imputer.get_feature_names_out().tolist() == list(frame.columns)


def test_matrices_come_back_as_matrices(table):
    frame, _ = table
    codes = frame.apply(lambda column: column.map({"a": 0.0, "b": 1.0, "c": 2.0, 0: 0.0, 1: 1.0, 2: 2.0})).to_numpy()
    filled = LatentClassImputer(3).fit_transform(codes)
    assert isinstance(filled, np.ndarray)
    assert filled.dtype == codes.dtype
    assert not np.isnan(filled).any()
    words = np.where(np.isnan(codes), None, np.array(["1.0", "2.50", "3"], object)[np.nan_to_num(codes).astype(int)])
    filled = LatentClassImputer(3).fit_transform(words)
    assert {type(cell) for cell in filled.reshape(-1)} == {str}  # words that spell numbers stay words
    assert set(filled.reshape(-1)) == {"1.0", "2.50", "3"}


@pytest.mark.parametrize("gap", [None, np.nan])
def test_missing_values_in_lists_are_filled(gap):
    rows = [["a", "x"], ["b", "y"], ["a", gap], [gap, "y"]] * 10
    imputer = LatentClassImputer(2).fit(rows)
    assert imputer.transform(rows)[:4].tolist() == [["a", "x"], ["b", "y"], ["a", "x"], ["b", "y"]]
    reported = imputer.imputed_cells(rows).to_pydict()
    assert (reported["row"][::10], reported["value"][::10]) == ([3, 2], ["b", "x"])


def test_set_output(table):
    frame, _ = table
    imputer = LatentClassImputer(3).set_output(transform="pandas")
    out = imputer.fit_transform(frame)
    assert list(out.columns) == list(frame.columns)
    codes = frame[["q5"]].assign(other=frame["q5"]).to_numpy()
    out = LatentClassImputer(2).set_output(transform="polars").fit_transform(codes)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == ["x0", "x1"]


def test_a_column_of_missing_values_stays(table):
    frame, _ = table
    out = LatentClassImputer(2).fit_transform(frame.assign(empty=np.nan))
    assert list(out.columns)[-1] == "empty"
    assert out["empty"].isna().all()


DAYS = pd.to_datetime("2020-01-01") + pd.to_timedelta([0, 1, 2], unit="D")
COLUMNS = {
    "words": pd.Series(["a", "b", "c"], dtype=object),
    "nullable words": pd.Series(["a", "b", "c"], dtype="string"),
    "nullable numbers": pd.Series([1, 2, 3], dtype="Int64"),
    "nullable truth": pd.Series([True, False, True], dtype="boolean"),
    "single precision": pd.Series([1, 2, 3], dtype="float32"),
    "categories": pd.Series(["a", "b", "c"], dtype="category"),
    "intervals": pd.Series(pd.cut([0.1, 0.5, 0.9], 3)),
    "days": pd.Series(DAYS),
    "periods": pd.Series(DAYS.to_period("D")),
    "spans": pd.Series(DAYS - DAYS[0]),
    "closed words": pl.Series(["a", "b", "c"], dtype=pl.Enum(["c", "b", "a"])),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_keep_their_type(kind):
    values, codes = COLUMNS[kind], np.random.default_rng(5).integers(0, 3, (60, 3))
    if isinstance(values, pl.Series):
        whole = pl.DataFrame({name: values.gather(codes[:, n]) for n, name in enumerate("xyz")})
        holes = whole.with_columns(x=pl.when(pl.arange(60) % 4 == 1).then(None).otherwise(pl.col("x")))
    else:
        whole = pd.DataFrame({name: values.iloc[codes[:, n]].reset_index(drop=True) for n, name in enumerate("xyz")})
        holes = whole.assign(x=whole["x"].mask(np.arange(60) % 4 == 1))
    filled = LatentClassImputer(2, max_iter=5, tol=0).fit(whole).transform(holes)
    assert list(filled.dtypes) == list(holes.dtypes) == list(whole.dtypes)
    assert set(filled["x"]) <= set(values)
    kept = np.arange(60) % 4 != 1
    assert (filled["x"].to_numpy()[kept] == whole["x"].to_numpy()[kept]).all()
