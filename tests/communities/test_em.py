"""Blocks of graphs: their number, their degrees, a start, the objective, and who wins, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.communities import em as block_fits
from latentfit.communities import select as choose_blocks
from latentfit.communities.data import read_graph
from latentfit.communities.em import (
    Blocks,
    BlockSteps,
    Propagated,
    blocks_in_use,
    fit_blocks,
    heaviest_first,
    posterior_of_new,
)
from latentfit.communities.select import DegreeTest, examine_degrees
from latentfit.core.em import EMResult
from latentfit.core.multistart import Selected


def chosen_blocks(monkeypatch, strengths, nodes=100, informative=None):
    asked = []

    def signals(matrix, number):
        asked.append(number)
        many = len(strengths) if informative is None else min(informative, number)
        return SimpleNamespace(
            informative=np.arange(many, dtype=float), strengths=np.array(strengths, float), radius=1.0
        )

    monkeypatch.setattr(choose_blocks, "signals", signals)
    found = choose_blocks.choose_blocks(sp.csr_array((nodes, nodes)))
    return found.chosen, found.informative, asked


def test_every_informative_signal_is_a_block_up_to_the_first_that_stands_apart(monkeypatch):
    assert chosen_blocks(monkeypatch, [9, 5, 4, 3])[:2] == (4, 4)
    assert chosen_blocks(monkeypatch, [9, 5, 2.5, 2])[:2] == (2, 4)  # twice is apart
    assert chosen_blocks(monkeypatch, [9, 5, 2.51, 2])[:2] == (4, 4)
    assert chosen_blocks(monkeypatch, [9, 5, 4, 1.9])[:2] == (3, 4)
    assert chosen_blocks(monkeypatch, [9, 4, 3])[:2] == (3, 3)  # the first is the density
    assert chosen_blocks(monkeypatch, [9, 1])[:2] == (2, 2)
    assert chosen_blocks(monkeypatch, [9])[:2] == (1, 1)
    assert chosen_blocks(monkeypatch, [])[:2] == (1, 1)


def test_more_signals_are_asked_for_while_all_of_them_are_informative(monkeypatch):
    many = np.linspace(9, 8, 60)
    assert chosen_blocks(monkeypatch, many, informative=11)[2] == [12]
    assert chosen_blocks(monkeypatch, many, informative=12)[2] == [12, 24]
    assert chosen_blocks(monkeypatch, many, informative=99)[2] == [12, 24, 48]
    assert chosen_blocks(monkeypatch, many, nodes=20, informative=99)[2] == [12, 20]
    assert chosen_blocks(monkeypatch, many, nodes=5, informative=99)[2] == [5]


def test_degrees_inside_and_between_blocks():
    degrees = np.array([2.0, 4.0, 3.0, 10.0, 12.0, 8.0, 9.0])
    posterior = np.eye(2)[[0, 0, 0, 1, 1, 1, 1]]
    found = examine_degrees(degrees, posterior)
    means = [3.0, 9.75]
    squares = sum((d - means[b]) ** 2 / means[b] for d, b in zip(degrees, [0, 0, 0, 1, 1, 1, 1], strict=True))
    assert found.dispersion == pytest.approx(squares / 5)
    overall = 48 / 7
    assert found.error == pytest.approx(np.sqrt((2 + 1 / overall) / 5))
    between = 3 * (3 - overall) ** 2 / overall + 4 * (9.75 - overall) ** 2 / overall
    from scipy.stats import chi2

    assert found.p_equal_means == pytest.approx(chi2.sf(between, 1))
    assert examine_degrees(degrees, np.ones((7, 1))).p_equal_means == 1.0
    assert DegreeTest(1.9, 0.1, 0.0009).worth_a_try
    assert not DegreeTest(2.1, 0.1, 0.0009).worth_a_try
    assert not DegreeTest(1.9, 0.1, 0.0011).worth_a_try
    assert DegreeTest(1.29, 0.1, 0.0009).plain
    assert not DegreeTest(1.31, 0.1, 0.0009).plain
    assert not DegreeTest(1.29, 0.1, 0.0011).plain


def graph_of(edges, n, weights=None):
    weights = np.ones(len(edges)) if weights is None else np.array(weights)
    left, right = np.array(edges).T
    half = sp.coo_array((weights, (left, right)), shape=(n, n))
    return read_graph(sp.csr_array(half + half.T))


EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("weights", [None, [0.5, 1.5, 1.0, 0.5, 1.5, 1.0, 1.0]])
def test_an_initialisation_of_blocks_counts_its_edges(corrected, weights):
    graph = graph_of(EDGES, 6, weights)
    steps = BlockSteps.of(graph, degree_corrected=corrected)
    labels = np.array([0, 0, 0, 1, 1, 1])
    found = steps.begin(labels, 2)
    w = np.ones(7) if weights is None else np.array(weights)
    mass = np.zeros(6)
    for (a, b), one in zip(EDGES, w, strict=True):
        mass[[a, b]] += one
    mass = mass if corrected else np.ones(6)
    held = np.array([mass[:3].sum(), mass[3:].sum()])
    total = 2 * w.sum()
    mean = total / mass.sum() ** 2
    assert steps.total == pytest.approx(total)
    assert steps.mean_affinity == pytest.approx(mean)
    assert steps.n_cells == 7
    inside_0, inside_1, between = 2 * w[:3].sum(), 2 * w[4:].sum(), w[3]
    np.testing.assert_allclose(
        found.affinity,
        [
            [(inside_0 + 2) / (held[0] ** 2 + 2 / mean), (between + 1) / (held[0] * held[1] + 1 / mean)],
            [(between + 1) / (held[0] * held[1] + 1 / mean), (inside_1 + 2) / (held[1] ** 2 + 2 / mean)],
        ],
    )
    assert found.prior.tolist() == pytest.approx([4 / 8, 4 / 8])
    np.testing.assert_allclose(found.posterior[0], [0.9, 0.1])
    np.testing.assert_allclose(found.posterior[5], [0.1, 0.9])
    np.testing.assert_array_equal(found.messages, found.posterior[steps.reach])


def test_objective_and_mean_field_bound_of_blocks_by_hand():
    graph = graph_of(EDGES, 6)
    steps = BlockSteps.of(graph, degree_corrected=True)
    rng = np.random.default_rng(0)
    posterior = rng.dirichlet(np.ones(2), 6)
    params = Blocks(np.array([0.4, 0.6]), np.array([[0.2, 0.05], [0.05, 0.1]]), posterior[steps.reach], posterior)
    mass = np.array([2.0, 2, 3, 3, 2, 2])
    held = mass @ posterior
    value = 0.0
    for a, b in EDGES:
        value += posterior[a] @ np.log(params.affinity) @ posterior[b]
    value -= held @ params.affinity @ held / 2
    value -= (posterior * np.log(posterior)).sum()
    value += (posterior @ np.log(params.prior)).sum()
    assert steps._mean_field(params, posterior) == pytest.approx(value)
    sums = Propagated(params.messages, posterior, np.eye(2), -3.0, 0.0)
    constant = (mass * np.log(mass)).sum()
    assert steps.log_likelihood(sums) == pytest.approx(-3 + constant)
    mean = 14 / 14**2
    prior = np.log(params.prior).sum()
    for r, s in ((0, 0), (0, 1), (1, 1)):
        x = params.affinity[r, s] / mean
        prior += np.log(x) - x
    assert steps.objective(params, sums) == pytest.approx(-3 + constant + prior)
    assert steps.extrapolate(params, params, sums) is sums


def propagated(labels, n_blocks=2):
    return Propagated(None, np.eye(n_blocks)[labels], None, 0.0, 0.0)


def selection_of_blocks(monkeypatch, objectives, used, *, winner="a", rounds=block_fits.ROUNDS):
    """Who wins among starts a, b and the Bethe Hessian's, `objectives` and blocks in use of their full climbs."""
    names = list(objectives)
    sums = {name: propagated([0, 1] if used[name] == 2 else [0, 0]) for name in names}

    def climbed(name):
        return EMResult(name, sums[name], objectives[name], objectives[name], 1, True, [])

    monkeypatch.setattr(
        block_fits,
        "successive_halving",
        lambda candidates, **rest: Selected(winner, None, climbed(winner), {"rounds": rest["rounds"]}),
    )
    monkeypatch.setattr(block_fits, "em", lambda steps, start, **rest: climbed(start))
    steps = SimpleNamespace(begin=lambda labels, n_blocks: labels)
    found = fit_blocks(steps, [(name, name) for name in names], 2, max_iter=3, tol=0.1, rounds=rounds)
    assert found.refined.params == found.name
    return found.name, found.scores["rounds"]


def test_a_lead_of_less_than_three_nats_is_ignored_and_the_bethe_hessian_run_wins(monkeypatch):
    hessian = block_fits.FAVOURITE
    both = {"a": 2, hessian: 2}
    assert selection_of_blocks(monkeypatch, {"a": -10.0, hessian: -12.9}, both)[0] == hessian
    assert selection_of_blocks(monkeypatch, {"a": -10.0, hessian: -13.1}, both)[0] == "a"
    assert selection_of_blocks(monkeypatch, {"a": -10.0, hessian: -10.1}, {"a": 2, hessian: 1})[0] == "a"
    assert selection_of_blocks(monkeypatch, {"a": -10.0, "b": -10.1}, {"a": 2, "b": 2})[0] == "a"
    large = selection_of_blocks(monkeypatch, {"a": -10.0, hessian: -10.1}, both, rounds=block_fits.AT_ONCE)
    assert large == ("a", block_fits.AT_ONCE)
    alone = selection_of_blocks(monkeypatch, {"a": -10.0}, {"a": 2})
    assert alone == ("a", block_fits.ROUNDS[:1])


def test_who_keeps_all_blocks_wins_over_who_emptied_some(monkeypatch):
    assert selection_of_blocks(monkeypatch, {"a": -10.0, "b": -20.0, "c": -15.0}, {"a": 1, "b": 2, "c": 2})[0] == "c"
    assert selection_of_blocks(monkeypatch, {"a": -10.0, "b": -15.0, "c": -20.0}, {"a": 1, "b": 2, "c": 2})[0] == "b"
    assert selection_of_blocks(monkeypatch, {"a": -10.0, "b": -9.0}, {"a": 1, "b": 1})[0] == "a"


def test_blocks_by_their_size():
    posterior = np.array([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3], [0.1, 0.4, 0.5]])
    pairs = np.arange(9.0).reshape(3, 3)
    params = Blocks(np.array([0.1, 0.3, 0.6]), pairs + 10, posterior, posterior)
    selected = Selected(
        "a", None, EMResult(params, Propagated(posterior, posterior, pairs, 0.0, 0.0), 0, 0, 1, True, []), {}
    )
    blocks, sums = heaviest_first(selected)  # 0, 1 and 2 nodes
    assert blocks.prior.tolist() == [0.6, 0.3, 0.1]
    np.testing.assert_array_equal(blocks.affinity, pairs[::-1, ::-1] + 10)
    np.testing.assert_array_equal(sums.pairs, pairs[::-1, ::-1])
    np.testing.assert_array_equal(sums.posterior, posterior[:, ::-1])
    assert blocks_in_use(sums) == 2


@pytest.mark.parametrize("corrected", [True, False])
def test_new_nodes_hear_their_neighbours(monkeypatch, corrected):
    rng = np.random.default_rng(0)
    params = Blocks(np.array([0.4, 0.6]), np.array([[0.2, 0.05], [0.05, 0.1]]), None, rng.dirichlet(np.ones(2), 4))
    links = np.array([[1.0, 0, 2.0, 0], [0, 0, 0, 0], [0, 0.5, 0, 1.0]])
    held = np.array([3.0, 5.0])
    want = np.empty((3, 2))
    for node in range(3):
        mass = links[node].sum() if corrected else 1.0
        for r in range(2):
            value = params.prior[r] * np.exp(-mass * sum(params.affinity[r, s] * held[s] for s in range(2)))
            for other in np.flatnonzero(links[node]):
                value *= sum(params.affinity[r, s] ** links[node, other] * params.posterior[other, s] for s in range(2))
            want[node, r] = value
    want /= want.sum(axis=1, keepdims=True)
    for chunk in (1, 3, 65_536):
        monkeypatch.setattr(block_fits, "CHUNK", chunk)
        found = posterior_of_new(sp.csr_array(links), params, held, degree_corrected=corrected)
        np.testing.assert_allclose(found, want, rtol=1e-10)
