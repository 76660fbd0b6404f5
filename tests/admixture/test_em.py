"""Parts and populations: how their numbers are walked, and the steps behind them, on small numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from latentfit.admixture import select as choose_populations
from latentfit.admixture.data.genotypes import Genotypes
from latentfit.admixture.em import Ancestry, AncestrySteps, fit_ancestry, fit_proportions, frequencies_given, inside
from latentfit.core.errors import DataError
from latentfit.fractions import em as parts
from latentfit.fractions import select as choose_parts
from latentfit.fractions.init import UnitValues
from tests.admixture import reference as admixture_twin


def numbered(monkeypatch, losses, most=9):
    """The number of parts chosen when left-out cells of the samples cost `losses[K − 1]`."""
    seen = []

    def left_out(data, shown, fold, number, seed):
        seen.append(number)
        return np.array(losses[number - 1], float)

    monkeypatch.setattr(choose_parts, "_left_out", left_out)
    found = choose_parts.choose_parts(UnitValues(np.zeros((2, 5)), None), most, np.random.default_rng(0))
    assert found.errors == pytest.approx([sum(losses[n - 1]) / 10 for n in seen])
    return found.chosen, seen


def test_numbers_of_parts_are_tried_until_two_were_no_better(monkeypatch):
    assert numbered(monkeypatch, [[9, 9], [5, 5], [5, 5], [5, 5], [0, 0]]) == (2, [1, 2, 3, 4])
    assert numbered(monkeypatch, [[9, 9], [9, 9], [5, 5], [5, 5], [5, 5], [0, 0]]) == (3, [1, 2, 3, 4, 5])
    assert numbered(monkeypatch, [[9, 9], [5, 5], [4, 4]], most=2) == (2, [1, 2])
    # gains of 3 and 1: 4 in all, one standard error √2 · 1.41 = 2
    assert numbered(monkeypatch, [[9, 9], [6, 8], [6, 8], [6, 8]])[0] == 2
    # gains of 5 and −1: 4 in all against √2 · 4.24 = 6
    assert numbered(monkeypatch, [[9, 9], [4, 10], [4, 10]])[0] == 1


def test_better_is_more_than_one_standard_error_and_than_rounding():
    assert not choose_parts._better(np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0.0)
    assert choose_parts._better(np.array([1.0]), np.array([1.5]), 0.4)
    assert not choose_parts._better(np.array([1.0]), np.array([1.5]), 0.6)
    differences = np.array([1.0, 2.0, 6.0])
    error = np.sqrt(((differences - 3) ** 2).sum() / 2) * np.sqrt(3)
    assert (differences.sum() > error) == choose_parts._better(np.zeros(3), differences, 0.0)


def test_the_features_that_vary_most_are_looked_at():
    values = np.array([[0.5, 0.0, 0.4, 0.1], [0.5, 1.0, 0.6, 0.9]])
    assert choose_parts._most_varying(UnitValues(values, None), 2).values.tolist() == [[0.0, 0.1], [1.0, 0.9]]
    whole = UnitValues(values, None)
    assert choose_parts._most_varying(whole, 4) is whole
    gaps = np.array([[True, False, True, True], [True, True, True, True]])
    kept = choose_parts._most_varying(UnitValues(np.where(gaps, values, 0), gaps), 2)
    assert kept.values.tolist() == [[0.4, 0.1], [0.6, 0.9]]  # a gap is filled with what is left
    assert kept.observed.tolist() == [[True, True], [True, True]]


def test_the_likelihood_of_residual_squares():
    assert parts.gaussian_log_likelihood(8.0, 4) == pytest.approx(-2 * (np.log(2 * np.pi * 2.0) + 1))
    assert parts.gaussian_log_likelihood(0.0, 4) == pytest.approx(-2 * (np.log(2 * np.pi * 1e-12) + 1))
    assert parts.gaussian_log_likelihood(0.0, 0) == 0.0
    shown = np.array([[True, False], [True, True]])
    data = UnitValues(np.array([[0.5, 0.0], [0.25, 1.0]]), shown)
    left = parts.residual_squares(data, np.array([[1.0], [1.0]]), np.array([[0.5, 0.5]]))
    assert left == pytest.approx(0.0625 + 0.25)


def test_named_initialisations_of_parts(monkeypatch):
    steps = parts.FractionSteps.of(UnitValues(np.random.default_rng(0).random((6, 5)), None))
    monkeypatch.setattr(parts, "tensor_fractions", lambda data, n, rng: np.full((6, n), 1 / n))

    def names(n_init, init):
        rng = np.random.default_rng(0)
        return [name for name, _ in parts.initial_profiles(steps, 2, n_init, rng, init)]

    assert names(3, "auto") == ["extreme samples", "random 1", "random 2"]
    assert names(1, "auto") == ["extreme samples"]
    assert names(2, "tensor") == ["tensor", "random 1"]
    assert names(2, "random") == ["random 0", "random 1"]


def test_weights_of_the_tensor_become_fractions(monkeypatch):
    weights = np.array([[2.0, -1.0, -3.0], [2.0, 3.0, -1.0]])  # (part, sample)
    monkeypatch.setattr(parts, "spectral_init", lambda X, d, rng: SimpleNamespace(W=weights))
    found = parts.tensor_fractions(UnitValues(np.zeros((3, 4)), None), 2, np.random.default_rng(0))
    np.testing.assert_allclose(found, [[0.5, 0.5], [0, 1], [0.5, 0.5]], atol=1e-6)
    assert (found > 0).all()


def calls_of(n_snps=30, n=20, seed=0):
    return np.random.default_rng(seed).integers(0, 3, (n_snps, n)).astype(np.uint8)


def genotypes_of(calls):
    return Genotypes(calls, np.arange(calls.shape[1]), np.arange(calls.shape[0]))


def test_numbers_of_populations_are_tried_until_two_more_bring_nothing(monkeypatch):
    def walk(values, most=9):
        # two SNPs a fold, half a nat apart
        monkeypatch.setattr(
            choose_populations, "_losses", lambda fold, K, *rest: np.array([values[K - 1], values[K - 1] + 0.5 * K])
        )
        return choose_populations.choose_populations(
            genotypes_of(calls_of()), most=most, likelihood=False, tol=1e-3, seed=0
        )

    flat = [0.25 * K for K in range(1, 10)]  # the mean of the two above `values`
    values = [9.0, 8.0, 8.5, 7.0, 7.0, 7.5, 1.0]
    found = walk([value - more for value, more in zip(values, flat, strict=False)])
    assert found.n_populations == [1, 2, 3, 4, 5, 6]
    assert found.error == pytest.approx(values[:6])
    assert found.chosen == 4  # of equals the smaller
    assert found.gain == pytest.approx([0.0, 1.0, -0.5, 1.5, 0.0, -0.5])
    # differences of the two SNPs are a quarter of a nat to either side of their mean
    assert found.gain_error == pytest.approx([0.0] + [0.25 / np.sqrt(2)] * 5)
    assert walk([3.0, 2.0, 1.0], most=2).n_populations == [1, 2]


def test_losses_of_hidden_calls_by_hand():
    whole = np.array([[0, 1, 2, 3], [2, 2, 1, 0]], np.uint8)
    shown = np.array([[3, 1, 3, 3], [2, 2, 1, 0]], np.uint8)
    params = Ancestry(np.array([[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]), np.array([[0.1, 0.6], [0.5, 0.9]]))
    found = choose_populations._hidden_losses(params, genotypes_of(shown), genotypes_of(whole))
    loss = 0.0
    for person, g in ((0, 0), (2, 2)):
        p = params.frequencies[0] @ params.proportions[person]
        p = (p * 2 + 0.5) / 3  # one call is shown, two alleles
        loss -= g * np.log(p) + (2 - g) * np.log(1 - p)
    assert found.tolist() == pytest.approx([loss / 2, 0.0])


def test_a_fifth_of_the_calls_is_hidden():
    fold = choose_populations._masked(genotypes_of(calls_of(200, 50)), np.random.default_rng(0), lambda one: one)
    assert (fold.masked.calls == 3).mean() == pytest.approx(0.2, abs=0.02)
    there = fold.masked.calls != 3
    assert (fold.masked.calls == fold.complete.calls)[there].all()


def test_too_few_calls_for_cross_validation_raise_an_error():
    with pytest.raises(DataError, match="are too few to find the number of populations"):
        choose_populations.choose_populations(
            genotypes_of(np.zeros((3, 4), np.uint8)), most=3, likelihood=False, tol=1e-3, seed=0
        )


def test_a_newton_step_of_people_solves_their_quadratic_models():
    calls = calls_of(25, 6, seed=2)
    rng = np.random.default_rng(3)
    proportions, often = rng.dirichlet(np.ones(3), 6), rng.uniform(0.2, 0.8, (25, 3))
    steps = AncestrySteps(calls, 1)
    sums = steps.e_step(Ancestry(proportions, often))
    assert sums.log_likelihood == pytest.approx(admixture_twin.log_likelihood(calls, proportions, often).sum())
    assert steps.e_step(sums.params) is sums  # looked at already
    moved = steps.m_step(sums)
    assert moved.frequencies is sums.next_frequencies
    before = admixture_twin.log_likelihood(calls, proportions, moved.frequencies)
    after = admixture_twin.log_likelihood(calls, moved.proportions, moved.frequencies)
    assert after.sum() >= before.sum()
    assert before.sum() >= sums.log_likelihood - 1e-9
    np.testing.assert_allclose(moved.proportions.sum(axis=1), 1.0)
    assert steps.n_cells == 150


def test_no_small_change_of_proportions_or_frequencies_raises_the_likelihood():
    calls = calls_of(40, 5, seed=4)
    calls[0, 0] = 3
    often = np.random.default_rng(5).uniform(0.1, 0.9, (40, 2))
    proportions, values = fit_proportions(calls, often, n_jobs=1)
    grid = np.linspace(0, 1, 2001)
    for person in range(5):
        column = calls[:, [person]]
        curve = [admixture_twin.log_likelihood(column, np.array([[x, 1 - x]]), often)[0] for x in grid[::20]]
        assert values[person] >= max(curve) - 1e-9
        assert proportions[person, 0] == pytest.approx(grid[::20][int(np.argmax(curve))], abs=0.011)
    squares, _ = fit_proportions(calls, often, squares=True, n_jobs=1)
    for person in range(5):
        seen = calls[:, person] < 3
        p = np.outer(often[seen, 0], grid) + np.outer(often[seen, 1], 1 - grid)
        left = ((calls[seen, person][:, None] / 2 - p) ** 2).sum(axis=0)
        assert squares[person, 0] == pytest.approx(grid[left.argmin()], abs=1e-3)
    people = np.random.default_rng(6).dirichlet(np.ones(2), 5)
    found = frequencies_given(calls, people, np.full((40, 2), 0.5))
    best = admixture_twin.log_likelihood(calls, people, found).sum()
    for nudge in (1e-3, -1e-3):
        for k in range(2):
            other = found.copy()
            other[:, k] = np.clip(other[:, k] + nudge, 1e-7, 1 - 1e-7)
            assert admixture_twin.log_likelihood(calls, people, other).sum() <= best + 1e-9
    none = np.zeros((0, 2))
    assert frequencies_given(np.zeros((0, 5), np.uint8), people, none) is none
    assert inside(people, np.array([[0.0, 1.0]])).frequencies.tolist() == [[1e-7, 1 - 1e-7]]


@pytest.mark.parametrize("likelihood", [True, False])
def test_a_fit_has_its_largest_population_first_and_the_values_of_its_people(likelihood):
    rng = np.random.default_rng(7)
    often = rng.uniform(0.05, 0.95, (60, 2))
    proportions = rng.dirichlet([3.0, 1.0], 25)
    calls = rng.binomial(2, often @ proportions.T).astype(np.uint8)
    data = genotypes_of(calls)
    found = fit_ancestry(
        calls, data.means, 2, likelihood=likelihood, max_iter=10, tol=1e-6, rng=np.random.default_rng(0)
    )
    assert (np.diff(found.params.proportions.mean(axis=0)) <= 0).all()
    twin = admixture_twin.log_likelihood(calls, found.params.proportions, found.params.frequencies)
    np.testing.assert_allclose(found.values, twin, rtol=1e-9)
    assert found.objective == found.path[-1]
    if likelihood:
        assert found.objective >= found.log_likelihood - 1e-9
        assert found.init_name.startswith("least squares from")
    else:
        assert found.init_name == "people who stand furthest apart"
        assert found.n_iter == len(found.path) - 1
        drawn = fit_ancestry(
            calls, data.means, 2, likelihood=False, max_iter=1, tol=1e-6, rng=np.random.default_rng(0), far=False
        )
        assert drawn.init_name == "people who were drawn"
