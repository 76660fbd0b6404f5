"""Where doubts about ancestry, blocks, fractions and foretold labels begin: made-up fits on both sides of limits."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
import scipy.sparse as sp

from latentfit.admixture.diagnostics import verdict as ancestry
from latentfit.admixture.diagnostics.relatives import Kinship
from latentfit.admixture.diagnostics.snps import Heterozygotes, Linkage
from latentfit.communities import diagnostics as blocks
from latentfit.communities.data import Graph
from latentfit.communities.em import Blocks, Propagated
from latentfit.communities.select import DegreeTest, NumberOfBlocks
from latentfit.core.table.table import Column, Table
from latentfit.fractions import diagnostics as fractions
from latentfit.fractions.init import UnitValues
from latentfit.fractions.select import PartsPath
from latentfit.tables.diagnostics import classifier


def told(found, words):
    return any(words in reason for reason in found.reasons)


# ------------------------------------------------------------------- ancestry


def examined_ancestry(proportions, **changed):
    proportions = np.asarray(proportions, float)
    K = proportions.shape[1]
    rng = np.random.default_rng(3)
    settings = {
        "frequencies": rng.uniform(0.1, 0.9, (60, K)),
        "errors": ancestry.standard_errors(proportions, np.broadcast_to(1e4 * np.eye(K), (len(proportions), K, K))),
        "spectrum": np.array([*[9.0] * (K - 1), 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.1]),
        "converged": True,
        "refit": None,
        "carriers": lambda populations: np.full(populations - K, 20.0),
        "log_likelihood": -1000.0,
        "kinship": Kinship(
            np.zeros((0, 2), np.intp), np.zeros(0), np.arange(len(proportions)), *np.zeros((2, proportions.shape[1]))
        ),
        "linkage": Linkage(0.0, 0.0),
        "heterozygotes": Heterozygotes(),
        "names": [str(person) for person in range(len(proportions))],
    } | changed
    return ancestry.examine_ancestry(proportions, **settings)


def panel(corner, on_face, n, size=0.95):
    """`n` people of three populations; so many at the first one's corner, so many on its face, the rest mixed."""
    proportions = np.full((n, 3), 1 / 3)
    proportions[:corner] = [size, (1 - size) / 2, (1 - size) / 2]
    proportions[corner : corner + on_face] = [0.01, 0.495, 0.495]
    mixed = proportions[corner + on_face :]
    mixed[: len(mixed) // 3] = [0.04, 0.96, 0.0]
    mixed[len(mixed) // 3 : 2 * (len(mixed) // 3)] = [0.04, 0.0, 0.96]
    return proportions


@pytest.mark.parametrize(
    ("corner", "on_face", "n", "loose"),
    [
        (4, 0, 40, True),
        (5, 0, 40, False),
        (9, 0, 100, True),
        (10, 0, 100, False),
        (0, 9, 100, True),
        (0, 10, 100, False),
    ],
)
def test_five_people_or_a_tenth_at_a_corner_or_a_tenth_on_the_face_hold_a_population(corner, on_face, n, loose):
    found = examined_ancestry(panel(corner, on_face, n))
    assert told(found, f"{corner} people are mostly of population 0 and {on_face / n:.0%} are free of it") == loose


def test_people_mark_a_corner_from_nine_tenths_on_and_a_face_below_two_hundredths():
    assert told(examined_ancestry(panel(10, 0, 100, size=0.9)), "0 people are mostly of population 0")
    assert not told(examined_ancestry(panel(10, 0, 100, size=0.901)), "population 0")
    proportions = panel(0, 20, 100)
    proportions[:20, 0] = 0.02
    assert told(examined_ancestry(proportions), "0% are free of it")
    proportions[:20, 0] = 0.0199
    assert not told(examined_ancestry(proportions), "free of it")


def test_a_population_needs_ten_people():
    proportions = np.tile([0.75, 0.25], (40, 1))
    assert not told(examined_ancestry(proportions), "worth of genomes")  # 10.0 people
    proportions[0] = [1.0, 0.0]
    found = examined_ancestry(proportions)
    assert told(found, "Population 1 rests on 9.8 people's worth of genomes, fewer than 10")
    assert found.quantities["people_per_population"] == pytest.approx([30.25, 9.75])


def test_proportions_of_two_populations_are_wide_above_a_tenth():
    """Along (1, −1)/√2 the information is i, so the variance of a share is 1/(2i): .1 at i = 50."""
    proportions = np.tile([0.5, 0.5], (40, 1))
    for information, wide in ((49.0, True), (51.0, False)):
        errors = ancestry.standard_errors(proportions, np.broadcast_to(information * np.eye(2), (40, 2, 2)))
        found = examined_ancestry(proportions, errors=errors)
        assert found.quantities["standard_error"] == pytest.approx(sqrt(1 / (2 * information)), rel=1e-6)
        assert told(found, "known to no better than") == wide
    assert examined_ancestry(np.ones((40, 1))).quantities["standard_error"] == 0


def test_standard_errors_are_those_of_the_bordered_inverse():
    rng = np.random.default_rng(0)
    for K in (2, 3, 5):
        root = rng.standard_normal((6, K, K + 3))
        information = 20 * root @ root.transpose(0, 2, 1)
        information[0] *= 1e-6  # knows nothing: an error is at most 1
        found = ancestry.standard_errors(np.full((6, K), 1 / K), information)
        for n in range(6):
            bordered = np.block([[information[n], np.ones((K, 1))], [np.ones((1, K)), np.zeros((1, 1))]])
            variance = np.diag(np.linalg.inv(bordered))[:K]
            np.testing.assert_allclose(found[n], np.minimum(np.sqrt(variance), 1.0), rtol=1e-5)
        assert found[0].max() == 1


def test_the_gap_is_measured_in_spans_of_the_five_that_follow():
    spectrum = np.array([10.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 0.0])
    assert ancestry.eigengap(spectrum, 2) == pytest.approx((10 - 5) / (5 - 2))
    assert ancestry.eigengap(spectrum, 3) == pytest.approx((5 - 4) / (4 - 1.5))
    assert ancestry.eigengap(spectrum[:5], 3) == pytest.approx((5 - 4) / (4 - 3))  # two of the five are there
    assert ancestry.eigengap(spectrum[:4], 3) == 0
    assert ancestry.eigengap(np.array([2.0, 1.0, 1.0, 1.0, 1.0]), 2) == pytest.approx(1 / (1e-12 * 2))


@pytest.mark.parametrize(("second", "doubted"), [(1.75, True), (1.76, False)])
def test_a_gap_of_one_and_a_half_spans_shows_a_population(second, doubted):
    spectrum = np.array([second, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5])
    found = examined_ancestry(np.tile(np.eye(2), (20, 1)), spectrum=spectrum)
    assert found.quantities["gap"] == pytest.approx((second - 1) / 0.5)
    assert told(found, "No structure found") == doubted


def test_a_population_that_mixes_others_has_no_answer():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0.1, 0.9, (2, 80))
    proportions = np.tile(np.eye(3), (20, 1))
    between = np.column_stack([a, b, (a + b) / 2])
    between -= between.mean(axis=0)  # the test is of centred frequencies
    assert examined_ancestry(proportions, frequencies=between + 0.5).verdict == "not identifiable"
    assert examined_ancestry(proportions).verdict == "ok"


@pytest.mark.parametrize(
    ("moved", "value", "doubted"),
    [(0.049, -1000.0, False), (0.051, -1000.0, True), (0.051, -1000.009, True), (0.051, -1000.011, False)],
)
def test_another_start_counts_when_it_fits_as_well_and_moves_five_hundredths(moved, value, doubted):
    proportions = np.tile(np.eye(2), (20, 1))
    other = np.abs(proportions - moved)
    found = examined_ancestry(proportions, refit=lambda: (other, value))
    assert found.quantities["other_start_moved"] == pytest.approx(moved)
    assert found.quantities["other_start_gain"] == pytest.approx(value + 1000)
    assert told(found, "Another initialisation fits as well") == doubted


def test_distances_are_squares_over_what_two_alleles_differ_by():
    a = np.array([[0.1, 0.4, 0.9], [0.5, 0.5, 0.2]])
    found = ancestry.distances(a)
    for k in range(3):
        for l in range(3):
            top = sum((a[j, k] - a[j, l]) ** 2 for j in range(2))
            apart = sum(a[j, k] * (1 - a[j, l]) + a[j, l] * (1 - a[j, k]) for j in range(2))
            assert found[k, l] == pytest.approx(top / apart if k != l else 0)
    assert ancestry.distances(np.zeros((4, 2)))[0, 1] == 0


# --------------------------------------------------------------------- blocks


def examined_blocks(posterior, informative=2, change=0.0, matrix=None, degrees=None, converged=True, pairs=None):
    posterior = np.asarray(posterior, float)
    n, K = posterior.shape
    if matrix is None:  # a ring
        at = np.arange(n)
        matrix = sp.csr_array((np.ones(n), (at, (at + 1) % n)), shape=(n, n))
        matrix = sp.csr_array(matrix + matrix.T)
    pairs = np.eye(K) * 10 + 1 if pairs is None else pairs
    fitted = blocks.FittedBlocks(
        Graph(matrix, np.arange(n)), Blocks(np.ones(K), np.ones((K, K)), np.ones(1), posterior),
        Propagated(np.ones(1), posterior, pairs, 0.0, change), -50.0, -90.0, converged,
    )  # fmt: skip
    number = NumberOfBlocks(K, informative, 1.5, [2.0] * informative, [3.0] * informative)
    return blocks.examine_blocks(fitted, number, degrees)


def two_blocks(first, n=40):
    """So many nodes surely in the first of two blocks."""
    return np.eye(2)[(np.arange(n) >= first).astype(int)]


def test_sound_blocks_are_trusted_and_their_numbers_told():
    found = examined_blocks(two_blocks(20), degrees=DegreeTest(1.2, 0.1, 0.3))
    assert found.verdict == "ok"
    expected = {
        "n_nodes": 40, "n_edges": 40, "mean_degree": 2.0, "branching": 2.25, "sizes": [20.0, 20.0],
        "gain_over_one_block": 1.0, "expected_overlap": 1.0, "degree_dispersion": 1.2, "p_equal_degrees": 0.3,
        "n_components": 1, "largest_component": 40,
    }  # fmt: skip
    for name, value in expected.items():
        assert found.quantities[name] == pytest.approx(value), name
    held = np.array([40.0, 40.0])  # degrees by block
    flow = (np.eye(2) * 10 + 1) / np.outer(held, held) * held
    second = np.linalg.eigvals(flow / flow.sum(axis=1, keepdims=True)).min()
    assert found.quantities["signal_to_noise"] == pytest.approx([2.25 * second**2])


@pytest.mark.parametrize(
    ("K", "informative", "verdict"),
    [(2, 1, "not identifiable"), (1, 1, "caution"), (2, 2, "ok"), (3, 2, "caution"), (2, 3, "ok")],
)
def test_signals_are_compared_with_the_blocks(K, informative, verdict):
    assert examined_blocks(np.eye(K)[np.arange(42) % K], informative).verdict == verdict


def test_a_block_holds_five_nodes():
    assert not told(examined_blocks(two_blocks(5)), "nodes, fewer than")
    found = two_blocks(5)
    found[4] = [0.5, 0.5]
    assert told(examined_blocks(found), "Block 0 holds 4.5 nodes, fewer than 5")


def test_vague_labels_and_moving_messages_are_told():
    for sure, vague in ((0.57, True), (0.58, False)):  # overlap .14 and .16
        posterior = np.where(two_blocks(20) > 0, sure, 1 - sure)
        found = examined_blocks(posterior)
        assert found.quantities["expected_overlap"] == pytest.approx(2 * sure - 1)
        assert told(found, "could be in several blocks") == vague
    for change, moving in ((0.002, False), (0.0021, True)):
        assert told(examined_blocks(two_blocks(20), change=change), "Belief propagation did not converge") == moving
    assert examined_blocks(two_blocks(20), converged=False).verdict == "caution"


def rings(*sizes):
    parts = []
    for n in sizes:
        at = np.arange(n)
        ring = sp.csr_array((np.ones(n), (at, (at + 1) % n)), shape=(n, n))
        parts.append(ring + ring.T)
    return sp.csr_array(sp.block_diag(parts))


@pytest.mark.parametrize(
    ("sizes", "reaching", "doubted"),
    [((30, 10), 2, True), ((30, 10), 1, False), ((31, 9), 9, False), ((240, 12), 6, False), ((240, 13), 6, True)],
)
def test_a_block_over_two_large_pieces_is_told(sizes, reaching, doubted):
    """A piece is large from ten nodes and a twentieth of all on; a block reaches into it with a fifth of its nodes."""
    n = sum(sizes)
    labels = np.arange(n) >= sizes[0]
    labels[sizes[0] : sizes[0] + reaching] = False
    found = examined_blocks(np.eye(2)[labels.astype(int)], matrix=rings(*sizes))
    assert told(found, "falls into 2 large pieces, and block 0 reaches over several") == doubted
    assert (found.quantities["n_components"], found.quantities["largest_component"]) == (2, sizes[0])


def test_signal_to_noise_of_uneven_blocks_leaves_the_density_out():
    affinity, held = np.array([[5.0, 1.0, 2.0], [1.0, 4.0, 0.5], [2.0, 0.5, 6.0]]), np.array([0.5, 0.3, 0.2])
    T = np.array([[affinity[r, s] * held[s] for s in range(3)] for r in range(3)])
    T = np.array([row / sum(row) for row in T])
    values = sorted(np.linalg.eigvals(T).real)
    assert values[-1] == pytest.approx(1)
    expected = sorted((7 * values[0] ** 2, 7 * values[1] ** 2), reverse=True)
    np.testing.assert_allclose(blocks.kesten_stigum(affinity, held, 7.0), expected)
    assert blocks.detection_ratio(8.0, 3.0) == pytest.approx(25 / 22)


def test_expected_overlap_by_hand():
    assert blocks.expected_overlap(np.array([[0.9, 0.1], [0.6, 0.4]])) == pytest.approx((0.75 - 0.75) / 0.25)
    assert blocks.expected_overlap(np.array([[0.9, 0.1], [0.2, 0.8]])) == pytest.approx((0.85 - 0.55) / 0.45)
    assert blocks.expected_overlap(np.array([[1.0, 0.0], [1.0, 0.0]])) == 1


# ------------------------------------------------------------------ fractions


def test_standard_errors_are_those_of_least_squares_with_a_sum():
    rng = np.random.default_rng(0)
    for K in (2, 3, 4):
        profiles = rng.random((K, 9))
        values = rng.random((5, 9))
        values[0, :3] = np.nan
        data, seen = UnitValues.of(values), 42 / 45
        gram = seen * profiles @ profiles.T
        bordered = np.linalg.inv(np.block([[gram, np.ones((K, 1))], [np.ones((1, K)), np.zeros((1, 1))]]))
        expected = [0.2 * sqrt(bordered[k, k]) for k in range(K)]
        np.testing.assert_allclose(fractions.standard_errors(data, profiles, 0.2), expected, rtol=1e-6)


def examined_fractions(fitted, profiles, noise, *, known=True, parts=None, **changed):
    """Fractions under profiles that leave ± `noise` of every value."""
    fitted, profiles = np.asarray(fitted, float), np.asarray(profiles, float)
    values = fitted @ profiles
    values = values + noise * np.where(np.add.outer(*map(np.arange, values.shape)) % 2, 1, -1)
    settings = {"converged": True, "empty": 0, "path": None, "rng": np.random.default_rng(0)} | changed
    return fractions.examine_fractions(
        UnitValues(values, None), fitted, profiles, parts or [f"part {k}" for k in range(len(profiles))],
        known=known, **settings,
    )  # fmt: skip


HALVES = [[0.5, 0.5]] * 12


@pytest.mark.parametrize(
    ("error", "level"), [(0.049, None), (0.051, "caution"), (0.299, "caution"), (0.301, "not identifiable")]
)
def test_a_fraction_is_unsure_above_a_twentieth_and_unknown_above_three_tenths(error, level):
    """Profiles that differ by d in each of m features: se = noise/(d √m) of both fractions."""
    profiles, noise = [[0.5] * 16, [0.6] * 16], error * 0.1 * 4
    found = examined_fractions(HALVES, profiles, noise)
    assert found.quantities["standard_errors"] == pytest.approx([error, error], rel=1e-4)
    assert found.quantities["noise"] == pytest.approx(noise)
    assert found.quantities["nearest_profiles"] == pytest.approx(0.1)
    assert told(found, "has a standard error of") == (level == "caution")
    assert told(found, "nearly a mixture") == (level == "not identifiable")


def test_fewer_features_than_free_fractions_have_no_answer():
    found = examined_fractions([[0.3, 0.3, 0.4]] * 12, [[0.1], [0.5], [0.9]], 0.0)
    assert found.verdict == "not identifiable"
    assert examined_fractions(HALVES, [[0.1], [0.9]], 0.0).verdict == "ok"
    same = [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]]  # the second is the mean of the others
    assert told(examined_fractions([[0.3, 0.3, 0.4]] * 12, same, 0.0), "nearly a mixture of others")
    assert examined_fractions([[1.0]] * 12, [[0.1]], 0.0).verdict == "ok"


def test_the_nearest_profile_of_the_worst_known_part_is_named():
    profiles = [[0.1, 0.1, 0.9, 0.9, 0.1, 0.9], [0.9, 0.1, 0.1, 0.5, 0.5, 0.1], [0.9, 0.3, 0.1, 0.5, 0.5, 0.1]]
    found = examined_fractions([[0.2, 0.3, 0.5]] * 12, profiles, 0.03, parts=["a", "b", "c"])
    worst = int(np.argmax(found.quantities["standard_errors"]))
    assert told(found, f"part {'abc'[worst]!r} has a standard error")
    assert told(found, f"its nearest is {'acb'[worst]!r}")


@pytest.mark.parametrize(("noise", "doubted"), [(0.099, False), (0.101, True)])
def test_a_reference_may_leave_a_tenth_of_a_value(noise, doubted):
    profiles = np.tile([[0.2, 0.8], [0.8, 0.2]], 40)
    assert told(examined_fractions(HALVES, profiles, noise), "of a value unexplained") == doubted


def test_blind_fits_need_ten_samples_and_fewer_parts_than_samples_and_features(monkeypatch):
    monkeypatch.setattr(fractions, "equally_good_distance", lambda *args: None)
    wide = np.random.default_rng(0).random((2, 20))
    for n, few in ((9, True), (10, False)):
        assert told(examined_fractions([[0.4, 0.6]] * n, wide, 0.0, known=False), "samples are too few") == few
        assert not told(examined_fractions([[0.4, 0.6]] * n, wide, 0.0), "samples are too few")
    for features, many in ((2, True), (3, False)):
        found = examined_fractions(HALVES, wide[:, :features], 0.0, known=False)
        assert told(found, "explain 12 samples") == many
        assert not told(examined_fractions(HALVES, wide[:, :features], 0.0), "explain 12 samples")
    assert not told(examined_fractions([[1.0]] * 12, wide[:1, :1], 0.0, known=False), "explain 12 samples")
    assert told(examined_fractions(HALVES, wide, 0.0, empty=2), "2 samples have no value at all")
    assert examined_fractions(HALVES, wide, 0.0, converged=False).verdict == "caution"
    path = PartsPath(*[{2: 0.1}] * len(PartsPath.__dataclass_fields__))
    assert examined_fractions(HALVES, wide, 0.0, path=path).quantities["left_out_errors"] == path.errors


@pytest.mark.parametrize(
    ("apart", "level"), [(None, None), (0.02, None), (0.021, "caution"), (0.15, "caution"), (0.151, "not identifiable")]
)
def test_equally_good_fits_that_lie_apart_are_told(apart, level, monkeypatch):
    monkeypatch.setattr(fractions, "equally_good_distance", lambda *args: apart)
    monkeypatch.setattr(fractions, "halves_distance", lambda *args: None)
    monkeypatch.setattr(fractions, "predicts_better", lambda *args: 2.0)
    found = examined_fractions(HALVES, np.random.default_rng(0).random((2, 20)), 0.0, known=False)
    assert found.verdict == (level or "ok")
    assert found.quantities["distance_of_equal_fits"] == apart


def test_only_fits_as_good_count_as_equal(monkeypatch):
    """A thousandth more of the squared residual is as good; the farthest of the equal fits is told."""

    class Sums:
        def __init__(self, residual, moved):
            self.residual, self.fractions = residual, np.array([[0.5 + moved, 0.5 - moved], [0.1, 0.9]])

    class Race:
        def __init__(self, sums):
            self.refined = type("EMResult", (), {"sums": sums})

    def distance(*found):
        left = [Race(Sums(*one)) for one in found]
        monkeypatch.setattr(fractions, "fit_parts", lambda *args, **kwargs: left.pop())
        data = UnitValues(np.random.default_rng(0).random((2, 3)), None)
        fitted = np.array([[0.5, 0.5], [0.1, 0.9]])
        out = fractions.equally_good_distance(data, fitted, 2.0, np.random.default_rng(0))
        assert not left  # every start was asked
        return out

    assert distance((2.0021, 0.1), (3.0, 0.2), (2.1, 0.3)) is None
    assert distance((2.0019, 0.1), (1.0, 0.2), (2.1, 0.3)) == pytest.approx(0.1)  # half of the fractions moved by .2
    assert distance((2.0019, 0.3), (1.0, 0.2), (2.1, 0.3)) == pytest.approx(0.15)


# ----------------------------------------------------------------- classifier


def test_figures_of_rows_left_out_by_hand():
    weight = np.array([1.0, 3.0, 2.0])
    found = classifier.LeftOut(
        probability=np.array([0.5, 0.0, 0.8]), proportion=np.array([0.25, 0.5, 0.25]),
        right=np.array([True, False, True]),
        frequent=np.array([False, True, False]), claimed=np.array([0.5, 0.9, 0.8]), weight=weight,
    ).figures()  # fmt: skip
    rows = [0, 1, 1, 1, 2, 2]  # a weight counts rows
    logs = [log(0.5), log(1e-12), log(0.8)]
    proportions = [log(0.25), log(0.5), log(0.25)]
    gain = [logs[n] - proportions[n] for n in rows]
    right, frequent, claimed = [1, 0, 1], [0, 1, 0], [0.5, 0.9, 0.8]

    def error(values):
        mean = sum(values) / 6
        return sqrt(sum((v - mean) ** 2 for v in values) / 5 / 6)

    expected = {
        "n_rows": 6, "log_likelihood": sum(logs[n] for n in rows) / 6,
        "share_log_likelihood": sum(proportions[n] for n in rows) / 6, "gain": sum(gain) / 6, "gain_error": error(gain),
        "accuracy": 3 / 6, "frequent_accuracy": 3 / 6, "claimed_accuracy": sum(claimed[n] for n in rows) / 6,
        "claim_error": error([claimed[n] - right[n] for n in rows]),
        "accuracy_error": error([right[n] - frequent[n] for n in rows]),
    }  # fmt: skip
    assert found == pytest.approx(expected)


def judged(counts=(10, 10), converged=True, **figures):
    usual = {
        "gain": 0.5, "gain_error": 0.1, "accuracy": 0.8, "frequent_accuracy": 0.5, "accuracy_error": 0.02,
        "claimed_accuracy": 0.8, "claim_error": 0.02, "n_rows": 100.0,
    }  # fmt: skip
    labels = [f"label {k}" for k in range(len(counts))]
    return classifier.examine_classifier(usual | figures, labels, np.array(counts, float), converged=converged)


def test_gains_beyond_two_standard_errors_are_trusted():
    assert judged().verdict == "ok"
    assert judged(gain=0.21).verdict == "ok"
    assert told(judged(gain=0.2), "no more than chance")
    better = {"gain": 0.1, "frequent_accuracy": 0.5, "accuracy_error": 0.15}
    assert told(judged(**better | {"accuracy": 0.81}), "use the labels, not the probabilities")
    assert told(judged(**better | {"accuracy": 0.79, "claimed_accuracy": 0.79}), "tell too little about the label")


def test_claims_of_three_points_and_two_errors_more_than_kept_are_told():
    assert not told(judged(claimed_accuracy=0.869), "too sure")
    assert told(judged(claimed_accuracy=0.871), "claims to be right with 87% and is in 80%")


def test_labels_of_fewer_than_ten_rows_are_named():
    found = judged(counts=(9, 10, 30))
    assert found.quantities["label_rows"] == {"label 0": 9.0, "label 1": 10.0, "label 2": 30.0}
    assert told(found, "1 of 3 labels have fewer than 10 rows")
    assert told(found, "'label 0' (9);")
    five = judged(counts=(1, 2, 3, 4, 5, 50))
    assert told(five, "'label 4' (5);")
    six = judged(counts=(1, 2, 3, 4, 5, 6, 50))
    assert told(six, "'label 4' (5), …;")
    assert not told(six, "label 5")
    assert judged(converged=False).verdict == "caution"
    assert told(judged(counts=(30,)), "Every label is 'label 0'")
    assert not told(judged(counts=(30, 30)), "Every label is")
    assert told(classifier.examine_classifier(None, [0, 1], np.array([30.0, 30.0]), converged=True), "too few rows")


def test_every_row_is_predicted_by_a_fit_without_it():
    """Believe in the shares of the rows seen: what comes back is the label's share among them."""
    rng = np.random.default_rng(0)
    labels = rng.choice(3, size=40, p=[0.6, 0.3, 0.1])
    codes = np.column_stack([rng.integers(2, size=40), labels]).astype(np.uint8)
    table = Table(codes, (Column("a", np.arange(2)), Column("label", np.arange(3))))
    seen = []

    def fit(part):
        counts = np.bincount(part.codes[:, 1], part.row_weight, minlength=3)
        seen.append(counts)
        return lambda rows: np.tile(counts / counts.sum(), (rows.n_rows, 1))

    found = classifier.leave_out(table, fit, seed=0)
    assert len(seen) == 3
    assert found.weight.sum() == 40
    np.testing.assert_allclose(sum(seen), 2 * np.bincount(labels))  # each row seen by two of the three fits
    np.testing.assert_allclose(found.probability, found.proportion)
    np.testing.assert_array_equal(found.right, found.frequent)
    np.testing.assert_allclose(
        found.claimed, np.repeat([c.max() / c.sum() for c in seen], [40 - c.sum() for c in seen])
    )
    assert found.weight @ found.right == np.bincount(labels)[0]
