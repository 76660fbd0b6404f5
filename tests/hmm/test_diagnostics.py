"""Verdicts on hidden states: doubt where no method can know, trust where the truth is found.

A few inputs run here; ``LATENTFIT_VERDICTS=200`` runs the full count on each side.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from latentfit import CategoricalHMM
from latentfit.core.verdict import Examiner
from latentfit.hmm import diagnostics
from latentfit.hmm.data import read_sequences
from latentfit.hmm.diagnostics import (
    PairFit,
    drift,
    matched,
    neighbour_test,
    number_is_rejected,
    pair_fit,
)
from latentfit.hmm.em.steps import Chain
from latentfit.hmm.page import title_of
from latentfit.hmm.select import HalvesComparison
from latentfit.simulate import draw_sequences, hidden_markov
from tests.hmm.simulated_chains import HOPELESS, hopeless, sound
from tests.system.verdict_counts import assert_doubted, assert_ok


def verdict(world):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CategoricalHMM(world.n_states, n_init=3).fit(world.data).report_


@pytest.mark.slow
def test_inputs_without_an_answer_are_not_trusted():
    assert_doubted(hopeless, verdict, len(HOPELESS))


@pytest.mark.slow
def test_sound_inputs_are_trusted():
    assert_ok(sound, verdict, 6)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(0, "look independent"), (1, "fewer observations than symbols"), (5, "three steps"), (6, "on sequences left out")],
)
def test_the_case_is_named(kind, words):
    report = verdict(hopeless(kind))
    assert any(words.lower() in reason.lower() for reason in report.reasons), report.reasons


def test_structure_test_keeps_its_level():
    """Independent draws are called dependent about as often as the level says."""
    rng = np.random.default_rng(0)
    chain = Chain(np.ones(1), np.ones((1, 1)), rng.dirichlet(np.ones(60), 1))
    found = [neighbour_test(draw_sequences(chain, 1500, 1, rng).sequences).p_value for _ in range(200)]
    assert np.mean(np.array(found) < 0.05) < 0.09


# ------------------------------------------------------- both sides of each limit


def failed(examiner):
    return {check.name for check in examiner.checks if not check.passed}


def two_states(N=6000, seed=0, **options):
    return hidden_markov(N, n_states=2, n_symbols=8, n_sequences=30, overlap=0.2, random_state=seed, **options)


@pytest.mark.parametrize(("copies", "name"), [(0, None), (9, None), (10, "duplicates")])
def test_a_fifth_of_the_steps_in_duplicates_is_told(copies, name):
    different = [list(f"a{at:02d}bcdefgh") for at in range(40)]
    examiner = Examiner()
    diagnostics._examine_duplicates(examiner, read_sequences(different + different[:copies]))
    assert failed(examiner) == ({name} if name else set())
    assert examiner.checks[0].value == pytest.approx(copies / (40 + copies))


@pytest.mark.parametrize(("number", "told"), [(4, True), (5, False)])
def test_fewer_than_five_different_sequences_are_told(number, told):
    different = [list(f"a{at}bcdefg") for at in range(number)]  # eight steps: too short to count as duplicates
    examiner = Examiner()
    diagnostics._examine_duplicates(examiner, read_sequences(different * 20))
    assert failed(examiner) == ({"different_sequences"} if told else set())


@pytest.mark.parametrize(("weight", "empty"), [(0.0099, True), (0.01, False)])
def test_a_state_holds_ten_observations(weight, empty):
    chain = Chain(np.full(2, 0.5), np.full((2, 2), 0.5), np.array([[0.9, 0.1], [0.1, 0.9]]))
    examiner = Examiner()
    diagnostics._examine_states(examiner, chain, np.array([1 - weight, weight]), 1000)
    assert ("state_size" in failed(examiner)) == empty


def test_a_last_state_is_known_by_its_entries_and_states_without_moves_are_not():
    emissions = np.array([[0.9, 0.1], [0.1, 0.9]])
    for transitions, known in (([[0.9, 0.1], [0.0, 1.0]], True), (np.eye(2), False)):
        chain = Chain(np.full(2, 0.5), np.array(transitions), emissions)
        examiner = Examiner()
        diagnostics._examine_states(examiner, chain, np.full(2, 0.5), 1000)
        assert ("state_visits" not in failed(examiner)) == known


def test_states_that_either_half_finds_again_are_stable():
    made = two_states()
    swapped = made.chain.permuted(np.array([1, 0]))
    other = Chain(np.full(2, 0.5), np.full((2, 2), 0.5), made.chain.emissions[:, ::-1])
    for models, stable in (((made.chain, swapped), True), ((other, other), False)):
        examiner = Examiner()
        found = diagnostics._examine_stability(
            examiner, made.sequences, made.chain, HalvesComparison(1, 0.1, models), 1
        )
        assert failed(examiner) == (set() if stable else {"stability"})
        assert (found == [1.0, 1.0]) == stable
    assert diagnostics._examine_stability(Examiner(), made.sequences, made.chain, None, 1) == []


def test_states_are_matched_before_they_are_compared():
    states = np.array([0, 0, 1, 1, 2])
    assert matched(states, np.array([2, 2, 0, 0, 1]), 3) == 1.0
    assert matched(states, np.array([2, 2, 0, 1, 1]), 3) == pytest.approx(0.8)


def test_the_true_model_explains_all_pairs_and_one_of_too_few_states_does_not():
    made = two_states()
    weights = made.chain.stationary()
    fit = pair_fit(made.sequences, made.chain, weights)
    assert fit.explained > 0 > fit.missed
    assert fit.proportion_missed == 0
    ring = np.roll(np.eye(6), 1, axis=1) * 0.7 + 0.05
    seen = draw_sequences(Chain(np.full(6, 1 / 6), ring, np.eye(6)), 4000, 1, np.random.default_rng(0)).sequences
    one = Chain(np.full(2, 0.5), np.full((2, 2), 0.5), np.full((2, 6), 1 / 6))
    fit = pair_fit(seen, one, np.full(2, 0.5))
    assert fit.proportion_missed > 0.95
    assert fit.z > 10
    assert pair_fit(read_sequences([["a", "b", "a"]]), one, weights) is None


@pytest.mark.parametrize(("missed", "told"), [(0.25, False), (0.26, True)])
def test_a_quarter_of_the_dependence_may_be_missed(missed, told, monkeypatch):
    monkeypatch.setattr(diagnostics, "pair_fit", lambda *rest: PairFit(1 - missed, missed, 9.0))
    monkeypatch.setattr(diagnostics, "drift", lambda data: (0.0, 0.0, 1.0))
    examiner = Examiner()
    diagnostics._examine_pairs(examiner, None, None, None)
    assert failed(examiner) == ({"pair_fit"} if told else set())


@pytest.mark.parametrize(
    ("excess", "z", "p_value", "told"),
    [(0.11, 5, 0.01, True), (0.09, 5, 0.01, False), (0.11, 4, 0.01, False), (0.11, 5, 0.02, False)],
)
def test_a_drift_is_sure_and_a_tenth_of_the_dependence(excess, z, p_value, told, monkeypatch):
    monkeypatch.setattr(diagnostics, "pair_fit", lambda *rest: PairFit(1.0, -0.1, -3.0))
    monkeypatch.setattr(diagnostics, "drift", lambda data: (excess, z, p_value))
    examiner = Examiner()
    diagnostics._examine_pairs(examiner, None, None, None)
    assert failed(examiner) == ({"drift"} if told else set())


def test_a_change_in_the_middle_is_a_drift_and_none_is_found_in_one_chain():
    data = two_states(8000).sequences
    p_values = [drift(two_states(3000, seed).sequences)[2] for seed in range(20)]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.2
    codes = data.codes.copy()
    codes[4000:] = (codes[4000:] + 3) % 8
    excess, z, p_value = drift(type(data)(codes, data.offsets, data.symbols, data.names))
    assert p_value == 0.01
    assert z > 10
    assert excess > 0.1


def test_a_rejected_number_is_no_headline():
    made = two_states()
    for n_states, title in ((2, "2 hidden states behind it"), (6, "6 states fitted to it; the data do not show 6")):
        report = CategoricalHMM(n_states).fit(made.sequences).report_
        assert title_of(report, n_states, "it") == title
        assert number_is_rejected(report) == (n_states == 6)
        assert "of the steps" in report.expected.sentence
        assert 0 <= report.expected.low <= report.expected.value <= report.expected.high <= 1
    alone = CategoricalHMM().fit(np.random.default_rng(0).integers(0, 5, 2000))
    assert title_of(alone.report_, 1, "it") == "No hidden states found in it"
    assert alone.report_.expected.value == 0
