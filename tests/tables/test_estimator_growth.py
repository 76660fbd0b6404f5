"""A model as the start of another, and rows that join later."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from latentfit import LatentClass
from latentfit.core.errors import DataError


def made(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    profiles = np.random.default_rng(99).dirichlet(np.full(3, 0.4), size=(6, 2))
    hidden = rng.integers(2, size=n_rows)
    words = np.array(["low", "mid", "top"], object)
    codes = [(p[hidden].cumsum(axis=1)[:, :-1] < rng.random(n_rows)[:, None]).sum(axis=1) for p in profiles]
    frame = pd.DataFrame({f"q{n}": words[column] for n, column in enumerate(codes)})
    return frame.mask(rng.random(frame.shape) < 0.1)


def test_a_fitted_model_as_initialisation_ends_where_it_ended() -> None:
    frame = made(600, 0)
    model = LatentClass(2).fit(frame)
    again = LatentClass(init=model).fit(frame[frame.columns[::-1]])
    assert again.n_iter_ <= 4
    assert again.log_likelihood_ == pytest.approx(model.log_likelihood_, abs=0.05)
    assert np.allclose(again.weights_, model.weights_, atol=1e-3)


def test_an_initialisation_may_know_fewer_categories_and_columns() -> None:
    model = LatentClass(2).fit(made(300, 1)[["q0", "q1", "q2"]])
    grown = made(300, 2)
    grown.loc[:40, "q1"] = "never seen before"
    fresh, warm = LatentClass(2).fit(grown), LatentClass(init=model).fit(grown)
    assert warm.log_likelihood_ == pytest.approx(fresh.log_likelihood_, abs=0.5)
    with pytest.raises(DataError, match="leave n_components out"):
        LatentClass(3, init=model).fit(grown)
    with pytest.raises(DataError, match="knows none"):
        LatentClass(init=model).fit(grown[["q4", "q5"]])


def test_rows_that_join_count_like_rows_that_were_there() -> None:
    first, second = made(800, 3), made(800, 4)
    model = LatentClass(2).fit(first)
    before = model.report_
    model.partial_fit(second)
    whole = LatentClass(2).fit(pd.concat([first, second]))
    assert model._sums.totals.sum() == pytest.approx(1600)
    assert model.score(second) == pytest.approx(whole.score(second), abs=0.01)
    assert model.report_ is not before
    assert "joined" in model.report_.notes[0]
    assert np.allclose(model.weights_, whole.weights_, atol=0.03)


def test_partial_fit_begins_like_fit() -> None:
    frame = made(300, 5)
    assert np.array_equal(LatentClass(2).partial_fit(frame).weights_, LatentClass(2).fit(frame).weights_)
