"""Hidden Markov models: prior, steps, pieces, the walk over smoothing and the walk over states, on small numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from latentfit.core.em import EMResult, em
from latentfit.core.errors import NotIdentifiableError
from latentfit.core.kernels.hmm import ChainSums
from latentfit.core.multistart import Selected
from latentfit.hmm import select as choose_states
from latentfit.hmm.data import Sequences
from latentfit.hmm.em import fit as chain_fit
from latentfit.hmm.em.fit import (
    choose_smoothing,
    cut,
    few,
    fit_chain,
    initial_models,
    near_chain,
    no_states,
    one_state,
    pieces_of,
    random_chain,
    scarce,
    selection_steps,
    spectral_inits,
    thinned,
    unigram,
    well_known,
)
from latentfit.hmm.em.steps import (
    Chain,
    ChainPrior,
    ChainSteps,
    _expected_logarithms,
    chain_prior,
    maximise_chain,
    permuted,
)
from latentfit.hmm.init import splits
from latentfit.hmm.select import without_state

CHAIN = Chain(np.array([0.7, 0.3]), np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]))


def sequences(*lists, symbols="abc"):
    """Sequences of letters, '-' a gap."""
    codes = [symbols.index(letter) if letter != "-" else -1 for one in lists for letter in one]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
    return Sequences(
        np.array(codes, np.int32), offsets.astype(np.int64), np.array(list(symbols)), np.arange(len(lists))
    )


def drawn(n, M=3, seed=0, length=10):
    codes = np.random.default_rng(seed).integers(M, size=n).astype(np.int32)
    offsets = np.append(np.arange(0, n, length), n).astype(np.int64)
    return Sequences(codes, offsets, np.arange(M), np.arange(len(offsets) - 1))


# ------------------------------------------------------------------ steps


def test_pseudo_counts_are_spread_like_the_roots_of_the_frequencies():
    prior = chain_prior(sequences("aaaab-", "bbbb"), 3.0)
    assert prior.frequencies.tolist() == pytest.approx([4 / 9, 5 / 9, 0])
    roots = np.array([2, np.sqrt(5), 0])
    np.testing.assert_allclose(prior.shape, roots / roots.sum(), rtol=1e-12)
    assert (prior.emissions, prior.moves) == (3.0, 1.0)
    assert chain_prior(sequences("ab"), 0.0).moves == 0.0
    assert chain_prior(sequences("ab"), 0.1).moves == 1.0
    assert chain_prior(sequences("--"), 1.0).shape.tolist() == [0, 0, 0]


def test_objective_is_the_sum_over_all_paths_and_the_pseudo_counts():
    data = sequences("ab-c", "ba", "c")
    prior = ChainPrior(np.array([0.4, 0.4, 0.2]), np.array([0.5, 0.3, 0.2]), 2.0, 1.0)
    steps = ChainSteps(data, prior)
    sums = steps.e_step(CHAIN)
    value = 0.0
    for word in ("ab-c", "ba", "c"):
        total = 0.0
        for path in product(range(2), repeat=len(word)):
            chance = CHAIN.start[path[0]]
            for t, state in enumerate(path):
                chance *= CHAIN.transitions[path[t - 1], state] if t else 1.0
                chance *= 1.0 if word[t] == "-" else CHAIN.emissions[state, "abc".index(word[t])]
            total += chance
        value += np.log(total)
    assert steps.log_likelihood(sums) == pytest.approx(value, rel=1e-12)
    value += 2.0 * sum(prior.shape[m] * np.log(CHAIN.emissions[k, m]) for k in range(2) for m in range(3))
    value += 0.5 * np.log(CHAIN.start).sum() + 0.5 * np.log(CHAIN.transitions).sum()
    assert steps.objective(CHAIN, sums) == pytest.approx(value, rel=1e-12)
    assert steps.n_cells == 6
    assert steps.with_strength(7.0).prior.emissions == 7.0
    plain = ChainSteps(data, ChainPrior(prior.frequencies, prior.shape, 0.0, 0.0))
    assert plain.objective(CHAIN, sums) == steps.log_likelihood(sums)


def test_logarithms_of_products_are_those_of_the_parts_even_where_products_vanish():
    shape = np.array([0.5, 0.3, 0.2])
    sharp = np.array([[0.5, 0.5, 1e-200], [0.3, 0.7, 1e-200], [0.1, 0.9, 0.4]])
    for emissions in (CHAIN.emissions, sharp):
        want = sum(shape[m] * np.log(row[m]) for row in emissions for m in range(3))
        assert _expected_logarithms(emissions, shape) == pytest.approx(want, rel=1e-12)
    own = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    want = sum(own[k, m] * np.log(CHAIN.emissions[k, m]) for k in range(2) for m in range(3))
    assert _expected_logarithms(CHAIN.emissions, own) == pytest.approx(want, rel=1e-12)
    assert np.isfinite(_expected_logarithms(np.array([[0.0, 1.0]]), np.array([0.5, 0.5])))


def test_the_m_step_adds_pseudo_counts_and_revives_dead_states():
    sums = ChainSums(
        np.array([2.0, 1.0]), np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 4.0]]),
        np.zeros(1),
    )  # fmt: skip
    prior = ChainPrior(np.array([0.2, 0.5, 0.3]), np.array([0.5, 0.3, 0.2]), 2.0, 1.0)
    found = maximise_chain(sums, prior)
    assert found.start.tolist() == pytest.approx([2.5 / 4, 1.5 / 4])
    np.testing.assert_allclose(found.transitions, [[3.5 / 5, 1.5 / 5], [0.5 / 3, 2.5 / 3]])
    np.testing.assert_allclose(found.emissions, [[2 / 5, 2.6 / 5, 0.4 / 5], [1 / 7, 1.6 / 7, 4.4 / 7]])
    dead = ChainSums(np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3)), np.zeros(1))
    found = maximise_chain(dead, ChainPrior(prior.frequencies, prior.shape, 0.0, 0.0))
    assert found.start.tolist() == [0.5, 0.5]
    assert found.transitions.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert found.emissions.tolist() == [[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]


def test_statistics_follow_their_states():
    data = sequences("abccab", "bac")
    steps = ChainSteps(data, chain_prior(data, 1.0))
    refined = em(steps, CHAIN, max_iter=2, tol=0.0)
    turned = permuted(refined, np.array([1, 0]))
    again = steps.e_step(turned.params)
    for name in ("start", "transitions", "emissions"):
        np.testing.assert_allclose(getattr(turned.sums, name), getattr(again, name), rtol=1e-10)
        assert not np.allclose(getattr(refined.sums, name), getattr(again, name))


# ----------------------------------------------------------------- pieces


def lengths_of_pieces(*sequence_lengths):
    data = Sequences(
        np.zeros(sum(sequence_lengths), np.int32),
        np.concatenate([[0], np.cumsum(sequence_lengths)]).astype(np.int64),
        np.arange(1),
        np.arange(len(sequence_lengths)),
    )
    begins, ends = pieces_of(data)
    assert (begins[1:] == ends[:-1]).all()
    assert (begins[0], ends[-1]) == (0, data.n_steps)
    return (ends - begins).tolist()


def test_long_sequences_are_cut_evenly_and_short_ones_stay_whole():
    assert lengths_of_pieces(20, 0, 5) == [20, 5]
    assert lengths_of_pieces(21) == [10, 11]
    assert lengths_of_pieces(41) == [13, 14, 14]
    assert lengths_of_pieces(1200) == [30] * 40
    evenly = [1000 * (n + 1) // 34 - 1000 * n // 34 for n in range(34)]  # pieces of at most 1200 / 40
    assert lengths_of_pieces(1000, 200) == evenly + [200 * (n + 1) // 7 - 200 * n // 7 for n in range(7)]


def test_the_held_out_proportion_is_that_of_the_steps_and_no_step_is_lost():
    data = drawn(1000, length=10)
    split = cut(data, 0)
    assert (split.learn.n_steps, split.held.n_steps) == (800, 200)
    split = cut(data, 0, proportion=0.5)
    assert (split.learn.n_steps, split.held.n_steps) == (500, 500)
    both = np.sort(np.concatenate([part.codes for part in (split.learn, split.held)]))
    np.testing.assert_array_equal(both, np.sort(data.codes))


def test_a_single_piece_is_both_what_is_learnt_and_what_is_left_out():
    data = sequences("abcab")
    split = cut(data, 0)
    assert split.learn is data
    assert split.held is data
    two = cut(sequences("abcab", "bbb"), 0, proportion=0.5)
    assert sorted([two.learn.n_steps, two.held.n_steps]) == [3, 5]


def test_which_piece_is_left_out_its_content_and_places_decide():
    data = drawn(300, seed=1, length=10)
    order = np.random.default_rng(0).permutation(30)
    turned = data.slices(data.offsets[:-1][order], data.offsets[1:][order])

    def held(some):
        part = cut(some, 5).held
        return sorted(tuple(part.codes[a:b]) for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True))

    assert held(data) == held(turned)
    same_letters = sequences("ab", "ba", "ab", "ba")
    begins, ends = pieces_of(same_letters)
    assert len(set(chain_fit._hashes(same_letters, begins, ends, 0).tolist())) == 4


def test_thinned_sequences_are_whole_pieces_that_fit():
    data = drawn(100, length=10)
    assert thinned(data, 100, 0) is data
    assert thinned(data, 99, 0).n_steps == 90
    assert thinned(data, 30, 0).n_steps == 30
    assert thinned(data, 29, 0).n_steps == 20
    assert thinned(data, 9, 0) is data  # not one piece fits
    order = np.argsort(chain_fit._hashes(data, *pieces_of(data), 3), kind="stable")[:3]
    want = np.concatenate([data.codes[10 * at : 10 * at + 10] for at in np.sort(order)])
    np.testing.assert_array_equal(thinned(data, 30, 3).codes, want)


def test_few_and_many_observations():
    assert scarce(drawn(14))
    assert not scarce(drawn(15))
    assert few(drawn(74))
    assert not few(drawn(75))
    assert well_known(drawn(3000))
    assert not well_known(drawn(2999))
    assert selection_steps(drawn(10)) == chain_fit.SEARCH.selection_steps
    assert selection_steps(drawn(10, M=4000)) == 100_000


# ----------------------------------------------------------------- starts


def test_a_random_model_has_the_frequencies_times_exponential_noise():
    frequencies = np.array([0.2, 0.3, 0.5])
    found = random_chain(2, frequencies, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    emissions = frequencies * rng.exponential(size=(2, 3))
    np.testing.assert_allclose(found.emissions, emissions / emissions.sum(axis=1)[:, None])
    np.testing.assert_allclose(found.start, rng.dirichlet([1, 1]))
    np.testing.assert_allclose(found.transitions.sum(axis=1), 1.0)
    assert one_state(sequences("aab-")).emissions[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0])


def test_which_initialisations_are_tried(monkeypatch):
    data, rng = drawn(100), np.random.default_rng(0)
    spectral = [("slices", CHAIN), ("vertices", CHAIN)]
    monkeypatch.setattr(chain_fit, "spectral_inits", lambda *rest: list(spectral))

    def names(n_states, init="auto", n_init=None, some=data):
        return [name for name, _ in initial_models(some, n_states, init, n_init, rng)]

    two = ["slices", "vertices"]
    assert names(1) == ["one state"]
    assert names(2, "spectral") == ["slices"]
    assert names(2) == [*two, "random 1", "random 2"]
    assert names(9) == [*two, "grown", *(f"random {n}" for n in (1, 2, 3))]
    assert names(9, "random", 2) == ["random 1", "random 2"]
    assert names(9, n_init=0) == [*two, "grown"]
    many = drawn(3000)
    assert len(names(2, some=many)) == 2 + 4
    assert len(names(9, some=many)) == 2 + 1 + 5
    spectral.clear()
    assert names(2, "spectral") == ["random 1", "random 2"]


def test_moments_give_two_initialisations_where_observations_are_many(monkeypatch):
    rng = np.random.default_rng(0)
    slices = [CHAIN]
    monkeypatch.setattr(chain_fit, "neighbours_of", lambda data, n: None)
    monkeypatch.setattr(chain_fit, "chain_by_slices", lambda *rest: slices[0])
    monkeypatch.setattr(chain_fit, "chain_by_vertices", lambda around: CHAIN)

    def names(data, n_states=3):
        return [name for name, _ in spectral_inits(data, n_states, rng)]

    assert names(drawn(75)) == ["slices", "vertices"]
    assert names(drawn(74)) == ["slices"]
    assert names(drawn(74, M=1)) == []
    slices[0] = None
    assert names(drawn(74)) == ["vertices"]
    slices[0] = Chain(CHAIN.start, CHAIN.transitions, np.full((2, 3), np.nan))
    assert names(drawn(75)) == ["vertices"]
    monkeypatch.setattr(chain_fit, "two_state_chain", lambda data: CHAIN)
    assert names(drawn(75), 2) == ["two states"]
    assert names(drawn(75), 3) == ["vertices"]
    monkeypatch.setattr(chain_fit, "two_state_chain", lambda data: slices[0])
    assert names(drawn(75), 2) == ["vertices"]

    def unknown(data, n):
        raise NotIdentifiableError("none")

    monkeypatch.setattr(chain_fit, "neighbours_of", unknown)
    assert names(drawn(75)) == []


# -------------------------------------------------------------- smoothing


def walk(monkeypatch, values, *, held="abcabcabca", onward=False, n_iter=9):
    """What `choose_smoothing` tries when strength s makes what is left out `values[s]` nats probable."""
    tried, resume_from = [], []

    def climb(steps, start, *, max_iter, tol, accelerate):
        tried.append(steps.prior.emissions)
        resume_from.append((start, max_iter))
        params = Chain(CHAIN.start, CHAIN.transitions, np.full((2, 3), steps.prior.emissions))
        return EMResult(params, None, 0.0, 0.0, 0, True, [])

    monkeypatch.setattr(chain_fit, "em", climb)
    monkeypatch.setattr(chain_fit, "log_likelihood", lambda chain, held, threads: values[chain.emissions[0, 0]])
    data = sequences(held)
    steps = ChainSteps(data, chain_prior(data, 0.0))
    strengths = list(values)
    prior, refined, value = choose_smoothing(steps, CHAIN, data, strengths, n_iter=n_iter, onward=onward)
    assert prior.moves == 1.0
    assert value == values[prior.emissions] == max(values[one] for one in tried)
    assert refined.params.emissions[0, 0] == prior.emissions
    return prior.emissions, tried, resume_from


def test_smoothing_is_walked_until_two_in_a_row_are_no_better(monkeypatch):
    near = {1.0: -5.0, 2.0: -4.99, 3.0: -5.0, 4.0: -4.98, 5.0: -4.99, 6.0: -4.985, 7.0: -4.0}
    chosen, tried, _ = walk(monkeypatch, near)
    assert (chosen, tried) == (4.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert walk(monkeypatch, {1.0: -5.0, 2.0: -5.0, 3.0: -4.99})[:2] == (3.0, [1.0, 2.0, 3.0])
    assert walk(monkeypatch, {1.0: -5.0, 2.0: -5.0, 3.0: -5.0, 4.0: -5.0})[:2] == (1.0, [1.0, 2.0, 3.0])  # of equals


def test_smoothing_that_is_far_worse_ends_the_walk_at_once(monkeypatch):
    """Far is a hundredth of a nat an observation, ten of them."""
    assert walk(monkeypatch, {1.0: -5.0, 2.0: -5.11, 3.0: -4.0})[:2] == (1.0, [1.0, 2.0])
    assert walk(monkeypatch, {1.0: -5.0, 2.0: -5.09, 3.0: -4.0})[:2] == (3.0, [1.0, 2.0, 3.0])


def test_later_em_runs_go_on_from_the_first_for_a_third_of_the_iterations(monkeypatch):
    values = {1.0: -5.0, 2.0: -4.9, 3.0: -4.8}
    resume_from = walk(monkeypatch, values, onward=True)[2]
    assert [(start.emissions[0, 0], n_iter) for start, n_iter in resume_from] == [(0.5, 9), (1.0, 3), (1.0, 3)]
    resume_from = walk(monkeypatch, values)[2]
    assert [(start.emissions[0, 0], n_iter) for start, n_iter in resume_from] == [(0.5, 9)] * 3


def test_symbols_alone_are_smoothed_as_suits_what_was_left_out():
    learn, held = sequences("aaab"), sequences("abbc-")
    prior = chain_prior(sequences("aaababbc"), 1.0)
    chain, value = unigram(learn, held, prior)
    best = -np.inf
    for n in range(41):
        strength = 0.25 * (2.0**20) ** (n / 40)
        shown = np.array([3, 1, 0]) + strength * prior.shape
        shown /= shown.sum()
        by_piece = np.log(shown[0]) + 2 * np.log(shown[1]) + np.log(shown[2])
        if by_piece > best:
            best, want = by_piece, shown
    assert value == pytest.approx(best)
    np.testing.assert_allclose(chain.emissions[0], want, rtol=1e-10)
    assert chain.transitions.tolist() == [[1.0]]


def test_priors_near_a_model_and_without_states():
    prior = ChainPrior(np.array([0.4, 0.4, 0.2]), np.array([0.5, 0.3, 0.2]), 2.0, 0.0)
    near = near_chain(prior, CHAIN)
    np.testing.assert_allclose(near.shape[1], [0.9 * 0.1 + 0.05, 0.9 * 0.2 + 0.03, 0.9 * 0.7 + 0.02])
    assert near.moves == 1.0
    none = no_states(prior)
    assert none.shape is prior.frequencies
    assert none.emissions >= 1e12
    assert none.moves == 1.0


# -------------------------------------------------------------------- fit


def test_the_initialisation_without_iterations_and_one_state_without_selection():
    data = drawn(200)
    found = fit_chain(data, 2, init="random", n_init=3, max_iter=0, smoothing=0.5)
    assert (found.init_name, found.scores, found.held_out, found.refined.n_iter) == ("random 1", {}, None, 0)
    assert found.prior.emissions == 0.5
    first = random_chain(2, chain_prior(data, 0).frequencies, np.random.default_rng([0, 2]))
    np.testing.assert_array_equal(found.refined.params.emissions, first.emissions)
    found = fit_chain(data, 1)
    assert (found.init_name, found.prior.emissions) == ("one state", chain_fit.SEARCH.first_smoothing)


def test_the_last_em_run_uses_squarem(monkeypatch):
    """All climbs do; the last one is told the caller's tolerance and passes too."""
    by_piece = []

    def climb(steps, start, **how):
        by_piece.append(how)
        return em(steps, start, **how)

    monkeypatch.setattr(chain_fit, "em", climb)
    data = drawn(400)
    fit_chain(data, 2, max_iter=7, tol=1e-3)
    assert all(how["accelerate"] for how in by_piece)
    assert (by_piece[-1]["max_iter"], by_piece[-1]["tol"]) == (7, 1e-3)


def selected(monkeypatch, winners, n_states, data, **options):
    """Races that `fit_chain` runs when `winners` win them, as (names, rounds)."""
    heard, wins = [], list(winners)

    def race(steps, starts, rounds, max_iter, tol):
        heard.append(([name for name, _ in starts], tuple(rounds)))
        return wins.pop(0), starts[0][1], {starts[0][0]: float(len(heard))}

    monkeypatch.setattr(chain_fit, "_select_init", race)
    monkeypatch.setattr(chain_fit, "spectral_inits", lambda *rest: [("slices", random_chain(
        n_states, np.full(3, 1 / 3), np.random.default_rng(0)))])  # fmt: skip
    found = fit_chain(data, n_states, max_iter=2, smoothing=1.0, **options)
    return heard, found


def test_more_random_initialisations_are_drawn_when_one_of_the_first_wins(monkeypatch):
    data = drawn(300)
    heard, found = selected(monkeypatch, ["random 2", "random 7"], 3, data)
    assert heard[0] == (["slices", "grown", "random 1", "random 2", "random 3"], chain_fit.SEARCH.rounds)
    assert heard[1] == (["first random 2", *(f"random {n}" for n in range(1, 11))], chain_fit.SEARCH.more_rounds)
    assert found.init_name == "random 7"
    assert set(found.scores) == {"slices", "first random 2"}
    assert len(selected(monkeypatch, ["slices"], 3, data)[0]) == 1
    assert len(selected(monkeypatch, ["random 1"], 2, data)[0]) == 1  # two states have their own moments
    assert len(selected(monkeypatch, ["random 1"], 3, data, n_init=2)[0]) == 1  # so many and no more
    heard, _ = selected(monkeypatch, ["random 1"], 3, drawn(3000))
    assert [rounds for _, rounds in heard] == [chain_fit.SEARCH.more_rounds]


def test_successive_halving_has_the_iterations_of_its_rounds_and_no_finer_tolerance(monkeypatch):
    heard = []

    def successive_halving(candidates, *, rounds, max_iter, tol, accelerate):
        heard.append((max_iter, tol))
        return Selected("x", None, EMResult(candidates[0].start, None, 0.0, 0.0, 0, True, []), {"x": 1.0})

    monkeypatch.setattr(chain_fit, "successive_halving", successive_halving)
    data = drawn(30)
    steps = ChainSteps(data, chain_prior(data, 1.0))
    chain_fit._select_init(steps, [("x", CHAIN)], (2, 3), 100, 1e-9)
    chain_fit._select_init(steps, [("x", CHAIN)], (2, 3), 4, 1e-2)
    assert heard == [(5, chain_fit.SELECTION_TOL), (4, 1e-2)]


@pytest.mark.parametrize("flat", [-49.0, -51.0])
def test_smoothing_is_chosen_before_and_after_multistart_selection_and_may_lose_to_no_states(monkeypatch, flat):
    data, heard = drawn(300), []

    def smoothed(steps, start, held, strengths, n_iter=8, onward=False):
        heard.append(tuple(strengths))
        refined = EMResult(start, None, 0.0, 0.0, 0, True, [])
        return ChainPrior(steps.prior.frequencies, steps.prior.shape, strengths[1], 1.0), refined, -50.0

    monkeypatch.setattr(chain_fit, "choose_smoothing", smoothed)
    monkeypatch.setattr(chain_fit, "unigram", lambda *rest: (CHAIN, flat))
    found = fit_chain(data, 2, init="random", n_init=1)
    assert heard[0] == chain_fit.SEARCH.strengths
    assert heard[1] == pytest.approx([0.3 * heard[0][1], heard[0][1], 3 * heard[0][1]])
    assert found.prior.emissions == (chain_fit.NO_STATES if flat > -50 else heard[0][1])
    assert found.held_out == pytest.approx(max(flat, -50) / cut(data, 0).held.n_observed)


@pytest.mark.parametrize(("gain", "states"), [(0.0049, False), (0.0051, True)])
def test_few_observations_must_gain_a_twohundredth_of_a_nat(monkeypatch, gain, states):
    data = drawn(60, length=6)  # few, not scarce
    assert few(data)
    assert not scarce(data)
    held = cut(data, 0).held

    def smoothed(steps, start, held, strengths, n_iter=8, onward=False):
        refined = EMResult(start, None, 0.0, 0.0, 0, True, [])
        return ChainPrior(steps.prior.frequencies, steps.prior.shape, 64.0, 1.0), refined, -50 + gain * held.n_observed

    monkeypatch.setattr(chain_fit, "spectral_inits", lambda *rest: [("slices", CHAIN)])
    monkeypatch.setattr(chain_fit, "choose_smoothing", smoothed)
    monkeypatch.setattr(chain_fit, "unigram", lambda *rest: (CHAIN, -50.0))
    found = fit_chain(data, 2)
    assert found.init_name == "slices"
    assert found.prior.emissions == (64.0 if states else chain_fit.NO_STATES)
    assert found.held_out == pytest.approx(-50 / held.n_observed + gain)
    assert found.scores == {"slices": pytest.approx(-50 / held.n_observed + gain)}


@pytest.mark.parametrize(("gain", "states"), [(0.0195, False), (0.0205, True)])
def test_scarce_observations_must_gain_four_times_as_much(monkeypatch, gain, states):
    data = drawn(60, M=20, length=6)
    assert scarce(data)
    chain = random_chain(2, np.full(20, 0.05), np.random.default_rng(0))
    heard = []

    def smoothed(steps, start, held, strengths, n_iter=8, onward=False):
        heard.append((tuple(strengths), steps.prior.shape.ndim))
        refined = EMResult(start, None, 0.0, 0.0, 0, True, [])
        return ChainPrior(steps.prior.frequencies, steps.prior.shape, 512.0, 1.0), refined, -50 + gain * held.n_observed

    monkeypatch.setattr(chain_fit, "spectral_inits", lambda *rest: [("slices", chain)])
    monkeypatch.setattr(chain_fit, "choose_smoothing", smoothed)
    monkeypatch.setattr(chain_fit, "unigram", lambda *rest: (chain, -50.0))
    found = fit_chain(data, 2)
    assert found.prior.emissions == (512.0 if states else chain_fit.NO_STATES)
    assert heard == [(chain_fit.SEARCH.strengths[:3:-1], 2)]  # near the moments only, and strongly


def test_few_observations_choose_between_both_kinds_of_pseudo_counts(monkeypatch):
    data = drawn(60, length=6)
    heard = []

    def smoothed(steps, start, held, strengths, n_iter=8, onward=False):
        near = steps.prior.shape.ndim == 2
        heard.append((near, tuple(strengths), n_iter, onward))
        refined = EMResult(start, None, 0.0, 0.0, 0, True, [])
        value = -40.0 if near else -41.0
        return ChainPrior(steps.prior.frequencies, steps.prior.shape, 64.0, 1.0), refined, value

    monkeypatch.setattr(chain_fit, "spectral_inits", lambda *rest: [("slices", CHAIN), ("vertices", CHAIN)])
    monkeypatch.setattr(chain_fit, "choose_smoothing", smoothed)
    monkeypatch.setattr(chain_fit, "unigram", lambda *rest: (CHAIN, -50.0))
    found = fit_chain(data, 2)
    strong = chain_fit.SEARCH.strengths[:2:-1]
    first = [(near, strong, 8, False) for near in (True, False)]
    assert heard[:4] == first * 2
    near, strengths, n_iter, onward = heard[4]
    assert (near, n_iter, onward) == (True, chain_fit.SEARCH.long, True)
    assert strengths == pytest.approx((64.0, 19.2, 192.0))
    assert found.prior.shape.ndim == 2
    assert found.init_name == "slices"  # of equals the first
    heard.clear()
    assert set(fit_chain(data, 2, init="spectral").scores) == {"slices"}
    assert len(heard) == 3


# ----------------------------------------------------------------- states


def chosen_states(monkeypatch, by_piece, data=None, superfluous=lambda chain, shown: None, halves=None, **options):
    """The number chosen when models of 1, 2, … states give the pieces left out `by_piece` nats.

    `halves` are the gains of the last state when either half is left out, by the number; none is compared by default.
    """
    asked = []

    def fit(steps, held, K, before, strengths, **rest):
        asked.append((K, tuple(strengths)))
        return Chain(np.full(K, 1 / K), np.full((K, K), 1 / K), np.full((K, 3), 1 / 3)), 8.0

    monkeypatch.setattr(choose_states, "_fit", fit)
    monkeypatch.setattr(choose_states, "superfluous", superfluous)
    gain = (halves or {}).get
    monkeypatch.setattr(
        choose_states, "compare_halves",
        lambda data, K, **rest: None if gain(K) is None else choose_states.HalvesComparison(gain(K), 1.0, ()),
    )  # fmt: skip
    monkeypatch.setattr(choose_states, "_by_piece", lambda chain, held: np.array(by_piece[chain.n_states - 1], float))
    data = drawn(400) if data is None else data
    held = cut(data, 0, proportion=0.25).held
    found = choose_states.choose_states(data, **options)
    assert found.held_out == pytest.approx([sum(by_piece[n]) / held.n_observed for n in range(len(found.held_out))])
    return found, asked, held.n_observed


def test_states_are_counted_on_four_times_the_data_of_multistart_selection(monkeypatch):
    asked = []
    monkeypatch.setattr(choose_states, "selection_steps", lambda data: 50)
    monkeypatch.setattr(choose_states, "thinned", lambda part, most, seed: asked.append(most) or part)
    chosen_states(monkeypatch, [[-5.0, -5.0]] * 9)
    assert asked == [200, 200]


def test_the_smallest_number_within_a_standard_error_of_the_best_is_taken(monkeypatch):
    flat = [-10.0, -10.0, -10.0, -10.0]
    two = [-8.0, -8.0, -8.0, -8.0]
    # gains of three over two: 2, −1, 2, −1, so 2 in all, with an error of √(4 · 1.5²) = 3
    unsure = [-6.0, -9.0, -6.0, -9.0]
    found, asked, cells = chosen_states(monkeypatch, [flat, two, unsure, unsure, unsure])
    assert (found.chosen, found.best, [K for K, _ in asked]) == (2, 3, [2, 3, 4, 5])
    assert found.errors == pytest.approx([3.0 / cells, 3.0 / cells, 0.0, 0.0, 0.0])
    assert "2 states, the smallest number within a standard error of the best, 3" in found.describe()
    assert asked[0][1] == choose_states.SELECTION.first_strengths
    assert asked[1][1] == (2.0, 8.0, 32.0)
    sure = [-5.0, -8.0, -5.0, -8.0]  # six nats of error three
    found, asked, _ = chosen_states(monkeypatch, [flat, two, unsure, sure, sure, sure])
    assert (found.chosen, [K for K, _ in asked]) == (4, [2, 3, 4, 5, 6])


def test_the_limit_of_the_number_is_kept_and_known(monkeypatch):
    rising = [[-10.0 + n, -10.0 + n] for n in range(9)]
    found, asked, _ = chosen_states(monkeypatch, rising, most=4)
    assert (found.chosen, found.at_limit, [K for K, _ in asked]) == (4, True, [2, 3, 4])
    found, _, _ = chosen_states(monkeypatch, [rising[0], rising[1], rising[1], rising[1], rising[1]], most=4)
    assert (found.chosen, found.at_limit) == (2, False)


def test_a_number_with_an_empty_or_a_doubled_state_is_not_taken(monkeypatch):
    rising = [[-10.0, -10.0], [-8.0, -8.0], [-7.9, -8.1], [-8.1, -7.9], [-8.1, -7.9]]
    found, _, _ = chosen_states(
        monkeypatch, rising, superfluous=lambda chain, shown: 1 if chain.n_states == 2 else None
    )
    assert found.chosen == 2, "the best of all stays where no smaller one will do"
    rising[2] = [-7.8, -7.9]
    found, _, _ = chosen_states(
        monkeypatch, rising, superfluous=lambda chain, shown: 1 if chain.n_states == 2 else None
    )
    assert found.chosen == 3


def test_the_number_falls_while_its_last_state_gains_nothing_on_either_half(monkeypatch):
    rising = [[-10.0 + n, -10.0 + n] for n in range(4)] + [[-9.0, -9.0]] * 3
    for gains, chosen in (({4: 1.1}, 4), ({4: 1.0, 3: 1.1}, 3), ({4: 0.5, 3: -2.0, 2: 0.9}, 1), ({4: -1.0}, 3)):
        found, _, _ = chosen_states(monkeypatch, rising, halves=gains)
        assert (found.chosen, found.n_rejected, found.best) == (chosen, 4 - chosen, 4)
        assert found.chain.n_states == chosen
        assert ("either half" in found.describe()) == (chosen < 4)
    found, _, _ = chosen_states(
        monkeypatch, rising, halves={4: 0.0}, superfluous=lambda chain, shown: 1 if chain.n_states == 3 else None
    )
    assert found.chosen == 2, "a number with an empty state is not taken on the way down"


def test_superfluous_states_are_empty_ones_and_doubles():
    emissions = np.array([[0.5, 0.5], [0.2, 0.8], [0.21, 0.79]])
    moves = np.array([[0.6, 0.2, 0.2], [0.3, 0.4, 0.3], [0.3, 0.39, 0.31]])
    chain = Chain(np.full(3, 1 / 3), moves, emissions)
    assert choose_states.superfluous(chain, np.array([100.0, 60.0, 50.0])) == 2
    assert choose_states.superfluous(chain, np.array([3.0, 60.0, 50.0])) == 0
    moves[2] = [0.9, 0.05, 0.05]  # the same symbols and another future: no double
    assert choose_states.superfluous(Chain(chain.start, moves, emissions), np.array([100.0, 60.0, 50.0])) is None
    assert choose_states.superfluous(one_state(drawn(30)), np.array([30.0])) is None


def test_any_states_must_gain_a_thousandth_of_a_nat_over_none(monkeypatch):
    data = drawn(400)
    cells = cut(data, 0, proportion=0.25).held.n_observed
    for gain, chosen in ((0.9e-3, 1), (1.1e-3, 2)):
        more = [-10.0 + gain * cells]
        assert chosen_states(monkeypatch, [[-10.0], more, more, more], data)[0].chosen == chosen
    for gain, chosen in ((0.4e-3, 2), (0.6e-3, 3)):  # beyond the first half of that
        small = [-9.0 + gain * cells]
        assert chosen_states(monkeypatch, [[-10.0], [-9.0], small, small, small], data)[0].chosen == chosen


def test_without_neighbours_or_a_second_symbol_there_is_one_state():
    found = choose_states.choose_states(drawn(50, length=1))
    assert (found.chosen, len(found.held_out), found.errors) == (1, 1, [0.0])
    assert choose_states.choose_states(drawn(50, M=1)).chosen == 1
    assert found.as_dict() == {"chosen": 1, "held_out": found.held_out, "errors": [0.0], "limit": 20}


def test_what_the_last_state_gains_is_summed_over_both_halves(monkeypatch):
    data = drawn(100)
    gains = iter([np.array([1.0, 2.0]), np.array([3.0])])
    fewer, more = one_state(data), CHAIN
    monkeypatch.setattr(choose_states, "_rivals", lambda *rest: (fewer, more))
    monkeypatch.setattr(choose_states, "_by_piece", lambda chain, held: next(gains) if chain is more else np.zeros(1))
    found = choose_states.compare_halves(data, 2)
    assert found.gain == pytest.approx(6.0 / 100)
    assert found.error == pytest.approx(np.sqrt(2.0) / 100)
    assert found.models == (more, more)


def test_a_state_left_out_leaves_its_moves_to_the_others():
    chain = Chain(
        np.array([0.5, 0.3, 0.2]),
        np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]),
        np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]),
    )
    found = without_state(chain, 2)
    assert found.start.tolist() == pytest.approx([0.625, 0.375])
    np.testing.assert_allclose(found.transitions, [[2 / 3, 1 / 3], [2 / 9, 7 / 9]])
    lost = without_state(chain, 0)
    assert lost.transitions[1].tolist() == [0.0, 1.0]
    alone = Chain(np.array([1.0, 0.0]), np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.5, 0.5], [0.2, 0.8]]))
    assert without_state(alone, 0).start.tolist() == [1.0]
    assert without_state(alone, 0).transitions.tolist() == [[1.0]]


def test_a_split_parts_what_a_state_mixes():
    """Sequences of a and b, and of c and d, in one state: the first split parts them, in any order."""
    rng = np.random.default_rng(0)
    lists = ["".join(rng.choice(list(pair), 20)) for pair in ("ab", "cd", "ab", "cd", "ab")]
    data, turned = (sequences(*one, symbols="abcd") for one in (lists, lists[::-1]))
    (name, wide), *more = splits(one_state(data), data, 2)
    assert (name, more) == ("split 0", [])
    halves = wide.emissions.argmax(axis=0)
    assert halves[0] == halves[1] != halves[2] == halves[3]
    assert (np.diag(wide.transitions) > 0.5).all()
    for part in (wide.start, wide.transitions, wide.emissions):
        np.testing.assert_allclose(part.sum(axis=-1), 1.0)
    again = splits(one_state(turned), turned, 1)[0][1]
    np.testing.assert_allclose(again.emissions, wide.emissions, atol=1e-12)
    assert [chain.n_states for _, chain in splits(wide, data, 1, 2)] == [4]
