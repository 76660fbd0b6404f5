"""Ancestry: orders, gaps, names, files, sentences, and what is promised of every climb."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentfit
from latentfit import Admixture
from latentfit.admixture.data.genotypes import Genotypes, read_genotypes
from latentfit.admixture.em import AncestrySteps, fit_proportions, inside
from latentfit.admixture.init import alternate, far_people, leading_subspace, proportions_under
from latentfit.core.em import em
from latentfit.core.errors import DataError, DataWarning
from tests.conftest import data_folder


def world(seed=0, n_people=120, n_snps=600, K=3, fst=0.2, alpha=0.3, missing=0.0):
    rng = np.random.default_rng(seed)
    pooled, scale = rng.uniform(0.1, 0.9, (n_snps, 1)), (1 - fst) / fst
    frequencies = rng.beta(scale * pooled, scale * (1 - pooled), (n_snps, K))
    proportions = rng.dirichlet(np.full(K, alpha), n_people)
    counts = rng.binomial(2, np.clip(proportions @ frequencies.T, 0, 1)).astype(float)
    counts[rng.random(counts.shape) < missing] = np.nan
    return counts, proportions, frequencies


def error(found, truth):
    orders = itertools.permutations(range(truth.shape[1]))
    return min(np.abs(found[:, list(order)] - truth).mean() for order in orders)


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_proportions_come_back(refine, missing):
    counts, proportions, _ = world(n_snps=1500, missing=missing)
    model = Admixture(3, refine=refine).fit(counts)
    assert error(model.ancestry_, proportions) < 0.05
    assert model.converged_
    np.testing.assert_allclose(model.ancestry_.sum(axis=1), 1, atol=1e-12)
    assert (model.ancestry_ >= 0).all()
    assert (np.diff(model.ancestry_.mean(axis=0)) <= 0).all(), "the largest population comes first"


@pytest.mark.parametrize("refine", [True, False])
def test_shuffling_people_and_snps_shuffles_the_answer_to_the_bit(refine):
    counts, _, _ = world(missing=0.1)
    rng = np.random.default_rng(1)
    people, snps = rng.permutation(counts.shape[0]), rng.permutation(counts.shape[1])
    one = Admixture(3, refine=refine, min_maf=0.05).fit(counts)
    other = Admixture(3, refine=refine, min_maf=0.05).fit(counts[people][:, snps])
    assert np.array_equal(other.ancestry_, one.ancestry_[people])
    assert np.array_equal(other.frequencies_, one.frequencies_[snps])
    assert other.log_likelihood_ == one.log_likelihood_


@pytest.mark.parametrize("refine", [True, False])
@pytest.mark.parametrize("init", ["als", "tensor"])
def test_transform_equals_the_fit_and_does_not_depend_on_other_people(refine, init):
    counts, _, _ = world(missing=0.1)
    model = Admixture(3, refine=refine, init=init).fit(counts)
    assert np.array_equal(model.transform(counts), model.ancestry_)
    for i in (0, 5, 77):
        assert np.array_equal(model.transform(counts[i : i + 1]), model.ancestry_[i : i + 1])
    assert np.array_equal(model.transform(counts[::-1]), model.ancestry_[::-1])


def test_proportions_are_the_maximum_given_the_frequencies():
    counts, _, _ = world(missing=0.1)
    genotypes = read_genotypes(counts)
    frequencies = np.clip(world()[2], 1e-6, 1 - 1e-6)
    proportions, values = fit_proportions(genotypes.calls, frequencies)
    rng = np.random.default_rng(2)
    for _ in range(50):
        other = 0.98 * proportions + 0.02 * rng.dirichlet(np.ones(3), len(proportions))
        p = frequencies @ other.T
        seen = genotypes.calls < 3
        g = np.where(seen, genotypes.calls, 0)
        there = np.where(seen, g * np.log(p) + (2 - g) * np.log1p(-p), 0).sum(axis=0)
        assert (there <= values + 1e-7).all()


@pytest.mark.parametrize("accelerate", [True, False])
def test_no_em_step_lowers_the_likelihood(accelerate):
    counts, _, _ = world(missing=0.2)
    genotypes = read_genotypes(counts)
    rng = np.random.default_rng(3)
    start = inside(rng.dirichlet(np.ones(3), 120), rng.uniform(0.01, 0.99, (genotypes.n_snps, 3)))  # a bad one
    found = em(AncestrySteps(genotypes.calls, 1), start, max_iter=60, tol=1e-12, accelerate=accelerate)
    path = np.array(found.path)
    assert (np.diff(path) >= -1e-9 * np.abs(path[:-1])).all()
    assert path[-1] > path[0] + 1000


def test_squares_never_rise():
    counts, _, _ = world(missing=0.2)
    genotypes = read_genotypes(counts)
    space = leading_subspace(genotypes.calls, genotypes.means, 3)
    fit = alternate(space, genotypes.means, proportions_under(space, far_people(space)), max_iter=80, tol=0.0)
    assert len(fit.squares) == 81
    assert (np.diff(fit.squares) <= 1e-9 * fit.squares[0]).all()


def test_likelihood_from_a_hundred_people_on():
    counts, _, _ = world()
    assert "likelihood" in Admixture(2).fit(counts[:100]).report_.notes[0]
    assert "least squares" in Admixture(2).fit(counts[:99]).report_.notes[0]
    assert "as given" in Admixture(2, refine=False).fit(counts).report_.notes[0]
    by_likelihood, by_squares = (Admixture(3, refine=refine).fit(counts) for refine in (True, False))
    assert by_likelihood.log_likelihood_ > by_squares.log_likelihood_


def test_the_number_of_populations_is_found_and_said():
    counts, _, _ = world(n_people=150, n_snps=1500)
    model = Admixture().fit(counts)
    assert model.n_populations_ == 3
    assert "cross-validation" in str(model.report_)
    path = model.cv_.to_pydict()
    assert path["n_populations"][:3] == [1, 2, 3]
    assert np.argmin(path["error"]) == 2
    alone = np.random.default_rng(0).binomial(2, np.random.default_rng(1).uniform(0.1, 0.9, 800), (120, 800))
    assert Admixture().fit(alone).n_populations_ == 1


def test_rare_and_constant_snps_are_left_out_of_the_fit_only():
    counts, _, _ = world()
    counts[:, 3], counts[:, 4] = 2, 0
    counts[:, 5] = 0
    counts[7, 5] = 1  # a singleton
    model = Admixture(3, min_maf=0.05).fit(counts)
    assert not model.used_[[3, 4, 5]].any()
    assert (model.frequencies_[3] > 0.999).all()
    assert (model.frequencies_[4] < 0.001).all()
    assert np.isfinite(model.frequencies_).all()
    without = Admixture(3).fit(np.delete(counts, np.flatnonzero(~model.used_), axis=1))
    np.testing.assert_array_equal(without.ancestry_, model.ancestry_)
    assert "left out" in str(model.report_)


def test_a_snp_without_calls_is_warned_of_and_changes_nothing():
    counts, _, _ = world()
    gapped = np.column_stack([counts, np.full(120, np.nan)])
    with pytest.warns(DataWarning, match="1 SNPs have no call at all, for example 600"):
        model = Admixture(3).fit(gapped)
    assert np.isnan(model.frequencies_[600]).all()
    assert np.array_equal(model.ancestry_, Admixture(3).fit(counts).ancestry_)


def test_kinds_of_input_agree(tmp_path):
    counts, _, _ = world(missing=0.1)
    names = [f"rs{j}" for j in range(counts.shape[1])]
    frame = pd.DataFrame(counts, columns=names, index=[f"p{i}" for i in range(120)])
    matrix = Admixture(3).fit(counts)
    for data in (frame, pl.DataFrame(counts, schema=names, nan_to_null=True), frame.astype("Int8"),
                 np.where(np.isnan(counts), -1, counts).astype(np.int8)):  # fmt: skip
        assert np.array_equal(Admixture(3).fit(data).ancestry_, matrix.ancestry_)
    model = Admixture(3).fit(frame)
    assert model.samples_[3] == "p3"
    assert model.snps_[5] == "rs5"
    assert np.array_equal(model.transform(frame[names[::-1]]), model.ancestry_), "SNPs are found by name"
    model.save(tmp_path / "m.latent")
    again = latentfit.load(tmp_path / "m.latent")
    assert np.array_equal(again.transform(frame), model.ancestry_)
    assert np.array_equal(again.frequencies_, model.frequencies_)
    assert again.samples_.tolist() == model.samples_.tolist()


def test_genotypes_are_one_byte_each():
    counts, _, _ = world()
    genotypes = read_genotypes(counts)
    assert genotypes.calls.dtype == np.uint8
    assert genotypes.calls.shape == (600, 120)
    assert isinstance(read_genotypes(genotypes), Genotypes)
    assert np.array_equal(Admixture(2).fit(genotypes).ancestry_, Admixture(2).fit(counts).ancestry_)


def bad_cell(value):
    counts, _, _ = world(n_people=20, n_snps=30)
    counts[4, 7] = value
    return counts


def person_without_calls():
    counts, _, _ = world(n_people=20, n_snps=30)
    counts[6] = np.nan
    return counts


@pytest.mark.parametrize(
    ("options", "data", "sentence"),
    [
        ({}, bad_cell(3), r"SNP 7 holds 3.0 in row 5; genotypes count alleles"),
        ({}, bad_cell(0.5), r"SNP 7 holds 0.5 in row 5"),
        ({}, bad_cell(-9), r"SNP 7 holds -9.0 in row 5"),
        ({}, bad_cell(np.inf), r"SNP 7 holds inf in row 5"),
        ({}, pd.DataFrame({"a": ["0", "x"], "b": [1, 2]}), r"SNP 'a' holds 'x' in row 2, no number; genotypes"),
        ({}, np.zeros((5, 0)), "0 SNPs"),
        ({}, np.zeros((0, 5)), "no people"),
        ({}, np.zeros(5), "1 dimensions"),
        ({}, np.full((6, 4), 2), "none of the 4 SNPs has both alleles; give SNPs that vary"),
        ({"min_maf": 0.49}, np.eye(8), "none of the 8 SNPs has both alleles with the rarer at 0.49 or more"),
        ({}, person_without_calls(), "person 6 has no call at any SNP used by the fit; leave the person out"),
        ({"n_populations": 9}, world(n_people=8, n_snps=30)[0], "n_populations must be an int from 1 to 8"),
        ({"n_populations": 0}, world(n_people=8, n_snps=30)[0], "must be an int from 1 to 8"),
        ({"init": "random"}, np.eye(8), "init must be 'als' or 'tensor', got 'random'"),
        ({"refine": "maybe"}, np.eye(8), "refine must be 'auto', True or False, got 'maybe'"),
        ({"min_maf": 0.7}, np.eye(8), r"min_maf must be a minor allele frequency in \[0, 0.5\), got 0.7"),
    ],
)
def test_what_cannot_be_used_gets_one_sentence(options, data, sentence):
    with pytest.raises(DataError, match=sentence):
        Admixture(**({"n_populations": 2} | options)).fit(data)


def test_transform_takes_absent_snps_as_missing_and_refuses_other_ones():
    counts, _, _ = world()
    frame = pd.DataFrame(counts, columns=[f"rs{j}" for j in range(600)])
    model = Admixture(2).fit(frame)
    with pytest.warns(DataWarning, match="of the 600 SNPs of the fit 1 are not in the data"):
        found = model.transform(frame.drop(columns="rs5"))
    assert np.array_equal(found, model.transform(frame.assign(rs5=np.nan)))
    with pytest.raises(DataError, match="the data has none of the 600 SNPs of the fit, for example 'rs"):
        model.transform(frame.add_prefix("x"))
    with pytest.raises(DataError, match="the data has 599 SNPs, but the model was fitted on 600"):
        Admixture(2).fit(counts).transform(counts[:, 1:])
    with pytest.raises(DataError, match="has no call at any SNP of the fit"):
        model.transform(pd.DataFrame(np.full((1, 600), np.nan), columns=frame.columns))


def test_standard_errors_of_everyone_are_published_and_cover():
    counts, proportions, _ = world(n_people=250, n_snps=1_500, K=2)
    model = Admixture(2).fit(counts)
    errors = model.ancestry_se_
    assert errors.shape == (250, 2)
    assert model.report_.quantities["standard_error"] == np.median(errors.max(axis=1))
    apart = min(
        (model.ancestry_ - proportions[:, order] for order in ([0, 1], [1, 0])), key=lambda one: np.abs(one).sum()
    )
    inside = (proportions > 0.05).all(axis=1)
    spread = (apart - apart[inside].mean(axis=0))[inside] / errors[inside]  # what the frequencies are off by is common
    assert 0.7 < np.sqrt((spread**2).mean()) < 1.6


@pytest.mark.parametrize("K", [1, 2, 7, 8])
def test_any_number_of_populations(K):
    counts, _, _ = world(n_snps=300)
    model = Admixture(K, max_iter=20, tol=1e-6).fit(counts)
    assert model.ancestry_.shape == (120, K)
    assert np.isfinite(model.log_likelihood_)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "most"), [("0.1", 0.02), ("1.0", 0.06), ("10.0", 0.16)])
def test_simulated_mosaics_come_back(alpha, most):
    folder = data_folder()
    if folder is None:
        pytest.skip("the simulated mosaics are not here: set LATENTFIT_DATA to the folder that holds genetics/")
    made = np.load(folder / "genetics" / f"sim_admix_d3_m50_alpha{alpha}.npz")
    assert error(Admixture(3).fit(made["genotypes"]).ancestry_, made["proportions"]) <= most
