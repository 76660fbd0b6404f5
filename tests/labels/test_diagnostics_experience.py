"""The expected error of a consensus: correlation of errors against loops, its interval by binomials, known answers."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, norm

import latentfit
from latentfit.core.mixture.parameters import stack_confusions
from latentfit.core.progress import StageClock
from latentfit.core.verdict import Expectation, FitReport, make_report, unchecked
from latentfit.labels.diagnostics import examine_truth, experience
from latentfit.labels.diagnostics.experience import (
    CORRELATIONS,
    EXPERIENCE,
    LOG_ODDS,
    TUNING,
    Calibration,
    ExpectedErrors,
    after_known_answers,
    calibrate,
    error_distribution,
    error_interval,
    expectation_of,
    expected_errors,
    experience_weight,
    temper,
)
from latentfit.labels.diagnostics.workers import own_posterior
from latentfit.simulate import crowd

INDEPENDENT = Calibration(0.9, 0.0, 0.003)
CORRELATED = Calibration(0.9, 0.05, 0.005)
ERRORS = ExpectedErrors(400, 0.04, 0.05, 0.13, 0.12)


def small_crowd():
    """Labels of 40 tasks of three classes, and a mixture that did not come from them."""
    data = crowd(40, 5, 3, labels_per_task=3, random_state=4).coded()
    rng = np.random.default_rng(0)
    confusions = 0.6 * np.eye(3) + 0.4 * rng.dirichlet(np.ones(3), (5, 3))
    return data, stack_confusions(np.array([0.5, 0.3, 0.2]), confusions), confusions


def test_the_correlation_of_errors_equals_the_loops():
    data, mixture, confusions = small_crowd()
    posterior, scale, products = own_posterior(data, mixture), 0.0, []
    for task in range(data.n_rows):
        cells = range(data.offsets[task], data.offsets[task + 1])
        product = 0.0
        for one, other in combinations(cells, 2):
            for k in range(3):
                usual = [confusions[data.workers[cell], k] for cell in (one, other)]
                residual = [np.eye(3)[data.given[cell]] - p for cell, p in zip((one, other), usual, strict=True)]
                product += posterior[task, k] * residual[0] @ residual[1]
                deviations = [np.sqrt(p * (1 - p)) for p in usual]
                scale += posterior[task, k] * deviations[0] @ deviations[1]
        products.append(product)
    correlation, standard_error = experience.error_correlation(data, mixture)
    assert correlation == pytest.approx(sum(products) / scale)
    assert standard_error == pytest.approx(np.sqrt(np.square(products).sum()) / scale)


def test_one_label_per_task_says_nothing_of_correlation():
    data = crowd(40, 5, 2, labels_per_task=1, random_state=0).coded()
    mixture = stack_confusions(np.full(2, 0.5), np.tile([[0.8, 0.2], [0.3, 0.7]], (5, 1, 1)))
    assert experience.error_correlation(data, mixture) == (0.0, np.inf)
    assert calibrate(data, mixture, 1.0).weight == EXPERIENCE.prior


@pytest.mark.parametrize(("correlation", "error"), [(0.0, 0.01), (0.02, 0.01), (0.06, 0.02), (-0.03, 0.02)])
def test_the_weight_of_experience_is_bayes_rule(correlation, error):
    mean, deviation = EXPERIENCE.log_correlation
    prior = norm.pdf(np.log(CORRELATIONS), mean, deviation)
    estimate = max(correlation, 0.0)
    correlated = (norm.pdf(estimate, CORRELATIONS, error) * prior).sum() / prior.sum()
    odds = EXPERIENCE.prior / (1 - EXPERIENCE.prior) * correlated / norm.pdf(estimate, 0, error)
    assert experience_weight(correlation, error) == pytest.approx(odds / (1 + odds))


def test_far_from_zero_the_weight_is_one_and_near_it_small():
    assert experience_weight(0.5, 0.001) == 1
    assert experience_weight(0.0, 0.002) < 0.05
    assert experience_weight(0.01, 10.0) == pytest.approx(EXPERIENCE.prior, abs=1e-3)


def test_exponents_go_from_the_models_own_to_that_of_public_crowds():
    assert Calibration(0.5, 0.0, 1e-5).exponent == pytest.approx(0.5, rel=1e-3)
    assert (
        Calibration(0.5, 0.2, 1e-3).exponent == Calibration(0.5, 0.2, 1e-3).experienced == 0.5 * EXPERIENCE.temperature
    )


def test_expected_errors_leave_known_answers_out_and_count_the_wrong_ones():
    data, mixture, _ = small_crowd()
    posterior = own_posterior(data, mixture)
    answers = posterior.argmax(axis=1)
    gold = np.full(data.n_rows, -1, np.int32)
    gold[:10] = answers[:10]
    gold[:3] = (answers[:3] + 1) % 3
    errors = expected_errors(replace(data, gold=gold), mixture, CORRELATED)
    assert (errors.n_tasks, errors.n_known, errors.n_wrong) == (30, 10, 3)
    of_known = 1 - temper(posterior[:10], CORRELATED.exponent).max(axis=1)
    assert errors.stated_known == pytest.approx(of_known.mean())
    for value, power in ((errors.own, 1.0), (errors.model, 0.9), (errors.experienced, CORRELATED.experienced)):
        assert value == pytest.approx(1 - temper(posterior[10:], power).max(axis=1).mean())
    assert errors.own < errors.model < errors.stated


def test_expected_errors_are_those_of_the_consensus_that_is_reported():
    data, mixture, _ = small_crowd()
    posterior = own_posterior(data, mixture)
    second = np.argsort(posterior, axis=1)[:, 1]
    errors = expected_errors(data, mixture, CORRELATED, lambda begin, block: np.eye(3)[second[begin:]])
    assert errors.own == pytest.approx(1 - posterior[np.arange(40), second].mean())


def test_the_distribution_is_the_mixture_of_experience_and_model():
    weight = Calibration(0.9, 0.02, 0.012).weight
    assert 0.2 < weight < 0.95
    density = error_distribution(ERRORS, Calibration(0.9, 0.02, 0.012))
    rise = logit(0.05) - logit(0.04)
    expected = weight * norm.pdf(LOG_ODDS, logit(0.13), EXPERIENCE.spread)
    expected += (1 - weight) * norm.pdf(LOG_ODDS, logit(0.05), TUNING.model_spread + TUNING.spread_by_rise * rise)
    np.testing.assert_allclose(density, expected / expected.sum(), rtol=1e-3)
    raised = error_distribution(replace(ERRORS, own=0.001), INDEPENDENT)  # beta raised the expectation a lot
    assert experience.median(raised) < experience.median(error_distribution(ERRORS, INDEPENDENT))


def test_the_interval_holds_quantiles_of_the_number_of_errors():
    density = error_distribution(ERRORS, CORRELATED)
    probability = [float(density @ binom.cdf(k, 30, expit(LOG_ODDS))) for k in range(31)]
    low, high = error_interval(density, 30, 0.8)
    assert low * 30 == np.searchsorted(probability, 0.1)
    assert high * 30 == np.searchsorted(probability, 0.9)
    assert error_interval(error_distribution(replace(ERRORS, model=0.001, own=0.001), INDEPENDENT), 20, 0.8)[0] == 0


def test_known_answers_move_the_expected_error_towards_what_they_show():
    before = expectation_of(ERRORS, CORRELATED, 2)
    after = expectation_of(replace(ERRORS, n_known=200, n_wrong=60), CORRELATED, 2)
    assert before.value == ERRORS.stated < after.value < 0.35
    assert after.high - after.low < before.high - before.low
    assert "of 200 known answers the labels alone get 60 wrong" in after.sentence
    same = after_known_answers(error_distribution(ERRORS, CORRELATED), 0, 0)
    np.testing.assert_allclose(same, error_distribution(ERRORS, CORRELATED))


def test_the_sentence_says_what_the_interval_rests_on():
    assert "on public crowds the actual error was" in expectation_of(ERRORS, CORRELATED, 2).sentence
    independent = expectation_of(ERRORS, INDEPENDENT, 2).sentence
    assert "workers err independently as far as the labels show" in independent
    assert "correlation of errors 0.000, standard error 0.003" in independent
    assert "ten known answers per class (--gold)" in independent
    one_class = expectation_of(ERRORS, CORRELATED, 1)
    assert (one_class.value, one_class.low) == (0, None)
    assert "one class only" in one_class.sentence
    all_known = expectation_of(ExpectedErrors(0, 0.0, 0.0, 0.0, 0.0, n_known=30, n_wrong=3), CORRELATED, 2)
    assert (all_known.value, all_known.high) == (0, None)
    assert "Every labelled task has a known answer" in all_known.sentence


def test_where_the_model_is_true_the_probabilities_are_its_own():
    fitted = latentfit.DawidSkene(n_jobs=1).fit(crowd(2_000, 20, 3, labels_per_task=8, random_state=0).labels)
    calibration = fitted._fitted.evidence.calibration
    assert calibration.weight < 0.2
    assert fitted.confidence_ == calibration.exponent > 0.85 * calibration.beta
    assert fitted.report_.expected.value == pytest.approx(1 - fitted.probabilities_.max(axis=1).mean())


def test_crowds_that_err_together_state_more_errors_than_the_model_and_are_closer_to_the_truth():
    """A fifth of the tasks mislead everybody."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = rng.integers(3, size=500)
        right = rng.random((500, 10)) < np.where(rng.random(500) < 0.2, 0.2, 0.9)[:, None]
        other = (truth + rng.integers(1, 3, 500)) % 3  # what misleads is the same for all
        fitted = latentfit.DawidSkene(n_jobs=1).fit(np.where(right, truth[:, None], other[:, None]))
        error, expected = (fitted.labels_ != truth).mean(), fitted.report_.expected
        found.append(
            (abs(expected.value - error), abs(fitted.report_.quantities["expected_error_of_the_model"] - error))
        )
        assert expected.low <= expected.value <= expected.high
    stated, model = np.mean(found, axis=0)
    assert stated < model


def test_a_named_method_reports_its_own_probabilities_and_an_honest_error():
    labels = crowd(300, 10, 2, labels_per_task=5, random_state=1).labels
    fitted = latentfit.DawidSkene(method="majority", n_jobs=1).fit(labels)
    assert fitted.confidence_ == 1
    assert 0 < fitted.report_.expected.low < fitted.report_.expected.high


@pytest.mark.parametrize(
    ("error", "verdict", "words"), [(0.1, "ok", None), (0.31, "caution", "too sure"), (0.01, "caution", "too cautious")]
)
def test_a_consensus_whose_actual_error_is_outside_the_stated_interval_is_never_ok(error, verdict, words):
    expected = Expectation("error of the consensus", 0.12, 0.05, 0.3)
    report = replace(make_report(unchecked(), [], StageClock()), verdict="ok", reasons=[], checks=[], expected=expected)
    found = examine_truth(report, error, 200)
    assert found.verdict == verdict
    assert [check.name for check in found.checks] == ["actual_error"]
    assert all(words in reason and "On 200 tasks with known truth" in reason for reason in found.reasons)
    assert examine_truth(replace(report, expected=None), error, 200).checks == []


def test_an_error_of_the_correlation_that_is_huge_leaves_the_prior():
    assert experience_weight(0.0, 1e200) == pytest.approx(EXPERIENCE.prior)


@pytest.mark.parametrize(("n_truth", "error", "passed"), [(1, 1.0, True), (3, 0.0, True), (100, 0.6, False)])
def test_few_true_answers_must_be_outside_by_more_than_chance(n_truth, error, passed):
    expected = Expectation("error of the consensus", 0.15, 0.05, 0.3)
    report = FitReport("ok", [], {"n_tasks": 1000}, [], {}, [], expected)
    found = examine_truth(report, error, n_truth)
    assert found.checks[-1].passed == passed
    assert found.checks[-1].p_value is not None
    whole = replace(report, quantities={"n_tasks": n_truth})
    assert not examine_truth(whole, error, n_truth).checks[-1].passed  # all tasks: nothing is left to chance
