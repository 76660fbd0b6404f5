"""The claims of the sparse-pairs paper, run briefly: linear sample size, and what no test can beat."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproduction import KEYS, keys_of
from reproduction.pairs_linear import AUTO, MEASURES, METHODS, REGULARISED
from reproduction.table import Run, render, write_curves

pytestmark = pytest.mark.slow


def test_the_keys_are_listed():
    assert {"pairs:linear", "pairs:testing"} <= set(keys_of("pairs"))


def test_linear_sample_size_briefly(tmp_path: Path):
    outcome = KEYS["pairs:linear"](Run(quick=True))
    errors = {(row.dataset, row.method, row.variant): row.ours for row in outcome.rows if row.measure == MEASURES[0]}
    assert {method for _, method, _ in errors} == set(METHODS)
    for world in ("example1", "example2", "zipf"):
        for size in ("M = 200", "M = 500"):
            few, many = (errors[f"{world}, N/M = {ratio}", AUTO, size] for ratio in (5, 20))
            assert many < few
            plain = errors[f"{world}, N/M = 20", REGULARISED, size]
            assert many < plain < errors[f"{world}, N/M = 20", "independence", size]
        small, large = (errors[f"{world}, N/M = 20", REGULARISED, size] for size in ("M = 200", "M = 500"))
        assert large < 1.2 * small, "the error must not grow with the number of items"
    assert "ℓ₁ error of B" in render("pairs:linear", outcome)
    written, _ = write_curves(outcome.curves, tmp_path / "linear")
    assert (tmp_path / "linear.csv") in written


def test_power_and_its_bounds_briefly():
    outcome = KEYS["pairs:testing"](Run(quick=True))
    proportions = {(row.dataset, row.variant): row.ours for row in outcome.rows}
    assert proportions["2-state chain, t = 1/4", "N/M = 8"] == 1.0
    assert proportions["Example 1, C = 0.8", "N/M = 8"] == 1.0
    for source in ("uniform symbols", "independent pairs, even marginals", "independent pairs, Zipf marginals"):
        assert proportions[source, "N/M = 8"] <= 0.3
    assert all("no test above" in row.note for row in outcome.rows if row.dataset.startswith("2-state"))
