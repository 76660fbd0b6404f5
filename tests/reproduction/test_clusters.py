"""`./dev reproduce clusters`: every key runs briefly; the rule is right where it should be, pure data stay
whole."""

from __future__ import annotations

import numpy as np
import pyarrow.csv as pc
import pytest

from latentfit.simulate import bernoulli_mixture
from reproduction import keys_of
from reproduction.__main__ import main
from reproduction.clusters_grid import (
    Setting,
    copy_settings,
    grid_settings,
    hard_settings,
    judge,
    judged_labels,
)


@pytest.mark.slow
@pytest.mark.parametrize("key", keys_of("clusters"))
def test_every_key_runs_briefly(key, tmp_path, capsys):
    assert main([key, "--quick", "--repeats", "1", "--out", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out.startswith(key)
    rows = pc.read_csv(tmp_path / "results.csv").to_pylist()
    assert any(row["ours"] is not None for row in rows)
    assert all(row["note"] for row in rows if row["ours"] is None)


def test_the_settings_are_as_many_as_they_say():
    assert len(grid_settings()) == len(set(grid_settings())) == 350
    assert len(hard_settings()) == len(set(hard_settings())) == 192
    assert len(copy_settings()) == 48
    assert sum(one.missing > 0 for one in grid_settings()) == 110


def test_the_generator_draws_what_it_states():
    data = bernoulli_mixture(40_000, 20, 3, separation=16, even=False, missing=0.1, copies=2, random_state=0)
    assert np.bincount(data.clusters) / 40_000 == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.01)
    assert (data.rows < 0).mean() == pytest.approx(0.1, abs=0.003)
    seen = np.where(data.rows < 0, np.nan, data.rows)
    plain = [n for n in range(20) if n not in data.copied]
    for k in range(3):
        share = np.nanmean(seen[data.clusters == k], axis=0)
        assert share[plain] == pytest.approx(data.frequencies[k][plain], abs=0.035)
        for copy, source in data.copied.items():
            mixed = 0.6 * data.frequencies[k, source] + 0.4 * data.frequencies[k, copy]
            assert share[copy] == pytest.approx(mixed, abs=0.035)
    few = bernoulli_mixture(10, 20, 5, informative=0.0, identifiable=True, random_state=1).frequencies
    assert (np.ptp(few, axis=0) > 0).sum() == 7  # 2⌈log₂5⌉ + 1


def test_judging_by_hand():
    truth = np.array([0] * 10 + [1] * 10)
    found = judged_labels(truth, np.array([0] * 9 + [1] * 11), 2, 2, 0.0)
    assert found.right
    assert found.pure == 1.0  # 9 of 9, and 10 of 11 are more than nine in ten
    assert judged_labels(truth, np.zeros(20, int), 1, 2, 0.0).pure == 0.0
    assert judged_labels(truth, truth, 3, 2, 0.0).over


@pytest.mark.slow
def test_the_statistical_number_is_right_where_clusters_can_be_told():
    """Forty tables. The rule is right in 9 of 10 of such settings; 31 or fewer of 40 would come once in 100."""
    settings = [
        Setting(K, L, n, D, even=even)
        for K in (2, 3, 5)
        for L, n in ((20, 1_000), (100, 400))
        for D in (30.0, 20.0)
        for even in (True, False, True)
    ] + [Setting(1, 20, 500, 16.0), Setting(1, 100, 200, 16.0), Setting(1, 20, 100, 16.0), Setting(1, 60, 300, 16.0)]
    judged = [judge(one.draw([20_261, at]), one.n_clusters)[1] for at, one in enumerate(settings)]
    right = sum(one["statistical"].right for one in judged)
    assert len(settings) == 40
    assert right >= 32
    assert right >= sum(one["bic"].right for one in judged)
    assert sum(one["statistical"].over for one in judged) <= 2
    assert not any(one["statistical"].over for one in judged[-4:])
    behind = np.mean([one["true K given"].agreement - one["statistical"].agreement for one in judged])
    assert behind <= 0.03
