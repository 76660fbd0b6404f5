"""Shared fixtures: real data where it is present, small crowds everywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.csv as pc
import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile("latentfit", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
# tests/mutants.py asks only whether a test fails, not for the smallest example.
settings.register_profile("mutants", settings.get_profile("latentfit"), phases=[Phase.explicit, Phase.generate])
settings.load_profile("latentfit")


def data_folder() -> Path | None:
    """Where the real datasets are: $LATENTFIT_DATA, or ../shared/data beside the checkout."""
    places = [os.environ.get("LATENTFIT_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    return next((Path(place) for place in places if place and Path(place).is_dir()), None)


@pytest.fixture(scope="session")
def crowd_data():
    """A reader of the real crowds: name → (labels table, truth table)."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the real crowds are not here: set LATENTFIT_DATA to the folder that holds crowd/")

    def read(name):
        return tuple(pc.read_csv(folder / "crowd" / name / f"{part}.csv") for part in ("labels", "truth"))

    return read
