"""A column given twice: the verdict on latent classes says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from latentfit import LatentClass


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_copies", [1, 2])
def test_a_column_given_twice_is_reported(seed, n_copies):
    """Classes along the categories of two equal columns explain them: four for two, and nothing was said."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=(1500, 1))
    sound = pd.DataFrame(np.where(rng.random((1500, 6)) < np.where(kind, 0.8, 0.2), "yes", "no")).add_prefix("q")
    twice = sound.assign(**{f"c{n}": np.where(sound["q0"] == "yes", "ja", "nein") for n in range(n_copies)})
    twice = twice.mask(rng.random(twice.shape) < 0.1)
    report = LatentClass(random_state=seed).fit(twice).report_
    assert report.verdict == "caution"
    assert any(reason.startswith("Columns 'q0' and 'c0' say the same in every row") for reason in report.reasons)
    assert ["q0", "c0"] in report.quantities["equal_columns"]
    assert len(report.quantities["equal_columns"]) == n_copies * (n_copies + 1) / 2
    report = LatentClass(2, random_state=seed).fit(sound).report_
    assert report.quantities["equal_columns"] == []
    assert report.verdict == "ok"


def test_rare_answers_that_agree_by_chance_are_not_reported():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=(600, 1))
    rows = pd.DataFrame(rng.random((600, 6)) < np.where(kind, 0.8, 0.2)).astype(int).add_prefix("q")
    rare = np.zeros(600, int)
    rare[:9] = 1
    assert LatentClass(2).fit(rows.assign(a=rare, b=rare)).report_.quantities["equal_columns"] == []
