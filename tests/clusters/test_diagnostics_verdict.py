"""Every check of clusters on both sides of its limit; those of sizes and columns: tests/system."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latentfit import BernoulliMixture
from latentfit.clusters.diagnostics import verdict
from latentfit.clusters.diagnostics.alternatives import MissingByCluster
from latentfit.clusters.diagnostics.stability import Halves
from latentfit.clusters.diagnostics.verdict import Screening, examine_clusters, rejects_number
from latentfit.clusters.page import page_of
from latentfit.clusters.select.criteria import PathNumbers, pure_number
from latentfit.core.progress import StageClock
from latentfit.core.verdict import make_report
from latentfit.report.page import Context


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    often = np.where(np.arange(14) % 2, [[0.85], [0.15]], [[0.15], [0.85]])
    rows = (rng.random((600, 14)) < often[rng.integers(2, size=600)]).astype(float)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return BernoulliMixture(n_jobs=1).fit(rows)


def examined(model, *, purity=None, numbers=None, **changed):
    settings = {"n_varying": 14, "converged": True, "refitting": model._refitting} | changed
    return examine_clusters(
        model._table, model._mixture, numbers or model._numbers, purity or model._certificates, **settings
    )


def check(examination, name):
    return next(one for one in examination.checks if one.name == name)


def test_sound_clusters_pass_every_check_and_each_is_named_once(model):
    report = model.report_
    names = [one.name for one in report.checks]
    assert report.verdict == "ok"
    assert len(names) == len(set(names))
    assert {
        "structure", "columns_needed", "cluster_size", "evidence_for_number", "numbers_agree", "search_limit", "purity",
        "overlap", "near_duplicates", "local_dependence", "rows_of_zeros", "continuous_trait", "missing_at_random",
        "stability", "local_optimum", "converged",
    } <= set(names)  # fmt: skip
    assert report.headline == f"No problem found by {len(names)} checks."


@pytest.mark.parametrize(
    ("name", "function", "good", "bad"),
    [
        ("continuous_trait", "best_trait", (1e9, 1), (0.0, 1)),
        ("missing_at_random", "missing_by_cluster", MissingByCluster(0.002, 0, 5), MissingByCluster(0.0005, 0, 5)),
        ("repeated_rows", "repeated_rows", (0.49, 100), (0.51, 100)),
        ("stability", "compare_halves", Halves(np.array([0.9, 0.51]), 1.0), Halves(np.array([0.9, 0.49]), 1.0)),
        ("local_optimum", "better_optimum", 0.9, 1.1),
    ],
)
def test_a_check_of_a_refit_has_its_limit(name, function, good, bad, model, monkeypatch):
    for value, passes in ((good, True), (bad, False)):
        monkeypatch.setattr(verdict, function, lambda *args, _value=value, **kwargs: _value)
        one = check(examined(model), name)
        assert one.passed == passes
        assert passes or "limit" in one.reason


def test_impurity_counts_over_all_clusters_together(model):
    for p_value, passes in ((0.006, True), (0.004, False)):  # of one cluster of two, limit .01 for both
        purity = replace(
            model._certificates, p_value=np.array([p_value, 0.5]), flagged=np.array([True, False]),
            suspect_pair=(("a", "b"), ()),
        )  # fmt: skip
        one = check(examined(model, purity=purity), "purity")
        assert one.passed == passes
        known = examined(model, purity=purity, screening=Screening(dependent=(("a", "b", 0.4),)))
        assert check(known, "purity").passed  # said of the pair itself


def test_a_pair_that_depends_on_each_other_is_named(model):
    assert check(examined(model), "local_dependence").passed
    for screening in (Screening(dependent=(("a", "b", 0.4),)), Screening(both=(("a", "b", -0.4),))):
        one = check(examined(model, screening=screening), "local_dependence")
        assert not one.passed
        assert one.value == pytest.approx(0.4)
        assert "'a' and 'b'" in one.reason


@pytest.mark.parametrize(("stated", "passes"), [(0.22, True), (0.24, False)])
def test_overlap_is_reported_where_it_is_more_than_chance(stated, passes, model):
    """Certified .26, so that at least .18 or .22 is impure; the limit is .2."""
    purity = replace(model._certificates, impurity=np.array([0.1, stated]), certified=np.array([0.12, 0.26]))
    one = check(examined(model, purity=purity), "overlap")
    assert one.passed == passes
    assert passes or "cluster 1 may belong to another one" in one.reason


def test_expected_misclassification_covers_the_actual_one_as_stated():
    often = np.where(np.arange(10) % 2, [[0.65], [0.35]], [[0.35], [0.65]])
    inside = []
    for seed in range(25):
        rng = np.random.default_rng([seed, 1])
        kind = rng.integers(2, size=800)
        found = BernoulliMixture(2, n_jobs=1, screen=False).fit((rng.random((800, 10)) < often[kind]).astype(int))
        wrong = (found.labels_ != kind).mean()
        expected = verdict.expected_misclassification(found._certificates)
        inside.append(expected.low <= min(wrong, 1 - wrong) <= expected.high)
        assert expected.quantity == "misclassification"
    assert np.mean(inside) >= 0.6


def test_one_cluster_misplaces_no_row_and_is_no_structure():
    rows = (np.random.default_rng(2).random((300, 10)) < 0.3).astype(int)
    report = BernoulliMixture(n_jobs=1).fit(rows).report_
    assert [one.name for one in report.checks if not one.passed] == ["structure"]
    assert report.expected.value == 0


def test_truncated_fits_are_not_refitted():
    rng = np.random.default_rng(3)
    often = np.repeat(np.eye(2) * 0.5 + 0.1, 8, axis=1)
    rows = (rng.random((800, 16)) < often[rng.integers(2, size=800)]).astype(int)
    names = [
        one.name for one in BernoulliMixture(2, truncated=True, n_jobs=1).fit(rows[rows.any(axis=1)]).report_.checks
    ]
    assert "rows_with_two_ones" in names
    assert not {"stability", "continuous_trait", "rows_of_zeros"} & set(names)


def test_the_default_number_goes_on_to_one_whose_clusters_are_pure():
    chosen = {"practical": 2, "statistical": 4}
    assert pure_number([1, 2, 3, 4], chosen, lambda fit: False) == 2
    assert pure_number([1, 2, 3, 4], chosen, lambda fit: fit < 3) == 3
    assert pure_number([1, 2, 3, 4], chosen, lambda fit: True) == 2
    assert pure_number([1, 2, 3, 4, 5], chosen | {"statistical": 5}, lambda fit: fit < 5) == 2  # too far apart
    assert pure_number([1, 2], {"practical": 2, "statistical": 2}, lambda fit: 1 / 0) == 2


def test_a_number_that_the_checks_reject_is_not_the_headline(model):
    assert not rejects_number(model.report_)
    assert page_of(model, Context({"n_rows": 600})).title == "2 clusters in 600 rows"
    rejected = examined(model, numbers=PathNumbers(model._numbers.columns, {"statistical": 1, "practical": 1}))
    report = make_report(rejected, [], StageClock())
    assert rejects_number(report)
    assert "n_components=1" in check(rejected, "evidence_for_number").reason
