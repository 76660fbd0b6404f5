"""The information behind the intervals, in parts and at its ends."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from latentfit.clusters.diagnostics import intervals
from latentfit.engine.memory import MemoryEngine, posterior_of
from tests.clusters.simulated_mixtures import mixture_of, table_of


def test_information_in_parts_is_that_at_once(monkeypatch):
    rng = np.random.default_rng(2)
    P = rng.uniform(0.2, 0.8, (3, 7))
    codes = (rng.random((90, 7)) < P[rng.integers(3, size=90)]).astype(np.uint8)
    codes[rng.random((90, 7)) < 0.1] = 255
    table, mixture = table_of(codes), mixture_of([0.5, 0.3, 0.2], P)
    posterior = posterior_of(MemoryEngine(table, 1), mixture)[0]
    core = replace(intervals.SETTINGS, core=3 * 4)  # three of the columns
    monkeypatch.setattr(intervals, "SETTINGS", core)
    whole = intervals.effective_rows(table, mixture, posterior, 0.5)
    monkeypatch.setattr(intervals, "SETTINGS", replace(core, rows_at_once=7, columns_at_once=3))
    parts = intervals.effective_rows(table, mixture, posterior, 0.5)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-8)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-8)
    hidden = intervals._Hidden(codes == 1, codes < 2, posterior, np.full(90, 2.0), P)
    by_hand = np.zeros((3, 3))
    for n in range(90):
        for k in range(3):
            for l in range(3):
                score = [(codes[n, 4] - P[c, 4]) if codes[n, 4] < 2 else 0.0 for c in (k, l)]
                by_hand[k, l] += (
                    2 * ((k == l) * posterior[n, k] - posterior[n, k] * posterior[n, l]) * score[0] * score[1]
                )
    np.testing.assert_allclose(hidden.within(np.array([1, 4]))[1], by_hand)


def test_the_columns_that_differ_most_are_inverted_together(monkeypatch):
    P = np.array([[0.5, 0.9, 0.4, 0.1], [0.5, 0.1, 0.6, 0.2]])
    w = np.array([0.7, 0.3])
    mean = w @ P
    apart = w @ (P - mean) ** 2 / (mean * (1 - mean))
    for core, kept in ((10, 4), (9, 3), (8, 3), (6, 2), (4, 1), (1, 1)):  # K numbers per column and K weights
        monkeypatch.setattr(intervals, "SETTINGS", replace(intervals.SETTINGS, core=core))
        found = intervals.core_columns(mixture_of(w, P), 2, 4)
        assert found.tolist() == sorted(np.argsort(-apart)[:kept].tolist())


def test_rows_are_thinned_above_the_work_allowed(monkeypatch):
    monkeypatch.setattr(intervals, "SETTINGS", replace(intervals.SETTINGS, work=1000.0))
    assert [intervals._step(n, 10) for n in (0, 10, 11, 20, 21)] == [1, 1, 2, 2, 3]


def test_effective_rows_are_the_fraction_of_information_left():
    """1 / (1 + 1.5 (complete · variance − 1)) of the rows seen, a hundredth and one row at the least."""
    seen, complete = np.full(5, 40.0), np.full(5, 8.0)
    variance = np.array([1 / 8, 0.5 / 8, 3 / 8, 1e6, 2 / 8])
    found = intervals._rows(seen, complete, variance)
    assert found == pytest.approx([40, 40, 40 / (1 + 1.5 * 2), 1.0, 40 / 2.5])
    assert intervals._rows(np.array([400.0]), np.array([8.0]), np.array([1e6]))[0] == pytest.approx(4)


def test_an_indefinite_information_is_replaced_by_its_nearest():
    sound = np.array([[4.0, 1.0], [1.0, 9.0]])
    np.testing.assert_allclose(intervals._inverse(sound), np.linalg.inv(sound))
    unsound = np.array([[4.0, 7.2], [7.2, 9.0]])  # scaled to [[1, 1.2], [1.2, 1]]: eigenvalues 2.2 and −.2
    v, u = np.array([1.0, 1.0]) / sqrt(2), np.array([1.0, -1.0]) / sqrt(2)
    scaled = np.outer(v, v) / 2.2 + np.outer(u, u) / 0.01
    np.testing.assert_allclose(intervals._inverse(unsound), scaled / np.outer([2, 3], [2, 3]))


def test_real_weights_count_as_kishs_rows():
    plain = table_of([[0, 1], [1, 1], [0, 0]])
    assert intervals.counted_weight(plain).tolist() == [1, 1, 1]
    whole = table_of([[0, 1], [1, 1], [0, 0]], row_weight=np.array([3.0, 1.0, 2.0]))
    assert intervals.counted_weight(whole).tolist() == [3, 1, 2]
    w = np.array([0.5, 1.5, 2.0])
    found = intervals.counted_weight(table_of([[0, 1], [1, 1], [0, 0]], row_weight=w))
    np.testing.assert_allclose(found, w * w.sum() / (w**2).sum())
    assert found.sum() == pytest.approx(w.sum() ** 2 / (w**2).sum())
