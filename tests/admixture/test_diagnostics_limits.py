"""Every check of ancestry on both sides of its limit, and what the checks of SNPs count."""

from __future__ import annotations

import numpy as np
import pytest

from latentfit import Admixture
from latentfit.admixture.data.genotypes import read_genotypes
from latentfit.admixture.diagnostics.relatives import Kinship, close_relatives
from latentfit.admixture.diagnostics.snps import (
    Heterozygotes,
    Linkage,
    concentration,
    count_heterozygotes,
    few_snps,
    linked_neighbours,
)
from latentfit.admixture.diagnostics.verdict import is_shown, populations_seen
from latentfit.admixture.page import _title
from tests.system.test_diagnostics_of_proportions import examined_ancestry

HALVES = np.tile(np.eye(2), (20, 1))
NOISE = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]


def outcome(name, proportions=HALVES, **changed):
    found = examined_ancestry(proportions, **changed)
    (check,) = [check for check in found.checks if check.name == name]
    return check


def relatives(n_pairs, value, n_people=40):
    pairs = np.arange(2 * n_pairs).reshape(-1, 2)
    return Kinship(pairs, np.full(n_pairs, value), np.arange(n_people), *np.zeros((2, 2)))


def test_every_check_has_a_name_a_title_and_a_sentence_where_it_failed():
    sound = examined_ancestry(HALVES, refit=lambda: (HALVES, -1000.0))
    assert sound.verdict == "ok"
    assert [check.name for check in sound.checks] == [
        "sample_size", "structure_found", "populations_shown", "structure_beyond", "distinct_frequencies", "anchors",
        "people_per_population", "standard_errors", "common_snps", "duplicates", "relatives",
        "family_populations", "kinship_within", "linkage", "linkage_mean", "sex_chromosomes", "hardy_weinberg",
        "concentration", "few_snps", "converged", "other_initialisation",
    ]  # fmt: skip
    assert all(check.title and not check.reason for check in sound.checks)


def test_fewer_than_ten_people_are_too_few():
    assert outcome("sample_size", HALVES[:10]).passed
    assert not outcome("sample_size", HALVES[:9]).passed


def test_nothing_above_the_noise_is_no_structure():
    for K in (1, 2):
        check = outcome("structure_found", np.eye(K)[np.arange(40) % K], spectrum=np.array(NOISE))
        assert (check.passed, check.limit) == (False, 1.5)
        assert check.reason.startswith("No structure found")
    assert outcome("structure_found", spectrum=np.array([9.0, *NOISE])).passed


def test_a_further_population_counts_when_ten_people_carry_it():
    spectrum = np.array([9.0, 8.9, *NOISE])
    assert populations_seen(spectrum) == 3
    for carriers, passed in ((9.9, True), (10.0, False)):
        check = outcome("structure_beyond", spectrum=spectrum, carriers=lambda seen, n=carriers: np.full(seen - 2, n))
        assert check.passed == passed
        assert passed or "ask for 3" in check.reason


def test_structure_beyond_one_population_is_reported():
    check = outcome("structure_beyond", np.ones((40, 1)), spectrum=np.array([9.0, *NOISE]))
    assert "There is structure beyond 1 population: the singular values show 2" in check.reason


@pytest.mark.parametrize(("pairs", "passed"), [(2, True), (3, False)])
def test_a_tenth_of_the_people_may_have_a_close_relative(pairs, passed):
    check = outcome("relatives", kinship=relatives(pairs, 0.25))
    assert (check.value, check.passed) == (2 * pairs / 40, passed)
    assert outcome("duplicates", kinship=relatives(pairs, 0.25)).passed


@pytest.mark.parametrize(("n_people", "passed"), [(100, True), (99, False)])
def test_one_person_in_fifty_may_be_there_twice(n_people, passed):
    proportions = np.eye(2)[np.arange(n_people) % 2]
    kinship = relatives(1, 0.5, n_people)
    assert outcome("duplicates", proportions, kinship=kinship).passed == passed
    assert outcome("relatives", proportions, kinship=kinship).passed


@pytest.mark.parametrize(("fraction", "mean", "failed"), [(0.12, 0.15, 0), (0.121, 0.15, 1), (0.12, 0.151, 1)])
def test_linkage_has_a_limit_for_repeats_and_one_for_the_mean(fraction, mean, failed):
    found = examined_ancestry(HALVES, linkage=Linkage(fraction, mean))
    assert len([check for check in found.checks if not check.passed]) == failed


def test_snps_of_one_copy_count_from_one_in_twenty_on():
    assert outcome("sex_chromosomes", heterozygotes=Heterozygotes(0.05, 0.5)).passed
    assert not outcome("sex_chromosomes", heterozygotes=Heterozygotes(0.051, 0.5)).passed
    assert outcome("sex_chromosomes", heterozygotes=Heterozygotes(0.5, 0.0)).passed  # nobody is without
    assert outcome("hardy_weinberg", heterozygotes=Heterozygotes(0.5, 0.0, lacking_in_others=0.1)).passed
    assert not outcome("hardy_weinberg", heterozygotes=Heterozygotes(0.5, 0.0, lacking_in_others=0.11)).passed


@pytest.mark.parametrize(("fraction", "passed"), [(0.5, True), (0.51, False)])
def test_a_tenth_of_the_genome_may_hold_half_of_a_difference(fraction, passed):
    check = outcome("concentration", concentrated=(fraction, (0, 1)))
    assert check.passed == passed
    assert passed or "between populations 0 and 1" in check.reason


def test_concentration_by_hand():
    frequencies = np.full((400, 2), 0.5)
    frequencies[:, 1] += 0.1
    assert concentration(frequencies, np.arange(400)) == (pytest.approx(0.1), (0, 1))
    frequencies[:, 1] = 0.5
    frequencies[:30, 1] = 0.9
    places = np.arange(400)
    assert concentration(frequencies, places)[0] == pytest.approx(1.0)
    assert concentration(frequencies, np.random.default_rng(0).permutation(400))[0] < 0.5  # all over the genome
    assert concentration(frequencies[:199], np.arange(199)) == (0.0, (0, 1))  # too few stretches


@pytest.mark.parametrize(("fraction", "passed"), [(0.7, True), (0.71, False)])
def test_a_tenth_of_the_snps_may_hold_seven_tenths_of_a_difference(fraction, passed):
    assert outcome("few_snps", in_few_snps=(fraction, (0, 1))).passed == passed


def test_of_drift_a_tenth_of_the_snps_holds_44_percent_and_of_flipped_alleles_most():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.7, 20_000)
    drifted = np.column_stack([p, p + 0.02 * np.sqrt(p * (1 - p)) * rng.standard_normal(20_000)])
    assert few_snps(drifted)[0] == pytest.approx(0.44, abs=0.02)
    assert few_snps(drifted[:99]) == (0.0, (0, 1))
    flipped = np.column_stack([p, np.where(rng.random(20_000) < 0.08, 1 - p, p)])
    assert few_snps(flipped)[0] == pytest.approx(1)


@pytest.mark.parametrize(("n_groups", "passed"), [(1, True), (2, False)])
def test_people_without_a_common_snp_have_no_one_answer(n_groups, passed):
    kinship = Kinship(np.zeros((0, 2), np.intp), np.zeros(0), np.arange(40), *np.zeros((2, 2)), n_groups=n_groups)
    check = outcome("common_snps", kinship=kinship)
    assert (check.passed, check.level) == (passed, "not identifiable")


@pytest.mark.parametrize(("common", "n_groups"), [(0, 2), (19, 2), (20, 1)])
def test_twenty_common_snps_link_two_chips(common, n_groups):
    rng, frequencies, proportions = draws(n_people=40, n_snps=400)
    calls = rng.binomial(2, frequencies[:, 0], (40, 400)).astype(float)
    calls[:20, : (400 - common) // 2] = np.nan
    calls[20:, (400 - common) // 2 + common :] = np.nan
    assert close_relatives(read_genotypes(calls), proportions).n_groups == n_groups


def test_markers_that_show_presence_alone_have_too_many_heterozygotes():
    rng, frequencies, proportions = draws()
    calls = np.minimum(rng.binomial(2, frequencies[:, 0], (120, 300)), 1)
    found = count_heterozygotes(read_genotypes(calls), proportions, calls.mean(axis=0)[:, None] / 2)
    assert found.excess > 0.5
    check = outcome("hardy_weinberg", heterozygotes=found)
    assert "more heterozygous calls than the model expects" in check.reason
    assert outcome("hardy_weinberg", heterozygotes=Heterozygotes(excess=0.1)).passed
    assert not outcome("hardy_weinberg", heterozygotes=Heterozygotes(excess=0.11)).passed


def draws(n_people=120, n_snps=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng, rng.uniform(0.2, 0.8, (n_snps, 1)), np.ones((n_people, 1))


def test_heterozygotes_of_sound_calls_are_not_lacking():
    rng, frequencies, proportions = draws()
    calls = read_genotypes(rng.binomial(2, frequencies[:, 0], (120, 300)))
    found = count_heterozygotes(calls, proportions, frequencies)
    assert found.lacking < 0.01
    assert found.one_copy == 0


def test_males_with_one_copy_are_found():
    rng, frequencies, proportions = draws()
    calls = rng.binomial(2, frequencies[:, 0], (120, 300))
    calls[:60, :60] = 2 * rng.binomial(1, frequencies[:60, 0], (60, 60))
    found = count_heterozygotes(read_genotypes(calls), proportions, frequencies)
    assert found.one_copy == 0.5
    assert 0.1 < found.lacking <= 0.2
    assert found.elsewhere == pytest.approx(1, abs=0.05)
    assert found.lacking_in_others < 0.02


def test_missed_heterozygotes_are_no_second_sex():
    rng, frequencies, proportions = draws()
    calls = rng.binomial(2, frequencies[:, 0], (120, 300))
    missed = (calls == 1) & (rng.random(calls.shape) < 0.6)
    calls[missed] = 2
    found = count_heterozygotes(read_genotypes(calls), proportions, calls.mean(axis=0)[:, None] / 2)
    assert found.one_copy == 0
    assert found.lacking_in_others == found.lacking > 0.5


def test_mean_linkage_is_zero_by_chance_and_that_of_the_haplotypes_else():
    rng, frequencies, proportions = draws(n_people=400)
    calls = rng.binomial(2, frequencies[:, 0], (400, 300))
    found = linked_neighbours(read_genotypes(calls), np.arange(300), proportions, frequencies)
    assert found.fraction == 0
    assert found.mean == pytest.approx(0, abs=0.003)
    calls[:, 1::2] = calls[:, ::2]
    twice = np.repeat(frequencies[::2], 2, axis=0)
    found = linked_neighbours(read_genotypes(calls), np.arange(300), proportions, twice)
    assert found.fraction == pytest.approx(0.5, abs=0.01)
    assert found.mean == pytest.approx(0.5, abs=0.01)


def test_what_is_expected_to_be_wrong_is_the_mean_standard_error():
    errors = np.linspace(0.01, 0.03, 40)[:, None] * np.ones((1, 2))
    expected = examined_ancestry(HALVES, errors=errors).expected
    assert expected.value == pytest.approx(0.02)
    assert (expected.low, expected.high) == (pytest.approx(0.012), pytest.approx(0.028))
    assert "± 0.020 on average" in expected.sentence
    assert examined_ancestry(np.ones((40, 1))).expected.value == 0


def test_a_number_that_a_check_rejects_is_not_the_headline():
    rng = np.random.default_rng(0)
    model = Admixture(3, n_jobs=1).fit(rng.binomial(2, rng.uniform(0.1, 0.9, 400), (60, 400)))
    assert not is_shown(model.report_)
    assert _title(model, 60) == "Ancestry of 60 people: 3 populations fitted, another number than the calls show"
    frequencies = rng.uniform(0.05, 0.95, (2, 400))
    sound = Admixture(2, n_jobs=1).fit(rng.binomial(2, frequencies[np.arange(60) % 2]))
    assert is_shown(sound.report_)
    assert _title(sound, 60) == "Ancestry of 60 people from 2 populations"
