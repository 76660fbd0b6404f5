"""`./dev reproduce pairs:communities`: the rows of a quick run."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction import KEYS
from reproduction.draw import draw_communities
from reproduction.table import Run, render


@pytest.mark.slow
def test_quick_run(tmp_path):
    outcome = KEYS["pairs:communities"](Run(quick=True))
    rows = {(row.dataset, row.method, row.measure): row for row in outcome.rows}
    above = [row for row in outcome.rows if "N/M = 10" in row.dataset and row.method == "BlockModel"]
    assert {row.measure for row in above} == {"overlap", "ℓ1 error of B", "doubted %"}
    assert min(row.ours for row in above if row.measure == "overlap") > 0.8
    assert max(row.ours for row in above if row.measure == "ℓ1 error of B") < 0.25
    assert rows["K = 5, even degrees, strength 0.5", "BlockModel", "doubted %"].ours == 100
    assert rows["K = 5, even degrees, strength 3", "BlockModel", "doubted %"].ours == 0
    assert "pairs:communities" in render("pairs:communities", outcome)
    assert np.isfinite(outcome.curves.columns["overlap"]).all()
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'latentfit[plot]'")
    draw_communities(outcome.curves.columns, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
