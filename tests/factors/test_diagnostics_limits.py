"""Checks of residuals, rows and features on both sides of their limits, and what is expected to be wrong."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import BinaryFactors
from latentfit.core.tensor.whitened import Spectrum, count_switches, ratio_threshold, threshold
from latentfit.core.verdict import Examiner
from latentfit.factors.diagnostics import verdict as switches
from latentfit.factors.diagnostics.missing import ObservedCounts, examine_cells
from latentfit.factors.diagnostics.residuals import Residuals, repeated_rows, residuals_of, running_number
from latentfit.factors.diagnostics.verdict import is_shown
from latentfit.factors.page import _title


def drawn(seed=0, n=2_000, m=12, d=3, noise=0.4):
    rng = np.random.default_rng(seed)
    h = (rng.random((n, d)) < [0.2, 0.3, 0.4][:d]).astype(float)
    W = 1.5 * rng.standard_normal((d, m))
    return h, W, h @ W + noise * rng.standard_normal((n, m))


def outcome(report, name):
    (check,) = [check for check in report.checks if check.name == name]
    return check


def test_every_check_has_a_name_a_title_and_no_sentence_where_it_passed():
    report = BinaryFactors().fit(drawn()[2]).report_
    assert report.verdict == "ok"
    assert [check.name for check in report.checks] == [
        "sample_size", "rare_switches", "resolution", "structure_found", "noise_dimensions", "last_switch",
        "further_switch", "two_values", "running_number", "repeated_rows", "equal_noise", "independent_noise",
        "outlying_rows", "unique_switches", "half_samples", "even_switches", "converged",
    ]  # fmt: skip
    assert all(check.title and not check.reason for check in report.checks)


def spectrum_of(values, mean=None):
    m = len(values)
    return Spectrum(500, m, np.zeros(m) if mean is None else mean, np.asarray(values, float), np.eye(m))


@pytest.mark.parametrize(("ratio", "found"), [(0.99, False), (1.01, True)])
def test_structure_is_an_eigenvalue_of_the_covariance_above_the_noise(ratio, found):
    rest = np.linspace(1.1, 0.9, 11)
    low, high = 1.0, 3.0
    for _ in range(60):  # the largest value that equals its own limit
        middle = (low + high) / 2
        values = np.array([middle, *rest])
        low, high = (middle, high) if middle < ratio_threshold(values, 500, 12, 1, 0.01) else (low, middle)
    examiner = Examiner()
    assert switches._examine_structure(examiner, spectrum_of([ratio * low, *rest]), None) == found
    assert found or outcome(examiner, "structure_found").reason.startswith("No structure found")


def test_the_mean_of_the_features_is_no_structure():
    mean = np.zeros(12)
    mean[0] = 10.0
    examiner = Examiner()
    assert not switches._examine_structure(examiner, spectrum_of([101.0, *np.linspace(1.1, 0.9, 11)], mean), None)


def test_a_last_switch_must_exceed_the_noise_estimated_with_it():
    """Between the two thresholds the eigenvalue is no switch; at full size it is."""
    rest = np.linspace(1.1, 0.9, 11)
    without, with_it = (
        rule(np.array([20.0, 1.2, *rest]), 500, 13, 2, alpha)
        for rule, alpha in ((threshold, 0.005), (ratio_threshold, 0.01))
    )
    assert without < with_it
    for value, number in (((without + with_it) / 2, 1), (2.0, 2)):
        assert count_switches(np.array([20.0, value, *rest]), 500, 13).d == number


def test_residual_moments_by_hand():
    h, W, rows = drawn()
    report = BinaryFactors(3).fit(rows)
    found = residuals_of(rows, report._params)
    np.testing.assert_allclose(np.sqrt(found.variances), 0.4, rtol=0.08)
    assert abs(found.correlation) < 0.1
    assert found.outlying < 0.005
    noise = rows - h @ W
    by_hand = np.corrcoef(noise.T)[found.pair]
    assert found.correlation == pytest.approx(by_hand, abs=0.02)


def residuals(n=1_000, high=1.0, correlation=0.0, outlying=0.0, m=12):
    variances = np.ones(m)
    variances[0] = high**2
    return Residuals(n, variances, correlation, (0, 3), m * (m - 1) // 2, outlying)


def examined(found, monkeypatch, rows=None):
    rows = drawn()[2] if rows is None else rows
    model = BinaryFactors(3).fit(rows)
    monkeypatch.setattr(switches, "residuals_of", lambda rows, params: found)
    return model.report_


@pytest.mark.parametrize(("high", "passed"), [(1.49, True), (1.51, False)])
def test_noise_may_differ_by_half(high, passed, monkeypatch):
    check = outcome(examined(residuals(high=high), monkeypatch), "equal_noise")
    assert (check.passed, check.value) == (passed, pytest.approx(high))


def test_of_few_rows_noise_may_differ_by_what_they_leave_open():
    assert residuals(n=1_000).noise_ratio_limit == 1.5
    assert residuals(n=40).noise_ratio_limit > 2
    assert residuals(n=1_000).correlation_limit == 0.2
    assert residuals(n=40).correlation_limit > 0.6


@pytest.mark.parametrize(("correlation", "passed"), [(0.19, True), (-0.19, True), (0.21, False), (-0.21, False)])
def test_noise_of_two_features_may_be_correlated_by_a_fifth(correlation, passed, monkeypatch):
    check = outcome(examined(residuals(correlation=correlation), monkeypatch), "independent_noise")
    assert check.passed == passed
    assert passed or "features 0 and 3 is correlated" in check.reason


@pytest.mark.parametrize(("outlying", "passed"), [(0.01, True), (0.011, False)])
def test_one_row_in_a_hundred_may_lie_outside(outlying, passed, monkeypatch):
    check = outcome(examined(residuals(outlying=outlying), monkeypatch), "outlying_rows")
    assert check.passed == passed
    assert check.p_value < 0.001  # a row in a thousand would by chance


def test_spoilt_rows_are_counted_whatever_their_size():
    _, _, rows = drawn()
    spoilt = rows.copy()
    spoilt[:60] += 50 * np.random.default_rng(1).standard_normal((60, 12))
    params = BinaryFactors(3).fit(rows)._params
    assert residuals_of(spoilt, params).outlying == pytest.approx(0.03 + residuals_of(rows, params).outlying, abs=0.004)


@pytest.mark.parametrize(("copies", "passed"), [(100, True), (110, False)])
def test_one_row_in_twenty_may_repeat_another(copies, passed):
    rows = drawn()[2]
    rows[-copies:] = rows[:copies]
    assert repeated_rows(rows) == pytest.approx(copies / 2_000)
    assert outcome(BinaryFactors(3).fit(rows).report_, "repeated_rows").passed == passed


def test_repeated_rows_do_not_depend_on_the_sign_of_zero():
    assert repeated_rows(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])) == pytest.approx(1 / 3)


def test_a_running_number_is_whole_distinct_and_dense():
    rng = np.random.default_rng(0)
    number, rows = rng.permutation(500) + 1.0, rng.standard_normal((500, 3))
    assert running_number(np.column_stack([rows, number]), 500) == 3
    assert running_number(np.column_stack([number, rows]), 500) == 0
    assert running_number(np.column_stack([rows, 7 * number]), 500) is None  # an amount
    assert running_number(np.column_stack([rows, number // 2]), 500) is None  # repeats
    assert running_number(rows, 500) is None


def test_a_switch_on_in_half_of_the_rows_counts_when_the_halves_do_not_confirm_it(monkeypatch):
    _, _, rows = drawn()
    params = BinaryFactors(3).fit(rows)._params
    for change, passed in ((0.19, True), (0.21, False)):
        monkeypatch.setattr(switches, "relative_change", lambda W, other, c=change: np.array([0.0, c, 0.0]))
        monkeypatch.setattr(switches, "_fit_half", lambda half, params, seed, noise, own: params)
        hashes = np.arange(len(rows), dtype=np.uint64)
        for even, expected in (([False, True, False], passed), ([True, False, True], True)):
            examiner = Examiner()
            switches._examine_halves(examiner, rows, params, hashes, 0, None, np.array(even))
            assert outcome(examiner, "even_switches").passed == expected


def observed(missing=0.1, apart=10.0, together=50.0, pairs=50.0):
    d, m = 2, 4
    links = np.full((m, m), 50.0)
    links[:2, 2:] = links[2:, :2] = together
    of_pairs = np.full((d, d), pairs)
    return ObservedCounts(
        100, missing, np.full((d, m), 30.0), np.full((d, m), apart), links, np.full((d, m), 0.25), of_pairs
    )


@pytest.mark.parametrize(
    ("name", "changed", "passed"),
    [
        ("missing_cells", {"missing": 0.3}, True),
        ("missing_cells", {"missing": 0.31}, False),
        ("determined_weights", {"apart": 5.0}, True),
        ("determined_weights", {"apart": 4.9}, False),
        ("linked_features", {"together": 20.0}, True),
        ("linked_features", {"together": 19.9}, False),
        ("observed_pairs", {"pairs": 20.0}, True),
        ("observed_pairs", {"pairs": 19.0}, False),
    ],
)
def test_observed_cells_have_limits(name, changed, passed):
    examiner = Examiner()
    examine_cells(examiner, observed(**changed), list("abcd"))
    assert outcome(examiner, name).passed == passed
    assert len(examiner.failed) == (not passed)


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_the_expected_fraction_of_wrong_states_is_the_actual_one(noise):
    errors = []
    for seed in range(4):
        h, W, rows = drawn(seed, noise=noise)
        model = BinaryFactors(3).fit(rows)
        order = switches.matched_switches(W, model.components_)
        actual = float((model.predict(rows)[:, order] != h).mean())
        expected = model.report_.expected
        assert expected.low <= expected.value <= expected.high
        errors.append((expected.value - actual) / max(actual, 0.002))
    assert abs(np.mean(errors)) < 0.3


def test_a_number_that_a_check_rejects_is_not_the_headline():
    rows = drawn()[2]
    sound, spoilt = BinaryFactors(3).fit(rows), BinaryFactors(2).fit(rows)
    assert is_shown(sound.report_)
    assert _title(sound) == "3 hidden switches behind 12 features"
    assert not is_shown(spoilt.report_)
    assert _title(spoilt) == "2 switches fitted to 12 features, another number than the data show"
