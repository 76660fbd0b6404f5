"""Admixed genotypes are what their settings say."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from latentfit.core.errors import DataError
from latentfit.simulate import admixture


def test_genotypes_follow_proportions_and_frequencies():
    data = admixture(60, 3, 20_000, alpha=1.0, fst=0.3, random_state=0)
    assert data.genotypes.dtype == np.int8
    assert set(np.unique(data.genotypes)) == {0, 1, 2}
    np.testing.assert_allclose(data.proportions.sum(axis=1), 1, atol=1e-12)
    expected = 2 * data.proportions @ data.frequencies.T
    assert np.abs(data.genotypes.mean(axis=1) - expected.mean(axis=1)).max() < 0.06
    # Regressing a person's genotypes on the populations' frequencies gives the share of the genome, not the draw.
    F = 2 * data.frequencies
    found = np.linalg.solve(F.T @ F, F.T @ data.genotypes.T).T
    assert np.abs(found - data.proportions).mean() < 0.02
    assert np.abs(found - data.proportions).mean() < np.abs(found - data.nominal).mean()


def test_frequencies_are_as_far_apart_as_fst_says():
    for fst in (0.05, 0.3):
        data = admixture(5, 2, 20_000, fst=fst, n_chromosomes=400, random_state=1)
        mean = data.frequencies.mean(axis=1)
        between = ((data.frequencies[:, 0] - data.frequencies[:, 1]) ** 2).mean() / 2
        # Two populations around a pooled frequency: E (f₁ − f₂)²/2 = F p (1 − p); sampling adds 1/400 of the rest.
        pooled = (mean * (1 - mean)).mean() + between / 2
        assert between / pooled == pytest.approx(fst, abs=0.02)


def test_stretches_switch_twenty_times_per_morgan():
    """One ancestral chromosome per population, which is all zeros or all ones: switches can be counted."""
    data = admixture(40, 2, 40_000, alpha=50.0, fst=0.999999, n_chromosomes=1, random_state=2)
    told = data.frequencies[:, 0] != data.frequencies[:, 1]  # where populations differ the allele says which it was
    first = data.frequencies[told, 0].astype(int)
    of_first = np.where(first == 1, data.genotypes[:, told], 2 - data.genotypes[:, told])
    changes = np.abs(np.diff(of_first, axis=1)).sum() / (2 * 40)  # per chromosome
    assert changes == pytest.approx(0.5 * 20 * 2.5, rel=0.08)  # half of the stretches begin in the other population
    assert np.abs(of_first.mean(axis=1) / 2 - data.proportions[:, 0]).max() < 0.02


def test_missing_calls_seeds_and_alpha_of_the_simulation():
    one, two = (admixture(30, 3, 500, missing=0.2, random_state=5) for _ in range(2))
    assert np.array_equal(one.genotypes, two.genotypes)
    assert (one.genotypes < 0).mean() == pytest.approx(0.2, abs=0.02)
    assert admixture(100, 3, 5, alpha=0.1, random_state=0).nominal.max(axis=1).mean() > 0.85
    assert admixture(100, 3, 5, alpha=10, random_state=0).nominal.max(axis=1).mean() < 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_samples": 0}, "give at least one of each"),
        ({"alpha": 0.0}, "alpha and length lie above 0"),
        ({"fst": 1.0}, "fst between 0 and 1"),
        ({"n_snps": None}, "without one give their number"),
        ({"coalescent": True, "n_chromosomes": 3}, "people have two each"),
    ],
)
def test_impossible_simulations_are_refused(arguments, sentence):
    with pytest.raises(DataError, match=sentence):
        admixture(**arguments)


def test_one_sentence_without_msprime(monkeypatch):
    monkeypatch.setitem(sys.modules, "msprime", None)
    with pytest.raises(DataError, match="coalescent=True needs msprime, which is not installed; install the extra"):
        admixture(coalescent=True)


def test_the_coalescent_of_the_paper():
    pytest.importorskip("msprime")
    data = admixture(20, 3, None, coalescent=True, length=4e6, random_state=0)
    assert data.genotypes.shape[1] == len(data.positions) == len(data.frequencies) > 3_000
    alleles = data.genotypes.sum(axis=0)
    assert ((alleles > 0) & (alleles < 40)).all()
    assert (np.diff(data.positions) > 0).all()
    # Drift of 4,000 generations at 10⁴: within populations F = 1 − exp(−.2) of the variance is gone.
    f = data.frequencies
    within, total = (f * (1 - f)).mean(), (f.mean(axis=1) * (1 - f.mean(axis=1))).mean()
    assert 0.08 < 1 - within / total < 0.2
    again = admixture(20, 3, 100, coalescent=True, length=4e6, random_state=0)
    assert again.genotypes.shape == (20, 100)
    assert admixture(4, 1, None, coalescent=True, length=1e5, random_state=0).proportions.tolist() == [[1.0]] * 4
