"""Conditions on fitted switches against loops over all states, and the limits of doubt on both of their sides."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from latentfit.core.em import em
from latentfit.core.tensor.whitened import Spectrum
from latentfit.core.verdict import Examiner
from latentfit.factors import theory
from latentfit.factors.diagnostics import verdict as switches
from latentfit.factors.em.steps import SwitchParams, plane_steps, way_to_sum
from latentfit.factors.theory import Rival


def told(examiner, words):
    return any(words in check.reason for check in examiner.failed)


def params_of(P, W=None, sigma2=0.01):
    """From P(h) by on/off tuple."""
    d = len(next(iter(P)))
    prior = np.full(2**d, 1e-300)
    for h, p in P.items():
        prior[sum(on << i for i, on in enumerate(h))] = max(p, 1e-300)
    W = np.eye(d, d + 2) if W is None else W
    return SwitchParams(W, np.log(prior), sigma2)


def independent(*proportions):
    return {
        h: float(np.prod([p if on else 1 - p for on, p in zip(h, proportions, strict=True)]))
        for h in product((0, 1), repeat=len(proportions))
    }


# ----------------------------------------------------------------- conditions


@pytest.mark.parametrize("d", [2, 3, 4])
def test_the_projected_jacobian_by_its_definition(d):
    rng = np.random.default_rng(d)
    every = list(product((0, 1), repeat=d))
    P = dict(zip(every, rng.dirichlet(np.ones(2**d)), strict=True))
    smallest, largest, sign = theory.condition_two(params_of(P))
    C = np.array([[sum(p * h[j] * h[k] for h, p in P.items()) for k in range(d)] for j in range(d)])
    values, vectors = np.linalg.eigh(C)
    inverse_root = vectors @ np.diag(values**-0.5) @ vectors.T
    for i in range(d):
        third = np.array([[sum(p * h[j] * h[k] * h[i] for h, p in P.items()) for k in range(d)] for j in range(d)])
        A = inverse_root @ (2 * third - C) @ inverse_root
        u = inverse_root @ C[:, i]
        away = np.eye(d) - np.outer(u, u) / (u @ u)
        spectrum = np.linalg.eigvalsh(away @ A @ away + 100 * np.outer(u, u) / (u @ u))[:-1]  # u's own set apart
        assert smallest[i] == pytest.approx(np.abs(spectrum).min(), rel=1e-6)
        assert largest[i] == pytest.approx(np.abs(spectrum).max(), rel=1e-6)
        assert sign[i] == (-1 if spectrum.max() < 0 else 1 if spectrum.min() > 0 else 0)


def test_one_switch_fulfils_condition_two_and_an_even_one_does_not():
    one = theory.condition_two(params_of(independent(0.3)))
    assert (one[0].tolist(), one[1].tolist(), one[2]) == ([1.0], [1.0], [-1])
    smallest, _, _ = theory.condition_two(params_of(independent(0.5, 0.3, 0.7)))
    assert smallest[0] == pytest.approx(0, abs=1e-9)
    assert min(smallest[1:]) > 0.01


def correlated(c):
    """Two even switches with this correlation, and a third by itself."""
    both = 0.25 + 0.25 * c
    pair = {(1, 1): both, (0, 0): both, (1, 0): 0.5 - both, (0, 1): 0.5 - both}
    return {(*h, k): p * (0.2 if k else 0.8) for h, p in pair.items() for k in (0, 1)}


@pytest.mark.parametrize(
    ("P", "n", "unseen"),
    [
        (independent(0.5, 0.2, 0.3), 10**8, [0]),
        (independent(0.53, 0.2, 0.3), 10**8, [0]),  # .03 and the two errors of a share, 1e-4
        (independent(0.5302, 0.2, 0.3), 10**8, []),
        (independent(0.5399, 0.2, 0.3), 10**4, [0]),
        (independent(0.5401, 0.2, 0.3), 10**4, []),
        (independent(0.5, 0.2), 10**8, []),  # two switches have a third moment together
        (correlated(0.049), 10**8, [0, 1]),
        (correlated(0.051), 10**8, []),
        (correlated(0.099), 400, [0, 1]),
        (correlated(0.101), 400, []),
        (correlated(-0.101), 400, []),
    ],
)
def test_independent_switches_on_in_half_of_the_rows_are_found(P, n, unseen):
    examiner = Examiner()
    assert np.flatnonzero(switches._examine_conditions(examiner, params_of(P), n)).tolist() == unseen
    assert examiner.quantities.keys() == {"condition_two", "condition_two_largest", "definite"}


def test_switch_probabilities_are_marginals_of_the_joint_distribution():
    np.testing.assert_allclose(switches.on_probabilities(params_of(independent(0.5, 0.2, 0.9))), [0.5, 0.2, 0.9])


# --------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("on", "n", "words"),
    [
        ([0.5, 0.2], 100, None),
        ([0.5, 0.19], 100, "Switch 1 is on in about 19 rows, fewer than 20"),
        ([0.81, 0.5], 100, "Switch 0 is off in about 19 rows"),
        ([0.99, 0.5], 100, None),  # a baseline, told elsewhere
        ([0.98, 0.5], 100, "Switch 0 is off in about 2 rows"),
        ([0.1, 0.05, 0.99], 100, "Switch 1 is on in about 5 rows"),
    ],
)
def test_a_switch_on_or_off_in_fewer_than_twenty_rows_is_reported(on, n, words):
    examiner = Examiner()
    switches._examine_rows(examiner, np.array(on), n)
    assert told(examiner, words) if words else not examiner.failed


def seen(values, n=50, m=5, mean=None):
    return Spectrum(n, m, np.zeros(m) if mean is None else np.array(mean), np.array(values), np.eye(m))


def looked_at(values, d, limit=1.0, beyond=0.5, **changed):
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(switches, "threshold", lambda v, n, m, k, alpha, s: asked.append((k, alpha)) or beyond)
        patch.setattr(switches, "ratio_threshold", lambda v, n, m, k, alpha: asked.append((k, alpha)) or limit)
        examiner = Examiner()
        switches._examine_eigenvalues(examiner, seen(values, **changed), d)
    return examiner, asked


def test_eigenvalues_taken_rise_above_noise_and_those_left_do_not():
    examiner, asked = looked_at([9.0, 1.001, 0.51, 0.2, 0.1], 2)
    assert not examiner.failed
    assert asked == [(2, 0.01), (3, 0.001)]
    assert examiner.quantities == pytest.approx(
        {"smallest_eigenvalue": 1.001, "noise_threshold": 1.0, "next_eigenvalue_over_threshold": 1.02}
    )
    assert told(looked_at([9.0, 1.0, 0.5, 0.2, 0.1], 2)[0], "Eigenvalue 2, 1, does not rise")
    assert told(looked_at([9.0, 1.1, 0.511, 0.2, 0.1], 2)[0], "A further eigenvalue, 0.511")
    assert not told(looked_at([9.0, 1.1, 0.511, 0, 0], 2, beyond=0.0)[0], "A further eigenvalue")  # no noise at all


def test_switches_that_use_all_dimensions_leave_no_noise_to_see():
    for d, all_used in ((4, False), (5, True)):
        examiner, asked = looked_at([9.0, 8.0, 7.0, 6.0, 5.0], d)
        assert told(examiner, f"{d} switches use all 5 dimensions") == all_used
        assert asked == ([] if all_used else [(4, 0.01)])  # beyond the last but one nothing is left to test
    assert told(looked_at([9.0, 8.0, 7.0], 3, n=3, m=5)[0], "3 switches use all 3 dimensions")


@pytest.mark.parametrize(("left", "hidden"), [(0.9e-10, True), (1.1e-10, False)])
def test_features_far_from_zero_hide_what_changes(left, hidden):
    size = np.sqrt((9.0 + 1.1 + 0.3) * (1 - left))
    examiner = Examiner()
    switches._examine_structure(examiner, seen([9.0, 1.1, 0.1, 0.1, 0.1], mean=[size, 0, 0, 0, 0]), None)
    assert told(examiner, "rounding hides what changes") == hidden


def test_scores_of_chosen_and_rejected_candidates_are_reported():
    pairs = SimpleNamespace(condition=np.array([1.0, 2.0, 3.0, 4.0]), eigenvalues=np.array([1.0, 1.7, 1.2, 2.0]))
    found = SimpleNamespace(
        scores=np.array([0.01, 0.02, 0.5, 0.3]), chosen=np.array([1, 0]), n_scored=400, filter="ks", pairs=pairs
    )
    examiner = Examiner()
    switches._examine_candidates(examiner, SimpleNamespace(candidates=found))
    assert examiner.quantities.pop("score_null_level") == pytest.approx(switches.SEARCH.ks_null / 20)
    assert examiner.quantities.pop("eigenvalue_gap") == pytest.approx(0.2)
    assert examiner.quantities == {
        "candidates": 4, "scores": [0.02, 0.01], "next_score": 0.3, "rejected_scores": [0.3, 0.5], "filter": "ks",
        "newton_condition": [2.0, 1.0],
    }  # fmt: skip
    found.scores, found.chosen = np.array([0.1]), np.array([0])
    switches._examine_candidates(examiner, SimpleNamespace(candidates=found))
    assert examiner.quantities["next_score"] is None
    assert examiner.quantities["eigenvalue_gap"] is None


def rows_of(n, proportions, W, sigma, seed=0):
    rng = np.random.default_rng(seed)
    h = (rng.random((n, len(proportions))) < proportions).astype(float)
    return h @ W + sigma * rng.standard_normal((n, W.shape[1]))


def test_values_are_compared_with_two_bumps():
    W = np.array([[2.0, 0.0, 1.0], [0.5, 1.5, 0.0]])
    rows = rows_of(300, [0.3, 0.6], W, 0.5)
    fitted = params_of(independent(0.3, 0.6), W, 0.25)
    examiner = Examiner()
    switches._examine_bumps(examiner, rows, fitted, np.array([0.3, 0.6]))
    inverse = np.linalg.pinv(W)
    for i, p in enumerate((0.3, 0.6)):
        width = 0.5 * np.linalg.norm(inverse[:, i])
        by_hand = kstest(
            rows @ inverse[:, i], lambda t, p=p, w=width: (1 - p) * norm.cdf(t / w) + p * norm.cdf((t - 1) / w)
        )
        assert examiner.quantities["fitted_scores"][i] == pytest.approx(by_hand.statistic, rel=1e-9)
    assert not examiner.failed
    examiner = Examiner()
    switches._examine_bumps(examiner, rows, SwitchParams(W, fitted.log_prior, 1e-9), np.array([0.3, 0.6]))
    assert not examiner.quantities  # without noise there is no shape to test


@pytest.mark.parametrize(
    ("scores", "n", "worst"),
    [([0.01, 0.111], 400, 1), ([0.01, 0.109], 400, None), ([0.021, 0.0], 40_000, 0), ([0.019, 0.0], 40_000, None)],
)
def test_values_count_as_not_bimodal_only_if_significant_and_large_enough(scores, n, worst, monkeypatch):
    """√n Δ above 2.2, and Δ above .02."""
    monkeypatch.setattr(switches, "score", lambda *args: np.array(scores))
    examiner = Examiner()
    switches._examine_bumps(examiner, np.zeros((n, 4)), params_of(independent(0.3, 0.6)), np.array([0.3, 0.6]))
    assert told(examiner, f"The values of switch {worst} are not two bumps") == (worst is not None)


def test_change_is_relative_to_the_weights_after_matching():
    W = np.array([[3.0, 4.0], [0.0, 2.0]])
    other = np.array([[0.0, 1.0], [3.0, 3.0]])
    np.testing.assert_allclose(switches.relative_change(W, other), [1 / 5, 1 / 2])


@pytest.mark.parametrize(("change", "unstable"), [(0.39, False), (0.41, True)])
def test_weights_that_change_by_two_fifths_between_halves_are_unstable(change, unstable, monkeypatch):
    fitted = params_of(independent(0.3, 0.6), np.array([[3.0, 0.0], [0.0, 2.0]]))
    sizes = []

    def fit(half, params, seed, noise, own):
        sizes.append(sorted(half[:, 0].tolist()))
        assert own == (len(sizes) == 1)
        other = params.W * np.array([[1.0], [1 + change * (len(sizes) == 1)]])  # one of the halves differs
        return replace(params, W=other)

    monkeypatch.setattr(switches, "_fit_half", fit)
    rows = np.arange(18.0).reshape(9, 2)
    hashes = np.array([5, 3, 9, 1, 7, 2, 8, 4, 6], np.uint64)
    examiner = Examiner()
    switches._examine_halves(examiner, rows, fitted, hashes, 0)
    assert sizes == [sorted(rows[hashes < 5, 0]), sorted(rows[hashes >= 5, 0])]
    assert examiner.quantities["half_sample_change"] == pytest.approx([0, change])
    assert told(examiner, f"Half of the rows alone give switch 1 other weights (a change of {change:.0%}") == unstable


def test_halves_with_no_more_rows_than_switches_say_nothing(monkeypatch):
    monkeypatch.setattr(switches, "_fit_half", lambda half, params, seed, noise, own: params)
    fitted = params_of(independent(0.5, 0.5), np.eye(2))
    for n, known in ((5, False), (6, True)):  # halves of two and three rows, two switches
        examiner = Examiner()
        switches._examine_halves(examiner, np.zeros((n, 2)), fitted, np.arange(n, dtype=np.uint64), 0)
        assert examiner.quantities["half_sample_change"] == ([0, 0] if known else [1e6, 1e6])
        assert told(examiner, "a change of 1000%") == (not known)


@pytest.mark.parametrize("better", [0, 1])
def test_a_half_sample_uses_the_likelier_of_its_two_fits(better, monkeypatch):
    W = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    rows = rows_of(60, [0.4, 0.6], W, 0.2)
    fits = []

    def fitted(steps, start, **kwargs):
        fits.append(start.W * (1 + len(fits)))
        value = 1.0 if len(fits) == better + 1 else 0.0
        return SimpleNamespace(log_likelihood=value, params=replace(start, W=fits[-1]))

    monkeypatch.setattr(switches, "em", fitted)
    found = switches._fit_half(rows, params_of(independent(0.4, 0.6), W, 0.04), 0).W
    assert len(fits) == 2
    if better == 0:
        np.testing.assert_allclose(found, W, atol=1e-9)  # begins at the answer
    else:
        assert np.linalg.norm(switches.relative_change(2 * W, found)) < 0.5


# --------------------------------------------------------------------- rivals


@pytest.mark.parametrize("d", [2, 3, 4])
def test_rigidity_of_every_combination_by_its_definition(d):
    rng = np.random.default_rng(d)
    every = list(product((0, 1), repeat=d))
    P = dict(zip(every, rng.dirichlet(np.full(2**d, 0.4)), strict=True))
    found = {rival.u: rival for rival in theory.combinations_of(params_of(P))}
    expected = {}
    for size in (2, 3):
        for some in combinations(range(d), size):
            for signs in product((1, -1), repeat=size):
                u = [0] * d
                for at, sign in zip(some, signs, strict=True):
                    u[at] = sign
                value = {h: sum(a * b for a, b in zip(u, h, strict=True)) for h in every}
                if 1 in signs and sum(P[h] for h in every if value[h] >= 1) > 1e-3:
                    off = {h: min(abs(value[h]), abs(value[h] - 1)) for h in every}
                    rigidity = sum(P[h] * off[h] ** 2 for h in every)
                    expected[tuple(u)] = rigidity, sum(P[h] for h in every if off[h] > 0)
    assert found.keys() == expected.keys()
    for u, (rigidity, outside) in expected.items():
        assert (found[u].rigidity, found[u].outside) == pytest.approx((rigidity, outside), abs=1e-12)
    shares = [rival.outside for rival in theory.combinations_of(params_of(P))]
    assert shares == sorted(shares)


def test_states_ruled_out_have_no_probability():
    steps = theory._WithoutStates(np.zeros((1, 2)), 0.0, 2, "all", None, np.array([False, True, False, False]))
    bare = np.exp(steps.bare(params_of(independent(0.5, 0.2))).log_prior)
    np.testing.assert_allclose(bare, np.array([0.4, 0, 0.1, 0.1]) / 0.6, atol=1e-20)


def costs_of(P, n=200, sigma=0.3, seed=0):
    W = np.array([[2.0, 0.0, 0.5], [0.0, 2.0, 0.5]])
    rng = np.random.default_rng(seed)
    every = list(P)
    h = np.array(every, float)[rng.choice(len(every), size=n, p=list(P.values()))]
    rows = h @ W + sigma * rng.standard_normal((n, 3))
    fitted = params_of(P, W, sigma**2)
    basis = np.linalg.qr(W.T)[0]
    steps = plane_steps(rows, basis, way_to_sum(fitted))
    start = SwitchParams(W @ basis, np.maximum(fitted.log_prior, -60.0), sigma**2)
    base = em(steps, start, max_iter=30, tol=0.0)
    return theory.tested_rivals(steps, base.params, base.log_likelihood)


def test_a_union_of_exclusive_switches_stands_and_a_difference_does_not():
    found = {r.u: r for r in costs_of({(0, 0): 0.4, (1, 0): 0.3, (0, 1): 0.3})}
    assert found.keys() == {(1, 1)}  # h0 − h1 is −1 in three tenths of the rows: no test needed
    rival = found[1, 1]
    assert rival.stands
    assert rival.needed == pytest.approx(chi2.ppf(0.999, 1) / 2)  # one state, both on, is ruled out
    assert 0 <= rival.cost < rival.needed


def test_a_few_clear_rows_speak_against_a_rival():
    found = {r.u: r for r in costs_of({(0, 0): 0.4, (1, 0): 0.29, (0, 1): 0.28, (1, 1): 0.03})}
    assert not found[1, 1].stands
    assert found[1, 1].cost > found[1, 1].needed
    assert (1, 1) not in {r.u for r in costs_of({(0, 0): 0.4, (1, 0): 0.25, (0, 1): 0.25, (1, 1): 0.1})}


def test_a_rival_stands_up_to_the_cost_that_would_be_evidence():
    assert Rival((1, 1), 0.0, 0.0, cost=5.0, needed=5.0).stands
    assert not Rival((1, 1), 0.0, 0.0, cost=5.1, needed=5.0).stands
    assert not Rival((1, 1), 0.0, 0.0).stands


def rivals(*us):
    return [Rival(u, 0.0, 0.0, 0.0, 1.0) for u in us]


def test_the_kind_of_rival_is_named():
    tell = switches._report_rival
    assert tell(rivals((1, -1)), np.array([0.5, 0.99])).startswith("Switch 1 is always on")
    assert tell(rivals((1, -1)), np.array([0.5, 0.98])).startswith("The combination h0 − h1 is a switch too")
    three = rivals((1, 1, 0), (1, 0, 1), (0, 1, 1))
    assert tell(three, np.full(3, 0.3)).startswith("Switches exclude one another")
    assert tell(three[:2], np.full(3, 0.3)).startswith("The combination h0 + h1 is a switch too")
    assert tell(rivals((1, 1)), np.full(2, 0.3)).startswith("The combination h0 + h1 is")
    four = rivals((1, 1, 0, 0), (1, 0, 1, 0), (0, 1, 1, 0))
    assert tell(four, np.full(4, 0.3)).startswith("Switches exclude one another")
    unions = rivals((1, 1, 1), (1, -1, 0), (1, 1, 0))
    assert tell(unions, np.full(3, 0.3)).startswith("The combination h0 + h1 + h2 is")
    assert tell(rivals((0, -1, 1)), np.full(3, 0.3)).startswith("The combination − h1 + h2 is")
