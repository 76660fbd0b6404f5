"""Answers about cells and columns against enumeration by hand, and the tools of social science on the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from latentfit import LatentClass, load
from latentfit.core.errors import DataError


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=400)
    answers = np.where(rng.random((400, 4)) < 0.85, hidden[:, None], 1 - hidden[:, None])
    out = pd.DataFrame({f"q{n}": np.where(answers[:, n], "yes", "no") for n in range(4)})
    out["stars"] = [f"{1 + 2 * a + b}.0" for a, b in zip(hidden, rng.integers(2, size=400), strict=True)]
    return out.mask(rng.random(out.shape) < 0.15)


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> LatentClass:
    return LatentClass(2).fit(frame)


def by_hand(model: LatentClass, row: pd.Series, target: str) -> np.ndarray:
    """P(target | the other observed cells of the row), one product per class."""
    joint = model.weights_.copy()
    for n, name in enumerate(row.index):
        if name != target and not pd.isna(row[name]):
            cell = float(row[name]) if name == "stars" else row[name]
            joint *= model.profiles_[n][:, list(model.categories_[n]).index(cell)]
    return joint / joint.sum() @ model.profiles_[list(row.index).index(target)]


def test_a_column_from_the_others(frame: pd.DataFrame, model: LatentClass) -> None:
    words = [float(word) for word in model.categories_[4]]
    probabilities = np.stack([by_hand(model, row, "stars") for _, row in frame.head(40).iterrows()])
    values, probability = model.predict_column(frame.head(40), "stars")
    assert np.allclose(probability, probabilities.max(axis=1))
    assert [float(v) for v in values] == [words[k] for k in probabilities.argmax(axis=1)]
    assert np.allclose(model.expect_column(frame.head(40), "stars"), probabilities @ words)
    with pytest.raises(DataError, match="holds text"):
        model.expect_column(frame, "q1")


def test_imputed_cells_say_what_impute_does(frame: pd.DataFrame, model: LatentClass) -> None:
    filled, cells = model.impute(frame), model.imputed_cells(frame)
    assert not filled.isna().any().any()
    assert len(cells) == int(frame.isna().sum().sum())
    written = [filled[name].iloc[row] for row, name in zip(cells["row"], cells["column"], strict=True)]
    assert set(filled["stars"]) == set(frame["stars"].dropna())  # missing values in the user's spelling: 2.0, not 2
    assert all(a == b or float(a) == float(b) for a, b in zip(written, cells["value"], strict=True))
    row = cells.iloc[0]
    assert row["probability"] == pytest.approx(by_hand(model, frame.iloc[row["row"]], row["column"]).max())
    matrix = np.array([[0, 1, np.nan], [1, 0, 1], [0, 1, 0]] * 20)
    assert len(LatentClass(2).fit(matrix).imputed_cells(matrix)) == 20


@pytest.mark.parametrize("gap", [pd.NA, None, np.nan, pd.NaT], ids=str)
@pytest.mark.parametrize("words", [True, False])
def test_any_missing_value_of_an_array_of_objects_is_filled(gap: Any, words: bool) -> None:
    matrix = np.array([[0, 1, 0], [1, 0, 1]] * 20, object)
    matrix = matrix.astype(str).astype(object) if words else matrix
    matrix[0, 2] = matrix[3, 0] = gap
    model = LatentClass(2).fit(matrix)
    filled = model.impute(matrix)
    assert [str(filled[0, 2]), str(filled[3, 0])] == ["0", "1"]
    assert model.imputed_cells(matrix).to_pydict()["row"] == [3, 0]


def test_indices_comparison_bootstrap_and_test(frame: pd.DataFrame, model: LatentClass) -> None:
    indices = model.fit_indices()
    assert indices["bic"] == pytest.approx(model.bic(frame))
    assert indices["aic"] == pytest.approx(model.aic(frame))
    table = model.compare(frame, range(1, 5))
    assert table["n_components"].tolist() == [1, 2, 3, 4]
    assert table["log_likelihood"].iloc[1] == pytest.approx(model.log_likelihood_, abs=0.05)
    assert int(table["bic"].argmin()) == 1
    found = model.bootstrap(n_draws=30)
    assert list(found.profiles.columns) == ["class", "column", "category", "probability", "se", "low", "high"]
    assert len(found.profiles) == 2 * sum(len(words) for words in model.categories_)
    for part, name in ((found.weights, "weight"), (found.profiles, "probability")):
        assert ((part["low"] <= part[name] + 1e-12) & (part[name] <= part["high"] + 1e-12)).all()
    one = LatentClass(1).fit(frame)
    assert one.ratio_test(n_draws=19).p_value == pytest.approx(0.05)
    assert model.ratio_test(n_draws=19).p_value > 0.05


def test_a_model_that_went_on_from_another_is_compared(frame: pd.DataFrame, model: LatentClass) -> None:
    """Fits of other numbers of classes cannot begin at the model given: they start as by default."""
    further = LatentClass(init=model).fit(frame)
    pd.testing.assert_frame_equal(further.compare(frame, [1, 2, 3]), LatentClass().compare(frame, [1, 2, 3]))
    assert further.init is model


def test_a_loaded_model_asks_for_rows(frame: pd.DataFrame, model: LatentClass, tmp_path) -> None:
    model.save(tmp_path / "m.latent")
    loaded = load(tmp_path / "m.latent")
    with pytest.raises(DataError, match="keeps no rows"):
        loaded.fit_indices()
    assert loaded.fit_indices(frame) == pytest.approx(model.fit_indices(), rel=1e-12)


def test_results_come_in_the_callers_kind_of_frame(frame: pd.DataFrame) -> None:
    polars = pl.DataFrame({name: [None if pd.isna(v) else v for v in frame[name]] for name in frame})
    model = LatentClass(2).fit(polars)
    for found in (model.impute(polars), model.imputed_cells(polars), model.sample(5), model.compare(polars, [1, 2])):
        assert isinstance(found, pl.DataFrame)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"level": 1.5}, "level must be a number between 0 and 1"),
        ({"n_draws": 1}, "n_draws must be an int >= 2, got 1"),
    ],
)
def test_intervals_that_cannot_be_get_one_sentence(model: LatentClass, asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        model.bootstrap(**asked)


def measured(n: int = 400) -> pd.DataFrame:
    """Two groups of a skewed measurement, with what tells them apart."""
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=n)
    frame = pd.DataFrame({f"q{k}": np.where(rng.random(n) < 0.85, group, 1 - group) for k in range(4)})
    return frame.assign(size=np.round(rng.lognormal(1.0 + group, 0.8), 3))


def test_a_missing_number_gets_its_expected_value_and_beats_the_mean() -> None:
    truth = measured()
    hidden = np.random.default_rng(0).random(len(truth)) < 0.2
    frame = truth.assign(size=truth["size"].mask(hidden))
    model = LatentClass(2, bins=8).fit(frame)
    filled = model.impute(frame)["size"]
    np.testing.assert_allclose(filled[hidden], model.expect_column(frame, "size")[hidden])
    error = np.sqrt(((filled - truth["size"])[hidden] ** 2).mean())
    assert error < np.sqrt(((frame["size"].mean() - truth["size"])[hidden] ** 2).mean())
    cells = model.imputed_cells(frame)
    np.testing.assert_allclose(cells["value"].astype(float), filled[hidden], rtol=1e-5)
    assert cells["probability"].between(0, 1).all()


def test_drawn_cells_keep_the_associations_that_best_answers_overstate() -> None:
    rng = np.random.default_rng(1)
    n = 4000
    group = rng.integers(2, size=n)
    truth = pd.DataFrame({f"q{k}": (rng.random(n) < np.where(group, 0.75, 0.25)).astype(int) for k in range(6)})
    frame = truth.mask(rng.random(truth.shape) < 0.4)
    model = LatentClass(2).fit(frame)
    association = truth.corr().loc["q0", "q1"]
    best = model.impute(frame).corr().loc["q0", "q1"]
    drawn = np.mean([model.impute(frame, strategy="draw", random_state=s).corr().loc["q0", "q1"] for s in range(5)])
    assert best > association + 0.15
    assert drawn == pytest.approx(association, abs=0.03)
    again = model.impute(frame, strategy="draw", random_state=2)
    pd.testing.assert_frame_equal(again, model.impute(frame, strategy="draw", random_state=2))
    assert (again[frame.notna()] == frame)[frame.notna()].where(frame.notna(), True).all().all()
    with pytest.raises(DataError, match="must be 'best' or 'draw'"):
        model.impute(frame, strategy="mean")
