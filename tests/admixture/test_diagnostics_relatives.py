"""Relatives, copies and linked SNPs in a panel of genotypes: they are doubted, and sound panels are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latentfit import Admixture
from latentfit.admixture.data.genotypes import read_genotypes
from latentfit.admixture.data.stored import store_genotypes
from latentfit.admixture.diagnostics import relatives
from latentfit.admixture.diagnostics.verdict import populations_seen

N_SNPS = 1_500


def populations(K=2, fst=0.1, seed=0, n_snps=N_SNPS):
    """A generator, and the allele frequencies (population, SNP) of K populations."""
    rng = np.random.default_rng(seed)
    pooled, scale = rng.uniform(0.05, 0.95, n_snps), (1 - fst) / fst
    return rng, rng.beta(scale * pooled, scale * (1 - pooled), (K, n_snps))


def people(rng, frequencies, n, alpha=0.2):
    return rng.binomial(2, np.clip(rng.dirichlet(np.full(len(frequencies), alpha), n) @ frequencies, 0, 1))


def children(rng, frequencies, n):
    """Full sibs of two parents of one population."""
    mother, father = rng.binomial(1, frequencies, (2, 2, len(frequencies)))
    at, one_of = np.arange(len(frequencies)), rng.integers(0, 2, (n, 2, len(frequencies)))
    return np.array([mother[from_mother, at] + father[from_father, at] for from_mother, from_father in one_of])


@pytest.mark.parametrize("kind", ["copies of one person", "close relatives"])
@pytest.mark.parametrize("seed", range(3))
def test_a_family_that_became_a_population_is_not_trusted(kind, seed):
    rng, frequencies = populations(seed=seed)
    sound = people(rng, frequencies, 150)
    family = np.repeat(sound[:1], 20, axis=0) if kind.startswith("copies") else children(rng, frequencies[0], 20)
    report = Admixture(3, n_jobs=1).fit(np.concatenate([sound, family])).report_
    assert report.verdict == "caution"
    reason = next(one for one in report.reasons if "rests on relatives" in one)
    assert kind in reason
    assert min(report.quantities["unrelated_per_population"]) < 5
    assert any("pairs of close relatives" in note for note in report.notes)


def half_sibs(rng, frequencies, n):
    """Children of one father and of a mother each."""
    father, mothers = (
        rng.binomial(1, frequencies, (2, len(frequencies))),
        rng.binomial(1, frequencies, (n, len(frequencies))),
    )
    return mothers + np.where(rng.random(mothers.shape) < 0.5, *father)


@pytest.mark.parametrize(("kind", "n", "n_snps"), [(half_sibs, 30, 2_000), (half_sibs, 30, 300), (children, 20, 300)])
@pytest.mark.parametrize("seed", range(3))
def test_a_family_whose_single_pairs_are_unsure_is_not_trusted(kind, n, n_snps, seed):
    rng, frequencies = populations(seed=seed, n_snps=n_snps)
    calls = np.concatenate([people(rng, frequencies, 150, 0.05), kind(rng, frequencies[0], n)])
    report = Admixture(3, n_jobs=1).fit(calls).report_
    assert report.verdict == "caution"
    assert any("rests on relatives" in one for one in report.reasons)


@pytest.mark.parametrize("n_snps", [100, 300, 2_000])
@pytest.mark.parametrize("seed", range(4))
def test_unrelated_people_of_few_snps_are_no_family(n_snps, seed):
    rng, frequencies = populations(seed=seed, n_snps=n_snps, K=3)
    found = Admixture(3, n_jobs=1).fit(people(rng, frequencies, 90, 0.05)).report_
    assert not any("relatives" in one for one in found.reasons)


def test_one_pair_of_sibs_is_a_note_and_no_caution():
    rng, frequencies = populations()
    pair = children(rng, frequencies[0], 2)
    report = Admixture(2, n_jobs=1).fit(np.concatenate([people(rng, frequencies, 150), pair])).report_
    assert (report.verdict, report.quantities["related_pairs"]) == ("ok", 1)
    assert any(note.startswith("1 pairs of close relatives") for note in report.notes)


@pytest.mark.parametrize("fst", [0.1, 0.8])
def test_unrelated_first_crosses_are_no_relatives(fst):
    rng, frequencies = populations(fst=fst)
    crosses = rng.binomial(1, frequencies[0], (40, N_SNPS)) + rng.binomial(1, frequencies[1], (40, N_SNPS))
    calls = np.concatenate([people(rng, frequencies, 100), crosses])
    found = relatives.close_relatives(read_genotypes(calls), np.full((140, 2), 0.5))
    assert len(found.pairs) == 0


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_kinship_is_that_of_the_pedigree(missing):
    rng, frequencies = populations(K=1, n_snps=5_000)
    sound, sibs = rng.binomial(2, frequencies[0], (60, 5_000)), children(rng, frequencies[0], 6)
    calls = np.concatenate([sound, sibs, sound[:1]]).astype(float)
    calls[rng.random(calls.shape) < missing] = np.nan
    found = relatives.close_relatives(read_genotypes(calls), np.ones((67, 1)))
    pairs = {tuple(pair): value for pair, value in zip(found.pairs.tolist(), found.values, strict=True)}
    assert set(pairs) == {(i, j) for i in range(60, 66) for j in range(i + 1, 66)} | {(0, 66)}
    assert pairs.pop((0, 66)) == pytest.approx(0.5, abs=0.02)
    assert np.mean(list(pairs.values())) == pytest.approx(0.25, abs=0.02)
    assert [len(family) for family in found.families()] == [6, 2]
    assert found.n_duplicates == 1


def test_copies_of_an_inbred_line_are_copies():
    rng, frequencies = populations(K=1)
    lines = 2 * rng.binomial(1, frequencies[0], (30, N_SNPS))
    found = relatives.close_relatives(read_genotypes(np.concatenate([lines, lines[:1]])), np.ones((31, 1)))
    assert found.pairs.tolist() == [[0, 30]]


def test_of_many_people_those_with_most_of_a_population_are_compared(monkeypatch):
    monkeypatch.setattr(relatives, "RELATIVES", replace(relatives.RELATIVES, kinship_people=60))
    rng, frequencies = populations()
    calls = np.concatenate([people(rng, frequencies, 180), children(rng, frequencies[0], 20)])
    proportions = np.zeros((200, 3))
    proportions[:90, 0] = proportions[90:180, 1] = proportions[180:, 2] = 1
    found = relatives.close_relatives(read_genotypes(calls), proportions)
    assert len(found.people) == 60
    assert [len(family) for family in found.families()] == [20]


def test_linked_neighbours_are_not_trusted_and_the_file_gives_the_same_number():
    rng, frequencies = populations(n_snps=600)
    calls = people(rng, frequencies, 150)
    assert Admixture(2, n_jobs=1).fit(calls).report_.quantities["linked_neighbours"] == 0
    twice = np.repeat(calls, 2, axis=1)
    report = Admixture(2, n_jobs=1).fit(twice).report_
    assert report.quantities["linked_neighbours"] == pytest.approx(0.5, abs=0.01)
    assert any("of neighbouring SNPs say the same" in reason for reason in report.reasons)
    stored = Admixture(2, n_jobs=1).fit(store_genotypes(read_genotypes(twice))).report_
    assert stored.reasons == report.reasons
    assert stored.quantities == report.quantities


def test_structure_beyond_the_number_is_not_answered_by_fewer():
    rng, frequencies = populations(K=4, n_snps=2_000)
    report = Admixture(2, n_jobs=1).fit(people(rng, frequencies, 160, 0.05)).report_
    assert report.quantities["gap"] < 1.5
    assert report.quantities["populations_seen"] == 4
    assert any("There is structure beyond 2 populations: the singular values show 4" in one for one in report.reasons)
    assert not any("fewer populations" in one for one in report.reasons if "structure" in one)


def test_populations_that_stand_out_of_the_noise_are_counted():
    noise = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
    assert populations_seen(np.array([10, 9.9, 9.8, *noise])) == 4
    assert populations_seen(np.array(noise)) == 1


def with_missing(rng, calls, how):
    """The same calls with one in twenty missing, two in five of some people's, or a batch of people's at some SNPs."""
    n, m = calls.shape
    gaps = {
        "few": rng.random((n, m)) < 0.05,
        "some people": rng.random((n, m)) < rng.choice([0, 0.4], n)[:, None],
        "a batch": np.outer(rng.random(n) < 0.4, rng.random(m) < 0.3),
    }[how]
    return np.where(gaps, np.nan, calls)


@pytest.mark.parametrize("how", ["few", "some people", "a batch"])
@pytest.mark.parametrize("seed", range(2))
def test_missing_calls_show_no_population_that_does_not_exist(how, seed):
    rng, frequencies = populations(seed=seed)
    calls = with_missing(rng, people(rng, frequencies, 150, 0.05), how)
    assert Admixture(2, n_jobs=1).fit(calls).report_.verdict == "ok"
    for K in (3, 4):
        report = Admixture(K, n_jobs=1).fit(calls).report_
        assert any(f"do not show {K} populations above their noise" in reason for reason in report.reasons)
        assert not any("singular values show" in reason for reason in report.reasons)


def test_missing_calls_in_a_file_show_the_same():
    rng, frequencies = populations(n_snps=400)
    calls = with_missing(rng, people(rng, frequencies, 120, 0.05), "few")
    one = Admixture(3, n_jobs=1).fit(calls).report_
    stored = Admixture(3, n_jobs=1).fit(store_genotypes(read_genotypes(calls))).report_
    assert stored.quantities == one.quantities
