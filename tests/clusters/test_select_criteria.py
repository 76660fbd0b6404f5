"""Criteria along a path against the sums done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit.clusters.select.criteria import (
    choose_by_test,
    number_clusters,
    path_criteria,
    practical_number,
    size_penalty,
    statistical_penalty,
)
from latentfit.core.mixture.bootstrap import information_criteria

LL = np.array([-1000.0, -900.0, -870.0, -862.0, -856.0])
ENTROPY = np.array([0.0, 5.0, 20.0, 30.0, 40.0])


def test_criteria_by_hand() -> None:
    found = path_criteria(LL, ENTROPY, 7, 50.0)
    assert statistical_penalty(7) == pytest.approx(8 + 3 * 2)
    assert found["statistical"].tolist() == pytest.approx([2000, 1828, 1796, 1808, 1824])
    for at in range(5):
        q = (at + 1) * 8 - 1
        other = information_criteria(LL[at], q, 50.0)
        for name in ("aic", "aic3", "bic", "sabic"):
            assert found[name][at] == pytest.approx(other[name], rel=1e-14)
        assert found["icl"][at] == pytest.approx(other["bic"] + 2 * ENTROPY[at])


def test_a_small_cluster_pays_for_being_found_among_many() -> None:
    assert size_penalty(np.array([0.5, 0.5])) == 0
    assert size_penalty(np.array([0.9, 0.1])) == pytest.approx(2 * np.log(5))
    assert size_penalty(np.array([0.6, 0.3, 0.1])) == pytest.approx(2 * (np.log(1 / 0.9) + np.log(1 / 0.3)))
    assert np.isfinite(size_penalty(np.array([1.0, 0.0])))
    sizes = np.array([0.0, 0.0, 20.0, 0.0, 0.0])
    assert path_criteria(LL, ENTROPY, 7, 50.0, None, sizes)["statistical"].tolist() == pytest.approx(
        [2000, 1828, 1836, 1808, 1824]
    )


def test_what_each_criterion_chooses() -> None:
    found = number_clusters(LL, ENTROPY, 7, 50.0)
    assert found.chosen["statistical"] == 3  # steps of 100, 30, 8, 6 against a penalty of 14
    assert found.chosen["aic"] == 3  # 8 per cluster: the step of 8 is a draw, and the smaller stays
    assert found.chosen["aic3"] == 3  # 12 per cluster
    assert found.chosen["bic"] == 3  # 15.6 per cluster
    assert found.chosen["icl"] == 2  # 30 − 15.6 nats, less 15 of entropy
    assert found.chosen["practical"] == 3
    assert set(found.columns) >= {"n_components", "log_likelihood", "step", "entropy", "statistical", "icl"}
    assert {len(column) for column in found.columns.values()} == {5}
    assert not found.differ


def test_practical_stops_before_the_first_small_step() -> None:
    path = np.cumsum([-5000, 1000, 400, 90, 500, 150])
    assert practical_number(path, 6) == 3  # 90 is below a tenth of 1000, whatever comes after
    assert practical_number(path, 6, margin=9.0) == 3
    assert practical_number(path, 6, margin=11.0) == 6  # by less than a step is known: it counts
    assert practical_number(path, 2) == 2  # never beyond the statistical number
    assert practical_number(path, 1) == 1
    assert practical_number(path[:1], 1) == 1
    assert number_clusters(path.astype(float), np.zeros(6), 5, 1e3).differ


def test_a_test_walks_until_it_is_content() -> None:
    assert choose_by_test("abcd", lambda fit: fit < "c") == 3
    assert choose_by_test("abcd", lambda fit: True) == 4
    assert choose_by_test("abcd", lambda fit: False) == 1
    with pytest.raises(ValueError, match="got no fit"):
        choose_by_test("", lambda fit: True)
