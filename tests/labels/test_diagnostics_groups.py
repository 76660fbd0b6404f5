"""Two groups of workers that agree within and disagree between: the statistic by loops, and what it finds."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import latentfit
from latentfit.core.verdict import Examiner
from latentfit.labels import diagnostics
from latentfit.labels.diagnostics import groups
from latentfit.simulate import crowd


def fit(frame):
    return latentfit.DawidSkene(n_jobs=1).fit(frame)._fitted


def test_the_correlation_on_the_other_half_equals_the_loops():
    rng = np.random.default_rng(0)
    one, other = (rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.7) for _ in range(2))
    counts = rng.integers(10, 30, 6)
    gram = one.T @ one
    gram[np.diag_indices(6)] = 0
    direction = counts / np.linalg.norm(counts)
    project = np.eye(6) - np.outer(direction, direction)
    v = np.linalg.eigh(project @ gram @ project)[1][:, -1]
    assert v @ counts == pytest.approx(0, abs=1e-9)
    products, perfect = [], 0.0
    for row in other:
        pairs = list(combinations(np.flatnonzero(row), 2))
        products.append(sum(v[m] * v[j] * row[m] * row[j] for m, j in pairs))
        perfect += sum(abs(v[m] * v[j]) for m, j in pairs)
    correlation, error = groups._on_other_half(sp.csr_array(one), sp.csr_array(other), counts)
    assert correlation == pytest.approx(sum(products) / perfect)
    assert error == pytest.approx(np.sqrt(np.square(products).sum()) / perfect)


def test_two_readings_of_a_question_are_found_and_named():
    rng = np.random.default_rng(0)
    truth, unclear, school = rng.integers(2, size=800), rng.random(800) < 0.4, np.arange(20) % 2
    meant = np.where(unclear[:, None], school, truth[:, None])
    said = np.where(rng.random((800, 20)) < 0.85, meant, 1 - meant).astype(float)
    said[rng.random(said.shape) < 0.5] = np.nan
    fitted = fit(said)
    found = groups.group_agreement(fitted.evidence.data, fitted.mixture)
    assert found.least == pytest.approx(found.correlation - 3 * found.standard_error)
    assert found.z > 5
    assert any("fall into two groups" in reason for reason in fitted.report.reasons)


def test_independent_workers_are_no_groups():
    least = []
    for seed in range(20):
        fitted = fit(crowd(400, 16, 3, labels_per_task=6, random_state=seed).labels)
        least.append(groups.group_agreement(fitted.evidence.data, fitted.mixture).least)
    assert max(least) < diagnostics.TUNING.grouped


def test_too_few_workers_with_enough_labels_are_not_tested():
    fitted = fit(crowd(60, 3, 2, labels_per_task=3, random_state=0).labels)
    assert groups.group_agreement(fitted.evidence.data, fitted.mixture) is None


@pytest.mark.parametrize(("least", "passed"), [(0.05, True), (0.06, False)])
def test_a_correlation_within_groups_above_the_limit_is_reported(monkeypatch, least, passed):
    found = groups.GroupAgreement(least + 0.03, 0.01)
    monkeypatch.setattr(diagnostics, "group_agreement", lambda labels, mixture: found)
    examiner = Examiner()
    diagnostics._examine_groups(examiner, SimpleNamespace(), None)
    (check,) = examiner.checks
    assert (check.passed, check.limit) == (passed, 0.05)
    assert check.value == pytest.approx(least)
