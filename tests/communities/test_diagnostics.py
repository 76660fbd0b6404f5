"""Verdicts on communities: doubt below the detection threshold, trust above it; numbers, overlap, thresholds.

A few graphs run here; ``LATENTFIT_VERDICTS=200`` runs the full count on each side.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit import BlockModel
from latentfit.communities.diagnostics import (
    Resample,
    _examine_stability,
    compare_divisions,
    detection_ratio,
    doubled_nodes,
    expected_overlap,
    kesten_stigum,
    number_is_rejected,
    triangles,
)
from latentfit.communities.page import title_of
from latentfit.communities.select import choose_blocks
from latentfit.core.verdict import Examiner
from latentfit.simulate import block_graph
from reproduction.pairs_communities import block_error, overlap
from tests.communities.simulated_graphs import hopeless, sound
from tests.system.verdict_counts import COUNT


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False])
def test_below_the_threshold_blocks_are_not_trusted_and_near_guessing(given):
    wrong, seen = [], []
    count = COUNT or 4
    for seed in range(count):
        made, K = hopeless(seed)
        model = BlockModel(K if given else None).fit(made.matrix)
        seen.append(overlap(made.blocks, model.labels_))
        if model.report_.verdict == "ok":
            wrong.append((seed, model.report_.quantities["informative_signals"]))
    assert len(wrong) <= 0.01 * count, wrong
    assert np.mean(seen) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False])
def test_sound_graphs_are_trusted(given):
    wrong, seen = [], []
    count = COUNT or 4
    for seed in range(count):
        made, K = sound(seed)
        model = BlockModel(K if given else None).fit(made.matrix)
        seen.append(overlap(made.blocks, model.labels_))
        if model.report_.verdict != "ok":
            wrong.append((seed, model.report_.reasons))
    assert len(wrong) <= 0.01 * count, wrong
    assert np.mean(seen) > 0.7


@pytest.mark.slow
def test_the_number_is_found():
    """K = 1 to 10 well above the threshold: at least three in four right, one block never split."""
    right, split = [], []
    for K in range(1, 11):
        for power in (None, 2.5):
            made = block_graph(2000, K, 10.0, strength=2.5, power=power, random_state=K)
            found = choose_blocks(made.matrix).chosen
            right.append(found == K)
            split.append(K == 1 and found > 1)
    assert np.mean(right) >= 0.75
    assert not any(split)


def test_thresholds():
    assert detection_ratio(5.0, 1.0) == pytest.approx(16 / 12)
    a, b = 7.0, 2.0
    ratios = kesten_stigum(np.array([[a, b], [b, a]]), np.full(2, 0.5), (a + b) / 2)
    assert ratios == pytest.approx([detection_ratio(a, b)])
    made = block_graph(300, 4, 9.0, strength=1.7, random_state=0)
    np.testing.assert_allclose(kesten_stigum(made.affinity, np.full(4, 0.25), 9.0), 1.7, rtol=1e-9)


def test_expected_overlap_is_calibrated():
    """What the beliefs promise is what the truth grants."""
    promised, granted = [], []
    for seed in range(4):
        made = block_graph(1500, 2, 6.0, strength=2.0, random_state=seed)
        model = BlockModel(2).fit(made.matrix)
        promised.append(expected_overlap(model.probabilities_))
        granted.append(overlap(made.blocks, model.labels_))
    assert np.mean(promised) == pytest.approx(np.mean(granted), abs=0.06)
    assert expected_overlap(np.ones((5, 1))) == 1.0


def test_errors_of_block_matrices():
    made = block_graph(200, 2, 10.0, strength=4.0, random_state=0)
    assert block_error(made, made.blocks, 3 * made.affinity) == pytest.approx(0, abs=1e-12)
    dense = made.affinity[np.ix_(made.blocks, made.blocks)]
    guess = np.ones((200, 200)) / 200**2
    want = np.abs(dense / dense.sum() - guess).sum()
    assert block_error(made, np.zeros(200, np.int64), np.ones((1, 1))) == pytest.approx(want)


def test_simulated_graphs_are_what_they_say():
    made = block_graph(4000, 3, 12.0, strength=2.0, sizes=[3, 2, 1], power=3.0, random_state=1)
    assert made.matrix.nnz / 4000 == pytest.approx(12.0, rel=0.05)
    assert not made.matrix.diagonal().any()
    assert (made.matrix != made.matrix.T).nnz == 0
    np.testing.assert_allclose(np.bincount(made.blocks) / 4000, [1 / 2, 1 / 3, 1 / 6], atol=1e-3)
    assert made.propensity.mean() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n": 2, "n_blocks": 3}, "n >= n_blocks >= 1"),
        ({"n": 50, "degree": 0.0}, "degree > 0"),
        ({"n": 50, "power": 2.0}, "no mean"),
        ({"n": 50, "degree": 2.0, "strength": 3.0}, "negative affinities"),
        ({"n": 50, "n_blocks": 4, "degree": 10.0, "strength": -2.0}, "negative affinities"),
        ({"n": 50, "sizes": [1.0, 0.0]}, "positive size"),
    ],
)
def test_graphs_that_cannot_be_drawn(arguments, words):
    with pytest.raises(ValueError, match=words):
        block_graph(**arguments)


# ------------------------------------------------------- both sides of each limit


def failed(report):
    return {check.name for check in report.checks if not check.passed}


@pytest.mark.parametrize(("rand", "stable"), [(0.64, False), (0.66, True)])
def test_a_division_keeps_two_thirds_of_its_agreement_without_some_edges(rand, stable):
    examiner = Examiner()
    _examine_stability(examiner, [Resample(rand - 0.1, 0.1), Resample(rand + 0.1, 0.1)])
    assert failed(examiner) == (set() if stable else {"stability"})


def test_divisions_are_matched_before_they_are_compared():
    labels, everybody = np.array([0, 0, 1, 1, 2]), np.ones(5, bool)
    assert compare_divisions(labels, np.array([2, 2, 0, 0, 1]), everybody) == Resample(1.0, 0.0)
    assert compare_divisions(labels, np.array([1, 1, 0, 0, 0]), everybody).moved == pytest.approx(0.2)
    assert compare_divisions(labels, labels, ~everybody) == Resample(0.0, 1.0)


def test_blocks_explain_their_triangles_and_a_ring_has_more():
    made = block_graph(2000, 3, 16.0, strength=4.0, random_state=0)
    model = BlockModel(3).fit(made.matrix)
    graph, labels = model._fitted.graph, model._fitted.sums.posterior.argmax(axis=1)
    found, expected = triangles(graph, labels, 3, degree_corrected=True)
    links = graph.matrix.toarray()
    assert found == pytest.approx(np.trace(links @ links @ links) / 6)
    assert found == pytest.approx(expected, rel=0.15)
    at = np.arange(300)
    ring = sum(sp.coo_array((np.ones(300), (at, (at + step) % 300)), shape=(300, 300)) for step in (1, 2, 3, 4))
    report = BlockModel(3).fit(sp.csr_array(ring + ring.T)).report_
    assert report.quantities["triangles"] > 3 * report.quantities["expected_triangles"]
    assert "triangles" in failed(report)


def test_nodes_under_two_names_are_told():
    matrix = block_graph(300, 2, 10.0, strength=4.0, random_state=1).matrix
    assert doubled_nodes(matrix) == 0
    twice = sp.csr_array(sp.kron(np.ones((2, 2)), matrix))
    assert doubled_nodes(twice) == 1
    assert "duplicates" in failed(BlockModel(2).fit(twice).report_)
    assert doubled_nodes(sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))) == 0


def test_degrees_show_a_core_and_a_periphery_and_no_blocks_of_a_random_graph():
    rng = np.random.default_rng(0)
    blocks = np.repeat([0, 1], [150, 350])
    for probability, shown in (([[0.15, 0.04], [0.04, 0.002]], True), ([[0.03, 0.03], [0.03, 0.03]], False)):
        upper = np.triu(rng.random((500, 500)) < np.array(probability)[np.ix_(blocks, blocks)], 1)
        report = BlockModel(2, degree_corrected=False).fit(sp.csr_array((upper | upper.T).astype(float))).report_
        assert ("structure" not in failed(report)) == shown


def test_a_rejected_number_is_no_headline():
    made = block_graph(600, 2, 12.0, strength=4.0, random_state=0)
    for n_blocks, title in ((2, "2 communities of it"), (5, "5 blocks fitted to it; the graph does not show 5")):
        report = BlockModel(n_blocks).fit(made.matrix).report_
        assert title_of(report, n_blocks, "it") == title
        assert number_is_rejected(report) == (n_blocks == 5)
        assert "of the nodes" in report.expected.sentence
    nothing = BlockModel().fit(block_graph(600, 1, 8.0, random_state=0).matrix).report_
    assert title_of(nothing, 1, "it") == "No communities found among it"
    assert nothing.expected.value == 0
